//! A checked tree's values, for the printer of `expr`.

use super::{ValidTree, Value, ValueKind, ValueType, Width};
use crate::expr::cuda::{Formula, Scalar, Values};

impl Values for ValidTree {
    fn count(&self) -> usize {
        self.values.len()
    }

    fn formula(&self, value: usize) -> Formula {
        let places = |operands: &[super::ValueId]| operands.iter().map(|o| o.index()).collect();
        match &self.values[value].kind {
            ValueKind::Accum(_)
            | ValueKind::Load(_)
            | ValueKind::Broadcast(_)
            | ValueKind::Position(_)
            | ValueKind::Random(..)
            | ValueKind::Reduce(..) => Formula::Given,
            ValueKind::Literal(x) => Formula::Literal(*x),
            ValueKind::Integer(x) => Formula::Integer(*x),
            ValueKind::Logic(logic, operands) => Formula::Logic(*logic, places(operands)),
            ValueKind::ToReal(x) => Formula::Real(x.index()),
            ValueKind::Apply(op, operands) => Formula::Apply(*op, places(operands)),
            ValueKind::Scaled { scalar, x } => Formula::Scaled { scalar: scalar.index(), x: x.index() },
            ValueKind::Call(function, operands) => Formula::Call(function, places(operands)),
            ValueKind::Cast(to, x) => Formula::Cast(*to, x.index()),
        }
    }

    fn scalar(&self, value: usize) -> Scalar {
        self.values[value].scalar()
    }

    fn name(&self, value: usize) -> &str {
        &self.values[value].name
    }

    fn is_named(&self, value: usize) -> bool {
        self.values[value].user_name.is_some()
    }

    fn uses(&self, value: usize) -> usize {
        self.values[value].uses
    }

    fn significand(&self, value: usize) -> u32 {
        self.values[value].significand
    }

    fn line(&self, value: usize) -> u32 {
        self.values[value].site.line
    }
}

