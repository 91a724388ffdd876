//! A packed B: the results of a run with the tensor, and what is refused.

use epilogue::evt::{BroadcastClass, TreeBuilder};
use epilogue::gemm::{Arithmetic, Builder, Packed, depth, rows};
use epilogue::prelude::*;
use epilogue::{Arch, CpuLevel, DeviceTensor, Element, ElementType, Error};
use half::{bf16, f16};

#[epilogue]
fn plain(accum: Accum) -> Tensor<f32> {
    accum
}

#[epilogue]
fn gated(gate: Accum, up: Accum) -> (Tensor<f32>, ColumnVector) {
    let d = gate * up;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}

/// Numbers of all magnitudes from 2^-3 to 2^3, with all bits of an f32.
fn numbers(count: usize, seed: u32) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..count).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let sign = if state & 0x100 == 0 { 1.0 } else { -1.0 };
        sign * (1.0 + (state >> 9) as f32 / 8_388_608.0) * ((state >> 5 & 7) as f32 - 3.0).exp2()
    })
}

/// Whether this CPU multiplies all rows from panels.
fn has_panels() -> bool {
    let level = CpuLevel::highest();
    level >= CpuLevel::Avx512 || level == CpuLevel::Neon
}

/// Whether a packed B gives the bits of the plain one.
fn check_packed(gemm: &Gemm<Plain>, a: &DeviceTensor, b: &DeviceTensor, shape: [usize; 2]) -> Result<(), Error> {
    let mut d = [Device::cpu().zeros::<f32>(shape)?, Device::cpu().zeros::<f32>(shape)?];
    gemm.run(a, b, Plain { accum: &mut d[0] })?;
    gemm.run(a, &gemm.pack(b)?, Plain { accum: &mut d[1] })?;
    assert!(d[0].to_bytes()? == d[1].to_bytes()?);
    Ok(())
}

fn tensor<T: Element>(shape: &[usize], seed: u32, of: impl Fn(f32) -> T) -> Result<DeviceTensor, Error> {
    let count = shape.iter().product();
    Ok(Device::cpu().tensor(&numbers(count, seed).map(of).collect::<Vec<_>>(), shape)?)
}

/// B `[.., K, N]`: contiguous along K, along N, and with room between rows.
fn every_b<T: Element>(front: &[usize], [n, k]: [usize; 2], of: impl Fn(f32) -> T) -> Result<Vec<DeviceTensor>, Error> {
    let shape = |last: [usize; 2]| [front, &last[..]].concat();
    let last = front.len() + 1;
    let turned = if front.is_empty() { vec![1, 0] } else { vec![0, 2, 1] };
    let along_k = tensor(&shape([n, k]), 2, &of)?.permute(&turned)?;
    let along_n = tensor(&shape([k, n]), 3, &of)?;
    let roomy = tensor(&shape([k, n + 3]), 4, &of)?.slice(last, 1..n + 1)?;
    Ok(vec![along_k, along_n, roomy])
}

