// How warps of a block, and blocks of a cluster, wait for each other: pipelines (*rings*) of mbarriers, named barriers,
// the cluster's barrier.
//
// A ring is STAGES places in shared memory with two mbarriers each, `full` and `empty`. Its users count through the
// stages; every time around, the parity that they wait for turns over:
//
//   producer:  wait(empty, parity ^ 1)   passes at once the first time around
//              fill; completes `full`
//   consumer:  wait(full, parity)
//              use;  arrives at `empty`
#pragma once
#include "../needed.cuh"
#include "config.cuh"

namespace epilogue::sm90 {

// ---- mbarriers (PTX ISA, "mbarrier") --------------------------------------------------------------------------------

// mbarrier.init: a phase ends after `count` arrivals and all bytes that they announced.
__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(count) : "memory");
}

// fence.mbarrier_init: the barriers initialised so far are such for the cluster and TMA.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

// mbarrier.try_wait, until the phase of this parity is over. What happened before its arrivals is visible then.
__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "WAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT_%=;\n}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// mbarrier.arrive.expect_tx: one arrival, and `bytes` that TMA will bring.
__device__ __forceinline__ void mbarrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

// mbarrier.arrive on a barrier of this block.
__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

// mbarrier.arrive on a barrier of any block of the cluster, at an address from `cluster_address`. It says that this
// block's products have read a stage, or a warp what others sent it, and hands over no writes: with `.release.cluster` there
// would be a fence of the whole GPU's memory (MEMBAR.ALL.GPU) in every k-tile.
__device__ __forceinline__ void mbarrier_arrive_cluster(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

// A place in a ring of STAGES.
template <int STAGES>
struct PipelineState {
    u32 stage = 0;
    u32 parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    // Passes over `count` stages that somebody else uses.
    __device__ __forceinline__ void skip(u32 count) {
        const u32 to = stage + count;
        parity ^= (to / STAGES) & 1;
        stage = to % STAGES;
    }
};

// ---- Clusters (PTX ISA, "barrier.cluster", "mapa") ------------------------------------------------------------------

// %cluster_ctarank
__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}

// mapa: where the block of this rank has what this block has at `shared`.
__device__ __forceinline__ u32 cluster_address(u32 shared, u32 rank) {
    u32 address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(address) : "r"(shared), "r"(rank));
    return address;
}

// barrier.cluster: all threads of all blocks of the cluster; what was done before is visible after.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

// The same, but that it hands over no writes: a release is a fence of the whole GPU's memory (MEMBAR.ALL.GPU). Mbarriers
// that were initialised before it, and fenced by `fence_mbarrier_init`, are such after it.
__device__ __forceinline__ void cluster_sync_mbarriers() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

// ---- Warpgroups -----------------------------------------------------------------------------------------------------

// bar.sync on a barrier of its own, by THREADS threads: 0 is __syncthreads's. Barrier numbers are constants, or the
// compiler would reserve all 16.
template <int BARRIER, int THREADS>
__device__ __forceinline__ void named_barrier() {
    asm volatile("bar.sync %0, %1;\n" ::"n"(BARRIER), "n"(THREADS) : "memory");
}

// All threads of consumer warpgroup `consumer`, of CONSUMERS. Two warpgroups have the third's branch too: without it
// ptxas 13.0 spills in some ping-pong kernels that reduce rows.
template <int CONSUMERS>
__device__ __forceinline__ void warpgroup_sync(int consumer) {
    static_assert(CONSUMERS <= 3);
    if (CONSUMERS == 1 || consumer == 0) {
        named_barrier<1, WARPGROUP>();
    } else if (consumer == 1) {
        named_barrier<2, WARPGROUP>();
    } else {
        named_barrier<3, WARPGROUP>();
    }
}

// All threads that share a tile.
template <class Config>
__device__ __forceinline__ void team_sync(int team) {
    if constexpr (Shape<Config>::TEAM == 1) {
        warpgroup_sync<Config::CONSUMERS>(team);
    } else {
        named_barrier<4, Shape<Config>::TEAM_THREADS>();
    }
}

// setmaxnreg: this warpgroup gives registers back, or takes some of those.
template <int REGISTERS>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(REGISTERS));
}

// ---- Ping-pong ------------------------------------------------------------------------------------------------------

// The teams of a block multiply in turns: team t waits until the other has begun the last block of its tile.
//
// It is not only faster so. A mbarrier's parity tells a phase only from its neighbours: a team that went ahead of the
// other by a whole ring would take a stage for full that the other has yet to get.
template <class Config>
struct Turns {
    // In tensor memory each team's sums have a place of their own, as long as every tile has some.
    static constexpr bool PINGPONG =
        Shape<Config>::PINGPONG && !(HasTensorMemory<Config>::VALUE && Need<Config>::EVERYWHERE);
    u32 barriers;  // ORDER[0]
    u32 parity = 0;

    static __device__ __forceinline__ void init(u32 shared) {
        for (int team = 0; PINGPONG && team < 2; ++team) mbarrier_init(shared + Control<Config>::ORDER + 8 * team, 4);
    }

    __device__ __forceinline__ explicit Turns(u32 shared) : barriers(shared + Control<Config>::ORDER) {}

    // The first team's first turn is free: it waits for the parity before.
    __device__ __forceinline__ void wait(int team) {
        if constexpr (PINGPONG) {
            mbarrier_wait(barriers + 8 * team, parity ^ (team == 0));
            parity ^= 1;
        }
    }

    __device__ __forceinline__ void pass_on(int team) const {
        if constexpr (PINGPONG) {
            if (threadIdx.x % 32 == 0) mbarrier_arrive(barriers + 8 * (team ^ 1));
        }
    }
};

// ---- Programmatic dependent launch (PTX ISA, "griddepcontrol") ------------------------------------------------------

// Waits until the kernels that this one depends on are done and their writes visible.
__device__ __forceinline__ void wait_for_previous_launch() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }

// The next kernel may start.
__device__ __forceinline__ void let_next_launch_start() {
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
}

}  // namespace epilogue::sm90
