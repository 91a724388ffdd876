//! Register allocation: assigns rows of the register file by liveness analysis and linear scan.
//!
//! Compilers write PTX with a fresh register for nearly every value. If each had its own row, a warp's state would be
//! far larger than the first-level cache. Every write is masked by the lanes that execute it. So for liveness each lane
//! is an independent thread, however the warp diverges.

use super::blocks::CodeBlock;
use super::decoder::{CARRY, Decoder, SINK};
use crate::program::{Fill, SpecialSource};

/// The assigned rows.
pub(super) struct Assignment {
    pub(super) row_count: u32,
    pub(super) fills: Vec<Fill>,
    /// The row of each register.
    pub(super) rows: Vec<u32>,
    /// The rows of registers that may be read before they are written.
    pub(super) at_entry: Vec<u32>,
}

/// Assigns rows, and replaces register numbers by rows in all instructions and lists.
pub(super) fn assign(decoder: &mut Decoder<'_>, blocks: &[CodeBlock]) -> Assignment {
    let mut fixed: Vec<(SpecialSource, bool, u32)> = decoder.fixed.iter().map(|(&(s, w), &id)| (s, w, id)).collect();
    fixed.sort_by_key(|f| f.2);
    let is_fixed = {
        let mut flags = vec![false; decoder.registers.len()];
        flags[SINK as usize] = true;
        for &(_, _, id) in &fixed {
            flags[id as usize] = true;
        }
        flags
    };
    let live = liveness(decoder, blocks, &is_fixed);
    let intervals = intervals(decoder, blocks, &live, &is_fixed);
    let mut rows = vec![0; decoder.registers.len()];
    let mut next = 2;
    let mut fills = vec![];
    // Wide rows start at even numbers so that they share a cache-line pair.
    for &(source, wide, id) in &fixed {
        let row = take(&mut next, wide);
        rows[id as usize] = row;
        fills.push(Fill { row, wide, source });
    }
    next = scan(decoder, intervals, next, &mut rows);
    for &id in &live.at_entry {
        let wide = decoder.registers[id as usize];
        fills.push(Fill { row: rows[id as usize], wide, source: SpecialSource::Zero });
    }
    for instruction in &mut decoder.code {
        for field in [&mut instruction.d, &mut instruction.a, &mut instruction.b, &mut instruction.c] {
            *field = rows[*field as usize];
        }
    }
    for entry in &mut decoder.rows {
        if let Some(&row) = rows.get(*entry as usize) {
            *entry = row;
        }
    }
    let at_entry = live.at_entry.iter().map(|&id| rows[id as usize]).collect();
    Assignment { row_count: next, fills, rows, at_entry }
}

fn take(next: &mut u32, wide: bool) -> u32 {
    if wide {
        *next = next.next_multiple_of(2);
    }
    let row = *next;
    *next += if wide { 2 } else { 1 };
    row
}

struct Liveness {
    /// Registers that are live at each block's end, as bit sets over compact numbers.
    at_end: Vec<Vec<u64>>,
    at_start: Vec<Vec<u64>>,
    /// Registers that may be read before they are written.
    at_entry: Vec<u32>,
}

fn liveness(decoder: &Decoder<'_>, blocks: &[CodeBlock], is_fixed: &[bool]) -> Liveness {
    live(decoder.registers.len(), blocks, |at, read, write| {
        let effect = &decoder.effects[at];
        effect.uses.iter().filter(|&&id| !is_fixed[id as usize]).for_each(|&id| read(id));
        let always = !effect.conditional;
        effect.defs.iter().filter(|&&id| always && !is_fixed[id as usize]).for_each(|&id| write(id));
    })
}

/// The predicates that may be read before they are written.
pub(super) fn predicates_at_entry(decoder: &Decoder<'_>, blocks: &[CodeBlock]) -> Vec<u16> {
    let live = live(decoder.predicates as usize, blocks, |at, read, write| {
        let effect = &decoder.effects[at];
        read(decoder.code[at].guard.into());
        effect.predicate_uses.iter().for_each(|&index| read(index.into()));
        effect.predicate_defs.iter().filter(|_| !effect.conditional).for_each(|&index| write(index.into()));
    });
    live.at_entry.into_iter().map(|index| index as u16).filter(|&index| index > CARRY).collect()
}

