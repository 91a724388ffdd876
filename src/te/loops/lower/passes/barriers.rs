//! Places barriers: if one thread writes an element and another thread of its block reads or writes
//! it, all threads wait for each other in between. The pass runs before indices are flattened.
//!
//! The pass walks a program in order and records the accesses to shared memory since the last barrier. An access needs
//! a barrier before it if it may touch an element that *another* thread touched, and one of the two writes. The end of
//! a loop's body is followed by its beginning. Two accesses are made by the same thread if an index that both have
//! determines the thread: `B[row]` is written and read by the thread of that row.
//!
//! Blocks have no barrier between them: a launch in which one block needs what another wrote is refused.

use std::collections::{BTreeMap, HashMap};

use crate::te::arith::{Linear, simplify};
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::outside::is_nowhere;
use crate::te::loops::ir::stmt::Stmt;
use crate::te::text::expression;

/// Adds the barriers that a program's launches need. `circular` is memory whose places along a dimension belong to
/// other elements in other iterations of a loop.
pub(crate) fn place_barriers(mut statement: Stmt, circular: Vec<(Buffer, usize)>) -> Result<Stmt, TeError> {
    let mut pass = Barriers { circular, ..Barriers::default() };
    loop_extents(&statement, &mut pass.extents);
    pass.walk(&mut statement, &mut Vec::new())?;
    check_reached(&statement, None)?;
    Ok(statement)
}

/// # Errors
/// [`LoweringError::DivergentBarrier`] for a barrier that only some threads of a block reach. `condition` is the
/// surrounding condition, or the loop extent, that depends on the thread.
fn check_reached(statement: &Stmt, condition: Option<&Expr>) -> Result<(), TeError> {
    let of_thread = |var: Var| matches!(var.thread(), Some(Thread::Thread(_)));
    let condition = match statement {
        Stmt::If { condition: own, .. } | Stmt::For { extent: own, .. } => {
            condition.or_else(|| own.contains(|x| x.as_var().is_some_and(of_thread)).then_some(own))
        }
        Stmt::Barrier => {
            let refuse = |condition| Err(LoweringError::DivergentBarrier { condition: expression(condition) }.into());
            return condition.map_or(Ok(()), refuse);
        }
        _ => condition,
    };
    statement.children().into_iter().try_for_each(|child| check_reached(child, condition))
}

/// A read or write of memory that several threads can access.
#[derive(Clone, Debug)]
struct Access {
    buffer: Buffer,
    /// The indices, in terms of one variable for each thread index.
    indices: Vec<Expr>,
    writes: bool,
    /// The thread and block indices for which it is done, with their extents. For other indices it is done once.
    threads: BTreeMap<Thread, Expr>,
}

fn renamed(accesses: &mut [Access], from: Var, to: Var) {
    let rename = |x: &Expr| x.substitute(&|var| (var == from).then(|| to.into()));
    accesses.iter_mut().for_each(|access| access.indices = access.indices.iter().map(rename).collect());
}

/// A thread index that is known to be 0, because of a test.
#[derive(Clone, Copy)]
struct FirstOnly {
    index: Var,
    /// Whether other threads may nevertheless read shared memory. If only registers are written under the test, a
    /// compiler lets every thread read; threads that fail the test discard the value.
    others_may_read: bool,
}

/// Whether it writes memory that is not private to a thread.
fn stores(statement: &Stmt) -> bool {
    match statement {
        Stmt::Store { buffer, .. } => buffer.scope() != Scope::Local,
        Stmt::AllReduce(_) => true,
        _ => statement.children().into_iter().any(stores),
    }
}

fn loop_extents(statement: &Stmt, extents: &mut HashMap<Var, Expr>) {
    if let Stmt::For { var, extent, .. } | Stmt::Launch { thread: Thread::Virtual, var, extent, .. } = statement {
        extents.insert(*var, extent.clone());
    }
    statement.children().into_iter().for_each(|child| loop_extents(child, extents));
}

