//! Splits what doesn't fit one kernel: reductions over different axes, reductions that read other ones' results at
//! other indices, and computations on whole scans. Each scan, and each set of reductions that fits one kernel, becomes
//! a kernel. Intermediate tensors pass results to later kernels.
//!
//! A scan that no kernel can do runs step by step. [`by_step`](super::by_step) gives the rows of one step, which are
//! split here again.

use std::collections::HashMap;
use std::sync::Arc;

use super::by_pass::TensorOrigin;
use super::by_step::StepRows;
use super::cell::Cell;
use super::rewriting::{HeldResult, Rewriting};
use super::sequence::{KernelPart, KernelSequence, ScanStage, StepTensor, Stepwise};
use crate::te::auto::pattern::by_data::RangeByData;
use crate::te::auto::pattern::fused::{Reduction, parameters};
use crate::te::auto::pattern::passes::{
    FoundReduction, computed_from, has_open_range, reads_at_own_indices, reductions, share_axes,
};
use crate::te::auto::pattern::reads::{computed, read_type, refused};
use crate::te::auto::pattern::recurrence::Recurrence;
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::define::compute::{compute_over, placeholder_of};
use crate::te::expr::expression::Expr;
use crate::te::expr::graph::visit_operations;
use crate::te::expr::tensor::{Operation, Scan, Tensor};

impl KernelSequence {
    /// The kernels of outputs that need several; `None` if the outputs depend on neither reductions nor scans.
    ///
    /// # Errors
    /// [`LoweringError::Target`] for what no kernel can do.
    pub(in crate::te::auto) fn of(outputs: &[Tensor]) -> Result<Option<Self>, TeError> {
        let contents = Contents::of(outputs);
        if contents.scans || contents.reductions { Self::of_any(outputs) } else { Ok(None) }
    }

    /// The kernels of any outputs; `None` if there are no outputs.
    ///
    /// # Errors
    /// The errors of [`KernelSequence::of`].
    pub(in crate::te::auto) fn of_any(outputs: &[Tensor]) -> Result<Option<Self>, TeError> {
        if outputs.is_empty() {
            return Ok(None);
        }
        let found = reductions(outputs);
        let (groups, scans) = (groups(&found), scans(outputs));
        let mut building = Building { outputs, groups: &groups, held: HashMap::new(), parts: Vec::new() };
        for scan in &scans {
            building.scan(scan)?;
        }
        let is_scan = |output: &Tensor| scans.iter().any(|scan| Arc::ptr_eq(scan, output.operation()));
        let mut later: Vec<usize> = (0..outputs.len())
            .filter(|place| building.group_of(&outputs[*place]).is_none() && !is_scan(&outputs[*place]))
            .collect();
        for group in 0..groups.len() {
            later.extend(building.kernel(group)?);
        }
        for place in later {
            building.map(place)?;
        }
        building.finished().map(Some)
    }
}

/// Whether outputs are computed from reductions, and from scans.
pub(in crate::te::auto) struct Contents {
    pub(in crate::te::auto) reductions: bool,
    pub(in crate::te::auto) scans: bool,
}

impl Contents {
    pub(in crate::te::auto) fn of(outputs: &[Tensor]) -> Self {
        Self { reductions: !reductions(outputs).is_empty(), scans: !scans(outputs).is_empty() }
    }
}

/// The scans that outputs are or depend on, except those reached only through other scans.
fn scans(outputs: &[Tensor]) -> Vec<Arc<Operation>> {
    let mut found = Vec::new();
    visit_operations(outputs.iter().map(Tensor::operation), &mut |operation| {
        if operation.as_scan().is_some() {
            found.push(Arc::clone(operation));
        }
        operation.as_compute().is_some()
    });
    found
}

