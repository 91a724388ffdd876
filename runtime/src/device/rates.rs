//! Speeds of a GPU that no attribute of its driver tells: by compute capability, and by one rule on names.

use crate::device::properties::Properties;

/// Multiply-adds of one multiprocessor in a clock, and what else follows from the compute capability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// `mma.sync` of f16 and bf16 with f32 accumulators. TF32 has half of it.
    pub mma: f64,
    /// `mma.sync` of 8-bit integers.
    pub mma_int8: f64,
    /// `wgmma` and `tcgen05.mma` of f16 and bf16. 8-bit types have twice of it, TF32 half. 0 where there is none.
    pub wgmma: f64,
    /// `fma` of f32.
    pub f32: f64,
    /// f64, by whichever instruction is faster.
    pub f64: f64,
    /// Bytes from the L2, while all multiprocessors read.
    pub l2_bytes: f64,
    /// The clock in GHz that power allows while the tensor cores multiply, if the board has 1 W for each multiprocessor
    /// of 1024 multiply-adds. [`POWER_EXPONENT`] says how it grows with the power.
    pub clock_of_a_watt: f64,
}

/// The clock that the power limit allows is proportional to the power to this exponent. 300 W in place of 600 W cost an
/// RTX PRO 6000 45 % of its speed; 250 W in place of 400 W cost an A100 20 %. With 350 W in place of 700 W, an H100's
/// multiprocessor lost 25 % (`benches/published`).
pub const POWER_EXPONENT: f64 = 0.65;

/// The table. Rates of tensor cores: white papers of A100 (table 3), GA102 (table 2), AD102 (appendix A) and H100 (table 3).
/// RTX Blackwell's are in its white paper (appendix A), Orin's in Jetson AGX Orin's data sheet. `mma.sync` on an H100
/// has 62 % of `wgmma`'s rate, as others measured. f32 and f64: CUDA C++
/// Programming Guide, "Throughput of Native Arithmetic Instructions". The L2: A100 and H100 as in their white papers and
/// DeepGEMM's heuristics; B200's as far as a kernel of single blocks needs for its published 1,054 TFLOP/s (learn-cuda,
/// 02e_matmul_sm100); others are estimates. Power: fitted to `benches/published`.
const TABLE: [((u8, u8), Rates); 10] = {
    const fn of(mma: f64, [wgmma, f32, f64, l2_bytes]: [f64; 4], clock_of_a_watt: f64) -> Rates {
        Rates { mma, mma_int8: 2.0 * mma, wgmma, f32, f64, l2_bytes, clock_of_a_watt }
    }
    [
        ((8, 0), of(1024.0, [0.0, 64.0, 64.0, 47.3], 0.57)),
        ((8, 6), of(512.0, [0.0, 128.0, 2.0, 20.0], 0.39)),
        ((8, 7), of(1024.0, [0.0, 128.0, 2.0, 20.0], 0.39)),
        ((8, 9), of(512.0, [0.0, 128.0, 2.0, 20.0], 0.59)),
        ((9, 0), of(1280.0, [2048.0, 128.0, 128.0, 30.6], 0.78)),
        ((10, 0), of(1024.0, [4096.0, 128.0, 64.0, 45.0], 0.763)),
        ((10, 3), of(1024.0, [4096.0, 128.0, 2.0, 45.0], 0.763)),
        ((11, 0), of(1024.0, [0.0, 128.0, 2.0, 20.0], 0.59)),
        ((12, 0), of(512.0, [0.0, 128.0, 2.0, 20.0], 0.59)),
        ((12, 1), of(512.0, [0.0, 128.0, 2.0, 20.0], 0.59)),
    ]
};

/// The rule on names. NVIDIA sells some GPUs with part of their tensor cores' rate, which shows in the name only: a word of
/// it, the share of the rate with f32 accumulators, and the share of the integers'. GeForce: white papers of GA102, AD102
/// and RTX Blackwell, "FP16 with FP32 accumulate". The others: their data sheets' TFLOP/s over multiprocessors and clock.
const REDUCED: [(&str, f64, f64); 5] =
    [("GeForce", 0.5, 1.0), ("A10G", 0.5, 0.5), ("L20", 0.5, 0.5), ("L2", 0.5, 0.5), ("H20", 0.25, 0.25)];

impl Properties {
    /// The rates that the compute capability and the name tell; those of the newest known capability before an unknown one. `None`
    /// on the CPU, and before compute capability 8.0.
    #[must_use]
    pub fn rates(&self) -> Option<Rates> {
        let capability = self.arch?.capability();
        let (_, rates) = TABLE.iter().rev().find(|(known, _)| *known <= capability)?;
        let reduced = REDUCED.iter().find(|(word, ..)| self.name.split_whitespace().any(|own| own == *word));
        let (real, integer) = reduced.map_or((1.0, 1.0), |(_, real, integer)| (*real, *integer));
        Some(Rates { mma: rates.mma * real, mma_int8: rates.mma_int8 * integer, wgmma: rates.wgmma * real, ..*rates })
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::arch::Arch;
    use crate::device::gpu_model::GpuModel;

    /// TFLOP/s of 16-bit types with f32 accumulators in the data sheets, without sparsity.
    #[test]
    fn peaks_are_those_of_the_data_sheets() {
        let sheets = [
            ("A100 SXM 40GB", 312.0),
            ("A10", 125.0),
            ("A10G", 70.0),
            ("A40", 149.7),
            ("RTX 3090", 71.0),
            ("L4", 121.0),
            ("L20", 119.5),
            ("L40S", 362.0),
            ("RTX 4090", 165.2),
            ("H20", 148.0),
            ("RTX 5090", 209.5),
            ("RTX PRO 6000", 503.8),
            ("Jetson AGX Orin", 42.5),
        ];
        for (name, sheet) in sheets {
            let properties = name.parse::<GpuModel>().unwrap().properties();
            let rates = properties.rates().unwrap();
            let (clock, rate) = (f64::from(properties.clock_khz) * 1e3, rates.mma.max(rates.wgmma));
            let peak = 2e-12 * f64::from(properties.multiprocessors) * rate * clock;
            assert!((peak / sheet - 1.0).abs() < 0.1, "{name}: {peak}");
        }
    }

    #[test]
    fn an_unknown_capability_has_the_rates_of_the_one_before() {
        let mut properties = GpuModel::A100.properties();
        properties.arch = Some(Arch::of_device(8, 8));
        let orin = "Jetson AGX Orin".parse::<GpuModel>().unwrap().properties();
        assert_eq!(properties.rates(), orin.rates());
        properties.arch = Some(Arch::of_device(7, 5));
        assert_eq!(properties.rates(), None);
    }
}
