//! A program's parts and the tensors between them: products, and te's own kernels for the rest.
//!
//! A run first makes everything ready: views, plans, and a rehearsal on a dry stream for tensors that it has not seen.
//! Then it launches. So what a product refuses is known before anything is written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use epilogue_runtime::{Device, DeviceTensor, Stream, trace};

use super::cut::{Cut, Step, Unit, held_type};
use super::factor::View;
use super::kernel::{Given, ProductKernel, Unfit};
use super::own::alone;
use super::product::Product;
use super::tree::{Epilogue, epilogue};
use super::weights::{self, Lying};
use crate::Argument;
use crate::sync::lock;
use crate::te::auto::{
    BoundTensors, HeldResult, Intermediates, Kernel, Order, Ran, Rewriting, Runs, Signature, TensorOrigin, part, parts,
};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::{Operation, OperationKind, Tensor};
use crate::te::{DType, TeError, auto, compute_over, placeholder_of};
use crate::variants::Variants;

/// A request for a program.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) outputs: Vec<Tensor>,
    /// Contractions that must be products.
    pub(super) required: Vec<Tensor>,
    /// Inputs whose values are known, with these.
    pub(super) weights: Vec<(Tensor, DeviceTensor)>,
    pub(super) order: Order,
}

/// A program's steps as what runs, before they are put together.
pub(super) struct Steps {
    pub(super) cut: Cut,
    pub(super) steps: Vec<Step>,
    /// The work of each step, and its tensors.
    made: Vec<(Work, Vec<Tensor>)>,
    pub(super) slots: Vec<Slot>,
    /// The inputs of a run.
    inputs: Vec<Tensor>,
    known: Vec<(Tensor, DeviceTensor)>,
}

impl Steps {
    pub(super) fn of(request: &Request, device: &Device) -> Result<Self, TeError> {
        let Request { outputs, required, weights, order } = request;
        let order = *order;
        let given: Vec<Tensor> = weights.iter().map(|(of, _)| of.clone()).collect();
        let cut = Cut::of(outputs, &given, device, order)?;
        required.iter().try_for_each(|tensor| cut.require(tensor))?;
        let mut known = weights::copied(weights, device)?;
        let steps = cut.steps()?;
        let (slots, inputs) = (Vec::new(), Vec::new());
        let mut making = Making { cut: &cut, outputs, required, known: &known, device, order, slots, inputs };
        making.add_slots(&steps)?;
        let made = steps.iter().map(|step| making.part(step, &steps)).collect::<Result<Vec<_>, _>>()?;
        let Making { slots, mut inputs, .. } = making;
        for slot in slots.iter().filter(|slot| slot.step.is_none()) {
            let (values, read) = slot.values(&known, device, order)?;
            inputs.extend(read);
            known.push((slot.tensor.clone(), values));
        }
        weights::read(&given, &inputs)?;
        inputs.retain(|input| !known.iter().any(|(of, _)| of == input));
        let is_read = |of: &Tensor| made.iter().any(|(_, tensors)| tensors.contains(of));
        known.retain(|(of, _)| is_read(of));
        Ok(Self { cut, steps, made, slots, inputs, known })
    }

    /// The tensors that a step reads, and those that it writes.
    pub(super) fn tensors(&self, step: usize) -> [Vec<&Tensor>; 2] {
        let is_it = |slot: &Slot, tensor: &Tensor| slot.step == Some(step) && slot.tensor == *tensor;
        let is_written = |tensor: &&Tensor| self.slots.iter().any(|slot| is_it(slot, tensor));
        let (written, read) = self.made[step].1.iter().partition(is_written);
        [read, written]
    }

    /// Whether the values of an input are known.
    pub(super) fn knows(&self, input: &Tensor) -> bool {
        self.known.iter().any(|(of, _)| of == input)
    }
}

