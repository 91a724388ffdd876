//! The part of PTX that a launch needs in addition to machine code: the kernels' declarations, with their parameters.

/// The declarations of all kernels in PTX, each from `.entry` to the end of its parameters.
pub(super) fn declarations(ptx: &str) -> String {
    let mut text = String::new();
    for (at, keyword) in ptx.match_indices(".entry ") {
        let rest = &ptx[at..];
        let name_ends = rest[keyword.len()..].find(['(', '{', '.', ';', '\n']).map(|end| keyword.len() + end);
        let Some(name_ends) = name_ends else { continue };
        let end = if rest[name_ends..].starts_with('(') { rest.find(')').map(|end| end + 1) } else { None };
        text.push_str(rest[..end.unwrap_or(name_ends)].trim_end());
        // A kernel without a list of parameters: the brace ends its name.
        text.push_str("\n{}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::ptx_signature::parameters;

    #[test]
    fn parameters_are_read_from_declarations() {
        let ptx = ".version 8.0\n.visible .entry first(\n\t.param .u64 first_0,\n\t.param .align 64 .b8 p[128]\n)\n\
                   .maxntid 128\n{ ret; }\n.entry none()\n{ ret; }\n.entry bare\n{ ret; }\n";
        let short = declarations(ptx);
        for entry in ["first", "none", "bare", "missing"] {
            assert_eq!(parameters(&short, entry), parameters(ptx, entry), "{entry} of {short}");
        }
        assert!(parameters(&short, "first").is_some_and(|all| all.len() == 2) && !short.contains("ret"));
    }
}
