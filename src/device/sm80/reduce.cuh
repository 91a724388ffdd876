// Reductions of what the epilogue computes: over rows, columns, or everything.
//
//   lane        -> warp:     shuffles, a butterfly: the same order always
//   warp        -> block:    shared memory, warps in ascending order
//   block       -> partial:  one value per row (column) of the tile, in the workspace or in a partials output
//   all blocks  -> result:   the block that arrives last at a row (column) of tiles combines the partials in the order
//                            of the tiles, so the order of arrival changes nothing
//
// What lies outside the matrix counts as the operation's identity.
#pragma once
#include "../convert.cuh"
#include "../views.cuh"
#include "scheduler.cuh"

namespace epilogue::sm80 {

// Operations: `lift` is applied to every value once, `combine` is commutative and has `identity`.
struct ReduceAdd {
    template <typename T> static __device__ __forceinline__ T identity() { return T(0); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return x + y; }
};
struct ReduceMul {
    template <typename T> static __device__ __forceinline__ T identity() { return T(1); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return x * y; }
};
// NaN wins, as everywhere in this library.
struct ReduceMax {
    template <typename T> static __device__ __forceinline__ T identity() { return -T(__int_as_float(0x7f800000)); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return (x > y || x != x) ? x : y; }
};
struct ReduceMin {
    template <typename T> static __device__ __forceinline__ T identity() { return T(__int_as_float(0x7f800000)); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return (x < y || x != x) ? x : y; }
};
struct ReduceAbsMax {
    template <typename T> static __device__ __forceinline__ T identity() { return T(0); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x < T(0) ? -x : x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return (x > y || x != x) ? x : y; }
};
struct ReduceSumSquares {
    template <typename T> static __device__ __forceinline__ T identity() { return T(0); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x * x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return x + y; }
};

// Combines over the lanes that differ in the bits [FIRST, END) of their index; every lane gets the result.
template <class Op, int FIRST, int END, typename T>
__device__ __forceinline__ T combine_lanes(T x) {
#pragma unroll
    for (int bit = FIRST; bit < END; bit *= 2) x = Op::combine(x, __shfl_xor_sync(0xffffffffu, x, bit));
    return x;
}

// Whether this block is the last of `expected` to arrive at `counter`, which then is 0 again. What the others wrote
// before they arrived is visible to every thread of the last.
__device__ __forceinline__ bool last_to_arrive(u32* counter, u32 expected) {
    __shared__ u32 arrived;
    __syncthreads();  // everyone's partials are written before the arrival
    if (expected == 1) return true;
    if (threadIdx.x == 0) {
        const u32 before = atomic_add_acquire_release(counter, 1);
        if (before == expected - 1) store_release(counter, 0);
        arrived = before;
    }
    __syncthreads();  // what thread 0 acquired is everyone's
    return arrived == expected - 1;
}

// How a warp's lanes walk its tile: V columns per lane, LANES lanes per row.
template <class Config>
struct Walk {
    static constexpr int V = Config::VECTOR;
    static constexpr int LANES = Config::WARP_N / V;
    static constexpr int ROWS = 32 / LANES;
    static constexpr int WARPS_M = Config::TILE_M / Config::WARP_M;
    static constexpr int WARPS_N = Config::TILE_N / Config::WARP_N;
    static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
    static_assert(LANES >= 1 && LANES <= 32 && (LANES & (LANES - 1)) == 0 && Config::WARP_N % V == 0);

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
    static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
    static __device__ __forceinline__ int warp_m() { return warp() / WARPS_N; }
    static __device__ __forceinline__ int warp_n() { return warp() % WARPS_N; }
    // This lane's first row and first column in the tile.
    static __device__ __forceinline__ int row() { return warp_m() * Config::WARP_M + lane() / LANES; }
    static __device__ __forceinline__ int column() { return warp_n() * Config::WARP_N + lane() % LANES * V; }
};

// One value for every row. ID tells the reductions of a kernel apart.
template <class Config, class Op, typename T, int ID>
struct RowReduction {
    using W = Walk<Config>;

    static __device__ __forceinline__ T* shared() {
        __shared__ T values[W::WARPS_N * Config::TILE_M];
        return values;
    }

