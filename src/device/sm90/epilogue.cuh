// Walks a visitor over the accumulators of a tile, in registers, and moves the epilogue's tensors.
//
//   inputs:   aux warp --TMA--> AUX_STAGES steps of shared memory (per warpgroup) --> fragments
//   vectors:  vector warp --> shared memory, as f32 (those along MMA columns); the others straight to registers
//   outputs:  fragments --> OUTPUT_STAGES steps of shared memory (per warpgroup) --TMA--> memory, while the next step or
//             tile goes on
//
// A block of 64 MMA rows is walked over once; or, if the tile has whole lines and later phases are computed from their
// reductions, once for each phase: in SWEEPS. Values that cross from one sweep to the next are in the accumulators'
// registers. The blocks of 64 rows go through all sweeps one after another, so few results are live at a time. If the
// code goes in rounds, the accumulators rotate. If the lines lie in the tiles of a cluster, its blocks exchange their
// parts of the reductions between the sweeps (exchange.cuh).
//
// A visitor has
//   INPUTS, OUTPUTS          whether boxes of tensors are loaded, stored; VECTORS: how many staged vectors;
//   SWEEPS; of each          inputs_of: a bit for each input that it reads; outputs_of: whether boxes are stored;
//                            is_of_lines: whether one element of each line is enough; keeps: whether it writes
//                            to accumulators;
//   Visitor(parameters, work)                      before the main loop: starts the loads of values kept in registers;
//   visit(sweep, accum, block, column, in_step, inputs, outputs)   a unit of every accumulator; `column` and `in_step`
//                                                  are its MMA columns in the tile's results and in the step;
//   finish_block(sweep, block), finish()           reductions;
//   exchange(sweep, parity)                        the cluster's parts of reductions, for lines that lie in its tiles;
//   store_outputs(sweep, row, column, stage)       starts the copies of a step, by one thread;
// and, for the producer's warps, static functions: `needed`, `clear_inputs`, `input_bytes`, `load_inputs`,
// `fill_vectors`.
#pragma once
#include "../sweep.cuh"
#include "exchange.cuh"
#include "fragments.cuh"
#include "pipeline.cuh"
#include "reduce.cuh"
#include "tma.cuh"

namespace epilogue::sm90 {

// A ring without stages, where nothing is copied, is never waited for.
template <int STAGES>
using RingOf = PipelineState<(STAGES > 0 ? STAGES : 1)>;

template <class Config, class Visitor>
struct Epilogue {
    using S = Shape<Config>;
    using C = Control<Config>;
    using L = Lanes<Config>;
    using Accumulator = typename Config::Accumulator;
    using Sums = Accumulator[S::BLOCKS][S::REGISTERS];
    static constexpr int STEPS = Config::WG_COLUMNS / S::COUNT_COLUMNS / Config::STEP;  // of a block of 64 rows
    // Steps whose code stands one after the other. Heavy epilogues go through it several times, each time with the next
    // accumulators in the registers of the first ones: their code, of every step by itself, is more than the instruction
    // caches hold, takes many seconds to compile and needs more registers.
    static constexpr int IN_ROUND = STEPS / Config::EPILOGUE_ROUNDS;
    static_assert(STEPS % Config::EPILOGUE_ROUNDS == 0);
    // Whether whole lines lie in a cluster's tiles: clusters along lines that lie in a tile there are none.
    static constexpr bool EXCHANGES = Visitor::SWEEPS > 1 && Config::CLUSTER_COLUMNS > 1;
    static_assert(!Visitor::INPUTS || Config::AUX_STAGES >= 1);
    static_assert(!Visitor::OUTPUTS || Config::OUTPUT_STAGES >= 1);

    // By one thread.
    static __device__ __forceinline__ void init(const Problem& problem, u32 shared) {
        for (int i = 0; i < C::AUX; ++i) {
            mbarrier_init(shared + C::AUX_FULL + 8 * i, 1);
            mbarrier_init(shared + C::AUX_EMPTY + 8 * i, 4);
        }
        for (int team = 0; Visitor::VECTORS > 0 && team < S::TEAMS; ++team) {
            mbarrier_init(shared + C::VECTORS_FULL + 8 * team, 1);
            mbarrier_init(shared + C::VECTORS_EMPTY + 8 * team, S::TEAM_WARPS);
        }
        for (int team = 0; Config::SPLIT_K == SplitK::Parallel && Visitor::INPUTS && team < S::TEAMS; ++team) {
            mbarrier_init(shared + C::DECIDED + 8 * team, 1);
            mbarrier_init(shared + C::HEARD + 8 * team, 1);
        }
        if constexpr (EXCHANGES) Exchange<Config>::init(problem, shared);
    }

