// The GEMM kernel for sm_80 and up of a convolution's input gradient, if the convolution moved by more than 1. A is
// patches of the outputs' gradient, with zeros between its elements.
//
// A picture has `stride - 1` zeros between the gradient's elements. Along each axis, an element of a patch is at
// begin + r * dilation  of this picture; `begin` depends on the row. It is an element of the gradient if this position
// is a multiple of the stride. A quotient of a sum is not a sum of quotients; but with
//
//   begin = b * stride + x,  0 <= x < stride         r * dilation = t * stride - y,  0 <= y < stride
//
// the sum is a multiple if x and y are equal, and the quotient then is b + t. So rows and taps are as in patches.cuh,
// in quotients, and both also keep the three remainders as one number: quotients are added, remainders compared.
//
// The zeros are multiplied. Leaving them out would need rows ordered by remainder, which outputs are not.
#pragma once
#include "patches.cuh"

namespace epilogue::sm80 {

template <class Config>
struct GradientPatchCommon : PatchCommon<Config> {
#include "GradientPatchCommon.fields"
};

struct GradientTap : Tap {
    u32 remainders;
};

// A row's bytes have 48 bits, and the other 16 its remainders.
struct GradientPatchOperand : PatchOperand {
    const Divisor (&strides)[3];

    __device__ __forceinline__ GradientPatchOperand(const Operand& gradient, const Patches& patches,
                                                    const Divisor (&strides)[3])
        : PatchOperand{gradient, patches}, strides(strides) {}

    template <int SIZE>
    __device__ __forceinline__ PatchRow row_of(int m, bool inside, int batch) const {
        const Patches& p = patches;
        const u32 of_1 = static_cast<u32>(m) / p.outputs[2];
        const u32 of_0 = of_1 / p.outputs[1];
        const u32 image = of_0 / p.outputs[0];
        const int places[3] = {static_cast<int>(of_0 - image * p.outputs[0]), static_cast<int>(of_1 - of_0 * p.outputs[1]),
                               static_cast<int>(static_cast<u32>(m) - of_1 * p.outputs[2])};
        index_t elements = batch * images.batch + index_t(image) * images.outer;
        u32 remainders = 0;
        int at[3];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            const int begin = places[axis] - p.before[axis], stride = static_cast<int>(strides[axis].divisor);
            const int remainder = (begin % stride + stride) % stride;
            at[axis] = (begin - remainder) / stride;
            remainders = remainders * strides[axis].divisor + static_cast<u32>(remainder);
            elements += at[axis] * p.step[axis];
        }
        const u64 bytes = static_cast<u64>(elements * SIZE) << 16 >> 16 | static_cast<u64>(remainders) << 48;
        return row_at(bytes, at[0], at[1], inside ? at[2] : NOWHERE);
    }

    template <int SIZE>
    __device__ __forceinline__ GradientTap tap_of(u32 column) const {
        const Patches& p = patches;
        const u32 tap = p.channels.quotient(column);
        const u32 channel = column - tap * p.channels.divisor;
        const u32 of_1 = p.taps[0].quotient(tap);
        const u32 of_0 = p.taps[1].quotient(of_1);
        const u32 taps[3] = {of_0, of_1 - of_0 * p.taps[1].divisor, tap - of_1 * p.taps[0].divisor};
        index_t elements = channel * images.k;
        u32 remainders = 0;
        int at[3];
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            const u32 further = taps[axis] * static_cast<u32>(p.dilation[axis]), stride = strides[axis].divisor;
            const u32 quotient = further == 0 ? 0 : strides[axis].quotient(further - 1) + 1;
            at[axis] = static_cast<int>(quotient);
            remainders = remainders * stride + (quotient * stride - further);
            elements += at[axis] * p.step[axis];
        }
        GradientTap result;
        result.source = static_cast<const char*>(images.pointer) + elements * SIZE;
        result.at_0 = at[0];
        result.at_1 = at[1];
        result.at_2 = at[2];
        result.remainders = remainders;
        return result;
    }

    __device__ __forceinline__ bool is_inside(const PatchRow& of, const GradientTap& tap) const {
        return PatchOperand::is_inside(of, tap) & (of.offset[1] >> 16 == tap.remainders);
    }

    __device__ __forceinline__ index_t bytes(const PatchRow& of) const { return of.bytes() << 16 >> 16; }
};

template <class Config>
__device__ __forceinline__ GradientPatchOperand operand_a(const GradientPatchCommon<Config>& common) {
    return {common.a, common.patches, common.divisors};
}

template <class Tile, int COPY_BYTES, int THREADS>
__device__ __forceinline__ PatchLoader<Tile, COPY_BYTES, THREADS, GradientPatchOperand> loader_of_a(
    const GradientPatchOperand& a, int thread, int m, int extent, int k, int batch) {
    return PatchLoader<Tile, COPY_BYTES, THREADS, GradientPatchOperand>(a, thread, m, extent, k, batch);
}

}  // namespace epilogue::sm80
