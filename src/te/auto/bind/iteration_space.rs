//! The iteration space of a kernel: extents and strides of a run, and the fewest loops that visit the same points.
//!
//! Two neighbouring axes are fused to one loop if their values only address elements. Every read and every output must
//! step through both axes as through one.

use epilogue_runtime::DeviceTensor;

use super::arguments::BoundTensors;
use crate::te::auto::pattern::reads::Read;
use crate::te::error::{LoweringError, RunError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::tensor::Tensor;

/// An element that a kernel reads or writes at affine indices: its address, and its strides along the axes.
#[derive(Clone, Debug)]
pub(in crate::te::auto) struct Steps {
    /// The address of the element for which every axis has its first value.
    pub(in crate::te::auto) address: u64,
    /// Bytes of an element.
    pub(in crate::te::auto) size: usize,
    /// The stride along every axis, in elements.
    pub(in crate::te::auto) strides: Vec<i64>,
}

/// The extents of a run, and the addresses and strides of what it reads and writes.
#[derive(Clone, Debug)]
pub(in crate::te::auto) struct Space {
    /// The extent of every axis, outer ones first.
    pub(in crate::te::auto) extents: Vec<i64>,
    /// The least value of every axis.
    pub(in crate::te::auto) minima: Vec<i64>,
    /// The reads, in order. `None` for indices that are not affine, or that leave the tensor where a guard doesn't
    /// hold.
    pub(in crate::te::auto) reads: Vec<Option<Steps>>,
    /// The outputs, in order.
    pub(in crate::te::auto) outputs: Vec<Steps>,
}

/// A loop over one axis, or over several fused ones.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::te::auto) struct LoopLevel {
    /// The axis, if its value is used for more than the address of elements.
    pub(in crate::te::auto) axis: Option<usize>,
    pub(in crate::te::auto) extent: i64,
    /// The strides of the reads; 0 for those that are not affine.
    pub(in crate::te::auto) reads: Vec<i64>,
    /// The strides of the outputs.
    pub(in crate::te::auto) outputs: Vec<i64>,
}

impl Space {
    /// The extents and strides of a run. It checks that every affine read without a guard stays inside its tensor.
    pub(in crate::te::auto) fn of(
        axes: &[Axis],
        reads: &[Read],
        parameters: &[Tensor],
        bound: &BoundTensors<'_>,
    ) -> Result<Self, TeError> {
        let (mut extents, mut minima) = (Vec::new(), Vec::new());
        for axis in axes {
            let Some(domain) = axis.domain() else {
                let reason = "it has no range of its own";
                return Err(LoweringError::Bound {
                    stage: "te::auto".to_owned(),
                    axis: axis.name().to_owned(),
                    reason,
                }
                .into());
            };
            extents.push(bound.sizes.value(&domain.extent)?.max(0));
            minima.push(bound.sizes.value(&domain.min)?);
        }
        let mut space = Self { extents, minima, reads: Vec::new(), outputs: Vec::new() };
        for read in reads {
            let steps = space.read(axes, read, parameters, bound)?;
            space.reads.push(steps);
        }
        Ok(space)
    }

    fn read(
        &self,
        axes: &[Axis],
        read: &Read,
        parameters: &[Tensor],
        bound: &BoundTensors<'_>,
    ) -> Result<Option<Steps>, TeError> {
        let Some(affine) = &read.affine else { return Ok(None) };
        let tensor = tensor_of(parameters, bound, &read.tensor)?;
        let mut strides = vec![0i64; axes.len()];
        let mut base = 0i64;
        for (d, rest) in affine.rests.iter().enumerate() {
            let rest = bound.sizes.value(rest)?;
            let (mut first, mut low, mut high) = (rest, rest, rest);
            for (dimension, axis, coefficient) in &affine.terms {
                let Some(place) = axes.iter().position(|a| a == axis).filter(|_| *dimension == d) else { continue };
                let start = coefficient * self.minima[place];
                let reach = coefficient * (self.extents[place] - 1).max(0);
                strides[place] += coefficient * tensor.strides()[d] as i64;
                first += start;
                low += start + reach.min(0);
                high += start + reach.max(0);
            }
            let extent = tensor.shape()[d];
            let mut moves = affine.terms.iter().filter_map(|(_, axis, _)| axes.iter().position(|a| a == axis));
            let visited = moves.all(|place| self.extents[place] > 0);
            if visited && (low < 0 || usize::try_from(high).is_ok_and(|high| high >= extent)) {
                if read.guard.is_some() {
                    return Ok(None);
                }
                return Err(RunError::Failed {
                    reason: format!(
                        "{} is read at indices {low} to {high} of its dimension {d}, which has {extent}",
                        read.tensor.name()
                    ),
                }
                .into());
            }
            base += first * tensor.strides()[d] as i64;
        }
        let size = tensor.element_type().size();
        let address = tensor.device_address().wrapping_add_signed(base * size as i64);
        Ok(Some(Steps { address, size, strides }))
    }

