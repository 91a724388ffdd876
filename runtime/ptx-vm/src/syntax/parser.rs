//! Parses the items of a module: its head, debugging information, functions, variables.

use super::ast::{Function, Location, Module};
use super::cursor::Parser;
use super::lexer::{TokenKind, tokens};
use crate::error::ParseError;

/// Reads a module.
pub(crate) fn parse(text: &str) -> Result<Module<'_>, ParseError> {
    let mut parser = Parser::new(tokens(text)?);
    while parser.peek().kind != TokenKind::End {
        parser.item()?;
    }
    if parser.module.version == (0, 0) {
        return Err(ParseError::Syntax { line: 1, message: "a module must start with `.version`".into() });
    }
    Ok(parser.module)
}

impl<'a> Parser<'a> {
    fn item(&mut self) -> Result<(), ParseError> {
        let mut is_extern = false;
        while let linkage @ (".visible" | ".weak" | ".common" | ".extern") = self.peek().text {
            is_extern |= linkage == ".extern";
            self.next();
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
                let variables = self.variables(is_extern)?;
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
    pub(super) fn file(&mut self) -> Result<(), ParseError> {
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
    pub(super) fn location(&mut self) -> Result<(), ParseError> {
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
        // A chain of inlined calls has an entry for each link. The outermost is the place in the user's code.
        if let Some(at) = inlined_at {
            let outer = self.module.locations.iter().rev().find(|l| (l.file, l.line) == at && l.inlined_at.is_some());
            inlined_at = outer.and_then(|l| l.inlined_at).or(inlined_at);
        }
        self.module.locations.push(Location { file, line, inlined_at });
        self.location = self.module.locations.len() as u32;
        Ok(())
    }

    /// Debug sections contain nothing that is executed.
    pub(super) fn section(&mut self) -> Result<(), ParseError> {
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
            max_registers: None,
            min_blocks: None,
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
                    let first = self.numbers()?.first().copied();
                    match token.text {
                        ".maxnreg" => function.max_registers = first,
                        ".minnctapersm" => function.min_blocks = first,
                        _ => {}
                    }
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
}

#[cfg(test)]
mod tests {
    use super::super::ast::{Guard, Operand, Statement};
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
