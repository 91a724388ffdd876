//! Selects a kernel of either family: the one that the model ranks best, or the one that was asked for.

use super::candidate::Candidate;
use super::choice::{ChosenKernel, Tuning};
use super::machine::Machine;
use super::repacking::Repacking;
use super::sm80::Workload;
use super::{sm80, sm90 as ranking};
use crate::evt::{ValidOutput, ValidTree};
use crate::gemm::kernel::sm80::{Instruction, Tile};
use crate::gemm::kernel::sm90::Wgmma;
use crate::gemm::kernel::sm90::reach::takes_groups;
use crate::gemm::kernel::sm90::shared::{MAX_SHARED_BYTES, table_bytes};
use crate::gemm::kernel::sm90::supported::{
    CONTIGUOUS_GROUPS, MANY_GROUPS, NO_GROUPS_OF_K, NO_PATCHES, UNSHARED, UNSPLIT_GROUPS, supports,
};
use crate::gemm::kernel::{KernelKey, SplitK, Switches, sm90};
use crate::gemm::problem::{Arithmetic, Error, Grouping, OperandLayout, Problem};
use epilogue_runtime::Arch;

/// The most blocks that may share the K of a tile.
const MAX_SPLITS: usize = 256;

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
}

/// What a kernel is selected for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) tree: &'a ValidTree,
    pub(crate) problem: Problem,
    pub(crate) layouts: (OperandLayout, OperandLayout),
    pub(crate) arithmetic: Arithmetic,
}

