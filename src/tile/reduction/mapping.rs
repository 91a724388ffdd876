//! Maps the elements of the source to those of the destination: loops over memory, and lanes that combine.
//!
//! The mapping is derived from the layouts' shards, and then checked against them element by element. So the emitted
//! code is right for all layouts.

use std::collections::{BTreeMap, HashMap};

use super::TileReduction;
use crate::tile::buffer::MemoryScope;
use crate::tile::layout::{Place, TileAxis, TileIter};

/// A loop over memory, with its stride in each buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    pub(super) extent: usize,
    pub(super) source: usize,
    pub(super) destination: usize,
}

/// Lanes that differ only in the bits [first, end) of their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    pub(super) first: usize,
    pub(super) end: usize,
}

/// The destination's form along a reduced dimension that lanes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DestinationForm {
    /// One element, which replicas may repeat.
    One,
    /// An element for each lane.
    PerLane,
}

/// The mapping of a reduction, for each thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Loops over the outputs of a thread.
    pub(super) spatial: Vec<Loop>,
    /// Loops over the elements that a thread combines into one.
    pub(super) reduced: Vec<Loop>,
    /// The lanes that share an output.
    pub(super) lanes: Vec<Lanes>,
    pub(super) form: DestinationForm,
    pub(super) source_offset: usize,
    pub(super) destination_offset: usize,
}

