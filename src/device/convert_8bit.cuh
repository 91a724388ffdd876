// 8-bit numbers as f16 and as bf16, four at a time. The conversion is exact, since both types have every 8-bit value.
// Both kernel families convert weights by these functions.
#pragma once
#include "convert.cuh"
#include "ptx.cuh"

namespace epilogue {

// Four FP8 numbers as f16: the first two, the last two.
__device__ __forceinline__ void to_f16(f8e5m2, u32 x, u32& low, u32& high) {
    low = permute_bytes<0x1404>(x, 0);  // an f16's upper half
    high = permute_bytes<0x3424>(x, 0);
}

__device__ __forceinline__ void to_f16(f8e4m3, u32 x, u32& low, u32& high) {
#if __CUDA_ARCH__ >= 890
    asm("{\n.reg .b16 x0, x1;\nmov.b32 {x0, x1}, %2;\ncvt.rn.f16x2.e4m3x2 %0, x0;\ncvt.rn.f16x2.e4m3x2 %1, x1;\n}\n"
        : "=r"(low), "=r"(high)
        : "r"(x));
#else
    // Exponent and mantissa, moved to where an f16 has its own, are the value times 2^-8. NaN, all ones, would be 480:
    // its exponent is filled up.
    const u32 pairs[2] = {permute_bytes<0x1404>(x, 0), permute_bytes<0x3424>(x, 0)};
    u32 halves[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const u32 magnitude = pairs[i] >> 1 & 0x3f803f80u;
        const u32 nan = (magnitude + 0x00800080u) >> 1 & 0x20002000u;
        halves[i] = multiply_f16x2(magnitude, 0x5c005c00u) | nan | (pairs[i] & 0x80008000u);
    }
    low = halves[0], high = halves[1];
#endif
}

// Four integers as f16: the first two, the last two. 1024 + x has the bits 0x6400 + x; of signed ones x + 128 is used.
__device__ __forceinline__ void integers_to_f16(u32 x, u32 zeros, u32& low, u32& high) {
    low = subtract_f16x2(permute_bytes<0x4140>(x, 0x64646464u), zeros);
    high = subtract_f16x2(permute_bytes<0x4342>(x, 0x64646464u), zeros);
}
__device__ __forceinline__ void to_f16(u8, u32 x, u32& low, u32& high) { integers_to_f16(x, 0x64006400u, low, high); }
__device__ __forceinline__ void to_f16(i8, u32 x, u32& low, u32& high) {
    integers_to_f16(x ^ 0x80808080u, 0x64806480u, low, high);
}

// Two floats whose upper halves are all that they have.
__device__ __forceinline__ u32 upper_halves(float x, float y) {
    return permute_bytes<0x7632>(__float_as_uint(x), __float_as_uint(y));
}

// Four integers as bf16. 2^23 + x has the bits 0x4b000000 + x; bf16 has 8 significant bits, and so have they.
template <u32 PLACE>
__device__ __forceinline__ float beyond(u32 x) {
    return __uint_as_float(permute_bytes<0x7440 + PLACE>(x, 0x4b000000u));
}
__device__ __forceinline__ void integers_to_bf16(u32 x, float zero, u32& low, u32& high) {
    low = upper_halves(beyond<0>(x) - zero, beyond<1>(x) - zero);
    high = upper_halves(beyond<2>(x) - zero, beyond<3>(x) - zero);
}
__device__ __forceinline__ void to_bf16(u8, u32 x, u32& low, u32& high) { integers_to_bf16(x, 8388608.0f, low, high); }
__device__ __forceinline__ void to_bf16(i8, u32 x, u32& low, u32& high) {
    integers_to_bf16(x ^ 0x80808080u, 8388736.0f, low, high);
}

// Four FP8 numbers as bf16, by way of f16 and f32.
template <typename Fp8>
__device__ __forceinline__ void to_bf16(Fp8 type, u32 x, u32& low, u32& high) {
    u32 pairs[2];
    to_f16(type, x, pairs[0], pairs[1]);
    float wide[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        f16 one;
        one.bits = static_cast<unsigned short>(pairs[i / 2] >> i % 2 * 16);
        wide[i] = convert::to_float(one);
    }
    low = upper_halves(wide[0], wide[1]), high = upper_halves(wide[2], wide[3]);
}

template <typename T>
inline constexpr bool IS_F16 = false;
template <>
inline constexpr bool IS_F16<f16> = true;

// Four numbers as f16 or as bf16.
template <typename Wide, typename Narrow>
__device__ __forceinline__ void to_16_bits(Narrow type, u32 x, u32& low, u32& high) {
    if constexpr (IS_F16<Wide>) {
        to_f16(type, x, low, high);
    } else {
        to_bf16(type, x, low, high);
    }
}

}  // namespace epilogue
