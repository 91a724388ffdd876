//! Reads NVRTC's log: resources, and diagnostics with their locations.

use std::fmt;
use std::path::Path;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The source does not compile.
    Error,
    /// It compiles, but something is suspicious.
    Warning,
}

/// One message of the compiler or of ptxas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// The file and line that it refers to, according to the source's `#line` directives.
    pub location: Option<(String, u32)>,
    /// For ptxas's messages, the line of the PTX.
    pub ptx_line: Option<u32>,
    /// The code of the message: ptxas's `C7511`, the compiler's `177-D`.
    pub code: Option<String>,
    /// The text of the message.
    pub message: String,
    /// The CUDA C++ that it refers to, and the caret under it, if the log shows them.
    pub excerpt: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line)) = &self.location {
            write!(f, "{file}:{line}: ")?;
        }
        f.write_str(match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(line) = self.ptx_line {
            write!(f, " (line {line} of the PTX)")?;
        }
        if let Some(excerpt) = &self.excerpt {
            for line in excerpt.lines() {
                write!(f, "\n  | {line}")?;
            }
        }
        Ok(())
    }
}

/// The resources of a multiprocessor that a kernel needs, as ptxas reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The kernel's symbol.
    pub kernel: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of stack per thread.
    pub stack_bytes: u32,
    /// Bytes that each thread stores to memory because it runs out of registers.
    pub spill_store_bytes: u32,
    /// Bytes that each thread loads again.
    pub spill_load_bytes: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Static shared memory, in bytes.
    pub shared_bytes: u32,
}

/// The log of a compilation. It has resources only for machine code: registers are not yet allocated in PTX.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileLog {
    /// The log as NVRTC wrote it.
    pub text: String,
    /// Every kernel's resources.
    pub kernels: Vec<Resources>,
    /// Errors and warnings, including those of ptxas (`C7511` and so on).
    pub diagnostics: Vec<Diagnostic>,
}

impl CompileLog {
    /// Reads a log of NVRTC (the format is the same from 12.9 to 13.5).
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut log = Self { text: text.to_owned(), ..Self::default() };
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(rest) = line.strip_prefix("ptxas") {
                log.ptxas_line(rest);
            } else if let Some(mut diagnostic) = compiler_line(line) {
                let mut excerpt = String::new();
                while let Some(shown) = lines.next_if(|l| l.starts_with("  ")) {
                    excerpt.push_str(shown.trim_end());
                    excerpt.push('\n');
                }
                diagnostic.excerpt = Some(unindented(&excerpt)).filter(|e| !e.is_empty());
                log.diagnostics.push(diagnostic);
            }
        }
        log
    }

    /// The resources of one kernel.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Resources> {
        self.kernels.iter().find(|k| k.kernel == name)
    }

    /// The warnings of a successful compilation.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|d| d.severity == Severity::Warning)
    }

    /// Reads one line of ptxas, after its name.
    fn ptxas_line(&mut self, rest: &str) {
        let Some((head, message)) = rest.split_once(':') else {
            return self.ptxas_properties(rest.trim_start_matches([' ', '.']));
        };
        let (head, message) = (head.trim(), message.trim());
        let severity = match head {
            "info" => None,
            _ if head.ends_with("error") || head == "fatal" => Some(Severity::Error),
            _ if head.ends_with("warning") => Some(Severity::Warning),
            _ => return,
        };
        let (code, message) = coded(message);
        if let Some(severity) = severity.or(code.as_ref().map(|_| Severity::Warning)) {
            let ptx_line = head.split("line ").nth(1).and_then(leading_number);
            let message = message.to_owned();
            let diagnostic = Diagnostic { severity, location: None, ptx_line, code, message, excerpt: None };
            self.diagnostics.push(diagnostic);
        } else if let Some(rest) = message.strip_prefix("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            self.kernels.push(Resources { kernel, ..Resources::default() });
        } else {
            self.ptxas_properties(message);
        }
    }

    /// Reads two lines about the kernel last named: `Used 12 registers, used 1 barriers, 128 bytes smem, …` and
    /// `0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads`.
    fn ptxas_properties(&mut self, properties: &str) {
        let Some(kernel) = self.kernels.last_mut() else { return };
        for property in properties.split(", ") {
            let property = property.trim();
            let property = property.strip_prefix("Used ").or(property.strip_prefix("used ")).unwrap_or(property);
            let Some((number, what)) = property.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u32>() else { continue };
            match what {
                "registers" => kernel.registers = number,
                "barriers" => kernel.barriers = number,
                "bytes smem" => kernel.shared_bytes = number,
                "bytes stack frame" => kernel.stack_bytes = number,
                "bytes spill stores" => kernel.spill_store_bytes = number,
                "bytes spill loads" => kernel.spill_load_bytes = number,
                _ => {}
            }
        }
    }

    /// Adds to ptxas's messages the places in the user's files that the PTX's `.loc` directives name.
    pub(crate) fn locate(&mut self, ptx: &str) {
        for diagnostic in &mut self.diagnostics {
            if diagnostic.location.is_none()
                && let Some(line) = diagnostic.ptx_line
            {
                diagnostic.location = location_in_ptx(ptx, line as usize);
                diagnostic.excerpt = ptx.lines().nth(line as usize - 1).map(|l| l.trim().to_owned());
            }
        }
    }
}

