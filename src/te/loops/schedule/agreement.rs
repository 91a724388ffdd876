//! Whether every stage computes its origin: the operation that it stood for before `cache_read`, `cache_write` or
//! `rfactor` gave it another. Primitives keep to this; a schedule that comes from elsewhere may claim anything.
//!
//! Both operations are evaluated at the same elements, for a few sizes, and their results are compared. An index is a
//! number. The contents of tensors are unknown: a hash of its tensor and place stands for an element. A hash of the
//! operation and its operands stands for a result. An index that data give is known by its ends. A minimum
//! with a size gives them, for example, and may be in a stage of its own. A cache must have every element between them
//! that its source has. Integers are hashed so that sums and products may be written in another order. A reduction is the
//! set of what it combines, or the sequence if its reducer is not commutative; so it may be done in parts. Reads of stages
//! that primitives have made (caches, partial results) are replaced by what those stages compute.
//!
//! Elements are all of small tensors, and of others the corners and some between them.

mod known;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use self::known::{Combined, Ends, Known, NO_VALUE, Reason, Reduced, binary, hashed, joined, of_float, of_int, within};
use super::Schedule;
use crate::te::dtype::DType;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::graph::visit_operations;
use crate::te::expr::node::Id;
use crate::te::expr::reduce::Reduce;
use crate::te::expr::tensor::{Compute, Tensor};
use crate::te::expr::var::Var;
use crate::te::loops::ir::deep::descend;

/// The sizes for which operations are compared.
const ASSIGNMENTS: u64 = 4;
/// The most elements of a stage that are compared for one assignment.
const ELEMENTS: usize = 96;
/// The fewest, beside the corners.
const FEWEST: usize = 8;
/// The most nodes that are evaluated for one assignment of a stage.
const MOST_STEPS: usize = 1 << 21;
/// The most nodes that are evaluated for the ends of an index.
const MOST_FOR_ENDS: usize = 1 << 12;
/// How deep evaluation descends.
const MOST_LEVELS: usize = 2048;

const DIFFERS: Reason = "it gives another value";
const OUTSIDE: Reason = "it reads an element that the stage it is computed from doesn't have";
const TOO_LARGE: Reason = "it is too large to be compared; save the schedule before `cache_write` or `rfactor`";

impl Schedule {
    /// Checks that every stage computes its origin.
    ///
    /// # Errors
    /// [`ScheduleError::Origin`].
    pub(crate) fn check_origins(&self) -> Result<(), TeError> {
        let mut given: HashSet<usize> = HashSet::new();
        visit_operations(&self.outputs, &mut |operation| {
            given.insert(Arc::as_ptr(operation).addr());
            true
        });
        let sizes = self.sizes();
        for (index, stage) in self.stages.iter().enumerate() {
            if Arc::ptr_eq(&stage.origin, &stage.operation) {
                continue;
            }
            let compared = descend(MOST_LEVELS, || compare(self, &given, &sizes, index))?;
            compared.map_err(|reason| {
                TeError::from(ScheduleError::Origin { stage: stage.origin.name().to_owned(), reason })
            })?;
        }
        Ok(())
    }

    /// The size variables of all operations.
    fn sizes(&self) -> Vec<Var> {
        let mut found: Vec<Var> = Vec::new();
        let mut add = |x: &Expr| {
            x.visit(&mut |x| {
                if let Some(var) = x.as_var().filter(|var| !var.is_counter())
                    && !found.contains(&var)
                {
                    found.push(var);
                }
            });
        };
        for operation in self.stages.iter().flat_map(|stage| [&stage.origin, &stage.operation]) {
            (0..operation.values()).for_each(|value| {
                Tensor::new(Arc::clone(operation), value).shape().iter().for_each(&mut add);
            });
            if let Some(compute) = operation.as_compute() {
                compute.body.iter().for_each(&mut add);
                compute.ranges().iter().for_each(|range| {
                    add(&range.min);
                    add(&range.extent);
                });
            }
        }
        found
    }
}

