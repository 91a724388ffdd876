// Truth values with eight columns in a byte: bit n % 8 of byte n / 8 of a row.
//
// Bits are a class of arguments and not an element type, because an element's size is a number of bytes everywhere. In
// a tree they are truth values of a parameter or an output; only reads and writes differ.
//
// Lanes exchange the bits of a byte and one lane writes it, so a byte has one writer. Bits are never copied by TMA.
// Bits beyond the last column are written as 0 and ignored when read.
#pragma once
#include "convert.cuh"
#include "views.cuh"

namespace epilogue {

// A view's columns are bytes.
__device__ __forceinline__ u8* byte_at(const TensorView<u8>& view, int batch, int m, int byte) {
    return view.pointer + (batch * view.batch + m * view.row + byte * view.column);
}

// The byte with column n, a multiple of 8; 0 outside of the matrix.
template <class View>
__device__ __forceinline__ u32 load_byte(const View& view, int batch, int m, int n, int rows, int columns) {
    if (m >= rows || n >= columns) return 0;
    return *byte_at(view, batch, m, n / 8);
}

template <class View>
__device__ __forceinline__ void store_byte(const View& view, u32 byte, int batch, int m, int n, int rows, int columns) {
    if (m >= rows || n >= columns) return;
    const int inside = columns - n;
    if (inside < 8) byte &= (1u << inside) - 1;
    *byte_at(view, batch, m, n / 8) = static_cast<u8>(byte);
}

// Bit v is that of column n + v of row m, for V columns; n is a multiple of V, and V divides 8.
template <int V, class View>
__device__ __forceinline__ u32 load_bits(const View& view, int batch, int m, int n, int rows, int columns) {
    static_assert(8 % V == 0);
    return load_byte(view, batch, m, n & ~7, rows, columns) >> (n & 7);
}

// Writes columns n..n+V of row m. By all lanes of a warp, of which those of a byte follow one another.
template <int V, class View>
__device__ __forceinline__ void store_bits(const View& view, const bool (&x)[V], int batch, int m, int n, int rows,
                                           int columns) {
    static_assert(8 % V == 0);
    u32 bits = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) bits |= static_cast<u32>(x[v]) << v;
    bits <<= n & 7;
#pragma unroll
    for (int lanes = 1; lanes < 8 / V; lanes *= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, lanes);
    if ((n & 7) == 0) store_byte(view, bits, batch, m, n, rows, columns);
}

}  // namespace epilogue
