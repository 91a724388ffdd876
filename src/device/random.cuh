// Random numbers of elements, by Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A number is a function of the seed and the element's position: key = seed, counter = (column / 4, row, offset +
// stream), and column % 4 chooses the word. So no tile, split or kernel changes it, and a backward pass draws it again
// and stores no mask. Four neighbouring columns need one block of the generator.
//
// The stream is a literal of the epilogue, not a count of calls: equal calls are one value, and two epilogues can
// agree. The seed is launch data, by value or by address, so another seed needs no other kernel.
#pragma once
#include "ptx.cuh"

namespace epilogue {

// A seed as a launch has it: two 64-bit integers in memory, or here where there is no memory.
struct SeedView {
#include "SeedView.fields"
};

struct Chance {
    u32 key[2];
    u64 offset;
};

// redux.sync: what all lanes of a warp have, which the compiler then knows, and keeps the keys of all rounds in uniform
// registers: a quarter fewer instructions for each number.
__device__ __forceinline__ u64 same_in_warp(u64 x) {
    constexpr u32 ALL = 0xffffffffu;
    const u32 high = __reduce_or_sync(ALL, static_cast<u32>(x >> 32)), low = __reduce_or_sync(ALL, static_cast<u32>(x));
    return static_cast<u64>(high) << 32 | low;
}

// Of all lanes of a warp.
__device__ __forceinline__ Chance chance(const SeedView& view) {
    u64 seed = view.seed, offset = view.offset;
    if (view.pointer != nullptr) {
        seed = static_cast<u64>(view.pointer[0]);
        offset = static_cast<u64>(view.pointer[view.stride]);
    }
    seed = same_in_warp(seed);
    return {{static_cast<u32>(seed), static_cast<u32>(seed >> 32)}, same_in_warp(offset)};
}

// A row, counted through all batches. The host has refused products with more than 2^32.
__device__ __forceinline__ u32 chance_row(int m, int rows, int batch) {
    return static_cast<u32>(m) + static_cast<u32>(rows) * static_cast<u32>(batch);
}

// The words of the columns 4 * block to 4 * block + 3 of a row.
__device__ __forceinline__ void random_block(const Chance& chance, u32 stream, u32 row, u32 block, u32 (&x)[4]) {
    const u64 place = chance.offset + stream;
    x[0] = block, x[1] = row, x[2] = static_cast<u32>(place), x[3] = static_cast<u32>(place >> 32);
    u32 key0 = chance.key[0], key1 = chance.key[1];
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u64 first = static_cast<u64>(0xD2511F53u) * x[0], third = static_cast<u64>(0xCD9E8D57u) * x[2];
        x[0] = static_cast<u32>(third >> 32) ^ x[1] ^ key0;
        x[1] = static_cast<u32>(third);
        x[2] = static_cast<u32>(first >> 32) ^ x[3] ^ key1;
        x[3] = static_cast<u32>(first);
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
}

// A word as a multiple of 2^-24 below 1, exactly.
template <typename Real>
__device__ __forceinline__ Real uniform(u32 word) {
    return static_cast<Real>(static_cast<float>(word >> 8) * 0x1p-24f);
}

// The numbers of columns n to n + V of a row; n is a multiple of V, which is a power of two.
template <int V, typename Real>
__device__ __forceinline__ void random_columns(const Chance& chance, u32 stream, u32 row, int n, Real (&to)[V]) {
    constexpr int WORDS = V < 4 ? V : 4;
#pragma unroll
    for (int v = 0; v < V; v += WORDS) {
        u32 x[4];
        random_block(chance, stream, row, static_cast<u32>(n + v) / 4, x);
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            if constexpr (WORDS == 4) {
                to[v + w] = uniform<Real>(x[w]);
            } else if constexpr (WORDS == 2) {
                to[w] = uniform<Real>(n & 2 ? x[2 + w] : x[w]);
            } else {
                to[w] = uniform<Real>(n & 2 ? (n & 1 ? x[3] : x[2]) : (n & 1 ? x[1] : x[0]));
            }
        }
    }
}

}  // namespace epilogue