#[derive(Clone, Default)]
struct Barriers {
    /// The launches in scope.
    launched: Vec<(Thread, Var, Expr)>,
    /// The first variable found for each thread index; it replaces other variables of the same index.
    canonical: BTreeMap<Thread, Var>,
    /// The extent of every loop.
    extents: HashMap<Var, Expr>,
    /// Counters that stand for the next iteration of a loop, mapped to the loop's own counter.
    earlier: HashMap<Var, Var>,
    /// The counters of the loops that are being walked: they have one value in all accesses that are compared.
    open: Vec<Var>,
    circular: Vec<(Buffer, usize)>,
    /// The thread indices that a test restricts to the value 0 here.
    first_only: Vec<FirstOnly>,
}

impl Barriers {
    /// Puts barriers into a statement. It calls itself at every level of nesting, so it must use little of the stack.
    fn walk(&mut self, statement: &mut Stmt, pending: &mut Vec<Access>) -> Result<(), TeError> {
        match statement {
            Stmt::Seq(statements) => {
                let statements = std::mem::take(statements);
                *statement = self.sequence(statements, pending)?;
                Ok(())
            }
            Stmt::For { var, body, .. } => self.cycle(body, *var, pending),
            // One thread does the work of its virtual threads, each statement for all of them. So a later access never
            // meets an earlier one of the same virtual thread only.
            Stmt::Launch { thread: Thread::Virtual, body, .. }
            | Stmt::Note { body, .. }
            | Stmt::Allocate { body, .. } => self.walk(body, pending),
            Stmt::Launch { thread, var, extent, body } => self.launch((*thread, *var, extent), body, pending),
            Stmt::Barrier => {
                pending.clear();
                Ok(())
            }
            Stmt::Prefetch { .. } => Ok(()),
            Stmt::Store { .. } | Stmt::AllReduce(_) => {
                pending.extend(self.of_leaf(statement));
                Ok(())
            }
            Stmt::If { condition, then } => {
                pending.extend(self.reads(condition));
                self.under(condition, stores(then), |this| this.walk(then, pending))
            }
            Stmt::Let { value, body, .. } => {
                pending.extend(self.reads(value));
                self.walk(body, pending)
            }
        }
    }

    fn sequence(&mut self, statements: Vec<Stmt>, pending: &mut Vec<Access>) -> Result<Stmt, TeError> {
        let mut result = Vec::with_capacity(statements.len());
        for mut statement in statements {
            if self.in_launch() && self.conflict(pending, &self.first(&statement))? {
                pending.clear();
                result.push(Stmt::Barrier);
            }
            self.walk(&mut statement, pending)?;
            result.push(statement);
        }
        Ok(Stmt::sequence(result))
    }

    fn launch(
        &mut self,
        (thread, var, extent): (Thread, Var, &Expr),
        body: &mut Stmt,
        pending: &mut Vec<Access>,
    ) -> Result<(), TeError> {
        let outermost = !self.in_launch();
        if outermost {
            // A launch begins after everything before it has finished.
            pending.clear();
            self.canonical.clear();
        }
        self.canonical.entry(thread).or_insert(var);
        self.launched.push((thread, var, extent.clone()));
        let done = self.walk(body, pending);
        self.launched.pop();
        if outermost {
            pending.clear();
        }
        done
    }

