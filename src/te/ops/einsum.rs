//! Sums of products that a text of axes describes, as numpy's `einsum` has it.

use super::contraction::{Factor, Labels, Types, contract};
use super::reductions::narrowed;
use crate::te::arith::equal;
use crate::te::error::{EinsumError, ExpressionError, TeError};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::text::expression;

/// The sum of products that `equation` describes: a letter for each axis of each operand, as numpy and PyTorch have it.
///
/// Operands are separated by `,`, and the output's axes stand after `->`. An axis that the output lacks is summed. An
/// axis that one operand has twice is its diagonal. Without `->`, the output has the axes that occur once, in
/// alphabetical order, capitals first. `...` stands for any number of axes: they are aligned at the right, broadcast
/// where the extent is the number 1, and the output must have them. Spaces mean nothing. All extents of a letter must
/// be provably equal; a letter is never broadcast.
///
/// | equation | result |
/// |---|---|
/// | `ij,jk->ik` | the product of matrices |
/// | `...ij,...kj->...ik` | products of batches, the right operand transposed |
/// | `bhid,bhjd->bhij` | queries times keys |
/// | `ij->ji`, `ii->i`, `ii`, `ij->j` | transposed, diagonal, trace, sums of columns |
/// | `i,j` | the outer product |
/// | `ij,jk,kl->il` | a chain of products, from left to right |
///
/// More than two operands are multiplied from left to right, so their order is the order of the work. An axis that only
/// one operand has is summed before its products, as in PyTorch. Types are those of [`matmul`](super::matmul()): each
/// sum is kept in the type of sums, and only the result is rounded.
///
/// ```
/// use epilogue::{Device, te};
///
/// let (n, m) = (te::var("n"), te::var("m"));
/// let (a, x) = (te::placeholder([n, m], "a"), te::placeholder([m], "x"));
/// let y = te::ops::einsum("ij,j->i", &[&a, &x])?;
///
/// let device = Device::cpu();
/// let (matrix, vector) =
///     (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[10f32, 1.0], [2])?);
/// let mut product = device.zeros::<f32>([2])?;
/// let kernel = te::auto::build(&[&y])?.build(&device)?;
/// kernel.run_bound(&[(&a, (&matrix).into()), (&x, (&vector).into()), (&y, (&mut product).into())])?;
/// assert_eq!(product.to_vec::<f32>()?, [12.0, 34.0]);
///
/// let error = te::ops::einsum("ij,j->k", &[&a, &x]).unwrap_err();
/// assert!(error.to_string().contains("the output has the axis k, which no operand has"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::Einsum`] for an equation that can't be read or doesn't fit the operands;
/// [`ExpressionError::MixedTypes`] as in [`matmul`](super::matmul()).
pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor, TeError> {
    let wrong = |error| TeError::from(ExpressionError::Einsum { equation: equation.to_owned(), error });
    let (terms, output) = read(equation).map_err(wrong)?;
    if terms.len() != operands.len() {
        return Err(wrong(EinsumError::Operands { needed: terms.len(), given: operands.len() }));
    }
    let types = Types::of(operands.iter().copied())?;
    let (mut known, mut factors) = (Known::default(), Vec::new());
    for (term, operand) in terms.iter().zip(operands) {
        factors.push(known.factor(term, operand).map_err(wrong)?);
    }
    let output = known.output(output, &terms).map_err(wrong)?;
    narrowed(contract("einsum", factors, &output, &known.labels, types.sum)?, types.result, "einsum")
}

/// An axis in an equation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    Letter(char),
    /// All axes of `...`.
    Rest,
}

/// The axes of an operand or of the output.
type Term = Vec<Axis>;

/// The axes of each operand, and of the output if it is given.
fn read(equation: &str) -> Result<(Vec<Term>, Option<Term>), EinsumError> {
    let (operands, output) = match equation.split_once("->") {
        Some((operands, output)) => (operands, Some(axes(output)?)),
        None => (equation, None),
    };
    Ok((operands.split(',').map(axes).collect::<Result<_, _>>()?, output))
}

fn axes(term: &str) -> Result<Vec<Axis>, EinsumError> {
    let mut axes = Vec::new();
    let mut rest = term.trim_start();
    while let Some(first) = rest.chars().next() {
        rest = if let Some(rest) = rest.strip_prefix("...") {
            if axes.contains(&Axis::Rest) {
                return Err(EinsumError::RepeatedEllipsis { term: term.trim().to_owned() });
            }
            axes.push(Axis::Rest);
            rest
        } else if first.is_ascii_alphabetic() {
            axes.push(Axis::Letter(first));
            &rest[1..]
        } else {
            return Err(EinsumError::Character { character: first });
        }
        .trim_start();
    }
    Ok(axes)
}

