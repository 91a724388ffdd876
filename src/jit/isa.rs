//! The seam between loops over lanes and an instruction set.
//!
//! [`emit`](super::emit) and [`emit_rows`](super::emit_rows) choose registers, the place of each value, and the order of
//! instructions. They ask an [`Isa`] for its register file and for the [`OperandForm`] of an instruction, and let it write
//! code. Numbers of registers, encodings, masks, constants and the calling convention are known in its folder only, so
//! another instruction set is another folder.

use super::body::{Binary, JitNode, Lane};

/// The most vector registers of an instruction set.
pub(super) const MOST_REGISTERS: usize = 32;

/// A vector register, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vector(pub(super) u8);

/// A register for the address of an argument, by its number among these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(pub(super) u8);

/// A counter of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// Up to the number of lanes.
    Lane,
    /// Modulo the period of cyclic streams.
    Cycle,
}

/// Where in memory an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryOperand {
    /// A vector of the stack, by its number.
    Slot(usize),
    /// A constant, by its number.
    Constant(usize),
    /// Lanes of this many bytes: a number of vectors after those that are counted.
    Lanes { base: Address, counter: Counter, bytes: usize, vectors: usize },
    /// The memory that begins this many bytes after an address.
    After(Address, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JitOperand {
    Vector(Vector),
    Memory(MemoryOperand),
}

/// The operands that an instruction needs, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandForm {
    /// The operands that the result may overwrite. If there are any, it overwrites one of them.
    pub(super) overwrites: &'static [usize],
    /// The operand that may be in memory.
    pub(super) memory: Option<usize>,
}

/// An operation on the last lanes of a row, fewer than a vector has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTail {
    Load,
    Store,
    /// Replaces the lanes of a vector.
    Replace,
    /// Combines the lanes of a vector with others.
    Combine,
}

/// An instruction set, and code of it that grows: one function.
pub(super) trait Isa: Clone {
    /// The part of the instruction set that a CPU may lack.
    type Level: Copy + std::fmt::Debug + 'static;
    /// All levels, those with the longest vectors first.
    const LEVELS: &'static [Self::Level];
    /// The most lanes of a vector, at any level.
    const MOST_LANES: usize;
    /// A loop that has begun.
    type Loop: Copy;

    /// Whether the thread's [level](crate::level) has the instructions.
    fn is_there(level: Self::Level) -> bool;
    fn new(level: Self::Level) -> Self;

    /// Lets lanes have 64 bits from here on, or 32 again.
    fn set_wide(&mut self, is_wide: bool);
    /// Lanes of a vector.
    fn lanes(&self) -> usize;
    /// Bytes of a vector.
    fn vector_bytes(&self) -> usize;
    /// The number of vector registers.
    fn registers(&self) -> usize;
    /// The vector registers that states may have: as many as leave an instruction its operands and its result, if no value
    /// of the stage loses its own by that; else the second number.
    fn most_reserved(&self) -> [usize; 2];
    /// The registers for addresses, in a loop over lanes or over rows.
    fn addresses(of_rows: bool) -> impl Iterator<Item = Address>;
    /// Whether there are instructions for all operations: also for [`Binary::Scale`], and for products and extremes of i64s.
    fn has_all(&self) -> bool;
    /// The form of the instruction for a node that is computed.
    fn form(&self, node: &JitNode) -> OperandForm;

    /// Begins the function, which may use these registers for addresses and `frame` bytes of the stack.
    fn enter(&mut self, frame: usize, addresses: impl Iterator<Item = Address>);
    /// Ends the function.
    fn leave(&mut self);
    /// The function's code, with its constants.
    fn finish(self) -> Vec<u8>;

    /// Loads the addresses of arguments, by their numbers.
    fn load_addresses(&mut self, streams: &[(Address, usize)]);
    /// The 32 or, if it is wide, 64 bits at an argument's address, all over a vector. The first register for addresses is
    /// changed.
    fn broadcast(&mut self, to: Vector, argument: usize, is_wide: bool);
    /// One lane in memory, in all lanes.
    fn broadcast_lane(&mut self, to: Vector, from: MemoryOperand);
    /// Writes the numbers 0, 1, … to the lanes of a slot.
    fn number_lanes(&mut self, slot: MemoryOperand);
    /// Sets [`Counter::Lane`] to 0.
    fn first_lane(&mut self);
    /// Sets [`Counter::Cycle`] to [`Counter::Lane`] modulo a power of two.
    fn cycle(&mut self, period: u32);
    /// [`Counter::Lane`], in all lanes.
    fn lane(&mut self, to: Vector);

