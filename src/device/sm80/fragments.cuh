// From shared memory to registers, and the multiplication itself, for one warp.
//
// A warp's tile is MI × NJ blocks of 16×8. A lane holds 2×2 accumulators of each block; FragmentMap says which. For
// mma.m16n8 that is the hardware's map; two m8n8k4 make one block for f64; the exact f32 arithmetic adopts it. 8-bit
// operands that are contiguous along M or N take the rows or columns of a block in another order.
#pragma once
#include "operand_tile.cuh"

namespace epilogue::sm80 {

// Where a lane's accumulators lie in its warp's tile: what the epilogue needs to know of the multiplication.
// Plain, lane l has rows l/4 and l/4+8 and columns 2(l%4) and 2(l%4)+1 of a block. With PAIRED_ROWS these rows are the
// block's 2(l/4) and 2(l/4)+1. With INTERLEAVED_COLUMNS two neighbouring blocks have the even and the odd columns of 16,
// so that the lane's are 4(l%4) to 4(l%4)+3.
template <bool PAIRED_ROWS = false, bool INTERLEAVED_COLUMNS = false>
struct FragmentMap {
    static __device__ __forceinline__ int row(int lane, int i) {
        return PAIRED_ROWS ? lane / 4 * 2 + i : lane / 4 + 8 * i;
    }

    // The first column of the lane's pair number j; the pairs of j and j ^ 1 are of one 16×16 block.
    static __device__ __forceinline__ int column(int lane, int j) {
        return INTERLEAVED_COLUMNS ? j / 2 * 16 + lane % 4 * 4 + j % 2 * 2 : j * 8 + lane % 4 * 2;
    }

    // The two neighbours of pair j in row i.
    template <int NJ, typename T>
    static __device__ __forceinline__ void pair(const T (&block_row)[NJ][2][2], int j, int i, T (&x)[2]) {
        if constexpr (INTERLEAVED_COLUMNS) {
            x[0] = block_row[j / 2 * 2][i][j % 2], x[1] = block_row[j / 2 * 2 + 1][i][j % 2];
        } else {
            x[0] = block_row[j][i][0], x[1] = block_row[j][i][1];
        }
    }
};

// A lane's view of an operand's tile. An address is split into what depends on the lane (computed once) and what the
// unrolled loops know: rows are added, chunks are XORed.
template <class Tile>
struct LaneAddress {
    u32 base;   // bytes: the lane's row, and the place inside the chunk
    u32 chunk;  // bytes: the lane's chunk, already XORed with the row's swizzle

    __device__ __forceinline__ LaneAddress(int row, int lane_chunk, int inside)
        : base(static_cast<u32>(row * Tile::ROW_BYTES + inside)),
          chunk(static_cast<u32>((lane_chunk ^ Tile::swizzle(row)) * Tile::CHUNK_BYTES)) {}

    // `row` must keep the swizzle and `chunk` must only set bits that the lane's own chunk index has clear.
    __device__ __forceinline__ u32 at(u32 stage, int row, int chunk_index) const {
        return stage + base + static_cast<u32>(row * Tile::ROW_BYTES) +
               (chunk ^ static_cast<u32>(chunk_index * Tile::CHUNK_BYTES));
    }
};

// ---- f16, bf16, TF32 and f32 as bf16 on tensor cores -----------------------------------------------------------------

// What one load gives of K is 2 chunks of 16 bytes: 16 elements of 2 bytes, or 8 of 4. That is one mma's K, but for
// FAST_BF16, whose 16 take two loads. A lane has k = l%4 and l%4+4 of each load and makes a pair of bf16 of them, where the
// mma takes a lane's pair for the neighbours 2(l%4) and 2(l%4)+1: K in another order, the same for A and B.
template <class ATile, class BTile, Arithmetic ARITHMETIC, int MI, int NJ>
struct TensorCore {
    using Accumulator = float;
    using Map = FragmentMap<>;
    static constexpr bool TF32 = ARITHMETIC == Arithmetic::TF32, FAST_BF16 = ARITHMETIC == Arithmetic::FAST_BF16;
    static constexpr bool WORDS = IN_WORDS<ARITHMETIC>;
    static constexpr int STEP = TF32 ? 8 : 16;
    static constexpr int MN_CHUNK = WORDS ? 4 : 8;  // elements of a chunk
    static_assert(NJ % 2 == 0, "B fragments are loaded in pairs");