    /// A loop's body: accesses that an iteration leaves without a barrier are compared with the next iteration.
    fn cycle(&mut self, body: &mut Stmt, var: Var, pending: &mut Vec<Access>) -> Result<(), TeError> {
        // Accesses of an earlier loop with this counter have other values of it.
        let other = self.another_iteration(var);
        renamed(pending, var, other);
        self.open.push(var);
        let mut end = Vec::new();
        let mut walked = self.walk(body, pending);
        if walked.is_ok() && self.in_launch() {
            walked = self.walk(&mut body.clone(), &mut end);
        }
        self.open.pop();
        walked?;
        if !self.in_launch() {
            return Ok(());
        }
        // The counter of the next iteration is another variable: indices there differ from those of this iteration.
        let next = self.another_iteration(var);
        let mut beginning = self.first(body);
        renamed(&mut beginning, var, next);
        if self.conflict(&end, &beginning)? {
            pending.clear();
            *body = Stmt::sequence([std::mem::replace(body, Stmt::Seq(Vec::new())), Stmt::Barrier]);
        }
        Ok(())
    }

    /// A variable for the value of a counter in another iteration.
    fn another_iteration(&mut self, var: Var) -> Var {
        let other = var.another();
        self.extents.extend(self.extents.get(&var).cloned().map(|extent| (other, extent)));
        self.earlier.insert(other, var);
        other
    }

    /// Calls `f` for a part that is done only if a condition holds. `stores` tells whether that part stores.
    fn under<R>(&mut self, condition: &Expr, stores: bool, f: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.first_only.len();
        let chosen = self.chosen(condition).into_iter();
        self.first_only.extend(chosen.map(|index| FirstOnly { index, others_may_read: !stores }));
        let made = f(self);
        self.first_only.truncate(before);
        made
    }

    /// The thread indices for which a condition allows only 0: `t == 0`, or a sum that must be smaller than one step of
    /// the index.
    fn chosen(&self, condition: &Expr) -> Vec<Var> {
        condition.conjuncts().into_iter().flat_map(|test| self.chosen_by(test)).collect()
    }

