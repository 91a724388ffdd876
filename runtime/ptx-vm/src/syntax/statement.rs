//! Parses statements: scopes, labels, instructions and their operands.

use super::ast::{Guard, Instruction, Operand, Statement};
use super::cursor::{MAX_DEPTH, Parser};
use super::lexer::TokenKind;
use crate::error::ParseError;

impl<'a> Parser<'a> {
    pub(super) fn block(&mut self) -> Result<Vec<Statement<'a>>, ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error(self.peek(), "fewer nested scopes");
        }
        self.expect(b'{')?;
        let mut statements = vec![];
        while !self.accept(b'}') {
            self.statement(&mut statements)?;
        }
        self.depth -= 1;
        Ok(statements)
    }

    fn statement(&mut self, statements: &mut Vec<Statement<'a>>) -> Result<(), ParseError> {
        let token = self.peek();
        match token.kind {
            TokenKind::Mark(b'{') => {
                let block = self.block()?;
                statements.push(Statement::Block(block));
                return Ok(());
            }
            TokenKind::Mark(b';') => {
                self.next();
                return Ok(());
            }
            TokenKind::Mark(b'@') => {
                let instruction = self.instruction()?;
                statements.push(Statement::Instruction(instruction));
                return Ok(());
            }
            TokenKind::Word => {}
            _ => return self.error(token, "a statement"),
        }
        match token.text {
            ".loc" => self.location(),
            ".file" => self.file(),
            ".section" => self.section(),
            ".pragma" => {
                self.next();
                self.next();
                self.expect(b';')
            }
            ".reg" => self.registers(statements),
            ".shared" | ".local" | ".param" | ".global" | ".const" => {
                let variables = self.variables(false)?;
                statements.extend(variables.into_iter().map(Statement::Variable));
                self.expect(b';')
            }
            _ if token.text.starts_with('.') => self.error(token, "a directive that this parser knows"),
            _ if self.peek_ahead(1).kind == TokenKind::Mark(b':') => {
                self.next();
                self.next();
                self.labelled(token.text, statements)
            }
            _ => {
                let instruction = self.instruction()?;
                statements.push(Statement::Instruction(instruction));
                Ok(())
            }
        }
    }

    fn labelled(&mut self, name: &'a str, statements: &mut Vec<Statement<'a>>) -> Result<(), ParseError> {
        match self.peek().text {
            ".branchtargets" => {
                self.next();
                let mut targets = vec![self.name()?];
                while self.accept(b',') {
                    targets.push(self.name()?);
                }
                statements.push(Statement::BranchTargets { name, targets });
                self.expect(b';')
            }
            ".callprototype" | ".calltargets" => Err(ParseError::Syntax {
                line: self.peek().line,
                message: "calls through pointers are not supported (function pointers, virtual functions)".into(),
            }),
            _ => {
                statements.push(Statement::Label(name));
                Ok(())
            }
        }
    }

    fn instruction(&mut self) -> Result<Instruction<'a>, ParseError> {
        let line = self.peek().line;
        let guard = if self.accept(b'@') {
            let negated = self.accept(b'!');
            Some(Guard { name: self.name()?, negated })
        } else {
            None
        };
        let opcode = self.name()?;
        let mut operands = vec![];
        if !self.is_mark(b';') {
            operands.push(self.operand(0)?);
            while self.accept(b',') {
                operands.push(self.operand(0)?);
            }
        }
        self.expect(b';')?;
        Ok(Instruction { guard, opcode, operands, line, location: self.location })
    }

    fn operands_until(&mut self, close: u8, depth: u32) -> Result<Vec<Operand<'a>>, ParseError> {
        let mut operands = vec![];
        while !self.accept(close) {
            operands.push(self.operand(depth + 1)?);
            if !self.is_mark(close) {
                self.expect(b',')?;
            }
        }
        Ok(operands)
    }

    fn operand(&mut self, depth: u32) -> Result<Operand<'a>, ParseError> {
        let token = self.peek();
        if depth > MAX_DEPTH {
            return self.error(token, "fewer nested operands");
        }
        match token.kind {
            TokenKind::Mark(b'{') => {
                self.next();
                Ok(Operand::Vector(self.operands_until(b'}', depth)?))
            }
            TokenKind::Mark(b'(') => {
                self.next();
                Ok(Operand::List(self.operands_until(b')', depth)?))
            }
            TokenKind::Mark(b'[') => {
                self.next();
                self.address(depth)
            }
            TokenKind::Mark(b'!') => {
                self.next();
                Ok(Operand::Not(self.name()?))
            }
            TokenKind::Float32(bits) => {
                self.next();
                Ok(Operand::Float32(bits))
            }
            TokenKind::Float64(bits) => {
                self.next();
                Ok(Operand::Float64(bits))
            }
            TokenKind::Word => {
                let name = self.name()?;
                if self.accept(b'|') {
                    Ok(Operand::Pair(name, self.name()?))
                } else if self.is_mark(b'+') || self.is_mark(b'-') {
                    Ok(Operand::NameOffset(name, self.offset()?))
                } else {
                    Ok(Operand::Name(name))
                }
            }
            TokenKind::Mark(b'-') if matches!(self.peek_ahead(1).kind, TokenKind::Float64(_)) => {
                self.next();
                match self.next().kind {
                    TokenKind::Float64(bits) => Ok(Operand::Float64(bits ^ (1 << 63))),
                    _ => self.error(token, "a number"),
                }
            }
            _ => Ok(Operand::Integer(self.integer()?)),
        }
    }

    /// `+8`, `-8` or `+-8` if there is one; otherwise 0.
    fn offset(&mut self) -> Result<i64, ParseError> {
        if self.accept(b'+') || self.is_mark(b'-') { Ok(self.integer()?.cast_signed()) } else { Ok(0) }
    }

    fn address(&mut self, depth: u32) -> Result<Operand<'a>, ParseError> {
        let (base, offset) = match self.operand(depth + 1)? {
            Operand::NameOffset(name, offset) => (Operand::Name(name), offset),
            base @ (Operand::Name(_) | Operand::Integer(_)) => (base, 0),
            _ => return self.error(self.peek(), "a register, variable or number as an address"),
        };
        let coordinates = if self.accept(b',') {
            self.operands_until(b']', depth)?
        } else {
            self.expect(b']')?;
            vec![]
        };
        Ok(Operand::Address { base: Box::new(base), offset, coordinates })
    }
}