/// Which of `count` registers are live where. `each` tells what the instruction at a position reads, and what it writes in
/// any case.
fn live(
    count: usize,
    blocks: &[CodeBlock],
    each: impl Fn(usize, &mut dyn FnMut(u32), &mut dyn FnMut(u32)),
) -> Liveness {
    let words = count.div_ceil(64);
    let mut generated = vec![vec![0u64; words]; blocks.len()];
    let mut killed = vec![vec![0u64; words]; blocks.len()];
    for (number, block) in blocks.iter().enumerate() {
        for at in block.start..block.end {
            let mut written = vec![];
            let (generated, dead) = (&mut generated[number], &killed[number]);
            let mut read = |id| {
                if !bit(dead, id) {
                    set(generated, id);
                }
            };
            each(at, &mut read, &mut |id| written.push(id));
            written.into_iter().for_each(|id| set(&mut killed[number], id));
        }
    }
    let mut at_start = generated.clone();
    let mut at_end = vec![vec![0u64; words]; blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for number in (0..blocks.len()).rev() {
            for &successor in &blocks[number].successors {
                for word in 0..words {
                    let more = at_start[successor][word] & !at_end[number][word];
                    if more != 0 {
                        at_end[number][word] |= more;
                        at_start[number][word] |= more & !killed[number][word];
                        changed = true;
                    }
                }
            }
        }
    }
    let at_entry = (0..count as u32).filter(|&id| bit(&at_start[0], id)).collect();
    Liveness { at_end, at_start, at_entry }
}

fn bit(set: &[u64], id: u32) -> bool {
    set[id as usize / 64] >> (id % 64) & 1 != 0
}

fn set(set: &mut [u64], id: u32) {
    set[id as usize / 64] |= 1 << (id % 64);
}

/// The first and last position at which each register is needed; holes between them are ignored.
fn intervals(
    decoder: &Decoder<'_>,
    blocks: &[CodeBlock],
    live: &Liveness,
    is_fixed: &[bool],
) -> Vec<(usize, usize, u32)> {
    let mut ranges = vec![(usize::MAX, 0); decoder.registers.len()];
    let mut extend = |id: u32, at: usize| {
        let range: &mut (usize, usize) = &mut ranges[id as usize];
        *range = (range.0.min(at), range.1.max(at));
    };
    for (number, block) in blocks.iter().enumerate() {
        for (set, at) in [(&live.at_start[number], block.start), (&live.at_end[number], block.end)] {
            for (word, &bits) in set.iter().enumerate() {
                let mut rest = bits;
                while rest != 0 {
                    extend(word as u32 * 64 + rest.trailing_zeros(), at);
                    rest &= rest - 1;
                }
            }
        }
        for (at, effect) in decoder.effects[block.start..block.end].iter().enumerate() {
            for &id in effect.uses.iter().chain(&effect.defs) {
                extend(id, block.start + at);
            }
        }
    }
    let mut intervals: Vec<_> = ranges
        .iter()
        .enumerate()
        .filter(|(id, range)| range.0 != usize::MAX && !is_fixed[*id])
        .map(|(id, range)| (range.0, range.1, id as u32))
        .collect();
    intervals.sort_unstable();
    intervals
}

/// Gives each interval the row that was freed last. An interval that ends at an instruction keeps its row until after
/// that instruction. So a result never gets the row of a source unless the text says so.
fn scan(decoder: &Decoder<'_>, intervals: Vec<(usize, usize, u32)>, mut next: u32, rows: &mut [u32]) -> u32 {
    let mut free: [Vec<u32>; 2] = [vec![], vec![]];
    let mut active = std::collections::BinaryHeap::new();
    for (start, end, id) in intervals {
        while let Some(&std::cmp::Reverse((over, row, wide))) = active.peek() {
            if over >= start {
                break;
            }
            active.pop();
            free[usize::from(wide)].push(row);
        }
        let wide = decoder.registers[id as usize];
        let row = free[usize::from(wide)].pop().unwrap_or_else(|| take(&mut next, wide));
        rows[id as usize] = row;
        active.push(std::cmp::Reverse((end, row, wide)));
    }
    next
}
