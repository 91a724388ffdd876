//! The public interface of the published crates, as text: what users can name, without bodies and documentation. It is
//! a golden file, so that a change to the interface is seen in review.
//!
//! Sources are read as they are written: what macros by example define is not seen.

mod items;
mod modules;

use std::fmt::Write as _;

use crate::workspace::{Failure, root};
use modules::Crate;

/// The crates that are published: their names, and the folders of their sources.
const PUBLISHED: [(&str, &str); 3] =
    [("epilogue", "src"), ("epilogue_runtime", "runtime/src"), ("ptx_vm", "runtime/ptx-vm/src")];

/// The interface of all crates, each module's items in the order of their names.
pub(crate) fn text() -> Result<String, Failure> {
    let mut text =
        String::from("// What users can name: `cargo xtask interface > tests/golden/interface.rs` writes it.\n");
    for (name, folder) in PUBLISHED {
        let read = Crate::read(&root().join(folder))?;
        for (path, items) in read.public_modules(name) {
            let items =
                prettyplease::unparse(&syn::File { shebang: None, frontmatter: None, attrs: Vec::new(), items });
            write!(text, "\n// {path}\n\n{items}")?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    #[test]
    fn the_interface_is_as_committed() {
        expect_file!["../../../tests/golden/interface.rs"].assert_eq(&super::text().expect("sources that parse"));
    }
}
