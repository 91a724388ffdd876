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
// `sum of exponentials`.
using Reducer0 = SumOfExponentials<Real, false>;

// What `cross_entropy` stores or reduces of one element.
struct Values {
    float _accum;
    float _t4;
};

// `cross_entropy` of one element.
__device__ __forceinline__ Values cross_entropy_(const float accum, const i64 labels, const i64 column) {
    const float t4 = column == labels ? accum : 0.0f;
    return {accum, t4};
}

struct Arguments {
    VectorView<i64> _labels;                  // labels
    VectorView<f32> output0;                  // output kept from one phase to the next
    VectorView<f32> output1;                  // output kept from one phase to the next
    VectorView<f32> output2;                  // output kept from one phase to the next
    f32* partials0;                           // of kept from one phase to the next, in the workspace
    State<Reducer0>* partials1;               // of kept from one phase to the next, in the workspace
    f32* partials2;                           // of kept from one phase to the next, in the workspace
    u32* counters_row;                        // in the workspace, 0 between launches
};
static_assert(sizeof(Arguments) == 128, "as the host fills it");

// What follows from complete reductions, line by line: the block that completes them computes it.
namespace tail {

// What `cross_entropy` stores or reduces of one element.
struct Values {
    float _t6;
    float _log_sum_exp;
};

// `cross_entropy` of one element.
__device__ __forceinline__ Values cross_entropy_(const float largest, const float sum, const float picked) {
    const float log_sum_exp = largest + math::log(sum);
    const float t6 = log_sum_exp - picked;
    return {t6, log_sum_exp};
}

struct Arguments {
    VectorView<f32> _largest;                 // kept from one phase to the next
    VectorView<f32> _sum;                     // kept from one phase to the next
    VectorView<f32> _picked;                  // kept from one phase to the next
    VectorView<f32> output0;                  // output loss
    VectorView<f32> output1;                  // output log_sum_exp
};
static_assert(sizeof(Arguments) == 120, "as the host fills it");

}  // namespace tail

struct Parameters {
    sm80::Common<Config> common;
    Arguments arguments;
    tail::Arguments of_tail;
};
static_assert(sizeof(sm80::Common<Config>) == 128, "as the host fills it");

// Feeds the function of one element with rows of the tile; see sm80/epilogue.cuh.
struct Visitor {
    static constexpr int V = Config::VECTOR;
    static constexpr int SWEEPS = 1;
    static __device__ __forceinline__ constexpr bool keeps([[maybe_unused]] int sweep) { return false; }
    // What is read of one row.
    struct Fetched {
        i64 _labels;
    };

    const Parameters& parameters;
    const Arguments& arguments;
    const sm80::Problem& problem;
    const sm80::Work& work;
    const int n;  // this lane's first column
    sm80::RowReduction<Config, ReduceMax, Real, 0> reduction0;
    sm80::RowReduction<Config, Reducer0, State<Reducer0>, 1> reduction1;
    sm80::RowReduction<Config, ReduceAdd, Real, 2> reduction2;

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::Work& work, int column)
        : parameters(parameters),
          arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          n(work.n + column) {
    }

    __device__ __forceinline__ Fetched fetch(Sweep<0>, int m) const {
        Fetched fetched;
        fetched._labels = load(arguments._labels, work.batch, m, problem.m);
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<0>, int m, int row, const f32 (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = cross_entropy_(Real(accum[0][v]), widen<i64>(fetched._labels), n + v);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._accum;
            reduction0.add(row, x, m < problem.m, problem.n - n);
        }
        {
            State<Reducer0> x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = Reducer0::of(values[v]._accum);
            reduction1.add(row, x, m < problem.m, problem.n - n);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t4;
            reduction2.add(row, x, m < problem.m, problem.n - n);
        }
    }

    __device__ __forceinline__ void finish_sweep(Sweep<0>) {
        reduction0.finish_warp();
        reduction1.finish_warp();
        reduction2.finish_warp();
    }

    __device__ __forceinline__ void finish() {
        __syncthreads();  // every warp's values are in shared memory
        reduction0.store_partials(arguments.partials0, work, problem);
        reduction1.store_partials(arguments.partials1, work, problem);
        reduction2.store_partials(arguments.partials2, work, problem);
        if (last_to_arrive<sm80::Walk<Config>>(arguments.counters_row + (work.batch * problem.tiles_m + work.tile_m), problem.tiles_n)) {
            reduction0.combine(arguments.partials0, arguments.output0, work, problem, false);
            reduction1.combine(arguments.partials1, arguments.output1, work, problem, false);
            reduction2.combine(arguments.partials2, arguments.output2, work, problem, false);
            using Lines = RowLines<sm80::Walk<Config>>;
            for (int i = sm80::Walk<Config>::thread(); i < Lines::LINES; i += sm80::Walk<Config>::THREADS) {
                const int line = Lines::first(work) + i;
                if (line >= Lines::extent(problem)) break;
                const auto values = tail::cross_entropy_(widen<Real>(load(parameters.of_tail._largest, work.batch, line, Lines::extent(problem))), widen<Real>(load(parameters.of_tail._sum, work.batch, line, Lines::extent(problem))), widen<Real>(load(parameters.of_tail._picked, work.batch, line, Lines::extent(problem))));
                store(parameters.of_tail.output0, narrow<f32>(values._t6), work.batch, line, Lines::extent(problem));
                store(parameters.of_tail.output1, narrow<f32>(values._log_sum_exp), work.batch, line, Lines::extent(problem));
            }
        }
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(128, 1) cross_entropy_bf16_128x128(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm80::gemm<epilogue::Config, epilogue::Visitor>(parameters);
}
