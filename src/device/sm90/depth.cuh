// The GEMM kernels for sm_90a whose K is divided into groups (../groups.cuh): the differences to gemm.cuh.
//
// Each group is a product of a batch, so units and tiles are those of a batch. A unit multiplies its group's part of K:
// k-tiles from where the part begins, wherever that is. (A box may have any coordinates; only strides and the tensor's
// address are multiples of 16 bytes: PTX ISA, "Tensors".) A table in shared memory, behind all else, says where parts
// begin and end. If a group has no part, its unit has one k-tile outside of K, which is read as zeros.
//
// A part may end anywhere, and the box of its last k-tile goes on with the next part. The next part's rows must not be
// multiplied, not even by zeros, since they may be infinite. Zeros are copied over them before the stage is announced
// to the consumers:
//
//   box: rows of 128 bytes, one for each index of K      | the part's, `left` of them | the next part's: zeros |
//
//   producer, the last k-tile   wait empty[s] | announce a stage's bytes at landed[s] | load | wait landed[s];
//                               announce the bytes of the zeros at full[s] | copy them.
//
// Zeros are copied from shared memory by cp.async.bulk, so asynchronous copies alone write a stage. Consumers, and
// blocks of a cluster that fill the stage again, wait as in a dense product, and other k-tiles cost nothing. Stores of
// a thread would not do: only a fence of the whole GPU orders them with the copies of a cluster's other blocks.
//
// Both operands are contiguous along M or N, so an index of K is one row of a box, whatever the swizzle. Along K, a
// part would begin within 16 bytes. Operands of 16 bits that are contiguous along K are therefore repacked. wgmma takes
// the other types only along K, so kernels for sm_80 multiply those.
//
// Every stage has a `landed` of its own. With a shared one, another block's copies for the next tile could already
// arrive while this block still waits for the tile before.
#pragma once
#include "../groups.cuh"
#include "gemm.cuh"

namespace epilogue::sm90 {

struct DepthCommon : Common {
#include "../GroupCommon.fields"
};

// A group's part of K.
struct DepthPart {
    int begin, end;
};

// mbarrier.arrive.expect_tx, and the phase that this arrival is of.
__device__ __forceinline__ u64 mbarrier_expect_phase(u32 barrier, u32 bytes) {
    u64 phase;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;\n"
                 : "=l"(phase)
                 : "r"(barrier), "r"(bytes)
                 : "memory");
    return phase;
}

// mbarrier.try_wait, until this phase is over: for a barrier that isn't used each time around.
__device__ __forceinline__ void mbarrier_wait_for(u32 barrier, u64 phase) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "WAIT_%=:\nmbarrier.try_wait.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT_%=;\n}\n" ::"r"(barrier),
        "l"(phase)
        : "memory");
}

