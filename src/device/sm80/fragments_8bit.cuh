// From shared memory to registers for 8-bit operands. The tensor cores multiply integers as they are, and FP8 as f16.
// (On sm_80 there is no other way. The conversion is exact, and so are the products.)
//
// mma.m16n8k32 wants four neighbours along K in a register. If the operand is contiguous along K, ldmatrix of 16-bit
// pairs gives just that. If it is contiguous along M or N, ldmatrix.trans gives registers of two k with two neighbours
// along M or N each:
//
//   from rows 4q, 4q+1:    [ (4q, x)  (4q, x+1)  (4q+1, x)  (4q+1, x+1) ]        q = l%4, x = 2(l/4)
//   from rows 4q+2, 4q+3:  [ (4q+2, x) ...                              ]
//
// Bytes 0, 2 and 1, 3 of these make the registers of x and of x+1. So a lane has two neighbours, where the plain order
// gives it rows 8 apart (A) or columns of two blocks (B). FragmentMap has an order for each case.
#pragma once
#include "../convert_8bit.cuh"
#include "fragments.cuh"

namespace epilogue::sm80 {

// Along M or N, lane 8i+r gives the address of row r of matrix i: rows 4(r/2) + r%2, two further in matrices 1 and 3,
// 16 further in 2 and 3.
__device__ __forceinline__ int row_along_mn(int lane) {
    return lane / 16 * 16 + lane / 8 % 2 * 2 + lane % 8 / 2 * 4 + lane % 2;
}

// Registers of the first and the second 16 of K: of the lane's even index along M or N, of the odd one.
__device__ __forceinline__ void load_transposed(u32 shared, u32 (&even)[2], u32 (&odd)[2]) {
    u32 x[4];
    load_matrix_x4_transposed(shared, x);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        even[half] = permute_bytes<0x6420>(x[2 * half], x[2 * half + 1]);
        odd[half] = permute_bytes<0x7531>(x[2 * half], x[2 * half + 1]);
    }
}

// A warp's columns of B, which has 8-bit elements.
template <class Tile, int NJ>
struct Columns8Bit {
    static_assert(NJ % 2 == 0, "B fragments are loaded in pairs");

    LaneAddress<Tile> own;

    static __device__ __forceinline__ LaneAddress<Tile> address(int lane, int n) {
        if constexpr (Tile::MAJOR == Major::K) {
            return {n + lane / 16 * 8 + lane % 8, lane / 8 % 2, 0};
        } else {
            return {row_along_mn(lane), n / 16, 0};
        }
    }

    __device__ __forceinline__ Columns8Bit(int lane, int n) : own(address(lane, n)) {}

    // Registers of the first and the second 16 of a step's K.
    __device__ __forceinline__ void load(u32 (&b)[NJ][2], u32 stage, int step) const {
#pragma unroll
        for (int j = 0; j < NJ; j += 2) {
            if constexpr (Tile::MAJOR == Major::K) {
                u32 x[4];
                load_matrix_x4(own.at(stage, 8 * j, 2 * step), x);
                b[j][0] = x[0], b[j][1] = x[1], b[j + 1][0] = x[2], b[j + 1][1] = x[3];
            } else {
                load_transposed(own.at(stage, 32 * step, j / 2), b[j], b[j + 1]);
            }
        }
    }
};

// With int accumulators a product of integers, with float ones of FP8.
template <class ATile, class BTile, typename Accumulator_, int MI, int NJ>
struct TensorCore8Bit {
    using Accumulator = Accumulator_;
    using Map = FragmentMap<ATile::MAJOR == Major::MN, BTile::MAJOR == Major::MN>;
    using AElement = typename ATile::Element;
    using BElement = typename BTile::Element;
    static constexpr int STEP = 32;

    struct Fragments {
        u32 a[MI][4];
        u32 b[NJ][2];
    };

    LaneAddress<ATile> a_lane;
    Columns8Bit<BTile, NJ> b_columns;

    static __device__ __forceinline__ LaneAddress<ATile> a_address(int lane, int m) {
        if constexpr (ATile::MAJOR == Major::K) {
            return {m + lane % 16, lane / 16, 0};
        } else {
            return {row_along_mn(lane), m / 16, 0};
        }
    }

    __device__ __forceinline__ TensorCore8Bit(int lane, int m, int n)
        : a_lane(a_address(lane, m)), b_columns(lane, n) {}

    __device__ __forceinline__ void load(Fragments& f, u32 a, u32 b, int step) const {
#pragma unroll
        for (int i = 0; i < MI; ++i) {
            if constexpr (ATile::MAJOR == Major::K) {
                load_matrix_x4(a_lane.at(a, 16 * i, 2 * step), f.a[i]);
            } else {
                u32 even[2], odd[2];
                load_transposed(a_lane.at(a, STEP * step, i), even, odd);
                f.a[i][0] = even[0], f.a[i][1] = odd[0], f.a[i][2] = even[1], f.a[i][3] = odd[1];
            }
        }
        b_columns.load(f.b, b, step);
    }

    static __device__ __forceinline__ void multiply(int (&acc)[MI][NJ][2][2], const Fragments& f) {
        constexpr bool A_SIGNED = AElement(-1) < AElement(0), B_SIGNED = BElement(-1) < BElement(0);
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
            for (int j = 0; j < NJ; ++j)
                mma_m16n8k32_int8<A_SIGNED, B_SIGNED>(acc[i][j], f.a[i], f.b[j][0], f.b[j][1]);
    }

    // Half the step at a time: a register's four k become two pairs of m16n8k16's, in an order of K that is A's and B's.
    static __device__ __forceinline__ void multiply(float (&acc)[MI][NJ][2][2], const Fragments& f) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            u32 b[NJ][2];
#pragma unroll
            for (int j = 0; j < NJ; ++j) to_f16(BElement{}, f.b[j][half], b[j][0], b[j][1]);
#pragma unroll
            for (int i = 0; i < MI; ++i) {
                u32 a[4];
                to_f16(AElement{}, f.a[i][2 * half], a[0], a[2]);
                to_f16(AElement{}, f.a[i][2 * half + 1], a[1], a[3]);
#pragma unroll
                for (int j = 0; j < NJ; ++j) mma_m16n8k16_f16(acc[i][j], a, b[j][0], b[j][1]);
            }
        }
    }
};

template <class ATile, class BTile, int MI, int NJ>
struct SelectMultiply<Arithmetic::INT8, ATile, BTile, MI, NJ> {
    using Type = TensorCore8Bit<ATile, BTile, int, MI, NJ>;
};
template <class ATile, class BTile, int MI, int NJ>
struct SelectMultiply<Arithmetic::FP8, ATile, BTile, MI, NJ> {
    using Type = TensorCore8Bit<ATile, BTile, float, MI, NJ>;
};

}  // namespace epilogue::sm80
