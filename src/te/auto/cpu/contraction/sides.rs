//! Divides a contraction's steps: those of rows, those of columns, and the body of a tile.

use std::collections::HashMap;

use super::roles::Roles;
use crate::expr::Op;
use crate::jit::Body;
use crate::lane::machine::{BodyLanes, Lowering, Typed};
use crate::lane::{LaneStep, Operation, Register};
use crate::te::auto::cpu::compile::ReductionCode;
use crate::te::auto::cpu::elements::Elements;
use crate::te::auto::cpu::fold_memory::Combine;
use crate::te::auto::cpu::program::Program;

/// The steps of a contraction.
pub(super) struct Sides {
    pub(super) rows: Side,
    pub(super) columns: Side,
    /// A function of an output's totals and the operands of its row and its column.
    pub(super) body: Body,
    /// The steps of the body.
    steps: Vec<LaneStep>,
    /// Whether its lanes have 64 bits.
    pub(super) is_wide: bool,
}

/// Values of each element that belong to a row or a column alone.
#[derive(Default)]
pub(super) struct Side {
    pub(super) steps: Vec<LaneStep>,
    /// The part that tiles use.
    pub(super) operands: Vec<Register>,
}

/// Whether a value differs from row to row, and from column to column.
type Varies = [bool; 2];

impl Sides {
    /// `None` if there is no vector code for the body.
    pub(super) fn of(roles: &Roles, elements: &[Elements; 2], code: &ReductionCode, program: &Program) -> Option<Self> {
        let mut varies: HashMap<Register, Varies> = HashMap::new();
        for elements in elements {
            varies.extend(elements.registers().map(|(register, place)| (register, roles.read_varies(place))));
            varies.extend(elements.axes().map(|(register, axis)| (register, roles.axis_varies(axis))));
        }
        varies.extend(code.left.iter().map(|left| (*left, [true, true])));
        let (mut rows, mut columns, mut both) = (Side::default(), Side::default(), Vec::new());
        for step in code.source.0.iter().chain(&code.accumulate.0) {
            let mut own = [false, false];
            for operand in step.operands() {
                let [row, column] = varies.get(operand).copied().unwrap_or_default();
                own = [own[0] || row, own[1] || column];
            }
            varies.insert(step.to, own);
            match own {
                [true, true] => both.push(*step),
                [true, false] => rows.steps.push(*step),
                [false, true] => columns.steps.push(*step),
                // Either side may need it.
                [false, false] => [&mut rows, &mut columns].into_iter().for_each(|side| side.steps.push(*step)),
            }
        }
        let is_wide = code.left.iter().any(|left| left.class.is_wide());
        let lowering = Lowering::with_lanes(if is_wide { BodyLanes::Wide } else { BodyLanes::Narrow });
        let mut made = Making { lowering, varies, program, rows, columns };
        let body = made.body(code, &both)?;
        let Making { mut rows, mut columns, .. } = made;
        [&mut rows, &mut columns].into_iter().for_each(Side::keep_needed);
        Some(Self { rows, columns, body, steps: both, is_wide })
    }

    /// Whether the body adds a product of two operands to a sum.
    pub(super) fn is_product(&self, code: &ReductionCode) -> bool {
        let is_sum = matches!(code.combines.as_deref(), Some([Combine::Add]));
        let mut products = self.steps.iter().filter(|step| !code.accumulate.0.contains(step));
        let product = products.next().is_some_and(|step| step.operation == Operation::Apply(Op::Mul));
        is_sum && product && products.next().is_none()
    }
}

impl Side {
    /// Drops steps that no operand needs.
    fn keep_needed(&mut self) {
        let mut needed = self.operands.clone();
        let mut kept: Vec<LaneStep> = Vec::new();
        for step in self.steps.iter().rev().filter(|step| {
            let is_needed = needed.contains(&step.to);
            if is_needed {
                needed.extend(step.operands());
            }
            is_needed
        }) {
            kept.push(*step);
        }
        kept.reverse();
        self.steps = kept;
    }
}

struct Making<'a> {
    lowering: Lowering,
    varies: HashMap<Register, Varies>,
    program: &'a Program,
    rows: Side,
    columns: Side,
}

impl Making<'_> {
    fn body(&mut self, code: &ReductionCode, steps: &[LaneStep]) -> Option<Body> {
        let mut totals = Vec::with_capacity(code.left.len());
        for left in &code.left {
            let (argument, value) = self.lowering.body.total();
            self.lowering.set(*left, Typed::held(left.class, value, self.lowering.lanes())?);
            totals.push(argument);
        }
        for step in steps {
            step.operands().iter().try_for_each(|operand| self.value(*operand).map(|_| ()))?;
            self.lowering.step(step)?;
        }
        let mut results = Vec::with_capacity(totals.len());
        for (left, result) in code.left.iter().zip(&code.accumulate.1) {
            let mut value = self.value(*result)?;
            if let Some(condition) = code.condition {
                let (condition, old) = (self.value(condition)?, self.value(*left)?);
                let mask = self.lowering.mask(condition);
                value = self.lowering.select(left.class, mask, value, old);
            }
            results.push(self.lowering.wide_bits(left.class, value)?);
        }
        totals.iter().zip(results).for_each(|(argument, value)| self.lowering.body.set(*argument, value));
        Some(std::mem::take(&mut self.lowering.body))
    }

    /// A register's value in the body: what was computed, a constant, or an operand.
    fn value(&mut self, register: Register) -> Option<Typed> {
        if let Some(value) = self.lowering.get(register) {
            return Some(value);
        }
        let value = match self.program.constants.iter().find(|(known, _)| *known == register) {
            Some((_, constant)) => self.lowering.constant(register.class, *constant)?,
            None => {
                let [row, column] = *self.varies.get(&register)?;
                let value = match (row, column) {
                    (true, true) => return None,
                    (false, true) => {
                        self.columns.operands.push(register);
                        self.lowering.body.of_column()
                    }
                    (_, false) => {
                        self.rows.operands.push(register);
                        self.lowering.body.of_row()
                    }
                };
                Typed::held(register.class, value, self.lowering.lanes())?
            }
        };
        self.lowering.set(register, value);
        Some(value)
    }
}
