// The exchange of a cluster whose tiles together have whole lines: its 2 to 16 blocks send each other their parts of
// the lines' reductions, through distributed shared memory (PTX ISA, "st.async", "mapa").
//
// A line along MMA columns lies in one warp of each block, with the same number and in the same four lanes. A warp
// therefore exchanges with these warps alone, once after every sweep of a block of 64 rows. No other thread waits:
//
//   wait       until all blocks have read the parts before;
//   st.async   a warp's 16 rows, word by word, into its block's slot of every peer; the peer counts the bytes on an
//              mbarrier;
//   wait       for the bytes of all peers;
//   fold       all parts in the order of the blocks, the warp's own among them: all blocks get the same bits;
//   arrive     at all blocks' other mbarriers: the slots have been read.
//
//   [ mbarriers: warp, full and empty ] [ slots: warp, block, word, lane / 4, half ]
//
// A block without a tile sends nothing, and nobody waits for it. A sweep lies between a read of the slots and the next
// wait for it, so that wait is short. Double-buffered slots would not need the second mbarrier if `st.async` implied
// that its thread's earlier reads are complete. PTX does not promise that, and the race detector reports it.
//
// Nothing else of a kernel knows of the exchange. A cluster finishes a unit's tiles together, also with serial split-K
// and stream-K. Parallel split-K finishes each tile where its last part happens to arrive, so it has no exchange.
#pragma once
#include "pipeline.cuh"
#include "reduce.cuh"
#include "scheduler.cuh"

namespace epilogue::sm90 {

// st.async: two words to a block of the cluster, where an mbarrier counts their bytes. Addresses are `cluster_address`es.
__device__ __forceinline__ void store_async(u32 to, u32 first, u32 second, u32 barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];\n" ::"r"(to),
                 "r"(first), "r"(second), "r"(barrier)
                 : "memory");
}

// A running result as the words in which it travels.
template <typename T>
union Words {
    static constexpr int COUNT = sizeof(T) / 4;
    static_assert(sizeof(T) % 4 == 0);
    u32 word[COUNT];
    T value;
};

// Bytes of one word of all of a warp's rows: two of each of its 8 lines of lanes.
constexpr int EXCHANGED_WORD_BYTES = 64;

// One value for every MMA row, for the sweeps behind, as LineInTile: but the tile has a part of the row, and the cluster's
// others have the rest.
template <class Config, class Op, typename T, typename Value>
struct LineInCluster : OfRows<Config, Op, T> {
    static constexpr int WORDS = Words<T>::COUNT;
    Value result[2];  // of the block of rows that is walked over; after the exchange
    T part[2];

    __device__ __forceinline__ void finish_block(int) {
#pragma unroll
        for (int half = 0; half < 2; ++half) part[half] = this->of_warp(half);
        this->reset();
    }

    // To the place of this lane's rows in a peer's slot.
    __device__ __forceinline__ void send(u32 to, u32 barrier) const {
        Words<T> words[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) words[half].value = part[half];
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            store_async(to + i * EXCHANGED_WORD_BYTES, words[0].word[i], words[1].word[i], barrier);
    }

    // `slots` is where this lane's rows are in the first block's slot.
    template <int SLOT_BYTES>
    __device__ __forceinline__ void fold(const unsigned char* slots, int own, int blocks) {
        T sum[2];
#pragma unroll
        for (int block = 0; block < Config::CLUSTER_COLUMNS; ++block) {
            if (block >= blocks) continue;
            Words<T> words[2];
            if (block == own) {
                words[0].value = part[0];
                words[1].value = part[1];
            } else {
#pragma unroll
                for (int i = 0; i < WORDS; ++i) {
                    const uint2 both =
                        *reinterpret_cast<const uint2*>(slots + block * SLOT_BYTES + i * EXCHANGED_WORD_BYTES);
                    words[0].word[i] = both.x;
                    words[1].word[i] = both.y;
                }
            }
#pragma unroll
            for (int half = 0; half < 2; ++half)
                sum[half] = block == 0 ? words[half].value : Op::combine(sum[half], words[half].value);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) result[half] = narrow<Value>(sum[half]);
    }
};

