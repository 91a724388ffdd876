//! Tile primitives on the emulated device, with the race detector on.

mod collective;
mod primitives;
mod reduction;

use epilogue::{Arch, Device};
use epilogue_runtime::ptx_vm::{Detector, Options};
use epilogue_runtime::testing;

/// A device whose launches fail on a race; `None`, with a message, if kernels can't be compiled.
fn device(test: &str) -> Option<Device> {
    testing::compiler(test)?;
    let options = Options::default().detector(Detector::On);
    Some(Device::emulated_with(Arch::SM_80, options).expect("an emulated device"))
}