    // Adds this lane's values of a row of the tile; `inside` of its columns exist.
    __device__ __forceinline__ void add(int row, const T (&x)[W::V], bool row_exists, int inside) {
        T sum = Op::template identity<T>();
#pragma unroll
        for (int v = 0; v < W::V; ++v)
            sum = Op::combine(sum, row_exists && v < inside ? Op::lift(x[v]) : Op::template identity<T>());
        sum = combine_lanes<Op, 1, W::LANES>(sum);
        if (W::lane() % W::LANES == 0) shared()[W::warp_n() * Config::TILE_M + row] = sum;
    }

    __device__ __forceinline__ void finish_warp() {}

    // The tile's value of row `row`; needs a barrier after the last `finish_warp`.
    static __device__ __forceinline__ T of_tile(int row) {
        T sum = shared()[row];
#pragma unroll
        for (int w = 1; w < W::WARPS_N; ++w) sum = Op::combine(sum, shared()[w * Config::TILE_M + row]);
        return sum;
    }

    // Writes the tile's values to partials[batch][tile_n][m].
    static __device__ __forceinline__ void store_partials(T* partials, const Work& work, const Problem& problem) {
        T* const to = partials + (index_t(work.batch) * problem.tiles_n + work.tile_n) * problem.m;
        for (int r = threadIdx.x; r < Config::TILE_M; r += W::THREADS)
            if (work.m + r < problem.m) to[work.m + r] = of_tile(r);
    }

    // Writes the tile's values to a partials output [L, tiles_n, M].
    template <typename Out>
    static __device__ __forceinline__ void store_partials(const TensorView<Out>& to, const Work& work,
                                                          const Problem& problem) {
        if (work.n >= problem.n) return;  // there are no tiles along an empty row
        for (int r = threadIdx.x; r < Config::TILE_M; r += W::THREADS)
            if (work.m + r < problem.m)
                to.pointer[work.batch * to.batch + work.tile_n * to.row + (work.m + r) * to.column] =
                    narrow<Out>(of_tile(r));
    }

    // Combines the partials of this tile's rows, over tiles and, if the batch is reduced too, batches.
    template <typename Out>
    static __device__ __forceinline__ void combine(const T* partials, const VectorView<Out>& to, const Work& work,
                                                   const Problem& problem, bool over_batch) {
        const int first = over_batch ? 0 : work.batch * problem.tiles_n;
        const int count = over_batch ? problem.batch * problem.tiles_n : problem.tiles_n;
        for (int r = threadIdx.x; r < Config::TILE_M; r += W::THREADS) {
            const int m = work.m + r;
            if (m >= problem.m) break;
            T sum = Op::template identity<T>();
            for (int t = 0; t < count; ++t) sum = Op::combine(sum, partials[index_t(first + t) * problem.m + m]);
            store(to, narrow<Out>(sum), over_batch ? 0 : work.batch, m, problem.m);
        }
    }
};

// One value for every column.
template <class Config, class Op, typename T, int ID>
struct ColumnReduction {
    using W = Walk<Config>;
    T value[W::V];

    __device__ __forceinline__ ColumnReduction() {
#pragma unroll
        for (int v = 0; v < W::V; ++v) value[v] = Op::template identity<T>();
    }

    static __device__ __forceinline__ T* shared() {
        __shared__ T values[W::WARPS_M * Config::TILE_N];
        return values;
    }

    __device__ __forceinline__ void add(int, const T (&x)[W::V], bool row_exists, int) {
#pragma unroll
        for (int v = 0; v < W::V; ++v)
            value[v] = Op::combine(value[v], row_exists ? Op::lift(x[v]) : Op::template identity<T>());
    }

    __device__ __forceinline__ void finish_warp() {
#pragma unroll
        for (int v = 0; v < W::V; ++v) {
            const T sum = combine_lanes<Op, W::LANES, 32>(value[v]);
            if (W::lane() < W::LANES) shared()[W::warp_m() * Config::TILE_N + W::column() + v] = sum;
        }
    }

    static __device__ __forceinline__ T of_tile(int column) {
        T sum = shared()[column];
#pragma unroll
        for (int w = 1; w < W::WARPS_M; ++w) sum = Op::combine(sum, shared()[w * Config::TILE_N + column]);
        return sum;
    }

