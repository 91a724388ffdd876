//! The command line.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use epilogue::gemm::{Arithmetic, Instruction, Tile};
use epilogue::{Arch, ElementType, GpuModel};

use crate::failure::Failure;
use crate::header::names::is_identifier;
use crate::source::element;

const EXAMPLES: &str = "\
An epilogue is what a kernel does with the result of a matrix product, written as a Rust function:

    // layer.rs
    #[epilogue]
    fn layer(accum: Accum, bias: RowVector, residual: Tensor) -> Tensor {
        let d = gelu(accum + bias) + residual;
        d
    }

What one does with it:

    epilogue check layer.rs --arch sm_90a                  is it right, and does it compile?
    epilogue tree layer.rs --svg layer.svg                 what was understood
    epilogue choose layer.rs --shape 4096,4096,1024        which kernel, and why
    epilogue run layer.rs --shape 64,96,32                 random data, and the reference's verdict
    epilogue run layer.rs --on sm_80 --shape 64,96,32      the same on an emulated GPU
    epilogue emit layer.rs --arch sm_80 --all layer/       CUDA C++, PTX, cubin, C header

A short one needs no file:

    epilogue tree -e '|accum, bias: RowVector| { let d = relu(accum + bias); d }'

The names of the library's operations (`gelu`, `relu`, …) are known without an import. A file's own operations stand under
`#[elementwise]`. The language's page is https://docs.rs/epilogue/latest/epilogue/language/.

The status is 0 where all is well, 1 where a kernel does not compile or a result is wrong, 2 where something is refused.";

/// Fused epilogues of matrix products: from an epilogue's text to its tree, its kernel, a C header, and a checked run.
#[derive(Debug, Parser)]
#[command(name = "epilogue", version, max_term_width = 100, arg_required_else_help = true, after_long_help = EXAMPLES)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Prints the visitor tree: every value once, with its type, simplified as it is computed.
    Tree(TreeOptions),
    /// Prints which kernel is chosen for a product, and what came behind it. Nothing is compiled.
    Choose(ChooseOptions),
    /// Writes the kernel: CUDA C++ that stands alone, PTX, machine code, and a C header with a launch function.
    ///
    /// The header has the kernel's parameter as a struct, and the shape of its launch. Its functions fill and launch it
    /// by the CUDA driver. It is for packed tensors of exactly this shape. A C or C++ program includes it, loads the
    /// cubin, and links to `libcuda`.
    Emit(EmitOptions),
    /// Checks all epilogues of a file for an architecture: types, a kernel, and what the compiler says of it.
    Check(CheckOptions),
    /// Runs an epilogue on random data, and compares every element with the f64 reference's bounds.
    Run(RunOptions),
    /// Measures an epilogue beside the bare product.
    Bench(BenchOptions),
}

/// Where the epilogue is.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("text").required(true).args(["file", "expression"]))]
pub(crate) struct SourceOptions {
    /// A Rust file with functions under `#[epilogue]`; `-` reads the standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The text itself, as `closure!` takes it or as a function.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) expression: Option<String>,
    /// Which function, if there are several.
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) name: Option<String>,
}

/// A and B.
#[derive(Debug, Args)]
pub(crate) struct OperandOptions {
    /// Element types of A and B; one if they are the same.
    #[arg(long, value_name = "TYPE[,TYPE]", default_value = "f16", value_parser = types)]
    pub(crate) types: (ElementType, ElementType),
}

/// The product.
#[derive(Debug, Args)]
pub(crate) struct ProductOptions {
    #[command(flatten)]
    pub(crate) operands: OperandOptions,
    /// The extents: A has M × K elements, B K × N.
    #[arg(long, value_name = "M,N,K", default_value = "128,128,64", value_parser = shape, allow_hyphen_values = true)]
    pub(crate) shape: [usize; 3],
    /// The number of products, along an axis in front of all tensors.
    #[arg(long, value_name = "L", value_parser = extent)]
    pub(crate) batch: Option<usize>,
    /// How A lies in memory.
    #[arg(long, value_name = "LAYOUT", default_value = "row")]
    pub(crate) a: Layout,
    /// How B lies in memory: `column` is what a linear layer's weights `[N, K]` are.
    #[arg(long, value_name = "LAYOUT", default_value = "row")]
    pub(crate) b: Layout,
    /// How the product is computed.
    #[arg(long, value_name = "HOW", default_value = "exact")]
    pub(crate) arithmetic: HowExact,
    /// A tile of the family for sm_80: `128x128x32`.
    #[arg(long, value_name = "MxNxK", value_parser = tile)]
    pub(crate) tile: Option<Tile>,
    /// Approximate instructions whatever the outputs' types.
    #[arg(long)]
    pub(crate) fast_math: bool,
}

