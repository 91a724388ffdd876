//! Limits on a tree's names and operations, for the compilers that it goes to.

use super::check::Checker;
use super::error::MOST_CALLED;
use super::{Mistake, Node, Site, TreeError};
use crate::expr::MOST_OPERATIONS;
use crate::expr::identifier::LONGEST_NAME;

/// The most bytes of the path of the user's file: of Linux's `PATH_MAX`.
const LONGEST_PATH: usize = 4096;

impl Checker<'_> {
    /// Checks that nothing is too long for the compilers that it goes to.
    pub(super) fn lengths(&self) -> Result<(), TreeError> {
        let tree = self.tree;
        let name = |what: &'static str, name: &'static str, site: Site, most: usize| {
            if name.len() <= most { Ok(()) } else { self.fail(site, Mistake::LongName { what, name, most }) }
        };
        name("the epilogue", tree.name, Site::default(), LONGEST_NAME)?;
        name("its file", tree.file, Site::default(), LONGEST_PATH)?;
        tree.accumulators.iter().try_for_each(|of| name("an accumulator", of, Site::default(), LONGEST_NAME))?;
        tree.parameters.iter().try_for_each(|of| name("a parameter", of.name, of.site, LONGEST_NAME))?;
        tree.outputs.iter().try_for_each(|of| name("an output", of.name, of.site, LONGEST_NAME))?;
        let mut operations = 0usize;
        for node in &tree.nodes {
            name("a value", node.name.unwrap_or_default(), node.site, LONGEST_NAME)?;
            let Node::Call(function, _) = &node.node else { continue };
            operations = operations.saturating_add(function.operations());
            // A function with too many operations is a mistake of its own.
            if operations > MOST_CALLED && function.operations() <= MOST_OPERATIONS {
                return self.fail(node.site, Mistake::TooManyOperations { operations });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use crate::evt::{BroadcastClass, ParameterClass, TreeBuilder, Types};
    use crate::expr::{Function, FunctionBuilder, Op};

    fn leaked<T>(value: T) -> &'static T {
        Box::leak(Box::new(value))
    }

    /// Why a tree is refused.
    fn mistake(tree: TreeBuilder) -> Option<Mistake> {
        tree.finish().validate(Types::new(ElementType::F32, ElementType::F32)).err().map(|error| error.mistake)
    }

    /// A tree with names of these lengths: its own, that of its file, of a parameter, of a value, of an output.
    fn named([tree, file, parameter, value, output]: [usize; 5]) -> TreeBuilder {
        let name = |letter: &str, length: usize| leaked(letter.repeat(length)).as_str();
        let mut builder = TreeBuilder::new(name("t", tree), name("f", file));
        let accum = builder.accum("accum");
        let bias = builder.parameter(name("p", parameter), ParameterClass::RowVector, None);
        let sum = builder.apply(Op::Add, &[accum, bias]);
        builder.name(sum, name("v", value));
        builder.output(name("o", output), sum, BroadcastClass::Tensor, None);
        builder
    }

    #[test]
    fn names_have_a_longest() {
        let most = [LONGEST_NAME, LONGEST_PATH, LONGEST_NAME, LONGEST_NAME, LONGEST_NAME];
        assert_eq!(mistake(named(most)), None);
        for (place, expected) in ["the epilogue", "its file", "a parameter", "a value", "an output"].iter().enumerate()
        {
            let mut lengths = most;
            lengths[place] = 16_000;
            let found = mistake(named(lengths));
            assert!(matches!(&found, Some(Mistake::LongName { what, .. }) if what == expected), "{found:?}");
            let said = named(lengths).finish().validate(Types::new(ElementType::F32, ElementType::F32)).err();
            let said = said.map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains("16000 bytes") && said.len() < 1000, "{said}");
        }
    }

    /// Each function calls the one before twice.
    #[test]
    fn functions_have_a_most_of_operations_and_are_looked_at_in_no_time() {
        let mut chain = Vec::new();
        for _ in 0..64 {
            let mut builder = FunctionBuilder::new("twice");
            let x = builder.parameter("x");
            let y = match chain.last().copied() {
                Some(inner) => {
                    let once = builder.call(inner, &[x]);
                    builder.call(inner, &[once])
                }
                None => builder.apply(Op::Sqrt, &[x]),
            };
            chain.push(leaked(builder.finish(y)));
        }
        assert_eq!((chain[0].operations(), chain[1].operations(), chain[63].operations()), (1, 4, usize::MAX));
        let tree = |function: &'static Function, calls: usize| {
            let mut builder = TreeBuilder::new("called", "check.rs");
            let mut value = builder.accum("accum");
            (0..calls).for_each(|_| value = builder.call(function, &[value]));
            builder.output("d", value, BroadcastClass::Tensor, None);
            mistake(builder)
        };
        let largest = chain.iter().rev().find(|function| function.operations() <= MOST_OPERATIONS).expect("the first");
        assert_eq!(tree(largest, 1), None);
        for function in chain.iter().filter(|function| function.operations() > MOST_OPERATIONS) {
            let found = tree(function, 1);
            assert!(matches!(found, Some(Mistake::MalformedFunction { .. })), "{found:?}");
        }
        let calls = MOST_CALLED / largest.operations() + 1;
        assert!(matches!(tree(largest, calls), Some(Mistake::TooManyOperations { .. })));
    }
}
