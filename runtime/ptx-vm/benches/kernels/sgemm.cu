// C = A·B in f32, all n × n and row by row. A block of 16 × 16 threads computes a tile of 64 × 64 from tiles in shared
// memory, 4 × 4 elements per thread. n is a multiple of 64.
//
// sgemm.ptx is this text compiled by NVRTC 13.0: --gpu-architecture=sm_80 --std=c++17
extern "C" __global__ void __launch_bounds__(256)
sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n)
{
    __shared__ float left[16][64];
    __shared__ float right[16][64];
    const int thread = threadIdx.x;
    const int row = thread / 16 * 4, column = thread % 16 * 4;
    const int top = blockIdx.y * 64, start = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int i = thread; i < 16 * 64; i += 256) {
            left[i % 16][i / 16] = a[(top + i / 16) * n + k + i % 16];
            right[i / 64][i % 64] = b[(k + i / 64) * n + start + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++) {
            float x[4], y[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                x[i] = left[j][row + i];
                y[i] = right[j][column + i];
            }
#pragma unroll
            for (int p = 0; p < 4; p++)
#pragma unroll
                for (int q = 0; q < 4; q++) sums[p][q] += x[p] * y[q];
        }
        __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < 4; p++)
#pragma unroll
        for (int q = 0; q < 4; q++) c[(top + row + p) * n + start + column + q] = sums[p][q];
}
