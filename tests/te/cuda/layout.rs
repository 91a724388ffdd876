//! Layouts: other orders of a tensor's elements in memory, and circular memory.

use epilogue::ElementType;
use epilogue::te::{self, AXIS_SEPARATOR, Expr, LayoutIndex, ScheduleError, TeError, Var};
use epilogue_runtime::testing::cases;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

/// The index of an element in memory.
type Place = dyn Fn(usize, usize) -> usize;

/// A layout of a matrix of `n * 4` by `m * 6` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Plain,
    Transposed,
    Tiled,
    /// Tiled, with the tiles' indices flattened separately.
    Separated,
    Fused,
    /// Quotients and remainders of a fused index.
    Interleaved,
}

impl Layout {
    fn indices(self, i: &[Var], m: usize) -> Vec<LayoutIndex> {
        let ([row, column], columns) = ([i[0], i[1]], m as i32 * 6);
        match self {
            Self::Plain => vec![row.into(), column.into()],
            Self::Transposed => vec![column.into(), row.into()],
            Self::Tiled => vec![(row / 4).into(), (column / 3).into(), (row % 4).into(), (column % 3).into()],
            Self::Separated => {
                vec![(row / 4).into(), (column / 3).into(), AXIS_SEPARATOR, (row % 4).into(), (column % 3).into()]
            }
            Self::Fused => vec![(row * columns + column).into()],
            Self::Interleaved => {
                let whole: Expr = column * 4 + row % 4;
                vec![(row / 4).into(), whole.clone().floor_div(8).into(), AXIS_SEPARATOR, whole.floor_mod(8).into()]
            }
        }
    }

    /// The shape, and the index of each element in memory.
    fn place(self, (rows, columns): (usize, usize)) -> (Vec<usize>, Box<Place>) {
        match self {
            Self::Plain => (vec![rows, columns], Box::new(move |i, j| i * columns + j)),
            Self::Transposed => (vec![columns, rows], Box::new(move |i, j| j * rows + i)),
            Self::Tiled | Self::Separated => (
                vec![rows / 4, columns / 3, 4, 3],
                Box::new(move |i, j| ((i / 4 * (columns / 3) + j / 3) * 4 + i % 4) * 3 + j % 3),
            ),
            Self::Fused => (vec![rows * columns], Box::new(move |i, j| i * columns + j)),
            Self::Interleaved => {
                (vec![rows / 4, columns / 2, 8], Box::new(move |i, j| i / 4 * columns * 4 + j * 4 + i % 4))
            }
        }
    }

