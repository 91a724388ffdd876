//! The names of the library's operations, and what to write instead of those that don't exist.
//!
//! This is only for messages: rustc says which function a name means, how many arguments it takes and of what types. A
//! test compares the list with `epilogue::ops`.

use proc_macro2::Ident;
use syn::Path;

use crate::report::{Errors, similar};
use crate::sight::{File, Files, Sight};

/// Every operation of `epilogue::ops`.
pub const OPERATIONS: [&str; 48] = [
    "abs",
    "abs_grad",
    "atan2",
    "ceil",
    "clamp",
    "cos",
    "cos_grad",
    "erf",
    "erf_grad",
    "exp",
    "exp2",
    "exp_grad",
    "floor",
    "fma",
    "gelu",
    "gelu_grad",
    "gelu_tanh",
    "gelu_tanh_grad",
    "hardswish",
    "hardswish_grad",
    "leaky_relu",
    "leaky_relu_grad",
    "log",
    "log1p",
    "log2",
    "max",
    "min",
    "neg",
    "pow",
    "recip",
    "relu",
    "relu_grad",
    "round",
    "rsqrt",
    "select",
    "sigmoid",
    "sigmoid_grad",
    "silu",
    "silu_grad",
    "sin",
    "sin_grad",
    "softplus",
    "softplus_grad",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "tanh_grad",
];

/// Names from other libraries, and how to write the same here. `tests/language/macros/followed.rs` follows each advice.
const ELSEWHERE: [(&[&str], &str); 23] = [
    (&["maximum", "fmax", "fmaxf"], "the larger of two values is `max(x, y)`"),
    (&["minimum", "fmin", "fminf"], "the smaller of two values is `min(x, y)`"),
    (&["ln", "logf"], "the natural logarithm is `log(x)`"),
    (&["ln_1p", "log1pf"], "the logarithm of `1 + x` is `log1p(x)`"),
    (&["powf", "powi"], "a power is `pow(x, y)`"),
    (&["mul_add", "fmaf"], "`x * y + z`, rounded once, is `fma(x, y, z)`"),
    (&["hypot"], "the length of two sides is `sqrt(x * x + y * y)`"),
    (&["sum", "reduce_sum"], "a sum along an axis is a reduction: `let s = reduction_op(x, Row, Add);`"),
    (&["mean", "reduce_mean", "average"], "a mean along an axis is a reduction: `let m = reduction_op(x, Row, Mean);`"),
    (&["var", "variance"], "a variance along an axis is a reduction: `let v = reduction_op(x, Row, Variance);`"),
    (
        &["std", "stddev"],
        "a standard deviation is a reduction's square root: `let s = sqrt(reduction_op(x, Row, Variance));`",
    ),
    (
        &["softmax"],
        "a softmax is two reductions: `let e = exp(x - reduction_op(x, Row, Max));` and `let d = e / reduction_op(e, Row, Add);`",
    ),
    (&["log_softmax"], "that is a reduction: `let d = x - reduction_op(x, Row, LogSumExp);`"),
    (&["logsumexp", "log_sum_exp"], "that is a reduction: `let s = reduction_op(x, Row, LogSumExp);`"),
    (&["argmax"], "that is a reduction: `let i = reduction_op(x, Row, ArgMax);`, an integer"),
    (&["argmin"], "that is a reduction: `let i = reduction_op(x, Row, ArgMin);`, an integer"),
    (&["norm"], "a norm is a reduction's square root: `let n = sqrt(reduction_op(x, Row, SumSquares));`"),
    (
        &["layer_norm", "layernorm", "rms_norm", "rmsnorm", "batch_norm"],
        "a norm divides by a reduction, as in `let d = x * rsqrt(reduction_op(x * x, Row, Mean) + 1e-5);`",
    ),
    (
        &["prod", "product", "amax", "amin", "reduce"],
        "what combines a row or a column is a reduction: `let r = reduction_op(x, Row, Max);`",
    ),
    (
        &["permute", "transpose", "reshape", "slice", "t"],
        "an epilogue knows one element of each tensor: permute a tensor where it is passed to `run`",
    ),
    (
        &["arange", "iota", "index", "program_id", "row_index", "column_index"],
        "an element's place is `row()`, `column()` and `batch()`, which are integers",
    ),
    (
        &["triu", "tril", "one_hot"],
        "that is a condition on the element's place: `if column() <= row() { x } else { 0.0 }`",
    ),
    (
        &["rand", "randn", "random", "dropout"],
        "random numbers are `random(seed)` in an epilogue, of a parameter `seed: Seed`",
    ),
];

/// Whether it is one of them.
#[must_use]
pub fn is_known(name: &str) -> bool {
    OPERATIONS.contains(&name)
}

/// Refuses a method that is not an operation. All methods are the library's, so the list is enough.
pub(crate) fn method(name: &Ident, errors: &mut Errors) {
    let written = name.to_string();
    if !is_known(&written) {
        let advice =
            elsewhere(&written).unwrap_or_else(|| nearest(&written, &[], "a function of your own is called as `f(x)`"));
        errors.at(name.span(), format_args!("there is no operation `{written}`{advice}"));
    }
}

