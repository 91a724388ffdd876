//! Finds the values of sizes and strides from the arguments of a run.

use std::collections::HashMap;

use epilogue_runtime::DeviceTensor;

use crate::te::dtype::DType;
use crate::te::error::{LoweringError, RunError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;
use crate::te::loops::ir::program::{Program, Requirement};
use crate::te::text::expression;

/// The values of a program's variables in one run.
#[derive(Clone, Debug)]
pub(crate) struct BoundSizes {
    pub(crate) sizes: HashMap<Var, i64>,
}

impl BoundSizes {
    /// Checks the tensors of a run against the program's arguments, and finds the values of its sizes and strides.
    ///
    /// # Errors
    /// [`RunError::Argument`] that names the tensor.
    pub(crate) fn of(program: &Program, tensors: &[&DeviceTensor]) -> Result<Self, TeError> {
        let given: Vec<GivenShape<'_>> = tensors.iter().map(|tensor| GivenShape::from(*tensor)).collect();
        Ok(Self { sizes: bind(&program.arguments, &given)? })
    }

    /// # Errors
    /// [`RunError::UnknownSize`] unless the variable is an extent or stride of an argument, or one of `counters`.
    pub(crate) fn require(program: &Program, var: Var, counters: &[Var]) -> Result<(), TeError> {
        let mut all = program.arguments.iter().flat_map(|(_, buffer)| buffer.shape().iter().chain(buffer.strides()));
        if counters.contains(&var) || all.any(|x| x.as_var() == Some(var)) {
            return Ok(());
        }
        Err(unknown_size(var, program.arguments.iter().map(|(tensor, _)| tensor), OF_PROGRAMS))
    }
}

/// The means by which a program gets a size that none of its arguments has.
pub(crate) const OF_PROGRAMS: &str = "give `lower` a placeholder that has it, which nothing needs to read";

/// The means by which an automatic kernel gets a size that none of its arguments has.
pub(crate) const OF_KERNELS: &str = "read a tensor that has it, or use a number";

/// The refusal of a run whose arguments don't give a size. `means` tells what to do if no argument has it.
pub(crate) fn unknown_size<'a>(var: Var, arguments: impl IntoIterator<Item = &'a Tensor>, means: &str) -> TeError {
    let (size, mut names) = (var.name().to_owned(), Vec::new());
    if !var.dtype().is_integer() {
        let reason =
            format!("sizes are integers, and it is of type {}; read it from a tensor of one element", var.dtype());
        return RunError::UnknownSize { size, reason }.into();
    }
    for tensor in arguments {
        let shape = tensor.shape();
        if let Some((d, extent)) = shape.iter().enumerate().find(|(_, extent)| extent.uses(var)) {
            let (name, extent) = (tensor.name(), expression(extent));
            let reason = format!(
                "dimension {d} of {name} is {extent}, and only an extent that is a variable by itself gives one; make this \
                 extent a variable (`te::var`), and write {size} as an expression of it"
            );
            return RunError::UnknownSize { size, reason }.into();
        }
        names.push(tensor.name());
    }
    let reason = match names.as_slice() {
        [] => format!("there are none; {means}"),
        [only] => format!("{only} has no such extent; {means}"),
        [names @ .., last] => format!("neither {} nor {last} has such an extent; {means}", names.join(", ")),
    };
    RunError::UnknownSize { size, reason }.into()
}

/// The type, shape and strides that a run gives for one argument.
#[derive(Debug)]
pub(crate) struct GivenShape<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    /// The stride of every dimension, in elements.
    pub(crate) strides: Vec<i64>,
}

impl<'a> From<&'a DeviceTensor> for GivenShape<'a> {
    fn from(tensor: &'a DeviceTensor) -> Self {
        let strides = tensor.strides().iter().map(|stride| *stride as i64).collect();
        Self { dtype: tensor.element_type().into(), shape: tensor.shape(), strides }
    }
}

