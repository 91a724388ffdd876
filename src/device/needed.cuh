// Tiles that need no product. If the epilogue's position tests discard the accumulators of a whole tile, nothing is
// multiplied: the sums are zeros, and no result depends on them. Example: a tile above the diagonal of a causal mask.
//
// All warps that load or multiply ask the same function (gemm/emit/needed.rs), for the tiles of a cluster together.
#pragma once
#include "ptx.cuh"

namespace epilogue {

// Elements of one batch: from the first to the last row and column.
struct Rectangle {
    int first_row, last_row, first_column, last_column, batch;
};

// Whether any element of a rectangle needs the product, whatever the parameters. Kernels whose epilogues know better
// specialise it for their `Config`.
template <class Config>
struct Need {
    static constexpr bool EVERYWHERE = true;

    template <class Parameters>
    static __device__ __forceinline__ bool of(const Parameters&, const Rectangle&) {
        return true;
    }
};

// The same of `rows` and `columns` from (m, n) on, of which those before (end_m, end_n) exist.
template <class Config, class Parameters>
__device__ __forceinline__ bool needs_product(const Parameters& parameters, int m, int n, int rows, int columns, int end_m,
                                              int end_n, int batch) {
    const int last_m = m + rows < end_m ? m + rows : end_m, last_n = n + columns < end_n ? n + columns : end_n;
    return Need<Config>::of(parameters, Rectangle{m, last_m - 1, n, last_n - 1, batch});
}

}  // namespace epilogue
