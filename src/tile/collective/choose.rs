//! Chooses the algorithm of a collective, and makes its steps.

use super::{
    Algorithm, BarrierReason, Collective, CollectivePlan, Guard, Linear, Mask, Quantity, SharedArray, Slot, Step, WARP,
};

/// The plan of a collective that has been checked.
pub(super) fn plan(collective: &Collective) -> CollectivePlan {
    let shape = Shape::of(collective);
    let algorithm = shape.algorithm();
    let (steps, slots) = shape.steps(algorithm);
    let (arrays, shared_bytes) = arrays(&collective.state, slots);
    CollectivePlan {
        algorithm,
        extents: collective.extents.clone(),
        thread: shape.thread,
        rank: shape.rank,
        group: shape.group,
        group_size: shape.size,
        groups: shape.groups,
        mask: mask(shape.size * shape.groups),
        steps,
        slots,
        arrays,
        shared_bytes,
        state: collective.state.clone(),
        commutative: collective.commutative,
    }
}

/// How threads are divided into groups.
struct Shape {
    thread: Linear,
    rank: Linear,
    group: Linear,
    size: u32,
    groups: u32,
    /// Each group is a run of neighbouring threads, in the order of ranks.
    contiguous: bool,
    /// Neighbouring threads belong to different groups.
    interleaved: bool,
    commutative: bool,
    repeated: bool,
}

