//! Tensor expressions: hand-written schedules compared with the interpreter; automatic reductions, normalisations and
//! scans on new random shapes compared with f64; and their speed in bytes per second.

mod operations;
mod schedules;

use epilogue::ElementType;
use serde_json::{Value, json};

use self::operations::{Operation, Set};
use crate::Outcome;
use crate::machine::Machine;
use crate::step::Step;
use crate::timing::{Contender, Timer};

pub(crate) fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for operation in Operation::ALL {
        let name = format!("correctness/te/{}", operation.name());
        steps.push(Step::new(name, 1, 10, move |machine| {
            let (cases, largest) = if machine.is_rehearsal() { (1, 60) } else { AMOUNT };
            Ok(random(machine, operation, fastrand::u64(..), cases, largest))
        }));
    }
    steps.push(Step::new("correctness/te/schedules", 1, 10, |machine| schedules::random(machine, fastrand::u64(..))));
    for &(operation, element, shape) in SPEEDS {
        let name = format!("speed/te/{}/{element}/{shape:?}", operation.name());
        steps.push(Step::timed(name, 2, 8, move |machine| speed(machine, operation, element, shape)));
    }
    steps.push(Step::new("peers/cub/compile", 2, 60, crate::peers::compile_cub).preparing("peers/cub").without_nvrtc());
    steps.push(Step::timed("peers/cub", 2, 20, crate::peers::cub).without_nvrtc());
    steps.push(
        Step::timed("peers/torch/te", 2, 90, |machine| crate::peers::python(machine, "torch_te.py", &[]))
            .without_nvrtc(),
    );
    steps
}

use Operation::{ColumnSums, ColumnsInclusiveSums, InclusiveSum, LayerNorm, Recurrence, RowSums, Softmax, Sum};

/// Shapes are in memory order: the last axis is contiguous.
const SPEEDS: &[(Operation, ElementType, &[usize])] = &[
    (Sum, ElementType::F32, &[1 << 28]),
    (Sum, ElementType::F32, &[1 << 24]),
    (Sum, ElementType::F32, &[1 << 20]),
    (Sum, ElementType::F16, &[1 << 28]),
    (Sum, ElementType::F16, &[1 << 24]),
    (RowSums, ElementType::F32, &[8192, 8192]),
    (RowSums, ElementType::F16, &[8192, 8192]),
    (ColumnSums, ElementType::F32, &[8192, 8192]),
    (ColumnSums, ElementType::F16, &[8192, 8192]),
    (RowSums, ElementType::F32, &[1 << 22, 16]),
    (ColumnSums, ElementType::F32, &[1 << 22, 16]),
    (Softmax, ElementType::BF16, &[8192, 8192]),
    (LayerNorm, ElementType::BF16, &[8192, 8192]),
    (InclusiveSum, ElementType::F32, &[1 << 28]),
    (InclusiveSum, ElementType::F16, &[1 << 28]),
    (InclusiveSum, ElementType::F32, &[1 << 24]),
    (InclusiveSum, ElementType::F16, &[1 << 24]),
    (ColumnsInclusiveSums, ElementType::F32, &[1 << 20, 2]),
    (Recurrence, ElementType::F32, &[4096, 8192]),
    (Recurrence, ElementType::F32, &[1, 1 << 24]),
];

/// The number of lines and their length.
fn extents(operation: Operation, shape: &[usize]) -> [usize; 2] {
    match (operation, shape) {
        (_, [length]) => [1, *length],
        (ColumnSums | ColumnsInclusiveSums, [length, lines]) => [*lines, *length],
        (_, [lines, length]) => [*lines, *length],
        _ => [0, 0],
    }
}

const ELEMENTS: [ElementType; 3] = [ElementType::F32, ElementType::F16, ElementType::BF16];

/// The number of cases of every type, and the largest extent.
const AMOUNT: (usize, usize) = (2, 3000);