/// The axes that are known so far, with the tensors that gave them their extents.
#[derive(Default)]
struct Known {
    labels: Labels,
    letters: Vec<(char, usize, String)>,
    /// The axes of `...`, from the right.
    rest: Vec<(usize, String)>,
}

impl Known {
    fn factor(&mut self, term: &[Axis], operand: &Tensor) -> Result<Factor, EinsumError> {
        let (shape, name) = (operand.shape(), operand.name());
        let letters = term.iter().filter(|axis| **axis != Axis::Rest).count();
        let has_rest = letters < term.len();
        if shape.len() < letters || !has_rest && shape.len() > letters {
            return Err(EinsumError::Dimensions { tensor: name, needed: letters, given: shape.len() });
        }
        let mut extents = shape.iter();
        let mut labels = Vec::new();
        for axis in term {
            match axis {
                Axis::Letter(letter) => {
                    labels.extend(extents.next().map(|extent| self.letter(*letter, extent, &name)).transpose()?);
                }
                Axis::Rest => {
                    for place in (0..shape.len() - letters).rev() {
                        labels.extend(extents.next().map(|extent| self.of_rest(place, extent, &name)).transpose()?);
                    }
                }
            }
        }
        Ok(Factor { tensor: operand.clone(), labels })
    }

    fn letter(&mut self, letter: char, extent: &Expr, tensor: &str) -> Result<usize, EinsumError> {
        let Some((_, label, first)) = self.letters.iter().find(|(known, ..)| *known == letter) else {
            let label = self.labels.add(letter, extent.clone());
            self.letters.push((letter, label, tensor.to_owned()));
            return Ok(label);
        };
        let known = self.labels.extent(*label);
        if equal(known, extent) { Ok(*label) } else { Err(differing(letter.into(), (first, known), (tensor, extent))) }
    }

    /// The axis of `...` at a place from the right. Not yet known axes are added up to there.
    fn of_rest(&mut self, place: usize, extent: &Expr, tensor: &str) -> Result<usize, EinsumError> {
        while self.rest.len() <= place {
            let label = self.labels.add(format!("rest{}", self.rest.len()), Expr::int(1));
            self.rest.push((label, tensor.to_owned()));
        }
        let (label, first) = &mut self.rest[place];
        let known = self.labels.extent(*label);
        let is_one = |extent: &Expr| extent.as_int() == Some(1);
        if is_one(known) {
            tensor.clone_into(first);
            self.labels.widen(*label, extent);
        } else if !is_one(extent) && !equal(known, extent) {
            return Err(differing(
                format!("{place} of `...`, counted from its last"),
                (first, known),
                (tensor, extent),
            ));
        }
        Ok(*label)
    }

    /// The labels of the output.
    fn output(&self, given: Option<Vec<Axis>>, terms: &[Vec<Axis>]) -> Result<Vec<usize>, EinsumError> {
        let output = given.unwrap_or_else(|| {
            let count = |axis: &Axis| terms.iter().flatten().filter(|other| *other == axis).count();
            let mut once: Vec<char> = self.letters.iter().map(|(letter, ..)| *letter).collect();
            once.retain(|letter| count(&Axis::Letter(*letter)) == 1);
            once.sort_unstable();
            std::iter::once(Axis::Rest).chain(once.into_iter().map(Axis::Letter)).collect()
        });
        if !self.rest.is_empty() && !output.contains(&Axis::Rest) {
            return Err(EinsumError::DroppedEllipsis { tensor: self.rest[self.rest.len() - 1].1.clone() });
        }
        let mut labels = Vec::new();
        for (place, axis) in output.iter().enumerate() {
            match axis {
                Axis::Rest => labels.extend(self.rest.iter().rev().map(|(label, _)| *label)),
                Axis::Letter(letter) if output[..place].contains(axis) => {
                    return Err(EinsumError::RepeatedAxis { axis: *letter });
                }
                Axis::Letter(letter) => match self.letters.iter().find(|(known, ..)| known == letter) {
                    Some((_, label, _)) => labels.push(*label),
                    None => return Err(EinsumError::UnknownAxis { axis: *letter }),
                },
            }
        }
        Ok(labels)
    }
}

fn differing(axis: String, (first, known): (&str, &Expr), (tensor, extent): (&str, &Expr)) -> EinsumError {
    let of = |tensor: &str, extent: &Expr| format!("{} in {tensor}", expression(extent));
    EinsumError::Extents { axis, first: of(first, known), other: of(tensor, extent) }
}
