use half::{bf16, f16};
use proptest::prelude::*;

use super::super::Matrix;
use super::widened::{AlongK, AlongN, widened_by};
use super::*;

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    AlongK,
    Across,
    /// With gaps on both sides.
    Neither,
}

/// A matrix of elements of this many bytes each, and their values.
struct Operand {
    memory: Vec<u8>,
    values: Vec<i64>,
    deep: usize,
    source: [isize; 2],
}

impl Operand {
    /// An operand with values from `least` on; `write` makes an element of a value.
    fn new(
        [deep, wide]: [usize; 2],
        order: Order,
        seed: usize,
        bytes: usize,
        range: std::ops::Range<i64>,
        write: impl Fn(i64) -> Vec<u8>,
    ) -> Self {
        let [along, across] = match order {
            Order::AlongK => [1, deep + seed % 3],
            Order::Across => [wide + seed % 5, 1],
            Order::Neither => [3, 3 * deep + 2],
        };
        let mut memory = vec![0xa5; bytes * (deep * along + wide * across + 1)];
        let mut values = Vec::new();
        for j in 0..wide {
            for k in 0..deep {
                let value = range.start + ((k * 37 + j * 11 + seed * 5) as i64) % (range.end - range.start);
                memory[bytes * (k * along + j * across)..][..bytes].copy_from_slice(&write(value));
                values.push(value);
            }
        }
        Self { memory, values, deep, source: [along, across].map(|stride| (stride * bytes) as isize) }
    }

    fn source(&self) -> PackedFrom {
        let [along, across] = self.source;
        PackedFrom { pointer: self.memory.as_ptr(), along, across }
    }

    fn at(&self, k: usize, j: usize) -> i64 {
        self.values[j * self.deep + k]
    }
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::AlongK), Just(Order::Across), Just(Order::Neither)]
}

/// The product by panels, in two parts of K, and by dot products where both operands are contiguous along it.
fn check<W: Avx512>(a: &Operand, b: &Operand, extents: [usize; 2], flipped: bool, off: i64)
where
    W::Sum: From<i8>,
{
    check_one_way::<W>(a, b, extents, flipped, off);
    if W::tiles().is_some() {
        level::within(CpuLevel::Avx512Bf16, || check_one_way::<W>(a, b, extents, flipped, off));
    }
    let element = (4 / W::ELEMENTS) as isize;
    if a.source().along == element && b.source().along == element {
        check_dots::<W>(a, b, extents, flipped, off);
    }
}

