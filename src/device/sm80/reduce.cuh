// Reductions of the epilogue's values: from a lane's registers to its warp's place in shared memory. The rest is the
// same for every kernel family (../reduction.cuh).
//
//   lane -> warp:  shuffles, a butterfly: the same order always
//
// Elements outside of the matrix count as the operation's identity. In sweeps over a tile with whole lines, a barrier
// follows each sweep; then the warps' parts of rows, columns or both are combined. The staging must then hold the whole
// tile at once.
#pragma once
#include "../collective.cuh"
#include "../reduction.cuh"
#include "scheduler.cuh"

namespace epilogue::sm80 {

// How a warp's lanes walk its part of the product: V columns per lane, LANES lanes per row.
template <class Config>
struct Walk {
    static constexpr int TILE_M = Config::TILE_M, TILE_N = Parts<Config>::COLUMNS;
    static constexpr int V = Config::VECTOR;
    static constexpr int LANES = Parts<Config>::WIDTH / V;
    static constexpr int ROWS = 32 / LANES;
    static constexpr int WARPS_M = Config::TILE_M / Config::WARP_M;
    static constexpr int WARPS_N = Config::TILE_N / Config::WARP_N;
    static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
    static_assert(LANES >= 1 && LANES <= 32 && (LANES & (LANES - 1)) == 0 && Parts<Config>::WIDTH % V == 0);

    static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
    static __device__ __forceinline__ void sync() { __syncthreads(); }
    template <typename T, int ID, int COUNT>
    static __device__ __forceinline__ T* shared() {
        __shared__ T values[COUNT];
        return values;
    }
    static __device__ __forceinline__ int lane() { return thread() % 32; }
    static __device__ __forceinline__ int warp() { return thread() / 32; }
    static __device__ __forceinline__ int warp_m() { return warp() / WARPS_N; }
    static __device__ __forceinline__ int warp_n() { return warp() % WARPS_N; }
    // This lane's first row and first column in the tile.
    static __device__ __forceinline__ int row() { return warp_m() * Config::WARP_M + lane() / LANES; }
    static __device__ __forceinline__ int column() { return warp_n() * Parts<Config>::WIDTH + lane() % LANES * V; }
};

// One value for every row.
template <class Config, class Op, typename T, int ID>
struct RowReduction : LineReduction<RowLines<Walk<Config>>, Walk<Config>, Op, T, ID> {
    using W = Walk<Config>;

    // Adds this lane's values of a row of the tile; `inside` of its columns exist.
    __device__ __forceinline__ void add(int row, const T (&x)[W::V], bool row_exists, int inside) {
        T of_lane[1] = {Op::template identity<T>()};
        combine_elements<Op, OneLine>(of_lane, x, [&](int v) { return row_exists && v < inside; });
        const T sum = reduce_lanes<Op, 1, W::LANES>(of_lane[0]);
        if (W::lane() % W::LANES == 0) this->shared()[W::warp_n() * Config::TILE_M + row] = sum;
    }

    __device__ __forceinline__ void finish_warp() {}
};

// One value for every column.
template <class Config, class Op, typename T, int ID>
struct ColumnReduction : LineReduction<ColumnLines<Walk<Config>>, Walk<Config>, Op, T, ID> {
    using W = Walk<Config>;
    T value[W::V];

    __device__ __forceinline__ ColumnReduction() {
#pragma unroll
        for (int v = 0; v < W::V; ++v) value[v] = Op::template identity<T>();
    }

    __device__ __forceinline__ void add(int, const T (&x)[W::V], bool row_exists, int) {
        combine_elements<Op, LineForEach>(value, x, [&](int) { return row_exists; });
    }

    __device__ __forceinline__ void finish_warp() {
#pragma unroll
        for (int v = 0; v < W::V; ++v) {
            const T sum = reduce_lanes<Op, W::LANES, 32>(value[v]);
            if (W::lane() < W::LANES) this->shared()[W::warp_m() * W::TILE_N + W::column() + v] = sum;
        }
    }
};

// One value for the matrix.
template <class Config, class Op, typename T, int ID>
struct AllReduction : MatrixReduction<Walk<Config>, Op, T, ID> {
    using W = Walk<Config>;
    T value[1] = {Op::template identity<T>()};

    __device__ __forceinline__ void add(int, const T (&x)[W::V], bool row_exists, int inside) {
        combine_elements<Op, OneLine>(value, x, [&](int v) { return row_exists && v < inside; });
    }

    __device__ __forceinline__ void finish_warp() { this->publish(value[0]); }
};

}  // namespace epilogue::sm80
