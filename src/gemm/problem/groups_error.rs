//! Why rows, or K, cannot be divided into groups.

use super::groups::{Divided, groups_of};
use crate::ElementType;

/// Why a product has no groups of rows or of K.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupsError {
    /// Bounds of groups that don't have one axis of the right length.
    #[error("{name} of groups have shape {given:?}; needed is {needed}")]
    Bounds {
        /// `offsets`, `ends` or `counts`.
        name: &'static str,
        /// The given one.
        given: Vec<usize>,
        /// The needed one.
        needed: &'static str,
    },
    /// Bounds of groups of another element type.
    #[error("{name} of groups hold {given}; needed is i32")]
    BoundsElement {
        /// `offsets`, `ends` or `counts`.
        name: &'static str,
        /// The given one.
        given: ElementType,
    },
    /// An A that can't be divided so.
    #[error(
        "A has shape {given:?}, and {name} are given for {groups} groups: {}",
        if *.name == "counts" {
            "give one matrix for each, [G, M, K], or one matrix and offsets"
        } else {
            "give one matrix, [T, K], whose rows they share, or counts"
        }
    )]
    Matrix {
        /// `offsets`, `ends` or `counts`.
        name: &'static str,
        /// A's shape.
        given: Vec<usize>,
        /// The number of groups.
        groups: usize,
    },
    /// A batch of matrices whose K is divided.
    #[error("{operand} has shape {given:?}, and K is divided into groups: give one matrix, whose K they share")]
    Depth {
        /// `A` or `B`.
        operand: &'static str,
        /// Its shape.
        given: Vec<usize>,
    },
    /// A B of another number of matrices than there are groups.
    #[error(
        "B number {place} has {given} matrices, and there are {groups} groups: give one for each, or one that all share"
    )]
    Count {
        /// Its position, from 1.
        place: usize,
        /// Its matrices.
        given: usize,
        /// The number of groups.
        groups: usize,
    },
    /// A bound of groups that is not a row's number, or smaller than the one before.
    #[error(
        "{name}[{place}] is {given}, {}: give one from {least} to {rows}",
        if *.name == "counts" {
            format!("and a group has {rows} {along} at most")
        } else {
            format!("and the groups before it take {least} of the {rows} {along}")
        }
    )]
    Bound {
        /// `offsets`, `ends` or `counts`.
        name: &'static str,
        /// Its index.
        place: usize,
        /// Its value.
        given: i32,
        /// The least that is allowed.
        least: usize,
        /// The most that is allowed: the number of rows, or K.
        rows: usize,
        /// The divided extent.
        along: &'static str,
    },
    /// A reduction that a product with groups doesn't have.
    #[error("output `{name}` {what}, and the product has groups: {advice}")]
    Reduction {
        /// The output's name.
        name: &'static str,
        /// Its reduction, in words.
        what: &'static str,
        /// Another way.
        advice: &'static str,
    },
    /// An epilogue that is computed from its own reductions, for a product with groups.
    #[error(
        "`{epilogue}` is computed from its own reductions, and the product has {divided}: return the reductions (`Any`, `All`, \
         `Mean`, `Variance` and `LogSumExp` are made of others), and go on in another epilogue"
    )]
    Phases {
        /// The epilogue's name.
        epilogue: &'static str,
        /// The divided extent.
        divided: Divided,
    },
    /// A run of a plan for other groups.
    #[error(
        "A has {given}, and this GEMM was planned for {planned}: plan it for such an A",
        given = groups_of(*.given),
        planned = groups_of(*.planned)
    )]
    Other {
        /// The plan's divided extent.
        planned: Option<Divided>,
        /// The run's divided extent.
        given: Option<Divided>,
    },
}

epilogue_runtime::message::debug!(GroupsError);
