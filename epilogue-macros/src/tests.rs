//! The macros' expansions, as a reviewer reads them; and their mistakes, found without a compiler.

use expect_test::{Expect, expect};
use proc_macro2::TokenStream;

use crate::{expand_closure, expand_elementwise, expand_epilogue};

mod library_path;

fn tokens(source: &str) -> TokenStream {
    source.parse().expect("Rust tokens")
}

/// The expansion as formatted Rust.
fn pretty(expansion: TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(expansion).expect("items"))
}

/// The messages of a function's mistakes, each with its line and column, in order.
fn mistakes(expansion: TokenStream) -> Vec<String> {
    fn walk(tokens: TokenStream, found: &mut Vec<String>) {
        let mut after_compile_error = false;
        for tree in tokens {
            match tree {
                proc_macro2::TokenTree::Ident(ident) => after_compile_error = ident == "compile_error",
                proc_macro2::TokenTree::Group(group) if after_compile_error => {
                    let message: syn::LitStr = syn::parse2(group.stream()).expect("one string");
                    let start = message.span().start();
                    found.push(format!("{}:{}: {}", start.line, start.column + 1, message.value()));
                    after_compile_error = false;
                }
                proc_macro2::TokenTree::Group(group) => walk(group.stream(), found),
                proc_macro2::TokenTree::Punct(_) | proc_macro2::TokenTree::Literal(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(expansion, &mut found);
    found
}

#[track_caller]
fn check(actual: &str, expected: &Expect) {
    expected.assert_eq(actual);
}

#[test]
fn an_epilogue() {
    let source = "
        /// D and its rows' sums.
        #[must_use]
        pub(crate) fn row_sums(accum: Accum, c: Tensor<bf16>, alpha: Scalar) -> (Tensor, ColumnVector) {
            let mut d = alpha * accum;
            d += if c > LIMIT { c.max(0.5) } else { my::f(c) };
            let sums = reduction_op(d, (Row, Batch), Add);
            (d, sums)
        }
    ";
    check(
        &pretty(expand_epilogue(TokenStream::new(), tokens(source))),
        &expect![[r#"
        /// D and its rows' sums.
        #[must_use]
        #[allow(non_snake_case)]
        pub(crate) struct RowSums<F: ::epilogue::Fields = ::epilogue::Unborrowed> {
            ///`Tensor<bf16>`: M×N values, read.
            pub(crate) c: F::Input,
            ///`Scalar`: one value, given by the host.
            pub(crate) alpha: ::core::primitive::f64,
            ///`Tensor`: M×N values, written.
            pub(crate) d: F::Output,
            ///`ColumnVector`: M values, the same in every column, written.
            pub(crate) sums: F::Output,
        }
        #[automatically_derived]
        impl ::core::fmt::Debug for RowSums<::epilogue::Borrowed<'_>> {
            fn fmt(&self, formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                formatter
                    .debug_struct("RowSums")
                    .field("c", &self.c)
                    .field("alpha", &self.alpha)
                    .field("d", &self.d)
                    .field("sums", &self.sums)
                    .finish()
            }
        }
        #[automatically_derived]
        impl ::epilogue::Epilogue for RowSums {
            type Arguments<'a> = RowSums<::epilogue::Borrowed<'a>>;
            fn tree() -> ::epilogue::evt::Tree {
                const __EPILOGUE_CONSTANT_0: ::core::primitive::f32 = LIMIT;
                #[allow(
                    dead_code,
                    unreachable_pub,
                    unused_qualifications,
                    clippy::all,
                    clippy::pedantic,
                    clippy::nursery,
                    clippy::restriction
                )]
                fn row_sums(
                    accum: ::core::primitive::f32,
                    c: ::core::primitive::f32,
                    alpha: ::core::primitive::f32,
                ) -> (::core::primitive::f32, ::core::primitive::f32) {
                    const __EPILOGUE_CONSTANT_0: ::core::primitive::f32 = LIMIT;
                    let mut d = alpha * accum;
                    d
                        += if c > __EPILOGUE_CONSTANT_0 {
                            ::epilogue::ops::max(c, 0.5)
                        } else {
                            my::f(c)
                        };
                    let sums = ::epilogue::language::reduction_op(d);
                    (d, sums)
                }
                let _: ::core::option::Option<
                    (
                        ::epilogue::language::Accum,
                        ::epilogue::language::Tensor,
                        ::epilogue::language::Scalar,
                        ::epilogue::language::Tensor,
                        ::epilogue::language::ColumnVector,
                    ),
                > = ::core::option::Option::None;
                let mut builder = ::epilogue::evt::TreeBuilder::new("row_sums", ::core::file!());
                let v0 = builder.at(4, 32).accum("accum");
                let v1 = builder
                    .at(4, 46)
                    .parameter(
                        "c",
                        ::epilogue::evt::ParameterClass::Tensor,
                        ::core::option::Option::Some(
                            <bf16 as ::epilogue::EpilogueElement>::ELEMENT,
                        ),
                    );
                let v2 = builder
                    .at(4, 63)
                    .parameter(
                        "alpha",
                        ::epilogue::evt::ParameterClass::Scalar,
                        ::core::option::Option::None,
                    );
                let v3 = builder.at(5, 31).apply(::epilogue::expr::Op::Mul, &[v2, v0]);
                builder.name(v3, "d");
                let v4 = builder
                    .at(6, 25)
                    .literal(
                        <::core::primitive::f64 as ::core::convert::From<
                            ::core::primitive::f32,
                        >>::from(__EPILOGUE_CONSTANT_0),
                    );
                let v5 = builder.at(6, 23).apply(::epilogue::expr::Op::Gt, &[v1, v4]);
                let v6 = builder.at(6, 39).literal(0.5f64);
                let v7 = builder.at(6, 35).call(::epilogue::ops::max::function(), &[v1, v6]);
                let v8 = builder.at(6, 57).call(my::f::function(), &[v1]);
                let v9 = builder.at(6, 18).apply(::epilogue::expr::Op::Select, &[v5, v7, v8]);
                let v10 = builder.at(6, 15).apply(::epilogue::expr::Op::Add, &[v3, v9]);
                builder.name(v10, "d");
                let v11 = builder
                    .at(7, 24)
                    .reduce(
                        ::epilogue::evt::Reduction {
                            axis: ::epilogue::evt::Axis::Row,
                            batch: true,
                            op: ::epilogue::evt::ReduceOp::Add,
                            form: ::epilogue::evt::Form::Complete,
                        },
                        v10,
                    );
                builder.name(v11, "sums");
                builder
                    .at(8, 14)
                    .output(
                        "d",
                        v10,
                        ::epilogue::evt::BroadcastClass::Tensor,
                        ::core::option::Option::None,
                    );
                builder
                    .at(8, 17)
                    .output(
                        "sums",
                        v11,
                        ::epilogue::evt::BroadcastClass::ColumnVector,
                        ::core::option::Option::None,
                    );
                builder.finish()
            }
        }
        #[automatically_derived]
        impl<'a> ::epilogue::Arguments<'a> for RowSums<::epilogue::Borrowed<'a>> {
            fn arguments(self) -> ::std::vec::Vec<::epilogue::Argument<'a>> {
                ::std::vec![
                    ::epilogue::Argument::Input(self.c), ::epilogue::Argument::Scalar(self
                    .alpha), ::epilogue::Argument::Output(self.d),
                    ::epilogue::Argument::Output(self.sums)
                ]
            }
        }
    "#]],
    );
}

#[test]
fn an_elementwise_function() {
    let source = "
        /// Documented.
        #[inline]
        pub fn squared_relu(x: f32) -> f32 {
            let r = x.max(0.0);
            r * r
        }
    ";
    let cuda = tokens(r#"cuda = "return x;""#);
    check(
        &pretty(expand_elementwise(cuda, tokens(source))),
        &expect![[r#"
        /// Documented.
        #[inline]
        #[allow(unused_qualifications)]
        pub fn squared_relu<X: ::epilogue::expr::Number>(x: X) -> X::Value {
            #[allow(dead_code)]
            fn squared_relu(x: f32) -> f32 {
                let r = ::epilogue::ops::max(x, 0.0);
                r * r
            }
            ::epilogue::expr::Number::call(
                x,
                [],
                squared_relu::function,
                |x, []| squared_relu(x),
            )
        }
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        pub enum squared_relu {}
        #[doc(hidden)]
        #[allow(dead_code)]
        impl squared_relu {
            pub const CALL_DEPTH: ::core::primitive::u32 = 1
                + ::epilogue::__private::deeper(::epilogue::ops::max::CALL_DEPTH, 0);
            pub fn function() -> &'static ::epilogue::expr::Function {
                static FUNCTION: ::std::sync::LazyLock<::epilogue::expr::Function> = ::std::sync::LazyLock::new(||
                {
                    let mut builder = ::epilogue::expr::FunctionBuilder::new("squared_relu");
                    let v0 = builder.parameter("x");
                    let v1 = builder.literal(0f64);
                    let v2 = builder.call(::epilogue::ops::max::function(), &[v0, v1]);
                    builder.name(v2, "r");
                    let v3 = builder.apply(::epilogue::expr::Op::Mul, &[v2, v2]);
                    builder.finish(v3).with_cuda("return x;")
                });
                &FUNCTION
            }
        }
        const _: ::core::primitive::u32 = squared_relu::CALL_DEPTH;
    "#]],
    );
}

#[test]
fn the_closure_form() {
    let source = "|accum, c: Tensor| { let d: Tensor<f16> = accum + c; d }";
    let expansion = expand_closure(tokens(source));
    let function = tokens(&format!("fn f() {expansion}"));
    check(
        &pretty(function),
        &expect![[r#"
        fn f() {
            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            #[allow(non_camel_case_types)]
            struct c_is_not_set;
            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            #[allow(non_camel_case_types)]
            struct d_is_not_set;
            #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
            #[allow(non_snake_case)]
            struct Epilogue<C, D> {
                c: C,
                d: D,
            }
            #[allow(dead_code, non_snake_case)]
            impl<D> Epilogue<c_is_not_set, D> {
                ///`Tensor`: M×N values, read.
                fn c<'a>(
                    self,
                    value: &'a ::epilogue::DeviceTensor,
                ) -> Epilogue<&'a ::epilogue::DeviceTensor, D> {
                    Epilogue { c: value, d: self.d }
                }
            }
            #[allow(dead_code, non_snake_case)]
            impl<C> Epilogue<C, d_is_not_set> {
                ///`Tensor<f16>`: M×N values, written.
                fn d<'a>(
                    self,
                    value: &'a mut ::epilogue::DeviceTensor,
                ) -> Epilogue<C, &'a mut ::epilogue::DeviceTensor> {
                    Epilogue { c: self.c, d: value }
                }
            }
            #[automatically_derived]
            impl ::epilogue::Epilogue for Epilogue<c_is_not_set, d_is_not_set> {
                type Arguments<'a> = Epilogue<
                    &'a ::epilogue::DeviceTensor,
                    &'a mut ::epilogue::DeviceTensor,
                >;
                fn tree() -> ::epilogue::evt::Tree {
                    #[allow(
                        dead_code,
                        unreachable_pub,
                        unused_qualifications,
                        clippy::all,
                        clippy::pedantic,
                        clippy::nursery,
                        clippy::restriction
                    )]
                    fn epilogue(
                        accum: ::core::primitive::f32,
                        c: ::core::primitive::f32,
                    ) -> ::core::primitive::f32 {
                        let d = accum + c;
                        d
                    }
                    let _: ::core::option::Option<(::epilogue::language::Tensor,)> = ::core::option::Option::None;
                    let mut builder = ::epilogue::evt::TreeBuilder::new(
                        "epilogue",
                        ::core::file!(),
                    );
                    let v0 = builder.at(1, 2).accum("accum");
                    let v1 = builder
                        .at(1, 9)
                        .parameter(
                            "c",
                            ::epilogue::evt::ParameterClass::Tensor,
                            ::core::option::Option::None,
                        );
                    let v2 = builder.at(1, 49).apply(::epilogue::expr::Op::Add, &[v0, v1]);
                    builder.name(v2, "d");
                    builder
                        .at(1, 54)
                        .output(
                            "d",
                            v2,
                            ::epilogue::evt::BroadcastClass::Tensor,
                            ::core::option::Option::Some(
                                <f16 as ::epilogue::EpilogueElement>::ELEMENT,
                            ),
                        );
                    builder.finish()
                }
            }
            #[automatically_derived]
            impl<'a> ::epilogue::Arguments<'a>
            for Epilogue<&'a ::epilogue::DeviceTensor, &'a mut ::epilogue::DeviceTensor> {
                fn arguments(self) -> ::std::vec::Vec<::epilogue::Argument<'a>> {
                    ::std::vec![
                        ::epilogue::Argument::Input(self.c), ::epilogue::Argument::Output(self.d)
                    ]
                }
            }
            Epilogue {
                c: c_is_not_set,
                d: d_is_not_set,
            }
        }
    "#]],
    );
}

