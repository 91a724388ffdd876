//! Prints tensor expressions as CUDA C++ text.
//!
//! A value of a small float type is held in a `float` that is rounded after every operation. An integer of 8 or 16 bits
//! is held in an `int`, one of u32 or u64 in a `long long`; private memory of a thread holds them in the same way. Integer values wrap. Indices can't overflow in a
//! kernel that could be launched, so they use the plain operators. Operations are always parenthesised, as TVM does it.
//!
//! A [`Library`] collects what the text calls; its own text goes before the kernel. The caller chooses the names of
//! variables and of elements of memory, through [`Names`].

use std::collections::HashMap;
use std::fmt::Write as _;

use epilogue_runtime::Site;

use super::library::{Library, bytes, is_small_float};
use super::names::{Names, WithParts};
use crate::ElementType;
use crate::expr::{Function, Op};
use crate::te::arith::Context;
use crate::te::dtype::{DType, Held};
use crate::te::error::{ExpressionError, LoweringError, TeError};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::number::round;
use crate::te::expr::tensor::Tensor;
use crate::te::text::expression;

/// The longest text of an expression. Elements that are read under conditions are written once under each of them,
/// which can be long.
const MOST_TEXT: usize = 1 << 22;

/// Whether an expression reads memory.
fn reads(x: &Expr) -> bool {
    x.contains(|x| matches!(x.kind(), Kind::Load(..) | Kind::Read(..)))
}

/// Whether integer arithmetic has to wrap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArithmeticMode {
    Index,
    Value,
}

/// Prints expressions.
pub(crate) struct Printer<'a> {
    /// The names of variables and elements.
    pub(crate) names: &'a dyn Names,
    /// Collects what the text calls.
    pub(crate) library: &'a mut Library,
    /// The ranges of the counters in scope. A quotient whose dividend is never negative can use `/`.
    pub(crate) context: &'a Context,
}

