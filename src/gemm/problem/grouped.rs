//! The A of a user who divides its rows into groups, gathers them by an index, or scatters the rows of results.

use epilogue_runtime::DeviceTensor;

use super::bounds::{Bounds, BoundsForm};
use super::operand::Left;
use super::picked::Picked;
use super::placing::Scattered;
use super::reading::TensorReading;

/// The rows of A, to be picked by an index or to be divided into groups: then it is a product of every group's rows and its
/// own B.
///
/// ```
/// use epilogue::gemm::rows;
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn layer(accum: Accum, bias: RowVector) -> Tensor {
///     let d = relu(accum + bias);
///     d
/// }
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2])?; // 3 rows, sorted by expert
/// let experts = device.tensor(&[1f32, 1.0, 9.0, 9.0, -1.0, 1.0], [3, 2, 1])?; // one 2×1 matrix for each of 3
/// let bias = device.tensor(&[0f32, 9.0, 0.5], [3, 1])?; // likewise
/// let offsets = device.tensor(&[0i32, 2, 2, 3], [4])?; // rows 0 and 1; none; row 2
///
/// let gemm = Gemm::plan::<Layer>(&device, rows(&x).in_groups(&offsets), &experts)?;
/// let mut d = device.zeros::<f32>([3, 1])?;
/// gemm.run(rows(&x).in_groups(&offsets), &experts, Layer { bias: &bias, d: &mut d })?;
/// assert_eq!(d.to_vec::<f32>()?, [3.0, 7.0, 1.5]);
///
/// let wrong = device.tensor(&[0i32, 2, 1, 3], [4])?;
/// let error = gemm.run(rows(&x).in_groups(&wrong), &experts, Layer { bias: &bias, d: &mut d }).unwrap_err();
/// assert_eq!(error.to_string(), "offsets[2] is 1, and the groups before it take 2 of the 3 rows: give one from 2 to 3");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    tensor: &'a DeviceTensor,
    picked: Option<Picked<'a>>,
    scales: Option<&'a DeviceTensor>,
    scattered: Option<Scattered<'a>>,
}

/// The rows of A, to be divided into groups or picked by an index; see [`Rows`].
#[must_use]
pub const fn rows(a: &DeviceTensor) -> Rows<'_> {
    Rows { tensor: a, picked: None, scales: None, scattered: None }
}

impl<'a> From<Rows<'a>> for Left<'a> {
    fn from(Rows { tensor, picked, scales, scattered }: Rows<'a>) -> Self {
        let reading = picked.map_or(TensorReading::Rows, TensorReading::Picked);
        Self::read(tensor, reading).placed(scattered).scaled(scales)
    }
}

impl<'a> Rows<'a> {
    /// Gathers A's rows: row `m` of the GEMM is row `index[m]` of A. `index` is `[T]` of i32; A is one matrix `[S, K]`
    /// with contiguous rows. A row may be picked any number of times, or never. Everything else that has rows has T of
    /// them, in the GEMM's order: M×N tensors, column vectors, and groups of the picked rows. `row()` and `rows()`
    /// count the GEMM's rows.
    ///
    /// ```
    /// use epilogue::gemm::rows;
    /// use epilogue::prelude::*;
    ///
    /// #[epilogue]
    /// fn plain(accum: Accum) -> Tensor {
    ///     let d = accum;
    ///     d
    /// }
    ///
    /// let device = Device::cpu();
    /// let x = device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?; // 2 tokens
    /// let tokens = device.tensor(&[1i32, 0, 1], [3])?; // that 2 experts take: the first one token 1, the second one both
    /// let ends = device.tensor(&[1i32, 3], [2])?;
    /// let experts = device.tensor(&[1f32, 1.0, 10.0, 10.0], [2, 2, 1])?;
    ///
    /// let taken = rows(&x).picked(&tokens).in_groups_to(&ends);
    /// let gemm = Gemm::plan::<Plain>(&device, taken, &experts)?;
    /// let mut d = device.zeros::<f32>([3, 1])?;
    /// gemm.run(taken, &experts, Plain { d: &mut d })?;
    /// assert_eq!(d.to_vec::<f32>()?, [7.0, 30.0, 70.0]);
    ///
    /// let wrong = device.tensor(&[1i32, 2, 1], [3])?;
    /// let error = gemm.run(rows(&x).picked(&wrong).in_groups_to(&ends), &experts, Plain { d: &mut d }).unwrap_err();
    /// assert_eq!(error.to_string(), "index[1] is 2, and A has 2 rows: give one from 0 to 1");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The indices are read when the GEMM is computed. The CPU refuses an index that is not a row of A before anything
    /// written; with groups, it checks the rows that a group has. A kernel reads zeros for a wrong index, and reports
    /// it as [`DataError::Index`](crate::DataError::Index).
    #[must_use]
    pub const fn picked(self, index: &'a DeviceTensor) -> Self {
        Self { picked: Some(Picked { index }), ..self }
    }

