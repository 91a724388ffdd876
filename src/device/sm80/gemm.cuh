// The GEMM kernel for sm_80 and up: one block, one tile, one part of K; with stream-K one after another.
//
//   schedule -> product (cp.async ring, mma.sync) -> split-K -> epilogue (visitor) -> reductions
//
// Dynamic shared memory:  [ ring of STAGES k-tiles ]  during the product, then  [ accumulators, warp by warp ].
#pragma once
#include "../needed.cuh"
#include "epilogue.cuh"
#include "split_k.cuh"

namespace epilogue::sm80 {

// What every kernel of this family needs; the epilogue's own arguments follow it in the kernel's parameter.
template <class Config>
struct Common {
#include "Common.fields"
};

// A, as its loader takes it; patches.cuh and picked.cuh have others.
template <class Config>
__device__ __forceinline__ const Operand& operand_a(const Common<Config>& common) {
    return common.a;
}

// What the products are added to.
template <class Config, class Sums, class OfWork>
__device__ __forceinline__ auto sums_of(const Common<Config>&, Sums& acc, const OfWork&, int) {
    return typename SelectSums<Config::ARITHMETIC, Sums>::Type{acc};
}

// Bytes of dynamic shared memory.
template <class Config>
inline constexpr int SHARED_BYTES = Mainloop<Config>::SHARED_BYTES > Staging<Config>::SHARED_BYTES
                                        ? Mainloop<Config>::SHARED_BYTES
                                        : Staging<Config>::SHARED_BYTES;

// The product of what `find_work` says; `complete` makes of it the sum of the tile, and says whether it is here.
template <class Config, class Visitor, class Parameters, class FindWork, class Complete>
__device__ __forceinline__ void multiply(const Parameters& parameters, unsigned char* shared, FindWork find_work,
                                         Complete complete) {
    using Loop = Mainloop<Config>;
    const Common<Config>& common = parameters.common;
    const Problem& problem = common.problem;

    typename Loop::Accumulator acc[Loop::MI][Loop::NJ][2][2];
#pragma unroll
    for (int i = 0; i < Loop::MI; ++i)
#pragma unroll
        for (int j = 0; j < Loop::NJ; ++j)
#pragma unroll
            for (int r = 0; r < 4; ++r) acc[i][j][r / 2][r % 2] = 0;

    const auto part = find_work();
    const int thread = thread_in_tile<Config>();
    const int end_m = rows_end(part, problem);
    const bool needed = needs_product<Config>(parameters, part.m, part.n, Config::TILE_M, Parts<Config>::COLUMNS, end_m,
                                              problem.n, part.batch);
    auto sums = sums_of<Config>(parameters.common, acc, part, thread);
    Loop::run(sums, operand_a(parameters.common), common.b, part.m, part.n, end_m, problem.n, part.k_begin,
              needed ? part.k_end : part.k_begin, part.batch, thread, shared_address(shared));
    if (!complete(acc)) return;
    const auto work = find_work();
    Visitor visitor(parameters, work, Walk<Config>::column());
    Staging<Config>::run(visitor, acc, work, shared);
}

template <class Config, class Visitor, class Parameters>
__device__ __forceinline__ void gemm(const Parameters& parameters) {
    using Loop = Mainloop<Config>;
    using Sums = typename Loop::Accumulator[Loop::MI][Loop::NJ][2][2];
    using Reduction = SplitKReduction<Config>;
    extern __shared__ __align__(128) unsigned char shared[];
    const Common<Config>& common = parameters.common;
    if constexpr (Config::SPLIT_K == SplitK::Stream) {
        const StreamSchedule<Config> schedule{common.problem, common.line};
#pragma unroll 1
        for (u32 place = schedule.first(); schedule.exists(place); place = schedule.after(place)) {
            // Anew: during the product there are no registers for it.
            const auto find_work = [&]() { return schedule.work(anew(place)); };
            multiply<Config, Visitor>(parameters, shared, find_work, [&](Sums& acc) {
                return Reduction::complete_part(acc, schedule, place, common.split_k_sums, common.split_k_counters);
            });
            __syncthreads();  // everyone has read what the next copies write over
        }
    } else {
        const Work work = schedule<Config>(common.problem, blockIdx.x);
        const auto find_work = [&]() { return work; };
        multiply<Config, Visitor>(parameters, shared, find_work, [&](Sums& acc) {
            return Reduction::complete(acc, work, common.problem, common.split_k_sums, common.split_k_counters);
        });
    }
}

}  // namespace epilogue::sm80
