// Split-K: several units share a tile, each with its part of K; one team gets the complete sum and goes on to the
// epilogue. The parts are always added in the order of K, so the same input gives the same bits every time.
//
// - Serial: the units of a tile take turns at one running sum in the workspace. A team waits for a unit of a lower
//   number, which a resident block has begun.
// - Parallel: every unit stores its part; whoever arrives last adds all of them.
//
// - Stream: a block that lacks the end of a tile's K stores its part at a place of its own and sets a flag; whoever has
//   the end adds the parts of the blocks before, from the last to the first.
//
// All leave their counters at 0, so a launch needs no preset memory.
#pragma once
#include "pipeline.cuh"
#include "scheduler.cuh"

namespace epilogue::sm90 {

template <class Config>
struct SplitKReduction {
    using S = Shape<Config>;
    using Accumulator = typename Config::Accumulator;
    using Sums = Accumulator[S::BLOCKS][S::REGISTERS];
    static constexpr int QUADS = S::REGISTERS / 4;  // of a block
    // Quads between one __syncwarp() and the next: NVRTC 13.0 gives reads that are so interrupted fewer registers, and
    // without it several kernels keep values in memory.
    static constexpr int BATCH = 8;

    struct alignas(16) Quad {
        Accumulator value[4];
    };

    // Quad `quad` of this thread's block `i` in slot `slot`: neighbouring threads are neighbours in memory.
    static __device__ __forceinline__ Quad* place(void* memory, index_t slot, int i, int quad, int thread) {
        return static_cast<Quad*>(memory) + ((slot * S::BLOCKS + i) * QUADS + quad) * S::TEAM_THREADS + thread;
    }

    static __device__ __forceinline__ void store(const Sums& acc, void* memory, index_t slot, int thread) {
#pragma unroll
        for (int i = 0; i < S::BLOCKS; ++i)
#pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                Quad x;
#pragma unroll
                for (int r = 0; r < 4; ++r) x.value[r] = acc[i][4 * q + r];
                *place(memory, slot, i, q, thread) = x;
            }
    }

    // acc = memory + acc
    static __device__ __forceinline__ void add_before(Sums& acc, void* memory, index_t slot, int thread) {
#pragma unroll
        for (int i = 0; i < S::BLOCKS; ++i)
#pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                if ((i * QUADS + q) % BATCH == 0) __syncwarp();
                const Quad x = *place(memory, slot, i, q, thread);
#pragma unroll
                for (int r = 0; r < 4; ++r) acc[i][4 * q + r] = x.value[r] + acc[i][4 * q + r];
            }
    }

    // acc = acc + memory
    static __device__ __forceinline__ void add_after(Sums& acc, void* memory, index_t slot, int thread) {
#pragma unroll
        for (int i = 0; i < S::BLOCKS; ++i)
#pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                if ((i * QUADS + q) % BATCH == 0) __syncwarp();
                const Quad x = *place(memory, slot, i, q, thread);
#pragma unroll
                for (int r = 0; r < 4; ++r) acc[i][4 * q + r] = acc[i][4 * q + r] + x.value[r];
            }
    }

    // A block stores at most one part in a launch, whose one reader resets the flag. All but the place is computed anew:
    // during the product there are no registers for it.
    static __device__ __forceinline__ bool complete_stream(Sums& acc, u32 place, const Scheduler<Config>& scheduler,
                                                           void* memory, u32* flags, int team, int thread) {
        if (place & Scheduler<Config>::WHOLE) return true;
        const u32 k_tiles = scheduler.deal.k_tiles, line = scheduler.unit_of(place) * k_tiles;
        if (scheduler.end_of(line) != line + k_tiles) {
            store(acc, memory, blockIdx.x, thread);
            team_sync<Config>(team);  // everyone's part is stored before the release
            if (thread == 0) store_release(flags + blockIdx.x, 1);
            return false;
        }
        u32 block = blockIdx.x;
#pragma unroll 1
        for (u32 cluster = scheduler.first(), begin = place; begin > line;) {
            const u32 end = begin;
            begin = scheduler.share(--cluster);
            block -= S::CLUSTER;  // of the same rank
            if (begin == end) continue;  // it has no share
            if (thread == 0) {
                while (load_acquire(flags + block) == 0) {
                }
            }
            team_sync<Config>(team);  // orders the acquire before everyone's reads of the part
            add_before(acc, memory, block, thread);
            if (thread == 0) flags[block] = 0;  // nobody else of this launch looks
        }
        return true;
    }

    // Whether this team has the complete sum of its tile in `acc`, and the epilogue to do. `thread` is of the team,
    // `shared` the block's memory. In parallel split-K every thread calls `decided` with whether it will, before the sum.
    template <class Decided>
    static __device__ __forceinline__ bool complete(Sums& acc, const Work& work, const Problem& problem,
                                                    const Deal& deal, void* memory, u32* counters, int team, int thread,
                                                    unsigned char* shared, Decided decided) {
        if constexpr (Config::SPLIT_K == SplitK::None) {
            return true;
        } else if constexpr (Config::SPLIT_K == SplitK::Stream) {
            const Scheduler<Config> scheduler(deal);
            return complete_stream(acc, work.place, scheduler, memory, counters, team, thread);
        } else {
            u32* const counter = counters + work.tile;
            const u32 split = static_cast<u32>(work.split), last = static_cast<u32>(problem.splits - 1);
            if constexpr (Config::SPLIT_K == SplitK::Serial) {
                if (split != 0) {
                    if (thread == 0) {
                        while (load_acquire(counter) != split) {
                        }
                    }
                    team_sync<Config>(team);  // orders the acquire before everyone's reads of the running sum
                    add_before(acc, memory, work.tile, thread);
                }
                if (split != last) store(acc, memory, work.tile, thread);
                team_sync<Config>(team);  // everyone's part of the running sum is stored before the release
                if (thread == 0) {
                    if (split != last) {
                        store_release(counter, split + 1);
                    } else {
                        *counter = 0;  // all others of this launch have had their turn
                    }
                }
                return split == last;
            } else {
                volatile u32* const arrived = reinterpret_cast<u32*>(shared + Control<Config>::WORDS) + team;
                store(acc, memory, index_t(work.tile) * problem.splits + split, thread);
                team_sync<Config>(team);  // everyone's part is stored before the arrival
                if (thread == 0) {
                    const u32 before = atomic_add_acquire_release(counter, 1);
                    if (before == last) *counter = 0;  // all others of this launch have arrived
                    *arrived = before;
                }
                team_sync<Config>(team);  // the arrival, and what it acquired, are everyone's
                // The word is used again after the next tile's parts are stored, where everyone meets.
                const bool mine = *arrived == last;
                decided(mine);
                if (!mine) return false;
#pragma unroll
                for (int i = 0; i < S::BLOCKS; ++i)
#pragma unroll
                    for (int r = 0; r < S::REGISTERS; ++r) acc[i][r] = 0;
#pragma unroll 1
                for (int s = 0; s < problem.splits; ++s)
                    add_after(acc, memory, index_t(work.tile) * problem.splits + s, thread);
                return true;
            }
        }
    }
};

}  // namespace epilogue::sm90
