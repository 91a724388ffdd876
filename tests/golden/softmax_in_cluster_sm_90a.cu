namespace epilogue {

using Real = float;

struct Config {
    using Accumulator = f32;
    static constexpr sm90::Schedule SCHEDULE = sm90::Schedule::Cooperative;
    static constexpr sm90::Major A_MAJOR = sm90::Major::K;
    static constexpr sm90::Major B_MAJOR = sm90::Major::K;
    static constexpr sm90::SplitK SPLIT_K = sm90::SplitK::None;
    static constexpr sm90::Hint A_HINT = sm90::Hint::Normal;
    static constexpr sm90::Hint B_HINT = sm90::Hint::Normal;
    static constexpr sm90::Hint OUTPUT_HINT = sm90::Hint::Normal;
    static constexpr bool SPLIT_COLUMNS = false;
    static constexpr bool SWAP_AB = false;
    static constexpr bool RASTER_N = false;
    static constexpr bool PROMOTE = false;
    static constexpr bool DEPENDENT_LAUNCH = false;
    static constexpr int TILE_M = 128;
    static constexpr int TILE_N = 64;
    static constexpr int MMA_ROWS = 128;
    static constexpr int MMA_COLUMNS = 64;
    static constexpr int ACCUMULATORS = 1;
    static constexpr int TILE_K = 64;
    static constexpr int A_ELEMENT_BYTES = 2;
    static constexpr int B_ELEMENT_BYTES = 2;
    static constexpr int CONSUMERS = 2;
    static constexpr int WG_ROWS = 64;
    static constexpr int WG_COLUMNS = 64;
    static constexpr int STAGES = 4;
    static constexpr int PENDING = 1;
    static constexpr int CLUSTER_M = 1;
    static constexpr int CLUSTER_N = 4;
    static constexpr int CLUSTER_ROWS = 1;
    static constexpr int CLUSTER_COLUMNS = 4;
    static constexpr int PRODUCER_REGISTERS = 40;
    static constexpr int CONSUMER_REGISTERS = 232;
    static constexpr int GROUP = 8;
    static constexpr int STEP = 32;
    static constexpr int EPILOGUE_ROUNDS = 1;
    static constexpr int OUTPUT_STAGES = 4;
    static constexpr int AUX_STAGES = 4;
    static constexpr int A_STAGE_BYTES = 16384;
    static constexpr int B_STAGE_BYTES = 8192;
    static constexpr int STAGE_TX_BYTES = 24576;
    static constexpr int OUTPUT_STAGE_BYTES = 4096;
    static constexpr int AUX_STAGE_BYTES = 4096;
    static constexpr int AUX_TX_BYTES = 4096;
    static constexpr int A_OFFSET = 0;
    static constexpr int B_OFFSET = 65536;
    static constexpr int OUTPUT_OFFSET = 98304;
    static constexpr int AUX_OFFSET = 131072;
    static constexpr int VECTOR_OFFSET = 163840;
    static constexpr int REDUCTION_OFFSET = 163840;
    static constexpr int REDUCTION_BYTES = 0;
    static constexpr int EXCHANGE_OFFSET = 163840;
    static constexpr int EXCHANGE_WORDS = 1;
    static constexpr int CONTROL_OFFSET = 166016;
    static constexpr int CONTROL_BYTES = 1024;
    static constexpr int SHARED_BYTES = 167040;
    static constexpr int THREADS = 384;
};

// wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16: d = a · b, added to d where `accumulate` is not 0.
struct Multiply {
    static __device__ __forceinline__ void run(float (&d)[32], u64 a, u64 b, int accumulate) {
        asm volatile(
            "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %34, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, "
            "%8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, "
            "%24, %25, %26, %27, %28, %29, %30, %31}, "
            "%32, %33, accumulate, 1, 1, 0, 0;\n}\n"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
              "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
              "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
              "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
            : "l"(a), "l"(b), "r"(accumulate));
    }
};

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
    sm90::TensorMap maps[4];
    sm90::Common common;
    Arguments arguments;
};
static_assert(sizeof(sm90::Common) == 128 && sizeof(Parameters) == 768, "as the host fills it");

// Feeds the function of one element with fragments of the tile; see sm90/epilogue.cuh.
struct Visitor {
    using L = sm90::Lanes<Config>;
    static constexpr int V = L::V;
    static constexpr bool INPUTS = true, OUTPUTS = true;
    static constexpr int VECTORS = 0;
    static constexpr int SWEEPS = 3;
    static __device__ __forceinline__ constexpr u32 inputs_of([[maybe_unused]] int sweep) { return sweep == 0 ? 1u : sweep == 1 ? 0u : 0u; }
    static __device__ __forceinline__ constexpr bool outputs_of([[maybe_unused]] int sweep) { return sweep == 0 ? false : sweep == 1 ? false : true; }
    static __device__ __forceinline__ constexpr bool is_of_lines([[maybe_unused]] int sweep) { return sweep == 0 ? false : sweep == 1 ? false : false; }
    static __device__ __forceinline__ constexpr bool keeps([[maybe_unused]] int sweep) { return sweep == 0 ? true : sweep == 1 ? true : false; }
    static constexpr int input_at_mask = sm90::aligned(0, sm90::Staged<Config, bf16>::ALIGNMENT);
    static_assert(input_at_mask + sm90::Staged<Config, bf16>::BYTES <= Config::AUX_STAGE_BYTES, "as the host plans");
    static constexpr int output_at0 = sm90::aligned(0, sm90::Staged<Config, bf16>::ALIGNMENT);
    static_assert(output_at0 + sm90::Staged<Config, bf16>::BYTES <= Config::OUTPUT_STAGE_BYTES, "as the host plans");

