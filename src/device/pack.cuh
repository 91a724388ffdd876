// Neighbouring elements that a lane accesses at once.
#pragma once

namespace epilogue {

// V neighbouring elements as they are in memory.
template <typename T, int V>
struct alignas(V * sizeof(T) > 16 ? 16 : V * sizeof(T)) Pack {
    T value[V];
};

}  // namespace epilogue
