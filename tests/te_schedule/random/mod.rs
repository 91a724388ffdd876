//! Primitives drawn at random, whether they make sense or not: each is refused by a typed error, or what comes out
//! computes what the default schedule does, in the interpreter, as native code and on an emulated GPU.

mod primitives;
mod works;

use std::cell::Cell;

use epilogue::te::{self, Array, DType, Expr, Program, Schedule, ScriptStyle, TeError, Tensor, var};
use epilogue::{Device, ElementType};
use epilogue_runtime::testing::cases;
use proptest::prelude::*;

use self::primitives::Draw;
pub(crate) use self::works::KINDS;
use self::works::{Given, Work};
use crate::case::{Numbers, device, integers, lacks_nvrtc, read};

/// What becomes of a random schedule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It computes what it must.
    Right,
    /// Lowering refuses it.
    Refused(String),
    /// A split promises what the sizes don't keep.
    Promise,
}

/// A computation with its inputs and what the default schedule makes of them.
pub(crate) struct Case {
    work: Work,
    given: Vec<Numbers>,
    wanted: Vec<Vec<f64>>,
}

impl Work {
    fn arguments(&self) -> Vec<&Tensor> {
        self.inputs.iter().chain(self.outputs.iter().map(|(output, _)| output)).collect()
    }

    fn schedule(&self) -> Schedule {
        te::create_schedule(&self.outputs.iter().map(|(output, _)| output).collect::<Vec<_>>())
    }
}

impl Case {
    pub(crate) fn new(kind: usize, sizes: [usize; 2], symbolic: bool, seed: u64) -> Result<Self, TeError> {
        let [n, m] = ["n", "m"].map(|name| var(name).into());
        let extents = if symbolic { [n, m] } else { sizes.map(Expr::from) };
        let work = KINDS[kind].2(&Given { extents, sizes })?;
        let numbers =
            |place| Numbers::new(ElementType::I32, &sizes, integers(sizes[0] * sizes[1], seed.wrapping_add(place)));
        let mut case = Self { work, given: (0..2).map(numbers).collect(), wanted: Vec::new() };
        case.wanted = case.interpreted(&te::lower(&case.work.schedule(), &case.work.arguments(), "main")?)?;
        Ok(case)
    }

    /// A random schedule of the computation, and what becomes of it.
    pub(crate) fn try_schedule(&self, seed: u64, emulate: bool) -> Result<Outcome, TeError> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut s = self.work.schedule();
        let outputs: Vec<Tensor> = self.work.outputs.iter().map(|(output, _)| output.clone()).collect();
        let (stages, count) = (self.work.stages.clone(), random.usize(1..12));
        let mut draw =
            Draw { schedule: &mut s, inputs: &self.work.inputs, outputs: &outputs, stages, random: &mut random };
        for _ in 0..count {
            // A refused primitive leaves the schedule as it was.
            let _ = draw.apply();
        }
        let program = match te::lower(&s, &self.work.arguments(), "main") {
            Ok(program) => program,
            Err(error) => return Ok(Outcome::Refused(error.to_string())),
        };
        let text = || {
            let record = s.primitive_record().join("\n");
            format!("{:?}\n{record}\n{}", self.given[0].shape, program.script(ScriptStyle::LATER))
        };
        match self.interpreted(&program) {
            Ok(got) => assert_eq!(got, self.wanted, "{}", text()),
            Err(TeError::SplitRemainder { .. }) => return Ok(Outcome::Promise),
            Err(error) => panic!("{error}\n{}", text()),
        }
        for device in [Some(Device::cpu()), emulate.then(|| device().clone())].into_iter().flatten() {
            let Ok(kernel) = program.build(&device) else { continue };
            let got = match self.run(&kernel, &device)? {
                Ok(got) => got,
                // More threads than a block has, along some axis.
                Err(error) if error.to_string().contains("can't be launched so") => continue,
                Err(error) => panic!("{error} on {device}\n{}", text()),
            };
            assert_eq!(got, self.wanted, "{device}\n{}", text());
        }
        Ok(Outcome::Right)
    }

    fn outputs(&self) -> impl Iterator<Item = (ElementType, &[usize])> {
        self.work.outputs.iter().map(|(output, shape)| match output.dtype() {
            DType::Number(element) => (element, shape.as_slice()),
            DType::Bool => unreachable!("no output is of truth values"),
        })
    }

    fn interpreted(&self, program: &Program) -> Result<Vec<Vec<f64>>, TeError> {
        let given = self.given.iter().map(|x| Array::new(x.element, &x.shape, &x.values));
        let mut arrays = given.collect::<Result<Vec<_>, TeError>>()?;
        arrays.extend(self.outputs().map(|(element, shape)| Array::unwritten(element, shape)));
        program.interpret(&mut arrays)?;
        Ok(arrays[self.given.len()..].iter().map(Array::values).collect())
    }

    fn run(&self, kernel: &te::Kernel, device: &Device) -> Result<Result<Vec<Vec<f64>>, TeError>, TeError> {
        let read_from: Vec<_> = self.given.iter().map(|x| x.on(device)).collect();
        let mut made = Vec::new();
        for (element, shape) in self.outputs() {
            made.push(device.zeros_of(element, shape)?);
        }
        let mut arguments: Vec<epilogue::Argument<'_>> = read_from.iter().map(Into::into).collect();
        arguments.extend(made.iter_mut().map(epilogue::Argument::from));
        if let Err(error) = kernel.run(&arguments) {
            return Ok(Err(error));
        }
        drop(arguments);
        Ok(Ok(made.iter().map(read).collect()))
    }
}

fn check_all(count: u32, emulate: bool) {
    let config = ProptestConfig { cases: cases(count), failure_persistence: None, ..ProptestConfig::default() };
    let extent = || prop_oneof![1 => Just(0usize), 1 => Just(1), 6 => 2usize..24];
    let right = Cell::new(0);
    proptest!(config, |(kind in 0..KINDS.len(), n in extent(), m in extent(), symbolic: bool, seed: u64)| {
        let sizes = [n.max(KINDS[kind].1), m];
        match Case::new(kind, sizes, symbolic, seed).and_then(|case| case.try_schedule(seed, emulate)) {
            Ok(outcome) => right.set(right.get() + u32::from(outcome == Outcome::Right)),
            Err(error) => panic!("{}, {sizes:?}: {error}", KINDS[kind].0),
        }
    });
    assert!(right.get() > cases(count) / 3, "only {} schedules were run", right.get());
}

#[test]
fn any_primitives() {
    check_all(1000, false);
}

#[test]
fn any_primitives_on_an_emulated_gpu() {
    if !lacks_nvrtc("any_primitives_on_an_emulated_gpu") {
        check_all(60, true);
    }
}
