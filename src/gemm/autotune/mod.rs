//! Choosing by measurement: the candidates that the model ranks best, timed on the device with their epilogue.

mod race;
mod store;

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceKind, Event, Stream};

use self::race::Pace;
pub(crate) use self::store::{Found, Store, subject};
use super::bundled::may_run;
use super::model::choice::{Chosen, ChosenKernel, Tuning};
use super::planned::Gemm;
use super::problem::{Error, Left, Right};
use super::remembered::Remembered;
use super::run::plan::Plan;
use crate::evt::ParameterClass;
use crate::{Argument, Arguments, ElementType, Epilogue};

impl<E> Gemm<E> {
    /// Measures the candidates that the model ranks best, the whole fused kernel each, on these very operands and
    /// arguments, and gives the plan of the fastest. The winner is noted beside the compiled kernels, so that later plans
    /// for the same product, epilogue and GPU choose it at once; see [`choice`](Self::choice).
    ///
    /// The outputs hold what one [`run`](Self::run) leaves, tensors that are updated in place among them. Measuring takes
    /// some tens of milliseconds for every candidate beside its compilation; nothing else should use the GPU meanwhile.
    /// On the CPU, and where the kernel was asked for, there is one candidate: this is [`run`](Self::run) then.
    ///
    /// # Errors
    /// [`Error::NoClock`] on an emulated device and a bundle's target; what [`run`](Self::run) fails with.
    pub fn autotune<'a, 'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
    ) -> Result<Self, Error>
    where
        E: Epilogue,
    {
        self.autotune_arguments(a, b, &mut arguments.arguments())
    }

    /// [`autotune`](Self::autotune) with the arguments as a list, for epilogues that were built, not written.
    ///
    /// # Errors
    /// As [`autotune`](Self::autotune).
    pub fn autotune_arguments<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &mut [Argument<'_>],
    ) -> Result<Self, Error> {
        let (a, b) = (a.into(), b.into());
        let plan = self.inner();
        let stream = plan.device.default_stream();
        let gpu = match (&plan.choice.kind, plan.device.kind()) {
            (Chosen::Gpu(gpu), DeviceKind::Cuda { .. }) if !gpu.asked => gpu,
            (_, DeviceKind::Emulated { .. } | DeviceKind::Target { .. }) => {
                return Err(Error::NoClock { device: plan.device.to_string() });
            }
            _ => {
                self.run_arguments(&stream, a, b, arguments)?;
                return Ok(self.clone());
            }
        };
        let mut shortlist = plan.choice.shortlist();
        if !plan.device.bundles().is_empty() {
            shortlist.retain(|candidate| may_run(&plan.device, &plan.phases.product(), &candidate.key));
            if shortlist.is_empty() {
                shortlist.push(gpu.chosen.clone());
            }
        }
        let before = updated_in_place(plan, arguments)?;
        let plans = shortlist
            .iter()
            .map(|candidate| Ok(Gemm::of(plan.with(gpu.as_measured(candidate.clone(), Tuning::None))?)))
            .collect::<Result<Vec<Self>, Error>>()?;
        let times = race::race(plans.len(), &Pace::default(), |contender, runs| {
            time(&plans[contender], &stream, (a, &b), arguments, runs)
        })?;
        let (winner, microseconds) =
            race::fastest(&times).ok_or_else(|| Error::NoTile { reason: "there is no candidate".to_owned() })?;
        let subject = subject(&plan.device, plan.phases.first(), &plan.problem, plan.settings);
        if let (Some(store), Some(subject)) = (Store::of_user(), subject) {
            // The store only saves time; a plan that is not found is chosen by the model.
            let _ = store.note(&subject, &shortlist[winner], microseconds);
            // What was planned before was chosen without it.
            plan.device.kept::<Remembered>().clear();
        }
        let measured = gpu.as_measured(shortlist[winner].clone(), Tuning::Measured { microseconds });
        let tuned = Gemm::of(plan.with(measured)?);
        for (argument, bytes) in &before {
            if let Argument::Output(tensor) = &mut arguments[*argument] {
                tensor.copy_from_bytes(bytes)?;
            }
        }
        tuned.run_arguments(&stream, a, b, arguments)?;
        Ok(tuned)
    }
}