/// Sets of reductions that fit one kernel each, in an order in which they can be computed.
fn groups(found: &[FoundReduction]) -> Vec<Vec<Arc<Operation>>> {
    let mut families: Vec<Arc<Operation>> = Vec::new();
    let mut placed: Vec<(Arc<Operation>, (usize, usize))> = Vec::new();
    for operation in found.iter().map(|found| &found.operation) {
        let family = families.iter().position(|first| share_axes(operation, first)).unwrap_or_else(|| {
            families.push(Arc::clone(operation));
            families.len() - 1
        });
        let mut level = 0;
        for needed in operation.inputs().iter().flat_map(|input| computed_from(input.operation())) {
            let Some((_, (before, other))) = placed.iter().find(|(known, _)| Arc::ptr_eq(known, &needed)) else {
                continue;
            };
            let together = *other == family && reads_at_own_indices(operation, &needed);
            level = level.max(before + usize::from(!together));
        }
        placed.push((Arc::clone(operation), (level, family)));
    }
    let mut places: Vec<(usize, usize)> = placed.iter().map(|(_, place)| *place).collect();
    places.sort_unstable();
    places.dedup();
    let members = |place: &(usize, usize)| {
        placed.iter().filter(|(_, own)| own == place).map(|(operation, _)| Arc::clone(operation)).collect()
    };
    places.iter().map(members).collect()
}

struct Building<'a> {
    outputs: &'a [Tensor],
    groups: &'a [Vec<Arc<Operation>>],
    held: HashMap<*const Operation, Vec<HeldResult>>,
    /// Kernels, with the tensors that each writes and what these stand for.
    parts: Vec<(KernelPart, Vec<(Tensor, Tensor)>)>,
}

