//! Floating-point arithmetic (PTX ISA §9.7.3, §9.7.4).

use super::arithmetic::{map1, map2, map3};
use super::bind::float::{bf16, f16, f64_functions, flush, flush_saturate, plain, saturate};
use super::bind::handler;
use super::bind::lanes::{Map1, Map2, Map3};
use super::decoder::Decoder;
use super::opcode::Opcode;
use crate::error::ParseError;
use crate::numerics::approx;
use crate::numerics::convert::{Bf16Type, F16Type};
use crate::numerics::float::{self, FloatMode, MinMax, double};
use crate::numerics::format::{F32, F64, Format, Rounding};
use crate::numerics::half::{self, HalfMode};
use crate::numerics::packed;
use crate::program::Handler;
use crate::program::flags::{Widths, when};
use crate::syntax::ast::{Operand, ScalarType};

/// The f32 handler for each combination of `.ftz` and `.sat`.
macro_rules! f32_by_mode {
    ($map:ident, $f:ident, $flush:expr, $saturate:expr) => {
        match ($flush, $saturate) {
            (false, false) => $map!(plain::$f),
            (true, false) => $map!(flush::$f),
            (false, true) => $map!(saturate::$f),
            (true, true) => $map!(flush_saturate::$f),
        }
    };
}

/// The modifiers that floating-point instructions share.
#[derive(Clone, Copy)]
struct Modifiers {
    rounding: Rounding,
    flush: bool,
    saturate: bool,
    relu: bool,
    nan: bool,
    xorsign_abs: bool,
    approximate: bool,
    full: bool,
}

impl Modifiers {
    fn read(opcode: &mut Opcode<'_>) -> Self {
        let rounding = opcode.rounding().unwrap_or_default();
        let modifiers = Self {
            rounding,
            flush: opcode.take("ftz"),
            saturate: opcode.take("sat"),
            relu: opcode.take("relu"),
            nan: opcode.take("NaN"),
            xorsign_abs: opcode.take("xorsign"),
            approximate: opcode.take("approx"),
            full: opcode.take("full"),
        };
        if modifiers.xorsign_abs {
            opcode.take("abs");
        }
        modifiers
    }

    fn min_max(self) -> MinMax {
        MinMax { flush: self.flush, nan: self.nan, xorsign_abs: self.xorsign_abs }
    }

    fn half(self) -> HalfMode {
        HalfMode { flush: self.flush, saturate: self.saturate, relu: self.relu }
    }
}

impl<'a> Decoder<'a> {
    /// Decodes a floating-point instruction; false if it is another one.
    pub(super) fn floating(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
    ) -> Result<bool, ParseError> {
        const MNEMONICS: [&str; 23] = [
            "add", "sub", "mul", "fma", "mad", "div", "min", "max", "neg", "abs", "rcp", "sqrt", "rsqrt", "ex2", "lg2",
            "sin", "cos", "tanh", "copysign", "testp", "add_rn", "sub_rn", "mul_rn",
        ];
        if !MNEMONICS.contains(&opcode.base()) {
            return Ok(false);
        }
        let modifiers = Modifiers::read(opcode);
        let scalar = opcode.scalar()?;
        if opcode.base() == "testp" {
            self.test_property(opcode, operands, scalar)?;
            return Ok(true);
        }
        match scalar {
            ScalarType::F32 => self.float32(opcode, operands, modifiers)?,
            ScalarType::F64 => self.float64(opcode, operands, modifiers)?,
            ScalarType::F16 | ScalarType::F16x2 | ScalarType::Bf16 | ScalarType::Bf16x2 => {
                self.half_precision(opcode, operands, modifiers, scalar)?;
            }
            _ => return Err(opcode.error("this type is not supported")),
        }
        Ok(true)
    }

