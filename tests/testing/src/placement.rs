//! Tensors with unusual layouts: views with padding, offsets, transposed or stretched strides, inside a guarded parent.

use epilogue::evt::random::Choices;
use epilogue::evt::reference;
use epilogue::{Device, DeviceTensor, ElementType};

/// Fills the memory around a view, to detect writes there.
const GUARD: u8 = 0xa5;

/// A view with the memory around it.
pub struct Placed {
    /// The view.
    pub view: DeviceTensor,
    parent: DeviceTensor,
    element: ElementType,
}

/// The layout of the last axes of a tensor in memory.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Whether the last two axes are exchanged in memory.
    pub transposed: bool,
    /// Rows, and the view's offset, are multiples of this many elements.
    pub multiple: usize,
    /// Extra elements at the end of a row.
    pub padding: usize,
    /// Elements before the view.
    pub offset: usize,
    /// Whether only every second element belongs to the view.
    pub stretched: bool,
    /// How the axes of a matrix or vector are cut, if they are.
    pub digits: Option<Digits>,
    /// Whether it is a vector, perhaps of each batch.
    pub is_vector: bool,
    /// How the batch is cut into two axes that don't merge, if it is.
    pub batches: Option<Batches>,
}

/// A batch of two axes.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// The extent of the faster axis, which divides the batch's.
    pub lower: usize,
    /// How the axes lie.
    pub order: usize,
    /// How many axes are behind the batch.
    pub own: usize,
}

impl Batches {
    /// Ways in which every batch has memory of its own: with a gap behind each value of the slower axis; exchanged.
    pub const APART: usize = 2;
    /// Beside these: one of the two axes is shared.
    pub const COUNT: usize = 4;

    /// `None` if there are too few batches, or a prime number of them.
    pub fn of(batch: usize, own: usize, order: usize) -> Option<Self> {
        let lower = (2..batch).rev().find(|divisor| batch.is_multiple_of(*divisor))?;
        Some(Self { lower, order, own })
    }

    fn upper(self, batch: usize) -> usize {
        batch / self.lower
    }

    /// The extents of the two axes in memory.
    fn in_memory(self, batch: usize) -> [usize; 2] {
        match self.order {
            0 => [self.upper(batch), self.lower + 1],
            1 => [self.lower, self.upper(batch)],
            2 => [1, self.lower],
            _ => [self.upper(batch), 1],
        }
    }

    /// The part of the batches that has memory, in its order.
    fn distinct(self, batch: usize) -> Vec<usize> {
        (0..batch).filter(|b| self.owner(*b) == *b).collect()
    }

    /// The batch whose memory a batch has.
    fn owner(self, batch: usize) -> usize {
        match self.order {
            0 | 1 => batch,
            2 => batch % self.lower,
            _ => batch - batch % self.lower,
        }
    }
}

/// A matrix with two axes as its rows and two as its columns, which lie in another order in memory.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    /// The extents of the faster axis of the rows, and of the columns, which divide theirs.
    pub lower: [usize; 2],
    /// Which order.
    pub order: usize,
}

impl Digits {
    /// Orders of the rows' slow and fast axis (0, 1) and of the columns' (2, 3): heads apart, columns in blocks of their
    /// own, and both with contiguous rows.
    const ORDERS: [[usize; 4]; 4] = [[0, 2, 1, 3], [2, 0, 1, 3], [2, 0, 3, 1], [0, 2, 3, 1]];
    /// The number of orders.
    pub const COUNT: usize = Self::ORDERS.len();

    /// Halves, thirds, … of both axes, or `None` if an extent has no divisor.
    pub fn of(rows: usize, columns: usize, order: usize) -> Option<Self> {
        let largest = |extent: usize| (2..extent).rev().find(|divisor| extent.is_multiple_of(*divisor));
        Some(Self { lower: [largest(rows)?, largest(columns)?], order })
    }

    /// The extents of the four axes.
    fn extents(self, rows: usize, columns: usize) -> [usize; 4] {
        let [r, c] = self.lower;
        [rows / r.max(1), r, columns / c.max(1), c]
    }
}

impl Placement {
    /// In order, without anything between.
    pub const PLAIN: Self = Self {
        transposed: false,
        multiple: 1,
        padding: 0,
        offset: 0,
        stretched: false,
        digits: None,
        is_vector: false,
        batches: None,
    };

