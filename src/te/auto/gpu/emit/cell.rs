//! Writes CUDA C++ of recurrent cells: the template arguments of the kernel in `device/te/cell.cuh`. Every stage is a
//! struct in its own namespace, with its own parameters.

use epilogue_runtime::Site;

use super::context::{KernelContext, may_divide_by_zero};
use super::field::Field;
use super::frame::{Emitted, Frame};
use super::loops::{Loops, Side};
use super::reduce::combination;
use crate::cuda::Writer;
use crate::expr::identifier::sanitize;
use crate::te::auto::pattern::reads::read_type;
use crate::te::auto::split::cell::{Buffer, Cell, CellSource, CellStage, Store};
use crate::te::cuda::{Library, register};
use crate::te::error::TeError;
use crate::te::expr::tensor::Tensor;
use crate::te::text::identifier;

/// Everything that the text of a cell's kernel depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) struct CellKey {
    pub(in crate::te::auto) stages: Vec<StageKey>,
    pub(in crate::te::auto) threads: u32,
    /// Number of rows of a block.
    pub(in crate::te::auto) rows: u32,
    /// Whether one thread combines the elements one by one, starting with the initial value.
    pub(in crate::te::auto) exact: bool,
    /// Whether multiply-adds may be contracted.
    pub(in crate::te::auto) contract: bool,
}

/// Everything that the text of one stage depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) struct StageKey {
    pub(in crate::te::auto) loops: Loops,
    /// Number of neighbouring threads that share a column.
    pub(in crate::te::auto) group: u32,
    /// For each read of shared memory, whether its indices must be tested because they may be outside.
    pub(in crate::te::auto) tested: Vec<bool>,
}

/// Whether a stage takes a parameter. Values outside global memory have no address.
fn is_taken(stage: &CellStage, field: &Field) -> bool {
    let shared = |read: &usize| matches!(stage.sources[*read], CellSource::Buffer { .. });
    match field {
        Field::Read(read) => !shared(read),
        Field::Output(output) | Field::OutputStep(output, ..) => stage.stores[*output].state.is_some(),
        _ => true,
    }
}

/// Writes the kernel. Its parameters are the stages' lists, each ended by [`Field::Elements`], and then
/// [`cell_parameters`].
pub(in crate::te::auto) fn emit(cell: &Cell, key: &CellKey) -> Result<Emitted, TeError> {
    let mut library = Library::new();
    let (mut fields, mut code, mut stages) = (Vec::new(), Writer::new(), Writer::new());
    for (number, (stage, of_stage)) in cell.stages.iter().zip(&key.stages).enumerate() {
        let outputs: Vec<Tensor> = stage.pattern.outputs.iter().map(|output| output.tensor.clone()).collect();
        let mut context = KernelContext::new(&stage.pattern.axes, &stage.pattern.reads.list, &outputs, &of_stage.loops);
        context.library = std::mem::replace(&mut library, Library::new());
        let mut own = context.fields(&stage.pattern.expressions(), &[Side::Outer]);
        own.retain(|field| is_taken(stage, field));
        own.push(Field::Elements);
        writeln!(code, "namespace stage{number} {{");
        context.parameters(&mut code, &own);
        writeln!(code, "}}\n");
        let mut text = Text { code: &mut stages, context, cell, stage, key, of_stage, number };
        text.stage()?;
        library = text.context.library;
        fields.extend(own);
    }
    all_parameters(&mut code, cell, &mut library);
    code.verbatim(&stages.text());
    cell_struct(&mut code, cell, key, &mut library);
    let state = cell.state(0).name();
    let frame = Frame {
        what: format!("The cell of `{state}`"),
        title: &state,
        symbol: sanitize(&identifier(&format!("{state}_cell"))),
        header: "te/cell.cuh",
        bounds: key.threads.to_string(),
        call: format!("run_cell<{}>(epilogue::Cell{{parameters}})", key.rows),
        contract: key.contract,
    };
    Ok(frame.around(code, &library, fields))
}

/// A parameter of the kernel after those of the stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::te::auto) enum CellParameter {
    /// Number of computed steps.
    Steps,
    /// Number of rows of all blocks.
    Rows,
    /// The offset of a buffer in shared memory.
    Offset(usize),
    /// Number of elements in a buffer's row.
    Columns(usize),
    /// The address of a buffer's state in global memory.
    Given(usize),
    /// The stride of a dimension of this state.
    GivenStride(usize, usize),
    /// The extent of a dimension of this state.
    GivenExtent(usize, usize),
}

