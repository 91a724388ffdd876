// Products on sm_100a: one thread multiplies from shared memory to tensor memory, consumers load the sums.
//
//   issuer     (warp 3 of the producer)
//              wait sums_empty[p] | for each k-tile: wait full[s], start its products, commit to empty[s] of all sharers |
//              commit to sums_full[p];
//   consumer   wait sums_full[p] | load its accumulators to registers | arrive at sums_empty[p], go on as on sm_90a.
//
// If tensor memory has two places for a tile's sums, the next tile is multiplied during the epilogue; with one place, as soon
// as the sums are in registers.
//
// An instruction has 128 rows, or the tile's 64. A consumer's warp reads the 32 lanes of its quarter, 16 at a time: the
// fragment of wgmma for 16 rows. So blocks of 64 MMA rows alternate in runs of 16 (TensorRows).
#pragma once
#include "../sm90/gemm.cuh"
#include "tensor_memory.cuh"

namespace epilogue::sm90 {

// What `BlockRows` is if instructions have 128 rows: blocks 2i and 2i + 1 share the rows from 128 i on.
template <class Config>
struct TensorRows {
    static constexpr int STRIDE = 32;

    static __device__ __forceinline__ int of_tile(int member, int block) {
        return member * Shape<Config>::BLOCKS + block;
    }
    static __device__ __forceinline__ int first(int member, int block) {
        const int number = of_tile(member, block);
        return number / 2 * 128 + number % 2 * 16;
    }
};

// What is allocated for so many columns: a power of two.
__device__ __forceinline__ constexpr int tensor_columns(int columns) { return columns <= 32 ? 32 : 2 * tensor_columns((columns + 1) / 2); }

// What `Products` is on sm_100a.
template <class Config>
struct TensorProducts {
    using S = Shape<Config>;
    using C = Control<Config>;
    using L = Lanes<Config>;
    using Loop = Mainloop<Config>;
    using Cluster = ClusterPlace<Config>;
    static_assert(!Config::PROMOTE, "tensor memory has sums of 32 bits");
    static_assert(S::COUNT_ROWS == 1, "accumulators share columns");

    static constexpr int ROWS = Config::MMA_ROWS < 128 ? 64 : 128;  // of an instruction
    static constexpr int INSTRUCTIONS = Config::MMA_ROWS / ROWS;
    static constexpr int COLUMNS = INSTRUCTIONS * Config::MMA_COLUMNS;  // of a tile's sums
    static constexpr int PLACES = 2 * COLUMNS <= 512 ? 2 : 1;
    static constexpr int ALLOCATED = tensor_columns(PLACES * COLUMNS);
    static_assert(Config::MMA_ROWS % ROWS == 0 && ALLOCATED <= 512);

    static constexpr int FULL = C::END, EMPTY = FULL + 8 * PLACES;  // by place
    static_assert(EMPTY + 8 * PLACES <= C::WORDS, "64 mbarriers");

    using OfConsumer = PipelineState<PLACES>;

    static __device__ __forceinline__ void skip(OfConsumer& places, int k_tiles, bool) {
        if (k_tiles > 0) places.advance();
    }

    // By one thread.
    static __device__ __forceinline__ void init(u32 shared) {
        for (int p = 0; p < PLACES; ++p) {
            mbarrier_init(shared + FULL + 8 * p, 1);
            mbarrier_init(shared + EMPTY + 8 * p, S::TEAM_WARPS);
        }
    }

    static __device__ __forceinline__ bool is_owner() { return threadIdx.x / 32 == 3; }
    static __device__ __forceinline__ u32 address() {
        return *reinterpret_cast<const u32*>(block_memory() + C::ADDRESS);
    }

    // By all threads, before a barrier of the block.
    static __device__ __forceinline__ void allocate(u32 shared) {
        if (is_owner()) tensor_allocate<ALLOCATED>(shared + C::ADDRESS);
    }

    // By all threads, when they are done. Consumers have loaded the sums of all products. Blocks of a cluster have met.
    static __device__ __forceinline__ void free() {
        if constexpr (S::CLUSTER == 1) {
            __syncwarp();  // the barrier is an aligned one
            __syncthreads();
        }
        if (is_owner()) tensor_free<ALLOCATED>(address());
    }

