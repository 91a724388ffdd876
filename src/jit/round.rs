//! A round of a loop: the copies of a body in one pass through its code, and the state of its registers.

use super::body::{Argument, Body, JitNode, JitTarget, JitValue};
use super::isa::{MOST_REGISTERS, MemoryOperand, Vector};

/// A round of a loop: several copies of the body, node by node.
#[derive(Default)]
pub(super) struct Round {
    pub(super) nodes: Vec<JitNode>,
    /// The number of each node's copy.
    pub(super) copies: Vec<usize>,
    pub(super) stores: Vec<(JitTarget, usize, JitValue)>,
    /// For each value, where in memory it is: a constant, what is the same in every round, or has lost its register.
    pub(super) homes: Vec<Option<MemoryOperand>>,
    /// For each value, the places where it is used, the last one first.
    pub(super) uses: Vec<Vec<usize>>,
    pub(super) register_of: Vec<Option<Vector>>,
    pub(super) held: [Option<JitValue>; MOST_REGISTERS],
    /// Registers that the current instruction uses.
    pub(super) pinned: [bool; MOST_REGISTERS],
}

impl Round {
    /// Copies of a body; all of its lanes are whole vectors, or there is one copy, of a row's last lanes.
    pub(super) fn new(
        body: &Body,
        lanes: usize,
        homes: &[Option<MemoryOperand>],
        count: usize,
        is_whole: bool,
    ) -> Self {
        let mut round = Self::default();
        // The values of every copy.
        let mut values = vec![vec![JitValue::of(0); body.nodes.len()]; count];
        // Copies further apart than a period are combined with the same lanes, one after the other.
        let apart = body.period.map_or(count, |period| count.min(period as usize / lanes));
        let combined = if apart < count { combined(body) } else { vec![false; body.nodes.len()] };
        let mut add = |round: &mut Self, place: usize, copy: usize| {
            let node = body.nodes[place];
            let argument = match node {
                JitNode::Load(number) => Some((number, body.arguments[number])),
                _ => None,
            };
            let shared = matches!(node, JitNode::Constant(_) | JitNode::Held(_))
                || matches!(argument, Some((_, Argument::Uniform | Argument::WideUniform)));
            let known = match argument {
                _ if let (JitNode::Within(value, _), true) = (node, is_whole) => Some(values[copy][value.index()]),
                _ if shared && copy > 0 => Some(values[0][place]),
                Some((number, Argument::Cyclic)) if copy >= apart => {
                    let set = body.stores.iter().find(|(target, _)| *target == JitTarget::Argument(number));
                    set.map(|(_, value)| values[copy - apart][value.index()])
                }
                _ => None,
            };
            values[copy][place] = known.unwrap_or_else(|| {
                round.nodes.push(node.with_operands(|value| values[copy][value.index()]));
                round.copies.push(copy);
                round.homes.push(homes[place]);
                JitValue::of(round.nodes.len() - 1)
            });
        };
        for place in (0..body.nodes.len()).filter(|place| !combined[*place]) {
            (0..count).for_each(|copy| add(&mut round, place, copy));
        }
        for first in (0..count).step_by(apart) {
            for place in (0..body.nodes.len()).filter(|place| combined[*place]) {
                (first..count.min(first + apart)).for_each(|copy| add(&mut round, place, copy));
            }
        }
        let is_cyclic = |target| matches!(target, JitTarget::Argument(of) if body.arguments[of] == Argument::Cyclic);
        for (target, value) in &body.stores {
            let first = if is_cyclic(*target) { count - apart } else { 0 };
            round.stores.extend((first..count).map(|copy| (*target, copy, values[copy][value.index()])));
        }
        round.begin();
        round
    }

    /// Nothing has been computed.
    pub(super) fn begin(&mut self) {
        self.uses = vec![Vec::new(); self.nodes.len()];
        self.register_of = vec![None; self.nodes.len()];
        self.find_uses();
    }

    /// Notes where values are used that something stored depends on.
    fn find_uses(&mut self) {
        let count = self.nodes.len();
        for (number, (_, _, value)) in self.stores.iter().enumerate().rev() {
            self.uses[value.index()].push(count + number);
        }
        for (place, node) in self.nodes.iter().enumerate().rev() {
            if self.uses[place].is_empty() {
                continue;
            }
            let (operands, arity) = node.operands();
            for operand in &operands[..arity] {
                self.uses[operand.index()].push(place);
            }
        }
    }
}

/// Which nodes depend on a cyclic stream.
fn combined(body: &Body) -> Vec<bool> {
    let mut combined = Vec::with_capacity(body.nodes.len());
    for node in &body.nodes {
        let (operands, arity) = node.operands();
        let is_cyclic = matches!(node, JitNode::Load(number) if body.arguments[*number] == Argument::Cyclic);
        combined.push(is_cyclic || operands[..arity].iter().any(|operand| combined[operand.index()]));
    }
    combined
}
