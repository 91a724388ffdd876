//! Numbers as C++ text.

use super::formula::Scalar;
use crate::expr::Real;

/// A number, exactly: the shortest decimal with the same value, or its bits if there is none.
#[must_use]
pub fn literal(value: f64, real: Real) -> String {
    match real {
        #[expect(clippy::cast_possible_truncation)]
        Real::F32 => {
            let value = value as f32;
            if value.is_finite() { format!("{value:?}f") } else { format!("__int_as_float({:#010x})", value.to_bits()) }
        }
        Real::F64 if value.is_finite() => format!("{value:?}"),
        Real::F64 => format!("__longlong_as_double({:#018x}LL)", value.to_bits()),
    }
}

/// An integer as C++ text, in the given integer type.
#[must_use]
pub fn integer(value: i64, scalar: Scalar) -> String {
    match (scalar, value) {
        // A literal has no sign, and 2^63 is outside of its type.
        (Scalar::I64, i64::MIN) => "(-9223372036854775807ll - 1)".to_owned(),
        (Scalar::I64, value) => format!("{value}ll"),
        (_, value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back() {
        for (value, f32_text, f64_text) in [
            (0.5, "0.5f", "0.5"),
            (-0.0, "-0.0f", "-0.0"),
            (1.0, "1.0f", "1.0"),
            (0.1, "0.1f", "0.1"),
            (1e-30, "1e-30f", "1e-30"),
            (1e20, "1e20f", "1e20"),
            (f64::INFINITY, "__int_as_float(0x7f800000)", "__longlong_as_double(0x7ff0000000000000LL)"),
        ] {
            assert_eq!(literal(value, Real::F32), f32_text);
            assert_eq!(literal(value, Real::F64), f64_text);
        }
    }
}
