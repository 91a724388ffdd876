//! The operations that are checked and timed: what each computes of a line of a matrix, as a tensor expression and in
//! f64.

use epilogue::evt::reference;
use epilogue::te::{self, Tensor, auto, ops};
use epilogue::{Argument, Device, DeviceTensor, ElementType};

use crate::Outcome;

/// An operation's kernel, and the tensors of its expression.
pub(super) struct Kernel {
    kernel: auto::Kernel,
    /// In the order of the inputs of [`Operation::line`].
    inputs: Vec<Tensor>,
    output: Tensor,
}

impl Kernel {
    /// A description of the choice.
    pub(super) fn choice(&self) -> String {
        self.kernel.choice()
    }
}

/// An operation on every line of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// The sum of one long line.
    Sum,
    RowSums,
    ColumnSums,
    Softmax,
    LayerNorm,
    /// The running sum of one long line.
    InclusiveSum,
    /// The running sums of the columns.
    ColumnsInclusiveSums,
    /// `y[t] = a[t]·y[t-1] + x[t]` along the rows.
    Recurrence,
}

impl Operation {
    pub(super) const ALL: [Self; 8] = [
        Self::Sum,
        Self::RowSums,
        Self::ColumnSums,
        Self::Softmax,
        Self::LayerNorm,
        Self::InclusiveSum,
        Self::ColumnsInclusiveSums,
        Self::Recurrence,
    ];

    /// Its name in the peers' programs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::RowSums => "row sums",
            Self::ColumnSums => "column sums",
            Self::Softmax => "softmax",
            Self::LayerNorm => "layer_norm",
            Self::InclusiveSum => "inclusive sum",
            Self::ColumnsInclusiveSums => "cumsum over the first axis",
            Self::Recurrence => "linear recurrence",
        }
    }

    /// Whether it works on one line, whose shape has one extent.
    pub(super) const fn is_of_one_line(self) -> bool {
        matches!(self, Self::Sum | Self::InclusiveSum)
    }

    /// Whether a line is a column in memory.
    const fn is_of_columns(self) -> bool {
        matches!(self, Self::ColumnSums | Self::ColumnsInclusiveSums)
    }

    /// Whether a line becomes one number, of f32.
    const fn is_sum(self) -> bool {
        matches!(self, Self::Sum | Self::RowSums | Self::ColumnSums)
    }

    /// Whether it has time steps, which are the first axis in tensor expressions.
    const fn is_scan(self) -> bool {
        matches!(self, Self::InclusiveSum | Self::ColumnsInclusiveSums | Self::Recurrence)
    }

    const fn inputs(self) -> usize {
        if matches!(self, Self::Recurrence) { 2 } else { 1 }
    }

    const fn output(self, element: ElementType) -> ElementType {
        if self.is_sum() { ElementType::F32 } else { element }
    }

    /// The bytes that it reads and writes at least.
    pub(super) fn bytes(self, element: ElementType, lines: usize, length: usize) -> usize {
        let of_line = self.inputs() * length * element.size();
        let written = if self.is_sum() { 4 } else { length * element.size() };
        lines * (of_line + written)
    }

    pub(super) fn kernel(self, device: &Device, element: ElementType) -> Outcome<Kernel> {
        let a = te::placeholder_of(element, [te::var("n"), te::var("m")], "A");
        let mut inputs = vec![a.clone()];
        let output = match self {
            Self::Sum | Self::RowSums => sums(&a, false)?,
            Self::ColumnSums => sums(&a, true)?,
            Self::Softmax => ops::softmax(&a, 1)?,
            Self::LayerNorm => ops::layer_norm(&a, [1], None, None, 1e-5)?,
            Self::InclusiveSum | Self::ColumnsInclusiveSums => ops::cumsum(&a, 0)?,
            Self::Recurrence => {
                let factor = te::placeholder_of(element, a.shape(), "G");
                inputs.insert(0, factor.clone());
                ops::linear_recurrence(&factor, &a)?
            }
        };
        Ok(Kernel { kernel: auto::build(&[&output])?.build(device)?, inputs, output })
    }

    /// The result of a line, and the values to which its rounding errors are proportional. The first input is the
    /// factor of the recurrence.
    fn line(self, inputs: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
        let x = &inputs[inputs.len() - 1];
        let running = |values: &mut dyn Iterator<Item = f64>| {
            let mut sum = 0.0;
            values
                .map(|x| {
                    sum += x;
                    sum
                })
                .collect::<Vec<f64>>()
        };
        let size = |x: &f64| x.abs();
        match self {
            Self::Sum | Self::RowSums | Self::ColumnSums => (vec![x.iter().sum()], vec![x.iter().map(size).sum()]),
            Self::Softmax => {
                let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = x.iter().map(|x| (x - most).exp()).sum();
                let wanted: Vec<f64> = x.iter().map(|x| (x - most).exp() / total).collect();
                (wanted.clone(), wanted)
            }
            Self::LayerNorm => {
                let mean = x.iter().sum::<f64>() / x.len() as f64;
                let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / x.len() as f64;
                let wanted = x.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt()).collect();
                (wanted, x.iter().map(|x| (x.abs() + mean.abs()) / (variance + 1e-5).sqrt()).collect())
            }
            Self::InclusiveSum | Self::ColumnsInclusiveSums => {
                (running(&mut x.iter().copied()), running(&mut x.iter().map(size)))
            }
            Self::Recurrence => {
                let step = |state: &mut (f64, f64), (a, x): (&f64, &f64)| {
                    *state = (a * state.0 + x, a.abs() * state.1 + x.abs());
                    Some(*state)
                };
                inputs[0].iter().zip(x).scan((0.0, 0.0), step).unzip()
            }
        }
    }
}

