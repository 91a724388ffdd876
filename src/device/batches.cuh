// Arguments whose batches are counted by two digits: batch b is upper * extent + lower, and the digits have a stride each. So the
// mask of a sentence is that of all its heads.
#pragma once
#include "digits.cuh"

namespace epilogue {

// `view` is that of the first batch; its own batch stride is 0.
template <class View>
struct OfBatches {
    View view;
#include "OfBatches.fields"

    // The view of a batch, which is the same for any batch.
    __device__ __forceinline__ View of(int batch) const {
        View x = view;
        x.pointer += batches.offset(batch);
        return x;
    }
};

template <typename T>
struct BatchesTensorView : OfBatches<TensorView<T>> {};
template <typename T>
struct BatchesDigitsView : OfBatches<DigitsView<T>> {};
template <typename T>
struct BatchesVectorView : OfBatches<VectorView<T>> {};
template <typename T>
struct BatchesDigitsVectorView : OfBatches<DigitsVectorView<T>> {};
template <typename T>
struct BatchesScalarView : OfBatches<ScalarView<T>> {};

// The accesses of views.cuh and digits.cuh.
template <int V, class View>
__device__ __forceinline__ auto load(const OfBatches<View>& view, int batch, int m, int n, int rows, int columns) {
    return load<V>(view.of(batch), batch, m, n, rows, columns);
}

template <int V, class View, typename T>
__device__ __forceinline__ void store(const OfBatches<View>& view, const Pack<T, V>& x, int batch, int m, int n, int rows,
                                      int columns) {
    store<V>(view.of(batch), x, batch, m, n, rows, columns);
}

template <class View>
__device__ __forceinline__ auto load(const OfBatches<View>& view, int batch, int i, int length) {
    return load(view.of(batch), batch, i, length);
}

template <class View, typename T>
__device__ __forceinline__ void store(const OfBatches<View>& view, T x, int batch, int i, int length) {
    store(view.of(batch), x, batch, i, length);
}

template <class View>
__device__ __forceinline__ auto load(const OfBatches<View>& view, int batch) {
    return load(view.of(batch), batch);
}

template <class View, typename T>
__device__ __forceinline__ void store(const OfBatches<View>& view, T x, int batch) {
    store(view.of(batch), x, batch);
}

// The address of a byte of truth values, eight columns each.
template <class View>
__device__ __forceinline__ auto byte_at(const OfBatches<View>& view, int batch, int m, int byte) {
    return byte_at(view.of(batch), batch, m, byte);
}

}  // namespace epilogue
