//! A kernel's single parameter: a C++ struct, and the bytes that fill it, from one description.
//!
//! It begins with the family's part (`Common`, behind tensor maps if it has any), followed by `Arguments`, which
//! belong to the epilogue. Every field of these is made of 8-byte values, except host scalars of f32, which come last.
//! So there is no padding, and the offsets computed here are those of C++; the emitted `static_assert` on the size checks
//! it.

use super::device_struct::DeviceStruct;
use super::structs::{BATCHES, DIGITS, DIGITS_VECTOR, SCALAR, SCATTERED, SEED, TENSOR, VECTOR};
use crate::ElementType;
use crate::cuda::Writer;
use crate::expr::cuda::element_name;

/// The bytes of parameters that every architecture allows (CUDA C++ Programming Guide, "Function Parameters").
pub(crate) const PARAMETER_LIMIT: usize = 4096;

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    /// `TensorView<T>`.
    Tensor(ElementType),
    /// `DigitsView<T>`.
    Digits(ElementType),
    /// `ScatteredView<T>`.
    Scattered(ElementType),
    /// `VectorView<T>`.
    Vector(ElementType),
    /// `DigitsVectorView<T>`.
    DigitsVector(ElementType),
    /// `ScalarView<T>`.
    Scalar(ElementType),
    /// One of these in batches of two digits, such as `BatchesTensorView<T>`.
    Batches(BatchView, ElementType),
    /// A host scalar.
    Host(ElementType),
    /// `SeedView`.
    Seed,
    /// Partials in the workspace.
    Partials(ElementType),
    /// Partials in the workspace, each a value with its element's index.
    IndexedPartials(ElementType, ElementType),
    /// Partials in the workspace: running results of the tree's reducer at this index.
    StatePartials(usize),
    /// Counters in the workspace.
    Counters,
}

/// A view that has a stride between batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchView {
    Tensor,
    Digits,
    Vector,
    DigitsVector,
    Scalar,
}

impl BatchView {
    /// The type of one of them.
    pub(crate) const fn of_one(self, element: ElementType) -> FieldType {
        match self {
            Self::Tensor => FieldType::Tensor(element),
            Self::Digits => FieldType::Digits(element),
            Self::Vector => FieldType::Vector(element),
            Self::DigitsVector => FieldType::DigitsVector(element),
            Self::Scalar => FieldType::Scalar(element),
        }
    }
}

impl FieldType {
    /// The type of this field if two digits count its batches; unchanged if it has no batches.
    pub(crate) const fn in_batches(self) -> Self {
        match self {
            Self::Tensor(element) => Self::Batches(BatchView::Tensor, element),
            Self::Digits(element) => Self::Batches(BatchView::Digits, element),
            Self::Vector(element) => Self::Batches(BatchView::Vector, element),
            Self::DigitsVector(element) => Self::Batches(BatchView::DigitsVector, element),
            Self::Scalar(element) => Self::Batches(BatchView::Scalar, element),
            own => own,
        }
    }

