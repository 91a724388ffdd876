// Integer arithmetic as tensor expressions define it: sums and products wrap, quotients round down, and numbers with a
// fraction are cut toward zero. Divisors are not zero: status.cuh has what tests them.
//
// Indices don't need this: they are computed with the language's own operators.
#pragma once

namespace epilogue::te {

// ---- Wrapping sums and products: signed overflow is undefined in C++, unsigned overflow is not. ----
__device__ __forceinline__ int add(int x, int y) {
    return static_cast<int>(static_cast<unsigned int>(x) + static_cast<unsigned int>(y));
}
__device__ __forceinline__ int sub(int x, int y) {
    return static_cast<int>(static_cast<unsigned int>(x) - static_cast<unsigned int>(y));
}
__device__ __forceinline__ int mul(int x, int y) {
    return static_cast<int>(static_cast<unsigned int>(x) * static_cast<unsigned int>(y));
}
__device__ __forceinline__ long long add(long long x, long long y) {
    return static_cast<long long>(static_cast<unsigned long long>(x) + static_cast<unsigned long long>(y));
}
__device__ __forceinline__ long long sub(long long x, long long y) {
    return static_cast<long long>(static_cast<unsigned long long>(x) - static_cast<unsigned long long>(y));
}
__device__ __forceinline__ long long mul(long long x, long long y) {
    return static_cast<long long>(static_cast<unsigned long long>(x) * static_cast<unsigned long long>(y));
}

// ---- Division, rounding down ----
template <typename Int>
__device__ __forceinline__ Int floor_quotient(Int x, Int y) {
    if (y == -1) return sub(Int(0), x);  // the least integer has no positive counterpart
    const Int quotient = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}
template <typename Int>
__device__ __forceinline__ Int floor_remainder(Int x, Int y) {
    if (y == -1) return 0;
    const Int remainder = x % y;
    return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}
__device__ __forceinline__ int floor_div(int x, int y) { return floor_quotient(x, y); }
__device__ __forceinline__ int floor_mod(int x, int y) { return floor_remainder(x, y); }
__device__ __forceinline__ long long floor_div(long long x, long long y) { return floor_quotient(x, y); }
__device__ __forceinline__ long long floor_mod(long long x, long long y) { return floor_remainder(x, y); }

__device__ __forceinline__ int least(int x, int y) { return x < y ? x : y; }
__device__ __forceinline__ int greatest(int x, int y) { return x > y ? x : y; }
__device__ __forceinline__ long long least(long long x, long long y) { return x < y ? x : y; }
__device__ __forceinline__ long long greatest(long long x, long long y) { return x > y ? x : y; }

// ---- Shifts: by a negative number of places, or by as many as there are bits, nothing is left but the sign. ----
__device__ __forceinline__ int shift_left(int x, int by) {
    return static_cast<unsigned int>(by) < 32u ? static_cast<int>(static_cast<unsigned int>(x) << by) : 0;
}
__device__ __forceinline__ long long shift_left(long long x, long long by) {
    const unsigned long long bits = static_cast<unsigned long long>(x);
    return static_cast<unsigned long long>(by) < 64u ? static_cast<long long>(bits << by) : 0;
}
__device__ __forceinline__ int shift_right(int x, int by) { return x >> (static_cast<unsigned int>(by) < 32u ? by : 31); }
__device__ __forceinline__ long long shift_right(long long x, long long by) {
    return x >> (static_cast<unsigned long long>(by) < 64u ? by : 63);
}
__device__ __forceinline__ long long shift_right_unsigned(long long x, long long by) {
    const unsigned long long bits = static_cast<unsigned long long>(x);
    return static_cast<unsigned long long>(by) < 64u ? static_cast<long long>(bits >> by) : 0;
}

// ---- Numbers cut toward zero; what is out of range becomes the nearest integer of the type, NaN 0. ----
// PTX converts NaN to 0 only where neither type has 64 bits (PTX ISA, "cvt"), hence the tests.
__device__ __forceinline__ int truncate_i32(float x) { return __float2int_rz(x); }
__device__ __forceinline__ int truncate_i32(double x) { return x != x ? 0 : __double2int_rz(x); }
__device__ __forceinline__ long long truncate_i64(float x) { return x != x ? 0 : __float2ll_rz(x); }
__device__ __forceinline__ long long truncate_i64(double x) { return x != x ? 0 : __double2ll_rz(x); }
template <typename Real>
__device__ __forceinline__ int truncate_i8(Real x) {
    return greatest(-128, least(127, truncate_i32(x)));
}
template <typename Real>
__device__ __forceinline__ int truncate_u8(Real x) {
    return greatest(0, least(255, truncate_i32(x)));
}
template <typename Real>
__device__ __forceinline__ int truncate_i16(Real x) {
    return greatest(-32768, least(32767, truncate_i32(x)));
}
template <typename Real>
__device__ __forceinline__ int truncate_u16(Real x) {
    return greatest(0, least(65535, truncate_i32(x)));
}
template <typename Real>
__device__ __forceinline__ long long truncate_u32(Real x) {
    return greatest(0ll, least(4294967295ll, truncate_i64(x)));
}

}  // namespace epilogue::te
