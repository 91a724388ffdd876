//! The time that a tier takes, by the estimates of its steps: `--list`.

use std::fmt::Write as _;

use crate::options::Options;
use crate::record::Results;
use crate::step::Step;
use crate::{Outcome, agenda};

/// Cores of the machine that estimates are for.
const CORES: usize = 16;

/// Every step that is asked for, done or not, with its seconds, and when each part of the steps would end.
pub(crate) fn list(options: &Options) -> Outcome<String> {
    agenda::check_only(options)?;
    let parts = agenda::due(options, &Results::none());
    let mut text = String::new();
    let mut total = 0;
    for part in &parts {
        let timed = part.iter().any(|step| step.timed);
        let workers = if timed { 1 } else { agenda::side_by_side(CORES) };
        let seconds = makespan(part, workers);
        for step in part {
            let _ = writeln!(text, "{:6} s  {}", step.seconds, step.name);
        }
        total += seconds;
        let how = if timed { "one after the other".to_owned() } else { format!("{workers} side by side") };
        let _ = writeln!(text, "{seconds:6} s  these {} steps, {how}: {total} s so far\n", part.len());
    }
    let _ = writeln!(
        text,
        "about {total} s on a machine of {CORES} cores, where nothing fails; {} s a call",
        options.budget.as_secs()
    );
    Ok(text)
}

/// Seconds until all steps have ended, with this many at a time, each begun when one before it ends.
fn makespan(steps: &[Step], workers: usize) -> u64 {
    let mut free = vec![0; workers.max(1)];
    for step in steps {
        if let Some(first) = free.iter_mut().min() {
            *first += step.seconds;
        }
    }
    free.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::On;

    #[test]
    fn workers_share() {
        let steps: Vec<Step> = [5, 3, 3].into_iter().map(|s| Step::new("x", 1, s, |_| Ok(Vec::new()))).collect();
        assert_eq!([makespan(&steps, 1), makespan(&steps, 2), makespan(&steps, 9)], [11, 6, 5]);
    }

    /// A call must end within 8 minutes.
    #[test]
    fn tier_1_fits_into_one_call() {
        let options = Options::of("").expect("options");
        assert!(options.tier == 1 && options.on == On::Cuda && options.budget <= Duration::from_secs(465));
        let text = list(&options).expect("steps");
        let last = text.lines().last().unwrap_or_default();
        let total: u64 = last.split_whitespace().nth(1).and_then(|s| s.parse().ok()).expect("seconds");
        assert!(total <= options.budget.as_secs() * 9 / 10, "{last}");
    }
}
