//! Patches that are multiplied in place. The channels of a filter position (a *tap*) are neighbours. A row therefore
//! has one run of words for each tap, and nothing is copied.
//!
//! Taps outside of an image, or between its elements, are zeros. If weights are finite, products with zeros change no
//! sum, so they are left out: rows whose windows have the same taps inside form a class and are multiplied together. A
//! class often leaves a few rows, too few to fill registers. They are multiplied together with rows of the next class,
//! and a tap is added to the sums of the rows that have it.

use std::cmp::Reverse;
use std::ops::Range;

use smallvec::SmallVec;

use super::element::View;
use super::kernel::words::{Of, ROWS, WordRows, WordRun, Words};
use super::place::{PatchPlace, Reach};
use crate::gemm::problem::patches::Patches;

/// The least number of words of a tap. Shorter ones are copied together.
const LEAST: usize = 8;

/// The least number of rows that take more time than reading B's words.
const ENOUGH: usize = 4;

/// Rows, by the taps that they have.
#[derive(Debug)]
pub(super) struct Taps {
    channels: usize,
    sets: SmallVec<[Set; 16]>,
    taps: Vec<Tap>,
    /// For the rows of all sets: the address at which the row's window begins, and the row's index.
    starts: Vec<*const u8>,
    places: Vec<usize>,
}

/// Rows that are multiplied together: where they end among all, and where their taps end.
#[derive(Clone, Copy, Debug)]
struct Set {
    rows: usize,
    taps: usize,
}

/// A filter position: its index, its distance in bytes from the window's start, and the rows of the set that have it.
#[derive(Clone, Copy, Debug)]
struct Tap {
    number: usize,
    offset: isize,
    of: Of,
}

/// The window's elements inside the image, along each axis.
type Class = [Reach; 3];

/// A row, and where its window begins.
type Row = (usize, *const u8);

/// The runs of the sets along a part of K, and where each set's runs end.
pub(super) struct Runs {
    runs: SmallVec<[WordRun; 64]>,
    ends: SmallVec<[usize; 16]>,
}

impl Taps {
    /// `None` if taps are not runs of whole words, or only short ones.
    pub(super) fn of<W: Words>(patches: &Patches, view: &View, rows: Range<usize>) -> Option<Self> {
        let channels = patches.channels;
        if patches.channel != 1 || !channels.is_multiple_of(W::ELEMENTS) || channels < LEAST * W::ELEMENTS {
            return None;
        }
        let (classes, all) = sorted(patches, view, &rows);
        let (starts, places) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        let mut this = Self { channels, sets: SmallVec::new(), taps: Vec::new(), starts, places };
        let mut add = |classes: &[Class], rows: &[Row]| this.add(patches, view.element.size(), classes, rows);
        if let [(class, _)] = classes[..] {
            add(&[class], &all);
            return Some(this);
        }
        let ranges = || {
            let first = std::iter::once(0).chain(classes.iter().map(|(_, end)| *end));
            classes.iter().zip(first).map(|((class, end), first)| (*class, &all[first..*end]))
        };
        let left: usize = ranges().map(|(_, rows)| rows.len() % ROWS).sum();
        // Very few are joined by others.
        let mut more = if (1..ENOUGH).contains(&left) { ROWS } else { 0 };
        let mut rest: Vec<(Class, Row)> = Vec::new();
        for (class, rows) in ranges() {
            let whole = rows.len() / ROWS * ROWS;
            let (rows, left) = rows.split_at(whole - if whole > 0 { std::mem::take(&mut more) } else { 0 });
            if !rows.is_empty() {
                add(&[class], rows);
            }
            rest.extend(left.iter().map(|row| (class, *row)));
        }
        let mut rest = &rest[..];
        while !rest.is_empty() {
            let most = rest.len().div_ceil(rest.len().div_ceil(ROWS));
            let taken = (1..=most).rev().find(|count| {
                let (classes, rows): (SmallVec<[Class; ROWS]>, SmallVec<[Row; ROWS]>) =
                    rest[..*count].iter().copied().unzip();
                add(&classes, &rows)
            });
            rest = &rest[taken.unwrap_or(1)..];
        }
        Some(this)
    }

