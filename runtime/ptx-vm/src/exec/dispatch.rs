//! Compiles a handler for each operation and SIMD level, and chooses the level once at run time.

use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::exec::context::{Context, Flow};
use crate::exec::lanes::Operation;
use crate::program::{Handler, Instruction, Running};

/// The instruction sets for which handlers are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The instructions that every host of this target supports.
    Base,
    /// x86-64-v3: AVX2, FMA, F16C, BMI.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

/// The host's level.
pub(crate) fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            return Level::Avx2;
        }
        Level::Base
    })
}

/// The handler of an operation, for this host.
pub(crate) fn handler<O: Operation>() -> Handler {
    match level() {
        Level::Base => base::<O>,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => avx2::<O>,
    }
}

/// The handler of an operation for which wider vectors are of no use.
pub(crate) fn scalar_handler<O: Operation>() -> Handler {
    base::<O>
}

/// # Safety
/// The conditions of [`Handler`].
unsafe fn base<O: Operation>(running: NonNull<Running>, instruction: &Instruction, mask: u32) -> Flow {
    // SAFETY: by this function's contract.
    O::run(unsafe { Context::of(running) }, instruction, mask)
}

/// # Safety
/// The conditions of [`Handler`]; the host must have AVX2 and the rest of x86-64-v3.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<O: Operation>(running: NonNull<Running>, instruction: &Instruction, mask: u32) -> Flow {
    // SAFETY: by this function's contract.
    O::run(unsafe { Context::of(running) }, instruction, mask)
}
