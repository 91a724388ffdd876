//! Random programs of contractions, maps, reductions and gathers, fused, against te's interpreter. Values are small
//! integers and functions exact, so that every order of sums gives the same numbers.

use epilogue_runtime::testing;

use super::{build, number};
use crate::te::ops::{Convolution, conv1d, conv2d};
use crate::te::{self, Array, Axis, DType, Expr, TeError, Tensor, compute_over, placeholder_of};
use crate::{Arch, Argument, Device, DeviceTensor, ElementType, ops};

const EXTENTS: [usize; 7] = [1, 2, 3, 5, 8, 16, 17];
/// The largest values: integers below 2²⁴ are exact in f32.
const MOST: f64 = 4e6;

/// A tensor of a program, and a bound of its values.
#[derive(Clone)]
struct Made {
    tensor: Tensor,
    shape: Vec<usize>,
    bound: f64,
}

impl Made {
    fn at(&self, at: &[Expr]) -> Expr {
        self.tensor.at(at.to_vec()).cast(DType::F32)
    }
}

/// A program in the making.
struct Program {
    random: fastrand::Rng,
    element: ElementType,
    all: Vec<Made>,
    computed: Vec<Tensor>,
    /// Tensors of indices, with what they may be.
    indices: Vec<(Tensor, usize)>,
}

fn exprs(axes: &[Axis]) -> Vec<Expr> {
    axes.iter().map(|axis| Expr::from(*axis)).collect()
}

