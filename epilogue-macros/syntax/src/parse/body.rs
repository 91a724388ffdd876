//! Blocks and statements.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprIf, Local, Pat, Stmt, token};

use super::binding::{introduced, named};
use super::expression::expression;
use crate::ast::{Assign, AssignOperator, Block, Expr as Value, Let, Operator, Returned, Statement};
use crate::report::Errors;

/// A block with its statements and its value, which it must have.
pub(crate) fn block(block: &syn::Block, errors: &mut Errors) -> Block {
    let (before, value) = match block.stmts.split_last() {
        Some((Stmt::Expr(Expr::Return(it), _), before)) => {
            errors.at(it.return_token.span, "there is no `return`: write the value alone, without a semicolon");
            (statements(before, errors), Value::Invalid)
        }
        Some((Stmt::Expr(expr, None), before)) => (statements(before, errors), expression(expr, errors)),
        _ => {
            let before = statements(&block.stmts, errors);
            errors.at(
                block.brace_token.span.close(),
                "this block has no value: its last line, without a semicolon, is what it computes",
            );
            (before, Value::Invalid)
        }
    };
    Block { brace: block.brace_token, statements: before, value: Some(Box::new(value)) }
}

/// The body of an epilogue: statements, then the returned names.
pub(crate) fn epilogue(block: &syn::Block, errors: &mut Errors) -> (Block, Vec<Returned>) {
    let (before, returned) = match block.stmts.split_last() {
        Some((Stmt::Expr(Expr::Return(it), _), before)) => {
            errors
                .at(it.return_token.span, "there is no `return`: write the returned names alone, without a semicolon");
            (before, it.expr.as_deref())
        }
        Some((Stmt::Expr(expr @ (Expr::Path(_) | Expr::Tuple(_)), Some(semi)), before)) => {
            errors.at(semi.span, "the last line says what is returned: remove the semicolon");
            (before, Some(expr))
        }
        Some((Stmt::Expr(expr, None), before)) if !is_statement(expr) => (before, Some(expr)),
        _ => (&block.stmts[..], None),
    };
    let statements = statements(before, errors);
    let results = match returned {
        Some(expr) => results(expr, errors),
        None => {
            // A statement that cannot stand at the end has been reported already.
            errors.at(
                block.brace_token.span.close(),
                "an epilogue ends in the names of what it returns: `d`, or `(d, reduction)`",
            );
            vec![Returned(None)]
        }
    };
    (Block { brace: block.brace_token, statements, value: None }, results)
}

/// Whether an expression at the end of a body is surely meant as a statement.
fn is_statement(expr: &Expr) -> bool {
    match expr {
        Expr::While(_) | Expr::ForLoop(_) | Expr::Loop(_) | Expr::Assign(_) => true,
        Expr::If(branch) => branch.else_branch.is_none(),
        _ => false,
    }
}

fn results(expr: &Expr, errors: &mut Errors) -> Vec<Returned> {
    match expr {
        Expr::Tuple(tuple) if tuple.elems.is_empty() => {
            errors.on(tuple, "an epilogue returns at least one name");
            vec![Returned(None)]
        }
        Expr::Tuple(tuple) => tuple.elems.iter().map(|element| result(element, errors)).collect(),
        Expr::Paren(paren) => results(&paren.expr, errors),
        Expr::Group(group) => results(&group.expr, errors),
        other => vec![result(other, errors)],
    }
}

fn result(expr: &Expr, errors: &mut Errors) -> Returned {
    match expr {
        Expr::Path(path) if path.qself.is_none() && path.path.get_ident().is_some() => {
            Returned(path.path.get_ident().cloned())
        }
        Expr::Paren(paren) => result(&paren.expr, errors),
        Expr::Group(group) => result(&group.expr, errors),
        other => {
            let before = errors.len();
            let _ = expression(other, errors);
            if errors.len() == before {
                errors.on(
                    other,
                    "what is returned needs a name, which becomes its field: bind it, `let d = …;`, and return `d`",
                );
            }
            Returned(None)
        }
    }
}

fn statements(block: &[Stmt], errors: &mut Errors) -> Vec<Statement> {
    let mut statements = Vec::new();
    for statement in block {
        match statement {
            Stmt::Expr(expr, _) => statements.push(expression_statement(expr, errors)),
            Stmt::Local(local) => statements.push(local_statement(local, errors)),
            Stmt::Item(item) => {
                errors.on(item, "an item cannot stand inside: move it out of the function");
                statements.push(Statement::Invalid(Vec::new()));
            }
            Stmt::Macro(call) => {
                errors.on(
                    &call.mac.path,
                    "a macro cannot be expanded here: write its result as ordinary operations, or call an `#[elementwise]` function",
                );
                statements.push(Statement::Invalid(Vec::new()));
            }
        }
    }
    statements
}

/// The body that replaces one that could not be read.
pub(crate) fn empty(span: Span) -> Block {
    Block { brace: token::Brace(span), statements: Vec::new(), value: None }
}

