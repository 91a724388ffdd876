//! The description of a plan, step by step.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use epilogue_runtime::{Device, trace};

use super::autotune::{Found, Store};
use super::bundled::among_bundled;
use super::kernel::sm80::Tile;
use super::kernel::{Finish, Settings, SplitK, Switches};
use super::model::choice::{Chosen, ChosenKernel, Tuning};
use super::model::select::{Request, Selection};
use super::model::{Candidate, Choice, Later, Machine};
use super::planned::Gemm;
use super::problem::operand::common_layout;
use super::problem::{
    Arithmetic, Error, Grouping, Knob, Left, MAX_EXTENT, Major, OperandLayout, PatchBoxes, PatchError, Problem, Right,
};
use super::problem::{block_scales, picked, scattered};
use super::remembered::{Question, Remembered};
use super::run::check;
use super::run::plan::Plan;
use super::support::supports;
use super::{autotune, cpu, sm90};
use crate::evt::{Phases, Prices, Tree, Types, ValidTree};
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
    device: Device,
    tree: Tree,
    problem: Option<Problem>,
    elements: Option<(ElementType, ElementType)>,
    layouts: (OperandLayout, OperandLayout),
    arithmetic: Arithmetic,
    request: Request,
    switches: Switches,
    multiprocessors: Option<usize>,
    ignore_unsupported: bool,
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

    /// [`plan`](Self::plan) for an epilogue whose type has no name, such as that of `epilogue!`.
    ///
    /// # Errors
    /// Those of [`plan`](Self::plan).
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
        Self { device: self.device.clone(), tree: self.tree.clone(), epilogue: PhantomData, ..*self }
    }
}

impl<E> fmt::Debug for Builder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, tree, problem, elements, layouts, arithmetic, request, switches, multiprocessors, .. } =
            self;
        f.debug_struct("Builder")
            .field("device", device)
            .field("tree", tree)
            .field("problem", problem)
            .field("elements", elements)
            .field("layouts", layouts)
            .field("arithmetic", arithmetic)
            .field("request", request)
            .field("switches", switches)
            .field("multiprocessors", multiprocessors)
            .field("ignore_unsupported", &self.ignore_unsupported)
            .finish()
    }
}

