//! Groups of asynchronous operations (PTX ISA 9.7.9.25.3.2 and 9.7.9.27.2: `commit_group`, `wait_group`).

use std::collections::VecDeque;

/// Groups of asynchronous operations, committed by lanes.
#[derive(Debug)]
pub(super) struct Groups {
    /// The stamp of operations that are issued now.
    pub(super) epoch: u32,
    /// The lanes that committed, and the epoch that this ended.
    commits: VecDeque<(u32, u32)>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { epoch: 1, commits: VecDeque::new() }
    }
}

impl Groups {
    /// No kernel keeps more groups in flight.
    const KEPT: usize = 1024;

    pub(super) fn commit(&mut self, lanes: u32) {
        if self.commits.len() == Self::KEPT {
            self.commits.pop_front();
        }
        self.commits.push_back((lanes, self.epoch));
        self.epoch += 1;
    }

    /// The last epoch that has completed for a lane if at most `pending` of its groups have not.
    pub(super) fn completed(&self, lane: u32, pending: u32) -> u32 {
        let of_lane = self.commits.iter().rev().filter(|(lanes, _)| lanes >> lane & 1 != 0);
        of_lane.map(|&(_, epoch)| epoch).nth(pending as usize).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_complete_for_the_lanes_that_committed_them() {
        let mut groups = Groups::default();
        groups.commit(u32::MAX);
        groups.commit(1);
        groups.commit(u32::MAX);
        assert_eq!(groups.completed(0, 0), 3);
        assert_eq!(groups.completed(0, 1), 2);
        assert_eq!(groups.completed(1, 1), 1);
        assert_eq!(groups.completed(1, 2), 0);
    }
}
