//! One launch: its grid and block, and the work of each thread.
//!
//! A block has as many threads as its largest stage is bound to. A stage that is bound to fewer threads, or to fewer
//! thread indices, is guarded by tests, so that each element is stored once. All threads of a block must reach barriers
//! and reductions over threads. So the guards of a statement around one move to the statements beside it. If that is
//! not possible, the program is refused.

use std::collections::{BTreeMap, HashSet};

use super::refusal::refuse;
use crate::te::arith::{equal, simplify};
use crate::te::error::TeError;
use crate::te::expr::buffer::Scope;
use crate::te::expr::expression::Expr;
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::{Note, Stmt};

/// The most threads of a block (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
const MAX_THREADS: i64 = 1024;

/// One launch.
#[derive(Debug)]
pub(super) struct DeviceNest {
    /// The extent of every thread and block index that is used. The host evaluates it.
    pub(super) extents: BTreeMap<Thread, Expr>,
    /// The variable of each.
    pub(super) vars: BTreeMap<Thread, Var>,
    /// The work of each thread. It contains no launches, and all threads of a block reach its barriers.
    pub(super) body: Stmt,
}

impl DeviceNest {
    /// The threads of a block along x, y and z, if all are constants.
    pub(super) fn block(&self) -> Option<[u32; 3]> {
        let mut block = [1; 3];
        for (thread, extent) in &self.extents {
            if let Thread::Thread(d) = thread {
                block[usize::from(*d).min(2)] = u32::try_from(extent.as_int()?).ok()?;
            }
        }
        Some(block)
    }
}

pub(super) fn device_nest(statement: &Stmt) -> Result<DeviceNest, TeError> {
    let mut pass = Pass { extents: BTreeMap::new(), vars: BTreeMap::new(), own: HashSet::new() };
    pass.measure(statement, true)?;
    let threads = pass.extents.iter().filter(|(thread, _)| matches!(thread, Thread::Thread(_)));
    let size = threads.map(|(_, extent)| extent.as_int()).try_fold(1i64, |n, extent| Some(n.saturating_mul(extent?)));
    if let Some(size) = size.filter(|size| *size > MAX_THREADS) {
        return Err(refuse(format!("a block of {size} threads (the most is {MAX_THREADS})")));
    }
    let body = pass.body(statement.clone(), &State::default())?;
    Ok(DeviceNest { extents: pass.extents, vars: pass.vars, body })
}

struct Pass {
    extents: BTreeMap<Thread, Expr>,
    vars: BTreeMap<Thread, Var>,
    /// The counters of loops inside the launch.
    own: HashSet<Var>,
}

/// The thread indices and conditions at a place in the program.
#[derive(Clone, Default)]
struct State {
    /// The thread indices that the stage is bound to.
    launched: Vec<Thread>,
    /// The conditions under which a thread does what follows.
    guards: Vec<Expr>,
}

impl Pass {
    /// Finds the extents. Blocks must be launched around everything else; threads may be launched anywhere inside.
    fn measure(&mut self, statement: &Stmt, outermost: bool) -> Result<(), TeError> {
        if let Stmt::Launch { thread, var, extent, .. } = statement {
            let block = matches!(thread, Thread::Block(_));
            if block && !outermost {
                let name = thread.name();
                return Err(refuse(format!(
                    "a loop bound to {name} inside a loop or beside another stage of a launch"
                )));
            }
            // A host loop's counter is known at the launch; a counter of the launch itself is not.
            let mut changes = extent.loads();
            extent.visit(&mut |x| changes |= x.as_var().is_some_and(|var| self.own.contains(&var)));
            if changes {
                return Err(refuse(format!("an extent of {} that changes inside the launch", thread.name())));
            }
            self.own.insert(*var);
            self.vars.entry(*thread).or_insert(*var);
            let larger = match self.extents.get(thread) {
                Some(known) if equal(known, extent) => known.clone(),
                Some(known) => simplify(&known.clone().max(extent)),
                None => extent.clone(),
            };
            self.extents.insert(*thread, larger);
        }
        if let Stmt::For { var, .. } | Stmt::Let { var, .. } = statement {
            self.own.insert(*var);
        }
        let chain =
            matches!(statement, Stmt::Launch { .. } | Stmt::Allocate { .. } | Stmt::Let { .. } | Stmt::Note { .. });
        statement.children().into_iter().try_for_each(|child| self.measure(child, outermost && chain))
    }

