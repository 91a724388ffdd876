//! Arguments that are more than plain matrices or vectors, for which kernels are compiled apart: those with digits, and
//! outputs with scattered rows.
//!
//! Digits are neither in a tree nor in a `KernelKey`, which the model ranks. A plan's variants are found by key and by
//! these views, and so are the kernels of later phases. Emission changes only the type of the field: `DigitsView` and
//! `DigitsVectorView` of `device/digits.cuh`, or `device/scattered.cuh`. The text of other kernels stays as it is.
//!
//! On sm_90a TMA copies a matrix with digits by a map of five dimensions if no box reaches beyond a lower digit. Else lanes
//! access it. The bits of both choices are in the variant's key. On the CPU a `View` gives stretches of columns, which steps access, not machine code.

use epilogue_runtime::DeviceTensor;
use smallvec::SmallVec;

use crate::evt::{BroadcastClass, PartBinding, PhasePart, Phases, ValidTree};
use crate::gemm::problem::digits::{has_batch_digits, has_digits};
use crate::gemm::problem::{Error, Problem};

/// The bit of an argument; no bit beyond the 64th argument, which is never copied.
pub(crate) const fn bit(argument: usize) -> u64 {
    if argument < 64 { 1 << argument } else { 0 }
}

/// A bit for every argument of a kernel that is no plain matrix or vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ArgumentViews {
    /// Arguments with rows or columns of two digits.
    pub(crate) digits: u64,
    /// Arguments with batches of two digits.
    pub(crate) batches: u64,
    /// The outputs whose rows an index places.
    pub(crate) scattered: u64,
    /// Arguments of the launch's tail with values of two digits.
    pub(crate) digits_of_tail: u64,
    /// Arguments of the tail with batches of two digits.
    pub(crate) batches_of_tail: u64,
}

impl ArgumentViews {
    /// The views of a planned GEMM's part, with packed arguments.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn planned(part: &PhasePart, problem: &Problem) -> Result<Self, Error> {
        Self::of(part, std::iter::empty(), problem)
    }

    /// The views of a planned GEMM's kernel; `in_tile` if it computes all phases in its tile.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn planned_of_product(phases: &Phases, in_tile: bool, problem: &Problem) -> Result<Self, Error> {
        Self::of_product(phases, in_tile, std::iter::empty(), problem)
    }

    /// The views of a run's arguments in a GEMM's kernel; the tensors come in the order of its tree.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn of_product<'a>(
        phases: &Phases,
        in_tile: bool,
        tensors: impl Iterator<Item = Option<&'a DeviceTensor>>,
        problem: &Problem,
    ) -> Result<Self, Error> {
        match in_tile {
            true => Self::of_tree(phases.in_product(true), |_| true, tensors, problem),
            false => Self::of(&phases.parts[0], tensors, problem),
        }
    }

    /// The views of a part's arguments; the tensors come in their order.
    ///
    /// # Errors
    /// [`Error::NoKernel`] for one behind the 64th. (`run/check.rs` refuses those of a run by name; a part of it may have more
    /// arguments, for what phases keep.)
    pub(crate) fn of<'a>(
        part: &PhasePart,
        tensors: impl Iterator<Item = Option<&'a DeviceTensor>>,
        problem: &Problem,
    ) -> Result<Self, Error> {
        // A part's intermediates lie where later parts look for them.
        let of_user = |argument: usize| matches!(part.bindings[argument], PartBinding::Argument(_));
        Self::of_tree(&part.tree, of_user, tensors, problem)
    }

    /// These views with the arguments of the launch's tail; the tensors come in their order.
    ///
    /// # Errors
    /// [`Error::NoKernel`], as of [`of`](Self::of).
    pub(crate) fn with_tail<'a>(self, tensors: impl Iterator<Item = Option<&'a DeviceTensor>>) -> Result<Self, Error> {
        let [digits_of_tail, batches_of_tail] = with_digits(tensors)?;
        Ok(Self { digits_of_tail, batches_of_tail, ..self })
    }

    /// The tail's views, as a kernel's own.
    pub(crate) fn of_tail(self) -> Self {
        Self { digits: self.digits_of_tail, batches: self.batches_of_tail, ..Self::default() }
    }

    /// Whether anything is counted by two digits.
    pub(crate) const fn has_digits(self) -> bool {
        self.digits | self.batches | self.digits_of_tail | self.batches_of_tail != 0
    }

    fn of_tree<'a>(
        tree: &ValidTree,
        of_user: impl Fn(usize) -> bool,
        tensors: impl Iterator<Item = Option<&'a DeviceTensor>>,
        problem: &Problem,
    ) -> Result<Self, Error> {
        let [digits, batches] = with_digits(tensors)?;
        let placed = tree.stores().filter(|(i, output)| {
            let is_matrix = output.class == BroadcastClass::Tensor && !output.packed;
            problem.placing.is_scattered() && of_user(tree.output_argument(*i)) && is_matrix
        });
        let scattered = bits(placed.map(|(i, _)| tree.output_argument(i)), "scattered rows")?;
        Ok(Self { digits, batches, scattered, ..Self::default() })
    }
}

/// Bits of the arguments with rows or columns of two digits, and of the arguments with batches of two digits.
fn with_digits<'a>(tensors: impl Iterator<Item = Option<&'a DeviceTensor>>) -> Result<[u64; 2], Error> {
    let (mut own, mut batches) = (SmallVec::<[usize; 4]>::new(), SmallVec::<[usize; 4]>::new());
    for (i, tensor) in tensors.enumerate() {
        own.extend(tensor.filter(|tensor| has_digits(tensor)).map(|_| i));
        batches.extend(tensor.filter(|tensor| has_batch_digits(tensor)).map(|_| i));
    }
    Ok([bits(own.into_iter(), "rows or columns of two axes")?, bits(batches.into_iter(), "batches of two axes")?])
}

/// The bits of these arguments.
fn bits(mut arguments: impl Iterator<Item = usize>, what: &str) -> Result<u64, Error> {
    arguments.try_fold(0, |bits, argument| match bit(argument) {
        0 => {
            let reason =
                "with what its phases keep, such an argument is behind the 64th; give it as an ordinary matrix";
            Err(Error::NoKernel { kernel: what.to_owned(), reason })
        }
        bit => Ok(bits | bit),
    })
}
