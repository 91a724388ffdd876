//! Operands that tensor copies can't load are copied first, by a kernel of their own, to rows that they can.
//!
//! A kernel for sm_90a needs rows that begin at multiples of 16 bytes, and 8-bit and TF32 operands that are contiguous
//! along K. Where an operand is neither, there are two ways: a kernel for sm_80, which takes anything, or a copy of the
//! operand in the plan's workspace before the product ([`Repacking`]). The cost model says which. The copies' kernels
//! are `src/device/repack.cuh`; this module knows nothing of the product's.

use std::collections::HashMap;
use std::fmt;

use epilogue_runtime::{Device, DeviceTensor, Kernel, KernelArgument, Launch, Source, Stream};

use super::cost::Candidate;
use super::kernel::parameters::ParameterBytes;
use super::kernel::sm90::Wgmma;
use super::kernel::sm90::reach::takes;
use super::machine::Machine;
use super::problem::{Error, Major, OperandLayout, OperandView, Problem};
use super::sm90;
use crate::device;

/// Why an operand is copied before the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// Its rows don't begin at multiples of 16 bytes, or its neighbours are adjacent along no axis.
    Unaligned,
    /// It is contiguous along M or N, and the instruction takes it along K only.
    Major,
}

/// Which operands are copied before the product, and what that costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Repacking {
    /// Why A is; `None` where it is not.
    pub a: Option<Unreachable>,
    /// Why B is; `None` where it is not.
    pub b: Option<Unreachable>,
    /// Predicted time of the copies in microseconds.
    pub microseconds: f64,
}

/// What a launch costs beside its work: its start, and the end of what runs before it. An estimate.
const LAUNCH_MICROSECONDS: f64 = 3.0;
/// The share of memory's bandwidth that copies of single words reach. An estimate.
const BANDWIDTH_SHARE: f64 = 0.8;

fn unreachable(instruction: Wgmma, layout: OperandLayout) -> Option<Unreachable> {
    if layout.copy_bytes != 16 {
        return Some(Unreachable::Unaligned);
    }
    (!takes(instruction, layout)).then_some(Unreachable::Major)
}

impl Repacking {
    /// What a kernel of this instruction needs to be copied of operands in these layouts.
    pub(super) fn of(
        machine: &Machine,
        problem: &Problem,
        instruction: Wgmma,
        (a, b): (OperandLayout, OperandLayout),
    ) -> Self {
        let size = instruction.element_size();
        let (a, b) = (unreachable(instruction, a), unreachable(instruction, b));
        let cost = |why: Option<Unreachable>, outer| {
            why.map_or(0.0, |_| microseconds(machine, [problem.batch, outer, problem.k], size))
        };
        Self { a, b, microseconds: cost(a, problem.m) + cost(b, problem.n) }
    }

    /// Whether nothing is copied.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.a.is_none() && self.b.is_none()
    }

    /// How the operands lie when what must be copied is. A copy keeps an operand's major where the instruction takes it.
    pub(super) fn layouts(
        &self,
        instruction: Wgmma,
        (a, b): (OperandLayout, OperandLayout),
    ) -> (OperandLayout, OperandLayout) {
        let copied = |why: Option<Unreachable>, layout: OperandLayout| match why {
            None => layout,
            Some(_) if instruction.takes_mn_major() => OperandLayout::packed(layout.major),
            Some(_) => OperandLayout::packed(Major::K),
        };
        (copied(self.a, a), copied(self.b, b))
    }

    /// [`layouts`](Self::layouts) for a kernel that is there already: copies have its majors.
    pub(super) fn layouts_for(
        &self,
        majors: (Major, Major),
        (a, b): (OperandLayout, OperandLayout),
    ) -> (OperandLayout, OperandLayout) {
        let copied = |why: Option<Unreachable>, layout, major| why.map_or(layout, |_| OperandLayout::packed(major));
        (copied(self.a, a, majors.0), copied(self.b, b, majors.1))
    }
}

