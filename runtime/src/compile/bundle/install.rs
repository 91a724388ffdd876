//! Gives a bundle to a device.

use super::error::BundleError;
use super::opened::Bundle;
use crate::device::Device;
use crate::trace;

impl Bundle {
    /// Gives the bundle to a device, in addition to those that it has. From now on the device takes its kernels from
    /// bundles, and compiles nothing. On a GPU this affects all handles of that GPU in the process. Kernels that are
    /// already loaded stay.
    ///
    /// # Errors
    /// [`BundleError::NotForDevice`] if the bundle has no kernel that the device can run.
    pub fn install(&self, device: &Device) -> Result<(), BundleError> {
        if !device.kernel_form().is_some_and(|(arch, form)| self.serves(arch, form)) {
            return Err(BundleError::NotForDevice { device: device.to_string(), holds: self.all_targets() });
        }
        device.add_bundle(self.clone());
        let (kernels, made_by) = (self.kernels().len(), self.made_by());
        trace::event!(INFO, "bundle installed", device = trace::text(device), kernels = kernels, made_by = made_by);
        Ok(())
    }
}
