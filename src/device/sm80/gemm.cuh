// The GEMM kernel for sm_80 and up: one block, one tile, one part of K.
//
//   schedule -> product (cp.async ring, mma.sync) -> split-K -> epilogue (visitor) -> reductions
//
// Dynamic shared memory:  [ ring of STAGES blocks of K ]  during the product, then  [ accumulators, warp by warp ].
#pragma once
#include "epilogue.cuh"
#include "split_k.cuh"

namespace epilogue::sm80 {

// What every kernel of this family needs; the epilogue's own arguments follow it in the kernel's parameter.
struct Common {
    Operand a, b;
    Problem problem;
    void* split_k_sums;
    u32* split_k_counters;
};

// Bytes of dynamic shared memory.
template <class Config>
inline constexpr int SHARED_BYTES = Mainloop<Config>::SHARED_BYTES > Staging<Config>::SHARED_BYTES
                                        ? Mainloop<Config>::SHARED_BYTES
                                        : Staging<Config>::SHARED_BYTES;

template <class Config, class Visitor, class Parameters>
__device__ __forceinline__ void gemm(const Parameters& parameters) {
    using Loop = Mainloop<Config>;
    extern __shared__ __align__(128) unsigned char shared[];
    const Common& common = parameters.common;
    const Problem& problem = common.problem;
    const Work work = schedule<Config>(problem, blockIdx.x);

    typename Loop::Accumulator acc[Loop::MI][Loop::NJ][2][2];
#pragma unroll
    for (int i = 0; i < Loop::MI; ++i)
#pragma unroll
        for (int j = 0; j < Loop::NJ; ++j)
#pragma unroll
            for (int r = 0; r < 4; ++r) acc[i][j][r / 2][r % 2] = 0;

    Loop::run(acc, common.a, common.b, work.m, work.n, problem.m, problem.n, work.k_begin, work.k_end, work.batch,
              shared_address(shared));
    if (!SplitKReduction<Config>::complete(acc, work, problem, common.split_k_sums, common.split_k_counters)) return;
    Visitor visitor(parameters, work, Walk<Config>::column());
    Staging<Config>::run(visitor, acc, work, shared);
}

}  // namespace epilogue::sm80
