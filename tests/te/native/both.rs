//! Runs one program in the interpreter and as native code. Their results must agree bit for bit.

use epilogue::evt::reference;
use epilogue::te::native::{self, HostTensor, NativeKernel};
use epilogue::te::{Array, DType, Program, TeError};

/// An argument: its values before the run, or nothing for an output.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Option<Vec<f64>>,
}

/// An input.
pub(crate) fn input(dtype: impl Into<DType>, shape: &[usize], values: &[f64]) -> Given {
    Given { dtype: dtype.into(), shape: shape.to_vec(), values: Some(values.to_vec()) }
}

/// An output.
pub(crate) fn output(dtype: impl Into<DType>, shape: &[usize]) -> Given {
    Given { dtype: dtype.into(), shape: shape.to_vec(), values: None }
}

fn encoded(dtype: DType, values: &[f64]) -> Vec<u8> {
    match dtype {
        DType::Bool => values.iter().map(|x| u8::from(*x != 0.0)).collect(),
        DType::Number(element) => reference::encode(element, values),
    }
}

fn decoded(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::Bool => bytes.iter().map(|x| f64::from(*x)).collect(),
        DType::Number(element) => reference::decode(element, bytes),
    }
}

/// Runs a kernel; gives all arguments after the run. Outputs start with the values of `before` for each index.
pub(crate) fn run_kernel(
    kernel: &NativeKernel,
    given: &[Given],
    before: &dyn Fn(usize) -> f64,
) -> Result<Vec<Vec<f64>>, TeError> {
    let mut bytes: Vec<Vec<u8>> = given
        .iter()
        .map(|g| {
            let len: usize = g.shape.iter().product();
            let fresh = || (0..len).map(before).collect();
            encoded(g.dtype, &g.values.clone().unwrap_or_else(fresh))
        })
        .collect();
    let mut arguments = Vec::new();
    for (g, bytes) in given.iter().zip(&mut bytes) {
        arguments.push(if g.values.is_some() {
            HostTensor::read_bytes(g.dtype, bytes, &g.shape)?
        } else {
            HostTensor::write_bytes(g.dtype, bytes, &g.shape)?
        });
    }
    kernel.run(&mut arguments)?;
    drop(arguments);
    Ok(given.iter().zip(&bytes).map(|(g, bytes)| decoded(g.dtype, bytes)).collect())
}

/// Runs the interpreter; elements that were not written are NaN.
pub(crate) fn run_interpreter(program: &Program, given: &[Given]) -> Result<Vec<Vec<f64>>, TeError> {
    let mut arrays = given
        .iter()
        .map(|g| match &g.values {
            Some(values) => Array::new(g.dtype, &g.shape, values),
            None => Ok(Array::unwritten(g.dtype, &g.shape)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    program.interpret(&mut arrays)?;
    Ok(arrays.iter().map(Array::values).collect())
}

/// Runs both. All results must agree in every bit, except that all NaNs count as equal. Gives the arguments after the
/// run.
#[track_caller]
pub(crate) fn agree(program: &Program, given: &[Given]) -> Vec<Vec<f64>> {
    let expected = run_interpreter(program, given).unwrap();
    let kernel = native::compile(program).unwrap();
    let actual = run_kernel(&kernel, given, &|_| 0.0).unwrap();
    // Elements that were not written keep their values.
    let other = run_kernel(&kernel, given, &|_| 1.0).unwrap();
    for (((argument, expected), actual), other) in program.arguments.iter().zip(&expected).zip(&actual).zip(&other) {
        for (i, ((expected, actual), other)) in expected.iter().zip(actual).zip(other).enumerate() {
            let unwritten = actual.to_bits() != other.to_bits() && expected.is_nan();
            let same = expected.to_bits() == actual.to_bits() || expected.is_nan() && actual.is_nan();
            assert!(
                same || unwritten,
                "{}[{i}]: {expected} interpreted, {actual} native\n{}",
                argument.0.name(),
                program.script()
            );
        }
    }
    actual
}
