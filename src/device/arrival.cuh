// The last block to arrive: it combines what all blocks wrote, so that their order changes nothing.
#pragma once
#include "ptx.cuh"

namespace epilogue {

// Whether this block is the last of `expected` to arrive at `counter`, which then is 0 again. What the others wrote
// before they arrived is visible to every thread of the last.
template <class Walk>
__device__ __forceinline__ bool last_to_arrive(u32* counter, u32 expected) {
    u32& arrived = *Walk::template shared<u32, -1, 1>();
    Walk::sync();  // everyone's partials are written before the arrival
    if (expected == 1) return true;
    if (Walk::thread() == 0) {
        const u32 before = atomic_add_acquire_release(counter, 1);
        if (before == expected - 1) *counter = 0;  // nobody else of this launch looks; the next one comes after it
        arrived = before;
    }
    Walk::sync();  // what thread 0 acquired is everyone's
    return arrived == expected - 1;
}

}  // namespace epilogue
