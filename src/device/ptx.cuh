// One function per PTX instruction, and nothing else: no tiles, no GEMM.
//
// Facts come from NVIDIA's "PTX ISA" document; each function names the section that defines its instruction.
// Nothing here needs a toolkit header, so the text compiles under NVRTC and nvcc alike.
#pragma once

namespace epilogue {

using u32 = unsigned int;
using u64 = unsigned long long;
using index_t = long long;  // offsets in elements or bytes; M, N and K themselves are 32-bit

// The 32-bit address of a shared-memory object.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// ---- Data movement: cp.async (non-bulk) -------------------------------------------------------------------------

// cp.async: copies `valid` of 16 bytes from global to shared memory and zero-fills the rest, past the L1. The L2 fetches
// the whole 128 bytes, of which a row's next k-tile needs the rest.
__device__ __forceinline__ void copy_async_16(u32 shared, const void* global, int valid) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global), "r"(valid)
                 : "memory");
}

// cp.async of 8 bytes, through the L1 (the only way for fewer than 16).
__device__ __forceinline__ void copy_async_8(u32 shared, const void* global, int valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(shared), "l"(global), "r"(valid) : "memory");
}

// cp.async of 4 bytes: the narrowest there is.
__device__ __forceinline__ void copy_async_4(u32 shared, const void* global, int valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared), "l"(global), "r"(valid) : "memory");
}

// cp.async.commit_group: closes the group of this thread's copies so far (an empty group is complete at once).
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// cp.async.wait_group: waits until at most `Pending` of this thread's groups are in flight.
template <int Pending>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}

// ---- Shared memory ----------------------------------------------------------------------------------------------

// st.shared.v4.b32
__device__ __forceinline__ void store_shared_16(u32 shared, u32 x, u32 y, u32 z, u32 w) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

// ld.shared.u16, in the lower half.
__device__ __forceinline__ u32 load_shared_2(u32 shared) {
    u32 x;
    asm volatile("ld.shared.u16 %0, [%1];\n" : "=r"(x) : "r"(shared) : "memory");
    return x;
}

// ld.shared.b32
__device__ __forceinline__ u32 load_shared_4(u32 shared) {
    u32 x;
    asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(x) : "r"(shared) : "memory");
    return x;
}

// ld.shared.f32
__device__ __forceinline__ float load_shared_f32(u32 shared) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(x) : "r"(shared) : "memory");
    return x;
}

// ld.shared.v2.f32
__device__ __forceinline__ void load_shared_f32x2(u32 shared, float (&x)[2]) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n" : "=f"(x[0]), "=f"(x[1]) : "r"(shared) : "memory");
}

// ld.shared.v4.f32
__device__ __forceinline__ void load_shared_f32x4(u32 shared, float (&x)[4]) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(shared)
                 : "memory");
}

// ld.shared.f64
__device__ __forceinline__ double load_shared_f64(u32 shared) {
    double x;
    asm volatile("ld.shared.f64 %0, [%1];\n" : "=d"(x) : "r"(shared) : "memory");
    return x;
}

// ---- Warp-level matrices: ldmatrix, mma -------------------------------------------------------------------------

// ldmatrix: four 8×8 matrices of 16-bit elements. Lane 8i+r gives the address of row r of matrix i; lane l receives
// elements (l/4, 2(l%4)) and (l/4, 2(l%4)+1) of every matrix.
__device__ __forceinline__ void load_matrix_x4(u32 shared, u32 (&x)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared)
                 : "memory");
}

// ldmatrix.trans: the same matrices, transposed.
__device__ __forceinline__ void load_matrix_x4_transposed(u32 shared, u32 (&x)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared)
                 : "memory");
}

