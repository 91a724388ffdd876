//! Loop partition: a loop whose iterations are tested against a bound is cut in two where the test begins to fail. Full
//! tiles then run without the test.
//!
//! Only tests under `likely` are considered, and only those of the form `a·v + rest < b` with a positive constant `a`.
//! Let `r` be the greatest value of `rest` (over inner loops and over threads). The tests hold for
//! `v < (b - r + a - 1) // a`; the iterations from there on become a second loop. If a bound depends on an outer loop
//! or a block, the loop stays whole.

use crate::te::arith::{Context, Linear, simplify, simplify_in};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::var::Var;
use crate::te::loops::ir::rewrite::substitute;
use crate::te::loops::ir::stmt::{LoopKind, Stmt};

/// Partitions the loops of a program.
pub(crate) fn partition(statement: Stmt) -> Stmt {
    let mut pass = Partition { context: Context::default(), threads: Vec::new() };
    super::simplify::simplify(pass.walk(statement))
}

struct Partition {
    /// All counters in scope.
    context: Context,
    /// The counters in scope that are thread indices of a block.
    threads: Vec<(Var, Expr)>,
}

impl Partition {
    fn walk(&mut self, statement: Stmt) -> Stmt {
        match statement {
            Stmt::For { .. } => self.repeated(statement),
            Stmt::Launch { .. } => self.launched(statement),
            other => other.map_children(&mut |child| self.walk(child)),
        }
    }

    fn repeated(&mut self, statement: Stmt) -> Stmt {
        let Stmt::For { var, extent, kind, body } = statement else { return statement };
        let threshold = match kind {
            LoopKind::Serial | LoopKind::Unrolled => self.threshold(var, &extent, &body),
            LoopKind::Parallel | LoopKind::Vectorized => None,
        };
        let (full, tail) = match threshold {
            None => (extent, None),
            Some(threshold) => {
                let tail = self.tail(var, &extent, &threshold, kind, (*body).clone());
                (threshold, Some(tail))
            }
        };
        let body = if tail.is_some() { proved(*body, var, &mut Vec::new(), &self.threads) } else { *body };
        self.context.push(var, &full);
        let body = self.walk(body);
        self.context.pop();
        let full = Stmt::For { var, extent: full, kind, body: Box::new(body) };
        Stmt::sequence([full].into_iter().chain(tail))
    }

    fn launched(&mut self, statement: Stmt) -> Stmt {
        let Stmt::Launch { thread, var, extent, body } = statement else { return statement };
        let is_thread = matches!(thread, crate::te::expr::thread::Thread::Thread(_));
        if is_thread {
            self.threads.push((var, extent.clone()));
        }
        self.context.push(var, &extent);
        let body = Box::new(self.walk(*body));
        self.context.pop();
        if is_thread {
            self.threads.pop();
        }
        Stmt::Launch { thread, var, extent, body }
    }

    /// The number of iterations for which every test that a loop decides holds; `None` if there is none.
    fn threshold(&self, var: Var, extent: &Expr, body: &Stmt) -> Option<Expr> {
        let mut found: Vec<Expr> = Vec::new();
        let mut inner = Vec::new();
        each_test(body, &mut inner, &mut |condition, inner| {
            if let Some(threshold) = holds_below(condition, var, inner, &self.threads)
                && !found.contains(&threshold)
            {
                found.push(threshold);
            }
        });
        let below = |a: &Expr, b: &Expr| self.context.proves_less(a, &(b + 1));
        let threshold = found.into_iter().reduce(|a, b| if below(&a, &b) { a } else { a.min(b) })?;
        let threshold = if below(&threshold, extent) { threshold } else { threshold.min(extent) };
        let natural = self.context.proves_natural(&threshold);
        let threshold = simplify_in(&if natural { threshold } else { threshold.max(0) }, &self.context);
        // A test that always holds doesn't count; one that never holds leaves no full tile.
        let useless = threshold == *extent || threshold.as_int() == Some(0);
        (!useless).then_some(threshold)
    }

