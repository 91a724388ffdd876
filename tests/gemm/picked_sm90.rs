//! Rows that an index picks while a kernel for sm_90a multiplies, on the emulated device with the race detector.

use epilogue::gemm::launch::{FieldValue, Memory};
use epilogue::gemm::sm90::{Cluster, Hint, Hints, Request, Schedule, Tile};
use epilogue::gemm::{Builder, Finish, KernelKey, Left, Major, OperandLayout, SplitK, rows};
use epilogue::prelude::*;
use epilogue::{Arch, Argument, DataError, DeviceTensor, Error, runtime};
use epilogue_runtime::ptx_vm::{Completion, Module};
use epilogue_runtime::{Output, testing};
use half::f16;

use crate::groups::rough;
use crate::hopper::{device, tile};
use crate::picked::{Plain, Softmax, copied, indices};

/// Two products of the same rows; all warps of a producer have work.
#[epilogue]
fn gated(
    gate: Accum,
    up: Accum,
    bias: RowVector,
    weight: ColumnVector<f32>,
    c: Tensor,
) -> (Tensor, ColumnVector, RowVector) {
    let d = relu(gate + bias) * up * weight + c;
    let row_sums = reduction_op(d, Row, Add);
    let column_sums = reduction_op(d, Column, Add);
    (d, row_sums, column_sums)
}

fn of(tile: Tile, swap_ab: bool, (m, stages, split_k): (usize, usize, SplitK)) -> Request {
    Request {
        tile: Some(tile),
        swap_ab: Some(swap_ab),
        stages: Some(stages),
        cluster: Some(Cluster { m, n: 1 }),
        split_k: Some(split_k),
        ..Request::default()
    }
}

/// Tiles of both schedules with rings that wrap around, in clusters along M, with every way of sharing K; and swapped, where
/// rows are the instruction's columns.
fn requests() -> Vec<Request> {
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    let swapped = |rows, columns, consumers| Tile { rows, columns, schedule: together, consumers };
    vec![
        of(tile(64, 128, together), false, (1, 3, SplitK::None)),
        of(tile(128, 128, together), false, (2, 3, SplitK::Serial(2))),
        Request { pending: Some(0), ..of(tile(64, 128, in_turns), false, (1, 2, SplitK::Stream)) },
        of(tile(128, 128, in_turns), false, (2, 3, SplitK::Parallel(2))),
        of(tile(256, 128, together), false, (1, 2, SplitK::None)),
        of(swapped(128, 16, 1), true, (1, 4, SplitK::None)),
        of(swapped(256, 32, 2), true, (2, 3, SplitK::Serial(2))),
        of(swapped(128, 8, 1), true, (1, 3, SplitK::Stream)),
    ]
}

/// Rows that begin at multiples of 16 bytes, and need not end there.
fn aligned(device: &Device, [rows, k]: [usize; 2]) -> Result<DeviceTensor, Error> {
    Ok(rough(device, &[rows, k.next_multiple_of(8) + 8], 1)?.slice(1, 0..k)?)
}

fn picks<E>(gemm: &Gemm<E>) -> Option<bool> {
    match gemm.choice().kernel()?.key {
        KernelKey::Sm90(key) => Some(key.reading.is_picked()),
        KernelKey::Sm80(_) => None,
    }
}

