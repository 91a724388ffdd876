// The types and constants that a kernel's `Config` is written in, and values derived from them.
//
// MMA rows and columns are those of wgmma's accumulator. They are the problem's m and n; with SWAP_AB, its n and m, so
// that the columns of a product with few rows fill the 64 rows of an instruction.
#pragma once
#include "../ptx.cuh"

namespace epilogue::sm90 {

// Which index of an operand is contiguous in memory.
enum class Major { K, MN };

// Cooperative: all consumer warpgroups share a tile. PingPong: each has a tile of its own, and multiplies while the
// other is in its epilogue.
enum class Schedule { Cooperative, PingPong };

// How blocks share the K of a tile; see split_k.cuh.
enum class SplitK { None, Serial, Parallel, Stream };

// How long the L2 should keep what a copy brings.
enum class Hint { Normal, First, Last };

// A tensor map, filled by the host: 128 bytes that only TMA reads.
struct alignas(64) TensorMap {
    u64 opaque[16];
};

template <bool CONDITION, class Then, class Else>
struct Choose {
    using Type = Then;
};
template <class Then, class Else>
struct Choose<false, Then, Else> {
    using Type = Else;
};

__device__ __forceinline__ constexpr int aligned(int x, int alignment) { return (x + alignment - 1) / alignment * alignment; }

constexpr int WARPGROUP = 128;

// The block's dynamic shared memory. There is no static one, which would move it from its multiple of 1024.
__device__ __forceinline__ unsigned char* block_memory() {
    extern __shared__ __align__(1024) unsigned char memory[];
    return memory;
}

// What follows from a Config.
template <class Config>
struct Shape {
    static constexpr bool PINGPONG = Config::SCHEDULE == Schedule::PingPong;
    // Consumer warpgroups that share a tile, and tiles that are worked on at once.
    static constexpr int TEAM = PINGPONG ? 1 : Config::CONSUMERS;
    static constexpr int TEAMS = Config::CONSUMERS / TEAM;
    static constexpr int TEAM_THREADS = TEAM * WARPGROUP;
    static constexpr int TEAM_WARPS = TEAM * 4;
    static constexpr int THREADS = (Config::CONSUMERS + 1) * WARPGROUP;

    // A warpgroup's accumulators: BLOCKS instructions of 64 rows and WG_COLUMNS columns.
    static constexpr int BLOCKS = Config::WG_ROWS / 64;
    static constexpr int REGISTERS = Config::WG_COLUMNS / 2;

    // What a tile has of each accumulator of an element, and a warpgroup of that: results. They share the instruction's
    // columns,
    //
    //   columns of the tile   [ gate 0..W | up 0..W ]                                W = RESULT_COLUMNS
    //
    // and where SWAP_AB, in turn, the blocks of 64 rows; so that a thread has all accumulators of an element.
    static constexpr int COUNT = Config::ACCUMULATORS;
    static constexpr int COUNT_ROWS = Config::SWAP_AB ? COUNT : 1, COUNT_COLUMNS = Config::SWAP_AB ? 1 : COUNT;
    static constexpr int RESULT_ROWS = Config::MMA_ROWS / COUNT_ROWS;
    static constexpr int RESULT_COLUMNS = Config::MMA_COLUMNS / COUNT_COLUMNS;
    static constexpr int RESULT_BLOCKS = BLOCKS / COUNT_ROWS;
    static constexpr int RESULT_REGISTERS = REGISTERS / COUNT_COLUMNS;
    static_assert(COUNT == 1 || !Config::SPLIT_COLUMNS);
    static_assert(BLOCKS % COUNT_ROWS == 0 && Config::MMA_COLUMNS % (8 * COUNT_COLUMNS) == 0);

    static constexpr int CLUSTER = Config::CLUSTER_M * Config::CLUSTER_N;

