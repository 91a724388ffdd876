// The reductions of tiles, for every kernel family:
//
//   warps -> tile:       values that warps left in shared memory, combined in ascending order.
//   tile -> partial:     one value per row (column) of the tile, in the workspace or in a partials output.
//   all tiles -> result: the last block to arrive at a row (column) of tiles combines the partials, in the order of
//                        the tiles. The order of arrival changes nothing.
//
// Each family brings values from registers to its warps' places by itself. `Walk` says how the family's threads go over
// a tile:
//   TILE_M, TILE_N; WARPS_M, WARPS_N   the tile; the warps that share a column, a row.
//   THREADS, thread(), sync()          the threads that take part, and their barrier.
//   shared<T, ID, COUNT>()             COUNT places in shared memory, distinguished by ID.
#pragma once
#include "arrival.cuh"
#include "collective.cuh"
#include "convert.cuh"
#include "group_rows.cuh"
#include "views.cuh"

namespace epilogue {

// The rows of a tile: how many, how many warps share one, and where their values are among those of all tiles. Of groups,
// a row tile's values lie together, since its first row may be any.
template <class Walk>
struct RowLines {
    static constexpr int LINES = Walk::TILE_M, PARTS = Walk::WARPS_N;
    template <class Work> static __device__ __forceinline__ int first(const Work& work) { return work.m; }
    // Of a matrix without groups.
    template <class Problem> static __device__ __forceinline__ int extent(const Problem& problem) { return problem.m; }
    template <class Work, class Problem>
    static __device__ __forceinline__ int end(const Work& work, const Problem& problem) {
        return rows_end(work, problem);
    }
    template <class Work> static __device__ __forceinline__ int tile(const Work& work) { return work.tile_n; }
    // Whether lines have elements in this tile: the one tile of an empty matrix has none.
    template <class Work, class Problem>
    static __device__ __forceinline__ bool any(const Work& work, const Problem& problem) {
        return work.n < problem.n;
    }
    // The first of the tiles that share the work's lines, among those of all batches.
    template <class Work, class Problem>
    static __device__ __forceinline__ int first_tile(const Work& work, const Problem& problem) {
        return group_rows(&work) != nullptr ? 0 : work.batch * problem.tiles_n;
    }
    // The work's own tile, likewise.
    template <class Work, class Problem>
    static __device__ __forceinline__ int own_tile(const Work& work, const Problem& problem) {
        return first_tile(work, problem) + work.tile_n;
    }
    template <class Work, class Problem>
    static __device__ __forceinline__ int tiles(const Work&, const Problem& problem) { return problem.tiles_n; }
    template <class Work, class Problem>
    static __device__ __forceinline__ int all_tiles(const Work&, const Problem& problem) {
        return problem.batch * problem.tiles_n;
    }
    // Where a tile's values of the work's lines begin.
    template <class Work, class Problem>
    static __device__ __forceinline__ index_t place(int tile, const Work& work, const Problem& problem) {
        if (group_rows(&work) != nullptr) return (index_t(tile) * problem.tiles_m + work.tile_m) * LINES;
        return index_t(tile) * problem.m + work.m;
    }
};

// The columns of a tile.
template <class Walk>
struct ColumnLines {
    static constexpr int LINES = Walk::TILE_N, PARTS = Walk::WARPS_M;
    template <class Work> static __device__ __forceinline__ int first(const Work& work) { return work.n; }
    template <class Problem> static __device__ __forceinline__ int extent(const Problem& problem) { return problem.n; }
    template <class Work, class Problem>
    static __device__ __forceinline__ int end(const Work&, const Problem& problem) { return problem.n; }
    template <class Work> static __device__ __forceinline__ int tile(const Work& work) { return work.tile_m; }
    template <class Work, class Problem>
    static __device__ __forceinline__ bool any(const Work& work, const Problem& problem) {
        return work.m < rows_end(work, problem);
    }
    template <class Work, class Problem>
    static __device__ __forceinline__ int first_tile(const Work& work, const Problem& problem) {
        const GroupRows* const rows = group_rows(&work);
        return rows != nullptr ? rows->first_tile : work.batch * problem.tiles_m;
    }
    template <class Work, class Problem>
    static __device__ __forceinline__ int own_tile(const Work& work, const Problem& problem) {
        return group_rows(&work) != nullptr ? work.tile_m : work.batch * problem.tiles_m + work.tile_m;
    }
    template <class Work, class Problem>
    static __device__ __forceinline__ int tiles(const Work& work, const Problem& problem) {
        const GroupRows* const rows = group_rows(&work);
        return rows != nullptr ? rows->tiles : problem.tiles_m;
    }
    template <class Work, class Problem>
    static __device__ __forceinline__ int all_tiles(const Work& work, const Problem& problem) {
        return (group_rows(&work) != nullptr ? 1 : problem.batch) * problem.tiles_m;
    }
    template <class Work, class Problem>
    static __device__ __forceinline__ index_t place(int tile, const Work& work, const Problem& problem) {
        return index_t(tile) * problem.n + work.n;
    }
};

// One value for every line. ID tells the reductions of a kernel apart.
template <class Lines, class Walk, class Op, typename T, int ID>
struct LineReduction {
    // shared()[part * LINES + line]: what a warp found of a line.
    static __device__ __forceinline__ T* shared() {
        return Walk::template shared<T, ID, Lines::PARTS * Lines::LINES>();
    }

