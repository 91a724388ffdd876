//! A product with its epilogue, and te's own kernels of the same values for tensors that no product takes.
//!
//! A plan must not depend on the runs before: then equal inputs would give other bits in another process. So extents
//! fall into classes, and a plan is made for the largest extents of a class. Only the class, the layouts of both factors
//! and the device choose it.

use std::sync::Arc;

use epilogue_runtime::{Device, DeviceTensor, Stream};

use super::factor::View;
use super::role::Role;
use super::tree::{Extent, Parameter};
use super::view::{LeftTensor, Ranges, RightTensors, Seen};
use super::weights::Lying;
use crate::Argument;
use crate::evt::{Tree, Types};
use crate::gemm::{Builder, Error, Gemm, OperandLayout, OperandView, Packed, PatchReading, Problem, Reading};
use crate::te::auto::{BoundTensors, Ran, Runs};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::Expr;
use crate::te::{RunError, TeError};
use crate::variants::Variants;

/// A value that an epilogue is given in a run, with the place of its tensor among those of the part.
pub(super) enum Given {
    View(View, Extent, usize),
    Size(Expr),
}

impl Given {
    pub(super) fn of(
        parameter: Parameter,
        place: impl FnOnce(&View) -> Result<usize, TeError>,
    ) -> Result<Self, TeError> {
        Ok(match parameter {
            Parameter::View(view, extent) => {
                let place = place(&view)?;
                Self::View(view, extent, place)
            }
            Parameter::Size(x) => Self::Size(x),
        })
    }
}

/// A product with its epilogue.
pub(super) struct ProductKernel {
    pub(super) device: Device,
    /// Names of its results, for the listing.
    pub(super) name: String,
    pub(super) axes: Vec<(Axis, Role)>,
    pub(super) types: Types,
    pub(super) left: (View, usize),
    /// The tensor that picks the left factor's rows.
    pub(super) index: Option<usize>,
    /// One for each accumulator.
    pub(super) right: Vec<(View, usize)>,
    /// The right factors as they are packed, by where they lie, if their values are known. `None` in it if the device packs
    /// nothing.
    pub(super) packed: Option<Variants<Vec<Lying>, Option<Vec<Packed>>>>,
    pub(super) tree: Tree,
    pub(super) parameters: Vec<Given>,
    pub(super) outputs: Vec<(View, Extent, usize)>,
    /// Te's kernels of the same values, with the places of their tensors among those of the part; none if it must be a
    /// product.
    pub(super) own: Option<(Box<dyn Runs>, Vec<usize>)>,
    pub(super) plans: Variants<PlanKey, Planned>,
}

/// A plan, and the text of its kernel; none on the CPU.
pub(super) struct Planned {
    gemm: Gemm<()>,
    source: Arc<str>,
}

/// All that a plan depends on, beside the device and the epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlanKey {
    /// Its extents are the largest of their classes.
    problem: Problem,
    layouts: [OperandLayout; 2],
}

/// The largest extent of a class: 1, up to 16, and then powers of 4.
fn class(extent: usize) -> usize {
    match extent {
        0 | 1 => 1,
        2..=16 => 16,
        _ => {
            let power = extent.checked_next_power_of_two().unwrap_or(extent);
            if power.trailing_zeros().is_multiple_of(2) { power } else { power.saturating_mul(2) }
        }
    }
}

/// The largest problem of a problem's class.
fn class_of(problem: Problem) -> Problem {
    let reading = match problem.reading {
        Reading::Patches(patches) => {
            Reading::Patches(PatchReading { elements: patches.elements.map(class), ..patches })
        }
        other => other,
    };
    let [m, n, k, batch] = [problem.m, problem.n, problem.k, problem.batch].map(class);
    Problem { m, n, k, batch, reading, ..problem }
}

/// All of a run that can be done before anything is written.
pub(super) struct Ready {
    planned: Arc<Planned>,
    left: LeftTensor,
    right: RightTensors,
    parameters: Vec<Owned>,
    outputs: Vec<DeviceTensor>,
    extents: [usize; 4],
}

