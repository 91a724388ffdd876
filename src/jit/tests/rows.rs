//! Row programs against plain loops.

use super::super::x86_64::Width;
use super::{numbers, same};
use crate::jit::{Binary, Body, Lane, RowKernel, RowProgram, Unary};
use crate::simd::stream::Fence;

/// The code of a program in vectors of every width that this CPU has and that can do it.
fn of_widths(program: &RowProgram) -> Vec<(Width, RowKernel)> {
    let widths = [Width::Bits256, Width::Bits512];
    widths.into_iter().filter_map(|width| Some((width, RowKernel::at_level(program, width)?))).collect()
}

/// Combines lanes that are `lanes` apart in their order, and then neighbours.
fn tree<T: Copy>(x: &[T], lanes: usize, identity: T, f: impl Fn(T, T) -> T) -> T {
    let mut held = vec![identity; lanes];
    for (i, x) in x.iter().enumerate() {
        held[i % lanes] = f(held[i % lanes], *x);
    }
    while held.len() > 1 {
        held = held.chunks(2).map(|pair| f(pair[0], pair[1])).collect();
    }
    held[0]
}

/// Rows of `a`, whose sum and product in `lanes` lanes, and greatest bits, are combined; and each element less the sum, times
/// a uniform value, in the types of memory.
fn program(count: usize, lanes: u32, narrow: bool) -> RowProgram {
    let mut program = RowProgram::new(count);
    let [sum, product, greatest, shifted] = [(); 4].map(|()| program.place());
    let mut body = Body::default();
    let a = body.load(Lane::F32);
    body.combine(Binary::Add, (-0.0f32).to_bits(), a, sum, Some(lanes));
    body.combine(Binary::Mul, 1f32.to_bits(), a, product, Some(lanes));
    body.combine(Binary::GreatestU32, 0, a, greatest, None);
    program.each(body);
    let mut body = Body::default();
    let (total, all, bits, scale) = (body.held(sum), body.held(product), body.held(greatest), body.uniform());
    body.store(Lane::F32, total);
    body.store(Lane::F32, all);
    body.store(Lane::I32, bits);
    let (half, byte) = (body.as_f16(total), body.as_bytes(bits));
    body.store(Lane::F16, half);
    body.store(Lane::U8, byte);
    let value = body.mul(total, scale);
    body.leave(shifted, value);
    program.once(body);
    let mut body = Body::default();
    let (a, shifted, counter) = (body.load(Lane::F32), body.held(shifted), body.counter());
    let y = body.sub(a, shifted);
    body.store(Lane::F32, y);
    body.store(Lane::I32, counter);
    if narrow {
        let half = body.as_bf16(y);
        body.store(Lane::BF16, half);
    }
    program.each(body);
    program
}

const ROWS: usize = 3;