/// What the tensors that are updated in place hold.
fn updated_in_place(plan: &Plan, arguments: &[Argument<'_>]) -> Result<Vec<(usize, Vec<u8>)>, Error> {
    let parameters = plan.tree().parameters().iter().zip(arguments).enumerate();
    parameters
        .filter_map(|(i, (parameter, argument))| match argument {
            Argument::Output(tensor) if parameter.class == ParameterClass::TensorMut => Some((i, tensor)),
            Argument::Output(_) | Argument::Input(_) | Argument::Scalar(_) => None,
        })
        .map(|(i, tensor)| Ok((i, tensor.to_bytes()?)))
        .collect()
}

/// Overwrites four times as much memory as the L2 holds, on the default stream: so every measurement begins with the same
/// cache, and while it lasts the runs to be measured queue up, so that their launches' cost doesn't count.
fn clear_cache(device: &Device) {
    let properties = device.properties();
    let bytes = (4 * properties.l2_bytes).max(64 << 20).min(properties.memory_bytes / 16);
    // Without so much memory the measurement is less good, not wrong.
    let _ = device.zeros_of(ElementType::U8, [usize::try_from(bytes).unwrap_or(0)]);
}

/// Microseconds of one run, over `runs` of them.
fn time<E>(
    gemm: &Gemm<E>,
    stream: &Stream,
    (a, b): (Left<'_>, &Right<'_>),
    arguments: &[Argument<'_>],
    runs: u32,
) -> Result<f64, Error> {
    clear_cache(gemm.device());
    let start: Event = stream.record()?;
    for _ in 0..runs {
        gemm.run_arguments(stream, a, b.clone(), arguments)?;
    }
    let end = stream.record()?;
    Ok(f64::from(start.elapsed_ms(&end)?) * 1e3 / f64::from(runs.max(1)))
}

impl ChosenKernel {
    /// The same candidates with another one chosen.
    fn as_measured(&self, chosen: super::Candidate, tuning: Tuning) -> Self {
        Self { chosen, candidates: Arc::clone(&self.candidates), asked: false, tuning }
    }
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::{Arch, testing};

    use super::*;
    use crate::evt::{ShapeClass, Tree, TreeBuilder};
    use crate::expr::Op;
    use crate::gemm::Builder;

    /// D += accum.
    fn accumulate() -> Tree {
        let mut b = TreeBuilder::new("accumulate", file!());
        let accum = b.accum("accum");
        let d = b.parameter("d", ParameterClass::TensorMut, Some(ElementType::F32));
        let sum = b.apply(Op::Add, &[accum, d]);
        b.output("d", sum, ShapeClass::Tensor, Some(ElementType::F32));
        b.finish()
    }

    #[test]
    fn one_candidate_is_one_run() {
        let device = Device::cpu();
        let a = device.full::<f32>([4, 8], 2.0).unwrap();
        let b = device.full::<f32>([8, 4], 1.0).unwrap();
        let mut d = device.full::<f32>([4, 4], 1.0).unwrap();
        let gemm = Builder::<()>::new(&device, accumulate()).operands(&a, &b).unwrap().plan().unwrap();
        let tuned = gemm.autotune_arguments(&a, &b, &mut [Argument::Output(&mut d)]).unwrap();
        assert_eq!(d.to_vec::<f32>().unwrap(), [17.0; 16]);
        assert_eq!(tuned.choice().to_string(), gemm.choice().to_string());
    }

    #[test]
    fn an_emulated_device_has_no_clock() {
        if testing::compiler("an_emulated_device_has_no_clock").is_none() {
            return;
        }
        let device = Device::emulated(Arch::SM_80).unwrap();
        let a = device.full::<f32>([4, 8], 2.0).unwrap();
        let b = device.full::<f32>([8, 4], 1.0).unwrap();
        let mut d = device.full::<f32>([4, 4], 1.0).unwrap();
        let gemm = Builder::<()>::new(&device, accumulate()).operands(&a, &b).unwrap().plan().unwrap();
        let refused = gemm.autotune_arguments(&a, &b, &mut [Argument::Output(&mut d)]).map(drop).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "times measured on an emulated sm_80 say nothing about a GPU: leave `autotune` out, and the model chooses; tune \
             on a GPU"
        );
        assert_eq!(d.to_vec::<f32>().unwrap(), [1.0; 16], "nothing was run");
    }

    #[test]
    fn the_shortlist_is_short_and_varied() {
        let device = Device::emulated(Arch::SM_90A).unwrap();
        for (m, n, k) in [(4096, 4096, 4096), (16, 4096, 4096), (256, 256, 8192)] {
            let builder = Builder::<()>::new(&device, accumulate()).elements(ElementType::F16, ElementType::F16);
            let choice = builder.problem(m, n, k).choose().unwrap();
            let list = choice.shortlist();
            assert!((2..=8).contains(&list.len()), "{}", list.len());
            assert_eq!(list[0], choice.candidates()[0]);
            assert!(list.windows(2).all(|pair| pair[0].microseconds <= pair[1].microseconds));
        }
    }
}
