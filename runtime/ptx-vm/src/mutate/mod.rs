//! Mutation operators on PTX text. Each makes one typical mistake in the synchronisation of a kernel.
//!
//! A test that runs the mutants of a kernel shows which mistakes it would find. Every operator is applied at every
//! fitting place; a mutant is the kernel with one edit. This module only edits text. The caller runs the mutants and
//! judges them.
//!
//! ```
//! let ptx = "bar.sync 0;\ncp.async.wait_group 1;\n";
//! let texts: Vec<_> = ptx_vm::mutate::mutations(ptx).map(|m| (m.description.clone(), m.apply(ptx))).collect();
//! assert!(texts.iter().any(|(what, text)| what.contains("drop") && !text.contains("bar.sync")));
//! assert!(texts.iter().any(|(_, text)| text.contains("cp.async.wait_group 2;")));
//! ```

mod operators;
mod statement;

use std::ops::Range;

/// The kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// A CTA, warp or cluster barrier is missing.
    DropBarrier,
    /// A memory or proxy fence is missing.
    DropFence,
    /// A wait is missing: for a copy group, a `wgmma` group, an mbarrier's phase, the previous kernel.
    DropWait,
    /// A group of asynchronous operations is not committed.
    DropCommit,
    /// An arrival at an mbarrier or a `bar.arrive` is missing.
    DropArrival,
    /// A wait leaves one group more in flight.
    LooserWait,
    /// A count is one off: threads of a barrier, arrivals of an mbarrier, expected bytes.
    Count,
    /// A barrier has the number of another one that the text uses.
    BarrierId,
    /// A wait is for the wrong parity.
    Phase,
    /// A mask lacks some lanes, or a multicast some blocks.
    Mask,
    /// An address or descriptor has another swizzle.
    Swizzle,
    /// A barrier, arrival, commit or fence comes one memory operation too early.
    Early,
    /// `.release`, `.acquire` or `.acq_rel` is `.relaxed`.
    WeakerOrder,
    /// `.gpu` or `.sys` is `.cta`.
    NarrowerScope,
}

/// One edit of a PTX text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// The kind.
    pub operator: Operator,
    /// Line of the edited statement, counted from 1.
    pub line: usize,
    /// The change, in words.
    pub description: String,
    /// The place of the edited statement in the text, in bytes.
    bytes: Range<usize>,
    edits: Vec<(Range<usize>, String)>,
}

impl Mutation {
    /// The edited statement, in the text for which this mutation was made.
    #[must_use]
    pub fn statement<'t>(&self, ptx: &'t str) -> &'t str {
        ptx.get(self.bytes.clone()).unwrap_or_default()
    }

    /// The mutant of the text for which this mutation was made.
    #[must_use]
    pub fn apply(&self, ptx: &str) -> String {
        let mut mutant = String::with_capacity(ptx.len() + 64);
        let mut from = 0;
        for (bytes, replacement) in &self.edits {
            mutant.push_str(ptx.get(from..bytes.start).unwrap_or_default());
            mutant.push_str(replacement);
            from = bytes.end;
        }
        mutant.push_str(ptx.get(from..).unwrap_or_default());
        mutant
    }
}

/// All mutations of a PTX text, ordered by place and then by operator. [Apply](Mutation::apply) them only to this text.
/// A text that is not PTX has no mutations, or meaningless ones.
pub fn mutations(ptx: &str) -> impl Iterator<Item = Mutation> {
    operators::all(&statement::statements(ptx)).into_iter()
}

/// The mutants of a PTX text: what was changed, and the changed text.
pub fn mutants(ptx: &str) -> impl Iterator<Item = (String, String)> {
    mutations(ptx).map(move |mutation| {
        let text = mutation.apply(ptx);
        (mutation.description, text)
    })
}

#[cfg(test)]
mod tests;
