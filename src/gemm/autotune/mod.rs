//! Chooses a kernel by measurement: the candidates that the model ranks best are timed on the device, with their
//! epilogue.

mod race;
pub(crate) mod store;

use epilogue_runtime::{Activity, Device, Event, Progress, Stream, trace};

use self::race::Pace;
use self::store::{Store, subject};
use super::model::Candidate;
use super::model::choice::Origin;
use super::plan::Plan;
use super::planned::Gemm;
use super::problem::{Error, Left, Right};
use super::remembered::Remembered;
use crate::evt::ParameterClass;
use crate::level;
use crate::{Argument, Arguments, ElementType, Epilogue};

impl<E> Gemm<E> {
    /// Measures the candidates that the model ranks best, each as the whole fused kernel, and gives the plan of the
    /// fastest. The measurements use these operands and arguments. The winner is stored beside the compiled kernels.
    /// Later plans for the same GEMM, epilogue and GPU choose it at once; see [`choice`](Self::choice).
    ///
    /// Afterwards the outputs hold the result of one [`run`](Self::run), including tensors that are updated in place.
    /// Measuring takes some tens of milliseconds per candidate, plus its compilation; nothing else should use the GPU
    /// meanwhile. On the CPU, and if the kernel was asked for, there is only one candidate: then this is
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// [`Error::NoClock`] on an emulated device and on a bundle's target; the errors of [`run`](Self::run).
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

    /// [`autotune`](Self::autotune) with progress: it calls `watch` before every kernel that it compiles or measures.
    ///
    /// ```
    /// # use epilogue::prelude::*;
    /// # #[epilogue]
    /// # fn doubled(accum: Accum) -> Tensor {
    /// #     let d = 2.0 * accum;
    /// #     d
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::best()?;
    /// let (a, b) = (device.full::<f32>([4, 8], 2.0)?, device.full::<f32>([8, 4], 1.0)?);
    /// let mut d = device.zeros::<f32>([4, 4])?;
    /// let gemm = Gemm::plan::<Doubled>(&device, &a, &b)?;
    /// // "9 of 96: measuring m64n64k32 …" on a GPU; the CPU has one candidate, and nothing is said.
    /// let tuned = gemm.autotune_watched(&a, &b, Doubled { d: &mut d }, &mut |progress| eprintln!("{progress}"))?;
    /// # assert_eq!(d.to_vec::<f32>()?, [32.0; 16]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`autotune`](Self::autotune).
    pub fn autotune_watched<'a, 'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, Error>
    where
        E: Epilogue,
    {
        self.autotune_arguments_watched(a, b, &mut arguments.arguments(), watch)
    }

    /// [`autotune`](Self::autotune) with the arguments as a list, for epilogues that are built at run time.
    ///
    /// # Errors
    /// As [`autotune`](Self::autotune).
    pub fn autotune_arguments<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &mut [Argument<'_>],
    ) -> Result<Self, Error> {
        self.autotune_arguments_watched(a, b, arguments, &mut |_| ())
    }

