//! A random kernel, and random products run on it and compared with the reference.

use epilogue::evt::random::{self, Choices, Profile};
use epilogue::evt::reference::{self, Argument as Given, Array, Extent, Multiplication, Options, Product};
use epilogue::evt::{BroadcastClass, OutputKind, ParameterClass, Types, ValidOutput, ValidTree};
use epilogue::gemm::{
    Arithmetic, Builder, Divided, Instruction, Major, OperandLayout, Problem, Right, SplitK, Tile, rows, scaled, sm90,
};
use epilogue::{Argument, Device, ElementType, Gemm};

use crate::divided::Groups;
use crate::picking::Picking;
use crate::placement::{Batches, Digits, Placed, Placement};
use crate::scaling::Scaling;
use crate::scattering::Scattering;

/// A plan with everything that its cases need to know.
pub struct Kernel {
    gemm: Gemm,
    device: Device,
    elements: (ElementType, ElementType),
    arithmetic: Arithmetic,
    layouts: (OperandLayout, OperandLayout),
    largest: usize,
    /// Whether K may have many blocks: for kernels that cut it in one launch.
    long: bool,
    /// For the kernels for sm_90a, which tensors tensor copies can reach: bit `i % 8` is for argument `i`. It belongs
    /// to the kernel, since another set needs another kernel.
    reached: Option<u8>,
    /// Which matrices have rows and columns of two axes each, as `reached`; on the CPU it is drawn for each product.
    digits: Option<u8>,
    /// Which arguments, and whether operands, have batches of two axes, likewise.
    batches: Option<u8>,
    /// The extent of its products that is divided into groups, if one is.
    divided: Option<Divided>,
    /// Whether an index picks the rows of A.
    picked: bool,
    /// Whether the operands have scales of blocks.
    scaled: bool,
    /// Whether an index places the rows of its results.
    scattered: bool,
}

/// Kernels by what they multiply and how.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Element types of A and B.
    pub elements: (ElementType, ElementType),
    /// How they multiply.
    pub arithmetic: Arithmetic,
    /// Whether they are those for sm_90a.
    pub hopper: bool,
    /// Whether most operands of the kernels for sm_90a have layouts that must be copied first.
    pub repacked: bool,
}

/// The tile, cluster and raster with this number. The blocks of a cluster take shares in atoms of 8 rows, or in boxes
/// of 64.
fn sm90_request(number: usize) -> sm90::Request {
    let tiles = sm90::Tile::all();
    let tile = tiles[tiles.len() - 1 - number % tiles.len()];
    let clusters = [(1, 1), (2, 1), (1, 2), (1, 1), (2, 2), (4, 1), (1, 4)];
    let (m, n) = if tile.rows.min(tile.columns) < 64 { (1, 1) } else { clusters[number % clusters.len()] };
    sm90::Request {
        tile: Some(tile),
        swap_ab: Some(number % 3 == 1),
        stages: Some(2 + number % 4),
        cluster: Some(sm90::Cluster { m, n }),
        raster: Some(sm90::Raster { group: 1 + number % 3, along_n: number % 2 == 1 }),
        ..sm90::Request::default()
    }
}

/// Extents with every kind of remainder; the first is the simplest.
const EXTENTS: [usize; 20] = [1, 2, 0, 3, 5, 7, 8, 13, 15, 16, 17, 31, 33, 37, 47, 64, 65, 79, 97, 130];

