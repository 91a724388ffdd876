//! Verifies loop programs between passes: checks what must hold for every program. A violation is a bug of a pass;
//! lowering then ends with [`TeError::Internal`], before a program with another meaning is run.

use std::collections::HashSet;

use super::device_call::CallArgument;
use super::program::Program;
use super::stmt::{AllReduce, Note, Stmt};
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::text::expression;

/// How an element of memory is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Indexing {
    /// By an index for each dimension: before flattening.
    PerDimension,
    /// By one index, or by one for each group of dimensions that are flattened together.
    Flat,
}

/// Checks a program. Every counter is used inside its loop, and every buffer where it is allocated, with the right
/// number of indices. Values have the type of the memory to which they are stored. Conditions are truth values. The
/// program contains no tensors any more.
pub(crate) fn verify(program: &Program, indexing: Indexing) -> Result<(), TeError> {
    let memory = program.arguments.iter().map(|(_, buffer)| buffer.clone()).collect();
    let mut verifier = Verifier { indexing, vars: HashSet::new(), threads: HashSet::new(), memory };
    let mut pending = vec![Step::Enter(&program.body)];
    while let Some(step) = pending.pop() {
        match step {
            Step::Enter(statement) => {
                verifier.own(statement).map_err(|what| TeError::Internal { what })?;
                if let Some(bound) = Bound::by(statement) {
                    verifier.bind(&bound).map_err(|what| TeError::Internal { what })?;
                    pending.push(Step::Leave(bound));
                }
                pending.extend(statement.children().into_iter().map(Step::Enter));
            }
            Step::Leave(bound) => verifier.unbind(&bound),
        }
    }
    Ok(())
}

enum Step<'a> {
    Enter(&'a Stmt),
    /// Everything inside has been visited.
    Leave(Bound),
}

/// A name that exists only inside a statement.
enum Bound {
    Counter(Var),
    Index(Thread, Var),
    Memory(Buffer),
}

impl Bound {
    fn by(statement: &Stmt) -> Option<Self> {
        match statement {
            Stmt::For { var, .. } | Stmt::Let { var, .. } => Some(Self::Counter(*var)),
            Stmt::Launch { thread, var, .. } => Some(Self::Index(*thread, *var)),
            Stmt::Allocate { buffer, .. } => Some(Self::Memory(buffer.clone())),
            _ => None,
        }
    }
}

struct Verifier {
    indexing: Indexing,
    vars: HashSet<Var>,
    threads: HashSet<Thread>,
    memory: HashSet<Buffer>,
}

impl Verifier {
    fn bind(&mut self, bound: &Bound) -> Result<(), String> {
        let fresh = match bound {
            Bound::Counter(var) => self.vars.insert(*var),
            // Virtual threads of several stages lie in each other.
            Bound::Index(Thread::Virtual, var) => self.vars.insert(*var),
            Bound::Index(thread, var) => self.threads.insert(*thread) && self.vars.insert(*var),
            Bound::Memory(buffer) => self.memory.insert(buffer.clone()),
        };
        let twice = || match bound {
            Bound::Counter(var) => format!("{} counts two loops, one inside the other", var.name()),
            Bound::Index(thread, _) => format!("{} is launched inside its own launch", thread.name()),
            Bound::Memory(buffer) => format!("{} is allocated inside its own allocation", buffer.name()),
        };
        if fresh { Ok(()) } else { Err(twice()) }
    }

    fn unbind(&mut self, bound: &Bound) {
        match bound {
            Bound::Counter(var) => {
                self.vars.remove(var);
            }
            Bound::Index(thread, var) => {
                self.threads.remove(thread);
                self.vars.remove(var);
            }
            Bound::Memory(buffer) => {
                self.memory.remove(buffer);
            }
        }
    }

