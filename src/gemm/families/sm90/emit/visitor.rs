//! Writes the visitor of an sm_90a kernel. It loads the epilogue's tensors and vectors, and calls the function of one element
//! for fragments of the accumulator; `outputs` stores them. `device/sm90/epilogue.cuh` says which members it must have.
//!
//! Names are as in the sm_80 visitor: those that belong to a value of the tree have a leading `_`.

use super::inputs::{Accesses, Copied, InputRead, Way, position_of};
use crate::cuda::Writer;
use crate::evt::{
    Axis, Form, OutputKind, ParameterClass, Position, Reduction, Sweep, SweepPlace, SweepTarget, ValidOutput,
    ValidTree, ValueId, ValueKind,
};
use crate::expr::cuda::element_name;
use crate::gemm::emit::arguments::{ReductionGroup, operation, output_name, running_type, taken};
use crate::gemm::emit::element::{ElementFunction, Guard, accumulator, chances, visitor_type};
use crate::gemm::emit::epilogue::EpilogueText;
use crate::gemm::emit::tail::Tail;
use crate::gemm::families::sm90::kernel::{Sm90Key, Traffic};
use crate::gemm::kernel::Within;

/// Writes a visitor.
pub(super) struct VisitorText<'a> {
    pub(super) tree: &'a ValidTree,
    swap_ab: bool,
    /// Whether rows are of groups.
    pub(super) grouped: bool,
    /// Whether whole lines lie in the tiles of a cluster.
    in_cluster: bool,
    epilogue: &'a EpilogueText<'a>,
    tail: Option<&'a Tail<'a>>,
    pub(super) accesses: Accesses,
    pub(super) code: &'a mut Writer,
}

impl<'a> VisitorText<'a> {
    pub(super) fn write(
        code: &'a mut Writer,
        key: &Sm90Key,
        traffic: &Traffic,
        epilogue: &'a EpilogueText<'a>,
        tail: Option<&'a Tail<'a>>,
    ) {
        let tree = epilogue.tree;
        let accesses = Accesses::of(tree, key, traffic, &epilogue.arguments);
        let (swap_ab, grouped, in_cluster) =
            (key.swap_ab, key.reading.divides_rows(), key.within() == Some(Within::Cluster));
        let mut this = Self { tree, swap_ab, grouped, in_cluster, epilogue, tail, accesses, code };
        writeln! { this.code, "
            // Feeds the function of one element with fragments of the tile; see sm90/epilogue.cuh.
            struct Visitor {{" }
        this.places();
        this.members();
        this.producer();
        this.constructor();
        for (i, (sweep, element)) in epilogue.sweeps.iter().enumerate() {
            this.visit(i, sweep, element);
            this.store_outputs(i, sweep);
            this.finish_block(i, sweep);
            this.exchange(i, sweep);
        }
        this.finish();
        writeln!(this.code, "}};");
    }

    /// The end of the rows.
    pub(super) const fn rows(&self) -> &'static str {
        if self.grouped { "work.end" } else { "problem.m" }
    }

    /// The first row.
    pub(super) const fn first(&self) -> &'static str {
        if self.grouped { "work.begin" } else { "0" }
    }

    /// The extents up to which elements are accessed one by one.
    pub(super) const fn extents(&self) -> &'static str {
        if self.grouped { "sm90::up_to(work.end, problem)" } else { "problem" }
    }

