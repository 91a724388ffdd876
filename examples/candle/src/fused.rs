//! A product with an epilogue, on candle's tensors.

use std::fmt;
use std::marker::PhantomData;

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Storage, Tensor, bail};
use epilogue::evt::{Form, BroadcastClass, ValidOutput};
use epilogue::gemm::Problem;
use epilogue::{Argument, Device, DeviceTensor, Epilogue, Gemm};

use crate::memory::{lend, lend_mut, tensor, wrapped, zeros};

/// The value that is given for a parameter of an epilogue.
#[derive(Clone, Debug)]
pub enum Input {
    /// A tensor or vector.
    Tensor(Tensor),
    /// A number, for a parameter of the class `Scalar`.
    Scalar(f64),
}

/// A product with the epilogue `E`, and what its parameters are given.
///
/// It is a cheap description: plans are remembered, and one serves operands of any extents. The tensors that it was given
/// are handles, as candle's tensors are.
pub struct Fused<E> {
    inputs: Vec<(String, Input)>,
    epilogue: PhantomData<fn() -> E>,
}

/// Storage and layout, as candle's operations are given them.
type Stored<'a> = (&'a CpuStorage, &'a Layout);

impl<E> Default for Fused<E> {
    fn default() -> Self {
        Self { inputs: Vec::new(), epilogue: PhantomData }
    }
}

impl<E> Clone for Fused<E> {
    fn clone(&self) -> Self {
        Self { inputs: self.inputs.clone(), epilogue: PhantomData }
    }
}

impl<E> fmt::Debug for Fused<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fused").field("inputs", &self.inputs).finish()
    }
}

impl<E> Fused<E> {
    /// Nothing is given yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a tensor or vector by its parameter's name.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, tensor: &Tensor) -> Self {
        self.inputs.push((name.into(), Input::Tensor(tensor.clone())));
        self
    }

    /// Gives a number by its parameter's name.
    #[must_use]
    pub fn scalar(mut self, name: impl Into<String>, value: f64) -> Self {
        self.inputs.push((name.into(), Input::Scalar(value)));
        self
    }
}

impl<E: Epilogue> Fused<E> {
    /// Multiplies `a`, `[M, K]` or `[L, M, K]`, by `b`, `[K, N]` or `[L, K, N]`. Gives the epilogue's results, in its
    /// order. An operand without L is shared by all of the batch.
    ///
    /// No gradients flow through it. Matrices `[M, N]` are results of the accumulator's extents; reductions have the shapes
    /// that `epilogue::language` says.
    ///
    /// # Errors
    /// `candle_core::Error`: of types that candle or the epilogue doesn't have; an epilogue that updates a tensor in place
    /// (candle's tensors are values); names that are missing or not the epilogue's; shapes that don't fit; tensors that are
    /// not on candle's CPU device.
    pub fn run(&self, a: &Tensor, b: &Tensor) -> Result<Vec<Tensor>> {
        let ((a, a_layout), (b, b_layout)) = (a.storage_and_layout(), b.storage_and_layout());
        let results = self.compute((cpu(&a)?, a_layout), (cpu(&b)?, b_layout))?;
        results.into_iter().map(|(storage, shape)| tensor(storage, shape)).collect()
    }

    /// [`run`](Self::run) of an epilogue with one result.
    ///
    /// # Errors
    /// As [`run`](Self::run); an epilogue with several results.
    pub fn apply(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        only(self.run(a, b)?)
    }