/// Checks what is given for a program's arguments, and finds the values of its sizes and strides.
///
/// # Errors
/// [`RunError::Argument`] that names the tensor.
pub(crate) fn bind(parameters: &[(Tensor, Buffer)], given: &[GivenShape<'_>]) -> Result<HashMap<Var, i64>, TeError> {
    if parameters.len() != given.len() {
        let names: Vec<String> = parameters.iter().map(|(tensor, _)| tensor.name()).collect();
        return Err(RunError::ArgumentCount { given: given.len(), needed: names }.into());
    }
    let mut sizes = HashMap::new();
    for ((tensor, buffer), given) in parameters.iter().zip(given) {
        check_kind(tensor, buffer.dtype(), buffer.shape().len(), given)?;
        for (extent, given) in buffer.shape().iter().zip(given.shape) {
            if let Some(var) = extent.as_var() {
                let given = i64::try_from(*given).map_err(|_| RunError::IntegerRange)?;
                sizes.entry(var).or_insert(given);
            }
        }
    }
    // A row-major stride may be a size, which an extent gives. If a dimension has one index, its stride may have any
    // value.
    for ((_, buffer), given) in parameters.iter().zip(given) {
        for (stride, given) in buffer.strides().iter().zip(&given.strides) {
            if let Some(var) = stride.as_var() {
                sizes.entry(var).or_insert(*given);
            }
        }
    }
    for ((tensor, buffer), given) in parameters.iter().zip(given) {
        if let Some(var) = buffer.shape().iter().find_map(|extent| without_value(extent, &sizes)) {
            return Err(unknown_size(var, parameters.iter().map(|(tensor, _)| tensor), OF_PROGRAMS));
        }
        check_layout(tensor, buffer, given, &sizes)?;
    }
    Ok(sizes)
}

/// # Errors
/// [`RunError::Argument`] unless the argument for `tensor` has this type and rank.
pub(crate) fn check_kind(tensor: &Tensor, dtype: DType, rank: usize, given: &GivenShape<'_>) -> Result<(), TeError> {
    let refuse = |reason: String| Err(RunError::Argument { tensor: tensor.name(), reason }.into());
    if dtype != given.dtype && DType::Number(dtype.in_memory()) != given.dtype {
        let held = if dtype == DType::Bool { " (in memory a u8, 0 or 1)" } else { "" };
        return refuse(format!("elements of type {dtype}{held} are needed, {} were given", given.dtype));
    }
    if rank != given.shape.len() {
        return refuse(format!("{rank} dimensions are needed, {} were given", given.shape.len()));
    }
    Ok(())
}

/// # Errors
/// The error of the first requirement that the sizes of a run break.
pub(crate) fn check_requirements(requirements: &[Requirement], sizes: &HashMap<Var, i64>) -> Result<(), TeError> {
    for requirement in requirements {
        if evaluate(&requirement.condition, sizes)? == 0 {
            return Err(requirement.broken.clone());
        }
    }
    Ok(())
}

fn check_layout(
    tensor: &Tensor,
    buffer: &Buffer,
    given: &GivenShape<'_>,
    sizes: &HashMap<Var, i64>,
) -> Result<(), TeError> {
    let refuse = |reason: String| Err(RunError::Argument { tensor: tensor.name(), reason }.into());
    for (d, (extent, given)) in buffer.shape().iter().zip(given.shape).enumerate() {
        let needed = evaluate(extent, sizes)?;
        if usize::try_from(needed) != Ok(*given) {
            return refuse(format!(
                "dimension {d} is {}, which is {needed} here; {given} was given",
                expression(extent)
            ));
        }
    }
    if given.shape.contains(&0) {
        return Ok(());
    }
    for (d, (stride, extent)) in buffer.strides().iter().zip(given.shape).enumerate() {
        // The stride of an axis with one index is never used.
        let (needed, given) = (evaluate(stride, sizes)?, given.strides[d]);
        if *extent > 1 && needed != given {
            return refuse(format!(
                "its elements must be row-major: stride {d} is {needed} here, {given} was given; call `contiguous()` first"
            ));
        }
    }
    Ok(())
}

/// A variable of an expression that has no value.
pub(crate) fn without_value(x: &Expr, sizes: &HashMap<Var, i64>) -> Option<Var> {
    let mut missing = None;
    x.visit(&mut |part| missing = missing.or(part.as_var().filter(|var| !sizes.contains_key(var))));
    missing
}

/// The value of an expression of sizes that gives an integer or a truth value.
///
/// # Errors
/// [`RunError::Failed`] for a variable without a value, a division by zero, or an expression that is not an integer;
/// [`RunError::IntegerRange`].
pub(crate) fn evaluate(x: &Expr, sizes: &HashMap<Var, i64>) -> Result<i64, TeError> {
    evaluate_once(x, sizes, &mut HashMap::new())
}

fn evaluate_once(x: &Expr, sizes: &HashMap<Var, i64>, known: &mut HashMap<Id, i64>) -> Result<i64, TeError> {
    if let Some(value) = known.get(&x.id()) {
        return Ok(*value);
    }
    let value = computed(x, sizes, known)?;
    if x.is_met_again() {
        known.insert(x.id(), value);
    }
    Ok(value)
}

fn computed(x: &Expr, sizes: &HashMap<Var, i64>, known: &mut HashMap<Id, i64>) -> Result<i64, TeError> {
    let unknown = |what: &str| RunError::Failed { reason: format!("{}: {what}", expression(x)) }.into();
    match x.kind() {
        Kind::Int(value) => Ok(*value),
        Kind::Var(var) => {
            sizes.get(var).copied().ok_or_else(|| LoweringError::Unbound { variable: var.name().to_owned() }.into())
        }
        Kind::Likely(inner) => evaluate_once(inner, sizes, known),
        Kind::Not(inner) => Ok(i64::from(evaluate_once(inner, sizes, known)? == 0)),
        Kind::Cast(inner) if x.dtype().is_integer() && !inner.dtype().is_float() => evaluate_once(inner, sizes, known),
        Kind::Select(condition, a, b) => {
            let chosen = if evaluate_once(condition, sizes, known)? != 0 { a } else { b };
            evaluate_once(chosen, sizes, known)
        }
        Kind::Binary(Binary::And, a, b) => {
            Ok(i64::from(evaluate_once(a, sizes, known)? != 0 && evaluate_once(b, sizes, known)? != 0))
        }
        Kind::Binary(Binary::Or, a, b) => {
            Ok(i64::from(evaluate_once(a, sizes, known)? != 0 || evaluate_once(b, sizes, known)? != 0))
        }
        Kind::Binary(op, a, b) => {
            let (a, b) = (evaluate_once(a, sizes, known)?, evaluate_once(b, sizes, known)?);
            if let Some(value) = op.of_bits(a, b, x.dtype()) {
                return Ok(value);
            }
            if matches!(op, Binary::FloorDiv | Binary::FloorMod) && b == 0 {
                return Err(unknown("a division by zero"));
            }
            let value = match op {
                Binary::Add => a.checked_add(b),
                Binary::Sub => a.checked_sub(b),
                Binary::Mul => a.checked_mul(b),
                Binary::FloorDiv => {
                    a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q })
                }
                Binary::FloorMod => {
                    let rest = a.checked_rem_euclid(b);
                    rest.map(|rest| if b < 0 && rest != 0 { rest + b } else { rest })
                }
                Binary::Min => Some(a.min(b)),
                Binary::Max => Some(a.max(b)),
                Binary::Lt => Some(i64::from(a < b)),
                Binary::Le => Some(i64::from(a <= b)),
                Binary::Gt => Some(i64::from(a > b)),
                Binary::Ge => Some(i64::from(a >= b)),
                Binary::Eq => Some(i64::from(a == b)),
                Binary::Ne => Some(i64::from(a != b)),
                _ => return Err(unknown("no integer")),
            };
            value.ok_or(RunError::IntegerRange.into())
        }
        _ => Err(unknown("no expression of sizes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te::expr::var::var;

    #[test]
    fn quotients_round_down() {
        let n = var("n");
        for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, -3), (0, 5)] {
            let sizes = HashMap::from([(n, a)]);
            let quotient = (a as f64 / b as f64).floor() as i64;
            assert_eq!(evaluate(&(n / b), &sizes), Ok(quotient), "{a} / {b}");
            assert_eq!(evaluate(&(n % b), &sizes), Ok(a - b * quotient), "{a} % {b}");
        }
        assert!(evaluate(&(n / 0), &HashMap::from([(n, 1)])).is_err());
    }
}
