// The main loop of one tile: a pipeline (ring) of STAGES k-tiles, filled by cp.async while earlier ones are multiplied.
//
//   stage s of shared memory:  [ A tile | B tile ]          the tile of several B: scheduler.cuh, `Parts`
//
//   k-tile kt:  read the second fragments                      (the first are in registers);
//               start the copies of k-tile kt + STAGES - 1      (into the stage of the one before);
//               multiply k-tile kt, except its last MMAs;
//               wait until k-tile kt + 1 has landed, barrier    (all copies are visible; everyone has read k-tile kt);
//               read the first fragments of k-tile kt + 1;
//               run the last MMAs of k-tile kt.
//
// The tensor cores should have work when the barrier opens. The operands of a k-tile's last MMAs are in registers then,
// and the first fragments of the next k-tile arrive during them. The addresses of copies are computed between MMAs.
// This needs code without branches, so copies of zeros are started past the end of K. Their fragments are read and not
// multiplied.
//
// Copies of less than 16 bytes are many, and would take more registers than the blocks of an SM leave. FMA kernels gain
// nothing by the order above. Both wait at the start of a k-tile, start copies while any are left, and then read the
// first fragments. Operands that take registers while they are loaded wait there, too.
#pragma once
#include "fragments_mixed.cuh"
#include "loader.cuh"
#include "scheduler.cuh"

namespace epilogue::sm80 {

// The sums of a product, to which every k-tile's are added as they come. scaled.cuh and fragments_fp8.cuh
// have others.
template <class Accumulators>
struct PlainSums {
    static constexpr int SETS = 1;  // of accumulators
    Accumulators& acc;

    __device__ __forceinline__ Accumulators& of_k_tile() { return acc; }
    __device__ __forceinline__ void close_k_tile() {}
};

template <Arithmetic ARITHMETIC, class Accumulators>
struct SelectSums {
    using Type = PlainSums<Accumulators>;
};

template <class Config>
struct Mainloop {
    static constexpr int MI = Config::WARP_M / 16;
    static constexpr int NJ = Config::WARP_N / 8;
    static constexpr int WARPS_M = Config::TILE_M / Config::WARP_M;
    static constexpr int WARPS_N = Config::TILE_N / Config::WARP_N;
    static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
    static constexpr int STAGES = Config::STAGES;

    using ATile =
        OperandTile<typename Config::A, Config::A_MAJOR, Config::ARITHMETIC, Config::TILE_M, Config::TILE_K>;
    using BTile =
        OperandTile<typename Config::B, Config::B_MAJOR, Config::ARITHMETIC, Config::TILE_N, Config::TILE_K>;
    using Multiply = typename SelectMultiply<Config::ARITHMETIC, ATile, BTile, MI, NJ>::Type;
    using Accumulator = typename Multiply::Accumulator;
    static constexpr int STAGE_BYTES = ATile::BYTES + BTile::BYTES;
    static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES;
    static constexpr int STEPS = Config::TILE_K / Multiply::STEP;
    static_assert(STAGES >= 2 && STEPS >= 1 && Config::TILE_K % Multiply::STEP == 0);
    static_assert((MI & (MI - 1)) == 0 && (NJ & (NJ - 1)) == 0, "chunk indices are combined by XOR");

    using Of = Parts<Config>;
    using BLoader = Loader<BTile, Config::B_COPY, THREADS, Of::PARTS, Of::WIDTH>;

