// Tensor memory (PTX ISA 9.7.16): 128 lanes by 512 columns of 32 bits, in which the products of a block are summed.
//
// A warp reads 32 of the lanes, by its number in the warpgroup. A product of 128 rows has row i in lane i. One of 64 rows
// has rows 16w to 16w + 15 in the first 16 lanes of those that warp w reads. An address is lane << 16 | column.
#pragma once
#include "../sm90/pipeline.cuh"

namespace epilogue::sm90 {

// tcgen05.alloc: COLUMNS of tensor memory, a power of two from 32 on; their address goes to shared memory. By a warp. Waits
// until another block of the multiprocessor frees as many.
template <int COLUMNS>
__device__ __forceinline__ void tensor_allocate(u32 shared) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n" ::"r"(shared), "n"(COLUMNS)
                 : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" ::: "memory");
}

// tcgen05.dealloc. By a warp.
template <int COLUMNS>
__device__ __forceinline__ void tensor_free(u32 address) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;\n" ::"r"(address), "n"(COLUMNS) : "memory");
}

// tcgen05.fence: orders this thread's accesses of tensor memory before what it signals, and behind what it waited for. No
// machine code.
__device__ __forceinline__ void tensor_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;\n" ::: "memory"); }
__device__ __forceinline__ void tensor_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;\n" ::: "memory"); }

// tcgen05.wait::ld: what this warp loaded is in its registers.
__device__ __forceinline__ void tensor_wait_loads() { asm volatile("tcgen05.wait::ld.sync.aligned;\n" ::: "memory"); }

// tcgen05.commit: one arrival at a barrier of this block, when this thread's products so far are complete.
__device__ __forceinline__ void tensor_commit(u32 barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];\n" ::"r"(barrier) : "memory");
}

// One at the same barrier of every block of the cluster whose bit is set.
__device__ __forceinline__ void tensor_commit_to(u32 barrier, unsigned short blocks) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;\n" ::"r"(
                     barrier),
                 "h"(blocks)
                 : "memory");
}

}  // namespace epilogue::sm90
