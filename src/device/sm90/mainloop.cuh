// The main loop of a tile: one thread feeds a pipeline (ring) of STAGES k-tiles, the consumer warpgroups multiply.
//
//   stage s of shared memory:  [ A: MMA_ROWS x TILE_K ]  and  [ B: MMA_COLUMNS x TILE_K ]
//
//   producer   wait empty[s] | announce the bytes at full[s] | load this block's share of A and B,
//                              multicast to the blocks that use it;
//   consumer   wait full[s]  | start the MMAs                | wait for the MMAs of the stage before (of this one, if
//                              PENDING is 0), release it.
//
// A stage is refilled by several blocks of a cluster, so its consumers arrive at the `empty` of each of them: those in
// the same row of the cluster (they share A) and those in the same column (they share B).
#pragma once
#include "pipeline.cuh"
#include "scheduler.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

namespace epilogue::sm90 {

// A block's place in its cluster, in MMA rows and columns.
template <class Config>
struct ClusterPlace {
    static constexpr int ROWS = Config::CLUSTER_ROWS, COLUMNS = Config::CLUSTER_COLUMNS;
    static_assert(ROWS * COLUMNS == Shape<Config>::CLUSTER);
    u32 rank, row, column;

    __device__ __forceinline__ ClusterPlace() : rank(0), row(0), column(0) {
        if constexpr (Shape<Config>::CLUSTER > 1) {
            rank = cluster_rank();
            row = Config::SWAP_AB ? rank / COLUMNS : rank % ROWS;
            column = Config::SWAP_AB ? rank % COLUMNS : rank / ROWS;
        }
    }

    static __device__ __forceinline__ u32 rank_of(u32 row, u32 column) {
        return Config::SWAP_AB ? row * COLUMNS + column : column * ROWS + row;
    }

    // The blocks that share A with this one, and those that share B, as masks of ranks.
    __device__ __forceinline__ unsigned short same_row() const {
        u32 mask = 0;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) mask |= 1u << rank_of(row, c);
        return static_cast<unsigned short>(mask);
    }
    __device__ __forceinline__ unsigned short same_column() const {
        u32 mask = 0;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) mask |= 1u << rank_of(r, column);
        return static_cast<unsigned short>(mask);
    }

    // The blocks that share anything with this one, itself included, from 0 to SHARERS - 1.
    static constexpr int SHARERS = ROWS + COLUMNS - 1;
    __device__ __forceinline__ u32 sharer(u32 i) const {
        if (i < COLUMNS) return rank_of(row, i);
        const u32 other = i - COLUMNS;
        return rank_of(other < row ? other : other + 1, column);
    }
};

__device__ __forceinline__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

// One operand's part of a stage: EXTENT rows (columns) of the tile, loaded by SHARERS blocks together. Of PARTS operands,
// which share it in runs of RUN, every box is of one.
template <class Config, int ELEMENT_BYTES, Major MAJOR, int EXTENT, int PARTS, int RUN, int SHARERS, int STAGE_BYTES, Hint HINT>
struct OperandStage {
    static constexpr int BOX = MAJOR == Major::K ? common_divisor(RUN, EXTENT / SHARERS) : 64;  // of the extent
    static constexpr int BOXES = (EXTENT + BOX - 1) / BOX;
    static constexpr int BOX_BYTES = BOX * Config::TILE_K * ELEMENT_BYTES;
    static_assert(MAJOR == Major::MN || (EXTENT % SHARERS == 0 && BOX % 8 == 0 && BOX <= 256));
    static_assert(MAJOR == Major::K || ELEMENT_BYTES == 2, "wgmma takes only 16-bit types MN-major");
    static_assert(BOXES % SHARERS == 0 && BOXES * BOX_BYTES == STAGE_BYTES);
    static_assert(PARTS == 1 || (RUN % BOX == 0 && EXTENT % (RUN * PARTS) == 0));