/// All three ways of the same kernel: rows in order, copied on the host; picked by a copy before the product; picked by the
/// kernel.
fn ways<'a>(copy: &'a DeviceTensor, a: &'a DeviceTensor, index: &'a DeviceTensor) -> [(Left<'a>, Option<bool>); 3] {
    let picked = Left::from(rows(a).picked(index));
    [(copy.into(), None), (picked, Some(false)), (picked, Some(true))]
}

/// Two products of picked rows: their bits are those of rows in order.
fn bits_are_those_of_rows_in_order(
    device: &Device,
    [limit, n, k]: [usize; 3],
    numbers: &[i32],
    request: Request,
) -> Result<(), Error> {
    let m = numbers.len();
    let (a, index) = (aligned(device, [limit, k])?, device.tensor(numbers, [m])?);
    let (gate, up) = (rough(device, &[k, n], 2)?, rough(device, &[k, n], 3)?);
    let (bias, weight, c) = (rough(device, &[n], 4)?, device.full::<f32>([m], 0.7)?, rough(device, &[m, n], 5)?);
    let copy = copied(&a, numbers)?;
    let mut results = Vec::new();
    for (left, picked) in ways(&copy, &a, &index) {
        let builder = Gemm::builder::<Gated>(device).operands(left, [&gate, &up])?.multiprocessors(4);
        let gemm = builder.sm90(Request { picked, ..request }).plan()?;
        assert_eq!(picks(&gemm), Some(picked == Some(true)));
        let mut d = device.full::<f16>([m, n], f16::ONE)?;
        let (mut row_sums, mut column_sums) = (device.full::<f32>([m], 1.0)?, device.full::<f32>([n], 1.0)?);
        let (bias, weight, c) = (&bias, &weight, &c);
        let (row_sums_, column_sums_) = (&mut row_sums, &mut column_sums);
        let arguments = Gated { bias, weight, c, d: &mut d, row_sums: row_sums_, column_sums: column_sums_ };
        gemm.run(left, [&gate, &up], arguments)?;
        results.push([d.to_bytes()?, row_sums.to_bytes()?, column_sums.to_bytes()?]);
    }
    assert!(results[0] == results[1] && results[1] == results[2], "{limit}x{n}x{k} {numbers:?}: {request}");
    Ok(())
}

#[test]
fn the_bits_are_those_of_rows_in_order() -> Result<(), Error> {
    if testing::compiler("picked_sm90::the_bits_are_those_of_rows_in_order").is_none() {
        return Ok(());
    }
    // Rows that tensor copies of the epilogue's reach, and that they don't; ends of K within a copy; fewer rows than picked.
    let extents = [[50, 24, 40], [3, 72, 456], [90, 17, 37], [1, 136, 264]];
    for (i, request) in requests().into_iter().enumerate() {
        let device = device([Completion::Lazy, Completion::Random, Completion::Eager][i % 3], i as u64);
        for (j, extents) in extents.into_iter().enumerate().skip(i % 2).step_by(2) {
            let count = [33, 200, 5, 129][(i + j) % 4];
            bits_are_those_of_rows_in_order(&device, extents, &indices(count, extents[0])[(i / 2 + j) % 4], request)?;
        }
    }
    Ok(())
}

/// Groups, with empty ones and rows of none whose numbers are none; each has its own B, two of them.
#[test]
fn groups_of_picked_rows() -> Result<(), Error> {
    if testing::compiler("picked_sm90::groups_of_picked_rows").is_none() {
        return Ok(());
    }
    let (limit, n, k, groups) = (9, 136, 200, 4);
    for (i, request) in requests().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let request = Request { split_k: Some(SplitK::None), ..request };
        let m = [150, 259][i % 2];
        let numbers: Vec<i32> =
            (0..m).map(|row| if (2..m - 2).contains(&row) { (row * 5 % limit) as i32 } else { -7 }).collect();
        let ends = [37i32, 37, m as i32 - 3, m as i32 - 2];
        let a = aligned(&device, [limit, k])?;
        let (copy, index) = (copied(&a, &numbers)?, device.tensor(&numbers, [m])?);
        let offsets = device.tensor(&[2, ends[0], ends[1], ends[2], ends[3]], [groups + 1])?;
        let weights = [2, 3].map(|seed| rough(&device, &[groups, k, n], seed));
        let [gate, up] = weights;
        let (gate, up) = (gate?, up?);
        let (bias, weight) = (rough(&device, &[groups, n], 4)?, device.full::<f32>([m], 0.7)?);
        let c = rough(&device, &[m, n], 5)?;
        let mut results = Vec::new();
        let of_copy = rows(&copy).in_groups(&offsets);
        let picked = rows(&a).picked(&index).in_groups(&offsets);
        for (left, picked) in [(of_copy, None), (picked, Some(false)), (picked, Some(true))] {
            let builder = Gemm::builder::<Gated>(&device).operands(left, [&gate, &up])?.multiprocessors(4);
            let gemm = builder.sm90(Request { picked, ..request }).plan()?;
            assert_eq!(picks(&gemm), Some(picked == Some(true)));
            let mut d = device.full::<f16>([m, n], f16::ONE)?;
            let (mut row_sums, mut column_sums) =
                (device.full::<f32>([m], 1.0)?, device.full::<f32>([groups, n], 1.0)?);
            let (bias, weight, c) = (&bias, &weight, &c);
            let (row_sums_, column_sums_) = (&mut row_sums, &mut column_sums);
            let arguments = Gated { bias, weight, c, d: &mut d, row_sums: row_sums_, column_sums: column_sums_ };
            gemm.run(left, [&gate, &up], arguments)?;
            device.check()?;
            results.push([d.to_bytes()?, row_sums.to_bytes()?, column_sums.to_bytes()?]);
        }
        assert!(results[0] == results[1] && results[1] == results[2], "{m} rows: {request}");
    }
    Ok(())
}

