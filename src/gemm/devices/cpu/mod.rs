//! The CPU as a kind of device: it has tiles and no kernels, so nothing is compiled before the first run.
//!
//! A run reads bounds and indices on the host, gathers and rounds operands if it must, and calls [`cpu::execute`].

mod pack;
mod words;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use epilogue_runtime::{DeviceTensor, Kernel, Source, Stream, without_optimisation};
use smallvec::SmallVec;

use self::words::cpu_words;
use super::backend::Backend;
use super::choice::{Choice, Chosen, Compiled};
use super::executable::{Executable, Kept};
use super::operation::{GivenRun, Operation};
use crate::evt::reference::Multiplication;
use crate::evt::{MAX_ACCUMULATORS, Prices};
use crate::gemm::Tile;
use crate::gemm::cpu::{self, Activations, TileShape};
use crate::gemm::kernel::launch::LaunchDescription;
use crate::gemm::model::selection::Request;
use crate::gemm::problem::weight_panels::WeightPanels;
use crate::gemm::problem::weights::Weights;
use crate::gemm::problem::{Arithmetic, Error, Knob, Left, MAX_EXTENT, Packed, Problem, Quantization, Right, Unpacked};
use crate::gemm::run::groups::read_groups;
use crate::gemm::run::picked::read_picked;
use crate::gemm::run::scattered::Placed;
use crate::{Argument, ElementType};

/// The CPU.
pub(super) struct Cpu;

impl Backend for Cpu {
    fn prices(&self) -> Prices {
        Prices::CPU
    }

    fn refuses(&self, (a, b): (ElementType, ElementType), _arithmetic: Arithmetic) -> Option<&'static str> {
        match cpu::check_operands(a, b) {
            Err(Error::OperandTypes { advice, .. }) => Some(advice),
            _ => None,
        }
    }

    fn multiplies_weights(&self, _format: Quantization) -> bool {
        true
    }

    fn lacks(&self, knob: Knob) -> Option<&'static str> {
        match knob {
            // Its rows and columns are those of per-tile partials.
            Knob::Tile => None,
            Knob::Tuning => None,
            _ => Some("which runs no kernels"),
        }
    }

    fn choose(&self, operation: &Operation, request: &Request) -> Result<Choice, Error> {
        let Some(Tile { m, n, .. }) = request.pins.tile else {
            let phases = &operation.phases;
            let (types, Problem { m, n, k, batch, .. }) = (phases.tree.types(), operation.problem.shared_alike());
            let accumulators = phases.first().cost().products();
            let tile = cpu::choose_tile((types.a, types.b), [m, n, k], batch, accumulators, phases.kept_bytes());
            return Ok(Choice::of(ChosenTile(tile)));
        };
        for (what, given) in [("the tile's number of rows", m), ("the tile's number of columns", n)] {
            if !(1..=MAX_EXTENT).contains(&given) {
                return Err(Error::Count { what, given, least: 1, most: MAX_EXTENT });
            }
        }
        Ok(Choice::of(ChosenTile(TileShape { m, n })))
    }
}

/// The tile that was chosen.
#[derive(Clone, Copy, Debug)]
struct ChosenTile(TileShape);

impl Chosen for ChosenTile {
    fn tile(&self) -> (usize, usize) {
        (self.0.m, self.0.n)
    }

    fn compile(&self, operation: &Arc<Operation>) -> Result<Compiled, Error> {
        Ok((Choice::of(*self), Box::new(Programs::new(operation, self.0))))
    }
}

impl fmt::Display for ChosenTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU, tiles of {}x{}", self.0.m, self.0.n)?;
        without_optimisation().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

/// The programs of a plan, each made by the first run that needs it.
#[derive(Debug)]
struct Programs {
    operation: Arc<Operation>,
    tile: TileShape,
    programs: cpu::Programs,
    /// A description of them, once it was asked for.
    words: OnceLock<String>,
}

impl Programs {
    fn new(operation: &Arc<Operation>, tile: TileShape) -> Self {
        let (programs, words) = (cpu::Programs::new(operation.tuning), OnceLock::new());
        Self { operation: Arc::clone(operation), tile, programs, words }
    }

    /// A and every B rounded to bf16; those that were packed have been rounded before.
    fn rounded(a: Left<'_>, b: &Right<'_>) -> Result<(DeviceTensor, Vec<DeviceTensor>), Error> {
        let of_b = b.tensors().iter().enumerate().map(|(i, tensor)| {
            let before = b.packed().get(i).and_then(|packed| packed.rounded().cloned());
            before.map_or_else(|| cpu::rounded(tensor), Ok)
        });
        Ok((cpu::rounded(a.tensor())?, of_b.collect::<Result<_, _>>()?))
    }

