//! Row programs against plain loops.

use super::super::assembler::Width;
use super::{numbers, same};
use crate::jit::{Binary, Body, Lane, RowKernel, RowProgram};

/// The code of a program in vectors of every width that this CPU has and that can do it.
fn of_widths(program: &RowProgram) -> Vec<(Width, RowKernel)> {
    let widths = [Width::Bits256, Width::Bits512];
    widths.into_iter().filter_map(|width| Some((width, RowKernel::of_width(program, width)?))).collect()
}

/// Combines lanes that are `lanes` apart in their order, and then neighbours.
fn tree(x: &[f32], lanes: usize, identity: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
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
        let none = std::ptr::null_mut::<u8>();
        // Each place and state has an argument without an address, in the order in which they were made.
        let mut addresses = vec![(a, 4 * apart), (none, 0), (none, 0), (none, 0)];
        addresses.extend([(none, 0), (none, 0), (none, 0), (scale.as_ptr().cast_mut().cast(), 0)]);
        addresses.extend([(sums.as_mut_ptr().cast(), 4), (products.as_mut_ptr().cast(), 4)]);
        addresses.extend([(bits.as_mut_ptr().cast(), 4), (halves.as_mut_ptr().cast(), 2), (bytes.as_mut_ptr(), 1)]);
        addresses.extend([(none, 0), (a, 4 * apart), (none, 0), (first.as_ptr().cast_mut().cast(), 0)]);
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
