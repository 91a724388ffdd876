//! Row programs: the computation of one row, in stages.
//!
//! A stage is a [`Body`] that is computed for all lanes of the row, or once. Later stages can hold two kinds of values
//! of it: combinations of lanes, and values that are computed once. All rows have the same number of lanes, so the code
//! does not count them.

use super::body::{Argument, Binary, Body, JitNode, JitState, JitTarget, JitValue, StateLanes, Unary};

/// Stages of a row.
#[derive(Clone, Debug)]
pub(crate) struct RowProgram {
    /// The number of lanes of a row.
    pub(super) lanes: usize,
    pub(super) stages: Vec<JitStage>,
    /// The number of places.
    pub(super) places: usize,
    /// The number of rows whose stages alternate.
    pub(super) rows: usize,
}

/// A stage.
#[derive(Clone, Debug)]
pub(super) struct JitStage {
    pub(super) body: Body,
    /// Whether it is computed once. Else it is of all lanes.
    pub(super) once: bool,
}

/// A value of a row that a stage leaves for later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JitPlace(usize);

impl RowProgram {
    /// A program of no stages, for rows of this many lanes.
    pub(crate) const fn new(lanes: usize) -> Self {
        Self { lanes, stages: Vec::new(), places: 0, rows: 1 }
    }

    /// These stages for rows of this many lanes.
    pub(crate) fn with_lanes(&self, lanes: usize) -> Self {
        Self { lanes, ..self.clone() }
    }

    /// A program with two of this program's rows as one row. Each stage is computed for the first row and then for the
    /// second: one row's combining hides the other's latency. Its arguments are the first stage's twice, then the
    /// second stage's, and so on.
    pub(crate) fn side_by_side(&self) -> Self {
        let moved = |stage: &JitStage| {
            let mut moved = stage.clone();
            moved.body.move_places(self.places);
            moved
        };
        let stages = self.stages.iter().flat_map(|stage| [stage.clone(), moved(stage)]).collect();
        Self { stages, places: 2 * self.places, rows: 2 * self.rows, ..*self }
    }

    /// Whether a stage combines lanes, for which later ones wait.
    pub(crate) fn has_totals(&self) -> bool {
        self.stages.iter().any(|stage| !stage.body.states.is_empty())
    }

    /// The numbers of arguments of each stage.
    pub(crate) fn arguments_of_stages(&self) -> impl Iterator<Item = usize> {
        self.stages.iter().map(|stage| stage.body.arguments.len())
    }

    pub(crate) const fn place(&mut self) -> JitPlace {
        self.places += 1;
        JitPlace(self.places - 1)
    }

    /// Adds a stage that is computed for all lanes of a row.
    pub(crate) fn each(&mut self, body: Body) {
        self.stages.push(JitStage { body, once: false });
    }

    /// Adds a stage that is computed once: it reads uniform values and places, and stores one lane.
    pub(crate) fn once(&mut self, body: Body) {
        debug_assert!(!body.arguments.iter().any(|argument| matches!(argument, Argument::Stream { read: true, .. })));
        self.stages.push(JitStage { body, once: true });
    }

    /// The number of arguments of all stages.
    pub(super) fn arguments(&self) -> usize {
        self.arguments_of_stages().sum()
    }
}

impl Body {
    /// Moves all places by this many.
    fn move_places(&mut self, by: usize) {
        for node in &mut self.nodes {
            if let JitNode::Held(place) = node {
                *place += by;
            }
        }
        for (target, _) in &mut self.stores {
            if let JitTarget::Place(place) = target {
                *place += by;
            }
        }
        self.states.iter_mut().for_each(|state| state.place += by);
    }

    /// The value that an earlier stage has left in a place, in all lanes.
    pub(crate) fn held(&mut self, JitPlace(number): JitPlace) -> JitValue {
        self.node(JitNode::Held(number))
    }

    /// Leaves a value in a place. The stage must be one that is computed once.
    pub(crate) fn leave(&mut self, JitPlace(number): JitPlace, value: JitValue) {
        self.stores.push((JitTarget::Place(number), value));
    }

    /// Combines the values of all lanes with each other and with the identity, and leaves the result in a place. The
    /// operation must be one instruction. Without `lanes`, any two values may be combined. With it, values that are
    /// `lanes` apart are combined in their order, and then neighbours as a tree. It is a power of two that a whole body
    /// shares.
    pub(crate) fn combine(
        &mut self,
        op: Binary,
        identity: u32,
        value: JitValue,
        JitPlace(place): JitPlace,
        lanes: Option<u32>,
    ) {
        if lanes.is_some() {
            debug_assert!(self.state_lanes.is_none_or(|known| Some(known) == lanes), "all of a body share it");
            self.state_lanes = lanes;
        }
        let identity = u64::from(identity) << 32 | u64::from(identity);
        self.states.push(JitState { op, identity, place, is_free: lanes.is_none(), lanes: StateLanes::Narrow });
        self.stores.push((JitTarget::State(self.states.len() - 1, 0), value));
    }

    /// Like [`combine`](Self::combine), in a wide body: for f64s or i64s, and an identity of 64 bits.
    pub(crate) fn combine_wide(
        &mut self,
        op: Binary,
        identity: u64,
        value: JitValue,
        JitPlace(place): JitPlace,
        lanes: Option<u32>,
    ) {
        debug_assert!(self.is_wide, "lanes have 64 bits");
        if lanes.is_some() {
            debug_assert!(self.state_lanes.is_none_or(|known| Some(known) == lanes), "all of a body share it");
            self.state_lanes = lanes;
        }
        self.states.push(JitState { op, identity, place, is_free: lanes.is_none(), lanes: StateLanes::Wide });
        self.stores.push((JitTarget::State(self.states.len() - 1, 0), value));
    }

    /// Like [`combine`](Self::combine), for f32s or their squares as f64s, by [`Binary::AddF64`] or [`Binary::MulF64`].
    /// The identity is zero or one as an f32.
    pub(crate) fn combine_doubles(
        &mut self,
        (op, identity): (Binary, f32),
        value: JitValue,
        squared: bool,
        JitPlace(place): JitPlace,
        lanes: u32,
    ) {
        debug_assert!(self.state_lanes.is_none_or(|known| known == lanes), "all of a body share it");
        self.state_lanes = Some(lanes);
        let rest = self.float(identity);
        let value = self.node(JitNode::Within(value, rest));
        let identity = f64::from(identity).to_bits();
        self.states.push(JitState { op, identity, place, is_free: false, lanes: StateLanes::Halves });
        for (part, widen) in [Unary::WidenLow, Unary::WidenHigh].into_iter().enumerate() {
            let wide = self.unary(widen, value);
            let wide = if squared { self.binary(Binary::MulF64, wide, wide) } else { wide };
            self.stores.push((JitTarget::State(self.states.len() - 1, part), wide));
        }
    }
}
