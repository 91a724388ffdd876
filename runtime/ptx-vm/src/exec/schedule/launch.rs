//! Checks a launch, prepares what all workers share, and runs them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{LaunchError, LaunchFailure};
use crate::exec::schedule::worker;
use crate::launch::{Argument, Launch, Report};
use crate::memory::global::Allocation;
use crate::memory::window;
use crate::module::Module;
use crate::numerics::mma::Arithmetic;
use crate::options::{Arch, Completion, Detector, Options};
use crate::program::Kernel;
use crate::program::{Fill, Program, Source, Special};
use crate::race::{self, GlobalHistory, LaunchShape, Observer};
use crate::statistics::Statistics;

/// What doesn't change while a kernel runs.
pub(crate) struct LaunchState<'a> {
    pub(in crate::exec) kernel: &'a str,
    pub(in crate::exec) program: &'a Program,
    pub(in crate::exec) grid: [u32; 3],
    pub(in crate::exec) block: [u32; 3],
    pub(in crate::exec) cluster: [u32; 3],
    /// Threads of a block.
    pub(in crate::exec) threads: u32,
    /// Blocks of a cluster.
    pub(in crate::exec) cluster_size: u32,
    /// Clusters of the grid.
    pub(in crate::exec) clusters: u64,
    pub(in crate::exec) parameters: Vec<u8>,
    /// All device memory, by address.
    pub(in crate::exec) memory: Vec<Arc<Allocation>>,
    /// Addresses of the module's variables.
    pub(in crate::exec) variables: Vec<u64>,
    /// Shared memory of a block, static and dynamic.
    pub(in crate::exec) shared_bytes: u32,
    pub(in crate::exec) dynamic_shared_bytes: u32,
    pub(in crate::exec) dynamic_shared_start: u32,
    pub(in crate::exec) checked: bool,
    pub(in crate::exec) counting: bool,
    /// Whether registers of `wgmma` products under way are followed.
    pub(in crate::exec) wgmma_registers: bool,
    /// Random choices that each worker makes.
    pub(in crate::exec) random_choices: u64,
    pub(in crate::exec) completion: Completion,
    pub(in crate::exec) arithmetic: Arithmetic,
    pub(in crate::exec) resident_units: usize,
    pub(in crate::exec) instruction_limit: u64,
    changing: Vec<Fill>,
    /// The race detector, if one watches.
    pub(in crate::exec) detector: Option<Arc<race::Detector>>,
    /// Address of the memory that the blocks of a cooperative launch meet in, or 0.
    pub(in crate::exec) grid_workspace: u64,
    /// What the kernel has printed.
    pub(in crate::exec) printed: Mutex<String>,
}

/// What the workers tell each other.
#[derive(Default)]
pub(in crate::exec) struct Shared {
    /// The next cluster to start.
    pub(in crate::exec) next: AtomicU64,
    /// Grows whenever a worker moves.
    pub(in crate::exec) epoch: AtomicU64,
    /// Workers that have clusters left and can't move.
    pub(in crate::exec) stalled: AtomicU32,
    /// Workers that have not ended.
    pub(in crate::exec) working: AtomicU32,
    failed: AtomicBool,
    error: Mutex<Option<LaunchError>>,
}

impl Shared {
    pub(in crate::exec) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Stops every worker; the first error counts.
    pub(in crate::exec) fn fail(&self, error: LaunchError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.failed.store(true, Relaxed);
    }
}

/// Shared memory that a block may have (PTX ISA: per-architecture limits; CUDA C++ programming guide, table of
/// technical specifications).
fn shared_limit(arch: Arch) -> u32 {
    match arch {
        Arch::Sm80 => 163 * 1024,
        Arch::Sm90a => 227 * 1024,
    }
}

/// Where the workspace of a cooperative launch lies, below device memory.
const GRID_WORKSPACE: u64 = window::GLOBAL - 0x1_0000;
const GRID_WORKSPACE_BYTES: u64 = 256;

/// A machine's memory, as a launch sees it.
pub(crate) struct MachineMemory<'a> {
    /// All allocations, by address.
    pub(crate) living: Vec<Arc<Allocation>>,
    /// The module's variables.
    pub(crate) variables: &'a [Arc<Allocation>],
    /// Who touched what in earlier launches.
    pub(crate) history: &'a Arc<GlobalHistory>,
}