fn check_one_way<W: Words>(a: &Operand, b: &Operand, [rows, columns]: [usize; 2], flipped: bool, off: i64)
where
    W::Sum: From<i8>,
{
    let depth = a.deep;
    let stride = columns + 2;
    let words = depth.div_ceil(W::ELEMENTS);
    let mut to = vec![W::Sum::from(1); rows * stride];
    let (mut of_a, mut of_b) = (vec![-1; panel_words(rows, words)], vec![-1; panel_words(columns, words)]);
    // SAFETY: the operands have these extents, and the caller has asked the CPU.
    unsafe {
        pack::<W>(a.source(), depth, rows, false, &mut of_a);
        pack::<W>(b.source(), depth, columns, flipped, &mut of_b);
        for first in (0..rows).step_by(panel_columns::<W>()) {
            let high = panel_columns::<W>().min(rows - first);
            let word = panel_words(high, 1) * 4;
            let panel = &of_a[panel_words(first, words)..];
            let at = |row: usize, place: usize| panel.as_ptr().wrapping_add(place * word / 4 + row).cast();
            // Two runs in one call and a third one in another make up the whole.
            let [one, two] = [words / 4, words / 2];
            let panels = Panels { words: &of_b, deep: words };
            let starts: Vec<*const u8> = (0..high).map(|row| at(row, 0)).collect();
            let run = |first: usize, end: usize| WordRun {
                offset: (first * word) as isize,
                first,
                ..WordRun::of(end - first)
            };
            let runs = [run(0, one), run(one, two), run(two, words)];
            let before = WordRows::all(&starts, &runs[..2], word as isize);
            block::<W>(columns, &[before], panels, (&mut to[first * stride..], stride, true));
            // The rest of the rows in turn: those with even numbers, then the others.
            let (places, starts): (Vec<usize>, Vec<*const u8>) =
                (0..high).step_by(2).chain((1..high).step_by(2)).map(|row| (row, at(row, 0))).unzip();
            let half = high.div_ceil(2);
            let part = |rows: std::ops::Range<usize>| WordRows {
                starts: &starts[rows.clone()],
                places: Some(&places[rows]),
                ..WordRows::all(&starts, &runs[2..], word as isize)
            };
            let after = [part(0..half), part(half..high)];
            block::<W>(columns, &after, panels, (&mut to[first * stride..], stride, true));
            let mut alone = vec![W::Sum::from(1); to.len()];
            block::<W>(columns, &after, panels, (&mut alone, stride, false));
            block::<W>(columns, &after, panels, (&mut alone, stride, false));
            let sum = |i: usize, j: usize, depth: std::ops::Range<usize>| -> i64 {
                depth.map(|k| a.at(k, first + i) * (b.at(k, j) + off)).sum()
            };
            let split = (two * W::ELEMENTS).min(a.deep);
            let check = |to: &[W::Sum], rows: usize, depth: &dyn Fn(usize) -> std::ops::Range<usize>| {
                for (at, &x) in to.iter().enumerate() {
                    let (i, j) = (at / stride, at % stride);
                    let wanted = if i < rows && j < columns { sum(i, j, depth(i)) } else { 1 };
                    assert_eq!(Wide::of(x), wanted.into(), "stored: row {i}, column {j}");
                }
            };
            check(&alone, high, &|_| split..a.deep);
            // Some rows have the words before, the others those after.
            if high >= ROWS {
                let count = 1 + columns % (ROWS - 1);
                let starts: Vec<*const u8> = (0..ROWS).map(|row| at(row, 0)).collect();
                let runs = [
                    WordRun { of: Of::First(count), ..run(0, two) },
                    WordRun { of: Of::From(count), ..run(two, words) },
                ];
                let mut alone = vec![W::Sum::from(1); to.len()];
                block::<W>(
                    columns,
                    &[WordRows::all(&starts, &runs, word as isize)],
                    panels,
                    (&mut alone, stride, false),
                );
                check(&alone, ROWS, &|row| if row < count { 0..split } else { split..a.deep });
            }
        }
        compare(&to, (a, b), columns, off, "panels");
    }
}

fn check_dots<W: Avx512>(a: &Operand, b: &Operand, [rows, columns]: [usize; 2], flipped: bool, off: i64)
where
    W::Sum: From<i8>,
{
    let stride = columns + 2;
    let mut to = vec![W::Sum::from(1); rows * stride];
    // SAFETY: the operands have these extents, and the caller has asked the CPU.
    unsafe { dots::<W>([rows, columns, a.deep], (a.source(), b.source()), flipped, &mut to, stride) };
    compare(&to, (a, b), columns, off, "dot products");
}

/// Whether `to`, which was 1, has the products of all rows and `columns` columns, in rows that are two longer.
fn compare<S: bytemuck::Pod>(to: &[S], (a, b): (&Operand, &Operand), columns: usize, off: i64, what: &str) {
    let stride = columns + 2;
    for (at, &x) in to.iter().enumerate() {
        let (i, j) = (at / stride, at % stride);
        let of_row = || (0..a.deep).map(|k| a.at(k, i) * (b.at(k, j) + off)).sum::<i64>();
        let wanted = if j < columns { 1 + of_row() } else { 1 };
        assert_eq!(Wide::of(x), wanted.into(), "{what}: row {i}, column {j}");
    }
}

/// A sum of either type.
#[derive(Debug, PartialEq)]
struct Wide(f64);

