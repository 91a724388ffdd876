//! Parses declarations: parameters, variables with their initial values, registers.

use super::ast::{Initialiser, ScalarType, Space, Statement, Variable};
use super::cursor::{MAX_DEPTH, Parser};
use super::lexer::TokenKind;
use crate::error::ParseError;

impl<'a> Parser<'a> {
    pub(super) fn parameters(&mut self) -> Result<Vec<Variable<'a>>, ParseError> {
        self.expect(b'(')?;
        let mut parameters = vec![];
        while !self.accept(b')') {
            let token = self.peek();
            match token.text {
                ".param" => {}
                ".reg" => return self.error(token, "`.param` (register parameters are not supported)"),
                _ => return self.error(token, "`.param`"),
            }
            let mut variable = self.variable_head(false)?;
            variable.name = self.name()?;
            self.dimensions(&mut variable)?;
            parameters.push(variable);
            if !self.is_mark(b')') {
                self.expect(b',')?;
            }
        }
        Ok(parameters)
    }

    /// Space, alignment, vector and type of a declaration. The name is left empty.
    fn variable_head(&mut self, is_extern: bool) -> Result<Variable<'a>, ParseError> {
        let token = self.next();
        let space = token.text.strip_prefix('.').and_then(Space::from_name);
        let Some(space) = space else { return self.error(token, "a state space") };
        let (mut alignment, mut vector, mut scalar) = (None, 1, None);
        loop {
            let token = self.peek();
            match token.text {
                ".align" => {
                    self.next();
                    alignment = Some(self.alignment()?);
                }
                // `.attribute(.managed)`, `.attribute(.unified(…))`: how the host sees it.
                ".attribute" => {
                    self.next();
                    self.expect(b'(')?;
                    let mut depth = 1;
                    while depth > 0 {
                        match self.next().kind {
                            TokenKind::Mark(b'(') => depth += 1,
                            TokenKind::Mark(b')') => depth -= 1,
                            TokenKind::End => return self.error(self.peek(), "`)` of the attribute"),
                            _ => {}
                        }
                    }
                    continue;
                }
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                _ => match token.text.strip_prefix('.').and_then(ScalarType::from_name) {
                    Some(found) => scalar = Some(found),
                    None => break,
                },
            }
            if token.text != ".align" {
                self.next();
            }
        }
        let Some(scalar) = scalar else { return self.error(self.peek(), "a type") };
        if self.accept_word(".ptr") {
            self.pointer_attributes()?;
        }
        let natural = scalar.bytes().max(1) * vector;
        Ok(Variable {
            space,
            name: "",
            scalar,
            vector,
            elements: None,
            alignment: alignment.unwrap_or(natural),
            is_extern,
            initialiser: vec![],
            line: token.line,
        })
    }

    fn alignment(&mut self) -> Result<u32, ParseError> {
        let token = self.peek();
        let value = self.small()?;
        if value.is_power_of_two() && value <= 1 << 20 { Ok(value) } else { self.error(token, "a power of two") }
    }

    /// `.ptr[.space][ .align n]`: a hint about the target of a pointer parameter.
    fn pointer_attributes(&mut self) -> Result<(), ParseError> {
        loop {
            let token = self.peek();
            if token.text == ".align" {
                self.next();
                self.alignment()?;
            } else if token.text.strip_prefix('.').and_then(Space::from_name).is_some() {
                self.next();
            } else {
                return Ok(());
            }
        }
    }

    fn dimensions(&mut self, variable: &mut Variable<'a>) -> Result<(), ParseError> {
        while self.accept(b'[') {
            let line = self.peek().line;
            let size = if self.is_mark(b']') { 0 } else { self.integer()? };
            let total = variable.elements.unwrap_or(1).checked_mul(size).filter(|&n| n < 1 << 40);
            let Some(total) = total else {
                return Err(ParseError::Syntax { line, message: format!("`{}` is too large", variable.name) });
            };
            variable.elements = Some(total);
            self.expect(b']')?;
        }
        Ok(())
    }

    /// A declaration of one or more variables, up to its semicolon.
    pub(super) fn variables(&mut self, is_extern: bool) -> Result<Vec<Variable<'a>>, ParseError> {
        let head = self.variable_head(is_extern)?;
        let mut variables = vec![];
        loop {
            let mut variable = head.clone();
            variable.name = self.name()?;
            self.dimensions(&mut variable)?;
            if self.accept(b'=') {
                self.initialiser(&mut variable.initialiser, 0)?;
                if variable.elements == Some(0) {
                    variable.elements = Some(variable.initialiser.len() as u64);
                }
            }
            variables.push(variable);
            if !self.accept(b',') {
                return Ok(variables);
            }
        }
    }

    fn initialiser(&mut self, values: &mut Vec<Initialiser<'a>>, depth: u32) -> Result<(), ParseError> {
        let token = self.peek();
        if depth > MAX_DEPTH {
            return self.error(token, "fewer nested braces");
        }
        if self.accept(b'{') {
            while !self.accept(b'}') {
                self.initialiser(values, depth + 1)?;
                if !self.is_mark(b'}') {
                    self.expect(b',')?;
                }
            }
            return Ok(());
        }
        let value = match token.kind {
            TokenKind::Word => {
                self.next();
                let mut name = token.text;
                if name == "generic" && self.accept(b'(') {
                    name = self.name()?;
                    self.expect(b')')?;
                } else if self.is_mark(b'(') {
                    return self.error(token, "`generic(name)` or a name");
                }
                let offset = if self.accept(b'+') { self.integer()?.cast_signed() } else { 0 };
                Initialiser::Symbol { name, offset }
            }
            TokenKind::Float32(bits) => {
                self.next();
                Initialiser::Float32(bits)
            }
            TokenKind::Float64(bits) => {
                self.next();
                Initialiser::Float64(bits)
            }
            _ => Initialiser::Integer(self.integer()?),
        };
        values.push(value);
        Ok(())
    }

    pub(super) fn registers(&mut self, statements: &mut Vec<Statement<'a>>) -> Result<(), ParseError> {
        let line = self.next().line;
        let token = self.next();
        let scalar = token.text.strip_prefix('.').and_then(ScalarType::from_name);
        let Some(scalar) = scalar else { return self.error(token, "a scalar register type") };
        loop {
            let name = self.name()?;
            let mut count = None;
            if self.accept(b'<') {
                count = Some(self.small()?);
                self.expect(b'>')?;
            }
            statements.push(Statement::Registers { scalar, name, count, line });
            if !self.accept(b',') {
                return self.expect(b';');
            }
        }
    }
}
