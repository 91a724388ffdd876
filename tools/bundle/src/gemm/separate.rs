//! The epilogue as people write it without fusion: one kernel that reads the product and writes the result, 16 bytes at
//! a time.

use epilogue::{Device, ElementType};
use epilogue_runtime::{Kernel as Compiled, KernelArgument, Launch, Source};

use super::shapes::Shape;
use super::workload::PeerBuffers;
use crate::Outcome;

/// The kernel's computation from `x` (the GEMM's result), `bias` and `other`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    pub(crate) expression: &'static str,
    /// Whether `other` is read.
    pub(crate) reads: bool,
}

/// The kernel for one shape.
pub(crate) struct Kernel {
    kernel: Compiled,
    launch: Launch,
    size: [u8; 16],
}

const F16: &str = "
__device__ float widened(unsigned short x) { float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y; }
__device__ unsigned short narrowed(float x) {
    unsigned short y;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x));
    return y;
}
";

const BF16: &str = "
__device__ float widened(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
__device__ unsigned short narrowed(float x) {
    unsigned short y;
    asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x));
    return y;
}
";

const BODY: &str = "
struct __align__(2 * VECTOR) Values { unsigned short value[VECTOR]; };
extern \"C\" __global__ void separate(unsigned short* d, const unsigned short* biases, const unsigned short* others,
                                    unsigned long long count, unsigned long long n) {
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x * VECTOR;
    unsigned long long i = ((unsigned long long)blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;
    for (; i < count; i += step) {
        Values values = *(const Values*)(d + i), bias = *(const Values*)(biases + i % n), other = {};
        if (READS) other = *(const Values*)(others + i);
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) {
            const float x = widened(values.value[v]);
            values.value[v] = narrowed(compute(x, widened(bias.value[v]), widened(other.value[v])));
        }
        *(Values*)(d + i) = values;
    }
}
";

impl Kernel {
    pub(crate) fn new(device: &Device, shape: &Shape, text: Text) -> Outcome<Self> {
        let element = match shape.element {
            ElementType::F16 => F16,
            ElementType::BF16 => BF16,
            other => return Err(format!("the separate kernel is for 16-bit types, not {other}").into()),
        };
        let vector = if shape.n.is_multiple_of(8) { "8" } else { "1" };
        let code = format!(
            "{element}\
             __device__ float gelu(float x) {{ return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }}\n\
             __device__ float compute(float x, float bias, float other) {{ return {}; }}\n{}",
            text.expression,
            BODY.replace("VECTOR", vector).replace("READS", if text.reads { "true" } else { "false" })
        );
        let kernel = device.compile(&Source::new("separate.cu", "separate", code))?;
        let count = (shape.m * shape.n) as u64;
        let blocks = count.div_ceil(256 * 8).clamp(1, u64::from(device.properties().multiprocessors) * 16) as u32;
        let launch = Launch { grid: [blocks, 1, 1], block: [256, 1, 1], ..Launch::default() };
        let mut size = [0; 16];
        size[..8].copy_from_slice(&count.to_ne_bytes());
        size[8..].copy_from_slice(&(shape.n as u64).to_ne_bytes());
        Ok(Self { kernel, launch, size })
    }

    /// Queues it on set number `i`, which it updates in place.
    pub(crate) fn run(&self, buffers: &PeerBuffers, i: usize) -> Outcome<()> {
        let set = &buffers.sets[i % buffers.sets.len()];
        let arguments = [
            KernelArgument::Output(&set.d),
            KernelArgument::Input(&set.bias),
            KernelArgument::Input(&set.other),
            KernelArgument::Value(&self.size[..8]),
            KernelArgument::Value(&self.size[8..]),
        ];
        Ok(self.kernel.launch(&self.launch, &arguments, &buffers.stream)?)
    }
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::{Arch, testing};

    use super::*;

    /// It computes what it should, on the emulated device.
    #[test]
    fn the_separate_kernel_is_right() {
        if testing::compiler("the_separate_kernel_is_right").is_none() {
            return;
        }
        let device = Device::emulated(Arch::SM_90A).expect("a device");
        for (element, n) in [(ElementType::BF16, 24), (ElementType::F16, 7)] {
            let shape = Shape::new([5, n, 1], element, false);
            let normal = |shape: &[usize], seed| {
                super::super::workload::normal(&device, element, shape, seed).expect("a tensor")
            };
            let set = super::super::workload::PeerSet {
                a: normal(&[5, 1], 1),
                b: normal(&[1, n], 2),
                d: normal(&[5, n], 3),
                bias: normal(&[n], 4),
                other: normal(&[5, n], 5),
                scale: normal(&[1], 6),
            };
            let values =
                |t: &epilogue::DeviceTensor| epilogue::evt::reference::decode(element, &t.to_bytes().expect("bytes"));
            let (x, bias, other) = (values(&set.d), values(&set.bias), values(&set.other));
            let buffers = PeerBuffers { sets: vec![set], stream: device.default_stream() };
            let text = Text { expression: "(x + bias) * 2.0f + other", reads: true };
            Kernel::new(&device, &shape, text).and_then(|kernel| kernel.run(&buffers, 0)).expect("a run");
            for (i, y) in values(&buffers.sets[0].d).into_iter().enumerate() {
                let expected = (x[i] + bias[i % n]) * 2.0 + other[i];
                assert!((y - expected).abs() <= 0.01 * (1.0 + expected.abs()), "{element} {i}: {y} {expected}");
            }
        }
    }
}
