// Argmax and argmin: a value with the index of its element, reduced like any other.
//
// If values are equal, the least index wins (+0 and -0 are equal here); a NaN wins over every number. Operands can
// therefore be exchanged without a bit changing. The greatest integer stands for no element; no element has this index.
#pragma once
#include "collective.cuh"
#include "convert.cuh"

namespace epilogue {

template <typename V, typename I>
struct Indexed {
    static_assert(sizeof(V) == sizeof(I), "copies read no byte that nobody writes");
    V value;
    I index;
};

// A shuffle for each.
template <typename V, typename I>
__device__ __forceinline__ Indexed<V, I> shuffle_xor(u32 mask, Indexed<V, I> x, int bits, int width = 32) {
    return {shuffle_xor(mask, x.value, bits, width), shuffle_xor(mask, x.index, bits, width)};
}

// What is stored is the index, or -1 of nothing.
template <typename T, typename V, typename I>
__device__ __forceinline__ T narrow(Indexed<V, I> x) {
    return narrow<T>(x.index == Ends<I>::greatest() ? I(-1) : x.index);
}

namespace indexed {
template <typename T> struct Parts;
template <typename V, typename I> struct Parts<Indexed<V, I>> {
    using Value = V;
    using Index = I;
};

// Of two, the one whose value is `beyond` the other's.
template <typename T>
__device__ __forceinline__ T chosen(T x, T y, bool beyond) {
    const bool x_nan = x.value != x.value, y_nan = y.value != y.value;
    const bool same = x_nan ? y_nan : y.value == x.value;
    const bool takes = same ? y.index < x.index : !x_nan && (y_nan || beyond);
    return {takes ? y.value : x.value, takes ? y.index : x.index};
}
}  // namespace indexed

struct ReduceArgMax {
    template <typename T> static __device__ __forceinline__ T identity() {
        using Parts = indexed::Parts<T>;
        return {Ends<typename Parts::Value>::least(), Ends<typename Parts::Index>::greatest()};
    }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) {
        return indexed::chosen(x, y, y.value > x.value);
    }
};
struct ReduceArgMin {
    template <typename T> static __device__ __forceinline__ T identity() {
        using Parts = indexed::Parts<T>;
        return {Ends<typename Parts::Value>::greatest(), Ends<typename Parts::Index>::greatest()};
    }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) {
        return indexed::chosen(x, y, y.value < x.value);
    }
};

}  // namespace epilogue
