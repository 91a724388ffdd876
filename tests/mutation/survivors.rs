//! The mutants that no test shows to be wrong, and why they are correct.

use epilogue_runtime::ptx_vm::mutate::Operator;

/// Mutants of one kind at one place. If the compiler has copied the place, some copies may be found out.
pub(crate) struct Survivor {
    pub(crate) operator: Operator,
    /// Part of the name of the kernels; empty for all.
    pub(crate) kernels: &'static str,
    /// The beginning of the mutated instruction.
    pub(crate) instruction: &'static str,
    /// A part of the line of CUDA C++ that it comes from. Parts of the lines that call it follow, joined by ` < `, the
    /// callee before the caller; empty for any place.
    pub(crate) place: &'static str,
    /// Why the mutant is as correct as the kernel.
    pub(crate) reason: &'static str,
}

/// Kernels for sm_90a and for sm_100a.
const BY_TMA: &str = "0a";

const EMPTY: &str = "the main loop has waited for every group that has copies: only empty ones are left";
const TWICE: &str = "with split-K the block meets at another barrier before the epilogue writes over the stages";
const MET: &str = "the warpgroup has met at the barrier of the last step's outputs since it read the vectors: whichever of \
                   its warps arrives last, or first, speaks for all";
const THREADS_ONLY: &str =
    "at the mbarrier initialised last only the block's own threads arrive, who meet at a barrier";
const OWN_SHARE: &str = "at the mbarrier initialised last another block arrives after its stage was filled, also by this block, whose \
                         thread initialised it before it started that copy";
const OWN_COPIES: &str =
    "there is no cluster: the block's threads and copies know of the initialisation by its barrier";
const TOGETHER: &str = "the lanes come together at an aligned barrier by themselves";
const OUTPUTS_ONLY: &str = "the store in between is of outputs: all inputs have been read before it";
const FREE: &str = "complete reductions along lines meet in `last_to_arrive` after the values are read";
const NOBODY: &str = "everyone has met before, or it is the first barrier of all: nobody is at the other one";
const BATCHES: &str = "it orders nothing: the compiler keeps the loads on its sides apart";
const TOLD: &str = "a tile has no more steps than the ring has stages, and between tiles the team tells the producer what \
                    it needs next, when all have read";
const HEARD: &str = "the warp meets again when it hears what the team needs, before the first load";
const ALL_FENCE: &str = "every thread runs the fence before it uses the zeros, on whichever side of the barrier it is";
const ONE_TEAM: &str = "there is one team: nobody is ever at the other one";
const NEVER: &str = "there is no third consumer";
const FIRST: &str = "the places have not been used before, or the block has met since";
const SOON: &str = "not run: so many batches in a row whose maps are not there need more blocks at once than these; in the scans \
                    whose batches have no maps the same loads are found out";
const ONE: &str = "there is one group of columns, and nothing is claimed after it";
const OWN_ROW: &str = "since the barrier before only the first row's threads have read, and none of them the places of that row, \
                       which they alone write";
const FIRST_PASS: &str = "an earlier use of the memory is over < Piled::template combine<Pass>(sum.place); < \
                          if (!combine(Number<K>{}, sum)) return false; < if (!run_passes<0";
const SHARES: &str = "an earlier use of the memory is over < if constexpr (K + 1 < S::PASSES || Config::APPLY) \
                      Piled::template share<Pass>(sum.place);";
const FIRST_TEAM: &str = "never run: the part of a tile that lacks the end of its K is the first of a cluster's share, which \
                          is the first team's";
const ONE_TILE: &str = "a column has one tile";
const RIGHT_BOUNDS: &str =
    "never run: the bounds are right; and the emulated device's host looks when a launch is over";
const RIGHT_NUMBERS: &str =
    "never run: the rows' numbers are right; and the emulated device's host looks when a launch is over";
const CONSUMERS_FENCE: &str = "consumers fence before each stage of picked rows, also of these zeros";
const WAITED: &str = "the kernel has waited before it read the bounds";
const FENCED: &str = "who wrote zeros runs the fence on whichever side of the barrier it is, and the block meets again before they \
                      are copied";
const TABLE_MET: &str = "the block meets again when its barriers are initialised, before anyone looks a unit up";
const COLUMNS_MET: &str = "columns' values are written before the barrier of the last step's outputs, where all of a team of one \
                           warpgroup have met";
const OF_A_STEP: &str = "the step after, or before, waits in its place: in PTX each step of a k-tile has registers of its own, and \
                         the stage is given back at another; the wait leaves the compiler free to use registers again";
const ALL_NEEDED: &str = "every input is needed, so nothing is cleared";
const OTHER_OUTPUT: &str = "the first step of two of a sweep is not waited for: each of the two outputs has places of its own in a \
                            stage, and the next step's was last stored nine steps before";
const MINE: &str = "the thread that arrives has written the block's only partial itself";

