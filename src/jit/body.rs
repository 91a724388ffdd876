//! The body of a loop over lanes: what one lane computes, as values in the order in which they are computed.
//!
//! A vector has 8 or 16 lanes of 32 bits: an f32, an i32, or a mask (all bits or none). In between, half as many f64s.
//!
//! A [wide](Body::wide) body has half as many lanes, of 64 bits: an f64, an i64, or a mask. Row programs and tiles may be
//! wide.

use std::collections::HashMap;

use crate::ElementType;

/// A value of every lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct JitValue(u32);

impl JitValue {
    /// The value of a node, by its number.
    pub(super) const fn of(node: usize) -> Self {
        Self(node as u32)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How the lanes of a stream lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    F32,
    /// Held as f32s.
    F16,
    /// Held as f32s.
    BF16,
    I32,
    /// Held as i32s.
    I8,
    /// Held as i32s.
    U8,
    /// Loaded by wide bodies; stored by these, and by a stage that is computed once.
    F64,
}

impl Lane {
    /// The lanes of an element type; `None` if vector code doesn't load them.
    pub(crate) const fn of(element: ElementType) -> Option<Self> {
        Some(match element {
            ElementType::F32 => Self::F32,
            ElementType::F16 => Self::F16,
            ElementType::BF16 => Self::BF16,
            ElementType::I32 => Self::I32,
            ElementType::I8 => Self::I8,
            ElementType::U8 | ElementType::Bool => Self::U8,
            _ => return None,
        })
    }

    /// Whether they are held as f32s; else as i32s.
    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16 | Self::F64)
    }

    /// Bytes of a lane.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::I8 | Self::U8 => 1,
        }
    }
}

/// The memory at an address that the loop is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// Neighbouring lanes. Stores may be non-temporal (`past` the caches).
    Stream { lane: Lane, read: bool, written: bool, past: bool },
    /// As many lanes of 32 bits as the period has; then the first ones again.
    Cyclic,
    /// One value of 32 bits for all lanes.
    Uniform,
    /// One value of 64 bits for all lanes, or for each two lanes of 32 bits.
    WideUniform,
    /// The first lane's i32; each lane has one more than the one before.
    Counter,
    /// An operand of a [tile](super::tile).
    Tile(TileOperand),
}

/// An operand of what a tile combines, by its number among those of its kind. All have the body's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileOperand {
    /// One value for each row.
    Row(usize),
    /// A lane for each column.
    Column(usize),
    /// The value that elements are combined into.
    Total(usize),
}

/// Where a computed value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JitTarget {
    Argument(usize),
    /// A place, for later stages of a [row program](super::rows).
    Place(usize),
    /// One of the body's [states](Body::states), by its number; of f64s, the half of a vector's lanes.
    State(usize, usize),
}

/// The combination of all lanes of a row, by one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct JitState {
    pub(super) op: Binary,
    /// The bits that each two lanes, or each f64, are combined with first.
    pub(super) identity: u64,
    /// Where the result is left.
    pub(super) place: usize,
    /// Whether any two values may be combined first.
    pub(super) is_free: bool,
    pub(super) lanes: StateLanes,
}

/// The lanes of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateLanes {
    /// The body's lanes, of 32 bits.
    Narrow,
    /// f64s of a body with lanes of 32 bits: they take two vectors.
    Halves,
    /// A wide body's lanes.
    Wide,
}

impl JitState {
    /// The number of vectors for each of lanes.
    pub(super) const fn parts(self) -> usize {
        match self.lanes {
            StateLanes::Halves => 2,
            StateLanes::Narrow | StateLanes::Wide => 1,
        }
    }
}

/// An operation of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    Sqrt,
    /// To an integer: 0 to the nearest, ties to even; 1 down; 2 up; 3 towards 0.
    Round(u8),
    /// An f32 of an i32.
    Float,
    /// The i32 of an f32, towards 0; the least i32 for what has none.
    Truncate,
    ShiftLeft(u8),
    /// With zeros.
    ShiftRight(u8),
    /// With the sign.
    ShiftSigned(u8),
    /// f16s in half a vector, of f32s.
    ToF16,
    FromF16,
    /// The low 16 bits of lanes below 2^16, in half a vector.
    Pack16,
    /// The low 8 bits of lanes below 2^8, in a quarter of a vector.
    Pack8,
    /// f64s of the first half of f32s.
    WidenLow,
    /// f64s of the last half of f32s.
    WidenHigh,
    /// f32s in half a vector, of f64s.
    Narrow,
    SqrtF64,
    /// In lanes of 64 bits.
    ShiftLeft64(u8),
    /// With zeros.
    ShiftRight64(u8),
}

