//! Formats output of `printf` (CUDA C++ programming guide, "Formatted output"): flags, width, precision, sizes, and the
//! conversions `d i u o x X c s p f F e E g G a A %`.

use std::fmt::Write as _;

/// The argument that a conversion needs.
pub(in crate::exec) enum Wanted {
    /// The next value, of 4 or 8 bytes.
    Value { bytes: usize },
    /// The text at an address.
    Text(u64),
}

/// The argument that it is given.
pub(in crate::exec) enum Given {
    Value(u64),
    Text(String),
}

#[derive(Clone, Copy, Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// Number of bytes of an integer.
    bytes: usize,
}

/// The formatted text, and the number of values that it used.
pub(in crate::exec) fn format(
    format: &str,
    mut give: impl FnMut(Wanted) -> Option<Given>,
) -> Result<(String, u32), String> {
    let mut text = String::new();
    let mut count = 0;
    let mut rest = format.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            text.push('%');
            continue;
        }
        let mut value = |bytes: usize| match give(Wanted::Value { bytes }) {
            Some(Given::Value(value)) => Ok(value),
            _ => Err(format!("printf of `{format}` has too few values")),
        };
        let mut c = Conversion { bytes: 4, ..Conversion::default() };
        while let Some(flag) = rest.next_if(|l| "-+ #0".contains(*l)) {
            match flag {
                '-' => c.left = true,
                '+' => c.plus = true,
                ' ' => c.space = true,
                '#' => c.alternative = true,
                _ => c.zeros = true,
            }
        }
        let width = size(&mut rest, &mut value)?;
        c.left |= width < 0;
        c.width = width.unsigned_abs().min(4096) as usize;
        if rest.next_if_eq(&'.').is_some() {
            c.precision = usize::try_from(size(&mut rest, &mut value)?).ok().map(|p| p.min(4096));
        }
        let mut bytes = 4;
        while let Some(letter) = rest.next_if(|l| "hlLqjzt".contains(*l)) {
            bytes = match letter {
                'h' if bytes == 2 => 1,
                'h' => 2,
                _ => 8,
            };
        }
        c.bytes = bytes;
        let kind = rest.next().ok_or_else(|| format!("printf of `{format}` ends in a conversion"))?;
        let wide = if bytes == 8 { 8 } else { 4 };
        let converted = match kind {
            'd' | 'i' => signed(value(wide)?, c),
            'u' | 'o' | 'x' | 'X' => unsigned(value(wide)?, c, kind),
            'p' => unsigned(value(8)?, Conversion { alternative: true, bytes: 8, ..c }, 'x'),
            'c' => pad(&char::from(value(4)? as u8).to_string(), c),
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'a' | 'A' => float(f64::from_bits(value(8)?), c, kind),
            's' => {
                let address = value(8)?;
                let Some(Given::Text(found)) = give(Wanted::Text(address)) else {
                    return Err(format!("a value that printf of `{format}` takes for a text is none"));
                };
                let cut: String = found.chars().take(c.precision.unwrap_or(usize::MAX)).collect();
                pad(&cut, c)
            }
            other => return Err(format!("the conversion `%{other}` of printf is not supported")),
        };
        count += 1;
        text.push_str(&converted);
    }
    Ok((text, count))
}

/// A width or precision: digits, or `*`, which takes a value.
fn size(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    value: &mut dyn FnMut(usize) -> Result<u64, String>,
) -> Result<i32, String> {
    if rest.next_if_eq(&'*').is_some() {
        return Ok(value(4)? as i32);
    }
    let mut number = 0i32;
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        number = number.saturating_mul(10).saturating_add(digit as i32 - '0' as i32);
    }
    Ok(number)
}

fn pad(text: &str, c: Conversion) -> String {
    let missing = c.width.saturating_sub(text.chars().count());
    if c.left { text.to_owned() + &" ".repeat(missing) } else { " ".repeat(missing) + text }
}

