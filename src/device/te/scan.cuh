// Scans: recurrences along time, of many columns that don't know of each other.
//
// A step maps the state to the next one; maps compose, whatever the state. So time can be cut:
//
//   lane      composes the maps of its steps                                   (V steps next to each other);
//   warp      scans its lanes' maps by shuffles, SUBTILES times in a row;
//   tile      the warps' maps, in shared memory: where each warp starts, and the map of the whole tile;
//   column    the state at the tile's start. The block that owns the column carries it over; or it is looked up from
//             the maps of earlier tiles and of batches of them;
//   lane      runs the update itself over its steps, from the state that it now knows, and stores.
//
// Only the composition of maps reassociates. Its order depends on the shape of the tiles alone, never on the order in
// which blocks arrive: results are the same bits at every run.
//
// Tiles begin SHIFT steps before the first one, so that memory is aligned for V steps at once.
//
// With FOLDS, columns are combined to one at every step: GROUP neighbouring lanes share those that become one, PER_LANE
// neighbours each. Each lane combines its own, then lanes combine as neighbours, pairs of neighbours and so on (with
// EXACT, one after the other).
//
// The functions of S are generated:
//   State, Map, Raw                    a column's state; what a step does to it; the elements that a step reads;
//   identity(), compose(first, second), apply(map, state), shuffle_up(map, lanes), shuffle_from(map, lane);
//   Cursor column(u32), begin(cursor)  values that all steps of a column share; its state before the first step;
//   store_begin(cursor)                stores the steps that are given, not computed;
//   load<FULL>(cursor, step, raw, valid)              the elements of V steps, or of those that are valid;
//   map(cursor, step, raw), next(cursor, step, raw, state);
//   store<FULL>(cursor, step, states, raw, valid)     stores V steps;
//   columns(), steps(), tiles(); maps(), flags(), claims(), control(). With FOLDS, columns() are those that are left;
//   reduced()                          columns that become one; 1 without FOLDS;
//   Fold::Value, identity(), combine(left, right), shuffle_down(x, n, width), shuffle_lane(x, lane, width);
//   fold(cursor, step, raw, state, value)        a column's contribution to its group; whether it counts;
//   store_folded(cursor, step, raw, total)
//   GIVEN, fold_given(number, cursor, value), store_given(number, cursor, total)   likewise for the given steps.
#pragma once
#include "../collective.cuh"
#include "../ptx.cuh"
#include "walk.cuh"

namespace epilogue::te {

// The columns of a lane.
template <class Config, class S>
struct LaneColumns {
    static constexpr int M = Config::PER_LANE, GROUP = Config::GROUP;
    using State = typename S::State;
    using Raw = typename S::Raw;
    typename S::Cursor at[M];
    bool exists[M];
    bool leads;  // this lane stores what its group is folded to

    __device__ __forceinline__ LaneColumns(const S& source, u32 group, u32 lane) {
        const u32 reduced = source.reduced();
        leads = group < source.columns() && lane == 0;
#pragma unroll
        for (int m = 0; m < M; ++m) {
            const u32 column = lane * M + m;
            exists[m] = group < source.columns() && column < reduced;
            at[m] = source.column(exists[m] ? group * reduced + column : 0);
        }
    }

    // Combines what a group's columns give. The whole warp takes part; the group's first lane gets the total.
    template <class Fold>
    static __device__ __forceinline__ typename Fold::Value total(const typename Fold::Value (&x)[M],
                                                                 const bool (&counts)[M]) {
        typename Fold::Value sum = Fold::identity();
        if constexpr (Config::EXACT) {
            for (int lane = 0; lane < GROUP; ++lane) {
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    const typename Fold::Value other = Fold::shuffle_lane(x[m], lane, GROUP);
                    if (shuffle_lane(0xffffffffu, counts[m], lane, GROUP)) sum = Fold::combine(sum, other);
                }
            }
        } else {
#pragma unroll
            for (int m = 0; m < M; ++m)
                if (counts[m]) sum = Fold::combine(sum, x[m]);
            sum = combine_lanes<Fold, GROUP>(sum);
        }
        return sum;
    }