    /// The panels of quantised weights: those that were packed before, and others packed now.
    fn panels_of_weights<'b>(b: &Right<'b>) -> Result<SmallVec<[Cow<'b, WeightPanels>; 1]>, Error> {
        let of = |weights: &Weights<'b>| match *weights {
            Weights::Rows(weights) => cpu::pack_weights(&weights).map(Cow::Owned),
            Weights::Panels(panels) => Ok(Cow::Borrowed(panels)),
        };
        b.weights().iter().map(of).collect()
    }
}

impl Executable for Programs {
    fn run(&self, stream: &Stream, given: &GivenRun<'_, '_>) -> Result<(), Error> {
        if stream.is_dry() {
            return Ok(());
        }
        let (GivenRun { problem, a, b, arguments }, phases) = (*given, &*self.operation.phases);
        let groups = read_groups(a, &problem)?;
        let picked = read_picked(a, &problem, groups.as_deref())?;
        let placed = Placed::read(a, &phases.tree, groups.as_deref(), arguments)?;
        let gathered = picked.map(|rows| cpu::gathered(a.tensor(), &rows)).transpose()?;
        let a = a.with_tensor(gathered.as_ref().unwrap_or(a.tensor()));
        let is_rounded = self.operation.settings.arithmetic == Arithmetic::FastBf16;
        let rounded = is_rounded.then(|| Self::rounded(a, b)).transpose()?;
        let a = a.with_tensor(rounded.as_ref().map_or(a.tensor(), |(of_a, _)| of_a));
        let of_weights = Self::panels_of_weights(b)?;
        let weights: SmallVec<[&WeightPanels; MAX_ACCUMULATORS]> = of_weights.iter().map(AsRef::as_ref).collect();
        let all_b: SmallVec<[&DeviceTensor; MAX_ACCUMULATORS]> = match &rounded {
            _ if !weights.is_empty() => weights.iter().map(|weights| &weights.codes).collect(),
            Some((_, of_b)) => of_b.iter().collect(),
            None => b.tensors().iter().copied().collect(),
        };
        let panels: SmallVec<[_; MAX_ACCUMULATORS]> = b.packed().iter().map(|packed| packed.panels()).collect();
        let scales = a.scales().map(|a| (a, b.scales()));
        let activations = match self.operation.settings.arithmetic {
            Arithmetic::Int8Activations => Activations::Int8,
            _ => Activations::Exact,
        };
        let (a, patches, b, panels, weights) = (a.tensor(), a.patches()?, &*all_b, &*panels, &*weights);
        let operands = cpu::Operands { a, patches, b, panels, scales, weights, activations };
        let groups =
            groups.as_deref().zip(problem.reading.grouping()).map(|(of, grouping)| cpu::Groups { of, grouping });
        let execute =
            |arguments: &[Argument<'_>]| cpu::execute(&self.programs, phases, operands, groups, arguments, self.tile);
        match placed {
            Some(placed) => placed.write(arguments, execute, cpu::scattered),
            None => execute(arguments),
        }
    }

    fn describe(&self, _given: &GivenRun<'_, '_>) -> Result<LaunchDescription, Error> {
        Err(Error::NoLaunch {
            device: self.operation.device.to_string(),
            reason: "it runs no kernels; plan for a GPU, an emulated one, or a target of `bundle::Builder`",
        })
    }

    fn pack(&self, b: Unpacked<'_>) -> Result<Packed, Error> {
        pack::pack(&self.operation, b)
    }

    fn source(&self) -> &str {
        self.words.get_or_init(|| cpu_words(&self.operation.phases, (self.tile.m, self.tile.n)))
    }

    fn kernels(&self) -> Vec<(&Source, &Kernel)> {
        Vec::new()
    }

    fn multiplication(&self) -> (Multiplication, bool) {
        match self.operation.settings.arithmetic {
            Arithmetic::FastBf16 => (Multiplication::FastBf16, false),
            Arithmetic::Exact | Arithmetic::Tf32 | Arithmetic::FastFp8 | Arithmetic::Int8Activations => {
                (Multiplication::Exact, false)
            }
        }
    }

    fn kept(&self) -> Option<Kept> {
        let tile = self.tile;
        Some(Box::new(move |operation| Some(Box::new(Self::new(operation, tile)))))
    }
}