impl Program {
    fn new(seed: u64, element: ElementType) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { random, element, all: Vec::new(), computed: Vec::new(), indices: Vec::new() }
    }

    fn pick(&mut self, count: usize) -> usize {
        self.random.usize(0..count)
    }

    fn extent(&mut self) -> usize {
        EXTENTS[self.pick(EXTENTS.len())]
    }

    fn name(&self) -> String {
        format!("t{}", self.all.len() + self.indices.len())
    }

    fn input(&mut self, shape: &[usize]) -> Made {
        let element = if self.random.bool() { self.element } else { ElementType::F32 };
        self.input_of(element, shape)
    }

    fn input_of(&mut self, element: ElementType, shape: &[usize]) -> Made {
        let extents = shape.iter().map(|x| Expr::from(i32::try_from(*x).expect("small"))).collect::<Vec<_>>();
        let made = Made { tensor: placeholder_of(element, extents, &self.name()), shape: shape.to_vec(), bound: 3.0 };
        self.all.push(made.clone());
        made
    }

    fn add(&mut self, tensor: Tensor, bound: f64) -> Made {
        let made = Made { shape: tensor.shape().iter().map(number).collect(), tensor, bound };
        self.computed.push(made.tensor.clone());
        self.all.push(made.clone());
        made
    }

    fn compute(&mut self, shape: &[usize], bound: f64, body: impl FnOnce(&[Axis]) -> Expr) -> Result<Made, TeError> {
        let extents: Vec<Expr> = shape.iter().map(|x| Expr::from(i32::try_from(*x).expect("small"))).collect();
        let made = compute_over(extents, &self.name(), |axes| vec![body(axes)])?.swap_remove(0);
        Ok(self.add(made, bound))
    }

    /// A tensor of this many dimensions: one that is there, or an input.
    fn tensor(&mut self, rank: usize) -> Result<Made, TeError> {
        let there: Vec<Made> = self.all.iter().filter(|made| made.shape.len() == rank).cloned().collect();
        if there.is_empty() || self.pick(3) == 0 {
            let shape: Vec<usize> = (0..rank).map(|_| self.extent()).collect();
            return Ok(self.input(&shape));
        }
        let made = there[self.pick(there.len())].clone();
        self.clamped(made)
    }

    /// Values that products take.
    fn clamped(&mut self, made: Made) -> Result<Made, TeError> {
        if made.bound <= 64.0 {
            return Ok(made);
        }
        let shape = made.shape.clone();
        self.compute(&shape, 3.0, |axes| made.at(&exprs(axes)).max(-3.0).min(3.0))
    }

    /// A matrix with `depth` rows or columns, which is an input if none is there; and whether `depth` is first.
    fn factor(&mut self, depth: usize) -> Result<(Made, bool), TeError> {
        let fits = |made: &&Made| made.shape.len() == 2 && made.shape.contains(&depth);
        let there: Vec<Made> = self.all.iter().filter(fits).cloned().collect();
        let made = if there.is_empty() || self.random.bool() {
            let other = self.extent();
            let shape = if self.random.bool() { [depth, other] } else { [other, depth] };
            self.input(&shape)
        } else {
            let made = there[self.pick(there.len())].clone();
            self.clamped(made)?
        };
        let first = made.shape[0] == depth;
        Ok((made, first))
    }

    fn product(&mut self) -> Result<(), TeError> {
        let a = self.tensor(2)?;
        let a_first = self.random.bool();
        let (depth, rows) = if a_first { (a.shape[0], a.shape[1]) } else { (a.shape[1], a.shape[0]) };
        let siblings = 1 + self.pick(4) / 3 * (1 + self.pick(4));
        for _ in 0..siblings {
            let (b, b_first) = self.factor(depth)?;
            let columns = b.shape[usize::from(b_first)];
            let (swapped, positive, started) = (self.random.bool(), self.pick(4) == 0, self.pick(4) == 0);
            // (A sum starts from an element itself.)
            let bias = self.input_of(ElementType::F32, &[columns]);
            let k = te::reduce_axis((0, i32::try_from(depth).expect("small")), "k");
            let shape = if swapped { [columns, rows] } else { [rows, columns] };
            self.compute(&shape, a.bound * b.bound * depth as f64 + 3.0, |axes| {
                let [i, j] = if swapped { [axes[1], axes[0]] } else { [axes[0], axes[1]] }.map(Expr::from);
                let at = |first: bool, other: Expr| if first { [k.into(), other] } else { [other, k.into()] };
                let x = a.at(&at(a_first, i));
                let x = if positive { ops::relu(x) } else { x };
                let product = x * b.at(&at(b_first, j.clone()));
                if started { te::sum_reducer().over_from(product, [k], bias.at(&[j])) } else { te::sum(product, [k]) }
            })?;
        }
        Ok(())
    }

    fn batch(&mut self) -> Result<(), TeError> {
        let [l, m, n, depth] = [0; 4].map(|_| self.extent());
        let (a, b) = (self.input(&[m, l, depth]), self.input(&[l, depth, n]));
        let k = te::reduce_axis((0, i32::try_from(depth).expect("small")), "k");
        self.compute(&[l, m, n], 9.0 * depth as f64, |axes| {
            let [l, i, j] = [axes[0], axes[1], axes[2]].map(Expr::from);
            te::sum(a.at(&[i, l.clone(), k.into()]) * b.at(&[l, k.into(), j]), [k])
        })?;
        Ok(())
    }

    fn convolution(&mut self) -> Result<(), TeError> {
        let [images, channels, features] = [1 + self.pick(2), 1 + self.pick(5), 1 + self.pick(6)];
        let (taps, stride, dilation) = (1 + self.pick(3), 1 + self.pick(2), 1 + self.pick(2));
        let (before, after) = (self.pick(3), self.pick(3));
        let sizes = [5 + self.pick(5), 5 + self.pick(5)];
        let last = self.random.bool();
        let shape = |first: usize, axes: &[usize], channels: usize| {
            let parts = if last { [axes, &[channels]] } else { [&[channels], axes] };
            [&[first][..], parts[0], parts[1]].concat()
        };
        let bound = 9.0 * (channels * taps * taps) as f64;
        let made = if self.random.bool() {
            let (x, w) =
                (self.input(&shape(images, &sizes, channels)), self.input(&shape(features, &[taps, 2], channels)));
            let of = Convolution::new()
                .stride([stride, 1])
                .dilation([dilation, 1])
                .padding_around([(before, after), (after, 0)]);
            conv2d(&x.tensor, &w.tensor, if last { of.channels_last() } else { of })
        } else {
            let (x, w) =
                (self.input(&shape(images, &sizes[..1], channels)), self.input(&shape(features, &[taps], channels)));
            let of = Convolution::new().stride([stride]).dilation([dilation]).padding_around([(before, after)]);
            conv1d(&x.tensor, &w.tensor, if last { of.channels_last() } else { of })
        };
        match made {
            Ok(made) => drop(self.add(made, 2.0 * bound)),
            // Factors of two types that have no common one, or a filter beyond the image.
            Err(error) => assert!(matches!(error, TeError::Expression(_)), "{error}"),
        }
        Ok(())
    }

    fn gather(&mut self) -> Result<(), TeError> {
        let a = self.tensor(2)?;
        let (rows, depth) = (self.extent(), a.shape[1]);
        let extent = Expr::from(i32::try_from(rows).expect("small"));
        let index = placeholder_of(ElementType::I32, [extent], &self.name());
        self.indices.push((index.clone(), a.shape[0]));
        let (b, b_first) = self.factor(depth)?;
        let columns = b.shape[usize::from(b_first)];
        let k = te::reduce_axis((0, i32::try_from(depth).expect("small")), "k");
        let clamps = self.pick(3) == 0;
        self.compute(&[rows, columns], a.bound * b.bound * depth as f64, |axes| {
            let row = index.at([axes[0]]);
            let row = if clamps { row.max(0) } else { row };
            let at = if b_first { [k.into(), axes[1].into()] } else { [axes[1].into(), k.into()] };
            te::sum(a.at(&[row, k.into()]) * b.at(&at), [k])
        })?;
        Ok(())
    }

    fn map(&mut self) -> Result<(), TeError> {
        let rank = 2 + self.pick(3) / 2;
        let x = self.tensor(rank)?;
        let same: Vec<Made> = self.all.iter().filter(|made| made.shape == x.shape).cloned().collect();
        let y = same[self.pick(same.len())].clone();
        let y = self.clamped(y)?;
        let (kind, row, shape) = (self.pick(6), self.input(&[x.shape[0]]), x.shape.clone());
        let least = Expr::from(i32::try_from(shape[0] / 2).expect("small"));
        self.compute(&shape, x.bound * y.bound + x.bound + y.bound + 3.0, |axes| {
            let mut at = exprs(axes);
            let other = y.at(&at);
            match kind {
                0 => x.at(&at) + other,
                1 => x.at(&at) * other - row.at(&at[..1]),
                2 => ops::relu(x.at(&at)).max(other),
                3 => Expr::from(axes[0]).less(least).select(x.at(&at), row.at(&at[..1])),
                4 => {
                    // Another place of the same row.
                    let last = at.len() - 1;
                    at[last] = (at[last].clone() + 1) % Expr::from(i32::try_from(shape[last]).expect("small"));
                    x.at(&at) - other
                }
                _ => (x.at(&at) * 0.5).cast(DType::F32) * 2.0,
            }
        })?;
        Ok(())
    }

    fn reduction(&mut self) -> Result<(), TeError> {
        let x = self.tensor(2)?;
        let (along, kind, spread) = (self.pick(2), self.pick(3), self.random.bool());
        let depth = x.shape[along];
        let r = te::reduce_axis((0, i32::try_from(depth).expect("small")), "r");
        let at = |other: Axis| if along == 0 { [r.into(), Expr::from(other)] } else { [Expr::from(other), r.into()] };
        let made = self.compute(&[x.shape[1 - along]], x.bound * depth as f64, |axes| {
            let element = x.at(&at(axes[0]));
            match kind {
                0 => te::sum(element, [r]),
                1 => te::max(element, [r]),
                _ => te::min(element * -1.0, [r]),
            }
        })?;
        if spread {
            let (shape, bound) = (x.shape.clone(), x.bound + made.bound);
            self.compute(&shape, bound, |axes| x.at(&exprs(axes)) - made.at(&[axes[1 - along].into()]))?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), TeError> {
        match self.pick(10) {
            0..=3 => self.product(),
            4 => self.batch(),
            5 => self.convolution(),
            6 => self.gather(),
            7 | 8 => self.map(),
            _ => self.reduction(),
        }
    }

    /// Data of an input.
    fn data(&mut self, tensor: &Tensor, count: usize) -> Vec<f64> {
        match self.indices.iter().find(|(of, _)| of == tensor).map(|(_, limit)| *limit) {
            Some(limit) => (0..count).map(|_| self.pick(limit) as f64).collect(),
            None => (0..count).map(|_| self.random.i32(-3..=3).into()).collect(),
        }
    }
}

