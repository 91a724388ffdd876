//! Rows of patches where they lie in the images. The channels of an element of the window (a *tap*) are neighbours, so a row is
//! as many runs of words as it has taps, each of which begins anywhere: the images are multiplied in place, and nothing is
//! copied. Taps outside of an image are zeros, which lie elsewhere.

use std::ops::Range;

use smallvec::SmallVec;

use super::element::View;
use super::kernel::words::{Rows, Words};
use super::place::Place;
use crate::gemm::problem::patches::Patches;

/// The least number of words of a tap. Shorter ones are copied together.
const LEAST: usize = 8;

/// The most words of a row: as many as a part of K has.
const MOST: usize = 512;

/// What is read outside of images.
static ZEROS: [u32; MOST] = [0; MOST];

/// The runs of some rows, along a part of K.
#[derive(Debug)]
pub(super) struct Taps {
    starts: Vec<*const u8>,
    lengths: SmallVec<[usize; 16]>,
}

impl Taps {
    /// `None` if they are not runs of whole words, or only short ones.
    pub(super) fn of<W: Words>(
        patches: &Patches,
        view: &View,
        rows: Range<usize>,
        depth: &Range<usize>,
    ) -> Option<Self> {
        let Patches { channels, window, steps, .. } = patches;
        let are_words = [*channels, depth.start, depth.end].iter().all(|end| end.is_multiple_of(W::ELEMENTS));
        if window.is_spread()
            || patches.channel != 1
            || !are_words
            || *channels < LEAST * W::ELEMENTS
            || depth.len() > MOST
        {
            return None;
        }
        let size = view.element.size().cast_signed();
        // Of every tap, where it is in the window, and how many bytes its first word is behind where the window begins.
        let mut places: SmallVec<[([usize; 3], isize); 16]> = SmallVec::new();
        let mut lengths = SmallVec::new();
        let mut first = depth.start;
        while first < depth.end {
            let (tap, channel) = (first / channels, first % channels);
            let end = depth.end.min((tap + 1) * channels);
            let (rest, last) = (tap / window.size[2], tap % window.size[2]);
            let place = [rest / window.size[1], rest % window.size[1], last];
            let along = |axis: usize| (place[axis] * window.dilation[axis]).cast_signed() * steps[axis];
            places.push((place, (along(0) + along(1) + along(2) + channel.cast_signed()) * size));
            lengths.push((end - first) / W::ELEMENTS);
            first = end;
        }
        let mut starts = Vec::with_capacity(rows.len() * places.len());
        if let Some(first) = rows.clone().next() {
            let zeros = ZEROS.as_ptr().cast::<u8>();
            let mut place = Place::of(patches, first);
            for _ in rows {
                let begin = view.pointer.cast_const().wrapping_offset(place.begin(patches) * size);
                let inside = [0, 1, 2].map(|axis| place.inside(patches, axis));
                if (0..3).all(|axis| inside[axis] == (0..window.size[axis])) {
                    starts.extend(places.iter().map(|(_, offset)| begin.wrapping_offset(*offset)));
                } else {
                    let start = |(place, offset): &([usize; 3], isize)| {
                        let is_inside = (0..3).all(|axis| inside[axis].contains(&place[axis]));
                        if is_inside { begin.wrapping_offset(*offset) } else { zeros }
                    };
                    starts.extend(places.iter().map(start));
                }
                place = place.next(patches);
            }
        }
        Some(Self { starts, lengths })
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows { starts: &self.starts, lengths: &self.lengths, word: 4, are_far: false }
    }
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::Device;
    use proptest::prelude::*;

    use super::super::kernel::words::F32;
    use super::super::patches::{gather, images};
    use super::*;
    use crate::gemm::problem::sliding::{Kind, Sliding};

    proptest! {
        /// Runs have the elements that are gathered otherwise.
        #[test]
        fn runs_have_the_elements_of_patches(
            inputs in prop::array::uniform3(1usize..6), size in prop::array::uniform3(1usize..4),
            stride in prop::array::uniform3(1usize..4), dilation in prop::array::uniform3(1usize..4),
            before in prop::array::uniform3(-1isize..4), after in prop::array::uniform3(-1isize..4),
            (count, channels) in (1usize..3, LEAST..2 * LEAST), part in any::<[prop::sample::Index; 4]>(),
        ) {
            let [d, h, w] = inputs;
            let values: Vec<f32> = (0..count * (d + 1) * (h + 1) * (w + 2) * (channels + 3)).map(|i| i as f32 + 1.0).collect();
            let x = Device::cpu().tensor(&values, [count, d + 1, h + 1, w + 2, channels + 3]).unwrap();
            let x = (1..5).zip([d, h, w, channels]).fold(x, |x, (axis, extent)| x.slice(axis, 1..1 + extent).unwrap());
            let window = Sliding {
                axes: 3, size, stride, before, after, dilation, input_dilation: [1; 3], groups: 1, kind: Kind::Rows,
            };
            // Others reach beyond the image.
            if let Ok(patches) = Patches::of(&x, window) {
                let (view, [m, k]) = (images(&x, &patches), patches.extents());
                let range = |[a, b]: [usize; 2], extent: usize| (a % extent).min(b % extent)..(a % extent).max(b % extent) + 1;
                let [rows, depth] = [(0, m), (2, k)].map(|(i, extent)| range([part[i].index(m * k), part[i + 1].index(m * k)], extent));
                let mut expected = vec![0.0f32; rows.len() * depth.len()];
                // SAFETY: nobody writes the images, which have these rows and elements.
                unsafe { gather(&patches, &view, rows.clone(), depth.clone(), &mut expected) };
                let taps = Taps::of::<F32>(&patches, &view, rows.clone(), &depth).unwrap();
                let Rows { starts, lengths, word, .. } = taps.rows();
                prop_assert_eq!((word, lengths.iter().sum::<usize>(), taps.rows().count()), (4, depth.len(), rows.len()));
                let runs = starts.iter().zip(lengths.iter().cycle());
                // SAFETY: as above; every run has as many elements.
                let found: Vec<f32> = runs
                    .flat_map(|(start, length)| (0..*length).map(|i| unsafe { start.cast::<f32>().add(i).read() }))
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
