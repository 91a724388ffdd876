//! Which kernel a plan uses, and why.

use std::fmt;

use super::cost::Candidate;
use super::key::KernelKey;

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
    /// A GPU kernel.
    Gpu(Box<ChosenKernel>),
}

/// A GPU kernel among its candidates.
#[derive(Clone, Debug)]
pub(super) struct ChosenKernel {
    pub(super) chosen: Candidate,
    /// Best first.
    pub(super) candidates: Vec<Candidate>,
    /// Whether the user asked for this one.
    pub(super) asked: bool,
}

impl ChosenKernel {
    /// The best kernel for operands in any layout: the chosen one if it takes any, else the best that does. Where
    /// `same_tile`, only one of the chosen kernel's tile will do.
    pub(super) fn any_layout(&self, same_tile: bool) -> Option<&Candidate> {
        let tile = self.chosen.key.tile();
        let suits = |c: &&Candidate| matches!(c.key, KernelKey::Sm80(_)) && (!same_tile || c.key.tile() == tile);
        std::iter::once(&self.chosen).chain(&self.candidates).find(suits)
    }
}

impl Choice {
    /// Rows and columns of a tile: what per-tile partials are partials of.
    #[must_use]
    pub fn tile(&self) -> (usize, usize) {
        match &self.kind {
            Chosen::Cpu { tile } => *tile,
            Chosen::Gpu(gpu) => gpu.chosen.key.tile(),
        }
    }

    /// The kernel that was chosen; `None` on the CPU, which has no kernels.
    #[must_use]
    pub fn kernel(&self) -> Option<&Candidate> {
        match &self.kind {
            Chosen::Cpu { .. } => None,
            Chosen::Gpu(gpu) => Some(&gpu.chosen),
        }
    }

    /// All kernels that would do, as the model ranks them; empty on the CPU.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        match &self.kind {
            Chosen::Cpu { .. } => &[],
            Chosen::Gpu(gpu) => &gpu.candidates,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Chosen::Cpu { tile: (m, n) } => write!(f, "CPU, tiles of {m}x{n}"),
            Chosen::Gpu(gpu) => {
                let ChosenKernel { chosen, candidates, asked } = &**gpu;
                write!(f, "{chosen}")?;
                if *asked {
                    return write!(f, " (as asked)");
                }
                match candidates.iter().find(|c| c.key != chosen.key) {
                    Some(next) => {
                        write!(f, "; next best {}, {}: about {:.1} us", next.key, next.split_k, next.microseconds)
                    }
                    None => write!(f, "; no other tile fits"),
                }
            }
        }
    }
}
