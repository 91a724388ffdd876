//! The context of a generated kernel, common to all automatic kernels: the parameters, the computation of indices from
//! a position, and the reads there.

use std::collections::HashMap;

use epilogue_runtime::Site;

use super::field::{Field, ReduceField, ScanField};
use super::loops::{Loops, Side, VectorAccess};
use crate::cuda::Writer;
use crate::expr::identifier::{FreeNames, sanitize};
use crate::te::arith::Context;
use crate::te::auto::bind::arguments::Sizes;
use crate::te::auto::bind::iteration_space::Space;
use crate::te::auto::pattern::reads::{Read, read_type};
use crate::te::cuda::Names;
use crate::te::cuda::{Library, Printer, register};
use crate::te::dtype::DType;
use crate::te::error::{RunError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;

/// The variables and members of generated functions.
const LOCALS: &str = "
    p at position rest valid values counts v total step state map raw raws states after first second left right
    inner0 lanes lane held totals number value point points given cell row column block_row
";

/// Everything that the text of a kernel is made from.
pub(in crate::te::auto) struct KernelContext<'a> {
    pub(in crate::te::auto) axes: &'a [Axis],
    pub(in crate::te::auto) reads: &'a [Read],
    pub(in crate::te::auto) outputs: &'a [Tensor],
    pub(in crate::te::auto) loops: &'a Loops,
    pub(in crate::te::auto) library: Library,
    names: HashMap<Var, String>,
    size_names: HashMap<Var, String>,
    used: FreeNames,
    read_names: Vec<String>,
    output_names: Vec<String>,
}

struct Named<'a>(&'a HashMap<Var, String>);

impl Names for Named<'_> {
    fn var(&self, var: Var) -> Result<String, TeError> {
        let unknown = || TeError::Internal { what: format!("{} has no value in this kernel", var.name()) };
        self.0.get(&var).cloned().ok_or_else(unknown)
    }
}

impl<'a> KernelContext<'a> {
    pub(in crate::te::auto) fn new(
        axes: &'a [Axis],
        reads: &'a [Read],
        outputs: &'a [Tensor],
        loops: &'a Loops,
    ) -> Self {
        let mut used = FreeNames::numbered(1);
        used.reserve(LOCALS.split_whitespace());
        used.reserve(ReduceField::ALL.iter().chain(&ReduceField::SPLIT).map(|field| field.declaration().1));
        used.reserve(ScanField::ALL.iter().map(|field| field.declaration().1));
        let mut context = Self {
            axes,
            reads,
            outputs,
            loops,
            library: Library::new(),
            names: HashMap::new(),
            size_names: HashMap::new(),
            used,
            read_names: Vec::new(),
            output_names: Vec::new(),
        };
        for output in outputs {
            let name = context.fresh(&output.name());
            context.output_names.push(name);
        }
        for read in reads {
            let name = context.fresh(read.var.name());
            context.names.insert(read.var, name.clone());
            context.read_names.push(name);
        }
        for axis in axes {
            let name = context.fresh(axis.name());
            context.names.insert(axis.var(), name);
        }
        context
    }

    /// An identifier that is not used yet.
    pub(in crate::te::auto) fn fresh(&mut self, name: &str) -> String {
        let base = sanitize(name);
        let others = (1usize..).flat_map(|i| [format!("{base}_{i}"), format!("{base}_v{i}")]);
        let mut names = std::iter::once(base.clone()).chain(others);
        names.find(|name| !is_of_a_field(name) && self.used.take(name)).unwrap_or_default()
    }

    /// Lets a C++ expression stand for a variable.
    pub(in crate::te::auto) fn call(&mut self, var: Var, text: impl Into<String>) {
        self.names.insert(var, text.into());
    }

    /// The text of a value, in its register type.
    pub(in crate::te::auto) fn value(&mut self, x: &Expr) -> Result<String, TeError> {
        self.name_sizes(x);
        let context = Context::default();
        Printer { names: &Named(&self.names), library: &mut self.library, context: &context }.value(x)
    }

    /// The texts of some values, in a list.
    pub(in crate::te::auto) fn values(&mut self, all: &[Expr]) -> Result<String, TeError> {
        Ok(all.iter().map(|x| self.value(x)).collect::<Result<Vec<_>, _>>()?.join(", "))
    }

