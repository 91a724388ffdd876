//! The detector's view of an mbarrier: its clocks, and enough of its counts to see a misuse.

use super::At;
use super::clock::Knowledge;
use super::shadow::Stamp;
use super::warp::lanes_of;

/// A successful wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The waiting threads' actor, counted in the cluster.
    pub(super) actor: u32,
    pub(super) at: At,
    pub(super) clock: u32,
    /// The warp's clock when these threads had come together since: from then on each of them speaks for all.
    pub(super) together: Option<u32>,
}

/// One mbarrier, by address.
#[derive(Debug)]
pub(super) struct Mbarrier {
    /// The actor that bulk copies completing on it are, counted in the cluster; none once the limit is reached.
    pub(super) actor: Option<u32>,
    /// Number of the current phase, from 1, going on over re-initialisation. The stamp of copies issued now.
    pub(super) phase: u32,
    /// The first phase since the initialisation.
    first: u32,
    /// Who has seen that the last phase is over.
    seen: Vec<Seen>,
    /// It is also used by relaxed operations, after which nobody can be said to know anything of it.
    pub(super) relaxed: bool,
    /// What the completed phases hand to whoever waits.
    pub(super) completed: Knowledge,
    /// What the current phase has gathered.
    pub(super) pending: Knowledge,
    /// The initialisation.
    pub(super) init: Stamp,
    /// The initialising thread has executed `fence.mbarrier_init`.
    pub(super) init_fenced: bool,
    pub(super) alive: bool,
    /// Arrivals that each phase needs.
    expected: i64,
    /// Arrivals and bytes that the current phase lacks.
    pub(super) arrivals: i64,
    pub(super) bytes: i64,
    /// Bytes that the current phase expects, and bytes of the copies that were issued in it, whenever they land.
    pub(super) announced: i64,
    pub(super) issued: i64,
    /// Instruction that last announced or completed bytes.
    pub(super) bytes_pc: u32,
    /// The last phase that somebody has waited for.
    pub(super) waited: u32,
    /// The last phase that a bulk copy was issued in, and the instruction.
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
            completed: Knowledge::default(),
            pending: Knowledge::default(),
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
            // Old copies stay ordered by the phases they belonged to.
            self.phase += 1;
        }
        self.first = self.phase;
        self.seen.clear();
        self.relaxed = false;
        self.pending.clear();
    }

    /// The number of a phase that a thread has to know to be over, when it has just found that the last one is.
    pub(super) fn to_be_known(&self) -> Option<u32> {
        (self.phase > self.first + 1 && !self.relaxed).then(|| self.phase - 2)
    }

    /// Notes a successful wait.
    pub(super) fn see(&mut self, seen: Seen) {
        // A later wait of the same threads stands for their earlier one.
        match self.seen.iter_mut().find(|s| s.actor == seen.actor && s.at.lanes == seen.at.lanes) {
            Some(before) => *before = seen,
            None => self.seen.push(seen),
        }
    }

    /// These lanes of a warp come together. False if that tells nothing of others that have seen the last phase's end.
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

    /// Who may not have seen the last phase's end when what has arrived since completes the current one.
    pub(super) fn overrun(&self) -> Option<Seen> {
        let happened = &self.pending.happened.own;
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

    /// The current phase completes.
    pub(super) fn complete(&mut self) {
        self.completed.join(&self.pending);
        self.pending.clear();
        self.seen.clear();
        if let Some(actor) = self.actor {
            self.completed.happened.own.raise(actor, self.phase);
        }
        self.phase += 1;
        self.arrivals = self.expected;
        self.bytes = 0;
        // Copies that the phase did not expect end in the next.
        self.issued = (self.issued - self.announced).max(0);
        self.announced = 0;
    }

    /// The phase expects so many bytes more.
    pub(super) fn announce(&mut self, bytes: i64, pc: u32) {
        self.bytes += bytes;
        self.announced += bytes;
        self.bytes_pc = pc;
    }

    /// Bytes that are announced and issued, if all arrivals are made and more is under way than the phase expects.
    pub(super) fn lacks_bytes(&self) -> Option<(i64, i64)> {
        (self.arrivals == 0 && self.issued > self.announced).then_some((self.announced, self.issued))
    }
}
