//! Why rows cannot be gathered.

use crate::ElementType;

/// Why rows are not picked.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// An index that doesn't have one axis.
    #[error(
        "the index that picks rows has shape {given:?}; needed is [T], a row's number for each of the product's T rows"
    )]
    Index {
        /// Its shape.
        given: Vec<usize>,
    },
    /// An index of another element type.
    #[error("the index that picks rows holds {given}; needed is i32")]
    Element {
        /// Its element type.
        given: ElementType,
    },
    /// A batch of matrices.
    #[error(
        "rows are picked from an A of shape {given:?}: give one matrix, [S, K], and offsets or ends where there are groups"
    )]
    Matrix {
        /// A's shape.
        given: Vec<usize>,
    },
    /// Rows that are not contiguous.
    #[error(
        "rows are picked from an A that is contiguous along M: give one whose rows are, along K, such as a copy of it"
    )]
    Major,
    /// Groups of other things than the rows of one matrix.
    #[error("rows are picked from one matrix, and the product has {what}: give offsets or ends of groups of rows")]
    Groups {
        /// The property that excludes picked rows.
        what: &'static str,
    },
    /// A number that is not a row's.
    #[error("index[{place}] is {given}, and A has {rows} rows: {}", allowed(*.rows))]
    Row {
        /// Its place in the index.
        place: usize,
        /// The number.
        given: i32,
        /// The rows of A.
        rows: usize,
    },
    /// A run of a plan for other rows.
    #[error("A has {}, and this GEMM was planned for {}: plan it for such an A", planned_for(*.given), planned_for(!*.given))]
    Other {
        /// Whether the run's are picked.
        given: bool,
    },
}

epilogue_runtime::message::debug!(RowsError);

/// The values that an index into `rows` rows may hold.
pub(super) fn allowed(rows: usize) -> String {
    match rows.checked_sub(1) {
        Some(last) => format!("give one from 0 to {last}"),
        None => "give an index of no rows".to_owned(),
    }
}

const fn planned_for(picked: bool) -> &'static str {
    if picked { "picked rows" } else { "rows in their order" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_is_allowed() {
        let of = |rows| RowsError::Row { place: 3, given: -1, rows }.to_string();
        assert_eq!(of(7), "index[3] is -1, and A has 7 rows: give one from 0 to 6");
        assert_eq!(of(0), "index[3] is -1, and A has 0 rows: give an index of no rows");
        assert_eq!(
            RowsError::Other { given: true }.to_string(),
            "A has picked rows, and this GEMM was planned for rows in their order: plan it for such an A"
        );
    }
}
