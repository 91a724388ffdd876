//! One plan run many times, by itself and in graphs: the workspace's counters are left as they were found, and the bits
//! never change.

use epilogue::ElementType;
use epilogue::gemm::SplitK;
use serde_json::{Value, json};

use super::captured::Captured;
use super::shapes::Shape;
use super::workload::Workload;
use super::{builder, epilogues};
use crate::Outcome;
use crate::machine::Machine;
use crate::options::On;
use crate::step::Step;

/// Products with few tiles and a long K, and with many tiles, each odd.
const SHAPES: [[usize; 3]; 3] = [[130, 264, 4104], [1000, 1016, 520], [16, 520, 2056]];
const SPLITS: [(&str, SplitK); 6] = [
    ("none", SplitK::None),
    ("serial-3", SplitK::Serial(3)),
    ("parallel-3", SplitK::Parallel(3)),
    ("stream", SplitK::Stream),
    ("serial-8", SplitK::Serial(8)),
    ("parallel-8", SplitK::Parallel(8)),
];
const RUNS: usize = 200;
/// The number of cases; each is run many times.
#[cfg(test)]
pub(crate) const CASES: usize = SHAPES.len() * SPLITS.len();

pub(crate) fn steps(on: On) -> Vec<Step> {
    let splits = match on {
        On::Cuda => &SPLITS[..],
        On::Emulated => &SPLITS[1..4],
        On::Cpu => &SPLITS[..1],
    };
    let step = |&(name, split_k): &(&str, SplitK)| {
        Step::new(format!("correctness/relaunch/{name}"), 1, 12, move |machine: &Machine| relaunch(machine, split_k))
    };
    splits.iter().map(step).collect()
}

/// With an epilogue that reduces rows, so that tiles wait for each other not only for split-K.
fn relaunch(machine: &Machine, split_k: SplitK) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let named = epilogues::of(ElementType::BF16).into_iter().find(|named| named.name == "bias_gelu_residual_sums");
    let named = named.ok_or("no epilogue with row sums")?;
    let (mut right, mut records) = (0, Vec::new());
    let rehearsal = [[40, 72, 320]];
    let (shapes, runs) = if machine.is_rehearsal() { (&rehearsal[..], 3) } else { (&SHAPES[..], RUNS) };
    for mnk in shapes {
        let shape = Shape::new(*mnk, ElementType::BF16, false);
        let gemm = builder(device, (named.tree)(), &shape).split_k(split_k).plan()?;
        let mut workload = Workload::new(device, &(named.tree)(), &shape, 1)?;
        let first = workload.outputs_of_a_run(&gemm)?;
        if let Some(wrong) = workload.first_wrong(&gemm, shape.arithmetic())? {
            records.push(json!({"kind": "wrong", "family": "relaunch", "what": wrong}));
            continue;
        }
        let graphs = Captured::all(device, |stream| workload.run_on(stream, &gemm, 0))?;
        let mut other = None;
        for run in 1..runs {
            // A run, a launch of each graph, a run, …
            let (outputs, how) = match (run % (graphs.len() + 1)).checked_sub(1).and_then(|i| graphs.get(i)) {
                None => (workload.outputs_of_a_run(&gemm)?, "run"),
                Some(graph) => (workload.outputs_of(|| graph.launch())?, graph.name()),
            };
            if outputs != first {
                other = Some((run, how));
                break;
            }
        }
        match other {
            None => right += 1,
            Some((run, how)) => {
                let (name, choice) = (shape.name(), gemm.choice());
                let what = format!("{how} {run} of {name}, {split_k}, differs from the first run: {choice}");
                records.push(json!({"kind": "wrong", "family": "relaunch", "what": what}));
            }
        }
    }
    records.push(json!({"kind": "correct", "family": "relaunch", "cases": right, "runs": runs}));
    Ok(records)
}
