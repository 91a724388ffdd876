// Neighbouring elements between memory and registers, V at a time.
#pragma once

namespace epilogue::te {

template <int BYTES>
__device__ __forceinline__ bool is_aligned(const void* address) {
    return reinterpret_cast<unsigned long long>(address) % BYTES == 0;
}

template <typename T, int V>
struct alignas(V * sizeof(T)) Group {
    T value[V];
};

// N elements, as they are in memory. Indices are constants once loops are unrolled, so that these are registers.
template <typename T, int V, int N>
struct Lanes {
    Group<T, V> group[N / V];
    __device__ __forceinline__ T& operator[](int i) { return group[i / V].value[i % V]; }
};

// The address is that of V aligned elements.
template <typename T, int V, int N>
__device__ __forceinline__ void load_lanes(Lanes<T, V, N>& lanes, const T* from) {
#pragma unroll
    for (int i = 0; i < N / V; ++i) lanes.group[i] = reinterpret_cast<const Group<T, V>*>(from)[i];
}
template <typename T, int V, int N>
__device__ __forceinline__ void store_lanes(T* to, const Lanes<T, V, N>& lanes) {
#pragma unroll
    for (int i = 0; i < N / V; ++i) reinterpret_cast<Group<T, V>*>(to)[i] = lanes.group[i];
}

}  // namespace epilogue::te
