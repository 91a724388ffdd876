// The tiles that a block computes: persistent blocks walk through the units of work.
//
// A unit is one cluster's tiles (one tile per block) and one part of K. Units are numbered with the split slowest, then
// the batch. A cluster takes them in ascending order, so one of serial split-K only waits for units that somebody has
// begun before. Tiles go in groups of GROUP cluster rows (RASTER_N: columns), so that what runs at the same time shares
// rows of A and columns of B in the L2.
//
// Stream-K: the first `streamed` units are laid end to end, k-tile after k-tile, and every cluster takes an equal share
// of that line; the other units are dealt whole. A cluster begins with the last part of its share. If that part lacks
// the end of K, the unit's finisher waits for it; it is the first that its cluster computes, and the cluster has a
// lower number and has begun before. The cut depends on M, N, K and the grid only.
//
// All roles ask for every unit, the consumers with idle tensor cores. So divisions are products with numbers that the
// host has made (`Deal`), which stay in the constant bank.
#pragma once
#include "../needed.cuh"
#include "../sm80/scheduler.cuh"
#include "config.cuh"

namespace epilogue::sm90 {

using sm80::Problem;

// Division by a number that the host knows, of numbers below 2^31.
struct Divisor {
#include "Divisor.fields"

    __device__ __forceinline__ u32 quotient(u32 x) const { return __umulhi(2 * x, multiplier) >> shift; }
};

// The units, and how they are dealt.
struct Deal {
#include "Deal.fields"
};

struct Work {
    int tile_m, tile_n, batch, split;
    int m, n;  // the tile's first row and column
    int k_begin, k_tiles;  // at least one, which may lie outside of K and is read as zeros; none where none is needed
    int tile;     // among all tiles of all batches
    bool exists;  // false where only the cluster's other blocks have a tile
    bool ends;    // whether the end of K is here: always but in stream-K
    u32 place;    // stream-K: where this part begins
};

template <class Config>
struct Scheduler {
    static constexpr bool STREAM = Config::SPLIT_K == SplitK::Stream;
    const Deal& deal;

    __device__ __forceinline__ explicit Scheduler(const Deal& deal) : deal(deal) {}

    // This cluster's first unit, and the distance to its next.
    static __device__ __forceinline__ u32 first() { return blockIdx.x / Shape<Config>::CLUSTER; }
    static __device__ __forceinline__ u32 stride() { return gridDim.x / Shape<Config>::CLUSTER; }

    // ---- Stream-K ----
    //
    // A place is where a part begins on the line, or WHOLE and the number of a unit that is dealt whole.

    static constexpr u32 WHOLE = 1u << 31;

    // Where a cluster's share of the line begins, which is where the share before ends. The host keeps the line below 2^31.
    __device__ __forceinline__ u32 share(u32 cluster) const {
        return cluster * deal.share + (cluster < deal.longer ? cluster : deal.longer);
    }

    // The place of this cluster's part that ends at `end`, or of its first whole unit where its share is done.
    __device__ __forceinline__ u32 place_before(u32 end) const {
        const u32 begin = share(first());
        // Where `end` is 0 there is no part; no branch either.
        const u32 line = anew(unit_of((end > 0 ? end : 1) - 1) * deal.k_tiles);
        const u32 place = line > begin ? line : begin;
        return end > begin ? place : WHOLE | (deal.streamed + first());
    }
    __device__ __forceinline__ u32 first_place() const { return place_before(share(first() + 1)); }
    __device__ __forceinline__ u32 place_after(u32 place) const {
        return place & WHOLE ? place + stride() : place_before(place);
    }
    __device__ __forceinline__ bool exists(u32 place) const { return !(place & WHOLE) || (place & ~WHOLE) < deal.units; }

    __device__ __forceinline__ u32 unit_of(u32 place) const { return deal.of_unit.quotient(place); }

    // Where the part at a place of the line ends; its unit begins at `line`.
    __device__ __forceinline__ u32 end_of(u32 line) const {
        const u32 mine = share(first() + 1);
        return mine < line + deal.k_tiles ? mine : line + deal.k_tiles;
    }

