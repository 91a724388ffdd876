//! Weights of 4 and 8 bits with scales of groups, on the CPU, compared with the reference.

use epilogue::gemm::{Arithmetic, Builder, CodeType, Left, Packed, Quantized, Right, quantized, rows};
use epilogue::prelude::*;
use epilogue::{DeviceTensor, Error};
use epilogue_runtime::testing;
use half::{bf16, f16};

#[epilogue]
pub(crate) fn plain(accum: Accum) -> Tensor<f32> {
    accum
}

/// A bias, and statistics of every kind.
#[epilogue]
fn layer(accum: Accum, bias: RowVector<f32>) -> (Tensor<f32>, ColumnVector, RowVector, DeviceScalar) {
    let d = relu(accum + bias);
    let row_sums = reduction_op(d, Row, Add);
    let column_sums = reduction_op(d, Column, Add);
    let largest = reduction_op(d, All, AbsMax);
    (d, row_sums, column_sums, largest)
}

#[epilogue]
fn gated(gate: Accum, up: Accum) -> Tensor<f32> {
    let d = silu(gate) * up;
    d
}

#[epilogue]
fn softmax(accum: Accum) -> Tensor<f32> {
    let e = exp(accum - reduction_op(accum, Row, Max));
    let d = e / reduction_op(e, Row, Add);
    d
}

/// Random numbers.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next(all.len())]
    }

    /// A number of either sign and of some magnitudes.
    fn float(&mut self) -> f32 {
        let sign = if self.next(2) == 0 { 1.0 } else { -1.0 };
        sign * (1.0 + self.next(1 << 20) as f32 / 1_048_576.0) * (self.next(7) as f32 - 3.0).exp2()
    }

    fn tensor(&mut self, element: ElementType, shape: &[usize]) -> Result<DeviceTensor, Error> {
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| self.float()).collect();
        of_type(element, &numbers, shape)
    }
}

fn of_type(element: ElementType, numbers: &[f32], shape: &[usize]) -> Result<DeviceTensor, Error> {
    let device = Device::cpu();
    Ok(match element {
        ElementType::F16 => device.tensor(&numbers.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>(), shape)?,
        ElementType::BF16 => device.tensor(&numbers.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>(), shape)?,
        _ => device.tensor(numbers, shape)?,
    })
}

/// The tensors of quantised weights.
struct Given {
    codes: DeviceTensor,
    scales: DeviceTensor,
    zero_points: Option<DeviceTensor>,
    ty: CodeType,
    group: Option<usize>,
    k: usize,
}

impl Given {
    fn draw(draw: &mut Draw, batch: Option<usize>, [n, k]: [usize; 2]) -> Result<Self, Error> {
        let ty = draw.of(&[CodeType::Int4, CodeType::Uint4, CodeType::Uint4, CodeType::Int8, CodeType::Uint8]);
        let group = draw.of(&[Some(32), Some(64), Some(128), Some(16), Some(48), None]);
        let scales = draw.of(&[ElementType::F16, ElementType::BF16, ElementType::F32]);
        let has_zero_points = !ty.is_signed() && draw.next(2) == 0;
        Self::new(draw, batch, [n, k], (ty, group, scales, has_zero_points))
    }

    fn new(
        draw: &mut Draw,
        batch: Option<usize>,
        [n, k]: [usize; 2],
        (ty, group, scales, has_zero_points): (CodeType, Option<usize>, ElementType, bool),
    ) -> Result<Self, Error> {
        let device = Device::cpu();
        let shape = |last: usize| batch.into_iter().chain([n, last]).collect::<Vec<usize>>();
        let count = |last: usize| shape(last).iter().product::<usize>();
        let groups = k.div_ceil(group.unwrap_or(k).max(1));
        let codes: Vec<u8> = (0..count(ty.elements(k))).map(|_| draw.next(256) as u8).collect();
        let zero_points: Vec<u8> = (0..count(groups)).map(|_| draw.next(1 << ty.bits()) as u8).collect();
        Ok(Self {
            codes: device.tensor_from_bytes(ty.element(), &codes, shape(ty.elements(k)))?,
            scales: draw.tensor(scales, &shape(groups))?,
            zero_points: if has_zero_points { Some(device.tensor(&zero_points, shape(groups))?) } else { None },
            ty,
            group,
            k,
        })
    }

