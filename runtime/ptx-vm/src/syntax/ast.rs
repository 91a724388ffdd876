//! The syntax tree. Names are borrowed from the text.

/// A fundamental type (PTX ISA §5.2), or one of the packed and alternate formats that occur as instruction types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ScalarType {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    E4m3,
    E5m2,
    E3m2,
    E2m3,
    E2m1,
    E4m3x2,
    E5m2x2,
    F32,
    F64,
}

impl ScalarType {
    /// Reads a modifier such as `u32`, without its dot.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        use ScalarType::*;
        Some(match name {
            "pred" => Pred,
            "b8" => B8,
            "b16" => B16,
            "b32" => B32,
            "b64" => B64,
            "b128" => B128,
            "u8" => U8,
            "u16" => U16,
            "u32" => U32,
            "u64" => U64,
            "s8" => S8,
            "s16" => S16,
            "s32" => S32,
            "s64" => S64,
            "f16" => F16,
            "f16x2" => F16x2,
            "bf16" => Bf16,
            "bf16x2" => Bf16x2,
            "tf32" => Tf32,
            "e4m3" => E4m3,
            "e5m2" => E5m2,
            "e3m2" => E3m2,
            "e2m3" => E2m3,
            "e2m1" => E2m1,
            "e4m3x2" => E4m3x2,
            "e5m2x2" => E5m2x2,
            "f32" => F32,
            "f64" => F64,
            _ => return None,
        })
    }

    /// Size in bytes; 0 for a predicate.
    pub(crate) fn bytes(self) -> u32 {
        use ScalarType::*;
        match self {
            Pred => 0,
            B8 | U8 | S8 | E4m3 | E5m2 | E3m2 | E2m3 | E2m1 => 1,
            B16 | U16 | S16 | F16 | Bf16 | E4m3x2 | E5m2x2 => 2,
            B32 | U32 | S32 | F32 | F16x2 | Bf16x2 | Tf32 => 4,
            B64 | U64 | S64 | F64 => 8,
            B128 => 16,
        }
    }

    /// Whether values are integers or untyped bits.
    pub(crate) fn is_integer(self) -> bool {
        use ScalarType::*;
        matches!(self, B8 | B16 | B32 | B64 | U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64)
    }

    /// Whether values are signed integers.
    pub(crate) fn is_signed(self) -> bool {
        matches!(self, ScalarType::S8 | ScalarType::S16 | ScalarType::S32 | ScalarType::S64)
    }
}

/// A state space (PTX ISA §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
    Param,
    Const,
}

impl Space {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "global" => Space::Global,
            "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
            "local" => Space::Local,
            "param" | "param::entry" | "param::func" => Space::Param,
            "const" => Space::Const,
            _ => return None,
        })
    }
}

/// A source position from `.loc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) file: u32,
    pub(crate) line: u32,
    /// The place of the outermost inlined call, if the code was inlined.
    pub(crate) inlined_at: Option<(u32, u32)>,
}

/// One value of an initialiser.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Initialiser<'a> {
    Integer(u64),
    Float32(u32),
    Float64(u64),
    /// The address of a variable plus an offset.
    Symbol {
        name: &'a str,
        offset: i64,
    },
}

/// A variable or parameter declaration.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    pub(crate) space: Space,
    pub(crate) name: &'a str,
    pub(crate) scalar: ScalarType,
    /// `.v2` and `.v4` multiply the size.
    pub(crate) vector: u32,
    /// The product of the array dimensions; `None` for a scalar, `Some(0)` for an array without a size.
    pub(crate) elements: Option<u64>,
    /// The given or natural alignment, in bytes.
    pub(crate) alignment: u32,
    pub(crate) is_extern: bool,
    pub(crate) initialiser: Vec<Initialiser<'a>>,
    pub(crate) line: u32,
}

impl Variable<'_> {
    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        // The parser allows fewer than 2^40 elements, so this can't overflow.
        u64::from(self.scalar.bytes()) * u64::from(self.vector) * self.elements.unwrap_or(1)
    }
}

/// An operand as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand<'a> {
    /// A register, special register, label, variable or `_`.
    Name(&'a str),
    /// A variable plus an offset.
    NameOffset(&'a str, i64),
    Integer(u64),
    Float32(u32),
    Float64(u64),
    /// `!p`
    Not(&'a str),
    /// `d|p`
    Pair(&'a str, &'a str),
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `(a, b)` of a call.
    List(Vec<Operand<'a>>),
    /// `[base + offset]`; in tensor copies it also has the operands after the base.
    Address {
        base: Box<Operand<'a>>,
        offset: i64,
        coordinates: Vec<Operand<'a>>,
    },
}

/// A guard predicate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Guard<'a> {
    pub(crate) name: &'a str,
    pub(crate) negated: bool,
}

/// An instruction as written.
#[derive(Clone, Debug)]
pub(crate) struct Instruction<'a> {
    pub(crate) guard: Option<Guard<'a>>,
    /// The full opcode, such as `add.s32`.
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
    pub(crate) line: u32,
    /// Index into [`Module::locations`] plus one; 0 is none.
    pub(crate) location: u32,
}

/// A statement in a function's body.
#[derive(Clone, Debug)]
pub(crate) enum Statement<'a> {
    Label(&'a str),
    /// `.reg .b32 %r<9>` (count) or `.reg .b32 x` (no count).
    Registers {
        scalar: ScalarType,
        name: &'a str,
        count: Option<u32>,
        line: u32,
    },
    Variable(Variable<'a>),
    Instruction(Instruction<'a>),
    Block(Vec<Statement<'a>>),
    /// `name: .branchtargets a, b`
    BranchTargets {
        name: &'a str,
        targets: Vec<&'a str>,
    },
}

/// A kernel or a device function.
#[derive(Clone, Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_entry: bool,
    pub(crate) returns: Vec<Variable<'a>>,
    pub(crate) parameters: Vec<Variable<'a>>,
    /// `None` for a declaration.
    pub(crate) body: Option<Vec<Statement<'a>>>,
    /// `.maxntid` or `.reqntid`: the most threads of a block.
    pub(crate) max_threads: Option<u32>,
    /// `.maxnreg`.
    pub(crate) max_registers: Option<u32>,
    /// `.minnctapersm`.
    pub(crate) min_blocks: Option<u32>,
    /// `.reqntid` with all three numbers.
    pub(crate) required_block: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub(crate) required_cluster: Option<[u32; 3]>,
    pub(crate) line: u32,
}

/// A whole module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module<'a> {
    pub(crate) version: (u32, u32),
    pub(crate) target: &'a str,
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
    /// `.file` number to name.
    pub(crate) files: Vec<(u32, &'a str)>,
    pub(crate) locations: Vec<Location>,
}
