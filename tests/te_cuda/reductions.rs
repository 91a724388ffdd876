//! Reductions in threads and over threads.

use epilogue::ElementType;
use epilogue::te;

use crate::case::{Numbers, cross_thread, integers, row_sums, run};

#[test]
fn rows_beyond_the_last_block_are_not_stored() -> Result<(), te::TeError> {
    let (a, b) = row_sums()?;
    let program = te::lower(&cross_thread(&b, 16, 32)?, &[&a, &b], "main")?;
    for (n, m) in [(128, 128), (1, 1), (33, 17), (31, 1), (0, 5), (5, 0), (10, 37)] {
        let values = integers(n * m, (n * 1000 + m) as u64);
        let input = Numbers::new(ElementType::F32, &[n, m], values);
        run(&program, &[input], &[(ElementType::F32, vec![n])]).assert_equal();
    }
    Ok(())
}
