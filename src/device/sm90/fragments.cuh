// The position of a consumer's lane: in the tile, and in the staged pieces of the epilogue's tensors.
//
// The accumulators of a warp are handled in units of 16 rows by WIDTH columns, V values for every lane: value 4j + 2h +
// c has row l/4 + 8h and column 8j + 2(l%4) + c of the unit. That is the map of wgmma as of mma.m16n8.
//
// A step of a warpgroup is a block of 64 rows by STEP columns. Its rows are four runs of 16 (BlockRows). Tensors that are copied by boxes lie in shared memory as TMA puts
// them: problem rows of at most 128 bytes; wider rows are cut into boxes side by side. The 16-byte chunks of a row are
// permuted by its number (TMA's swizzle).
#pragma once
#include "../convert.cuh"
#include "../views.cuh"
#include "scheduler.cuh"
#include "tma.cuh"

namespace epilogue::sm90 {

template <class Config>
struct Lanes {
    using S = Shape<Config>;
    static constexpr int WIDTH = Config::STEP % 16 == 0 ? 16 : 8;
    static constexpr int V = WIDTH / 2;
    static constexpr int COLUMNS = WIDTH / 4;  // distinct columns of a lane: (j, c) is 2j + c
    static_assert(Config::WG_COLUMNS / S::COUNT_COLUMNS % Config::STEP == 0 && Config::STEP % WIDTH == 0);
    static_assert(Config::STEP <= 64);

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
    static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32 % 4; }  // of the warpgroup
    static __device__ __forceinline__ int consumer() { return static_cast<int>(threadIdx.x) / WARPGROUP - 1; }
    static __device__ __forceinline__ int team() { return S::PINGPONG ? consumer() : 0; }
    static __device__ __forceinline__ int member() { return S::PINGPONG ? 0 : consumer(); }

    // Of value v: which of the lane's rows and columns it has.
    static __device__ __forceinline__ constexpr int half(int v) { return v / 2 % 2; }
    static __device__ __forceinline__ constexpr int column_index(int v) { return v / 4 * 2 + v % 2; }

    // MMA row in the tile's results of a half of block `block`; MMA column of the unit's (j, c).
    static __device__ __forceinline__ int row(int block, int half) {
        return BlockRows<Config>::first(member(), block) + BlockRows<Config>::STRIDE * warp() + lane() / 4 + 8 * half;
    }
    static __device__ __forceinline__ int column(int unit_column, int column_index) {
        return unit_column + 8 * (column_index / 2) + 2 * (lane() % 4) + column_index % 2;
    }
};

// MMA coordinates of a tile as the problem's.
template <class Config>
__device__ __forceinline__ int row_in_problem(const Work& work, int row, int column) {
    return work.m + (Config::SWAP_AB ? column : row);
}
template <class Config>
__device__ __forceinline__ int column_in_problem(const Work& work, int row, int column) {
    return work.n + (Config::SWAP_AB ? row : column);
}

// ---- Pairs of 16-bit elements ---------------------------------------------------------------------------------------

// cvt.rn.f16x2.f32 and cvt.rn.bf16x2.f32: `x` goes to the lower half.
template <typename T>
__device__ __forceinline__ u32 narrow_pair(float x, float y);
template <>
__device__ __forceinline__ u32 narrow_pair<f16>(float x, float y) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(y), "f"(x));
    return pair;
}
template <>
__device__ __forceinline__ u32 narrow_pair<bf16>(float x, float y) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(y), "f"(x));
    return pair;
}