/// Runs a kernel.
pub(crate) fn launch(
    module: &Module,
    name: &str,
    launch: &Launch,
    arguments: &[Argument<'_>],
    options: &Options,
    memory: MachineMemory<'_>,
) -> Result<Report, LaunchFailure> {
    let Some(kernel) = module.kernel(name) else {
        if let Some((_, error)) = module.refused().find(|(refused, _)| *refused == name) {
            return Err(LaunchError::BadLaunch { kernel: name.into(), message: error.to_string() }.into());
        }
        let available: Vec<_> = module.kernels().map(|k| format!("`{}`", k.name)).collect();
        return Err(LaunchError::UnknownKernel { name: name.into(), available: available.join(", ") }.into());
    };
    let bad = |message: String| LaunchError::BadLaunch { kernel: name.into(), message };
    check_target(module.target(), options.arch).map_err(bad)?;
    check_shape(kernel, launch, options).map_err(bad)?;
    check_arithmetic(kernel, options).map_err(bad)?;
    let parameters = parameter_block(kernel, arguments).map_err(bad)?;
    let history = Arc::clone(memory.history);
    let mut memory = memory;
    if launch.cooperative {
        let workspace = Allocation::new(GRID_WORKSPACE, GRID_WORKSPACE_BYTES, "grid barrier");
        let Some(workspace) = workspace else { return Err(bad("the host is out of memory".into()).into()) };
        workspace.fill(0, GRID_WORKSPACE_BYTES, 0);
        // Below every other allocation: the list stays in order.
        memory.living.insert(0, Arc::new(workspace));
    }
    let mut state = LaunchState::new(kernel, launch, options, parameters, memory);
    if options.detector == Detector::On {
        state.detector = Some(detector(&state, &history, launch.overlaps_previous, options.same_values).map_err(bad)?);
    }
    let shared = Shared::default();
    let workers = worker_count(options, state.clusters);
    shared.working.store(workers as u32, Relaxed);
    let statistics = run_workers(&state, &shared, workers, options.seed);
    let error = shared.error.lock().unwrap_or_else(PoisonError::into_inner).take();
    let races = state.detector.as_ref().map_or_else(Vec::new, |d| d.findings(&state));
    let printed = std::mem::take(&mut *state.printed.lock().unwrap_or_else(PoisonError::into_inner));
    match error {
        Some(error) => Err(LaunchFailure { error, races, printed }),
        None => Ok(Report { statistics, races, printed }),
    }
}

fn detector(
    state: &LaunchState<'_>,
    history: &Arc<GlobalHistory>,
    overlaps_previous: bool,
    same_values: bool,
) -> Result<Arc<race::Detector>, String> {
    let shape = LaunchShape {
        clusters: u32::try_from(state.clusters).map_err(|_| "too many blocks for the race detector".to_owned())?,
        blocks_per_cluster: state.cluster_size,
        threads_per_block: state.threads,
        overlaps_previous,
        collectives_order: false,
        same_values,
        registers: state.program.registers_at_launch(state.threads),
    };
    race::Detector::new(history, shape).map_err(|e| e.to_string())
}

impl race::Names for LaunchState<'_> {
    fn site(&self, pc: u32) -> race::Site {
        let origin = self.program.origins.get(pc as usize);
        race::Site {
            pc,
            ptx_line: origin.map_or(0, |o| o.line),
            source: origin.and_then(|o| o.location).map(|l| self.program.source_place(l)),
            instruction: origin.map_or_else(String::new, |o| self.program.opcodes[o.opcode as usize].clone()),
        }
    }

    fn buffer(&self, space: race::Space, address: u64) -> Option<(String, u64)> {
        match space {
            race::Space::Global => {
                let found = self.memory.iter().find(|a| address.wrapping_sub(a.base) < a.size)?;
                Some((found.name.clone(), address - found.base))
            }
            race::Space::Shared => {
                let offset = race::shared_offset(address);
                let found = self.program.shared_names.iter().find(|n| (n.1..n.1 + n.2).contains(&offset));
                match found {
                    Some((name, start, _)) => Some((name.clone(), (offset - start).into())),
                    None => offset
                        .checked_sub(self.dynamic_shared_start)
                        .map(|o| ("dynamic shared memory".to_owned(), o.into())),
                }
            }
        }
    }
}

