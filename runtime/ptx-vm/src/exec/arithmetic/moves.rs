//! Packing and unpacking of register vectors, `lop3`, bit insertion, carries and clocks (PTX ISA §9.7.9.1, §9.7.2,
//! §10).

use crate::exec::arithmetic::integer;
use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::program::Instruction;
use crate::program::flags::{CarryFlags, Widths};

/// `mov.bN d, {list}`: `imm` registers of `flags >> 16` bits each, the first lowest.
pub(crate) struct Pack;

impl Operation for Pack {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (count, bits) = (i.imm as usize, i.flags >> 16);
        let mut values = [0u64; 32];
        for n in 0..count {
            let row = context.list(i.list, count)[n];
            let part = context.lanes::<u32>(row);
            let shift = bits * n as u32;
            for lane in 0..32 {
                values[lane] |= u64::from(part[lane]) << shift;
            }
        }
        if i.has(Widths::WIDE_D) {
            context.put::<u64>(i.d, &values, mask);
        } else {
            context.put::<u32>(i.d, &values.map(|v| v as u32), mask);
        }
        Flow::Next
    }
}

/// `mov.bN {list}, a`: the reverse of [`Pack`].
pub(crate) struct Unpack;

impl Operation for Unpack {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (count, bits) = (i.imm as usize, i.flags >> 16);
        let ones = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
        let values: [u64; 32] =
            if i.has(Widths::WIDE_A) { *context.lanes::<u64>(i.a) } else { context.lanes::<u32>(i.a).map(u64::from) };
        for n in 0..count {
            let shift = bits * n as u32;
            let part = values.map(|v| (v >> shift) as u32 & ones);
            let row = context.list(i.list, count)[n];
            context.put::<u32>(row, &part, mask);
        }
        Flow::Next
    }
}

/// `lop3.b32` with the truth table in `imm`.
pub(crate) struct Lop3;

impl Operation for Lop3 {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (a, b, c) = (context.lanes::<u32>(i.a), context.lanes::<u32>(i.b), context.lanes::<u32>(i.c));
        let mut d = [0; 32];
        for lane in 0..32 {
            d[lane] = integer::lop3(a[lane], b[lane], c[lane], i.imm as u8);
        }
        context.put::<u32>(i.d, &d, mask);
        Flow::Next
    }
}

/// `bfi`: `d = a inserted in b` at position row `c`, length row `list[0]`; 64 bits with [`Widths::WIDE_D`].
pub(crate) struct InsertBits;

impl Operation for InsertBits {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let length_row = context.list(i.list, 1)[0];
        for lane in lanes_of(mask) {
            let (position, length) = (context.get::<u32>(i.c, lane), context.get::<u32>(length_row, lane));
            if i.has(Widths::WIDE_D) {
                let (a, b) = (context.get::<u64>(i.a, lane), context.get::<u64>(i.b, lane));
                context.lanes_mut::<u64>(i.d)[lane] = integer::insert_bits(a, b, position, length, 64);
            } else {
                let (a, b) = (context.get::<u32>(i.a, lane), context.get::<u32>(i.b, lane));
                let d = integer::insert_bits(u64::from(a), u64::from(b), position, length, 32);
                context.lanes_mut::<u32>(i.d)[lane] = d as u32;
            }
        }
        Flow::Next
    }
}

/// `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`. The carry flag is predicate `p`.
///
/// After a subtraction the flag is the carry of `a + !b + 1`. So it is 1 if there was no borrow, for every reader of
/// the flag. The PTX ISA (§9.7.2) describes a borrow. Chains of subtractions can't tell the difference. But ptxas
/// implements the carry (SASS `IADD3 …, P0, a, -b`, then `IMAD.X …, ~b, P0`), and NVRTC's division of 128 bits reads it
/// with `addc`.
pub(crate) struct Carry;

impl Operation for Carry {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let wide = i.has(Widths::WIDE_D);
        let carry = context.predicate(i.p);
        let mut out = 0;
        for lane in lanes_of(mask) {
            let get = |row| {
                if wide { context.get::<u64>(row, lane) } else { u64::from(context.get::<u32>(row, lane)) }
            };
            let (a, b) = (get(i.a), get(i.b));
            let (x, y) = match i.flags & (CarryFlags::PRODUCT_LOW.bits() | CarryFlags::PRODUCT_HIGH.bits()) {
                0 => (a, b),
                kind => {
                    (product(a, b, wide, kind == CarryFlags::PRODUCT_HIGH.bits(), i.has(CarryFlags::SIGNED)), get(i.c))
                }
            };
            let width = if wide { 64 } else { 32 };
            let subtract = i.has(CarryFlags::SUBTRACT);
            let y = if subtract { !y & (u64::MAX >> (64 - width)) } else { y };
            let bit = if i.has(CarryFlags::CARRY_IN) { carry >> lane & 1 != 0 } else { subtract };
            let full = u128::from(x) + u128::from(y) + u128::from(bit);
            out |= ((full >> width) as u32 & 1) << lane;
            if wide {
                context.lanes_mut::<u64>(i.d)[lane] = full as u64;
            } else {
                context.lanes_mut::<u32>(i.d)[lane] = full as u32;
            }
        }
        if i.has(CarryFlags::CARRY_OUT) {
            context.put_predicate(i.p, out, mask);
        }
        Flow::Next
    }
}

fn product(a: u64, b: u64, wide: bool, high: bool, signed: bool) -> u64 {
    let full = match (wide, signed) {
        (true, true) => (i128::from(a.cast_signed()) * i128::from(b.cast_signed())).cast_unsigned(),
        (true, false) => u128::from(a) * u128::from(b),
        (false, true) => (i128::from(a as u32 as i32) * i128::from(b as u32 as i32)).cast_unsigned(),
        (false, false) => u128::from(a) * u128::from(b),
    };
    match (wide, high) {
        (true, true) => (full >> 64) as u64,
        (true, false) => full as u64,
        (false, true) => u64::from((full >> 32) as u32),
        (false, false) => u64::from(full as u32),
    }
}

/// `mov d, %clock` and similar: counts the worker's instructions; 64 bits with [`Widths::WIDE_D`].
pub(crate) struct Clock;

impl Operation for Clock {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        context.worker.clock += 1;
        let now = context.worker.clock * 64;
        if i.has(Widths::WIDE_D) {
            context.put::<u64>(i.d, &[now; 32], mask);
        } else {
            context.put::<u32>(i.d, &[now as u32; 32], mask);
        }
        Flow::Next
    }
}
