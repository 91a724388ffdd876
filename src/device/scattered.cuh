// Outputs whose rows an index scatters: row m of the product is row `places[m]` of the output.
//
//   places    [ 4 | 0 | -1 ]     output    [ row 1 | as before | as before | as before | row 0 ]
//
// A row whose number is outside of the output is not written, and is noted in the device's record. If two rows have one
// number, two lanes write the row in no order: that is the caller's mistake.
#pragma once
#include "row_index.cuh"
#include "status.cuh"
#include "views.cuh"

namespace epilogue {

// `tensor` is the output, whose rows are those of the index' limit.
template <typename T>
struct ScatteredView {
#include "ScatteredView.fields"
};

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
