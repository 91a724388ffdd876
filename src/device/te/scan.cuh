// Scans: recurrences along time, of many columns that don't know of each other.
//
// What a step does to the state is a map; maps compose, whatever the state. So time can be cut:
//
//   lane      composes the maps of its steps                                   (V steps next to each other)
//   warp      scans its lanes' maps by shuffles, SUBTILES times in a row
//   tile      the warps' maps, in shared memory: where each warp starts, and the map of the whole tile
//   column    the state at the tile's start: carried over by the block that owns the column, or looked up from the
//             maps of all earlier tiles
//   lane      runs the update itself over its steps, from the state that it now knows, and stores
//
// Only the composition of maps reassociates. Which maps are composed with which depends on the shape of the tiles
// only, never on which block came first: results are the same bits at every run.
//
// The functions of S are generated:
//   State, Map, Raw                    a column's state; what a step does to it; the elements that a step reads
//   identity(), compose(first, second), apply(map, state), shuffle_up(map, lanes), shuffle_from(map, lane)
//   Cursor column(u32), begin(cursor)  what is the same for all steps of a column; its state before the first step
//   store_begin(cursor)                stores the steps that are given, not computed
//   load<FULL>(cursor, step, raw, valid)              the elements of V steps
//   map(cursor, step, raw), next(cursor, step, raw, state)
//   store<FULL>(cursor, step, states, raw, valid)     stores V steps
//   columns(), steps(), tiles(); maps(), flags(), claims(), control()
#pragma once
#include "../collective.cuh"
#include "../ptx.cuh"
#include "walk.cuh"

namespace epilogue::te {

// One column per thread, one step after the other.
template <class Config, class S>
__device__ __forceinline__ void scan_in_order(const S& source) {
    constexpr int U = Config::UNROLL;
    const u32 column = blockIdx.x * Config::THREADS + threadIdx.x;
    if (column >= source.columns()) return;
    const typename S::Cursor at = source.column(column);
    typename S::State state = source.begin(at);
    source.store_begin(at);
    const index_t steps = source.steps();
    index_t step = 0;
    for (; step + U <= steps; step += U) {
        typename S::Raw raw[U][1];
#pragma unroll
        for (int u = 0; u < U; ++u) source.template load<true>(at, step + u, raw[u], 1);
#pragma unroll
        for (int u = 0; u < U; ++u) {
            typename S::State states[1] = {source.next(at, step + u, raw[u][0], state)};
            state = states[0];
            source.template store<true>(at, step + u, states, raw[u], 1);
        }
    }
    for (; step < steps; ++step) {
        typename S::Raw raw[1];
        source.template load<true>(at, step, raw, 1);
        typename S::State states[1] = {source.next(at, step, raw[0], state)};
        state = states[0];
        source.template store<true>(at, step, states, raw, 1);
    }
}

// How a block's threads lie over a tile: ACROSS columns side by side, 32 / ACROSS lanes of a warp along time.
template <class Config>
struct TileShape {
    static constexpr int ACROSS = Config::ACROSS, ALONG = 32 / ACROSS, V = Config::VECTOR;
    static constexpr int SUBTILES = Config::SUBTILES, WARPS = Config::THREADS / 32;
    static constexpr int SUBTILE_STEPS = ALONG * V, WARP_STEPS = SUBTILES * SUBTILE_STEPS, STEPS = WARPS * WARP_STEPS;
    static_assert(ACROSS >= 1 && ACROSS <= 32 && (ACROSS & (ACROSS - 1)) == 0);
};

// The inclusive scan of maps over the lanes along time.
template <class Config, class S>
__device__ __forceinline__ typename S::Map scan_lanes(typename S::Map map, int y) {
    using Shape = TileShape<Config>;
#pragma unroll
    for (int distance = 1; distance < Shape::ALONG; distance *= 2) {
        const typename S::Map before = S::shuffle_up(map, distance * Shape::ACROSS);
        if (y >= distance) map = S::compose(before, map);
    }
    return map;
}

// A tile: its elements, and what it does to the state.
template <class Config, class S>
struct Tile {
    using Shape = TileShape<Config>;
    using Map = typename S::Map;
    using State = typename S::State;
    typename S::Raw raw[Shape::SUBTILES][Shape::V];
    Map before[Shape::SUBTILES];  // what the warp's steps before this lane's do
    int x, y, warp;

    __device__ __forceinline__ Tile() {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        x = lane % Shape::ACROSS;
        y = lane / Shape::ACROSS;
        warp = static_cast<int>(threadIdx.x) / 32;
    }

