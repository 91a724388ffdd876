//! The kernels of this family for a product, and the one that a user describes.

use super::Workload;
use crate::evt::WholeLines;
use crate::gemm::families::KernelKey;
use crate::gemm::families::sm90::kernel::shared::{MAX_SHARED_BYTES, table_bytes};
use crate::gemm::families::sm90::kernel::supported::{
    CONTIGUOUS_GROUPS, MANY_GROUPS, NO_GROUPS_OF_K, NOTHING_PICKED, PICKED_BY_THREADS, SHARED_ROWS, UNALIGNED_PICKS,
    UNSHARED, supports,
};
use crate::gemm::families::sm90::kernel::{Cluster, NOT_DIVIDED, Request, Sm90Key, TensorCores, Wgmma};
use crate::gemm::kernel::split_k::UNSPLIT_GROUPS;
use crate::gemm::kernel::{SplitK, Within};
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::misfit::Misfit;
use crate::gemm::model::needed::needed_share;
use crate::gemm::model::repacking::Repacking;
use crate::gemm::model::selection::{self, LaunchedPart, Selection, check_splits};
use crate::gemm::problem::{Arithmetic, Error, Grouping, Major, OperandLayout, Problem, Unboxed};

/// The columns of the widest tiles, and the fewest of an accumulator.
const MOST_COLUMNS: usize = 256;
const FEWEST_COLUMNS: usize = 8;

/// Why no tile is one of a cluster that holds lines, where none was asked for.
const NO_SHARED_TILE: &str = "shared memory has no room for any tile with this epilogue that divides among a cluster's blocks along its \
     lines: ask for `Finish::SecondLaunch`, or give operands that are contiguous along K, whose tiles divide among more \
     blocks";