    // Adds A[m.., k_begin..k_end) · B[k_begin..k_end, n..), of every B, to `sums`. Ends with shared memory free for other use.
    template <class OfSums, class Source>
    static __device__ __forceinline__ void run(OfSums& sums, const Source& a,
                                               const Operand (&b)[Config::ACCUMULATORS], int m, int n,
                                               int extent_m, int extent_n, int k_begin, int k_end, int batch,
                                               int thread, u32 shared) {
        const int lane = thread % 32, warp = thread / 32;
        auto a_loader = loader_of_a<ATile, Config::A_COPY, THREADS>(a, thread, m, extent_m, k_begin, batch);
        BLoader b_loaders[Of::PARTS];
#pragma unroll
        for (int i = 0; i < Of::PARTS; ++i) {
            // Of the part that nobody has, everything is outside.
            const bool own = i < Of::COUNT;
            b_loaders[i] = BLoader(b[own ? i : 0], thread, n, own ? extent_n : 0, k_begin, batch, i);
        }
        const Multiply multiply(lane, warp / WARPS_N * Config::WARP_M, warp % WARPS_N * Config::WARP_N);

        const int k_tiles = k_end > k_begin ? (k_end - k_begin + Config::TILE_K - 1) / Config::TILE_K : 0;
        int k_left = k_end - k_begin;  // of what is not yet being copied
        constexpr bool COPY_FIRST =
            Config::A_COPY < 16 || Config::B_COPY < 16 || Config::ARITHMETIC == Arithmetic::F32;
        auto start_copy = [&](int kt, u32 stage) {
            if (COPY_FIRST ? kt < k_tiles : k_tiles > 0) {
                a_loader.load(stage, k_left);
#pragma unroll
                for (int i = 0; i < Of::PARTS; ++i) b_loaders[i].load(stage + ATile::BYTES, k_left);
                k_left -= Config::TILE_K;
            }
            copy_async_commit();  // also when empty: the count of groups is the count of k-tiles
        };

#pragma unroll
        for (int s = 0; s < STAGES - 1; ++s) start_copy(s, shared + s * STAGE_BYTES);

        u32 read = shared;
        u32 write = shared + (STAGES - 1) * STAGE_BYTES;
        const u32 end = shared + STAGES * STAGE_BYTES;
        auto refill = [&](int kt) {
            start_copy(kt + STAGES - 1, write);
            write = write + STAGE_BYTES == end ? shared : write + STAGE_BYTES;
        };
        // Where operands are converted for every product, which takes longer than their loads, there are no registers for the
        // next ones beside the largest number of accumulators.
        constexpr bool CONVERTED = Config::ARITHMETIC == Arithmetic::FP8 || Config::ARITHMETIC == Arithmetic::MIXED;
        constexpr bool LEAN = CONVERTED && MI * NJ * 4 >= 128;
        // Fragments that are rounded as they are loaded, or whose bytes change places, take more registers, and fewer
        // blocks would run at once. And a k-tile's first fragments may not be where the one before has its last. Beside a second
        // set of accumulators there are no registers for them while the first is added to.
        constexpr bool MADE =
            IN_WORDS<Config::ARITHMETIC> ||
            (IN_BYTES<Config::ARITHMETIC> && (Config::A_MAJOR == Major::MN || Config::B_MAJOR == Major::MN));
        constexpr bool AHEAD = OfSums::SETS == 1 && !COPY_FIRST && !LEAN && !MADE && STEPS % 2 == 0;
        typename Multiply::Fragments fragments[LEAN ? 1 : 2];
        auto land = [&] {
            copy_async_wait<STAGES - 2>();
            __syncthreads();  // a stage's copies have landed for everyone, and everyone has read the one to be refilled
        };
        if constexpr (!AHEAD) {
#pragma unroll 1
            for (int kt = 0; kt < k_tiles; ++kt) {
                land();
                if constexpr (COPY_FIRST || LEAN) refill(kt);
                if (!LEAN) multiply.load(fragments[0], read, read + ATile::BYTES, 0);
#pragma unroll (LEAN ? 1 : STEPS)
                for (int step = 0; step < STEPS; ++step) {
                    const int next = LEAN ? step : step + 1;
                    constexpr int FRAGMENTS = LEAN ? 1 : 2;
                    if (next < STEPS) multiply.load(fragments[next % FRAGMENTS], read, read + ATile::BYTES, next);
                    if (step == 0 && !COPY_FIRST && !LEAN) refill(kt);
                    Multiply::multiply(sums.of_k_tile(), fragments[step % FRAGMENTS]);
                }
                sums.close_k_tile();
                read = read + STAGE_BYTES == end ? shared : read + STAGE_BYTES;
            }
        } else if (k_tiles > 0) {
            land();
            multiply.load(fragments[0], read, read + ATile::BYTES, 0);
#pragma unroll 1
            for (int kt = 0; kt < k_tiles; ++kt) {
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    if (step + 1 == STEPS) {
                        land();
                        read = read + STAGE_BYTES == end ? shared : read + STAGE_BYTES;
                    }
                    multiply.load(fragments[(step + 1) % 2], read, read + ATile::BYTES, (step + 1) % STEPS);
                    if (step == 0) refill(kt);
                    Multiply::multiply(sums.of_k_tile(), fragments[step % 2]);
                }
                sums.close_k_tile();
            }
        }
        copy_async_wait<0>();  // the groups left are zeros or empty
        __syncthreads();  // everyone has read the last stage
    }
};

}  // namespace epilogue::sm80
