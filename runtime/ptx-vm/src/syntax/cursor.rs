//! A cursor over the tokens of a text, with the basic operations of a parser.

use super::ast::Module;
use super::lexer::{Token, TokenKind};
use crate::error::ParseError;

/// The deepest nesting of scopes. Deeper ones are refused, so that hostile text can't exhaust the stack.
pub(super) const MAX_DEPTH: u32 = 64;

/// A position in the tokens, and the module that has been read so far.
pub(super) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    pub(super) module: Module<'a>,
    /// The number of the current `.loc`; 0 for none.
    pub(super) location: u32,
    /// The nesting depth of the current scope.
    pub(super) depth: u32,
}

impl<'a> Parser<'a> {
    /// `tokens` must end with [`TokenKind::End`].
    pub(super) fn new(tokens: Vec<Token<'a>>) -> Self {
        Self { tokens, at: 0, module: Module::default(), location: 0, depth: 0 }
    }

    pub(super) fn peek(&self) -> Token<'a> {
        self.tokens[self.at]
    }

    pub(super) fn peek_ahead(&self, n: usize) -> Token<'a> {
        self.tokens[(self.at + n).min(self.tokens.len() - 1)]
    }

    pub(super) fn next(&mut self) -> Token<'a> {
        let token = self.tokens[self.at];
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    pub(super) fn error<T>(&self, token: Token<'_>, expected: &str) -> Result<T, ParseError> {
        let found = if token.kind == TokenKind::End { "the end of the text" } else { token.text };
        Err(ParseError::Syntax { line: token.line, message: format!("expected {expected}, found `{found}`") })
    }

    pub(super) fn is_mark(&self, mark: u8) -> bool {
        self.peek().kind == TokenKind::Mark(mark)
    }

    pub(super) fn accept(&mut self, mark: u8) -> bool {
        let found = self.is_mark(mark);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn expect(&mut self, mark: u8) -> Result<(), ParseError> {
        if self.accept(mark) { Ok(()) } else { self.error(self.peek(), &format!("`{}`", char::from(mark))) }
    }

    pub(super) fn is_word(&self, text: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Word && token.text == text
    }

    pub(super) fn accept_word(&mut self, text: &str) -> bool {
        let found = self.is_word(text);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn word(&mut self, expected: &str) -> Result<&'a str, ParseError> {
        let token = self.next();
        if token.kind == TokenKind::Word { Ok(token.text) } else { self.error(token, expected) }
    }

    pub(super) fn name(&mut self) -> Result<&'a str, ParseError> {
        let token = self.peek();
        if token.text.starts_with('.') {
            return self.error(token, "a name");
        }
        self.word("a name")
    }

    pub(super) fn integer(&mut self) -> Result<u64, ParseError> {
        let negative = self.accept(b'-');
        let token = self.next();
        match token.kind {
            TokenKind::Integer(value) if negative => Ok(value.wrapping_neg()),
            TokenKind::Integer(value) => Ok(value),
            _ => self.error(token, "an integer"),
        }
    }

    pub(super) fn small(&mut self) -> Result<u32, ParseError> {
        let token = self.peek();
        let value = self.integer()?;
        u32::try_from(value)
            .map_err(|_| ParseError::Syntax { line: token.line, message: format!("{value} is too large here") })
    }

    /// `1, 2, 3`
    pub(super) fn numbers(&mut self) -> Result<Vec<u32>, ParseError> {
        let mut numbers = vec![self.small()?];
        while self.accept(b',') {
            numbers.push(self.small()?);
        }
        Ok(numbers)
    }
}