    /// The rows of an FP8 A with a scale for each row and 128 of K; see [`Scaled`](super::Scaled). Each group's B has scales,
    /// too: `[G, ceil(K / 128), ceil(N / 128)]`.
    #[must_use]
    pub const fn scaled(self, scales: &'a DeviceTensor) -> Self {
        Self { scales: Some(scales), ..self }
    }

    const fn grouped(self, tensor: &'a DeviceTensor, form: BoundsForm) -> Left<'a> {
        let bounds = Bounds { tensor, form, of_depth: false };
        let reading = match self.picked {
            Some(picked) => TensorReading::PickedGroups(picked, bounds),
            None => TensorReading::Groups(bounds),
        };
        Left::read(self.tensor, reading).placed(self.scattered).scaled(self.scales)
    }

    /// Scatters the rows of results: row `m` is written to row `index[m]` of every output that is a `Tensor`. `index`
    /// is `[T]` of i32, for the GEMM's T rows. These outputs are `[S, N]` with any number of rows; rows that no index
    /// names keep their values. No two indices may be equal. All other arguments have rows in the GEMM's order: inputs,
    /// column vectors, results of reductions along rows, groups, and `row()`.
    ///
    /// A mixture of experts computes rows sorted by expert; this brings them back to their tokens:
    ///
    /// ```
    /// use epilogue::gemm::rows;
    /// use epilogue::prelude::*;
    ///
    /// #[epilogue]
    /// fn weighted(accum: Accum, weight: ColumnVector) -> Tensor {
    ///     let d = accum * weight;
    ///     d
    /// }
    ///
    /// let device = Device::cpu();
    /// let h = device.tensor(&[1f32, 2.0, 3.0], [3, 1])?; // rows, sorted by expert
    /// let weight = device.tensor(&[1f32, 0.5, 1.0], [3])?; // of each, in this order
    /// let ends = device.tensor(&[1i32, 3], [2])?; // the first expert has one row, the second one two
    /// let experts = device.tensor(&[1f32, 1.0, 10.0, 10.0], [2, 1, 2])?;
    /// let slots = device.tensor(&[2i32, 0, 3], [3])?; // where each row belongs
    ///
    /// let rows = rows(&h).scattered(&slots).in_groups_to(&ends);
    /// let gemm = Gemm::plan::<Weighted>(&device, rows, &experts)?;
    /// let mut d = device.zeros::<f32>([4, 2])?;
    /// gemm.run(rows, &experts, Weighted { weight: &weight, d: &mut d })?;
    /// assert_eq!(d.to_vec::<f32>()?, [10.0, 10.0, 0.0, 0.0, 1.0, 1.0, 30.0, 30.0]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The indices are read when the GEMM is computed. The CPU refuses an index that is no row, or that occurs twice,
    /// before anything is written; with groups, it checks the rows that a group has. A kernel does not write a row with
    /// a wrong index, and reports it as [`DataError::Index`](crate::DataError::Index). If two rows have one index, the
    /// kernel leaves either of them, or parts of both.
    ///
    /// A `TensorMut`, `Bits`, and views of several axes are refused as outputs ([`ScatterError`](super::ScatterError)).
    #[must_use]
    pub const fn scattered(self, index: &'a DeviceTensor) -> Self {
        Self { scattered: Some(Scattered { index }), ..self }
    }

    /// Groups from one offset to the next: `offsets` is `[G + 1]` of i32, A is `[T, K]`.
    #[must_use]
    pub const fn in_groups(self, offsets: &'a DeviceTensor) -> Left<'a> {
        self.grouped(offsets, BoundsForm::Offsets)
    }

    /// Groups that follow each other from row 0, given by their ends: `ends` is `[G]` of i32, A is `[T, K]`.
    #[must_use]
    pub const fn in_groups_to(self, ends: &'a DeviceTensor) -> Left<'a> {
        self.grouped(ends, BoundsForm::Ends)
    }

    /// One matrix for every group, with the group's rows first: `counts` is `[G]` of i32, A is `[G, Mmax, K]`.
    #[must_use]
    pub const fn in_groups_of(self, counts: &'a DeviceTensor) -> Left<'a> {
        self.grouped(counts, BoundsForm::Counts)
    }
}

/// K divided into groups: one GEMM for each part of K. Weight gradients of experts have this form, with rows sorted by
/// expert.
///
/// A is `[M, T]` and B is `[T, N]`; the result is `[G, M, N]`. An empty group gives zeros to the epilogue. Kernels load
/// operands that are contiguous along M and N (a transposed `x`, and `dy`) in whole rows. Operands that are contiguous
/// along K may have groups that begin anywhere. Kernels for sm_80 load these element by element; kernels for sm_90a
/// first copy them to whole rows; the model chooses. Kernels for sm_90a divide K for f16 and bf16; other types use the
/// kernels for sm_80 on every GPU.
///
/// ```
/// use epilogue::gemm::depth;
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn gradient(accum: Accum, scale: Scalar) -> Tensor<f32> {
///     let dw = scale * accum;
///     dw
/// }
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2])?; // 3 rows, sorted by expert
/// let dy = device.tensor(&[1f32, 10.0, 100.0], [3, 1])?; // their gradients
/// let ends = device.tensor(&[2i32, 2, 3], [3])?; // rows 0 and 1; none; row 2
///
/// let x = x.transpose()?;
/// let grouped = depth(&x).in_groups_to(&ends);
/// let gemm = Gemm::plan::<Gradient>(&device, grouped, &dy)?;
/// let mut dw = device.zeros::<f32>([3, 2, 1])?;
/// gemm.run(grouped, &dy, Gradient { scale: 1.0, dw: &mut dw })?;
/// assert_eq!(dw.to_vec::<f32>()?, [31.0, 42.0, 0.0, 0.0, 500.0, 600.0]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Depth<'a> {
    tensor: &'a DeviceTensor,
}

/// K, to be divided into groups; see [`Depth`].
#[must_use]
pub const fn depth(a: &DeviceTensor) -> Depth<'_> {
    Depth { tensor: a }
}

impl<'a> Depth<'a> {
    const fn grouped(self, tensor: &'a DeviceTensor, form: BoundsForm) -> Left<'a> {
        Left::read(self.tensor, TensorReading::Groups(Bounds { tensor, form, of_depth: true }))
    }

    /// Groups from one offset to the next: `offsets` is `[G + 1]` of i32.
    #[must_use]
    pub const fn in_groups(self, offsets: &'a DeviceTensor) -> Left<'a> {
        self.grouped(offsets, BoundsForm::Offsets)
    }

    /// Groups that follow each other from index 0, given by their ends: `ends` is `[G]` of i32.
    #[must_use]
    pub const fn in_groups_to(self, ends: &'a DeviceTensor) -> Left<'a> {
        self.grouped(ends, BoundsForm::Ends)
    }
}
