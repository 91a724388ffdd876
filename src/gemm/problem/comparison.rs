//! A device's result, compared with the reference.

use std::fmt;

use crate::evt::reference::Wrong;

/// The comparison of a device's output with the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub(crate) name: &'static str,
    pub(crate) elements: usize,
    pub(crate) largest_error: f64,
    pub(crate) wrong: Option<Wrong>,
}

impl Comparison {
    /// The first element outside its bounds.
    #[must_use]
    pub fn wrong(&self) -> Option<&Wrong> {
        self.wrong.as_ref()
    }

    /// The largest absolute difference from the exact values; NaNs are not counted.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        self.largest_error
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, elements, largest_error, wrong } = self;
        match wrong {
            None => write!(
                f,
                "{name}: all {elements} elements within the reference's bounds, the largest error is {largest_error:.3e}"
            ),
            Some(Wrong { place, result, value, bounds }) => write!(
                f,
                "{name}: element {place} is {result:e}, the exact value is {value:e}, right is {:e} to {:e}",
                bounds.low, bounds.high
            ),
        }
    }
}
