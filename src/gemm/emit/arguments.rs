//! The epilogue's arguments as fields of the kernel's parameter, and the groups of its reductions.

use super::reducers;
use crate::ElementType;
use crate::evt::{AtInfinity, Axis, BroadcastClass, Form, ParameterClass, ReduceOp, Reduction, ValidOutput, ValidTree};
use crate::expr::Real;
use crate::expr::cuda::element_name;
use crate::gemm::kernel::ArgumentViews;
use crate::gemm::kernel::device_struct::DeviceStruct;
use crate::gemm::kernel::parameters::{BatchView, FieldType, ParameterLayout};
use crate::gemm::kernel::structs::STRUCTS;
use crate::gemm::kernel::views::bit;

/// The epilogue's part of the kernel's parameter: every argument that is read or written, and the addresses in the
/// workspace.
#[derive(Clone, Debug)]
pub(crate) struct EpilogueArguments {
    /// The fields of `Arguments`.
    pub(crate) layout: ParameterLayout,
    /// The field of every argument of a run; `None` for parameters that nothing reads.
    pub(crate) fields: Vec<ArgumentField>,
    /// Complete reductions, by output, with the field of their partials.
    pub(crate) partials: Vec<(usize, String)>,
    /// Counters: one field for every group of complete reductions.
    pub(crate) counters: Vec<(ReductionGroup, String)>,
}

/// The fields of an argument of a run; a `TensorMut` has both.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArgumentField {
    pub(crate) input: Option<String>,
    pub(crate) output: Option<String>,
}

/// Complete reductions that are finished together, by the last block along the same tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReductionGroup {
    pub(crate) axis: Axis,
    pub(crate) batch: bool,
}

impl ReductionGroup {
    pub(crate) const fn of(reduction: Reduction) -> Self {
        Self { axis: reduction.axis, batch: reduction.batch }
    }

    const fn name(self) -> &'static str {
        match (self.axis, self.batch) {
            (Axis::Row, false) => "row",
            (Axis::Row, true) => "row_batch",
            (Axis::Column, false) => "column",
            (Axis::Column, true) => "column_batch",
            (Axis::All, false) => "all",
            (Axis::All, true) => "all_batch",
        }
    }

    /// The counter that a tile increments, and how many tiles do.
    pub(crate) const fn counter(self, grouped: bool) -> (&'static str, &'static str) {
        match (self.axis, self.batch) {
            // A row tile of all is of one group; a group has its own number of them.
            (Axis::Row, false) if grouped => ("work.tile_m", "problem.tiles_n"),
            (Axis::Column, false) if grouped => ("work.batch * problem.tiles_n + work.tile_n", "work.tiles"),
            (Axis::All, false) if grouped => ("work.batch", "work.tiles * problem.tiles_n"),
            (Axis::Column, true) if grouped => ("work.tile_n", "problem.tiles_m"),
            (Axis::All, true) if grouped => ("0", "problem.tiles_m * problem.tiles_n"),
            (Axis::Row, false) => ("work.batch * problem.tiles_m + work.tile_m", "problem.tiles_n"),
            (Axis::Row, true) => ("work.tile_m", "problem.tiles_n * problem.batch"),
            (Axis::Column, false) => ("work.batch * problem.tiles_n + work.tile_n", "problem.tiles_m"),
            (Axis::Column, true) => ("work.tile_n", "problem.tiles_m * problem.batch"),
            (Axis::All, false) => ("work.batch", "problem.tiles_m * problem.tiles_n"),
            (Axis::All, true) => ("0", "problem.tiles_m * problem.tiles_n * problem.batch"),
        }
    }
}