/// Compares the operation of a stage with its origin.
fn compare(schedule: &Schedule, given: &HashSet<usize>, sizes: &[Var], index: usize) -> Result<(), Reason> {
    let stage = &schedule.stages[index];
    let (Some(origin), Some(operation)) = (stage.origin.as_compute(), stage.operation.as_compute()) else {
        return Err(DIFFERS);
    };
    if origin.body.len() != operation.body.len() || origin.axes.len() != operation.axes.len() {
        return Err(DIFFERS);
    }
    let mut random = Numbers(7);
    for assignment in 0..if sizes.is_empty() { 1 } else { ASSIGNMENTS } {
        // First small sizes, so that everything is compared; then some beyond usual factors.
        let most = [4, 7, 20, 37][assignment as usize % 4];
        let sizes: HashMap<Var, i64> = sizes.iter().map(|var| (*var, 1 + random.below(most))).collect();
        let mut evaluation = Evaluation { schedule, given, sizes, steps: 0, level: 0, outside: 0 };
        let extents = evaluation.extents(origin)?;
        if extents != evaluation.extents(operation)? {
            return Err(DIFFERS);
        }
        for (number, place) in places(&extents, &mut random).into_iter().enumerate() {
            if evaluation.steps > MOST_STEPS {
                let corners = 1usize << extents.len().min(6);
                if number < corners.min(FEWEST) + FEWEST {
                    return Err(TOO_LARGE);
                }
                break;
            }
            for value in 0..origin.body.len() {
                if evaluation.element(origin, value, &place)?.bits != evaluation.element(operation, value, &place)?.bits
                {
                    return Err(DIFFERS);
                }
            }
        }
    }
    Ok(())
}

/// Numbers without a pattern, the same every time.
struct Numbers(u64);

impl Numbers {
    /// The next number, from 0 to before a limit of at least 1.
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_add(1);
        (hashed(&("next", self.0)) >> 1).cast_signed() % limit
    }
}

/// The places of some elements: all of them if they are few; otherwise the corners come first.
fn places(extents: &[i64], random: &mut Numbers) -> Vec<Vec<Known>> {
    let count = extents.iter().try_fold(1i64, |count, extent| count.checked_mul(*extent)).unwrap_or(i64::MAX);
    if count <= 0 {
        return Vec::new();
    }
    let known = |index: i64| Known::int(index);
    if count <= ELEMENTS as i64 {
        let at = |number: i64| {
            let mut rest = number;
            let mut place: Vec<Known> = Vec::with_capacity(extents.len());
            for extent in extents.iter().rev() {
                place.push(known(rest % extent));
                rest /= extent;
            }
            place.reverse();
            place
        };
        return (0..count).map(at).collect();
    }
    let corners = 1u64 << extents.len().min(6);
    let corner = |bits: u64| {
        let ends = extents.iter().enumerate();
        ends.map(|(d, extent)| known(if bits >> d.min(5) & 1 == 1 { extent - 1 } else { 0 })).collect()
    };
    let mut all: Vec<Vec<Known>> = (0..corners).map(corner).collect();
    all.extend((0..ELEMENTS).map(|_| extents.iter().map(|extent| known(random.below(*extent))).collect()));
    all
}

/// The values of variables, and of nodes that have been evaluated with these.
struct Scope {
    values: HashMap<Var, Known>,
    known: HashMap<Id, Known>,
    reductions: HashMap<*const Reduce, Rc<Reduced>>,
}

impl Scope {
    fn new(values: HashMap<Var, Known>) -> Self {
        Self { values, known: HashMap::new(), reductions: HashMap::new() }
    }
}

struct Evaluation<'a> {
    schedule: &'a Schedule,
    /// The addresses of the operations that outputs are made of.
    given: &'a HashSet<usize>,
    sizes: HashMap<Var, i64>,
    steps: usize,
    level: usize,
    /// How many elements outside of their tensors were read.
    outside: usize,
}

