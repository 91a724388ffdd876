//! The description of a device as text: each number by which kernels are chosen, and its origin.

use std::fmt::Write;

use crate::device::gpu_model::GpuModel;
use crate::device::properties::Properties;
use crate::device::{Device, DeviceKind};
use crate::optimisation::without_optimisation;

/// An attribute: its name, and its places in two sets of properties.
type Attribute = (&'static str, fn(&Properties) -> u64, fn(&mut Properties, &Properties));

macro_rules! attribute {
    ($name:literal, $field:ident) => {
        ($name, |p| u64::from(p.$field), |to, from| to.$field = from.$field)
    };
}

/// The attributes that a driver may leave out.
const ATTRIBUTES: [Attribute; 10] = [
    attribute!("multiprocessors", multiprocessors),
    attribute!("shared memory of a block", shared_bytes_per_block),
    attribute!("shared memory of a multiprocessor", shared_bytes_per_multiprocessor),
    attribute!("registers of a multiprocessor", registers_per_multiprocessor),
    attribute!("threads of a multiprocessor", threads_per_multiprocessor),
    attribute!("L2", l2_bytes),
    attribute!("clock", clock_khz),
    attribute!("memory's clock", memory_clock_khz),
    attribute!("memory's bus", memory_bus_bits),
    attribute!("power limit", power_milliwatts),
];

impl Properties {
    /// The properties with each number that a driver left out or gave as 0, and the names of those. They are the known
    /// GPU's of this name, else those of a GPU of the same class: the compute capability, or the newest known before it.
    #[must_use]
    pub fn completed(&self) -> (Self, Vec<&'static str>) {
        let class = || GpuModel::of_capability(self.arch?.capability());
        let Some(model) = GpuModel::of_driver(&self.name).or_else(class) else { return (self.clone(), Vec::new()) };
        let (known, mut completed, mut missing) = (model.properties(), self.clone(), Vec::new());
        for (name, value, set) in ATTRIBUTES {
            if value(self) == 0 {
                missing.push(name);
                set(&mut completed, &known);
            }
        }
        (completed, missing)
    }
}

impl Device {
    /// The numbers by which kernels are chosen, as text. It names those that the driver did not tell. For a CPU or
    /// an emulated GPU, it also says if the library was compiled without optimisation, and what to do.
    ///
    /// ```
    /// use epilogue_runtime::bundle::Builder;
    /// use epilogue_runtime::Device;
    ///
    /// let rtx = Builder::new().target("RTX 4090".parse()?).describe();
    /// assert!(rtx.contains("128 multiprocessors at 2.52 GHz") && rtx.contains("1008 GB/s"), "{rtx}");
    /// assert!(rtx.contains("256 multiply-adds of f16"), "{rtx}");
    /// assert!(Device::cpu().describe().contains("threads with "));
    /// # Ok::<(), epilogue_runtime::ParseGpuModelError>(())
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        let given = self.properties();
        let (p, missing) = given.completed();
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let mut text = format!("{self}: {}\n", p.name);
        let Some(rates) = p.rates() else {
            let instructions = self.cpu_level().map_or_else(String::new, |level| format!(" with {level}"));
            let _ = writeln!(
                text,
                "{} threads{instructions}, {:.1} MiB of L2 for a core, {:.0} GiB of memory",
                p.multiprocessors,
                mebibytes(p.l2_bytes),
                mebibytes(p.memory_bytes) / 1024.0
            );
            self.say_slow(&mut text);
            return text;
        };
        let gigahertz = |kilohertz: u32| f64::from(kilohertz) * 1e-6;
        let _ = writeln!(
            text,
            "{} multiprocessors at {:.2} GHz, each with {} KiB of shared memory ({} KiB for a block), {} registers and {} \
             threads",
            p.multiprocessors,
            gigahertz(p.clock_khz),
            p.shared_bytes_per_multiprocessor >> 10,
            p.shared_bytes_per_block >> 10,
            p.registers_per_multiprocessor,
            p.threads_per_multiprocessor
        );
        let _ = writeln!(
            text,
            "{:.0} GiB of memory at {:.0} GB/s ({:.2} GHz, {} bits), {:.0} MiB of L2, {:.0} W",
            mebibytes(p.memory_bytes) / 1024.0,
            p.memory_gigabytes_per_second(),
            gigahertz(p.memory_clock_khz),
            p.memory_bus_bits,
            mebibytes(p.l2_bytes),
            f64::from(p.power_milliwatts) * 1e-3
        );
        let _ = writeln!(
            text,
            "a multiprocessor in a clock, by the compute capability and the name: {} multiply-adds of f16 (wgmma {}), {} of \
             8-bit integers, {} of f32, {} of f64; {} bytes from the L2",
            rates.mma, rates.wgmma, rates.mma_int8, rates.f32, rates.f64, rates.l2_bytes
        );
        if !missing.is_empty() {
            let _ = writeln!(
                text,
                "not told by the driver, so a known GPU's of this name or class: {}",
                missing.join(", ")
            );
        }
        self.say_slow(&mut text);
        text
    }

    /// Adds what to do if the processor computes by code without optimisation.
    fn say_slow(&self, text: &mut String) {
        let on_the_processor = matches!(self.kind(), DeviceKind::Cpu | DeviceKind::Emulated { .. });
        if let Some(advice) = without_optimisation().filter(|_| on_the_processor) {
            let _ = writeln!(text, "{advice}");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::arch::Arch;
    use crate::device::gpu_model::GpuModel;

    #[test]
    fn what_a_driver_leaves_out_is_of_the_name_or_the_class() {
        let mut given = "L4".parse::<GpuModel>().unwrap().properties();
        assert_eq!(given.completed(), (given.clone(), Vec::new()));
        (given.memory_clock_khz, given.power_milliwatts) = (0, 0);
        let (completed, missing) = given.completed();
        assert_eq!((completed.memory_clock_khz, completed.power_milliwatts), (6_251_000, 72_000));
        assert_eq!(missing, ["memory's clock", "power limit"]);
        // A GPU that nobody listed.
        (given.name, given.arch) = ("NVIDIA B999".into(), Some(Arch::of_device(10, 7)));
        let (completed, _) = given.completed();
        assert_eq!((completed.memory_clock_khz, completed.multiprocessors), (3_996_000, 58));
    }
}
