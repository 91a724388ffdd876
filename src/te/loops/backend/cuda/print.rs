//! Prints one launch as a kernel.

use std::cell::RefCell;
use std::collections::HashMap;

use epilogue_runtime::Site;

use super::Form;
use super::lane_plan::lane_plan;
use super::refusal::refuse;
use super::restrict::Restricted;
use super::threads::DeviceNest;
use crate::cuda::Writer;
use crate::expr::identifier::{FreeNames, sanitize};
use crate::te::arith::Context;
use crate::te::cuda::{Library, Names, Printer, access, bare, bytes, register};
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::expr::buffer::{Buffer, Scope};
use crate::te::expr::expression::Expr;
use crate::te::expr::thread::Thread;
use crate::te::expr::var::Var;
use crate::te::loops::ir::device_call::{CallArgument, DeviceCall};
use crate::te::loops::ir::stmt::{LoopKind, Note, Stmt};
use crate::te::text::identifier;

/// The most static shared memory of a block, in bytes. More must be requested by the launch (CUDA C++ Programming
/// Guide, "Technical Specifications per Compute Capability").
const SHARED_LIMIT: usize = 48 << 10;
/// The alignment, in bytes, of arrays in dynamic shared memory: that of the widest access.
const SHARED_ALIGNMENT: usize = 16;

/// A kernel's text, and the parameters that it is called with.
#[derive(Debug)]
pub(super) struct KernelText {
    pub(super) text: String,
    /// The pointers, in order.
    pub(super) buffers: Vec<Buffer>,
    /// The scalars, which come after the pointers.
    pub(super) scalars: Vec<Var>,
    /// The bytes of dynamic shared memory that the launch must request.
    pub(super) shared_bytes: usize,
}

/// Prints a launch.
pub(super) fn kernel(
    nest: &DeviceNest,
    symbol: &str,
    form: Form,
    library: &mut Library,
) -> Result<KernelText, TeError> {
    let text = KernelPrinter::new(nest, form, library).kernel(nest, symbol)?;
    if text.shared_bytes <= SHARED_LIMIT {
        return Ok(KernelText { shared_bytes: 0, ..text });
    }
    let mut printer = KernelPrinter::new(nest, form, library);
    printer.dynamic = Some(printer.fresh("shared_memory"));
    printer.kernel(nest, symbol)
}

/// The names in one kernel. Parameters are found while the body is printed, in order of first use.
struct Scopes {
    form: Form,
    threads: HashMap<Var, Thread>,
    used: FreeNames,
    vars: HashMap<Var, String>,
    /// Memory allocated in the kernel.
    memory: HashMap<Buffer, String>,
    /// Single elements that replace a buffer.
    elements: HashMap<Buffer, String>,
    pointers: Vec<(Buffer, String)>,
    scalars: Vec<(Var, String)>,
}

impl Scopes {
    fn fresh(&mut self, wanted: &str) -> String {
        self.used.unique(&sanitize(&identifier(wanted)))
    }

    /// The type of a variable.
    const fn type_of(&self, dtype: DType) -> &'static str {
        match dtype {
            DType::I32 if self.form.is_wide() => "int64_t",
            _ => register(dtype).name(),
        }
    }

    fn var(&mut self, var: Var) -> Result<String, TeError> {
        if let Some(thread) = self.threads.get(&var) {
            return Ok(format!("(({}){})", if self.form.is_wide() { "int64_t" } else { "int" }, thread.name()));
        }
        if let Some(name) = self.vars.get(&var) {
            return Ok(name.clone());
        }
        let name = self.fresh(var.name());
        self.vars.insert(var, name.clone());
        self.scalars.push((var, name.clone()));
        Ok(name)
    }

    /// Whether an access is tested although its index doesn't depend on memory. The element of a kernel's own memory whose
    /// number is written out is there.
    fn tests(&self, buffer: &Buffer, index: &Expr) -> bool {
        self.form == Form::Tested && (buffer.scope() == Scope::Global || index.as_int().is_none_or(|index| index < 0))
    }

    fn element(&mut self, buffer: &Buffer, index: &str) -> Result<String, TeError> {
        if let Some(element) = self.elements.get(buffer) {
            return Ok(element.clone());
        }
        if let Some(name) = self.memory.get(buffer) {
            return Ok(format!("{name}[{index}]"));
        }
        if buffer.scope() != Scope::Global {
            return Err(TeError::Internal { what: format!("{} is used outside of its allocation", buffer.name()) });
        }
        let name = self.fresh(buffer.name());
        self.memory.insert(buffer.clone(), name.clone());
        self.pointers.push((buffer.clone(), name.clone()));
        Ok(format!("{name}[{index}]"))
    }
}

