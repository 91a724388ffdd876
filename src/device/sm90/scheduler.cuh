// Which tiles a block computes: persistent blocks walk through the units of work.
//
// A unit is one cluster's tiles (one tile per block) and one part of K. Units are numbered with the split slowest, then
// the batch: a cluster takes them in ascending order, so one of serial split-K only waits for units that somebody has
// begun before. Tiles go in groups of GROUP cluster rows (RASTER_N: columns), so that what runs at the same time shares
// rows of A and columns of B in the L2.
//
// Stream-K: the first `streamed` units are laid end to end, block of K after block of K, and every cluster takes an equal
// share of that line; the other units are dealt whole. A cluster begins with the last part of its share: a part that lacks
// the end of K, for which the unit's finisher waits, is the first that its cluster computes, and of a cluster of a lower
// number, which has begun before. The cut is the same whenever M, N, K and the grid are.
#pragma once
#include "../sm80/scheduler.cuh"
#include "config.cuh"

namespace epilogue::sm90 {

using sm80::Problem;

struct Work {
    int tile_m, tile_n, batch, split;
    int m, n;  // the tile's first row and column
    int k_begin, k_blocks;  // at least one block, which then lies outside of K and is read as zeros
    int tile;     // among all tiles of all batches
    bool exists;  // false where only the cluster's other blocks have a tile
    bool ends;    // whether the end of K is here: always but in stream-K
    u32 place;    // stream-K: where this part begins
};

template <class Config>
struct Scheduler {
    static constexpr bool STREAM = Config::SPLIT_K == SplitK::Stream;
    u32 clusters_m, clusters_n;  // of tiles
    u32 units;
    u32 streamed, k_blocks;  // stream-K: units that are cut, and blocks of K of each

    __device__ __forceinline__ Scheduler(const Problem& problem, int streamed)
        : clusters_m((problem.tiles_m + Config::CLUSTER_M - 1) / Config::CLUSTER_M),
          clusters_n((problem.tiles_n + Config::CLUSTER_N - 1) / Config::CLUSTER_N),
          units(clusters_m * clusters_n * problem.batch * problem.splits),
          streamed(STREAM ? anew(streamed) : 0),
          k_blocks(STREAM ? blocks_of(anew(problem.k)) : 0) {}

    static __device__ __forceinline__ u32 blocks_of(int k) {
        return k > 0 ? (u32(k) + Config::TILE_K - 1) / Config::TILE_K : 1;
    }

    // This cluster's first unit, and the distance to its next.
    static __device__ __forceinline__ u32 first() { return blockIdx.x / Shape<Config>::CLUSTER; }
    static __device__ __forceinline__ u32 stride() { return gridDim.x / Shape<Config>::CLUSTER; }

    // ---- Stream-K ----
    //
    // A place is where a part begins on the line, or WHOLE and the number of a unit that is dealt whole.

    static constexpr u32 WHOLE = 1u << 31;

    // Where a cluster's share of the line begins, which is where the share before ends. The host keeps the line below 2^31.
    __device__ __forceinline__ u32 share(u32 cluster) const {
        const u32 clusters = anew(stride()), least = streamed * k_blocks / clusters, more = streamed * k_blocks % clusters;
        return cluster * least + (cluster < more ? cluster : more);
    }

    // The place of this cluster's part that ends at `end`, or of its first whole unit where its share is done.
    __device__ __forceinline__ u32 place_before(u32 end) const {
        const u32 begin = share(first());
        const u32 line = anew((end - 1) / k_blocks * k_blocks);  // of no use, but no branch either, where end is 0
        const u32 place = line > begin ? line : begin;
        return end > begin ? place : WHOLE | (streamed + first());
    }
    __device__ __forceinline__ u32 first_place() const { return place_before(share(first() + 1)); }
    __device__ __forceinline__ u32 place_after(u32 place) const {
        return place & WHOLE ? place + stride() : place_before(place);
    }
    __device__ __forceinline__ bool exists(u32 place) const { return !(place & WHOLE) || (place & ~WHOLE) < units; }

    // Where the part at a place of the line ends; its unit begins at `line`.
    __device__ __forceinline__ u32 end_of(u32 line) const {
        const u32 mine = share(first() + 1);
        return mine < line + k_blocks ? mine : line + k_blocks;
    }

    __device__ __forceinline__ Work work_at(const Problem& problem, u32 place, u32 rank) const {
        const u32 unit = place & WHOLE ? place & ~WHOLE : place / k_blocks;
        Work work = this->work(problem, unit, rank);
        work.place = place;
        if (!(place & WHOLE)) {
            const u32 line = unit * k_blocks, end = end_of(line);
            work.k_begin = static_cast<int>((place - line) * Config::TILE_K);
            work.k_blocks = static_cast<int>(end - place);
            work.ends = end == line + k_blocks;
        }
        return work;
    }

    // ---- Units ----

    __device__ __forceinline__ Work work(const Problem& problem, u32 unit, u32 rank) const {
        const u32 along = Config::RASTER_N ? clusters_n : clusters_m;  // what groups are made of
        // No larger than the axis, so that no product exceeds 32 bits.
        const u32 most = along < u32(Config::GROUP) ? along : u32(Config::GROUP);
        const u32 across = Config::RASTER_N ? clusters_m : clusters_n;
        const u32 in_batch = clusters_m * clusters_n;
        const u32 in_split = in_batch * problem.batch;
        constexpr bool SPLIT = Config::SPLIT_K == SplitK::Serial || Config::SPLIT_K == SplitK::Parallel;
        const u32 split = SPLIT ? unit / in_split : 0;
        const u32 of_split = unit - split * in_split;
        const u32 batch = of_split / in_batch;
        const u32 index = of_split - batch * in_batch;
        const u32 group = index / (most * across);
        const u32 in_group = index - group * most * across;
        const u32 left = along - group * most;
        const u32 size = left < most ? left : most;
        const u32 j = in_group / size;
        const u32 i = group * most + in_group - j * size;
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
        // Below 2^32: the host rounds K up to no more than a block for every split.
        const u32 k = problem.k, first = split * problem.k_per_split;
        const u32 begin = first < k ? first : k;
        const u32 size_k = SPLIT && k - begin > u32(problem.k_per_split) ? u32(problem.k_per_split) : k - begin;
        work.k_begin = static_cast<int>(begin);
        work.k_blocks = size_k > 0 ? static_cast<int>((size_k + Config::TILE_K - 1) / Config::TILE_K) : 1;
        work.ends = true;
        work.place = 0;
        return work;
    }
};

}  // namespace epilogue::sm90
