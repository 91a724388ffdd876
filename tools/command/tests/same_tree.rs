//! The command reads an epilogue as the macros do: both make the same tree.
#![allow(missing_docs)]

#[path = "../../../examples/common/epilogues.rs"]
#[allow(dead_code)]
mod epilogues;
#[path = "same_tree/functions.rs"]
#[allow(dead_code)]
mod functions;

use epilogue::evt::Tree;
use epilogue_command::source::{Epilogue, Text, read, read_expression};

const FUNCTIONS: &str = include_str!("same_tree/functions.rs");
const EPILOGUES: &str = include_str!("../../../examples/common/epilogues.rs");

/// Compares all epilogues of a file with the macros' trees of it, in order.
#[track_caller]
fn same(text: &str, expected: &[Tree]) {
    let name = expected[0].file().to_owned();
    let read = read(&Text { name, text: text.to_owned() }).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let names: Vec<&str> = read.iter().map(|epilogue| epilogue.name.as_str()).collect();
    let expected_names: Vec<&str> = expected.iter().map(Tree::name).collect();
    assert_eq!(names, expected_names);
    for (Epilogue { tree, name }, expected) in read.iter().zip(expected) {
        assert_eq!(tree, expected, "{name}");
    }
}

#[test]
fn everything_of_the_language() {
    use epilogue::Epilogue as _;
    same(
        FUNCTIONS,
        &[
            functions::Operators::tree(),
            functions::Calls::tree(),
            functions::Places::tree(),
            functions::Reductions::tree(),
            functions::Phases::tree(),
            functions::Composed::tree(),
            functions::Extremes::tree(),
            functions::Chances::tree(),
            functions::Gated::tree(),
            functions::Match::tree(),
            functions::OwnReductions::tree(),
            functions::WithBackward::tree(),
            functions::WithBackwardBackward::tree(),
        ],
    );
}

#[test]
fn the_examples() {
    use epilogue::Epilogue as _;
    same(
        EPILOGUES,
        &[
            epilogues::Plain::tree(),
            epilogues::LinearCombination::tree(),
            epilogues::Bias::tree(),
            epilogues::BiasGelu::tree(),
            epilogues::BiasGeluResidual::tree(),
            epilogues::BiasResidualStatistics::tree(),
            epilogues::GeluBackward::tree(),
            epilogues::Amax::tree(),
            epilogues::RowReduction::tree(),
        ],
    );
}

#[test]
fn the_closure_form() {
    let text = "|accum, c: Tensor, alpha: Scalar| { let d: Tensor<f16> = alpha * accum + relu(c); d }";
    let read = read_expression(&Text { name: "x".into(), text: text.into() }).expect("an epilogue");
    let expected = tree_of(epilogue::closure!(|accum, c: Tensor, alpha: Scalar| {
        let d: Tensor<f16> = alpha * accum + relu(c);
        d
    }));
    // Places are of two texts, and the node says the same.
    let nodes = |tree: &Tree| tree.nodes().iter().map(|data| (data.node.clone(), data.name)).collect::<Vec<_>>();
    assert_eq!(nodes(&read[0].tree), nodes(&expected));
    assert_eq!(read[0].tree.outputs()[0].element, expected.outputs()[0].element);
}

fn tree_of<E: epilogue::Epilogue>(_: E) -> Tree {
    E::tree()
}

use epilogue::prelude::*;

/// The guide's recipes are statements of documentation: each block is read as a function's body.
#[test]
fn every_recipe_of_the_cookbook_is_read() {
    let pages = [
        include_str!("../../../src/guide/cookbook.rs"),
        include_str!("../../../src/guide/cookbook/operands.rs"),
        include_str!("../../../src/guide/cookbook/reductions.rs"),
        include_str!("../../../src/guide/cookbook/training.rs"),
    ];
    let lines = pages.into_iter().flat_map(str::lines).map(|line| line.strip_prefix("//!").unwrap_or(line));
    let (mut blocks, mut block): (Vec<String>, Option<String>) = (Vec::new(), None);
    for line in lines {
        match (&mut block, line.trim_start().starts_with("```")) {
            (None, true) => block = Some(String::new()),
            (Some(_), true) => blocks.extend(block.take()),
            (Some(block), false) => {
                let line = line.trim_start();
                block.push_str(line.strip_prefix("# ").unwrap_or(line));
                block.push('\n');
            }
            (None, false) => {}
        }
    }
    let mut epilogues = 0;
    for block in blocks {
        // With a backward pass they are two.
        let expected = block.matches("#[epilogue]").count() + 2 * block.matches("#[epilogue(backward").count();
        let text = Text { name: "the cookbook".into(), text: format!("fn recipe() {{ {block} }}") };
        let read = read(&text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{block}"));
        assert_eq!(read.len(), expected, "{block}");
        epilogues += expected;
    }
    assert!(epilogues > 20, "{epilogues}");
}
