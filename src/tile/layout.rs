//! Layouts, the places of a tile's elements: a register or memory word, of a lane and warp.

use std::collections::HashMap;
use std::fmt;

/// Lanes of a warp.
const LANES: usize = 32;

/// The most places that a layout may have. Real tiles are far smaller.
const MAX_PLACES: usize = 1 << 20;

/// The direction of a part of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TileAxis {
    /// Registers of a thread, or words of shared memory: `m`.
    Memory,
    /// Lanes of a warp: `laneid`.
    Lane,
    /// Warps of the executing scope, counted from 0: `warpid`.
    Warp,
}

impl TileAxis {
    /// Whether positions along it belong to different threads.
    #[must_use]
    pub const fn is_thread(self) -> bool {
        matches!(self, Self::Lane | Self::Warp)
    }
}

impl fmt::Display for TileAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "m",
            Self::Lane => "laneid",
            Self::Warp => "warpid",
        })
    }
}

/// A part of a layout: `extent` steps of `stride` along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileIter {
    /// The number of steps.
    pub extent: usize,
    /// The distance of each step.
    pub stride: usize,
    /// The axis.
    pub axis: TileAxis,
}

/// A place: a register or word of a lane of a warp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The warp.
    pub warp: usize,
    /// The lane.
    pub lane: usize,
    /// The register or word.
    pub memory: usize,
}

impl Place {
    fn along(mut self, axis: TileAxis, by: usize) -> Self {
        match axis {
            TileAxis::Memory => self.memory = self.memory.saturating_add(by),
            TileAxis::Lane => self.lane = self.lane.saturating_add(by),
            TileAxis::Warp => self.warp = self.warp.saturating_add(by),
        }
        self
    }
}

/// A layout without swizzle. It maps the row-major number of an element to places. The digits of this number, with the
/// shards' extents as bases (the last shard is the fastest digit), give the element's place. Replicas give additional
/// places.
///
/// ```
/// use epilogue::tile::{Place, TileAxis::{Lane, Memory}, TileLayout};
///
/// // The accumulator of mma.m16n8, 16 × 8: lane l has rows l/4 and l/4 + 8, columns 2(l%4) and 2(l%4) + 1.
/// let accumulator = TileLayout::shards([(2, 2, Memory), (8, 4, Lane), (4, 1, Lane), (2, 1, Memory)]);
/// assert_eq!(accumulator.to_string(), "S[(2, 8, 4, 2) : (2@m, 4@laneid, 1@laneid, 1@m)]");
/// assert_eq!(accumulator.places(9 * 8 + 5), vec![Place { warp: 0, lane: 6, memory: 3 }]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TileLayout {
    shards: Vec<TileIter>,
    replicas: Vec<TileIter>,
    offset: Place,
}

impl TileLayout {
    /// A layout of shards `(extent, stride, axis)`, the slowest first.
    #[must_use]
    pub fn shards(shards: impl IntoIterator<Item = (usize, usize, TileAxis)>) -> Self {
        Self { shards: iters(shards), replicas: Vec::new(), offset: Place::default() }
    }

    /// Row-major registers or words.
    #[must_use]
    pub fn row_major(shape: &[usize]) -> Self {
        let mut stride = 1_usize;
        let mut shards: Vec<_> = shape
            .iter()
            .rev()
            .map(|&extent| {
                let iter = (extent, stride, TileAxis::Memory);
                stride = stride.saturating_mul(extent);
                iter
            })
            .collect();
        shards.reverse();
        Self::shards(shards)
    }

    /// Adds replicas: every element is also stored `stride`, `2 * stride`, … further along an axis.
    #[must_use]
    pub fn replicas(mut self, replicas: impl IntoIterator<Item = (usize, usize, TileAxis)>) -> Self {
        self.replicas = iters(replicas);
        self
    }

    /// Moves all places along an axis.
    #[must_use]
    pub fn offset(mut self, by: usize, axis: TileAxis) -> Self {
        self.offset = self.offset.along(axis, by);
        self
    }

    /// The shards, the slowest first.
    #[must_use]
    pub fn shard_iters(&self) -> &[TileIter] {
        &self.shards
    }

    /// The replicas.
    #[must_use]
    pub fn replica_iters(&self) -> &[TileIter] {
        &self.replicas
    }

    /// The offset of all places.
    #[must_use]
    pub const fn origin(&self) -> Place {
        self.offset
    }

