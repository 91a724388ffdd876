//! The extents of a product.

use epilogue_runtime::DeviceTensor;

use super::block_scales;
use super::channels::StepsOfB;
use super::digits::{has_digits, shape_of};
use super::error::Error;
use super::groups::{Divided, Grouping};
use super::layout::Major;
use super::operand::{Left, Right};
use super::patch_boxes::{PatchBoxes, Unboxed};
use super::patch_error::PatchError;
use super::patches::Patches;
use super::scale_error::ScaleError;
use super::scattered;

/// The extents of a product: A is M×K, B is K×N; the batch has L of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of A and of the accumulator.
    pub m: usize,
    /// Columns of B and of the accumulator.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// The number of products, L; 1 without a batch axis.
    pub batch: usize,
    /// Whether A or B has a batch axis, so that arguments may have one.
    pub batched: bool,
    /// How the rows are divided among the batch.
    pub grouping: Grouping,
    /// How many elements the images have of which A is [patches](super::window::patches), if it is; with
    /// [groups](super::window::Window::groups) of channels, which are the batch, those of one.
    pub patches: Option<usize>,
    /// How tensor copies load these patches, or why they don't.
    pub boxes: Result<PatchBoxes, Unboxed>,
    /// Whether zeros lie between the elements of these images, as in the [gradient](super::gradients::gradient_patches) of
    /// images over which a window moved by more than 1.
    pub input_dilated: bool,
    /// Whether an index picks the M rows from an A of any number of rows.
    pub picked: bool,
    /// Whether A and B have [scales of blocks](super::scaled::Scaled).
    pub scaled: bool,
    /// Whether an index places the M rows in the outputs.
    pub scattered: bool,
}

/// The largest M, N or K: the kernels count in 32-bit integers and round up to whole tiles.
pub const MAX_EXTENT: usize = crate::evt::MOST;

impl Problem {
    /// A product without a batch axis.
    #[must_use]
    pub const fn new(m: usize, n: usize, k: usize) -> Self {
        let (grouping, patches, boxes) = (Grouping::None, None, Err(Unboxed::MATRIX));
        let (input_dilated, picked, scaled, scattered) = (false, false, false, false);
        Self { m, n, k, batch: 1, batched: false, grouping, patches, boxes, input_dilated, picked, scaled, scattered }
    }

    /// The same product `batch` times.
    #[must_use]
    pub const fn batched(self, batch: usize) -> Self {
        Self { batch, batched: true, ..self }
    }

    /// The same with its M rows divided among `groups` products; [`rows`](super::grouped::rows) says how.
    #[must_use]
    pub const fn in_groups(self, groups: usize) -> Self {
        Self { batch: groups, batched: true, grouping: Grouping::Shared, ..self }
    }

    /// That many products of at most M rows each; [`rows`](super::grouped::rows) says how.
    #[must_use]
    pub const fn in_padded_groups(self, groups: usize) -> Self {
        Self { batch: groups, batched: true, grouping: Grouping::Padded, ..self }
    }

    /// The same with its K divided among `groups` products; [`depth`](super::grouped::depth) says how.
    #[must_use]
    pub const fn in_depth_groups(self, groups: usize) -> Self {
        Self { batch: groups, batched: true, grouping: Grouping::Depth, ..self }
    }

    /// The same with an A that is patches of images of so many elements; [`patches`](super::window::patches) says how.
    #[must_use]
    pub const fn of_patches(self, elements: usize) -> Self {
        let boxes = match self.boxes {
            Ok(boxes) => Ok(boxes),
            Err(_) => Err(Unboxed::UNKNOWN),
        };
        Self { patches: Some(elements), boxes, ..self }
    }

    /// The same with patches that tensor copies load so.
    #[must_use]
    pub const fn in_boxes(self, boxes: PatchBoxes) -> Self {
        Self { boxes: Ok(boxes), ..self }
    }

    /// How tensor copies load A's patches, if it is patches and they do.
    pub(crate) const fn boxed(&self) -> Option<PatchBoxes> {
        match (self.patches, self.boxes) {
            (Some(_), Ok(boxes)) => Some(boxes),
            _ => None,
        }
    }

    /// The product as a kernel counts it whose k-tiles are so deep, and which loads patches by boxes, whose rows are
    /// contiguous along `a`: with the channels of each element of the window in whole k-tiles, if K is those.
    pub(crate) const fn in_k_tiles(&self, tile_k: usize, a: Major) -> Self {
        match (self.boxed(), a) {
            (Some(boxes), Major::K) => Self { k: boxes.depth(tile_k), ..*self },
            _ => *self,
        }
    }

