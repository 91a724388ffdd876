//! A function of the epilogue language computes the same for expressions as for numbers.

use epilogue::prelude::*;
use epilogue::te::{self, Array, DType, Expr, TeError, placeholder_of};

#[elementwise]
fn mish(x: f32) -> f32 {
    x * tanh(log(1.0 + exp(x)))
}

/// A parameter that is assigned to, and one of each name that an expansion may use.
#[elementwise]
fn lerp(mut x: f32, host: f32, function: f32) -> f32 {
    x += function * (host - x);
    mish(x)
}

type Host = fn(f32) -> f32;
type Kernel = fn(Expr) -> Expr;

macro_rules! both {
    ($($name:ident),*) => { [$((stringify!($name), $name as Host, $name as Kernel)),*] };
}

/// The values of an expression of one element.
fn values(x: &[f32], f: impl Fn(Expr) -> Expr) -> Result<Vec<f64>, TeError> {
    let a = te::placeholder([x.len()], "a");
    let b = te::compute([x.len()], "b", |[i]| f(a.at([i])))?;
    let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "main")?;
    let given: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let mut arrays = [Array::new(DType::F32, &[x.len()], &given)?, Array::unwritten(DType::F32, &[x.len()])];
    program.interpret(&mut arrays)?;
    Ok(arrays[1].values())
}

#[test]
fn every_function_takes_expressions() -> Result<(), TeError> {
    let functions = both![
        abs,
        ceil,
        cos,
        erf,
        exp,
        exp2,
        floor,
        log,
        log1p,
        log2,
        neg,
        recip,
        round,
        rsqrt,
        sin,
        sqrt,
        tan,
        tanh,
        abs_grad,
        cos_grad,
        erf_grad,
        exp_grad,
        gelu,
        gelu_grad,
        gelu_tanh,
        gelu_tanh_grad,
        hardswish,
        hardswish_grad,
        relu,
        relu_grad,
        sigmoid,
        sigmoid_grad,
        silu,
        silu_grad,
        sin_grad,
        softplus,
        softplus_grad,
        square,
        tanh_grad,
        mish
    ];
    let x = [-3.5f32, -1.0, -0.0, 0.25, 0.5, 1.5, 4.0];
    let check = |name: &str, host: &dyn Fn(f32) -> f32, kernel: &dyn Fn(Expr) -> Expr| -> Result<(), TeError> {
        for (x, got) in x.iter().zip(values(&x, kernel)?) {
            let wanted = f64::from(host(*x));
            let same = got == wanted || got.is_nan() && wanted.is_nan() || (got - wanted).abs() <= 1e-6 * wanted.abs();
            assert!(same, "{name} of {x}: {got}, not {wanted}");
        }
        Ok(())
    };
    for (name, host, kernel) in functions {
        check(name, &host, &kernel)?;
    }
    check("min", &|x| min(x, 0.5), &|x| min(x, 0.5))?;
    check("max", &|x| max(x, x * 0.5), &|x| max(&x, &x * 0.5))?;
    check("atan2", &|x| atan2(x, 0.5), &|x| atan2(x, 0.5))?;
    check("pow", &|x| pow(x, 3.0), &|x| pow(x, 3))?;
    check("fma", &|x| fma(x, 2.0, x), &|x| fma(&x, 2.0, &x))?;
    check("clamp", &|x| clamp(x, -1.0, 1.0), &|x| clamp(x, -1.0, 1.0))?;
    check("leaky_relu", &|x| leaky_relu(x, 0.1), &|x| leaky_relu(x, 0.1f32))?;
    check("leaky_relu_grad", &|x| leaky_relu_grad(x, 0.1), &|x| leaky_relu_grad(x, 0.1f32))?;
    check("select", &|x| select(x > 0.0, x, 1.0), &|x| select(x.greater(0), &x, 1.0))?;
    check("lerp", &|x| lerp(x, 2.0, 0.25), &|x| lerp(x, 2.0, 0.25))
}

#[test]
fn numbers_of_the_host_are_what_they_were() {
    let host: Host = gelu;
    let literal = relu(0.5).max(0.25) + clamp(3.0, 0.0, 1.0);
    assert_eq!(literal, 1.5);
    assert_eq!([1.0, -2.0].map(relu), [1.0, 0.0]);
    assert_eq!(host(0.0), 0.0);
    let choose: fn(bool, f32, f32) -> f32 = select;
    assert_eq!(choose(false, 1.0, 2.0), 2.0);
}