    struct Fragments {
        u32 a[MI][4];
        u32 b[NJ][2];
    };

    LaneAddress<ATile> a_lane;
    LaneAddress<BTile> b_lane;

    static __device__ __forceinline__ LaneAddress<ATile> a_address(int lane, int m) {
        if constexpr (ATile::MAJOR == Major::K) {
            return {m + lane % 16, lane / 16, 0};
        } else if constexpr (WORDS) {
            return {lane % 4, m / MN_CHUNK + lane / 16, lane / 4 % 4 * 4};
        } else {
            return {lane / 16 * 8 + lane % 8, m / MN_CHUNK + lane / 8 % 2, 0};
        }
    }

    static __device__ __forceinline__ LaneAddress<BTile> b_address(int lane, int n) {
        if constexpr (BTile::MAJOR == Major::K) {
            return {n + lane / 16 * 8 + lane % 8, lane / 8 % 2, 0};
        } else if constexpr (WORDS) {
            return {lane % 4, n / MN_CHUNK + lane / 16, lane / 4 % 4 * 4};
        } else {
            return {lane / 8 % 2 * 8 + lane % 8, n / MN_CHUNK + lane / 16, 0};
        }
    }

    __device__ __forceinline__ TensorCore(int lane, int m, int n) : a_lane(a_address(lane, m)), b_lane(b_address(lane, n)) {}

    __device__ __forceinline__ void load(Fragments& f, u32 a, u32 b, int step) const {
        if constexpr (FAST_BF16) {
            load_rounded(f, a, b, step);
        } else {
#pragma unroll
            for (int i = 0; i < MI; ++i) load_a(f.a[i], a, step, i);
#pragma unroll
            for (int j = 0; j < NJ; j += 2) load_b(f.b[j], f.b[j + 1], b, step, j);
        }
        if constexpr (TF32) {
#pragma unroll
            for (int i = 0; i < MI; ++i)
#pragma unroll
                for (int r = 0; r < 4; ++r) f.a[i][r] = round_to_tf32(f.a[i][r]);
#pragma unroll
            for (int j = 0; j < NJ; ++j)
#pragma unroll
                for (int r = 0; r < 2; ++r) f.b[j][r] = round_to_tf32(f.b[j][r]);
        }
    }

