// TMA, the tensor memory accelerator: boxes of tensors between global and shared memory (PTX ISA,
// "cp.async.bulk.tensor").
//
// Maps have three dimensions: the contiguous index, the other, the batch. Only maps of patches and of matrices with
// digits differ: patches.cuh and digits.cuh copy those. Elements outside of a tensor are read as 0 and not written; a
// load always counts the bytes of the whole box.
#pragma once
#include "config.cuh"

namespace epilogue::sm90 {

// An L2 cache policy as `createpolicy.fractional` would make it for all accesses.
__device__ __forceinline__ u64 cache_policy(Hint hint) {
    return hint == Hint::First ? 0x12f0000000000000ull : 0x14f0000000000000ull;
}

// prefetch.tensormap
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

// Loads the box at (x, y, z) to `shared`, and counts its bytes at `barrier`.
template <Hint HINT>
__device__ __forceinline__ void load_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z) {
    if constexpr (HINT == Hint::Normal) {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%3, %4, %5}], [%2];\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
            " [%0], [%1, {%3, %4, %5}], [%2], %6;\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(cache_policy(HINT))
            : "memory");
    }
}

// Loads a box to the same place in every block of the cluster whose bit is set in `blocks`, and counts its bytes at
// each one's barrier.
template <Hint HINT>
__device__ __forceinline__ void load_box_multicast(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z,
                                                   unsigned short blocks) {
    if constexpr (HINT == Hint::Normal) {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1, {%3, %4, %5}], [%2], %6;\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
            ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks), "l"(cache_policy(HINT))
            : "memory");
    }
}

// Stores a box; part of the thread's bulk group.
template <Hint HINT>
__device__ __forceinline__ void store_box(const TensorMap& map, u32 shared, int x, int y, int z) {
    if constexpr (HINT == Hint::Normal) {
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];\n" ::"l"(&map),
                     "r"(shared), "r"(x), "r"(y), "r"(z)
                     : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3, %4}], [%1], %5;\n" ::"l"(
                &map),
            "r"(shared), "r"(x), "r"(y), "r"(z), "l"(cache_policy(HINT))
            : "memory");
    }
}

// cp.async.bulk.commit_group: closes the group of this thread's stores so far.
__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }

// cp.async.bulk.wait_group.read: at most PENDING groups still read shared memory.
template <int PENDING>
__device__ __forceinline__ void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(PENDING) : "memory");
}

// cp.async.bulk.wait_group: all of this thread's stores are done.
__device__ __forceinline__ void store_wait_all() { asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory"); }

// fence.proxy.async: what this thread wrote to shared memory by ordinary stores, TMA sees.
__device__ __forceinline__ void fence_shared_for_copies() {
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

}  // namespace epilogue::sm90
