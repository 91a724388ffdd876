//! Writes the visitor of a kernel for sm_80 and later, which calls the function of one element for each accumulator.
//!
//! The function of one element has the tree's own names, which are the user's. The visitor's names are chosen here;
//! those for a value or an argument of the tree have a leading `_`, which no name of the tree has.

use super::super::arguments::{ReductionGroup, operation, output_name, running_type, taken};
use super::super::element::{accumulator, chances, visitor_type};
use super::super::epilogue::EpilogueText;
use super::super::tail::Tail;
use crate::cuda::Writer;
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
pub(super) struct VisitorText<'a> {
    tree: &'a ValidTree,
    epilogue: &'a EpilogueText<'a>,
    /// Whether rows are of groups.
    grouped: bool,
    tail: Option<&'a Tail<'a>>,
    code: &'a mut Writer,
}

impl<'a> VisitorText<'a> {
    pub(super) fn write(
        code: &'a mut Writer,
        epilogue: &'a EpilogueText<'a>,
        tail: Option<&'a Tail<'a>>,
        grouped: bool,
    ) {
        let mut this = Self { tree: epilogue.tree, epilogue, grouped, tail, code };
        this.members();
        this.constructor();
        this.fetch();
        this.visit();
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
        writeln! { self.code, "
            // Feeds the function of one element with rows of the tile; see sm80/epilogue.cuh.
            struct Visitor {{
                static constexpr int V = Config::VECTOR;

                // What is read of one row.
                struct Fetched {{" }
        for Read { name, element, .. } in self.read(&[ParameterClass::Tensor, ParameterClass::TensorMut]) {
            writeln!(self.code, "Pack<{element}, V> {name};");
        }
        for Read { name, .. } in self.read(&[ParameterClass::Bits]) {
            writeln!(self.code, "u32 {name};");
        }
        for Read { name, element, .. } in self.read(&[ParameterClass::ColumnVector]) {
            writeln!(self.code, "{element} {name};");
        }
        writeln!(self.code, "}};\n");
        if self.tail.is_some() {
            writeln!(self.code, "const Parameters& parameters;");
        }
        writeln! { self.code, "
            const Arguments& arguments;
            const sm80::Problem& problem;
            const sm80::{}& work;
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
            writeln!(self.code, "sm80::{class}<Config, {op}, {ty}, {i}> reduction{i};");
        }
        self.code.blank();
    }

    /// `condition ? ` for an argument that is read only if a host scalar is not 0.
    fn read_or_zero(&self, parameter: ParameterId, name: &str, load: &str, zero: &str) -> String {
        match self.tree.guard(parameter) {
            Some(_) => format!("read{name} ? {load} : {zero}"), // the member that `Guard` names
            None => load.to_owned(),
        }
    }

    fn constructor(&mut self) {
        let work = self.work();
        writeln!(
            self.code,
            "__device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::{work}& work, int column)"
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

    fn fetch(&mut self) {
        let rows = self.rows();
        writeln! { self.code, "
            __device__ __forceinline__ Fetched fetch(int m) const {{
                Fetched fetched;" }
        for Read { parameter, name, element, .. } in self.read(&[ParameterClass::Tensor, ParameterClass::TensorMut]) {
            let load = format!("load<V>(arguments.{name}, work.batch, m, n, {rows}, problem.n)");
            let load = self.read_or_zero(parameter, &name, &load, &format!("Pack<{element}, V>{{}}"));
            writeln!(self.code, "fetched.{name} = {load};");
        }
        for Read { parameter, name, .. } in self.read(&[ParameterClass::Bits]) {
            let load = format!("load_bits<V>(arguments.{name}, work.batch, m, n, {rows}, problem.n)");
            let load = self.read_or_zero(parameter, &name, &load, "0u");
            writeln!(self.code, "fetched.{name} = {load};");
        }
        for Read { parameter, name, element, .. } in self.read(&[ParameterClass::ColumnVector]) {
            let load = format!("load(arguments.{name}, work.batch, m, {rows})");
            let load = self.read_or_zero(parameter, &name, &load, &format!("{element}{{}}"));
            writeln!(self.code, "fetched.{name} = {load};");
        }
        writeln!(self.code, "return fetched;\n}}\n");
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
        writeln! { self.code, "
        __device__ __forceinline__ void visit(int m, int row, const {accumulator} \
        (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {{" }
        for (name, seed, stream) in chances(self.tree) {
            let row = "chance_row(m, problem.m, work.batch)";
            writeln!(self.code, "Real {name}[V];\nrandom_columns<V>({seed}, {stream}u, {row}, n, {name});");
        }
        let leaves: Vec<String> = self.epilogue.element.leaves.iter().map(|id| self.leaf(*id)).collect();
        let (function, leaves) = (&self.epilogue.element.name, leaves.join(", "));
        writeln! { self.code, "
            Values values[V];
            #pragma unroll
            for (int v = 0; v < V; ++v) {{
                values[v] = {function}({leaves});
            }}" }
        for (i, output) in self.tree.stores() {
            self.store(i, output);
        }
        for (i, output, reduction) in self.tree.reductions() {
            let value = format!("values[v]._{}", self.name(output.value));
            let ty = running_type(self.tree, reduction);
            let then = format!("reduction{i}.add(row, x, m < {}, problem.n - n);", self.rows());
            self.with(&format!("{ty} x[V]"), "x[v]", &taken(self.tree, reduction, &value, "m", "n + v"), &then);
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

    fn store(&mut self, i: usize, output: &ValidOutput) {
        let (element, to, value) = (element_name(output.element), output_name(i), self.name(output.value));
        let (rows, first) = (self.rows(), self.first());
        match output.class {
            BroadcastClass::Tensor if output.packed => {
                let then = format!("store_bits<V>(arguments.{to}, x, work.batch, m, n, {rows}, problem.n);");
                self.with("bool x[V]", "x[v]", &format!("values[v]._{value}"), &then);
            }
            BroadcastClass::Tensor => {
                let x = match self.tree.kept_integers(output) {
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
        writeln!(self.code, "__device__ __forceinline__ void finish() {{");
        let reductions: Vec<_> = self.tree.reductions().collect();
        if !reductions.is_empty() {
            for (i, ..) in &reductions {
                writeln!(self.code, "reduction{i}.finish_warp();");
            }
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
            writeln!(self.code, "if ({exists}last_to_arrive<sm80::Walk<Config>>({count})) {{");
            for (i, ..) in
                reductions.iter().filter(|(.., r)| r.form == Form::Complete && ReductionGroup::of(*r) == *group)
            {
                let (to, batch) = (output_name(*i), group.batch);
                writeln!(
                    self.code,
                    "reduction{i}.combine(arguments.partials{i}, arguments.{to}, work, problem, {batch});"
                );
            }
            if let Some(tail) = self.tail.filter(|tail| tail.follows(*group)) {
                tail.lines(self.code, "sm80::Walk<Config>");
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