    /// The loop over the iterations from the threshold on.
    fn tail(&self, var: Var, extent: &Expr, threshold: &Expr, kind: LoopKind, body: Stmt) -> Stmt {
        let rest = Var::counter(var.name());
        let count = difference(extent, threshold);
        let place = match count.as_int() {
            Some(1) => threshold.clone(),
            _ => simplify(&(threshold + rest)),
        };
        let body = substitute(body, &|v| (v == var).then(|| place.clone()));
        match count.as_int() {
            Some(1) => body,
            Some(n) if n <= 0 => Stmt::Seq(Vec::new()),
            _ => Stmt::For { var: rest, extent: count, kind, body: Box::new(body) },
        }
    }
}

/// A function of a condition and the counters around it.
type Visit<'a> = dyn FnMut(&Expr, &[(Var, Expr)]) + 'a;

/// Calls `f` with every condition under `likely`, and with the counters between `statement` and the condition.
fn each_test(statement: &Stmt, inner: &mut Vec<(Var, Expr)>, f: &mut Visit<'_>) {
    match statement {
        Stmt::If { condition, then } => {
            if let Kind::Likely(test) = condition.kind() {
                f(test, inner);
            }
            each_test(then, inner, f);
        }
        Stmt::For { var, extent, body, .. } | Stmt::Launch { var, extent, body, .. } => {
            inner.push((*var, extent.clone()));
            each_test(body, inner, f);
            inner.pop();
        }
        other => other.children().into_iter().for_each(|child| each_test(child, inner, f)),
    }
}

/// The statement without the tests that the loop over `var` decides: they now hold in all its iterations.
fn proved(statement: Stmt, var: Var, inner: &mut Vec<(Var, Expr)>, threads: &[(Var, Expr)]) -> Stmt {
    match statement {
        Stmt::If { condition, then } => {
            let then = proved(*then, var, inner, threads);
            let decided = match condition.kind() {
                Kind::Likely(test) => holds_below(test, var, inner, threads).is_some(),
                _ => false,
            };
            if decided { then } else { Stmt::If { condition, then: Box::new(then) } }
        }
        Stmt::For { var: counter, extent, kind, body } => {
            inner.push((counter, extent.clone()));
            let body = Box::new(proved(*body, var, inner, threads));
            inner.pop();
            Stmt::For { var: counter, extent, kind, body }
        }
        Stmt::Launch { thread, var: counter, extent, body } => {
            inner.push((counter, extent.clone()));
            let body = Box::new(proved(*body, var, inner, threads));
            inner.pop();
            Stmt::Launch { thread, var: counter, extent, body }
        }
        other => other.map_children(&mut |child| proved(child, var, inner, threads)),
    }
}

/// A bound `t` so that the test holds for all `var < t`, for all values of the counters inside and of the threads. It
/// depends on sizes only.
fn holds_below(test: &Expr, var: Var, inner: &[(Var, Expr)], threads: &[(Var, Expr)]) -> Option<Expr> {
    let Kind::Binary(op, a, b) = test.kind() else { return None };
    let difference = match op {
        Binary::Lt => a - b,
        Binary::Le => a - b - 1,
        Binary::Gt => b - a,
        Binary::Ge => b - a - 1,
        _ => return None,
    };
    let mut linear = Linear::of(&simplify(&difference));
    let place = linear.terms.iter().position(|(atom, _)| atom.as_var() == Some(var))?;
    let (_, step) = linear.terms.remove(place);
    if step <= 0 {
        return None;
    }
    let mut relaxed = Context::default();
    for (counter, extent) in threads.iter().chain(inner) {
        relaxed.push(*counter, extent);
    }
    let (_, greatest) = relaxed.extremes(&linear.into_expr(a.dtype()));
    let mut depends = false;
    greatest.visit(&mut |x| {
        depends |= match x.kind() {
            Kind::Var(v) => v.is_counter(),
            Kind::Load(..) => true,
            _ => false,
        };
    });
    if depends {
        return None;
    }
    // step·v + greatest < 0
    Some(simplify(&((step - 1 - greatest).floor_div(step))))
}

