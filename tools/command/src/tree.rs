//! `epilogue tree`.

use std::fmt::Write as _;

use epilogue::evt::ValidTree;

use crate::failure::Failure;
use crate::options::TreeOptions;
use crate::plan::{self, validated};

type Draw = fn(&ValidTree) -> String;

pub(crate) fn tree(options: &TreeOptions) -> Result<String, Failure> {
    let drawn = options.svg.is_some() || options.dot.is_some();
    let (text, epilogues) = if drawn {
        plan::one(&options.source).map(|(text, one)| (text, vec![one]))?
    } else {
        plan::epilogues(&options.source)?
    };
    let mut printed = String::new();
    for (i, epilogue) in epilogues.iter().enumerate() {
        let tree = validated(&text, epilogue, options.operands.types)?;
        if i > 0 {
            printed.push('\n');
        }
        let _ = writeln!(printed, "{}", tree.to_string().trim_end());
        let drawings = [(&options.svg, ValidTree::to_svg as Draw), (&options.dot, ValidTree::to_dot)];
        for (path, draw) in drawings {
            if let Some(path) = path {
                match plan::write(path, draw(&tree).as_bytes())? {
                    // The drawing alone, so that it can be piped.
                    Some(drawing) => return Ok(drawing),
                    None => {
                        let _ = writeln!(printed, "drawn in {}", path.display());
                    }
                }
            }
        }
    }
    Ok(printed)
}
