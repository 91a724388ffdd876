//! Writes the visitor of an sm_90a kernel, which calls the function of one element for fragments of the accumulator,
//! and loads the epilogue's tensors and vectors. `device/sm90/epilogue.cuh` says which members it must have.
//!
//! Names are as in the sm_80 visitor: those that belong to a value of the tree have a leading `_`.

use super::super::arguments::{EpilogueArguments, ReductionGroup, operation, output_name, running_type, taken};
use super::super::element::{ElementFunction, Guard, accumulator, chances, visitor_type};
use super::super::tail::Tail;
use super::inputs::{Accesses, Read, Way, position_of};
use crate::evt::{
    Axis, BroadcastClass, Form, ParameterClass, Position, Reduction, ValidOutput, ValidTree, ValueId, ValueKind,
};
use crate::expr::cuda::element_name;
use crate::gemm::kernel::sm90::{Sm90Key, Traffic};

/// Writes a visitor.
pub(super) struct VisitorText<'a> {
    tree: &'a ValidTree,
    swap_ab: bool,
    arguments: &'a EpilogueArguments,
    element: &'a ElementFunction,
    guards: &'a [Guard],
    tail: Option<&'a Tail<'a>>,
    accesses: Accesses,
    text: String,
}

impl<'a> VisitorText<'a> {
    pub(super) fn write(
        tree: &'a ValidTree,
        key: &Sm90Key,
        traffic: &Traffic,
        arguments: &'a EpilogueArguments,
        element: &'a ElementFunction,
        guards: &'a [Guard],
        tail: Option<&'a Tail<'a>>,
    ) -> String {
        let accesses = Accesses::of(tree, key, traffic, arguments);
        let (swap_ab, text) = (key.swap_ab, String::new());
        let mut this = Self { tree, swap_ab, arguments, element, guards, tail, accesses, text };
        this.line("// Feeds the function of one element with fragments of the tile; see sm90/epilogue.cuh.");
        this.line("struct Visitor {");
        this.places();
        this.members();
        this.producer();
        this.constructor();
        this.visit();
        this.store_outputs();
        this.finish();
        this.line("};");
        this.text
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn lines<'l>(&mut self, lines: impl IntoIterator<Item = &'l str>) {
        lines.into_iter().for_each(|line| self.line(line));
    }

