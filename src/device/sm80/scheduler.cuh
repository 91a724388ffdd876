// The tile, batch and part of K that a block computes.
//
// One block per (split, batch, tile), the split slowest. Blocks are started in the order of their index, so a block of
// serial split-K only waits for blocks that were started before it. Tiles go in groups of RASTER_GROUP tile rows:
// blocks that run together then share rows of A and columns of B in the L2. With stream-K, blocks take one tile, or
// part of one, after another (stream.cuh).
#pragma once
#include "../ptx.cuh"

namespace epilogue::sm80 {

// How blocks share K; split_k.cuh says what they do.
enum class SplitK { None, Serial, Parallel, Stream };

// This thread's number, for what is computed of it for one tile. Where a block takes tile after tile, the compiler would
// keep all of that from one to the next, in registers that the accumulators need.
template <class Config>
__device__ __forceinline__ int thread_in_tile() {
    const int thread = static_cast<int>(threadIdx.x);
    return Config::SPLIT_K == SplitK::Stream ? anew(thread) : thread;
}

// The run-time shape. `tiles_m` and `tiles_n` are at least 1, so that an empty matrix still gets its reductions'
// identities written.
struct Problem {
#include "../Problem.fields"
};

// How the columns of a tile are shared among the accumulators of an element: the products of A and a B each. Every warp's
// columns are cut into PARTS runs of WIDTH, one of each accumulator:
//
//   columns of the tile    [ warp 0: gate 0..W | up 0..W ]  [ warp 1: gate W..2W | up W..2W ]  ...        W = WIDTH
//
// so that a lane finds all accumulators of an element in its own warp. PARTS is a power of two, as the columns are; the part
// that three accumulators leave is multiplied by zeros.
template <class Config>
struct Parts {
    static constexpr int COUNT = Config::ACCUMULATORS;
    static constexpr int PARTS = COUNT > 2 ? 4 : COUNT;
    static constexpr int WIDTH = Config::WARP_N / PARTS;
    static constexpr int COLUMNS = Config::TILE_N / PARTS;  // of the product, that a tile has
    static_assert(COUNT >= 1 && COUNT <= 4 && WIDTH >= 8);
};

// Stream-K: the line of tiles that are cut along K.
struct Line {
#include "../Line.fields"
};

struct Work {
    int tile_m, tile_n, batch, split;
    int m, n;  // the tile's first row and column
    int k_begin, k_end;
    int tile;  // among all tiles of all batches
};

// Tile rows that are gone through together.
inline constexpr u32 RASTER_GROUP = 8;

// The number of a tile among those of its matrix.
__device__ __forceinline__ int place_of_tile(int tiles_m, int tiles_n, int tile_m, int tile_n) {
    constexpr int ROWS = RASTER_GROUP;
    const int first = tile_m / ROWS * ROWS, left = tiles_m - first;
    return first * tiles_n + tile_n * (left < ROWS ? left : ROWS) + tile_m % ROWS;
}

// A tile with all of K.
template <class Config>
__device__ __forceinline__ Work work_of_tile(const Problem& problem, u32 tile) {
    const u32 tiles_m = problem.tiles_m, tiles_n = problem.tiles_n;
    const u32 tiles = tiles_m * tiles_n;
    Work work;
    work.split = 0;
    work.batch = static_cast<int>(tile / tiles);
    work.tile = static_cast<int>(tile);
    const u32 index = tile % tiles;
    const u32 group = index / (RASTER_GROUP * tiles_n);
    const u32 in_group = index % (RASTER_GROUP * tiles_n);
    const u32 left = tiles_m - group * RASTER_GROUP;
    const u32 rows = left < RASTER_GROUP ? left : RASTER_GROUP;
    work.tile_m = static_cast<int>(group * RASTER_GROUP + in_group % rows);
    work.tile_n = static_cast<int>(in_group / rows);
    work.m = work.tile_m * Config::TILE_M;
    work.n = work.tile_n * Parts<Config>::COLUMNS;
    work.k_begin = 0;
    work.k_end = problem.k;
    return work;
}

template <class Config>
__device__ __forceinline__ Work schedule(const Problem& problem, u32 block) {
    const u32 tiles = problem.tiles_m * problem.tiles_n * problem.batch;
    Work work = work_of_tile<Config>(problem, block % tiles);
    work.split = static_cast<int>(block / tiles);
    const index_t begin = index_t(work.split) * problem.k_per_split;
    const index_t end = begin + problem.k_per_split;
    work.k_begin = static_cast<int>(begin < problem.k ? begin : problem.k);
    work.k_end = static_cast<int>(end < problem.k ? end : problem.k);
    return work;
}

}  // namespace epilogue::sm80