// stmatrix: 8x8 matrices of 16-bit elements, the counterpart of ldmatrix (PTX ISA, "stmatrix").
template <bool TRANSPOSED>
__device__ __forceinline__ void store_matrices(u32 shared, const u32 (&x)[4]) {
    if constexpr (TRANSPOSED) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(x[0]),
                     "r"(x[1]), "r"(x[2]), "r"(x[3])
                     : "memory");
    } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(x[0]),
                     "r"(x[1]), "r"(x[2]), "r"(x[3])
                     : "memory");
    }
}
template <bool TRANSPOSED>
__device__ __forceinline__ void store_matrices(u32 shared, const u32 (&x)[2]) {
    if constexpr (TRANSPOSED) {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};\n" ::"r"(shared), "r"(x[0]),
                     "r"(x[1])
                     : "memory");
    } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};\n" ::"r"(shared), "r"(x[0]), "r"(x[1])
                     : "memory");
    }
}
template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(u32 shared, u32 (&x)[4]) {
    if constexpr (TRANSPOSED) {
        load_matrix_x4_transposed(shared, x);
    } else {
        load_matrix_x4(shared, x);
    }
}
template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(u32 shared, u32 (&x)[2]) {
    if constexpr (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
                     : "=r"(x[0]), "=r"(x[1])
                     : "r"(shared)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
                     : "=r"(x[0]), "=r"(x[1])
                     : "r"(shared)
                     : "memory");
    }
}

// ---- A tensor's elements of one step --------------------------------------------------------------------------------

template <class Config, typename T>
struct Staged {
    using L = Lanes<Config>;
    static constexpr int SIZE = sizeof(T);
    static constexpr int ROWS = Config::SWAP_AB ? Config::STEP : 64;     // of the problem
    static constexpr int COLUMNS = Config::SWAP_AB ? 64 : Config::STEP;  // of the problem
    // Runs of 16 rows that do not follow one another have boxes of their own.
    static constexpr int APART = BlockRows<Config>::STRIDE == 16 ? 0 : BlockRows<Config>::STRIDE;
    static constexpr int WIDEST = APART != 0 && Config::SWAP_AB ? 16 : 128 / SIZE;
    static constexpr int BOX_COLUMNS = COLUMNS > WIDEST ? WIDEST : COLUMNS;
    static constexpr int RUNS = APART != 0 && !Config::SWAP_AB ? 4 : 1;  // copies of a box
    static constexpr int BOXES = COLUMNS / BOX_COLUMNS;
    // From a box to the next, of the problem.
    static constexpr int COLUMNS_APART = APART != 0 && Config::SWAP_AB ? APART : BOX_COLUMNS;
    static constexpr int ROW_BYTES = BOX_COLUMNS * SIZE;
    static constexpr int BOX_BYTES = ROWS * ROW_BYTES;
    static constexpr int BYTES = BOXES * BOX_BYTES;
    static constexpr int ALIGNMENT = BOX_BYTES >= 1024 ? 1024 : BOX_BYTES;
    static_assert(SIZE <= 4 && ROW_BYTES >= 16, "a box's row is at least 16 bytes");

    // Bytes from the stage's start to an element, by its row and column of the problem in the step.
    static __device__ __forceinline__ int offset(int row, int column) {
        const int in_box = row * ROW_BYTES + column % BOX_COLUMNS * SIZE;
        return column / BOX_COLUMNS * BOX_BYTES + (in_box ^ (in_box >> 7 & (ROW_BYTES / 16 - 1)) << 4);
    }

    // The same by MMA row in the warpgroup's block, and MMA column in the step.
    static __device__ __forceinline__ int offset_of(int row, int column) {
        return Config::SWAP_AB ? offset(column, row) : offset(row, column);
    }

    // Where the row of 8 elements is that this lane names for a matrix instruction. Matrix i has half i % 2, j = i / 2.
    static __device__ __forceinline__ int matrix_row(int column) {
        const int i = L::lane() / 8, r = L::lane() % 8, row = 16 * L::warp() + 8 * (i % 2);
        return Config::SWAP_AB ? offset(column + 8 * (i / 2) + r, row) : offset(row + r, column + 8 * (i / 2));
    }