/// `B[i] = sum over k of A[i, k]` (or `A[k, i]`), in f32.
fn sums(a: &Tensor, columns: bool) -> Outcome<Tensor> {
    let shape = a.shape();
    let (kept, summed) = if columns { (1, 0) } else { (0, 1) };
    let k = te::reduce_axis((0, shape[summed].clone()), "k");
    let f32 = te::DType::Number(ElementType::F32);
    Ok(te::compute([shape[kept].clone()], "B", |[i]| {
        let at = [te::Expr::from(i), te::Expr::from(k)];
        let element = if columns { a.at([at[1].clone(), at[0].clone()]) } else { a.at(at) };
        te::sum(element.cast(f32), [k])
    })?)
}

/// The tensors of one run, and the run.
pub(super) struct Set {
    operation: Operation,
    element: ElementType,
    /// `[lines, length]`, for any layout in memory.
    inputs: Vec<DeviceTensor>,
    output: DeviceTensor,
    /// The inputs in the form that the kernel takes.
    given: Vec<DeviceTensor>,
    taken: DeviceTensor,
}

impl Set {
    /// Random normal inputs.
    pub(super) fn new(
        operation: Operation,
        device: &Device,
        element: ElementType,
        [lines, length]: [usize; 2],
        seed: u32,
    ) -> Outcome<Self> {
        let memory = if operation.is_of_columns() { [length, lines] } else { [lines, length] };
        let stored = (0..operation.inputs())
            .map(|i| crate::gemm::normal(device, element, &memory, seed + i as u32))
            .collect::<Outcome<Vec<_>>>()?;
        let by_lines = |tensor: &DeviceTensor| -> Outcome<DeviceTensor> {
            Ok(if operation.is_of_columns() { tensor.transpose()? } else { tensor.clone() })
        };
        let inputs = stored.iter().map(by_lines).collect::<Outcome<Vec<_>>>()?;
        let output_shape = if operation.is_sum() { vec![lines] } else { memory.to_vec() };
        let made = poisoned(device, operation.output(element), &output_shape)?;
        let output = if operation.is_sum() { made.reshape([lines, 1])? } else { by_lines(&made)? };
        // Time is the first axis of scans.
        let timed = |tensor: &DeviceTensor| -> Outcome<DeviceTensor> { Ok(tensor.transpose()?) };
        let (given, taken) = if operation.is_scan() {
            (inputs.iter().map(timed).collect::<Outcome<Vec<_>>>()?, timed(&output)?)
        } else {
            (stored, made)
        };
        Ok(Self { operation, element, inputs, output, given, taken })
    }

    pub(super) fn run(&mut self, kernel: &Kernel) -> Outcome<()> {
        let mut arguments: Vec<(&Tensor, Argument<'_>)> =
            kernel.inputs.iter().zip(self.given.iter().map(Argument::from)).collect();
        arguments.push((&kernel.output, (&mut self.taken).into()));
        Ok(kernel.kernel.run_bound(&arguments)?)
    }

    /// After a run: the first element of the given lines that differs too much from f64's.
    pub(super) fn first_wrong(&self, lines: impl IntoIterator<Item = usize>) -> Outcome<Option<String>> {
        for line in lines {
            let values = |tensor: &DeviceTensor| -> Outcome<Vec<f64>> {
                let part = tensor.slice(0, line..line + 1)?;
                Ok(reference::decode(part.element_type(), &part.to_bytes()?))
            };
            let inputs = self.inputs.iter().map(values).collect::<Outcome<Vec<_>>>()?;
            let (wanted, sizes) = self.operation.line(&inputs);
            let (storing, largest) = match self.operation.output(self.element) {
                ElementType::F16 => (2.0_f64.powi(-11), 65504.0),
                ElementType::BF16 => (2.0_f64.powi(-8), 3.3e38),
                _ => (0.0, 3.4e38),
            };
            for (i, ((got, wanted), size)) in values(&self.output)?.into_iter().zip(&wanted).zip(&sizes).enumerate() {
                // The kernel may sum in any order: 64 roundings to f32's 24 bits are enough for every tree, and for the
                // pieces of a scan or sum that are summed one after another.
                let bound = storing * wanted.abs().max(2.0_f64.powi(-14)) + 2.0_f64.powi(-18) * size;
                let overflowed = wanted.abs() + bound > largest && got.is_infinite() && got.signum() == wanted.signum();
                if !((got - wanted).abs() <= bound || overflowed) {
                    let name = self.operation.name();
                    return Ok(Some(format!("{name}, line {line}, element {i} is {got}, not {wanted} ± {bound}")));
                }
            }
        }
        Ok(None)
    }
}

/// An output with only wrong elements, so that one that is not written is noticed.
fn poisoned(device: &Device, element: ElementType, shape: &[usize]) -> Outcome<DeviceTensor> {
    let tensor = device.zeros_of(element, shape)?;
    crate::gemm::poison(&tensor)?;
    Ok(tensor)
}