    /// Emits a handler with as many sources as there are operands.
    fn float_handler(
        &mut self,
        opcode: &Opcode<'_>,
        operands: &[Operand<'_>],
        run: Handler,
        scalar: ScalarType,
        sources: usize,
    ) -> Result<(), ParseError> {
        match sources {
            1 => self.unary(opcode, operands, Some(run), [scalar; 2]),
            2 => self.binary(opcode, operands, Some(run), scalar),
            _ => self.ternary(opcode, operands, Some(run), [scalar; 4]),
        }
    }

    /// Emits a function on the bits of operands that all have one type.
    fn float_general(
        &mut self,
        opcode: &Opcode<'_>,
        operands: &[Operand<'_>],
        scalar: ScalarType,
        sources: usize,
        function: impl Fn([u64; 3]) -> u64 + Send + Sync + 'static,
    ) -> Result<(), ParseError> {
        self.count(opcode, operands, sources + 1..=sources + 1)?;
        let mut i = self.empty();
        let mut rows = [0; 3];
        for n in 0..sources {
            rows[n] = self.source(&operands[n + 1], scalar)?;
        }
        [i.a, i.b, i.c] = rows;
        i.d = self.destination(&operands[0], scalar)?;
        if scalar.bytes() == 8 {
            i.flags = Widths::WIDE_D.bits() | when(Widths::WIDE_A, sources > 0);
            i.flags |= when(Widths::WIDE_B, sources > 1) | when(Widths::WIDE_C, sources > 2);
        }
        self.push_general(i, function);
        Ok(())
    }

    fn float32(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        m: Modifiers,
    ) -> Result<(), ParseError> {
        let f = ScalarType::F32;
        let nearest = m.rounding == Rounding::NearestEven;
        let mode = FloatMode { rounding: m.rounding, flush: m.flush, saturate: m.saturate };
        let bits = |x: u64| f32::from_bits(x as u32);
        let base = opcode.base();
        let plain_modifiers = !m.relu && !m.nan && !m.xorsign_abs;
        if !plain_modifiers && !matches!(base, "min" | "max") {
            return Err(opcode.error("a modifier is not known for this type"));
        }
        let run = match base {
            "add" if nearest => f32_by_mode!(map2, Add, m.flush, m.saturate),
            "sub" if nearest => f32_by_mode!(map2, Sub, m.flush, m.saturate),
            "mul" if nearest => f32_by_mode!(map2, Mul, m.flush, m.saturate),
            "fma" | "mad" if nearest => f32_by_mode!(map3, Fma, m.flush, m.saturate),
            "min" if plain_modifiers => f32_by_mode!(map2, Min, m.flush, false),
            "max" if plain_modifiers => f32_by_mode!(map2, Max, m.flush, false),
            "neg" => f32_by_mode!(map1, Neg, m.flush, false),
            "abs" => f32_by_mode!(map1, Abs, m.flush, false),
            "div" if nearest && !m.approximate && !m.full => f32_by_mode!(map2, Div, m.flush, false),
            "sqrt" if nearest && !m.approximate => f32_by_mode!(map1, Sqrt, m.flush, false),
            "rcp" if nearest && !m.approximate => f32_by_mode!(map1, Rcp, m.flush, false),
            "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" if m.approximate => {
                approximate(base, m.flush)
            }
            "div" if m.approximate || m.full => {
                let (flush, full) = (m.flush, m.full);
                return self.float_general(opcode, operands, f, 2, move |[a, b, _]| {
                    let (a, b) = (bits(a), bits(b));
                    let quotient =
                        if flush { approx::div::<true>(a, b, full) } else { approx::div::<false>(a, b, full) };
                    quotient.to_bits().into()
                });
            }
            "add" | "sub" | "mul" | "div" => {
                let function = match base {
                    "add" => FloatMode::add,
                    "sub" => FloatMode::sub,
                    "mul" => FloatMode::mul,
                    _ => FloatMode::div,
                };
                return self.float_general(opcode, operands, f, 2, move |[a, b, _]| {
                    function(mode, bits(a), bits(b)).to_bits().into()
                });
            }
            "fma" | "mad" => {
                return self.float_general(opcode, operands, f, 3, move |[a, b, c]| {
                    mode.fma(bits(a), bits(b), bits(c)).to_bits().into()
                });
            }
            "rcp" | "sqrt" => {
                let function = if base == "rcp" { FloatMode::rcp } else { FloatMode::sqrt };
                return self
                    .float_general(opcode, operands, f, 1, move |[a, ..]| function(mode, bits(a)).to_bits().into());
            }
            "min" | "max" if !m.relu => return self.min_max(opcode, operands, m, f, F32),
            "copysign" => {
                return self.float_general(opcode, operands, f, 2, |[a, b, _]| b & 0x7fff_ffff | a & 0x8000_0000);
            }
            _ => return Err(opcode.error("this form is not supported for .f32")),
        };
        let sources = match base {
            "fma" | "mad" => 3,
            "add" | "sub" | "mul" | "div" | "min" | "max" => 2,
            _ => 1,
        };
        self.float_handler(opcode, operands, run, f, sources)
    }

    fn min_max(
        &mut self,
        opcode: &Opcode<'_>,
        operands: &[Operand<'_>],
        m: Modifiers,
        scalar: ScalarType,
        format: Format,
    ) -> Result<(), ParseError> {
        let mode = m.min_max();
        let function = if opcode.base() == "min" { float::min_bits } else { float::max_bits };
        if operands.len() == 4 {
            return self.float_general(opcode, operands, scalar, 3, move |[a, b, c]| {
                function(format, function(format, a, b, mode), c, mode)
            });
        }
        self.float_general(opcode, operands, scalar, 2, move |[a, b, _]| function(format, a, b, mode))
    }

    fn float64(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        m: Modifiers,
    ) -> Result<(), ParseError> {
        let f = ScalarType::F64;
        let nearest = m.rounding == Rounding::NearestEven;
        let base = opcode.base();
        let rounding = m.rounding;
        let number = f64::from_bits;
        if m.saturate || m.relu || m.full || m.flush && !m.approximate {
            return Err(opcode.error("a modifier is not known for .f64"));
        }
        let run = match base {
            "add" if nearest => map2!(f64_functions::Add),
            "sub" if nearest => map2!(f64_functions::Sub),
            "mul" if nearest => map2!(f64_functions::Mul),
            "div" if nearest => map2!(f64_functions::Div),
            "fma" | "mad" if nearest => map3!(f64_functions::Fma),
            "sqrt" if nearest => map1!(f64_functions::Sqrt),
            "rcp" if nearest && !m.approximate => map1!(f64_functions::Rcp),
            "neg" => map1!(f64_functions::Neg),
            "abs" => map1!(f64_functions::Abs),
            "min" | "max" => return self.min_max(opcode, operands, m, f, F64),
            "copysign" => {
                return self.float_general(opcode, operands, f, 2, |[a, b, _]| b & !(1 << 63) | a & 1 << 63);
            }
            "rcp" if m.approximate => {
                return self.float_general(opcode, operands, f, 1, move |[a, ..]| approx::rcp_f64(number(a)).to_bits());
            }
            "rsqrt" if m.approximate => {
                // Without `.ftz` ptxas expands it to a software routine of nearly full accuracy (PTX ISA 9.7.3.17).
                let function = if m.flush { approx::rsqrt_f64 } else { |x: f64| 1.0 / x.sqrt() };
                return self.float_general(opcode, operands, f, 1, move |[a, ..]| function(number(a)).to_bits());
            }
            "add" | "sub" | "mul" | "div" => {
                let function = match base {
                    "add" => double::add,
                    "sub" => double::sub,
                    "mul" => double::mul,
                    _ => double::div,
                };
                return self.float_general(opcode, operands, f, 2, move |[a, b, _]| {
                    function(number(a), number(b), rounding).to_bits()
                });
            }
            "fma" | "mad" => {
                return self.float_general(opcode, operands, f, 3, move |[a, b, c]| {
                    double::fma(number(a), number(b), number(c), rounding).to_bits()
                });
            }
            "rcp" | "sqrt" => {
                let rcp = base == "rcp";
                return self.float_general(opcode, operands, f, 1, move |[a, ..]| {
                    let a = number(a);
                    if rcp { double::div(1.0, a, rounding) } else { double::sqrt(a, rounding) }.to_bits()
                });
            }
            _ => return Err(opcode.error("this form is not supported for .f64")),
        };
        let sources = match base {
            "fma" | "mad" => 3,
            "add" | "sub" | "mul" | "div" => 2,
            _ => 1,
        };
        self.float_handler(opcode, operands, run, f, sources)
    }

    fn half_precision(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        m: Modifiers,
        scalar: ScalarType,
    ) -> Result<(), ParseError> {
        let base = opcode.base();
        let is_bf16 = matches!(scalar, ScalarType::Bf16 | ScalarType::Bf16x2);
        let pair = matches!(scalar, ScalarType::F16x2 | ScalarType::Bf16x2);
        if m.rounding != Rounding::NearestEven || is_bf16 && m.flush && !matches!(base, "ex2") {
            return Err(opcode.error("a modifier is not known for this type"));
        }
        opcode.take("noftz");
        let plain_modifiers = !m.flush && !m.saturate && !m.relu;
        macro_rules! four {
            ($map:ident, $one:ident, $two:ident) => {
                match (is_bf16, pair) {
                    (false, false) => $map!(f16::$one),
                    (false, true) => $map!(f16::$two),
                    (true, false) => $map!(bf16::$one),
                    (true, true) => $map!(bf16::$two),
                }
            };
        }
        if plain_modifiers {
            let fast = match base {
                "add" => Some((four!(map2, Add, Add2), 2)),
                "sub" => Some((four!(map2, Sub, Sub2), 2)),
                "mul" => Some((four!(map2, Mul, Mul2), 2)),
                "fma" => Some((four!(map3, Fma, Fma2), 3)),
                "neg" => Some((four!(map1, Neg, Neg2), 1)),
                "abs" => Some((four!(map1, Abs, Abs2), 1)),
                _ => None,
            };
            if let Some((run, sources)) = fast {
                return self.float_handler(opcode, operands, run, scalar, sources);
            }
        }
        macro_rules! each {
            ($sources:literal, |$a:ident, $b:ident, $c:ident| $f16:expr, $bf16:expr) => {{
                let function = move |$a: u16, $b: u16, $c: u16| -> u16 { if is_bf16 { $bf16 } else { $f16 } };
                self.float_general(opcode, operands, scalar, $sources, move |[a, b, c]| {
                    if pair {
                        packed::map3(a as u32, b as u32, c as u32, function).into()
                    } else {
                        function(a as u16, b as u16, c as u16).into()
                    }
                })
            }};
        }
        let (mode, ext) = (m.half(), m.min_max());
        let flush = m.flush;
        match base {
            "add" => each!(2, |a, b, _c| half::add::<F16Type>(a, b, mode), half::add::<Bf16Type>(a, b, mode)),
            "sub" => each!(2, |a, b, _c| half::sub::<F16Type>(a, b, mode), half::sub::<Bf16Type>(a, b, mode)),
            "mul" => each!(2, |a, b, _c| half::mul::<F16Type>(a, b, mode), half::mul::<Bf16Type>(a, b, mode)),
            "fma" => each!(3, |a, b, c| half::fma::<F16Type>(a, b, c, mode), half::fma::<Bf16Type>(a, b, c, mode)),
            "neg" => each!(1, |a, _b, _c| half::neg::<F16Type>(a, flush), half::neg::<Bf16Type>(a, flush)),
            "abs" => each!(1, |a, _b, _c| half::abs::<F16Type>(a, flush), half::abs::<Bf16Type>(a, flush)),
            "min" if !m.relu => {
                each!(2, |a, b, _c| half::min::<F16Type>(a, b, ext), half::min::<Bf16Type>(a, b, ext))
            }
            "max" if !m.relu => {
                each!(2, |a, b, _c| half::max::<F16Type>(a, b, ext), half::max::<Bf16Type>(a, b, ext))
            }
            "ex2" if m.approximate => {
                each!(1, |a, _b, _c| approx::ex2_half::<F16Type>(a, flush), approx::ex2_half::<Bf16Type>(a, flush))
            }
            "tanh" if m.approximate => {
                each!(1, |a, _b, _c| approx::tanh_half::<F16Type>(a), approx::tanh_half::<Bf16Type>(a))
            }
            _ => Err(opcode.error("this form is not supported for 16-bit floats")),
        }
    }

    /// `testp` (PTX ISA §9.7.3.1).
    fn test_property(
        &mut self,
        opcode: &mut Opcode<'a>,
        operands: &'a [Operand<'a>],
        scalar: ScalarType,
    ) -> Result<(), ParseError> {
        let property =
            opcode.take_any(&["finite", "infinite", "number", "notanumber", "normal", "subnormal"]).unwrap_or("");
        let format = match scalar {
            ScalarType::F32 => F32,
            ScalarType::F64 => F64,
            _ => return Err(opcode.error("this type is not supported")),
        };
        self.count(opcode, operands, 2..=2)?;
        let mut i = self.empty();
        i.a = self.source(&operands[1], scalar)?;
        i.flags = when(Widths::WIDE_A, scalar.bytes() == 8);
        let Operand::Name(name) = operands[0] else {
            return Err(opcode.error("a predicate is expected as destination"));
        };
        i.p = self.predicate_destination(name)?;
        let property = match property {
            "finite" => |f: f64, _| f.is_finite(),
            "infinite" => |f: f64, _| f.is_infinite(),
            "number" => |f: f64, _| !f.is_nan(),
            "notanumber" => |f: f64, _| f.is_nan(),
            "normal" => |f: f64, subnormal: bool| f.is_finite() && f != 0.0 && !subnormal,
            "subnormal" => |_: f64, subnormal| subnormal,
            _ => return Err(opcode.error("the property is missing")),
        };
        let narrow = scalar == ScalarType::F32;
        self.push_test(i, move |[a, ..]| {
            let value = if narrow { f64::from(f32::from_bits(a as u32)) } else { f64::from_bits(a) };
            property(value, format.is_subnormal(a))
        });
        Ok(())
    }
}

fn approximate(base: &str, flush_subnormals: bool) -> Handler {
    macro_rules! pair {
        ($f:ident) => {
            if flush_subnormals {
                map1!(approximate_functions::flush::$f)
            } else {
                map1!(approximate_functions::keep::$f)
            }
        };
    }
    match base {
        "rcp" => pair!(Rcp),
        "sqrt" => pair!(Sqrt),
        "rsqrt" => pair!(Rsqrt),
        "ex2" => pair!(Ex2),
        "lg2" => pair!(Lg2),
        "sin" => pair!(Sin),
        "cos" => pair!(Cos),
        _ => map1!(approximate_functions::Tanh),
    }
}

mod approximate_functions {
    use super::super::bind::lanes::functions;
    use super::approx;

    macro_rules! by_flush {
        ($module:ident, $flush:literal) => {
            pub(super) mod $module {
                use super::{approx, functions};
                functions! {
                    Rcp(a: f32) -> f32 { approx::rcp::<$flush>(a) }
                    Sqrt(a: f32) -> f32 { approx::sqrt::<$flush>(a) }
                    Rsqrt(a: f32) -> f32 { approx::rsqrt::<$flush>(a) }
                    Ex2(a: f32) -> f32 { approx::ex2::<$flush>(a) }
                    Lg2(a: f32) -> f32 { approx::lg2::<$flush>(a) }
                    Sin(a: f32) -> f32 { approx::sin::<$flush>(a) }
                    Cos(a: f32) -> f32 { approx::cos::<$flush>(a) }
                }
            }
        };
    }
    by_flush!(keep, false);
    by_flush!(flush, true);
    functions! {
        Tanh(a: f32) -> f32 { approx::tanh(a) }
    }
}
