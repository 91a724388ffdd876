//! The largest or the least f32 of a row's lanes, with NaN and zeros of both signs.
//!
//! Vector comparisons lose NaN, and take either of two zeros. So there are three results: by comparisons, by the
//! greatest bits as signed integers, and by the greatest bits as unsigned ones. The second is the largest number if any
//! is positive or +0, the third the least if any is negative or -0. Both also show NaN of either sign. These are three
//! independent instructions for a vector. A maximum that passes NaN on takes five, each waiting for the one before.

use super::body::{Binary, Body, JitValue};
use super::rows::{JitPlace, RowProgram};

/// The bits of an infinity, with the sign: only those of NaN are greater.
const INFINITE: u32 = 0xff80_0000;

/// The extreme of all lanes, by three comparisons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extreme {
    largest: bool,
    compared: JitPlace,
    signed: JitPlace,
    unsigned: JitPlace,
}

impl Body {
    /// Combines the values of all lanes with each other and with a number, which is not NaN. Takes three arguments.
    pub(crate) fn extreme(
        &mut self,
        program: &mut RowProgram,
        largest: bool,
        identity: u32,
        value: JitValue,
    ) -> Extreme {
        let compare = if largest { Binary::FirstGreater } else { Binary::FirstLess };
        let [compared, signed, unsigned] = [compare, Binary::GreatestI32, Binary::GreatestU32].map(|op| {
            let place = program.place();
            self.combine(op, identity, value, place, None);
            place
        });
        Extreme { largest, compared, signed, unsigned }
    }
}

impl Extreme {
    /// Its value, in a later stage. Takes three arguments.
    pub(crate) fn value(self, body: &mut Body) -> JitValue {
        let Self { largest, compared, signed, unsigned } = self;
        let [compared, signed, unsigned] = [compared, signed, unsigned].map(|place| body.held(place));
        let (minus_one, zero) = (body.integer(-1), body.integer(0));
        let value = if largest {
            let reaches = body.binary(Binary::GreaterI32, signed, minus_one);
            body.select(reaches, signed, compared)
        } else {
            let reaches = body.binary(Binary::GreaterI32, zero, unsigned);
            body.select(reaches, unsigned, compared)
        };
        // A positive NaN is the greatest signed integer. As an unsigned integer, a negative NaN is greater than minus
        // infinity; both are negative as signed integers, where the order is the same.
        let (most, least) = (body.bits(f32::INFINITY.to_bits()), body.bits(INFINITE));
        let positive = body.binary(Binary::GreaterI32, signed, most);
        let greater = body.binary(Binary::GreaterI32, unsigned, least);
        let is_negative = body.binary(Binary::GreaterI32, zero, unsigned);
        let negative = body.binary(Binary::And, greater, is_negative);
        let nan = body.binary(Binary::Or, positive, negative);
        body.binary(Binary::Or, value, nan)
    }
}