fn local_statement(local: &Local, errors: &mut Errors) -> Statement {
    errors.check(local.modifiers.require_empty());
    for attribute in &local.attrs {
        let known = ["allow", "expect", "warn", "deny", "forbid"];
        if !known.iter().any(|name| attribute.path().is_ident(name)) {
            errors.on(attribute, "an attribute has no meaning on a `let`: remove it");
        }
    }
    let (pat, annotation) = match &local.pat {
        Pat::Type(typed) => (&*typed.pat, Some((typed.colon_token, (*typed.ty).clone()))),
        other => (other, None),
    };
    let Some(init) = &local.init else {
        errors.at(local.semi_token.span, "a `let` needs its value here: `let x = …;`");
        return Statement::Invalid(introduced(pat));
    };
    if let Some((else_token, _)) = &init.diverge {
        errors.at(else_token.span, "`let … else` has no meaning here: every value exists");
    }
    let value = expression(&init.expr, errors);
    let binding = match pat {
        Pat::Wild(wild) => {
            errors.at(
                wild.underscore_token.span,
                "a value nothing depends on costs nothing and does nothing: remove this line, or name it `_x`",
            );
            None
        }
        Pat::Ident(_) => named(pat, errors),
        Pat::Tuple(tuple) => {
            errors.on(tuple, "a value is one number: write one `let` for each name");
            None
        }
        other => {
            errors.on(other, "a value is one number and cannot be taken apart: write `let name = …;`");
            None
        }
    };
    match binding {
        None => Statement::Invalid(introduced(pat)),
        Some(binding) => Statement::Let(Box::new(Let {
            attributes: local.attrs.clone(),
            let_token: local.let_token,
            binding,
            annotation,
            eq_token: init.eq_token,
            value,
            semi_token: local.semi_token,
        })),
    }
}

/// An expression that is not the last of a block: only assignments have an effect.
fn expression_statement(expr: &Expr, errors: &mut Errors) -> Statement {
    let statement = match expr {
        Expr::Assign(assign) => {
            assignment(&assign.left, AssignOperator::Plain(assign.eq_token), &assign.right, expr, errors)
        }
        Expr::Binary(binary) => match compound(&binary.op, errors) {
            Compound::Operator(operator) => {
                assignment(&binary.left, AssignOperator::Compound(operator, binary.op), &binary.right, expr, errors)
            }
            Compound::Refused => None,
            Compound::Not => {
                unused(expr, errors);
                None
            }
        },
        Expr::If(branch) => {
            statement_if(branch, errors);
            None
        }
        Expr::Path(_)
        | Expr::Lit(_)
        | Expr::Call(_)
        | Expr::MethodCall(_)
        | Expr::Unary(_)
        | Expr::Paren(_)
        | Expr::Block(_)
        | Expr::Tuple(_) => {
            unused(expr, errors);
            None
        }
        other => {
            // Not in the language at all: its own message says so.
            let _ = expression(other, errors);
            None
        }
    };
    statement.unwrap_or(Statement::Invalid(Vec::new()))
}

/// An `if` whose value is not used: mistakes inside it are reported first, then the `if` itself.
pub(crate) fn statement_if(branch: &ExprIf, errors: &mut Errors) {
    let before = errors.len();
    let _ = expression(&branch.cond, errors);
    let _ = statements(&branch.then_branch.stmts, errors);
    match &branch.else_branch {
        Some((_, otherwise)) => {
            if let Expr::Block(inner) = &**otherwise {
                let _ = statements(&inner.block.stmts, errors);
            }
            if errors.len() == before {
                errors.at(branch.if_token.span, "`if` is a value here: bind it, `let x = if c { a } else { b };`");
            }
        }
        None if errors.len() == before => {
            errors.at(
                branch.if_token.span,
                "`if` is a value here and needs its `else`: `let x = if c { a } else { b };`",
            );
        }
        None => {}
    }
}

fn unused(expr: &Expr, errors: &mut Errors) {
    let before = errors.len();
    let _ = expression(expr, errors);
    if errors.len() == before {
        errors.on(expr, "this value is not used: bind it with `let`, or remove the line");
    }
}

enum Compound {
    Operator(Operator),
    Refused,
    Not,
}

fn compound(op: &BinOp, errors: &mut Errors) -> Compound {
    match op {
        BinOp::AddAssign(_) => Compound::Operator(Operator::Add),
        BinOp::SubAssign(_) => Compound::Operator(Operator::Sub),
        BinOp::MulAssign(_) => Compound::Operator(Operator::Mul),
        BinOp::DivAssign(_) => Compound::Operator(Operator::Div),
        BinOp::RemAssign(_)
        | BinOp::BitXorAssign(_)
        | BinOp::BitAndAssign(_)
        | BinOp::BitOrAssign(_)
        | BinOp::ShlAssign(_)
        | BinOp::ShrAssign(_) => {
            errors.on(op, "only `=`, `+=`, `-=`, `*=` and `/=` assign here");
            Compound::Refused
        }
        _ => Compound::Not,
    }
}

fn assignment(
    left: &Expr,
    operator: AssignOperator,
    right: &Expr,
    whole: &Expr,
    errors: &mut Errors,
) -> Option<Statement> {
    let value = expression(right, errors);
    let name = match left {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().cloned(),
        Expr::Infer(_) => {
            errors.on(left, "a value nothing depends on costs nothing and does nothing: remove this line");
            return None;
        }
        _ => None,
    };
    let Some(name) = name else {
        errors.on(left, "only a name declared with `let mut`, or a `TensorMut`, is assigned to");
        return None;
    };
    let semi_token = syn::Token![;](whole.span());
    Some(Statement::Assign(Box::new(Assign { name, operator, value, semi_token })))
}
