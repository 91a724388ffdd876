// The products of activations of 16 bits and weights of 8 (../convert_8bit.cuh): the differences to gemm.cuh.
//
// wgmma has no instruction for the two types, so weights are converted to the activations' type on their way. Only its
// first operand can come from registers. So weights are the first: these kernels are swapped, whatever M is. A k-tile
// of weights has half as many bytes; all else is as in other swapped kernels. K keeps the order of 16-bit weights, so
// the bits are the same, too.
//
//   stage of weights in shared memory     MMA_ROWS rows of 64 bytes: a k-tile
//   bytes                                 of all rows of a warp: to registers
//   step, of four                         a quarter of them: to 16 bits | product, started | wait for the step before
//
// A lane's part of a step (PTX ISA, "wgmma", A in registers): of rows l/4 and l/4 + 8 of its warp's 16, k = 2q, 2q+1
// and 2q+8, 2q+9 of 16, where q = l%4. So it loads two bytes at a time. TMA's 64-byte swizzle has
//
//   16 bytes c of row r   at 64r + 16 (c ^ r/2%4)
//
// so that a load of 8 rows reads from 8 different places of 16 bytes in 128: from all banks once.
#pragma once
#include "../convert_8bit.cuh"
#include "gemm.cuh"

namespace epilogue::sm90 {

template <class Config, typename Weight, typename Activation>
struct MixedProducts {
    using S = Shape<Config>;
    using C = Control<Config>;
    using Loop = Mainloop<Config>;
    using OfConsumer = typename Loop::OfConsumer;
    using Release = typename Loop::Release;
    static constexpr int ROW_BYTES = Config::TILE_K * Config::A_ELEMENT_BYTES, STEPS = 4;
    static_assert(Config::SWAP_AB && Config::A_MAJOR == Major::K && ROW_BYTES == 64);
    static_assert(!Config::PROMOTE && !Config::SPLIT_COLUMNS);

    static __device__ __forceinline__ void skip(OfConsumer& ring, int k_tiles, bool loaded) {
        Loop::skip(ring, k_tiles, loaded);
    }

    // A lane's bytes of a k-tile, of rows 8 apart: k = 2q, 2q+1, 2q+8, 2q+9 of every step.
    using Bytes = u32[STEPS][S::BLOCKS][2];

    // Where those of the first step are, behind the first row of a warpgroup.
    static __device__ __forceinline__ u32 own_place() {
        const u32 thread = threadIdx.x % WARPGROUP, lane = thread % 32;
        return (thread / 32 * 16 + lane / 4) * ROW_BYTES + lane / 8 % 4 * 16 + lane % 4 * 2;
    }

    static __device__ __forceinline__ void load(Bytes& bytes, u32 place) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            for (int i = 0; i < S::BLOCKS; ++i)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const u32 at = (place ^ 16 * step) + (64 * i + 8 * h) * ROW_BYTES;
                    bytes[step][i][h] = permute_bytes<0x5410>(load_shared_2(at), load_shared_2(at + 8));
                }
    }

    // As `Mainloop::consume`; PENDING counts steps.
    template <class Multiply, class OfPromotion, class LastBegun>
    static __device__ __forceinline__ void consume(float (&acc)[S::BLOCKS][S::REGISTERS], typename Loop::Ring& ring,
                                                   int k_tiles, bool loaded, int member, OfPromotion,
                                                   const typename Loop::Release& release, u32 shared,
                                                   LastBegun last_begun) {
        using B = Descriptor<Config::B_MAJOR, Config::TILE_K>;
        constexpr bool FROM_ZEROS = !Need<Config>::EVERYWHERE;
        const u32 a_tile = shared + Config::A_OFFSET + S::first_row(member) * ROW_BYTES + own_place();
        u32 before = 0;  // with products pending: the stage that they read
        if constexpr (FROM_ZEROS) {
            Loop::set_zero(acc);
            __syncwarp();  // every lane has its turn before one passes it on
        }
#pragma unroll 1
        for (int kt = 0; kt < k_tiles; ++kt) {
            if (loaded) mbarrier_wait(shared + C::FULL + 8 * ring.stage, ring.parity);
            const u32 stage = Loop::uniform_stage(ring);
            const u64 b = B::of(shared + Config::B_OFFSET + stage * Config::B_STAGE_BYTES);
            Bytes bytes;
            load(bytes, a_tile + stage * Config::A_STAGE_BYTES);
            __syncwarp();  // every lane has read
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                u32 a[S::BLOCKS][4];
#pragma unroll
                for (int i = 0; i < S::BLOCKS; ++i)
#pragma unroll
                    for (int h = 0; h < 2; ++h)
                        to_16_bits<Activation>(Weight{}, bytes[step][i][h], a[i][h], a[i][2 + h]);
                hold(acc);
                hold(a);  // converted before the fence
                wgmma_fence();
#pragma unroll
                for (int i = 0; i < S::BLOCKS; ++i) Multiply::run(acc[i], a[i], b + step * B::STEP, FROM_ZEROS || kt != 0 || step != 0);
                wgmma_commit();
                wgmma_wait<Config::PENDING>();
                hold(acc);
                if (loaded && Config::PENDING > 0 && step == 0 && kt != 0) release(before);
            }
            if (loaded) {
                if constexpr (Config::PENDING == 0) release(ring.stage);
                before = ring.stage;
                ring.advance();
            }
        }
        last_begun();
        if constexpr (Config::PENDING > 0) {
            wgmma_wait<0>();
            hold(acc);
            if (loaded && (!FROM_ZEROS || k_tiles > 0)) release(before);
        }
    }
};

}  // namespace epilogue::sm90
