//! The operands of a product: A, and one B for each accumulator.
//!
//! GEMMs that share A share the kernel's tile, so each thread holds all accumulators of its elements.

use epilogue_runtime::DeviceTensor;
use smallvec::{SmallVec, smallvec};

use super::bounds::Bounds;
use super::digits::{has_batch_digits, has_digits, shape_of};
use super::error::Error;
use super::filter::{Filter, FilterSize};
use super::groups::Grouping;
use super::layout::{Major, OperandLayout, OperandView};
use super::packed::Packed;
use super::patches::Patches;
use super::picked::Picked;
use super::placing::Scattered;
use super::quantized::Quantized;
use super::reading::TensorReading;
use super::scaled::Scaled;
use super::sliding::Sliding;
use super::weights::Weights;
use crate::ElementType;
use crate::evt::MAX_ACCUMULATORS;

/// A: a matrix `[M, K]`, or a batch of them `[L, M, K]`.
///
/// It is made from a tensor: `&a` works for any `impl Into<Left>`. [`rows`](super::grouped::rows) divides A's rows into
/// groups, and picks and places them by an index. [`patches`](super::window::patches) reads images under a window;
/// [`gradient_patches`](super::gradients::gradient_patches) and
/// [`transposed_patches`](super::gradients::transposed_patches) are for its gradients. FP8 operands may have block
/// scales ([`scaled`](super::scaled::scaled)).
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    tensor: &'a DeviceTensor,
    reading: TensorReading<'a, Sliding>,
    /// A scale for each row and block of K.
    scales: Option<&'a DeviceTensor>,
    scattered: Option<Scattered<'a>>,
}

/// The B of a product: a matrix `[K, N]`, or a batch of them `[L, K, N]`, for every accumulator of the epilogue.
///
/// It is made from one tensor, or from an array or slice of tensors. `&b` and `[&gate, &up]` both work for an
/// `impl Into<Right>`:
///
/// ```
/// use epilogue::prelude::*;
///
/// /// The first half of a gated feed-forward block: silu(x·W_gate) · (x·W_up), W_gate and W_up beside each other.
/// #[epilogue]
/// fn swiglu(gate: Accum, up: Accum) -> Tensor {
///     let d = silu(gate) * up;
///     d
/// }
///
/// let device = Device::cpu();
/// let x = device.full::<f32>([2, 4], 1.0)?;
/// let packed = device.full::<f32>([4, 6], 0.25)?; // [W_gate | W_up]
/// let (gate, up) = (packed.slice(1, 0..3)?, packed.slice(1, 3..6)?);
/// let gemm = Gemm::plan::<Swiglu>(&device, &x, [&gate, &up])?;
/// let mut d = device.zeros::<f32>([2, 3])?;
/// gemm.run(&x, [&gate, &up], Swiglu { d: &mut d })?;
/// assert!(d.to_vec::<f32>()?.iter().all(|y| (y - 0.731_058_6).abs() < 1e-6));
///
/// let one = gemm.run(&x, &gate, Swiglu { d: &mut d }).unwrap_err();
/// assert_eq!(
///     one.to_string(),
///     "1 B for the 2 accumulators of `swiglu`: give one for each of gate, up, in this order, as in `[&gate, &up]`"
/// );
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A [`Packed`] works wherever a B is read, and so do arrays and slices of them, as in `[&packed_gate, &packed_up]`.
///
/// All have one element type, one K, one N, and are contiguous along the same axis (K or N). Their strides may differ,
/// and any of them may be shared by all batches.
#[derive(Clone, Debug)]
pub struct Right<'a> {
    tensors: SmallVec<[&'a DeviceTensor; 2]>,
    /// One for each tensor if they are packed; else none.
    packed: SmallVec<[&'a Packed; 2]>,
    /// The sizes of those that are filters.
    filters: SmallVec<[FilterSize; 2]>,
    /// The scales of their blocks, for each tensor or none.
    scales: SmallVec<[&'a DeviceTensor; 2]>,
    /// The quantised weights whose codes are in the tensors, for each or none.
    weights: SmallVec<[Weights<'a>; 2]>,
}

impl<'a> From<&'a DeviceTensor> for Left<'a> {
    fn from(tensor: &'a DeviceTensor) -> Self {
        Self::plain(tensor)
    }
}

impl<'a> From<&&'a DeviceTensor> for Left<'a> {
    fn from(tensor: &&'a DeviceTensor) -> Self {
        Self::plain(tensor)
    }
}

impl<'a> From<&'a mut DeviceTensor> for Left<'a> {
    fn from(tensor: &'a mut DeviceTensor) -> Self {
        Self::plain(tensor)
    }
}