    fn weights(&self) -> Quantized<'_> {
        let weights = quantized(self.ty, &self.codes, &self.scales).depth(self.k);
        let weights = self.group.map_or(weights, |group| weights.group(group));
        match &self.zero_points {
            Some(zero_points) => weights.zero_points(zero_points),
            None if self.ty.is_signed() => weights,
            None => weights.zero_point(if self.ty.bits() == 4 { 8 } else { 128 }),
        }
    }
}

/// A plan in an arithmetic.
fn planned<'a, E: Epilogue>(
    a: impl Into<Left<'a>>,
    b: impl Into<Right<'a>>,
    arithmetic: Arithmetic,
) -> Result<Gemm<E>, Error> {
    Gemm::builder::<E>(&Device::cpu()).operands(a, b)?.arithmetic(arithmetic).plan()
}

/// Runs `layer` with weights as they are, and packed.
fn check_layer(a: &DeviceTensor, given: &Given, arithmetic: Arithmetic, draw: &mut Draw) -> Result<(), Error> {
    let (device, m, n) = (Device::cpu(), a.shape()[0], given.codes.shape()[0]);
    let gemm = planned::<Layer>(a, given.weights(), arithmetic)?;
    let bias = draw.tensor(ElementType::F32, &[n])?;
    let packed = gemm.pack(given.weights())?;
    let mut results = Vec::new();
    for right in [Right::from(given.weights()), Right::from(&packed)] {
        let mut d = device.full::<f32>([m, n], 77.0)?;
        let (mut row_sums, mut column_sums) = (device.zeros::<f32>([m])?, device.zeros::<f32>([n])?);
        let mut largest = device.zeros::<f32>([])?;
        macro_rules! arguments {
            () => {
                Layer {
                    bias: &bias,
                    d: &mut d,
                    row_sums: &mut row_sums,
                    column_sums: &mut column_sums,
                    largest: &mut largest,
                }
            };
        }
        let reference = gemm.reference(a, right.clone(), arguments!())?;
        gemm.run(a, right, arguments!())?;
        for (name, tensor) in [("d", &d), ("row_sums", &row_sums), ("column_sums", &column_sums), ("largest", &largest)]
        {
            reference.compare(name, tensor)?.check()?;
        }
        results.push(d.to_bytes()?);
    }
    assert_eq!(results[0], results[1], "packed weights give the same bits");
    Ok(())
}

#[test]
fn results_lie_within_the_references_bounds() -> Result<(), Error> {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |time| time.as_nanos());
    for case in 0..testing::cases(30) {
        let mut draw = Draw(seed as u64 ^ u64::from(case) << 40);
        let m = draw.of(&[1, 1, 2, 3, 5, 8, 15, 17, 33, 70]);
        let shape = [draw.next(90) + 1, draw.of(&[1, 5, 31, 64, 100, 129, 512, 700])];
        let given = Given::draw(&mut draw, None, shape)?;
        let a = draw.of(&[ElementType::F32, ElementType::BF16, ElementType::F16]);
        let a = draw.tensor(a, &[m, shape[1]])?;
        for arithmetic in [Arithmetic::Exact, Arithmetic::Int8Activations] {
            let checked = check_layer(&a, &given, arithmetic, &mut draw);
            assert!(checked.is_ok(), "seed {seed}, case {case}: {:?}, {arithmetic:?}: {checked:?}", given.weights());
        }
    }
    Ok(())
}

/// Codes of few bits times integers are exact sums in every order.
#[test]
fn exact_products_are_those_of_dequantised_weights() -> Result<(), Error> {
    let (device, mut draw) = (Device::cpu(), Draw(7));
    for ty in [CodeType::Int4, CodeType::Uint4, CodeType::Int8, CodeType::Uint8] {
        for (m, k, group) in [(1, 128, Some(32)), (7, 77, Some(64)), (40, 600, None), (64, 64, Some(16))] {
            let n = 50;
            let has_zero_points = !ty.is_signed();
            let mut given = Given::new(&mut draw, None, [n, k], (ty, group, ElementType::F16, has_zero_points))?;
            let scales: Vec<f16> = (0..given.scales.len()).map(|i| f16::from_f32([0.5, -2.0, 1.0][i % 3])).collect();
            given.scales = device.tensor(&scales, given.scales.shape())?;
            let a: Vec<f32> = (0..m * k).map(|i| ((i * 7 % 9) as f32) - 4.0).collect();
            for element in [ElementType::F32, ElementType::BF16, ElementType::F16] {
                let a = of_type(element, &a, &[m, k])?;
                let (mut quantised, mut dense) = (device.zeros::<f32>([m, n])?, device.zeros::<f32>([m, n])?);
                let b = given.weights().dequantized(ElementType::F32)?;
                Gemm::plan::<Plain>(&device, &a, given.weights())?.run(
                    &a,
                    given.weights(),
                    Plain { accum: &mut quantised },
                )?;
                Gemm::plan::<Plain>(&device, &a, &b)?.run(&a, &b, Plain { accum: &mut dense })?;
                assert_eq!(quantised.to_vec::<f32>()?, dense.to_vec::<f32>()?, "{ty} by {element}, {m}x{n}x{k}");
            }
        }
    }
    Ok(())
}

