//! Runs the catalogue of synchronisation bugs: every bug is found in one run, and its correct twin has no finding.

#![allow(clippy::unwrap_used)]

use ptx_vm::race::{Fault, Finding};
use ptx_vm::{
    Address, Arch, Argument, Completion, Detector, Launch, LaunchError, LaunchFailure, Machine, Module, Options,
};

const FILES: [(&str, &str); 5] = [
    ("barriers", include_str!("catalogue/barriers.txt")),
    ("copies", include_str!("catalogue/copies.txt")),
    ("global", include_str!("catalogue/global.txt")),
    ("hopper", include_str!("catalogue/hopper.txt")),
    ("tensor_memory", include_str!("catalogue/tensor_memory.txt")),
];

const BUFFER: usize = 1 << 16;

/// Sets `%t` to the thread, `%wp` and `%ln` to its warp and lane, `%cta` to the block, `%s` to the shared memory; `%a`,
/// `%b`, `%c` to three buffers (the first holds a pattern, the others zeroes); `%x0` to `4 t`, `%x1` to `%s + 4 t`,
/// `%d1` to `%b + 4 t`, `%e1` to `%c + 4 t`; `%p0` to thread 0, `%p1` to lane 0, `%p2` to warp 0, `%p3` to block 0.
const PRELUDE: &str = "
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc)
{
.reg .pred %p<10>;
.reg .b16 %h<10>;
.reg .b32 %x<40>;
.reg .b32 %t, %wp, %ln, %s, %cta;
.reg .f32 %f<4>;
.reg .b64 %d<20>;
.reg .b64 %a, %b, %c, %e1;
.shared .align 1024 .b8 smem[16384];
ld.param.u64 %a, [pa];
cvta.to.global.u64 %a, %a;
ld.param.u64 %b, [pb];
cvta.to.global.u64 %b, %b;
ld.param.u64 %c, [pc];
cvta.to.global.u64 %c, %c;
mov.u32 %t, %tid.x;
shr.u32 %wp, %t, 5;
and.b32 %ln, %t, 31;
mov.u32 %cta, %ctaid.x;
mov.u32 %s, smem;
shl.b32 %x0, %t, 2;
add.u32 %x1, %s, %x0;
mul.wide.u32 %d1, %t, 4;
add.u64 %e1, %c, %d1;
add.u64 %d1, %b, %d1;
setp.eq.u32 %p0, %t, 0;
setp.eq.u32 %p1, %ln, 0;
setp.eq.u32 %p2, %wp, 0;
setp.eq.u32 %p3, %cta, 0;
";

/// Lines that stand for others: a tensor map of `%a` is made in shared memory and published at `%d3`, 1 KiB after `%b`; one
/// thread loads 128 bytes by it; all wait for them.
///
/// The others are for 128 threads and tensor memory. Operands of 128 × 16 and 16 × 16 halves are in shared memory. The
/// accumulator is at `%x20`, with the warp's lanes at `%x22`. Thread 0 issues products.
const MACROS: [(&str, &str); 14] = [
    (
        "MAKE_MAP",
        "st.shared.u32 [%x1+12288], 0;
bar.warp.sync -1;
@%p0 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%s+12288], %a;
@%p0 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s+12288], 0;
@%p0 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%s+12288], 1;
@%p0 tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%s+12288], 0;
@%p0 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%s+12288], 0;
@%p0 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%s+12288], 0;
@%p0 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%s+12288], 0, 64;
@%p0 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%s+12288], 0, 1024;
@%p0 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%s+12288], 0, 1;
bar.warp.sync -1;
add.u64 %d3, %b, 1024;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d3], [%s+12288], 128;",
    ),
    (
        "LOAD_BY_MAP",
        "@%p0 mbarrier.init.shared::cta.b64 [%s+8192], 1;
fence.mbarrier_init.release.cluster;
bar.warp.sync -1;
mov.u32 %x9, 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %d4, [%s+8192], 128;
@%p0 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%d3, {%x9}], [%s+8192];",
    ),
    (
        "WAIT_FOR_LOAD",
        "WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p5, [%s+8192], 0;
@!%p5 bra WAIT;",
    ),
    (
        "TENSOR_MEMORY",
        "@%p0 mbarrier.init.shared::cta.b64 [%s+8192], 1;
st.shared.u32 [%x1+0], 0;
st.shared.u32 [%x1+512], 0;
st.shared.u32 [%x1+1024], 0;
st.shared.u32 [%x1+1536], 0;
st.shared.u32 [%x1+2048], 0;
st.shared.u32 [%x1+2560], 0;
st.shared.u32 [%x1+3072], 0;
st.shared.u32 [%x1+3584], 0;
st.shared.u32 [%x1+4096], 0;
fence.proxy.async.shared::cta;
@!%p2 bra ALLOCATED;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s+8256], 64;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
bar.sync 0;
ld.shared.u32 %x20, [%s+8256];
cvt.u64.u32 %d10, %s;
shr.u64 %d10, %d10, 4;
or.b64 %d10, %d10, 70437464178688;
add.u64 %d11, %d10, 256;
mov.u32 %x21, 134479888;
shl.b32 %x22, %wp, 21;
add.u32 %x22, %x22, %x20;
setp.ne.u32 %p4, 0, 0;
setp.eq.u32 %p6, 0, 0;",
    ),
    ("MULTIPLY", "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%x20], %d10, %d11, %x21, %p4;"),
    ("ACCUMULATE", "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%x20], %d10, %d11, %x21, %p6;"),
    ("COMMIT", "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%s+8192];"),
    (
        "WAIT_FOR_PRODUCT",
        "PRODUCT:
mbarrier.try_wait.parity.shared::cta.b64 %p5, [%s+8192], 0;
@!%p5 bra PRODUCT;",
    ),
    ("BEFORE", "tcgen05.fence::before_thread_sync;"),
    ("AFTER", "tcgen05.fence::after_thread_sync;"),
    ("LOAD_TENSOR", "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%x24, %x25, %x26, %x27}, [%x22];"),
    ("STORE_TENSOR", "tcgen05.st.sync.aligned.32x32b.x4.b32 [%x22], {%x0, %x1, %t, %ln};"),
    (
        "FREE",
        "tcgen05.fence::before_thread_sync;
bar.sync 0;
@!%p2 bra FREED;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %x20, 64;
FREED:",
    ),
    (
        "LAST_WAIT",
        "LAST:
mbarrier.try_wait.parity.shared::cta.b64 %p5, [%s+8192], 1;
@!%p5 bra LAST;",
    ),
];

