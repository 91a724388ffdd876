//! The kernel of this family that a user describes.

use smallvec::SmallVec;

use super::{Workload, estimate, rank};
use crate::gemm::families::KernelKey;
use crate::gemm::families::sm80::kernel::{Instruction, Tile};
use crate::gemm::kernel::split_k::UNSPLIT_GROUPS;
use crate::gemm::kernel::{SplitK, Within};
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::misfit::Misfit;
use crate::gemm::model::needed::needed_share;
use crate::gemm::model::selection::{LaunchedPart, NO_CLUSTERS, Request, Selection, check_splits};
use crate::gemm::problem::Error;

impl<'a> Selection<'a> {
    /// The instructions that may multiply, the fastest first.
    pub(crate) fn mma(&self) -> SmallVec<[Instruction; 2]> {
        let (a, b) = self.types();
        Instruction::on(self.machine.arch, a, b, self.arithmetic)
    }

    /// The workload of a kernel for sm_80 and later.
    pub(crate) fn sm80_workload(&self, way: &LaunchedPart<'a>, instruction: Instruction) -> Workload<'a> {
        let (a, b) = self.layouts;
        let (problem, lines) = (self.problem.shared_alike(), way.lines.map(|(lines, _)| lines));
        let needed = needed_share(way.tree, &problem);
        Workload { problem, instruction, a, b, epilogue: way.tree.cost(), lines, needed }
    }

    /// The kernel for sm_80 and later that the user described; what was left open is that of the best candidate.
    pub(crate) fn asked_sm80(&self, request: &Request, candidates: &[Candidate]) -> Result<Candidate, Error> {
        let instructions = self.mma();
        let Some(&first) = instructions.first() else {
            let kernel = "instructions of sm_80".to_owned();
            return Err(Error::NoKernel { kernel, reason: "none of these multiplies this type" });
        };
        let fits = |c: &&Candidate| request.split_k.is_none_or(|s| s == c.split_k || c.split_k == SplitK::None);
        self.best_way(request.finish, |way| {
            if way.within() == Some(Within::Cluster) {
                return Err(way.refused(NO_CLUSTERS.to_owned()));
            }
            let best = candidates.iter().filter(fits).find_map(|candidate| match &candidate.key {
                KernelKey::Sm80(key) if key.in_tile == way.lines.is_some() => Some((key.instruction, key.tile)),
                _ => None,
            });
            // The fastest instruction that has the tile.
            let pinned = request.pins.tile.map(|tile| {
                let having = instructions.iter().find(|instruction| has_tile(**instruction, tile));
                (having.copied().unwrap_or(first), tile)
            });
            match pinned.or(best) {
                Some((instruction, tile)) => self.asked_sm80_way(way, instruction, request, tile),
                None => Err(self.no_sm80_tile(way, instructions.last().copied().unwrap_or(first))),
            }
        })
    }

    /// Why no tile of a kernel for sm_80 and later fits.
    fn no_sm80_tile(&self, way: &LaunchedPart<'a>, instruction: Instruction) -> Error {
        match rank(self.machine, &self.sm80_workload(way, instruction)) {
            Err(why) => misfit(way, &why),
            Ok(_) => Error::NoTile { reason: "the epilogue needs more than any tile leaves".into() },
        }
    }

    /// A kernel for sm_80 and later on a tile, with later phases computed in one way.
    fn asked_sm80_way(
        &self,
        way: &LaunchedPart<'a>,
        instruction: Instruction,
        request: &Request,
        mut tile: Tile,
    ) -> Result<Candidate, Error> {
        if !has_tile(instruction, tile) {
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
        if self.problem.reading.grouping().is_some() && split_k != SplitK::None {
            return Err(Error::NoKernel { kernel: split_k.to_string(), reason: UNSPLIT_GROUPS });
        }
        estimate(self.machine, &self.sm80_workload(way, instruction), tile, split_k).map_err(|why| misfit(way, &why))
    }
}

/// Whether an instruction's kernels have a tile, with any number of stages.
fn has_tile(instruction: Instruction, tile: Tile) -> bool {
    Tile::all(instruction).iter().any(|known| Tile { stages: tile.stages, ..*known } == tile)
}

/// Why a tile is no tile for this.
fn misfit(way: &LaunchedPart<'_>, why: &Misfit) -> Error {
    match way.lines {
        Some(_) => way.refused(why.to_string()),
        None => Error::NoTile { reason: why.to_string() },
    }
}
