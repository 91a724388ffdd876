// Reductions of the epilogue's values: from a lane's registers to its warp's place in shared memory. The rest is the
// same for every kernel family (../reduction.cuh).
//
// MMA rows and columns, as everywhere below: PerRow gives a value for every MMA row. A line along MMA columns lies in
// four lanes of one warp. If the tile has whole lines, their reduction takes two shuffles, and neither memory nor a
// barrier: rows in kernels that are not swapped, columns in kernels that are.
#pragma once
#include "../collective.cuh"
#include "../reduction.cuh"
#include "fragments.cuh"
#include "pipeline.cuh"

namespace epilogue::sm90 {

// A team's walk over its tile, for ../reduction.cuh. PLACE is where the reduction's values are in shared memory.
template <class Config, int PLACE>
struct Walk {
    using S = Shape<Config>;
    using L = Lanes<Config>;
    static constexpr int TILE_M = Config::TILE_M, TILE_N = Config::TILE_N;
    // Warps that share an MMA row, and an MMA column.
    static constexpr int OF_ROW = Config::SPLIT_COLUMNS ? S::TEAM : 1;
    static constexpr int OF_COLUMN = S::TEAM_WARPS / OF_ROW;
    static constexpr int WARPS_M = Config::SWAP_AB ? OF_ROW : OF_COLUMN;
    static constexpr int WARPS_N = Config::SWAP_AB ? OF_COLUMN : OF_ROW;
    static constexpr int THREADS = S::TEAM_THREADS;

    static __device__ __forceinline__ int thread() { return L::member() * WARPGROUP + static_cast<int>(threadIdx.x) % WARPGROUP; }
    static __device__ __forceinline__ void sync() { team_sync<Config>(L::team()); }
    // This warp's number among those that share a column.
    static __device__ __forceinline__ int part_of_column() { return Config::SPLIT_COLUMNS ? L::warp() : thread() / 32; }

    template <typename T, int, int COUNT>
    static __device__ __forceinline__ T* shared() {
        return reinterpret_cast<T*>(block_memory() + PLACE) + L::team() * COUNT;
    }
};

template <class Config, int PLACE>
using RowLinesOf = RowLines<Walk<Config, PLACE>>;
template <class Config, int PLACE>
using ColumnLinesOf = ColumnLines<Walk<Config, PLACE>>;

// Whether a lane's rows and columns are inside the matrix: `rows` and `columns` are of those that the tile has.
struct Inside {
    int rows, columns;
};

// For combine_elements: which of the lane's MMA rows, and of its columns, an element is of.
template <class L>
struct RowOf {
    static __device__ __forceinline__ constexpr int of(int v) { return L::half(v); }
};
template <class L>
struct ColumnOf {
    static __device__ __forceinline__ constexpr int of(int v) { return L::column_index(v); }
};

// What a lane has of a block's MMA rows: two of them, which it shares with three other lanes.
template <class Config, class Op, typename T>
struct OfRows {
    using L = Lanes<Config>;
    T value[2];

    __device__ __forceinline__ OfRows() { reset(); }
    __device__ __forceinline__ void reset() { value[0] = value[1] = Op::template identity<T>(); }

    __device__ __forceinline__ void add(int, int column, const T (&x)[L::V], const Inside& inside) {
        const auto exists = [&](int v) { return L::column(column, L::column_index(v)) < inside.columns; };
        combine_elements<Op, RowOf<L>>(value, x, exists);
    }

    // Of all the warp's columns, after the last unit of a block of 64 rows.
    __device__ __forceinline__ T of_warp(int half) const { return reduce_lanes<Op, 1, 4>(value[half]); }
};

// One value for every MMA row.
template <class Config, class Op, typename T, int PLACE>
struct PerRow : LineReduction<typename Choose<Config::SWAP_AB, ColumnLinesOf<Config, PLACE>, RowLinesOf<Config, PLACE>>::Type,
                              Walk<Config, PLACE>, Op, T, 0>,
                OfRows<Config, Op, T> {
    using W = Walk<Config, PLACE>;
    using L = Lanes<Config>;
    using S = Shape<Config>;
    static constexpr int BYTES = S::TEAMS * W::OF_ROW * S::RESULT_ROWS * static_cast<int>(sizeof(T));

    __device__ __forceinline__ void finish_block(int block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const T sum = this->of_warp(half);
            const int part = Config::SPLIT_COLUMNS ? L::member() : 0;
            if (L::lane() % 4 == 0) this->shared()[part * S::RESULT_ROWS + L::row(block, half)] = sum;
        }
        this->reset();
    }
    __device__ __forceinline__ void finish_tile() {}
};

