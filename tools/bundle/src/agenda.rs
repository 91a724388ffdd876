//! The steps in order: those of each tier, correctness before speed, and how they share a machine.

use std::cmp::Reverse;

use crate::options::{On, Options};
use crate::record::Results;
use crate::step::Step;
use crate::{Outcome, conformance, copy, correctness, fused, gemm, peers, ranks, sanitizer, te};

/// Every step of every tier, in their order.
pub(crate) fn all(on: On) -> Vec<Step> {
    let mut steps = vec![Step::new("machine", 1, 10, |machine| Ok(vec![machine.facts()])).without_nvrtc()];
    steps.extend(gemm::correctness(on));
    steps.extend(correctness::steps());
    steps.extend(te::steps());
    steps.extend(ranks::steps());
    steps.extend(conformance::steps());
    steps.extend(sanitizer::steps());
    steps.extend(copy::steps());
    steps.extend(gemm::steps(on));
    steps.extend(fused::steps(on));
    steps.extend(peers::steps());
    steps.sort_by_key(|step| (step.tier, step.timed));
    steps
}

/// An error if no step has a name that matches.
pub(crate) fn check_only(options: &Options) -> Outcome<()> {
    let Some(text) = &options.only else { return Ok(()) };
    if all(options.on).iter().any(|step| step.name.contains(text.as_str())) {
        return Ok(());
    }
    Err(format!("no step's name contains `{text}`; `--list --tier 3` prints them all").into())
}

/// The most timed steps in a row; what they need is compiled before them.
const AT_ONCE: usize = 64;

/// The steps that are asked for and not yet done, in parts: those that run side by side, and, in turn, those that must
/// run alone.
pub(crate) fn due(options: &Options, done: &Results) -> Vec<Vec<Step>> {
    let named = |step: &Step| options.only.as_ref().is_none_or(|text| step.name.contains(text.as_str()));
    let wanted = |step: &Step| step.tier <= options.tier && named(step) && !done.has(&step.name);
    let due = |again: bool| {
        let (preparing, others): (Vec<Step>, Vec<Step>) =
            all(options.on).into_iter().partition(|step| step.prepares.is_some());
        let due = others.into_iter().filter(|step| wanted(step) && done.has_failed(&step.name) == again);
        in_parts(preparing, due.collect())
    };
    // A step that has failed once may fail again, so it comes last.
    due(false).into_iter().chain(due(true)).collect()
}

/// Parts: first the steps that are not timed, then groups of timed ones, each after the steps that prepare them.
fn in_parts(mut preparing: Vec<Step>, due: Vec<Step>) -> Vec<Vec<Step>> {
    let mut parts: Vec<Vec<Step>> = Vec::new();
    for step in due {
        let full = |part: &Vec<Step>| match part.first() {
            Some(first) => {
                (first.tier, first.timed) != (step.tier, step.timed) || (step.timed && part.len() >= AT_ONCE)
            }
            None => true,
        };
        if parts.last().is_none_or(full) {
            if step.timed && parts.last().is_none_or(|last| last.first().is_none_or(|first| first.timed)) {
                parts.push(Vec::new()); // for the steps that prepare it
            }
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(step);
        }
    }
    for number in 1..parts.len() {
        let (before, from) = parts.split_at_mut(number);
        let (Some(before), Some(part)) = (before.last_mut(), from.first()) else { continue };
        if part.first().is_some_and(|step| step.timed) {
            let prepares = |p: &Step| {
                p.prepares.as_ref().is_some_and(|name| part.iter().any(|s| s.name.starts_with(name.as_str())))
            };
            let (now, later): (Vec<Step>, Vec<Step>) = preparing.into_iter().partition(prepares);
            preparing = later;
            before.extend(now);
        }
    }
    parts.retain(|part| !part.is_empty());
    // Side by side, all are done soonest if the longest begin first.
    let untimed = parts.iter_mut().filter(|part| part.iter().all(|step| !step.timed));
    untimed.for_each(|part| part.sort_by_key(|step| Reverse(step.seconds)));
    parts
}

