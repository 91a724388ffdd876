//! Results that a device gave, kept as JSON lines, so that machines without that device can replay them: run the same
//! case from the same seed on ptx-vm and compare hashes.
//!
//! Which seeds are recorded: 2 and 3. For products of floats on tensor cores even seeds are small integers, exact in
//! every order of addition; odd seeds are numbers of any size, for which the bit model of the device's generation is
//! what a device is compared with (everywhere else odd seeds are compared with the chain of fused multiply-adds that the
//! fast arithmetic promises, which no device follows).

use ptx_vm::{Arithmetic, Generation, Options};
use serde_json::{Value, json};

use crate::case::{Case, Compare};
use crate::device::{self, Device};
use crate::run;

/// The seeds that are recorded of every case.
pub const SEEDS: [u64; 2] = [2, 3];

/// What a device gave for one case and seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The case's name.
    pub case: String,
    /// The seed of its input.
    pub seed: u64,
    /// The hash of the module and the input: a record of another question says nothing.
    pub question: String,
    /// The hash of the output, in which every NaN that the case takes for any NaN is the same one.
    pub output: String,
    /// The device.
    pub device: String,
    /// The version of what compiled and ran the kernel.
    pub driver: String,
    /// The compute capability.
    pub capability: (u32, u32),
    /// How far the output was from the expected one.
    pub agreement: Agreement,
}

/// How far an output is from the expected one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Agreement {
    /// Bit for bit.
    Exact,
    /// Within the case's bound for an approximate function; the largest distance in units of the last place.
    Near(f64),
    /// Beyond what the case allows; the first slot.
    Differs(usize),
}

/// A line that is no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no conformance record: {message}")]
pub struct BadRecord {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

/// Why no record came of a case.
#[derive(Debug, thiserror::Error)]
pub enum RecordError<E: std::error::Error> {
    /// The device failed.
    #[error("{case}: {error}")]
    Device {
        /// The case.
        case: String,
        /// Why.
        error: E,
    },
    /// The machine, whose bit model gives what to compare with, failed.
    #[error(transparent)]
    Machine(#[from] run::Failure),
}

/// What came of replaying a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Replay {
    /// ptx-vm gives the same bits, or the record is of an approximate function and within its bound.
    Reproduced,
    /// ptx-vm gives something else than the device did.
    Differs,
    /// The case is not what it was when it was recorded, or is gone: record it again.
    Stale,
}

/// The generation whose bit model a device of this capability follows.
pub fn generation(capability: (u32, u32)) -> Option<Generation> {
    match capability {
        (8, 0) => Some(Generation::Ampere),
        (9, 0) => Some(Generation::Hopper),
        _ => None,
    }
}

impl Case {
    /// Whether the case is a product of floats on tensor cores, whose last bits depend on the order of addition.
    pub fn is_float_product(&self) -> bool {
        let product = self.name.starts_with("mma.") || self.name.starts_with("wgmma.");
        product && matches!(self.compare, Compare::Float(32) | Compare::HalfPair)
    }

    /// What a device of this capability is to give for a seed; `None` if nothing here says so.
    fn answer(&self, seed: u64, input: &[u8], capability: (u32, u32)) -> Result<Option<Vec<u8>>, run::Failure> {
        if self.target.capability() > capability {
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

/// Runs a case on a device; `None` if the device is older than the case or there is nothing to compare it with.
///
/// # Errors
/// If the device fails. A result that differs is no error but a record that says so.
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

/// Runs a record's case on the machine and compares with what the device gave. `cases` are those of
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
    /// One line of JSON, without its end.
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

    /// Reads the lines of a file; empty ones are left out.
    ///
    /// # Errors
    /// The first line that is no record.
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
