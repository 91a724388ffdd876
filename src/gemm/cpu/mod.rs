//! The CPU device's product and fused epilogue.
//!
//! The output is cut into tiles that threads take in turn. A thread multiplies a tile into memory that stays in its
//! second-level cache: with the `gemm` crate's parts, or with [`kernel`] for few rows and on CPUs with AVX-512. Then it
//! runs the epilogue on the tile as a strip program, operation by operation. Strips are a few hundred elements, which
//! stay in the first-level cache, and the vector code is chosen for this CPU. If there is enough to do, the steps
//! become machine code with the same bits (see [`machine`]). The accumulator never reaches main memory.
//!
//! Results don't depend on the number of threads: tiles depend only on the extents, and reductions combine in tile
//! order. CUDA must never be in here.

mod across;
mod bits;
mod chance;
mod element;
mod exponentials;
mod gathered;
mod indexed;
mod kernel;
mod lower;
mod machine;
mod method;
mod needed;
mod own;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod packed;
mod panel;
mod patches;
mod place;
mod product;
mod program;
mod programs;
mod reduce;
mod rounded;
mod scaled;
mod slots;
mod spread;
mod step;
mod strip;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod taps;
#[cfg(test)]
mod tests;
mod tile;
mod weights;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod words;
#[cfg(target_arch = "aarch64")]
mod words_neon;
#[cfg(target_arch = "x86_64")]
mod words_x86;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use epilogue_runtime::{Device, DeviceTensor, HostAccess};
use smallvec::{SmallVec, smallvec};

use self::element::{Arithmetic, Digits, View};
pub(crate) use self::gathered::{gathered, scattered};
#[cfg(target_arch = "x86_64")]
use self::kernel::words::multiplies_matrices;
use self::machine::{Machine, Neighbours};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use self::packed::panels;
use self::product::{Accumulation, BlockScales, Product, ProductFormat};
use self::program::{Program, TileReduction};
pub(crate) use self::programs::Programs;
use self::programs::{Prepared, Typed, Worker};
use self::reduce::Results;
pub(crate) use self::rounded::rounded;
use self::slots::SlotMemory;
use self::strip::BoundStrips;
use self::tile::{Extents, Tile, Tiles, Turns};
pub(crate) use self::tile::{Groups, TileShape};
pub(crate) use self::weights::pack::pack_weights;
pub(crate) use self::weights::view::Activations;
use self::weights::view::WeightView;
use crate::Argument;
use crate::ElementType;
use crate::evt::{Axis, BroadcastClass, Form, OutputKind, ParameterClass, PartBinding, PhasePart, Phases, ValidTree};
use crate::gemm::problem::digits::{BatchAxes, has_digits, shape_of};
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::weight_panels::WeightPanels;
use crate::gemm::problem::{Error, Grouping, WholePanels};
use crate::simd::stream;
use crate::sync::lock;
use crate::tuning::Stores;
use crate::{exhaustion, parallel};

/// How operands of these types are multiplied and summed.
fn accumulation(a: ElementType, b: ElementType) -> Result<Accumulation, Error> {
    Accumulation::of(a, b).ok_or_else(|| Error::OperandTypes {
        a,
        b,
        device: Device::cpu().to_string(),
        advice: "give both a float type, or both i8 or u8, or a float type as A and i8 or u8 as B",
    })
}

/// Whether the CPU device multiplies operands of these types.
///
/// # Errors
/// [`Error::OperandTypes`].
pub(crate) fn check_operands(a: ElementType, b: ElementType) -> Result<(), Error> {
    accumulation(a, b).map(drop)
}

