//! Evaluates a checked tree for the elements of a product: once for each phase, since a reduction is known when all that
//! it reduces is.

use std::collections::HashMap;
use std::ops::Range;

use epilogue_float_mode::in_default_mode;
use smallvec::SmallVec;

use super::bounds::{Bounds, Slack};
use super::cell::{Cell, apply, call, cast, connected, known, number, stored, truth};
use super::chance;
use super::collect::Sink;
use super::element::round;
use super::integer::Integer;
use super::pair::Pair;
use super::wide::Wide;
use super::{Argument, Extent, Groups, Options, Output, Product, ReferenceError};
use crate::evt::{BroadcastClass, OutputKind, ParameterClass, Position, ValidTree, Value, ValueKind, ValueType};
use crate::expr::{Op, Real};

/// The correct outputs of an epilogue, with bounds.
///
/// # Errors
/// [`ReferenceError`] if arguments are missing or too small, or if partials are wanted without a tile.
pub fn evaluate(
    tree: &ValidTree,
    products: &[Product],
    arguments: &[Argument<'_>],
    options: Options,
) -> Result<Vec<Output>, ReferenceError> {
    evaluate_grouped(tree, products, arguments, options, None)
}

/// [`evaluate`] for products of groups, where a batch is a group ([`Product::of_groups`]). Elements of rows that no group
/// has may be anything.
///
/// # Errors
/// As for [`evaluate`].
pub fn evaluate_grouped(
    tree: &ValidTree,
    products: &[Product],
    arguments: &[Argument<'_>],
    options: Options,
    groups: Option<Groups<'_>>,
) -> Result<Vec<Output>, ReferenceError> {
    let (given, needed) = (arguments.len(), tree.parameters().len());
    if given != needed {
        return Err(ReferenceError::Arguments { given, needed });
    }
    let extent = extent(tree, products)?;
    let extent = Extent { l: groups.map_or(extent.l, |groups| groups.rows.len()), ..extent };
    let given = Given { products, arguments, groups };
    in_default_mode(|| match tree.real() {
        Real::F32 => Evaluator::<f64>::run(tree, extent, given, options),
        Real::F64 => Evaluator::<super::double_double::DoubleDouble>::run(tree, extent, given, options),
    })
}

/// The extent that all products have.
fn extent(tree: &ValidTree, products: &[Product]) -> Result<Extent, ReferenceError> {
    let (given, needed) = (products.len(), tree.accumulators().len());
    let Some(extent) = products.first().map(|product| product.extent).filter(|_| given == needed) else {
        return Err(ReferenceError::Products { given, needed });
    };
    let needed = extent.len();
    for product in products {
        for given in [product.values.len(), product.errors.len(), product.extent.len()] {
            if given != needed {
                return Err(ReferenceError::Accumulator { given, needed });
            }
        }
    }
    Ok(extent)
}

/// The products, arguments and groups of an evaluation.
#[derive(Clone, Copy)]
struct Given<'a> {
    /// One for each accumulator.
    products: &'a [Product],
    arguments: &'a [Argument<'a>],
    groups: Option<Groups<'a>>,
}

struct Evaluator<'a, W> {
    tree: &'a ValidTree,
    extent: Extent,
    given: Given<'a>,
    options: Options,
    /// The reductions that are known, by their values' places.
    reductions: HashMap<usize, Sink<'a, W>>,
}