    /// The text of a value, converted to its type in memory.
    pub(in crate::te::auto) fn stored(&mut self, dtype: DType, x: &Expr) -> Result<String, TeError> {
        let value = self.value(rounded_once(x, dtype))?;
        Ok(self.library.store(dtype, value))
    }

    /// The text of an index.
    pub(in crate::te::auto) fn index(&mut self, x: &Expr) -> Result<String, TeError> {
        self.name_sizes(x);
        let context = Context::default();
        Printer { names: &Named(&self.names), library: &mut self.library, context: &context }.index(x)
    }

    /// Makes every size in an expression a parameter; [`KernelContext::fields`] lists these.
    fn name_sizes(&mut self, x: &Expr) {
        for var in sizes_of(x) {
            if !self.size_names.contains_key(&var) {
                let name = self.fresh(&format!("size_{}", var.name()));
                self.names.insert(var, format!("static_cast<{}>(p.{name})", register(var.dtype())));
                self.size_names.insert(var, name);
            }
        }
    }

    /// The name of the value of a read.
    pub(in crate::te::auto) fn read_name(&self, read: usize) -> &str {
        &self.read_names[read]
    }

    /// The name of an output.
    pub(in crate::te::auto) fn output_name(&self, output: usize) -> &str {
        &self.output_names[output]
    }

    /// The parameters that reads, outputs and loops need. `expressions` are all that the kernel evaluates;
    /// `output_sides` tells along which loops outputs move.
    pub(in crate::te::auto) fn fields(&mut self, expressions: &[&Expr], output_sides: &[Side]) -> Vec<Field> {
        let mut fields = Vec::new();
        for (place, read) in self.reads.iter().enumerate() {
            fields.push(Field::Read(place));
            if self.loops.access[place].is_some() {
                for side in [Side::Outer, Side::Inner] {
                    let count = self.loops.of(side).len();
                    fields.extend((0..count).map(|level| Field::ReadStep(place, side, level)));
                }
            } else {
                let rank = read.indices.len();
                fields.extend((0..rank).flat_map(|d| [Field::Stride(place, d), Field::Extent(place, d)]));
            }
        }
        for output in 0..self.outputs.len() {
            fields.push(Field::Output(output));
            for side in output_sides {
                let count = self.loops.of(*side).len();
                fields.extend((0..count).map(|level| Field::OutputStep(output, *side, level)));
            }
        }
        for side in [Side::Outer, Side::Inner] {
            let count = self.loops.of(side).len();
            fields.extend((1..count).flat_map(|level| [Field::Count(side, level), Field::Divider(side, level)]));
        }
        fields.push(Field::Points);
        let (reads, access) = (self.reads, &self.loops.access);
        let indices = general(reads, |r| access[r].is_none());
        let mut sizes: Vec<Var> = Vec::new();
        for x in expressions.iter().copied().chain(indices) {
            self.name_sizes(x);
            for var in sizes_of(x) {
                if !sizes.contains(&var) {
                    sizes.push(var);
                }
            }
        }
        fields.extend(sizes.into_iter().map(Field::Size));
        fields.extend((0..self.axes.len()).map(Field::Minimum));
        fields
    }