/// When asynchronous work takes effect, and whether memory is weak.
type Mode = (Completion, bool);

struct Case<'a> {
    name: String,
    expected: Vec<&'a str>,
    grid: u32,
    block: u32,
    cluster: u32,
    arch: u32,
    launches: u32,
    every: u32,
    checks: u32,
    weak: u32,
    lines: Vec<&'a str>,
}

fn cases<'a>(file: &str, text: &'a str) -> Vec<Case<'a>> {
    text.split("=== ")
        .skip(1)
        .map(|case| {
            let mut lines = case.lines();
            let mut words = lines.next().unwrap().split_whitespace();
            let name = words.next().unwrap().trim_end_matches(':');
            let expected = words.next().unwrap().split('|').collect();
            let mut found = Case {
                name: format!("{file}::{name}"),
                expected,
                grid: 1,
                block: 64,
                cluster: 1,
                arch: 80,
                launches: 1,
                every: 0,
                checks: 0,
                weak: 0,
                lines: lines.filter(|l| !l.starts_with('#')).collect(),
            };
            for (key, value) in words.map(|word| word.split_once('=').unwrap()) {
                let value = value.parse().unwrap();
                match key {
                    "grid" => found.grid = value,
                    "block" => found.block = value,
                    "cluster" => found.cluster = value,
                    "arch" => found.arch = value,
                    "launches" => found.launches = value,
                    "every" => found.every = value,
                    "checks" => found.checks = value,
                    "weak" => found.weak = value,
                    _ => panic!("{name}: unknown key {key}"),
                }
            }
            found
        })
        .collect()
}

/// The lines for which a line stands.
fn expanded(line: &str) -> &str {
    MACROS.iter().find(|(name, _)| *name == line).map_or(line, |(_, lines)| lines)
}