impl Candidate {
    /// The same kernel after copies.
    pub(super) fn after(self, repacking: Repacking) -> Self {
        let microseconds = self.microseconds - self.repacking.microseconds + repacking.microseconds;
        Self { repacking, microseconds, ..self }
    }
}

/// The predicted time of one copy: every byte is read and written once.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn microseconds(machine: &Machine, extents: [usize; 3], size: usize) -> f64 {
    let bytes = 2.0 * size as f64 * extents.iter().map(|extent| *extent as f64).product::<f64>();
    let per_microsecond = machine.memory_bytes_per_clock * machine.multiprocessors as f64 * machine.clock * 1e3;
    LAUNCH_MICROSECONDS + bytes / (per_microsecond * BANDWIDTH_SHARE)
}

impl fmt::Display for Repacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut copied = [("A", self.a), ("B", self.b)].into_iter().filter_map(|(name, why)| Some((name, why?)));
        let reason = |why| match why {
            Unreachable::Unaligned => "its rows don't begin at multiples of 16 bytes",
            Unreachable::Major => "the instruction takes it contiguous along K only",
        };
        match (copied.next(), copied.next()) {
            (None, _) => return f.write_str("no operand is copied first"),
            (Some((name, why)), None) => write!(f, "{name} is copied first ({})", reason(why))?,
            (Some((_, x)), Some((_, y))) if x == y => {
                let reason = reason(x).replacen("its", "their", 1).replacen("takes it", "takes them", 1);
                write!(f, "A and B are copied first ({reason})")?;
            }
            (Some((x, x_why)), Some((y, y_why))) => {
                write!(f, "{x} is copied first ({}) and {y} ({})", reason(x_why), reason(y_why))?;
            }
        }
        write!(f, ", about {:.1} us of it", self.microseconds)
    }
}

/// How a copy reads: `epilogue::repack::Reading`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reading {
    Neighbours,
    Transpose,
    Gather,
}

/// What a copy's kernel is generated from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CopyKey {
    /// Bytes of an element: 1, 2 or 4.
    size: usize,
    reading: Reading,
}

const ENTRY: &str = "epilogue_repack";
/// `epilogue::repack::THREADS`.
const THREADS: u32 = 256;
/// Bytes of `epilogue::repack::Parameters`.
const PARAMETER_BYTES: usize = 72;
/// Blocks that a multiprocessor runs at once (2048 threads); each takes one tile after another.
const BLOCKS_AT_ONCE: usize = 2048 / THREADS as usize;

impl CopyKey {
    fn source(self) -> Source {
        let Self { size, reading } = self;
        let code = format!(
            "// Copies a matrix of {size}-byte elements to rows of whole 16 bytes ({reading:?}).\n// Generated by epilogue \
             {}; it needs no other file.\n\n{}\nextern \"C\" __global__ void \
             __launch_bounds__(epilogue::repack::THREADS, {BLOCKS_AT_ONCE}) {ENTRY}(\n    \
             const __grid_constant__ epilogue::repack::Parameters parameters) {{\n    epilogue::repack::run<{size}, \
             epilogue::repack::Reading::{reading:?}>(parameters);\n}}\n",
            env!("CARGO_PKG_VERSION"),
            device::inlined(&["repack.cuh"])
        );
        Source::new("repack.cu", ENTRY, code)
    }

    /// Elements along a row and rows of a tile.
    fn tile(self) -> (u64, u64) {
        let per_word = 4 / self.size as u64;
        (32 * per_word, if self.reading == Reading::Transpose { 32 * per_word } else { 32 })
    }
}

/// Which operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operand {
    A,
    B,
}

/// A matrix as a copy sees it: `rows` of `columns` that are neighbours when they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MatrixCopy {
    size: usize,
    batches: usize,
    rows: usize,
    columns: usize,
    /// Strides in elements: batch, row, column.
    source: [usize; 3],
    /// Elements from one row to the next where it is written.
    pitch: usize,
}

