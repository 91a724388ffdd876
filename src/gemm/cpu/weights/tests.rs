//! Products with codes, at every level of instructions, against sums in f64.

use epilogue_runtime::{Device, DeviceTensor, HostAccess};

use super::level::Level;
use super::pack::pack_weights;
use super::rows::{FloatRows, IntegerRows};
use super::view::{Activations, WeightView, pieces, runs};
use crate::ElementType;
use crate::gemm::cpu::tile::Tile;
use crate::gemm::problem::weight_panels::WeightPanels;
use crate::gemm::problem::{CodeType, Quantized, quantized};

/// Weights of random codes, with scales of powers of two, so that sums of small integers are exact.
struct Case {
    codes: DeviceTensor,
    scales: DeviceTensor,
    zero_points: Option<DeviceTensor>,
    ty: CodeType,
    group: usize,
    k: usize,
}

fn number(seed: usize) -> usize {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as usize
}

impl Case {
    fn new(ty: CodeType, [n, k, group]: [usize; 3], has_zero_points: bool) -> Self {
        let device = Device::cpu();
        let groups = k.div_ceil(group);
        let codes: Vec<u8> = (0..n * ty.elements(k)).map(|i| number(i) as u8).collect();
        let codes = device.tensor_from_bytes(ty.element(), &codes, [n, ty.elements(k)]).expect("memory");
        let scales: Vec<f32> = (0..n * groups).map(|i| [0.5, -1.0, 2.0, 0.25][number(i + 7) % 4]).collect();
        let zero_points: Vec<u8> = (0..n * groups).map(|i| (number(i + 3) as u8) & ty.most()).collect();
        Self {
            codes,
            scales: device.tensor(&scales, [n, groups]).expect("memory"),
            zero_points: has_zero_points.then(|| device.tensor(&zero_points, [n, groups]).expect("memory")),
            ty,
            group,
            k,
        }
    }

    fn weights(&self) -> Quantized<'_> {
        let weights = quantized(self.ty, &self.codes, &self.scales).depth(self.k).group(self.group);
        match &self.zero_points {
            Some(zero_points) => weights.zero_points(zero_points),
            None if self.ty.is_signed() => weights,
            None => weights.zero_point(self.ty.most() / 2 + 1),
        }
    }
}

fn all_cases(mut check: impl FnMut(&Case)) {
    for (ty, has_zero_points) in [
        (CodeType::Int4, false),
        (CodeType::Uint4, false),
        (CodeType::Uint4, true),
        (CodeType::Int8, false),
        (CodeType::Uint8, false),
        (CodeType::Uint8, true),
    ] {
        for shape in [[16, 64, 32], [37, 130, 64], [5, 33, 16], [20, 7, 32], [33, 200, 208], [1, 1, 16]] {
            check(&Case::new(ty, shape, has_zero_points));
        }
    }
}

fn tile(rows: usize, columns: std::ops::Range<usize>) -> Tile {
    Tile { batch: 0, rows: 0..rows, columns, is_top: true, is_alone: true, has_own_rows: true }
}

#[test]
fn panels_hold_the_same_numbers() {
    all_cases(|case| {
        let panels = pack_weights(&case.weights()).expect("it packs");
        let (of_rows, of_panels) = (case.weights().values().expect("numbers"), panels.values().expect("numbers"));
        let n = panels.extents.n;
        for (k, column) in (0..case.k).flat_map(|k| (0..n).map(move |column| (k, column))) {
            assert_eq!(of_rows.step(0, k, column), of_panels.step(0, k, column), "{k}, {column}");
            assert_eq!(of_rows.weight(0, k, column), of_panels.weight(0, k, column));
        }
    });
}

/// Runs `multiply` on some tiles at every level, with rows of A of small integers.
fn each_tile(
    activations: Activations,
    mut multiply: impl FnMut(&WeightView, Level, &Tile, &FloatRows, &WeightPanels, &[f32]),
) {
    all_cases(|case| {
        let panels = pack_weights(&case.weights()).expect("it packs");
        let tensors: Vec<&DeviceTensor> = std::iter::once(&panels.codes).chain(panels.tensors()).collect();
        let _access = HostAccess::lock(&tensors, &[]).expect("they are on the CPU");
        let (view, n) = (WeightView::of(&panels, activations), panels.extents.n);
        for rows in [1, 3, 8, 13] {
            let a: Vec<f32> = (0..rows * case.k).map(|i| (number(i + rows) % 17) as f32 - 8.0).collect();
            let mut of_a = FloatRows::default();
            // SAFETY: these are all rows.
            unsafe {
                of_a.load((a.as_ptr().cast(), ElementType::F32), [4 * case.k.cast_signed(), 1], [rows, case.k]);
            }
            for columns in [0..n, n / 3..n - n / 4] {
                for level in Level::all() {
                    multiply(&view, level, &tile(rows, columns.clone()), &of_a, &panels, &a);
                }
            }
        }
    });
}

