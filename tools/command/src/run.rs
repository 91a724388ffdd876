//! `epilogue run`.

use std::fmt::Write as _;

use epilogue::DeviceTensor;

use crate::data::Maker;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::plan::{self, Product, validated};
use crate::progress::shown;

/// Multiply-adds of the reference, which does one after the other.
const MOST_STEPS: u128 = 1 << 30;

pub(crate) fn run(options: &RunOptions) -> Result<String, Failure> {
    let (text, epilogue) = plan::one(&options.source)?;
    validated(&text, &epilogue, options.product.operands.types)?;
    let count = epilogue.tree.accumulators().len();
    let extents = options.product.shape.iter().chain(&options.product.batch).chain([&count]);
    let steps: u128 = extents.map(|extent| (*extent).max(1) as u128).product();
    if steps > MOST_STEPS {
        return Err(Failure::refused(format_args!(
            "the reference does M·N·K steps, one after the other: {steps} here, at most {MOST_STEPS}; give a smaller `--shape`"
        )));
    }
    let device = plan::device(options.on)?;
    let mut maker = Maker::Random(&device, fastrand::Rng::with_seed(options.seed));
    let (a, b) = maker.operands(&options.product, count)?;
    let product = Product::with(&device, &epilogue, &options.product, a, b)?;
    let gemm = shown("planning the product", || product.plan())?;
    let mut arguments = maker.arguments(&gemm, &options.product, &options.set)?;
    let b: Vec<&DeviceTensor> = product.b.iter().collect();
    // Before the run, which may overwrite what it reads.
    let expected =
        shown("computing the reference", || gemm.reference_arguments(&product.a, &b[..], &arguments.list()))?;
    shown(&format!("running on {device}"), || {
        gemm.run_arguments(&device.default_stream(), &product.a, &b[..], &arguments.list())
    })?;

    let [m, n, k] = options.product.shape;
    let mut printed = format!("`{}` of {m}x{n}x{k} on {device}: {}\n", epilogue.name, gemm.choice());
    for (name, value) in arguments.scalars() {
        let _ = writeln!(printed, "{name} = {value}");
    }
    let mut wrong = false;
    for output in expected.outputs() {
        let Some(actual) = arguments.output(output.name) else { continue };
        let comparison = expected.compare(output.name, actual)?;
        wrong |= comparison.wrong().is_some();
        let _ = writeln!(printed, "{comparison}");
    }
    if wrong { Err(Failure::Judged(printed)) } else { Ok(printed) }
}