/// A number that is not a row's is a row of zeros, and is reported.
#[test]
fn wrong_numbers_are_zeros_and_reported() -> Result<(), Error> {
    if testing::compiler("picked_sm90::wrong_numbers_are_zeros_and_reported").is_none() {
        return Ok(());
    }
    let of_kernel = Request { picked: Some(true), ..Request::default() };
    for (i, wrong) in [-1, 6, i32::MIN, i32::MAX].into_iter().enumerate() {
        let device = device(Completion::Random, i as u64);
        let (a, b) = (rough(&device, &[6, 40], 1)?, rough(&device, &[2, 40, 24], 2)?);
        let numbers = [3, wrong, 0, 5, 5];
        let (index, copy) = (device.tensor(&numbers, [5])?, copied(&a, &numbers)?);
        let ends = device.tensor(&[1i32, 5], [2])?;
        let in_groups = i % 2 == 1;
        let one = b.slice(0, 0..1)?.reshape([40, 24])?;
        let b = if in_groups { &b } else { &one };
        let (mut d, mut expected) = (device.zeros::<f16>([5, 24])?, device.full::<f16>([5, 24], f16::ONE)?);
        let left = if in_groups { rows(&copy).in_groups_to(&ends) } else { (&copy).into() };
        Gemm::plan::<Plain>(&device, left, b)?.run(left, b, Plain { d: &mut expected })?;
        let expected = expected.to_bytes()?;
        device.check()?;
        let picked = rows(&a).picked(&index);
        let left = if in_groups { picked.in_groups_to(&ends) } else { picked.into() };
        let gemm = Gemm::builder::<Plain>(&device).operands(left, b)?.sm90(of_kernel).plan()?;
        gemm.run(left, b, Plain { d: &mut d })?;
        match device.check() {
            Err(runtime::Error::Data(DataError::Index { tensor, dimension: 0, index, extent: 6 })) => {
                assert_eq!((tensor.as_str(), index), ("A", i64::from(wrong)));
            }
            checked => panic!("{wrong}: {checked:?}"),
        }
        let _ = d.to_bytes(); // has its report, too
        assert!(d.to_bytes()? == expected, "{wrong}");
    }
    Ok(())
}