impl Shape {
    fn of(collective: &Collective) -> Self {
        let Collective { extents, reduced, commutative, repeated, .. } = collective;
        let axes: Vec<usize> = (0..extents.len()).filter(|&axis| extents[axis] > 1).collect();
        let (within, across): (Vec<usize>, Vec<usize>) = axes.iter().partition(|axis| reduced.contains(axis));
        let first = axes.starts_with(&within);
        // The fastest index comes first, as given. If the order is free, it is the order of threads.
        let given: Vec<usize> = reduced.iter().rev().copied().filter(|&axis| extents[axis] > 1).collect();
        let order = if *commutative { &within } else { &given };
        let (rank, size) = linear(order, extents);
        let (group, groups) = linear(&across, extents);
        Self {
            thread: linear(&axes, extents).0,
            contiguous: first && *order == within,
            interleaved: !within.contains(axes.first().unwrap_or(&0)),
            rank,
            group,
            size,
            groups,
            commutative: *commutative,
            repeated: *repeated,
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self.size {
            1 => Algorithm::Single,
            _ if !self.contiguous => Algorithm::SharedTree,
            WARP => Algorithm::Warp,
            width if width < WARP && width.is_power_of_two() => Algorithm::SubWarp { width },
            threads if threads < WARP && self.groups == 1 => Algorithm::GuardedWarp { threads },
            size if size > WARP && (size.is_multiple_of(WARP) || self.groups == 1) => {
                Algorithm::TwoStage { warps: size.div_ceil(WARP) }
            }
            _ => Algorithm::SharedTree,
        }
    }

    /// The steps, and the number of shared places that they need.
    fn steps(&self, algorithm: Algorithm) -> (Vec<Step>, u32) {
        match algorithm {
            Algorithm::Single => (Vec::new(), 0),
            Algorithm::SubWarp { width } => (self.warp_tree(width, width), 0),
            Algorithm::GuardedWarp { threads } => (self.warp_tree(threads, WARP), 0),
            Algorithm::Warp => (self.warp_tree(WARP, WARP), 0),
            Algorithm::TwoStage { warps } => (self.two_stage(warps), warps * self.groups),
            Algorithm::SharedTree => (self.shared_tree(), self.size * self.groups),
        }
    }

    /// Shuffles in segments of `width` lanes, whose first `count` lanes take part. All of the segment gets the result.
    fn warp_tree(&self, count: u32, width: u32) -> Vec<Step> {
        let mut steps = self.shuffles(count, width, Quantity::Rank);
        steps.push(Step::Broadcast { width });
        steps
    }

    /// A tree over lanes whose `quantity` is below `count`. The first lane of the segment gets the result.
    fn shuffles(&self, count: u32, width: u32, quantity: Quantity) -> Vec<Step> {
        let level = |(offset, guarded): (u32, bool)| {
            let guards = if guarded { vec![Guard::Below(quantity, count - offset)] } else { Vec::new() };
            Step::Shuffle { offset, width, guards }
        };
        levels(count, self.commutative).into_iter().map(level).collect()
    }

    fn two_stage(&self, warps: u32) -> Vec<Step> {
        // The tree in each warp. If the last warp is not full, it has fewer values than the offsets assume: ranks
        // beyond the end of the group don't exist.
        let level = |offset: u32| {
            let full = self.size.is_multiple_of(WARP);
            let guards = if full { Vec::new() } else { vec![Guard::Below(Quantity::Rank, self.size - offset)] };
            Step::Shuffle { offset, width: WARP, guards }
        };
        let mut steps: Vec<Step> =
            levels(WARP, self.commutative).into_iter().map(|(offset, _)| level(offset)).collect();
        let part = Slot { terms: [self.group_term(warps), vec![(Quantity::Part, 1)]].concat(), constant: 0 };
        steps.push(Step::Store { slot: part, guards: vec![Guard::Below(Quantity::Lane, 1)] });
        steps.push(Step::Barrier(BarrierReason::Written));
        // The tree between warps. Every warp does it again, which saves a barrier. If a warp has too few lanes, values
        // are combined one after another.
        let last = self.size % WARP;
        let place =
            |terms: &[(Quantity, u32)], constant| Slot { terms: [&self.group_term(warps), terms].concat(), constant };
        if last == 0 || last >= warps {
            let guards = if warps < WARP { vec![Guard::Below(Quantity::Lane, warps)] } else { Vec::new() };
            steps.push(Step::Load { slot: place(&[(Quantity::Lane, 1)], 0), guards });
            steps.extend(self.shuffles(warps, WARP, Quantity::Lane));
            steps.push(Step::Broadcast { width: WARP });
        } else {
            steps.push(Step::Load { slot: place(&[], 0), guards: Vec::new() });
            let combine = |i| Step::Combine { slot: place(&[], i), store: None, guards: Vec::new() };
            steps.extend((1..warps).map(combine));
        }
        self.finish(steps)
    }

    fn shared_tree(&self) -> Vec<Step> {
        // Neighbouring threads use neighbouring places.
        let (per_rank, per_group) = if self.interleaved { (self.groups, 1) } else { (1, self.size) };
        let slot = |ranks_up: u32| Slot {
            terms: [self.group_term(per_group), vec![(Quantity::Rank, per_rank)]].concat(),
            constant: ranks_up * per_rank,
        };
        let mut steps = vec![Step::Store { slot: slot(0), guards: Vec::new() }];
        for (offset, guarded) in levels(self.size, self.commutative) {
            steps.push(Step::Barrier(BarrierReason::Written));
            // A thread that combines no longer gives its value to others. With falling offsets these are the ones below
            // the offset, with growing offsets the multiples of twice the offset.
            let mut guards = if self.commutative {
                vec![Guard::Below(Quantity::Rank, offset.min(self.size - offset))]
            } else {
                vec![Guard::MultipleOf(Quantity::Rank, 2 * offset)]
            };
            if guarded && !self.commutative {
                guards.push(Guard::Below(Quantity::Rank, self.size - offset));
            }
            steps.push(Step::Combine { slot: slot(offset), store: Some(slot(0)), guards });
        }
        steps.push(Step::Barrier(BarrierReason::Written));
        let result = Slot { terms: self.group_term(per_group), constant: 0 };
        steps.push(Step::Load { slot: result, guards: Vec::new() });
        self.finish(steps)
    }

    /// The first place of a group; nothing is added if there is only one group.
    fn group_term(&self, factor: u32) -> Vec<(Quantity, u32)> {
        if self.groups > 1 { vec![(Quantity::Group, factor)] } else { Vec::new() }
    }

    fn finish(&self, mut steps: Vec<Step>) -> Vec<Step> {
        if self.repeated {
            steps.push(Step::Barrier(BarrierReason::Read));
        }
        steps
    }
}

/// The offsets of a tree over `count` values, and whether some value has no partner at that level.
///
/// If operands may be exchanged, offsets fall: after each level the remaining values are the first ones, so only the
/// first level can need a guard. Otherwise offsets grow: value `i` then always covers the ranks from `i` up to the next
/// value's.
fn levels(count: u32, commutative: bool) -> Vec<(u32, bool)> {
    let top = count.next_power_of_two();
    let offsets = (0..top.trailing_zeros()).map(|level| 1 << level);
    if commutative {
        offsets.rev().map(|offset| (offset, 2 * offset > count)).collect()
    } else {
        offsets.map(|offset| (offset, !count.is_multiple_of(2 * offset))).collect()
    }
}

/// A mixed-radix number made of thread indices, the fastest first, and how many values it has.
fn linear(axes: &[usize], extents: &[u32]) -> (Linear, u32) {
    let mut factor = 1;
    let mut terms = Vec::new();
    for &axis in axes {
        terms.push((axis, factor));
        factor *= extents[axis];
    }
    (Linear { terms }, factor)
}

fn mask(threads: u32) -> Mask {
    let tail = threads % WARP;
    let lanes = (1 << tail) - 1;
    match threads / WARP {
        _ if tail == 0 => Mask::Uniform(u32::MAX),
        0 => Mask::Uniform(lanes),
        warp => Mask::PartialLast { warp, lanes },
    }
}

fn arrays(state: &[usize], slots: u32) -> (Vec<SharedArray>, usize) {
    if slots == 0 {
        return (Vec::new(), 0);
    }
    let mut end = 0_usize;
    let mut arrays = Vec::new();
    for &value_bytes in state {
        let offset = end.next_multiple_of(value_bytes);
        arrays.push(SharedArray { offset, value_bytes });
        end = offset + slots as usize * value_bytes;
    }
    (arrays, end)
}