impl Kernel {
    /// A random epilogue on the tile, layout and split-K with this number: consecutive numbers cover all of them.
    pub fn random(
        device: &Device,
        family: &Family,
        number: usize,
        largest: usize,
        choices: &mut Choices<'_>,
    ) -> Result<Self, String> {
        let Family { elements, arithmetic, hopper, repacked } = *family;
        // Every fourth is computed from its own reductions.
        let tree =
            random::tree(choices, Profile { phases: number % 4 == 3, chance: true, bits: true, ..Profile::default() });
        let valid = tree.validate(Types::new(elements.0, elements.1));
        let of_one_phase = valid.as_ref().is_ok_and(|tree| tree.phases() == 1);
        let in_groups = of_one_phase && valid.as_ref().is_ok_and(Groups::take);
        let placed = valid.is_ok_and(|tree| Scattering::takes(&tree));
        let several = tree.accumulators().len() > 1;
        let mut builder = Builder::<()>::new(device, tree).elements(elements.0, elements.1).problem(64, 64, 64);
        builder = builder.arithmetic(arithmetic).fast_math(number % 7 == 6).ignore_unsupported_knobs();
        let of_16_bits = (elements.0.size(), elements.1.size()) == (2, 2);
        // Every fifth, so that those have every layout.
        let divided = match number % 15 {
            9 if !hopper && of_one_phase => Some(Divided::Depth),
            // Kernels for sm_90a take them of 16-bit operands, along K after a copy.
            5 | 9 | 10 if hopper && of_16_bits && of_one_phase => Some(Divided::Depth),
            2 if repacked && of_16_bits && of_one_phase => Some(Divided::Depth),
            // Kernels for sm_90a take them of an A that is contiguous along K.
            4 | 14 if in_groups && !(hopper && number % 2 == 1) => Some(Divided::Rows),
            _ => None,
        };
        builder = match divided {
            None => builder,
            Some(Divided::Rows) => builder.groups(3),
            Some(Divided::Depth) => builder.depth_groups(3),
        };
        // Kernels with an A that is contiguous along K.
        let picked = number % 4 == 2 && divided != Some(Divided::Depth);
        if picked {
            builder = builder.picked_rows();
        }
        let is_fp8 = |element| matches!(element, ElementType::F8E4M3 | ElementType::F8E5M2);
        let are_fp8 = is_fp8(elements.0) && is_fp8(elements.1) && arithmetic == Arithmetic::Exact;
        let scaled = are_fp8 && number % 3 != 2 && !picked && divided != Some(Divided::Depth);
        if scaled {
            builder = builder.block_scales();
        }
        let scattered = number % 3 == 2 && placed && divided != Some(Divided::Depth);
        if scattered {
            builder = builder.scattered_rows();
        }
        let size = elements.0.size();
        let direct = hopper && !repacked;
        let widths: Vec<usize> = [16, 8, 4].into_iter().filter(|width| *width > size).chain([size]).collect();
        let widths = if direct { vec![16] } else { widths };
        // Tensor copies load parts of K along M and N.
        let along_mn = direct && divided == Some(Divided::Depth);
        let major = |bit: usize, size| match bit {
            _ if along_mn => Major::Mn,
            1 if !direct || size == 2 => Major::Mn,
            _ => Major::K,
        };
        let a = OperandLayout { major: major(number % 2, size), copy_bytes: widths[number % widths.len()] };
        let of_b = elements.1.size();
        let copy_bytes = match widths[number / 3 % widths.len()] {
            single if single == size => of_b,
            wide => wide.max(of_b),
        };
        let b = OperandLayout { major: major(number / 2 % 2, of_b), copy_bytes };
        builder = builder.layouts(a, b);
        let splits = [SplitK::None, SplitK::Serial(3), SplitK::Parallel(3), SplitK::None, SplitK::Parallel(2)];
        let split_k = if number % 7 > 4 { SplitK::Stream } else { splits[number % splits.len()] };
        let split_k = if divided.is_none() { split_k } else { SplitK::None };
        // Few blocks at once, so that each computes several tiles.
        builder = builder.multiprocessors(4);
        if hopper {
            builder = builder.split_k(split_k);
            // Not every combination has a kernel: the blocks of a cluster take equal shares of their tiles, deep
            // pipelines need small tiles, and the largest tiles leave an epilogue few registers.
            let request = sm90_request(number);
            // The converted operand is the tile's rows.
            let converted = elements.0.size() != elements.1.size();
            let request = sm90::Request { swap_ab: if converted { Some(true) } else { request.swap_ab }, ..request };
            // Most by the kernel, if it can.
            let by_kernel = sm90::Request { picked: (picked && number % 12 != 6).then_some(true), ..request };
            let request = if builder.clone().sm90(by_kernel).choose().is_ok() { by_kernel } else { request };
            let alone = sm90::Request { cluster: Some(sm90::Cluster::NONE), stages: None, ..request };
            let any = sm90::Request { tile: None, ..alone };
            let possible = [request, alone].into_iter().find(|r| builder.clone().sm90(*r).choose().is_ok());
            builder = builder.sm90(possible.unwrap_or(any));
        } else if let (Some(_), Some(instruction)) =
            (device.arch(), Instruction::of(elements.0, elements.1, arithmetic))
        {
            let tiles = Tile::all(instruction);
            // From the smallest tile up: a small one has more edges, where most can go wrong. Not every tile has room
            // for several accumulators.
            let from = |number: usize| builder.clone().tile(tiles[tiles.len() - 1 - number % tiles.len()]);
            let next =
                (number..number + tiles.len()).map(from).find(|tiled| !(several || scaled) || tiled.choose().is_ok());
            builder = next.unwrap_or_else(|| builder.clone()).split_k(split_k);
        }
        let gemm = builder.plan().map_err(|error| error.to_string())?;
        let reached = hopper.then_some([0xff, 0xff, 0x55, 0xfe, 0x00][number / 2 % 5]);
        let on_gpu = device.arch().is_some();
        let digits = on_gpu.then_some([0, 0, 0xff, 0, 0, 0, 0, 0x55][number % 8]);
        let batches = on_gpu.then_some([0, 0, 0, 0, 0xff, 0, 0x55, 0][number % 8]);
        let long = hopper || split_k == SplitK::Stream;
        Ok(Self {
            gemm,
            device: device.clone(),
            elements,
            arithmetic,
            layouts: (a, b),
            largest,
            long,
            reached,
            digits,
            batches,
            divided,
            picked,
            scaled,
            scattered,
        })
    }

