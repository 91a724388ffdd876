//! The reference of a run: the product and the epilogue on the host, in higher precision than any device's.
//!
//! It is slow, exact, and independent of every device: for tests, examples, and a first look at a new epilogue.

use epilogue_float_mode::in_default_mode;
use epilogue_runtime::DeviceTensor;

use super::devices::operation::GivenRun;
use super::plan::Plan;
use super::planned::Gemm;
use super::problem::digits::shape_of;
use super::problem::patches::Patches;
use super::problem::scaled::SCALE_BLOCK;
use super::problem::sliding::{PatchMatrix, Sliding};
use super::problem::weight_values::WeightExtents;
use super::problem::weights::Weights;
use super::problem::{Arithmetic, Comparison, Divided, Error, Grouping, Left, Right};
use super::run::groups::read_groups;
use super::run::images::OutputImages;
use super::run::picked::read_picked;
use super::run::scattered::Placed;
use crate::evt::reference::{
    self, Activations, Array, Convolution, Extent, Groups, Multiplication, Options, Output, Product, Scales,
};
use crate::evt::{BroadcastClass, ParameterClass, Types};
use crate::{Argument, Arguments, Epilogue};

/// The correct outputs of one run: values in f64, and the bounds within which every correct device's results lie.
#[derive(Clone, Debug)]
pub struct Reference {
    outputs: Vec<Output>,
    /// How outputs of a convolution may be given.
    images: Option<OutputImages>,
    /// Where rows of M×N outputs are, if an index places them.
    placed: Option<Placed>,
}

impl<E> Gemm<E> {
    /// The outputs that [`run`](Self::run) must give for these arguments, by the f64 reference. Nothing is written. If
    /// an epilogue overwrites what it reads (`TensorMut`), call this before the run.
    ///
    /// It takes M·N·K steps on one thread, so it is for small products.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn reference<'a, 'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
    ) -> Result<Reference, Error>
    where
        E: Epilogue,
    {
        self.reference_arguments(a, b, &arguments.arguments())
    }

    /// [`reference`](Self::reference) with the arguments as a list, for epilogues that were built, not written;
    /// [`bind`](Self::bind) makes the list of arguments by name.
    ///
    /// # Errors
    /// Whatever [`run_arguments`](Self::run_arguments) refuses.
    pub fn reference_arguments<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &[Argument<'_>],
    ) -> Result<Reference, Error> {
        let (a, b) = (a.into(), b.into());
        in_default_mode(|| reference_of(self.inner(), a, &b, arguments))
    }
}

