//! Rare instructions without their own handlers: functions on the bits of up to three operands, lane by lane.

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::program::flags::Widths;
use crate::program::{Instruction, Row};

/// `d = f(a, b, c)` with the program's function number `list`.
pub(crate) struct General;

impl Operation for General {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let program = context.program;
        let function = &program.functions[i.list as usize];
        let read = |context: &Context<'_>, row: Row, wide: u32, lane: usize| {
            if i.flags & wide != 0 { context.get::<u64>(row, lane) } else { u64::from(context.get::<u32>(row, lane)) }
        };
        for lane in lanes_of(mask) {
            let operands = [
                read(context, i.a, Widths::WIDE_A.bits(), lane),
                read(context, i.b, Widths::WIDE_B.bits(), lane),
                read(context, i.c, Widths::WIDE_C.bits(), lane),
            ];
            let result = function(operands);
            if i.has(Widths::WIDE_D) {
                context.lanes_mut::<u64>(i.d)[lane] = result;
            } else {
                context.lanes_mut::<u32>(i.d)[lane] = result as u32;
            }
        }
        Flow::Next
    }
}

/// Like [`General`], but the lowest bit of the result goes to predicate `p`, and its complement to `q` if that is not
/// 0.
pub(crate) struct GeneralTest;

impl Operation for GeneralTest {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let program = context.program;
        let function = &program.functions[i.list as usize];
        let read = |context: &Context<'_>, row: Row, wide: u32, lane: usize| {
            if i.flags & wide != 0 { context.get::<u64>(row, lane) } else { u64::from(context.get::<u32>(row, lane)) }
        };
        let mut bits = 0;
        for lane in lanes_of(mask) {
            let operands =
                [read(context, i.a, Widths::WIDE_A.bits(), lane), read(context, i.b, Widths::WIDE_B.bits(), lane), 0];
            bits |= (function(operands) as u32 & 1) << lane;
        }
        crate::exec::arithmetic::compare::finish(context, i, bits, mask)
    }
}
