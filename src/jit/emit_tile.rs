//! Turns the body of a tile into machine code: chooses the tile, and writes the loop over elements.
//!
//! All totals are in registers from the first element to the last; every instruction that makes a new total writes the
//! register of the old one. A tile's cost is the number of its instructions for an output, counted before code is
//! written; values that lose their registers are counted after. The cheapest tile is taken.

use super::body::{Argument, Body, JitNode, JitTarget, JitValue, TileOperand};
use super::emit::{Emitter, FRAME, scaled, slots};
use super::in_tile::InTile;
use super::isa::{Isa, JitOperand, MemoryOperand, Vector};
use super::round::Round;
use super::tile::TileShape;

/// The most vectors of columns in a tile: more would only make the last tile of a row wider than the row.
const MOST_VECTORS: usize = 4;

/// The instructions that a CPU can begin before the first of them ends: an addition takes four clocks, in two units.
const IN_FLIGHT: f64 = 8.0;

/// Cost of a value that loses its register: a store and a load.
const EVICTION: f64 = 2.0;

/// A tile's code, a function `(addresses: *const *mut u8, elements: usize)`, for one element at least. The addresses are those
/// of the operands of rows, of columns, and of the totals. `extents` are the numbers of rows and columns that there are.
///
/// `None` if the body isn't that of a tile, or has too many values.
pub(super) fn emit_tile<I: Isa>(body: &Body, isa: &I, extents: [usize; 2]) -> Option<(Vec<u8>, TileShape)> {
    if !body.is_tile() {
        return None;
    }
    let body = &*scaled(body, isa);
    let cost = |shape: &TileShape| cost(body, isa.lanes(), extents, *shape);
    let mut shapes: Vec<(f64, TileShape)> = shapes(body, isa).map(|shape| (cost(&shape), shape)).collect();
    shapes.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut best: Option<(f64, TileShape, usize)> = None;
    for (cost, shape) in shapes {
        if best.is_some_and(|(least, ..)| least <= cost) {
            break;
        }
        let Some(made) = Emitter::of_tile(body, isa.clone(), shape).and_then(|emitter| emitter.emit_tile(0)) else {
            continue;
        };
        let cost = cost + EVICTION * made.evicted as f64 / shape.count() as f64;
        if best.is_none_or(|(least, ..)| cost < least) {
            best = Some((cost, shape, made.free));
        }
    }
    let (_, shape, free) = best?;
    Some((Emitter::of_tile(body, isa.clone(), shape)?.emit_tile(free)?.code, shape))
}

/// The tiles whose totals leave registers for an instruction.
fn shapes<I: Isa>(body: &Body, isa: &I) -> impl Iterator<Item = TileShape> {
    let totals = body.tile_operands()[2].max(1);
    // An instruction has three operands and a result; a total may be one of them.
    let most = isa.registers() - 3;
    let shape = move |vectors: usize| (1..=most / totals / vectors).map(move |rows| TileShape { rows, vectors });
    (1..=MOST_VECTORS).flat_map(shape)
}

/// The instructions for an element of an output, those for outputs that there aren't among them.
fn cost(body: &Body, lanes: usize, extents: [usize; 2], shape: TileShape) -> f64 {
    let own = [shape.rows, shape.vectors * lanes];
    let mut each = 0.0;
    for (node, [row, column]) in body.nodes.iter().zip(body.varies()) {
        let is_free = matches!(body.tile_operand_of(*node), Some(TileOperand::Total(_)));
        each += match (row, column) {
            _ if is_free => 0.0,
            (true, true) => shape.count() as f64,
            (true, false) => shape.rows as f64,
            (false, true) => shape.vectors as f64,
            (false, false) => 0.0,
        };
    }
    let padded: f64 =
        extents.iter().zip(own).map(|(all, own)| (all.div_ceil(own) * own) as f64 / *all as f64).product();
    each.max(IN_FLIGHT) / shape.count() as f64 * padded
}

/// The result of [`Emitter::emit_tile`].
struct Emitted {
    code: Vec<u8>,
    evicted: usize,
    /// The number of registers that nothing has.
    free: usize,
}

impl<'a, I: Isa> Emitter<'a, I> {
    fn of_tile(body: &'a Body, isa: I, shape: TileShape) -> Option<Self> {
        let mut emitter = Self::new(body, isa, std::iter::empty())?;
        let mut addresses = I::addresses(false);
        let totals = shape.count() * body.tile_operands()[2];
        emitter.row.reserved = totals;
        let first = emitter.isa.registers() - totals;
        let (rows, columns) = (addresses.next()?, addresses.next()?);
        emitter.tile = Some(InTile { shape, rows, columns, first, into: Vec::new() });
        Some(emitter)
    }

    fn emit_tile(mut self, most_kept: usize) -> Option<Emitted> {
        let InTile { shape, rows, columns, first, .. } = self.tile.clone()?;
        let totals = I::addresses(false).nth(2)?;
        let [of_row, of_column, count] = self.body.tile_operands();
        let vector = self.isa.vector_bytes();
        self.isa.enter(FRAME, [rows, columns, totals].into_iter());
        self.prepare_values();
        self.isa.load_addresses(&[(rows, 0), (columns, 1), (totals, 2)]);
        let places: Vec<(Vector, MemoryOperand)> = (0..count * shape.count())
            .map(|number| (Vector((first + number) as u8), MemoryOperand::After(totals, number * vector)))
            .collect();
        places.iter().for_each(|(register, place)| self.isa.load(*register, JitOperand::Memory(*place)));
        self.keep(most_kept, shape.count(), 2);
        let start = self.isa.here();
        self.compute_round(shape.count());
        self.isa.advance(rows, vector / self.isa.lanes() * of_row * shape.rows);
        self.isa.advance(columns, vector * of_column * shape.vectors);
        self.isa.next_step(start);
        places.iter().for_each(|(register, place)| self.isa.store(*register, *place));
        if self.slots > slots(&self.isa) {
            return None;
        }
        self.isa.leave();
        let free = self.isa.registers() - self.row.reserved - self.most_held;
        Some(Emitted { code: self.isa.finish(), evicted: self.evicted, free })
    }

