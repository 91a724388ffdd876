//! A product of one rank, by NCCL: what several GPUs do with the sums, with the library that this machine has.

use epilogue::distributed::{Combine, Communicator, LaunchedRank, Rendezvous, RowParallel, RowSettings};
use epilogue::prelude::*;
use epilogue::runtime::{CommunicatorError, Error};
use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::Machine;
use crate::options::On;
use crate::step::Step;

#[epilogue]
fn biased(accum: Accum, bias: RowVector<f32>) -> Tensor<f32> {
    let d = relu(accum + bias);
    d
}

pub(crate) fn steps() -> Vec<Step> {
    vec![Step::new("correctness/ranks", 1, 6, one_rank)]
}

/// Held against the same product without ranks. The values are small integers, so that both are exact.
fn one_rank(machine: &Machine) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let ranks = match machine.on {
        On::Cuda => Communicator::nccl(device, &LaunchedRank::default(), &Rendezvous::File("not-needed".into())),
        On::Emulated | On::Cpu => Ok(Communicator::in_process(1).remove(0)),
    };
    let ranks = match ranks {
        Err(Error::Communicator(absent @ CommunicatorError::Absent { .. })) => {
            return Ok(vec![json!({"kind": "skipped", "why": absent.to_string()})]);
        }
        ranks => ranks?,
    };
    let (m, n, k) = if machine.is_rehearsal() { (24, 32, 16) } else { (2048, 4096, 1024) };
    let values =
        |count: usize| (0..count).map(|i| f16::from_f32(((i * 7 + i / 11) % 5) as f32 - 2.0)).collect::<Vec<_>>();
    let (a, b) = (device.tensor(&values(m * k), [m, k])?, device.tensor(&values(k * n), [k, n])?);
    let bias = device.full::<f32>([n], 3.0)?;
    let mut expected = device.zeros::<f32>([m, n])?;
    Gemm::plan::<Biased>(device, &a, &b)?.run(&a, &b, Biased { bias: &bias, d: &mut expected })?;
    let expected = expected.to_vec::<f32>()?;
    let mut records = Vec::new();
    for combine in [Combine::AllReduce, Combine::ReduceScatter] {
        let settings = RowSettings::default().combine(combine).chunks(4);
        let layer = RowParallel::plan_with::<Biased>(device, &ranks, &a, &b, settings)?;
        let mut d = device.zeros::<f32>([m, n])?;
        for _ in 0..3 {
            layer.run(&a, &b, Biased { bias: &bias, d: &mut d })?;
        }
        let family = format!("{combine:?} of one rank by {}", if ranks.compares() { "threads" } else { "NCCL" });
        records.push(if d.to_vec::<f32>()? == expected {
            json!({"kind": "correct", "family": family, "cases": 3})
        } else {
            json!({"kind": "wrong", "family": family, "what": "it differs from the product without ranks"})
        });
    }
    Ok(records)
}
