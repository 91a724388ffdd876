//! Copies on a GPU: the choice of the kernel, and its launches.

use std::fmt::Write as _;

use crate::compile::source::Source;
use crate::device::Device;
use crate::device::launch::Launch;
use crate::error::Result;
use crate::launch::kernel::KernelArgument;
use crate::launch::stream::Stream;
use crate::layout::strided::{Axis, Strided, Transposed};
use crate::tensor::DeviceTensor;

const TEXT: &str = include_str!("kernel.cuh");

/// As in `kernel.cuh`.
const MOST_AXES: usize = 8;
const THREADS: u32 = 256;
const WORDS_OF_A_BLOCK: usize = 4 * 256;

/// The most words of one launch: they are counted in 32 bits, with a division that is exact up to 2^31.
const MOST_WORDS: usize = 1 << 30;

/// Enough blocks in a launch to keep every multiprocessor busy.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 16;

/// With smaller extents, both kernels read or write parts of memory lines, so the simple one is used.
const LEAST_SQUARE: usize = 8;

/// As in `kernel.cuh`.
#[derive(Clone, Copy, Default, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C)]
struct Divided {
    extent: u32,
    multiplier: u32,
    shift: u32,
    unused: u32,
    from: u64,
    to: u64,
}

impl Divided {
    /// With l = ⌈log2 extent⌉, the multiplier ⌊2^(31 + l) / extent⌋ + 1 gives every quotient below 2^31. (Granlund and
    /// Montgomery, "Division by invariant integers using multiplication", theorem 4.2.)
    fn new(axis: Axis) -> Self {
        let extent = axis.extent as u64;
        let shift = 31 + extent.next_power_of_two().trailing_zeros();
        let multiplier = ((1u64 << shift) / extent + 1) as u32;
        Self { extent: extent as u32, multiplier, shift, unused: 0, from: axis.from as u64, to: axis.to as u64 }
    }
}

/// As in `kernel.cuh`.
#[derive(Clone, Copy, Default, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C)]
struct Parameters {
    from: u64,
    to: u64,
    count: u32,
    rank: u32,
    read: u32,
    written: u32,
    written_from: u64,
    read_to: u64,
    axes: [Divided; MOST_AXES],
}

/// Copies `from` to `to`, a view of the same shape and device that no part of `from` belongs to, on a stream.
pub(super) fn launch(from: &DeviceTensor, to: &DeviceTensor, stream: &Stream) -> Result<()> {
    let blocks = from.device().properties().multiprocessors.max(1) * BLOCKS_PER_MULTIPROCESSOR;
    launch_blocks(from, to, (blocks, stream))
}

/// Launches the copy with at most `most` blocks.
pub(super) fn launch_blocks(from: &DeviceTensor, to: &DeviceTensor, room: (u32, &Stream)) -> Result<()> {
    let (source, target) = (from.device_address(), to.device_address());
    let alignment = 1 << (source | target).trailing_zeros().min(8);
    let copy = Strided::new(from.shape(), from.strides(), to.strides(), from.element_type().size(), alignment);
    launch_part(&copy, [source, target], [from, to], room)
}

/// Launches a copy whose first words are at the two addresses; in parts, if it is too large for one launch.
fn launch_part(
    copy: &Strided,
    [source, target]: [u64; 2],
    tensors: [&DeviceTensor; 2],
    room: (u32, &Stream),
) -> Result<()> {
    let parts = match copy.axes.split_first() {
        Some((outer, _)) if copy.axes.len() > MOST_AXES => outer.extent,
        Some(_) if copy.words() > MOST_WORDS => 2,
        _ => return launch_one(copy, [source, target], tensors, room),
    };
    let outer = copy.axes[0];
    let each = outer.extent.div_ceil(parts);
    for first in (0..outer.extent).step_by(each) {
        let mut part = copy.clone();
        part.axes[0].extent = each.min(outer.extent - first);
        part.axes.retain(|axis| axis.extent != 1);
        let moved = |address: u64, step: usize| address + (first * step) as u64;
        launch_part(&part, [moved(source, outer.from), moved(target, outer.to)], tensors, room)?;
    }
    Ok(())
}

fn launch_one(
    copy: &Strided,
    [source, target]: [u64; 2],
    [from, to]: [&DeviceTensor; 2],
    (most, stream): (u32, &Stream),
) -> Result<()> {
    let device = from.device();
    let mut parameters = Parameters { from: source, to: target, ..Parameters::default() };
    let wide = |t: &Transposed| t.read.extent.min(t.written.extent) >= LEAST_SQUARE;
    let transposed = copy.transposed().filter(wide);
    let (axes, blocks) = match &transposed {
        Some(Transposed { read, written, outer }) => {
            let square = square(copy.word);
            let squares = read.extent.div_ceil(square) * written.extent.div_ceil(square);
            let count = outer.iter().map(|axis| axis.extent).product::<usize>() * squares;
            (parameters.read, parameters.written) = (read.extent as u32, written.extent as u32);
            (parameters.written_from, parameters.read_to) = (written.from as u64, read.to as u64);
            parameters.count = count as u32;
            (outer, count)
        }
        None => {
            parameters.count = copy.words() as u32;
            (&copy.axes, copy.words().div_ceil(WORDS_OF_A_BLOCK))
        }
    };
    parameters.rank = axes.len() as u32;
    for (place, axis) in parameters.axes.iter_mut().zip(axes) {
        *place = Divided::new(*axis);
    }
    let kernel = kernel(device, copy.word, transposed.is_some())?;
    let grid = [(blocks as u32).clamp(1, most), 1, 1];
    let arguments = [
        KernelArgument::Value(bytemuck::bytes_of(&parameters)),
        KernelArgument::Reads(from),
        KernelArgument::Writes(to),
    ];
    kernel.launch(&Launch { grid, block: [THREADS, 1, 1], ..Launch::default() }, &arguments, stream)
}

/// The side of a square, in words, that is transposed in shared memory, as in `kernel.cuh`.
fn square(word: usize) -> usize {
    if word <= 2 { 64 } else { 32 }
}

fn kernel(device: &Device, word: usize, transposed: bool) -> Result<crate::Kernel> {
    let way = if transposed { "transposed" } else { "direct" };
    let entry = format!("copy_{way}_{word}");
    device.own_kernel(&entry, || source(&entry, way, word))
}

pub(super) fn source(entry: &str, way: &str, word: usize) -> Source {
    let mut code = TEXT.to_owned();
    let _ = write!(
        code,
        "\nextern \"C\" __global__ void __launch_bounds__({THREADS})\n\
         {entry}(const __grid_constant__ Parameters parameters) {{\n    copy_{way}<{word}>(parameters);\n}}\n"
    );
    Source::new("copy/kernel.cuh", entry, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_exact() {
        let mut extents: Vec<usize> = (1..2000).collect();
        extents.extend((0..31).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]).filter(|n| *n > 0));
        for extent in extents {
            let divided = Divided::new(Axis { extent, from: 0, to: 0 });
            let near = |n: u64| [n.saturating_sub(1), n, n + 1];
            let multiples = [0, 1, 2, 7, 1000, (1 << 31) / extent as u64].map(|k| k * extent as u64);
            let numbers = multiples.into_iter().flat_map(near).chain([(1 << 31) - 1]);
            for number in numbers.filter(|n| *n < 1 << 31) {
                let quotient = (number * u64::from(divided.multiplier)) >> divided.shift;
                assert_eq!(quotient, number / extent as u64, "{number} / {extent}");
            }
        }
    }
}
