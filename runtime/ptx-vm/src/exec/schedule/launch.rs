//! Checks a launch, prepares the state that all workers share, and runs the workers.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::{Arc, PoisonError};

use crate::arch::{Arch, Feature};
use crate::error::{LaunchError, LaunchFailure};
use crate::exec::schedule::worker;
use crate::exec::state::launch::{GRID_WORKSPACE, LaunchState, MachineMemory, Shared};
use crate::launch::{Argument, Launch, Report};
use crate::memory::global::Allocation;
use crate::module::Module;
use crate::options::{Detector, Options};
use crate::program::{Kernel, Program};
use crate::race::{self, GlobalHistory, LaunchShape};
use crate::statistics::Statistics;

/// Bytes of the workspace of a cooperative launch.
const GRID_WORKSPACE_BYTES: u64 = 256;

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
    check_features(&kernel.program, options.arch).map_err(bad)?;
    check_shape(kernel, launch, options).map_err(bad)?;
    check_arithmetic(kernel, options).map_err(bad)?;
    let parameters = parameter_block(kernel, arguments).map_err(bad)?;
    let history = Arc::clone(memory.history);
    let mut memory = memory;
    if launch.cooperative {
        let workspace = Allocation::new(GRID_WORKSPACE, GRID_WORKSPACE_BYTES, "grid barrier");
        let Some(workspace) = workspace else { return Err(bad("the host is out of memory".into()).into()) };
        workspace.fill(0, GRID_WORKSPACE_BYTES, 0);
        // It is below every other allocation, so the list stays in order.
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
    let error = shared.take_error();
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
        tensor_memory: state.program.uses_tensor_memory(),
    };
    race::Detector::new(history, shape).map_err(|e| e.to_string())
}

fn worker_count(options: &Options, clusters: u64) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // The history of weak memory belongs to one worker.
    let wanted = if options.weak_memory {
        1
    } else if options.workers == 0 {
        cores()
    } else {
        options.workers
    };
    wanted.min(usize::try_from(clusters).unwrap_or(usize::MAX)).max(1)
}

fn run_workers(state: &LaunchState<'_>, shared: &Shared, workers: usize, seed: u64) -> Statistics {
    if workers == 1 {
        return worker::work(state, shared, seed);
    }
    let mut total = Statistics::default();
    std::thread::scope(|scope| {
        // Where the system gives fewer threads, those that there are do all.
        let threads: Vec<_> = (1..workers)
            .map_while(|n| {
                let seed = seed.wrapping_add(n as u64 * 0x1234_5678_9abc_def1);
                let thread = std::thread::Builder::new();
                thread.spawn_scoped(scope, move || worker::work(state, shared, seed)).ok()
            })
            .collect();
        shared.working.fetch_sub((workers - 1 - threads.len()) as u32, AcqRel);
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
    if arch.runs(target) { Ok(()) } else { Err(format!("the module is for {target}, the machine is {arch}")) }
}

/// Checks that the machine has the instructions of the kernel.
fn check_features(program: &Program, arch: Arch) -> Result<(), String> {
    let Some(need) = program.needs.iter().find(|need| !arch.has(need.feature)) else { return Ok(()) };
    let able: Vec<_> = Arch::ALL.into_iter().filter(|other| other.has(need.feature)).map(Arch::name).collect();
    let (line, opcode) = (need.line, &program.opcodes[need.opcode as usize]);
    let (words, able) = (need.feature.words(), able.join(", "));
    Err(format!("PTX line {line}: `{opcode}`: {arch} has no {words}; it is there on {able}"))
}

/// Checks that the chosen arithmetic supports every product of the kernel.
fn check_arithmetic(kernel: &Kernel, options: &Options) -> Result<(), String> {
    if !kernel.program.scaled_products.iter().all(|product| product.has_model(options.arithmetic)) {
        return Err("products with block scales have the exact model of sm_120 only".to_owned());
    }
    kernel.program.products.iter().try_for_each(|product| product.check(options.arithmetic)).map_err(|e| e.to_string())
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
    if size > 8 && !launch.non_portable_cluster {
        return Err(format!(
            "a cluster of {cluster:?} blocks: more than 8 must be allowed, by `Launch::non_portable_cluster`"
        ));
    }
    if size > u64::from(options.largest_cluster) {
        let most = options.largest_cluster;
        return Err(format!("a cluster of {cluster:?} blocks: this machine has room for {most}"));
    }
    if size > 1 && !options.arch.has(Feature::Clusters) {
        return Err(format!("a cluster of {cluster:?} blocks: {} has no clusters", options.arch));
    }
    let limit = options.arch.shared_limit();
    let start = program.static_shared.next_multiple_of(program.dynamic_shared_alignment);
    let total =
        if *shared_bytes == 0 { program.static_shared.into() } else { u64::from(start) + u64::from(*shared_bytes) };
    if total > u64::from(limit) {
        return Err(format!("{total} bytes of shared memory; a block of {} has at most {limit}", options.arch));
    }
    Ok(())
}

/// The product of three extents; saturates.
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