fn tensor(device: &Device, element: ElementType, values: &[f64], shape: &[usize]) -> DeviceTensor {
    let made = match element {
        ElementType::I32 => device.tensor(&values.iter().map(|x| *x as i32).collect::<Vec<_>>(), shape),
        ElementType::F16 => device.tensor(&values.iter().map(|x| half::f16::from_f64(*x)).collect::<Vec<_>>(), shape),
        ElementType::BF16 => device.tensor(&values.iter().map(|x| half::bf16::from_f64(*x)).collect::<Vec<_>>(), shape),
        _ => device.tensor(&values.iter().map(|x| *x as f32).collect::<Vec<_>>(), shape),
    };
    made.expect("memory")
}

fn numbers(tensor: &DeviceTensor) -> Result<Vec<f64>, TeError> {
    Ok(match tensor.element_type() {
        ElementType::F16 => tensor.to_vec::<half::f16>()?.into_iter().map(f64::from).collect(),
        ElementType::BF16 => tensor.to_vec::<half::bf16>()?.into_iter().map(f64::from).collect(),
        _ => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
    })
}

/// Whether a random program's fused results are the interpreter's; it returns its choice.
fn check(device: &Device, seed: u64, element: ElementType, steps: usize) -> Result<String, TeError> {
    let mut program = Program::new(seed, element);
    for _ in 0..steps {
        program.step()?;
    }
    let too_large = |made: &Made| made.bound > MOST;
    let mut outputs: Vec<Tensor> = program.computed.iter().rev().take(1 + steps / 3).cloned().collect();
    outputs.retain(|output| !program.all.iter().any(|made| made.tensor == *output && too_large(made)));
    if outputs.is_empty() {
        return Ok(String::new());
    }
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    let given = build(&outputs)?.build(device)?;
    let (mut arrays, mut inputs, mut parameters) = (Vec::new(), Vec::new(), Vec::new());
    for input in given.inputs() {
        let shape: Vec<usize> = input.shape().iter().map(number).collect();
        let values = program.data(input, shape.iter().product());
        let element = input.dtype().in_memory();
        inputs.push(tensor(device, element, &values, &shape));
        arrays.push(Array::new(element, &shape, &values)?);
        parameters.push(input);
    }
    // Some programs know some of their inputs.
    let is_known: Vec<bool> = inputs.iter().map(|_| seed.is_multiple_of(2) && program.pick(3) == 0).collect();
    let all = || given.inputs().iter().zip(&inputs).zip(&is_known);
    let known = all().filter(|(_, is_known)| **is_known).map(|(given, _)| given);
    let fused = if is_known.contains(&true) { &build(&outputs)?.weights(known).build(device)? } else { &given };
    let mut results = Vec::new();
    for output in fused.outputs() {
        let shape: Vec<usize> = output.shape().iter().map(number).collect();
        let element = output.dtype().in_memory();
        results.push(device.zeros_of(element, &shape)?);
        arrays.push(Array::unwritten(element, &shape));
        parameters.push(output);
    }
    te::lower(&te::create_schedule(&outputs), &parameters, "main")?.interpret(&mut arrays)?;
    // The second run is not rehearsed.
    for _ in 0..2 {
        let read = all().filter(|(_, is_known)| !**is_known).map(|((of, tensor), _)| (of, Argument::from(tensor)));
        let written = fused.outputs().iter().zip(&mut results).map(|(of, tensor)| (of, Argument::from(tensor)));
        let arguments: Vec<(&Tensor, Argument<'_>)> = read.chain(written).collect();
        fused.run_bound(&arguments)?;
    }
    let choice = fused.choice();
    for (result, array) in results.iter().zip(&arrays[inputs.len()..]) {
        assert_eq!(numbers(result)?, array.values(), "seed {seed}, {element}, {steps} steps\n{choice}");
    }
    Ok(choice)
}

#[test]
fn random_programs_compute_what_the_interpreter_does() {
    let mut products = 0;
    for _ in 0..testing::cases(60) {
        let seed = fastrand::u64(..);
        let element =
            [ElementType::F32, ElementType::F16, ElementType::BF16][usize::try_from(seed % 3).expect("small")];
        let steps = 1 + usize::try_from(seed / 3 % 6).expect("small");
        let choice = check(&Device::cpu(), seed, element, steps);
        let choice = choice.unwrap_or_else(|error| panic!("seed {seed}, {element}, {steps} steps: {error}"));
        products += usize::from(choice.contains("product"));
    }
    assert!(products > 0, "no program had a product");
}

#[test]
fn random_programs_compute_it_on_emulated_gpus() {
    if testing::compiler("random_programs_compute_it_on_emulated_gpus").is_none() {
        return;
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch).expect("a device");
        for _ in 0..testing::cases(2) {
            let seed = fastrand::u64(..);
            let choice = check(&device, seed, ElementType::F16, 3);
            choice.unwrap_or_else(|error| panic!("seed {seed} on {arch}, 3 steps: {error}"));
        }
    }
}
