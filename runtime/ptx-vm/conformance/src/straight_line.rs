//! Random straight-line programs, and a scalar interpreter for them that is made of the cases' oracles.
//!
//! A program works on the registers of one thread: predicates, 16-, 32- and 64-bit integers, `.f32` and `.f64`.
//! Instructions are drawn from all cases that apply one instruction to registers and whose result is exact; some are
//! guarded. Threads load their registers, run the program and store their registers.

use ptx_vm::Arch;

use crate::case::{Case, Compare, LaneForm};
use crate::template;
use crate::values::{Kind, Random};

/// The parts of a register file: the kind whose values fill it at the start, the comparison, and the size.
const FILES: [(Kind, Compare, usize); 6] = [
    (Kind::Predicate, Compare::Exact, 6),
    (Kind::B16, Compare::Exact, 10),
    (Kind::B32, Compare::Exact, 10),
    (Kind::B64, Compare::Exact, 10),
    (Kind::F32, Compare::Float(32), 10),
    (Kind::F64, Compare::Float(64), 6),
];

/// The file that holds registers of a kind.
fn file(kind: Kind) -> usize {
    FILES.iter().position(|(k, ..)| k.register() == kind.register()).unwrap_or_default()
}

/// The number of threads of a program's launch.
pub const THREADS: usize = 64;

/// The number of registers of a thread.
fn registers() -> usize {
    FILES.iter().map(|(_, _, count)| count).sum()
}

/// One instruction of a program.
struct Step {
    form: usize,
    destination: usize,
    operands: Vec<usize>,
    /// A predicate, and whether it must be false.
    guard: Option<(usize, bool)>,
}

/// A random program.
pub struct Program {
    steps: Vec<Step>,
}

/// The instructions from which programs are made.
pub struct Instructions {
    forms: Vec<(LaneForm, Compare)>,
}

impl Instructions {
    /// All instructions on registers with exact results. Instructions that keep the payload or the sign of a NaN are
    /// left out, because the document leaves these open.
    pub fn of_cases(cases: &[Case]) -> Self {
        let keeps_nan = ["copysign", "cvt.f32.bf16", "cvt.f64", "cvt.rna.tf32"];
        let forms = cases
            .iter()
            .filter(|case| {
                !matches!(case.compare, Compare::Near { .. } | Compare::NearHalf { .. } | Compare::NearDouble { .. })
            })
            .filter_map(|case| case.lane.clone().map(|form| (form, case.compare)))
            .filter(|(form, _)| !keeps_nan.iter().any(|prefix| form.opcode.starts_with(prefix)))
            .collect();
        Instructions { forms }
    }

    /// The number of instructions.
    pub fn count(&self) -> usize {
        self.forms.len()
    }

    /// A program of `length` instructions.
    pub fn program(&self, random: &mut Random, length: usize) -> Program {
        let steps = (0..length)
            .map(|_| {
                let form = random.below(self.forms.len());
                let mut pick = |kind: Kind| random.below(FILES[file(kind)].2);
                let destination = pick(self.forms[form].0.result);
                let operands = self.forms[form].0.operands.iter().map(|kind| pick(*kind)).collect();
                let guarded = random.below(3) == 0;
                let guard = guarded.then(|| (random.below(FILES[0].2), random.below(2) == 0));
                Step { form, destination, operands, guard }
            })
            .collect();
        Program { steps }
    }

    /// The program's module. Its kernel is `test`, which takes the input buffer and the output buffer.
    pub fn module(&self, program: &Program) -> String {
        let mut body = String::new();
        let mut offset = 0;
        for (kind, _, count) in FILES {
            for index in 0..count {
                body += &kind.load(index, offset);
                offset += 8;
            }
        }
        for step in &program.steps {
            let form = &self.forms[step.form].0;
            let operands: Vec<String> =
                form.operands.iter().zip(&step.operands).map(|(kind, i)| format!("{}{i}", kind.register())).collect();
            let guard = match step.guard {
                None => String::new(),
                Some((predicate, negated)) => format!("@{}%p{predicate} ", if negated { "!" } else { "" }),
            };
            body += &format!(
                "    {guard}{} {}{}, {}{};\n",
                form.opcode,
                form.result.register(),
                step.destination,
                operands.join(", "),
                form.suffix
            );
        }
        let mut offset = 0;
        for (kind, _, count) in FILES {
            for index in 0..count {
                body += &kind.store(index, offset);
                offset += 8;
            }
        }
        template::module(Arch::Sm90a, "", "", 8 * registers(), 8 * registers(), &body)
    }

    /// The initial registers of the threads.
    pub fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..THREADS {
            for (kind, _, count) in FILES {
                for _ in 0..count {
                    bytes.extend(kind.value(random).to_le_bytes());
                }
            }
        }
        bytes
    }

    /// The final registers of the threads.
    pub fn interpret(&self, program: &Program, input: &[u8]) -> Vec<u8> {
        input
            .chunks_exact(8 * registers())
            .flat_map(|row| {
                let mut words = crate::elementwise::words(row).into_iter();
                let mut files: Vec<Vec<u64>> =
                    FILES.iter().map(|(_, _, count)| words.by_ref().take(*count).collect()).collect();
                for predicate in &mut files[0] {
                    *predicate = u64::from(*predicate != 0);
                }
                for step in &program.steps {
                    self.apply(step, &mut files);
                }
                files.concat()
            })
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    fn apply(&self, step: &Step, files: &mut [Vec<u64>]) {
        if let Some((predicate, negated)) = step.guard
            && (files[0][predicate] != 0) == negated
        {
            return;
        }
        let (form, compare) = &self.forms[step.form];
        let operands: Vec<u64> = form
            .operands
            .iter()
            .zip(&step.operands)
            .map(|(kind, index)| files[file(*kind)][*index] & (u64::MAX >> (64 - kind.bits())))
            .collect();
        let keeps_sign = form.opcode.starts_with("neg") || form.opcode.starts_with("abs");
        let result = (form.oracle)(&operands);
        let result = if keeps_sign { result } else { canonical(*compare, result) };
        files[file(form.result)][step.destination] = result;
    }

    /// The first register in which two outputs differ: thread, register, found, expected.
    pub fn difference(&self, found: &[u8], expected: &[u8]) -> Option<String> {
        let names: Vec<(String, Compare)> = FILES
            .iter()
            .flat_map(|(kind, compare, count)| (0..*count).map(|i| (format!("{}{i}", kind.register()), *compare)))
            .collect();
        let words = crate::elementwise::words;
        words(found).iter().zip(words(expected)).enumerate().find_map(|(slot, (found, expected))| {
            let (name, compare) = &names[slot % registers()];
            let differs = !compare.accepts(*found, expected);
            differs.then(|| format!("thread {} {name}: {found:#x}, expected {expected:#x}", slot / registers()))
        })
    }
}

/// The NaN that instructions of a type produce.
fn canonical(compare: Compare, bits: u64) -> u64 {
    let one = |nan: u64, top: u64, bits: u64| if bits & nan > top { nan } else { bits };
    match compare {
        Compare::Float(16) => one(0x7fff, 0x7c00, bits),
        Compare::Float(32) => one(0x7fff_ffff, 0x7f80_0000, bits),
        Compare::Brain => one(0x7fff, 0x7f80, bits),
        Compare::HalfPair => one(0x7fff, 0x7c00, bits & 0xffff) | one(0x7fff, 0x7c00, bits >> 16) << 16,
        Compare::BrainPair => one(0x7fff, 0x7f80, bits & 0xffff) | one(0x7fff, 0x7f80, bits >> 16) << 16,
        _ => bits,
    }
}