    /// The place of an operand of the tile, for one of its copies.
    pub(super) fn tile_operand(&self, argument: usize, copy: usize) -> Option<MemoryOperand> {
        let InTile { shape: TileShape { rows, vectors }, rows: of_rows, columns, .. } = *self.tile.as_ref()?;
        let Argument::Tile(operand) = self.body.arguments[argument] else { return None };
        let vector = self.isa.vector_bytes();
        match operand {
            TileOperand::Row(number) => {
                let lane = vector / self.isa.lanes();
                Some(MemoryOperand::After(of_rows, lane * (number * rows + copy / vectors)))
            }
            TileOperand::Column(number) => {
                Some(MemoryOperand::After(columns, vector * (number * vectors + copy % vectors)))
            }
            TileOperand::Total(_) => None,
        }
    }

    /// The register of a total, for one of the tile's copies.
    pub(super) fn total(&self, argument: usize, copy: usize) -> Option<Vector> {
        let tile = self.tile.as_ref()?;
        let Argument::Tile(TileOperand::Total(number)) = self.body.arguments[argument] else { return None };
        Some(Vector((tile.first + number * tile.shape.count() + copy) as u8))
    }

    /// Puts the old totals of a round where they are, and notes where the new ones go.
    pub(super) fn place_totals(&mut self) {
        if self.tile.is_none() {
            return;
        }
        let (nodes, copies) = (&self.round.nodes, &self.round.copies);
        let mut old: Vec<(Vector, JitValue)> = Vec::new();
        for (place, (node, copy)) in nodes.iter().zip(copies).enumerate() {
            if let JitNode::Load(argument) = *node
                && let Some(register) = self.total(argument, *copy)
            {
                old.push((register, JitValue::of(place)));
            }
        }
        let mut into = vec![None; nodes.len()];
        for (target, copy, value) in &self.round.stores {
            if let JitTarget::Argument(argument) = *target
                && let Some(register) = self.total(argument, *copy)
            {
                let before = old.iter().find(|(own, _)| *own == register).map(|(_, value)| *value);
                into[value.index()].get_or_insert((register, before));
            }
        }
        for (register, value) in old {
            self.round.register_of[value.index()] = Some(register);
        }
        if let Some(tile) = &mut self.tile {
            tile.into = into;
        }
    }

    /// The register of the total that a value becomes, with what is in it.
    fn becomes(&self, value: JitValue) -> Option<(Vector, Option<JitValue>)> {
        *self.tile.as_ref()?.into.get(value.index())?
    }

    /// The register of the total that a value becomes, if nothing needs what is in it.
    pub(super) fn free_total(&self, value: JitValue) -> Option<Vector> {
        let (register, old) = self.becomes(value)?;
        old.is_none_or(|old| self.round.uses[old.index()].is_empty()).then_some(register)
    }

    /// Adds a product to a total in its register; `None` for other nodes, and where the old total is needed later.
    pub(super) fn add_product(&mut self, node: &JitNode, place: usize) -> Option<()> {
        let (JitNode::Fma(a, b, c) | JitNode::FmaF64(a, b, c)) = *node else { return None };
        let (register, old) = self.becomes(JitValue::of(place))?;
        let is_last = self.round.uses[c.index()].first().is_some_and(|last| *last == place);
        if old != Some(c) || !is_last || a == c || b == c {
            return None;
        }
        let (a, b) = (self.register(a), self.operand(b));
        self.isa.add_product(node, register, a, b);
        self.operands_used(place);
        self.hold(JitValue::of(place), register);
        Some(())
    }
}

impl Round {
    /// Copies of a body for the outputs of a tile, row by row. Values of a row or a column are computed once.
    pub(super) fn of_tile(body: &Body, homes: &[Option<MemoryOperand>], shape: TileShape) -> Self {
        let (mut round, varies) = (Self::default(), body.varies());
        let mut values = vec![vec![JitValue::of(0); body.nodes.len()]; shape.count()];
        for copy in 0..shape.count() {
            for (place, node) in body.nodes.iter().enumerate() {
                let owner = match varies[place] {
                    [false, false] => 0,
                    [true, false] => copy - copy % shape.vectors,
                    [false, true] => copy % shape.vectors,
                    [true, true] => copy,
                };
                values[copy][place] = if owner < copy {
                    values[owner][place]
                } else {
                    round.nodes.push(node.with_operands(|value| values[copy][value.index()]));
                    round.copies.push(copy);
                    round.homes.push(homes[place]);
                    JitValue::of(round.nodes.len() - 1)
                };
            }
        }
        for (target, value) in &body.stores {
            round.stores.extend((0..shape.count()).map(|copy| (*target, copy, values[copy][value.index()])));
        }
        round.begin();
        round
    }
}