    /// Adds rows, all of one class or each of its own. The rows with a tap must be the first or the last ones, as a
    /// single row always is; `false` otherwise.
    fn add(&mut self, patches: &Patches, size: usize, classes: &[Class], rows: &[Row]) -> bool {
        let Patches { window, steps, .. } = patches;
        let before = self.taps.len();
        for number in 0..window.size.iter().product() {
            let (others, last) = (number / window.size[2], number % window.size[2]);
            let place = [others / window.size[1], others % window.size[1], last];
            let offset = |class: &Class| {
                let along = |axis: usize| Some(class[axis].tap(window, axis, place[axis])? * steps[axis]);
                Some(along(0)? + along(1)? + along(2)?)
            };
            let offsets: SmallVec<[Option<isize>; ROWS]> = classes.iter().map(offset).collect();
            let have = |from: usize| offsets[from..].iter().take_while(|offset| offset.is_some()).count();
            let Some(first) = offsets.iter().position(Option::is_some) else { continue };
            let (count, all) = (have(first), offsets.iter().flatten().count());
            let of = match (first, first + count == classes.len()) {
                (0, true) => Of::All,
                (0, false) if count == all => Of::First(count),
                (_, true) => Of::From(first),
                _ => {
                    self.taps.truncate(before);
                    return false;
                }
            };
            let offset = offsets[first].unwrap_or(0) * size.cast_signed();
            self.taps.push(Tap { number, offset, of });
        }
        self.starts.extend(rows.iter().map(|(_, start)| *start));
        self.places.extend(rows.iter().map(|(row, _)| *row));
        self.sets.push(Set { rows: self.starts.len(), taps: self.taps.len() });
        true
    }

    /// The runs along a part of K of elements of this size, which begins and ends with words.
    pub(super) fn runs<W: Words>(&self, depth: &Range<usize>) -> Runs {
        let (channels, size) = (self.channels, (4 / W::ELEMENTS).cast_signed());
        let mut all = Runs { runs: SmallVec::new(), ends: SmallVec::new() };
        let mut taps = 0;
        for set in &self.sets {
            let begin = all.runs.len();
            for Tap { number, offset, of } in &self.taps[taps..set.taps] {
                let own = number * channels;
                let (first, end) = (depth.start.max(own), depth.end.min(own + channels));
                if first < end {
                    let (offset, length) = (offset + (first - own).cast_signed() * size, (end - first) / W::ELEMENTS);
                    let run = WordRun { offset, first: (first - depth.start) / W::ELEMENTS, length, of: *of };
                    match all.runs[begin..].last_mut() {
                        Some(last) if last.is_before(&run) => last.length += run.length,
                        _ => all.runs.push(run),
                    }
                }
            }
            all.ends.push(all.runs.len());
            taps = set.taps;
        }
        all
    }

    /// The rows of every set, with these runs.
    pub(super) fn rows<'a>(&'a self, runs: &'a Runs) -> SmallVec<[WordRows<'a>; 16]> {
        let (mut row, mut run) = (0, 0);
        let of_set = |(set, &end_of_runs): (&Set, &usize)| {
            let (rows, runs) = (row..set.rows, &runs.runs[run..end_of_runs]);
            (row, run) = (set.rows, end_of_runs);
            WordRows {
                starts: &self.starts[rows.clone()],
                runs,
                word: 4,
                places: Some(&self.places[rows]),
                are_far: false,
            }
        };
        self.sets.iter().zip(&runs.ends).map(of_set).collect()
    }
}