/// An operation of two operands. Comparisons give masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The first if it is less than the second; else the second.
    FirstLess,
    FirstGreater,
    And,
    /// The second without the bits of the first.
    Without,
    Or,
    Xor,
    Less,
    LessEqual,
    Equal,
    /// Also if one is NaN.
    NotEqual,
    /// Where one is NaN.
    Unordered,
    AddI32,
    SubI32,
    MulI32,
    LeastI32,
    GreatestI32,
    /// The greater of two values, compared as unsigned integers.
    GreatestU32,
    EqualI32,
    GreaterI32,
    AddF64,
    SubF64,
    MulF64,
    DivF64,
    FirstLessF64,
    FirstGreaterF64,
    LessF64,
    LessEqualF64,
    EqualF64,
    NotEqualF64,
    UnorderedF64,
    AddI64,
    SubI64,
    /// The low 64 bits. Only AVX-512 has the instruction.
    MulI64,
    /// The products of the low halves of 64 bits, without signs.
    MulU32,
    /// Only AVX-512 has the instruction.
    LeastI64,
    /// Only AVX-512 has the instruction.
    GreatestI64,
    EqualI64,
    GreaterI64,
    /// A vector of two halves.
    Join,
    /// The first times 2 to the power of the second, an integral f32; rounded once. Only AVX-512 has the instruction.
    Scale,
}

impl Binary {
    /// Whether the result is a mask of the operands' order.
    pub(super) const fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Less
                | Self::LessEqual
                | Self::Equal
                | Self::NotEqual
                | Self::Unordered
                | Self::EqualI32
                | Self::GreaterI32
        ) || self.is_wide_comparison()
    }

    /// Whether the result is a mask of lanes of 64 bits.
    pub(super) const fn is_wide_comparison(self) -> bool {
        matches!(
            self,
            Self::LessF64
                | Self::LessEqualF64
                | Self::EqualF64
                | Self::NotEqualF64
                | Self::UnorderedF64
                | Self::EqualI64
                | Self::GreaterI64
        )
    }

    /// Whether the operands may change places. (Which of two NaNs is the result doesn't count.)
    pub(super) const fn commutes(self) -> bool {
        matches!(
            self,
            Self::Add
                | Self::Mul
                | Self::And
                | Self::Or
                | Self::Xor
                | Self::Equal
                | Self::NotEqual
                | Self::Unordered
                | Self::AddI32
                | Self::MulI32
                | Self::LeastI32
                | Self::GreatestI32
                | Self::GreatestU32
                | Self::EqualI32
                | Self::AddF64
                | Self::MulF64
                | Self::EqualF64
                | Self::NotEqualF64
                | Self::UnorderedF64
                | Self::AddI64
                | Self::MulI64
                | Self::MulU32
                | Self::LeastI64
                | Self::GreatestI64
                | Self::EqualI64
        )
    }
}

/// How a value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum JitNode {
    /// 64 bits, repeated in every pair of lanes.
    Constant(u64),
    /// The lanes of an argument.
    Load(usize),
    /// The value that an earlier stage of a [row program](super::rows) has left in a place.
    Held(usize),
    Unary(Unary, JitValue),
    Binary(Binary, JitValue, JitValue),
    /// By the mask, the second or else the third.
    Select(JitValue, JitValue, JitValue),
    /// Product and sum, rounded once.
    Fma(JitValue, JitValue, JitValue),
    /// For f64s.
    FmaF64(JitValue, JitValue, JitValue),
    /// The first; in lanes that a row doesn't have, the second, a constant.
    Within(JitValue, JitValue),
}

impl JitNode {
    /// This node with other operands.
    pub(super) fn with_operands(self, of: impl Fn(JitValue) -> JitValue) -> Self {
        match self {
            Self::Constant(_) | Self::Load(_) | Self::Held(_) => self,
            Self::Unary(op, a) => Self::Unary(op, of(a)),
            Self::Binary(op, a, b) => Self::Binary(op, of(a), of(b)),
            Self::Select(mask, a, b) => Self::Select(of(mask), of(a), of(b)),
            Self::Fma(a, b, c) => Self::Fma(of(a), of(b), of(c)),
            Self::FmaF64(a, b, c) => Self::FmaF64(of(a), of(b), of(c)),
            Self::Within(a, b) => Self::Within(of(a), of(b)),
        }
    }

    pub(super) fn operands(&self) -> ([JitValue; 3], usize) {
        let none = JitValue(0);
        match *self {
            Self::Constant(_) | Self::Load(_) | Self::Held(_) => ([none; 3], 0),
            Self::Unary(_, a) => ([a, none, none], 1),
            Self::Binary(_, a, b) | Self::Within(a, b) => ([a, b, none], 2),
            Self::Select(a, b, c) | Self::Fma(a, b, c) | Self::FmaF64(a, b, c) => ([a, b, c], 3),
        }
    }
}

/// The body of a loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    pub(super) nodes: Vec<JitNode>,
    /// Equal nodes are computed once.
    known: HashMap<JitNode, JitValue>,
    pub(super) arguments: Vec<Argument>,
    /// Values that are stored after everything has been computed, and where.
    pub(super) stores: Vec<(JitTarget, JitValue)>,
    /// The period of cyclic streams.
    pub(super) period: Option<u32>,
    /// The running results of rows' lanes, in bodies of row programs only.
    pub(super) states: Vec<JitState>,
    /// The number of lanes that states have, if their order of combination is not free.
    pub(super) state_lanes: Option<u32>,
    /// Whether lanes have 64 bits.
    pub(super) is_wide: bool,
}

