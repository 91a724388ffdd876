// The GEMM kernels for sm_90a with groups of rows (../groups.cuh): the differences to gemm.cuh.
//
// Work tiles (units) are numbered as in one matrix with all groups' clusters of row tiles, one group after another.
// Blocks that run at the same time then share a group's B. A table in shared memory says where a group ends. Every
// block makes it from the bounds at each launch, behind its other memory: a launch's shared memory grows with its
// groups. Every role looks its unit up there, and keeps nothing of it during a main loop:
//
//   groups                 | group 0          | 1    | 2 | 3        |;
//   rows: ends             | 300              | 370  |370| 500      |;
//   clusters of row tiles  | 0 | 1 | 2        | 3    | 4 | 5        |      if a cluster has 128 rows;
//   table                  {300, 3} {370, 4} {370, 5} {500, 6}
//
// A group may begin at any row, and the tensor maps are those of a dense product, so boxes know nothing of its end.
// (Maps that end with a group would need two more dimensions with strides that cancel modulo 2^64. No document promises
// that this works.)
//
// - Loads take whole boxes, also of rows of another group. Each row of A makes its own row of the product, and each row
//   of an input serves that row only: rows of other groups are computed and not used.
// - A step of outputs is stored by boxes if all its rows are the group's. In a group's last tile, lanes store the rows
//   that are, one by one.
// - A tensor that is updated in place (`TensorMut`) is accessed by lanes: a box would read rows that another block
//   writes.
//
// Bounds are not known on the host, so there may be units that no group has. They come last, with one k-tile of zeros.
#pragma once
#include "../groups.cuh"
#include "gemm.cuh"

namespace epilogue::sm90 {

struct GroupCommon : Common {
#include "../GroupCommon.fields"
};

// A group's bounds: where its rows end, and how many clusters of row tiles there are up to its last.
struct GroupEnd {
    int rows, clusters;
};

// What the entries have in common: the rows before the first group's, and whether every group has a matrix of its own.
struct GroupHead {
    int before, padded;
};

template <class Config>
struct GroupTable {
    static constexpr int HEAD = Config::CONTROL_OFFSET + 768;
    static constexpr int CLUSTER_ROWS = Config::TILE_M * Config::CLUSTER_M;
    static_assert(Control<Config>::FINISHES + 4 * Shape<Config>::TEAMS <= HEAD);
    static_assert(HEAD + static_cast<int>(sizeof(GroupHead)) <= Config::CONTROL_OFFSET + Config::CONTROL_BYTES);

    static __device__ __forceinline__ GroupHead& head() { return *reinterpret_cast<GroupHead*>(block_memory() + HEAD); }
    // Behind all else: a launch has as much shared memory as its groups need.
    static __device__ __forceinline__ GroupEnd* entries() {
        return reinterpret_cast<GroupEnd*>(block_memory() + Config::SHARED_BYTES);
    }

    // By all threads of the block. All have read bounds before the first warp orders them.
    static __device__ __forceinline__ void make(const Groups& groups, int rows) {
        GroupEnd* const entries = GroupTable::entries();
        for (int g = static_cast<int>(threadIdx.x); g < groups.count; g += Shape<Config>::THREADS)
            entries[g].rows = groups.bounds[(g + (groups.form == OFFSETS)) * groups.stride];
        __syncthreads();  // all bounds are here
        if (threadIdx.x < 32) order(groups, rows);
        __syncthreads();  // the table is complete
    }

    // By a warp, 32 groups at a time.
    static __device__ __forceinline__ void order(const Groups& groups, int rows) {
        constexpr u32 ALL = 0xffffffffu;
        const int lane = static_cast<int>(threadIdx.x);
        const bool checks = blockIdx.x == 0;
        const Groups given{&entries()->rows, 2, groups.count, groups.form == COUNTS ? COUNTS : ENDS};
        int taken = rows_before(groups, rows, checks), clusters = 0;
        if (lane == 0) head() = GroupHead{taken, groups.form == COUNTS};
#pragma unroll 1
        for (int base = 0; base < groups.count; base += 32) {
            int begin, end;
            lanes_bounds(given, base, rows, checks, taken, begin, end);
            const bool exists = base + lane < groups.count;
            int through = exists ? (end > begin ? (end - begin + CLUSTER_ROWS - 1) / CLUSTER_ROWS : 1) : 0;
#pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const int other = __shfl_up_sync(ALL, through, step);
                if (lane >= step) through += other;
            }
            through += clusters;
            if (exists) entries()[base + lane] = GroupEnd{end, through};
            clusters = __shfl_sync(ALL, through, 31);
        }
    }

    // The group that has a cluster of row tiles; `count` if there are fewer.
    static __device__ __forceinline__ int find(int cluster, int count) {
        int low = 0, high = count;
#pragma unroll 1
        while (low < high) {
            const int middle = (low + high) / 2;
            const bool before = entries()[middle].clusters <= cluster;
            low = before ? middle + 1 : low;
            high = before ? high : middle;
        }
        return low;
    }

