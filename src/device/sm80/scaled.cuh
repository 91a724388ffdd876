// The products of FP8 with block scales (../block_scales.cuh): the differences to gemm.cuh.
//
// A k-tile is a block. Its products are summed by themselves; the sums are multiplied by their scales and added to
// those of the blocks before.
#pragma once
#include "../block_scales.cuh"
#include "gemm.cuh"

namespace epilogue::sm80 {

// A thread's rows: two of each block of 16.
template <class Config>
struct ScaledRows {
    using Loop = Mainloop<Config>;
    using Map = typename Loop::Multiply::Map;
    static constexpr int COUNT = 2 * Loop::MI;

    static __device__ __forceinline__ int at(int i) { return i / 2 * 16 + Map::row(0, i % 2); }
};

template <class Config>
class ScaledSums {
    using Loop = Mainloop<Config>;
    using Of = Parts<Config>;
    using Rows = ScaledRows<Config>;
    using Sums = typename Loop::Accumulator[Loop::MI][Loop::NJ][2][2];
    static_assert(Config::TILE_K == SCALE_BLOCK, "a k-tile is a block");
    static_assert(SCALE_BLOCK % Of::COLUMNS == 0, "a tile's columns are in one block");

    Sums& acc;
    Sums part;  // of the k-tile
    ScaleReader<Rows, Of::COUNT> reader;

    // A thread's first row in the tile.
    static __device__ __forceinline__ int first_row(int thread) {
        return thread / 32 / Loop::WARPS_N * Config::WARP_M + Rows::Map::row(thread % 32, 0);
    }

    static __device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
        for (int i = 0; i < Loop::MI; ++i)
#pragma unroll
            for (int j = 0; j < Loop::NJ; ++j)
#pragma unroll
                for (int r = 0; r < 4; ++r) sums[i][j][r / 2][r % 2] = 0;
    }

  public:
    static constexpr int SETS = 2;

    template <class OfWork>
    __device__ __forceinline__ ScaledSums(Sums& acc, const Scales<Of::COUNT>& scales, const Problem& problem,
                                          const OfWork& work, int thread)
        : acc(acc),
          reader(scales, work.batch, work.m + first_row(thread), rows_end(work, problem), work.n, problem.n, work.k_begin,
                 work.k_end) {
        clear(part);
    }

    __device__ __forceinline__ Sums& of_k_tile() { return part; }

    __device__ __forceinline__ void close_k_tile() {
#pragma unroll
        for (int i = 0; i < Loop::MI; ++i)
#pragma unroll
            for (int j = 0; j < Loop::NJ; ++j) {
                const int run = j / (Loop::NJ / Of::PARTS);
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    // The run that three accumulators leave has none.
                    const float scale = reader.scale(2 * i + r / 2, run < Of::COUNT ? run : 0);
                    acc[i][j][r / 2][r % 2] = __fmaf_rn(scale, part[i][j][r / 2][r % 2], acc[i][j][r / 2][r % 2]);
                }
            }
        reader.next();
        clear(part);
    }
};

template <class Config, class Base, int COUNT, class Sums, class OfWork>
__device__ __forceinline__ ScaledSums<Config> sums_of(const ScaledCommon<Base, COUNT>& common, Sums& acc, const OfWork& work,
                                                      int thread) {
    return ScaledSums<Config>(acc, common.scales, common.problem, work, thread);
}

}  // namespace epilogue::sm80
