//! Writes how the visitor of an sm_90a kernel stores outputs: by boxes through shared memory, or by lanes.

use super::inputs::Copied;
use super::visitor::VisitorText;
use crate::evt::{BroadcastClass, Sweep, SweepTarget, ValidOutput, ValidTree, ValueId};
use crate::expr::cuda::element_name;
use crate::gemm::emit::arguments::output_name;
use crate::gemm::emit::element::{accumulator, visitor_type};

impl VisitorText<'_> {
    /// Writes a block in which `x` holds the values of `value`.
    fn with_values(&mut self, tree: &ValidTree, value: ValueId, then: &str) {
        let (name, ty) = (&tree.value(value).name, visitor_type(tree, value));
        self.with(ty, &format!("values[v]._{name}"), then);
    }

    /// Writes a block in which `x` holds what an expression gives for each `v`.
    pub(super) fn with(&mut self, ty: &str, each: &str, then: &str) {
        writeln! { self.code, "
            {{
                {ty} x[V];
                #pragma unroll
                for (int v = 0; v < V; ++v) x[v] = {each};
                {then}
            }}" }
    }

    /// Stores output `i` of the whole tree, as a sweep gives it.
    pub(super) fn store(&mut self, sweep: &Sweep<'_>, i: usize, output: &ValidOutput) {
        let tree = sweep.tree;
        let (element, to, value) = (element_name(output.element), output_name(i), &tree.value(output.value).name);
        let narrowed = format!("narrow<{element}>(values[v]._{value})");
        let (rows, first, extents) = (self.rows(), self.first(), self.extents());
        let (condition, store) = match output.class {
            BroadcastClass::Tensor if output.packed => {
                let then = format!("sm90::store_bits<Config>(arguments.{to}, work, {extents}, block, column, x);");
                return self.with_values(tree, output.value, &then);
            }
            BroadcastClass::Tensor => {
                let copied = self.accesses.copied_outputs.iter().any(|(copied, _)| *copied == i);
                let staged = format!("sm90::Staged<Config, {element}>::store(outputs + output_at{i}, in_step, x);");
                let direct = format!("sm90::store_direct<Config>(arguments.{to}, work, {extents}, block, column, x);");
                let then = match (copied, self.grouped) {
                    (true, false) => staged,
                    (true, true) => format!("if (whole) {{\n{staged}\n}} else {{\n{direct}\n}}"),
                    (false, _) => direct,
                };
                if let Some(kept) = tree.kept_integers(output) {
                    let then = then.replace(", x);", &format!(", {});", accumulator(self.tree, kept)));
                    return self.code.lines(&then);
                }
                return self.with_values(tree, output.value, &then);
            }
            // A vector is the same in every row (column). The first tile along that axis writes it, even if there are
            // no rows (columns).
            BroadcastClass::RowVector => {
                (format!("m == {first}"), format!("store(arguments.{to}, {narrowed}, work.batch, n, problem.n)"))
            }
            BroadcastClass::ColumnVector => {
                ("n == 0".to_owned(), format!("store(arguments.{to}, {narrowed}, work.batch, m, {rows})"))
            }
            BroadcastClass::Scalar => {
                (format!("m == {first} && n == 0"), format!("store(arguments.{to}, {narrowed}, work.batch)"))
            }
        };
        writeln! { self.code, "
            #pragma unroll
            for (int v = 0; v < V; ++v) {{
                const int row = L::row(block, L::half(v)), c = L::column(column, L::column_index(v));
                const int m = sm90::row_in_problem<Config>(work, row, c);
                const int n = sm90::column_in_problem<Config>(work, row, c);
                if ({condition}) {store};
            }}" }
    }

    /// Writes what starts the copies of a sweep's outputs.
    pub(super) fn store_outputs(&mut self, number: usize, sweep: &Sweep<'_>) {
        if !self.copies_outputs(sweep) {
            return;
        }
        writeln! { self.code, "
            __device__ __forceinline__ void store_outputs(Sweep<{number}>, int row, int column, int stage) const {{
                if (problem.m == 0 || problem.n == 0) return;  // nor are there tensor maps" }
        if self.grouped {
            writeln!(self.code, "if (!sm90::whole_step<Config>(inside, row, column)) return;  // lanes have stored it");
        }
        for (i, Copied { map, field, element, has_digits }) in &self.accesses.copied_outputs {
            if !sweep.targets.contains(&SweepTarget::Output(*i)) {
                continue;
            }
            let (store, of) = match has_digits {
                true => ("sm90::store_digit_boxes<Config>".to_owned(), ""),
                false => (format!("sm90::Staged<Config, {}>::store_boxes", element_name(*element)), ".batch"),
            };
            writeln!(
                self.code,
                "{store}(stage + output_at{i}, parameters.maps[{map}], work, row, column, arguments.{field}{of});"
            );
        }
        writeln!(self.code, "}}\n");
    }
}
