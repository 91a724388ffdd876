//! Levels of the CPU's vector instructions: all of them, and those that this CPU has.

use std::fmt;
use std::sync::LazyLock;

/// The vector instructions that the CPU device may use, for [`Device::cpu_with`](crate::Device::cpu_with).
///
/// A level has the instructions of all levels before it for the same kind of CPU. [`Device::cpu`](crate::Device::cpu)
/// uses the [highest](Self::highest) that this CPU has.
///
/// Products of floating-point numbers are rounded in another order at each level. Everything else has the same bits at
/// all levels: functions, and reductions and scans of tensor expressions.
///
/// ```
/// use epilogue_runtime::{CpuLevel, Device};
///
/// for level in CpuLevel::available() {
///     let device = Device::cpu_with(*level)?;
///     assert_eq!(device.cpu_level(), Some(*level));
///     println!("{}", device.describe());
/// }
/// assert_eq!(Device::cpu_with(CpuLevel::highest())?, Device::cpu());
/// # Ok::<(), epilogue_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CpuLevel {
    /// The instructions that the program is compiled for: SSE2 on x86-64. AArch64 has NEON instead.
    Baseline,
    /// x86-64-v3: AVX2, FMA, F16C, BMI.
    Avx2,
    /// x86-64-v4: AVX-512 F, BW, CD, DQ and VL. Integers are multiplied by VNNI if the CPU has it, with the same results.
    Avx512,
    /// AVX-512 with dot products of bf16s (BF16) and of 8-bit integers (VNNI).
    Avx512Bf16,
    /// Intel's matrix registers (AMX), for bf16s and 8-bit integers. On Linux, the process asks the system for them once.
    Amx,
    /// AArch64: NEON, which all its CPUs have.
    Neon,
}

/// The level's name, as in `describe`.
impl fmt::Display for CpuLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "the baseline",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
            Self::Avx512Bf16 => "AVX-512 with BF16",
            Self::Amx => "AMX",
            Self::Neon => "NEON",
        })
    }
}

impl CpuLevel {
    /// The levels that this CPU has and the system lets this process use, the lowest first. There is at least one.
    #[must_use]
    pub fn available() -> &'static [Self] {
        static AVAILABLE: LazyLock<Vec<CpuLevel>> = LazyLock::new(detected);
        &AVAILABLE
    }

    /// The highest level that this CPU has.
    #[must_use]
    pub fn highest() -> Self {
        static HIGHEST: LazyLock<CpuLevel> =
            LazyLock::new(|| CpuLevel::available().last().copied().unwrap_or(CpuLevel::Baseline));
        *HIGHEST
    }
}

#[cfg(target_arch = "x86_64")]
fn detected() -> Vec<CpuLevel> {
    macro_rules! has {
        ($($feature:tt)*) => { true $(&& is_x86_feature_detected!($feature))* };
    }
    let levels = [
        (CpuLevel::Avx2, has!("avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt")),
        (CpuLevel::Avx512, has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl")),
        (CpuLevel::Avx512Bf16, has!("avx512bf16" "avx512vnni")),
        (CpuLevel::Amx, has_tiles()),
    ];
    // Each has those before it.
    let above = levels.into_iter().take_while(|(_, is_there)| *is_there).map(|(level, _)| level);
    [CpuLevel::Baseline].into_iter().chain(above).collect()
}

#[cfg(target_arch = "aarch64")]
fn detected() -> Vec<CpuLevel> {
    vec![CpuLevel::Neon]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detected() -> Vec<CpuLevel> {
    vec![CpuLevel::Baseline]
}

/// Whether the CPU multiplies tiles of bf16s and of 8-bit integers, and the system lets this process use their registers.
/// They are large, so a process has them only on request; once granted, all its threads have them. (Linux kernel
/// documentation, "Using XSTATE features in user space applications".)
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn has_tiles() -> bool {
    const TILES: u32 = 1 << 24;
    const BF16: u32 = 1 << 22;
    const INTEGERS: u32 = 1 << 25;
    const REQUEST: libc::c_long = 0x1023;
    const STATE_OF_TILES: libc::c_long = 18;
    let features = std::arch::x86_64::__cpuid_count(7, 0).edx;
    let all = TILES | BF16 | INTEGERS;
    // SAFETY: the request has no other effect; a system that doesn't know it says so.
    features & all == all && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, STATE_OF_TILES) == 0 }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
const fn has_tiles() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Error};

    #[test]
    fn a_level_that_the_cpu_lacks_is_refused() {
        let all =
            [CpuLevel::Baseline, CpuLevel::Avx2, CpuLevel::Avx512, CpuLevel::Avx512Bf16, CpuLevel::Amx, CpuLevel::Neon];
        let available = CpuLevel::available();
        assert!(available.is_sorted() && !available.is_empty() && all.iter().any(|level| !available.contains(level)));
        for level in all {
            let device = Device::cpu_with(level);
            if available.contains(&level) {
                let device = device.unwrap();
                assert_eq!((device.cpu_level(), &device), (Some(level), &Device::cpu_with(level).unwrap()));
                assert!(device.describe().contains(&level.to_string()), "{}", device.describe());
                assert_eq!(device == Device::cpu(), level == CpuLevel::highest());
                continue;
            }
            let refused = device.unwrap_err();
            let Error::CpuLevel { given, .. } = &refused else { panic!("{refused}") };
            assert_eq!(*given, level);
            let text = refused.to_string();
            assert!(available.iter().all(|level| text.contains(&level.to_string())), "{text}");
        }
    }

    /// Levels are devices: what is on one of them is copied to another.
    #[test]
    fn tensors_are_of_a_level() {
        let lowest = Device::cpu_with(CpuLevel::available()[0]).unwrap();
        let x = Device::cpu().tensor(&[1f32, 2.0], [2]).unwrap();
        let copy = x.copy_to(&lowest).unwrap();
        assert_eq!((copy.device(), copy.to_vec::<f32>().unwrap()), (&lowest, vec![1.0, 2.0]));
        if lowest != Device::cpu() {
            assert_ne!(lowest.to_string(), Device::cpu().to_string());
        }
    }
}
