//! A computation with a random schedule: it is refused with a typed error, or gives correct results in the interpreter,
//! as native code and on an emulated GPU. A failing schedule is reduced by leaving out primitives.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use epilogue::te::{self, Array, DType, LoweringError, Program, Schedule, TeError, Tensor, TensorIntrin, UnrollConfig};
use epilogue::{Device, ElementType};
use epilogue_runtime::testing::cases;
use fastrand::Rng;

use crate::case::{Numbers, device, read};
use crate::schedule::replay::{Primitive, World};

/// Makes a computation's own intrinsic, with the given extents.
pub(crate) type MakeIntrinsic = dyn Fn(&[i32]) -> Result<TensorIntrin, TeError>;

/// A computation, with its inputs and the expected results.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) inputs: Vec<(Tensor, Numbers)>,
    /// The stages that a schedule may change, consumers last.
    pub(crate) stages: Vec<Tensor>,
    pub(crate) outputs: Vec<(Tensor, Numbers)>,
    pub(crate) intrinsic: Option<Box<MakeIntrinsic>>,
}

/// Generates cases and their schedules.
pub(crate) struct Generator {
    pub(crate) name: &'static str,
    /// The names of its computations.
    pub(crate) kinds: fn() -> Vec<&'static str>,
    /// A computation of a kind, by its index.
    pub(crate) case: fn(usize, &mut Rng) -> Result<Case, TeError>,
    pub(crate) schedule: fn(&mut World<'_>, &mut Rng),
}

/// How a schedule is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) emulated: bool,
    /// Loops are unrolled by these rules.
    unrolled: Option<UnrollConfig>,
    /// The schedule is first saved as text and read back.
    saved: bool,
}

/// The outcome for a random schedule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Its results are correct.
    Right,
    /// Lowering refuses it.
    Refused(String),
    /// A split assumes a multiple that the sizes are not.
    Promise,
}

/// A mistake that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wrong {
    /// Wrong numbers, and where.
    Numbers(String),
    /// A program that is not refused can't be run.
    Run(String),
    /// Saving and reading changes the schedule.
    Saved(String),
    Panic(String),
}

impl Wrong {
    fn kind(&self) -> &'static str {
        match self {
            Self::Numbers(_) => "numbers",
            Self::Run(_) => "run",
            Self::Saved(_) => "saved",
            Self::Panic(_) => "panic",
        }
    }
}

impl Trial {
    /// How the schedule of a seed is tried.
    fn drawn(random: &mut Rng, emulated: bool) -> Self {
        let config = UnrollConfig {
            auto_max_step: random.i64(0..40),
            auto_max_extent: random.i64(0..9),
            explicit: random.bool(),
            ..UnrollConfig::default()
        };
        Self { emulated, unrolled: (random.u32(..8) == 0).then_some(config), saved: random.u32(..16) == 0 }
    }
}

impl Case {
    pub(crate) fn arguments(&self) -> Vec<&Tensor> {
        self.inputs.iter().chain(&self.outputs).map(|(tensor, _)| tensor).collect()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        te::create_schedule(&self.outputs.iter().map(|(output, _)| output).collect::<Vec<_>>())
    }

