//! The CPU device's product and fused epilogue.
//!
//! The output is cut into tiles that threads take in turn. A thread multiplies a tile, with the `gemm` crate or, for
//! few rows, with [`kernel`], into memory that stays in its second-level cache. Then it runs the epilogue on the tile
//! as a strip program: operation by operation over strips of a few hundred elements, which stay in the first-level
//! cache, with vector code chosen for this CPU. The accumulator never reaches main memory.
//!
//! Results don't depend on the number of threads: tiles depend only on the extents, and reductions combine in tile
//! order. CUDA must never be in here.

mod element;
mod integer;
mod kernel;
mod lower;
mod product;
mod program;
mod programs;
mod reduce;
mod rounded;
mod step;
mod strip;
#[cfg(test)]
mod tests;
mod tile;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use epilogue_runtime::{Device, DeviceTensor, HostAccess};
use smallvec::{SmallVec, smallvec};

use self::element::{Arithmetic, View};
use self::product::{Accumulation, Product};
use self::program::TileReduction;
pub(crate) use self::programs::Programs;
use self::programs::{Prepared, Typed, Worker};
pub(crate) use self::rounded::rounded;
use self::strip::Bound;
use self::tile::{Extents, Tile, Tiles};
pub(crate) use self::tile::{Groups, TileShape};
use crate::Argument;
use crate::ElementType;
use crate::evt::{Axis, Form, OutputKind, ShapeClass, ValidTree};
use crate::gemm::problem::{Error, Grouping};
use crate::parallel;
use crate::sync::lock;

/// How operands of these types are multiplied and summed.
fn accumulation(a: ElementType, b: ElementType) -> Result<Accumulation, Error> {
    Accumulation::of(a, b).ok_or_else(|| Error::OperandTypes {
        a,
        b,
        device: Device::cpu().to_string(),
        advice: "give both a float type, or both i8 or u8",
    })
}

/// Whether the CPU device multiplies operands of these types.
///
/// # Errors
/// [`Error::OperandTypes`].
pub(crate) fn check_operands(a: ElementType, b: ElementType) -> Result<(), Error> {
    accumulation(a, b).map(drop)
}

/// The arguments of most runs: lists of this length need no allocation.
const FEW: usize = 8;

/// The tile that the CPU device chooses for this many products of one A; partial reductions have its extents.
pub(crate) fn choose_tile(m: usize, n: usize, k: usize, batch: usize, accumulators: usize) -> TileShape {
    TileShape::choose(Extents { batch, m, n, k }, accumulators)
}

