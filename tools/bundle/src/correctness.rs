//! New random cases of every kernel family, compared with the f64 reference. They are generated as in the test suite;
//! only the seed is new at every run, and recorded.

use epilogue::ElementType;
use epilogue::evt::random::Choices;
use epilogue::gemm::Arithmetic;
use epilogue::gemm::sm90::TensorCores;
use epilogue_testing::case::{Family, Kernel};
use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::Machine;
use crate::options::On;
use crate::step::Step;
use crate::te;

/// The multiplied types and instructions, by the name in records.
const FAMILIES: [(&str, Family); 17] = [
    ("f16", of_mma(ElementType::F16, Arithmetic::Exact)),
    ("bf16", of_mma(ElementType::BF16, Arithmetic::Exact)),
    ("tf32", of_mma(ElementType::F32, Arithmetic::Tf32)),
    ("f32", of_mma(ElementType::F32, Arithmetic::Exact)),
    ("f64", of_mma(ElementType::F64, Arithmetic::Exact)),
    ("i8", of_mma(ElementType::I8, Arithmetic::Exact)),
    ("e4m3", of_mma(ElementType::F8E4M3, Arithmetic::Exact)),
    ("wgmma-f16", of_wgmma(ElementType::F16, Arithmetic::Exact)),
    ("wgmma-bf16", of_wgmma(ElementType::BF16, Arithmetic::Exact)),
    ("wgmma-tf32", of_wgmma(ElementType::F32, Arithmetic::Tf32)),
    ("wgmma-e4m3", of_wgmma(ElementType::F8E4M3, Arithmetic::Exact)),
    ("wgmma-e4m3-fast", of_wgmma(ElementType::F8E4M3, Arithmetic::FastFp8)),
    ("wgmma-e5m2", of_wgmma(ElementType::F8E5M2, Arithmetic::Exact)),
    ("wgmma-i8", of_wgmma(ElementType::I8, Arithmetic::Exact)),
    (
        "wgmma-bf16-by-u8",
        Family { elements: (ElementType::BF16, ElementType::U8), ..of_wgmma(ElementType::BF16, Arithmetic::Exact) },
    ),
    ("copied-f16", of_copies(ElementType::F16)),
    ("copied-e4m3", of_copies(ElementType::F8E4M3)),
];

const fn of_mma(element: ElementType, arithmetic: Arithmetic) -> Family {
    Family { elements: (element, element), arithmetic, hopper: false, repacked: false }
}

const fn of_wgmma(element: ElementType, arithmetic: Arithmetic) -> Family {
    Family { elements: (element, element), arithmetic, hopper: true, repacked: false }
}

const fn of_copies(element: ElementType) -> Family {
    Family { elements: (element, element), arithmetic: Arithmetic::Exact, hopper: true, repacked: true }
}

/// The number of kernels of each family, and of products on each: together with tensor expressions and relaunches, at
/// most 200.
const fn kernels(of: &Family) -> usize {
    if of.hopper { 4 } else { 3 }
}
const CASES: usize = 2;

/// The largest extent of a random product.
const LARGEST: usize = 130;

pub(crate) fn steps() -> Vec<Step> {
    FAMILIES
        .iter()
        .map(|&(name, of)| {
            Step::new(format!("correctness/gemm/{name}"), 1, 12, move |machine| {
                let amount = if machine.is_rehearsal() { (2, 2) } else { (kernels(&of), CASES) };
                let cores = machine.device.arch().and_then(TensorCores::of);
                let converts = of.elements.0.size() != of.elements.1.size();
                if of.hopper && (cores.is_none() || converts && cores != Some(TensorCores::Wgmma)) {
                    let why =
                        if converts { "it needs an sm_90a GPU" } else { "it needs an sm_90a, sm_100a or sm_103a GPU" };
                    return Ok(vec![json!({"kind": "skipped", "family": name, "why": why})]);
                }
                Ok(family(machine, name, &of, amount, fastrand::u64(..)))
            })
        })
        .collect()
}

/// Random kernels of one family on random products.
fn family(machine: &Machine, name: &str, of: &Family, (kernels, cases): (usize, usize), seed: u64) -> Vec<Value> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut choices = |n: usize| (0..n).map(|_| random.u32(..)).collect::<Vec<u32>>();
    let (mut right, mut records) = (0, Vec::new());
    let first = seed as usize % 1000;
    for number in first..first + kernels {
        let tree = choices(120);
        let products: Vec<Vec<u32>> = (0..cases).map(|_| choices(60)).collect();
        let kernel = Kernel::random(&machine.device, of, number, LARGEST, &mut Choices::new(&tree));
        let outcomes: Vec<Result<(), String>> = match kernel {
            Ok(kernel) => products.iter().map(|product| kernel.case(&mut Choices::new(product))).collect(),
            Err(error) => vec![Err(error)],
        };
        for outcome in outcomes {
            match outcome {
                Ok(()) => right += 1,
                Err(what) => {
                    records
                        .push(json!({"kind": "wrong", "family": name, "seed": seed, "kernel": number, "what": what}));
                }
            }
        }
    }
    records.push(json!({"kind": "correct", "family": name, "seed": seed, "cases": right}));
    records
}

/// `family NAME SEED cuda|emulated|cpu [all]`: one kernel of a family, for compute-sanitizer, or everything that a step
/// with this seed runs.
pub(crate) fn one_of_family(words: &[String]) -> Outcome<()> {
    let (name, seed, on, all) = match words {
        [name, seed, on] => (name, seed, on, false),
        [name, seed, on, all] if all == "all" => (name, seed, on, true),
        _ => return Err("usage: epilogue-gpu family NAME SEED cuda|emulated|cpu [all]".into()),
    };
    let machine = Machine::find(On::parse(on)?)?;
    let seed = seed.parse()?;
    let records = match FAMILIES.iter().find(|family| family.0 == name) {
        Some((name, of)) => family(&machine, name, of, if all { (kernels(of), CASES) } else { (1, 1) }, seed),
        None => te::one_of_family(&machine, name, seed, all).ok_or_else(|| format!("there is no family {name}"))?,
    };
    match records.iter().find(|record| record["kind"] == "wrong") {
        Some(wrong) => Err(wrong.to_string().into()),
        None => Ok(()),
    }
}

/// The names of all families, including those of tensor expressions.
pub(crate) fn families() -> impl Iterator<Item = String> {
    FAMILIES.iter().map(|family| family.0.to_owned()).chain(te::families())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With more cases, too little of tier 1's time would be left.
    #[test]
    fn cases_are_few() {
        let of_families: usize = FAMILIES.iter().map(|(_, of)| kernels(of) * CASES).sum();
        let cases = of_families + te::CASES + crate::gemm::RELAUNCHES;
        assert!((150..=200).contains(&cases), "{cases}");
    }
}
