//! The front end: PTX text to a syntax tree.
//!
//! Knows the grammar (PTX ISA §4, §5) and nothing of what an instruction does. It borrows every name from the text and
//! keeps, for each statement, its line and the `.loc` in force there. It must never accept what it doesn't understand.

pub(crate) mod ast;
mod cursor;
mod declaration;
mod lexer;
mod parser;
mod statement;

pub(crate) use parser::parse;
