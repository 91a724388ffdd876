//! `epilogue bench`.

use std::time::{Duration, Instant};

use epilogue::evt::{BroadcastClass, TreeBuilder};
use epilogue::{Device, DeviceTensor};

use crate::data::Maker;
use crate::failure::Failure;
use crate::options::{BenchOptions, On};
use crate::plan::{self, Product, validated};
use crate::progress::shown;
use crate::source::Epilogue;

pub(crate) fn bench(options: &BenchOptions) -> Result<String, Failure> {
    if let On::Emulated(arch) = options.on {
        return Err(Failure::refused(format_args!(
            "an emulated {arch} executes instruction by instruction and has no speed: measure on cpu or cuda"
        )));
    }
    let (text, epilogue) = plan::one(&options.source)?;
    validated(&text, &epilogue, options.product.operands.types)?;
    let device = plan::device(options.on)?;
    let bare = Epilogue { name: "the bare product".to_owned(), tree: bare(epilogue.tree.accumulators().len()) };
    let [m, n, k] = options.product.shape;
    let products = epilogue.tree.accumulators().len() * options.product.batch.unwrap_or(1);
    let operations = 2.0 * m as f64 * n as f64 * k as f64 * products as f64;
    let mut printed = format!("{m}x{n}x{k} on {device}, the median of runs in turns\n");
    let mut subjects = [subject(&device, &epilogue, options)?, subject(&device, &bare, options)?];
    let names = [format!("`{}`", epilogue.name), bare.name.clone()];
    let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    // The first run of each fills caches, and is not counted.
    for subject in &mut subjects {
        subject.run(&device)?;
    }
    shown(&format!("measuring for {} s", 2.0 * options.seconds), || -> Result<(), Failure> {
        let begin = Instant::now();
        while times[0].len() < 3 || begin.elapsed() < Duration::from_secs_f64(2.0 * options.seconds) {
            for (subject, times) in subjects.iter_mut().zip(&mut times) {
                let start = Instant::now();
                subject.run(&device)?;
                times.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(())
    })?;
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    for (name, seconds) in names.iter().zip(medians) {
        printed.push_str(&format!("{:10.1} us {:10.1} GFLOP/s  {name}\n", seconds * 1e6, operations / seconds / 1e9));
    }
    printed.push_str(&format!("the epilogue adds {:.1} %\n", (medians[0] / medians[1] - 1.0) * 100.0));
    Ok(printed)
}

/// A product that stores its accumulators.
fn bare(accumulators: usize) -> epilogue::evt::Tree {
    const NAMES: [[&str; 2]; epilogue::evt::MAX_ACCUMULATORS] =
        [["a0", "d0"], ["a1", "d1"], ["a2", "d2"], ["a3", "d3"]];
    let mut builder = TreeBuilder::new("bare", file!());
    let nodes: Vec<_> = NAMES.iter().take(accumulators).map(|[name, _]| builder.accum(name)).collect();
    for (node, [_, name]) in nodes.into_iter().zip(NAMES) {
        builder.output(name, node, BroadcastClass::Tensor, None);
    }
    builder.finish()
}

/// The measured product.
struct Subject {
    gemm: epilogue::Gemm,
    product: Product,
    arguments: crate::data::Arguments,
}

fn subject(device: &Device, epilogue: &Epilogue, options: &BenchOptions) -> Result<Subject, Failure> {
    let mut maker = Maker::Random(device, fastrand::Rng::with_seed(1));
    let (a, b) = maker.operands(&options.product, epilogue.tree.accumulators().len())?;
    let product = Product::with(device, epilogue, &options.product, a, b)?;
    let gemm = product.plan()?;
    let arguments = maker.arguments(&gemm, &options.product, &[])?;
    Ok(Subject { gemm, product, arguments })
}

impl Subject {
    /// Runs it to its end.
    fn run(&mut self, device: &Device) -> Result<(), Failure> {
        let b: Vec<&DeviceTensor> = self.product.b.iter().collect();
        let stream = device.default_stream();
        self.gemm.run_arguments(&stream, &self.product.a, &b[..], &self.arguments.list())?;
        Ok(stream.synchronize()?)
    }
}
