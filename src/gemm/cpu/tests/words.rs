//! Products that some CPUs do by words: of integers of either sign, of bf16s that are subnormal or whose products are, and
//! what threads keep of B.

use super::*;

/// The product alone. `along_k` says whether B is contiguous along K.
fn multiply<A: Element, B: Element>(a: &[A], b: &[B], [m, n, k]: [usize; 3], along_k: bool) -> Vec<f32> {
    let mut builder = TreeBuilder::new("plain", file!());
    let accum = builder.accum("accum");
    builder.output("d", accum, BroadcastClass::Tensor, Some(ElementType::F32));
    let tree = builder.finish().validate(Types::new(A::TYPE, B::TYPE)).unwrap();
    let device = Device::cpu();
    let b = if along_k {
        let turned: Vec<B> = (0..n * k).map(|at| b[at % k * n + at / k]).collect();
        device.tensor(&turned, [n, k]).unwrap().transpose().unwrap()
    } else {
        device.tensor(b, [k, n]).unwrap()
    };
    let (a, mut d) = (device.tensor(a, [m, k]).unwrap(), device.zeros::<f32>([m, n]).unwrap());
    execute(
        &Programs::default(),
        &Phases::of(tree.clone(), Prices::CPU),
        Operands::of(&a, &[&b]),
        None,
        &[Argument::Output(&mut d)],
        choose_tile((A::TYPE, B::TYPE), [m, n, k], 1, 1, 0),
    )
    .unwrap();
    d.to_vec::<f32>().unwrap()
}

fn check_integers<A: Element + Into<i32>, B: Element + Into<i32>>(
    of_a: impl Fn(usize) -> A,
    of_b: impl Fn(usize) -> B,
) {
    // One K ends within a word; the others are longer than a panel, and than what 32 bits are sure to hold.
    for [m, n, k] in [[3, 2, 37], [20, 70, 1027], [2, 14, 40_001]] {
        let a: Vec<A> = (0..m * k).map(&of_a).collect();
        let b: Vec<B> = (0..k * n).map(&of_b).collect();
        let sum = |i: usize, j: usize| -> i64 {
            (0..k).map(|p| i64::from(a[i * k + p].into()) * i64::from(b[p * n + j].into())).sum()
        };
        let wanted: Vec<f32> = (0..m * n).map(|e| sum(e / n, e % n) as f32).collect();
        for along_k in [false, true] {
            assert!(multiply(&a, &b, [m, n, k], along_k) == wanted, "{} x {}: {m}x{n}x{k}", A::TYPE, B::TYPE);
        }
    }
}

#[test]
fn integers_of_either_sign_are_summed_exactly() {
    let signed = |i: usize| if i.is_multiple_of(5) { -128 } else { 127 - (i % 7) as i8 };
    let unsigned = |i: usize| 255 - (i % 9) as u8;
    check_integers::<i8, i8>(signed, signed);
    check_integers::<i8, u8>(signed, unsigned);
    check_integers::<u8, i8>(unsigned, signed);
    check_integers::<u8, u8>(unsigned, unsigned);
}

#[test]
fn subnormal_numbers_are_multiplied_and_come_out() {
    let power = |exponent: i32| bf16::from_f64(f64::from(exponent).exp2());
    // A subnormal operand with a normal product, and normal operands with a subnormal product.
    for (x, y) in [(power(-130), power(100)), (power(100), power(-133)), (power(-70), power(-70))] {
        let wanted = (f64::from(x) * f64::from(y)) as f32;
        assert!(wanted != 0.0);
        for [m, n, k] in [[3, 40, 20], [1, 300, 21], [20, 40, 600], [40, 2, 33]] {
            for along_k in [false, true] {
                let (mut a, mut b) = (vec![bf16::ZERO; m * k], vec![bf16::ZERO; k * n]);
                (a[k - 1], b[(k - 1) * n]) = (x, y);
                let d = multiply(&a, &b, [m, n, k], along_k);
                assert_eq!(d[0], wanted, "{x} x {y}: {m}x{n}x{k}, {along_k}");
                assert!(d[1..].iter().all(|&x| x == 0.0));
            }
        }
    }
}

/// Products of one A and this many Bs of f32s.
fn products(count: usize) -> Phases {
    let mut builder = TreeBuilder::new("products", file!());
    for (accumulator, output) in [("x", "d"), ("y", "e")].into_iter().take(count) {
        let accum = builder.accum(accumulator);
        builder.output(output, accum, BroadcastClass::Tensor, Some(ElementType::F32));
    }
    Phases::of(builder.finish().validate(Types::new(ElementType::F32, ElementType::F32)).unwrap(), Prices::CPU)
}

/// Threads keep what they have packed of B for their next tile: not for another B, and not for another run. One K has more
/// parts than are kept.
#[test]
fn panels_are_of_one_matrix_and_of_one_run() {
    let device = Device::cpu();
    for (count, [m, n, k], along_k) in
        [(1, [130, 300, 1100], false), (2, [130, 300, 1100], false), (1, [96, 256, 4700], true)]
    {
        let (phases, programs) = (products(count), Programs::default());
        let of_a = values(m * k, 1);
        let a = device.tensor(&of_a, [m, k]).unwrap();
        let matrix = |_| {
            let matrix = device.zeros::<f32>(if along_k { [n, k] } else { [k, n] }).unwrap();
            if along_k { matrix.transpose().unwrap() } else { matrix }
        };
        let mut all_b: Vec<DeviceTensor> = (0..count).map(matrix).collect();
        for seed in [2, 5] {
            let given: Vec<Vec<f32>> = (0..count).map(|i| values(k * n, seed + i)).collect();
            all_b.iter_mut().zip(&given).for_each(|(b, values)| b.copy_from(values).unwrap());
            let mut results: Vec<DeviceTensor> = (0..count).map(|_| device.zeros::<f32>([m, n]).unwrap()).collect();
            let arguments: Vec<Argument<'_>> = results.iter_mut().map(Argument::Output).collect();
            let operands: Vec<&DeviceTensor> = all_b.iter().collect();
            execute(&programs, &phases, Operands::of(&a, &operands), None, &arguments, TileShape { m: 64, n: 256 })
                .unwrap();
            drop(arguments);
            for (got, b) in results.iter().zip(&given) {
                let got = got.to_vec::<f32>().unwrap();
                for at in (0..m * n).step_by(37) {
                    let wanted: f32 = (0..k).map(|p| of_a[at / n * k + p] * b[p * n + at % n]).sum();
                    assert_eq!(got[at], wanted, "element {at} of {m}x{n}x{k}");
                }
            }
        }
    }
}