fn check(count: usize, lanes: u32, narrow: bool, random: &mut fastrand::Rng) -> usize {
    let of_rows = program(count, lanes, narrow);
    let kernels = of_widths(&of_rows);
    let made = kernels.len();
    let (apart, x) = (count + 3, numbers(random, ROWS * (count + 3)));
    let scale = [0.5f32];
    for (width, kernel) in kernels {
        let (mut sums, mut products, mut bits) = ([9f32; ROWS], [9f32; ROWS], [9u32; ROWS]);
        let (mut halves, mut bytes) = ([half::f16::ONE; ROWS], [9u8; ROWS]);
        let (mut y, mut counted) = (vec![7f32; ROWS * apart], vec![7i32; ROWS * apart]);
        let mut narrowed = vec![half::bf16::ONE; ROWS * apart];
        let (a, first) = (x.as_ptr().cast::<u8>().cast_mut(), [5i32]);
        let mut addresses = vec![(a, 4 * apart), (scale.as_ptr().cast_mut().cast(), 0)];
        addresses.extend([(sums.as_mut_ptr().cast(), 4), (products.as_mut_ptr().cast(), 4)]);
        addresses.extend([(bits.as_mut_ptr().cast(), 4), (halves.as_mut_ptr().cast(), 2), (bytes.as_mut_ptr(), 1)]);
        addresses.extend([(a, 4 * apart), (first.as_ptr().cast_mut().cast(), 0)]);
        addresses.extend([(y.as_mut_ptr().cast(), 4 * apart), (counted.as_mut_ptr().cast(), 4 * apart)]);
        if narrow {
            addresses.push((narrowed.as_mut_ptr().cast(), 2 * apart));
        }
        let apart_by: Vec<isize> = addresses.iter().map(|(_, apart)| *apart as isize).collect();
        let mut addresses: Vec<*mut u8> = addresses.into_iter().map(|(address, _)| address).collect();
        // SAFETY: every row has its elements in each of these.
        unsafe { kernel.run(&mut addresses, &apart_by, ROWS) };
        let at = format!("{count} lanes, states of {lanes}, {width:?}");
        for row in 0..ROWS {
            let x = &x[row * apart..][..count];
            let sum = tree(x, lanes as usize, -0.0, |a, b| a + b);
            let product = tree(x, lanes as usize, 1.0, |a, b| a * b);
            assert!(same(sums[row], sum), "{at}: the sum is {:e}, not {sum:e}", sums[row]);
            assert!(same(products[row], product), "{at}: the product is {:e}, not {product:e}", products[row]);
            let greatest = x.iter().map(|x| x.to_bits()).max().unwrap_or(0);
            assert_eq!((bits[row], bytes[row]), (greatest, greatest as u8), "{at}");
            assert!(same(halves[row].to_f32(), half::f16::from_f32(sum).to_f32()), "{at}");
            for (i, x) in x.iter().enumerate() {
                let want = x - sum * 0.5;
                let place = row * apart + i;
                assert!(same(y[place], want), "{at}: element {i} is {:e}, not {want:e}", y[place]);
                assert_eq!(counted[place], 5 + i as i32, "{at}");
                assert!(!narrow || same(narrowed[place].to_f32(), half::bf16::from_f32(want).to_f32()), "{at}");
            }
            let between = row * apart + count..(row + 1) * apart;
            assert!(y[between.clone()].iter().all(|y| *y == 7.0) && counted[between].iter().all(|i| *i == 7), "{at}");
        }
    }
    made
}

#[test]
fn rows_of_any_length_are_what_loops_give() {
    let mut random = fastrand::Rng::with_seed(7);
    let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    for count in (1..70).chain([127, 128, 129, 255, 300, 512, 1000]) {
        for lanes in [8, 16, 32, 64] {
            let made = check(count, lanes, random.bool(), &mut random);
            // AVX2 leaves out no 16-bit lanes, and AVX-512 has no states of fewer lanes than a vector.
            assert!(!has || made > 0 || lanes < 16 || !count.is_multiple_of(8), "{count} lanes, states of {lanes}");
        }
    }
}

/// Non-temporal stores between ordinary ones are complete after a fence.
#[test]
fn lanes_are_stored_past_the_caches() {
    #[repr(align(64))]
    struct Aligned<T>([T; 1024]);
    let mut random = fastrand::Rng::with_seed(13);
    let x: Vec<f32> = numbers(&mut random, 1024);
    for count in [8, 64, 320] {
        let mut program = RowProgram::new(count);
        let mut body = Body::default();
        let a = body.load(Lane::F32);
        let (twice, half) = (body.add(a, a), body.as_bf16(a));
        body.store_past(Lane::F32, twice);
        body.store_past(Lane::BF16, half);
        program.each(body);
        for (width, kernel) in of_widths(&program) {
            let (mut y, mut z) = (Aligned([7f32; 1024]), Aligned([half::bf16::ONE; 1024]));
            let from = x.as_ptr().cast::<u8>().cast_mut();
            let mut addresses = [from, y.0.as_mut_ptr().cast(), z.0.as_mut_ptr().cast()];
            {
                let _fence = Fence;
                // SAFETY: three rows of as many lanes lie in each of the arrays, whose rows begin at multiples of 64 bytes.
                unsafe { kernel.run(&mut addresses, &[4 * 333, 4 * 336, 2 * 352], ROWS.min(1024 / 352)) };
            }
            for row in 0..ROWS.min(1024 / 352) {
                for i in 0..336 {
                    let x = x[row * 333 + i];
                    let is_own = i < count;
                    let want = if is_own { x + x } else { 7.0 };
                    assert!(same(y.0[row * 336 + i], want), "{width:?}, {count} lanes: row {row}, lane {i}");
                    let want = if is_own { half::bf16::from_f32(x) } else { half::bf16::ONE };
                    assert!(
                        same(z.0[row * 352 + i].to_f32(), want.to_f32()),
                        "{width:?}, {count}: row {row}, lane {i}"
                    );
                }
            }
        }
    }
}

