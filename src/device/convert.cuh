// Element types in memory, and their conversion to and from the arithmetic type (float or double).
//
//   widen<Real>(x)      exact, but for i32 and i64 (and f64 in float arithmetic): rounded to nearest even
//   narrow<T>(x)        rounded once, to nearest even; fp8 and integers saturate (infinities too); NaN as an integer is 0
//                       Real: also an integer type, of elements that are integers, and bool, of truth values
//   math::round_T(x)    narrow, then widen
//
// The names are those of Rust. Nothing here needs a toolkit header. 8-bit floats are converted by instruction from
// sm_89 up (PTX ISA, "cvt") and by integer arithmetic below.
#pragma once

namespace epilogue {

struct f16 {
    unsigned short bits;
};
struct bf16 {
    unsigned short bits;
};
struct f8e4m3 {
    unsigned char bits;
};
struct f8e5m2 {
    unsigned char bits;
};
// A truth value in memory: not C++'s bool, of which every byte but 0 and 1 is undefined.
struct boolean {
    unsigned char bits;
};
using f64 = double;
using f32 = float;
using i64 = long long;
using i32 = int;
using i8 = signed char;
using u8 = unsigned char;

namespace convert {

// double to float, with the last bit set where anything was lost ("round to odd"): rounding the result again to at most
// 22 bits is then the same as rounding the double once (Boldo and Melquiond 2008).
__device__ __forceinline__ float to_odd(double x) {
    const float toward_zero = __double2float_rz(x);
    const bool inexact = static_cast<double>(toward_zero) != x && x == x;
    return inexact ? __int_as_float(__float_as_int(toward_zero) | 1) : toward_zero;
}
__device__ __forceinline__ float to_odd(float x) { return x; }

// ---- f16 ----
__device__ __forceinline__ float to_float(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ __forceinline__ f16 to_f16(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

// ---- bf16: the upper half of a float ----
__device__ __forceinline__ float to_float(bf16 x) { return __int_as_float(static_cast<int>(x.bits) << 16); }
__device__ __forceinline__ bf16 to_bf16(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

// ---- 8-bit floats ----

// Rounds a float that is not negative to a format of MANTISSA stored bits and the given exponent bias, as its bits
// without sign; `largest` is both the largest finite value and where saturation begins.
template <int MANTISSA, int BIAS>
__device__ __forceinline__ unsigned int to_small_float(float x, float largest, unsigned int largest_bits) {
    // Below the smallest normal value the result counts multiples of 2^(1 - BIAS - MANTISSA). Adding 2^23 of them to x
    // rounds x to such a multiple and leaves the count in the sum's low bits.
    constexpr int SHIFT = 23 - MANTISSA;
    const float smallest_normal = __int_as_float((127 + 1 - BIAS) << 23);
    if (x < smallest_normal) {
        const int magic = (127 + 1 - BIAS + SHIFT) << 23;
        return static_cast<unsigned int>(__float_as_int(__fadd_rn(x, __int_as_float(magic))) - magic);
    }
    if (x >= largest) return largest_bits;
    const unsigned int bits = static_cast<unsigned int>(__float_as_int(x));
    const unsigned int rounded = bits + ((1u << (SHIFT - 1)) - 1) + (bits >> SHIFT & 1);
    const unsigned int result = (rounded >> SHIFT) - ((127u - BIAS) << MANTISSA);
    return result < largest_bits ? result : largest_bits;
}

__device__ __forceinline__ f8e4m3 to_f8e4m3(float x) {
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return {static_cast<unsigned char>(pair)};
#else
    const unsigned int sign = static_cast<unsigned int>(__float_as_int(x)) >> 24 & 0x80u;
    const unsigned int magnitude = x != x ? 0x7fu : to_small_float<3, 7>(fabsf(x), 448.0f, 0x7eu);
    return {static_cast<unsigned char>((x != x ? 0u : sign) | magnitude)};
#endif
}

__device__ __forceinline__ f8e5m2 to_f8e5m2(float x) {
#if __CUDA_ARCH__ >= 890
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return {static_cast<unsigned char>(pair)};
#else
    const unsigned int sign = static_cast<unsigned int>(__float_as_int(x)) >> 24 & 0x80u;
    const unsigned int magnitude = x != x ? 0x7fu : to_small_float<2, 15>(fabsf(x), 57344.0f, 0x7bu);
    return {static_cast<unsigned char>((x != x ? 0u : sign) | magnitude)};
#endif
}

// e4m3's exponent and mantissa, moved to where a float has its own, are the value times 2^-120.
__device__ __forceinline__ float to_float(f8e4m3 x) {
    const int magnitude = x.bits & 0x7f;
    const float value = __fmul_rn(__int_as_float(magnitude << 20), __int_as_float((127 + 120) << 23));
    const float result = magnitude == 0x7f ? __int_as_float(0x7fffffff) : value;
    return __int_as_float(__float_as_int(result) | (x.bits & 0x80) << 24);
}

// e5m2 is the upper half of an f16.
__device__ __forceinline__ float to_float(f8e5m2 x) {
    return to_float(f16{static_cast<unsigned short>(static_cast<unsigned short>(x.bits) << 8)});
}

// ---- Integers ----

// PTX converts NaN to 0 only where neither type has 64 bits (PTX ISA, "cvt"), hence the tests.
__device__ __forceinline__ int to_int(float x) { return __float2int_rn(x); }
__device__ __forceinline__ int to_int(double x) { return x != x ? 0 : __double2int_rn(x); }
__device__ __forceinline__ long long to_long(float x) { return x != x ? 0 : __float2ll_rn(x); }
__device__ __forceinline__ long long to_long(double x) { return x != x ? 0 : __double2ll_rn(x); }
// Integers that are stored as they are, or as the nearest value of their type.
__device__ __forceinline__ int to_int(int x) { return x; }
__device__ __forceinline__ int to_int(long long x) {
    return x < -2147483648ll ? -2147483647 - 1 : x > 2147483647ll ? 2147483647 : static_cast<int>(x);
}
__device__ __forceinline__ long long to_long(int x) { return x; }
__device__ __forceinline__ long long to_long(long long x) { return x; }
__device__ __forceinline__ int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

template <typename T>
struct To;
template <>
struct To<f64> {
    template <typename Real>
    static __device__ __forceinline__ f64 from(Real x) {
        return x;
    }
};
template <>
struct To<f32> {
    template <typename Real>
    static __device__ __forceinline__ f32 from(Real x) {
        return static_cast<f32>(x);
    }
};
template <>
struct To<f16> {
    static __device__ __forceinline__ f16 from(float x) { return to_f16(x); }
    static __device__ __forceinline__ f16 from(double x) { return to_f16(to_odd(x)); }
};
template <>
struct To<bf16> {
    template <typename Real>
    static __device__ __forceinline__ bf16 from(Real x) {
        return to_bf16(to_odd(x));
    }
};
template <>
struct To<f8e4m3> {
    template <typename Real>
    static __device__ __forceinline__ f8e4m3 from(Real x) {
        return to_f8e4m3(to_odd(x));
    }
};
template <>
struct To<f8e5m2> {
    template <typename Real>
    static __device__ __forceinline__ f8e5m2 from(Real x) {
        return to_f8e5m2(to_odd(x));
    }
};
template <>
struct To<i64> {
    template <typename Real>
    static __device__ __forceinline__ i64 from(Real x) {
        return to_long(x);
    }
};
template <>
struct To<i32> {
    template <typename Real>
    static __device__ __forceinline__ i32 from(Real x) {
        return to_int(x);
    }
};
template <>
struct To<i8> {
    template <typename Real>
    static __device__ __forceinline__ i8 from(Real x) {
        return static_cast<i8>(clamp(to_int(x), -128, 127));
    }
};
template <>
struct To<u8> {
    template <typename Real>
    static __device__ __forceinline__ u8 from(Real x) {
        return static_cast<u8>(clamp(to_int(x), 0, 255));
    }
};

template <>
struct To<boolean> {
    static __device__ __forceinline__ boolean from(bool x) { return {static_cast<unsigned char>(x)}; }
};

__device__ __forceinline__ double to_number(f64 x) { return x; }
__device__ __forceinline__ float to_number(f32 x) { return x; }
__device__ __forceinline__ float to_number(f16 x) { return to_float(x); }
__device__ __forceinline__ float to_number(bf16 x) { return to_float(x); }
__device__ __forceinline__ float to_number(f8e4m3 x) { return to_float(x); }
__device__ __forceinline__ float to_number(f8e5m2 x) { return to_float(x); }
__device__ __forceinline__ i64 to_number(i64 x) { return x; }
__device__ __forceinline__ i32 to_number(i32 x) { return x; }
__device__ __forceinline__ i32 to_number(i8 x) { return x; }
__device__ __forceinline__ i32 to_number(u8 x) { return x; }
__device__ __forceinline__ bool to_number(boolean x) { return x.bits != 0; }

}  // namespace convert

// An element as a number of the arithmetic type, as an integer, or as a truth value.
template <typename Real, typename T>
__device__ __forceinline__ Real widen(T x) {
    return static_cast<Real>(convert::to_number(x));
}

// A number of the arithmetic type, an integer or a truth value as an element.
template <typename T, typename Real>
__device__ __forceinline__ T narrow(Real x) {
    return convert::To<T>::from(x);
}

// Rounding to an element type and back: the language's `x.cast::<T>()`.
namespace math {

template <typename Real> __device__ __forceinline__ Real round_f64(Real x) { return widen<Real>(narrow<f64>(x)); }
template <typename Real> __device__ __forceinline__ Real round_f32(Real x) { return widen<Real>(narrow<f32>(x)); }
template <typename Real> __device__ __forceinline__ Real round_f16(Real x) { return widen<Real>(narrow<f16>(x)); }
template <typename Real> __device__ __forceinline__ Real round_bf16(Real x) { return widen<Real>(narrow<bf16>(x)); }
template <typename Real> __device__ __forceinline__ Real round_f8e4m3(Real x) { return widen<Real>(narrow<f8e4m3>(x)); }
template <typename Real> __device__ __forceinline__ Real round_f8e5m2(Real x) { return widen<Real>(narrow<f8e5m2>(x)); }
template <typename Real> __device__ __forceinline__ Real round_i64(Real x) { return widen<Real>(narrow<i64>(x)); }
template <typename Real> __device__ __forceinline__ Real round_i32(Real x) { return widen<Real>(narrow<i32>(x)); }
template <typename Real> __device__ __forceinline__ Real round_i8(Real x) { return widen<Real>(narrow<i8>(x)); }
template <typename Real> __device__ __forceinline__ Real round_u8(Real x) { return widen<Real>(narrow<u8>(x)); }

}  // namespace math

}  // namespace epilogue
