// Split-K: several blocks share a tile, each with its part of K; one of them gets the complete sum and goes on to the
// epilogue. The parts are always added in the order of K, so the same input gives the same bits every time.
//
// - Serial: the blocks of a tile take turns at one running sum in the workspace. Little memory, they wait for each other.
// - Parallel: every block stores its part; whoever arrives last adds all of them. No waiting, `splits` times the memory.
// - Stream: a block that lacks the end of a tile's K stores its part at a place of its own and sets a flag; whoever has
//   the end adds the parts of the blocks before, from the last to the first (stream.cuh).
//
// All leave their counters at 0, so a launch needs no preset memory.
#pragma once
#include "mainloop.cuh"
#include "scheduler.cuh"
#include "stream.cuh"

namespace epilogue::sm80 {

// Four accumulators, moved at once.
template <typename T>
struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) Quad {
    T value[4];
};

template <class Config>
struct SplitKReduction {
    using Loop = Mainloop<Config>;
    using Accumulator = typename Loop::Accumulator;
    static constexpr int QUADS = Loop::MI * Loop::NJ;
    // Quads between one __syncwarp() and the next: NVRTC 13.0 gives reads that are so interrupted fewer registers, and
    // without it several kernels keep values in memory.
    static constexpr int BATCH = 8;

    // Place `quad` of this thread in workspace slot `slot`: neighbouring threads are neighbours in memory.
    static __device__ __forceinline__ index_t place(index_t slot, int quad) {
        return (slot * QUADS + quad) * Loop::THREADS + threadIdx.x;
    }

    template <class Visit>
    static __device__ __forceinline__ void for_each_quad(Visit visit) {
#pragma unroll
        for (int i = 0; i < Loop::MI; ++i)
#pragma unroll
            for (int j = 0; j < Loop::NJ; ++j) visit(i, j, i * Loop::NJ + j);
    }

    static __device__ __forceinline__ void store(const Accumulator (&acc)[Loop::MI][Loop::NJ][2][2],
                                                 Quad<Accumulator>* workspace, index_t slot) {
        for_each_quad([&](int i, int j, int quad) {
            Quad<Accumulator> x;
#pragma unroll
            for (int r = 0; r < 4; ++r) x.value[r] = acc[i][j][r / 2][r % 2];
            workspace[place(slot, quad)] = x;
        });
    }

    // acc = workspace + acc, in this order.
    static __device__ __forceinline__ void add_before(Accumulator (&acc)[Loop::MI][Loop::NJ][2][2],
                                                      const Quad<Accumulator>* workspace, index_t slot) {
        for_each_quad([&](int i, int j, int quad) {
            if (quad % BATCH == 0) __syncwarp();
            const Quad<Accumulator> x = workspace[place(slot, quad)];
#pragma unroll
            for (int r = 0; r < 4; ++r) acc[i][j][r / 2][r % 2] = x.value[r] + acc[i][j][r / 2][r % 2];
        });
    }

    // acc = acc + workspace, in this order.
    static __device__ __forceinline__ void add_after(Accumulator (&acc)[Loop::MI][Loop::NJ][2][2],
                                                     const Quad<Accumulator>* workspace, index_t slot) {
        for_each_quad([&](int i, int j, int quad) {
            if (quad % BATCH == 0) __syncwarp();
            const Quad<Accumulator> x = workspace[place(slot, quad)];
#pragma unroll
            for (int r = 0; r < 4; ++r) acc[i][j][r / 2][r % 2] = acc[i][j][r / 2][r % 2] + x.value[r];
        });
    }

    // `complete` of the part at a place of stream-K's line. A block stores at most one part in a launch, whose one reader
    // resets the flag.
    static __device__ __forceinline__ bool complete_part(Accumulator (&acc)[Loop::MI][Loop::NJ][2][2],
                                                         const StreamSchedule<Config>& schedule, u32 place, void* memory,
                                                         u32* flags) {
        if (place & StreamSchedule<Config>::WHOLE) return true;
        auto* const workspace = static_cast<Quad<Accumulator>*>(memory);
        const u32 tile = schedule.tile_begin(place);
        if (schedule.part_end(tile) != tile + schedule.line.k_tiles) {
            store(acc, workspace, blockIdx.x);
            __syncthreads();  // everyone's part is stored before the release
            if (threadIdx.x == 0) store_release(flags + blockIdx.x, 1);
            return false;
        }
#pragma unroll 1
        for (u32 block = blockIdx.x, begin = place; begin > tile;) {
            const u32 end = begin;
            begin = schedule.share(--block);
            if (begin == end) continue;  // it has no share
            if (threadIdx.x == 0) {
                while (load_acquire(flags + block) == 0) {
                }
            }
            __syncthreads();  // orders the acquire before everyone's reads of the part
            add_before(acc, workspace, block);
            if (threadIdx.x == 0) flags[block] = 0;  // nobody else of this launch looks
        }
        return true;
    }

    // Whether this block has the complete sum of its tile in `acc`, and the epilogue to do.
    static __device__ __forceinline__ bool complete(Accumulator (&acc)[Loop::MI][Loop::NJ][2][2], const Work& work,
                                                    const Problem& problem, void* memory, u32* counters) {
        auto* const workspace = static_cast<Quad<Accumulator>*>(memory);
        u32* const counter = counters + work.tile;
        const u32 split = static_cast<u32>(work.split), last = static_cast<u32>(problem.splits - 1);
        static_assert(Config::SPLIT_K != SplitK::Stream);
        if constexpr (Config::SPLIT_K == SplitK::None) {
            return true;
        } else if constexpr (Config::SPLIT_K == SplitK::Serial) {
            if (split != 0) {
                if (threadIdx.x == 0) {
                    while (load_acquire(counter) != split) {
                    }
                }
                __syncthreads();  // orders the acquire before everyone's reads of the running sum
                add_before(acc, workspace, work.tile);
            }
            if (split != last) store(acc, workspace, work.tile);
            __syncthreads();  // everyone's part of the running sum is stored before the release
            if (threadIdx.x == 0) {
                if (split != last) {
                    store_release(counter, split + 1);
                } else {
                    *counter = 0;  // all others of this launch have had their turn
                }
            }
            return split == last;
        } else {
            __shared__ u32 arrived;
            store(acc, workspace, index_t(work.tile) * problem.splits + split);
            __syncthreads();  // everyone's part is stored before the arrival
            if (threadIdx.x == 0) {
                const u32 before = atomic_add_acquire_release(counter, 1);
                if (before == last) *counter = 0;  // all others of this launch have arrived
                arrived = before;
            }
            __syncthreads();  // the arrival, and what it acquired, are everyone's
            if (arrived != last) return false;
            for_each_quad([&](int i, int j, int) {
#pragma unroll
                for (int r = 0; r < 4; ++r) acc[i][j][r / 2][r % 2] = 0;
            });
#pragma unroll 1
            for (int s = 0; s < problem.splits; ++s)
                add_after(acc, workspace, index_t(work.tile) * problem.splits + s);
            return true;
        }
    }
};

}  // namespace epilogue::sm80