    /// The number of elements that it places.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().fold(1, |n: usize, iter| n.saturating_mul(iter.extent))
    }

    /// Whether it places no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether one thread holds all elements: nothing runs along lanes or warps.
    #[must_use]
    pub fn is_thread_local(&self) -> bool {
        let threads = |iters: &[TileIter]| iters.iter().any(|iter| iter.extent > 1 && iter.axis.is_thread());
        !threads(&self.shards) && !threads(&self.replicas) && self.offset.lane == 0 && self.offset.warp == 0
    }

    /// The places of an element, given by its row-major number: one for every combination of replicas.
    #[must_use]
    pub fn places(&self, element: usize) -> Vec<Place> {
        let (mut place, mut rest) = (self.offset, element);
        for iter in self.shards.iter().rev() {
            place = place.along(iter.axis, (rest % iter.extent.max(1)).saturating_mul(iter.stride));
            rest /= iter.extent.max(1);
        }
        let mut places = vec![place];
        for iter in &self.replicas {
            let copies =
                |place: Place| (0..iter.extent).map(move |i| place.along(iter.axis, i.saturating_mul(iter.stride)));
            places = places.into_iter().flat_map(copies).collect();
        }
        places
    }

    /// The element at every place.
    #[must_use]
    pub fn elements(&self) -> HashMap<Place, usize> {
        (0..self.len())
            .flat_map(|element| self.places(element).into_iter().map(move |place| (place, element)))
            .collect()
    }

    /// The number of registers (or words) that it needs, up to the last one used.
    #[must_use]
    pub fn memory_len(&self) -> usize {
        let iters = self.shards.iter().chain(&self.replicas).filter(|iter| iter.axis == TileAxis::Memory);
        iters.fold(self.offset.memory.saturating_add(1), |len, iter| {
            len.saturating_add(iter.extent.saturating_sub(1).saturating_mul(iter.stride))
        })
    }

    /// Checks the layout for a tile of `shape`.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn check(&self, shape: &[usize]) -> Result<(), LayoutError> {
        let count = shape.iter().fold(1, |n: usize, &extent| n.saturating_mul(extent));
        if count == 0 || self.is_empty() {
            return Err(LayoutError::Empty { shape: shape.to_vec(), layout: self.to_string() });
        }
        if self.len() != count {
            let (layout, places) = (self.to_string(), self.len());
            return Err(LayoutError::Count { layout, places, shape: shape.to_vec(), elements: count });
        }
        let copies = self.replicas.iter().fold(1, |n: usize, iter| n.saturating_mul(iter.extent));
        if copies == 0 {
            return Err(LayoutError::Empty { shape: shape.to_vec(), layout: self.to_string() });
        }
        let reach = self
            .shards
            .iter()
            .chain(&self.replicas)
            .fold(1, |n: usize, iter| n.saturating_add(iter.extent.saturating_mul(iter.stride)));
        let origin = self.offset.memory.saturating_add(self.offset.lane).saturating_add(self.offset.warp);
        if count.saturating_mul(copies).max(reach).max(origin) > MAX_PLACES {
            return Err(LayoutError::TooLarge { layout: self.to_string(), limit: MAX_PLACES });
        }
        let mut taken: HashMap<Place, usize> = HashMap::new();
        for element in 0..count {
            for place in self.places(element) {
                if place.lane >= LANES {
                    return Err(LayoutError::NoSuchLane { layout: self.to_string(), element, lane: place.lane });
                }
                if let Some(first) = taken.insert(place, element) {
                    return Err(LayoutError::Overlap { layout: self.to_string(), first, second: element, place });
                }
            }
        }
        Ok(())
    }

    /// The shards of each dimension of `shape`, the slowest first, without those of extent 1. `None` for a dimension
    /// that is not made of whole shards.
    pub(crate) fn dimensions(&self, shape: &[usize]) -> Vec<Option<Vec<TileIter>>> {
        let mut shards = self.shards.iter().filter(|iter| iter.extent > 1).peekable();
        let mut whole = true;
        let mut dimension = |&extent: &usize| {
            let (mut product, mut iters) = (1, Vec::new());
            while whole && product < extent {
                let Some(iter) = shards.next() else { break };
                product *= iter.extent;
                iters.push(*iter);
            }
            whole &= product == extent;
            whole.then_some(iters)
        };
        shape.iter().map(&mut dimension).collect()
    }

    /// The layout of a part of the tile, given by `start` and `extent` of every dimension.
    ///
    /// # Errors
    /// [`LayoutError::Slice`] for a part that is outside of the shape, or whose elements are not whole shards of this
    /// layout: a dimension can be cut only at its slowest shard, and only if that runs along memory.
    pub fn slice(&self, shape: &[usize], part: &[(usize, usize)]) -> Result<Self, LayoutError> {
        let refuse = |dimension: usize, reason: &str| LayoutError::Slice {
            layout: self.to_string(),
            dimension,
            reason: reason.to_owned(),
        };
        if part.len() != shape.len() {
            return Err(refuse(part.len(), "the part must have the tile's rank"));
        }
        let (mut shards, mut offset) = (Vec::new(), self.offset);
        for (d, iters) in self.dimensions(shape).into_iter().enumerate() {
            let ((start, extent), full) = (part[d], shape[d]);
            if extent == 0 || start.checked_add(extent).is_none_or(|end| end > full) {
                return Err(refuse(d, &format!("{start}..{start}+{extent} is empty or beyond {full}")));
            }
            let iters = iters.ok_or_else(|| refuse(d, "it is not whole shards"))?;
            if (start, extent) == (0, full) {
                shards.extend(iters);
                continue;
            }
            let Some((slowest, rest)) = iters.split_first() else { continue };
            let step: usize = rest.iter().map(|iter| iter.extent).product();
            if slowest.axis != TileAxis::Memory {
                return Err(refuse(d, "its slowest shard runs along threads"));
            }
            if !start.is_multiple_of(step) || !extent.is_multiple_of(step) {
                return Err(refuse(d, &format!("it can be cut at multiples of {step} only")));
            }
            offset = offset.along(TileAxis::Memory, start / step * slowest.stride);
            shards.push(TileIter { extent: extent / step, ..*slowest });
            shards.extend(rest);
        }
        Ok(Self { shards, replicas: self.replicas.clone(), offset })
    }
}

