//! Records the results of a device as JSON lines. Machines without that device can replay them: they run the same case
//! with the same seed on ptx-vm, and compare hashes.
//!
//! Seeds 2 and 3 are recorded. For tensor-core products of floats, even seeds give small integers, which are exact in
//! every order of addition. Odd seeds give numbers of any size; a device is then compared with the bit-exact model of
//! its generation. (Everywhere else odd seeds are compared with the chain of fused multiply-adds of the fast
//! arithmetic, which no device follows.)

use ptx_vm::{Arch, Arithmetic, Generation, Options};
use serde_json::{Value, json};

use crate::case::{Case, Compare};
use crate::device::{self, Device};
use crate::run;

/// The seeds that are recorded for every case.
pub const SEEDS: [u64; 2] = [2, 3];

/// The result of a device for one case and seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The case's name.
    pub case: String,
    /// The seed of its input.
    pub seed: u64,
    /// The hash of the module and the input. A record with another hash is of no use.
    pub question: String,
    /// The hash of the output. All NaN that the case accepts as equal are replaced by the same one before.
    pub output: String,
    /// The device.
    pub device: String,
    /// The version of the software that compiled and ran the kernel.
    pub driver: String,
    /// The compute capability.
    pub capability: (u32, u32),
    /// The agreement of the output with the expected one.
    pub agreement: Agreement,
}

/// The agreement of an output with the expected one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Agreement {
    /// Equal in every bit.
    Exact,
    /// Within the case's bound for an approximate function; with the largest distance in units of the last place.
    Near(f64),
    /// Beyond the case's bound; with the first slot beyond it.
    Differs(usize),
}

/// A line that is not a valid record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not a conformance record: {message}")]
pub struct BadRecord {
    /// The line, counted from 1.
    pub line: usize,
    /// The mistake in it.
    pub message: String,
}

/// The reason why a case gave no record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError<E: std::error::Error> {
    /// The device failed.
    #[error("{case}: {error}")]
    Device {
        /// The case.
        case: String,
        /// The error.
        error: E,
    },
    /// The machine failed. Its bit-exact model gives the expected output.
    #[error(transparent)]
    Machine(#[from] run::Failure),
}

/// The result of replaying a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Replay {
    /// ptx-vm gives the same bits, or the record is of an approximate function and within its bound.
    Reproduced,
    /// ptx-vm gives another result than the device did.
    Differs,
    /// The case has changed or was removed since it was recorded: record it again.
    Stale,
}

/// The generation whose bit-exact model a device of this capability follows.
pub fn generation(capability: (u32, u32)) -> Option<Generation> {
    of_device(capability).map(Arch::generation)
}

fn of_device(capability: (u32, u32)) -> Option<Arch> {
    Arch::ALL.into_iter().find(|arch| arch.capability() == capability)
}

impl Case {
    /// Whether the case is a product of floats on tensor cores, whose last bits depend on the order of addition.
    pub fn is_float_product(&self) -> bool {
        let product = self.name.starts_with("mma.") || self.name.starts_with("wgmma.");
        product && matches!(self.compare, Compare::Float(32) | Compare::HalfPair)
    }

    /// The expected output of a device of this capability for a seed; `None` if this is not known.
    fn answer(&self, seed: u64, input: &[u8], capability: (u32, u32)) -> Result<Option<Vec<u8>>, run::Failure> {
        if of_device(capability).is_none_or(|device| !device.runs(self.target.name())) {
            return Ok(None);
        }
        if !self.is_float_product() || seed.is_multiple_of(2) {
            return Ok(Some(self.expected(input)));
        }
        match generation(capability) {
            None => Ok(None),
            Some(generation) => {
                let options = Options::default().workers(1).arithmetic(Arithmetic::Exact(generation));
                run::output(self, input, options).map(Some)
            }
        }
    }

    fn question(&self, input: &[u8]) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.module.as_bytes()).update(&[0]).update(input);
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The hash of an output.
    fn output_hash(&self, output: &[u8]) -> String {
        let mut hasher = blake3::Hasher::new();
        for slot in output.chunks(8) {
            let bits = slot.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            hasher.update(&self.compare.canonical(bits).to_le_bytes()[..slot.len()]);
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    fn agreement(&self, output: &[u8], expected: &[u8]) -> Agreement {
        let slots = |bytes: &[u8]| -> Vec<u64> {
            bytes.chunks(8).map(|s| s.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))).collect()
        };
        let (output, expected) = (slots(output), slots(expected));
        let mut most = 0f64;
        for (slot, (found, expected)) in output.iter().zip(&expected).enumerate() {
            if !self.compare.accepts(*found, *expected) {
                return Agreement::Differs(slot);
            }
            most = most.max(self.compare.distance(*found, *expected));
        }
        match (output.len() == expected.len(), self.compare.is_exact()) {
            (false, _) => Agreement::Differs(output.len().min(expected.len())),
            (true, true) => Agreement::Exact,
            (true, false) => Agreement::Near(most),
        }
    }
}

