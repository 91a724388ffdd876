//! Selects a kernel of either family: the one that the model ranks best, or the one that was asked for.

use super::candidate::Candidate;
use super::choice::{ChosenKernel, Tuning};
use super::machine::Machine;
use super::needed::needed_share;
use super::repacking::Repacking;
use crate::evt::{Phases, ValidOutput, ValidTree, WholeLines};
use crate::gemm::families::sm80::kernel::{Instruction, Tile};
use crate::gemm::families::sm80::model as sm80;
use crate::gemm::families::sm80::model::{Misfit, Workload};
use crate::gemm::families::sm90::kernel::Wgmma;
use crate::gemm::families::sm90::kernel::shared::{MAX_SHARED_BYTES, table_bytes};
use crate::gemm::families::sm90::kernel::supported::{
    CONTIGUOUS_GROUPS, MANY_GROUPS, NO_GROUPS_OF_K, NOTHING_PICKED, UNALIGNED_PICKS, UNSHARED, UNSPLIT_GROUPS, supports,
};
use crate::gemm::families::sm90::{kernel as sm90, model as ranking};
use crate::gemm::kernel::{Finish, KernelKey, SplitK, Switches, Within};
use crate::gemm::problem::{Arithmetic, Error, Grouping, Major, OperandLayout, Problem, Unboxed};
use epilogue_runtime::Arch;

/// The most blocks that may share the K of a tile.
const MAX_SPLITS: usize = 256;

/// The columns of the widest tiles for sm_90a, and the fewest of an accumulator.
const MOST_COLUMNS: usize = 256;
const FEWEST_COLUMNS: usize = 8;

/// Why phases are not computed in one launch.
const MANY_VALUES: &str = "it reduces over batches, or more values cross its phases than a tile has accumulators";

/// Why no blocks exchange what they have of lines.
const NO_CLUSTERS: &str = "clusters are of kernels for sm_90a, with 16-bit, 8-bit or TF32 operands";

/// Why no tile is one of a cluster that holds lines, where none was asked for.
const NO_SHARED_TILE: &str = "shared memory has no room for any tile with this epilogue that divides among a cluster's blocks along its \
     lines: ask for `Finish::SecondLaunch`, or give operands that are contiguous along K, whose tiles divide among more \
     blocks";

/// What the user asked for. The model chooses what is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// A kernel for sm_80 and later, with this tile.
    pub(crate) sm80: Option<Tile>,
    /// A kernel for sm_90a.
    pub(crate) sm90: Option<sm90::Request>,
    /// Exactly this candidate.
    pub(crate) exact: Option<(KernelKey, SplitK)>,
    pub(crate) stages: Option<usize>,
    pub(crate) split_k: Option<SplitK>,
    /// Where later phases are computed.
    pub(crate) finish: Option<Finish>,
}

/// What a kernel is selected for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) phases: &'a Phases,
    pub(crate) problem: Problem,
    pub(crate) layouts: (OperandLayout, OperandLayout),
    pub(crate) arithmetic: Arithmetic,
    /// The time of the launches after the product's, if there are any.
    pub(crate) later: f64,
}

/// What the kernel with the product computes.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    /// The first phase, or all.
    tree: &'a ValidTree,
    /// If it is all: the lines that must lie whole, and where.
    lines: Option<(WholeLines, Within)>,
    /// The time of the launches behind.
    later: f64,
}

impl Part<'_> {
    /// Where its lines must lie whole, if it is all phases.
    fn within(&self) -> Option<Within> {
        self.lines.map(|(_, within)| within)
    }

    /// The error for a reason why its lines lie in no such place.
    fn refused(&self, reason: String) -> Error {
        let epilogue = self.tree.name();
        match self.within() {
            Some(Within::Cluster) => Error::NotInCluster { epilogue, reason },
            Some(Within::Tile) | None => Error::NotInTile { epilogue, reason },
        }
    }

    /// A candidate with the launches behind.
    fn whole(&self, mut candidate: Candidate) -> Candidate {
        candidate.microseconds += self.later;
        candidate
    }
}

