//! Checks a run's arguments completely before anything is written: shapes, element types, devices, overlaps.
//!
//! Bounds of groups and indices of rows are data, which only the CPU can read here. M, N, K and strides are run-time
//! arguments of kernels; another memory layout of A or B takes another variant of the kernel.

use epilogue_runtime::{AxisList, Device, DeviceTensor};
use smallvec::SmallVec;

use crate::evt::{
    Axis, BroadcastClass, Form, OutputKind, ParameterClass, Reduction, ValidOutput, ValidParameter, ValidTree,
    ValueType, Width,
};
use crate::gemm::kernel::views::bit;
use crate::gemm::problem::digits::{has_batch_digits, has_digits, shape_of, tensor_of};
use crate::gemm::problem::picked::Picked;
use crate::gemm::problem::placing::Scattered;
use crate::gemm::problem::{Error, Grouping, GroupsError, Left, Problem, Purpose, Right, ScatterError};
use crate::{Argument, ElementType};

/// Checks A and B: their number, devices and element types. ([`Problem::of`] checks their shapes.)
pub(crate) fn operands(device: &Device, tree: &ValidTree, a: Left<'_>, b: &Right<'_>) -> Result<(), Error> {
    let types = tree.types();
    b.check_count(tree.name(), tree.accumulators())?;
    if let Some(bounds) = a.bounds() {
        on_device(device, bounds.form.name(), bounds.tensor)?;
    }
    if let Some(picked) = a.picked() {
        on_device(device, Picked::NAME, picked.index)?;
    }
    for (name, scales) in scales(a, b) {
        on_device(device, name, scales)?;
    }
    if let Some(scattered) = a.scattered() {
        on_device(device, Scattered::NAME, scattered.index)?;
    }
    operand(device, "A", a.tensor(), types.a)?;
    let are_codes = !b.weights().is_empty();
    for b in b.tensors() {
        // (The element type of codes is their format's.)
        let needed = if are_codes { b.element_type() } else { types.b };
        operand(device, "B", b, needed)?;
    }
    Ok(())
}

/// Checks that every packed B is packed for what is computed.
///
/// # Errors
/// [`Error::OtherPacking`].
pub(crate) fn packing(b: &Right<'_>, needed: Purpose) -> Result<(), Error> {
    match b.packed().iter().find(|packed| packed.purpose != needed) {
        None => Ok(()),
        Some(packed) => Err(Error::OtherPacking { given: packed.purpose.to_string(), needed: needed.to_string() }),
    }
}

/// The scales and zero points of the operands, under their names.
fn scales<'a>(a: Left<'a>, b: &'a Right<'_>) -> impl Iterator<Item = (&'static str, &'a DeviceTensor)> {
    let of_b = b.scales().iter().map(|scales| ("b_scales", *scales));
    let of_b = of_b.chain(b.weights().iter().flat_map(|weights| weights.others()));
    a.scales().map(|scales| ("a_scales", scales)).into_iter().chain(of_b)
}

/// Checks the device and the element type of one of them.
pub(crate) fn operand(
    device: &Device,
    name: &'static str,
    tensor: &DeviceTensor,
    needed: ElementType,
) -> Result<(), Error> {
    on_device(device, name, tensor)?;
    let given = tensor.element_type();
    if given == needed { Ok(()) } else { Err(Error::OperandElement { operand: name, given, needed }) }
}

