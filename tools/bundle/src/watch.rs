//! The GPU's clocks, power and temperature while the steps run, as nvidia-smi reports them several times a second.
//!
//! A time means little without the clock that it was measured at: under its power limit, a GPU multiplies random numbers
//! a quarter slower than at its boost clock.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::machine::tool;
use crate::options::On;
use crate::process;

/// The queried fields, and their names in records, with units.
const FIELDS: [(&str, &str); 5] = [
    ("clocks.sm", "sm_mhz"),
    ("clocks.mem", "memory_mhz"),
    ("power.draw", "watts"),
    ("power.limit", "limit_watts"),
    ("temperature.gpu", "celsius"),
];

/// The time between two reports.
const BETWEEN: Duration = Duration::from_millis(200);

/// One report; NaN for what this GPU does not tell.
type Sample = [f64; FIELDS.len()];

/// Reports since the start.
pub(crate) struct Watch {
    samples: Arc<Mutex<Vec<(Instant, Sample)>>>,
    child: Option<Child>,
}

impl Watch {
    /// Watches the first GPU; nothing in a rehearsal, or without nvidia-smi.
    pub(crate) fn start(on: On) -> Self {
        if on != On::Cuda {
            return Self { samples: Arc::default(), child: None };
        }
        let fields: Vec<&str> = FIELDS.iter().map(|(field, _)| *field).collect();
        let mut command = Command::new(tool("nvidia-smi"));
        command.args(["--id=0", "--format=csv,noheader,nounits"]).arg(format!("--query-gpu={}", fields.join(",")));
        Self::of(command.arg(format!("--loop-ms={}", BETWEEN.as_millis())))
    }

    /// Watches what a program prints.
    fn of(command: &mut Command) -> Self {
        let samples: Arc<Mutex<Vec<_>>> = Arc::default();
        let command = process::in_a_group(command);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok();
        if let Some(output) = child.as_mut().and_then(|child| child.stdout.take()) {
            let samples = Arc::clone(&samples);
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if let Some(sample) = read(&line) {
                        samples.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), sample));
                    }
                }
            });
        }
        Self { samples, child }
    }

    /// The least, the middle and the largest of each field from `begin` to `end`; of the last report before the end if
    /// none falls in between. Null if there is none.
    pub(crate) fn seen(&self, begin: Instant, end: Instant) -> Value {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inside: Vec<&Sample> =
            samples.iter().filter(|(at, _)| (begin..=end).contains(at)).map(|(_, sample)| sample).collect();
        if inside.is_empty() {
            inside.extend(samples.iter().rev().find(|(at, _)| *at <= end).map(|(_, sample)| sample));
        }
        if inside.is_empty() {
            return Value::Null;
        }
        let mut seen = Map::new();
        for (i, (_, name)) in FIELDS.iter().enumerate() {
            let mut values: Vec<f64> = inside.iter().map(|sample| sample[i]).filter(|x| x.is_finite()).collect();
            values.sort_by(f64::total_cmp);
            if let (Some(least), Some(most)) = (values.first(), values.last()) {
                seen.insert((*name).to_owned(), json!([least, values[values.len() / 2], most]));
            }
        }
        Value::Object(seen)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            process::end(child);
        }
    }
}

/// Reads a line; `None` if it has another number of fields.
fn read(line: &str) -> Option<Sample> {
    let values: Vec<f64> = line.split(',').map(|field| field.trim().parse().unwrap_or(f64::NAN)).collect();
    values.try_into().ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn reports_are_summed_up_between_two_times() {
        let script = "echo '1980, 2619, 120.5, 700.0, 35'; echo no GPU; echo '1500, 2619, 690.0, [N/A], 60'; \
                      echo '1600, 2619, 699.0, [N/A], 61'; sleep 60";
        let begin = Instant::now();
        let watch = Watch::of(Command::new("sh").args(["-c", script]));
        while watch.samples.lock().expect("samples").len() < 3 && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let now = Instant::now();
        let expected = json!({
            "sm_mhz": [1500.0, 1600.0, 1980.0],
            "memory_mhz": [2619.0, 2619.0, 2619.0],
            "watts": [120.5, 690.0, 699.0],
            "limit_watts": [700.0, 700.0, 700.0],
            "celsius": [35.0, 60.0, 61.0],
        });
        assert_eq!(watch.seen(begin, now), expected);
        // A step that no report falls into has the last one before its end.
        assert_eq!(watch.seen(now, now + Duration::from_millis(1))["sm_mhz"], json!([1600.0, 1600.0, 1600.0]));
        assert_eq!(watch.seen(begin, begin), Value::Null);
    }

    #[test]
    fn without_a_gpu_nothing_is_seen() {
        let watch = Watch::start(On::Cpu);
        assert!(watch.child.is_none() && watch.seen(Instant::now(), Instant::now()).is_null());
        assert!(Watch::of(&mut Command::new("/no such program")).seen(Instant::now(), Instant::now()).is_null());
    }
}