    __device__ __forceinline__ index_t first_step(index_t tile, int subtile) const {
        return tile * Shape::STEPS + warp * Shape::WARP_STEPS + subtile * Shape::SUBTILE_STEPS + y * Shape::V;
    }

    static __device__ __forceinline__ int valid(index_t left) {
        return static_cast<int>(left < 0 ? 0 : left < Shape::V ? left : Shape::V);
    }

    // Reads the tile; leaves the map of every warp in `of_warp`.
    __device__ __forceinline__ void read(const S& source, const typename S::Cursor& at, bool exists, index_t tile,
                                         Map* of_warp) {
        const index_t steps = source.steps();
#pragma unroll
        for (int m = 0; m < Shape::SUBTILES; ++m) {
            const index_t step = first_step(tile, m);
            if (exists && step + Shape::V <= steps) {
                source.template load<true>(at, step, raw[m], Shape::V);
            } else if (exists) {
                source.template load<false>(at, step, raw[m], valid(steps - step));
            }
        }
        Map running = S::identity();
#pragma unroll
        for (int m = 0; m < Shape::SUBTILES; ++m) {
            const index_t step = first_step(tile, m);
            Map mine = S::identity();
            if (exists) {
#pragma unroll
                for (int v = 0; v < Shape::V; ++v)
                    if (step + v < steps) mine = S::compose(mine, source.map(at, step + v, raw[m][v]));
            }
            mine = scan_lanes<Config, S>(mine, y);
            const Map earlier = S::shuffle_up(mine, Shape::ACROSS);
            before[m] = y == 0 ? running : S::compose(running, earlier);
            running = S::compose(running, S::shuffle_from(mine, (Shape::ALONG - 1) * Shape::ACROSS + x));
        }
        if (y == 0) of_warp[warp * Shape::ACROSS + x] = running;
    }

    // Runs the update from the tile's first state and stores.
    __device__ __forceinline__ void write(const S& source, const typename S::Cursor& at, bool exists, index_t tile,
                                          const Map* of_warp, State start) const {
        if (!exists) return;
        for (int w = 0; w < warp; ++w) start = S::apply(of_warp[w * Shape::ACROSS + x], start);
        const index_t steps = source.steps();
#pragma unroll
        for (int m = 0; m < Shape::SUBTILES; ++m) {
            const index_t step = first_step(tile, m);
            if (step >= steps) continue;
            State state = S::apply(before[m], start);
            State states[Shape::V];
#pragma unroll
            for (int v = 0; v < Shape::V; ++v) {
                if (step + v < steps) state = source.next(at, step + v, raw[m][v], state);
                states[v] = state;
            }
            if (step + Shape::V <= steps) {
                source.template store<true>(at, step, states, raw[m], Shape::V);
            } else {
                source.template store<false>(at, step, states, raw[m], valid(steps - step));
            }
        }
    }

