// Matrices and vectors of an epilogue whose rows or columns are counted by two digits (a nested mode): index i is upper
// * extent + lower, and each digit has a stride. Heads that lie apart are thus the columns of one matrix.
//
// All accesses are overloads, so only the type of the field differs in a kernel, and kernels without digits keep their
// text. The host gives the reciprocals of extents that the divisions need (kernel/formula.rs).
#pragma once
#include "views.cuh"

namespace epilogue {

// An axis of two digits. The host has a reciprocal: no division is needed for any index below 2^31.
struct DigitAxis {
#include "DigitAxis.fields"

    // The upper digit of an index; what is left is the lower one.
    __device__ __forceinline__ u32 high(u32 index) const {
        return static_cast<u32>(static_cast<u64>(index) * magic >> shift);
    }
    __device__ __forceinline__ u32 low(u32 index, u32 high) const { return index - high * static_cast<u32>(extent); }

    __device__ __forceinline__ index_t offset(int i) const {
        const u32 index = static_cast<u32>(i);
        const u32 h = high(index);
        return static_cast<index_t>(h) * upper + static_cast<index_t>(low(index, h)) * lower;
    }
};

// M×N values, L times. `vectorised`: columns are contiguous and every row begins at a multiple of the access width, and so
// does every value of the upper digit.
template <typename T>
struct DigitsView {
#include "DigitsView.fields"
};

// One value per row or per column, L times.
template <typename T>
struct DigitsVectorView {
#include "DigitsVectorView.fields"
};

// The values of columns n..n+V of row m; n is a multiple of V.
template <int V, typename T>
__device__ __forceinline__ Pack<T, V> load(const DigitsView<T>& view, int batch, int m, int n, int rows, int columns) {
    Pack<T, V> x;
    const T* const row = view.pointer + (batch * view.batch + view.rows.offset(m));
    if (view.vectorised && m < rows && n + V <= columns) {
        x = *reinterpret_cast<const Pack<T, V>*>(row + view.columns.offset(n));
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            x.value[v] = T{};
            if (m < rows && n + v < columns) x.value[v] = row[view.columns.offset(n + v)];
        }
    }
    return x;
}

// Writes columns n..n+V of row m; n is a multiple of V.
template <int V, typename T>
__device__ __forceinline__ void store(const DigitsView<T>& view, const Pack<T, V>& x, int batch, int m, int n, int rows,
                                      int columns) {
    T* const row = view.pointer + (batch * view.batch + view.rows.offset(m));
    if (view.vectorised && m < rows && n + V <= columns) {
        *reinterpret_cast<Pack<T, V>*>(row + view.columns.offset(n)) = x;
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (m < rows && n + v < columns) row[view.columns.offset(n + v)] = x.value[v];
        }
    }
}

// Entry i of a vector of `length`.
template <typename T>
__device__ __forceinline__ T load(const DigitsVectorView<T>& view, int batch, int i, int length) {
    return i < length ? view.pointer[batch * view.batch + view.axis.offset(i)] : T{};
}

template <typename T>
__device__ __forceinline__ void store(const DigitsVectorView<T>& view, T x, int batch, int i, int length) {
    if (i < length) view.pointer[batch * view.batch + view.axis.offset(i)] = x;
}

// The address of a byte of truth values, eight columns each.
template <typename T>
__device__ __forceinline__ T* byte_at(const DigitsView<T>& view, int batch, int m, int byte) {
    return view.pointer + (batch * view.batch + view.rows.offset(m) + view.columns.offset(byte));
}

}  // namespace epilogue
