//! The extents of a product.

use epilogue_runtime::DeviceTensor;

use super::block_scales;
use super::channels::StepsOfB;
use super::digits::{has_digits, shape_of};
use super::error::Error;
use super::format::Formats;
use super::format_error::FormatError;
use super::groups::Grouping;
use super::groups_error::GroupsError;
use super::layout::Major;
use super::operand::{Left, Right};
use super::patch_boxes::{PatchBoxes, Unboxed};
use super::patch_error::PatchError;
use super::patches::Patches;
use super::placing::Placing;
use super::property::{Properties, Property};
use super::quantization::Quantization;
use super::reading::{PatchReading, Reading};
use super::{weight_check, weight_operands};

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
    /// How A is read.
    pub reading: Reading,
    /// Where the rows of results are written.
    pub placing: Placing,
    /// The formats of A and B.
    pub formats: Formats,
}

/// The largest M, N or K: the kernels count in 32-bit integers and round up to whole tiles.
pub const MAX_EXTENT: usize = crate::evt::MOST;

impl Problem {
    /// A product without a batch axis.
    #[must_use]
    pub const fn new(m: usize, n: usize, k: usize) -> Self {
        let (reading, placing, formats) = (Reading::Rows, Placing::InOrder, Formats::PLAIN);
        Self { m, n, k, batch: 1, batched: false, reading, placing, formats }
    }

    /// A batch of `batch` GEMMs like this one.
    #[must_use]
    pub const fn batched(self, batch: usize) -> Self {
        Self { batch, batched: true, ..self }
    }

    /// Divides the M rows among `groups` GEMMs; [`rows`](super::grouped::rows) says how.
    #[must_use]
    pub const fn in_groups(self, groups: usize) -> Self {
        self.divided_by(Grouping::Shared, groups)
    }

    /// That many products of at most M rows each; [`rows`](super::grouped::rows) says how.
    #[must_use]
    pub const fn in_padded_groups(self, groups: usize) -> Self {
        self.divided_by(Grouping::Padded, groups)
    }

    /// Divides K among `groups` GEMMs; [`depth`](super::grouped::depth) says how.
    #[must_use]
    pub const fn in_depth_groups(self, groups: usize) -> Self {
        self.divided_by(Grouping::Depth, groups)
    }

    const fn divided_by(self, grouping: Grouping, groups: usize) -> Self {
        Self { batch: groups, batched: true, reading: self.reading.divided_by(grouping), ..self }
    }

    /// Reads A as patches of images with this many elements; [`patches`](super::window::patches) says how.
    #[must_use]
    pub const fn of_patches(self, elements: usize) -> Self {
        self.under_window(PatchReading { elements: Some(elements), ..self.patch_reading() })
    }

    /// Loads the patches by TMA, in these boxes.
    #[must_use]
    pub const fn in_boxes(self, boxes: PatchBoxes) -> Self {
        self.under_window(PatchReading { boxes: Ok(boxes), ..self.patch_reading() })
    }

    /// Puts zeros between the elements of the images (input dilation).
    #[must_use]
    pub const fn with_input_dilation(self) -> Self {
        self.under_window(PatchReading { dilated: true, ..self.patch_reading() })
    }

    const fn under_window(self, patches: PatchReading) -> Self {
        Self { reading: Reading::Patches(patches), ..self }
    }

    /// How A's patches are read, as far as it is known.
    const fn patch_reading(&self) -> PatchReading {
        match self.reading {
            Reading::Patches(patches) => patches,
            _ => PatchReading { elements: None, boxes: Err(Unboxed::UNKNOWN), dilated: false },
        }
    }

    /// Elements of the images that A's patches are of, if they are known.
    pub(crate) fn images(&self) -> Option<usize> {
        self.reading.patches()?.elements
    }

    /// How tensor copies load A's patches, if it is patches and they do.
    pub(crate) const fn boxed(&self) -> Option<PatchBoxes> {
        match self.reading {
            Reading::Patches(PatchReading { boxes: Ok(boxes), .. }) => Some(boxes),
            _ => None,
        }
    }

    /// The GEMM as a kernel with this k-tile depth counts it. Patches that are loaded by boxes and contiguous along K
    /// have whole k-tiles for each filter position.
    pub(crate) const fn in_k_tiles(&self, tile_k: usize, a: Major) -> Self {
        match (self.boxed(), a) {
            (Some(boxes), Major::K) => Self { k: boxes.depth(tile_k), ..*self },
            _ => *self,
        }
    }

    /// Picks the M rows by an index; [`Rows::picked`](super::grouped::Rows::picked) says how.
    #[must_use]
    pub const fn of_picked_rows(self) -> Self {
        Self { reading: self.reading.picked(), ..self }
    }

    /// Gives the operands block scales; [`scaled`](super::scaled::scaled) says how.
    #[must_use]
    pub const fn of_scaled_operands(self) -> Self {
        Self { formats: Formats::SCALED, ..self }
    }

    /// Gives B quantised weights; [`quantized`](super::quantized::quantized) says how.
    #[must_use]
    pub const fn of_weights(self, quantization: Quantization) -> Self {
        Self { formats: Formats::of_weights(quantization), ..self }
    }

    /// Scatters the M rows by an index; [`Rows::scattered`](super::grouped::Rows::scattered) says how.
    #[must_use]
    pub const fn of_scattered_rows(self) -> Self {
        Self { placing: Placing::Scattered, ..self }
    }

