namespace epilogue {

using Real = float;

struct Config {
    using Accumulator = f32;
    static constexpr int TILE_M = 128, TILE_N = 128;
    static constexpr int ACCUMULATORS = 1;
    static constexpr int WARP_M = 16, WARP_N = 128;
    static constexpr sm80::SplitK SPLIT_K = sm80::SplitK::None;
    static constexpr int VECTOR = 4;
};

// What `softmax` stores or reduces of one element.
struct Values {
    float _t1;
};

// `softmax` of one element.
__device__ __forceinline__ Values softmax_(const float x, const float most, const float sum) {
    const float e = math::exp(x - most);
    const float t1 = math::approx8::div(e, sum);
    return {t1};
}

struct Arguments {
    TensorView<f32> _x;                       // kept from one phase to the next
    VectorView<f32> _most;                    // kept from one phase to the next
    VectorView<f32> _sum;                     // kept from one phase to the next
    TensorView<bf16> output0;                 // output d
};
static_assert(sizeof(Arguments) == 128, "as the host fills it");

struct Parameters {
    sm80::LaterCommon common;
    Arguments arguments;
};
static_assert(sizeof(sm80::LaterCommon) == 32, "as the host fills it");

// Feeds the function of one element with rows of the tile; see sm80/epilogue.cuh.
struct Visitor {
    static constexpr int V = Config::VECTOR;
    static constexpr int SWEEPS = 1;
    static __device__ __forceinline__ constexpr bool keeps([[maybe_unused]] int sweep) { return false; }
    // What is read of one row.
    struct Fetched {
        Pack<f32, V> _x;
        f32 _most;
        f32 _sum;
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
        fetched._x = load<V>(arguments._x, work.batch, m, n, problem.m, problem.n);
        fetched._most = load(arguments._most, work.batch, m, problem.m);
        fetched._sum = load(arguments._sum, work.batch, m, problem.m);
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<0>, int m, int row, const f32 (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = softmax_(widen<Real>(fetched._x.value[v]), widen<Real>(fetched._most), widen<Real>(fetched._sum));
        }
        {
            Pack<bf16, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<bf16>(values[v]._t1);
            store<V>(arguments.output0, x, work.batch, m, n, problem.m, problem.n);
        }
    }

    __device__ __forceinline__ void finish_sweep(Sweep<0>) {
    }

    __device__ __forceinline__ void finish() {
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(256) softmax_phase_1_bf16(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm80::later<epilogue::Config, epilogue::Visitor>(parameters);
}
