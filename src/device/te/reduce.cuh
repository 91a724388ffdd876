// Reductions of any element function by any combination, in an order that depends on the launch's shape only.
//
//   pass      every element once, combined to a total; later passes may use the totals of earlier ones.
//     thread    every GROUPth chunk of VECTOR elements, each place of a chunk for itself;    (or, to keep the order of
//               the elements, a contiguous run of chunks).
//     group     its threads' values, by shuffles with neighbours first, then warps through shared memory.
//     grid      with SPLIT, several blocks share an output: the last block to arrive combines the partials in the
//               workspace, in their order. It leaves the counter at 0 for the next launch.
//   apply     every element once more, now that all totals are known.
//
// With HELD, a thread's chunks stay in its registers from the first pass to the last; else they are read again. EVEN
// says that every thread has as many chunks as are held.
//
// The element function S is generated. It has
//   PASSES, Pass<K>                    Pass<K>::Value is the tuple that pass K reduces; identity(), combine(left, right),
//                                      shuffle_down(x, n, width), shuffle_lane(x, lane, width);
//   Totals, part(Number<K>, totals)    the totals of all passes, of one output;
//   Cursor                             values that all elements of an output share;
//   outputs(), chunks(), full_chunks() of an output; with SPLIT splits(), partials(), counters();
//   Held, hold<FULL>(cursor, chunk, held)          reads of a chunk that several passes have; with HELD also values of a
//                                      pass that are needed once more;
//   load<FULL>(Number<K>, cursor, chunk, held, totals, values)
//                                      the elements of a chunk; returns the set of those that count;
//   begin(Number<K>, cursor, v, totals)            the initial value of an exact reduction;
//   finished(Number<K>, cursor, v, totals, total)  the total with the initial value;
//   store(cursor, v, totals)
//   fetch<FULL>, put<FULL>             with APPLY: read and store what every element and the totals give.
#pragma once
#include "../arrival.cuh"
#include "../collective.cuh"
#include "walk.cuh"

namespace epilogue::te {

// The whole block, to `last_to_arrive`.
struct Block {
    static __device__ __forceinline__ void sync() { __syncthreads(); }
    static __device__ __forceinline__ u32 thread() { return threadIdx.x; }
    template <typename T, int ID, int COUNT>
    static __device__ __forceinline__ T* shared() {
        __shared__ T places[COUNT];
        return places;
    }
};

// A pass's number, as a type.
template <int K> struct Number {
    static constexpr int VALUE = K;
};

// A range of a sequence.
struct Range {
    u32 begin, end;
};

// Part `part` of `parts` of `range`, in order; all parts but the last ones have the same length.
__device__ __forceinline__ Range part_of(Range range, u32 part, u32 parts) {
    const u32 length = range.end - range.begin;
    const u32 each = length / parts + (length % parts != 0);
    const u64 begin = static_cast<u64>(each) * part, end = begin + each;
    return {range.begin + static_cast<u32>(begin < length ? begin : length),
            range.begin + static_cast<u32>(end < length ? end : length)};
}

// The chunks of a thread: first, first + STEP, … before end. Those before full_end have all of their elements.
template <int STEP> struct Share {
    u32 first, end, full_end;
    static constexpr u32 step = STEP;
};

// Combines the values of neighbouring threads, GROUP of them, in their order; the first of a group gets the result, with
// ALL every thread of it. Threads of one Pass meet here once, or with other barriers in between.
template <class Pass, int THREADS, int GROUP, bool ALL>
__device__ __forceinline__ typename Pass::Value combine_group(typename Pass::Value x) {
    constexpr int LANES = GROUP < 32 ? GROUP : 32;
    x = combine_lanes<Pass, LANES>(x);
    if constexpr (GROUP <= 32) {
        if constexpr (ALL) x = Pass::shuffle_lane(x, 0, LANES);
    } else {
        constexpr int WARPS = GROUP / 32;  // of a group
        __shared__ typename Pass::Value of_warp[THREADS / 32];
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        if (lane == 0) of_warp[warp] = x;
        __syncthreads();
        // With ALL, every warp does the same, which costs less than to wait for one that does it for all.
        if (ALL || warp % WARPS == 0) {
            x = combine_lanes<Pass, WARPS>(of_warp[warp / WARPS * WARPS + lane % WARPS]);
            if constexpr (ALL) x = Pass::shuffle_lane(x, 0, WARPS);
        }
    }
    return x;
}

// What several passes read of a thread's chunks.
template <class Config, class S>
struct HeldChunks {
    typename S::Held chunk[Config::HELD > 0 ? Config::HELD : 1];

