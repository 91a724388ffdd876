//! Choices of other libraries, beside the model's, and why they differ: the model's own time of the other library's
//! kernel.
//!
//! cuBLAS and nvMatmulHeuristics are as the table of shapes has them. nvMatmulHeuristics is also CUTLASS's way to choose
//! (CUTLASS documentation, "GEMM Heuristics"). DeepGEMM has no epilogues, so it stands beside plain products only.

use std::error::Error;
use std::fmt::Write;

use epilogue::gemm::sm90::{
    Cluster, Request, Schedule, Sm90Key, Staging, Tile, Workload, candidates, estimate, has_room,
};
use epilogue::gemm::{Arithmetic, Candidate, KernelKey, Machine, Problem, SplitK};

use super::deep_gemm::{self, Pick};
use crate::shapes::{PACKED, Shape};

/// Within this share of the time the model calls two kernels equal: it is not exact enough to tell more.
const TIE: f64 = 0.03;

/// Reads `64x128, clusters of 2x1`: the first pair of numbers is a tile, the second one a cluster.
fn pick(text: &str) -> Option<Pick> {
    let mut pairs = text.split([' ', ',']).filter_map(|word| {
        let (x, y) = word.split_once('x')?;
        Some((x.parse::<usize>().ok()?, y.parse::<usize>().ok()?))
    });
    let tile = pairs.next()?;
    let cluster = pairs.next().map_or(Cluster::NONE, |(m, n)| Cluster { m, n });
    Some(Pick { tile, cluster, stages: None })
}

/// The key of a candidate, and how it shares K.
fn key(candidate: &Candidate) -> Result<(&Sm90Key, SplitK), Box<dyn Error>> {
    let KernelKey::Sm90(key) = &candidate.key else { return Err("a kernel of another family".into()) };
    Ok((key, candidate.split_k))
}

/// The libraries that have a choice for a shape: their names and choices.
fn picks(shape: &Shape) -> Vec<(&'static str, Pick)> {
    let mut all = Vec::new();
    let types = shape.tree.types();
    let has_kernel = shape.types != "e4m3 fast" && types.a == types.b;
    if shape.epilogue == "plain" && has_kernel {
        let pick = deep_gemm::choose(shape.problem, types.a.size());
        all.extend(pick.map(|pick| ("DeepGEMM", pick)));
    }
    let name = if shape.others.starts_with("cuBLAS") { "cuBLAS" } else { "CUTLASS" };
    all.extend(shape.others.split(';').filter_map(|text| Some((name, pick(text)?))));
    all
}

/// The model's word on another library's kernel: of the schedules that the tile could have, the faster one.
fn priced(shape: &Shape, ours: &Sm90Key, pick: &Pick) -> Option<Candidate> {
    let machine = Machine::h200();
    let (rows, columns) = pick.tile;
    // A kernel of fewer rows than an instruction has multiplies some in vain.
    let rows = rows.max(64);
    let schedules =
        [(Schedule::Cooperative, (rows / 64).clamp(1, 2)), (Schedule::Cooperative, 3), (Schedule::PingPong, 2)];
    let workload = Workload {
        problem: shape.problem,
        cores: ours.cores,
        instruction: ours.instruction,
        a: PACKED,
        b: PACKED,
        fast_fp8: shape.arithmetic == Arithmetic::FastFp8,
        tree: &shape.tree,
        lines: None,
        needed: 1.0,
    };
    let of = |(schedule, consumers): (Schedule, usize)| {
        let tile = Tile { rows, columns, schedule, consumers };
        let holds = tile.warpgroup_rows().is_multiple_of(64) && tile.accumulator_registers() <= 192;
        let (swap_ab, cluster) = (Some(false), Some(pick.cluster));
        if !holds {
            return None;
        }
        if Tile::all().contains(&tile) {
            let request =
                Request { tile: Some(tile), swap_ab, cluster, split_k: Some(SplitK::None), ..Request::default() };
            return candidates(&machine, &workload, &request, |_| true).into_iter().next();
        }
        // A tile that is not among ours.
        let step = [64, 32, 16, 8].into_iter().find(|step| columns.is_multiple_of(*step))?;
        let staging = Staging { step, output_stages: 2, input_stages: 2 };
        let stages = pick.stages.unwrap_or((192 * 1024) / (128 * (rows + columns))).clamp(2, 16);
        let split_k = SplitK::None.into();
        let cluster = pick.cluster;
        let key = Sm90Key { tile, swap_ab: false, cluster, stages, staging, split_k, direct: 0, ..*ours };
        Some(estimate(&machine, &workload, &key, SplitK::None))
    };
    schedules.into_iter().filter_map(of).min_by(|x, y| x.microseconds.total_cmp(&y.microseconds))
}

/// How many times longer the grid of whole waves is than the work: 1 if the last wave is full.
fn rounding(candidate: &Candidate) -> f64 {
    candidate.waves.ceil() / candidate.waves.max(f64::MIN_POSITIVE)
}

