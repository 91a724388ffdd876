//! Compiles a reduction's expressions to steps.

use super::fold_memory::Combine;
use super::program::{Program, class_of};
use super::reused::ReusedValue;
use crate::expr::Op;
use crate::lane::{LaneStep, Operation, Register};
use crate::te::auto::bind::arguments::Sizes;
use crate::te::auto::pattern::fused::{Pass, Reduction};
use crate::te::error::TeError;
use crate::te::expr::expression::Expr;

/// The steps that compute some outputs, and the number and register of each.
pub(in crate::te::auto) struct Results {
    pub(in crate::te::auto) steps: Vec<LaneStep>,
    pub(in crate::te::auto) results: Vec<(usize, Register)>,
}

impl Results {
    /// The registers of the outputs.
    pub(in crate::te::auto) fn registers(&self) -> Vec<Register> {
        self.results.iter().map(|(_, register)| *register).collect()
    }
}

/// Steps, and the registers of their results.
pub(in crate::te::auto) type Part = (Vec<LaneStep>, Vec<Register>);

/// The compiled parts of a reduction.
pub(in crate::te::auto) struct ReductionCode {
    /// The values of a point.
    pub(in crate::te::auto) source: (Vec<LaneStep>, Vec<Register>),
    /// Whether a point counts; `None` if every point does.
    pub(in crate::te::auto) condition: Option<Register>,
    /// Combines `left` with a point.
    pub(in crate::te::auto) accumulate: Part,
    /// The operation that combines each value of `left` with the point's, if each value is combined separately by one
    /// operation.
    pub(in crate::te::auto) combines: Option<Vec<Combine>>,
    /// Whether the results of `accumulate` may replace the registers of `left`.
    pub(in crate::te::auto) replaces: bool,
    /// Whether the steps of `source` and `accumulate` never fail, for any operands.
    pub(in crate::te::auto) never_fails: bool,
    /// Combines `left` with `right`.
    pub(in crate::te::auto) merge: Part,
    pub(in crate::te::auto) left: Vec<Register>,
    pub(in crate::te::auto) right: Vec<Register>,
    pub(in crate::te::auto) identity: Part,
    pub(in crate::te::auto) init: Option<Part>,
    pub(in crate::te::auto) finish: Results,
    /// The outputs that are computed from every point and its total.
    pub(in crate::te::auto) apply: Option<Results>,
}

/// Lets the variables of a pass's totals stand for the registers that hold them in the end. Call it before what uses totals
/// is compiled: the indices and conditions of reads, and [`ReductionCode`].
pub(in crate::te::auto) fn name_totals(program: &mut Program, pass: &Pass) {
    for (total, left) in pass.total.iter().zip(&pass.left) {
        let register = program.variable(*left);
        program.bind(*total, register);
    }
}

