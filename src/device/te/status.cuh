// Accesses and divisions that data may make impossible: they are noted in the device's record, and give 0.
#pragma once
#include "../status.cuh"
#include "arithmetic.cuh"

namespace epilogue::te {

// Whether an index is one of `extent`; notes it if not.
__device__ __forceinline__ bool inside(long long index, long long extent, unsigned int site) {
    if (index >= 0 && index < extent) return true;
    fail(site, index, extent);
    return false;
}

// An element, or 0 where there is none.
template <typename T>
__device__ __forceinline__ T read_inside(const T* from, long long index, long long count, unsigned int site) {
    if (inside(index, count, site)) return from[index];
    return T{};
}

// Divisions by what may be zero.
template <typename Int>
__device__ __forceinline__ Int floor_div_or_fail(Int x, Int y, unsigned int site) {
    if (y != 0) return floor_div(x, y);
    fail(site, 0, 0);
    return 0;
}
template <typename Int>
__device__ __forceinline__ Int floor_mod_or_fail(Int x, Int y, unsigned int site) {
    if (y != 0) return floor_mod(x, y);
    fail(site, 0, 0);
    return 0;
}

}  // namespace epilogue::te
