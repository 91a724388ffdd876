//! Why rows cannot be scattered.

use super::rows_error::allowed;
use crate::ElementType;

/// Why rows are not scattered.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScatterError {
    /// An index without a number for each row.
    #[error(
        "the index that places rows has shape {given:?}; needed is [{rows}], a place for each of the product's rows"
    )]
    Index {
        /// Its shape.
        given: Vec<usize>,
        /// The rows of the product.
        rows: usize,
    },
    /// An index of another element type.
    #[error("the index that places rows holds {given}; needed is i32")]
    Element {
        /// Its element type.
        given: ElementType,
    },
    /// A product whose rows are not those of one matrix.
    #[error(
        "rows are scattered from one matrix, and the product has {what}: give one A, and offsets or ends where there are groups"
    )]
    Product {
        /// The property that excludes scattered rows.
        what: &'static str,
    },
    /// An output whose rows can't be placed.
    #[error("output `{name}` is {what}, whose rows can't be scattered: {advice}")]
    Output {
        /// Its name.
        name: &'static str,
        /// The kind of output.
        what: &'static str,
        /// The remedy.
        advice: &'static str,
    },
    /// An epilogue without M×N results.
    #[error("`{epilogue}` returns no `Tensor` whose rows the index could place; leave `.scattered(…)` out")]
    Nothing {
        /// The epilogue.
        epilogue: &'static str,
    },
    /// A number that is not a row's.
    #[error("places[{place}] is {given}, and `{name}` has {rows} rows: {}", allowed(*.rows))]
    Row {
        /// Its place in the index.
        place: usize,
        /// The number.
        given: i32,
        /// The output.
        name: &'static str,
        /// Its rows.
        rows: usize,
    },
    /// A row that is written twice.
    #[error("places[{first}] and places[{second}] are both {given}: give each row of the product a row of its own")]
    Twice {
        /// The first place in the index.
        first: usize,
        /// The second one.
        second: usize,
        /// The number.
        given: i32,
    },
    /// A run of a plan for other rows.
    #[error("the result has {}, and this GEMM was planned for {}: plan it for such a result", planned_for(*.given), planned_for(!*.given))]
    Other {
        /// Whether the run's are scattered.
        given: bool,
    },
}

epilogue_runtime::message::debug!(ScatterError);

const fn planned_for(scattered: bool) -> &'static str {
    if scattered { "scattered rows" } else { "rows in their order" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_is_allowed() {
        let of = |rows| ScatterError::Row { place: 3, given: -1, name: "d", rows }.to_string();
        assert_eq!(of(7), "places[3] is -1, and `d` has 7 rows: give one from 0 to 6");
        assert_eq!(of(0), "places[3] is -1, and `d` has 0 rows: give an index of no rows");
        assert_eq!(
            ScatterError::Other { given: true }.to_string(),
            "the result has scattered rows, and this GEMM was planned for rows in their order: plan it for such a result"
        );
    }
}
