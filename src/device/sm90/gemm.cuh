// The GEMM kernel for sm_90a: persistent, warp-specialised blocks.
//
//   producer warpgroup   warp 0: A and B, by TMA, for the whole cluster
//                        warp 1: the epilogue's tensors, by TMA
//                        warp 2: the epilogue's vectors
//                        warp 3: products in tensor memory, where there is one (../sm100/)
//   consumer warpgroups  products (wgmma) -> split-K -> epilogue (visitor on fragments) -> reductions
//
// All roles walk through the same units of work in the same order and meet only at mbarriers.
//
// Dynamic shared memory, from a multiple of 1024 bytes (offsets are Config's):
//
//   [ A: STAGES ] [ B: STAGES ] [ outputs: warpgroup, stage ] [ inputs: warpgroup, stage ] [ vectors ] [ reductions ]
//   [ exchange ] [ mbarriers, words ]
#pragma once
#include "epilogue.cuh"
#include "mainloop.cuh"
#include "split_k.cuh"

namespace epilogue::sm90 {

// What every kernel of this family needs beside its tensor maps; the epilogue's own arguments follow it.
struct Common {
#include "Common.fields"
};

// How A and B are loaded: by boxes of matrices. Kernels of another A specialise it for their `Config`.
template <class Config>
struct Loads {
    template <class Parameters>
    static __device__ __forceinline__ void produce(typename Mainloop<Config>::Ring& ring, const Parameters& parameters,
                                                   const Work& work, const ClusterPlace<Config>& cluster, u32 shared) {
        const auto& common = parameters.common;
        Mainloop<Config>::produce(ring, parameters.maps, work, common.a_batched, common.b_batched, cluster, shared);
    }
};

// How a consumer multiplies: both operands from shared memory. Kernels that convert one specialise it for their `Config`.
template <class Config>
struct Products : Mainloop<Config> {};

template <class Config>
__device__ __forceinline__ Promotion<Config> promotion_of(const Common&, const Work&) {
    return {};
}

template <class Config, class Multiply, class Visitor, class Parameters>
struct Gemm {
    using S = Shape<Config>;
    using L = Lanes<Config>;
    using Loop = Mainloop<Config>;
    using Tail = Epilogue<Config, Visitor>;
    using Cluster = ClusterPlace<Config>;

    // Calls `visit(work, turn)` for every unit, or part of one, of this block.
    template <class Visit>
    static __device__ __forceinline__ void for_each_unit(const Common& common, u32 rank, Visit visit) {
        const Problem& problem = common.problem;
        int turn = 0;
        if constexpr (Config::SPLIT_K == SplitK::Stream) {
            // A scheduler for every question: its numbers stay in no register during the product.
            const auto scheduler = [&] { return Scheduler<Config>(common.deal); };
#pragma unroll 1
            for (u32 place = scheduler().first_place(); scheduler().exists(place); place = scheduler().place_after(place))
                visit(scheduler().work_at(problem, place, rank), turn++);
        } else {
            const Scheduler<Config> scheduler(common.deal);
#pragma unroll 1
            for (u32 unit = scheduler.first(); unit < common.deal.units; unit += scheduler.stride())
                visit(scheduler.work(problem, unit, rank), turn++);
        }
    }

    // Which team has the tile of a turn.
    static __device__ __forceinline__ int team_of(int turn) { return S::PINGPONG ? turn % 2 : 0; }

    static __device__ __forceinline__ void produce(const Parameters& parameters, const Cluster& cluster, u32 shared) {
        const Common& common = parameters.common;
        const int warp = static_cast<int>(threadIdx.x) / 32;
        if (warp == 0) {
            if (L::lane() != 0 || common.problem.k == 0) return;
            typename Loop::Ring ring;
            for_each_unit(common, cluster.rank, [&](const Work& work, int) {
                Loads<Config>::produce(ring, parameters, as_needed<Config>(work, parameters, cluster.rank), cluster, shared);
            });
            if constexpr (Config::DEPENDENT_LAUNCH) let_next_launch_start();
        } else if (warp == 1) {
            if constexpr (Visitor::INPUTS) {
                const u32 needed = Visitor::needed(parameters);
                Tail::clear_inputs(needed);
                RingOf<Config::AUX_STAGES> rings[S::TEAMS];
                u32 heard = 0;
                for_each_unit(common, cluster.rank, [&](const Work& work, int turn) {
                    if (!Tail::may_finish(work, common.problem)) return;
                    if constexpr (Config::SPLIT_K == SplitK::Parallel) {
                        if (!Tail::hear(heard, team_of(turn), shared)) return;
                    }
                    if (S::TEAMS == 1 || team_of(turn) == 0) {
                        Tail::produce_inputs(rings[0], parameters, needed, work, 0, shared);
                    } else {
                        Tail::produce_inputs(rings[S::TEAMS - 1], parameters, needed, work, 1, shared);
                    }
                });
            }
        } else if (warp == 2) {
            if constexpr (Visitor::VECTORS > 0) {
                u32 parities = 0;
                for_each_unit(common, cluster.rank, [&](const Work& work, int turn) {
                    if (Tail::may_finish(work, common.problem))
                        Tail::produce_vectors(parities, parameters, work, team_of(turn), shared);
                });
            }
        } else if (warp == 3) {
            if constexpr (HasTensorMemory<Config>::VALUE) {
                if (L::lane() != 0) return;
                typename Products<Config>::template Issuer<Multiply> issuer(cluster, shared);
                for_each_unit(common, cluster.rank, [&](const Work& work, int) {
                    issuer.run(as_needed<Config>(work, parameters, cluster.rank).k_tiles, common.problem.k > 0);
                });
            }
        }
    }