    template <class Share>
    __device__ __forceinline__ void read(const S& source, const typename S::Cursor& at, const Share& share) {
#pragma unroll
        for (int c = 0; c < Config::HELD; ++c) {
            const u32 position = share.first + c * share.step;
            if (Config::EVEN || position < share.end) source.template hold<true>(at, position, chunk[c]);
        }
    }
};

// Folds a thread's chunks into one value per place of a chunk; with FOLD, into the first.
template <class Config, class S, int K, bool FOLD>
struct ThreadSum {
    using Pass = typename S::template Pass<K>;
    using Value = typename Pass::Value;
    using Totals = typename S::Totals;
    using Held = typename S::Held;
    static constexpr int V = Config::VECTOR;
    Value place[V];

    __device__ __forceinline__ void add(const Value (&x)[V], u32 counts) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            Value& to = place[FOLD ? 0 : v];
            if (counts >> v & 1) to = Pass::combine(to, x[v]);
        }
    }

    template <bool FULL>
    __device__ __forceinline__ u32 load(const S& source, const typename S::Cursor& at, u32 position, Held& held,
                                        const Totals (&totals)[V], Value (&x)[V]) {
        return source.template load<FULL>(Number<K>{}, at, position, held, totals, x);
    }

    template <class Share>
    __device__ __forceinline__ void walk(const S& source, const typename S::Cursor& at, const Share& share,
                                         HeldChunks<Config, S>& held, const Totals (&totals)[V]) {
        if constexpr (Config::HELD > 0) {
#pragma unroll
            for (int c = 0; c < Config::HELD; ++c) {
                const u32 position = share.first + c * share.step;
                if (Config::EVEN || position < share.end) {
                    Value x[V];
                    const u32 counts = load<true>(source, at, position, held.chunk[c], totals, x);
                    add(x, counts);
                }
            }
        } else {
            walk_memory(source, at, share, totals);
        }
    }

    template <class Share>
    __device__ __forceinline__ void walk_memory(const S& source, const typename S::Cursor& at, const Share& share,
                                                const Totals (&totals)[V]) {
        constexpr int U = Config::UNROLL;
        u32 chunk = share.first;
        const u32 full = min(share.end, share.full_end);
        // The loads of U chunks are in flight together.
        for (; chunk < full && full - chunk > (U - 1) * share.step; chunk += U * share.step) {
            Value x[U][V];
            Held again[U];
            u32 counts[U];
#pragma unroll
            for (int u = 0; u < U; ++u) source.template hold<true>(at, chunk + u * share.step, again[u]);
#pragma unroll
            for (int u = 0; u < U; ++u)
                counts[u] = load<true>(source, at, chunk + u * share.step, again[u], totals, x[u]);
#pragma unroll
            for (int u = 0; u < U; ++u) add(x[u], counts[u]);
        }
        for (; chunk < share.end; chunk += share.step) {
            Value x[V];
            Held again;
            u32 counts;
            if (chunk < full) {
                source.template hold<true>(at, chunk, again);
                counts = load<true>(source, at, chunk, again, totals, x);
            } else {
                source.template hold<false>(at, chunk, again);
                counts = load<false>(source, at, chunk, again, totals, x);
            }
            add(x, counts);
            if (share.end - chunk <= share.step) break;  // the sum could wrap
        }
    }

    __device__ __forceinline__ Value total() const {
        Value x = place[0];
        if constexpr (!FOLD) {
            // Pairs, pairs of pairs, …
            Value tree[V];
#pragma unroll
            for (int v = 0; v < V; ++v) tree[v] = place[v];
#pragma unroll
            for (int width = 1; width < V; width *= 2)
#pragma unroll
                for (int v = 0; v + width < V; v += 2 * width) tree[v] = Pass::combine(tree[v], tree[v + width]);
            x = tree[0];
        }
        return x;
    }
};