impl MatrixCopy {
    /// Of an operand that is to have `target`'s neighbours. Batches that share their memory are copied once.
    fn of(view: &OperandView, target: Major) -> Self {
        let size = view.element.size();
        let shared = view.batch == 0;
        let (rows, columns, row, column) = match target {
            Major::K => (view.outer_extent, view.k_extent, view.outer, view.k),
            Major::Mn => (view.k_extent, view.outer_extent, view.k, view.outer),
        };
        Self {
            size,
            batches: if shared { 1 } else { view.batch_extent },
            rows,
            columns,
            source: [view.batch, row, column].map(isize::unsigned_abs),
            pitch: columns.next_multiple_of(16 / size),
        }
    }

    fn elements(&self) -> usize {
        self.batches * self.rows * self.pitch
    }

    fn key(&self) -> CopyKey {
        let [_, row, column] = self.source;
        let reading = if column == 1 || self.columns <= 1 {
            Reading::Neighbours
        } else if row == 1 || self.rows <= 1 {
            Reading::Transpose
        } else {
            Reading::Gather
        };
        CopyKey { size: self.size, reading }
    }

    /// As many blocks as run at once on so many multiprocessors, or fewer.
    fn blocks(&self, multiprocessors: usize) -> u32 {
        let (along, down) = self.key().tile();
        let tiles = (self.columns as u64).div_ceil(along) * (self.rows as u64).div_ceil(down);
        let most = multiprocessors.saturating_mul(BLOCKS_AT_ONCE).max(1) as u64;
        u32::try_from(tiles.saturating_mul(self.batches as u64).clamp(1, most)).unwrap_or(1)
    }

    /// `epilogue::repack::Parameters`.
    fn parameters(&self, source: u64, destination: u64) -> Vec<u8> {
        let mut bytes = ParameterBytes::new(PARAMETER_BYTES);
        let words = |elements: usize| (elements * self.size / 4) as u64;
        let [batch, row, column] = self.source.map(|stride| (stride * self.size) as u64);
        bytes.put_words(0, &[source, destination, batch, row, column]);
        bytes.put_words(40, &[words(self.rows * self.pitch), words(self.pitch)]);
        // Below 2^31 by `Problem::check_extents`.
        let extents = [self.rows, self.columns, self.batches];
        bytes.put_ints(56, &extents.map(|extent| i32::try_from(extent).unwrap_or(i32::MAX)));
        bytes.into_bytes()
    }
}

/// The copies' kernels, and the memory that they write: for every stream its own, which a run that follows on the same
/// stream writes again.
#[derive(Debug)]
pub(super) struct Repacker {
    /// How many multiprocessors copies may fill.
    multiprocessors: usize,
    kernels: HashMap<CopyKey, Kernel>,
    copies: HashMap<(usize, Operand), DeviceTensor>,
}

impl Repacker {
    /// For copies that may fill so many of a device's multiprocessors; all of them, if it is not said.
    pub(super) fn new(device: &Device, multiprocessors: Option<usize>) -> Self {
        let all = device.properties().multiprocessors as usize;
        let multiprocessors = multiprocessors.map_or(all, |allowed| allowed.min(all));
        Self { multiprocessors, kernels: HashMap::new(), copies: HashMap::new() }
    }

