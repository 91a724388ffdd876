//! The register that holds a thread's mode.

pub(crate) use register::Control;

/// MXCSR (Intel SDM, volume 1, 10.2.3).
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod register {
    use std::arch::asm;

    /// Flags of past exceptions, which are no mode.
    const FLAGS: u32 = 0x3f;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Control(u32);

    impl Control {
        /// All exceptions masked, rounding to nearest even, neither flush-to-zero nor denormals-are-zero.
        pub(crate) const DEFAULT: Self = Self(0x1f80);

        pub(crate) fn read() -> Self {
            let mut bits = 0u32;
            // SAFETY: it writes 4 bytes to where they belong.
            unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
            Self(bits & !FLAGS)
        }

        pub(crate) fn write(self) {
            let bits = self.0;
            // SAFETY: the bits are those that were read, the default ones, or a test's, so none is reserved. Compiled code
            // is made for the default mode: it is entered here, or is given back by a guard to a caller who has set
            // another. Memory is not promised to stay, so no access is moved across.
            unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack)) };
        }

        pub(crate) const fn is_default(self) -> bool {
            self.0 == Self::DEFAULT.0
        }

        /// Flush-to-zero and denormals-are-zero, or a way of rounding (0 to 3), beside the default.
        pub(crate) const fn with(flush: bool, rounding: u32) -> Self {
            Self(Self::DEFAULT.0 | if flush { 0x8040 } else { 0 } | rounding << 13)
        }
    }
}

/// FPCR (Arm Architecture Reference Manual, C5.2).
#[cfg(all(target_arch = "aarch64", not(miri)))]
mod register {
    use std::arch::asm;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Control(u64);

    impl Control {
        /// Rounding to nearest even, no flushing, no traps, NaNs with their payload.
        pub(crate) const DEFAULT: Self = Self(0);

        pub(crate) fn read() -> Self {
            let bits: u64;
            // SAFETY: it reads a register.
            unsafe { asm!("mrs {}, fpcr", out(reg) bits, options(nostack, preserves_flags)) };
            Self(bits)
        }

        pub(crate) fn write(self) {
            // SAFETY: the bits are those that were read, the default ones, or a test's. Compiled code is made for the
            // default mode: it is entered here, or is given back by a guard to a caller who has set another. Memory is
            // not promised to stay, so no access is moved across.
            unsafe { asm!("msr fpcr, {}", in(reg) self.0, options(nostack)) };
        }

        pub(crate) const fn is_default(self) -> bool {
            self.0 == 0
        }

        /// Flush-to-zero, or a way of rounding (0 to 3, as on x86-64), beside the default.
        pub(crate) const fn with(flush: bool, rounding: u32) -> Self {
            // Arm counts up before down.
            let rounding = match rounding {
                1 => 2,
                2 => 1,
                other => other as u64,
            };
            Self(if flush { 1 << 24 } else { 0 } | rounding << 22)
        }
    }
}

/// Elsewhere the mode is the default one.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod register {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Control;

    impl Control {
        pub(crate) const DEFAULT: Self = Self;

        pub(crate) const fn read() -> Self {
            Self
        }

        pub(crate) const fn write(self) {}

        pub(crate) const fn is_default(self) -> bool {
            true
        }
    }
}
