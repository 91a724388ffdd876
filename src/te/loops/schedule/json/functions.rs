//! Reads elementwise functions. Each different one is kept as long as the process lives.

use std::sync::{LazyLock, Mutex};

use super::document::{Body, JsonStep};
use super::known::{KnownNodes, number};
use super::names::{Name, Named};
use super::{limits, mistake};
use crate::expr::{ExprId, Function, FunctionBuilder, Op};
use crate::sync::lock;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::var::interned;

/// A function that was read.
#[derive(Clone, Copy)]
pub(super) struct Called {
    pub(super) function: &'static Function,
    /// The depth of function calls.
    calls: usize,
}

impl Called {
    pub(super) fn read(
        known: &KnownNodes<Self>,
        name: &str,
        parameters: &[String],
        body: &Body,
        cuda: Option<&str>,
    ) -> Result<Self, TeError> {
        let name = kept_name(name)?;
        let parameters = parameters.iter().map(|name| kept_name(name)).collect::<Result<Vec<_>, _>>()?;
        let (mut calls, mut size) = (1, 1);
        let function = match body {
            Body::Primitive { op: Name(op) } => {
                if op.arity() != parameters.len() || op.is_comparison() || *op == Op::Select {
                    let given = parameters.len();
                    return Err(mistake(format!("`{}` is not a function of {given} numbers", Named::name(*op))));
                }
                Function::primitive(name, &parameters, *op)
            }
            Body::Expression { steps, names, root } => {
                for step in steps {
                    if let JsonStep::Call { call, .. } = step {
                        calls = calls.max(known.get(*call)?.calls + 1);
                    }
                }
                limits::CALLS.check(calls)?;
                let function = expression(known, name, &parameters, (steps, names, *root))?;
                size = steps.len().max(function.operations());
                limits::STEPS.check(size)?;
                function
            }
        };
        let function = match cuda {
            None => function,
            Some(cuda) => function.with_cuda(kept_name(cuda)?),
        };
        Ok(Self { function: kept(function, size)?, calls })
    }
}

fn expression(
    known: &KnownNodes<Called>,
    name: &'static str,
    parameters: &[&'static str],
    (steps, names, root): (&[JsonStep], &[Option<String>], usize),
) -> Result<Function, TeError> {
    let mut builder = FunctionBuilder::new(name);
    // Each step, and whether it is a truth value.
    let mut made: Vec<(ExprId, bool)> = Vec::new();
    let mut given = 0;
    for step in steps {
        let wrong = |why: String| mistake(format!("step {} of `{name}`: {why}", made.len()));
        // Numbers; the first operand of a choice is a truth value.
        let take = |places: &[usize], count: usize, choice: bool| {
            if places.len() != count {
                return Err(wrong(format!("it has {} operands, and needs {count}", places.len())));
            }
            let take = |(operand, place): (usize, &usize)| {
                let fits = |(_, truth): &&(ExprId, bool)| *truth == (choice && operand == 0);
                let unfit = || wrong(format!("step {place} is not before it, or not of the type that it takes"));
                made.get(*place).filter(fits).map(|(id, _)| *id).ok_or_else(unfit)
            };
            places.iter().enumerate().map(take).collect::<Result<Vec<ExprId>, TeError>>()
        };
        let next = match step {
            JsonStep::Parameter { parameter } => {
                let unordered = || wrong(format!("parameter {parameter} is not the next one of {}", parameters.len()));
                let parameter = parameters.get(given).filter(|_| *parameter == given).ok_or_else(unordered)?;
                given += 1;
                (builder.parameter(parameter), false)
            }
            JsonStep::Literal { literal } => (builder.literal(number(literal)?), false),
            JsonStep::Apply { apply: Name(op), operands } => {
                let operands = take(operands, op.arity(), *op == Op::Select)?;
                (builder.apply(*op, &operands), op.is_comparison())
            }
            JsonStep::Call { call, operands } => {
                let function = known.get(*call)?.function;
                (builder.call(function, &take(operands, function.parameters().len(), false)?), false)
            }
            JsonStep::Cast { cast: Name(DType::Number(element)), operands } => {
                (builder.cast(*element, take(operands, 1, false)?[0]), false)
            }
            JsonStep::Cast { cast: Name(DType::Bool), .. } => {
                return Err(wrong("a number is not rounded to `bool`".to_owned()));
            }
        };
        made.push(next);
    }
    if names.len() > made.len() {
        return Err(mistake(format!("`{name}` has {} steps, but {} names", made.len(), names.len())));
    }
    for (name, (id, _)) in names.iter().zip(&made) {
        if let Some(name) = name {
            builder.name(*id, kept_name(name)?);
        }
    }
    let root = made.get(root).filter(|(_, truth)| !truth && given == parameters.len());
    let (root, _) = root.ok_or_else(|| mistake(format!("`{name}` has no result, or not all its parameters")))?;
    Ok(builder.finish(*root))
}

/// A function's name lives as long as the process.
fn kept_name(text: &str) -> Result<&'static str, TeError> {
    interned(text).ok_or_else(|| mistake("this process has read too many different names of functions".to_owned()))
}

/// How many different functions are kept.
const MOST_FUNCTIONS: usize = 1 << 12;

/// How many steps they may have together.
const MOST_STEPS: usize = 1 << 20;

/// Functions live as long as the process; each different one is kept once.
fn kept(function: Function, steps: usize) -> Result<&'static Function, TeError> {
    #[derive(Default)]
    struct Kept {
        all: Vec<&'static Function>,
        steps: usize,
    }
    static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);
    let mut kept = lock(&KEPT);
    if let Some(known) = kept.all.iter().find(|known| ***known == function) {
        return Ok(known);
    }
    if kept.all.len() >= MOST_FUNCTIONS || kept.steps + steps > MOST_STEPS {
        return Err(mistake(format!(
            "this process keeps the functions that it has read, up to {MOST_FUNCTIONS} different ones of {MOST_STEPS} \
             steps together: no other is read"
        )));
    }
    let leaked: &'static Function = Box::leak(Box::new(function));
    kept.all.push(leaked);
    kept.steps += steps;
    Ok(leaked)
}