/// Whether results are those of rows in order, for products in which some rows are none, and for whole tiles. The end
/// of K is within a copy, and A is NaN behind it.
fn is_right(device: &Device, gemm: &Gemm<Plain>, swapped: bool) -> Result<bool, Error> {
    let (limit, n, wide) = (6, 72, 304);
    let [few, whole] = if swapped { [19, 48] } else { [75, 128] };
    for (m, k, none) in [(few, 285, -1), (7, 256, limit as i32), (whole, 285, 3)] {
        let value =
            |i: usize| if i % wide < k { f16::from_f32((i as f32 * 0.618_034).fract() - 0.5) } else { f16::NAN };
        let a = device.tensor(&(0..limit * wide).map(value).collect::<Vec<_>>(), [limit, wide])?.slice(1, 0..k)?;
        let b = rough(device, &[k, n], 2)?;
        let numbers: Vec<i32> = (0..m).map(|row| [3, 5, none, 0, 5, 2, 1, 4][row % 8]).collect();
        let (index, copy) = (device.tensor(&numbers, [m])?, copied(&a, &numbers)?);
        // Elsewhere: this kernel has the name of the one with the mistake.
        let other = crate::hopper::device(Completion::Eager, 0);
        let (of_copy, of_b) = (other.tensor(&copy.to_vec::<f16>()?, [m, k])?, rough(&other, &[k, n], 2)?);
        let mut expected = other.full::<f16>([m, n], f16::ONE)?;
        let dense = Gemm::builder::<Plain>(&other).operands(&of_copy, &of_b)?.sm90(small(swapped)).plan()?;
        dense.run(&of_copy, &of_b, Plain { d: &mut expected })?;
        let mut d = device.full::<f16>([m, n], f16::ONE)?;
        gemm.run(rows(&a).picked(&index), &b, Plain { d: &mut d })?;
        if d.to_bytes()? != expected.to_bytes()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn small(swapped: bool) -> Request {
    let tile = if swapped { tile(64, 24, Schedule::Cooperative) } else { tile(64, 64, Schedule::PingPong) };
    of(tile, swapped, (1, 3, SplitK::None))
}

/// Each bound, place, count and fence of the loader has a mistake that these products show.
#[test]
fn mistakes_are_found() -> Result<(), Error> {
    const NAME: &str = "picked_sm90::mistakes_are_found";
    let Some(compiler) = testing::compiler(NAME) else { return Ok(()) };
    let mistakes = [
        ("", ""),
        ("if (row < end) {", "if (row <= end) {"),
        ("index.has(given)", "given >= 0"),
        ("if (pass >= PASSES) continue;", "if (pass >= PASSES - 1) continue;"),
        ("number < 0 ? 0 : valid", "valid"),
        ("left <= 0 ? 0 : (left < IN_CHUNK ? left : IN_CHUNK)", "left < 0 ? 0 : IN_CHUNK"),
        ("left <= 0 ? 0 : (left < IN_CHUNK ? left : IN_CHUNK)", "left < IN_CHUNK ? 0 : IN_CHUNK"),
        ("k <= common.problem.k - Config::TILE_K", "k < common.problem.k"),
        ("if (whole_rows && ", "if ("),
        ("16 * (chunk ^ row)", "16 * chunk"),
        ("work.m + 4 * copier", "work.m"),
        ("4 * (pass % 8) + lane / 8", "4 * (pass % 8)"),
        ("1 + 32 * WARPS", "32 * WARPS"),
        ("1 + 32 * WARPS", "2 + 32 * WARPS"),
        ("mbarrier_expect(full, BYTES_OF_B)", "mbarrier_expect(full, BYTES_OF_B - 16)"),
        ("fence_shared_for_copies();\n        return", "return"),
        ("            copy_async_arrive(full);\n", "            mbarrier_arrive(full);\n"),
        (
            "            mbarrier_wait(shared + C::EMPTY + 8 * ring.stage, ring.parity ^ 1);\n            if (threadIdx.x == 0)",
            "            if (threadIdx.x == 0)",
        ),
        (
            "Cluster::SHARERS * Shape<Config>::TEAM_WARPS);\n        }\n    }\n\n    // The numbers that",
            "1);\n        }\n    }\n\n    // The numbers that",
        ),
    ];
    for (i, (of, into)) in mistakes.into_iter().enumerate() {
        let swapped = i % 2 == 1;
        let device = device([Completion::Lazy, Completion::Random][i / 2 % 2], i as u64);
        let layouts = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn));
        let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16).problem(75, 72, 285);
        let builder = builder.picked_rows().layouts(layouts.0, layouts.1).multiprocessors(2);
        let gemm = builder.sm90(Request { picked: Some(true), ..small(swapped) }).plan()?;
        let (Some(kernel), Some(source)) = (gemm.kernel(), gemm.kernel_source()) else { panic!("a kernel") };
        let mut source = source.clone();
        let (before, after) =
            source.code.split_at(source.code.find("// ==== sm90/picked.cuh ====").expect("its header"));
        assert!(of.is_empty() || after.contains(of), "{of}");
        source.code = format!("{before}{}", if of.is_empty() { after.to_owned() } else { after.replacen(of, into, 1) });
        let ptx = compiler.compile(&source, Arch::SM_90A, Output::Ptx)?.ptx;
        device.substitute(kernel.name(), Some(Module::parse(&ptx).expect("PTX")))?;
        let right = is_right(&device, &gemm, swapped);
        assert_eq!(matches!(right, Ok(true)), of.is_empty(), "{of} -> {into}: {right:?}");
    }
    Ok(())
}

