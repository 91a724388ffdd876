// C[M, N] = A[M, K] · B[N, K]ᵀ, f16 to f32, with TMA, mbarriers and wgmma. M, N and K are multiples of 64.
//
// Warps 0 to 3 multiply, lane 0 of warp 4 copies. Three stages of a 64×64 box of A and one of B, rows of 128 bytes swizzled
// by the tensor maps (CU_TENSOR_MAP_SWIZZLE_128B). `full[s]` completes when the copies of stage s have landed, `empty[s]`
// when the four warps have read it.
//
// wgmma.ptx is this text compiled by NVRTC 13.0: --gpu-architecture=sm_90a --std=c++17
struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

constexpr int STAGES = 3, BOX_BYTES = 64 * 128;

__device__ unsigned address(const void* pointer) { return static_cast<unsigned>(__cvta_generic_to_shared(pointer)); }

__device__ void wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again; }" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

__device__ void copy_box(unsigned to, const TensorMap& map, int x, int y, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
            "r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(barrier)
        : "memory");
}

// Rows of 128 bytes, groups of eight of them 1024 bytes apart, 128-byte swizzle (PTX ISA 9.7.15.5.1.2.2).
__device__ unsigned long long descriptor(unsigned start) {
    return (start & 0x3ffff) >> 4 | 64ull << 32 | 1ull << 62;
}

#define SUM(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])

__device__ void multiply(float (&sums)[32], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 1, 1, 1, 0, 0;"
        : SUM(0), SUM(4), SUM(8), SUM(12), SUM(16), SUM(20), SUM(24), SUM(28)
        : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(160)
    wgmma(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int k, int n) {
    extern __shared__ __align__(1024) unsigned char boxes[];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = k / 64;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(full + s)) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(address(empty + s)) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();  // the barriers are initialised for everyone

    if (warp == 4) {
        if (lane != 0) return;
        for (int step = 0; step < steps; ++step) {
            const int s = step % STAGES, turn = step / STAGES;
            const unsigned landed = address(full + s), to = address(boxes + 2 * s * BOX_BYTES);
            if (turn > 0) wait(address(empty + s), (turn - 1) & 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(landed), "r"(2 * BOX_BYTES)
                         : "memory");
            copy_box(to, a, step * 64, blockIdx.y * 64, landed);
            copy_box(to + BOX_BYTES, b, step * 64, blockIdx.x * 64, landed);
        }
        return;
    }

    float sums[32] = {};
    for (int step = 0; step < steps; ++step) {
        const int s = step % STAGES;
        const unsigned from = address(boxes + 2 * s * BOX_BYTES);
        wait(address(full + s), step / STAGES & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int chunk = 0; chunk < 4; ++chunk)
            multiply(sums, descriptor(from + 32 * chunk), descriptor(from + BOX_BYTES + 32 * chunk));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (lane == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(empty + s)) : "memory");
    }
    c += size_t(blockIdx.y * 64 + warp * 16 + lane / 4) * n + blockIdx.x * 64 + lane % 4 * 2;
    for (int j = 0; j < 8; ++j) {
        *reinterpret_cast<float2*>(c + 8 * j) = make_float2(sums[4 * j], sums[4 * j + 1]);
        *reinterpret_cast<float2*>(c + size_t(8) * n + 8 * j) = make_float2(sums[4 * j + 2], sums[4 * j + 3]);
    }
}
