//! The bytes of an epilogue's arguments, as its kernel takes them.

use epilogue_runtime::DeviceTensor;
use smallvec::{SmallVec, smallvec};

use super::workspace::{Places, WorkspaceAddresses};
use crate::evt::ValidTree;
use crate::gemm::emit::arguments::EpilogueArguments;
use crate::gemm::emit::text::Emitted;
use crate::gemm::kernel::device_struct::{DeviceValue, Filler, GROUPS, ROW_INDEX};
use crate::gemm::kernel::digits::axis_words;
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::parameter_bytes::ParameterBytes;
use crate::gemm::kernel::parameters::{BATCHES, BatchView, FieldType};
use crate::gemm::problem::bounds::{Bounds, BoundsForm};
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
                    self.put(Filler { bytes, at: at + field.offset }, field.ty, (i, argument), (suffix, &site));
                }
            }
        }
    }

    /// One argument, by its index; `suffix` distinguishes its written from its read view.
    fn put(
        &self,
        mut to: Filler<'_>,
        ty: FieldType,
        (i, argument): (usize, &Argument<'_>),
        (suffix, site): (&str, &impl Fn(usize) -> usize),
    ) {
        let name = || format!("arguments.{}{suffix}", self.tree.argument_names().nth(i).unwrap_or_default());
        let tensor = match (argument, ty.view()) {
            (Argument::Scalar(value), _) => {
                return match ty {
                    FieldType::Host(ElementType::F64) => to.bytes.put_scalar(to.at, &value.to_le_bytes(), i, name),
                    #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest: the arithmetic type")]
                    _ => to.bytes.put_scalar(to.at, &(*value as f32).to_le_bytes(), i, name),
                };
            }
            // It is in no memory.
            (&Argument::Seed(seed, start), Some(view)) => return to.put(view, &name, [0, 0, seed, start]),
            (&Argument::Seed(..), None) => return,
            (Argument::Input(tensor), _) => *tensor,
            (Argument::Output(tensor), _) => &**tensor,
        };
        let Some(view) = ty.view() else { return };
        let address = DeviceValue::address(Memory::Argument(i), tensor.device_address());
        let words = self.words(ty, tensor).into_iter().map(DeviceValue::from);
        to.put(view, &name, std::iter::once(address).chain(words));
        match (ty, self.scattered) {
            (FieldType::Batches(view, _), _) => to.put(&BATCHES, &name, batch_words(tensor, view)),
            (FieldType::Scattered(_), Some(scattered)) => {
                let index = index_values(Memory::Places, scattered.index, [tensor.shape()[0], site(i)]);
                to.put(&ROW_INDEX, &|| name() + ".places", index);
            }
            _ => {}
        }
    }

    /// The numbers of a view, behind its pointer.
    fn words(&self, ty: FieldType, tensor: &DeviceTensor) -> SmallVec<[u64; 12]> {
        match ty {
            FieldType::Tensor(_) | FieldType::Scattered(_) => {
                let [batch, row, column] = strides(tensor, 2);
                smallvec![batch, row, column, u64::from(self.is_vectorised(tensor))]
            }
            FieldType::Digits(_) => self.digit_words(tensor).into(),
            FieldType::DigitsVector(_) => {
                let (batch, extents, strides) = digit_axes(tensor, 2);
                let axis = axis_words(extents[1], [strides[1], strides[0]]);
                std::iter::once(one_stride(batch)).chain(axis).collect()
            }
            FieldType::Vector(_) => {
                let [batch, _, stride] = strides(tensor, 1);
                smallvec![batch, stride]
            }
            FieldType::Scalar(_) => smallvec![strides(tensor, 0)[0]],
            FieldType::Seed => smallvec![strides(tensor, 1)[2]],
            FieldType::Batches(view, element) => self.words(view.of_one(element), tensor),
            FieldType::Host(_)
            | FieldType::Partials(_)
            | FieldType::IndexedPartials(..)
            | FieldType::StatePartials(_)
            | FieldType::Counters => smallvec![],
        }
    }

    /// `DigitsView` of digits.cuh, without its pointer.
    fn digit_words(&self, tensor: &DeviceTensor) -> [u64; 12] {
        let size = tensor.element_type().size();
        let width = (self.neighbours * size).min(16);
        let (batch, extents, strides) = digit_axes(tensor, 4);
        let aligned =
            |stride: isize, extent: usize| extent <= 1 || (stride.unsigned_abs() * size).is_multiple_of(width);
        // A lane's columns must also not go beyond the lower digit.
        let whole = extents[2] <= 1 || extents[3].is_multiple_of(self.neighbours);
        let vectorised = (strides[3] == 1 || extents[3] <= 1)
            && whole
            && tensor.device_address().is_multiple_of(width as u64)
            && batch.strides().all(|stride| aligned(stride, self.batch))
            && strides[..3].iter().zip(extents).all(|(stride, extent)| aligned(*stride, *extent));
        let mut words = [0; 12];
        words[0] = one_stride(batch);
        words[1..6].copy_from_slice(&axis_words(extents[1], [strides[1], strides[0]]));
        words[6..11].copy_from_slice(&axis_words(extents[3], [strides[3], strides[2]]));
        words[11] = u64::from(vectorised);
        words
    }

    /// Whether rows of a tensor may be accessed in whole vectors: columns are contiguous, and every row begins at a
    /// multiple of the access width.
    fn is_vectorised(&self, tensor: &DeviceTensor) -> bool {
        let size = tensor.element_type().size();
        let width = (self.neighbours * size).min(16);
        let [_, row, column] = strides(tensor, 2);
        let extents = &tensor.shape()[tensor.rank() - 2..];
        let aligned = |stride: u64, extent: usize| extent <= 1 || (stride as usize * size).is_multiple_of(width);
        column == 1
            && tensor.device_address().is_multiple_of(width as u64)
            && aligned(row, extents[0])
            && BatchAxes::of(tensor, 2).strides().all(|stride| aligned(stride as u64, self.batch))
    }
}

