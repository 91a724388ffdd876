//! Streams, which order work on a device, and events, which mark points in them.

use std::time::Instant;

use crate::device::Device;
use crate::error::{Error, Result};

/// An order of work on a device. Cloning gives another handle of the same stream.
///
/// On the CPU and on emulated devices work is finished when the call that asks for it returns, so every stream is
/// always idle.
#[derive(Clone, Debug)]
pub struct Stream {
    device: Device,
}

impl Stream {
    pub(crate) fn immediate(device: Device) -> Self {
        Self { device }
    }

    /// The device whose work it orders.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until all work put on the stream is done.
    ///
    /// # Errors
    /// A fault of that work.
    pub fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    /// Marks this point of the stream.
    ///
    /// # Errors
    /// What the driver fails with.
    pub fn record(&self) -> Result<Event> {
        Ok(Event { device: self.device.clone(), instant: Instant::now() })
    }

    /// Lets later work of this stream start only after `event`.
    ///
    /// # Errors
    /// [`Error::Device`] for an event of another device.
    pub fn wait(&self, event: &Event) -> Result<()> {
        if event.device == self.device {
            Ok(())
        } else {
            let (given, needed) = (event.device.to_string(), self.device.to_string());
            Err(Error::Device { what: "the event", given, needed })
        }
    }
}

/// A point in a stream.
#[derive(Clone, Debug)]
pub struct Event {
    device: Device,
    instant: Instant,
}

impl Event {
    /// Milliseconds from this event to `later`. Waits for both.
    ///
    /// # Errors
    /// [`Error::Event`] for events of different devices.
    pub fn elapsed_ms(&self, later: &Self) -> Result<f32> {
        if self.device != later.device {
            return Err(Error::Event { reason: "they belong to different devices" });
        }
        Ok(later.instant.saturating_duration_since(self.instant).as_secs_f32() * 1e3)
    }
}
