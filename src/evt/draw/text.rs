//! The tree as text: every output with its operands; a value that is used twice is written out once.

use std::fmt;

use super::{accumulators, output_box, value_box};
use crate::evt::{ValidTree, ValueId, ValueKind};

impl fmt::Display for ValidTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = self.types();
        writeln!(
            f,
            "{}: A {}, B {}, {}, computed in {}",
            self.name,
            types.a,
            types.b,
            accumulators(self),
            self.real()
        )?;
        let mut written = vec![false; self.values().len()];
        for output in self.outputs() {
            let label = output_box(output);
            writeln!(f, "{} = {}: {}", output.name, label.what, label.ty)?;
            write_operands(f, self, &[(output.value, String::new())], &mut written)?;
        }
        let dead = self
            .accumulators()
            .iter()
            .enumerate()
            .filter(|(i, _)| self.accumulators().len() > 1 && self.live_accumulators().all(|live| live != *i));
        let unread = self.parameters().iter().filter(|p| p.value.is_none()).map(|p| p.name);
        let unused: Vec<&str> = dead.map(|(_, name)| *name).chain(unread).collect();
        if !unused.is_empty() {
            writeln!(f, "not used: {}", unused.join(", "))?;
        }
        Ok(())
    }
}

/// The most nested branches of a value; deeper ones become separate trees below. So a text is not much longer than the
/// number of values.
const MOST_DEEP: usize = 40;

/// Writes values as branches of a tree. It uses an explicit stack, since a tree may be deeper than a thread's stack.
fn write_operands(
    f: &mut fmt::Formatter<'_>,
    tree: &ValidTree,
    roots: &[(ValueId, String)],
    written: &mut [bool],
) -> fmt::Result {
    // Values still to be written, last first: a value, the beginning of its line, and whether it is the last operand of
    // its user.
    let mut rest: Vec<(ValueId, String, bool, String)> =
        roots.iter().map(|(id, label)| (*id, String::new(), true, label.clone())).collect();
    let mut below_all: Vec<ValueId> = Vec::new();
    let mut trees = 0;
    loop {
        let Some((id, indent, last, label)) = rest.pop() else {
            // Each is a separate tree, in the order in which they were found.
            let Some(id) = below_all.get(trees) else { return Ok(()) };
            trees += 1;
            rest.push((*id, String::new(), true, String::new()));
            continue;
        };
        let shown = value_box(tree, id);
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let label = if label.is_empty() { String::new() } else { format!("[{label}] ") };
        let name = shown.name.as_deref().map(|name| format!("{name} = ")).unwrap_or_default();
        let value = tree.value(id);
        let again = written[id.index()] && !value.is_leaf();
        if again {
            writeln!(f, "{indent}{branch}{label}{} (above)", value.user_name.unwrap_or(&value.name))?;
            continue;
        }
        if indent.chars().count() >= 3 * MOST_DEEP && !value.is_leaf() {
            writeln!(f, "{indent}{branch}{label}{} (below)", value.user_name.unwrap_or(&value.name))?;
            if !below_all.contains(&id) {
                below_all.push(id);
            }
            continue;
        }
        written[id.index()] = true;
        // A value without a name that is referred to elsewhere needs one.
        let referred_to = value.uses > 1 || indent.is_empty() && trees > 0;
        let name = if name.is_empty() && referred_to && !value.is_leaf() { format!("{} = ", value.name) } else { name };
        writeln!(f, "{indent}{branch}{label}{name}{}: {}", shown.what, shown.ty)?;
        let operands = value.kind.operands();
        for (position, operand) in operands.iter().enumerate().rev() {
            let (label, _) = super::operand_label(tree, &value.kind, position);
            let label = match (&value.kind, label.as_str()) {
                (ValueKind::Apply(..), "left" | "right") => String::new(),
                _ => label,
            };
            rest.push((*operand, format!("{indent}{below}"), position + 1 == operands.len(), label));
        }
    }
}