impl<E> Builder<E> {
    /// A builder for a tree that is built at run time; [`Gemm::run_bound`] runs it.
    #[must_use]
    pub fn new(device: &Device, tree: Tree) -> Self {
        Self {
            device: device.clone(),
            tree,
            problem: None,
            elements: None,
            layouts: (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn)),
            arithmetic: Arithmetic::default(),
            request: Request::default(),
            switches: Switches::default(),
            multiprocessors: None,
            ignore_unsupported: false,
            epilogue: PhantomData,
        }
    }

    /// Extents, element types and layouts are those of `a` and `b`.
    ///
    /// # Errors
    /// [`Error::RightCount`]; the errors of [`Problem::of`].
    pub fn operands<'a, 'b>(mut self, a: impl Into<Left<'a>>, b: impl Into<Right<'b>>) -> Result<Self, Error> {
        let (a, b) = (a.into(), b.into());
        b.check_count(self.tree.name(), self.tree.accumulators())?;
        self.problem = Some(Problem::of(a, b.clone())?);
        self.elements = Some((a.tensor().element_type(), b.first()?.element_type()));
        let matrices = a.patches()?.map(|patches| patches.matrices(b.tensors())).transpose()?;
        let views = matrices.as_ref().map_or_else(|| b.views(), |matrices| b.as_matrices(matrices).views());
        self.layouts = (a.layout()?, a.layout_of_b(common_layout(&views), b.first()?.element_type()));
        Ok(self)
    }

    /// The extents for which a kernel is chosen; the plan also runs others.
    #[must_use]
    pub fn problem(mut self, m: usize, n: usize, k: usize) -> Self {
        self.problem = Some(Problem { m, n, k, ..self.problem.unwrap_or(Problem::new(0, 0, 0)) });
        self
    }

    /// The number of products, along a leading batch axis.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).batched(batch));
        self
    }

    /// The number of groups among which the M rows are divided; see [`rows`](super::rows).
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).in_groups(groups));
        self
    }

    /// An index picks the M rows from A; see [`Rows::picked`](super::Rows::picked).
    #[must_use]
    pub fn picked_rows(mut self) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).of_picked_rows());
        self
    }

    /// That A and B are of FP8 and have scales of blocks; see [`Scaled`](super::Scaled).
    #[must_use]
    pub fn block_scales(mut self) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).of_scaled_operands());
        self
    }

    /// An index places the M rows in the outputs; see [`Rows::scattered`](super::Rows::scattered).
    #[must_use]
    pub fn scattered_rows(mut self) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).of_scattered_rows());
        self
    }

    /// The number of groups with a matrix of M rows each, of which they have the first; see [`rows`](super::rows).
    #[must_use]
    pub fn padded_groups(mut self, groups: usize) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).in_padded_groups(groups));
        self
    }

    /// The number of groups among which K is divided; see [`depth`](super::depth).
    #[must_use]
    pub fn depth_groups(mut self, groups: usize) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).in_depth_groups(groups));
        self
    }

    /// That A is patches of images, which have this many elements; see [`patches`](super::patches()). M is the number of
    /// outputs and K that of a patch's elements. If the patches are [transposed](super::transposed_patches), A's layout is
    /// contiguous along M; else along K. With [groups](super::Window::groups) of channels, these are the [batch](Self::batch), and
    /// M, N, K and the elements those of one.
    #[must_use]
    pub fn patches(mut self, elements: usize) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).of_patches(elements));
        self
    }

    /// That tensor copies load the patches so; without it, plans by extents have kernels for sm_80, on sm_90a, too.
    /// [`operands`](Self::operands) finds it.
    #[must_use]
    pub fn patch_boxes(mut self, boxes: PatchBoxes) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).in_boxes(boxes));
        self
    }

    /// Element types of A and B.
    #[must_use]
    pub fn elements(mut self, a: ElementType, b: ElementType) -> Self {
        self.elements = Some((a, b));
        self
    }

    /// The layouts of A and B in memory; packed row-major by default.
    #[must_use]
    pub fn layouts(mut self, a: OperandLayout, b: OperandLayout) -> Self {
        self.layouts = (a, b);
        self
    }

    /// How the product is computed; by default as exactly as the operands allow.
    #[must_use]
    pub fn arithmetic(mut self, arithmetic: Arithmetic) -> Self {
        self.arithmetic = arithmetic;
        self
    }

    /// The tile of a kernel for sm_80 and later, one of those that [`Tile::all`] lists (with any number of stages). On
    /// the CPU, its `m` and `n` are the tile of per-tile partials; the CPU has no kernels, and refuses the other knobs.
    #[must_use]
    pub fn tile(mut self, tile: Tile) -> Self {
        self.request.sm80 = Some(tile);
        self
    }

    /// Some knobs of a kernel for sm_90a (see [`sm90::Request`]). The model chooses the others; a request without a
    /// kernel is refused.
    #[must_use]
    pub fn sm90(mut self, request: sm90::Request) -> Self {
        self.request.sm90 = Some(request);
        self
    }

    /// Exactly this kernel, one of the [candidates](Choice::candidates) for this very product: for measuring one
    /// candidate after another.
    #[must_use]
    pub fn candidate(mut self, candidate: &Candidate) -> Self {
        self.request.exact = Some((candidate.key, candidate.split_k));
        self
    }

    /// The number of pipeline stages: 2 to 8; on sm_90a as many as fit in shared memory, up to 16.
    #[must_use]
    pub fn stages(mut self, stages: usize) -> Self {
        self.request.stages = Some(stages);
        self
    }

    /// How K is shared among blocks.
    #[must_use]
    pub fn split_k(mut self, split_k: SplitK) -> Self {
        self.request.split_k = Some(split_k);
        self
    }

    /// Where later phases of an epilogue are computed, which need its own reductions, as a softmax's do: in the tile, where
    /// whole rows lie in one; in the tiles of a cluster, where they lie in these (on sm_90a); or in launches of their own.
    /// Without it the model takes what it predicts to be fastest; and a run whose rows are wider than the plan's tiles goes on
    /// in launches.
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
        self.request.finish = Some(finish);
        self
    }

    /// On sm_90a, how many multiprocessors a persistent kernel may fill, whose blocks take one tile after another
    /// (those for sm_90a, and those for sm_80 with stream-K); by default all. The rest is left to other streams.
    #[must_use]
    pub fn multiprocessors(mut self, multiprocessors: usize) -> Self {
        self.multiprocessors = Some(multiprocessors);
        self
    }

    /// Whether the epilogue may use approximate instructions for outputs of any type.
    #[must_use]
    pub fn fast_math(mut self, fast_math: bool) -> Self {
        self.switches.fast_math = fast_math;
        self
    }

    /// Whether a kernel for sm_90a may begin while the kernel before it on the stream is finishing (programmatic
    /// dependent launch). It initialises its barriers, then waits (`griddepcontrol.wait`) until everything that was
    /// launched before is complete and visible. It lets the next kernel begin as soon as its last loads are issued. The
    /// results are the same; some microseconds between two runs are saved. Kernels of the other family wait as always.
    #[must_use]
    pub fn dependent_launch(mut self, dependent_launch: bool) -> Self {
        self.switches.dependent_launch = dependent_launch;
        self
    }

    /// Ignores, without an error, the knobs that the device doesn't have: for one description of a plan that is tuned
    /// for some devices and also runs on others. Otherwise they are refused by name. Operand types, and values that a
    /// knob of the device doesn't have, are always refused. [`supports`] says what every device has.
    #[must_use]
    pub fn ignore_unsupported_knobs(mut self) -> Self {
        self.ignore_unsupported = true;
        self
    }

    /// The knobs that were set.
    fn knobs(&self) -> impl Iterator<Item = Knob> + use<E> {
        let Request { sm80, sm90, exact, stages, split_k, finish } = &self.request;
        let turned = [
            (Knob::Tile, sm80.is_some()),
            (Knob::Stages, stages.is_some()),
            (Knob::SplitK, matches!(split_k, Some(SplitK::Serial(_) | SplitK::Parallel(_)))),
            (Knob::StreamK, matches!(split_k, Some(SplitK::Stream))),
            (Knob::Sm90, sm90.is_some()),
            (Knob::Candidate, exact.is_some()),
            (Knob::Multiprocessors, self.multiprocessors.is_some()),
            (Knob::FastMath, self.switches.fast_math),
            (Knob::DependentLaunch, self.switches.dependent_launch),
            (Knob::Finish, finish.is_some()),
        ];
        turned.into_iter().filter(|(_, is_turned)| *is_turned).map(|(knob, _)| knob)
    }

    /// Unsets a knob.
    fn reset(&mut self, knob: Knob) {
        match knob {
            Knob::Tile => self.request.sm80 = None,
            Knob::Stages => self.request.stages = None,
            Knob::SplitK | Knob::StreamK => self.request.split_k = None,
            Knob::Sm90 => self.request.sm90 = None,
            Knob::Candidate => self.request.exact = None,
            Knob::Multiprocessors => self.multiprocessors = None,
            Knob::FastMath => self.switches.fast_math = false,
            Knob::DependentLaunch => self.switches.dependent_launch = false,
            Knob::Finish => self.request.finish = None,
        }
    }

    /// The same builder without the knobs that the device doesn't have.
    ///
    /// # Errors
    /// [`Error::NoKnob`] unless they are to be ignored.
    fn for_its_device(mut self) -> Result<Self, Error> {
        for knob in self.knobs() {
            match supports(&self.device, knob) {
                Ok(()) => {}
                Err(_) if self.ignore_unsupported => self.reset(knob),
                Err(error) => return Err(error),
            }
        }
        if let (Some(problem), Some((a, b))) = (self.problem, self.elements) {
            self.layouts.0 = self.layouts.0.of_a_in_groups(problem.grouping, a);
            self.layouts.1 = self.layouts.1.of_b_in_groups(problem.grouping, b);
        }
        Ok(self)
    }

    /// Validates the tree for the element types, without a device.
    fn validated(&self) -> Result<ValidTree, Error> {
        let (a, b) = self.elements.ok_or(Error::Incomplete { what: "the element types", method: "elements" })?;
        Ok(self.tree.validate(Types::new(a, b))?)
    }

    /// Chooses a kernel, without compiling it.
    ///
    /// # Errors
    /// [`Error`], as [`plan`](Self::plan), without those of compilation.
    pub fn choose(&self) -> Result<Choice, Error> {
        Ok(self.clone().for_its_device()?.decide()?.2)
    }

    fn decide(&self) -> Result<(Phases, Problem, Choice), Error> {
        let machine = Machine::of(self.device.properties());
        let prices = if machine.is_some() { Prices::GPU } else { Prices::CPU };
        let phases = Phases::of(self.validated()?, prices);
        let tree = phases.first();
        let problem = self.problem.ok_or(Error::Incomplete { what: "the extents", method: "problem" })?;
        problem.check_extents()?;
        if phases.parts.len() > 1 && problem.grouping != Grouping::None {
            return Err(Error::GroupedPhases { epilogue: tree.name(), divided: problem.grouping.divided() });
        }
        if problem.patches.is_some() && problem.grouping != Grouping::None {
            return Err(PatchError::Groups { divided: problem.grouping.divided() }.into());
        }
        if problem.patches.is_some() && problem.picked {
            return Err(PatchError::Picked.into());
        }
        if problem.picked {
            picked::check(self.layouts.0, problem.grouping)?;
        }
        if problem.scattered {
            scattered::check(problem.grouping, problem.batched, problem.patches.is_some())?;
            check::scattered(&phases.tree)?;
        }
        let types = tree.types();
        problem.check_scaled()?;
        if problem.scaled {
            block_scales::check_types((types.a, types.b), self.arithmetic)?;
        }
        self.check_request(types)?;
        let choice = match machine {
            Some(machine) => self.choose_kernel(&machine, &phases, problem)?,
            None => Choice { kind: self.choose_cpu(types, problem, &phases)?, later: None, not_in_tile: None },
        };
        Ok((phases, problem, choice))
    }

    /// Checks the operands' types and layouts, and how much of the device may be filled.
    fn check_request(&self, types: Types) -> Result<(), Error> {
        supports(&self.device, (types.a, types.b, self.arithmetic))?;
        for (operand, layout, element) in [("A", self.layouts.0, types.a), ("B", self.layouts.1, types.b)] {
            layout.check(operand, element)?;
        }
        match self.multiprocessors {
            Some(0) => {
                Err(Error::Count { what: "the number of multiprocessors", given: 0, least: 1, most: usize::MAX })
            }
            _ => Ok(()),
        }
    }

    fn choose_cpu(&self, types: Types, problem: Problem, phases: &Phases) -> Result<Chosen, Error> {
        let Some(Tile { m, n, .. }) = self.request.sm80 else {
            let Problem { m, n, k, batch, .. } = problem.shared_alike();
            let accumulators = phases.first().cost().products();
            let cpu::TileShape { m, n } =
                cpu::choose_tile((types.a, types.b), [m, n, k], batch, accumulators, phases.kept_bytes());
            return Ok(Chosen::Cpu { tile: (m, n) });
        };
        for (what, given) in [("the tile's number of rows", m), ("the tile's number of columns", n)] {
            if !(1..=MAX_EXTENT).contains(&given) {
                return Err(Error::Count { what, given, least: 1, most: MAX_EXTENT });
            }
        }
        Ok(Chosen::Cpu { tile: (m, n) })
    }

    fn choose_kernel(&self, machine: &Machine, phases: &Phases, problem: Problem) -> Result<Choice, Error> {
        let (layouts, arithmetic, tree) = (self.layouts, self.arithmetic, phases.first());
        let later = Later::of(machine, phases, &problem);
        let microseconds = later.as_ref().map_or(0.0, |later| later.microseconds);
        let selection = Selection { machine, phases, problem, layouts, arithmetic, later: microseconds };
        let mut chosen = selection.choose(&self.request, self.switches)?;
        let settings = Settings { layouts, arithmetic, switches: self.switches };
        if !chosen.asked
            && let (Some(store), Some(subject)) =
                (Store::of_user(), autotune::subject(&self.device, tree, &problem, settings))
        {
            match store.find(&subject, &chosen.candidates) {
                Found::Nothing => {}
                Found::Winner(winner, microseconds) => {
                    chosen = ChosenKernel { chosen: *winner, tuning: Tuning::Measured { microseconds }, ..chosen };
                }
                Found::Ignored(reason) => chosen.tuning = Tuning::Ignored { reason },
            }
        }
        let chosen = among_bundled(&self.device, phases, &problem, chosen);
        let in_tile = chosen.candidates.iter().any(|candidate| candidate.key.in_tile());
        let not_in_tile = if in_tile { None } else { selection.why_not_in_tile() };
        Ok(Choice { kind: Chosen::Gpu(Box::new(chosen)), later, not_in_tile })
    }

    /// Chooses a kernel, and compiles it or finds it in the disk cache or in the device's [bundles](crate::bundle). A
    /// device keeps its last 64 plans, so planning the same again is only a lookup.
    ///
    /// # Errors
    /// [`Error`]: a missing setting; a tree that does not fit the types; a tile that doesn't exist; NVRTC missing; a
    /// bundle without the kernel.
    pub fn plan(self) -> Result<Gemm<E>, Error> {
        let plan = self.for_its_device()?;
        let Problem { m, n, k, batch, .. } = plan.problem.unwrap_or(Problem::new(0, 0, 0));
        let (epilogue, device) = (plan.tree.name(), trace::text(&plan.device));
        let _span =
            trace::span!(DEBUG, "plan", epilogue = epilogue, device = device, m = m, n = n, k = k, batch = batch);
        let (remembered, question) = (plan.device.kept::<Remembered>(), plan.question());
        if let Some(made) = remembered.plan(&plan.device, &question) {
            trace::event!(DEBUG, "planned before", choice = trace::text(&made.choice));
            return Ok(Gemm::of(made));
        }
        let (phases, problem, choice) = plan.decide()?;
        trace::event!(DEBUG, "choice", choice = trace::text(&choice), candidates = choice.candidates().len());
        let settings = Settings { layouts: plan.layouts, arithmetic: plan.arithmetic, switches: plan.switches };
        let made = Plan::new(plan.device, Arc::new(phases), problem, settings, choice, plan.multiprocessors)?;
        remembered.note(question, &made);
        Ok(Gemm::of(made))
    }

    /// Everything that determines a plan for the device.
    pub(super) fn question(&self) -> Question {
        Question {
            problem: self.problem,
            elements: self.elements,
            layouts: self.layouts,
            arithmetic: self.arithmetic,
            request: self.request,
            switches: self.switches,
            multiprocessors: self.multiprocessors,
            bundles: self.device.bundles().len(),
            tree: self.tree.clone(),
            literals: Question::literals(&self.tree),
        }
    }
}
