//! The detector's view of an mbarrier: its clocks, and enough of its counts to see a misuse.

use super::clock::Knowledge;
use super::shadow::Stamp;

/// One mbarrier, by address.
#[derive(Debug)]
pub(super) struct Mbarrier {
    /// The actor that bulk copies completing on it are, counted in the cluster; none once the limit is reached.
    pub(super) actor: Option<u32>,
    /// Number of the current phase, from 1, going on over re-initialisation. The stamp of copies issued now.
    pub(super) phase: u32,
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
            completed: Knowledge::default(),
            pending: Knowledge::default(),
            init: Stamp::default(),
            init_fenced: false,
            alive: false,
            expected: 0,
            arrivals: 0,
            bytes: 0,
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
        if self.phase > 1 {
            // Old copies stay ordered by the phases they belonged to.
            self.phase += 1;
        }
        self.pending.clear();
    }

    /// Later phases need fewer arrivals (`arrive_drop`).
    pub(super) fn drop_arrivals(&mut self, count: u32) {
        self.expected -= i64::from(count);
    }

    /// The current phase completes.
    pub(super) fn complete(&mut self) {
        self.completed.join(&self.pending);
        self.pending.clear();
        if let Some(actor) = self.actor {
            self.completed.happened.own.raise(actor, self.phase);
        }
        self.phase += 1;
        self.arrivals = self.expected;
        self.bytes = 0;
    }
}