fn worker_count(options: &Options, clusters: u64) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let wanted = if options.workers == 0 { cores() } else { options.workers };
    wanted.min(usize::try_from(clusters).unwrap_or(usize::MAX)).max(1)
}

fn run_workers(state: &LaunchState<'_>, shared: &Shared, workers: usize, seed: u64) -> Statistics {
    if workers == 1 {
        return worker::work(state, shared, seed);
    }
    let mut total = Statistics::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..workers)
            .map(|n| {
                let seed = seed.wrapping_add(n as u64 * 0x1234_5678_9abc_def1);
                scope.spawn(move || worker::work(state, shared, seed))
            })
            .collect();
        total.merge(&worker::work(state, shared, seed));
        for thread in threads {
            match thread.join() {
                Ok(statistics) => total.merge(&statistics),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    total
}

fn check_target(target: &str, arch: Arch) -> Result<(), String> {
    let number: String = target.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    let number: u32 = number.parse().unwrap_or(0);
    let have = match arch {
        Arch::Sm80 => 80,
        Arch::Sm90a => 90,
    };
    let specific = target.ends_with('a') || target.ends_with('f');
    if number > have || specific && (number != have || arch != Arch::Sm90a) {
        return Err(format!("the module is for {target}, the machine is {arch:?}"));
    }
    Ok(())
}

/// The arithmetic that was chosen must know every product of the kernel.
fn check_arithmetic(kernel: &Kernel, options: &Options) -> Result<(), String> {
    let arithmetic = crate::exec::tensor::matrix::arithmetic(options.arithmetic);
    kernel.program.products.iter().try_for_each(|product| product.check(arithmetic)).map_err(|e| e.to_string())
}

fn check_shape(kernel: &Kernel, launch: &Launch, options: &Options) -> Result<(), String> {
    let program = &kernel.program;
    let Launch { grid, block, cluster, shared_bytes, .. } = launch;
    let threads = volume(*block);
    if threads == 0 || threads > 1024 || block[2] > 64 {
        return Err(format!(
            "a block of {block:?} threads: each dimension must be at least 1, the product at most 1024"
        ));
    }
    if grid.contains(&0) || grid[1] > 65535 || grid[2] > 65535 || grid[0] > i32::MAX as u32 {
        return Err(format!("a grid of {grid:?} blocks: each dimension must be at least 1, x < 2^31, y and z < 65536"));
    }
    if let Some(most) = program.max_threads
        && threads > u64::from(most)
    {
        return Err(format!("a block of {threads} threads; the kernel allows at most {most}"));
    }
    if let Some(required) = program.required_block
        && required != *block
    {
        return Err(format!("a block of {block:?} threads; the kernel requires {required:?}"));
    }
    if let Some(required) = program.required_cluster
        && required != *cluster
    {
        return Err(format!("a cluster of {cluster:?} blocks; the kernel requires {required:?}"));
    }
    let size = volume(*cluster);
    if size == 0 || size > 16 || (0..3).any(|d| grid[d] % cluster[d].max(1) != 0) {
        return Err(format!("a cluster of {cluster:?} blocks must divide the grid {grid:?} and hold at most 16"));
    }
    if size > 1 && options.arch < Arch::Sm90a {
        return Err(format!("a cluster of {cluster:?} blocks: {:?} has no clusters", options.arch));
    }
    let limit = shared_limit(options.arch);
    let start = program.static_shared.next_multiple_of(program.dynamic_shared_alignment);
    let total =
        if *shared_bytes == 0 { program.static_shared.into() } else { u64::from(start) + u64::from(*shared_bytes) };
    if total > u64::from(limit) {
        return Err(format!("{total} bytes of shared memory; a block of {:?} has at most {limit}", options.arch));
    }
    Ok(())
}

/// The product of three extents, or the largest number where it is greater.
fn volume(extents: [u32; 3]) -> u64 {
    extents.iter().fold(1, |product: u64, &extent| product.saturating_mul(extent.into()))
}

fn parameter_block(kernel: &Kernel, arguments: &[Argument<'_>]) -> Result<Vec<u8>, String> {
    if arguments.len() != kernel.parameters.len() {
        return Err(format!("{} arguments; the kernel has {} parameters", arguments.len(), kernel.parameters.len()));
    }
    let mut block = vec![0; kernel.program.parameter_bytes as usize];
    for (index, (argument, parameter)) in arguments.iter().zip(&kernel.parameters).enumerate() {
        argument.with_bytes(|bytes| {
            if bytes.len() != parameter.size {
                return Err(format!(
                    "argument {index} has {} bytes; the parameter has {}",
                    bytes.len(),
                    parameter.size
                ));
            }
            block[parameter.offset..parameter.offset + parameter.size].copy_from_slice(bytes);
            Ok(())
        })?;
    }
    Ok(block)
}

impl<'a> LaunchState<'a> {
    fn new(
        kernel: &'a Kernel,
        launch: &Launch,
        options: &Options,
        parameters: Vec<u8>,
        memory: MachineMemory<'_>,
    ) -> Self {
        let program = &kernel.program;
        let cluster_size = launch.cluster.iter().product::<u32>();
        let blocks: u64 = launch.grid.iter().map(|&x| u64::from(x)).product();
        let start = program.static_shared.next_multiple_of(program.dynamic_shared_alignment);
        Self {
            kernel: &kernel.name,
            program,
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            threads: launch.block.iter().product(),
            cluster_size,
            clusters: blocks / u64::from(cluster_size),
            parameters,
            variables: memory.variables.iter().map(|v| v.base).collect(),
            memory: memory.living,
            shared_bytes: start + launch.shared_bytes,
            dynamic_shared_bytes: launch.shared_bytes,
            dynamic_shared_start: start,
            checked: options.memory_checks,
            counting: options.statistics,
            wgmma_registers: options.wgmma_registers,
            random_choices: options.random_choices,
            completion: options.completion,
            arithmetic: crate::exec::tensor::matrix::arithmetic(options.arithmetic),
            // All blocks of a cooperative launch must meet.
            resident_units: if launch.cooperative {
                usize::MAX
            } else {
                (options.resident_blocks / cluster_size as usize).max(1)
            },
            instruction_limit: options.instruction_limit,
            changing: program.fills.iter().filter(|f| is_changing(f)).copied().collect(),
            detector: None,
            grid_workspace: if launch.cooperative { GRID_WORKSPACE } else { 0 },
            printed: Mutex::default(),
        }
    }

    /// Rows to fill for every block.
    pub(in crate::exec) fn changing_fills(&self) -> &[Fill] {
        &self.changing
    }

    /// `%ctaid` of a block of a cluster.
    pub(in crate::exec) fn block_index(&self, cluster: u64, rank: u32) -> [u32; 3] {
        let (at, inside) = (self.cluster_index(cluster), self.index_in_cluster(rank));
        std::array::from_fn(|d| at[d] * self.cluster[d] + inside[d])
    }

    fn cluster_index(&self, cluster: u64) -> [u32; 3] {
        let count: [u64; 3] = std::array::from_fn(|d| u64::from(self.grid[d] / self.cluster[d]));
        [(cluster % count[0]) as u32, (cluster / count[0] % count[1]) as u32, (cluster / count[0] / count[1]) as u32]
    }

    fn index_in_cluster(&self, rank: u32) -> [u32; 3] {
        let [x, y, _] = self.cluster;
        [rank % x, rank / x % y, rank / x / y]
    }

    /// A special register that depends on the block.
    pub(in crate::exec) fn special_of_block(&self, special: Special, index: [u32; 3], cluster: u64, rank: u32) -> u64 {
        u64::from(match special {
            Special::Block(d) => index[d as usize],
            Special::Cluster(d) => self.cluster_index(cluster)[d as usize],
            Special::BlockInCluster(d) => self.index_in_cluster(rank)[d as usize],
            Special::RankInCluster => rank,
            _ => 0,
        })
    }

    /// The detector for a cluster, if one watches.
    pub(in crate::exec) fn observer(&self, cluster: u64) -> Option<Box<dyn Observer>> {
        let detector = self.detector.as_ref()?;
        Some(Box::new(detector.cluster(cluster as u32)))
    }
}

fn is_changing(fill: &Fill) -> bool {
    match fill.source {
        Source::Special(special) => !special.is_fixed(),
        Source::Zero => true,
        _ => false,
    }
}
