//! `epilogue emit`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use epilogue::runtime::{Compiler, Output};

use crate::data::Maker;
use crate::failure::Failure;
use crate::header::{Exported, Header};
use crate::options::EmitOptions;
use crate::plan::{self, Product, validated};
use crate::progress::shown;
use crate::sass;

/// The paths of the written files.
struct Files {
    cuda: Option<PathBuf>,
    ptx: Option<PathBuf>,
    cubin: Option<PathBuf>,
    header: Option<PathBuf>,
}

pub(crate) fn emit(options: &EmitOptions) -> Result<String, Failure> {
    let (text, epilogue) = plan::one(&options.source)?;
    let tree = validated(&text, &epilogue, options.product.operands.types)?;
    if tree.phases() > 1 {
        return Err(Failure::refused(format_args!(
            "`{}` is computed from its own reductions, for which a plan keeps memory of its own and may launch several \
             kernels, and one launch is exported: return the reductions, and go on in another epilogue",
            epilogue.name
        )));
    }
    if options.product.shape.contains(&0) || options.product.batch == Some(0) {
        return Err(Failure::refused("a kernel is exported for a product that has elements: extents of 1 and more"));
    }
    let files = files(options, options.prefix.as_deref().unwrap_or(&epilogue.name))?;
    let (device, arch) = plan::target(&options.gpu)?;
    let product = Product::of(&device, &epilogue, &options.product)?;
    let (gemm, behind) = shown("choosing a kernel and compiling it", || product.plan_of_one_launch())?;
    let source = gemm.kernel_source().ok_or_else(|| Failure::refused("this device runs no kernels"))?;
    let mut printed = String::new();
    let mut note = |line: String| {
        let _ = writeln!(printed, "{line}");
    };
    let [m, n, k] = options.product.shape;
    note(format!("`{}` of {m}x{n}x{k} on {}: {}", epilogue.name, arch, gemm.choice()));
    if behind > 0 {
        note(format!(
            "({behind} kernels are faster by the model, and copy an operand first, which is a launch of its own)"
        ));
    }
    let compiler = Compiler::find().map_err(epilogue::runtime::Error::from)?;
    let what = format!("compiling {}", source.entry);
    let compiled = shown(&what, || compiler.compile(source, arch, Output::Cubin))?;

    let mut maker = Maker::Shapes(&device);
    let mut arguments = maker.arguments(&gemm, &options.product, &[])?;
    let b: Vec<&epilogue::DeviceTensor> = product.b.iter().collect();
    let launch = gemm.describe_launch(&product.a, &b[..], &arguments.list())?;
    let prefix = options.prefix.as_deref();
    let exported = Exported { gemm: &gemm, product: &options.product, arch, launch: &launch, prefix };
    let header = Header::of(&exported).text();
    for (what, path, bytes) in [
        ("CUDA C++", &files.cuda, source.code.as_bytes()),
        ("PTX", &files.ptx, compiled.ptx.as_bytes()),
        ("machine code", &files.cubin, &compiled.cubin[..]),
        ("C header", &files.header, header.as_bytes()),
    ] {
        let Some(path) = path else { continue };
        match plan::write(path, bytes)? {
            // Alone, so that it can be piped.
            Some(text) => return Ok(text),
            None => note(format!("{what}: {} ({} bytes)", path.display(), bytes.len())),
        }
    }
    if let Some(kernel) = compiled.log.kernel(&source.entry) {
        let spilled = kernel.spill_store_bytes + kernel.spill_load_bytes;
        note(format!("{}: {} registers, {spilled} bytes spilled", source.entry, kernel.registers));
    }
    if options.sass {
        printed.push_str(&sass::summary(&compiled.cubin)?);
    }
    Ok(printed)
}

/// The files that were asked for; one of them may be the standard output.
fn files(options: &EmitOptions, name: &str) -> Result<Files, Failure> {
    let EmitOptions { cuda, ptx, cubin, header, all, .. } = options;
    let mut files = Files { cuda: cuda.clone(), ptx: ptx.clone(), cubin: cubin.clone(), header: header.clone() };
    if let Some(folder) = all {
        std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, &error))?;
        let named = |extension: &str| Some(folder.join(format!("{name}.{extension}")));
        for (file, extension) in
            [(&mut files.cuda, "cu"), (&mut files.ptx, "ptx"), (&mut files.cubin, "cubin"), (&mut files.header, "h")]
        {
            if file.is_none() {
                *file = named(extension);
            }
        }
    }
    let given = [&files.cuda, &files.ptx, &files.cubin, &files.header];
    let printed = given.iter().filter(|file| file.as_deref() == Some(Path::new("-"))).count();
    if files.cubin.as_deref() == Some(Path::new("-")) {
        return Err(Failure::refused("machine code is not text: give `--cubin` a file"));
    }
    if printed > 1 {
        return Err(Failure::refused("one text is printed by `-`: give the others files"));
    }
    if given.iter().all(|file| file.is_none()) && !options.sass {
        return Err(Failure::refused(
            "say what is written: `--cuda FILE`, `--ptx FILE`, `--cubin FILE`, `--header FILE`, `--all FOLDER` or `--sass`",
        ));
    }
    Ok(files)
}