/// The parameters after those of the stages, in order.
pub(in crate::te::auto) fn cell_parameters(cell: &Cell) -> Vec<CellParameter> {
    let mut all = vec![CellParameter::Steps, CellParameter::Rows];
    for (number, buffer) in cell.buffers.iter().enumerate() {
        all.extend([CellParameter::Offset(number), CellParameter::Columns(number)]);
        if buffer.state.is_some() {
            all.push(CellParameter::Given(number));
            let of = |d| [CellParameter::GivenStride(number, d), CellParameter::GivenExtent(number, d)];
            all.extend((0..buffer.tensor.rank()).flat_map(of));
        }
    }
    all
}

fn all_parameters(code: &mut Writer, cell: &Cell, library: &mut Library) {
    writeln!(code, "// As the host fills it: 8 bytes each.\nstruct Parameters {{");
    for number in 0..cell.stages.len() {
        writeln!(code, "stage{number}::Parameters stage{number};");
    }
    for parameter in cell_parameters(cell) {
        match parameter {
            CellParameter::Steps => writeln!(code, "index_t steps;"),
            CellParameter::Rows => writeln!(code, "index_t rows;"),
            CellParameter::Offset(b) => writeln!(code, "index_t offset{b};"),
            CellParameter::Columns(b) => writeln!(code, "index_t columns{b};"),
            CellParameter::Given(b) => {
                let ty = library.memory_type(cell.buffers[b].tensor.dtype());
                writeln!(code, "const {ty}* given{b};");
            }
            CellParameter::GivenStride(b, d) => writeln!(code, "index_t given{b}_stride{d};"),
            CellParameter::GivenExtent(b, d) => writeln!(code, "index_t given{b}_extent{d};"),
        }
    }
    writeln!(code, "}};");
}

/// The address of a row of a buffer; `slot` is an expression.
fn row_of(buffer: &Buffer, key: &CellKey, slot: &str, row: &str) -> String {
    match (buffer.slots, buffer.has_rows) {
        (1, true) => row.to_owned(),
        (1, false) => "0u".to_owned(),
        (slots, true) => format!("({slot} % {slots}u * {}u + {row})", key.rows),
        (slots, false) => format!("({slot} % {slots}u)"),
    }
}

