// A whose rows an index gathers: row m of the product is row `rows[m]` of the matrix.
//
//   index     [ 4 | 0 | 4 | -1 ]     tile     [ row 4 | row 0 | row 4 | zeros ]
//
// A thread keeps the numbers of its rows in registers during the product. A number outside of A stands for a row of
// zeros, which adds nothing, and is noted in the device's record.
#pragma once
#include "../row_index.cuh"
#include "../status.cuh"
#include "loader.cuh"

namespace epilogue::sm80 {

// What every kernel with picked rows needs: it follows what kernels of rows in order need.
template <class Base>
struct PickedCommon : Base {
#include "PickedCommon.fields"
};

struct PickedOperand {
    const Operand& matrix;
    const RowIndex& index;
};

template <class Base>
__device__ __forceinline__ PickedOperand operand_a(const PickedCommon<Base>& common) {
    return {common.a, common.picked};
}

template <class Tile, int COPY_BYTES, int THREADS>
class PickedLoader : Loader<Tile, COPY_BYTES, THREADS> {
    using Base = Loader<Tile, COPY_BYTES, THREADS>;
    static_assert(Tile::MAJOR == Major::K, "rows are what is copied");

    index_t row_bytes;
    int rows[Base::PASSES];  // -1: zeros

  public:
    __device__ __forceinline__ PickedLoader(const PickedOperand& operand, int thread, int outer, int extent, int k, int batch)
        : Base(operand.matrix, thread, 0, 0, k, batch) {
        const RowIndex& index = operand.index;
        row_bytes = operand.matrix.outer * static_cast<int>(sizeof(typename Tile::Element));
        this->source -= this->row * row_bytes;  // a number counts from the matrix's first row
        int wrong = 0;
        bool is_wrong = false;
#pragma unroll
        for (int pass = 0; pass < Base::PASSES; ++pass) {
            const int r = this->row + pass * Base::ROWS_PER_PASS, m = outer + r;
            rows[pass] = -1;
            if ((Base::EVEN || r < Base::ROWS) && m < extent) {
                const int given = index[m];
                if (index.has(given)) {
                    rows[pass] = given;
                } else {
                    wrong = given;
                    is_wrong = true;
                }
            }
        }
        // One of the threads that share these rows.
        if (is_wrong && this->chunk == 0) fail(index.site, wrong, index.limit);
    }

    // As `Loader::load`.
    __device__ __forceinline__ void load(u32 shared, int k_left) {
        const int left = k_left - this->chunk * Tile::CHUNK_ELEMENTS;
#pragma unroll
        for (int pass = 0; pass < Base::PASSES; ++pass) {
            const int r = this->row + pass * Base::ROWS_PER_PASS;
            if (Base::EVEN || r < Base::ROWS) {
                this->copy(shared + static_cast<u32>(Tile::offset(r, this->chunk)), this->source + rows[pass] * row_bytes, left,
                           rows[pass] >= 0);
            }
        }
        this->source += this->block_step;
    }
};

template <class Tile, int COPY_BYTES, int THREADS>
__device__ __forceinline__ PickedLoader<Tile, COPY_BYTES, THREADS> loader_of_a(const PickedOperand& a, int thread, int m,
                                                                               int extent, int k, int batch) {
    return PickedLoader<Tile, COPY_BYTES, THREADS>(a, thread, m, extent, k, batch);
}

}  // namespace epilogue::sm80
