//! Compares an intrinsic's expression with what the loops compute: term by term, with the intrinsic's tensors standing
//! for parts of the computation's.

use std::collections::HashSet;

use crate::te::arith::interval::Interval;
use crate::te::arith::{Context, Linear, simplify, simplify_in};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::tensor::{Compute, Tensor};
use crate::te::expr::var::Var;
use crate::te::loops::schedule::combine_alike;
use crate::te::text::expression;

/// The range of an axis while the loops run that an intrinsic replaces: `low`, then `extent` values.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) low: Expr,
    pub(crate) extent: Expr,
}

/// The part of a tensor that an intrinsic's tensor stands for, given by the indices of its first element.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) pattern: Tensor,
    pub(crate) tensor: Tensor,
    pub(crate) base: Vec<Expr>,
}

/// The program's parts and values for the intrinsic's tensors and sizes.
#[derive(Debug, Default)]
pub(crate) struct Match {
    pub(crate) parts: Vec<Part>,
    /// The values of sizes in the intrinsic's shapes and strides.
    pub(crate) sizes: Vec<(Var, Expr)>,
    context: Context,
    /// The counters of the intrinsic's axes, and their extents.
    counters: Vec<(Var, Expr)>,
    /// The indices at which the intrinsic's expression reads its tensors.
    reads: Vec<(Tensor, Vec<Expr>)>,
    /// The pairs of expressions that have been compared.
    compared: HashSet<(Id, Id)>,
}

impl Match {
    /// Gives a size of the intrinsic its value, or compares the two if it has one.
    pub(crate) fn unify(&mut self, pattern: &Expr, actual: &Expr) -> bool {
        if let Some(var) = pattern.as_var()
            && !var.is_counter()
            && !self.sizes.iter().any(|(known, _)| *known == var)
        {
            self.sizes.push((var, actual.clone()));
            return true;
        }
        simplify_in(&(self.sized(pattern) - actual), &self.context).as_int() == Some(0)
    }

    /// An expression of the intrinsic with the values of the sizes.
    pub(crate) fn sized(&self, x: &Expr) -> Expr {
        x.substitute(&|var| self.sizes.iter().find(|(known, _)| *known == var).map(|(_, value)| value.clone()))
    }

    /// Matches a computation, each of whose axes runs over a span, with the intrinsic's computation.
    pub(crate) fn computation(
        &mut self,
        context: &Context,
        target: (&Compute, &[Span], &[Span]),
        pattern: &Compute,
    ) -> Result<(), String> {
        self.context = context.clone();
        let (compute, data, reduced) = target;
        let mut values = Vec::new();
        let groups = [
            ("data", &compute.axes, data, &pattern.axes),
            ("reduction", &compute.reduce_axes, reduced, &pattern.reduce_axes),
        ];
        for (what, axes, spans, patterns) in groups {
            let Some(leading) = axes.len().checked_sub(patterns.len()) else {
                return Err(format!("it has {} {what} axes, the computation has {}", patterns.len(), axes.len()));
            };
            for (place, (axis, span)) in axes.iter().zip(spans).enumerate() {
                match place.checked_sub(leading) {
                    Some(place) => values.extend(self.axis(*axis, span, patterns[place])?),
                    None if span.extent.as_int() == Some(1) => values.push((axis.var(), span.low.clone())),
                    None => {
                        return Err(format!(
                            "it has no axis for {}, which runs over {} values inside; split it and tensorize inside",
                            axis.name(),
                            expression(&span.extent)
                        ));
                    }
                }
            }
        }
        let valued = |x: &Expr| {
            x.substitute(&|var| values.iter().find(|(known, _)| *known == var).map(|(_, value)| value.clone()))
        };
        let pairs = compute.body.iter().zip(&pattern.body);
        // All at once: the compared expressions stay alive, so no other expression gets the address of one.
        let pairs: Vec<(Expr, Expr)> = pairs.map(|(x, pattern)| (valued(x), self.sized(&valued(pattern)))).collect();
        for (target, pattern) in &pairs {
            self.expressions(target, pattern)?;
        }
        self.regions()
    }

    /// Matches an axis of the computation with one of the intrinsic: gives the value of each in terms of one common
    /// counter.
    fn axis(&mut self, axis: Axis, span: &Span, pattern: Axis) -> Result<[(Var, Expr); 2], String> {
        let (min, extent) =
            pattern.domain().map_or((Expr::int(0), Expr::int(1)), |d| (d.min.clone(), d.extent.clone()));
        if !self.unify(&extent, &span.extent) {
            return Err(format!(
                "its axis {} has {} values, {} runs over {} inside",
                pattern.name(),
                expression(&self.sized(&extent)),
                axis.name(),
                expression(&span.extent)
            ));
        }
        let counter = Var::counter(pattern.name());
        self.context.push(counter, &span.extent);
        self.counters.push((counter, span.extent.clone()));
        let step = if span.extent.as_int() == Some(1) { Expr::int(0) } else { Expr::from(counter) };
        let own = simplify(&(&span.low + &step));
        Ok([(axis.var(), own), (pattern.var(), simplify(&(min + step)))])
    }

