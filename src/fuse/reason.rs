//! Why a contraction doesn't run as a product, and why a value isn't computed with one: sentences for a listing.

use std::fmt;

use crate::ElementType;
use crate::evt::MAX_ACCUMULATORS;
use crate::te::auto::Order;

/// Why a contraction runs as a kernel of [`te::auto`](crate::te::auto) and not as a product, with what would change it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The order that was asked for is not the device's.
    Order(Order),
    /// It combines by something else than a sum, or from another identity than 0.
    Reducer,
    /// The summand is no product of two factors with an axis each.
    Summand,
    /// It sums only where a condition holds.
    Condition,
    /// It is part of a scan.
    InScan,
    /// The range of an axis depends on more than sizes.
    Range {
        /// The axis.
        axis: String,
    },
    /// Only one factor has an axis that is summed over.
    DepthInOne {
        /// The axis.
        axis: String,
    },
    /// No factor has an axis of the result.
    Unread {
        /// The axis.
        axis: String,
    },
    /// A factor has no axis of the result to itself.
    Vector,
    /// No product has these types.
    Types {
        /// The factors' types.
        factors: [String; 2],
        /// The type of the sum.
        sum: String,
        /// Why, and what is allowed.
        why: String,
    },
    /// The sum itself contains something that can't be an epilogue.
    Epilogue(Apart),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(order) => write!(
                f,
                "the order is `{order:?}`, and a product adds in an order of its own; a product needs `Order::Device`"
            ),
            Self::Reducer => f.write_str("it is no sum that starts from 0; only sums are products"),
            Self::Summand => f.write_str(
                "what is summed is no product of two factors, each without some axis of the other; write it as `a * b`",
            ),
            Self::Condition => {
                f.write_str("it sums only where a condition holds; put the condition into a factor, by `select` with 0")
            }
            Self::InScan => f.write_str(
                "it is part of a scan, whose steps are kernels of their own; compute what no step needs outside of the scan",
            ),
            Self::Range { axis } => {
                write!(f, "the range of {axis} depends on more than sizes; sum over all, and choose by `select` with 0")
            }
            Self::DepthInOne { axis } => {
                write!(f, "only one factor has {axis}, which is summed over; sum that factor over {axis} first")
            }
            Self::Unread { axis } => {
                write!(f, "no factor has {axis}, an axis of the result; add that axis in a computation after the sum")
            }
            Self::Vector => {
                f.write_str("a factor has no axis of the result to itself, so that a product reads nothing twice")
            }
            Self::Types { factors: [a, b], sum, why } => write!(f, "no product sums {a} × {b} in {sum} here: {why}"),
            Self::Epilogue(apart) => write!(f, "what belongs to the sum can't be computed with it: {apart}"),
        }
    }
}

/// Why a value is computed after a product and not with it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Apart {
    /// It needs a result that itself needs the product's: going out and back in.
    Around {
        /// The other result.
        through: String,
    },
    /// It reads a value of the product at other places than its own.
    Places {
        /// The tensor that is read.
        tensor: String,
    },
    /// It has an axis that the product doesn't have, or a part of its rows, columns or batches.
    Axes,
    /// An operation that epilogues don't have.
    Operation {
        /// The operation.
        what: String,
    },
    /// Values of a type that the epilogue doesn't compute in.
    Type {
        /// The type.
        given: String,
        /// The type in which the epilogue computes.
        computed: ElementType,
    },
    /// A reduction that epilogues don't have.
    Reduction,
    /// A product of the same left factor, whose right factor has other columns or another order of axes.
    Columns,
    /// A product of the same left factor, whose right factor has another type.
    Factors,
    /// A product of the same left factor, beside as many as an epilogue takes.
    Accumulators,
    /// The check of epilogues says so.
    Tree {
        /// Its message.
        why: String,
    },
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Around { through } => write!(f, "it needs {through}, which needs the product itself"),
            Self::Places { tensor } => write!(f, "it reads {tensor} at other places than its own"),
            Self::Axes => f.write_str("its axes are not the product's rows, columns and batches"),
            Self::Operation { what } => write!(f, "epilogues don't have {what}"),
            Self::Type { given, computed } => write!(f, "it computes in {given}, and the epilogue in {computed}"),
            Self::Reduction => f.write_str("it is no sum, product, maximum or minimum of whole rows or columns"),
            Self::Columns => f.write_str("its right factor has other columns, or its axes in another order"),
            Self::Factors => f.write_str("its right factor has another type"),
            Self::Accumulators => write!(f, "a product has at most {MAX_ACCUMULATORS} right factors"),
            Self::Tree { why } => f.write_str(why),
        }
    }
}
