//! Prints plans as CUDA C++, with the primitives of `src/device/collective.cuh`.

use super::{BarrierReason, CollectivePlan, Guard, Linear, Mask, Quantity, Slot, Step, WARP};
use crate::cuda::Writer;

/// Writes the combination of two tuples of variables, as one expression for every value.
pub type CombineText<'a> = dyn Fn(&[String], &[String]) -> Vec<String> + 'a;

/// The names and texts of the kernel into which a plan is printed.
pub struct CollectiveText<'a> {
    /// The prefix of the plan's own names: an identifier with which no other name in scope begins.
    pub prefix: &'a str,
    /// Type and variable of every value of the state. The variables are read and written.
    pub state: &'a [(&'a str, &'a str)],
    /// Writes the combination of two tuples of variables.
    pub combine: &'a CombineText<'a>,
    /// The shared array of each value, as [`CollectivePlan::shared_arrays`] lays them out; `None` declares static
    /// arrays.
    pub arrays: Option<&'a [&'a str]>,
}

impl CollectivePlan {
    /// The steps as statements. Afterwards the state's variables hold the group's combination, in every thread. All
    /// threads of the block must execute the statements, which need the namespace of `collective.cuh`.
    #[must_use]
    pub fn cuda(&self, text: &CollectiveText<'_>) -> String {
        let mut printer = Printer { plan: self, text, code: Writer::new() };
        printer.names();
        for step in &self.steps {
            printer.step(step);
        }
        printer.code.text()
    }
}

struct Printer<'a> {
    plan: &'a CollectivePlan,
    text: &'a CollectiveText<'a>,
    code: Writer,
}

