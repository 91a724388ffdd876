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
    static constexpr bool SWAP_AB = true;
    static constexpr bool RASTER_N = false;
    static constexpr bool PROMOTE = false;
    static constexpr bool DEPENDENT_LAUNCH = false;
    static constexpr int TILE_M = 64;
    static constexpr int TILE_N = 128;
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
    static constexpr int CLUSTER_ROWS = 1;
    static constexpr int CLUSTER_COLUMNS = 2;
    static constexpr int PRODUCER_REGISTERS = 40;
    static constexpr int CONSUMER_REGISTERS = 232;
    static constexpr int GROUP = 8;
    static constexpr int STEP = 32;
    static constexpr int EPILOGUE_ROUNDS = 1;
    static constexpr int OUTPUT_STAGES = 4;
    static constexpr int AUX_STAGES = 2;
    static constexpr int A_STAGE_BYTES = 16384;
    static constexpr int B_STAGE_BYTES = 8192;
    static constexpr int STAGE_TX_BYTES = 24576;
    static constexpr int OUTPUT_STAGE_BYTES = 12288;
    static constexpr int AUX_STAGE_BYTES = 4096;
    static constexpr int AUX_TX_BYTES = 4096;
    static constexpr int A_OFFSET = 0;
    static constexpr int B_OFFSET = 65536;
    static constexpr int OUTPUT_OFFSET = 98304;
    static constexpr int AUX_OFFSET = 196608;
    static constexpr int VECTOR_OFFSET = 212992;
    static constexpr int REDUCTION_OFFSET = 213248;
    static constexpr int REDUCTION_BYTES = 4640;
    static constexpr int EXCHANGE_OFFSET = 217984;
    static constexpr int EXCHANGE_WORDS = 0;
    static constexpr int CONTROL_OFFSET = 217984;
    static constexpr int CONTROL_BYTES = 1024;
    static constexpr int SHARED_BYTES = 219008;
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
    VectorView<bf16> _bias;                   // bias
    VectorView<f32> _scale;                   // scale
    TensorView<bf16> _residual;               // residual
    ScalarView<f32> _gain;                    // gain
    TensorView<f32> output0;                  // output pre
    TensorView<bf16> output1;                 // output residual
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
    sm90::TensorMap maps[5];
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
    static constexpr int input_at_residual = sm90::aligned(0, sm90::Staged<Config, bf16>::ALIGNMENT);
    static_assert(input_at_residual + sm90::Staged<Config, bf16>::BYTES <= Config::AUX_STAGE_BYTES, "as the host plans");
    static constexpr int output_at0 = sm90::aligned(0, sm90::Staged<Config, f32>::ALIGNMENT);
    static constexpr int output_at1 = sm90::aligned(output_at0 + sm90::Staged<Config, f32>::BYTES, sm90::Staged<Config, bf16>::ALIGNMENT);
    static_assert(output_at1 + sm90::Staged<Config, bf16>::BYTES <= Config::OUTPUT_STAGE_BYTES, "as the host plans");
    static constexpr int reduction_at2 = Config::REDUCTION_OFFSET;
    using Reduction2 = sm90::PerColumn<Config, ReduceSumSquares, Real, reduction_at2>;
    static constexpr int reduction_at3 = reduction_at2 + Reduction2::BYTES;
    using Reduction3 = sm90::PerRow<Config, ReduceMax, Real, reduction_at3>;
    static constexpr int reduction_at4 = reduction_at3 + Reduction3::BYTES;
    using Reduction4 = sm90::PerMatrix<Config, ReduceAbsMax, Real, reduction_at4>;
    static constexpr int reduction_at5 = reduction_at4 + Reduction4::BYTES;
    using Reduction5 = sm90::PerColumn<Config, ReduceAdd, Real, reduction_at5>;
    static_assert(reduction_at5 + Reduction5::BYTES <= Config::REDUCTION_OFFSET + Config::REDUCTION_BYTES, "as the host plans");
    using Walk = sm90::Walk<Config, sm90::Control<Config>::WORDS>;

    const Parameters& parameters;
    const Arguments& arguments;
    const sm90::Problem& problem;
    const sm90::Work& work;
    const sm90::Inside inside;
    Real _bias[sm90::Shape<Config>::RESULT_BLOCKS][2];
    Real _gain;
    Reduction2 reduction2;
    Reduction3 reduction3;
    Reduction4 reduction4;
    Reduction5 reduction5;

    // A bit for every copied input: whether it must be read.
    static __device__ __forceinline__ u32 needed(const Parameters& parameters) {
        [[maybe_unused]] const Arguments& arguments = parameters.arguments;
        if (parameters.common.problem.m == 0 || parameters.common.problem.n == 0) return 0;
        return 1u;
    }

    static __device__ __forceinline__ void clear_inputs(u32 needed, int stage) {
        if (!(needed >> 0 & 1)) sm90::Staged<Config, bf16>::clear(stage + input_at_residual);
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
            sm90::Staged<Config, bf16>::load_boxes(stage + input_at_residual, parameters.maps[2], full, work, row, column, parameters.arguments._residual.batch);
    }

    static __device__ __forceinline__ void fill_vectors(const Parameters& parameters, const sm90::Work& work,
                                                        int team) {
        [[maybe_unused]] const Arguments& arguments = parameters.arguments;
        using Vectors = sm90::StagedVectors<Config, VECTORS>;
        Vectors::fill<float>(team, 0, arguments._scale, work, parameters.common.problem, true);
    }

    __device__ __forceinline__ Visitor(const Parameters& parameters, const sm90::Work& work)
        : parameters(parameters),
          arguments(parameters.arguments),
          problem(parameters.common.problem),
          work(work),
          inside{parameters.common.problem.n - work.n, parameters.common.problem.m - work.m} {
#pragma unroll
        for (int block = 0; block < sm90::Shape<Config>::RESULT_BLOCKS; ++block)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                _bias[block][half] = widen<Real>(load(arguments._bias, work.batch, work.n + L::row(block, half), problem.n));
        _gain = widen<Real>(load(arguments._gain, work.batch));
    }

    __device__ __forceinline__ void visit(Sweep<0>,
                                          const Config::Accumulator (&accum)[Config::ACCUMULATORS][V], int block,
                                          int column, int in_step, int inputs, int outputs) {
        float _scale[L::COLUMNS];
        sm90::StagedVectors<Config, VECTORS>::load(0, column, _scale);
        bf16 _residual[V];
        sm90::Staged<Config, bf16>::load(inputs + input_at_residual, in_step, _residual);
        Values values[V];
#pragma unroll
        for (int v = 0; v < V; ++v) values[v] = everything_(Real(accum[0][v]), _bias[block][L::half(v)], _scale[L::column_index(v)], widen<Real>(_residual[v]), _gain);
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._x;
            sm90::Staged<Config, f32>::store(outputs + output_at0, in_step, x);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t2;
            sm90::Staged<Config, bf16>::store(outputs + output_at1, in_step, x);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t2;
            reduction2.add(block, column, x, inside);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._y;
            reduction3.add(block, column, x, inside);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._t2;
            reduction4.add(block, column, x, inside);
        }
        {
            Real x[V];
#pragma unroll
            for (int v = 0; v < V; ++v) x[v] = values[v]._y;
            reduction5.add(block, column, x, inside);
        }
    }

    __device__ __forceinline__ void store_outputs(Sweep<0>, int row, int column, int stage) const {
        if (problem.m == 0 || problem.n == 0) return;  // nor are there tensor maps
        sm90::Staged<Config, f32>::store_boxes(stage + output_at0, parameters.maps[3], work, row, column, arguments.output0.batch);
        sm90::Staged<Config, bf16>::store_boxes(stage + output_at1, parameters.maps[4], work, row, column, arguments.output1.batch);
    }

    __device__ __forceinline__ void finish_block(Sweep<0>, int block) {
        reduction2.finish_block(block);
        reduction3.finish_block(block);
        reduction4.finish_block(block);
        reduction5.finish_block(block);
    }

    __device__ __forceinline__ void finish() {
        reduction2.finish_tile();
        reduction3.finish_tile();
        reduction4.finish_tile();
        reduction5.finish_tile();
        Walk::sync();  // every warp's values are in shared memory
        reduction2.store_partials(arguments.partials2, work, problem);
        reduction3.store_partials(arguments.partials3, work, problem);
        reduction4.store_partials(arguments.partials4, work, problem);
        reduction5.store_partials(arguments.output5, work, problem);
        if (last_to_arrive<Walk>(arguments.counters_row + (work.batch * problem.tiles_m + work.tile_m), problem.tiles_n)) {
            reduction2.combine(arguments.partials2, arguments.output2, work, problem, false);
        }
        if (last_to_arrive<Walk>(arguments.counters_column + (work.batch * problem.tiles_n + work.tile_n), problem.tiles_m)) {
            reduction3.combine(arguments.partials3, arguments.output3, work, problem, false);
        }
        if (last_to_arrive<Walk>(arguments.counters_all + (work.batch), problem.tiles_m * problem.tiles_n)) {
            reduction4.combine(arguments.partials4, arguments.output4, work, problem, false);
        }
        Walk::sync();  // shared memory is free for the next tile
    }
};

}  // namespace epilogue

extern "C" __global__ void __launch_bounds__(384, 1) everything_bf16_64x128(
    const __grid_constant__ epilogue::Parameters parameters) {
    epilogue::sm90::Gemm<epilogue::Config, epilogue::Multiply, epilogue::Visitor, epilogue::Parameters>::run(parameters);
}
