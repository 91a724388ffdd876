//! From options to a text, a tree, tensors and a plan.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use epilogue::evt::{Types, ValidTree};
use epilogue::gemm::{Builder, Choice};
use epilogue::runtime::ptx_vm::{Completion, Detector, Options};
use epilogue::{Arch, Device, DeviceTensor, ElementType, Gemm};

use crate::failure::Failure;
use crate::options::{GpuOptions, Layout, On, ProductOptions, SourceOptions};
use crate::source::{self, Epilogue, LONGEST, Mistakes, Text};

/// The text, and all of its epilogues: one at least.
pub(crate) fn epilogues(options: &SourceOptions) -> Result<(Text, Vec<Epilogue>), Failure> {
    let text = text(options)?;
    let found = match &options.expression {
        Some(_) => source::read_expression(&text)?,
        None => source::read(&text)?,
    };
    let Some(name) = &options.name else {
        return match found.is_empty() {
            true => Err(Failure::refused(format_args!(
                "there is no function under `#[epilogue]` in {}: write that line above one",
                text.name
            ))),
            false => Ok((text, found)),
        };
    };
    let names: Vec<String> = found.iter().map(|epilogue| epilogue.name.clone()).collect();
    let named: Vec<Epilogue> = found.into_iter().filter(|epilogue| epilogue.name == *name).collect();
    if named.is_empty() {
        let there = format!("there are {}", names.join(", "));
        return Err(Failure::refused(format_args!("no epilogue is named `{name}` in {}; {there}", text.name)));
    }
    Ok((text, named))
}

/// The text, and the one epilogue that is meant.
pub(crate) fn one(options: &SourceOptions) -> Result<(Text, Epilogue), Failure> {
    let (text, mut found) = epilogues(options)?;
    match found.len() {
        1 => Ok((text, found.swap_remove(0))),
        _ => {
            let names: Vec<&str> = found.iter().map(|epilogue| epilogue.name.as_str()).collect();
            Err(Failure::refused(format_args!(
                "{} has several epilogues, {}: say which by `--name {}`",
                text.name,
                names.join(", "),
                names.first().unwrap_or(&"")
            )))
        }
    }
}

fn text(options: &SourceOptions) -> Result<Text, Failure> {
    if let Some(text) = &options.expression {
        return Ok(Text { name: "the command line".to_owned(), text: text.clone() });
    }
    let path = options.file.as_deref().unwrap_or(Path::new("-"));
    if path == Path::new("-") {
        return all(path, "standard input".to_owned(), std::io::stdin().lock());
    }
    let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    all(path, path.display().to_string(), file)
}

/// All that there is to read, if that is not too long; of what has no end, no more is read than that.
fn all(path: &Path, name: String, from: impl Read) -> Result<Text, Failure> {
    let mut bytes = Vec::new();
    from.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(|error| Failure::file(path, &error))?;
    if bytes.len() > LONGEST {
        return Err(Failure::refused(format_args!(
            "{name} has more than {LONGEST} bytes, and at most that many are read"
        )));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Text { name, text }),
        Err(error) => Err(Failure::refused(format_args!("{name} is not UTF-8: {}", error.utf8_error()))),
    }
}

/// The tree for element types of A and B; a mistake is shown at its place.
pub(crate) fn validated(
    text: &Text,
    epilogue: &Epilogue,
    (a, b): (ElementType, ElementType),
) -> Result<ValidTree, Failure> {
    epilogue.tree.validate(Types::new(a, b)).map_err(|error| {
        let message = format!("in the epilogue `{}`: {}", epilogue.name, error.mistake);
        Mistakes::at(text, error.site.line, error.site.column, message).into()
    })
}

/// A product whose kernel is to be chosen: its builder, and its operands, which have no memory.
pub(crate) struct Product {
    pub(crate) builder: Builder<()>,
    pub(crate) a: DeviceTensor,
    pub(crate) b: Vec<DeviceTensor>,
}

impl Product {
    pub(crate) fn of(device: &Device, epilogue: &Epilogue, options: &ProductOptions) -> Result<Self, Failure> {
        let count = epilogue.tree.accumulators().len();
        let a = operand(device, options, Operand::A)?;
        let b = (0..count).map(|_| operand(device, options, Operand::B)).collect::<Result<Vec<_>, _>>()?;
        Self::with(device, epilogue, options, a, b)
    }

