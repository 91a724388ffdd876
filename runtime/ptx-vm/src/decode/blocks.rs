//! The control flow of a kernel: its basic blocks, and what comes after an instruction for good.

use super::decoder::Decoder;
use super::effect::Successor;
use crate::program::After;

/// A basic block: code without branches inside.
pub(super) struct CodeBlock {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) successors: Vec<usize>,
}

/// The blocks of the code, in order. `starts` has the position of each label.
pub(super) fn blocks(decoder: &Decoder<'_>, starts: &[u32]) -> Vec<CodeBlock> {
    let length = decoder.code.len();
    let mut leader = vec![false; length + 1];
    leader[0] = true;
    for &start in starts {
        leader[start as usize] = true;
    }
    for (index, effect) in decoder.effects.iter().enumerate() {
        if effect.successor != Successor::Next {
            leader[index + 1] = true;
        }
    }
    let begins: Vec<usize> = (0..length).filter(|&i| leader[i]).collect();
    let mut block_of = vec![0; length + 1];
    for (number, &start) in begins.iter().enumerate() {
        let end = begins.get(number + 1).copied().unwrap_or(length);
        block_of[start..end].fill(number);
    }
    begins
        .iter()
        .enumerate()
        .map(|(number, &start)| {
            let end = begins.get(number + 1).copied().unwrap_or(length);
            let last = &decoder.effects[end - 1];
            let mut successors = vec![];
            if (last.successor == Successor::Next || last.conditional) && end < length {
                successors.push(number + 1);
            }
            match &last.successor {
                Successor::Label(label) => successors.push(block_of[starts[*label as usize] as usize]),
                Successor::Table(table) => {
                    successors.extend(decoder.tables[*table].iter().map(|&l| block_of[starts[l as usize] as usize]));
                }
                Successor::Next | Successor::None => {}
            }
            CodeBlock { start, end, successors }
        })
        .collect()
}

/// For each of these instructions, in order, the code after it from which control can't come back to it.
pub(super) fn after(instructions: &[usize], blocks: &[CodeBlock]) -> Vec<After> {
    let mut before: Vec<Vec<usize>> = vec![vec![]; blocks.len()];
    for (number, block) in blocks.iter().enumerate() {
        block.successors.iter().for_each(|&successor| before[successor].push(number));
    }
    let mut found: Vec<After> = vec![];
    // Many instructions with a member mask are in one block; there only the rest of the block differs.
    type OfBlock = (usize, Vec<(u32, u32)>, bool);
    let mut last: Option<OfBlock> = None;
    for &instruction in instructions {
        let own = blocks.partition_point(|block| block.end <= instruction);
        if last.as_ref().is_none_or(|last| last.0 != own) {
            let reached = steps_from(own, blocks.len(), |block| &blocks[block].successors);
            let reaching = steps_from(own, blocks.len(), |block| &before[block]);
            let others = blocks.iter().enumerate();
            let others = others.filter(|&(number, _)| number != own && reached[number] && !reaching[number]);
            let others = others.map(|(_, block)| (block.start as u32, block.end as u32)).collect();
            last = Some((own, others, reached[own]));
        }
        let Some((_, others, repeats)) = &last else { continue };
        let mut code = others.clone();
        if !repeats {
            let rest = (instruction as u32 + 1, blocks[own].end as u32);
            code.insert(code.partition_point(|part| part.0 < rest.0), rest);
        }
        found.push(After { instruction: instruction as u32, code });
    }
    found
}

/// Which blocks can be reached from one of them in one step or more.
fn steps_from<'b>(start: usize, blocks: usize, next: impl Fn(usize) -> &'b Vec<usize>) -> Vec<bool> {
    let mut found = vec![false; blocks];
    let mut left = next(start).clone();
    while let Some(block) = left.pop() {
        if !std::mem::replace(&mut found[block], true) {
            left.extend(next(block));
        }
    }
    found
}
