//! Splits a program between host and device: one launch for each outermost loop nest, host loops around launches, and
//! memory for data that passes between launches.
//!
//! A nest that is bound to no thread is a launch of one thread: this is what its schedule says.

use super::refusal::refuse;
use super::threads::{DeviceNest, device_nest};
use crate::te::error::TeError;
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::Stmt;

/// A program split between host and device.
#[derive(Debug)]
pub(super) struct SplitProgram {
    /// The steps of the host, in order.
    pub(super) steps: Vec<HostStep>,
    /// The launches; steps refer to them by number.
    pub(super) nests: Vec<DeviceNest>,
    /// Memory that the program allocates and that several launches use.
    pub(super) scratch: Vec<Buffer>,
}

/// One step of the host.
#[derive(Clone, Debug)]
pub(super) enum HostStep {
    /// `for var in 0..extent { body }`
    For {
        /// The counter.
        var: Var,
        /// The number of iterations.
        extent: Expr,
        /// The repeated steps.
        body: Vec<Self>,
    },
    /// `if condition { then }`
    If {
        /// The condition, on sizes and host counters.
        condition: Expr,
        /// The steps if it holds.
        then: Vec<Self>,
    },
    /// `let var = value; body`
    Let {
        /// The variable.
        var: Var,
        /// Its value.
        value: Expr,
        /// Where it holds.
        body: Vec<Self>,
    },
    /// A launch, by its number.
    Launch(usize),
}

pub(super) fn split(body: &Stmt) -> Result<SplitProgram, TeError> {
    let mut program = SplitProgram { steps: Vec::new(), nests: Vec::new(), scratch: Vec::new() };
    program.steps = program.host(body)?;
    Ok(program)
}

impl SplitProgram {
    fn host(&mut self, mut statement: &Stmt) -> Result<Vec<HostStep>, TeError> {
        // A chain of stages can nest hundreds of these.
        while let Stmt::Allocate { buffer, body } = statement
            && buffer.scope() == Scope::Global
        {
            if buffer.allocation().iter().any(depends_on_counter) {
                return Err(refuse(format!("memory of {} whose extent changes in a loop", buffer.name())));
            }
            self.scratch.push(buffer.clone());
            statement = body;
        }
        if !launches(statement) || matches!(statement, Stmt::Launch { .. }) {
            return if statement.is_empty() { Ok(Vec::new()) } else { Ok(vec![self.launch(statement)?]) };
        }
        match statement {
            Stmt::Seq(statements) => self.sequence(statements),
            Stmt::For { var, extent, body, .. } => {
                Ok(vec![HostStep::For { var: *var, extent: known(extent)?, body: self.host(body)? }])
            }
            Stmt::If { condition, then } => {
                Ok(vec![HostStep::If { condition: known(condition)?, then: self.host(then)? }])
            }
            Stmt::Let { var, value, body } => {
                Ok(vec![HostStep::Let { var: *var, value: known(value)?, body: self.host(body)? }])
            }
            Stmt::Allocate { buffer, .. } => {
                let (name, scope) = (buffer.name(), buffer.scope().name());
                Err(refuse(format!("{scope} memory of {name}, which several launches would share,")))
            }
            Stmt::Note { body, .. } => self.host(body),
            Stmt::Barrier | Stmt::Store { .. } | Stmt::AllReduce(_) | Stmt::Launch { .. } | Stmt::Prefetch { .. } => {
                Ok(Vec::new())
            }
        }
    }

    /// Makes one launch of neighbouring statements without threads.
    fn sequence(&mut self, statements: &[Stmt]) -> Result<Vec<HostStep>, TeError> {
        let mut steps = Vec::new();
        let mut single: Vec<Stmt> = Vec::new();
        for statement in statements {
            let owns_global = matches!(statement, Stmt::Allocate { buffer, .. } if buffer.scope() == Scope::Global);
            if !launches(statement) && !owns_global {
                single.push(statement.clone());
                continue;
            }
            if !single.is_empty() {
                steps.push(self.launch(&Stmt::sequence(single.drain(..)))?);
            }
            steps.extend(self.host(statement)?);
        }
        if !single.is_empty() {
            steps.push(self.launch(&Stmt::sequence(single))?);
        }
        Ok(steps)
    }

    fn launch(&mut self, statement: &Stmt) -> Result<HostStep, TeError> {
        self.nests.push(device_nest(statement)?);
        Ok(HostStep::Launch(self.nests.len() - 1))
    }
}

/// Checks that the host can evaluate an expression.
fn known(x: &Expr) -> Result<Expr, TeError> {
    let mut reads = None;
    x.visit(&mut |x| {
        if let Kind::Load(buffer, _) = x.kind() {
            reads = Some(buffer.name().to_owned());
        }
    });
    match reads {
        Some(name) => Err(refuse(format!("a loop around launches that depends on elements of {name}"))),
        None => Ok(x.clone()),
    }
}

fn depends_on_counter(x: &Expr) -> bool {
    let mut found = false;
    x.visit(&mut |x| found |= x.as_var().is_some_and(Var::is_counter));
    found
}

fn launches(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Launch { .. }) || statement.children().into_iter().any(launches)
}
