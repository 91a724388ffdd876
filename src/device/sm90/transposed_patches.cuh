// The GEMM kernel for sm_90a of a convolution's filter gradient: A is the patches of images under a window, transposed.
// Only the loads differ; everything else is as in gemm.cuh.
//
//   row m of A     channel m % channels of the window's element m / channels: 64 rows are of one element
//   column k of A  output (image, p0, p1, p2)
//   element        as in patches.cuh
//
// A box has some channels of one element of the window, at the outputs of a k-tile: a box of a matrix that is
// contiguous along M. So TMA walks along K here, and a tile's boxes differ in the element or in their channels. K is
// outputs, and M is whole boxes, so a group's channels are a multiple of 64. B is a matrix like any other.
//
//   A   boxes {channel, begin2, begin1, begin0, image} + {offset2, offset1, offset0}    64 channels of TILE_K outputs;
//   B   boxes {column, output, group}                                                   as of any matrix, or batch.
//
// The element and channels of a box are found once for a tile; the beginning of the window once for a k-tile. Rows
// behind the last have the channels of the group behind the last: zeros. Outputs behind the last have an image that
// does not exist: zeros in both operands.
#pragma once
#include "patches.cuh"

namespace epilogue::sm90 {

// What `Loads` is for a `Config` whose A is transposed patches of images with so many axes.
template <class Config, int AXES>
struct TransposedPatchLoads {
    using Loop = Mainloop<Config>;
    using C = Control<Config>;
    static_assert(!Config::SWAP_AB && Config::A_MAJOR == Major::MN && Config::A_HINT == Hint::Normal);
    // Of A's boxes a block of a cluster loads some, for all that share them.
    static constexpr int SHARERS = Config::CLUSTER_COLUMNS, BOXES = Loop::AStage::BOXES / SHARERS;
    static constexpr int BOX = Loop::AStage::BOX, BOX_BYTES = Loop::AStage::BOX_BYTES;
    // Of an offset; so all take 16.
    static constexpr u32 BITS = 16 / AXES;

    struct Box {
        int channel;
        u32 offsets;  // the last axis lowest
    };

    // The box of rows [BOX * block, BOX * block + BOX) of a group.
    static __device__ __forceinline__ Box box_of(const Patches& patches, u32 block, int group, int groups) {
        const u32 tap = patches.of_blocks.quotient(block);
        const bool exists = tap < u32(patches.taps);
        int offset[3] = {};
        find_tap<AXES>(patches, exists ? tap : 0, offset);
        const int channel = exists ? static_cast<int>(block - tap * patches.blocks) * BOX : 0;
        Box box{(exists ? group : groups) * patches.group_channels + channel, 0};
#pragma unroll
        for (int i = 0; i < AXES; ++i) box.offsets |= static_cast<u32>(offset[2 - i]) << (i * BITS);
        return box;
    }

    // Loads all k-tiles of a tile. By one thread.
    template <class Parameters>
    static __device__ __forceinline__ void produce(typename Loop::Ring& ring, const Parameters& parameters,
                                                   const Work& work, const ClusterPlace<Config>& cluster, u32 shared) {
        const auto& common = parameters.common;
        const Patches& patches = common.patches;
        Box boxes[BOXES];
#pragma unroll
        for (int i = 0; i < BOXES; ++i) {
            const u32 block = static_cast<u32>(work.m) / BOX + cluster.column * BOXES + i;
            boxes[i] = box_of(patches, block, work.batch, common.problem.batch);
        }
        const unsigned short same_row = cluster.same_row(), same_column = cluster.same_column();
        int output = work.k_begin;
#pragma unroll 1
        for (int kt = 0; kt < work.k_tiles; ++kt) {
            const u32 empty = shared + C::EMPTY + 8 * ring.stage, full = shared + C::FULL + 8 * ring.stage;
            int begin[3] = {};
            const int image = static_cast<int>(find_window<AXES>(patches, static_cast<u32>(output), begin));
            mbarrier_wait(empty, ring.parity ^ 1);
            mbarrier_expect(full, Config::STAGE_TX_BYTES);
            const u32 to = shared + Config::A_OFFSET + ring.stage * Config::A_STAGE_BYTES + cluster.column * BOXES * BOX_BYTES;
            const TensorMap& images = parameters.maps[0];
#pragma unroll
            for (int i = 0; i < BOXES; ++i) {
                int offset[3] = {};
#pragma unroll
                for (int j = 0; j < AXES; ++j)
                    offset[2 - j] = static_cast<int>(boxes[i].offsets >> (j * BITS) & ((1u << BITS) - 1));
                if constexpr (SHARERS > 1) {
                    load_pixels_multicast<AXES>(to + i * BOX_BYTES, images, full, boxes[i].channel, begin, image, offset,
                                                same_row);
                } else {
                    load_pixels<AXES>(to + i * BOX_BYTES, images, full, boxes[i].channel, begin, image, offset);
                }
            }
            Loop::BStage::load(shared + Config::B_OFFSET + ring.stage * Config::B_STAGE_BYTES, parameters.maps + 1, full, work.n,
                               output, common.b_batched, work.batch, cluster.row, same_column);
            output += Config::TILE_K;
            ring.advance();
        }
    }
};

}  // namespace epilogue::sm90