/// Checks the arguments: number, kinds, devices, element types, shapes, and which of them share memory.
///
/// `tile` has the rows and columns of the tile of partial reductions.
pub(crate) fn arguments(
    device: &Device,
    tree: &ValidTree,
    problem: &Problem,
    tile: (usize, usize),
    (a, b): (Left<'_>, &Right<'_>),
    arguments: &[Argument<'_>],
) -> Result<(), Error> {
    if arguments.len() != tree.argument_names().count() {
        let names = tree.argument_names().collect();
        return Err(Error::ArgumentCount { epilogue: tree.name(), given: arguments.len(), names });
    }
    if problem.placing.is_scattered() {
        scattered(tree)?;
    }
    let check = Check { device, tree, problem, tile };
    check.digits(arguments)?;
    for (parameter, argument) in tree.parameters().iter().zip(arguments) {
        check.parameter(parameter.name, parameter.class, parameter.element, argument)?;
    }
    if tree.has_chance() {
        // Elements are told apart by 32 bits for their rows.
        let rows = u64::try_from(problem.m).ok().zip(u64::try_from(problem.batch).ok());
        if rows.and_then(|(m, batch)| m.checked_mul(batch)).is_none_or(|rows| rows > 1 << 32) {
            return Err(Error::RandomRows { rows: problem.m, batches: problem.batch });
        }
    }
    let mut outputs: SmallVec<[(&ValidOutput, &DeviceTensor); 4]> = SmallVec::new();
    for (i, output) in tree.outputs().iter().enumerate() {
        let argument = &arguments[tree.output_argument(i)];
        let Argument::Output(tensor) = argument else {
            return Err(wrong_kind(output.name, argument, "a tensor to write"));
        };
        check.output(i, tensor)?;
        outputs.push((output, &**tensor));
    }
    let inputs = tree.parameters().iter().zip(arguments).filter_map(|(parameter, argument)| match argument {
        Argument::Input(tensor) => Some(Read { name: parameter.name, parameter: Some(parameter), tensor }),
        Argument::Scalar(_) | Argument::Seed(..) | Argument::Output(_) => None,
    });
    let bounds = a.bounds().map(|bounds| (bounds.form.name(), bounds.tensor));
    let picked = a.picked().map(|picked| (Picked::NAME, picked.index));
    let scattered = a.scattered().map(|scattered| (Scattered::NAME, scattered.index));
    let indices = bounds.into_iter().chain(picked).chain(scattered);
    let operands = std::iter::once(("A", a.tensor())).chain(b.tensors().iter().map(|b| ("B", *b))).chain(indices);
    let operands = operands.chain(scales(a, b)).map(|(name, tensor)| Read { name, parameter: None, tensor });
    let inputs: SmallVec<[_; 8]> = operands.chain(inputs).collect();
    aliasing(&outputs, &inputs)
}

/// Checks that an index can place the rows of an epilogue's M×N results.
///
/// # Errors
/// [`ScatterError::Output`], [`ScatterError::Nothing`].
pub(crate) fn scattered(tree: &ValidTree) -> Result<(), ScatterError> {
    let mut outputs = tree.stores().filter(|(_, output)| output.class == BroadcastClass::Tensor).peekable();
    if outputs.peek().is_none() {
        return Err(ScatterError::Nothing { epilogue: tree.name() });
    }
    for (_, output) in outputs {
        let (what, advice) = match output.parameter {
            Some(_) => ("a `TensorMut`", "what is read has rows in the product's order; return another `Tensor`"),
            None if output.packed => ("`Bits`", "return a `Tensor<bool>`"),
            None => continue,
        };
        return Err(ScatterError::Output { name: output.name, what, advice });
    }
    Ok(())
}

/// A tensor that a run reads: an operand, or the argument for a parameter.
struct Read<'a> {
    name: &'static str,
    parameter: Option<&'a ValidParameter>,
    tensor: &'a DeviceTensor,
}

impl Read<'_> {
    /// The advice about an output that overlaps it. Only a matrix is updated in place: the element that is written must
    /// be the one that was read.
    fn advice(&self, output: &ValidOutput, written: &DeviceTensor) -> &'static str {
        let same_type = self.tensor.element_type() == written.element_type();
        let same_places = self.tensor.shape() == written.shape() && self.tensor.strides() == written.strides();
        let same = same_type && same_places && self.tensor.device_address() == written.device_address();
        let is_tensor = self.parameter.is_some_and(|parameter| parameter.class == ParameterClass::Tensor);
        let is_stored = matches!(output.kind, OutputKind::Store) && output.class == BroadcastClass::Tensor;
        if same && is_tensor && is_stored && !output.packed && output.parameter.is_none() {
            return "give it memory of its own, or declare one `TensorMut` for both, which is updated in place: assign to that and \
                    return it";
        }
        "give it memory of its own"
    }
}

