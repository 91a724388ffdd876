// How kernels of automatic schedules walk over elements: index arithmetic, and reads of several neighbours at once.
#pragma once
#include "../convert.cuh"
#include "../pack.cuh"
#include "../ptx.cuh"

namespace epilogue::te {

// Division of n < 2^31 by a number that the host knows (Granlund and Montgomery 1994): multiplier is
// floor(2^(31 + s) / d) + 1 and shift 31 + s, where s = ceil(log2(d)).
struct Divider {
    u32 multiplier, shift;

    __device__ __forceinline__ u32 quotient(u32 n) const {
        return static_cast<u32>(static_cast<u64>(n) * multiplier >> shift);
    }
};

// How an array's elements lie along the axis of which V are read at once: one for all V, side by side and aligned, or
// any distance apart.
enum class Access { One, Packed, Strided };

// Which of several neighbours exist: from `begin` up to `end`.
struct Valid {
    int begin, end;

    __device__ __forceinline__ Valid(int end) : begin(0), end(end) {}
    __device__ __forceinline__ Valid(int begin, int end) : begin(begin), end(end) {}

    __device__ __forceinline__ bool has(int v) const { return v >= begin && v < end; }
};

// The elements at `first`, `first + stride`, …, of which those of `valid` exist; FULL says that all V do.
template <int V, Access ACCESS, bool FULL, typename T>
__device__ __forceinline__ Pack<T, V> read(const T* first, index_t stride, Valid valid) {
    Pack<T, V> x;
    if constexpr (ACCESS == Access::One) {
        const T element = *first;
#pragma unroll
        for (int v = 0; v < V; ++v) x.value[v] = element;
    } else if constexpr (ACCESS == Access::Packed && FULL) {
        x = *reinterpret_cast<const Pack<T, V>*>(first);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            x.value[v] = T{};
            if (FULL || valid.has(v)) x.value[v] = first[ACCESS == Access::Packed ? v : v * stride];
        }
    }
    return x;
}

// Element v of some, in f32. Two bf16 are taken out of the word that they are in: an instruction each.
template <typename T, int V>
__device__ __forceinline__ float widened(const Pack<T, V>& x, int v) {
    return widen<float>(x.value[v]);
}
template <int V>
__device__ __forceinline__ float widened(const Pack<bf16, V>& x, int v) {
    if constexpr (V % 2 != 0) {
        return widen<float>(x.value[v]);
    } else {
        const u32 two = reinterpret_cast<const u32*>(x.value)[v / 2];
        return __uint_as_float(v % 2 ? two & 0xffff0000u : two << 16);
    }
}

}  // namespace epilogue::te
