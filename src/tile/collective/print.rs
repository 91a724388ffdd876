//! Prints plans as text for people.

use std::fmt;

use super::{Algorithm, BarrierReason, CollectivePlan, Guard, Mask, Quantity, Slot, Step};

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => f.write_str("one thread, nothing to combine"),
            Self::SubWarp { width } => write!(f, "sub-warp shuffles of {width} lanes"),
            Self::GuardedWarp { threads } => write!(f, "guarded shuffles of {threads} threads"),
            Self::Warp => f.write_str("warp shuffles"),
            Self::TwoStage { warps } => write!(f, "two stages: shuffles in {warps} warps, then shared memory"),
            Self::SharedTree => f.write_str("a tree in shared memory"),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rank => "rank",
            Self::Group => "group",
            Self::Lane => "lane",
            Self::Part => "part",
        })
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(quantity, 1) => write!(f, "{quantity} == 0"),
            Self::Below(quantity, bound) => write!(f, "{quantity} < {bound}"),
            Self::MultipleOf(quantity, n) => write!(f, "{quantity} % {n} == 0"),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        for (quantity, factor) in &self.terms {
            parts.push(if *factor == 1 { quantity.to_string() } else { format!("{quantity} * {factor}") });
        }
        if self.constant != 0 || parts.is_empty() {
            parts.push(self.constant.to_string());
        }
        f.write_str(&parts.join(" + "))
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform(mask) => write!(f, "{mask:#010x}"),
            Self::PartialLast { warp, lanes } => write!(f, "{:#010x}, in warp {warp} {lanes:#010x}", u32::MAX),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = |guards: &[Guard]| {
            let tests: Vec<String> = guards.iter().map(Guard::to_string).collect();
            if tests.is_empty() { String::new() } else { format!("if {}: ", tests.join(" and ")) }
        };
        match self {
            Self::Shuffle { offset, width, guards } => {
                write!(f, "y = shuffle_down(x, {offset}, width {width}); {}x = combine(x, y)", when(guards))
            }
            Self::Broadcast { width } => write!(f, "x = shuffle(x, lane 0, width {width})"),
            Self::Store { slot, guards } => write!(f, "{}slots[{slot}] = x", when(guards)),
            Self::Load { slot, guards } => write!(f, "{}x = slots[{slot}]", when(guards)),
            Self::Combine { slot, store, guards } => {
                write!(f, "{}x = combine(x, slots[{slot}])", when(guards))?;
                store.as_ref().map_or(Ok(()), |store| write!(f, ", slots[{store}] = x"))
            }
            Self::Barrier(BarrierReason::Written) => f.write_str("barrier: the slots are written"),
            Self::Barrier(BarrierReason::Read) => f.write_str("barrier: the slots have been read"),
        }
    }
}

/// The algorithm and its steps, one on each line.
impl fmt::Display for CollectivePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.commutative { "" } else { ", in order" };
        writeln!(f, "{} of {} threads by {}{order}", self.groups, self.group_size, self.algorithm)?;
        if self.steps.iter().any(|step| matches!(step, Step::Shuffle { .. })) {
            writeln!(f, "mask {}", self.mask)?;
        }
        if self.shared_bytes > 0 {
            writeln!(f, "{} slots, {} bytes of shared memory", self.slots, self.shared_bytes)?;
        }
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}