    // This block's share, which is number `share`, of the rows from `first` on. `maps` are the operands'; bit i of `batched`
    // is set where operand i is not shared by all batches.
    static __device__ __forceinline__ void load(u32 stage, const TensorMap* maps, u32 full, int first, int k, int batched,
                                                int batch, u32 share, unsigned short sharers) {
#pragma unroll
        for (int i = 0; i < BOXES / SHARERS; ++i) {
            const int box = static_cast<int>(share) * (BOXES / SHARERS) + i;
            const u32 to = stage + box * BOX_BYTES;
            const int row = box * BOX;
            const int part = PARTS == 1 ? 0 : row / RUN % PARTS;
            const int at = first + (PARTS == 1 ? row : row / (RUN * PARTS) * RUN + row % RUN);
            const TensorMap& map = maps[part];
            const int z = batched >> part & 1 ? batch : 0;
            const int x = MAJOR == Major::K ? k : at, y = MAJOR == Major::K ? at : k;
            if constexpr (SHARERS > 1) {
                load_box_multicast<HINT>(to, map, full, x, y, z, sharers);
            } else {
                load_box<HINT>(to, map, full, x, y, z);
            }
        }
    }
};

// What becomes of a promoted k-tile's sums: they are added to the accumulators. scaled.cuh has another.
template <class Config>
struct Promotion {
    using Sums = typename Config::Accumulator[Shape<Config>::BLOCKS][Shape<Config>::REGISTERS];

    __device__ __forceinline__ void add(Sums& acc, const Sums& part) const {
#pragma unroll
        for (int i = 0; i < Shape<Config>::BLOCKS; ++i)
#pragma unroll
            for (int r = 0; r < Shape<Config>::REGISTERS; ++r) acc[i][r] += part[i][r];
    }
};

template <class Config>
struct Mainloop {
    using S = Shape<Config>;
    using C = Control<Config>;
    using Cluster = ClusterPlace<Config>;
    using Accumulator = typename Config::Accumulator;
    using Ring = PipelineState<Config::STAGES>;
    using OfConsumer = Ring;  // what a consumer waits for: stages
    using AStage = OperandStage<Config, Config::A_ELEMENT_BYTES, Config::A_MAJOR, Config::MMA_ROWS, S::COUNT_ROWS,
                                S::COUNT_ROWS == 1 ? Config::MMA_ROWS : 64, Config::CLUSTER_COLUMNS,
                                Config::A_STAGE_BYTES, Config::A_HINT>;
    using BStage = OperandStage<Config, Config::B_ELEMENT_BYTES, Config::B_MAJOR, Config::MMA_COLUMNS, S::COUNT_COLUMNS,
                                S::RESULT_COLUMNS, Config::CLUSTER_ROWS, Config::B_STAGE_BYTES, Config::B_HINT>;
    static_assert(Config::PENDING == 0 || (Config::PENDING == 1 && !Config::PROMOTE));
    static_assert(Config::STAGE_TX_BYTES == Config::A_STAGE_BYTES + Config::B_STAGE_BYTES);

    // By one thread, before the cluster's first barrier.
    static __device__ __forceinline__ void init(u32 shared) {
        for (int s = 0; s < Config::STAGES; ++s) {
            mbarrier_init(shared + C::FULL + 8 * s, 1);
            // Products in tensor memory are one thread's.
            mbarrier_init(shared + C::EMPTY + 8 * s,
                          Cluster::SHARERS * (HasTensorMemory<Config>::VALUE ? 1 : S::TEAM_WARPS));
        }
    }