/// The correct outputs of a run. (Compiled once, not for each epilogue.)
fn reference_of(plan: &Plan, a: Left<'_>, b: &Right<'_>, arguments: &[Argument<'_>]) -> Result<Reference, Error> {
    let reference = plan.checked(a, b, arguments, |given| of_product(plan, given))?;
    Ok(Reference { images: OutputImages::of(a, b, plan.operation.tree())?, ..reference })
}

/// The correct outputs of a product of matrices, or of patches.
fn of_product(plan: &Plan, given: &GivenRun<'_, '_>) -> Result<Reference, Error> {
    let GivenRun { problem, a, b, arguments } = *given;
    let (tree, tile) = (plan.operation.tree(), plan.choice.tile());
    let extent = Extent { m: problem.m, n: problem.n, l: problem.batch };
    let divided = read_groups(a, &problem)?;
    let of_one_matrix = problem.reading.grouping() == Some(Grouping::Shared);
    let (rows, depths) = match problem.reading.divided() {
        Some(Divided::Depth) => (None, divided.as_deref()),
        Some(Divided::Rows) | None => (divided.as_deref(), None),
    };
    let groups = rows.map(|rows| Groups { rows, of_one_matrix });
    let of_a = a.scales().map(Values::of).transpose()?;
    let scales_of_b = b.scales().iter().map(|scales| Values::of(scales)).collect::<Result<Vec<_>, Error>>()?;
    let patches = a.patches()?.zip(a.window());
    let picked = read_picked(a, &problem, divided.as_deref())?;
    let placed = Placed::read(a, tree, rows, arguments)?;
    let all = Values::of(a.tensor())?;
    let a = match picked {
        Some(rows) => all.rows(&rows, problem.k),
        None => all,
    };
    let weights = b.weights().iter().map(Numbers::of).collect::<Result<Vec<_>, Error>>()?;
    let of_b = |tensor: &&DeviceTensor| {
        // Codes are no values.
        if weights.is_empty() { Values::of(tensor) } else { Ok(Values { values: Vec::new(), rank: 2 }) }
    };
    let b = b.tensors().iter().map(of_b).collect::<Result<Vec<_>, Error>>()?;
    let (multiplication, fast_math) = plan.executable.multiplication();
    let images = &a.values;
    let a = a.matrix(problem.m, problem.k);
    let mut products = Vec::with_capacity(b.len());
    for (i, b) in b.iter().enumerate() {
        let b = b.matrix(problem.k, problem.n);
        let (types, k) = (tree.types(), problem.k);
        if let (Some(of_a), Some(of_b)) = (&of_a, scales_of_b.get(i)) {
            let (of_k, of_n) = (k.div_ceil(SCALE_BLOCK), problem.n.div_ceil(SCALE_BLOCK));
            let scales = Scales { a: of_a.matrix(problem.m, of_k), b: of_b.matrix(of_k, of_n) };
            products.push(Product::of_scaled((types, multiplication), extent, k, (&a, &b), scales, groups)?);
            continue;
        }
        if let Some(numbers) = weights.get(i) {
            let activations = match plan.operation.settings.arithmetic {
                Arithmetic::Int8Activations => Activations::Int8,
                _ => Activations::Exact,
            };
            products.push(Product::of_weights(
                types,
                activations,
                extent,
                k,
                &a,
                numbers.weights(k, problem.n),
                groups,
            )?);
            continue;
        }
        if let Some((patches, window)) = &patches {
            products.push(product_of_patches(types, multiplication, (patches, window), images, &b, problem.n)?);
            continue;
        }
        products.push(match (groups, depths) {
            (Some(groups), _) => Product::of_groups(types, multiplication, extent, k, (&a, &b), groups)?,
            (None, Some(depths)) => Product::of_depths(types, multiplication, extent, (&a, &b), depths)?,
            (None, None) => Product::new(types, multiplication, extent, k, &a, &b)?,
        });
    }
    let mut values = Vec::with_capacity(tree.parameters().len());
    for (argument, parameter) in arguments.iter().zip(tree.parameters()) {
        values.push(match argument {
            Argument::Scalar(x) => Value::Scalar(*x),
            Argument::Seed(seed, offset) => Value::Seed(*seed, *offset),
            Argument::Input(tensor) if parameter.class == ParameterClass::Seed => {
                let words = tensor.to_vec::<i64>()?;
                Value::Seed(words[0].cast_unsigned(), words[1].cast_unsigned())
            }
            Argument::Input(tensor) if parameter.class == ParameterClass::Bits => {
                Value::Tensor(Values::of_bits(tensor, problem.n)?)
            }
            Argument::Input(tensor) => Value::Tensor(Values::of(tensor)?),
            Argument::Output(tensor) => Value::Tensor(Values::of(tensor)?),
        });
    }
    let given: Vec<reference::Argument<'_>> = values
        .iter()
        .zip(tree.parameters())
        .map(|(value, parameter)| match value {
            Value::Scalar(x) => reference::Argument::Scalar(*x),
            Value::Seed(seed, offset) => reference::Argument::Seed(*seed, *offset),
            Value::Tensor(values) => reference::Argument::Array(values.array(parameter.class, extent)),
        })
        .collect();
    let options = Options { tile: Some(tile), fast_math };
    let outputs = reference::evaluate_grouped(tree, &products, &given, options, groups)?;
    Ok(Reference { outputs, images: None, placed })
}

/// The product of patches, from the window as it was given.
fn product_of_patches(
    types: Types,
    multiplication: Multiplication,
    (patches, window): (&Patches, &Sliding),
    values: &[f64],
    b: &Array<'_>,
    n: usize,
) -> Result<Product, Error> {
    let Patches { images, inputs, outputs, channels, groups, .. } = *patches;
    let (stride, before, dilation) = (window.stride, window.before.map(isize::cast_unsigned), window.dilation);
    let (window, kind) = (window.size, window.kind);
    let of = Convolution { images, inputs, outputs, channels, groups, window, stride, before, dilation };
    Ok(match kind {
        PatchMatrix::Rows => Product::of_convolution(types, multiplication, &of, values, b, n)?,
        PatchMatrix::Columns => Product::of_filter_gradient(types, multiplication, &of, values, b, n)?,
        PatchMatrix::Gradient(images) => {
            let of = Convolution { inputs: images, outputs: inputs, channels: n, ..of };
            Product::of_input_gradient(types, multiplication, &of, (values, channels), b, n)?
        }
    })
}

impl Reference {
    /// The outputs, in the order in which the epilogue returns them.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Compares a device's output, by the output's name, in any shape in which a run takes it.
    ///
    /// # Errors
    /// [`Error::NoOutput`] for a name that the epilogue doesn't return; or the output can't be read.
    pub fn compare(&self, name: &str, actual: &DeviceTensor) -> Result<Comparison, Error> {
        in_default_mode(|| self.compared(name, actual))
    }

    fn compared(&self, name: &str, actual: &DeviceTensor) -> Result<Comparison, Error> {
        let output = self.outputs.iter().find(|output| output.name == name);
        let output = output.ok_or_else(|| Error::NoOutput {
            name: name.to_owned(),
            outputs: self.outputs.iter().map(|output| output.name).collect(),
        })?;
        let matrix = self.images.as_ref().map(|images| images.as_matrix(name, actual)).transpose()?;
        let actual = matrix.as_ref().unwrap_or(actual);
        let results = match (output.packed, output.shape.last()) {
            (true, Some(columns)) => {
                let mut values = Values::of_bits(actual, *columns)?.values;
                // Devices write these bits as 0. One that isn't is an element too many.
                values.extend(reference::has_padding(&actual.to_bytes()?, *columns).then_some(1.0));
                values
            }
            (false, Some(columns)) => {
                let all = Values::of(actual)?.values;
                let placed = self.placed.as_ref().filter(|placed| placed.names.contains(&output.name));
                match placed {
                    Some(placed) => placed.in_order(&all, *columns),
                    None => all,
                }
            }
            _ => Values::of(actual)?.values,
        };
        let error = |(result, value): (&f64, &f64)| if result == value { 0.0 } else { (result - value).abs() };
        Ok(Comparison {
            name: output.name,
            elements: output.values.len(),
            largest_error: results.iter().zip(&output.values).map(error).fold(0.0, f64::max),
            wrong: output.first_wrong(&results),
        })
    }
}

impl Comparison {
    /// # Errors
    /// [`Error::OutsideBounds`] if an element is outside its bounds.
    pub fn check(self) -> Result<Self, Error> {
        match self.wrong {
            Some(_) => Err(Error::OutsideBounds(self)),
            None => Ok(self),
        }
    }
}

/// The numbers of quantised weights.
struct Numbers {
    /// Codes less their zero points, and scales.
    steps: Values,
    scales: Values,
    group: usize,
}

impl Numbers {
    fn of(weights: &Weights<'_>) -> Result<Self, Error> {
        let values = weights.values()?;
        let (WeightExtents { batch, k, n }, format) = (values.extents, weights.quantization());
        let (matrices, rank) = (batch.unwrap_or(1), if batch.is_some() { 3 } else { 2 });
        let places = |rows: usize| {
            (0..matrices).flat_map(move |l| (0..rows).flat_map(move |row| (0..n).map(move |column| (l, row, column))))
        };
        let steps = places(k).map(|(l, k, column)| f64::from(values.step(l, k, column))).collect();
        let scales = places(format.groups_of(k)).map(|(l, group, column)| values.scale(l, group, column)).collect();
        let [steps, scales] = [steps, scales].map(|values| Values { values, rank });
        Ok(Self { steps, scales, group: format.group_of(k) })
    }

    fn weights(&self, k: usize, n: usize) -> reference::Weights<'_> {
        let (steps, scales) = (self.steps.matrix(k, n), self.scales.matrix(k.div_ceil(self.group), n));
        reference::Weights { steps, scales, group: self.group }
    }
}