/// Multiplies `a` (`[M, K]` or `[L, M, K]`) by every B (`[K, N]` or `[L, K, N]`; one for each accumulator) and runs the
/// epilogue, with partial reductions over tiles of `tile`; of every batch, all rows and all of K, or these.
///
/// The arguments, in the order of [`crate::Arguments::arguments`], must have been checked: their number, devices,
/// element types, shapes (that of the class, perhaps with a leading batch axis), and that no output overlaps another or
/// an input, except the `TensorMut` that it overwrites.
///
/// # Errors
/// [`Error::OperandTypes`], or a tensor that is not on the CPU. Then nothing has been written.
pub(crate) fn execute(
    programs: &Programs,
    tree: &ValidTree,
    (a, all_b): (&DeviceTensor, &[&DeviceTensor]),
    groups: Option<Groups<'_>>,
    arguments: &[Argument<'_>],
    tile: TileShape,
) -> Result<(), Error> {
    let mut reads: SmallVec<[&DeviceTensor; FEW]> = smallvec![a];
    reads.extend_from_slice(all_b);
    let mut writes: SmallVec<[&DeviceTensor; FEW]> = SmallVec::new();
    let mut scalars: SmallVec<[f64; FEW]> = smallvec![0.0; arguments.len()];
    for (argument, scalar) in arguments.iter().zip(&mut scalars) {
        match argument {
            Argument::Scalar(value) => *scalar = *value,
            Argument::Input(tensor) => reads.push(tensor),
            Argument::Output(tensor) => writes.push(tensor),
        }
    }
    // Locked until the last tile is computed.
    let access = HostAccess::lock(&reads, &writes)?;
    let batched = std::iter::once(&a).chain(all_b).find(|operand| operand.rank() == 3);
    let batch = groups.map(|groups| groups.of.len()).or(batched.map(|x| x.shape()[0])).unwrap_or(1);
    let a_shape = a.shape();
    let [m, k] = [a_shape[a_shape.len() - 2], a_shape[a_shape.len() - 1]];
    let n = all_b.first().and_then(|b| b.shape().last()).copied().ok_or(Error::NoRight)?;
    let extents = Extents { batch, m, n, k };
    let accumulation = accumulation(tree.types().a, tree.types().b)?;
    let depths = groups.and_then(Groups::depths);
    let products = all_b.iter().map(|b| Product { extents, a: view(a, 2), b: view(b, 2), accumulation, depths });
    let products: SmallVec<[Product<'_>; 2]> = products.collect();

    let absent = View { pointer: std::ptr::null_mut(), element: ElementType::F32, strides: [0; 3] };
    let of_argument = |index: usize, rank: usize| match &arguments[index] {
        Argument::Scalar(_) => absent,
        Argument::Input(tensor) => view(tensor, rank),
        Argument::Output(tensor) => view(tensor, rank),
    };
    let parameters: SmallVec<[View; FEW]> = tree
        .parameters()
        .iter()
        .enumerate()
        .map(|(i, parameter)| of_argument(i, rank(parameter.class.shape_class())))
        .collect();
    let outputs: SmallVec<[View; FEW]> = tree
        .outputs()
        .iter()
        .enumerate()
        .map(|(i, output)| {
            of_argument(tree.output_argument(i), if output.is_partial() { 2 } else { rank(output.class) })
        })
        .collect();
    let compiled = programs.get(tree, &scalars);
    let run = Run { tree, extents, groups, products, parameters, outputs, tile };
    match &compiled.program {
        Typed::F32(prepared) => run.all_tiles(prepared),
        Typed::F64(prepared) => run.all_tiles(prepared),
    }
    drop(access);
    Ok(())
}

/// The number of axes of a class, without the batch axis.
const fn rank(class: ShapeClass) -> usize {
    match class {
        ShapeClass::Scalar => 0,
        ShapeClass::RowVector | ShapeClass::ColumnVector => 1,
        ShapeClass::Tensor => 2,
    }
}

/// The memory of a tensor with `rank` axes and perhaps a leading batch axis. All batches share it if that axis has one
/// element.
fn view(tensor: &DeviceTensor, rank: usize) -> View {
    let (shape, given) = (tensor.shape(), tensor.strides());
    let front = tensor.rank().saturating_sub(rank);
    let mut strides = [0; 3];
    if front > 0 && shape[0] != 1 {
        strides[0] = given[0];
    }
    strides[1..].iter_mut().zip(&given[front..]).for_each(|(stride, &given)| *stride = given);
    View { pointer: tensor.device_address() as *mut u8, element: tensor.element_type(), strides }
}

/// One run with everything it needs, its memory locked.
struct Run<'a> {
    tree: &'a ValidTree,
    extents: Extents,
    groups: Option<Groups<'a>>,
    /// One for each accumulator.
    products: SmallVec<[Product<'a>; 2]>,
    parameters: SmallVec<[View; FEW]>,
    outputs: SmallVec<[View; FEW]>,
    /// The tile of partial reductions.
    tile: TileShape,
}

impl Run<'_> {
    fn all_tiles<T: Arithmetic>(&self, prepared: &Prepared<T>) {
        let program = &prepared.program;
        let (parameters, outputs, extents) = (&self.parameters, &self.outputs, self.extents);
        let bound = Bound { tree: self.tree, program, parameters, outputs, extents };
        let tiles = Tiles::within(self.extents, self.tile).in_groups(self.groups);
        let next = AtomicUsize::new(0);
        let finished = Mutex::new(Vec::new());
        let work = || {
            let mut worker = prepared.worker(tiles.largest());
            let Worker { frame, panels, .. } = &mut worker;
            let mut partials = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= tiles.count() {
                    break;
                }
                let tile = tiles.tile(index);
                // SAFETY: the caller of `execute` has checked that the shapes are those of the product, so the views
                // reach every element of every tile. The locks keep others out, and neither tiles nor outputs overlap.
                let partial = unsafe {
                    for &i in &program.accumulators {
                        self.products[i].tile(i, &tile, panels, &mut frame.accums[i]);
                    }
                    bound.run(&tile, frame, |i| panels.sums(i))
                };
                if !partial.is_empty() {
                    partials.push((index, partial));
                }
            }
            prepared.keep(worker);
            lock(&finished).append(&mut partials);
        };
        let amount = self.groups.map_or(self.extents, |groups| groups.work(self.extents));
        let workers = if amount.is_little() { 1 } else { parallel::threads().min(tiles.count()) };
        parallel::together(workers, work);
        let mut finished = std::mem::take(&mut *lock(&finished));
        finished.sort_unstable_by_key(|&(index, _)| index);
        for (i, reduction) in program.reductions.iter().enumerate() {
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
        let mut results = vec![reduce::identity(reduction.op); batches * groups.max(1) * entries];
        for (tile, values) in parts {
            let batch = tile.batch.min(batches.saturating_sub(1));
            let (first, along) = match reduction.axis {
                Axis::Row => (tile.rows.start, tile.columns.start),
                Axis::Column => (tile.columns.start, tile.rows.start),
                Axis::All => (0, 0),
            };
            let group = if partial { along / step.max(1) } else { 0 };
            let start = (batch * groups.max(1) + group) * entries + first;
            for (result, &value) in results[start..].iter_mut().zip(values) {
                *result = reduce::combine(reduction.op, *result, value);
            }
        }
        let view = &self.outputs[part.output];
        for batch in 0..batches {
            for group in 0..groups {
                let start = (batch * groups.max(1) + group) * entries;
                let row: Vec<T> = results[start..start + entries].iter().map(|&x| T::from_f64(x)).collect();
                for stored in self.stored(of_rows, batch, entries) {
                    let (address, stride) = if partial {
                        (view.at(batch, group, stored.start), view.strides[2])
                    } else {
                        (view.at(batch, stored.start, 0), view.strides[1])
                    };
                    // SAFETY: as for the tiles, all of which are done.
                    unsafe { T::store(view.element, &row[stored], address, stride) };
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
