// Boxes of matrices whose rows or columns are counted by two digits. Their maps have five dimensions: the digits of the
// columns, those of the rows, each the lower one first, and the batch.
//
//   columns of a head, rows of a sequence   ->   box [ 1 batch | 1 | rows | 1 | columns ]   in shared memory as any other box
//
// If an upper digit has more than one value, no box reaches beyond the lower one; else the host lets lanes access the
// matrix. So a box's elements follow each other as in a plain matrix, and only its coordinates differ. Elements outside
// of the matrix have an upper digit that is outside.
#pragma once
#include "../digits.cuh"
#include "fragments.cuh"
#include "tma.cuh"

namespace epilogue::sm90 {

// A box's first element.
struct BoxOfDigits {
    int column, upper_column, row, upper_row, batch;

    template <typename T>
    __device__ __forceinline__ BoxOfDigits(const DigitsView<T>& view, int of_batch, int m, int n) {
        const u32 high_m = view.rows.high(m), high_n = view.columns.high(n);
        column = static_cast<int>(view.columns.low(n, high_n));
        upper_column = static_cast<int>(high_n);
        row = static_cast<int>(view.rows.low(m, high_m));
        upper_row = static_cast<int>(high_m);
        batch = view.batch != 0 ? of_batch : 0;
    }
};

// Loads a box to `shared`, and counts its bytes at `barrier`.
__device__ __forceinline__ void load_box(u32 shared, const TensorMap& map, u32 barrier, const BoxOfDigits& box) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];\n" ::"r"(shared),
        "l"(&map), "r"(barrier), "r"(box.column), "r"(box.upper_column), "r"(box.row), "r"(box.upper_row), "r"(box.batch)
        : "memory");
}

// Stores a box; part of the thread's bulk group.
template <Hint HINT>
__device__ __forceinline__ void store_box(const TensorMap& map, u32 shared, const BoxOfDigits& box) {
    if constexpr (HINT == Hint::Normal) {
        asm volatile(
            "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];\n" ::"l"(&map),
            "r"(shared), "r"(box.column), "r"(box.upper_column), "r"(box.row), "r"(box.upper_row), "r"(box.batch)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group.L2::cache_hint"
            " [%0, {%2, %3, %4, %5, %6}], [%1], %7;\n" ::"l"(&map),
            "r"(shared), "r"(box.column), "r"(box.upper_column), "r"(box.row), "r"(box.upper_row), "r"(box.batch),
            "l"(cache_policy(HINT))
            : "memory");
    }
}

// As `Staged::load_boxes` and `Staged::store_boxes`. By one thread.
template <class Config, typename T>
__device__ __forceinline__ void load_digit_boxes(int stage, const TensorMap& map, u32 full, const Work& work, int row,
                                                 int column, const DigitsView<T>& view) {
    using Of = Staged<Config, T>;
    const int m = row_in_problem<Config>(work, row, column), n = column_in_problem<Config>(work, row, column);
#pragma unroll
    for (int b = 0; b < Of::BOXES; ++b)
        load_box(shared_address(block_memory()) + stage + b * Of::BOX_BYTES, map, full,
                 BoxOfDigits(view, work.batch, m, n + b * Of::BOX_COLUMNS));
}

template <class Config, typename T>
__device__ __forceinline__ void store_digit_boxes(int stage, const TensorMap& map, const Work& work, int row, int column,
                                                  const DigitsView<T>& view) {
    using Of = Staged<Config, T>;
    const int m = row_in_problem<Config>(work, row, column), n = column_in_problem<Config>(work, row, column);
#pragma unroll
    for (int b = 0; b < Of::BOXES; ++b)
        store_box<Config::OUTPUT_HINT>(map, shared_address(block_memory()) + stage + b * Of::BOX_BYTES,
                                       BoxOfDigits(view, work.batch, m, n + b * Of::BOX_COLUMNS));
}

}  // namespace epilogue::sm90
