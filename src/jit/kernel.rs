//! Machine code of a loop over lanes, and how it is called.

use super::body::{Argument, Body};
use super::emit::emit;
use super::emit_rows::emit_rows;
use super::emit_tile::emit_tile;
use super::isa::Isa;
use super::memory::Executable;
use super::rows::RowProgram;
use super::{ARGUMENTS, Host, ROW_ARGUMENTS};
use crate::tuning::Vectors;

/// A body, compiled to a loop for this CPU.
#[derive(Debug)]
pub(crate) struct Kernel {
    code: Executable,
    /// The lanes of a vector.
    lanes: usize,
    arguments: Vec<Argument>,
    period: usize,
    /// Whether lanes may be computed twice: no argument is read and written, or taken lane after lane.
    repeats: bool,
}

/// The levels of instructions that code is made for, the longest vectors first.
fn levels(vectors: Vectors) -> &'static [<Host as Isa>::Level] {
    let all = Host::LEVELS;
    match vectors {
        Vectors::Longest => all,
        Vectors::Shortest => &all[all.len() - 1..],
    }
}

/// Whether there is code for the thread's [level](crate::level). If there is none, nothing need be lowered.
pub(crate) fn has_code() -> bool {
    Host::LEVELS.iter().any(|level| Host::is_there(*level))
}

impl Kernel {
    /// `None` on a CPU without the instructions, and on a system that allows no new code. A body may also have too many
    /// streams or values.
    pub(crate) fn compile(body: &Body, vectors: Vectors) -> Option<Self> {
        levels(vectors).iter().find_map(|level| Self::at_level(body, *level))
    }

    /// A kernel of this level's instructions only.
    pub(super) fn at_level(body: &Body, level: <Host as Isa>::Level) -> Option<Self> {
        if !Host::is_there(level) || body.arguments.len() > ARGUMENTS {
            return None;
        }
        let isa = Host::new(level);
        let (code, lanes) = (Executable::new(&emit(body, &isa)?)?, isa.lanes());
        let period = body.period.map_or(lanes, |period| period as usize);
        let repeats = body.arguments.iter().all(|argument| match argument {
            Argument::Stream { read, written, past, .. } => read != written && !past,
            Argument::Uniform | Argument::WideUniform | Argument::Counter => true,
            Argument::Cyclic | Argument::Tile(_) => false,
        });
        Some(Self { code, lanes, arguments: body.arguments.clone(), period, repeats })
    }

    /// Lanes of its vectors.
    pub(crate) const fn lanes(&self) -> usize {
        self.lanes
    }

    /// Computes `count` lanes. `addresses` are those of the body's arguments, in their order.
    ///
    /// # Safety
    /// The memory at the addresses must be readable or writable as the body says: `count` lanes, or as many as a period
    /// has, or one uniform value. Nobody else may write what is read, or access what is written, during the call. A
    /// written stream may start at the address of a read one, and overlap others in no other way.
    pub(crate) unsafe fn run(&self, addresses: &[*mut u8], count: usize) {
        assert_eq!(addresses.len(), self.arguments.len(), "an address for each argument");
        let rest = count % self.lanes;
        let whole = count - rest;
        if whole > 0 {
            // SAFETY: the caller's promise; the code reads and writes whole vectors up to this lane.
            unsafe { self.call(addresses.as_ptr(), whole) };
        }
        if rest == 0 {
            return;
        }
        // SAFETY: the caller's promise; the last lanes are a whole vector.
        unsafe {
            if whole > 0 && self.repeats && !self.is_in_place(addresses) {
                self.run_last(addresses, count - self.lanes);
            } else {
                self.run_rest(addresses, whole, rest);
            }
        }
    }

    /// Whether a stream is written where another one is read.
    fn is_in_place(&self, addresses: &[*mut u8]) -> bool {
        let streams = |wanted: bool| {
            let is =
                move |argument: &Argument| matches!(argument, Argument::Stream { written, .. } if *written == wanted);
            self.arguments.iter().zip(addresses).filter(move |(argument, _)| is(argument)).map(|(_, address)| *address)
        };
        streams(true).any(|written| streams(false).any(|read| read == written))
    }

    /// Computes a vector of lanes from `first` on: some of them once more.
    ///
    /// # Safety
    /// The conditions of [`Kernel::run`], for these lanes. No stream may be written where another one is read.
    unsafe fn run_last(&self, addresses: &[*mut u8], first: usize) {
        let mut moved = [std::ptr::null_mut::<u8>(); ARGUMENTS];
        let mut counters = [0u32; ARGUMENTS];
        for (((argument, address), moved), counter) in
            self.arguments.iter().zip(addresses).zip(&mut moved).zip(&mut counters)
        {
            *moved = match argument {
                Argument::Stream { lane, .. } => address.wrapping_add(first * lane.bytes()),
                Argument::Counter => {
                    // SAFETY: the caller promises that it is readable.
                    *counter = unsafe { address.cast::<u32>().read_unaligned() }.wrapping_add(first as u32);
                    std::ptr::from_mut(counter).cast()
                }
                Argument::Cyclic | Argument::Uniform | Argument::WideUniform | Argument::Tile(_) => *address,
            };
        }
        // SAFETY: the caller's promise.
        unsafe { self.call(moved.as_ptr(), self.lanes) };
    }