/// The file and line that the last `.loc` before a line of PTX names.
fn location_in_ptx(ptx: &str, line: usize) -> Option<(String, u32)> {
    let before: Vec<&str> = ptx.lines().take(line).collect();
    let loc = before.iter().rev().find_map(|l| l.trim_start().strip_prefix(".loc"))?;
    let mut words = loc.split_whitespace();
    let (file, line) = (words.next()?, words.next()?.parse().ok()?);
    let name = ptx.lines().find_map(|l| {
        let (number, rest) = l.trim_start().strip_prefix(".file")?.trim_start().split_once(char::is_whitespace)?;
        (number == file).then(|| rest.split('"').nth(1)).flatten()
    })?;
    // NVRTC adds the working folder to relative names here, and only here.
    let name = std::env::current_dir()
        .ok()
        .and_then(|folder| Some(Path::new(name).strip_prefix(folder).ok()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| name.to_owned());
    Some((name, line))
}

/// `file(12): error: …`, `file(12): warning #177-D: …`, `nvrtc: error: …`.
fn compiler_line(line: &str) -> Option<Diagnostic> {
    let diagnostic = |severity, location, code: Option<&str>, message: &str| Diagnostic {
        severity,
        location,
        ptx_line: None,
        code: code.map(str::to_owned),
        message: message.to_owned(),
        excerpt: None,
    };
    if let Some(message) = line.strip_prefix("nvrtc: error: ") {
        return Some(diagnostic(Severity::Error, None, None, message));
    }
    // A file's name may have parentheses: the location is the first `(number): `.
    let (split, number, rest) = line.match_indices('(').find_map(|(at, _)| {
        let (number, rest) = line[at + 1..].split_once("): ")?;
        Some((at, number.parse::<u32>().ok()?, rest))
    })?;
    let (head, message) = rest.split_once(": ")?;
    let (kind, code) = head.split_once(" #").map_or((head, None), |(kind, code)| (kind, Some(code)));
    let severity = match kind {
        "error" | "catastrophic error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    Some(diagnostic(severity, Some((line[..split].to_owned(), number)), code, message))
}

/// `(C7508) Potential …`, split into its code and the rest.
fn coded(message: &str) -> (Option<String>, &str) {
    message
        .strip_prefix("(C")
        .and_then(|rest| rest.split_once(')'))
        .filter(|(digits, _)| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        .map_or((None, message), |(digits, rest)| (Some(format!("C{digits}")), rest.trim_start()))
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The lines without the indentation that all of them have.
fn unindented(text: &str) -> String {
    let indent = text.lines().map(|l| l.len() - l.trim_start().len()).min().unwrap_or(0);
    let lines: Vec<&str> = text.lines().map(|l| &l[indent..]).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    // The logs are from NVRTC 13.0.88.
    const GOOD: &str = "\
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k2' for 'sm_80'
ptxas info    : Function properties for k2
ptxas         .     1776 bytes stack frame, 1688 bytes spill stores, 1904 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 1776 bytes cumulative stack size, 128 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 1.125 ms
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 364 bytes cmem[0]
";

    #[test]
    fn resources_and_advice() {
        let log = CompileLog::parse(GOOD);
        let first = Resources {
            kernel: "k2".to_owned(),
            registers: 64,
            stack_bytes: 1776,
            spill_store_bytes: 1688,
            spill_load_bytes: 1904,
            barriers: 1,
            shared_bytes: 128,
        };
        let second = Resources { kernel: "k".to_owned(), registers: 12, ..Resources::default() };
        assert_eq!(log.kernels, [first, second.clone()]);
        assert_eq!(log.kernel("k"), Some(&second));
        let warnings: Vec<_> = log.warnings().map(ToString::to_string).collect();
        expect![[r#"
            [
                "warning C7508: Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.",
            ]
        "#]]
        .assert_debug_eq(&warnings);
    }

    #[test]
    fn errors_keep_the_users_places() {
        let log = CompileLog::parse(
            "src/user (1) file.rs(12): error: identifier \"foo\" is undefined\n   float d = foo(n);\n             ^\n\n\
             src/user.rs(13): warning #177-D: variable \"z\" was declared but never referenced\n   int z;\n       ^\n\n\
             Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n\n\
             k.cu(1): catastrophic error: #error directive: \"x\"\n  #error \"x\"\n   ^\n\n\
             nvrtc: error: unrecognized option --bogus found\n\
             2 errors detected in the compilation of \"k.cu\".\n",
        );
        let shown: Vec<_> = log.diagnostics.iter().map(ToString::to_string).collect();
        expect![[r#"
            src/user (1) file.rs:12: error: identifier "foo" is undefined
              | float d = foo(n);
              |           ^
            src/user.rs:13: warning 177-D: variable "z" was declared but never referenced
              | int z;
              |     ^
            k.cu:1: error: #error directive: "x"
              | #error "x"
              |  ^
            error: unrecognized option --bogus found"#]]
        .assert_eq(&shown.join("\n"));
    }

    #[test]
    fn ptxas_errors_are_located_through_the_ptx() {
        let mut log = CompileLog::parse(
            "ptxas application ptx input, line 4; error   : Unknown modifier '.foo'\n\
             ptxas fatal   : Ptx assembly aborted due to errors\n",
        );
        log.locate(".visible .entry k()\n\t.loc\t2 17 5\n\t// asm\n\tcp.async.foo [%r1];\n\t.file\t1 \"k.cu\"\n\t.file\t2 \"src/user.rs\"\n");
        let shown: Vec<_> = log.diagnostics.iter().map(ToString::to_string).collect();
        expect![[r#"
            src/user.rs:17: error: Unknown modifier '.foo' (line 4 of the PTX)
              | cp.async.foo [%r1];
            error: Ptx assembly aborted due to errors"#]]
        .assert_eq(&shown.join("\n"));
    }
}
