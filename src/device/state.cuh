// Running results of user reducers: a few numbers, reduced like one.
//
// A reducer R is generated. It has WORDS, and Value, the type of its numbers. `of` makes a running result of an
// element, `finish` gives the result; `identity`, `lift` and `combine` are those of collective.cuh.
#pragma once
#include "collective.cuh"
#include "convert.cuh"

namespace epilogue {

template <class R>
struct State {
    typename R::Value word[R::WORDS];
};

// A shuffle for each.
template <class R>
__device__ __forceinline__ State<R> shuffle_xor(u32 mask, State<R> x, int bits, int width = 32) {
    State<R> to;
#pragma unroll
    for (int i = 0; i < R::WORDS; ++i) to.word[i] = shuffle_xor(mask, x.word[i], bits, width);
    return to;
}

// What is stored is the result.
template <typename T, class R>
__device__ __forceinline__ T narrow(State<R> x) {
    return narrow<T>(R::finish(x));
}

}  // namespace epilogue
