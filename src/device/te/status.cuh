// What a kernel does about data that it can't use: it notes the first failure in the device's record, and goes on with 0.
// Stopping instead would cost the process its CUDA context.
//
// The record is in the host's memory, on which atomic operations are atomic among this GPU's threads. Its fields are
// written between taking it (state 0 to 1) and completing it (state 2); the host takes what is complete, and frees it.
#pragma once
#include "arithmetic.cuh"

namespace epilogue {

struct FailureRecord {
    unsigned int state, site;
    unsigned long long kernel;
    long long value, limit;
};

struct Status {
    FailureRecord* record;
    unsigned long long kernel;
};

}  // namespace epilogue

// Filled by the host when the module is loaded; without a record nothing is noted.
extern "C" {
__device__ epilogue::Status epilogue_status;
}

namespace epilogue::te {

// Notes a failure at one of the kernel's sites, unless there is one already.
__device__ __forceinline__ void fail(unsigned int site, long long value, long long limit) {
    FailureRecord* const record = epilogue_status.record;
    if (record == nullptr || atomicCAS(&record->state, 0u, 1u) != 0u) return;
    record->site = site;
    record->kernel = epilogue_status.kernel;
    record->value = value;
    record->limit = limit;
    __threadfence_system();
    atomicExch(&record->state, 2u);
}

// Whether an index is one of `extent`; notes it if not.
__device__ __forceinline__ bool inside(long long index, long long extent, unsigned int site) {
    if (index >= 0 && index < extent) return true;
    fail(site, index, extent);
    return false;
}

// An element, or 0 where there is none.
template <typename T>
__device__ __forceinline__ T read_inside(const T* from, long long index, long long count, unsigned int site) {
    if (inside(index, count, site)) return from[index];
    return T{};
}

// Divisions by what may be zero.
template <typename Int>
__device__ __forceinline__ Int floor_div_or_fail(Int x, Int y, unsigned int site) {
    if (y != 0) return floor_div(x, y);
    fail(site, 0, 0);
    return 0;
}
template <typename Int>
__device__ __forceinline__ Int floor_mod_or_fail(Int x, Int y, unsigned int site) {
    if (y != 0) return floor_mod(x, y);
    fail(site, 0, 0);
    return 0;
}

}  // namespace epilogue::te
