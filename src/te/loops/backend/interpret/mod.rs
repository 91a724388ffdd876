//! Interprets a loop program, statement by statement. It is the oracle that compiled code is compared with.
//!
//! Threads of a block run in lockstep, one statement at a time; blocks run one after another. A reduction over threads
//! combines values in the order of the thread indices. Reads of unwritten memory and accesses out of bounds are errors.

mod machine;
mod scalar;

use std::collections::HashMap;

use epilogue_float_mode::in_default_mode;

pub use self::scalar::Scalar;

use epilogue_runtime::HostBytes;

use self::machine::Machine;
use crate::te::bind::arguments::places;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, RunError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::program::Program;
use crate::te::loops::ir::rewrite::with_one_index;
use crate::te::loops::ir::stmt::Stmt;

/// A tensor's elements on the host, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    dtype: DType,
    shape: Vec<usize>,
    elements: Vec<Option<Scalar>>,
}

impl Array {
    /// An array of a type; values are rounded to it.
    ///
    /// # Errors
    /// [`RunError::Argument`] when `values` are not as many as `shape` holds.
    pub fn new(dtype: impl Into<DType>, shape: &[usize], values: &[f64]) -> Result<Self, TeError> {
        let dtype = DType::of(dtype);
        check_count(shape, values.len())?;
        let element = |value: &f64| Scalar::constant(*value, dtype).map(Some);
        let elements = in_default_mode(|| values.iter().map(element).collect::<Result<_, _>>())?;
        Ok(Self { dtype, shape: shape.to_vec(), elements })
    }

    /// An array of an integer type with exact values. ([`Array::new`] takes f64, which is exact up to 2^53.)
    ///
    /// # Errors
    /// [`RunError::Argument`] when `values` are not as many as `shape` holds; [`ExpressionError::Unrepresentable`] for
    /// a value that the type doesn't hold, or a type that is not an integer type.
    pub fn of_integers(dtype: impl Into<DType>, shape: &[usize], values: &[i64]) -> Result<Self, TeError> {
        let dtype = DType::of(dtype);
        check_count(shape, values.len())?;
        if let Some(value) = values.iter().find(|value| !dtype.holds(**value)) {
            return Err(ExpressionError::Unrepresentable { value: format!("the integer {value}"), dtype }.into());
        }
        let elements = values.iter().map(|value| Some(Scalar::Int(*value))).collect();
        Ok(Self { dtype, shape: shape.to_vec(), elements })
    }

    /// An array of unwritten memory, for outputs. If there is not enough memory for it, the run fails.
    pub fn unwritten(dtype: impl Into<DType>, shape: &[usize]) -> Self {
        let elements = count(shape).and_then(unwritten).unwrap_or_default();
        Self { dtype: DType::of(dtype), shape: shape.to_vec(), elements }
    }

    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements as f64, NaN where nothing was written. 64-bit integers beyond 2^53 are not exact;
    /// [`Array::integers`] gives these.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        let value = |x: Scalar| match x {
            Scalar::Int(bits) if self.dtype == DType::U64 => bits.cast_unsigned() as f64,
            x => x.to_f64(),
        };
        self.elements.iter().map(|x| x.map_or(f64::NAN, value)).collect()
    }

    /// The elements of an integer array, exactly; `None` for other types, or if an element was not written. A u64 beyond
    /// the range of i64 is the i64 of its bits.
    #[must_use]
    pub fn integers(&self) -> Option<Vec<i64>> {
        let integer = |x: &Option<Scalar>| match x {
            Some(Scalar::Int(value)) if self.dtype.is_integer() => Some(*value),
            _ => None,
        };
        self.elements.iter().map(integer).collect()
    }

    /// Whether every element was written.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.elements.iter().all(Option::is_some)
    }
}

/// The number of elements of a shape, if it fits a `usize`.
fn count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, extent| n.checked_mul(*extent))
}

/// Unwritten elements; `None` if there is not enough memory.
fn unwritten(len: usize) -> Option<Vec<Option<Scalar>>> {
    let mut elements = Vec::new();
    if !HostBytes::have_room(len.saturating_mul(size_of::<Option<Scalar>>())) {
        return None;
    }
    elements.try_reserve_exact(len).ok()?;
    elements.resize(len, None);
    Some(elements)
}

fn check_count(shape: &[usize], given: usize) -> Result<(), TeError> {
    let held = count(shape);
    if held == Some(given) {
        return Ok(());
    }
    let held = held.map_or_else(|| "more elements than memory".to_owned(), |held| format!("{held} elements"));
    let reason = format!("the shape {shape:?} holds {held}, {given} were given");
    Err(RunError::Argument { tensor: "array".to_owned(), reason }.into())
}

impl Program {
    /// [`Program::interpret`] with arguments that are given with their tensors, in any order.
    ///
    /// # Errors
    /// [`RunError::Argument`], which names the tensor, for one that is missing, given twice or not the program's; the
    /// errors of [`Program::interpret`].
    pub fn interpret_bound(&self, arguments: &mut [(&Tensor, &mut Array)]) -> Result<(), TeError> {
        let parameters: Vec<&Tensor> = self.arguments.iter().map(|(tensor, _)| tensor).collect();
        let given: Vec<&Tensor> = arguments.iter().map(|(tensor, _)| *tensor).collect();
        let places = places(&parameters, &given)?;
        let empty = Array { dtype: DType::Bool, shape: Vec::new(), elements: Vec::new() };
        let mut take = |place: &usize| std::mem::replace(&mut *arguments[*place].1, empty.clone());
        let mut ordered: Vec<Array> = places.iter().map(&mut take).collect();
        let result = self.interpret(&mut ordered);
        for (place, array) in places.iter().zip(ordered) {
            *arguments[*place].1 = array;
        }
        result
    }

