//! Machine code for a program of one thread, made through Cranelift's intermediate form, function by function.
//!
//! The program's body is one function. The body of each parallel loop is another one, which is called for a range of
//! iterations. A value is either the same for all lanes of a vectorised loop, or a list of 128-bit vectors. Truth
//! values, 8-bit integers and floats narrower than f32 are held in 32 bits, and rounded or wrapped to their type after
//! every operation.

mod convert;
mod math;
mod memory;
mod plan;
mod statement;
mod value;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::{
    AbiParam, AliasRegionData, InstBuilder, MemFlagsData, Signature, StackSlot, StackSlotData, StackSlotKind, Type,
    Value, types,
};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use epilogue_runtime::{CpuLevel, DataError};

use self::memory::Promoted;
use super::host;
use super::host::{NativeEntry, NativeStatus};
use crate::level;
use crate::sync::lock;
use crate::te::error::{LoweringError, RunError, TeError};
use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::Expr;
use crate::te::expr::var::Var;
use crate::te::loops::ir::stmt::Stmt;

/// Memory of fixed size is on the stack, up to this many bytes for each function.
const STACK_LIMIT: usize = 16 << 10;

/// Compiled code. The machine code is freed when this is dropped.
pub(crate) struct NativeCode {
    module: Mutex<Option<JITModule>>,
    entry: NativeEntry,
    sites: Vec<Site>,
}

/// An operation that can fail at a place in the code.
#[derive(Clone, Debug)]
pub(crate) enum Site {
    /// An access of a buffer, as text.
    Access(String),
    /// A division by an expression, as text.
    Division(String),
    /// An allocation for a buffer.
    Memory(String),
}

impl NativeCode {
    /// Runs the code.
    ///
    /// # Safety
    /// The frame holds, in this order, the addresses of the arguments' memory, their spans in elements, and the values
    /// of the variables. The memory must be valid for reads of those spans, and for writes where the program writes.
    /// Unless the code tests every access, `accesses_stay_inside` must hold for these spans and values.
    pub(crate) unsafe fn run(&self, frame: &[u64]) -> Result<(), TeError> {
        let status = NativeStatus::default();
        // SAFETY: the caller's promise. The entry is code of a module that is alive.
        unsafe { (self.entry)(frame.as_ptr(), 0, 1, &raw const status) }
        let Some((site, value, limit)) = status.failure() else { return Ok(()) };
        Err(match self.sites.get(site) {
            Some(Site::Access(access)) => {
                DataError::Element { access: access.clone(), element: value, count: limit }.into()
            }
            Some(Site::Division(divisor)) => DataError::DivisionByZero { divisor: Some(divisor.clone()) }.into(),
            Some(Site::Memory(name)) => {
                RunError::Failed { reason: format!("there is no memory for {name}: {value} bytes are needed") }.into()
            }
            None => DataError::Unknown.into(),
        })
    }
}

impl Drop for NativeCode {
    fn drop(&mut self) {
        if let Some(module) = lock(&self.module).take() {
            // SAFETY: the entry is called only through `self`, and not after this.
            unsafe { module.free_memory() }
        }
    }
}

impl std::fmt::Debug for NativeCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Code({:p}, {} sites)", self.entry as *const (), self.sites.len())
    }
}

/// The input of the code generator: a program's body, and the content of its frame.
pub(crate) struct CodeSource<'p> {
    pub(crate) body: &'p Stmt,
    pub(crate) arguments: &'p [Buffer],
    pub(crate) written: &'p HashSet<Buffer>,
    pub(crate) variables: &'p [Var],
    /// Whether every access is tested.
    pub(crate) checked: bool,
}