    __device__ __forceinline__ void load_rounded(Fragments& f, u32 a, u32 b, int step) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < MI; ++i) {
                u32 x[4];
                load_a(x, a, 2 * step + half, i);
                f.a[i][2 * half] = round_to_bf16x2(x[0], x[2]), f.a[i][2 * half + 1] = round_to_bf16x2(x[1], x[3]);
            }
#pragma unroll
            for (int j = 0; j < NJ; j += 2) {
                u32 x[2], y[2];
                load_b(x, y, b, 2 * step + half, j);
                f.b[j][half] = round_to_bf16x2(x[0], x[1]), f.b[j + 1][half] = round_to_bf16x2(y[0], y[1]);
            }
        }
    }

    __device__ __forceinline__ void load_a(u32 (&a)[4], u32 stage, int step, int i) const {
        if constexpr (ATile::MAJOR == Major::K) {
            load_matrix_x4(a_lane.at(stage, 16 * i, 2 * step), a);
        } else if constexpr (WORDS) {
            // Registers: (m, k), (m+8, k), (m, k+4), (m+8, k+4).
#pragma unroll
            for (int r = 0; r < 4; ++r) a[r] = load_shared_4(a_lane.at(stage, 8 * step + r / 2 * 4, 4 * i + r % 2 * 2));
        } else {
            load_matrix_x4_transposed(a_lane.at(stage, 16 * step, 2 * i), a);
        }
    }

    __device__ __forceinline__ void load_b(u32 (&b0)[2], u32 (&b1)[2], u32 stage, int step, int j) const {
        if constexpr (WORDS && BTile::MAJOR == Major::MN) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                b0[r] = load_shared_4(b_lane.at(stage, 8 * step + 4 * r, 2 * j));
                b1[r] = load_shared_4(b_lane.at(stage, 8 * step + 4 * r, 2 * j + 2));
            }
        } else {
            u32 x[4];
            if constexpr (BTile::MAJOR == Major::K) {
                load_matrix_x4(b_lane.at(stage, 8 * j, 2 * step), x);
            } else {
                load_matrix_x4_transposed(b_lane.at(stage, 16 * step, j), x);
            }
            b0[0] = x[0], b0[1] = x[1], b1[0] = x[2], b1[1] = x[3];
        }
    }

    static __device__ __forceinline__ void multiply(float (&acc)[MI][NJ][2][2], const Fragments& f) {
#pragma unroll
        for (int i = 0; i < MI; ++i) {
#pragma unroll
            for (int j = 0; j < NJ; ++j) {
                if constexpr (ARITHMETIC == Arithmetic::F16) {
                    mma_m16n8k16_f16(acc[i][j], f.a[i], f.b[j][0], f.b[j][1]);
                } else if constexpr (ARITHMETIC == Arithmetic::BF16 || FAST_BF16) {
                    mma_m16n8k16_bf16(acc[i][j], f.a[i], f.b[j][0], f.b[j][1]);
                } else {
                    mma_m16n8k8_tf32(acc[i][j], f.a[i], f.b[j][0], f.b[j][1]);
                }
            }
        }
    }
};

// ---- f64 on tensor cores --------------------------------------------------------------------------------------------

// m8n8k4: lane l gives A(l/4, l%4) and B(l%4, l/4). Two of them, 8 rows apart, make a 16×8 block.
template <class ATile, class BTile, int MI, int NJ>
struct TensorCoreF64 {
    using Accumulator = double;
    using Map = FragmentMap<>;
    static constexpr int STEP = 4;

    struct Fragments {
        double a[MI][2];
        double b[NJ];
    };

    LaneAddress<ATile> a_lane;
    LaneAddress<BTile> b_lane;

    template <class Tile>
    static __device__ __forceinline__ LaneAddress<Tile> address(int lane, int outer) {
        if constexpr (Tile::MAJOR == Major::K) {
            return {outer + lane / 4, lane % 4 / 2, lane % 2 * 8};
        } else {
            return {lane % 4, outer / 2 + lane / 8, lane / 4 % 2 * 8};
        }
    }

    __device__ __forceinline__ TensorCoreF64(int lane, int m, int n)
        : a_lane(address<ATile>(lane, m)), b_lane(address<BTile>(lane, n)) {}

    __device__ __forceinline__ void load(Fragments& f, u32 a, u32 b, int step) const {
#pragma unroll
        for (int i = 0; i < 2 * MI; ++i) f.a[i / 2][i % 2] = load_shared_f64(at(a_lane, a, step, i));
#pragma unroll
        for (int j = 0; j < NJ; ++j) f.b[j] = load_shared_f64(at(b_lane, b, step, j));
    }

    // Address of the 8×4 fragment number `block` along M or N.
    template <class Tile>
    static __device__ __forceinline__ u32 at(const LaneAddress<Tile>& lane, u32 stage, int step, int block) {
        if constexpr (Tile::MAJOR == Major::K) {
            return lane.at(stage, 8 * block, 2 * step);
        } else {
            return lane.at(stage, 4 * step, 4 * block);
        }
    }

