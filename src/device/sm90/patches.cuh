// The GEMM kernel for sm_90a of a convolution: A is patches of images under a window, and is never stored. Only the
// loads differ; everything else is as in gemm.cuh.
//
//   row m of A       output (image, p0, p1, p2) of the three axes, the last the fastest;
//   k-tile of A      TILE_K channels of one filter position (r0, r1, r2): the channels are the fastest, and the
//                    position's last k-tile may reach beyond them. K is therefore counted in k-tiles, also if it is split.
//
// TMA finds the elements (PTX ISA 5.5.4, im2col mode). It is given where the window of a box's first row begins, and
// goes on from output to output; the images' map has the strides of the window and where it may begin. Elements outside
// of the images are 0. If a map cannot describe images and window (gemm/problem/patch_boxes.rs), kernels for sm_80
// serve.
//
//   A   box  {channel, begin2, begin1, begin0, image} + {offset2, offset1, offset0}    TILE_K channels of some rows;
//   B   box  {channel, filter, filter position}                                        as a batch of matrices.
//
// The beginning of a box is found once for a tile. Rows behind the last have an image that does not exist, at a place
// that a window may have: zeros.
//
// A batch is a group of channels, of whole boxes, so that none reaches into the next group: 0 times infinity is NaN.
// Its filters are further columns or further elements of the window. A part of K that has nothing belongs to the group
// behind the last: zeros in both operands.
#pragma once
#include "gemm.cuh"

namespace epilogue::sm90 {

// Images and window; three axes, of which those that there are not have one element.
struct Patches {
#include "Patches.fields"
};

struct PatchCommon : Common {
#include "PatchCommon.fields"
};

// cp.async.bulk.tensor in im2col mode: rows of pixels, from the window at `begin` of `image` on. Lists are of three axes,
// the last of which is a tensor's innermost.
template <int AXES>
__device__ __forceinline__ void load_pixels(u32 shared, const TensorMap& map, u32 barrier, int channel,
                                            const int (&begin)[3], int image, const int (&offset)[3]) {
    const auto off = [&](int axis) { return static_cast<unsigned short>(offset[axis]); };
    if constexpr (AXES == 1) {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%3, %4, %5}], [%2], {%6};\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(channel), "r"(begin[2]), "r"(image), "h"(off(2))
            : "memory");
    } else if constexpr (AXES == 2) {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(channel), "r"(begin[2]), "r"(begin[1]), "r"(image), "h"(off(2)), "h"(off(1))
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(channel), "r"(begin[2]), "r"(begin[1]), "r"(begin[0]), "r"(image),
            "h"(off(2)), "h"(off(1)), "h"(off(0))
            : "memory");
    }
}

// The same to every block of the cluster whose bit is set in `blocks`.
template <int AXES>
__device__ __forceinline__ void load_pixels_multicast(u32 shared, const TensorMap& map, u32 barrier, int channel,
                                                      const int (&begin)[3], int image, const int (&offset)[3],
                                                      unsigned short blocks) {
    const auto off = [&](int axis) { return static_cast<unsigned short>(offset[axis]); };
    if constexpr (AXES == 1) {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1, {%3, %4, %5}], [%2], {%6}, %7;\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(channel), "r"(begin[2]), "r"(image), "h"(off(2)), "h"(blocks)
            : "memory");
    } else if constexpr (AXES == 2) {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(channel), "r"(begin[2]), "r"(begin[1]), "r"(image), "h"(off(2)), "h"(off(1)),
            "h"(blocks)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10}, %11;\n" ::"r"(shared),
            "l"(&map), "r"(barrier), "r"(channel), "r"(begin[2]), "r"(begin[1]), "r"(begin[0]), "r"(image),
            "h"(off(2)), "h"(off(1)), "h"(off(0)), "h"(blocks)
            : "memory");
    }
}

// Where the window of an output begins, and of which image the output is.
template <int AXES>
__device__ __forceinline__ u32 find_window(const Patches& patches, u32 output, int (&begin)[3]) {
#pragma unroll
    for (int i = 0; i < AXES; ++i) {
        const int axis = 2 - i;
        const u32 others = patches.of_outputs[i].quotient(output);
        const int place = static_cast<int>(output - others * patches.outputs[axis]);
        begin[axis] = place * patches.stride[axis] - patches.before[axis];
        output = others;
    }
    return output;
}