enum Owned {
    Scalar(f64),
    Tensor(DeviceTensor),
}

/// Why a run is not a product: te's own kernels compute it.
pub(super) type Unfit = String;

impl ProductKernel {
    /// Views of a run's tensors, and a plan.
    ///
    /// # Errors
    /// Errors of the compiler and the device. A layout that products don't take is no error: it is [`Unfit`].
    pub(super) fn ready(&self, bound: &BoundTensors<'_>) -> Result<Result<Ready, Unfit>, TeError> {
        let ranges = &Ranges::of(&self.axes, &bound.sizes)?;
        let seen = |view: &View, place: usize, read: &dyn Fn(&Seen<'_>) -> Result<DeviceTensor, Unfit>| {
            read(&Seen { view, tensor: bound.tensors[place], ranges, bound })
        };
        let operand = |(view, place): &(View, usize), roles: [Role; 2]| seen(view, *place, &|seen| seen.operand(roles));
        let argument = |view: &View, extent: Extent, place: usize| seen(view, place, &|seen| seen.argument(extent));
        let operands = || -> Result<_, Unfit> {
            let index = self.index.map(|place| bound.tensors[place]);
            let (view, place) = &self.left;
            let left = Seen { view, tensor: bound.tensors[*place], ranges, bound }.left(index)?;
            let right = self.right.iter().map(|right| operand(right, [Role::Depth, Role::Column]));
            let right = right.collect::<Result<Vec<_>, _>>()?;
            let all: Vec<&DeviceTensor> = right.iter().collect();
            let problem = Problem::of(left.as_left(), &all[..]).map_err(|error| error.to_string())?;
            let layout = left.as_left().layout().map_err(|error| error.to_string())?;
            Ok((left, right, problem, layout))
        };
        let arguments = || -> Result<_, Unfit> {
            let given = |given: &Given| match given {
                Given::View(view, extent, place) => argument(view, *extent, *place).map(Owned::Tensor),
                Given::Size(x) => match bound.sizes.value(x).map_err(|error| error.to_string())? {
                    // A scalar of 0 skips what it multiplies, even NaN.
                    0 => Err(format!("{} is 0 here", crate::te::text::expression(x))),
                    value => Ok(Owned::Scalar(value as f64)),
                },
            };
            let parameters = self.parameters.iter().map(given).collect::<Result<Vec<_>, _>>()?;
            let output = |(view, extent, place): &(View, Extent, usize)| argument(view, *extent, *place);
            Ok((parameters, self.outputs.iter().map(output).collect::<Result<Vec<_>, _>>()?))
        };
        let ((left, right, problem, layout), (parameters, outputs)) =
            match operands().and_then(|operands| Ok((operands, arguments()?))) {
                Ok(made) => made,
                Err(unfit) => return Ok(Err(unfit)),
            };
        let extents = [Role::Row, Role::Column, Role::Depth, Role::Batch].map(|role| ranges.extent(role));
        let key = PlanKey { problem: class_of(problem), layouts: [layout, OperandView::of_b(&right[0]).layout()] };
        let made = self.plans.get_or_make(&key, || self.plan(&key)).and_then(|planned| {
            let right = self.right_tensors(right, &planned.gemm)?;
            Ok(Ready { planned, left, right, parameters, outputs, extents })
        });
        match made {
            Ok(ready) => Ok(Ok(ready)),
            Err(Error::Runtime(error)) => Err(error.into()),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    /// The right factors, packed if their values are known and the device packs.
    fn right_tensors(&self, right: Vec<DeviceTensor>, gemm: &Gemm<()>) -> Result<RightTensors, Error> {
        let Some(known) = &self.packed else { return Ok(RightTensors::Plain(right)) };
        let packed = known.get_or_make(&right.iter().map(Lying::of).collect(), || {
            match right.iter().map(|tensor| gemm.pack(tensor)).collect::<Result<Vec<_>, _>>() {
                Ok(packed) => Ok(Some(packed)),
                Err(Error::NoPacking { .. } | Error::PackedStrides { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        Ok(if packed.is_some() { RightTensors::Packed(packed) } else { RightTensors::Plain(right) })
    }

    fn plan(&self, key: &PlanKey) -> Result<Planned, Error> {
        let PlanKey { problem, layouts: [a, b] } = *key;
        let builder = Builder::<()>::new(&self.device, self.tree.clone()).elements(self.types.a, self.types.b);
        let gemm = builder.of_problem(problem).layouts(a, b).plan()?;
        let source = gemm.kernel_source().map(|_| gemm.source()).unwrap_or_default().into();
        Ok(Planned { gemm, source })
    }

    /// Checks a run completely, and compiles what it needs; the reason if the product doesn't take its tensors.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub(super) fn rehearse(&self, mut ready: Ready, dry: &Stream) -> Result<Option<Unfit>, TeError> {
        match ready.launch(dry) {
            Ok(()) => Ok(None),
            Err(Error::Runtime(error)) => Err(error.into()),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// Launches a run that was rehearsed; what ran if it is to be told.
    pub(super) fn run(&self, stream: &Stream, bound: &BoundTensors<'_>, tell: bool) -> Result<Option<Ran>, TeError> {
        let failed = |reason| TeError::from(RunError::Failed { reason });
        let mut ready = self.ready(bound)?.map_err(failed)?;
        match ready.launch(stream) {
            Ok(()) => {}
            // Te's kernels note an index that is no row's as they note all others.
            Err(Error::Rows(error)) => return self.run_own(&error.to_string(), stream, bound),
            Err(Error::Runtime(error)) => return Err(error.into()),
            Err(error) => return Err(failed(error.to_string())),
        }
        if !tell {
            return Ok(None);
        }
        let [m, n, k, batch] = ready.extents;
        let batch = if batch == 1 { String::new() } else { format!("{batch} × ") };
        let packed = if matches!(ready.right, RightTensors::Packed(_)) { ", packed" } else { "" };
        let types = format!("{} × {}{packed}", self.types.a, self.types.b);
        let (name, read) = (&self.name, ready.left.words(self.right.len()));
        let choice = format!("{name}: {read} of {batch}{m}×{n}×{k}, {types}");
        Ok(Some(Ran { choice: choice.into(), source: Arc::clone(&ready.planned.source) }))
    }

    /// Runs te's own kernels.
    ///
    /// # Errors
    /// Errors of the kernels; [`TeError::Product`] if it must be a product.
    pub(super) fn run_own(
        &self,
        unfit: &str,
        stream: &Stream,
        bound: &BoundTensors<'_>,
    ) -> Result<Option<Ran>, TeError> {
        let Some((kernels, places)) = &self.own else {
            return Err(TeError::Product { tensor: self.name.clone(), reason: unfit.to_owned() });
        };
        let tensors = places.iter().map(|place| bound.tensors[*place]).collect();
        let ran = kernels.run_bound(stream, &BoundTensors { tensors, sizes: bound.sizes.clone() })?;
        Ok(ran.map(|ran| ran.of(&format!("{}: no product, because {unfit}", self.name))))
    }
}

impl Ready {
    fn launch(&mut self, stream: &Stream) -> Result<(), Error> {
        let parameters = self.parameters.iter().map(|owned| match owned {
            Owned::Scalar(value) => Argument::Scalar(*value),
            Owned::Tensor(tensor) => Argument::Input(tensor),
        });
        let arguments: Vec<Argument<'_>> = parameters.chain(self.outputs.iter_mut().map(Argument::Output)).collect();
        self.planned.gemm.run_arguments(stream, self.left.as_left(), self.right.as_right(), &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn extents_fall_into_classes() {
        let all: Vec<usize> = [0, 1, 2, 16, 17, 64, 65, 256, 257, 1024, 1025].map(class).to_vec();
        assert_eq!(all, [1, 1, 16, 16, 64, 64, 256, 256, 1024, 1024, 4096]);
    }
}
