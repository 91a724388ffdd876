//! A plan: the choice of a kernel, its variants, and runs. (Which variant a run takes is in [`wanted`](super::wanted).)

use std::sync::{Arc, OnceLock};

use epilogue_runtime::{Device, DeviceTensor, Stream, trace};
use smallvec::SmallVec;

use super::check;
use super::cpu_words::cpu_words;
use super::groups::read_groups;
use super::images::with_matrices;
use super::later::{self, LaterKernel, SlotTensors};
use super::launch::Run;
use super::merged::{Copied, Copies, Merger};
use super::picked::read_picked;
use super::repack::{CopyKernels, Operand, Repacker};
use super::scales::Scales;
use super::scattered::Placed;
use super::variant::Variant;
use super::workspace::Workspace;
use crate::evt::{InTile, MAX_ACCUMULATORS, Pass, Phases, ValidOutput, ValidTree};
use crate::gemm::cpu;
use crate::gemm::families::KernelKey;
use crate::gemm::kernel::launch::LaunchDescription;
use crate::gemm::kernel::loading::{Loading, loads};
use crate::gemm::kernel::{ArgumentViews, Settings, Within};
use crate::gemm::model::Choice;
use crate::gemm::model::choice::{Chosen, ChosenKernel};
use crate::gemm::problem::digits::has_batch_digits;
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::picked::Picked;
use crate::gemm::problem::reading::TensorReading;
use crate::gemm::problem::{
    Arithmetic, Error, Left, Major, OperandLayout, Problem, Right, RowsError, ScaleError, ScatterError,
};
use crate::pool::Pool;
use crate::variants::Variants;
use crate::{Argument, ElementType};

/// A plan, without the type of its epilogue.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) device: Device,
    /// The epilogue, whole and in the parts that run.
    pub(crate) phases: Arc<Phases>,
    /// The product that it was planned for; a run may have other extents.
    pub(crate) problem: Problem,
    /// Explicit settings from the builder.
    pub(crate) settings: Settings,
    pub(crate) choice: Choice,
    /// By key, and by the arguments that are no plain matrices.
    pub(crate) variants: Variants<(KernelKey, ArgumentViews), Variant>,
    /// The planned variant; `None` on the CPU.
    pub(crate) planned: Option<Arc<Variant>>,
    /// The kernels of the launches after the product's; none on the CPU, nor where all phases are in the tile.
    pub(crate) later: Arc<[LaterKernel]>,
    /// The same, by number and by their arguments that are no plain matrices.
    later_variants: Variants<(usize, ArgumentViews), LaterKernel>,
    /// What parts leave for those after them.
    slots: Pool<Vec<DeviceTensor>>,
    /// One workspace pool per later kernel.
    later_workspaces: Vec<Pool<Workspace>>,
    /// The programs that run on the CPU.
    cpu_programs: cpu::Programs,
    /// A description of them, once it was asked for.
    cpu_words: OnceLock<String>,
    /// How many multiprocessors a persistent kernel may fill; `None` for all.
    pub(crate) multiprocessors: Option<usize>,
    workspaces: Pool<Workspace>,
    /// Copies operands whose batches have two strides.
    merger: Merger,
    /// Copies operands that the kernel can't load as they are.
    repacker: Repacker,
    /// The kernels of these copies.
    copy_kernels: CopyKernels,
}

impl Plan {
    /// The same plan with another kernel chosen.
    pub(crate) fn with(&self, chosen: ChosenKernel) -> Result<Self, Error> {
        let Self { device, phases, problem, settings, multiprocessors, .. } = self;
        let choice = Choice { kind: Chosen::Gpu(Box::new(chosen)), ..self.choice.clone() };
        Self::new(device.clone(), Arc::clone(phases), *problem, *settings, choice, *multiprocessors)
    }

