// The GEMM kernel for sm_90a of an A whose rows an index gathers: row m of the product is row `index[m]` of the matrix.
// Only the loads differ, and a fence; everything else is as in gemm.cuh.
//
//   index     [ 4 | 0 | 4 | -1 ]     tile     [ row 4 | row 0 | row 4 | zeros ]
//
// A box has neighbouring rows, so TMA loads B alone. Threads copy the rows of A, 16 bytes at a time by cp.async, to the
// places that TMA's 128-byte swizzle gives:
//
//   16 bytes c of row r   at 128r + 16 (c ^ r%8)
//
//   producer warpgroup    warps 0 and 3: A, four of every eight rows each; warp 0: B, too, by one thread
//                         warps 1 and 2: as ever. They wait for epilogues, which must not delay the loads of products
//
//   full[s]               the bytes of B, and an arrival of every copying thread, made when its copies are done
//
// cp.async writes by the generic proxy, and wgmma reads by the asynchronous one. So a consumer that has waited for a
// stage fences before it multiplies. A lane keeps the numbers of a few rows, and other lanes get them by shuffles: a
// register for each row would leave none. Blocks along N share no A; blocks along M share B as ever.
//
// The differences are specialisations of members for the kernel's `Config`: the count of the `full` barriers, the
// producer, the fence.
//
// A number outside of A stands for a row of zeros, and is noted in the device's record. Rows of the tile outside of the
// product or the group are zeros, too, and are not noted.
#pragma once
#include "../row_index.cuh"
#include "../status.cuh"
#include "groups.cuh"

namespace epilogue::sm90 {

// The matrix, and which of its rows the product's are.
struct PickedRows {
#include "PickedRows.fields"
};

// What every kernel of picked rows needs: it follows what kernels of rows in order need.
template <class Base>
struct PickedCommon : Base {
#include "PickedCommon.fields"
};

// Rows from here on are not the product's, or not of the work's group.
template <class Config>
__device__ __forceinline__ int picked_end(const Common& common, const Work&) {
    return common.problem.m;
}
template <class Config>
__device__ __forceinline__ int picked_end(const GroupCommon&, const Work& work) {
    return group_work<Config>(work).end;
}

// cp.async.mbarrier.arrive.noinc: an arrival of this thread's, when all its copies so far are done.
__device__ __forceinline__ void copy_async_arrive(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(barrier) : "memory");
}

// What `Loads` is for a `Config` whose A is picked rows: nothing, since warps load, and no single thread.
struct NoLoads {
    template <class... Ignored>
    static __device__ __forceinline__ void produce(const Ignored&...) {}
};

// How A and B are loaded.
template <class Config>
struct PickedLoads {
    using C = Control<Config>;
    using Loop = Mainloop<Config>;
    using Cluster = ClusterPlace<Config>;
    static constexpr u32 ALL = 0xffffffffu;

    // A is the instruction's second operand where SWAP_AB.
    static constexpr bool SECOND = Config::SWAP_AB;
    static constexpr int ROWS = SECOND ? Config::MMA_COLUMNS : Config::MMA_ROWS;
    static constexpr int SIZE = SECOND ? Config::B_ELEMENT_BYTES : Config::A_ELEMENT_BYTES;
    static constexpr int PLACE = SECOND ? Config::B_OFFSET : Config::A_OFFSET;
    static constexpr int STAGE_BYTES = SECOND ? Config::B_STAGE_BYTES : Config::A_STAGE_BYTES;
    static constexpr int BYTES_OF_B = Config::STAGE_TX_BYTES - STAGE_BYTES;
    static constexpr int IN_CHUNK = 16 / SIZE;  // elements that a copy brings
    static_assert((SECOND ? Config::B_MAJOR : Config::A_MAJOR) == Major::K && Config::TILE_K * SIZE == 128);
    static_assert((SECOND ? Config::B_HINT : Config::A_HINT) == Hint::Normal);
    static_assert(Config::CLUSTER_N == 1, "every block copies all rows of its tile");

    // A copying thread copies the same 16 bytes of a row in every pass, which is of 8 rows. A pass's rows are 1024 bytes.
    static constexpr int WARPS = 2, PASSES = ROWS / 8;
    // How many rows' numbers a lane keeps, for all lanes of its warp: lane 4p + s those of row s in passes p, p + 8, …
    static constexpr int KEPT = (PASSES + 7) / 8;
    using Numbers = int[KEPT];
    static_assert(ROWS % 8 == 0 && STAGE_BYTES == 128 * ROWS);

    // Which of the copying warps this one is; -1 of others.
    static __device__ __forceinline__ int copier(int warp) { return warp == 0 ? 0 : (warp == 3 ? 1 : -1); }

    // What `Mainloop` does for rings that are filled by TMA alone.
    static __device__ __forceinline__ void init(u32 shared) {
        for (int s = 0; s < Config::STAGES; ++s) {
            mbarrier_init(shared + C::FULL + 8 * s, 1 + 32 * WARPS);
            mbarrier_init(shared + C::EMPTY + 8 * s, Cluster::SHARERS * Shape<Config>::TEAM_WARPS);
        }
    }

