// Matrices of two digits for kernels for sm_90a, which access them element by element; see `load_direct` in fragments.cuh.
#pragma once
#include "../digits.cuh"
#include "fragments.cuh"

namespace epilogue::sm90 {

template <class Config, typename T>
__device__ __forceinline__ void load_direct(const DigitsView<T>& view, const Work& work, const Problem& problem,
                                            int block, int column, T (&x)[Lanes<Config>::V]) {
    using L = Lanes<Config>;
    column = anew(column);
#pragma unroll
    for (int v = 0; v < L::V; v += Config::SWAP_AB ? 1 : 2) {
        const int row = L::row(block, L::half(v)), c = L::column(column, L::column_index(v));
        const int m = row_in_problem<Config>(work, row, c), n = column_in_problem<Config>(work, row, c);
        if constexpr (Config::SWAP_AB) {
            x[v] = epilogue::load<1>(view, work.batch, m, n, problem.m, problem.n).value[0];
        } else {
            const auto pair = epilogue::load<2>(view, work.batch, m, n, problem.m, problem.n);
            x[v] = pair.value[0];
            x[v + 1] = pair.value[1];
        }
    }
}

template <class Config, typename T, typename Value>
__device__ __forceinline__ void store_direct(const DigitsView<T>& view, const Work& work, const Problem& problem,
                                             int block, int column, const Value (&x)[Lanes<Config>::V]) {
    using L = Lanes<Config>;
    column = anew(column);
#pragma unroll
    for (int v = 0; v < L::V; v += Config::SWAP_AB ? 1 : 2) {
        const int row = L::row(block, L::half(v)), c = L::column(column, L::column_index(v));
        const int m = row_in_problem<Config>(work, row, c), n = column_in_problem<Config>(work, row, c);
        if constexpr (Config::SWAP_AB) {
            Pack<T, 1> one;
            one.value[0] = narrow<T>(x[v]);
            epilogue::store<1>(view, one, work.batch, m, n, problem.m, problem.n);
        } else {
            Pack<T, 2> pair;
            pair.value[0] = narrow<T>(x[v]);
            pair.value[1] = narrow<T>(x[v + 1]);
            epilogue::store<2>(view, pair, work.batch, m, n, problem.m, problem.n);
        }
    }
}

}  // namespace epilogue::sm90
