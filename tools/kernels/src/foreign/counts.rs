//! The counts of a kernel's code in its parts, and how they are written: one line for each part, with what is not zero.

use std::fmt;

use super::super::predict::flow::{Flow, multiplies};
use super::super::predict::issue::{Unit, Work};
use super::super::sass::{Instruction, Sass, is};

/// The counts of one part of the code, for one warp.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Part {
    pub(super) work: Work,
    /// Bytes of shared memory that matrix loads read.
    pub(super) fragment_bytes: f64,
    /// Clocks of a warp alone before its first product and after its last: what comes between runs beside asynchronous
    /// products.
    pub(super) around: f64,
    /// Stores to global memory.
    pub(super) stores: usize,
}

/// The names of the units in a line, in the order of [`Unit::ALL`].
const UNITS: [&str; Unit::ALL.len()] =
    ["tensor", "float", "integer", "special", "shuffle", "shared", "memory", "uniform", "control"];

impl Part {
    fn of(code: &[&Instruction]) -> Self {
        let named = |name: &'static str| code.iter().copied().filter(move |one| is(&one.opcode, name));
        let products: Vec<usize> = (0..code.len()).filter(|place| multiplies(code[*place])).collect();
        let between = products.first().copied().unwrap_or(0)..products.last().map_or(0, |last| last + 1);
        let around = (0..code.len()).filter(|place| !between.contains(place)).map(|place| code[place]);
        Self {
            work: Work::of(code.iter().copied()),
            fragment_bytes: Work::of(named("LDSM")).shared_bytes,
            around: Work::of(around).alone,
            stores: named("STG").chain(named("ST")).count(),
        }
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (mut part, mut counts) = (Self::default(), [0; Unit::ALL.len()]);
        let [mut multiply_adds, mut product_bytes, mut shared_bytes, mut alone] = [0.0; 4];
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}`: write NAME=NUMBER"))?;
            let value: f64 = value.parse().map_err(|_| format!("`{word}`: `{value}` is no number"))?;
            if !(0.0..=1e9).contains(&value) {
                return Err(format!("`{word}`: a count is from 0 to 10^9"));
            }
            match (UNITS.iter().position(|unit| *unit == name), name) {
                (Some(unit), _) => counts[unit] = value as usize,
                (None, "multiply_adds") => multiply_adds = value,
                (None, "operand_bytes") => product_bytes = value,
                (None, "shared_bytes") => shared_bytes = value,
                (None, "fragment_bytes") => part.fragment_bytes = value,
                (None, "around") => part.around = value,
                (None, "stores") => part.stores = value as usize,
                (None, "alone") => alone = value,
                (None, _) => {
                    return Err(format!(
                        "`{name}` is no count: there are {}, multiply_adds, operand_bytes, shared_bytes, fragment_bytes, \
                         stores, alone and around",
                        UNITS.join(", ")
                    ));
                }
            }
        }
        part.work = Work::counted(counts, [multiply_adds, product_bytes, shared_bytes, alone]);
        Ok(part)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { counts, multiply_adds, product_bytes, shared_bytes, alone, .. } = &self.work;
        let units = UNITS.iter().zip(counts).map(|(name, count)| (*name, *count as f64));
        let others = [
            ("multiply_adds", *multiply_adds),
            ("operand_bytes", *product_bytes),
            ("shared_bytes", *shared_bytes),
            ("fragment_bytes", self.fragment_bytes),
            ("stores", self.stores as f64),
            ("alone", *alone),
            ("around", self.around),
        ];
        let written: Vec<String> = units
            .chain(others)
            .filter(|(_, value)| *value > 0.0)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        f.write_str(&written.join(" "))
    }
}

/// The counts of a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) prologue: Part,
    /// A turn of the loop of products.
    pub(super) product: Part,
    pub(super) tile: Part,
    pub(super) end: Part,
    pub(super) producer: Part,
}

impl Counts {
    /// The parts with their names.
    pub(super) fn parts(&self) -> [(&'static str, &Part); 5] {
        let Self { prologue, product, tile, end, producer } = self;
        [("prologue", prologue), ("product", product), ("tile_code", tile), ("end", end), ("producer", producer)]
    }

    /// Counts a kernel of a disassembled file: the one with `kernel` in its name.
    pub(super) fn of(text: &str, kernel: &str) -> Result<Self, String> {
        let sass = Sass::parse(section(text, kernel)?);
        let parts = Flow::of(&sass).parts().ok_or_else(|| format!("`{kernel}` has no loop of products"))?;
        let code = sass.instructions();
        let of = |places: &[usize]| Part::of(&places.iter().map(|place| &code[*place]).collect::<Vec<_>>());
        Ok(Self {
            prologue: of(&parts.prologue),
            product: of(&parts.product),
            tile: of(&parts.tile),
            end: of(&parts.end),
            producer: of(&parts.producer),
        })
    }
}

/// The text of one kernel.
fn section<'t>(text: &'t str, kernel: &str) -> Result<&'t str, String> {
    let sections = || text.split("\t.section\t").filter(|part| part.starts_with(".text."));
    fn name(part: &str) -> &str {
        part.split(',').next().unwrap_or_default().trim_start_matches(".text.")
    }
    match sections().filter(|part| name(part).contains(kernel)).collect::<Vec<_>>()[..] {
        [one] => Ok(one),
        _ => {
            let names: Vec<&str> = sections().map(name).collect();
            Err(format!("not exactly one kernel has `{kernel}` in its name; there are {}", names.join(", ")))
        }
    }
}
