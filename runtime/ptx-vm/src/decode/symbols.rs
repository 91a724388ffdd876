//! Symbols: what the names in a text stand for.

use std::collections::HashMap;

use super::layout::SharedLayout;
use crate::error::ParseError;
use crate::program::{ModuleVariable, ProgramValue};
use crate::syntax::ast::{Function, Initialiser, Module, ScalarType, Space, Variable};

/// A register before rows are assigned: its number and type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register {
    pub(super) id: u32,
    pub(super) scalar: ScalarType,
}

impl Register {
    /// The two 64-bit registers of a 128-bit one, the low half first.
    pub(super) fn halves(self) -> [u32; 2] {
        [self.id, self.id + 1]
    }

    pub(super) fn is_wide(self) -> bool {
        self.scalar.bytes() == 8
    }
}

/// The place of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SymbolPlace {
    /// Offset in the block's shared memory.
    Shared(u32),
    /// Dynamic shared memory.
    DynamicShared,
    /// Index among the module's variables.
    Module(usize),
    /// Offset in a thread's local memory.
    Local(u32),
    /// Offset in the parameter block, and size.
    Parameter { offset: u32, size: u32 },
}

/// The meaning of a name in a function.
#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol {
    Register(Register),
    Predicate(u16),
    /// `%r<9>`: the first number, and how many.
    Family {
        first: u32,
        count: u32,
        scalar: ScalarType,
    },
    Variable(SymbolPlace),
    Label(u32),
    /// Index into the decoder's branch tables.
    Targets(usize),
}

/// The names of one block.
#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) names: HashMap<&'a str, Symbol>,
    /// `%r<9>` by prefix.
    pub(super) families: HashMap<&'a str, Symbol>,
}

impl Scope<'_> {
    pub(super) fn find(&self, name: &str) -> Option<Symbol> {
        if let Some(&symbol) = self.names.get(name) {
            return Some(symbol);
        }
        // `%r<9>` declares `%r0` to `%r8`. The prefix itself may end in digits.
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (digits..name.len()).find_map(|split| {
            let (prefix, number) = name.split_at(split);
            let number: u32 = number.parse().ok().filter(|_| number == "0" || !number.starts_with('0'))?;
            match self.families.get(prefix)? {
                &Symbol::Family { first, count, scalar } if number < count => Some(if scalar == ScalarType::Pred {
                    Symbol::Predicate((first + number) as u16)
                } else {
                    let each = if scalar == ScalarType::B128 { 2 } else { 1 };
                    Symbol::Register(Register { id: first + each * number, scalar })
                }),
                _ => None,
            }
        })
    }
}

/// The names that the module declares outside of functions.
pub(super) struct Globals<'a> {
    places: HashMap<&'a str, SymbolPlace>,
    pub(super) functions: HashMap<&'a str, &'a Function<'a>>,
    variables: Vec<ModuleVariable>,
    /// The module's shared variables.
    pub(super) shared: SharedLayout,
    /// The alignment of dynamic shared memory.
    pub(super) dynamic_shared_alignment: u32,
}

impl<'a> Globals<'a> {
    pub(super) fn new(module: &'a Module<'a>) -> Result<Self, ParseError> {
        let mut globals = Self {
            places: HashMap::new(),
            functions: HashMap::new(),
            variables: vec![],
            shared: SharedLayout::default(),
            dynamic_shared_alignment: 16,
        };
        for function in &module.functions {
            // A declaration may come before its definition.
            if function.body.is_some() || !globals.functions.contains_key(function.name) {
                globals.functions.insert(function.name, function);
            }
        }
        let mut in_memory = vec![];
        for variable in &module.variables {
            globals.declare(variable, &mut in_memory)?;
        }
        for variable in in_memory {
            let values = globals.values(variable)?;
            globals.variables.push(module_variable(variable, values)?);
        }
        Ok(globals)
    }

    fn declare(&mut self, variable: &'a Variable<'a>, in_memory: &mut Vec<&'a Variable<'a>>) -> Result<(), ParseError> {
        let line = variable.line;
        let place = match variable.space {
            Space::Shared if variable.elements == Some(0) => {
                self.dynamic_shared_alignment = self.dynamic_shared_alignment.max(variable.alignment);
                SymbolPlace::DynamicShared
            }
            Space::Shared => SymbolPlace::Shared(self.shared.add(variable)?),
            Space::Global | Space::Const if variable.is_extern => {
                let message = format!("`{}` is extern: modules are not linked", variable.name);
                return Err(ParseError::Name { line, message });
            }
            Space::Global | Space::Const => {
                in_memory.push(variable);
                SymbolPlace::Module(in_memory.len() - 1)
            }
            Space::Local | Space::Param => {
                let message = format!("`{}`: local variables belong in functions", variable.name);
                return Err(ParseError::Name { line, message });
            }
        };
        if self.places.insert(variable.name, place).is_some() {
            return Err(ParseError::Name { line, message: format!("`{}` is declared twice", variable.name) });
        }
        Ok(())
    }

    fn values(&self, variable: &Variable<'a>) -> Result<Vec<ProgramValue>, ParseError> {
        variable
            .initialiser
            .iter()
            .map(|value| match *value {
                Initialiser::Integer(bits) | Initialiser::Float64(bits) => Ok(ProgramValue::Bits(bits)),
                Initialiser::Float32(bits) => Ok(ProgramValue::Bits(bits.into())),
                Initialiser::Symbol { name, offset } => match self.places.get(name) {
                    Some(&SymbolPlace::Module(index)) => Ok(ProgramValue::Address { variable: index, offset }),
                    _ => {
                        let message = format!("`{name}` in an initialiser is not a global variable");
                        Err(ParseError::Name { line: variable.line, message })
                    }
                },
            })
            .collect()
    }

    pub(super) fn place(&self, name: &str) -> Option<SymbolPlace> {
        self.places.get(name).copied()
    }

    pub(super) fn into_variables(self) -> Vec<ModuleVariable> {
        self.variables
    }
}

fn module_variable(variable: &Variable<'_>, values: Vec<ProgramValue>) -> Result<ModuleVariable, ParseError> {
    const LIMIT: u64 = 1 << 32;
    let size = variable.bytes();
    if size > LIMIT {
        let message = format!("`{}` has {size} bytes; at most {LIMIT} are supported", variable.name);
        return Err(ParseError::Name { line: variable.line, message });
    }
    Ok(ModuleVariable {
        name: variable.name.into(),
        size,
        element_bytes: (variable.scalar.bytes() as usize).clamp(1, 8),
        values,
    })
}
