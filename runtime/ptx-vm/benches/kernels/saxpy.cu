// y = f·x + y, one element per thread.
//
// saxpy.ptx is this text compiled by NVRTC 13.0: --gpu-architecture=sm_80 --std=c++17
extern "C" __global__ void saxpy(const float* x, float* y, float f, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f * x[i] + y[i];
}
