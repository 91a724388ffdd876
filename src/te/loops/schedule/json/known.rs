//! Nodes that were read, by their places, and numbers as they are written.

use std::collections::HashMap;

use super::mistake;
use crate::te::error::TeError;

/// The nodes of one kind that were read, by their places.
pub(super) struct KnownNodes<T> {
    what: &'static str,
    by_place: HashMap<usize, T>,
}

impl<T: Clone> KnownNodes<T> {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, by_place: HashMap::new() }
    }

    pub(super) fn add(&mut self, place: usize, node: T) {
        self.by_place.insert(place, node);
    }

    pub(super) fn get(&self, place: usize) -> Result<T, TeError> {
        let missing = || mistake(format!("node {place} is not {} that is given before it is used", self.what));
        self.by_place.get(&place).cloned().ok_or_else(missing)
    }

    pub(super) fn all(&self, places: &[usize]) -> Result<Vec<T>, TeError> {
        places.iter().map(|place| self.get(*place)).collect()
    }
}

/// A floating-point number as it is written: no other text of the same number.
pub(super) fn number(text: &str) -> Result<f64, TeError> {
    let given = text.parse::<f64>().ok().filter(|given| format!("{given:?}") == text);
    given.ok_or_else(|| mistake(format!("\"{text}\" is not a number as they are written here: 1.0, -2.5e-7, inf, NaN")))
}