impl Printer<'_> {
    /// Prints the value of an expression, in its [register](super::register).
    ///
    /// # Errors
    /// A mistake inside the expression; a name that [`Names`] doesn't have; what CUDA C++ doesn't support.
    pub(crate) fn value(&mut self, x: &Expr) -> Result<String, TeError> {
        self.shared(x, ArithmeticMode::Value)
    }

    /// Prints an index, an extent or a condition on indices.
    ///
    /// # Errors
    /// The errors of [`Printer::value`].
    pub(crate) fn index(&mut self, x: &Expr) -> Result<String, TeError> {
        self.shared(x, ArithmeticMode::Index)
    }

    /// Prints an expression with names for its shared parts, if it would be much longer without. The text is a lambda
    /// that is called at once, so it can stand wherever an expression can. A read under a condition stays under it.
    fn shared(&mut self, x: &Expr, mode: ArithmeticMode) -> Result<String, TeError> {
        let text = self.with_parts(x, mode)?;
        if text.len() > MOST_TEXT {
            return Err(ExpressionError::Unfolded { most: MOST_TEXT / 8 }.into());
        }
        Ok(text)
    }

    fn with_parts(&mut self, x: &Expr, mode: ArithmeticMode) -> Result<String, TeError> {
        if !x.is_folded() {
            return self.print(x, mode);
        }
        let always = x.always_evaluated();
        let may = |part: &Expr| always.contains(&part.id()) || !reads(part);
        let Some((parts, body)) = x.with_names("part", Some(&may)) else { return self.print(x, mode) };
        let mut names = WithParts { names: self.names, parts: HashMap::new() };
        let mut text = String::from("([&] {");
        for (i, (var, value)) in parts.into_iter().enumerate() {
            let value = Printer { names: &names, library: self.library, context: self.context }.print(&value, mode)?;
            let name = format!("part_{}_{i}", names.depth());
            let _ = write!(text, " const auto {name} = {value};");
            names.parts.insert(var, name);
        }
        let body = Printer { names: &names, library: self.library, context: self.context }.print(&body, mode)?;
        let _ = write!(text, " return {body}; }}())");
        Ok(text)
    }

    /// Prints one node. Each kind of node has a function of its own. This function calls itself at every level of an
    /// expression, so it must use little of the stack.
    fn print(&mut self, x: &Expr, mode: ArithmeticMode) -> Result<String, TeError> {
        match x.kind() {
            Kind::Int(_) | Kind::Float(_) | Kind::Var(_) => self.leaf(x, mode),
            Kind::Binary(op @ (Binary::FloorDiv | Binary::FloorMod), a, b) if a.dtype().is_integer() => {
                self.division(*op, a, b, mode)
            }
            Kind::Binary(op, a, b) => self.binary(*op, a, b, mode),
            Kind::Not(a) => self.not(a, mode),
            Kind::Select(c, a, b) => self.select(c, a, b, mode),
            Kind::Cast(a) => self.print(a, mode).map(|text| self.cast(text, a.dtype(), x.dtype())),
            Kind::Likely(a) => self.print(a, mode),
            Kind::Apply(op, operands) => self.apply(*op, operands, x.dtype()),
            Kind::Call(function, operands) => self.call(function, operands, x.dtype()),
            Kind::Load(buffer, indices) => self.load(x, buffer, indices),
            Kind::Read(tensor, indices) => self.read(x, tensor, indices),
            Kind::Reduce(..) => Err(LoweringError::NotLowered { what: expression(x) }.into()),
            Kind::Invalid(error) => Err(error.clone()),
        }
    }

    fn leaf(&mut self, x: &Expr, mode: ArithmeticMode) -> Result<String, TeError> {
        let dtype = x.dtype();
        match x.kind() {
            Kind::Int(value) => Ok(self.integer(*value, dtype, mode)),
            Kind::Float(value) => Ok(self.float(*value, dtype)),
            Kind::Var(var) => {
                let name = self.names.var(*var)?;
                let narrowed = mode == ArithmeticMode::Value && dtype == DType::I32 && self.names.wide_indices();
                Ok(if narrowed { format!("((int){name})") } else { name })
            }
            _ => Err(TeError::Internal { what: format!("{} has operands", expression(x)) }),
        }
    }

    fn not(&mut self, a: &Expr, mode: ArithmeticMode) -> Result<String, TeError> {
        let text = self.print(a, mode)?;
        Ok(format!("(!{text})"))
    }

    fn select(&mut self, c: &Expr, a: &Expr, b: &Expr, mode: ArithmeticMode) -> Result<String, TeError> {
        let (c, a, b) = (self.print(c, mode)?, self.shared(a, mode)?, self.shared(b, mode)?);
        Ok(format!("({c} ? {a} : {b})"))
    }

    fn call(&mut self, function: &'static Function, operands: &[Expr], dtype: DType) -> Result<String, TeError> {
        let operands = self.values(operands)?;
        let name = self.library.function(function, dtype);
        Ok(self.rounded(format!("{name}({})", operands.join(", ")), dtype))
    }

    fn load(&mut self, x: &Expr, buffer: &Buffer, indices: &[Expr]) -> Result<String, TeError> {
        let [index] = indices else {
            return Err(TeError::Internal { what: format!("{} has several indices in a kernel", expression(x)) });
        };
        let at = self.index(index)?;
        let is_tested = index.loads() || self.names.tests(buffer, index);
        let element = if is_tested { self.inside(buffer, index, &at)? } else { self.names.element(buffer, &at)? };
        Ok(if buffer.scope() == Scope::Local { element } else { self.library.load(x.dtype(), element) })
    }

    fn read(&mut self, x: &Expr, tensor: &Tensor, indices: &[Expr]) -> Result<String, TeError> {
        let indices: Vec<String> = indices.iter().map(|i| self.index(i)).collect::<Result<_, _>>()?;
        let element = self.names.read(tensor, &indices)?;
        Ok(self.library.load(x.dtype(), element))
    }

    /// An element at an index that may be outside. If there is no element, the value is 0 and a failure is recorded.
    fn inside(&mut self, buffer: &Buffer, index: &Expr, at: &str) -> Result<String, TeError> {
        let count = self.index(&buffer.reach())?;
        let first = self.names.element(buffer, "0")?;
        let site = self.library.site(Site::Element { access: access(buffer, index) });
        Ok(format!("epilogue::te::read_inside(&{first}, {at}, {count}, {site})"))
    }

    fn values(&mut self, operands: &[Expr]) -> Result<Vec<String>, TeError> {
        operands.iter().map(|x| self.value(x)).collect()
    }

    fn integer(&self, value: i64, dtype: DType, mode: ArithmeticMode) -> String {
        match dtype {
            DType::Bool => (if value == 0 { "false" } else { "true" }).to_owned(),
            _ if dtype.held() == Held::I64
                && (mode == ArithmeticMode::Value || dtype != DType::I64 || !DType::I32.holds(value)) =>
            {
                match value {
                    i64::MIN => "(-9223372036854775807LL - 1)".to_owned(),
                    _ => format!("{value}LL"),
                }
            }
            _ if value == i64::from(i32::MIN) => "(-2147483647 - 1)".to_owned(),
            DType::Number(_) => value.to_string(),
        }
    }

    fn float(&mut self, value: f64, dtype: DType) -> String {
        match dtype {
            DType::Number(ElementType::F64) => literal_f64(value),
            DType::Number(element @ (ElementType::F16 | ElementType::BF16)) => {
                literal_f32(round(element, value) as f32)
            }
            #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest even")]
            _ => {
                let text = literal_f32(value as f32);
                self.rounded(text, dtype)
            }
        }
    }

    fn binary(&mut self, op: Binary, a: &Expr, b: &Expr, mode: ArithmeticMode) -> Result<String, TeError> {
        let x = self.print(a, mode)?;
        let y = if matches!(op, Binary::And | Binary::Or) { self.shared(b, mode)? } else { self.print(b, mode)? };
        self.joined(op, &x, &y, a.dtype(), mode)
    }

    /// The text of an operation, given the texts of its two operands.
    fn joined(&mut self, op: Binary, x: &str, y: &str, dtype: DType, mode: ArithmeticMode) -> Result<String, TeError> {
        let symbol = match op {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
            Binary::Min | Binary::Max => return Ok(self.extreme(op, x, y, dtype, mode)),
            Binary::Lt => "<",
            Binary::Le => "<=",
            Binary::Gt => ">",
            Binary::Ge => ">=",
            Binary::Eq => "==",
            Binary::Ne => "!=",
            Binary::And => "&&",
            Binary::Or => "||",
            Binary::BitAnd => "&",
            Binary::BitOr => "|",
            Binary::BitXor => "^",
            Binary::Shl | Binary::Shr => return Ok(self.shifted(op, x, y, dtype, mode)),
            Binary::FloorDiv | Binary::FloorMod => {
                return Err(ExpressionError::OperandType { operation: format!("{op:?}"), given: dtype }.into());
            }
        };
        // Indices are of i32 or i64. A product of 8-bit integers fits what holds it.
        let may_overflow = match dtype {
            DType::I32 | DType::I64 => mode == ArithmeticMode::Value,
            _ => dtype.is_integer() && bytes(dtype) > 1,
        };
        if may_overflow && matches!(op, Binary::Add | Binary::Sub | Binary::Mul) {
            self.library.arithmetic = true;
            let name = match op {
                Binary::Add => "add",
                Binary::Sub => "sub",
                _ => "mul",
            };
            return Ok(self.rounded(format!("epilogue::te::{name}({x}, {y})"), dtype));
        }
        let text = format!("({x} {symbol} {y})");
        Ok(if op.is_truth() { text } else { self.rounded(text, dtype) })
    }

    /// Quotient or remainder of integers, rounded down: by shifts and masks for powers of two, and by the language's
    /// own operators if the dividend is never negative.
    fn division(&mut self, op: Binary, a: &Expr, b: &Expr, mode: ArithmeticMode) -> Result<String, TeError> {
        let (x, y) = (self.print(a, mode)?, self.print(b, mode)?);
        self.divided(op, (a, x), (b, y), mode)
    }

    fn divided(
        &mut self,
        op: Binary,
        (a, x): (&Expr, String),
        (b, y): (&Expr, String),
        mode: ArithmeticMode,
    ) -> Result<String, TeError> {
        let quotient = op == Binary::FloorDiv;
        let text = match b.as_int() {
            // A shift of a negative number rounds down, and a mask gives the non-negative remainder (C++20; NVRTC does
            // so in C++17, too).
            Some(by) if by > 0 && by & (by - 1) == 0 => {
                if quotient {
                    format!("({x} >> {})", by.trailing_zeros())
                } else {
                    format!("({x} & {})", by - 1)
                }
            }
            Some(by) if by > 0 && mode == ArithmeticMode::Index && self.context.proves_natural(a) => {
                format!("({x} {} {y})", if quotient { "/" } else { "%" })
            }
            divisor => {
                self.library.arithmetic = true;
                let (x, y) = self.widened(x, y, a.dtype(), mode);
                let name = if quotient { "div" } else { "mod" };
                match divisor {
                    Some(by) if by != 0 => format!("epilogue::te::floor_{name}({x}, {y})"),
                    _ => {
                        let site = self.library.site(Site::Division { divisor: Some(expression(b)) });
                        format!("epilogue::te::floor_{name}_or_fail({x}, {y}, {site})")
                    }
                }
            }
        };
        Ok(self.rounded(text, a.dtype()))
    }

    fn shifted(&mut self, op: Binary, x: &str, y: &str, dtype: DType, mode: ArithmeticMode) -> String {
        self.library.arithmetic = true;
        let name = match op {
            Binary::Shl => "shift_left",
            _ if dtype == DType::U64 => "shift_right_unsigned",
            _ => "shift_right",
        };
        let (x, y) = self.widened(x.to_owned(), y.to_owned(), dtype, mode);
        self.rounded(format!("epilogue::te::{name}({x}, {y})"), dtype)
    }

    fn extreme(&mut self, op: Binary, x: &str, y: &str, dtype: DType, mode: ArithmeticMode) -> String {
        let least = op == Binary::Min;
        if dtype.is_float() {
            self.library.math = true;
            return format!("epilogue::math::{}({x}, {y})", if least { "min" } else { "max" });
        }
        self.library.arithmetic = true;
        let (x, y) = self.widened(x.to_owned(), y.to_owned(), dtype, mode);
        format!("epilogue::te::{}({x}, {y})", if least { "least" } else { "greatest" })
    }

    /// The operands of an overloaded function, both in the type that indices have here.
    fn widened(&self, x: String, y: String, dtype: DType, mode: ArithmeticMode) -> (String, String) {
        let long = match (mode, dtype) {
            (ArithmeticMode::Index, DType::Number(ElementType::I64)) => true,
            (ArithmeticMode::Index, _) => self.names.wide_indices(),
            (ArithmeticMode::Value, _) => false,
        };
        if long { (format!("(long long){x}"), format!("(long long){y}")) } else { (x, y) }
    }

    /// A result converted to its type, if it is computed in a wider one.
    fn rounded(&mut self, text: String, dtype: DType) -> String {
        match dtype {
            _ if dtype.narrow_range().is_some() => {
                let held = if dtype.held() == Held::I64 { "long long" } else { "int" };
                format!("(({held})({}){text})", self.library.memory_type(dtype))
            }
            DType::Number(element) if is_small_float(dtype) => {
                self.library.convert = true;
                format!("epilogue::math::round_{}({text})", element.name())
            }
            _ => text,
        }
    }

    fn cast(&mut self, x: String, from: DType, to: DType) -> String {
        let narrow = is_small_float(to);
        match to {
            DType::Bool => format!("({x} != 0)"),
            _ if narrow && from.is_float() && from != DType::from(ElementType::F64) => self.rounded(x, to),
            _ if narrow => format!("((float){})", self.rounded(format!("(double){x}"), to)),
            DType::Number(ElementType::F64) => format!("((double){x})"),
            DType::Number(element) if to.is_float() => {
                debug_assert_eq!(element, ElementType::F32, "the others are small");
                if from.is_float() && from != DType::from(ElementType::F64) { x } else { format!("((float){x})") }
            }
            DType::Number(element) if from.is_float() => {
                self.library.arithmetic = true;
                format!("epilogue::te::truncate_{}({x})", element.name())
            }
            DType::I64 | DType::U64 => format!("((long long){x})"),
            DType::Number(ElementType::I32) => format!("((int){x})"),
            DType::Number(_) => self.rounded(x, to),
        }
    }

    /// The namespace of the functions that are accurate enough for a type.
    fn precision(&self, dtype: DType) -> &'static str {
        if self.library.approximate && dtype == DType::F32 { "approx11::" } else { "" }
    }

    fn apply(&mut self, op: Op, operands: &[Expr], dtype: DType) -> Result<String, TeError> {
        let values = self.values(operands)?;
        let text = match (op, values.as_slice()) {
            (Op::Neg, [x]) => return Ok(format!("(-({x}))")),
            (Op::Add | Op::Sub | Op::Mul | Op::Div, [x, y]) => format!("({x} {} {y})", op.symbol()),
            (Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne | Op::Select, _) => {
                let what = format!("the operation {op:?} as a function; write it as an expression");
                return Err(LoweringError::Target { what, target: "CUDA" }.into());
            }
            _ => {
                self.library.math = true;
                let precision = self.precision(dtype);
                format!("epilogue::math::{precision}{}({})", op.symbol(), values.join(", "))
            }
        };
        Ok(self.rounded(text, dtype))
    }
}

