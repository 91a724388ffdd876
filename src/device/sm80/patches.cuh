// The GEMM kernel for sm_80 and up of a convolution: A is patches of images under a window, and is never stored.
//
//   row m of A     output (image, p0, p1, p2) of the three axes, the last the fastest;
//   column k of A  channel k % C of filter position k / C, (r0, r1, r2);
//   element        channel c at  p * stride - before + r * dilation  along each axis; 0 if that is outside the image.
//
// Some values depend on the row alone: where the window begins in memory and along the axes. They are computed once for
// a tile, into shared memory: in registers they would leave too few for the accumulators. Values that depend on the
// column alone are computed once for all rows that a thread copies. A copy stays within one element of the window, so
// the number of channels bounds its width. The window's numbers are run-time arguments.
//
// Static shared memory:  [ PatchRow for each row of the tile ]
#pragma once
#include "gemm.cuh"

namespace epilogue::sm80 {

// The host has a reciprocal: i / divisor is i * magic >> shift, for any i below 2^31.
struct Divisor {
#include "Divisor.fields"

    __device__ __forceinline__ u32 quotient(u32 i) const {
        return static_cast<u32>(static_cast<u64>(i) * magic >> shift);
    }
};

// Images and window; three axes, strides in elements. `Operand` has those of images and channels.
struct Patches {
#include "Patches.fields"
};

template <class Config>
struct PatchCommon : Common<Config> {
#include "PatchCommon.fields"
};

// Where a row's window begins; it is read by one access.
struct alignas(16) PatchRow {
    u32 offset[2];  // bytes behind the images' first, in halves
    u32 at_01;      // along axes 0 and 1, of 16 bits each
    int at_2;       // of a row that isn't there, so far outside that no element of the window is inside

    __device__ __forceinline__ index_t bytes() const {
        return static_cast<index_t>(static_cast<u64>(offset[1]) << 32 | offset[0]);
    }
    __device__ __forceinline__ int at_0() const { return static_cast<short>(at_01); }
    __device__ __forceinline__ int at_1() const { return static_cast<int>(at_01) >> 16; }
};

// ld.shared.v4.b32
__device__ __forceinline__ PatchRow load_patch_row(u32 shared) {
    PatchRow x;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x.offset[0]), "=r"(x.offset[1]), "=r"(x.at_01), "=r"(x.at_2)
                 : "r"(shared));
    return x;
}

// st.shared.b8, st.shared.b16
template <int BYTES>
__device__ __forceinline__ void store_shared_element(u32 shared, unsigned short bits) {
    if constexpr (BYTES == 1) {
        asm volatile("st.shared.b8 [%0], %1;\n" ::"r"(shared), "r"(static_cast<u32>(bits)) : "memory");
    } else {
        asm volatile("st.shared.b16 [%0], %1;\n" ::"r"(shared), "h"(bits) : "memory");
    }
}

// Copies `valid` bytes, all or none, and writes zeros for the others.
template <int BYTES>
__device__ __forceinline__ void copy_piece(u32 shared, const char* from, int valid) {
    if constexpr (BYTES == 16) {
        copy_async_16(shared, from, valid);
    } else if constexpr (BYTES == 8) {
        copy_async_8(shared, from, valid);
    } else if constexpr (BYTES == 4) {
        copy_async_4(shared, from, valid);
    } else if constexpr (BYTES == 2) {
        store_shared_element<2>(shared, valid ? *reinterpret_cast<const unsigned short*>(from) : 0);
    } else {
        store_shared_element<1>(shared, valid ? *reinterpret_cast<const unsigned char*>(from) : 0);
    }
}

// An element of the window, and a channel.
struct Tap {
    const char* source;  // for a window that begins at the images' first byte
    int at_0, at_1, at_2;
};

// A, as its loader takes it: where the elements of patches are. gradient_patches.cuh has another.
struct PatchOperand {
    const Operand& images;
    const Patches& patches;

    // Of a row that there is, if it is `inside`; elements have SIZE bytes.
    template <int SIZE>
    __device__ __forceinline__ PatchRow row_of(int m, bool inside, int batch) const {
        const Patches& p = patches;
        const u32 of_1 = static_cast<u32>(m) / p.outputs[2];
        const u32 of_0 = of_1 / p.outputs[1];
        const u32 image = of_0 / p.outputs[0];
        const int at_2 = static_cast<int>(static_cast<u32>(m) - of_1 * p.outputs[2]) * p.stride[2] - p.before[2];
        const int at_1 = static_cast<int>(of_1 - of_0 * p.outputs[1]) * p.stride[1] - p.before[1];
        const int at_0 = static_cast<int>(of_0 - image * p.outputs[0]) * p.stride[0] - p.before[0];
        const index_t elements = batch * images.batch + index_t(image) * images.outer + at_0 * p.step[0] +
                                 at_1 * p.step[1] + at_2 * p.step[2];
        return row_at(static_cast<u64>(elements * SIZE), at_0, at_1, inside ? at_2 : NOWHERE);
    }