/// Lets the expression printer ask for names while the kernel is borrowed.
struct Shared<'a>(&'a RefCell<Scopes>);

impl Names for Shared<'_> {
    fn var(&self, var: Var) -> Result<String, TeError> {
        self.0.borrow_mut().var(var)
    }

    fn element(&self, buffer: &Buffer, index: &str) -> Result<String, TeError> {
        self.0.borrow_mut().element(buffer, index)
    }

    fn tests(&self, buffer: &Buffer, index: &Expr) -> bool {
        self.0.borrow().tests(buffer, index)
    }

    fn wide_indices(&self) -> bool {
        self.0.borrow().form.is_wide()
    }
}

pub(super) struct KernelPrinter<'a> {
    scopes: RefCell<Scopes>,
    library: &'a mut Library,
    context: Context,
    /// The kernel's body.
    pub(super) code: Writer,
    /// The number of loops around what is being printed.
    loops: usize,
    /// The threads of a block along x, y and z, if they are constants.
    block: Option<[u32; 3]>,
    shared_bytes: usize,
    /// The name of the block's dynamic shared memory.
    dynamic: Option<String>,
    /// The buffers in which reductions over threads leave their results, with TVM's names.
    results: HashMap<Buffer, String>,
}

impl<'a> KernelPrinter<'a> {
    fn new(nest: &DeviceNest, form: Form, library: &'a mut Library) -> Self {
        let reserved = ["uint", "uchar", "ushort", "int64_t", "uint64_t", "epilogue", "printf", "clock", "min", "max"];
        let mut used = FreeNames::numbered(1);
        used.reserve(reserved);
        let scopes = Scopes {
            form,
            threads: nest.vars.iter().map(|(thread, var)| (*var, *thread)).collect(),
            used,
            vars: HashMap::new(),
            memory: HashMap::new(),
            elements: HashMap::new(),
            pointers: Vec::new(),
            scalars: Vec::new(),
        };
        let mut results = HashMap::new();
        reduction_results(&nest.body, &mut results);
        Self {
            scopes: RefCell::new(scopes),
            library,
            context: Context::default(),
            code: Writer::as_tvm(),
            loops: 0,
            block: nest.block(),
            shared_bytes: 0,
            dynamic: None,
            results,
        }
    }