/// The program on a device.
pub(super) fn build(request: &Request, device: &Device) -> Result<Kernel, TeError> {
    let outputs = &request.outputs;
    let _span = trace::span!(DEBUG, "fuse", device = trace::text(device), outputs = outputs.len());
    let Steps { cut, made, slots, inputs, known, .. } = Steps::of(request, device)?;
    let count = inputs.len();
    let intermediates: Vec<Tensor> =
        slots.iter().filter(|slot| slot.is_between()).map(|slot| slot.tensor.clone()).collect();
    let origin = |tensor: &Tensor| -> Result<TensorOrigin, TeError> {
        if let Some(slot) = slots.iter().find(|slot| slot.tensor == *tensor && slot.step.is_some()) {
            let between = intermediates.iter().position(|between| between == tensor).map(TensorOrigin::Intermediate);
            return slot.output.map(|output| TensorOrigin::Argument(count + output)).or(between).ok_or_else(missing);
        }
        // What is known follows the arguments.
        let place = inputs.iter().position(|input| input == tensor).or_else(|| {
            let place = known.iter().position(|(of, _)| of == tensor)?;
            Some(count + outputs.len() + place)
        });
        place.map(TensorOrigin::Argument).ok_or_else(missing)
    };
    let placed = |(work, tensors): (Work, Vec<Tensor>)| {
        Ok(Part { work, origins: tensors.iter().map(origin).collect::<Result<_, TeError>>()? })
    };
    let all = made.into_iter().map(placed).collect::<Result<Vec<_>, TeError>>()?;
    let parameters: Vec<Tensor> = inputs.iter().chain(outputs).cloned().collect();
    let signature = Signature::with_known(&parameters, count, known);
    let remarks = remarks(&cut).iter().map(|remark| format!("\n{remark}")).collect();
    let program = Program {
        device: device.clone(),
        parts: all,
        intermediates: Intermediates::new(intermediates),
        remarks,
        seen: Mutex::default(),
    };
    Ok(Kernel::new(device, signature, Box::new(program)))
}

/// Lines of the listing beside the kernels: the contractions that are no products, and what products leave out.
pub(super) fn remarks(cut: &Cut) -> Vec<String> {
    let refused = cut.refused.iter().map(|(of, reason)| format!("{} is no product: {reason}", of.name()));
    let apart = cut.units.iter().flat_map(|unit| {
        let of = unit.first().operation.name();
        unit.apart.iter().map(move |(name, apart)| format!("{name} is computed after {of} and not with it: {apart}"))
    });
    refused.chain(apart).collect()
}

fn missing() -> TeError {
    TeError::Internal { what: "a part of a program reads what no part writes".to_owned() }
}

/// A tensor that a part writes.
pub(super) struct Slot {
    /// The tensor that it holds, and in which type.
    pub(super) of: Tensor,
    dtype: DType,
    /// The placeholder for it where it is read.
    pub(super) tensor: Tensor,
    /// The output that it is; a tensor between kernels if it is none.
    pub(super) output: Option<usize>,
    /// The step that writes it; `None` if the program is built with its values.
    pub(super) step: Option<usize>,
}

impl Slot {
    /// Whether it is memory between the steps of a run.
    fn is_between(&self) -> bool {
        self.output.is_none() && self.step.is_some()
    }

    /// The values that are computed from known ones, and which these are.
    fn values(
        &self,
        known: &[(Tensor, DeviceTensor)],
        device: &Device,
        order: Order,
    ) -> Result<(DeviceTensor, Vec<Tensor>), TeError> {
        let own = in_type(self.of.clone(), self.dtype)?;
        let kernel = auto::build(&[&own])?.order(order).build(device)?;
        let extent = |x: &Expr| x.as_int().and_then(|extent| usize::try_from(extent).ok()).ok_or_else(missing);
        let shape = own.shape().iter().map(extent).collect::<Result<Vec<_>, _>>()?;
        let mut values = device.zeros_of(own.dtype().in_memory(), shape)?;
        let mut arguments = Vec::with_capacity(kernel.inputs().len() + 1);
        for input in kernel.inputs() {
            let (_, given) = known.iter().find(|(of, _)| of == input).ok_or_else(missing)?;
            arguments.push((input, Argument::from(given)));
        }
        arguments.push((&own, Argument::from(&mut values)));
        kernel.run_bound(&arguments)?;
        drop(arguments);
        let read = kernel.inputs().to_vec();
        Ok((values, read))
    }
}

