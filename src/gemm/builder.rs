//! The description of a plan, step by step.

use std::fmt;
use std::marker::PhantomData;

use epilogue_runtime::Device;

use super::description::Description;
use super::devices::Choice;
use super::kernel::{Finish, SplitK};
use super::model::Candidate;
use super::planned::Gemm;
use super::planner::Planner;
use super::problem::{Arithmetic, Error, Left, OperandLayout, PatchBoxes, Problem, Property, Quantization, Right};
#[cfg(doc)]
use super::support::supports;
use super::{Tile, sm90};
use crate::evt::Tree;
use crate::level;
use crate::tuning::Tuning;
use crate::{ElementType, Epilogue};

/// Describes a [`Gemm`] before it is planned: for products whose tensors don't exist yet, and for choices that the
/// model would make otherwise.
///
/// Element types and extents are required. Layouts of A and B, arithmetic, tile, stages and split-K are optional.
///
/// ```
/// use epilogue::gemm::{Builder, Major, OperandLayout, SplitK};
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn scaled(accum: Accum, alpha: Scalar) -> Tensor {
///     let d = alpha * accum;
///     d
/// }
///
/// // B lies as the weights of a linear layer do, `[N, K]`.
/// fn layer(device: &Device) -> Builder<Scaled> {
///     let rows = OperandLayout::packed(Major::K);
///     let builder = Gemm::builder::<Scaled>(device).elements(ElementType::F32, ElementType::F32);
///     builder.problem(2, 3, 8192).layouts(rows, rows)
/// }
///
/// let device = Device::cpu();
/// let gemm = layer(&device).plan()?;
/// let (x, weights) = (device.full::<f32>([2, 4], 1.0)?, device.full::<f32>([3, 4], 0.5)?);
/// let mut y = device.zeros::<f32>([2, 3])?;
/// gemm.run(&x, &weights.transpose()?, Scaled { alpha: 3.0, d: &mut y })?;
/// assert_eq!(y.to_vec::<f32>()?, [6.0; 6]);
///
/// // What a device doesn't have is refused by name, or left out where the description is for several devices.
/// let split = layer(&device).split_k(SplitK::Parallel(8));
/// assert!(split.choose().unwrap_err().to_string().starts_with("`.split_k(…)` has no effect on the CPU"));
/// assert!(split.ignore_unsupported_knobs().choose().is_ok());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Builder<E = ()> {
    pub(super) planner: Planner,
    epilogue: PhantomData<fn() -> E>,
}

impl Gemm<()> {
    /// Plans the product of tensors like `a` (`[M, K]` or `[L, M, K]`) and `b` (`[K, N]` or `[L, K, N]`; one for each
    /// of several accumulators, see [`Right`](super::Right)) with the epilogue `E`: validates the tree, chooses a
    /// kernel for these extents, layouts and types, and compiles it or finds it in the disk cache.
    ///
    /// # Errors
    /// [`Error`]: a tree that does not fit the types, shapes that don't multiply, NVRTC missing.
    pub fn plan<'a, 'b, E: Epilogue>(
        device: &Device,
        a: impl Into<Left<'a>>,
        b: impl Into<Right<'b>>,
    ) -> Result<Gemm<E>, Error> {
        Self::builder::<E>(device).operands(a, b)?.plan()
    }

    /// [`plan`](Self::plan) for an epilogue whose type has no name, such as that of `closure!`.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn plan_for<'a, 'b, E: Epilogue>(
        device: &Device,
        a: impl Into<Left<'a>>,
        b: impl Into<Right<'b>>,
        _epilogue: &E,
    ) -> Result<Gemm<E>, Error> {
        Self::plan(device, a, b)
    }

    /// Describes a plan step by step: other layouts, tile, split-K, arithmetic.
    #[must_use]
    pub fn builder<E: Epilogue>(device: &Device) -> Builder<E> {
        Builder::new(device, E::tree())
    }
}

// Written by hand, because the derived implementations would require an epilogue that can be cloned and printed.
impl<E> Clone for Builder<E> {
    fn clone(&self) -> Self {
        Self { planner: self.planner.clone(), epilogue: PhantomData }
    }
}

