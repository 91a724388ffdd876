//! The meaning of a path: an item of the file, or the library's or the standard library's.

use std::collections::{HashSet, VecDeque};

use super::items::{Items, Path};

/// How many absolute paths are looked at for one name, and how many parts they have: imports may go round in circles.
const MOST_MEANINGS: usize = 64;
const MOST_PARTS: usize = 12;

/// The absolute paths that a path may stand for in a module, the nearest first: over no import, over one, and so on.
///
/// They begin at the file's root; those of other crates begin with the crate's name.
pub(super) fn meanings(items: &Items, path: &syn::Path, module: &Path) -> Vec<Path> {
    let written: Path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let mut found = Found::default();
    found.relative(module, &written, written.len() > 1);
    while let Some(path) = found.open.pop_front() {
        // Each module on the way may have the next name from somewhere else.
        for i in 0..path.len() {
            let (at, rest) = (path[..i].to_vec(), &path[i..]);
            let Some(imports) = items.imports.get(&at) else { continue };
            let named = imports.names.iter().filter(|(name, _)| *name == rest[0]);
            named.for_each(|(_, target)| found.relative(&at, &[&target[..], &rest[1..]].concat(), true));
            imports.globs.iter().for_each(|glob| found.relative(&at, &[&glob[..], rest].concat(), true));
        }
    }
    found.all
}

#[derive(Default)]
struct Found {
    all: Vec<Path>,
    open: VecDeque<Path>,
    seen: HashSet<Path>,
}

impl Found {
    /// A path as it stands in a module; `outside`: it may also begin with a crate.
    fn relative(&mut self, module: &Path, path: &[String], outside: bool) {
        let (mut at, mut rest) = (module.clone(), path);
        let mut fixed = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            (rest, fixed) = (others, true);
        }
        self.add([&at[..], rest].concat());
        if outside && !fixed {
            self.add(rest.to_vec());
        }
    }

    fn add(&mut self, path: Path) {
        let is_short = (1..=MOST_PARTS).contains(&path.len());
        if is_short && self.all.len() < MOST_MEANINGS && self.seen.insert(path.clone()) {
            self.all.push(path.clone());
            self.open.push_back(path);
        }
    }
}
