//! The instructions that an epilogue takes per element, compared with a limit.
//!
//! The largest cooperative tile of 128x256 has 128 accumulators per thread, and its epilogue is unrolled. So the cost
//! of an element is the number of instructions beyond those of the kernel without an epilogue, divided by 128.

use std::fmt::Display;

use epilogue::evt::{BroadcastClass, Tree, TreeBuilder, Types};
use epilogue::expr::Function;
use epilogue::gemm::sm90::{Cluster, Request, Schedule, TensorCores, Tile, Wgmma, Workload, candidates};
use epilogue::gemm::{Major, OperandLayout, Problem, SplitK, source};
use epilogue::ops;
use epilogue_runtime::Output;

use super::machine;
use crate::epilogues::{bias_gelu_residual, cross_entropy, plain, random};
use crate::families::Measured;
use crate::gate::Gate;
use crate::sass::Sass;

/// An epilogue's name, and the most instructions per element with outputs of bf16 and of f16.
const LIMITS: [(&str, [f64; 2]); 20] = [
    ("gelu", [14.2, 14.2]),
    ("gelu_grad", [21.2, 21.2]),
    ("gelu_tanh", [9.2, 9.2]),
    ("gelu_tanh_grad", [14.4, 14.4]),
    ("sigmoid", [5.2, 5.2]),
    ("sigmoid_grad", [15.2, 15.2]),
    ("silu", [7.2, 7.2]),
    ("silu_grad", [18.2, 18.2]),
    ("tanh", [1.2, 9.2]),
    ("tanh_grad", [7.2, 7.2]),
    ("exp", [3.2, 3.2]),
    ("log", [6.2, 6.2]),
    ("log1p", [7.2, 7.2]),
    ("softplus", [12.2, 12.2]),
    ("softplus_grad", [5.2, 5.2]),
    ("erf", [12.2, 12.2]),
    ("erf_grad", [5.2, 5.2]),
    ("bias_gelu_residual", [22.9, 22.9]),
    ("random", [22.0, 22.0]),
    ("cross_entropy", [31.5, 31.5]),
];

fn function(name: &str) -> Option<&'static Function> {
    let all = [
        ops::gelu::function(),
        ops::gelu_grad::function(),
        ops::gelu_tanh::function(),
        ops::gelu_tanh_grad::function(),
        ops::sigmoid::function(),
        ops::sigmoid_grad::function(),
        ops::silu::function(),
        ops::silu_grad::function(),
        ops::tanh::function(),
        ops::tanh_grad::function(),
        ops::exp::function(),
        ops::log::function(),
        ops::log1p::function(),
        ops::softplus::function(),
        ops::softplus_grad::function(),
        ops::erf::function(),
        ops::erf_grad::function(),
    ];
    all.into_iter().find(|function| function.name() == name)
}

fn tree(name: &str) -> Tree {
    let Some(function) = function(name) else {
        return match name {
            "random" => random(),
            "cross_entropy" => cross_entropy(),
            _ => bias_gelu_residual(),
        };
    };
    let mut b = TreeBuilder::new("element", "element.rs");
    let accum = b.accum("accum");
    let d = b.call(function, &[accum]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.finish()
}

/// Instructions of the kernel for a tree.
fn instructions((cores, instruction): (TensorCores, Wgmma), gate: &Gate, tree: &Tree) -> Result<usize, String> {
    let text = |error: &dyn Display| format!("{}: {error}", tree.name());
    let (a, b) = instruction.elements();
    let valid = tree.validate(Types::new(a, b)).map_err(|e| text(&e))?;
    let is_meant = |t: &&Tile| (t.rows, t.columns, t.schedule) == (128, 256, Schedule::Cooperative);
    let request = Request {
        tile: Tile::all().iter().find(is_meant).copied(),
        swap_ab: Some(false),
        cluster: Some(Cluster { m: 2, n: 1 }),
        split_k: Some(SplitK::None),
        ..Request::default()
    };
    let packed = OperandLayout::packed(Major::K);
    let problem = Problem::new(4096, 4096, 4096);
    let workload = Workload {
        problem,
        cores,
        instruction,
        a: packed,
        b: packed,
        fast_fp8: false,
        tree: &valid,
        lines: None,
        needed: 1.0,
    };
    let candidates = candidates(&machine(cores), &workload, &request, |_| true);
    let best = candidates.first().ok_or_else(|| text(&"there is no such kernel"))?;
    let source = source(&valid, &best.key).map_err(|e| text(&e))?;
    let compiled = gate.compiler.compile(&source, cores.arch(), Output::Cubin).map_err(|e| text(&e))?;
    let nvdisasm = gate.nvdisasm.as_deref().ok_or("without nvdisasm nothing is counted")?;
    // A heavy epilogue's code is gone through several times.
    let rounds = source.code.split_once("EPILOGUE_ROUNDS = ").and_then(|(_, rest)| {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[..end].parse().ok()
    });
    let rounds = rounds.ok_or_else(|| text(&"its text doesn't say how often it goes through the epilogue's code"))?;
    Ok(Sass::of(nvdisasm, &compiled.cubin)?.executed(rounds))
}

/// Counts the instructions of all of them; an empty list if there is no nvdisasm.
pub(super) fn measure(cores: TensorCores, gate: &Gate) -> Result<Vec<Measured>, String> {
    if gate.nvdisasm.is_none() {
        return Ok(Vec::new());
    }
    // ptxas writes some functions otherwise for sm_100a.
    let slack = if cores == TensorCores::Tcgen05 { 0.3 } else { 0.0 };
    let mut all = Vec::new();
    for (i, instruction) in [Wgmma::Bf16, Wgmma::F16].into_iter().enumerate() {
        let bare = instructions((cores, instruction), gate, &plain())?;
        for (name, limits) in LIMITS {
            let with = instructions((cores, instruction), gate, &tree(name))?;
            let per_element = with.saturating_sub(bare) as f64 / 128.0;
            all.push(Measured { name, instruction: instruction.to_string(), per_element, limit: limits[i] + slack });
        }
    }
    Ok(all)
}
