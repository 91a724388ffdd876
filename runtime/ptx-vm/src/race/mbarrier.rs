//! The detector's view of an mbarrier: its clocks, and those of its counts that show misuse.

use super::At;
use super::knowledge::Knowledge;
use super::lanes::lanes_of;
use super::stamp::Stamp;

/// A successful wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The actor of the waiting threads, as a number in the cluster.
    pub(super) actor: u32,
    pub(super) at: At,
    pub(super) clock: u32,
    /// The warp's clock when these threads have since come together. From then on each of them stands for all.
    pub(super) together: Option<u32>,
}

/// The knowledge that arrivals bring to an mbarrier.
#[derive(Clone, Debug, Default)]
struct Collected {
    /// The knowledge that completed phases pass to waiting threads.
    completed: Knowledge,
    /// The knowledge that the current phase has collected.
    pending: Knowledge,
}

impl Collected {
    /// Completes a phase, and with it the copies of an actor.
    fn complete(&mut self, copies: Option<u32>, phase: u32) {
        self.completed.join(&self.pending);
        self.pending.clear();
        if let Some(actor) = copies {
            self.completed.happened.own.raise(actor, phase);
        }
    }
}

/// One mbarrier, by address.
#[derive(Debug)]
pub(super) struct Mbarrier {
    /// The actor of the bulk copies that complete on it, as a number in the cluster; `None` beyond the limit.
    pub(super) actor: Option<u32>,
    /// The number of the current phase. It starts at 1 and continues over re-initialisation. It is the stamp of copies
    /// issued now.
    pub(super) phase: u32,
    /// The first phase after the initialisation.
    first: u32,
    /// The threads that have seen the end of the last phase.
    seen: Vec<Seen>,
    /// Whether relaxed operations use it, too. Then nobody can be said to know anything because of it.
    pub(super) relaxed: bool,
    /// The knowledge of all arrivals.
    all: Collected,
    /// That of the arrivals by the mbarrier's own block, if others have arrived, too.
    near: Option<Box<Collected>>,
    /// The access that initialised it.
    pub(super) init: Stamp,
    /// Whether the initialising thread has executed `fence.mbarrier_init`.
    pub(super) init_fenced: bool,
    pub(super) alive: bool,
    /// Number of arrivals that each phase needs.
    expected: i64,
    /// Numbers of arrivals and bytes that are missing in the current phase.
    pub(super) arrivals: i64,
    pub(super) bytes: i64,
    /// Numbers of bytes that the current phase expects, and of bytes in the copies issued in it, whenever they
    /// complete.
    pub(super) announced: i64,
    pub(super) issued: i64,
    /// The instruction that last announced or completed bytes.
    pub(super) bytes_pc: u32,
    /// The last phase for which somebody has waited.
    pub(super) waited: u32,
    /// The last phase in which a bulk copy was issued, and the instruction.
    pub(super) load: Option<(u32, u32)>,
}

impl Mbarrier {
    pub(super) fn new(actor: Option<u32>) -> Self {
        Self {
            actor,
            phase: 1,
            first: 1,
            seen: Vec::new(),
            relaxed: false,
            all: Collected::default(),
            near: None,
            init: Stamp::default(),
            init_fenced: false,
            alive: false,
            expected: 0,
            arrivals: 0,
            bytes: 0,
            announced: 0,
            issued: 0,
            bytes_pc: 0,
            waited: 0,
            load: None,
        }
    }

    pub(super) fn init(&mut self, count: u32, stamp: Stamp) {
        self.alive = true;
        self.init = stamp;
        self.init_fenced = false;
        self.expected = i64::from(count);
        self.arrivals = self.expected;
        self.bytes = 0;
        self.announced = 0;
        self.issued = 0;
        if self.phase > 1 {
            // Old copies stay ordered by the phases to which they belonged.
            self.phase += 1;
        }
        self.first = self.phase;
        self.seen.clear();
        self.relaxed = false;
        self.all.pending.clear();
        if let Some(near) = &mut self.near {
            near.pending.clear();
        }
    }

