//! Writes CUDA C++ of the linear maps that represent steps of a scan.

use super::context::KernelContext;
use crate::cuda::Writer;
use crate::te::auto::pattern::linear_map::{LinearMap, MapEntry, MapNumber};
use crate::te::cuda::register;
use crate::te::error::TeError;
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;

/// Writes the members of a map, and the functions on maps. `components` are those of the state.
pub(in crate::te::auto) fn map_text(
    code: &mut Writer,
    context: &mut KernelContext<'_>,
    map: &LinearMap,
    components: &[Var],
) -> Result<(), TeError> {
    let members: Vec<String> = map.map_numbers().into_iter().map(member).collect();
    for member in &members {
        writeln!(code, "{} {member};", register(map.dtype));
    }
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
    let applied = context.values(&applied)?;
    writeln! { code, "
        }};

        __device__ __forceinline__ Map unit_map() {{ return {{{unit}}}; }}
        __device__ __forceinline__ Map compose_maps(const Map& first, const Map& second) {{
            return {{{composed}}};
        }}
        __device__ __forceinline__ State apply_map(const Map& map, const State& state) {{
            return {{{applied}}};
        }}
        __device__ __forceinline__ Map shuffle_map_up(const Map& x, int lanes) {{ return {{{up}}}; }}
        __device__ __forceinline__ Map shuffle_map_from(const Map& x, int lane) {{ return {{{from}}}; }}" }
    Ok(())
}

/// `m01` is the coefficient of component 1 before in component 0 after; `g01` tells whether it counts.
fn member(number: MapNumber) -> String {
    format!("{}{}{}", if number.gate { 'g' } else { 'm' }, number.row, number.column)
}

/// The entries of a map with members `prefix.m01`, and so on.
fn entries(context: &mut KernelContext<'_>, map: &LinearMap, prefix: &str) -> Vec<Vec<MapEntry>> {
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
    entries: &[Vec<MapEntry>],
) -> Result<String, TeError> {
    context.values(&map.numbers(entries))
}

/// Bytes of a map.
pub(in crate::te::auto) fn map_bytes(map: &LinearMap) -> usize {
    let size = register(map.dtype).bytes().max(4);
    (map.map_numbers().len() * size).max(1)
}
