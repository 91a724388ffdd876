//! Counts the cost of a checked tree.

use super::{
    AtInfinity, Axis, BroadcastClass, Cost, ParameterClass, Types, ValidOutput, ValidParameter, Value, ValueKind,
};
use crate::expr::{Body, ExprNode, Function, Op};

impl Cost {
    pub(super) fn of(types: Types, values: &[Value], parameters: &[ValidParameter], outputs: &[ValidOutput]) -> Self {
        let accumulators = values.iter().filter(|value| matches!(value.kind, ValueKind::Accum(_))).count();
        let mut cost = Self { accumulators, ..Self::default() };
        for parameter in parameters.iter().filter(|p| p.value.is_some()) {
            match parameter.class {
                ParameterClass::Tensor | ParameterClass::TensorMut => {
                    cost.loads += 1;
                    cost.bytes_read += parameter.element.size();
                }
                ParameterClass::Bits => cost.packed += 1,
                ParameterClass::RowVector => cost.row_vectors += 1,
                ParameterClass::ColumnVector => cost.column_vectors += 1,
                ParameterClass::DeviceScalar => cost.device_scalars += 1,
                ParameterClass::Scalar | ParameterClass::Seed => {}
            }
        }
        for output in outputs {
            let values = output.reduction().map_or(0, |reduction| reduction.running_values());
            match output.reduction().map(|r| r.axis) {
                None if output.packed => cost.packed += 1,
                None if output.class == BroadcastClass::Tensor => {
                    cost.stores += 1;
                    cost.bytes_written += output.element.size();
                }
                None => {}
                Some(Axis::Row) => cost.row_reductions += values,
                Some(Axis::Column) => cost.column_reductions += values,
                Some(Axis::All) => cost.all_reductions += values,
            }
        }
        for reducer in outputs.iter().filter_map(|output| output.reduction()?.op.user()) {
            if AtInfinity::of(reducer).is_some() {
                // One exponential, between a maximum, a difference and a sum; and what was summed before, for several at once.
                cost.add_operation(Op::Exp);
                cost.simple_operations += 6;
                continue;
            }
            reducer.lift().iter().chain(reducer.combine()).for_each(|function| cost.add_function(function));
        }
        // Bits are moved to or from their byte, which lanes make together.
        cost.simple_operations += 3 * cost.packed;
        for value in values.iter().filter(|v| v.class == BroadcastClass::Tensor) {
            cost.add_operations(&value.kind);
        }
        cost.registers(types, values, outputs);
        cost
    }

    /// The operations of one value, and nothing else.
    pub(super) fn of_value(kind: &ValueKind) -> Self {
        let mut cost = Self::default();
        cost.add_operations(kind);
        cost
    }

    fn add_operations(&mut self, kind: &ValueKind) {
        match kind {
            ValueKind::Accum(_)
            | ValueKind::Load(_)
            | ValueKind::Broadcast(_)
            | ValueKind::Literal(_)
            | ValueKind::Integer(_)
            | ValueKind::Position(_)
            | ValueKind::Reduce(..) => {}
            // Ten rounds for four columns, and the conversion.
            ValueKind::Random(..) => self.simple_operations += 14,
            ValueKind::Logic(..) | ValueKind::ToReal(_) => self.simple_operations += 1,
            ValueKind::Apply(op, _) => self.add_operation(*op),
            ValueKind::Scaled { .. } => self.simple_operations += 2,
            ValueKind::Cast(..) => self.simple_operations += 2,
            ValueKind::Call(function, _) => self.add_function(function),
        }
    }

    fn add_operation(&mut self, op: Op) {
        if op.is_costly() { self.costly_operations += 1 } else { self.simple_operations += 1 }
    }

    fn add_function(&mut self, function: &Function) {
        match function.body() {
            Body::Primitive(op) => self.add_operation(*op),
            Body::Expression(expression) => {
                for node in expression.nodes() {
                    match node {
                        ExprNode::Parameter(_) | ExprNode::Literal(_) => {}
                        ExprNode::Apply(op, _) => self.add_operation(*op),
                        ExprNode::Call(callee, _) => self.add_function(callee),
                        ExprNode::Cast(..) => self.simple_operations += 2,
                    }
                }
            }
        }
    }

    /// Counts registers by a walk in the values' order. A value lives from its computation to its last user; the value
    /// of an output lives to the end, since a whole fragment is computed before it is stored.
    fn registers(&mut self, types: Types, values: &[Value], outputs: &[ValidOutput]) {
        let mut last_use: Vec<usize> = (0..values.len()).collect();
        for (i, value) in values.iter().enumerate() {
            for operand in value.kind.operands() {
                last_use[operand.index()] = i;
            }
        }
        for output in outputs {
            last_use[output.value.index()] = values.len();
        }
        let mut live = 0;
        for (i, value) in values.iter().enumerate() {
            let literal = matches!(value.kind, ValueKind::Literal(_) | ValueKind::Integer(_));
            match value.class {
                BroadcastClass::Scalar if !literal => self.scalar_registers += value.registers(),
                BroadcastClass::Scalar => {}
                BroadcastClass::RowVector => self.row_vector_registers += value.registers(),
                BroadcastClass::ColumnVector => self.column_vector_registers += value.registers(),
                BroadcastClass::Tensor => live += value.registers(),
            }
            self.element_registers = self.element_registers.max(live);
            let ending = (0..=i).filter(|&j| last_use[j] == i && values[j].class == BroadcastClass::Tensor);
            live -= ending.map(|j| values[j].registers()).sum::<usize>();
        }
        let reductions = self.row_reductions + self.column_reductions + self.all_reductions;
        self.element_registers += reductions * types.real().element().size() / 4;
    }
}