impl<'a> From<&'a DeviceTensor> for Right<'a> {
    fn from(tensor: &'a DeviceTensor) -> Self {
        Self::plain(smallvec![tensor])
    }
}

impl<'a> From<&&'a DeviceTensor> for Right<'a> {
    fn from(tensor: &&'a DeviceTensor) -> Self {
        Self::plain(smallvec![*tensor])
    }
}

impl<'a> From<&'a mut DeviceTensor> for Right<'a> {
    fn from(tensor: &'a mut DeviceTensor) -> Self {
        Self::plain(smallvec![&*tensor])
    }
}

impl<'a> From<&[&'a DeviceTensor]> for Right<'a> {
    fn from(tensors: &[&'a DeviceTensor]) -> Self {
        Self::plain(tensors.iter().copied().collect())
    }
}

impl<'a, const COUNT: usize> From<[&'a DeviceTensor; COUNT]> for Right<'a> {
    fn from(tensors: [&'a DeviceTensor; COUNT]) -> Self {
        Self::plain(tensors.into_iter().collect())
    }
}

impl<'a, const COUNT: usize> From<&[&'a DeviceTensor; COUNT]> for Right<'a> {
    fn from(tensors: &[&'a DeviceTensor; COUNT]) -> Self {
        Self::from(&tensors[..])
    }
}

impl<'a> From<&'a Packed> for Right<'a> {
    fn from(packed: &'a Packed) -> Self {
        Self::from(&[packed][..])
    }
}

impl<'a> From<&[&'a Packed]> for Right<'a> {
    fn from(packed: &[&'a Packed]) -> Self {
        let tensors = packed.iter().map(|packed| packed.tensor()).collect();
        let weights = packed.iter().filter_map(|packed| packed.weights()).map(Weights::Panels).collect();
        Self { packed: packed.iter().copied().collect(), weights, ..Self::plain(tensors) }
    }
}

impl<'a, const COUNT: usize> From<[&'a Packed; COUNT]> for Right<'a> {
    fn from(packed: [&'a Packed; COUNT]) -> Self {
        Self::from(&packed[..])
    }
}

impl<'a> From<&'a Filter> for Right<'a> {
    fn from(filter: &'a Filter) -> Self {
        Self::from(&[filter][..])
    }
}

impl<'a> From<&[&'a Filter]> for Right<'a> {
    fn from(filters: &[&'a Filter]) -> Self {
        let tensors = filters.iter().map(|filter| filter.matrix()).collect();
        let filters = filters.iter().map(|filter| filter.size()).collect();
        Self { filters, ..Self::plain(tensors) }
    }
}

impl<'a, const COUNT: usize> From<[&'a Filter; COUNT]> for Right<'a> {
    fn from(filters: [&'a Filter; COUNT]) -> Self {
        Self::from(&filters[..])
    }
}

impl<'a> From<Scaled<'a>> for Left<'a> {
    fn from(Scaled { tensor, scales }: Scaled<'a>) -> Self {
        Self::plain(tensor).scaled(Some(scales))
    }
}