    // Whether a tile's epilogue may be done here: then its vectors are brought. So are its inputs, but in parallel split-K,
    // where only the finisher's are.
    static __device__ __forceinline__ bool may_finish(const Work& work, const Problem& problem) {
        return work.exists && work.ends && (Config::SPLIT_K != SplitK::Serial || work.split == problem.splits - 1);
    }

    static __device__ __forceinline__ int input_stage(int consumer, u32 stage) {
        return Config::AUX_OFFSET + (consumer * Config::AUX_STAGES + static_cast<int>(stage)) * Config::AUX_STAGE_BYTES;
    }

    // ---- The producer's side ----

    // Loads the inputs of a tile for all of a team. By a warp, of which one lane issues.
    template <class Parameters>
    static __device__ __forceinline__ void produce_inputs(RingOf<Config::AUX_STAGES>& ring, const Parameters& parameters,
                                                          u32 needed, const Work& work, int team, u32 shared) {
        if (L::lane() != 0) return;
#pragma unroll 1
        for (int walk = 0; walk < S::RESULT_BLOCKS * Visitor::SWEEPS; ++walk) {
            const int block = walk / Visitor::SWEEPS, sweep = walk % Visitor::SWEEPS;
            if (Visitor::inputs_of(sweep) == 0) continue;
            const u32 of_sweep = needed & Visitor::inputs_of(sweep), bytes = Visitor::input_bytes(of_sweep);
#pragma unroll 1
            for (int column = 0; column < STEPS * Config::STEP; column += Config::STEP) {
#pragma unroll 1
                for (int member = 0; member < S::TEAM; ++member) {
                    const int consumer = team * S::TEAM + member;
                    const u32 place = consumer * Config::AUX_STAGES + ring.stage;
                    const u32 full = shared + C::AUX_FULL + 8 * place;
                    mbarrier_wait(shared + C::AUX_EMPTY + 8 * place, ring.parity ^ 1);
                    mbarrier_expect(full, bytes);
                    Visitor::load_inputs(parameters, of_sweep, work, BlockRows<Config>::first(member, block),
                                         S::first_column(member) + column, input_stage(consumer, ring.stage), full);
                }
                ring.advance();
            }
        }
    }

    // Zeros, once and for all, in place of inputs that need not be read. By a warp, before the first load.
    static __device__ __forceinline__ void clear_inputs(u32 needed) {
        for (int consumer = 0; consumer < Config::CONSUMERS; ++consumer)
            for (int stage = 0; stage < Config::AUX_STAGES; ++stage)
                Visitor::clear_inputs(needed, input_stage(consumer, stage));
        __syncwarp();  // ordered before the arrival of the lane that issues the loads
    }

    // Brings the staged vectors of a tile. By a warp.
    template <class Parameters>
    static __device__ __forceinline__ void produce_vectors(u32& parities, const Parameters& parameters, const Work& work,
                                                           int team, u32 shared) {
        mbarrier_wait(shared + C::VECTORS_EMPTY + 8 * team, (parities >> team & 1) ^ 1);
        Visitor::fill_vectors(parameters, work, team);
        __syncwarp();  // every lane's entries are written before the arrival
        if (L::lane() == 0) mbarrier_arrive(shared + C::VECTORS_FULL + 8 * team);
        parities ^= 1u << team;
    }

    // Parallel split-K: whether the team does the epilogue of its unit, as it decides after the product. By a warp.
    static __device__ __forceinline__ bool hear(u32& parities, int team, u32 shared) {
        mbarrier_wait(shared + C::DECIDED + 8 * team, parities >> team & 1);
        parities ^= 1u << team;
        const bool finishes = *decision(team) != 0;
        __syncwarp();  // every lane has read
        if (L::lane() == 0) mbarrier_arrive(shared + C::HEARD + 8 * team);
        return finishes;
    }
    static __device__ __forceinline__ u32* decision(int team) {
        return reinterpret_cast<u32*>(block_memory() + C::FINISHES) + team;
    }