/// `Int8Activations` of integers with a scale of 1 are exact, too.
#[test]
fn activations_of_integers_stay_what_they_are() -> Result<(), Error> {
    let (device, mut draw) = (Device::cpu(), Draw(8));
    for (ty, m) in [(CodeType::Int4, 1), (CodeType::Uint4, 9), (CodeType::Int8, 3), (CodeType::Uint8, 33)] {
        let (n, k) = (40, 96);
        let mut given = Given::new(&mut draw, None, [n, k], (ty, Some(32), ElementType::F32, !ty.is_signed()))?;
        given.scales = device.full::<f32>([n, 3], 0.5)?;
        // Each block has a 127.
        let a: Vec<f32> = (0..m * k).map(|i| if i % 32 == 5 { 127.0 } else { (i * 37 % 255) as f32 - 127.0 }).collect();
        let a = device.tensor(&a, [m, k])?;
        let b = given.weights().dequantized(ElementType::F32)?;
        let mut d = [device.zeros::<f32>([m, n])?, device.zeros::<f32>([m, n])?];
        let gemm = planned::<Plain>(&a, given.weights(), Arithmetic::Int8Activations)?;
        gemm.run(&a, given.weights(), Plain { accum: &mut d[0] })?;
        Gemm::plan::<Plain>(&device, &a, &b)?.run(&a, &b, Plain { accum: &mut d[1] })?;
        assert_eq!(d[0].to_vec::<f32>()?, d[1].to_vec::<f32>()?, "{ty}");
    }
    Ok(())
}

#[test]
fn several_accumulators_and_phases_take_them() -> Result<(), Error> {
    let (device, mut draw) = (Device::cpu(), Draw(9));
    for m in [1, 6, 30] {
        let (n, k) = (200, 96);
        let form = (CodeType::Uint4, Some(32), ElementType::F16, true);
        let [gate, up] = [Given::new(&mut draw, None, [n, k], form)?, Given::new(&mut draw, None, [n, k], form)?];
        let a = draw.tensor(ElementType::F32, &[m, k])?;
        let gemm = Gemm::plan::<Gated>(&device, &a, [gate.weights(), up.weights()])?;
        let packed: [Packed; 2] = [gemm.pack(gate.weights())?, gemm.pack(up.weights())?];
        let mut d = device.zeros::<f32>([m, n])?;
        let both = || Right::from([&packed[0], &packed[1]]);
        let reference = gemm.reference(&a, both(), Gated { d: &mut d })?;
        gemm.run(&a, both(), Gated { d: &mut d })?;
        reference.compare("d", &d)?.check()?;

        let gemm = Gemm::plan::<Softmax>(&device, &a, gate.weights())?;
        let reference = gemm.reference(&a, gate.weights(), Softmax { d: &mut d })?;
        gemm.run(&a, gate.weights(), Softmax { d: &mut d })?;
        reference.compare("d", &d)?.check()?;
    }
    Ok(())
}