impl<'a> From<Scaled<'a>> for Right<'a> {
    fn from(scaled: Scaled<'a>) -> Self {
        Self::from(&[scaled][..])
    }
}

impl<'a> From<&[Scaled<'a>]> for Right<'a> {
    fn from(all: &[Scaled<'a>]) -> Self {
        let scales = all.iter().map(|scaled| scaled.scales).collect();
        Self { scales, ..Self::plain(all.iter().map(|scaled| scaled.tensor).collect()) }
    }
}

impl<'a, const COUNT: usize> From<[Scaled<'a>; COUNT]> for Right<'a> {
    fn from(all: [Scaled<'a>; COUNT]) -> Self {
        Self::from(&all[..])
    }
}

impl<'a> From<Quantized<'a>> for Right<'a> {
    fn from(weights: Quantized<'a>) -> Self {
        Self::from(&[weights][..])
    }
}

impl<'a> From<&[Quantized<'a>]> for Right<'a> {
    fn from(all: &[Quantized<'a>]) -> Self {
        let weights = all.iter().copied().map(Weights::Rows).collect();
        Self { weights, ..Self::plain(all.iter().map(Quantized::tensor).collect()) }
    }
}

impl<'a, const COUNT: usize> From<[Quantized<'a>; COUNT]> for Right<'a> {
    fn from(all: [Quantized<'a>; COUNT]) -> Self {
        Self::from(&all[..])
    }
}

impl<'a> Left<'a> {
    /// A matrix, or a batch of them.
    const fn plain(tensor: &'a DeviceTensor) -> Self {
        Self::read(tensor, TensorReading::Rows)
    }

    /// A tensor that is read so.
    pub(crate) const fn read(tensor: &'a DeviceTensor, reading: TensorReading<'a, Sliding>) -> Self {
        Self { tensor, reading, scales: None, scattered: None }
    }

