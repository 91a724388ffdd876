//! Prints an epilogue's visitor tree, its CUDA C++, and what the compiler reports about the kernel; draws the tree as
//! SVG.
//!
//! `cargo run --release -p epilogue-examples --features emulated --bin inspect -- bias_gelu_residual [--arch sm_80] [--shape M,N,K] [--svg FILE]`

#![allow(clippy::print_stdout)]

#[path = "common/epilogues.rs"]
mod epilogues;

use epilogue::prelude::*;
use epilogue_runtime::{Compiler, Output};

const USAGE: &str = "usage: inspect NAME [--arch sm_80] [--shape M,N,K] [--svg FILE]";

struct Options {
    name: String,
    arch: Arch,
    shape: [usize; 3],
    svg: Option<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    match options.name.as_str() {
        "plain" => inspect::<epilogues::Plain>(&options),
        "linear_combination" => inspect::<epilogues::LinearCombination>(&options),
        "bias" => inspect::<epilogues::Bias>(&options),
        "bias_gelu" => inspect::<epilogues::BiasGelu>(&options),
        "bias_gelu_residual" => inspect::<epilogues::BiasGeluResidual>(&options),
        "bias_residual_statistics" => inspect::<epilogues::BiasResidualStatistics>(&options),
        "gelu_backward" => inspect::<epilogues::GeluBackward>(&options),
        "amax" => inspect::<epilogues::Amax>(&options),
        "row_reduction" => inspect::<epilogues::RowReduction>(&options),
        other => Err(format!(
            "no epilogue is named `{other}`; there are plain, linear_combination, bias, bias_gelu, \
             bias_gelu_residual, bias_residual_statistics, gelu_backward, amax, row_reduction"
        )
        .into()),
    }
}

fn inspect<E: Epilogue>(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let [m, n, k] = options.shape;
    let device = Device::emulated(options.arch)?;
    let gemm = Gemm::builder::<E>(&device).problem(m, n, k).elements(ElementType::F16, ElementType::F16).plan()?;
    println!("{}", gemm.tree());
    println!("{}", gemm.source());
    println!("// choice: {}", gemm.choice());
    let source = gemm.kernel_source().ok_or("this device runs no kernels")?;
    let compiled = Compiler::find()?.compile(source, options.arch, Output::Cubin)?;
    let kernel = compiled.log.kernel(&source.entry).ok_or("the compiler tells nothing of the kernel")?;
    println!(
        "// {}: {} registers, {} bytes spilled, {} bytes of static and {} of dynamic shared memory",
        options.arch,
        kernel.registers,
        kernel.spill_store_bytes + kernel.spill_load_bytes,
        kernel.shared_bytes,
        gemm.choice().kernel().map_or(0, |kernel| kernel.shared_bytes),
    );
    if let Some(path) = &options.svg {
        std::fs::write(path, gemm.tree().to_svg())?;
        println!("// the tree is drawn in {path}");
    }
    Ok(())
}

fn options() -> Result<Options, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Options { name: arguments.next().ok_or(USAGE)?, arch: Arch::SM_80, shape: [4096; 3], svg: None };
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--arch" => options.arch = value.parse()?,
            "--svg" => options.svg = Some(value),
            "--shape" => {
                let sizes: Vec<usize> = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                options.shape = sizes.try_into().map_err(|_| USAGE)?;
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}
