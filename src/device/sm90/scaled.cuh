// The products of FP8 with block scales (../block_scales.cuh): the differences to gemm.cuh.
//
// A promoted k-tile is a block. So its sums are multiplied by their scales where they would otherwise be added alone.
#pragma once
#include "../block_scales.cuh"
#include "fragments.cuh"
#include "gemm.cuh"

namespace epilogue::sm90 {

// The rows of the product that a thread has: two of each block of 64, or, where SWAP_AB, two of every 8 columns.
template <class Config>
struct ScaledRows {
    using S = Shape<Config>;
    static constexpr int COUNT = Config::SWAP_AB ? S::REGISTERS / 2 : 2 * S::BLOCKS;

    static __device__ __forceinline__ constexpr int at(int i) {
        return Config::SWAP_AB ? i / 2 * 8 + i % 2 : i / 2 * 64 + i % 2 * 8;
    }
    // Which of them a register of a block has.
    static __device__ __forceinline__ constexpr int of(int block, int r) {
        return Config::SWAP_AB ? r / 4 * 2 + r % 2 : 2 * block + r / 2 % 2;
    }
    static __device__ __forceinline__ constexpr int accumulator(int block, int r) {
        return Config::SWAP_AB ? block % S::COUNT : r / S::RESULT_REGISTERS;
    }
};

template <class Config>
struct ScaledPromotion {
    using S = Shape<Config>;
    using L = Lanes<Config>;
    using Rows = ScaledRows<Config>;
    using Sums = typename Config::Accumulator[S::BLOCKS][S::REGISTERS];
    static_assert(Config::PROMOTE && Config::TILE_K == SCALE_BLOCK, "a k-tile is a block");
    static_assert(SCALE_BLOCK % (Config::SWAP_AB ? 64 * S::RESULT_BLOCKS : S::RESULT_COLUMNS) == 0,
                  "a warpgroup's columns are in one block");

    ScaleReader<Rows, S::COUNT> reader;

    __device__ __forceinline__ ScaledPromotion(const Scales<S::COUNT>& scales, const Problem& problem, const Work& work)
        : reader(scales, work.batch, work.m + (Config::SWAP_AB ? L::column(0, 0) : L::row(0, 0)), problem.m,
                 work.n + (Config::SWAP_AB ? S::first_result_row(L::member()) : 0), problem.n, work.k_begin, problem.k) {}

    __device__ __forceinline__ void add(Sums& acc, const Sums& part) {
#pragma unroll
        for (int i = 0; i < S::BLOCKS; ++i)
#pragma unroll
            for (int r = 0; r < S::REGISTERS; ++r)
                acc[i][r] = __fmaf_rn(reader.scale(Rows::of(i, r), Rows::accumulator(i, r)), part[i][r], acc[i][r]);
        reader.next();
    }
};

template <class Config, class Base, int COUNT>
__device__ __forceinline__ ScaledPromotion<Config> promotion_of(const ScaledCommon<Base, COUNT>& common, const Work& work) {
    return ScaledPromotion<Config>(common.scales, common.problem, work);
}

}  // namespace epilogue::sm90