/// Writes statements that copy the given steps of the states to shared memory.
fn rings(code: &mut Writer, cell: &Cell, key: &CellKey, library: &mut Library) {
    let rings = cell.buffers.iter().enumerate().filter(|(_, buffer)| buffer.state.is_some());
    for (b, buffer) in rings {
        let ty = library.memory_type(buffer.tensor.dtype());
        let (given, first) = (cell.given, buffer.first_column(cell.rows));
        let mut from = Writer::new();
        let mut decode = |rest: &str, value: &str, dimensions: std::ops::Range<usize>| {
            if !dimensions.is_empty() {
                writeln!(from, "u32 {rest} = {value};");
            }
            for d in dimensions.rev() {
                let extent = format!("static_cast<u32>(p.given{b}_extent{d})");
                writeln!(from, "from += {rest} % {extent} * p.given{b}_stride{d};\n{rest} /= {extent};");
            }
        };
        decode("row_rest", "first + row", 1..first);
        decode("column_rest", "column", first..buffer.tensor.rank());
        let (from, place) = (from.value(), row_of(buffer, key, &format!("({given}u - lag)"), "row"));
        let (slots, threads) = (buffer.slots, key.threads);
        writeln! { code, "
            for (u32 lag = 1; lag < {slots}u; ++lag) {{
                for (u32 row = 0; row < rows; ++row) {{
                    for (u32 column = threadIdx.x; column < static_cast<u32>(p.columns{b}); column += {threads}u) {{
                        index_t from = ({given}u - lag) * p.given{b}_stride0;
                        {from}
                        te::shared_row<{ty}>(p.offset{b}, {place} * p.columns{b})[column] = p.given{b}[from];
                    }}
                }}
            }}" }
    }
}

/// Writes the struct with the kernel's steps.
fn cell_struct(code: &mut Writer, cell: &Cell, key: &CellKey, library: &mut Library) {
    writeln! { code, "

        struct Cell {{
            const Parameters& p;

            __device__ __forceinline__ u32 steps() const {{ return static_cast<u32>(p.steps); }}
            __device__ __forceinline__ u32 rows() const {{ return static_cast<u32>(p.rows); }}

            // Brings the given steps of `rows` rows to shared memory.
            __device__ __forceinline__ void begin(u32 first, u32 rows) const {{" }
    rings(code, cell, key, library);
    writeln!(code, "}}\n\n__device__ __forceinline__ void step(u32 step, u32 first, u32 rows) const {{");
    for (number, stage) in cell.stages.iter().enumerate() {
        if number > 0 && cell.stages[number - 1].level != stage.level {
            writeln!(code, "__syncthreads();  // before what was made is read");
        }
        writeln!(
            code,
            "te::run_stage<{}, {}, {}>(stage{number}::Stage{{p.stage{number}, p}}, step, first, rows);",
            key.threads, key.rows, key.exact
        );
    }
    writeln! { code, "
            __syncthreads();  // before the next step reads the states, and makes its stages
        }}
    }};" }
}

/// Statements that turn the variable `position` into the indices of some loops.
fn decode(position: &str, loops: &str, slots: std::ops::Range<usize>) -> String {
    let (first, mut code) = (slots.start, Writer::new());
    if slots.is_empty() {
        return String::new();
    }
    writeln!(code, "u32 {position}_rest = {position};");
    for slot in slots.rev().filter(|slot| *slot > first) {
        let name = format!("{loops}{slot}");
        writeln! { code, "
            const u32 {name}_next = p.{name}_divider.quotient({position}_rest);
            const index_t {name} = {position}_rest - {name}_next * static_cast<u32>(p.{name}_count);
            {position}_rest = {name}_next;" }
    }
    writeln!(code, "const index_t {loops}{first} = {position}_rest;");
    code.value()
}

/// Declarations that a function may leave unused.
fn may_be_unused(declarations: &str) -> String {
    declarations.replace("const ", "[[maybe_unused]] const ")
}

struct Text<'a> {
    code: &'a mut Writer,
    context: KernelContext<'a>,
    cell: &'a Cell,
    stage: &'a CellStage,
    key: &'a CellKey,
    of_stage: &'a StageKey,
    number: usize,
}

impl Text<'_> {
    fn stage(&mut self) -> Result<(), TeError> {
        let (pattern, number) = (&self.stage.pattern, self.number);
        writeln!(self.code, "\n\nnamespace stage{number} {{\n");
        if let [pass] = pattern.passes.as_slice() {
            let sides = (pass.left.as_slice(), pass.right.as_slice());
            writeln!(self.code, "// What is reduced.\nstruct Pass {{");
            combination(self.code, &mut self.context, &pass.types(), sides, &pass.result, &pass.identity)?;
            writeln!(self.code, "}};");
            for (i, total) in pass.total.iter().enumerate() {
                self.context.call(*total, format!("total.v{i}"));
            }
        } else {
            writeln!(self.code, "using Pass = te::NoPass;");
        }
        let (group, reduces, has_rows) = (self.of_stage.group, !pattern.passes.is_empty(), self.stage.has_rows);
        writeln! { self.code, "

            struct Stage {{
                using Pass = stage{number}::Pass;
                static constexpr int GROUP = {group};
                static constexpr bool REDUCES = {reduces}, HAS_ROWS = {has_rows};
                const Parameters& p;
                const epilogue::Parameters& cell;

                __device__ __forceinline__ u32 columns() const {{ return static_cast<u32>(p.points); }}
                __device__ __forceinline__ u32 elements() const {{ return static_cast<u32>(p.elements); }}" }
        self.cursor();
        if reduces {
            self.load()?;
            self.start()?;
        }
        self.store()?;
        writeln!(self.code, "}};\n\n}}  // namespace stage{number}");
        Ok(())
    }

    /// Writes the struct of what is the same for all elements of a column.
    fn cursor(&mut self) {
        let count = self.of_stage.loops.outer.len();
        let outer: Vec<String> = (0..count).map(|slot| format!("outer{slot}")).collect();
        let outer = outer.join(", ");
        let first = if self.stage.has_rows { 1 + self.cell.rows } else { 1 };
        let (rows, columns) = (decode("row", "outer", 1..first), decode("column", "outer", first..count));
        writeln! { self.code, "

            // A column of a row at a step, and the row's number in the block.
            struct Cursor {{
                index_t {outer};
                u32 step, row, column;
            }};
            __device__ __forceinline__ Cursor at(u32 step, u32 row, u32 block_row, u32 column) const {{
                const index_t outer0 = step;
                {rows}
                {columns}
                return {{{outer}, step, block_row, column}};
            }}" }
    }

    /// The cursor's indices, with the names that offsets use, and the values of the axes.
    fn axes(&self) -> String {
        let mut code = Writer::new();
        for slot in 0..self.of_stage.loops.outer.len() {
            writeln!(code, "const index_t outer{slot} = at.outer{slot};");
        }
        code.lines(&self.context.axis_values(Side::Outer, |slot| format!("outer{slot}"), ""));
        may_be_unused(&code.value())
    }

    /// Writes declarations of reads. Reads of elements move along the reduced axes.
    fn reads(&mut self, places: std::ops::Range<usize>, of_elements: bool) -> Result<(), TeError> {
        for place in places {
            if let CellSource::Buffer { buffer, lag, .. } = self.stage.sources[place] {
                self.shared_read(place, buffer, lag)?;
                continue;
            }
            if self.of_stage.loops.access[place].is_none() {
                self.code.lines(&self.context.general_read(place)?);
                continue;
            }
            let name = self.context.read_name(place).to_owned();
            let mut offset = self.context.offset(&name, Side::Outer, Some(place));
            if of_elements {
                offset = format!("{offset} + {}", self.context.offset(&name, Side::Inner, Some(place)));
            }
            let dtype = self.stage.pattern.reads.list[place].tensor.dtype();
            let element = self.context.library.load(dtype, format!("p.{name}[{offset}]"));
            writeln!(self.code, "const {} {name} = {element};", register(read_type(dtype)));
        }
        Ok(())
    }

    /// Writes the declaration of a read from shared memory.
    fn shared_read(&mut self, place: usize, number: usize, lag: u32) -> Result<(), TeError> {
        let (cell, read) = (self.cell, &self.stage.pattern.reads.list[place]);
        let buffer = &cell.buffers[number];
        let name = self.context.read_name(place).to_owned();
        let (mut offset, mut inside) = (Vec::new(), Vec::new());
        let is_tested = self.of_stage.tested[place];
        let dtype = read.tensor.dtype();
        let register = register(read_type(dtype));
        let guard = read.guard.as_ref().filter(|_| is_tested).map(|guard| self.context.value(guard)).transpose()?;
        // Where the guard doesn't hold, a divisor may be zero.
        let is_outside = guard.is_some() && read.indices.iter().any(may_divide_by_zero);
        match guard {
            Some(guard) if is_outside => writeln!(self.code, "{register} {name} = {{}};\nif ({guard}) {{"),
            guard => inside.extend(guard),
        }
        for d in buffer.first_column(cell.rows)..read.indices.len() {
            let index = self.context.index(&read.indices[d])?;
            writeln!(self.code, "const index_t {name}_index{d} = {index};");
            if is_tested {
                let site = self.context.library.site(Site::Index { tensor: read.tensor.name(), dimension: d });
                inside.push(format!("te::inside({name}_index{d}, p.{name}_extent{d}, {site})"));
            }
            let is_last = d + 1 == read.indices.len();
            let step = if is_last { String::new() } else { format!(" * p.{name}_stride{d}") };
            offset.push(format!("{name}_index{d}{step}"));
        }
        let offset = if offset.is_empty() { "0".to_owned() } else { offset.join(" + ") };
        let ty = self.context.library.memory_type(dtype);
        let row = row_of(buffer, self.key, &format!("(at.step + {}u)", cell.given - lag), "at.row");
        let from = format!("te::shared_row<{ty}>(cell.offset{number}, {row} * cell.columns{number})[{offset}]");
        let element = self.context.library.load(dtype, from);
        let inside = if inside.is_empty() { None } else { Some(inside.join(" && ")).filter(|_| is_tested) };
        if is_outside {
            let inside = inside.unwrap_or_else(|| "true".to_owned());
            writeln!(self.code, "if ({inside}) {name} = {element};\n}}");
        } else if let Some(inside) = inside {
            writeln!(self.code, "{register} {name} = {{}};\nif ({inside}) {name} = {element};");
        } else {
            writeln!(self.code, "const {register} {name} = {element};");
        }
        Ok(())
    }

    /// Writes the function that loads an element of a column and tells whether it counts.
    fn load(&mut self) -> Result<(), TeError> {
        let [pass] = self.stage.pattern.passes.as_slice() else { return Ok(()) };
        let (axes, position) = (self.axes(), decode("position", "inner", 0..self.of_stage.loops.inner.len()));
        let inner = may_be_unused(&self.context.axis_values(Side::Inner, |slot| format!("inner{slot}"), ""));
        writeln! { self.code, "

            // An element of a column; returns whether it counts.
            __device__ __forceinline__ bool load(const Cursor& at, u32 position, Pass::Value& value) const {{
                {axes}
                {position}
                {inner}" }
        self.reads(pass.reads.clone(), true)?;
        let condition = self.context.value(&pass.condition)?;
        let source = self.context.values(&pass.source)?;
        if condition != "true" {
            writeln!(self.code, "if (!({condition})) return false;");
        }
        writeln!(self.code, "value = {{{source}}};\nreturn true;\n}}");
        Ok(())
    }

    /// Writes the function that gives the initial value of a column, and its total combined with that.
    fn start(&mut self) -> Result<(), TeError> {
        let [pass] = self.stage.pattern.passes.as_slice() else { return Ok(()) };
        writeln! { self.code, "

            // What a column starts from, and its total with that.
            __device__ __forceinline__ Pass::Value begin(const Cursor& at) const {{" }
        if pass.init.is_empty() {
            writeln!(self.code, "return Pass::identity();");
        } else {
            self.code.lines(&self.axes());
            self.reads(pass.init_reads.clone(), false)?;
            let init = self.context.values(&pass.init)?;
            writeln!(self.code, "return {{{init}}};");
        }
        let finished = if pass.init.is_empty() || self.key.exact { "total" } else { "Pass::combine(begin(at), total)" };
        writeln! { self.code, "
            }}
            __device__ __forceinline__ Pass::Value finished(const Cursor& at, const Pass::Value& total) const {{
                return {finished};
            }}" }
        Ok(())
    }

    /// Writes the function that keeps and stores what is computed from a column's total.
    fn store(&mut self) -> Result<(), TeError> {
        let pattern = &self.stage.pattern;
        let places = if pattern.passes.is_empty() {
            0..pattern.reads.list.len()
        } else {
            pattern.total_reads..pattern.point_reads
        };
        let axes = self.axes();
        writeln! { self.code, "

            // Keeps and stores what is made of a column.
            __device__ __forceinline__ void store(const Cursor& at, const Pass::Value& total) const {{
                {axes}" }
        self.reads(places, false)?;
        for (output, store) in self.stage.stores.iter().enumerate() {
            self.stored(output, *store)?;
        }
        writeln!(self.code, "}}");
        Ok(())
    }

    fn stored(&mut self, output: usize, store: Store) -> Result<(), TeError> {
        let (cell, key) = (self.cell, self.key);
        let made = &self.stage.pattern.outputs[output];
        let place = |ty: &str, number: usize| {
            let row = row_of(&cell.buffers[number], key, &format!("(at.step + {}u)", cell.given), "at.row");
            format!("te::shared_row<{ty}>(cell.offset{number}, {row} * cell.columns{number})[at.column]")
        };
        if let Some(number) = store.held {
            let value = self.context.value(&made.value)?;
            let ty = self.context.library.memory_type(cell.buffers[number].tensor.dtype());
            writeln!(self.code, "{} = {value};", place(ty, number));
        }
        let Some(state) = store.state else { return Ok(()) };
        let dtype = made.tensor.dtype();
        let value = self.context.stored(dtype, &made.value)?;
        let ty = self.context.library.memory_type(dtype);
        let name = self.context.output_name(output).to_owned();
        let memory = format!("p.{name}[{}]", self.context.offset(&name, Side::Outer, None));
        match cell.buffers.iter().position(|buffer| buffer.state == Some(state)) {
            Some(ring) => writeln!(self.code, "{memory} = {} = {value};", place(ty, ring)),
            None => writeln!(self.code, "{memory} = {value};"),
        }
        Ok(())
    }
}
