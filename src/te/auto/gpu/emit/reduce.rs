//! Writes CUDA C++ of automatic reductions: the template arguments of the kernels in `device/te/reduce.cuh`.

use super::context::KernelContext;
use super::element::element_struct;
use super::field::{Field, ReduceField};
use super::frame::{Emitted, Frame};
use super::loops::Side;
use crate::ElementType;
use crate::cuda::Writer;
use crate::expr::identifier::sanitize;
use crate::te::auto::gpu::key::{ReduceKey, ThreadMapping};
use crate::te::auto::pattern::fused::Reduction;
use crate::te::cuda::register;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;
use crate::te::text::identifier;

/// Writes the kernel.
pub(in crate::te::auto) fn emit(reduction: &Reduction, key: &ReduceKey) -> Result<Emitted, TeError> {
    let outputs: Vec<Tensor> = reduction.outputs.iter().map(|output| output.tensor.clone()).collect();
    let mut context = KernelContext::new(&reduction.axes, &reduction.reads.list, &outputs, &key.loops);
    // With contraction, results are those of this device only.
    if key.contract && outputs.iter().all(|output| has_at_most_11_bits(output.dtype())) {
        context.library.approximate();
    }
    let mut fields = context.fields(&reduction.expressions(), &[Side::Outer, Side::Inner]);
    fields.extend(ReduceField::ALL.map(Field::Reduce));
    if key.split {
        fields.extend(ReduceField::SPLIT.map(Field::Reduce));
    }
    let mut code = Writer::new();
    configuration(&mut code, key, reduction.applies());
    writeln!(code, "template <int K> struct Pass;");
    for (number, pass) in reduction.passes.iter().enumerate() {
        writeln!(code, "\n\n// What is reduced in pass {number}.\ntemplate <> struct Pass<{number}> {{");
        let sides = (pass.left.as_slice(), pass.right.as_slice());
        combination(&mut code, &mut context, &pass.types(), sides, &pass.result, &pass.identity)?;
        writeln!(code, "}};");
    }
    writeln!(code, "\n\n// The totals of an output.\nstruct Totals {{");
    for number in 0..reduction.passes.len() {
        writeln!(code, "Pass<{number}>::Value pass{number};");
    }
    writeln!(code, "}};\n");
    context.parameters(&mut code, &fields);
    code.blank();
    element_struct(&mut code, &mut context, reduction, key)?;

    let title = reduction.outputs[0].tensor.name();
    let what = if reduction.passes.is_empty() { "map" } else { "reduction" };
    let function = match key.mapping {
        ThreadMapping::Rows { .. } => "reduce_rows",
        ThreadMapping::Columns { .. } => "reduce_columns",
        ThreadMapping::Points => "map_points",
    };
    let frame = Frame {
        what: format!("The {what} `{title}`"),
        title: &title,
        symbol: sanitize(&identifier(&format!("{}_{what}", reduction.outputs[0].tensor.operation().name()))),
        header: "te/reduce.cuh",
        // If told that one block on an SM is enough, the compiler uses more registers for loads in flight; otherwise it
        // saves them, which is right where elements are kept in registers.
        bounds: if key.chunks_in_registers > 0 { key.threads.to_string() } else { format!("{}, 1", key.threads) },
        call: format!("{function}<epilogue::Config>(epilogue::Element{{parameters}})"),
        contract: key.contract,
    };
    Ok(frame.around(code, &context.library, fields))
}

/// Whether elements of a type have at most 11 significant bits, as all floats of at most 16 bits do.
fn has_at_most_11_bits(dtype: DType) -> bool {
    matches!(dtype, DType::Number(ElementType::F16 | ElementType::BF16 | ElementType::F8E4M3 | ElementType::F8E5M2))
}

fn configuration(code: &mut Writer, key: &ReduceKey, applies: bool) {
    let mapping = match key.mapping {
        ThreadMapping::Rows { group } => format!("GROUP = {group}, "),
        ThreadMapping::Columns { across } => format!("ACROSS = {across}, "),
        ThreadMapping::Points => String::new(),
    };
    let ReduceKey { threads, unroll, chunks_in_registers: held, even, split, ordered, exact, .. } = key;
    writeln! { code, "
        constexpr int VECTOR = {};

        struct Config {{
            static constexpr int THREADS = {threads}, {mapping}VECTOR = epilogue::VECTOR, UNROLL = {unroll}, HELD = {held};
            static constexpr bool EVEN = {even}, SPLIT = {split}, ORDERED = {ordered}, EXACT = {exact}, APPLY = {applies};
        }};", key.loops.vector }
    code.blank();
}

/// Writes the members of a struct that combines tuples.
pub(super) fn combination(
    code: &mut Writer,
    context: &mut KernelContext<'_>,
    types: &[DType],
    (left, right): (&[Var], &[Var]),
    result: &[Expr],
    identity: &[Expr],
) -> Result<(), TeError> {
    for (i, (left, right)) in left.iter().zip(right).enumerate() {
        context.call(*left, format!("left.v{i}"));
        context.call(*right, format!("right.v{i}"));
    }
    let shuffled = |function: &str, place: &str| -> String {
        let one = |i: usize| format!("epilogue::{function}(0xffffffffu, x.v{i}, {place}, width)");
        (0..types.len()).map(one).collect::<Vec<_>>().join(", ")
    };
    let (identity, result) = (context.values(identity)?, context.values(result)?);
    let (down, lane) = (shuffled("shuffle_down", "distance"), shuffled("shuffle_lane", "lane"));
    writeln!(code, "struct Value {{");
    for (i, dtype) in types.iter().enumerate() {
        writeln!(code, "{} v{i};", register(*dtype));
    }
    writeln! { code, "
        }};
        static __device__ __forceinline__ Value identity() {{ return {{{identity}}}; }}
        static __device__ __forceinline__ Value combine(const Value& left, const Value& right) {{
            return {{{result}}};
        }}
        static __device__ __forceinline__ Value shuffle_down(const Value& x, int distance, int width) {{
            return {{{down}}};
        }}
        static __device__ __forceinline__ Value shuffle_lane(const Value& x, int lane, int width) {{
            return {{{lane}}};
        }}" }
    Ok(())
}
