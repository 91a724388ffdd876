// Reductions of any element function by any combination, in an order that depends on the launch's shape only.
//
//   thread    every GROUPth chunk of VECTOR elements, each place of a chunk for itself       (or, to keep the order of
//             the elements, a contiguous run of chunks)
//   group     its threads' values, by shuffles with neighbours first, then warps through shared memory
//   grid      with SPLIT, several blocks share an output: partials in the workspace, combined in their order by the
//             block that arrives last, which leaves the counter at 0 for the next launch
//
// The element function S is generated. It has
//   Value                              the tuple that is reduced; identity(), combine(left, right), shuffle_down(x, n, width)
//   Cursor                             what is the same for all elements of an output
//   outputs(), chunks(), full_chunks() of an output; splits(), partials(), counters()
//   begin(cursor)                      what an exact reduction starts from
//   load<FULL>(cursor, chunk, values)  the elements of a chunk; returns the set of those that count
//   finished(cursor, v, total)         the total with the initial value
//   store(cursor, v, total)
//   fetch<FULL>, put<FULL>             with APPLY: read what is computed of every element and the total, and store it
#pragma once
#include "../reduction.cuh"
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

// Combines the values of neighbouring threads, GROUP of them, in their order; the first of a group gets the result.
template <class S, int THREADS, int GROUP>
__device__ __forceinline__ typename S::Value combine_group(typename S::Value x) {
    constexpr int WIDTH = GROUP < 32 ? GROUP : 32;
#pragma unroll
    for (int distance = 1; distance < WIDTH; distance *= 2) {
        const typename S::Value right = S::shuffle_down(x, distance, WIDTH);
        x = S::combine(x, right);
    }
    if constexpr (GROUP > 32) {
        constexpr int WARPS = GROUP / 32;  // of a group
        __shared__ typename S::Value of_warp[THREADS / 32];
        const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        __syncthreads();  // an earlier use of `of_warp` is over
        if (lane == 0) of_warp[warp] = x;
        __syncthreads();
        if (warp % WARPS == 0) {
            x = of_warp[warp + lane % WARPS];
#pragma unroll
            for (int distance = 1; distance < WARPS; distance *= 2) {
                const typename S::Value right = S::shuffle_down(x, distance, WARPS);
                x = S::combine(x, right);
            }
        }
    }
    return x;
}

// Folds a thread's chunks into one value per place of a chunk; with ORDERED, into the first.
template <class Config, class S>
struct ThreadSum {
    using Value = typename S::Value;
    static constexpr int V = Config::VECTOR;
    Value place[V];

    __device__ __forceinline__ void add(const Value (&x)[V], u32 counts) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            Value& to = place[Config::ORDERED ? 0 : v];
            if (counts >> v & 1) to = S::combine(to, x[v]);
        }
    }

    // The chunks begin, begin + step, … before end.
    __device__ __forceinline__ void walk(const S& source, const typename S::Cursor& at, Range chunks, u32 step) {
        constexpr int U = Config::UNROLL;
        u32 chunk = chunks.begin;
        const u32 full = min(chunks.end, source.full_chunks());
        // The loads of U chunks are in flight together.
        for (; chunk < full && full - chunk > (U - 1) * step; chunk += U * step) {
            Value x[U][V];
            u32 counts[U];
#pragma unroll
            for (int u = 0; u < U; ++u) counts[u] = source.template load<true>(at, chunk + u * step, x[u]);
#pragma unroll
            for (int u = 0; u < U; ++u) add(x[u], counts[u]);
        }
        for (; chunk < chunks.end; chunk += step) {
            Value x[V];
            const u32 counts = chunk < full ? source.template load<true>(at, chunk, x)
                                            : source.template load<false>(at, chunk, x);
            add(x, counts);
            if (chunks.end - chunk <= step) break;  // the sum could wrap
        }
    }

    __device__ __forceinline__ Value total() const {
        Value x = place[0];
        if constexpr (!Config::ORDERED) {
            // Pairs, pairs of pairs, …
            Value tree[V];
#pragma unroll
            for (int v = 0; v < V; ++v) tree[v] = place[v];
#pragma unroll
            for (int width = 1; width < V; width *= 2)
#pragma unroll
                for (int v = 0; v + width < V; v += 2 * width) tree[v] = S::combine(tree[v], tree[v + width]);
            x = tree[0];
        }
        return x;
    }
};