/// Why the model chooses ours, or that it hardly matters.
fn reason(ours: &Candidate, theirs: &Candidate, problem: &Problem) -> Result<String, Box<dyn Error>> {
    let ((own, split_k), (other, _)) = (key(ours)?, key(theirs)?);
    let slower = theirs.microseconds / ours.microseconds - 1.0;
    let alike = own.product_tile() == other.product_tile() && split_k == SplitK::None;
    if alike && own.cluster == other.cluster {
        return Ok("the same".into());
    }
    let percent = format!("{:+.1} % by the model", 100.0 * slower);
    if slower.abs() <= TIE {
        return Ok(format!("{percent}: a tie"));
    }
    if slower < 0.0 {
        let why = if !has_room(theirs) {
            "no candidate, because its consumers lack registers for FP8's second sums"
        } else if problem.m < 64 && !other.swap_ab {
            "no candidate, because fewer than 64 rows are taken by kernels whose rows are N"
        } else {
            "no candidate of ours"
        };
        return Ok(format!("{percent}: {why}"));
    }
    let why = if alike {
        "the same tile; the model has another cluster before it".to_owned()
    } else if split_k != SplitK::None && theirs.waves < 1.0 {
        format!("its tiles fill {:.0} % of a wave, ours share K ({split_k})", 100.0 * theirs.waves)
    } else if own.swap_ab && problem.m < 64 {
        format!("ours has N along the instruction's 64 rows, so {} rows of M are few columns", problem.m)
    } else if rounding(theirs) > rounding(ours) * (1.0 + TIE) {
        format!("{:.2} waves, of which the last is partly empty; ours {:.2}", theirs.waves, ours.waves)
    } else if theirs.bound == ours.bound {
        format!("both are bound by {}; ours moves fewer bytes or hides more of its epilogue", ours.bound)
    } else {
        format!("bound by {}, ours by {}", theirs.bound, ours.bound)
    };
    Ok(format!("{percent}: {why}"))
}

/// The comparison as text.
pub(super) fn table() -> Result<String, Box<dyn Error>> {
    let mut text = String::from(
        "# The model's choices for an H200 beside other libraries' (rows and columns of a tile, blocks of a cluster), with\n\
         # the model's word on the other's kernel. CUTLASS chooses by nvMatmulHeuristics; DeepGEMM by the bytes through\n\
         # the L2 and shared memory, without latencies, epilogues and split-K; cuBLAS as its profiles show. What the\n\
         # model calls a tie is within 3 %.\n",
    );
    let (mut same, mut ties, mut slower, mut faster) = (0, 0, 0, 0);
    for shape in Shape::all()? {
        let ranked = shape.ranked(super::SM_90)?;
        let ours = &ranked[0];
        let (key, split_k) = key(ours)?;
        let of = |(m, n): (usize, usize), cluster: Cluster| format!("{m}x{n} in {}x{}", cluster.m, cluster.n);
        let mut lines = String::new();
        for (name, pick) in picks(&shape) {
            let theirs = of(pick.tile, pick.cluster);
            match priced(&shape, key, &pick) {
                Some(candidate) => {
                    let reason = reason(ours, &candidate, &shape.problem)?;
                    match &reason {
                        text if text == "the same" => same += 1,
                        text if text.ends_with("a tie") => ties += 1,
                        text if text.starts_with('-') => faster += 1,
                        _ => slower += 1,
                    }
                    writeln!(lines, "  {name} {theirs}: {reason}")?;
                }
                None => writeln!(lines, "  {name} {theirs}: a tile that our kernels can't have")?,
            }
        }
        if !lines.is_empty() {
            let split = if split_k == SplitK::None { String::new() } else { format!(", {split_k}") };
            let kind = if key.tile.schedule == Schedule::PingPong { " ping-pong" } else { "" };
            let ours = of(key.product_tile(), key.cluster);
            writeln!(text, "{}: {ours}{kind}{split}\n{}", shape.name(), lines.trim_end())?;
        }
    }
    writeln!(text, "In all {same} are the same, {ties} ties, {slower} slower and {faster} faster by the model.")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_others_are_read() {
        let read = |text| pick(text).map(|pick| (pick.tile, (pick.cluster.m, pick.cluster.n)));
        assert_eq!(read("nvMatmulHeuristics 64x128, clusters of 2x1"), Some(((64, 128), (2, 1))));
        assert_eq!(read("64x32 of 128 of K, 8 stages, clusters of 1x2"), Some(((64, 32), (1, 2))));
        assert_eq!(read(" or 256x128, 1x2"), Some(((256, 128), (1, 2))));
        assert_eq!(read("nvMatmulHeuristics 64x64"), Some(((64, 64), (1, 1))));
        assert_eq!(read("nvMatmulHeuristics split-K of 10"), None);
    }
}
