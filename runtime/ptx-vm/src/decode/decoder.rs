//! Walks a kernel's statements and emits its program.

use std::collections::{HashMap, HashSet};

use super::bind::general::GeneralTest;
use super::bind::{control, frame, general, handler};
use super::effect::{Effect, Successor};
use super::layout::{LocalLayout, SharedLayout};
use super::opcode::Opcode;
use super::symbols::{Globals, Register, Scope, Symbol, SymbolPlace};
use crate::arch::Feature;
use crate::error::ParseError;
use crate::numerics::mma::Mma;
use crate::numerics::scaled_mma::ScaledMma;
use crate::numerics::tensor_field::MapField;
use crate::program::forms::{BulkForm, LaneFunction, MoveForm, TensorCopyForm, TensorProductForm, WgmmaForm};
use crate::program::{Handler, Instruction, Need, Origin, SpecialSource};
use crate::syntax::ast::{self, Function, ScalarType, Statement};

/// The most instructions of a kernel, after calls are expanded.
const CODE_LIMIT: usize = 1 << 21;
/// The deepest nesting of calls.
const CALL_LIMIT: usize = 32;

/// The register for results that are not used.
pub(super) const SINK: u32 = 0;
/// Predicates that always exist.
pub(super) const TRUE: u16 = 0;
pub(super) const FALSE: u16 = 1;
/// The predicate for results that are not used.
pub(super) const PREDICATE_SINK: u16 = 2;
/// The carry flag.
pub(super) const CARRY: u16 = 3;

