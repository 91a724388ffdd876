//! Mutation operators on PTX text: what a mistake in the synchronisation of a kernel looks like.
//!
//! A test that runs a kernel's mutants shows what it would have caught. Every operator is applied at every site that it
//! fits; a mutant is the kernel with one edit. This module only edits text: running the mutants and judging them is the
//! caller's.
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
    /// The number of another barrier that the text uses.
    BarrierId,
    /// The wrong parity is waited for.
    Phase,
    /// The lanes of a mask, or the blocks of a multicast, are not all there.
    Mask,
    /// An address or a descriptor is swizzled in another way.
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
    /// Line of the statement it is about, from 1.
    pub line: usize,
    /// What is changed, in words.
    pub description: String,
    /// The bytes of the statement that it is about.
    bytes: Range<usize>,
    edits: Vec<(Range<usize>, String)>,
}

impl Mutation {
    /// The statement that it is about, in the text that this mutation was made for.
    #[must_use]
    pub fn statement<'t>(&self, ptx: &'t str) -> &'t str {
        ptx.get(self.bytes.clone()).unwrap_or_default()
    }

    /// The mutant of the text that this mutation was made for.
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

/// All mutations of a PTX text, by site and then by operator. Each is made to be [applied](Mutation::apply) to this
/// very text. Text that is no PTX has none, or ones that mean nothing.
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