/// Compiles a program.
pub(crate) fn generate(source: &CodeSource<'_>) -> Result<NativeCode, TeError> {
    let isa = target()?;
    // This is a flag of x86-64. All other supported processors have the feature.
    let fused = isa.isa_flags().iter().all(|flag| flag.name != "has_fma" || flag.as_bool() == Some(true));
    let module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
    let mut unit = Unit {
        module,
        pending: Vec::new(),
        sites: Vec::new(),
        checked: source.checked,
        fused,
        written: source.written,
        signatures: 0,
    };
    let mut slots: Vec<FrameSlot> = source.arguments.iter().cloned().map(FrameSlot::Pointer).collect();
    slots.extend(source.arguments.iter().cloned().map(FrameSlot::Length));
    slots.extend(source.variables.iter().copied().map(FrameSlot::Counter));
    let id = unit.declare()?;
    unit.pending.push(Pending { id, body: source.body, counter: None, frame: slots });
    let mut context = FunctionBuilderContext::new();
    while let Some(next) = unit.pending.pop() {
        unit.define(&next, &mut context)?;
    }
    unit.module.finalize_definitions().map_err(|error| failed(&error))?;
    let address = unit.module.get_finalized_function(id);
    // SAFETY: the function was declared with this signature, and the module stays alive in the result.
    let entry = unsafe { std::mem::transmute::<*const u8, NativeEntry>(address) };
    Ok(NativeCode { module: Mutex::new(Some(unit.module)), entry, sites: unit.sites })
}

/// The host's processor, with its features at the thread's level.
fn target() -> Result<OwnedTargetIsa, TeError> {
    static TARGETS: Mutex<BTreeMap<CpuLevel, Result<OwnedTargetIsa, String>>> = Mutex::new(BTreeMap::new());
    let level = level::current();
    let mut targets = lock(&TARGETS);
    let found = targets.entry(level).or_insert_with(|| {
        let mut flags = settings::builder();
        let mut set = |name, value| flags.set(name, value).map_err(|error| error.to_string());
        set("opt_level", "speed")?;
        set("is_pic", "false")?;
        set("use_colocated_libcalls", "false")?;
        set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })?;
        let mut builder = cranelift_native::builder().map_err(str::to_owned)?;
        for (feature, least) in FEATURES {
            if cfg!(target_arch = "x86_64") && level < *least {
                builder.set(feature, "false").map_err(|error| error.to_string())?;
            }
        }
        builder.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
    });
    found.clone().map_err(|what| LoweringError::Target { what, target: "native code" }.into())
}

/// Cranelift's names of vector instructions of x86-64, and the lowest level that has them.
const FEATURES: &[(&str, CpuLevel)] = &[
    ("has_sse3", CpuLevel::Avx2),
    ("has_ssse3", CpuLevel::Avx2),
    ("has_sse41", CpuLevel::Avx2),
    ("has_sse42", CpuLevel::Avx2),
    ("has_avx", CpuLevel::Avx2),
    ("has_avx2", CpuLevel::Avx2),
    ("has_fma", CpuLevel::Avx2),
    ("has_avx512f", CpuLevel::Avx512),
    ("has_avx512vl", CpuLevel::Avx512),
    ("has_avx512dq", CpuLevel::Avx512),
    ("has_avx512bitalg", CpuLevel::Avx512),
    ("has_avx512vbmi", CpuLevel::Avx512),
];

fn failed(error: &dyn std::fmt::Display) -> TeError {
    LoweringError::Target {
        what: format!("a program that the code generator refuses ({error})"),
        target: "native code",
    }
    .into()
}

/// One slot of the array of values with which a function is called.
#[derive(Clone, Debug)]
enum FrameSlot {
    /// The address of a buffer's memory.
    Pointer(Buffer),
    /// The number of elements of a buffer.
    Length(Buffer),
    /// A size or a loop's counter, in 64 bits.
    Counter(Var),
    /// A named value in the representation of its type.
    Value(Var),
}

/// A function whose code is still to be generated.
struct Pending<'p> {
    id: FuncId,
    body: &'p Stmt,
    /// The counter of a parallel loop.
    counter: Option<Var>,
    frame: Vec<FrameSlot>,
}

/// A program's code during generation.
struct Unit<'p> {
    module: JITModule,
    pending: Vec<Pending<'p>>,
    sites: Vec<Site>,
    checked: bool,
    /// Whether the processor has a fused multiply-add.
    fused: bool,
    written: &'p HashSet<Buffer>,
    signatures: u32,
}