/// The multiplied tensors.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    pub(crate) a: &'a DeviceTensor,
    /// Where A's elements are, if it is patches.
    pub(crate) patches: Option<Patches>,
    /// One for each accumulator.
    pub(crate) b: &'a [&'a DeviceTensor],
    /// The panels of those that were packed before; they may be left out for all.
    pub(crate) panels: &'a [Option<&'a WholePanels>],
    /// The scales of A's blocks and of those of every B.
    pub(crate) scales: Option<(&'a DeviceTensor, &'a [&'a DeviceTensor])>,
    /// The weights whose codes every B has, and how they are multiplied; none if the elements are values.
    pub(crate) weights: &'a [&'a WeightPanels],
    pub(crate) activations: Activations,
}

/// Other CPUs multiply from no panels.
///
/// # Errors
/// None.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn panels(_: &DeviceTensor, _: ElementType) -> Result<Option<WholePanels>, Error> {
    Ok(None)
}

/// The arguments of most runs: lists of this length need no allocation.
const FEW: usize = 8;

/// The CPU device's tile for a batch of GEMMs with matrices of these types; partial reductions have its extents. Phases
/// keep this many bytes for each element.
pub(crate) fn choose_tile(
    (a, b): (ElementType, ElementType),
    [m, n, k]: [usize; 3],
    batch: usize,
    accumulators: usize,
    kept: usize,
) -> TileShape {
    TileShape::choose(Extents { batch, m, n, k }, multiplies_matrices(a, b), accumulators, kept)
}

#[cfg(not(target_arch = "x86_64"))]
const fn multiplies_matrices(_: ElementType, _: ElementType) -> bool {
    false
}

/// Multiplies A (`[M, K]` or `[L, M, K]`, or patches) by every B (`[K, N]` or `[L, K, N]`; one for each accumulator) and runs the
/// epilogue, with partial reductions over tiles of `tile`. For every batch: all rows and all of K, or only the given ranges.
///
/// The caller has checked the arguments, which are in the order of [`crate::Arguments::arguments`]: their number,
/// devices, element types and shapes (that of the class, perhaps with a leading batch axis). No output overlaps another
/// or an input, except the `TensorMut` that it overwrites.
///
/// # Errors
/// [`Error::OperandTypes`], a tensor that is not on the CPU, or not enough memory for an epilogue's intermediates:
/// nothing has been written. Not enough memory for a thread's tiles: some results may have been written.
pub(crate) fn execute(
    programs: &Programs,
    phases: &Phases,
    operands: Operands<'_>,
    groups: Option<Groups<'_>>,
    arguments: &[Argument<'_>],
    tile: TileShape,
) -> Result<(), Error> {
    execute_in(programs, phases, operands, groups, arguments, tile, None)
}

/// How the parts of an epilogue are gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// All parts of a row of tiles, if rows do not depend on each other.
    Panels,
    /// One part after another. Neighbouring parts without a GEMM that depend on rows only run together for a few rows
    /// at a time.
    Parts,
}

