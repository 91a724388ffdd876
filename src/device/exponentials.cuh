// Sums of exponentials below the maximum of a row, a column or everything, in the pass that finds the maximum
// (evt/phases/exponentials.rs). A running result is the greatest element so far and the sum of exp(x - greatest).
//
// A lane takes all of its elements at once, and a warp all of its lanes: first the maximum, then one exponential for
// each element, and one more for what was summed before.
#pragma once
#include "state.cuh"

namespace epilogue {

// The reducer. Where the greatest element is infinite, that is subtracted, which gives NaN, or nothing.
template <typename Real, bool NOTHING_AT_INFINITY>
struct SumOfExponentials {
    static constexpr int WORDS = 2;
    using Value = Real;
    using Running = State<SumOfExponentials>;

    static __device__ __forceinline__ Running of(Real x) { return {{x, math::exp(x - subtracted(x))}}; }
    static __device__ __forceinline__ Real finish(Running x) { return x.word[1]; }
    template <typename T> static __device__ __forceinline__ T identity() { return {{Ends<Real>::least(), Real(0)}}; }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) {
        const bool first = y.word[0] <= x.word[0];  // not if either is NaN, and then the sum is NaN
        const Real greatest = larger(x.word[0], y.word[0]);
        const Running less = {{first ? y.word[0] : x.word[0], first ? y.word[1] : x.word[1]}};
        return {{greatest, (first ? x.word[1] : y.word[1]) + below(less, greatest)}};
    }

    // What is subtracted from elements, this being the greatest of them.
    static __device__ __forceinline__ Real subtracted(Real greatest) {
        if (!NOTHING_AT_INFINITY) return greatest;
        return math::abs(greatest) < Ends<Real>::greatest() ? greatest : Real(0);
    }

    // The sum below a greater element: exactly itself below its own, also an infinite one, and 0 where it is of nothing. No
    // branch goes around the exponential.
    static __device__ __forceinline__ Real below(Running x, Real greatest) {
        const bool same = x.word[0] == greatest;
        const Real difference = same ? Real(0) : x.word[0] - greatest;
        const Real sum = !same && x.word[0] == Ends<Real>::least() ? Real(0) : x.word[1];
        return sum * math::exp(difference);
    }
};

// collective.cuh's, for all elements of a line at once: of these only what they are is used.
template <class Op, class Place, int LINES, int V, typename Real, bool NOTHING, class Exists>
__device__ __forceinline__ void combine_elements(State<SumOfExponentials<Real, NOTHING>> (&lines)[LINES],
                                                 const State<SumOfExponentials<Real, NOTHING>> (&x)[V], Exists exists) {
#pragma unroll
    for (int line = 0; line < LINES; ++line) {
        Real greatest = lines[line].word[0];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (Place::of(v) == line) greatest = larger(greatest, exists(v) ? x[v].word[0] : Ends<Real>::least());
        }
        const Real subtracted = Op::subtracted(greatest);
        Real sum = Op::below(lines[line], greatest);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (Place::of(v) == line) sum += math::exp(exists(v) ? x[v].word[0] - subtracted : Ends<Real>::least());
        }
        lines[line] = {{greatest, sum}};
    }
}

// collective.cuh's, with one exponential in place of one at each step.
template <class Op, int FIRST, int END, typename Real, bool NOTHING>
__device__ __forceinline__ State<SumOfExponentials<Real, NOTHING>> reduce_lanes(
    State<SumOfExponentials<Real, NOTHING>> x, u32 mask = 0xffffffffu) {
    const Real greatest = reduce_lanes<ReduceMax, FIRST, END>(x.word[0], mask);
    return {{greatest, reduce_lanes<ReduceAdd, FIRST, END>(Op::below(x, greatest), mask)}};
}

}  // namespace epilogue
