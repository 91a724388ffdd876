//! Patches of images as the rows of A: multiplied [in place](super::taps), or gathered.
//!
//! Rows are gathered if channels are few or not neighbours, or if weights are not finite: 64 rows of a tile and one
//! part of K, with their zeros. They stay in a core's caches, and the matrix of all patches is never stored. If the
//! window is not dilated, its elements along the last axis are contiguous. A row then is copied in as few pieces as the
//! window has lines.
//!
//! Both methods give the same bits. A zero changes no sum that starts at +0, except the sign of one that underflowed;
//! so +0 is added to sums when they are stored.

use std::ops::Range;

use epilogue_runtime::DeviceTensor;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use smallvec::SmallVec;

use super::element::{Arithmetic, View};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::kernel::words::{Contents, Panels, WordRows, WordRun, Words, block};
use super::place::PatchPlace;
use super::spread::spread_stretches;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::taps::Taps;
use crate::gemm::problem::patches::Patches;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::simd::lines::Lines;

/// Rows that are gathered at a time.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const HIGH: usize = 64;

/// The images as an operand: where they begin, and how far a group of channels is from the next. Rows of patches are nowhere,
/// so there are no strides by which a product could read them in place.
pub(super) fn images(x: &DeviceTensor, patches: &Patches) -> View {
    let strides = [patches.group(), 0, 0];
    View { pointer: x.device_address() as *mut u8, element: x.element_type(), strides, batches: None, digits: None }
}

impl PatchPlace {
    /// Calls `each` with the stretches of the row's elements in `depth`, one after another: which they are, counted from the
    /// first, and the address of the first of them; none where they are outside of the image.
    #[inline(always)]
    fn stretches(
        self,
        patches: &Patches,
        view: &View,
        depth: &Range<usize>,
        mut each: impl FnMut(Range<usize>, Option<*const u8>),
    ) {
        let Patches { channels, window, steps, channel, .. } = patches;
        if window.is_spread() {
            return spread_stretches(patches, view, (self.image, self.output), depth, each);
        }
        let dilation = window.dilation[2].cast_signed();
        let [inside_0, inside_1, inside] = [0, 1, 2].map(|axis| self.inside(patches, axis));
        let (first, end) = (inside.start * channels, inside.end * channels);
        let line = window.size[2] * channels;
        if line == 0 {
            return;
        }
        let is_dense = window.size[2] == 1 || steps[2] * dilation == channels.cast_signed() * channel;
        let size = view.element.size().cast_signed();
        let mut number = depth.start / line;
        while number * line < depth.end {
            let (base, of_0, of_1) = (number * line, number / window.size[1], number % window.size[1]);
            number += 1;
            // The range within the line.
            let own = depth.start.max(base) - base..depth.end.min(base + line) - base;
            let place = |range: Range<usize>| range.start + base - depth.start..range.end + base - depth.start;
            if !inside_0.contains(&of_0) || !inside_1.contains(&of_1) {
                each(place(own), None);
                continue;
            }
            let along = |axis: usize, of: usize| (of * window.dilation[axis]).cast_signed() * steps[axis];
            let elements = self.begin(patches) + along(0, of_0) + along(1, of_1);
            let from = |elements: isize| Some(view.pointer.wrapping_offset(elements * size).cast_const());
            let (inner, rest) = (own.start.max(first).min(own.end), own.end.min(end).max(own.start));
            if inner > own.start {
                each(place(own.start..inner), None);
            }
            if is_dense {
                if inner < rest {
                    each(place(inner..rest), from(elements + inner.cast_signed() * channel));
                }
            } else {
                let mut start = inner;
                while start < rest {
                    let (tap, of_tap) = (start / channels, start % channels);
                    let stop = rest.min((tap + 1) * channels);
                    let offset = tap.cast_signed() * dilation * steps[2] + of_tap.cast_signed() * channel;
                    each(place(start..stop), from(elements + offset));
                    start = stop;
                }
            }
            if rest.max(inner) < own.end {
                each(place(rest.max(inner)..own.end), None);
            }
        }
    }
}

/// Widens the elements of rows along `depth`, row by row without gaps.
///
/// # Safety
/// The images must be readable, and nobody writes them meanwhile; the rows must exist.
pub(super) unsafe fn gather<T: Arithmetic>(
    patches: &Patches,
    view: &View,
    rows: Range<usize>,
    depth: Range<usize>,
    to: &mut [T],
) {
    if depth.is_empty() || rows.is_empty() {
        return;
    }
    let mut place = PatchPlace::of(patches, rows.start);
    for to in to.chunks_exact_mut(depth.len()).take(rows.len()) {
        place.stretches(patches, view, &depth, |range, from| match from {
            // SAFETY: the caller's promise: the stretch is inside of an image.
            Some(from) => unsafe { T::load(view.element, from, patches.channel, &mut to[range]) },
            None => to[range].fill(T::ZERO),
        });
        place = place.next(patches);
    }
}