// Where an element of the window is from its beginning on.
template <int AXES>
__device__ __forceinline__ void find_tap(const Patches& patches, u32 tap, int (&offset)[3]) {
#pragma unroll
    for (int i = 0; i < AXES; ++i) {
        const int axis = 2 - i;
        const u32 others = i + 1 < AXES ? patches.of_size[i < 2 ? i : 0].quotient(tap) : 0;
        offset[axis] = static_cast<int>(tap - others * patches.size[axis]) * patches.dilation[axis];
        tap = others;
    }
}

// What `Loads` is for a `Config` whose A is patches of images with so many axes.
template <class Config, int AXES>
struct PatchLoads {
    using Loop = Mainloop<Config>;
    using C = Control<Config>;
    static_assert(!Config::SWAP_AB && Config::A_MAJOR == Major::K && Config::A_HINT == Hint::Normal);
    // Of A's rows a block of a cluster loads one box, for all that share them.
    static constexpr int SHARERS = Config::CLUSTER_COLUMNS, ROWS = Config::MMA_ROWS / SHARERS;
    static constexpr int BOX_BYTES = Config::A_STAGE_BYTES / SHARERS;

    // Loads all k-tiles of a tile. By one thread.
    template <class Parameters>
    static __device__ __forceinline__ void produce(typename Loop::Ring& ring, const Parameters& parameters,
                                                   const Work& work, const ClusterPlace<Config>& cluster, u32 shared) {
        const Patches& patches = parameters.common.patches;
        // Where the window of the box's first row begins.
        int begin[3] = {}, offset[3] = {};
        const u32 image = find_window<AXES>(patches, static_cast<u32>(work.m) + cluster.column * ROWS, begin);
        // The first k-tile's element of the window, and its channels.
        const int end = patches.blocks * Config::TILE_K;
        const u32 block = static_cast<u32>(work.k_begin) / Config::TILE_K;
        int tap = static_cast<int>(patches.of_blocks.quotient(block));
        int channel = static_cast<int>(block - tap * patches.blocks) * Config::TILE_K;
        int group = work.batch;
        if (tap >= patches.taps) {
            tap = channel = 0;
            group = parameters.common.problem.batch;
        }
        const int of_group = group * patches.group_channels;
        const int column = work.n + group * patches.group_columns, first_tap = group * patches.group_taps;
        find_tap<AXES>(patches, tap, offset);
        const unsigned short same_row = cluster.same_row(), same_column = cluster.same_column();
#pragma unroll 1
        for (int kt = 0; kt < work.k_tiles; ++kt) {
            const u32 empty = shared + C::EMPTY + 8 * ring.stage, full = shared + C::FULL + 8 * ring.stage;
            mbarrier_wait(empty, ring.parity ^ 1);
            mbarrier_expect(full, Config::STAGE_TX_BYTES);
            const u32 to = shared + Config::A_OFFSET + ring.stage * Config::A_STAGE_BYTES + cluster.column * BOX_BYTES;
            const TensorMap& images = parameters.maps[0];
            if constexpr (SHARERS > 1) {
                load_pixels_multicast<AXES>(to, images, full, of_group + channel, begin, image, offset, same_row);
            } else {
                load_pixels<AXES>(to, images, full, of_group + channel, begin, image, offset);
            }
            Loop::BStage::load(shared + Config::B_OFFSET + ring.stage * Config::B_STAGE_BYTES, parameters.maps + 1, full,
                               column, channel, ~0, first_tap + tap, cluster.row, same_column);
            channel += Config::TILE_K;
            if (channel == end) {
                channel = 0;
                ++tap;
                next(offset, patches);
            }
            ring.advance();
        }
    }

    // The next element of the window.
    static __device__ __forceinline__ void next(int (&offset)[3], const Patches& patches) {
        const auto advance = [&](int axis) {
            offset[axis] += patches.dilation[axis];
            if (offset[axis] < patches.size[axis] * patches.dilation[axis]) return true;
            offset[axis] = 0;
            return false;
        };
        if (advance(2)) return;
        if constexpr (AXES > 1) {
            if (advance(1)) return;
        }
        if constexpr (AXES > 2) advance(0);
    }
};

}  // namespace epilogue::sm90
