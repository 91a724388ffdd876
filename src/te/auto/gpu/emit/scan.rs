//! Writes CUDA C++ of automatic scans: the functions that the kernels of `device/te/scan.cuh` call.

use super::context::KernelContext;
use super::field::{Field, ScanField};
use super::frame::{Emitted, Frame};
use super::linear_map::{map_text, numbers};
use super::loops::{Loops, Side};
use super::reduce::combination;
use crate::cuda::Writer;
use crate::expr::identifier::sanitize;
use crate::te::auto::pattern::reads::read_type;
use crate::te::auto::pattern::recurrence::{Recurrence, When};
use crate::te::cuda::register;
use crate::te::error::TeError;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::{OperationKind, Tensor};
use crate::te::text::identifier;

/// The thread mapping of a scan: how threads share time and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) enum ScanMapping {
    /// A thread for each column, step by step.
    InOrder,
    /// A block has some columns, and cuts their time into tiles.
    Owned,
    /// Several blocks share the tiles of some columns.
    Shared,
}

/// Everything that the text of a scan's kernel depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::te::auto) struct ScanKey {
    pub(in crate::te::auto) loops: Loops,
    pub(in crate::te::auto) mapping: ScanMapping,
    pub(in crate::te::auto) threads: u32,
    /// Number of columns side by side in a warp.
    pub(in crate::te::auto) across: u32,
    /// Number of runs of steps that a lane has in a tile.
    pub(in crate::te::auto) subtiles: u32,
    /// Number of blocks that an SM should run at once; this limits the registers that the compiler uses.
    pub(in crate::te::auto) blocks_at_once: u32,
    /// Number of steps of the first tile that come before the first step; they align reads of several steps.
    pub(in crate::te::auto) shift: u32,
    /// Number of lanes that share columns that are reduced to one; 1 if none are.
    pub(in crate::te::auto) group: u32,
    /// Number of columns of a lane.
    pub(in crate::te::auto) per_lane: u32,
    /// Whether columns are combined one after another.
    pub(in crate::te::auto) exact: bool,
    /// For each output, whether several steps are stored at once.
    pub(in crate::te::auto) packed_outputs: Vec<bool>,
    /// Whether multiply-adds may be contracted.
    pub(in crate::te::auto) contract: bool,
}

/// The number of steps whose loads are in flight together if columns are scanned in order.
const IN_FLIGHT: u32 = 4;

struct Text<'a, 'b> {
    code: Writer,
    context: KernelContext<'a>,
    pattern: &'a Recurrence,
    key: &'b ScanKey,
}

/// Writes the kernel.
pub(in crate::te::auto) fn emit(pattern: &Recurrence, key: &ScanKey) -> Result<Emitted, TeError> {
    let outputs: Vec<Tensor> = pattern.outputs.iter().map(|output| output.tensor.clone()).collect();
    let mut context = KernelContext::new(&pattern.axes, &pattern.reads.list, &outputs, &key.loops);
    let mut fields = context.fields(&pattern.expressions(), &[Side::Outer, Side::Inner]);
    fields.extend(ScanField::ALL.map(Field::Scan));
    let mut text = Text { code: Writer::new(), context, pattern, key };
    text.configuration();
    text.values()?;
    text.fold_struct()?;
    text.code.blank();
    text.context.parameters(&mut text.code, &fields);
    text.code.blank();
    text.steps()?;

    let title = pattern.outputs[0].tensor.name();
    let operation = pattern.outputs[0].tensor.operation();
    let called = match operation.kind() {
        // All scans are named `scan`; their states have the user's names.
        OperationKind::Scan(scan) => scan.state[0].name(),
        OperationKind::Compute(_) | OperationKind::Placeholder { .. } => operation.name().to_owned(),
    };
    let function = match key.mapping {
        ScanMapping::InOrder => "scan_in_order",
        ScanMapping::Owned => "scan_owned",
        ScanMapping::Shared => "scan_shared",
    };
    let frame = Frame {
        what: format!("The scan `{title}`"),
        title: &title,
        symbol: sanitize(&identifier(&format!("{called}_scan"))),
        header: "te/scan.cuh",
        bounds: format!("{}, {}", key.threads, key.blocks_at_once),
        call: format!("{function}<epilogue::Config>(epilogue::Steps{{parameters}})"),
        contract: key.contract,
    };
    Ok(frame.around(text.code, &text.context.library, fields))
}