    /// This operand with another tensor.
    pub(crate) const fn with_tensor<'b>(&self, tensor: &'b DeviceTensor) -> Left<'b>
    where
        'a: 'b,
    {
        Left { tensor, ..*self }
    }

    /// Where the patches' elements are, if it is patches.
    ///
    /// # Errors
    /// [`PatchError`](super::patch_error::PatchError).
    pub(crate) fn patches(&self) -> Result<Option<Patches>, Error> {
        Ok(self.reading()?.patches())
    }

    /// How it is read, with the patches under its window.
    ///
    /// # Errors
    /// As [`patches`](Self::patches).
    pub(crate) fn reading(&self) -> Result<TensorReading<'a, Patches>, Error> {
        self.reading.with_patches(|window| Patches::of(self.tensor, window))
    }

    /// Patches of one element each, one after another, as the matrix that they are, or as one for each group of channels.
    ///
    /// # Errors
    /// As [`patches`](Self::patches).
    pub(crate) fn as_plain_matrix(&self) -> Result<Option<DeviceTensor>, Error> {
        let Some(patches) = self.patches()?.filter(|patches| patches.window.is_single()) else { return Ok(None) };
        let [rows, columns] = patches.extents();
        if patches.groups > 1 {
            let (pixels, order) = if patches.are_columns() { (columns, [1, 2, 0]) } else { (rows, [1, 0, 2]) };
            let in_groups = self.tensor.reshape([pixels, patches.groups, patches.channels]);
            return Ok(in_groups.and_then(|x| x.permute(&order)).ok());
        }
        Ok(if patches.are_columns() {
            self.tensor.reshape([columns, rows]).and_then(|matrix| matrix.transpose()).ok()
        } else {
            self.tensor.reshape([rows, columns]).ok()
        })
    }

    /// The window as it was given.
    pub(crate) const fn window(&self) -> Option<Sliding> {
        self.reading.patches()
    }

    /// This operand with rows of results that an index places, or all in their order.
    pub(super) const fn placed(self, scattered: Option<Scattered<'a>>) -> Self {
        Self { scattered, ..self }
    }

    /// The index that places the rows of results.
    pub(crate) const fn scattered(&self) -> Option<Scattered<'a>> {
        self.scattered
    }

    /// This operand with block scales, or without.
    pub(crate) const fn scaled(self, scales: Option<&'a DeviceTensor>) -> Self {
        Self { scales, ..self }
    }

    /// The scales of blocks, if it has some.
    pub(crate) const fn scales(&self) -> Option<&'a DeviceTensor> {
        self.scales
    }

    /// The index that picks the rows.
    pub(crate) const fn picked(&self) -> Option<Picked<'a>> {
        self.reading.picked()
    }

    /// The bounds that divide the rows into groups.
    pub(crate) const fn bounds(&self) -> Option<Bounds<'a>> {
        self.reading.bounds()
    }

    /// The tensor.
    #[must_use]
    pub const fn tensor(&self) -> &'a DeviceTensor {
        self.tensor
    }

    /// How kernels copy it.
    ///
    /// # Errors
    /// As [`patches`](Self::patches).
    pub(crate) fn layout(&self) -> Result<OperandLayout, Error> {
        let element = self.tensor.element_type();
        Ok(match (self.as_plain_matrix()?, self.patches()?) {
            (Some(matrix), _) => OperandView::of_a(&matrix).layout(),
            (None, Some(patches)) => patches.layout(self.tensor.device_address(), element.size()),
            (None, None) if self.picked().is_some() => {
                let copy_bytes = OperandView::of_a(self.tensor).copy_bytes(Major::K);
                OperandLayout { major: Major::K, copy_bytes }
            }
            (None, None) => OperandView::of_a(self.tensor).layout().of_a_in_groups(self.grouping(), element),
        })
    }

    /// Whether a kernel that copies operands so takes it.
    ///
    /// # Errors
    /// As [`patches`](Self::patches).
    pub(crate) fn fits(&self, layout: OperandLayout) -> Result<bool, Error> {
        Ok(match self.patches()? {
            None => OperandView::of_a(self.tensor).fits(layout),
            Some(_) => {
                let own = self.layout()?;
                own.major == layout.major
                    && (layout.copy_bytes <= own.copy_bytes || layout.copy_bytes == self.tensor.element_type().size())
            }
        })
    }

    /// How kernels copy a B of this layout.
    pub(crate) fn layout_of_b(&self, layout: OperandLayout, element: ElementType) -> OperandLayout {
        layout.of_b_in_groups(self.grouping(), element)
    }

    fn grouping(&self) -> Option<Grouping> {
        self.bounds().map(|bounds| bounds.grouping())
    }
}

impl<'a> Right<'a> {
    /// Tensors, and nothing else is known of them.
    fn plain(tensors: SmallVec<[&'a DeviceTensor; 2]>) -> Self {
        let (packed, filters, scales, weights) = Default::default();
        Self { tensors, packed, filters, scales, weights }
    }

    /// The scales of blocks: one for each tensor, or none.
    pub(crate) fn scales(&self) -> &[&'a DeviceTensor] {
        &self.scales
    }

    /// The quantised weights: one for each tensor, or none.
    pub(crate) fn weights(&self) -> &[Weights<'a>] {
        &self.weights
    }

    /// The tensors, one for each accumulator. Tensors of quantised weights hold codes.
    #[must_use]
    pub fn tensors(&self) -> &[&'a DeviceTensor] {
        &self.tensors
    }

    /// One for each tensor if they are packed; else none.
    pub(crate) fn packed(&self) -> &[&'a Packed] {
        &self.packed
    }

    /// The operand with these plain matrices in place of its filters.
    pub(crate) fn as_matrices<'b>(&self, matrices: &'b [DeviceTensor]) -> Right<'b>
    where
        'a: 'b,
    {
        let packed = self.packed.iter().copied().collect();
        Right { packed, ..Right::plain(matrices.iter().collect()) }
    }

