//! The tensors of a run as a product takes them: batches, rows and columns, or batches and two of rows, columns, depth.

use std::ops::Range;
use std::sync::Arc;

use epilogue_runtime::DeviceTensor;

use super::factor::{Index, Slide, View};
use super::role::Role;
use super::tree::Extent;
use crate::gemm::{Left, Packed, Right, Window, patches, rows};
use crate::te::TeError;
use crate::te::auto::{BoundTensors, Sizes};
use crate::te::expr::axis::Axis;

/// The extents of a product's axes in a run, and where they begin.
#[derive(Debug)]
pub(super) struct Ranges {
    axes: Vec<(Role, usize, usize)>,
}

impl Ranges {
    pub(super) fn of(axes: &[(Axis, Role)], sizes: &Sizes) -> Result<Self, TeError> {
        let mut made = Vec::with_capacity(axes.len());
        for (axis, role) in axes {
            let (mut min, mut extent) = (0, 0);
            if let Some(domain) = axis.domain() {
                (min, extent) = (sizes.value(&domain.min)?, sizes.value(&domain.extent)?);
            }
            made.push((*role, usize::try_from(min).unwrap_or(usize::MAX), usize::try_from(extent).unwrap_or(0)));
        }
        Ok(Self { axes: made })
    }

    /// The product of a role's extents: M, N, K or the number of batches.
    pub(super) fn extent(&self, wanted: Role) -> usize {
        let own = self.axes.iter().filter(|(role, ..)| *role == wanted);
        own.fold(1, |all, (_, _, extent)| all.saturating_mul(*extent))
    }

    fn places(&self, wanted: Role) -> impl Iterator<Item = usize> {
        (0..self.axes.len()).filter(move |place| self.axes[*place].0 == wanted)
    }

    fn extent_of(&self, place: usize) -> usize {
        self.axes[place].2
    }
}

/// The left factor of a run: a matrix, images under a window, or a matrix with an index of its rows.
pub(super) enum LeftTensor {
    Rows(DeviceTensor),
    Patches(DeviceTensor, Window<3>),
    Picked(DeviceTensor, DeviceTensor),
}

impl LeftTensor {
    pub(super) fn as_left(&self) -> Left<'_> {
        match self {
            Self::Rows(a) => a.into(),
            Self::Patches(images, window) => patches(images, *window),
            Self::Picked(a, index) => rows(a).picked(index).into(),
        }
    }

    /// How it is multiplied by some right factors, for the listing.
    pub(super) fn words(&self, count: usize) -> String {
        let [one, several] = match self {
            Self::Rows(_) => ["a product", "products"],
            Self::Patches(..) => ["a convolution, as a product", "convolutions, as products"],
            Self::Picked(..) => ["a product of picked rows", "products of picked rows"],
        };
        if count == 1 { one.to_owned() } else { format!("{count} {several}") }
    }
}

/// The right factors of a run: matrices, or what was packed of them.
pub(super) enum RightTensors {
    Plain(Vec<DeviceTensor>),
    Packed(Arc<Option<Vec<Packed>>>),
}

impl RightTensors {
    pub(super) fn as_right(&self) -> Right<'_> {
        match self {
            Self::Plain(all) => Right::from(&all.iter().collect::<Vec<_>>()[..]),
            Self::Packed(all) => Right::from(&all.iter().flatten().collect::<Vec<_>>()[..]),
        }
    }
}

/// A tensor of a run, whose dimensions are a product's axes.
pub(super) struct Seen<'a> {
    pub(super) view: &'a View,
    pub(super) tensor: &'a DeviceTensor,
    pub(super) ranges: &'a Ranges,
    pub(super) bound: &'a BoundTensors<'a>,
}

/// A tensor with a dimension for each axis of some roles.
struct Spread {
    tensor: DeviceTensor,
    /// The place of each dimension's axis.
    places: Vec<Option<usize>>,
    /// The dimensions of one element, which are no axes.
    fixed: Vec<usize>,
}

