//! Runs a program in many schedules, to find errors that only some of them show. Looks for the smallest schedule that
//! shows one.
//!
//! In nearly every schedule the race detector finds accesses that no synchronisation orders. Errors that depend on the
//! schedule, such as a deadlock, a wrong value or a rare path, are found by running many schedules.

use std::collections::BTreeMap;

use crate::options::{Completion, Detector, Options};

/// A schedule that can be repeated: [`Options::completion`], [`Options::weak_memory`], [`Options::seed`] and
/// [`Options::random_choices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// When asynchronous work takes effect.
    pub completion: Completion,
    /// Whether strong reads may see older values.
    pub weak_memory: bool,
    /// The seed.
    pub seed: u64,
    /// The number of random choices.
    pub random_choices: u64,
}

impl Schedule {
    /// These options with this schedule.
    #[must_use]
    pub fn apply(self, options: &Options) -> Options {
        let options = options.clone().workers(1).completion(self.completion).weak_memory(self.weak_memory);
        options.seed(self.seed).random_choices(self.random_choices)
    }
}

/// The result of running many schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exploration {
    /// The number of schedules that were run.
    pub runs: u32,
    /// Every finding, as the caller's text, and the number of schedules that found it.
    pub found: BTreeMap<String, u32>,
    /// A finding of the first schedule that had any, and the smallest schedule that is known to find it.
    pub first: Option<(String, Schedule)>,
}

/// Runs `run` in `runs` schedules: an eager one, a lazy one, and random ones with seeds from [`Options::seed`] on.
/// Every second random one has weak memory (all of them, if [`Options::weak_memory`] is set). All use one worker and
/// the race detector. The first schedule that finds something is minimised. `run` must make a machine with the given
/// options, launch, and give what was wrong as texts.
///
/// ```
/// use ptx_vm::{Launch, Machine, Module, Options, explore};
/// let module = Module::parse(
///     ".version 8.0\n.target sm_80\n.address_size 64
///      .visible .entry races() {
///          .shared .b32 word; .reg .b32 %r<2>;
///          mov.u32 %r1, %tid.x;
///          st.shared.u32 [word], %r1;
///          ret;
///      }",
/// )?;
/// let exploration = explore(4, &Options::default(), |options| {
///     let launch = Launch::new([1, 1, 1], [64, 1, 1]);
///     match Machine::new(options.clone()).launch(&module, "races", &launch, &[]) {
///         Ok(report) => report.races.iter().map(ToString::to_string).collect(),
///         Err(failure) => vec![failure.to_string()],
///     }
/// });
/// assert!(exploration.found.values().all(|&runs| runs == 4) && !exploration.found.is_empty());
/// # Ok::<(), ptx_vm::ParseError>(())
/// ```
pub fn explore(runs: u32, options: &Options, mut run: impl FnMut(&Options) -> Vec<String>) -> Exploration {
    let options = options.clone().detector(Detector::On);
    let mut exploration = Exploration { runs, ..Exploration::default() };
    for number in 0..runs {
        let schedule = Schedule {
            completion: match number {
                0 => Completion::Eager,
                1 => Completion::Lazy,
                _ => Completion::Random,
            },
            weak_memory: options.weak_memory || number > 2 && number % 2 != 0,
            seed: options.seed.wrapping_add(number.into()),
            random_choices: u64::MAX,
        };
        let mut found = run(&schedule.apply(&options));
        found.sort_unstable();
        found.dedup();
        if let (None, Some(first)) = (&exploration.first, found.first()) {
            exploration.first = Some((first.clone(), schedule));
        }
        for text in found {
            *exploration.found.entry(text).or_default() += 1;
        }
    }
    if let Some((text, schedule)) = exploration.first.take() {
        let smallest = minimise(schedule, |schedule| run(&schedule.apply(&options)).contains(&text));
        exploration.first = Some((text, smallest));
    }
    exploration
}

/// The schedule with the fewest random choices that still finds it, as far as halving can tell: with more choices,
/// something that fewer choices find may be missed.
fn minimise(schedule: Schedule, mut finds: impl FnMut(Schedule) -> bool) -> Schedule {
    /// Larger numbers of choices are not tried one by one.
    const MOST: u64 = 1 << 20;
    if schedule.completion != Completion::Random && !schedule.weak_memory {
        return schedule;
    }
    let with = |random_choices: u64| Schedule { random_choices, ..schedule };
    if finds(with(0)) {
        return with(0);
    }
    let (mut missed, mut found) = (0, 1);
    while !finds(with(found)) {
        if found >= MOST {
            return schedule;
        }
        (missed, found) = (found, found * 2);
    }
    while found - missed > 1 {
        let middle = missed + (found - missed) / 2;
        if finds(with(middle)) { found = middle } else { missed = middle }
    }
    with(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: Schedule =
        Schedule { completion: Completion::Random, weak_memory: false, seed: 3, random_choices: u64::MAX };

    #[test]
    fn the_fewest_choices_are_found() {
        for least in [0, 1, 2, 7, 100, 4097] {
            let smallest = minimise(RANDOM, |schedule| schedule.random_choices >= least);
            assert_eq!(smallest, Schedule { random_choices: least, ..RANDOM });
        }
        assert_eq!(minimise(RANDOM, |schedule| schedule.random_choices == u64::MAX), RANDOM);
    }
}