#[test]
fn batches_and_experts_have_weights_each() -> Result<(), Error> {
    let (device, mut draw) = (Device::cpu(), Draw(10));
    let (n, k, experts) = (35, 70, 3);
    let form = (CodeType::Int4, Some(32), ElementType::BF16, false);
    let given = Given::new(&mut draw, Some(experts), [n, k], form)?;
    for arithmetic in [Arithmetic::Exact, Arithmetic::Int8Activations] {
        let a = draw.tensor(ElementType::F32, &[experts, 4, k])?;
        let gemm = planned::<Plain>(&a, given.weights(), arithmetic)?;
        let mut d = device.zeros::<f32>([experts, 4, n])?;
        let reference = gemm.reference(&a, given.weights(), Plain { accum: &mut d })?;
        gemm.run(&a, &gemm.pack(given.weights())?, Plain { accum: &mut d })?;
        reference.compare("accum", &d)?.check()?;

        // Rows of tokens that an index picks, in groups.
        let tokens = draw.tensor(ElementType::BF16, &[9, k])?;
        let index = device.tensor(&[0i32, 3, 8, 1, 1, 5, 2, 7], [8])?;
        let offsets = device.tensor(&[0i32, 2, 2, 8], [experts + 1])?;
        let left = || rows(&tokens).picked(&index).in_groups(&offsets);
        let gemm = planned::<Plain>(left(), given.weights(), arithmetic)?;
        let mut d = device.zeros::<f32>([8, n])?;
        let reference = gemm.reference(left(), given.weights(), Plain { accum: &mut d })?;
        gemm.run(left(), &gemm.pack(given.weights())?, Plain { accum: &mut d })?;
        reference.compare("accum", &d)?.check()?;
    }
    Ok(())
}

/// Scales and elements that aren't ordinary numbers give what weights would give.
#[test]
fn special_numbers_give_what_weights_would_give() -> Result<(), Error> {
    let (device, mut draw) = (Device::cpu(), Draw(11));
    let (n, k) = (20, 64);
    let specials = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, f32::MIN_POSITIVE / 4.0, 3.0e38];
    for m in [1, 4, 40] {
        let form = (CodeType::Uint4, Some(32), ElementType::F32, true);
        let mut given = Given::new(&mut draw, None, [n, k], form)?;
        let mut numbers = draw.tensor(ElementType::F32, &[m, k])?.to_vec::<f32>()?;
        for (of_scales, of_a) in [(true, false), (false, true), (true, true)] {
            if of_scales {
                let scales: Vec<f32> = (0..n * 2).map(|i| if i % 3 == 0 { specials[i % 8] } else { 0.5 }).collect();
                given.scales = device.tensor(&scales, [n, 2])?;
            }
            if of_a {
                numbers.iter_mut().step_by(41).enumerate().for_each(|(i, x)| *x = specials[i % 8]);
            }
            let a = device.tensor(&numbers, [m, k])?;
            for arithmetic in [Arithmetic::Exact, Arithmetic::Int8Activations] {
                let gemm = planned::<Plain>(&a, given.weights(), arithmetic)?;
                let mut d = device.zeros::<f32>([m, n])?;
                let reference = gemm.reference(&a, given.weights(), Plain { accum: &mut d })?;
                gemm.run(&a, given.weights(), Plain { accum: &mut d })?;
                reference.compare("accum", &d)?.check()?;
            }
        }
    }
    Ok(())
}

/// Sums of large elements and small scales stay finite.
#[test]
fn large_elements_do_not_overflow_before_the_scale() -> Result<(), Error> {
    let device = Device::cpu();
    let (codes, scales) = (device.full::<u8>([16, 32], 0xff)?, device.full::<f32>([16, 1], 1e-30)?);
    let weights = quantized(CodeType::Uint4, &codes, &scales).zero_point(0);
    let a = device.full::<f32>([1, 64], 1e38)?;
    let mut d = device.zeros::<f32>([1, 16])?;
    Gemm::plan::<Plain>(&device, &a, weights)?.run(&a, weights, Plain { accum: &mut d })?;
    assert!(d.to_vec::<f32>()?.iter().all(|x| (x / 9.6e10 - 1.0).abs() < 1e-5), "{d:?}");
    Ok(())
}

#[test]
fn empty_products_are_zero() -> Result<(), Error> {
    let device = Device::cpu();
    for (m, n, k) in [(3, 5, 0), (0, 5, 32), (3, 0, 32)] {
        let codes = device.zeros::<u8>([n, k / 2])?;
        let scales = device.zeros::<f32>([n, k / 32])?;
        let weights = quantized(CodeType::Int4, &codes, &scales).group(32);
        let (a, mut d) = (device.zeros::<f32>([m, k])?, device.full::<f32>([m, n], 1.0)?);
        for arithmetic in [Arithmetic::Exact, Arithmetic::Int8Activations] {
            let gemm = planned::<Plain>(&a, weights, arithmetic)?;
            gemm.run(&a, &gemm.pack(weights)?, Plain { accum: &mut d })?;
            assert!(d.to_vec::<f32>()?.iter().all(|x| *x == 0.0));
        }
    }
    Ok(())
}