impl<'p> Unit<'p> {
    fn signature(&self) -> Signature {
        let mut signature = self.module.make_signature();
        let pointer = self.module.target_config().pointer_type();
        signature.params = [pointer, types::I64, types::I64, pointer].map(AbiParam::new).to_vec();
        signature
    }

    fn declare(&mut self) -> Result<FuncId, TeError> {
        self.signatures += 1;
        let name = format!("f{}", self.signatures);
        self.module.declare_function(&name, Linkage::Local, &self.signature()).map_err(|error| failed(&error))
    }

    fn define(&mut self, next: &Pending<'p>, context: &mut FunctionBuilderContext) -> Result<(), TeError> {
        let mut function = self.module.make_context();
        function.func.signature = self.signature();
        let config = self.module.target_config();
        let mut builder = FunctionBuilder::new(&mut function.func, context);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let [frame, begin, end, status] = *builder.block_params(block) else {
            return Err(failed(&"a function without its four parameters"));
        };
        let mut translator = Translator {
            b: builder,
            unit: self,
            status,
            vars: HashMap::new(),
            memory: HashMap::new(),
            promoted: Vec::new(),
            lanes: None,
            slots: HashMap::new(),
            regions: 0,
            known: value::Known::default(),
        };
        translator.enter(&next.frame, frame);
        translator.make_slots(next.body);
        match next.counter {
            None => translator.statement(next.body)?,
            Some(var) => translator.counted(var, begin, end, &mut |this| this.statement(next.body))?,
        }
        translator.b.ins().return_(&[]);
        translator.b.seal_all_blocks();
        translator.b.finalize(config);
        self.module.define_function(next.id, &mut function).map_err(|error| failed(&error))
    }
}

/// A value: one for all lanes, or vectors of 4 lanes of 32 bits or 2 lanes of 64 bits.
#[derive(Clone, Debug)]
enum Val {
    One(Value),
    Many(Vec<Value>),
}

/// How a variable is held.
#[derive(Clone, Debug)]
enum Binding {
    /// An integer in 64 bits, whatever its type.
    Counter(Value),
    /// A value in the representation of its type.
    Named(Val),
}

/// A buffer's memory.
#[derive(Clone, Copy, Debug)]
struct Memory {
    pointer: Value,
    len: Value,
    flags: MemFlagsData,
}

/// The vectorised loop whose body is being generated.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    var: Var,
    /// The counter's value in the first lane.
    base: Value,
    count: usize,
    /// The only lane that is being computed, if the lanes are computed one by one.
    single: Option<usize>,
}

/// Generates one function.
struct Translator<'f, 'u, 'p> {
    b: FunctionBuilder<'f>,
    unit: &'u mut Unit<'p>,
    status: Value,
    vars: HashMap<Var, Binding>,
    memory: HashMap<Buffer, Memory>,
    promoted: Vec<Promoted>,
    lanes: Option<Lanes>,
    slots: HashMap<Buffer, StackSlot>,
    regions: u32,
    /// The nodes of the current expression that already have a value.
    known: value::Known,
}

impl<'p> Translator<'_, '_, 'p> {
    /// Loads the function's inputs from its frame.
    fn enter(&mut self, slots: &[FrameSlot], frame: Value) {
        let flags = MemFlagsData::trusted().with_readonly();
        let pointer = self.unit.module.target_config().pointer_type();
        let mut pointers: HashMap<Buffer, Value> = HashMap::new();
        for (i, slot) in slots.iter().enumerate() {
            let offset = i32::try_from(i * 8).unwrap_or(i32::MAX);
            match slot {
                FrameSlot::Pointer(buffer) => {
                    pointers.insert(buffer.clone(), self.b.ins().load(pointer, flags, frame, offset));
                }
                FrameSlot::Length(buffer) => {
                    let len = self.b.ins().load(types::I64, flags, frame, offset);
                    if let Some(pointer) = pointers.get(buffer).copied() {
                        self.bind_memory(buffer, pointer, len);
                    }
                }
                FrameSlot::Counter(var) => {
                    let value = self.b.ins().load(types::I64, flags, frame, offset);
                    self.vars.insert(*var, Binding::Counter(value));
                }
                FrameSlot::Value(var) => {
                    let value = self.b.ins().load(value::scalar_type(var.dtype()), flags, frame, offset);
                    self.vars.insert(*var, Binding::Named(Val::One(value)));
                }
            }
        }
    }

