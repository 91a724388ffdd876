use proptest::prelude::*;

use super::*;

/// Small integers, so that sums of their products are exact.
fn elements<C: From<i8>>(count: usize, seed: usize) -> Vec<C> {
    (0..count).map(|i| C::from(((i * 37 + seed) % 13) as i8 - 6)).collect()
}

fn matrix<C>(elements: &[C], row: usize, column: usize) -> Matrix<C> {
    Matrix { pointer: elements.as_ptr(), row: row as isize, column: column as isize }
}

/// The expected results of a block whose `to` holds ones, in rows of `stride`.
fn wanted<C: Lanes + From<i8>>(extents: Extents, a: Matrix<C>, b: Matrix<C>, stride: usize) -> Vec<C> {
    let mut wanted = vec![C::from(1); extents.rows * stride];
    for i in 0..extents.rows {
        for j in 0..extents.columns {
            for p in 0..extents.depth {
                // SAFETY: the operands have these extents.
                wanted[i * stride + j] += unsafe { *a.at(i, p).pointer * *b.at(p, j).pointer };
            }
        }
    }
    wanted
}

fn check<C: Lanes + From<i8> + PartialEq + std::fmt::Debug>(
    extents: Extents,
    gaps: (usize, usize, usize),
    seed: usize,
) -> Result<(), TestCaseError> {
    let Extents { rows, columns, depth } = extents;
    let stride = columns + gaps.2;
    let a = elements::<C>(rows.max(1) * (depth + gaps.0), seed);
    let b = elements::<C>((columns + gaps.1) * (depth + gaps.1), seed + 5);
    let a = matrix(&a, depth + gaps.0, 1);
    let mut to = vec![C::from(1); rows * stride];
    let along_k = matrix(&b, 1, depth + gaps.1);
    // SAFETY: the operands have these extents.
    unsafe { dots(extents, a, along_k, &mut to, stride) };
    prop_assert_eq!(&to, &wanted(extents, a, along_k, stride), "dots");
    if rows == 1 {
        let along_n = matrix(&b, columns + gaps.1, 1);
        to.fill(C::from(1));
        // SAFETY: as above.
        unsafe { row(extents, a, along_n, &mut to) };
        prop_assert_eq!(&to, &wanted(extents, a, along_n, stride), "a row");
    }
    Ok(())
}

proptest! {
    /// Every element of the block is computed, and nothing else is written.
    #[test]
    fn blocks_are_multiplied(
        rows in prop_oneof![Just(1usize), 0usize..14],
        columns in 0usize..40,
        depth in 0usize..40,
        gaps in (0usize..3, 0usize..3, 0usize..3),
        seed in 0usize..100,
    ) {
        let extents = Extents { rows, columns, depth };
        check::<f32>(extents, gaps, seed)?;
        check::<f64>(extents, gaps, seed)?;
    }

    #[test]
    fn columns_become_rows(rows in 0usize..30, columns in 0usize..30) {
        let from: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
        let mut to = vec![-1.0; rows * columns];
        transpose(&from, rows, columns, &mut to);
        let wide: Vec<f64> = from.iter().map(|x| f64::from(*x)).collect();
        let mut wide_to = vec![-1.0; rows * columns];
        transpose(&wide, rows, columns, &mut wide_to);
        for i in 0..rows {
            for j in 0..columns {
                let wanted = (j * rows + i) as f32;
                prop_assert_eq!((to[i * columns + j], wide_to[i * columns + j]), (wanted, f64::from(wanted)));
            }
        }
    }
}