    /// With operands that are there.
    pub(crate) fn with(
        device: &Device,
        epilogue: &Epilogue,
        options: &ProductOptions,
        a: DeviceTensor,
        b: Vec<DeviceTensor>,
    ) -> Result<Self, Failure> {
        let all_b: Vec<&DeviceTensor> = b.iter().collect();
        let mut builder = Builder::<()>::new(device, epilogue.tree.clone()).operands(&a, &all_b[..])?;
        builder = builder.arithmetic(options.arithmetic.arithmetic());
        if options.fast_math {
            builder = builder.fast_math(true);
        }
        if let Some(tile) = options.tile {
            builder = builder.tile(tile);
        }
        Ok(Self { builder, a, b })
    }

    pub(crate) fn choose(&self) -> Result<Choice, Failure> {
        Ok(self.builder.choose()?)
    }

    pub(crate) fn plan(&self) -> Result<Gemm, Failure> {
        Ok(self.builder.clone().plan()?)
    }

    /// The plan of the best kernel that loads A and B as they lie, and that kernel's place among the candidates.
    pub(crate) fn plan_of_one_launch(&self) -> Result<(Gemm, usize), Failure> {
        let choice = self.choose()?;
        if choice.kernel().is_some_and(|chosen| chosen.repacking.is_none()) {
            return Ok((self.plan()?, 0));
        }
        let found = choice.candidates().iter().position(|candidate| candidate.repacking.is_none());
        match found {
            Some(place) => {
                let candidate = &choice.candidates()[place];
                Ok((self.builder.clone().candidate(candidate).plan()?, place))
            }
            None => Err(Failure::refused(
                "every kernel for these operands copies one of them first: give rows that begin at multiples of 16 bytes",
            )),
        }
    }
}

/// A or B.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    A,
    B,
}

impl Operand {
    /// Its shape without the batch, how it lies, and its element type.
    pub(crate) fn of(self, options: &ProductOptions) -> ([usize; 2], Layout, ElementType) {
        let [m, n, k] = options.shape;
        match self {
            Self::A => ([m, k], options.a, options.operands.types.0),
            Self::B => ([k, n], options.b, options.operands.types.1),
        }
    }
}

/// The shape in memory of a matrix that lies so, with its batch.
pub(crate) fn stored([rows, columns]: [usize; 2], layout: Layout, batch: Option<usize>) -> Vec<usize> {
    let matrix = match layout {
        Layout::Row => [rows, columns],
        Layout::Column => [columns, rows],
    };
    batch.into_iter().chain(matrix).collect()
}

/// The matrix of what is stored so.
pub(crate) fn viewed(stored: DeviceTensor, layout: Layout) -> Result<DeviceTensor, Failure> {
    match layout {
        Layout::Row => Ok(stored),
        Layout::Column => Ok(stored.transpose()?),
    }
}

fn operand(device: &Device, options: &ProductOptions, operand: Operand) -> Result<DeviceTensor, Failure> {
    let (shape, layout, element) = operand.of(options);
    viewed(device.without_memory(element, stored(shape, layout, options.batch))?, layout)
}

/// The device that something runs on.
pub(crate) fn device(on: On) -> Result<Device, Failure> {
    Ok(match on {
        On::Cpu => Device::cpu(),
        On::Cuda => Device::cuda(0)?,
        // With everything that it can find: a tool that checks has the time.
        On::Emulated(arch) => {
            Device::emulated_with(arch, Options::default().detector(Detector::On).completion(Completion::Random))?
        }
    })
}

/// A device that compiles for a GPU and runs nothing, with the architecture that it compiles for.
pub(crate) fn target(gpu: &GpuOptions) -> Result<(Device, Arch), Failure> {
    let model = gpu.model()?;
    Ok((epilogue::bundle::Builder::new().target(model), model.arch()))
}

/// Writes a file; `-` gives the text back, to be printed.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<Option<String>, Failure> {
    if path == Path::new("-") {
        return Ok(Some(String::from_utf8_lossy(bytes).into_owned()));
    }
    std::fs::write(path, bytes).map_err(|error| Failure::file(path, &error))?;
    Ok(None)
}
