// Gathers rows of a matrix by an index, to contiguous rows that TMA can load: row m of the copy is row `index[m]` of
// the matrix. A warp copies 512 neighbouring bytes of a row at a time, 16 in each lane.
//
// A number outside of the matrix makes a row of zeros and is noted in the device's record. Rows that no group has are
// zeros, whatever their numbers.
#pragma once
#include "groups.cuh"
#include "repack.cuh"
#include "row_index.cuh"
#include "status.cuh"

namespace epilogue::repack {

// `rows` are those of the copy. Without groups there are no bounds.
struct RowParameters : Parameters {
#include "RowCopy.fields"
};

constexpr int CHUNKS = 32;  // of a tile's rows, 16 bytes each: a warp's

// Writes 16 bytes of a row: elements from `first` on of a line, zeros beyond its end, or zeros alone.
template <int SIZE>
__device__ __forceinline__ void copy_chunk(const RowParameters& p, const char* line, u32 first, bool is_row, u32* to) {
    constexpr u32 PER_CHUNK = 16 / SIZE, PER_WORD = 4 / SIZE;
    const bool neighbours = p.source_column == SIZE;
    const char* const from = line + u64(first) * SIZE;
    if (is_row && neighbours && reinterpret_cast<u64>(from) % 16 == 0 && first + PER_CHUNK <= p.columns) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
        return;
    }
#pragma unroll 1
    for (u32 i = 0; i < 4; ++i) {
        const u32 column = first + i * PER_WORD;
        u32 word = 0;
        if (is_row) {
            word = neighbours ? word_of_neighbours<SIZE>(line, column, p.columns)
                              : word_of_any<SIZE>(line, p.source_column, column, p.columns);
        }
        to[i] = word;
    }
}

template <int SIZE>
__device__ __forceinline__ void run_rows(const RowParameters& p) {
    constexpr u32 PER_CHUNK = 16 / SIZE;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 tiles_along = (p.columns + CHUNKS * PER_CHUNK - 1) / (CHUNKS * PER_CHUNK);
    const u64 tiles = u64(tiles_along) * ((p.rows + 31) / 32);
    // Groups follow each other. The product notes bounds that are wrong.
    const int rows = static_cast<int>(p.rows);
    int begin = 0, end = rows;
    if (p.groups.bounds != nullptr) {
        begin = end = rows_before(p.groups, rows, false);
#pragma unroll 1
        for (int base = 0; base < p.groups.count; base += 32) {
            int first_of_group, end_of_group;
            lanes_bounds(p.groups, base, rows, false, end, first_of_group, end_of_group);
        }
    }
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const u32 chunk = static_cast<u32>(tile % tiles_along) * CHUNKS + lane;
        const u32 first_row = static_cast<u32>(tile / tiles_along) * 32;
        if (chunk * PER_CHUNK >= p.columns) continue;
#pragma unroll 1
        for (u32 m = first_row + warp; m < first_row + 32 && m < p.rows; m += WARPS) {
            const bool is_computed = static_cast<int>(m) >= begin && static_cast<int>(m) < end;
            const int row = is_computed ? p.index[m] : 0;
            const bool is_row = is_computed && p.index.has(row);
            if (is_computed && !is_row && chunk == 0) fail(p.index.site, row, p.index.limit);
            const char* const line = p.source + (is_row ? row : 0) * p.source_row;
            copy_chunk<SIZE>(p, line, chunk * PER_CHUNK, is_row, p.destination + (m * p.row_words + chunk * 4));
        }
    }
}

}  // namespace epilogue::repack
