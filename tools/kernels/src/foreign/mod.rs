//! The prediction held against kernels of others: `cargo xtask foreign`.
//!
//! `predict` prices the library's own kernels by their machine code. No GPU has measured those, but authors of other
//! kernels published times of each step of their work. Their *ladder* is an independent test of the constants of
//! `predict`: its steps differ in tiles, stages, clusters, barriers, bank conflicts and stores.
//!
//! A kernel is two things here. Its machine code is counted in the same way as the library's own (`counts`). A short
//! description is written by hand after its source (`ladder`). `pace` makes a time of both. The files in `ladders/` have
//! them, with source, commit and licence. The sources are not here, and the tests need none.
//!
//! Compile a kernel to a cubin to add it. `cargo xtask foreign --cubin FILE --kernel NAME` prints its counts; NAME is a part
//! of its mangled name. Put them into a file of `ladders/`, with the description above them.
//!
//! Two things are asked of a ladder. Times are compared with cuBLAS's on the same board, which the model prices: the
//! ratio may differ from the published one by 15 %. The order of two steps must be right where their published times differ
//! by more than 3 %. A step that fails says why in its file, and a test fails on a reason that is missing or left over.

mod counts;
mod ladder;
mod pace;

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use epilogue_runtime::testing;

use self::counts::Counts;
use self::ladder::Ladder;
use self::pace::Time;
use super::published::{self, data};
use super::sass::Sass;

/// The ladders of the folder.
const LADDERS: [(&str, &str); 3] = [
    ("fast.cu on an H100", include_str!("ladders/fast_cu_h100.txt")),
    ("learn-cuda on an A100", include_str!("ladders/learn_cuda_a100.txt")),
    ("learn-cuda on an RTX 5090", include_str!("ladders/learn_cuda_5090.txt")),
];

/// Steps whose published times differ by less have no order.
const SAME: f64 = 1.03;
/// How far a time beside cuBLAS's may be from the published one.
pub(crate) const NEAR: std::ops::RangeInclusive<f64> = 0.85..=1.15;

/// A ladder with its predictions.
struct Priced {
    ladder: Ladder,
    times: Vec<Time>,
    /// For each step, its predicted time over its published one, both as shares of cuBLAS's.
    ratios: Vec<f64>,
    /// The model's time of cuBLAS over the published one.
    cublas: f64,
    /// Pairs with a published order, and those that are predicted the other way round.
    pairs: usize,
    wrong: Vec<(usize, usize)>,
}

impl Priced {
    fn of(text: &str) -> Result<Self, String> {
        let ladder = Ladder::read(text)?;
        let [m, n, k] = ladder.product;
        let of_cublas = |row: &&data::Row| {
            row.source == ladder.published
                && row.gpu == ladder.gpu
                && row.extents == [m, n, k, 1]
                && row.types == data::Types::Bf16
                && row.kernel == data::Timed::Chosen("cuBLAS".to_owned())
        };
        let rows = data::all()?;
        let cublas = rows.iter().find(of_cublas);
        let cublas = cublas.ok_or_else(|| format!("{} has no time of cuBLAS for this product", ladder.published))?;
        let (machine, predicted) = published::predicted(cublas)?;
        let of_cublas = predicted / cublas.microseconds;
        let times: Vec<Time> = ladder.steps.iter().map(|step| pace::time(&machine, ladder.product, step)).collect();
        let measured: Vec<f64> =
            ladder.steps.iter().map(|step| cublas.operations() * 1e-6 / step.tflops - cublas.harness.offset).collect();
        let ratios = times.iter().zip(&measured).map(|(time, us)| time.microseconds / us / of_cublas).collect();
        let (mut pairs, mut wrong) = (0, Vec::new());
        for (i, slow) in measured.iter().enumerate() {
            for (j, _) in measured.iter().enumerate().filter(|(_, fast)| **fast * SAME < *slow) {
                pairs += 1;
                if times[i].microseconds <= times[j].microseconds {
                    wrong.push((i, j));
                }
            }
        }
        Ok(Self { ladder, times, ratios, cublas: of_cublas, pairs, wrong })
    }

    /// The table.
    fn text(&self, title: &str) -> String {
        let Self { ladder, times, ratios, cublas, pairs, wrong } = self;
        let [m, n, k] = ladder.product;
        let mut text = format!("== {title}, {m}x{n}x{k}: cuBLAS predicted / published {cublas:.2} ==\n");
        let operations = 2.0 * (m * n * k) as f64;
        for ((step, time), ratio) in ladder.steps.iter().zip(times).zip(ratios) {
            let (clocks, limit) = time.limit;
            let _ = writeln!(
                text,
                "{}: published {:.0}, predicted {:.0} TFLOP/s; beside cuBLAS {ratio:.2}; a k-tile {clocks:.0} clocks, by \
                 {limit}; beside the products {:.0}; {}",
                step.name,
                step.tflops,
                operations * 1e-6 / time.microseconds,
                time.epilogue,
                step.what
            );
            if !step.why.is_empty() {
                let _ = writeln!(text, "  {}", step.why);
            }
        }
        let names =
            |(slow, fast): &(usize, usize)| format!("{} < {}", ladder.steps[*slow].name, ladder.steps[*fast].name);
        let listed: Vec<String> = wrong.iter().map(names).collect();
        let listed = if listed.is_empty() { String::new() } else { format!(": {}", listed.join(", ")) };
        let _ = writeln!(text, "order: {} of {pairs} pairs are predicted the other way round{listed}", wrong.len());
        text
    }
}

