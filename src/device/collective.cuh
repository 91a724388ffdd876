// Values of several threads, combined into one.
//
//   Reduce...                the operations: `lift` is applied to every value once; `combine` is commutative and has
//                            `identity`, the result if nothing is combined.
//   combine_elements         a lane's partial results of some lines, with its next elements, in their order.
//   shuffle_down, _xor, _lane   one instruction each, for every element type and for accumulators.
//   reduce_lanes             registers of a warp, a butterfly: every lane gets the result, the same bits, at every run.
//   combine_lanes            tuples of neighbouring lanes, in their order: the first lane gets the result.
//   publish_warp, gather     warps through shared memory, in ascending order. The caller has the barrier between them,
//                            because it knows which threads take part.
//
// Masks name the lanes that are known to take part. Nothing here asks which lanes happen to be active.
#pragma once
#include "convert.cuh"
#include "math.cuh"
#include "ptx.cuh"

namespace epilogue {

// ---- Operations -------------------------------------------------------------------------------------------------

// The ends of an arithmetic type: what a maximum and a minimum over nothing are.
template <typename T> struct Ends;
template <> struct Ends<float> {
    static __device__ __forceinline__ float least() { return -__int_as_float(0x7f800000); }
    static __device__ __forceinline__ float greatest() { return __int_as_float(0x7f800000); }
};
template <> struct Ends<double> {
    static __device__ __forceinline__ double least() { return -__longlong_as_double(0x7ff0000000000000ll); }
    static __device__ __forceinline__ double greatest() { return __longlong_as_double(0x7ff0000000000000ll); }
};
template <> struct Ends<i32> {
    static __device__ __forceinline__ i32 least() { return -0x7fffffff - 1; }
    static __device__ __forceinline__ i32 greatest() { return 0x7fffffff; }
};
template <> struct Ends<i64> {
    static __device__ __forceinline__ i64 least() { return -0x7fffffffffffffffll - 1; }
    static __device__ __forceinline__ i64 greatest() { return 0x7fffffffffffffffll; }
};

struct ReduceAdd {
    template <typename T> static __device__ __forceinline__ T identity() { return T(0); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return x + y; }
};
struct ReduceMul {
    template <typename T> static __device__ __forceinline__ T identity() { return T(1); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return x * y; }
};
// NaN wins, as everywhere in this library, and +0 is above -0: operands can change places without a bit changing.
template <typename T> __device__ __forceinline__ T larger(T x, T y) { return x > y ? x : y; }
template <> __device__ __forceinline__ float larger(float x, float y) { return math::max(x, y); }
template <> __device__ __forceinline__ double larger(double x, double y) { return math::max(x, y); }
template <typename T> __device__ __forceinline__ T smaller(T x, T y) { return x < y ? x : y; }
template <> __device__ __forceinline__ float smaller(float x, float y) { return math::min(x, y); }
template <> __device__ __forceinline__ double smaller(double x, double y) { return math::min(x, y); }

struct ReduceMax {
    template <typename T> static __device__ __forceinline__ T identity() { return Ends<T>::least(); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return larger(x, y); }
};
struct ReduceMin {
    template <typename T> static __device__ __forceinline__ T identity() { return Ends<T>::greatest(); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return smaller(x, y); }
};
struct ReduceAbsMax {
    template <typename T> static __device__ __forceinline__ T identity() { return T(0); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x < T(0) ? -x : x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return larger(x, y); }
};
struct ReduceSumSquares {
    template <typename T> static __device__ __forceinline__ T identity() { return T(0); }
    template <typename T> static __device__ __forceinline__ T lift(T x) { return x * x; }
    template <typename T> static __device__ __forceinline__ T combine(T x, T y) { return x + y; }
};

// ---- Within a lane ----------------------------------------------------------------------------------------------

// Which line a lane's element is of: all of one, or each of its own.
struct OneLine {
    static __device__ __forceinline__ constexpr int of(int) { return 0; }
};
struct LineForEach {
    static __device__ __forceinline__ constexpr int of(int v) { return v; }
};

// Combines a lane's running results of LINES lines with its next elements, those for which `exists(v)` is true: x[v] is of
// line Place::of(v).
template <class Op, class Place, int LINES, int V, typename T, class Exists>
__device__ __forceinline__ void combine_elements(T (&lines)[LINES], const T (&x)[V], Exists exists) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
        T& line = lines[Place::of(v)];
        line = Op::combine(line, exists(v) ? Op::lift(x[v]) : Op::template identity<T>());
    }
}

// ---- Within a warp ----------------------------------------------------------------------------------------------