    // A group's rows and row tiles.
    static __device__ __forceinline__ GroupRows rows_of(int group) {
        const GroupHead head = GroupTable::head();
        const GroupEnd own = entries()[group], before = group > 0 ? entries()[group - 1] : GroupEnd{head.before, 0};
        GroupRows rows;
        rows.begin = head.padded ? 0 : before.rows;
        rows.end = own.rows;
        rows.first_tile = before.clusters * Config::CLUSTER_M;
        const int count = rows.end - rows.begin;
        rows.tiles = count > 0 ? (count + Config::TILE_M - 1) / Config::TILE_M : 1;
        return rows;
    }
};

// A unit's work, with its group's rows: for the visitor. `of_group` is false for tiles that are there for reductions over
// all groups only: those beyond the last group, and those which fill a group's last cluster.
struct GroupWork : Work, GroupRows {
    bool of_group;
};

template <class Config>
__device__ __forceinline__ GroupWork group_work(const Work& given) {
    const GroupRows rows = GroupTable<Config>::rows_of(given.batch);
    GroupWork work;
    static_cast<Work&>(work) = given;
    work.of_group = given.tile_m - rows.first_tile < rows.tiles;
    static_cast<GroupRows&>(work) = work.of_group ? rows : GroupRows{-1, 0, given.tile_m, 1};
    return work;
}

// What `Scheduler` is for a `Config` with groups; see there. `Deal` counts each row of clusters as a batch. OVER_GROUPS:
// whether the epilogue has reductions over all groups, to which every tile contributes.
template <class Config, bool OVER_GROUPS>
struct GroupScheduler {
    using Table = GroupTable<Config>;
    const Deal& deal;

    __device__ __forceinline__ explicit GroupScheduler(const Deal& deal) : deal(deal) {}

    static __device__ __forceinline__ u32 first() { return blockIdx.x / Shape<Config>::CLUSTER; }
    static __device__ __forceinline__ u32 stride() { return gridDim.x / Shape<Config>::CLUSTER; }

    __device__ __forceinline__ Work work(const Problem& problem, u32 unit, u32 rank) const {
        const u32 clusters_n = (problem.tiles_n + Config::CLUSTER_N - 1) / Config::CLUSTER_N;
        const u32 line = deal.of_batch.quotient(unit);
        const int group = Table::find(static_cast<int>(line), problem.batch);
        const bool found = group < problem.batch;
        const GroupRows rows = Table::rows_of(found ? group : 0);
        // Of the first unit, of the group or of the line.
        const u32 before = found ? static_cast<u32>(rows.first_tile) / Config::CLUSTER_M : line;
        const u32 clusters_m =
            found ? static_cast<u32>(rows.tiles + Config::CLUSTER_M - 1) / Config::CLUSTER_M : 1;
        const u32 index = unit - before * clusters_n;
        const u32 along = Config::RASTER_N ? clusters_n : clusters_m, across = Config::RASTER_N ? clusters_m : clusters_n;
        constexpr u32 GROUP = Config::GROUP;
        const u32 turn = along > GROUP ? index / (GROUP * across) * GROUP : 0;
        const u32 in_turn = index - turn * across;
        const u32 members = along - turn < GROUP ? along - turn : GROUP;
        const u32 j = in_turn / members, i = turn + in_turn - j * members;

        Work work;
        const int own = static_cast<int>((Config::RASTER_N ? j : i) * Config::CLUSTER_M + rank % Config::CLUSTER_M);
        work.tile_m = static_cast<int>(before) * Config::CLUSTER_M + own;
        work.tile_n = static_cast<int>((Config::RASTER_N ? i : j) * Config::CLUSTER_N + rank / Config::CLUSTER_M);
        work.batch = found ? group : 0;
        work.split = 0;
        work.m = found ? rows.begin + own * Config::TILE_M : 0;
        work.n = work.tile_n * Config::TILE_N;
        work.tile = work.tile_m * problem.tiles_n + work.tile_n;
        const bool has_rows = found && rows.end > rows.begin;
        work.k_begin = has_rows ? 0 : problem.k;
        work.k_tiles = has_rows ? static_cast<int>(deal.k_tiles) : 1;
        work.exists = work.tile_n < problem.tiles_n && (OVER_GROUPS || (found && own < rows.tiles));
        work.ends = true;
        work.place = 0;
        return work;
    }
};

// Whether all rows of a step, whose first MMA row and column in the tile's results are given, are the group's.
template <class Config>
__device__ __forceinline__ bool whole_step(const Inside& inside, int row, int column) {
    return Config::SWAP_AB ? column + Config::STEP <= inside.columns
                           : row + 3 * BlockRows<Config>::STRIDE + 16 <= inside.rows;
}

// The extents of a group's elements, for what is accessed one by one.
__device__ __forceinline__ Problem up_to(int end, const Problem& problem) {
    Problem own = problem;
    own.m = end;
    return own;
}

template <class Config, class Multiply, class Visitor, class Parameters>
__device__ __forceinline__ void group_gemm(const Parameters& parameters) {
    const GroupCommon& common = parameters.common;
    if constexpr (Config::DEPENDENT_LAUNCH) wait_for_previous_launch();  // who made the bounds is done
    GroupTable<Config>::make(common.groups, common.problem.m);
    Gemm<Config, Multiply, Visitor, Parameters>::run(parameters);
}

}  // namespace epilogue::sm90
