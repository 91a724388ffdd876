//! The graph: the files, and for each the files whose items it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::sources::{Names, Source};
use crate::workspace::Failure;

/// The workspace's crates: the name in paths, and the folder of the sources.
const CRATES: [(&str, &str); 10] = [
    ("epilogue", "src"),
    ("epilogue_syntax", "epilogue-macros/syntax/src"),
    ("epilogue_macros", "epilogue-macros/src"),
    ("epilogue_runtime", "runtime/src"),
    ("epilogue_float_mode", "runtime/float-mode/src"),
    ("ptx_vm", "runtime/ptx-vm/src"),
    ("ptx_vm_conformance", "runtime/ptx-vm/conformance/src"),
    ("bundle", "tools/bundle/src"),
    ("epilogue_command", "tools/command/src"),
    ("xtask", "tools/xtask/src"),
];

/// A module: its crate's name, then the path inside.
type Module = Names;

/// Files and the imports between them.
pub(super) struct Graph {
    files: Vec<String>,
    edges: BTreeSet<(usize, usize)>,
}

impl Graph {
    pub(super) fn read(root: &Path) -> Result<Self, Failure> {
        let mut modules = Modules::default();
        for (name, folder) in CRATES {
            modules.read(name, root, &root.join(folder))?;
        }
        modules.leave_tests_out();
        Ok(modules.graph())
    }

    /// Names of files, relative to the workspace.
    pub(super) fn files(&self) -> &[String] {
        &self.files
    }

    /// (importing file, imported file), as indices in `files`.
    pub(super) fn edges(&self) -> &BTreeSet<(usize, usize)> {
        &self.edges
    }

    /// The imports of a file.
    pub(super) fn imports<'g>(&'g self, file: &'g str) -> impl Iterator<Item = &'g str> {
        self.edges.iter().filter(move |(from, _)| self.files[*from] == file).map(|(_, to)| self.files[*to].as_str())
    }

    /// Groups of files that import each other in a circle, the largest first.
    pub(super) fn circles(&self) -> Vec<Vec<&str>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|file| self.reached(file)).collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for file in 0..self.files.len() {
            if reached[file].contains(&file) && seen.insert(file) {
                let circle: Vec<usize> =
                    reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect();
                seen.extend(&circle);
                circles.push(circle.iter().map(|file| self.files[*file].as_str()).collect::<Vec<_>>());
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// The files that a file imports, directly or through others.
    fn reached(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for (_, to) in self.edges.range((file, 0)..(file + 1, 0)) {
                if reached.insert(*to) {
                    open.push(*to);
                }
            }
        }
        reached
    }
}

#[derive(Default)]
struct Modules {
    sources: BTreeMap<Module, (String, Source)>,
}

impl Modules {
    fn read(&mut self, name: &str, root: &Path, folder: &Path) -> Result<(), Failure> {
        for file in rust_files(folder)? {
            let text = fs::read_to_string(&file)?;
            let shown = relative(root, &file);
            let source = Source::parse(&text).map_err(|error| format!("{shown}: {error}"))?;
            let mut module: Module = vec![name.to_owned()];
            let inside = relative(folder, &file.with_extension(""));
            let last = inside.rsplit('/').next().unwrap_or_default();
            let names = inside.split('/').filter(|part| !(*part == last && ["mod", "lib", "main"].contains(part)));
            module.extend(names.map(str::to_owned));
            self.sources.insert(module, (shown, source));
        }
        Ok(())
    }

    fn leave_tests_out(&mut self) {
        let tests = |(module, (_, source)): (&Module, &(String, Source))| {
            source.tests.iter().map(|name| [&module[..], std::slice::from_ref(name)].concat()).collect::<Vec<_>>()
        };
        let tests: Vec<Module> = self.sources.iter().flat_map(tests).collect();
        self.sources.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    }

    fn graph(&self) -> Graph {
        let files: Vec<String> = self.sources.values().map(|(file, _)| file.clone()).collect();
        let place: BTreeMap<&Module, usize> = self.sources.keys().enumerate().map(|(i, module)| (module, i)).collect();
        let mut edges = BTreeSet::new();
        for (from, (_, source)) in &self.sources {
            let defined = source.named.iter().filter_map(|path| self.definer(from, path, 0));
            // A folder's own page may hold what its files share.
            let counted = defined.filter(|to| !from.starts_with(to));
            edges.extend(counted.map(|to| (place[from], place[&to])));
        }
        Graph { files, edges }
    }

