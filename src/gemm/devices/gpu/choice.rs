//! A GPU's choice, and its compilation.

use std::sync::Arc;

use epilogue_runtime::DeviceKind;

use super::super::choice::{Choice, Chosen, Compiled};
use super::super::operation::Operation;
use super::kernels::Kernels;
use super::listed::Listed;
use crate::gemm::model::Candidate;
use crate::gemm::model::choice::{ChosenKernel, Origin, shortlist};
use crate::gemm::problem::Error;

impl Chosen for ChosenKernel {
    fn tile(&self) -> (usize, usize) {
        self.chosen.key.tile()
    }

    fn kernel(&self) -> Option<&Candidate> {
        Some(&self.chosen)
    }

    fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    fn contenders(&self, operation: &Operation) -> Result<Vec<Candidate>, Error> {
        match operation.device.kind() {
            DeviceKind::Emulated { .. } | DeviceKind::Target { .. } => {
                return Err(Error::NoClock { device: operation.device.to_string() });
            }
            _ if self.asked => return Ok(Vec::new()),
            _ => {}
        }
        let (mut contenders, listed) = (shortlist(&self.candidates), Listed::of(operation));
        contenders.retain(|candidate| listed.has(&candidate.key));
        if contenders.is_empty() {
            contenders.push(self.chosen.clone());
        }
        Ok(contenders)
    }

    fn with(&self, candidate: &Candidate, origin: Origin) -> Option<Choice> {
        let chosen = self.candidates.iter().find(|known| *known == candidate)?.clone();
        Some(Choice::of(Self { chosen, asked: false, origin, ..self.clone() }))
    }

    fn compile(&self, operation: &Arc<Operation>) -> Result<Compiled, Error> {
        let (mut chosen, mut tried, mut first) = (self.clone(), Vec::new(), None);
        loop {
            let refused = match Kernels::compile(operation, &chosen) {
                Ok(kernels) => return Ok((Choice::of(chosen), Box::new(kernels))),
                Err(refused) => refused,
            };
            tried.push(chosen.chosen.key);
            let other = match &refused {
                _ if chosen.is_exact() => None,
                Error::NotInCluster { reason, .. } => chosen.portable(reason),
                Error::Runtime(epilogue_runtime::Error::NotInBundle { .. }) => {
                    Listed::of(operation).next(&chosen, &tried)
                }
                _ => None,
            };
            let Some(other) = other.filter(|other| !tried.contains(&other.chosen.key)) else {
                return Err(first.unwrap_or(refused));
            };
            first.get_or_insert(refused);
            chosen = other;
        }
    }
}