/// Runs a case on a device. `None` if the device is too old for the case, or the expected output is not known.
///
/// # Errors
/// If the device fails. A different result is not an error; the record tells it.
pub fn record<D: Device>(device: &D, case: &Case, seed: u64) -> Result<Option<Record>, RecordError<D::Error>> {
    let input = case.input(seed);
    let capability = device.capability();
    let Some(expected) = case.answer(seed, &input, capability)? else { return Ok(None) };
    let output =
        device::output(device, case, &input).map_err(|error| RecordError::Device { case: case.name.clone(), error })?;
    Ok(Some(Record {
        case: case.name.clone(),
        seed,
        question: case.question(&input),
        output: case.output_hash(&output),
        device: device.name(),
        driver: device.driver(),
        capability,
        agreement: case.agreement(&output, &expected),
    }))
}

/// Runs a record's case on the machine, and compares the output with that of the device. `cases` are those of
/// [`all`](crate::cases::all).
///
/// # Errors
/// If the machine fails.
pub fn replay(record: &Record, cases: &[Case]) -> Result<Replay, run::Failure> {
    let Some(case) = cases.iter().find(|case| case.name == record.case) else { return Ok(Replay::Stale) };
    let input = case.input(record.seed);
    if case.question(&input) != record.question {
        return Ok(Replay::Stale);
    }
    if !case.compare.is_exact() {
        let within = matches!(record.agreement, Agreement::Near(_) | Agreement::Exact);
        return Ok(if within { Replay::Reproduced } else { Replay::Differs });
    }
    let arithmetic = match generation(record.capability) {
        Some(generation) if case.is_float_product() && !record.seed.is_multiple_of(2) => Arithmetic::Exact(generation),
        _ => Arithmetic::Fast,
    };
    let output = run::output(case, &input, Options::default().workers(1).arithmetic(arithmetic))?;
    Ok(if case.output_hash(&output) == record.output { Replay::Reproduced } else { Replay::Differs })
}

impl Record {
    /// One line of JSON, without a line end.
    pub fn to_json(&self) -> String {
        let (agreement, value) = match self.agreement {
            Agreement::Exact => ("exact", Value::Null),
            Agreement::Near(ulp) => ("ulp", json!(ulp)),
            Agreement::Differs(slot) => ("differs", json!(slot)),
        };
        json!({
            "case": self.case,
            "seed": self.seed,
            "question": self.question,
            "output": self.output,
            "device": self.device,
            "driver": self.driver,
            "capability": [self.capability.0, self.capability.1],
            "agreement": agreement,
            "distance": value,
        })
        .to_string()
    }

    /// Reads the lines of a file; empty lines are skipped.
    ///
    /// # Errors
    /// The first line that is not a valid record.
    pub fn read_all(text: &str) -> Result<Vec<Record>, BadRecord> {
        text.lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(index, line)| Record::from_json(line).map_err(|message| BadRecord { line: index + 1, message }))
            .collect()
    }

    fn from_json(line: &str) -> Result<Record, String> {
        let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let text =
            |name: &str| value[name].as_str().map(str::to_owned).ok_or_else(|| format!("`{name}` must be a text"));
        let capability = |index: usize| {
            let number = value["capability"][index].as_u64().and_then(|n| u32::try_from(n).ok());
            number.ok_or_else(|| "`capability` must be two numbers".to_owned())
        };
        let distance = &value["distance"];
        let agreement = match text("agreement")?.as_str() {
            "exact" => Agreement::Exact,
            "ulp" => Agreement::Near(distance.as_f64().ok_or("`distance` must be a number")?),
            "differs" => {
                let slot = distance.as_u64().ok_or("`distance` must be the number of a slot")?;
                Agreement::Differs(usize::try_from(slot).map_err(|e| e.to_string())?)
            }
            other => return Err(format!("`agreement` is `{other}`; it must be `exact`, `ulp` or `differs`")),
        };
        Ok(Record {
            case: text("case")?,
            seed: value["seed"].as_u64().ok_or("`seed` must be a number")?,
            question: text("question")?,
            output: text("output")?,
            device: text("device")?,
            driver: text("driver")?,
            capability: (capability(0)?, capability(1)?),
            agreement,
        })
    }
}