    /// Any strides.
    pub fn any(choices: &mut Choices<'_>) -> Self {
        let multiple = choices.pick(&[16, 1, 4, 8, 2]);
        Self {
            transposed: choices.once_in(4),
            multiple,
            padding: choices.pick(&[0, 0, 3, multiple]),
            offset: choices.pick(&[0, 0, multiple, 3 * multiple]),
            stretched: choices.once_in(8),
            ..Self::PLAIN
        }
    }

    /// The values that a tensor of this shape has where axes of its batch are shared.
    pub fn shared(&self, shape: &[usize], values: Vec<f64>) -> Vec<f64> {
        let Some(batches) = self.batches else { return values };
        let each = shape[1..].iter().product::<usize>();
        (0..shape[0]).flat_map(|b| values[batches.owner(b) * each..][..each].to_vec()).collect()
    }

    /// Rows that begin anywhere.
    pub fn unaligned(choices: &mut Choices<'_>) -> Self {
        let (transposed, stretched) = (choices.once_in(4), choices.once_in(8));
        Self { transposed, padding: 1, offset: 1, stretched, ..Self::PLAIN }
    }

    /// Rows along the contiguous axis that can be copied `bytes` at a time.
    pub fn aligned(choices: &mut Choices<'_>, transposed: bool, bytes: usize, element: ElementType) -> Self {
        let multiple = (bytes / element.size()).max(1);
        let single = bytes == element.size();
        Self {
            transposed,
            multiple,
            padding: choices.pick(&[0, multiple]),
            offset: choices.pick(&[0, multiple]),
            stretched: single && choices.once_in(4),
            ..Self::PLAIN
        }
    }
}

impl Placed {
    /// `values` with shape `shape`, in row-major order.
    pub fn new(
        device: &Device,
        element: ElementType,
        shape: &[usize],
        values: &[f64],
        placement: Placement,
    ) -> Result<Self, epilogue_runtime::Error> {
        let rank = shape.len();
        // (The batch is not one of the axes that are exchanged where it is cut.)
        let transposed = placement.transposed && placement.batches.map_or(rank, |batches| batches.own) >= 2;
        let mut physical = shape.to_vec();
        if transposed {
            physical.swap(rank - 1, rank - 2);
        }
        if let Some(digits) = placement.digits
            && placement.is_vector
        {
            return Self::vector(device, element, shape, values, (digits, placement.padding));
        }
        let digits = placement.digits.filter(|_| rank >= 2);
        let order = digits.map_or([0; 4], |digits| Digits::ORDERS[digits.order % Digits::COUNT]);
        if let Some(digits) = digits {
            physical = shape[..rank - 2].to_vec();
            physical.extend(order.map(|axis| digits.extents(shape[rank - 2], shape[rank - 1])[axis]));
        }
        if let Some(batches) = placement.batches {
            physical.splice(..1, batches.in_memory(shape[0]));
        }
        let row = physical.last().copied().unwrap_or(1);
        let stored = (placement.offset + row + placement.padding).next_multiple_of(placement.multiple);
        let last = physical.len().max(1) - 1;
        let mut whole = if physical.is_empty() { vec![1] } else { physical.clone() };
        whole[last] = stored;
        whole.push(if placement.stretched { 2 } else { 1 });
        let bytes = whole.iter().product::<usize>() * element.size();
        let parent = device.tensor_from_bytes(element, &vec![GUARD; bytes], &whole)?;
        let view = parent.slice(last, placement.offset..placement.offset + row)?.slice(last + 1, 0..1)?;
        let mut view = view.reshape(&physical)?;
        if let Some(batches) = placement.batches {
            return Self::in_batches((view, parent, element), (shape, values), placement, batches);
        }
        if digits.is_some() {
            let front = rank - 2;
            let place = |axis: usize| front + order.iter().position(|of| *of == axis).unwrap_or(0);
            let (rows, columns) = ([place(0), place(1)], [place(2), place(3)]);
            view = match front {
                0 => view.as_matrix(&rows, &columns)?,
                _ => view.as_batched_matrix(&[0], &rows, &columns)?,
            };
        } else if transposed {
            view = view.transpose()?;
        }
        view.copy_from_bytes(&reference::encode(element, values))?;
        Ok(Self { view, parent, element })
    }

