// From shared memory to registers if A has 16-bit elements and B 8-bit ones: weights that take half the memory.
//
// B is converted to A's type on its way to the tensor cores, exactly (../convert_8bit.cuh). A lane has four neighbours
// of B along K in a register (fragments_8bit.cuh), k = 4q to 4q+3 of 16, where q = l%4. They become two pairs, which
// mma.m16n8k16 takes for k = 2q, 2q+1 and 2q+8, 2q+9. That permutes K, so A's pairs are taken at the same k: 8 bytes
// that lie together.
#pragma once
#include "fragments_8bit.cuh"

namespace epilogue::sm80 {

template <class ATile, class BTile, int MI, int NJ>
struct TensorCoreMixed {
    using Accumulator = float;
    using Map = FragmentMap<false, BTile::MAJOR == Major::MN>;
    using AElement = typename ATile::Element;
    using BElement = typename BTile::Element;
    static constexpr int STEP = 32;

    struct Fragments {
        u32 a[2][MI][4];  // of the first and the second 16 of K
        u32 b[NJ][2];
    };

    LaneAddress<ATile> a_lane;
    Columns8Bit<BTile, NJ> b_columns;

    static __device__ __forceinline__ LaneAddress<ATile> a_address(int lane, int m) {
        if constexpr (ATile::MAJOR == Major::K) {
            return {m + lane / 4, lane % 4 / 2, lane % 2 * 8};
        } else {
            // Matrices 0 and 1 are the lanes' first pairs, 2 and 3 the second ones, two rows of K further.
            return {lane / 16 * 2 + lane % 8 / 2 * 4 + lane % 2, m / 8 + lane / 8 % 2, 0};
        }
    }

    __device__ __forceinline__ TensorCoreMixed(int lane, int m, int n) : a_lane(a_address(lane, m)), b_columns(lane, n) {}

    __device__ __forceinline__ void load(Fragments& f, u32 a, u32 b, int step) const {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int i = 0; i < MI; ++i) load_a(f.a[half][i], a, 2 * step + half, i);
        b_columns.load(f.b, b, step);
    }

    __device__ __forceinline__ void load_a(u32 (&a)[4], u32 stage, int half_step, int i) const {
        if constexpr (ATile::MAJOR == Major::K) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float pairs[2];
                load_shared_f32x2(a_lane.at(stage, 16 * i + 8 * r, 2 * half_step), pairs);
                a[r] = __float_as_uint(pairs[0]), a[2 + r] = __float_as_uint(pairs[1]);
            }
        } else {
            load_matrix_x4_transposed(a_lane.at(stage, 16 * half_step, 2 * i), a);
        }
    }

    static __device__ __forceinline__ void multiply(float (&acc)[MI][NJ][2][2], const Fragments& f) {
        constexpr bool IN_F16 = IS_F16<AElement>;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            u32 b[NJ][2];
#pragma unroll
            for (int j = 0; j < NJ; ++j) to_16_bits<AElement>(BElement{}, f.b[j][half], b[j][0], b[j][1]);
#pragma unroll
            for (int i = 0; i < MI; ++i)
#pragma unroll
                for (int j = 0; j < NJ; ++j) {
                    if constexpr (IN_F16) {
                        mma_m16n8k16_f16(acc[i][j], f.a[half][i], b[j][0], b[j][1]);
                    } else {
                        mma_m16n8k16_bf16(acc[i][j], f.a[half][i], b[j][0], b[j][1]);
                    }
                }
        }
    }
};

template <class ATile, class BTile, int MI, int NJ>
struct SelectMultiply<Arithmetic::MIXED, ATile, BTile, MI, NJ> {
    using Type = TensorCoreMixed<ATile, BTile, MI, NJ>;
};

}  // namespace epilogue::sm80