    // The map of the whole tile, of column x.
    __device__ __forceinline__ Map whole(const Map* of_warp) const {
        Map map = of_warp[x];
        for (int w = 1; w < Shape::WARPS; ++w) map = S::compose(map, of_warp[w * Shape::ACROSS + x]);
        return map;
    }
};

// Every block owns columns, and takes their tiles one after the other.
template <class Config, class S>
__device__ __forceinline__ void scan_owned(const S& source) {
    using Shape = TileShape<Config>;
    __shared__ typename S::Map of_warp[Shape::WARPS * Shape::ACROSS];
    const u32 groups = (source.columns() + Shape::ACROSS - 1) / Shape::ACROSS;
    for (u32 group = blockIdx.x; group < groups; group += gridDim.x) {
        Tile<Config, S> tile;
        const u32 column = group * Shape::ACROSS + tile.x;
        const bool exists = column < source.columns();
        const typename S::Cursor at = source.column(exists ? column : 0);
        typename S::State state = source.begin(at);
        if (exists && tile.warp == 0 && tile.y == 0) source.store_begin(at);
        for (index_t t = 0; t < source.tiles(); ++t) {
            __syncthreads();  // the maps of the tile before have been read
            tile.read(source, at, exists, t, of_warp);
            __syncthreads();
            tile.write(source, at, exists, t, of_warp, state);
            for (int w = 0; w < Shape::WARPS; ++w) state = S::apply(of_warp[w * Shape::ACROSS + tile.x], state);
        }
    }
}

// Blocks share columns: whoever is free claims the next tile of a group of columns, publishes its map, and finds its
// first state from the maps of all tiles before. A claimed tile's map is published without waiting for anything, and
// all earlier tiles have been claimed: nobody waits forever, however many blocks run at once.
//
// Maps are composed in batches of ALONG tiles that begin at multiples of ALONG.
template <class Config, class S>
__device__ __forceinline__ void scan_shared(const S& source) {
    using Shape = TileShape<Config>;
    using Map = typename S::Map;
    using State = typename S::State;
    constexpr int BATCHES = 8;  // whose maps are in flight together
    __shared__ Map of_warp[Shape::WARPS * Shape::ACROSS];
    __shared__ State first_state[Shape::ACROSS];
    __shared__ u32 claimed;
    // control: 0 blocks that are done, 1 launches that are done. A flag is up when it holds this launch's number.
    u32* const control = source.control();
    const u32 launch = load_relaxed(control + 1) + 1;
    const u32 groups = (source.columns() + Shape::ACROSS - 1) / Shape::ACROSS;
    const u32 tiles = static_cast<u32>(source.tiles());
    u32 group = blockIdx.x % groups;
    for (u32 visited = 0; visited < groups; ++visited, group = group + 1 == groups ? 0 : group + 1) {
        Tile<Config, S> tile;
        const u32 column = group * Shape::ACROSS + tile.x;
        const bool exists = column < source.columns();
        const typename S::Cursor at = source.column(exists ? column : 0);
        // The first warp's: the state before batch `batch`.
        State state = source.begin(at);
        u32 batch = 0;
        Map* const maps = source.maps() + static_cast<u64>(group) * tiles * Shape::ACROSS;
        u32* const flags = source.flags() + static_cast<u64>(group) * tiles;
        while (true) {
            __syncthreads();  // the claim, maps and state of the tile before have been read
            if (threadIdx.x == 0) claimed = atomic_add_relaxed(source.claims() + group, 1);
            __syncthreads();
            const u32 t = claimed;
            if (t >= tiles) break;
            if (t == 0 && exists && tile.warp == 0 && tile.y == 0) source.store_begin(at);
            tile.read(source, at, exists, t, of_warp);
            __syncthreads();
            if (tile.warp == 0) {
                const Map whole = tile.whole(of_warp);
                if (tile.y == 0) maps[static_cast<u64>(t) * Shape::ACROSS + tile.x] = whole;
                __syncwarp();  // all columns' maps are written before the flag goes up
                if (threadIdx.x == 0) store_release(flags + t, launch);
                const u32 own = t / Shape::ALONG;
                while (batch < own) {
                    Map map[BATCHES];
#pragma unroll
                    for (int b = 0; b < BATCHES; ++b)
                        if (batch + b < own)
                            while (load_relaxed(flags + (batch + b) * Shape::ALONG + tile.y) != launch) {
                            }
                    fence_acquire_release();  // the maps are read after the flags
#pragma unroll
                    for (int b = 0; b < BATCHES; ++b)
                        if (batch + b < own)
                            map[b] = maps[(static_cast<u64>(batch + b) * Shape::ALONG + tile.y) * Shape::ACROSS + tile.x];
#pragma unroll
                    for (int b = 0; b < BATCHES; ++b) {
                        if (batch + b >= own) break;
                        const Map scanned = scan_lanes<Config, S>(map[b], tile.y);
                        state = S::apply(S::shuffle_from(scanned, (Shape::ALONG - 1) * Shape::ACROSS + tile.x), state);
                    }
                    batch = own - batch < BATCHES ? own : batch + BATCHES;
                }
                // The tiles of this tile's own batch.
                Map map = S::identity();
                const bool earlier = own * Shape::ALONG + tile.y < t;
                if (earlier)
                    while (load_relaxed(flags + own * Shape::ALONG + tile.y) != launch) {
                    }
                fence_acquire_release();
                if (earlier) map = maps[(static_cast<u64>(own) * Shape::ALONG + tile.y) * Shape::ACROSS + tile.x];
                map = scan_lanes<Config, S>(map, tile.y);
                const State start = S::apply(S::shuffle_from(map, (Shape::ALONG - 1) * Shape::ACROSS + tile.x), state);
                if (tile.y == 0) first_state[tile.x] = start;
            }
            __syncthreads();
            tile.write(source, at, exists, t, of_warp, first_state[tile.x]);
        }
    }
    // The last block to leave makes the claims ready for the next launch; until it does, nobody of the next one runs.
    __syncthreads();
    if (threadIdx.x == 0) {
        if (atomic_add_acquire_release(control, 1) == gridDim.x - 1) {
            for (u32 i = 0; i < groups; ++i) store_release(source.claims() + i, 0);
            store_release(control + 1, launch);
            store_release(control, 0);
        }
    }
}

}  // namespace epilogue::te
