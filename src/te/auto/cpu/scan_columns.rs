//! Reductions over a scan's columns on the CPU: strips of columns, combined at each step in the same order as by a
//! GPU's lanes.

use super::elements::{Along, Elements};
use super::program::{Program, class_of};
use super::registers::{Registers, by_class};
use crate::lane::{Class, LaneStep, Register};
use crate::te::auto::bind::arguments::Sizes;
use crate::te::auto::gpu::choose::scan::ScanPlan;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::recurrence::{ColumnReduction, Recurrence};
use crate::te::error::TeError;
use crate::te::expr::expression::Expr;

/// Steps, and the outputs that they compute.
pub(in crate::te::auto) type Results = (Vec<LaneStep>, Vec<(usize, Register)>);

/// The values of the outputs that are, or are not, made of reduced columns: of a computed step, or of a given one.
pub(in crate::te::auto) fn results(
    program: &mut Program,
    pattern: &Recurrence,
    values: &[Expr],
    reduced: bool,
    sizes: &Sizes,
) -> Result<Results, TeError> {
    let mut made = Vec::new();
    for (place, value) in values.iter().enumerate().filter(|(place, _)| pattern.outputs[*place].reduced == reduced) {
        made.push((place, program.value(value, sizes)?));
    }
    Ok((program.take_steps(), made))
}

/// The contribution of every column, the condition under which it counts, and the outputs of the total.
struct Given {
    steps: Vec<LaneStep>,
    values: Vec<Register>,
    condition: Register,
    /// Reads of outputs whose index or condition depends on the total.
    by_total: Elements,
    outputs: Results,
}

/// Compiles some reads, by their numbers.
type Reading<'a> = dyn Fn(&mut Program, &[usize]) -> Result<Elements, TeError> + 'a;

/// A reduction over columns, compiled for one run.
pub(in crate::te::auto) struct CompiledReduction {
    /// The number of columns that become one.
    pub(in crate::te::auto) reduced: usize,
    lanes: usize,
    per_lane: usize,
    exact: bool,
    step: Given,
    given: Vec<Given>,
    left: Vec<Register>,
    right: Vec<Register>,
    counts: Register,
    merge: (Vec<LaneStep>, Vec<Register>),
    identity: (Vec<LaneStep>, Vec<Register>),
    /// For every level of the tree, the values that wait for their right neighbour.
    waiting: Vec<Vec<Register>>,
    /// The total, in the lanes of all columns of each group.
    total: Vec<Register>,
}