    /// Checks the expressions of the statement itself, without the statements inside it.
    fn own(&self, statement: &Stmt) -> Result<(), String> {
        for x in statement.expressions() {
            self.expression(x)?;
        }
        match statement {
            Stmt::For { extent, .. } | Stmt::Launch { extent, .. } => match extent.dtype().is_integer() {
                true => Ok(()),
                false => Err(format!("the extent {} is of type {}", expression(extent), extent.dtype())),
            },
            Stmt::If { condition, .. } => is_condition(condition),
            Stmt::Let { var, value, .. } => has_type(value, var.dtype(), var.name()),
            Stmt::Store { buffer, indices, value } => {
                self.element(buffer, indices)?;
                has_type(value, buffer.dtype(), buffer.name())
            }
            Stmt::Prefetch { buffer, indices } => self.element(buffer, indices),
            Stmt::AllReduce(reduce) => self.all_reduce(reduce),
            Stmt::Note { note: Note::Call(call), .. } => {
                call.arguments.iter().try_for_each(|argument| match argument {
                    CallArgument::Pointer(buffer, indices) => self.element(buffer, indices),
                    CallArgument::Value(_) => Ok(()),
                })
            }
            Stmt::Allocate { buffer, .. } => buffer.shape().iter().try_for_each(|extent| self.expression(extent)),
            Stmt::Seq(_) | Stmt::Barrier | Stmt::Note { .. } => Ok(()),
        }
    }

    fn all_reduce(&self, reduce: &AllReduce) -> Result<(), String> {
        is_condition(&reduce.condition)?;
        if reduce.source.len() != reduce.results.len() {
            let (given, taken) = (reduce.source.len(), reduce.results.len());
            return Err(format!("a reduction over threads has {given} operands and {taken} results"));
        }
        for (value, result) in reduce.source.iter().zip(&reduce.results) {
            self.exists(result)?;
            has_type(value, result.dtype(), result.name())?;
        }
        Ok(())
    }

    fn exists(&self, buffer: &Buffer) -> Result<(), String> {
        match self.memory.contains(buffer) {
            true => Ok(()),
            false => Err(format!("{} is used outside of its allocation", buffer.name())),
        }
    }

    fn element(&self, buffer: &Buffer, indices: &[Expr]) -> Result<(), String> {
        self.exists(buffer)?;
        let needed = match self.indexing {
            Indexing::PerDimension => buffer.shape().len(),
            Indexing::Flat => buffer.groups().len(),
        };
        if indices.len() != needed {
            return Err(format!("{} has {} indices where it takes {needed}", buffer.name(), indices.len()));
        }
        match indices.iter().find(|index| !index.dtype().is_integer()) {
            Some(index) => Err(format!("{} has the index {}", buffer.name(), expression(index))),
            None => Ok(()),
        }
    }

    fn expression(&self, x: &Expr) -> Result<(), String> {
        let mut found = Ok(());
        x.visit(&mut |inner| {
            if found.is_ok() {
                found = self.node(inner);
            }
        });
        found
    }

    fn node(&self, x: &Expr) -> Result<(), String> {
        match x.kind() {
            Kind::Var(var) if var.is_counter() && !self.vars.contains(var) => {
                Err(format!("{} is used outside of what counts it", var.name()))
            }
            Kind::Load(buffer, indices) => {
                self.element(buffer, indices)?;
                has_type(x, buffer.dtype(), buffer.name())
            }
            Kind::Read(..) | Kind::Reduce(..) => Err(format!("{} is left of an expression", expression(x))),
            _ => Ok(()),
        }
    }
}

fn is_condition(x: &Expr) -> Result<(), String> {
    match x.dtype() == DType::Bool {
        true => Ok(()),
        false => Err(format!("the condition {} is of type {}", expression(x), x.dtype())),
    }
}

