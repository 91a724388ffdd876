// CUB's reductions and scans, timed as the program times its own: `nvcc -O3 -std=c++17 -arch=sm_90 cub.cu -o cub`.
// Prints one JSON object a line.
#include <cub/cub.cuh>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                    \
    do {                                                                               \
        cudaError_t status = (call);                                                   \
        if (status != cudaSuccess) {                                                   \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));       \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)

__global__ void hold(unsigned long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < nanoseconds);
}

template <class T>
__global__ void fill(T* to, size_t count) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
        to[i] = T(float(int(i * 2654435761u >> 20) % 64 - 32) / 32.0f);
}

// The median of the milliseconds of `run(i)`, of 9 rounds of about 4 ms.
template <class Run>
double time(Run run) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    auto part = [&](int times) {
        hold<<<1, 1>>>(20000 + 20000ull * times);
        CHECK(cudaEventRecord(begin));
        for (int i = 0; i < times; ++i) run(i);
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        return double(ms) / times;
    };
    part(2);
    const int times = std::max(1, std::min(400, int(4.0 / part(3))));
    std::vector<double> taken;
    for (int round = 0; round < 9; ++round) taken.push_back(part(times));
    std::sort(taken.begin(), taken.end());
    return taken[4];
}

template <class T, class Call>
void measure(const char* operation, const char* dtype, size_t count, size_t outputs, Call call) {
    const size_t bytes = count * sizeof(T);
    const int sets = int(std::max<size_t>(1, std::min<size_t>(64, (size_t(180) << 20) / bytes + 1)));
    std::vector<T*> in(sets), out(sets);
    for (int i = 0; i < sets; ++i) {
        CHECK(cudaMalloc(&in[i], bytes));
        CHECK(cudaMalloc(&out[i], outputs * sizeof(T)));
        fill<<<4096, 256>>>(in[i], count);
    }
    size_t workspace_bytes = 0;
    void* workspace = nullptr;
    CHECK(call(nullptr, workspace_bytes, in[0], out[0], count));
    CHECK(cudaMalloc(&workspace, workspace_bytes));
    const double ms = time([&](int i) { CHECK(call(workspace, workspace_bytes, in[i % sets], out[i % sets], count)); });
    std::printf("{\"kind\": \"speed\", \"what\": \"cub\", \"operation\": \"%s\", \"dtype\": \"%s\", \"shape\": [%zu], "
                "\"contenders\": [{\"name\": \"cub\", \"ms\": %.6f, \"tb_per_s\": %.4f}]}\n",
                operation, dtype, count, ms, (bytes + outputs * sizeof(T)) / ms * 1e-9);
    std::fflush(stdout);
    for (int i = 0; i < sets; ++i) {
        CHECK(cudaFree(in[i]));
        CHECK(cudaFree(out[i]));
    }
    CHECK(cudaFree(workspace));
}

template <class T>
void all(const char* dtype, std::vector<int> logarithms) {
    for (int logarithm : logarithms) {
        const size_t count = size_t(1) << logarithm;
        measure<T>("sum", dtype, count, 1, [](void* workspace, size_t& bytes, T* in, T* out, size_t count) {
            return cub::DeviceReduce::Sum(workspace, bytes, in, out, int(count));
        });
        measure<T>("inclusive sum", dtype, count, count, [](void* workspace, size_t& bytes, T* in, T* out, size_t count) {
            return cub::DeviceScan::InclusiveSum(workspace, bytes, in, out, int(count));
        });
    }
}

int main() {
    all<float>("f32", {20, 24, 28});
    all<__half>("f16", {24, 28});
}