/// Which index is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Rows are contiguous.
    Row,
    /// Columns are contiguous.
    Column,
}

/// How the product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HowExact {
    /// As exactly as the operands are.
    Exact,
    /// f32 with TF32's 11 significant bits, on tensor cores.
    Tf32,
    /// f32 rounded to bf16.
    FastBf16,
    /// FP8 summed in the tensor cores.
    FastFp8,
}

impl HowExact {
    pub(crate) const fn arithmetic(self) -> Arithmetic {
        match self {
            Self::Exact => Arithmetic::Exact,
            Self::Tf32 => Arithmetic::Tf32,
            Self::FastBf16 => Arithmetic::FastBf16,
            Self::FastFp8 => Arithmetic::FastFp8,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct TreeOptions {
    #[command(flatten)]
    pub(crate) source: SourceOptions,
    #[command(flatten)]
    pub(crate) operands: OperandOptions,
    /// Draws it into this file, too.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Writes it for Graphviz into this file, too.
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,
}

/// The GPU that kernels are chosen for.
#[derive(Debug, Args)]
pub(crate) struct GpuOptions {
    /// The architecture: `sm_80`, `sm_90a` and the like. Kernels are chosen for its best-known GPU.
    #[arg(long, value_name = "ARCH", default_value = "sm_80")]
    arch: Arch,
    /// The GPU in place of an architecture: `H200 SXM`, `RTX 4090` and the like.
    #[arg(long, value_name = "NAME", conflicts_with = "arch")]
    gpu: Option<GpuModel>,
}

impl GpuOptions {
    /// The GPU.
    pub(crate) fn model(&self) -> Result<GpuModel, Failure> {
        let of_class = || {
            let model = GpuModel::of_capability(self.arch.capability())?;
            (model.arch().capability() == self.arch.capability()).then_some(model)
        };
        if let (None, Some(model)) = (self.gpu, of_class())
            && model.arch() != self.arch
        {
            let (given, whole) = (self.arch, model.arch());
            return Err(Failure::refused(format_args!(
                "{given} is not what {model} has: kernels are compiled for exactly {whole}, so give `--arch {whole}`"
            )));
        }
        self.gpu.or_else(of_class).ok_or_else(|| {
            let known: BTreeSet<Arch> = GpuModel::all().map(GpuModel::arch).collect();
            let known: Vec<String> = known.iter().map(ToString::to_string).collect();
            Failure::refused(format_args!(
                "no GPU of {} is known: give `--gpu`, or one of {}",
                self.arch,
                known.join(", ")
            ))
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct ChooseOptions {
    #[command(flatten)]
    pub(crate) source: SourceOptions,
    #[command(flatten)]
    pub(crate) product: ProductOptions,
    #[command(flatten)]
    pub(crate) gpu: GpuOptions,
    /// How many of the kernels that came behind it are listed.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) candidates: usize,
}

#[derive(Debug, Args)]
pub(crate) struct EmitOptions {
    #[command(flatten)]
    pub(crate) source: SourceOptions,
    #[command(flatten)]
    pub(crate) product: ProductOptions,
    #[command(flatten)]
    pub(crate) gpu: GpuOptions,
    /// Writes the CUDA C++; `-` prints it.
    #[arg(long, value_name = "FILE")]
    pub(crate) cuda: Option<PathBuf>,
    /// Writes the PTX; `-` prints it.
    #[arg(long, value_name = "FILE")]
    pub(crate) ptx: Option<PathBuf>,
    /// Writes the machine code.
    #[arg(long, value_name = "FILE")]
    pub(crate) cubin: Option<PathBuf>,
    /// Writes the C header; `-` prints it.
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// Prints how often each instruction of the machine code occurs; needs nvdisasm.
    #[arg(long)]
    pub(crate) sass: bool,
    /// Writes all files into this folder, under the kernel's name, or that of `--prefix`.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) all: Option<PathBuf>,
    /// The header's names begin with it, in place of the epilogue's name: so one program has headers of one epilogue for
    /// several shapes.
    #[arg(long, value_name = "NAME", value_parser = prefix)]
    pub(crate) prefix: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) source: SourceOptions,
    #[command(flatten)]
    pub(crate) product: ProductOptions,
    #[command(flatten)]
    pub(crate) gpu: GpuOptions,
    /// Compiles nothing: types and the choice of a kernel only, for which no NVRTC is needed.
    #[arg(long)]
    pub(crate) no_compile: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) source: SourceOptions,
    #[command(flatten)]
    pub(crate) product: ProductOptions,
    /// Where it runs: `cpu`, `cuda` (the first GPU), or an emulated GPU by its architecture, such as `sm_80` or
    /// `sm_120a`, with the race detector.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(crate) on: On,
    /// The value of a host scalar; others are random.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting, allow_hyphen_values = true)]
    pub(crate) set: Vec<(String, f64)>,
    /// The seed of the random data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    #[command(flatten)]
    pub(crate) source: SourceOptions,
    #[command(flatten)]
    pub(crate) product: ProductOptions,
    /// Where it runs: `cpu` or `cuda` (the first GPU). An emulated GPU has no speed.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(crate) on: On,
    /// Seconds that each of the two is measured for.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) seconds: f64,
}

/// A device to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Cpu,
    Cuda,
    Emulated(Arch),
}

impl std::str::FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            arch => arch
                .parse()
                .map(Self::Emulated)
                .map_err(|_| format!("the devices are cpu, cuda, and the emulated {}", emulated().join(", "))),
        }
    }
}

/// The names of the emulated architectures.
fn emulated() -> Vec<String> {
    Arch::EMULATED.iter().map(ToString::to_string).collect()
}

fn prefix(text: &str) -> Result<String, String> {
    if is_identifier(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("names in C begin with it: letters, digits and underscores, with no digit first, not `{text}`"))
    }
}

