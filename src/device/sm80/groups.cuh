// The GEMM kernels for sm_80 and up with groups of rows or of K: one block, one tile of one group (../groups.cuh).
//
// `Problem` counts the rows of the matrix; it has groups as batches, and the most row tiles that they can have as
// `tiles_m`. Tiles are numbered as in one matrix with this many row tiles. Neighbours therefore share columns of B, or
// rows of A, in the L2.
#pragma once
#include "../groups.cuh"
#include "gemm.cuh"

namespace epilogue::sm80 {

// `tile_m` counts the row tiles of all groups; `tile` orders those of a group as a product of its own would.
struct GroupWork : Work, GroupRows {
    bool exists;
};

template <class Config>
struct GroupCommon : Common<Config> {
#include "../GroupCommon.fields"
};

// A block's tile. One that the groups don't have is of no rows, and of none of them.
template <class Config>
__device__ __forceinline__ GroupWork group_work(const Problem& problem, const Groups& groups, u32 block) {
    GroupWork work;
    static_cast<Work&>(work) = work_of_tile<Config>(problem, block);
    const RowTile found = find_row_tile<Config::TILE_M>(groups, problem.m, work.tile_m, block == 0);
    work.exists = found.group >= 0;
    static_cast<GroupRows&>(work) = work.exists ? found.rows : GroupRows{-1, 0, work.tile_m, 1};
    const int own = work.tile_m - work.first_tile;
    work.batch = work.exists ? found.group : 0;
    work.m = work.exists ? work.begin + own * Config::TILE_M : 0;
    if (work.m >= work.end) work.k_end = 0;
    work.tile = work.first_tile * problem.tiles_n + place_of_tile(work.tiles, problem.tiles_n, own, work.tile_n);
    return work;
}

// OVER_GROUPS: whether the epilogue has reductions over all groups, to which every tile contributes, those too that the
// groups don't have.
template <class Config, class Visitor, bool OVER_GROUPS, class Parameters>
__device__ __forceinline__ void group_gemm(const Parameters& parameters) {
    using Loop = Mainloop<Config>;
    extern __shared__ __align__(128) unsigned char shared[];
    const GroupWork work = group_work<Config>(parameters.common.problem, parameters.common.groups, blockIdx.x);
    if (!OVER_GROUPS && !work.exists) return;
    const auto find_work = [&]() { return work; };
    multiply<Config, Visitor>(parameters, shared, find_work,
                              [](typename Loop::Accumulator (&)[Loop::MI][Loop::NJ][2][2]) { return true; });
}

// Groups that share K: one block, one tile of the product of a group's part.
template <class Config, class Visitor, class Parameters>
__device__ __forceinline__ void depth_gemm(const Parameters& parameters) {
    using Loop = Mainloop<Config>;
    extern __shared__ __align__(128) unsigned char shared[];
    const Problem& problem = parameters.common.problem;
    Work work = work_of_tile<Config>(problem, blockIdx.x);
    // Where nothing is multiplied, K is 0, whatever the bounds.
    if (problem.k > 0)
        find_part(parameters.common.groups, problem.k, work.batch, blockIdx.x == 0, work.k_begin, work.k_end);
    const auto find_work = [&]() { return work; };
    multiply<Config, Visitor>(parameters, shared, find_work,
                              [](typename Loop::Accumulator (&)[Loop::MI][Loop::NJ][2][2]) { return true; });
}

}  // namespace epilogue::sm80
