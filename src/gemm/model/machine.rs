//! The properties of a GPU that the model uses: its attributes, and what its compute capability and name tell.

use epilogue_runtime::{Arch, GpuModel, POWER_EXPONENT, Properties, Rates};

use crate::gemm::families::list::Constants;

/// A GPU's limits and speeds, per multiprocessor and clock unless stated otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The architecture.
    pub arch: Arch,
    /// Streaming multiprocessors.
    pub multiprocessors: usize,
    /// The most shared memory of one block, in bytes.
    pub shared_per_block: usize,
    /// The shared memory of a multiprocessor, in bytes.
    pub shared: usize,
    /// The 32-bit registers of a multiprocessor.
    pub registers: usize,
    /// The most threads that a multiprocessor can hold.
    pub threads: usize,
    /// Clock in GHz.
    pub clock: f64,
    /// Multiply-adds.
    pub rates: Rates,
    /// The clock in GHz that the board's power allows while the tensor cores multiply 16-bit types at their full rate.
    /// Launches follow each other at once. It may be above [`clock`](Self::clock): then nothing is limited.
    pub power_clock: f64,
    /// Bandwidth of the L2 cache in GB/s, for all multiprocessors together. The L2 has its own clock, so it is not
    /// given per clock.
    pub l2_gigabytes_per_second: f64,
    /// Bytes per clock between the L2 and one multiprocessor.
    pub l2_port_bytes_per_clock: f64,
    /// Bytes per clock from memory, for each multiprocessor.
    pub memory_bytes_per_clock: f64,
    /// The model's constants.
    pub constants: Constants,
}

/// Shared memory that the driver reserves in every block (CUDA C++ Programming Guide, "Compute Capability 8.x").
pub(crate) const RESERVED_SHARED: usize = 1024;

/// The share of the memory's bandwidth that reads reach: 2.87 of an H100's 3.35 TB/s for 132 MB and 2.92 to 2.97 for 1.9 GB,
/// 4.2 of an H200's 4.92 (`benches/published`: vLLM, DeepGEMM and cuBLAS; TileOPs' largest GEMV).
const SUSTAINED_MEMORY: f64 = 0.856;

/// The L2's bytes per clock that one multiprocessor can take.
const L2_PORT: f64 = 64.0;

impl Machine {
    /// NVIDIA A100-SXM4-40GB.
    #[must_use]
    pub fn a100() -> Self {
        Self::of_model(GpuModel::A100)
    }

    /// NVIDIA H100-SXM5.
    #[must_use]
    pub fn h100() -> Self {
        Self::of_model(GpuModel::H100)
    }

    /// NVIDIA H200-SXM5.
    #[must_use]
    pub fn h200() -> Self {
        Self::of_model(GpuModel::H200)
    }

    /// A GPU that is known by name.
    #[must_use]
    pub fn of_model(model: GpuModel) -> Self {
        let properties = model.properties();
        // Every known GPU has rates: a test reads them all.
        Self::with(&properties, properties.rates().unwrap_or(NO_RATES))
    }

    /// The numbers of a device: its driver's attributes. If the driver does not report a number, a known GPU of this
    /// name or class gives it ([`Properties::completed`]). `None` for the CPU, and before compute capability 8.0.
    #[must_use]
    pub fn of(properties: &Properties) -> Option<Self> {
        let (completed, _) = properties.completed();
        completed.rates().map(|rates| Self::with(&completed, rates))
    }

    fn with(properties: &Properties, rates: Rates) -> Self {
        let (multiprocessors, clock) = (properties.multiprocessors as usize, f64::from(properties.clock_khz) * 1e-6);
        // Clocks of all multiprocessors in a nanosecond.
        let clocks = f64::from(properties.multiprocessors.max(1)) * clock.max(f64::MIN_POSITIVE);
        // Watts for 1024 multiply-adds in a clock.
        let multiply_adds = f64::from(properties.multiprocessors.max(1)) * rates.mma.max(rates.wgmma).max(1.0);
        let of_one = f64::from(properties.power_milliwatts) * 1e-3 * 1024.0 / multiply_adds;
        Self {
            arch: properties.arch.unwrap_or(Arch::SM_80),
            multiprocessors,
            shared_per_block: properties.shared_bytes_per_block as usize,
            shared: properties.shared_bytes_per_multiprocessor as usize,
            registers: properties.registers_per_multiprocessor as usize,
            threads: properties.threads_per_multiprocessor as usize,
            clock,
            rates,
            power_clock: rates.clock_of_a_watt * of_one.powf(POWER_EXPONENT),
            l2_gigabytes_per_second: rates.l2_bytes * clocks,
            l2_port_bytes_per_clock: L2_PORT,
            memory_bytes_per_clock: SUSTAINED_MEMORY * properties.memory_gigabytes_per_second() / clocks,
            constants: Constants::ESTIMATED,
        }
    }

    /// Bytes per clock that a multiprocessor gets from the L2: an equal share, limited by the multiprocessor's port.
    pub(crate) fn l2_bytes_per_clock(&self) -> f64 {
        let share = self.l2_gigabytes_per_second / (self.multiprocessors.max(1) as f64 * self.clock);
        share.min(self.l2_port_bytes_per_clock)
    }

    /// The machine for launches with gaps between them, in which the board takes little power: their clock is higher.
    #[must_use]
    pub fn in_bursts(self) -> Self {
        Self { power_clock: self.power_clock * self.constants.launches.burst_clock, ..self }
    }
}

/// The rates of no GPU.
const NO_RATES: Rates =
    Rates { mma: 0.0, mma_int8: 0.0, wgmma: 0.0, f32: 0.0, f64: 0.0, l2_bytes: 0.0, clock_of_a_watt: 0.0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_gpus_have_numbers() {
        for model in GpuModel::all() {
            let machine = Machine::of_model(model);
            let numbers = [
                machine.clock,
                machine.power_clock,
                machine.rates.mma,
                machine.l2_bytes_per_clock(),
                machine.memory_bytes_per_clock,
            ];
            assert!(numbers.iter().all(|number| number.is_finite() && *number > 0.0), "{model}: {machine:?}");
            assert_eq!(Machine::of(&model.properties()), Some(machine));
        }
        assert_eq!(Machine::of(epilogue_runtime::Device::cpu().properties()), None);
    }

    /// GPUs differ only in their attributes. A 4090 has the memory of its data sheet and half of an L40S's rate. An
    /// H100 on a card has less power for each SM.
    #[test]
    fn speeds_follow_attributes() {
        let of = |name: &str| Machine::of_model(name.parse().expect("a GPU"));
        let (rtx, l40s) = (of("RTX 4090"), of("L40S"));
        let gigabytes = |m: &Machine| m.memory_bytes_per_clock * m.multiprocessors as f64 * m.clock;
        assert!((gigabytes(&rtx) - 863.0).abs() < 1.0 && rtx.rates.mma * 2.0 == l40s.rates.mma);
        assert!(of("H100 PCIe").power_clock < 0.8 * Machine::h100().power_clock);
        assert!(Machine::h100().in_bursts().power_clock > Machine::h100().power_clock);
        assert!(rtx.power_clock > rtx.clock && of("L4").power_clock < of("L4").clock);
        let mut unknown = "L4".parse::<GpuModel>().expect("a GPU").properties();
        (unknown.name, unknown.memory_bus_bits) = ("NVIDIA L5".into(), 0);
        let machine = Machine::of(&unknown).expect("a GPU");
        assert_eq!(machine.multiprocessors, 58);
        assert!((gigabytes(&machine) / gigabytes(&of("L4")) - 2.0).abs() < 0.01, "the bus of its class");
    }
}