    /// Makes a plan and compiles its kernels. Where the device can't run the clusters that the model chose, it chooses among
    /// those that every device can.
    pub(crate) fn new(
        device: Device,
        phases: Arc<Phases>,
        problem: Problem,
        settings: Settings,
        choice: Choice,
        multiprocessors: Option<usize>,
    ) -> Result<Self, Error> {
        let compile = |gpu: &ChosenKernel| {
            let (key, split_k) = (gpu.chosen.key, gpu.chosen.split_k);
            let views = ArgumentViews::planned_of_product(&phases, key.in_tile(), &problem)?;
            let variant = Variant::compile(&device, &phases, (&key, views), split_k, multiprocessors)?;
            let later = match key.in_tile() {
                true => Vec::new(),
                false => LaterKernel::compile_all(&device, &phases, &problem, key.fast_math())?,
            };
            Ok((variant, later))
        };
        let (choice, kernels) = match &choice.kind {
            Chosen::Cpu { .. } => (choice, None),
            Chosen::Gpu(gpu) => match compile(gpu) {
                Err(Error::NotInCluster { epilogue, reason }) => {
                    let Some(portable) = gpu.portable() else { return Err(Error::NotInCluster { epilogue, reason }) };
                    let kernels = compile(&portable)?;
                    let (kind, not_in_tile) = (Chosen::Gpu(Box::new(portable)), Some(reason));
                    (Choice { kind, not_in_tile, ..choice }, Some(kernels))
                }
                kernels => (choice, Some(kernels?)),
            },
        };
        let plan = Self::of_kernels(device, phases, problem, settings, choice, multiprocessors, kernels);
        plan.prepare_copies()?;
        Ok(plan)
    }

    /// A plan whose kernels are compiled: the product's, and those of the launches after it.
    pub(crate) fn of_kernels(
        device: Device,
        phases: Arc<Phases>,
        problem: Problem,
        settings: Settings,
        choice: Choice,
        multiprocessors: Option<usize>,
        kernels: Option<(Variant, Vec<LaterKernel>)>,
    ) -> Self {
        let (variant, later) = kernels.unzip();
        let later: Arc<[LaterKernel]> = later.unwrap_or_default().into();
        let (planned, variants) = (variant.map(Arc::new), Variants::default());
        if let Some(variant) = &planned {
            variants.put((variant.key, variant.views), Arc::clone(variant));
        }
        let repacker = Repacker::new(&device, multiprocessors);
        let later_workspaces = (1..phases.passes().len()).map(|_| Pool::default()).collect();
        let (workspaces, copy_kernels) = (Pool::default(), CopyKernels::default());
        Self {
            device,
            phases,
            later_workspaces,
            later,
            later_variants: Variants::default(),
            slots: Pool::default(),
            problem,
            settings,
            choice,
            variants,
            planned,
            cpu_programs: cpu::Programs::default(),
            cpu_words: OnceLock::new(),
            multiprocessors,
            workspaces,
            merger: Merger::default(),
            repacker,
            copy_kernels,
        }
    }

    /// Compiles the copies that come before a run with operands as planned. With a bundle, it must have all of them.
    fn prepare_copies(&self) -> Result<(), Error> {
        let Chosen::Gpu(gpu) = &self.choice.kind else { return Ok(()) };
        let Some(loading) = gpu.chosen.key.of_family().loading() else { return Ok(()) };
        if gpu.chosen.repacking.is_none() || self.problem.is_empty() {
            return Ok(());
        }
        let Problem { m, n, k, .. } = self.problem;
        let (types, (a, b)) = (self.tree().types(), self.settings.layouts);
        // All B have one layout, so one kernel copies them.
        for (operand, element, shape, layout, major) in
            [(Operand::A, types.a, [m, k], a, loading.majors.0), (Operand::B(0), types.b, [k, n], b, loading.majors.1)]
        {
            let mn_major = operand.takes_mn_major(loading.multiplied);
            let picks = self.problem.reading.is_picked() && !loading.reading.is_picked() && operand == Operand::A;
            if !picks && loads(mn_major, layout, major) {
                continue;
            }
            let index = picks.then(|| self.device.without_memory(ElementType::I32, [m])).transpose()?;
            let picked = index.as_ref().map(|index| Picked { index });
            // The kernel of a copy depends on which axis is contiguous.
            let along_k = matches!(layout.major, Major::K) == matches!(operand, Operand::A);
            let tensor = if along_k {
                self.device.without_memory(element, shape)?
            } else {
                self.device.without_memory(element, [shape[1], shape[0]])?.transpose()?
            };
            self.copy_kernels.prepare(&self.device, &tensor, operand, major, picked)?;
        }
        Ok(())
    }

    /// The epilogue.
    pub(crate) fn tree(&self) -> &ValidTree {
        &self.phases.tree
    }

    /// The text of the planned kernel; on the CPU, a description of what runs.
    pub(crate) fn source(&self) -> &str {
        match (&self.planned, &self.choice.kind) {
            (Some(variant), _) => &variant.emitted.source.code,
            (None, Chosen::Cpu { tile }) => self.cpu_words.get_or_init(|| cpu_words(&self.phases, *tile)),
            (None, Chosen::Gpu(_)) => "",
        }
    }