// mma.m16n8k16, f16 operands, f32 accumulators. Accumulator of lane l: rows l/4 and l/4+8, columns 2(l%4) and +1.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[2][2], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// mma.m16n8k16, bf16 operands, f32 accumulators.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[2][2], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// mma.m16n8k8, TF32 operands (see round_to_tf32), f32 accumulators.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[2][2], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[1][0]), "+f"(d[1][1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// mma.m16n8k32, 8-bit integers, s32 accumulators (sums wrap around). Lane l gives A(l/4, 4(l%4)..), A(l/4+8, 4(l%4)..) and
// the same 16 further along K; B(4(l%4).., l/4) and 16 further.
template <bool A_SIGNED, bool B_SIGNED>
__device__ __forceinline__ void mma_m16n8k32_int8(int (&d)[2][2], const u32 (&a)[4], u32 b0, u32 b1) {
#define EPILOGUE_MMA(A_TYPE, B_TYPE)                                                                                   \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." A_TYPE "." B_TYPE                                            \
                 ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                              \
                 : "+r"(d[0][0]), "+r"(d[0][1]), "+r"(d[1][0]), "+r"(d[1][1])                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
    if constexpr (A_SIGNED && B_SIGNED) {
        EPILOGUE_MMA("s8", "s8");
    } else if constexpr (A_SIGNED) {
        EPILOGUE_MMA("s8", "u8");
    } else if constexpr (B_SIGNED) {
        EPILOGUE_MMA("u8", "s8");
    } else {
        EPILOGUE_MMA("u8", "u8");
    }
#undef EPILOGUE_MMA
}

// mma.m8n8k4, f64. Accumulator of lane l: row l/4, columns 2(l%4) and +1.
__device__ __forceinline__ void mma_m8n8k4_f64(double (&d)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\n"
                 : "+d"(d[0]), "+d"(d[1])
                 : "d"(a), "d"(b));
}

// cvt.rn.bf16x2.f32: to nearest, ties to even; `x` goes to the lower half.
__device__ __forceinline__ u32 round_to_bf16x2(u32 x, u32 y) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(__uint_as_float(y)), "f"(__uint_as_float(x)));
    return pair;
}

// cvt.rna.tf32.f32: to nearest, ties away from zero. Without it the tensor core would see truncated operands.
__device__ __forceinline__ u32 round_to_tf32(u32 bits) {
    u32 rounded;
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
}

// prmt: bytes of x (0 to 3) and y (4 to 7), of which SELECT's digits say which, the lowest first.
template <u32 SELECT>
__device__ __forceinline__ u32 permute_bytes(u32 x, u32 y) {
    return __byte_perm(x, y, SELECT);
}

// mul.f16x2
__device__ __forceinline__ u32 multiply_f16x2(u32 x, u32 y) {
    u32 product;
    asm("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(product) : "r"(x), "r"(y));
    return product;
}

// sub.f16x2
__device__ __forceinline__ u32 subtract_f16x2(u32 x, u32 y) {
    u32 difference;
    asm("sub.rn.f16x2 %0, %1, %2;\n" : "=r"(difference) : "r"(x), "r"(y));
    return difference;
}

// ---- Memory consistency: what blocks say to each other ---------------------------------------------------------

// atom.add.acq_rel.gpu: what this block wrote before (its threads joined by a barrier) is visible to whoever sees the
// new count, and the other way round. Returns the old count.
__device__ __forceinline__ u32 atomic_add_acquire_release(u32* counter, u32 value) {
    u32 old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;\n" : "=r"(old) : "l"(counter), "r"(value) : "memory");
    return old;
}

// ld.acquire.gpu
__device__ __forceinline__ u32 load_acquire(const u32* pointer) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(value) : "l"(pointer) : "memory");
    return value;
}

// ld.relaxed.gpu: the value as some thread wrote it; nothing else becomes visible by it.
__device__ __forceinline__ u32 load_relaxed(const u32* pointer) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];\n" : "=r"(value) : "l"(pointer) : "memory");
    return value;
}

// atom.add.relaxed.gpu: returns the old value.
__device__ __forceinline__ u32 atomic_add_relaxed(u32* counter, u32 value) {
    u32 old;
    asm volatile("atom.add.relaxed.gpu.global.u32 %0, [%1], %2;\n" : "=r"(old) : "l"(counter), "r"(value) : "memory");
    return old;
}

// fence.acq_rel.gpu: what other threads wrote before they released a value that this thread has read (relaxed) before
// the fence is visible after it.
__device__ __forceinline__ void fence_acquire_release() { asm volatile("fence.acq_rel.gpu;\n" ::: "memory"); }

// st.release.gpu
__device__ __forceinline__ void store_release(u32* pointer, u32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(pointer), "r"(value) : "memory");
}

// The same number, which the compiler must take for a new one: what it computes of it, it can't compute before and keep
// in a register that the accumulators need.
template <typename T>
__device__ __forceinline__ T anew(T x) {
    asm volatile("" : "+r"(x));
    return x;
}

}  // namespace epilogue