    // Writes the tile's values to partials[batch][tile_m][n].
    static __device__ __forceinline__ void store_partials(T* partials, const Work& work, const Problem& problem) {
        T* const to = partials + (index_t(work.batch) * problem.tiles_m + work.tile_m) * problem.n;
        for (int c = threadIdx.x; c < Config::TILE_N; c += W::THREADS)
            if (work.n + c < problem.n) to[work.n + c] = of_tile(c);
    }

    // Writes the tile's values to a partials output [L, tiles_m, N].
    template <typename Out>
    static __device__ __forceinline__ void store_partials(const TensorView<Out>& to, const Work& work,
                                                          const Problem& problem) {
        if (work.m >= problem.m) return;
        for (int c = threadIdx.x; c < Config::TILE_N; c += W::THREADS)
            if (work.n + c < problem.n)
                to.pointer[work.batch * to.batch + work.tile_m * to.row + (work.n + c) * to.column] =
                    narrow<Out>(of_tile(c));
    }

    template <typename Out>
    static __device__ __forceinline__ void combine(const T* partials, const VectorView<Out>& to, const Work& work,
                                                   const Problem& problem, bool over_batch) {
        const int first = over_batch ? 0 : work.batch * problem.tiles_m;
        const int count = over_batch ? problem.batch * problem.tiles_m : problem.tiles_m;
        for (int c = threadIdx.x; c < Config::TILE_N; c += W::THREADS) {
            const int n = work.n + c;
            if (n >= problem.n) break;
            T sum = Op::template identity<T>();
            for (int t = 0; t < count; ++t) sum = Op::combine(sum, partials[index_t(first + t) * problem.n + n]);
            store(to, narrow<Out>(sum), over_batch ? 0 : work.batch, n, problem.n);
        }
    }
};

// One value for the matrix.
template <class Config, class Op, typename T, int ID>
struct AllReduction {
    using W = Walk<Config>;
    static constexpr int WARPS = W::WARPS_M * W::WARPS_N;
    T value = Op::template identity<T>();

    static __device__ __forceinline__ T* shared() {
        __shared__ T values[WARPS];
        return values;
    }

    __device__ __forceinline__ void add(int, const T (&x)[W::V], bool row_exists, int inside) {
#pragma unroll
        for (int v = 0; v < W::V; ++v)
            value = Op::combine(value, row_exists && v < inside ? Op::lift(x[v]) : Op::template identity<T>());
    }

    __device__ __forceinline__ void finish_warp() { publish(value); }

    // Leaves the warp's combined value in shared memory.
    static __device__ __forceinline__ void publish(T x) {
        x = combine_lanes<Op, 1, 32>(x);
        if (W::lane() == 0) shared()[W::warp()] = x;
    }

    static __device__ __forceinline__ T of_tile() {
        T sum = shared()[0];
#pragma unroll
        for (int w = 1; w < WARPS; ++w) sum = Op::combine(sum, shared()[w]);
        return sum;
    }

    // Writes the tile's value to partials[batch][tile].
    static __device__ __forceinline__ void store_partials(T* partials, const Work& work, const Problem&) {
        if (threadIdx.x == 0) partials[work.tile] = of_tile();
    }

    template <typename Out>
    static __device__ __forceinline__ void combine(const T* partials, const ScalarView<Out>& to, const Work& work,
                                                   const Problem& problem, bool over_batch) {
        const int tiles = problem.tiles_m * problem.tiles_n;
        const index_t first = over_batch ? 0 : index_t(work.batch) * tiles;
        const index_t count = over_batch ? index_t(problem.batch) * tiles : tiles;
        T sum = Op::template identity<T>();
        for (index_t t = threadIdx.x; t < count; t += W::THREADS) sum = Op::combine(sum, partials[first + t]);
        __syncthreads();  // the tile's own value has been read; its place is used again
        publish(sum);
        __syncthreads();
        if (threadIdx.x == 0) store(to, narrow<Out>(of_tile()), over_batch ? 0 : work.batch);
    }
};

}  // namespace epilogue::sm80