    // The lane's elements of the unit at MMA column `column` of the step at `stage`.
    static __device__ __forceinline__ void load(int stage, int column, T (&x)[L::V]) {
        if constexpr (SIZE == 2) {
            u32 pairs[L::V / 2];
            load_matrices<Config::SWAP_AB>(shared_address(block_memory()) + stage + matrix_row(column), pairs);
#pragma unroll
            for (int i = 0; i < L::V / 2; ++i) {
                x[2 * i].bits = static_cast<unsigned short>(pairs[i]);
                x[2 * i + 1].bits = static_cast<unsigned short>(pairs[i] >> 16);
            }
        } else {
            const unsigned char* const from = block_memory() + stage;
#pragma unroll
            for (int v = 0; v < L::V; v += Config::SWAP_AB ? 1 : 2) {
                const int row = 16 * L::warp() + L::lane() / 4 + 8 * L::half(v);
                const int at = offset_of(row, L::column(column, L::column_index(v)));
                if constexpr (Config::SWAP_AB) {
                    x[v] = *reinterpret_cast<const T*>(from + at);
                } else {
                    const auto pair = *reinterpret_cast<const Pack<T, 2>*>(from + at);
                    x[v] = pair.value[0];
                    x[v + 1] = pair.value[1];
                }
            }
        }
    }

    // `Value`: float, or an integer accumulator that is stored as it is.
    template <typename Value>
    static __device__ __forceinline__ void store(int stage, int column, const Value (&x)[L::V]) {
        if constexpr (SIZE == 2) {
            u32 pairs[L::V / 2];
#pragma unroll
            for (int i = 0; i < L::V / 2; ++i) pairs[i] = narrow_pair<T>(x[2 * i], x[2 * i + 1]);
            store_matrices<Config::SWAP_AB>(shared_address(block_memory()) + stage + matrix_row(column), pairs);
        } else {
            unsigned char* const to = block_memory() + stage;
#pragma unroll
            for (int v = 0; v < L::V; v += Config::SWAP_AB ? 1 : 2) {
                const int row = 16 * L::warp() + L::lane() / 4 + 8 * L::half(v);
                const int at = offset_of(row, L::column(column, L::column_index(v)));
                if constexpr (Config::SWAP_AB) {
                    *reinterpret_cast<T*>(to + at) = narrow<T>(x[v]);
                } else {
                    Pack<T, 2> pair;
                    pair.value[0] = narrow<T>(x[v]);
                    pair.value[1] = narrow<T>(x[v + 1]);
                    *reinterpret_cast<Pack<T, 2>*>(to + at) = pair;
                }
            }
        }
    }

    // Copies a step, whose first MMA row and column in the tile are given, between memory and `stage`. By one thread.
    static __device__ __forceinline__ void load_boxes(int stage, const TensorMap& map, u32 full, const Work& work,
                                                      int row, int column, index_t batch_stride) {
        const int m = row_in_problem<Config>(work, row, column), n = column_in_problem<Config>(work, row, column);
#pragma unroll
        for (int b = 0; b < BOXES * RUNS; ++b)
            load_box<Hint::Normal>(shared_address(block_memory()) + stage + b * (BOX_BYTES / RUNS), map, full,
                                   n + b / RUNS * COLUMNS_APART, m + b % RUNS * APART, batch_stride != 0 ? work.batch : 0);
    }
    static __device__ __forceinline__ void store_boxes(int stage, const TensorMap& map, const Work& work, int row,
                                                       int column, index_t batch_stride) {
        const int m = row_in_problem<Config>(work, row, column), n = column_in_problem<Config>(work, row, column);
#pragma unroll
        for (int b = 0; b < BOXES * RUNS; ++b)
            store_box<Config::OUTPUT_HINT>(map, shared_address(block_memory()) + stage + b * (BOX_BYTES / RUNS),
                                           n + b / RUNS * COLUMNS_APART, m + b % RUNS * APART,
                                           batch_stride != 0 ? work.batch : 0);
    }

    // Writes zeros in place of a tensor that need not be read. By a warp.
    static __device__ __forceinline__ void clear(int stage) {
        const u32 to = shared_address(block_memory()) + stage;
        for (int at = 16 * L::lane(); at < BYTES; at += 16 * 32) store_shared_16(to + at, 0, 0, 0, 0);
    }
};

// ---- Tensors that TMA can't reach: element by element ---------------------------------------------------------------

// Columns are taken anew: the compiler would otherwise compute the addresses of a whole tile's elements at once. `load` and
// `store` are those of the view, which may be declared later.

