//! Prints reductions over threads: the steps of [`crate::tile::CollectivePlan`], with TVM's names.
//!
//! The state is `red_buf0[0]`, `red_buf1[0]`, …; a shuffle's result is `t0[0]`, …. Every thread of the block passes
//! every step; a thread without values of its own holds the identities.

use super::print::KernelPrinter;
use super::refusal::refuse;
use crate::te::arith::simplify;
use crate::te::cuda::register;
use crate::te::error::TeError;
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::AllReduce;
use crate::tile::collective::{Algorithm, Collective, CollectivePlan, Guard, Linear, Mask, Quantity, Slot, Step, WARP};

impl KernelPrinter<'_> {
    pub(super) fn all_reduce(&mut self, reduce: &AllReduce) -> Result<(), TeError> {
        let plan = self.plan(reduce)?;
        let mut reduction = Reduction { reduce, plan: &plan, names: Words::default() };
        reduction.declare(self);
        reduction.gather(self)?;
        let tops: Vec<Step> = plan.steps().to_vec();
        if let Some(mask) = reduction.names.mask.clone() {
            let value = match plan.mask() {
                Mask::Uniform(mask) => format!("{mask:#010x}u"),
                Mask::PartialLast { warp, lanes } => {
                    let thread = linear(plan.thread());
                    format!("((({thread} / {WARP}) == {warp}) ? {lanes:#010x}u : {:#010x}u)", u32::MAX)
                }
            };
            writeln!(self.code, "{mask}[0] = {value};");
        }
        tops.iter().try_for_each(|step| reduction.step(self, step))
    }

    fn plan(&self, reduce: &AllReduce) -> Result<CollectivePlan, TeError> {
        let Some(block) = self.block() else {
            return Err(refuse("a reduction over threads in a block whose extents are not constants".to_owned()));
        };
        let dimension = |thread: Thread| match thread {
            Thread::Thread(d) => Some(usize::from(d)),
            Thread::Block(_) | Thread::Virtual => None,
        };
        let reduced: Vec<usize> =
            reduce.threads.iter().filter_map(|axis| axis.thread()).filter_map(dimension).collect();
        let sizes: Vec<usize> = reduce.results.iter().map(|buffer| register(buffer.dtype()).bytes()).collect();
        let mut collective = Collective::new(&block, &reduced).state(&sizes);
        if !reduce.combiner.is_commutative() {
            collective = collective.associative_only();
        }
        if !self.in_loop() {
            collective = collective.executed_once();
        }
        collective.plan().map_err(|error| refuse(error.to_string()))
    }
}

/// The names of what the plan uses.
#[derive(Default)]
struct Words {
    mask: Option<String>,
    /// The results of a shuffle, one for each value.
    received: Vec<String>,
    slots: Vec<String>,
    quantities: Vec<(Quantity, String)>,
}

struct Reduction<'a> {
    reduce: &'a AllReduce,
    plan: &'a CollectivePlan,
    names: Words,
}

