//! One random product on a kernel: its tensors, its run, and the comparison with the reference.

use epilogue::evt::random::{self, Choices};
use epilogue::evt::reference::{self, Argument as Given, Array, Extent, Multiplication, Options, Product};
use epilogue::evt::{BroadcastClass, OutputKind, ParameterClass, ValidOutput};
use epilogue::gemm::{Arithmetic, Major, OperandLayout, Problem, Right, rows, scaled};
use epilogue::{Argument, ElementType};

use super::{Kernel, text};
use crate::divided::Groups;
use crate::picking::Picking;
use crate::placement::{Batches, Digits, Placed, Placement};
use crate::scaling::Scaling;
use crate::scattering::Scattering;

/// Extents with every kind of remainder; the first is the simplest.
const EXTENTS: [usize; 20] = [1, 2, 0, 3, 5, 7, 8, 13, 15, 16, 17, 31, 33, 37, 47, 64, 65, 79, 97, 130];

pub(super) struct Case<'k> {
    kernel: &'k Kernel,
    pub(super) problem: Problem,
    pub(super) groups: Option<Groups>,
    picking: Option<Picking>,
    scaling: Option<Scaling>,
    scattering: Option<Scattering>,
    a: (Placed, Vec<f64>),
    /// One for each accumulator.
    b: Vec<(Placed, Vec<f64>)>,
    /// For every parameter, its values and whether they are per batch; scalars have one value and no tensor.
    parameters: Vec<(Option<Placed>, Vec<f64>, bool)>,
    /// For every output that is not a parameter's.
    outputs: Vec<Option<Placed>>,
}

impl<'k> Case<'k> {
    pub(super) fn new(kernel: &'k Kernel, choices: &mut Choices<'_>) -> Result<Self, String> {
        let extents: Vec<usize> = EXTENTS.into_iter().filter(|x| *x <= kernel.largest).collect();
        let (m, n, mut k) = (choices.pick(&extents), choices.pick(&extents), choices.pick(&extents));
        if (kernel.long || kernel.scaled) && choices.once_in(4) {
            // As many k-tiles as a pipeline has stages, one more, and many times as many.
            k = choices.pick(&[128, 192, 200, 320, 449, 640, 1000]);
        }
        // Batches of two axes have divisors.
        let batch =
            choices.pick(if kernel.batches.is_some_and(|bits| bits != 0) { &[4, 6, 0] } else { &[0, 0, 1, 2, 3, 4] });
        // Rows are placed of one matrix.
        let batch = if kernel.scattered { 0 } else { batch };
        let problem = Problem::new(m, n, k);
        let problem = if kernel.picked { problem.of_picked_rows() } else { problem };
        let problem = if kernel.scattered { problem.of_scattered_rows() } else { problem };
        let problem = if kernel.scaled { problem.of_scaled_operands() } else { problem };
        let problem = if batch == 0 { problem } else { problem.batched(batch) };
        // Rows are picked from one matrix.
        let drawn = if kernel.picked { &[1] } else { &[0, 1, 2][..] };
        let shared = if batch == 0 { 3 } else { choices.pick(drawn) };
        if let Some(divided) = kernel.divided {
            let groups = Groups::random(&kernel.device, problem, divided, choices).map_err(text)?;
            let shared = groups.share(shared);
            return Self::of_groups(kernel, groups.of(problem), Some(groups), shared, choices);
        }
        Self::of(kernel, problem, shared, choices)
    }

    /// Bit 0 of `shared` is set if all batches share A, bit 1 if they share B.
    pub(super) fn of(
        kernel: &'k Kernel,
        problem: Problem,
        shared: usize,
        choices: &mut Choices<'_>,
    ) -> Result<Self, String> {
        Self::of_groups(kernel, problem, None, shared, choices)
    }

