//! Lays C++ out: braces give the indentation, so that no emitter writes blanks.

use std::fmt;

/// C++ text, line by line. A line is indented by the braces around it; inside of namespaces it isn't.
///
/// Lines are written by [`lines`](Self::lines), or by `writeln!`. A text that begins with a line break is a template: it
/// has the indentation of the Rust code around it, which is taken away.
///
/// ```text
/// writeln! { code, "
///     struct Held {{
///         {members}
///     }};" }
/// ```
///
/// (In braces, a macro is left as it is by `rustfmt`.)
///
/// - Blanks beyond what braces give stay: that is how a line is continued on the next one.
/// - Lines of a value as `{members}` are indented as the others. If the value is empty, there is no line.
/// - Empty lines stay.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    text: String,
    style: Style,
    /// The indentation inside of each brace that is open.
    open: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Style {
    /// Blanks for a brace.
    width: usize,
    /// Whether directives are indented as statements are.
    indents_directives: bool,
}

impl Writer {
    /// A text in the style of the headers in `src/device`.
    pub(crate) const fn new() -> Self {
        Self::of(Style { width: 4, indents_directives: false })
    }

    /// A text in TVM's style.
    pub(crate) const fn as_tvm() -> Self {
        Self::of(Style { width: 2, indents_directives: true })
    }

    const fn of(style: Style) -> Self {
        Self { text: String::new(), style, open: Vec::new() }
    }

    /// Writes lines.
    pub(crate) fn lines(&mut self, text: &str) {
        let template = text.strip_prefix('\n');
        let text = template.unwrap_or(text);
        let text = text.strip_suffix('\n').unwrap_or(text);
        if text.is_empty() {
            return;
        }
        let first = text.split('\n').find(|line| !unindented(line).is_empty());
        let base = template.and(first).map_or(0, |line| line.len() - unindented(line).len());
        let mut start = None;
        for line in text.split('\n') {
            let content = unindented(line);
            if !content.is_empty() {
                let own = line.len() - content.len();
                self.line(content, |here| own.saturating_sub((base + here).saturating_sub(*start.get_or_insert(here))));
            } else if line.is_empty() {
                self.blank();
            }
        }
    }

    /// Writes lines: what `write!` and `writeln!` call.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) {
        self.lines(&text.to_string());
    }

    /// Writes an empty line.
    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Writes whole lines as they are, such as a user's.
    pub(crate) fn verbatim(&mut self, lines: &str) {
        self.text.push_str(lines);
    }

    /// Writes a line; `more` gives the blanks beyond the indentation, from that.
    fn line(&mut self, content: &str, more: impl FnOnce(usize) -> usize) {
        let is_directive = content.starts_with('#');
        let closing = content.len() - content.trim_start_matches('}').len();
        self.open.truncate(self.open.len().saturating_sub(closing));
        let here = self.open.last().copied().unwrap_or(0);
        let more = more(here);
        let blanks = if is_directive && !self.style.indents_directives { 0 } else { here + more };
        self.text.extend(std::iter::repeat_n(' ', blanks));
        self.text.push_str(content);
        self.text.push('\n');
        if is_directive {
            return;
        }
        let inside = here + if content.starts_with("namespace ") { 0 } else { self.style.width };
        for brace in braces(&content[closing..]) {
            if brace == '{' {
                self.open.push(inside);
            } else {
                self.open.pop();
            }
        }
    }

    /// Lets the next line have its own number again, in a file of this name, after lines with a user's numbers.
    pub(crate) fn resume_numbering(&mut self, file: &str) {
        let next = self.text.lines().count() + 2;
        writeln!(self, "#line {next} {file:?}");
    }

    /// The written text.
    pub(crate) fn text(self) -> String {
        self.text
    }

    /// The written text as a value in a template: without the last line's end.
    pub(crate) fn value(self) -> String {
        let mut text = self.text();
        text.pop();
        text
    }
}

fn unindented(line: &str) -> &str {
    line.trim_start_matches(' ')
}

/// The braces of a line that are neither in a string nor in a comment.
fn braces(line: &str) -> impl Iterator<Item = char> {
    let (mut quoted, mut before) = (false, ' ');
    let code = line.chars().scan((), move |(), c| {
        if !quoted && before == '/' && c == '/' {
            return None;
        }
        if c == '"' && before != '\\' {
            quoted = !quoted;
        }
        // A backslash after a backslash is one of the text.
        before = if before == '\\' && c == '\\' { ' ' } else { c };
        Some((c, quoted))
    });
    code.filter(|(c, quoted)| !quoted && matches!(c, '{' | '}')).map(|(c, _)| c)
}

/// A user's text as part of a line of C++: what would end the line, or has no sign, is a question mark.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_indent() {
        let mut code = Writer::new();
        code.lines("namespace epilogue {");
        code.blank();
        let (members, none) = ("float x;\nfloat y;", "");
        writeln! { code, "
            struct Held {{
                {members}
                {none}

                Held(int n)
                    : x(n) {{
                    #pragma unroll
                    for (int i = 0; i < n; ++i)
                        y += x;
                    if (n) {{
                        asm(\"{{ // \\\"{{\" ::);  // {{
                    }} else {{
                        x = {{}};" }
        code.lines("}\n}");
        code.lines("    continued();");
        code.lines("};");
        code.lines("}  // namespace epilogue");
        let expected = "\
namespace epilogue {

struct Held {
    float x;
    float y;

    Held(int n)
        : x(n) {
#pragma unroll
        for (int i = 0; i < n; ++i)
            y += x;
        if (n) {
            asm(\"{ // \\\"{\" ::);  // {
        } else {
            x = {};
        }
    }
        continued();
};
}  // namespace epilogue
";
        assert_eq!(code.text(), expected);
    }

    #[test]
    fn what_was_written_can_be_written_again() {
        let mut inner = Writer::as_tvm();
        inner.lines("#pragma unroll\nfor (;;) {\nf(\n    1);\n}");
        assert_eq!(inner.clone().value(), "#pragma unroll\nfor (;;) {\n  f(\n    1);\n}");
        let mut code = Writer::as_tvm();
        code.lines("void f() {");
        code.lines(&inner.text());
        code.lines("}");
        assert_eq!(code.text(), "void f() {\n  #pragma unroll\n  for (;;) {\n    f(\n      1);\n  }\n}\n");
    }

    #[test]
    fn numbers_return_to_the_file() {
        let mut code = Writer::new();
        code.lines("int x;\n#line 7 \"user.rs\"\nint y;");
        code.resume_numbering("k.cu");
        assert_eq!(code.text(), "int x;\n#line 7 \"user.rs\"\nint y;\n#line 5 \"k.cu\"\n");
    }
}