/// The rule of the operators: a literal number takes the type of the others; all other operands must have one type.
#[test]
fn types_are_not_mixed() -> Result<(), TeError> {
    let of = |element| placeholder_of(element, [4], "x").at([1]);
    let (half, single) = (of(ElementType::F16), of(ElementType::F32));
    let type_of = |x: Expr| te::compute([4], "y", |[_]| x).map(|y| y.dtype());
    let f16 = DType::from(ElementType::F16);
    assert_eq!(type_of(fma(&half, 2.0, Expr::constant(1.0, DType::F32)))?, f16);
    assert_eq!(type_of(fma(Expr::from(2.0), 1, &half))?, f16);
    assert_eq!(type_of(clamp(Expr::from(0.1), -1.0, 1.0))?, DType::F32);
    assert_eq!(type_of(pow(Expr::from(2), &half))?, f16);
    assert_eq!(type_of(max(of(ElementType::I8), 3))?, DType::from(ElementType::I8));
    assert_eq!(type_of(neg(of(ElementType::I64)))?, DType::I64);
    let message = |x: Expr| type_of(x).expect_err("a mistake was accepted").to_string();
    assert_eq!(
        message(fma(&half, &single, 1.0)),
        "`fma` takes operands of one type, and was given f16 and f32; convert one of them, the latter with \
         `.cast(ElementType::F16)`"
    );
    assert_eq!(
        message(clamp(&single, 0.0, of(ElementType::F64))),
        "`clamp` takes operands of one type, and was given f32 and f64; convert one of them, the latter with \
         `.cast(ElementType::F32)`"
    );
    assert_eq!(message(max(&half, &single)), message(&half + &single));
    assert_eq!(message(gelu(of(ElementType::I32))), "`gelu` takes no operand of type i32; convert it with `.cast(…)`");
    assert_eq!(message(exp(of(ElementType::I32))), "`exp` takes no operand of type i32; convert it with `.cast(…)`");
    assert_eq!(message(select(&single, 1.0, 2.0)), "`select` takes no operand of type f32; convert it with `.cast(…)`");
    let text = "`fma` takes 3 operands, 1 were given; give as many as it takes";
    assert_eq!(message(Expr::call(fma::function(), vec![single])), text);
    Ok(())
}

/// The functions of `te`, the methods of expressions and the functions of `epilogue::ops` are the same.
#[test]
fn functions_and_methods_are_the_same() {
    let x = te::placeholder([8], "x").at([3]);
    macro_rules! same {
        ($($name:ident($($other:expr),*)),* $(,)?) => {$(
            let wanted = epilogue::ops::$name(x.clone() $(, $other)*);
            assert!(te::$name(&x $(, $other)*) == wanted, stringify!($name));
            assert!(x.$name($($other),*) == wanted, stringify!($name));
        )*};
    }
    same![
        abs(),
        ceil(),
        cos(),
        erf(),
        exp(),
        exp2(),
        floor(),
        log(),
        log1p(),
        log2(),
        recip(),
        round(),
        rsqrt(),
        sin(),
        sqrt(),
        tanh(),
        gelu(),
        gelu_tanh(),
        relu(),
        sigmoid(),
        silu(),
        softplus(),
        pow(2.0),
        fma(2.0, 3.0),
    ];
    assert!(te::maximum(&x, 1.0) == x.max(1.0) && te::minimum(1.0, &x) == Expr::from(1.0).min(&x));
    assert!(te::clamp(&x, 0.0, 6.0) == x.max(0.0).min(6.0) && x.clamp(0.0, 6.0) == te::clamp(&x, 0.0, 6.0));
    assert!(te::select(x.greater(0.0), &x, 0.0) == x.greater(0.0).select(&x, 0.0));
    let n = te::var("n");
    assert!(
        te::floor_div(n, 2) == n / 2 && te::floor_mod(n, 2) == n % 2 && te::cast(n, DType::F32) == n.cast(DType::F32)
    );
}

#[test]
fn absolute_values_of_integers() -> Result<(), TeError> {
    let x = placeholder_of(ElementType::I32, [4], "x");
    let y = te::compute([4], "y", |[i]| te::abs(x.at([i])))?;
    let program = te::lower(&te::create_schedule(&[&y]), &[&x, &y], "main")?;
    let mut arrays =
        [Array::new(y.dtype(), &[4], &[-3.0, 0.0, 5.0, -2_147_483_647.0])?, Array::unwritten(y.dtype(), &[4])];
    program.interpret(&mut arrays)?;
    assert_eq!(arrays[1].values(), [3.0, 0.0, 5.0, 2_147_483_647.0]);
    Ok(())
}

/// Kinds of indices mix in a tuple; a slice or vector has one kind, by value or by reference.
#[test]
fn indices_of_any_kind() -> Result<(), TeError> {
    let (n, rows) = (te::var("n"), vec![4usize, 5]);
    let x = te::placeholder((n, rows.len(), 8i64, 9u32), "x");
    assert_eq!(x.rank(), 4);
    let y = te::compute([n], "y", |[i]| x.at((i, rows.len() - 1, i % 8, Expr::from(2))))?;
    assert_eq!(y.dtype(), DType::F32);
    let z = te::placeholder(&rows, "z");
    assert!(z.at(&rows) == z.at([4, 5]) && z.at(rows.as_slice()) == z.at([4usize, 5]));
    te::compute_over(&rows, "w", |axes| vec![z.at(axes) + z.at(axes.to_vec())]).map(drop)
}
