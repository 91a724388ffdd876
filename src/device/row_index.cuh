// The index of gathered or scattered rows: for each row of the product, a row of A or of an output.
#pragma once
#include "ptx.cuh"

namespace epilogue {

// The host fills it. `limit` is how many rows there are, `site` the number under which a wrong one is noted.
struct RowIndex {
    const int* rows;
    index_t stride;
    int limit;
    u32 site;

    __device__ __forceinline__ int operator[](int m) const { return rows[m * stride]; }

    __device__ __forceinline__ bool has(int row) const { return static_cast<u32>(row) < static_cast<u32>(limit); }
};
static_assert(sizeof(RowIndex) == 24, "as the host fills it");

}  // namespace epilogue