    /// The product of tensors: A is `[M, K]` or `[L, M, K]`; B is `[K, N]` or `[L, K, N]`, and so is every further B.
    /// All batches share an operand without a batch axis. If A's rows are [divided](super::grouped::rows), a batch is a
    /// group. If they are [picked](super::grouped::Rows::picked), M is the length of the index.
    ///
    /// # Errors
    /// [`Error::OperandRank`], [`Error::InnerExtents`], [`Error::BatchExtents`], [`Error::ExtentTooLarge`]; the errors
    /// of several B that differ, of groups, of patches, of scales, and of quantised weights.
    pub fn of<'a, 'b>(a: impl Into<Left<'a>>, b: impl Into<Right<'b>>) -> Result<Self, Error> {
        let (left, right) = (a.into(), b.into());
        block_scales::both(left, &right)?;
        let weights = right.weight_extents()?;
        match left.patches()? {
            Some(_) if weights.is_some() => return Err(FormatError::With { what: "patches of images" }.into()),
            Some(patches) => return Self::of_convolution(left, &right, &patches),
            None if !right.filters().is_empty() => return Err(PatchError::NoWindow.into()),
            None => {}
        }
        let (a, first) = (left.tensor(), right.first()?);
        let (of_a, [m, k]) = split_shape("A", a)?;
        let of_b = |place: usize, b| match weights.as_ref().and_then(|weights| weights.get(place)) {
            Some(weights) => Ok((weights.batch, [weights.k, weights.n])),
            None => split_shape("B", b),
        };
        let (b_batch, [b_k, n]) = of_b(0, first)?;
        if k != b_k {
            return Err(Error::InnerExtents {
                a: a.shape().to_vec(),
                b: b_batch.into_iter().chain([b_k, n]).collect(),
            });
        }
        if weights.is_none() {
            right.check_alike()?;
        }
        let (mut batch, grouping) = (of_a, left.bounds().map(|bounds| bounds.grouping()));
        if let Some(bounds) = left.bounds() {
            let groups = bounds.groups()?;
            let needed = if grouping == Some(Grouping::Padded) { Some(groups) } else { None };
            if grouping == Some(Grouping::Depth) && weights.is_none() {
                one_matrix(a, right.tensors())?;
            }
            if of_a != needed {
                return Err(GroupsError::Matrix { name: bounds.form.name(), given: a.shape().to_vec(), groups }.into());
            }
            batch = Some(groups);
        }
        let divided = grouping.map_or(Reading::Rows, Reading::Groups);
        let (reading, m) = match left.picked() {
            Some(picked) => (divided.picked(), picked.rows(a, grouping)?),
            None => (divided, m),
        };
        for (i, b) in right.tensors().iter().enumerate() {
            match (batch, of_b(i, b)?.0) {
                (Some(groups), Some(given)) if groups != given && grouping.is_some() => {
                    return Err(GroupsError::Count { place: i + 1, given, groups }.into());
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
        let formats = match weight_operands::formats(&right) {
            Some(formats) => formats,
            None => block_scales::check(left, &right)?,
        };
        weight_check::check_reading(formats, reading)?;
        let placing = if left.scattered().is_some() { Placing::Scattered } else { Placing::InOrder };
        let problem = Self { batch, batched, reading, placing, formats, ..Self::new(m, n, k) };
        problem.check_extents()?;
        problem.properties().check(None)?;
        if let Some(places) = left.scattered() {
            places.check(m)?;
        }
        Ok(problem)
    }

    /// The product of patches.
    fn of_convolution(left: Left<'_>, right: &Right<'_>, patches: &Patches) -> Result<Self, Error> {
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
        // The B of transposed patches is a batch like any other.
        let chained = patches.are_columns() || StepsOfB::of(&right.views()).is_some();
        match left.as_plain_matrix()? {
            Some(_) => Ok(problem),
            None => {
                let boxes = patches.boxes(left.tensor());
                let boxes = boxes.and_then(|boxes| chained.then_some(boxes).ok_or(Unboxed::GROUPS_OF_B));
                let (elements, dilated) = (Some(patches.elements()), patches.window.is_spread());
                Ok(problem.under_window(PatchReading { elements, boxes, dilated }))
            }
        }
    }

    /// Its properties that may exclude each other.
    pub(crate) fn properties(&self) -> Properties {
        let of_reading = Properties::of_reading(self.reading, self.batched);
        let of_rows = of_reading.with(Property::ScatteredRows, self.placing.is_scattered());
        of_rows.with(Property::BlockScales, self.formats.are_scaled())
    }

    /// The product with an equal share of the rows, or of K, as each group's extent: for models, which know no bounds.
    pub(crate) fn shared_alike(&self) -> Self {
        let share = |extent: usize| extent.div_ceil(self.batch.max(1));
        match self.reading.grouping() {
            None | Some(Grouping::Padded) => *self,
            // More than one: some groups have.
            Some(Grouping::Shared) => Self { m: share(self.m).max(2), ..*self },
            Some(Grouping::Depth) => Self { k: share(self.k), ..*self },
        }
    }

    /// Whether the product has no elements or no terms.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.k == 0 || self.batch == 0
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
            return Err(GroupsError::Depth { operand, given: tensor.shape().to_vec() }.into());
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