impl Printer<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}_{name}", self.text.prefix)
    }

    /// Declares the quantities, the mask and the shared arrays that the steps use.
    fn names(&mut self) {
        let plan = self.plan;
        for quantity in [Quantity::Rank, Quantity::Group, Quantity::Lane, Quantity::Part] {
            if plan.uses(quantity) {
                let value = match quantity {
                    Quantity::Rank => linear(&plan.rank),
                    Quantity::Group => linear(&plan.group),
                    Quantity::Lane => format!("({}) % {WARP}", linear(&plan.thread)),
                    Quantity::Part => format!("({}) / {WARP}", linear(&plan.rank)),
                };
                let name = self.name(&quantity.to_string());
                writeln!(self.code, "const int {name} = {value};");
            }
        }
        if plan.steps.iter().any(|step| matches!(step, Step::Shuffle { .. })) {
            let mask = match plan.mask {
                Mask::Uniform(mask) => format!("{mask:#010x}u"),
                Mask::PartialLast { warp, lanes } => {
                    format!("({}) / {WARP} == {warp} ? {lanes:#010x}u : {:#010x}u", linear(&plan.thread), u32::MAX)
                }
            };
            let name = self.name("mask");
            writeln!(self.code, "const unsigned int {name} = {mask};");
        }
        if plan.slots > 0 && self.text.arrays.is_none() {
            for (i, (ty, _)) in self.text.state.iter().enumerate() {
                let (name, slots) = (self.array(i), plan.slots);
                writeln!(self.code, "__shared__ {ty} {name}[{slots}];");
            }
        }
    }

    fn array(&self, i: usize) -> String {
        match self.text.arrays.and_then(|arrays| arrays.get(i)) {
            Some(name) => (*name).to_owned(),
            None => self.name(&format!("slots{i}")),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Shuffle { offset, width, guards } => {
                self.code.lines("{");
                let mask = self.name("mask");
                let right = self.right_names();
                for ((ty, x), y) in self.text.state.iter().zip(&right) {
                    writeln!(self.code, "const {ty} {y} = shuffle_down({mask}, {x}, {offset}, {width});");
                }
                self.guarded(guards, |printer| printer.combine(&right));
                self.code.lines("}");
            }
            Step::Broadcast { width } => {
                let mask = self.name("mask");
                for (_, x) in self.text.state {
                    writeln!(self.code, "{x} = shuffle_lane({mask}, {x}, 0, {width});");
                }
            }
            Step::Store { slot, guards } => self.guarded(guards, |printer| printer.store(slot)),
            Step::Load { slot, guards } => self.guarded(guards, |printer| {
                for (i, (_, x)) in printer.text.state.iter().enumerate() {
                    let place = printer.place(i, slot);
                    writeln!(printer.code, "{x} = {place};");
                }
            }),
            Step::Combine { slot, store, guards } => {
                let right = self.right_names();
                self.guarded(guards, |printer| {
                    writeln!(printer.code, "{{");
                    for (i, y) in right.iter().enumerate() {
                        let (ty, place) = (printer.text.state[i].0, printer.place(i, slot));
                        writeln!(printer.code, "const {ty} {y} = {place};");
                    }
                    printer.combine(&right);
                    writeln!(printer.code, "}}");
                    if let Some(store) = store {
                        printer.store(store);
                    }
                });
            }
            Step::Barrier(BarrierReason::Written) => self.code.lines("__syncthreads();  // the slots are written"),
            Step::Barrier(BarrierReason::Read) => {
                self.code.lines("__syncthreads();  // the slots have been read and may be written again");
            }
        }
    }

    /// The variables of the right operand.
    fn right_names(&self) -> Vec<String> {
        (0..self.text.state.len()).map(|i| self.name(&format!("y{i}"))).collect()
    }

    fn guarded(&mut self, guards: &[Guard], body: impl FnOnce(&mut Self)) {
        if guards.is_empty() {
            return body(self);
        }
        let tests: Vec<String> = guards
            .iter()
            .map(|guard| match guard {
                Guard::Below(quantity, 1) => format!("{} == 0", self.name(&quantity.to_string())),
                Guard::Below(quantity, bound) => format!("{} < {bound}", self.name(&quantity.to_string())),
                Guard::MultipleOf(quantity, n) => format!("{} % {n} == 0", self.name(&quantity.to_string())),
            })
            .collect();
        writeln!(self.code, "if ({}) {{", tests.join(" && "));
        body(self);
        writeln!(self.code, "}}");
    }

    /// `x = combine(x, right)`; all values of a tuple change at once.
    fn combine(&mut self, right: &[String]) {
        let left: Vec<String> = self.text.state.iter().map(|(_, x)| (*x).to_owned()).collect();
        let results = (self.text.combine)(&left, right);
        if let [x] = left.as_slice() {
            for result in &results {
                writeln!(self.code, "{x} = {result};");
            }
            return;
        }
        for (i, ((ty, _), result)) in self.text.state.iter().zip(&results).enumerate() {
            let z = self.name(&format!("z{i}"));
            writeln!(self.code, "const {ty} {z} = {result};");
        }
        for (i, (_, x)) in self.text.state.iter().enumerate() {
            let z = self.name(&format!("z{i}"));
            writeln!(self.code, "{x} = {z};");
        }
    }

    fn store(&mut self, slot: &Slot) {
        for (i, (_, x)) in self.text.state.iter().enumerate() {
            let place = self.place(i, slot);
            writeln!(self.code, "{place} = {x};");
        }
    }

    fn place(&self, array: usize, slot: &Slot) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (quantity, factor) in &slot.terms {
            let name = self.name(&quantity.to_string());
            parts.push(if *factor == 1 { name } else { format!("{name} * {factor}") });
        }
        if slot.constant != 0 || parts.is_empty() {
            parts.push(slot.constant.to_string());
        }
        format!("{}[{}]", self.array(array), parts.join(" + "))
    }
}

fn linear(linear: &Linear) -> String {
    let name = |axis: usize| ["threadIdx.x", "threadIdx.y", "threadIdx.z"].get(axis).copied().unwrap_or("0");
    let term = |&(axis, factor): &(usize, u32)| match factor {
        1 => format!("static_cast<int>({})", name(axis)),
        _ => format!("static_cast<int>({}) * {factor}", name(axis)),
    };
    let terms: Vec<String> = linear.terms.iter().map(term).collect();
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}