// One value for every MMA row, for the sweeps behind: the tile has the row's every element, so the value is complete when
// its block has been walked over, and all four lanes of the row have it.
template <class Config, class Op, typename T, typename Value>
struct LineInTile : OfRows<Config, Op, T> {
    static_assert(!Config::SPLIT_COLUMNS, "a row lies in one warp");
    Value result[2];  // of the block that is walked over

    __device__ __forceinline__ void finish_block(int) {
#pragma unroll
        for (int half = 0; half < 2; ++half) result[half] = narrow<Value>(this->of_warp(half));
        this->reset();
    }
};

// One value for every MMA column. A lane's columns differ from those of the lanes with another l % 4, and are the same
// as those of the others: their values are exchanged by halves, so that 4 of them take 4 shuffles instead of 12.
template <class Config, class Op, typename T, int PLACE>
struct PerColumn
    : LineReduction<typename Choose<Config::SWAP_AB, RowLinesOf<Config, PLACE>, ColumnLinesOf<Config, PLACE>>::Type,
                    Walk<Config, PLACE>, Op, T, 0> {
    using W = Walk<Config, PLACE>;
    using L = Lanes<Config>;
    using S = Shape<Config>;
    static constexpr int BYTES = S::TEAMS * W::OF_COLUMN * S::RESULT_COLUMNS * static_cast<int>(sizeof(T));

    // Keeps one half of a lane's values and gives the other to the lane that differs in BIT.
    template <int BIT>
    static __device__ __forceinline__ T exchange(T lower, T upper) {
        const bool keeps_upper = L::lane() & BIT;
        const T other = shuffle_xor(0xffffffffu, keeps_upper ? lower : upper, BIT);
        return Op::combine(keeps_upper ? upper : lower, other);
    }

    __device__ __forceinline__ void add(int block, int column, const T (&x)[L::V], const Inside& inside) {
        T sums[L::COLUMNS];
#pragma unroll
        for (int i = 0; i < L::COLUMNS; ++i) sums[i] = Op::template identity<T>();
        const auto exists = [&](int v) { return L::row(block, L::half(v)) < inside.rows; };
        combine_elements<Op, ColumnOf<L>>(sums, x, exists);
        T sum;
        int index;  // of the column that this lane ends up with
        bool owns = (L::lane() & 4) == 0;
        if constexpr (L::COLUMNS == 4) {
            const T first = exchange<16>(sums[0], sums[2]), second = exchange<16>(sums[1], sums[3]);
            sum = exchange<8>(first, second);
            index = L::lane() / 16 * 2 + L::lane() / 8 % 2;
        } else {
            sum = reduce_lanes<Op, 16, 32>(exchange<8>(sums[0], sums[1]));
            index = L::lane() / 8 % 2;
            owns = owns && L::lane() < 16;
        }
        sum = reduce_lanes<Op, 4, 8>(sum);
        if (owns) {
            T& place = this->shared()[W::part_of_column() * S::RESULT_COLUMNS + L::column(column, index)];
            place = block == 0 ? sum : Op::combine(place, sum);
        }
    }

    __device__ __forceinline__ void finish_block(int) {}
    __device__ __forceinline__ void finish_tile() {}
};

// One value for the matrix.
template <class Config, class Op, typename T, int PLACE>
struct PerMatrix : MatrixReduction<Walk<Config, PLACE>, Op, T, 0> {
    using W = Walk<Config, PLACE>;
    using L = Lanes<Config>;
    static constexpr int BYTES = Shape<Config>::TEAMS * Shape<Config>::TEAM_WARPS * static_cast<int>(sizeof(T));
    T value[1] = {Op::template identity<T>()};

    __device__ __forceinline__ void add(int block, int column, const T (&x)[L::V], const Inside& inside) {
        const auto exists = [&](int v) {
            return L::row(block, L::half(v)) < inside.rows && L::column(column, L::column_index(v)) < inside.columns;
        };
        combine_elements<Op, OneLine>(value, x, exists);
    }

    __device__ __forceinline__ void finish_block(int) {}
    __device__ __forceinline__ void finish_tile() { this->publish(value[0]); }
};

}  // namespace epilogue::sm90
