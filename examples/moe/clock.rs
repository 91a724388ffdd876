//! The time of each part of a block.

use std::time::{Duration, Instant};

use epilogue::Device;

use crate::Result;

/// The times of parts, in the order in which they first ran.
pub(crate) struct Clock {
    device: Device,
    parts: Vec<(&'static str, Vec<Duration>)>,
}

impl Clock {
    pub(crate) fn new(device: &Device) -> Self {
        Self { device: device.clone(), parts: Vec::new() }
    }

    /// Does a part's work, and waits until the device has done it.
    pub(crate) fn time<T>(&mut self, part: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        let result = work()?;
        self.device.default_stream().synchronize()?;
        let time = begin.elapsed();
        match self.parts.iter_mut().find(|(name, _)| *name == part) {
            Some((_, times)) => times.push(time),
            None => self.parts.push((part, vec![time])),
        }
        Ok(result)
    }

    /// Forgets what was, such as the first run, which compiles kernels.
    pub(crate) fn reset(&mut self) {
        self.parts.clear();
    }

    /// The median of each part, in milliseconds.
    pub(crate) fn medians(&self) -> Vec<(&'static str, f64)> {
        let median = |times: &[Duration]| {
            let mut sorted = times.to_vec();
            sorted.sort_unstable();
            sorted[sorted.len() / 2].as_secs_f64() * 1e3
        };
        self.parts.iter().map(|(name, times)| (*name, median(times))).collect()
    }
}
