//! The GPUs that are known by name, with the attributes that their drivers report.
//!
//! Kernels are chosen by [`Properties`], never by a name. This list serves where no GPU is there: targets of bundles,
//! emulated devices, and predicted times. It also gives the value of an attribute that a driver leaves out, and the
//! power limit, which is no attribute. Sources are NVIDIA's data sheets and white papers; memory clocks are those that
//! `nvidia-smi -q` lists as the highest.

use std::fmt;
use std::str::FromStr;

use crate::compile::arch::Arch;
use crate::device::properties::Properties;

/// A model of NVIDIA GPU.
///
/// ```
/// use epilogue_runtime::{Arch, GpuModel};
///
/// let gpu: GpuModel = "RTX 4090".parse()?;
/// let properties = gpu.properties();
/// assert_eq!((properties.arch, properties.multiprocessors), (Some(Arch::SM_89), 128));
/// assert_eq!(properties.memory_gigabytes_per_second().round(), 1008.0);
/// # Ok::<(), epilogue_runtime::ParseGpuModelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct GpuModel(usize);

/// The attributes of a model.
struct Row {
    /// As [`GpuModel`] prints and reads it.
    name: &'static str,
    /// As the driver prints it.
    driver: &'static str,
    capability: (u8, u8),
    multiprocessors: u32,
    /// The highest clocks of the multiprocessors and of the memory, in MHz.
    clocks: (u32, u32),
    bus_bits: u32,
    l2_mebibytes: u64,
    memory_gibibytes: u64,
    watts: u32,
}

const fn row(
    names: (&'static str, &'static str),
    capability: (u8, u8),
    multiprocessors: u32,
    clocks: (u32, u32),
    bus_bits: u32,
    (l2_mebibytes, memory_gibibytes): (u64, u64),
    watts: u32,
) -> Row {
    let (name, driver) = names;
    Row { name, driver, capability, multiprocessors, clocks, bus_bits, l2_mebibytes, memory_gibibytes, watts }
}

/// All models. The first of a capability stands for its unlisted models.
const ROWS: [Row; 27] = [
    row(("A100 SXM 40GB", "NVIDIA A100-SXM4-40GB"), (8, 0), 108, (1410, 1215), 5120, (40, 40), 400),
    row(("A100 SXM 80GB", "NVIDIA A100-SXM4-80GB"), (8, 0), 108, (1410, 1593), 5120, (40, 80), 400),
    row(("A100 PCIe 40GB", "NVIDIA A100-PCIE-40GB"), (8, 0), 108, (1410, 1215), 5120, (40, 40), 250),
    row(("A100 PCIe 80GB", "NVIDIA A100 80GB PCIe"), (8, 0), 108, (1410, 1512), 5120, (40, 80), 300),
    row(("A10", "NVIDIA A10"), (8, 6), 72, (1695, 6251), 384, (6, 24), 150),
    row(("A10G", "NVIDIA A10G"), (8, 6), 80, (1710, 6251), 384, (6, 24), 300),
    row(("A40", "NVIDIA A40"), (8, 6), 84, (1740, 7251), 384, (6, 48), 300),
    row(("RTX 3080", "NVIDIA GeForce RTX 3080"), (8, 6), 68, (1710, 9501), 320, (5, 10), 320),
    row(("RTX 3090", "NVIDIA GeForce RTX 3090"), (8, 6), 82, (1695, 9751), 384, (6, 24), 350),
    row(("L40S", "NVIDIA L40S"), (8, 9), 142, (2520, 9001), 384, (96, 48), 350),
    row(("L4", "NVIDIA L4"), (8, 9), 58, (2040, 6251), 192, (48, 24), 72),
    row(("L20", "NVIDIA L20"), (8, 9), 92, (2520, 9001), 384, (96, 48), 275),
    row(("RTX 4090", "NVIDIA GeForce RTX 4090"), (8, 9), 128, (2520, 10501), 384, (72, 24), 450),
    row(("H200 SXM", "NVIDIA H200"), (9, 0), 132, (1980, 3201), 6144, (50, 141), 700),
    row(("H200 NVL", "NVIDIA H200 NVL"), (9, 0), 132, (1785, 3201), 6144, (50, 141), 600),
    row(("H100 SXM", "NVIDIA H100 80GB HBM3"), (9, 0), 132, (1980, 2619), 5120, (50, 80), 700),
    row(("H100 PCIe", "NVIDIA H100 PCIe"), (9, 0), 114, (1755, 1593), 5120, (50, 80), 350),
    row(("H100 NVL", "NVIDIA H100 NVL"), (9, 0), 132, (1785, 2619), 6144, (50, 94), 400),
    row(("H20", "NVIDIA H20"), (9, 0), 78, (1980, 2619), 6144, (60, 96), 500),
    row(("B200", "NVIDIA B200"), (10, 0), 148, (1965, 3996), 8192, (126, 180), 1000),
    row(("GB300", "NVIDIA GB300"), (10, 3), 148, (1920, 3996), 8192, (126, 279), 1400),
    row(("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell"), (12, 0), 188, (2617, 14001), 512, (128, 96), 600),
    row(
        ("RTX PRO 6000 Max-Q", "NVIDIA RTX PRO 6000 Blackwell Max-Q"),
        (12, 0),
        188,
        (2280, 14001),
        512,
        (128, 96),
        300,
    ),
    row(("RTX 5080", "NVIDIA GeForce RTX 5080"), (12, 0), 84, (2617, 15001), 256, (64, 16), 360),
    row(("RTX 5090", "NVIDIA GeForce RTX 5090"), (12, 0), 170, (2407, 14001), 512, (96, 32), 575),
    row(("DGX Spark", "NVIDIA GB10"), (12, 1), 48, (2418, 4267), 256, (24, 119), 140),
    row(("Jetson AGX Orin", "Orin"), (8, 7), 16, (1300, 3199), 256, (4, 64), 60),
];

