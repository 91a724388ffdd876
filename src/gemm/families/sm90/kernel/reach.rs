//! Operands and arguments that TMA can reach; kernels access the other arguments element by element.

use super::shared::Traffic;
use crate::ElementType;
use crate::evt::{BroadcastClass, ParameterClass, ValidTree};
use crate::gemm::kernel::views::bit;
use crate::gemm::problem::{Divided, Grouping, Major, Problem};

/// Whether tensor copies load the operands of these groups: where those may begin anywhere, the divided axis must not
/// be contiguous.
#[must_use]
pub(crate) const fn takes_groups(grouping: Option<Grouping>, a: Major, b: Major) -> bool {
    match grouping {
        None | Some(Grouping::Padded) => true,
        Some(Grouping::Shared) => matches!(a, Major::K),
        Some(Grouping::Depth) => matches!((a, b), (Major::Mn, Major::Mn)),
    }
}

/// The arguments that tensor copies can't reach even if all tensors are packed; with transposed patches, as filters `[K, R, S, C]`
/// are, whose columns, as the product has them, are contiguous.
#[must_use]
pub fn direct_when_packed(tree: &ValidTree, problem: &Problem, a: Major) -> u64 {
    let are_filters = problem.reading.patches().is_some() && a == Major::Mn;
    let reached =
        |element: ElementType| !are_filters && element.size() <= 4 && (problem.n * element.size()).is_multiple_of(16);
    let mut direct = 0;
    for (i, parameter) in tree.parameters().iter().enumerate() {
        let tensor = matches!(parameter.class, ParameterClass::Tensor | ParameterClass::TensorMut);
        if tensor && !reached(parameter.element) {
            direct |= bit(i);
        }
    }
    for (i, output) in tree.stores().filter(|(_, output)| output.class == BroadcastClass::Tensor && !output.packed) {
        if problem.placing.is_scattered() || !reached(output.element) {
            direct |= bit(tree.output_argument(i));
        }
    }
    direct
}

/// The arguments that a kernel accesses element by element for its groups' sake: those that are read and written in place.
/// A group of rows ends anywhere, and a box of what is read there would have rows that another block writes.
pub(crate) fn in_place(tree: &ValidTree, divided: Option<Divided>) -> u64 {
    if divided != Some(Divided::Rows) {
        return 0;
    }
    let parameters = tree.parameters().iter().enumerate();
    let in_place = parameters.filter(|(_, parameter)| parameter.class == ParameterClass::TensorMut);
    in_place.fold(0, |bits, (argument, _)| bits | bit(argument))
}

/// The arguments that are too narrow for tensor copies in steps of `step` columns: a row of a box must have at least 16
/// bytes, and 8 columns of an 8-bit type have fewer.
pub(crate) fn too_narrow(tree: &ValidTree, step: usize, swap_ab: bool) -> u64 {
    if swap_ab || step >= 16 {
        return 0;
    }
    let traffic = Traffic::of(tree, 0);
    let narrow = traffic.inputs.iter().chain(&traffic.outputs).filter(|(_, element)| element.size() == 1);
    narrow.fold(0, |bits, (argument, _)| bits | bit(*argument))
}