impl Case<'_> {
    fn machine(&self) -> Arch {
        match self.arch {
            80 => Arch::Sm80,
            90 => Arch::Sm90a,
            100 => Arch::Sm100a,
            other => panic!("{}: no architecture {other}", self.name),
        }
    }

    /// The correct kernel, or the wrong one.
    fn ptx(&self, correct: bool) -> String {
        let target = self.machine().name();
        let (kept, dropped) = if correct { ("+ ", "- ") } else { ("- ", "+ ") };
        let lines = self.lines.iter().filter(|l| !l.starts_with(dropped)).map(|l| l.strip_prefix(kept).unwrap_or(l));
        let body: Vec<&str> = lines.map(expanded).collect();
        format!(".version 8.6\n.target {target}{PRELUDE}{}\nret;\n}}\n", body.join("\n"))
    }

    fn run(&self, correct: bool, mode: Mode) -> Result<Vec<Finding>, LaunchFailure> {
        let ptx = self.ptx(correct);
        let module = Module::parse(&ptx).unwrap_or_else(|error| panic!("{}: {error}\n{ptx}", self.name));
        let options = Options::default().arch(self.machine()).workers(1).detector(Detector::On).completion(mode.0);
        let options = options.memory_checks(self.checks == 1).weak_memory(mode.1);
        let machine = Machine::new(options);
        let buffers: Vec<Address> = ["a", "b", "c"]
            .iter()
            .map(|name| {
                let address = machine.allocate(BUFFER as u64, name).unwrap();
                let fill = if *name == "a" { 3 } else { 0 };
                machine.write(address, &vec![fill; BUFFER]).unwrap();
                address
            })
            .collect();
        let launch = Launch::new([self.grid, 1, 1], [self.block, 1, 1]).cluster([self.cluster, 1, 1]);
        let arguments: Vec<_> = buffers.iter().map(|&b| Argument::Address(b)).collect();
        let mut races = Vec::new();
        for number in 0..self.launches {
            let launch = launch.clone().overlaps_previous(number > 0);
            races.extend(machine.launch(&module, "k", &launch, &arguments)?.races);
        }
        Ok(races)
    }
}

/// The name that a case uses for a finding.
fn kind(finding: &Finding) -> String {
    match finding {
        Finding::Race(race) => format!("{:?}", race.cause),
        Finding::Fault { fault, .. } => {
            let text = format!("{:?}", fault as &Fault);
            text.split([' ', '{']).next().unwrap_or_default().to_string()
        }
    }
}

/// Errors with which the executor itself ends a launch.
fn is_refusal(error: &LaunchError) -> Option<&'static str> {
    let text = error.to_string();
    let kinds = [
        ("wait for lanes that never come", "DivergentBarrier"),
        ("too many arrivals", "OverArrival"),
        ("takes no part", "InactiveLane"),
        ("is not in the member mask", "MemberMask"),
        ("and pass it by", "MemberMask"),
        ("bytes past the end of", "PastVariable"),
        ("a register that no instruction of this thread has written", "UnwrittenRegister"),
        ("of the thread's local memory", "UnwrittenLocal"),
        ("of another thread's local memory", "ForeignLocal"),
        ("must be a power of two from 32 to 512", "TensorColumns"),
        ("must not grow", "TensorGrows"),
        ("given up its right to allocate", "TensorPermit"),
        ("that no tcgen05.alloc has returned", "TensorFreed"),
        ("free them by tcgen05.dealloc", "TensorKept"),
        ("it may access lanes", "TensorLanes"),
        ("the block has allocated", "TensorBounds"),
        ("of tensor memory, which nothing has written", "TensorUnwritten"),
        ("let one thread issue it", "TensorIssue"),
        ("the matrix descriptor", "TensorDescriptor"),
    ];
    kinds.into_iter().find(|(words, _)| text.contains(words)).map(|(_, kind)| kind)
}

/// Empty if the case behaves as it says.
fn check(case: &Case<'_>) -> Vec<String> {
    let modes = [
        (Completion::Eager, false),
        // As the command runs kernels.
        (Completion::Random, true),
        (Completion::Lazy, false),
        (Completion::Random, false),
    ];
    let modes = match (case.every, case.weak) {
        (1, _) => &modes[..],
        (_, 1) => &modes[1..2],
        _ => &modes[..2],
    };
    modes.iter().flat_map(|&mode| check_in(case, mode)).collect()
}

fn check_in(case: &Case<'_>, mode: Mode) -> Vec<String> {
    let mut wrong = Vec::new();
    match case.run(true, mode) {
        Ok(findings) => {
            wrong.extend(findings.iter().map(|f| format!("{}: the correct kernel: {f}", case.name)));
        }
        Err(error) => wrong.push(format!("{}: the correct kernel: {error}", case.name)),
    }
    let is_expected = |found: &String| case.expected.contains(&found.as_str());
    match case.run(false, mode) {
        Ok(findings) => {
            let kinds: Vec<_> = findings.iter().map(kind).collect();
            if !kinds.iter().any(is_expected) {
                wrong.push(format!("{}: found {kinds:?}, not {:?}", case.name, case.expected));
            }
        }
        Err(failure) if failure.races.iter().map(kind).any(|kind| is_expected(&kind)) => {}
        Err(LaunchFailure { error: LaunchError::Deadlock { .. }, .. }) if case.expected.contains(&"Deadlock") => {}
        Err(failure) if is_refusal(&failure.error).is_some_and(|kind| case.expected.contains(&kind)) => {}
        Err(error) => wrong.push(format!("{}: the wrong kernel: {error}", case.name)),
    }
    wrong
}

