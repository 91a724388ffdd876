// Data that a kernel cannot use, such as an index outside of its tensor: the kernel notes the first failure in the
// device's record, and goes on with something harmless. A trap would cost the process its CUDA context.
//
// The record is in the host's memory. Atomic operations on it are atomic among the threads of this GPU. Its fields are
// written between taking it (state 0 to 1) and completing it (state 2); the host reads complete records and frees them.
#pragma once

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

namespace epilogue {

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

}  // namespace epilogue
