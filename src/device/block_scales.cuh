// Block scales of FP8 operands. A has one scale for each row and 128 of K, B one for each 128 of K and 128 columns:
//
//   A       K: | 128 | 128 | 40 |        B       N: | 128 | 128 | 7 |
//   row 0      | s00 | s01 | s02|        K: 128     | t00 | t01 | t02
//   row 1      | s10 | s11 | s12|           128     | t10 | t11 | t12
//
//   C[m][n] = sum over blocks b of K:  (s[m][b] * t[b][n / 128]) * (sum over k in b: A[m][k] * B[k][n])
//
// A k-tile of both families is a block of K. A thread's accumulators of one tile lie in one block of columns. After
// each block, the thread reads the next scales of its rows from global memory. They arrive during the next block's
// MMAs. Any strides will do; no shared memory is needed, and no barrier. Scales outside of the operands are 0.
//
// No block is left out, whatever its scales: 0 times infinity is NaN.
#pragma once
#include "ptx.cuh"

namespace epilogue {

inline constexpr int SCALE_BLOCK = 128;

// Of one operand, strides in elements: of A's rows or B's blocks of columns, of blocks of K, of batches.
struct OperandScales {
#include "OperandScales.fields"
};

// Of A, and of the B of each of COUNT accumulators.
template <int COUNT>
struct Scales {
#include "Scales.fields"
};

// What every kernel with scales needs: it follows what kernels without need.
template <class Base, int COUNT>
struct ScaledCommon : Base {
#include "ScaledCommon.fields"
};

// Reads a thread's scales, block by block. `Rows` has the number of its rows, COUNT, and how far each is from the first, `at`.
template <class Rows, int COUNT>
class ScaleReader {
    const Scales<COUNT>& scales;
    const float* of_a;  // of the first row, in the block that is read next
    const float* of_b[COUNT];
    int rows_left;    // from the first one on
    int blocks_left;  // of K, from the one that is read next on
    float row_scale[Rows::COUNT], scale_of_b[COUNT];

  public:
    // `m`: the thread's first row; `n`: its first column; both operands end at `end_m` and `end_n`.
    __device__ __forceinline__ ScaleReader(const Scales<COUNT>& scales, int batch, int m, int end_m, int n, int end_n, int k,
                                           int end_k)
        : scales(scales) {
        const int block = k / SCALE_BLOCK;
        of_a = scales.a.pointer + (batch * scales.a.batch + m * scales.a.outer + block * scales.a.k);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const OperandScales& b = scales.b[i];
            of_b[i] = b.pointer + (batch * b.batch + n / SCALE_BLOCK * b.outer + block * b.k);
        }
        rows_left = end_m - m;
        blocks_left = n < end_n && k < end_k ? (end_k - k + SCALE_BLOCK - 1) / SCALE_BLOCK : 0;
        next();
    }

    // What the sums of a row and an accumulator are multiplied by. It is rounded before the sum is.
    __device__ __forceinline__ float scale(int row, int accumulator) const {
        return __fmul_rn(row_scale[row], scale_of_b[accumulator]);
    }

    // Begins to read the scales of the next block.
    __device__ __forceinline__ void next() {
#pragma unroll
        for (int i = 0; i < Rows::COUNT; ++i) {
            row_scale[i] = 0;
            if (blocks_left > 0 && Rows::at(i) < rows_left) row_scale[i] = of_a[Rows::at(i) * scales.a.outer];
        }
        of_a += scales.a.k;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            scale_of_b[i] = 0;
            if (blocks_left > 0) scale_of_b[i] = *of_b[i];
            of_b[i] += scales.b[i].k;
        }
        --blocks_left;
    }
};

}  // namespace epilogue