    fn expressions(&mut self, target: &Expr, pattern: &Expr) -> Result<(), String> {
        if target.is_met_again() && pattern.is_met_again() && !self.compared.insert((target.id(), pattern.id())) {
            return Ok(());
        }
        let differ =
            || Err(format!("it computes {} where the loops compute {}", expression(pattern), expression(target)));
        if target.dtype() != pattern.dtype() {
            return Err(format!(
                "it computes {} of type {} where the loops compute {} of type {}",
                expression(pattern),
                pattern.dtype(),
                expression(target),
                target.dtype()
            ));
        }
        if target.dtype().is_integer() && !reads(target) && !reads(pattern) {
            let same = target == pattern || simplify_in(&(target - pattern), &self.context).as_int() == Some(0);
            return if same { Ok(()) } else { differ() };
        }
        let same = match (target.kind(), pattern.kind()) {
            (Kind::Read(tensor, indices), Kind::Read(other, places)) => {
                return self.read((tensor, indices), (other, places));
            }
            (Kind::Reduce(own, value), Kind::Reduce(other, place)) => {
                value == place && combine_alike(own, other) && own.init.len() == other.init.len()
            }
            (Kind::Int(a), Kind::Int(b)) => a == b,
            (Kind::Float(a), Kind::Float(b)) => a.to_bits() == b.to_bits(),
            (Kind::Var(a), Kind::Var(b)) => a == b,
            (Kind::Binary(a, ..), Kind::Binary(b, ..)) => a == b,
            (Kind::Apply(a, x), Kind::Apply(b, y)) => a == b && x.len() == y.len(),
            (Kind::Call(a, x), Kind::Call(b, y)) => std::ptr::eq(*a, *b) && x.len() == y.len(),
            (Kind::Not(_), Kind::Not(_))
            | (Kind::Select(..), Kind::Select(..))
            | (Kind::Cast(_), Kind::Cast(_))
            | (Kind::Likely(_), Kind::Likely(_)) => true,
            _ => false,
        };
        if !same {
            return differ();
        }
        target.operands().into_iter().zip(pattern.operands()).try_for_each(|(a, b)| self.expressions(a, b))
    }

    /// Matches a read of an intrinsic's tensor with a read of the computation's. All reads of one tensor must be of one
    /// part.
    fn read(&mut self, target: (&Tensor, &[Expr]), pattern: (&Tensor, &[Expr])) -> Result<(), String> {
        let ((tensor, indices), (other, places)) = (target, pattern);
        let Some(leading) = indices.len().checked_sub(places.len()) else {
            return Err(format!(
                "its {} has {} dimensions, {} has {}",
                other.name(),
                places.len(),
                tensor.name(),
                indices.len()
            ));
        };
        let mut base = Vec::with_capacity(indices.len());
        for (d, index) in indices.iter().enumerate() {
            let first = match d.checked_sub(leading) {
                Some(place) => simplify_in(&(index - &places[place]), &self.context),
                None => simplify_in(index, &self.context),
            };
            if self.counters.iter().any(|(counter, _)| first.uses(*counter)) || reads(&first) {
                return Err(format!(
                    "it reads its {}[{}] where the loops read {}[{}]",
                    other.name(),
                    crate::te::text::list(places, &crate::te::text::Plain),
                    tensor.name(),
                    crate::te::text::list(indices, &crate::te::text::Plain),
                ));
            }
            base.push(first);
        }
        self.reads.push((other.clone(), places.to_vec()));
        match self.parts.iter().find(|part| part.pattern == *other) {
            None => self.parts.push(Part { pattern: other.clone(), tensor: tensor.clone(), base }),
            Some(known) => {
                let same = |(a, b): (&Expr, &Expr)| simplify_in(&(a - b), &self.context).as_int() == Some(0);
                if known.tensor != *tensor || !known.base.iter().zip(&base).all(same) {
                    let (name, old) = (tensor.name(), known.tensor.name());
                    return Err(format!(
                        "its {} would be a part of {old} in one place and another of {name} in another",
                        other.name()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the intrinsic reads all of its tensors: then it accesses no more than the loops read.
    fn regions(&mut self) -> Result<(), String> {
        for part in self.parts.clone() {
            for (d, extent) in part.pattern.shape().iter().enumerate() {
                let mut region: Option<Interval> = None;
                for (_, places) in self.reads.iter().filter(|(tensor, _)| *tensor == part.pattern) {
                    let range = Interval::of(&simplify_in(&places[d], &self.context), &self.counters)
                        .ok_or_else(|| format!("what it reads of its {} is not a range", part.pattern.name()))?;
                    region = Some(match region {
                        None => range,
                        Some(known) => known.or(range),
                    });
                }
                let Some(Interval { low, high, .. }) = region else { continue };
                let whole = low.as_int() == Some(0)
                    && self.unify(extent, &simplify(&(&high + 1)))
                    && self.is_inside(&part, d, extent);
                if !whole {
                    return Err(format!(
                        "it reads its {} from {} to {} along dimension {d}, whose extent is {}; declare the extent that \
                         is read",
                        part.pattern.name(),
                        expression(&low),
                        expression(&high),
                        expression(&self.sized(extent))
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether the part lies inside the tensor along a dimension. Affine indices are bounded exactly; for others only a
    /// range that contains them is known.
    fn is_inside(&self, part: &Part, dimension: usize, extent: &Expr) -> bool {
        let own = |x: &Expr| self.counters.iter().any(|(counter, _)| x.uses(*counter));
        let affine = self.reads.iter().filter(|(tensor, _)| *tensor == part.pattern).all(|(_, places)| {
            let linear = Linear::of(&simplify_in(&places[dimension], &self.context));
            linear.terms.iter().all(|(atom, _)| atom.as_var().is_some() || !own(atom))
        });
        let place = part.base.len() - part.pattern.rank() + dimension;
        let whole = part.tensor.shape();
        let end = &part.base[place] + self.sized(extent);
        affine || whole.get(place).is_some_and(|whole| self.context.proves_less(&end, &(whole + 1)))
    }
}

fn reads(x: &Expr) -> bool {
    let mut found = false;
    x.visit(&mut |x| found |= matches!(x.kind(), Kind::Read(..) | Kind::Reduce(..)));
    found
}
