// Inclusive sums of n floats in one pass, with decoupled look-back (Merrill and Garland, "Single-pass Parallel Prefix Scan
// with Decoupled Look-back", 2016). n is a multiple of 256; a block of 256 threads has 256 elements.
//
// flags[b] is 0, then 1 when sums[b] is the sum of block b's elements, then 2 when prefixes[b] is the sum of all elements
// up to the end of block b. One thread of a block looks back, block by block.
//
// scan.ptx is this text compiled by NVRTC 13.0: --gpu-architecture=sm_80 --std=c++17
__device__ float scan_warp(float x, int lane) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const float before = __shfl_up_sync(0xffffffff, x, distance);
        if (lane >= distance) x += before;
    }
    return x;
}

__device__ unsigned load_acquire(const unsigned* flag) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

__device__ void store_release(unsigned* flag, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ float look_back(int block, const unsigned* flags, const float* sums, const float* prefixes) {
    float before = 0;
    while (block > 0) {
        --block;
        unsigned flag;
        do flag = load_acquire(flags + block);
        while (flag == 0);
        if (flag == 2) return before + prefixes[block];
        before += sums[block];
    }
    return before;
}

extern "C" __global__ void __launch_bounds__(256)
    scan(const float* in, float* out, unsigned* flags, float* sums, float* prefixes, int) {
    __shared__ float warps[8], before;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, block = blockIdx.x;
    float x = scan_warp(in[size_t(block) * 256 + threadIdx.x], lane);
    if (lane == 31) warps[warp] = x;
    __syncthreads();  // the warps' sums are there
    for (int w = 0; w < warp; ++w) x += warps[w];
    if (threadIdx.x == 255) {
        sums[block] = x;
        store_release(flags + block, 1);
        before = look_back(block, flags, sums, prefixes);
        prefixes[block] = before + x;
        store_release(flags + block, 2);
    }
    __syncthreads();  // what is before the block is known
    out[size_t(block) * 256 + threadIdx.x] = before + x;
}
