//! Removes values that no output depends on: forward values that turned out not to be needed, and their parameters,
//! which a run would have to be given.

use crate::evt::{Node, NodeId, ParameterId, Tree};

/// The tree without unused nodes and parameters; the given number of first parameters stays.
pub(super) fn pruned(mut tree: Tree, first: usize) -> Tree {
    let mut used: Vec<bool> = tree.nodes.iter().map(|data| matches!(data.node, Node::Accum(_))).collect();
    for output in &tree.outputs {
        used[output.node.index()] = true;
    }
    let mut read: Vec<bool> = (0..tree.parameters.len()).map(|parameter| parameter < first).collect();
    for at in (0..tree.nodes.len()).rev() {
        if !used[at] {
            continue;
        }
        for operand in tree.nodes[at].node.operands() {
            used[operand.index()] = true;
        }
        if let Node::Load(p) | Node::Broadcast(p) = tree.nodes[at].node {
            read[p.index()] = true;
        }
    }
    let places = |kept: &[bool]| -> Vec<u32> {
        let mut next = 0;
        let place = |kept: &bool| {
            let place = next;
            next += u32::from(*kept);
            place
        };
        kept.iter().map(place).collect()
    };
    let (nodes, parameters) = (places(&used), places(&read));
    let node = |id: &mut NodeId| *id = NodeId(nodes[id.index()]);
    for data in &mut tree.nodes {
        match &mut data.node {
            Node::Accum(_) | Node::Literal(_) | Node::Integer(_) | Node::Position(_) => {}
            Node::Load(p) | Node::Broadcast(p) => *p = ParameterId(parameters[p.index()]),
            Node::Apply(_, operands) | Node::Logic(_, operands) | Node::Call(_, operands) => {
                operands.iter_mut().for_each(node);
            }
            Node::Random(x, _)
            | Node::Cast(_, x)
            | Node::ToInteger(x)
            | Node::ToReal(x)
            | Node::Reduce(_, x)
            | Node::Composed(_, x) => node(x),
        }
    }
    tree.outputs.iter_mut().for_each(|output| node(&mut output.node));
    let mut kept = used.into_iter();
    tree.nodes.retain(|_| kept.next().unwrap_or(true));
    let mut kept = read.into_iter();
    tree.parameters.retain(|_| kept.next().unwrap_or(true));
    tree
}
