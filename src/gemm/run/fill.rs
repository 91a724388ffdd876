//! The bytes of an epilogue's arguments, as its kernel takes them.

use epilogue_runtime::DeviceTensor;

use super::numbers::entry_stride;
use super::workspace::{Places, WorkspaceAddresses};
use crate::evt::ValidTree;
use crate::gemm::emit::arguments::EpilogueArguments;
use crate::gemm::emit::text::Emitted;
use crate::gemm::kernel::filler::Filler;
use crate::gemm::kernel::formula::{Axis, Evaluation, Given, Quantity, Scope};
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::parameter_bytes::ParameterBytes;
use crate::gemm::kernel::parameters::FieldType;
use crate::gemm::kernel::structs::BATCHES;
use crate::gemm::problem::digits::BatchAxes;
use crate::gemm::problem::placing::Scattered;
use crate::{Argument, ElementType};

/// Fills a kernel's arguments.
pub(crate) struct Fill<'a> {
    /// The tree whose names described fields have. (Launches with a tail are not described.)
    pub(crate) tree: &'a ValidTree,
    /// The epilogue's, and those of the launch's tail.
    pub(crate) arguments: (&'a [Argument<'a>], &'a [Argument<'a>]),
    /// The index that places the rows of outputs.
    pub(crate) scattered: Option<Scattered<'a>>,
    pub(crate) batch: usize,
    /// The neighbours that a lane accesses at once.
    pub(crate) neighbours: usize,
}

impl Fill<'_> {
    /// Writes the arguments from `at` on.
    pub(crate) fn put_all(
        &self,
        bytes: &mut ParameterBytes,
        at: usize,
        emitted: &Emitted,
        places: &Places,
        workspace: WorkspaceAddresses,
    ) {
        let arguments = &emitted.arguments;
        self.put_given(bytes, at, arguments, self.arguments.0, |argument| emitted.place_site(argument));
        if let Some(tail) = &emitted.tail {
            self.put_given(bytes, at + arguments.layout.size(), tail, self.arguments.1, |_| 0);
        }
        let scratch = (Memory::Scratch, workspace.scratch);
        let partials = arguments.partials.iter().zip(&places.partials).map(|((_, name), p)| (name, scratch, *p));
        let counters = (Memory::Counters, workspace.counters);
        let counted = arguments.counters.iter().zip(&places.counters).map(|((_, name), c)| (name, counters, *c));
        for (name, memory, place) in partials.chain(counted) {
            if let Some(field) = arguments.layout.field(name) {
                bytes.put_address(at + field.offset, memory, place as u64, || format!("workspace.{name}"));
            }
        }
    }

    /// Writes what a run was given; `site` is the number under which places of an output's rows are noted.
    fn put_given(
        &self,
        bytes: &mut ParameterBytes,
        at: usize,
        emitted: &EpilogueArguments,
        given: &[Argument<'_>],
        site: impl Fn(usize) -> usize,
    ) {
        for (i, (place, argument)) in emitted.fields.iter().zip(given).enumerate() {
            for (name, suffix) in [(&place.input, ""), (&place.output, if place.input.is_some() { ".out" } else { "" })]
            {
                if let Some(field) = name.as_ref().and_then(|name| emitted.layout.field(name)) {
                    self.put(bytes, at + field.offset, field.ty, (i, argument), (suffix, &site));
                }
            }
        }
    }

    /// One argument, by its index; `suffix` distinguishes its written from its read view.
    fn put(
        &self,
        bytes: &mut ParameterBytes,
        at: usize,
        ty: FieldType,
        (i, argument): (usize, &Argument<'_>),
        (suffix, site): (&str, &impl Fn(usize) -> usize),
    ) {
        let name = || format!("arguments.{}{suffix}", self.tree.argument_names().nth(i).unwrap_or_default());
        let held = match argument {
            Argument::Scalar(value) => {
                return match ty {
                    FieldType::Host(ElementType::F64) => bytes.put_scalar(at, &value.to_le_bytes(), i, name),
                    #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest: the arithmetic type")]
                    _ => bytes.put_scalar(at, &(*value as f32).to_le_bytes(), i, name),
                };
            }
            &Argument::Seed(seed, offset) => Held::Seed { seed, offset },
            Argument::Input(tensor) => Held::Tensor(tensor),
            Argument::Output(tensor) => Held::Tensor(tensor),
        };
        let Some(view) = ty.view() else { return };
        let places = self.scattered.map(|scattered| (scattered.index, site(i)));
        let numbers = ArgumentNumbers { fill: self, held, axes: ty.axes(), place: i, places };
        let mut to = Filler { bytes, at, values: &Evaluation::new(&numbers), accumulators: 1 };
        let scope = Scope { of: Memory::Argument(i), arguments: &[] };
        to.put(view, &name, scope);
        if let FieldType::Batches(..) = ty {
            to.put(&BATCHES, &name, scope);
        }
    }
}

/// Where an argument's values are.
#[derive(Clone, Copy)]
enum Held<'a> {
    Tensor(&'a DeviceTensor),
    /// In no memory.
    Seed {
        seed: u64,
        offset: u64,
    },
}

/// Quantities that an argument gives to a view's formulas.
struct ArgumentNumbers<'a> {
    fill: &'a Fill<'a>,
    held: Held<'a>,
    /// The axes of the view, without its batch's.
    axes: usize,
    /// The argument's index.
    place: usize,
    /// The index that places the rows, and the number under which a wrong one is noted.
    places: Option<(&'a DeviceTensor, usize)>,
}

impl Given for ArgumentNumbers<'_> {
    fn quantity(&self, quantity: Quantity, of: Memory) -> i64 {
        match (self.held, quantity, of) {
            (Held::Seed { seed, .. }, Quantity::Seed, _) => seed.cast_signed(),
            (Held::Seed { offset, .. }, Quantity::Offset, _) => offset.cast_signed(),
            (_, Quantity::Stride(_), Memory::Places) => self.places.map_or(0, |(index, _)| entry_stride(index) as i64),
            (_, Quantity::Site, _) => self.places.map_or(0, |(_, site)| site as i64),
            (Held::Tensor(tensor), Quantity::Limit, _) => tensor.shape().first().map_or(0, |rows| *rows as i64),
            (Held::Tensor(tensor), ..) => self.of_tensor(tensor, quantity),
            (Held::Seed { .. }, ..) => 0,
        }
    }

    fn address(&self, of: Memory) -> Option<(Memory, u64, u64)> {
        match (self.held, of) {
            (_, Memory::Places) => self.places.map(|(index, _)| (of, index.device_address(), 0)),
            (Held::Tensor(tensor), _) => Some((Memory::Argument(self.place), tensor.device_address(), 0)),
            (Held::Seed { .. }, _) => None,
        }
    }
}