/// Random shapes for one operation, with every type with which it is timed.
fn random(machine: &Machine, operation: Operation, seed: u64, cases: usize, largest: usize) -> Vec<Value> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut right, mut records) = (0, Vec::new());
    for element in ELEMENTS {
        for _ in 0..cases {
            let lines = if operation.is_of_one_line() { 1 } else { random.usize(1..largest) };
            let length = random.usize(1..if operation.is_of_one_line() { largest * largest / 4 } else { largest });
            let wrong = || -> Outcome<Option<String>> {
                let kernel = operation.kernel(&machine.device, element)?;
                let mut set = Set::new(operation, &machine.device, element, [lines, length], seed as u32)?;
                set.run(&kernel)?;
                let checked = if lines > 200 { vec![0, lines / 2, lines - 1] } else { (0..lines).collect() };
                let wrong = set.first_wrong(checked)?;
                Ok(wrong.map(|wrong| format!("{element}, {lines} lines of {length}: {wrong} ({})", kernel.choice())))
            };
            match wrong() {
                Ok(None) => right += 1,
                Ok(Some(what)) => records.push(wrong_record(operation, seed, &what)),
                Err(error) => records.push(wrong_record(operation, seed, &error.to_string())),
            }
        }
    }
    records.push(json!({"kind": "correct", "family": family(operation), "seed": seed, "cases": right}));
    records
}

fn wrong_record(operation: Operation, seed: u64, what: &str) -> Value {
    json!({"kind": "wrong", "family": family(operation), "seed": seed, "what": what})
}

fn family(operation: Operation) -> String {
    format!("te/{}", operation.name())
}

/// The number of cases on which all operations and schedules are checked.
#[cfg(test)]
pub(crate) const CASES: usize = Operation::ALL.len() * ELEMENTS.len() * AMOUNT.0 + schedules::CASES;

/// The names of the families of tensor expressions.
pub(crate) fn families() -> impl Iterator<Item = String> {
    Operation::ALL.into_iter().map(family)
}

/// Random cases of a family: small ones of every type, for compute-sanitizer, or everything that a step with this seed
/// runs.
pub(crate) fn one_of_family(machine: &Machine, name: &str, seed: u64, all: bool) -> Option<Vec<Value>> {
    let operation = Operation::ALL.into_iter().find(|operation| family(*operation) == name)?;
    let (cases, largest) = if all { AMOUNT } else { (1, 200) };
    Some(random(machine, operation, seed, cases, largest))
}

fn speed(machine: &Machine, operation: Operation, element: ElementType, shape: &[usize]) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let shape: Vec<usize> = match machine.is_rehearsal() {
        true => shape.iter().map(|extent| (*extent).min(48)).collect(),
        false => shape.to_vec(),
    };
    let [lines, length] = extents(operation, &shape);
    let bytes = operation.bytes(element, lines, length);
    let count = if machine.is_rehearsal() { 1 } else { (180 << 20) / bytes + 1 };
    let kernel = operation.kernel(device, element)?;
    let mut sets = (0..count)
        .map(|i| Set::new(operation, device, element, [lines, length], 2 * i as u32))
        .collect::<Outcome<Vec<_>>>()?;
    sets[0].run(&kernel)?;
    if let Some(what) = sets[0].first_wrong([0, lines - 1])? {
        return Ok(vec![json!({"kind": "wrong", "what": what, "choice": kernel.choice()})]);
    }
    let run = Box::new(|i: usize| sets[i % count].run(&kernel));
    let times = Timer::new(device)?.race(&mut [Contender { name: "epilogue".into(), run }])?;
    let contender = times[0].record(machine, |seconds| vec![("tb_per_s", bytes as f64 / seconds * 1e-12)]);
    Ok(vec![json!({
        "kind": "speed", "what": "te", "operation": operation.name(), "dtype": element.to_string(), "shape": shape,
        "bytes": bytes, "choice": kernel.choice(), "contenders": [contender], "clocks": machine.clocks(),
    })])
}