    // Loads all k-tiles of a tile; which of the operands are batched, as `Common` has it. By one thread.
    static __device__ __forceinline__ void produce(Ring& ring, const TensorMap* maps, const Work& work, int a_batched,
                                                   int b_batched, const Cluster& cluster, u32 shared) {
        // The instruction's first operand is B where SWAP_AB.
        const TensorMap* const first = maps + (Config::SWAP_AB ? 1 : 0);
        const TensorMap* const second = maps + (Config::SWAP_AB ? 0 : 1);
        const int first_batched = Config::SWAP_AB ? b_batched : a_batched;
        const int second_batched = Config::SWAP_AB ? a_batched : b_batched;
        const int row = Config::SWAP_AB ? work.n : work.m, column = Config::SWAP_AB ? work.m : work.n;
        const unsigned short same_row = cluster.same_row(), same_column = cluster.same_column();
        int k = work.k_begin;
#pragma unroll 1
        for (int kt = 0; kt < work.k_tiles; ++kt) {
            const u32 empty = shared + C::EMPTY + 8 * ring.stage, full = shared + C::FULL + 8 * ring.stage;
            mbarrier_wait(empty, ring.parity ^ 1);
            mbarrier_expect(full, Config::STAGE_TX_BYTES);
            AStage::load(shared + Config::A_OFFSET + ring.stage * Config::A_STAGE_BYTES, first, full, row, k,
                         first_batched, work.batch, cluster.column, same_row);
            BStage::load(shared + Config::B_OFFSET + ring.stage * Config::B_STAGE_BYTES, second, full, column,
                         k, second_batched, work.batch, cluster.row, same_column);
            k += Config::TILE_K;
            ring.advance();
        }
    }

    // Fills the first stage with zeros: where K is 0 there is nothing to load, and the consumers multiply that. By all
    // threads of the block, before a barrier. A second way for the consumers to get their accumulators would cost
    // registers in every product.
    static __device__ __forceinline__ void clear(u32 shared) {
        for (int at = 16 * static_cast<int>(threadIdx.x); at < Config::A_STAGE_BYTES; at += 16 * S::THREADS)
            store_shared_16(shared + Config::A_OFFSET + at, 0, 0, 0, 0);
        for (int at = 16 * static_cast<int>(threadIdx.x); at < Config::B_STAGE_BYTES; at += 16 * S::THREADS)
            store_shared_16(shared + Config::B_OFFSET + at, 0, 0, 0, 0);
        fence_shared_for_copies();  // the products read as TMA does
    }

    // Passes over a tile that another team has.
    static __device__ __forceinline__ void skip(OfConsumer& ring, int k_tiles, bool loaded) {
        if (loaded) ring.skip(k_tiles);
    }

    // How a lane of a consumer gives stages back.
    struct Release {
        u32 address;  // of empty[0], here or in the block that this lane tells
        bool arrives;

        __device__ __forceinline__ Release(u32 shared, const Cluster& cluster) {
            const u32 lane = threadIdx.x % 32;
            arrives = lane < Cluster::SHARERS;
            address = shared + C::EMPTY;
            if constexpr (S::CLUSTER > 1) address = cluster_address(address, arrives ? cluster.sharer(lane) : 0);
        }

        __device__ __forceinline__ void operator()(u32 stage) const {
            if (!arrives) return;
            if constexpr (S::CLUSTER > 1) {
                mbarrier_arrive_cluster(address + 8 * stage);
            } else {
                mbarrier_arrive(address + 8 * stage);
            }
        }
    };

    // The ring's stage, the same in all lanes and known to the compiler as such: what is computed of it then stays in
    // uniform registers, where the products want their descriptors.
    static __device__ __forceinline__ u32 uniform_stage(const Ring& ring) {
        return __shfl_sync(0xffffffffu, ring.stage, 0);
    }