    fn of_groups(
        kernel: &'k Kernel,
        problem: Problem,
        groups: Option<Groups>,
        shared: usize,
        choices: &mut Choices<'_>,
    ) -> Result<Self, String> {
        let Problem { m, n, k, batch, .. } = problem;
        let has = |row: usize| groups.as_ref().is_none_or(|groups| groups.have(row));
        let picking = kernel.picked.then(|| Picking::random(&kernel.device, m, has, choices).map_err(text));
        let picking = picking.transpose()?;
        let scattering = kernel.scattered.then(|| Scattering::random(&kernel.device, m, has, choices).map_err(text));
        let scattering = scattering.transpose()?;
        let rows = picking.as_ref().map_or(m, |picking| picking.limit);
        let a = operand(kernel, choices, [rows, k], (shared & 1 == 0).then_some(batch), kernel.layouts.0, Major::Mn)?;
        let mut b = Vec::new();
        for i in 0..kernel.gemm.tree().accumulators().len() {
            // If there are several B, some may be shared by all batches while others are not.
            let own = shared & 2 == 0 && (i == 0 || !choices.once_in(4));
            b.push(operand(kernel, choices, [k, n], own.then_some(batch), kernel.layouts.1, Major::K)?);
        }
        let shapes: Vec<&[usize]> = b.iter().map(|(b, _)| b.view.shape()).collect();
        let scaling =
            kernel.scaled.then(|| Scaling::random(&kernel.device, a.0.view.shape(), &shapes, choices).map_err(text));
        let (scaling, parameters, outputs) = (scaling.transpose()?, Vec::new(), Vec::new());
        let mut case = Self { kernel, problem, groups, picking, scattering, scaling, a, b, parameters, outputs };
        case.arguments(choices)?;
        Ok(case)
    }

    fn shape(&self, class: BroadcastClass, per_batch: bool) -> Vec<usize> {
        let Problem { m, n, batch, .. } = self.problem;
        let mut shape = match class {
            BroadcastClass::Scalar => vec![],
            BroadcastClass::RowVector => vec![n],
            BroadcastClass::ColumnVector => vec![m],
            BroadcastClass::Tensor => vec![m, n],
        };
        if per_batch && self.problem.reading.is_per_batch(class) {
            shape.insert(0, batch);
        }
        shape
    }

    /// The placement of argument `i` of a run.
    fn placement(&self, choices: &mut Choices<'_>, i: usize, element: ElementType, tensor: bool) -> Placement {
        let placement = match self.kernel.reached {
            Some(reached) if tensor && reached >> (i % 8) & 1 == 1 => Placement::aligned(choices, false, 16, element),
            Some(_) if tensor => Placement::unaligned(choices),
            _ => Placement::any(choices),
        };
        // On a GPU another set of these matrices needs another kernel: it belongs to the kernel.
        let order = match self.kernel.digits {
            Some(digits) => (digits >> (i % 8) & 1 == 1).then_some(i),
            None => choices.once_in(3).then(|| choices.below(Digits::COUNT)),
        };
        let digits = order.and_then(|order| Digits::of(self.problem.m, self.problem.n, order));
        Placement { digits: digits.filter(|_| tensor), ..placement }
    }

    /// How the batch of argument `i` is cut, which has `own` axes behind it; one of the first `orders`.
    fn batches(&self, choices: &mut Choices<'_>, i: usize, own: usize, orders: usize) -> Option<Batches> {
        self.kernel.batches(choices, i, self.problem.batch, own, orders)
    }

