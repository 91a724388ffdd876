//! The front end: parses PTX text to a syntax tree.
//!
//! It knows the grammar (PTX ISA §4, §5), but not what an instruction does. It borrows every name from the text and
//! keeps, for each statement, its line and its current `.loc`. It must never accept what it doesn't understand.

pub(crate) mod ast;
mod cursor;
mod declaration;
mod lexer;
mod parser;
mod statement;

pub(crate) use parser::parse;