    /// Computes the last lanes, fewer than a vector has, on copies.
    ///
    /// # Safety
    /// The conditions of [`Kernel::run`].
    unsafe fn run_rest(&self, addresses: &[*mut u8], first: usize, count: usize) {
        let mut copies = [[0u32; Host::MOST_LANES]; ARGUMENTS];
        let mut moved = [std::ptr::null_mut::<u8>(); ARGUMENTS];
        let part = |argument: &Argument, address: *mut u8| match argument {
            Argument::Stream { lane, .. } => (address.wrapping_add(first * lane.bytes()), count * lane.bytes()),
            Argument::Cyclic => (address.wrapping_add(first % self.period * 4), count * 4),
            Argument::Uniform | Argument::Counter | Argument::Tile(_) => (address, 4),
            Argument::WideUniform => (address, 8),
        };
        for (((argument, address), copy), moved) in
            self.arguments.iter().zip(addresses).zip(&mut copies).zip(&mut moved)
        {
            let (from, bytes) = part(argument, *address);
            let to = copy.as_mut_ptr().cast::<u8>();
            if !matches!(argument, Argument::Stream { read: false, .. }) {
                // SAFETY: the caller promises that these lanes are readable; a copy has room for a vector.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            }
            if *argument == Argument::Counter {
                copy[0] = copy[0].wrapping_add(first as u32);
            }
            *moved = to;
        }
        // SAFETY: all arguments are vectors of this function's.
        unsafe { self.call(moved.as_ptr(), self.lanes) };
        for ((argument, address), moved) in self.arguments.iter().zip(addresses).zip(moved) {
            if matches!(argument, Argument::Stream { written: true, .. } | Argument::Cyclic) {
                let (to, bytes) = part(argument, *address);
                // SAFETY: the caller promises that these lanes are writable.
                unsafe { std::ptr::copy_nonoverlapping(moved, to, bytes) };
            }
        }
    }

    /// # Safety
    /// The conditions of [`Kernel::run`], for a positive multiple of a vector's lanes.
    unsafe fn call(&self, addresses: *const *mut u8, count: usize) {
        // SAFETY: the code was made for this CPU, as `at_level` has checked; the caller's promise.
        unsafe { Host::call(self.code.start(), addresses, count) };
    }
}

/// A row program, compiled to a loop over rows for this CPU.
#[derive(Debug)]
pub(crate) struct RowKernel {
    code: Executable,
    arguments: usize,
}

impl RowKernel {
    /// `None` if [`Kernel::compile`] gives none, if vector code can't leave out the tails of rows, or if stages have
    /// too many streams or values.
    pub(crate) fn compile(program: &RowProgram, vectors: Vectors) -> Option<Self> {
        levels(vectors).iter().find_map(|level| Self::at_level(program, *level))
    }

    /// A kernel of this level's instructions only.
    pub(super) fn at_level(program: &RowProgram, level: <Host as Isa>::Level) -> Option<Self> {
        let arguments = program.arguments();
        if !Host::is_there(level) || arguments > ROW_ARGUMENTS {
            return None;
        }
        let code = Executable::new(&emit_rows(program, Host::new(level))?)?;
        Some(Self { code, arguments })
    }

    /// Computes rows. `addresses` are those of the first row's arguments, of all stages in their order; `apart` are their
    /// distances between rows, in bytes.
    ///
    /// # Safety
    /// For each row, the memory at the addresses must be readable or writable as the stages say. It has the lanes of a
    /// row; one lane in a stage that is computed once; or one uniform value. Nobody else may write what is read, or
    /// access what is written, during the call. A written stream may start at the address of a read one, and overlap
    /// others of its stage in no other way.
    pub(crate) unsafe fn run(&self, addresses: &mut [*mut u8], apart: &[isize], rows: usize) {
        assert!(addresses.len() == self.arguments && apart.len() == self.arguments, "an address for each argument");
        if rows == 0 {
            return;
        }
        // SAFETY: the code was made for this CPU, as `at_level` has checked; it changes the addresses, and reads the distances,
        // of as many arguments as there are; the caller's promise.
        unsafe { Host::call_rows(self.code.start(), addresses.as_mut_ptr(), apart.as_ptr(), rows) };
    }
}

/// The body of a tile, compiled for this CPU.
#[derive(Debug)]
pub(crate) struct TileKernel {
    code: Executable,
    shape: [usize; 2],
}

impl TileKernel {
    /// The best tile for numbers of rows and columns of outputs, one at least of each. `None` where [`Kernel::compile`] gives
    /// none, and for a body that sets a total to what another was.
    pub(crate) fn compile(body: &Body, extents: [usize; 2], vectors: Vectors) -> Option<Self> {
        levels(vectors).iter().find_map(|level| Self::at_level(body, extents, *level))
    }

    /// A kernel of this level's instructions only.
    pub(super) fn at_level(body: &Body, extents: [usize; 2], level: <Host as Isa>::Level) -> Option<Self> {
        if !Host::is_there(level) {
            return None;
        }
        let mut isa = Host::new(level);
        isa.set_wide(body.is_wide);
        let (code, shape) = emit_tile(body, &isa, extents)?;
        Some(Self { code: Executable::new(&code)?, shape: [shape.rows, shape.vectors * isa.lanes()] })
    }

    /// The numbers of rows and columns of a tile.
    pub(crate) const fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Combines the totals of a tile with some elements.
    ///
    /// # Safety
    /// This many elements of the operands must be packed, and the totals must be those of a tile; all have the lanes of
    /// the body. Nobody else may write what is read, or access the totals, during the call.
    pub(crate) unsafe fn run(&self, rows: *const u8, columns: *const u8, totals: *mut u8, elements: usize) {
        if elements == 0 {
            return;
        }
        let addresses = [rows.cast_mut(), columns.cast_mut(), totals];
        // SAFETY: the code was made for this CPU, as `at_level` has checked; the caller's promise.
        unsafe { Host::call(self.code.start(), addresses.as_ptr(), elements) };
    }
}