impl GpuModel {
    /// The A100 with 40 GB, as a module of a server.
    pub const A100: Self = Self(0);
    /// The H100 with 80 GB, as a module of a server.
    pub const H100: Self = Self(15);
    /// The H200 with 141 GB, as a module of a server.
    pub const H200: Self = Self(13);
    /// The B200 with 180 GB.
    pub const B200: Self = Self(19);

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ROWS.len()).map(Self)
    }

    /// The model that a driver calls so; of several, the one with the longest name in common.
    #[must_use]
    pub fn of_driver(name: &str) -> Option<Self> {
        let alike = Self::all().filter(|model| {
            let rest = name.strip_prefix(model.row().driver);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        });
        alike.max_by_key(|model| model.row().driver.len())
    }

    /// The model that stands for others of a compute capability: the first listed of the capability itself, else of the
    /// newest capability before it. `None` before 8.0.
    #[must_use]
    pub fn of_capability(capability: (u8, u8)) -> Option<Self> {
        let newest = Self::all().map(|model| model.row().capability).filter(|own| *own <= capability).max()?;
        Self::all().find(|model| model.row().capability == newest)
    }

    fn row(self) -> &'static Row {
        &ROWS[self.0]
    }

    /// The architecture to compile for.
    #[must_use]
    pub fn arch(self) -> Arch {
        let (major, minor) = self.row().capability;
        Arch::of_device(major, minor)
    }

    /// The power limit of the board in watts, as it is sold.
    #[must_use]
    pub fn watts(self) -> u32 {
        self.row().watts
    }

    /// The properties that its driver reports.
    #[must_use]
    pub fn properties(self) -> Properties {
        let row = self.row();
        // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": KiB of shared memory, and
        // threads, of a multiprocessor.
        let (shared, threads) = match row.capability {
            (8, 0) => (164, 2048),
            (8, 7) => (164, 1536),
            (9..=10, _) => (228, 2048),
            _ => (100, 1536),
        };
        Properties {
            name: row.driver.to_owned(),
            arch: Some(self.arch()),
            multiprocessors: row.multiprocessors,
            // The driver reserves 1 KiB in every block.
            shared_bytes_per_block: (shared - 1) << 10,
            shared_bytes_per_multiprocessor: shared << 10,
            registers_per_multiprocessor: 65536,
            threads_per_multiprocessor: threads,
            l2_bytes: row.l2_mebibytes << 20,
            memory_bytes: row.memory_gibibytes << 30,
            clock_khz: row.clocks.0 * 1000,
            memory_clock_khz: row.clocks.1 * 1000,
            memory_bus_bits: row.bus_bits,
            power_milliwatts: row.watts * 1000,
            driver_version: 0,
        }
    }
}