    const Parameters& parameters;
    const Arguments& arguments;
    const sm90::Problem& problem;
    const sm90::Work& work;
    const sm90::Inside inside;
    sm90::LineInCluster<Config, ReduceMax, Real, Real> _most;
    sm90::LineInCluster<Config, ReduceAdd, Real, Real> _sum;

    // A bit for every copied input: whether it must be read.
    static __device__ __forceinline__ u32 needed(const Parameters& parameters) {
        [[maybe_unused]] const Arguments& arguments = parameters.arguments;
        if (parameters.common.problem.m == 0 || parameters.common.problem.n == 0) return 0;
        return 1u;
    }

    static __device__ __forceinline__ void clear_inputs(u32 needed, int stage) {
        if (!(needed >> 0 & 1)) sm90::Staged<Config, bf16>::clear(stage + input_at_mask);
    }

    static __device__ __forceinline__ u32 input_bytes(u32 needed) {
        u32 bytes = 0;
        if (needed >> 0 & 1) bytes += sm90::Staged<Config, bf16>::BYTES;
        return bytes;
    }

    static __device__ __forceinline__ void load_inputs(const Parameters& parameters, u32 needed,
                                                       const sm90::Work& work, int row, int column, int stage,
                                                       u32 full) {
        if (needed >> 0 & 1)
            sm90::Staged<Config, bf16>::load_boxes(stage + input_at_mask, parameters.maps[2], full, work, row, column, parameters.arguments._mask.batch);
    }

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm90::Work& work)
        : parameters(parameters),
          arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          inside{parameters.common.problem.m - work.m, parameters.common.problem.n - work.n} {
    }

    __device__ __forceinline__ void visit(Sweep<0>,
                                          Config::Accumulator (&accum)[Config::ACCUMULATORS][V], int block,
                                          int column, int in_step, int inputs, int outputs) {
        bf16 _mask[V];
        sm90::Staged<Config, bf16>::load(inputs + input_at_mask, in_step, _mask);
        Values0 values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = softmax_0_(Real(accum[0][v]), widen<Real>(_mask[v]));
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._x;
            _most.add(block, column, x, inside);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) accum[0][v] = to_register<Config::Accumulator>(values[v]._x);
    }

    __device__ __forceinline__ void finish_block(Sweep<0>, int block) {
        _most.finish_block(block);
    }

    __device__ __forceinline__ void exchange(Sweep<0>, u32& parity) {
        sm90::Exchange<Config>::run(parity, work, problem, _most);
    }
    __device__ __forceinline__ void visit(Sweep<1>,
                                          Config::Accumulator (&accum)[Config::ACCUMULATORS][V], int block,
                                          int column, int in_step, int inputs, int outputs) {
        Values1 values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = softmax_1_(from_register<Real>(accum[0][v]), _most.result[L::half(v)]);
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._e;
            _sum.add(block, column, x, inside);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) accum[0][v] = to_register<Config::Accumulator>(values[v]._e);
    }

    __device__ __forceinline__ void finish_block(Sweep<1>, int block) {
        _sum.finish_block(block);
    }

    __device__ __forceinline__ void exchange(Sweep<1>, u32& parity) {
        sm90::Exchange<Config>::run(parity, work, problem, _sum);
    }
    __device__ __forceinline__ void visit(Sweep<2>,
                                          const Config::Accumulator (&accum)[Config::ACCUMULATORS][V], int block,
                                          int column, int in_step, int inputs, int outputs) {
        Values2 values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = softmax_2_(from_register<Real>(accum[0][v]), _sum.result[L::half(v)]);
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t1;
            sm90::Staged<Config, bf16>::store(outputs + output_at0, in_step, x);
        }
    }

    __device__ __forceinline__ void store_outputs(Sweep<2>, int row, int column, int stage) const {
        if (problem.m == 0 || problem.n == 0) return;  // nor are there tensor maps
        sm90::Staged<Config, bf16>::store_boxes(stage + output_at0, parameters.maps[3], work, row, column, arguments.output0.batch);
    }

    __device__ __forceinline__ void finish_block(Sweep<2>, int block) {
    }

    __device__ __forceinline__ void exchange(Sweep<2>, u32& parity) {
        sm90::Exchange<Config>::run(parity, work, problem);
    }
    __device__ __forceinline__ void finish() {
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(384, 1) softmax_bf16_128x64(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm90::Gemm<epilogue::Config, epilogue::Multiply, epilogue::Visitor, epilogue::Parameters>::run(parameters);
}
