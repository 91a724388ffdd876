//! The identity of a kernel in a bundle: the same wherever and by whomever the kernel was compiled.

use crate::compile::arch::Arch;
use crate::compile::cache::CacheKey;
use crate::compile::source::{Output, Source};

/// The hash of a kernel's text, and what it was compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KernelId {
    pub(super) text: CacheKey,
    pub(super) form: Output,
    pub(super) arch: Arch,
}

impl KernelId {
    /// Whether a device that runs this form for this architecture can run it.
    pub(super) fn serves(&self, arch: Arch, form: Output) -> bool {
        self.form == form && arch.runs(self.arch)
    }
}

/// A description of what a kernel is compiled for.
pub(super) fn target(arch: Arch, form: Output) -> String {
    match form {
        Output::Cubin => arch.to_string(),
        Output::Ptx => format!("an emulated {arch}"),
    }
}

/// The hash of everything in a source that affects what runs. The source's name is left out, and so are comments and
/// `#line` directives: they name files of the machine on which it was written. The sites of failures are those of the
/// program that looks the kernel up.
pub(super) fn text_of(source: &Source) -> CacheKey {
    let mut parts: Vec<&[u8]> = vec![b"epilogue bundles 1", source.entry.as_bytes()];
    parts.extend(source.options.iter().map(String::as_bytes));
    parts.push(b"code");
    // The whole text is hashed if a line like a comment may be something else, or if line numbers may be used as
    // values.
    let has = |token: &&str| source.code.contains(*token);
    let as_it_is = has_raw_string(&source.code) || ["__LINE__", "__FILE__", "/*"].iter().any(has);
    let mut continued = false;
    for line in source.code.lines() {
        let start = line.trim_start();
        let means_nothing = start.is_empty() || start.starts_with("//") || start.starts_with("#line ");
        // A backslash joins a line with the next one; these lines are hashed.
        let tied = continued || line.ends_with('\\');
        continued = line.ends_with('\\');
        if as_it_is || tied || !means_nothing {
            parts.push(line.as_bytes());
        }
    }
    CacheKey::of(&parts)
}

/// Whether there may be a raw string: `R"`, at most 16 characters of a delimiter, and a parenthesis.
fn has_raw_string(code: &str) -> bool {
    code.match_indices("R\"").any(|(at, opening)| {
        let delimiter = code[at + opening.len()..].chars().take(17).take_while(|c| !" )\\\"\n\t".contains(*c));
        delimiter.into_iter().any(|c| c == '(')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(code: &str) -> CacheKey {
        text_of(&Source::new("k.cu", "k", code))
    }

    #[test]
    fn places_of_the_users_files_are_not_in_it() {
        let kernel = "  x = 1;\n  y = 2;\n";
        assert_eq!(text(&format!("// of /home/a/f.rs\n#line 7 \"/home/a/f.rs\"\n{kernel}")), text(kernel));
        assert_eq!(text("// a\nstatic_assert(x, \"by XOR\");"), text("static_assert(x, \"by XOR\");"));
        let renamed = Source::new("other.cu", "k", kernel);
        assert_eq!(text_of(&renamed), text(kernel));
        assert_ne!(text_of(&renamed.clone().option("--fmad=false")), text(kernel));
        assert_ne!(text_of(&Source::new("k.cu", "other", kernel)), text(kernel));
        assert_ne!(text("  x = 1;\n"), text(kernel));
    }

    /// Lines that look like comments but are code, or that change the code after them.
    #[test]
    fn what_may_mean_something_counts() {
        for (one, other) in [
            ("// a \\\nf();", "// b\nf();"),
            ("s = R\"(\n// a\n)\";", "s = R\"(\n// b\n)\";"),
            ("#line 7 \"f\"\nx = __LINE__;", "#line 8 \"f\"\nx = __LINE__;"),
            ("/*\n// */ f();", "/*\n// f();"),
        ] {
            assert_ne!(text(one), text(other), "{one} | {other}");
        }
    }

    #[test]
    fn machine_code_serves_later_gpus_of_its_generation() {
        let id = KernelId { text: text(""), form: Output::Cubin, arch: Arch::SM_80 };
        assert!(id.serves(Arch::SM_80, Output::Cubin) && id.serves(Arch::SM_86, Output::Cubin));
        assert!(!id.serves(Arch::SM_90A, Output::Cubin) && !id.serves(Arch::SM_80, Output::Ptx));
        let ptx = KernelId { form: Output::Ptx, ..id };
        assert!(ptx.serves(Arch::SM_80, Output::Ptx) && ptx.serves(Arch::SM_86, Output::Ptx));
        assert!(!ptx.serves(Arch::SM_90A, Output::Ptx) && !ptx.serves(Arch::SM_80, Output::Cubin));
    }
}