    static __device__ __forceinline__ void multiply(double (&acc)[MI][NJ][2][2], const Fragments& f) {
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
            for (int j = 0; j < NJ; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) mma_m8n8k4_f64(acc[i][j][half], f.a[i][half], f.b[j]);
    }
};

// ---- exact f32 on CUDA cores ------------------------------------------------------------------------------------------

// One fused multiply-add per term, k ascending: the same chain whatever the tile. Works in steps of 4 k, because a
// K-major operand gives 4 of them in one 16-byte load.
template <class ATile, class BTile, int MI, int NJ>
struct CudaCoreF32 {
    using Accumulator = float;
    using Map = FragmentMap<>;
    static constexpr int STEP = 4;

    struct Fragments {
        float a[2 * MI][4];  // [row][k]
        float b[2 * NJ][4];  // [column][k]
    };

    LaneAddress<ATile> a_lane;
    LaneAddress<BTile> b_even, b_odd;

    // Where the value of index `outer` along M or N begins.
    template <class Tile>
    static __device__ __forceinline__ LaneAddress<Tile> address(int outer) {
        if constexpr (Tile::MAJOR == Major::K) {
            return {outer, 0, 0};
        } else {
            return {0, 0, outer * 4};
        }
    }

    __device__ __forceinline__ CudaCoreF32(int lane, int m, int n)
        : a_lane(address<ATile>(m + Map::row(lane, 0))),
          b_even(address<BTile>(n + Map::column(lane, 0))),
          b_odd(address<BTile>(n + Map::column(lane, 0) + 1)) {}

    __device__ __forceinline__ void load(Fragments& f, u32 a, u32 b, int step) const {
#pragma unroll
        for (int i = 0; i < 2 * MI; ++i) {
            if constexpr (ATile::MAJOR == Major::K) {
                load_shared_f32x4(a_lane.at(a, 8 * i, step), f.a[i]);
            } else {
#pragma unroll
                for (int k = 0; k < 4; ++k) f.a[i][k] = load_shared_f32(a_lane.at(a, 4 * step + k, 2 * i));
            }
        }
#pragma unroll
        for (int j = 0; j < NJ; ++j) {
            if constexpr (BTile::MAJOR == Major::K) {
                load_shared_f32x4(b_even.at(b, 8 * j, step), f.b[2 * j]);
                load_shared_f32x4(b_odd.at(b, 8 * j, step), f.b[2 * j + 1]);
            } else {
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    float pair[2];
                    load_shared_f32x2(b_even.at(b, 4 * step + k, 2 * j), pair);
                    f.b[2 * j][k] = pair[0], f.b[2 * j + 1][k] = pair[1];
                }
            }
        }
    }

    static __device__ __forceinline__ void multiply(float (&acc)[MI][NJ][2][2], const Fragments& f) {
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int i = 0; i < MI; ++i)
#pragma unroll
                for (int j = 0; j < NJ; ++j)
#pragma unroll
                    for (int r = 0; r < 4; ++r)
                        acc[i][j][r / 2][r % 2] =
                            __fmaf_rn(f.a[2 * i + r / 2][k], f.b[2 * j + r % 2][k], acc[i][j][r / 2][r % 2]);
    }
};

// The multiplication of a configuration; those of 8-bit operands are in fragments_8bit.cuh.
template <Arithmetic ARITHMETIC, class ATile, class BTile, int MI, int NJ>
struct SelectMultiply {
    using Type = TensorCore<ATile, BTile, ARITHMETIC, MI, NJ>;
};
template <class ATile, class BTile, int MI, int NJ>
struct SelectMultiply<Arithmetic::F64, ATile, BTile, MI, NJ> {
    using Type = TensorCoreF64<ATile, BTile, MI, NJ>;
};
template <class ATile, class BTile, int MI, int NJ>
struct SelectMultiply<Arithmetic::F32, ATile, BTile, MI, NJ> {
    using Type = CudaCoreF32<ATile, BTile, MI, NJ>;
};

}  // namespace epilogue::sm80