/// Copies the elements of a row along `depth` as they are.
///
/// # Safety
/// As for [`gather`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
unsafe fn copy_row(patches: &Patches, view: &View, place: PatchPlace, depth: &Range<usize>, to: &mut [u8]) {
    let size = view.element.size();
    place.stretches(patches, view, depth, |range, from| {
        let to = &mut to[range.start * size..range.end * size];
        match from {
            // SAFETY: the caller's promise: the stretch is inside of an image.
            Some(from) if patches.channel == 1 => unsafe {
                std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
            },
            Some(from) => {
                for (i, to) in to.chunks_exact_mut(size).enumerate() {
                    let from = from.wrapping_offset(i.cast_signed() * patches.channel * size.cast_signed());
                    // SAFETY: as above.
                    unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), size) };
                }
            }
            None => to.fill(0),
        }
    });
}

/// The products of these rows, along a part of K, with B's panels of that part; where `adds`, added. Their taps are multiplied
/// where they lie, if there are some. `false` if a subnormal number may be in them or come of them; then `to` is unspecified.
///
/// # Safety
/// As for [`gather`]; the CPU must multiply words of this type.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) unsafe fn by_patches<W: Words>(
    (patches, taps): (&Patches, Option<&Taps>),
    view: &View,
    (rows, depth): (Range<usize>, Range<usize>),
    (of_b, contents): (&[i32], Contents),
    memory: &mut Lines<i32>,
    (to, columns, adds): (&mut [W::Sum], usize, bool),
) -> bool {
    /// Words between two rows: so they are not whole powers of two apart.
    const GAP: usize = 16;
    let (words, bytes) = (depth.len().div_ceil(W::ELEMENTS), 4 / W::ELEMENTS);
    let b = Panels { words: of_b, deep: words };
    let multiply = |a: &[WordRows<'_>], to: &mut [W::Sum]| {
        // SAFETY: `a` has its words, by the caller's promise or in the memory; the CPU multiplies words of this type.
        unsafe {
            let least = block::<W>(columns, a, b, (to, columns, adds));
            !W::DROPS_SUBNORMALS || least.has_normal_products(contents.least)
        }
    };
    // Zeros are left out there.
    if let Some(taps) = taps.filter(|_| contents.are_finite) {
        let runs = taps.runs::<W>(&depth);
        return multiply(&taps.rows(&runs), to);
    }
    let pitch = words + GAP;
    let high = HIGH.min(rows.len());
    memory.grow(high * pitch);
    for first in (0..rows.len()).step_by(HIGH) {
        let high = HIGH.min(rows.len() - first);
        let mut place = PatchPlace::of(patches, rows.start + first);
        let block_of_a = &mut memory[..high * pitch];
        for line in block_of_a.chunks_exact_mut(pitch) {
            let line: &mut [u8] = bytemuck::cast_slice_mut(&mut line[..words]);
            line[depth.len() * bytes..].fill(0);
            // SAFETY: the caller's promise.
            unsafe { copy_row(patches, view, place, &depth, line) };
            place = place.next(patches);
        }
        let starts: SmallVec<[_; HIGH]> = block_of_a.chunks_exact(pitch).map(|line| line.as_ptr().cast()).collect();
        if !multiply(&[WordRows::all(&starts, &[WordRun::of(words)], 4)], &mut to[first * columns..]) {
            return false;
        }
    }
    true
}

/// The sum of 8-bit integers of a row.
///
/// # Safety
/// As for [`gather`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn sum_of_patch(patches: &Patches, view: &View, row: usize, depth: Range<usize>) -> i64 {
    let signed = view.element == crate::ElementType::I8;
    let mut sum = 0;
    PatchPlace::of(patches, row).stretches(patches, view, &depth, |range, from| {
        for i in 0..range.len() {
            let Some(from) = from else { break };
            // SAFETY: the caller's promise: the stretch is inside of an image.
            let byte = unsafe { from.wrapping_offset(i.cast_signed() * patches.channel).read() };
            sum += if signed { i64::from(byte.cast_signed()) } else { i64::from(byte) };
        }
    });
    sum
}
