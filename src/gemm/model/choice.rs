//! The kernel that a GPU's plan uses, and why it was chosen.

use std::fmt;
use std::sync::Arc;

use epilogue_runtime::Arch;

use super::candidate::Candidate;
use super::later::Later;
use super::machine::Machine;
use super::repacking::Unreachable;
use crate::gemm::families::FAMILIES;
use crate::gemm::kernel::Finish;

/// A GPU kernel that was chosen among candidates.
#[derive(Clone, Debug)]
pub(crate) struct ChosenKernel {
    /// The machine whose numbers it was chosen by.
    pub(crate) machine: Machine,
    pub(crate) chosen: Candidate,
    /// All candidates, best first.
    pub(crate) candidates: Arc<[Candidate]>,
    /// Whether the user asked for this kernel.
    pub(crate) asked: bool,
    /// Where the user asked later phases to be computed.
    pub(crate) finish: Option<Finish>,
    /// Limits of families that the product meets.
    pub(crate) limits: Vec<String>,
    /// The part of the product that elements need, by their positions.
    pub(crate) needed: f64,
    /// The launches after the product's, if later phases are computed so.
    pub(crate) later: Option<Later>,
    /// Why later phases are not computed in the tile, if no kernel does.
    pub(crate) not_in_tile: Option<String>,
    /// The result of measurements.
    pub(crate) origin: Origin,
}

/// Where rows that an index picks are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Picking {
    /// By a copy before the product.
    Copy,
    /// By a kernel of the family for this architecture and later, while it multiplies.
    Kernel(Arch),
}

impl Picking {
    /// All ways, the newest family's before others'.
    fn all() -> impl Iterator<Item = Self> {
        let kernels = FAMILIES.iter().rev().map(|family| Self::Kernel(family.arch()));
        std::iter::once(Self::Copy).chain(kernels)
    }

    /// How a candidate does it; `None` if no rows are picked.
    fn of(candidate: &Candidate) -> Option<Self> {
        match candidate.repacking.a {
            _ if candidate.key.of_family().reading().is_picked() => Some(Self::Kernel(candidate.key.family())),
            Some(Unreachable::Picked) => Some(Self::Copy),
            _ => None,
        }
    }
}

impl fmt::Display for Picking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy => f.write_str("with a copy of the picked rows first"),
            Self::Kernel(arch) => write!(f, "with rows picked by a kernel for {arch}"),
        }
    }
}

/// How a choice was made: by the model, or by measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Origin {
    /// Nothing was measured: the model chose.
    #[default]
    None,
    /// It is about to be measured.
    Contender,
    /// The chosen kernel was the fastest.
    Measured { microseconds: f64 },
    /// A measurement was found, but is not used: the model chose.
    Ignored { reason: String },
    /// Nothing was measured: the model chose among the kernels in the device's bundles, and ranked `better` others
    /// before it.
    Bundled { better: usize },
}

/// The most candidates in a shortlist, and the most of one tile.
const SHORTLIST: (usize, usize) = (8, 2);

impl ChosenKernel {
    /// The kernels that take operands in any layout: the chosen one if it does, then the others, best first. They
    /// compute later phases in the same place as the chosen one. With `same_tile`, only kernels with the chosen
    /// kernel's tile count.
    pub(crate) fn of_any_layout(&self, same_tile: bool) -> impl Iterator<Item = &Candidate> {
        let (tile, in_tile) = (self.chosen.key.tile(), self.chosen.key.in_tile());
        let suits = move |c: &&Candidate| {
            c.key.of_family().family().takes_any_layout()
                && (!same_tile || c.key.tile() == tile)
                && c.key.in_tile() == in_tile
        };
        std::iter::once(&self.chosen).chain(self.candidates.iter()).filter(suits)
    }

    /// Whether no other kernel may take the place of this one.
    pub(crate) fn is_exact(&self) -> bool {
        self.asked || self.origin == Origin::Contender
    }

    /// The choice among kernels with clusters that every GPU can run; `reason`: why this one's can't be.
    pub(crate) fn portable(&self, reason: &str) -> Option<Self> {
        let candidates: Arc<[Candidate]> = self.candidates.iter().filter(|c| c.is_portable()).cloned().collect();
        let (chosen, not_in_tile) = (candidates.first()?.clone(), Some(reason.to_owned()));
        Some(Self { chosen, candidates, not_in_tile, origin: Origin::None, ..self.clone() })
    }