/// A plan's format is what its description says, whatever was planned before.
#[test]
fn codes_never_meet_a_plan_of_bytes() -> Result<(), Error> {
    let device = Device::cpu();
    let codes = device.full::<u8>([32, 32], 0x21)?;
    let scales = device.full::<f16>([32, 1], f16::ONE)?;
    let a = device.full::<f32>([2, 32], 1.0)?;
    let (four, eight) = (quantized(CodeType::Uint4, &codes, &scales).zero_point(0), codes.transpose()?);
    let wide = device.full::<f32>([2, 64], 1.0)?;
    let byte = quantized(CodeType::Uint8, &codes, &scales).zero_point(0);
    let run = |gemm: &Gemm<Plain>, a: &DeviceTensor, b: Right<'_>| -> Result<f32, Error> {
        let mut d = device.zeros::<f32>([2, 32])?;
        gemm.run(a, b, Plain { accum: &mut d })?;
        Ok(d.to_vec::<f32>()?[33])
    };
    for _ in 0..2 {
        let plans = [
            Gemm::plan::<Plain>(&device, &wide, four)?,
            Gemm::plan::<Plain>(&device, &a, byte)?,
            Gemm::plan::<Plain>(&device, &a, &eight)?,
        ];
        assert_eq!(run(&plans[0], &wide, four.into())?, 96.0);
        assert_eq!(run(&plans[1], &a, byte.into())?, 1056.0);
        assert_eq!(run(&plans[2], &a, (&eight).into())?, 1056.0);
        for (gemm, a, b) in
            [(&plans[0], &a, Right::from(byte)), (&plans[1], &wide, four.into()), (&plans[2], &a, byte.into())]
        {
            assert!(matches!(run(gemm, a, b), Err(Error::Format(_) | Error::OperandElement { .. })));
        }
        let packed = [plans[0].pack(four)?, plans[1].pack(byte)?, plans[2].pack(&eight)?];
        for (i, gemm) in plans.iter().enumerate() {
            for (j, packed) in packed.iter().enumerate().filter(|(j, _)| *j != i) {
                let error = run(gemm, if j == 0 { &wide } else { &a }, packed.into());
                assert!(matches!(error, Err(Error::OtherPacking { .. } | Error::OperandElement { .. })), "{error:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_builder_plans_them_by_extents() -> Result<(), Error> {
    let device = Device::cpu();
    let mut draw = Draw(12);
    let given = Given::new(&mut draw, None, [48, 64], (CodeType::Uint8, Some(64), ElementType::F32, true))?;
    let a = draw.tensor(ElementType::F16, &[5, 64])?;
    let format = given.weights().quantization();
    let builder: Builder<Plain> = Gemm::builder(&device).elements(ElementType::F16, ElementType::F16);
    let gemm = builder.problem(5, 48, 64).weights(format).plan()?;
    let mut d = [device.zeros::<f32>([5, 48])?, device.zeros::<f32>([5, 48])?];
    gemm.run(&a, given.weights(), Plain { accum: &mut d[0] })?;
    Gemm::plan::<Plain>(&device, &a, given.weights())?.run(&a, given.weights(), Plain { accum: &mut d[1] })?;
    assert_eq!(d[0].to_bytes()?, d[1].to_bytes()?);
    Ok(())
}

/// Tiles of any extents, for per-tile partials.
#[test]
fn tiles_may_cut_panels() -> Result<(), Error> {
    use epilogue::gemm::{Instruction, Tile};
    let (device, mut draw) = (Device::cpu(), Draw(13));
    let given = Given::new(&mut draw, None, [101, 80], (CodeType::Int4, Some(16), ElementType::F16, false))?;
    let a = draw.tensor(ElementType::F32, &[23, 80])?;
    let tile = Tile { m: 7, n: 21, ..Tile::all(Instruction::MmaF16)[0] };
    for arithmetic in [Arithmetic::Exact, Arithmetic::Int8Activations] {
        let builder = Gemm::builder::<Plain>(&device).operands(&a, given.weights())?.arithmetic(arithmetic);
        let gemm = builder.tile(tile).plan()?;
        let mut d = device.zeros::<f32>([23, 101])?;
        let reference = gemm.reference(&a, given.weights(), Plain { accum: &mut d })?;
        gemm.run(&a, given.weights(), Plain { accum: &mut d })?;
        reference.compare("accum", &d)?.check()?;
    }
    Ok(())
}