struct Making<'a> {
    cut: &'a Cut,
    outputs: &'a [Tensor],
    required: &'a [Tensor],
    known: &'a [(Tensor, DeviceTensor)],
    device: &'a Device,
    order: Order,
    slots: Vec<Slot>,
    inputs: Vec<Tensor>,
}

impl Making<'_> {
    /// Finds what must be in memory: outputs, factors, and results that another part reads.
    fn add_slots(&mut self, steps: &[Step]) -> Result<(), TeError> {
        let step_of = |node: usize| {
            steps.iter().position(|step| match step {
                Step::Te(nodes) => nodes.contains(&node),
                Step::Product(unit) => self.cut.nodes[node].unit == Some(*unit),
            })
        };
        let at: Vec<Option<usize>> = (0..self.cut.nodes.len()).map(step_of).collect();
        let mut wanted: Vec<(usize, Tensor, DType, Option<usize>)> = Vec::new();
        for (number, output) in self.outputs.iter().enumerate() {
            let node = self.cut.nodes.iter().position(|node| node.tensors().contains(output)).ok_or_else(missing)?;
            wanted.push((node, output.clone(), output.dtype(), Some(number)));
        }
        for (place, node) in self.cut.nodes.iter().enumerate() {
            for tensor in node.tensors() {
                if self.cut.units.iter().flat_map(Unit::operands).any(|view| view.tensor == tensor) {
                    wanted.push((place, tensor.clone(), tensor.dtype(), None));
                }
                let is_read = node.is_anchor()
                    && self.cut.nodes.iter().enumerate().any(|(other, reader)| {
                        at[other] != at[place] && reader.reads.contains(&place) && self.reads_value(other, place)
                    });
                if is_read {
                    wanted.push((place, tensor.clone(), held_type(&tensor), None));
                }
            }
        }
        for (node, of, dtype, output) in wanted {
            if output.is_none() && self.slots.iter().any(|slot| slot.of == of && slot.dtype == dtype) {
                continue;
            }
            let tensor = placeholder_of(dtype, of.shape(), &of.name());
            let step = if self.cut.nodes[node].is_known { None } else { Some(at[node].ok_or_else(missing)?) };
            self.slots.push(Slot { of, dtype, tensor, output, step });
        }
        Ok(())
    }

    /// Whether a node reads another in the type that is held, and not only as a factor.
    fn reads_value(&self, reader: usize, node: usize) -> bool {
        let Some(unit) = self.cut.nodes[reader].unit.map(|unit| &self.cut.units[unit]) else { return true };
        let operation = &self.cut.nodes[node].operation;
        let own = &self.cut.nodes[reader].operation;
        let Some(product) = unit.products.iter().find(|product| Arc::ptr_eq(own, &product.operation)) else {
            return true;
        };
        let is_factor = product.operands().any(|view| Arc::ptr_eq(view.tensor.operation(), operation));
        !is_factor || product.init.is_some()
    }

    /// The tensors that hold the results of other steps.
    fn held(&self, step: usize) -> HashMap<*const Operation, Vec<HeldResult>> {
        let mut held = HashMap::new();
        for node in self.cut.nodes.iter().filter(|node| node.is_anchor()) {
            let slot = |tensor: &Tensor| {
                let dtype = held_type(tensor);
                self.slots.iter().find(|slot| slot.of == *tensor && slot.dtype == dtype && slot.step != Some(step))
            };
            let values: Option<Vec<HeldResult>> = node
                .tensors()
                .iter()
                .map(|tensor| Some(HeldResult { tensor: slot(tensor)?.tensor.clone(), output: None }))
                .collect();
            if let Some(values) = values {
                held.insert(Arc::as_ptr(&node.operation), values);
            }
        }
        held
    }

    /// The placeholder of a tensor that is read: a slot, or the input that it is.
    fn standing(&mut self, tensor: &Tensor, dtype: DType) -> Result<Tensor, TeError> {
        if let Some(slot) = self.slots.iter().find(|slot| slot.of == *tensor && slot.dtype == dtype) {
            return Ok(slot.tensor.clone());
        }
        if !matches!(tensor.operation().kind(), OperationKind::Placeholder { .. }) {
            return Err(missing());
        }
        self.note(tensor);
        Ok(tensor.clone())
    }

    /// Notes an input of the program.
    fn note(&mut self, tensor: &Tensor) {
        if !self.inputs.contains(tensor) && !self.slots.iter().any(|slot| slot.tensor == *tensor) {
            self.inputs.push(tensor.clone());
        }
    }

    /// A part with its tensors: those that it reads, then those that it writes.
    fn part(&mut self, step: &Step, steps: &[Step]) -> Result<(Work, Vec<Tensor>), TeError> {
        let number = steps.iter().position(|other| other == step).ok_or_else(missing)?;
        match step {
            Step::Te(_) => {
                let (kernels, tensors) = self.te(number, &self.held(number))?;
                tensors.iter().for_each(|tensor| self.note(tensor));
                let mut names: Vec<String> = Vec::new();
                for slot in self.slots.iter().filter(|slot| slot.step == Some(number)) {
                    let name = slot.of.name();
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                Ok((Work::Te(names.join(", "), kernels), tensors))
            }
            Step::Product(unit) => self.product(number, &self.cut.units[*unit]),
        }
    }

    /// Te's kernels of what a step writes.
    fn te(
        &self,
        step: usize,
        held: &HashMap<*const Operation, Vec<HeldResult>>,
    ) -> Result<(Box<dyn Runs>, Vec<Tensor>), TeError> {
        let mut rewriting = Rewriting::new(held);
        let (mut own, mut written) = (Vec::new(), Vec::new());
        for slot in self.slots.iter().filter(|slot| slot.step == Some(step)) {
            // The product itself is computed from what holds its factors.
            let replaced = held.get(&Arc::as_ptr(slot.of.operation())).filter(|_| parts(slot.of.operation()).is_some());
            let tensor = match replaced {
                Some(values) => values[slot.of.value()].tensor.clone(),
                None => rewriting.tensor(&slot.of),
            };
            own.push(in_type(tensor, slot.dtype)?);
            written.push(slot.tensor.clone());
        }
        let borrowed: Vec<&Tensor> = own.iter().collect();
        let (signature, kernels) = auto::build(&borrowed)?.order(self.order).kernels(self.device)?;
        let inputs = signature.parameters[..signature.inputs].iter().cloned();
        Ok((kernels, inputs.chain(written).collect()))
    }

    fn product(&mut self, number: usize, unit: &Unit) -> Result<(Work, Vec<Tensor>), TeError> {
        let slots: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].step == Some(number)).collect();
        let stored: Vec<_> = slots.iter().map(|slot| (self.slots[*slot].of.clone(), self.slots[*slot].dtype)).collect();
        let Epilogue { tree, parameters, outputs } = epilogue(&unit.products, &unit.joined, &stored, &self.cut.kept)
            .map_err(|apart| TeError::Internal { what: format!("an epilogue that was made can't be made: {apart}") })?;
        let mut tensors: Vec<Tensor> = Vec::new();
        let place = |tensors: &mut Vec<Tensor>, tensor: Tensor| {
            tensors.iter().position(|own| *own == tensor).unwrap_or_else(|| {
                tensors.push(tensor);
                tensors.len() - 1
            })
        };
        let mut standing: Vec<(Tensor, Tensor)> = Vec::new();
        let mut operand = |view: &View| -> Result<(View, usize), TeError> {
            let stands = self.standing(&view.tensor, view.tensor.dtype())?;
            standing.push((view.tensor.clone(), stands.clone()));
            Ok((view.clone(), place(&mut tensors, stands)))
        };
        let first = unit.first();
        let left = operand(&first.left)?;
        let index = first.left.index().map(&mut operand).transpose()?.map(|(_, place)| place);
        let right = unit.products.iter().map(|product| operand(&product.right)).collect::<Result<Vec<_>, _>>()?;
        let is_known = |product: &Product| {
            let of = &product.right.tensor;
            let is_made = |slot: &Slot| slot.of == *of && slot.dtype == of.dtype() && slot.step.is_none();
            self.known.iter().any(|(known, _)| known == of) || self.slots.iter().any(is_made)
        };
        let packed = unit.products.iter().all(is_known).then(Variants::default);
        let given = parameters
            .into_iter()
            .map(|parameter| {
                Given::of(parameter, |view| {
                    let stands = self.standing(&view.tensor, held_type(&view.tensor))?;
                    Ok(place(&mut tensors, stands))
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let is_required =
            |product: &Product| self.required.iter().any(|tensor| Arc::ptr_eq(tensor.operation(), &product.operation));
        let own = if unit.products.iter().any(is_required) {
            None
        } else {
            // Te's own way has the same factors, so that it rounds them alike.
            let mut held = self.held(number);
            for product in &unit.products {
                let own = alone(product, &standing).ok_or_else(missing)?;
                held.insert(Arc::as_ptr(&product.operation), vec![HeldResult { tensor: own, output: None }]);
            }
            let (kernels, own) = self.te(number, &held)?;
            let places = own.into_iter().map(|tensor| {
                self.note(&tensor);
                place(&mut tensors, tensor)
            });
            Some((kernels, places.collect()))
        };
        let outputs = outputs.into_iter().zip(&slots).map(|((view, extent), slot)| {
            let place = place(&mut tensors, self.slots[*slot].tensor.clone());
            (view, extent, place)
        });
        let outputs = outputs.collect();
        let kernel = ProductKernel {
            device: self.device.clone(),
            name: name(unit, &stored.iter().map(|(tensor, _)| tensor.name()).collect::<Vec<_>>()),
            axes: first.axes.clone(),
            types: first.types,
            left,
            index,
            right,
            packed,
            tree,
            parameters: given,
            outputs,
            own,
            plans: Variants::default(),
        };
        Ok((Work::Product(Box::new(kernel)), tensors))
    }
}

/// The names of a region's products, and of what is computed with them.
pub(super) fn names<'a>(unit: &'a Unit, stored: &'a [String]) -> [Vec<&'a str>; 2] {
    let products: Vec<&str> = unit.products.iter().map(|product| product.operation.name()).collect();
    let reductions = unit.joined.iter().filter(|operation| parts(operation).is_some());
    let mut with: Vec<&str> = reductions.map(|operation| operation.name()).collect();
    with.extend(stored.iter().map(String::as_str).filter(|name| !products.contains(name)));
    let mut seen = std::collections::HashSet::new();
    with.retain(|name| seen.insert(*name));
    [products, with]
}

/// A region's name in the listing.
fn name(unit: &Unit, stored: &[String]) -> String {
    let [products, with] = names(unit, stored);
    let products = products.join(" and ");
    if with.is_empty() { products } else { format!("{products} with {}", with.join(", ")) }
}

/// A tensor with the same values, not yet rounded, in the type that holds them.
fn in_type(tensor: Tensor, dtype: DType) -> Result<Tensor, TeError> {
    if tensor.dtype() == dtype {
        return Ok(tensor);
    }
    let mut made = compute_over(tensor.shape(), &tensor.name(), |axes| {
        let at: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        vec![tensor.at(at).cast(dtype)]
    })?;
    Ok(made.swap_remove(0))
}

enum Work {
    /// Kernels of te, with the names of what they write.
    Te(String, Box<dyn Runs>),
    Product(Box<ProductKernel>),
}

struct Part {
    work: Work,
    origins: Vec<TensorOrigin>,
}

/// The parts of a program, which run one after another.
struct Program {
    device: Device,
    parts: Vec<Part>,
    intermediates: Intermediates,
    /// Lines of the listing beside the kernels.
    remarks: String,
    seen: Mutex<Option<Arc<Rehearsed>>>,
}

/// Tensors of a run that was rehearsed, and the products that don't take them.
struct Rehearsed {
    tensors: Vec<Lying>,
    unfit: Vec<Option<Unfit>>,
    /// The way that ran; the next run of these tensors takes it again.
    ran: OnceLock<Ran>,
}

impl Program {
    /// The rehearsal of a run of these tensors, if they are those of the last one.
    fn last(&self, bound: &BoundTensors<'_>, memory: &[DeviceTensor]) -> Option<Arc<Rehearsed>> {
        let all = || bound.tensors.iter().copied().chain(memory);
        let same = |last: &Arc<Rehearsed>| {
            last.tensors.len() == all().count()
                && last.tensors.iter().zip(all()).all(|(lying, tensor)| lying.is(tensor))
        };
        lock(&self.seen).clone().filter(same)
    }

    /// Rehearses a run: checks and compiles everything, and writes nothing.
    fn rehearse(&self, bound: &BoundTensors<'_>, memory: &[DeviceTensor]) -> Result<Arc<Rehearsed>, TeError> {
        let (stream, compiles) = (self.device.dry_stream(), self.device.arch().is_some());
        let mut unfit = Vec::with_capacity(self.parts.len());
        for Part { work, origins } in &self.parts {
            let own = part(bound, origins, memory);
            unfit.push(match work {
                Work::Te(_, kernels) => {
                    if compiles {
                        kernels.run_bound(&stream, &own)?;
                    }
                    None
                }
                Work::Product(kernel) => {
                    let unfit = match kernel.ready(&own)? {
                        Ok(ready) => kernel.rehearse(ready, &stream)?,
                        Err(unfit) => Some(unfit),
                    };
                    if let Some(unfit) = unfit.as_ref().filter(|_| compiles || kernel.own.is_none()) {
                        kernel.run_own(unfit, &stream, &own)?;
                    }
                    unfit
                }
            });
        }
        let tensors = bound.tensors.iter().copied().chain(memory).map(Lying::of).collect();
        let rehearsed = Arc::new(Rehearsed { tensors, unfit, ran: OnceLock::new() });
        *lock(&self.seen) = Some(Arc::clone(&rehearsed));
        Ok(rehearsed)
    }
}

impl Runs for Program {
    fn run_bound(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        let memory = self.intermediates.take(stream, bound)?;
        let rehearsed = self.last(bound, &memory).map_or_else(|| self.rehearse(bound, &memory), Ok)?;
        let (mut all, tell, is_alone) = (Vec::new(), rehearsed.ran.get().is_none(), self.parts.len() == 1);
        for (Part { work, origins }, unfit) in self.parts.iter().zip(&rehearsed.unfit) {
            let own = part(bound, origins, &memory);
            match (work, unfit) {
                (Work::Product(kernel), None) => all.extend(kernel.run(stream, &own, tell)?),
                (Work::Product(kernel), Some(unfit)) => {
                    all.extend(kernel.run_own(unfit, stream, &own)?.filter(|_| tell));
                }
                (Work::Te(names, kernels), _) => {
                    let ran = kernels.run_bound(stream, &own)?.filter(|_| tell);
                    all.extend(ran.map(|ran| if is_alone { ran } else { ran.of(names) }));
                }
            }
        }
        self.intermediates.put(stream, memory);
        let ran = rehearsed.ran.get_or_init(|| {
            let mut ran = match all.len() {
                1 => all.swap_remove(0),
                _ => Ran::one_after_another(&all),
            };
            if !self.remarks.is_empty() {
                ran.choice = format!("{}{}", ran.choice, self.remarks).into();
            }
            ran
        });
        Ok(Some(ran.clone()))
    }
}
