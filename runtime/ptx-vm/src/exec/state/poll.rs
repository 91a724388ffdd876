//! The conditions that a warp polls, and how polling is told from progress.
//!
//! A poll is an instruction whose result may depend on others: a strong load, an atomic that changes nothing, a test of an
//! mbarrier. A loop may have several. A warp polls if it executes one again, with the same lanes, at the same places,
//! and gets what it got the last time.

/// A test that failed and will be made again.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Poll {
    pub(in crate::exec) pc: u32,
    pub(in crate::exec) lanes: u32,
    pub(in crate::exec) target: PollTarget,
}

/// The polled state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum PollTarget {
    /// The phase with this parity of the mbarrier at an offset of a block's shared memory.
    Mbarrier { block: usize, offset: u32, parity: u64 },
    /// A value in shared memory, at this address of the detector.
    Shared(u64),
    /// A value in global memory.
    Global(u64),
    /// Columns of tensor memory that other blocks of the SM hold.
    TensorMemory { columns: u32 },
    /// `wgmma` products that other warps of the warpgroup have not issued yet.
    Warpgroup,
}

/// The result of an instruction when it was last executed.
#[derive(Clone, Copy, Debug)]
struct Look {
    pc: u32,
    lanes: u32,
    /// A hash of the places and of the results.
    digest: u64,
    /// Whether it has given that several times.
    repeats: bool,
}

/// The state that the lanes of a warp poll.
#[derive(Debug, Default)]
pub(in crate::exec) struct Polls {
    looks: Vec<Look>,
    failing: Vec<Poll>,
}

impl Polls {
    /// The most instructions of one loop that can be polls.
    const MOST: usize = 64;

    pub(in crate::exec) fn clear(&mut self) {
        self.looks.clear();
        self.failing.clear();
    }

    /// The tests that fail again and again.
    pub(in crate::exec) fn failing(&self) -> &[Poll] {
        &self.failing
    }

    /// These lanes have executed a poll. Whether it gave the same as the last time.
    pub(in crate::exec) fn repeats(&mut self, pc: u32, lanes: u32, digest: u64) -> bool {
        let known = self.looks.iter_mut().find(|look| look.pc == pc && look.lanes == lanes);
        if let Some(look) = known
            && look.digest == digest
        {
            look.repeats = true;
            return true;
        }
        let is_new = !self.looks.iter().any(|look| look.pc == pc && look.lanes == lanes);
        // Something has changed, so every other poll may give something else, too. If this one was not executed before, the
        // lanes may have left a loop: what it polled for is over.
        self.forget(|look| look.lanes & lanes != 0 && (!is_new || look.repeats || look.pc == pc));
        if self.looks.len() == Self::MOST {
            self.clear();
        }
        self.looks.push(Look { pc, lanes, digest, repeats: false });
        false
    }

    /// These lanes have changed memory, or have seen others change it: their next polls are new ones.
    pub(in crate::exec) fn forget_lanes(&mut self, lanes: u32) {
        self.forget(|look| look.lanes & lanes != 0);
    }

    fn forget(&mut self, over: impl Fn(&Look) -> bool) {
        let failing = &mut self.failing;
        self.looks.retain(|look| {
            let over = over(look);
            if over {
                failing.retain(|poll| poll.pc != look.pc || poll.lanes & look.lanes == 0);
            }
            !over
        });
    }

    /// Records that an instruction's tests fail again, in place of those that it recorded before.
    pub(in crate::exec) fn fail(&mut self, pc: u32, lanes: u32, tests: impl IntoIterator<Item = Poll>) {
        self.failing.retain(|poll| poll.pc != pc || poll.lanes & lanes == 0);
        self.failing.extend(tests);
    }

    /// Records what lanes wait for, in place of everything else.
    pub(in crate::exec) fn wait_for(&mut self, poll: Poll) {
        let Poll { pc, lanes, .. } = poll;
        self.forget_lanes(lanes);
        self.looks.push(Look { pc, lanes, digest: 0, repeats: true });
        self.fail(pc, lanes, [poll]);
    }
}

/// Adds a value to a digest (FNV-1a, by words).
#[inline(always)]
pub(in crate::exec) fn digest(so_far: u64, value: u64) -> u64 {
    (so_far ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = u32::MAX;

    #[test]
    fn a_loop_of_two_polls_repeats_both() {
        let mut polls = Polls::default();
        assert!(!polls.repeats(1, ALL, 7) && !polls.repeats(2, ALL, 8));
        for _ in 0..3 {
            assert!(polls.repeats(1, ALL, 7) && polls.repeats(2, ALL, 8));
        }
        assert!(!polls.repeats(2, ALL, 9), "another value");
        assert!(!polls.repeats(1, ALL, 7), "which may mean that the other has one, too");
    }

    #[test]
    fn what_a_loop_polled_is_over_when_another_poll_follows() {
        let poll = |pc| Poll { pc, lanes: ALL, target: PollTarget::Global(0) };
        let mut polls = Polls::default();
        assert!(!polls.repeats(1, ALL, 7) && polls.repeats(1, ALL, 7));
        polls.fail(1, ALL, [poll(1)]);
        assert!(!polls.repeats(2, ALL, 8) && polls.failing().is_empty());
        assert!(polls.repeats(2, ALL, 8));
        polls.fail(2, ALL, [poll(2)]);
        polls.fail(2, ALL, [poll(2)]);
        assert_eq!(polls.failing().len(), 1);
    }

    #[test]
    fn diverged_lanes_poll_each_for_itself() {
        let mut polls = Polls::default();
        assert!(!polls.repeats(1, 0xff, 7) && polls.repeats(1, 0xff, 7));
        assert!(!polls.repeats(5, 0xff00, 7) && polls.repeats(5, 0xff00, 7));
        assert!(polls.repeats(1, 0xff, 7));
    }
}
