// The primitive operations on float and double.
//
//   math::            full accuracy; bounds as `epilogue::ops` documents them
//   math::approx11::  approximate instructions and short formulas without branches, with a relative error under 2^-15,
//                     of log and log2 beside an absolute one under 2^-21: for values that reach outputs of at most 11
//                     significant bits (f16) only, or where the user asks for fast mathematics
//   math::approx8::   the same, and tanh with 2^-10.9: at most 8 significant bits (bf16, 8-bit types)
//
// f_beside_one is shorter still, with an absolute error under 2^-18. It is for values that are only added to numbers
// near 1; a product with them may also be added to a number of its own size (expr/cuda/beside.rs finds these values).
// 1 + erf(x) must be exactly 0 far to the left, because GELU multiplies it by x.
//
// NVRTC declares `expf` and the other functions of CUDA's mathematical library itself: no header is needed. Its bounds
// are those of the CUDA C++ Programming Guide, "Mathematical Functions". The float sine and cosine are written out,
// because the library's reduce large arguments in local memory.
#pragma once

namespace epilogue::math {

__device__ __forceinline__ float abs(float x) { return fabsf(x); }
__device__ __forceinline__ double abs(double x) { return fabs(x); }
__device__ __forceinline__ float exp(float x) { return expf(x); }
__device__ __forceinline__ double exp(double x) { return ::exp(x); }
__device__ __forceinline__ float exp2(float x) { return exp2f(x); }
__device__ __forceinline__ double exp2(double x) { return ::exp2(x); }
__device__ __forceinline__ float log(float x) { return logf(x); }
__device__ __forceinline__ double log(double x) { return ::log(x); }
__device__ __forceinline__ float log2(float x) { return log2f(x); }
__device__ __forceinline__ double log2(double x) { return ::log2(x); }
__device__ __forceinline__ float log1p(float x) { return log1pf(x); }
__device__ __forceinline__ double log1p(double x) { return ::log1p(x); }
__device__ __forceinline__ float sqrt(float x) { return __fsqrt_rn(x); }
__device__ __forceinline__ double sqrt(double x) { return __dsqrt_rn(x); }
__device__ __forceinline__ float rsqrt(float x) { return rsqrtf(x); }
// Not ::rsqrt, which is the rsqrt.approx.f64 instruction: PTX ISA gives no bound for it.
__device__ __forceinline__ double rsqrt(double x) { return __drcp_rn(__dsqrt_rn(x)); }
__device__ __forceinline__ float recip(float x) { return __frcp_rn(x); }
__device__ __forceinline__ double recip(double x) { return __drcp_rn(x); }
__device__ __forceinline__ float tanh(float x) { return tanhf(x); }
__device__ __forceinline__ double tanh(double x) { return ::tanh(x); }
__device__ __forceinline__ float erf(float x) { return erff(x); }
__device__ __forceinline__ double erf(double x) { return ::erf(x); }
__device__ __forceinline__ float floor(float x) { return floorf(x); }
__device__ __forceinline__ double floor(double x) { return ::floor(x); }
__device__ __forceinline__ float ceil(float x) { return ceilf(x); }
__device__ __forceinline__ double ceil(double x) { return ::ceil(x); }
__device__ __forceinline__ float round(float x) { return roundf(x); }
__device__ __forceinline__ double round(double x) { return ::round(x); }
__device__ __forceinline__ float pow(float x, float y) { return powf(x, y); }
__device__ __forceinline__ double pow(double x, double y) { return ::pow(x, y); }
__device__ __forceinline__ float fma(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ __forceinline__ double fma(double x, double y, double z) { return __fma_rn(x, y, z); }

// NaN goes through, and -0 is below +0 (PTX ISA, "max", "min"; `.NaN` exists for 32 and 16 bits only).
__device__ __forceinline__ float max(float x, float y) {
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
__device__ __forceinline__ float min(float x, float y) {
    float z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
__device__ __forceinline__ double max(double x, double y) { return x != x || y != y ? x + y : ::fmax(x, y); }
__device__ __forceinline__ double min(double x, double y) { return x != x || y != y ? x + y : ::fmin(x, y); }

// ---- Integers -----------------------------------------------------------------------------------------------------

__device__ __forceinline__ int max(int x, int y) { return x > y ? x : y; }
__device__ __forceinline__ int min(int x, int y) { return x < y ? x : y; }
__device__ __forceinline__ long long max(long long x, long long y) { return x > y ? x : y; }
__device__ __forceinline__ long long min(long long x, long long y) { return x < y ? x : y; }

// Unsigned arithmetic wraps, where signed overflow is undefined.
__device__ __forceinline__ long long wrapping_add(long long x, long long y) {
    return static_cast<long long>(static_cast<unsigned long long>(x) + static_cast<unsigned long long>(y));
}
__device__ __forceinline__ long long wrapping_sub(long long x, long long y) {
    return static_cast<long long>(static_cast<unsigned long long>(x) - static_cast<unsigned long long>(y));
}
__device__ __forceinline__ long long wrapping_mul(long long x, long long y) {
    return static_cast<long long>(static_cast<unsigned long long>(x) * static_cast<unsigned long long>(y));
}
__device__ __forceinline__ long long wrapping_neg(long long x) { return wrapping_sub(0, x); }

// ---- Sine and cosine ----------------------------------------------------------------------------------------------

// x - q * pi/2 in [-pi/4, pi/4] for |x| >= 2^16 (Payne and Hanek 1983), without a table in memory: the product of x's
// 24 bits with 96 bits of 2/pi, of which only the part below 4 matters, is exact to 2^-62.
__device__ __forceinline__ float reduce_large(float x, int& quadrant) {
    // 2/pi = 0.(a2f9836e 4e441529 fc2757d1 f534ddc0 db629599 3c439041), base 2^32.
    constexpr unsigned int W0 = 0xa2f9836eu, W1 = 0x4e441529u, W2 = 0xfc2757d1u, W3 = 0xf534ddc0u, W4 = 0xdb629599u,
                           W5 = 0x3c439041u;
    const unsigned int bits = static_cast<unsigned int>(__float_as_int(x));
    const int exponent = static_cast<int>(bits >> 23 & 0xffu) - 127;
    const unsigned int significand = (bits << 8) | 0x80000000u;  // |x| = significand * 2^(exponent - 31)
    // Bits exponent - 32 to exponent + 63 of 2/pi: three words out of four neighbouring ones.
    const int word = (exponent + 31) >> 5, shift = (exponent + 31) & 31;  // word is 1 to 4
    const unsigned int w0 = word == 1 ? 0u : word == 2 ? W0 : word == 3 ? W1 : W2;
    const unsigned int w1 = word == 1 ? W0 : word == 2 ? W1 : word == 3 ? W2 : W3;
    const unsigned int w2 = word == 1 ? W1 : word == 2 ? W2 : word == 3 ? W3 : W4;
    const unsigned int w3 = word == 1 ? W2 : word == 2 ? W3 : word == 3 ? W4 : W5;
    const unsigned int high = __funnelshift_l(w1, w0, shift);
    const unsigned int middle = __funnelshift_l(w2, w1, shift);
    const unsigned int low = __funnelshift_l(w3, w2, shift);
    unsigned long long product = static_cast<unsigned long long>(significand) * low >> 32;
    product += static_cast<unsigned long long>(significand) * middle;
    product += static_cast<unsigned long long>(significand * high) << 32;
    // The two top bits are the quadrant; the rest, as a signed number, the distance to the nearest multiple of pi/2.
    const long long rest = static_cast<long long>(product << 2) >> 2;
    quadrant = static_cast<int>(product >> 62) + (rest < 0 ? 1 : 0);
    const float r = static_cast<float>(static_cast<double>(rest) * 0x1.921fb54442d18p-62);
    if (x < 0.0f) quadrant = -quadrant;
    return x < 0.0f ? -r : r;
}

// x - quadrant * pi/2 in about [-pi/4, pi/4].
__device__ __forceinline__ float reduce_angle(float x, int& quadrant) {
    // pi/2 in three parts (Cody and Waite), all positive so that -0 stays -0; the first product is subtracted exactly.
    const float turns = __fmaf_rn(x, 0x1.45f306p-1f, 12582912.0f);  // 1.5 * 2^23: rounds to an integer
    const float q = __fadd_rn(turns, -12582912.0f);
    float r = __fmaf_rn(q, -0x1.921fb4p+0f, x);
    r = __fmaf_rn(q, -0x1.4442d0p-24f, r);
    r = __fmaf_rn(q, -0x1.84698ap-48f, r);
    quadrant = __float_as_int(turns);  // its low bits; 12582912 is a multiple of 4
    if (fabsf(x) >= 65536.0f) {
        const bool finite = fabsf(x) < __int_as_float(0x7f800000);
        r = finite ? reduce_large(x, quadrant) : __int_as_float(0x7fffffff);
    }
    return r;
}

// sin(r + quadrant * pi/2); minimax polynomials, relative error 2^-28 (sine) and 2^-30 (cosine).
__device__ __forceinline__ float sine_of_quadrant(float r, int quadrant) {
    const float z = __fmul_rn(r, r);
    float s = __fmaf_rn(0x1.6da31ep-19f, z, -0x1.a01354p-13f);
    s = __fmaf_rn(s, z, 0x1.11110ep-7f);
    s = __fmaf_rn(s, z, -0x1.555556p-3f);
    s = __fmaf_rn(s, __fmaf_rn(r, z, 0.0f), r);  // the `+ 0` keeps sin(-0) = -0
    float c = __fmaf_rn(-0x1.251256p-22f, z, 0x1.a0158cp-16f);
    c = __fmaf_rn(c, z, -0x1.6c16c0p-10f);
    c = __fmaf_rn(c, z, 0x1.555556p-5f);
    c = __fmaf_rn(c, z, -0.5f);
    c = __fmaf_rn(c, z, 1.0f);
    const float y = quadrant & 1 ? c : s;
    return quadrant & 2 ? -y : y;
}

__device__ __forceinline__ float sin(float x) {
    int quadrant;
    const float r = reduce_angle(x, quadrant);
    return sine_of_quadrant(r, quadrant);
}
__device__ __forceinline__ float cos(float x) {
    int quadrant;
    const float r = reduce_angle(x, quadrant);
    return sine_of_quadrant(r, quadrant + 1);
}
__device__ __forceinline__ double sin(double x) { return ::sin(x); }
__device__ __forceinline__ double cos(double x) { return ::cos(x); }

// ---- Approximate instructions (float only) ------------------------------------------------------------------------

namespace approx11 {
using namespace math;

// ex2.approx.ftz.f32: 2 ULP, and 0 for a subnormal result. Without .ftz it is four instructions.
__device__ __forceinline__ float exp2_beside_one(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// The error grows with |x|, to 2^-17 where the result over- or underflows.
__device__ __forceinline__ float exp_beside_one(float x) { return exp2_beside_one(x * 0x1.715476p+0f); }
// The square of a power of half the exponent, which is never subnormal: so a subnormal result is rounded, by the product.
__device__ __forceinline__ float exp2(float x) {
    const float root = exp2_beside_one(0.5f * x);
    return root * root;
}
__device__ __forceinline__ float exp(float x) {
    const float root = exp2_beside_one(x * 0x1.715476p-1f);
    return root * root;
}
// sqrt.approx.f32: 2^-23 relative.
__device__ __forceinline__ float sqrt(float x) {
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// rcp.approx.f32: 1 ULP.
__device__ __forceinline__ float recip(float x) {
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// 1 / (one + y) for one >= 1 and y >= 0, by rcp.approx.ftz.f32: 1 ULP. Scaled by 2^64, its argument and its result are
// never subnormal where they count, and any others without .ftz are seven instructions.
__device__ __forceinline__ float recip_of_sum(float one, float y) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(__fmaf_rn(y, 0x1.0p-64f, one * 0x1.0p-64f)));
    return r * 0x1.0p-64f;
}
// lg2.approx.f32: 2^-22, absolute between 1/2 and 2 and relative elsewhere.
__device__ __forceinline__ float log2(float x) {
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float log(float x) { return approx11::log2(x) * 0x1.62e430p-1f; }
// log(1 + x), whose relative error is under 2^-16 everywhere: near 0, where 1 + x has lost the digits of x, three terms of
// the series. The sum is never subnormal, so .ftz changes nothing.
__device__ __forceinline__ float log1p(float x) {
    float p = 0x1.555556p-2f;
    p = __fmaf_rn(p, x, -0.5f);
    p = __fmaf_rn(p, x, 1.0f);
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + x));
    return fabsf(x) < 0x1.0p-5f ? x * p : y * 0x1.62e430p-1f;
}
// copysign(1 - 2 / (1 + exp(2 |x|)), x). Both instructions' arguments are at least 1, where .ftz changes nothing: an
// infinite exponential gives 0, as it should.
__device__ __forceinline__ float tanh_beside_one(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + exp2_beside_one(fabsf(x) * 0x1.715476p+1f)));
    return copysignf(__fmaf_rn(-2.0f, y, 1.0f), x);
}
// Near 0, where that has lost the digits of x, x itself: tanh(x) = x (1 - x^2 / 3 ...).
__device__ __forceinline__ float tanh(float x) { return fabsf(x) < 0x1.ap-8f ? x : approx11::tanh_beside_one(x); }
// copysign(1 - 2^(-z P(z)), x), z = min(|x|, 4): 1 - erf is 2^(-z P(z)) with a relative error under 2^-14 everywhere,
// so that 1 + erf(x) of a large negative x, as in GELU, keeps most of its bits; from 3.92 on the difference is 1. P is the
// polynomial of degree 5 whose largest relative error of erf is the least, 2^-18 (2^-14 of 1 - erf where that is less
// than a sixteenth).
__device__ __forceinline__ float erf_beside_one(float x) {
    float z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(fabsf(x)), "f"(4.0f));
    float p = 0x1.f126ccp-13f;
    p = __fmaf_rn(p, z, -0x1.0a429ep-8f);
    p = __fmaf_rn(p, z, 0x1.00dd0cp-5f);
    p = __fmaf_rn(p, z, -0x1.32b464p-3f);
    p = __fmaf_rn(p, z, -0x1.d6255ap-1f);
    p = __fmaf_rn(p, z, -0x1.a0bea2p+0f);
    return copysignf(1.0f - exp2_beside_one(p * z), x);
}
// Near 0 the first term of the series: erf(x) = 2 / sqrt(pi) x (1 - x^2 / 3 ...).
__device__ __forceinline__ float erf(float x) {
    const float near_0 = x * 0x1.20dd76p+0f, beside_one = approx11::erf_beside_one(x);
    return fabsf(x) < 0x1.ap-8f ? near_0 : beside_one;
}
// div.full.f32: 2 ULP over the whole range, without the slow path of div.rn.
__device__ __forceinline__ float div(float x, float y) {
    float z;
    asm("div.full.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
}  // namespace approx11

namespace approx8 {
using namespace approx11;

// tanh.approx.f32: 2^-10.987 relative.
__device__ __forceinline__ float tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
}  // namespace approx8

}  // namespace epilogue::math
