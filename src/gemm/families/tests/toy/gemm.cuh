// The kernel of the toy family: one block, one tile, one visit for each row that a lane has.
//
//   A, B in memory --(a loop over K)--> each lane: VECTOR neighbouring columns of a row --> visitor
//
// Nothing passes through shared memory but reductions. An element is read before it is written, because the lane that reads it
// is the lane that writes it.
namespace toy {

using sm80::AllReduction;
using sm80::ColumnReduction;
using sm80::Parts;
using sm80::Problem;
using sm80::RowReduction;
using sm80::Walk;
using sm80::Work;

// An operand in memory; strides in elements. `outer` is the stride along M or N.
struct Operand {
#include "Operand.fields"
};

// What every kernel of this family needs; the epilogue's own arguments follow it in the kernel's parameter.
template <class Config>
struct Common {
#include "ToyCommon.fields"
};

template <class Accumulator, class Element>
__device__ __forceinline__ Accumulator element(const Operand& operand, int batch, int outer, int k) {
    const index_t place = batch * operand.batch + outer * operand.outer + k * operand.k;
    return widen<Accumulator>(static_cast<const Element*>(operand.pointer)[place]);
}

template <class Config, class Visitor, class Parameters>
__device__ __forceinline__ void gemm(const Parameters& parameters) {
    using W = Walk<Config>;
    using Accumulator = typename Config::Accumulator;
    constexpr int VISITS = Config::WARP_M / W::ROWS;
    static_assert(Config::WARP_M % W::ROWS == 0);
    const Common<Config>& common = parameters.common;
    const Problem& problem = common.problem;
    const Work work = sm80::work_of_tile<Config>(problem, blockIdx.x);
    Visitor visitor(parameters, work, W::column());
    int row = W::row();
#pragma unroll 1
    for (int visit = 0; visit < VISITS; ++visit) {
        const int m = work.m + row;
        const auto fetched = visitor.fetch(Sweep<0>(), m);
        Accumulator accum[Config::ACCUMULATORS][W::V] = {};
#pragma unroll 1
        for (int k = 0; k < (m < problem.m ? problem.k : 0); ++k) {
            const auto a = element<Accumulator, typename Config::A>(common.a, work.batch, m, k);
#pragma unroll
            for (int i = 0; i < Config::ACCUMULATORS; ++i)
#pragma unroll
                for (int v = 0; v < W::V; ++v) {
                    const int n = work.n + W::column() + v;
                    if (n >= problem.n) continue;
                    accum[i][v] += a * element<Accumulator, typename Config::B>(common.b[i], work.batch, n, k);
                }
        }
        visitor.visit(Sweep<0>(), m, row, accum, fetched);
        row += W::ROWS;
    }
    visitor.finish_sweep(Sweep<0>());
    visitor.finish();
}

}  // namespace toy
