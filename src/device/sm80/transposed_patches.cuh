// The GEMM kernel for sm_80 and up of a convolution's filter gradient: A is the patches of images under a window,
// transposed.
//
//   row m of A     channel m % C of filter position m / C;
//   column k of A  output (image, p0, p1, p2);
//   element        as in patches.cuh.
//
// A tile's rows in shared memory belong to outputs, and a thread has the same chunk of each. Values that depend on the
// filter position are therefore the same all along K. The beginning of the window is computed for each row that a
// thread copies.
#pragma once
#include "patches.cuh"

namespace epilogue::sm80 {

template <class Config>
struct TransposedPatchCommon : PatchCommon<Config> {
#include "TransposedPatchCommon.fields"
};

struct TransposedPatchOperand : PatchOperand {
    const Divisor (&outputs)[3];

    __device__ __forceinline__ TransposedPatchOperand(const Operand& images, const Patches& patches,
                                                      const Divisor (&outputs)[3])
        : PatchOperand{images, patches}, outputs(outputs) {}
};

template <class Config>
__device__ __forceinline__ TransposedPatchOperand operand_a(const TransposedPatchCommon<Config>& common) {
    return {common.a, common.patches, common.divisors};
}

template <class Tile, int COPY_BYTES, int THREADS>
class TransposedPatchLoader {
    using Element = typename Tile::Element;
    static constexpr int SIZE = static_cast<int>(sizeof(Element));
    static constexpr int PIECES = 16 / COPY_BYTES;
    static constexpr int PIECE_ELEMENTS = COPY_BYTES / SIZE;
    static constexpr int ROWS_PER_PASS = THREADS / Tile::CHUNKS;
    static constexpr int PASSES = (Tile::ROWS + ROWS_PER_PASS - 1) / ROWS_PER_PASS;
    static constexpr bool EVEN = Tile::ROWS % ROWS_PER_PASS == 0;
    static_assert(Tile::MAJOR == Major::MN && THREADS % Tile::CHUNKS == 0 && COPY_BYTES >= SIZE);

    const TransposedPatchOperand of_a;
    int row, chunk;  // this thread's first row and its chunk column in the tile
    int m, m_left;   // the row of A where that chunk begins, and how many are left from there
    int k;           // the column of A in that row of the k-tile that is next
    index_t batch;   // elements to the batch's first
    Tap tap;         // of that chunk, if it is one copy

    // Where the window is at an output.
    struct Place {
        index_t bytes;
        int at_0, at_1, at_2;
    };

    __device__ __forceinline__ Place place_of(u32 output) const {
        const Patches& p = of_a.patches;
        const u32 of_1 = of_a.outputs[2].quotient(output);
        const u32 of_0 = of_a.outputs[1].quotient(of_1);
        const u32 image = of_a.outputs[0].quotient(of_0);
        Place place;
        place.at_2 = static_cast<int>(output - of_1 * of_a.outputs[2].divisor) * p.stride[2] - p.before[2];
        place.at_1 = static_cast<int>(of_1 - of_0 * of_a.outputs[1].divisor) * p.stride[1] - p.before[1];
        place.at_0 = static_cast<int>(of_0 - image * of_a.outputs[0].divisor) * p.stride[0] - p.before[0];
        place.bytes = (batch + index_t(image) * of_a.images.outer + place.at_0 * p.step[0] + place.at_1 * p.step[1] +
                       place.at_2 * p.step[2]) *
                      SIZE;
        return place;
    }

    __device__ __forceinline__ bool is_inside(const Place& of, const Tap& at) const {
        const Patches& p = of_a.patches;
        const bool at_2 = static_cast<u32>(of.at_2 + at.at_2) < static_cast<u32>(p.extent[2]);
        const bool at_1 = static_cast<u32>(of.at_1 + at.at_1) < static_cast<u32>(p.extent[1]);
        const bool at_0 = static_cast<u32>(of.at_0 + at.at_0) < static_cast<u32>(p.extent[0]);
        return at_2 & at_1 & at_0;
    }

  public:
    // `outer`: the tile's first row of A; `extent`: how many rows there are; `first_k`: the first column.
    __device__ __forceinline__ TransposedPatchLoader(const TransposedPatchOperand& operand, int thread, int outer, int extent,
                                                     int first_k, int of_batch)
        : of_a(operand) {
        row = thread / Tile::CHUNKS;
        chunk = thread % Tile::CHUNKS;
        m = outer + chunk * Tile::CHUNK_ELEMENTS;
        m_left = extent - m;
        k = first_k + row;
        batch = of_batch * of_a.images.batch;
        tap = of_a.template tap_of<SIZE>(static_cast<u32>(m));
    }

    // Starts the copy of the next k-tile, of which `k_left` is left, into the stage at `shared`; where nothing is left, of
    // zeros. M is whole copies, as the channels are.
    __device__ __forceinline__ void load(u32 shared, int k_left) {
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const int r = row + pass * ROWS_PER_PASS;
            if (EVEN || r < Tile::ROWS) {
                const Place of = place_of(static_cast<u32>(k + pass * ROWS_PER_PASS));
#pragma unroll
                for (int piece = 0; piece < PIECES; ++piece) {
                    const Tap at =
                        PIECES == 1 ? tap : of_a.template tap_of<SIZE>(static_cast<u32>(m + piece * PIECE_ELEMENTS));
                    const bool inside = (k_left > r) & (m_left > piece * PIECE_ELEMENTS) & is_inside(of, at);
                    copy_piece<COPY_BYTES>(shared + static_cast<u32>(Tile::offset(r, chunk) + piece * COPY_BYTES),
                                           at.source + of.bytes, inside ? COPY_BYTES : 0);
                }
            }
        }
        k += Tile::ROWS;
    }
};

template <class Tile, int COPY_BYTES, int THREADS>
__device__ __forceinline__ TransposedPatchLoader<Tile, COPY_BYTES, THREADS> loader_of_a(const TransposedPatchOperand& a,
                                                                                        int thread, int m, int extent, int k,
                                                                                        int batch) {
    return TransposedPatchLoader<Tile, COPY_BYTES, THREADS>(a, thread, m, extent, k, batch);
}

}  // namespace epilogue::sm80