/// `OfBatches::batches` of batches.cuh.
fn batch_words(tensor: &DeviceTensor, view: BatchView) -> [u64; 5] {
    let own = match view {
        BatchView::Tensor | BatchView::DigitsVector => 2,
        BatchView::Digits => 4,
        BatchView::Vector => 1,
        BatchView::Scalar => 0,
    };
    match BatchAxes::of(tensor, own) {
        BatchAxes::One(stride) => axis_words(1, [0, stride]),
        BatchAxes::Digits { extent, strides } => axis_words(extent, strides),
    }
}

/// The batch stride of a view; none if its batches are counted beside it.
const fn one_stride(batch: BatchAxes) -> u64 {
    match batch {
        BatchAxes::One(stride) => stride as u64,
        BatchAxes::Digits { .. } => 0,
    }
}

/// The batches, and the extents and strides of the `own` axes behind them.
fn digit_axes(tensor: &DeviceTensor, own: usize) -> (BatchAxes, &[usize], &[isize]) {
    let front = tensor.rank() - own;
    (BatchAxes::of(tensor, own), &tensor.shape()[front..], &tensor.strides()[front..])
}

/// Strides of the batch, rows and columns of an argument that has `rank` axes without the batch's.
fn strides(tensor: &DeviceTensor, rank: usize) -> [u64; 3] {
    let given = tensor.strides();
    let front = given.len().saturating_sub(rank);
    let mut strides = [one_stride(BatchAxes::of(tensor, rank)), 0, 0];
    for (to, from) in strides[3 - rank..].iter_mut().zip(&given[front..]) {
        *to = *from as u64;
    }
    strides
}

/// The bounds of `groups` groups.
pub(crate) fn put_groups(to: &mut Filler<'_>, Bounds { tensor, form, .. }: Bounds<'_>, groups: usize) {
    let form = match form {
        BoundsForm::Offsets => 0,
        BoundsForm::Ends => 1,
        BoundsForm::Counts => 2,
    };
    let address = DeviceValue::address(Memory::Bounds, tensor.device_address());
    to.put(&GROUPS, &|| "groups".to_owned(), [address, stride(tensor), groups.into(), form.into()]);
}

/// `RowIndex`: an index, and how many rows there are beside the number under which wrong ones are noted.
pub(crate) fn index_values(memory: Memory, index: &DeviceTensor, [limit, site]: [usize; 2]) -> [DeviceValue; 4] {
    [DeviceValue::address(memory, index.device_address()), stride(index), limit.into(), site.into()]
}

/// The stride of a list.
fn stride(list: &DeviceTensor) -> DeviceValue {
    list.strides().first().copied().unwrap_or(0).into()
}