fn execute_in(
    programs: &Programs,
    phases: &Phases,
    Operands { a, patches, b: all_b, panels, scales, weights, activations }: Operands<'_>,
    groups: Option<Groups<'_>>,
    arguments: &[Argument<'_>],
    tile: TileShape,
    order: Option<Order>,
) -> Result<(), Error> {
    let tree = &phases.tree;
    let mut reads: SmallVec<[&DeviceTensor; FEW]> = smallvec![a];
    reads.extend_from_slice(all_b);
    reads.extend(weights.iter().flat_map(|weights| weights.tensors()));
    reads.extend(scales.iter().flat_map(|(of_a, of_b)| std::iter::once(*of_a).chain(of_b.iter().copied())));
    let mut writes: SmallVec<[&DeviceTensor; FEW]> = SmallVec::new();
    let mut scalars: SmallVec<[f64; FEW]> = smallvec![0.0; arguments.len()];
    for (argument, scalar) in arguments.iter().zip(&mut scalars) {
        match argument {
            Argument::Scalar(value) => *scalar = *value,
            Argument::Seed(..) => {}
            Argument::Input(tensor) => reads.push(tensor),
            Argument::Output(tensor) => writes.push(tensor),
        }
    }
    // Locked until the last tile is computed.
    let access = HostAccess::lock(&reads, &writes)?;
    let elements_of_b = if weights.is_empty() { all_b } else { &[] };
    let matrices = patches.is_none().then_some(&a).into_iter().chain(elements_of_b);
    let batches = matrices.into_iter().map(|operand| shape_of(operand)).filter(|shape| shape.len() == 3);
    let mut batches = batches.map(|shape| shape[0]).chain(weights.iter().filter_map(|weights| weights.extents.batch));
    let batch = groups.map(|groups| groups.of.len()).or_else(|| batches.next()).unwrap_or(1);
    let a_shape = a.shape();
    let matrix = || [a_shape[a_shape.len() - 2], a_shape[a_shape.len() - 1]];
    let [m, k] = patches.map_or_else(matrix, |patches| patches.extents());
    let last = all_b.first().and_then(|b| b.shape().last()).copied().ok_or(Error::NoRight)?;
    let n = weights.first().map_or(last, |weights| weights.extents.n);
    let extents = Extents { batch, m, n, k };
    let accumulation = accumulation(tree.types().a, tree.types().b)?;
    let depths = groups.and_then(Groups::depths);
    let products = all_b.iter().enumerate().map(|(i, b)| {
        let whole_panels = panels.get(i).copied().flatten();
        let a = patches.as_ref().map_or_else(|| view(a, 2), |patches| patches::images(a, patches));
        let scales = scales.and_then(|(of_a, of_b)| Some(BlockScales { a: view(of_a, 2), b: view(of_b.get(i)?, 2) }));
        let format = match (weights.get(i), scales) {
            (Some(weights), _) => ProductFormat::Weights(WeightView::of(weights, activations)),
            (None, Some(scales)) => ProductFormat::Scaled(scales),
            (None, None) => ProductFormat::Plain,
        };
        Product { extents, a, patches: patches.as_ref(), b: view(b, 2), whole_panels, format, accumulation, depths }
    });
    let products: SmallVec<[Product<'_>; 2]> = products.collect();

    let (pointer, strides) = (std::ptr::null_mut(), [0; 3]);
    let absent = View { pointer, element: ElementType::F32, strides, batches: None, digits: None };
    let seeds: SmallVec<[chance::Given; 1]> = arguments
        .iter()
        .filter_map(|argument| match argument {
            Argument::Seed(seed, offset) => Some([seed.cast_signed(), offset.cast_signed()]),
            _ => None,
        })
        .collect();
    let seed_before = |index: usize| arguments[..index].iter().filter(|a| matches!(a, Argument::Seed(..))).count();
    let of_argument = |index: usize, rank: usize| match &arguments[index] {
        Argument::Scalar(_) => absent,
        Argument::Seed(..) => {
            let pointer = seeds[seed_before(index)].as_ptr().cast_mut().cast();
            View { pointer, element: ElementType::I64, strides: [0, 1, 0], batches: None, digits: None }
        }
        Argument::Input(tensor) => view(tensor, rank),
        Argument::Output(tensor) => view(tensor, rank),
    };
    // For every argument, in their order.
    let parameters = tree.parameters().iter().map(|parameter| match parameter.class {
        ParameterClass::Seed => 1,
        class => rank(class.broadcast_class()),
    });
    let mut views: SmallVec<[View; FEW]> = parameters.enumerate().map(|(i, rank)| of_argument(i, rank)).collect();
    views.resize(arguments.len(), absent);
    for (i, output) in tree.outputs().iter().enumerate() {
        let argument = tree.output_argument(i);
        views[argument] = of_argument(argument, if output.is_partial() { 2 } else { rank(output.class) });
    }
    let compiled = programs.get(phases, &scalars);
    let whole = Whole { phases, extents, groups, products, views, tile };
    let run = exhaustion::caught(|| match &compiled.program {
        Typed::F32(prepared) => whole.run(prepared, &compiled.memory, order),
        Typed::F64(prepared) => whole.run(prepared, &compiled.memory, order),
    });
    drop(access);
    run
}

/// The number of axes of a class, without the batch axis.
const fn rank(class: BroadcastClass) -> usize {
    match class {
        BroadcastClass::Scalar => 0,
        BroadcastClass::RowVector | BroadcastClass::ColumnVector => 1,
        BroadcastClass::Tensor => 2,
    }
}

/// The memory of a tensor with `rank` axes and perhaps leading batch axes. All batches share it if a single one has one
/// element.
fn view(tensor: &DeviceTensor, rank: usize) -> View {
    let (shape, given) = (tensor.shape(), tensor.strides());
    let has_digits = has_digits(tensor);
    let own = if has_digits { 2 * rank } else { rank };
    let front = tensor.rank().saturating_sub(own);
    let mut strides = [0; 3];
    let batches = match BatchAxes::of(tensor, own) {
        BatchAxes::One(stride) => {
            strides[0] = stride;
            None
        }
        BatchAxes::Digits { extent, strides: [lower, upper] } => {
            strides[0] = lower;
            Some(Digits { extent, upper })
        }
    };
    let axes = |axis: usize| (front + 2 * axis, front + 2 * axis + 1);
    let digits_of = |axis: usize| match axes(axis) {
        (upper, lower) if axis < rank => Digits { extent: shape[lower].max(1), upper: given[upper] },
        _ => Digits::ONE,
    };
    let digits = has_digits.then(|| [0, 1].map(digits_of));
    let step = if has_digits { 2 } else { 1 };
    // If there are two digits, the lower one's.
    let own = given[front..].iter().skip(step - 1).step_by(step);
    strides[1..].iter_mut().zip(own).for_each(|(stride, &given)| *stride = given);
    View { pointer: tensor.device_address() as *mut u8, element: tensor.element_type(), strides, batches, digits }
}

/// One run with everything it needs, its memory locked.
struct Whole<'a> {
    phases: &'a Phases,
    extents: Extents,
    groups: Option<Groups<'a>>,
    /// By accumulator.
    products: SmallVec<[Product<'a>; 2]>,
    /// By argument.
    views: SmallVec<[View; FEW]>,
    tile: TileShape,
}

impl Whole<'_> {
    /// Runs the parts: row by row of tiles if that keeps every thread busy, else one after another over the whole GEMM.
    /// Either gives the same bits.
    ///
    /// # Errors
    /// There is not enough memory for the intermediates: then nothing has been written.
    fn run<T: Arithmetic>(
        &self,
        prepared: &[Prepared<T>],
        memory: &SlotMemory,
        order: Option<Order>,
    ) -> Result<(), Error> {
        let best = || if self.panels_are_best() { Order::Panels } else { Order::Parts };
        if order.unwrap_or_else(best) == Order::Panels && self.has_panels() {
            return self.by_panels(prepared, memory);
        }
        self.by_parts(prepared, memory)
    }

    /// A part, with the memory of its arguments.
    fn part<'a>(&'a self, part: &'a PhasePart, slots: &[View]) -> Run<'a> {
        let view = |argument: usize| match part.bindings[argument] {
            PartBinding::Argument(i) => self.views[i],
            PartBinding::Slot(i) => slots[i],
        };
        let (tree, extents) = (&part.tree, self.extents);
        let parameters = (0..tree.parameters().len()).map(view).collect();
        let outputs = (0..tree.outputs().len()).map(|i| view(tree.output_argument(i))).collect();
        let groups = self.groups;
        Run { tree, extents, groups, products: &self.products, parameters, outputs, tile: self.tile }
    }
}

/// One part of a run.
struct Run<'a> {
    tree: &'a ValidTree,
    extents: Extents,
    groups: Option<Groups<'a>>,
    /// One for each accumulator.
    products: &'a [Product<'a>],
    parameters: SmallVec<[View; FEW]>,
    outputs: SmallVec<[View; FEW]>,
    /// The tile of partial reductions.
    tile: TileShape,
}