    fn compute(&self, a: Stored<'_>, b: Stored<'_>) -> Result<Vec<(CpuStorage, Vec<usize>)>> {
        // Locked as long as they are used.
        let given: Vec<_> = self
            .inputs
            .iter()
            .filter_map(|(name, input)| match input {
                Input::Tensor(tensor) => Some((name, tensor.storage_and_layout())),
                Input::Scalar(_) => None,
            })
            .collect();
        let device = Device::cpu();
        let (gemm, problem) = device.scope(|scope| -> Result<_> {
            let (a, b) = (lend(scope, a.0, a.1)?, lend(scope, b.0, b.1)?);
            let gemm = Gemm::plan::<E>(&device, &a, &b).map_err(wrapped)?;
            Ok((gemm, Problem::of(&a, &b).map_err(wrapped)?))
        })?;
        let tree = gemm.tree();
        if let Some(updated) = tree.outputs().iter().find(|output| output.parameter.is_some()) {
            bail!("`{}` is updated in place, and candle's tensors are values: return a new name", updated.name);
        }
        let mut results = Vec::new();
        for output in tree.outputs() {
            let shape = shape(&gemm, output, &problem)?;
            results.push((zeros(output.element, shape.iter().product())?, shape));
        }
        device.scope(|scope| -> Result<()> {
            let (a, b) = (lend(scope, a.0, a.1)?, lend(scope, b.0, b.1)?);
            let mut inputs: Vec<(&str, DeviceTensor)> = Vec::new();
            for (name, (storage, layout)) in &given {
                inputs.push((name.as_str(), lend(scope, cpu(storage)?, layout)?));
            }
            let mut outputs: Vec<(&str, DeviceTensor)> = Vec::new();
            for (output, (storage, shape)) in tree.outputs().iter().zip(&mut results) {
                outputs.push((output.name, lend_mut(scope, storage, shape)?));
            }
            let scalars = self.inputs.iter().filter_map(|(name, input)| match input {
                Input::Scalar(value) => Some((name.as_str(), Argument::Scalar(*value))),
                Input::Tensor(_) => None,
            });
            let inputs = inputs.iter().map(|(name, tensor)| (*name, Argument::Input(tensor)));
            let outputs = outputs.iter_mut().map(|(name, tensor)| (*name, Argument::Output(tensor)));
            let arguments: Vec<(&str, Argument<'_>)> = scalars.chain(inputs).chain(outputs).collect();
            gemm.run_bound(&device.default_stream(), &a, &b, arguments).map_err(wrapped)
        })?;
        Ok(results)
    }
}

/// One result, as a custom operation of candle's: `a.apply_op2_no_bwd(&b, &fused)`.
impl<E: Epilogue> CustomOp2 for Fused<E> {
    fn name(&self) -> &'static str {
        "epilogue"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let (storage, shape) = only(self.compute((s1, l1), (s2, l2))?)?;
        Ok((storage, shape.into()))
    }
}

fn only<T>(mut results: Vec<T>) -> Result<T> {
    match (results.pop(), results.len()) {
        (Some(one), 0) => Ok(one),
        (_, others) => bail!("the epilogue returns {} results: use `run`, which gives them all", others + 1),
    }
}

/// The storage of a tensor on candle's CPU device.
fn cpu(storage: &Storage) -> Result<&CpuStorage> {
    match storage {
        Storage::Cpu(storage) => Ok(storage),
        Storage::Cuda(_) | Storage::Metal(_) => {
            bail!("a tensor is not on candle's CPU device: move it there (`to_device(&Device::Cpu)`)")
        }
    }
}

/// A result's shape.
fn shape<E>(gemm: &Gemm<E>, output: &ValidOutput, problem: &Problem) -> Result<Vec<usize>> {
    let reduction = output.reduction();
    if reduction.is_some_and(|reduction| reduction.form == Form::Partial) {
        return gemm.partials_shape_of(output.name, problem).map_err(wrapped);
    }
    let mut shape = match output.class {
        BroadcastClass::Tensor => vec![problem.m, problem.n],
        BroadcastClass::RowVector => vec![problem.n],
        BroadcastClass::ColumnVector => vec![problem.m],
        BroadcastClass::Scalar => vec![],
    };
    if problem.batched && !reduction.is_some_and(|reduction| reduction.batch) {
        shape.insert(0, problem.batch);
    }
    Ok(shape)
}