    fn arguments(&mut self, choices: &mut Choices<'_>) -> Result<(), String> {
        let tree = self.kernel.gemm.tree();
        for parameter in tree.parameters() {
            if parameter.class == ParameterClass::Scalar {
                let value = choices.pick(&[1.0, 0.0, -0.5, 2.0]);
                self.parameters.push((None, vec![value], false));
                continue;
            }
            if parameter.class == ParameterClass::Seed {
                // Integers that an f64 holds; -1 has all bits.
                let words = [&[0.0, 7.0, -1.0, 1_099_511_627_779.0], &[0.0, 1.0, -1.0, 4_294_967_295.0]];
                let values = words.map(|words| choices.pick(words)).to_vec();
                let in_memory = choices.once_in(2).then(|| {
                    Placed::new(&self.kernel.device, ElementType::I64, &[2], &values, Placement::any(choices))
                        .map_err(text)
                });
                self.parameters.push((in_memory.transpose()?, values, false));
                continue;
            }
            let written = parameter.class == ParameterClass::TensorMut;
            let per_batch = self.problem.batched
                && self.problem.reading.is_per_batch(parameter.class.broadcast_class())
                && (written || choices.once_in(2) || self.kernel.batches.is_some_and(|bits| bits != 0));
            let mut shape = self.shape(parameter.class.broadcast_class(), per_batch);
            if parameter.class == ParameterClass::Bits {
                let columns = packed(&mut shape);
                let (first, count) = (choices.below(1 << 16), shape.iter().product::<usize>());
                let bytes: Vec<u8> =
                    (0..count).map(|i| ((first + i).wrapping_mul(2_654_435_761) >> 13) as u8).collect();
                let placement = self.placement(choices, self.parameters.len(), parameter.element, true);
                let digits = placement.digits.and_then(|digits| {
                    let [rows, bytes] = [shape.len() - 2, shape.len() - 1].map(|axis| shape[axis]);
                    Digits::of(rows, bytes, digits.order)
                });
                let i = self.parameters.len();
                let batches = self.batches(choices, i, 2, Batches::APART).filter(|_| per_batch);
                let placement = Placement { digits, batches, ..placement };
                let values: Vec<f64> = bytes.iter().map(|byte| f64::from(*byte)).collect();
                let placed =
                    Placed::new(&self.kernel.device, parameter.element, &shape, &values, placement).map_err(text)?;
                self.parameters.push((Some(placed), reference::unpack(&bytes, columns), per_batch));
                continue;
            }
            let values = random::values(choices, parameter.element, shape.iter().product());
            let tensor = parameter.class.broadcast_class() == BroadcastClass::Tensor;
            let placement = self.placement(choices, self.parameters.len(), parameter.element, tensor);
            let orders = if written { Batches::APART } else { Batches::COUNT };
            let own = shape.len() - usize::from(per_batch);
            let batches = self.batches(choices, self.parameters.len(), own, orders).filter(|_| per_batch);
            let placement = Placement { batches, ..placement };
            let values = placement.shared(&shape, values);
            let placed =
                Placed::new(&self.kernel.device, parameter.element, &shape, &values, placement).map_err(text)?;
            self.parameters.push((Some(placed), values, per_batch));
        }
        for (i, output) in tree.outputs().iter().enumerate() {
            if output.parameter.is_some() {
                self.outputs.push(None);
                continue;
            }
            let reduces_batch = matches!(output.kind, OutputKind::Reduce(r) if r.batch);
            let mut shape = if output.is_partial() {
                self.kernel.gemm.partials_shape_of(output.name, &self.problem).map_err(text)?
            } else {
                self.shape(output.class, self.problem.batched && !reduces_batch)
            };
            if output.packed {
                packed(&mut shape);
            }
            let scattering = self.scattering_of(output);
            if let Some(scattering) = scattering {
                shape = vec![scattering.limit, self.problem.n];
            }
            let before = vec![poison(output.element); shape.iter().product()];
            let tensor = output.class == BroadcastClass::Tensor && output.reduction().is_none();
            let placement = self.placement(choices, tree.output_argument(i), output.element, tensor);
            let digits = placement.digits.filter(|_| scattering.is_none()).and_then(|digits| match output.packed {
                true => Digits::of(shape[shape.len() - 2], shape[shape.len() - 1], digits.order),
                false => Some(digits),
            });
            let has_batch = self.problem.batched && !reduces_batch && !output.is_partial() && scattering.is_none();
            let has_batch = has_batch && self.problem.reading.is_per_batch(output.class);
            let own = shape.len() - usize::from(has_batch);
            let batches = self.batches(choices, tree.output_argument(i), own, Batches::APART).filter(|_| has_batch);
            let placement = Placement { digits, batches, ..placement };
            let placed = Placed::new(&self.kernel.device, output.element, &shape, &before, placement).map_err(text)?;
            self.outputs.push(Some(placed));
        }
        Ok(())
    }

    /// Where an output's rows go, if not where they are in the product.
    fn scattering_of(&self, output: &ValidOutput) -> Option<&Scattering> {
        self.scattering.as_ref().filter(|_| Scattering::places(output))
    }