// Gives the value of a group's first thread to all of its threads.
template <class S, int THREADS, int GROUP>
__device__ __forceinline__ typename S::Value share_with_group(const typename S::Value& x) {
    if constexpr (GROUP <= 32) {
        return S::shuffle_first(x, GROUP);
    } else {
        __shared__ typename S::Value of_group[THREADS / GROUP];
        if (threadIdx.x % GROUP == 0) of_group[threadIdx.x / GROUP] = x;
        __syncthreads();
        return of_group[threadIdx.x / GROUP];
    }
}

// Computes and stores something of every element and the totals: the positions first, first + step, … before end.
template <class Config, class S>
__device__ __forceinline__ void apply(const S& source, const typename S::Cursor& at,
                                      const typename S::Value (&totals)[Config::VECTOR], u32 first, u32 step, u32 end,
                                      u32 full_end) {
    constexpr int U = Config::UNROLL;
    u32 position = first;
    for (; position < full_end && full_end - position > (U - 1) * step; position += U * step) {
        typename S::Point point[U][Config::VECTOR];
#pragma unroll
        for (int u = 0; u < U; ++u) source.template fetch<true>(at, position + u * step, point[u]);
#pragma unroll
        for (int u = 0; u < U; ++u) source.template put<true>(at, position + u * step, point[u], totals);
    }
    while (position < end) {
        typename S::Point point[Config::VECTOR];
        if (position < full_end) {
            source.template fetch<true>(at, position, point);
            source.template put<true>(at, position, point, totals);
        } else {
            source.template fetch<false>(at, position, point);
            source.template put<false>(at, position, point, totals);
        }
        if (end - position <= step) break;  // the sum could wrap
        position += step;
    }
}

// Reductions along memory: GROUP neighbouring threads per output, VECTOR neighbouring elements per thread.
template <class Config, class S>
__device__ __forceinline__ void reduce_rows(const S& source) {
    using Value = typename S::Value;
    constexpr int GROUP = Config::GROUP, GROUPS = Config::THREADS / GROUP;
    static_assert(!Config::SPLIT || GROUPS == 1, "a counter is a block's");
    const u32 lane = threadIdx.x % GROUP;
    const u32 output = blockIdx.x * GROUPS + threadIdx.x / GROUP;
    const bool exists = output < source.outputs();
    const typename S::Cursor at = source.output(exists ? output : 0);

    ThreadSum<Config, S> sum;
#pragma unroll
    for (int v = 0; v < Config::VECTOR; ++v) sum.place[v] = Config::EXACT ? source.begin(at) : S::identity();
    if (exists) {
        Range chunks = {0, source.chunks()};
        if constexpr (Config::SPLIT) chunks = part_of(chunks, blockIdx.y, source.splits());
        if constexpr (Config::ORDERED) {
            sum.walk(source, at, part_of(chunks, lane, GROUP), 1);
        } else if (chunks.end - chunks.begin > lane) {
            sum.walk(source, at, {chunks.begin + lane, chunks.end}, GROUP);
        }
    }
    Value total = combine_group<S, Config::THREADS, GROUP>(sum.total());
    if constexpr (Config::SPLIT) {
        const u64 row = static_cast<u64>(output) * source.splits();
        if (lane == 0) source.partials()[row + blockIdx.y] = total;
        if (!last_to_arrive<Block>(source.counters() + output, source.splits())) return;
        const Range mine = part_of({0, source.splits()}, lane, GROUP);
        total = S::identity();
        for (u32 i = mine.begin; i < mine.end; ++i) total = S::combine(total, source.partials()[row + i]);
        total = combine_group<S, Config::THREADS, GROUP>(total);
    }
    if (exists && lane == 0) {
        total = source.finished(at, 0, total);
        source.store(at, 0, total);
    }
    if constexpr (Config::APPLY) {
        total = share_with_group<S, Config::THREADS, GROUP>(total);
        Value totals[Config::VECTOR];
#pragma unroll
        for (int v = 0; v < Config::VECTOR; ++v) totals[v] = total;
        if (exists) apply<Config>(source, at, totals, lane, GROUP, source.chunks(), source.full_chunks());
    }
}

