//! The local variables of a function, which end when it returns. Calls are expanded in place, and each expansion has local
//! memory of its own, so a pointer to it that is kept is noticed.

use crate::exec::context::{Context, Flow};
use crate::exec::lanes::Operation;
use crate::program::Instruction;

/// A function begins: `list` bytes of local memory from `imm` on are its own.
pub(crate) struct Begin;

impl Operation for Begin {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let start = i.imm as u32;
        for frame in &mut context.warp.ended_frames {
            if frame.0 == start {
                frame.2 &= !mask;
            }
        }
        context.warp.ended_frames.retain(|frame| frame.2 != 0);
        Flow::Next
    }
}

/// It returns.
pub(crate) struct End;

impl Operation for End {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let (start, bytes) = (i.imm as u32, i.list);
        let frames = &mut context.warp.ended_frames;
        match frames.iter_mut().find(|frame| frame.0 == start) {
            Some(frame) => frame.2 |= mask,
            None if bytes > 0 => frames.push((start, bytes, mask)),
            None => {}
        }
        Flow::Next
    }
}

impl Context<'_> {
    /// Checks that a lane's local bytes do not belong to a function that has returned.
    #[cold]
    pub(in crate::exec) fn check_frame(&mut self, lane: usize, offset: u32, bytes: u32) -> Result<(), Flow> {
        let ended = |&&(start, size, lanes): &&(u32, u32, u32)| {
            lanes >> lane & 1 != 0 && offset < start + size && offset + bytes > start
        };
        if self.checked && self.warp.ended_frames.iter().find(ended).is_some() {
            let message = "the address is that of a local variable of a function that has returned";
            return Err(self.invalid(Some(lane), message));
        }
        Ok(())
    }
}