    /// Writes the parameters' struct.
    pub(in crate::te::auto) fn parameters(&mut self, code: &mut Writer, fields: &[Field]) {
        writeln!(code, "// As the host fills it: 8 bytes each.\nstruct Parameters {{");
        for field in fields {
            let ty = match field {
                Field::Read(read) => {
                    let dtype = self.reads[*read].tensor.dtype();
                    format!("const {}*", self.library.memory_type(dtype))
                }
                Field::Output(output) => format!("{}*", self.library.memory_type(self.outputs[*output].dtype())),
                Field::Divider(..) => "te::Divider".to_owned(),
                Field::Reduce(own) => own.declaration().0.to_owned(),
                Field::Scan(own) => own.declaration().0.to_owned(),
                _ => "index_t".to_owned(),
            };
            writeln!(code, "{ty} {};", self.field(field));
        }
        writeln! { code, "
            }};
            static_assert(sizeof(Parameters) == {}, \"as the host fills it\");", fields.len() * 8 }
    }

    /// The name of a parameter.
    pub(in crate::te::auto) fn field(&self, field: &Field) -> String {
        match field {
            Field::Read(read) => self.read_names[*read].clone(),
            Field::ReadStep(read, side, level) => format!("{}_{}{level}", self.read_names[*read], side.name()),
            Field::Stride(read, d) => format!("{}_stride{d}", self.read_names[*read]),
            Field::Extent(read, d) => format!("{}_extent{d}", self.read_names[*read]),
            Field::Output(output) => self.output_names[*output].clone(),
            Field::OutputStep(output, side, level) => format!("{}_{}{level}", self.output_names[*output], side.name()),
            Field::Count(side, level) => format!("{}{level}_count", side.name()),
            Field::Divider(side, level) => format!("{}{level}_divider", side.name()),
            Field::Points => "points".to_owned(),
            Field::Size(var) => self.size_names.get(var).cloned().unwrap_or_else(|| sanitize(var.name())),
            Field::Minimum(axis) => format!("first_{axis}"),
            Field::Reduce(own) => own.declaration().1.to_owned(),
            Field::Scan(own) => own.declaration().1.to_owned(),
            Field::Elements => "elements".to_owned(),
        }
    }

    /// Statements that turn the variable `position` (a u32) into the indices of the loops, `outer0`, …
    pub(in crate::te::auto) fn decode(&self, side: Side, position: &str) -> String {
        let (name, count) = (side.name(), self.loops.of(side).len());
        let mut code = Writer::new();
        let vector = |level: usize| if self.loops.vector_loop(side) == Some(level) { " * VECTOR" } else { "" };
        if count > 1 {
            writeln!(code, "u32 {name}_rest = {position};");
        }
        for level in (1..count).rev() {
            let (index, times) = (format!("{name}{level}"), vector(level));
            writeln! { code, "
                const u32 {index}_next = p.{index}_divider.quotient({name}_rest);
                const index_t {index} = index_t({name}_rest - {index}_next * static_cast<u32>(p.{index}_count)){times};
                {name}_rest = {index}_next;" }
        }
        if count > 0 {
            let from = if count > 1 { format!("{name}_rest") } else { position.to_owned() };
            writeln!(code, "const index_t {name}0 = index_t({from}){};", vector(0));
        }
        code.value()
    }

    /// The offset of a read or an output along some loops: `outer0 * p.A_outer0 + outer1`.
    pub(in crate::te::auto) fn offset(&self, name: &str, side: Side, read: Option<usize>) -> String {
        let mut terms = Vec::new();
        for level in 0..self.loops.of(side).len() {
            let access = read.and_then(|read| self.loops.access[read]);
            let index = format!("{}{level}", side.name());
            match (self.loops.vector_loop(side) == Some(level), access) {
                (true, Some(VectorAccess::One)) => {}
                (true, Some(VectorAccess::Packed)) => terms.push(index),
                _ => terms.push(format!("{index} * p.{name}_{index}")),
            }
        }
        if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
    }

    /// Declarations of the axes of one side whose values are used. In the loop that takes several points, `point` is
    /// added.
    pub(in crate::te::auto) fn axis_values(
        &self,
        side: Side,
        index_of: impl Fn(usize) -> String,
        point: &str,
    ) -> String {
        let mut code = Writer::new();
        for (level, axis) in self.loops.of(side).iter().enumerate() {
            let Some(axis) = axis else { continue };
            let more = if self.loops.vector_loop(side) == Some(level) { point } else { "" };
            let ty = register(self.axes[*axis].var().dtype());
            let (name, index) = (&self.names[&self.axes[*axis].var()], index_of(level));
            writeln!(code, "const {ty} {name} = static_cast<{ty}>({index}{more} + p.first_{axis});");
        }
        code.value()
    }

    /// The declaration of a read that is not affine, from the axes' values.
    pub(in crate::te::auto) fn general_read(&mut self, read: usize) -> Result<String, TeError> {
        let reads = self.reads;
        let Read { tensor, indices, guard, var, .. } = &reads[read];
        let name = self.read_names[read].clone();
        let mut code = Writer::new();
        let guard = guard.as_ref().map(|guard| self.value(guard)).transpose()?;
        // Where the guard doesn't hold, a divisor may be zero.
        let outer = guard.clone().filter(|_| indices.iter().any(may_divide_by_zero));
        let guard = guard.filter(|_| outer.is_none());
        let mut inside = vec![guard.unwrap_or_else(|| "true".to_owned())];
        let mut offset = Vec::new();
        for (d, index) in indices.iter().enumerate() {
            let index = self.index(index)?;
            writeln!(code, "const index_t {name}_index{d} = {index};");
            let site = self.library.site(Site::Index { tensor: tensor.name(), dimension: d });
            inside.push(format!("te::inside({name}_index{d}, p.{name}_extent{d}, {site})"));
            offset.push(format!("{name}_index{d} * p.{name}_stride{d}"));
        }
        let register = register(read_type(tensor.dtype()));
        let offset = if offset.is_empty() { "0".to_owned() } else { offset.join(" + ") };
        let element = self.library.load(tensor.dtype(), format!("p.{name}[{offset}]"));
        debug_assert_eq!(var.dtype(), read_type(tensor.dtype()));
        let inside = inside.join(" && ");
        let Some(guard) = outer else {
            writeln! { code, "
                {register} {name} = {{}};
                if ({inside}) {{
                    {name} = {element};
                }}" }
            return Ok(code.value());
        };
        let indices = code.value();
        let mut code = Writer::new();
        writeln! { code, "
            {register} {name} = {{}};
            if ({guard}) {{
                {indices}
                if ({inside}) {name} = {element};
            }}" }
        Ok(code.value())
    }
}

/// Whether an index has a division whose divisor may be zero.
pub(in crate::te::auto) fn may_divide_by_zero(index: &Expr) -> bool {
    index.contains(|x| match x.kind() {
        Kind::Binary(Binary::FloorDiv | Binary::FloorMod, _, by) => by.as_int().is_none_or(|by| by == 0),
        _ => false,
    })
}

/// Whether a name has the form of a parameter or local variable that is made from other names and numbers.
fn is_of_a_field(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let numbered = ["outer", "inner", "first_", "_outer", "_inner", "_stride", "_extent", "_index"];
    let of_others = ["_count", "_divider", "_next", "_rest", "_read", "_pack"];
    stem.len() < name.len() && numbered.iter().any(|end| stem.ends_with(end))
        || of_others.iter().any(|end| name.ends_with(end))
}

/// A value without its last conversion to the type in memory, which the store does anyway.
fn rounded_once(x: &Expr, dtype: DType) -> &Expr {
    if let Kind::Cast(rounded) = x.kind()
        && let Kind::Cast(value) = rounded.kind()
        && rounded.dtype() == dtype
        && dtype.is_float()
        && value.dtype() == x.dtype()
    {
        value
    } else {
        x
    }
}

/// The sizes in an expression, each once.
pub(in crate::te::auto) fn sizes_of(x: &Expr) -> Vec<Var> {
    let mut sizes = Vec::new();
    x.visit(&mut |part| {
        if let Kind::Var(var) = part.kind()
            && !var.is_counter()
            && !sizes.contains(var)
        {
            sizes.push(*var);
        }
    });
    sizes
}

/// The expressions that non-affine reads evaluate.
fn general(reads: &[Read], is_general: impl Fn(usize) -> bool) -> impl Iterator<Item = &Expr> {
    let chosen = reads.iter().enumerate().filter(move |(place, _)| is_general(*place));
    chosen.flat_map(|(_, read)| read.indices.iter().chain(&read.guard))
}

/// Which of `axes` have values that expressions use for more than the address of affine reads.
pub(in crate::te::auto) fn used_axes(
    axes: &[Axis],
    reads: &[Read],
    is_general: impl Fn(usize) -> bool,
    expressions: &[&Expr],
) -> Vec<bool> {
    let all: Vec<&Expr> = expressions.iter().copied().chain(general(reads, is_general)).collect();
    axes.iter().map(|axis| all.iter().any(|x| x.uses(axis.var()))).collect()
}

/// Checks that sizes and axes that expressions use as 32-bit integers fit in 32 bits.
///
/// # Errors
/// [`RunError::IntegerRange`].
pub(in crate::te::auto) fn check_ranges(
    axes: &[Axis],
    used: &[bool],
    space: &Space,
    sizes: &Sizes,
    expressions: &[&Expr],
) -> Result<(), TeError> {
    let fits = |dtype: DType, value: i64| dtype != DType::I32 || i32::try_from(value).is_ok();
    for var in expressions.iter().flat_map(|x| sizes_of(x)) {
        if !fits(var.dtype(), sizes.value(&Expr::from(var))?) {
            return Err(RunError::IntegerRange.into());
        }
    }
    let last = |place: usize| space.minima[place].saturating_add(space.extents[place]);
    let mut used = (0..axes.len()).filter(|place| used[*place]);
    if used.all(|place| fits(axes[place].var().dtype(), last(place))) {
        Ok(())
    } else {
        Err(RunError::IntegerRange.into())
    }
}
