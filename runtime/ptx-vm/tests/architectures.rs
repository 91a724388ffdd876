//! Each architecture of the table has its instructions and limits, and refuses what only others have.

#![allow(clippy::unwrap_used)]

use ptx_vm::{Arch, Launch, Machine, Module, Options};

/// The result of a launch, in words, of a kernel with this body that was made for this target.
fn launched(arch: Arch, target: &str, body: &str, shape: &Launch) -> Result<(), String> {
    let text = format!(
        ".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k() {{ .reg .b32 %r<20>; .reg .b64 %rd<9>; \
         .reg .f32 %f<20>; .reg .pred %p<3>;\n{body}\nret; }}\n"
    );
    let module = Module::parse(&text).map_err(|error| error.to_string())?;
    let machine = Machine::new(Options::default().arch(arch).workers(1));
    machine.launch(&module, "k", shape, &[]).map(|_| ()).map_err(|failure| failure.to_string())
}

fn warp() -> Launch {
    Launch::new([1, 1, 1], [32, 1, 1])
}

/// The architectures that run an instruction, after others on the line above. The architectures that don't must name the
/// instruction, its line and themselves.
fn machines_with(before: &str, instruction: &str) -> Vec<Arch> {
    let opcode = instruction.split([' ', ';']).next().unwrap();
    let runs = |arch: &Arch| match launched(*arch, "sm_80", &format!("{before}\n{instruction}"), &warp()) {
        Ok(()) => true,
        Err(message) => {
            assert!(message.contains(&format!("PTX line 6: `{opcode}`: {arch} has no")), "{arch}: {message}");
            false
        }
    };
    Arch::ALL.into_iter().filter(runs).collect()
}

#[test]
fn instructions_run_where_the_architecture_has_them() {
    use Arch::{Sm89, Sm90a, Sm100a, Sm120a, Sm121a};
    let registers = "{%r0, %r1, %r2, %r3}, {%r4, %r5}";
    let zeros: String = (0..6).map(|i| format!("mov.b32 %r{i}, 0; ")).collect();
    let sums: String = (0..4).map(|i| format!("mov.b32 %f{i}, 0f00000000; ")).collect();
    let product = |opcode: &str| format!("{opcode} {{%f4, %f5, %f6, %f7}}, {registers}, {{%f0, %f1, %f2, %f3}};");
    let with_values = |instruction: &str| machines_with(&format!("{zeros}{sums}"), instruction);
    let halves = product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
    assert_eq!(with_values(&halves), Arch::ALL);
    let bytes = product("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32");
    assert_eq!(with_values(&bytes), [Sm89, Sm90a, Sm100a, Sm120a, Sm121a]);
    assert_eq!(machines_with("", "wgmma.fence.sync.aligned;"), [Sm90a]);
    assert_eq!(machines_with("", "griddepcontrol.wait;"), [Sm90a, Sm100a, Sm120a, Sm121a]);
    assert_eq!(machines_with("", "elect.sync %r1|%p1, 0xffffffff;"), [Sm90a, Sm100a, Sm120a, Sm121a]);
    let mixed = product("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32");
    assert_eq!(with_values(&mixed), [Sm120a, Sm121a]);
    let conversion = "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f0;";
    let declared = format!("{{ .reg .b16 %h<2>; {sums}");
    assert_eq!(machines_with(&declared, &format!("{conversion} }}")), [Sm89, Sm90a, Sm100a, Sm120a, Sm121a]);
}

#[test]
fn a_refusal_names_the_machines_that_have_it() {
    let message = launched(Arch::Sm120a, "sm_90", "wgmma.fence.sync.aligned;", &warp()).unwrap_err();
    assert!(message.contains("sm_120a has no `wgmma`; it is there on sm_90a"), "{message}");
}

#[test]
fn block_scales_are_refused_on_ada() {
    let opcode = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0";
    let product = |selector: u32| {
        let zeros: String = (0..8).map(|i| format!("mov.b32 %r{i}, 0; ")).collect();
        let sums: String = (0..4).map(|i| format!("mov.b32 %f{i}, 0f00000000; ")).collect();
        format!(
            "{zeros}{sums}\n{opcode} {{%f4, %f5, %f6, %f7}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, \
             {{%f0, %f1, %f2, %f3}}, {{%r6}}, {{0, {selector}}}, {{%r7}}, {{0, 0}};"
        )
    };
    let message = launched(Arch::Sm89, "sm_89", &product(0), &warp()).unwrap_err();
    let refused = format!("PTX line 6: `{opcode}`: sm_89 has no `mma.sync` with block scales");
    assert!(message.contains(&refused), "{message}");
    assert_eq!(launched(Arch::Sm120a, "sm_120a", &product(0), &warp()), Ok(()));
    let message = launched(Arch::Sm120a, "sm_120a", &product(2), &warp()).unwrap_err();
    assert!(message.contains("byte 0 and thread 2 select no scales of A"), "{message}");
}

#[test]
fn only_machines_with_clusters_launch_them() {
    let pair = Launch::new([2, 1, 1], [32, 1, 1]).cluster([2, 1, 1]);
    for arch in Arch::ALL {
        let launched = launched(arch, "sm_80", "", &pair);
        if arch.capability().0 >= 9 {
            assert_eq!(launched, Ok(()), "{arch}");
        } else {
            let message = launched.unwrap_err();
            assert!(message.contains(&format!("{arch} has no clusters")), "{message}");
        }
    }
}

#[test]
fn a_block_has_as_much_shared_memory_as_the_architecture_gives() {
    let limits = [163, 99, 163, 99, 227, 227, 99, 99];
    for (arch, kilobytes) in Arch::ALL.into_iter().zip(limits) {
        let with = |bytes| launched(arch, "sm_80", "", &warp().shared_bytes(bytes));
        assert_eq!(with(kilobytes * 1024), Ok(()), "{arch}");
        let message = with(kilobytes * 1024 + 1).unwrap_err();
        assert!(message.contains(&format!("a block of {arch} has at most {}", kilobytes * 1024)), "{message}");
    }
}

#[test]
fn modules_run_where_their_target_does() {
    for (arch, target) in [(Arch::Sm120a, "sm_90a"), (Arch::Sm90a, "sm_120"), (Arch::Sm121a, "sm_120a")] {
        let message = launched(arch, target, "", &warp()).unwrap_err();
        assert!(message.contains(&format!("the module is for {target}, the machine is {arch}")), "{message}");
    }
    assert_eq!(launched(Arch::Sm121a, "sm_120f", "", &warp()), Ok(()));
    assert_eq!(launched(Arch::Sm89, "sm_86", "", &warp()), Ok(()));
}
