// Copies the elements of one view of memory to another view of the same shape. It copies words of 1, 2, 4, 8 or 16
// bytes that are whole in both.
//
//   direct       a thread takes words that are neighbours in the written view, wherever they are read.
//   transposed   neighbours in the read view are far apart in the written view: squares change hands in shared memory,
//                so that reading and writing both are of neighbours.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int MOST_AXES = 8;
constexpr u32 THREADS = 256;

// As the host fills them. Distances are in bytes. A quotient by the extent is the product with `multiplier`, shifted.
struct Axis {
    u32 extent, multiplier, shift, unused;
    u64 from, to;
};

struct Parameters {
    const char* from;
    char* to;
    u32 count;  // of words, or of squares
    u32 rank;   // of `axes`, outermost first
    u32 read, written;            // transposed: extents of the axes with neighbours in what is read, and written
    u64 written_from, read_to;    // transposed: their distances in the other one
    Axis axes[MOST_AXES];
};
static_assert(sizeof(Parameters) == 304, "as the host fills it");

template <int BYTES>
struct WordOf;
template <>
struct WordOf<1> {
    using Type = unsigned char;
};
template <>
struct WordOf<2> {
    using Type = unsigned short;
};
template <>
struct WordOf<4> {
    using Type = u32;
};
template <>
struct WordOf<8> {
    using Type = u64;
};
template <>
struct WordOf<16> {
    using Type = uint4;
};

// Moves both pointers to an index of all axes together.
__device__ __forceinline__ void move_to(const Parameters& p, u32 index, const char*& from, char*& to) {
#pragma unroll
    for (int i = MOST_AXES - 1; i >= 0; --i) {
        if (i < int(p.rank)) {
            const Axis& axis = p.axes[i];
            const u32 outer = u32(u64(index) * axis.multiplier >> axis.shift);
            const u32 inner = index - outer * axis.extent;
            from += inner * axis.from;
            to += inner * axis.to;
            index = outer;
        }
    }
}

template <int BYTES>
__device__ __forceinline__ void copy_direct(const Parameters& p) {
    using Word = typename WordOf<BYTES>::Type;
    constexpr u32 WORDS_OF_A_THREAD = 4;  // on their way at once
    constexpr u32 WORDS_OF_A_BLOCK = WORDS_OF_A_THREAD * THREADS;
    for (u32 first = blockIdx.x * WORDS_OF_A_BLOCK + threadIdx.x; first < p.count; first += gridDim.x * WORDS_OF_A_BLOCK) {
        Word words[WORDS_OF_A_THREAD];
        char* places[WORDS_OF_A_THREAD];
#pragma unroll
        for (u32 i = 0; i < WORDS_OF_A_THREAD; ++i) {
            const u32 word = first + i * THREADS;
            const char* from = p.from;
            places[i] = p.to;
            move_to(p, word, from, places[i]);
            if (word < p.count) words[i] = *reinterpret_cast<const Word*>(from);
        }
#pragma unroll
        for (u32 i = 0; i < WORDS_OF_A_THREAD; ++i) {
            if (first + i * THREADS < p.count) *reinterpret_cast<Word*>(places[i]) = words[i];
        }
    }
}

template <int BYTES>
__device__ __forceinline__ void copy_transposed(const Parameters& p) {
    using Word = typename WordOf<BYTES>::Type;
    constexpr u32 SQUARE = BYTES <= 2 ? 64 : 32;
    constexpr u32 PADDING = BYTES < 4 ? 4 / BYTES : 1;  // a column's words are in different banks
    __shared__ Word square[SQUARE][SQUARE + PADDING];   // a row is of neighbours in what is read
    const u32 along = (p.read + SQUARE - 1) / SQUARE, down = (p.written + SQUARE - 1) / SQUARE;
    for (u32 task = blockIdx.x; task < p.count; task += gridDim.x) {
        const u32 line = task / along;
        const u32 first_read = task % along * SQUARE, first_written = line % down * SQUARE;
        const char* from = p.from + first_read * u64(BYTES) + first_written * p.written_from;
        char* to = p.to + first_written * u64(BYTES) + first_read * p.read_to;
        move_to(p, line / down, from, to);
#pragma unroll 4
        for (u32 i = threadIdx.x; i < SQUARE * SQUARE; i += THREADS) {
            const u32 r = i % SQUARE, w = i / SQUARE;
            if (first_read + r < p.read && first_written + w < p.written) {
                square[w][r] = *reinterpret_cast<const Word*>(from + w * p.written_from + r * BYTES);
            }
        }
        __syncthreads();  // the square is whole
#pragma unroll 4
        for (u32 i = threadIdx.x; i < SQUARE * SQUARE; i += THREADS) {
            const u32 w = i % SQUARE, r = i / SQUARE;
            if (first_read + r < p.read && first_written + w < p.written) {
                *reinterpret_cast<Word*>(to + r * p.read_to + w * BYTES) = square[w][r];
            }
        }
        __syncthreads();  // the square is read: the next one may take its place
    }
}
