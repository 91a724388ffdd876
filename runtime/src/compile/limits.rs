//! Limits on the sources that a compiler is given: NVRTC writes beyond its own memory for names of some thousand
//! characters, and has a stack like any other.

use crate::compile::source::Source;
use crate::error::{Error, Result};

/// The most bytes of an identifier: compilers need not take longer ones ([implimits] of the C++ standard).
pub(crate) const LONGEST_WORD: usize = 1024;
/// The most bytes of a file's name: of Linux's `PATH_MAX`.
pub(crate) const LONGEST_NAME: usize = 4096;
/// The most bytes of an option.
const LONGEST_OPTION: usize = 4096;
/// The most bytes of the code.
const LONGEST_CODE: usize = 1 << 24;
/// The most brackets that are open at one place. A tensor expression of the greatest depth has 640; NVRTC takes these on a stack
/// of 2 MiB. ([implimits] has 256 at the least.)
pub(crate) const DEEPEST: usize = 768;

/// Refuses a source that is beyond the limits.
pub(crate) fn check(source: &Source) -> Result<()> {
    let Source { name, code, entry, options, .. } = source;
    let refused = |reason: String| Err(Error::Source { kernel: shortened(entry), reason });
    let long = |what: &str, bytes: usize, most: usize| {
        refused(format!("{what} has {bytes} bytes, and at most {most} are allowed: give it a shorter one"))
    };
    for (what, text, most) in [
        ("the kernel's name", entry, LONGEST_WORD),
        ("the source's name", name, LONGEST_NAME),
        ("the code", code, LONGEST_CODE),
    ] {
        if text.len() > most {
            return long(what, text.len(), most);
        }
    }
    if let Some(option) = options.iter().find(|option| option.len() > LONGEST_OPTION) {
        return long("an option", option.len(), LONGEST_OPTION);
    }
    if [name, code, entry].into_iter().chain(options).any(|text| text.contains('\0')) {
        return refused("the source, its name or an option contains a zero byte".to_owned());
    }
    let Measured { longest_word, longest_line_name, deepest } = measured(code);
    if longest_word > LONGEST_WORD {
        return refused(format!(
            "a name or number in the code has {longest_word} bytes, and at most {LONGEST_WORD} are allowed: give it a \
             shorter one"
        ));
    }
    if longest_line_name > LONGEST_NAME {
        return refused(format!(
            "the name of a file in the code (after `#line`) has {longest_line_name} bytes, and at most {LONGEST_NAME} are \
             allowed: give it a shorter one"
        ));
    }
    if deepest > DEEPEST {
        return refused(format!(
            "{deepest} brackets are open at one place of the code, and at most {DEEPEST} may be: give parts of it names"
        ));
    }
    Ok(())
}

/// The beginning of a text, for a message.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

struct Measured {
    longest_word: usize,
    /// The longest name in lines that begin with `#line`.
    longest_line_name: usize,
    deepest: usize,
}

fn measured(code: &str) -> Measured {
    let (mut longest_word, mut word, mut deepest, mut depth) = (0, 0, 0, 0usize);
    for line in code.lines().map(|line| line.split_once("//").map_or(line, |(before, _)| before)) {
        let is_directive = line.trim_start().starts_with('#');
        for byte in line.bytes().chain([b'\n']) {
            if byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii() {
                word += 1;
                continue;
            }
            // A directive's words are texts.
            if !is_directive {
                longest_word = longest_word.max(word);
            }
            word = 0;
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
    }
    let directives = code.lines().filter(|line| line.trim_start().starts_with("#line"));
    // Between the first quotation mark and the last one.
    let name = |line: &str| line.find('"').zip(line.rfind('"')).map_or(0, |(from, to)| (to - from).saturating_sub(1));
    Measured { longest_word, longest_line_name: directives.map(name).max().unwrap_or(0), deepest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_compiler_is_given_is_refused() {
        let word = |count: usize| "w".repeat(count);
        let code = |code: String| Source::new("k.cu", "k", code);
        let option = |bytes: usize| code(String::new()).option(word(bytes));
        let nested = |depth: usize| code(format!("{}{}", "(".repeat(depth), ")".repeat(depth)).repeat(3));
        for (within, beyond, said) in [
            (
                Source::new("k.cu", word(1024), ""),
                Source::new("k.cu", word(1025), ""),
                "the kernel's name has 1025 bytes",
            ),
            (Source::new(word(4096), "k", ""), Source::new(word(4097), "k", ""), "the source's name has 4097 bytes"),
            (option(4096), option(4097), "an option has 4097 bytes"),
            (code(word(1024)), code(word(1025)), "a name or number in the code has 1025 bytes"),
            (nested(768), nested(769), "769 brackets are open"),
            (
                code(format!("#line 7 \"{}\"", word(4000))),
                code(format!("#line 7 \"{}\"", word(5000))),
                "(after `#line`) has 5000 bytes",
            ),
            (code("a // :-(\n".repeat(1000)), code("\0".to_owned()), "a zero byte"),
            (code(" ".repeat(1 << 24)), code(" ".repeat((1 << 24) + 1)), "the code has 16777217 bytes"),
        ] {
            check(&within).unwrap();
            let refused = check(&beyond).unwrap_err().to_string();
            assert!(refused.contains(said) && refused.len() < 400, "{refused}");
        }
    }
}