/// A sign, and digits that may be padded with zeros.
fn number(sign: &str, digits: &str, zeros: bool, c: Conversion) -> String {
    let missing = c.width.saturating_sub(sign.len() + digits.len());
    if zeros && !c.left { format!("{sign}{}{digits}", "0".repeat(missing)) } else { pad(&format!("{sign}{digits}"), c) }
}

fn sign(negative: bool, c: Conversion) -> &'static str {
    match (negative, c.plus, c.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

fn with_precision(digits: String, c: Conversion) -> String {
    match c.precision {
        Some(0) if digits == "0" => String::new(),
        Some(precision) => "0".repeat(precision.saturating_sub(digits.len())) + &digits,
        None => digits,
    }
}

fn signed(bits: u64, c: Conversion) -> String {
    let unused = 64 - 8 * c.bytes;
    let value = (bits << unused).cast_signed() >> unused;
    let digits = with_precision(value.unsigned_abs().to_string(), c);
    number(sign(value < 0, c), &digits, c.zeros && c.precision.is_none(), c)
}

fn unsigned(bits: u64, c: Conversion, kind: char) -> String {
    let value = bits & (u64::MAX >> (64 - 8 * c.bytes));
    let digits = match kind {
        'o' => format!("{value:o}"),
        'x' => format!("{value:x}"),
        'X' => format!("{value:X}"),
        _ => value.to_string(),
    };
    let prefix = match kind {
        'x' if c.alternative && value != 0 => "0x",
        'X' if c.alternative && value != 0 => "0X",
        'o' if c.alternative && value != 0 => "0",
        _ => "",
    };
    number(prefix, &with_precision(digits, c), c.zeros && c.precision.is_none(), c)
}

fn float(value: f64, c: Conversion, kind: char) -> String {
    let upper = kind.is_ascii_uppercase();
    let magnitude = value.abs();
    let precision = c.precision.unwrap_or(6);
    let finite = value.is_finite();
    let digits = match kind.to_ascii_lowercase() {
        _ if value.is_nan() => "nan".to_owned(),
        _ if !finite => "inf".to_owned(),
        'f' => fixed(magnitude, precision, c.alternative),
        'e' => exponential(magnitude, precision, c.alternative),
        'g' => general(magnitude, precision.max(1), c.alternative),
        _ => hexadecimal(magnitude, c.precision, c.alternative),
    };
    let digits = if upper { digits.to_ascii_uppercase() } else { digits };
    number(sign(value.is_sign_negative() && !value.is_nan(), c), &digits, c.zeros && finite, c)
}

fn fixed(x: f64, precision: usize, point: bool) -> String {
    let mut text = format!("{x:.precision$}");
    if point && precision == 0 {
        text.push('.');
    }
    text
}

fn exponential(x: f64, precision: usize, point: bool) -> String {
    let text = format!("{x:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if point && precision == 0 { "." } else { "" };
    format!("{mantissa}{point}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// C's `%g`: the shorter notation, without trailing zeros unless they are requested.
fn general(x: f64, precision: usize, keep: bool) -> String {
    let scientific = exponential(x, precision - 1, keep);
    let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let in_range = (-4..precision as i32).contains(&exponent);
    let text = if in_range { fixed(x, (precision as i32 - 1 - exponent).max(0) as usize, keep) } else { scientific };
    if keep || !text.contains('.') {
        return text;
    }
    let (mantissa, exponent) = text.split_once('e').map_or((text.as_str(), None), |(m, e)| (m, Some(e)));
    let mut short = mantissa.trim_end_matches('0').trim_end_matches('.').to_owned();
    if let Some(exponent) = exponent {
        let _ = write!(short, "e{exponent}");
    }
    short
}

fn hexadecimal(x: f64, precision: Option<usize>, point: bool) -> String {
    let bits = x.to_bits();
    let (field, mut fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    let mut leading = u64::from(field != 0);
    let exponent = if x == 0.0 { 0 } else { field.max(1) as i64 - 1023 };
    let mut digits = 13;
    if let Some(precision) = precision.filter(|p| *p < 13) {
        // Rounded to nearest, ties to even.
        let shift = 4 * (13 - precision as u32);
        let whole = leading << 52 | fraction;
        let (half, rest) = (1u64 << (shift - 1), whole & ((1 << shift) - 1));
        let up = rest > half || rest == half && whole >> shift & 1 != 0;
        let rounded = (whole >> shift) + u64::from(up);
        leading = rounded >> (52 - shift);
        fraction = (rounded & ((1 << (52 - shift)) - 1)) << shift;
        digits = precision;
    }
    let all = format!("{fraction:013x}");
    let mut kept = all[..digits].to_owned();
    match precision {
        None => kept.truncate(kept.trim_end_matches('0').len()),
        Some(precision) => kept += &"0".repeat(precision.saturating_sub(13)),
    }
    let dot = if kept.is_empty() && !point { "" } else { "." };
    format!("0x{leading}{dot}{kept}p{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(text: &str, values: &[u64]) -> Result<String, String> {
        let mut left = values.iter();
        format(text, |wanted| match wanted {
            Wanted::Value { .. } => left.next().map(|v| Given::Value(*v)),
            Wanted::Text(7) => Some(Given::Text("seven".into())),
            Wanted::Text(_) => None,
        })
        .map(|(text, count)| {
            assert_eq!(count as usize, values.len(), "{text}");
            text
        })
    }

    /// The output of C's printf (glibc).
    #[test]
    fn formats_are_as_in_c() {
        let minus_five = (-5i32).cast_unsigned().into();
        let x = |x: f64| x.to_bits();
        for (format, values, expected) in [
            ("%d|%5d|%-5d|%05d", vec![minus_five; 4], "-5|   -5|-5   |-0005"),
            ("%u %lld", vec![minus_five, u64::MAX], "4294967291 -1"),
            ("%#x %X %#o %08x", vec![255, 255, 8, 48], "0xff FF 010 00000030"),
            ("%+d % d %.3d %6.3d", vec![5, 5, 5, 5], "+5  5 005    005"),
            ("%c%c %s|%8s|%-8s|%.3s", vec![65, 66, 7, 7, 7, 7], "AB seven|   seven|seven   |sev"),
            (
                "%f %.2f %8.3f %-8.1f| %08.2f",
                vec![x(1.5), x(2.0 / 3.0), x(-1.0), x(2.25), x(-3.0)],
                "1.500000 0.67   -1.000 2.2     | -0003.00",
            ),
            ("%e %.0e %E", vec![x(12345.678), x(5e-324), x(0.0)], "1.234568e+04 5e-324 0.000000E+00"),
            (
                "%g %g %g %g %#g",
                vec![x(0.0001), x(1e-5), x(123_456_789.0), x(100_000.0), x(1.0)],
                "0.0001 1e-05 1.23457e+08 100000 1.00000",
            ),
            ("%a %.1a %a", vec![x(1.0), x(1.97), x(0.0)], "0x1p+0 0x2.0p+0 0x0p+0"),
            (
                "%f %F %5.1f|%05f",
                vec![x(f64::NAN), x(f64::INFINITY), x(f64::NEG_INFINITY), x(f64::INFINITY)],
                "nan INF  -inf|  inf",
            ),
            ("100%% %hd %hhd %*d", vec![0x1_ffff, 0x1ff, 6, 42], "100% -1 -1     42"),
        ] {
            let wanted = expected.to_owned();
            let star = format.contains('*');
            if star {
                let mut left = values.iter();
                let (text, _) = super::format(format, |_| left.next().map(|v| Given::Value(*v))).unwrap();
                assert_eq!(text, wanted);
            } else {
                assert_eq!(print(format, &values), Ok(wanted), "{format}");
            }
        }
        assert!(print("%d", &[]).is_err());
        assert!(print("%s", &[8]).is_err());
        assert!(print("%n", &[8]).is_err());
        assert!(print("%", &[]).is_err());
    }
}