    static_assert(Config::WG_ROWS % 64 == 0 && Config::WG_COLUMNS % 8 == 0 && Config::WG_COLUMNS <= 256);
    static_assert(Config::CONSUMERS % TEAM == 0 && (!PINGPONG || Config::CONSUMERS == 2));
    static_assert(Config::MMA_ROWS == Config::WG_ROWS * (Config::SPLIT_COLUMNS ? 1 : TEAM));
    static_assert(Config::MMA_COLUMNS == Config::WG_COLUMNS * (Config::SPLIT_COLUMNS ? TEAM : 1));
    static_assert(Config::TILE_K * Config::B_ELEMENT_BYTES == 128, "a row of K is one swizzle atom");
    static_assert(Config::A_ELEMENT_BYTES == Config::B_ELEMENT_BYTES || (Config::SWAP_AB && Config::A_ELEMENT_BYTES == 1),
                  "what is converted to the other's type is A, of 8 bits: B of the product");
    static_assert(Config::STAGES >= 2 && Config::STAGES <= 16);

    // Where a warpgroup of a team has its part of the tile.
    static __device__ __forceinline__ int first_row(int member) {
        return Config::SPLIT_COLUMNS ? 0 : member * Config::WG_ROWS;
    }
    static __device__ __forceinline__ int first_result_row(int member) {
        return Config::SPLIT_COLUMNS ? 0 : member * (Config::WG_ROWS / COUNT_ROWS);
    }
    static __device__ __forceinline__ int first_column(int member) {
        return Config::SPLIT_COLUMNS ? member * Config::WG_COLUMNS : 0;
    }
};

// Whether products go to tensor memory, from which a consumer loads its accumulators. Kernels for sm_100a specialise it for
// their `Config` (../sm100/).
template <class Config>
struct HasTensorMemory {
    static constexpr bool VALUE = false;
};

// The MMA rows of a tile's results that a block of a warpgroup's accumulators has: four runs of 16 rows, one for each warp.
// Kernels whose runs are apart specialise it.
template <class Config>
struct BlockRows {
    static constexpr int STRIDE = 16;  // from a warp's run to the next one's

    static __device__ __forceinline__ int first(int member, int block) {
        return Shape<Config>::first_result_row(member) + 64 * block;
    }
};

// The control block of shared memory: mbarriers, then words.
template <class Config>
struct Control {
    static constexpr int FULL = Config::CONTROL_OFFSET;                     // by stage
    static constexpr int EMPTY = FULL + 8 * Config::STAGES;                 // by stage
    static constexpr int AUX = Config::AUX_STAGES * Config::CONSUMERS;
    static constexpr int AUX_FULL = EMPTY + 8 * Config::STAGES;             // by warpgroup and stage
    static constexpr int AUX_EMPTY = AUX_FULL + 8 * AUX;                    // by warpgroup and stage
    static constexpr int VECTORS_FULL = AUX_EMPTY + 8 * AUX;                // by team
    static constexpr int VECTORS_EMPTY = VECTORS_FULL + 8 * Shape<Config>::TEAMS;
    static constexpr int ORDER = VECTORS_EMPTY + 8 * Shape<Config>::TEAMS;  // by team
    static constexpr int DECIDED = ORDER + 8 * Shape<Config>::TEAMS;        // by team
    static constexpr int HEARD = DECIDED + 8 * Shape<Config>::TEAMS;        // by team
    static constexpr int END = HEARD + 8 * Shape<Config>::TEAMS;
    static constexpr int WORDS = Config::CONTROL_OFFSET + 512;              // a word for every team: who arrived last
    static constexpr int FINISHES = WORDS + 4 * Shape<Config>::TEAMS;       // a word for every team: what it decided
    static constexpr int ADDRESS = FINISHES + 4 * Shape<Config>::TEAMS;     // a word: where tensor memory begins
    static_assert(END <= WORDS, "64 mbarriers");
};

}  // namespace epilogue::sm90
