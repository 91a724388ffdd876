// Products of a warpgroup (PTX ISA, "wgmma"): what surrounds the instruction, which is generated because its list of
// registers is as long as the tile is wide.
//
// Accumulator of lane l of warp w (of four): register 4j + 2h + c holds row 16w + l/4 + 8h, column 8j + 2(l%4) + c.
#pragma once
#include "config.cuh"

namespace epilogue::sm90 {

// wgmma.fence: the registers and shared memory written so far are the products' to read.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }

// wgmma.commit_group: closes the group of the products so far.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }

// wgmma.wait_group: at most PENDING groups are in flight.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from moving the accumulators across: it does not know that they change between an instruction and
// its wait. Without this it puts fences of its own around every instruction.
__device__ __forceinline__ void hold(float& x) { asm volatile("" : "+f"(x)::"memory"); }
__device__ __forceinline__ void hold(int& x) { asm volatile("" : "+r"(x)::"memory"); }
__device__ __forceinline__ void hold(u32& x) { asm volatile("" : "+r"(x)::"memory"); }
template <typename T, int BLOCKS, int REGISTERS>
__device__ __forceinline__ void hold(T (&acc)[BLOCKS][REGISTERS]) {
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i)
#pragma unroll
        for (int r = 0; r < REGISTERS; ++r) hold(acc[i][r]);
}

// A matrix descriptor (PTX ISA, "Shared Memory Matrix Layout") of a tile in 128-byte swizzled rows, at a multiple of 1024.
//   K-major:  128 bytes of K per row; a group of 8 rows is 1024 bytes; the leading offset is not used.
//   MN-major: boxes of 64 rows or columns (128 bytes) by TILE_K, one after another: the leading offset is a box; 8
//             steps of K are 1024 bytes.
template <Major MAJOR, int TILE_K>
struct Descriptor {
    static constexpr u64 LEADING = MAJOR == Major::K ? 1 : TILE_K * 128 / 16;
    static constexpr u64 FIXED = LEADING << 16 | static_cast<u64>(1024 / 16) << 32 | static_cast<u64>(1) << 62;
    // Addresses are in units of 16 bytes.
    static constexpr u32 STEP = (MAJOR == Major::K ? 32 : 16 * 128) / 16;  // one instruction along K
    static constexpr u32 BLOCK = (MAJOR == Major::K ? 64 * 128 : TILE_K * 128) / 16;  // 64 rows

    static __device__ __forceinline__ u64 of(u32 shared) { return FIXED | (shared & 0x3ffff) >> 4; }
    // Bytes from the tile's start to its row (column) `i`, a multiple of 8 (K-major) or 64 (MN-major).
    static __device__ __forceinline__ u32 offset(int i) {
        return static_cast<u32>(MAJOR == Major::K ? i * 128 : i / 64 * (TILE_K * 128));
    }
};

}  // namespace epilogue::sm90
