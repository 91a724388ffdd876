// How a tile of A or B lies in shared memory.
//
// A tile is ROWS rows of COLUMNS contiguous elements, in the order in which global memory has them: rows of K for a
// K-major operand (row-major A, column-major B), rows of M or N for an MN-major one. A row is cut into 16-byte chunks.
// The chunk index is XORed with a function of the row (a swizzle): the reads of one instruction then fall into
// different banks. The copies go along the rows, and are free of bank conflicts too.
#pragma once
#include "../ptx.cuh"

namespace epilogue::sm80 {

// Which index of the operand is contiguous in memory.
enum class Major { K, MN };

// What multiplies.
// FAST_BF16: f32 operands, rounded to bf16 on their way to registers.
// MIXED: A is f16 or bf16, B has 8-bit elements.
// FP8: converted to f16. NATIVE_FP8, PROMOTED_FP8: multiplied as they are (fragments_fp8.cuh).
enum class Arithmetic { F16, BF16, TF32, FAST_BF16, F64, F32, INT8, FP8, MIXED, NATIVE_FP8, PROMOTED_FP8 };

// Whether tensor cores multiply bytes as they are.
template <Arithmetic ARITHMETIC>
inline constexpr bool IN_BYTES = ARITHMETIC == Arithmetic::INT8 || ARITHMETIC == Arithmetic::NATIVE_FP8 ||
                                 ARITHMETIC == Arithmetic::PROMOTED_FP8;

// Whether tensor cores multiply operands that lie in 4 bytes.
template <Arithmetic ARITHMETIC>
inline constexpr bool IN_WORDS = ARITHMETIC == Arithmetic::TF32 || ARITHMETIC == Arithmetic::FAST_BF16;

template <typename Element_, Major MAJOR_, Arithmetic ARITHMETIC, int EXTENT, int TILE_K>
struct OperandTile {
    using Element = Element_;
    static constexpr Major MAJOR = MAJOR_;
    static constexpr int ROWS = MAJOR == Major::K ? EXTENT : TILE_K;
    static constexpr int COLUMNS = MAJOR == Major::K ? TILE_K : EXTENT;
    static constexpr int ROW_BYTES = COLUMNS * static_cast<int>(sizeof(Element));
    static constexpr int BYTES = ROWS * ROW_BYTES;
    static constexpr int CHUNK_BYTES = 16;
    static constexpr int CHUNK_ELEMENTS = CHUNK_BYTES / static_cast<int>(sizeof(Element));
    static constexpr int CHUNKS = ROW_BYTES / CHUNK_BYTES;
    static_assert((CHUNKS & (CHUNKS - 1)) == 0 && CHUNKS >= 2, "a row is a power of two of 16-byte chunks");

    // One instruction reads, depending on how it reads:
    // - one chunk of 8 consecutive rows (ldmatrix; 16-byte loads along K): 8 rows must differ -> XOR with row;
    // - two chunks of 4 consecutive rows (4- and 8-byte fragments, where lane l has row l%4): XOR with 2 row;
    // - one row (exact f32 with MN-major operands): nothing to do;
    // - one chunk of the rows 0, 1, 4, 5, 8, 9, 12, 13 (8-bit types and what they meet, MN-major): XOR with the place in
    //   this list.
    static constexpr bool BY_ROW = ARITHMETIC == Arithmetic::F32 && MAJOR == Major::MN;
    static constexpr bool BY_PAIR =
        ARITHMETIC == Arithmetic::F64 || (IN_WORDS<ARITHMETIC> && MAJOR == Major::MN) ||
        (ARITHMETIC == Arithmetic::MIXED && sizeof(Element) == 2 && MAJOR == Major::K);
    static constexpr bool BY_QUAD = MAJOR == Major::MN && (sizeof(Element) == 1 || ARITHMETIC == Arithmetic::MIXED);
    static constexpr int FACTOR = BY_ROW ? 0 : (BY_PAIR ? 2 : 1);
    static constexpr int ROWS_PER_LINE = CHUNKS >= 8 ? 1 : 8 / CHUNKS;  // a line: the 128 bytes of all banks
    static constexpr int MASK = (CHUNKS >= 8 ? 8 : CHUNKS) - 1;

    // What the chunk index of this row is XORed with.
    static __device__ __forceinline__ int swizzle(int row) {
        const int place = BY_QUAD ? row / 4 * 2 + row % 2 : row;
        return (place / ROWS_PER_LINE * FACTOR) & MASK;
    }

    // Byte offset of a chunk.
    static __device__ __forceinline__ int offset(int row, int chunk) {
        return row * ROW_BYTES + ((chunk ^ swizzle(row)) * CHUNK_BYTES);
    }
};

}  // namespace epilogue::sm80
