//! Comparison, selection and predicates (PTX ISA §9.7.5, §9.7.6, §9.7.8).

use crate::exec::context::{Context, Flow};
use crate::exec::lane::Lane;
use crate::exec::lanes::{Operation, Relation, pack};
use crate::numerics::compare::Comparison;
use crate::numerics::float::flush_f32;
use crate::program::flags::{CompareFlags, Widths};
use crate::program::{Handler, Instruction};

// How a comparison is combined with predicate operand `c`. These bits are above those of
// `crate::exec::arithmetic::general`.

/// Combines the bits of a comparison with the predicate operand (its number is in `imm`). Writes `p` and, negated, `q`.
#[inline(always)]
pub(in crate::exec) fn finish(context: &mut Context<'_>, i: &Instruction, bits: u32, mask: u32) -> Flow {
    let modifiers: CompareFlags = i.modifiers();
    let (mut result, mut complement) = (bits, !bits);
    if modifiers.intersects(CompareFlags::XOR | CompareFlags::TO_MASK | CompareFlags::TO_ONE) {
        let with = context.predicate(i.imm as u16) ^ if i.has(CompareFlags::NEGATED) { u32::MAX } else { 0 };
        (result, complement) = match modifiers & CompareFlags::XOR {
            CompareFlags::AND => (bits & with, !bits & with),
            CompareFlags::OR => (bits | with, !bits | with),
            CompareFlags::XOR => (bits ^ with, !bits ^ with),
            _ => (bits, !bits),
        };
        if modifiers.intersects(CompareFlags::TO_MASK | CompareFlags::TO_ONE) {
            let truth = if i.has(CompareFlags::TO_ONE) { 1f32.to_bits() } else { u32::MAX };
            let mut values = [0; 32];
            for (lane, value) in values.iter_mut().enumerate() {
                *value = if result >> lane & 1 != 0 { truth } else { 0 };
            }
            context.put::<u32>(i.d, &values, mask);
            return Flow::Next;
        }
    }
    context.put_predicate(i.p, result, mask);
    if i.q != 0 {
        context.put_predicate(i.q, complement, mask);
    }
    Flow::Next
}

/// `setp`: the bits of the relation, combined with a predicate according to [`CompareFlags`].
pub(crate) struct Compare<F>(F);

impl<F: Relation> Operation for Compare<F> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (a, b) = (context.lanes::<F::A>(i.a), context.lanes::<F::A>(i.b));
        // One byte for each lane, then one bit for each byte: both steps vectorise.
        let mut holds = [0u8; 32];
        for lane in 0..32 {
            holds[lane] = u8::from(F::holds(F::A::from_cell(a[lane]), F::A::from_cell(b[lane])));
        }
        finish(context, i, pack(&holds), mask)
    }
}

macro_rules! relations {
    ($($name:ident<$type:ty>($a:ident, $b:ident) $body:block)*) => {$(
        pub(crate) struct $name;
        impl Relation for $name {
            type A = $type;
            #[inline(always)]
            fn holds($a: $type, $b: $type) -> bool $body
        }
    )*};
}

macro_rules! integer_relations {
    ($module:ident, $u:ty, $s:ty) => {
        pub(crate) mod $module {
            use super::Relation;
            relations! {
                Eq<$u>(a, b) { a == b }
                Ne<$u>(a, b) { a != b }
                LtU<$u>(a, b) { a < b }
                LeU<$u>(a, b) { a <= b }
                GtU<$u>(a, b) { a > b }
                GeU<$u>(a, b) { a >= b }
                LtS<$s>(a, b) { a < b }
                LeS<$s>(a, b) { a <= b }
                GtS<$s>(a, b) { a > b }
                GeS<$s>(a, b) { a >= b }
            }
        }
    };
}

integer_relations!(r16, u16, i16);
integer_relations!(r32, u32, i32);
integer_relations!(r64, u64, i64);

/// A comparison of f32, fixed when the handler is compiled.
struct F32Relation<const OPERATOR: u8, const FLUSH: bool>;

impl<const OPERATOR: u8, const FLUSH: bool> Relation for F32Relation<OPERATOR, FLUSH> {
    type A = f32;
    #[inline(always)]
    fn holds(a: f32, b: f32) -> bool {
        let (a, b) = if FLUSH { (flush_f32(a), flush_f32(b)) } else { (a, b) };
        Comparison::ALL[OPERATOR as usize].holds(a, b)
    }
}