impl Body {
    /// An empty body with lanes of 64 bits. Streams of [`Lane::F32`] are held as f64s, too. There is no counter, and
    /// nothing but [`Lane::F64`] is stored.
    pub(crate) fn wide() -> Self {
        Self { is_wide: true, ..Self::default() }
    }

    pub(super) fn node(&mut self, node: JitNode) -> JitValue {
        if let Some(value) = self.known.get(&node) {
            return *value;
        }
        let value = JitValue::of(self.nodes.len());
        self.nodes.push(node);
        self.known.insert(node, value);
        value
    }

    fn argument(&mut self, argument: Argument) -> usize {
        self.arguments.push(argument);
        self.arguments.len() - 1
    }

    /// Lanes that are read; the number of their argument is the number of arguments so far.
    pub(crate) fn load(&mut self, lane: Lane) -> JitValue {
        let number = self.argument(Argument::Stream { lane, read: true, written: false, past: false });
        self.node(JitNode::Load(number))
    }

    /// A value of 32 bits that is the same for all lanes.
    pub(crate) fn uniform(&mut self) -> JitValue {
        let number = self.argument(Argument::Uniform);
        self.node(JitNode::Load(number))
    }

    /// A value of 64 bits that is the same for all lanes.
    pub(crate) fn wide_uniform(&mut self) -> JitValue {
        let number = self.argument(Argument::WideUniform);
        self.node(JitNode::Load(number))
    }

    /// An i32 that counts lanes.
    pub(crate) fn counter(&mut self) -> JitValue {
        let number = self.argument(Argument::Counter);
        self.node(JitNode::Load(number))
    }

    /// Lanes of 32 bits that are read again after each period, and the number of their argument. All cyclic arguments
    /// of a body share the period, a power of two from 8 on. Stores to the argument are read in the next period.
    pub(crate) fn cyclic(&mut self, period: u32) -> (usize, JitValue) {
        debug_assert!(period >= 8 && period.is_power_of_two() && self.period.is_none_or(|known| known == period));
        self.period = Some(period);
        let number = self.argument(Argument::Cyclic);
        (number, self.node(JitNode::Load(number)))
    }

    /// Lanes of the body that are read and then written, and the number of their argument.
    pub(crate) fn updated(&mut self) -> (usize, JitValue) {
        let lane = if self.is_wide { Lane::F64 } else { Lane::F32 };
        let number = self.argument(Argument::Stream { lane, read: true, written: true, past: false });
        (number, self.node(JitNode::Load(number)))
    }

    /// Stores to what [`cyclic`](Self::cyclic) or [`updated`](Self::updated) gave.
    pub(crate) fn set(&mut self, argument: usize, value: JitValue) {
        self.stores.push((JitTarget::Argument(argument), value));
    }

    /// Lanes that are written; those of 16 and 8 bits must have been packed to them.
    pub(crate) fn store(&mut self, lane: Lane, value: JitValue) {
        let number = self.argument(Argument::Stream { lane, read: false, written: true, past: false });
        self.stores.push((JitTarget::Argument(number), value));
    }

    /// A non-temporal store, of 32 or 16 bits, in bodies of row programs. Each vector of lanes must begin at a multiple
    /// of its bytes. Other threads see the values after a [`Fence`](crate::simd::stream::Fence).
    pub(crate) fn store_past(&mut self, lane: Lane, value: JitValue) {
        let number = self.argument(Argument::Stream { lane, read: false, written: true, past: true });
        self.stores.push((JitTarget::Argument(number), value));
    }

    /// A constant of 32 bits in every lane.
    pub(crate) fn bits(&mut self, bits: u32) -> JitValue {
        self.node(JitNode::Constant(u64::from(bits) << 32 | u64::from(bits)))
    }

    pub(crate) fn float(&mut self, x: f32) -> JitValue {
        self.bits(x.to_bits())
    }

    pub(crate) fn integer(&mut self, x: i32) -> JitValue {
        self.bits(x.cast_unsigned())
    }

    pub(crate) fn double(&mut self, x: f64) -> JitValue {
        self.node(JitNode::Constant(x.to_bits()))
    }

    pub(crate) fn unary(&mut self, op: Unary, a: JitValue) -> JitValue {
        self.node(JitNode::Unary(op, a))
    }

    pub(crate) fn binary(&mut self, op: Binary, a: JitValue, b: JitValue) -> JitValue {
        self.node(JitNode::Binary(op, a, b))
    }

    /// By a mask, `a` or else `b`.
    pub(crate) fn select(&mut self, mask: JitValue, a: JitValue, b: JitValue) -> JitValue {
        self.node(JitNode::Select(mask, a, b))
    }

    /// `a · b + c`, rounded once.
    pub(crate) fn fma(&mut self, a: JitValue, b: JitValue, c: JitValue) -> JitValue {
        self.node(JitNode::Fma(a, b, c))
    }
}