// The passes from K on. `combine(number, sum)` makes the totals of the threads' sums, for those threads that need them;
// it returns whether this block goes on, and so does this.
template <int K, class Config, bool FOLD, class S, class Share, class Combine>
__device__ __forceinline__ bool run_passes(const S& source, const typename S::Cursor& at, bool exists,
                                           const Share& share, HeldChunks<Config, S>& held,
                                           typename S::Totals (&totals)[Config::VECTOR], const Combine& combine) {
    if constexpr (K < S::PASSES) {
        ThreadSum<Config, S, K, FOLD> sum;
#pragma unroll
        for (int v = 0; v < Config::VECTOR; ++v) {
            if constexpr (Config::EXACT) {
                sum.place[v] = source.begin(Number<K>{}, at, v, totals[v]);
            } else {
                sum.place[v] = S::template Pass<K>::identity();
            }
        }
        if (exists) sum.walk(source, at, share, held, totals);
        if (!combine(Number<K>{}, sum)) return false;
        return run_passes<K + 1, Config, FOLD>(source, at, exists, share, held, totals, combine);
    } else {
        return true;
    }
}

// Computes and stores something of every element of a thread's chunks, which it holds, and the totals.
template <class Config, class S, class Share>
__device__ __forceinline__ void apply_held(const S& source, const typename S::Cursor& at, const Share& share,
                                      const HeldChunks<Config, S>& held,
                                      const typename S::Totals (&totals)[Config::VECTOR]) {
    constexpr int U = Config::UNROLL;
#pragma unroll
    for (int c = 0; c < Config::HELD; c += U) {
        typename S::Point point[U][Config::VECTOR];
#pragma unroll
        for (int u = 0; u < U && c + u < Config::HELD; ++u) {
            const u32 position = share.first + (c + u) * share.step;
            if (Config::EVEN || position < share.end) source.template fetch<true>(at, position, totals, point[u]);
        }
#pragma unroll
        for (int u = 0; u < U && c + u < Config::HELD; ++u) {
            const u32 position = share.first + (c + u) * share.step;
            if (Config::EVEN || position < share.end) source.template put<true>(at, position, held.chunk[c + u], point[u], totals);
        }
    }
}

// The same of chunks that are read again.
template <class Config, class S, class Share>
__device__ __forceinline__ void apply_memory(const S& source, const typename S::Cursor& at, const Share& share,
                                             const typename S::Totals (&totals)[Config::VECTOR]) {
    constexpr int U = Config::UNROLL;
    u32 position = share.first;
    const u32 full_end = min(share.end, share.full_end);
    for (; position < full_end && full_end - position > (U - 1) * share.step; position += U * share.step) {
        typename S::Held again[U];
        typename S::Point point[U][Config::VECTOR];
#pragma unroll
        for (int u = 0; u < U; ++u) {
            source.template hold<true>(at, position + u * share.step, again[u]);
            source.template fetch<true>(at, position + u * share.step, totals, point[u]);
        }
#pragma unroll
        for (int u = 0; u < U; ++u)
            source.template put<true>(at, position + u * share.step, again[u], point[u], totals);
    }
    while (position < share.end) {
        typename S::Held again;
        typename S::Point point[Config::VECTOR];
        if (position < full_end) {
            source.template hold<true>(at, position, again);
            source.template fetch<true>(at, position, totals, point);
            source.template put<true>(at, position, again, point, totals);
        } else {
            source.template hold<false>(at, position, again);
            source.template fetch<false>(at, position, totals, point);
            source.template put<false>(at, position, again, point, totals);
        }
        if (share.end - position <= share.step) break;  // the sum could wrap
        position += share.step;
    }
}

