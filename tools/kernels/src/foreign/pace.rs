//! The time of a foreign kernel, from its counts and its description: the same run of one block as for the library's own
//! kernels (`predict/block.rs`), with the same constants.
//!
//! Four things differ from the library's kernels, and are priced here. Lanes that arrive at a barrier do it one after
//! the other. A matrix load with bank conflicts takes its time as often as it has conflicts, and so does an access of the epilogue. A store
//! takes a clock for each line of 128 bytes. A loop that waits for its own asynchronous products adds what it does
//! around them.

use epilogue::gemm::Machine;

use super::super::predict::block::{self, Pace};
use super::super::predict::{DRAIN, LAUNCH, RELEASE};
use super::counts::Part;
use super::ladder::{Description, Loads, Step};

/// The prediction of a step.
#[derive(Clone, Debug)]
pub(super) struct Time {
    pub(super) microseconds: f64,
    /// Clocks of a k-tile that take longest, and what they are spent on.
    pub(super) limit: (f64, &'static str),
    /// Clocks of a tile beside its products.
    pub(super) epilogue: f64,
}

/// The constants that the two families have under names of their own.
struct Family {
    /// Multiply-adds of 16-bit types per clock of a multiprocessor.
    rate: f64,
    clocks_per_us: f64,
    /// From the request for a stage to its arrival.
    latency: f64,
    /// From a block's start to its first products.
    start: f64,
    /// Clocks that clusters add to a start.
    cluster: f64,
    /// A launch that takes longer is limited by the power.
    power_after: f64,
}

impl Family {
    fn of(machine: &Machine, asynchronous: bool, prologue: f64) -> Self {
        if asynchronous {
            let constants = &machine.constants.sm90;
            let clock = (machine.clock * constants.busy_clock).min(machine.power_clock * constants.headroom);
            Self {
                rate: machine.rates.wgmma * constants.tensor_share,
                clocks_per_us: clock * 1e3,
                latency: constants.latency,
                start: LAUNCH + prologue + constants.latency,
                cluster: constants.cluster_start,
                power_after: constants.power_after,
            }
        } else {
            let constants = &machine.constants.sm80;
            Self {
                rate: machine.rates.mma,
                clocks_per_us: machine.clock * 1e3,
                latency: (constants.start - prologue).max(0.0),
                start: constants.start,
                cluster: 0.0,
                power_after: 0.0,
            }
        }
    }
}

/// Clocks of a part's code without the products that stand in it.
fn beside(part: &Part, product: &Part, warps: f64) -> f64 {
    let peeled = part.work.multiply_adds / product.work.multiply_adds;
    let work = |of: &Part| [of.work.clocks(warps).0, of.work.issue(warps), of.work.alone];
    let clocks = work(part).into_iter().zip(work(product)).map(|(all, loops)| all - peeled * loops);
    clocks.fold(0.0, f64::max)
}

/// Predicts the time of a kernel for a product of 16-bit types.
pub(super) fn time(machine: &Machine, [m, n, k]: [usize; 3], step: &Step) -> Time {
    let Step { description: d, counts, .. } = step;
    let Description { tile: [rows, columns, depth], warps, cluster, together, .. } = *d;
    let product = &counts.product;
    // Warpgroups multiply together, and asynchronously.
    let asynchronous = product.work.product_bytes > 0.0;
    let family = Family::of(machine, asynchronous, counts.prologue.work.alone);
    let of_scheduler = warps as f64 / 4.0;
    let workers = if asynchronous { of_scheduler } else { warps as f64 };

    let macs = (rows * columns * depth) as f64;
    let turns = macs / workers / product.work.multiply_adds;
    let stage_bytes = 2.0 * ((rows + columns) * depth) as f64;
    // Shared memory and the L1 are one memory: a load through registers fills a line and reads it.
    let passed = match d.loads {
        Loads::Tma => 0.0,
        Loads::Async => stage_bytes,
        Loads::Registers => 2.0 * stage_bytes,
    };
    let again = (d.conflicts[0] - 1) as f64 * product.fragment_bytes;
    let tensor = macs / family.rate;
    let shared = turns
        * (product.work.product_bytes * of_scheduler + (product.work.shared_bytes + again) * warps as f64)
        + passed;
    let one = if asynchronous {
        tensor / workers + product.around * turns + d.arrivals as f64
    } else {
        product.work.alone * turns
    };
    let limits = [
        (tensor, "tensor cores"),
        (shared / 128.0, "shared memory"),
        (turns * (product.work.issue(of_scheduler) + counts.producer.work.issue(1.0)), "issuing"),
        ((d.arrivals * warps) as f64, "arrivals at barriers"),
        (one / together as f64, "one warp's waits"),
    ];
    let busiest = limits.into_iter().fold((0.0, ""), |most, one| if one.0 > most.0 { one } else { most });

    // The L2 has a clock of its own; a grid of fewer blocks shares all of it.
    let blocks = m.div_ceil(rows) * n.div_ceil(columns);
    let multiprocessors = machine.multiprocessors;
    let busy = if d.grid == 0 { multiprocessors } else { d.grid.min(multiprocessors) };
    let clocks = busy as f64 * family.clocks_per_us * 1e-3;
    let l2_rate = (machine.l2_gigabytes_per_second / clocks).min(machine.l2_port_bytes_per_clock);
    let l2_bytes = 2.0 * depth as f64 * (rows as f64 / cluster[1] as f64 + columns as f64 / cluster[0] as f64);
    let memory = machine.memory_bytes_per_clock * multiprocessors as f64 * machine.clock / clocks;
    let memory_bytes = 2.0 * (m * k + k * n + m * n) as f64 / (blocks * k.div_ceil(depth)) as f64;
    let load = (l2_bytes / l2_rate).max(memory_bytes / memory);

    let stores = (counts.tile.stores + counts.end.stores) * d.lines * warps;
    let conflicts = d.conflicts[1] as f64 * (counts.tile.work.shared_bytes * warps as f64) / 128.0;
    let code = beside(&counts.tile, product, of_scheduler) + beside(&counts.end, product, of_scheduler);
    let epilogue = code.max(stores as f64).max(conflicts);
    let clustered = if cluster == [1, 1] { 0.0 } else { family.cluster };
    let timeline = block::run(&Pace {
        launch: LAUNCH,
        prologue: counts.prologue.work.alone + clustered,
        latency: family.latency,
        load,
        product: busiest.0,
        release: RELEASE,
        epilogue,
        drain: DRAIN,
        restart: if d.grid > 0 || together > 1 { 0.0 } else { family.start },
        stages: d.stages * together,
        teams: together,
        tiles: vec![k.div_ceil(depth); blocks.div_ceil(busy)],
    });
    let microseconds = timeline.clocks / family.clocks_per_us;
    let peak = machine.rates.wgmma.max(machine.rates.mma);
    let least = (m * n * k) as f64 / (peak * multiprocessors as f64 * machine.power_clock * 1e3);
    let limited = microseconds > family.power_after && least > microseconds;
    Time {
        microseconds: if limited { least } else { microseconds },
        limit: match (limited, load > busiest.0) {
            (true, _) => (busiest.0, "the power limit"),
            (false, true) => (load, "loads"),
            (false, false) => busiest,
        },
        epilogue,
    }
}
