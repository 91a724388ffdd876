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
    static constexpr int CLUSTER_M = 2;
    static constexpr int CLUSTER_N = 1;
    static constexpr int CLUSTER_ROWS = 2;
    static constexpr int CLUSTER_COLUMNS = 1;
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
    static constexpr int OUTPUT_STAGE_BYTES = 14336;
    static constexpr int AUX_STAGE_BYTES = 2048;
    static constexpr int AUX_TX_BYTES = 2048;
    static constexpr int A_OFFSET = 0;
    static constexpr int B_OFFSET = 65536;
    static constexpr int OUTPUT_OFFSET = 98304;
    static constexpr int AUX_OFFSET = 212992;
    static constexpr int VECTOR_OFFSET = 229376;
    static constexpr int REDUCTION_OFFSET = 229888;
    static constexpr int REDUCTION_BYTES = 0;
    static constexpr int EXCHANGE_OFFSET = 229888;
    static constexpr int EXCHANGE_WORDS = 0;
    static constexpr int CONTROL_OFFSET = 229888;
    static constexpr int CONTROL_BYTES = 1024;
    static constexpr int SHARED_BYTES = 230912;
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

// What `typed` stores or reduces of one element.
struct Values {
    float _t3;
    bool _keep;
    i64 _place;
};

// `typed` of one element.
__device__ __forceinline__ Values typed_(const float accum, const bool mask, const bool padding, const i64 labels, const i64 names, const i64 row, const i64 column, const i64 columns) {
    const float names_2 = float(names);
    const bool keep = (mask && !padding) || column == labels;
    const float t3 = keep ? accum : names_2;
    const i64 place = math::max(math::wrapping_sub(columns, row), names);
    return {t3, keep, place};
}

struct Arguments {
    TensorView<boolean> _mask;                // mask
    VectorView<boolean> _padding;             // padding
    VectorView<i64> _labels;                  // labels
    VectorView<i64> _names;                   // names
    TensorView<bf16> output0;                 // output d
    TensorView<boolean> output1;              // output keep
    TensorView<i32> output2;                  // output place
};
static_assert(sizeof(Arguments) == 232, "as the host fills it");

struct Parameters {
    sm90::TensorMap maps[6];
    sm90::Common common;
    Arguments arguments;
};
static_assert(sizeof(sm90::Common) == 128 && sizeof(Parameters) == 1152, "as the host fills it");

// Feeds the function of one element with fragments of the tile; see sm90/epilogue.cuh.
struct Visitor {
    using L = sm90::Lanes<Config>;
    static constexpr int V = L::V;
    static constexpr bool INPUTS = true, OUTPUTS = true;
    static constexpr int VECTORS = 1;
    static constexpr int SWEEPS = 1;
    static __device__ __forceinline__ constexpr u32 inputs_of([[maybe_unused]] int sweep) { return 1u; }
    static __device__ __forceinline__ constexpr bool outputs_of([[maybe_unused]] int sweep) { return true; }
    static __device__ __forceinline__ constexpr bool is_of_lines([[maybe_unused]] int sweep) { return false; }
    static __device__ __forceinline__ constexpr bool keeps([[maybe_unused]] int sweep) { return false; }
    static constexpr int input_at_mask = sm90::aligned(0, sm90::Staged<Config, boolean>::ALIGNMENT);
    static_assert(input_at_mask + sm90::Staged<Config, boolean>::BYTES <= Config::AUX_STAGE_BYTES, "as the host plans");
    static constexpr int output_at0 = sm90::aligned(0, sm90::Staged<Config, bf16>::ALIGNMENT);
    static constexpr int output_at1 = sm90::aligned(output_at0 + sm90::Staged<Config, bf16>::BYTES, sm90::Staged<Config, boolean>::ALIGNMENT);
    static constexpr int output_at2 = sm90::aligned(output_at1 + sm90::Staged<Config, boolean>::BYTES, sm90::Staged<Config, i32>::ALIGNMENT);
    static_assert(output_at2 + sm90::Staged<Config, i32>::BYTES <= Config::OUTPUT_STAGE_BYTES, "as the host plans");

    const Parameters& parameters;
    const Arguments& arguments;
    const sm90::Problem& problem;
    const sm90::Work& work;
    const sm90::Inside inside;
    i64 _labels[sm90::Shape<Config>::RESULT_BLOCKS][2];

