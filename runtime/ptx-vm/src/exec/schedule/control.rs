//! Branches, exits, traps, pauses (PTX ISA §9.7.12, §9.7.19).

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::state::warp::Status;
use crate::program::Instruction;
use crate::program::flags::RegisterFlags;

/// `bra imm`.
pub(crate) struct Branch;

impl Operation for Branch {
    #[inline(always)]
    fn run(_: &mut Context<'_>, _: &Instruction, _: u32) -> Flow {
        Flow::Branch
    }
}

/// `brx.idx a`: `imm` targets, starting at number `list` of the program's targets.
pub(crate) struct IndexedBranch;

impl Operation for IndexedBranch {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        for lane in lanes_of(mask) {
            let index: u32 = context.get(i.a, lane);
            if i64::from(index) >= i.imm {
                return context.invalid(Some(lane), format!("branch index {index} of a table with {} targets", i.imm));
            }
            context.lane_targets[lane] = context.program.targets[(i.list + index) as usize];
        }
        Flow::BranchEach
    }
}

/// `exit`, and `ret` of a kernel.
pub(crate) struct Exit;

impl Operation for Exit {
    fn run(_: &mut Context<'_>, _: &Instruction, _: u32) -> Flow {
        Flow::Exit
    }
}

/// `trap`.
pub(crate) struct Trap;

impl Operation for Trap {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        context.fail(Some(mask.trailing_zeros() as usize), crate::exec::state::fault::FaultKind::Trap)
    }
}

/// Instructions that are only hints.
pub(crate) struct Nothing;

impl Operation for Nothing {
    fn run(_: &mut Context<'_>, _: &Instruction, _: u32) -> Flow {
        Flow::Next
    }
}

/// `setmaxnreg`: from now on the threads have `imm` registers.
pub(crate) struct SetRegisters;

impl Operation for SetRegisters {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.set_registers(at, i.imm as u32, i.has(RegisterFlags::GROWS)));
        }
        Flow::Next
    }
}

/// `nanosleep`: lets others run first.
pub(crate) struct Sleep;

impl Operation for Sleep {
    fn run(context: &mut Context<'_>, _: &Instruction, _: u32) -> Flow {
        context.warp.status = Status::Polling;
        Flow::Pause
    }
}
