//! Prints loop programs as TVMScript.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::accesses::{accesses, at_own_level};
use crate::expr::identifier::FreeNames;
use crate::te::arith::simplify;
use crate::te::dtype::DType;
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::deep::descend;
use crate::te::loops::ir::device_call::{CallArgument, DeviceCall};
use crate::te::loops::ir::program::Program;
use crate::te::loops::ir::stmt::{AllReduce, LoopKind, Note, Stmt};
use crate::te::text::{Names, combiner, identifier, list, print, separators};

impl Program {
    /// The program as TVMScript.
    #[must_use]
    pub fn script(&self) -> String {
        let script = descend(self.body.depth(), || Printer::new(self).program(self));
        script.unwrap_or_else(|error| format!("# not printed: {error}\n"))
    }
}

struct Printer {
    out: String,
    indent: usize,
    used: FreeNames,
    vars: HashMap<Var, String>,
    /// The memory of arguments and allocations, before it is seen as one dimension.
    memory: HashMap<Buffer, String>,
    /// Memory seen as one dimension, once it is declared.
    aliases: HashMap<Buffer, String>,
    launches: HashMap<Var, usize>,
}

impl Names for Printer {
    fn var(&self, var: Var) -> String {
        self.vars.get(&var).cloned().unwrap_or_else(|| identifier(var.name()))
    }

    fn buffer(&self, buffer: &Buffer) -> String {
        self.aliases.get(buffer).cloned().unwrap_or_else(|| identifier(buffer.name()))
    }

    fn points(&self) -> bool {
        true
    }
}