    template <int SIZE>
    __device__ __forceinline__ Tap tap_of(u32 column) const {
        const Patches& p = patches;
        const u32 tap = p.channels.quotient(column);
        const u32 channel = column - tap * p.channels.divisor;
        const u32 of_1 = p.taps[0].quotient(tap);
        const u32 of_0 = p.taps[1].quotient(of_1);
        Tap result;
        result.at_2 = static_cast<int>(tap - of_1 * p.taps[0].divisor) * p.dilation[2];
        result.at_1 = static_cast<int>(of_1 - of_0 * p.taps[1].divisor) * p.dilation[1];
        result.at_0 = static_cast<int>(of_0) * p.dilation[0];
        const index_t elements =
            channel * images.k + result.at_0 * p.step[0] + result.at_1 * p.step[1] + result.at_2 * p.step[2];
        result.source = static_cast<const char*>(images.pointer) + elements * SIZE;
        return result;
    }

    __device__ __forceinline__ bool is_inside(const PatchRow& of, const Tap& tap) const {
        const Patches& p = patches;
        const bool at_2 = static_cast<u32>(of.at_2 + tap.at_2) < static_cast<u32>(p.extent[2]);
        const bool at_1 = static_cast<u32>(of.at_1() + tap.at_1) < static_cast<u32>(p.extent[1]);
        const bool at_0 = static_cast<u32>(of.at_0() + tap.at_0) < static_cast<u32>(p.extent[0]);
        return at_2 & at_1 & at_0;
    }

    __device__ __forceinline__ index_t bytes(const PatchRow& of) const { return of.bytes(); }

  protected:
    static constexpr int NOWHERE = -2147483647 - 1;

    static __device__ __forceinline__ PatchRow row_at(u64 bytes, int at_0, int at_1, int at_2) {
        const u32 at_01 = (static_cast<u32>(at_0) & 0xffff) | static_cast<u32>(at_1) << 16;
        return {{static_cast<u32>(bytes), static_cast<u32>(bytes >> 32)}, at_01, at_2};
    }
};

template <class Config>
__device__ __forceinline__ PatchOperand operand_a(const PatchCommon<Config>& common) {
    return {common.a, common.patches};
}

template <class Tile, int COPY_BYTES, int THREADS, class Source>
class PatchLoader {
    using Element = typename Tile::Element;
    static constexpr int SIZE = static_cast<int>(sizeof(Element));
    static constexpr int PIECES = 16 / COPY_BYTES;
    static constexpr int PIECE_ELEMENTS = COPY_BYTES / SIZE;
    static constexpr int ROWS_PER_PASS = THREADS / Tile::CHUNKS;
    static constexpr int PASSES = (Tile::ROWS + ROWS_PER_PASS - 1) / ROWS_PER_PASS;
    static constexpr bool EVEN = Tile::ROWS % ROWS_PER_PASS == 0;
    static_assert(Tile::MAJOR == Major::K && THREADS % Tile::CHUNKS == 0 && COPY_BYTES >= SIZE);

    const Source of_a;
    int row, chunk;  // this thread's first row and its chunk column in the tile
    u32 table;       // what is known of that row
    int k;           // the column of A where that chunk begins in the k-tile that is next

    static __device__ __forceinline__ PatchRow* rows() {
        __shared__ PatchRow of_tile[Tile::ROWS];
        return of_tile;
    }

  public:
    // `outer`: the tile's first row; `extent`: how many rows there are; `first_k`: the first column.
    __device__ __forceinline__ PatchLoader(const Source& operand, int thread, int outer, int extent, int first_k, int batch)
        : of_a(operand) {
        row = thread / Tile::CHUNKS;
        table = shared_address(rows()) + static_cast<u32>(row * sizeof(PatchRow));
        chunk = thread % Tile::CHUNKS;
        k = first_k + chunk * Tile::CHUNK_ELEMENTS;
        for (int r = thread; r < Tile::ROWS; r += THREADS) {
            rows()[r] = of_a.template row_of<SIZE>(outer + r, outer + r < extent, batch);
        }
        __syncthreads();  // the rows of all threads are known
    }

    // Starts the copy of the next k-tile, of which `k_left` is left, into the stage at `shared`; where nothing is left, of
    // zeros. K is whole copies, as the channels are.
    __device__ __forceinline__ void load(u32 shared, int k_left) {
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece) {
            const auto tap = of_a.template tap_of<SIZE>(static_cast<u32>(k + piece * PIECE_ELEMENTS));
            // All of the copy or nothing; but of what the compiler knows to be so it makes a branch, and the products around
            // it wait for that.
            const int left = (k_left - chunk * Tile::CHUNK_ELEMENTS - piece * PIECE_ELEMENTS) * SIZE;
            const int bytes = left < 0 ? 0 : (left < COPY_BYTES ? left : COPY_BYTES);
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                const int r = row + pass * ROWS_PER_PASS;
                if (EVEN || r < Tile::ROWS) {
                    const PatchRow of = load_patch_row(table + pass * (ROWS_PER_PASS * sizeof(PatchRow)));
                    copy_piece<COPY_BYTES>(shared + static_cast<u32>(Tile::offset(r, chunk) + piece * COPY_BYTES),
                                           tap.source + of_a.bytes(of), of_a.is_inside(of, tap) ? bytes : 0);
                }
            }
        }
        k += Tile::COLUMNS;
    }
};

template <class Tile, int COPY_BYTES, int THREADS>
__device__ __forceinline__ PatchLoader<Tile, COPY_BYTES, THREADS, PatchOperand> loader_of_a(const PatchOperand& a, int thread,
                                                                                            int m, int extent, int k,
                                                                                            int batch) {
    return PatchLoader<Tile, COPY_BYTES, THREADS, PatchOperand>(a, thread, m, extent, k, batch);
}

}  // namespace epilogue::sm80