    // ---- The consumers' side ----

    // What a warpgroup keeps from tile to tile.
    struct State {
        RingOf<Config::AUX_STAGES> inputs;
        u32 output_stage = 0;
        u32 vectors_parity = 0;
        u32 heard_parity = 1;  // nothing has been told that is to be heard first
        u32 exchange_parity = 0;
    };

    // Parallel split-K: tells the warp that brings the inputs whether this team needs them. By all threads of the team.
    static __device__ __forceinline__ void tell(State& state, bool finishes, int thread, u32 shared) {
        if constexpr (Visitor::INPUTS) {
            if (thread == 0) {
                mbarrier_wait(shared + C::HEARD + 8 * L::team(), state.heard_parity);
                *decision(L::team()) = finishes;
                mbarrier_arrive(shared + C::DECIDED + 8 * L::team());
            }
            state.heard_parity ^= 1;
        }
    }

    static __device__ __forceinline__ void wait_for_inputs(const State& state, u32 shared) {
        const u32 place = L::consumer() * Config::AUX_STAGES + state.inputs.stage;
        mbarrier_wait(shared + C::AUX_FULL + 8 * place, state.inputs.parity);
    }
    static __device__ __forceinline__ void release_inputs(State& state, u32 shared) {
        const u32 place = L::consumer() * Config::AUX_STAGES + state.inputs.stage;
        __syncwarp();  // every lane has read
        if (L::lane() == 0) mbarrier_arrive(shared + C::AUX_EMPTY + 8 * place);
        state.inputs.advance();
    }
    static __device__ __forceinline__ void wait_for_vectors(const State& state, u32 shared) {
        mbarrier_wait(shared + C::VECTORS_FULL + 8 * L::team(), state.vectors_parity);
    }
    static __device__ __forceinline__ void release_vectors(State& state, u32 shared) {
        __syncwarp();  // every lane has read
        if (L::lane() == 0) mbarrier_arrive(shared + C::VECTORS_EMPTY + 8 * L::team());
        state.vectors_parity ^= 1;
    }

    // Gives a tile's vectors back unread: another team does its epilogue.
    static __device__ __forceinline__ void discard_vectors(State& state, u32 shared) {
        if constexpr (Visitor::VECTORS > 0) {
            wait_for_vectors(state, shared);
            release_vectors(state, shared);
        }
    }

    // Register `r` of accumulator `i` of a block of the results.
    template <class AnySums>
    static __device__ __forceinline__ auto& value(AnySums& acc, int i, int block, int r) {
        const int row = Config::SWAP_AB ? i : 0, column = Config::SWAP_AB ? 0 : i;
        return acc[block * S::COUNT_ROWS + row][column * S::RESULT_REGISTERS + r];
    }

    // One step: a block's columns [column, column + STEP) of the warpgroup, whose accumulators are those of the columns
    // [place, place + STEP). Block and place are known when the loops are unrolled, as they must be: they name registers.
    template <int SWEEP>
    static __device__ __forceinline__ void step(Visitor& visitor, Sums& acc, int block, int place, int column, State& state,
                                                u32 shared) {
        constexpr bool INPUTS = Visitor::inputs_of(SWEEP) != 0, OUTPUTS = Visitor::outputs_of(SWEEP);
        const bool issues = threadIdx.x % WARPGROUP == 0;
        const int outputs = Config::OUTPUT_OFFSET + (L::consumer() * Config::OUTPUT_STAGES +
                                                     static_cast<int>(state.output_stage)) * Config::OUTPUT_STAGE_BYTES;
        if constexpr (OUTPUTS && Config::OUTPUT_STAGES == 1) {
            if (issues) store_wait_read<0>();
            warpgroup_sync<Config::CONSUMERS>(L::consumer());  // the stage has been stored
        }
        if constexpr (INPUTS) wait_for_inputs(state, shared);
        const int inputs = input_stage(L::consumer(), state.inputs.stage);
#pragma unroll
        for (int in_step = 0; in_step < (Visitor::is_of_lines(SWEEP) ? L::WIDTH : Config::STEP); in_step += L::WIDTH) {
            Accumulator accum[S::COUNT][L::V];
#pragma unroll
            for (int i = 0; i < S::COUNT; ++i)
#pragma unroll
                for (int v = 0; v < L::V; ++v) accum[i][v] = value(acc, i, block, (place + in_step) / 2 + v);
            visitor.visit(Sweep<SWEEP>(), accum, block, S::first_column(L::member()) + column + in_step, in_step, inputs,
                          outputs);
            if constexpr (Visitor::keeps(SWEEP)) {
#pragma unroll
                for (int i = 0; i < S::COUNT; ++i)
#pragma unroll
                    for (int v = 0; v < L::V; ++v) value(acc, i, block, (place + in_step) / 2 + v) = accum[i][v];
            }
        }
        if constexpr (INPUTS) release_inputs(state, shared);
        if constexpr (OUTPUTS) {
            fence_shared_for_copies();
            // What the next step writes to has been read: the barrier tells everyone. All other stages may still be on
            // their way.
            if constexpr (Config::OUTPUT_STAGES >= 2) {
                if (issues) store_wait_read<Config::OUTPUT_STAGES - 2>();
            }
            warpgroup_sync<Config::CONSUMERS>(L::consumer());  // the stage is complete, and everyone's writes fenced
            if (issues) {
                visitor.store_outputs(Sweep<SWEEP>(), BlockRows<Config>::first(L::member(), block),
                                      S::first_column(L::member()) + column, outputs);
                store_commit();
            }
            state.output_stage = state.output_stage + 1 == Config::OUTPUT_STAGES ? 0 : state.output_stage + 1;
        }
    }

