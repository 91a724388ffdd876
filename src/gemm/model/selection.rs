//! The subject of a selection: product, machine, request, and the ways in which later phases can be computed.

use super::candidate::Candidate;
use super::later::Later;
use super::machine::Machine;
use crate::ElementType;
use crate::evt::{Phases, ValidTree, WholeLines};
use crate::gemm::families::KernelKey;
use crate::gemm::families::list::Pins;
use crate::gemm::kernel::{Finish, SplitK, Within};
use crate::gemm::problem::{Arithmetic, Error, OperandLayout, Problem};

/// The most blocks that may share the K of a tile.
const MAX_SPLITS: usize = 256;

/// Why phases are not computed in one launch.
const MANY_VALUES: &str = "it reduces over batches, or more values cross its phases than a tile has accumulators";

/// Why no blocks exchange what they have of lines.
pub(crate) const NO_CLUSTERS: &str =
    "clusters are of kernels for sm_90a and sm_100a, with 16-bit, 8-bit or TF32 operands";

/// The knobs that the user set. The model chooses those that are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Knobs of one family.
    pub(crate) pins: Pins,
    /// Exactly this candidate.
    pub(crate) exact: Option<(KernelKey, SplitK)>,
    pub(crate) stages: Option<usize>,
    pub(crate) split_k: Option<SplitK>,
    /// Where later phases are computed.
    pub(crate) finish: Option<Finish>,
}

/// The subject of a selection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) phases: &'a Phases,
    pub(crate) problem: Problem,
    pub(crate) layouts: (OperandLayout, OperandLayout),
    pub(crate) arithmetic: Arithmetic,
    /// The launches after the product's, if there are any.
    pub(crate) later: Option<&'a Later>,
    /// Whether a family that multiplies these operands on this machine has clusters.
    pub(crate) has_clusters: bool,
}

/// The part of the epilogue that the kernel with the product computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchedPart<'a> {
    /// The first phase, or all.
    pub(crate) tree: &'a ValidTree,
    /// If it is all: the lines that must lie whole, and where.
    pub(crate) lines: Option<(WholeLines, Within)>,
    /// The time of the launches behind.
    pub(crate) later: f64,
}

impl LaunchedPart<'_> {
    /// Where its lines must lie whole, if it is all phases.
    pub(crate) fn within(&self) -> Option<Within> {
        self.lines.map(|(_, within)| within)
    }

    /// The error that its lines do not lie there, for a reason.
    pub(crate) fn refused(&self, reason: String) -> Error {
        let epilogue = self.tree.name();
        match self.within() {
            Some(Within::Cluster) => Error::NotInCluster { epilogue, reason },
            Some(Within::Tile) | None => Error::NotInTile { epilogue, reason },
        }
    }

    /// A candidate with the launches behind.
    pub(crate) fn whole(&self, mut candidate: Candidate) -> Candidate {
        candidate.microseconds += self.later;
        candidate
    }
}

impl<'a> Selection<'a> {
    /// The ways in which later phases can be computed, as asked for. The first is in launches, if nothing else is asked for.
    ///
    /// # Errors
    /// [`Error::NothingToFinish`], [`Error::NotInTile`], [`Error::NotInCluster`].
    pub(crate) fn ways(&self, asked: Option<Finish>) -> Result<Vec<LaunchedPart<'a>>, Error> {
        let later = self.later.map_or(0.0, |later| later.microseconds);
        let launches = LaunchedPart { tree: self.phases.first(), lines: None, later };
        let epilogue = launches.tree.name();
        // The blocks that complete reductions compute everything with one value a line: nothing is cheaper.
        let more = self.phases.passes().len() > 1;
        if asked.is_some() && !more {
            return Err(Error::NothingToFinish { epilogue });
        }
        let in_tile = self.phases.in_tile.as_ref().filter(|_| more && self.problem.reading.grouping().is_none());
        let way =
            |within| in_tile.map(|of| LaunchedPart { tree: of.tree(), lines: Some((of.lines(), within)), later: 0.0 });
        let in_cluster = way(Within::Cluster).filter(|_| self.has_clusters);
        let only = |way: Option<LaunchedPart<'a>>| way.map(|way| vec![way]);
        match asked {
            Some(Finish::Tile) => {
                only(way(Within::Tile)).ok_or_else(|| Error::NotInTile { epilogue, reason: MANY_VALUES.to_owned() })
            }
            Some(Finish::Cluster) => only(in_cluster).ok_or_else(|| {
                let reason = if self.has_clusters { MANY_VALUES } else { NO_CLUSTERS };
                Error::NotInCluster { epilogue, reason: reason.to_owned() }
            }),
            Some(Finish::SecondLaunch) => Ok(vec![launches]),
            None => Ok(std::iter::once(launches).chain(way(Within::Tile)).chain(in_cluster).collect()),
        }
    }

    /// The way whose kernel is predicted to take the least time; if none has one, why the first has none.
    pub(crate) fn best_way(
        &self,
        asked: Option<Finish>,
        kernel: impl Fn(&LaunchedPart<'a>) -> Result<Candidate, Error>,
    ) -> Result<Candidate, Error> {
        let mut best: Option<Result<Candidate, Error>> = None;
        for way in self.ways(asked)? {
            let found = kernel(&way).map(|candidate| way.whole(candidate));
            best = match (best, found) {
                (Some(Ok(x)), Ok(y)) => Some(Ok(if x.microseconds <= y.microseconds { x } else { y })),
                (None | Some(Err(_)), Ok(one)) | (Some(Ok(one)), Err(_)) => Some(Ok(one)),
                (None, Err(why)) | (Some(Err(why)), Err(_)) => Some(Err(why)),
            };
        }
        best.unwrap_or_else(|| Err(Error::NothingToFinish { epilogue: self.phases.tree.name() }))
    }

    /// The element types of A and B.
    pub(crate) fn types(&self) -> (ElementType, ElementType) {
        let types = self.phases.tree.types();
        (types.a, types.b)
    }
}

/// Checks how many blocks share K.
///
/// # Errors
/// [`Error::Count`].
pub(crate) fn check_splits(split_k: SplitK) -> Result<(), Error> {
    let given = split_k.splits();
    if (1..=MAX_SPLITS).contains(&given) {
        return Ok(());
    }
    Err(Error::Count { what: "the number of splits of K", given, least: 1, most: MAX_SPLITS })
}