/// Checks that no two outputs share memory, and that no output shares memory with an input: blocks run in any order.
fn aliasing(outputs: &[(&ValidOutput, &DeviceTensor)], inputs: &[Read<'_>]) -> Result<(), Error> {
    for (i, &(output, tensor)) in outputs.iter().enumerate() {
        let name = output.name;
        if tensor.has_internal_overlap() {
            return Err(Error::OutputRepeats { name });
        }
        for &(second, other) in &outputs[i + 1..] {
            if tensor.overlaps(other) {
                return Err(Error::OutputsOverlap { first: name, second: second.name });
            }
        }
        for input in inputs {
            if tensor.overlaps(input.tensor) {
                let advice = input.advice(output, tensor);
                return Err(Error::OutputAliasesInput { output: name, input: input.name, advice });
            }
        }
    }
    Ok(())
}

pub(crate) fn on_device(device: &Device, name: &'static str, tensor: &DeviceTensor) -> Result<(), Error> {
    if tensor.device() == device {
        return Ok(());
    }
    Err(Error::ForeignDevice { name, given: tensor.device().to_string(), needed: device.to_string() })
}

/// The advice about bits in a tensor of another type.
const PACKED: &str = "`Bits` are u8 of shape [M, ceil(N / 8)]; write `Tensor<bool>` for a byte each";

/// The advice about a tensor of another element type. An epilogue that holds the given type may be written, if one can
/// be.
fn element_advice(class: &str, ty: Option<ValueType>, given: ElementType, needed: ElementType) -> String {
    use ElementType::{Bool, I8, I32, I64, U8};
    let holds = match ty {
        Some(ValueType::Bool) => given == Bool,
        Some(ValueType::Integer(_)) => matches!(given, I64 | I32 | I8 | U8),
        Some(ValueType::Real(_) | ValueType::Seed) | None => given != Bool,
    };
    if holds { format!("write `{class}<{given}>` to have it") } else { format!("give a tensor of {needed}") }
}

fn wrong_kind(name: &'static str, given: &Argument<'_>, needed: &'static str) -> Error {
    let given = match given {
        Argument::Scalar(_) => "a scalar",
        Argument::Seed(..) => "a seed",
        Argument::Input(_) => "a tensor to read",
        Argument::Output(_) => "a tensor to write",
    };
    Error::ArgumentKind { name, given, needed }
}

struct Check<'a> {
    device: &'a Device,
    tree: &'a ValidTree,
    problem: &'a Problem,
    tile: (usize, usize),
}

