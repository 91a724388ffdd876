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

// The operations that are made of others.
namespace ops {
__device__ __forceinline__ float gelu(float x) {
    const float y = math::max(x, -100.0f);
    const float half = 0.5f * y;
    return half + half * math::erf(y * 0.70710677f);
}
}  // namespace ops

// What `everything` stores or reduces of one element.
struct Values {
    float _x;
    float _t2;
    float _y;
};

// `everything` of one element.
__device__ __forceinline__ Values everything_(const float accum, const float bias, const float scale, const float residual, const float gain) {
    const float x = accum * scale + bias;
    const float y = ops::gelu(x) * gain;
    const float t2 = y + residual;
    return {x, t2, y};
}

struct Arguments {
    VectorView<f16> _bias;                    // bias
    VectorView<f32> _scale;                   // scale
    TensorView<f16> _residual;                // residual
    ScalarView<f32> _gain;                    // gain
    TensorView<f32> output0;                  // output pre
    TensorView<f16> output1;                  // output residual
    VectorView<f32> output2;                  // output sums
    VectorView<f32> output3;                  // output most
    ScalarView<f32> output4;                  // output all
    TensorView<f32> output5;                  // output partial
    f32* partials2;                           // of sums, in the workspace
    f32* partials3;                           // of most, in the workspace
    f32* partials4;                           // of all, in the workspace
    u32* counters_row;                        // in the workspace, 0 between launches
    u32* counters_column;                     // in the workspace, 0 between launches
    u32* counters_all;                        // in the workspace, 0 between launches
};
static_assert(sizeof(Arguments) == 336, "as the host fills it");

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
        Pack<f16, V> _residual;
        f32 _scale;
    };

    const Arguments& arguments;
    const sm80::Problem& problem;
    const sm80::Work& work;
    const int n;  // this lane's first column
    Real _bias[V];
    Real _gain;
    sm80::RowReduction<Config, ReduceSumSquares, Real, 2> reduction2;
    sm80::ColumnReduction<Config, ReduceMax, Real, 3> reduction3;
    sm80::AllReduction<Config, ReduceAbsMax, Real, 4> reduction4;
    sm80::RowReduction<Config, ReduceAdd, Real, 5> reduction5;

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::Work& work, int column)
        : arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          n(work.n + column) {
#pragma unroll
        for (int v = 0; v < V; ++v)
            _bias[v] = widen<Real>(load(arguments._bias, work.batch, n + v, problem.n));
        _gain = widen<Real>(load(arguments._gain, work.batch));
    }

    __device__ __forceinline__ Fetched fetch(Sweep<0>, int m) const {
        Fetched fetched;
        fetched._residual = load<V>(arguments._residual, work.batch, m, n, problem.m, problem.n);
        fetched._scale = load(arguments._scale, work.batch, m, problem.m);
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<0>, int m, int row, const f32 (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = everything_(Real(accum[0][v]), _bias[v], widen<Real>(fetched._scale), widen<Real>(fetched._residual.value[v]), _gain);
        }
        {
            Pack<f32, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<f32>(values[v]._x);
            store<V>(arguments.output0, x, work.batch, m, n, problem.m, problem.n);
        }
        {
            Pack<f16, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<f16>(values[v]._t2);
            store<V>(arguments.output1, x, work.batch, m, n, problem.m, problem.n);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t2;
            reduction2.add(row, x, m < problem.m, problem.n - n);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._y;
            reduction3.add(row, x, m < problem.m, problem.n - n);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t2;
            reduction4.add(row, x, m < problem.m, problem.n - n);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._y;
            reduction5.add(row, x, m < problem.m, problem.n - n);
        }
    }

    __device__ __forceinline__ void finish_sweep(Sweep<0>) {
        reduction2.finish_warp();
        reduction3.finish_warp();
        reduction4.finish_warp();
        reduction5.finish_warp();
    }

    __device__ __forceinline__ void finish() {
        __syncthreads();  // every warp's values are in shared memory
        reduction2.store_partials(arguments.partials2, work, problem);
        reduction3.store_partials(arguments.partials3, work, problem);
        reduction4.store_partials(arguments.partials4, work, problem);
        reduction5.store_partials(arguments.output5, work, problem);
        if (last_to_arrive<sm80::Walk<Config>>(arguments.counters_row + (work.batch * problem.tiles_m + work.tile_m), problem.tiles_n)) {
            reduction2.combine(arguments.partials2, arguments.output2, work, problem, false);
        }
        if (last_to_arrive<sm80::Walk<Config>>(arguments.counters_column + (work.batch * problem.tiles_n + work.tile_n), problem.tiles_m)) {
            reduction3.combine(arguments.partials3, arguments.output3, work, problem, false);
        }
        if (last_to_arrive<sm80::Walk<Config>>(arguments.counters_all + (work.batch), problem.tiles_m * problem.tiles_n)) {
            reduction4.combine(arguments.partials4, arguments.output4, work, problem, false);
        }
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(128, 1) everything_f16_128x128(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm80::gemm<epilogue::Config, epilogue::Visitor>(parameters);
}
