// Stream-K: the tiles of the last waves are cut along K, so that all blocks end together.
//
// The first `streamed` tiles are laid end to end, k-tile after k-tile, and every thread block takes an equal share of
// that line; the other tiles are dealt whole, one after the other. A thread block has at most one part of a tile that
// lacks the end of the tile's K, and begins with it: it is the last of its share.
//
//        tile 0              tile 1              tile 2
//   |-------------------|-------------------|-------------------|
//   |    block 0     |    block 1     |    block 2     | block 3 |       block 1: first its part of tile 1, then the end of
//                                                                      tile 0
//
// That part goes to the thread block's place in the workspace. A tile's finisher is the block with its end. It adds the
// earlier blocks' parts to its own, from the last to the first. The order of a tile's sum therefore follows from M, N,
// K and the grid, and not from timing. The finisher waits only for blocks with lower numbers, and only for their first
// work. These blocks were started before, so all waiting ends. kernel/stream.rs is the host's side.
#pragma once
#include "scheduler.cuh"

namespace epilogue::sm80 {

template <class Config>
struct StreamSchedule {
    const Problem& problem;
    const Line& line;

    // A place is where a part begins on the line, or WHOLE and the number of a tile that is dealt whole. The host keeps the
    // line below 2^31 and tiles below 2^30.
    static constexpr u32 WHOLE = 1u << 31;

    // Where a thread block's share of the line begins, which is where the share before ends.
    __device__ __forceinline__ u32 share(u32 block) const {
        return block * line.share + (block < line.longer ? block : line.longer);
    }

    // Where a place's tile begins on the line.
    __device__ __forceinline__ u32 tile_begin(u32 place) const { return place / line.k_tiles * line.k_tiles; }

    // Where the part ends that is of the tile that begins at `begin`.
    __device__ __forceinline__ u32 part_end(u32 begin) const {
        const u32 mine = share(blockIdx.x + 1), end = begin + line.k_tiles;
        return mine < end ? mine : end;
    }

    // This block's place that ends at `end`, or that of its first whole tile where its share is done.
    __device__ __forceinline__ u32 before(u32 end) const {
        const u32 begin = share(blockIdx.x);
        if (end <= begin) return WHOLE | (line.streamed + blockIdx.x);
        const u32 tile = tile_begin(end - 1);
        return tile > begin ? tile : begin;
    }

    __device__ __forceinline__ u32 first() const { return before(share(blockIdx.x + 1)); }

    __device__ __forceinline__ u32 after(u32 place) const {
        return place & WHOLE ? place + gridDim.x : before(place);
    }

    __device__ __forceinline__ bool exists(u32 place) const {
        const u32 tiles = problem.tiles_m * problem.tiles_n * problem.batch;
        return !(place & WHOLE) || (place & ~WHOLE) < tiles;
    }

    __device__ __forceinline__ Work work(u32 place) const {
        const bool whole = place & WHOLE;
        Work work = work_of_tile<Config>(problem, whole ? place & ~WHOLE : place / line.k_tiles);
        if (!whole) {
            const u32 begin = tile_begin(place);
            const index_t end = index_t(part_end(begin) - begin) * Config::TILE_K;
            work.k_begin = static_cast<int>((place - begin) * Config::TILE_K);
            work.k_end = static_cast<int>(end < problem.k ? end : problem.k);
        }
        return work;
    }
};

}  // namespace epilogue::sm80