impl EpilogueArguments {
    /// `views` are the arguments that are no plain matrices and vectors, without those of a tail.
    pub(crate) fn of(tree: &ValidTree, views: ArgumentViews) -> Self {
        let ArgumentViews { digits, batches, scattered, .. } = views;
        let real = tree.real().element();
        let mut fields = Vec::new();
        let mut places = Vec::new();
        let viewed = |argument: usize, ty: FieldType| {
            let ty = match ty {
                FieldType::Tensor(element) if digits & bit(argument) != 0 => FieldType::Digits(element),
                FieldType::Vector(element) if digits & bit(argument) != 0 => FieldType::DigitsVector(element),
                ty => ty,
            };
            if batches & bit(argument) != 0 { ty.in_batches() } else { ty }
        };
        for (i, parameter) in tree.parameters().iter().enumerate() {
            let Some(value) = parameter.value else {
                places.push(ArgumentField::default());
                continue;
            };
            let ty = match parameter.class {
                ParameterClass::Tensor | ParameterClass::TensorMut | ParameterClass::Bits => {
                    FieldType::Tensor(parameter.element)
                }
                ParameterClass::RowVector | ParameterClass::ColumnVector => FieldType::Vector(parameter.element),
                ParameterClass::DeviceScalar => FieldType::Scalar(parameter.element),
                ParameterClass::Scalar => FieldType::Host(real),
                ParameterClass::Seed => FieldType::Seed,
            };
            let name = format!("_{}", tree.value(value).name);
            fields.push((name.clone(), viewed(i, ty), parameter.name.to_owned()));
            places.push(ArgumentField { input: Some(name), output: None });
        }
        for (i, output) in tree.outputs().iter().enumerate() {
            let name = output_name(i);
            let argument = tree.output_argument(i);
            let ty = match output_type(output) {
                FieldType::Tensor(element) if scattered & bit(argument) != 0 => FieldType::Scattered(element),
                ty => viewed(argument, ty),
            };
            fields.push((name.clone(), ty, format!("output {}", output.name)));
            match output.parameter {
                Some(parameter) => places[parameter.index()].output = Some(name),
                None => places.push(ArgumentField { input: None, output: Some(name) }),
            }
        }
        let mut partials = Vec::new();
        let mut counters: Vec<(ReductionGroup, String)> = Vec::new();
        for (i, output, reduction) in tree.reductions().filter(|(_, _, r)| r.form == Form::Complete) {
            let name = format!("partials{i}");
            let ty = match (indexed(reduction, tree.real()), reduction.op) {
                (Some((value, index)), _) => FieldType::IndexedPartials(value, index),
                (None, ReduceOp::User(reducer)) => FieldType::StatePartials(reducers::place(tree, reducer)),
                (None, _) => FieldType::Partials(real),
            };
            fields.push((name.clone(), ty, format!("of {}, in the workspace", output.name)));
            partials.push((i, name));
            let group = ReductionGroup::of(reduction);
            if counters.iter().all(|(g, _)| *g != group) {
                counters.push((group, format!("counters_{}", group.name())));
            }
        }
        for (_, name) in &counters {
            fields.push((name.clone(), FieldType::Counters, "in the workspace, 0 between launches".to_owned()));
        }
        Self { layout: ParameterLayout::new("Arguments", fields), fields: places, partials, counters }
    }

    /// The expression that stores a complete reduction of a tile's batch. A reduction of a whole matrix is stored at
    /// the value's own place.
    pub(crate) fn stored_by(&self, output: usize) -> String {
        let name = output_name(output);
        match self.layout.field(&name).map(|field| field.ty) {
            Some(FieldType::Batches(BatchView::Scalar, _)) => format!("arguments.{name}.of(work.batch)"),
            _ => format!("arguments.{name}"),
        }
    }
}

pub(crate) fn output_name(i: usize) -> String {
    format!("output{i}")
}

fn output_type(output: &ValidOutput) -> FieldType {
    if output.is_partial() {
        return FieldType::Tensor(output.element);
    }
    match output.class {
        BroadcastClass::Tensor => FieldType::Tensor(output.element),
        BroadcastClass::RowVector | BroadcastClass::ColumnVector => FieldType::Vector(output.element),
        BroadcastClass::Scalar => FieldType::Scalar(output.element),
    }
}

/// The C++ type that says how a reduction combines.
pub(crate) fn operation(tree: &ValidTree, op: ReduceOp) -> String {
    match op {
        ReduceOp::Add => "ReduceAdd",
        ReduceOp::Mul => "ReduceMul",
        ReduceOp::Max => "ReduceMax",
        ReduceOp::Min => "ReduceMin",
        ReduceOp::AbsMax => "ReduceAbsMax",
        ReduceOp::SumSquares => "ReduceSumSquares",
        ReduceOp::ArgMax => "ReduceArgMax",
        ReduceOp::ArgMin => "ReduceArgMin",
        ReduceOp::User(reducer) => return reducers::name(tree, reducer),
    }
    .to_owned()
}