template <class Config>
struct Exchange {
    using L = Lanes<Config>;
    static constexpr int BLOCKS = Config::CLUSTER_COLUMNS;  // of the cluster, that a line may lie in
    static constexpr int WARPS = 4 * Config::CONSUMERS;
    static_assert(BLOCKS <= 16);
    static constexpr int SLOTS = Config::EXCHANGE_OFFSET + 16 * WARPS;
    static constexpr int SLOT_BYTES = Config::EXCHANGE_WORDS * EXCHANGED_WORD_BYTES;
    static_assert(Config::SPLIT_K != SplitK::Parallel, "all blocks of a cluster finish their tiles, or none does");

    // Of this cluster that have tiles: there is one cluster along a line.
    static __device__ __forceinline__ int blocks_of(const Problem& problem) {
        return Config::SWAP_AB ? problem.tiles_m : problem.tiles_n;
    }

    // By one thread.
    static __device__ __forceinline__ void init(const Problem& problem, u32 shared) {
        for (int warp = 0; warp < WARPS; ++warp) {
            mbarrier_init(shared + Config::EXCHANGE_OFFSET + 16 * warp, 1);
            mbarrier_init(shared + Config::EXCHANGE_OFFSET + 16 * warp + 8, blocks_of(problem));
        }
    }

    // The address of what this block has at `shared` in a block that has another part of its lines.
    static __device__ __forceinline__ u32 in_peer(u32 shared, int peer) {
        const u32 rank = cluster_rank();
        return cluster_address(shared, Config::SWAP_AB ? rank / Config::CLUSTER_M * Config::CLUSTER_M + peer
                                                       : rank % Config::CLUSTER_M + Config::CLUSTER_M * peer);
    }

    // By a warp; `parity` is the same in the warps that exchange.
    template <class... Lines>
    static __device__ __forceinline__ void run(u32& parity, const Work& work, const Problem& problem, Lines&... lines) {
        constexpr int WORDS = (Lines::WORDS + ... + 0);
        static_assert(WORDS <= Config::EXCHANGE_WORDS, "as the host plans");
        if constexpr (WORDS > 0) {
            const int blocks = blocks_of(problem), own = Config::SWAP_AB ? work.tile_m : work.tile_n;
            const int warp = 4 * L::consumer() + L::warp();
            const u32 shared = shared_address(block_memory());
            const u32 full = shared + Config::EXCHANGE_OFFSET + 16 * warp, empty = full + 8;
            const int slots = SLOTS + warp * BLOCKS * SLOT_BYTES + L::lane() / 4 * 8;
            if (L::lane() == 0) mbarrier_expect(full, (blocks - 1) * WORDS * EXCHANGED_WORD_BYTES);
            mbarrier_wait(empty, parity ^ 1);
            // The four lanes of a row have the same values, and a part of the peers each.
#pragma unroll
            for (int first = 0; first < BLOCKS; first += 4) {
                const int peer = first + L::lane() % 4;
                if (peer < blocks && peer != own) {
                    u32 to = in_peer(shared + slots + own * SLOT_BYTES, peer);
                    const u32 counted = in_peer(full, peer);
                    ((lines.send(to, counted), to += Lines::WORDS * EXCHANGED_WORD_BYTES), ...);
                }
            }
            mbarrier_wait(full, parity);
            const unsigned char* from = block_memory() + slots;
            ((lines.template fold<SLOT_BYTES>(from, own, blocks), from += Lines::WORDS * EXCHANGED_WORD_BYTES), ...);
            __syncwarp();  // every lane has read
            if (L::lane() < blocks) mbarrier_arrive_cluster(in_peer(empty, L::lane()));
            parity ^= 1;
        }
    }
};

}  // namespace epilogue::sm90