/// `a - b`, with `(x + c) // k - x // k` written as `(x % k + c) // k`.
fn difference(a: &Expr, b: &Expr) -> Expr {
    let mut linear = Linear::of(&simplify(&(a - b)));
    let quotient = |atom: &Expr| match atom.kind() {
        Kind::Binary(Binary::FloorDiv, x, by) => Some((x.clone(), by.as_int()?)),
        _ => None,
    };
    let pair = linear.terms.iter().enumerate().find_map(|(i, (above, plus))| {
        let (x, by) = quotient(above).filter(|_| *plus == 1)?;
        linear.terms.iter().enumerate().find_map(|(j, (below, minus))| {
            let (y, other) = quotient(below).filter(|_| *minus == -1)?;
            let shift = simplify(&(&x - &y)).as_int().filter(|shift| *shift > 0 && by == other)?;
            Some((i, j, simplify(&((y.floor_mod(by) + shift).floor_div(by)))))
        })
    });
    let Some((i, j, quotient)) = pair else { return linear.into_expr(a.dtype()) };
    linear.terms.remove(i.max(j));
    linear.terms.remove(i.min(j));
    if linear.terms.is_empty() && linear.constant == 0 {
        return quotient;
    }
    quotient + linear.into_expr(a.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use crate::te;
    use crate::te::Array;
    use crate::te::expr::buffer::{Buffer, Scope};
    use crate::te::expr::var::var;
    use crate::te::loops::ir::program::Program;
    use crate::te::text::expression;
    use epilogue_runtime::testing;
    use proptest::prelude::*;

    /// `for k in 0..extent { if likely(test(k)) { B[k] = 0 } }`
    fn tested(extent: impl Into<Expr>, test: impl FnOnce(Var) -> Expr) -> Stmt {
        let k = Var::counter("k");
        let buffer = Buffer::compact("B", te::DType::F32, vec![Expr::int(1000)], Scope::Global);
        let store = Stmt::Store { buffer, indices: vec![k.into()], value: 0.0.into() };
        let then = Stmt::If { condition: test(k).likely(), then: Box::new(store) };
        Stmt::For { var: k, extent: extent.into(), kind: LoopKind::Serial, body: Box::new(then) }
    }

    /// The extents of the loops at the top, and whether each has a test inside.
    fn loops(statement: &Stmt) -> Vec<(String, bool)> {
        let all = match statement {
            Stmt::Seq(all) => all.iter().collect(),
            one => vec![one],
        };
        let describe = |s: &&Stmt| match s {
            Stmt::For { extent, body, .. } => {
                let mut tests = 0;
                each_test(body, &mut Vec::new(), &mut |_, _| tests += 1);
                (expression(extent), tests > 0)
            }
            Stmt::If { .. } => ("once".to_owned(), true),
            _ => ("once".to_owned(), false),
        };
        all.iter().map(describe).collect()
    }

    /// `for k in 0..extent { for j in 0..16 { if likely(k * 16 + j < bound) { B[k] = 0 } } }`
    fn tiled(extent: impl Into<Expr>, bound: impl Into<Expr>) -> Stmt {
        let (k, j) = (Var::counter("k"), Var::counter("j"));
        let inner = tested(16, |j| (k * 16 + j).less(bound));
        let Stmt::For { var, extent: width, kind, body } = inner else { panic!("a loop") };
        let body = substitute(*body, &|v| (v == var).then(|| j.into()));
        let inner = Stmt::For { var: j, extent: width, kind, body: Box::new(body) };
        Stmt::For { var: k, extent: extent.into(), kind: LoopKind::Serial, body: Box::new(inner) }
    }

    #[test]
    fn a_split_loop_has_full_tiles_and_a_tail() {
        let m = var("m");
        let parts = partition(tiled((m + 15) / 16, m));
        let expected = [("m // 16".to_owned(), false), ("(m % 16 + 15) // 16".to_owned(), true)];
        assert_eq!(loops(&parts), expected);
    }

    #[test]
    fn constant_bounds_give_constant_loops() {
        // The tail is one tile. Its own loop is cut at the bound.
        let parts = loops(&partition(tiled(7, 100)));
        assert_eq!(parts, [("6".to_owned(), false), ("16".to_owned(), true)]);
        let statement = tested(3, |k| (k + 5).less_equal(100));
        assert_eq!(loops(&partition(statement)), [("3".to_owned(), false)]);
    }

    #[test]
    fn a_tail_that_is_never_run_is_left_out() {
        let m = var("m");
        let statement = tested((m + 15) / 16, |k| (k * 16 + 3).less(m));
        assert_eq!(loops(&partition(statement)), [("(m + 12) // 16".to_owned(), false)]);
    }

    #[test]
    fn a_bound_that_may_be_negative_or_too_large_is_clamped() {
        let (n, m) = (var("n"), var("m"));
        let statement = tested(n, |k| (k + 7).less(m));
        assert_eq!(loops(&partition(statement)).first(), Some(&("T.max(T.min(m - 7, n), 0)".to_owned(), false)));
    }

    #[test]
    fn bounds_that_depend_on_an_outer_loop_stay() {
        let (n, o) = (var("n"), Var::counter("o"));
        let inner = tested(32, |k| (o * 32 + k).less(n));
        let statement = Stmt::For { var: o, extent: (n + 31) / 32, kind: LoopKind::Serial, body: Box::new(inner) };
        let Stmt::Seq(parts) = partition(statement) else { panic!("two loops") };
        assert_eq!(
            loops(&Stmt::Seq(parts.clone())),
            [("n // 32".to_owned(), false), ("(n % 32 + 31) // 32".to_owned(), true)]
        );
    }

    /// The result of a program for a matrix.
    fn interpreted(program: &Program, n: usize, m: usize) -> Vec<f64> {
        let values: Vec<f64> = (0..n * m).map(|i| (i * 7 % 23) as f64 - 11.0).collect();
        let a = Array::new(ElementType::F32, &[n, m], &values).unwrap();
        let mut arguments = [a, Array::unwritten(ElementType::F32, &[n])];
        program.interpret(&mut arguments).unwrap();
        assert!(arguments[1].is_complete());
        arguments[1].values()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(testing::cases(300)) })]

        /// The program computes the same with any loops.
        #[test]
        fn a_partitioned_program_computes_the_same(
            (n, m) in (0usize..30, 0usize..30),
            rows in 1i32..7, columns in 1i32..7, inner in 1i32..5, constant: bool, parts: bool, shape in 0usize..6,
        ) {
            let (rows_of_a, columns_of_a) = (var("n"), var("m"));
            let width = if constant { Expr::from(m) } else { columns_of_a.into() };
            let a = te::placeholder((rows_of_a, width.clone()), "A");
            let k = te::reduce_axis((0, width), "k");
            let b = te::compute([rows_of_a], "B", |[i]| te::sum(a.at([i, k]), [k])).unwrap();
            let mut s = te::create_schedule(&[&b]);
            let stage = s.stage(&b).unwrap();
            let i = b.axis(0).unwrap();
            let (xo, xi) = if parts { stage.split_parts(i, rows) } else { stage.split(i, rows) }.unwrap();
            let (ko, ki) = stage.split(k, columns).unwrap();
            let (kio, kii) = stage.split(ki, inner).unwrap();
            match shape {
                0 => {}
                1 => stage.reorder(&[ko, xo, kio, xi, kii]).unwrap(),
                2 => { stage.fuse(kio, kii).unwrap(); }
                3 => stage.reorder(&[xi, kii, kio, ko]).unwrap(),
                4 => stage.bind(xi, te::thread_axis("threadIdx.x")).unwrap(),
                _ => {
                    stage.bind(xo, te::thread_axis("blockIdx.x")).unwrap();
                    stage.unroll(kii).unwrap();
                }
            }
            let whole = te::lower(&s, &[&a, &b], "main").unwrap();
            let parted = Program { body: partition(whole.body.clone()), ..whole.clone() };
            prop_assert_eq!(interpreted(&parted, n, m), interpreted(&whole, n, m));
        }
    }
}