/// The types of a value and its index, for a reduction that gives one. No 4 bytes are between them, which nobody would write
/// and copies would read; and the index of everything may not fit 32 bits.
const fn indexed(reduction: Reduction, real: Real) -> Option<(ElementType, ElementType)> {
    match (reduction.op.gives_index(), reduction.axis, real) {
        (false, ..) => None,
        (true, Axis::Row | Axis::Column, Real::F32) => Some((ElementType::F32, ElementType::I32)),
        (true, ..) => Some((ElementType::F64, ElementType::I64)),
    }
}

/// The C++ type of a reduction's running result.
pub(crate) fn running_type(tree: &ValidTree, reduction: Reduction) -> String {
    match (indexed(reduction, tree.real()), reduction.op) {
        (Some((value, index)), _) => format!("Indexed<{}, {}>", element_name(value), element_name(index)),
        (None, ReduceOp::User(reducer)) => format!("State<{}>", reducers::name(tree, reducer)),
        (None, _) => "Real".to_owned(),
    }
}

/// The C++ expression that a reduction takes for an element, from the expressions of its value, its row and its column.
pub(crate) fn taken(tree: &ValidTree, reduction: Reduction, value: &str, row: &str, column: &str) -> String {
    match (reduction.op, reduction.axis) {
        (ReduceOp::User(reducer), _) => format!("{}::of({value})", reducers::name(tree, reducer)),
        (op, _) if !op.gives_index() => value.to_owned(),
        (_, Axis::Row) => format!("{{{value}, {column}}}"),
        (_, Axis::Column) => format!("{{{value}, {row}}}"),
        (_, Axis::All) => format!("{{{value}, i64({row}) * problem.n + ({column})}}"),
    }
}

/// A family's own headers.
pub(crate) struct FamilyHeaders<'h> {
    /// Headers of the kernel.
    pub(crate) kernel: &'h [&'h str],
    /// Structs whose fields they include.
    pub(crate) structs: &'static [&'static DeviceStruct],
    /// Headers for random numbers, for bits, and for arguments that are counted by digits.
    pub(crate) random: Option<&'h str>,
    pub(crate) bits: Option<&'h str>,
    pub(crate) digits: Option<&'h str>,
}

impl<'h> FamilyHeaders<'h> {
    /// Headers of a kernel that needs no other.
    pub(crate) const fn of(kernel: &'h [&'h str], structs: &'static [&'static DeviceStruct]) -> Self {
        Self { kernel, structs, random: None, bits: None, digits: None }
    }

    /// The C++ of a struct's fields, by the name of their `#include`.
    pub(crate) fn fields(&self, name: &str) -> Option<String> {
        DeviceStruct::find(self.structs, name).or_else(|| DeviceStruct::find(STRUCTS, name)).map(DeviceStruct::cuda)
    }
}

/// All headers of a kernel: first those that its family's own build on.
pub(crate) fn headers<'h>(tree: &ValidTree, family: &FamilyHeaders<'h>, views: ArgumentViews) -> Vec<&'h str> {
    let reductions = || tree.reductions().map(|(.., reduction)| reduction).chain(tree.used_reductions());
    let indexed = reductions().any(|reduction| reduction.op.gives_index());
    let own = reductions().any(|reduction| reduction.op.user().is_some());
    let exponentials = reductions().any(|reduction| reduction.op.user().and_then(AtInfinity::of).is_some());
    let wanted = [
        (indexed, "indexed.cuh"),
        (own, "state.cuh"),
        (exponentials, "exponentials.cuh"),
        (tree.has_chance(), "random.cuh"),
        (tree.has_bits(), "bits.cuh"),
        (views.digits | views.digits_of_tail != 0, "digits.cuh"),
        (views.batches | views.batches_of_tail != 0, "batches.cuh"),
        (views.scattered != 0, "scattered.cuh"),
    ];
    let own = wanted.into_iter().filter_map(|(wanted, header)| wanted.then_some(header));
    let wanted =
        [(tree.has_chance(), family.random), (tree.has_bits(), family.bits), (views.digits != 0, family.digits)];
    let of_family = wanted.into_iter().filter_map(|(wanted, header)| header.filter(|_| wanted));
    ["convert.cuh", "math.cuh"].into_iter().chain(own).chain(family.kernel.iter().copied()).chain(of_family).collect()
}