impl Mapping {
    /// The mapping of a reduction.
    ///
    /// # Errors
    /// The obstacle, in words.
    pub(super) fn of(reduction: &TileReduction) -> Result<Self, String> {
        let (from, to) = (reduction.source(), reduction.destination());
        let (shape, form) = destination_dimensions(reduction)?;
        let from_dimensions = from.layout().dimensions(from.shape());
        let to_dimensions = to.layout().dimensions(&shape);
        let (mut spatial, mut reduced, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
        for (d, (f, t)) in from_dimensions.into_iter().zip(to_dimensions).enumerate() {
            let whole = |iters: Option<Vec<TileIter>>, name: &str| {
                iters.ok_or_else(|| format!("dimension {d} of {name} is not whole shards"))
            };
            let (f, t) = (whole(f, from.name())?, whole(t, to.name())?);
            if reduction.axes().contains(&d) {
                reduce(d, &f, &t, &mut reduced, &mut lanes)?;
            } else {
                for (f, t) in common(d, f, t)? {
                    match (f.axis, t.axis) {
                        (TileAxis::Memory, TileAxis::Memory) => {
                            spatial.push(Loop { extent: f.extent, source: f.stride, destination: t.stride });
                        }
                        (a, b) if a == b && f.stride == t.stride => {}
                        _ => {
                            return Err(format!("dimension {d} is elsewhere in {} than in {}", from.name(), to.name()));
                        }
                    }
                }
            }
        }
        let (source, destination) = (from.layout().origin(), to.layout().origin());
        if (source.lane, source.warp) != (destination.lane, destination.warp) {
            return Err(format!("{} starts at another lane or warp than {}", from.name(), to.name()));
        }
        let (source_offset, destination_offset) = (source.memory, destination.memory);
        let (spatial, reduced) = (merged(spatial), merged(reduced));
        Ok(Self { spatial, reduced, lanes, form, source_offset, destination_offset })
    }

    /// The number of outputs of a thread.
    pub(super) fn outputs(&self) -> usize {
        self.spatial.iter().map(|l| l.extent).product()
    }

    /// The number of elements that a thread combines into one.
    pub(super) fn elements(&self) -> usize {
        self.reduced.iter().map(|l| l.extent).product()
    }

    /// Checks that every place of the destination gets the right elements, once each, from registers that hold them.
    ///
    /// # Errors
    /// The first place for which this is not so, in words.
    pub(super) fn verify(&self, reduction: &TileReduction) -> Result<(), String> {
        let (from, to) = (reduction.source(), reduction.destination());
        let (sources, destinations) = (from.layout().elements(), to.layout().elements());
        let required = self.required(reduction)?;
        let partners = partners(&self.lanes);
        let reads: Vec<usize> = offsets(&self.reduced, |l| l.source);
        let outputs = offsets(&self.spatial, |l| l.source).into_iter().zip(offsets(&self.spatial, |l| l.destination));
        let outputs: HashMap<usize, usize> =
            outputs.map(|(s, d)| (self.destination_offset + d, self.source_offset + s)).collect();
        let combines = !self.lanes.is_empty() && (self.form == DestinationForm::One || reduction.reduces_threads());
        for (place, element) in &destinations {
            let at = |what: &str| {
                Err(format!(
                    "element {element} of {} (register {}, lane {}, warp {}) {what}",
                    to.name(),
                    place.memory,
                    place.lane,
                    place.warp
                ))
            };
            let Some(base) = outputs.get(&place.memory) else { return at("is in a register that no loop reaches") };
            let mut found = Vec::new();
            for partner in if combines { &partners[..] } else { &[0] } {
                for read in &reads {
                    let lane = place.lane ^ partner;
                    match sources.get(&Place { lane, memory: base + read, ..*place }) {
                        Some(element) => found.push(*element),
                        None => return at(&format!("would be made of what lane {lane} does not hold")),
                    }
                }
            }
            found.sort_unstable();
            if required.get(element) != Some(&found) {
                return at("needs elements of other threads than those that meet");
            }
        }
        Ok(())
    }

    /// For every element of the destination, the elements of the source that it combines, in ascending order.
    fn required(&self, reduction: &TileReduction) -> Result<BTreeMap<usize, Vec<usize>>, String> {
        let from = reduction.source();
        let (shape, _) = destination_dimensions(reduction)?;
        let dimensions: Vec<Vec<TileIter>> = from.layout().dimensions(from.shape()).into_iter().flatten().collect();
        let mut required: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for element in 0..from.layout().len() {
            // The element's coordinates in the destination; `None` means all of a dimension.
            let mut rest = element;
            let mut coordinates = vec![Some(0); shape.len()];
            for d in (0..shape.len()).rev() {
                let i = rest % from.shape()[d];
                rest /= from.shape()[d];
                coordinates[d] = match (reduction.axes().contains(&d), self.form) {
                    (false, _) => Some(i),
                    (true, DestinationForm::One) => Some(0),
                    (true, DestinationForm::PerLane) if reduction.reduces_threads() => None,
                    (true, DestinationForm::PerLane) => Some(thread_part(i, &dimensions[d])),
                };
            }
            let mut numbers = vec![0];
            for (d, coordinate) in coordinates.iter().enumerate() {
                let extent = shape[d];
                let digits = coordinate.map_or(0..extent, |i| i..i + 1);
                numbers = numbers.iter().flat_map(|n| digits.clone().map(move |i| n * extent + i)).collect();
            }
            for number in numbers {
                required.entry(number).or_default().push(element);
            }
        }
        Ok(required)
    }
}

/// The destination's shape with all dimensions of the source, and its form.
fn destination_dimensions(reduction: &TileReduction) -> Result<(Vec<usize>, DestinationForm), String> {
    let (from, to, axes) = (reduction.source(), reduction.destination(), reduction.axes());
    let reduced = |d: &usize| axes.contains(d);
    let kept: Vec<usize> = (0..from.shape().len()).filter(|d| !reduced(d)).map(|d| from.shape()[d]).collect();
    let ones: Vec<usize> = (0..from.shape().len()).map(|d| if reduced(&d) { 1 } else { from.shape()[d] }).collect();
    if to.shape() == ones || to.shape() == kept || (kept.is_empty() && to.shape() == [1]) {
        return Ok((ones, DestinationForm::One));
    }
    let threads: Vec<usize> = from
        .layout()
        .dimensions(from.shape())
        .iter()
        .enumerate()
        .map(|(d, iters)| match iters {
            _ if !reduced(&d) => from.shape()[d],
            Some(iters) => iters.iter().filter(|iter| iter.axis.is_thread()).map(|iter| iter.extent).product(),
            None => 1,
        })
        .collect();
    if from.scope() == MemoryScope::Local && to.shape() == threads {
        return Ok((threads, DestinationForm::PerLane));
    }
    let per_lane = if threads == ones { String::new() } else { format!(", or {threads:?}, one for each lane") };
    Err(format!("{} has shape {:?}; {ones:?} or {kept:?}{per_lane} is needed", to.name(), to.shape()))
}

/// Sorts the shards of a reduced dimension into loops and lanes.
fn reduce(
    d: usize,
    from: &[TileIter],
    to: &[TileIter],
    reduced: &mut Vec<Loop>,
    lanes: &mut Vec<Lanes>,
) -> Result<(), String> {
    for iter in from {
        match iter.axis {
            TileAxis::Memory => reduced.push(Loop { extent: iter.extent, source: iter.stride, destination: 0 }),
            TileAxis::Warp => return Err(format!("dimension {d} is reduced over warps, whose registers never meet")),
            TileAxis::Lane if iter.extent.is_power_of_two() && iter.stride.is_power_of_two() => {
                lanes.push(Lanes { first: iter.stride, end: iter.stride * iter.extent });
            }
            TileAxis::Lane => {
                let TileIter { extent, stride, .. } = iter;
                return Err(format!(
                    "dimension {d} runs along {extent} lanes, {stride} apart; a butterfly needs powers of two"
                ));
            }
        }
    }
    match to.iter().find(|iter| !iter.axis.is_thread()) {
        Some(_) => Err(format!("dimension {d} is reduced, and the destination has several registers for it")),
        None => Ok(()),
    }
}

/// Cuts both lists of shards at the same places, beginning with the fastest.
fn common(d: usize, mut from: Vec<TileIter>, mut to: Vec<TileIter>) -> Result<Vec<(TileIter, TileIter)>, String> {
    let mut pairs = Vec::new();
    while let (Some(f), Some(t)) = (from.pop(), to.pop()) {
        let extent = f.extent.min(t.extent);
        for (iter, rest) in [(f, &mut from), (t, &mut to)] {
            if !iter.extent.is_multiple_of(extent) {
                return Err(format!("dimension {d} is cut into {} here and {} there", f.extent, t.extent));
            }
            if iter.extent > extent {
                rest.push(TileIter { extent: iter.extent / extent, stride: iter.stride * extent, ..iter });
            }
        }
        pairs.push((TileIter { extent, ..f }, TileIter { extent, ..t }));
    }
    pairs.reverse();
    Ok(pairs)
}

/// Merges neighbouring loops that equal one loop.
fn merged(loops: Vec<Loop>) -> Vec<Loop> {
    let mut merged: Vec<Loop> = Vec::new();
    for inner in loops {
        let one = merged.last_mut().filter(|outer| {
            outer.source == inner.extent * inner.source && outer.destination == inner.extent * inner.destination
        });
        match one {
            Some(outer) => *outer = Loop { extent: outer.extent * inner.extent, ..inner },
            None => merged.push(inner),
        }
    }
    merged
}

/// The part of a dimension that an index has along threads, as a number.
fn thread_part(index: usize, iters: &[TileIter]) -> usize {
    let (mut rest, mut part, mut factor) = (index, 0, 1);
    for iter in iters.iter().rev() {
        if iter.axis.is_thread() {
            part += rest % iter.extent * factor;
            factor *= iter.extent;
        }
        rest /= iter.extent;
    }
    part
}

/// The distances of lanes that combine, one for each step of the butterfly.
fn partners(lanes: &[Lanes]) -> Vec<usize> {
    let mut partners = vec![0];
    for Lanes { first, end } in lanes {
        let mut bit = *first;
        while bit < *end {
            partners.extend(partners.clone().iter().map(|p| p ^ bit));
            bit *= 2;
        }
    }
    partners
}

fn offsets(loops: &[Loop], stride: impl Fn(&Loop) -> usize) -> Vec<usize> {
    loops.iter().fold(vec![0], |bases, l| {
        bases.iter().flat_map(|base| (0..l.extent).map(|i| base + i * stride(l)).collect::<Vec<_>>()).collect()
    })
}