    // Puts the accumulators behind the first DONE ones in their place, and these behind the others if there is another sweep.
    // Each accumulator's by itself.
    template <int DONE, bool AGAIN>
    static __device__ __forceinline__ void rotate(Sums& acc, int block) {
#pragma unroll
        for (int i = 0; i < S::COUNT; ++i) {
            Accumulator done[DONE];
#pragma unroll
            for (int r = 0; r < DONE; ++r) done[r] = value(acc, i, block, r);
#pragma unroll
            for (int r = 0; r < S::RESULT_REGISTERS - DONE; ++r) value(acc, i, block, r) = value(acc, i, block, r + DONE);
            if constexpr (AGAIN) {
#pragma unroll
                for (int r = 0; r < DONE; ++r) value(acc, i, block, S::RESULT_REGISTERS - DONE + r) = done[r];
            }
        }
    }

    // The sweeps of a block from this one on.
    template <int SWEEP>
    static __device__ __forceinline__ void sweep(Visitor& visitor, Sums& acc, int block, State& state, u32 shared) {
        if constexpr (SWEEP < Visitor::SWEEPS) {
            if constexpr (Visitor::is_of_lines(SWEEP)) {
                step<SWEEP>(visitor, acc, block, 0, 0, state, shared);
            } else {
#pragma unroll 1
                for (int round = 0; round < Config::EPILOGUE_ROUNDS; ++round) {
                    const int first = round * IN_ROUND * Config::STEP;
#pragma unroll
                    for (int i = 0; i < IN_ROUND; ++i)
                        step<SWEEP>(visitor, acc, block, i * Config::STEP, first + i * Config::STEP, state, shared);
                    rotate<IN_ROUND * Config::STEP / 2, SWEEP + 1 < Visitor::SWEEPS>(acc, block);
                }
            }
            visitor.finish_block(Sweep<SWEEP>(), block);
            if constexpr (EXCHANGES) visitor.exchange(Sweep<SWEEP>(), state.exchange_parity);
            sweep<SWEEP + 1>(visitor, acc, block, state, shared);
        }
    }

    // The accumulators are lost.
    static __device__ __forceinline__ void run(Visitor& visitor, Sums& acc, State& state, u32 shared) {
        if constexpr (Visitor::VECTORS > 0) wait_for_vectors(state, shared);
#pragma unroll
        for (int block = 0; block < S::RESULT_BLOCKS; ++block) sweep<0>(visitor, acc, block, state, shared);
        if constexpr (Visitor::VECTORS > 0) release_vectors(state, shared);
        visitor.finish();
    }

    // Before the block ends: what it stores is in memory.
    static __device__ __forceinline__ void drain() {
        if constexpr (Visitor::OUTPUTS) {
            if (threadIdx.x % WARPGROUP == 0) store_wait_all();
        }
    }
};

}  // namespace epilogue::sm90
