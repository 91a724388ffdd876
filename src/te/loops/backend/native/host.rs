//! Functions of the host that compiled code calls, with C's calling convention.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use epilogue_runtime::HostBytes;

use crate::expr::{Op, Real, fold};
use crate::lane::element::{E4M3, E5M2};
use crate::simd::convert::Widen as _;
use crate::te::expr::number;
use crate::{ElementType, parallel};

/// The first failure of a run, if there was one.
#[derive(Debug, Default)]
pub(super) struct NativeStatus {
    /// 1 + the index of the site in the code's list; 0 for no failure.
    site: AtomicU32,
    value: AtomicI64,
    limit: AtomicI64,
}

impl NativeStatus {
    /// The failed site, with the value that was found there and its limit.
    pub(super) fn failure(&self) -> Option<(usize, i64, i64)> {
        let site = self.site.load(Ordering::Acquire).checked_sub(1)?;
        Some((site as usize, self.value.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed)))
    }
}

/// A compiled function. It takes the values that it uses, the first iteration, one past the last, and the status.
pub(super) type NativeEntry = unsafe extern "C" fn(*const u64, i64, i64, *const NativeStatus);

/// Records a failure, unless there has been one before.
pub(super) unsafe extern "C" fn fail(status: *const NativeStatus, site: i64, value: i64, limit: i64) {
    // SAFETY: compiled code passes the status that it was called with, which outlives the run.
    let status = unsafe { &*status };
    let code = u32::try_from(site).unwrap_or(u32::MAX - 1) + 1;
    if status.site.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        status.value.store(value, Ordering::Relaxed);
        status.limit.store(limit, Ordering::Relaxed);
    }
}

/// The data for a thread of the pool. Rayon needs a promise that the pointers may be shared.
#[derive(Clone, Copy)]
struct Shared {
    body: NativeEntry,
    frame: *const u64,
    status: *const NativeStatus,
}

// SAFETY: the frame is only read while the loop runs, and the status consists of atomics. Iterations of a parallel loop
// never touch an element that another iteration writes, because a schedule can make only data axes parallel.
unsafe impl Sync for Shared {}

impl Shared {
    fn run(&self, from: i64, to: i64) {
        // SAFETY: the code and its frame live until the loop has finished.
        unsafe { (self.body)(self.frame, from, to, self.status) }
    }
}

/// Runs the iterations `0..extent` of a loop on the threads of the pool.
pub(super) unsafe extern "C" fn parallel(
    body: NativeEntry,
    frame: *const u64,
    extent: i64,
    status: *const NativeStatus,
) {
    let shared = Shared { body, frame, status };
    let pieces = parallel::pieces(usize::try_from(extent).unwrap_or(0), 1);
    parallel::for_each(pieces, |piece| shared.run(piece.start as i64, piece.end as i64));
}

const ALIGNMENT: usize = 64;

fn layout(bytes: i64) -> Option<Layout> {
    let bytes = usize::try_from(bytes).ok()?.max(1);
    Layout::from_size_align(bytes, ALIGNMENT).ok()
}

/// Allocates zeroed memory; null if that fails.
pub(super) unsafe extern "C" fn allocate(bytes: i64) -> *mut u8 {
    // SAFETY: the layout has at least one byte.
    layout(bytes)
        .filter(|layout| HostBytes::have_room(layout.size()))
        .map_or(std::ptr::null_mut(), |layout| unsafe { alloc_zeroed(layout) })
}

/// Frees memory of `allocate`.
pub(super) unsafe extern "C" fn release(pointer: *mut u8, bytes: i64) {
    if let Some(layout) = layout(bytes)
        && !pointer.is_null()
    {
        // SAFETY: compiled code passes each result of `allocate` once, with its number of bytes.
        unsafe { dealloc(pointer, layout) }
    }
}

macro_rules! unary {
    ($($op:ident $single:ident $double:ident),* $(,)?) => {
        $(
            extern "C" fn $single(x: f32) -> f32 {
                fold::apply(Op::$op, &[f64::from(x)], Real::F32).map_or(f32::NAN, |y| y as f32)
            }
            extern "C" fn $double(x: f64) -> f64 {
                fold::apply(Op::$op, &[x], Real::F64).unwrap_or(f64::NAN)
            }
        )*

        /// The address of the function for an operation of one operand, in f64 or in f32.
        pub(super) fn unary(op: Op, double: bool) -> Option<usize> {
            Some(match op {
                $(Op::$op => if double { $double as *const () as usize } else { $single as *const () as usize },)*
                _ => return None,
            })
        }
    };
}

unary! {
    Exp exp_single exp_double,
    Exp2 exp2_single exp2_double,
    Log log_single log_double,
    Log2 log2_single log2_double,
    Log1p log1p_single log1p_double,
    Tanh tanh_single tanh_double,
    Erf erf_single erf_double,
    Sin sin_single sin_double,
    Cos cos_single cos_double,
}

pub(super) extern "C" fn pow_single(x: f32, y: f32) -> f32 {
    fold::apply(Op::Pow, &[f64::from(x), f64::from(y)], Real::F32).map_or(f32::NAN, |z| z as f32)
}

pub(super) extern "C" fn pow_double(x: f64, y: f64) -> f64 {
    fold::apply(Op::Pow, &[x, y], Real::F64).unwrap_or(f64::NAN)
}

pub(super) extern "C" fn fma_single(x: f32, y: f32, z: f32) -> f32 {
    libm::fmaf(x, y, z)
}

pub(super) extern "C" fn fma_double(x: f64, y: f64, z: f64) -> f64 {
    libm::fma(x, y, z)
}

macro_rules! narrow {
    ($($element:ident $float:ident $integer:ident),* $(,)?) => {
        $(
            extern "C" fn $float(x: f64) -> f32 {
                number::round(ElementType::$element, x) as f32
            }
            extern "C" fn $integer(x: i64) -> f32 {
                number::round_integer(ElementType::$element, x) as f32
            }
        )*

        /// The address of the function that rounds an f64 to a narrow type, as an f32.
        pub(super) fn round(element: ElementType) -> Option<usize> {
            Some(match element {
                $(ElementType::$element => $float as *const () as usize,)*
                _ => return None,
            })
        }

        /// The address of the function that rounds a 64-bit integer to a narrow type, as an f32.
        pub(super) fn round_integer(element: ElementType) -> Option<usize> {
            Some(match element {
                $(ElementType::$element => $integer as *const () as usize,)*
                _ => return None,
            })
        }
    };
}

narrow! {
    F16 round_f16 integer_f16,
    BF16 round_bf16 integer_bf16,
    F8E4M3 round_e4m3 integer_e4m3,
    F8E5M2 round_e5m2 integer_e5m2,
}

macro_rules! bits {
    ($($element:ident $float:ident $encode:ident $decode:ident),* $(,)?) => {
        $(
            extern "C" fn $encode(x: f32) -> i32 {
                i32::from($float::of(x).0)
            }
            extern "C" fn $decode(bits: i32) -> f32 {
                $float((bits & 0xff) as u8).widen()
            }
        )*

        /// The addresses of the functions that convert a value to the bits of an 8-bit float, and back.
        pub(super) fn bits(element: ElementType) -> Option<(usize, usize)> {
            Some(match element {
                $(ElementType::$element => ($encode as *const () as usize, $decode as *const () as usize),)*
                _ => return None,
            })
        }
    };
}

bits! {
    F8E4M3 E4M3 encode_e4m3 decode_e4m3,
    F8E5M2 E5M2 encode_e5m2 decode_e5m2,
}