/// The tables of all ladders.
pub(crate) fn text() -> Result<String, String> {
    let of = |(title, text): &(&str, &str)| {
        Priced::of(text).map(|priced| priced.text(title)).map_err(|why| format!("{title}: {why}"))
    };
    Ok(LADDERS.iter().map(of).collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// The predicted times of all steps over the published ones, both as shares of cuBLAS's.
pub(crate) fn ratios() -> Result<Vec<f64>, String> {
    let of = |(title, text): &(&str, &str)| Priced::of(text).map_err(|why| format!("{title}: {why}"));
    Ok(LADDERS.iter().map(of).collect::<Result<Vec<_>, _>>()?.into_iter().flat_map(|priced| priced.ratios).collect())
}

/// Prints the counts of a kernel of a cubin.
fn count(cubin: &Path, kernel: &str) -> Result<(), Box<dyn Error>> {
    let nvdisasm = testing::nvdisasm("foreign").ok_or("nvdisasm was not found: `cargo xtask tools` installs it")?;
    let code = fs::read(cubin).map_err(|error| format!("{}: {error}", cubin.display()))?;
    let counts = Counts::of(&Sass::text_of(&nvdisasm, &code)?, kernel)?;
    for (name, part) in counts.parts() {
        println!("{name}: {part}");
    }
    Ok(())
}

/// Runs the command: `foreign`, or `foreign --cubin FILE --kernel NAME`.
pub(crate) fn print(words: &[String]) -> Result<(), Box<dyn Error>> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => print!("{}", text()?),
        ["--cubin", cubin, "--kernel", kernel] => count(Path::new(cubin), kernel)?,
        _ => return Err("`foreign` takes nothing, or --cubin FILE --kernel NAME".into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    /// Steps that are far off, or that are one of a pair in the wrong order, have a reason, and no others.
    #[test]
    fn kernels_of_others_are_predicted() {
        for (title, text) in &LADDERS {
            let priced = Priced::of(text).expect("a ladder");
            let steps = &priced.ladder.steps;
            let explained = |step: usize| !steps[step].why.is_empty();
            for (i, ratio) in priced.ratios.iter().enumerate() {
                let wrong = priced.wrong.iter().any(|(slow, fast)| *slow == i || *fast == i);
                let name = format!("{title}, {}: {ratio:.2} of the published time", steps[i].name);
                assert!(NEAR.contains(ratio) || explained(i), "{name}, without a reason");
                assert!(!NEAR.contains(ratio) || wrong || !explained(i), "{name}: a reason is left over");
            }
            for (slow, fast) in &priced.wrong {
                let names = [&steps[*slow].name, &steps[*fast].name];
                assert!(
                    explained(*slow) || explained(*fast),
                    "{title}: the order of {names:?} is wrong without a reason"
                );
            }
        }
        expect_file!["../../../../tests/golden/foreign.txt"].assert_eq(&text().expect("the ladders"));
    }

    /// A kernel is found among those of a file, and its parts are counted.
    #[test]
    fn a_kernel_is_counted_by_its_name() {
        let file = "\t.section\t.text._Z5firstv,\"ax\"\n/*0000*/ EXIT ;\n\t.section\t.text._Z6secondv,\"ax\"\n\
                    /*0000*/ S2R R0, SR_TID.X ;\n.L_x_1:\n/*0010*/ LDSM.16.M88.4 R4, [R2] ;\n\
                    /*0020*/ HMMA.16816.F32 R8, R4, R6, R8 ;\n/*0030*/ @P0 BRA `(.L_x_1) ;\n\
                    /*0040*/ STG.E [R2], R8 ;\n/*0050*/ EXIT ;\n";
        let counts = Counts::of(file, "second").expect("a loop of products");
        assert_eq!(
            counts.product.to_string(),
            "tensor=1 shared=1 control=1 multiply_adds=2048 shared_bytes=512 fragment_bytes=512 alone=6 around=4"
        );
        assert_eq!(counts.tile.stores, 1);
        assert_eq!(Counts::of(file, "first"), Err("`first` has no loop of products".to_owned()));
        let twice = "not exactly one kernel has `v` in its name; there are _Z5firstv, _Z6secondv";
        assert_eq!(Counts::of(file, "v"), Err(twice.to_owned()));
    }
}