template <class Config, class S, class Share>
__device__ __forceinline__ void apply(const S& source, const typename S::Cursor& at, const Share& share,
                                      const HeldChunks<Config, S>& held,
                                      const typename S::Totals (&totals)[Config::VECTOR]) {
    if constexpr (Config::HELD > 0) {
        apply_held<Config>(source, at, share, held, totals);
    } else {
        apply_memory<Config>(source, at, share, totals);
    }
}

// Makes a pass's total of what the threads of an output have found.
template <class Config, class S>
struct RowTotals {
    const S& source;
    const typename S::Cursor& at;
    u32 output, lane;
    bool exists;
    typename S::Totals (&totals)[Config::VECTOR];

    template <int K, class Sum>
    __device__ __forceinline__ bool operator()(Number<K> number, const Sum& sum) const {
        constexpr int GROUP = Config::GROUP;
        // Whether all threads need the total, not only the one that stores what is made of it.
        constexpr bool ALL = K + 1 < S::PASSES || Config::APPLY;
        using Pass = typename S::template Pass<K>;
        typename Pass::Value total = combine_group<Pass, Config::THREADS, GROUP, ALL && !Config::SPLIT>(sum.total());
        if constexpr (Config::SPLIT) {
            const u64 row = static_cast<u64>(output) * source.splits();
            if (lane == 0) source.partials()[row + blockIdx.y] = total;
            if (!last_to_arrive<Block>(source.counters() + output, source.splits())) return false;
            const Range mine = part_of({0, source.splits()}, lane, GROUP);
            total = Pass::identity();
            for (u32 i = mine.begin; i < mine.end; ++i) total = Pass::combine(total, source.partials()[row + i]);
            total = combine_group<Pass, Config::THREADS, GROUP, ALL>(total);
        }
        if (exists && (ALL || lane == 0)) total = source.finished(number, at, 0, totals[0], total);
#pragma unroll
        for (int v = 0; v < Config::VECTOR; ++v) S::part(number, totals[v]) = total;
        return true;
    }
};

// Reductions along memory: GROUP neighbouring threads per output, VECTOR neighbouring elements per thread.
template <class Config, class S>
__device__ __forceinline__ void reduce_rows(const S& source) {
    constexpr int GROUP = Config::GROUP, GROUPS = Config::THREADS / GROUP;
    static_assert(!Config::SPLIT || (GROUPS == 1 && S::PASSES == 1), "a counter is a block's, and of one pass");
    static_assert(!Config::ORDERED || Config::HELD == 0, "runs are not what is applied to");
    const u32 lane = threadIdx.x % GROUP;
    const u32 output = blockIdx.x * GROUPS + threadIdx.x / GROUP;
    const bool exists = GROUPS == 1 || output < source.outputs();  // a block of one output has one
    const typename S::Cursor at = source.output(exists ? output : 0);

    Range chunks = {0, source.chunks()};
    if constexpr (Config::SPLIT) chunks = part_of(chunks, blockIdx.y, source.splits());
    if constexpr (Config::ORDERED) chunks = part_of(chunks, lane, GROUP);
    const Share<Config::ORDERED ? 1 : GROUP> share = {
        Config::ORDERED ? chunks.begin : Config::EVEN ? lane : min(chunks.begin + lane, chunks.end), chunks.end,
        source.full_chunks()};
    HeldChunks<Config, S> held;
    if (exists) held.read(source, at, share);
    typename S::Totals totals[Config::VECTOR];
    const RowTotals<Config, S> combine = {source, at, output, lane, exists, totals};
    if (!run_passes<0, Config, Config::ORDERED>(source, at, exists, share, held, totals, combine)) return;
    if (exists && lane == 0) source.store(at, 0, totals[0]);
    if constexpr (Config::APPLY) {
        const u32 end = source.chunks();
        const Share<GROUP> all = {Config::EVEN ? lane : min(lane, end), end, source.full_chunks()};
        if (exists) apply<Config>(source, at, all, held, totals);
    }
}

