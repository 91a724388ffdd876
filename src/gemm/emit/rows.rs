//! Writes the visitor of rows: a lane has neighbouring columns of one row at a time, and calls the function of one element for
//! each.
//!
//! A family uses it if its lanes get whole rows, from registers, shared memory or memory. Its namespace has `Problem`, `Work`,
//! `Walk` and the reductions, as `src/device/sm80/reduce.cuh` and `scheduler.cuh` define them.
//!
//! The function of one element has the tree's own names, which are the user's. The visitor's names are chosen here;
//! those for a value or an argument of the tree have a leading `_`, which no name of the tree has.

use crate::cuda::Writer;
use crate::evt::{
    Axis, BroadcastClass, Form, OutputKind, ParameterClass, ParameterId, Position, Sweep, SweepPlace, SweepTarget,
    ValidOutput, ValidTree, ValueId, ValueKind,
};
use crate::expr::cuda::element_name;
use crate::gemm::emit::arguments::{ReductionGroup, operation, output_name, running_type, taken};
use crate::gemm::emit::element::{ElementFunction, accumulator, chances, visitor_type};
use crate::gemm::emit::epilogue::EpilogueText;
use crate::gemm::emit::tail::Tail;

/// A parameter that is read.
struct Read {
    parameter: ParameterId,
    /// Its field: its value's name with a leading `_`.
    name: String,
    /// The C++ type of its elements in memory.
    element: &'static str,
    /// The C++ type of its value.
    ty: &'static str,
}

/// Writes a visitor.
pub(crate) struct RowVisitor<'a> {
    tree: &'a ValidTree,
    family: &'a str,
    epilogue: &'a EpilogueText<'a>,
    /// Whether rows are of groups.
    grouped: bool,
    tail: Option<&'a Tail<'a>>,
    code: &'a mut Writer,
}

impl<'a> RowVisitor<'a> {
    /// Writes it for a kernel of a family, which is its namespace in the device code.
    pub(crate) fn write(
        code: &'a mut Writer,
        family: &'a str,
        epilogue: &'a EpilogueText<'a>,
        tail: Option<&'a Tail<'a>>,
        grouped: bool,
    ) {
        let mut this = Self { tree: epilogue.tree, family, epilogue, grouped, tail, code };
        this.members();
        this.constructor();
        for (i, (sweep, element)) in epilogue.sweeps.iter().enumerate() {
            this.fetch(i, sweep);
            this.visit(i, sweep, element);
            this.finish_sweep(i, sweep);
        }
        this.finish();
        writeln!(this.code, "}};");
    }