    fn expected(&self) -> Result<Vec<reference::Output>, String> {
        let Problem { m, n, k, batch: l, .. } = self.problem;
        let tree = self.kernel.gemm.tree();
        let strides = |placed: &Placed, rows: usize, columns: usize| {
            let rank = placed.view.axes().map_or(placed.view.rank(), |axes| axes.lists().len());
            let batch = if rank == 3 { (rows * columns) as isize } else { 0 };
            [batch, columns as isize, 1]
        };
        let picked = self.picking.as_ref().map(|picking| picking.of(&self.a.1, k));
        let a = Array { values: picked.as_ref().unwrap_or(&self.a.1), offset: 0, strides: strides(&self.a.0, m, k) };
        let of_kernel = self.kernel.gemm.choice().kernel().map(|kernel| kernel.key.multiplication());
        let multiplication = of_kernel.unwrap_or(match self.kernel.arithmetic {
            Arithmetic::FastBf16 => Multiplication::FastBf16,
            Arithmetic::Exact | Arithmetic::Int8Activations | Arithmetic::Tf32 | Arithmetic::FastFp8 => {
                Multiplication::Exact
            }
        });
        let extent = Extent { m, n, l };
        let mut products = Vec::new();
        for (i, (placed, values)) in self.b.iter().enumerate() {
            let b = Array { values, offset: 0, strides: strides(placed, k, n) };
            let (types, rows) = (tree.types(), self.groups.as_ref().and_then(Groups::of_rows));
            let product = match (rows, &self.groups) {
                _ if self.kernel.scaled => {
                    let scaling = self.scaling.as_ref().ok_or("no scales")?;
                    Product::of_scaled((types, multiplication), extent, k, (&a, &b), scaling.of(i), rows)
                }
                (Some(rows), _) => Product::of_groups(types, multiplication, extent, k, (&a, &b), rows),
                (None, Some(groups)) => Product::of_depths(types, multiplication, extent, (&a, &b), groups.of_k()),
                (None, None) => Product::new(types, multiplication, extent, k, &a, &b),
            };
            products.push(product.map_err(text)?);
        }
        let given: Vec<Given<'_>> = tree
            .parameters()
            .iter()
            .zip(&self.parameters)
            .map(|(parameter, (placed, values, per_batch))| match placed {
                _ if parameter.class == ParameterClass::Seed => Given::Seed(bits(values[0]), bits(values[1])),
                None => Given::Scalar(values[0]),
                Some(_) => Given::Array(Array::packed(values, parameter.class.broadcast_class(), extent, *per_batch)),
            })
            .collect();
        let options =
            Options { tile: Some(self.kernel.gemm.choice().tile()), fast_math: self.kernel.gemm.is_fast_math() };
        let groups = self.groups.as_ref().and_then(Groups::of_rows);
        reference::evaluate_grouped(tree, &products, &given, options, groups).map_err(text)
    }

    /// The elements of an output that are of no group, or where no row goes, as they were.
    fn untouched(&self, output: usize) -> Vec<(usize, f64)> {
        let of = &self.kernel.gemm.tree().outputs()[output];
        if let Some(scattering) = self.scattering_of(of) {
            let places = scattering.untouched(self.problem.n).into_iter();
            return places.map(|place| (place, poison(of.element))).collect();
        }
        let (placed, before) = match of.parameter.map(|parameter| &self.parameters[parameter.index()]) {
            Some((placed, values, _)) => (placed, Some(values)),
            None => (&self.outputs[output], None),
        };
        let (Some(groups), Some(placed)) = (&self.groups, placed) else { return Vec::new() };
        let shape = placed.view.axes().map_or_else(|| placed.view.shape().to_vec(), epilogue_runtime::NamedAxes::shape);
        let places = groups.untouched(of.class, &shape, of.is_partial()).into_iter();
        places.map(|place| (place, before.map_or(poison(of.element), |before| before[place]))).collect()
    }