    /// Begins a loop over `by` lanes at a time, up to the function's second argument. It does nothing if fewer are left.
    fn begin_loop(&mut self, by: usize) -> Self::Loop;
    fn end_loop(&mut self, started: Self::Loop);
    /// The place of the next instruction.
    fn here(&self) -> usize;
    /// Ends a loop that begins at `start`, in which [`Counter::Lane`] counts up to `until`.
    fn repeat(&mut self, start: usize, by: usize, until: usize);
    /// Moves an argument's address to the next row.
    fn next_address(&mut self, argument: usize);
    /// Ends the loop over rows.
    fn next_row(&mut self, start: usize);
    /// Loads an argument's address in the next row.
    fn load_next(&mut self, to: Address, argument: usize);
    /// Moves an address that is in its register by this many bytes.
    fn advance(&mut self, base: Address, bytes: usize);
    /// Ends a loop that the function's second argument counts.
    fn next_step(&mut self, start: usize);
    /// Prefetches the cache line this many bytes after lanes that are counted. It may be at any address.
    fn prefetch(&mut self, base: Address, bytes: usize, offset: usize);

    /// A constant of 64 bits, for each two lanes.
    fn constant(&mut self, bits: u64) -> MemoryOperand;
    /// Copies a vector.
    fn load(&mut self, to: Vector, from: JitOperand);
    /// Stores a vector.
    fn store(&mut self, from: Vector, to: MemoryOperand);
    /// Loads lanes as f32s or i32s, or as f64s if they are wide.
    fn load_lanes(&mut self, lane: Lane, to: Vector, from: MemoryOperand);
    /// Stores lanes, which have been narrowed; `past` the caches.
    fn store_lanes(&mut self, lane: Lane, past: bool, from: Vector, to: MemoryOperand);
    /// Stores the first lane.
    fn store_first(&mut self, lane: Lane, from: Vector, to: MemoryOperand);

    /// Computes a node. An operand that `to` overwrites is in it, and is not among the others.
    fn compute(&mut self, node: &JitNode, to: Vector, operands: &[JitOperand]);
    fn binary(&mut self, op: Binary, to: Vector, a: Vector, b: JitOperand);
    /// Adds the product of `a` and `b` to a vector, as the node does.
    fn add_product(&mut self, node: &JitNode, to: Vector, a: Vector, b: JitOperand);
    /// Exchanges 32 bits that are this power of two apart.
    fn swap(&mut self, distance: usize, to: Vector, from: Vector);

    /// Makes a mask of the first lanes, for the operations below. It may use the slot.
    fn make_mask(&mut self, slot: MemoryOperand, lanes: usize);
    /// Whether the last lanes of a row can be loaded and stored.
    fn has_tails_of(&self, lane: Lane) -> bool;
    /// The number of other registers that an operation on last lanes takes.
    fn spare(&self, operation: OnTail) -> usize;
    /// Loads the lanes of the mask, and zeros.
    fn load_tail(&mut self, lane: Lane, to: Vector, from: MemoryOperand, mask: MemoryOperand, spare: &[Vector]);
    fn store_tail(&mut self, lane: Lane, from: Vector, to: MemoryOperand, mask: MemoryOperand, spare: &[Vector]);
    /// Replaces the lanes of the mask.
    fn replace_tail(&mut self, to: Vector, lanes: Vector, mask: MemoryOperand, spare: &[Vector]);
    /// Combines the lanes of the mask with others, which are the first operand.
    fn combine_tail(&mut self, op: Binary, to: Vector, other: Vector, mask: MemoryOperand, spare: &[Vector]);

    /// Calls a loop over lanes.
    ///
    /// # Safety
    /// `code` must be a function of this type for this CPU. For each argument, its lanes must be accessible.
    unsafe fn call(code: *const u8, addresses: *const *mut u8, lanes: usize);
    /// Calls a loop over rows, at least one, whose arguments are these distances apart.
    ///
    /// # Safety
    /// As for [`call`](Self::call), in every row.
    unsafe fn call_rows(code: *const u8, addresses: *mut *mut u8, apart: *const isize, rows: usize);
}