/// One plan, any index and any rows: more or fewer than planned, none, other numbers in the same memory; rows that the kernel
/// can't pick are copied.
#[test]
fn one_plan_takes_any_index() -> Result<(), Error> {
    if testing::compiler("picked_sm90::one_plan_takes_any_index").is_none() {
        return Ok(());
    }
    let device = device(Completion::Random, 3);
    let (n, k) = (72, 104);
    let b = rough(&device, &[k, n], 2)?;
    let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16).problem(100, n, k);
    let layouts = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn));
    let gemm = builder.picked_rows().layouts(layouts.0, layouts.1).multiprocessors(4);
    let gemm = gemm.sm90(Request { picked: Some(true), ..requests()[0] }).plan()?;
    assert_eq!(picks(&gemm), Some(true));
    let (mut bits, mut kernels) = (Vec::new(), Vec::new());
    for (i, (limit, count)) in [(40, 200), (7, 3), (1, 70), (40, 0), (40, 200)].into_iter().enumerate() {
        let numbers = indices(count, limit)[(i + 3) % 4].clone();
        let index = device.tensor(&numbers, [count])?;
        // The last time, rows begin at multiples of 2 bytes.
        let wide = rough(&device, &[limit, k + if i == 4 { 1 } else { 0 }], 7)?;
        let a = wide.slice(1, 0..k)?;
        let left = rows(&a).picked(&index);
        let mut d = device.full::<f16>([count, n], f16::ONE)?;
        gemm.run(left, &b, Plain { d: &mut d })?;
        gemm.reference(left, &b, Plain { d: &mut d })?.compare("d", &d)?.check()?;
        let copy = copied(&a, &numbers)?;
        let dense = Gemm::builder::<Plain>(&device).operands(&copy, &b)?.sm90(requests()[0]).plan()?;
        let mut expected = device.full::<f16>([count, n], f16::ONE)?;
        dense.run(&copy, &b, Plain { d: &mut expected })?;
        bits.push(d.to_bytes()? == expected.to_bytes()?);
        kernels.push(gemm.describe_launch(left, &b, &[Argument::Output(&mut d)]).is_ok());
    }
    assert_eq!(bits, [true; 5]);
    assert_eq!(kernels, [true, true, true, true, false], "a description has one launch");
    // Without K there are no products.
    let (a, b) = (device.zeros::<f16>([5, 0])?, device.zeros::<f16>([0, n])?);
    let index = device.tensor(&[4i32, 0, 4], [3])?;
    let mut d = device.full::<f16>([3, n], f16::ONE)?;
    gemm.run(rows(&a).picked(&index), &b, Plain { d: &mut d })?;
    assert!(d.to_vec::<f16>()?.iter().all(|x| *x == f16::ZERO));
    Ok(())
}

/// Whole rows are values of the epilogue, in the tile; and rows of results go back to their places.
#[test]
fn with_phases_and_scattered_rows() -> Result<(), Error> {
    if testing::compiler("picked_sm90::with_phases_and_scattered_rows").is_none() {
        return Ok(());
    }
    for (i, numbers) in indices(140, 20).into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let (a, b) = (rough(&device, &[20, 72], 1)?, rough(&device, &[72, 128], 2)?);
        let (copy, index) = (copied(&a, &numbers)?, device.tensor(&numbers, [140])?);
        let places = device.tensor(&(0..140).map(|m| m * 3 % 140).collect::<Vec<i32>>(), [140])?;
        let mut results = Vec::new();
        for (left, picked) in ways(&copy, &a, &index) {
            let builder = Gemm::builder::<Softmax>(&device).operands(left, &b)?.finish(Finish::Tile);
            let gemm = builder.sm90(Request { picked, ..requests()[i % 2] }).plan()?;
            let mut d = device.zeros::<f16>([140, 128])?;
            gemm.run(left, &b, Softmax { d: &mut d })?;
            results.push(d.to_bytes()?);
        }
        assert!(results[0] == results[1] && results[1] == results[2]);
        let left = rows(&a).picked(&index).scattered(&places);
        let request = Request { picked: Some(true), ..requests()[i] };
        let gemm = Gemm::builder::<Plain>(&device).operands(left, &b)?.multiprocessors(4).sm90(request).plan()?;
        let mut d = device.zeros::<f16>([140, 128])?;
        gemm.run(left, &b, Plain { d: &mut d })?;
        gemm.reference(left, &b, Plain { d: &mut d })?.compare("d", &d)?.check()?;
    }
    Ok(())
}