impl Run<'_> {
    fn bound<'r, T: Arithmetic>(&'r self, program: &'r Program<T>, machine: Option<&'r Machine>) -> BoundStrips<'r, T> {
        let (parameters, outputs, extents) = (&self.parameters, &self.outputs, self.extents);
        BoundStrips { tree: self.tree, program, machine, parameters, outputs, extents }
    }

    /// The machine code of the part, if it pays.
    fn machine<T: Arithmetic>(&self, prepared: &Prepared<T>) -> Option<Arc<Machine>> {
        let work = self.groups.map_or(self.extents, |groups| groups.work(self.extents));
        let elements = work.batch.saturating_mul(work.m).saturating_mul(work.n);
        let neighbours = || {
            let is_far = |matrix: &View| self.is_far(matrix, prepared.tuning.stores);
            Neighbours::of(self.tree, &self.parameters, &self.outputs, is_far)
        };
        prepared.machine(self.tree, neighbours, elements)
    }

    /// Whether a matrix is stored past the caches: if it is too large for them, or the tuning asks for it. Each tile's part of a
    /// row must begin at a cache line. (Memory for a panel, which is none's yet, is near.)
    fn is_far(&self, matrix: &View, stores: Stores) -> bool {
        let Extents { batch, m, n, .. } = self.extents;
        let size = matrix.element.size();
        let bytes = batch.saturating_mul(m).saturating_mul(n).saturating_mul(size);
        let [of_batch, of_row, _] = matrix.strides;
        let steps = [of_batch, of_row, self.tile.computable().n as isize];
        stores.are_past(bytes >= stream::FAR / 2)
            && !matrix.pointer.is_null()
            && matrix.pointer.addr().is_multiple_of(stream::LINE)
            && steps.iter().all(|step| (step * size as isize) % stream::LINE as isize == 0)
    }

    /// Computes a tile; gives its part of every reduction.
    fn tile<T: Arithmetic>(&self, bound: &BoundStrips<'_, T>, tile: &Tile, worker: &mut Worker<T>) -> Vec<Vec<f64>> {
        let Worker { frame, panels, .. } = worker;
        // SAFETY: `execute`'s caller has checked that the shapes are those of the product, so the views reach every
        // element of every tile; the locks keep others out; tiles don't overlap and outputs neither.
        unsafe {
            let needs_product = self.needs_product(bound.program.conditions.as_ref(), tile);
            for &i in &bound.program.accumulators {
                if needs_product {
                    self.products[i].tile(i, tile, panels, &mut frame.accums[i]);
                } else {
                    frame.accums[i][..tile.rows.len() * tile.columns.len()].fill(T::ZERO);
                }
            }
            bound.run(tile, frame, |i| panels.sums(i))
        }
    }

    fn all_tiles<T: Arithmetic>(&self, prepared: &Prepared<T>, machine: Option<&Machine>) {
        let bound = self.bound(&prepared.program, machine);
        let tiles = if prepared.program.has_elements() {
            Tiles::within(self.extents, self.tile)
        } else {
            Tiles::new(self.extents, TileShape { n: self.extents.n.max(1), ..self.tile })
        };
        let tiles = tiles.in_groups(self.groups);
        let finished = Mutex::new(Vec::new());
        let amount = self.groups.map_or(self.extents, |groups| groups.work(self.extents));
        let threads = threads(amount, tiles.count());
        let turns = Turns::new(&tiles, threads);
        parallel::together(threads, || {
            let _fence = stream::Fence;
            let mut worker = prepared.worker(tiles.largest());
            let mut partials = Vec::new();
            for index in turns.of_a_thread() {
                let partial = self.tile(&bound, &tiles.tile(index), &mut worker);
                if !partial.is_empty() {
                    partials.push((index, partial));
                }
            }
            prepared.keep(worker);
            lock(&finished).append(&mut partials);
        });
        let mut finished = std::mem::take(&mut *lock(&finished));
        finished.sort_unstable_by_key(|&(index, _)| index);
        for (i, reduction) in prepared.program.reductions.iter().enumerate() {
            let parts = finished.iter().map(|(index, partials)| (tiles.tile(*index), partials[i].as_slice()));
            self.finish::<T>(reduction, parts);
        }
    }

    /// Combines the tiles' partial results of a reduction, in order, and stores the result.
    fn finish<'p, T: Arithmetic>(&self, part: &TileReduction, parts: impl Iterator<Item = (Tile, &'p [f64])>) {
        let output = &self.tree.outputs()[part.output];
        let OutputKind::Reduce(reduction) = output.kind else { return };
        let extents = self.extents;
        let partial = reduction.form == Form::Partial;
        let (entries, across, step) = match reduction.axis {
            Axis::Row => (extents.m, extents.n, self.tile.n),
            Axis::Column => (extents.n, extents.m, self.tile.m),
            Axis::All => (1, 1, 1),
        };
        // A result for each row of one matrix has no batches.
        let of_rows = reduction.axis == Axis::Row;
        let batches = if reduction.batch || (of_rows && self.shares_rows()) { 1 } else { extents.batch };
        // An extent of 0 has no partials, but the one tile without elements needs a place to write to.
        let groups = if partial { across.div_ceil(step.max(1)) } else { 1 };
        let mut results = Results::new(part.clone(), batches * groups.max(1) * entries);
        for (tile, values) in parts {
            let batch = tile.batch.min(batches.saturating_sub(1));
            let (first, along) = match reduction.axis {
                Axis::Row => (tile.rows.start, tile.columns.start),
                Axis::Column => (tile.columns.start, tile.rows.start),
                Axis::All => (0, 0),
            };
            let group = if partial { along / step.max(1) } else { 0 };
            let start = (batch * groups.max(1) + group) * entries + first;
            results.combine(start, &tile, extents.n, values);
        }
        let view = &self.outputs[part.output];
        for batch in 0..batches {
            for group in 0..groups {
                let start = (batch * groups.max(1) + group) * entries;
                for stored in self.stored(of_rows, batch, entries) {
                    if partial {
                        let which = start + stored.start..start + stored.end;
                        let address = view.at(batch, group, stored.start);
                        // SAFETY: as for the tiles; all of them are done.
                        unsafe { results.store::<T>(which, view.element, address, view.strides[2]) };
                        continue;
                    }
                    for stored in view.stretches_of_vector(stored) {
                        let (which, address) =
                            (start + stored.start..start + stored.end, view.at(batch, stored.start, 0));
                        // SAFETY: as above.
                        unsafe { results.store::<T>(which, view.element, address, view.strides[1]) };
                    }
                }
            }
        }
    }

    /// Whether the groups share the rows of one matrix.
    fn shares_rows(&self) -> bool {
        self.groups.is_some_and(|groups| groups.grouping == Grouping::Shared)
    }

    /// Which of a batch's results are stored: not those of rows that no group has.
    fn stored(&self, of_rows: bool, batch: usize, entries: usize) -> SmallVec<[Range<usize>; 1]> {
        match self.groups.and_then(Groups::rows).filter(|_| of_rows) {
            None => smallvec![0..entries],
            Some(rows) if self.shares_rows() => rows.iter().cloned().collect(),
            Some(rows) => smallvec![rows[batch].clone()],
        }
    }
}

/// As many threads as there is work for.
fn threads(extents: Extents, most: usize) -> usize {
    if extents.is_little() { 1 } else { parallel::threads().min(most) }
}