impl Wide {
    fn of<T: bytemuck::Pod>(x: T) -> Self {
        let words: i32 = bytemuck::cast(x);
        if std::any::TypeId::of::<T>() == std::any::TypeId::of::<f32>() {
            Self(f64::from(f32::from_bits(words as u32)))
        } else {
            Self(f64::from(words))
        }
    }
}

impl From<i64> for Wide {
    fn from(x: i64) -> Self {
        Self(x as f64)
    }
}

/// A B of the same small integers as f32s, as f16s times the least subnormal number, and as bf16s.
fn widened(order: Order, extents: [usize; 2], seed: usize) -> [Operand; 3] {
    let of =
        |bytes, write: &dyn Fn(f32) -> Vec<u8>| Operand::new(extents, order, seed, bytes, -9..10, |x| write(x as f32));
    [
        of(4, &|x| x.to_le_bytes().to_vec()),
        of(2, &|x| f16::from_f64(f64::from(x) * f64::from(f16::from_bits(1))).to_le_bytes().to_vec()),
        of(2, &|x| bf16::from_f32(x).to_le_bytes().to_vec()),
    ]
}

/// The instruction sets by which this CPU widens in registers: with AVX-512, and without.
fn instruction_sets() -> impl Iterator<Item = bool> {
    [(true, multiplies_f32()), (false, has_avx2())].into_iter().filter(|(_, has)| *has).map(|(set, _)| set)
}

fn dot(row: &[f32], b: &Operand, column: usize) -> f64 {
    row.iter().take(b.deep).enumerate().map(|(k, x)| f64::from(*x) * b.at(k, column) as f64).sum()
}

