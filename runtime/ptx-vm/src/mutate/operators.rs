//! The mutation operators.

use super::statement::Statement;
use super::{Mutation, Operator};
use std::ops::Range;

pub(super) fn all(statements: &[Statement<'_>]) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    let mut barriers: Vec<_> = statements.iter().filter_map(numbered_barrier).collect();
    barriers.sort_unstable();
    barriers.dedup();
    for (index, statement) in statements.iter().enumerate() {
        let mut site = Site { statement, index, barriers: &barriers, mutations: &mut mutations };
        site.drops();
        site.counts();
        site.phases_and_masks();
        site.swizzles();
        site.orders();
        if let Some(mutation) = early(statements, index) {
            mutations.push(mutation);
        }
    }
    mutations
}

struct Site<'a, 's> {
    statement: &'a Statement<'s>,
    index: usize,
    /// The CTA barriers that the text uses: number and thread count.
    barriers: &'a [(i64, &'s str)],
    mutations: &'a mut Vec<Mutation>,
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex.trim_end_matches('U'), 16).ok(),
        None => text.trim_end_matches('U').parse().ok(),
    }
}

/// Whether it is a barrier of a block, for all of its warps or some of them.
fn is_cta_barrier(s: &Statement<'_>) -> bool {
    (s.is("bar") || s.is("barrier")) && !s.is("bar.warp") && !s.is("barrier.cluster")
}

/// Number and thread count of a CTA barrier, if the number is a constant.
fn numbered_barrier<'s>(s: &Statement<'s>) -> Option<(i64, &'s str)> {
    let (id, _) = s.operands.first().filter(|_| is_cta_barrier(s))?;
    Some((number(id)?, s.operands.get(1).map_or("", |(count, _)| *count)))
}

impl Site<'_, '_> {
    fn add(&mut self, operator: Operator, what: &str, edits: Vec<(Range<usize>, String)>) {
        let description = format!("line {}: {what} `{}`", self.statement.line, self.statement.opcode);
        let (line, bytes) = (self.statement.line, self.statement.bytes.clone());
        self.mutations.push(Mutation { operator, line, description, bytes, edits });
    }

    fn replace(&mut self, operator: Operator, what: &str, text: String) {
        self.add(operator, what, vec![(self.statement.bytes.clone(), text)]);
    }

    fn drops(&mut self) {
        let s = self.statement;
        let operator = if s.is("bar.arrive") || s.is("barrier.arrive") || s.is("barrier.cta.arrive") {
            Operator::DropArrival
        } else if s.is("bar") || s.is("barrier") {
            Operator::DropBarrier
        } else if s.is("fence") || s.is("membar") || s.is("tcgen05.fence") {
            Operator::DropFence
        } else if s.has("wait_group") || s.has("wait_all") || s.is("griddepcontrol.wait") || s.is("tcgen05.wait") {
            Operator::DropWait
        } else if s.has("commit_group") || s.is("tcgen05.commit") {
            Operator::DropCommit
        } else if s.is("mbarrier.arrive") || s.is("mbarrier.arrive_drop") || s.is("cp.async.mbarrier.arrive") {
            Operator::DropArrival
        } else if s.is("wgmma.fence") {
            Operator::DropFence
        } else {
            if let Some((predicate, _)) = s.operands.first()
                && (s.is("mbarrier.try_wait") || s.is("mbarrier.test_wait"))
            {
                let guard = s.guard.map_or(String::new(), |g| format!("{g} "));
                let passes = format!("{guard}setp.eq.u32 {predicate}, 0, 0;");
                self.replace(Operator::DropWait, "drop the wait of", passes);
            }
            return;
        };
        // A reduction gives a value; dropping it leaves the program meaningless rather than racy.
        if !s.has("red") {
            self.replace(operator, "drop", String::new());
        }
    }

