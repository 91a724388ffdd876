//! Tokens to the syntax tree.

use super::ast::{
    Function, Guard, Initialiser, Instruction, Location, Module, Operand, ScalarType, Space, Statement, Variable,
};
use super::lexer::{Token, TokenKind, tokens};
use crate::error::ParseError;

/// Scopes nested deeper than this are refused, so that hostile text can't exhaust the stack.
const MAX_DEPTH: u32 = 64;

/// Reads a module.
pub(crate) fn parse(text: &str) -> Result<Module<'_>, ParseError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, module: Module::default(), location: 0, depth: 0 };
    while parser.peek().kind != TokenKind::End {
        parser.item()?;
    }
    if parser.module.version == (0, 0) {
        return Err(ParseError::Syntax { line: 1, message: "a module must start with `.version`".into() });
    }
    Ok(parser.module)
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    module: Module<'a>,
    location: u32,
    depth: u32,
}

#[derive(Default)]
struct Linkage {
    is_extern: bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens[self.at]
    }

    fn peek_ahead(&self, n: usize) -> Token<'a> {
        self.tokens[(self.at + n).min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.tokens[self.at];
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn error<T>(&self, token: Token<'_>, expected: &str) -> Result<T, ParseError> {
        let found = if token.kind == TokenKind::End { "the end of the text" } else { token.text };
        Err(ParseError::Syntax { line: token.line, message: format!("expected {expected}, found `{found}`") })
    }

    fn is_mark(&self, mark: u8) -> bool {
        self.peek().kind == TokenKind::Mark(mark)
    }

    fn accept(&mut self, mark: u8) -> bool {
        let found = self.is_mark(mark);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, mark: u8) -> Result<(), ParseError> {
        if self.accept(mark) { Ok(()) } else { self.error(self.peek(), &format!("`{}`", char::from(mark))) }
    }

    fn is_word(&self, text: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Word && token.text == text
    }

    fn accept_word(&mut self, text: &str) -> bool {
        let found = self.is_word(text);
        if found {
            self.next();
        }
        found
    }

    fn word(&mut self, expected: &str) -> Result<&'a str, ParseError> {
        let token = self.next();
        if token.kind == TokenKind::Word { Ok(token.text) } else { self.error(token, expected) }
    }

    fn name(&mut self) -> Result<&'a str, ParseError> {
        let token = self.peek();
        if token.text.starts_with('.') {
            return self.error(token, "a name");
        }
        self.word("a name")
    }

    fn integer(&mut self) -> Result<u64, ParseError> {
        let negative = self.accept(b'-');
        let token = self.next();
        match token.kind {
            TokenKind::Integer(value) if negative => Ok(value.wrapping_neg()),
            TokenKind::Integer(value) => Ok(value),
            _ => self.error(token, "an integer"),
        }
    }

    fn small(&mut self) -> Result<u32, ParseError> {
        let token = self.peek();
        let value = self.integer()?;
        u32::try_from(value)
            .map_err(|_| ParseError::Syntax { line: token.line, message: format!("{value} is too large here") })
    }

    /// `1, 2, 3`
    fn numbers(&mut self) -> Result<Vec<u32>, ParseError> {
        let mut numbers = vec![self.small()?];
        while self.accept(b',') {
            numbers.push(self.small()?);
        }
        Ok(numbers)
    }

    fn item(&mut self) -> Result<(), ParseError> {
        let mut linkage = Linkage::default();
        loop {
            let token = self.peek();
            match token.text {
                ".visible" | ".weak" | ".common" => {
                    self.next();
                }
                ".extern" => {
                    self.next();
                    linkage.is_extern = true;
                }
                _ => break,
            }
        }
        let token = self.peek();
        match token.text {
            ".version" => self.version(),
            ".target" => {
                self.next();
                self.module.target = self.word("a target")?;
                while self.accept(b',') {
                    self.word("a target option")?;
                }
                Ok(())
            }
            ".address_size" => {
                self.next();
                match self.integer()? {
                    64 => Ok(()),
                    other => Err(ParseError::Syntax {
                        line: token.line,
                        message: format!("`.address_size {other}`: only 64 is supported"),
                    }),
                }
            }
            ".file" => self.file(),
            ".loc" => self.location(),
            ".section" => self.section(),
            ".entry" | ".func" => {
                let function = self.function()?;
                self.module.functions.push(function);
                Ok(())
            }
            ".global" | ".const" | ".shared" | ".local" => {
                let variables = self.variables(&linkage)?;
                self.module.variables.extend(variables);
                self.expect(b';')
            }
            _ if token.kind == TokenKind::Mark(b';') => {
                self.next();
                Ok(())
            }
            _ => self.error(token, "a directive that this parser knows"),
        }
    }

    fn version(&mut self) -> Result<(), ParseError> {
        self.next();
        let token = self.next();
        let parts = token.text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match parts {
            Some(version) => {
                self.module.version = version;
                Ok(())
            }
            None => self.error(token, "a version such as 9.0"),
        }
    }

    /// `.file 1 "name"[, timestamp, size]`
    fn file(&mut self) -> Result<(), ParseError> {
        self.next();
        let number = self.small()?;
        let token = self.next();
        if token.kind != TokenKind::Text {
            return self.error(token, "a file name in quotes");
        }
        self.module.files.push((number, token.text));
        while self.accept(b',') {
            self.integer()?;
        }
        Ok(())
    }

    /// `.loc 1 9 5[, function_name label[+n], inlined_at 1 2 3]` (PTX ISA §11.5.3)
    fn location(&mut self) -> Result<(), ParseError> {
        self.next();
        let (file, line, _column) = (self.small()?, self.small()?, self.small()?);
        let mut inlined_at = None;
        while self.accept(b',') {
            match self.word("`function_name` or `inlined_at`")? {
                "function_name" => {
                    self.name()?;
                    if self.accept(b'+') {
                        self.integer()?;
                    }
                }
                "inlined_at" => {
                    inlined_at = Some((self.small()?, self.small()?));
                    self.small()?;
                }
                _ => return self.error(self.peek_ahead(0), "`function_name` or `inlined_at`"),
            }
        }
        // A chain of inlined calls names each link; the outermost is what the user wrote.
        if let Some(at) = inlined_at {
            let outer = self.module.locations.iter().rev().find(|l| (l.file, l.line) == at && l.inlined_at.is_some());
            inlined_at = outer.and_then(|l| l.inlined_at).or(inlined_at);
        }
        self.module.locations.push(Location { file, line, inlined_at });
        self.location = self.module.locations.len() as u32;
        Ok(())
    }

    /// Debug sections carry nothing that is executed.
    fn section(&mut self) -> Result<(), ParseError> {
        while !self.is_mark(b'{') {
            if self.next().kind == TokenKind::End {
                return self.error(self.peek(), "`{` of the section");
            }
        }
        let mut depth = 0;
        loop {
            match self.next().kind {
                TokenKind::Mark(b'{') => depth += 1,
                TokenKind::Mark(b'}') => depth -= 1,
                TokenKind::End => return self.error(self.peek(), "`}` of the section"),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn function(&mut self) -> Result<Function<'a>, ParseError> {
        let line = self.peek().line;
        let is_entry = self.next().text == ".entry";
        if self.peek().text.starts_with(".attribute") {
            return self.error(self.peek(), "a function without `.attribute`");
        }
        let returns = if self.is_mark(b'(') { self.parameters()? } else { vec![] };
        let name = self.name()?;
        let parameters = if self.is_mark(b'(') { self.parameters()? } else { vec![] };
        let mut function = Function {
            name,
            is_entry,
            returns,
            parameters,
            body: None,
            max_threads: None,
            required_block: None,
            required_cluster: None,
            line,
        };
        loop {
            let token = self.peek();
            if self.accept(b';') {
                return Ok(function);
            }
            if self.is_mark(b'{') {
                self.location = 0;
                function.body = Some(self.block()?);
                return Ok(function);
            }
            match token.text {
                ".maxntid" | ".reqntid" => {
                    self.next();
                    let mut n = self.numbers()?;
                    n.resize(3, 1);
                    function.max_threads = n[0].checked_mul(n[1]).and_then(|x| x.checked_mul(n[2]));
                    if token.text == ".reqntid" {
                        function.required_block = Some([n[0], n[1], n[2]]);
                    }
                }
                ".reqnctapercluster" => {
                    self.next();
                    let mut n = self.numbers()?;
                    n.resize(3, 1);
                    function.required_cluster = Some([n[0], n[1], n[2]]);
                }
                ".minnctapersm" | ".maxnctapersm" | ".maxnreg" | ".maxclusterrank" => {
                    self.next();
                    self.numbers()?;
                }
                ".explicitcluster" | ".noreturn" | ".blocksareclusters" => {
                    self.next();
                }
                ".pragma" => {
                    self.next();
                    self.next();
                    self.expect(b';')?;
                }
                _ => return self.error(token, "a performance directive, `{` or `;`"),
            }
        }
    }

    fn parameters(&mut self) -> Result<Vec<Variable<'a>>, ParseError> {
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

    /// Space, alignment, vector and type of a declaration; the name is left empty.
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
                // `.attribute(.managed)`, `.attribute(.unified(…))`: where the host sees it.
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

    /// `.ptr[.space][ .align n]`: a hint about what a kernel parameter points to.
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
    fn variables(&mut self, linkage: &Linkage) -> Result<Vec<Variable<'a>>, ParseError> {
        let head = self.variable_head(linkage.is_extern)?;
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

    fn block(&mut self) -> Result<Vec<Statement<'a>>, ParseError> {
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
                let variables = self.variables(&Linkage::default())?;
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
                message: "calls through pointers are not supported (function pointers, virtual functions, recursion \
                          that the compiler could not bound)"
                    .into(),
            }),
            _ => {
                statements.push(Statement::Label(name));
                Ok(())
            }
        }
    }

    fn registers(&mut self, statements: &mut Vec<Statement<'a>>) -> Result<(), ParseError> {
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

    /// `+8`, `-8` or `+-8`, if one stands here; else 0.
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 9.0\n.target sm_80\n.address_size 64\n";

    fn body(text: &str) -> Vec<String> {
        let text = format!("{HEAD}.visible .entry k()\n{{\n{text}\n}}");
        let module = parse(&text).unwrap();
        module.functions[0].body.as_ref().unwrap().iter().map(|s| format!("{s:?}")).collect()
    }

    #[test]
    fn every_kind_of_operand_is_read() {
        let text = format!(
            "{HEAD}.entry k(.param .u64 p, .param .align 64 .b8 map[128]) {{
            @!%p1 cp.async.bulk.tensor.2d.shared::cluster.global [%r1+-16], [%rd1, {{%r2, -3}}], [sm+8];
            setp.eq.f32 %p1|%p2, %f1, 0f3F800000, !%p3;
            }}"
        );
        let module = parse(&text).unwrap();
        let kernel = &module.functions[0];
        assert_eq!((kernel.parameters[1].bytes(), kernel.parameters[1].alignment), (128, 64));
        let body = kernel.body.as_ref().unwrap();
        let Statement::Instruction(copy) = &body[0] else { panic!() };
        assert_eq!(copy.guard, Some(Guard { name: "%p1", negated: true }));
        assert_eq!(
            copy.operands[1],
            Operand::Address {
                base: Box::new(Operand::Name("%rd1")),
                offset: 0,
                coordinates: vec![Operand::Vector(vec![Operand::Name("%r2"), Operand::Integer(-3i64 as u64)])]
            }
        );
        let Statement::Instruction(compare) = &body[1] else { panic!() };
        assert_eq!(compare.operands[0], Operand::Pair("%p1", "%p2"));
        assert_eq!(compare.operands[3], Operand::Not("%p3"));
    }

    #[test]
    fn inlined_locations_name_the_outermost_call() {
        let text = format!(
            "{HEAD}.entry k() {{
            .loc 1 9 5
            .loc 2 2558 9, function_name $L__info_string0, inlined_at 1 9 5
            .loc 2 310 23, function_name $L__info_string1+4, inlined_at 2 2558 9
            ret;
            }}
            .file 1 \"a.cu\"
            .section .debug_str {{ $L: .b8 1, 2 }}"
        );
        let module = parse(&text).unwrap();
        assert_eq!(module.locations[2], Location { file: 2, line: 310, inlined_at: Some((1, 9)) });
        assert_eq!(module.files, [(1, "a.cu")]);
    }

    #[test]
    fn labels_and_scopes_of_inline_assembly_are_read() {
        let statements =
            body("{ .reg .pred p; W1: mbarrier.try_wait.parity.shared::cta.b64 p,[%r1],%r2; @p bra D1; bra W1; D1: }");
        assert_eq!(statements.len(), 1);
    }

    #[test]
    fn cut_text_is_an_error_and_never_a_panic() {
        let text = format!(
            "{HEAD}.global .align 4 .b8 t[4] = {{1, 2, generic(t)+4, 0f3F800000}};\n.visible .entry k(.param .u64 p)\n.maxntid 128, 1, 1\n{{\n.reg .b32 %r<4>;\nL: @%p1 ld.global.v2.u32 {{%r1, %r2}}, [%r3+4];\n}}"
        );
        assert!(parse(&text).is_ok());
        for end in 0..text.len() {
            if text.is_char_boundary(end) {
                let _ = parse(&text[..end]);
            }
        }
        let deep = format!("{HEAD}.entry k() {}", "{".repeat(100_000));
        assert!(parse(&deep).is_err());
        let deep = format!("{HEAD}.entry k() {{ mov.u32 {}", "{".repeat(100_000));
        assert!(parse(&deep).is_err());
    }
}