    /// The fields of a view; `None` for a single value. Fields that count batches follow them.
    pub(crate) const fn view(self) -> Option<&'static DeviceStruct> {
        match self {
            Self::Tensor(_) => Some(&TENSOR),
            Self::Scattered(_) => Some(&SCATTERED),
            Self::Digits(_) => Some(&DIGITS),
            Self::Vector(_) => Some(&VECTOR),
            Self::DigitsVector(_) => Some(&DIGITS_VECTOR),
            Self::Scalar(_) => Some(&SCALAR),
            Self::Seed => Some(&SEED),
            Self::Batches(view, element) => view.of_one(element).view(),
            Self::Host(_) | Self::Partials(_) | Self::IndexedPartials(..) | Self::StatePartials(_) | Self::Counters => {
                None
            }
        }
    }

    /// The axes of a view, without its batch's.
    pub(crate) const fn axes(self) -> usize {
        match self {
            Self::Digits(_) => 4,
            Self::Tensor(_) | Self::Scattered(_) | Self::DigitsVector(_) => 2,
            Self::Vector(_) | Self::Seed => 1,
            Self::Batches(view, element) => view.of_one(element).axes(),
            _ => 0,
        }
    }

    /// Size in bytes.
    pub(crate) const fn size(self) -> usize {
        match (self, self.view()) {
            (Self::Batches(..), Some(view)) => view.bytes(1) + BATCHES.bytes(1),
            (_, Some(view)) => view.bytes(1),
            (Self::Host(element), None) => element.size(),
            (_, None) => 8,
        }
    }

    fn alignment(self) -> usize {
        self.size().min(8)
    }

    fn cuda(self) -> String {
        match self {
            Self::Tensor(element) => format!("TensorView<{}>", element_name(element)),
            Self::Digits(element) => format!("DigitsView<{}>", element_name(element)),
            Self::Scattered(element) => format!("ScatteredView<{}>", element_name(element)),
            Self::Vector(element) => format!("VectorView<{}>", element_name(element)),
            Self::DigitsVector(element) => format!("DigitsVectorView<{}>", element_name(element)),
            Self::Scalar(element) => format!("ScalarView<{}>", element_name(element)),
            Self::Batches(view, element) => format!("Batches{}", view.of_one(element).cuda()),
            Self::Host(element) => element_name(element).to_owned(),
            Self::Seed => "SeedView".to_owned(),
            Self::Partials(element) => format!("{}*", element_name(element)),
            Self::IndexedPartials(element, index) => {
                format!("Indexed<{}, {}>*", element_name(element), element_name(index))
            }
            Self::StatePartials(place) => format!("State<Reducer{place}>*"),
            Self::Counters => "u32*".to_owned(),
        }
    }
}

/// A field and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name in the struct.
    pub(crate) name: String,
    /// Its type.
    pub(crate) ty: FieldType,
    /// Byte offset.
    pub(crate) offset: usize,
    /// The comment in the kernel that explains it.
    comment: String,
}

/// A struct, field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParameterLayout {
    name: &'static str,
    fields: Vec<Field>,
    size: usize,
}

impl ParameterLayout {
    /// Lays out the fields: first those of 8-byte alignment in the given order, then those of 4 bytes.
    pub(crate) fn new(name: &'static str, fields: impl IntoIterator<Item = (String, FieldType, String)>) -> Self {
        let (wide, narrow): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(_, ty, _)| ty.alignment() == 8);
        let mut layout = Self { name, ..Self::default() };
        for (name, ty, comment) in wide.into_iter().chain(narrow) {
            let offset = layout.size.next_multiple_of(ty.alignment());
            layout.size = offset + ty.size();
            layout.fields.push(Field { name, ty, offset, comment });
        }
        layout.size = layout.size.next_multiple_of(8);
        layout
    }

    /// Size of the struct in bytes.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// The field with a name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The struct in C++, with assertions that the compiler uses the same layout.
    pub(crate) fn cuda(&self) -> String {
        let (name, mut code) = (self.name, Writer::new());
        writeln!(code, "struct {name} {{");
        for field in &self.fields {
            let declaration = format!("{} {};", field.ty.cuda(), field.name);
            writeln!(code, "{declaration:<40}  // {}", field.comment);
        }
        writeln!(code, "}};");
        if !self.fields.is_empty() {
            writeln!(code, "static_assert(sizeof({name}) == {}, \"as the host fills it\");", self.size);
        }
        code.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_fields_come_last() {
        let field = |name: &str, ty| (name.to_owned(), ty, String::new());
        let fields = [
            field("alpha", FieldType::Host(ElementType::F32)),
            field("c", FieldType::Tensor(ElementType::F16)),
            field("beta", FieldType::Host(ElementType::F32)),
            field("gamma", FieldType::Host(ElementType::F32)),
            field("r", FieldType::Vector(ElementType::F32)),
        ];
        let layout = ParameterLayout::new("Arguments", fields);
        let offsets: Vec<_> = layout.fields.iter().map(|f| (f.name.as_str(), f.offset)).collect();
        assert_eq!(offsets, [("c", 0), ("r", 40), ("alpha", 64), ("beta", 68), ("gamma", 72)]);
        assert_eq!(layout.size(), 80);
    }
}