    pub(crate) fn run(
        &self,
        stream: &Stream,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<(), Error> {
        if stream.device() != &self.device {
            let (given, needed) = (stream.device().to_string(), self.device.to_string());
            return Err(Error::ForeignStream { given, needed });
        }
        check::operands(&self.device, self.tree(), a, b)?;
        self.check_packed(b)?;
        with_matrices(a, b, self.tree(), arguments, |a, b, arguments| self.run_product(stream, a, b, arguments))
    }

    /// [`run`](Self::run) with arguments that are matrices and vectors.
    fn run_product(
        &self,
        stream: &Stream,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<(), Error> {
        let problem = Problem::of(a, b.clone())?;
        self.check_reading(&problem)?;
        let tile = self.choice.tile();
        check::arguments(&self.device, self.tree(), &problem, tile, (a, b), arguments)?;
        let Problem { m, n, k, batch, .. } = problem;
        trace::event!(TRACE, "run", epilogue = self.tree().name(), m = m, n = n, k = k, batch = batch);
        match &self.choice.kind {
            // On the CPU there is nothing to compile.
            Chosen::Cpu { .. } if stream.is_dry() => Ok(()),
            Chosen::Cpu { tile: (m, n) } => {
                let tile = cpu::TileShape { m: *m, n: *n };
                let groups = read_groups(a, &problem)?;
                let picked = read_picked(a, &problem, groups.as_deref())?;
                let placed = Placed::read(a, self.tree(), groups.as_deref(), arguments)?;
                let groups = groups.as_deref().zip(problem.reading.grouping());
                let groups = groups.map(|(of, grouping)| cpu::Groups { of, grouping });
                let panels: SmallVec<[_; MAX_ACCUMULATORS]> =
                    b.packed().iter().map(|packed| packed.panels.as_deref()).collect();
                let scales = a.scales().map(|a| (a, b.scales()));
                let run = |a: Left<'_>, b: &[&DeviceTensor]| {
                    let (of_a, patches) = (a.tensor(), a.patches()?);
                    let execute = |arguments: &[Argument<'_>]| {
                        let operands = cpu::Operands { a: of_a, patches, b, panels: &panels, scales };
                        cpu::execute(&self.cpu_programs, &self.phases, operands, groups, arguments, tile)
                    };
                    placed.as_ref().map_or_else(|| execute(arguments), |placed| placed.write(arguments, execute))
                };
                let gathered = picked.map(|rows| cpu::gathered(a.tensor(), &rows)).transpose()?;
                let a = a.with_tensor(gathered.as_ref().unwrap_or(a.tensor()));
                match self.settings.arithmetic {
                    Arithmetic::FastBf16 => {
                        let rounded_a = cpu::rounded(a.tensor())?;
                        let rounded = |(i, tensor): (usize, &&DeviceTensor)| {
                            let before = b.packed().get(i).and_then(|packed| packed.rounded.clone());
                            before.map_or_else(|| cpu::rounded(tensor), Ok)
                        };
                        let b = b.tensors().iter().enumerate().map(rounded).collect::<Result<Vec<_>, _>>()?;
                        run(a.with_tensor(&rounded_a), &b.iter().collect::<Vec<_>>())
                    }
                    Arithmetic::Exact | Arithmetic::Tf32 | Arithmetic::FastFp8 => run(a, b.tensors()),
                }
            }
            Chosen::Gpu(gpu) if self.phases.parts.len() == 1 => {
                self.run_kernel(stream, problem, gpu, a, b, (arguments, &[]))
            }
            Chosen::Gpu(gpu) if !gpu.chosen.key.in_tile() => self.run_passes(stream, problem, gpu, a, b, arguments),
            Chosen::Gpu(gpu) => match self.beyond_tile(gpu, &problem, a, b, arguments)? {
                None => self.run_kernel(stream, problem, gpu, a, b, (arguments, &[])),
                Some(launches) => self.run_passes(stream, problem, &launches, a, b, arguments),
            },
        }
    }

    /// Whether a run's product has groups, picked rows or scales, if the plan's has. (A may be a matrix or patches, whatever it
    /// was planned as: which patches are a matrix depends on the window.)
    fn check_reading(&self, problem: &Problem) -> Result<(), Error> {
        if self.problem.reading.is_picked() != problem.reading.is_picked() {
            return Err(RowsError::Other { given: problem.reading.is_picked() }.into());
        }
        if self.problem.formats != problem.formats {
            return Err(ScaleError::Other { given: problem.formats.are_scaled() }.into());
        }
        if self.problem.placing != problem.placing {
            return Err(ScatterError::Other { given: problem.placing.is_scattered() }.into());
        }
        let [planned, given] = [&self.problem, problem].map(|problem| problem.reading.divided());
        if planned != given {
            return Err(Error::OtherGrouping { planned, given });
        }
        Ok(())
    }

    /// For a plan whose phases are all computed in the tile, or in a cluster's: the choice for a run for which they can't be,
    /// because its lines don't lie in there, or because no kernel that has them takes its operands. `None` if they can.
    fn beyond_tile(
        &self,
        gpu: &ChosenKernel,
        problem: &Problem,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<Option<ChosenKernel>, Error> {
        let lines = self.phases.in_tile.as_ref().map(InTile::lines).unwrap_or_default();
        let (Problem { m, n, .. }, (tile_m, tile_n)) = (*problem, gpu.chosen.key.line_tile());
        let fit = lines.fit((tile_m, tile_n), (m, n));
        let taken = || self.wanted(gpu, problem, self.layouts(gpu, problem, a, &b.views())?, arguments);
        let refused = match fit.then(taken) {
            Some(Ok(_)) => return Ok(None),
            Some(Err(refused)) => refused,
            None => {
                let (epilogue, lines) = (self.tree().name(), if lines.rows && n > tile_n { "rows" } else { "columns" });
                let in_cluster = gpu.chosen.key.within() == Some(Within::Cluster);
                let within = if in_cluster { "a cluster's tiles" } else { "one tile" };
                Error::BeyondTile { epilogue, within, tile_m, tile_n, m, n, lines }
            }
        };
        let same_tile = self.tree().outputs().iter().any(ValidOutput::is_partial);
        match gpu.of_launches(same_tile) {
            Some(launches) if gpu.finish.is_none() => Ok(Some(launches)),
            _ => Err(refused),
        }
    }

    /// Launches the product with the first part, then what else there is.
    fn run_passes(
        &self,
        stream: &Stream,
        problem: Problem,
        gpu: &ChosenKernel,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<(), Error> {
        let passes = self.phases.passes();
        let slots = SlotTensors::take(&self.slots, stream, &self.phases.slots, &problem)?;
        let fast_math = gpu.chosen.key.fast_math();
        let kernel = |(i, pass): (usize, &Pass<'_>)| {
            let (planned, given) = (self.later.get(i - 1), (&problem, arguments));
            LaterKernel::of_run(&self.device, pass, (i, fast_math, planned), given, &self.later_variants)
        };
        let kernels = passes.iter().enumerate().skip(1).map(kernel).collect::<Result<Vec<_>, Error>>()?;
        let later = passes.iter().skip(1).zip(&kernels).zip(&self.later_workspaces);
        let prepared = later.map(|((pass, kernel), memory)| kernel.prepare(&pass.part.tree, &problem, memory, stream));
        let prepared = prepared.collect::<Result<Vec<_>, Error>>()?;
        for (i, pass) in passes.iter().enumerate() {
            let mut own = later::arguments(pass.part, arguments, &slots);
            let mut of_tail = pass.tail.map(|tail| later::arguments(tail, arguments, &slots)).unwrap_or_default();
            let (own, of_tail) = (later::borrowed(&mut own), later::borrowed(&mut of_tail));
            let arguments = (own.as_slice(), of_tail.as_slice());
            match i.checked_sub(1) {
                None => self.run_kernel(stream, problem, gpu, a, b, arguments)?,
                Some(i) => {
                    let (tree, scattered) = (&pass.part.tree, a.scattered());
                    kernels[i].launch(tree, &problem, arguments, scattered, &prepared[i], stream)?;
                }
            }
        }
        prepared.into_iter().zip(&self.later_workspaces).for_each(|(launch, memory)| launch.keep(memory, stream));
        slots.keep(&self.slots, stream);
        Ok(())
    }

    /// The launch that [`run`](Self::run) does, as data.
    pub(crate) fn describe_launch(
        &self,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<LaunchDescription, Error> {
        let Chosen::Gpu(gpu) = &self.choice.kind else {
            return Err(Error::NoLaunch {
                device: self.device.to_string(),
                reason: "it runs no kernels; plan for a GPU, an emulated one, or a target of `bundle::Builder`",
            });
        };
        if self.phases.parts.len() > 1 && !gpu.chosen.key.in_tile() {
            return Err(Error::NoLaunch {
                device: self.device.to_string(),
                reason: "the epilogue is computed from its own reductions, for which the plan keeps memory of its own and \
                         may launch several kernels; return the reductions (`Any`, `All`, `Mean`, `Variance` and `LogSumExp` \
                         are made of others), and go on in another epilogue",
            });
        }
        check::operands(&self.device, self.tree(), a, b)?;
        with_matrices(a, b, self.tree(), arguments, |a, b, arguments| self.describe_product(gpu, a, b, arguments))
    }

    fn describe_product(
        &self,
        gpu: &ChosenKernel,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<LaunchDescription, Error> {
        let problem = Problem::of(a, b.clone())?;
        self.check_reading(&problem)?;
        check::arguments(&self.device, self.tree(), &problem, self.choice.tile(), (a, b), arguments)?;
        if gpu.chosen.key.in_tile() && self.beyond_tile(gpu, &problem, a, b, arguments)?.is_some() {
            return Err(Error::NoLaunch {
                device: self.device.to_string(),
                reason: "the product's lines don't lie in the plan's tile, or its cluster's, so it takes several launches: plan for \
                         its extents",
            });
        }
        let scales = a.scales().into_iter().chain(b.scales().iter().copied());
        let operands = std::iter::once(a.tensor()).chain(b.tensors().iter().copied());
        if operands.chain(scales).any(has_batch_digits) {
            return Err(Error::NoLaunch {
                device: self.device.to_string(),
                reason: "an operand's batches are two axes that don't merge, for which it is copied first: give a contiguous copy",
            });
        }
        if problem.batch == 0 {
            return Err(Error::NoLaunch {
                device: self.device.to_string(),
                reason: "a product of no batches launches none",
            });
        }
        let variant = self.variant(gpu, &problem, a, &b.views(), (arguments, &[]))?;
        let of_b = self.live_of(b.scales());
        let scales = a.scales().map(|a| Scales { a, b: &of_b });
        let (b, reading, scattered) = (self.live(b)?, positioned(a, &variant)?, a.scattered());
        let loading = variant.key.of_family().loading();
        if let Some(loading) = loading.filter(|_| !problem.is_empty()) {
            let are_patches = loading.reading.patches().is_some();
            let of_a = (!are_patches).then_some((Operand::A, loading.majors.0, a.tensor()));
            let (operands, major_of_b) = (of_a.into_iter(), loading.majors.1);
            let all_b = b.iter().enumerate().map(|(i, b)| (Operand::B(i), major_of_b, b));
            for (operand, major, tensor) in operands.chain(all_b) {
                let picks = reading.picked().is_some() && !loading.reading.is_picked() && operand == Operand::A;
                if picks || !loads_as_it_lies(loading, operand, major, tensor) {
                    return Err(Error::NoLaunch {
                        device: self.device.to_string(),
                        reason: "another kernel copies an operand first; choose a candidate whose `repacking` is none",
                    });
                }
            }
        }
        if loading.is_some_and(|loading| loading.reading.patches().is_some()) {
            return Err(Error::NoLaunch {
                device: self.device.to_string(),
                reason: "its kernel loads patches by a tensor map in im2col mode, which descriptions don't have; choose a \
                         kernel for sm_80, as by `.tile(…)`",
            });
        }
        let tree = self.phases.in_product(variant.key.in_tile());
        let (a, variant, of_tail) = (a.tensor(), &variant, &[]);
        Run { tree, variant, problem, a, b: &b, arguments, of_tail, reading, scales, scattered }.describe()
    }

    /// The B that the kernel multiplies by: that of an accumulator that nothing reads is not among them.
    fn live(&self, b: &Right<'_>) -> Result<SmallVec<[DeviceTensor; MAX_ACCUMULATORS]>, Error> {
        b.first()?;
        Ok(self.live_of(b.tensors()).into_iter().cloned().collect())
    }

    /// Keeps the entries of live accumulators; the first entry if none is live.
    fn live_of<'a>(&self, all: &[&'a DeviceTensor]) -> SmallVec<[&'a DeviceTensor; MAX_ACCUMULATORS]> {
        let live = self.phases.first().live_accumulators().filter_map(|i| all.get(i).copied());
        let mut live: SmallVec<[&DeviceTensor; MAX_ACCUMULATORS]> = live.collect();
        if live.is_empty() {
            live.extend(all.first().copied());
        }
        live
    }

    fn run_kernel(
        &self,
        stream: &Stream,
        problem: Problem,
        gpu: &ChosenKernel,
        a: Left<'_>,
        b: &Right<'_>,
        (arguments, of_tail): (&[Argument<'_>], &[Argument<'_>]),
    ) -> Result<(), Error> {
        let variant = self.variant(gpu, &problem, a, &b.views(), (arguments, of_tail))?;
        let (device, tree) = (&self.device, self.phases.in_product(variant.key.in_tile()));
        let (reading, scattered) = (positioned(a, &variant)?, a.scattered());
        let mut merged = Copies::new();
        let mut merge = |copied: Copied, tensor: &DeviceTensor| self.merger.merged(stream, copied, tensor, &mut merged);
        let of_a = a.scales().map(|scales| merge(Copied::Scales(Operand::A), scales)).transpose()?;
        let of_b = self.live_of(b.scales()).into_iter().enumerate();
        let of_b: SmallVec<[DeviceTensor; MAX_ACCUMULATORS]> =
            of_b.map(|(i, scales)| merge(Copied::Scales(Operand::B(i)), scales)).collect::<Result<_, _>>()?;
        let of_b: SmallVec<[&DeviceTensor; MAX_ACCUMULATORS]> = of_b.iter().collect();
        let scales = of_a.as_ref().map(|a| Scales { a, b: &of_b });
        let live = self.live(b)?;
        let all_b = live.iter().enumerate().map(|(i, b)| merge(Copied::Elements(Operand::B(i)), b));
        let mut b = all_b.collect::<Result<SmallVec<[DeviceTensor; MAX_ACCUMULATORS]>, _>>()?;
        let mut a = merge(Copied::Elements(Operand::A), a.tensor())?;
        let mut copies = Vec::new();
        let loading = variant.key.of_family().loading();
        if let Some(loading) = loading.filter(|_| !problem.is_empty()) {
            let (major_of_a, major_of_b) = loading.majors;
            // The groups of every B lie alike.
            let is_copied = |b: &DeviceTensor| !loads_as_it_lies(loading, Operand::B(0), major_of_b, b);
            let are_filters = reading.patches().is_some() && !loading.reading.is_transposed();
            let copies_all = are_filters && problem.batched && b.iter().any(is_copied);
            let all_b = b.iter_mut().enumerate().map(|(i, b)| (Operand::B(i), major_of_b, b));
            // Patches are loaded as they lie, or the kernel is another.
            let of_a = loading.reading.patches().is_none().then_some((Operand::A, major_of_a, &mut a));
            for (operand, major, tensor) in of_a.into_iter().chain(all_b) {
                let picked = reading.picked().filter(|_| operand == Operand::A && !loading.reading.is_picked());
                if picked.is_some() || copies_all || !loads_as_it_lies(loading, operand, major, tensor) {
                    let copy = self.copy_kernels.prepare(device, tensor, operand, major, picked)?;
                    let (copied, memory) = self.repacker.copy(stream, tensor, &copy, picked, reading.bounds())?;
                    *tensor = copied;
                    copies.push((operand, memory));
                }
            }
        }
        let problem = match loading {
            Some(loading) if loading.reading.patches().is_some() => {
                problem.in_k_tiles(variant.key.tile_k(), loading.majors.0)
            }
            _ => problem,
        };
        let (variant, a) = (&variant, &a);
        let run = Run { tree, variant, problem, a, b: &b, arguments, of_tail, reading, scales, scattered };
        run.launch(&self.workspaces, stream)?;
        // Only now: another run on this stream may then write this memory, after this one.
        copies.into_iter().for_each(|(operand, memory)| self.repacker.keep(stream, operand, memory));
        self.merger.keep(stream, merged);
        Ok(())
    }
}

/// How A is read, if the kernel can count the positions of its patches.
fn positioned<'a>(a: Left<'a>, variant: &Variant) -> Result<TensorReading<'a, Patches>, Error> {
    let reading = a.reading()?;
    reading.patches().map_or(Ok(()), |patches| variant.key.of_family().check_patches(&patches))?;
    Ok(reading)
}

/// Whether a kernel loads an operand that lies so, without a copy of it.
fn loads_as_it_lies(loading: Loading, operand: Operand, major: Major, tensor: &DeviceTensor) -> bool {
    let copy_bytes = operand.view(tensor).copy_bytes(major);
    loads(operand.takes_mn_major(loading.multiplied), OperandLayout { major, copy_bytes }, major)
}
