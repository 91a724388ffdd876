//! Writes CUDA C++ of automatic reductions: the functions that the kernels of `device/te/reduce.cuh` call for every
//! element and every total.

use std::ops::Range;

use super::context::KernelContext;
use super::field::ReduceField;
use super::loops::{Loops, Side};
use crate::ElementType;
use crate::cuda::Writer;
use crate::te::auto::gpu::key::{ReduceKey, ThreadMapping, value_bytes};
use crate::te::auto::pattern::fused::{Pass, Reduction};
use crate::te::auto::pattern::reads::read_type;
use crate::te::cuda::register;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;

struct Text<'f, 'a> {
    code: &'f mut Writer,
    context: &'f mut KernelContext<'a>,
    reduction: &'a Reduction,
    key: &'f ReduceKey,
    /// The place of the first equal read, for each read that several passes have.
    reads_in_registers: Vec<Option<usize>>,
    /// Values that passes compute from an element and that outputs need again.
    values_in_registers: Vec<KeptValue>,
}

/// Writes the struct of functions that the kernel calls for every element.
pub(in crate::te::auto) fn element_struct<'a>(
    code: &mut Writer,
    context: &mut KernelContext<'a>,
    reduction: &'a Reduction,
    key: &ReduceKey,
) -> Result<(), TeError> {
    let reads_in_registers = reads_in_registers(reduction, &key.loops);
    let values_in_registers = values_in_registers(reduction, key, &reads_in_registers);
    let mut text = Text { code, context, reduction, key, reads_in_registers, values_in_registers };
    text.name_totals();
    text.name_values();
    let passes = reduction.passes.len();
    writeln! { text.code, "
        struct Element {{
            const Parameters& p;
            static constexpr int PASSES = {passes};
            template <int K> using Pass = epilogue::Pass<K>;
            using Totals = epilogue::Totals;" }
    for number in 0..passes {
        writeln!(
            text.code,
            "static __device__ __forceinline__ Pass<{number}>::Value& part(te::Number<{number}>, Totals& all) {{ \
             return all.pass{number}; }}"
        );
    }
    let split = if key.split { &ReduceField::SPLIT[..] } else { &[] };
    for field in ReduceField::ALL.iter().chain(split) {
        text.code.lines(&field.getter());
    }
    text.cursor();
    text.hold();
    for number in 0..passes {
        text.load(number)?;
    }
    for number in 0..passes {
        text.finish(number)?;
    }
    text.store()?;
    if reduction.applies() {
        text.fetch()?;
        text.put()?;
    }
    writeln!(text.code, "}};");
    Ok(())
}

/// The place of the first equal read, for each affine read that several passes have.
pub(in crate::te::auto) fn reads_in_registers(reduction: &Reduction, loops: &Loops) -> Vec<Option<usize>> {
    let mut in_registers: Vec<Option<usize>> = reduction.repeated();
    let list = &reduction.reads.list;
    // The values that an index is computed from are needed before anything stays in registers.
    let is_index =
        |read: usize| list.iter().any(|other| other.indices.iter().chain(&other.guard).any(|x| x.uses(list[read].var)));
    let can = |read: usize| loops.access[read].is_some() && !is_index(read);
    for (read, first) in in_registers.iter_mut().enumerate() {
        *first = first.filter(|first| can(*first) && can(read));
    }
    for first in in_registers.clone().into_iter().flatten() {
        in_registers[first] = Some(first);
    }
    in_registers
}

/// A value that a pass computes from every element, and that outputs of points need again.
struct KeptValue {
    pass: usize,
    /// Its number among the values of the pass.
    value: usize,
    /// Its expression, with every repeated read replaced by the first one.
    expression: Expr,
    var: Var,
    name: String,
}

/// Bytes of a thread's registers that elements and values of passes may take together, in a block of `threads` threads.
fn most_in_registers(threads: u32) -> usize {
    // A block has 65536 registers (CUDA C++ Programming Guide, "Technical Specifications"). The code needs some of
    // them.
    ((65_536 / threads as usize).saturating_sub(32) * 4).min(192)
}

/// The values that stay in registers because computing them again would cost more, such as the exponentials of a
/// softmax.
fn values_in_registers(reduction: &Reduction, key: &ReduceKey, in_registers: &[Option<usize>]) -> Vec<KeptValue> {
    let elements = key.chunks_in_registers as usize * key.loops.vector;
    let of_reads: usize = (0..in_registers.len())
        .filter(|read| in_registers[*read] == Some(*read))
        .map(|read| reduction.reads.list[read].tensor.dtype().in_memory().size())
        .sum();
    let mut room = most_in_registers(key.threads).saturating_sub(of_reads * elements);
    let mut values = Vec::new();
    for (number, pass) in reduction.passes.iter().enumerate().filter(|(_, pass)| pass.condition.as_int() == Some(1)) {
        for (value, source) in pass.source.iter().enumerate().filter(|(_, source)| is_dear(source)) {
            let expression = firsts(reduction, in_registers, source);
            let points = reduction.outputs.iter().filter(|output| output.of_point);
            let mut again = false;
            for output in points {
                firsts(reduction, in_registers, &output.value).visit(&mut |x| again |= *x == expression);
            }
            let bytes = elements * value_bytes(&[source.dtype()]);
            if again && (1..=room).contains(&bytes) {
                room -= bytes;
                let var = Var::local("kept", source.dtype());
                values.push(KeptValue { pass: number, value, expression, var, name: String::new() });
            }
        }
    }
    values
}

/// Whether the computation takes enough instructions to keep its result in a register.
fn is_dear(x: &Expr) -> bool {
    let mut dear = false;
    x.visit(&mut |x| dear |= matches!(x.kind(), Kind::Apply(..) | Kind::Call(..)));
    dear
}

/// The expression, with every repeated read of an element replaced by the first one.
fn firsts(reduction: &Reduction, in_registers: &[Option<usize>], x: &Expr) -> Expr {
    let list = &reduction.reads.list;
    x.substitute(&|var| {
        let first = list.iter().position(|read| read.var == var).and_then(|read| in_registers[read])?;
        Some(list[first].var.into())
    })
}

/// An expression that uses the values in registers.
fn with_values(x: &Expr, values: &[KeptValue], firsts: &dyn Fn(&Expr) -> Expr) -> Expr {
    if values.is_empty() {
        return x.clone();
    }
    x.replaced(&mut |part| {
        // `firsts` only renames variables, so its result for a part is as large as the part.
        let of_its_size = |kept: &&KeptValue| kept.expression.unfolded() == part.unfolded();
        let found = values.iter().filter(of_its_size).find(|kept| kept.expression == firsts(part));
        found.map(|kept| kept.var.into())
    })
}

impl Text<'_, '_> {
    /// Names the totals as members of the variable `total`.
    fn name_totals(&mut self) {
        for (number, pass) in self.reduction.passes.iter().enumerate() {
            for (i, total) in pass.total.iter().enumerate() {
                self.context.call(*total, format!("total.pass{number}.v{i}"));
            }
        }
    }

    /// Names the values in registers as members of the variable `held`.
    fn name_values(&mut self) {
        for kept in &mut self.values_in_registers {
            kept.name = self.context.fresh(&format!("of_pass{}", kept.pass));
            self.context.call(kept.var, format!("held.{}[v]", kept.name));
        }
    }

    /// Writes a loop over a chunk's points. The totals are named `total` in it.
    fn each(&mut self, point: &str) {
        let total = if point.contains("total.") { "const Totals& total = totals[v];" } else { "" };
        writeln! { self.code, "
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {{
                if (!FULL && v >= valid) continue;
                {total}
                {point}
            }}" }
    }

    /// Writes the struct of what is the same for all elements of an output.
    fn cursor(&mut self) {
        let (context, key) = (&self.context, self.key);
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        for (place, access) in key.loops.access.iter().enumerate() {
            if access.is_some() {
                let name = context.read_name(place);
                fields.push(name.to_owned());
                values.push(context.offset(name, Side::Outer, Some(place)));
            }
        }
        for output in 0..self.reduction.outputs.len() {
            let name = context.output_name(output);
            fields.push(name.to_owned());
            values.push(context.offset(name, Side::Outer, None));
        }
        for level in 0..key.loops.outer.len() {
            fields.push(format!("outer{level}"));
            values.push(format!("outer{level}"));
        }
        let (decode, fields, values) = (context.decode(Side::Outer, "position"), fields.join(", "), values.join(", "));
        writeln! { self.code, "

            // What is the same for all elements of an output.
            struct Cursor {{
                index_t {fields};
            }};
            __device__ __forceinline__ Cursor output(u32 position) const {{
                {decode}
                return {{{values}}};
            }}" }
        let last = key.loops.vector_loop(Side::Outer);
        let valid = last.map_or("1".to_owned(), |_| "static_cast<int>(p.points - index_t(chunk) * VECTOR)".to_owned());
        if matches!(key.mapping, ThreadMapping::Columns { .. }) {
            writeln! { self.code, "
                // Outputs of the last chunk that exist.
                __device__ __forceinline__ int valid_outputs(u32 chunk) const {{ return {valid}; }}" }
        }
    }

    /// Writes the indices of a chunk, and how many of its points exist.
    fn chunk(&mut self) {
        let loops = &self.key.loops;
        let valid = match (loops.vector_side, loops.vector_loop(loops.vector_side)) {
            (_, None) => "1".to_owned(),
            (Side::Inner, Some(level)) => format!("static_cast<int>(min(p.points - inner{level}, index_t(VECTOR)))"),
            (Side::Outer, Some(level)) => format!("static_cast<int>(min(p.points - at.outer{level}, index_t(VECTOR)))"),
        };
        self.code.lines(&self.context.decode(Side::Inner, "position"));
        writeln!(self.code, "const int valid = FULL ? VECTOR : {valid};");
    }

    /// An expression for the elements of all points of a chunk; for affine reads only.
    fn wide_read(&self, place: usize) -> String {
        let Some(access) = self.key.loops.access[place] else { return String::new() };
        let name = self.context.read_name(place);
        let (offset, step) = (self.context.offset(name, Side::Inner, Some(place)), self.step(name));
        format!(
            "te::read<VECTOR, te::Access::{access:?}, FULL>(\n    p.{name} + (at.{name} + {offset}), {step}, valid)"
        )
    }

    /// The stride between the points that are read at once.
    fn step(&self, name: &str) -> String {
        let loops = &self.key.loops;
        match loops.vector_loop(loops.vector_side) {
            Some(level) => format!("p.{name}_{}{level}", loops.vector_side.name()),
            None => "0".to_owned(),
        }
    }

    /// The values of the axes at point `v` of a chunk.
    fn axes(&self) -> Writer {
        let mut code = Writer::new();
        code.lines(&self.context.axis_values(Side::Outer, |level| format!("at.outer{level}"), " + v"));
        code.lines(&self.context.axis_values(Side::Inner, |level| format!("inner{level}"), " + v"));
        code
    }

    /// Writes the function that reads what several passes need.
    fn hold(&mut self) {
        let first: Vec<usize> =
            (0..self.reads_in_registers.len()).filter(|read| self.reads_in_registers[*read] == Some(*read)).collect();
        writeln!(self.code, "\n\n// What is needed of a chunk more than once.\nstruct Held {{");
        for place in &first {
            let ty = self.context.library.memory_type(self.reduction.reads.list[*place].tensor.dtype());
            writeln!(self.code, "Pack<{ty}, VECTOR> {};", self.context.read_name(*place));
        }
        for kept in &self.values_in_registers {
            writeln!(self.code, "{} {}[VECTOR];", register(kept.var.dtype()), kept.name);
        }
        writeln! { self.code, "
            }};
            template <bool FULL>
            __device__ __forceinline__ void hold(const Cursor& at, u32 position, Held& held) const {{" }
        if !first.is_empty() {
            self.chunk();
        }
        for place in first {
            writeln!(self.code, "held.{} = {};", self.context.read_name(place), self.wide_read(place));
        }
        writeln!(self.code, "}}");
    }

    /// Writes reads of all points of a chunk at once, except those that stay in registers.
    fn wide_reads(&mut self, places: Range<usize>) {
        for place in places {
            if self.reads_in_registers[place].is_none() && self.key.loops.access[place].is_some() {
                writeln!(self.code, "const auto {}_read = {};", self.context.read_name(place), self.wide_read(place));
            }
        }
    }

    /// Writes declarations of what point `v` of a chunk reads. `in_registers` selects the reads in registers, or the
    /// others.
    fn point_reads(&mut self, code: &mut Writer, places: Range<usize>, in_registers: bool) -> Result<(), TeError> {
        for place in places {
            if self.reads_in_registers[place].is_some() != in_registers {
                continue;
            }
            if self.key.loops.access[place].is_none() {
                code.lines(&self.context.general_read(place)?);
                continue;
            }
            let name = self.context.read_name(place).to_owned();
            let dtype = self.reduction.reads.list[place].tensor.dtype();
            let from = match self.reads_in_registers[place] {
                Some(first) => format!("held.{}", self.context.read_name(first)),
                None => format!("{name}_read"),
            };
            let element = match dtype {
                DType::Number(ElementType::BF16) => format!("te::widened({from}, v)"),
                _ => self.context.library.load(dtype, format!("{from}.value[v]")),
            };
            writeln!(code, "const {} {name} = {element};", register(read_type(dtype)));
        }
        Ok(())
    }

    fn load(&mut self, number: usize) -> Result<(), TeError> {
        let pass = &self.reduction.passes[number];
        writeln! { self.code, "

            // The elements of a chunk in pass {number}, and the set of those that count.
            template <bool FULL>
            __device__ __forceinline__ u32 load(te::Number<{number}>, const Cursor& at, u32 position, Held& held,
                const Totals (&totals)[VECTOR], Pass<{number}>::Value (&values)[VECTOR]) const {{" }
        self.chunk();
        self.wide_reads(pass.reads.clone());
        let mut point = self.axes();
        self.point_reads(&mut point, pass.reads.clone(), true)?;
        self.point_reads(&mut point, pass.reads.clone(), false)?;
        let condition = self.context.value(&pass.condition)?;
        let source = self.context.values(&pass.source)?;
        if condition == "true" {
            writeln!(point, "values[v] = {{{source}}};\ncounts |= 1u << v;");
            for kept in self.values_in_registers.iter().filter(|kept| kept.pass == number) {
                writeln!(point, "held.{}[v] = values[v].v{};", kept.name, kept.value);
            }
        } else {
            writeln! { point, "
                if ({condition}) {{
                    values[v] = {{{source}}};
                    counts |= 1u << v;
                }}" }
        }
        writeln!(self.code, "u32 counts = 0;");
        self.each(&point.value());
        writeln!(self.code, "return counts;\n}}");
        Ok(())
    }

    /// Writes the function that gives a pass's initial value, and its total combined with that.
    fn finish(&mut self, number: usize) -> Result<(), TeError> {
        let pass: &Pass = &self.reduction.passes[number];
        let (reads, start) = if pass.init.is_empty() {
            (String::new(), format!("Pass<{number}>::identity()"))
        } else {
            let reads = self.output_reads(pass.init_reads.clone())?;
            (reads, format!("{{{}}}", self.context.values(&pass.init)?))
        };
        let arguments = format!("te::Number<{number}> number, const Cursor& at, int v, const Totals& total");
        let finished = if pass.init.is_empty() || self.key.exact {
            "value".to_owned()
        } else {
            format!("Pass<{number}>::combine(begin(number, at, v, total), value)")
        };
        let value = format!("Pass<{number}>::Value");
        writeln! { self.code, "

            // What pass {number} starts from, and its total with that.
            __device__ __forceinline__ {value} begin({arguments}) const {{
                {reads}
                return {start};
            }}
            __device__ __forceinline__ {value} finished({arguments}, const {value}& value) const {{
                return {finished};
            }}" }
        Ok(())
    }

    /// Writes the function that stores the outputs that are computed from totals.
    fn store(&mut self) -> Result<(), TeError> {
        let reduction = self.reduction;
        let reads = self.output_reads(reduction.total_reads..reduction.point_reads)?;
        writeln! { self.code, "

            __device__ __forceinline__ void store(const Cursor& at, int v, const Totals& total) const {{
                {reads}" }
        for (output, made) in reduction.outputs.iter().enumerate().filter(|(_, made)| !made.of_point) {
            let name = self.context.output_name(output).to_owned();
            let value = self.context.stored(made.tensor.dtype(), &made.value)?;
            writeln!(self.code, "p.{name}[at.{name}{}] = {value};", self.output_step(&name));
        }
        writeln!(self.code, "}}");
        Ok(())
    }

    /// The distance from the first output of a chunk of outputs to output `v`.
    fn output_step(&self, name: &str) -> String {
        let level = self.key.loops.vector_loop(Side::Outer);
        level.map_or(String::new(), |level| format!(" + v * p.{name}_outer{level}"))
    }

    /// Reads of the elements that outputs of totals and initial values need.
    fn output_reads(&mut self, places: Range<usize>) -> Result<String, TeError> {
        let mut code = Writer::new();
        code.lines(&self.context.axis_values(Side::Outer, |level| format!("at.outer{level}"), " + v"));
        for place in places {
            if self.key.loops.access[place].is_none() {
                code.lines(&self.context.general_read(place)?);
                continue;
            }
            let name = self.context.read_name(place).to_owned();
            let dtype = self.reduction.reads.list[place].tensor.dtype();
            let element = self.context.library.load(dtype, format!("p.{name}[at.{name}{}]", self.output_step(&name)));
            writeln!(code, "const {} {name} = {element};", register(read_type(dtype)));
        }
        Ok(code.value())
    }

    /// The reads of points that outputs need.
    fn point_places(&self) -> Range<usize> {
        self.reduction.point_reads..self.reduction.reads.list.len()
    }

    /// Writes the function that reads, for a point, what is needed after its totals are known.
    fn fetch(&mut self) -> Result<(), TeError> {
        let own: Vec<usize> = self.point_places().filter(|place| self.reads_in_registers[*place].is_none()).collect();
        writeln!(self.code, "\n\n// What is read of a point once its totals are known.\nstruct Point {{");
        for place in &own {
            let register = register(read_type(self.reduction.reads.list[*place].tensor.dtype()));
            writeln!(self.code, "{register} {};", self.context.read_name(*place));
        }
        writeln! { self.code, "
            }};
            template <bool FULL>
            __device__ __forceinline__ void fetch(const Cursor& at, u32 position, const Totals (&totals)[VECTOR],
                Point (&point)[VECTOR]) const {{" }
        if !own.is_empty() {
            self.chunk();
            self.wide_reads(self.point_places());
            let mut point = self.axes();
            self.point_reads(&mut point, self.point_places(), false)?;
            let names: Vec<&str> = own.iter().map(|place| self.context.read_name(*place)).collect();
            writeln!(point, "point[v] = {{{}}};", names.join(", "));
            self.each(&point.value());
        }
        writeln!(self.code, "}}");
        for place in own {
            let name = format!("point[v].{}", self.context.read_name(place));
            self.context.call(self.reduction.reads.list[place].var, name);
        }
        Ok(())
    }

    /// Writes the function that computes and stores the outputs of a chunk's points.
    fn put(&mut self) -> Result<(), TeError> {
        let (reduction, key) = (self.reduction, self.key);
        writeln! { self.code, "
            template <bool FULL>
            __device__ __forceinline__ void put(const Cursor& at, u32 position, const Held& held,
                const Point (&point)[VECTOR], const Totals (&totals)[VECTOR]) const {{" }
        self.chunk();
        let made: Vec<usize> = (0..reduction.outputs.len()).filter(|o| reduction.outputs[*o].of_point).collect();
        for output in made.iter().filter(|output| key.packed_outputs[**output]) {
            let ty = self.context.library.memory_type(reduction.outputs[*output].tensor.dtype());
            writeln!(self.code, "Pack<{ty}, VECTOR> {}_pack;", self.context.output_name(*output));
        }
        let mut stored = self.axes();
        self.point_reads(&mut stored, self.point_places(), true)?;
        let mut packs = Writer::new();
        for output in made {
            let name = self.context.output_name(output).to_owned();
            let dtype = reduction.outputs[output].tensor.dtype();
            let value = with_values(&reduction.outputs[output].value, &self.values_in_registers, &|x| {
                firsts(reduction, &self.reads_in_registers, x)
            });
            let value = self.context.stored(dtype, &value)?;
            let first = format!("at.{name} + {}", self.context.offset(&name, Side::Inner, None));
            if key.packed_outputs[output] {
                let ty = self.context.library.memory_type(dtype);
                writeln! { stored, "
                    {name}_pack.value[v] = {value};
                    if (!FULL) p.{name}[{first} + v] = {name}_pack.value[v];" }
                let all = format!("*reinterpret_cast<Pack<{ty}, VECTOR>*>(p.{name} + ({first}))");
                writeln!(packs, "if (FULL) {all} = {name}_pack;");
            } else {
                writeln!(stored, "p.{name}[{first} + v * {}] = {value};", self.step(&name));
            }
        }
        self.each(&stored.value());
        self.code.lines(&packs.text());
        writeln!(self.code, "}}");
        Ok(())
    }
}