#[test]
fn after_a_mistake_the_items_are_still_there() {
    let source = "fn f(accum: Accum, c: Tensr, s: Scalar) -> Tensor { let d = 2 * accum; (d, e) }";
    let expansion = expand_epilogue(tokens("name = Named"), tokens(source));
    check(
        &pretty(expansion),
        &expect![[r#"
        ::core::compile_error! {
            "a parameter has one of the classes `Tensor`, `TensorMut`, `RowVector`, `ColumnVector`, `Scalar`, `DeviceScalar`, `Seed` or `Bits`, not `Tensr`; did you mean `Tensor`?"
        }
        ::core::compile_error! {
            "values are floating-point numbers: write `2.0` (beside an integer such as `row()` it is one)"
        }
        ::core::compile_error! {
            "the body returns 2 values, the return type declares 1: add the class of this one"
        }
        ::core::compile_error! {
            "there is no `e` here; it is neither a parameter nor a `let` (a constant with a small name is written `self::e`)"
        }
        #[allow(non_snake_case)]
        struct Named<F: ::epilogue::Fields = ::epilogue::Unborrowed> {
            ///`Tensor`: M×N values, read.
            c: F::Input,
            ///`Scalar`: one value, given by the host.
            s: ::core::primitive::f64,
            ///`Tensor`: M×N values, written.
            d: F::Output,
            ///An output.
            e: F::Output,
        }
        #[automatically_derived]
        impl ::core::fmt::Debug for Named<::epilogue::Borrowed<'_>> {
            fn fmt(&self, formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                formatter
                    .debug_struct("Named")
                    .field("c", &self.c)
                    .field("s", &self.s)
                    .field("d", &self.d)
                    .field("e", &self.e)
                    .finish()
            }
        }
        #[automatically_derived]
        impl ::epilogue::Epilogue for Named {
            type Arguments<'a> = Named<::epilogue::Borrowed<'a>>;
            fn tree() -> ::epilogue::evt::Tree {
                ::core::unreachable!()
            }
        }
        #[automatically_derived]
        impl<'a> ::epilogue::Arguments<'a> for Named<::epilogue::Borrowed<'a>> {
            fn arguments(self) -> ::std::vec::Vec<::epilogue::Argument<'a>> {
                ::std::vec![
                    ::epilogue::Argument::Input(self.c), ::epilogue::Argument::Scalar(self.s),
                    ::epilogue::Argument::Output(self.d), ::epilogue::Argument::Output(self.e)
                ]
            }
        }
    "#]],
    );
}

