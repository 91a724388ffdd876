//! Compares a block's results with those of the loops.

use epilogue::ElementType;

use crate::Result;
use crate::block::Block;
use crate::cases::CaseResult;
use crate::data::{Data, Sizes};
use crate::loops::{Exact, exact};
use crate::values::numbers;

/// How far a result may be from the exact one: a part of its magnitude and its matrix' root mean square together.
///
/// With f32, sums of some thousand products, each rounded to 2^-24. With bf16, what products hand on is rounded to 2^-9, up to
/// five times one after another on the way to the tokens' gradients: 1/100 in all, of terms that may be larger than their sum.
pub(crate) const fn bound(element: ElementType) -> f64 {
    match element {
        ElementType::BF16 => 1.0 / 32.0,
        _ => 1e-5,
    }
}

/// The largest error of one result.
pub(crate) struct Checked {
    pub(crate) name: &'static str,
    pub(crate) error: f64,
    pub(crate) bound: f64,
}

impl Checked {
    pub(crate) fn holds(&self) -> bool {
        self.error <= self.bound
    }
}

/// Compares a block that has run forward and backward with the loops.
///
/// # Errors
/// A token that has not taken its likeliest experts; none for results that differ, which are in the list.
pub(crate) fn results(block: &Block, data: &Data, element: ElementType) -> Result<Vec<Checked>> {
    let experts = block.choices.experts.to_vec::<i32>()?;
    let Exact { probabilities, out, d_x, d_router, d_gate_up, d_down } = exact(data, &experts);
    likeliest(&experts, &probabilities, &data.sizes)?;
    let (values, gradients) = (&block.values, &block.gradients);
    // The router's results are f32 whatever its operands are. Experts have a matrix each.
    let (one, each) = (1, data.sizes.experts);
    let compared = [
        ("probabilities", &values.probabilities, probabilities, one, bound(ElementType::F32)),
        ("result", &values.out, out, one, bound(element)),
        ("gradient of tokens", &gradients.d_x, d_x, one, bound(element)),
        ("gradient of the router", &gradients.d_router, d_router, one, bound(element)),
        ("gradient of gate and up", &gradients.d_gate_up, d_gate_up, each, bound(element)),
        ("gradient of down", &gradients.d_down, d_down, each, bound(element)),
    ];
    let checked = compared.into_iter().map(|(name, tensor, exact, matrices, bound)| {
        let (given, size) = (numbers(tensor)?, exact.len() / matrices);
        let errors = given.chunks(size).zip(exact.chunks(size)).map(|(given, exact)| largest_error(given, exact));
        Ok(Checked { name, error: largest(errors), bound })
    });
    checked.collect()
}

/// Fails unless all results of all cases are within their bounds.
pub(crate) fn all(results: &[CaseResult]) -> Result<()> {
    let wrong = results.iter().flat_map(|case| case.checked.iter().map(move |checked| (case, checked)));
    match wrong.into_iter().find(|(_, checked)| !checked.holds()) {
        None => Ok(()),
        Some((case, Checked { name, error, bound })) => {
            let case = case.case.name();
            Err(format!("{case}: the {name} differs by {error:.1e} from the loops', more than {bound:.1e}").into())
        }
    }
}

/// The largest difference between matrices, as a part of the exact magnitude and the root mean square together.
fn largest_error(given: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(given.len(), exact.len(), "shapes are those of the data");
    let square = exact.iter().map(|x| x * x).sum::<f64>() / exact.len() as f64;
    let error = |(given, exact): (&f64, &f64)| match (given - exact).abs() {
        0.0 => 0.0,
        difference => difference / (exact.abs() + square.sqrt()),
    };
    largest(given.iter().zip(exact).map(error))
}

/// The largest number; NaN if there is one.
fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |a, b| if b <= a || a.is_nan() { a } else { b })
}

/// Whether each token's experts are different ones, likeliest first, and none is left that is likelier. Probabilities
/// that f32 can't tell apart may be in any order.
fn likeliest(experts: &[i32], probabilities: &[f64], sizes: &Sizes) -> Result<()> {
    let Sizes { tokens, experts: all, top, .. } = *sizes;
    for (token, p) in probabilities.chunks(all).enumerate() {
        let mut left: Vec<usize> = (0..all).collect();
        for rank in 0..top {
            let taken = experts[rank * tokens + token] as usize;
            let best = left.iter().map(|expert| p[*expert]).fold(0.0, f64::max);
            let among = left.iter().position(|expert| *expert == taken);
            let Some(place) = among.filter(|_| p[taken] >= best * (1.0 - bound(ElementType::F32))) else {
                return Err(
                    format!("token {token}: expert {taken} is its number {rank}, which should be another").into()
                );
            };
            left.remove(place);
        }
    }
    Ok(())
}