// What a shuffle carries in place of a T: the instruction moves registers of 32 bits (CUDA's functions also pairs).
template <typename T> struct Shuffled {
    static __device__ __forceinline__ T to_word(T x) { return x; }
    static __device__ __forceinline__ T from_word(T x) { return x; }
};
template <> struct Shuffled<f16> {
    static __device__ __forceinline__ u32 to_word(f16 x) { return x.bits; }
    static __device__ __forceinline__ f16 from_word(u32 x) { return {static_cast<unsigned short>(x)}; }
};
template <> struct Shuffled<bf16> {
    static __device__ __forceinline__ u32 to_word(bf16 x) { return x.bits; }
    static __device__ __forceinline__ bf16 from_word(u32 x) { return {static_cast<unsigned short>(x)}; }
};
template <> struct Shuffled<f8e4m3> {
    static __device__ __forceinline__ u32 to_word(f8e4m3 x) { return x.bits; }
    static __device__ __forceinline__ f8e4m3 from_word(u32 x) { return {static_cast<unsigned char>(x)}; }
};
template <> struct Shuffled<f8e5m2> {
    static __device__ __forceinline__ u32 to_word(f8e5m2 x) { return x.bits; }
    static __device__ __forceinline__ f8e5m2 from_word(u32 x) { return {static_cast<unsigned char>(x)}; }
};
template <> struct Shuffled<i8> {
    static __device__ __forceinline__ i32 to_word(i8 x) { return x; }
    static __device__ __forceinline__ i8 from_word(i32 x) { return static_cast<i8>(x); }
};
template <> struct Shuffled<u8> {
    static __device__ __forceinline__ u32 to_word(u8 x) { return x; }
    static __device__ __forceinline__ u8 from_word(u32 x) { return static_cast<u8>(x); }
};
template <> struct Shuffled<bool> {
    static __device__ __forceinline__ u32 to_word(bool x) { return x; }
    static __device__ __forceinline__ bool from_word(u32 x) { return x != 0; }
};

// shfl.sync (PTX ISA, "shfl.sync"): all lanes of `mask` take part. A lane outside its segment of `width` lanes gives its
// own value; what a lane outside the mask would give is undefined.
template <typename T>
__device__ __forceinline__ T shuffle_down(u32 mask, T x, int offset, int width = 32) {
    return Shuffled<T>::from_word(__shfl_down_sync(mask, Shuffled<T>::to_word(x), offset, width));
}
template <typename T>
__device__ __forceinline__ T shuffle_up(u32 mask, T x, int offset, int width = 32) {
    return Shuffled<T>::from_word(__shfl_up_sync(mask, Shuffled<T>::to_word(x), offset, width));
}
template <typename T>
__device__ __forceinline__ T shuffle_xor(u32 mask, T x, int bits, int width = 32) {
    return Shuffled<T>::from_word(__shfl_xor_sync(mask, Shuffled<T>::to_word(x), bits, width));
}
// The value of lane `source` of the segment.
template <typename T>
__device__ __forceinline__ T shuffle_lane(u32 mask, T x, int source, int width = 32) {
    return Shuffled<T>::from_word(__shfl_sync(mask, Shuffled<T>::to_word(x), source, width));
}

// Combines over the lanes that differ in the bits [FIRST, END) of their index; every lane gets the result. The whole
// warp takes part, or the lanes of `mask`: then results are right in groups of END lanes that are all in it.
template <class Op, int FIRST, int END, typename T>
__device__ __forceinline__ T reduce_lanes(T x, u32 mask = 0xffffffffu) {
    static_assert(FIRST >= 1 && END <= 32 && (FIRST & (FIRST - 1)) == 0 && (END & (END - 1)) == 0);
#pragma unroll
    for (int bit = FIRST; bit < END; bit *= 2) x = Op::combine(x, shuffle_xor(mask, x, bit));
    return x;
}

// Combines the tuples of neighbouring lanes, WIDTH of them, in their order: neighbours, pairs of neighbours, and so on.
// The first of them gets the result; the whole warp takes part. Op has Value, combine(left, right) and
// shuffle_down(x, lanes, width).
template <class Op, int WIDTH>
__device__ __forceinline__ typename Op::Value combine_lanes(typename Op::Value x) {
#pragma unroll
    for (int distance = 1; distance < WIDTH; distance *= 2) {
        const typename Op::Value right = Op::shuffle_down(x, distance, WIDTH);
        x = Op::combine(x, right);
    }
    return x;
}

// bar.sync: `threads` threads, whole warps, wait for each other at one of the block's 16 barriers; 0 is __syncthreads's.
__device__ __forceinline__ void named_barrier(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// ---- Between warps ----------------------------------------------------------------------------------------------

// Leaves the combined value of a whole warp in slots[warp].
template <class Op, typename T>
__device__ __forceinline__ void publish_warp(T* slots, int warp, int lane, T x) {
    x = reduce_lanes<Op, 1, 32>(x);
    if (lane == 0) slots[warp] = x;
}

// The combination of slots[0], slots[STRIDE], ..., COUNT of them, in that order.
template <class Op, int COUNT, int STRIDE = 1, typename T>
__device__ __forceinline__ T gather(const T* slots) {
    T x = slots[0];
#pragma unroll
    for (int i = 1; i < COUNT; ++i) x = Op::combine(x, slots[i * STRIDE]);
    return x;
}

}  // namespace epilogue