    fn body(&self, statement: Stmt, state: &State) -> Result<Stmt, TeError> {
        match statement {
            Stmt::Launch { thread, var, extent, body } => {
                let mut inner = state.clone();
                let canonical = self.vars.get(&thread).copied().unwrap_or(var);
                let body = if canonical == var {
                    *body
                } else {
                    body.map_expressions(&mut |x| x.substitute(&|v| (v == var).then(|| canonical.into())))
                };
                inner.launched.push(thread);
                let whole = self.extents.get(&thread).is_none_or(|whole| equal(whole, &extent));
                if !whole {
                    inner.guards.push(Expr::from(canonical).less(extent));
                }
                self.body(body, &inner)
            }
            Stmt::Seq(statements) => {
                let parts: Vec<Stmt> = statements.into_iter().map(|s| self.body(s, state)).collect::<Result<_, _>>()?;
                Ok(Stmt::sequence(parts))
            }
            Stmt::Allocate { buffer, body } => Ok(Stmt::Allocate { buffer, body: Box::new(self.body(*body, state)?) }),
            Stmt::Barrier => Ok(Stmt::Barrier),
            Stmt::AllReduce(mut reduce) => {
                if let Some(guards) = state.guards.iter().cloned().reduce(|a, b| a.and(b)) {
                    reduce.condition = simplify(&guards.and(reduce.condition));
                }
                Ok(Stmt::AllReduce(reduce))
            }
            whole if self.is_plain(&whole) => Ok(self.guarded(whole, state)),
            Stmt::For { var, extent, kind, body } => {
                self.require_uniform(&extent, &body)?;
                Ok(Stmt::For { var, extent, kind, body: Box::new(self.body(*body, state)?) })
            }
            Stmt::Let { var, value, body } => Ok(Stmt::Let { var, value, body: Box::new(self.body(*body, state)?) }),
            Stmt::If { condition, then } if !synchronises(&then) || !self.varies(&condition) => {
                Ok(Stmt::If { condition, then: Box::new(self.body(*then, state)?) })
            }
            Stmt::If { condition, then } => {
                if condition.loads() {
                    return Err(refuse("a barrier or a reduction over threads under a test on elements".to_owned()));
                }
                let mut inner = state.clone();
                inner.guards.push(condition);
                self.body(*then, &inner)
            }
            Stmt::Note { note: Note::Call(call), .. } => Err(refuse(format!(
                "a call of {} that is guarded and writes both a thread's own memory and others'",
                call.function.name()
            ))),
            Stmt::Note { note, body } => Ok(Stmt::Note { note, body: Box::new(self.body(*body, state)?) }),
            Stmt::Store { .. } | Stmt::Prefetch { .. } => Ok(self.guarded(statement, state)),
        }
    }

    /// Whether the statement can be guarded as a whole: it contains no launches or barriers, and its stores are either
    /// all to private memory of threads or all to other memory.
    fn is_plain(&self, statement: &Stmt) -> bool {
        let (mut own, mut others) = (false, false);
        stores(statement, &mut |scope| if scope == Scope::Local { own = true } else { others = true });
        let divided = own && others;
        !(divided || synchronises(statement) || launches(statement))
    }

    fn guarded(&self, statement: Stmt, state: &State) -> Stmt {
        let mut shares = false;
        stores(&statement, &mut |scope| shares |= scope != Scope::Local);
        let mut guards = state.guards.clone();
        if shares {
            // One thread for all values of an index that the stage is not bound to.
            let idle = self.vars.iter().filter(|(thread, _)| !state.launched.contains(thread));
            guards.extend(idle.map(|(_, var)| var.equal(0)));
        }
        guards.into_iter().rev().fold(statement, |then, condition| Stmt::If { condition, then: Box::new(then) })
    }

    /// Checks that a loop around a barrier has the same number of iterations in all threads.
    fn require_uniform(&self, extent: &Expr, body: &Stmt) -> Result<(), TeError> {
        if synchronises(body) && self.varies(extent) {
            return Err(refuse("a barrier or a reduction over threads in a loop that threads leave apart".to_owned()));
        }
        Ok(())
    }

    /// Whether its value may differ between threads of a block.
    fn varies(&self, x: &Expr) -> bool {
        let mut varies = x.loads();
        x.visit(&mut |x| {
            let Some(var) = x.as_var() else { return };
            varies |= self.vars.iter().any(|(thread, known)| matches!(thread, Thread::Thread(_)) && *known == var);
        });
        varies
    }
}

fn synchronises(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Barrier | Stmt::AllReduce(_)) || statement.children().into_iter().any(synchronises)
}

fn launches(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Launch { .. }) || statement.children().into_iter().any(launches)
}

fn stores(statement: &Stmt, f: &mut dyn FnMut(Scope)) {
    if let Stmt::Store { buffer, .. } = statement {
        f(buffer.scope());
    }
    statement.children().into_iter().for_each(|child| stores(child, f));
}