impl<W: Wide> Evaluator<'_, W> {
    fn run(
        tree: &ValidTree,
        extent: Extent,
        given: Given<'_>,
        options: Options,
    ) -> Result<Vec<Output>, ReferenceError> {
        let mut this = Evaluator::<W> { tree, extent, given, options, reductions: HashMap::new() };
        let mut sinks = Vec::new();
        for output in tree.outputs() {
            sinks.push(Sink::<W>::new(output, extent, given.groups, options, this.slack(53))?);
        }
        let mut cells: Vec<Cell<W>> = Vec::new();
        for phase in 1..tree.phases() {
            this.reduce(phase, &mut cells)?;
        }
        for l in 0..extent.l {
            for m in this.rows(l) {
                for n in 0..extent.n {
                    this.element([l, m, n], &mut cells)?;
                    for (output, sink) in tree.outputs().iter().zip(&mut sinks) {
                        let pair = match tree.kept_integers(output) {
                            Some(accumulator) => this.integer(accumulator, [l, m, n]),
                            None => stored(&cells[output.value.index()]),
                        };
                        sink.take([l, m, n], pair);
                    }
                }
            }
        }
        // Values that are not M×N tensors exist even if the product has no elements.
        this.without_elements(&mut sinks, &mut cells)?;
        Ok(sinks.into_iter().map(Sink::finish).collect())
    }

    /// Completes the reductions whose results are values of a phase.
    fn reduce(&mut self, phase: usize, cells: &mut Vec<Cell<W>>) -> Result<(), ReferenceError> {
        let (tree, extent, element) = (self.tree, self.extent, self.tree.real().element());
        let reduced = tree.enumerate().filter(|(_, value)| value.phase == phase);
        let slack = self.slack(53);
        let mut sinks: Vec<(usize, usize, Sink<'_, W>)> = reduced
            .filter_map(|(id, value)| match value.kind {
                ValueKind::Reduce(reduction, x) => {
                    Some((id.index(), x.index(), Sink::of_reduction(reduction, element, extent, slack)))
                }
                _ => None,
            })
            .collect();
        for l in 0..extent.l {
            for m in self.rows(l) {
                for n in 0..extent.n {
                    self.values([l, m, n], cells, |value| value.phase < phase)?;
                    sinks.iter_mut().for_each(|(_, x, sink)| sink.take([l, m, n], stored(&cells[*x])));
                }
            }
        }
        self.reductions.extend(sinks.into_iter().map(|(id, _, sink)| (id, sink.completed())));
        Ok(())
    }

    /// Computes stored vectors and scalars for a product without rows or columns.
    fn without_elements(&self, sinks: &mut [Sink<'_, W>], cells: &mut Vec<Cell<W>>) -> Result<(), ReferenceError> {
        let extent = self.extent;
        for (output, sink) in self.tree.outputs().iter().zip(sinks) {
            for l in 0..extent.l {
                let own = self.rows(l);
                let (rows, columns) = match (output.kind, output.class) {
                    (OutputKind::Store, BroadcastClass::RowVector) if own.is_empty() => (0..1, extent.n),
                    (OutputKind::Store, BroadcastClass::ColumnVector) if extent.n == 0 => (own, 1),
                    (OutputKind::Store, BroadcastClass::Scalar) if own.is_empty() || extent.n == 0 => (0..1, 1),
                    _ => continue,
                };
                for m in rows {
                    for n in 0..columns {
                        self.values([l, m, n], cells, |value| output.class.join(value.class) == output.class)?;
                        sink.take([l, m, n], stored(&cells[output.value.index()]));
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of a batch.
    fn rows(&self, batch: usize) -> Range<usize> {
        self.given.groups.map_or(0..self.extent.m, |groups| groups.rows[batch].clone())
    }

    /// The errors that operations may have in a value that reaches outputs of this many bits.
    fn slack(&self, significand: u32) -> Slack {
        let significand = if self.options.fast_math { significand.min(8) } else { significand };
        Slack { real: self.tree.real(), significand }
    }

    fn element(&self, index: [usize; 3], cells: &mut Vec<Cell<W>>) -> Result<(), ReferenceError> {
        self.values(index, cells, |_| true)
    }

    /// Computes the values of the wanted classes for one element; the others are left as NaN.
    fn values(
        &self,
        index: [usize; 3],
        cells: &mut Vec<Cell<W>>,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), ReferenceError> {
        cells.clear();
        for (place, value) in self.tree.values().iter().enumerate() {
            let slack = self.slack(value.significand);
            let cell = match &value.kind {
                _ if !wanted(value) => known(f64::NAN),
                ValueKind::Reduce(..) => match self.reductions.get(&place) {
                    Some(sink) => sink.result(index, self.tree.real()),
                    None => known(f64::NAN),
                },
                ValueKind::Accum(i) => self.accum(*i, index),
                // Values that follow from the seed ask for it themselves.
                ValueKind::Broadcast(_) if value.ty == ValueType::Seed => known(f64::NAN),
                ValueKind::Random(seed, stream) => self.random(seed.index(), *stream, index)?,
                ValueKind::Load(p) | ValueKind::Broadcast(p) => self.argument(p.index(), value.ty, index)?,
                ValueKind::Literal(x) => known(*x),
                ValueKind::Integer(x) => Cell::Integer(Integer::known(*x)),
                ValueKind::Position(position) => self.position(*position, index),
                ValueKind::Logic(logic, operands) => {
                    let operands: SmallVec<[Cell<W>; 3]> = operands.iter().map(|o| cells[o.index()]).collect();
                    connected(*logic, &operands)
                }
                ValueKind::ToReal(x) => Cell::Number(self.real_of(&cells[x.index()])),
                ValueKind::Apply(op, operands) => {
                    let operands: SmallVec<[Cell<W>; 3]> = operands.iter().map(|o| cells[o.index()]).collect();
                    apply(*op, &operands, slack)
                }
                ValueKind::Scaled { scalar, x } => self.scaled(cells[scalar.index()], cells[x.index()], slack),
                ValueKind::Call(function, operands) => {
                    let operands: SmallVec<[Cell<W>; 3]> = operands.iter().map(|o| cells[o.index()]).collect();
                    call(function, &operands, slack)
                }
                ValueKind::Cast(to, x) => cast(*to, cells[x.index()], self.tree.real()),
            };
            cells.push(cell);
        }
        Ok(())
    }

    /// An accumulator, and the largest error of a device's.
    fn sum(&self, accumulator: usize, [l, m, n]: [usize; 3]) -> (f64, f64) {
        let Extent { m: rows, n: columns, .. } = self.extent;
        let product = &self.given.products[accumulator];
        let place = (l.min(product.extent.l.saturating_sub(1)) * rows + m) * columns + n;
        (product.values[place], product.errors[place])
    }

    /// An accumulator of integers, exactly.
    fn integer(&self, accumulator: usize, index: [usize; 3]) -> Pair<W> {
        let (value, error) = self.sum(accumulator, index);
        Pair { exact: W::from_f64(value), bounds: Bounds::around(value, error) }
    }

    fn accum(&self, accumulator: usize, index: [usize; 3]) -> Cell<W> {
        let (value, error) = self.sum(accumulator, index);
        let real = self.tree.real();
        let converted = self.tree.types().accumulator != real.element();
        let in_real = |x: f64| if converted { round(real.element(), x) } else { x };
        let bounds = Bounds::around(value, error).widened(0.0, 0.0, real).monotone(in_real);
        // An exact sum beyond the accumulator's range overflows on every device.
        let exact = if error == 0.0 { in_real(value) } else { value };
        Cell::Number(Pair { exact: W::from_f64(exact), bounds })
    }

    fn argument(&self, parameter: usize, ty: ValueType, index: [usize; 3]) -> Result<Cell<W>, ReferenceError> {
        let declared = &self.tree.parameters()[parameter];
        let value = match (declared.class, &self.given.arguments[parameter]) {
            (ParameterClass::Scalar, Argument::Scalar(x)) => *x,
            (ParameterClass::Scalar | ParameterClass::Seed, _) | (_, Argument::Scalar(_) | Argument::Seed(..)) => {
                return Err(ReferenceError::Kind { name: declared.name });
            }
            (_, Argument::Array(array)) => array.get(declared.name, index)?,
        };
        Ok(match ty {
            ValueType::Real(real) => known(round(real.element(), value)),
            #[expect(clippy::cast_possible_truncation, reason = "an integer in memory")]
            ValueType::Integer(_) => Cell::Integer(Integer::known(value as i64)),
            ValueType::Bool => truth(value != 0.0),
            // Never: `random` reads it.
            ValueType::Seed => known(f64::NAN),
        })
    }

    /// The random number of an element, exactly.
    fn random(&self, seed: usize, stream: u32, [l, m, n]: [usize; 3]) -> Result<Cell<W>, ReferenceError> {
        let ValueKind::Broadcast(parameter) = self.tree.values()[seed].kind else { return Ok(known(f64::NAN)) };
        let Argument::Seed(seed, offset) = self.given.arguments[parameter.index()] else {
            return Err(ReferenceError::Kind { name: self.tree.parameter(parameter).name });
        };
        let row = self.extent.m.wrapping_mul(l).wrapping_add(m);
        Ok(known(chance::number(seed, offset.wrapping_add(stream.into()), row, n)))
    }

    /// Positions count from 0.
    fn position(&self, position: Position, [l, m, n]: [usize; 3]) -> Cell<W> {
        let extent = self.extent;
        let value = match position {
            Position::Row => m,
            Position::Column => n,
            Position::Batch => l,
            Position::Rows => extent.m,
            Position::Columns => extent.n,
        };
        Cell::Integer(Integer::known(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    /// An integer in the arithmetic type, rounded once.
    fn real_of(&self, cell: &Cell<W>) -> Pair<W> {
        let Cell::Integer(x) = cell else { return number(cell) };
        let real = |x: i64| self.tree.real().of_integer(x);
        let bounds = Bounds::exact(real(x.low)).union(Bounds::exact(real(x.high)));
        Pair { exact: W::from_f64(real(x.exact)), bounds }
    }

    /// BLAS's beta = 0: a factor of 0 gives 0.
    fn scaled(&self, scalar: Cell<W>, x: Cell<W>, slack: Slack) -> Cell<W> {
        let factor = number(&scalar);
        let product = number(&apply(Op::Mul, &[scalar, x], slack));
        let is_zero = round(self.tree.real().element(), factor.exact.to_f64()) == 0.0;
        let may_be_zero = factor.bounds.low <= 0.0 && factor.bounds.high >= 0.0;
        let zero = Bounds::exact(0.0);
        let exact = if is_zero { W::from_f64(0.0) } else { product.exact };
        let bounds = match (may_be_zero, factor.bounds.low == factor.bounds.high) {
            (true, true) => zero,
            (true, false) => zero.union(product.bounds),
            (false, _) => product.bounds,
        };
        Cell::Number(Pair { exact, bounds })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Array, Multiplication};
    use super::*;
    use crate::ElementType;
    use crate::evt::{Axis, Form, ReduceOp, Reduction, TreeBuilder, Types};

    const F32: Types = Types::new(ElementType::F32, ElementType::F32);
    const EXTENT: Extent = Extent { m: 2, n: 3, l: 1 };

    fn reduction(axis: Axis, op: ReduceOp, form: Form) -> Reduction {
        Reduction { axis, batch: false, op, form }
    }

    #[test]
    fn reductions_and_partials() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        for (name, axis, op, form) in [
            ("rows", Axis::Row, ReduceOp::Add, Form::Complete),
            ("columns", Axis::Column, ReduceOp::Max, Form::Complete),
            ("all", Axis::All, ReduceOp::SumSquares, Form::Complete),
            ("row_partials", Axis::Row, ReduceOp::Add, Form::Partial),
            ("column_partials", Axis::Column, ReduceOp::Mul, Form::Partial),
        ] {
            let r = b.reduce(reduction(axis, op, form), accum);
            b.output(name, r, axis.result_class(), None);
        }
        let tree = b.finish().validate(F32).unwrap();
        let product = Product::exact(EXTENT, vec![1.0, -2.0, 3.0, 4.0, 5.0, -6.0]);
        let options = Options { tile: Some((1, 2)), ..Options::default() };
        let outputs = evaluate(&tree, std::slice::from_ref(&product), &[], options).unwrap();
        let values: Vec<_> = outputs.iter().map(|o| (o.shape.as_slice(), o.values.as_slice())).collect();
        assert_eq!(
            values,
            [
                (&[1, 2][..], &[2.0, 3.0][..]),
                (&[1, 3], &[4.0, 5.0, 3.0]),
                (&[1], &[91.0]),
                (&[1, 2, 2], &[-1.0, 9.0, 3.0, -6.0]),
                (&[1, 2, 3], &[1.0, -2.0, 3.0, 4.0, 5.0, -6.0]),
            ]
        );
        assert!(outputs.iter().all(|o| o.first_wrong(&o.values).is_none()));
        assert!(
            outputs.iter().all(|o| o.first_wrong(&o.values.iter().map(|x| x + 0.01).collect::<Vec<_>>()).is_some())
        );
        assert!(matches!(
            evaluate(&tree, std::slice::from_ref(&product), &[], Options::default()),
            Err(ReferenceError::Tile { name: "row_partials" })
        ));
    }

    /// A softmax of rows: each phase reads what the one before has reduced, before any rounding.
    #[test]
    fn reductions_are_values_of_the_next_phase() {
        let mut b = TreeBuilder::new("softmax", "a.rs");
        let accum = b.accum("accum");
        let largest = b.reduce(reduction(Axis::Row, ReduceOp::Max, Form::Complete), accum);
        let shifted = b.apply(Op::Sub, &[accum, largest]);
        let e = b.apply(Op::Exp, &[shifted]);
        let sum = b.reduce(reduction(Axis::Row, ReduceOp::Add, Form::Complete), e);
        let d = b.apply(Op::Div, &[e, sum]);
        b.output("d", d, BroadcastClass::Tensor, None);
        b.output("sum", sum, BroadcastClass::ColumnVector, Some(ElementType::BF16));
        let tree = b.finish().validate(F32).unwrap();
        let product = Product::exact(EXTENT, vec![0.0, 2f64.ln(), 0.0, 5.0, f64::NEG_INFINITY, 5.0]);
        let outputs = evaluate(&tree, std::slice::from_ref(&product), &[], Options::default()).unwrap();
        for (given, expected) in outputs[0].values.iter().zip([0.25, 0.5, 0.25, 0.5, 0.0, 0.5]) {
            assert!((given - expected).abs() < 1e-15, "{:?}", outputs[0].values);
        }
        assert_eq!(outputs[1].values, [2.0, 2.0]);
        assert!(outputs.iter().all(|o| o.first_wrong(&o.values).is_none()));
        let wrong: Vec<f64> = outputs[0].values.iter().map(|x| x * (1.0 + 1e-5)).collect();
        assert!(outputs[0].first_wrong(&wrong).is_some());
    }

    #[test]
    fn a_reduction_of_nothing_is_the_identity() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        for (name, op) in [("max", ReduceOp::Max), ("sum", ReduceOp::Add), ("product", ReduceOp::Mul)] {
            let r = b.reduce(reduction(Axis::Row, op, Form::Complete), accum);
            b.output(name, r, BroadcastClass::ColumnVector, None);
        }
        let bias = b.parameter("bias", ParameterClass::ColumnVector, None);
        let twice = b.apply(Op::Add, &[bias, bias]);
        b.output("twice", twice, BroadcastClass::ColumnVector, None);
        let tree = b.finish().validate(F32).unwrap();
        let extent = Extent { m: 2, n: 0, l: 1 };
        let bias = Array::packed(&[1.0, 2.0], BroadcastClass::ColumnVector, extent, false);
        let outputs =
            evaluate(&tree, &[Product::exact(extent, vec![])], &[Argument::Array(bias)], Options::default()).unwrap();
        let values: Vec<_> = outputs.iter().map(|o| o.values.as_slice()).collect();
        assert_eq!(values, [&[f64::NEG_INFINITY; 2][..], &[0.0; 2], &[1.0; 2], &[2.0, 4.0]]);
    }

    #[test]
    fn a_factor_of_zero_hides_what_it_multiplies() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let c = b.parameter("c", ParameterClass::Tensor, None);
        let beta = b.parameter("beta", ParameterClass::Scalar, None);
        let scaled = b.apply(Op::Mul, &[beta, c]);
        let d = b.apply(Op::Add, &[accum, scaled]);
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(F32).unwrap();
        let product = Product::exact(EXTENT, vec![1.0; 6]);
        let c = [f64::NAN, f64::INFINITY, 1.0, 2.0, 3.0, 4.0];
        let c = Argument::Array(Array::packed(&c, BroadcastClass::Tensor, EXTENT, false));
        let run = |beta: f64| {
            evaluate(&tree, std::slice::from_ref(&product), &[c, Argument::Scalar(beta)], Options::default()).unwrap()
        };
        let zero = &run(0.0)[0];
        assert_eq!(zero.values, [1.0; 6]);
        assert!(zero.bounds[0].admit(1.0) && !zero.bounds[0].admit(f64::NAN));
        let one = &run(1.0)[0];
        assert!(one.values[0].is_nan() && one.bounds[0].admit(f64::NAN) && !one.bounds[0].admit(1.0));
        assert_eq!(one.values[1..3], [f64::INFINITY, 2.0]);
    }

    /// f32 evaluation of the same formula lies within the bounds, even with much cancellation; an error of 2^-12 does
    /// not.
    #[test]
    fn bounds_hold_for_f32_and_are_narrow() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let third = b.literal(1.0 / 3.0);
        let x = b.apply(Op::Mul, &[accum, third]);
        let e = b.apply(Op::Exp, &[x]);
        let one = b.literal(1.0);
        let d = b.apply(Op::Sub, &[e, one]);
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(F32).unwrap();
        let values: Vec<f64> = (1..=600).map(|i| f64::from(i as f32 * 0.01)).collect();
        let extent = Extent { m: 1, n: values.len(), l: 1 };
        let output = &evaluate(&tree, &[Product::exact(extent, values.clone())], &[], Options::default()).unwrap()[0];
        #[expect(clippy::cast_possible_truncation)]
        let f32_results: Vec<f64> =
            values.iter().map(|&v| f64::from(crate::ops::exp(v as f32 * (1.0 / 3.0)) - 1.0)).collect();
        assert_eq!(output.first_wrong(&f32_results), None);
        let wrong: Vec<f64> = f32_results.iter().map(|x| x * (1.0 + 1.0 / 4096.0)).collect();
        assert!(wrong.iter().zip(&output.bounds).filter(|(x, b)| !b.admit(**x)).count() > 590);
    }

    #[test]
    fn selects_near_their_threshold_allow_both() {
        let mut b = TreeBuilder::new("e", "a.rs");
        let accum = b.accum("accum");
        let third = b.literal(1.0 / 3.0);
        let x = b.apply(Op::Mul, &[accum, third]);
        let one = b.literal(1.0);
        let ten = b.literal(10.0);
        let above = b.apply(Op::Ge, &[x, one]);
        let d = b.apply(Op::Select, &[above, ten, accum]);
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(F32).unwrap();
        let extent = Extent { m: 1, n: 2, l: 1 };
        let output = &evaluate(&tree, &[Product::exact(extent, vec![3.0, 3.1])], &[], Options::default()).unwrap()[0];
        assert!(output.bounds[0].admit(10.0) && output.bounds[0].admit(3.0));
        assert!(output.bounds[1].admit(10.0) && !output.bounds[1].admit(f64::from(3.1f32)));
    }

    #[test]
    fn products_are_exact_and_bounded() {
        let extent = Extent { m: 1, n: 2, l: 2 };
        let a = [1e8, 1.0, -1e8, 2.0, 0.0, f64::INFINITY];
        let b = [1e8, 1.0, 3.0, 1.0, 1e8, 1.0];
        let a = Array { values: &a, offset: 0, strides: [3, 3, 1] };
        let b = Array { values: &b, offset: 0, strides: [0, 2, 1] };
        let product = Product::new(F32, Multiplication::Exact, extent, 3, &a, &b).unwrap();
        assert_eq!(product.values, [3.0, 1.0, f64::INFINITY, f64::INFINITY]);
        assert!(product.errors[0] > 1e8 && product.errors[0] < 1e11);
        let short = Array { values: &[1.0], offset: 0, strides: [0, 2, 1] };
        assert!(matches!(
            Product::new(F32, Multiplication::Exact, extent, 3, &a, &short),
            Err(ReferenceError::Element { name: "b", .. })
        ));
    }
}
