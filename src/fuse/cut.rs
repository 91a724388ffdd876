//! Cuts a program of expressions into products with what is computed with them, and the rest.
//!
//! The nodes are those of te's own kernels: reductions, scans, and the values that must be in memory, which are outputs
//! and factors of products. [`Kept`] ones are read from there. Everything else is written out where it is read. From each product a region grows over the
//! nodes that read it, in an order in which they can be computed. A node joins if
//!
//! 1. nothing else that it needs depends on the region (found by reachability, never by the place in a list);
//! 2. it reads results of the region at its own rows, columns and batches only;
//! 3. its operations exist in epilogues, and so do its types.
//!
//! [`tree`](super::tree) decides 2 and 3, by making the epilogue. Whatever stays outside is a kernel of te.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use epilogue_runtime::Device;

use super::factor::View;
use super::kept::Kept;
use super::product::Product;
use super::reason::{Apart, Reason};
use super::tree::{Stored, epilogue};
use crate::evt::MAX_ACCUMULATORS;
use crate::te::arith::equal;
use crate::te::auto::{Order, parts, read_type};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::{Operation, Tensor};
use crate::te::{DType, TeError};

/// An operation, or several that must be computed as a whole.
#[derive(Debug)]
pub(super) struct Node {
    /// A reduction, a scan, or a tensor that is computed element by element.
    pub(super) operation: Arc<Operation>,
    /// Which of its values are meant; all of a reduction, a scan or a kept tensor.
    pub(super) value: Option<usize>,
    /// The nodes whose results it reads.
    pub(super) reads: Vec<usize>,
    /// The region that it belongs to.
    pub(super) unit: Option<usize>,
    /// Whether it is computed from known values alone, once, when the program is built.
    pub(super) is_known: bool,
}

impl Node {
    /// Whether its results are read where they are, and not computed again.
    pub(super) fn is_anchor(&self) -> bool {
        self.value.is_none()
    }

    /// Its tensors.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let of = |value| Tensor::new(Arc::clone(&self.operation), value);
        self.value.map_or_else(|| (0..self.operation.values()).map(of).collect(), |value| vec![of(value)])
    }
}

/// Products of one left factor, with what is computed with them.
#[derive(Debug)]
pub(super) struct Unit {
    /// One for each accumulator, with axes that differ in their names only.
    pub(super) products: Vec<Product>,
    /// Its nodes: the products, then what has joined them.
    pub(super) members: Vec<usize>,
    /// The reductions and kept tensors among them.
    pub(super) joined: Vec<Arc<Operation>>,
    /// Readers that are not computed with it, and why.
    pub(super) apart: Vec<(String, Apart)>,
}

impl Unit {
    /// The first product, which has the axes of all.
    pub(super) fn first(&self) -> &Product {
        &self.products[0]
    }

    /// Whether a product of the same left factor is one more accumulator.
    fn takes(&self, product: &Product) -> Result<(), Apart> {
        let own = self.first();
        let same = |a: &Expr, b: &Expr| equal(a, b);
        let axes = own.axes.iter().zip(&product.axes).all(|((a, of_a), (b, of_b))| {
            let domains = a.domain().zip(b.domain());
            of_a == of_b && domains.is_some_and(|(a, b)| same(&a.min, &b.min) && same(&a.extent, &b.extent))
        });
        if own.axes.len() != product.axes.len() || !axes || own.right.indices != product.right.indices {
            return Err(Apart::Columns);
        }
        if own.types != product.types {
            return Err(Apart::Factors);
        }
        if self.products.len() == MAX_ACCUMULATORS { Err(Apart::Accumulators) } else { Ok(()) }
    }

    /// The tensors that the products multiply, and the one that picks rows.
    pub(super) fn operands(&self) -> impl Iterator<Item = &View> {
        self.products.iter().flat_map(Product::operands)
    }
}

/// A program as nodes, each after those that it reads, and the regions of its products.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) nodes: Vec<Node>,
    pub(super) units: Vec<Unit>,
    /// The contractions that are no products, and why.
    pub(super) refused: Vec<(Arc<Operation>, Reason)>,
    /// Tensors that are read from memory.
    pub(super) kept: Kept,
    order: Order,
}

/// A step of the program.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Nodes that te computes together.
    Te(Vec<usize>),
    /// A unit.
    Product(usize),
}

