// The rows of a block's work: those of the matrix, or of one group (groups.cuh).
#pragma once
#include "ptx.cuh"

namespace epilogue {

// The rows of a group in its matrix, and which row tiles are its own.
struct GroupRows {
    int begin, end;
    int first_tile, tiles;
};

// The group's rows of a kernel's work, or null where matrices have no groups: known when a kernel is compiled.
__device__ __forceinline__ const GroupRows* group_rows(const GroupRows* rows) { return rows; }
__device__ __forceinline__ const GroupRows* group_rows(const void*) { return nullptr; }

// Rows from here on are not of the work's matrix, or group.
template <class Work, class Problem>
__device__ __forceinline__ int rows_end(const Work& work, const Problem& problem) {
    const GroupRows* const rows = group_rows(&work);
    return rows != nullptr ? rows->end : problem.m;
}

}  // namespace epilogue