fn types(text: &str) -> Result<(ElementType, ElementType), String> {
    match text.split(',').collect::<Vec<_>>()[..] {
        [both] => element(both).map(|both| (both, both)),
        [a, b] => Ok((element(a)?, element(b)?)),
        _ => Err("give one element type, or A's and B's: f16, or f8e4m3,f8e5m2".to_owned()),
    }
}

fn shape(text: &str) -> Result<[usize; 3], String> {
    let extents = text.split(',').map(extent).collect::<Result<Vec<_>, _>>()?;
    extents.try_into().map_err(|_| "three extents are wanted: M,N,K".to_owned())
}

fn extent(text: &str) -> Result<usize, String> {
    let extent: Option<usize> = text.trim().parse().ok();
    let most = epilogue::gemm::MAX_EXTENT;
    extent
        .filter(|extent| *extent <= most)
        .ok_or_else(|| format!("an extent is a number from 0 to {most}, not `{text}`"))
}

/// The tiles of all instructions, each once.
fn tiles() -> Vec<(String, Tile)> {
    let named = |tile: &Tile| (format!("{}x{}x{}", tile.m, tile.n, tile.k), *tile);
    let all = Instruction::ALL.into_iter().chain(Instruction::native());
    let all = all.flat_map(|instruction| Tile::all(instruction).iter().map(named));
    let mut seen = std::collections::HashSet::new();
    all.filter(|(name, _)| seen.insert(name.clone())).collect()
}

fn tile(text: &str) -> Result<Tile, String> {
    let mut tiles = tiles();
    let Some(place) = tiles.iter().position(|(name, _)| name == text) else {
        let names: Vec<String> = tiles.into_iter().map(|(name, _)| name).collect();
        return Err(format!("there is no such tile; there are {}", names.join(", ")));
    };
    Ok(tiles.swap_remove(place).1)
}

fn setting(text: &str) -> Result<(String, f64), String> {
    let wanted = || format!("a scalar's name and its value are wanted, as in alpha=0.5, not `{text}`");
    let (name, value) = text.split_once('=').ok_or_else(wanted)?;
    Ok((name.to_owned(), value.parse().map_err(|_| wanted())?))
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds.filter(|s| (0.0..=600.0).contains(s)).ok_or_else(|| "seconds are a number from 0 to 600".to_owned())
}