impl Evaluation<'_> {
    fn extents(&mut self, compute: &Compute) -> Result<Vec<i64>, Reason> {
        let domains = compute.axes.iter().filter_map(|axis| axis.domain());
        self.numbers(&domains.map(|domain| domain.extent).collect::<Vec<_>>())
    }

    /// The values of sizes.
    fn numbers(&mut self, all: &[Expr]) -> Result<Vec<i64>, Reason> {
        let number = |x: &Expr| self.value(x, &mut Scope::new(HashMap::new()))?.int.ok_or(NO_VALUE);
        all.iter().map(number).collect()
    }

    /// An element of a computation.
    fn element(&mut self, compute: &Compute, value: usize, place: &[Known]) -> Result<Known, Reason> {
        let values = compute.axes.iter().map(|axis| axis.var()).zip(place.iter().cloned()).collect();
        self.value(&compute.body[value], &mut Scope::new(values))
    }

    fn value(&mut self, x: &Expr, scope: &mut Scope) -> Result<Known, Reason> {
        if let Some(known) = scope.known.get(&x.id()) {
            return Ok(known.clone());
        }
        self.steps += 1;
        self.level += 1;
        // A part may exceed the limit of a whole, so that one element is compared at least.
        if self.level > MOST_LEVELS || self.steps > 4 * MOST_STEPS {
            return Err(TOO_LARGE);
        }
        let made = self.computed(x, scope)?;
        self.level -= 1;
        scope.known.insert(x.id(), made.clone());
        Ok(made)
    }

    fn computed(&mut self, x: &Expr, scope: &mut Scope) -> Result<Known, Reason> {
        match x.kind() {
            Kind::Int(value) => Ok(of_int(*value, x.dtype())),
            Kind::Float(value) => Ok(of_float(*value)),
            Kind::Var(var) => {
                let known = scope.values.get(var).cloned();
                known.or_else(|| self.sizes.get(var).map(|size| Known::int(*size))).ok_or(NO_VALUE)
            }
            Kind::Likely(x) => self.value(x, scope),
            Kind::Not(x) => {
                let x = self.value(x, scope)?;
                Ok(x.int.map_or_else(|| Known::of(hashed(&("not", x.bits))), |x| Known::int(i64::from(x == 0))))
            }
            Kind::Cast(from) => {
                let value = self.value(from, scope)?;
                Ok(match value.int {
                    Some(value) if from.dtype() != DType::Bool => of_int(value, x.dtype()),
                    _ if from.dtype() == x.dtype() => value,
                    _ => {
                        let ends = value.ends(from.dtype()).and_then(|ends| within(x.dtype(), ends));
                        Known { ends, ..Known::of(hashed(&("cast", x.dtype(), value.bits))) }
                    }
                })
            }
            Kind::Select(condition, a, b) => {
                let condition = self.value(condition, scope)?;
                if let Some(condition) = condition.int {
                    return self.value(if condition != 0 { a } else { b }, scope);
                }
                let (a, b) = (self.value(a, scope)?, self.value(b, scope)?);
                if a.bits == b.bits {
                    return Ok(a);
                }
                let either = hashed(&("select", condition.bits, a.bits, b.bits));
                let ends = a.ends(x.dtype()).zip(b.ends(x.dtype()));
                let ends = ends.map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
                Ok(Known { ends, ..Known::of(either) })
            }
            Kind::Binary(op @ (Binary::And | Binary::Or), a, b) => {
                let (a, decides) = (self.value(a, scope)?, i64::from(*op == Binary::Or));
                match a.int {
                    Some(a) if i64::from(a != 0) == decides => Ok(Known::int(decides)),
                    Some(_) => self.value(b, scope),
                    None => {
                        let b = self.value(b, scope)?;
                        Ok(match b.int {
                            Some(b) if i64::from(b != 0) == decides => Known::int(decides),
                            Some(_) => a,
                            None => joined(*op, &a, &b),
                        })
                    }
                }
            }
            Kind::Binary(op, a, b) => {
                let (dtype, a, b) = (a.dtype(), self.value(a, scope)?, self.value(b, scope)?);
                binary(*op, dtype, &a, &b)
            }
            Kind::Apply(op, operands) => {
                let operands = self.bits(operands, scope)?;
                Ok(Known::of(hashed(&("apply", op, x.dtype(), operands))))
            }
            Kind::Call(function, operands) => {
                let operands = self.bits(operands, scope)?;
                Ok(Known::of(hashed(&("call", std::ptr::from_ref(*function), x.dtype(), operands))))
            }
            Kind::Read(tensor, indices) => {
                let index = |i: &Expr| {
                    let known = self.value(i, scope)?;
                    Ok::<_, Reason>(Known { ends: known.ends(i.dtype()), ..known })
                };
                let indices: Vec<Known> = indices.iter().map(index).collect::<Result<_, _>>()?;
                self.read(tensor, &indices)
            }
            Kind::Reduce(reduce, index) => {
                let made = self.reduced(reduce, scope)?;
                let bits = hashed(&("reduced", made.combiner, made.init, made.all.sum, made.all.power, index));
                Ok(Known { reduced: Some((made, *index)), ..Known::of(bits) })
            }
            Kind::Load(..) | Kind::Invalid(_) => Err(NO_VALUE),
        }
    }

    fn bits(&mut self, all: &[Expr], scope: &mut Scope) -> Result<Vec<u64>, Reason> {
        all.iter().map(|x| Ok(self.value(x, scope)?.bits)).collect()
    }

    /// An element of a stage that primitives have made is what it computes; any other stands for itself. An index that
    /// data give may have any value between its ends.
    fn read(&mut self, tensor: &Tensor, indices: &[Known]) -> Result<Known, Reason> {
        let stage = self.schedule.index_of(tensor.operation()).map(|index| &self.schedule.stages[index]);
        let origin = stage.map_or(tensor.operation(), |stage| &stage.origin);
        let made = stage.filter(|_| !self.given.contains(&Arc::as_ptr(origin).addr()));
        let made = made.and_then(|stage| stage.operation.as_compute());
        let extents = match made {
            Some(compute) => self.extents(compute)?,
            None => self.numbers(&tensor.shape())?,
        };
        let is_inside = |(index, extent): (&Known, &i64)| {
            index.ends.is_some_and(|(least, greatest)| least >= 0 && greatest < *extent)
        };
        let is_inside = indices.len() == extents.len() && indices.iter().zip(&extents).all(is_inside);
        let Some(compute) = made else {
            self.outside += usize::from(!is_inside);
            let ends = if tensor.dtype().is_integer() { self.ends(tensor, indices) } else { None };
            let indices: Vec<u64> = indices.iter().map(|index| index.bits).collect();
            let bits = hashed(&("element", Arc::as_ptr(origin), tensor.value(), indices));
            return Ok(Known { ends, ..Known::of(bits) });
        };
        let before = self.outside;
        let value = self.element(compute, tensor.value(), indices)?;
        // An expression that reads outside for these sizes does so through a cache, too.
        let is_refused = !is_inside && (self.outside == before || self.lacks(compute, tensor, indices, &extents)?);
        if is_refused { Err(OUTSIDE) } else { Ok(value) }
    }

    /// The ends of an element of a stage that stands for itself, if the stage computes it within limits.
    fn ends(&mut self, tensor: &Tensor, indices: &[Known]) -> Option<Ends> {
        let compute = tensor.operation().as_compute()?;
        let (level, outside, steps) = (self.level, self.outside, self.steps);
        let from = 4 * MOST_STEPS - MOST_FOR_ENDS;
        self.steps = steps.max(from);
        let element = self.element(compute, tensor.value(), indices);
        (self.level, self.outside) = (level, outside);
        // All stages that one index is made of share the limit.
        self.steps = if steps < from { steps } else { self.steps };
        element.ok()?.ends(tensor.dtype())
    }

    /// Whether a stage that primitives have made lacks an element that its source has. Elements beyond an end are
    /// looked at, if an index from data may reach them.
    fn lacks(
        &mut self,
        compute: &Compute,
        tensor: &Tensor,
        indices: &[Known],
        extents: &[i64],
    ) -> Result<bool, Reason> {
        let inside = |(index, extent): (&Known, &i64)| {
            let is_inside = index.ends.is_some_and(|(least, greatest)| least >= 0 && greatest < *extent);
            if is_inside || index.int.is_some() { index.clone() } else { Known { ends: Some((0, 0)), ..Known::int(0) } }
        };
        let place: Vec<Known> = indices.iter().zip(extents).map(inside).collect();
        for (d, (index, extent)) in indices.iter().zip(extents).enumerate() {
            let (least, greatest) = index.ends.unwrap_or((i64::MIN, i64::MAX));
            let beyond = [(-1, least < 0), (*extent, greatest >= *extent)];
            for (end, _) in beyond.into_iter().filter(|(_, reached)| *reached && index.int.is_none()) {
                let mut place = place.clone();
                place[d] = Known::int(end);
                let before = self.outside;
                self.element(compute, tensor.value(), &place)?;
                if std::mem::replace(&mut self.outside, before) == before {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn reduced(&mut self, reduce: &Arc<Reduce>, scope: &mut Scope) -> Result<Rc<Reduced>, Reason> {
        if let Some(known) = scope.reductions.get(&Arc::as_ptr(reduce)) {
            return Ok(Rc::clone(known));
        }
        let combiner = &reduce.combiner;
        let sides = [("left", &combiner.left), ("right", &combiner.right)];
        let side = |(side, vars): (&'static str, &Vec<Var>)| {
            vars.iter().enumerate().map(move |(i, var)| (*var, Known::of(hashed(&(side, i))))).collect::<Vec<_>>()
        };
        let mut own = Scope::new(sides.into_iter().flat_map(side).collect());
        let (result, identity) = (self.bits(&combiner.result, &mut own)?, self.bits(&combiner.identity, &mut own)?);
        let combiner = hashed(&("combiner", result, identity, combiner.commutative));
        let init = self.bits(&reduce.init, scope)?;
        let mut all = Combined::nothing(reduce.combiner.commutative);
        self.over(reduce, combiner, 0, &scope.values.clone(), &mut all)?;
        let made = Rc::new(Reduced { combiner, init: (!init.is_empty()).then(|| hashed(&init)), all });
        scope.reductions.insert(Arc::as_ptr(reduce), Rc::clone(&made));
        Ok(made)
    }

    fn over(
        &mut self,
        reduce: &Reduce,
        combiner: u64,
        axis: usize,
        values: &HashMap<Var, Known>,
        all: &mut Combined,
    ) -> Result<(), Reason> {
        let Some(own) = reduce.axes.get(axis) else { return self.add(reduce, combiner, values, all) };
        let domain = own.domain().ok_or(NO_VALUE)?;
        let mut scope = Scope::new(values.clone());
        let (min, extent) = (self.value(&domain.min, &mut scope)?, self.value(&domain.extent, &mut scope)?);
        let mut at = |this: &mut Self, value: Known| {
            let mut values = values.clone();
            values.insert(own.var(), value);
            this.over(reduce, combiner, axis + 1, &values, all)
        };
        match (min.int, extent.int) {
            (Some(min), Some(extent)) => (0..extent).try_for_each(|i| at(self, Known::int(min.wrapping_add(i)))),
            // A range that data give.
            _ => at(self, Known::of(hashed(&("any of", axis, min.bits, extent.bits)))),
        }
    }

    /// Combines what has been combined with one more value, or with all that a partial reduction has combined.
    fn add(
        &mut self,
        reduce: &Reduce,
        combiner: u64,
        values: &HashMap<Var, Known>,
        all: &mut Combined,
    ) -> Result<(), Reason> {
        let mut scope = Scope::new(values.clone());
        let condition = self.value(&reduce.condition, &mut scope)?;
        if condition.int == Some(0) {
            return Ok(());
        }
        let source: Vec<Known> = reduce.source.iter().map(|x| self.value(x, &mut scope)).collect::<Result<_, _>>()?;
        let partial = source.first().and_then(|first| first.reduced.as_ref()).map(|(partial, _)| Rc::clone(partial));
        let is_part = |(place, x): (usize, &Known)| {
            x.reduced.as_ref().is_some_and(|(own, index)| Some(own) == partial.as_ref() && *index == place)
        };
        let fits = |partial: &Rc<Reduced>| partial.combiner == combiner && partial.init.is_none();
        *all = match &partial {
            Some(partial) if condition.int.is_some() && fits(partial) && source.iter().enumerate().all(is_part) => {
                all.then(partial.all)
            }
            _ => {
                let bits: Vec<u64> = source.iter().map(|x| x.bits).collect();
                let condition = if condition.int.is_some() { 1 } else { condition.bits };
                all.one(hashed(&(condition, bits)))
            }
        };
        Ok(())
    }
}