    // Stores the steps that are given; `first` says which lanes of the warp do.
    __device__ __forceinline__ void store_given(const S& source, bool first) const {
#pragma unroll
        for (int m = 0; m < M; ++m)
            if (first && exists[m]) source.store_begin(at[m]);
        if constexpr (S::FOLDS) {
            using Fold = typename S::Fold;
#pragma unroll
            for (int given = 0; given < S::GIVEN; ++given) {
                typename Fold::Value x[M];
                bool counts[M];
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    x[m] = Fold::identity();
                    counts[m] = exists[m] && source.fold_given(given, at[m], x[m]);
                }
                const typename Fold::Value sum = total<Fold>(x, counts);
                if (first && leads) source.store_given(given, at[0], sum);
            }
        }
    }

    // Stores what the columns' states after a step are folded to, if `is_step`.
    __device__ __forceinline__ void fold(const S& source, index_t step, bool is_step, const Raw (&raw)[M],
                                         const State (&state)[M]) const {
        if constexpr (S::FOLDS) {
            using Fold = typename S::Fold;
            typename Fold::Value x[M];
            bool counts[M];
#pragma unroll
            for (int m = 0; m < M; ++m) {
                x[m] = Fold::identity();
                counts[m] = is_step && exists[m] && source.fold(at[m], step, raw[m], state[m], x[m]);
            }
            const typename Fold::Value sum = total<Fold>(x, counts);
            if (is_step && leads) source.store_folded(at[0], step, raw[0], sum);
        }
    }

    // One step of all columns.
    __device__ __forceinline__ void step(const S& source, index_t step, const Raw (&raw)[M][1], State (&state)[M]) const {
        Raw own[M];
#pragma unroll
        for (int m = 0; m < M; ++m) {
            own[m] = raw[m][0];
            if (exists[m]) {
                const State states[1] = {source.next(at[m], step, raw[m][0], state[m])};
                state[m] = states[0];
                source.template store<true>(at[m], step, states, raw[m], 1);
            }
        }
        fold(source, step, true, own, state);
    }
};

// A lane's columns, one step after the other.
template <class Config, class S>
__device__ __forceinline__ void scan_in_order(const S& source) {
    constexpr int M = Config::PER_LANE, U = Config::UNROLL;
    const u32 thread = blockIdx.x * Config::THREADS + threadIdx.x;
    const LaneColumns<Config, S> mine(source, thread / Config::GROUP, thread % Config::GROUP);
    if constexpr (!S::FOLDS) {
        if (!mine.exists[0]) return;
    }
    typename S::State state[M];
#pragma unroll
    for (int m = 0; m < M; ++m) state[m] = source.begin(mine.at[m]);
    mine.store_given(source, true);
    const index_t steps = source.steps();
    index_t step = 0;
    for (; step + U <= steps; step += U) {
        typename S::Raw raw[U][M][1];
#pragma unroll
        for (int u = 0; u < U; ++u)
#pragma unroll
            for (int m = 0; m < M; ++m)
                if (mine.exists[m]) source.template load<true>(mine.at[m], step + u, raw[u][m], 1);
#pragma unroll
        for (int u = 0; u < U; ++u) mine.step(source, step + u, raw[u], state);
    }
    for (; step < steps; ++step) {
        typename S::Raw raw[M][1];
#pragma unroll
        for (int m = 0; m < M; ++m)
            if (mine.exists[m]) source.template load<true>(mine.at[m], step, raw[m], 1);
        mine.step(source, step, raw, state);
    }
}