// Memory that the passes of a kernel use one after the other: BYTES of it.
template <int BYTES>
__device__ __forceinline__ void* shared_memory() {
    __shared__ __align__(16) unsigned char bytes[BYTES];
    return bytes;
}

// The most bytes of a value of the passes from K on.
template <class S, int K, bool ANY = (K < S::PASSES)> struct MostBytes {
    static constexpr int OWN = sizeof(typename S::template Pass<K>::Value), LATER = MostBytes<S, K + 1>::VALUE;
    static constexpr int VALUE = OWN > LATER ? OWN : LATER;
};
template <class S, int K> struct MostBytes<S, K, false> {
    static constexpr int VALUE = 1;
};

// The threads of a block that share outputs lie above each other: ALONG rows of ACROSS threads.
template <class Config, class S>
struct Pile {
    static constexpr int V = Config::VECTOR, ACROSS = Config::ACROSS, ALONG = Config::THREADS / ACROSS;
    static constexpr int BYTES = ALONG > 1 ? Config::THREADS * V * MostBytes<S, 0>::VALUE : 16;

    // Combines the values of the threads above each other, in their order; those of row 0 get the result.
    template <class Pass>
    static __device__ __forceinline__ void combine(typename Pass::Value (&sum)[V]) {
        if constexpr (ALONG > 1) {
            const u32 x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
            auto* const of_thread = static_cast<typename Pass::Value*>(shared_memory<BYTES>());
            __syncthreads();  // an earlier use of the memory is over
#pragma unroll
            for (int v = 0; v < V; ++v) of_thread[v * Config::THREADS + threadIdx.x] = sum[v];
            __syncthreads();
            if (y == 0) {
                for (int other = 1; other < ALONG; ++other)
#pragma unroll
                    for (int v = 0; v < V; ++v)
                        sum[v] = Pass::combine(sum[v], of_thread[v * Config::THREADS + other * ACROSS + x]);
            }
        }
    }

    // Gives the values of the threads of row 0 to those above them.
    template <class Pass>
    static __device__ __forceinline__ void share(typename Pass::Value (&sum)[V]) {
        if constexpr (ALONG > 1) {
            const u32 x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
            auto* const of_thread = static_cast<typename Pass::Value*>(shared_memory<BYTES>());
            __syncthreads();  // an earlier use of the memory is over
            if (y == 0)
#pragma unroll
                for (int v = 0; v < V; ++v) of_thread[v * Config::THREADS + x] = sum[v];
            __syncthreads();
#pragma unroll
            for (int v = 0; v < V; ++v) sum[v] = of_thread[v * Config::THREADS + x];
        }
    }
};

// Makes a pass's totals of what the threads of some outputs have found.
template <class Config, class S>
struct ColumnTotals {
    const S& source;
    const typename S::Cursor& at;
    u32 chunk, y;
    bool exists, full;
    typename S::Totals (&totals)[Config::VECTOR];

    // partials[split][v][chunk of outputs]
    __device__ __forceinline__ u64 place(u32 split, int v) const {
        return (static_cast<u64>(split) * Config::VECTOR + v) * source.outputs() + chunk;
    }

