//! State that is constant while a kernel runs, and state through which the workers communicate.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::LaunchError;
use crate::launch::Launch;
use crate::memory::global::Allocation;
use crate::memory::window;
use crate::numerics::mma::Arithmetic;
use crate::options::{Completion, Options};
use crate::program::{Fill, Kernel, Program, Special, SpecialSource};
use crate::race::{self, GlobalHistory, Observer};

/// The place of the workspace of a cooperative launch, below device memory.
pub(in crate::exec) const GRID_WORKSPACE: u64 = window::GLOBAL - 0x1_0000;

/// A machine's memory, as a launch sees it.
pub(crate) struct MachineMemory<'a> {
    /// All allocations, by address.
    pub(crate) living: Vec<Arc<Allocation>>,
    /// The module's variables.
    pub(crate) variables: &'a [Arc<Allocation>],
    /// The history of accesses in earlier launches.
    pub(crate) history: &'a Arc<GlobalHistory>,
}

/// State that is constant while a kernel runs.
pub(crate) struct LaunchState<'a> {
    pub(in crate::exec) kernel: &'a str,
    pub(in crate::exec) program: &'a Program,
    pub(in crate::exec) grid: [u32; 3],
    pub(in crate::exec) block: [u32; 3],
    pub(in crate::exec) cluster: [u32; 3],
    /// Number of threads of a block.
    pub(in crate::exec) threads: u32,
    /// Number of blocks of a cluster.
    pub(in crate::exec) cluster_size: u32,
    /// Number of clusters of the grid.
    pub(in crate::exec) clusters: u64,
    pub(in crate::exec) parameters: Vec<u8>,
    /// All device memory, by address.
    pub(in crate::exec) memory: Vec<Arc<Allocation>>,
    /// Addresses of the module's variables.
    pub(in crate::exec) variables: Vec<u64>,
    /// Bytes of shared memory of a block, static and dynamic, as the kernel declares them.
    pub(in crate::exec) declared_shared_bytes: u32,
    /// These bytes with the gaps between variables.
    pub(in crate::exec) shared_bytes: u32,
    pub(in crate::exec) dynamic_shared_bytes: u32,
    pub(in crate::exec) dynamic_shared_start: u32,
    pub(in crate::exec) checked: bool,
    pub(in crate::exec) counting: bool,
    /// Whether registers of `wgmma` products in flight are tracked.
    pub(in crate::exec) wgmma_registers: bool,
    /// The number of random choices that each worker makes.
    pub(in crate::exec) random_choices: u64,
    pub(in crate::exec) completion: Completion,
    /// Whether strong reads may see older values.
    pub(in crate::exec) weak_memory: bool,
    pub(in crate::exec) arithmetic: Arithmetic,
    /// The most blocks of a kernel with tensor memory that one SM has room for, if registers don't limit them.
    pub(in crate::exec) blocks_per_multiprocessor: u32,
    pub(in crate::exec) resident_units: usize,
    pub(in crate::exec) instruction_limit: u64,
    changing: Vec<Fill>,
    /// The race detector, if one watches.
    pub(in crate::exec) detector: Option<Arc<race::Detector>>,
    /// Address of the memory in which the blocks of a cooperative launch meet, or 0.
    pub(in crate::exec) grid_workspace: u64,
    /// The text that the kernel has printed.
    pub(in crate::exec) printed: Mutex<String>,
}

/// State through which the workers communicate.
#[derive(Default)]
pub(in crate::exec) struct Shared {
    /// The next cluster to start.
    pub(in crate::exec) next: AtomicU64,
    /// Increases whenever a worker makes progress.
    pub(in crate::exec) epoch: AtomicU64,
    /// The number of workers that have clusters left and can't move.
    pub(in crate::exec) stalled: AtomicU32,
    /// The number of workers that have not ended.
    pub(in crate::exec) working: AtomicU32,
    failed: AtomicBool,
    error: Mutex<Option<LaunchError>>,
}

impl Shared {
    pub(in crate::exec) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Stops every worker; the first error is kept.
    pub(in crate::exec) fn fail(&self, error: LaunchError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.failed.store(true, Relaxed);
    }

    /// The first error, if there was one.
    pub(in crate::exec) fn take_error(&self) -> Option<LaunchError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<'a> LaunchState<'a> {
    pub(in crate::exec) fn new(
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
            shared_bytes: if launch.shared_bytes == 0 {
                program.shared_end.next_multiple_of(16)
            } else {
                program.dynamic_shared_start + launch.shared_bytes
            },
            declared_shared_bytes: start + launch.shared_bytes,
            dynamic_shared_bytes: launch.shared_bytes,
            dynamic_shared_start: program.dynamic_shared_start,
            checked: options.memory_checks,
            counting: options.statistics,
            wgmma_registers: options.wgmma_registers,
            random_choices: options.random_choices,
            completion: options.completion,
            weak_memory: options.weak_memory,
            arithmetic: options.arithmetic,
            blocks_per_multiprocessor: blocks_per_multiprocessor(launch, program),
            // All blocks of a cooperative launch must be able to meet.
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

    /// The rows that are filled for every block.
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

/// CUDA C++ programming guide, table of technical specifications: 2048 threads, 32 blocks and 228 KiB of shared memory. Each
/// block needs another KiB for the system.
fn blocks_per_multiprocessor(launch: &Launch, program: &Program) -> u32 {
    let threads = launch.block.iter().product::<u32>().next_multiple_of(32).max(32);
    let bytes = program.dynamic_shared_start.max(program.shared_end) + launch.shared_bytes + 1024;
    (2048 / threads).min(228 * 1024 / bytes.max(1)).clamp(1, 32)
}

fn is_changing(fill: &Fill) -> bool {
    match fill.source {
        SpecialSource::Special(special) => !special.is_fixed(),
        SpecialSource::Zero => true,
        _ => false,
    }
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
            race::Space::Tensor => None,
            race::Space::Global => {
                let found = self.memory.iter().find(|a| address.wrapping_sub(a.base) < a.size)?;
                Some((found.name.clone(), address - found.base))
            }
            race::Space::Shared => {
                let offset = race::shared_offset(address);
                let found = self.program.shared.names.iter().find(|n| (n.1..n.1 + n.2).contains(&offset));
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