/// The number of processes that run at once if nothing is timed: most of their time is compilation, on one core each.
pub(crate) fn side_by_side(cores: usize) -> usize {
    (cores * 3).div_ceil(4).clamp(1, 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, tier: u8, timed: bool) -> Step {
        Step { timed, ..Step::new(name, tier, 1, |_| Ok(Vec::new())) }
    }

    fn names(parts: &[Vec<Step>]) -> Vec<Vec<&str>> {
        parts.iter().map(|part| part.iter().map(|step| step.name.as_str()).collect()).collect()
    }

    #[test]
    fn what_is_timed_comes_after_what_prepares_it() {
        let preparing =
            || ["a", "b", "c"].map(|name| step(&format!("kernels/{name}"), 1, false).preparing(name)).into();
        let parts = in_parts(preparing(), vec![step("right", 1, false), step("a", 1, true), step("c/1", 2, true)]);
        assert_eq!(names(&parts), [vec!["right", "kernels/a"], vec!["a"], vec!["kernels/c"], vec!["c/1"]]);
        let parts = in_parts(preparing(), vec![step("b", 1, true), step("right", 2, false), step("other", 2, true)]);
        assert_eq!(names(&parts), [vec!["kernels/b"], vec!["b"], vec!["right"], vec!["other"]]);
        assert!(in_parts(preparing(), Vec::new()).is_empty());
    }

    #[test]
    fn what_has_failed_comes_last() {
        let folder = std::env::temp_dir().join(format!("epilogue-steps-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut results = Results::open(&folder, "abc", "gpu").expect("results");
        for (step, ok) in [("correctness/gemm/f16", false), ("correctness/gemm/bf16", true)] {
            results.add(step, serde_json::json!({"kind": "end", "ok": ok})).expect("written");
        }
        let results = Results::open(&folder, "abc", "gpu").expect("results");
        let options = Options::of("--only /gemm/f").expect("options");
        let parts = due(&options, &results);
        let names = names(&parts);
        assert!(
            names.len() >= 3
                && names[0].contains(&"correctness/gemm/f32")
                && names[1].iter().all(|n| n.contains("speed"))
        );
        assert_eq!(names.last().map(Vec::as_slice), Some(&["correctness/gemm/f16"][..]));
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn many_timed_steps_are_prepared_some_at_a_time() {
        let numbers = 0..2 * AT_ONCE + 1;
        let preparing = numbers.clone().map(|i| step(&format!("kernels/{i}"), 1, false).preparing(format!("{i}.")));
        let parts = in_parts(preparing.collect(), numbers.map(|i| step(&format!("{i}."), 1, true)).collect());
        let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(lengths, [AT_ONCE, AT_ONCE, AT_ONCE, AT_ONCE, 1, 1]);
        assert!(parts.iter().enumerate().all(|(i, part)| part.iter().all(|step| step.timed == (i % 2 == 1))));
    }

    /// The steps that tell the values of the constants on which the model's choices depend most are in tier 1.
    #[test]
    fn sensitive_constants_are_measured_first() {
        let text = include_str!("../../../tests/golden/ablation.txt");
        let h200 = text.lines().skip_while(|line| !line.starts_with("== kernels for sm_90a")).skip(1);
        let steps = all(On::Cuda);
        let mut sensitive = 0;
        for line in h200.take(8) {
            let (_, by) = line.split_once("; measured by ").expect("a step for every constant");
            let begin = by.split(' ').next().unwrap_or_default();
            assert!(steps.iter().any(|step| step.tier == 1 && step.name.starts_with(begin)), "{line}");
            sensitive += 1;
        }
        assert_eq!(sensitive, 8);
    }

    #[test]
    fn names_are_unique_and_preparations_are_for_something() {
        for on in [On::Cuda, On::Emulated, On::Cpu] {
            let steps = all(on);
            let names: std::collections::BTreeSet<&str> = steps.iter().map(|step| step.name.as_str()).collect();
            assert_eq!(names.len(), steps.len());
            for step in &steps {
                let without = ["machine", "conformance", "peers"].iter().any(|part| step.name.starts_with(part));
                assert_eq!(step.needs_nvrtc, !without, "{}", step.name);
                let Some(of) = &step.prepares else { continue };
                let served = |s: &&Step| s.timed && s.tier == step.tier && s.name.starts_with(of.as_str());
                assert!(!step.timed && steps.iter().any(|s| served(&s)), "{}", step.name);
            }
        }
    }
}