impl Check<'_> {
    fn parameter(
        &self,
        name: &'static str,
        class: ParameterClass,
        element: ElementType,
        argument: &Argument<'_>,
    ) -> Result<(), Error> {
        let tensor = match (class, argument) {
            (ParameterClass::Scalar, Argument::Scalar(_)) => return Ok(()),
            (ParameterClass::Scalar, _) => return Err(wrong_kind(name, argument, "a scalar")),
            (ParameterClass::Seed, Argument::Seed(..)) => return Ok(()),
            (ParameterClass::Seed, Argument::Input(tensor)) => return self.seed(name, tensor),
            (ParameterClass::Seed, _) => return Err(wrong_kind(name, argument, "a seed, or a tensor of two i64")),
            // It is checked with the outputs.
            (ParameterClass::TensorMut, Argument::Output(_)) => return Ok(()),
            (ParameterClass::TensorMut, _) => return Err(wrong_kind(name, argument, "a tensor to write")),
            (_, Argument::Input(tensor)) => tensor,
            _ => return Err(wrong_kind(name, argument, "a tensor to read")),
        };
        self.tensor(name, tensor, element, || match class {
            ParameterClass::Bits => PACKED.to_owned(),
            _ => {
                let ty = self.tree.parameters().iter().find(|parameter| parameter.name == name);
                let ty = ty.and_then(|parameter| Some(self.tree.value(parameter.value?).ty));
                element_advice(class.name(), ty, tensor.element_type(), element)
            }
        })?;
        if class == ParameterClass::Bits {
            return self.bits(name, tensor, Batch::Optional);
        }
        let extents = self.extents(class.broadcast_class());
        let class = class.broadcast_class();
        let batch = if self.problem.reading.is_per_batch(class) { Batch::Optional } else { Batch::Forbidden };
        self.shape(name, tensor, &extents, batch, class)
    }

    /// Checks that arguments with digits may have them, and that their views have the right class.
    fn digits(&self, arguments: &[Argument<'_>]) -> Result<(), Error> {
        const OUTPUT: &str = "give it memory of its own, where they do, and copy it afterwards";
        const INPUT: &str = "view a contiguous copy, where they do";
        const VECTOR: [&str; 3] = ["a vector viewed as a value", "a vector", "a vector viewed as a matrix"];
        for (i, argument) in arguments.iter().enumerate() {
            let Some(tensor) = tensor_of(argument) else { continue };
            let Some(axes) = tensor.axes().filter(|_| has_digits(tensor) || has_batch_digits(tensor)) else { continue };
            let copy = if matches!(argument, Argument::Input(_)) { INPUT } else { OUTPUT };
            let class = match self.tree.parameters().get(i) {
                Some(parameter) => Ok(parameter.class.broadcast_class()),
                None => {
                    let mut outputs = self.tree.outputs().iter().enumerate();
                    let output = outputs.find(|(output, _)| self.tree.output_argument(*output) == i);
                    match output {
                        Some((_, output)) if output.is_partial() => Err(("partial results of tiles", copy)),
                        Some((_, output)) => Ok(output.class),
                        None => continue,
                    }
                }
            };
            let own = axes.lists().len() - axes.batch_axes().min(1);
            let refused = match (class, own) {
                (Err(refused), _) => Some(refused),
                (Ok(BroadcastClass::Tensor), 0 | 1) => Some((
                    ["a matrix viewed as a value", "a matrix viewed as a vector"][own],
                    "view it by `as_matrix`, or by `as_batched_matrix`",
                )),
                (Ok(BroadcastClass::RowVector), 0 | 2) => Some((
                    VECTOR[own],
                    "view it by `as_row_vector`, or by `as_batched_row_vector` where it has values for each batch",
                )),
                (Ok(BroadcastClass::ColumnVector), 0 | 2) => Some((
                    VECTOR[own],
                    "view it by `as_column_vector`, or by `as_batched_column_vector` where it has values for each batch",
                )),
                (Ok(BroadcastClass::Scalar), 1 | 2) => {
                    Some(("a value", "view it by `as_batched_scalar` where there is one for each batch"))
                }
                _ if bit(i) == 0 => Some(("an argument behind the 64th", copy)),
                _ => None,
            };
            let Some((what, advice)) = refused else { continue };
            let name = self.tree.argument_names().nth(i).unwrap_or_default();
            let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
            return Err(Error::ArgumentDigits { name, shape, strides, what, advice });
        }
        Ok(())
    }

    /// The shape of truth values with eight columns in a byte.
    fn bits(&self, name: &'static str, tensor: &DeviceTensor, batch: Batch) -> Result<(), Error> {
        let class = BroadcastClass::Tensor;
        let batch = if self.problem.reading.is_per_batch(class) { batch } else { Batch::Forbidden };
        let extents = [self.problem.m, self.problem.n.div_ceil(8)];
        self.shape(name, tensor, &extents, batch, class).map_err(|error| match error {
            Error::ArgumentShape { name, given, needed } => {
                Error::BitsShape { name, given, needed, columns: self.problem.n }
            }
            other => other,
        })
    }

    /// A seed in memory: two `i64`.
    fn seed(&self, name: &'static str, tensor: &DeviceTensor) -> Result<(), Error> {
        on_device(self.device, name, tensor)?;
        let (element, shape) = (tensor.element_type(), tensor.shape());
        if element == ElementType::I64 && shape == [2] {
            return Ok(());
        }
        Err(Error::SeedTensor { name, element, shape: shape.to_vec() })
    }

    fn output(&self, i: usize, tensor: &DeviceTensor) -> Result<(), Error> {
        let output = &self.tree.outputs()[i];
        let ty = match output.kind {
            OutputKind::Reduce(reduction) if reduction.op.gives_index() => ValueType::Integer(Width::Bits64),
            OutputKind::Reduce(_) => ValueType::Real(self.tree.real()),
            OutputKind::Store => self.tree.value(output.value).ty,
        };
        let in_place = output.parameter.map(|parameter| self.tree.parameter(parameter).class.name());
        let advice = || match in_place {
            None if output.packed => PACKED.to_owned(),
            None if output.is_partial() => format!("per-tile partials are {}: give a tensor of that", output.element),
            _ => {
                let class = in_place.unwrap_or(output.class.name());
                element_advice(class, Some(ty), tensor.element_type(), output.element)
            }
        };
        self.tensor(output.name, tensor, output.element, advice)?;
        if self.problem.placing.is_scattered() && output.class == BroadcastClass::Tensor {
            return self.placed(output.name, tensor);
        }
        if output.packed {
            return self.bits(output.name, tensor, Batch::Needed);
        }
        let mut batch = if self.problem.reading.is_per_batch(output.class) { Batch::Needed } else { Batch::Forbidden };
        let mut extents = self.extents(output.class);
        if let OutputKind::Reduce(reduction) = output.kind {
            self.in_groups(output.name, reduction)?;
            if reduction.form == Form::Partial {
                if reduction.batch {
                    return Err(Error::BatchPartials { name: output.name });
                }
                extents = partial_extents(output.class, self.problem, self.tile);
            } else if reduction.batch {
                if self.problem.batch == 0 {
                    return Err(Error::NoBatches { name: output.name });
                }
                batch = Batch::Forbidden;
            }
        }
        self.shape(output.name, tensor, &extents, batch, output.class)
    }

    /// The shape of an output whose rows an index places: it has any number of them.
    fn placed(&self, name: &'static str, tensor: &DeviceTensor) -> Result<(), Error> {
        if has_digits(tensor) {
            let advice = "give a matrix";
            return Err(ScatterError::Output { name, what: "a view of several axes", advice }.into());
        }
        match *shape_of(tensor) {
            [_, n] if n == self.problem.n => Ok(()),
            ref given => {
                let needed = format!("[S, {}], with any number S of rows", self.problem.n);
                Err(Error::ArgumentShape { name, given: given.to_vec(), needed })
            }
        }
    }

    /// Whether a product with groups has a reduction.
    fn in_groups(&self, name: &'static str, reduction: Reduction) -> Result<(), Error> {
        let refuse = |what, advice| Err(GroupsError::Reduction { name, what, advice }.into());
        match (self.problem.reading.grouping(), reduction) {
            (None | Some(Grouping::Depth), _) => Ok(()),
            (_, Reduction { axis: Axis::Row, batch: true, .. }) => refuse(
                "reduces rows of all batches together",
                "a row is of one group; leave `Batch` out, or reduce along `Column` or `All`",
            ),
            (_, Reduction { axis: Axis::Column, form: Form::Partial, .. }) => refuse(
                "is one partial for each tile of rows",
                "how many tiles groups have is known on the device only; take the complete reduction",
            ),
            _ => Ok(()),
        }
    }

    fn tensor(
        &self,
        name: &'static str,
        tensor: &DeviceTensor,
        needed: ElementType,
        advice: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        on_device(self.device, name, tensor)?;
        let given = tensor.element_type();
        if given != needed {
            return Err(Error::ArgumentElement { name, epilogue: self.tree.name(), given, needed, advice: advice() });
        }
        Ok(())
    }

    fn extents(&self, class: BroadcastClass) -> Vec<usize> {
        match class {
            BroadcastClass::Scalar => vec![],
            BroadcastClass::RowVector => vec![self.problem.n],
            BroadcastClass::ColumnVector => vec![self.problem.m],
            BroadcastClass::Tensor => vec![self.problem.m, self.problem.n],
        }
    }

    fn shape(
        &self,
        name: &'static str,
        tensor: &DeviceTensor,
        extents: &[usize],
        batch: Batch,
        class: BroadcastClass,
    ) -> Result<(), Error> {
        let given = &*shape_of(tensor);
        let per_batch: Vec<usize> = std::iter::once(self.problem.batch).chain(extents.iter().copied()).collect();
        let one = class == BroadcastClass::Scalar && extents.is_empty();
        let shared = given == extents || (one && given == [1]);
        let fits = match batch {
            Batch::Optional => shared || given == per_batch,
            Batch::Needed => given == per_batch || (self.problem.batch == 1 && shared),
            Batch::Forbidden => shared,
        };
        if fits {
            return Ok(());
        }
        if let Some(error) = wrong_axes(name, tensor, &per_batch, class) {
            return Err(error);
        }
        let needed = match batch {
            Batch::Forbidden => format!("{extents:?}"),
            Batch::Needed if self.problem.batched => format!("{per_batch:?}"),
            Batch::Needed => format!("{extents:?}"),
            Batch::Optional if self.problem.batched => format!("{extents:?}, or {per_batch:?} for one per batch"),
            Batch::Optional => format!("{extents:?}"),
        };
        Err(Error::ArgumentShape { name, given: given.to_vec(), needed })
    }
}

