//! Reducers: functions that make reductions.

use std::sync::Arc;

use super::extents::check_range;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::reduce::{Combiner, Reduce};
use crate::te::expr::var::Var;

/// A reducer makes reductions of expressions. [`comm_reducer`] and [`tuple_reducer`] make new reducers.
#[derive(Clone)]
pub struct Reducer {
    name: String,
    make: Arc<Make>,
}

/// Makes the combiner for values of the given types.
type Make = dyn Fn(&[DType]) -> Combiner + Send + Sync;

/// A commutative reducer of one value: `combine(x, y)`, and the identity of a type.
///
/// Besides `x` and `y` they may use numbers and sizes only. Terms that depend on an output's index or on other tensors
/// belong into the expression that is reduced. Otherwise the reduction is refused where it is used
/// ([`ExpressionError::ReducerUses`]).
pub fn comm_reducer(
    combine: impl Fn(Expr, Expr) -> Expr + Send + Sync + 'static,
    identity: impl Fn(DType) -> Expr + Send + Sync + 'static,
    name: &str,
) -> Reducer {
    tuple_reducer(move |x, y| vec![combine(x[0].clone(), y[0].clone())], move |types| vec![identity(types[0])], name)
}

/// A commutative reducer of several values at once: argmax, mean with variance, …
pub fn tuple_reducer(
    combine: impl Fn(&[Expr], &[Expr]) -> Vec<Expr> + Send + Sync + 'static,
    identity: impl Fn(&[DType]) -> Vec<Expr> + Send + Sync + 'static,
    name: &str,
) -> Reducer {
    let make = move |types: &[DType]| {
        let fresh = |prefix: &str| -> Vec<Var> {
            let name = |i: usize| if types.len() == 1 { prefix.to_owned() } else { format!("{prefix}{i}") };
            types.iter().enumerate().map(|(i, dtype)| Var::new(&name(i), *dtype)).collect()
        };
        let (left, right) = (fresh("x"), fresh("y"));
        let expressions = |vars: &[Var]| -> Vec<Expr> { vars.iter().map(|v| Expr::from(*v)).collect() };
        let result = combine(&expressions(&left), &expressions(&right));
        Combiner { left, right, result, identity: identity(types), commutative: true }
    };
    Reducer { name: name.to_owned(), make: Arc::new(make) }
}

/// Chooses one of two pairs of (place, value): the one with the larger value, or the smaller. The lower place wins if
/// values are equal; a NaN wins over everything else.
pub(crate) fn extreme(largest: bool, x: &[Expr], y: &[Expr]) -> Vec<Expr> {
    let (i, j, u, v) = (&x[0], &y[0], x[1].clone(), y[1].clone());
    let better = |a: Expr, b: Expr| if largest { a.greater(b) } else { a.less(b) };
    let first = i.clone().less(j);
    let left = if u.dtype().is_float() {
        let (nan, other) = (u.clone().not_equal(&u), v.clone().not_equal(&v));
        let same = u.clone().equal(&v).or(nan.clone().and(other.clone()));
        let ahead = better(u, v).or(nan.and(!other));
        ahead.or(same.and(first))
    } else {
        better(u.clone(), v.clone()).or(u.equal(v).and(first))
    };
    vec![left.clone().select(i, j), left.select(&x[1], &y[1])]
}

impl Reducer {
    /// Makes the reducer not commutative: the order of operands is kept.
    #[must_use]
    pub fn associative_only(self) -> Self {
        let make = self.make;
        Self { name: self.name, make: Arc::new(move |types| Combiner { commutative: false, ..make(types) }) }
    }