    // The numbers that this lane keeps, where the warp's first row is row `m` of the product; -1 for zeros. Whether all are
    // rows.
    static __device__ __forceinline__ bool read(const RowIndex& index, int m, int end, Numbers& numbers) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        int wrong = 0;
        bool are_rows = true, is_wrong = false;
#pragma unroll
        for (int i = 0; i < KEPT; ++i) {
            const int pass = 8 * i + lane / 4, row = m + 8 * pass + lane % 4;
            numbers[i] = -1;
            if (pass >= PASSES) continue;
            if (row < end) {
                const int given = index[row];
                if (index.has(given)) {
                    numbers[i] = given;
                } else {
                    wrong = given;
                    is_wrong = true;
                }
            }
            are_rows = are_rows && numbers[i] >= 0;
        }
        if (is_wrong) fail(index.site, wrong, index.limit);
        return are_rows;
    }

    // Copies this thread's part of a stage, of which `valid` bytes of every row are inside; where WHOLE, all are, of rows that
    // all exist. Then a copy takes half as many instructions.
    template <bool WHOLE>
    static __device__ __forceinline__ void copy(u32 to, const char* from, index_t row_bytes, const Numbers& numbers,
                                                int valid) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const int number = __shfl_sync(ALL, numbers[pass / 8], 4 * (pass % 8) + lane / 8);
            const char* const line = from + static_cast<u32>(number) * static_cast<u64>(row_bytes);
            copy_async_16(to + 1024 * pass, line, WHOLE ? 16 : (number < 0 ? 0 : valid));
        }
    }

    // Loads all k-tiles of a tile. By the copying warps.
    template <class Parameters>
    static __device__ __forceinline__ void produce(typename Loop::Ring& ring, const Parameters& parameters,
                                                   const Work& work, int copier, const Cluster& cluster, u32 shared) {
        const auto& common = parameters.common;
        const PickedRows& picked = common.picked;
        const int lane = static_cast<int>(threadIdx.x) % 32, chunk = lane % 8, row = 4 * copier + lane / 8;
        Numbers numbers;
        const bool whole_rows =
            __all_sync(ALL, read(picked.index, work.m + 4 * copier, picked_end<Config>(common, work), numbers));
        const u32 place = shared + PLACE + 128 * row + 16 * (chunk ^ row);
        int k = work.k_begin;
#pragma unroll 1
        for (int kt = 0; kt < work.k_tiles; ++kt) {
            const u32 full = shared + C::FULL + 8 * ring.stage, to = place + ring.stage * STAGE_BYTES;
            mbarrier_wait(shared + C::EMPTY + 8 * ring.stage, ring.parity ^ 1);
            if (threadIdx.x == 0) {
                mbarrier_expect(full, BYTES_OF_B);
                load_b(parameters.maps, common.b_batched, work, k, ring.stage, full, cluster, shared);
            }
            const int first = k + chunk * IN_CHUNK, left = common.problem.k - first;
            const char* const from = picked.matrix + index_t(first) * SIZE;
            if (whole_rows && k <= common.problem.k - Config::TILE_K) {
                copy<true>(to, from, picked.row_bytes, numbers, 16);
            } else {
                const int valid = SIZE * (left <= 0 ? 0 : (left < IN_CHUNK ? left : IN_CHUNK));
                copy<false>(to, from, picked.row_bytes, numbers, valid);
            }
            copy_async_arrive(full);
            k += Config::TILE_K;
            ring.advance();
        }
    }

    // B's part of a stage; this block's share, where blocks along M share it. By one thread.
    static __device__ __forceinline__ void load_b(const TensorMap* maps, int batched, const Work& work, int k, u32 stage,
                                                  u32 full, const Cluster& cluster, u32 shared) {
        if constexpr (SECOND) {
            Loop::AStage::load(shared + Config::A_OFFSET + stage * Config::A_STAGE_BYTES, maps, full, work.n, k, batched,
                               work.batch, cluster.column, cluster.same_row());
        } else {
            Loop::BStage::load(shared + Config::B_OFFSET + stage * Config::B_STAGE_BYTES, maps, full, work.n, k, batched,
                               work.batch, cluster.row, cluster.same_column());
        }
    }

    // What `Mainloop` gives to a consumer that has waited for a stage: there, what TMA wrote is the products' to read. What
    // cp.async wrote, by the generic proxy, is so behind a fence of whoever starts them (PTX ISA, "Async proxy").
    static __device__ __forceinline__ u32 stage_of(const typename Loop::Ring& ring) {
        fence_shared_for_copies();
        return __shfl_sync(ALL, ring.stage, 0);
    }
};

// What `Gemm` does in a producer's warps.
template <class Config, class Visitor, class Parameters>
__device__ __forceinline__ void produce_picked(const Parameters& parameters, const ClusterPlace<Config>& cluster, u32 shared) {
    using Loads = PickedLoads<Config>;
    // The same kernel, but for what multiplies: its producer is specialised for the other alone.
    using Plain = Gemm<Config, void, Visitor, Parameters>;
    const Common& common = parameters.common;
    // The same in all lanes, and known to the compiler as such.
    const int copier = Loads::copier(__shfl_sync(Loads::ALL, static_cast<int>(threadIdx.x) / 32, 0));
    if (copier < 0) {
        Plain::produce(parameters, cluster, shared);
    } else if (common.problem.k > 0) {
        typename Loads::Loop::Ring ring;
        Plain::for_each_unit(common, cluster.rank, [&](const Work& work, int) {
            Loads::produce(ring, parameters, as_needed<Config>(work, parameters, cluster.rank), copier, cluster, shared);
        });
        if constexpr (Config::DEPENDENT_LAUNCH) {
            if (threadIdx.x == 0) let_next_launch_start();
        }
    }
}

}  // namespace epilogue::sm90