    pub(super) fn run(mut self) -> Result<(), String> {
        let gemm = &self.kernel.gemm;
        let tree = gemm.tree();
        let expected = self.expected()?;
        let mut arguments = Vec::new();
        for (parameter, (placed, values, _)) in tree.parameters().iter().zip(&mut self.parameters) {
            let written = parameter.class == ParameterClass::TensorMut;
            arguments.push(match placed {
                None if parameter.class == ParameterClass::Seed => Argument::Seed(bits(values[0]), bits(values[1])),
                None => Argument::Scalar(values[0]),
                Some(Placed { view, .. }) => {
                    if written {
                        Argument::Output(view)
                    } else {
                        Argument::Input(view)
                    }
                }
            });
        }
        arguments.extend(self.outputs.iter_mut().flatten().map(|placed| Argument::Output(&mut placed.view)));
        let stream = self.kernel.device.default_stream();
        let b: Vec<_> = self.b.iter().map(|(placed, _)| &placed.view).collect();
        let a = &self.a.0.view;
        let scales = self.scaling.as_ref().map(|scaling| &scaling.a.0.view);
        let a = match (&self.groups, &self.picking) {
            (None, None) if self.scattering.is_none() => {
                scales.map_or_else(|| a.into(), |scales| scaled(a, scales).into())
            }
            (groups, picking) => {
                let mut rows = rows(a);
                if let Some(picking) = picking {
                    rows = rows.picked(&picking.index);
                }
                if let Some(scales) = scales {
                    rows = rows.scaled(scales);
                }
                if let Some(scattering) = &self.scattering {
                    rows = rows.scattered(&scattering.index);
                }
                groups.as_ref().map_or_else(|| rows.into(), |groups| groups.left(a, rows))
            }
        };
        let b = self.scaling.as_ref().map_or_else(|| Right::from(&b[..]), |scaling| scaling.right(&b));
        gemm.run_arguments(&stream, a, b, &arguments).map_err(|error| format!("{:?}: {error}", self.problem))?;
        for (i, (output, expected)) in tree.outputs().iter().zip(&expected).enumerate() {
            let untouched = self.untouched(i);
            let placed = match output.parameter {
                Some(parameter) => self.parameters[parameter.index()].0.as_mut(),
                None => self.outputs[i].as_mut(),
            };
            let Some(placed) = placed else { return Err(format!("output {} has no memory", output.name)) };
            let values = placed.values().map_err(text)?;
            let elements = match expected.packed {
                false => match &self.scattering {
                    Some(scattering) if Scattering::places(output) => scattering.in_order(&values, self.problem.n),
                    _ => values.clone(),
                },
                true => {
                    let (bytes, columns) = (values.iter().map(|x| *x as u8).collect::<Vec<_>>(), self.problem.n);
                    // Rows of no group keep all of their bits.
                    if untouched.is_empty() && reference::has_padding(&bytes, columns) {
                        return Err(format!("{}: {:?} wrote a 1 beyond the last column", output.name, self.problem));
                    }
                    reference::unpack(&bytes, columns)
                }
            };
            if let Some(wrong) = expected.first_wrong(&elements) {
                return Err(format!("{}: {:?} {wrong:?} of shape {:?}", output.name, self.problem, expected.shape));
            }
            if let Some((place, _)) = untouched.iter().find(|(place, before)| !is_same(values[*place], *before)) {
                let (problem, groups) = (self.problem, &self.groups);
                return Err(format!(
                    "{}: {problem:?} {groups:?} wrote element {place}, where nothing goes",
                    output.name
                ));
            }
            if !placed.is_guarded().map_err(text)? {
                return Err(format!("{}: {:?} wrote outside of its view", output.name, self.problem));
            }
        }
        Ok(())
    }
}

/// Makes a shape that of bytes with eight columns each; gives the columns.
fn packed(shape: &mut [usize]) -> usize {
    let Some(last) = shape.last_mut() else { return 0 };
    std::mem::replace(last, last.div_ceil(8))
}

/// The bits of the i64 of this value.
fn bits(value: f64) -> u64 {
    (value as i64).cast_unsigned()
}

fn is_same(x: f64, y: f64) -> bool {
    x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
}

/// A value that no kernel gives, so that an element that is not written is noticed.
fn poison(element: ElementType) -> f64 {
    let wanted = if element.is_float() { f64::NAN } else { 77.0 };
    reference::decode(element, &reference::encode(element, &[wanted]))[0]
}

/// A or B. `transposed` is the major that its rows in memory have when it is stored transposed: M for A.
fn operand(
    kernel: &Kernel,
    choices: &mut Choices<'_>,
    [rows, columns]: [usize; 2],
    batch: Option<usize>,
    layout: OperandLayout,
    transposed: Major,
) -> Result<(Placed, Vec<f64>), String> {
    let mut shape = vec![rows, columns];
    if let Some(batch) = batch {
        shape.insert(0, batch);
    }
    let element = if transposed == Major::Mn { kernel.elements.0 } else { kernel.elements.1 };
    let values = random::values(choices, element, shape.iter().product());
    let placement = Placement::aligned(choices, layout.major == transposed, layout.copy_bytes, element);
    let i = if transposed == Major::Mn { 0 } else { 1 };
    let batches =
        batch.and_then(|batch| kernel.batches(choices, i, batch, 2, Batches::COUNT)).filter(|_| !kernel.scaled);
    let placement = Placement { batches, ..placement };
    let values = placement.shared(&shape, values);
    let placed = Placed::new(&kernel.device, element, &shape, &values, placement).map_err(text)?;
    Ok((placed, values))
}
