//! Pooling and batch normalisation: PyTorch's values, and what is refused.

use epilogue::te::ops::Pooling;
use epilogue::te::{self, Expr, TeError, Tensor, ops, var};
use expect_test::expect;

use super::cases::{Case, assert_close, everywhere, numbers};
use super::indexing::refused;

/// Made by `images.py` beside it.
const VALUES: &str = include_str!("../../golden/operations/images.txt");

fn pooled<const AXES: usize>(case: &Case<'_>, x: &Tensor, fields: &[Vec<usize>]) -> Result<Tensor, TeError> {
    let of = |field: usize| -> [usize; AXES] { fields[field].clone().try_into().expect("an entry for each axis") };
    let mut pooling = Pooling::new(of(0)).stride(of(1)).padding(of(2)).dilation(of(3));
    if case.options.contains("ceil") {
        pooling = pooling.ceil();
    }
    if case.options.contains("padding_counts") {
        pooling = pooling.padding_counts();
    }
    if case.operation == "max_pool" { ops::max_pool(x, pooling) } else { ops::average_pool(x, pooling) }
}

#[test]
fn images_are_pooled_and_normalised_as_by_pytorch() -> Result<(), TeError> {
    for (number, line) in VALUES.lines().enumerate() {
        let case = Case::of(line);
        // The channels have a number; the other extents are sizes, or numbers too.
        let extent = |(place, extent): (usize, &usize)| -> Expr {
            if number % 2 == 0 && place != 1 { var("n").into() } else { (*extent).into() }
        };
        let x = te::placeholder(case.shape.iter().enumerate().map(extent).collect::<Vec<Expr>>(), "x");
        let mut given = vec![(x.clone(), case.elements.clone(), &case.shape[..])];
        let channels = [case.shape[1]];
        let result = if case.operation == "batch_norm" {
            let mut of = |name, values: &str| {
                let tensor = te::placeholder(channels, name);
                given.push((tensor.clone(), numbers(values), &channels));
                tensor
            };
            let fields: Vec<&str> = case.options.split(", ").collect();
            let is_batch = fields[0] == "batch";
            let statistics = (!is_batch).then(|| (of("mean", fields[0]), of("var", fields[1])));
            let (weight, bias) = (of("weight", fields[2]), of("bias", fields[3]));
            let statistics = statistics.as_ref().map(|(mean, var)| [mean, var]);
            ops::batch_norm(&x, statistics, Some(&weight), Some(&bias), 1e-5)?
        } else {
            let fields: Vec<Vec<usize>> = (case.options.split(", ").take(4))
                .map(|field| numbers(field).into_iter().map(|x| x as usize).collect())
                .collect();
            match fields[0].len() {
                1 => pooled::<1>(&case, &x, &fields)?,
                2 => pooled::<2>(&case, &x, &fields)?,
                _ => pooled::<3>(&case, &x, &fields)?,
            }
        };
        let check = |got: &[Vec<f64>], what: &str| {
            let units = match case.operation {
                "max_pool" => 0.0,
                "average_pool" => 4.0,
                _ => 32.0,
            };
            assert_close(&got[0], &case.results[0], units, what);
        };
        everywhere(&case, &[result], &given, number % 11 == 0, &check)?;
    }
    Ok(())
}

#[test]
fn windows_that_do_not_fit() {
    let of = |shape: &[usize]| te::placeholder(shape.to_vec(), "x");
    refused(
        ops::max_pool(&of(&[4]), Pooling::new([2, 2])),
        &expect!["max_pool: the tensor x is [4]; it must be of 2 or more dimensions, as the window"],
    );
    refused(
        ops::average_pool(&of(&[3, 4]), Pooling::new([5, 2]).padding([0, 0])),
        &expect![
            "average_pool: the tensor x is [3, 4]; it must be at least 5 along dimension 0, the reach of the window; with its padding it is 3"
        ],
    );
    refused(
        ops::max_pool(&of(&[3, 0]), Pooling::new([2]).ceil()),
        &expect![
            "max_pool: the tensor x is [3, 0]; it must be at least 2 along dimension 1, the reach of the window; with its padding it is 0"
        ],
    );
    refused(
        ops::max_pool(&of(&[3, 4]), Pooling::new([0])),
        &expect!["max_pool: the window is 0; it must be from 1 to 2147483647"],
    );
    refused(
        ops::max_pool(&of(&[3, 4]), Pooling::new([2]).stride([0])),
        &expect!["max_pool: the stride is 0; it must be from 1 to 2147483647"],
    );
    refused(
        ops::max_pool(&of(&[3, 4]), Pooling::new([3]).dilation([1 << 31])),
        &expect!["max_pool: the dilation is 2147483648; it must be from 1 to 2147483647"],
    );
    refused(
        ops::max_pool(&of(&[3, 4]), Pooling::new([3]).dilation([(1 << 31) - 1])),
        &expect!["max_pool: the reach of the window is 4294967295; it must be from 1 to 2147483647"],
    );
    let integers = te::placeholder_of(epilogue::ElementType::I32, [4], "x");
    refused(
        ops::average_pool(&integers, Pooling::new([2])),
        &expect!["`average_pool` takes no operand of type i32; convert it with `.cast(…)`"],
    );
    let x = of(&[2, 3, 4]);
    refused(
        ops::batch_norm(&x, Some([&of(&[4]), &of(&[3])]), None, None, 1e-5),
        &expect!["batch_norm: the mean x is [4]; it must be [3], as the channels"],
    );
    assert!(ops::max_pool(&of(&[3, 4]), Pooling::new([2]).padding([(1 << 31) - 1])).is_err());
}