impl Text<'_, '_> {
    fn configuration(&mut self) {
        let ScanKey { loops, threads, across, subtiles, shift, group, per_lane, exact, .. } = self.key;
        let (vector, unroll) = (loops.vector, (IN_FLIGHT / per_lane).max(1));
        let tiles = format!("SUBTILES = {subtiles}, SHIFT = {shift}");
        writeln! { self.code, "
            constexpr int VECTOR = {vector};

            struct Config {{
                static constexpr int THREADS = {threads}, ACROSS = {across}, VECTOR = epilogue::VECTOR, {tiles},
                    UNROLL = {unroll}, GROUP = {group}, PER_LANE = {per_lane};
                static constexpr bool EXACT = {exact};
            }};" }
        self.code.blank();
    }

    /// Writes the structs of the state, the map and the elements of a step.
    fn values(&mut self) -> Result<(), TeError> {
        writeln!(self.code, "// A column's state.\nstruct State {{");
        for (i, dtype) in self.pattern.types().iter().enumerate() {
            writeln!(self.code, "{} s{i};", register(*dtype));
        }
        writeln!(self.code, "}};\n\n// The elements that a step reads.\nstruct Raw {{");
        for place in self.read_ahead() {
            let dtype = read_type(self.pattern.reads.list[place].tensor.dtype());
            writeln!(self.code, "{} {};", register(dtype), self.context.read_name(place));
        }
        writeln! { self.code, "
            }};

            // What steps do to the state: entry m01 is what component 1 before adds to component 0 after, where g01.
            struct Map {{" }
        match self.pattern.map.as_ref().filter(|_| self.key.mapping != ScanMapping::InOrder) {
            Some(map) => map_text(&mut self.code, &mut self.context, map, &self.pattern.components)?,
            None => writeln!(self.code, "}};"),
        }
        Ok(())
    }

    /// Writes the struct of functions that the kernel calls.
    fn steps(&mut self) -> Result<(), TeError> {
        let (folds, given) = (self.pattern.column_reduction.is_some(), self.pattern.given_steps);
        writeln! { self.code, "
            struct Steps {{
                const Parameters& p;
                using State = epilogue::State;
                using Map = epilogue::Map;
                using Raw = epilogue::Raw;
                static constexpr bool FOLDS = {folds};
                static constexpr int GIVEN = {given};" }
        if folds {
            writeln!(self.code, "using Fold = epilogue::Fold;");
        }
        for field in ScanField::ALL {
            self.code.lines(&field.getter());
        }
        if self.key.mapping != ScanMapping::InOrder {
            writeln! { self.code, "
                static __device__ __forceinline__ Map identity() {{ return unit_map(); }}
                static __device__ __forceinline__ Map compose(const Map& first, const Map& second) {{
                    return compose_maps(first, second);
                }}
                static __device__ __forceinline__ State apply(const Map& map, const State& state) {{
                    return apply_map(map, state);
                }}
                static __device__ __forceinline__ Map shuffle_up(const Map& x, int lanes) {{
                    return shuffle_map_up(x, lanes);
                }}
                static __device__ __forceinline__ Map shuffle_from(const Map& x, int lane) {{
                    return shuffle_map_from(x, lane);
                }}" }
        }
        self.column();
        self.begin()?;
        self.fold_given()?;
        self.load()?;
        // From here on the elements are members of `raw`.
        for place in self.read_ahead() {
            let name = format!("raw.{}", self.context.read_name(place));
            self.context.call(self.pattern.reads.list[place].var, name);
        }
        self.step()?;
        self.store()?;
        self.fold()?;
        writeln!(self.code, "}};");
        Ok(())
    }

    /// The reads that can be made before a step's turn, as members of `raw`.
    fn read_ahead(&self) -> Vec<usize> {
        (0..self.pattern.element_reads).filter(|place| self.time_of(*place) == When::Ahead).collect()
    }

    /// When a read of a step is made. A read that needs no test is always made ahead.
    fn time_of(&self, place: usize) -> When {
        if self.key.loops.access[place].is_some() { When::Ahead } else { self.pattern.when[place] }
    }

    /// The reads of a step that depend on the state before or after it, or on the total of its columns.
    fn reads_of_state(&mut self, when: When) -> Result<String, TeError> {
        let mut code = Writer::new();
        for place in (0..self.pattern.element_reads).filter(|place| self.time_of(*place) == when).collect::<Vec<_>>() {
            code.lines(&self.context.general_read(place)?);
        }
        Ok(code.value())
    }

    /// Writes the struct of what is the same for all steps of a column.
    fn column(&mut self) {
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        for (place, access) in self.key.loops.access.iter().enumerate() {
            if access.is_some() {
                let name = self.context.read_name(place);
                fields.push(name.to_owned());
                values.push(self.context.offset(name, Side::Outer, Some(place)));
            }
        }
        for output in 0..self.pattern.outputs.len() {
            let name = self.context.output_name(output);
            fields.push(name.to_owned());
            values.push(self.context.offset(name, Side::Outer, None));
        }
        for level in 0..self.key.loops.outer.len() {
            fields.push(format!("outer{level}"));
            values.push(format!("outer{level}"));
        }
        let (fields, values) = (fields.join(", "), values.join(", "));
        let decode = self.context.decode(Side::Outer, "position");
        writeln! { self.code, "

            // What is the same for all steps of a column.
            struct Cursor {{
                index_t {fields};
            }};
            __device__ __forceinline__ Cursor column(u32 position) const {{
                {decode}
                return {{{values}}};
            }}" }
    }

    fn axes(&self, with_time: bool) -> String {
        let mut code = Writer::new();
        code.lines(&self.context.axis_values(Side::Outer, |level| format!("at.outer{level}"), ""));
        if with_time {
            code.lines(&self.context.axis_values(Side::Inner, |_| "step".to_owned(), ""));
        }
        code.value()
    }

    /// Writes the function that gives the state before the first step, and stores the given steps.
    fn begin(&mut self) -> Result<(), TeError> {
        let reads = self.given_reads()?;
        let begin = self.context.values(&self.pattern.begin)?;
        writeln! { self.code, "

            // The state before the first step.
            __device__ __forceinline__ State begin(const Cursor& at) const {{
                {reads}
                return {{{begin}}};
            }}

            // Stores the steps that are given.
            __device__ __forceinline__ void store_begin(const Cursor& at) const {{
                {reads}" }
        let given = &self.pattern.given;
        for (step, values) in given.iter().enumerate() {
            for (output, value) in
                values.iter().enumerate().filter(|(output, _)| !self.pattern.outputs[*output].reduced)
            {
                let back = given.len() - step;
                let stored = self.stored(output, value, &format!("- {back} *"))?;
                self.code.lines(&stored);
            }
        }
        writeln!(self.code, "}}");
        Ok(())
    }

    /// Stores an output at a distance in steps from the first computed one: `- 1 *`, or `+ step *`.
    fn stored(&mut self, output: usize, value: &Expr, steps: &str) -> Result<String, TeError> {
        let name = self.context.output_name(output).to_owned();
        let value = self.context.stored(self.pattern.outputs[output].tensor.dtype(), value)?;
        Ok(format!("p.{name}[at.{name} {steps} p.{name}_inner0] = {value};"))
    }

    /// The reads of the given steps.
    fn given_reads(&mut self) -> Result<String, TeError> {
        let mut code = Writer::new();
        code.lines(&self.axes(false));
        let by_total: Vec<usize> = self.given_by_total().into_iter().flatten().collect();
        let all = self.pattern.element_reads..self.pattern.reads.list.len();
        for place in all.filter(|place| !by_total.contains(place)) {
            if self.key.loops.access[place].is_none() {
                code.lines(&self.context.general_read(place)?);
                continue;
            }
            let name = self.context.read_name(place).to_owned();
            let dtype = self.pattern.reads.list[place].tensor.dtype();
            let element = self.context.library.load(dtype, format!("p.{name}[at.{name}]"));
            writeln!(code, "const {} {name} = {element};", register(read_type(dtype)));
        }
        Ok(code.value())
    }

    /// For every given step, the reads that wait for the total of its columns.
    fn given_by_total(&self) -> Vec<Vec<usize>> {
        self.pattern.given_by_total(|place| self.key.loops.access[place].is_none())
    }

    /// Writes the struct that combines columns.
    fn fold_struct(&mut self) -> Result<(), TeError> {
        let Some(reduction) = &self.pattern.column_reduction else { return Ok(()) };
        for (i, total) in reduction.total.iter().enumerate() {
            self.context.call(*total, format!("total.v{i}"));
        }
        let all = &reduction.combination;
        let sides = (all.left.as_slice(), all.right.as_slice());
        writeln!(self.code, "\n\n// What columns are folded to.\nstruct Fold {{");
        combination(&mut self.code, &mut self.context, &reduction.types(), sides, &all.result, &all.identity)?;
        writeln!(self.code, "}};");
        Ok(())
    }

    /// Writes what columns contribute at given steps, and the outputs of that.
    fn fold_given(&mut self) -> Result<(), TeError> {
        let Some(reduction) = &self.pattern.column_reduction else { return Ok(()) };
        let reads = self.given_reads()?;
        writeln! { self.code, "

            // What a column gives to its group at a given step, and whether it counts.
            __device__ __forceinline__ bool fold_given(int given, const Cursor& at, Fold::Value& value) const {{
                {reads}" }
        for (step, (source, condition)) in reduction.given.iter().enumerate() {
            let gives = self.gives(source, condition)?;
            writeln!(self.code, "if (given == {step}) {{\n{gives}\n}}");
        }
        writeln! { self.code, "
                return false;
            }}
            __device__ __forceinline__ void store_given(int given, const Cursor& at, const Fold::Value& total) const {{
                {reads}" }
        let given = &self.pattern.given;
        for ((step, values), by_total) in given.iter().enumerate().zip(self.given_by_total()) {
            let (is_it, is_block) = (format!("if (given == {step})"), !by_total.is_empty());
            if is_block {
                writeln!(self.code, "{is_it} {{");
            }
            for place in by_total {
                let read = self.context.general_read(place)?;
                self.code.lines(&read);
            }
            for (output, value) in values.iter().enumerate().filter(|(output, _)| self.pattern.outputs[*output].reduced)
            {
                let back = given.len() - step;
                let stored = self.stored(output, value, &format!("- {back} *"))?;
                let test = if is_block { String::new() } else { format!("{is_it} ") };
                writeln!(self.code, "{test}{stored}");
            }
            if is_block {
                writeln!(self.code, "}}");
            }
        }
        writeln!(self.code, "}}");
        Ok(())
    }

    /// Statements that set `value` and return whether it counts.
    fn gives(&mut self, source: &[Expr], condition: &Expr) -> Result<String, TeError> {
        let condition = self.context.value(condition)?;
        let source = self.context.values(source)?;
        let test = if condition == "true" { String::new() } else { format!("if (!({condition})) return false;\n") };
        Ok(format!("{test}value = {{{source}}};\nreturn true;"))
    }

    /// Writes what columns contribute at a step, and the outputs of that.
    fn fold(&mut self) -> Result<(), TeError> {
        let Some(reduction) = &self.pattern.column_reduction else { return Ok(()) };
        let axes = self.axes(true);
        let (after, of_total) = (self.reads_of_state(When::After)?, self.reads_of_state(When::Reduced)?);
        let gives = self.gives(&reduction.source, &reduction.condition)?;
        let arguments = "const Cursor& at, index_t step, const Raw& raw";
        writeln! { self.code, "

            // What a column gives to its group at a step, and whether it counts.
            __device__ __forceinline__ bool fold({arguments}, const State& after, Fold::Value& value) const {{
                {axes}
                {after}
                {gives}
            }}
            __device__ __forceinline__ void store_folded({arguments}, const Fold::Value& total) const {{
                {axes}
                {of_total}" }
        let pattern = self.pattern;
        for (output, made) in pattern.outputs.iter().enumerate().filter(|(_, made)| made.reduced) {
            let stored = self.stored(output, &made.value, "+ step *")?;
            self.code.lines(&stored);
        }
        writeln!(self.code, "}}");
        Ok(())
    }

    fn load(&mut self) -> Result<(), TeError> {
        writeln! { self.code, "

            // The elements of some steps.
            template <bool FULL>
            __device__ __forceinline__ void load(const Cursor& at, index_t inner0, Raw (&raw)[VECTOR], te::Valid valid) const {{" }
        for place in 0..self.pattern.element_reads {
            let Some(access) = self.key.loops.access[place] else { continue };
            let name = self.context.read_name(place).to_owned();
            let offset = self.context.offset(&name, Side::Inner, Some(place));
            writeln! { self.code, "
                const auto {name}_read = te::read<VECTOR, te::Access::{access:?}, FULL>(
                    p.{name} + (at.{name} + {offset}), p.{name}_inner0, valid);" }
        }
        let axes = self.axes(true);
        let step = if axes.contains("step") { "const index_t step = inner0 + v;" } else { "" };
        writeln! { self.code, "
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {{
                if (!FULL && !valid.has(v)) continue;
                {step}
                {axes}" }
        let mut names = Vec::new();
        for place in self.read_ahead() {
            let name = self.context.read_name(place).to_owned();
            if self.key.loops.access[place].is_some() {
                let dtype = self.pattern.reads.list[place].tensor.dtype();
                let element = self.context.library.load(dtype, format!("{name}_read.value[v]"));
                writeln!(self.code, "const {} {name} = {element};", register(read_type(dtype)));
            } else {
                self.code.lines(&self.context.general_read(place)?);
            }
            names.push(name);
        }
        writeln!(self.code, "raw[v] = {{{}}};\n}}\n}}", names.join(", "));
        Ok(())
    }

    /// Writes the function that does one step.
    fn step(&mut self) -> Result<(), TeError> {
        let axes = self.axes(true);
        let arguments = "const Cursor& at, index_t step, const Raw& raw";
        if let Some(map) = self.pattern.map.clone().filter(|_| self.key.mapping != ScanMapping::InOrder) {
            let entries = numbers(&mut self.context, &map, &map.step())?;
            writeln! { self.code, "

                // A step as a map.
                __device__ __forceinline__ Map map({arguments}) const {{
                    {axes}
                    return {{{entries}}};
                }}" }
        }
        for (i, component) in self.pattern.components.iter().enumerate() {
            self.context.call(*component, format!("state.s{i}"));
        }
        let before = self.reads_of_state(When::Before)?;
        let updates = self.context.values(&self.pattern.updates)?;
        writeln! { self.code, "

            // A step.
            __device__ __forceinline__ State next({arguments}, const State& state) const {{
                {axes}
                {before}
                return {{{updates}}};
            }}" }
        Ok(())
    }

    fn store(&mut self) -> Result<(), TeError> {
        writeln! { self.code, "

            // Stores the outputs of some steps.
            template <bool FULL>
            __device__ __forceinline__ void store(const Cursor& at, index_t inner0, const State (&states)[VECTOR],
                const Raw (&raws)[VECTOR], te::Valid valid) const {{" }
        for (output, packed) in self.key.packed_outputs.iter().enumerate() {
            if *packed {
                let ty = self.context.library.memory_type(self.pattern.outputs[output].tensor.dtype());
                writeln!(self.code, "Pack<{ty}, VECTOR> {}_pack;", self.context.output_name(output));
            }
        }
        for (i, after) in self.pattern.after.iter().enumerate() {
            self.context.call(*after, format!("after.s{i}"));
        }
        let (axes, after) = (self.axes(true), self.reads_of_state(When::After)?);
        writeln! { self.code, "
            #pragma unroll
            for (int v = 0; v < VECTOR; ++v) {{
                if (!FULL && !valid.has(v)) continue;
                const index_t step = inner0 + v;
                const State& after = states[v];
                const Raw& raw = raws[v];
                {axes}
                {after}" }
        let mut packs = Writer::new();
        let pattern = self.pattern;
        for (output, made) in pattern.outputs.iter().enumerate().filter(|(_, made)| !made.reduced) {
            let name = self.context.output_name(output).to_owned();
            let value = self.context.stored(made.tensor.dtype(), &made.value)?;
            let single = format!("p.{name}[at.{name} + step * p.{name}_inner0]");
            if self.key.packed_outputs[output] {
                writeln! { self.code, "
                    {name}_pack.value[v] = {value};
                    if (!FULL) {single} = {name}_pack.value[v];" }
                let ty = self.context.library.memory_type(made.tensor.dtype());
                let all = format!("*reinterpret_cast<Pack<{ty}, VECTOR>*>(p.{name} + (at.{name} + inner0))");
                writeln!(packs, "if (FULL) {all} = {name}_pack;");
            } else {
                writeln!(self.code, "{single} = {value};");
            }
        }
        writeln!(self.code, "}}");
        self.code.lines(&packs.text());
        writeln!(self.code, "}}");
        Ok(())
    }
}