impl<'a> Selection<'a> {
    /// The ways in which later phases can be computed, as asked for. The first is in launches, if nothing else is asked for.
    ///
    /// # Errors
    /// [`Error::NothingToFinish`], [`Error::NotInTile`], [`Error::NotInCluster`].
    fn ways(&self, asked: Option<Finish>) -> Result<Vec<Part<'a>>, Error> {
        let launches = Part { tree: self.phases.first(), lines: None, later: self.later };
        let epilogue = launches.tree.name();
        // What is one value a line, the blocks compute that complete the reductions: nothing is cheaper.
        let more = self.phases.passes().len() > 1;
        if asked.is_some() && !more {
            return Err(Error::NothingToFinish { epilogue });
        }
        let in_tile = self.phases.in_tile.as_ref().filter(|_| more && self.problem.grouping == Grouping::None);
        let way = |within| in_tile.map(|of| Part { tree: of.tree(), lines: Some((of.lines(), within)), later: 0.0 });
        let in_cluster = way(Within::Cluster).filter(|_| self.wgmma().is_some());
        let only = |way: Option<Part<'a>>| way.map(|way| vec![way]);
        match asked {
            Some(Finish::Tile) => {
                only(way(Within::Tile)).ok_or_else(|| Error::NotInTile { epilogue, reason: MANY_VALUES.to_owned() })
            }
            Some(Finish::Cluster) => only(in_cluster).ok_or_else(|| {
                let reason = if self.wgmma().is_some() { MANY_VALUES } else { NO_CLUSTERS };
                Error::NotInCluster { epilogue, reason: reason.to_owned() }
            }),
            Some(Finish::SecondLaunch) => Ok(vec![launches]),
            None => Ok(std::iter::once(launches).chain(way(Within::Tile)).chain(in_cluster).collect()),
        }
    }

    /// The way whose kernel is predicted to take the least time; if none has one, why the first has none.
    fn best_way(
        &self,
        asked: Option<Finish>,
        kernel: impl Fn(&Part<'a>) -> Result<Candidate, Error>,
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

    /// Why lines don't lie in a tile of a kernel for sm_90a as was asked for, or in the tiles of a cluster; `None` if they do.
    fn beyond_tile(&self, way: &Part<'_>, wanted: &sm90::Request) -> Option<String> {
        let (lines, within) = way.lines?;
        // Lines are along MMA columns: columns are those of swapped kernels, whose accumulators share rows.
        let sharers = if lines.columns { 1 } else { way.tree.cost().products() };
        let of_tile = wanted.tile.map(|tile| tile.columns / sharers);
        let (most, least) = (of_tile.unwrap_or(MOST_COLUMNS / sharers), of_tile.unwrap_or(FEWEST_COLUMNS));
        let (extent, of_lines, longer, along): (_, _, _, fn(sm90::Cluster) -> usize) = match lines {
            WholeLines { rows: true, columns: true } => {
                let reason = "its reductions are along rows and columns; only kernels for sm_80 have both in a tile";
                return Some(reason.to_owned());
            }
            WholeLines { rows: true, .. } => {
                (self.problem.n, "rows", Misfit::Rows { columns: self.problem.n, most }, |c| c.n)
            }
            WholeLines { columns: true, .. } => {
                (self.problem.m, "columns", Misfit::Columns { rows: self.problem.m, most }, |c| c.m)
            }
            WholeLines { .. } => return None,
        };
        match (within, wanted.cluster.map(|cluster| (cluster, along(cluster)))) {
            (Within::Tile, Some((cluster, 2..))) => {
                Some(format!("clusters of {cluster} have several blocks along {of_lines}: ask for `Finish::Cluster`"))
            }
            (Within::Tile, _) => (extent > most).then(|| longer.to_string()),
            (Within::Cluster, Some((cluster, 1))) => {
                Some(format!("clusters of {cluster} have one block along {of_lines}: ask for more"))
            }
            (Within::Cluster, _) if extent <= least => {
                Some(format!("{of_lines} so short lie in one tile: ask for `Finish::Tile`"))
            }
            (Within::Cluster, asked) => {
                let blocks = asked.map_or(sm90::Cluster::MOST_OF_LINES, |(_, along)| along);
                (extent > most * blocks).then(|| format!("{longer}, and than {blocks} of these"))
            }
        }
    }

    /// Why no kernel computes all phases in its tile; `None` if that isn't to be said.
    pub(crate) fn why_not_in_tile(&self) -> Option<String> {
        let way = self.ways(Some(Finish::Tile)).map_err(|error| match error {
            Error::NotInTile { reason, .. } => Some(reason),
            _ => None,
        });
        let way = match way {
            Ok(ways) => ways.first().copied()?,
            Err(reason) => return reason,
        };
        let on_sm80 = self.mma().map(|instruction| sm80::rank(self.machine, &self.sm80_workload(&way, instruction)));
        let of_sm80 = on_sm80.and_then(Result::err).map(|why| why.to_string());
        let in_cluster = Part { lines: way.lines.map(|(lines, _)| (lines, Within::Cluster)), ..way };
        let of_sm90 = self.wgmma().and_then(|_| self.beyond_tile(&in_cluster, &sm90::Request::default()));
        of_sm90.or(of_sm80)
    }

    fn mma(&self) -> Option<Instruction> {
        let types = self.phases.tree.types();
        Instruction::of(types.a, types.b, self.arithmetic)
    }

    /// Code for sm_90a runs on no other compute capability.
    fn wgmma(&self) -> Option<Wgmma> {
        let types = self.phases.tree.types();
        Wgmma::of(types.a, types.b, self.arithmetic).filter(|_| self.machine.arch == Arch::SM_90A)
    }

    fn sm80_workload(&self, way: &Part<'a>, instruction: Instruction) -> Workload<'a> {
        let (a, b) = self.layouts;
        let (problem, lines) = (self.problem.shared_alike(), way.lines.map(|(lines, _)| lines));
        let needed = needed_share(way.tree, &problem);
        Workload { problem, instruction, a, b, epilogue: way.tree.cost(), lines, needed }
    }

    /// Why kernels for sm_90a don't pick A's rows themselves; `None` if they do.
    fn unpicked(&self) -> Option<&'static str> {
        match self.layouts.0 == OperandLayout::packed(Major::K) {
            _ if !self.problem.picked => Some(NOTHING_PICKED),
            true => None,
            false => Some(UNALIGNED_PICKS),
        }
    }

    /// Whether kernels for sm_90a pick A's rows: in each way that there is, as asked for.
    fn pickings(&self, asked: Option<bool>) -> impl Iterator<Item = bool> {
        let ways = [false, true].into_iter().filter(|picks| !picks || self.unpicked().is_none());
        ways.filter(move |picks| asked.is_none_or(|asked| asked == *picks))
    }

    /// What a kernel for sm_90a has to compute, and the copies before it that let it load the operands; `picks`: whether it
    /// picks A's rows itself.
    fn sm90_workload(&self, way: &Part<'a>, instruction: Wgmma, picks: bool) -> (ranking::Workload<'a>, Repacking) {
        let (problem, accumulators) = (self.problem.shared_alike(), way.tree.cost().products());
        let repacking = Repacking::of(self.machine, &problem, (instruction, picks), self.layouts, accumulators);
        let problem = Problem { picked: picks, ..problem };
        let (a, b) = repacking.layouts(instruction, self.layouts);
        let (problem, fast_fp8) =
            (problem.in_k_tiles(instruction.tile_k(), a.major), self.arithmetic == Arithmetic::FastFp8);
        let (tree, lines) = (way.tree, way.lines);
        let needed = needed_share(tree, &problem);
        (ranking::Workload { problem, instruction, a, b, fast_fp8, tree, lines, needed }, repacking)
    }

    /// Why tensor copies don't load A's patches; `None` if they do.
    fn unboxed(&self) -> Option<Unboxed> {
        let (a, size) = (self.layouts.0, self.phases.tree.types().a.size());
        match self.problem.boxes {
            Ok(_) if self.problem.input_dilated => Some(Unboxed::SPREAD),
            Ok(_) if a.copy_bytes != 16 => Some(Unboxed::UNALIGNED),
            Ok(boxes) => boxes.check(a.major, size, self.problem.batch).err(),
            Err(why) => Some(why),
        }
    }

    /// Why kernels for sm_90a don't read A so, or don't have its groups; `None` if they do.
    fn refused_reading(&self, split_k: Option<SplitK>) -> Option<&'static str> {
        match self.problem.grouping {
            _ if self.problem.patches.is_some() => self.unboxed().map(|why| why.refusal()),
            Grouping::None => None,
            _ if split_k.is_some_and(|split_k| split_k != SplitK::None) => Some(UNSPLIT_GROUPS),
            Grouping::Shared if self.layouts.0.major == Major::Mn => Some(CONTIGUOUS_GROUPS),
            // Others are copied before.
            Grouping::Depth if self.wgmma().is_some_and(|wgmma| wgmma.takes_mn_major() != (true, true)) => {
                Some(NO_GROUPS_OF_K)
            }
            grouping if table_bytes(grouping.divided(), self.problem.batch) > MAX_SHARED_BYTES / 2 => Some(MANY_GROUPS),
            _ => None,
        }
    }

    fn sm90_candidates(&self, way: &Part<'a>, request: &sm90::Request) -> Vec<Candidate> {
        if self.refused_reading(request.split_k).is_some() {
            return Vec::new();
        }
        let Some(instruction) = self.wgmma() else { return Vec::new() };
        // Partials are per tile, and a run with operands in another layout must have the same ones. So only those tiles
        // count that the other family has as well.
        let partial = way.tree.outputs().iter().any(ValidOutput::is_partial);
        let accumulators = way.tree.cost().products();
        let other: &[Tile] = self.mma().map_or(&[], Tile::all);
        let taken = |tile: &&Tile| !self.problem.scaled || tile.takes_scales(accumulators);
        let has_kernel = |key: &sm90::Sm90Key| {
            let same = |tile: &Tile| (tile.m, tile.product_columns(accumulators)) == key.product_tile();
            let shared = other.is_empty() || other.iter().filter(taken).any(same);
            (!partial || shared) && supports(key).is_ok()
        };
        let all = self.ranked_sm90(way, instruction, request, has_kernel).into_iter();
        all.map(|candidate| way.whole(candidate)).collect()
    }

    /// The kernels for sm_90a that satisfy a request, with the copies before them, best first.
    fn ranked_sm90(
        &self,
        way: &Part<'a>,
        instruction: Wgmma,
        request: &sm90::Request,
        supported: impl Fn(&sm90::Sm90Key) -> bool,
    ) -> Vec<Candidate> {
        let mut all = Vec::new();
        for picks in self.pickings(request.picked) {
            let (workload, repacking) = self.sm90_workload(way, instruction, picks);
            let ranked = ranking::candidates(self.machine, &workload, request, &supported);
            all.extend(ranked.into_iter().map(|candidate| candidate.after(repacking)));
        }
        all.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        all
    }

    /// Selects the kernel.
    ///
    /// # Errors
    /// [`Error::NoTile`] if no kernel fits; [`Error::Tile`], [`Error::Count`], [`Error::NoKernel`] for a request that
    /// no kernel can satisfy.
    pub(crate) fn choose(&self, request: &Request, switches: Switches) -> Result<ChosenKernel, Error> {
        let asked = *request != Request::default();
        self.ways(request.finish)?;
        let (mut candidates, mut misfit) = (Vec::new(), None);
        for way in self.ways(None)? {
            let has_clusters = way.within() == Some(Within::Cluster);
            let of_sm80 = self.mma().filter(|_| !has_clusters);
            let ranked = of_sm80.map(|instruction| sm80::rank(self.machine, &self.sm80_workload(&way, instruction)));
            match ranked {
                Some(Ok(ranked)) => candidates.extend(ranked.into_iter().map(|candidate| way.whole(candidate))),
                Some(Err(why)) => misfit = misfit.or_else(|| Some(why.to_string())),
                None => {}
            }
            candidates.extend(self.sm90_candidates(&way, &sm90::Request::default()));
        }
        let chosen = match request {
            Request { exact: Some((key, split_k)), finish, .. } => {
                if finish.is_some_and(|finish| finish != Finish::of(key.within())) {
                    let reason = "it computes later phases elsewhere than `.finish(…)` says: leave one of the two out";
                    return Err(Error::NoKernel { kernel: key.to_string(), reason });
                }
                Some(exactly(key, *split_k, &candidates)?)
            }
            Request { sm80: None, sm90: Some(wanted), .. } => Some(self.asked_sm90(wanted, request)?),
            Request { sm80: None, finish: Some(Finish::Cluster), .. } => {
                Some(self.asked_sm90(&sm90::Request::default(), request)?)
            }
            Request { sm80: None, .. } if asked => {
                let hopper = self.asked_sm90(&sm90::Request::default(), request);
                match (hopper, self.asked_sm80(request, &candidates)) {
                    (Ok(x), Ok(y)) => Some(if x.microseconds <= y.microseconds { x } else { y }),
                    (Ok(one), Err(_)) | (_, Ok(one)) => Some(one),
                    (Err(Error::NoKernel { .. }), Err(error)) => return Err(error),
                    (Err(_), Err(error)) if self.wgmma().is_none() => return Err(error),
                    (Err(error), Err(_)) => return Err(error),
                }
            }
            _ if asked => Some(self.asked_sm80(request, &candidates)?),
            _ => None,
        };
        candidates.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        let best = chosen.or_else(|| candidates.first().cloned());
        let reason = || misfit.unwrap_or_else(|| "the epilogue needs more than any tile leaves".to_owned());
        let mut chosen = best.ok_or_else(|| Error::NoTile { reason: reason() })?;
        for candidate in std::iter::once(&mut chosen).chain(&mut candidates) {
            candidate.key = candidate.key.with(switches);
        }
        let unboxed = self.unboxed().filter(|_| self.problem.patches.is_some() && self.wgmma().is_some());
        let unaligned_picks = self.unpicked() == Some(UNALIGNED_PICKS) && self.wgmma().is_some();
        let (finish, candidates, tuning) = (request.finish, candidates.into(), Tuning::None);
        let needed = needed_share(self.phases.first(), &self.problem.shared_alike());
        Ok(ChosenKernel { chosen, candidates, asked, finish, unboxed, unaligned_picks, needed, tuning })
    }

    /// The kernel for sm_90a that the user described; what was left open is that of the best candidate.
    fn asked_sm90(&self, wanted: &sm90::Request, request: &Request) -> Result<Candidate, Error> {
        let wanted = sm90::Request {
            stages: wanted.stages.or(request.stages),
            split_k: wanted.split_k.or(request.split_k),
            ..*wanted
        };
        check_splits(wanted.split_k.unwrap_or_default())?;
        wanted.check()?;
        if let Some(reason) = self.refused_reading(wanted.split_k) {
            return Err(Error::NoKernel { kernel: wanted.to_string(), reason });
        }
        if let Some(reason) = self.unpicked().filter(|_| wanted.picked == Some(true)) {
            return Err(Error::NoKernel { kernel: wanted.to_string(), reason });
        }
        let accumulators = self.phases.first().cost().products();
        if let Some(tile) = wanted.tile.filter(|tile| sm90::Tile::of(accumulators).all(|known| known != *tile)) {
            let allowed: Vec<String> = sm90::Tile::of(accumulators).map(|tile| tile.to_string()).collect();
            let instruction = self.wgmma().map_or_else(|| "wgmma".to_owned(), |w| w.to_string());
            return Err(Error::Tile { instruction, tile: tile.to_string(), allowed: allowed.join("; ") });
        }
        let none = |reason| Error::NoKernel { kernel: wanted.to_string(), reason };
        let Some(instruction) = self.wgmma() else {
            if self.arithmetic == Arithmetic::FastBf16 {
                return Err(none(
                    "those for sm_90a multiply no f32 as bf16: leave `.sm90(…)` out for a kernel for sm_80, or take \
                     Arithmetic::Tf32",
                ));
            }
            return Err(none("kernels for sm_90a need such a GPU, and 16-bit, 8-bit or TF32 operands"));
        };
        if let (Some(tile), Some(way)) = (wanted.tile, self.ways(request.finish)?.first()) {
            let b = self.sm90_workload(way, instruction, false).0.b.major;
            let swaps = [false, true].into_iter().filter(|s| wanted.swap_ab.is_none_or(|asked| asked == *s));
            if swaps.into_iter().all(|swap_ab| !tile.holds(accumulators, swap_ab, b)) {
                return Err(none(UNSHARED));
            }
        }
        self.best_way(request.finish, |way| self.asked_sm90_way(way, instruction, &wanted))
    }

    /// The same with later phases computed in one way.
    fn asked_sm90_way(&self, way: &Part<'a>, instruction: Wgmma, wanted: &sm90::Request) -> Result<Candidate, Error> {
        let none = |reason| Error::NoKernel { kernel: wanted.to_string(), reason };
        wanted.check_cluster(way.within())?;
        if let Some(reason) = self.beyond_tile(way, wanted) {
            return Err(way.refused(reason));
        }
        let candidates = |request: &sm90::Request| self.ranked_sm90(way, instruction, request, |_| true);
        let mut reason = match way.within() {
            Some(Within::Cluster) => NO_SHARED_TILE,
            Some(Within::Tile) | None => "shared memory has no room for any tile with this epilogue",
        };
        let all = candidates(wanted);
        if all.is_empty() {
            let mut workloads = self.pickings(wanted.picked).map(|picks| self.sm90_workload(way, instruction, picks).0);
            if workloads.all(|workload| ranking::is_not_divided(self.machine, &workload, wanted)) {
                return Err(none(sm90::NOT_DIVIDED));
            }
            let possible = wanted.relaxed().into_iter().find(|(relaxed, _)| !candidates(relaxed).is_empty());
            return Err(none(possible.map_or(reason, |(_, why)| why)));
        }
        for candidate in all {
            let KernelKey::Sm90(key) = &candidate.key else { continue };
            match supports(key) {
                Ok(()) => return Ok(candidate),
                Err(why) => reason = why,
            }
        }
        Err(none(reason))
    }

    /// The kernel for sm_80 and later that the user described; what was left open is that of the best candidate.
    fn asked_sm80(&self, request: &Request, candidates: &[Candidate]) -> Result<Candidate, Error> {
        let Some(instruction) = self.mma() else {
            let kernel = "instructions of sm_80".to_owned();
            return Err(Error::NoKernel { kernel, reason: "none of these multiplies this type" });
        };
        let fits = |c: &&Candidate| request.split_k.is_none_or(|s| s == c.split_k || c.split_k == SplitK::None);
        self.best_way(request.finish, |way| {
            if way.within() == Some(Within::Cluster) {
                return Err(way.refused(NO_CLUSTERS.to_owned()));
            }
            let best = candidates.iter().filter(fits).find_map(|candidate| match &candidate.key {
                KernelKey::Sm80(key) if key.in_tile == way.lines.is_some() => Some(key.tile),
                KernelKey::Sm80(_) | KernelKey::Sm90(_) => None,
            });
            match request.sm80.or(best) {
                Some(tile) => self.asked_sm80_way(way, instruction, request, tile),
                None => Err(self.no_sm80_tile(way, instruction)),
            }
        })
    }

    /// Why no tile of a kernel for sm_80 and later fits.
    fn no_sm80_tile(&self, way: &Part<'a>, instruction: Instruction) -> Error {
        match sm80::rank(self.machine, &self.sm80_workload(way, instruction)) {
            Err(why) => misfit(way, &why),
            Ok(_) => Error::NoTile { reason: "the epilogue needs more than any tile leaves".into() },
        }
    }

    /// A kernel for sm_80 and later on a tile, with later phases computed in one way.
    fn asked_sm80_way(
        &self,
        way: &Part<'a>,
        instruction: Instruction,
        request: &Request,
        mut tile: Tile,
    ) -> Result<Candidate, Error> {
        let known = |t: &Tile| Tile { stages: tile.stages, ..*t } == tile;
        if !Tile::all(instruction).iter().any(known) {
            let allowed: Vec<String> = Tile::all(instruction).iter().map(ToString::to_string).collect();
            let (instruction, tile) = (instruction.to_string(), tile.to_string());
            return Err(Error::Tile { instruction, tile, allowed: allowed.join("; ") });
        }
        tile.stages = request.stages.unwrap_or(tile.stages);
        if !(2..=8).contains(&tile.stages) {
            return Err(Error::Count { what: "the number of stages", given: tile.stages, least: 2, most: 8 });
        }
        let split_k = request.split_k.unwrap_or_default();
        check_splits(split_k)?;
        if self.problem.grouping != Grouping::None && split_k != SplitK::None {
            return Err(Error::NoKernel { kernel: split_k.to_string(), reason: UNSPLIT_GROUPS });
        }
        sm80::estimate(self.machine, &self.sm80_workload(way, instruction), tile, split_k)
            .map_err(|why| misfit(way, &why))
    }
}

/// Why a tile is no tile for this.
fn misfit(way: &Part<'_>, why: &Misfit) -> Error {
    match way.lines {
        Some(_) => way.refused(why.to_string()),
        None => Error::NoTile { reason: why.to_string() },
    }
}

/// The candidate with this key.
fn exactly(key: &KernelKey, split_k: SplitK, candidates: &[Candidate]) -> Result<Candidate, Error> {
    let plain = |key: &KernelKey| key.with(Switches::default());
    let same = |c: &&Candidate| plain(&c.key) == plain(key) && c.split_k == split_k;
    let reason = "it is not a candidate for this product: take one of this builder's own `choose()`";
    candidates.iter().find(same).cloned().ok_or_else(|| Error::NoKernel { kernel: key.to_string(), reason })
}

fn check_splits(split_k: SplitK) -> Result<(), Error> {
    let given = split_k.splits();
    if (1..=MAX_SPLITS).contains(&given) {
        return Ok(());
    }
    Err(Error::Count { what: "the number of splits of K", given, least: 1, most: MAX_SPLITS })
}