    template <int K, class Sum>
    __device__ __forceinline__ bool operator()(Number<K> number, Sum& sum) const {
        using Piled = Pile<Config, S>;
        using Pass = typename S::template Pass<K>;
        constexpr int V = Config::VECTOR;
        Piled::template combine<Pass>(sum.place);
        if constexpr (Config::SPLIT) {
            if (exists && y == 0)
#pragma unroll
                for (int v = 0; v < V; ++v) source.partials()[place(blockIdx.y, v)] = sum.place[v];
            if (!last_to_arrive<Block>(source.counters() + blockIdx.x, source.splits())) return false;
#pragma unroll
            for (int v = 0; v < V; ++v) sum.place[v] = Pass::identity();
            if (exists) {
                const Range mine = part_of({0, source.splits()}, y, Piled::ALONG);
                for (u32 i = mine.begin; i < mine.end; ++i)
#pragma unroll
                    for (int v = 0; v < V; ++v)
                        sum.place[v] = Pass::combine(sum.place[v], source.partials()[place(i, v)]);
            }
            Piled::template combine<Pass>(sum.place);
        }
        if (exists && y == 0)
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (full || v < source.valid_outputs(chunk))
                    sum.place[v] = source.finished(number, at, v, totals[v], sum.place[v]);
        if constexpr (K + 1 < S::PASSES || Config::APPLY) Piled::template share<Pass>(sum.place);
#pragma unroll
        for (int v = 0; v < V; ++v) S::part(number, totals[v]) = sum.place[v];
        return true;
    }
};

// Reductions across memory: VECTOR neighbouring outputs per thread, ACROSS neighbouring threads side by side, the
// block's other threads share the elements of these outputs.
template <class Config, class S>
__device__ __forceinline__ void reduce_columns(const S& source) {
    using Piled = Pile<Config, S>;
    constexpr int V = Config::VECTOR, ACROSS = Config::ACROSS, ALONG = Piled::ALONG;
    static_assert(!Config::SPLIT || S::PASSES == 1, "a counter is of one pass");
    static_assert(!Config::ORDERED || Config::HELD == 0, "runs are not what is applied to");
    const u32 x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
    const u32 chunk = blockIdx.x * ACROSS + x;  // of outputs
    const bool exists = chunk < source.outputs();
    const bool full = chunk < source.full_outputs();
    const typename S::Cursor at = source.output(exists ? chunk : 0);

    Range elements = {0, source.chunks()};
    if constexpr (Config::SPLIT) elements = part_of(elements, blockIdx.y, source.splits());
    if constexpr (Config::ORDERED) elements = part_of(elements, y, ALONG);
    const Share<Config::ORDERED ? 1 : ALONG> share = {
        Config::ORDERED ? elements.begin : min(elements.begin + y, elements.end), elements.end,
        full ? elements.end : 0};
    HeldChunks<Config, S> held;
    if (exists) held.read(source, at, share);
    typename S::Totals totals[V];
    const ColumnTotals<Config, S> combine = {source, at, chunk, y, exists, full, totals};
    if (!run_passes<0, Config, false>(source, at, exists, share, held, totals, combine)) return;
    if (exists && y == 0)
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (full || v < source.valid_outputs(chunk)) source.store(at, v, totals[v]);
    if constexpr (Config::APPLY) {
        const u32 end = source.chunks();
        const Share<ALONG> all = {min(y, end), end, full ? end : 0};
        if (exists) apply<Config>(source, at, all, held, totals);
    }
}

// No reduction: something is computed of every point. All threads of the grid share them.
template <class Config, class S>
__device__ __forceinline__ void map_points(const S& source) {
    const typename S::Cursor at = source.output(0);
    typename S::Totals totals[Config::VECTOR];
    const u32 block = blockIdx.x * (Config::THREADS * Config::UNROLL);
    // A block's chunks are neighbours.
    const u32 end = min(source.chunks() - block, u32(Config::THREADS * Config::UNROLL)) + block;
    const Share<Config::THREADS> share = {min(block + threadIdx.x, end), end, source.full_chunks()};
    apply_memory<Config>(source, at, share, totals);
}

}  // namespace epilogue::te
