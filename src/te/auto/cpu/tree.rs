//! The order in which a reduction combines elements on the CPU: what is a lane, and what a part.

use std::ops::Range;

use super::registers::LANES;
use crate::te::auto::gpu::choose::reduce::{Plan, power_of_two};
use crate::te::auto::gpu::class::Walk;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::fused::Reduction;

/// Elements that a part of an output has at least, and points that all parts of all outputs have on average.
const PART: i64 = 1 << 14;
const POINTS: i64 = 1 << 17;
/// The most lanes of an output: as many as registers hold.
const TOGETHER: i64 = 64;
/// Elements of an output that are combined one after the other: where an output's elements follow each other in memory, and
/// elsewhere.
const SHORT: i64 = 16;
const SHORT_APART: i64 = 64;
/// Neighbouring elements of an output for which as many lanes as registers hold pay.
const LONG: i64 = 256;
/// Elements of a part where lanes are outputs.
const ROWS: i64 = 64;
/// Parts that the outputs together are cut into at most: the same on every machine.
const PARTS: i64 = 32;
/// Outputs of which there are enough to share the work without cutting any.
const MANY: i64 = 1 << 16;

/// How the elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::te::auto) struct Tree {
    /// Whether lanes are outputs; else they share an output's elements.
    pub(in crate::te::auto) across: bool,
    /// Lanes that share an output: a power of two.
    pub(in crate::te::auto) lanes: i64,
    /// Whether a lane's elements are neighbours; else every `lanes`th is its own.
    pub(in crate::te::auto) ordered: bool,
    /// Parts of an output, each of neighbouring elements.
    pub(in crate::te::auto) parts: i64,
    /// Whether the whole is built from the parts as a kernel's last block does it: by so many lanes.
    pub(in crate::te::auto) finish: Option<i64>,
    pub(in crate::te::auto) exact: bool,
}

impl Tree {
    /// The tree for a shape. It depends on nothing but shapes, strides and the reduction: whether rows of memory are combined
    /// `directly`, whether an output's are then neighbours (`follow`), and whether outputs may `share` a strip.
    pub(in crate::te::auto) fn new(
        reduction: &Reduction,
        plan: &Plan,
        order: Order,
        (outputs, count): (i64, i64),
        (directly, follow, share): (bool, bool, bool),
    ) -> Self {
        let exact = order == Order::Exact;
        let ordered = exact || !reduction.is_commutative();
        if let (Order::Shape, Walk::Rows { group }) = (order, plan.class.walk) {
            let finish = plan.class.split.then_some(i64::from(group));
            return Self { across: false, lanes: i64::from(group), ordered, parts: plan.splits, finish, exact };
        }
        let neighbours = matches!(plan.class.walk, Walk::Columns { .. });
        let short = if follow && !ordered { SHORT } else { SHORT_APART };
        let across = outputs > 1 && (exact || (outputs >= 64 && (neighbours || count < short)));
        let parts = if exact || outputs >= MANY {
            1
        } else if across {
            (count / ROWS).min(outputs.saturating_mul(count) / POINTS).min(PARTS)
        } else {
            (count / PART).min(PARTS / outputs.max(1))
        };
        let most = LANES as i64;
        let together = directly || (share && parts <= 1 && outputs >= most / TOGETHER);
        let lanes = if across || exact {
            1
        } else if follow && !ordered {
            // Lanes are vector code in registers if they are one vector's or many.
            if count >= LONG { TOGETHER } else { 8 }
        } else if together && !ordered {
            // Long enough runs for the work of bringing the lanes together to vanish.
            power_of_two(count / 16).clamp(8, TOGETHER)
        } else {
            power_of_two(count).min(most)
        };
        Self { across, lanes, ordered, parts: parts.max(1), finish: None, exact }
    }

    /// Outputs whose lanes make a strip, if they may share one.
    pub(in crate::te::auto) fn rows_together(&self) -> i64 {
        let alone = self.across || self.ordered || self.parts > 1;
        if alone { 1 } else { (LANES as i64 / self.lanes).max(1) }
    }

    /// In words; `directly` where rows of memory are combined into lanes without passing through registers.
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

/// Part `part` of `parts` of a range, as the device's `part_of`.
pub(in crate::te::auto) fn part_of(range: Range<i64>, part: i64, parts: i64) -> Range<i64> {
    let length = range.end - range.start;
    let each = length / parts + i64::from(length % parts != 0);
    let begin = (each * part).min(length);
    range.start + begin..range.start + (begin + each).min(length)
}
