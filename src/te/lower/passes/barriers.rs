//! Barriers: where a thread reads or overwrites what another thread of its block wrote, all threads wait for each other
//! in between.
//!
//! The pass walks a program in order and keeps the accesses to memory that threads share since the last barrier. An
//! access that may touch an element that *another* thread touched, one of the two writing, needs a barrier before it. A
//! loop's end meets its beginning. Two accesses are of one thread where some index, the same in both, tells the thread:
//! `B[row]` is written and read by the thread of that row.
//!
//! Between blocks there is no barrier: a launch in which one block needs what another wrote is refused.

use std::collections::{BTreeMap, HashMap};

use crate::te::arith::{Linear, simplify};
use crate::te::error::TeError;
use crate::te::ir::stmt::Stmt;
use crate::te::lang::buffer::{Buffer, Scope};
use crate::te::lang::expr::{Binary, Expr, Kind};
use crate::te::lang::thread::Thread;
use crate::te::lang::var::Var;
use crate::te::text::expression;

/// The same program with barriers where its launches need them. `circular` is memory whose places along a dimension are
/// other elements' in other iterations of a loop.
pub(crate) fn place_barriers(mut statement: Stmt, circular: Vec<(Buffer, usize)>) -> Result<Stmt, TeError> {
    let mut pass = Barriers { circular, ..Barriers::default() };
    loop_extents(&statement, &mut pass.extents);
    pass.walk(&mut statement, &mut Vec::new())?;
    check_reached(&statement, None)?;
    Ok(statement)
}

/// # Errors
/// [`TeError::DivergentBarrier`] for a barrier that only some threads of a block come to. `condition` is the one around, or
/// a loop's extent, that depends on the thread.
fn check_reached(statement: &Stmt, condition: Option<&Expr>) -> Result<(), TeError> {
    let of_thread = |var: Var| matches!(var.thread(), Some(Thread::Thread(_)));
    let condition = match statement {
        Stmt::If { condition: own, .. } | Stmt::For { extent: own, .. } => {
            condition.or_else(|| own.contains(|x| x.as_var().is_some_and(of_thread)).then_some(own))
        }
        Stmt::Barrier => {
            let refuse = |condition| Err(TeError::DivergentBarrier { condition: expression(condition) });
            return condition.map_or(Ok(()), refuse);
        }
        _ => condition,
    };
    statement.children().into_iter().try_for_each(|child| check_reached(child, condition))
}

/// One read or write of memory that other threads reach.
#[derive(Clone, Debug)]
struct Access {
    buffer: Buffer,
    /// In terms of one variable for each thread index.
    indices: Vec<Expr>,
    writes: bool,
    /// The thread and block indices that it runs over, with their extents. It runs once for the others.
    threads: BTreeMap<Thread, Expr>,
}

fn renamed(accesses: &mut [Access], from: Var, to: Var) {
    let rename = |x: &Expr| x.substitute(&|var| (var == from).then(|| to.into()));
    accesses.iter_mut().for_each(|access| access.indices = access.indices.iter().map(rename).collect());
}

/// A thread index that is known to be 0.
#[derive(Clone, Copy)]
struct FirstOnly {
    index: Var,
    /// Whether other threads may read shared memory all the same: where registers alone are written under the test, a
    /// compiler lets every thread read, and those that fail the test drop what they read.
    others_may_read: bool,
}

/// Whether memory besides a thread's own is written.
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
    /// The first variable that was met for each thread index; others of the same index are replaced by it.
    canonical: BTreeMap<Thread, Var>,
    /// Every loop's extent.
    extents: HashMap<Var, Expr>,
    /// Counters that stand for a loop's next iteration, with the loop's own.
    earlier: HashMap<Var, Var>,
    /// The counters of the loops that are walked now: one value each, in all accesses that are compared.
    open: Vec<Var>,
    circular: Vec<(Buffer, usize)>,
    /// The thread indices of which only the first is in scope: under a test for it.
    first_only: Vec<FirstOnly>,
}

