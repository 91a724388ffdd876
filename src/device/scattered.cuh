// Outputs whose rows an index places: row m of the product is row `places[m]` of the output.
//
//   places    [ 4 | 0 | -1 ]     output    [ row 1 | as before | as before | as before | row 0 ]
//
// A row whose number is not one of the output's is not written, and noted in the device's record. Two rows of one number are
// written by two lanes, in no order: the caller's mistake.
#pragma once
#include "row_index.cuh"
#include "status.cuh"
#include "views.cuh"

namespace epilogue {

// `tensor` is the output, whose rows are those of the index' limit.
template <typename T>
struct ScatteredView {
    TensorView<T> tensor;
    RowIndex places;
};

// The host fills it byte by byte.
static_assert(sizeof(ScatteredView<char>) == 64);

// Writes columns n..n+V of row m.
template <int V, typename T>
__device__ __forceinline__ void store(const ScatteredView<T>& view, const Pack<T, V>& x, int batch, int m, int n, int rows,
                                      int columns) {
    if (m >= rows || n >= columns) return;
    const int row = view.places[m];
    if (view.places.has(row)) {
        store(view.tensor, x, batch, row, n, view.places.limit, columns);
    } else if (n == 0) {
        fail(view.places.site, row, view.places.limit);
    }
}

}  // namespace epilogue