fn has_type(x: &Expr, dtype: DType, name: &str) -> Result<(), String> {
    match x.dtype() == dtype {
        true => Ok(()),
        false => Err(format!("{} of type {} is a value of {name}, which is of type {dtype}", expression(x), x.dtype())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te::expr::buffer::Scope;
    use crate::te::expr::expression::Binary;
    use crate::te::{self, LoopKind};

    /// A correct program that allocates memory.
    fn program() -> Program {
        let (a, k) = (te::placeholder([4, 8], "a"), te::reduce_axis((0, 8), "k"));
        let b = te::compute([4], "b", |[i]| te::sum(a.at([i, k]), [k])).unwrap();
        let c = te::compute([4], "c", |[i]| b.at([i]) * 2.0).unwrap();
        te::lower(&te::create_schedule(&[&c]), &[&a, &c], "main").unwrap()
    }

    /// The error that is found after a change of every statement in the program's body.
    fn found(change: &mut dyn FnMut(Stmt) -> Stmt) -> String {
        fn changed(statement: Stmt, change: &mut dyn FnMut(Stmt) -> Stmt) -> Stmt {
            let below = statement.map_children(&mut |child| changed(child, change));
            change(below)
        }
        let mut program = program();
        program.body = changed(program.body, change);
        match verify(&program, Indexing::Flat) {
            Err(TeError::Internal { what }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_passes_make_is_right() {
        assert_eq!(verify(&program(), Indexing::Flat), Ok(()));
    }

    #[test]
    fn memory_is_used_inside_its_allocation() {
        let out = found(&mut |statement| match statement {
            Stmt::Allocate { body, .. } => *body,
            other => other,
        });
        assert_eq!(out, "b is used outside of its allocation");
    }

    #[test]
    fn counters_are_used_inside_their_loops() {
        let out = found(&mut |statement| match statement {
            Stmt::For { body, .. } => *body,
            other => other,
        });
        assert!(out.ends_with("is used outside of what counts it"), "{out}");
        let twice = found(&mut |statement| match statement {
            Stmt::For { var, extent, kind, body } => {
                let inner = Stmt::For { var, extent: extent.clone(), kind, body };
                Stmt::For { var, extent, kind: LoopKind::Serial, body: Box::new(inner) }
            }
            other => other,
        });
        assert!(twice.ends_with("counts two loops, one inside the other"), "{twice}");
    }

    #[test]
    fn values_and_conditions_have_their_types() {
        let value = found(&mut |statement| match statement {
            Stmt::Store { buffer, indices, .. } => Stmt::Store { buffer, indices, value: Expr::int(1) },
            other => other,
        });
        assert!(value.starts_with("1 of type i32 is a value of "), "{value}");
        let condition = found(&mut |statement| match statement {
            store @ Stmt::Store { .. } => Stmt::If { condition: Expr::int(1), then: Box::new(store) },
            other => other,
        });
        assert_eq!(condition, "the condition 1 is of type i32");
    }

    #[test]
    fn elements_have_as_many_indices_as_their_memory() {
        let out = found(&mut |statement| match statement {
            Stmt::Store { buffer, value, .. } => Stmt::Store { buffer, indices: Vec::new(), value },
            other => other,
        });
        assert!(out.ends_with("has 0 indices where it takes 1"), "{out}");
    }

    #[test]
    fn nothing_is_left_of_tensors() {
        let a = te::placeholder([4], "a");
        let out = found(&mut |statement| match statement {
            Stmt::Store { buffer, indices, value } => {
                let value = Expr::binary(Binary::Add, value, a.at([0]));
                Stmt::Store { buffer, indices, value }
            }
            other => other,
        });
        assert!(out.ends_with("is left of an expression"), "{out}");
    }

    #[test]
    fn threads_are_launched_once() {
        let shared = Buffer::new("s", DType::F32, vec![Expr::int(1)], vec![Expr::int(1)], Scope::Local);
        let thread = Thread::Block(0);
        let var = || Var::of_thread("blockIdx.x", Some(thread));
        let launch = |body| Stmt::Launch { thread, var: var(), extent: Expr::int(2), body: Box::new(body) };
        let store = Stmt::Store { buffer: shared.clone(), indices: vec![Expr::int(0)], value: 0.0.into() };
        let inside = Stmt::Allocate { buffer: shared, body: Box::new(store) };
        let program = Program { body: launch(launch(inside)), ..program() };
        let error = verify(&program, Indexing::Flat).unwrap_err();
        assert!(error.to_string().contains("blockIdx.x is launched inside its own launch"), "{error}");
    }
}
