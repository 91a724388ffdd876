//! `crate = path`: the path by which the expansions name the library.

use super::{mistakes, pretty, tokens};
use crate::{expand_closure, expand_elementwise, expand_epilogue, expand_reducer};

/// With `crate = path`, no form names `::epilogue`.
#[test]
fn the_library_has_the_path_that_is_given() {
    let library = "crate = mine::library";
    let of_function = "fn f(accum: Accum, c: Tensor<bf16>, b: Bits, seed: Seed, l: Tensor<i32>) -> (Tensor<f16>, ColumnVector, Bits) {
        let x = if b && column() < integer(l) && !(c > LIMIT) { c.max(random(seed)) } else { real(row()) + f(accum) };
        let d = x.cast::<f16>() + reduction_op(x, Row, Mean) + reduction_op(x, Row, mine);
        let sums = reduction_op(reduction_op(x > 0.0, Row, Any), All, Any);
        let index = reduction_op(x, Row, ArgMax);
        (d, index, b)
    }";
    let reducer = "mod m {
        const IDENTITY: f32 = 0.0;
        fn lift(x: f32) -> f32 { x.abs() }
        fn combine(a: f32, b: f32) -> f32 { a + b }
        fn finish(s: f32) -> f32 { s }
    }";
    let closure = format!("{library}, |accum, c: Tensor, seed: Seed| {{ let d: Tensor<f16> = accum + c; d }}");
    for expansion in [
        expand_epilogue(tokens(&format!("{library}, backward(given(sums))")), tokens(of_function)),
        expand_epilogue(
            tokens(library),
            tokens("fn f(accum: Accum, c: Tensor) -> Tensor { let d = accum + c.tanh(); d }"),
        ),
        expand_epilogue(tokens(library), tokens("fn f(accum: Accum, c: Tensr) -> Tensor { let d = accum + c; d }")),
        expand_elementwise(tokens(library), tokens("fn g(x: f32, y: f32) -> f32 { h(x).max(y) }")),
        expand_elementwise(tokens(library), tokens("fn g(x: f32) -> f32 { 2 * x }")),
        expand_reducer(tokens(library), tokens(reducer)),
        expand_reducer(tokens(library), tokens("mod m {}")),
        expand_closure(tokens(&closure)),
    ] {
        let text = pretty(quote::quote!(fn whole() { #expansion }));
        assert!(text.contains("mine::library::"), "{text}");
        assert!(!text.contains("::epilogue"), "{text}");
    }
}

#[test]
fn a_wrong_path_of_the_library_is_refused() {
    let of = |arguments: &str| {
        mistakes(expand_epilogue(tokens(arguments), tokens("fn f(accum: Accum) -> Tensor { accum }"))).join("\n")
    };
    assert_eq!(of("crate = a::b"), "");
    assert_eq!(of("crate = ::a"), "");
    for wrong in ["crate = \"epilogue\"", "crate = a::<b>::c", "crate = 1 + 1", "crate = <a as b>::c"] {
        assert!(of(wrong).contains("`crate` is a path of the library, without quotes"), "{wrong}: {}", of(wrong));
    }
    assert!(of("crate = super::a").contains("begins with the name of a crate, `crate::` or `::`"));
    assert!(of("crate = a, crate = b").contains("`crate` is given twice"));
    assert!(of("crate").contains("the arguments are"));
    let closure = |input: &str| mistakes(expand_closure(tokens(input))).join("\n");
    assert!(closure("crate = self::a, |accum| { let d = accum; d }").contains("begins with"));
    assert_eq!(mistakes(expand_closure(tokens("crate = a"))).len(), 1);
    assert_eq!(mistakes(expand_closure(tokens("crate = a |accum| accum"))).len(), 1);
    let reducer = |arguments: &str| mistakes(expand_reducer(tokens(arguments), tokens("mod m {}"))).join("\n");
    assert!(reducer("name = m").contains("the only argument is `crate = path`"));
    assert!(reducer("ordered").contains("commutative"));
}
