//! Unrolling by pragmas, with the rules of TVM's pass of the same name.
//!
//! A loop with a constant number of iterations is unrolled automatically under three conditions: all loops inside it
//! are unrolled; its iterations make at most `auto_max_step` statements in all; and at most `auto_max_depth` loops are
//! unrolled inside each other. Also unrolled are loops of at most `auto_max_extent` iterations, and loops that the
//! schedule marks. With `explicit` the loop is written out; otherwise it is only marked for the target's compiler.

use super::simplify::simplify;
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::expression::Expr;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::pragma::Pragma;
use crate::te::loops::ir::program::Program;
use crate::te::loops::ir::rewrite::substitute;
use crate::te::loops::ir::stmt::{LoopKind, Note, Stmt};
use crate::te::text::expression;

/// The most statements that an unrolled loop may be written out as.
const WRITTEN_OUT: i64 = 1 << 16;

/// Which loops are unrolled. The default is TVM's: marked loops only, written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnrollConfig {
    /// The most statements of a loop that is unrolled automatically.
    pub auto_max_step: i64,
    /// The most loops inside each other that are unrolled automatically.
    pub auto_max_depth: i64,
    /// Loops of up to this many iterations are always unrolled. At 1, loops of one iteration are removed.
    pub auto_max_extent: i64,
    /// Whether unrolled loops are written out, or only marked.
    pub explicit: bool,
}

impl Default for UnrollConfig {
    fn default() -> Self {
        Self { auto_max_step: 0, auto_max_depth: 8, auto_max_extent: 0, explicit: true }
    }
}

impl Program {
    /// Unrolls loops of the program.
    ///
    /// # Errors
    /// [`LoweringError::Unroll`] for a marked loop whose extent is not constant, or that is too long to be written out.
    pub fn unrolled(&self, config: &UnrollConfig) -> Result<Self, TeError> {
        let mut pass = Unroller { config: *config, active: true, steps: 0, depth: 0, loops: 0 };
        let body = descend(self.body.depth(), || Ok::<_, TeError>(simplify(pass.walk(self.body.clone())?)))??;
        Ok(Self { body, ..self.clone() })
    }
}

/// Unrolls where pragmas demand it, and removes these pragmas.
pub(crate) fn unroll(statement: Stmt) -> Result<Stmt, TeError> {
    if !has_pragma(&statement) {
        return Ok(statement);
    }
    let mut pass = Unroller { config: UnrollConfig::default(), active: false, steps: 0, depth: 0, loops: 0 };
    Ok(simplify(pass.walk(statement)?))
}

fn has_pragma(statement: &Stmt) -> bool {
    let pragma = Pragma::AutoUnrollMaxStep(0).key();
    let explicit = Pragma::UnrollExplicit(true).key();
    matches!(statement, Stmt::Note { note: Note::Pragma(_, given), .. } if [pragma, explicit].contains(&given.key()))
        || statement.children().into_iter().any(has_pragma)
}

struct Unroller {
    config: UnrollConfig,
    /// Whether a pragma holds here, or the whole program is to be unrolled.
    active: bool,
    /// The number of statements in what was walked.
    steps: i64,
    /// The depth of loops unrolled inside each other there.
    depth: i64,
    /// The number of loops that remain there.
    loops: i64,
}

impl Unroller {
    fn walk(&mut self, statement: Stmt) -> Result<Stmt, TeError> {
        match statement {
            Stmt::Note { note: Note::Pragma(axis, pragma), body } => {
                let before = (self.config, self.active);
                match pragma {
                    Pragma::AutoUnrollMaxStep(most) => self.config.auto_max_step = most,
                    Pragma::UnrollExplicit(explicit) => self.config.explicit = explicit,
                    _ => {
                        let body = Box::new(self.walk(*body)?);
                        return Ok(Stmt::Note { note: Note::Pragma(axis, pragma), body });
                    }
                }
                self.active = true;
                let body = self.walk(*body);
                (self.config, self.active) = before;
                body
            }
            Stmt::Seq(statements) => {
                let mut all = Vec::with_capacity(statements.len());
                for statement in statements {
                    let before = (self.steps, self.depth, self.loops);
                    (self.steps, self.depth, self.loops) = (0, 0, 0);
                    all.push(self.walk(statement)?);
                    self.steps = self.steps.saturating_add(before.0);
                    (self.depth, self.loops) = (self.depth.max(before.1), self.loops.max(before.2));
                }
                Ok(Stmt::sequence(all))
            }
            Stmt::For { var, extent, kind, body } => {
                let body = Box::new(self.walk(*body)?);
                self.for_loop(Stmt::For { var, extent, kind, body })
            }
            leaf @ (Stmt::Store { .. } | Stmt::AllReduce(_) | Stmt::Barrier | Stmt::Prefetch { .. }) => {
                self.steps = self.steps.saturating_add(1);
                Ok(leaf)
            }
            other => {
                let mut mistake = None;
                let walked = other.map_children(&mut |child| {
                    self.walk(child).unwrap_or_else(|error| {
                        mistake.get_or_insert(error);
                        Stmt::Seq(Vec::new())
                    })
                });
                mistake.map_or(Ok(walked), Err)
            }
        }
    }

    /// A loop whose body has been walked.
    fn for_loop(&mut self, statement: Stmt) -> Result<Stmt, TeError> {
        let Stmt::For { var, extent, kind, body } = statement else { return Ok(statement) };
        let times = extent.as_int().filter(|times| *times >= 0);
        let config = self.config;
        let small = times.is_some_and(|times| {
            times.saturating_mul(self.steps) <= config.auto_max_step || times <= config.auto_max_extent
        });
        let by_itself = kind == LoopKind::Serial && small && self.loops == 0 && self.depth <= config.auto_max_depth;
        let marked = kind == LoopKind::Unrolled;
        let single = config.auto_max_extent == 1 && times.is_some_and(|times| times <= 1);
        if !self.active {
            self.loops += 1;
            return Ok(Stmt::For { var, extent, kind, body });
        }
        let refuse = |reason| {
            LoweringError::Unroll { counter: var.name().to_owned(), extent: expression(&extent), reason }.into()
        };
        if marked && times.is_none() && config.explicit {
            return Err(refuse(
                "only a constant number of iterations can be written out; split the loop by a constant",
            ));
        }
        let unrolled = by_itself || marked;
        if unrolled {
            self.steps = self.steps.saturating_mul(times.unwrap_or(1));
            self.depth += 1;
        } else {
            self.loops += 1;
        }
        match times {
            Some(times) if unrolled && config.explicit || single => {
                if self.steps > WRITTEN_OUT {
                    return Err(refuse("written out it would be more than 65536 statements; unroll a shorter loop"));
                }
                let value = |i: i64| Expr::int(i);
                let copy = |i: i64| substitute((*body).clone(), &|known| (known == var).then(|| value(i)));
                Ok(Stmt::sequence((0..times).map(copy)))
            }
            _ if unrolled => Ok(Stmt::For { var, extent, kind: LoopKind::Unrolled, body }),
            _ => Ok(Stmt::For { var, extent, kind, body }),
        }
    }
}
