//! Static checks of every kernel, and the model's choices.
//!
//! `cargo xtask kernels [--arch sm_80|sm_90a] [--all | --threes] [--part I/N] [--named TEXT]` compiles kernels with NVRTC,
//! disassembles them and prints what they consist of; it fails if one is not as intended. `--all` takes a day: `--part
//! 1/16` to `--part 16/16` are sixteen equal parts, each with kernels of every kind. `--threes` are those of them that
//! together have any three choices, as of a tile, a layout and a split.
//!
//! - `cargo xtask choices` prints the kernel that is chosen for each shape. `--ablation` adds the numbers on which choices
//!   depend, `--others` the choices of other libraries.
//! - `cargo xtask predict` prints how long a kernel takes, by its machine code.
//! - `cargo xtask published` prints the model against times that others measured.
//! - `cargo xtask foreign` prints the predictions against others' kernels.
//! - `cargo xtask forecast` writes what to expect of GPUs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod ablation;
mod choices;
#[cfg_attr(not(test), expect(dead_code, reason = "the tests have goldens of more of them"))]
mod epilogues;
mod families;
mod forecast;
mod foreign;
#[cfg_attr(not(test), expect(dead_code, reason = "the tests read the PTX, this does not"))]
mod gate;
mod predict;
mod published;
#[cfg_attr(not(test), expect(dead_code, reason = "the tests of automatic kernels read more of it"))]
mod sass;
mod set;
mod shapes;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::process::ExitCode;

use epilogue_runtime::{Compiler, testing};
use rayon::prelude::*;

use self::families::FAMILIES;
use self::gate::{Gate, Subject};

/// Checks kernels on all cores, and prints a line for each; gives the number of those with findings.
fn check(set: &[Subject]) -> Result<usize, Box<dyn Error>> {
    let gate = Gate::new(Compiler::find()?.with_cache(None), testing::nvdisasm("kernels"));
    if gate.nvdisasm.is_none() {
        println!("without nvdisasm only the compiler's log is checked");
    }
    println!("{} kernels", set.len());
    let (mut checked, mut failed, mut kept, mut without) = (0, 0, 0, 0);
    // In portions, so that lines are printed while others are compiled.
    for portion in set.chunks(16) {
        let reports: Vec<_> = portion.par_iter().map(|subject| gate.check(subject)).collect();
        for report in reports {
            match report? {
                None => without += 1,
                Some(report) => {
                    checked += 1;
                    failed += usize::from(!report.findings.is_empty());
                    kept += usize::from(report.kept > 0);
                    println!("{report}");
                }
            }
        }
    }
    for family in FAMILIES {
        for measured in family.measured(&gate)? {
            failed += usize::from(measured.exceeds());
            println!("{}{measured}", if measured.exceeds() { "! " } else { "" });
        }
    }
    println!("{checked} kernels, {failed} of them not as meant; {without} more have no form in their family");
    if kept > 0 {
        println!("{kept} kernels keep some words in local memory, outside the loop of products");
    }
    Ok(failed)
}

/// The index of the part, from 0, and the number of parts, from `I/N`.
fn part(text: Option<&str>) -> Result<(usize, usize), String> {
    let numbers = text.and_then(|text| text.split_once('/'));
    let parsed = numbers.and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    match parsed {
        Some((i, n)) if (1..=n).contains(&i) => Ok((i - 1, n)),
        _ => Err(format!("--part takes I/N with I from 1 to N; {} was given", text.unwrap_or("nothing"))),
    }
}

/// The kernels that the command line asks for.
fn subjects(arguments: &[String]) -> Result<Vec<Subject>, String> {
    let (mut set, mut family, mut which, mut named) = (None, None, (0, 1), None);
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        match argument {
            "--all" => set = Some(set::all()),
            "--threes" => set = Some(set::threes()),
            "--part" => which = part(rest.next())?,
            "--named" => named = Some(rest.next().ok_or("--named takes a part of a kernel's name")?),
            "--arch" => {
                family = Some(families::named(rest.next())?);
            }
            other => {
                return Err(format!(
                    "`{other}` is not an option; there are --arch sm_80, --arch sm_90a, --arch sm_100a, --all, --threes, --part I/N and --named TEXT"
                ));
            }
        }
    }
    let mut set = set.unwrap_or_else(set::covering);
    if let Some(family) = family {
        set.retain(|subject| subject.key.family() == family.arch());
    }
    if let Some(part) = named {
        set.retain(|subject| subject.key.to_string().contains(part));
    }
    if set.is_empty() {
        return Err("no such kernel is in the set: ask for another name, or for --all".to_owned());
    }
    // Neighbours in the set differ in what its inner loops vary.
    set::scatter(&mut set);
    Ok(set.into_iter().skip(which.0).step_by(which.1).collect())
}

fn run(arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["choices"] => choices::print()?,
        ["choices", "--ablation"] => print!("{}", ablation::table()?),
        ["choices", "--others"] => print!("{}", others()?),
        ["predict", ..] => predict::print(&arguments[1..])?,
        ["forecast", file] => std::fs::write(file, forecast::text(&predict::gate()?)?)?,
        ["foreign", ..] => foreign::print(&arguments[1..])?,
        ["published", ..] => published::print(&arguments[1..])?,
        _ => return checked(arguments),
    }
    Ok(true)
}

/// The choices of other libraries, beside those of every family that has some.
fn others() -> Result<String, Box<dyn Error>> {
    FAMILIES.iter().filter_map(|family| family.others().transpose()).collect()
}

/// Checks the kernels that the command line asks for; false if one is not as meant.
fn checked(arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    let set = subjects(arguments)?;
    if set.is_empty() {
        return Err("this part is empty: make fewer of them".into());
    }
    Ok(check(&set)? == 0)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
