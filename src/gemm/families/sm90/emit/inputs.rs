//! The arguments that the epilogue of an sm_90a kernel reads and writes, and how each is accessed.

use crate::ElementType;
use crate::evt::{ParameterClass, Position, Sweep, ValidTree, ValueId, ValueType};
use crate::gemm::emit::arguments::EpilogueArguments;
use crate::gemm::emit::element::visitor_type;
use crate::gemm::families::sm90::kernel::{Sm90Key, Traffic};
use crate::gemm::kernel::parameters::FieldType;

fn is_integer(tree: &ValidTree, id: ValueId) -> bool {
    matches!(tree.value(id).ty, ValueType::Integer(_))
}

/// A tensor that is copied by boxes.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    /// The number of its tensor map.
    pub(super) map: usize,
    /// Its field of `Arguments`.
    pub(super) field: String,
    /// Its elements.
    pub(super) element: ElementType,
    /// Whether its rows or columns are counted by two digits.
    pub(super) has_digits: bool,
}

/// An argument that is read.
#[derive(Clone, Debug)]
pub(super) struct InputRead {
    /// Its field of `Arguments`: its value's name with a leading `_`.
    pub(super) field: String,
    /// Its elements.
    pub(super) element: ElementType,
    /// The C++ type of its value, as the visitor writes it.
    pub(super) ty: &'static str,
    /// Its class.
    pub(super) class: ParameterClass,
    /// Its number among the parameters.
    pub(super) parameter: usize,
    /// How it reaches the lanes.
    pub(super) way: Way,
}

impl InputRead {
    /// The C++ type, of 4 bytes, of a staged vector's entries in shared memory.
    pub(super) fn staged_type(&self) -> &'static str {
        if self.ty == "Real" { "float" } else { "i32" }
    }
}

/// How the threads that need an argument get it.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// A tensor, copied by boxes through shared memory.
    Copied(Copied),
    /// A tensor, read element by element.
    Direct,
    /// Bits: lanes read a byte each, and share them.
    Bits,
    /// A vector along MMA columns, staged in shared memory, with its number.
    Staged(usize),
    /// A vector along MMA columns whose entries need more than 4 bytes. It is read where it is used.
    Entries,
    /// A vector along MMA rows, in registers.
    Rows,
    /// A value in device memory, in a register.
    Value,
}

/// The arguments that a tree reads, in the parameters' order, and the outputs that are copied.
#[derive(Clone, Debug)]
pub(super) struct Accesses {
    /// The arguments that are read from memory.
    pub(super) reads: Vec<InputRead>,
    /// The outputs that are copied by boxes, each with its number.
    pub(super) copied_outputs: Vec<(usize, Copied)>,
    /// The number of staged vectors.
    pub(super) staged_vectors: usize,
}

impl Accesses {
    pub(super) fn of(tree: &ValidTree, key: &Sm90Key, traffic: &Traffic, arguments: &EpilogueArguments) -> Self {
        let along_columns = if key.swap_ab { ParameterClass::ColumnVector } else { ParameterClass::RowVector };
        // The maps of A, unless its rows are picked, and of all B come first.
        let operands = usize::from(!key.reading.is_picked()) + 1 + traffic.further_accumulators;
        let copied = |map: usize, field: String, element: ElementType| {
            let ty = arguments.layout.field(&field).map(|field| field.ty);
            Copied { map, field, element, has_digits: matches!(ty, Some(FieldType::Digits(_))) }
        };
        let (mut reads, mut staged_vectors) = (Vec::new(), 0);
        for (i, parameter) in tree.parameters().iter().enumerate() {
            let is_read = !matches!(parameter.class, ParameterClass::Scalar | ParameterClass::Seed);
            let Some(value) = parameter.value.filter(|_| is_read) else { continue };
            let field = format!("_{}", tree.value(value).name);
            let element = parameter.element;
            let ty = visitor_type(tree, value);
            let way = match parameter.class {
                ParameterClass::Tensor | ParameterClass::TensorMut => {
                    match traffic.inputs.iter().position(|(argument, _)| *argument == i) {
                        Some(at) => Way::Copied(copied(operands + at, field.clone(), element)),
                        None => Way::Direct,
                    }
                }
                ParameterClass::Bits => Way::Bits,
                // Entries that are used as numbers are staged as f32. Those used as integers of 64 bits have to stay
                // exact.
                class if class == along_columns && element == ElementType::I64 && is_integer(tree, value) => {
                    Way::Entries
                }
                class if class == along_columns => {
                    staged_vectors += 1;
                    Way::Staged(staged_vectors - 1)
                }
                ParameterClass::RowVector | ParameterClass::ColumnVector => Way::Rows,
                ParameterClass::DeviceScalar | ParameterClass::Scalar | ParameterClass::Seed => Way::Value,
            };
            reads.push(InputRead { field, element, ty, class: parameter.class, parameter: i, way });
        }
        let copied_outputs = tree
            .stores()
            .filter_map(|(i, output)| {
                let argument = tree.output_argument(i);
                let at = traffic.outputs.iter().position(|(copied, _)| *copied == argument)?;
                let field = arguments.fields.get(argument)?.output.clone()?;
                Some((i, copied(operands + traffic.inputs.len() + at, field, output.element)))
            })
            .collect();
        Self { reads, copied_outputs, staged_vectors }
    }

    /// The arguments that a sweep reads.
    pub(super) fn of_sweep(&self, sweep: &Sweep<'_>) -> Vec<InputRead> {
        let is_read = |read: &&InputRead| sweep.tree.parameters()[read.parameter].value.is_some();
        self.reads.iter().filter(is_read).cloned().collect()
    }

    /// The inputs that are copied by boxes.
    pub(super) fn copied_inputs(&self) -> Vec<(&InputRead, &Copied)> {
        let copied = self.reads.iter().filter_map(|read| match &read.way {
            Way::Copied(copied) => Some((read, copied)),
            _ => None,
        });
        copied.collect()
    }
}

/// A position of value `v`, in `i32`, as the kernel counts.
pub(super) fn position_of(position: Position, swap_ab: bool) -> String {
    let along_rows = "L::row(block, L::half(v))";
    let along_columns = "L::column(column, L::column_index(v))";
    match (position, swap_ab) {
        (Position::Row, false) => format!("work.m + {along_rows}"),
        (Position::Row, true) => format!("work.m + {along_columns}"),
        (Position::Column, false) => format!("work.n + {along_columns}"),
        (Position::Column, true) => format!("work.n + {along_rows}"),
        (Position::Batch, _) => "work.batch".to_owned(),
        (Position::Rows, _) => "problem.m".to_owned(),
        (Position::Columns, _) => "problem.n".to_owned(),
    }
}
