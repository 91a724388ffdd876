//! The elements of tensor expressions by plain loops in f64: what is read is computed where it is read. It shares no code
//! with schedules, lowering or automatic kernels.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::te::dtype::DType;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{OperationKind, Tensor};
use crate::te::expr::var::Var;

/// Values of variables.
type Values = HashMap<Var, f64>;

/// An element without a value: an index outside of a tensor, or a division by zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Undefined;

/// The elements that have been computed.
type Known = HashMap<(Tensor, Vec<i64>), Result<f64, Undefined>>;

/// Computes elements.
#[derive(Default)]
pub(super) struct Oracle {
    inputs: HashMap<Tensor, (Vec<usize>, Vec<f64>)>,
    sizes: Values,
    /// The scan of each state, and its number there.
    states: Vec<(Tensor, Tensor)>,
    known: RefCell<Known>,
}

impl Oracle {
    /// Gives an input its elements. Extents that are variables get their values.
    pub(super) fn input(&mut self, tensor: &Tensor, shape: &[usize], values: &[f64]) {
        for (extent, given) in tensor.shape().iter().zip(shape) {
            if let Some(var) = extent.as_var() {
                self.sizes.insert(var, *given as f64);
            }
        }
        self.inputs.insert(tensor.clone(), (shape.to_vec(), values.to_vec()));
    }

    /// Tells which scan has a state.
    pub(super) fn state(&mut self, state: &Tensor, scan: &Tensor) {
        self.states.push((state.clone(), scan.clone()));
    }

    /// The extents of a tensor.
    pub(super) fn shape(&self, tensor: &Tensor) -> Vec<usize> {
        let extent = |x: &Expr| self.value(x, &self.sizes).expect("sizes are known") as usize;
        tensor.shape().iter().map(extent).collect()
    }

    /// All elements of a tensor, row-major.
    pub(super) fn all(&self, tensor: &Tensor) -> Result<Vec<f64>, Undefined> {
        let shape = self.shape(tensor);
        let count: usize = shape.iter().product();
        let index = |number: usize| {
            let mut rest = number;
            let mut index: Vec<i64> = shape
                .iter()
                .rev()
                .map(|extent| {
                    let at = rest % extent;
                    rest /= extent;
                    at as i64
                })
                .collect();
            index.reverse();
            index
        };
        (0..count).map(|number| self.element(tensor, index(number))).collect()
    }

    fn element(&self, tensor: &Tensor, index: Vec<i64>) -> Result<f64, Undefined> {
        let key = (tensor.clone(), index);
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let value = self.computed(tensor, &key.1);
        self.known.borrow_mut().insert(key, value);
        value
    }

    fn computed(&self, tensor: &Tensor, index: &[i64]) -> Result<f64, Undefined> {
        if let Some((_, scan)) = self.states.iter().find(|(state, _)| state == tensor) {
            return self.element(scan, index.to_vec());
        }
        let inside = |shape: &[usize]| index.iter().zip(shape).all(|(i, extent)| (0..*extent as i64).contains(i));
        match tensor.operation().kind() {
            OperationKind::Placeholder { .. } => {
                let (shape, values) = &self.inputs[tensor];
                if !inside(shape) {
                    return Err(Undefined);
                }
                Ok(values[index.iter().zip(shape).fold(0, |at, (i, extent)| at * extent + *i as usize)])
            }
            OperationKind::Scan(scan) => {
                if !inside(&self.shape(tensor)) {
                    return Err(Undefined);
                }
                let given = self.shape(&scan.init[tensor.value()])[0] as i64;
                let from = if index[0] < given { &scan.init } else { &scan.update };
                self.element(&from[tensor.value()], index.to_vec())
            }
            OperationKind::Compute(compute) => {
                let mut values = self.sizes.clone();
                values.extend(compute.axes.iter().zip(index).map(|(axis, i)| (axis.var(), *i as f64)));
                self.value(&compute.body[tensor.value()], &values)
            }
        }
    }

