// Groups: GEMMs with different numbers of rows in one launch, as experts have. The bounds are in the device's memory.
// A launch therefore has the most tiles that there can be, and each block finds here which group its tile belongs to.
//
//   rows of A     | group 0      | group 1 | group 3          |       group 2 has none.
//   row tiles     | 0   | 1   | 2  | 3     | 4 | 5    | 6   | 7 |     a group's tiles begin with its first row.
//
// If K is divided, a group's part of it is found in the same way, and its tiles are those of a batch.
//
// A group without rows has one row tile whose rows all lie outside of it. That tile stores what exists once per group.
//
// Bounds may be anything. A bound outside of the matrix, or below the bounds before it, is replaced by the nearest
// valid one. So groups never overlap, and nothing outside of the matrix is touched. Block 0 notes the bound in the
// device's record.
#pragma once
#include "group_rows.cuh"
#include "ptx.cuh"
#include "status.cuh"

namespace epilogue {

struct Groups {
#include "Groups.fields"
};

// The forms of bounds, as the host numbers them: where each group begins, and at last where the last one ends; where each
// ends; how many rows each has, in a matrix of its own.
inline constexpr int OFFSETS = 0, ENDS = 1, COUNTS = 2;

// A row tile's group; -1 if there are fewer row tiles.
struct RowTile {
    GroupRows rows;
    int group;
};

// A bound of a matrix's rows; what is wrong is noted by whoever `checks`.
__device__ __forceinline__ int row_bound(int bound, int rows, bool checks) {
    const int inside = bound < 0 ? 0 : (bound < rows ? bound : rows);
    if (checks && inside != bound) fail(0, bound, rows);
    return inside;
}

// Of 32 groups from `base` on, each lane's, whose rows the groups before have `taken`. Those past the last are empty.
__device__ __forceinline__ void lanes_bounds(const Groups& groups, int base, int rows, bool checks, int& taken, int& begin,
                                             int& end) {
    constexpr u32 ALL = 0xffffffffu;
    const int lane = static_cast<int>(threadIdx.x) % 32, group = base + lane;
    const bool exists = group < groups.count;
    begin = end = 0;
    if (exists) end = row_bound(groups.bounds[(group + (groups.form == OFFSETS)) * groups.stride], rows, checks);
    if (groups.form == COUNTS) return;
    const int given = end;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(ALL, end, step);
        if (lane >= step && other > end) end = other;
    }
    if (end < taken) end = taken;
    begin = __shfl_up_sync(ALL, end, 1);
    if (lane == 0) begin = taken;
    taken = __shfl_sync(ALL, end, 31);
    if (checks && exists && given < begin) fail(0, given, rows);
}

// The rows before the first group's.
__device__ __forceinline__ int rows_before(const Groups& groups, int rows, bool checks) {
    return groups.form == OFFSETS ? row_bound(groups.bounds[0], rows, checks && threadIdx.x == 0) : 0;
}

// Finds a row tile's group: each warp on its own, 32 groups at a time.
template <int TILE_M>
__device__ __forceinline__ RowTile find_row_tile(const Groups& groups, int rows, int wanted, bool checks) {
    constexpr u32 ALL = 0xffffffffu;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    RowTile found{{0, 0, 0, 0}, -1};
    int taken = rows_before(groups, rows, checks), tiles_before = 0;
#pragma unroll 1
    for (int base = 0; base < groups.count; base += 32) {
        int begin, end;
        lanes_bounds(groups, base, rows, checks, taken, begin, end);
        const int tiles = base + lane < groups.count ? (end > begin ? (end - begin + TILE_M - 1) / TILE_M : 1) : 0;
        int through = tiles;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int other = __shfl_up_sync(ALL, through, step);
            if (lane >= step) through += other;
        }
        through += tiles_before;
        const u32 past = __ballot_sync(ALL, wanted < through);
        if (past != 0 && found.group < 0) {
            const int lane_of = __popc(~past);  // those after it are past it, too
            found.group = base + lane_of;
            found.rows.begin = __shfl_sync(ALL, begin, lane_of);
            found.rows.end = __shfl_sync(ALL, end, lane_of);
            found.rows.tiles = __shfl_sync(ALL, tiles, lane_of);
            found.rows.first_tile = __shfl_sync(ALL, through, lane_of) - found.rows.tiles;
            if (!checks) break;
        }
        tiles_before = __shfl_sync(ALL, through, 31);
    }
    return found;
}

// A group's part of what is divided: each warp on its own.
__device__ __forceinline__ void find_part(const Groups& groups, int extent, int group, bool checks, int& begin, int& end) {
    constexpr u32 ALL = 0xffffffffu;
    int taken = rows_before(groups, extent, checks);
    begin = end = 0;
#pragma unroll 1
    for (int base = 0; base < groups.count && (checks || base <= group); base += 32) {
        int own_begin, own_end;
        lanes_bounds(groups, base, extent, checks, taken, own_begin, own_end);
        if (group >= base && group < base + 32) {
            begin = __shfl_sync(ALL, own_begin, group - base);
            end = __shfl_sync(ALL, own_end, group - base);
        }
    }
}

}  // namespace epilogue
