// Calls an exported kernel from C++: a layer of a network, on the first GPU.
//
//     epilogue emit layer.rs --arch sm_80 --shape 96,128,64 --b column --all .
//     c++ -std=c++17 main.cpp -lcuda -o layer && ./layer layer.cubin
//
// The header is for one shape and packed tensors; A is 96x64 of f16, B 128 rows of 64 as a linear layer's weights are.
#include "layer.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

// The driver's own functions that the header has no use for. cuda.h has them.
#ifndef CUDA_VERSION
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
extern "C" {
CUresult cuInit(unsigned int flags);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
}
#define cuMemAlloc cuMemAlloc_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemsetD8 cuMemsetD8_v2
#endif

namespace {

void check(CUresult result, const char *what) {
    if (result != CUDA_SUCCESS) throw std::runtime_error(std::string(what) + " failed: " + std::to_string(int(result)));
}

CUdeviceptr zeros(size_t bytes) {
    if (bytes == 0) return 0;
    CUdeviceptr address = 0;
    check(cuMemAlloc(&address, bytes), "cuMemAlloc");
    check(cuMemsetD8(address, 0, bytes), "cuMemsetD8");
    return address;
}

template <class T>
CUdeviceptr copied(const std::vector<T> &values) {
    const CUdeviceptr address = zeros(values.size() * sizeof(T));
    check(cuMemcpyHtoD(address, values.data(), values.size() * sizeof(T)), "cuMemcpyHtoD");
    return address;
}

}  // namespace

int main(int argc, char **argv) try {
    if (argc != 2) throw std::runtime_error("usage: layer layer.cubin");
    std::ifstream file(argv[1], std::ios::binary);
    if (!file) throw std::runtime_error(std::string("no file ") + argv[1]);
    const std::vector<char> cubin((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

    CUdevice device;
    CUcontext context;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");

    CUmodule module;
    CUfunction kernel;
    check(layer_load(&module, &kernel, cubin.data()), "layer_load");

    // 0x3c00 is 1 in f16, so that every element of A·B is K, and scaled by 1/K it is 1.
    const uint16_t one = 0x3c00;
    layer_arguments arguments = {};
    arguments.A = copied(std::vector<uint16_t>(size_t(LAYER_M) * LAYER_K, one));
    arguments.B = copied(std::vector<uint16_t>(size_t(LAYER_N) * LAYER_K, one));
    arguments.bias = copied(std::vector<float>(LAYER_N, 0.5f));
    arguments.residual = copied(std::vector<uint16_t>(size_t(LAYER_M) * LAYER_N, one));
    arguments.scale = 1.0f / LAYER_K;
    arguments.d = zeros(size_t(LAYER_M) * LAYER_N * sizeof(uint16_t));
    arguments.sums = zeros(LAYER_M * sizeof(float));

    const CUdeviceptr counters = zeros(LAYER_COUNTER_BYTES), scratch = zeros(LAYER_SCRATCH_BYTES);
    check(layer_launch(kernel, nullptr, &arguments, counters, scratch), "layer_launch");
    check(cuCtxSynchronize(), "cuCtxSynchronize");

    std::vector<float> sums(LAYER_M);
    check(cuMemcpyDtoH(sums.data(), arguments.sums, sums.size() * sizeof(float)), "cuMemcpyDtoH");
    const float x = 1.5f, expected = LAYER_N * (0.5f * x * (1.0f + std::erf(x * 0.70710678f)) + 1.0f);
    for (const float sum : sums)
        if (std::fabs(sum - expected) > 1e-3f * expected) throw std::runtime_error("a row's sum is " + std::to_string(sum));
    std::printf("every row sums to %g, as it must\n", expected);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