    /// The sizes of those that are filters.
    pub(crate) fn filters(&self) -> &[FilterSize] {
        &self.filters
    }

    /// The first tensor.
    ///
    /// # Errors
    /// [`Error::NoRight`].
    pub(crate) fn first(&self) -> Result<&'a DeviceTensor, Error> {
        self.tensors.first().copied().ok_or(Error::NoRight)
    }

    /// Whether there is one for each accumulator.
    ///
    /// # Errors
    /// [`Error::RightCount`].
    pub(crate) fn check_count(&self, epilogue: &'static str, accumulators: &[&'static str]) -> Result<(), Error> {
        let given = self.tensors.len();
        if given == accumulators.len() {
            return Ok(());
        }
        Err(Error::RightCount { epilogue, given, names: accumulators.to_vec() })
    }

    /// The matrices as kernels see them.
    pub(crate) fn views(&self) -> Views {
        let copied = self.major_of_copies();
        self.tensors.iter().map(|tensor| OperandView::of_b_or_copy(tensor, copied)).collect()
    }

    /// The axis along which copies of B are contiguous, if some are copied: that of the others, or of the first copy.
    pub(crate) fn major_of_copies(&self) -> Option<Major> {
        let copied = self.tensors.iter().find(|tensor| has_batch_digits(tensor))?;
        let uncopied = self.tensors.iter().filter(|tensor| !has_batch_digits(tensor));
        uncopied.chain([copied]).find_map(|tensor| OperandView::of_b(tensor).only_major())
    }

    /// Whether all have the first one's type, K, N and contiguous axis.
    ///
    /// # Errors
    /// [`Error::RightElements`], [`Error::RightShapes`], [`Error::RightMajors`].
    pub(crate) fn check_alike(&self) -> Result<(), Error> {
        let first = self.first()?;
        let matrix = |tensor: &DeviceTensor| tensor.shape()[tensor.rank().saturating_sub(2)..].to_vec();
        for (i, tensor) in self.tensors.iter().enumerate().skip(1) {
            let place = i + 1;
            if tensor.element_type() != first.element_type() {
                let (given, needed) = (tensor.element_type(), first.element_type());
                return Err(Error::RightElements { place, given, needed });
            }
            if matrix(tensor) != matrix(first) {
                let (given, needed) = (tensor.shape().to_vec(), first.shape().to_vec());
                return Err(Error::RightShapes { place, given, needed });
            }
        }
        if self.tensors.iter().any(|tensor| has_digits(tensor) || !(2..=3).contains(&shape_of(tensor).len())) {
            return Ok(()); // `Problem::of` reports it
        }
        let mut majors: Option<(usize, Major)> = None;
        for (i, view) in self.views().iter().enumerate() {
            match (view.only_major(), majors) {
                (Some(major), Some((of, other))) if major != other => {
                    let (given, needed) = (axis(major), axis(other));
                    return Err(Error::RightMajors { place: i + 1, given, of: of + 1, needed });
                }
                (Some(major), None) => majors = Some((i, major)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The name of the axis along which B is contiguous.
const fn axis(major: Major) -> &'static str {
    match major {
        Major::K => "K",
        Major::Mn => "N",
    }
}

/// Several matrices as kernels see them.
pub(crate) type Views = SmallVec<[OperandView; MAX_ACCUMULATORS]>;

/// The layout with the widest copies that all these operands allow.
pub(crate) fn common_layout(views: &[OperandView]) -> OperandLayout {
    let of = |major| {
        let copy_bytes = views.iter().map(|view| view.copy_bytes(major)).min().unwrap_or(1);
        OperandLayout { major, copy_bytes }
    };
    let (k_major, mn_major) = (of(Major::K), of(Major::Mn));
    if mn_major.copy_bytes > k_major.copy_bytes { mn_major } else { k_major }
}
