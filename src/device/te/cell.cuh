// The steps of a recurrent cell, one after the other in one launch. A block has up to ROWS rows of a batch, which no
// other block's touch; what a step needs of the steps before, and its stages of each other, lies in shared memory.
//
//   begin   the steps that are given ──► shared memory                      barrier
//   step    stages of level 0: a column for every GROUP threads             barrier
//           stages of level 1, which read those                             barrier
//           …                                                               barrier
//
// A thread takes a column of all of its block's rows at once: operands that the rows share (a matrix) are read once.
// The order in which a column's elements are combined depends on GROUP only: not on how many rows a block has.
//
// The cell is generated. It has
//   steps(), rows()                    computed steps, and rows of all blocks;
//   begin(first, rows)                 brings the given steps of some rows to shared memory;
//   step(step, first, rows)            runs the stages, with barriers after every level;
// and every stage
//   GROUP, REDUCES, HAS_ROWS           threads of a column; whether it reduces; whether it has a value for every row;
//   columns(), elements()              of a row; of a column;
//   at(step, row, block_row, column)   values that all elements of a column share;
//   load(cursor, position, value)      an element; returns whether it counts;
//   begin(cursor), finished(cursor, total)
//   store(cursor, total)               keeps a column's result in shared memory, and in memory.
#pragma once
#include "../collective.cuh"
#include "walk.cuh"

namespace epilogue::te {

// What a stage that reduces nothing has in place of totals.
struct NoPass {
    struct Value {};
};

// Elements of shared memory, some behind those that begin at byte `offset`.
template <typename T>
__device__ __forceinline__ T* shared_row(index_t offset, index_t elements) {
    extern __shared__ __align__(16) unsigned char cell_memory[];
    return reinterpret_cast<T*>(cell_memory + offset) + elements;
}

// A stage of a block's rows: `rows` of them from `first` on.
template <int THREADS, int ROWS, bool EXACT, class Stage>
__device__ __forceinline__ void run_stage(const Stage& stage, u32 step, u32 first, u32 rows) {
    using Pass = typename Stage::Pass;
    constexpr int GROUP = Stage::GROUP, OWN = Stage::HAS_ROWS ? ROWS : 1;
    const u32 lane = threadIdx.x % GROUP;
    // The same turns for all threads: they combine by shuffles.
    for (u32 begin = 0; begin < stage.columns(); begin += THREADS / GROUP) {
        const u32 column = begin + threadIdx.x / GROUP;
        const bool exists = column < stage.columns();
        typename Stage::Cursor at[OWN];
        typename Pass::Value total[OWN];
#pragma unroll
        for (int r = 0; r < OWN; ++r) {
            // Rows that a block lacks are its last one again, and not stored.
            const u32 row = static_cast<u32>(r) < rows ? r : rows - 1;
            at[r] = stage.at(step, first + row, row, exists ? column : 0);
        }
        if constexpr (Stage::REDUCES) {
#pragma unroll
            for (int r = 0; r < OWN; ++r) total[r] = EXACT ? stage.begin(at[r]) : Pass::identity();
            const u32 end = exists ? stage.elements() : 0;
#pragma unroll 8
            for (u32 position = lane; position < end; position += GROUP) {
#pragma unroll
                for (int r = 0; r < OWN; ++r) {
                    typename Pass::Value value;
                    if (stage.load(at[r], position, value)) total[r] = Pass::combine(total[r], value);
                }
            }
#pragma unroll
            for (int r = 0; r < OWN; ++r) total[r] = combine_lanes<Pass, GROUP>(total[r]);
        }
        if (exists && lane == 0) {
#pragma unroll
            for (int r = 0; r < OWN; ++r) {
                if (Stage::HAS_ROWS && static_cast<u32>(r) >= rows) continue;
                if constexpr (Stage::REDUCES) {
                    stage.store(at[r], stage.finished(at[r], total[r]));
                } else {
                    stage.store(at[r], total[r]);
                }
            }
        }
    }
}

template <int ROWS, class Cell>
__device__ __forceinline__ void run_cell(const Cell& cell) {
    const u32 first = blockIdx.x * ROWS;
    const u32 left = cell.rows() - first, rows = left < ROWS ? left : ROWS;
    cell.begin(first, rows);
    __syncthreads();  // before the first step reads what is given
    for (u32 step = 0; step < cell.steps(); ++step) cell.step(step, first, rows);
}

}  // namespace epilogue::te
