//! GPU architectures, with NVRTC's names.

use std::fmt;
use std::str::FromStr;

/// A GPU architecture: a compute capability, and whether code may use the features that only this capability has (the
/// `a` suffix: wgmma and setmaxnreg need `sm_90a`; code with these features runs on no later GPU).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    major: u8,
    minor: u8,
    specific: bool,
}

impl Arch {
    /// Ampere (A100).
    pub const SM_80: Self = Self::new(8, 0);
    /// Ampere (A10, RTX 30).
    pub const SM_86: Self = Self::new(8, 6);
    /// Ampere (Jetson Orin).
    pub const SM_87: Self = Self::new(8, 7);
    /// Ada (L4, L40, RTX 40).
    pub const SM_89: Self = Self::new(8, 9);
    /// Hopper, portable features only.
    pub const SM_90: Self = Self::new(9, 0);
    /// Hopper (H100, H200) with wgmma and setmaxnreg.
    pub const SM_90A: Self = Self::new(9, 0).specific();
    /// Blackwell (B200) with its architecture-specific features.
    pub const SM_100A: Self = Self::new(10, 0).specific();
    /// Consumer Blackwell (RTX 50, RTX PRO 6000) with its architecture-specific features.
    pub const SM_120A: Self = Self::new(12, 0).specific();
    /// Consumer Blackwell (DGX Spark) with its architecture-specific features.
    pub const SM_121A: Self = Self::new(12, 1).specific();

    /// The architectures that a device can be emulated of.
    pub const EMULATED: [Self; 8] =
        [Self::SM_80, Self::SM_86, Self::SM_87, Self::SM_89, Self::SM_90A, Self::SM_100A, Self::SM_120A, Self::SM_121A];

    /// The architecture of compute capability `major.minor`, with portable features only.
    #[must_use]
    pub const fn new(major: u8, minor: u8) -> Self {
        Self { major, minor, specific: false }
    }

    /// The capability with the features that only it has.
    #[must_use]
    pub const fn specific(self) -> Self {
        Self { specific: true, ..self }
    }

    /// The architecture to compile for if the code will run on exactly this capability. From 9.0 on it includes the
    /// capability's specific features; earlier capabilities have none.
    #[must_use]
    pub const fn of_device(major: u8, minor: u8) -> Self {
        Self { major, minor, specific: major >= 9 }
    }

    /// The compute capability, `(major, minor)`.
    #[must_use]
    pub const fn capability(self) -> (u8, u8) {
        (self.major, self.minor)
    }

    /// The capability as one number: 80, 90, 120.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.major as u32 * 10 + self.minor as u32
    }

    /// Whether architecture-specific features may be used.
    #[must_use]
    pub const fn is_specific(self) -> bool {
        self.specific
    }

    /// Whether a GPU of architecture `self` runs machine code compiled for `code`: the same major capability and no
    /// later minor one, and for specific code the same capability (CUDA C++ Programming Guide, "Compute capability").
    #[must_use]
    pub const fn runs(self, code: Self) -> bool {
        self.major == code.major && if code.specific { self.minor == code.minor } else { self.minor >= code.minor }
    }

    /// The virtual architecture that PTX is made for: `compute_80`, `compute_90a`.
    #[must_use]
    pub fn virtual_name(self) -> String {
        format!("compute_{}{}", self.number(), if self.specific { "a" } else { "" })
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number(), if self.specific { "a" } else { "" })
    }
}

/// A text that does not name an architecture.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no GPU architecture: write `sm_80`, `sm_90a` and the like")]
pub struct ParseArchError(String);

crate::message::debug!(ParseArchError);

impl FromStr for Arch {
    type Err = ParseArchError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseArchError(text.to_owned());
        let digits = text.strip_prefix("sm_").ok_or_else(fail)?;
        let (digits, specific) = digits.strip_suffix('a').map_or((digits, false), |rest| (rest, true));
        if !(2..=3).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(fail());
        }
        let number: u16 = digits.parse().map_err(|_| fail())?;
        let major = u8::try_from(number / 10).map_err(|_| fail())?;
        Ok(Self { major, minor: (number % 10) as u8, specific })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for arch in Arch::EMULATED.into_iter().chain([Arch::SM_90, Arch::new(12, 0)]) {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        for bad in ["", "sm_", "sm_8", "sm_a", "80", "sm_90b", "sm_9999", "sm_+80"] {
            assert!(bad.parse::<Arch>().is_err(), "{bad}");
        }
        assert_eq!(Arch::SM_90A.virtual_name(), "compute_90a");
        assert_eq!(Arch::of_device(8, 6), Arch::SM_86);
        assert_eq!(Arch::of_device(9, 0), Arch::SM_90A);
    }

    #[cfg(feature = "emulated")]
    #[test]
    fn ptx_vm_has_the_emulated_architectures() {
        assert_eq!(Arch::EMULATED.map(|arch| arch.to_string()), ptx_vm::Arch::ALL.map(|arch| arch.to_string()));
    }

    #[test]
    fn compatibility_of_machine_code() {
        assert!(Arch::SM_86.runs(Arch::SM_80));
        assert!(!Arch::SM_80.runs(Arch::SM_86));
        assert!(!Arch::SM_90A.runs(Arch::SM_80));
        assert!(Arch::SM_90A.runs(Arch::SM_90A) && Arch::SM_90A.runs(Arch::SM_90));
        assert!(!Arch::new(10, 3).specific().runs(Arch::SM_100A));
        assert!(Arch::SM_89.runs(Arch::SM_80) && !Arch::SM_121A.runs(Arch::SM_120A));
    }
}