#[test]
fn few_rows_are_exact_sums_at_every_level() {
    each_tile(Activations::Exact, |view, level, tile, of_a, panels, a| {
        let mut to = vec![f32::NAN; tile.rows.len() * tile.columns.len()];
        // SAFETY: the CPU has the level; the tensors are locked.
        unsafe { view.multiply(level, tile, of_a, &mut to) };
        let (values, k) = (panels.values().expect("numbers"), panels.extents.k);
        for (at, to) in to.iter().enumerate() {
            let (row, column) = (at / tile.columns.len(), tile.columns.start + at % tile.columns.len());
            let sum: f64 = (0..k).map(|i| f64::from(a[row * k + i]) * values.weight(0, i, column)).sum();
            assert_eq!(f64::from(*to), sum, "{level:?} {tile:?} {panels:?}");
        }
    });
}

#[test]
fn integers_are_exact_sums_at_every_level() {
    each_tile(Activations::Int8, |view, level, tile, of_a, panels, _| {
        let (mut rows, count) = (IntegerRows::default(), tile.rows.len());
        rows.quantise(of_a, count, view.step());
        // Scales of powers of two, so that all is exact.
        rows.scales.iter_mut().enumerate().for_each(|(i, scale)| *scale = [1.0, 0.5, 4.0][i % 3]);
        // The largest codes: sums are the largest, too.
        rows.codes.iter_mut().enumerate().for_each(|(i, code)| {
            if number(i).is_multiple_of(3) && *code != 0 {
                *code = 127 * code.signum();
            }
        });
        let [codes, blocks, steps] = rows.strides;
        for (i, sum) in rows.sums.iter_mut().enumerate() {
            let first = i / steps * codes + i % steps * view.step();
            *sum = rows.codes[first..first + view.step()].iter().map(|code| f32::from(*code)).sum();
        }
        let mut to = vec![f32::NAN; count * tile.columns.len()];
        // SAFETY: the CPU has the level; the tensors are locked.
        unsafe { view.multiply(level, tile, &rows, &mut to) };
        let (values, k) = (panels.values().expect("numbers"), panels.extents.k);
        for (at, to) in to.iter().enumerate() {
            let (row, column) = (at / tile.columns.len(), tile.columns.start + at % tile.columns.len());
            let product = |i: usize| {
                let of_a = f64::from(rows.codes[row * codes + i]) * f64::from(rows.scales[row * blocks + i / 32]);
                of_a * values.weight(0, i, column)
            };
            let sum: f64 = (0..k).map(product).sum();
            assert_eq!(f64::from(*to), sum, "{level:?} {tile:?} {panels:?}");
        }
    });
}

#[test]
fn tiles_are_cut_by_panels() {
    assert_eq!(pieces(&(0..32)).collect::<Vec<_>>(), [(0, 0..16, 0), (1, 0..16, 16)]);
    assert_eq!(pieces(&(5..18)).collect::<Vec<_>>(), [(0, 5..16, 0), (1, 0..2, 11)]);
    assert_eq!(pieces(&(20..23)).collect::<Vec<_>>(), [(1, 4..7, 0)]);
    assert_eq!(pieces(&(3..3)).count(), 1, "a panel of no columns");
    assert_eq!(runs(13, 8).collect::<Vec<_>>(), [0..8, 8..12, 12..13]);
    assert_eq!(runs(7, 4).collect::<Vec<_>>(), [0..4, 4..6, 6..7]);
}

#[test]
fn blocks_are_quantised_as_documented() {
    let mut block = [0f32; 128];
    block[..4].copy_from_slice(&[-127.0, 63.5, 0.5, 1.5]); // halves: to even
    block[32..64].fill(1e-37); // below 2^-119
    block[64] = f32::INFINITY;
    block[96] = f32::NAN;
    let mut of_a = FloatRows::default();
    // SAFETY: this is the row.
    unsafe { of_a.load((block.as_ptr().cast(), ElementType::F32), [512, 1], [1, 128]) };
    let mut rows = IntegerRows::default();
    rows.quantise(&of_a, 1, 32);
    assert_eq!(rows.codes[..4], [-127, 64, 0, 2]);
    assert_eq!(rows.scales[..2], [1.0, 0.0]);
    assert!(rows.codes[32..64].iter().all(|code| *code == 0) && rows.scales[2..].iter().all(|scale| scale.is_nan()));
    assert_eq!(rows.sums[..2], [-61.0, 0.0]);
}
