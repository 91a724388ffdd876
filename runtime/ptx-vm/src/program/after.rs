//! The code that can't return to an instruction.

/// An aligned barrier of all threads of the block, or an instruction with a member mask; and the code after it from
/// which control can't come back to it. A thread that executes this code without the instruction has gone around it.
#[derive(Clone, Debug)]
pub(crate) struct After {
    pub(crate) instruction: u32,
    /// Start and end of the parts of that code, in order.
    pub(crate) code: Vec<(u32, u32)>,
}

impl After {
    /// Whether an instruction belongs to that code.
    pub(crate) fn contains(&self, pc: u32) -> bool {
        let part = self.code.partition_point(|(_, end)| *end <= pc);
        self.code.get(part).is_some_and(|(start, _)| *start <= pc)
    }
}
