// Random numbers of a lane's values (the map is in fragments.cuh). A block of the generator is four columns, and lanes
// exchange the words of their blocks, so that none is computed twice.
#pragma once
#include "../random.cuh"
#include "fragments.cuh"

namespace epilogue::sm90 {

__device__ __forceinline__ u32 exchanged(u32 word, int lanes) { return __shfl_xor_sync(0xffffffffu, word, lanes); }

// The numbers of the V values of a unit, by all lanes of a warp.
template <class Config, typename Real>
__device__ __forceinline__ void random_unit(const Chance& chance, u32 stream, const Work& work, const Problem& problem,
                                            int block, int column, Real (&to)[Lanes<Config>::V]) {
    using L = Lanes<Config>;
    const int lane = L::lane();
#pragma unroll
    for (int v = 0; v < L::V; v += 4) {
        u32 x[4];
        if constexpr (Config::SWAP_AB) {
            // MMA rows are columns of the product: four lanes, of l/4, have the four columns of a block, in each of two
            // blocks (half) and two rows (c). Each computes the words of one (half, c), and they transpose them.
            const int mine = lane / 4 % 4;
            const bool odd = mine & 1, upper = mine & 2;
            const int m = work.m + L::column(column, L::column_index(v) + (odd ? 1 : 0));
            const int n = work.n + L::row(block, upper ? 1 : 0);
            random_block(chance, stream, chance_row(m, problem.m, work.batch), static_cast<u32>(n) / 4, x);
#pragma unroll
            for (int w = 0; w < 4; w += 2) {
                const u32 other = exchanged(odd ? x[w] : x[w + 1], 4);
                x[w] = odd ? other : x[w];
                x[w + 1] = odd ? x[w + 1] : other;
            }
#pragma unroll
            for (int w = 0; w < 2; ++w) {
                const u32 other = exchanged(upper ? x[w] : x[w + 2], 8);
                x[w] = upper ? other : x[w];
                x[w + 2] = upper ? x[w + 2] : other;
            }
        } else {
            // Two lanes, of l%4, have the four columns of a block, in two rows. The even one computes the upper row's.
            const bool odd = lane & 1;
            const int m = work.m + L::row(block, odd ? 1 : 0), n = work.n + L::column(column, L::column_index(v));
            random_block(chance, stream, chance_row(m, problem.m, work.batch), static_cast<u32>(n) / 4, x);
#pragma unroll
            for (int w = 0; w < 2; ++w) {
                const u32 other = exchanged(odd ? x[w] : x[w + 2], 1);
                x[w] = odd ? other : x[w];
                x[w + 2] = odd ? x[w + 2] : other;
            }
        }
#pragma unroll
        for (int w = 0; w < 4; ++w) to[v + w] = uniform<Real>(x[w]);
    }
}

}  // namespace epilogue::sm90