    static __device__ __forceinline__ void consume(const Parameters& parameters, const Cluster& cluster, u32 shared) {
        const Common& common = parameters.common;
        const Problem& problem = common.problem;
        const int thread = L::member() * WARPGROUP + static_cast<int>(threadIdx.x) % WARPGROUP;  // of the team
        const typename Products<Config>::Release release(shared, cluster);
        typename Products<Config>::OfConsumer ring;
        typename Tail::State state;
        Turns<Config> turns(shared);
        typename Config::Accumulator acc[S::BLOCKS][S::REGISTERS];
        for_each_unit(common, cluster.rank, [&](const Work& unit, int turn) {
            const Work work = as_needed<Config>(unit, parameters, cluster.rank);
            if (team_of(turn) != L::team()) {
                Products<Config>::skip(ring, work.k_tiles, problem.k > 0);
                return;
            }
            Visitor visitor(parameters, work);
            const auto promotion = promotion_of<Config>(parameters.common, work);
            turns.wait(L::team());
            Products<Config>::template consume<Multiply>(acc, ring, work.k_tiles, problem.k > 0, L::member(), promotion,
                                                         release, shared, [&] { turns.pass_on(L::team()); });
            if (!work.exists) return;
            if (!SplitKReduction<Config>::complete(acc, work, problem, common.deal, common.split_k_sums,
                                                   common.split_k_counters, L::team(), thread, block_memory(),
                                                   [&](bool mine) { Tail::tell(state, mine, thread, shared); })) {
                if constexpr (Config::SPLIT_K == SplitK::Parallel) Tail::discard_vectors(state, shared);
                return;
            }
            Tail::run(visitor, acc, state, shared);
        });
        Tail::drain();
    }

    static __device__ __forceinline__ void run(const Parameters& parameters) {
        const u32 shared = shared_address(block_memory());
        // First, since the call in it keeps values of registers in memory.
        if constexpr (HasTensorMemory<Config>::VALUE) Products<Config>::allocate(shared);
        const Cluster cluster;
        // The same in all lanes, and known to the compiler as such.
        const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / WARPGROUP, 0);
        if (threadIdx.x == 0) {
            Loop::init(shared);
            Tail::init(parameters.common.problem, shared);
            Turns<Config>::init(shared);
            if constexpr (HasTensorMemory<Config>::VALUE) Products<Config>::init(shared);
            fence_mbarrier_init();
        }
        if (parameters.common.problem.k == 0) {
            Loop::clear(shared);
            if constexpr (S::CLUSTER > 1) __syncthreads();  // the cluster's barrier orders no writes
        } else if (threadIdx.x == WARPGROUP / 2) {
            // TMA's first copy through a map would wait for it.
            for (const TensorMap& map : parameters.maps) prefetch_map(map);
        }
        if constexpr (S::CLUSTER > 1) {
            __syncwarp();  // the barrier is an aligned one
            cluster_sync_mbarriers();  // every block's barriers are there before anyone arrives at them
        } else {
            __syncthreads();
        }
        if constexpr (Config::DEPENDENT_LAUNCH) wait_for_previous_launch();
        if (warpgroup == 0) {
            if constexpr (Config::PRODUCER_REGISTERS > 0) give_registers<Config::PRODUCER_REGISTERS>();
            produce(parameters, cluster, shared);
        } else {
            if constexpr (Config::CONSUMER_REGISTERS > 0) take_registers<Config::CONSUMER_REGISTERS>();
            consume(parameters, cluster, shared);
        }
        if constexpr (S::CLUSTER > 1) {
            __syncwarp();  // the barrier is an aligned one
            cluster_sync();  // nobody leaves while others may still arrive at its barriers
        }
        if constexpr (HasTensorMemory<Config>::VALUE) Products<Config>::free();
    }
};

}  // namespace epilogue::sm90
