//! Writes the kernels for sm_90a.
//!
//! As for sm_80, the configuration, the arguments' struct, the function of one element, the visitor and the entry are
//! generated; and also the product instruction, whose list of registers depends on the tile's width.

mod configuration;
mod inputs;
mod outputs;
mod tcgen05;
mod visitor;
mod wgmma;

use self::visitor::VisitorText;
use crate::evt::Computation;
use crate::gemm::emit::arguments::FamilyHeaders;
use crate::gemm::emit::needed;
use crate::gemm::emit::text::{Emitted, KernelText};
use crate::gemm::families::sm90::kernel::structs::STRUCTS;
use crate::gemm::families::sm90::kernel::{PARAMETER_ALIGNMENT, SharedMap, Sm90Key, TensorCores, Traffic};
use crate::gemm::kernel::ArgumentViews;
use crate::gemm::kernel::device_struct::Part;
use crate::gemm::problem::Divided;

/// Writes a kernel.
pub(crate) fn emit(of: &Computation<'_>, (key, views): (&Sm90Key, ArgumentViews), symbol: &str) -> Emitted {
    let tree = of.tree;
    let traffic = Traffic::of(tree, key.direct);
    let mut kernel = KernelText::new(format!("{}.cu", tree.name()), of, key.fast_math, views);
    let (name, file) = (tree.name(), tree.file());
    let parts = key.parts();
    let (common, bytes) = (Part::cuda(&parts, key.accumulators), Part::bytes(&parts, key.accumulators));
    let mut family: Vec<&str> = parts.iter().map(|part| part.header).collect();
    if key.instruction.converts_b() {
        family.insert(1, "sm90/mixed.cuh");
    }
    if key.cores == TensorCores::Tcgen05 {
        family.insert(1, "sm100/products.cuh");
    }
    let headers = FamilyHeaders {
        kernel: &family,
        structs: STRUCTS,
        random: Some("sm90/random.cuh"),
        bits: Some("sm90/bits.cuh"),
        digits: Some("sm90/digits.cuh"),
    };
    kernel.begin(&[&format!("GEMM with the epilogue `{name}` ({file})."), &format!("{key}.")], &headers);
    let rounds = key.epilogue_rounds(tree.cost(), &traffic);
    kernel.code.lines(&key.configuration(&SharedMap::of(key, &traffic), rounds));
    if key.cores == TensorCores::Tcgen05 {
        tcgen05::specialisations(&mut kernel.code, key);
    }
    match key.reading.divided() {
        None => {}
        Some(Divided::Rows) => {
            let over_groups = tree.reductions().any(|(.., reduction)| reduction.batch);
            writeln! { kernel.code, "
                template <>
                struct sm90::Scheduler<Config> : sm90::GroupScheduler<Config, {over_groups}> {{
                    using GroupScheduler::GroupScheduler;
                }};" }
        }
        Some(Divided::Depth) => writeln! { kernel.code, "
            template <>
            struct sm90::Scheduler<Config> : sm90::DepthScheduler<Config> {{
                using DepthScheduler::DepthScheduler;
            }};
            template <>
            struct sm90::Loads<Config> : sm90::DepthLoads<Config> {{}};" },
    }
    if let Some(patches) = key.reading.patches() {
        let transposed = if key.reading.is_transposed() { "Transposed" } else { "" };
        writeln! { kernel.code, "
            template <>
            struct sm90::Loads<Config> : sm90::{transposed}PatchLoads<Config, {}> {{}};", patches.axes }
    }
    if key.reading.is_picked() {
        writeln! { kernel.code, "
            template <>
            struct sm90::Loads<Config> : sm90::NoLoads {{}};
            template <>
            __device__ __forceinline__ void sm90::Mainloop<Config>::init(u32 shared) {{
                sm90::PickedLoads<Config>::init(shared);
            }}
            template <>
            __device__ __forceinline__ u32 sm90::Mainloop<Config>::uniform_stage(const Ring& ring) {{
                return sm90::PickedLoads<Config>::stage_of(ring);
            }}" }
    }
    if key.instruction.converts_b() {
        let (a, b) = key.instruction.elements();
        writeln! { kernel.code, "
            template <>
            struct sm90::Products<Config> : sm90::MixedProducts<Config, {}, {}> {{}};", b.name(), a.name() }
    }
    kernel.code.blank();
    match key.cores {
        TensorCores::Wgmma => wgmma::multiply(&mut kernel.code, key),
        TensorCores::Tcgen05 => tcgen05::multiply(&mut kernel.code, key),
    }
    kernel.definitions();
    let maps = traffic.maps(key).len();
    let of_tail = kernel.tail.as_ref().map_or(0, |tail| tail.epilogue.arguments.layout.size());
    let whole = 128 * maps + bytes + kernel.epilogue.arguments.layout.size() + of_tail;
    let whole = whole.next_multiple_of(PARAMETER_ALIGNMENT);
    kernel.parameters(
        &format!("sm90::TensorMap maps[{maps}];\n{common} common;"),
        &format!("sizeof({common}) == {bytes} && sizeof(Parameters) == {whole}"),
    );
    if key.reading.divided() != Some(Divided::Depth) {
        needed::specialisation(&mut kernel.code, tree);
    }
    VisitorText::write(&mut kernel.code, key, &traffic, &kernel.epilogue, kernel.tail.as_ref());
    if key.reading.is_picked() {
        writeln! { kernel.code, "

            template <>
            __device__ __forceinline__ void sm90::Gemm<Config, Multiply, Visitor, Parameters>::produce(
                const Parameters& parameters, const Cluster& cluster, u32 shared) {{
                sm90::produce_picked<Config, Visitor>(parameters, cluster, shared);
            }}" }
    }
    let arguments = "epilogue::Config, epilogue::Multiply, epilogue::Visitor, epilogue::Parameters";
    let call = match key.reading.divided() {
        None => format!("sm90::Gemm<{arguments}>::run"),
        Some(Divided::Rows) => format!("sm90::group_gemm<{arguments}>"),
        Some(Divided::Depth) => format!("sm90::depth_gemm<{arguments}>"),
    };
    let mut emitted = kernel.finish(symbol, &format!("{}, 1", key.threads()), &call);
    emitted.source.sites.extend(key.reading.sites());
    emitted
}