impl Cut {
    /// Only [`Order::Device`] allows products.
    pub(super) fn of(outputs: &[Tensor], known: &[Tensor], device: &Device, order: Order) -> Result<Self, TeError> {
        let mut cut = Self { order, ..Self::default() };
        let (order, scans) = operations(outputs);
        outputs.iter().for_each(|output| cut.kept.add(output));
        let mut products = HashMap::new();
        for operation in &order {
            if let Some(product) = cut.product(operation, device)? {
                product.operands().for_each(|view| cut.kept.add(&view.tensor));
                products.insert(Arc::as_ptr(operation), product);
            }
        }
        for operation in order {
            if is_anchor(&operation) || cut.kept.has(&operation) {
                cut.anchor(&operation, products.remove(&Arc::as_ptr(&operation)));
            }
        }
        for output in outputs {
            if cut.place(output.operation()).is_none() {
                cut.map(output);
            }
        }
        for scan in scans {
            for tensor in scan.inputs() {
                cut.inside(tensor.operation(), device)?;
            }
        }
        cut.grow();
        for node in 0..cut.nodes.len() {
            cut.nodes[node].is_known = cut.is_known(node, outputs, known);
        }
        Ok(cut)
    }

    /// Whether a node can be computed when the program is built: from inputs whose values are known, and from no size that
    /// only a run has.
    fn is_known(&self, node: usize, outputs: &[Tensor], known: &[Tensor]) -> bool {
        let own = &self.nodes[node];
        let is_fixed = own
            .tensors()
            .iter()
            .all(|tensor| !outputs.contains(tensor) && tensor.shape().iter().all(|extent| extent.as_int().is_some()));
        if own.unit.is_some() || !is_fixed || !own.reads.iter().all(|read| self.nodes[*read].is_known) {
            return false;
        }
        let reads_known = |x: &Expr| {
            let mut reads_known = true;
            x.visit(&mut |x| {
                reads_known &= match x.kind() {
                    Kind::Read(tensor, _) => known.contains(tensor) || self.place(tensor.operation()).is_some(),
                    Kind::Var(var) => var.is_counter(),
                    _ => true,
                }
            });
            reads_known
        };
        let written_out = self.written_out(&own.operation);
        !written_out.is_empty() && written_out.iter().all(reads_known)
    }

    /// Checks that a tensor is a product.
    ///
    /// # Errors
    /// [`TeError::Product`].
    pub(super) fn require(&self, tensor: &Tensor) -> Result<(), TeError> {
        let operation = tensor.operation();
        let is_it = |product: &Product| Arc::ptr_eq(&product.operation, operation);
        if self.units.iter().flat_map(|unit| &unit.products).any(is_it) {
            return Ok(());
        }
        let refused = self.refused.iter().find(|(of, _)| Arc::ptr_eq(of, operation));
        let reason = match refused {
            Some((_, reason)) => reason.to_string(),
            None if is_anchor(operation) && self.place(operation).is_some() => {
                "it sums no products of two factors with different axes".to_owned()
            }
            None => "no output needs it as a sum of its own; name the tensor that is the sum".to_owned(),
        };
        Err(TeError::Product { tensor: tensor.name(), reason })
    }

    /// The product that an operation is; what is none, although it contracts, is noted.
    fn product(&mut self, operation: &Arc<Operation>, device: &Device) -> Result<Option<Product>, TeError> {
        let reason = match Product::of(operation, device, &self.kept)? {
            None => return Ok(None),
            Some(_) if self.order != Order::Device => Reason::Order(self.order),
            Some(Ok(product)) => {
                let total = Tensor::new(Arc::clone(operation), 0);
                let stored = [(total.clone(), total.dtype())];
                match epilogue(std::slice::from_ref(&product), &[], &stored, &self.kept) {
                    Ok(_) => return Ok(Some(product)),
                    Err(apart) => Reason::Epilogue(apart),
                }
            }
            Some(Err(reason)) => reason,
        };
        self.refused.push((Arc::clone(operation), reason));
        Ok(None)
    }

    /// Adds a node whose results are read where they are.
    fn anchor(&mut self, operation: &Arc<Operation>, product: Option<Product>) {
        let reads = match &product {
            Some(product) => {
                let init = product.init.iter().map(|init| self.kept.inlined(init));
                let mut reads: Vec<usize> = init.flat_map(|init| self.read_by(&init)).collect();
                for View { tensor, .. } in product.operands() {
                    reads.extend(match self.place(tensor.operation()) {
                        None if is_map(tensor.operation()) => Some(self.map(tensor)),
                        place => place,
                    });
                }
                reads
            }
            None => self.read_by_all(operation),
        };
        let unit = product.map(|product| self.add_product(product, &reads));
        self.nodes.push(Node { operation: Arc::clone(operation), value: None, reads, unit, is_known: false });
    }