/// Whether a called path is not a function of Rust's own library, as `f32::max` or `std::cmp::max` are; otherwise that is
/// refused. Only the CPU knows the code of these.
pub(crate) fn of_rust(path: &Path, errors: &mut Errors) -> bool {
    let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let of_rust = match &segments[..] {
        [first, _, ..] if path.leading_colon.is_none() => ["f32", "f64", "std", "core"].contains(&first.as_str()),
        [first, _, ..] => ["std", "core"].contains(&first.as_str()),
        _ => false,
    };
    let Some(name) = segments.last().filter(|_| of_rust) else { return true };
    let advice = match is_known(name) {
        true => format!("write `{name}(…)`, the operation of this library"),
        false => elsewhere(name).map_or_else(
            || "write the operation of this library, or a function of your own under `#[elementwise]`".to_owned(),
            |advice| advice.trim_start_matches("; ").to_owned(),
        ),
    };
    let written = segments.join("::");
    errors.on(path, format_args!("`{written}` is a function of Rust's library, which no kernel can call: {advice}"));
    false
}

/// Refuses the call of a name that nothing in the file can give a meaning; otherwise rustc decides.
pub(crate) fn call(name: &Ident, files: &mut Files, errors: &mut Errors) {
    let Some(file) = files.of(name) else { return };
    let written = name.to_string();
    if let Some(message) = refusal(&written, file) {
        errors.at(name.span(), message);
    }
}

/// The message for the call of a name in a file, if there is one.
pub(crate) fn refusal(written: &str, file: &File) -> Option<String> {
    match file.sight(written, is_known(written)) {
        Sight::Open => None,
        Sight::Function => Some(format!(
            "`{written}` is an ordinary function, of which only the CPU knows the code: write `#[elementwise]` above it"
        )),
        Sight::Nothing if is_known(written) => {
            Some(format!("`{written}` is not imported here: write `use epilogue::prelude::*;`"))
        }
        Sight::Nothing => {
            let own = "a function of your own stands under `#[elementwise]`";
            let advice = elsewhere(written).unwrap_or_else(|| nearest(written, &file.operations, own));
            Some(format!("there is no operation `{written}`{advice}"))
        }
    }
}

fn elsewhere(written: &str) -> Option<String> {
    ELSEWHERE.iter().find(|(words, _)| words.contains(&written)).map(|(_, advice)| format!("; {advice}"))
}

/// The name that was probably meant, or all names.
fn nearest(written: &str, own: &[String], otherwise: &str) -> String {
    match similar(written, OPERATIONS.into_iter().chain(own.iter().map(String::as_str))) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => {
            let slopes = |name: &&str| name.ends_with("_grad");
            let names: Vec<String> = OPERATIONS
                .into_iter()
                .filter(|name| !slopes(name))
                .chain(own.iter().map(String::as_str))
                .map(|name| format!("`{name}`"))
                .collect();
            format!("; {otherwise}; there are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that the library defines: its primitives, and its functions under `#[elementwise]`.
    fn defined() -> Vec<String> {
        let text = include_str!("../../../src/ops/mod.rs");
        let (_, primitives) = text.split_once("\nprimitives! {").expect("the primitives");
        let (primitives, _) = primitives.split_once("\n}").expect("their end");
        let primitives = primitives
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("//"))
            .map(|line| line.split('(').next().expect("a name").to_owned());
        let others = [include_str!("../../../src/ops/activation.rs"), include_str!("../../../src/ops/trigonometry.rs")]
            .into_iter()
            .flat_map(|text| File::read(text).expect("tokens").operations);
        // `select` takes a truth value, so it is not in these lists.
        let mut names: Vec<String> = primitives.chain(others).chain(["select".to_owned()]).collect();
        names.sort();
        names
    }

    #[test]
    fn the_list_is_the_library_s() {
        assert_eq!(OPERATIONS.to_vec(), defined());
    }

    #[test]
    fn no_word_of_another_library_is_an_operation() {
        for word in ELSEWHERE.iter().flat_map(|(words, _)| *words) {
            assert!(!is_known(word), "{word}");
        }
    }

    #[track_caller]
    fn says(name: &str, rest: &str, expected: &str) {
        let file = File::read(&format!("use epilogue::prelude::*; {rest}")).expect("tokens");
        assert_eq!(refusal(name, &file).unwrap_or_default(), expected);
    }

    #[test]
    fn messages_say_what_to_write() {
        says("tanh", "", "");
        says("mish", "#[elementwise] fn mish(x: f32) -> f32 { x }", "");
        says("tahn", "", "there is no operation `tahn`; did you mean `tanh`?");
        says(
            "dobule",
            "#[elementwise] fn double(x: f32) -> f32 { 2.0 * x }",
            "there is no operation `dobule`; did you mean `double`?",
        );
        says("maximum", "", "there is no operation `maximum`; the larger of two values is `max(x, y)`");
        says(
            "sum",
            "",
            "there is no operation `sum`; a sum along an axis is a reduction: `let s = reduction_op(x, Row, Add);`",
        );
        says(
            "mean",
            "",
            "there is no operation `mean`; a mean along an axis is a reduction: `let m = reduction_op(x, Row, Mean);`",
        );
        says(
            "plain",
            "fn plain(x: f32) -> f32 { x }",
            "`plain` is an ordinary function, of which only the CPU knows the code: write `#[elementwise]` above it",
        );
        let mish = refusal("mish", &File::read("use epilogue::prelude::*;").expect("tokens")).unwrap_or_default();
        assert!(mish.contains("`#[elementwise]`") && mish.contains("`silu`") && !mish.contains("_grad"), "{mish}");
        let file = File::read("use epilogue::prelude::epilogue;").expect("tokens");
        assert!(refusal("tanh", &file).is_some_and(|message| message.contains("prelude")));
    }
}
