//! The tensors of a run as a product takes them: batches, rows and columns, or batches and two of rows, columns, depth.

use epilogue_runtime::DeviceTensor;

use super::product::{Index, Role, View};
use super::tree::Extent;
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

    pub(super) fn is_batched(&self) -> bool {
        self.places(Role::Batch).next().is_some()
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
    /// The left or right factor: two roles behind that of the batch.
    ///
    /// # Errors
    /// Why it is no such operand, in words.
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

    /// What an epilogue reads or writes.
    ///
    /// # Errors
    /// Why it is no such argument, in words.
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

    /// The tensor at its fixed indices, with all axes of these roles: those that it lacks are repeated.
    fn of_roles(&self, roles: &[Role]) -> Result<Spread, String> {
        let words = |error: epilogue_runtime::Error| error.to_string();
        let mut tensor = self.tensor.clone();
        let mut places = Vec::with_capacity(tensor.rank());
        let mut fixed = Vec::new();
        for (d, index) in self.view.indices.iter().enumerate() {
            let range = match index {
                Index::Axis(place) => {
                    let (_, min, extent) = self.ranges.axes[*place];
                    places.push(Some(*place));
                    min..min.saturating_add(extent)
                }
                Index::FromZero(place) => {
                    places.push(Some(*place));
                    0..self.ranges.axes[*place].2
                }
                Index::At(x) => {
                    let at = self.bound.sizes.value(x).ok().and_then(|at| usize::try_from(at).ok());
                    let at = at.ok_or_else(|| format!("{} is read at an index below 0", self.view.tensor.name()))?;
                    places.push(None);
                    fixed.push(d);
                    at..at.saturating_add(1)
                }
            };
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

/// For each role, the dimensions of its axes, in the product's order.
fn roles_of<const N: usize>(places: &[Option<usize>], ranges: &Ranges, roles: [Role; N]) -> [Vec<usize>; N] {
    roles.map(|role| {
        let dimension = |place| places.iter().position(|own| *own == Some(place));
        ranges.places(role).filter_map(dimension).collect()
    })
}
