// Copies tiles of A or B from global to shared memory, k-tile after k-tile.
//
// Every thread owns the same chunk column of a few rows. Whatever lies outside the operand is written as zero, which
// adds nothing to the product; that makes every M, N and K legal. COPY_BYTES is the widest copy that the operand's
// address and strides allow: 16, 8 or 4 bytes by cp.async; a single element of 1 or 2 bytes by a plain load and store,
// because cp.async copies no less than 4 bytes. A copy of one element takes both strides as they come.
#pragma once
#include "operand_tile.cuh"

namespace epilogue::sm80 {

// An operand in global memory; strides in elements.
struct Operand {
#include "../Operand.fields"
};

// Of the tile's rows (K-major) or columns (MN-major), it fills those of one of PARTS operands that share them in runs of RUN
// (scheduler.cuh, `Parts`); of an operand alone, all.
template <class Tile, int COPY_BYTES, int THREADS, int PARTS = 1, int RUN = 1>
class Loader {
  protected:
    using Element = typename Tile::Element;
    static constexpr int SIZE = static_cast<int>(sizeof(Element));
    static constexpr bool ELEMENTWISE = COPY_BYTES == SIZE;
    static constexpr bool K_MAJOR = Tile::MAJOR == Major::K;
    static constexpr int ROWS = K_MAJOR ? Tile::ROWS / PARTS : Tile::ROWS;
    static constexpr int CHUNKS = K_MAJOR ? Tile::CHUNKS : Tile::CHUNKS / PARTS;
    static constexpr int ROWS_PER_PASS = THREADS / CHUNKS;
    static constexpr int PASSES = (ROWS + ROWS_PER_PASS - 1) / ROWS_PER_PASS;
    static constexpr bool EVEN = ROWS % ROWS_PER_PASS == 0;
    static constexpr int CHUNK_RUN = RUN / Tile::CHUNK_ELEMENTS;
    static_assert(THREADS % CHUNKS == 0, "every thread keeps its chunk column");
    static_assert(PARTS == 1 || K_MAJOR || RUN % Tile::CHUNK_ELEMENTS == 0, "a chunk is of one operand");
    static_assert(PARTS == 1 || RUN % ROWS_PER_PASS == 0 || ROWS_PER_PASS % RUN == 0 || !K_MAJOR);
    static_assert(COPY_BYTES == 16 || COPY_BYTES == 8 || COPY_BYTES == 4 || ELEMENTWISE);

    const char* source;    // this thread's chunk in its first row, at the k-tile that is next
    index_t row_step;      // bytes from a row of this thread to its next
    index_t block_step;    // bytes from a k-tile to the next
    index_t element_step;  // bytes between neighbours in a row, where copies are of one element
    int row;               // first row in the tile, counted among those of the operand
    int chunk;             // chunk column in the tile, likewise
    int place;             // where that row (K-major) or chunk (MN-major) is in the tile
    int outer_left;        // how much of M or N is left from this thread's first row (K-major) or chunk (MN-major)

  public:
    Loader() = default;

    // `outer`: where the tile begins along M or N; `extent`: the operand's M or N; `k`: the first k; `part`: the operand's
    // number among those that share the tile.
    __device__ __forceinline__ Loader(const Operand& operand, int thread, int outer, int extent, int k, int batch,
                                      int part = 0) {
        row = thread / CHUNKS;
        chunk = thread % CHUNKS;
        if constexpr (K_MAJOR) {
            place = in_tile<RUN>(row, part);
        } else {
            place = in_tile<CHUNK_RUN>(chunk, part);
        }
        const int column = chunk * Tile::CHUNK_ELEMENTS;
        const index_t first_outer = outer + (K_MAJOR ? row : column);
        const index_t first_k = k + (K_MAJOR ? column : row);
        source = static_cast<const char*>(operand.pointer) +
                 (batch * operand.batch + first_outer * operand.outer + first_k * operand.k) * SIZE;
        row_step = (K_MAJOR ? operand.outer : operand.k) * (ROWS_PER_PASS * SIZE);
        block_step = operand.k * ((K_MAJOR ? Tile::COLUMNS : Tile::ROWS) * SIZE);
        element_step = (K_MAJOR ? operand.k : operand.outer) * SIZE;
        outer_left = extent - static_cast<int>(first_outer);
    }