#[test]
fn every_mistake_is_reported_at_its_token() {
    let source = "fn f(accum: Accum, c: &Tensor) -> (Tensor, Tensor) {
    let d = 2 * accum;
    for i in 0..3 {}
    let s = reduction_op(d, Rows, Sum);
    (d, d, accum + 1.0)
}";
    let found = mistakes(expand_epilogue(TokenStream::new(), tokens(source))).join("\n");
    check(
        &found,
        &expect![[r#"
        1:23: a parameter is declared by its class, without a reference: `Tensor`, `TensorMut`, `RowVector`, `ColumnVector`, `Scalar`, `DeviceScalar`, `Seed` or `Bits`; the generated struct borrows the device's tensors
        2:13: values are floating-point numbers: write `2.0` (beside an integer such as `row()` it is one)
        3:5: there are no loops, as every element takes the same operations: write the steps one after the other
        4:29: an axis is `Row`, `Column` or `All`, not `Rows`; did you mean `Row`?
        4:35: a reduction's operation is `Add`, `Mul`, `Max`, `Min`, `AbsMax`, `SumSquares`, `ArgMax`, `ArgMin`, `Any`, `All`, `Mean`, `Variance` or `LogSumExp`, not `Sum`; a sum is `Add`
        5:9: `d` is returned twice: to store it a second time, `let d2 = d;` and return `d2`
        5:20: what is returned needs a name, which becomes its field: bind it, `let d = …;`, and return `d`"#]],
    );
}

#[test]
fn what_is_no_function_is_refused() {
    let of = |source: &str| mistakes(expand_epilogue(TokenStream::new(), tokens(source))).join("\n");
    assert_eq!(of("struct S;"), "1:1: `#[epilogue]` stands on a function");
    assert!(of("fn").contains("expected"), "{}", of("fn"));
    assert_eq!(mistakes(expand_closure(tokens("1.0"))).len(), 1);
    assert_eq!(mistakes(expand_closure(TokenStream::new())).len(), 1);
}

/// For any expression under the attribute, the macro answers with Rust, never with a panic.
#[test]
fn no_expression_of_rust_makes_the_macro_panic() {
    for expression in [
        "a",
        "1",
        "1.0",
        "-x",
        "!x",
        "*x",
        "&x",
        "&mut x",
        "&raw const x",
        "x?",
        "x.await",
        "x as f32",
        "x[0]",
        "x.0",
        "x.y",
        "f(x)",
        "f::<T>(x)",
        "(f)(x)",
        "x.f()",
        "x.f::<T>()",
        "x.cast()",
        "<T as U>::C",
        "Self::C",
        "if c {}",
        "if c {} else {}",
        "if let a = b { c } else { d }",
        "match x { _ => y }",
        "while x {}",
        "for a in b {}",
        "loop {}",
        "|x| x",
        "async {}",
        "unsafe { x }",
        "const { 1.0 }",
        "return x",
        "return",
        "break",
        "break 'a x",
        "continue",
        "{ }",
        "'a: { x }",
        "(x, y)",
        "()",
        "[x, y]",
        "[x; 3]",
        "S { x }",
        "S { x, ..y }",
        "a..b",
        "..",
        "m!(x)",
        "_",
        "x = y",
        "x += y",
        "x %= y",
        "a && b",
        "a || b",
        "a % b",
        "a << b",
        "a < b",
        "(a)",
        "reduction_op()",
        "reduction_op(x, Row, Add)",
        "reduction_op(x, (Row,), Add)",
        "reduction_op(x, All, Add, threadblock_shape.n, 1)",
        "static || x",
        "move || x",
        "\"s\"",
        "b's'",
        "1u8",
        "1e400",
        "0x1f32",
        "1e60f32",
        "1_000_000_000_000_000_000_000",
        "true",
    ] {
        for body in [
            format!("let d = {expression}; d"),
            format!("{expression}; d"),
            format!("let mut d = accum; d += {expression}; d"),
            expression.to_owned(),
            format!("let d = if {expression} {{ accum }} else {{ 1.0 + ({expression}) }}; d"),
        ] {
            let source = format!("fn f(accum: Accum) -> Tensor {{ {body} }}");
            if let Ok(source) = source.parse::<TokenStream>() {
                let expansion = expand_epilogue(TokenStream::new(), source.clone());
                assert!(syn::parse2::<syn::File>(expansion).is_ok(), "{body}");
                let expansion = expand_elementwise(TokenStream::new(), source);
                assert!(syn::parse2::<syn::File>(expansion).is_ok(), "{body}");
            }
        }
    }
}
