//! `cargo xtask forecast`: what to expect of GPUs that have measured nothing yet, as `benches/results/forecast.md`.
//!
//! An H200 and an A100 are forecast by the machine code of the kernels that the model chooses. Other GPUs are forecast by the model alone.
//! The error is that of the model where others published times: nine of ten judged rows of a regime lie within its
//! bounds (`published`). Bounds of the machine code's own error come from others' kernels (`foreign`).

use std::error::Error;
use std::fmt::Write;

use epilogue::ElementType;
use epilogue::evt::{Tree, Types};
use epilogue::gemm::{Arithmetic, Machine, Offer, Problem};
use epilogue_testing::headline::HEADLINE;

use super::choices::GPUS;
use super::epilogues::{bias_gelu_residual, plain};
use super::families::{self, Family};
use super::gate::Gate;
use super::published::{self, Bar, Regime};
use super::shapes::PACKED;
use super::{foreign, predict};

/// The epilogue of the fused columns.
const FUSED: &str = "bias_gelu_residual";

/// The GPUs that are forecast by machine code: those for which families predict theirs.
fn by_code_first() -> impl Iterator<Item = &'static dyn Family> {
    families::all_predicted()
}

/// The products for which other GPUs are forecast.
const FEW: [[usize; 3]; 5] =
    [[8192, 8192, 8192], [4096, 4096, 4096], [2048, 2048, 2048], [4096, 4096, 1024], [16, 8192, 8192]];

/// TFLOP/s of a product that takes this many microseconds.
fn rate([m, n, k]: [usize; 3], microseconds: f64) -> f64 {
    2e-6 * m as f64 * n as f64 * k as f64 / microseconds
}

/// The model's time for a product of bf16: that of the best kernel which the GPU runs.
fn modelled(machine: &Machine, [m, n, k]: [usize; 3], tree: &Tree) -> Result<f64, Box<dyn Error>> {
    let tree = tree.validate(Types::new(ElementType::BF16, ElementType::BF16))?;
    let layouts = (PACKED, PACKED);
    let offer = Offer { problem: Problem::new(m, n, k), layouts, arithmetic: Arithmetic::Exact, tree: &tree };
    let candidates = offer.candidates(machine);
    Ok(candidates.first().ok_or("no kernel multiplies bf16")?.microseconds)
}

/// The bounds of the forecast errors, as a table.
fn errors(bars: &[Bar]) -> Result<String, Box<dyn Error>> {
    let mut text = String::from(
        "| regime | rows | sources | published / predicted, mean | nine of ten rows |\n|---|---|---|---|---|\n",
    );
    for Bar { regime, rows, sources, mean, between: [low, high] } in bars {
        writeln!(text, "| {} | {rows} | {sources} | {mean:.2} | {low:.2} to {high:.2} |", regime.name())?;
    }
    let mut ratios = foreign::ratios()?;
    ratios.sort_by(f64::total_cmp);
    let near = ratios.iter().filter(|ratio| foreign::NEAR.contains(*ratio)).count();
    let (least, most) = (ratios.first().ok_or("no ladder")?, ratios.last().ok_or("no ladder")?);
    writeln!(
        text,
        "\nThe machine code of {} kernels of others, beside cuBLAS on the same board: predicted / published {least:.2} to \
         {most:.2}, and {near} of them within 15 %.",
        ratios.len()
    )?;
    Ok(text)
}

/// The table of a GPU that is forecast by machine code.
fn by_code(gate: &Gate, bars: &[Bar], family: &dyn Family) -> Result<String, Box<dyn Error>> {
    let (plain, fused) = (predict::times(gate, family, "plain")?, predict::times(gate, family, FUSED)?);
    let mut text = format!(
        "| product | plain, us | TFLOP/s | by the model, us | nine of ten, us | {FUSED}, us | TFLOP/s | by the model, us |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for ((mnk, [us, model]), [fused_us, fused_model]) in HEADLINE.into_iter().zip(plain).zip(fused) {
        let [m, n, k] = mnk;
        let regime = Regime::of_extents(mnk);
        let bar = bars.iter().find(|bar| bar.regime == regime);
        let expected = bar.map_or("unknown".to_owned(), |bar| {
            let [low, high] = bar.between.map(|share| us * share);
            format!("{low:.1} to {high:.1}")
        });
        writeln!(
            text,
            "| {m}x{n}x{k} | {us:.1} | {:.0} | {model:.1} | {expected} | {fused_us:.1} | {:.0} | {fused_model:.1} |",
            rate(mnk, us),
            rate(mnk, fused_us)
        )?;
    }
    Ok(text)
}

/// The table of the other GPUs.
fn by_model() -> Result<String, Box<dyn Error>> {
    let mut text = String::from("| GPU |");
    for [m, n, k] in FEW {
        write!(text, " {m}x{n}x{k} |")?;
    }
    write!(text, "\n|---|{}\n", "---|".repeat(FEW.len()))?;
    let known: Vec<Machine> = by_code_first().map(|family| family.gpu().1).collect();
    for gpu in GPUS {
        let machine = Machine::of_model(gpu.parse()?);
        if known.contains(&machine) {
            continue;
        }
        write!(text, "| {gpu} |")?;
        for mnk in FEW {
            let of = |tree: &Tree| modelled(&machine, mnk, tree).map(|us| rate(mnk, us));
            write!(text, " {:.0} / {:.0} |", of(&plain())?, of(&bias_gelu_residual())?)?;
        }
        text.push('\n');
    }
    Ok(text)
}

/// The file.
pub(crate) fn text(gate: &Gate) -> Result<String, Box<dyn Error>> {
    let bars = published::bars()?;
    let mut text = format!(
        "# Forecast\n\nWritten by `cargo xtask forecast`; no GPU has measured these times. Products are of bf16 with f32 sums, \
         plain and with the epilogue `{FUSED}`. Launches follow each other at once.\n\n\
         ## The error\n\nPublished times of others over the model's, on rows to which nothing was fitted \
         (`cargo xtask published`):\n\n{}",
        errors(&bars)?
    );
    for family in by_code_first() {
        let (name, _) = family.gpu();
        write!(text, "\n## {name}, by machine code\n\n{}", by_code(gate, &bars, family)?)?;
    }
    write!(
        text,
        "\n## Other GPUs, by the model only\n\nTFLOP/s, plain / `{FUSED}`. GPUs without kernels of their own run those for \
         sm_80.\n\n{}",
        by_model()?
    )?;
    Ok(text)
}