fn check_file(file: &str) {
    let text = FILES.iter().find(|(name, _)| *name == file).unwrap().1;
    let cases = cases(file, text);
    assert!(!cases.is_empty());
    let wrong: Vec<String> = cases.iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn barriers() {
    check_file("barriers");
}

#[test]
fn copies() {
    check_file("copies");
}

#[test]
fn global() {
    check_file("global");
}

#[test]
fn hopper() {
    check_file("hopper");
}

#[test]
fn tensor_memory() {
    check_file("tensor_memory");
}

/// Launches kernels one after another on one buffer of 256 bytes. Each may overlap the previous one. Gives all
/// findings.
fn chain(text: &str, kernels: &[&str], options: Options) -> Vec<String> {
    let text = format!(".version 8.6\n.target sm_90a\n.address_size 64\n{text}");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let machine = Machine::new(options.arch(Arch::Sm90a).workers(1).detector(Detector::On));
    let buffer = machine.allocate(256, "buffer").unwrap();
    machine.write(buffer, &[0; 256]).unwrap();
    let mut found = vec![];
    for (number, kernel) in kernels.iter().enumerate() {
        let launch = Launch::new([2, 1, 1], [32, 1, 1]).overlaps_previous(number > 0);
        let report = machine.launch(&module, kernel, &launch, &[Argument::Address(buffer)]).unwrap();
        found.extend(report.races.iter().map(kind));
    }
    found
}

#[test]
fn a_kernel_that_never_waits_hides_the_one_before_it() {
    let kernel = |name: &str, body: &str| {
        format!(
            ".visible .entry {name}(.param .u64 p) {{ .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %q; \
             ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %q, %r1, 0; {body} ret; }}\n"
        )
    };
    let text = [
        kernel("writes", "@%q st.global.u32 [%rd1], 7;"),
        kernel("idles", ""),
        kernel("waits", "griddepcontrol.wait;"),
        kernel("reads", "griddepcontrol.wait; ld.global.u32 %r2, [%rd1];"),
        kernel("hurries", "ld.global.u32 %r2, [%rd1];"),
    ]
    .concat();
    let chain = |kernels: &[&str]| chain(&text, kernels, Options::default());
    assert_eq!(chain(&["writes", "reads"]), Vec::<String>::new());
    assert_eq!(chain(&["writes", "waits", "reads"]), Vec::<String>::new());
    assert_eq!(chain(&["writes", "idles", "reads"]), ["EarlierKernel"]);
    assert_eq!(chain(&["writes", "idles", "idles", "reads"]), ["EarlierKernel"]);
    assert_eq!(chain(&["writes", "idles", "waits", "reads"]), ["EarlierKernel"]);
    assert_eq!(chain(&["writes", "hurries"]), ["PreviousKernel"]);
}

#[test]
fn writes_of_one_value_are_found_where_that_is_asked_for() {
    let text =
        ".visible .entry k(.param .u64 p) { .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], 7; ret; }";
    assert_eq!(chain(text, &["k"], Options::default()), Vec::<String>::new());
    assert_eq!(chain(text, &["k"], Options::default().same_values(true)), ["SameValue"]);
}

#[test]
fn findings_of_product_registers_can_be_switched_off() {
    let text = FILES.iter().find(|(name, _)| *name == "hopper").unwrap().1;
    let cases = cases("hopper", text);
    let case = cases.iter().find(|case| case.name.ends_with("::sum_read_before_the_wait")).unwrap();
    let module = Module::parse(&case.ptx(false)).unwrap();
    for (on, expected) in [(true, 1), (false, 0)] {
        let options = Options::default().arch(Arch::Sm90a).workers(1).detector(Detector::On).wgmma_registers(on);
        let machine = Machine::new(options.memory_checks(false));
        let buffer = Argument::Address(machine.allocate(BUFFER as u64, "b").unwrap());
        let launch = Launch::new([1, 1, 1], [128, 1, 1]);
        let report = machine.launch(&module, "k", &launch, &[buffer, buffer, buffer]).unwrap();
        assert_eq!(report.races.iter().map(kind).filter(|kind| kind == "WgmmaRegister").count(), expected);
    }
}

#[test]
fn there_are_enough_cases_and_each_pair_differs() {
    let all: Vec<_> = FILES.iter().flat_map(|(file, text)| cases(file, text)).collect();
    assert!(all.len() >= 40, "{}", all.len());
    for case in &all {
        assert_ne!(case.ptx(true), case.ptx(false), "{}", case.name);
    }
}