    fn chosen_by(&self, test: &Expr) -> Vec<Var> {
        match test.kind() {
            Kind::Binary(Binary::Eq, a, b) if b.as_int() == Some(0) => {
                a.as_var().filter(|var| var.thread().is_some()).into_iter().collect()
            }
            Kind::Binary(Binary::Lt, a, b) => {
                let (sum, end) = (Linear::of(&simplify(a)), b.as_int());
                let is_counted =
                    |(atom, step): &(Expr, i64)| atom.as_var().is_some_and(|var| self.counts(var)) && *step > 0;
                let Some(left) = end.map(|end| end - sum.constant).filter(|_| sum.terms.iter().all(is_counted)) else {
                    return Vec::new();
                };
                let too_far = sum.terms.iter().filter(|(_, step)| *step >= left).filter_map(|(atom, _)| atom.as_var());
                too_far.filter(|var| var.thread().is_some()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether a variable belongs to a loop or a launch; these count from 0.
    fn counts(&self, var: Var) -> bool {
        self.extents.contains_key(&var) || self.launched.iter().any(|(_, launched, _)| *launched == var)
    }

    fn in_launch(&self) -> bool {
        !self.launched.is_empty()
    }

    /// The accesses of a statement up to its first barrier.
    fn first(&self, statement: &Stmt) -> Vec<Access> {
        let mut found = Vec::new();
        self.clone().collect(statement, &mut found);
        found
    }

    /// Adds a statement's accesses. Tells whether it has no barrier on the way through.
    fn collect(&mut self, statement: &Stmt, found: &mut Vec<Access>) -> bool {
        match statement {
            Stmt::Seq(statements) => statements.iter().all(|s| self.collect(s, found)),
            Stmt::Barrier => false,
            Stmt::For { body, .. }
            | Stmt::Allocate { body, .. }
            | Stmt::Note { body, .. }
            | Stmt::Launch { thread: Thread::Virtual, body, .. } => self.collect(body, found),
            Stmt::Prefetch { .. } => true,
            Stmt::Launch { thread, var, extent, body } => {
                self.canonical.entry(*thread).or_insert(*var);
                self.launched.push((*thread, *var, extent.clone()));
                let through = self.collect(body, found);
                self.launched.pop();
                through
            }
            Stmt::If { condition, then } => {
                found.extend(self.reads(condition));
                self.under(condition, stores(then), |this| this.collect(then, found))
            }
            Stmt::Let { value, body, .. } => {
                found.extend(self.reads(value));
                self.collect(body, found)
            }
            Stmt::Store { .. } | Stmt::AllReduce(_) => {
                found.extend(self.of_leaf(statement));
                true
            }
        }
    }

    fn of_leaf(&self, leaf: &Stmt) -> Vec<Access> {
        let mut found = Vec::new();
        for expression in leaf.expressions() {
            found.extend(self.reads(expression));
        }
        match leaf {
            Stmt::Store { buffer, indices, .. } => found.extend(self.access(buffer, indices, true)),
            Stmt::AllReduce(reduce) => {
                found.extend(reduce.results.iter().filter_map(|buffer| self.access(buffer, &[Expr::int(0)], true)));
            }
            _ => {}
        }
        found
    }

    fn reads(&self, x: &Expr) -> Vec<Access> {
        let mut found = Vec::new();
        x.visit(&mut |x| {
            if let Kind::Load(buffer, indices) = x.kind()
                && !is_nowhere(indices)
            {
                found.extend(self.access(buffer, indices, false));
            }
        });
        found
    }

    /// An access, if several threads can access the memory.
    fn access(&self, buffer: &Buffer, indices: &[Expr], writes: bool) -> Option<Access> {
        if buffer.scope() == Scope::Local || !self.in_launch() {
            return None;
        }
        let replace = |var: Var| {
            let (thread, ..) = self.launched.iter().find(|(_, launched, _)| *launched == var)?;
            self.canonical.get(thread).map(|var| Expr::from(*var))
        };
        let is_speculative = !writes && buffer.scope() != Scope::Global;
        let is_first = |var: Var| {
            self.first_only.iter().any(|first| first.index == var && !(is_speculative && first.others_may_read))
        };
        let extent = |(thread, var, extent): &(Thread, Var, Expr)| {
            (*thread, if is_first(*var) { Expr::int(1) } else { extent.clone() })
        };
        Some(Access {
            buffer: buffer.clone(),
            indices: indices.iter().map(|x| x.substitute(&replace)).collect(),
            writes,
            threads: self.launched.iter().map(extent).collect(),
        })
    }

    /// Whether a barrier is needed between accesses and later ones.
    fn conflict(&self, earlier: &[Access], later: &[Access]) -> Result<bool, TeError> {
        let mut needed = false;
        for a in earlier {
            for b in later.iter().filter(|b| b.buffer == a.buffer && (a.writes || b.writes) && !self.apart(a, b)) {
                if a.buffer.scope() == Scope::Global && !self.same(a, b, |thread| matches!(thread, Thread::Block(_))) {
                    return Err(TeError::Lowering(LoweringError::AcrossBlocks { tensor: a.buffer.name().to_owned() }));
                }
                needed |= !self.same(a, b, |thread| matches!(thread, Thread::Thread(_)));
            }
        }
        Ok(needed)
    }

    /// Whether two accesses never touch the same element, because one index always differs. An example are the halves
    /// `i % 2` and `(i + 1) % 2` of memory in one iteration.
    fn apart(&self, a: &Access, b: &Access) -> bool {
        let fixed = |x: &Expr| {
            let mut fixed = true;
            x.visit(&mut |x| match x.kind() {
                Kind::Var(var) => fixed &= !var.is_counter() || self.open.contains(var),
                Kind::Load(..) => fixed = false,
                _ => {}
            });
            fixed
        };
        let difference = |x: &Expr, y: &Expr| simplify(&(x - y)).as_int();
        a.indices.iter().zip(&b.indices).filter(|(x, y)| fixed(x) && fixed(y)).any(|(x, y)| {
            match (x.kind(), y.kind()) {
                (Kind::Binary(Binary::FloorMod, p, by), Kind::Binary(Binary::FloorMod, q, other)) if by == other => {
                    let by = by.as_int().filter(|by| *by > 0);
                    difference(p, q).zip(by).is_some_and(|(difference, by)| difference % by != 0)
                }
                _ => difference(x, y).is_some_and(|difference| difference != 0),
            }
        })
    }

    /// Whether two accesses to one element are always made by the same thread, as far as the indices `of` tell.
    fn same(&self, a: &Access, b: &Access, of: impl Fn(&Thread) -> bool) -> bool {
        let indices = |access: &Access| -> Vec<(Thread, Expr)> {
            access.threads.iter().filter(|(thread, _)| of(thread)).map(|(t, e)| (*t, e.clone())).collect()
        };
        let launched = indices(a);
        if launched != indices(b) {
            return false;
        }
        // An index of extent 1 has only one thread.
        launched.iter().filter(|(_, extent)| extent.as_int() != Some(1)).all(|(thread, _)| {
            let Some(var) = self.canonical.get(thread) else { return false };
            let alike = self.is_alike(a, b, *var);
            alike || a.indices.iter().zip(&b.indices).any(|(x, y)| self.tells(x, y, *var, &a.threads))
        })
    }

    /// Whether all indices that mention `var` (at least one) are the same functions of loops and threads in both
    /// accesses. A stage stores each element once. So each value of these functions belongs to one value of the loops
    /// and threads. (The tests of uneven splits are part of them.) So the same element means the same thread.
    fn is_alike(&self, a: &Access, b: &Access, var: Var) -> bool {
        let own = |x: &Expr| simplify(&x.substitute(&|v| self.earlier.get(&v).map(|v| Expr::from(*v))));
        let mut mentioned = false;
        let moves = |d| self.circular.contains(&(a.buffer.clone(), d));
        a.indices.iter().zip(&b.indices).enumerate().all(|(d, (x, y))| {
            let mentions = x.uses(var) || y.uses(var);
            if mentions && moves(d) {
                return false;
            }
            mentioned |= mentions;
            !mentions || own(x) == own(y)
        }) && mentioned
    }

    /// Whether `x == y` implies that the thread index `var` is the same in both: the terms that determine it are alike,
    /// and the smaller terms sum to less than one step of it.
    fn tells(&self, x: &Expr, y: &Expr, var: Var, threads: &BTreeMap<Thread, Expr>) -> bool {
        let (x, y) = (Linear::of(&simplify(x)), Linear::of(&simplify(y)));
        let step =
            |linear: &Linear| linear.terms.iter().find(|(atom, _)| atom.as_var() == Some(var)).map(|(_, step)| *step);
        let (Some(step), Some(other)) = (step(&x), step(&y)) else { return false };
        if step != other || step <= 0 || x.constant != y.constant {
            return false;
        }
        let extent = |atom: &Expr| -> Option<i64> {
            let var = atom.as_var()?;
            let (thread, _) = self.canonical.iter().find(|(_, known)| **known == var).unzip();
            let extent = match thread {
                Some(thread) => threads.get(thread)?,
                None => self.extents.get(&var)?,
            };
            extent.as_int()
        };
        let own = threads.iter().find(|(thread, _)| self.canonical.get(thread) == Some(&var));
        let own = own.and_then(|(_, extent)| extent.as_int());
        [&x, &y].into_iter().all(|linear| {
            let mut below = 0;
            linear.terms.iter().filter(|(atom, _)| atom.as_var() != Some(var)).all(|(atom, k)| {
                // Larger terms: multiples of everything that the thread index and the smaller terms can reach.
                let above = own.is_some_and(|own| k % (step * own) == 0);
                if above {
                    return true;
                }
                match extent(atom) {
                    // It is 0.
                    Some(1) => true,
                    Some(extent) if *k > 0 && step % k == 0 => {
                        below += k * (extent - 1).max(0);
                        below < step
                    }
                    _ => false,
                }
            })
        })
    }
}
