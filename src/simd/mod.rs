//! Vector arithmetic on rows: every primitive operation over slices, for f32 and f64.
//!
//! The functions are written once, without branches, as scalar code that is inlined into loops over slices.
//! [`dispatch`] runs the loop that was compiled for the [level](crate::level) of the thread: AVX-512, AVX2 with FMA and
//! F16C, NEON, or the baseline. No compiler flags are needed.
//!
//! `gemm::cpu` and `te::auto`'s CPU path share this module. It knows numbers in slices, but not tensors or threads.
//!
//! All operations give the same bits on every CPU. Approximations of f32s use fused multiply-add, which a CPU without it does
//! in f64, exactly; those in f64 don't use it.
//!
//! # Accuracy
//! The largest errors found, in units in the last place of f32, over one of 61 finite f32 of all magnitudes. Tests check
//! the bounds in brackets.
//!
//! | operation | ULP | | operation | ULP |
//! |---|---|---|---|---|
//! | `exp`, `exp2` | 0.92 (1.0) | | `sin`, `cos` | 0.501 (0.51) |
//! | `log` | 0.83 (1.0) | | `pow` | 0.51 (0.6) |
//! | `log2` | 0.501 (0.51) | | `rsqrt` | 0.501 (0.51) |
//! | `tanh` | 1.38 (1.5) | | `erf` | 1.09 (1.5) |
//! | `log1p` | 0.82 (1.0) | | | |
//!
//! The other operations round correctly. In f64, `erf`, `log1p` and `pow` are [`libm`]'s, one element at a time; the other
//! functions are vector code within 2 ULP (`rsqrt` 1.5).

pub(crate) mod convert;
mod exp;
mod float;
pub(crate) mod lines;
mod log;
pub(crate) mod philox;
mod rows;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
mod trig;
mod wide;

pub(crate) use float::Float;
pub(crate) use rows::apply;

/// Work whose loops are compiled for every instruction set.
pub(crate) trait Vectorised {
    /// The result of the work.
    type Output;

    /// Does the work. `FMA` says whether the CPU has fused multiply-add and, on x86-64, F16C. It must be
    /// `#[inline(always)]`, and so must all functions with loops that it calls.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs `work` with the widest instructions of the thread's level.
pub(crate) fn dispatch<W: Vectorised>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    return x86::dispatch(work);
    // Every AArch64 CPU has NEON with fused multiply-add.
    #[cfg(not(target_arch = "x86_64"))]
    return work.run::<{ cfg!(target_arch = "aarch64") }>();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use epilogue_runtime::CpuLevel;

    use super::Vectorised;
    use crate::level;

    pub(super) fn dispatch<W: Vectorised>(work: W) -> W::Output {
        let level = level::current();
        if level >= CpuLevel::Avx512 {
            // SAFETY: the CPU has the level's features.
            unsafe { avx512(work) }
        } else if level >= CpuLevel::Avx2 {
            // SAFETY: the CPU has the level's features.
            unsafe { avx2(work) }
        } else {
            work.run::<false>()
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
    fn avx512<W: Vectorised>(work: W) -> W::Output {
        work.run::<true>()
    }

    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
    fn avx2<W: Vectorised>(work: W) -> W::Output {
        work.run::<true>()
    }
}

/// `a·b + c`, rounded once. `FMA` says whether the CPU has an instruction for it.
#[inline(always)]
fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { fma_by_f64(a, b, c) }
}

/// [`fma`] without the instruction. The product of two f32s is exact in f64. The sum is rounded to odd: of the two f64s
/// around it, the one with last bit 1 is taken. Rounding this to f32 afterwards gives the same result as rounding once
/// (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd").
#[inline(always)]
fn fma_by_f64(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // The error of the sum, exactly (Knuth); NaN if it is not finite.
    let rest = sum - product;
    let lost = (product - (sum - rest)) + (c - rest);
    let too_far = u64::from((lost < 0.0) != (sum < 0.0));
    let odd = sum.to_bits().wrapping_sub(too_far) | 1;
    (if lost.abs() > 0.0 { f64::from_bits(odd) } else { sum }) as f32
}
