//! `epilogue check`.

use std::fmt::Write as _;

use epilogue::runtime::{Compiler, Output};

use crate::failure::Failure;
use crate::options::CheckOptions;
use crate::plan::{self, Product, validated};
use crate::progress::shown;

pub(crate) fn check(options: &CheckOptions) -> Result<String, Failure> {
    let (text, epilogues) = plan::epilogues(&options.source)?;
    let (device, arch) = plan::target(&options.gpu)?;
    let mut printed = String::new();
    for epilogue in &epilogues {
        let tree = validated(&text, epilogue, options.product.operands.types)?;
        let product = Product::of(&device, epilogue, &options.product)?;
        let choice = product.choose()?;
        let Some(chosen) = choice.kernel() else { continue };
        let _ = write!(printed, "{}: {} {}", epilogue.name, arch, chosen.key);
        if options.no_compile {
            printed.push_str("; not compiled\n");
            continue;
        }
        let compiler = Compiler::find().map_err(|absent| {
            Failure::refused(format_args!(
                "{absent}\n(`--no-compile` checks types and the choice of a kernel without it)"
            ))
        })?;
        let source = epilogue::gemm::source(&tree, &chosen.key)?;
        let what = format!("compiling {}", source.entry);
        let compiled = shown(&what, || compiler.compile(&source, arch, Output::Cubin))?;
        match compiled.log.kernel(&source.entry) {
            Some(kernel) => {
                let spilled = kernel.spill_store_bytes + kernel.spill_load_bytes;
                let _ = writeln!(
                    printed,
                    "; {} registers, {spilled} bytes spilled, {} bytes of shared memory",
                    kernel.registers,
                    kernel.shared_bytes as usize + chosen.shared_bytes,
                );
            }
            None => printed.push_str("; compiled\n"),
        }
        if tree.phases() == 1 {
            continue;
        }
        for source in product.plan()?.later_sources() {
            let what = format!("compiling {}", source.entry);
            let compiled = shown(&what, || compiler.compile(source, arch, Output::Cubin))?;
            let _ = write!(printed, "  then {}", source.entry);
            match compiled.log.kernel(&source.entry) {
                Some(kernel) => {
                    let spilled = kernel.spill_store_bytes + kernel.spill_load_bytes;
                    let _ = writeln!(printed, "; {} registers, {spilled} bytes spilled", kernel.registers);
                }
                None => printed.push_str("; compiled\n"),
            }
        }
    }
    Ok(printed)
}
