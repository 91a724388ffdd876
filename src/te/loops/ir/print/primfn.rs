//! Prints loop programs in TVM's older text format, `@main = primfn(…)`. Types are written where a name first occurs,
//! and every operation has brackets.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::ElementType;
use crate::expr::identifier::FreeNames;
use crate::te::arith::simplify;
use crate::te::dtype::DType;
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::device_call::{CallArgument, DeviceCall};
use crate::te::loops::ir::program::Program;
use crate::te::loops::ir::stmt::{AllReduce, LoopKind, Note, Stmt};
use crate::te::text::separators;

impl Program {
    /// The program in the text format that came before TVMScript.
    #[must_use]
    pub fn primfn(&self) -> String {
        let mut printer = Printer {
            out: String::new(),
            indent: 0,
            used: FreeNames::numbered(1),
            vars: HashMap::new(),
            buffers: HashMap::new(),
            allocated: HashMap::new(),
        };
        printer.header(self);
        printer.indent = 1;
        if let Err(error) = descend(self.body.depth(), || printer.block(&self.body)) {
            let _ = writeln!(printer.out, "// not printed: {error}");
        }
        printer.out.push_str("}\n");
        printer.out
    }
}

struct Printer {
    out: String,
    indent: usize,
    used: FreeNames,
    vars: HashMap<Var, String>,
    /// Names of memory seen as one dimension.
    buffers: HashMap<Buffer, String>,
    /// Allocated memory that is not declared as a buffer yet, with its pointer's name.
    allocated: HashMap<Buffer, String>,
}

