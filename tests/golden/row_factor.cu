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

// What `row_factor` stores or reduces of one element.
struct Values {
    float _accum;
};

// `row_factor` of one element.
__device__ __forceinline__ Values row_factor_(const float accum) {
    return {accum};
}

struct Arguments {
    TensorView<bf16> output0;                 // output d
    VectorView<f32> output1;                  // output kept from one phase to the next
    f32* partials1;                           // of kept from one phase to the next, in the workspace
    u32* counters_row;                        // in the workspace, 0 between launches
};
static_assert(sizeof(Arguments) == 80, "as the host fills it");

// What follows from complete reductions, line by line: the block that completes them computes it.
namespace tail {

// What `row_factor` stores or reduces of one element.
struct Values {
    float _factor;
};

// `row_factor` of one element.
__device__ __forceinline__ Values row_factor_(const float epsilon, const float squares, const i32 columns) {
    const float factor = math::rsqrt(squares / float(columns) + epsilon);
    return {factor};
}

struct Arguments {
    VectorView<f32> _squares;                 // kept from one phase to the next
    VectorView<f32> output0;                  // output factor
    f32 _epsilon;                             // epsilon
};
static_assert(sizeof(Arguments) == 56, "as the host fills it");

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
    };

    const Parameters& parameters;
    const Arguments& arguments;
    const sm80::Problem& problem;
    const sm80::Work& work;
    const int n;  // this lane's first column
    sm80::RowReduction<Config, ReduceSumSquares, Real, 1> reduction1;

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm80::Work& work, int column)
        : parameters(parameters),
          arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          n(work.n + column) {
    }

    __device__ __forceinline__ Fetched fetch(Sweep<0>, int m) const {
        Fetched fetched;
        return fetched;
    }

    __device__ __forceinline__ void visit(Sweep<0>, int m, int row, const f32 (&accum)[Config::ACCUMULATORS][V], const Fetched& fetched) {
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            values[v] = row_factor_(Real(accum[0][v]));
        }
        {
            Pack<bf16, V> x;
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[v] = narrow<bf16>(values[v]._accum);
            store<V>(arguments.output0, x, work.batch, m, n, problem.m, problem.n);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._accum;
            reduction1.add(row, x, m < problem.m, problem.n - n);
        }
    }

    __device__ __forceinline__ void finish_sweep(Sweep<0>) {
        reduction1.finish_warp();
    }

    __device__ __forceinline__ void finish() {
        __syncthreads();  // every warp's values are in shared memory
        reduction1.store_partials(arguments.partials1, work, problem);
        if (last_to_arrive<sm80::Walk<Config>>(arguments.counters_row + (work.batch * problem.tiles_m + work.tile_m), problem.tiles_n)) {
            reduction1.combine(arguments.partials1, arguments.output1, work, problem, false);
            using Lines = RowLines<sm80::Walk<Config>>;
            for (int i = sm80::Walk<Config>::thread(); i < Lines::LINES; i += sm80::Walk<Config>::THREADS) {
                const int line = Lines::first(work) + i;
                if (line >= Lines::extent(problem)) break;
                const auto values = tail::row_factor_(parameters.of_tail._epsilon, widen<Real>(load(parameters.of_tail._squares, work.batch, line, Lines::extent(problem))), problem.n);
                store(parameters.of_tail.output0, narrow<f32>(values._factor), work.batch, line, Lines::extent(problem));
            }
        }
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(128, 1) row_factor_bf16_128x128(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm80::gemm<epilogue::Config, epilogue::Visitor>(parameters);
}
