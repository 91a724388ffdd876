#include "prelude.h"
// Sums of blocks: a tree in shared memory, then an atomic addition.
extern "C" __global__ void sum(const float *in, float *out, int n) {
  __shared__ float part[128];
  int t = TID, i = BID * NTID + t;
  part[t] = i < n ? in[i] : 0.0f;
  SYNC;
#pragma unroll 1
  for (int step = 64; step > 0; step /= 2) {
    if (t < step) part[t] += part[t + step];
    SYNC;
  }
  if (t == 0) __nvvm_atom_add_gen_f(out, part[0]);
}
// A structure by value with an array that is indexed at run time: clang copies it to a local depot.
struct Table { int scale[5]; char shift; double offset; };
extern "C" __global__ void table(Table table, const int *which, double *out) {
  int t = TID;
  out[t] = table.scale[which[t] % 5] * (1 << table.shift) + table.offset;
}
// 64-bit division, a switch, a local array with dynamic indices, early returns before a shuffle of the rest.
__constant__ unsigned char codes[8] = {7, 1, 2, 250, 4, 5, 6, 3};
extern "C" __global__ void mixed(const long long *in, long long *out, int n) {
  int t = TID;
  if (t >= n) return;
  long long x = in[t];
  long long last[4] = {1, 2, 3, 4};
  for (int k = 0; k < 6; ++k) {
    switch ((x >> k) & 7) {
    case 0: x += 5; break;
    case 1: x *= 3; break;
    case 2: x -= 11; break;
    case 3: x ^= 0x55; break;
    case 4: x /= 3; break;
    case 5: x %= 1000003; break;
    case 6: x = -x; break;
    default: x >>= 1;
    }
    last[x & 3] += x;
  }
  unsigned active = (1u << n) - 1;
  int low = (int)last[codes[x & 7] & 3];
  int sum = low + __nvvm_shfl_sync_bfly_i32(active, low, 1, 31);
  out[t] = x + last[0] * 2 + last[1] * 3 + last[2] * 5 + last[3] * 7 + sum;
}
// Floats: fused multiply-adds, half precision, conversions both ways, minima, square roots, rounding.
extern "C" __global__ void floats(const float *in, float *out, unsigned short *halves) {
  int t = TID;
  float x = in[t];
  _Float16 h = (_Float16)x;
  h = h * (_Float16)1.5f + (_Float16)0.25f;
  float y = __builtin_fmaf(x, x, (float)h);
  y = __nvvm_fmin_f(y, 100.0f) + __nvvm_sqrt_rn_f(__nvvm_fabs_f(x)) + __nvvm_floor_f(x) + (float)(int)x;
  halves[t] = __builtin_bit_cast(unsigned short, h);
  out[t] = y + (float)(double)(y / 3.0f);
}
#ifdef HOPPER
// What sm_90 adds: an mbarrier, a bulk copy, a cluster's ranks.
extern "C" __global__ void bulk(const int *in, int *out) {
  __shared__ __attribute__((aligned(128))) int tile[128];
  __shared__ unsigned long long barrier;
  unsigned place = (unsigned)(unsigned long long)(__attribute__((address_space(3))) void *)tile;
  unsigned bar = (unsigned)(unsigned long long)(__attribute__((address_space(3))) void *)&barrier;
  int t = TID;
  if (t == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(bar) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                 ::"r"(place), "l"(in), "r"(bar) : "memory");
  }
  SYNC;
  int done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar) : "memory");
  } while (!done);
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  out[t] = tile[127 - t] + (int)rank;
}
#endif