    /// The reducer's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The reduction of one expression over axes.
    pub fn over(&self, source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {
        let mut values = self.over_all(&[source.into()], axes);
        values.swap_remove(0)
    }

    /// The reduction of several expressions at once; the result has as many values.
    pub fn over_all(&self, source: &[Expr], axes: impl AsRef<[Axis]>) -> Vec<Expr> {
        self.build(source, axes.as_ref(), None, Vec::new())
    }

    /// A reduction over only those points of the axes where `condition` holds.
    pub fn over_where(&self, source: impl Into<Expr>, axes: impl AsRef<[Axis]>, condition: Expr) -> Expr {
        let mut values = self.build(&[source.into()], axes.as_ref(), Some(condition), Vec::new());
        values.swap_remove(0)
    }

    /// A reduction that starts from `init` instead of the identity.
    pub fn over_from(&self, source: impl Into<Expr>, axes: impl AsRef<[Axis]>, init: impl Into<Expr>) -> Expr {
        let mut values = self.build(&[source.into()], axes.as_ref(), None, vec![init.into()]);
        values.swap_remove(0)
    }

    /// The general form: several values, a condition, and initial values (an empty list means the identities).
    pub fn build(&self, source: &[Expr], axes: &[Axis], condition: Option<Expr>, init: Vec<Expr>) -> Vec<Expr> {
        match self.checked(source, axes, condition, init) {
            Ok(reduce) => {
                let reduce = Arc::new(reduce);
                let value = |(i, x): (usize, &Expr)| Expr::new(x.dtype(), Kind::Reduce(Arc::clone(&reduce), i));
                source.iter().enumerate().map(value).collect()
            }
            Err(error) => vec![Expr::invalid(error); source.len().max(1)],
        }
    }

    fn checked(
        &self,
        source: &[Expr],
        axes: &[Axis],
        condition: Option<Expr>,
        init: Vec<Expr>,
    ) -> Result<Reduce, TeError> {
        let invalid = source.iter().chain(&init).chain(&condition).find_map(|x| match x.kind() {
            Kind::Invalid(error) => Some(error.clone()),
            _ => None,
        });
        if let Some(error) = invalid {
            return Err(error);
        }
        if let Some(axis) = axes.iter().find(|axis| axis.kind() != AxisKind::Reduce) {
            return Err(ExpressionError::NotAReduceAxis { axis: axis.name().to_owned() }.into());
        }
        if let Some(axis) = axes.iter().enumerate().find_map(|(i, axis)| axes[..i].contains(axis).then_some(axis)) {
            return Err(ExpressionError::RepeatedAxis { axis: axis.name().to_owned() }.into());
        }
        for axis in axes {
            if let Some(range) = axis.alive()?.domain() {
                check_range(&range, axis.name())?;
            }
        }
        let types: Vec<DType> = source.iter().map(Expr::dtype).collect();
        let combiner = (self.make)(&types);
        let counts = [combiner.result.len(), combiner.identity.len()];
        if let Some(given) = counts.into_iter().find(|n| *n != source.len()) {
            return Err(
                ExpressionError::ReducerArity { reducer: self.name.clone(), needed: source.len(), given }.into()
            );
        }
        combiner.check(&self.name)?;
        for (value, dtype) in combiner.result.iter().chain(&combiner.identity).zip(types.iter().cycle()) {
            if value.dtype() != *dtype {
                return Err(ExpressionError::ReducerType {
                    reducer: self.name.clone(),
                    needed: *dtype,
                    given: value.dtype(),
                }
                .into());
            }
        }
        if !init.is_empty() && init.len() != source.len() {
            return Err(ExpressionError::InitCount { needed: source.len(), given: init.len() }.into());
        }
        if let Some(init) = init.iter().find(|x| !matches!(x.kind(), Kind::Int(_) | Kind::Float(_) | Kind::Read(..))) {
            return Err(TeError::Expression(ExpressionError::InitForm { given: init.dtype() }));
        }
        let condition = condition.unwrap_or_else(|| Expr::truth(true));
        if condition.dtype() != DType::Bool {
            return Err(ExpressionError::OperandType { operation: "where".to_owned(), given: condition.dtype() }.into());
        }
        Ok(Reduce { combiner, source: source.to_vec(), init, axes: axes.to_vec().into(), condition })
    }
}

/// The sum over the axes.
pub fn sum(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {
    sum_reducer().over(source, axes)
}

/// The product over the axes.
pub fn prod(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {
    comm_reducer(|x, y| x * y, |dtype| Expr::constant(1.0, dtype), "prod").over(source, axes)
}

/// The largest value over the axes; NaN if any is NaN.
pub fn max(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {
    max_reducer().over(source, axes)
}

/// The smallest value over the axes; NaN if any is NaN.
pub fn min(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {
    min_reducer().over(source, axes)
}

/// Whether all values hold: truth values, or numbers other than 0. True over nothing. The result is a truth value.
///
/// ```
/// use epilogue::te;
///
/// let x = te::placeholder([64, 32], "x");
/// let k = te::reduce_axis((0, 32), "k");
/// let positive = te::compute([64], "positive", |[i]| te::all(x.at([i.into(), te::Expr::from(k)]).greater(0), [k]))?;
/// assert_eq!(positive.dtype(), te::DType::Bool);
/// # Ok::<(), te::TeError>(())
/// ```
pub fn all(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {
    all_reducer().over(truth(source.into()), axes)
}

/// Whether any value holds, in the sense of [`all`]. False over nothing.
pub fn any(source: impl Into<Expr>, axes: impl AsRef<[Axis]>) -> Expr {
    any_reducer().over(truth(source.into()), axes)
}

/// Whether a number is not 0.
pub(crate) fn truth(x: Expr) -> Expr {
    if x.error().is_some() || x.dtype() == DType::Bool { x } else { x.not_equal(0) }
}

/// The reducer of [`all`], for truth values.
#[must_use]
pub fn all_reducer() -> Reducer {
    comm_reducer(|x, y| Expr::binary(Binary::And, x, y), |_| Expr::truth(true), "all")
}

/// The reducer of [`any`], for truth values.
#[must_use]
pub fn any_reducer() -> Reducer {
    comm_reducer(|x, y| Expr::binary(Binary::Or, x, y), |_| Expr::truth(false), "any")
}

/// The reducer of [`sum`], for the forms with a condition or initial value.
#[must_use]
pub fn sum_reducer() -> Reducer {
    comm_reducer(|x, y| x + y, |dtype| Expr::constant(0.0, dtype), "sum")
}

/// The reducer of [`max`].
#[must_use]
pub fn max_reducer() -> Reducer {
    comm_reducer(|x, y| Expr::binary(Binary::Max, x, y), |dtype| Expr::constant(dtype.least(), dtype), "max")
}

/// The reducer of [`min`].
#[must_use]
pub fn min_reducer() -> Reducer {
    comm_reducer(|x, y| Expr::binary(Binary::Min, x, y), |dtype| Expr::constant(dtype.greatest(), dtype), "min")
}

impl Combiner {
    /// Checks that a combination uses only its two operands besides numbers and sizes, and that an identity uses
    /// nothing else. Reductions are cut in parts that are combined in any grouping: an index or input of an output
    /// element would have no meaning.
    ///
    /// # Errors
    /// [`ExpressionError::ReducerUses`], and the mistake inside a part that is one.
    pub(crate) fn check(&self, reducer: &str) -> Result<(), TeError> {
        let operands: Vec<Var> = self.left.iter().chain(&self.right).copied().collect();
        let parts = [("combination", &self.result, operands.as_slice()), ("identity", &self.identity, &[])];
        for (part, values, own) in parts {
            let mut mistake = None;
            for value in values {
                value.visit(&mut |x| {
                    let found = match x.kind() {
                        Kind::Invalid(error) => error.clone(),
                        Kind::Read(tensor, _) => uses(reducer, part, format!("reads {}", tensor.name())),
                        Kind::Load(buffer, _) => uses(reducer, part, format!("loads from {}", buffer.name())),
                        Kind::Reduce(..) => uses(reducer, part, "holds another reduction".to_owned()),
                        Kind::Var(var) if !own.contains(var) && (var.is_counter() || !var.dtype().is_integer()) => {
                            uses(reducer, part, format!("uses {}, which has no value there", var.name()))
                        }
                        _ => return,
                    };
                    mistake.get_or_insert(found);
                });
            }
            mistake.map_or(Ok(()), Err)?;
        }
        Ok(())
    }
}

fn uses(reducer: &str, part: &'static str, what: String) -> TeError {
    ExpressionError::ReducerUses { reducer: reducer.to_owned(), part, what }.into()
}