fn iters(given: impl IntoIterator<Item = (usize, usize, TileAxis)>) -> Vec<TileIter> {
    given.into_iter().map(|(extent, stride, axis)| TileIter { extent, stride, axis }).collect()
}

/// `S[(8, 4) : (4@laneid, 1@m)] + R[4 : 1@laneid] + 2@m`
impl fmt::Display for TileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tuple = |iters: &[TileIter]| {
            let list = |text: &dyn Fn(&TileIter) -> String| {
                let all: Vec<String> = iters.iter().map(text).collect();
                if all.len() == 1 { all.concat() } else { format!("({})", all.join(", ")) }
            };
            format!("[{} : {}]", list(&|i| i.extent.to_string()), list(&|i| format!("{}@{}", i.stride, i.axis)))
        };
        write!(f, "S{}", tuple(&self.shards))?;
        if !self.replicas.is_empty() {
            write!(f, " + R{}", tuple(&self.replicas))?;
        }
        let Place { warp, lane, memory } = self.offset;
        for (offset, axis) in [(memory, TileAxis::Memory), (lane, TileAxis::Lane), (warp, TileAxis::Warp)] {
            if offset != 0 {
                write!(f, " + {offset}@{axis}")?;
            }
        }
        Ok(())
    }
}

/// The reason why a layout doesn't fit a tile.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A tile without elements.
    #[error("a tile of shape {shape:?} with layout {layout} has no elements; every extent must be at least 1")]
    Empty {
        /// The shape.
        shape: Vec<usize>,
        /// The layout.
        layout: String,
    },
    /// The layout has another number of elements than the tile.
    #[error("layout {layout} places {places} elements, but a tile of shape {shape:?} has {elements}")]
    Count {
        /// The layout.
        layout: String,
        /// The number of elements that it places.
        places: usize,
        /// The tile's shape.
        shape: Vec<usize>,
        /// The number of elements of the tile.
        elements: usize,
    },
    /// The layout has more places than any tile needs.
    #[error("layout {layout} reaches beyond {limit} places; use a smaller tile")]
    TooLarge {
        /// The layout.
        layout: String,
        /// The limit.
        limit: usize,
    },
    /// The layout uses a lane that a warp doesn't have.
    #[error("layout {layout} puts element {element} in lane {lane}; a warp has 32, counted from 0")]
    NoSuchLane {
        /// The layout.
        layout: String,
        /// The element's row-major number.
        element: usize,
        /// The lane.
        lane: usize,
    },
    /// Two elements, or an element and its replica, have the same place.
    #[error("layout {layout} puts elements {first} and {second} at the same place: register {}, lane {}, warp {}",
        place.memory, place.lane, place.warp)]
    Overlap {
        /// The layout.
        layout: String,
        /// An element's row-major number.
        first: usize,
        /// The other element's row-major number.
        second: usize,
        /// The place.
        place: Place,
    },
    /// A part that the layout can't be cut to.
    #[error("layout {layout} can't be cut to this part of dimension {dimension}: {reason}")]
    Slice {
        /// The layout.
        layout: String,
        /// The dimension.
        dimension: usize,
        /// The reason.
        reason: String,
    },
}

