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

// What `cross_entropy` stores or reduces of one element.
struct Values {
    float _t1;
};

// `cross_entropy` of one element.
__device__ __forceinline__ Values cross_entropy_(const float accum, const float largest) {
    const float t1 = math::exp(accum - largest);
    return {t1};
}

struct Arguments {
    TensorView<f32> _accum;                   // kept from one phase to the next
    VectorView<f32> _largest;                 // kept from one phase to the next
    VectorView<f32> output0;                  // output kept from one phase to the next
    f32* partials0;                           // of kept from one phase to the next, in the workspace
    u32* counters_row;                        // in the workspace, 0 between launches
};
static_assert(sizeof(Arguments) == 104, "as the host fills it");

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
    VectorView<bf16> output0;                 // output loss
    VectorView<f32> output1;                  // output log_sum_exp
};
static_assert(sizeof(Arguments) == 120, "as the host fills it");

}  // namespace tail

struct Parameters {
    sm80::LaterCommon common;
    Arguments arguments;
    tail::Arguments of_tail;
};
static_assert(sizeof(sm80::LaterCommon) == 32, "as the host fills it");

// Feeds the function of one element with rows of the tile; see sm80/epilogue.cuh.
struct Visitor {
    static constexpr int V = Config::VECTOR;
    static constexpr int SWEEPS = 1;
    static __device__ __forceinline__ constexpr bool keeps([[maybe_unused]] int sweep) { return false; }
    // What is read of one row.
    struct Fetched {
        Pack<f32, V> _accum;
        f32 _largest;
    };

    const Parameters& parameters;
    const Arguments& arguments;
    const sm80::Problem& problem;
    const sm80::Work& work;
    const int n;  // this lane's first column
    sm80::RowReduction<Config, ReduceAdd, Real, 0> reduction0;

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::Work& work, int column)
        : parameters(parameters),
          arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          n(work.n + column) {
    }

    __device__ __forceinline__ Fetched fetch(Sweep<0>, int m) const {
        Fetched fetched;
        fetched._accum = load<V>(arguments._accum, work.batch, m, n, problem.m, problem.n);
        fetched._largest = load(arguments._largest, work.batch, m, problem.m);
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<0>, int m, int row, const f32 (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = cross_entropy_(widen<Real>(fetched._accum.value[v]), widen<Real>(fetched._largest));
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t1;
            reduction0.add(row, x, m < problem.m, problem.n - n);
        }
    }

    __device__ __forceinline__ void finish_sweep(Sweep<0>) {
        reduction0.finish_warp();
    }

    __device__ __forceinline__ void finish() {
        __syncthreads();  // every warp's values are in shared memory
        reduction0.store_partials(arguments.partials0, work, problem);
        if (last_to_arrive<sm80::Walk<Config>>(arguments.counters_row + (work.batch * problem.tiles_m + work.tile_m), problem.tiles_n)) {
            reduction0.combine(arguments.partials0, arguments.output0, work, problem, false);
            using Lines = RowLines<sm80::Walk<Config>>;
            for (int i = sm80::Walk<Config>::thread(); i < Lines::LINES; i += sm80::Walk<Config>::THREADS) {
                const int line = Lines::first(work) + i;
                if (line >= Lines::extent(problem)) break;
                const auto values = tail::cross_entropy_(widen<Real>(load(parameters.of_tail._largest, work.batch, line, Lines::extent(problem))), widen<Real>(load(parameters.of_tail._sum, work.batch, line, Lines::extent(problem))), widen<Real>(load(parameters.of_tail._picked, work.batch, line, Lines::extent(problem))));
                store(parameters.of_tail.output0, narrow<bf16>(values._t6), work.batch, line, Lines::extent(problem));
                store(parameters.of_tail.output1, narrow<f32>(values._log_sum_exp), work.batch, line, Lines::extent(problem));
            }
        }
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(256) cross_entropy_phase_1_bf16(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm80::later<epilogue::Config, epilogue::Visitor>(parameters);
}
