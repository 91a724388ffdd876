// Bits of a lane's values (the map is in fragments.cuh): a lane reads or writes whole bytes, with bits of its own and
// of its neighbours, and lanes exchange them.
#pragma once
#include "../bits.cuh"
#include "fragments.cuh"

namespace epilogue::sm90 {

// Between eight lanes with 4 between them, bit v of lane number i becomes bit i of lane number v.
__device__ __forceinline__ u32 transposed_bits(u32 x, int lane) {
#pragma unroll
    for (int s = 4; s >= 1; s /= 2) {
        const u32 low = s == 4 ? 0x0f : s == 2 ? 0x33 : 0x55, high = 0xff ^ low;
        const u32 other = __shfl_xor_sync(0xffffffffu, x, 4 * s);
        x = lane / 4 & s ? (x & high) | (other >> s & low) : (x & low) | (other << s & high);
    }
    return x;
}

// The bytes of a unit: where the one is that a lane reads or writes, and which bits of them are its own.
template <class Config>
struct UnitBits {
    using L = Lanes<Config>;
    bool exists;
    int m, n;

    __device__ __forceinline__ UnitBits(const Work& work, int block, int column) {
        column = anew(column);
        const int lane = L::lane();
        if constexpr (Config::SWAP_AB) {
            // MMA rows are columns of the product: eight lanes, of l/4, have the columns of a byte. Lane number i has the
            // byte of value i.
            const int i = lane / 4;
            exists = i < L::V;
            m = work.m + L::column(column, L::column_index(i));
            n = work.n + L::row(block, L::half(i)) - i;
        } else {
            // Four lanes, of l%4, have the columns of a byte, two each: that of value v is number v / 2.
            const int i = lane % 4;
            exists = i < L::V / 2;
            m = work.m + L::row(block, i % 2);
            n = work.n + column + 8 * (i / 2);
        }
    }

    // Where the bits of a lane's values are in what its lanes have together.
    static __device__ __forceinline__ constexpr int place(int v) { return Config::SWAP_AB ? v : 8 * (v / 2) + v % 2; }

    // From the byte of each lane to the bits of its values, and back.
    static __device__ __forceinline__ u32 gathered(u32 x) {
        x |= __shfl_xor_sync(0xffffffffu, x, 1);
        return x | __shfl_xor_sync(0xffffffffu, x, 2);
    }
    static __device__ __forceinline__ u32 to_values(u32 byte) {
        const int lane = L::lane();
        if constexpr (Config::SWAP_AB) return transposed_bits(byte, lane);
        return gathered(byte << 8 * (lane % 4)) >> 2 * (lane % 4);
    }
    static __device__ __forceinline__ u32 to_byte(u32 bits) {
        const int lane = L::lane();
        if constexpr (Config::SWAP_AB) return transposed_bits(bits, lane);
        return gathered(bits << 2 * (lane % 4)) >> 8 * (lane % 4) & 0xff;
    }
};

// Of the V values of a unit, by all lanes of a warp.
template <class Config, class View>
__device__ __forceinline__ void load_bits(const View& view, const Work& work, const Problem& problem, int block, int column,
                                          bool (&x)[Lanes<Config>::V]) {
    using Unit = UnitBits<Config>;
    const Unit unit(work, block, column);
    const u32 byte = unit.exists ? load_byte(view, work.batch, unit.m, unit.n, problem.m, problem.n) : 0;
    const u32 bits = Unit::to_values(byte);
#pragma unroll
    for (int v = 0; v < Lanes<Config>::V; ++v) x[v] = (bits >> Unit::place(v) & 1) != 0;
}

template <class Config, class View>
__device__ __forceinline__ void store_bits(const View& view, const Work& work, const Problem& problem, int block, int column,
                                           const bool (&x)[Lanes<Config>::V]) {
    using Unit = UnitBits<Config>;
    u32 bits = 0;
#pragma unroll
    for (int v = 0; v < Lanes<Config>::V; ++v) bits |= static_cast<u32>(x[v]) << Unit::place(v);
    const u32 byte = Unit::to_byte(bits);
    const Unit unit(work, block, column);
    if (unit.exists) store_byte(view, byte, work.batch, unit.m, unit.n, problem.m, problem.n);
}

}  // namespace epilogue::sm90