    /// The unit of the next node: one whose left factor it shares, or a new one.
    fn add_product(&mut self, product: Product, reads: &[usize]) -> usize {
        let node = self.nodes.len();
        for number in 0..self.units.len() {
            let shares = self.units[number].first().left == product.left;
            if !shares || reads.iter().any(|read| self.depends(*read, number)) {
                continue;
            }
            let unit = &mut self.units[number];
            if let Err(apart) = unit.takes(&product) {
                unit.apart.push((product.operation.name().to_owned(), apart));
                continue;
            }
            unit.products.push(product);
            unit.members.push(node);
            return number;
        }
        self.units.push(Unit { products: vec![product], members: vec![node], joined: Vec::new(), apart: Vec::new() });
        self.units.len() - 1
    }

    /// The node of a tensor that is computed element by element.
    fn map(&mut self, tensor: &Tensor) -> usize {
        let same = |node: &Node| Arc::ptr_eq(&node.operation, tensor.operation()) && node.value == Some(tensor.value());
        if let Some(place) = self.nodes.iter().position(same) {
            return place;
        }
        let body = tensor.operation().as_compute().map(|compute| self.kept.inlined(&compute.body[tensor.value()]));
        let reads = body.iter().flat_map(|body| self.read_by(body)).collect();
        let operation = Arc::clone(tensor.operation());
        self.nodes.push(Node { operation, value: Some(tensor.value()), reads, unit: None, is_known: false });
        self.nodes.len() - 1
    }

    /// Notes the contractions inside of a scan.
    fn inside(&mut self, operation: &Arc<Operation>, device: &Device) -> Result<(), TeError> {
        let (order, _) = operations(&[Tensor::new(Arc::clone(operation), 0)]);
        for operation in order {
            let known =
                self.place(&operation).is_some() || self.refused.iter().any(|(of, _)| Arc::ptr_eq(of, &operation));
            if !known && Product::of(&operation, device, &self.kept)?.is_some() {
                self.refused.push((operation, Reason::InScan));
            }
        }
        Ok(())
    }

    fn place(&self, operation: &Arc<Operation>) -> Option<usize> {
        self.nodes.iter().position(|node| node.is_anchor() && Arc::ptr_eq(&node.operation, operation))
    }

    fn read_by(&self, x: &Expr) -> Vec<usize> {
        let mut reads = Vec::new();
        x.visit(&mut |x| {
            if let Kind::Read(tensor, _) = x.kind()
                && let Some(place) = self.place(tensor.operation())
                && !reads.contains(&place)
            {
                reads.push(place);
            }
        });
        reads
    }

    /// Nodes that a reduction or a kept tensor reads. A scan is computed by te from its inputs, whatever is kept elsewhere.
    fn read_by_all(&self, operation: &Arc<Operation>) -> Vec<usize> {
        let mut reads: Vec<usize> = self.written_out(operation).iter().flat_map(|x| self.read_by(x)).collect();
        reads.sort_unstable();
        reads.dedup();
        reads
    }

    /// The expressions of an operation that is no scan, with what is neither kept nor a reduction written out.
    fn written_out(&self, operation: &Arc<Operation>) -> Vec<Expr> {
        let Some(compute) = operation.as_compute() else { return Vec::new() };
        let all: Vec<Expr> = match parts(operation) {
            Some((_, reduce)) => {
                let of_ranges = compute.ranges().into_iter().flat_map(|range| [range.min, range.extent]);
                let own = reduce.source.iter().chain(&reduce.init).chain([&reduce.condition]);
                own.cloned().chain(of_ranges).collect()
            }
            None => compute.body.clone(),
        };
        all.iter().map(|x| self.kept.inlined(x)).collect()
    }

    /// Adds to each product what can be computed with it.
    fn grow(&mut self) {
        for node in 0..self.nodes.len() {
            let is_scan = self.nodes[node].operation.as_scan().is_some();
            if self.nodes[node].unit.is_some() || is_scan {
                continue;
            }
            let mut near: Vec<usize> =
                self.nodes[node].reads.iter().filter_map(|read| self.nodes[*read].unit).collect();
            near.sort_unstable();
            near.dedup();
            // The last product first: the others' results are there before.
            for unit in near.into_iter().rev() {
                match self.join(node, unit) {
                    Ok(()) => break,
                    Err(apart) => {
                        let name = self.nodes[node].tensors().first().map(Tensor::name).unwrap_or_default();
                        self.units[unit].apart.push((name, apart));
                    }
                }
            }
        }
    }

