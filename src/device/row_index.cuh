// The index of gathered or scattered rows: for each row of the product, a row of A or of an output.
#pragma once
#include "ptx.cuh"

namespace epilogue {

struct RowIndex {
#include "RowIndex.fields"

    __device__ __forceinline__ int operator[](int m) const { return rows[m * stride]; }

    __device__ __forceinline__ bool has(int row) const { return static_cast<u32>(row) < static_cast<u32>(limit); }
};

}  // namespace epilogue
