//! Functions give the bits of [`crate::simd`], and conversions those of [`crate::simd::convert`].

use half::{bf16, f16};

use super::{numbers, of_widths, same};
use crate::expr::Op;
use crate::jit::{Body, Kernel, Lane};
use crate::simd::convert::{bf16_from_f32, f16_from_f32};
use crate::simd::{Float, apply};

const FUNCTIONS: [Op; 15] = [
    Op::Neg,
    Op::Abs,
    Op::Exp,
    Op::Exp2,
    Op::Log,
    Op::Log2,
    Op::Log1p,
    Op::Sqrt,
    Op::Rsqrt,
    Op::Recip,
    Op::Tanh,
    Op::Erf,
    Op::Floor,
    Op::Ceil,
    Op::Round,
];

/// A function, and its results by a body and by code for slices.
fn check(op: Op) {
    let mut body = Body::default();
    let x = numbers(&mut fastrand::Rng::with_seed(1), 20_011);
    let value = body.load(Lane::F32);
    let value = body.apply(op, [value; 3]).expect("vector code");
    body.store(Lane::F32, value);
    let mut want = vec![0f32; x.len()];
    apply(op, &mut want, [&x; 3]);
    for kernel in of_widths(&body) {
        let mut got = vec![0f32; x.len()];
        // SAFETY: both are as long as the lanes.
        unsafe { kernel.run(&[x.as_ptr() as *mut u8, got.as_mut_ptr().cast()], x.len()) };
        for ((x, got), want) in x.iter().zip(got).zip(&want) {
            assert!(same(got, *want), "{op:?} of {x:e} is {want:e}, not {got:e}");
        }
    }
}

#[test]
fn functions_have_the_bits_of_slices() {
    for op in FUNCTIONS {
        check(op);
    }
}

#[test]
fn least_and_greatest_pass_nan_and_order_zeros() {
    let mut body = Body::default();
    let (a, b) = (body.load(Lane::F32), body.load(Lane::F32));
    let (least, most) = (body.minimum(a, b), body.maximum(a, b));
    body.store(Lane::F32, least);
    body.store(Lane::F32, most);
    for kernel in of_widths(&body) {
        let mut random = fastrand::Rng::with_seed(2);
        let (a, b) = (numbers(&mut random, 9001), numbers(&mut random, 9001));
        let (mut least, mut most) = (vec![0f32; a.len()], vec![0f32; a.len()]);
        let arguments =
            [a.as_ptr() as *mut u8, b.as_ptr() as *mut u8, least.as_mut_ptr().cast(), most.as_mut_ptr().cast()];
        // SAFETY: all are as long as the lanes.
        unsafe { kernel.run(&arguments, a.len()) };
        for i in 0..a.len() {
            let (x, y) = (a[i], b[i]);
            assert!(same(least[i], Float::minimum(x, y)), "the least of {x:e} and {y:e}: {:e}", least[i]);
            assert!(same(most[i], Float::maximum(x, y)), "the most of {x:e} and {y:e}: {:e}", most[i]);
        }
    }
}

#[test]
fn lanes_of_every_type_are_read_and_written() {
    let mut body = Body::default();
    let loads = [Lane::F32, Lane::F16, Lane::BF16, Lane::I32, Lane::I8, Lane::U8].map(|lane| body.load(lane));
    let number = body.counter();
    for value in &loads[1..3] {
        body.store(Lane::F32, *value);
    }
    let (half, short) = (body.as_f16(loads[0]), body.as_bf16(loads[0]));
    let (integer, bytes) = (body.truncated(loads[0]), body.as_bytes(loads[3]));
    body.store(Lane::F16, half);
    body.store(Lane::BF16, short);
    body.store(Lane::I32, integer);
    // Beyond what registers hold the addresses of, so in a second body.
    let mut other = Body::default();
    let (small, smallest) = (other.load(Lane::I8), other.load(Lane::U8));
    let wide = other.load(Lane::I32);
    let count = other.counter();
    let narrow = other.as_bytes(wide);
    for value in [small, smallest, count] {
        other.store(Lane::I32, value);
    }
    other.store(Lane::I8, narrow);
    let _ = (number, bytes);
    for (kernel, second) in of_widths(&body).into_iter().zip(of_widths(&other)) {
        every_type(&kernel, &second);
    }
}

fn every_type(kernel: &Kernel, second: &Kernel) {
    for lanes in [1, 7, 8, 31, 32, 33, 1003] {
        let mut random = fastrand::Rng::with_seed(3);
        let x = numbers(&mut random, lanes);
        let f16s: Vec<f16> = (0..lanes).map(|_| f16::from_bits(random.u16(..))).collect();
        let bf16s: Vec<bf16> = (0..lanes).map(|_| bf16::from_bits(random.u16(..))).collect();
        let i32s: Vec<i32> = (0..lanes).map(|_| random.i32(..)).collect();
        let i8s: Vec<i8> = (0..lanes).map(|_| random.i8(..)).collect();
        let u8s: Vec<u8> = (0..lanes).map(|_| random.u8(..)).collect();
        let first = 1000i32;
        let (mut a, mut b) = (vec![0f32; lanes], vec![0f32; lanes]);
        let (mut c, mut d) = (vec![f16::ZERO; lanes], vec![bf16::ZERO; lanes]);
        let mut e = vec![0i32; lanes];
        let arguments = [
            x.as_ptr() as *mut u8,
            f16s.as_ptr() as *mut u8,
            bf16s.as_ptr() as *mut u8,
            i32s.as_ptr() as *mut u8,
            i8s.as_ptr() as *mut u8,
            u8s.as_ptr() as *mut u8,
            (&raw const first) as *mut u8,
            a.as_mut_ptr().cast(),
            b.as_mut_ptr().cast(),
            c.as_mut_ptr().cast(),
            d.as_mut_ptr().cast(),
            e.as_mut_ptr().cast(),
        ];
        // SAFETY: all are as long as the lanes.
        unsafe { kernel.run(&arguments, lanes) };
        for i in 0..lanes {
            assert!(same(a[i], f16s[i].to_f32()) && same(b[i], bf16s[i].to_f32()), "{i} of {lanes}");
            assert_eq!(c[i].to_bits(), f16_from_f32(x[i]).to_bits(), "{:e} as f16", x[i]);
            assert_eq!(d[i].to_bits(), bf16_from_f32(x[i]).to_bits(), "{:e} as bf16", x[i]);
            assert_eq!(e[i], x[i] as i32, "{:e} as i32", x[i]);
        }
        let (mut a, mut b, mut c, mut d) = (vec![0; lanes], vec![0; lanes], vec![0; lanes], vec![0i8; lanes]);
        let arguments = [
            i8s.as_ptr() as *mut u8,
            u8s.as_ptr() as *mut u8,
            i32s.as_ptr() as *mut u8,
            (&raw const first) as *mut u8,
            a.as_mut_ptr().cast(),
            b.as_mut_ptr().cast(),
            c.as_mut_ptr().cast(),
            d.as_mut_ptr().cast(),
        ];
        // SAFETY: all are as long as the lanes.
        unsafe { second.run(&arguments, lanes) };
        for i in 0..lanes {
            let want = (i32::from(i8s[i]), i32::from(u8s[i]), first + i as i32, i32s[i] as i8);
            assert_eq!((a[i], b[i], c[i], d[i]), want, "lane {i} of {lanes}");
        }
    }
}