    /// A view in which the first two axes are the batch, as they are in memory.
    fn in_batches(
        (view, parent, element): (DeviceTensor, DeviceTensor, ElementType),
        (shape, values): (&[usize], &[f64]),
        placement: Placement,
        batches: Batches,
    ) -> Result<Self, epilogue_runtime::Error> {
        let (upper, lower) = (batches.upper(shape[0]), batches.lower);
        let view = match batches.order {
            0 => view.slice(1, 0..lower)?,
            1 => view.permute(&[&[1, 0][..], &(2..view.rank()).collect::<Vec<_>>()].concat())?,
            _ => view,
        };
        let named = |view: &DeviceTensor| match (batches.own, placement.digits) {
            (0, _) => view.as_batched_scalar(&[0, 1]),
            (1, _) => view.as_batched_row_vector(&[0, 1], &[2]),
            (_, Some(digits)) => {
                let order = Digits::ORDERS[digits.order % Digits::COUNT];
                let place = |axis: usize| 2 + order.iter().position(|of| *of == axis).unwrap_or(0);
                view.as_batched_matrix(&[0, 1], &[place(0), place(1)], &[place(2), place(3)])
            }
            (_, None) if placement.transposed => view.as_batched_matrix(&[0, 1], &[3], &[2]),
            (_, None) => view.as_batched_matrix(&[0, 1], &[2], &[3]),
        };
        let each = values.len() / shape[0];
        let distinct = batches.distinct(shape[0]);
        let distinct: Vec<f64> = distinct.into_iter().flat_map(|b| values[b * each..][..each].to_vec()).collect();
        named(&view)?.copy_from_bytes(&reference::encode(element, &distinct))?;
        let all = [&[upper, lower], &view.shape()[2..]].concat();
        Ok(Self { view: named(&view.broadcast_to(all)?)?, parent, element })
    }

    /// A vector of two axes, perhaps of each batch, whose faster axis is the first of the digits' extents.
    fn vector(
        device: &Device,
        element: ElementType,
        shape: &[usize],
        values: &[f64],
        (digits, padding): (Digits, usize),
    ) -> Result<Self, epilogue_runtime::Error> {
        let (batched, lower) = (shape.len() > 1, digits.lower[0].max(1));
        let extents = [if batched { shape[0] } else { 1 }, shape[shape.len() - 1] / lower, lower];
        // Where the batch, the slow and the fast axis are in memory: padded at the end, and with neighbours far apart.
        let order = if digits.order.is_multiple_of(2) { [0, 1, 2] } else { [2, 0, 1] };
        let mut physical = order.map(|axis| extents[axis]);
        let used = physical[2];
        physical[2] += padding.max(1);
        let bytes = physical.iter().product::<usize>() * element.size();
        let parent = device.tensor_from_bytes(element, &vec![GUARD; bytes], physical)?;
        let place = [0, 1, 2].map(|axis| order.iter().position(|of| *of == axis).unwrap_or(0));
        let all = parent.slice(2, 0..used)?;
        let mut view = match (batched, digits.order / 2 % 2) {
            (true, 0) => all.as_batched_row_vector(&place[..1], &place[1..])?,
            (true, _) => all.as_batched_column_vector(&place[..1], &place[1..])?,
            (false, 0) => all.as_row_vector(&place)?,
            (false, _) => all.as_column_vector(&place)?,
        };
        view.copy_from_bytes(&reference::encode(element, values))?;
        Ok(Self { view, parent, element })
    }

    /// The view's values, in row-major order.
    pub fn values(&self) -> Result<Vec<f64>, epilogue_runtime::Error> {
        Ok(reference::decode(self.element, &self.view.to_bytes()?))
    }

    /// Whether the memory around the view is unchanged. Overwrites the view.
    pub fn is_guarded(&mut self) -> Result<bool, epilogue_runtime::Error> {
        let bytes = vec![GUARD; self.view.len() * self.element.size()];
        self.view.copy_from_bytes(&bytes)?;
        Ok(self.parent.to_bytes()?.iter().all(|byte| *byte == GUARD))
    }
}