    // Stages are released by the thread that multiplies.
    struct Release {
        __device__ __forceinline__ Release(u32, const Cluster&) {}
    };

    // The thread that multiplies.
    template <class Multiply>
    struct Issuer {
        using A = Descriptor<Config::A_MAJOR, Config::TILE_K>;
        using B = Descriptor<Config::B_MAJOR, Config::TILE_K>;
        static constexpr u64 VERSION = static_cast<u64>(1) << 46;
        typename Loop::Ring ring;
        OfConsumer places;
        u32 shared, memory;
        unsigned short sharers;

        __device__ __forceinline__ Issuer(const Cluster& cluster, u32 shared)
            : shared(shared), memory(address()), sharers(cluster.same_row() | cluster.same_column()) {}

        // A tile: `k_tiles` k-tiles. `loaded` is false where the first stage is all there is.
        __device__ __forceinline__ void run(int k_tiles, bool loaded) {
            if (k_tiles == 0) return;
            mbarrier_wait(shared + EMPTY + 8 * places.stage, places.parity ^ 1);
            const u32 sums = memory + places.stage * COLUMNS;
#pragma unroll 1
            for (int kt = 0; kt < k_tiles; ++kt) {
                if (loaded) mbarrier_wait(shared + C::FULL + 8 * ring.stage, ring.parity);
                tensor_fence_after();  // behind the loads of the sums that were in this place
                const u64 a = VERSION | A::of(shared + Config::A_OFFSET + ring.stage * Config::A_STAGE_BYTES);
                const u64 b = VERSION | B::of(shared + Config::B_OFFSET + ring.stage * Config::B_STAGE_BYTES);
#pragma unroll
                for (int step = 0; step < 4; ++step)  // 32 bytes of K each
#pragma unroll
                    for (int i = 0; i < INSTRUCTIONS; ++i)
                        Multiply::run(sums + i * Config::MMA_COLUMNS, a + step * A::STEP + i * (ROWS / 64) * A::BLOCK,
                                      b + step * B::STEP, kt != 0 || step != 0);
                if (loaded) {
                    release(C::EMPTY + 8 * ring.stage);
                    ring.advance();
                }
            }
            tensor_commit(shared + FULL + 8 * places.stage);
            places.advance();
        }

        __device__ __forceinline__ void release(u32 empty) const {
            if constexpr (S::CLUSTER > 1) {
                tensor_commit_to(shared + empty, sharers);
            } else {
                tensor_commit(shared + empty);
            }
        }
    };

    // As `Mainloop::consume`: the sums of a tile come to the warpgroup's registers.
    template <class Multiply, class OfPromotion, class LastBegun>
    static __device__ __forceinline__ void consume(typename Config::Accumulator (&acc)[S::BLOCKS][S::REGISTERS],
                                                   OfConsumer& places, int k_tiles, bool, int member, OfPromotion,
                                                   const Release&, u32 shared, LastBegun last_begun) {
        const bool has_sums = Need<Config>::EVERYWHERE || k_tiles > 0;
        if (has_sums) mbarrier_wait(shared + FULL + 8 * places.stage, places.parity);
        if constexpr (Turns<Config>::PINGPONG) {
            __syncwarp();  // every lane has seen its place's phase before one passes the turn on
            last_begun();
        }
        if (!has_sums) {
            Loop::set_zero(acc);
            return;
        }
        tensor_fence_after();
        const u32 sums = address() + places.stage * COLUMNS + (static_cast<u32>(32 * L::warp()) << 16);
#pragma unroll
        for (int i = 0; i < S::BLOCKS; ++i) {
            const int number = member * S::BLOCKS + i;
            const u32 place = ROWS == 64 ? 0 : number / 2 * Config::MMA_COLUMNS + (static_cast<u32>(number % 2 * 16) << 16);
            Multiply::load(acc[i], sums + place);
        }
        tensor_wait_loads();
        hold(acc);
        tensor_fence_before();
        __syncwarp();  // every lane has them
        if (L::lane() == 0) mbarrier_arrive(shared + EMPTY + 8 * places.stage);
        places.advance();
    }
};

}  // namespace epilogue::sm90