    /// Two buffers never share memory, and what the program doesn't write never changes.
    fn bind_memory(&mut self, buffer: &Buffer, pointer: Value, len: Value) {
        self.regions += 1;
        let description = std::borrow::Cow::Borrowed("buffer");
        let region = self.b.func.dfg.alias_regions.insert(AliasRegionData { user_id: self.regions, description });
        let mut flags = MemFlagsData::new().with_notrap().with_alias_region(Some(region));
        if !self.unit.written.contains(buffer) {
            flags = flags.with_readonly();
        }
        self.memory.insert(buffer.clone(), Memory { pointer, len, flags });
    }

    /// Allocates stack memory for small buffers of fixed size. It is zeroed once, since a program writes memory before
    /// it reads it.
    fn make_slots(&mut self, body: &Stmt) {
        let mut left = STACK_LIMIT;
        self.find_slots(body, &mut left);
    }

    fn find_slots(&mut self, statement: &Stmt, left: &mut usize) {
        if matches!(statement, Stmt::For { kind: crate::te::loops::ir::stmt::LoopKind::Parallel, .. }) {
            return;
        }
        if let Stmt::Allocate { buffer, .. } = statement
            && let Some(bytes) = memory::fixed_bytes(buffer).filter(|bytes| *bytes <= *left)
        {
            *left -= bytes;
            let size = u32::try_from(bytes.next_multiple_of(16)).unwrap_or(u32::MAX);
            let slot = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4));
            let zero = self.b.ins().iconst(types::I64, 0);
            let pointer = self.pointer();
            let start = self.b.ins().stack_addr(pointer, slot, 0);
            for at in (0..size).step_by(8) {
                let at = i32::try_from(at).unwrap_or(i32::MAX);
                self.b.ins().store(MemFlagsData::trusted(), zero, start, at);
            }
            self.slots.insert(buffer.clone(), slot);
        }
        statement.children().into_iter().for_each(|child| self.find_slots(child, left));
    }

    fn pointer(&self) -> Type {
        self.unit.module.target_config().pointer_type()
    }

    /// Calls a function of the host.
    fn call(&mut self, address: usize, arguments: &[(Type, Value)], result: Option<Type>) -> Option<Value> {
        let mut signature = self.unit.module.make_signature();
        signature.params.extend(arguments.iter().map(|(ty, _)| AbiParam::new(*ty)));
        signature.returns.extend(result.map(AbiParam::new));
        let signature = self.b.import_signature(signature);
        let pointer = self.pointer();
        #[expect(clippy::cast_possible_wrap, reason = "the bits of an address")]
        let address = self.b.ins().iconst(pointer, Imm64::new(address as i64));
        let values: Vec<Value> = arguments.iter().map(|(_, value)| *value).collect();
        let call = self.b.ins().call_indirect(signature, address, &values);
        result.and_then(|_| self.b.inst_results(call).first().copied())
    }

    /// Records a failure.
    fn fail(&mut self, site: Site, value: Value, limit: Value) {
        let pointer = self.pointer();
        let number = i64::try_from(self.unit.sites.len()).unwrap_or(i64::MAX);
        self.unit.sites.push(site);
        let number = self.b.ins().iconst(types::I64, number);
        let arguments = [(pointer, self.status), (types::I64, number), (types::I64, value), (types::I64, limit)];
        self.call(host::fail as *const () as usize, &arguments, None);
    }

    fn integer(&mut self, value: i64) -> Value {
        self.b.ins().iconst(types::I64, value)
    }
}

/// The error for what a program for one thread must not contain.
fn unexpected(what: &str) -> TeError {
    LoweringError::Target { what: what.to_owned(), target: "native code" }.into()
}

/// An access as a message shows it.
fn shown(buffer: &Buffer, index: &Expr) -> String {
    format!("{}[{}]", buffer.name(), crate::te::text::expression(index))
}
