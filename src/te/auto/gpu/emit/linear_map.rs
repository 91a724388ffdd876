//! Writes CUDA C++ of the linear maps that represent steps of a scan.

use std::fmt::Write as _;

use super::context::KernelContext;
use crate::te::auto::pattern::linear_map::{Entry, LinearMap, MapNumber};
use crate::te::error::TeError;
use crate::te::lang::expr::Expr;
use crate::te::lang::var::Var;
use crate::te::target::cuda::expr::register_type;

/// The members of a map, and the functions on maps. `components` are those of the state.
pub(in crate::te::auto) fn map_text(
    context: &mut KernelContext<'_>,
    map: &LinearMap,
    components: &[Var],
) -> Result<String, TeError> {
    let members: Vec<String> = map.map_numbers().into_iter().map(member).collect();
    let mut text = String::new();
    for member in &members {
        let _ = writeln!(text, "    {} {member};", register_type(map.dtype));
    }
    text.push_str("};\n");
    let (first, second) = (entries(context, map, "first"), entries(context, map, "second"));
    let composed = numbers(context, map, &map.compose(&first, &second))?;
    let unit = numbers(context, map, &map.unit())?;
    let shuffled = |call: &dyn Fn(String) -> String| -> String {
        members.iter().map(|member| call(format!("x.{member}"))).collect::<Vec<_>>().join(", ")
    };
    let up = shuffled(&|x| format!("shuffle_up(0xffffffffu, {x}, lanes)"));
    let from = shuffled(&|x| format!("shuffle_lane(0xffffffffu, {x}, lane)"));
    let mut state = Vec::with_capacity(components.len());
    for (i, component) in components.iter().enumerate() {
        let var = Var::local("s", component.dtype());
        context.call(var, format!("state.s{i}"));
        state.push(Expr::from(var));
    }
    let applied = map.apply(&entries(context, map, "map"), &state);
    let applied: Vec<String> = applied.iter().map(|x| context.value(x)).collect::<Result<_, _>>()?;
    let _ = write!(
        text,
        "\n__device__ __forceinline__ Map unit_map() {{ return {{{unit}}}; }}\n\
         __device__ __forceinline__ Map compose_maps(const Map& first, const Map& second) {{\n    \
         return {{{composed}}};\n}}\n\
         __device__ __forceinline__ State apply_map(const Map& map, const State& state) {{\n    \
         return {{{}}};\n}}\n\
         __device__ __forceinline__ Map shuffle_map_up(const Map& x, int lanes) {{ return {{{up}}}; }}\n\
         __device__ __forceinline__ Map shuffle_map_from(const Map& x, int lane) {{ return {{{from}}}; }}\n",
        applied.join(", ")
    );
    Ok(text)
}

/// `m01` is the coefficient of component 1 before in component 0 after; `g01` tells whether it counts.
fn member(number: MapNumber) -> String {
    format!("{}{}{}", if number.gate { 'g' } else { 'm' }, number.row, number.column)
}

/// The entries of a map with members `prefix.m01`, and so on.
fn entries(context: &mut KernelContext<'_>, map: &LinearMap, prefix: &str) -> Vec<Vec<Entry>> {
    let mut value = |number: MapNumber| {
        let var = Var::local("m", map.dtype);
        context.call(var, format!("{prefix}.{}", member(number)));
        Expr::from(var)
    };
    let numbers: Vec<Expr> = map.map_numbers().into_iter().map(&mut value).collect();
    map.entries(&numbers)
}

/// The members of a map with these entries.
pub(in crate::te::auto) fn numbers(
    context: &mut KernelContext<'_>,
    map: &LinearMap,
    entries: &[Vec<Entry>],
) -> Result<String, TeError> {
    let numbers = map.numbers(entries);
    Ok(numbers.iter().map(|x| context.value(x)).collect::<Result<Vec<_>, _>>()?.join(", "))
}

/// Bytes of a map.
pub(in crate::te::auto) fn map_bytes(map: &LinearMap) -> usize {
    let size = match register_type(map.dtype) {
        "double" | "long long" => 8,
        _ => 4,
    };
    (map.map_numbers().len() * size).max(1)
}
