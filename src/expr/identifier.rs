//! Names that are valid identifiers both in Rust and in CUDA C++.

use std::collections::HashSet;

/// Words that can't be the name of a C++ value or function: keywords, alternative tokens, and what CUDA, NVRTC and the
/// C library define as macros or built-in variables.
const RESERVED: &str = "
    alignas alignof and and_eq asm assert atomic_cancel atomic_commit atomic_noexcept auto bitand bitor blockDim
    blockIdx bool break case catch char char16_t char32_t char8_t class co_await co_return co_yield compl
    concept const const_cast consteval constexpr constinit continue cudaError_t decltype default delete dim3 do
    double dynamic_cast else enum errno explicit export extern false final float for friend goto gridDim if
    import inline int linux long main module mutable namespace new noexcept not not_eq nullptr operator or or_eq
    override private protected public reflexpr register reinterpret_cast requires restrict return short signed
    size_t sizeof static static_assert static_cast stderr stdin stdout struct switch synchronized template this
    threadIdx thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual void
    volatile warpSize wchar_t while xor xor_eq
";

/// The most characters of a name. Compilers need not take identifiers of more than 1024, and a name becomes a part of
/// longer ones; NVRTC writes beyond its own memory for one of some thousand.
pub const LONGEST_NAME: usize = 255;

/// The beginning of a text, for messages.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A C++ identifier that is as close to the Rust name as possible: the same name if it is allowed.
///
/// The result has only ASCII letters, digits and single underscores, doesn't begin or end with an underscore, and is
/// not a reserved word. Names in capitals get a suffix, since macros have names in capitals. Different Rust names can
/// give the same result.
#[must_use]
pub fn sanitize(name: &str) -> String {
    let name = name.strip_prefix("r#").unwrap_or(name);
    let mut result = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '_' if result.is_empty() || result.ends_with('_') => {}
            '_' => result.push('_'),
            c if c.is_ascii_alphanumeric() => result.push(c),
            c => result.push_str(&format!("u{:x}", u32::from(c))),
        }
    }
    while result.ends_with('_') {
        result.pop();
    }
    if result.is_empty() || result.starts_with(|c: char| c.is_ascii_digit()) {
        result.insert(0, 'v');
    }
    let macro_like = result.len() > 1 && !result.chars().any(|c| c.is_ascii_lowercase());
    if macro_like || RESERVED.split_whitespace().any(|word| word == result) {
        result.push_str("_v");
    }
    result
}

/// The names of one scope, each different.
#[derive(Clone, Debug)]
pub(crate) struct FreeNames {
    taken: HashSet<String>,
    second: usize,
}

impl FreeNames {
    /// Without names so far. The second name `x` becomes `x_2` if `second` is 2.
    pub(crate) fn numbered(second: usize) -> Self {
        Self { taken: HashSet::new(), second }
    }

    /// Takes a name: the wanted one, or the first free one with a number.
    pub(crate) fn unique(&mut self, wanted: &str) -> String {
        let numbered = (self.second..).map(|i| format!("{wanted}_{i}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        names.find(|name| self.take(name)).unwrap_or_default()
    }

    /// Takes this name; tells whether it was free.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_owned())
    }

    /// Marks names that are written elsewhere as taken.
    pub(crate) fn reserve<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.taken.extend(names.into_iter().map(str::to_owned));
    }

    /// Makes a name free again, at the end of its scope.
    pub(crate) fn release(&mut self, name: &str) {
        self.taken.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_where_they_can() {
        for (given, expected) in [
            ("alpha", "alpha"),
            ("d", "d"),
            ("double", "double_v"),
            ("r#struct", "struct_v"),
            ("_c", "c"),
            ("a__b_", "a_b"),
            ("größe", "gruf6udfe"),
            ("NULL", "NULL_v"),
            ("C", "C"),
            ("_", "v"),
            ("_2d", "v2d"),
        ] {
            assert_eq!(sanitize(given), expected);
        }
    }

    #[test]
    fn names_differ() {
        let mut names = FreeNames::numbered(2);
        assert_eq!(["x", "x", "x_2", "x"].map(|wanted| names.unique(wanted)), ["x", "x_2", "x_2_2", "x_3"]);
        names.release("x");
        names.reserve(["y"]);
        assert_eq!(["x", "y"].map(|wanted| names.unique(wanted)), ["x", "y_2"]);
    }
}