    fn guard(&self, read: &InputRead) -> Option<&'a Guard> {
        self.epilogue.guards.iter().find(|guard| guard.member == format!("read{}", read.field))
    }

    /// A condition in `arguments` for an argument to be needed; `None` if it always is.
    fn condition(&self, read: &InputRead) -> Option<String> {
        let guard = self.guard(read)?;
        let scalars: Vec<String> =
            guard.scalars.iter().map(|id| format!("arguments._{}", self.tree.value(*id).name)).collect();
        Some(format!("{}({})", guard.function, scalars.join(", ")))
    }

    /// The places of copied tensors in a stage, and of reductions in shared memory.
    fn places(&mut self) {
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
        writeln! { self.code, "
            using L = sm90::Lanes<Config>;
            static constexpr int V = L::V;
            static constexpr bool INPUTS = {}, OUTPUTS = {};
            static constexpr int VECTORS = {};",
            !inputs.is_empty(),
            !outputs.is_empty(),
            self.accesses.staged_vectors
        }
        self.sweeps();
        for (places, stage) in [(inputs, "AUX"), (outputs, "OUTPUT")] {
            let mut end = "0".to_owned();
            for (name, element) in &places {
                let staged = format!("sm90::Staged<Config, {element}>");
                writeln!(self.code, "static constexpr int {name} = sm90::aligned({end}, {staged}::ALIGNMENT);");
                end = format!("{name} + {staged}::BYTES");
            }
            if !places.is_empty() {
                writeln!(self.code, "static_assert({end} <= Config::{stage}_STAGE_BYTES, \"as the host plans\");");
            }
        }
        let mut end = "Config::REDUCTION_OFFSET".to_owned();
        let reductions: Vec<_> = self.tree.reductions().map(|(i, _, r)| (i, r)).collect();
        for (i, reduction) in &reductions {
            let class = self.reduction_class(reduction.axis);
            let (op, ty) = (operation(self.tree, reduction.op), running_type(self.tree, *reduction));
            writeln! { self.code, "
                static constexpr int reduction_at{i} = {end};
                using Reduction{i} = sm90::{class}<Config, {op}, {ty}, reduction_at{i}>;" }
            end = format!("reduction_at{i} + Reduction{i}::BYTES");
        }
        if !reductions.is_empty() {
            writeln! { self.code, "
                static_assert({end} <= Config::REDUCTION_OFFSET + Config::REDUCTION_BYTES, \"as the host plans\");
                using Walk = sm90::Walk<Config, sm90::Control<Config>::WORDS>;" }
        }
        self.code.blank();
    }

    /// Questions that the walk over the tile asks of each sweep.
    fn sweeps(&mut self) {
        let sweeps = &self.epilogue.sweeps;
        writeln!(self.code, "static constexpr int SWEEPS = {};", sweeps.len());
        let copied = self.accesses.copied_inputs();
        let inputs = |sweep: &Sweep<'_>| {
            let is_read = |read: &InputRead| sweep.tree.parameters()[read.parameter].value.is_some();
            let bits = copied.iter().enumerate().filter(|(_, (read, _))| is_read(read)).map(|(i, _)| 1u64 << i);
            format!("{}u", bits.sum::<u64>())
        };
        let answers: [(&str, &str, Vec<String>); 4] = [
            ("u32", "inputs_of", sweeps.iter().map(|(sweep, _)| inputs(sweep)).collect()),
            ("bool", "outputs_of", sweeps.iter().map(|(sweep, _)| self.copies_outputs(sweep).to_string()).collect()),
            ("bool", "is_of_lines", sweeps.iter().map(|(sweep, _)| sweep.is_of_lines().to_string()).collect()),
            ("bool", "keeps", sweeps.iter().map(|(sweep, _)| sweep.writes_registers().to_string()).collect()),
        ];
        for (ty, question, answers) in answers {
            let (last, others) = answers.split_last().map_or(("0", &[][..]), |(last, others)| (last.as_str(), others));
            let others: String =
                others.iter().enumerate().map(|(i, answer)| format!("sweep == {i} ? {answer} : ")).collect();
            writeln!(
                self.code,
                "static __device__ __forceinline__ constexpr {ty} {question}([[maybe_unused]] int sweep) {{ return {others}{last}; }}"
            );
        }
    }

    /// Whether a sweep stores tensors by boxes.
    pub(super) fn copies_outputs(&self, sweep: &Sweep<'_>) -> bool {
        let is_copied = |output: &usize| self.accesses.copied_outputs.iter().any(|(copied, _)| copied == output);
        sweep.targets.iter().any(|target| matches!(target, SweepTarget::Output(output) if is_copied(output)))
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
        writeln! { self.code, "
            const Parameters& parameters;
            const Arguments& arguments;
            const sm90::Problem& problem;
            const sm90::{};
            const sm90::Inside inside;",
            if self.grouped { "GroupWork work" } else { "Work& work" }
        }
        for read in self.accesses.reads.clone() {
            match read.way {
                Way::Rows => {
                    writeln!(self.code, "{} {}[sm90::Shape<Config>::RESULT_BLOCKS][2];", read.ty, read.field);
                }
                Way::Value => writeln!(self.code, "{} {};", read.ty, read.field),
                Way::Direct | Way::Bits | Way::Entries => {
                    if let Some(guard) = self.guard(&read) {
                        writeln!(self.code, "bool {};", guard.member);
                    }
                }
                Way::Copied(_) | Way::Staged(_) => {}
            }
        }
        for seed in self.seeds() {
            writeln!(self.code, "Chance {seed};");
        }
        for (i, ..) in self.tree.reductions() {
            writeln!(self.code, "Reduction{i} reduction{i};");
        }
        for (sweep, _) in &self.epilogue.sweeps {
            for (output, target) in sweep.tree.outputs().iter().zip(&sweep.targets) {
                let (OutputKind::Reduce(reduction), SweepTarget::Kept(SweepPlace::Line(id))) = (output.kind, *target)
                else {
                    continue;
                };
                let (op, running) = (operation(self.tree, reduction.op), running_type(self.tree, reduction));
                let (ty, name) = (visitor_type(self.tree, id), &self.tree.value(id).name);
                let class = if self.in_cluster { "LineInCluster" } else { "LineInTile" };
                writeln!(self.code, "sm90::{class}<Config, {op}, {running}, {ty}> _{name};");
            }
        }
        self.code.blank();
    }

    /// Writes what the producer's warps call.
    fn producer(&mut self) {
        let accesses = self.accesses.clone();
        let inputs = accesses.copied_inputs();
        if !inputs.is_empty() {
            self.needed(&inputs.iter().map(|(read, _)| *read).collect::<Vec<_>>());
            let inputs: Vec<(usize, String, &Copied)> = inputs
                .iter()
                .enumerate()
                .map(|(i, (_, copied))| (i, format!("sm90::Staged<Config, {}>", element_name(copied.element)), *copied))
                .collect();
            writeln!(self.code, "static __device__ __forceinline__ void clear_inputs(u32 needed, int stage) {{");
            for (i, staged, Copied { field, .. }) in &inputs {
                writeln!(self.code, "if (!(needed >> {i} & 1)) {staged}::clear(stage + input_at{field});");
            }
            writeln! { self.code, "
                }}

                static __device__ __forceinline__ u32 input_bytes(u32 needed) {{
                    u32 bytes = 0;" }
            for (i, staged, _) in &inputs {
                writeln!(self.code, "if (needed >> {i} & 1) bytes += {staged}::BYTES;");
            }
            writeln! { self.code, "
                    return bytes;
                }}

                static __device__ __forceinline__ void load_inputs(const Parameters& parameters, u32 needed,
                                                                   const sm90::Work& work, int row, int column, int stage,
                                                                   u32 full) {{" }
            for (i, staged, Copied { field, map, has_digits, .. }) in &inputs {
                let (load, of) = match has_digits {
                    true => ("sm90::load_digit_boxes<Config>".to_owned(), ""),
                    false => (format!("{staged}::load_boxes"), ".batch"),
                };
                let place = format!("stage + input_at{field}, parameters.maps[{map}]");
                writeln! { self.code, "
                    if (needed >> {i} & 1)
                        {load}({place}, full, work, row, column, parameters.arguments.{field}{of});" }
            }
            writeln!(self.code, "}}\n");
        }
        self.fill_vectors();
    }

    /// Writes a bit for every copied input: whether it is read at all.
    fn needed(&mut self, inputs: &[&InputRead]) {
        let bits: Vec<String> = inputs
            .iter()
            .enumerate()
            .map(|(i, read)| match self.condition(read) {
                Some(condition) => format!("({condition} ? {}u : 0u)", 1u64 << i),
                None => format!("{}u", 1u64 << i),
            })
            .collect();
        writeln! { self.code, "
            // A bit for every copied input: whether it must be read.
            static __device__ __forceinline__ u32 needed(const Parameters& parameters) {{
                [[maybe_unused]] const Arguments& arguments = parameters.arguments;
                if (parameters.common.problem.m == 0 || parameters.common.problem.n == 0) return 0;
                return {};
            }}", bits.join(" | ") }
        self.code.blank();
    }

    fn fill_vectors(&mut self) {
        let staged: Vec<(InputRead, usize)> = self
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
        writeln! { self.code, "
            static __device__ __forceinline__ void fill_vectors(const Parameters& parameters, const sm90::Work& work,
                                                                int team) {{
                [[maybe_unused]] const Arguments& arguments = parameters.arguments;
                using Vectors = sm90::StagedVectors<Config, VECTORS>;" }
        for (read, index) in &staged {
            let needed = self.condition(read).unwrap_or_else(|| "true".to_owned());
            let (ty, field) = (read.staged_type(), &read.field);
            writeln!(
                self.code,
                "Vectors::fill<{ty}>(team, {index}, arguments.{field}, work, parameters.common.problem, {needed});"
            );
        }
        writeln!(self.code, "}}\n");
    }

    fn constructor(&mut self) {
        let (given, work) = if self.grouped { ("given", "sm90::group_work<Config>(given)") } else { ("work", "work") };
        let m = if self.grouped { "work.end - work.m" } else { "parameters.common.problem.m - work.m" };
        let n = "parameters.common.problem.n - work.n";
        let (rows, columns) = if self.swap_ab { (n, m) } else { (m, n) };
        writeln! { self.code, "
            __device__ __forceinline__ Visitor(const Parameters& parameters, const sm90::Work& {given})
                : parameters(parameters),
                  arguments(parameters.arguments),
                  problem(parameters.common.problem),
                  work({work}),
                  inside{{{rows}, {columns}}} {{" }
        for read in self.accesses.reads.clone() {
            let (field, ty, element) = (&read.field, read.ty, element_name(read.element));
            let or_zero = |load: String| match self.condition(&read) {
                Some(condition) => format!("{condition} ? {load} : {element}{{}}"),
                None => load,
            };
            match read.way {
                Way::Value => {
                    let load = or_zero(format!("load(arguments.{field}, work.batch)"));
                    writeln!(self.code, "{field} = widen<{ty}>({load});");
                }
                Way::Rows => {
                    let (first, length) = match read.class {
                        ParameterClass::RowVector => ("work.n", "problem.n"),
                        _ => ("work.m", self.rows()),
                    };
                    let load = or_zero(format!(
                        "load(arguments.{field}, work.batch, {first} + L::row(block, half), {length})"
                    ));
                    writeln! { self.code, "
                        #pragma unroll
                        for (int block = 0; block < sm90::Shape<Config>::RESULT_BLOCKS; ++block)
                        #pragma unroll
                            for (int half = 0; half < 2; ++half)
                                {field}[block][half] = widen<{ty}>({load});" }
                }
                Way::Direct | Way::Bits | Way::Entries => {
                    if let (Some(guard), Some(condition)) = (self.guard(&read), self.condition(&read)) {
                        writeln!(self.code, "{} = {condition};", guard.member);
                    }
                }
                Way::Copied(_) | Way::Staged(_) => {}
            }
        }
        for seed in self.seeds() {
            writeln!(self.code, "{seed} = chance(arguments.{seed});");
        }
        writeln!(self.code, "}}\n");
    }

    /// The fields of the seeds that are read.
    fn seeds(&self) -> Vec<String> {
        let read = self.tree.broadcasts().filter(|(p, _)| self.tree.parameter(*p).class == ParameterClass::Seed);
        read.map(|(_, value)| format!("_{}", self.tree.value(value).name)).collect()
    }

    /// The argument for a leaf in a call of a sweep's function of one element, for value `v`.
    fn leaf(&self, sweep: &Sweep<'_>, id: ValueId) -> String {
        let value = sweep.tree.value(id);
        let field = format!("_{}", value.name);
        let parameter = match value.kind {
            ValueKind::Accum(i) => return format!("Real({}[v])", accumulator(self.tree, i)),
            ValueKind::Position(position) => return position_of(position, self.swap_ab),
            ValueKind::Random(..) => return format!("{field}[v]"),
            ValueKind::Load(parameter) | ValueKind::Broadcast(parameter) => parameter,
            _ => return field,
        };
        match sweep.place(parameter) {
            Some(SweepPlace::Accumulator(i)) => return format!("Real({}[v])", accumulator(self.tree, i)),
            Some(SweepPlace::Register(i)) => {
                return format!("from_register<{}>(accum[{i}][v])", visitor_type(sweep.tree, id));
            }
            Some(SweepPlace::Line(id)) => return format!("_{}.result[L::half(v)]", self.tree.value(id).name),
            None => {}
        }
        let parameter = sweep.tree.parameter(parameter);
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

    fn visit(&mut self, number: usize, sweep: &Sweep<'_>, element: &ElementFunction) {
        let constant = if sweep.writes_registers() { "" } else { "const " };
        writeln! { self.code, "
            __device__ __forceinline__ void visit(Sweep<{number}>,
                                                  {constant}Config::Accumulator (&accum)[Config::ACCUMULATORS][V], int block,
                                                  int column, int in_step, int inputs, int outputs) {{" }
        if self.grouped && self.copies_outputs(sweep) {
            let row = "sm90::BlockRows<Config>::first(L::member(), block)";
            writeln!(
                self.code,
                "const bool whole = sm90::whole_step<Config>(inside, {row}, column - in_step);  // so boxes store it"
            );
        }
        let extents = self.extents();
        for read in self.accesses.of_sweep(sweep) {
            let (field, element) = (&read.field, element_name(read.element));
            let guard = self.guard(&read).map(|guard| guard.member.clone());
            let start = if guard.is_some() { " = {}" } else { "" };
            let condition = guard.map_or_else(String::new, |member| format!("if ({member}) "));
            match &read.way {
                Way::Copied(_) => writeln! { self.code, "
                    {element} {field}[V];
                    sm90::Staged<Config, {element}>::load(inputs + input_at{field}, in_step, {field});" },
                Way::Direct | Way::Bits => {
                    let (ty, load) = match read.way {
                        Way::Bits => (read.ty, "load_bits"),
                        _ => (element, "load_direct"),
                    };
                    writeln! { self.code, "
                        {ty} {field}[V]{start};
                        {condition}sm90::{load}<Config>(arguments.{field}, work, {extents}, block, column, {field});" }
                }
                Way::Staged(index) => writeln! { self.code, "
                    {} {field}[L::COLUMNS];
                    sm90::StagedVectors<Config, VECTORS>::load({index}, column, {field});", read.staged_type() },
                Way::Entries => writeln! { self.code, "
                    {element} {field}[L::COLUMNS]{start};
                    {condition}sm90::load_entries<Config>(arguments.{field}, work, {extents}, column, {field});" },
                Way::Rows | Way::Value => {}
            }
        }
        for (name, seed, stream) in chances(sweep.tree) {
            writeln! { self.code, "
                Real {name}[V];
                sm90::random_unit<Config>({seed}, {stream}u, work, problem, block, column, {name});" }
        }
        let leaves: Vec<String> = element.leaves.iter().map(|id| self.leaf(sweep, *id)).collect();
        let (function, values, leaves) = (&element.name, &element.values, leaves.join(", "));
        writeln! { self.code, "
            {values} values[V];
            #pragma unroll
            for (int v = 0; v < V; ++v) values[v] = {function}({leaves});" }
        for (place, output) in sweep.tree.stores() {
            if let SweepTarget::Output(i) = sweep.targets[place] {
                self.store(sweep, i, output);
            }
        }
        let (row, column) = (position_of(Position::Row, self.swap_ab), position_of(Position::Column, self.swap_ab));
        for (place, output, reduction) in sweep.tree.reductions() {
            let then = format!("{}.add(block, column, x, inside);", self.reduction(sweep.targets[place]));
            let value = format!("values[v]._{}", sweep.tree.value(output.value).name);
            self.with(&running_type(self.tree, reduction), &taken(self.tree, reduction, &value, &row, &column), &then);
        }
        for (place, output) in sweep.tree.stores() {
            let SweepTarget::Kept(SweepPlace::Register(i)) = sweep.targets[place] else { continue };
            let name = &sweep.tree.value(output.value).name;
            writeln! { self.code, "
                #pragma unroll
                for (int v = 0; v < V; ++v) accum[{i}][v] = to_register<Config::Accumulator>(values[v]._{name});" }
        }
        writeln!(self.code, "}}\n");
    }

    /// The member that a reduction is.
    fn reduction(&self, target: SweepTarget) -> String {
        match target {
            SweepTarget::Kept(SweepPlace::Line(id)) => format!("_{}", self.tree.value(id).name),
            SweepTarget::Output(i) => format!("reduction{i}"),
            // Never: what is in registers is stored.
            SweepTarget::Kept(_) => String::new(),
        }
    }

    fn finish_block(&mut self, number: usize, sweep: &Sweep<'_>) {
        writeln!(self.code, "__device__ __forceinline__ void finish_block(Sweep<{number}>, int block) {{");
        for (place, ..) in sweep.tree.reductions() {
            writeln!(self.code, "{}.finish_block(block);", self.reduction(sweep.targets[place]));
        }
        writeln!(self.code, "}}\n");
    }

    /// Writes what hands the cluster's parts of a sweep's lines around, where they lie in its tiles.
    fn exchange(&mut self, number: usize, sweep: &Sweep<'_>) {
        if !self.in_cluster {
            return;
        }
        let of_line = |(place, ..): (usize, &ValidOutput, Reduction)| match sweep.targets[place] {
            SweepTarget::Kept(SweepPlace::Line(id)) => Some(format!(", _{}", self.tree.value(id).name)),
            SweepTarget::Kept(_) | SweepTarget::Output(_) => None,
        };
        let lines: String = sweep.tree.reductions().filter_map(of_line).collect();
        writeln! { self.code, "
            __device__ __forceinline__ void exchange(Sweep<{number}>, u32& parity) {{
                sm90::Exchange<Config>::run(parity, work, problem{lines});
            }}
            " }
    }

    fn finish(&mut self) {
        let reductions: Vec<_> = self.tree.reductions().map(|(i, _, r)| (i, r)).collect();
        writeln!(self.code, "__device__ __forceinline__ void finish() {{");
        if reductions.is_empty() {
            return writeln!(self.code, "}}");
        }
        for (i, _) in &reductions {
            writeln!(self.code, "reduction{i}.finish_tile();");
        }
        writeln!(self.code, "Walk::sync();  // every warp's values are in shared memory");
        for (i, reduction) in &reductions {
            let to = match reduction.form {
                Form::Complete => format!("partials{i}"),
                Form::Partial => output_name(*i),
            };
            writeln!(self.code, "reduction{i}.store_partials(arguments.{to}, work, problem);");
        }
        for (group, counters) in &self.epilogue.arguments.counters {
            let (index, expected) = group.counter(self.grouped);
            // A tile that no group has is not one of those which its results are of.
            let exists = if self.grouped && !group.batch { "work.of_group && " } else { "" };
            writeln!(self.code, "if ({exists}last_to_arrive<Walk>(arguments.{counters} + ({index}), {expected})) {{");
            let complete = reductions.iter().filter(|(_, r)| r.form == Form::Complete);
            for (i, _) in complete.filter(|(_, r)| ReductionGroup::of(*r) == *group) {
                let (to, batch) = (self.epilogue.arguments.stored_by(*i), group.batch);
                writeln!(self.code, "reduction{i}.combine(arguments.partials{i}, {to}, work, problem, {batch});");
            }
            if let Some(tail) = self.tail.filter(|tail| tail.follows(*group)) {
                tail.lines(self.code, "Walk");
            }
            writeln!(self.code, "}}");
        }
        writeln!(self.code, "Walk::sync();  // shared memory is free for the next tile\n}}");
    }
}