    /// Tries a schedule on every target.
    fn check(&self, schedule: &Schedule, trial: Trial) -> Result<Outcome, Wrong> {
        let tried = catch_unwind(AssertUnwindSafe(|| self.try_everywhere(schedule, trial)));
        tried.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(Wrong::Panic(text.unwrap_or_default()))
        })
    }

    fn try_everywhere(&self, schedule: &Schedule, trial: Trial) -> Result<Outcome, Wrong> {
        let mut program = match te::lower(schedule, &self.arguments(), "main") {
            Ok(program) => program,
            Err(error) => return Ok(Outcome::Refused(error.to_string())),
        };
        if trial.saved {
            self.check_saved(schedule, &program)?;
        }
        if let Some(config) = &trial.unrolled {
            // A mark on a loop of unknown extent is refused.
            program = program.unrolled(config).unwrap_or(program);
        }
        match self.interpreted(&program) {
            Ok(got) => self.compare("the interpreter", &got)?,
            Err(TeError::Lowering(LoweringError::SplitRemainder { .. })) => return Ok(Outcome::Promise),
            Err(error) => return Err(Wrong::Run(format!("the interpreter: {error}"))),
        }
        for device in [Some(Device::cpu()), trial.emulated.then(|| device().clone())].into_iter().flatten() {
            let kernel = match program.build(&device) {
                Ok(kernel) => kernel,
                // Unsupported programs are refused by name; this is a mistake in the generated code.
                Err(error) if error.to_string().contains("the code generator refuses") => {
                    return Err(Wrong::Run(format!("{device}: {error}")));
                }
                Err(_) => continue,
            };
            match self.run(&kernel, &device) {
                Ok(got) => self.compare(&device.to_string(), &got)?,
                // More threads along some axis than a block can have.
                Err(error) if error.to_string().contains("can't be launched so") => {}
                Err(error) => return Err(Wrong::Run(format!("{device}: {error}"))),
            }
        }
        Ok(Outcome::Right)
    }

    fn compare(&self, place: &str, got: &[Vec<f64>]) -> Result<(), Wrong> {
        for ((tensor, wanted), got) in self.outputs.iter().zip(got) {
            let differs = wanted.values.iter().zip(got).position(|(wanted, got)| wanted != got);
            if let Some(at) = differs {
                let (wanted, got) = (wanted.values[at], got[at]);
                let name = tensor.name();
                return Err(Wrong::Numbers(format!("{place}: element {at} of {name} is {got}, not {wanted}")));
            }
            assert_eq!(wanted.values.len(), got.len());
        }
        Ok(())
    }

    fn check_saved(&self, schedule: &Schedule, program: &Program) -> Result<(), Wrong> {
        // Schedules without a text form, with a new layout or an intrinsic, are refused.
        let Ok(text) = schedule.to_json(&self.arguments()) else { return Ok(()) };
        let read = || {
            let (read, tensors) = Schedule::from_json(&text)?;
            te::lower(&read, &tensors.iter().collect::<Vec<_>>(), "main")
        };
        let read = read().map_err(|error| Wrong::Saved(error.to_string()))?;
        let [read, own] = [&read, program].map(Program::script);
        if read == own { Ok(()) } else { Err(Wrong::Saved(format!("it was\n{own}\nand is read as\n{read}"))) }
    }

    fn interpreted(&self, program: &Program) -> Result<Vec<Vec<f64>>, TeError> {
        let given = self.inputs.iter().map(|(_, x)| Array::new(x.element, &x.shape, &x.values));
        let mut arrays = given.collect::<Result<Vec<_>, TeError>>()?;
        arrays.extend(self.outputs.iter().map(|(_, x)| Array::unwritten(x.element, &x.shape)));
        program.interpret(&mut arrays)?;
        Ok(arrays[self.inputs.len()..].iter().map(Array::values).collect())
    }

    fn run(&self, kernel: &te::Kernel, device: &Device) -> Result<Vec<Vec<f64>>, TeError> {
        let given: Vec<_> = self.inputs.iter().map(|(_, x)| x.on(device)).collect();
        let mut made = Vec::new();
        for (_, x) in &self.outputs {
            made.push(device.zeros_of(x.element, &x.shape)?);
        }
        let mut arguments: Vec<epilogue::Argument<'_>> = given.iter().map(Into::into).collect();
        arguments.extend(made.iter_mut().map(epilogue::Argument::from));
        kernel.run(&arguments)?;
        drop(arguments);
        Ok(made.iter().map(read).collect())
    }

    /// The results of the default schedule in the interpreter.
    pub(crate) fn by_default(&self) -> Result<Vec<Vec<f64>>, TeError> {
        self.interpreted(&te::lower(&self.schedule(), &self.arguments(), "main")?)
    }
}

/// The type of a tensor's elements.
pub(crate) fn element_of(tensor: &Tensor) -> ElementType {
    match tensor.dtype() {
        DType::Number(element) => element,
        DType::Bool => unreachable!("no argument is of truth values"),
    }
}