impl Reduction<'_> {
    fn declare(&mut self, printer: &mut KernelPrinter<'_>) {
        let steps = self.plan.steps();
        let types = || self.reduce.results.iter().map(|buffer| register(buffer.dtype()));
        if steps.iter().any(|step| matches!(step, Step::Shuffle { .. } | Step::Broadcast { .. })) {
            let mask = printer.fresh("mask");
            writeln!(printer.code, "uint {mask}[1];");
            self.names.mask = Some(mask);
            for (i, ty) in types().enumerate() {
                let name = printer.fresh(&format!("t{i}"));
                writeln!(printer.code, "{ty} {name}[1];");
                self.names.received.push(name);
            }
        }
        if self.plan.slots() > 0 {
            for (i, (buffer, ty)) in self.reduce.results.iter().zip(types()).enumerate() {
                let name = printer.fresh(&format!("red_slots{i}"));
                let len = self.plan.slots() as usize;
                printer.shared_array(ty.name(), &name, len, register(buffer.dtype()).bytes());
                self.names.slots.push(name);
            }
        }
        for (quantity, wanted) in [
            (Quantity::Rank, "red_rank"),
            (Quantity::Group, "red_group"),
            (Quantity::Lane, "red_lane"),
            (Quantity::Part, "red_warp"),
        ] {
            if !self.plan.uses(quantity) {
                continue;
            }
            let value = match quantity {
                Quantity::Rank => linear(self.plan.rank()),
                Quantity::Group => linear(self.plan.group()),
                Quantity::Lane => format!("({} & {})", linear(self.plan.thread()), WARP - 1),
                Quantity::Part => format!("({} >> {})", linear(self.plan.rank()), WARP.trailing_zeros()),
            };
            let name = printer.fresh(wanted);
            writeln!(printer.code, "int {name} = {value};");
            self.names.quantities.push((quantity, name));
        }
    }

    /// Each thread's values: the identities if its condition does not hold.
    fn gather(&self, printer: &mut KernelPrinter<'_>) -> Result<(), TeError> {
        let condition = self.needed();
        for ((buffer, source), identity) in
            self.reduce.results.iter().zip(&self.reduce.source).zip(self.reduce.combiner.identity())
        {
            let value = match condition.as_int() {
                Some(1) => source.clone(),
                _ => condition.clone().select(source, identity),
            };
            let value = printer.value(&value)?;
            let target = printer.own(buffer)?;
            writeln!(printer.code, "{target} = {value};");
        }
        Ok(())
    }

    /// The part of the condition that is needed. If every thread has its values in private memory, a test that the
    /// group shares decides only whether a result is stored.
    fn needed(&self) -> Expr {
        let own_memory = self.reduce.source.iter().all(|x| {
            let mut own = true;
            x.visit(&mut |x| own &= !matches!(x.kind(), Kind::Load(buffer, _) if buffer.scope() != Scope::Local));
            own
        });
        if !own_memory {
            return self.reduce.condition.clone();
        }
        let reduced: Vec<Var> = self.reduce.threads.iter().map(|axis| axis.var()).collect();
        let dimensions: Vec<_> = self.reduce.threads.iter().filter_map(|axis| axis.thread()).collect();
        let matters = |x: &Expr| {
            let mut matters = false;
            x.visit(&mut |x| {
                let of_thread = |var: Var| {
                    reduced.contains(&var)
                        || dimensions.iter().any(|thread| var.is_counter() && var.name() == thread.name())
                };
                matters |= matches!(x.kind(), Kind::Load(..)) || x.as_var().is_some_and(of_thread);
            });
            matters
        };
        let kept = self.reduce.condition.conjuncts().into_iter().filter(|x| matters(x)).cloned();
        simplify(&kept.reduce(|a, b| a.and(b)).unwrap_or_else(|| Expr::truth(true)))
    }

    fn step(&self, printer: &mut KernelPrinter<'_>, step: &Step) -> Result<(), TeError> {
        match step {
            Step::Shuffle { offset, width, guards } => {
                let width = self.width(*width);
                for (i, buffer) in self.reduce.results.iter().enumerate() {
                    let x = printer.own(buffer)?;
                    let (mask, received) = (self.mask(), &self.names.received[i]);
                    writeln!(printer.code, "{received}[0] = __shfl_down_sync({mask}[0], {x}, {offset}, {width});");
                }
                let right: Vec<String> = self.names.received.iter().map(|name| format!("{name}[0]")).collect();
                self.guarded(printer, guards, &mut |printer| self.combine(printer, &right))
            }
            Step::Broadcast { width } => {
                let (lane, width) = match (self.plan.algorithm(), self.width(*width)) {
                    (Algorithm::SubWarp { width: group }, WARP) => (scaled(self.plan.group(), group), WARP),
                    (_, width) => ("0".to_owned(), width),
                };
                for buffer in &self.reduce.results {
                    let x = printer.own(buffer)?;
                    writeln!(printer.code, "{x} = __shfl_sync({}[0], {x}, {lane}, {width});", self.mask());
                }
                Ok(())
            }
            Step::Store { slot, guards } => self.guarded(printer, guards, &mut |printer| self.store(printer, slot)),
            Step::Load { slot, guards } => self.guarded(printer, guards, &mut |printer| {
                for (buffer, place) in self.reduce.results.iter().zip(self.places(slot)) {
                    let x = printer.own(buffer)?;
                    writeln!(printer.code, "{x} = {place};");
                }
                Ok(())
            }),
            Step::Combine { slot, store, guards } => self.guarded(printer, guards, &mut |printer| {
                self.combine(printer, &self.places(slot))?;
                store.as_ref().map_or(Ok(()), |slot| self.store(printer, slot))
            }),
            Step::Barrier(_) => {
                writeln!(printer.code, "__syncthreads();");
                Ok(())
            }
        }
    }

    fn mask(&self) -> &str {
        self.names.mask.as_deref().unwrap_or_default()
    }

    /// The number of lanes in a shuffle's segments: whole warps, if the lanes in between exist and their results are
    /// not used.
    fn width(&self, width: u32) -> u32 {
        let threads = self.plan.group_size() * self.plan.groups();
        let sub_warp = matches!(self.plan.algorithm(), Algorithm::SubWarp { .. });
        if sub_warp && threads.is_multiple_of(WARP) { WARP } else { width }
    }

    fn guarded(
        &self,
        printer: &mut KernelPrinter<'_>,
        guards: &[Guard],
        body: &mut dyn FnMut(&mut KernelPrinter<'_>) -> Result<(), TeError>,
    ) -> Result<(), TeError> {
        if guards.is_empty() {
            return body(printer);
        }
        let test = |guard: &Guard| match guard {
            Guard::Below(quantity, bound) => format!("({} < {bound})", self.quantity(*quantity)),
            Guard::MultipleOf(quantity, by) => format!("(({} % {by}) == 0)", self.quantity(*quantity)),
        };
        let tests: Vec<String> = guards.iter().map(test).collect();
        writeln!(printer.code, "if ({}) {{", tests.join(" && "));
        body(printer)?;
        writeln!(printer.code, "}}");
        Ok(())
    }

    /// `state = combine(state, right)`; all values of a tuple change at once.
    fn combine(&self, printer: &mut KernelPrinter<'_>, right: &[String]) -> Result<(), TeError> {
        let load = |buffer: &Buffer| Expr::new(buffer.dtype(), Kind::Load(buffer.clone(), vec![Expr::int(0)]));
        let left: Vec<Expr> = self.reduce.results.iter().map(load).collect();
        let mut operands = Vec::with_capacity(right.len());
        for (buffer, element) in self.reduce.results.iter().zip(right) {
            let operand = Buffer::compact("right", buffer.dtype(), vec![Expr::int(1)], Scope::Local);
            printer.name_element(&operand, element.clone());
            operands.push(load(&operand));
        }
        let results = self.reduce.combiner.combine(&left, &operands);
        let mut values = Vec::with_capacity(results.len());
        for result in &results {
            values.push(printer.value(result)?);
        }
        if values.len() > 1 {
            for (value, buffer) in values.iter_mut().zip(&self.reduce.results) {
                let name = printer.fresh("combined");
                writeln!(printer.code, "{} {name} = {value};", register(buffer.dtype()));
                *value = name;
            }
        }
        for (value, buffer) in values.iter().zip(&self.reduce.results) {
            let x = printer.own(buffer)?;
            writeln!(printer.code, "{x} = {value};");
        }
        Ok(())
    }

    fn store(&self, printer: &mut KernelPrinter<'_>, slot: &Slot) -> Result<(), TeError> {
        for (buffer, place) in self.reduce.results.iter().zip(self.places(slot)) {
            let x = printer.own(buffer)?;
            writeln!(printer.code, "{place} = {x};");
        }
        Ok(())
    }

    fn places(&self, slot: &Slot) -> Vec<String> {
        let mut sum: Option<String> = None;
        let mut add = |term: String| sum = Some(sum.take().map_or_else(|| term.clone(), |s| format!("({s} + {term})")));
        for (quantity, factor) in &slot.terms {
            let name = self.quantity(*quantity);
            add(if *factor == 1 { name.to_owned() } else { format!("({name} * {factor})") });
        }
        if slot.constant > 0 {
            add(slot.constant.to_string());
        }
        let index = sum.unwrap_or_else(|| "0".to_owned());
        self.names.slots.iter().map(|name| format!("{name}[{index}]")).collect()
    }

    fn quantity(&self, quantity: Quantity) -> &str {
        let found = self.names.quantities.iter().find(|(known, _)| *known == quantity);
        found.map_or("0", |(_, name)| name)
    }
}

/// A sum of thread indices with factors.
fn linear(sum: &Linear) -> String {
    scaled(sum, 1)
}

fn scaled(sum: &Linear, by: u32) -> String {
    let term = |(axis, factor): &(usize, u32)| {
        let index = KernelPrinter::thread_index(*axis);
        if factor * by == 1 { index } else { format!("({index} * {})", factor * by) }
    };
    let sum = sum.terms.iter().map(term).reduce(|sum, term| format!("({sum} + {term})"));
    sum.unwrap_or_else(|| "0".to_owned())
}
