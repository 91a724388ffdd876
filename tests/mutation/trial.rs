//! Runs kernels and their mutants.

use epilogue::gemm::Reference;
use epilogue::{Device, DeviceTensor, Error, Gemm};
use epilogue_runtime::Arch;
use epilogue_runtime::ptx_vm::{Completion, Detector, Module, Options};

/// How a mutant was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kill {
    /// The text was refused before it was run.
    Refused,
    /// The race detector found something.
    Race,
    /// The launch failed: a deadlock, an uninitialised read, too many instructions.
    Stopped,
    /// The result is outside of the reference's bounds, or was written outside of the outputs' memory.
    Wrong,
}

/// The ways in which asynchronous copies can complete.
const COMPLETIONS: [Completion; 3] = [Completion::Eager, Completion::Lazy, Completion::Random];

/// Enough for every kernel here, many times over.
pub(crate) const INSTRUCTIONS: u64 = 3_000_000;

/// A kernel, as text.
pub(crate) struct Text {
    /// Its symbol.
    pub(crate) kernel: String,
    pub(crate) ptx: String,
    /// CUDA C++, and the name that the PTX gives it.
    pub(crate) source: String,
    pub(crate) file: String,
}

impl Text {
    /// That of a plan's kernel.
    pub(crate) fn of<E>(gemm: &Gemm<E>) -> Result<Self, String> {
        let (Some(kernel), Some(source)) = (gemm.kernel(), gemm.kernel_source()) else {
            return Err("no kernel".into());
        };
        Ok(Self {
            kernel: kernel.name().to_owned(),
            ptx: kernel.ptx().to_owned(),
            source: source.code.clone(),
            file: source.name.clone(),
        })
    }
}

/// Work on which kernels are tried.
pub(crate) trait Subject: Sync {
    /// Its name in the table and in the list of survivors.
    fn name(&self) -> String;

    /// The architecture that it is compiled for.
    fn arch(&self) -> Arch {
        Arch::SM_80
    }

    /// Its kernel.
    fn text(&self, device: &Device) -> Result<Text, String>;

    /// Runs everything with one plan, so that a later run finds the workspace as an earlier one has left it. Compares
    /// with the correct results.
    fn run(&self, device: &Device) -> Result<(), (Kill, String)>;
}

/// An error of a launch, and what it shows.
pub(crate) fn stopped(error: impl std::fmt::Display) -> (Kill, String) {
    let error = error.to_string();
    // The text is that of `epilogue_runtime::Error::Races`.
    (if error.contains("races or misused barriers") { Kill::Race } else { Kill::Stopped }, error)
}

/// Whether the results of a run, by name, are within the reference's bounds.
pub(crate) fn are_right(expected: &Reference, results: &[(&str, &DeviceTensor)]) -> Result<bool, Error> {
    for (name, result) in results {
        if expected.compare(name, result)?.check().is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A subject, with devices for each way in which copies complete.
pub(crate) struct Bench<'s> {
    subject: &'s dyn Subject,
    devices: Vec<Device>,
    pub(crate) text: Text,
}

impl<'s> Bench<'s> {
    /// Tries the kernel itself.
    pub(crate) fn new(subject: &'s dyn Subject) -> Result<Self, String> {
        let options = Options::default().workers(1).detector(Detector::On).instruction_limit(INSTRUCTIONS);
        let on = |completion| Device::emulated_with(subject.arch(), options.clone().completion(completion));
        let devices = COMPLETIONS.into_iter().map(on).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        let text = subject.text(&devices[0])?;
        let bench = Self { subject, devices, text };
        match bench.run_all() {
            None => Ok(bench),
            Some((_, why)) => Err(format!("{}: the kernel itself: {why}", subject.name())),
        }
    }

    /// Runs a mutant; `None` if nothing shows that it is wrong.
    pub(crate) fn kill(&self, ptx: &str) -> Option<(Kill, String)> {
        let module = match Module::parse(ptx) {
            Ok(module) => module,
            Err(error) => return Some((Kill::Refused, error.to_string())),
        };
        for device in &self.devices {
            if let Err(error) = device.substitute(&self.text.kernel, Some(module.clone())) {
                return Some((Kill::Refused, error.to_string()));
            }
        }
        let killed = self.run_all();
        for device in &self.devices {
            // Only devices of other kinds refuse this.
            let _ = device.substitute(&self.text.kernel, None);
        }
        killed
    }

    fn run_all(&self) -> Option<(Kill, String)> {
        self.devices.iter().find_map(|device| self.subject.run(device).err())
    }
}
