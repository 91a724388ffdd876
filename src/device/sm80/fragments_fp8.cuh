// Products of FP8 by mma.m16n8k32 (PTX ISA 9.7.14.5), which sm_89, sm_120 and sm_121 have.
//
// Registers are those of 8-bit integers. The tensor cores' sums depend on the GPU:
//
//   sm_120, sm_121   f32                                                         NATIVE_FP8
//   sm_89            14 bits: over all of K with Arithmetic::FastFp8,            NATIVE_FP8
//                    else over a k-tile, whose sums are added in f32             PROMOTED_FP8
#pragma once
#include "fragments_8bit.cuh"
#include "mainloop.cuh"

namespace epilogue::sm80 {

#define EPILOGUE_MMA(A_TYPE, B_TYPE)                                                                                   \
    __device__ __forceinline__ void mma_m16n8k32(f8##A_TYPE, f8##B_TYPE, float (&d)[2][2], const u32 (&a)[4], u32 b0,  \
                                                 u32 b1) {                                                             \
        asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." #A_TYPE "." #B_TYPE                                      \
                     ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                          \
                     : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])                                      \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                  \
    }
EPILOGUE_MMA(e4m3, e4m3)
EPILOGUE_MMA(e4m3, e5m2)
EPILOGUE_MMA(e5m2, e4m3)
EPILOGUE_MMA(e5m2, e5m2)
#undef EPILOGUE_MMA

template <class ATile, class BTile, int MI, int NJ>
struct TensorCoreFp8 : TensorCore8Bit<ATile, BTile, float, MI, NJ> {
    using Base = TensorCore8Bit<ATile, BTile, float, MI, NJ>;
    using typename Base::AElement;
    using typename Base::BElement;
    using typename Base::Fragments;
    using Base::Base;

    static __device__ __forceinline__ void multiply(float (&acc)[MI][NJ][2][2], const Fragments& f) {
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
            for (int j = 0; j < NJ; ++j)
                mma_m16n8k32(AElement{}, BElement{}, acc[i][j], f.a[i], f.b[j][0], f.b[j][1]);
    }
};

template <class ATile, class BTile, int MI, int NJ>
struct SelectMultiply<Arithmetic::NATIVE_FP8, ATile, BTile, MI, NJ> {
    using Type = TensorCoreFp8<ATile, BTile, MI, NJ>;
};
template <class ATile, class BTile, int MI, int NJ>
struct SelectMultiply<Arithmetic::PROMOTED_FP8, ATile, BTile, MI, NJ> {
    using Type = TensorCoreFp8<ATile, BTile, MI, NJ>;
};

// Each k-tile's products are summed by themselves, and these sums in f32.
template <class Accumulators>
struct PromotedSums;

template <int MI, int NJ>
struct PromotedSums<float[MI][NJ][2][2]> {
    using Sums = float[MI][NJ][2][2];
    static constexpr int SETS = 2;
    Sums& acc;
    Sums part = {};  // of the k-tile

    __device__ __forceinline__ Sums& of_k_tile() { return part; }

    __device__ __forceinline__ void close_k_tile() {
#pragma unroll
        for (int i = 0; i < MI; ++i)
#pragma unroll
            for (int j = 0; j < NJ; ++j)
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    acc[i][j][r / 2][r % 2] = __fadd_rn(acc[i][j][r / 2][r % 2], part[i][j][r / 2][r % 2]);
                    part[i][j][r / 2][r % 2] = 0;
                }
    }
};

template <class Accumulators>
struct SelectSums<Arithmetic::PROMOTED_FP8, Accumulators> {
    using Type = PromotedSums<Accumulators>;
};

}  // namespace epilogue::sm80
