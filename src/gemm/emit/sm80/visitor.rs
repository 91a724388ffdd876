//! Writes the visitor of a kernel for sm_80 and later, which calls the function of one element for each accumulator.
//!
//! The function of one element has the tree's own names, which are the user's. The visitor's names are chosen here;
//! those for a value or an argument of the tree have a leading `_`, which no name of the tree has.

use super::super::arguments::{EpilogueArguments, ReductionGroup, operation, output_name, running_type, taken};
use super::super::element::{ElementFunction, Guard, accumulator, chances, visitor_type};
use super::super::tail::Tail;
use crate::evt::{
    Axis, BroadcastClass, Form, ParameterClass, ParameterId, Position, ValidOutput, ValidTree, ValueId, ValueKind,
};
use crate::expr::cuda::element_name;

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
pub(crate) struct VisitorText<'a> {
    tree: &'a ValidTree,
    arguments: &'a EpilogueArguments,
    element: &'a ElementFunction,
    guards: &'a [Guard],
    /// Whether rows are of groups.
    grouped: bool,
    tail: Option<&'a Tail<'a>>,
    text: String,
}

impl<'a> VisitorText<'a> {
    pub(crate) fn write(
        tree: &'a ValidTree,
        arguments: &'a EpilogueArguments,
        element: &'a ElementFunction,
        guards: &'a [Guard],
        tail: Option<&'a Tail<'a>>,
        grouped: bool,
    ) -> String {
        let mut this = Self { tree, arguments, element, guards, grouped, tail, text: String::new() };
        this.members();
        this.constructor();
        this.fetch();
        this.visit();
        this.finish();
        this.line("};");
        this.text
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
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

    /// The parameters of the wanted classes that are read, with their values' names.
    fn read(&self, wanted: &[ParameterClass]) -> Vec<Read> {
        self.tree
            .loads()
            .chain(self.tree.broadcasts())
            .filter(|(parameter, _)| wanted.contains(&self.tree.parameter(*parameter).class))
            .map(|(parameter, value)| Read {
                parameter,
                name: format!("_{}", self.name(value)),
                element: element_name(self.tree.parameter(parameter).element),
                ty: visitor_type(self.tree, value),
            })
            .collect()
    }

    fn members(&mut self) {
        self.line("// Feeds the function of one element with rows of the tile; see sm80/epilogue.cuh.");
        self.line("struct Visitor {");
        self.line("    static constexpr int V = Config::VECTOR;");
        self.line("");
        self.line("    // What is read of one row.");
        self.line("    struct Fetched {");
        for Read { name, element, .. } in self.read(&[ParameterClass::Tensor, ParameterClass::TensorMut]) {
            self.line(&format!("        Pack<{element}, V> {name};"));
        }
        for Read { name, .. } in self.read(&[ParameterClass::Bits]) {
            self.line(&format!("        u32 {name};"));
        }
        for Read { name, element, .. } in self.read(&[ParameterClass::ColumnVector]) {
            self.line(&format!("        {element} {name};"));
        }
        self.line("    };");
        self.line("");
        if self.tail.is_some() {
            self.line("    const Parameters& parameters;");
        }
        self.line("    const Arguments& arguments;");
        self.line("    const sm80::Problem& problem;");
        self.line(&format!("    const sm80::{}& work;", self.work()));
        self.line("    const int n;  // this lane's first column");
        for Read { name, ty, .. } in self.read(&[ParameterClass::RowVector]) {
            self.line(&format!("    {ty} {name}[V];"));
        }
        for Read { name, ty, .. } in self.read(&[ParameterClass::DeviceScalar]) {
            self.line(&format!("    {ty} {name};"));
        }
        for Read { name, .. } in self.read(&[ParameterClass::Seed]) {
            self.line(&format!("    Chance {name};"));
        }
        for guard in self.guards {
            self.line(&format!("    bool {};", guard.member));
        }
        for (i, _, reduction) in self.tree.reductions() {
            let (op, ty) = (operation(self.tree, reduction.op), running_type(self.tree, reduction));
            let class = reduction_class(reduction.axis);
            self.line(&format!("    sm80::{class}<Config, {op}, {ty}, {i}> reduction{i};"));
        }
        self.line("");
    }

    /// `condition ? ` for an argument that is read only if a host scalar is not 0.
    fn read_or_zero(&self, parameter: ParameterId, name: &str, load: &str, zero: &str) -> String {
        match self.tree.guard(parameter) {
            Some(_) => format!("read{name} ? {load} : {zero}"), // the member that `Guard` names
            None => load.to_owned(),
        }
    }

    fn constructor(&mut self) {
        self.line(&format!(
            "    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::{}& work, int column)",
            self.work()
        ));
        match self.tail {
            Some(_) => {
                self.line("        : parameters(parameters),");
                self.line("          arguments(parameters.arguments),");
            }
            None => self.line("        : arguments(parameters.arguments),"),
        }
        self.line("          problem(parameters.common.problem),");
        self.line("          work(work),");
        self.line("          n(work.n + column) {");
        for guard in self.guards {
            let scalars: Vec<String> =
                guard.scalars.iter().map(|id| format!("arguments._{}", self.name(*id))).collect();
            self.line(&format!("        {} = {}({});", guard.member, guard.function, scalars.join(", ")));
        }
        for Read { parameter, name, element, ty } in self.read(&[ParameterClass::RowVector]) {
            self.line("#pragma unroll");
            self.line("        for (int v = 0; v < V; ++v)");
            let load = format!("load(arguments.{name}, work.batch, n + v, problem.n)");
            let load = self.read_or_zero(parameter, &name, &load, &format!("{element}{{}}"));
            self.line(&format!("            {name}[v] = widen<{ty}>({load});"));
        }
        for Read { parameter, name, element, ty } in self.read(&[ParameterClass::DeviceScalar]) {
            let load = format!("load(arguments.{name}, work.batch)");
            let load = self.read_or_zero(parameter, &name, &load, &format!("{element}{{}}"));
            self.line(&format!("        {name} = widen<{ty}>({load});"));
        }
        for Read { name, .. } in self.read(&[ParameterClass::Seed]) {
            self.line(&format!("        {name} = chance(arguments.{name});"));
        }
        self.line("    }");
        self.line("");
    }

    fn fetch(&mut self) {
        self.line("    __device__ __forceinline__ Fetched fetch(int m) const {");
        self.line("        Fetched fetched;");
        for Read { parameter, name, element, .. } in self.read(&[ParameterClass::Tensor, ParameterClass::TensorMut]) {
            let load = format!("load<V>(arguments.{name}, work.batch, m, n, {}, problem.n)", self.rows());
            let load = self.read_or_zero(parameter, &name, &load, &format!("Pack<{element}, V>{{}}"));
            self.line(&format!("        fetched.{name} = {load};"));
        }
        for Read { parameter, name, .. } in self.read(&[ParameterClass::Bits]) {
            let load = format!("load_bits<V>(arguments.{name}, work.batch, m, n, {}, problem.n)", self.rows());
            let load = self.read_or_zero(parameter, &name, &load, "0u");
            self.line(&format!("        fetched.{name} = {load};"));
        }
        for Read { parameter, name, element, .. } in self.read(&[ParameterClass::ColumnVector]) {
            let load = format!("load(arguments.{name}, work.batch, m, {})", self.rows());
            let load = self.read_or_zero(parameter, &name, &load, &format!("{element}{{}}"));
            self.line(&format!("        fetched.{name} = {load};"));
        }
        self.line("        return fetched;");
        self.line("    }");
        self.line("");
    }

    /// The argument for a leaf in a call of the function of one element, in column `v`.
    fn leaf(&self, id: ValueId) -> String {
        let name = format!("_{}", self.name(id));
        match self.tree.value(id).kind {
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
            _ => {}
        }
        let Some(parameter) = self.tree.parameters().iter().find(|p| p.value == Some(id)) else { return name };
        let ty = visitor_type(self.tree, id);
        match parameter.class {
            ParameterClass::Tensor | ParameterClass::TensorMut => format!("widen<{ty}>(fetched.{name}.value[v])"),
            ParameterClass::Bits => format!("(fetched.{name} >> v & 1) != 0"),
            ParameterClass::ColumnVector => format!("widen<{ty}>(fetched.{name})"),
            ParameterClass::RowVector => format!("{name}[v]"),
            ParameterClass::DeviceScalar | ParameterClass::Seed => name,
            ParameterClass::Scalar => format!("arguments.{name}"),
        }
    }

    fn visit(&mut self) {
        let accumulator = self.tree.types().accumulator.name();
        self.line(&format!(
            "    __device__ __forceinline__ void visit(int m, int row, const {accumulator} \
             (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {{"
        ));
        for (name, seed, stream) in chances(self.tree) {
            self.line(&format!("        Real {name}[V];"));
            let row = "chance_row(m, problem.m, work.batch)";
            self.line(&format!("        random_columns<V>({seed}, {stream}u, {row}, n, {name});"));
        }
        self.line("        Values values[V];");
        self.line("#pragma unroll");
        self.line("        for (int v = 0; v < V; ++v) {");
        let leaves: Vec<String> = self.element.leaves.iter().map(|id| self.leaf(*id)).collect();
        self.line(&format!("            values[v] = {}({});", self.element.name, leaves.join(", ")));
        self.line("        }");
        for (i, output) in self.tree.stores() {
            self.store(i, output);
        }
        for (i, output, reduction) in self.tree.reductions() {
            let value = format!("values[v]._{}", self.name(output.value));
            self.line("        {");
            self.line(&format!("            {} x[V];", running_type(self.tree, reduction)));
            self.line("#pragma unroll");
            self.line(&format!(
                "            for (int v = 0; v < V; ++v) x[v] = {};",
                taken(self.tree, reduction, &value, "m", "n + v")
            ));
            self.line(&format!("            reduction{i}.add(row, x, m < {}, problem.n - n);", self.rows()));
            self.line("        }");
        }
        self.line("    }");
        self.line("");
    }

    fn store(&mut self, i: usize, output: &ValidOutput) {
        let (element, to, value) = (element_name(output.element), output_name(i), self.name(output.value));
        match output.class {
            BroadcastClass::Tensor if output.packed => {
                self.line("        {");
                self.line("            bool x[V];");
                self.line("#pragma unroll");
                self.line(&format!("            for (int v = 0; v < V; ++v) x[v] = values[v]._{value};"));
                let rows = self.rows();
                self.line(&format!(
                    "            store_bits<V>(arguments.{to}, x, work.batch, m, n, {rows}, problem.n);"
                ));
                self.line("        }");
            }
            BroadcastClass::Tensor => {
                let x = match self.tree.kept_integers(output) {
                    Some(i) => format!("{}[v]", accumulator(self.tree, i)),
                    None => format!("values[v]._{value}"),
                };
                self.line("        {");
                self.line(&format!("            Pack<{element}, V> x;"));
                self.line("#pragma unroll");
                self.line(&format!("            for (int v = 0; v < V; ++v) x.value[v] = narrow<{element}>({x});"));
                let rows = self.rows();
                self.line(&format!("            store<V>(arguments.{to}, x, work.batch, m, n, {rows}, problem.n);"));
                self.line("        }");
            }
            // A vector is the same in every row (column). The first tile along that axis writes it, even if there are
            // no rows (columns).
            BroadcastClass::RowVector => {
                self.line(&format!("        if (m == {}) {{", self.first()));
                self.line("#pragma unroll");
                self.line("            for (int v = 0; v < V; ++v)");
                self.line(&format!(
                    "                store(arguments.{to}, narrow<{element}>(values[v]._{value}), work.batch, n + v, \
                     problem.n);"
                ));
                self.line("        }");
            }
            BroadcastClass::ColumnVector => self.line(&format!(
                "        if (n == 0) store(arguments.{to}, narrow<{element}>(values[0]._{value}), work.batch, m, \
                 {});",
                self.rows()
            )),
            BroadcastClass::Scalar => self.line(&format!(
                "        if (m == {} && n == 0) store(arguments.{to}, narrow<{element}>(values[0]._{value}), \
                 work.batch);",
                self.first()
            )),
        }
    }

    fn finish(&mut self) {
        self.line("    __device__ __forceinline__ void finish() {");
        let reductions: Vec<_> = self.tree.reductions().collect();
        if !reductions.is_empty() {
            for (i, ..) in &reductions {
                self.line(&format!("        reduction{i}.finish_warp();"));
            }
            self.line("        __syncthreads();  // every warp's values are in shared memory");
        }
        for (i, _, reduction) in &reductions {
            let to = match reduction.form {
                Form::Complete => format!("partials{i}"),
                Form::Partial => output_name(*i),
            };
            self.line(&format!("        reduction{i}.store_partials(arguments.{to}, work, problem);"));
        }
        for (group, counters) in &self.arguments.counters {
            let (index, expected) = group.counter(self.grouped);
            // A tile that no group has is not one of those which its results are of.
            let exists = if self.grouped && !group.batch { "work.exists && " } else { "" };
            self.line(&format!(
                "        if ({exists}last_to_arrive<sm80::Walk<Config>>(arguments.{counters} + ({index}), {expected})) {{"
            ));
            for (i, ..) in
                reductions.iter().filter(|(.., r)| r.form == Form::Complete && ReductionGroup::of(*r) == *group)
            {
                let to = output_name(*i);
                self.line(&format!(
                    "            reduction{i}.combine(arguments.partials{i}, arguments.{to}, work, problem, {});",
                    group.batch
                ));
            }
            if let Some(tail) = self.tail.filter(|tail| tail.follows(*group)) {
                tail.lines("sm80::Walk<Config>").iter().for_each(|line| self.line(line));
            }
            self.line("        }");
        }
        self.line("    }");
    }
}

const fn reduction_class(axis: Axis) -> &'static str {
    match axis {
        Axis::Row => "RowReduction",
        Axis::Column => "ColumnReduction",
        Axis::All => "AllReduction",
    }
}
