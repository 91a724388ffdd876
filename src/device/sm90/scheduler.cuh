// Which tiles a block computes: persistent blocks walk through the units of work.
//
// A unit is one cluster's tiles (one tile per block) and one part of K. Units are numbered with the split slowest, then
// the batch: a cluster takes them in ascending order, so one of serial split-K only waits for units that somebody has
// begun before. Tiles go in groups of GROUP cluster rows (RASTER_N: columns), so that what runs at the same time shares
// rows of A and columns of B in the L2.
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
};

template <class Config>
struct Scheduler {
    u32 clusters_m, clusters_n;  // of tiles
    u32 units;

    __device__ __forceinline__ explicit Scheduler(const Problem& problem)
        : clusters_m((problem.tiles_m + Config::CLUSTER_M - 1) / Config::CLUSTER_M),
          clusters_n((problem.tiles_n + Config::CLUSTER_N - 1) / Config::CLUSTER_N),
          units(clusters_m * clusters_n * problem.batch * problem.splits) {}

    // This cluster's first unit, and the distance to its next.
    static __device__ __forceinline__ u32 first() { return blockIdx.x / Shape<Config>::CLUSTER; }
    static __device__ __forceinline__ u32 stride() { return gridDim.x / Shape<Config>::CLUSTER; }

    __device__ __forceinline__ Work work(const Problem& problem, u32 unit, u32 rank) const {
        const u32 along = Config::RASTER_N ? clusters_n : clusters_m;  // what groups are made of
        // No larger than the axis, so that no product exceeds 32 bits.
        const u32 most = along < u32(Config::GROUP) ? along : u32(Config::GROUP);
        const u32 across = Config::RASTER_N ? clusters_m : clusters_n;
        const u32 in_batch = clusters_m * clusters_n;
        const u32 in_split = in_batch * problem.batch;
        const u32 split = Config::SPLIT_K == SplitK::None ? 0 : unit / in_split;
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
        const u32 size_k = Config::SPLIT_K == SplitK::None || k - begin < static_cast<u32>(problem.k_per_split)
                               ? k - begin
                               : problem.k_per_split;
        work.k_begin = static_cast<int>(begin);
        work.k_blocks = size_k > 0 ? static_cast<int>((size_k + Config::TILE_K - 1) / Config::TILE_K) : 1;
        return work;
    }
};

}  // namespace epilogue::sm90
