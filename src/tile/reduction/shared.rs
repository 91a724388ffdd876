//! Reductions in shared memory. Neighbouring lanes share an output: each combines some of the elements, at a constant
//! distance, then a butterfly of shuffles combines the lanes, and the first lane writes. For a few outputs of many
//! elements, the whole block does one output after another. A single thread runs a loop.

use super::TileReduction;
use super::emit::{Arithmetic, index};
use super::mapping::{Loop, Mapping};
use crate::cuda::Writer;
use crate::tile::buffer::ExecutionScope;
use crate::tile::collective::{Collective, CollectiveText};

/// Lanes of a warp.
const WARP: usize = 32;

/// How the threads of a scope share the work.
struct Sharing {
    threads: usize,
    /// The number of lanes of an output: a power of two.
    width: usize,
    /// The number of outputs that are done at once.
    groups: usize,
}

impl Sharing {
    fn of(threads: usize, elements: usize) -> Self {
        let most = 1 << threads.ilog2();
        let width = elements.next_power_of_two().min(WARP).min(most);
        Self { threads, width, groups: threads / width }
    }

    /// The mask of the lanes that take part in shuffles, if not all lanes of the warp do.
    fn mask(&self, thread: &str) -> Option<String> {
        let (warps, tail) = (self.threads / WARP, self.threads % WARP);
        let lanes = (1_u32 << tail) - 1;
        match warps {
            _ if tail == 0 => None,
            0 => Some(format!("{lanes:#010x}u")),
            _ => Some(format!("{thread} / {WARP} == {warps} ? {lanes:#010x}u : {:#010x}u", u32::MAX)),
        }
    }
}

/// The statements of a reduction that has been checked.
pub(super) fn emit(reduction: &TileReduction, mapping: &Mapping) -> String {
    if reduction.scope() == ExecutionScope::Thread {
        return super::local::emit(reduction, mapping);
    }
    let sharing = Sharing::of(reduction.scope().threads(reduction.block_threads()), mapping.elements());
    let mut code = Writer::new();
    code.lines("{");
    shared(&mut code, reduction, mapping, &sharing);
    code.lines("}");
    code.text()
}

/// Whether a block should share each output. The outputs are few: if a warp shared each, at least half of the threads
/// would be idle. The elements are many: all threads get some.
pub(super) fn suits_block(reduction: &TileReduction, mapping: &Mapping) -> Result<(), String> {
    let (threads, outputs, elements) = (reduction.block_threads(), mapping.outputs(), mapping.elements());
    if 2 * WARP * outputs > threads || elements < 2 * threads {
        return Err(format!(
            "{outputs} outputs of {elements} elements don't need all of {threads} threads for each: that takes at most \
             {} outputs of at least {} elements",
            threads / (2 * WARP),
            2 * threads
        ));
    }
    Ok(())
}