proptest! {
    /// Sums of products of small integers are exact.
    #[test]
    fn bf16s_are_multiplied(
        rows in 1usize..70, columns in 1usize..150, depth in 0usize..80,
        of_a in order(), of_b in order(), seed in 0usize..100,
    ) {
        if multiplies_bf16() {
            let write = |x: i64| bf16::from_f32(x as f32).to_le_bytes().to_vec();
            let a = Operand::new([depth, rows], of_a, seed, 2, -9..10, write);
            let b = Operand::new([depth, columns], of_b, seed + 1, 2, -7..8, write);
            check::<Bf16>(&a, &b, [rows, columns], false, 0);
            if rows <= few_rows() && of_a == Order::AlongK && of_b == Order::Across {
                let mut to = vec![0.0; rows * columns];
                // SAFETY: the operands have these extents, and the CPU has been asked.
                unsafe { few([rows, columns, depth], (a.source(), b.source()), &mut to, columns) };
                for (at, x) in to.into_iter().enumerate() {
                    let wanted: i64 = (0..depth).map(|k| a.at(k, at / columns) * b.at(k, at % columns)).sum();
                    prop_assert_eq!(f64::from(x), wanted as f64, "few rows");
                }
            }
        }
    }

    #[test]
    fn rows_of_b_are_widened_in_registers(
        rows in 0usize..=50, columns in 16usize..90, depth in 0usize..150, seed in 0usize..100,
    ) {
        let a: Vec<f32> = (0..rows * depth).map(|at| (at * 7 + seed) as f32 % 19.0 - 9.0).collect();
        let of_a = Matrix { pointer: a.as_ptr(), row: depth as isize, column: 1 };
        let [f32s, f16s, bf16s] = widened(Order::Across, [depth, columns], seed);
        for avx512 in instruction_sets() {
            let mut results: [Vec<f32>; 3] = std::array::from_fn(|_| vec![f32::NAN; rows * columns]);
            let extents = [rows, columns, depth];
            // SAFETY: the operands have these extents, and the CPU has been asked.
            unsafe {
                widened_by::<f32, AlongN>(avx512, extents, (of_a, f32s.source()), &mut results[0], [columns, 1]);
                widened_by::<f16, AlongN>(avx512, extents, (of_a, f16s.source()), &mut results[1], [columns, 1]);
                widened_by::<bf16, AlongN>(avx512, extents, (of_a, bf16s.source()), &mut results[2], [columns, 1]);
            }
            for at in 0..rows * columns {
                let wanted = dot(&a[at / columns * depth..], &f32s, at % columns);
                let given = results.each_ref().map(|result| f64::from(result[at]));
                prop_assert_eq!(given, [wanted, wanted * f64::from(f16::from_bits(1)), wanted]);
            }
        }
    }

    #[test]
    fn halves_are_widened_in_registers(
        rows in 0usize..=18, columns in 1usize..20, depth in 0usize..80, seed in 0usize..100,
    ) {
        let a: Vec<f32> = (0..rows * depth).map(|at| (at * 7 + seed) as f32 % 19.0 - 9.0).collect();
        let [f32s, f16s, bf16s] = widened(Order::AlongK, [depth, columns], seed);
        for avx512 in instruction_sets() {
            let rows = if avx512 { rows } else { rows.min(4) };
            let of_a = Matrix { pointer: a.as_ptr(), row: depth as isize, column: 1 };
            let mut results: [Vec<f32>; 2] = std::array::from_fn(|_| vec![f32::NAN; rows * columns]);
            // SAFETY: the operands have these extents, and the CPU has been asked.
            unsafe {
                let extents = [rows, columns, depth];
                widened_by::<f16, AlongK>(avx512, extents, (of_a, f16s.source()), &mut results[0], [columns, 1]);
                widened_by::<bf16, AlongK>(avx512, extents, (of_a, bf16s.source()), &mut results[1], [1, rows]);
            }
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                let wanted = dot(&a[i * depth..], &f32s, j);
                let given = [results[0][i * columns + j], results[1][j * rows + i]].map(f64::from);
                prop_assert_eq!(given, [wanted * f64::from(f16::from_bits(1)), wanted]);
            }
        }
    }

    #[test]
    fn f32s_are_multiplied(
        rows in 1usize..70, columns in 1usize..150, depth in 0usize..80,
        of_a in order(), of_b in order(), seed in 0usize..100,
    ) {
        let write = |x: i64| (x as f32).to_le_bytes().to_vec();
        let a = Operand::new([depth, rows], of_a, seed, 4, -900..1000, write);
        let b = Operand::new([depth, columns], of_b, seed + 1, 4, -70..80, write);
        if multiplies_f32() {
            check::<F32>(&a, &b, [rows, columns], false, 0);
        }
        if has_avx2() {
            check_one_way::<F32ByAvx2>(&a, &b, [rows, columns], false, 0);
        }
    }

    #[test]
    fn integers_are_multiplied(
        rows in 1usize..70, columns in 1usize..150, depth in 0usize..80,
        of_a in order(), of_b in order(), seed in 0usize..100, (a_signed, b_signed) in any::<(bool, bool)>(),
    ) {
        if multiplies_integers() {
            let write = |x: i64| vec![x as u8];
            let range = |signed: bool| if signed { -128..128 } else { 0..256 };
            let a = Operand::new([depth, rows], of_a, seed, 1, range(a_signed), write);
            let b = Operand::new([depth, columns], of_b, seed + 1, 1, range(b_signed), write);
            match (a_signed, b_signed) {
                (true, true) => check::<SignedByUnsigned>(&a, &b, [rows, columns], true, 128),
                (true, false) => check::<SignedByUnsigned>(&a, &b, [rows, columns], false, 0),
                (false, true) => check::<UnsignedBySigned>(&a, &b, [rows, columns], false, 0),
                (false, false) => check::<UnsignedBySigned>(&a, &b, [rows, columns], true, -128),
            }
        }
    }

    /// More words than tiles are copied of at a time.
    #[test]
    fn long_rows_are_multiplied(
        rows in 1usize..40, columns in 1usize..40, depth in 500usize..3000, of_a in order(), seed in 0usize..100,
    ) {
        if multiplies_bf16() {
            let write = |x: i64| bf16::from_f32(x as f32).to_le_bytes().to_vec();
            let a = Operand::new([depth, rows], of_a, seed, 2, -9..10, write);
            let b = Operand::new([depth, columns], Order::AlongK, seed + 1, 2, -7..8, write);
            check::<Bf16>(&a, &b, [rows, columns], false, 0);
        }
        if multiplies_integers() {
            let a = Operand::new([depth, rows], of_a, seed, 1, -128..128, |x| vec![x as u8]);
            let b = Operand::new([depth, columns], Order::AlongK, seed + 1, 1, 0..256, |x| vec![x as u8]);
            check::<SignedByUnsigned>(&a, &b, [rows, columns], false, 0);
        }
    }

    /// The least magnitude is found wherever it is, and decides rightly.
    #[test]
    fn magnitudes_are_found(
        deep in 1usize..70, wide in 1usize..40, of in order(), at in any::<prop::sample::Index>(), bits in 1u16..0x7f80,
        negative in any::<bool>(),
    ) {
        if multiplies_bf16() {
            let one = bf16::MAX.to_le_bytes().to_vec();
            let mut operand = Operand::new([deep, wide], of, 3, 2, 0..2, |x| if x == 0 { vec![0, 0x80] } else { one.clone() });
            let (k, j) = (at.index(deep * wide) % deep, at.index(deep * wide) / deep);
            let [along, across] = operand.source;
            let place = k * along as usize + j * across as usize;
            operand.memory[place..place + 2].copy_from_slice(&(bits | u16::from(negative) << 15).to_le_bytes());
            let mut to = vec![0; panel_words(wide, deep.div_ceil(2))];
            // SAFETY: the operand has these extents, and the CPU has been asked.
            let found = unsafe { pack::<Bf16>(operand.source(), deep, wide, false, &mut to) };
            prop_assert!(found.are_finite);
            let exponent = i32::from(bits >> 7) - 127;
            for other in 1..255 {
                let mut word = [0; LANES];
                let other_bits = [(other << 7) as u16; 1];
                let source = PackedFrom { pointer: other_bits.as_ptr().cast(), along: 2, across: 2 };
                // SAFETY: there is one element.
                let other_found = unsafe { pack::<Bf16>(source, 1, 1, false, &mut word) };
                let normal = exponent > -127 && exponent + (other - 127) - 14 >= -126;
                prop_assert_eq!(found.least.has_normal_products(other_found.least), normal);
            }
            if of == Order::AlongK {
                let starts: Vec<*const u8> = (0..wide).map(|j| operand.source().at(0, j)).collect();
                let half = deep / 2;
                // SAFETY: as above.
                let halves = unsafe { [magnitude(&starts, 0, half), magnitude(&starts, 2 * half as isize, deep - half)] };
                prop_assert_eq!(halves.into_iter().min(), Some(found.least));
                // So does the product.
                let (words, runs) = (deep / 2, [WordRun::of(deep / 2)]);
                let (zeros, mut sums) = (vec![0; panel_words(1, words)], vec![0.0; wide]);
                let rows = [WordRows::all(&starts, &runs, 4)];
                let panels = Panels { words: &zeros, deep: words };
                // SAFETY: as above.
                let least = unsafe { block::<Bf16>(1, &rows, panels, (&mut sums, 1, false)) };
                // SAFETY: as above.
                prop_assert_eq!(least, unsafe { magnitude(&starts, 0, 2 * words) });
            }
            // Infinity and NaNs are found, too.
            operand.memory[place..place + 2].copy_from_slice(&(0x7f80 | bits & 0x7f | u16::from(negative) << 15).to_le_bytes());
            // SAFETY: as above.
            let found = unsafe { pack::<Bf16>(operand.source(), deep, wide, false, &mut to) };
            prop_assert!(!found.are_finite);
        }
    }
}
