//! Splits text into tokens (PTX ISA §4.1–4.5).

use crate::error::ParseError;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name, register, opcode or directive: a run of letters, digits and `_ $ % . ::`. Adjacent directives without a
    /// blank between them, such as `.reg.b32`, are separate words.
    Word,
    /// An integer literal with its value.
    Integer(u64),
    /// `0f…`: the bits of an f32.
    Float32(u32),
    /// `0d…` or a decimal literal: the bits of an f64.
    Float64(u64),
    /// A string literal. The token's text is the text between the quotes.
    Text,
    /// One punctuation character.
    Mark(u8),
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'a str,
    /// Line in the PTX text, counted from 1.
    pub(crate) line: u32,
}

/// Splits `text` into tokens; the last one is [`TokenKind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut lexer = Lexer { text, at: 0, line: 1, tokens: Vec::with_capacity(text.len() / 4) };
    while lexer.next()? {}
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn error(&self, message: String) -> ParseError {
        ParseError::Syntax { line: self.line, message }
    }

    fn push(&mut self, kind: TokenKind, start: usize, end: usize) {
        self.tokens.push(Token { kind, text: &self.text[start..end], line: self.line });
    }

    fn next(&mut self) -> Result<bool, ParseError> {
        self.skip_blank()?;
        let start = self.at;
        if start >= self.text.len() {
            self.push(TokenKind::End, start, start);
            return Ok(false);
        }
        let byte = self.byte(0);
        if byte.is_ascii_digit() {
            self.number()?;
        } else if is_word(byte) {
            self.word();
        } else if byte == b'"' {
            self.string()?;
        } else if byte.is_ascii_punctuation() {
            self.at += 1;
            self.push(TokenKind::Mark(byte), start, start + 1);
        } else {
            let shown = self.text[start..].chars().next().unwrap_or('?');
            return Err(self.error(format!("unexpected character {shown:?}")));
        }
        Ok(true)
    }

    fn skip_blank(&mut self) -> Result<(), ParseError> {
        while self.at < self.text.len() {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (b'/', b'/') => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                (b'/', b'*') => {
                    let Some(length) = self.text[self.at + 2..].find("*/") else {
                        return Err(self.error("comment without an end".into()));
                    };
                    let end = self.at + 2 + length + 2;
                    self.line += count_lines(&self.text.as_bytes()[self.at..end]);
                    self.at = end;
                }
                (byte, _) if byte.is_ascii_whitespace() || byte == 0 => self.at += 1,
                _ => break,
            }
        }
        Ok(())
    }

    fn word(&mut self) {
        let start = self.at;
        let directive = self.byte(0) == b'.';
        loop {
            if directive && self.at > start && self.byte(0) == b'.' {
                break;
            }
            if is_word(self.byte(0)) {
                self.at += 1;
            } else if self.byte(0) == b':' && self.byte(1) == b':' {
                self.at += 2;
            } else {
                break;
            }
        }
        self.push(TokenKind::Word, start, self.at);
    }

    fn string(&mut self) -> Result<(), ParseError> {
        let start = self.at + 1;
        let Some(length) = self.text[start..].find(['"', '\n']) else {
            return Err(self.error("string without an end".into()));
        };
        if self.text.as_bytes()[start + length] == b'\n' {
            return Err(self.error("string without an end".into()));
        }
        self.push(TokenKind::Text, start, start + length);
        self.at = start + length + 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        while self.byte(0).is_ascii_alphanumeric() {
            self.at += 1;
        }
        let mut decimal_point = false;
        if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
            decimal_point = true;
            self.at += 1;
            while self.byte(0).is_ascii_alphanumeric() {
                self.at += 1;
            }
        }
        let text = &self.text[start..self.at];
        // The sign of an exponent ends a run of letters and digits.
        if decimal_point && text.ends_with(['e', 'E']) && matches!(self.byte(0), b'+' | b'-') {
            self.at += 1;
            while self.byte(0).is_ascii_digit() {
                self.at += 1;
            }
        }
        let text = &self.text[start..self.at];
        let kind = literal(text, decimal_point)
            .ok_or_else(|| self.error(format!("`{text}` is not a number that PTX knows")))?;
        self.push(kind, start, self.at);
        Ok(())
    }
}

fn literal(text: &str, decimal_point: bool) -> Option<TokenKind> {
    if decimal_point {
        return text.parse::<f64>().ok().map(|v| TokenKind::Float64(v.to_bits()));
    }
    let (prefix, rest) = text.split_at_checked(2).unwrap_or((text, ""));
    let integer = |digits: &str, radix| {
        let digits = digits.strip_suffix(['U', 'u']).unwrap_or(digits);
        u64::from_str_radix(digits, radix).ok().map(TokenKind::Integer)
    };
    match prefix {
        "0f" | "0F" if rest.len() == 8 => u32::from_str_radix(rest, 16).ok().map(TokenKind::Float32),
        "0d" | "0D" if rest.len() == 16 => u64::from_str_radix(rest, 16).ok().map(TokenKind::Float64),
        "0x" | "0X" => integer(rest, 16),
        "0b" | "0B" => integer(rest, 2),
        _ if text.len() > 1 && text.starts_with('0') && text != "0U" => integer(&text[1..], 8),
        _ => integer(text, 10),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

fn count_lines(bytes: &[u8]) -> u32 {
    bytes.iter().map(|&b| u32::from(b == b'\n')).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text).unwrap().iter().map(|t| t.kind).collect()
    }

    #[test]
    fn numbers_are_read_in_every_notation() {
        use TokenKind::*;
        assert_eq!(
            kinds("10 0x1F 017 0b11 5U 0f3F800000 0d3FF0000000000000 1.5 0"),
            [
                Integer(10),
                Integer(31),
                Integer(15),
                Integer(3),
                Integer(5),
                Float32(0x3f80_0000),
                Float64(0x3ff0_0000_0000_0000),
                Float64(1.5f64.to_bits()),
                Integer(0),
                End
            ]
        );
    }

    #[test]
    fn scopes_belong_to_a_word_and_a_label_colon_does_not() {
        let t = tokens("mbarrier.init.shared::cta.b64\nL1: %tid.x // c").unwrap();
        let texts: Vec<_> = t.iter().map(|t| (t.text, t.line)).collect();
        assert_eq!(texts, [("mbarrier.init.shared::cta.b64", 1), ("L1", 2), (":", 2), ("%tid.x", 2), ("", 2)]);
    }

    #[test]
    fn directives_need_no_blank_between_them() {
        let t = tokens("{.reg.b32 a; .shared::cta.align 4 ld.b32").unwrap();
        let texts: Vec<_> = t.iter().map(|t| t.text).collect();
        assert_eq!(texts, ["{", ".reg", ".b32", "a", ";", ".shared::cta", ".align", "4", "ld.b32", ""]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_line() {
        for text in ["\n\"abc", "\n/* x", "\n0x", "\n0fXYZ", "\n\u{e9}"] {
            assert!(matches!(tokens(text), Err(ParseError::Syntax { line: 2, .. })), "{text:?}");
        }
    }
}
