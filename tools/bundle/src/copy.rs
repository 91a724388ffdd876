//! The ceiling for everything that is bound by memory: a copy on the device, in bytes read and written.

use epilogue_runtime::{KernelArgument, Launch, Source};
use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::Machine;
use crate::options::On;
use crate::step::Step;
use crate::timing::{Contender, Timer};

const CODE: &str = "extern \"C\" __global__ void copy(float4* __restrict__ to, const float4* __restrict__ from,
                                unsigned long long count) {
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = from[i];
}
";

pub(crate) fn steps() -> Vec<Step> {
    vec![Step::timed("speed/copy", 1, 5, copy)]
}

fn copy(machine: &Machine) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    if machine.on == On::Cpu {
        return Ok(vec![json!({"kind": "skipped", "why": "the copy is a GPU's"})]);
    }
    let bytes: usize = if machine.is_rehearsal() { 1 << 16 } else { 1 << 31 };
    let from = device.full(vec![bytes / 4], 1.0_f32)?;
    let to = device.zeros::<f32>([bytes / 4])?;
    let kernel = device.compile(&Source::new("copy.cu", "copy", CODE))?;
    let blocks = device.properties().multiprocessors * 16;
    let launch = Launch { grid: [blocks, 1, 1], block: [256, 1, 1], ..Launch::default() };
    let count = (bytes as u64 / 16).to_ne_bytes();
    let stream = device.default_stream();
    let run = Box::new(|_| {
        let arguments = [KernelArgument::Output(&to), KernelArgument::Input(&from), KernelArgument::Value(&count)];
        Ok(kernel.launch(&launch, &arguments, &stream)?)
    });
    let times = Timer::new(device)?.race(&mut [Contender { name: "copy".into(), run }])?;
    let (first, last) = (to.slice(0, 0..1)?.to_vec::<f32>()?, to.slice(0, bytes / 4 - 1..bytes / 4)?.to_vec::<f32>()?);
    if (first[0], last[0]) != (1.0, 1.0) {
        return Ok(vec![json!({"kind": "wrong", "what": "the copy differs from what was copied"})]);
    }
    let speed = (!machine.is_rehearsal()).then(|| 2.0 * bytes as f64 / (times[0].median * 1e9));
    Ok(vec![json!({"kind": "copy", "bytes": bytes, "copy_tb_per_s": speed})])
}