    /// A plan for sm_90a all of whose tensors can be reached by tensor copies.
    pub fn planned(builder: Builder, family: &Family, majors: (Major, Major)) -> Result<Self, String> {
        let Family { elements, arithmetic, .. } = *family;
        let layouts = (OperandLayout::packed(majors.0), OperandLayout::packed(majors.1));
        let builder = builder.elements(elements.0, elements.1).arithmetic(arithmetic).layouts(layouts.0, layouts.1);
        let gemm = builder.plan().map_err(text)?;
        let device = gemm.device().clone();
        Ok(Self {
            gemm,
            device,
            elements,
            arithmetic,
            layouts,
            largest: 0,
            long: true,
            reached: Some(0xff),
            digits: Some(0),
            batches: Some(0),
            divided: None,
            picked: false,
            scaled: false,
            scattered: false,
        })
    }

    /// How a batch is cut, of argument `i` or of an operand, that has `own` axes behind it; one of the first `orders`.
    fn batches(&self, choices: &mut Choices<'_>, i: usize, batch: usize, own: usize, orders: usize) -> Option<Batches> {
        // On a GPU another set of these arguments needs another kernel.
        let cut = self.batches.map_or_else(|| choices.once_in(3), |bits| bits >> (i % 8) & 1 == 1);
        Batches::of(batch, own, choices.below(orders)).filter(|_| cut)
    }

    /// The plan.
    pub fn gemm(&self) -> &Gemm {
        &self.gemm
    }

    /// One product with the given extents; A and B have the batch axis, if there is one.
    pub fn product(&self, problem: Problem, choices: &mut Choices<'_>) -> Result<(), String> {
        Case::of(self, problem, if problem.batched { 0 } else { 3 }, choices)?
            .run()
            .map_err(|error| format!("{error}\n{}", self.gemm.choice()))
    }

    /// One product, wholly random.
    pub fn case(&self, choices: &mut Choices<'_>) -> Result<(), String> {
        let case = Case::new(self, choices)?;
        // Nothing can be reduced if there are no groups.
        let reduces_batch = self.gemm.tree().reductions().any(|(.., reduction)| reduction.batch);
        if case.problem.batch == 0 && case.groups.is_some() && reduces_batch {
            return match case.run() {
                Err(refused) if refused.contains("there are 0 batches") => Ok(()),
                other => other.and_then(|()| Err("a reduction of no groups ran".to_owned())),
            };
        }
        case.run().map_err(|error| format!("{error}\n{}\n{}", self.gemm.choice(), tree_text(self.gemm.tree())))
    }
}

fn tree_text(tree: &ValidTree) -> String {
    let values = tree.values().iter().map(|v| format!("  {} = {:?}\n", v.name, v.kind));
    let outputs = tree.outputs().iter().map(|o| format!("  -> {} {}: {:?} {:?}\n", o.name, o.element, o.kind, o.value));
    values.chain(outputs).collect()
}

struct Case<'k> {
    kernel: &'k Kernel,
    problem: Problem,
    groups: Option<Groups>,
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

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'k> Case<'k> {
    fn new(kernel: &'k Kernel, choices: &mut Choices<'_>) -> Result<Self, String> {
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
    fn of(kernel: &'k Kernel, problem: Problem, shared: usize, choices: &mut Choices<'_>) -> Result<Self, String> {
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
        let multiplication = match self.kernel.arithmetic {
            Arithmetic::Exact => Multiplication::Exact,
            Arithmetic::Tf32 => Multiplication::Tf32,
            Arithmetic::FastBf16 => Multiplication::FastBf16,
            Arithmetic::FastFp8 => Multiplication::FastFp8,
        };
        let extent = Extent { m, n, l };
        let mut products = Vec::new();
        for (i, (placed, values)) in self.b.iter().enumerate() {
            let b = Array { values, offset: 0, strides: strides(placed, k, n) };
            let (types, rows) = (tree.types(), self.groups.as_ref().and_then(Groups::of_rows));
            let product = match (rows, &self.groups) {
                _ if self.kernel.scaled => {
                    let scaling = self.scaling.as_ref().ok_or("no scales")?;
                    Product::of_scaled(types, extent, k, (&a, &b), scaling.of(i), rows)
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
        let options = Options { tile: Some(self.kernel.gemm.choice().tile()), fast_math: self.kernel.fast_math() };
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

    fn run(mut self) -> Result<(), String> {
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

impl Kernel {
    fn fast_math(&self) -> bool {
        self.gemm.is_fast_math()
    }
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

/// The random numbers that a product is drawn from.
pub fn choices(seed: u32) -> Vec<u32> {
    (0..60).map(|j: u32| j.wrapping_mul(2_654_435_761).wrapping_add(seed)).collect()
}