impl fmt::Display for GpuModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// A text that names no known GPU.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no known GPU: write one of {known}", known = GpuModel::all().map(|gpu| format!("`{gpu}`")).collect::<Vec<_>>().join(", "))]
pub struct ParseGpuModelError(String);

crate::message::debug!(ParseGpuModelError);

impl FromStr for GpuModel {
    type Err = ParseGpuModelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::all().find(|model| model.row().name.eq_ignore_ascii_case(text) || model.row().driver == text);
        found.ok_or_else(|| ParseGpuModelError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for model in GpuModel::all() {
            assert_eq!(model.to_string().parse(), Ok(model));
            assert_eq!(GpuModel::of_driver(&model.properties().name), Some(model));
        }
        let error = "GTX 680".parse::<GpuModel>().unwrap_err().to_string();
        assert!(error.starts_with("`GTX 680` names no known GPU") && error.contains("`RTX 4090`"), "{error}");
        assert_eq!(
            (GpuModel::A100.to_string(), GpuModel::H100.to_string()),
            ("A100 SXM 40GB".into(), "H100 SXM".into())
        );
        assert_eq!(GpuModel::H200.to_string(), "H200 SXM");
    }

    #[test]
    fn drivers_names_are_recognised() {
        let of = |name: &str| GpuModel::of_driver(name).map(|model| model.to_string());
        assert_eq!(of("NVIDIA RTX PRO 6000 Blackwell Server Edition").as_deref(), Some("RTX PRO 6000"));
        assert_eq!(
            of("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition").as_deref(),
            Some("RTX PRO 6000 Max-Q")
        );
        assert_eq!(of("NVIDIA H200 NVL").as_deref(), Some("H200 NVL"));
        assert_eq!(of("NVIDIA A10G").as_deref(), Some("A10G"));
        assert_eq!(of("NVIDIA A1000"), None);
    }

    /// A capability without a model has an older one's; before 8.0 there is none.
    #[test]
    fn others_get_a_model_of_their_class() {
        let of = |capability| GpuModel::of_capability(capability).map(|model| model.to_string());
        assert_eq!(of((8, 8)).as_deref(), Some("Jetson AGX Orin"));
        assert_eq!(of((13, 0)).as_deref(), Some("DGX Spark"));
        assert_eq!((of((8, 9)).as_deref(), of((9, 0)).as_deref(), of((7, 5))), (Some("L40S"), Some("H200 SXM"), None));
    }

    /// Bandwidths of the data sheets, in GB/s.
    #[test]
    fn bandwidths_are_those_of_the_data_sheets() {
        let sheets = [
            ("A100 SXM 40GB", 1555.0),
            ("A100 SXM 80GB", 2039.0),
            ("A10", 600.0),
            ("L4", 300.0),
            ("L40S", 864.0),
            ("RTX 4090", 1008.0),
            ("H100 SXM", 3352.0),
            ("H100 PCIe", 2039.0),
            ("RTX 5090", 1792.0),
            ("DGX Spark", 273.0),
            ("Jetson AGX Orin", 204.8),
        ];
        for (name, bandwidth) in sheets {
            let model: GpuModel = name.parse().unwrap();
            let own = model.properties().memory_gigabytes_per_second();
            assert!((own / bandwidth - 1.0).abs() < 0.01, "{name}: {own}");
        }
    }
}