impl Printer {
    fn new(program: &Program) -> Self {
        let mut launches = HashMap::new();
        count_launches(&program.body, &mut launches);
        Self {
            out: String::new(),
            indent: 2,
            used: FreeNames::numbered(1),
            vars: HashMap::new(),
            memory: HashMap::new(),
            aliases: HashMap::new(),
            launches,
        }
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:width$}{text}", "", width = self.indent * 4);
    }

    /// A name that is not in use: the given one, or the given one with a number.
    fn fresh(&mut self, name: &str) -> String {
        self.used.unique(&identifier(name))
    }

    fn program(mut self, program: &Program) -> String {
        let name = identifier(&program.name);
        let mut parameters = Vec::new();
        let mut matched = Vec::new();
        for (_, buffer) in &program.arguments {
            let parameter = self.fresh(buffer.name());
            if buffer.shape().iter().all(|extent| extent.as_int().is_some()) {
                let shape = tuple(&list(buffer.shape(), &self), buffer.shape().len());
                let apart = separators(buffer, false);
                parameters.push(format!("{parameter}: T.Buffer({shape}, \"{}\"{apart})", buffer.dtype().script_name()));
                self.memory.insert(buffer.clone(), parameter);
            } else {
                parameters.push(format!("{parameter}: T.handle"));
                matched.push((parameter, buffer));
            }
        }
        self.line("T.func_attr({\"from_legacy_te_schedule\": T.bool(True), \"tir.noalias\": T.bool(True)})");
        for (parameter, buffer) in matched {
            self.match_buffer(&parameter, buffer);
        }
        self.env_threads(&program.body);
        self.block(&program.body);
        format!(
            "# from tvm.script import ir as I\n# from tvm.script import tir as T\n\n@I.ir_module\nclass Module:\n    \
             @T.prim_func\n    def {name}({}):\n{}",
            parameters.join(", "),
            self.out
        )
    }

    fn match_buffer(&mut self, parameter: &str, buffer: &Buffer) {
        let mut sizes = Vec::new();
        for extent in buffer.shape() {
            extent.visit(&mut |x| {
                if let Some(var) = x.as_var()
                    && !self.vars.contains_key(&var)
                    && !sizes.contains(&var)
                {
                    sizes.push(var);
                }
            });
        }
        let mut declared = Vec::new();
        for size in sizes {
            let name = self.fresh(size.name());
            self.vars.insert(size, name.clone());
            declared.push((name, size.dtype().script_name()));
        }
        if !declared.is_empty() {
            let names: Vec<&str> = declared.iter().map(|(name, _)| name.as_str()).collect();
            let types: Vec<String> = declared.iter().map(|(_, dtype)| format!("T.{dtype}()")).collect();
            self.line(&format!("{} = {}", names.join(", "), types.join(", ")));
        }
        let name = self.fresh(buffer.name());
        let shape = tuple(&list(buffer.shape(), self), buffer.shape().len());
        let dtype = match buffer.dtype() {
            DType::F32 => String::new(),
            other => format!(", \"{}\"", other.script_name()),
        };
        let strided = if buffer.is_compact() {
            String::new()
        } else {
            for (d, stride) in buffer.strides().iter().enumerate() {
                if let Some(var) = stride.as_var() {
                    self.vars.insert(var, format!("{name}.strides[{d}]"));
                }
            }
            let strides = vec!["\"stride\""; buffer.strides().len()].join(", ");
            format!(", strides={}, buffer_type=\"auto\"", tuple(&strides, buffer.strides().len()))
        };
        self.line(&format!(
            "{name} = T.match_buffer({parameter}, {shape}{dtype}{strided}{})",
            separators(buffer, false)
        ));
        self.memory.insert(buffer.clone(), name);
    }

    /// Declares the thread indices that more than one launch uses.
    fn env_threads(&mut self, statement: &Stmt) {
        if let Stmt::Launch { thread, var, .. } = statement
            && self.launches.get(var).is_some_and(|times| *times > 1)
            && !self.vars.contains_key(var)
        {
            let name = self.fresh(thread.name());
            self.vars.insert(*var, name.clone());
            self.line(&format!("{name} = T.env_thread(\"{}\")", thread.name()));
        }
        for child in statement.children() {
            self.env_threads(child);
        }
    }

    /// Prints the statements of one level. Memory is declared at the innermost level that contains all its uses.
    fn block(&mut self, statement: &Stmt) {
        let statements: Vec<&Stmt> = match statement {
            Stmt::Seq(statements) => statements.iter().collect(),
            other => vec![other],
        };
        if statements.is_empty() {
            self.line("pass");
        }
        for (place, statement) in statements.iter().enumerate() {
            for buffer in self.meeting_here(&statements, place) {
                self.declare(&buffer);
            }
            self.statement(statement, place + 1 == statements.len());
        }
    }

    /// The buffers that one statement of a level uses first, and that are not used inside one deeper level only.
    fn meeting_here(&self, statements: &[&Stmt], place: usize) -> Vec<Buffer> {
        let mut used = Vec::new();
        accesses(statements[place], &mut used);
        used.retain(|buffer| !self.aliases.contains_key(buffer) && self.memory.contains_key(buffer));
        used.retain(|buffer| {
            let elsewhere = statements[place + 1..].iter().any(|other| {
                let mut there = Vec::new();
                accesses(other, &mut there);
                there.contains(buffer)
            });
            elsewhere || at_own_level(statements[place], buffer)
        });
        used
    }

    fn declare(&mut self, buffer: &Buffer) {
        let Some(memory) = self.memory.get(buffer).cloned() else { return };
        let alias = self.fresh(buffer.name());
        let allocated = buffer.scope() != crate::te::expr::buffer::Scope::Global || self.allocated(&memory);
        let extents = buffer.flat_extents();
        let data = if allocated { memory } else { format!("{memory}.data") };
        let dtype = match buffer.dtype() {
            DType::F32 => String::new(),
            other => format!(", \"{}\"", other.script_name()),
        };
        let scope = match buffer.scope() {
            crate::te::expr::buffer::Scope::Global => String::new(),
            other => format!(", scope=\"{}\"", other.name()),
        };
        let auto = if allocated || buffer.is_compact() { "" } else { ", buffer_type=\"auto\"" };
        let apart = separators(buffer, true);
        let extents = tuple(&list(&extents, self), extents.len());
        let text = format!("{alias} = T.Buffer({extents}{dtype}, data={data}{scope}{apart}{auto})");
        self.line(&text);
        self.aliases.insert(buffer.clone(), alias);
    }

    /// Whether the program allocates the memory of this name.
    fn allocated(&self, memory: &str) -> bool {
        self.vars.values().any(|name| name == &format!("allocated {memory}"))
    }

    /// Prints a statement. Statements with others inside are printed by functions of their own. This function calls
    /// itself at every level of nesting, so it must use little of the stack.
    fn statement(&mut self, statement: &Stmt, last: bool) {
        match statement {
            Stmt::For { .. } => self.for_loop(statement),
            Stmt::If { condition, then } => {
                self.condition(condition);
                self.indented(|this| this.block(then));
            }
            Stmt::Seq(_) => self.block(statement),
            Stmt::Let { var, value, body } => {
                let name = self.named(*var, value);
                self.block(body);
                self.used.release(&name);
            }
            Stmt::Allocate { buffer, body } => {
                self.allocation(buffer);
                self.block(body);
            }
            Stmt::Launch { thread, var, extent, body } => {
                self.launch(*thread, *var, extent, last);
                if last {
                    self.block(body);
                } else {
                    self.indented(|this| this.block(body));
                }
            }
            Stmt::Note { note: Note::Call(call), .. } => self.call(call),
            Stmt::Note { note, body } => {
                let attribute = self.note(note);
                self.attribute(&attribute, body, last);
            }
            Stmt::Store { .. } | Stmt::AllReduce(_) | Stmt::Prefetch { .. } | Stmt::Barrier => self.leaf(statement),
        }
    }

    fn condition(&mut self, condition: &Expr) {
        let condition = print(condition, self);
        self.line(&format!("if {condition}:"));
    }

    /// The name of a variable from here on.
    fn named(&mut self, var: Var, value: &Expr) -> String {
        let name = self.fresh(var.name());
        self.vars.insert(var, name.clone());
        let text = format!("{name}: T.{} = {}", var.dtype().script_name(), print(value, self));
        self.line(&text);
        name
    }

    fn allocation(&mut self, buffer: &Buffer) {
        let name = self.fresh(buffer.name());
        let extents: Vec<Expr> = buffer.flat_extents().iter().map(simplify).collect();
        let length = list(&extents, self);
        let (dtype, scope) = (buffer.dtype().script_name(), buffer.scope().name());
        self.line(&format!("{name} = T.allocate([{length}], \"{dtype}\", \"{scope}\")"));
        let marker = Var::new("allocated", DType::I32);
        self.vars.insert(marker, format!("allocated {name}"));
        self.memory.insert(buffer.clone(), name);
    }

    fn launch(&mut self, thread: Thread, var: Var, extent: &Expr, last: bool) {
        let extent = print(extent, self);
        let known = self.vars.get(&var).cloned();
        let name = known.clone().unwrap_or_else(|| self.fresh(thread.name()));
        self.vars.insert(var, name.clone());
        let index = known.clone().unwrap_or_else(|| format!("\"{}\"", thread.name()));
        let launch = format!("T.launch_thread({index}, {extent})");
        match (last, known) {
            (true, Some(_)) => self.line(&launch),
            (true, None) => self.line(&format!("{name} = {launch}")),
            (false, Some(_)) => self.line(&format!("with {launch}:")),
            (false, None) => self.line(&format!("with {launch} as {name}:")),
        }
    }

    fn call(&mut self, call: &DeviceCall) {
        let mut arguments = vec!["\"int32\"".to_owned(), format!("\"{}\"", call.function.name())];
        arguments.extend(call.arguments.iter().map(|argument| match argument {
            CallArgument::Pointer(buffer, indices) => {
                format!("T.address_of({}[{}])", self.buffer(buffer), list(indices, self))
            }
            CallArgument::Value(value) => print(value, self),
        }));
        self.line(&format!("T.call_extern({})", arguments.join(", ")));
    }

    fn note(&mut self, note: &Note) -> String {
        match note {
            Note::DoubleBufferWrite(buffer) => {
                let memory = self.memory.get(buffer).cloned().unwrap_or_else(|| identifier(buffer.name()));
                format!("T.attr({memory}, \"double_buffer_write\", 1)")
            }
            Note::Pragma(axis, pragma) => {
                let range = axis.domain().map_or("None".to_owned(), |domain| {
                    let end = simplify(&(&domain.min + &domain.extent));
                    format!("T.Range({}, {})", print(&domain.min, self), print(&end, self))
                });
                let (name, kind) = (identifier(axis.name()), axis.kind().iter_type());
                let (key, value) = (pragma.key(), pragma.value());
                format!("T.attr(T.iter_var({name}, {range}, \"{kind}\", \"\"), \"pragma_{key}\", {value})")
            }
            Note::Call(call) => call.function.name().to_owned(),
        }
    }

    /// Prints a statement without others inside.
    fn leaf(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Store { buffer, indices, value } => {
                let text = format!("{}[{}] = {}", self.buffer(buffer), list(indices, self), print(value, self));
                self.line(&text);
            }
            Stmt::AllReduce(reduce) => self.all_reduce(reduce),
            Stmt::Prefetch { buffer, indices } => {
                let place = format!("{}[{}]", self.buffer(buffer), list(indices, self));
                self.line(&format!("T.prefetch(T.address_of({place}), 0, 3, 1)"));
            }
            Stmt::Barrier => self.line("T.tvm_storage_sync(\"shared\")"),
            nested => self.statement(nested, true),
        }
    }

    fn all_reduce(&mut self, reduce: &AllReduce) {
        let scope = combiner(&reduce.combiner, self);
        self.line(&format!("with T.attr({scope}, \"reduce_scope\", T.reinterpret(\"handle\", T.uint64(0))):"));
        let threads: Vec<Expr> = reduce.threads.iter().map(|axis| Expr::from(*axis)).collect();
        let results: Vec<String> = reduce.results.iter().map(|b| format!("{}[0]", self.buffer(b))).collect();
        let text = format!(
            "T.tvm_thread_allreduce(T.uint32({}), {}, {}, {}, {})",
            reduce.source.len(),
            list(&reduce.source, self),
            print(&reduce.condition, self),
            results.join(", "),
            list(&threads, self)
        );
        self.indented(|this| this.line(&text));
    }

    /// Prints an attribute of a statement. It covers the rest of the level if the statement is the last of it.
    fn attribute(&mut self, attribute: &str, body: &Stmt, last: bool) {
        if last {
            self.line(attribute);
            self.block(body);
        } else {
            self.line(&format!("with {attribute}:"));
            self.indented(|this| this.block(body));
        }
    }

    /// Prints a loop. Loops directly inside each other are one `T.grid` if their extents are known before the first.
    fn for_loop(&mut self, statement: &Stmt) {
        let mut counters: Vec<(Var, &Expr)> = Vec::new();
        let mut body = statement;
        while let Stmt::For { var, extent, kind, body: inner } = body {
            let dependent = counters.iter().any(|(outer, _)| extent.uses(*outer));
            let serial = *kind == LoopKind::Serial;
            if !counters.is_empty() && (dependent || !serial) {
                break;
            }
            counters.push((*var, extent));
            body = inner;
            if !serial {
                break;
            }
        }
        let function = match statement {
            Stmt::For { kind: LoopKind::Parallel, .. } => "T.parallel",
            Stmt::For { kind: LoopKind::Vectorized, .. } => "T.vectorized",
            Stmt::For { kind: LoopKind::Unrolled, .. } => "T.unroll",
            _ if counters.len() > 1 => "T.grid",
            _ => "range",
        };
        let extents: Vec<String> = counters.iter().map(|(_, extent)| print(extent, self)).collect();
        let mut names = Vec::new();
        for (var, _) in &counters {
            let name = self.fresh(var.name());
            self.vars.insert(*var, name.clone());
            names.push(name);
        }
        self.line(&format!("for {} in {function}({}):", names.join(", "), extents.join(", ")));
        self.indented(|this| this.block(body));
        for name in names {
            self.used.release(&name);
        }
    }

    fn indented(&mut self, f: impl FnOnce(&mut Self)) {
        self.indent += 1;
        f(self);
        self.indent -= 1;
    }
}

/// `(n, m)`, `(n,)`, `()`
fn tuple(items: &str, count: usize) -> String {
    if count == 1 { format!("({items},)") } else { format!("({items})") }
}

fn count_launches(statement: &Stmt, counts: &mut HashMap<Var, usize>) {
    if let Stmt::Launch { var, .. } = statement {
        *counts.entry(*var).or_default() += 1;
    }
    for child in statement.children() {
        count_launches(child, counts);
    }
}
