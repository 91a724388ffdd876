//! Which kernel a plan uses, and why.

use std::fmt;

use super::cost::Candidate;
use super::emit::KernelKey;

/// The choice of a kernel: what was chosen, and what the model ranked behind it.
#[derive(Clone, Debug)]
pub struct Choice {
    pub(super) kind: Chosen,
}

/// What was chosen.
#[derive(Clone, Debug)]
pub(super) enum Chosen {
    /// The CPU device's tile: rows, columns.
    Cpu { tile: (usize, usize) },
    /// A GPU kernel; the candidates, best first; whether the user asked for this one.
    Gpu { key: KernelKey, chosen: Candidate, candidates: Vec<Candidate>, asked: bool },
}

impl Choice {
    /// Rows and columns of a tile: what per-tile partials are partials of.
    #[must_use]
    pub fn tile(&self) -> (usize, usize) {
        match &self.kind {
            Chosen::Cpu { tile } => *tile,
            Chosen::Gpu { chosen, .. } => (chosen.tile.m, chosen.tile.n),
        }
    }

    /// The kernel that was chosen; `None` on the CPU, which has no kernels.
    #[must_use]
    pub fn kernel(&self) -> Option<&Candidate> {
        match &self.kind {
            Chosen::Cpu { .. } => None,
            Chosen::Gpu { chosen, .. } => Some(chosen),
        }
    }

    /// All kernels that would do, as the model ranks them; empty on the CPU.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        match &self.kind {
            Chosen::Cpu { .. } => &[],
            Chosen::Gpu { candidates, .. } => candidates,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Chosen::Cpu { tile: (m, n) } => write!(f, "CPU, tiles of {m}x{n}"),
            Chosen::Gpu { key, chosen, candidates, asked } => {
                write!(f, "{}: {chosen}", key.instruction)?;
                if *asked {
                    return write!(f, " (as asked)");
                }
                match candidates.iter().find(|c| c.tile != chosen.tile) {
                    Some(next) => write!(f, "; next best {}, {}: about {:.1} us", next.tile, next.split_k, next.microseconds),
                    None => write!(f, "; no other tile fits"),
                }
            }
        }
    }
}