    /// The type of the work.
    const fn work(&self) -> &'static str {
        if self.grouped { "GroupWork" } else { "Work" }
    }

    /// The end of the rows.
    const fn rows(&self) -> &'static str {
        if self.grouped { "work.end" } else { "problem.m" }
    }

    /// The first row.
    const fn first(&self) -> &'static str {
        if self.grouped { "work.begin" } else { "0" }
    }

    fn name(&self, id: ValueId) -> &'a str {
        &self.tree.value(id).name
    }

    /// The type of what a sweep fetches of one row.
    fn fetched(&self, number: usize) -> String {
        if self.epilogue.sweeps.len() == 1 { "Fetched".to_owned() } else { format!("Fetched{number}") }
    }

    /// The parameters of the wanted classes that are read, with their values' names.
    fn read(&self, wanted: &[ParameterClass]) -> Vec<Read> {
        self.read_by(None, wanted)
    }

    /// The ones that a sweep reads, or any.
    fn read_by(&self, sweep: Option<&Sweep<'_>>, wanted: &[ParameterClass]) -> Vec<Read> {
        let of_sweep =
            |parameter: &ParameterId| sweep.is_none_or(|sweep| sweep.tree.parameter(*parameter).value.is_some());
        self.tree
            .loads()
            .chain(self.tree.broadcasts())
            .filter(|(parameter, _)| wanted.contains(&self.tree.parameter(*parameter).class))
            .filter(|(parameter, _)| of_sweep(parameter))
            .map(|(parameter, value)| Read {
                parameter,
                name: format!("_{}", self.name(value)),
                element: element_name(self.tree.parameter(parameter).element),
                ty: visitor_type(self.tree, value),
            })
            .collect()
    }

    fn members(&mut self) {
        let family = self.family;
        writeln! { self.code, "
            // Feeds the function of one element with rows of the tile; see {family}/epilogue.cuh.
            struct Visitor {{
                static constexpr int V = Config::VECTOR;
                static constexpr int SWEEPS = {};
                static __device__ __forceinline__ constexpr bool keeps([[maybe_unused]] int sweep) {{ return {}; }}",
            self.epilogue.sweeps.len(),
            self.keeping()
        }
        for (i, (sweep, _)) in self.epilogue.sweeps.iter().enumerate() {
            writeln!(self.code, "\n// What is read of one row.\nstruct {} {{", self.fetched(i));
            for Read { name, element, .. } in
                self.read_by(Some(sweep), &[ParameterClass::Tensor, ParameterClass::TensorMut])
            {
                writeln!(self.code, "Pack<{element}, V> {name};");
            }
            for Read { name, .. } in self.read_by(Some(sweep), &[ParameterClass::Bits]) {
                writeln!(self.code, "u32 {name};");
            }
            for Read { name, element, .. } in self.read_by(Some(sweep), &[ParameterClass::ColumnVector]) {
                writeln!(self.code, "{element} {name};");
            }
            writeln!(self.code, "}};\n");
        }
        if self.tail.is_some() {
            writeln!(self.code, "const Parameters& parameters;");
        }
        writeln! { self.code, "
            const Arguments& arguments;
            const {family}::Problem& problem;
            const {family}::{}& work;
            const int n;  // this lane's first column", self.work() }
        for Read { name, ty, .. } in self.read(&[ParameterClass::RowVector]) {
            writeln!(self.code, "{ty} {name}[V];");
        }
        for Read { name, ty, .. } in self.read(&[ParameterClass::DeviceScalar]) {
            writeln!(self.code, "{ty} {name};");
        }
        for Read { name, .. } in self.read(&[ParameterClass::Seed]) {
            writeln!(self.code, "Chance {name};");
        }
        for guard in &self.epilogue.guards {
            writeln!(self.code, "bool {};", guard.member);
        }
        for (i, _, reduction) in self.tree.reductions() {
            let (op, ty) = (operation(self.tree, reduction.op), running_type(self.tree, reduction));
            let class = reduction_class(reduction.axis);
            writeln!(self.code, "{family}::{class}<Config, {op}, {ty}, {i}> reduction{i};");
        }
        let mut number = self.tree.outputs().len();
        for (sweep, _) in &self.epilogue.sweeps {
            for (output, target) in sweep.tree.outputs().iter().zip(&sweep.targets) {
                let (OutputKind::Reduce(reduction), SweepTarget::Kept(SweepPlace::Line(id))) = (output.kind, *target)
                else {
                    continue;
                };
                let (op, ty) = (operation(self.tree, reduction.op), running_type(self.tree, reduction));
                let (class, name) = (reduction_class(reduction.axis), self.name(id));
                writeln!(self.code, "{family}::{class}<Config, {op}, {ty}, {number}> _{name};");
                number += 1;
            }
        }
        self.code.blank();
    }

    /// The condition of a sweep that writes to accumulators.
    fn keeping(&self) -> String {
        let sweeps = self.epilogue.sweeps.iter().enumerate();
        let keeping: Vec<String> =
            sweeps.filter(|(_, (sweep, _))| sweep.writes_registers()).map(|(i, _)| format!("sweep == {i}")).collect();
        if keeping.is_empty() { "false".to_owned() } else { keeping.join(" || ") }
    }

    /// `condition ? ` for an argument that is read only if a host scalar is not 0.
    fn read_or_zero(&self, parameter: ParameterId, name: &str, load: &str, zero: &str) -> String {
        match self.tree.guard(parameter) {
            Some(_) => format!("read{name} ? {load} : {zero}"), // the member that `Guard` names
            None => load.to_owned(),
        }
    }

    fn constructor(&mut self) {
        let (family, work) = (self.family, self.work());
        writeln!(
            self.code,
            "__device__ __forceinline__ Visitor(const Parameters& parameters, const {family}::{work}& work, int column)"
        );
        match self.tail {
            Some(_) => writeln!(self.code, "    : parameters(parameters),\n      arguments(parameters.arguments),"),
            None => writeln!(self.code, "    : arguments(parameters.arguments),"),
        }
        writeln!(
            self.code,
            "      problem(parameters.common.problem),\n      work(work),\n      n(work.n + column) {{"
        );
        for guard in &self.epilogue.guards {
            let scalars: Vec<String> =
                guard.scalars.iter().map(|id| format!("arguments._{}", self.name(*id))).collect();
            writeln!(self.code, "{} = {}({});", guard.member, guard.function, scalars.join(", "));
        }
        for Read { parameter, name, element, ty } in self.read(&[ParameterClass::RowVector]) {
            let load = format!("load(arguments.{name}, work.batch, n + v, problem.n)");
            let load = self.read_or_zero(parameter, &name, &load, &format!("{element}{{}}"));
            writeln! { self.code, "
                #pragma unroll
                for (int v = 0; v < V; ++v)
                    {name}[v] = widen<{ty}>({load});" }
        }
        for Read { parameter, name, element, ty } in self.read(&[ParameterClass::DeviceScalar]) {
            let load = format!("load(arguments.{name}, work.batch)");
            let load = self.read_or_zero(parameter, &name, &load, &format!("{element}{{}}"));
            writeln!(self.code, "{name} = widen<{ty}>({load});");
        }
        for Read { name, .. } in self.read(&[ParameterClass::Seed]) {
            writeln!(self.code, "{name} = chance(arguments.{name});");
        }
        writeln!(self.code, "}}\n");
    }

    fn fetch(&mut self, number: usize, sweep: &Sweep<'_>) {
        let (rows, fetched) = (self.rows(), self.fetched(number));
        writeln! { self.code, "
            __device__ __forceinline__ {fetched} fetch(Sweep<{number}>, int m) const {{
                {fetched} fetched;" }
        for Read { parameter, name, element, .. } in
            self.read_by(Some(sweep), &[ParameterClass::Tensor, ParameterClass::TensorMut])
        {
            let load = format!("load<V>(arguments.{name}, work.batch, m, n, {rows}, problem.n)");
            let load = self.read_or_zero(parameter, &name, &load, &format!("Pack<{element}, V>{{}}"));
            writeln!(self.code, "fetched.{name} = {load};");
        }
        for Read { parameter, name, .. } in self.read_by(Some(sweep), &[ParameterClass::Bits]) {
            let load = format!("load_bits<V>(arguments.{name}, work.batch, m, n, {rows}, problem.n)");
            let load = self.read_or_zero(parameter, &name, &load, "0u");
            writeln!(self.code, "fetched.{name} = {load};");
        }
        for Read { parameter, name, element, .. } in self.read_by(Some(sweep), &[ParameterClass::ColumnVector]) {
            let load = format!("load(arguments.{name}, work.batch, m, {rows})");
            let load = self.read_or_zero(parameter, &name, &load, &format!("{element}{{}}"));
            writeln!(self.code, "fetched.{name} = {load};");
        }
        writeln!(self.code, "return fetched;\n}}\n");
    }

    /// The argument for a leaf in a call of a sweep's function of one element, in column `v`.
    fn leaf(&self, sweep: &Sweep<'_>, id: ValueId) -> String {
        let tree = sweep.tree;
        let name = format!("_{}", tree.value(id).name);
        let parameter = match tree.value(id).kind {
            ValueKind::Accum(i) => return format!("Real({}[v])", accumulator(self.tree, i)),
            ValueKind::Position(position) => {
                return match position {
                    Position::Row => "m",
                    Position::Column => "n + v",
                    Position::Batch => "work.batch",
                    Position::Rows => "problem.m",
                    Position::Columns => "problem.n",
                }
                .to_owned();
            }
            ValueKind::Random(..) => return format!("{name}[v]"),
            ValueKind::Load(parameter) | ValueKind::Broadcast(parameter) => parameter,
            _ => return name,
        };
        let ty = visitor_type(tree, id);
        match sweep.place(parameter) {
            Some(SweepPlace::Accumulator(i)) => return format!("Real({}[v])", accumulator(self.tree, i)),
            Some(SweepPlace::Register(i)) => return format!("from_register<{ty}>(accum[{i}][v])"),
            Some(SweepPlace::Line(line)) => {
                let place = match self.tree.value(line).class {
                    BroadcastClass::ColumnVector => "row",
                    BroadcastClass::RowVector => "n - work.n + v",
                    BroadcastClass::Scalar | BroadcastClass::Tensor => "",
                };
                return format!("narrow<{ty}>(_{}.of_tile({place}))", self.name(line));
            }
            None => {}
        }
        match tree.parameter(parameter).class {
            ParameterClass::Tensor | ParameterClass::TensorMut => format!("widen<{ty}>(fetched.{name}.value[v])"),
            ParameterClass::Bits => format!("(fetched.{name} >> v & 1) != 0"),
            ParameterClass::ColumnVector => format!("widen<{ty}>(fetched.{name})"),
            ParameterClass::RowVector => format!("{name}[v]"),
            ParameterClass::DeviceScalar | ParameterClass::Seed => name,
            ParameterClass::Scalar => format!("arguments.{name}"),
        }
    }

    fn visit(&mut self, number: usize, sweep: &Sweep<'_>, element: &ElementFunction) {
        let (accumulator, fetched) = (self.tree.types().accumulator.name(), self.fetched(number));
        let constant = if sweep.writes_registers() { "" } else { "const " };
        writeln! { self.code, "
        __device__ __forceinline__ void visit(Sweep<{number}>, int m, int row, {constant}{accumulator} \
        (&accum)[Config::ACCUMULATORS][V], const {fetched}& fetched) {{" }
        for (name, seed, stream) in chances(sweep.tree) {
            let row = "chance_row(m, problem.m, work.batch)";
            writeln!(self.code, "Real {name}[V];\nrandom_columns<V>({seed}, {stream}u, {row}, n, {name});");
        }
        let leaves: Vec<String> = element.leaves.iter().map(|id| self.leaf(sweep, *id)).collect();
        let (function, values, leaves) = (&element.name, &element.values, leaves.join(", "));
        writeln! { self.code, "
            {values} values[V];
            #pragma unroll
            for (int v = 0; v < V; ++v) {{
                values[v] = {function}({leaves});
            }}" }
        for (place, output) in sweep.tree.stores() {
            if let SweepTarget::Output(i) = sweep.targets[place] {
                self.store(sweep.tree, i, output);
            }
        }
        for (place, output, reduction) in sweep.tree.reductions() {
            let value = format!("values[v]._{}", sweep.tree.value(output.value).name);
            let ty = running_type(self.tree, reduction);
            let then =
                format!("{}.add(row, x, m < {}, problem.n - n);", self.reduction(sweep.targets[place]), self.rows());
            self.with(&format!("{ty} x[V]"), "x[v]", &taken(self.tree, reduction, &value, "m", "n + v"), &then);
        }
        for (place, output) in sweep.tree.stores() {
            let SweepTarget::Kept(SweepPlace::Register(i)) = sweep.targets[place] else { continue };
            let name = &sweep.tree.value(output.value).name;
            writeln! { self.code, "
                #pragma unroll
                for (int v = 0; v < V; ++v) accum[{i}][v] = to_register<{accumulator}>(values[v]._{name});" }
        }
        writeln!(self.code, "}}\n");
    }

    /// The member that a reduction is.
    fn reduction(&self, target: SweepTarget) -> String {
        match target {
            SweepTarget::Kept(SweepPlace::Line(id)) => format!("_{}", self.name(id)),
            SweepTarget::Output(i) => format!("reduction{i}"),
            // Never: what takes an accumulator's place is no reduction.
            SweepTarget::Kept(_) => String::new(),
        }
    }

    fn finish_sweep(&mut self, number: usize, sweep: &Sweep<'_>) {
        writeln!(self.code, "__device__ __forceinline__ void finish_sweep(Sweep<{number}>) {{");
        for (place, ..) in sweep.tree.reductions() {
            writeln!(self.code, "{}.finish_warp();", self.reduction(sweep.targets[place]));
        }
        writeln!(self.code, "}}\n");
    }

    /// Writes a block in which a declared variable gets what an expression gives for each `v`.
    fn with(&mut self, declaration: &str, element: &str, each: &str, then: &str) {
        writeln! { self.code, "
            {{
                {declaration};
                #pragma unroll
                for (int v = 0; v < V; ++v) {element} = {each};
                {then}
            }}" }
    }

    fn store(&mut self, tree: &ValidTree, i: usize, output: &ValidOutput) {
        let (element, to, value) = (element_name(output.element), output_name(i), &tree.value(output.value).name);
        let (rows, first) = (self.rows(), self.first());
        match output.class {
            BroadcastClass::Tensor if output.packed => {
                let then = format!("store_bits<V>(arguments.{to}, x, work.batch, m, n, {rows}, problem.n);");
                self.with("bool x[V]", "x[v]", &format!("values[v]._{value}"), &then);
            }
            BroadcastClass::Tensor => {
                let x = match tree.kept_integers(output) {
                    Some(i) => format!("{}[v]", accumulator(self.tree, i)),
                    None => format!("values[v]._{value}"),
                };
                let then = format!("store<V>(arguments.{to}, x, work.batch, m, n, {rows}, problem.n);");
                let declaration = format!("Pack<{element}, V> x");
                self.with(&declaration, "x.value[v]", &format!("narrow<{element}>({x})"), &then);
            }
            // A vector is the same in every row (column). The first tile along that axis writes it, even if there are
            // no rows (columns).
            BroadcastClass::RowVector => writeln! { self.code, "
                if (m == {first}) {{
                    #pragma unroll
                    for (int v = 0; v < V; ++v)
                        store(arguments.{to}, narrow<{element}>(values[v]._{value}), work.batch, n + v, problem.n);
                }}" },
            BroadcastClass::ColumnVector => writeln!(
                self.code,
                "if (n == 0) store(arguments.{to}, narrow<{element}>(values[0]._{value}), work.batch, m, {rows});"
            ),
            BroadcastClass::Scalar => writeln!(
                self.code,
                "if (m == {first} && n == 0) store(arguments.{to}, narrow<{element}>(values[0]._{value}), work.batch);"
            ),
        }
    }

    fn finish(&mut self) {
        let family = self.family;
        writeln!(self.code, "__device__ __forceinline__ void finish() {{");
        let reductions: Vec<_> = self.tree.reductions().collect();
        if !reductions.is_empty() {
            writeln!(self.code, "__syncthreads();  // every warp's values are in shared memory");
        }
        for (i, _, reduction) in &reductions {
            let to = match reduction.form {
                Form::Complete => format!("partials{i}"),
                Form::Partial => output_name(*i),
            };
            writeln!(self.code, "reduction{i}.store_partials(arguments.{to}, work, problem);");
        }
        for (group, counters) in &self.epilogue.arguments.counters {
            let (index, expected) = group.counter(self.grouped);
            // A tile that no group has is not one of those which its results are of.
            let exists = if self.grouped && !group.batch { "work.exists && " } else { "" };
            let count = format!("arguments.{counters} + ({index}), {expected}");
            writeln!(self.code, "if ({exists}last_to_arrive<{family}::Walk<Config>>({count})) {{");
            for (i, ..) in
                reductions.iter().filter(|(.., r)| r.form == Form::Complete && ReductionGroup::of(*r) == *group)
            {
                let (to, batch) = (self.epilogue.arguments.stored_by(*i), group.batch);
                writeln!(self.code, "reduction{i}.combine(arguments.partials{i}, {to}, work, problem, {batch});");
            }
            if let Some(tail) = self.tail.filter(|tail| tail.follows(*group)) {
                tail.lines(self.code, &format!("{family}::Walk<Config>"));
            }
            writeln!(self.code, "}}");
        }
        writeln!(self.code, "}}");
    }
}

const fn reduction_class(axis: Axis) -> &'static str {
    match axis {
        Axis::Row => "RowReduction",
        Axis::Column => "ColumnReduction",
        Axis::All => "AllReduction",
    }
}
