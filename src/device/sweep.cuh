// Sweeps: walks over the elements of a tile. There is one, or, if the tile has whole lines, one for each phase that is
// computed from their reductions. A visitor's functions take the number of the sweep.
//
// A value that crosses from one sweep to the next takes the place of an accumulator: as it is, or as its bits if its
// type differs.
#pragma once
#include "convert.cuh"

namespace epilogue {

template <int NUMBER>
struct Sweep {};

template <typename Register, typename T>
struct InRegister {
    static_assert(sizeof(T) <= sizeof(Register));
    union Bits {
        Register whole;
        T part;
    };
    static __device__ __forceinline__ Register put(T x) {
        Bits bits;
        bits.whole = Register(0);
        bits.part = x;
        return bits.whole;
    }
    static __device__ __forceinline__ T get(Register x) {
        Bits bits;
        bits.whole = x;
        return bits.part;
    }
};
template <typename T>
struct InRegister<T, T> {
    static __device__ __forceinline__ T put(T x) { return x; }
    static __device__ __forceinline__ T get(T x) { return x; }
};
template <typename Register>
struct InRegister<Register, bool> {
    static __device__ __forceinline__ Register put(bool x) { return Register(x); }
    static __device__ __forceinline__ bool get(Register x) { return x != Register(0); }
};

template <typename Register, typename T>
__device__ __forceinline__ Register to_register(T x) {
    return InRegister<Register, T>::put(x);
}
template <typename T, typename Register>
__device__ __forceinline__ T from_register(Register x) {
    return InRegister<Register, T>::get(x);
}

}  // namespace epilogue
