//! Contractions on the CPU: reductions of a function of several operands. Each operand has some of the outputs' axes
//! only. Products of matrices are contractions, and so are sums of |a − b|, least sums of two paths, and distances.
//!
//! **Which reductions.** An axis of outputs belongs to rows or to columns, by the operands that have it ([`roles`]). No
//! operand may have axes of both. Axes that are neither are batches. Columns are the last axes, so an output's columns are
//! neighbours in memory. Any reducer is taken, and any function of values that all have 32 or all
//! have 64 bits: what depends on rows only is computed
//! before, and so is what depends on columns only ([`sides`]). The rest is the body of a [tile](crate::jit::TileKernel).
//!
//! **Which tile.** A tile's totals stay in registers while elements pass. The more rows and columns a tile has, the fewer
//! operands are loaded for an output. `jit` counts the instructions of every tile that fits, with the padding of these
//! extents, and takes the cheapest: 4 × 24 outputs for a product with AVX2, 6 × 64 with AVX-512.
//!
//! **What is packed.** The operands of a block of outputs are packed for some elements at a time ([`pack`]). Strips read
//! any layout and convert any type. Rows and columns that are left over are padded, so a tile has no masks.
//! Elements are cut so that a tile's columns stay in the first-level cache, outputs so that a block stays in the second.
//!
//! **In which order.** Every output is combined with its elements one after the other. This is the order of
//! [`Order::Exact`], bit for bit. Under [`Order::Device`], many elements are cut into parts, which are combined in
//! their order, so that a long sum stays accurate; and a sum of products rounds each product and its addition together.
//! Steps by strips have the same order and the same roundings. [`Order::Shape`] has a tree of its own, and no tiles.

mod pack;
mod roles;
mod run;
mod sides;

use smallvec::SmallVec;

pub(super) use self::roles::Roles;
use self::sides::Sides;
use super::compile::ReductionCode;
use super::elements::Elements;
use super::program::Program;
use super::registers::LANES;
use crate::jit::TileKernel;
use crate::te::auto::bind::iteration_space::points;
use crate::te::auto::order::Order;
use crate::tuning::Vectors;

/// Bytes of a tile's columns, in the first-level cache.
const NEAREST: usize = 16 << 10;
/// The most rows and columns of a block.
const BLOCK: usize = 512;
/// The fewest rows or columns of a block: below, packing takes longer than combining.
const FEWEST: usize = 64;
/// The number of blocks for each thread, so that all end at about the same time.
const EACH: usize = 3;
/// The number of elements of a part of an output.
const PART: i64 = 512;
/// The most parts of an output.
const PARTS: i64 = 32;

/// A reduction that is a contraction.
pub(super) struct Contraction {
    roles: Roles,
    /// The reads of rows, and of columns.
    elements: [Elements; 2],
    sides: Sides,
    /// Whether it is a sum of products of an element of a row with one of a column.
    is_product: bool,
    tiles: Option<Tiles>,
}

/// The code of a contraction, and how outputs and elements are cut.
struct Tiles {
    kernel: TileKernel,
    /// Rows and columns of a block, and the elements that are packed at a time.
    block: [usize; 2],
    elements: usize,
}

impl Contraction {
    /// `None` if there is no vector code for what is computed. Under [`Order::Device`] it changes the code: a product and
    /// its addition to a sum become one operation.
    pub(super) fn of(
        roles: Roles,
        elements: [Elements; 2],
        code: &mut ReductionCode,
        program: &Program,
        order: Order,
    ) -> Option<Self> {
        if !code.never_fails {
            return None;
        }
        let is_product = Sides::of(&roles, &elements, code, program)?.is_product(code);
        if order == Order::Device {
            code.round_products_once();
        }
        let sides = Sides::of(&roles, &elements, code, program)?;
        Some(Self { roles, elements, sides, is_product, tiles: None })
    }

    /// The number of parts of an output with this many elements.
    pub(super) fn parts(order: Order, count: i64) -> i64 {
        if order == Order::Exact { 1 } else { (count / PART).clamp(1, PARTS) }
    }

    /// Compiles it for this many threads. Whether there is code.
    pub(super) fn compile(&mut self, threads: usize, vectors: Vectors) -> bool {
        let extents = self.roles.extents();
        self.tiles = TileKernel::compile(&self.sides.body, extents, vectors).map(|kernel| {
            let [rows, columns] = kernel.shape();
            let bytes = if self.sides.is_wide { 8 } else { 4 };
            let elements = NEAREST / (bytes * columns * self.sides.columns.operands.len().max(1));
            let most = |extent: usize, most: usize, own: usize| extent.min(most).next_multiple_of(own);
            let mut block = [most(extents[0], BLOCK, rows), most(extents[1], BLOCK, columns)];
            let batches = points(&self.roles.batches()) as usize;
            let blocks = |block: [usize; 2]| batches * extents[0].div_ceil(block[0]) * extents[1].div_ceil(block[1]);
            while threads > 1 && blocks(block) < threads * EACH {
                let side = usize::from(block[1] > block[0]);
                if block[side] < 2 * FEWEST {
                    break;
                }
                block[side] = (block[side] / 2).next_multiple_of(kernel.shape()[side]);
            }
            Tiles { kernel, block, elements: elements.clamp(32, LANES) }
        });
        self.tiles.is_some()
    }

    /// Whether machine code computes it.
    pub(super) const fn has_code(&self) -> bool {
        self.tiles.is_some()
    }

    /// Adapts the addresses after the arguments have moved, each by some bytes.
    pub(super) fn moved(&mut self, by: &[i64]) {
        self.elements.iter_mut().for_each(|elements| elements.moved(by));
    }

    /// The kernel in words.
    pub(super) fn describe(&self, parts: i64, exact: bool) -> String {
        let mut text: SmallVec<[String; 4]> = SmallVec::new();
        text.push(match &self.tiles {
            Some(tiles) => {
                let [rows, columns] = tiles.kernel.shape();
                format!("on the CPU: a contraction in tiles of {rows} x {columns} outputs, operands packed")
            }
            None => "on the CPU: a contraction, neighbouring outputs side by side".to_owned(),
        });
        if parts > 1 {
            text.push(format!("{parts} parts per output"));
        }
        if exact {
            text.push("in exact order".to_owned());
        }
        let text = text.join(", ");
        if self.is_product { format!("{text} (epilogue::fuse computes a sum of products as a Gemm)") } else { text }
    }
}