impl ReductionCode {
    /// The totals must have [names](name_totals).
    pub(in crate::te::auto) fn new(
        program: &mut Program,
        reduction: &Reduction,
        pass: &Pass,
        sizes: &Sizes,
        reused: Option<&ReusedValue>,
    ) -> Result<Self, TeError> {
        let values = |program: &mut Program, all: &[Expr]| -> Result<Vec<Register>, TeError> {
            all.iter().map(|x| program.value(x, sizes)).collect()
        };
        let always = pass.condition.as_int() == Some(1);
        let condition = if always { None } else { Some(program.value(&pass.condition, sizes)?) };
        let point = values(program, &pass.source)?;
        let source = (program.take_steps(), point.clone());
        let left: Vec<Register> = pass.left.iter().map(|var| program.variable(*var)).collect();
        // Once with a point in place of `right`, once with separate registers.
        for (var, register) in pass.right.iter().zip(&point) {
            program.bind(*var, *register);
        }
        let accumulate = values(program, &pass.result)?;
        let accumulate = program.apart(&accumulate);
        let accumulate = (program.take_steps(), accumulate);
        let combines = condition.is_none().then(|| combines(&accumulate, &left, &point)).flatten();
        let replaces = condition.is_none() && are_results_of_steps(&accumulate);
        let never_fails = source.0.iter().chain(&accumulate.0).all(|step| !step.may_fail());
        let right: Vec<Register> = pass.right.iter().map(|var| program.register(class_of(var.dtype()))).collect();
        for (var, register) in pass.right.iter().zip(&right) {
            program.bind(*var, *register);
        }
        let merge = values(program, &pass.result)?;
        let merge = program.apart(&merge);
        let merge = (program.take_steps(), merge);
        let identity = values(program, &pass.identity)?;
        let identity = (program.take_steps(), identity);
        let init = values(program, &pass.init)?;
        let init = (!init.is_empty()).then_some((program.take_steps(), init));
        let mut results = |of_point: bool| -> Result<Results, TeError> {
            let mut results = Vec::new();
            for (place, output) in reduction.outputs.iter().enumerate().filter(|(_, o)| o.of_point == of_point) {
                let reused = reused.and_then(|reused| reused.values.iter().find(|(of, _)| *of == place));
                let value = reused.map_or(&output.value, |(_, value)| value);
                results.push((place, program.value(value, sizes)?));
            }
            Ok(Results { steps: program.take_steps(), results })
        };
        let finish = results(false)?;
        let apply = if reduction.applies() { Some(results(true)?) } else { None };
        Ok(Self {
            source,
            condition,
            accumulate,
            combines,
            replaces,
            never_fails,
            merge,
            left,
            right,
            identity,
            init,
            finish,
            apply,
        })
    }
}

/// Products that are added.
impl ReductionCode {
    /// Lets a product and the addition of it to a total, if nothing else needs the product, be one operation, which rounds
    /// once.
    pub(super) fn round_products_once(&mut self) {
        let Self { source: (source, points), accumulate: (accumulate, results), condition, .. } = self;
        for at in 0..accumulate.len() {
            let sum = accumulate[at];
            let &[a, b] = sum.operands() else { continue };
            if sum.operation != Operation::Apply(Op::Add) || !sum.to.class.is_float() {
                continue;
            }
            let is_alone = |x: Register| {
                let steps = source.iter().chain(accumulate.iter()).flat_map(LaneStep::operands);
                steps.chain(results.iter()).chain(condition.iter()).filter(|used| **used == x).count() == 1
            };
            let product = |x: Register| {
                let is_it = |step: &LaneStep| step.to == x && step.operation == Operation::Apply(Op::Mul);
                source.iter().position(is_it).filter(|_| is_alone(x))
            };
            let Some((place, rest)) = product(b).map(|place| (place, a)).or_else(|| Some((product(a)?, b))) else {
                continue;
            };
            let product = source.remove(place);
            points.retain(|point| *point != product.to);
            points.extend(product.operands());
            let &[x, y] = product.operands() else { continue };
            accumulate[at] = LaneStep::new(Operation::Apply(Op::Fma), sum.to, &[x, y, rest]);
            self.combines = None;
        }
    }
}

/// The operations that combine each value of `left` with the same value of a point, if nothing else is done.
fn combines((steps, results): &Part, left: &[Register], point: &[Register]) -> Option<Vec<Combine>> {
    if steps.len() != results.len() {
        return None;
    }
    let own = |((step, result), (left, point)): ((&LaneStep, &Register), (&Register, &Register))| match step.operands()
    {
        [a, b] if step.to == *result && ((a, b) == (left, point) || (a, b) == (point, left)) => {
            Combine::of(step.operation)
        }
        _ => None,
    };
    steps.iter().zip(results).zip(left.iter().zip(point)).map(own).collect()
}

/// Whether the results are different registers that only these steps write.
fn are_results_of_steps((steps, results): &Part) -> bool {
    let distinct = results.iter().enumerate().all(|(i, result)| !results[..i].contains(result));
    distinct && results.iter().all(|result| steps.iter().any(|step| step.to == *result))
}
