//! How often each instruction occurs in machine code, by nvdisasm.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

/// The instructions of a summary.
const LISTED: usize = 24;

pub(crate) fn summary(cubin: &[u8]) -> Result<String, Failure> {
    let program = nvdisasm().ok_or_else(|| {
        Failure::refused(
            "nvdisasm is needed for `--sass`, and is not on the path, in CUDA_HOME/bin, /usr/local/cuda/bin or the folder \
             that EPILOGUE_TOOLS names: install the CUDA toolkit's nvdisasm (`pip install nvidia-cuda-nvdisasm`)",
        )
    })?;
    let file = std::env::temp_dir().join(format!("epilogue-{}.cubin", std::process::id()));
    std::fs::write(&file, cubin).map_err(|error| Failure::file(&file, &error))?;
    let output = Command::new(&program).arg("-c").arg(&file).output();
    let _ = std::fs::remove_file(&file);
    let output = output.map_err(|error| Failure::file(&program, &error))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::wrong(format_args!("{} failed: {}", program.display(), reason.trim())));
    }
    Ok(counted(&String::from_utf8_lossy(&output.stdout)))
}

fn nvdisasm() -> Option<PathBuf> {
    let folder = |name: &str, inside: &str| std::env::var_os(name).map(|folder| PathBuf::from(folder).join(inside));
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(folder("CUDA_HOME", "bin"))
        .chain([PathBuf::from("/usr/local/cuda/bin")])
        .chain(folder("EPILOGUE_TOOLS", "cuda/nvidia/cu13/bin"))
        .map(|folder| folder.join("nvdisasm"))
        .find(|program| program.is_file())
}

/// The instructions of a disassembly, the most frequent first.
fn counted(text: &str) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    // `        /*0010*/                   IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28] ;`, with `@P0` before it where it is
    // conditional.
    for line in text.lines().map(str::trim).filter(|line| line.starts_with("/*")) {
        let Some((_, code)) = line.split_once("*/") else { continue };
        let mut words = code.split_whitespace().skip_while(|word| word.starts_with('@'));
        let Some(word) = words.next() else { continue };
        let opcode = word.trim_end_matches(';').split('.').next().unwrap_or(word);
        if opcode.starts_with(|c: char| c.is_ascii_uppercase()) {
            *counts.entry(opcode).or_default() += 1;
        }
    }
    let all: usize = counts.values().sum();
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let mut text = format!("{all} instructions\n");
    for (name, count) in counts.iter().take(LISTED) {
        let _ = writeln!(text, "{count:8}  {name}");
    }
    if counts.len() > LISTED {
        let _ = writeln!(
            text,
            "{:8}  of {} others",
            counts[LISTED..].iter().map(|c| c.1).sum::<usize>(),
            counts.len() - LISTED
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_counted() {
        let text = "\t.section x\n.L_x:\n        /*0000*/                   MOV R1, c[0x0][0x28] ;\n        /*0010*/              @!P0 LDG.E.128 R4, [R2] ;\n        /*0020*/                   EXIT ;\n        /*0030*/                   EXIT;\n";
        assert_eq!(counted(text), "4 instructions\n       2  EXIT\n       1  LDG\n       1  MOV\n");
    }
}