impl Printer {
    /// A name that is not in use: the given one, or the given one with a number.
    fn fresh(&mut self, name: &str) -> String {
        self.used.unique(name)
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:width$}{text}", "", width = self.indent * 2);
    }

    fn header(&mut self, program: &Program) {
        let mut parameters = Vec::new();
        let mut pointers = Vec::new();
        for (_, buffer) in &program.arguments {
            let name = self.fresh(buffer.name());
            let [parameter, pointer, shaped] = [(); 3].map(|()| self.fresh(buffer.name()));
            self.buffers.insert(buffer.clone(), name.clone());
            parameters.push(parameter.clone());
            pointers.push((name, parameter, pointer, shaped, buffer));
        }
        let handles: Vec<String> = parameters.iter().map(|name| format!("{name}: handle")).collect();
        let _ = writeln!(self.out, "@{} = primfn({}) -> ()", program.name, handles.join(", "));
        let _ = writeln!(
            self.out,
            "  attr = {{\"from_legacy_te_schedule\": True, \"global_symbol\": \"{}\", \"tir.noalias\": True}}",
            program.name
        );
        let mut flat = Vec::new();
        for (name, _, pointer, _, buffer) in &pointers {
            let dtype = buffer.dtype().script_name();
            let length = self.list(&buffer.flat_extents());
            let rest = format!("{}{}", auto(buffer), separators(buffer, true));
            flat.push(format!("{name}: Buffer({pointer}: Pointer({dtype}), {dtype}, [{length}], []{rest})"));
        }
        let _ = writeln!(self.out, "  buffers = {{{}}}", flat.join(",\n             "));
        let map: Vec<String> = pointers.iter().map(|(name, parameter, ..)| format!("{parameter}: {name}")).collect();
        let _ = writeln!(self.out, "  buffer_map = {{{}}}", map.join(", "));
        let mut whole = Vec::new();
        for (_, parameter, pointer, shaped, buffer) in &pointers {
            let dtype = buffer.dtype().script_name();
            let shape = self.list(buffer.shape());
            let strides = if buffer.is_compact() { String::new() } else { self.list(buffer.strides()) };
            let auto = format!("{}{}", auto(buffer), separators(buffer, false));
            whole.push(format!("{parameter}: {shaped}: Buffer({pointer}, {dtype}, [{shape}], [{strides}]{auto})"));
        }
        let _ = writeln!(self.out, "  preflattened_buffer_map = {{{}}} {{", whole.join(", "));
    }

    fn block(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Seq(statements) => statements.iter().for_each(|s| self.statement(s)),
            other => self.statement(other),
        }
    }

    fn braces(&mut self, body: &Stmt) {
        self.indent += 1;
        self.block(body);
        self.indent -= 1;
        self.line("}");
    }

    /// Prints `text` and then the rest of the block: in braces if it has several statements, after a semicolon if it
    /// has one.
    fn around(&mut self, text: &str, body: &Stmt) {
        if matches!(body, Stmt::Seq(_)) {
            self.line(&format!("{text} {{"));
            self.braces(body);
        } else {
            self.line(&format!("{text};"));
            self.statement(body);
        }
    }

    /// Prints a statement. Statements with others inside are printed by functions of their own. This function calls
    /// itself at every level of nesting, so it must use little of the stack.
    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Seq(_) => {
                self.line("{");
                self.braces(statement);
            }
            Stmt::For { var, extent, kind, body } => {
                self.for_line(*var, extent, *kind);
                self.braces(body);
            }
            Stmt::If { condition, then } => {
                self.if_line(condition);
                self.braces(then);
            }
            Stmt::Let { var, value, body } => {
                self.let_line(*var, value);
                self.statement(body);
            }
            Stmt::Allocate { buffer, body } => {
                let text = self.allocation(buffer);
                self.around(&text, body);
            }
            Stmt::Launch { thread, var, extent, body } => {
                let text = self.launch(*thread, *var, extent);
                self.around(&text, body);
            }
            Stmt::Note { note: Note::Call(call), .. } => self.call(call),
            Stmt::Note { note, body } => {
                let text = self.note(note);
                self.around(&text, body);
            }
            Stmt::Store { .. } | Stmt::AllReduce(_) | Stmt::Prefetch { .. } | Stmt::Barrier => self.leaf(statement),
        }
    }

    fn for_line(&mut self, var: Var, extent: &Expr, kind: LoopKind) {
        let counter = self.var(var);
        let kind = match kind {
            LoopKind::Serial => "",
            LoopKind::Parallel => " \"parallel\"",
            LoopKind::Vectorized => " \"vectorized\"",
            LoopKind::Unrolled => " \"unroll\"",
        };
        let extent = self.expression(extent);
        self.line(&format!("for ({counter}, 0, {extent}){kind} {{"));
    }

    fn if_line(&mut self, condition: &Expr) {
        let condition = self.expression(condition);
        self.line(&format!("if {condition} {{"));
    }

    fn let_line(&mut self, var: Var, value: &Expr) {
        let value = self.expression(value);
        let name = self.var(var);
        self.line(&format!("let {name} = {value}"));
    }

    fn allocation(&mut self, buffer: &Buffer) -> String {
        let name = self.fresh(buffer.name());
        let dtype = buffer.dtype().script_name();
        let scope = buffer.scope().name();
        let extents: Vec<Expr> = buffer.flat_extents().iter().map(simplify).collect();
        let length = self.list(&extents);
        self.allocated.insert(buffer.clone(), name.clone());
        format!("allocate({name}: Pointer({scope} {dtype}), {dtype}, [{length}]), storage_scope = {scope}")
    }

    fn launch(&mut self, thread: Thread, var: Var, extent: &Expr) -> String {
        let name = self.var(var);
        let extent = self.expression(extent);
        let thread = thread.name();
        format!("attr [IterVar({name}, (nullptr), \"ThreadIndex\", \"{thread}\")] \"thread_extent\" = {extent}")
    }

    fn call(&mut self, call: &DeviceCall) {
        let mut arguments = vec![format!("\"{}\"", call.function.name())];
        for argument in &call.arguments {
            arguments.push(match argument {
                CallArgument::Pointer(buffer, indices) => {
                    format!("@tir.address_of({}, dtype=handle)", self.access(buffer, indices))
                }
                CallArgument::Value(value) => self.expression(value),
            });
        }
        self.line(&format!("@tir.call_extern({}, dtype=int32)", arguments.join(", ")));
    }

    fn note(&mut self, note: &Note) -> String {
        match note {
            Note::DoubleBufferWrite(buffer) => {
                let name = self.pointer(buffer);
                format!("attr [{name}] \"double_buffer_write\" = 1")
            }
            Note::Pragma(axis, pragma) => {
                let name = self.var(axis.var());
                let range = axis.domain().map_or("(nullptr)".to_owned(), |domain| {
                    let end = simplify(&(&domain.min + &domain.extent));
                    format!("[{}:{}]", self.expression(&domain.min), self.expression(&end))
                });
                let (kind, key, value) = (axis.kind().iter_type(), pragma.key(), pragma.value());
                format!("attr [IterVar({name}, {range}, \"{kind}\", \"\")] \"pragma_{key}\" = {value}")
            }
            Note::Call(call) => call.function.name().to_owned(),
        }
    }

    /// Prints a statement without others inside.
    fn leaf(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Store { buffer, indices, value } => {
                let place = self.access(buffer, indices);
                let value = self.expression(value);
                self.line(&format!("{place} = {value}"));
            }
            Stmt::AllReduce(reduce) => self.all_reduce(reduce),
            Stmt::Prefetch { buffer, indices } => {
                let place = self.access(buffer, indices);
                let dtype = buffer.dtype().script_name();
                self.line(&format!("@tir.prefetch(@tir.address_of({place}, dtype=handle), 0, 3, 1, dtype={dtype})"));
            }
            Stmt::Barrier => self.line("@tir.tvm_storage_sync(\"shared\", dtype=handle)"),
            nested => self.statement(nested),
        }
    }

    fn all_reduce(&mut self, reduce: &AllReduce) {
        let parameters: Vec<String> =
            reduce.combiner.left.iter().chain(&reduce.combiner.right).map(|var| self.var(*var)).collect();
        let result = self.list(&reduce.combiner.result);
        let identity = self.list(&reduce.combiner.identity);
        let parameters = parameters.join(", ");
        self.line(&format!(
            "attr [comm_reducer(({parameters}) => [{result}], [{identity}])] \"reduce_scope\" = \
             @tir.reinterpret(0u64, dtype=handle);"
        ));
        let source = self.list(&reduce.source);
        let condition = self.expression(&reduce.condition);
        let zero = [Expr::int(0)];
        let results: Vec<String> = reduce.results.iter().map(|buffer| self.access(buffer, &zero)).collect();
        let threads: Vec<Expr> = reduce.threads.iter().map(|axis| Expr::from(*axis)).collect();
        let threads = self.list(&threads);
        self.line(&format!(
            "@tir.tvm_thread_allreduce({}u32, {source}, {condition}, {}, {threads}, dtype=handle)",
            reduce.source.len(),
            results.join(", ")
        ));
    }

    /// A variable, with its type where it first occurs.
    fn var(&mut self, var: Var) -> String {
        if let Some(name) = self.vars.get(&var) {
            return name.clone();
        }
        let name = self.fresh(var.name());
        self.vars.insert(var, name.clone());
        format!("{name}: {}", var.dtype().script_name())
    }

    /// An element. Allocated memory is declared as a buffer where it first occurs.
    fn access(&mut self, buffer: &Buffer, indices: &[Expr]) -> String {
        let name = match (self.buffers.get(buffer).cloned(), self.allocated.get(buffer).cloned()) {
            (Some(name), _) => name,
            (None, None) => buffer.name().to_owned(),
            (None, Some(pointer)) => {
                let name = self.fresh(buffer.name());
                self.buffers.insert(buffer.clone(), name.clone());
                let dtype = buffer.dtype().script_name();
                let scope = match buffer.scope() {
                    Scope::Global => String::new(),
                    other => format!(", scope=\"{}\"", other.name()),
                };
                let length = self.list(&buffer.flat_extents());
                let apart = separators(buffer, true);
                format!("{name}: Buffer({pointer}, {dtype}, [{length}], []{scope}{apart})")
            }
        };
        let indices = self.list(indices);
        format!("{name}[{indices}]")
    }

    /// The name of a buffer's memory.
    fn pointer(&self, buffer: &Buffer) -> String {
        let known = self.allocated.get(buffer).or_else(|| self.buffers.get(buffer));
        known.cloned().unwrap_or_else(|| buffer.name().to_owned())
    }

    fn list(&mut self, items: &[Expr]) -> String {
        items.iter().map(|x| self.expression(x)).collect::<Vec<_>>().join(", ")
    }

    fn expression(&mut self, x: &Expr) -> String {
        let Some((parts, body)) = x.with_names("cse_v", None) else { return self.written(x) };
        let mut text = String::new();
        for (var, value) in &parts {
            text += &format!("(let {} = {} in ", self.var(*var), self.written(value));
        }
        text + &self.written(&body) + &")".repeat(parts.len())
    }

    fn written(&mut self, x: &Expr) -> String {
        let dtype = x.dtype();
        match x.kind() {
            Kind::Int(value) => match dtype {
                DType::Bool => if *value != 0 { "True" } else { "False" }.to_owned(),
                DType::I32 => value.to_string(),
                DType::Number(_) => format!("{value}{}", suffix(dtype)),
            },
            Kind::Float(value) => format!("{value}{}", suffix(dtype)),
            Kind::Var(var) => self.var(*var),
            Kind::Binary(op, a, b) => {
                let (a, b) = (self.written(a), self.written(b));
                match op {
                    Binary::Mul => format!("({a}*{b})"),
                    Binary::FloorDiv => format!("floordiv({a}, {b})"),
                    Binary::FloorMod => format!("floormod({a}, {b})"),
                    Binary::Min => format!("min({a}, {b})"),
                    Binary::Max => format!("max({a}, {b})"),
                    _ => format!("({a} {} {b})", symbol(*op)),
                }
            }
            Kind::Not(a) => format!("!{}", self.written(a)),
            Kind::Select(c, a, b) => {
                let [c, a, b] = [c, a, b].map(|x| self.written(x));
                format!("select({c}, {a}, {b})")
            }
            Kind::Cast(a) => format!("cast({}, {})", dtype.script_name(), self.written(a)),
            Kind::Likely(a) => format!("@tir.likely({}, dtype=bool)", self.written(a)),
            Kind::Apply(op, operands) => {
                let operands = self.list(operands);
                format!("@tir.{}({operands}, dtype={})", format!("{op:?}").to_lowercase(), dtype.script_name())
            }
            Kind::Call(function, operands) => {
                let operands = self.list(operands);
                format!("@{}({operands}, dtype={})", function.name(), dtype.script_name())
            }
            Kind::Load(buffer, indices) => self.access(buffer, indices),
            Kind::Read(tensor, indices) => format!("{}[{}]", tensor.name(), self.list(indices)),
            Kind::Reduce(..) | Kind::Invalid(_) => crate::te::text::expression(x),
        }
    }
}

fn symbol(op: Binary) -> &'static str {
    match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div | Binary::FloorDiv => "/",
        Binary::FloorMod => "%",
        Binary::Min => "min",
        Binary::Max => "max",
        Binary::Lt => "<",
        Binary::Le => "<=",
        Binary::Gt => ">",
        Binary::Ge => ">=",
        Binary::Eq => "==",
        Binary::Ne => "!=",
        Binary::And => "&&",
        Binary::Or => "||",
    }
}

/// The suffix of a number, which tells its type.
fn suffix(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "u1",
        DType::Number(element) => match element {
            ElementType::F64 => "f64",
            ElementType::F32 => "f32",
            ElementType::F16 => "f16",
            ElementType::BF16 => "bf16",
            ElementType::I64 => "i64",
            ElementType::I32 => "i32",
            ElementType::I8 => "i8",
            ElementType::U8 => "u8",
            _ => "f8",
        },
    }
}

fn auto(buffer: &Buffer) -> &'static str {
    if buffer.is_compact() { "" } else { ", type=\"auto\"" }
}