impl ArgumentNumbers<'_> {
    fn of_tensor(&self, tensor: &DeviceTensor, quantity: Quantity) -> i64 {
        let batch = BatchAxes::of(tensor, self.axes);
        let strides = tensor.strides();
        // Counted from the last axis.
        let stride = |from_last: usize| strides.iter().rev().nth(from_last).map_or(0, |stride| *stride as i64);
        let extent = |from_last: usize| tensor.shape().iter().rev().nth(from_last).map_or(1, |extent| *extent as i64);
        match (quantity, batch) {
            // Batches of two digits are counted beside the view.
            (Quantity::Stride(Axis::Batch), BatchAxes::One(stride)) => stride as i64,
            (Quantity::Stride(Axis::Row), _) => stride(1),
            (Quantity::Stride(Axis::Column | Axis::Entry), _) => stride(0),
            (Quantity::Lower(Axis::Row), _) => stride(2),
            (Quantity::Upper(Axis::Row), _) => stride(3),
            (Quantity::Extent(Axis::Row), _) => extent(2),
            (Quantity::Lower(Axis::Column | Axis::Entry), _) => stride(0),
            (Quantity::Upper(Axis::Column | Axis::Entry), _) => stride(1),
            (Quantity::Extent(Axis::Column | Axis::Entry), _) => extent(0),
            // One digit is the upper one of two.
            (Quantity::Upper(Axis::Batch), BatchAxes::One(stride)) => stride as i64,
            (Quantity::Extent(Axis::Batch), BatchAxes::One(_)) => 1,
            (Quantity::Lower(Axis::Batch), BatchAxes::Digits { strides: [lower, _], .. }) => lower as i64,
            (Quantity::Upper(Axis::Batch), BatchAxes::Digits { strides: [_, upper], .. }) => upper as i64,
            (Quantity::Extent(Axis::Batch), BatchAxes::Digits { extent, .. }) => extent as i64,
            (Quantity::Vectorised, _) => self.is_vectorised(tensor, batch).into(),
            _ => 0,
        }
    }

    /// Whether rows of a matrix may be accessed in whole vectors: columns are contiguous, and every row begins at a multiple of
    /// the access width. A lane's columns must also not go beyond a lower digit.
    fn is_vectorised(&self, tensor: &DeviceTensor, batch: BatchAxes) -> bool {
        let (size, neighbours) = (tensor.element_type().size(), self.fill.neighbours);
        let width = (neighbours * size).min(16);
        let front = tensor.rank() - self.axes;
        let (extents, strides) = (&tensor.shape()[front..], &tensor.strides()[front..]);
        let aligned =
            |stride: isize, extent: usize| extent <= 1 || (stride.unsigned_abs() * size).is_multiple_of(width);
        let has_digits = self.axes == 4;
        let (last, rows) = (self.axes - 1, strides.iter().zip(extents).take(self.axes - 1));
        let whole = !has_digits || extents[2] <= 1 || extents[3].is_multiple_of(neighbours);
        (strides[last] == 1 || (has_digits && extents[last] <= 1))
            && whole
            && tensor.device_address().is_multiple_of(width as u64)
            && batch.strides().all(|stride| aligned(stride, self.fill.batch))
            && rows.into_iter().all(|(stride, extent)| aligned(*stride, *extent))
    }
}