/// The outcome of one trial, with everything that describes it.
pub(crate) struct Tried {
    pub(crate) kind: &'static str,
    pub(crate) result: Result<Outcome, String>,
    pub(crate) time: Duration,
}

impl Generator {
    /// Generates a computation whose name contains a text, and a schedule for it, and tries it. `emulate` says how many
    /// of a thousand are also tried on the emulated device.
    pub(crate) fn try_seed(&self, seed: u64, of: &str, emulate: u32) -> Tried {
        let start = Instant::now();
        let mut random = Rng::with_seed(seed);
        let kinds = (self.kinds)();
        let chosen: Vec<usize> = (0..kinds.len()).filter(|kind| kinds[*kind].contains(of)).collect();
        assert!(!chosen.is_empty(), "no computation's name contains `{of}`: {}", kinds.join("; "));
        let kind = chosen[random.usize(..chosen.len())];
        let emulated = random.u32(..1000) < emulate;
        let result = self.try_kind(kind, &mut random, emulated);
        let result = result.map_err(|text| format!("{} {seed} (of `{of}`), {}\n{text}", self.name, kinds[kind]));
        Tried { kind: kinds[kind], result, time: start.elapsed() }
    }

    fn try_kind(&self, kind: usize, random: &mut Rng, emulated: bool) -> Result<Outcome, String> {
        let case = (self.case)(kind, random).map_err(|error| format!("the computation itself: {error}"))?;
        let trial = Trial::drawn(random, emulated);
        let mut world = World::new(&case);
        (self.schedule)(&mut world, random);
        let wrong = match case.check(&world.schedule, trial) {
            Ok(outcome) => return Ok(outcome),
            Err(wrong) => wrong,
        };
        let steps = smallest(&case, world.applied, trial, &wrong);
        Err(report(&case, &steps, trial))
    }
}

/// The steps without those that are not needed for a failure of the same kind.
fn smallest(case: &Case, mut steps: Vec<(usize, Primitive)>, trial: Trial, wrong: &Wrong) -> Vec<(usize, Primitive)> {
    let start = Instant::now();
    let fails = |steps: &[(usize, Primitive)]| {
        let failed = case.check(&World::replayed(case, steps).schedule, trial).err();
        failed.is_some_and(|failed| failed.kind() == wrong.kind())
    };
    loop {
        let before = steps.len();
        for place in (0..before).rev() {
            let mut fewer = steps.clone();
            fewer.remove(place);
            if start.elapsed() < Duration::from_secs(120) && fails(&fewer) {
                steps = fewer;
            }
        }
        if steps.len() == before {
            return steps;
        }
    }
}

fn report(case: &Case, steps: &[(usize, Primitive)], trial: Trial) -> String {
    let schedule = World::replayed(case, steps).schedule;
    let wrong = case.check(&schedule, trial);
    let shapes: Vec<String> =
        case.inputs.iter().map(|(tensor, x)| format!("{}: {}{:?}", tensor.name(), x.element, x.shape)).collect();
    let program = te::lower(&schedule, &case.arguments(), "main").map(|program| program.script());
    let program = program.unwrap_or_else(|error| error.to_string());
    let record = schedule.primitive_record().join("\n");
    format!("{}\n{trial:?}\n{record}\n{program}\n{wrong:?}", shapes.join(", "))
}

/// Tries `count` seeds, which depend on `PROPTEST_RNG_SEED` as in other random tests; at least a third must be right.
pub(crate) fn check_all(generator: &Generator, count: u32, emulate: u32) {
    let base = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0u64);
    let mut seeds = Rng::with_seed(base ^ u64::from(emulate));
    let mut right = 0;
    for _ in 0..cases(count) {
        match generator.try_seed(seeds.u64(..), "", emulate).result {
            Ok(outcome) => right += u32::from(outcome == Outcome::Right),
            Err(text) => panic!("{text}"),
        }
    }
    assert!(right >= cases(count) / 3, "only {right} schedules were run");
}
