// Walks a visitor over the accumulators of a tile.
//
//   accumulators --(FragmentMap)--> shared memory --> each lane: VECTOR neighbouring columns of a row --> visitor
//
// The trip through shared memory (each warp its own part, no block barrier) turns the scattered fragments into rows.
// The visitor then reads and writes every argument in whole, contiguous vectors. The accumulators also leave the
// registers: the visitor has all registers to itself, and its code exists once.
//
// A visitor has
//   SWEEPS, keeps(sweep)                    how often the tile is walked over; whether a walk writes to accumulators.
//   Visitor(parameters, work, column)       column: this lane's first, in the tile.
//   fetch(sweep, m)                         starts the loads for its columns of row m; gives the loaded values.
//   visit(sweep, m, row, accum, fetched)    computes and stores; `row` is m's place in the tile; `accum` has the lane's
//                                           columns of every accumulator.
//   finish_sweep(sweep)                     leaves the reductions of each warp in shared memory.
//   finish()                                reductions, by the whole block.
// The loads of the next row are started before the present row is computed: an element is always read before it is
// written, because the lane that reads it is the lane that writes it.
#pragma once
#include "../sweep.cuh"
#include "../views.cuh"
#include "mainloop.cuh"
#include "reduce.cuh"

namespace epilogue::sm80 {

template <class Config>
struct Staging {
    using Loop = Mainloop<Config>;
    using Accumulator = typename Loop::Accumulator;
    using Map = typename Loop::Multiply::Map;
    using W = Walk<Config>;
    static constexpr int BLOCKS = Loop::MI / Config::EPILOGUE_PASSES;  // 16-row blocks staged at once
    static constexpr int ROW_BYTES = Config::WARP_N * static_cast<int>(sizeof(Accumulator));
    static constexpr int WARP_BYTES = BLOCKS * 16 * ROW_BYTES;
    static constexpr int SHARED_BYTES = WARP_BYTES * W::WARPS_M * W::WARPS_N;
    static constexpr int VISITS = BLOCKS * 16 / W::ROWS;  // per pass and lane
    static_assert(Loop::MI % Config::EPILOGUE_PASSES == 0);
    static_assert(16 % W::ROWS == 0 || BLOCKS * 16 % W::ROWS == 0);

    // A lane writes pairs of columns; 4 (f32) or 2 (f64) rows share an access, and must differ.
    static constexpr int CHUNKS = ROW_BYTES / 16;
    static constexpr int FACTOR = sizeof(Accumulator) == 8 ? 4 : 2;
    static constexpr int MASK = (CHUNKS >= 8 ? 8 : CHUNKS) - 1;
    static_assert((CHUNKS & (CHUNKS - 1)) == 0);

    static __device__ __forceinline__ int offset(int row, int column) {
        const int byte = column * static_cast<int>(sizeof(Accumulator));
        return row * ROW_BYTES + (((byte / 16) ^ (row * FACTOR & MASK)) * 16) + byte % 16;
    }

    static __device__ __forceinline__ void write(unsigned char* warp_memory, int lane,
                                                 const Accumulator (&acc)[Loop::MI][Loop::NJ][2][2], int pass) {
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
            for (int j = 0; j < Loop::NJ; ++j)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    Pack<Accumulator, 2> pair;
                    Map::pair(acc[pass * BLOCKS + block], j, i, pair.value);
                    const int row = block * 16 + Map::row(lane, i), column = Map::column(lane, j);
                    *reinterpret_cast<Pack<Accumulator, 2>*>(warp_memory + offset(row, column)) = pair;
                }
    }

    static __device__ __forceinline__ void read(const unsigned char* warp_memory, int row,
                                                Accumulator (&accum)[Config::ACCUMULATORS][W::V]) {
#pragma unroll
        for (int i = 0; i < Config::ACCUMULATORS; ++i) {
            const int column = i * Parts<Config>::WIDTH + W::lane() % W::LANES * W::V;
            const auto pack = *reinterpret_cast<const Pack<Accumulator, W::V>*>(warp_memory + offset(row, column));
#pragma unroll
            for (int v = 0; v < W::V; ++v) accum[i][v] = pack.value[v];
        }
    }

    // What a lane has read, changed.
    static __device__ __forceinline__ void put_back(unsigned char* warp_memory, int row,
                                                    const Accumulator (&accum)[Config::ACCUMULATORS][W::V]) {
#pragma unroll
        for (int i = 0; i < Config::ACCUMULATORS; ++i) {
            const int column = i * Parts<Config>::WIDTH + W::lane() % W::LANES * W::V;
            Pack<Accumulator, W::V> pack;
#pragma unroll
            for (int v = 0; v < W::V; ++v) pack.value[v] = accum[i][v];
            *reinterpret_cast<Pack<Accumulator, W::V>*>(warp_memory + offset(row, column)) = pack;
        }
    }

    // The sweeps from this one on. In the first, the accumulators come from registers, in as many passes as shared memory
    // has room for; the others find them there, as the lane has left them.
    template <int SWEEP, class Visitor>
    static __device__ __forceinline__ void sweep(Visitor& visitor, const Accumulator (&acc)[Loop::MI][Loop::NJ][2][2],
                                                 const Work& work, unsigned char* mine) {
        if constexpr (SWEEP < Visitor::SWEEPS) {
            const int lane = thread_in_tile<Config>() % 32;
            int row = W::row();
            auto fetched = visitor.fetch(Sweep<SWEEP>(), work.m + row);
#pragma unroll
            for (int pass = 0; pass < Config::EPILOGUE_PASSES; ++pass) {
                if constexpr (SWEEP == 0) {
                    if (pass != 0) __syncwarp();  // the reads of the pass before are over
                    write(mine, lane, acc, pass);
                    __syncwarp();  // the warp's part is complete
                }
                // One copy of the visitor's code: unrolling it would only cost instruction cache.
#pragma unroll 1
                for (int visit = 0; visit < VISITS; ++visit) {
                    Accumulator accum[Config::ACCUMULATORS][W::V];
                    const int place = visit * W::ROWS + W::lane() / W::LANES;
                    read(mine, place, accum);
                    const auto now = fetched;
                    const bool last = pass == Config::EPILOGUE_PASSES - 1 && visit == VISITS - 1;
                    if (!last) fetched = visitor.fetch(Sweep<SWEEP>(), work.m + row + W::ROWS);
                    visitor.visit(Sweep<SWEEP>(), work.m + row, row, accum, now);
                    if constexpr (Visitor::keeps(SWEEP)) put_back(mine, place, accum);
                    row += W::ROWS;
                }
            }
            visitor.finish_sweep(Sweep<SWEEP>());
            if constexpr (SWEEP + 1 < Visitor::SWEEPS) __syncthreads();  // every warp's part of a line is in shared memory
            sweep<SWEEP + 1>(visitor, acc, work, mine);
        }
    }

    template <class Visitor>
    static __device__ __forceinline__ void run(Visitor& visitor, const Accumulator (&acc)[Loop::MI][Loop::NJ][2][2],
                                               const Work& work, unsigned char* shared) {
        static_assert(Visitor::SWEEPS == 1 || Config::EPILOGUE_PASSES == 1, "all accumulators are in shared memory at once");
        sweep<0>(visitor, acc, work, shared + W::warp() * WARP_BYTES);
        visitor.finish();
    }
};

}  // namespace epilogue::sm80