impl<E> fmt::Debug for Builder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("planner", &self.planner).finish()
    }
}

impl<E> Builder<E> {
    /// A builder for a tree that is built at run time; [`Gemm::run_bound`] runs it.
    #[must_use]
    pub fn new(device: &Device, tree: Tree) -> Self {
        Self { planner: Planner::new(device, tree), epilogue: PhantomData }
    }

    /// Extents, element types and layouts are those of `a` and `b`.
    ///
    /// # Errors
    /// [`Error::RightCount`]; the errors of [`Problem::of`].
    pub fn operands<'a, 'b>(mut self, a: impl Into<Left<'a>>, b: impl Into<Right<'b>>) -> Result<Self, Error> {
        self.planner.take_operands(a.into(), &b.into())?;
        Ok(self)
    }

    /// The extents for which a kernel is chosen; the plan also runs others.
    #[must_use]
    pub fn problem(self, m: usize, n: usize, k: usize) -> Self {
        self.with_problem(|problem| Problem { m, n, k, ..problem })
    }

    /// The extents, and how A is read.
    #[must_use]
    pub(crate) fn of_problem(self, problem: Problem) -> Self {
        self.with_problem(|_| problem)
    }

    /// The number of products, along a leading batch axis.
    #[must_use]
    pub fn batch(self, batch: usize) -> Self {
        self.with_problem(|problem| problem.batched(batch))
    }

    /// The number of groups among which the M rows are divided; see [`rows`](super::rows).
    #[must_use]
    pub fn groups(self, groups: usize) -> Self {
        self.with_reading(Property::Groups, |problem| problem.in_groups(groups))
    }

    /// An index picks the M rows from A; see [`Rows::picked`](super::Rows::picked).
    #[must_use]
    pub fn picked_rows(self) -> Self {
        self.with_reading(Property::PickedRows, Problem::of_picked_rows)
    }

    /// That A and B are of FP8 and have scales of blocks; see [`Scaled`](super::Scaled).
    #[must_use]
    pub fn block_scales(self) -> Self {
        self.with_problem(Problem::of_scaled_operands)
    }

    /// An index places the M rows in the outputs; see [`Rows::scattered`](super::Rows::scattered).
    #[must_use]
    pub fn scattered_rows(self) -> Self {
        self.with_problem(Problem::of_scattered_rows)
    }

    /// The number of groups, each with a matrix of M rows; a group's rows are its first ones. See
    /// [`rows`](super::rows).
    #[must_use]
    pub fn padded_groups(self, groups: usize) -> Self {
        self.with_reading(Property::PaddedGroups, |problem| problem.in_padded_groups(groups))
    }

    /// The number of groups among which K is divided; see [`depth`](super::depth).
    #[must_use]
    pub fn depth_groups(self, groups: usize) -> Self {
        self.with_reading(Property::DepthGroups, |problem| problem.in_depth_groups(groups))
    }

    /// That A is patches of images, which have this many elements; see [`patches`](super::patches()). M is the number of
    /// outputs and K that of a patch's elements. If the patches are [transposed](super::transposed_patches), A's layout is
    /// contiguous along M; else along K. With [groups](super::Window::groups) of channels, these are the [batch](Self::batch), and
    /// M, N, K and the elements those of one.
    #[must_use]
    pub fn patches(self, elements: usize) -> Self {
        self.with_reading(Property::Patches, |problem| problem.of_patches(elements))
    }

    /// That tensor copies load the patches so; without it, plans by extents have kernels for sm_80, on sm_90a, too.
    /// [`operands`](Self::operands) finds it.
    #[must_use]
    pub fn patch_boxes(self, boxes: PatchBoxes) -> Self {
        self.with_reading(Property::Patches, |problem| problem.in_boxes(boxes))
    }

    /// Element types of A and B.
    #[must_use]
    pub fn elements(mut self, a: ElementType, b: ElementType) -> Self {
        self.planner.description.elements = Some((a, b));
        self
    }