/// A knob that a gathering kernel doesn't have is refused by name, and the choice says how rows are gathered, and why.
#[test]
fn the_choice_says_how_rows_are_picked() -> Result<(), Error> {
    let device = Device::emulated(Arch::SM_90A)?;
    let of = |[m, n, k]: [usize; 3]| {
        let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16);
        builder.problem(m, n, k).picked_rows()
    };
    let narrow = OperandLayout { major: Major::K, copy_bytes: 8 };
    let experts = of([65536, 1536, 2048]).groups(128);
    let choice = experts.choose()?;
    assert!(
        matches!(choice.kernel().map(|kernel| kernel.key), Some(KernelKey::Sm90(key)) if key.reading.is_picked()),
        "{choice}"
    );
    let said = choice.to_string();
    for part in
        [", groups of rows, picked rows", "with a copy of the picked rows first, about", "by a kernel for sm_80"]
    {
        assert!(said.contains(part), "{said}");
    }
    let unaligned = of([8192, 4096, 4096]).layouts(narrow, OperandLayout::packed(Major::Mn));
    let said = unaligned.choose()?.to_string();
    assert!(said.contains("A is copied first (an index picks its rows)"), "{said}");
    assert!(said.contains("pick rows only where they begin at multiples of 16 bytes"), "{said}");
    let refused = |builder: Builder<Plain>, request: Request| {
        let request = Request { picked: Some(true), ..request };
        builder.sm90(request).choose().expect_err("there is no such kernel").to_string()
    };
    let large = of([8192, 4096, 4096]);
    for (builder, request, reason) in [
        (unaligned, Request::default(), "multiples of 16 bytes"),
        (
            large.clone(),
            Request { cluster: Some(Cluster { m: 1, n: 2 }), ..Request::default() },
            "clusters of one block along N",
        ),
        (
            large.clone(),
            Request { hints: Some(Hints { a: Hint::Last, ..Hints::default() }), ..Request::default() },
            "without a hint",
        ),
        (
            large.clone(),
            Request { tile: Some(tile(256, 192, Schedule::Cooperative)), ..Request::default() },
            "too few registers",
        ),
        (
            Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16).problem(64, 64, 64),
            Request::default(),
            "no index picks the rows of A",
        ),
    ] {
        let said = refused(builder, request);
        assert!(said.contains(reason) && said.contains("picked rows"), "{said}");
    }
    // Nothing is refused that a copy allows.
    let request = Request { picked: Some(false), cluster: Some(Cluster { m: 1, n: 2 }), ..Request::default() };
    assert!(large.sm90(request).choose()?.to_string().contains("A is copied first"));
    Ok(())
}

#[test]
fn launches_are_described() -> Result<(), Error> {
    if testing::compiler("picked_sm90::launches_are_described").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_90A)?;
    let (a, b) = (rough(&device, &[6, 24], 1)?, rough(&device, &[2, 24, 64], 2)?);
    let (index, ends) = (device.tensor(&[5i32, 0, 5], [3])?, device.tensor(&[1i32, 3], [2])?);
    let left = rows(&a).picked(&index).in_groups_to(&ends);
    let mut d = device.zeros::<f16>([3, 64])?;
    let request = Request { picked: Some(true), ..Request::default() };
    let gemm = Gemm::builder::<Plain>(&device).operands(left, &b)?.sm90(request).plan()?;
    let launch = gemm.describe_launch(left, &b, &[Argument::Output(&mut d)])?;
    let value = |name: &str| launch.fields.iter().find(|field| field.name == name).map(|field| field.value);
    assert_eq!(value("picked.matrix"), Some(FieldValue::Address(Memory::A, 0)));
    assert_eq!(value("picked.rows"), Some(FieldValue::Address(Memory::Index, 0)));
    let numbers = ["picked.row_bytes", "picked.stride", "picked.limit", "picked.site", "groups.count"].map(value);
    assert_eq!(numbers, [48, 1, 6, 1, 2].map(|number| Some(FieldValue::Integer(number))));
    // No map of A.
    assert_eq!(launch.maps.iter().map(|map| map.of).collect::<Vec<_>>(), [Memory::B(0), Memory::Argument(0)]);
    Ok(())
}