    /// The same with zeros between the elements of these images.
    #[must_use]
    pub const fn with_input_dilation(self) -> Self {
        Self { input_dilated: true, ..self }
    }

    /// The same with M rows that an index picks; [`Rows::picked`](super::grouped::Rows::picked) says how.
    #[must_use]
    pub const fn of_picked_rows(self) -> Self {
        Self { picked: true, ..self }
    }

    /// The same of operands with scales of blocks; [`scaled`](super::scaled::scaled) says how.
    #[must_use]
    pub const fn of_scaled_operands(self) -> Self {
        Self { scaled: true, ..self }
    }

    /// The same with M rows that an index places; [`Rows::scattered`](super::grouped::Rows::scattered) says how.
    #[must_use]
    pub const fn of_scattered_rows(self) -> Self {
        Self { scattered: true, ..self }
    }

    /// The product of tensors: A is `[M, K]` or `[L, M, K]`; B is `[K, N]` or `[L, K, N]`, and so is every further B.
    /// All batches share an operand without a batch axis. If A's rows are [divided](super::grouped::rows), a batch is a
    /// group. If they are [picked](super::grouped::Rows::picked), M is the length of the index.
    ///
    /// # Errors
    /// [`Error::OperandRank`], [`Error::InnerExtents`], [`Error::BatchExtents`], [`Error::ExtentTooLarge`]; the errors
    /// of several B that differ, of groups, of patches, and of scales.
    pub fn of<'a, 'b>(a: impl Into<Left<'a>>, b: impl Into<Right<'b>>) -> Result<Self, Error> {
        let (left, right) = (a.into(), b.into());
        block_scales::both(left, &right)?;
        match left.patches()? {
            Some(patches) => return Self::under_window(left, &right, &patches),
            None if !right.filters().is_empty() => return Err(PatchError::NoWindow.into()),
            None => {}
        }
        let (a, first) = (left.tensor(), right.first()?);
        let (of_a, [m, k]) = split_shape("A", a)?;
        let (_, [b_k, n]) = split_shape("B", first)?;
        if k != b_k {
            return Err(Error::InnerExtents { a: a.shape().to_vec(), b: first.shape().to_vec() });
        }
        right.check_alike()?;
        let (mut batch, mut grouping) = (of_a, Grouping::None);
        if let Some(bounds) = left.bounds() {
            let groups = bounds.groups()?;
            grouping = bounds.grouping();
            let needed = if grouping == Grouping::Padded { Some(groups) } else { None };
            if grouping == Grouping::Depth {
                one_matrix(a, right.tensors())?;
            }
            if of_a != needed {
                return Err(Error::GroupedMatrix { name: bounds.form.name(), given: a.shape().to_vec(), groups });
            }
            batch = Some(groups);
        }
        let picked = left.picked().is_some();
        let m = left.picked().map_or(Ok(m), |picked| picked.rows(a, grouping))?;
        for (i, b) in right.tensors().iter().enumerate() {
            match (batch, split_shape("B", b)?.0) {
                (Some(groups), Some(given)) if groups != given && grouping != Grouping::None => {
                    return Err(Error::GroupCount { place: i + 1, given, groups });
                }
                (Some(x), Some(y)) if x != y && of_a.is_some() => {
                    return Err(Error::BatchExtents { a: x, b: y });
                }
                (Some(x), Some(y)) if x != y => {
                    return Err(Error::RightBatches { place: i + 1, given: y, needed: x });
                }
                (x, y) => batch = x.or(y),
            }
        }
        let (batch, batched) = (batch.unwrap_or(1), batch.is_some());
        let scaled = block_scales::check(left, &right)?;
        let places = left.scattered();
        let scattered = places.is_some();
        let problem = Self { batch, batched, grouping, picked, scaled, scattered, ..Self::new(m, n, k) };
        problem.check_extents()?;
        if let Some(places) = places {
            scattered::check(grouping, batched, false)?;
            places.check(m)?;
        }
        Ok(problem)
    }