    /// Runs the program on the host. `arguments` are in the order in which [`lower`](crate::te::lower) was given the
    /// tensors ([`Program::interpret_bound`] takes them in any order). Sizes are taken from their shapes.
    ///
    /// # Errors
    /// [`RunError::Argument`] for a shape, type or number of arguments that doesn't fit; [`RunError::Failed`] for an
    /// access out of bounds, a read of unwritten memory, or a division by zero; the error of a requirement that the
    /// sizes break.
    pub fn interpret(&self, arguments: &mut [Array]) -> Result<(), TeError> {
        in_default_mode(|| descend(self.body.depth(), || self.interpreted(arguments)))?
    }

    fn interpreted(&self, arguments: &mut [Array]) -> Result<(), TeError> {
        let sizes = bind(&self.arguments, arguments)?;
        let mut written =
            self.arguments.iter().zip(&*arguments).filter(|((_, buffer), _)| is_written(&self.body, buffer));
        if written.all(|(_, array)| array.shape.contains(&0)) {
            return Ok(());
        }
        let mut machine = Machine::new(sizes);
        for requirement in &self.requirements {
            if !machine.host(&requirement.condition)?.holds() {
                return Err(requirement.broken.clone());
            }
        }
        for ((_, buffer), array) in self.arguments.iter().zip(arguments.iter_mut()) {
            machine.give(buffer, std::mem::take(&mut array.elements));
        }
        let result = machine.run(&with_one_index(self.body.clone()));
        for ((_, buffer), array) in self.arguments.iter().zip(arguments.iter_mut()) {
            array.elements = machine.take(buffer);
        }
        result
    }
}

fn is_written(body: &Stmt, by: &Buffer) -> bool {
    let stores = matches!(body, Stmt::Store { buffer, .. } if buffer == by);
    stores || body.children().into_iter().any(|child| is_written(child, by))
}

/// The values of the sizes and strides, from the arguments' shapes.
fn bind(parameters: &[(Tensor, Buffer)], arguments: &[Array]) -> Result<HashMap<Var, Scalar>, TeError> {
    if parameters.len() != arguments.len() {
        let needed = parameters.iter().map(|(tensor, _)| tensor.name()).collect();
        return Err(RunError::ArgumentCount { given: arguments.len(), needed }.into());
    }
    let mut sizes = HashMap::new();
    for ((tensor, buffer), array) in parameters.iter().zip(arguments) {
        let refuse = |reason: String| RunError::Argument { tensor: tensor.name(), reason }.into();
        if buffer.dtype() != array.dtype {
            return Err(refuse(format!("elements of type {} are needed, {} were given", buffer.dtype(), array.dtype)));
        }
        if count(&array.shape) != Some(array.elements.len()) {
            return Err(refuse(format!("there is no memory for the shape {:?}", array.shape)));
        }
        if buffer.shape().len() != array.shape.len() {
            let (needed, given) = (buffer.shape().len(), array.shape.len());
            return Err(refuse(format!("{needed} dimensions are needed, {given} were given")));
        }
        for (extent, given) in buffer.shape().iter().zip(&array.shape) {
            if let Some(var) = extent.as_var() {
                sizes.entry(var).or_insert(Scalar::Int(i64::try_from(*given).unwrap_or(i64::MAX)));
            }
        }
        let mut stride = 1;
        for (symbol, extent) in buffer.strides().iter().zip(&array.shape).rev() {
            if let Some(var) = symbol.as_var() {
                sizes.insert(var, Scalar::Int(stride));
            }
            stride = i64::try_from(*extent).ok().and_then(|n| stride.checked_mul(n)).ok_or(RunError::IntegerRange)?;
        }
    }
    let machine = Machine::new(sizes.clone());
    for ((tensor, buffer), array) in parameters.iter().zip(arguments) {
        for (d, (extent, given)) in buffer.shape().iter().zip(&array.shape).enumerate() {
            let needed = machine.size(extent)?;
            if usize::try_from(needed) != Ok(*given) {
                let text = crate::te::text::expression(extent);
                let reason = format!("dimension {d} is {text}, which is {needed} here; {given} was given");
                return Err(RunError::Argument { tensor: tensor.name(), reason }.into());
            }
        }
    }
    Ok(sizes)
}

impl Machine {
    /// The value of a size.
    fn size(&self, x: &Expr) -> Result<i64, TeError> {
        match self.host(x)? {
            Scalar::Int(value) => Ok(value),
            Scalar::Float(_) => Err(RunError::Failed { reason: "a size is not an integer".to_owned() }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te;

    #[test]
    fn arrays_larger_than_memory_are_errors() -> Result<(), TeError> {
        let n = te::var("n");
        let a = te::placeholder([n, n], "A");
        let b = te::compute([n, n], "B", |[i, j]| a.at([i, j]))?;
        let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "main")?;
        for extent in [1usize << 28, 1 << 31, 1 << 32, 1 << 63, usize::MAX] {
            let shape = [extent, extent];
            assert!(
                matches!(Array::new(DType::F32, &shape, &[1.0]), Err(TeError::Run(RunError::Argument { .. }))),
                "{extent}"
            );
            let mut arguments = [Array::unwritten(DType::F32, &shape), Array::unwritten(DType::F32, &shape)];
            assert!(
                matches!(program.interpret(&mut arguments), Err(TeError::Run(RunError::Argument { .. }))),
                "{extent}"
            );
        }
        assert!(Array::new(DType::F32, &[usize::MAX, 0, 2], &[])?.values().is_empty());
        Ok(())
    }
}