// How a block's threads lie over a tile: ACROSS columns side by side, 32 / ACROSS lanes of a warp along time.
template <class Config>
struct TileShape {
    static constexpr int ACROSS = Config::ACROSS, ALONG = 32 / ACROSS, V = Config::VECTOR;
    static constexpr int SHIFT = Config::SHIFT, SUBTILES = Config::SUBTILES, WARPS = Config::THREADS / 32;
    static constexpr int SUBTILE_STEPS = ALONG * V, WARP_STEPS = SUBTILES * SUBTILE_STEPS, STEPS = WARPS * WARP_STEPS;
    // Groups of columns that are folded to one, side by side.
    static constexpr int GROUPS = ACROSS / Config::GROUP;
    static_assert(ACROSS >= 1 && ACROSS <= 32 && (ACROSS & (ACROSS - 1)) == 0);
    static_assert(SHIFT >= 0 && SHIFT < V);
    static_assert(Config::PER_LANE == 1 && GROUPS * Config::GROUP == ACROSS);
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
        return tile * Shape::STEPS + warp * Shape::WARP_STEPS + subtile * Shape::SUBTILE_STEPS + y * Shape::V -
               Shape::SHIFT;
    }

    static __device__ __forceinline__ bool is_step(index_t step, index_t steps) {
        return (Shape::SHIFT == 0 || step >= 0) && step < steps;
    }

    // Which of V steps there are, and whether all.
    static __device__ __forceinline__ Valid valid(index_t step, index_t steps) {
        const index_t left = steps - step;
        const int begin = Shape::SHIFT > 0 && step < 0 ? static_cast<int>(-step) : 0;
        return {begin, static_cast<int>(left < 0 ? 0 : left < Shape::V ? left : Shape::V)};
    }
    static __device__ __forceinline__ bool all_valid(Valid valid) { return valid.begin == 0 && valid.end == Shape::V; }

    // Whether the warp has all steps of a tile: then nothing is tested again, and all loads are in flight together.
    static __device__ __forceinline__ bool is_full(const S& source, bool exists, index_t tile) {
        const index_t begin = tile * Shape::STEPS - Shape::SHIFT;
        return __all_sync(0xffffffffu, exists && (Shape::SHIFT == 0 || begin >= 0) && begin + Shape::STEPS <= source.steps());
    }

    // Reads the tile; leaves the map of every warp in `of_warp`.
    __device__ __forceinline__ void read(const S& source, const typename S::Cursor& at, bool exists, index_t tile,
                                         Map* of_warp) {
        if (is_full(source, exists, tile)) {
            read_steps<true>(source, at, exists, tile, of_warp);
        } else {
            read_steps<false>(source, at, exists, tile, of_warp);
        }
    }

    template <bool FULL>
    __device__ __forceinline__ void read_steps(const S& source, const typename S::Cursor& at, bool exists, index_t tile,
                                               Map* of_warp) {
        const index_t steps = source.steps();
#pragma unroll
        for (int m = 0; m < Shape::SUBTILES; ++m) {
            const index_t step = first_step(tile, m);
            const Valid there = valid(step, steps);
            if (FULL || (exists && all_valid(there))) {
                source.template load<true>(at, step, raw[m], there);
            } else if (exists) {
                source.template load<false>(at, step, raw[m], there);
            }
        }
        Map running = S::identity();
#pragma unroll
        for (int m = 0; m < Shape::SUBTILES; ++m) {
            const index_t step = first_step(tile, m);
            Map mine = S::identity();
#pragma unroll
            for (int v = 0; v < Shape::V; ++v)
                if (FULL || (exists && is_step(step + v, steps)))
                    mine = S::compose(mine, source.map(at, step + v, raw[m][v]));
            mine = scan_lanes<Config, S>(mine, y);
            const Map earlier = S::shuffle_up(mine, Shape::ACROSS);
            before[m] = y == 0 ? running : S::compose(running, earlier);
            running = S::compose(running, S::shuffle_from(mine, (Shape::ALONG - 1) * Shape::ACROSS + x));
        }
        if (y == 0) of_warp[warp * Shape::ACROSS + x] = running;
    }

    // Runs the update from the tile's first state and stores.
    __device__ __forceinline__ void write(const S& source, const LaneColumns<Config, S>& mine, index_t tile,
                                          const Map* of_warp, State start) const {
        for (int w = 0; w < warp; ++w) start = S::apply(of_warp[w * Shape::ACROSS + x], start);
        if (is_full(source, mine.exists[0], tile)) {
            write_steps<true>(source, mine, tile, start);
        } else {
            write_steps<false>(source, mine, tile, start);
        }
    }

    template <bool FULL>
    __device__ __forceinline__ void write_steps(const S& source, const LaneColumns<Config, S>& mine, index_t tile,
                                                State start) const {
        const bool exists = mine.exists[0];
        if constexpr (!FULL && !S::FOLDS) {
            if (!exists) return;
        }
        const index_t steps = source.steps();
#pragma unroll
        for (int m = 0; m < Shape::SUBTILES; ++m) {
            const index_t step = first_step(tile, m);
            const Valid there = exists ? valid(step, steps) : Valid(0);
            State state = S::apply(before[m], start);
            State states[Shape::V];
#pragma unroll
            for (int v = 0; v < Shape::V; ++v) {
                if (FULL || there.has(v)) state = source.next(mine.at[0], step + v, raw[m][v], state);
                states[v] = state;
            }
            if (FULL || all_valid(there)) {
                source.template store<true>(mine.at[0], step, states, raw[m], there);
            } else if (there.end > 0) {
                source.template store<false>(mine.at[0], step, states, raw[m], there);
            }
            if constexpr (S::FOLDS) {
#pragma unroll
                for (int v = 0; v < Shape::V; ++v) {
                    const typename S::Raw own[1] = {raw[m][v]};
                    const State after[1] = {states[v]};
                    mine.fold(source, step + v, FULL || is_step(step + v, steps), own, after);
                }
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
    const u32 groups = (source.columns() + Shape::GROUPS - 1) / Shape::GROUPS;
    for (u32 group = blockIdx.x; group < groups; group += gridDim.x) {
        Tile<Config, S> tile;
        const LaneColumns<Config, S> mine(source, group * Shape::GROUPS + tile.x / Config::GROUP,
                                          tile.x % Config::GROUP);
        const bool exists = mine.exists[0];
        const typename S::Cursor& at = mine.at[0];
        typename S::State state = source.begin(at);
        if (tile.warp == 0) mine.store_given(source, tile.y == 0);
        for (index_t t = 0; t < source.tiles(); ++t) {
            __syncthreads();  // the maps of the tile before have been read
            tile.read(source, at, exists, t, of_warp);
            __syncthreads();
            tile.write(source, mine, t, of_warp, state);
            for (int w = 0; w < Shape::WARPS; ++w) state = S::apply(of_warp[w * Shape::ACROSS + tile.x], state);
        }
    }
}

// Blocks share columns: whoever is free claims the next tile of a group of columns, publishes its map, and finds its
// first state from the maps of all tiles before. A claimed tile's map is published without waiting for anything, and
// all earlier tiles have been claimed: nobody waits forever, however many blocks run at once.
//
// Maps are composed in batches of ALONG tiles that begin at multiples of ALONG, and a batch's last tile publishes the
// map of the batch. From the state that a block knows from its last tile it goes on by the maps of batches, as many in a
// row as have been published, and then by the maps of their tiles. The bits don't depend on which: a batch's map is
// composed in the same order by everyone. (States would not do instead of the batches' maps: each waits for the one
// before, which takes longer than the batch's tiles. Batches of few tiles come too fast for either.)
template <class Config, class S>
__device__ __forceinline__ void scan_shared(const S& source) {
    using Shape = TileShape<Config>;
    using Map = typename S::Map;
    using State = typename S::State;
    constexpr bool PUBLISHED = Shape::ALONG >= 16;  // whether batches have maps of their own
    constexpr int BATCHES = PUBLISHED ? 5 : 8;      // whose tiles' maps are in flight together
    __shared__ Map of_warp[Shape::WARPS * Shape::ACROSS];
    __shared__ State first_state[Shape::ACROSS];
    __shared__ u32 claimed;
    // control: 0 blocks that are done, 1 launches that are done. A flag is up when it holds this launch's number.
    u32* const control = source.control();
    const u32 launch = control[1] + 1;
    const u32 groups = (source.columns() + Shape::GROUPS - 1) / Shape::GROUPS;
    const u32 tiles = static_cast<u32>(source.tiles());
    u32 group = blockIdx.x % groups;
    for (u32 visited = 0; visited < groups; ++visited, group = group + 1 == groups ? 0 : group + 1) {
        Tile<Config, S> tile;
        const LaneColumns<Config, S> mine(source, group * Shape::GROUPS + tile.x / Config::GROUP,
                                          tile.x % Config::GROUP);
        const bool exists = mine.exists[0];
        const typename S::Cursor& at = mine.at[0];
        // The first warp's: the state before batch `batch`.
        State state = source.begin(at);
        u32 batch = 0;
        // A group's maps: those of tiles, and then those of batches; and their flags.
        const u64 places = tiles + (tiles + Shape::ALONG - 1) / Shape::ALONG;
        Map* const maps = source.maps() + group * places * Shape::ACROSS;
        u32* const flags = source.flags() + group * places;
        while (true) {
            if (threadIdx.x == 0) claimed = atomic_add_relaxed(source.claims() + group, 1);
            __syncthreads();  // everyone has the claim, and has read the maps and state of the tile before
            const u32 t = claimed;
            if (t >= tiles) break;
            if (t == 0 && tile.warp == 0) mine.store_given(source, tile.y == 0);
            tile.read(source, at, exists, t, of_warp);
            __syncthreads();
            if (tile.warp == 0) {
                const u32 own = t / Shape::ALONG;
                // Lane y looks for the map of the y-th batch from here; its flag arrives during what follows.
                const bool earlier = PUBLISHED && batch + tile.y < own;
                const u32 looked = earlier ? load_relaxed(flags + tiles + batch + tile.y) : launch - 1;
                const Map whole = tile.whole(of_warp);
                if (tile.y == 0) maps[static_cast<u64>(t) * Shape::ACROSS + tile.x] = whole;
                __syncwarp();  // all columns' maps are written before the flag goes up
                if (threadIdx.x == 0) store_release(flags + t, launch);
                u32 ready = 0;  // batches in a row whose maps are there
                if constexpr (PUBLISHED) {
                    if (t % Shape::ALONG == Shape::ALONG - 1) {
                        const u32 place = own * Shape::ALONG + tile.y;
                        while (!__all_sync(0xffffffffu, place == t || load_relaxed(flags + place) == launch)) {}
                        fence_acquire_release();  // the maps are read after the flags
                        Map of_tile = whole;
                        if (place < t) of_tile = maps[static_cast<u64>(place) * Shape::ACROSS + tile.x];
                        of_tile = scan_lanes<Config, S>(of_tile, tile.y);
                        if (tile.y == Shape::ALONG - 1) maps[static_cast<u64>(tiles + own) * Shape::ACROSS + tile.x] = of_tile;
                        __syncwarp();  // all columns' maps are written before the flag goes up
                        if (threadIdx.x == 0) store_release(flags + tiles + own, launch);
                    }
                    const u32 missing = __ballot_sync(0xffffffffu, looked != launch);
                    ready = missing == 0 ? Shape::ALONG : (__ffs(missing) - 1) / Shape::ACROSS;
                    batch += ready;
                }
                State start = state;
                while (true) {
                    // Lane y has tile y of every batch; of the last, this tile's own, there are those before it.
                    const auto place = [&](int b) { return (batch + b) * Shape::ALONG + tile.y; };
                    Map map[BATCHES];
                    bool up;
                    do {
                        u32 flag[BATCHES];
#pragma unroll
                        for (int b = 0; b < BATCHES; ++b) flag[b] = place(b) < t ? load_relaxed(flags + place(b)) : launch;
                        up = true;
#pragma unroll
                        for (int b = 0; b < BATCHES; ++b) up = up && flag[b] == launch;
                    } while (!__all_sync(0xffffffffu, up));
                    fence_acquire_release();  // the maps are read after the flags
                    Map of_batch = S::identity();
                    if (PUBLISHED && tile.y < ready)
                        of_batch = maps[static_cast<u64>(tiles + batch - ready + tile.y) * Shape::ACROSS + tile.x];
#pragma unroll
                    for (int b = 0; b < BATCHES; ++b) {
                        map[b] = S::identity();
                        if (place(b) < t) map[b] = maps[static_cast<u64>(place(b)) * Shape::ACROSS + tile.x];
                    }
                    for (u32 b = 0; b < ready; ++b)
                        state = start = S::apply(S::shuffle_from(of_batch, b * Shape::ACROSS + tile.x), start);
                    ready = 0;
#pragma unroll
                    for (int b = 0; b < BATCHES; ++b) {
                        if ((batch + b) * Shape::ALONG >= t) break;
                        const Map scanned = scan_lanes<Config, S>(map[b], tile.y);
                        start = S::apply(S::shuffle_from(scanned, (Shape::ALONG - 1) * Shape::ACROSS + tile.x), start);
                        if (batch + b < own) state = start;
                    }
                    if (own - batch < BATCHES) break;
                    batch += BATCHES;
                }
                batch = own;
                if (tile.y == 0) first_state[tile.x] = start;
            }
            __syncthreads();
            tile.write(source, mine, t, of_warp, first_state[tile.x]);
        }
        __syncthreads();  // everyone has read the last claim
    }
    // The last block to leave makes the claims ready for the next launch; until it does, nobody of the next one runs.
    if (threadIdx.x == 0) {
        if (atomic_add_acquire_release(control, 1) == gridDim.x - 1) {
            for (u32 i = 0; i < groups; ++i) source.claims()[i] = 0;
            control[1] = launch;
            control[0] = 0;
        }
    }
}

}  // namespace epilogue::te