impl Building<'_> {
    /// The last group on which a tensor depends.
    fn group_of(&self, tensor: &Tensor) -> Option<usize> {
        let needed = computed_from(tensor.operation());
        let has = |group: &Vec<Arc<Operation>>| group.iter().any(|own| needed.iter().any(|op| Arc::ptr_eq(op, own)));
        self.groups.iter().rposition(has)
    }

    fn is_reduction(&self, tensor: &Tensor) -> bool {
        self.groups.iter().flatten().any(|own| Arc::ptr_eq(own, tensor.operation()))
    }

    /// Adds the kernel of a scan, which stores all states.
    fn scan(&mut self, operation: &Arc<Operation>) -> Result<(), TeError> {
        let states: Vec<Tensor> =
            (0..operation.values()).map(|value| Tensor::new(Arc::clone(operation), value)).collect();
        let (mut held, mut written) = (Vec::new(), Vec::new());
        for state in &states {
            let tensor = placeholder_of(state.dtype(), state.shape(), &state.name());
            let output = self.outputs.iter().position(|output| output == state);
            let stands = output.map_or_else(|| tensor.clone(), |place| self.outputs[place].clone());
            written.push((state.clone(), stands));
            held.push(HeldResult { tensor, output });
        }
        let part = match Recurrence::of(&states) {
            Ok(recurrence) => KernelPart::Scan(Box::new(recurrence)),
            Err(_) => KernelPart::Steps(Box::new(Stepwise::of(operation)?)),
        };
        self.parts.push((part, written));
        self.held.insert(Arc::as_ptr(operation), held);
        Ok(())
    }

    /// Adds the kernel of a group. Gives the outputs that depend on its results but are not computed in it.
    fn kernel(&mut self, group: usize) -> Result<Vec<usize>, TeError> {
        let of_group: Vec<usize> =
            (0..self.outputs.len()).filter(|place| self.group_of(&self.outputs[*place]) == Some(group)).collect();
        if let [operation] = self.groups[group].as_slice()
            && has_open_range(operation)
        {
            let made = self.by_data(operation)?;
            return Ok(of_group.into_iter().filter(|place| !made.contains(place)).collect());
        }
        let (mut here, computed): (Vec<usize>, Vec<usize>) =
            of_group.into_iter().partition(|place| self.is_reduction(&self.outputs[*place]));
        let mut rewriting = Rewriting::new(&self.held);
        let mut apart = Vec::new();
        for place in computed {
            let with: Vec<Tensor> =
                here.iter().chain([&place]).map(|place| rewriting.tensor(&self.outputs[*place])).collect();
            if Reduction::of(&with).is_ok() { here.push(place) } else { apart.push(place) }
        }
        let mut written: Vec<(Tensor, Tensor)> =
            here.iter().map(|place| (rewriting.tensor(&self.outputs[*place]), self.outputs[*place].clone())).collect();
        let mut held = Vec::new();
        for operation in self.groups[group].iter().filter(|own| self.is_needed_outside(own, group, &here)) {
            let mut values = Vec::new();
            for value in 0..operation.values() {
                let (tensor, own) = (Tensor::new(Arc::clone(operation), value), rewriting.operation(operation));
                let holder = holder(&Tensor::new(own, value))?;
                let output = self.outputs.iter().position(|output| *output == tensor);
                let output = output.filter(|_| holder.is_none());
                let own = holder.unwrap_or_else(|| rewriting.tensor(&tensor));
                let stands = placeholder_of(own.dtype(), own.shape(), operation.name());
                if output.is_none() {
                    written.push((own, stands.clone()));
                }
                values.push(HeldResult { tensor: stands, output });
            }
            held.push((Arc::as_ptr(operation), values));
        }
        let own: Vec<Tensor> = written.iter().map(|(own, _)| own.clone()).collect();
        self.parts.push((KernelPart::Reduce(Reduction::of(&own)?), written));
        self.held.extend(held);
        Ok(apart)
    }

    /// Adds the kernel of a reduction over a range that data give. Gives the outputs that it writes: those that hold a value
    /// as it is computed.
    fn by_data(&mut self, operation: &Arc<Operation>) -> Result<Vec<usize>, TeError> {
        let range = RangeByData::of(&Rewriting::new(&self.held).operation(operation))?;
        let (mut held, mut written, mut made) = (Vec::new(), Vec::new(), Vec::new());
        for (value, result) in range.results.iter().enumerate() {
            let own = Tensor::new(Arc::clone(operation), value);
            let output = self.outputs.iter().position(|output| *output == own);
            let output = output.filter(|_| computed(own.dtype()) == own.dtype());
            let tensor = placeholder_of(read_type(own.dtype()), own.shape(), operation.name());
            let stands = output.map_or_else(|| tensor.clone(), |place| self.outputs[place].clone());
            written.push((result.clone(), stands));
            held.push(HeldResult { tensor, output });
            made.extend(output);
        }
        self.parts.push((KernelPart::ByData(Box::new(range)), written));
        self.held.insert(Arc::as_ptr(operation), held);
        Ok(made)
    }

    /// Whether other kernels than its own read a group's reduction. Its own kernel also computes the outputs `here`.
    fn is_needed_outside(&self, operation: &Arc<Operation>, group: usize, here: &[usize]) -> bool {
        let reads = |other: &Arc<Operation>| {
            let mut needed = other.inputs().into_iter().flat_map(|input| computed_from(input.operation()));
            needed.any(|needed| Arc::ptr_eq(&needed, operation))
        };
        let later = self.groups[group + 1..].iter().flatten().any(reads);
        let outputs = self.outputs.iter().enumerate().filter(|(place, output)| {
            !here.contains(place) && !self.is_reduction(output) && self.group_of(output).is_some()
        });
        later || outputs.map(|(_, output)| output.operation()).any(reads)
    }

    /// Adds the kernel of an output that is computed from the results of others.
    fn map(&mut self, place: usize) -> Result<(), TeError> {
        let output = &self.outputs[place];
        let own = match self.held.get(&Arc::as_ptr(output.operation())) {
            // A result that is rounded to its type.
            Some(values) => {
                let held = &values[output.value()].tensor;
                let rounded =
                    compute_over(output.shape(), &output.name(), |axes| vec![held.at(axes).cast(output.dtype())]);
                rounded?.swap_remove(0)
            }
            None => Rewriting::new(&self.held).tensor(output),
        };
        let map = Reduction::map(std::slice::from_ref(&own))?;
        self.parts.push((KernelPart::Reduce(map), vec![(own, output.clone())]));
        Ok(())
    }

    fn finished(self) -> Result<KernelSequence, TeError> {
        let held: Vec<&HeldResult> = self.held.values().flatten().collect();
        let mut reads: Vec<Tensor> = Vec::new();
        for (part, written) in &self.parts {
            for tensor in part.parameters() {
                let own =
                    written.iter().any(|(own, _)| own == tensor) || held.iter().any(|held| held.tensor == *tensor);
                if !own && !reads.contains(tensor) {
                    reads.push(tensor.clone());
                }
            }
        }
        let inputs = reads.len();
        if let Some(output) = self.outputs.iter().find(|output| reads.contains(output)) {
            return Err(refused(&format!("{}, an output that is read as an input,", output.name())));
        }
        let mut all = reads;
        all.extend(parameters(&crate::te::auto::pattern::reads::Reads::default(), self.outputs)?);
        let intermediates: Vec<Tensor> =
            held.iter().filter(|held| held.output.is_none()).map(|held| held.tensor.clone()).collect();
        let origin = |tensor: &Tensor, written: &[(Tensor, Tensor)]| {
            let tensor = written.iter().find(|(own, _)| own == tensor).map_or(tensor, |(_, stands)| stands);
            let output = held.iter().find(|held| held.tensor == *tensor).and_then(|held| held.output);
            let argument = || all.iter().position(|parameter| parameter == tensor).map(TensorOrigin::Argument);
            let intermediate = || intermediates.iter().position(|held| held == tensor).map(TensorOrigin::Intermediate);
            output
                .map(|output| TensorOrigin::Argument(inputs + output))
                .or_else(argument)
                .or_else(intermediate)
                .ok_or_else(|| {
                    TeError::from(LoweringError::MissingArgument { tensor: tensor.name(), what: "an input" })
                })
        };
        let placed = |(part, written): (KernelPart, Vec<(Tensor, Tensor)>)| {
            let origins = part.parameters().iter().map(|tensor| origin(tensor, &written)).collect::<Result<_, _>>()?;
            Ok((part, origins))
        };
        let parts = self.parts.into_iter().map(placed).collect::<Result<Vec<_>, TeError>>()?;
        Ok(KernelSequence { parts, intermediates, parameters: all, inputs })
    }
}

