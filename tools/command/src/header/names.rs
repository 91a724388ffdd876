//! Names in C.

use std::collections::HashSet;

/// Words that C or C++ keeps for itself, as names of arguments may be.
const KEYWORDS: [&str; 48] = [
    "alignas",
    "and",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "default",
    "delete",
    "do",
    "double",
    "enum",
    "explicit",
    "export",
    "extern",
    "float",
    "goto",
    "inline",
    "int",
    "long",
    "main",
    "namespace",
    "new",
    "not",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "restrict",
    "short",
    "signed",
    "sizeof",
    "switch",
    "template",
    "this",
    "throw",
    "try",
    "typedef",
    "unsigned",
    "void",
    "xor",
];

/// The names of one struct.
#[derive(Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// The name as an identifier that no other has.
    pub(super) fn unique(&mut self, name: &str) -> String {
        let mut name = identifier(name);
        while !self.0.insert(name.clone()) {
            name.push('_');
        }
        name
    }
}

/// Whether C takes a name as it is.
pub(crate) fn is_identifier(name: &str) -> bool {
    !name.is_empty() && identifier(name) == name
}

/// A name in ASCII: dots are underscores, and letters of other alphabets their numbers.
pub(super) fn identifier(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        match character {
            '.' => text.push('_'),
            c if c.is_ascii_alphanumeric() || c == '_' => text.push(c),
            c => text.push_str(&format!("u{:x}", u32::from(c))),
        }
    }
    if KEYWORDS.contains(&text.as_str()) || text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, '_');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_c_s() {
        let mut names = Names::default();
        for (name, expected) in [
            ("bias", "bias"),
            ("arguments.bias.stride", "arguments_bias_stride"),
            ("arguments_bias.stride", "arguments_bias_stride_"),
            ("float", "_float"),
            ("größe", "gruf6udfe"),
        ] {
            assert_eq!(names.unique(name), expected);
        }
        assert!(["layer", "_2", "layer_96"].into_iter().all(is_identifier));
        assert!(!["", "2d", "a-b", "a.b", "größe", "float"].into_iter().any(is_identifier));
    }
}
