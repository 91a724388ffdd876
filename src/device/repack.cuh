// Copies an operand of a GEMM to rows that TMA can load: contiguous along one axis of the caller's choice, and each row
// at a multiple of 16 bytes. Elements of 1, 2 and 4 bytes move as bits.
//
// The work is cut into tiles of 32 words of 4 bytes along the rows that are written; a block takes one tile after
// another. In each case a warp writes 32 neighbouring words at a time:
//
//   Neighbours   rows that are contiguous but begin anywhere: two aligned words are shifted into one.
//   Transpose    columns that are contiguous: words of several columns are exchanged in registers (prmt), then through
//                shared memory. Reads and writes are then both of 128 neighbouring bytes.
//   Gather       any strides: element by element.
//
// Elements beyond the matrix are not read: the last word of a row is filled with zeros.
#pragma once
#include "ptx.cuh"

namespace epilogue::repack {

enum class Reading { Neighbours, Transpose, Gather };

// A row is what is contiguous when it is written.
struct Parameters {
#include "Copy.fields"
};

constexpr int WORDS = 32;  // of a tile's rows: a warp's
constexpr int WARPS = 8;
constexpr int THREADS = 32 * WARPS;

template <int SIZE>
struct Bits;
template <>
struct Bits<1> {
    using Type = unsigned char;
};
template <>
struct Bits<2> {
    using Type = unsigned short;
};
template <>
struct Bits<4> {
    using Type = u32;
};

// Elements `first`, `first` + 1, … as one word; 0 for those beyond `count`.
template <int SIZE>
__device__ __forceinline__ u32 word_of_any(const char* line, index_t step, u32 first, u32 count) {
    u32 word = 0;
#pragma unroll
    for (u32 i = 0; i < 4 / SIZE; ++i) {
        if (first + i < count) {
            const char* const element = line + index_t(first + i) * step;
            word |= u32(*reinterpret_cast<const typename Bits<SIZE>::Type*>(element)) << (8 * SIZE * i);
        }
    }
    return word;
}

// The same of elements that are neighbours. A word that the line does not hold whole is never read: what lies beside it
// may be nobody's, or be written meanwhile.
template <int SIZE>
__device__ __forceinline__ u32 word_of_neighbours(const char* line, u32 first, u32 count) {
    const u64 begin = reinterpret_cast<u64>(line);
    const u64 end = begin + u64(count) * SIZE;
    const u64 address = begin + u64(first) * SIZE;
    const u64 aligned = address & ~u64(3);
    const u32 shift = static_cast<u32>(address - aligned) * 8;
    if (aligned >= begin && aligned + (shift == 0 ? 4 : 8) <= end) {
        const u32* const words = reinterpret_cast<const u32*>(aligned);
        return shift == 0 ? words[0] : __funnelshift_r(words[0], words[1], shift);
    }
    return word_of_any<SIZE>(line, SIZE, first, count);
}

// Word j holds elements (j, 0), (j, 1), …; afterwards (0, j), (1, j), ….
template <int SIZE>
__device__ __forceinline__ void transpose(u32 (&word)[4 / SIZE]) {
    constexpr u32 LOW_HALVES = 0x5410, HIGH_HALVES = 0x7632, LOW_BYTES = 0x5140, HIGH_BYTES = 0x7362;
    if constexpr (SIZE == 2) {
        const u32 x = word[0], y = word[1];
        word[0] = __byte_perm(x, y, LOW_HALVES);
        word[1] = __byte_perm(x, y, HIGH_HALVES);
    } else if constexpr (SIZE == 1) {
        const u32 low01 = __byte_perm(word[0], word[1], LOW_BYTES), high01 = __byte_perm(word[0], word[1], HIGH_BYTES);
        const u32 low23 = __byte_perm(word[2], word[3], LOW_BYTES), high23 = __byte_perm(word[2], word[3], HIGH_BYTES);
        word[0] = __byte_perm(low01, low23, LOW_HALVES);
        word[1] = __byte_perm(low01, low23, HIGH_HALVES);
        word[2] = __byte_perm(high01, high23, LOW_HALVES);
        word[3] = __byte_perm(high01, high23, HIGH_HALVES);
    }
}

// A tile of 32 rows, read as it is written.
template <int SIZE, Reading READING>
__device__ __forceinline__ void copy_tile(const Parameters& p, const char* source, u32* destination, u32 first_row,
                                          u32 word) {
    constexpr u32 PER_WORD = 4 / SIZE;
    const u32 warp = threadIdx.x / 32;
#pragma unroll
    for (u32 pass = 0; pass < 32 / WARPS; ++pass) {
        const u32 row = first_row + warp + pass * WARPS;
        const u32 column = word * PER_WORD;
        if (row < p.rows && column < p.columns) {
            const char* const line = source + row * p.source_row;
            destination[row * p.row_words + word] = READING == Reading::Neighbours
                                                        ? word_of_neighbours<SIZE>(line, column, p.columns)
                                                        : word_of_any<SIZE>(line, p.source_column, column, p.columns);
        }
    }
}

// A tile of 32 words of rows, read along the rows' axis. Row r of the tile lies in row r / PER_WORD + 32 (r % PER_WORD)
// of `exchange`, so that neither writing nor reading it meets a bank twice.
template <int SIZE>
__device__ __forceinline__ void transpose_tile(const Parameters& p, const char* source, u32* destination, u32 first_row,
                                               u32 first_word, u32 (&exchange)[4 / SIZE * 32][WORDS + 1]) {
    constexpr u32 PER_WORD = 4 / SIZE;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (u32 pass = 0; pass < WORDS / WARPS; ++pass) {
        const u32 place = warp + pass * WARPS;
        u32 word[PER_WORD];
#pragma unroll
        for (u32 j = 0; j < PER_WORD; ++j) {
            const u32 column = (first_word + place) * PER_WORD + j;
            word[j] = 0;
            if (column < p.columns) {
                word[j] = word_of_neighbours<SIZE>(source + column * p.source_column, first_row + lane * PER_WORD, p.rows);
            }
        }
        transpose<SIZE>(word);
#pragma unroll
        for (u32 i = 0; i < PER_WORD; ++i) exchange[i * 32 + lane][place] = word[i];
    }
    __syncthreads();  // the tile is whole
#pragma unroll
    for (u32 pass = 0; pass < 32 * PER_WORD / WARPS; ++pass) {
        const u32 place = warp + pass * WARPS;
        const u32 row = first_row + place % 32 * PER_WORD + place / 32;
        const u32 word = first_word + lane;
        if (row < p.rows && word * PER_WORD < p.columns) {
            destination[row * p.row_words + word] = exchange[place][lane];
        }
    }
    __syncthreads();  // the tile is read: the next one may take its place
}

template <int SIZE, Reading READING>
__device__ __forceinline__ void run(const Parameters& p) {
    constexpr u32 PER_WORD = 4 / SIZE;
    constexpr u32 TILE_ROWS = READING == Reading::Transpose ? 32 * PER_WORD : 32;
    const u32 tiles_along = (p.columns + WORDS * PER_WORD - 1) / (WORDS * PER_WORD);
    const u32 tiles_down = (p.rows + TILE_ROWS - 1) / TILE_ROWS;
    const u64 tiles = u64(tiles_along) * tiles_down * p.batches;
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const u64 line = tile / tiles_along;
        const u64 batch = line / tiles_down;
        const u32 first_word = static_cast<u32>(tile % tiles_along) * WORDS;
        const u32 first_row = static_cast<u32>(line % tiles_down) * TILE_ROWS;
        const char* const source = p.source + static_cast<index_t>(batch) * p.source_batch;
        u32* const destination = p.destination + static_cast<index_t>(batch) * p.batch_words;
        if constexpr (READING == Reading::Transpose) {
            __shared__ u32 exchange[PER_WORD * 32][WORDS + 1];
            transpose_tile<SIZE>(p, source, destination, first_row, first_word, exchange);
        } else {
            copy_tile<SIZE, READING>(p, source, destination, first_row, first_word + threadIdx.x % 32);
        }
    }
}

}  // namespace epilogue::repack