    /// The best kernel among kernels that leave later phases to launches of their own. With `same_tile`, as above.
    pub(crate) fn of_launches(&self, same_tile: bool) -> Option<Self> {
        let tile = self.chosen.key.tile();
        let suits = |c: &&Candidate| !c.key.in_tile() && (!same_tile || c.key.tile() == tile);
        Some(Self { chosen: self.candidates.iter().find(suits)?.clone(), ..self.clone() })
    }
}

/// The candidates worth measuring of these, which are in the model's order; see [`Choice`](crate::gemm::Choice).
pub(crate) fn shortlist(candidates: &[Candidate]) -> Vec<Candidate> {
    let (most, of_one_tile) = SHORTLIST;
    let mut list: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let near = list.first().is_none_or(|best| candidate.microseconds <= 2.0 * best.microseconds);
        let alike = |c: &&Candidate| c.key.tile() == candidate.key.tile() && c.key.family() == candidate.key.family();
        if near && list.len() < most && list.iter().filter(alike).count() < of_one_tile {
            list.push(candidate.clone());
        }
    }
    // So measuring also shows whether copies of the operands are worth their time.
    let direct = candidates.iter().find(|candidate| candidate.repacking.is_none());
    if let Some(direct) = direct.filter(|_| list.iter().all(|candidate| !candidate.repacking.is_none())) {
        list.truncate(most - 1);
        list.push(direct.clone());
    }
    list
}

impl ChosenKernel {
    /// The kernel of the product, how else rows are picked, and how it was chosen.
    fn kernel(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chosen, candidates, asked, limits, needed, origin, .. } = self;
        write!(f, "{chosen}")?;
        for way in Picking::all().filter(|way| Picking::of(chosen).is_some_and(|of| of != *way)) {
            if let Some(best) = candidates.iter().find(|candidate| Picking::of(candidate) == Some(way)) {
                write!(f, "; {way}, about {:.1} us in all", best.microseconds)?;
            }
        }
        for limit in limits {
            write!(f, "; {limit}")?;
        }
        if *needed < 1.0 {
            write!(f, "; positions leave {:.0} % of the product out", 100.0 * (1.0 - needed))?;
        }
        if *asked {
            return write!(f, " (as asked)");
        }
        match origin {
            Origin::None | Origin::Contender => {}
            Origin::Measured { microseconds } => {
                return write!(f, "; measured: {microseconds:.1} us, the fastest");
            }
            Origin::Bundled { better } => {
                return write!(f, "; the best that the bundle holds: the model ranks {better} before it");
            }
            Origin::Ignored { reason } => write!(f, "; a measurement was ignored: {reason}")?,
        }
        match candidates.iter().find(|c| c.key != chosen.key) {
            Some(next) => {
                write!(f, "; next best {}, {}: about {:.1} us", next.key, next.split_k, next.microseconds)
            }
            None => write!(f, "; no other tile fits"),
        }
    }

    /// Where later phases are computed, and why not elsewhere.
    fn finish(&self, f: &mut fmt::Formatter<'_>, later: &Later) -> fmt::Result {
        let chosen = Finish::of(self.chosen.key.within());
        match chosen {
            Finish::Tile => {
                write!(f, "; its {} phases follow one another in the tile, where its lines are whole", later.phases)?;
            }
            Finish::Cluster => write!(
                f,
                "; its {} phases follow one another in the tiles of a cluster, whose blocks exchange their parts of whole lines",
                later.phases
            )?,
            Finish::SecondLaunch => write!(f, "; {later}")?,
        }
        for (finish, there) in [
            (Finish::Tile, "in one tile"),
            (Finish::Cluster, "in a cluster's tiles"),
            (Finish::SecondLaunch, "with launches of their own"),
        ] {
            let best = self.candidates.iter().find(|candidate| Finish::of(candidate.key.within()) == finish);
            if let Some(best) = best.filter(|_| finish != chosen) {
                write!(f, "; {there}, about {:.1} us in all", best.microseconds)?;
            }
        }
        match &self.not_in_tile {
            Some(reason) => write!(f, "; not in one tile: {reason}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ChosenKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel(f)?;
        self.later.as_ref().map_or(Ok(()), |later| self.finish(f, later))
    }
}
