// Counts bytes in 256 bins: per block in shared memory, then into the result.
//
// histogram.ptx is this text compiled by NVRTC 13.0: --gpu-architecture=sm_80 --std=c++17
extern "C" __global__ void __launch_bounds__(256) histogram(const unsigned char* bytes, unsigned* counts, int n)
{
    __shared__ unsigned mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&mine[bytes[i]], 1u);
    __syncthreads();
    if (mine[threadIdx.x] != 0) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