// cp.async.bulk within the block's shared memory: copies `bytes`, a multiple of 16, and counts them at `barrier`.
__device__ __forceinline__ void copy_in_block(u32 to, u32 from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
                 "r"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

template <class Config>
struct DepthTable {
    static constexpr int LANDED = Config::CONTROL_OFFSET + 768;  // mbarriers, by stage
    static_assert(Control<Config>::FINISHES + 4 * Shape<Config>::TEAMS <= LANDED);
    static_assert(LANDED + 8 * Config::STAGES <= Config::CONTROL_OFFSET + Config::CONTROL_BYTES);
    // Behind all else, a launch has as much shared memory as its groups need: zeros, and each group's part.
    static constexpr int ZEROS = Config::SHARED_BYTES, ZERO_BYTES = 1024, PARTS = ZEROS + ZERO_BYTES;

    static __device__ __forceinline__ DepthPart* parts() {
        return reinterpret_cast<DepthPart*>(block_memory() + PARTS);
    }
    static __device__ __forceinline__ DepthPart part_of(int group) { return parts()[group]; }

    // By one thread, which runs `fence_mbarrier_init` after it.
    static __device__ __forceinline__ void init(u32 shared) {
        for (int s = 0; s < Config::STAGES; ++s) mbarrier_init(shared + LANDED + 8 * s, 1);
    }

    // By all threads of the block. All have read bounds before the first warp orders them.
    static __device__ __forceinline__ void make(const Groups& groups, int extent, u32 shared) {
        DepthPart* const parts = DepthTable::parts();
        for (int g = static_cast<int>(threadIdx.x); g < groups.count; g += Shape<Config>::THREADS)
            parts[g].end = groups.bounds[(g + (groups.form == OFFSETS)) * groups.stride];
        for (int at = 16 * static_cast<int>(threadIdx.x); at < ZERO_BYTES; at += 16 * Shape<Config>::THREADS)
            store_shared_16(shared + ZEROS + at, 0, 0, 0, 0);
        fence_shared_for_copies();  // copies read the zeros
        __syncthreads();  // all bounds are here
        if (threadIdx.x < 32) order(groups, extent);
        __syncthreads();  // the table and the zeros are complete
    }

    // By a warp, 32 groups at a time.
    static __device__ __forceinline__ void order(const Groups& groups, int extent) {
        const bool checks = blockIdx.x == 0;
        const Groups given{&parts()->end, 2, groups.count, ENDS};
        int taken = rows_before(groups, extent, checks);
#pragma unroll 1
        for (int base = 0; base < groups.count; base += 32) {
            int begin, end;
            lanes_bounds(given, base, extent, checks, taken, begin, end);
            const int group = base + static_cast<int>(threadIdx.x);
            if (group < groups.count) parts()[group] = DepthPart{begin, end};
        }
    }
};

// A `Config` without groups, by which units of a batch are found.
template <class Config>
struct OfBatch : Config {};

// What `Scheduler` is for a `Config` with groups of K; see there.
template <class Config>
struct DepthScheduler : Scheduler<OfBatch<Config>> {
    using Units = Scheduler<OfBatch<Config>>;

    __device__ __forceinline__ explicit DepthScheduler(const Deal& deal) : Units(deal) {}

    __device__ __forceinline__ Work work(const Problem& problem, u32 unit, u32 rank) const {
        Work work = Units::work(problem, unit, rank);
        if (problem.k > 0) {
            const DepthPart part = DepthTable<Config>::part_of(work.batch);
            const int length = part.end - part.begin;
            work.k_begin = length > 0 ? part.begin : problem.k;
            work.k_tiles = length > 0 ? static_cast<int>((static_cast<u32>(length) + Config::TILE_K - 1) / Config::TILE_K) : 1;
        }
        return work;
    }
};

// What `Loads` is for a `Config` with groups of K.
template <class Config>
struct DepthLoads {
    using Loop = Mainloop<Config>;
    using C = Control<Config>;
    using Table = DepthTable<Config>;
    static_assert(Config::A_MAJOR == Major::MN && Config::B_MAJOR == Major::MN, "an index of K is a row of a box");
    static constexpr int ROW_BYTES = 128, BOX_BYTES = Config::TILE_K * ROW_BYTES;
    static_assert(BOX_BYTES == Loop::AStage::BOX_BYTES && BOX_BYTES == Loop::BStage::BOX_BYTES);

    // Loads all k-tiles of a tile. By one thread.
    template <class Parameters>
    static __device__ __forceinline__ void produce(typename Loop::Ring& ring, const Parameters& parameters,
                                                   const Work& work, const ClusterPlace<Config>& cluster, u32 shared) {
        // The instruction's first operand is B where SWAP_AB. All groups share the operands.
        const TensorMap* const first = parameters.maps + (Config::SWAP_AB ? 1 : 0);
        const TensorMap* const second = parameters.maps + (Config::SWAP_AB ? 0 : 1);
        const int row = Config::SWAP_AB ? work.n : work.m, column = Config::SWAP_AB ? work.m : work.n;
        const unsigned short same_row = cluster.same_row(), same_column = cluster.same_column();
        int left = Table::part_of(work.batch).end - work.k_begin;  // of the part; none of an empty one
#pragma unroll 1
        for (int kt = 0; kt < work.k_tiles; ++kt) {
            const bool cut = left > 0 && left < Config::TILE_K;
            const u32 empty = shared + C::EMPTY + 8 * ring.stage, full = shared + C::FULL + 8 * ring.stage;
            const u32 loaded = cut ? shared + Table::LANDED + 8 * ring.stage : full;
            const u32 a = shared + Config::A_OFFSET + ring.stage * Config::A_STAGE_BYTES;
            const u32 b = shared + Config::B_OFFSET + ring.stage * Config::B_STAGE_BYTES;
            const int k = work.k_begin + kt * Config::TILE_K;
            mbarrier_wait(empty, ring.parity ^ 1);
            const u64 phase = mbarrier_expect_phase(loaded, Config::STAGE_TX_BYTES);
            Loop::AStage::load(a, first, loaded, row, k, 0, 0, cluster.column, same_row);
            Loop::BStage::load(b, second, loaded, column, k, 0, 0, cluster.row, same_column);
            if (cut) {
                mbarrier_wait_for(loaded, phase);
                mbarrier_expect(full, (Loop::AStage::BOXES + Loop::BStage::BOXES) * (Config::TILE_K - left) * ROW_BYTES);
                clear<Loop::AStage::BOXES>(a, left, full, shared);
                clear<Loop::BStage::BOXES>(b, left, full, shared);
            }
            left -= Config::TILE_K;
            ring.advance();
        }
    }

    // Copies zeros over what an operand's boxes at `stage` have behind the part's rows.
    template <int BOXES>
    static __device__ __forceinline__ void clear(u32 stage, int rows, u32 full, u32 shared) {
#pragma unroll 1
        for (int box = 0; box < BOXES; ++box)
#pragma unroll 1
            for (int at = rows * ROW_BYTES; at < BOX_BYTES; at += Table::ZERO_BYTES) {
                const int rest = BOX_BYTES - at, bytes = rest < Table::ZERO_BYTES ? rest : Table::ZERO_BYTES;
                copy_in_block(stage + box * BOX_BYTES + at, shared + Table::ZEROS, bytes, full);
            }
    }
};

template <class Config, class Multiply, class Visitor, class Parameters>
__device__ __forceinline__ void depth_gemm(const Parameters& parameters) {
    const DepthCommon& common = parameters.common;
    const u32 shared = shared_address(block_memory());
    if constexpr (Config::DEPENDENT_LAUNCH) wait_for_previous_launch();  // who made the bounds is done
    if (threadIdx.x == 0) DepthTable<Config>::init(shared);
    // Where nothing is multiplied, K is 0, whatever the bounds.
    if (common.problem.k > 0) DepthTable<Config>::make(common.groups, common.problem.k, shared);
    Gemm<Config, Multiply, Visitor, Parameters>::run(parameters);
}

}  // namespace epilogue::sm90