epilogue_runtime::message::debug!(LayoutError);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::TileAxis::{Lane, Memory, Warp};
    use super::*;

    #[test]
    fn display() {
        assert_eq!(TileLayout::row_major(&[4]).to_string(), "S[4 : 1@m]");
        assert_eq!(TileLayout::row_major(&[4, 8]).to_string(), "S[(4, 8) : (8@m, 1@m)]");
        let layout = TileLayout::shards([(8, 4, Lane), (2, 1, Memory)]).replicas([(4, 1, Lane)]);
        let moved = layout.offset(2, Memory).offset(1, Warp);
        assert_eq!(moved.to_string(), "S[(8, 2) : (4@laneid, 1@m)] + R[4 : 1@laneid] + 2@m + 1@warpid");
    }

    #[test]
    fn replicas_hold_the_same_element() {
        let layout = TileLayout::shards([(8, 4, Lane)]).replicas([(4, 1, Lane)]);
        layout.check(&[8]).expect("a layout of 8");
        let lanes: Vec<usize> = layout.places(3).iter().map(|place| place.lane).collect();
        assert_eq!(lanes, [12, 13, 14, 15]);
        assert_eq!(layout.elements().len(), 32);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = |layout: &TileLayout, shape: &[usize]| layout.check(shape).expect_err("no layout");
        let lanes = TileLayout::shards([(33, 1, Lane)]);
        assert!(matches!(error(&lanes, &[33]), LayoutError::NoSuchLane { element: 32, lane: 32, .. }));
        let same = TileLayout::shards([(2, 1, Memory), (2, 1, Memory)]);
        assert!(matches!(error(&same, &[4]), LayoutError::Overlap { first: 1, second: 2, .. }));
        let itself = TileLayout::shards([(2, 1, Memory)]).replicas([(2, 0, Lane)]);
        assert!(matches!(error(&itself, &[2]), LayoutError::Overlap { first: 0, second: 0, .. }));
        assert!(matches!(error(&lanes, &[3]), LayoutError::Count { places: 33, elements: 3, .. }));
        assert!(matches!(error(&TileLayout::row_major(&[0]), &[0]), LayoutError::Empty { .. }));
        assert!(matches!(error(&itself.replicas([(0, 1, Lane)]), &[2]), LayoutError::Empty { .. }));
        let large = TileLayout::row_major(&[1 << 11, 1 << 11]);
        assert!(matches!(error(&large, &[1 << 22]), LayoutError::TooLarge { .. }));
        let far = TileLayout::shards([(2, usize::MAX / 2, Memory), (1, usize::MAX, Lane)]);
        assert!(matches!(error(&far, &[2]), LayoutError::TooLarge { .. }));
        let away = TileLayout::row_major(&[1]).offset(usize::MAX / 2, Memory);
        assert!(matches!(error(&away, &[1]), LayoutError::TooLarge { .. }));
    }

    #[test]
    fn a_part_that_is_no_layout_is_refused() {
        let layout = TileLayout::shards([(8, 4, Lane), (2, 4, Memory), (4, 1, Memory)]);
        let slice = |part: [(usize, usize); 2]| layout.slice(&[8, 8], &part).map(|l| l.to_string());
        assert_eq!(slice([(0, 8), (4, 4)]).expect("a part"), "S[(8, 1, 4) : (4@laneid, 4@m, 1@m)] + 4@m");
        for (part, reason) in [
            ([(0, 4), (0, 8)], "its slowest shard runs along threads"),
            ([(0, 8), (2, 4)], "multiples of 4"),
            ([(0, 8), (4, 8)], "beyond 8"),
            ([(0, 8), (4, 0)], "empty"),
        ] {
            let error = slice(part).expect_err("no part").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        /// The elements of a part have the same places as in the whole.
        #[test]
        fn a_part_is_where_it_was(
            shape in prop::collection::vec(1..6usize, 1..4),
            cuts in prop::collection::vec((0..6usize, 1..6usize), 3),
        ) {
            let part: Vec<(usize, usize)> = shape.iter().zip(&cuts).map(|(&n, &(start, extent))| {
                let start = start % n;
                (start, extent.min(n - start))
            }).collect();
            let whole = TileLayout::row_major(&shape);
            let cut = whole.slice(&shape, &part).expect("registers can be cut anywhere");
            let extents: Vec<usize> = part.iter().map(|(_, extent)| *extent).collect();
            cut.check(&extents).expect("a layout");
            for element in 0..extents.iter().product() {
                let (mut rest, mut number, mut factor) = (element, 0, 1);
                for d in (0..shape.len()).rev() {
                    number += (rest % extents[d] + part[d].0) * factor;
                    rest /= extents[d];
                    factor *= shape[d];
                }
                prop_assert_eq!(cut.places(element), whole.places(number));
            }
        }
    }
}
