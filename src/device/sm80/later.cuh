// A later phase of an epilogue: a visitor over elements that lie in memory, without a product.
//
//   one block, one tile:  each warp WARP_M rows of WARP_N columns, a lane VECTOR neighbouring columns of a row at a time
//
// The visitor is that of epilogue.cuh, and so are the reductions. It reads what the phases before left as it reads any
// argument; there are no accumulators. An element is read before it is written, because the lane that reads it is the
// lane that writes it.
#pragma once
#include "../sweep.cuh"
#include "../views.cuh"
#include "reduce.cuh"

namespace epilogue::sm80 {

// What every kernel of a later phase needs; the epilogue's own arguments follow it in the kernel's parameter.
struct LaterCommon {
#include "../LaterCommon.fields"
};

template <class Config, class Visitor, class Parameters>
__device__ __forceinline__ void later(const Parameters& parameters) {
    using W = Walk<Config>;
    constexpr int VISITS = Config::WARP_M / W::ROWS;
    static_assert(Config::WARP_M % W::ROWS == 0);
    const Work work = work_of_tile<Config>(parameters.common.problem, blockIdx.x);
    Visitor visitor(parameters, work, W::column());
    const typename Config::Accumulator none[Config::ACCUMULATORS][W::V] = {};
    int row = W::row();
    auto fetched = visitor.fetch(Sweep<0>(), work.m + row);
#pragma unroll 1
    for (int visit = 0; visit < VISITS; ++visit) {
        const auto now = fetched;
        if (visit != VISITS - 1) fetched = visitor.fetch(Sweep<0>(), work.m + row + W::ROWS);
        visitor.visit(Sweep<0>(), work.m + row, row, none, now);
        row += W::ROWS;
    }
    visitor.finish_sweep(Sweep<0>());
    visitor.finish();
}

}  // namespace epilogue::sm80