    fn kernel(mut self, nest: &DeviceNest, symbol: &str) -> Result<KernelText, TeError> {
        for (thread, extent) in &nest.extents {
            if let Some(var) = nest.vars.get(thread) {
                self.context.push(*var, extent);
            }
        }
        if let Some(name) = self.dynamic.clone() {
            writeln!(self.code, "extern __shared__ __align__({SHARED_ALIGNMENT}) unsigned char {name}[];");
        }
        self.statement(&nest.body)?;
        self.finish(nest, symbol)
    }

    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        self.scopes.get_mut().fresh(wanted)
    }

    pub(super) fn block(&self) -> Option<[u32; 3]> {
        self.block
    }

    /// Lets an element replace a whole buffer.
    pub(super) fn name_element(&mut self, buffer: &Buffer, element: String) {
        self.scopes.get_mut().elements.insert(buffer.clone(), element);
    }

    /// The name of the thread index along x, y or z, as an `int`.
    pub(super) fn thread_index(dimension: usize) -> String {
        format!("((int){})", Thread::Thread(u8::try_from(dimension).unwrap_or(2)).name())
    }

    /// The only element of a private buffer.
    pub(super) fn own(&mut self, buffer: &Buffer) -> Result<String, TeError> {
        self.scopes.get_mut().element(buffer, "0")
    }

    /// Whether what is being printed may run several times.
    pub(super) fn in_loop(&self) -> bool {
        self.loops > 0
    }

    pub(super) fn value(&mut self, x: &Expr) -> Result<String, TeError> {
        Printer { names: &Shared(&self.scopes), library: self.library, context: &self.context }.value(x)
    }

    pub(super) fn index(&mut self, x: &Expr) -> Result<String, TeError> {
        Printer { names: &Shared(&self.scopes), library: self.library, context: &self.context }.index(x)
    }

    /// Prints a condition, on indices only or on values.
    pub(super) fn condition(&mut self, x: &Expr) -> Result<String, TeError> {
        if x.loads() { self.value(x) } else { self.index(x) }
    }

    /// Declares an array in shared memory.
    pub(super) fn shared_array(&mut self, ty: &str, name: &str, len: usize, element_bytes: usize) {
        let bytes = len.max(1).saturating_mul(element_bytes);
        let Some(memory) = &self.dynamic else {
            self.shared_bytes = self.shared_bytes.saturating_add(bytes);
            return writeln!(self.code, "__shared__ {ty} {name}[{}];", len.max(1));
        };
        let at = self.shared_bytes.next_multiple_of(SHARED_ALIGNMENT);
        let text = format!("{ty}* const {name} = reinterpret_cast<{ty}*>({memory} + {at});");
        self.shared_bytes = at.saturating_add(bytes);
        self.code.lines(&text);
    }

    /// Declares registers for elements of a buffer; `width` elements are loaded and stored at a time. Gives their name.
    pub(super) fn lanes_of(&mut self, buffer: &Buffer, width: usize) -> Result<String, TeError> {
        let name = self.fresh(buffer.name());
        let ty = self.library.memory_type(buffer.dtype());
        self.library.needs_lanes();
        let count = self.index(&buffer.shape()[0])?;
        writeln!(self.code, "epilogue::te::Lanes<{ty}, {width}, {count}> {name};");
        self.scopes.get_mut().memory.insert(buffer.clone(), name.clone());
        Ok(name)
    }

    pub(super) fn element(&mut self, buffer: &Buffer, index: &str) -> Result<String, TeError> {
        self.scopes.get_mut().element(buffer, index)
    }

    fn statement(&mut self, statement: &Stmt) -> Result<(), TeError> {
        match statement {
            Stmt::Seq(statements) => statements.iter().try_for_each(|s| self.statement(s)),
            Stmt::For { var, extent, kind, body } => self.repeat(*var, extent, *kind, body),
            Stmt::If { condition, then } => {
                let condition = self.condition(condition)?;
                writeln!(self.code, "if ({}) {{", bare(&condition));
                self.statement(then)?;
                writeln!(self.code, "}}");
                Ok(())
            }
            Stmt::Let { var, value, body } => {
                let text = self.condition(value)?;
                let name = self.fresh(var.name());
                let ty = self.type_of(var.dtype());
                writeln!(self.code, "{ty} {name} = {text};");
                self.scopes.get_mut().vars.insert(*var, name);
                self.statement(body)
            }
            Stmt::Store { buffer, indices, value } => {
                let text = self.value(value)?;
                let [index] = indices.as_slice() else {
                    return Err(TeError::Internal {
                        what: format!("{} has several indices in a kernel", buffer.name()),
                    });
                };
                let at = self.index(index)?;
                let element = self.scopes.get_mut().element(buffer, &at)?;
                let local = buffer.scope() == Scope::Local;
                let text = if local { text } else { self.library.store(buffer.dtype(), text) };
                let mut test = String::new();
                if index.loads() || self.scopes.get_mut().tests(buffer, index) {
                    let count = self.index(&buffer.reach())?;
                    let site = self.library.site(Site::Element { access: access(buffer, index) });
                    test = format!("if (epilogue::te::inside({at}, {count}, {site})) ");
                }
                writeln!(self.code, "{test}{element} = {text};");
                Ok(())
            }
            Stmt::Allocate { buffer, body } => {
                self.allocate(buffer)?;
                self.statement(body)
            }
            Stmt::AllReduce(reduce) => self.all_reduce(reduce),
            Stmt::Barrier => {
                writeln!(self.code, "__syncthreads();");
                Ok(())
            }
            Stmt::Note { note: Note::Call(call), .. } => self.call(call),
            Stmt::Note { note: Note::DoubleBufferWrite(_) | Note::Pragma(..), body } => self.statement(body),
            // CUDA's compiler and caches do better without prefetches; TVM's CUDA target ignores them, too.
            Stmt::Prefetch { .. } => Ok(()),
            Stmt::Launch { thread, .. } => Err(refuse(format!("a launch of {} inside a launch", thread.name()))),
        }
    }

    /// Prints a call of a function that the user wrote; its definition is printed before the kernels.
    fn call(&mut self, call: &DeviceCall) -> Result<(), TeError> {
        self.library.device_function(&call.function)?;
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(match argument {
                CallArgument::Pointer(buffer, indices) => {
                    let [index] = indices.as_slice() else {
                        return Err(TeError::Internal {
                            what: format!("{} has several indices in a kernel", buffer.name()),
                        });
                    };
                    let index = self.index(index)?;
                    format!("&{}", self.scopes.get_mut().element(buffer, &index)?)
                }
                CallArgument::Value(value) => self.condition(value)?,
            });
        }
        writeln!(self.code, "{}({});", call.function.name(), arguments.join(", "));
        Ok(())
    }

    fn type_of(&self, dtype: DType) -> &'static str {
        self.scopes.borrow().type_of(dtype)
    }

    pub(super) fn repeat(&mut self, var: Var, extent: &Expr, kind: LoopKind, body: &Stmt) -> Result<(), TeError> {
        if kind == LoopKind::Vectorized
            && self.scopes.get_mut().form != Form::Tested
            && let Some(plan) = lane_plan(var, extent, body)
        {
            return self.in_lanes(var, extent, body, &plan);
        }
        let end = self.index(extent)?;
        let name = self.fresh(var.name());
        let ty = self.type_of(var.dtype());
        self.scopes.get_mut().vars.insert(var, name.clone());
        if kind == LoopKind::Unrolled {
            writeln!(self.code, "#pragma unroll");
        }
        writeln!(self.code, "for ({ty} {name} = 0; {name} < {end}; ++{name}) {{");
        self.context.push(var, extent);
        self.loops += 1;
        self.statement(body)?;
        self.loops -= 1;
        self.context.pop();
        writeln!(self.code, "}}");
        Ok(())
    }

    fn allocate(&mut self, buffer: &Buffer) -> Result<(), TeError> {
        let len =
            buffer.allocation().iter().map(Expr::as_int).try_fold(1i64, |n, extent| n.checked_mul(extent?.max(0)));
        let len = len.and_then(|len| usize::try_from(len).ok());
        let (name, scope) = (buffer.name(), buffer.scope().name());
        let Some(len) = len else {
            return Err(refuse(format!("{scope} memory of {name} whose extent is not a constant")));
        };
        match buffer.scope() {
            Scope::Local => {
                let wanted = self.results.get(buffer).cloned().unwrap_or_else(|| name.to_owned());
                let declared = self.fresh(&wanted);
                writeln!(self.code, "{} {declared}[{}];", register(buffer.dtype()), len.max(1));
                self.scopes.get_mut().memory.insert(buffer.clone(), declared);
            }
            Scope::Shared | Scope::Warp => {
                let declared = self.fresh(name);
                let ty = self.library.memory_type(buffer.dtype());
                self.shared_array(ty, &declared, len, bytes(buffer.dtype()));
                self.scopes.get_mut().memory.insert(buffer.clone(), declared);
            }
            Scope::Global => return Err(refuse(format!("global memory of {name} that each thread has its own of"))),
        }
        Ok(())
    }

    fn finish(self, nest: &DeviceNest, symbol: &str) -> Result<KernelText, TeError> {
        let Self { scopes, library, code: body, shared_bytes, .. } = self;
        let scopes = scopes.into_inner();
        let mut parameters = Vec::new();
        let restricted = Restricted::of(&nest.body);
        for (buffer, name) in &scopes.pointers {
            let qualifier = if restricted.has(buffer) { "__restrict__ " } else { "" };
            parameters.push(format!("{}* {qualifier}{name}", library.memory_type(buffer.dtype())));
        }
        for (var, name) in &scopes.scalars {
            parameters.push(format!("{} {name}", scopes.type_of(var.dtype())));
        }
        let bounds = match nest.block() {
            Some([x, y, z]) => format!("__launch_bounds__({}) ", u64::from(x) * u64::from(y) * u64::from(z)),
            None => String::new(),
        };
        let mut code = Writer::as_tvm();
        writeln!(code, "extern \"C\" __global__ void {bounds}{symbol}({}) {{", parameters.join(", "));
        code.lines(&body.text());
        writeln!(code, "}}");
        let text = code.text();
        let buffers = scopes.pointers.into_iter().map(|(buffer, _)| buffer).collect();
        let scalars = scopes.scalars.into_iter().map(|(var, _)| var).collect();
        Ok(KernelText { text, buffers, scalars, shared_bytes })
    }
}

fn reduction_results(statement: &Stmt, names: &mut HashMap<Buffer, String>) {
    if let Stmt::AllReduce(reduce) = statement {
        names.extend(reduce.results.iter().enumerate().map(|(i, buffer)| (buffer.clone(), format!("red_buf{i}"))));
    }
    statement.children().into_iter().for_each(|child| reduction_results(child, names));
}