    fn of(self, values: &[f64], (rows, columns): (usize, usize)) -> Numbers {
        let (shape, place) = self.place((rows, columns));
        let mut laid_out = vec![0.0; rows * columns];
        for i in 0..rows {
            for j in 0..columns {
                laid_out[place(i, j)] = values[i * columns + j];
            }
        }
        Numbers::new(ElementType::F32, &shape, laid_out)
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    use Layout::{Fused, Interleaved, Plain, Separated, Tiled, Transposed};
    prop::sample::select(vec![Plain, Transposed, Tiled, Separated, Fused, Interleaved])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    /// An input, an intermediate tensor and an output, each in its layout, the loops split unevenly.
    #[test]
    fn of_a_matrix(
        [input, middle, output] in [layouts(), layouts(), layouts()],
        (n, m) in (1usize..4, 1usize..4), split in 1i32..6, threads: bool, symbolic: bool,
    ) {
        if lacks_nvrtc("layout::of_a_matrix") {
            return Ok(());
        }
        let (rows, columns) = (n * 4, m * 6);
        let size: Expr = if symbolic { te::var("n") * 4 } else { rows.into() };
        let a = te::placeholder((size.clone(), columns), "A");
        let b = te::compute((size.clone(), columns), "B", |[i, j]| a.at((i, j)) * 2.0).unwrap();
        let c = te::compute((size, columns), "C", |[i, j]| b.at((i, j)) + 1.0).unwrap();
        let mut s = te::create_schedule(&[&c]);
        s.stage(&a).unwrap().transform_layout(|i| input.indices(i, m)).unwrap();
        for (tensor, layout) in [(&b, middle), (&c, output)] {
            let stage = s.stage(tensor).unwrap();
            let axes = stage.transform_layout(|i| layout.indices(i, m)).unwrap();
            let (outer, inner) = stage.split(axes[axes.len() - 1], split).unwrap();
            if threads {
                let launched = if axes.len() > 1 { axes[0] } else { outer };
                stage.bind(launched, te::thread_axis("blockIdx.x")).unwrap();
                stage.bind(inner, te::thread_axis("threadIdx.x")).unwrap();
            }
        }
        let program = te::lower(&s, &[&a, &c], "main").unwrap();
        let bound = |layout: Layout| !matches!(layout, Layout::Fused | Layout::Plain | Layout::Transposed);
        prop_assume!(!symbolic || bound(input) || bound(output));
        let values = integers(rows * columns, 5);
        let (shape, _) = output.place((rows, columns));
        let results = run(&program, &[input.of(&values, (rows, columns))], &[(ElementType::F32, shape)]);
        let expected: Vec<f64> = values.iter().map(|x| x * 2.0 + 1.0).collect();
        prop_assert_eq!(&results.interpreted[0], &output.of(&expected, (rows, columns)).values);
        results.assert_equal();
    }

    /// Sums over a window of values that a loop computes window by window.
    #[test]
    fn of_a_window(
        (n, m) in (1usize..14, 1usize..6), width in 2i32..5, stride in 1i32..4, tile in 1i32..5,
        along_rows: bool, place in 0usize..3, reduced: bool, align: bool,
    ) {
        if lacks_nvrtc("layout::of_a_window") {
            return Ok(());
        }
        let rolls = tile * stride < (tile - 1) * stride + width;
        let outer_size = ((n as i32).div_euclid(tile) + i32::from(n as i32 % tile != 0)) > 1;
        let program = window((n, m), width, stride, tile, along_rows, place, reduced, align);
        if !rolls && outer_size {
            prop_assert!(matches!(program, Err(TeError::Schedule(ScheduleError::Primitive { primitive: "rolling_buffer", .. }))), "{program:?}");
            return Ok(());
        }
        let program = program.unwrap();
        let (rows, columns) = if along_rows { (n, m) } else { (m, n) };
        let long = n.saturating_sub(1) * stride as usize + width as usize;
        let (high, wide) = if along_rows { (long, m) } else { (m, long) };
        let input = Numbers::new(ElementType::F32, &[high, wide], integers(high * wide, 9));
        let expected: Vec<f64> = (0..rows * columns)
            .map(|at| {
                let (i, j) = (at / columns, at % columns);
                let at = |d: usize| if along_rows { (i * stride as usize + d) * wide + j } else { i * wide + j * stride as usize + d };
                (0..width as usize).map(|d| input.values[at(d)] * 2.0 + 1.0).sum()
            })
            .collect();
        let results = run(&program, &[input], &[(ElementType::F32, vec![rows, columns])]);
        prop_assert_eq!(&results.interpreted[0], &expected);
        results.assert_equal();
    }
}

/// `C[i, j] = Σ_d B[i * stride + d, j]` with `B = 2 A + 1` in circular memory, or the same along columns.
#[expect(clippy::too_many_arguments, reason = "the parts of a case")]
fn window(
    (n, m): (usize, usize),
    width: i32,
    stride: i32,
    tile: i32,
    along_rows: bool,
    place: usize,
    reduced: bool,
    align: bool,
) -> Result<te::Program, TeError> {
    let long = (n as i32 - 1) * stride + width;
    let (high, wide) = if along_rows { (long, m as i32) } else { (m as i32, long) };
    let a = te::placeholder([high, wide], "A");
    let one = te::reduce_axis((0, 1), "one");
    let b = te::compute([high, wide], "B", |[i, j]| {
        let value = a.at((i, j)) * 2.0 + 1.0;
        if reduced { te::sum(value, [one]) } else { value }
    })?;
    let d = te::reduce_axis((0, width), "d");
    let (rows, columns) = if along_rows { (n, m) } else { (m, n) };
    let c = te::compute((rows, columns), "C", |[i, j]| {
        let at: (Expr, Expr) = if along_rows { (i * stride + d, j.into()) } else { (i.into(), j * stride + d) };
        te::sum(b.at(at), [d])
    })?;
    let mut s = te::create_schedule(&[&c]);
    let (along, across) = if along_rows { (c.axis(0)?, c.axis(1)?) } else { (c.axis(1)?, c.axis(0)?) };
    let stage = s.stage(&c)?;
    let (outer, inner) = stage.split(along, tile)?;
    let order = if place == 1 { [outer, inner, across, d] } else { [across, outer, inner, d] };
    stage.reorder(&order)?;
    if place == 2 {
        stage.bind(across, te::thread_axis("threadIdx.x"))?;
    }
    s.compute_at(&b, &c, outer)?;
    let stage = s.stage(&b)?;
    stage.rolling_buffer()?;
    if align {
        stage.storage_align(b.axis(0)?, 4, 1)?;
    }
    if place == 2 {
        // With other threads than those that read it.
        let thread = if along_rows { b.axis(1)? } else { b.axis(0)? };
        stage.bind(thread, te::thread_axis("threadIdx.x"))?;
        s.set_scope(&b, "shared")?;
    }
    te::lower(&s, &[&a, &c], "main")
}

/// After the first iteration, one row is computed for each row of the result.
#[test]
fn texts() -> Result<(), TeError> {
    expect![[r##"
        # from tvm.script import ir as I
        # from tvm.script import tir as T

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.Buffer((8, 4), "float32"), C: T.Buffer((6, 4), "float32")):
                T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                B = T.allocate([3], "float32", "global")
                for j, i_outer in T.grid(4, 6):
                    B_1 = T.Buffer((3,), data=B)
                    for i in range(3):
                        if T.likely(i_outer == 0 or i >= 2):
                            A_1 = T.Buffer((32,), data=A.data)
                            B_1[(i_outer + i) % 3] = A_1[i_outer * 4 + i * 4 + j] * T.float32(2.0) + T.float32(1.0)
                    C_1 = T.Buffer((24,), data=C.data)
                    C_1[i_outer * 4 + j] = T.float32(0.0)
                    for d in range(3):
                        cse_var_1: T.int32 = i_outer * 4 + j
                        C_1[cse_var_1] = C_1[cse_var_1] + B_1[(i_outer + d) % 3]
    "##]]
    .assert_eq(&window((6, 4), 3, 1, 1, true, 0, false, false)?.script());
    let a = te::placeholder((8, 6), "A");
    let b = te::compute((8, 6), "B", |[i, j]| a.at((i, j)) + 1.0)?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&a)?.transform_layout(|i| Layout::Separated.indices(i, 1))?;
    s.stage(&b)?.transform_layout(|i| Layout::Tiled.indices(i, 1))?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    expect![[r##"
        # from tvm.script import ir as I
        # from tvm.script import tir as T

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.Buffer((2, 2, 4, 3), "float32", axis_separators=[2]), B: T.Buffer((2, 2, 4, 3), "float32")):
                T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                for axis0, axis1, axis2, axis3 in T.grid(2, 2, 4, 3):
                    B_1 = T.Buffer((48,), data=B.data)
                    A_1 = T.Buffer((4, 12), data=A.data, axis_separators=[1])
                    cse_var_1: T.int32 = axis2 * 3
                    B_1[axis0 * 24 + axis1 * 12 + cse_var_1 + axis3] = A_1[axis0 * 2 + axis1, cse_var_1 + axis3] + T.float32(1.0)
    "##]].assert_eq(&program.script());
    Ok(())
}

fn refused<T: std::fmt::Debug>(result: Result<T, TeError>, message: &Expect) {
    message.assert_eq(&result.expect_err("a mistake was accepted").to_string());
}

#[test]
fn what_layouts_refuse() -> Result<(), TeError> {
    let a = te::placeholder((8, 6), "A");
    let b = te::compute((8, 6), "B", |[i, j]| a.at((i, j)) + 1.0)?;
    let c = te::compute((7, 6), "C", |[i, j]| b.at((i, j)) + b.at((i + 1, j)))?;
    let fresh = || te::create_schedule(&[&c]);
    let mut s = fresh();
    let stage = s.stage(&b)?;
    refused(
        stage.transform_layout(|i| vec![i[0].into()]),
        &expect!["`transform_layout` on B: it is not one to one: the parts of i1 don't tell each of its 6 values once"],
    );
    refused(
        stage.transform_layout(|i| vec![(i[0] / 3).into(), (i[0] % 3).into(), i[1].into()]),
        &expect![
            "`transform_layout` on B: i0 // 3 is not made of whole parts of the indices: quotients and remainders by what divides an extent, and sums of them that count without gaps"
        ],
    );
    refused(
        stage.transform_layout(|i| vec![(i[0] + i[1]).into()]),
        &expect![
            "`transform_layout` on B: i0 + i1 is not made of whole parts of the indices: quotients and remainders by what divides an extent, and sums of them that count without gaps"
        ],
    );
    refused(
        stage.transform_layout(|i| vec![AXIS_SEPARATOR, i[0].into(), i[1].into()]),
        &expect!["`transform_layout` on B: a separator has no index on one of its sides; put each between two indices"],
    );
    stage.transform_layout(|i| vec![i[1].into(), i[0].into()])?;
    refused(
        stage.transform_layout(|i| vec![i[1].into(), i[0].into()]),
        &expect!["`transform_layout` on B: it has a new layout already; give one map for both"],
    );
    refused(
        stage.storage_align(b.axis(0)?, 4, 1),
        &expect!["`storage_align` on B: it has a new layout (`transform_layout`), whose dimensions are others"],
    );
    refused(
        stage.split(b.axis(0)?, 4),
        &expect!["i is not a loop of B; it has been split or fused already, so give a loop that came of that"],
    );
    s.compute_at(&b, &c, c.axis(0)?)?;
    refused(
        te::lower(&s, &[&a, &c], "main"),
        &expect![
            "`transform_layout` on B: it is computed inside another stage, where only a part of i is needed; compute it by itself (`compute_root`)"
        ],
    );
    let mut s = fresh();
    s.stage(&b)?.split(b.axis(0)?, 4)?;
    refused(
        s.stage(&b)?.transform_layout(|i| vec![i[1].into(), i[0].into()]),
        &expect!["`transform_layout` on B: its loops are split, reordered or bound already; give the layout first"],
    );
    Ok(())
}

#[test]
fn what_circular_memory_refuses() -> Result<(), TeError> {
    let a = te::placeholder((8, 6), "A");
    let b = te::compute((8, 6), "B", |[i, j]| a.at((i, j)) + 1.0)?;
    let c = te::compute((7, 6), "C", |[i, j]| b.at((i, j)) + b.at((i + 1, j)))?;
    let fresh = || te::create_schedule(&[&c]);
    let lowered = |f: &dyn Fn(&mut te::Schedule) -> Result<(), TeError>| {
        let mut s = fresh();
        s.stage(&b)?.rolling_buffer()?;
        f(&mut s)?;
        te::lower(&s, &[&a, &c], "main")
    };
    let (i, j) = (c.axis(0)?, c.axis(1)?);
    lowered(&|s| s.compute_at(&b, &c, i))?;
    refused(
        fresh().stage(&c)?.rolling_buffer(),
        &expect![
            "`rolling_buffer` on C: it is an output, whose memory is the caller's; use it on an intermediate tensor"
        ],
    );
    refused(
        fresh().stage(&a)?.rolling_buffer(),
        &expect!["`rolling_buffer` on A: it is not a computation; use it on an intermediate tensor that is computed"],
    );
    refused(
        lowered(&|_| Ok(())),
        &expect!["`rolling_buffer` on B: it is computed in no loop of its consumer; place it with `compute_at`"],
    );
    refused(
        lowered(&|s| s.compute_at(&b, &c, j)),
        &expect![
            "`rolling_buffer` on B: j moves the window of 1 elements along j by 1: nothing that an iteration computed is used by the next"
        ],
    );
    refused(
        lowered(&|s| {
            s.stage(&c)?.parallel(i)?;
            s.compute_at(&b, &c, i)
        }),
        &expect!["`rolling_buffer` on B: the loop over i around it does not run in order"],
    );
    refused(
        lowered(&|s| {
            let fused = s.stage(&c)?.fuse(i, j)?;
            s.compute_at(&b, &c, fused)
        }),
        &expect![
            "`rolling_buffer` on B: what one iteration of i.j.fused needs of i is not a window of a constant width that moves by a constant"
        ],
    );
    let mut s = fresh();
    s.stage(&b)?.rolling_buffer()?;
    refused(
        s.stage(&b)?.double_buffer(),
        &expect![
            "`double_buffer` on B: memory is used in a circle (`rolling_buffer`) or in two halves (`double_buffer`), not both"
        ],
    );
    Ok(())
}

/// Circular memory is saved and read back; a new layout has no text.
#[test]
fn records() -> Result<(), TeError> {
    let a = te::placeholder((8, 6), "A");
    let b = te::compute((8, 6), "B", |[i, j]| a.at((i, j)) + 1.0)?;
    let c = te::compute((7, 6), "C", |[i, j]| b.at((i, j)) + b.at((i + 1, j)))?;
    let mut s = te::create_schedule(&[&c]);
    s.stage(&b)?.rolling_buffer()?;
    s.compute_at(&b, &c, c.axis(0)?)?;
    let (read, tensors) = te::Schedule::from_json(&s.to_json(&[&a, &c])?)?;
    let lowered =
        |s: &te::Schedule, tensors: &[&te::Tensor]| te::lower(s, tensors, "main").map(|program| program.script());
    assert_eq!(lowered(&read, &tensors.iter().collect::<Vec<_>>())?, lowered(&s, &[&a, &c])?);
    s.stage(&a)?.transform_layout(|i| Layout::Separated.indices(i, 1))?;
    let record = expect![[r"
        s[B].rolling_buffer()
        s[B].compute_at(s[C], i)
        s[A].transform_layout([i0 // 4, i1 // 3, AXIS_SEPARATOR, i0 % 4, i1 % 3])"]];
    record.assert_eq(&s.primitive_record().join("\n"));
    let message = s.to_json(&[&a, &c]).expect_err("a mistake was accepted").to_string();
    assert!(message.contains("A is laid out anew: a new layout has no text"), "{message}");
    Ok(())
}
