//! The race detector of one launch.

use super::actors::Layout;
use super::finding::{Finding, Names, Party, Race};
use super::found::{Found, RawFault, RawRace};
use super::history::GlobalHistory;
use super::stamp::Stamp;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Facts of a launch that the detector must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Number of clusters of the grid; without clusters, of blocks.
    pub clusters: u32,
    /// Number of blocks of a cluster; 1 without clusters.
    pub blocks_per_cluster: u32,
    /// Number of threads of a block.
    pub threads_per_block: u32,
    /// The launch may overlap the previous one (programmatic dependent launch), so what that one wrote may be read only
    /// after `griddepcontrol.wait`.
    pub overlaps_previous: bool,
    /// Treat every `*.sync` instruction of a warp like a `bar.warp.sync`. It is off by default, as in the PTX ISA: only
    /// `bar.warp.sync` and wider barriers order the memory accesses of lanes.
    pub collectives_order: bool,
    /// Also report two plain writes of the same value to the same place. Whether they are a race depends on the data.
    pub same_values: bool,
    /// The most registers of a thread when the launch begins; 0 if this is not known.
    pub registers: u32,
    /// Whether the kernel uses tensor memory.
    pub tensor_memory: bool,
}

/// The detector of one launch. It makes an [`Observer`](super::Observer) for each cluster and collects their findings.
#[derive(Debug)]
pub struct Detector {
    pub(super) history: Arc<GlobalHistory>,
    pub(super) layout: Layout,
    pub(super) shape: LaunchShape,
    /// `%ctaid` of the blocks that have started, by cluster and rank.
    blocks: Mutex<HashMap<(u32, u32), [u32; 3]>>,
    /// Rank and offset of the mbarriers that are actors.
    mbarriers: Mutex<HashMap<u32, (u32, u32)>>,
    found: Mutex<Found>,
    /// For each cluster the atomic or strong read that it is about to perform in global memory, as its actor and clock; 0
    /// if there is none.
    performing: Box<[AtomicU64]>,
}

/// The content of [`Detector::performing`] when the cluster has ended, and has released nothing to others.
const LOST: u64 = u64::MAX;

/// The launch has more actors (about four a warp) than the detector can number.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a grid of {clusters} clusters is too large for the race detector: launch fewer blocks, or without the detector"
)]
pub struct GridTooLarge {
    /// Number of clusters of the grid.
    pub clusters: u32,
}

crate::message::debug!(GridTooLarge);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Detector {
    /// Begins a launch on a machine with this history. Everything of earlier launches is ordered before it, except as
    /// [`LaunchShape::overlaps_previous`] tells.
    ///
    /// # Errors
    /// [`GridTooLarge`] for more than about 4 million blocks.
    pub fn new(history: &Arc<GlobalHistory>, shape: LaunchShape) -> Result<Arc<Self>, GridTooLarge> {
        let layout = Layout {
            first: 0,
            previous: 0,
            open: (0, 0),
            warps: shape.threads_per_block.div_ceil(32).max(1),
            blocks: shape.blocks_per_cluster.max(1),
            tensor_memory: shape.tensor_memory,
        };
        let actors = u64::from(layout.stride()) * u64::from(shape.clusters);
        let numbers = history.begin_launch(actors, shape.overlaps_previous);
        let (first, previous, open) = numbers.ok_or(GridTooLarge { clusters: shape.clusters })?;
        Ok(Arc::new(Self {
            history: Arc::clone(history),
            layout: Layout { first, previous, open, ..layout },
            shape,
            blocks: Mutex::default(),
            mbarriers: Mutex::default(),
            found: Mutex::default(),
            performing: (0..shape.clusters).map(|_| AtomicU64::new(0)).collect(),
        }))
    }

    /// Whether a cluster has ended that has released nothing to others: nobody in this launch comes after its accesses.
    pub(super) fn is_lost(&self, cluster: u32) -> bool {
        self.performing.get(cluster as usize).is_some_and(|atomic| atomic.load(Ordering::Relaxed) == LOST)
    }

    /// A cluster has ended that has released nothing to others.
    pub(super) fn lose(&self, cluster: u32) {
        self.set(cluster, LOST);
    }

    /// A cluster is about to perform an atomic or a strong read in global memory; without one, it has done so.
    pub(super) fn perform(&self, cluster: u32, access: Option<&Stamp>) {
        self.set(cluster, access.map_or(0, Self::name));
    }

    /// Whether a cluster is about to perform this access.
    pub(super) fn performs(&self, cluster: u32, access: &Stamp) -> bool {
        let performed = self.performing.get(cluster as usize);
        performed.is_some_and(|performed| performed.load(Ordering::Acquire) == Self::name(access))
    }

    fn name(access: &Stamp) -> u64 {
        u64::from(access.actor) << 32 | u64::from(access.clock)
    }

    fn set(&self, cluster: u32, value: u64) {
        if let Some(atomic) = self.performing.get(cluster as usize) {
            atomic.store(value, Ordering::Release);
        }
    }

    /// The findings of all observers that have been dropped, in a fixed order.
    #[must_use]
    pub fn findings(&self, names: &dyn Names) -> Vec<Finding> {
        let found = lock(&self.found);
        let mut races: Vec<_> = found.races.iter().collect();
        races.sort_by_key(|(key, _)| **key);
        let mut faults: Vec<_> = found.faults.values().collect();
        faults.sort_by_key(|fault| (fault.pc, format!("{:?}", fault.fault)));
        let races = races.into_iter().map(|(_, race)| Finding::Race(Box::new(self.race(race, names))));
        let faults = faults.into_iter().map(|fault| self.fault(fault, names));
        races.chain(faults).collect()
    }

    pub(super) fn block_begins(&self, cluster: u32, rank: u32, block: [u32; 3]) {
        lock(&self.blocks).insert((cluster, rank), block);
    }

    pub(super) fn mbarrier_begins(&self, actor: u32, rank: u32, offset: u32) {
        lock(&self.mbarriers).insert(actor, (rank, offset));
    }

    pub(super) fn gather(&self, found: Found) {
        lock(&self.found).merge(found);
    }

    fn race(&self, race: &RawRace, names: &dyn Names) -> Race {
        Race {
            hazard: race.hazard,
            cause: race.cause,
            first: self.party(&race.first, names),
            second: self.party(&race.second, names),
            space: race.space,
            address: race.address,
            buffer: names.buffer(race.space, race.address),
        }
    }

    fn party(&self, stamp: &Stamp, names: &dyn Names) -> Party {
        let access = stamp.access();
        if stamp.actor < self.layout.first {
            // It belongs to the previous launch, whose layout and program no longer exist.
            return Party { agent: None, block: None, warp: None, lanes: stamp.lanes, access, site: None };
        }
        let (cluster, local) = self.layout.split(stamp.actor);
        let mbarrier = lock(&self.mbarriers).get(&stamp.actor).copied();
        let (rank, warp, agent) = self.layout.actor(local).describe(mbarrier);
        let block = rank.and_then(|rank| lock(&self.blocks).get(&(cluster, rank)).copied());
        Party { agent: Some(agent), block, warp, lanes: stamp.lanes, access, site: Some(names.site(stamp.pc())) }
    }

    fn fault(&self, fault: &RawFault, names: &dyn Names) -> Finding {
        Finding::Fault {
            fault: fault.fault.clone(),
            block: lock(&self.blocks).get(&(fault.cluster, fault.rank)).copied().unwrap_or_default(),
            warp: fault.warp,
            lanes: fault.lanes,
            site: names.site(fault.pc),
        }
    }
}
