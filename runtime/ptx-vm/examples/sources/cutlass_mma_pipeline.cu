// A product of 16 x K by K x 8 in f16 by one warp, on CUTLASS's CuTe: two stages in dynamic shared memory, cp.async,
// ldmatrix, mma.sync. `../cutlass_mma_pipeline.ptx` is what NVRTC 13.0 makes of it with CUTLASS 4.2:
//
//     nvcc -ptx -std=c++17 -arch=compute_80 -I <CUTLASS>/include cutlass_mma_pipeline.cu
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

using namespace cute;

// D = A·B; K = 16 · tiles. A has its rows, B its columns, and D its rows one after another in memory.
extern "C" __global__ void product(half_t const* a, half_t const* b, float* d, int tiles) {
  extern __shared__ half_t stages[];
  auto tiled = [&](half_t const* x, auto rows) {
    auto whole = make_tensor(make_gmem_ptr(x), make_shape(rows, 16 * tiles), make_stride(16 * tiles, _1{}));
    return local_tile(whole, make_shape(rows, _16{}), make_coord(0, _));
  };
  auto gA = tiled(a, _16{});
  auto gB = tiled(b, _8{});
  auto sA = make_tensor(make_smem_ptr(stages), Layout<Shape<_16, _16, _2>, Stride<_16, _1, _256>>{});
  auto sB = make_tensor(make_smem_ptr(stages + 512), Layout<Shape<_8, _16, _2>, Stride<_16, _1, _128>>{});

  using Load = Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, half_t>;
  auto loadA = make_tiled_copy(Load{}, Layout<Shape<_16, _2>, Stride<_2, _1>>{}, Layout<Shape<_1, _8>>{}).get_slice(threadIdx.x);
  auto loadB = make_tiled_copy(Load{}, Layout<Shape<_8, _2>, Stride<_2, _1>>{}, Layout<Shape<_1, _8>>{}).get_slice(threadIdx.x % 16);
  auto load = [&](int tile) {
    copy(Load{}, loadA.partition_S(gA)(_, _, _, tile), loadA.partition_D(sA)(_, _, _, tile % 2));
    if (threadIdx.x < 16) copy(Load{}, loadB.partition_S(gB)(_, _, _, tile), loadB.partition_D(sB)(_, _, _, tile % 2));
    cp_async_fence();
  };

  auto mma = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{});
  auto own = mma.get_slice(threadIdx.x);
  auto readA = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, mma);
  auto readB = make_tiled_copy_B(Copy_Atom<SM75_U32x2_LDSM_N, half_t>{}, mma);
  auto rA = own.partition_fragment_A(sA(_, _, 0));
  auto rB = own.partition_fragment_B(sB(_, _, 0));
  auto gD = make_tensor(make_gmem_ptr(d), Layout<Shape<_16, _8>, Stride<_8, _1>>{});
  auto sum = own.partition_fragment_C(gD);
  clear(sum);

  load(0);
  CUTE_NO_UNROLL
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) load(tile + 1);
    else cp_async_fence(); // an empty group keeps the count right; without it, the last tile is not waited for
    cp_async_wait<1>();
    __syncthreads();
    auto thrA = readA.get_slice(threadIdx.x);
    auto thrB = readB.get_slice(threadIdx.x);
    copy(readA, thrA.partition_S(sA)(_, _, _, tile % 2), thrA.retile_D(rA));
    copy(readB, thrB.partition_S(sB)(_, _, _, tile % 2), thrB.retile_D(rB));
    gemm(mma, rA, rB, sum);
    __syncthreads();
  }
  copy(sum, own.partition_C(gD));
}
