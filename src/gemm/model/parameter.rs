//! The numbers that the model's times depend on, one by one: a machine's speeds and the constants.

use super::machine::Machine;
use crate::gemm::families::list::{Constant, Constants};

/// A speed: its name, its unit, and where it is.
type Speed = (&'static str, &'static str, fn(&mut Machine) -> &mut f64);

/// The speeds of a machine.
const SPEEDS: &[Speed] = &[
    ("machine.clock", "GHz", |machine| &mut machine.clock),
    ("machine.l2", "GB/s", |machine| &mut machine.l2_gigabytes_per_second),
    ("machine.l2_port", "bytes per clock and multiprocessor", |machine| &mut machine.l2_port_bytes_per_clock),
    ("machine.power_clock", "GHz", |machine| &mut machine.power_clock),
    ("machine.memory", "bytes per clock and multiprocessor", |machine| &mut machine.memory_bytes_per_clock),
];

/// One number that the model's times depend on: a machine's speed or a constant.
///
/// ```
/// use epilogue::gemm::{Machine, Parameter};
///
/// let latency = Parameter::all().find(|parameter| parameter.name() == "sm90.latency").expect("it is one");
/// let machine = latency.with(&Machine::h200(), 600.0);
/// assert_eq!((latency.of(&machine), latency.of(&Machine::h200())), (600.0, 900.0));
/// assert_eq!(latency.unit(), "clocks");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Parameter(Number);

/// Which number it is.
#[derive(Clone, Copy, Debug)]
enum Number {
    Speed(Speed),
    Constant(Constant),
}

impl Parameter {
    /// All of them: the machine's speeds, then the constants.
    pub fn all() -> impl Iterator<Item = Self> {
        let speeds = SPEEDS.iter().map(|speed| Number::Speed(*speed));
        speeds.chain(Constants::all().map(Number::Constant)).map(Self)
    }

    const fn words(&self) -> (&'static str, &'static str) {
        match self.0 {
            Number::Speed((name, unit, _)) | Number::Constant((name, unit, ..)) => (name, unit),
        }
    }

    /// Its owner and its own name: `machine.clock`, `sm90.latency`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.words().0
    }

    /// Its unit.
    #[must_use]
    pub const fn unit(&self) -> &'static str {
        self.words().1
    }

    fn place<'m>(&self, machine: &'m mut Machine) -> &'m mut f64 {
        match self.0 {
            Number::Speed((.., place)) => place(machine),
            Number::Constant((.., index, place)) => place(&mut machine.constants, index),
        }
    }

    /// Its value on a machine.
    #[must_use]
    pub fn of(&self, machine: &Machine) -> f64 {
        *self.place(&mut machine.clone())
    }

    /// The machine with this value in its place.
    #[must_use]
    pub fn with(&self, machine: &Machine, value: f64) -> Machine {
        let mut machine = machine.clone();
        *self.place(&mut machine) = value;
        machine
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Each is a number of its own: a change of one shows in no other.
    #[test]
    fn parameters_are_distinct() {
        let machine = Machine::h200();
        let names: BTreeSet<&str> = Parameter::all().map(|parameter| parameter.name()).collect();
        assert_eq!(names.len(), Parameter::all().count());
        for parameter in Parameter::all() {
            let other = parameter.with(&machine, 1234.5);
            let differs = |p: &Parameter| p.of(&other) != p.of(&machine);
            let changed: Vec<&str> = Parameter::all().filter(differs).map(|p| p.name()).collect();
            assert_eq!(changed, [parameter.name()]);
        }
    }
}
