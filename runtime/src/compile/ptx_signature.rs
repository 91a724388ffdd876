//! The parameters of a kernel, read from its PTX.
//!
//! The driver reads as many bytes through each argument's pointer as the parameter has, so arguments are checked
//! against this before a launch.

/// A kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) bytes: usize,
}

/// The parameters of the kernel `entry`; `None` if the PTX has no kernel of this name (PTX ISA 5.4, ".entry" and
/// ".param").
pub(crate) fn parameters(ptx: &str, entry: &str) -> Option<Vec<Parameter>> {
    let list = ptx.match_indices(".entry").find_map(|(at, keyword)| {
        let rest = ptx[at + keyword.len()..].trim_start().strip_prefix(entry)?;
        let rest = rest.trim_start();
        match rest.as_bytes().first() {
            Some(b'(') => rest[1..].split(')').next(),
            // A kernel without parameters may have no list at all.
            Some(b'.' | b'{' | b';') => Some(""),
            _ => None,
        }
    })?;
    list.split(',').map(str::trim).filter(|declaration| !declaration.is_empty()).map(parameter).collect()
}

/// `.param .u64 .ptr .align 1 name`, `.param .align 8 .b8 name[48]`.
fn parameter(declaration: &str) -> Option<Parameter> {
    let element = declaration.split_whitespace().find_map(|word| {
        let bits = word.strip_prefix(['.'])?.strip_prefix(['b', 'u', 's', 'f'])?;
        bits.parse::<usize>().ok().map(|bits| bits / 8)
    })?;
    let count = match declaration.split_once('[') {
        Some((_, rest)) => rest.split(']').next()?.trim().parse().ok()?,
        None => 1,
    };
    Some(Parameter { bytes: element * count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let ptx = "
.visible .entry gemm_long(
\t.param .u32 x
)
{ ret; }
.visible .entry gemm(
\t.param .u64 .ptr .align 1 gemm_param_0,
\t.param .align 64 .b8 gemm_param_1[128],
\t.param .f32 gemm_param_2,
\t.param .u8 gemm_param_3
)
.maxntid 128, 1, 1
{ ret; }
.entry none()
{ ret; }
.entry bare
{ ret; }
";
        let sizes = |entry| Some(parameters(ptx, entry)?.iter().map(|p| p.bytes).collect::<Vec<_>>());
        assert_eq!(sizes("gemm").unwrap(), [8, 128, 4, 1]);
        assert_eq!(sizes("gemm_long").unwrap(), [4]);
        assert_eq!(sizes("none").unwrap(), [0usize; 0]);
        assert_eq!(sizes("bare").unwrap(), [0usize; 0]);
        assert_eq!(sizes("gem"), None);
        assert_eq!(sizes("missing"), None);
    }
}
