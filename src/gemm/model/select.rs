//! Selects a kernel of any family: the one that the model ranks best, or the one that was asked for.

use std::sync::Arc;

use super::candidate::Candidate;
use super::choice::{ChosenKernel, Origin};
use super::later::Later;
use super::machine::Machine;
use super::needed::needed_share;
use super::selection::{LaunchedPart, Request, Selection};
use crate::evt::{Phases, ValidOutput};
use crate::gemm::families::family::Family;
use crate::gemm::families::{Families, KernelKey};
use crate::gemm::kernel::{Finish, SplitK, Switches, Within};
use crate::gemm::problem::{Arithmetic, Error, OperandLayout, Problem};

/// Why no tile fits, if no family says it.
const NO_TILE: &str = "the epilogue needs more than any tile leaves";

/// A selection among the kernels of some families.
pub(crate) struct Choosing<'a> {
    families: Families,
    selection: Selection<'a>,
}

impl<'a> Choosing<'a> {
    /// A selection for a product; `later`: the launches after the product's.
    pub(crate) fn of(
        (machine, families): (&'a Machine, Families),
        phases: &'a Phases,
        problem: Problem,
        (layouts, arithmetic): ((OperandLayout, OperandLayout), Arithmetic),
        later: Option<&'a Later>,
    ) -> Self {
        let selection = Selection { machine, phases, problem, layouts, arithmetic, later, has_clusters: false };
        let own = Self { families, selection };
        let has_clusters = own.multiplying().any(Family::has_clusters);
        Self { selection: Selection { has_clusters, ..selection }, ..own }
    }

    /// The families that multiply these operands on this machine.
    fn multiplying(&self) -> impl DoubleEndedIterator<Item = &'static dyn Family> {
        let of = &self.selection;
        let multiplies =
            move |family: &&dyn Family| family.runs_on(of.machine.arch) && family.multiplies(of.types(), of.arithmetic);
        self.families.iter().filter(multiplies)
    }

    /// Why no kernel computes all phases in its tile; `None` if that isn't to be said.
    fn why_not_in_tile(&self) -> Option<String> {
        let way = self.selection.ways(Some(Finish::Tile)).map_err(|error| match error {
            Error::NotInTile { reason, .. } => Some(reason),
            _ => None,
        });
        let way = match way {
            Ok(ways) => ways.first().copied()?,
            Err(reason) => return reason,
        };
        self.multiplying().rev().find_map(|family| family.why_not_in_tile(&self.selection, &way))
    }

    /// The candidates of all families for a way in which later phases are computed; the first misfit is noted.
    fn candidates(&self, way: &LaunchedPart<'a>, misfit: &mut Option<String>) -> Vec<Candidate> {
        // Partials are per tile, and a run with operands in another layout must have the same ones. So only those tiles
        // count that families for any layout have as well.
        let partial = way.tree.outputs().iter().any(ValidOutput::is_partial);
        let accumulators = way.tree.cost().products();
        let shared = |tile| self.multiplying().all(|family| family.has_tile(&self.selection, accumulators, tile));
        let mut all = Vec::new();
        for family in self.multiplying().filter(|family| way.within() != Some(Within::Cluster) || family.has_clusters())
        {
            match family.candidates(&self.selection, way, &|tile| !partial || shared(tile)) {
                Ok(candidates) => all.extend(candidates.into_iter().map(|candidate| way.whole(candidate))),
                Err(why) => *misfit = misfit.take().or(Some(why)),
            }
        }
        all
    }

    /// Selects the kernel.
    ///
    /// # Errors
    /// [`Error::NoTile`] if no kernel fits; [`Error::Tile`], [`Error::Count`], [`Error::NoKernel`] for a request that
    /// no kernel can satisfy.
    pub(crate) fn choose(&self, request: &Request, switches: Switches) -> Result<ChosenKernel, Error> {
        let asked = *request != Request::default();
        let of = &self.selection;
        of.ways(request.finish)?;
        let (mut candidates, mut misfit) = (Vec::new(), None);
        for way in of.ways(None)? {
            candidates.extend(self.candidates(&way, &mut misfit));
        }
        let chosen = match request {
            Request { exact: Some((key, split_k)), finish, .. } => {
                if finish.is_some_and(|finish| finish != Finish::of(key.within())) {
                    let reason = "it computes later phases elsewhere than `.finish(…)` says: leave one of the two out";
                    return Err(Error::NoKernel { kernel: key.to_string(), reason });
                }
                Some(exactly(key, *split_k, &candidates)?)
            }
            _ if asked => Some(self.asked(request, &candidates)?),
            _ => None,
        };
        candidates.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        let best = chosen.or_else(|| candidates.first().cloned());
        let reason = || misfit.unwrap_or_else(|| NO_TILE.to_owned());
        let mut chosen = best.ok_or_else(|| Error::NoTile { reason: reason() })?;
        for candidate in std::iter::once(&mut chosen).chain(&mut candidates) {
            candidate.key = candidate.key.with(switches);
        }
        let limits = self.multiplying().flat_map(|family| family.limits(of)).collect();
        let (finish, candidates, origin) = (request.finish, Arc::<[Candidate]>::from(candidates), Origin::None);
        let needed = needed_share(of.phases.first(), &of.problem.shared_alike());
        let not_in_tile =
            if candidates.iter().any(|candidate| candidate.key.in_tile()) { None } else { self.why_not_in_tile() };
        let (machine, later) = (of.machine.clone(), of.later.cloned());
        Ok(ChosenKernel { machine, chosen, candidates, asked, finish, limits, needed, later, not_in_tile, origin })
    }

    /// The kernel that the user described: of the family with knobs of its own, or the better of all families'. Where none has
    /// one, the newest family says why, unless it has no kernel at all.
    fn asked(&self, request: &Request, candidates: &[Candidate]) -> Result<Candidate, Error> {
        if let Some(family) = self.families.iter().find(|family| family.is_pinned(&request.pins)) {
            return family.asked(&self.selection, request, candidates);
        }
        let in_cluster = request.finish == Some(Finish::Cluster);
        let families = self.multiplying().rev().filter(|family| !in_cluster || family.has_clusters());
        let better = |best: Result<Candidate, Error>, other: Result<Candidate, Error>| match (best, other) {
            (Ok(x), Ok(y)) => Ok(if x.microseconds <= y.microseconds { x } else { y }),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(Error::NoKernel { .. }), Err(error)) | (Err(error), Err(_)) => Err(error),
        };
        let found = families.map(|family| family.asked(&self.selection, request, candidates)).reduce(better);
        found.unwrap_or_else(|| Err(Error::NoTile { reason: NO_TILE.to_owned() }))
    }
}

/// The candidate with this key.
fn exactly(key: &KernelKey, split_k: SplitK, candidates: &[Candidate]) -> Result<Candidate, Error> {
    let plain = |key: &KernelKey| key.with(Switches::default());
    let same = |c: &&Candidate| plain(&c.key) == plain(key) && c.split_k == split_k;
    let reason = "it is not a candidate for this product: take one of this builder's own `choose()`";
    candidates.iter().find(same).cloned().ok_or_else(|| Error::NoKernel { kernel: key.to_string(), reason })
}
