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

// What `typed` stores or reduces of one element.
struct Values {
    float _t3;
    bool _keep;
    i32 _place;
};

// `typed` of one element.
__device__ __forceinline__ Values typed_(const float accum, const bool mask, const bool padding, const i32 labels, const i32 names, const i32 row, const i32 column, const i32 columns) {
    const float names_2 = float(names);
    const bool keep = (mask && !padding) || column == labels;
    const float t3 = keep ? accum : names_2;
    const i32 place = math::max(columns - row, names);
    return {t3, keep, place};
}

struct Arguments {
    TensorView<boolean> _mask;                // mask
    VectorView<boolean> _padding;             // padding
    VectorView<i32> _labels;                  // labels
    VectorView<i32> _names;                   // names
    TensorView<f16> output0;                  // output d
    TensorView<boolean> output1;              // output keep
    TensorView<i32> output2;                  // output place
};
static_assert(sizeof(Arguments) == 232, "as the host fills it");

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
        Pack<boolean, V> _mask;
        i32 _labels;
    };

    const Arguments& arguments;
    const sm80::Problem& problem;
    const sm80::Work& work;
    const int n;  // this lane's first column
    bool _padding[V];
    i32 _names[V];

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::Work& work, int column)
        : arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          n(work.n + column) {
#pragma unroll
        for (int v = 0; v < V; ++v)
            _padding[v] = widen<bool>(load(arguments._padding, work.batch, n + v, problem.n));
#pragma unroll
        for (int v = 0; v < V; ++v)
            _names[v] = widen<i32>(load(arguments._names, work.batch, n + v, problem.n));
    }

    __device__ __forceinline__ Fetched fetch(Sweep<0>, int m) const {
        Fetched fetched;
        fetched._mask = load<V>(arguments._mask, work.batch, m, n, problem.m, problem.n);
        fetched._labels = load(arguments._labels, work.batch, m, problem.m);
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<0>, int m, int row, const f32 (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = typed_(Real(accum[0][v]), widen<bool>(fetched._mask.value[v]), _padding[v], widen<i32>(fetched._labels), _names[v], m, n + v, problem.n);
        }
        {
            Pack<f16, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<f16>(values[v]._t3);
            store<V>(arguments.output0, x, work.batch, m, n, problem.m, problem.n);
        }
        {
            Pack<boolean, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<boolean>(values[v]._keep);
            store<V>(arguments.output1, x, work.batch, m, n, problem.m, problem.n);
        }
        {
            Pack<i32, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<i32>(values[v]._place);
            store<V>(arguments.output2, x, work.batch, m, n, problem.m, problem.n);
        }
    }

    __device__ __forceinline__ void finish_sweep(Sweep<0>) {
    }

    __device__ __forceinline__ void finish() {
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(128, 1) typed_f16_128x128(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm80::gemm<epilogue::Config, epilogue::Visitor>(parameters);
}
