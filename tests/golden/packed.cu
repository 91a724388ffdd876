namespace epilogue {

using Real = float;

struct Config {
    using A = f16;
    using B = f16;
    static constexpr sm80::Arithmetic ARITHMETIC = sm80::Arithmetic::F16;
    static constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 32;
    static constexpr int ACCUMULATORS = 1;
    static constexpr int WARP_M = 64, WARP_N = 64;
    static constexpr int STAGES = 4;
    static constexpr sm80::Major A_MAJOR = sm80::Major::K, B_MAJOR = sm80::Major::MN;
    static constexpr int A_COPY = 16, B_COPY = 16;
    static constexpr sm80::SplitK SPLIT_K = sm80::SplitK::None;
    static constexpr int VECTOR = 4, EPILOGUE_PASSES = 1;
};
static_assert(sm80::SHARED_BYTES<Config> == 65536, "as the host asks for");

// What `packed` stores or reduces of one element.
struct Values {
    float _t1;
    bool _t2;
};

// `packed` of one element.
__device__ __forceinline__ Values packed_(const float accum, const bool keep) {
    const float t1 = keep ? accum : 0.0f;
    const bool t2 = t1 > 0.0f;
    return {t1, t2};
}

struct Arguments {
    TensorView<u8> _keep;                     // keep
    TensorView<f16> output0;                  // output d
    TensorView<u8> output1;                   // output positive
};
static_assert(sizeof(Arguments) == 120, "as the host fills it");

struct Parameters {
    sm80::Common<Config> common;
    Arguments arguments;
};
static_assert(sizeof(sm80::Common<Config>) == 128, "as the host fills it");

// Feeds the function of one element with rows of the tile; see sm80/epilogue.cuh.
struct Visitor {
    static constexpr int V = Config::VECTOR;
    static constexpr int SWEEPS = 1;
    static __device__ __forceinline__ constexpr bool keeps([[maybe_unused]] int sweep) { return false; }
    // What is read of one row.
    struct Fetched {
        u32 _keep;
    };

    const Arguments& arguments;
    const sm80::Problem& problem;
    const sm80::Work& work;
    const int n;  // this lane's first column

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::Work& work, int column)
        : arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          n(work.n + column) {
    }

    __device__ __forceinline__ Fetched fetch(Sweep<0>, int m) const {
        Fetched fetched;
        fetched._keep = load_bits<V>(arguments._keep, work.batch, m, n, problem.m, problem.n);
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<0>, int m, int row, const f32 (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = packed_(Real(accum[0][v]), (fetched._keep >> v & 1) != 0);
        }
        {
            Pack<f16, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<f16>(values[v]._t1);
            store<V>(arguments.output0, x, work.batch, m, n, problem.m, problem.n);
        }
        {
            bool x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t2;
            store_bits<V>(arguments.output1, x, work.batch, m, n, problem.m, problem.n);
        }
    }

    __device__ __forceinline__ void finish_sweep(Sweep<0>) {
    }

    __device__ __forceinline__ void finish() {
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(128, 1) packed_f16_128x128(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm80::gemm<epilogue::Config, epilogue::Visitor>(parameters);
}