impl Barriers {
    /// Puts barriers into a statement. What it needs to go on stands on the stack once for every level of nesting.
    fn walk(&mut self, statement: &mut Stmt, pending: &mut Vec<Access>) -> Result<(), TeError> {
        match statement {
            Stmt::Seq(statements) => {
                let statements = std::mem::take(statements);
                *statement = self.sequence(statements, pending)?;
                Ok(())
            }
            Stmt::For { var, body, .. } => self.cycle(body, *var, pending),
            // One thread does what its virtual threads do, for all of them statement by statement: no later access
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
            // A launch begins when all before it is done.
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

    /// A loop's body: what an iteration leaves pending meets the next iteration.
    fn cycle(&mut self, body: &mut Stmt, var: Var, pending: &mut Vec<Access>) -> Result<(), TeError> {
        // What an earlier loop of the same counter left has other values of it.
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
        // The next iteration's counter is another variable: its indices are not those of this iteration.
        let next = self.another_iteration(var);
        let mut beginning = self.first(body);
        renamed(&mut beginning, var, next);
        if self.conflict(&end, &beginning)? {
            pending.clear();
            *body = Stmt::sequence([std::mem::replace(body, Stmt::Seq(Vec::new())), Stmt::Barrier]);
        }
        Ok(())
    }

    /// A variable that stands for a counter's value in another iteration.
    fn another_iteration(&mut self, var: Var) -> Var {
        let other = var.another();
        self.extents.extend(self.extents.get(&var).cloned().map(|extent| (other, extent)));
        self.earlier.insert(other, var);
        other
    }

    /// What `f` makes of what is done where a condition holds, and whether that stores.
    fn under<R>(&mut self, condition: &Expr, stores: bool, f: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.first_only.len();
        let chosen = self.chosen(condition).into_iter();
        self.first_only.extend(chosen.map(|index| FirstOnly { index, others_may_read: !stores }));
        let made = f(self);
        self.first_only.truncate(before);
        made
    }

    /// The thread indices of which a condition chooses the first: `t == 0`, or a sum with them that must be less than one step
    /// of theirs.
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

    /// Whether a variable is a loop's or a launch's, which runs from 0 on.
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

    /// Adds a statement's accesses; whether it goes through to the end without a barrier.
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
            if let Kind::Load(buffer, indices) = x.kind() {
                found.extend(self.access(buffer, indices, false));
            }
        });
        found
    }

    /// An access, if other threads reach the memory.
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
                    return Err(TeError::AcrossBlocks { tensor: a.buffer.name().to_owned() });
                }
                needed |= !self.same(a, b, |thread| matches!(thread, Thread::Thread(_)));
            }
        }
        Ok(needed)
    }

    /// Whether two accesses never meet in an element: some index is another in one than in the other, as for the halves
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

    /// Whether two accesses to one element are always of the same thread, as far as its `of` indices go.
    fn same(&self, a: &Access, b: &Access, of: impl Fn(&Thread) -> bool) -> bool {
        let indices = |access: &Access| -> Vec<(Thread, Expr)> {
            access.threads.iter().filter(|(thread, _)| of(thread)).map(|(t, e)| (*t, e.clone())).collect()
        };
        let launched = indices(a);
        if launched != indices(b) {
            return false;
        }
        // There is one thread only along what has an extent of 1.
        launched.iter().filter(|(_, extent)| extent.as_int() != Some(1)).all(|(thread, _)| {
            let Some(var) = self.canonical.get(thread) else { return false };
            let alike = self.is_alike(a, b, *var);
            alike || a.indices.iter().zip(&b.indices).any(|(x, y)| self.tells(x, y, *var, &a.threads))
        })
    }

    /// Whether the indices that mention `var`, some at least, are the same functions of loops and threads in both
    /// accesses. A stage stores each element once, so such functions have one value for each of the loops' and
    /// threads' (within the tests of uneven splits, which go with them): the same element means the same thread.
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

    /// Whether `x == y` implies that the thread index `var` is the same in both: the terms that tell it are alike, and
    /// what is below them is smaller than one step of it.
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
                // Above: a multiple of all that the thread index and what is below it can be.
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