    /// The product of patches.
    fn under_window(left: Left<'_>, right: &Right<'_>, patches: &Patches) -> Result<Self, Error> {
        right.filters().iter().try_for_each(|filter| patches.check_filter(*filter))?;
        let matrices = patches.matrices(right.tensors())?;
        let right = right.as_matrices(&matrices);
        let first = right.first()?;
        let mut all_b = right.tensors().iter();
        let groups = patches.groups;
        let rank = if groups == 1 { 2 } else { 3 };
        if let Some(other) = all_b.clone().find(|b| b.rank() != rank && patches.are_columns()) {
            return Err(patches.refused(left.tensor(), other, 0));
        }
        if let Some(batched) = all_b.find(|b| b.rank() > 3 || b.rank() == 3 && (groups == 1 || b.shape()[0] != groups))
        {
            return Err(PatchError::Batches { b: batched.shape().to_vec(), groups }.into());
        }
        if groups > 1 && right.packed().iter().any(|packed| packed.tensor().rank() == 2) {
            return Err(PatchError::PackedInGroups { groups }.into());
        }
        let (_, [rows, n]) = split_shape("B", first)?;
        let [m, k] = patches.extents();
        if k != rows {
            return Err(patches.refused(left.tensor(), first, rows));
        }
        right.check_alike()?;
        let problem = Self::new(m, n, k);
        let problem = if groups == 1 { problem } else { problem.batched(groups) };
        problem.check_extents()?;
        // What transposed patches are multiplied by is a batch like any other.
        let chained = patches.are_columns() || StepsOfB::of(&right.views()).is_some();
        match left.as_plain_matrix()? {
            Some(_) => Ok(problem),
            None => Ok(Self {
                boxes: patches
                    .boxes(left.tensor())
                    .and_then(|boxes| chained.then_some(boxes).ok_or(Unboxed::GROUPS_OF_B)),
                input_dilated: patches.window.is_spread(),
                ..problem.of_patches(patches.elements())
            }),
        }
    }

    /// The product with an equal share of the rows, or of K, as each group's extent: for models, which know no bounds.
    pub(crate) fn shared_alike(&self) -> Self {
        let share = |extent: usize| extent.div_ceil(self.batch.max(1));
        match self.grouping {
            Grouping::None | Grouping::Padded => *self,
            // More than one: some groups have.
            Grouping::Shared => Self { m: share(self.m).max(2), ..*self },
            Grouping::Depth => Self { k: share(self.k), ..*self },
        }
    }

    /// The row tiles of a product; of groups the most that there can be, in rows of `together` tiles each. At least one for
    /// each.
    pub(crate) const fn row_tiles(&self, tile_m: usize, together: usize) -> usize {
        let rows = tile_m * together;
        let of_each = self.m.div_ceil(rows);
        match self.grouping {
            Grouping::None | Grouping::Depth if self.m == 0 => 1,
            Grouping::None | Grouping::Depth => self.m.div_ceil(tile_m),
            // Each has at most one that is not full.
            Grouping::Shared => (self.m / rows + self.batch) * together,
            Grouping::Padded => (if of_each == 0 { 1 } else { of_each }) * self.batch * together,
        }
    }

    /// Whether the product has no elements or no terms.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.k == 0 || self.batch == 0
    }

    /// Whether it is read and divided so that blocks may have scales.
    ///
    /// # Errors
    /// [`ScaleError::With`].
    pub(crate) const fn check_scaled(&self) -> Result<(), ScaleError> {
        let what = match self.grouping.divided() {
            _ if !self.scaled => return Ok(()),
            _ if self.patches.is_some() => "patches of images",
            _ if self.picked => "rows that an index picks",
            Divided::Depth => "groups of K",
            Divided::Nothing | Divided::Rows => return Ok(()),
        };
        Err(ScaleError::With { what })
    }

    /// # Errors
    /// [`Error::ExtentTooLarge`].
    pub(crate) fn check_extents(&self) -> Result<(), Error> {
        for (axis, extent) in [("M", self.m), ("N", self.n), ("K", self.k), ("L", self.batch)] {
            if extent > MAX_EXTENT {
                return Err(Error::ExtentTooLarge { axis, extent, limit: MAX_EXTENT });
            }
        }
        Ok(())
    }
}

/// Whether the operands of a product whose K is divided are one matrix each.
fn one_matrix(a: &DeviceTensor, all_b: &[&DeviceTensor]) -> Result<(), Error> {
    let operands = std::iter::once(("A", &a)).chain(all_b.iter().map(|b| ("B", b)));
    for (operand, tensor) in operands {
        if tensor.rank() != 2 {
            return Err(Error::GroupedDepth { operand, given: tensor.shape().to_vec() });
        }
    }
    Ok(())
}

/// The batch extent, if there is one, and the matrix's extents.
fn split_shape(operand: &'static str, tensor: &DeviceTensor) -> Result<(Option<usize>, [usize; 2]), Error> {
    match *shape_of(tensor) {
        _ if has_digits(tensor) => Err(Error::OperandRank { operand, shape: tensor.shape().to_vec() }),
        [rows, columns] => Ok((None, [rows, columns])),
        [batch, rows, columns] => Ok((Some(batch), [rows, columns])),
        _ => Err(Error::OperandRank { operand, shape: tensor.shape().to_vec() }),
    }
}