    fn guard(&self, read: &Read) -> Option<&'a Guard> {
        self.guards.iter().find(|guard| guard.member == format!("read{}", read.field))
    }

    /// A condition in `arguments` for an argument to be needed; `None` if it always is.
    fn condition(&self, read: &Read) -> Option<String> {
        let guard = self.guard(read)?;
        let scalars: Vec<String> =
            guard.scalars.iter().map(|id| format!("arguments._{}", self.tree.value(*id).name)).collect();
        Some(format!("{}({})", guard.function, scalars.join(", ")))
    }

    /// The places of copied tensors in a stage, and of reductions in shared memory.
    fn places(&mut self) {
        self.lines(["    using L = sm90::Lanes<Config>;", "    static constexpr int V = L::V;"]);
        let inputs: Vec<(String, &str)> = self
            .accesses
            .copied_inputs()
            .iter()
            .map(|(_, copied)| (format!("input_at{}", copied.field), element_name(copied.element)))
            .collect();
        let outputs: Vec<(String, &str)> = self
            .accesses
            .copied_outputs
            .iter()
            .map(|(i, copied)| (format!("output_at{i}"), element_name(copied.element)))
            .collect();
        self.line(&format!(
            "    static constexpr bool INPUTS = {}, OUTPUTS = {};",
            !inputs.is_empty(),
            !outputs.is_empty()
        ));
        self.line(&format!("    static constexpr int VECTORS = {};", self.accesses.staged_vectors));
        for (places, stage) in [(inputs, "AUX"), (outputs, "OUTPUT")] {
            let mut end = "0".to_owned();
            for (name, element) in &places {
                let staged = format!("sm90::Staged<Config, {element}>");
                self.line(&format!("    static constexpr int {name} = sm90::aligned({end}, {staged}::ALIGNMENT);"));
                end = format!("{name} + {staged}::BYTES");
            }
            if !places.is_empty() {
                self.line(&format!("    static_assert({end} <= Config::{stage}_STAGE_BYTES, \"as the host plans\");"));
            }
        }
        let mut end = "Config::REDUCTION_OFFSET".to_owned();
        let reductions: Vec<_> = self.tree.reductions().map(|(i, _, r)| (i, r)).collect();
        for (i, reduction) in &reductions {
            let class = self.reduction_class(reduction.axis);
            self.line(&format!("    static constexpr int reduction_at{i} = {end};"));
            self.line(&format!(
                "    using Reduction{i} = sm90::{class}<Config, {}, {}, reduction_at{i}>;",
                operation(self.tree, reduction.op),
                running_type(self.tree, *reduction)
            ));
            end = format!("reduction_at{i} + Reduction{i}::BYTES");
        }
        if !reductions.is_empty() {
            self.line(&format!(
                "    static_assert({end} <= Config::REDUCTION_OFFSET + Config::REDUCTION_BYTES, \"as the host plans\");"
            ));
            self.line("    using Walk = sm90::Walk<Config, sm90::Control<Config>::WORDS>;");
        }
        self.line("");
    }

    /// The class of a reduction in MMA terms, where rows are the problem's rows unless the kernel is swapped.
    const fn reduction_class(&self, axis: Axis) -> &'static str {
        match (axis, self.swap_ab) {
            (Axis::Row, false) | (Axis::Column, true) => "PerRow",
            (Axis::Column, false) | (Axis::Row, true) => "PerColumn",
            (Axis::All, _) => "PerMatrix",
        }
    }

    fn members(&mut self) {
        self.lines([
            "    const Parameters& parameters;",
            "    const Arguments& arguments;",
            "    const sm90::Problem& problem;",
            "    const sm90::Work& work;",
            "    const sm90::Inside inside;",
        ]);
        for read in self.accesses.reads.clone() {
            match read.way {
                Way::Rows => {
                    self.line(&format!("    {} {}[sm90::Shape<Config>::RESULT_BLOCKS][2];", read.ty, read.field));
                }
                Way::Value => self.line(&format!("    {} {};", read.ty, read.field)),
                Way::Direct | Way::Bits | Way::Entries => {
                    if let Some(guard) = self.guard(&read) {
                        self.line(&format!("    bool {};", guard.member));
                    }
                }
                Way::Copied(_) | Way::Staged(_) => {}
            }
        }
        for seed in self.seeds() {
            self.line(&format!("    Chance {seed};"));
        }
        let reductions: Vec<usize> = self.tree.reductions().map(|(i, ..)| i).collect();
        for i in reductions {
            self.line(&format!("    Reduction{i} reduction{i};"));
        }
        self.line("");
    }

    /// Writes what the producer's warps call.
    fn producer(&mut self) {
        let accesses = self.accesses.clone();
        let inputs = accesses.copied_inputs();
        if !inputs.is_empty() {
            self.needed(&inputs.iter().map(|(read, _)| *read).collect::<Vec<_>>());
            self.line("    static __device__ __forceinline__ void clear_inputs(u32 needed, int stage) {");
            for (i, (_, copied)) in inputs.iter().enumerate() {
                let staged = format!("sm90::Staged<Config, {}>", element_name(copied.element));
                self.line(&format!(
                    "        if (!(needed >> {i} & 1)) {staged}::clear(stage + input_at{});",
                    copied.field
                ));
            }
            self.lines([
                "    }",
                "",
                "    static __device__ __forceinline__ u32 input_bytes(u32 needed) {",
                "        u32 bytes = 0;",
            ]);
            for (i, (_, copied)) in inputs.iter().enumerate() {
                self.line(&format!(
                    "        if (needed >> {i} & 1) bytes += sm90::Staged<Config, {}>::BYTES;",
                    element_name(copied.element)
                ));
            }
            self.lines([
                "        return bytes;",
                "    }",
                "",
                "    static __device__ __forceinline__ void load_inputs(const Parameters& parameters, u32 needed,",
                "                                                       const sm90::Work& work, int row, int column, \
                 int stage,",
                "                                                       u32 full) {",
            ]);
            for (i, (_, copied)) in inputs.iter().enumerate() {
                self.line(&format!("        if (needed >> {i} & 1)"));
                self.line(&format!(
                    "            sm90::Staged<Config, {}>::load_boxes(stage + input_at{field}, parameters.maps[{}], \
                     full, work, row, column, parameters.arguments.{field}.batch);",
                    element_name(copied.element),
                    copied.map,
                    field = copied.field
                ));
            }
            self.lines(["    }", ""]);
        }
        self.fill_vectors();
    }

    /// Writes a bit for every copied input: whether it is read at all.
    fn needed(&mut self, inputs: &[&Read]) {
        self.lines([
            "    // A bit for every copied input: whether it must be read.",
            "    static __device__ __forceinline__ u32 needed(const Parameters& parameters) {",
            "        [[maybe_unused]] const Arguments& arguments = parameters.arguments;",
            "        if (parameters.common.problem.m == 0 || parameters.common.problem.n == 0) return 0;",
        ]);
        let bits: Vec<String> = inputs
            .iter()
            .enumerate()
            .map(|(i, read)| match self.condition(read) {
                Some(condition) => format!("({condition} ? {}u : 0u)", 1u64 << i),
                None => format!("{}u", 1u64 << i),
            })
            .collect();
        self.line(&format!("        return {};", bits.join(" | ")));
        self.lines(["    }", ""]);
    }

    fn fill_vectors(&mut self) {
        let staged: Vec<(Read, usize)> = self
            .accesses
            .reads
            .iter()
            .filter_map(|read| match read.way {
                Way::Staged(index) => Some((read.clone(), index)),
                _ => None,
            })
            .collect();
        if staged.is_empty() {
            return;
        }
        self.lines([
            "    static __device__ __forceinline__ void fill_vectors(const Parameters& parameters, const sm90::Work& work,",
            "                                                        int team) {",
            "        [[maybe_unused]] const Arguments& arguments = parameters.arguments;",
            "        using Vectors = sm90::StagedVectors<Config, VECTORS>;",
        ]);
        for (read, index) in &staged {
            let needed = self.condition(read).unwrap_or_else(|| "true".to_owned());
            self.line(&format!(
                "        Vectors::fill<{}>(team, {index}, arguments.{}, work, parameters.common.problem, {needed});",
                read.staged_type(),
                read.field
            ));
        }
        self.lines(["    }", ""]);
    }

    fn constructor(&mut self) {
        let (rows, columns) = if self.swap_ab {
            ("parameters.common.problem.n - work.n", "parameters.common.problem.m - work.m")
        } else {
            ("parameters.common.problem.m - work.m", "parameters.common.problem.n - work.n")
        };
        self.lines([
            "    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm90::Work& work)",
            "        : parameters(parameters),",
            "          arguments(parameters.arguments),",
            "          problem(parameters.common.problem),",
            "          work(work),",
        ]);
        self.line(&format!("          inside{{{rows}, {columns}}} {{"));
        for read in self.accesses.reads.clone() {
            let (field, element) = (&read.field, element_name(read.element));
            let or_zero = |load: String| match self.condition(&read) {
                Some(condition) => format!("{condition} ? {load} : {element}{{}}"),
                None => load,
            };
            match read.way {
                Way::Value => {
                    let load = or_zero(format!("load(arguments.{field}, work.batch)"));
                    self.line(&format!("        {field} = widen<{}>({load});", read.ty));
                }
                Way::Rows => {
                    let (first, length) = match read.class {
                        ParameterClass::RowVector => ("work.n", "problem.n"),
                        _ => ("work.m", "problem.m"),
                    };
                    let load = or_zero(format!(
                        "load(arguments.{field}, work.batch, {first} + L::row(block, half), {length})"
                    ));
                    self.lines([
                        "#pragma unroll",
                        "        for (int block = 0; block < sm90::Shape<Config>::RESULT_BLOCKS; ++block)",
                        "#pragma unroll",
                        "            for (int half = 0; half < 2; ++half)",
                    ]);
                    self.line(&format!("                {field}[block][half] = widen<{}>({load});", read.ty));
                }
                Way::Direct | Way::Bits | Way::Entries => {
                    if let (Some(guard), Some(condition)) = (self.guard(&read), self.condition(&read)) {
                        self.line(&format!("        {} = {condition};", guard.member));
                    }
                }
                Way::Copied(_) | Way::Staged(_) => {}
            }
        }
        for seed in self.seeds() {
            self.line(&format!("        {seed} = chance(arguments.{seed});"));
        }
        self.lines(["    }", ""]);
    }

    /// The fields of the seeds that are read.
    fn seeds(&self) -> Vec<String> {
        let read = self.tree.broadcasts().filter(|(p, _)| self.tree.parameter(*p).class == ParameterClass::Seed);
        read.map(|(_, value)| format!("_{}", self.tree.value(value).name)).collect()
    }

    /// The argument for a leaf in a call of the function of one element, for value `v`.
    fn leaf(&self, id: ValueId) -> String {
        match self.tree.value(id).kind {
            ValueKind::Accum(i) => return format!("Real({}[v])", accumulator(self.tree, i)),
            ValueKind::Position(position) => return position_of(position, self.swap_ab),
            ValueKind::Random(..) => return format!("_{}[v]", self.tree.value(id).name),
            _ => {}
        }
        let field = format!("_{}", self.tree.value(id).name);
        let Some(parameter) = self.tree.parameters().iter().find(|p| p.value == Some(id)) else { return field };
        if parameter.class == ParameterClass::Scalar {
            return format!("arguments.{field}");
        }
        let Some(read) = self.accesses.reads.iter().find(|read| read.field == field) else { return field };
        match read.way {
            Way::Copied(_) | Way::Direct => format!("widen<{}>({field}[v])", read.ty),
            Way::Bits => format!("{field}[v]"),
            Way::Staged(_) => format!("{field}[L::column_index(v)]"),
            Way::Entries => format!("widen<{}>({field}[L::column_index(v)])", read.ty),
            Way::Rows => format!("{field}[block][L::half(v)]"),
            Way::Value => field,
        }
    }

    fn visit(&mut self) {
        self.lines([
            "    __device__ __forceinline__ void visit(const Config::Accumulator (&accum)[Config::ACCUMULATORS][V], \
             int block,",
            "                                          int column, int in_step, int inputs, int outputs) {",
        ]);
        for read in self.accesses.reads.clone() {
            let (field, element) = (&read.field, element_name(read.element));
            match &read.way {
                Way::Copied(_) => {
                    self.line(&format!("        {element} {field}[V];"));
                    self.line(&format!(
                        "        sm90::Staged<Config, {element}>::load(inputs + input_at{field}, in_step, {field});"
                    ));
                }
                Way::Direct | Way::Bits => {
                    let guard = self.guard(&read).map(|guard| guard.member.clone());
                    let start = if guard.is_some() { " = {}" } else { "" };
                    let (ty, load) = match read.way {
                        Way::Bits => (read.ty, "load_bits"),
                        _ => (element, "load_direct"),
                    };
                    self.line(&format!("        {ty} {field}[V]{start};"));
                    let condition = guard.map_or_else(String::new, |member| format!("if ({member}) "));
                    self.line(&format!(
                        "        {condition}sm90::{load}<Config>(arguments.{field}, work, problem, block, column, \
                         {field});"
                    ));
                }
                Way::Staged(index) => {
                    self.line(&format!("        {} {field}[L::COLUMNS];", read.staged_type()));
                    self.line(&format!(
                        "        sm90::StagedVectors<Config, VECTORS>::load({index}, column, {field});"
                    ));
                }
                Way::Entries => {
                    let guard = self.guard(&read).map(|guard| guard.member.clone());
                    let start = if guard.is_some() { " = {}" } else { "" };
                    self.line(&format!("        {element} {field}[L::COLUMNS]{start};"));
                    let condition = guard.map_or_else(String::new, |member| format!("if ({member}) "));
                    self.line(&format!(
                        "        {condition}sm90::load_entries<Config>(arguments.{field}, work, problem, column, {field});"
                    ));
                }
                Way::Rows | Way::Value => {}
            }
        }
        for (name, seed, stream) in chances(self.tree) {
            self.line(&format!("        Real {name}[V];"));
            self.line(&format!(
                "        sm90::random_unit<Config>({seed}, {stream}u, work, problem, block, column, {name});"
            ));
        }
        let leaves: Vec<String> = self.element.leaves.iter().map(|id| self.leaf(*id)).collect();
        self.line("        Values values[V];");
        self.line("#pragma unroll");
        self.line(&format!(
            "        for (int v = 0; v < V; ++v) values[v] = {}({});",
            self.element.name,
            leaves.join(", ")
        ));
        let outputs: Vec<(usize, ValidOutput)> = self.tree.stores().map(|(i, o)| (i, o.clone())).collect();
        for (i, output) in &outputs {
            self.store(*i, output);
        }
        let (row, column) = (position_of(Position::Row, self.swap_ab), position_of(Position::Column, self.swap_ab));
        let reduced: Vec<(usize, ValueId, Reduction)> =
            self.tree.reductions().map(|(i, o, r)| (i, o.value, r)).collect();
        for (i, value, reduction) in reduced {
            let then = format!("reduction{i}.add(block, column, x, inside);");
            let value = format!("values[v]._{}", self.tree.value(value).name);
            self.with(&running_type(self.tree, reduction), &taken(self.tree, reduction, &value, &row, &column), &then);
        }
        self.lines(["    }", ""]);
    }

    /// Writes a block in which `x` holds the values of `value`.
    fn with_values(&mut self, value: ValueId, then: &str) {
        let (name, ty) = (&self.tree.value(value).name, visitor_type(self.tree, value));
        self.with(ty, &format!("values[v]._{name}"), then);
    }

    /// Writes a block in which `x` holds what an expression gives for each `v`.
    fn with(&mut self, ty: &str, each: &str, then: &str) {
        self.line("        {");
        self.line(&format!("            {ty} x[V];"));
        self.line("#pragma unroll");
        self.line(&format!("            for (int v = 0; v < V; ++v) x[v] = {each};"));
        self.line(&format!("            {then}"));
        self.line("        }");
    }

    fn store(&mut self, i: usize, output: &ValidOutput) {
        let (element, to, value) = (element_name(output.element), output_name(i), &self.tree.value(output.value).name);
        let narrowed = format!("narrow<{element}>(values[v]._{value})");
        let (condition, store) = match output.class {
            BroadcastClass::Tensor if output.packed => {
                let then = format!("sm90::store_bits<Config>(arguments.{to}, work, problem, block, column, x);");
                return self.with_values(output.value, &then);
            }
            BroadcastClass::Tensor => {
                let copied = self.accesses.copied_outputs.iter().any(|(copied, _)| *copied == i);
                let then = if copied {
                    format!("sm90::Staged<Config, {element}>::store(outputs + output_at{i}, in_step, x);")
                } else {
                    format!("sm90::store_direct<Config>(arguments.{to}, work, problem, block, column, x);")
                };
                if let Some(kept) = self.tree.kept_integers(output) {
                    let then = then.replace(", x);", &format!(", {});", accumulator(self.tree, kept)));
                    return self.line(&format!("        {then}"));
                }
                return self.with_values(output.value, &then);
            }
            // A vector is the same in every row (column). The first tile along that axis writes it, even if there are
            // no rows (columns).
            BroadcastClass::RowVector => {
                ("m == 0", format!("store(arguments.{to}, {narrowed}, work.batch, n, problem.n)"))
            }
            BroadcastClass::ColumnVector => {
                ("n == 0", format!("store(arguments.{to}, {narrowed}, work.batch, m, problem.m)"))
            }
            BroadcastClass::Scalar => ("m == 0 && n == 0", format!("store(arguments.{to}, {narrowed}, work.batch)")),
        };
        self.lines([
            "#pragma unroll",
            "        for (int v = 0; v < V; ++v) {",
            "            const int row = L::row(block, L::half(v)), c = L::column(column, L::column_index(v));",
            "            const int m = sm90::row_in_problem<Config>(work, row, c);",
            "            const int n = sm90::column_in_problem<Config>(work, row, c);",
        ]);
        self.line(&format!("            if ({condition}) {store};"));
        self.line("        }");
    }

    fn store_outputs(&mut self) {
        let copied = self.accesses.copied_outputs.clone();
        if copied.is_empty() {
            return;
        }
        self.lines([
            "    __device__ __forceinline__ void store_outputs(int row, int column, int stage) const {",
            "        if (problem.m == 0 || problem.n == 0) return;  // nor are there tensor maps",
        ]);
        for (i, copied) in &copied {
            self.line(&format!(
                "        sm90::Staged<Config, {}>::store_boxes(stage + output_at{i}, parameters.maps[{}], work, row, \
                 column, arguments.{}.batch);",
                element_name(copied.element),
                copied.map,
                copied.field
            ));
        }
        self.lines(["    }", ""]);
    }

    fn finish(&mut self) {
        let reductions: Vec<_> = self.tree.reductions().map(|(i, _, r)| (i, r)).collect();
        self.line("    __device__ __forceinline__ void finish_block(int block) {");
        for (i, _) in &reductions {
            self.line(&format!("        reduction{i}.finish_block(block);"));
        }
        self.lines(["    }", "", "    __device__ __forceinline__ void finish() {"]);
        if reductions.is_empty() {
            return self.line("    }");
        }
        for (i, _) in &reductions {
            self.line(&format!("        reduction{i}.finish_tile();"));
        }
        self.line("        Walk::sync();  // every warp's values are in shared memory");
        for (i, reduction) in &reductions {
            let to = match reduction.form {
                Form::Complete => format!("partials{i}"),
                Form::Partial => output_name(*i),
            };
            self.line(&format!("        reduction{i}.store_partials(arguments.{to}, work, problem);"));
        }
        for (group, counters) in &self.arguments.counters {
            let (index, expected) = group.counter(false);
            self.line(&format!("        if (last_to_arrive<Walk>(arguments.{counters} + ({index}), {expected})) {{"));
            let complete = reductions.iter().filter(|(_, r)| r.form == Form::Complete);
            for (i, _) in complete.filter(|(_, r)| ReductionGroup::of(*r) == *group) {
                let to = output_name(*i);
                self.line(&format!(
                    "            reduction{i}.combine(arguments.partials{i}, arguments.{to}, work, problem, {});",
                    group.batch
                ));
            }
            if let Some(tail) = self.tail.filter(|tail| tail.follows(*group)) {
                tail.lines("Walk").iter().for_each(|line| self.line(line));
            }
            self.line("        }");
        }
        self.line("        Walk::sync();  // shared memory is free for the next tile");
        self.line("    }");
    }
}