    __device__ __forceinline__ Work work_at(const Problem& problem, u32 place, u32 rank) const {
        const u32 unit = place & WHOLE ? place & ~WHOLE : unit_of(place);
        Work work = this->work(problem, unit, rank);
        work.place = place;
        if (!(place & WHOLE)) {
            const u32 line = unit * deal.k_tiles, end = end_of(line);
            work.k_begin = static_cast<int>((place - line) * Config::TILE_K);
            work.k_tiles = static_cast<int>(end - place);
            work.ends = end == line + deal.k_tiles;
        }
        return work;
    }

    // ---- Units ----

    __device__ __forceinline__ Work work(const Problem& problem, u32 unit, u32 rank) const {
        // Clusters of tiles, along and across groups.
        const u32 clusters_m = (problem.tiles_m + Config::CLUSTER_M - 1) / Config::CLUSTER_M;
        const u32 clusters_n = (problem.tiles_n + Config::CLUSTER_N - 1) / Config::CLUSTER_N;
        const u32 along = Config::RASTER_N ? clusters_n : clusters_m;
        const u32 in_batch = clusters_m * clusters_n;
        constexpr bool SPLIT = Config::SPLIT_K == SplitK::Serial || Config::SPLIT_K == SplitK::Parallel;
        const u32 split = SPLIT ? deal.of_split.quotient(unit) : 0;
        const u32 of_split = unit - split * in_batch * problem.batch;
        const u32 batch = deal.of_batch.quotient(of_split);
        const u32 index = of_split - batch * in_batch;
        const u32 group = deal.of_group.quotient(index);
        const u32 in_group = index - group * deal.group_units;
        const u32 left = along - group * Config::GROUP;
        const bool last = left < u32(Config::GROUP);
        const Divisor of_column{last ? deal.of_last_column.multiplier : deal.of_column.multiplier,
                                last ? deal.of_last_column.shift : deal.of_column.shift};
        const u32 j = of_column.quotient(in_group);
        const u32 i = group * Config::GROUP + in_group - j * (last ? left : u32(Config::GROUP));
        Work work;
        work.split = static_cast<int>(split);
        work.batch = static_cast<int>(batch);
        work.tile_m = static_cast<int>((Config::RASTER_N ? j : i) * Config::CLUSTER_M + rank % Config::CLUSTER_M);
        work.tile_n = static_cast<int>((Config::RASTER_N ? i : j) * Config::CLUSTER_N + rank / Config::CLUSTER_M);
        work.m = work.tile_m * Config::TILE_M;
        work.n = work.tile_n * Config::TILE_N;
        work.tile = (work.batch * problem.tiles_m + work.tile_m) * problem.tiles_n + work.tile_n;
        work.exists =
            Shape<Config>::CLUSTER == 1 || (work.tile_m < problem.tiles_m && work.tile_n < problem.tiles_n);
        work.k_begin = 0;
        work.k_tiles = static_cast<int>(deal.k_tiles);
        if constexpr (SPLIT) {
            // Below 2^32: the host rounds K up to no more than a k-tile for every split.
            const u32 k = problem.k, first = split * problem.k_per_split;
            const u32 begin = first < k ? first : k;
            const u32 size_k = k - begin > u32(problem.k_per_split) ? u32(problem.k_per_split) : k - begin;
            work.k_begin = static_cast<int>(begin);
            work.k_tiles = size_k > 0 ? static_cast<int>((size_k + Config::TILE_K - 1) / Config::TILE_K) : 1;
        }
        work.ends = true;
        work.place = 0;
        return work;
    }
};

// A unit's work without k-tiles, if no tile of its cluster needs its product: blocks of a cluster share what they load.
template <class Config, class Parameters>
__device__ __forceinline__ Work as_needed(Work work, const Parameters& parameters, u32 rank) {
    if constexpr (!Need<Config>::EVERYWHERE) {
        const Problem& problem = parameters.common.problem;
        const int m = work.m - static_cast<int>(rank % Config::CLUSTER_M) * Config::TILE_M;
        const int n = work.n - static_cast<int>(rank / Config::CLUSTER_M) * Config::TILE_N;
        if (!needs_product<Config>(parameters, m, n, Config::CLUSTER_M * Config::TILE_M, Config::CLUSTER_N * Config::TILE_N,
                                   problem.m, problem.n, work.batch))
            work.k_tiles = 0;
    }
    return work;
}

}  // namespace epilogue::sm90