    // Starts the copy of the next k-tile, of which `k_left` is left, into the stage at `shared`; where nothing is left,
    // of zeros.
    __device__ __forceinline__ void load(u32 shared, int k_left) {
        const int column = chunk * Tile::CHUNK_ELEMENTS;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const int r = row + pass * ROWS_PER_PASS;
            if (EVEN || r < ROWS) {
                // What is left of the chunk is the same in every row: it is counted once.
                const bool inside = K_MAJOR ? outer_left > pass * ROWS_PER_PASS : k_left > r;
                const int to = K_MAJOR ? Tile::offset(place + step_in_tile(pass), chunk) : Tile::offset(r, place);
                copy(shared + static_cast<u32>(to), source + pass * row_step,
                     K_MAJOR ? k_left - column : outer_left, inside);
            }
        }
        source += block_step;
    }

  protected:
    // Where the operand's row or chunk `i` is in the tile, of which it has runs of this many.
    template <int OF>
    static __device__ __forceinline__ int in_tile(int i, int part) {
        if constexpr (PARTS == 1) {
            return i;
        } else {
            return i / OF * (OF * PARTS) + part * OF + i % OF;
        }
    }

    // How far the rows of a pass are, in the tile, from those of the first: a pass is of whole runs, or within one.
    static __device__ __forceinline__ constexpr int step_in_tile(int pass) {
        const int rows = pass * ROWS_PER_PASS;
        return PARTS == 1 ? rows : rows / RUN * (RUN * PARTS) + rows % RUN;
    }

    // How many of the `BYTES` bytes that begin at element `first` of a chunk are inside.
    template <int BYTES>
    static __device__ __forceinline__ int valid_bytes(int elements_left, int first) {
        const int elements = elements_left - first;
        constexpr int ALL = BYTES / SIZE;
        return (elements <= 0 ? 0 : (elements < ALL ? elements : ALL)) * SIZE;
    }

    // A chunk, of which this many elements are left if its row is inside of the operand.
    __device__ __forceinline__ void copy(u32 shared, const char* from, int elements_left, bool inside) const {
        if constexpr (COPY_BYTES == 16) {
            copy_async_16(shared, from, inside ? valid_bytes<16>(elements_left, 0) : 0);
        } else if constexpr (COPY_BYTES < 4) {
            elements_left = inside ? elements_left : 0;
            u32 word[4];
#pragma unroll
            for (int i = 0; i < Tile::CHUNK_ELEMENTS; ++i) {
                constexpr int PER_WORD = 4 / SIZE;
                const u32 bits = load_element(from, elements_left, i) << (i % PER_WORD * 8 * SIZE);
                word[i / PER_WORD] = i % PER_WORD == 0 ? bits : word[i / PER_WORD] | bits;
            }
            store_shared_16(shared, word[0], word[1], word[2], word[3]);
        } else {
#pragma unroll
            for (int i = 0; i < 16 / COPY_BYTES; ++i) {
                const char* const piece = from + (ELEMENTWISE ? i * element_step : index_t(i * COPY_BYTES));
                const int valid = inside ? valid_bytes<COPY_BYTES>(elements_left, i * (COPY_BYTES / SIZE)) : 0;
                if constexpr (COPY_BYTES == 8) {
                    copy_async_8(shared + i * 8, piece, valid);
                } else {
                    copy_async_4(shared + i * 4, piece, valid);
                }
            }
        }
    }

    __device__ __forceinline__ u32 load_element(const char* from, int elements_left, int i) const {
        if (i >= elements_left) return 0;
        const char* const element = from + i * element_step;
        if constexpr (SIZE == 1) {
            return *reinterpret_cast<const unsigned char*>(element);
        } else {
            return *reinterpret_cast<const unsigned short*>(element);
        }
    }
};

// The loader of an A: patches.cuh and picked.cuh have others, for an A that is not an operand alone.
template <class Tile, int COPY_BYTES, int THREADS>
__device__ __forceinline__ Loader<Tile, COPY_BYTES, THREADS> loader_of_a(const Operand& a, int thread, int m, int extent, int k,
                                                                         int batch) {
    return Loader<Tile, COPY_BYTES, THREADS>(a, thread, m, extent, k, batch);
}

}  // namespace epilogue::sm80
