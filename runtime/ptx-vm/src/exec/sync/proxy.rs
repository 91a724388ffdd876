//! Fences between the proxies, and `griddepcontrol` (PTX ISA §9.7.13.4, §9.7.13.14).

use crate::exec::context::{Context, Flow};
use crate::exec::lanes::Operation;
use crate::program::Instruction;
use crate::program::flags::ProxyFlags;
use crate::race;

/// `fence.proxy.async`. The flags tell for which memory.
pub(crate) struct ProxyFence;

impl Operation for ProxyFence {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            let fence = match i.modifiers() {
                ProxyFlags::GLOBAL => race::ProxyFence::Global,
                ProxyFlags::SHARED => race::ProxyFence::Shared,
                _ => race::ProxyFence::All,
            };
            context.tell(|o| o.proxy_fence(at, fence));
        }
        Flow::Next
    }
}

/// `fence.mbarrier_init.release.cluster`.
pub(crate) struct InitFence;

impl Operation for InitFence {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.mbarrier_init_fence(at));
        }
        Flow::Next
    }
}

/// `griddepcontrol.wait`. Launches never overlap here, so there is nothing to wait for.
pub(crate) struct DependencyWait;

impl Operation for DependencyWait {
    fn run(context: &mut Context<'_>, _: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            context.tell(|o| o.dependency_wait(at));
        }
        Flow::Next
    }
}
