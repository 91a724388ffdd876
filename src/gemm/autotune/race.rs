//! Finds the fastest of some contenders: interleaved runs, medians.

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How often every contender is measured.
    pub(crate) rounds: usize,
    /// The least time that one measurement should take, in microseconds, so that the clock's resolution and the
    /// launches' cost matter little.
    pub(crate) microseconds: f64,
    /// The most runs in one measurement: as many launches as can queue up while the cache is cleared.
    pub(crate) most_runs: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rounds: 9, microseconds: 300.0, most_runs: 15 }
    }
}

impl Pace {
    /// How many measurements a race of this many is.
    pub(crate) const fn measurements(&self, contenders: usize) -> usize {
        contenders * (WARMING + self.rounds)
    }
}

/// Measurements of every contender before those that count.
const WARMING: usize = 2;

/// The median time of every contender. `measure` runs a contender the given number of times and returns the time of one
/// run.
///
/// The contenders take turns, so that changes over time (clocks, temperature) affect all alike.
pub(crate) fn race<Failure>(
    contenders: usize,
    pace: &Pace,
    mut measure: impl FnMut(usize, u32) -> Result<f64, Failure>,
) -> Result<Vec<f64>, Failure> {
    let mut runs = Vec::with_capacity(contenders);
    for contender in 0..contenders {
        // `WARMING` of them: the first run is of cold caches.
        measure(contender, 1)?;
        let once = measure(contender, 2)?.max(0.1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        runs.push((pace.microseconds / once).ceil().clamp(1.0, f64::from(pace.most_runs)) as u32);
    }
    let mut times = vec![Vec::with_capacity(pace.rounds); contenders];
    for _ in 0..pace.rounds {
        for (contender, times) in times.iter_mut().enumerate() {
            times.push(measure(contender, runs[contender])?);
        }
    }
    Ok(times.into_iter().map(median).collect())
}

/// The contender with the least time, and that time; the first of equal ones.
pub(crate) fn fastest(times: &[f64]) -> Option<(usize, f64)> {
    times.iter().copied().enumerate().min_by(|x, y| x.1.total_cmp(&y.1))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_fastest_wins_in_spite_of_outliers_and_drift() {
        let truth = [30.0, 20.0, 25.0, 400.0];
        let (mut calls, mut most) = (0u32, 0);
        let times = race(truth.len(), &Pace::default(), |contender, runs| {
            calls += 1;
            most = most.max(runs);
            let drift = 1.0 + 0.002 * f64::from(calls); // the clock slows down for all alike
            let outlier = if calls.is_multiple_of(7) { 10.0 } else { 1.0 };
            Ok::<_, Infallible>(truth[contender] * drift * outlier)
        });
        let times = times.unwrap_or_default();
        assert_eq!(fastest(&times).map(|(winner, _)| winner), Some(1));
        assert_eq!(calls as usize, Pace::default().measurements(truth.len()));
        assert_eq!(most, 15, "as many runs as make 300 microseconds");
    }

    #[test]
    fn nothing_wins_among_none() {
        assert_eq!(race(0, &Pace::default(), |_, _| Ok::<_, Infallible>(1.0)), Ok(Vec::new()));
        assert_eq!(fastest(&[]), None);
    }

    #[test]
    fn a_failure_ends_the_race() {
        assert_eq!(
            race(2, &Pace::default(), |contender, _| if contender == 1 { Err("no") } else { Ok(1.0) }),
            Err("no")
        );
    }
}