    /// Adds an instruction that changes one operand of the statement, a register or a number.
    fn change(&mut self, operator: Operator, what: &str, operand: usize, instruction: &str, by: i64) {
        let s = self.statement;
        let Some((text, bytes)) = s.operands.get(operand).cloned() else { return };
        if let Some(value) = number(text) {
            let changed = match instruction.split('.').next() {
                Some("xor") => value ^ by,
                Some("and") => value & by,
                _ => value + by,
            };
            self.add(operator, what, vec![(bytes, changed.to_string())]);
            return;
        }
        if !text.starts_with('%') {
            return;
        }
        let (register, bits) = (format!("%mutant{}", self.index), instruction.rsplit('.').next().unwrap_or("u32"));
        let guard = s.guard.map_or(String::new(), |g| format!("{g} "));
        let before = format!("{{ .reg .{bits} {register}; {guard}{instruction} {register}, {text}, {by}; ");
        let start = s.bytes.start..s.bytes.start;
        let end = s.bytes.end..s.bytes.end;
        self.add(operator, what, vec![(start, before), (bytes, register), (end, " }".into())]);
    }

    fn counts(&mut self) {
        let s = self.statement;
        if s.has("wait_group") {
            self.change(Operator::LooserWait, "leave one group more to", 0, "add.u32", 1);
        }
        if is_cta_barrier(s) && !s.has("red") {
            self.other_barrier();
            self.change(Operator::Count, "32 threads fewer for", 1, "add.u32", -32);
            self.change(Operator::Count, "32 threads more for", 1, "add.u32", 32);
        }
        if s.is("mbarrier.init") {
            self.change(Operator::Count, "one arrival fewer for", 1, "add.u32", -1);
            self.change(Operator::Count, "one arrival more for", 1, "add.u32", 1);
        }
        if s.has("expect_tx") || s.is("mbarrier.complete_tx") {
            let last = s.operands.len().saturating_sub(1);
            self.change(Operator::Count, "16 bytes fewer for", last, "add.u32", -16);
            self.change(Operator::Count, "16 bytes more for", last, "add.u32", 16);
        }
    }

    /// The number of another barrier in the text, if possible with the same thread count. If all uses of a barrier had
    /// the same unused number, nobody would notice.
    fn other_barrier(&mut self) {
        let Some((mine, threads)) = numbered_barrier(self.statement) else {
            self.change(Operator::BarrierId, "another barrier for", 0, "add.u32", 1);
            return;
        };
        let others = || self.barriers.iter().filter(|(id, _)| *id != mine);
        let alike = others().find(|(_, count)| *count == threads);
        if let Some(&(other, _)) = alike.or_else(|| others().next()) {
            self.change(Operator::BarrierId, "another barrier for", 0, "add.u32", other - mine);
        }
    }

    fn phases_and_masks(&mut self) {
        let s = self.statement;
        if (s.is("mbarrier.try_wait") || s.is("mbarrier.test_wait")) && s.has("parity") {
            self.change(Operator::Phase, "the other parity for", 2, "xor.b32", 1);
        }
        if s.is("bar.warp.sync") {
            self.change(Operator::Mask, "half the lanes for", 0, "and.b32", 0xffff);
        }
        if s.has("multicast::cluster") {
            // The mask comes after the mbarrier; a cache policy may come after the mask.
            let mask = s.operands.len() - 1 - usize::from(s.has("cache_hint"));
            self.change(Operator::Mask, "one block fewer for", mask, "and.b16", 1);
        }
    }

    fn swizzles(&mut self) {
        let s = self.statement;
        if let (true, [(to, _), (from, _), _]) = (s.is("xor.b32"), &s.operands[..]) {
            let guard = s.guard.map_or(String::new(), |g| format!("{g} "));
            self.replace(Operator::Swizzle, "no", format!("{guard}mov.b32 {to}, {from};"));
        }
        // The swizzle mode of a wgmma descriptor, bits 62 and 63 (PTX ISA 9.7.15.5.1.2.2), and the even ones of tcgen05,
        // whose code has a bit more (9.7.16.4.1).
        if !(s.is("or.b64") || s.is("add.s64") || s.is("mov.b64") || s.is("mov.u64")) {
            return;
        }
        for (text, bytes) in s.operands.iter().skip(1) {
            let value = number(text).map(|n| n as u64).or_else(|| text.parse::<u64>().ok());
            if let Some(value) = value
                && matches!(value >> 62, 1..=3)
                && !text.starts_with('-') | (value >> 62 != 3)
            {
                let changed = value & !(3 << 62) | (((value >> 62) % 3) + 1) << 62;
                let changed = (changed as i64).to_string();
                self.add(Operator::Swizzle, "another descriptor swizzle in", vec![(bytes.clone(), changed)]);
            }
        }
    }

