//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Outcome;

/// Where the steps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// The first GPU.
    Cuda,
    /// ptx-vm: a rehearsal.
    Emulated,
    /// The CPU device: a rehearsal where there is no NVRTC either.
    Cpu,
}

impl On {
    pub(crate) fn parse(word: &str) -> Outcome<Self> {
        match word {
            "cuda" => Ok(Self::Cuda),
            "emulated" => Ok(Self::Emulated),
            "cpu" => Ok(Self::Cpu),
            other => Err(format!("there is no device {other}: cuda, emulated or cpu").into()),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Emulated => "emulated",
            Self::Cpu => "cpu",
        }
    }
}

/// The options of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// 1: correctness and the headline; 2: tensor expressions, all shapes; 3: all epilogues, knobs, autotuning, all
    /// peers.
    pub(crate) tier: u8,
    /// The folder for results.
    pub(crate) out: PathBuf,
    pub(crate) on: On,
    /// No step begins that would end later than this.
    pub(crate) budget: Duration,
    /// Only steps whose name contains this.
    pub(crate) only: Option<String>,
    /// The seed of random cases; a new one at every run if there is none.
    pub(crate) seed: Option<u64>,
    /// Only prints the steps and their times.
    pub(crate) list: bool,
}

pub(crate) const USAGE: &str =
    "usage: epilogue-gpu [--tier 1|2|3] [--out FOLDER] [--device cuda|emulated|cpu] [--seconds S] [--only TEXT] [--seed N]
                    [--list]

  --tier     1: correctness and the headline shapes (the default); 2: tensor expressions, all shapes and types;
             3: all epilogues on all shapes, knobs, autotuning, max-autotune and Triton
  --out      where results.jsonl and table.txt are written (default: results); what it holds already is not run again
  --device   cuda (the default); emulated or cpu: a rehearsal on small problems, without a GPU
  --seconds  begin no step that would end later than this (default 460)
  --only     run only the steps whose name contains this text (and what compiles for them)
  --seed     draw the random cases from this number (default: another one for every step and run; records say which)
  --list     run nothing: print the steps of this and the lower tiers, and how long they take by estimate

The status is 0 where nothing failed (steps may be left, which the last line says), 1 where a step failed or found a wrong
result, 2 where nothing could begin.";

impl Options {
    pub(crate) fn parse(words: &[String]) -> Outcome<Self> {
        let mut options = Self {
            tier: 1,
            out: "results".into(),
            on: On::Cuda,
            budget: Duration::from_secs(460),
            only: None,
            seed: None,
            list: false,
        };
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
            match word {
                "--tier" => {
                    options.tier = match value()? {
                        "1" => 1,
                        "2" => 2,
                        "3" => 3,
                        other => return Err(format!("there is no tier {other}: 1, 2 or 3\n\n{USAGE}").into()),
                    }
                }
                "--out" => options.out = value()?.into(),
                "--device" => {
                    let given = value()?;
                    options.on = On::parse(given).map_err(|error| format!("{error}\n\n{USAGE}"))?;
                }
                "--seconds" => {
                    let given = value()?;
                    let seconds = given.parse().map_err(|_| format!("--seconds {given} is no number\n\n{USAGE}"))?;
                    options.budget = Duration::from_secs(seconds);
                }
                "--only" => options.only = Some(value()?.to_owned()),
                "--seed" => {
                    let given = value()?;
                    options.seed = Some(given.parse().map_err(|_| format!("--seed {given} is no number\n\n{USAGE}"))?);
                }
                "--list" => options.list = true,
                other => return Err(format!("unknown option {other}\n\n{USAGE}").into()),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Outcome<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_said_is_done() {
        let options = parse("--tier 2 --device emulated --seconds 5 --only gemm --seed 7 --out x").expect("options");
        assert_eq!((options.tier, options.on, options.budget.as_secs()), (2, On::Emulated, 5));
        assert_eq!((options.only.as_deref(), options.seed), (Some("gemm"), Some(7)));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, said) in [
            ("--tier 9", "tier 9"),
            ("--tier", "needs a value"),
            ("--gpu", "--gpu"),
            ("--seconds x", "x"),
            ("--seed -1", "-1"),
        ] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(said) && error.contains("usage:"), "{error}");
        }
    }
}
