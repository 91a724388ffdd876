//! The graph of imports between the workspace's files, its circles and its layers, read from the sources.
//!
//! An edge goes from a file that names an item to the file that defines it, through re-exports. Test code is left out.
//! A folder's own page (`mod.rs`) may have what its files share, so their imports from it are left out, too. Methods
//! and fields don't appear, since nobody imports them. `rules` says what is allowed; the tests fail on anything else.

mod graph;
mod rules;
mod sources;

use crate::say::say;
use crate::workspace::{Failure, root};
use graph::Graph;

/// Prints the circles, and what is not allowed.
pub(crate) fn print() -> Result<(), Failure> {
    let graph = Graph::read(&root())?;
    say!("{} files, {} imports between files", graph.files().len(), graph.edges().len());
    for circle in graph.circles() {
        say!("\ncircle of {}", circle.len());
        for file in &circle {
            let inside: Vec<&str> = graph.imports(file).filter(|to| circle.contains(to)).collect();
            say!("  {file} imports {}", inside.join(", "));
        }
    }
    let violations = rules::violations(&graph);
    say!("\n{} not allowed", violations.len());
    violations.iter().for_each(|violation| say!("  {violation}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_run_downward() {
        let graph = Graph::read(&root()).expect("sources that parse");
        let violations = rules::imports(&graph);
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }

    #[test]
    fn circles_of_imports_are_the_nature_of_their_data() {
        let graph = Graph::read(&root()).expect("sources that parse");
        let violations = rules::circles(&graph);
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }
}