    /// The layouts of A and B in memory; packed row-major by default.
    #[must_use]
    pub fn layouts(mut self, a: OperandLayout, b: OperandLayout) -> Self {
        self.planner.description.settings.layouts = (a, b);
        self
    }

    /// Gives B weights that are quantised so; see [`quantized`](super::quantized). Both element types are then A's.
    ///
    /// ```
    /// use epilogue::gemm::{CodeType, Quantization, ZeroPoints};
    /// use epilogue::prelude::*;
    ///
    /// #[epilogue]
    /// fn plain(accum: Accum) -> Tensor {
    ///     accum
    /// }
    ///
    /// let zero_points = ZeroPoints::Each;
    /// let format = Quantization { codes: CodeType::Uint4, scales: ElementType::BF16, zero_points, group: Some(64) };
    /// let builder = Gemm::builder::<Plain>(&Device::cpu()).elements(ElementType::BF16, ElementType::BF16);
    /// assert!(builder.problem(8, 4096, 4096).weights(format).choose().is_ok());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn weights(self, quantization: Quantization) -> Self {
        self.with_problem(|problem| problem.of_weights(quantization))
    }

    /// How the product is computed; by default as exactly as the operands allow.
    #[must_use]
    pub fn arithmetic(mut self, arithmetic: Arithmetic) -> Self {
        self.planner.description.settings.arithmetic = arithmetic;
        self
    }

    /// The tile of a kernel for sm_80 and later: one of [`Tile::all`], with any number of stages. On the CPU, its `m`
    /// and `n` are the tile of per-tile partials; the CPU has no kernels, and refuses the other knobs.
    #[must_use]
    pub fn tile(mut self, tile: Tile) -> Self {
        self.planner.description.request.pins.tile = Some(tile);
        self
    }

    /// Some knobs of a kernel for sm_90a (see [`sm90::Request`]). The model chooses the others; a request without a
    /// kernel is refused.
    #[must_use]
    pub fn sm90(mut self, request: sm90::Request) -> Self {
        self.planner.description.request.pins.sm90 = Some(request);
        self
    }

    /// Some knobs of a kernel for sm_100a, which has those of sm_90a. The model chooses the others; a request without a kernel
    /// is refused.
    #[must_use]
    pub fn sm100(mut self, request: sm90::Request) -> Self {
        self.planner.description.request.pins.sm100 = Some(request);
        self
    }

    /// Exactly this kernel, one of the [candidates](Choice::candidates) for this very product: for measuring one
    /// candidate after another.
    #[must_use]
    pub fn candidate(mut self, candidate: &Candidate) -> Self {
        self.planner.description.request.exact = Some((candidate.key, candidate.split_k));
        self
    }

    /// The number of pipeline stages: 2 to 8; on sm_90a as many as fit in shared memory, up to 16.
    #[must_use]
    pub fn stages(mut self, stages: usize) -> Self {
        self.planner.description.request.stages = Some(stages);
        self
    }

    /// How K is shared among blocks.
    #[must_use]
    pub fn split_k(mut self, split_k: SplitK) -> Self {
        self.planner.description.request.split_k = Some(split_k);
        self
    }

    /// Where later phases of an epilogue are computed. (They need the epilogue's own reductions, as a softmax does.)
    /// They run in the tile, if whole rows lie in one; in the tiles of a cluster, if rows lie in these (on sm_90a); or
    /// in launches of their own. Without this knob the model takes what it predicts to be fastest. A run with rows
    /// wider than the plan's tiles uses launches.
    ///
    /// ```
    /// use epilogue::gemm::{Builder, Error, Finish};
    /// use epilogue::prelude::*;
    ///
    /// #[epilogue]
    /// fn softmax(accum: Accum) -> Tensor {
    ///     let e = exp(accum - reduction_op(accum, Row, Max));
    ///     let d = e / reduction_op(e, Row, Add);
    ///     d
    /// }
    ///
    /// let device = Device::emulated(Arch::SM_90A)?;
    /// let scores = |n| Gemm::builder::<Softmax>(&device).elements(ElementType::BF16, ElementType::BF16).problem(4096, n, 64);
    /// assert!(scores(256).choose()?.kernel().is_some_and(|kernel| kernel.key.in_tile()));
    /// let in_cluster = scores(1024).finish(Finish::Cluster).choose()?;
    /// assert!(in_cluster.to_string().contains("whose blocks exchange their parts of whole lines"));
    /// let refused = scores(8192).finish(Finish::Tile).choose().unwrap_err();
    /// assert!(refused.to_string().contains("rows of 8192 columns are wider than a tile of 256"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn finish(mut self, finish: Finish) -> Self {
        self.planner.description.request.finish = Some(finish);
        self
    }

    /// How many SMs a persistent kernel may fill on sm_90a; all by default. The rest is left to other streams.
    /// Persistent are the kernels for sm_90a, and those for sm_80 with stream-K: their blocks take one tile after
    /// another.
    #[must_use]
    pub fn multiprocessors(mut self, multiprocessors: usize) -> Self {
        self.planner.description.multiprocessors = Some(multiprocessors);
        self
    }

    /// Whether the epilogue may use approximate instructions for outputs of any type.
    #[must_use]
    pub fn fast_math(mut self, fast_math: bool) -> Self {
        self.planner.description.settings.switches.fast_math = fast_math;
        self
    }

    /// Whether a kernel for sm_90a may begin while the kernel before it on the stream is finishing (programmatic
    /// dependent launch). It initialises its barriers, then waits (`griddepcontrol.wait`) until everything that was
    /// launched before is complete and visible. It lets the next kernel begin as soon as its last loads are issued. The
    /// results are the same; some microseconds between two runs are saved. Kernels of the other family wait as always.
    #[must_use]
    pub fn dependent_launch(mut self, dependent_launch: bool) -> Self {
        self.planner.description.settings.switches.dependent_launch = dependent_launch;
        self
    }

    /// Choices of the CPU device: whether and when the epilogue becomes machine code, and how results are stored. GPUs
    /// have none of them.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.planner.description.tuning = tuning;
        self
    }

    /// Ignores, without an error, the knobs that the device doesn't have: for one description of a plan that is tuned
    /// for some devices and also runs on others. Otherwise they are refused by name. Operand types, and values that a
    /// knob of the device doesn't have, are always refused. [`supports`] says what every device has.
    #[must_use]
    pub fn ignore_unsupported_knobs(mut self) -> Self {
        self.planner.ignore_unsupported = true;
        self
    }

    /// Chooses a kernel, without compiling it.
    ///
    /// # Errors
    /// [`Error`], as [`plan`](Self::plan), without those of compilation.
    pub fn choose(&self) -> Result<Choice, Error> {
        level::on(&self.planner.device, || self.planner.choose())
    }

    /// Chooses a kernel, and compiles it or finds it in the disk cache or in the device's [bundles](crate::bundle). A
    /// device keeps its last 64 plans, so planning the same again is only a lookup.
    ///
    /// # Errors
    /// [`Error`]: a missing setting; a tree that does not fit the types; a tile that doesn't exist; NVRTC missing; a
    /// bundle without the kernel.
    pub fn plan(self) -> Result<Gemm<E>, Error> {
        let device = self.planner.device.clone();
        Ok(Gemm::of(level::on(&device, || self.planner.plan())?))
    }

    fn with_problem(mut self, change: impl FnOnce(Problem) -> Problem) -> Self {
        let problem = &mut self.planner.description.problem;
        *problem = Some(change(problem.unwrap_or(Problem::new(0, 0, 0))));
        self
    }

    /// Changes how A is read. Properties that exclude each other are remembered, for the plan to refuse.
    fn with_reading(mut self, property: Property, change: impl FnOnce(Problem) -> Problem) -> Self {
        let Description { problem, asked, .. } = &mut self.planner.description;
        *asked = problem.map(|problem| problem.properties()).unwrap_or_default().and(*asked).asked(property);
        self.with_problem(change)
    }
}
