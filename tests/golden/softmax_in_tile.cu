namespace epilogue {

using Real = float;

struct Config {
    using A = bf16;
    using B = bf16;
    static constexpr sm80::Arithmetic ARITHMETIC = sm80::Arithmetic::BF16;
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

// What `softmax` stores or reduces of one element, in sweep 0.
struct Values0 {
    float _x;
};

// `softmax` of one element, in sweep 0.
__device__ __forceinline__ Values0 softmax_0_(const float accum, const float mask) {
    const float x = accum + mask;
    return {x};
}

// What `softmax` stores or reduces of one element, in sweep 1.
struct Values1 {
    float _e;
};

// `softmax` of one element, in sweep 1.
__device__ __forceinline__ Values1 softmax_1_(const float x, const float most) {
    const float e = math::exp(x - most);
    return {e};
}

// What `softmax` stores or reduces of one element, in sweep 2.
struct Values2 {
    float _t1;
};

// `softmax` of one element, in sweep 2.
__device__ __forceinline__ Values2 softmax_2_(const float e, const float sum) {
    const float t1 = math::approx8::div(e, sum);
    return {t1};
}

struct Arguments {
    TensorView<bf16> _mask;                   // mask
    TensorView<bf16> output0;                 // output d
};
static_assert(sizeof(Arguments) == 80, "as the host fills it");

struct Parameters {
    sm80::Common<Config> common;
    Arguments arguments;
};
static_assert(sizeof(sm80::Common<Config>) == 128, "as the host fills it");

// Feeds the function of one element with rows of the tile; see sm80/epilogue.cuh.
struct Visitor {
    static constexpr int V = Config::VECTOR;
    static constexpr int SWEEPS = 3;
    static __device__ __forceinline__ constexpr bool keeps([[maybe_unused]] int sweep) { return sweep == 0 || sweep == 1; }
    // What is read of one row.
    struct Fetched0 {
        Pack<bf16, V> _mask;
    };

    // What is read of one row.
    struct Fetched1 {
    };

    // What is read of one row.
    struct Fetched2 {
    };

    const Arguments& arguments;
    const sm80::Problem& problem;
    const sm80::Work& work;
    const int n;  // this lane's first column
    sm80::RowReduction<Config, ReduceMax, Real, 1> _most;
    sm80::RowReduction<Config, ReduceAdd, Real, 2> _sum;

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::Work& work, int column)
        : arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          n(work.n + column) {
    }

    __device__ __forceinline__ Fetched0 fetch(Sweep<0>, int m) const {
        Fetched0 fetched;
        fetched._mask = load<V>(arguments._mask, work.batch, m, n, problem.m, problem.n);
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<0>, int m, int row, f32 (&accum)[Config::ACCUMULATORS][V], const Fetched0& fetched) {
        Values0 values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = softmax_0_(Real(accum[0][v]), widen<Real>(fetched._mask.value[v]));
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._x;
            _most.add(row, x, m < problem.m, problem.n - n);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) accum[0][v] = to_register<f32>(values[v]._x);
    }

    __device__ __forceinline__ void finish_sweep(Sweep<0>) {
        _most.finish_warp();
    }

    __device__ __forceinline__ Fetched1 fetch(Sweep<1>, int m) const {
        Fetched1 fetched;
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<1>, int m, int row, f32 (&accum)[Config::ACCUMULATORS][V], const Fetched1& fetched) {
        Values1 values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = softmax_1_(from_register<Real>(accum[0][v]), narrow<Real>(_most.of_tile(row)));
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._e;
            _sum.add(row, x, m < problem.m, problem.n - n);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) accum[0][v] = to_register<f32>(values[v]._e);
    }

    __device__ __forceinline__ void finish_sweep(Sweep<1>) {
        _sum.finish_warp();
    }

    __device__ __forceinline__ Fetched2 fetch(Sweep<2>, int m) const {
        Fetched2 fetched;
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<2>, int m, int row, const f32 (&accum)[Config::ACCUMULATORS][V], const Fetched2& fetched) {
        Values2 values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = softmax_2_(from_register<Real>(accum[0][v]), narrow<Real>(_sum.of_tile(row)));
        }
        {
            Pack<bf16, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<bf16>(values[v]._t1);
            store<V>(arguments.output0, x, work.batch, m, n, problem.m, problem.n);
        }
    }

    __device__ __forceinline__ void finish_sweep(Sweep<2>) {
    }

    __device__ __forceinline__ void finish() {
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(128, 1) softmax_bf16_128x128(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm80::gemm<epilogue::Config, epilogue::Visitor>(parameters);
}