enum Value {
    Scalar(f64),
    Seed(u64, u64),
    Tensor(Values),
}

/// A tensor's elements, packed.
struct Values {
    values: Vec<f64>,
    rank: usize,
}

impl Values {
    fn of(tensor: &DeviceTensor) -> Result<Self, Error> {
        let values = reference::decode(tensor.element_type(), &tensor.to_bytes()?);
        Ok(Self { values, rank: shape_of(tensor).len() })
    }

    /// The matrix that has these rows of this one.
    fn rows(&self, rows: &[usize], columns: usize) -> Self {
        // Rows that no group has are not read, and a matrix of no rows has none for them.
        let element = |row: usize, column: usize| self.values.get(row * columns + column).copied().unwrap_or(0.0);
        let row = |row: &usize| (0..columns).map(|column| element(*row, column)).collect::<Vec<_>>();
        Self { values: rows.iter().flat_map(row).collect(), rank: self.rank }
    }

    /// Truth values of this many columns, eight of them in a byte.
    fn of_bits(tensor: &DeviceTensor, columns: usize) -> Result<Self, Error> {
        let bytes = tensor.to_bytes()?;
        Ok(Self { values: reference::unpack(&bytes, columns), rank: shape_of(tensor).len() })
    }

    /// A matrix, or a batch of them.
    fn matrix(&self, rows: usize, columns: usize) -> Array<'_> {
        let extent = Extent { m: rows, n: columns, l: 1 };
        Array::packed(&self.values, BroadcastClass::Tensor, extent, self.rank > 2)
    }

    fn array(&self, class: ParameterClass, extent: Extent) -> Array<'_> {
        let class = class.broadcast_class();
        let own = match class {
            BroadcastClass::Scalar => 0,
            BroadcastClass::RowVector | BroadcastClass::ColumnVector => 1,
            BroadcastClass::Tensor => 2,
        };
        // A device scalar of shape [1] is one value for all batches; one of shape [L] has a value for each.
        let batched = self.rank > own && (class != BroadcastClass::Scalar || self.values.len() > 1);
        Array::packed(&self.values, class, extent, batched)
    }
}