/// An access as messages show it.
pub(crate) fn access(buffer: &Buffer, index: &Expr) -> String {
    format!("{}[{}]", buffer.name(), expression(index))
}

/// A float as TVM prints it, with more digits if seven don't give its value.
fn literal_f32(value: f32) -> String {
    if !value.is_finite() {
        return format!("__int_as_float({:#010x})", value.to_bits());
    }
    let digits = [6, 8].into_iter().find(|digits| scientific(value.into(), *digits).parse() == Ok(value));
    format!("{}f", scientific(value.into(), digits.unwrap_or(9)))
}

fn literal_f64(value: f64) -> String {
    if !value.is_finite() {
        return format!("__longlong_as_double({:#018x}LL)", value.to_bits());
    }
    let digits = [6, 16].into_iter().find(|digits| scientific(value, *digits).parse() == Ok(value));
    scientific(value, digits.unwrap_or(17))
}

/// C's `%e`: at least two digits of exponent, with a sign.
fn scientific(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// An expression without its outermost parentheses, for statements that have parentheses of their own.
pub(crate) fn bare(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return text };
    let mut depth = 0i32;
    for c in inner.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return text;
        }
    }
    inner
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te::expr::var::{Var, var};

    struct Given;

    impl Names for Given {
        fn var(&self, var: Var) -> Result<String, TeError> {
            Ok(var.name().to_owned())
        }

        fn read(&self, tensor: &Tensor, indices: &[String]) -> Result<String, TeError> {
            Ok(format!("{}[{}]", tensor.name(), indices.join("][")))
        }
    }

    fn value(x: impl Into<Expr>) -> String {
        let (mut library, context) = (Library::new(), Context::default());
        Printer { names: &Given, library: &mut library, context: &context }.value(&x.into()).unwrap()
    }

    fn index(x: impl Into<Expr>) -> String {
        let (mut library, context) = (Library::new(), Context::default());
        Printer { names: &Given, library: &mut library, context: &context }.index(&x.into()).unwrap()
    }

    #[test]
    fn indices_are_plain_and_values_wrap() {
        let (n, i) = (var("n"), Var::counter("i"));
        assert_eq!(index(n * 16 + 5), "((n * 16) + 5)");
        assert_eq!(value(n * 16 + 5), "epilogue::te::add(epilogue::te::mul(n, 16), 5)");
        assert_eq!(index(n / 16), "(n >> 4)");
        assert_eq!(index(n % 16), "(n & 15)");
        assert_eq!(index(n / 3), "(n / 3)");
        assert_eq!(index(i / 3), "epilogue::te::floor_div(i, 3)");
        assert_eq!(index(n.equal(0)), "(n == 0)");
    }

    #[test]
    fn small_types_are_rounded_after_every_operation() {
        let half = Expr::from(Var::new("x", ElementType::F16.into()));
        assert_eq!(value(&half + &half), "epilogue::math::round_f16((x + x))");
        assert_eq!(value(half.clone() * 0.1), "epilogue::math::round_f16((x * 9.99755859e-02f))");
        assert_eq!(value(half.clone().cast(DType::F32) + 1.0), "(x + 1.000000e+00f)");
        assert_eq!(value(half.cast(ElementType::I8)), "epilogue::te::truncate_i8(x)");
        let byte = Expr::from(Var::new("b", ElementType::I8.into()));
        assert_eq!(value(&byte * &byte), "((int)(signed char)(b * b))");
        let x = Expr::from(Var::new("x", ElementType::F64.into()));
        assert_eq!(value(x.cast(ElementType::BF16)), "((float)epilogue::math::round_bf16((double)x))");
    }

    #[test]
    fn numbers_read_back() {
        for (value, text) in [
            (0.0, "0.000000e+00f"),
            (-1.5, "-1.500000e+00f"),
            (0.1, "1.000000e-01f"),
            (f32::MAX, "3.40282347e+38f"),
            (1e-45, "1.401298e-45f"),
            (f32::NEG_INFINITY, "__int_as_float(0xff800000)"),
        ] {
            assert_eq!(literal_f32(value), text);
        }
        assert_eq!(literal_f64(1.0 / 3.0), "3.3333333333333331e-01");
    }

    #[test]
    fn outer_parentheses_are_removed_only_where_they_are_one_pair() {
        assert_eq!(bare("(a + b)"), "a + b");
        assert_eq!(bare("(a) + (b)"), "(a) + (b)");
        assert_eq!(bare("a"), "a");
    }
}
