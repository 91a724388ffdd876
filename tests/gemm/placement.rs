//! Tensors with unusual layouts: views with padding, offsets, transposed or stretched strides, inside a guarded parent.

use epilogue::evt::random::Choices;
use epilogue::evt::reference;
use epilogue::{Device, DeviceTensor, ElementType};

/// Fills the memory around a view, to detect writes there.
const GUARD: u8 = 0xa5;

/// A view with the memory around it.
pub(crate) struct Placed {
    pub(crate) view: DeviceTensor,
    parent: DeviceTensor,
    element: ElementType,
}

/// The layout of the last axes of a tensor in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Whether the last two axes are exchanged in memory.
    pub(crate) transposed: bool,
    /// Rows, and the view's offset, are multiples of this many elements.
    pub(crate) multiple: usize,
    /// Extra elements at the end of a row.
    pub(crate) padding: usize,
    /// Elements before the view.
    pub(crate) offset: usize,
    /// Whether only every second element belongs to the view.
    pub(crate) stretched: bool,
}

impl Placement {
    /// Any strides.
    pub(crate) fn any(choices: &mut Choices<'_>) -> Self {
        let multiple = choices.pick(&[16, 1, 4, 8, 2]);
        Self {
            transposed: choices.once_in(4),
            multiple,
            padding: choices.pick(&[0, 0, 3, multiple]),
            offset: choices.pick(&[0, 0, multiple, 3 * multiple]),
            stretched: choices.once_in(8),
        }
    }

    /// Rows that begin anywhere.
    pub(crate) fn unaligned(choices: &mut Choices<'_>) -> Self {
        Self { transposed: choices.once_in(4), multiple: 1, padding: 1, offset: 1, stretched: choices.once_in(8) }
    }

    /// Rows along the contiguous axis that can be copied `bytes` at a time.
    pub(crate) fn aligned(choices: &mut Choices<'_>, transposed: bool, bytes: usize, element: ElementType) -> Self {
        let multiple = (bytes / element.size()).max(1);
        let single = bytes == element.size();
        Self {
            transposed,
            multiple,
            padding: choices.pick(&[0, multiple]),
            offset: choices.pick(&[0, multiple]),
            stretched: single && choices.once_in(4),
        }
    }
}

impl Placed {
    /// `values` with shape `shape`, in row-major order.
    pub(crate) fn new(
        device: &Device,
        element: ElementType,
        shape: &[usize],
        values: &[f64],
        placement: Placement,
    ) -> Result<Self, epilogue_runtime::Error> {
        let rank = shape.len();
        let transposed = placement.transposed && rank >= 2;
        let mut physical = shape.to_vec();
        if transposed {
            physical.swap(rank - 1, rank - 2);
        }
        let row = physical.last().copied().unwrap_or(1);
        let stored = (placement.offset + row + placement.padding).next_multiple_of(placement.multiple);
        let last = physical.len().max(1) - 1;
        let mut whole = if rank == 0 { vec![1] } else { physical.clone() };
        whole[last] = stored;
        whole.push(if placement.stretched { 2 } else { 1 });
        let bytes = whole.iter().product::<usize>() * element.size();
        let parent = device.tensor_from_bytes(element, &vec![GUARD; bytes], &whole)?;
        let view = parent.slice(last, placement.offset..placement.offset + row)?.slice(last + 1, 0..1)?;
        let mut view = view.reshape(if rank == 0 { &[] } else { physical.as_slice() })?;
        if transposed {
            view = view.transpose()?;
        }
        view.copy_from_bytes(&reference::encode(element, values))?;
        Ok(Self { view, parent, element })
    }

    /// The view's values, in row-major order.
    pub(crate) fn values(&self) -> Result<Vec<f64>, epilogue_runtime::Error> {
        Ok(reference::decode(self.element, &self.view.to_bytes()?))
    }

    /// Whether the memory around the view is unchanged. Overwrites the view.
    pub(crate) fn is_guarded(&mut self) -> Result<bool, epilogue_runtime::Error> {
        let bytes = vec![GUARD; self.view.len() * self.element.size()];
        self.view.copy_from_bytes(&bytes)?;
        Ok(self.parent.to_bytes()?.iter().all(|byte| *byte == GUARD))
    }
}