fn check<A: Element, B: Element>(of_a: impl Fn(f32) -> A, of_b: impl Fn(f32) -> B) -> Result<(), Error> {
    // More than a part of K, with a part of a word, and columns that end within a vector; few and many rows.
    for [m, n, k] in
        [[200, 100, 1031], [130, 64, 512], [40, 150, 77], [7, 200, 600], [1, 70, 33], [100, 1, 40], [3, 0, 5]]
    {
        let a = tensor(&[m, k], 1, &of_a)?;
        for b in every_b(&[], [n, k], &of_b)? {
            let gemm = Gemm::plan::<Plain>(&Device::cpu(), &a, &b)?;
            let (mut d, mut with_packed) = (tensor(&[m, n], 5, |x| x)?, tensor(&[m, n], 6, |x| x)?);
            gemm.run(&a, &b, Plain { accum: &mut d })?;
            let packed = gemm.pack(&b)?;
            gemm.run(&a, &packed, Plain { accum: &mut with_packed })?;
            let name = format!("{}x{}: {m}x{n}x{k}, strides {:?}", A::TYPE, B::TYPE, b.strides());
            let reference = gemm.reference(&a, &b, Plain { accum: &mut d })?;
            reference.compare("accum", &with_packed)?.check()?;
            // Few rows of a tensor are multiplied where it lies, in another order.
            let are_many = m > 100;
            assert!(!are_many || d.to_bytes()? == with_packed.to_bytes()?, "{name}");
            // Another plan, another number of rows.
            let fewer = a.slice(0, 0..m.div_ceil(16))?;
            let other = Gemm::plan::<Plain>(&Device::cpu(), &fewer, &b)?;
            let mut of_fewer = Device::cpu().zeros::<f32>([m.div_ceil(16), n])?;
            other.run(&fewer, &packed, Plain { accum: &mut of_fewer })?;
            let reference = other.reference(&fewer, &b, Plain { accum: &mut d.slice(0, 0..m.div_ceil(16))? })?;
            reference.compare("accum", &of_fewer)?.check()?;
            if has_panels() && (A::TYPE, B::TYPE) == (ElementType::F32, ElementType::F32) {
                let same = with_packed.slice(0, 0..m.div_ceil(16))?;
                assert!(of_fewer.to_bytes()? == same.to_bytes()?, "the bits of more rows, {name}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_packed_b_gives_the_results_of_the_tensor() -> Result<(), Error> {
    let (signed, unsigned) = (|x: f32| (x * 8.0) as i8, |x: f32| (x.abs() * 16.0) as u8);
    check(|x| x, |x| x)?;
    check(bf16::from_f32, bf16::from_f32)?;
    check(f16::from_f32, f16::from_f32)?;
    check(f64::from, f64::from)?;
    check(|x| x, bf16::from_f32)?;
    check(signed, signed)?;
    check(signed, unsigned)?;
    check(unsigned, signed)?;
    check(unsigned, unsigned)
}

/// If a subnormal product may come of a panel, this is not multiplied by words; its neighbours are.
#[test]
fn panels_with_subnormal_products_are_the_tensors_own() -> Result<(), Error> {
    let [m, n, k] = [100, 600, 700];
    let a = tensor(&[m, k], 1, |x| bf16::from_f32(x * 1e-20))?;
    let mut values: Vec<bf16> = numbers(k * n, 2).map(bf16::from_f32).collect();
    values[600 * n + 70] = bf16::from_f32(1e-20);
    let b = Device::cpu().tensor(&values, [k, n])?;
    let gemm = Gemm::plan::<Plain>(&Device::cpu(), &a, &b)?;
    check_packed(&gemm, &a, &b, [m, n])
}

#[test]
fn batches_groups_and_several_accumulators_take_packed_b() -> Result<(), Error> {
    let cpu = Device::cpu();
    let [l, m, n, k] = [3, 120, 130, 520];
    let a = tensor(&[l, m, k], 1, |x| x)?;
    let one = tensor(&[n, k], 7, |x| x)?.transpose()?;
    let shared = one.broadcast_to([l, k, n])?;
    for b in every_b(&[l], [n, k], |x| x)?.into_iter().chain([one.clone(), shared]) {
        let gemm = Gemm::plan::<Plain>(&cpu, &a, &b)?;
        let mut d = [cpu.zeros::<f32>([l, m, n])?, cpu.zeros::<f32>([l, m, n])?];
        let packed = gemm.pack(&b)?;
        gemm.run(&a, &b, Plain { accum: &mut d[0] })?;
        gemm.run(&a, &packed, Plain { accum: &mut d[1] })?;
        assert!(d[0].to_bytes()? == d[1].to_bytes()?, "{:?}", b.strides());
        if b.rank() == 2 {
            continue;
        }
        let (x, ends) = (a.reshape([l * m, k])?, cpu.tensor(&[5i32, 200, 360], [3])?);
        let grouped = Gemm::plan::<Plain>(&cpu, rows(&x).in_groups_to(&ends), &b)?;
        let mut d = [cpu.zeros::<f32>([l * m, n])?, cpu.zeros::<f32>([l * m, n])?];
        grouped.run(rows(&x).in_groups_to(&ends), &b, Plain { accum: &mut d[0] })?;
        grouped.run(rows(&x).in_groups_to(&ends), &packed, Plain { accum: &mut d[1] })?;
        // One group has few rows.
        let reference = grouped.reference(rows(&x).in_groups_to(&ends), &b, Plain { accum: &mut d[0] })?;
        reference.compare("accum", &d[1])?.check()?;
    }
    // Parts of K that begin where no panel does, and one that does.
    let deep = [tensor(&[m, 1100], 1, |x| x)?, tensor(&[1100, n], 2, |x| x)?];
    let ends = cpu.tensor(&[100i32, 512, 1100], [3])?;
    let divided = Gemm::plan::<Plain>(&cpu, depth(&deep[0]).in_groups_to(&ends), &deep[1])?;
    let mut d = [cpu.zeros::<f32>([l, m, n])?, cpu.zeros::<f32>([l, m, n])?];
    divided.run(depth(&deep[0]).in_groups_to(&ends), &deep[1], Plain { accum: &mut d[0] })?;
    divided.run(depth(&deep[0]).in_groups_to(&ends), &divided.pack(&deep[1])?, Plain { accum: &mut d[1] })?;
    assert!(d[0].to_bytes()? == d[1].to_bytes()?);

    let (x, up) = (a.slice(0, 0..1)?.reshape([m, k])?, tensor(&[n, k], 8, |x| x)?.transpose()?);
    let gemm = Gemm::plan::<Gated>(&cpu, &x, [&one, &up])?;
    let packed = [gemm.pack(&one)?, gemm.pack(&up)?];
    let mut results = Vec::new();
    for is_packed in [false, true] {
        let (mut d, mut sums) = (cpu.zeros::<f32>([m, n])?, cpu.zeros::<f32>([m])?);
        let arguments = Gated { d: &mut d, sums: &mut sums };
        if is_packed {
            gemm.run(&x, [&packed[0], &packed[1]], arguments)?;
        } else {
            gemm.run(&x, [&one, &up], arguments)?;
        }
        results.push([d.to_bytes()?, sums.to_bytes()?]);
    }
    assert!(results[0] == results[1]);
    Ok(())
}

fn planned(arithmetic: Arithmetic, a: &DeviceTensor, b: &DeviceTensor) -> Result<Gemm<Plain>, Error> {
    Gemm::builder::<Plain>(&Device::cpu()).operands(a, b)?.arithmetic(arithmetic).plan()
}

#[test]
fn what_is_rounded_is_rounded_once() -> Result<(), Error> {
    let [m, n, k] = [70, 90, 100];
    let (a, b) = (tensor(&[m, k], 1, |x| x)?, tensor(&[n, k], 2, |x| x)?.transpose()?);
    let gemm = planned(Arithmetic::FastBf16, &a, &b)?;
    check_packed(&gemm, &a, &b, [m, n])
}

/// It is a copy: what is written later is not in it.
#[test]
fn later_values_are_not_in_it() -> Result<(), Error> {
    for [m, n, k] in [[120, 80, 90], [2, 80, 90]] {
        let (a, mut b) = (tensor(&[m, k], 1, |x| x)?, tensor(&[k, n], 2, |x| x)?);
        let gemm = Gemm::plan::<Plain>(&Device::cpu(), &a, &b)?;
        let mut d = [Device::cpu().zeros::<f32>([m, n])?, Device::cpu().zeros::<f32>([m, n])?];
        gemm.run(&a, &b, Plain { accum: &mut d[0] })?;
        let packed = gemm.pack(&b)?;
        b.copy_from(&vec![1f32; k * n])?;
        gemm.run(&a, &packed, Plain { accum: &mut d[1] })?;
        // Few rows are summed in another order.
        let pairs = d[0].to_vec::<f32>()?.into_iter().zip(d[1].to_vec::<f32>()?);
        assert!(pairs.into_iter().all(|(x, y)| (x - y).abs() <= 1e-3));
        assert!(packed.tensor().shape() == [k, n] && !packed.tensor().overlaps(&b));
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_written() -> Result<(), Error> {
    let [m, n, k] = [4, 5, 6];
    let (a, b) = (tensor(&[m, k], 1, |x| x)?, tensor(&[k, n], 2, |x| x)?);
    let gemm = planned(Arithmetic::Exact, &a, &b)?;
    let mut d = Device::cpu().full::<f32>([m, n], 7.0)?;
    let mut refused = |packed: &Packed| gemm.run(&a, packed, Plain { accum: &mut d }).unwrap_err().to_string();

    let rounded = planned(Arithmetic::FastBf16, &a, &b)?.pack(&b)?;
    assert_eq!(
        refused(&rounded),
        "B is packed for f32 by f32 with `Arithmetic::FastBf16`, and this plan multiplies f32 by f32 with \
         `Arithmetic::Exact`: pack it with this plan"
    );
    let of_bf16 = Gemm::plan::<Plain>(&Device::cpu(), &tensor(&[m, k], 1, bf16::from_f32)?, &b)?.pack(&b)?;
    assert!(refused(&of_bf16).starts_with("B is packed for bf16 by f32 with"));
    let short = gemm.pack(&tensor(&[k + 1, n], 2, |x| x)?)?;
    assert_eq!(refused(&short), "A of shape [4, 6] and B of shape [7, 5] differ in K: A is [M, K], B is [K, N]");
    assert!(d.to_vec::<f32>()?.iter().all(|x| *x == 7.0));

    let pack = |b: &DeviceTensor| gemm.pack(b).unwrap_err().to_string();
    let other = tensor(&[k, n], 2, bf16::from_f32)?;
    let said_of_run = gemm.run(&a, &other, Plain { accum: &mut d }).unwrap_err().to_string();
    assert_eq!(pack(&other), said_of_run);
    assert!(pack(&tensor(&[k], 2, |x| x)?).starts_with("B has shape [6]"));
    let apart = tensor(&[k, n, 2], 2, |x| x)?.slice(2, 0..1)?.reshape([k, n])?;
    assert_eq!(
        pack(&apart),
        "B of shape [6, 5] has strides [10, 2], and `pack` takes a B that is contiguous along K or N: give a contiguous copy"
    );
    let gpu = Device::emulated(Arch::SM_80)?;
    assert!(pack(&gpu.zeros::<f32>([k, n])?).contains("this GEMM was planned for"));
    Ok(())
}

#[test]
fn gpus_pack_nothing_and_take_nothing_packed() -> Result<(), Error> {
    let mut tree = TreeBuilder::new("plain", file!());
    let accum = tree.accum("accum");
    tree.output("d", accum, BroadcastClass::Tensor, None);
    let tree = tree.finish();
    let f32 = ElementType::F32;
    let builder = |device: &Device| Builder::<()>::new(device, tree.clone()).elements(f32, f32).problem(4, 5, 6);
    if epilogue::runtime::Compiler::find().is_err() {
        return Ok(());
    }
    let gpu = Device::emulated(Arch::SM_80)?;
    let (on_gpu, on_cpu) = (builder(&gpu).plan()?, builder(&Device::cpu()).plan()?);
    let error = on_gpu.pack(&gpu.zeros::<f32>([6, 5])?).unwrap_err().to_string();
    assert!(error.starts_with("`pack` has no effect on") && error.ends_with("give a run the tensor itself"), "{error}");
    let packed = on_cpu.pack(&Device::cpu().zeros::<f32>([6, 5])?)?;
    let (a, mut d) = (gpu.zeros::<f32>([4, 6])?, gpu.zeros::<f32>([4, 5])?);
    let error = on_gpu.run_bound(&gpu.default_stream(), &a, &packed, [("d", (&mut d).into())]).unwrap_err();
    assert!(error.to_string().contains("planned for"), "{error}");
    Ok(())
}
