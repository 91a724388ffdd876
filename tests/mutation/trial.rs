//! Running kernels and their mutants.

use epilogue::Device;
use epilogue_runtime::Arch;
use epilogue_runtime::ptx_vm::{Completion, Detector, Module, Options};

/// How a mutant was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kill {
    /// The text was refused before it ran.
    Refused,
    /// The race detector found something.
    Race,
    /// The launch failed: a deadlock, an uninitialised read, too many instructions.
    Stopped,
    /// The result lies outside of the reference's bounds, or outside of the outputs' memory.
    Wrong,
}

/// Ways in which asynchronous copies complete.
const COMPLETIONS: [Completion; 3] = [Completion::Eager, Completion::Lazy, Completion::Random];

/// Enough for every kernel here, many times over.
const INSTRUCTIONS: u64 = 3_000_000;

/// A kernel, as text.
pub(crate) struct Text {
    /// Its symbol.
    pub(crate) kernel: String,
    pub(crate) ptx: String,
    /// CUDA C++, and the name that the PTX gives it.
    pub(crate) source: String,
    pub(crate) file: String,
}

/// Work that kernels are tried on.
pub(crate) trait Subject: Sync {
    /// What the table and the list of survivors call it.
    fn name(&self) -> String;

    /// What it is compiled for.
    fn arch(&self) -> Arch {
        Arch::SM_80
    }

    /// Its kernel.
    fn text(&self, device: &Device) -> Result<Text, String>;

    /// Runs everything on one plan, so that a later run finds what an earlier one has left in the workspace, and compares
    /// with what is right.
    fn run(&self, device: &Device) -> Result<(), (Kill, String)>;
}

/// An error that a launch gave, and what it shows.
pub(crate) fn stopped(error: impl std::fmt::Display) -> (Kill, String) {
    let error = error.to_string();
    // As `epilogue_runtime::Error::Races` says it.
    (if error.contains("races or misused barriers") { Kill::Race } else { Kill::Stopped }, error)
}

/// A subject on devices in which copies complete in every way.
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

    /// Runs a mutant. `None` if nothing shows that it is one.
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
            // Only another kind of device could refuse.
            let _ = device.substitute(&self.text.kernel, None);
        }
        killed
    }

    fn run_all(&self) -> Option<(Kill, String)> {
        self.devices.iter().find_map(|device| self.subject.run(device).err())
    }
}
