//! Reducers whose running results are several numbers, as C++ structs: the user's own, and sums of exponentials.

use crate::cuda::Writer;
use crate::evt::{AtInfinity, Reducer, ValidTree};
use crate::expr::Function;
use crate::expr::cuda::{Functions, literal};

/// The reducers of a tree, each once: of what is returned, then of what is used.
fn all(tree: &ValidTree) -> Vec<&'static Reducer> {
    let mut all: Vec<&'static Reducer> = Vec::new();
    let returned = tree.reductions().map(|(.., reduction)| reduction);
    for reducer in returned.chain(tree.used_reductions()).filter_map(|reduction| reduction.op.user()) {
        if !all.contains(&reducer) {
            all.push(reducer);
        }
    }
    all
}

/// Which of the tree's reducers one is.
pub(crate) fn place(tree: &ValidTree, reducer: &Reducer) -> usize {
    all(tree).into_iter().position(|known| known == reducer).unwrap_or_default()
}

/// The name of its struct.
pub(crate) fn name(tree: &ValidTree, reducer: &Reducer) -> String {
    format!("Reducer{}", place(tree, reducer))
}

/// The structs; `functions` collects what they call.
pub(crate) fn definitions(tree: &ValidTree, functions: &mut Functions) -> String {
    let mut code = Writer::new();
    for (place, reducer) in all(tree).into_iter().enumerate() {
        define(&mut code, place, reducer, functions);
    }
    code.text()
}

fn define(code: &mut Writer, place: usize, reducer: &'static Reducer, functions: &mut Functions) {
    if let Some(at) = AtInfinity::of(reducer) {
        let (name, nothing) = (reducer.name(), at == AtInfinity::Nothing);
        writeln!(code, "\n// `{name}`.\nusing Reducer{place} = SumOfExponentials<Real, {nothing}>;");
        return;
    }
    let (words, real) = (reducer.words(), functions.real());
    let identity: Vec<String> = reducer.identity().iter().map(|x| literal(*x, real)).collect();
    let of = |variable: &str| (0..words).map(|word| format!("{variable}.word[{word}]")).collect::<Vec<_>>();
    let mut calls = |of: &'static [Function], given: &[String]| {
        let calls = of.iter().map(|function| format!("{}({})", functions.accurate(function), given.join(", ")));
        calls.collect::<Vec<_>>().join(", ")
    };
    let lift = calls(reducer.lift(), &["x".to_owned()]);
    let combine = calls(reducer.combine(), &[of("x"), of("y")].concat());
    let finish = calls(std::slice::from_ref(reducer.finish()), &of("x"));
    let (name, identity) = (reducer.name(), identity.join(", "));
    let s = if words == 1 { "" } else { "s" };
    writeln! { code, "

        // `{name}`: its running result has {words} number{s}.
        struct Reducer{place} {{
            static constexpr int WORDS = {words};
            using Value = Real;
            static __device__ __forceinline__ State<Reducer{place}> of(Real x) {{ return {{{{{lift}}}}}; }}
            static __device__ __forceinline__ Real finish(State<Reducer{place}> x) {{ return {finish}; }}
            template <typename T> static __device__ __forceinline__ T identity() {{ return {{{{{identity}}}}}; }}
            template <typename T> static __device__ __forceinline__ T lift(T x) {{ return x; }}
            template <typename T> static __device__ __forceinline__ T combine(T x, T y) {{
                return {{{{{combine}}}}};
            }}
        }};" }
}
