//! Runs the same programs on every device of this machine that runs kernels: the emulated ones, and GPUs if there are
//! any.

#![allow(clippy::unwrap_used, reason = "tests")]

mod driver;
mod exchange;
mod findings;
mod graphs;
mod hopper;
mod launches;
mod order;
mod ranks;

use epilogue_runtime::bundle::Bundle;
use epilogue_runtime::{Arch, Device, Source, testing};

const KERNELS: &str = r#"
struct Affine { float scale; float shift; double unused; };

extern "C" __global__ void affine(const float* x, float* y, Affine f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f.scale * x[i] + f.shift;
}

extern "C" __global__ void reverse_blocks(float* x) {
    extern __shared__ float tile[];
    int i = threadIdx.x, n = blockDim.x;
    float* mine = x + blockIdx.x * n;
    tile[i] = mine[i];
    __syncthreads();
    mine[i] = tile[n - 1 - i];
}

struct Record { unsigned state, site; unsigned long long kernel; long long value, limit; };
struct Status { Record* record; unsigned long long kernel; };
extern "C" { __device__ Status epilogue_status; }

extern "C" __global__ void pick(const float* x, const int* index, float* y, int n, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int at = index[i];
    if (at >= 0 && at < n) {
        y[i] = x[at];
    } else if (atomicCAS(&epilogue_status.record->state, 0u, 1u) == 0u) {
        Record* record = epilogue_status.record;
        record->site = 1;
        record->kernel = epilogue_status.kernel;
        record->value = at;
        record->limit = n;
        __threadfence_system();
        atomicExch(&record->state, 2u);
    }
}

extern "C" __global__ void spin(unsigned long long* out, unsigned n) {
    unsigned long long h = 1469598103934665603ull;
    for (unsigned i = 0; i < n; ++i) h = (h ^ i) * 1099511628211ull;
    *out = h;
}
"#;

/// Set in the processes that `the_cuda_code_runs_without_a_gpu` starts.
const ON_FAKE_DRIVER: &str = "EPILOGUE_TEST_ON_FAKE_DRIVER";

/// Set in the process that `a_gpu_runs_machine_code_from_a_bundle` starts: the bundle.
const FROM_BUNDLE: &str = "EPILOGUE_TEST_FROM_BUNDLE";

fn has_no_compiler() -> bool {
    epilogue_runtime::Compiler::find().is_err() && epilogue_runtime::KernelCache::of_user().is_none()
}

/// The devices to test on, or none where kernels can't be compiled.
fn devices(test: &str) -> Vec<Device> {
    if let Some(path) = std::env::var_os(FROM_BUNDLE) {
        assert!(has_no_compiler(), "nothing may be compiled");
        let device = Device::cuda(0).unwrap();
        Bundle::open(path).unwrap().install(&device).unwrap();
        return vec![device];
    }
    if testing::compiler(test).is_none() {
        return Vec::new();
    }
    if std::env::var_os(ON_FAKE_DRIVER).is_some() {
        let device = Device::cuda(0).unwrap();
        assert_eq!(device.properties().name, "fake A100");
        return vec![device];
    }
    let emulated = [Arch::SM_80, Arch::SM_90A].map(|arch| Device::emulated(arch).unwrap());
    emulated.into_iter().chain(Device::cuda(0)).collect()
}

fn source(entry: &str) -> Source {
    Source::new("kernels.cu", entry, KERNELS)
}

/// The bytes of `struct Affine`.
fn affine(scale: f32, shift: f32) -> Vec<u8> {
    [&scale.to_ne_bytes()[..], &shift.to_ne_bytes(), &[0; 8]].concat()
}
