// C[M, N] = A[M, K] · B[N, K]ᵀ, f16 to f32, with cp.async, ldmatrix and mma.sync. M and N are multiples of 64, K of 32.
//
// A block of 128 threads has a tile of 64×64, a warp 32×32 of it. Three stages of 32 along K; a row of a stage is 64 bytes,
// its 16-byte chunks permuted by the row against bank conflicts. One barrier a stage orders both ways: the copies of the
// stage are everyone's, and everyone has read the stage that is refilled next.
//
// gemm.ptx is this text compiled by NVRTC 13.0: --gpu-architecture=sm_80 --std=c++17
using half_bits = unsigned short;

constexpr int TILE = 64, DEPTH = 32, STAGES = 3, ROW_BYTES = DEPTH * 2;
constexpr int OPERAND_BYTES = TILE * ROW_BYTES, STAGE_BYTES = 2 * OPERAND_BYTES;

__device__ unsigned place(int row, int chunk) { return row * ROW_BYTES + ((chunk ^ (row >> 1)) & 3) * 16; }

__device__ void copy_tile(unsigned to, const half_bits* from, int stride) {
    for (int i = threadIdx.x; i < TILE * 4; i += 128) {
        const int row = i / 4, chunk = i % 4;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + place(row, chunk)),
                     "l"(from + size_t(row) * stride + chunk * 8)
                     : "memory");
    }
}

__device__ void load_fragments(unsigned (&x)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(128) gemm(const half_bits* a, const half_bits* b, float* c, int, int n, int k) {
    __shared__ __align__(128) unsigned char stages[STAGES * STAGE_BYTES];
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    a += size_t(blockIdx.y) * TILE * k;
    b += size_t(blockIdx.x) * TILE * k;
    c += size_t(blockIdx.y) * TILE * n + blockIdx.x * TILE;

    const int steps = k / DEPTH;
    auto refill = [&](int step) {
        if (step < steps) {
            const unsigned stage = shared + step % STAGES * STAGE_BYTES;
            copy_tile(stage, a + step * DEPTH, k);
            copy_tile(stage + OPERAND_BYTES, b + step * DEPTH, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    refill(0);
    refill(1);

    float sums[2][4][4] = {};
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        refill(step + 2);
        const unsigned stage = shared + step % STAGES * STAGE_BYTES;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            unsigned rows[2][4], columns[2][4];
            for (int i = 0; i < 2; ++i) {
                load_fragments(rows[i], stage + place(warp_row + 16 * i + lane % 16, 2 * half + lane / 16));
                const int row = warp_column + 16 * i + lane / 16 * 8 + lane % 8;
                load_fragments(columns[i], stage + OPERAND_BYTES + place(row, 2 * half + lane / 8 % 2));
            }
            for (int i = 0; i < 2; ++i) {
                for (int j = 0; j < 4; ++j) {
                    float(&d)[4] = sums[i][j];
                    const unsigned(&x)[4] = rows[i];
                    const unsigned* y = columns[j / 2] + j % 2 * 2;
                    asm volatile(
                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
                }
            }
        }
    }
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 4; ++j) {
            float* out = c + size_t(warp_row + 16 * i + lane / 4) * n + warp_column + 8 * j + lane % 4 * 2;
            *reinterpret_cast<float2*>(out) = make_float2(sums[i][j][0], sums[i][j][1]);
            *reinterpret_cast<float2*>(out + size_t(8) * n) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
    }
}
