//! Running maxima and minima with their indices, and running sums of exponentials: PyTorch's values.

use epilogue::te::ops::Running;
use epilogue::te::{self, TeError, Tensor, ops, var};
use epilogue_runtime::testing;
use expect_test::expect;

use super::cases::{Case, assert_close, everywhere};
use super::indexing::refused;

/// Made by `running.py` beside it.
const VALUES: &str = include_str!("../../golden/operations/running.txt");

fn running(options: &str) -> Running {
    let mut words = options.split(' ');
    let running = match words.next() {
        Some("all") | None => Running::all(),
        Some(dimension) => Running::along(dimension.parse::<i32>().unwrap_or_else(|_| panic!("{dimension}"))),
    };
    words.fold(running, |running, word| if word == "exclusive" { running.exclusive() } else { running.reversed() })
}

#[test]
fn running_extremes_are_pytorchs() -> Result<(), TeError> {
    // A drawn sample, in which each line has the same chance.
    let every = (24 / u64::from(testing::cases(1)).max(1)).max(1) as usize;
    let first = fastrand::usize(..every);
    for (number, line) in VALUES.lines().enumerate().skip(first).step_by(every) {
        let case = Case::of(line);
        let extents: Vec<te::Expr> =
            case.shape.iter().map(|extent| if number % 2 == 0 { var("n").into() } else { (*extent).into() }).collect();
        let x = te::placeholder(extents, "x");
        let along = running(case.options);
        let results: Vec<Tensor> = match case.operation {
            "cummax" => ops::cummax_with_indices(&x, along)?.into(),
            "cummin" => ops::cummin_with_indices(&x, along)?.into(),
            _ => vec![ops::log_cumsum_exp(&x, along)?],
        };
        let check = |got: &[Vec<f64>], what: &str| {
            let units = if case.operation == "log_cumsum_exp" { 64.0 } else { 0.0 };
            for (got, wanted) in got.iter().zip(&case.results) {
                assert_close(got, wanted, units, what);
            }
        };
        let given = [(x, case.elements.clone(), &case.shape[..])];
        everywhere(&case, &results, &given, number % 16 < 2, &check)?;
    }
    Ok(())
}

#[test]
fn values_alone_are_one_scan_that_runs_in_parallel() -> Result<(), TeError> {
    let x = te::placeholder([var("n")], "x");
    for result in [ops::cummax(&x, 0)?, ops::cummin(&x, -1)?] {
        assert!(te::auto::scan(&result)?.is_parallel_in_time());
    }
    let x = te::placeholder_of(epilogue::ElementType::I32, [3], "x");
    refused(ops::cummax(&x, 1), &expect!["x has 1 data axes, number 1 was asked for; numbers go from -1 to 0"]);
    refused(
        ops::cummin_with_indices(&x, -2),
        &expect!["x has 1 data axes, number -2 was asked for; numbers go from -1 to 0"],
    );
    refused(
        ops::log_cumsum_exp(&x, 0),
        &expect!["`log_cumsum_exp` takes no operand of type i32; convert it with `.cast(…)`"],
    );
    Ok(())
}