impl Seen<'_> {
    /// The left factor; `index` is the tensor that picks its rows.
    ///
    /// # Errors
    /// Why it can't be that operand, in words.
    pub(super) fn left(&self, index: Option<&DeviceTensor>) -> Result<LeftTensor, String> {
        match self.view.index().zip(index) {
            Some((view, tensor)) => {
                let index = Seen { view, tensor, ..*self }.index()?;
                Ok(LeftTensor::Picked(self.picked()?, index))
            }
            None if self.view.slides() => self.windows(),
            None => self.operand([Role::Row, Role::Depth]).map(LeftTensor::Rows),
        }
    }

    /// Images `[images, D, H, W, channels]`, and the window.
    fn windows(&self) -> Result<LeftTensor, String> {
        let (mut tensor, name) = (self.tensor.clone(), self.view.tensor.name());
        let words = |error: epilogue_runtime::Error| error.to_string();
        let (mut images, mut channels, mut axes) = (1_usize, 1_usize, Vec::new());
        let (mut size, mut stride, mut dilation, mut around) = ([1; 3], [1; 3], [1; 3], [(0, 0); 3]);
        let count = self.view.indices.iter().filter(|index| matches!(index, Index::Slides(_))).count();
        for (d, index) in self.view.indices.iter().enumerate() {
            let Index::Slides(slide) = index else {
                let range = self.range(index, tensor.shape()[d])?;
                tensor = tensor.slice(d, range).map_err(words)?;
                let is_channel = matches!(index, Index::Axis(place) if self.ranges.axes[*place].0 == Role::Depth);
                let of = if is_channel { &mut channels } else { &mut images };
                *of = of.saturating_mul(tensor.shape()[d]);
                continue;
            };
            let at = axes.len() + 3_usize.saturating_sub(count);
            let [outputs, taps] = [slide.output, slide.tap].map(|place| self.ranges.extent_of(place));
            let reach = Reach::of(slide, [outputs, taps], tensor.shape()[d])
                .ok_or_else(|| format!("{name} has no element under some of the window"))?;
            if reach.after > 0 && !slide.zeros[1] {
                return Err(format!("the window reaches beyond {name}"));
            }
            tensor = tensor.slice(d, reach.read).map_err(words)?;
            (size[at], stride[at], dilation[at]) = (taps, slide.stride, slide.dilation);
            around[at] = (reach.before, reach.after);
            axes.push(tensor.shape()[d]);
        }
        let mut shape = vec![images, 1, 1, 1, channels];
        shape[4 - axes.len()..4].copy_from_slice(&axes);
        let tensor = tensor.reshape(shape).map_err(words)?;
        Ok(LeftTensor::Patches(tensor, Window::of(size).stride(stride).dilation(dilation).padding_around(around)))
    }

    /// The matrix whose rows are picked.
    fn picked(&self) -> Result<DeviceTensor, String> {
        let mut tensor = self.tensor.clone();
        let (mut rows, mut columns) = (1_usize, 1_usize);
        for (d, index) in self.view.indices.iter().enumerate() {
            let extent = tensor.shape()[d];
            if matches!(index, Index::Picked(_)) {
                rows = extent;
            } else {
                tensor = tensor.slice(d, self.range(index, extent)?).map_err(|error| error.to_string())?;
                columns = columns.saturating_mul(tensor.shape()[d]);
            }
        }
        tensor.reshape([rows, columns]).map_err(|error| error.to_string())
    }

    /// The index of every row.
    fn index(&self) -> Result<DeviceTensor, String> {
        let Spread { tensor, places, fixed } = self.of_roles(&[Role::Row])?;
        let [rows] = roles_of(&places, self.ranges, [Role::Row]);
        let count = tensor.len();
        let order: Vec<usize> = fixed.into_iter().chain(rows).collect();
        let made = tensor.permute(&order).and_then(|tensor| tensor.reshape([count]));
        made.map_err(|error| error.to_string())
    }

    /// The left or right factor: two roles behind that of the batch.
    ///
    /// # Errors
    /// Why it can't be that operand, in words.
    pub(super) fn operand(&self, roles: [Role; 2]) -> Result<DeviceTensor, String> {
        let Spread { tensor, places, fixed } = self.of_roles(&[Role::Batch, roles[0], roles[1]])?;
        let [batch, mut first, second] = roles_of(&places, self.ranges, [Role::Batch, roles[0], roles[1]]);
        first = fixed.into_iter().chain(first).collect();
        let made = if batch.is_empty() {
            tensor.as_matrix(&first, &second)
        } else {
            tensor.as_batched_matrix(&batch, &first, &second)
        };
        let made = made.map_err(|error| error.to_string())?;
        match made.axes() {
            Some(axes) if axes.has_digits() => Err(format!(
                "{} has axes that don't lie one after another as one; give it contiguous, or in another order",
                self.view.tensor.name()
            )),
            _ => Ok(made),
        }
    }

    /// A tensor that an epilogue reads or writes.
    ///
    /// # Errors
    /// Why it can't be that argument, in words.
    pub(super) fn argument(&self, extent: Extent) -> Result<DeviceTensor, String> {
        let roles = [(extent.batch, Role::Batch), (extent.rows, Role::Row), (extent.columns, Role::Column)];
        let wanted: Vec<Role> = roles.iter().filter(|(has, _)| *has).map(|(_, role)| *role).collect();
        let Spread { tensor, places, fixed } = self.of_roles(&wanted)?;
        let [mut batch, mut rows, mut columns] = roles_of(&places, self.ranges, [Role::Batch, Role::Row, Role::Column]);
        for list in [(&mut rows, extent.rows), (&mut columns, extent.columns), (&mut batch, extent.batch)] {
            if list.1 {
                *list.0 = fixed.iter().chain(&*list.0).copied().collect();
                break;
            }
        }
        let made = match (extent.batch, extent.rows, extent.columns) {
            (false, true, true) => tensor.as_matrix(&rows, &columns),
            (true, true, true) => tensor.as_batched_matrix(&batch, &rows, &columns),
            (false, true, false) => tensor.as_column_vector(&rows),
            (true, true, false) => tensor.as_batched_column_vector(&batch, &rows),
            (false, false, true) => tensor.as_row_vector(&columns),
            (true, false, true) => tensor.as_batched_row_vector(&batch, &columns),
            (true, false, false) => tensor.as_batched_scalar(&batch),
            (false, false, false) => {
                let one: [usize; 0] = [];
                tensor.reshape(one)
            }
        };
        made.map_err(|error| error.to_string())
    }

    /// The elements of a dimension that an index reads.
    fn range(&self, index: &Index, extent: usize) -> Result<Range<usize>, String> {
        match index {
            Index::Axis(place) => {
                let (_, min, extent) = self.ranges.axes[*place];
                Ok(min..min.saturating_add(extent))
            }
            Index::FromZero(place) => Ok(0..self.ranges.extent_of(*place)),
            Index::At(x) => {
                let at = self.bound.sizes.value(x).ok().and_then(|at| usize::try_from(at).ok());
                let at = at.ok_or_else(|| format!("{} is read at an index below 0", self.view.tensor.name()))?;
                Ok(at..at.saturating_add(1))
            }
            Index::Slides(_) | Index::Picked(_) => Ok(0..extent),
        }
    }

    /// The tensor at its fixed indices, with all axes of these roles: those that it lacks are repeated.
    fn of_roles(&self, roles: &[Role]) -> Result<Spread, String> {
        let words = |error: epilogue_runtime::Error| error.to_string();
        let mut tensor = self.tensor.clone();
        let mut places = Vec::with_capacity(tensor.rank());
        let mut fixed = Vec::new();
        for (d, index) in self.view.indices.iter().enumerate() {
            match index {
                Index::Axis(place) | Index::FromZero(place) => places.push(Some(*place)),
                Index::At(_) | Index::Slides(_) | Index::Picked(_) => {
                    places.push(None);
                    fixed.push(d);
                }
            }
            let range = self.range(index, tensor.shape()[d])?;
            if range != (0..tensor.shape()[d]) {
                tensor = tensor.slice(d, range).map_err(words)?;
            }
        }
        let mut shape: Vec<usize> = tensor.shape().to_vec();
        for role in roles {
            for place in self.ranges.places(*role) {
                if !places.contains(&Some(place)) {
                    tensor = tensor.unsqueeze(tensor.rank()).map_err(words)?;
                    places.push(Some(place));
                    shape.push(self.ranges.axes[place].2);
                }
            }
        }
        if tensor.shape() != shape {
            tensor = tensor.broadcast_to(&shape).map_err(words)?;
        }
        Ok(Spread { tensor, places, fixed })
    }
}

