//! Fences between the proxies, and `griddepcontrol` (PTX ISA §9.7.13.4, §9.7.13.14).

use super::context::{Context, Flow};
use super::lanes::Operation;
use crate::program::Instruction;
use crate::race;

/// `fence.proxy.async`: which memory in the flags.
pub(crate) struct ProxyFence;
pub(crate) const PROXY_ALL: u32 = 0;
pub(crate) const PROXY_SHARED: u32 = 1;
pub(crate) const PROXY_GLOBAL: u32 = 2;

impl Operation for ProxyFence {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        if context.is_observed() {
            let at = context.at(mask);
            let fence = match i.flags {
                PROXY_ALL => race::ProxyFence::All,
                PROXY_SHARED => race::ProxyFence::Shared,
                _ => race::ProxyFence::Global,
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

/// `griddepcontrol.wait`: launches never overlap, so there is nothing to wait for.
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
