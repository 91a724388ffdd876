// An epilogue's arguments in global memory, and how a lane reads and writes a few neighbouring columns of them.
//
// Strides are in elements and may be anything. The host sets `vectorised` if columns are contiguous and every row
// begins at a multiple of the access width. Elements outside of the matrix are not touched; reads give 0.
#pragma once
#include "pack.cuh"
#include "ptx.cuh"

namespace epilogue {

// M×N values, L times; a batch stride of 0 shares them.
template <typename T>
struct TensorView {
#include "TensorView.fields"
};

// One value per row or per column, L times.
template <typename T>
struct VectorView {
#include "VectorView.fields"
};

// One value, L times.
template <typename T>
struct ScalarView {
#include "ScalarView.fields"
};

// The values of columns n..n+V of row m.
template <int V, typename T>
__device__ __forceinline__ Pack<T, V> load(const TensorView<T>& view, int batch, int m, int n, int rows, int columns) {
    Pack<T, V> x;
    const T* const first = view.pointer + (batch * view.batch + m * view.row + n * view.column);
    if (view.vectorised && m < rows && n + V <= columns) {
        x = *reinterpret_cast<const Pack<T, V>*>(first);
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            x.value[v] = T{};
            if (m < rows && n + v < columns) x.value[v] = first[v * view.column];
        }
    }
    return x;
}

// Writes columns n..n+V of row m.
template <int V, typename T>
__device__ __forceinline__ void store(const TensorView<T>& view, const Pack<T, V>& x, int batch, int m, int n, int rows,
                                      int columns) {
    T* const first = view.pointer + (batch * view.batch + m * view.row + n * view.column);
    if (view.vectorised && m < rows && n + V <= columns) {
        *reinterpret_cast<Pack<T, V>*>(first) = x;
    } else {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (m < rows && n + v < columns) first[v * view.column] = x.value[v];
        }
    }
}

// Entry i of a vector of `length`.
template <typename T>
__device__ __forceinline__ T load(const VectorView<T>& view, int batch, int i, int length) {
    return i < length ? view.pointer[batch * view.batch + i * view.stride] : T{};
}

template <typename T>
__device__ __forceinline__ void store(const VectorView<T>& view, T x, int batch, int i, int length) {
    if (i < length) view.pointer[batch * view.batch + i * view.stride] = x;
}

template <typename T>
__device__ __forceinline__ T load(const ScalarView<T>& view, int batch) {
    return view.pointer[batch * view.batch];
}

template <typename T>
__device__ __forceinline__ void store(const ScalarView<T>& view, T x, int batch) {
    view.pointer[batch * view.batch] = x;
}

}  // namespace epilogue