template <class Config, template <typename> class View, typename T>
__device__ __forceinline__ void load_direct(const View<T>& view, const Work& work, const Problem& problem,
                                            int block, int column, T (&x)[Lanes<Config>::V]) {
    using L = Lanes<Config>;
    column = anew(column);
#pragma unroll
    for (int v = 0; v < L::V; v += Config::SWAP_AB ? 1 : 2) {
        const int row = L::row(block, L::half(v)), c = L::column(column, L::column_index(v));
        const int m = row_in_problem<Config>(work, row, c), n = column_in_problem<Config>(work, row, c);
        if constexpr (Config::SWAP_AB) {
            x[v] = load<1>(view, work.batch, m, n, problem.m, problem.n).value[0];
        } else {
            const auto pair = load<2>(view, work.batch, m, n, problem.m, problem.n);
            x[v] = pair.value[0];
            x[v + 1] = pair.value[1];
        }
    }
}

template <class Config, template <typename> class View, typename T, typename Value>
__device__ __forceinline__ void store_direct(const View<T>& view, const Work& work, const Problem& problem,
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
            store<1>(view, one, work.batch, m, n, problem.m, problem.n);
        } else {
            Pack<T, 2> pair;
            pair.value[0] = narrow<T>(x[v]);
            pair.value[1] = narrow<T>(x[v + 1]);
            store<2>(view, pair, work.batch, m, n, problem.m, problem.n);
        }
    }
}

// ---- Vectors along MMA columns --------------------------------------------------------------------------------------

// Vector `index` of `COUNT`, of this lane's team, staged as f32, or as i32: integers of at most 32 bits, truth values.
template <class Config, int COUNT>
struct StagedVectors {
    using L = Lanes<Config>;

    static __device__ __forceinline__ int place(int team, int index) {
        return Config::VECTOR_OFFSET + (team * COUNT + index) * Shape<Config>::RESULT_COLUMNS * 4;
    }

    // Brings a tile's entries, those outside the vector as 0. By a warp.
    template <typename Entry, class View>
    static __device__ __forceinline__ void fill(int team, int index, const View& view, const Work& work,
                                                const Problem& problem, bool needed) {
        const int first = Config::SWAP_AB ? work.m : work.n, length = Config::SWAP_AB ? problem.m : problem.n;
        static_assert(sizeof(Entry) == 4);
        Entry* const to = reinterpret_cast<Entry*>(block_memory() + place(team, index));
        for (int i = L::lane(); i < Shape<Config>::RESULT_COLUMNS; i += 32)
            to[i] = needed ? widen<Entry>(epilogue::load(view, work.batch, first + i, length)) : Entry{};
    }

    // The entries of the unit's columns (j, c) at 2j + c. Read where they are used: the compiler would otherwise load
    // them all before the accumulators' registers are free, and spill.
    static __device__ __forceinline__ void load(int index, int column, float (&x)[L::COLUMNS]) {
        const u32 from = shared_address(block_memory()) + place(L::team(), index);
#pragma unroll
        for (int i = 0; i < L::COLUMNS; i += 2) {
            float pair[2];
            load_shared_f32x2(from + L::column(column, i) * 4, pair);
            x[i] = pair[0];
            x[i + 1] = pair[1];
        }
    }
    static __device__ __forceinline__ void load(int index, int column, i32 (&x)[L::COLUMNS]) {
        float bits[L::COLUMNS];
        load(index, column, bits);
#pragma unroll
        for (int i = 0; i < L::COLUMNS; ++i) x[i] = __float_as_int(bits[i]);
    }
};

// The entries of the unit's columns (j, c) at 2j + c, of a vector that is not staged.
template <class Config, class View, typename T>
__device__ __forceinline__ void load_entries(const View& view, const Work& work, const Problem& problem, int column,
                                             T (&x)[Lanes<Config>::COLUMNS]) {
    using L = Lanes<Config>;
    const int first = Config::SWAP_AB ? work.m : work.n, length = Config::SWAP_AB ? problem.m : problem.n;
    column = anew(column);
#pragma unroll
    for (int i = 0; i < L::COLUMNS; ++i)
        x[i] = epilogue::load(view, work.batch, first + L::column(column, i), length);
}

}  // namespace epilogue::sm90