/// Rows sorted by class, and where each class ends. Classes that begin before the image come first, then those inside,
/// then those that end after it. Taps that neighbouring classes share are then in one piece.
fn sorted(patches: &Patches, view: &View, rows: &Range<usize>) -> (SmallVec<[(Class, usize); 9]>, Vec<Row>) {
    let size = view.element.size().cast_signed();
    let mut stretches: SmallVec<[(Class, Range<usize>, *const u8); 32]> = SmallVec::new();
    let mut first = 0;
    while first < rows.len() {
        let place = PatchPlace::of(patches, rows.start + first);
        let class = [0, 1, 2].map(|axis| place.reach(patches, axis));
        let end = rows.len().min(first + place.alike(patches));
        stretches.push((class, first..end, view.pointer.cast_const().wrapping_offset(place.begin(patches) * size)));
        first = end;
    }
    stretches.sort_by_key(|(class, ..)| class.map(|reach| (reach.after, Reverse(reach.start), Reverse(reach.end))));
    let step = patches.window.stride[2].cast_signed() * patches.steps[2] * size;
    let (mut classes, mut all): (SmallVec<[(Class, usize); 9]>, _) = (SmallVec::new(), Vec::with_capacity(rows.len()));
    for (class, rows, start) in stretches {
        all.extend(rows.zip(0isize..).map(|(row, i)| (row, start.wrapping_offset(i * step))));
        match classes.last_mut() {
            Some((last, end)) if *last == class => *end = all.len(),
            _ => classes.push((class, all.len())),
        }
    }
    (classes, all)
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::{Device, DeviceTensor};
    use proptest::prelude::*;

    #[cfg(target_arch = "x86_64")]
    use super::super::kernel::words::F32;
    #[cfg(target_arch = "aarch64")]
    use super::super::kernel::words::F32ByNeon as F32;
    use super::super::patches::{gather, images};
    use super::*;
    use crate::gemm::problem::sliding::{PatchMatrix, Sliding};

    /// Checks the runs of some rows along a part of K, and the taps that they leave out.
    fn check(x: &DeviceTensor, patches: &Patches, part: [prop::sample::Index; 4]) {
        let (view, [m, k]) = (images(x, patches), patches.extents());
        let range = |[a, b]: [usize; 2], extent: usize| (a % extent).min(b % extent)..(a % extent).max(b % extent) + 1;
        let [rows, depth] =
            [(0, m), (2, k)].map(|(i, extent)| range([part[i].index(m * k), part[i + 1].index(m * k)], extent));
        let mut expected = vec![0.0f32; rows.len() * depth.len()];
        // SAFETY: nobody writes the images, which have these rows and elements.
        unsafe { gather(patches, &view, rows.clone(), depth.clone(), &mut expected) };
        let taps = Taps::of::<F32>(patches, &view, rows.clone()).unwrap();
        let runs = taps.runs::<F32>(&depth);
        let mut found = vec![0.0f32; expected.len()];
        let (mut seen, mut in_runs) = (vec![0; rows.len()], 0);
        for WordRows { starts, runs, word, places, .. } in taps.rows(&runs) {
            assert_eq!(word, 4);
            for (number, (start, &place)) in starts.iter().zip(places.unwrap()).enumerate() {
                seen[place] += 1;
                for &WordRun { offset, first, length, .. } in runs.iter().filter(|run| run.of.has(number)) {
                    in_runs += length;
                    for i in 0..length {
                        // SAFETY: as above; every run has as many elements.
                        found[place * depth.len() + first + i] =
                            unsafe { start.wrapping_offset(offset).cast::<f32>().add(i).read() };
                    }
                }
            }
        }
        assert_eq!(seen, vec![1; rows.len()]);
        assert_eq!(found, expected);
        // All elements of images are greater than 0.
        assert_eq!(in_runs, expected.iter().filter(|x| **x != 0.0).count());
    }

    proptest! {
        /// Runs have the elements that are gathered otherwise, and all that they leave out are zeros; also of the gradient.
        #[test]
        fn runs_have_the_elements_of_patches(
            inputs in prop::array::uniform3(1usize..6), size in prop::array::uniform3(1usize..4),
            stride in prop::array::uniform3(1usize..4), dilation in prop::array::uniform3(1usize..4),
            before in prop::array::uniform3(-1isize..4), after in prop::array::uniform3(-1isize..4),
            (count, channels) in (1usize..3, LEAST..2 * LEAST), part in any::<[prop::sample::Index; 4]>(),
        ) {
            let images = |[d, h, w]: [usize; 3]| {
                let shape = [count, d + 1, h + 1, w + 2, channels + 3];
                let values: Vec<f32> = (0..shape.iter().product()).map(|i| i as f32 + 1.0).collect();
                let x = Device::cpu().tensor(&values, shape).unwrap();
                (1..5).zip([d, h, w, channels]).fold(x, |x, (axis, extent)| x.slice(axis, 1..1 + extent).unwrap())
            };
            let window = Sliding {
                axes: 3, size, stride, before, after, dilation, input_dilation: [1; 3], groups: 1, kind: PatchMatrix::Rows,
            };
            let x = images(inputs);
            // Others reach beyond the image.
            if let Ok(patches) = Patches::of(&x, window) {
                check(&x, &patches, part);
                let dy = images(patches.outputs);
                let window = Sliding { kind: PatchMatrix::Gradient(inputs), ..window };
                check(&dy, &Patches::of(&dy, window).unwrap(), part);
            }
        }
    }
}
