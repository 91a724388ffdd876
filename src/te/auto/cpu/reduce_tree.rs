//! The tree by which a reduction combines elements on the CPU: how they are divided into lanes and parts.

use std::ops::Range;

use super::registers::LANES;
use crate::te::auto::gpu::choose::reduce::{Plan, power_of_two};
use crate::te::auto::gpu::key::ThreadMapping;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;

/// The least number of elements of a part of an output, and the average number of points of all parts.
const PART: i64 = 1 << 14;
const POINTS: i64 = 1 << 17;
/// The least number of elements of a part, if the whole output could be one row of a loop of machine code. Shorter rows
/// take that loop less time than two threads take without it.
const PART_OF_ROW: i64 = 1 << 17;
/// The most lanes of an output: as many as registers hold.
const TOGETHER: i64 = 64;
/// A tree of 64 bits, in rows.
const WIDE_TOGETHER: i64 = 32;
/// The number of elements of an output that are combined one after another: if they are contiguous in memory, and if
/// not.
const SHORT: i64 = 16;
const SHORT_APART: i64 = 64;
/// The least number of elements of an output along which lanes lie.
const VECTOR: i64 = 16;
/// From this many neighbouring elements of an output on, the most lanes pay.
const LONG: i64 = 256;
/// The least number of elements of a part, if lanes are outputs.
const ROWS: i64 = 64;
/// The most parts of all outputs together. It is the same on every machine.
const PARTS: i64 = 32;
/// From this many outputs on, there is enough work without cutting any.
const MANY: i64 = 1 << 16;

/// The tree by which the elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) struct Tree {
    /// Whether lanes are outputs; otherwise lanes share the elements of an output.
    pub(in crate::te::auto) across: bool,
    /// The number of lanes that share an output: a power of two.
    pub(in crate::te::auto) lanes: i64,
    /// Whether the elements of a lane are neighbours; otherwise they are `lanes` elements apart.
    pub(in crate::te::auto) ordered: bool,
    /// The number of parts of an output. Each has neighbouring elements.
    pub(in crate::te::auto) parts: i64,
    /// Whether the parts are combined in the order of a GPU's final block, with this many lanes.
    pub(in crate::te::auto) finish: Option<i64>,
    pub(in crate::te::auto) exact: bool,
}

/// By which code the elements of a reduction may be combined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
    /// Whether rows of memory are combined directly.
    pub(super) directly: bool,
    /// Whether the elements of an output are then contiguous.
    pub(super) follow: bool,
    /// Whether outputs may share a strip.
    pub(super) share: bool,
    /// Whether outputs may be the rows of one loop of machine code.
    pub(super) in_rows: bool,
    /// Whether something is computed of the totals for every element, or by another reduction of the same rows.
    pub(super) in_chain: bool,
    /// Whether values have 64 bits.
    pub(super) is_wide: bool,
}

impl Tree {
    /// The tree for a shape. It depends only on shapes, strides and the reduction.
    pub(in crate::te::auto) fn new(
        reduction: &Reduction,
        plan: &Plan,
        order: Order,
        (outputs, count): (i64, i64),
        Ways { directly, follow, share, in_rows, in_chain, is_wide }: Ways,
    ) -> Self {
        let exact = order == Order::Exact;
        let ordered = exact || !reduction.is_commutative();
        if let (Order::Shape, ThreadMapping::Rows { group }) = (order, plan.key.mapping) {
            let finish = plan.key.split.then_some(i64::from(group));
            return Self { across: false, lanes: i64::from(group), ordered, parts: plan.splits, finish, exact };
        }
        let neighbours = matches!(plan.key.mapping, ThreadMapping::Columns { .. });
        let short = if follow && !ordered { SHORT } else { SHORT_APART };
        // Rows that become one loop of machine code need no neighbours.
        let in_rows = in_rows && !ordered;
        let is_alone = directly || follow;
        let is_short = count < short && !(in_rows && !is_alone && count >= VECTOR);
        let across = outputs > 1 && (exact || (outputs >= 64 && (neighbours || is_short)));
        let parts = if exact || outputs >= MANY {
            1
        } else if across {
            (count / ROWS).min(outputs.saturating_mul(count) / POINTS).min(PARTS)
        } else {
            let part = if in_rows && (in_chain || !is_alone) { PART_OF_ROW } else { PART };
            (count / part).min(PARTS / outputs.max(1))
        };
        let most = LANES as i64;
        let together = directly || ((in_rows || (share && outputs >= most / TOGETHER)) && parts <= 1);
        let lanes = if across || exact {
            1
        } else if follow && !ordered {
            // The lanes are vector code in registers if they are one vector or many.
            if count >= LONG { TOGETHER } else { 8 }
        } else if together && !ordered {
            // The runs are so long that combining the lanes costs little in comparison.
            power_of_two(count / 16).clamp(8, if in_rows && is_wide { WIDE_TOGETHER } else { TOGETHER })
        } else {
            power_of_two(count).min(most)
        };
        Self { across, lanes, ordered, parts: parts.max(1), finish: None, exact }
    }

    /// The tree of a contraction: each output's elements one after the other, in parts.
    pub(in crate::te::auto) const fn of_contraction(exact: bool, parts: i64) -> Self {
        Self { across: true, lanes: 1, ordered: true, parts, finish: None, exact }
    }

    /// The number of outputs whose lanes fill a strip, if they may share one.
    pub(in crate::te::auto) fn rows_together(&self) -> i64 {
        let alone = self.across || self.ordered || self.parts > 1;
        if alone { 1 } else { (LANES as i64 / self.lanes).max(1) }
    }

    /// The tree in words. `directly` tells whether rows of memory are combined into lanes without passing through
    /// registers.
    pub(in crate::te::auto) fn describe(&self, directly: bool) -> String {
        let lanes = if self.across {
            "neighbouring outputs side by side".to_owned()
        } else {
            format!("{} lanes per output", self.lanes)
        };
        let parts = if self.parts > 1 { format!(", {} parts per output", self.parts) } else { String::new() };
        let order = if self.exact {
            ", in exact order"
        } else if self.ordered {
            ", in order"
        } else {
            ""
        };
        let from = if directly { ", straight from memory" } else { "" };
        format!("on the CPU: {lanes}{parts}{order}{from}")
    }
}

/// Part `part` of `parts` of a range, as the device's `part_of` computes it.
pub(in crate::te::auto) fn part_of(range: Range<i64>, part: i64, parts: i64) -> Range<i64> {
    let length = range.end - range.start;
    let each = length / parts + i64::from(length % parts != 0);
    let begin = (each * part).min(length);
    range.start + begin..range.start + (begin + each).min(length)
}