    /// [`autotune_watched`](Self::autotune_watched) with the arguments as a list.
    ///
    /// # Errors
    /// As [`autotune`](Self::autotune).
    pub fn autotune_arguments_watched<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &mut [Argument<'_>],
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, Error> {
        let (a, b) = (a.into(), b.into());
        Ok(level::on(self.device(), || tuned(&self.retyped(), a, b, arguments, watch))?.retyped())
    }
}

/// The plan of the fastest candidate.
fn tuned(
    gemm: &Gemm,
    a: Left<'_>,
    b: Right<'_>,
    arguments: &mut [Argument<'_>],
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<Gemm, Error> {
    let plan = gemm.inner();
    let (operation, stream) = (&*plan.operation, plan.operation.device.default_stream());
    let contenders = plan.choice.contenders(operation)?;
    if contenders.is_empty() {
        gemm.run_arguments(&stream, a, b, arguments)?;
        return Ok(gemm.clone());
    }
    let before = updated_in_place(plan, arguments)?;
    let (winner, microseconds) =
        contest(plan, &contenders, watch, |gemm, runs| time(gemm, &stream, (a, &b), arguments, runs))?;
    let subject = subject(&operation.device, operation.phases.first(), &operation.problem, operation.settings);
    if let (Some(store), Some(subject)) = (Store::of_user(), subject) {
        // The store only saves time: without an entry, the model chooses.
        let _ = store.note(&subject, winner, microseconds);
        // Plans made before were chosen without this measurement.
        operation.device.kept::<Remembered>().clear();
    }
    let tuned = Gemm::of(plan.with(winner, Origin::Measured { microseconds })?);
    for (argument, bytes) in &before {
        if let Argument::Output(tensor) = &mut arguments[*argument] {
            tensor.copy_from_bytes(bytes)?;
        }
    }
    tuned.run_arguments(&stream, a, b, arguments)?;
    Ok(tuned)
}

/// Compiles the candidates and measures each in turn, as `measure` runs one so often and gives the time of one run. Gives the
/// fastest one, and its time. A kernel that the device turns out not to have is left out.
fn contest<'a>(
    plan: &Plan,
    shortlist: &'a [Candidate],
    watch: &mut dyn FnMut(Progress<'_>),
    mut measure: impl FnMut(&Gemm, u32) -> Result<f64, Error>,
) -> Result<(&'a Candidate, f64), Error> {
    let epilogue = plan.operation.tree().name();
    let _span = trace::span!(INFO, "autotune", epilogue = epilogue, candidates = shortlist.len());
    let pace = Pace::default();
    let total = shortlist.len() + pace.measurements(shortlist.len());
    let names: Vec<String> = shortlist.iter().map(name).collect();
    let mut done = 0;
    let mut tell = |activity, name: &str| {
        watch(Progress::new(activity, name, done).of(total));
        done += 1;
    };
    let (mut contenders, mut missing) = (Vec::with_capacity(shortlist.len()), None);
    for (candidate, name) in shortlist.iter().zip(&names) {
        tell(Activity::Compiling, name);
        match plan.with(candidate, Origin::Contender) {
            Ok(plan) => contenders.push((candidate, name.as_str(), Gemm::of(plan))),
            Err(
                refused @ (Error::NotInCluster { .. } | Error::Runtime(epilogue_runtime::Error::NotInBundle { .. })),
            ) => missing = missing.or(Some(refused)),
            Err(error) => return Err(error),
        }
    }
    let times = race::race(contenders.len(), &pace, |contender, runs| {
        let (_, name, gemm) = &contenders[contender];
        tell(Activity::Measuring, name);
        measure(gemm, runs)
    })?;
    for ((_, name, _), microseconds) in contenders.iter().zip(&times) {
        trace::event!(DEBUG, "measured", kernel = *name, microseconds = *microseconds);
    }
    let none = || missing.unwrap_or_else(|| Error::NoTile { reason: "there is no candidate".to_owned() });
    let (winner, microseconds) = race::fastest(&times).ok_or_else(none)?;
    let (candidate, name, _) = &contenders[winner];
    tell(Activity::Done, name);
    trace::event!(INFO, "the fastest", kernel = *name, microseconds = microseconds);
    Ok((candidate, microseconds))
}

/// A candidate in few words.
fn name(candidate: &Candidate) -> String {
    format!("{}, {}", candidate.key, candidate.split_k)
}

/// The contents of the tensors that are updated in place.
fn updated_in_place(plan: &Plan, arguments: &[Argument<'_>]) -> Result<Vec<(usize, Vec<u8>)>, Error> {
    let parameters = plan.operation.tree().parameters().iter().zip(arguments).enumerate();
    parameters
        .filter_map(|(i, (parameter, argument))| match argument {
            Argument::Output(tensor) if parameter.class == ParameterClass::TensorMut => Some((i, tensor)),
            Argument::Output(_) | Argument::Input(_) | Argument::Scalar(_) | Argument::Seed(..) => None,
        })
        .map(|(i, tensor)| Ok((i, tensor.to_bytes()?)))
        .collect()
}

/// Overwrites about four times as much memory as the L2 holds, on the default stream. So every measurement begins with
/// the same cache; and meanwhile the runs to be measured queue up, so the cost of their launches is not measured.
fn clear_cache(device: &Device) {
    let properties = device.properties();
    let bytes = (4 * properties.l2_bytes).max(64 << 20).min(properties.memory_bytes / 16);
    // If there is not enough memory, the measurement is less precise, but not wrong.
    let _ = device.zeros_of(ElementType::U8, [usize::try_from(bytes).unwrap_or(0)]);
}

/// Microseconds of one run, averaged over `runs` of them.
fn time(
    gemm: &Gemm,
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

#[cfg(test)]
mod tests {
    use epilogue_runtime::{Arch, testing};

    use super::*;
    use crate::evt::{BroadcastClass, Tree, TreeBuilder};
    use crate::expr::Op;
    use crate::gemm::Builder;

    /// D += accum.
    fn accumulate() -> Tree {
        let mut b = TreeBuilder::new("accumulate", file!());
        let accum = b.accum("accum");
        let d = b.parameter("d", ParameterClass::TensorMut, Some(ElementType::F32));
        let sum = b.apply(Op::Add, &[accum, d]);
        b.output("d", sum, BroadcastClass::Tensor, Some(ElementType::F32));
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

    /// A contest on a clock that is made up: the fastest wins, and every step is told, the last one last.
    #[test]
    fn a_contest_tells_how_far_it_is() {
        if testing::compiler("a_contest_tells_how_far_it_is").is_none() {
            return;
        }
        let device = Device::emulated(Arch::SM_80).unwrap();
        let builder = Builder::<()>::new(&device, accumulate()).elements(ElementType::F16, ElementType::F16);
        let gemm = builder.problem(64, 64, 64).plan().unwrap();
        let plan = gemm.inner();
        let shortlist = &plan.choice.shortlist()[..2];
        let (mut told, mut measured) = (Vec::new(), Vec::new());
        let (winner, microseconds) = contest(
            plan,
            shortlist,
            &mut |progress| told.push((progress.activity, progress.kernel.to_owned(), progress.done, progress.total)),
            |gemm, _| {
                let kernel = name(gemm.choice().kernel().unwrap());
                measured.push(kernel.clone());
                Ok(if kernel == name(&shortlist[1]) { 2.0 } else { 3.0 })
            },
        )
        .unwrap();
        assert_eq!((winner, microseconds), (&shortlist[1], 2.0));
        let total = told.len() - 1;
        assert_eq!(total, 2 + measured.len());
        for (place, (activity, kernel, done, of)) in told.iter().enumerate() {
            assert_eq!((*done, *of), (place, Some(total)));
            match place {
                0 | 1 => assert_eq!((*activity, kernel), (Activity::Compiling, &name(&shortlist[place]))),
                _ if place == total => assert_eq!(*activity, Activity::Done),
                _ => assert_eq!((*activity, kernel), (Activity::Measuring, &measured[place - 2])),
            }
        }
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