impl<'a> Selection<'a> {
    /// Why lines don't lie in a tile of a kernel for sm_90a as was asked for, or in the tiles of a cluster; `None` if they do.
    pub(crate) fn beyond_tile(&self, way: &LaunchedPart<'_>, wanted: &Request) -> Option<String> {
        let (lines, within) = way.lines?;
        // Lines are along MMA columns: columns are those of swapped kernels, whose accumulators share rows.
        let sharers = if lines.columns { 1 } else { way.tree.cost().products() };
        let of_tile = wanted.tile.map(|tile| tile.columns / sharers);
        let (most, least) = (of_tile.unwrap_or(MOST_COLUMNS / sharers), of_tile.unwrap_or(FEWEST_COLUMNS));
        let (extent, of_lines, longer, along): (_, _, _, fn(Cluster) -> usize) = match lines {
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
                let blocks = asked.map_or(Cluster::MOST_OF_LINES, |(_, along)| along);
                (extent > most * blocks).then(|| format!("{longer}, and than {blocks} of these"))
            }
        }
    }

    /// Code for sm_90a runs on no other compute capability.
    fn instruction(&self, cores: TensorCores) -> Option<Wgmma> {
        let (a, b) = self.types();
        Wgmma::of(a, b, self.arithmetic).filter(|of| cores.has(self.machine.arch, *of))
    }

    /// Why kernels for sm_90a don't pick A's rows themselves; `None` if they do.
    pub(crate) fn unpicked(&self, cores: TensorCores) -> Option<&'static str> {
        match self.layouts.0 == OperandLayout::packed(Major::K) {
            _ if !self.problem.reading.is_picked() => Some(NOTHING_PICKED),
            _ if !cores.take_picked_rows() => Some(PICKED_BY_THREADS),
            true => None,
            false => Some(UNALIGNED_PICKS),
        }
    }

    /// Whether kernels for sm_90a pick A's rows: in each way that there is, as asked for.
    fn pickings(&self, cores: TensorCores, asked: Option<bool>) -> impl Iterator<Item = bool> {
        let ways = [false, true].into_iter().filter(move |picks| !picks || self.unpicked(cores).is_none());
        ways.filter(move |picks| asked.is_none_or(|asked| asked == *picks))
    }

    /// The workload of a kernel for sm_90a, and the copies before it that let it load the operands; `picks`: whether it
    /// picks A's rows itself.
    fn sm90_workload(
        &self,
        way: &LaunchedPart<'a>,
        (cores, instruction): (TensorCores, Wgmma),
        picks: bool,
    ) -> (Workload<'a>, Repacking) {
        let (problem, accumulators) = (self.problem.shared_alike(), way.tree.cost().products());
        let repacking =
            Repacking::of(self.machine, &problem, (instruction.multiplied(), picks), self.layouts, accumulators);
        let reading = if picks { problem.reading } else { problem.reading.in_order() };
        let problem = Problem { reading, ..problem };
        let (a, b) = repacking.layouts(instruction.takes_mn_major(), self.layouts);
        let (problem, fast_fp8) =
            (problem.in_k_tiles(instruction.tile_k(), a.major), self.arithmetic == Arithmetic::FastFp8);
        let (tree, lines) = (way.tree, way.lines);
        let needed = needed_share(tree, &problem);
        (Workload { problem, cores, instruction, a, b, fast_fp8, tree, lines, needed }, repacking)
    }

    /// Why tensor copies don't load A's patches; `None` if they do, or if A is no patches.
    pub(crate) fn unboxed(&self) -> Option<Unboxed> {
        let (a, size) = (self.layouts.0, self.phases.tree.types().a.size());
        let patches = self.problem.reading.patches()?;
        match patches.boxes {
            Ok(_) if patches.dilated => Some(Unboxed::SPREAD),
            Ok(_) if a.copy_bytes != 16 => Some(Unboxed::UNALIGNED),
            Ok(boxes) => boxes.check(a.major, size, self.problem.batch).err(),
            Err(why) => Some(why),
        }
    }

    /// Why kernels for sm_90a don't read A so, or don't have its groups; `None` if they do.
    fn refused_reading(&self, cores: TensorCores, split_k: Option<SplitK>) -> Option<&'static str> {
        let Some(grouping) = self.problem.reading.grouping() else {
            return self.unboxed().map(|why| why.refusal());
        };
        match grouping {
            _ if split_k.is_some_and(|split_k| split_k != SplitK::None) => Some(UNSPLIT_GROUPS),
            Grouping::Shared if self.layouts.0.major == Major::Mn => Some(CONTIGUOUS_GROUPS),
            // Others are copied before.
            Grouping::Depth if self.instruction(cores).is_some_and(|wgmma| wgmma.takes_mn_major() != (true, true)) => {
                Some(NO_GROUPS_OF_K)
            }
            _ if table_bytes(Some(grouping.divided()), self.problem.batch) > MAX_SHARED_BYTES / 2 => Some(MANY_GROUPS),
            _ => None,
        }
    }

    /// Its kernels on tiles that `counts` accepts, with the copies before them, best first.
    pub(crate) fn sm90_candidates(
        &self,
        cores: TensorCores,
        way: &LaunchedPart<'a>,
        counts: &dyn Fn((usize, usize)) -> bool,
    ) -> Vec<Candidate> {
        if self.refused_reading(cores, None).is_some() {
            return Vec::new();
        }
        let Some(instruction) = self.instruction(cores) else { return Vec::new() };
        let has_kernel = |key: &Sm90Key| counts(key.product_tile()) && supports(key).is_ok();
        self.ranked_sm90(way, (cores, instruction), &Request::default(), has_kernel)
    }

    /// The kernels for sm_90a that satisfy a request, with the copies before them, best first.
    fn ranked_sm90(
        &self,
        way: &LaunchedPart<'a>,
        of: (TensorCores, Wgmma),
        request: &Request,
        supported: impl Fn(&Sm90Key) -> bool,
    ) -> Vec<Candidate> {
        let mut all = Vec::new();
        for picks in self.pickings(of.0, request.picked) {
            let (workload, repacking) = self.sm90_workload(way, of, picks);
            let ranked = super::candidates(self.machine, &workload, request, &supported);
            all.extend(ranked.into_iter().map(|candidate| candidate.after(repacking)));
        }
        all.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        all
    }

    /// The kernel for sm_90a that the user described; what was left open is that of the best candidate.
    pub(crate) fn asked_sm90(
        &self,
        cores: TensorCores,
        request: &selection::Request,
        wanted: Request,
    ) -> Result<Candidate, Error> {
        let wanted =
            Request { stages: wanted.stages.or(request.stages), split_k: wanted.split_k.or(request.split_k), ..wanted };
        check_splits(wanted.split_k.unwrap_or_default())?;
        wanted.check()?;
        if let Some(reason) = self.refused_reading(cores, wanted.split_k) {
            return Err(Error::NoKernel { kernel: wanted.to_string(), reason });
        }
        if let Some(reason) = self.unpicked(cores).filter(|_| wanted.picked == Some(true)) {
            return Err(Error::NoKernel { kernel: wanted.to_string(), reason });
        }
        let accumulators = self.phases.first().cost().products();
        if let Some(tile) = wanted.tile.filter(|tile| cores.tiles(accumulators).all(|known| known != *tile)) {
            let allowed: Vec<String> = cores.tiles(accumulators).map(|tile| tile.to_string()).collect();
            let instruction = self.instruction(cores).map_or_else(String::new, |of| format!(" {of}"));
            let instruction = format!("{}{instruction}", cores.name());
            return Err(Error::Tile { instruction, tile: tile.to_string(), allowed: allowed.join("; ") });
        }
        let none = |reason| Error::NoKernel { kernel: wanted.to_string(), reason };
        let Some(instruction) = self.instruction(cores) else {
            if self.arithmetic == Arithmetic::FastBf16 {
                return Err(none(
                    "those that load by TMA multiply no f32 as bf16: leave the request for one out for a kernel for sm_80, or take \
                     Arithmetic::Tf32",
                ));
            }
            return Err(none(cores.unavailable()));
        };
        if accumulators > 1 && wanted.swap_ab == Some(true) && !cores.share_rows() {
            return Err(none(SHARED_ROWS));
        }
        if let (Some(tile), Some(way)) = (wanted.tile, self.ways(request.finish)?.first()) {
            let b = self.sm90_workload(way, (cores, instruction), false).0.b.major;
            let swaps = [false, true].into_iter().filter(|s| wanted.swap_ab.is_none_or(|asked| asked == *s));
            if swaps.into_iter().all(|swap_ab| !tile.holds(accumulators, swap_ab, b)) {
                return Err(none(UNSHARED));
            }
        }
        self.best_way(request.finish, |way| self.asked_sm90_way(way, (cores, instruction), &wanted))
    }

    /// That kernel with later phases computed in one way.
    fn asked_sm90_way(
        &self,
        way: &LaunchedPart<'a>,
        of: (TensorCores, Wgmma),
        wanted: &Request,
    ) -> Result<Candidate, Error> {
        let none = |reason| Error::NoKernel { kernel: wanted.to_string(), reason };
        wanted.check_cluster(way.within())?;
        if let Some(reason) = self.beyond_tile(way, wanted) {
            return Err(way.refused(reason));
        }
        let candidates = |request: &Request| self.ranked_sm90(way, of, request, |_| true);
        let mut reason = match way.within() {
            Some(Within::Cluster) => NO_SHARED_TILE,
            Some(Within::Tile) | None => "shared memory has no room for any tile with this epilogue",
        };
        let all = candidates(wanted);
        if all.is_empty() {
            let mut workloads = self.pickings(of.0, wanted.picked).map(|picks| self.sm90_workload(way, of, picks).0);
            if workloads.all(|workload| super::is_not_divided(self.machine, &workload, wanted)) {
                return Err(none(NOT_DIVIDED));
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
}
