//! The device primitives themselves: every width of a lane reduction, every number of warps in a block.

use epilogue::tile::headers;
use epilogue_runtime::{KernelArgument, Launch, Source};

/// Per thread: the sum, maximum and minimum over its group of 2, 4, 8, 16 and 32 lanes; then those over the first 1 to
/// 32 warps.
const KERNEL: &str = r#"
using namespace epilogue;
template <class Op, int WIDTH>
__device__ void lanes(const int* in, int* out) { *out = reduce_lanes<Op, 1, WIDTH>(*in); }
template <class Op>
__device__ void widths(const int* in, int* out) {
    lanes<Op, 2>(in, out);
    lanes<Op, 4>(in, out + 1024);
    lanes<Op, 8>(in, out + 2048);
    lanes<Op, 16>(in, out + 3072);
    lanes<Op, 32>(in, out + 4096);
}
template <class Op, int WARPS>
__device__ void blocks(int* slots, const int* in, int* out) {
    const int thread = threadIdx.x;
    if (thread / 32 < WARPS) publish_warp<Op>(slots, thread / 32, thread % 32, *in);
    __syncthreads();
    *out = gather<Op, WARPS>(slots);
    __syncthreads();
    if constexpr (WARPS < 32) blocks<Op, WARPS + 1>(slots, in, out + 1024);
}
extern "C" __global__ void reduce(const int* in, int* out) {
    __shared__ int slots[32];
    in += threadIdx.x;
    out += threadIdx.x;
    widths<ReduceAdd>(in, out);
    widths<ReduceMax>(in, out + 5 * 1024);
    widths<ReduceMin>(in, out + 10 * 1024);
    out += 15 * 1024;
    blocks<ReduceAdd, 1>(slots, in, out);
    blocks<ReduceMax, 1>(slots, in, out + 32 * 1024);
    blocks<ReduceMin, 1>(slots, in, out + 64 * 1024);
}
"#;

#[test]
fn every_width_and_every_number_of_warps() {
    let Some(device) = super::device("primitives::every_width_and_every_number_of_warps") else { return };
    let mut random = fastrand::Rng::with_seed(5);
    let values: Vec<i32> = (0..1024).map(|_| random.i32(-1_000_000..1_000_000)).collect();
    let (input, output) = (device.tensor(&values, [1024]), device.zeros::<i32>([111 * 1024]));
    let (input, output) = (input.expect("memory"), output.expect("memory"));
    let kernel = device.compile(&Source::new("primitives.cu", "reduce", headers() + KERNEL)).expect("a kernel");
    let launch = Launch { block: [1024, 1, 1], ..Launch::default() };
    let arguments = [KernelArgument::Input(&input), KernelArgument::Output(&output)];
    kernel.launch(&launch, &arguments, &device.default_stream()).expect("no race");
    let out: Vec<i32> = output.to_vec().expect("a result");
    let ops: [fn(&[i32]) -> i32; 3] =
        [|x| x.iter().sum(), |x| *x.iter().max().expect("elements"), |x| *x.iter().min().expect("elements")];
    for (i, op) in ops.into_iter().enumerate() {
        for thread in 0..1024 {
            for (j, width) in [2, 4, 8, 16, 32].into_iter().enumerate() {
                let group = &values[thread / width * width..][..width];
                assert_eq!(out[(5 * i + j) * 1024 + thread], op(group), "{width} lanes, thread {thread}");
            }
            for warps in 1..=32 {
                let place = (15 + 32 * i + warps - 1) * 1024 + thread;
                assert_eq!(out[place], op(&values[..32 * warps]), "{warps} warps, thread {thread}");
            }
        }
    }
}