impl Value {
    /// Its type, for the printer.
    pub(crate) const fn scalar(&self) -> Scalar {
        match self.ty {
            ValueType::Real(_) => Scalar::Real,
            ValueType::Integer(Width::Bits32) => Scalar::I32,
            ValueType::Integer(Width::Bits64) => Scalar::I64,
            ValueType::Bool => Scalar::Bool,
            // A visitor's, never a function's.
            ValueType::Seed => Scalar::I64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use expect_test::{Expect, expect};

    use crate::ElementType;
    use crate::evt::{BroadcastClass, ParameterClass, TreeBuilder, Types};
    use crate::expr::cuda::{Functions, statements};
    use crate::expr::{Function, FunctionBuilder, Op, Real};

    static GELU: LazyLock<Function> = LazyLock::new(|| {
        let mut b = FunctionBuilder::new("gelu");
        let x = b.parameter("x");
        let half = b.literal(0.5);
        let one = b.literal(1.0);
        let k = b.literal(std::f64::consts::FRAC_1_SQRT_2);
        let scaled = b.apply(Op::Mul, &[x, k]);
        let erf = b.apply(Op::Erf, &[scaled]);
        let sum = b.apply(Op::Add, &[one, erf]);
        let left = b.apply(Op::Mul, &[half, x]);
        let root = b.apply(Op::Mul, &[left, sum]);
        b.finish(root)
    });

    fn check(types: Types, build: impl Fn(&mut TreeBuilder), expected: &Expect) {
        let mut builder = TreeBuilder::new("e", "a.rs");
        build(&mut builder);
        let tree = builder.finish().validate(types).unwrap();
        let mut functions = Functions::new(types.real(), false);
        let lines: Vec<String> = statements(&tree, |_| true, &mut functions).iter().map(ToString::to_string).collect();
        expected.assert_eq(&format!("{}{}\n", functions.definitions(), lines.join("\n")));
    }

    fn seed(b: &mut TreeBuilder) {
        let accum = b.accum("accum");
        let c = b.parameter("c", ParameterClass::Tensor, None);
        let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
        let beta = b.parameter("beta", ParameterClass::Scalar, None);
        let left = b.apply(Op::Mul, &[alpha, accum]);
        let right = b.apply(Op::Mul, &[beta, c]);
        let tanh = b.apply(Op::Tanh, &[right]);
        let d = b.apply(Op::Add, &[left, tanh]);
        b.name(d, "d");
        b.output("d", d, BroadcastClass::Tensor, None);
    }

    #[test]
    fn names_and_guards() {
        let f32s = Types::new(ElementType::F32, ElementType::F32);
        check(
            f32s,
            seed,
            &expect![[r#"
            const float d = alpha * accum + math::tanh(beta != 0.0f ? beta * c : 0.0f);
        "#]],
        );
        let bf16s = Types::new(ElementType::BF16, ElementType::BF16);
        check(
            bf16s,
            seed,
            &expect![[r#"
            const float d = alpha * accum + math::approx8::tanh(beta != 0.0f ? beta * c : 0.0f);
        "#]],
        );
        let f64s = Types::new(ElementType::F64, ElementType::F64);
        check(
            f64s,
            seed,
            &expect![[r#"
            const double d = alpha * accum + math::tanh(beta != 0.0 ? beta * c : 0.0);
        "#]],
        );
    }

    #[test]
    fn functions_selects_and_parentheses() {
        let build = |b: &mut TreeBuilder| {
            let accum = b.accum("accum");
            let c = b.parameter("c", ParameterClass::Tensor, Some(ElementType::F32));
            let activated = b.call(&GELU, &[accum]);
            b.name(activated, "gelu");
            let a = b.apply(Op::Sub, &[accum, c]);
            let a = b.apply(Op::Sub, &[activated, a]);
            let a = b.apply(Op::Neg, &[a]);
            let tenth = b.literal(0.1);
            let greater = b.apply(Op::Gt, &[a, tenth]);
            let quotient = b.apply(Op::Div, &[c, activated]);
            let minus = b.literal(-2.0);
            let other = b.apply(Op::Mul, &[quotient, minus]);
            let other = b.cast(ElementType::F16, other);
            let d = b.apply(Op::Select, &[greater, a, other]);
            b.name(d, "double");
            b.output("double", d, BroadcastClass::Tensor, None);
        };
        let f16s = Types::new(ElementType::F16, ElementType::F16);
        check(
            f16s,
            build,
            &expect![[r#"
                namespace ops::approx11 {
                __device__ __forceinline__ float gelu(float x) {
                    return 0.5f * x * (1.0f + math::approx11::erf_beside_one(x * 0.70710677f));
                }
                }
                const float gelu = ops::approx11::gelu(accum);
                const float t2 = -(gelu - (accum - c));
                const float double_v = t2 > 0.1f ? t2 : math::round_f16(math::approx11::div(c, gelu) * -2.0f);
            "#]],
        );
    }

    #[test]
    fn values_declared_elsewhere_are_named() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
        let bias = b.parameter("bias", ParameterClass::RowVector, None);
        let square = b.apply(Op::Mul, &[alpha, alpha]);
        let scaled = b.apply(Op::Exp, &[bias]);
        let d = [accum, square, scaled].into_iter().reduce(|x, y| b.apply(Op::Add, &[x, y])).unwrap();
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(Types::new(ElementType::F32, ElementType::F32)).unwrap();
        let mut functions = Functions::new(Real::F32, false);
        let mut text = String::new();
        for class in [BroadcastClass::Scalar, BroadcastClass::RowVector, BroadcastClass::Tensor] {
            let here = statements(&tree, |v| tree.values()[v].class == class, &mut functions);
            text.push_str(&format!("{class:?}\n"));
            here.iter().for_each(|s| text.push_str(&format!("  {s}\n")));
        }
        expect![[r#"
            Scalar
              const float t0 = alpha * alpha;
            RowVector
              const float t1 = math::exp(bias);
            Tensor
              const float t3 = accum + t0 + t1;
        "#]]
        .assert_eq(&text);
    }
}
