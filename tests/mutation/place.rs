//! Finds the place in the CUDA C++ that a line of PTX comes from.

use std::collections::HashMap;

/// A place in the source: file number, line, column.
type Position = (u32, u32, u32);

/// For every line of a PTX text, the calls that it was inlined through.
pub(crate) struct Places<'t> {
    source: Vec<&'t str>,
    /// The source's number among the PTX's files; code from an epilogue's own file is not looked up.
    file: Option<u32>,
    /// The places that the PTX names, each with the index of its caller.
    places: Vec<(Position, Option<usize>)>,
    /// The index of the current place at each line of the PTX.
    at: Vec<Option<usize>>,
}

fn numbers(text: &str) -> Option<Position> {
    let mut numbers = text.split_whitespace().map(|n| n.trim_end_matches(',').parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// The label to which a line jumps, if it jumps.
fn jump(line: &str) -> Option<&str> {
    let statement = match line.split_once(char::is_whitespace) {
        Some((predicate, rest)) if predicate.starts_with('@') => rest.trim(),
        _ => line,
    };
    let (operation, label) = statement.split_once(char::is_whitespace)?;
    operation.starts_with("bra").then(|| label.trim().trim_end_matches(';'))
}

impl<'t> Places<'t> {
    /// `ptx` was compiled from `source`, a file called `name`.
    pub(crate) fn new(ptx: &str, source: &'t str, name: &str) -> Self {
        let (mut places, mut at, mut current, mut file) = (Vec::new(), Vec::new(), None, None);
        // A function may be inlined in many places: the last one that was named is meant.
        let mut latest: HashMap<Position, usize> = HashMap::new();
        // But a block that is reached only by a jump continues at the place of the jump.
        let (mut at_jump, mut falls_through) = (HashMap::new(), true);
        for line in ptx.lines().map(str::trim) {
            if let Some((label, "")) = line.split_once(':')
                && !falls_through
                && let Some(there) = at_jump.remove(label)
            {
                latest = there;
            }
            if let Some(label) = jump(line) {
                at_jump.entry(label).or_insert_with(|| latest.clone());
            }
            if line.ends_with(';') {
                falls_through = !line.starts_with("bra") && !line.starts_with("ret");
            }
            if let Some(place) = line.strip_prefix(".loc") {
                let caller = place.split_once("inlined_at").and_then(|(_, caller)| numbers(caller));
                current = numbers(place).map(|position| {
                    places.push((position, caller.and_then(|caller| latest.get(&caller).copied())));
                    latest.insert(position, places.len() - 1);
                    places.len() - 1
                });
            }
            if let Some((number, path)) = line.strip_prefix(".file").and_then(|rest| rest.trim().split_once(' '))
                && path.trim().trim_matches('"').ends_with(name)
            {
                file = number.parse().ok();
            }
            at.push(current);
        }
        Self { source: source.lines().collect(), file, places, at }
    }

    /// The source lines behind a line of PTX (from 1), the callee before the caller.
    pub(crate) fn calls(&self, line: usize) -> Vec<&'t str> {
        let mut calls = Vec::new();
        let mut number = self.at.get(line.wrapping_sub(1)).copied().flatten();
        while let Some(&((file, line, _), caller)) = number.and_then(|number| self.places.get(number)) {
            // Line 0 is code that the compiler added.
            let text = (line as usize).checked_sub(1).and_then(|line| self.source.get(line));
            calls.extend(text.filter(|_| Some(file) == self.file).map(|text| text.trim()));
            number = caller;
        }
        calls
    }
}

#[test]
fn inlined_code_is_followed_to_its_callers() {
    let source = "bar();\nwait();\nmain\nother\n";
    let ptx = ".file 1 \"/x/k.cu\"\n.file 2 \"user.rs\"\n.loc 1 3 1\nret;\n\
               .loc 1 2 5, function_name $L__i1, inlined_at 1 3 1\n\
               .loc 1 1 9, function_name $L__i0, inlined_at 1 2 5\nbar.sync 0;\n.loc 2 1 1\nadd;\n\
               .loc 1 4 1\n.loc 1 1 9, function_name $L__i0, inlined_at 1 4 1\nbar.sync 0;\n";
    let places = Places::new(ptx, source, "k.cu");
    assert_eq!(places.calls(7), ["bar();", "wait();", "main"]);
    assert_eq!(places.calls(4), ["main"]);
    assert_eq!(places.calls(12), ["bar();", "other"]);
    assert!(places.calls(9).is_empty() && places.calls(0).is_empty() && places.calls(99).is_empty());
}

#[test]
fn a_block_that_is_jumped_to_has_the_callers_of_the_jump() {
    let source = "bar();\nwait();\nfirst\nsecond\n";
    let ptx = ".file 1 \"k.cu\"\n.loc 1 3 1\n.loc 1 4 1\n\
               .loc 1 2 5, function_name $i, inlined_at 1 3 1\n@%p1 bra \t$L__1;\n\
               .loc 1 2 5, function_name $i, inlined_at 1 4 1\nadd;\nbra.uni $L__2;\n\
               $L__1:\n.loc 1 1 9, function_name $i, inlined_at 1 2 5\nbar.sync 0;\n\
               $L__2:\n.loc 1 1 9, function_name $i, inlined_at 1 2 5\nbar.sync 1;\nret;\n";
    let places = Places::new(ptx, source, "k.cu");
    assert_eq!(places.calls(11), ["bar();", "wait();", "first"]);
    assert_eq!(places.calls(14), ["bar();", "wait();", "first"], "control falls through from there");
    assert_eq!(places.calls(7), ["wait();", "second"]);
    assert_eq!(jump("@%p55 bra \t$L__BB0_63;"), Some("$L__BB0_63"));
    assert_eq!(jump("bra.uni $L;"), Some("$L"));
    assert_eq!(jump("bar.sync 0;"), None);
}