/// A comparison of f64, fixed when the handler is compiled.
struct F64Relation<const OPERATOR: u8>;

impl<const OPERATOR: u8> Relation for F64Relation<OPERATOR> {
    type A = f64;
    #[inline(always)]
    fn holds(a: f64, b: f64) -> bool {
        Comparison::ALL[OPERATOR as usize].holds(a, b)
    }
}

macro_rules! by_operator {
    ($index:expr, $n:ident => $handler:expr) => {{
        macro_rules! arm {
            ($value:literal) => {{
                const $n: u8 = $value;
                $handler
            }};
        }
        match $index {
            0 => arm!(0),
            1 => arm!(1),
            2 => arm!(2),
            3 => arm!(3),
            4 => arm!(4),
            5 => arm!(5),
            6 => arm!(6),
            7 => arm!(7),
            8 => arm!(8),
            9 => arm!(9),
            10 => arm!(10),
            11 => arm!(11),
            12 => arm!(12),
            _ => arm!(13),
        }
    }};
}

fn index(comparison: Comparison) -> usize {
    Comparison::ALL.iter().position(|&c| c == comparison).unwrap_or(0)
}

/// The handler that compares f32.
pub(crate) fn compare_f32(comparison: Comparison, flush: bool) -> Handler {
    use crate::exec::dispatch::handler;
    if flush {
        by_operator!(index(comparison), N => handler::<Compare<F32Relation<N, true>>>())
    } else {
        by_operator!(index(comparison), N => handler::<Compare<F32Relation<N, false>>>())
    }
}

/// The handler that compares f64.
pub(crate) fn compare_f64(comparison: Comparison) -> Handler {
    use crate::exec::dispatch::handler;
    by_operator!(index(comparison), N => handler::<Compare<F64Relation<N>>>())
}

/// `selp` of 32-bit cells: predicate `p`, negated with [`CompareFlags::NEGATED`].
pub(crate) struct Select32;
/// `selp` of 64-bit cells.
pub(crate) struct Select64;

macro_rules! select {
    ($name:ident, $cell:ty) => {
        impl Operation for $name {
            #[inline(always)]
            fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
                let bits = context.predicate(i.p) ^ if i.has(CompareFlags::NEGATED) { u32::MAX } else { 0 };
                let (a, b) = (context.lanes::<$cell>(i.a), context.lanes::<$cell>(i.b));
                let mut d = [0; 32];
                for lane in 0..32 {
                    d[lane] = if bits >> lane & 1 != 0 { a[lane] } else { b[lane] };
                }
                context.put::<$cell>(i.d, &d, mask);
                Flow::Next
            }
        }
    };
}

select!(Select32, u32);
select!(Select64, u64);

/// `slct` on a signed 32-bit condition.
pub(crate) struct Choose;

impl Operation for Choose {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in crate::exec::context::lanes_of(mask) {
            let first = context.get::<i32>(i.c, lane) >= 0;
            let row = if first { i.a } else { i.b };
            if i.has(Widths::WIDE_D) {
                let value = context.get::<u64>(row, lane);
                context.lanes_mut::<u64>(i.d)[lane] = value;
            } else {
                let value = context.get::<u32>(row, lane);
                context.lanes_mut::<u32>(i.d)[lane] = value;
            }
        }
        Flow::Next
    }
}

/// A function of predicates `a` and `b`. Their numbers are in `imm` (a), `q` (b) and `p` (destination).
pub(crate) struct PredicateLogic<const F: u8>;
pub(crate) const P_AND: u8 = 0;
pub(crate) const P_OR: u8 = 1;
pub(crate) const P_XOR: u8 = 2;
pub(crate) const P_MOV: u8 = 3;
pub(crate) const P_NOT: u8 = 4;

impl<const F: u8> Operation for PredicateLogic<F> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (a, b) = (context.predicate(i.imm as u16), context.predicate(i.q));
        let bits = match F {
            P_AND => a & b,
            P_OR => a | b,
            P_XOR => a ^ b,
            P_MOV => a,
            _ => !a,
        };
        context.put_predicate(i.p, bits, mask);
        Flow::Next
    }
}