impl Stepwise {
    /// The kernels of a scan that runs step by step: those of its given rows, and those of one step.
    ///
    /// # Errors
    /// [`LoweringError::Target`] for states of truth values, and for what no kernel can do.
    fn of(operation: &Arc<Operation>) -> Result<Self, TeError> {
        let StepRows { scan, total_steps, given_steps, time, given, step } = StepRows::of(operation)?;
        let mut inputs = Vec::new();
        let given = ScanStage::of(&given, scan, &mut inputs)?;
        let step = ScanStage::of(&step, scan, &mut inputs)?;
        let mut of_cell = inputs.clone();
        let cell = Cell::of(scan, &mut of_cell).ok();
        if cell.is_some() {
            inputs = of_cell;
        }
        let count = inputs.len();
        let states = (0..operation.values()).map(|value| Tensor::new(Arc::clone(operation), value));
        let parameters = inputs.into_iter().chain(states).collect();
        Ok(Self { parameters, inputs: count, total_steps, given_steps, time, given, step, cell })
    }
}

impl ScanStage {
    /// The kernels that compute rows of the states.
    fn of(rows: &[Tensor], scan: &Scan, inputs: &mut Vec<Tensor>) -> Result<Self, TeError> {
        let kernels = KernelSequence::of_any(rows)?.ok_or_else(|| refused("a scan without states"))?;
        let mut tensors = Vec::with_capacity(kernels.parameters.len());
        for (number, tensor) in kernels.parameters.iter().enumerate() {
            tensors.push(if number >= kernels.inputs {
                StepTensor::Rows(number - kernels.inputs)
            } else if let Some(state) = scan.state.iter().position(|state| state == tensor) {
                StepTensor::History(state)
            } else {
                let known = inputs.iter().position(|input| input == tensor);
                StepTensor::Input(known.unwrap_or_else(|| {
                    inputs.push(tensor.clone());
                    inputs.len() - 1
                }))
            });
        }
        Ok(Self { kernels, tensors })
    }
}

/// A computation that writes a result before it is rounded to its type; `None` if it needs no rounding.
fn holder(total: &Tensor) -> Result<Option<Tensor>, TeError> {
    let dtype = read_type(total.dtype());
    if dtype == total.dtype() {
        return Ok(None);
    }
    let made = compute_over(total.shape(), &total.name(), |axes| {
        let at: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        vec![total.at(at).cast(dtype)]
    })?;
    Ok(made.into_iter().next())
}