/// The first list of axes with a wrong number of elements, if a view was told the axes of this class.
fn wrong_axes(name: &'static str, tensor: &DeviceTensor, per_batch: &[usize], class: BroadcastClass) -> Option<Error> {
    let lists = tensor.axes()?.lists();
    let named: &[&str] = match class {
        BroadcastClass::Scalar => &["batches"],
        BroadcastClass::RowVector => &["batches", "columns"],
        BroadcastClass::ColumnVector => &["batches", "rows"],
        BroadcastClass::Tensor => &["batches", "rows", "columns"],
    };
    let front = named.len().checked_sub(lists.len())?;
    let fits = lists.iter().map(AxisList::name).eq(named[front..].iter().copied());
    let mut needed = lists.iter().zip(per_batch.get(front..)?);
    let (list, needed) = needed.find(|(list, needed)| fits && list.elements() != **needed)?;
    Some(Error::ArgumentAxes { name, axis: list.name(), needed: *needed, given: Box::new(list.clone()) })
}

/// The meaning of a leading batch axis of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    /// With it there is one value per batch; without it all batches share one.
    Optional,
    /// It is required: there is one value per batch.
    Needed,
    /// It is not allowed: the batch is reduced.
    Forbidden,
}

/// `[ceil(N / tile_n), M]` for rows, `[ceil(M / tile_m), N]` for columns.
pub(crate) fn partial_extents(
    class: BroadcastClass,
    problem: &Problem,
    (tile_m, tile_n): (usize, usize),
) -> Vec<usize> {
    match class {
        BroadcastClass::ColumnVector => vec![problem.n.div_ceil(tile_n), problem.m],
        _ => vec![problem.m.div_ceil(tile_m), problem.n],
    }
}
