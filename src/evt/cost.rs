//! What an epilogue costs, in terms that don't depend on threads or tiles.

use super::{Axis, ParameterClass, ShapeClass, Types, ValidOutput, ValidParameter, Value, ValueKind};
use crate::expr::{Body, ExprNode, Function, Op};

/// What the epilogue reads, writes, computes and keeps, per element of the product where not said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// M×N tensors read.
    pub loads: usize,
    /// M×N tensors written.
    pub stores: usize,
    /// Bytes read from M×N tensors.
    pub bytes_read: usize,
    /// Bytes written to M×N tensors.
    pub bytes_written: usize,
    /// Row vectors read (N values each).
    pub row_vectors: usize,
    /// Column vectors read (M values each).
    pub column_vectors: usize,
    /// Scalars in device memory that are read.
    pub device_scalars: usize,
    /// Reductions along rows: one running value per row.
    pub row_reductions: usize,
    /// Reductions along columns: one running value per column.
    pub column_reductions: usize,
    /// Reductions to one value.
    pub all_reductions: usize,
    /// Cheap instructions: additions, products, comparisons, conversions.
    pub simple_operations: usize,
    /// Costly functions: exponentials, roots, divisions.
    pub costly_operations: usize,
    /// Most 32-bit registers that values of one element occupy at once, the accumulator's included.
    pub element_registers: usize,
    /// 32-bit registers for values that are the same for the whole product.
    pub scalar_registers: usize,
    /// 32-bit registers for values of one column (row vectors and what is computed from them alone).
    pub row_vector_registers: usize,
    /// 32-bit registers for values of one row (column vectors and what is computed from them alone).
    pub column_vector_registers: usize,
}

impl Cost {
    /// Bytes moved per element of the product.
    #[must_use]
    pub const fn bytes_per_element(&self) -> usize {
        self.bytes_read + self.bytes_written
    }

    pub(super) fn of(types: Types, values: &[Value], parameters: &[ValidParameter], outputs: &[ValidOutput]) -> Self {
        let mut cost = Self::default();
        for parameter in parameters.iter().filter(|p| p.value.is_some()) {
            match parameter.class {
                ParameterClass::Tensor | ParameterClass::TensorMut => {
                    cost.loads += 1;
                    cost.bytes_read += parameter.element.size();
                }
                ParameterClass::RowVector => cost.row_vectors += 1,
                ParameterClass::ColumnVector => cost.column_vectors += 1,
                ParameterClass::DeviceScalar => cost.device_scalars += 1,
                ParameterClass::Scalar => {}
            }
        }
        for output in outputs {
            match output.reduction().map(|r| r.axis) {
                None if output.class == ShapeClass::Tensor => {
                    cost.stores += 1;
                    cost.bytes_written += output.element.size();
                }
                None => {}
                Some(Axis::Row) => cost.row_reductions += 1,
                Some(Axis::Column) => cost.column_reductions += 1,
                Some(Axis::All) => cost.all_reductions += 1,
            }
        }
        for value in values.iter().filter(|v| v.class == ShapeClass::Tensor) {
            cost.add_operations(&value.kind);
        }
        cost.registers(types, values, outputs);
        cost
    }

    fn add_operations(&mut self, kind: &ValueKind) {
        match kind {
            ValueKind::Accum | ValueKind::Load(_) | ValueKind::Broadcast(_) | ValueKind::Literal(_) => {}
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

    /// Counts registers by a walk in the values' order: a value lives from where it is computed to its last user, an
    /// output's value to the end, since a whole fragment is computed before it is stored.
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
            let literal = matches!(value.kind, ValueKind::Literal(_));
            match value.class {
                ShapeClass::Scalar if !literal => self.scalar_registers += value.registers(),
                ShapeClass::Scalar => {}
                ShapeClass::RowVector => self.row_vector_registers += value.registers(),
                ShapeClass::ColumnVector => self.column_vector_registers += value.registers(),
                ShapeClass::Tensor => live += value.registers(),
            }
            self.element_registers = self.element_registers.max(live);
            let ending = (0..=i).filter(|&j| last_use[j] == i && values[j].class == ShapeClass::Tensor);
            live -= ending.map(|j| values[j].registers()).sum::<usize>();
        }
        let reductions = self.row_reductions + self.column_reductions + self.all_reductions;
        self.element_registers += reductions * types.real().element().size() / 4;
    }
}