impl Selection<'_> {
    fn mma(&self) -> Option<Instruction> {
        let types = self.tree.types();
        Instruction::of(types.a, types.b, self.arithmetic)
    }

    /// Code for sm_90a runs on no other compute capability.
    fn wgmma(&self) -> Option<Wgmma> {
        let types = self.tree.types();
        Wgmma::of(types.a, types.b, self.arithmetic).filter(|_| self.machine.arch == Arch::SM_90A)
    }

    fn sm80_workload(&self, instruction: Instruction) -> Workload<'_> {
        let (a, b) = self.layouts;
        Workload { problem: self.problem.shared_alike(), instruction, a, b, epilogue: self.tree.cost() }
    }

    /// What a kernel for sm_90a has to compute, and the copies before it that let it load the operands.
    fn sm90_workload(&self, instruction: Wgmma) -> (ranking::Workload<'_>, Repacking) {
        let problem = self.problem.shared_alike();
        let repacking = Repacking::of(self.machine, &problem, instruction, self.layouts, self.tree.cost().products());
        let (a, b) = repacking.layouts(instruction, self.layouts);
        let fast_fp8 = self.arithmetic == Arithmetic::FastFp8;
        (ranking::Workload { problem, instruction, a, b, fast_fp8, tree: self.tree }, repacking)
    }

    /// Why kernels for sm_90a don't read A so, or don't have its groups; `None` if they do.
    fn refused_reading(&self, split_k: Option<SplitK>) -> Option<&'static str> {
        match self.problem.grouping {
            _ if self.problem.patches.is_some() => Some(NO_PATCHES),
            Grouping::None => None,
            Grouping::Depth => Some(NO_GROUPS_OF_K),
            Grouping::Shared | Grouping::Padded if split_k.is_some_and(|split_k| split_k != SplitK::None) => {
                Some(UNSPLIT_GROUPS)
            }
            grouping if !takes_groups(grouping, self.layouts.0.major) => Some(CONTIGUOUS_GROUPS),
            _ if table_bytes(self.problem.batch) > MAX_SHARED_BYTES / 2 => Some(MANY_GROUPS),
            _ => None,
        }
    }

    fn sm90_candidates(&self, request: &sm90::Request) -> Vec<Candidate> {
        if self.refused_reading(request.split_k).is_some() {
            return Vec::new();
        }
        let Some(instruction) = self.wgmma() else { return Vec::new() };
        let (workload, repacking) = self.sm90_workload(instruction);
        // Partials are per tile, and a run with operands in another layout must have the same ones. So only those tiles
        // count that the other family has as well.
        let partial = self.tree.outputs().iter().any(ValidOutput::is_partial);
        let accumulators = self.tree.cost().products();
        let other: &[Tile] = self.mma().map_or(&[], Tile::all);
        let all = ranking::candidates(self.machine, &workload, request, |key| {
            let same = |tile: &Tile| (tile.m, tile.product_columns(accumulators)) == key.product_tile();
            let shared = other.is_empty() || other.iter().any(same);
            (!partial || shared) && supports(key).is_ok()
        });
        all.into_iter().map(|candidate| candidate.after(repacking)).collect()
    }

    /// Selects the kernel.
    ///
    /// # Errors
    /// [`Error::NoTile`] if no kernel fits; [`Error::Tile`], [`Error::Count`], [`Error::NoKernel`] for a request that
    /// no kernel can satisfy.
    pub(crate) fn choose(&self, request: &Request, switches: Switches) -> Result<ChosenKernel, Error> {
        let ranked = self.mma().map(|instruction| sm80::rank(self.machine, &self.sm80_workload(instruction)));
        let (mut candidates, misfit) = match ranked {
            Some(Ok(candidates)) => (candidates, None),
            Some(Err(why)) => (Vec::new(), Some(why.to_string())),
            None => (Vec::new(), None),
        };
        let asked = *request != Request::default();
        let on_sm80 = candidates.len();
        candidates.extend(self.sm90_candidates(&sm90::Request::default()));
        let chosen = match request {
            Request { exact: Some((key, split_k)), .. } => Some(exactly(key, *split_k, &candidates)?),
            Request { sm80: None, sm90: Some(wanted), .. } => Some(self.asked_sm90(wanted, request)?),
            Request { sm80: None, .. } if asked => {
                let hopper = self.asked_sm90(&sm90::Request::default(), request);
                match (hopper, self.asked_sm80(request, &candidates[..on_sm80])) {
                    (Ok(x), Ok(y)) => Some(if x.microseconds <= y.microseconds { x } else { y }),
                    (Ok(one), Err(_)) | (_, Ok(one)) => Some(one),
                    (Err(Error::NoKernel { .. }), Err(error)) => return Err(error),
                    (Err(_), Err(error)) if self.wgmma().is_none() => return Err(error),
                    (Err(error), Err(_)) => return Err(error),
                }
            }
            _ if asked => Some(self.asked_sm80(request, &candidates[..on_sm80])?),
            _ => None,
        };
        candidates.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        let best = chosen.or_else(|| candidates.first().cloned());
        let reason = || misfit.unwrap_or_else(|| "the epilogue needs more than any tile leaves".to_owned());
        let mut chosen = best.ok_or_else(|| Error::NoTile { reason: reason() })?;
        for candidate in std::iter::once(&mut chosen).chain(&mut candidates) {
            candidate.key = candidate.key.with(switches);
        }
        Ok(ChosenKernel { chosen, candidates: candidates.into(), asked, tuning: Tuning::None })
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
        let accumulators = self.tree.cost().products();
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
            if let Some(Instruction::MmaMixed(_)) = self.mma() {
                return Err(none(
                    "those for sm_90a convert no B of 8 bits to A's 16: leave `.sm90(…)` out for a kernel for sm_80",
                ));
            }
            return Err(none("kernels for sm_90a need such a GPU, and 16-bit, 8-bit or TF32 operands"));
        };
        let (workload, repacking) = self.sm90_workload(instruction);
        if let Some(tile) = wanted.tile {
            let swaps = [false, true].into_iter().filter(|s| wanted.swap_ab.is_none_or(|asked| asked == *s));
            if swaps.into_iter().all(|swap_ab| !tile.holds(accumulators, swap_ab, workload.b.major)) {
                return Err(none(UNSHARED));
            }
        }
        let candidates = |request: &sm90::Request| ranking::candidates(self.machine, &workload, request, |_| true);
        let mut reason = "shared memory has no room for any tile with this epilogue";
        let all = candidates(&wanted);
        if all.is_empty() {
            let possible = wanted.relaxed().into_iter().find(|(relaxed, _)| !candidates(relaxed).is_empty());
            return Err(none(possible.map_or(reason, |(_, why)| why)));
        }
        for candidate in all {
            let KernelKey::Sm90(key) = &candidate.key else { continue };
            match supports(key) {
                Ok(()) => return Ok(candidate.after(repacking)),
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
        let best = candidates.iter().filter(fits).find_map(|candidate| match &candidate.key {
            KernelKey::Sm80(key) => Some(key.tile),
            KernelKey::Sm90(_) => None,
        });
        let Some(mut tile) = request.sm80.or(best) else {
            return Err(Error::NoTile { reason: "the epilogue needs more than any tile leaves".into() });
        };
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
        sm80::estimate(self.machine, &self.sm80_workload(instruction), tile, split_k)
            .map_err(|why| Error::NoTile { reason: why.to_string() })
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