    /// Adds an output whose dimensions are the axes `places`.
    pub(in crate::te::auto) fn push_output(&mut self, tensor: &DeviceTensor, places: &[usize]) {
        let mut strides = vec![0; self.extents.len()];
        for (place, stride) in places.iter().zip(tensor.strides()) {
            strides[*place] = *stride as i64;
        }
        let (address, size) = (tensor.device_address(), tensor.element_type().size());
        self.outputs.push(Steps { address, size, strides });
    }

    /// Adds a placeholder for an output that is not in memory.
    pub(in crate::te::auto) fn push_nothing(&mut self) {
        self.outputs.push(Steps { address: 0, size: 1, strides: vec![0; self.extents.len()] });
    }

    /// How many elements something with these strides has.
    fn touched(&self, steps: &Steps) -> u128 {
        let moved = steps.strides.iter().zip(&self.extents).filter(|(stride, _)| **stride != 0);
        moved.map(|(_, extent)| u128::from(extent.unsigned_abs())).product()
    }

    /// The read that accesses the most elements; the first of several.
    pub(in crate::te::auto) fn main_read(&self) -> Option<usize> {
        let affine = self.reads.iter().enumerate();
        let affine = affine.filter_map(|(place, steps)| Some((place, self.touched(steps.as_ref()?))));
        affine.rev().max_by_key(|(_, count)| *count).map(|(place, _)| place)
    }

    /// Orders axes by decreasing stride of the main read. An output with more elements takes its place, as for rows
    /// that an index chooses, or for an outer product. Axes with stride 0 come first. Along the innermost axis, points
    /// are then neighbours in memory.
    pub(in crate::te::auto) fn order(&self, mut axes: Vec<usize>) -> Vec<usize> {
        let read = self.main_read().and_then(|read| self.reads[read].as_ref());
        let output = self.outputs.iter().rev().max_by_key(|output| self.touched(output));
        let main = match (read, output) {
            (Some(read), Some(output)) if self.touched(output) > self.touched(read) => Some(output),
            (read, output) => read.or(output),
        };
        if let Some(main) = main {
            axes.sort_by_key(|a| std::cmp::Reverse(if main.strides[*a] == 0 { i64::MAX } else { main.strides[*a] }));
        }
        axes
    }

    /// The fewest loops over `axes`, in this order, or with `sorted` by decreasing stride of the main read.
    pub(in crate::te::auto) fn levels(&self, axes: &[usize], is_used: &[bool], sorted: bool) -> Vec<LoopLevel> {
        let mut order: Vec<usize> = axes.iter().copied().filter(|a| is_used[*a] || self.extents[*a] != 1).collect();
        if sorted {
            order = self.order(order);
        }
        let mut levels: Vec<LoopLevel> = Vec::new();
        for place in order {
            let level = LoopLevel {
                axis: is_used[place].then_some(place),
                extent: self.extents[place],
                reads: self.reads.iter().map(|r| r.as_ref().map_or(0, |r| r.strides[place])).collect(),
                outputs: self.outputs.iter().map(|o| o.strides[place]).collect(),
            };
            match levels.last_mut() {
                Some(outer) if outer.continues_into(&level) => {
                    outer.extent = outer.extent.saturating_mul(level.extent);
                    outer.reads = level.reads;
                    outer.outputs = level.outputs;
                }
                _ => levels.push(level),
            }
        }
        levels
    }
}

impl LoopLevel {
    /// Whether this loop around `inner` equals one longer loop.
    fn continues_into(&self, inner: &Self) -> bool {
        let one = |outer: &[i64], steps: &[i64]| outer.iter().zip(steps).all(|(o, i)| *o == i * inner.extent);
        self.axis.is_none()
            && inner.axis.is_none()
            && one(&self.reads, &inner.reads)
            && one(&self.outputs, &inner.outputs)
    }
}

/// The number of points of some loops.
pub(in crate::te::auto) fn points(levels: &[LoopLevel]) -> i64 {
    levels.iter().fold(1i64, |n, level| n.saturating_mul(level.extent))
}

/// A tensor's place among the parameters.
pub(in crate::te::auto) fn place_of(parameters: &[Tensor], tensor: &Tensor) -> Result<usize, TeError> {
    let missing = || LoweringError::MissingArgument { tensor: tensor.name(), what: "an input" }.into();
    parameters.iter().position(|parameter| parameter == tensor).ok_or_else(missing)
}

/// The argument for a placeholder.
pub(in crate::te::auto) fn tensor_of<'a>(
    parameters: &[Tensor],
    bound: &BoundTensors<'a>,
    tensor: &Tensor,
) -> Result<&'a DeviceTensor, TeError> {
    let given = bound.tensors.get(place_of(parameters, tensor)?).copied();
    given.ok_or_else(|| LoweringError::MissingArgument { tensor: tensor.name(), what: "an input" }.into())
}