/// As f64s, in lanes and then neighbours, whatever the vectors' width; and the largest with NaN and zeros of both signs.
#[test]
fn rows_are_summed_as_doubles() {
    let mut random = fastrand::Rng::with_seed(11);
    for count in (1..70).chain([127, 128, 129, 255, 300, 512, 1000]) {
        let mut program = RowProgram::new(count);
        let [sum, squares, product] = [(); 3].map(|()| program.place());
        let mut body = Body::default();
        let a = body.load(Lane::F32);
        body.combine_doubles((Binary::AddF64, 0.0), a, false, sum, 16);
        body.combine_doubles((Binary::AddF64, 0.0), a, true, squares, 16);
        body.combine_doubles((Binary::MulF64, 1.0), a, false, product, 16);
        let [largest, least] = [true, false].map(|largest| {
            let identity = if largest { f32::NEG_INFINITY } else { f32::INFINITY };
            body.extreme(&mut program, largest, identity.to_bits(), a)
        });
        let each = body.arguments.len();
        program.each(body);
        let mut body = Body::default();
        let mut stored = Vec::new();
        for place in [sum, squares, product] {
            let total = body.held(place);
            stored.push(body.arguments.len());
            body.store(Lane::F64, total);
        }
        for extreme in [largest, least] {
            let total = extreme.value(&mut body);
            let total = body.unary(Unary::WidenLow, total);
            stored.push(body.arguments.len());
            body.store(Lane::F64, total);
        }
        let arguments = each + body.arguments.len();
        program.once(body);
        let special = [f32::NAN, -f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY];
        let mut x = numbers(&mut random, ROWS * count);
        for place in 0..random.usize(..3) {
            let at = random.usize(..x.len());
            x[at] = special[random.usize(place % 2 * 2..special.len())];
        }
        if random.bool() {
            x.iter_mut().for_each(|x| *x = if random.bool() { 0.0 } else { -0.0 });
        }
        for (width, kernel) in of_widths(&program) {
            let mut results = vec![7f64; stored.len() * ROWS];
            let mut addresses = vec![std::ptr::null_mut::<u8>(); arguments];
            let mut apart = vec![0isize; arguments];
            (addresses[0], apart[0]) = (x.as_ptr().cast::<u8>().cast_mut(), 4 * count as isize);
            for (number, argument) in stored.iter().enumerate() {
                addresses[each + argument] = results[number * ROWS..].as_mut_ptr().cast();
                apart[each + argument] = 8;
            }
            // SAFETY: every row has its elements, and a place for each result.
            unsafe { kernel.run(&mut addresses, &apart, ROWS) };
            for row in 0..ROWS {
                let x: Vec<f64> = x[row * count..][..count].iter().map(|x| f64::from(*x)).collect();
                let nan = x.iter().any(|x| x.is_nan());
                let extreme = |sign: f64| {
                    let by = |a: &f64, b: &f64| (a * sign).total_cmp(&(b * sign));
                    if nan { f64::NAN } else { x.iter().copied().max_by(by).unwrap() }
                };
                let squares: Vec<f64> = x.iter().map(|x| x * x).collect();
                let want = [
                    tree(&x, 16, 0.0, |a, b| a + b),
                    tree(&squares, 16, 0.0, |a, b| a + b),
                    tree(&x, 16, 1.0, |a, b| a * b),
                    extreme(1.0),
                    extreme(-1.0),
                ];
                for (number, want) in want.into_iter().enumerate() {
                    let got = results[number * ROWS + row];
                    let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                    assert!(same, "{count} lanes, {width:?}, result {number}: {got:e}, not {want:e}");
                }
            }
        }
    }
}