// Reductions across memory: VECTOR neighbouring outputs per thread, ACROSS neighbouring threads side by side, the
// block's other threads share the elements of these outputs.
template <class Config, class S>
__device__ __forceinline__ void reduce_columns(const S& source) {
    using Value = typename S::Value;
    constexpr int V = Config::VECTOR, ACROSS = Config::ACROSS, ALONG = Config::THREADS / ACROSS;
    const u32 x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
    const u32 chunk = blockIdx.x * ACROSS + x;  // of outputs
    const bool exists = chunk < source.outputs();
    const bool full = chunk < source.full_outputs();
    const typename S::Cursor at = source.output(exists ? chunk : 0);

    Value sum[V];
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] = Config::EXACT ? source.begin_of(at, v) : S::identity();
    if (exists) {
        Range elements = {0, source.chunks()};
        if constexpr (Config::SPLIT) elements = part_of(elements, blockIdx.y, source.splits());
        if constexpr (Config::ORDERED) elements = part_of(elements, y, ALONG);
        constexpr u32 STEP = Config::ORDERED ? 1 : ALONG;
        constexpr int U = Config::UNROLL;
        u32 i = elements.begin + (Config::ORDERED ? 0 : y);
        if (full) {
            for (; i < elements.end && elements.end - i > (U - 1) * STEP; i += U * STEP) {
                Value value[U][V];
                u32 counts[U];
#pragma unroll
                for (int u = 0; u < U; ++u) counts[u] = source.template load<true>(at, i + u * STEP, value[u]);
#pragma unroll
                for (int u = 0; u < U; ++u)
#pragma unroll
                    for (int v = 0; v < V; ++v)
                        if (counts[u] >> v & 1) sum[v] = S::combine(sum[v], value[u][v]);
            }
        }
        for (; i < elements.end; i += STEP) {
            Value value[V];
            const u32 counts = full ? source.template load<true>(at, i, value) : source.template load<false>(at, i, value);
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (counts >> v & 1) sum[v] = S::combine(sum[v], value[v]);
        }
    }
    __shared__ Value of_thread[ALONG > 1 ? Config::THREADS * V : 1];
    // Combines the values of the threads above each other, in their order; those of y = 0 get the result.
    const auto combine_along = [&] {
        if constexpr (ALONG > 1) {
            __syncthreads();  // an earlier use of `of_thread` is over
#pragma unroll
            for (int v = 0; v < V; ++v) of_thread[v * Config::THREADS + threadIdx.x] = sum[v];
            __syncthreads();
            if (y == 0) {
                for (int other = 1; other < ALONG; ++other)
#pragma unroll
                    for (int v = 0; v < V; ++v)
                        sum[v] = S::combine(sum[v], of_thread[v * Config::THREADS + other * ACROSS + x]);
            }
        }
    };
    combine_along();
    if constexpr (Config::SPLIT) {
        // partials[split][v][chunk of outputs]
        const auto place = [&](u32 split, int v) {
            return (static_cast<u64>(split) * V + v) * source.outputs() + chunk;
        };
        if (exists && y == 0)
#pragma unroll
            for (int v = 0; v < V; ++v) source.partials()[place(blockIdx.y, v)] = sum[v];
        if (!last_to_arrive<Block>(source.counters() + blockIdx.x, source.splits())) return;
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] = S::identity();
        if (exists) {
            const Range mine = part_of({0, source.splits()}, y, ALONG);
            for (u32 i = mine.begin; i < mine.end; ++i)
#pragma unroll
                for (int v = 0; v < V; ++v) sum[v] = S::combine(sum[v], source.partials()[place(i, v)]);
        }
        combine_along();
    }
    if (exists && y == 0) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (full || v < source.valid_outputs(chunk)) {
                sum[v] = source.finished(at, v, sum[v]);
                source.store(at, v, sum[v]);
            }
        }
    }
    if constexpr (Config::APPLY) {
        if constexpr (ALONG > 1) {
            __syncthreads();  // an earlier use of `of_thread` is over
            if (y == 0)
#pragma unroll
                for (int v = 0; v < V; ++v) of_thread[v * Config::THREADS + x] = sum[v];
            __syncthreads();
#pragma unroll
            for (int v = 0; v < V; ++v) sum[v] = of_thread[v * Config::THREADS + x];
        }
        if (exists) apply<Config>(source, at, sum, y, ALONG, source.chunks(), full ? source.chunks() : 0);
    }
}

}  // namespace epilogue::te