    // A bit for every copied input: whether it must be read.
    static __device__ __forceinline__ u32 needed(const Parameters& parameters) {
        [[maybe_unused]] const Arguments& arguments = parameters.arguments;
        if (parameters.common.problem.m == 0 || parameters.common.problem.n == 0) return 0;
        return 1u;
    }

    static __device__ __forceinline__ void clear_inputs(u32 needed, int stage) {
        if (!(needed >> 0 & 1)) sm90::Staged<Config, boolean>::clear(stage + input_at_mask);
    }

    static __device__ __forceinline__ u32 input_bytes(u32 needed) {
        u32 bytes = 0;
        if (needed >> 0 & 1) bytes += sm90::Staged<Config, boolean>::BYTES;
        return bytes;
    }

    static __device__ __forceinline__ void load_inputs(const Parameters& parameters, u32 needed,
                                                       const sm90::Work& work, int row, int column, int stage,
                                                       u32 full) {
        if (needed >> 0 & 1)
            sm90::Staged<Config, boolean>::load_boxes(stage + input_at_mask, parameters.maps[2], full, work, row, column, parameters.arguments._mask.batch);
    }

    static __device__ __forceinline__ void fill_vectors(const Parameters& parameters, const sm90::Work& work,
                                                        int team) {
        [[maybe_unused]] const Arguments& arguments = parameters.arguments;
        using Vectors = sm90::StagedVectors<Config, VECTORS>;
        Vectors::fill<i32>(team, 0, arguments._padding, work, parameters.common.problem, true);
    }

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm90::Work& work)
        : parameters(parameters),
          arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          inside{parameters.common.problem.m - work.m, parameters.common.problem.n - work.n} {
#pragma unroll
        for (int block = 0; block < sm90::Shape<Config>::RESULT_BLOCKS; ++block)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                _labels[block][half] = widen<i64>(load(arguments._labels, work.batch, work.m + L::row(block, half), problem.m));
    }

    __device__ __forceinline__ void visit(Sweep<0>,
                                          const Config::Accumulator (&accum)[Config::ACCUMULATORS][V], int block,
                                          int column, int in_step, int inputs, int outputs) {
        boolean _mask[V];
        sm90::Staged<Config, boolean>::load(inputs + input_at_mask, in_step, _mask);
        i32 _padding[L::COLUMNS];
        sm90::StagedVectors<Config, VECTORS>::load(0, column, _padding);
        i64 _names[L::COLUMNS];
        sm90::load_entries<Config>(arguments._names, work, problem, column, _names);
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = typed_(Real(accum[0][v]), widen<bool>(_mask[v]), _padding[L::column_index(v)], _labels[block][L::half(v)], widen<i64>(_names[L::column_index(v)]), work.m + L::row(block, L::half(v)), work.n + L::column(column, L::column_index(v)), problem.n);
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t3;
            sm90::Staged<Config, bf16>::store(outputs + output_at0, in_step, x);
        }
        {
            bool x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._keep;
            sm90::Staged<Config, boolean>::store(outputs + output_at1, in_step, x);
        }
        {
            i64 x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._place;
            sm90::Staged<Config, i32>::store(outputs + output_at2, in_step, x);
        }
    }

    __device__ __forceinline__ void store_outputs(Sweep<0>, int row, int column, int stage) const {
        if (problem.m == 0 || problem.n == 0) return;  // nor are there tensor maps
        sm90::Staged<Config, bf16>::store_boxes(stage + output_at0, parameters.maps[3], work, row, column, arguments.output0.batch);
        sm90::Staged<Config, boolean>::store_boxes(stage + output_at1, parameters.maps[4], work, row, column, arguments.output1.batch);
        sm90::Staged<Config, i32>::store_boxes(stage + output_at2, parameters.maps[5], work, row, column, arguments.output2.batch);
    }

    __device__ __forceinline__ void finish_block(Sweep<0>, int block) {
    }

    __device__ __forceinline__ void finish() {
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(384, 1) typed_bf16_128x64(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm90::Gemm<epilogue::Config, epilogue::Multiply, epilogue::Visitor, epilogue::Parameters>::run(parameters);
}
