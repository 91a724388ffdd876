//! Gives a bundle to a device.

use super::error::BundleError;
use super::opened::Bundle;
use crate::device::{Device, DeviceKind};
use crate::trace;

impl Bundle {
    /// Gives the bundle to a device, in addition to those that it has. From now on the device takes its kernels from
    /// bundles, and compiles nothing. On a GPU this affects all handles of that GPU in the process. Kernels that are
    /// already loaded stay.
    ///
    /// The CPU runs no kernels, so it needs none: there the bundle is for other machines, and nothing is done. So a program
    /// gives its bundle to [`Device::best`] on machines with a GPU and without one.
    ///
    /// # Errors
    /// [`BundleError::NotForDevice`] if the device is a GPU and the bundle has no kernel that it can run.
    pub fn install(&self, device: &Device) -> Result<(), BundleError> {
        if device.kind() == DeviceKind::Cpu {
            trace::event!(INFO, "the CPU needs no bundle", made_by = self.made_by());
            return Ok(());
        }
        if !device.kernel_form().is_some_and(|(arch, form)| self.serves(arch, form)) {
            return Err(BundleError::NotForDevice { device: device.to_string(), holds: self.all_targets() });
        }
        device.add_bundle(self.clone());
        let (kernels, made_by) = (self.kernels().len(), self.made_by());
        trace::event!(INFO, "bundle installed", device = trace::text(device), kernels = kernels, made_by = made_by);
        Ok(())
    }
}