    fn orders(&mut self) {
        let s = self.statement;
        let place = |part: &str| s.has(part).then(|| s.opcode.find(&format!(".{part}"))).flatten();
        let memory = ["ld", "st", "atom", "red", "mbarrier", "barrier.cluster.arrive"].iter().any(|op| s.is(op));
        let fence = s.is("fence") && !s.has("proxy") && !s.has("mbarrier_init");
        let mut found = Vec::new();
        if memory {
            let orders = ["acq_rel", "acquire", "release"];
            found.extend(orders.map(|o| (Operator::WeakerOrder, "relaxed order for", o, "relaxed")));
        }
        if memory && !s.is("mbarrier") && !s.is("barrier") || fence {
            let scopes = ["gpu", "sys", "cluster"];
            found.extend(scopes.map(|o| (Operator::NarrowerScope, "block scope for", o, "cta")));
        }
        for (operator, what, from, to) in found {
            if let Some(offset) = place(from) {
                let at = s.opcode_start + offset + 1;
                self.add(operator, what, vec![(at..at + from.len(), to.to_string())]);
            }
        }
        if s.is("membar.gl") || s.is("membar.sys") {
            let guard = s.guard.map_or(String::new(), |g| format!("{g} "));
            self.replace(Operator::NarrowerScope, "block scope for", format!("{guard}membar.cta;"));
        }
    }
}

/// Whether a statement orders something else if it is moved above this one.
fn touches_memory(s: &Statement<'_>) -> bool {
    let local = s.has("param") || s.has("local") || s.has("const");
    let access =
        ["ld", "st", "atom", "red", "ldmatrix", "stmatrix", "cp", "wgmma", "mbarrier", "fence", "membar", "tcgen05"];
    access.iter().any(|op| s.is(op)) && !local
}

/// Moves a synchronising statement above the memory operation before it, unless something that it reads is computed
/// between them.
fn early(statements: &[Statement<'_>], index: usize) -> Option<Mutation> {
    let s = &statements[index];
    let moves = (s.is("bar") || s.is("barrier") && !s.is("barrier.cluster.wait")) && !s.has("red")
        || s.is("mbarrier.arrive")
        || s.has("commit_group")
        || s.is("fence")
        || s.is("membar")
        || s.is("tcgen05.commit")
        || s.is("tcgen05.fence::before_thread_sync")
        || s.is("tcgen05.wait");
    if !moves || s.starts_block {
        return None;
    }
    let reads: Vec<&str> = s
        .operands
        .iter()
        .flat_map(|(text, _)| Statement::names(text))
        .chain(s.guard.into_iter().flat_map(Statement::names))
        .collect();
    for before in statements[..index].iter().rev() {
        let makes = before.operands.first().map_or("", |(text, _)| text);
        let stores = before.is("st") || before.is("bar") || before.is("cp");
        if before.is_control() || !stores && Statement::names(makes).any(|name| reads.contains(&name)) {
            return None;
        }
        if touches_memory(before) {
            let description =
                format!("line {}: `{}` before line {}'s `{}`", s.line, s.opcode, before.line, before.opcode);
            let moved = s.text.to_string() + " ";
            let edits = vec![(before.bytes.start..before.bytes.start, moved), (s.bytes.clone(), String::new())];
            return Some(Mutation {
                operator: Operator::Early,
                line: s.line,
                description,
                bytes: s.bytes.clone(),
                edits,
            });
        }
        if before.starts_block {
            return None;
        }
    }
    None
}
