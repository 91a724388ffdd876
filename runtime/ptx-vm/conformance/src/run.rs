//! Runs cases on the machine.

use ptx_vm::numerics::tensor_map::{Fill, MapElement, TensorMap, Tiled};
use ptx_vm::{Address, Arch, Argument, Launch, Machine, Module, Options};

use crate::case::{Case, Extra, Mismatch, Target};

/// Why a case did not pass.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The text was refused.
    #[error("{case}: {error}")]
    Parse {
        /// The case.
        case: String,
        /// Why.
        error: ptx_vm::ParseError,
    },
    /// The launch failed.
    #[error("{case}: {error}")]
    Launch {
        /// The case.
        case: String,
        /// Why.
        error: ptx_vm::LaunchFailure,
    },
    /// The race detector reports a kernel that is correct.
    #[error("{case}: {count} reports, the first: {first}")]
    Race {
        /// The case.
        case: String,
        /// How many.
        count: usize,
        /// The first report.
        first: String,
    },
    /// Memory of the machine.
    #[error(transparent)]
    Memory(#[from] ptx_vm::MemoryError),
    /// The tensor map.
    #[error(transparent)]
    Map(#[from] ptx_vm::numerics::tensor_map::TensorMapError),
    /// The output differs.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

impl Target {
    /// The machine's architecture.
    pub fn arch(self) -> Arch {
        match self {
            Target::Sm80 => Arch::Sm80,
            Target::Sm90a => Arch::Sm90a,
        }
    }
}

/// The output of a case on a machine with the given options (their architecture is replaced by the case's).
///
/// # Errors
/// If the text is refused, the launch fails, or the race detector is on and reports something.
pub fn output(case: &Case, input: &[u8], options: Options) -> Result<Vec<u8>, Failure> {
    let module = Module::parse(&case.module).map_err(|error| Failure::Parse { case: case.name.clone(), error })?;
    let machine = Machine::new(options.arch(case.target.arch()));
    let source = machine.allocate(input.len().max(8) as u64, "input")?;
    machine.write(source, input)?;
    let target = machine.allocate(case.output_bytes as u64, "output")?;
    machine.fill(target, case.output_bytes as u64, 0)?;
    let map = match case.extra {
        Extra::None => None,
        Extra::TensorMap(tensor) => Some(TensorMap::encode(&Tiled {
            element: MapElement::U16,
            address: address(source),
            sizes: &tensor.sizes[..tensor.rank],
            strides: &tensor.strides[..tensor.rank - 1],
            box_sizes: &tensor.box_sizes[..tensor.rank],
            element_strides: &[1; 5][..tensor.rank],
            swizzle: tensor.swizzle,
            fill: Fill::Zero,
        })?),
    };
    let mut arguments = vec![Argument::Address(source), Argument::Address(target)];
    if let Some(map) = &map {
        arguments.push(Argument::Bytes(map));
    }
    let launch = Launch::new([case.blocks, 1, 1], [case.threads, 1, 1]).cluster([case.cluster, 1, 1]);
    let report = machine
        .launch(&module, "test", &launch, &arguments)
        .map_err(|error| Failure::Launch { case: case.name.clone(), error })?;
    if let Some(first) = report.races.first() {
        let (count, first) = (report.races.len(), first.to_string());
        return Err(Failure::Race { case: case.name.clone(), count, first });
    }
    let mut bytes = vec![0; case.output_bytes];
    machine.read(target, &mut bytes)?;
    Ok(bytes)
}

fn address(address: Address) -> u64 {
    address.0
}

/// Runs a case for a seed and compares.
///
/// # Errors
/// If the case does not pass.
pub fn run(case: &Case, seed: u64, options: Options) -> Result<(), Failure> {
    let input = case.input(seed);
    let found = output(case, &input, options)?;
    Ok(case.check(&input, &found)?)
}
