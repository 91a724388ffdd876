//! How an access is judged by an earlier one, and when it stands for it.

use super::stamp::Stamp;

/// Whether others can know an earlier access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// They may come to know it.
    Open,
    /// The current access is ordered after it.
    Known,
    /// Nobody but its block knows it, and this has ended.
    Lost,
    /// It belongs to a launch that may still run. All accesses of launches with this number are known together.
    Earlier(u32),
}

/// The effect of a strong write on the observation order of its place (PTX ISA 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chain {
    /// None that is followed: an asynchronous reduction.
    None,
    /// A store: nobody observes the writes before it any more.
    Begins,
    /// `red`: who observes it has observed the writes before it.
    Continues,
    /// `atom`: it has itself observed the writes before it.
    Observes,
}

/// Judges, for the current access, every earlier access that it meets.
pub(super) trait Judge {
    /// Lets these lanes make the current access.
    fn aim(&mut self, lanes: u32);
    /// Whether the earlier access is ordered before this one, or cannot race with it.
    fn sees(&self, earlier: &Stamp, now: &Stamp) -> bool;
    /// Like [`sees`](Self::sees), for two accesses of several lanes that access each place by the same lane.
    fn sees_by_lane(&self, earlier: &Stamp, now: &Stamp) -> bool;
    /// Like [`sees`](Self::sees), but false if the answer would take long. It is used to forget ordered accesses.
    fn sees_at_once(&self, earlier: &Stamp) -> bool;
    /// Whether others can know an earlier access.
    fn fate(&self, earlier: &Stamp) -> Fate;
    /// Whether two accesses may meet without a race: both are strong, and their scopes include each other.
    /// (None of these four is so for weak accesses.)
    fn may_meet(&self, _earlier: &Stamp, _later: &Stamp) -> bool {
        false
    }
    /// Whether the current access comes after a strong access by any of its lanes.
    fn comes_after_any(&self, _earlier: &Stamp) -> bool {
        false
    }
    /// Whether an atomic or a strong read has been announced and perhaps not been performed.
    fn is_pending(&self, _earlier: &Stamp) -> bool {
        false
    }
    /// The effect of the current access, if it is a strong write.
    fn chain(&self) -> Chain {
        Chain::None
    }
    /// Whether nobody can know of one of two accesses by the same actor and not of the other: its warp has passed nothing
    /// on in between.
    fn are_known_together(&self, earlier: &Stamp, now: &Stamp) -> bool;
    /// Records a race at `address`.
    fn race(&mut self, earlier: &Stamp, now: &Stamp, address: u64);
    /// Two lanes of one instruction write the same place. True if they may.
    fn same_instruction(&self, earlier_lanes: u32, now: &Stamp) -> bool;
}

pub(super) fn is_weak_read(slot: &Stamp) -> bool {
    !slot.writes() && !slot.is_strong()
}

/// Whether whatever races with an earlier access, and is not ordered after the later one, also races with that one.
pub(super) fn stands_for(earlier: &Stamp, now: &Stamp) -> bool {
    (now.writes() || !earlier.writes()) && now.is_no_stronger(earlier) && (!earlier.is_informed() || now.is_informed())
}

/// Records an access in the slot of an earlier one of the same actor, if one stamp can hold both; otherwise the later
/// access takes the lanes that it stands for from it.
pub(super) fn renew<J: Judge>(slot: &mut Stamp, now: &Stamp, judge: &J) -> bool {
    if slot.clock == now.clock && slot.is_alike(now) {
        slot.merge(now);
        return true;
    }
    // Strong accesses in a loop: without this, every execution by every lane would be remembered.
    if now.is_strong() && slot.site == now.site && judge.are_known_together(slot, now) {
        slot.lanes |= now.lanes;
        slot.clock = now.clock;
        return true;
    }
    if stands_for(slot, now) {
        slot.lanes &= !now.lanes;
    }
    false
}

/// Whether the current access comes after an earlier one, and stands for it.
pub(super) fn replaces<J: Judge>(earlier: &Stamp, now: &Stamp, judge: &J) -> bool {
    stands_for(earlier, now) && judge.fate(earlier) == Fate::Known
}