    // One k-tile, from stage `stage`: all of a warpgroup's products, started.
    template <class Multiply>
    static __device__ __forceinline__ void start(Accumulator (&acc)[S::BLOCKS][S::REGISTERS], u32 a_tile, u32 b_tile,
                                                 u32 stage, bool accumulate) {
        using A = Descriptor<Config::A_MAJOR, Config::TILE_K>;
        using B = Descriptor<Config::B_MAJOR, Config::TILE_K>;
        const u64 a = A::of(a_tile + stage * Config::A_STAGE_BYTES), b = B::of(b_tile + stage * Config::B_STAGE_BYTES);
        hold(acc);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step)  // 32 bytes of K each
#pragma unroll
            for (int i = 0; i < S::BLOCKS; ++i)
                Multiply::run(acc[i], a + step * A::STEP + i * A::BLOCK, b + step * B::STEP, accumulate || step != 0);
        wgmma_commit();
    }

    static __device__ __forceinline__ void set_zero(Accumulator (&acc)[S::BLOCKS][S::REGISTERS]) {
#pragma unroll
        for (int i = 0; i < S::BLOCKS; ++i)
#pragma unroll
            for (int r = 0; r < S::REGISTERS; ++r) acc[i][r] = 0;
    }

    // The product of `k_tiles` k-tiles by warpgroup `member` of a team. `loaded` is false where the first stage is all
    // there is. Calls `last_begun` when nothing is waited for any more but the products.
    template <class Multiply, class OfPromotion, class LastBegun>
    static __device__ __forceinline__ void consume(Accumulator (&acc)[S::BLOCKS][S::REGISTERS], Ring& ring, int k_tiles,
                                                   bool loaded, int member, OfPromotion promotion, const Release& release,
                                                   u32 shared, LastBegun last_begun) {
        constexpr bool FROM_ZEROS = !Need<Config>::EVERYWHERE;  // a tile may have no k-tiles
        if constexpr (S::TEAM > 1) member = __shfl_sync(0xffffffffu, member, 0);  // likewise
        const u32 a_tile = shared + Config::A_OFFSET +
                           Descriptor<Config::A_MAJOR, Config::TILE_K>::offset(S::first_row(member));
        const u32 b_tile = shared + Config::B_OFFSET +
                           Descriptor<Config::B_MAJOR, Config::TILE_K>::offset(S::first_column(member));
        if constexpr (Config::PROMOTE) {
            // Tensor cores keep 14 bits of a sum of FP8 products: each k-tile is summed by itself, and the k-tiles
            // in f32, from zeros on: to choose the first one's by its number would be an instruction for every value.
            set_zero(acc);
            if (FROM_ZEROS && k_tiles == 0) {
                __syncwarp();  // every lane has its turn before one passes it on
                last_begun();
            }
#pragma unroll 1
            for (int kt = 0; kt < k_tiles; ++kt) {
                if (loaded) mbarrier_wait(shared + C::FULL + 8 * ring.stage, ring.parity);
                Accumulator part[S::BLOCKS][S::REGISTERS];
                start<Multiply>(part, a_tile, b_tile, uniform_stage(ring), false);
                if (kt == k_tiles - 1) last_begun();
                wgmma_wait<0>();
                hold(part);
                if (loaded) {
                    release(ring.stage);
                    ring.advance();
                }
                promotion.add(acc, part);
            }
        } else {
            u32 before = 0;  // with products pending: the stage that they read
            if constexpr (FROM_ZEROS) {
                set_zero(acc);
                if (k_tiles == 0) {
                    __syncwarp();
                    if constexpr (Config::PENDING == 0) last_begun();
                }
            }
#pragma unroll 1
            for (int kt = 0; kt < k_tiles; ++kt) {
                if (loaded) mbarrier_wait(shared + C::FULL + 8 * ring.stage, ring.parity);
                start<Multiply>(acc, a_tile, b_tile, uniform_stage(ring), FROM_ZEROS || kt != 0);
                if constexpr (Config::PENDING == 0) {
                    if (kt == k_tiles - 1) last_begun();
                }
                wgmma_wait<Config::PENDING>();
                hold(acc);
                if constexpr (Config::PENDING == 0) {
                    if (loaded) release(ring.stage);
                } else {
                    if (kt != 0) release(before);
                    before = ring.stage;
                }
                if (loaded) ring.advance();
            }
            if constexpr (Config::PENDING > 0) {
                last_begun();
                wgmma_wait<0>();
                hold(acc);
                if (loaded && (!FROM_ZEROS || k_tiles > 0)) release(before);
            }
        }
    }
};

}  // namespace epilogue::sm90