/// The statements with which the whole block does one output after another.
///
/// # Errors
/// None for a block that a launch can have.
pub(super) fn emit_block(reduction: &TileReduction, mapping: &Mapping) -> Result<String, String> {
    let arithmetic = Arithmetic::new(reduction.op(), reduction.source().element());
    let collective = Collective::new(&reduction.block_extents(), &[0, 1, 2]);
    let bytes = if matches!(arithmetic.ty(), "double" | "i64") { 8 } else { 4 };
    let plan = collective.state(&[bytes]).plan().map_err(|error| error.to_string())?;
    let (threads, outputs, elements) = (reduction.block_threads(), mapping.outputs(), mapping.elements());
    let (ty, place) = (arithmetic.ty(), linear_thread(reduction.block_extents()));
    let from = digits("output", &mapping.spatial, &|l| l.source);
    let from = from.into_iter().chain(digits("red", &mapping.reduced, &|l| l.source));
    let from = format!("{}[{}]", reduction.source().name(), index(from, mapping.source_offset));
    let to = index(digits("output", &mapping.spatial, &|l| l.destination), mapping.destination_offset);
    let to = format!("{}[{to}]", reduction.destination().name());
    let result = match reduction.accumulates() {
        true => arithmetic.combine(&arithmetic.load(&to), "total"),
        false => "total".to_owned(),
    };
    let combine = |x: &[String], y: &[String]| vec![arithmetic.combine(&x[0], &y[0])];
    let meet = CollectiveText { prefix: "block", state: &[(ty, "total")], combine: &combine, arrays: None };
    let (meet, identity) = (plan.cuda(&meet), arithmetic.identity());
    let meet = meet.trim_end();
    let (take, put) = (arithmetic.combine("total", &arithmetic.load(&from)), arithmetic.store(&result));
    let mut code = Writer::new();
    writeln! { code, "
        {{
            const int thread = {place};
            for (int output = 0; output < {outputs}; ++output) {{
                {ty} total = {identity};
                for (int red = thread; red < {elements}; red += {threads})
                    total = {take};
                {meet}
                if (thread == 0) {to} = {put};
            }}
            __syncthreads();  // the results can be read
        }}" }
    Ok(code.text())
}

fn shared(code: &mut Writer, reduction: &TileReduction, mapping: &Mapping, sharing: &Sharing) {
    let arithmetic = Arithmetic::new(reduction.op(), reduction.source().element());
    let Sharing { threads, width, groups } = *sharing;
    let outputs = mapping.outputs();
    let place = linear_thread(reduction.block_extents());
    let within = if reduction.scope() == ExecutionScope::Cta { place } else { format!("({place}) % {threads}") };
    writeln!(code, "const int thread = {within};");
    writeln!(code, "const int rank = thread % {width}, group = thread / {width};");
    let mask = sharing.mask("thread").filter(|_| width > 1);
    if let Some(mask) = &mask {
        writeln!(code, "const unsigned int mask = {mask};");
    }
    // Every thread does the same number of iterations, so that all lanes of a warp take part in the butterfly.
    let rounds = outputs.div_ceil(groups);
    let output = if rounds > 1 { "first + group" } else { "group" };
    let whole = outputs.is_multiple_of(groups) && groups * width == threads;
    let condition = match (outputs < rounds * groups, groups * width < threads) {
        (true, true) => Some(format!("group < {groups} && output < {outputs}")),
        (true, false) => Some(format!("output < {outputs}")),
        (false, true) => Some(format!("group < {groups}")),
        (false, false) => None,
    };
    let body = |code: &mut Writer| {
        writeln!(code, "const int output = {output};");
        let (ty, identity) = (arithmetic.ty(), arithmetic.identity());
        writeln!(code, "{ty} total = {identity};");
        let spatial = |stride: &dyn Fn(&Loop) -> usize| digits("output", &mapping.spatial, stride);
        let from = spatial(&|l| l.source).into_iter().chain(digits("red", &mapping.reduced, &|l| l.source));
        let from = format!("{}[{}]", reduction.source().name(), index(from, mapping.source_offset));
        let to = index(spatial(&|l| l.destination), mapping.destination_offset);
        let to = format!("{}[{to}]", reduction.destination().name());
        let take = format!("total = {};", arithmetic.combine("total", &arithmetic.load(&from)));
        let elements = mapping.elements();
        let each = format!("for (int red = rank; red < {elements}; red += {width})");
        match &condition {
            Some(condition) => writeln!(code, "if ({condition})\n    {each}\n        {take}"),
            None => writeln!(code, "{each}\n    {take}"),
        }
        if width > 1 {
            let mask = if mask.is_some() { ", mask" } else { "" };
            writeln!(code, "total = reduce_lanes<{}, 1, {width}>(total{mask});", arithmetic.functor());
        }
        let result = match reduction.accumulates() {
            true => arithmetic.combine(&arithmetic.load(&to), "total"),
            false => "total".to_owned(),
        };
        let writes = if whole { "rank == 0".to_owned() } else { join("rank == 0", condition.as_deref()) };
        writeln!(code, "if ({writes}) {to} = {};", arithmetic.store(&result));
    };
    if rounds > 1 {
        writeln!(code, "for (int first = 0; first < {outputs}; first += {groups}) {{");
        body(code);
        code.lines("}");
    } else {
        body(code);
    }
    match reduction.scope() {
        ExecutionScope::Cta => code.lines("__syncthreads();  // the results can be read"),
        ExecutionScope::Warpgroup => {
            let warpgroup = format!("({}) / {threads}", linear_thread(reduction.block_extents()));
            writeln!(code, "named_barrier(8 + {warpgroup}, {threads});  // the results can be read");
        }
        ExecutionScope::Warp | ExecutionScope::Thread => code.lines("__syncwarp();  // the results can be read"),
    }
}

fn join(test: &str, condition: Option<&str>) -> String {
    condition.map_or_else(|| test.to_owned(), |condition| format!("{test} && {condition}"))
}

/// The digits of a counter over nested loops, each with its stride.
fn digits(counter: &str, loops: &[Loop], stride: &dyn Fn(&Loop) -> usize) -> Vec<(String, usize)> {
    if let [one] = loops {
        return vec![(counter.to_owned(), stride(one))];
    }
    let mut below: usize = loops.iter().map(|l| l.extent).product();
    let mut terms = Vec::new();
    for (i, l) in loops.iter().enumerate() {
        below /= l.extent;
        let digit = match (i, below) {
            (0, _) => format!("({counter} / {below})"),
            (_, 1) => format!("({counter} % {})", l.extent),
            _ => format!("({counter} / {below} % {})", l.extent),
        };
        terms.push((digit, stride(l)));
    }
    terms
}

/// A thread's number in the block.
fn linear_thread([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => "static_cast<int>(threadIdx.x)".to_owned(),
        (_, 1) => format!("static_cast<int>(threadIdx.x + {x} * threadIdx.y)"),
        _ => format!("static_cast<int>(threadIdx.x + {x} * (threadIdx.y + {y} * threadIdx.z))"),
    }
}