/// The part of a dimension that a window reads, and the zeros around it.
struct Reach {
    read: Range<usize>,
    before: usize,
    after: usize,
}

impl Reach {
    /// `None` if the window is nowhere inside, or never whole.
    fn of(slide: &Slide<usize>, [outputs, taps]: [usize; 2], extent: usize) -> Option<Self> {
        let signed = |x: usize| i64::try_from(x).ok();
        let (stride, dilation, extent) = (signed(slide.stride)?, signed(slide.dilation)?, signed(extent)?);
        let steps = |count: usize, by: i64| signed(count.checked_sub(1)?)?.checked_mul(by);
        let last = steps(outputs, stride)?.checked_add(steps(taps, dilation)?)?.checked_add(slide.start)?;
        let (first, end) = (slide.start.max(0), last.checked_add(1)?.min(extent));
        let natural = |x: i64| usize::try_from(x).ok();
        let read = natural(first)?..natural(end)?;
        let (before, after) = (natural(slide.start.min(0).checked_neg()?)?, natural(last.checked_add(1)? - end)?);
        (!read.is_empty()).then_some(Self { read, before, after })
    }
}

/// For each role, the dimensions of its axes, in the product's order.
fn roles_of<const N: usize>(places: &[Option<usize>], ranges: &Ranges, roles: [Role; N]) -> [Vec<usize>; N] {
    roles.map(|role| {
        let dimension = |place| places.iter().position(|own| *own == Some(place));
        ranges.places(role).filter_map(dimension).collect()
    })
}