    /// A copy of an operand in rows that begin at multiples of 16 bytes, with `target`'s neighbours, made on `stream`
    /// (which `stream_key` stands for). It has the operand's shape, but for batches that share their memory, and holds
    /// until the next copy on this stream.
    pub(super) fn copy(
        &mut self,
        device: &Device,
        (stream, stream_key): (&Stream, usize),
        (tensor, operand): (&DeviceTensor, Operand),
        target: Major,
    ) -> Result<DeviceTensor, Error> {
        let view = match operand {
            Operand::A => OperandView::of_a(tensor),
            Operand::B => OperandView::of_b(tensor),
        };
        let copy = MatrixCopy::of(&view, target);
        let place = (stream_key, operand);
        let memory = match self.copies.remove(&place).filter(|memory| memory.len() >= copy.elements()) {
            Some(memory) => memory,
            None => device.zeros_of(view.element, [copy.elements()])?,
        };
        let kernel = match self.kernels.get(&copy.key()) {
            Some(kernel) => kernel.clone(),
            None => {
                let kernel = device.compile(&copy.key().source())?;
                self.kernels.insert(copy.key(), kernel.clone());
                kernel
            }
        };
        let parameters = copy.parameters(view.address, memory.device_address());
        let arguments =
            [KernelArgument::Value(&parameters), KernelArgument::Reads(tensor), KernelArgument::Writes(&memory)];
        let launch =
            Launch { grid: [copy.blocks(self.multiprocessors), 1, 1], block: [THREADS, 1, 1], ..Launch::default() };
        kernel.launch(&launch, &arguments, stream)?;
        let copied = memory.slice(0, 0..copy.elements())?;
        self.copies.insert(place, memory);
        let copied = copied.reshape([copy.batches, copy.rows, copy.pitch])?.slice(2, 0..copy.columns)?;
        let copied = match (operand, target) {
            (Operand::A, Major::K) | (Operand::B, Major::Mn) => copied,
            (Operand::A, Major::Mn) | (Operand::B, Major::K) => copied.transpose()?,
        };
        let shape: Vec<usize> =
            if copy.batches == 1 { tensor.shape()[tensor.rank() - 2..].to_vec() } else { tensor.shape().to_vec() };
        Ok(copied.reshape(shape)?)
    }
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::ptx_vm::{Detector, Options};
    use epilogue_runtime::{Arch, Output, testing};
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;
    use crate::ElementType;

    /// One copy of a matrix at awkward strides, made by few blocks: every element arrives, and nothing else is written.
    fn check(device: &Device, element: ElementType, extents: [usize; 3], strides: [usize; 2], offset: usize) {
        let [batches, rows, columns] = extents;
        let size = element.size();
        let reach = |extents: [usize; 2]| (extents[0] - 1) * strides[0] + (extents[1] - 1) * strides[1] + 1;
        let plane = reach([rows, columns]) + 3;
        let source: Vec<u8> = (0..(offset + batches * plane) * size).map(|i| (i * 131 + i / 251) as u8).collect();
        let parent = device.tensor_from_bytes(element, &source, [source.len() / size]).expect("memory");
        let view = parent.slice(0, offset..source.len() / size).expect("a view");
        let copy = MatrixCopy {
            size,
            batches,
            rows,
            columns,
            source: [plane, strides[0], strides[1]],
            pitch: columns.next_multiple_of(16 / size),
        };
        let poison = vec![0xa5; (copy.elements() + 16) * size];
        let memory = device.tensor_from_bytes(element, &poison, [copy.elements() + 16]).expect("memory");
        let kernel = device.compile(&copy.key().source()).expect("a kernel");
        let parameters = copy.parameters(view.device_address(), memory.device_address());
        let arguments =
            [KernelArgument::Value(&parameters), KernelArgument::Reads(&view), KernelArgument::Writes(&memory)];
        let launch = Launch { grid: [copy.blocks(1).min(3), 1, 1], block: [THREADS, 1, 1], ..Launch::default() };
        kernel.launch(&launch, &arguments, &device.default_stream()).expect("a launch");
        let got = memory.to_bytes().expect("bytes");
        for (at, got) in got.chunks(size).enumerate() {
            let (line, column) = (at / copy.pitch, at % copy.pitch);
            let (batch, row) = (line / rows, line % rows);
            if batch < batches && column < columns {
                let from = offset + batch * plane + row * strides[0] + column * strides[1];
                assert_eq!(got, &source[from * size..][..size], "{copy:?}: {batch}, {row}, {column}");
            } else if batch >= batches || column >= columns.next_multiple_of(4 / size) {
                assert!(got.iter().all(|byte| *byte == 0xa5), "{copy:?}: {at} is nobody's");
            }
        }
    }