    fn value(&self, x: &Expr, values: &Values) -> Result<f64, Undefined> {
        let of = |x: &Expr| self.value(x, values);
        Ok(match x.kind() {
            Kind::Int(value) => *value as f64,
            Kind::Float(value) => *value,
            Kind::Var(var) => values[var],
            Kind::Likely(x) => of(x)?,
            Kind::Not(x) => f64::from(of(x)? == 0.0),
            Kind::Cast(x) => {
                of(x).map(|value| if matches!(x.dtype(), DType::Number(_)) { value.trunc() } else { value })?
            }
            Kind::Select(condition, a, b) => of(if of(condition)? != 0.0 { a } else { b })?,
            Kind::Binary(Binary::And, a, b) => f64::from(of(a)? != 0.0 && of(b)? != 0.0),
            Kind::Binary(Binary::Or, a, b) => f64::from(of(a)? != 0.0 || of(b)? != 0.0),
            Kind::Binary(op, a, b) => {
                let (a, b) = (of(a)?, of(b)?);
                match op {
                    Binary::FloorDiv | Binary::FloorMod if b == 0.0 => return Err(Undefined),
                    Binary::Add => a + b,
                    Binary::Sub => a - b,
                    Binary::Mul => a * b,
                    Binary::Div => a / b,
                    Binary::FloorDiv => (a / b).floor(),
                    Binary::FloorMod => a - b * (a / b).floor(),
                    Binary::Min => a.min(b),
                    Binary::Max => a.max(b),
                    Binary::Lt => f64::from(a < b),
                    Binary::Le => f64::from(a <= b),
                    Binary::Gt => f64::from(a > b),
                    Binary::Ge => f64::from(a >= b),
                    Binary::Eq => f64::from(a == b),
                    Binary::Ne => f64::from(a != b),
                    other => unreachable!("{other:?}, which is above or not among what is drawn"),
                }
            }
            Kind::Read(tensor, indices) => {
                let index = indices.iter().map(|i| Ok(of(i)? as i64)).collect::<Result<Vec<_>, Undefined>>()?;
                self.element(tensor, index)?
            }
            Kind::Reduce(reduce, place) => self.reduced(reduce, values)?[*place],
            other => panic!("{other:?} is not among what is drawn"),
        })
    }

    fn reduced(&self, reduce: &Reduce, values: &Values) -> Result<Vec<f64>, Undefined> {
        let from = if reduce.init.is_empty() { &reduce.combiner.identity } else { &reduce.init };
        let mut total = from.iter().map(|x| self.value(x, values)).collect::<Result<Vec<_>, _>>()?;
        self.over(reduce, 0, &mut values.clone(), &mut total)?;
        Ok(total)
    }

    fn over(&self, reduce: &Reduce, axis: usize, values: &mut Values, total: &mut Vec<f64>) -> Result<(), Undefined> {
        let Some(own) = reduce.axes.get(axis) else {
            if self.value(&reduce.condition, values)? == 0.0 {
                return Ok(());
            }
            let right = reduce.source.iter().map(|x| self.value(x, values)).collect::<Result<Vec<_>, _>>()?;
            let sides = reduce.combiner.left.iter().chain(&reduce.combiner.right);
            let sides: Values = sides.copied().zip(total.iter().copied().chain(right)).collect();
            *total = reduce.combiner.result.iter().map(|x| self.value(x, &sides)).collect::<Result<Vec<_>, _>>()?;
            return Ok(());
        };
        let domain = own.domain().expect("it has a range");
        let (min, extent) = (self.value(&domain.min, values)?, self.value(&domain.extent, values)?);
        for i in 0..extent as i64 {
            values.insert(own.var(), min + i as f64);
            self.over(reduce, axis + 1, values, total)?;
        }
        Ok(())
    }
}