    /// Collects what an arrival releases, by threads of the mbarrier's own block or of another one.
    pub(super) fn collect(&mut self, is_near: bool, release: impl FnOnce(&mut Knowledge)) {
        match &mut self.near {
            None if is_near => return release(&mut self.all.pending),
            None => self.near = Some(Box::new(self.all.clone())),
            Some(_) => {}
        }
        let mut released = Knowledge::default();
        release(&mut released);
        self.all.pending.join(&released);
        if let Some(near) = self.near.as_mut().filter(|_| is_near) {
            near.pending.join(&released);
        }
    }

    /// The knowledge that completed phases pass to threads that wait, at block scope or at a wider one.
    pub(super) fn completed(&self, is_wide: bool) -> &Knowledge {
        match &self.near {
            Some(near) if !is_wide => &near.completed,
            _ => &self.all.completed,
        }
    }

    /// The number of the phase that a thread must know to be over when it finds that the last one is.
    pub(super) fn to_be_known(&self) -> Option<u32> {
        (self.phase > self.first + 1 && !self.relaxed).then(|| self.phase - 2)
    }

    /// Records a successful wait.
    pub(super) fn see(&mut self, seen: Seen) {
        // A later wait of the same threads replaces their earlier one.
        match self.seen.iter_mut().find(|s| s.actor == seen.actor && s.at.lanes == seen.at.lanes) {
            Some(before) => *before = seen,
            None => self.seen.push(seen),
        }
    }

    /// These lanes of a warp come together. False if this tells nothing about others that have seen the end of the last
    /// phase.
    pub(super) fn come_together(&mut self, actor: u32, lanes: u32, clock: u32) -> bool {
        let mut all = true;
        for seen in self.seen.iter_mut().filter(|seen| seen.actor == actor && seen.together.is_none()) {
            if seen.at.lanes & !lanes == 0 {
                seen.together = Some(clock);
            } else {
                all = false;
            }
        }
        all
    }

    /// Threads that may not have seen the end of the last phase when the arrivals since then complete the current one.
    pub(super) fn overrun(&self) -> Option<Seen> {
        let happened = &self.all.pending.happened.own;
        let speaks = |seen: &Seen, clock| lanes_of(seen.at.lanes).any(|l| happened.covers(seen.actor, 1 << l, clock));
        let late = |seen: &&Seen| {
            !happened.covers(seen.actor, seen.at.lanes, seen.clock)
                && !seen.together.is_some_and(|clock| speaks(seen, clock))
        };
        if self.relaxed { None } else { self.seen.iter().find(late).copied() }
    }

    /// Later phases need fewer arrivals (`arrive_drop`).
    pub(super) fn drop_arrivals(&mut self, count: u32) {
        self.expected -= i64::from(count);
    }

    /// Completes the current phase.
    pub(super) fn complete(&mut self) {
        self.all.complete(self.actor, self.phase);
        if let Some(near) = &mut self.near {
            near.complete(self.actor, self.phase);
        }
        self.seen.clear();
        self.phase += 1;
        self.arrivals = self.expected;
        self.bytes = 0;
        // Copies that the phase did not expect complete in the next one.
        self.issued = (self.issued - self.announced).max(0);
        self.announced = 0;
    }

    /// Announces more bytes that the phase expects.
    pub(super) fn announce(&mut self, bytes: i64, pc: u32) {
        self.bytes += bytes;
        self.announced += bytes;
        self.bytes_pc = pc;
    }

    /// The numbers of announced and issued bytes, if all arrivals were made and more bytes are in flight than the phase
    /// expects.
    pub(super) fn lacks_bytes(&self) -> Option<(i64, i64)> {
        (self.arrivals == 0 && self.issued > self.announced).then_some((self.announced, self.issued))
    }
}