    /// Adds a node to a region.
    fn join(&mut self, node: usize, unit: usize) -> Result<(), Apart> {
        for read in self.nodes[node].reads.clone() {
            if self.nodes[read].unit != Some(unit) && self.depends(read, unit) {
                let through = self.nodes[read].operation.name().to_owned();
                return Err(Apart::Around { through });
            }
        }
        let own = &self.units[unit];
        let mut joined = own.joined.clone();
        if self.nodes[node].is_anchor() {
            joined.push(Arc::clone(&self.nodes[node].operation));
        }
        let members = own.members.iter().skip(own.products.len()).chain([&node]);
        let stored: Vec<Stored> = members
            .flat_map(|member| {
                let (anchor, tensors) = (self.nodes[*member].is_anchor(), self.nodes[*member].tensors());
                tensors.into_iter().map(move |tensor| {
                    let dtype = if anchor { held_type(&tensor) } else { tensor.dtype() };
                    (tensor, dtype)
                })
            })
            .collect();
        epilogue(&own.products, &joined, &stored, &self.kept)?;
        self.units[unit].joined = joined;
        self.units[unit].members.push(node);
        self.nodes[node].unit = Some(unit);
        Ok(())
    }

    /// Whether a node needs a result of a region.
    fn depends(&self, node: usize, unit: usize) -> bool {
        let mut pending = vec![node];
        let mut seen = HashSet::new();
        while let Some(node) = pending.pop() {
            if self.nodes[node].unit == Some(unit) {
                return true;
            }
            // A region is computed at once, so that all of it waits for what a part of it reads.
            let of = self.nodes[node].unit.map(|of| self.units[of].members.as_slice());
            for member in of.unwrap_or(&[node]) {
                if seen.insert(*member) {
                    pending.extend(self.nodes[*member].reads.iter().filter(|read| !seen.contains(*read)));
                }
            }
        }
        false
    }

    /// The steps of a run, in an order in which they can be computed: te computes together what is ready at once.
    pub(super) fn steps(&self) -> Result<Vec<Step>, TeError> {
        let mut done: Vec<bool> = self.nodes.iter().map(|node| node.is_known).collect();
        let mut units = vec![false; self.units.len()];
        let mut steps = Vec::new();
        while done.iter().any(|done| !done) {
            let before = steps.len();
            let mut together = Vec::new();
            for (place, node) in self.nodes.iter().enumerate() {
                if !done[place] && node.unit.is_none() && node.reads.iter().all(|read| done[*read]) {
                    done[place] = true;
                    together.push(place);
                }
            }
            if !together.is_empty() {
                steps.push(Step::Te(together));
            }
            for (number, unit) in self.units.iter().enumerate() {
                let ready = |read: &usize| done[*read] || self.nodes[*read].unit == Some(number);
                if !units[number] && unit.members.iter().all(|member| self.nodes[*member].reads.iter().all(ready)) {
                    units[number] = true;
                    unit.members.iter().for_each(|member| done[*member] = true);
                    steps.push(Step::Product(number));
                }
            }
            if steps.len() == before {
                return Err(TeError::Internal { what: "the parts of a program wait for each other".to_owned() });
            }
        }
        Ok(steps)
    }
}

/// Whether an operation is computed once, and read from memory by all others.
fn is_anchor(operation: &Arc<Operation>) -> bool {
    parts(operation).is_some() || operation.as_scan().is_some()
}

/// Whether an operation is computed element by element.
fn is_map(operation: &Arc<Operation>) -> bool {
    operation.as_compute().is_some() && parts(operation).is_none()
}

/// The type in which a result is held between kernels.
pub(super) fn held_type(tensor: &Tensor) -> DType {
    if parts(tensor.operation()).is_some() { read_type(tensor.dtype()) } else { tensor.dtype() }
}

/// Operations from which tensors are computed, each after those that it reads. Scans are given apart, without their insides.
fn operations(outputs: &[Tensor]) -> (Vec<Arc<Operation>>, Vec<Arc<Operation>>) {
    let (mut order, mut scans, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    let mut pending: Vec<(Arc<Operation>, bool)> =
        outputs.iter().rev().map(|output| (Arc::clone(output.operation()), false)).collect();
    while let Some((operation, entered)) = pending.pop() {
        if entered {
            order.push(operation);
        } else if seen.insert(Arc::as_ptr(&operation)) {
            pending.push((Arc::clone(&operation), true));
            if operation.as_scan().is_some() {
                scans.push(operation);
            } else {
                let inputs = operation.inputs();
                pending.extend(inputs.into_iter().rev().map(|input| (Arc::clone(input.operation()), false)));
            }
        }
    }
    (order, scans)
}
