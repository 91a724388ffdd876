//! The loops of a program's machine code, from a disassembler's text: how many multiply-adds each has, and whether it
//! spills.

/// A loop without inner loops: from the target of a backward branch to the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineLoop {
    /// The address of its first instruction.
    pub(crate) start: u64,
    pub(crate) instructions: usize,
    /// Instructions of the kind that is counted.
    pub(crate) counted: usize,
    /// Whether it reads or writes the stack.
    pub(crate) spills: bool,
}

/// The loops of at most this many instructions that have an instruction of the name. The lines are `objdump`'s:
/// an address, the name, operands.
pub(crate) fn loops(lines: impl Iterator<Item = String>, name: &str, most: usize) -> Vec<MachineLoop> {
    let mut found = Vec::new();
    // The last instructions: address, whether it is counted, whether it uses the stack.
    let mut last: Vec<(u64, bool, bool)> = Vec::new();
    for line in lines {
        let Some((address, rest)) = line.trim_start().split_once(":\t") else {
            // Another function.
            last.clear();
            continue;
        };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let (instruction, operands) = rest.split_once('\t').unwrap_or((rest, ""));
        last.push((address, instruction.trim() == name, operands.contains("[sp")));
        if last.len() > 2 * most {
            last.drain(..most);
        }
        // `b.ne 1234 <function+0x10>`, `cbnz x8, 1234 <…>`
        let is_branch = instruction.starts_with("b.") || instruction.starts_with("cb") || instruction.starts_with("tb");
        let target = operands.split(", ").last().and_then(|x| x.split(' ').next());
        let Some(target) = target.filter(|_| is_branch).and_then(|x| u64::from_str_radix(x, 16).ok()) else { continue };
        let Some(first) = last.iter().position(|(at, ..)| *at == target) else { continue };
        let body = &last[first..];
        let counted = body.iter().filter(|(_, is_counted, _)| *is_counted).count();
        if counted > 0 && body.len() <= most {
            let spills = body.iter().any(|(_, _, uses_stack)| *uses_stack);
            found.push(MachineLoop { start: target, instructions: body.len(), counted, spills });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_found_between_a_branch_and_its_target() {
        let text = "
0000000000001000 <f>:
    1000:\tldr\tq0, [x1], #16
    1004:\tfmla\tv8.4s, v6.4s, v0.s[0]
    1008:\tfmla\tv9.4s, v7.4s, v0.s[0]
    100c:\tsubs\tx2, x2, #0x1
    1010:\tb.ne\t1000 <f>  // b.any
    1014:\tret

0000000000002000 <g>:
    2000:\tstr\tq0, [sp, #16]
    2004:\tfmla\tv8.4s, v6.4s, v0.s[0]
    2008:\tcbnz\tx2, 2000 <g>
    200c:\tb.eq\t3000 <h>
";
        let lines = || text.lines().map(str::to_owned);
        assert_eq!(
            loops(lines(), "fmla", 10),
            [
                MachineLoop { start: 0x1000, instructions: 5, counted: 2, spills: false },
                MachineLoop { start: 0x2000, instructions: 3, counted: 1, spills: true },
            ]
        );
        assert_eq!(loops(lines(), "fmla", 4).len(), 1);
        assert!(loops(lines(), "bfdot", 10).is_empty());
    }
}