    #[test]
    fn every_element_arrives_wherever_it_lies() {
        if testing::compiler("every_element_arrives_wherever_it_lies").is_none() {
            return;
        }
        let device = Device::emulated_with(Arch::SM_90A, Options::default().detector(Detector::On)).expect("a device");
        let extent = || prop::sample::select(vec![1usize, 2, 3, 5, 31, 33, 64, 70, 129, 150, 260]);
        let strategy = (
            prop::sample::select(vec![ElementType::I8, ElementType::BF16, ElementType::F32]),
            (1usize..4, extent(), extent()),
            prop::sample::select(vec![(true, 1usize), (false, 1), (true, 2), (false, 3)]),
            (0usize..5, 0usize..5),
        );
        let config = Config { failure_persistence: None, ..Config::with_cases(40) };
        TestRunner::new(config)
            .run(&strategy, |(element, (batches, rows, columns), (along_rows, step), (padding, offset))| {
                let strides = if along_rows { [columns * step + padding, step] } else { [step, rows * step + padding] };
                check(&device, element, [batches, rows, columns], strides, offset);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Without either barrier, a tile is read before it is whole, or overwritten before it is read.
    #[test]
    fn both_barriers_of_a_transposed_tile_are_needed() {
        if testing::compiler("both_barriers_of_a_transposed_tile_are_needed").is_none() {
            return;
        }
        for comment in ["// the tile is whole", "// the tile is read: the next one may take its place"] {
            let options = Options::default().detector(Detector::On);
            let device = Device::emulated_with(Arch::SM_90A, options).expect("a device");
            let key = CopyKey { size: 2, reading: Reading::Transpose };
            let mut source = key.source();
            let mutant = source.code.replace(&format!("__syncthreads();  {comment}"), "");
            assert_ne!(mutant, source.code);
            source.code = mutant;
            let kernel = device.compile(&source).expect("a kernel");
            let (a, b) = (device.zeros::<half::f16>([200, 200]), device.zeros::<half::f16>([200, 200]));
            let (a, b) = (a.expect("memory"), b.expect("memory"));
            let copy = MatrixCopy { size: 2, batches: 1, rows: 200, columns: 200, source: [0, 1, 200], pitch: 200 };
            let parameters = copy.parameters(a.device_address(), b.device_address());
            let arguments = [KernelArgument::Value(&parameters), KernelArgument::Reads(&a), KernelArgument::Writes(&b)];
            let launch = Launch { grid: [2, 1, 1], block: [THREADS, 1, 1], ..Launch::default() };
            let raced = kernel.launch(&launch, &arguments, &device.default_stream()).expect_err("a race").to_string();
            assert!(raced.contains("race, "), "{comment}: {raced}");
        }
    }

    #[test]
    fn copies_have_the_registers_that_they_need() {
        let Some(compiler) = testing::compiler("copies_have_the_registers_that_they_need") else { return };
        for size in [1, 2, 4] {
            for reading in [Reading::Neighbours, Reading::Transpose, Reading::Gather] {
                let compiled = compiler.compile(&CopyKey { size, reading }.source(), Arch::SM_90A, Output::Cubin);
                let log = compiled.expect("machine code").log;
                let resources = &log.kernels[0];
                assert_eq!(resources.spill_store_bytes + resources.spill_load_bytes, 0, "{size} {reading:?}");
                assert!(log.diagnostics.is_empty(), "{:?}", log.diagnostics);
                // 8 blocks of 256 threads at once.
                assert!(resources.registers <= 32, "{size} {reading:?}: {resources:?}");
            }
        }
    }
}