const fn survivor(
    operator: Operator,
    kernels: &'static str,
    instruction: &'static str,
    place: &'static str,
    reason: &'static str,
) -> Survivor {
    Survivor { operator, kernels, instruction, place, reason }
}

/// All known survivors.
pub(crate) const SURVIVORS: &[Survivor] = &[
    survivor(Operator::DropWait, "FmaF32", "cp.async.wait_group 0;", "the groups left are zeros or empty", EMPTY),
    survivor(Operator::LooserWait, "FmaF32", "cp.async.wait_group 0;", "the groups left are zeros or empty", EMPTY),
    survivor(Operator::Early, "FmaF32", "bar.sync 0;", "everyone has read the last stage", EMPTY),
    survivor(Operator::Early, "sm_80 all phases", "bar.sync 0;", "everyone has read the last stage", EMPTY),
    survivor(Operator::Early, "Serial", "bar.sync 0;", "everyone has read the last stage", TWICE),
    survivor(Operator::Early, "Parallel", "bar.sync 0;", "everyone has read the last stage", TWICE),
    survivor(Operator::DropBarrier, "Serial", "bar.sync 0;", "everyone has read the last stage", TWICE),
    survivor(Operator::DropBarrier, "Parallel", "bar.sync 0;", "everyone has read the last stage", TWICE),
    survivor(Operator::DropBarrier, "", "bar.warp.sync", "BATCH == 0) __syncwarp();", BATCHES),
    survivor(Operator::DropBarrier, BY_TMA, "bar.warp.sync", "(Visitor::VECTORS > 0) release_vectors", MET),
    survivor(Operator::DropBarrier, "all phases in", "bar.warp.sync", "Tail::clear_inputs(needed);", ALL_NEEDED),
    survivor(
        Operator::DropWait,
        "sm_90a all phases in",
        "cp.async.bulk.wait_group.read",
        "store_wait_read<Config::OUTPUT_STAGES - 2>();",
        OTHER_OUTPUT,
    ),
    survivor(
        Operator::LooserWait,
        "sm_90a all phases in",
        "cp.async.bulk.wait_group.read",
        "store_wait_read<Config::OUTPUT_STAGES - 2>();",
        OTHER_OUTPUT,
    ),
    survivor(Operator::Early, "clusters of 1x1", "fence.mbarrier_init", "", THREADS_ONLY),
    survivor(Operator::Early, "transposed patches, clusters of 1x2", "fence.mbarrier_init", "", OWN_SHARE),
    survivor(Operator::Early, "sm_100a", "fence.mbarrier_init", "", THREADS_ONLY),
    survivor(Operator::DropFence, "clusters of 1x1", "fence.mbarrier_init", "", OWN_COPIES),
    survivor(Operator::DropBarrier, BY_TMA, "bar.warp.sync", "the barrier is an aligned one", TOGETHER),
    survivor(Operator::Early, BY_TMA, "bar.sync 0;", "the cluster's barrier orders no writes", ALL_FENCE),
    survivor(Operator::Early, BY_TMA, "bar.warp.sync", "release_inputs(state, shared);", OUTPUTS_ONLY),
    survivor(Operator::DropBarrier, BY_TMA, "bar.sync", "shared memory is free for the next tile", FREE),
    survivor(Operator::DropWait, "sm_90a PingPong Parallel", "mbarrier.try_wait", "C::AUX_EMPTY + 8 * place", TOLD),
    survivor(
        Operator::DropBarrier,
        "sm_90a PingPong Parallel",
        "bar.warp.sync",
        "release_inputs(state, shared);",
        TOLD,
    ),
    survivor(Operator::DropBarrier, "sm_90a PingPong Parallel", "bar.warp.sync", "Tail::clear_inputs(needed);", HEARD),
    survivor(Operator::DropBarrier, BY_TMA, "bar.sync 3, 128;", "", NEVER),
    survivor(Operator::Count, BY_TMA, "bar.sync 3, 128;", "", NEVER),
    survivor(Operator::BarrierId, BY_TMA, "bar.sync 3, 128;", "", NEVER),
    survivor(Operator::BarrierId, BY_TMA, "bar.sync 4, 256;", "last_to_arrive<Walk>(", NOBODY),
    survivor(Operator::BarrierId, BY_TMA, "bar.sync 4, 256;", "shared memory is free for the next tile", NOBODY),
    survivor(Operator::BarrierId, BY_TMA, "bar.sync 4, 256;", "every warp's values are in shared memory", NOBODY),
    survivor(Operator::BarrierId, "clusters of 1x1", "bar.sync 0;", "__syncthreads();", NOBODY),
    survivor(Operator::BarrierId, BY_TMA, "bar.sync 0;", "the cluster's barrier orders no writes", NOBODY),
    survivor(Operator::DropFence, "groups of rows", "membar.sys;", "fail(0, ", RIGHT_BOUNDS),
    survivor(Operator::NarrowerScope, "groups of rows", "membar.sys;", "fail(0, ", RIGHT_BOUNDS),
    survivor(Operator::Early, "groups of rows", "membar.sys;", "fail(0, ", RIGHT_BOUNDS),
    survivor(Operator::DropFence, "picked rows", "membar.sys;", "fail(index.site, ", RIGHT_NUMBERS),
    survivor(Operator::NarrowerScope, "picked rows", "membar.sys;", "fail(index.site, ", RIGHT_NUMBERS),
    survivor(Operator::Early, "picked rows", "membar.sys;", "fail(index.site, ", RIGHT_NUMBERS),
    survivor(Operator::DropFence, "picked rows", "fence.proxy.async", "Loop::clear(shared);", CONSUMERS_FENCE),
    survivor(Operator::DropWait, "groups of rows", "griddepcontrol.wait;", "::run(parameters);", WAITED),
    survivor(Operator::BarrierId, "groups of rows", "bar.sync 0;", "GroupTable<Config>::make(", NOBODY),
    survivor(Operator::DropBarrier, "groups of rows, PingPong", "bar.sync 0;", "the table is complete", TABLE_MET),
    survivor(Operator::DropFence, "groups of K", "membar.sys;", "fail(0, ", RIGHT_BOUNDS),
    survivor(Operator::NarrowerScope, "groups of K", "membar.sys;", "fail(0, ", RIGHT_BOUNDS),
    survivor(Operator::Early, "groups of K", "membar.sys;", "fail(0, ", RIGHT_BOUNDS),
    survivor(Operator::DropWait, "groups of K", "griddepcontrol.wait;", "::run(parameters);", WAITED),
    survivor(Operator::BarrierId, "groups of K", "bar.sync 0;", "DepthTable<Config>::make(", NOBODY),
    survivor(Operator::Early, "groups of K", "bar.sync 0;", "all bounds are here", FENCED),
    survivor(Operator::DropBarrier, "groups of K, PingPong", "bar.sync 0;", "the zeros are complete", TABLE_MET),
    survivor(
        Operator::DropBarrier,
        "groups of rows, PingPong",
        "bar.sync",
        "every warp's values are in shared memory",
        COLUMNS_MET,
    ),
    survivor(Operator::DropCommit, "weights", "wgmma.commit_group", "Products<Config>::template consume", OF_A_STEP),
    survivor(Operator::DropWait, "weights", "wgmma.wait_group.sync.aligned 1;", "Products<Config>", OF_A_STEP),
    survivor(Operator::LooserWait, "weights", "wgmma.wait_group.sync.aligned 1;", "Products<Config>", OF_A_STEP),
    survivor(Operator::DropBarrier, "reduce, columns", "bar.sync 0;", "an earlier use of the memory is over", FIRST),
    survivor(Operator::DropBarrier, "reduce, rows", "bar.sync 0;", "written before the arrival", MINE),
    survivor(Operator::DropBarrier, "60000 x 2", "bar.sync 0;", "written before the arrival", MINE),
    survivor(Operator::DropBarrier, "6000 x 12", "bar.sync 0;", "everyone has read the last claim", ONE),
    survivor(Operator::DropBarrier, "20000 x 2", "bar.sync 0;", "everyone has read the last claim", ONE),
    survivor(Operator::NarrowerScope, "20000 x 2", "ld.relaxed.gpu", "b < BATCHES; ++b) flag[b] = place(b)", SOON),
    survivor(
        Operator::DropBarrier,
        "100 x 4 x 5",
        "bar.sync 0;",
        "the maps of the tile before have been read",
        ONE_TILE,
    ),
    survivor(Operator::DropBarrier, "4000 x 2 x 16", "bar.sync 0;", "everyone has read the last claim", ONE),
    survivor(Operator::DropBarrier, "chain", "bar.sync 0;", FIRST_PASS, FIRST),
    survivor(Operator::DropBarrier, "chain", "bar.sync 0;", SHARES, OWN_ROW),
    survivor(Operator::BarrierId, "Cooperative Serial", "bar.sync 1, 128;", "", ONE_TEAM),
    survivor(Operator::BarrierId, "Cooperative Stream", "bar.sync 4, 256;", "complete_stream(", NOBODY),
    survivor(Operator::BarrierId, "PingPong Stream", "bar.sync 1, 128;", "before everyone's reads of the part", NOBODY),
    survivor(Operator::DropBarrier, "PingPong Stream", "bar.sync 2, 128;", "stored before the release", FIRST_TEAM),
    survivor(Operator::BarrierId, "PingPong Stream", "bar.sync 2, 128;", "stored before the release", FIRST_TEAM),
    survivor(Operator::Count, "PingPong Stream", "bar.sync 2, 128;", "stored before the release", FIRST_TEAM),
];