    // The tile's value of a line; needs a barrier after the last write to `shared()`.
    static __device__ __forceinline__ T of_tile(int line) {
        return gather<Op, Lines::PARTS, Lines::LINES>(shared() + line);
    }

    // Writes the tile's values to its place among the partials.
    template <class Work, class Problem>
    static __device__ __forceinline__ void store_partials(T* partials, const Work& work, const Problem& problem) {
        T* const to = partials + Lines::place(Lines::own_tile(work, problem), work, problem);
        const int left = Lines::end(work, problem) - Lines::first(work);
        for (int i = Walk::thread(); i < Lines::LINES; i += Walk::THREADS) {
            if (i < left) to[i] = of_tile(i);
        }
    }

    // Writes the tile's values to a partials output [L, tiles along the lines, lines].
    template <typename Out, class Work, class Problem>
    static __device__ __forceinline__ void store_partials(const TensorView<Out>& to, const Work& work,
                                                          const Problem& problem) {
        if (!Lines::any(work, problem)) return;
        for (int i = Walk::thread(); i < Lines::LINES; i += Walk::THREADS) {
            const int line = Lines::first(work) + i;
            if (line < Lines::end(work, problem))
                to.pointer[work.batch * to.batch + Lines::tile(work) * to.row + line * to.column] =
                    narrow<Out>(of_tile(i));
        }
    }

    // Combines the partials of this tile's lines, over tiles and, if the batch is reduced too, batches.
    template <template <typename> class View, typename Out, class Work, class Problem>
    static __device__ __forceinline__ void combine(const T* partials, const View<Out>& to, const Work& work,
                                                   const Problem& problem, bool over_batch) {
        const int first = over_batch ? 0 : Lines::first_tile(work, problem);
        const int count = over_batch ? Lines::all_tiles(work, problem) : Lines::tiles(work, problem);
        const int end = Lines::end(work, problem);
        for (int i = Walk::thread(); i < Lines::LINES; i += Walk::THREADS) {
            const int line = Lines::first(work) + i;
            if (line >= end) break;
            T x = Op::template identity<T>();
            for (int t = 0; t < count; ++t) x = Op::combine(x, partials[Lines::place(first + t, work, problem) + i]);
            store(to, narrow<Out>(x), over_batch ? 0 : work.batch, line, end);
        }
    }
};

// One value for the matrix.
template <class Walk, class Op, typename T, int ID>
struct MatrixReduction {
    static constexpr int WARPS = Walk::WARPS_M * Walk::WARPS_N;

    // shared()[warp]: what a warp found.
    static __device__ __forceinline__ T* shared() { return Walk::template shared<T, ID, WARPS>(); }

    static __device__ __forceinline__ void publish(T x) {
        publish_warp<Op>(shared(), Walk::thread() / 32, Walk::thread() % 32, x);
    }

    static __device__ __forceinline__ T of_tile() { return gather<Op, WARPS>(shared()); }

    // Writes the tile's value to partials[batch][tile].
    template <class Work, class Problem>
    static __device__ __forceinline__ void store_partials(T* partials, const Work& work, const Problem&) {
        if (Walk::thread() == 0) partials[work.tile] = of_tile();
    }

    template <typename Out, class Work, class Problem>
    static __device__ __forceinline__ void combine(const T* partials, const ScalarView<Out>& to, const Work& work,
                                                   const Problem& problem, bool over_batch) {
        const GroupRows* const rows = group_rows(&work);
        const int tiles = (rows != nullptr ? rows->tiles : problem.tiles_m) * problem.tiles_n;
        const index_t before = rows != nullptr ? index_t(rows->first_tile) * problem.tiles_n : index_t(work.batch) * tiles;
        const index_t first = over_batch ? 0 : before;
        const index_t all = index_t(rows != nullptr ? 1 : problem.batch) * problem.tiles_m * problem.tiles_n;
        const index_t count = over_batch ? all : tiles;
        T x = Op::template identity<T>();
        for (index_t t = Walk::thread(); t < count; t += Walk::THREADS) x = Op::combine(x, partials[first + t]);
        Walk::sync();  // the tile's own value has been read; its place is used again
        publish(x);
        Walk::sync();
        if (Walk::thread() == 0) store(to, narrow<Out>(of_tile()), over_batch ? 0 : work.batch);
    }
};

}  // namespace epilogue
