//! Counts values in bins. `../rust_histogram.ptx` is what rustc 1.97.0-nightly (e50aa6fba 2026-05-19) makes of it, as the
//! library of a package with `panic = "abort"`:
//!
//! ```sh
//! RUSTFLAGS="-Zunstable-options -Cpanic=immediate-abort" cargo +nightly rustc -Zbuild-std=core \
//!     --target nvptx64-nvidia-cuda --release -- --emit=asm -Ctarget-cpu=sm_80
//! ```

#![no_std]
#![feature(abi_ptx, stdarch_nvptx)]

use core::arch::nvptx::{_block_dim_x, _block_idx_x, _thread_idx_x};

/// # Safety
/// The pointers and lengths must be those of slices.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn histogram(values: *const u32, count: usize, bins: *mut u32, bin_count: usize) {
    let (values, bins) = unsafe {
        (core::slice::from_raw_parts(values, count), core::slice::from_raw_parts_mut(bins, bin_count))
    };
    let index = unsafe { _block_idx_x() * _block_dim_x() + _thread_idx_x() } as usize;
    if index < values.len() {
        // Threads that count the same value lose each other's counts: this should be an atomic's `fetch_add`.
        bins[values[index] as usize] += 1;
    }
}