    /// The module that defines the item that `path` names in `module`; `None` if it is a module or defined elsewhere.
    fn definer(&self, module: &Module, path: &[String], depth: u32) -> Option<Module> {
        let (mut at, rest) = self.start(module, path, depth)?;
        for (i, name) in rest.iter().enumerate() {
            let inner = [&at[..], std::slice::from_ref(name)].concat();
            if self.sources.contains_key(&inner) {
                at = inner;
                continue;
            }
            let (_, source) = self.sources.get(&at)?;
            // An item of `at` itself, or one that it imports.
            if depth < 8 {
                let again = source.brought.iter().find(|(brought, _)| brought == name);
                if let Some((_, target)) = again {
                    let whole = [&target[..], &rest[i + 1..]].concat();
                    return self.definer(&at, &whole, depth + 1).or(Some(at));
                }
                let globbed = source.globs.iter().find_map(|glob| {
                    let (folder, left) = self.start(&at, glob, depth + 1)?;
                    let folder = [&folder[..], left].concat();
                    let defines = |source: &Source| source.brought.iter().any(|(brought, _)| brought == name);
                    let (_, source) = self.sources.get(&folder)?;
                    defines(source).then(|| self.definer(&folder, &rest[i..], depth + 1)).flatten()
                });
                if globbed.is_some() {
                    return globbed;
                }
            }
            return Some(at);
        }
        None
    }

    /// The module where a path begins, and the rest of the path.
    fn start<'p>(&self, module: &Module, path: &'p [String], depth: u32) -> Option<(Module, &'p [String])> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => vec![module.first()?.clone()],
            "self" => module.clone(),
            "super" => module[..module.len() - 1].to_vec(),
            name => {
                let inner = [&module[..], std::slice::from_ref(first)].concat();
                if self.sources.contains_key(&inner) {
                    inner
                } else if let Some(target) = self.brought(module, name).filter(|_| depth < 8) {
                    return self.module(module, &target, depth + 1).map(|at| (at, rest));
                } else if self.sources.contains_key(&vec![name.to_owned()]) {
                    vec![name.to_owned()]
                } else {
                    return None;
                }
            }
        };
        while let Some((name, left)) = rest.split_first()
            && name == "super"
        {
            at.pop();
            rest = left;
        }
        Some((at, rest))
    }

    fn brought(&self, module: &Module, name: &str) -> Option<Names> {
        let (_, source) = self.sources.get(module)?;
        source
            .brought
            .iter()
            .find(|(brought, path)| brought == name && path.first().is_some_and(|it| it != name))
            .map(|(_, path)| path.clone())
    }

    /// The module that a path names, if it names one.
    fn module(&self, module: &Module, path: &[String], depth: u32) -> Option<Module> {
        let (at, rest) = self.start(module, path, depth)?;
        let whole = [&at[..], rest].concat();
        self.sources.contains_key(&whole).then_some(whole)
    }
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A file's name relative to a folder, with `/`.
fn relative(folder: &Path, file: &Path) -> String {
    let inside = file.strip_prefix(folder).unwrap_or(file);
    inside.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let mut modules = Modules::default();
        for (name, text) in files {
            let module = name.split('/').map(str::to_owned).collect();
            modules.sources.insert(module, ((*name).to_owned(), Source::parse(text).expect("it parses")));
        }
        modules.graph()
    }

    #[test]
    fn circles_are_found_through_what_a_folder_brings_in() {
        let cut = [
            ("c", "mod a; mod b; mod room;"),
            ("c/a", "use crate::room::Inner; pub struct A;"),
            ("c/b", "use crate::a::A; pub struct B;"),
            ("c/room", "mod inner; pub use inner::Inner;"),
            ("c/room/inner", "pub struct Inner;"),
        ];
        assert!(graph(&cut).circles().is_empty());
        let mut closed = cut;
        closed[4].1 = "pub struct Inner(crate::b::B);";
        assert_eq!(graph(&closed).circles(), [["c/a", "c/b", "c/room/inner"]]);
        closed[4].1 = "pub struct Inner; #[cfg(test)] mod tests { use crate::b::B; }";
        assert!(graph(&closed).circles().is_empty());
    }
}
