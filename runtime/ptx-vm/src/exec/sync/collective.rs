//! Instructions that the lanes of a warp execute together: `bar.warp.sync`, `shfl`, `vote`, `match`, `redux`, `elect`,
//! `activemask` (PTX ISA §9.7.9.6, §9.7.13.2, §9.7.13.8–9.7.13.13).

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::program::Instruction;
use crate::program::flags::CollectiveFlags;

/// `bar.warp.sync a`.
pub(crate) struct WarpBarrier;

impl Operation for WarpBarrier {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        context.each_group(
            i,
            mask,
            |_, i| i.a,
            |context, _, mask| {
                if context.is_observed() {
                    let at = context.at(mask);
                    context.tell(|o| o.warp_sync(at));
                }
            },
        )
    }
}

pub(crate) const UP: u8 = 0;
pub(crate) const DOWN: u8 = 1;
pub(crate) const BUTTERFLY: u8 = 2;
pub(crate) const INDEX: u8 = 3;

/// `shfl.sync.mode.b32 d|p, a, b, c, members`: the member mask is the row in `list[0]`. A `p` of 0 means no predicate.
pub(crate) struct Shuffle<const MODE: u8>;

impl<const MODE: u8> Operation for Shuffle<MODE> {
    #[inline(always)]
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        context.each_group(i, mask, |context, i| context.list(i.list, 1)[0], Self::exchange)
    }
}

impl<const MODE: u8> Shuffle<MODE> {
    #[inline(always)]
    fn exchange(context: &mut Context<'_>, i: &Instruction, mask: u32) {
        let (values, b, c) = (context.lanes::<u32>(i.a), context.lanes::<u32>(i.b), context.lanes::<u32>(i.c));
        let mut d = [0; 32];
        let mut in_range = 0;
        let mut sources = [0u8; 32];
        let mut absent = 0;
        for lane in 0..32u32 {
            let (b, c) = (b[lane as usize] & 31, c[lane as usize]);
            let (segment, clamp) = (c >> 8 & 31, c & 31);
            let last = lane & segment | clamp & !segment;
            let first = lane & segment;
            let (source, valid) = match MODE {
                UP => (lane.wrapping_sub(b), lane as i32 - b as i32 >= last as i32),
                DOWN => (lane + b, lane + b <= last),
                BUTTERFLY => (lane ^ b, lane ^ b <= last),
                _ => (first | b & !segment, (first | b & !segment) <= last),
            };
            let source = if valid { source & 31 } else { lane };
            // The value of an inactive lane is undefined; it is marked so.
            let value = if mask >> source & 1 != 0 { values[source as usize] } else { u32::MAX };
            d[lane as usize] = value;
            sources[lane as usize] = source as u8;
            absent |= (!mask >> source & 1) << lane;
            in_range |= u32::from(valid) << lane;
        }
        context.put::<u32>(i.d, &d, mask);
        if context.checked && (absent & mask != 0 || !context.warp.undefined.is_empty()) {
            context.shuffle_undefined(i.a, i.d, &sources, mask);
        }
        if i.p != 0 {
            context.put_predicate(i.p, in_range, mask);
        }
    }
}

pub(crate) const ALL: u8 = 0;
pub(crate) const ANY: u8 = 1;
pub(crate) const UNIFORM: u8 = 2;
pub(crate) const BALLOT: u8 = 3;

/// `vote.sync.mode`: the source predicate is `q`. The result is `p`, or row `d` for a ballot. The member mask is `a`.
pub(crate) struct Vote<const MODE: u8>;

impl<const MODE: u8> Operation for Vote<MODE> {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        context.each_group(i, mask, |_, i| i.a, Self::count)
    }
}

impl<const MODE: u8> Vote<MODE> {
    fn count(context: &mut Context<'_>, i: &Instruction, mask: u32) {
        let bits = (context.predicate(i.q) ^ if i.has(CollectiveFlags::NEGATED) { u32::MAX } else { 0 }) & mask;
        let truth = match MODE {
            ALL => bits == mask,
            ANY => bits != 0,
            UNIFORM => bits == mask || bits == 0,
            _ => {
                context.put::<u32>(i.d, &[bits; 32], mask);
                return;
            }
        };
        context.put_predicate(i.p, if truth { u32::MAX } else { 0 }, mask);
    }
}

/// `match.any.sync`, or `match.all.sync` with [`CollectiveFlags::MATCH_ALL`], of row `a` (64 bits with
/// [`CollectiveFlags::MATCH_WIDE`]). The member mask is `b`, the result `d` and, for `all`, also predicate `p`.
pub(crate) struct Match;

impl Operation for Match {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        context.each_group(i, mask, |_, i| i.b, Self::compare)
    }
}

impl Match {
    fn compare(context: &mut Context<'_>, i: &Instruction, mask: u32) {
        let value = |context: &Context<'_>, lane| {
            if i.has(CollectiveFlags::MATCH_WIDE) {
                context.get::<u64>(i.a, lane)
            } else {
                u64::from(context.get::<u32>(i.a, lane))
            }
        };
        let mut d = [0; 32];
        for lane in lanes_of(mask) {
            let own = value(context, lane);
            d[lane] = lanes_of(mask).filter(|&l| value(context, l) == own).fold(0, |m, l| m | 1 << l);
        }
        if i.has(CollectiveFlags::MATCH_ALL) {
            let equal = lanes_of(mask).all(|l| d[l] == mask);
            d = [if equal { mask } else { 0 }; 32];
            if i.p != 0 {
                context.put_predicate(i.p, if equal { u32::MAX } else { 0 }, mask);
            }
        }
        context.put::<u32>(i.d, &d, mask);
    }
}

/// `redux.sync`: combines row `a` of all members by the program's function number `list`. The member mask is `b`.
pub(crate) struct Redux;

impl Operation for Redux {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let program = context.program;
        let function = &program.functions[i.list as usize];
        context.each_group(
            i,
            mask,
            |_, i| i.b,
            |context, i, mask| {
                let values = context.lanes::<u32>(i.a);
                let folded =
                    lanes_of(mask).map(|l| u64::from(values[l])).reduce(|x, y| function([x, y, 0]) & 0xffff_ffff);
                context.put::<u32>(i.d, &[folded.unwrap_or(0) as u32; 32], mask);
            },
        )
    }
}

/// `elect.sync d|p, members`: elects the lowest member. Row `a` holds the mask.
pub(crate) struct Elect;

impl Operation for Elect {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        context.each_group(
            i,
            mask,
            |_, i| i.a,
            |context, i, mask| {
                let leader = mask.trailing_zeros();
                context.put::<u32>(i.d, &[leader; 32], mask);
                context.put_predicate(i.p, 1 << leader, mask);
            },
        )
    }
}

/// `activemask d`.
pub(crate) struct ActiveMask;

impl Operation for ActiveMask {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        context.put::<u32>(i.d, &[mask; 32], mask);
        Flow::Next
    }
}