impl CompiledReduction {
    /// In `program`, the state after a step has the same variables as in outputs. `by_total` are the reads of a step that
    /// depend on the total.
    pub(in crate::te::auto) fn new(
        program: &mut Program,
        pattern: &Recurrence,
        reduction: &ColumnReduction,
        (plan, order): (&ScanPlan, Order),
        sizes: &Sizes,
        (reading, by_total): (&Reading<'_>, &[usize]),
    ) -> Result<Self, TeError> {
        let classes: Vec<Class> = reduction.types().into_iter().map(class_of).collect();
        let fresh =
            |program: &mut Program| classes.iter().map(|class| program.register(*class)).collect::<Vec<Register>>();
        let (left, right, total) = (fresh(program), fresh(program), fresh(program));
        for (vars, registers) in
            [(&reduction.combination.left, &left), (&reduction.combination.right, &right), (&reduction.total, &total)]
        {
            vars.iter().zip(registers).for_each(|(var, register)| program.bind(*var, *register));
        }
        let all = |program: &mut Program, all: &[Expr]| -> Result<(Vec<LaneStep>, Vec<Register>), TeError> {
            let values = all.iter().map(|x| program.value(x, sizes)).collect::<Result<Vec<_>, _>>()?;
            let values = program.apart(&values);
            Ok((program.take_steps(), values))
        };
        let merge = all(program, &reduction.combination.result)?;
        let identity = all(program, &reduction.combination.identity)?;
        let values: Vec<Expr> = pattern.outputs.iter().map(|output| output.value.clone()).collect();
        let source = (reduction.source.as_slice(), &reduction.condition);
        let step = Given::new(program, pattern, source, (reading, by_total), &values, sizes)?;
        let lanes = plan.key.group as usize;
        let levels = lanes.ilog2() as usize;
        Ok(Self {
            reduced: usize::try_from(plan.reduced).unwrap_or(1),
            lanes,
            per_lane: plan.key.per_lane as usize,
            exact: order == Order::Exact,
            step,
            given: Vec::new(),
            counts: program.register(Class::I32),
            merge,
            identity,
            waiting: (0..levels).map(|_| fresh(program)).collect(),
            left,
            right,
            total,
        })
    }

    /// Adds the given steps, after `program` has got what they read. `by_total` has, for each of them, the reads that depend on
    /// its total.
    pub(in crate::te::auto) fn add_given(
        &mut self,
        program: &mut Program,
        pattern: &Recurrence,
        reduction: &ColumnReduction,
        sizes: &Sizes,
        (reading, by_total): (&Reading<'_>, &[Vec<usize>]),
    ) -> Result<(), TeError> {
        for (((source, condition), outputs), by_total) in reduction.given.iter().zip(&pattern.given).zip(by_total) {
            self.given.push(Given::new(program, pattern, (source, condition), (reading, by_total), outputs, sizes)?);
        }
        Ok(())
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: &[i64]) {
        self.given.iter_mut().chain([&mut self.step]).for_each(|given| given.by_total.moved(by));
    }

    /// Reduces `count` columns, in whole groups, after a step or at a given one. Gives the registers of the outputs,
    /// whose values are in the lane of every group's first column.
    ///
    /// # Safety
    /// The conditions of [`Elements::fill`], for these columns at this step.
    pub(in crate::te::auto) unsafe fn run(
        &self,
        registers: &mut Registers,
        given: Option<usize>,
        along: Along<'_>,
        count: usize,
    ) -> Result<&[(usize, Register)], TeError> {
        let from = given.map_or(&self.step, |given| &self.given[given]);
        registers.run(&from.steps, count)?;
        let groups = count / self.reduced;
        if self.exact {
            self.start(registers, groups)?;
            (0..self.reduced).try_for_each(|column| self.add(registers, from, column, groups))?;
        } else {
            self.tree(registers, from, (0, self.lanes), 0, groups)?;
        }
        for (total, left) in self.total.iter().zip(&self.left) {
            by_class!(total.class, T => {
                for group in 0..groups {
                    let value = registers.get::<T>(*left)[group];
                    registers.get_mut::<T>(*total)[group * self.reduced..][..self.reduced].fill(value);
                }
            });
        }
        if !from.by_total.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { from.by_total.fill(registers, along, count) }?;
        }
        registers.run(&from.outputs.0, count)?;
        Ok(&from.outputs.1)
    }

    fn start(&self, registers: &mut Registers, groups: usize) -> Result<(), TeError> {
        registers.run(&self.identity.0, groups)?;
        copy(registers, &self.left, &self.identity.1, groups);
        Ok(())
    }

    /// Combines every group's total with its column of a number, if this counts.
    fn add(&self, registers: &mut Registers, from: &Given, column: usize, groups: usize) -> Result<(), TeError> {
        for (to, value) in self.right.iter().zip(&from.values).chain([(&self.counts, &from.condition)]) {
            by_class!(to.class, T => {
                for group in 0..groups {
                    let value = registers.get::<T>(*value)[group * self.reduced + column];
                    registers.get_mut::<T>(*to)[group] = value;
                }
            });
        }
        registers.run(&self.merge.0, groups)?;
        for (left, result) in self.left.iter().zip(&self.merge.1) {
            registers.keep_where(*left, self.counts, *result, groups);
        }
        Ok(())
    }

    /// Leaves in `left` what the `count` lanes from `first` on contribute.
    fn tree(
        &self,
        registers: &mut Registers,
        from: &Given,
        (first, count): (usize, usize),
        level: usize,
        groups: usize,
    ) -> Result<(), TeError> {
        if count == 1 {
            self.start(registers, groups)?;
            let columns = first * self.per_lane..((first + 1) * self.per_lane).min(self.reduced);
            return columns.into_iter().try_for_each(|column| self.add(registers, from, column, groups));
        }
        let half = count / 2;
        self.tree(registers, from, (first, half), level + 1, groups)?;
        copy(registers, &self.waiting[level], &self.left, groups);
        self.tree(registers, from, (first + half, half), level + 1, groups)?;
        copy(registers, &self.right, &self.left, groups);
        copy(registers, &self.left, &self.waiting[level], groups);
        registers.run(&self.merge.0, groups)?;
        copy(registers, &self.left, &self.merge.1, groups);
        Ok(())
    }
}

impl Given {
    fn new(
        program: &mut Program,
        pattern: &Recurrence,
        (source, condition): (&[Expr], &Expr),
        (reading, by_total): (&Reading<'_>, &[usize]),
        outputs: &[Expr],
        sizes: &Sizes,
    ) -> Result<Self, TeError> {
        let condition = program.value(condition, sizes)?;
        let values = source.iter().map(|x| program.value(x, sizes)).collect::<Result<_, _>>()?;
        let steps = program.take_steps();
        let by_total = reading(program, by_total)?;
        let outputs = results(program, pattern, outputs, true, sizes)?;
        Ok(Self { steps, values, condition, by_total, outputs })
    }
}

fn copy(registers: &mut Registers, to: &[Register], from: &[Register], count: usize) {
    for (to, from) in to.iter().zip(from) {
        registers.copy_lanes((*to, 0), (*from, 0), count);
    }
}
