//! Times of work on a GPU: measured with events, with the host far ahead, contenders interleaved, medians.

use epilogue_runtime::{Device, DeviceKind, Kernel, KernelArgument, Launch, Source, Stream};

use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::Machine;

/// Keeps a GPU busy while the host queues the work to be timed, so that no gaps between launches are measured.
const HOLD: &str = "extern \"C\" __global__ void hold(unsigned long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(begin));
    do asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now)); while (now - begin < nanoseconds);
}
";

/// Work that can be queued repeatedly, on buffers in rotation.
pub(crate) struct Contender<'a> {
    pub(crate) name: String,
    /// Queues run number `i`.
    pub(crate) run: Box<dyn FnMut(usize) -> Outcome<()> + 'a>,
}

/// A contender's times of one run, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) name: String,
    pub(crate) median: f64,
    pub(crate) fastest: f64,
    pub(crate) slowest: f64,
}

/// A stream, with what is needed to measure times on it.
pub(crate) struct Timer {
    stream: Stream,
    hold: Option<Kernel>,
}

/// The rounds in which a contender takes part; in each it runs several times in a row.
const ROUNDS: usize = 9;
/// About how long a contender runs in one round, in milliseconds.
const PART: f64 = 4.0;

impl Timer {
    /// Only a GPU is held: elsewhere, launches are done when they return.
    pub(crate) fn new(device: &Device) -> Outcome<Self> {
        let hold = match device.kind() {
            DeviceKind::Cuda { .. } => Some(device.compile(&Source::new("hold.cu", "hold", HOLD))?),
            _ => None,
        };
        Ok(Self { stream: device.default_stream(), hold })
    }

    /// Milliseconds of one of `times` runs in a row, which begin with buffers number `first`.
    fn part(&self, contender: &mut Contender<'_>, first: usize, times: usize, queueing_us: f64) -> Outcome<f64> {
        if let Some(hold) = &self.hold {
            let nanoseconds = ((queueing_us * 1e3 * times as f64) as u64).clamp(20_000, 20_000_000);
            hold.launch(&Launch::default(), &[KernelArgument::Value(&nanoseconds.to_ne_bytes())], &self.stream)?;
        }
        let begin = self.stream.record()?;
        for i in 0..times {
            (contender.run)(first + i)?;
        }
        let end = self.stream.record()?;
        Ok(f64::from(begin.elapsed_ms(&end)?) / times as f64)
    }

    /// A first look: milliseconds per run, from a few runs.
    pub(crate) fn glance(&self, contender: &mut Contender<'_>) -> Outcome<f64> {
        (contender.run)(0)?;
        self.stream.synchronize()?;
        let first = self.part(contender, 1, 3, 30.0)?;
        Ok(first.min(self.part(contender, 4, 5, 30.0)?))
    }

    /// Times all contenders, interleaved: each runs once per round, in turn.
    pub(crate) fn race(&self, contenders: &mut [Contender<'_>]) -> Outcome<Vec<Times>> {
        let rehearsal = self.hold.is_none();
        let rounds = if rehearsal { 1 } else { ROUNDS };
        let mut counts = Vec::new();
        for contender in contenders.iter_mut() {
            (contender.run)(0)?; // compiles, loads, warms up
            self.stream.synchronize()?;
            let start = std::time::Instant::now();
            let once = self.part(contender, 1, if rehearsal { 1 } else { 3 }, 50.0)?;
            let queueing = start.elapsed().as_secs_f64() * 1e6 / 3.0;
            let times = if rehearsal { 1 } else { (PART / once.max(1e-3)).ceil().clamp(1.0, 400.0) as usize };
            counts.push((times, queueing.min(30.0)));
        }
        let mut taken = vec![Vec::new(); contenders.len()];
        for round in 0..rounds {
            for (i, contender) in contenders.iter_mut().enumerate() {
                let (times, queueing) = counts[i];
                taken[i].push(self.part(contender, round * times, times, queueing)?);
            }
        }
        Ok(contenders.iter().zip(taken).map(|(contender, times)| Times::of(contender.name.clone(), times)).collect())
    }
}

impl Times {
    /// The times as a record, with rates that are computed from seconds. In a rehearsal no time has a meaning.
    pub(crate) fn record(&self, machine: &Machine, rates: impl FnOnce(f64) -> Vec<(&'static str, f64)>) -> Value {
        if machine.is_rehearsal() {
            return json!({"name": self.name});
        }
        let Self { name, median, fastest, slowest } = self;
        let mut record = json!({"name": name, "ms": median, "fastest_ms": fastest, "slowest_ms": slowest});
        for (rate, value) in rates(median * 1e-3) {
            record[rate] = json!(value);
        }
        record
    }

    fn of(name: String, mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let (fastest, slowest) = (times[0], times[times.len() - 1]);
        Self { name, median: times[times.len() / 2], fastest, slowest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let times = Times::of("x".into(), vec![5.0, 1.0, 2.0]);
        assert_eq!((times.median, times.fastest, times.slowest), (2.0, 1.0, 5.0));
    }
}