/// Emits one kernel.
pub(super) struct Decoder<'a> {
    pub(super) module: &'a ast::Module<'a>,
    pub(super) globals: &'a Globals<'a>,
    pub(super) scopes: Vec<Scope<'a>>,
    /// Whether each register is 64 bits wide.
    pub(super) registers: Vec<bool>,
    pub(super) fixed: HashMap<(SpecialSource, bool), u32>,
    pub(super) predicates: u32,
    pub(super) code: Vec<Instruction>,
    pub(super) effects: Vec<Effect>,
    pub(super) origins: Vec<Origin>,
    pub(super) opcodes: Vec<String>,
    /// The features that the kernel needs, once each.
    pub(super) needs: Vec<Need>,
    opcode_numbers: HashMap<&'a str, u32>,
    pub(super) rows: Vec<u32>,
    pub(super) functions: Vec<LaneFunction>,
    pub(super) products: Vec<Mma>,
    pub(super) scaled_products: Vec<ScaledMma>,
    pub(super) warpgroup_products: Vec<WgmmaForm>,
    pub(super) tensor_products: Vec<TensorProductForm>,
    pub(super) tensor_copies: Vec<TensorCopyForm>,
    pub(super) tensor_moves: Vec<MoveForm>,
    pub(super) bulk_forms: Vec<BulkForm>,
    /// The fields that `tensormap.replace` sets.
    pub(super) map_fields: Vec<MapField>,
    /// Weak loads of one element, which `atom.cas` may compare: instruction, address row, offset, bytes.
    pub(super) plain_loads: Vec<(usize, (u32, i64, u32))>,
    pub(super) compared: Vec<(u32, i64, u32)>,
    /// The instructions that extend loaded values or narrow stored ones.
    pub(super) extensions: HashSet<usize>,
    /// The accumulators of all `wgmma` products, and the instructions that wait for them.
    pub(super) accumulators: Vec<u32>,
    pub(super) warpgroup_waits: Vec<usize>,
    /// The aligned barriers of all threads.
    pub(super) block_barriers: Vec<usize>,
    /// The instructions with a member mask.
    pub(super) collectives: Vec<usize>,
    /// The position of each label.
    pub(super) labels: Vec<Option<u32>>,
    /// Labels of each branch table.
    pub(super) tables: Vec<Vec<u32>>,
    pub(super) shared: SharedLayout,
    pub(super) local: LocalLayout,
    /// The registers that the current instruction reads.
    pub(super) uses: Vec<u32>,
    pub(super) defs: Vec<u32>,
    /// The predicates that it reads, and those that it writes.
    pub(super) predicate_uses: Vec<u16>,
    pub(super) predicate_defs: Vec<u16>,
    origin: Origin,
    pub(super) guard: (u16, bool),
    /// The names of the functions being expanded, and the label at each one's end.
    calls: Vec<(&'a str, u32)>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(module: &'a ast::Module<'a>, globals: &'a Globals<'a>) -> Self {
        Self {
            module,
            globals,
            scopes: vec![],
            // The sink is wide, so that any result fits.
            registers: vec![true],
            fixed: HashMap::new(),
            predicates: u32::from(CARRY) + 1,
            code: vec![],
            effects: vec![],
            origins: vec![],
            opcodes: vec![],
            needs: vec![],
            opcode_numbers: HashMap::new(),
            rows: vec![],
            functions: vec![],
            products: vec![],
            scaled_products: vec![],
            warpgroup_products: vec![],
            tensor_products: vec![],
            tensor_copies: vec![],
            tensor_moves: vec![],
            bulk_forms: vec![],
            map_fields: vec![],
            plain_loads: vec![],
            compared: vec![],
            extensions: HashSet::new(),
            accumulators: vec![],
            warpgroup_waits: vec![],
            block_barriers: vec![],
            collectives: vec![],
            labels: vec![],
            tables: vec![],
            shared: globals.shared.clone(),
            local: LocalLayout::default(),
            uses: vec![],
            defs: vec![],
            predicate_uses: vec![],
            predicate_defs: vec![],
            origin: Origin { line: 0, opcode: 0, location: None },
            guard: (TRUE, false),
            calls: vec![],
        }
    }

    /// An error about a name, at the current instruction.
    pub(super) fn name_error(&self, message: impl Into<String>) -> ParseError {
        ParseError::Name { line: self.origin.line, message: message.into() }
    }

    /// The refusal of the kernel because of the current instruction.
    pub(super) fn unsupported(&self, message: impl Into<String>) -> ParseError {
        let opcode = self.opcodes[self.origin.opcode as usize].clone();
        ParseError::Unsupported { line: self.origin.line, opcode, message: message.into() }
    }

    /// The meaning of a name.
    pub(super) fn find(&self, name: &str) -> Option<Symbol> {
        let found = self.scopes.iter().rev().find_map(|s| s.find(name));
        found.or_else(|| self.globals.place(name).map(Symbol::Variable))
    }

    /// A fresh register.
    pub(super) fn register(&mut self, wide: bool) -> u32 {
        self.registers.push(wide);
        self.registers.len() as u32 - 1
    }

    /// A fresh label.
    pub(super) fn label(&mut self) -> u32 {
        self.labels.push(None);
        self.labels.len() as u32 - 1
    }

    pub(super) fn place_label(&mut self, label: u32) {
        self.labels[label as usize] = Some(self.code.len() as u32);
    }

    pub(super) fn block(&mut self, statements: &'a [Statement<'a>]) -> Result<(), ParseError> {
        self.scopes.push(Scope::default());
        self.declare_labels(statements)?;
        for statement in statements {
            self.statement(statement)?;
        }
        self.scopes.pop();
        Ok(())
    }

    /// A label is known in its whole block, before and after its position.
    fn declare_labels(&mut self, statements: &'a [Statement<'a>]) -> Result<(), ParseError> {
        for statement in statements {
            if let Statement::Label(name) = statement {
                let label = self.label();
                self.declare(name, Symbol::Label(label))?;
            }
        }
        for statement in statements {
            if let Statement::BranchTargets { name, targets } = statement {
                let mut labels = vec![];
                for target in targets {
                    let Some(Symbol::Label(label)) = self.find(target) else {
                        return Err(self.name_error(format!("`{target}` is not a label")));
                    };
                    labels.push(label);
                }
                self.tables.push(labels);
                self.declare(name, Symbol::Targets(self.tables.len() - 1))?;
            }
        }
        Ok(())
    }

    fn declare(&mut self, name: &'a str, symbol: Symbol) -> Result<(), ParseError> {
        let Some(scope) = self.scopes.last_mut() else {
            return Err(self.name_error(format!("`{name}` is outside of every function")));
        };
        if scope.names.insert(name, symbol).is_some() {
            return Err(self.name_error(format!("`{name}` is declared twice in one block")));
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'a Statement<'a>) -> Result<(), ParseError> {
        match statement {
            Statement::Label(name) => {
                if let Some(Symbol::Label(label)) = self.find(name) {
                    self.place_label(label);
                }
                Ok(())
            }
            Statement::Registers { scalar, name, count, line } => self.registers(*scalar, name, *count, *line),
            Statement::Variable(variable) => {
                self.origin.line = variable.line;
                let place = self.local_variable(variable)?;
                self.declare(variable.name, Symbol::Variable(place))
            }
            Statement::Instruction(instruction) => self.instruction(instruction),
            Statement::Block(statements) => self.block(statements),
            Statement::BranchTargets { .. } => Ok(()),
        }
    }

    fn registers(
        &mut self,
        scalar: ScalarType,
        name: &'a str,
        count: Option<u32>,
        line: u32,
    ) -> Result<(), ParseError> {
        self.origin.line = line;
        let number = count.unwrap_or(1);
        let first = if scalar == ScalarType::Pred {
            let first = self.predicates;
            self.predicates = first.saturating_add(number);
            first
        } else {
            let first = self.registers.len() as u32;
            if number as usize > CODE_LIMIT {
                return Err(self.name_error(format!("{number} registers `{name}` are too many")));
            }
            // A 128-bit register is two registers of 64 bits.
            let rows = number as usize * if scalar == ScalarType::B128 { 2 } else { 1 };
            self.registers.extend(std::iter::repeat_n(scalar.bytes() >= 8, rows));
            first
        };
        if self.predicates > u32::from(u16::MAX) || self.registers.len() > 1 << 24 {
            return Err(self.name_error(format!("too many registers `{name}`")));
        }
        if count.is_some() {
            if let Some(scope) = self.scopes.last_mut() {
                scope.families.insert(name, Symbol::Family { first, count: number, scalar });
            }
            return Ok(());
        }
        let symbol = if scalar == ScalarType::Pred {
            Symbol::Predicate(first as u16)
        } else {
            Symbol::Register(Register { id: first, scalar })
        };
        self.declare(name, symbol)
    }

    fn local_variable(&mut self, variable: &ast::Variable<'a>) -> Result<SymbolPlace, ParseError> {
        match variable.space {
            ast::Space::Shared if variable.elements == Some(0) => Ok(SymbolPlace::DynamicShared),
            ast::Space::Shared => Ok(SymbolPlace::Shared(self.shared.add(variable)?)),
            ast::Space::Local => Ok(SymbolPlace::Local(self.local.add(variable)?)),
            ast::Space::Param => Ok(SymbolPlace::Local(self.local.add_parameter(variable)?)),
            ast::Space::Global | ast::Space::Const => {
                Err(self.name_error(format!("`{}`: global variables belong outside of functions", variable.name)))
            }
        }
    }

    fn instruction(&mut self, instruction: &'a ast::Instruction<'a>) -> Result<(), ParseError> {
        if self.code.len() > CODE_LIMIT {
            return Err(self.name_error("the kernel is too long after its calls are expanded"));
        }
        let number = match self.opcode_numbers.get(instruction.opcode) {
            Some(&number) => number,
            None => {
                self.opcodes.push(instruction.opcode.into());
                let number = self.opcodes.len() as u32 - 1;
                self.opcode_numbers.insert(instruction.opcode, number);
                self.need(instruction, number);
                number
            }
        };
        let location = (instruction.location as usize).checked_sub(1).map(|i| self.module.locations[i]);
        self.origin = Origin { line: instruction.line, opcode: number, location };
        self.guard = match instruction.guard {
            None => (TRUE, false),
            Some(guard) => (self.predicate_name(guard.name)?, guard.negated),
        };
        self.uses.clear();
        self.defs.clear();
        self.predicate_uses.clear();
        self.predicate_defs.clear();
        let mut opcode = Opcode::new(instruction.opcode, instruction.line);
        self.dispatch(&mut opcode, &instruction.operands)?;
        opcode.finish()
    }

    /// Notes the feature that an opcode needs, unless an earlier one needed it.
    fn need(&mut self, instruction: &ast::Instruction<'a>, opcode: u32) {
        if let Some(feature) = Feature::of(instruction.opcode)
            && self.needs.iter().all(|need| need.feature != feature)
        {
            self.needs.push(Need { feature, line: instruction.line, opcode });
        }
    }

    fn dispatch(&mut self, opcode: &mut Opcode<'a>, operands: &'a [ast::Operand<'a>]) -> Result<(), ParseError> {
        if opcode.text.starts_with("st.bulk") {
            return Err(opcode.error("stores in bulk need sm_100; write the zeros with `st`"));
        }
        let groups = [
            Self::data,
            Self::arithmetic,
            Self::floating,
            Self::comparison,
            Self::conversion,
            Self::control,
            Self::collective,
            Self::matrix,
            Self::asynchronous,
            Self::hopper,
            Self::tensor_memory,
            Self::video,
        ];
        for group in groups {
            if group(self, opcode, operands)? {
                return Ok(());
            }
        }
        Err(opcode.error(match opcode.base() {
            "tex" | "tld4" | "txq" | "istypep" => "textures are not supported",
            "suld" | "sust" | "sured" | "suq" => "surfaces are not supported",
            "wmma" => "the layout of fragments of `wmma` is not documented; `mma.sync` with `ldmatrix` is supported",
            "multimem" => "a multicast object is memory of several devices, and there is one; use `ld`, `st` and `red`",
            "alloca" | "stacksave" | "stackrestore" => {
                "arrays of run-time size on the stack are not supported; declare a `.local` array of the largest size"
            }
            _ => "the instruction is not known",
        }))
    }

    /// An instruction without any effect yet.
    pub(super) fn empty(&self) -> Instruction {
        Instruction {
            run: handler::<control::Nothing>(),
            d: SINK,
            a: SINK,
            b: SINK,
            c: SINK,
            imm: 0,
            list: 0,
            flags: 0,
            p: 0,
            q: 0,
            guard: self.guard.0,
            negated: self.guard.1,
        }
    }

    /// An instruction with this handler.
    pub(super) fn with(&self, run: Handler) -> Instruction {
        Instruction { run, ..self.empty() }
    }

    /// Emits an instruction after which control goes to the next one.
    pub(super) fn push(&mut self, instruction: Instruction) {
        self.push_to(instruction, Successor::Next);
    }

    /// Emits an instruction with a member mask.
    pub(super) fn push_collective(&mut self, instruction: Instruction) {
        self.collectives.push(self.code.len());
        self.push(instruction);
    }

    /// Emits an instruction that ends the lanes that execute it.
    pub(super) fn push_ending(&mut self, instruction: Instruction) {
        self.push_to(instruction, Successor::None);
    }

    pub(super) fn push_to(&mut self, instruction: Instruction, successor: Successor) {
        let effect = Effect {
            defs: std::mem::take(&mut self.defs),
            uses: std::mem::take(&mut self.uses),
            predicate_uses: std::mem::take(&mut self.predicate_uses),
            predicate_defs: std::mem::take(&mut self.predicate_defs),
            successor,
            conditional: (instruction.guard, instruction.negated) != (TRUE, false),
        };
        self.code.push(instruction);
        self.effects.push(effect);
        self.origins.push(self.origin);
    }

    /// The guard of the current instruction.
    pub(super) fn guard(&self) -> (u16, bool) {
        self.guard
    }

    /// Emits a function on the bits of operands.
    pub(super) fn push_general(
        &mut self,
        mut instruction: Instruction,
        function: impl Fn([u64; 3]) -> u64 + Send + Sync + 'static,
    ) {
        instruction.run = handler::<general::General>();
        instruction.list = self.functions.len() as u32;
        self.functions.push(Box::new(function));
        self.push(instruction);
    }

    /// Emits a test on the bits of operands.
    pub(super) fn push_test(
        &mut self,
        mut instruction: Instruction,
        function: impl Fn([u64; 3]) -> bool + Send + Sync + 'static,
    ) {
        instruction.run = handler::<GeneralTest>();
        instruction.list = self.functions.len() as u32;
        self.functions.push(Box::new(move |operands| u64::from(function(operands))));
        self.push(instruction);
    }

    /// Adds rows to the lists. Gives the position of the first one.
    pub(super) fn list(&mut self, rows: &[u32]) -> u32 {
        self.rows.extend_from_slice(rows);
        (self.rows.len() - rows.len()) as u32
    }

    /// The label to which the function being expanded returns; `None` in the kernel itself.
    pub(super) fn return_label(&self) -> Option<u32> {
        self.calls.last().map(|c| c.1)
    }

    /// Expands a call. The callee's parameters are names for the caller's variables.
    pub(super) fn expand(
        &mut self,
        callee: &'a Function<'a>,
        returns: Vec<SymbolPlace>,
        arguments: Vec<SymbolPlace>,
    ) -> Result<(), ParseError> {
        let line = self.origin.line;
        if self.calls.len() >= CALL_LIMIT || self.calls.iter().any(|c| c.0 == callee.name) {
            return Err(self.unsupported(format!("`{}` calls itself: recursion is not supported", callee.name)));
        }
        let Some(body) = &callee.body else {
            return Err(self.name_error(format!("`{}` has no body", callee.name)));
        };
        if returns.len() != callee.returns.len() || arguments.len() != callee.parameters.len() {
            return Err(self.name_error(format!("`{}` is called with a wrong number of parameters", callee.name)));
        }
        let mut scope = Scope::default();
        let formal = callee.returns.iter().chain(&callee.parameters);
        for (variable, place) in formal.zip(returns.into_iter().chain(arguments)) {
            scope.names.insert(variable.name, Symbol::Variable(place));
        }
        let end = self.label();
        let (origin, guard) = (self.origin, self.guard);
        let outer = std::mem::replace(&mut self.scopes, vec![scope]);
        self.calls.push((callee.name, end));
        // The guard of a call has jumped over all of this.
        self.guard = (TRUE, false);
        let begin = self.code.len();
        self.push(self.with(handler::<frame::Begin>()));
        let first = self.local.end;
        self.block(body)?;
        let size = self.local.end - first;
        self.calls.pop();
        self.scopes = outer;
        (self.origin, self.guard) = (origin, (TRUE, false));
        self.origin.line = line;
        self.place_label(end);
        self.push(Instruction { imm: first.into(), list: size, ..self.with(handler::<frame::End>()) });
        (self.code[begin].imm, self.code[begin].list) = (first.into(), size);
        self.guard = guard;
        Ok(())
    }
}
