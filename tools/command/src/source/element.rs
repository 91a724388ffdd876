//! Element types by name.

use epilogue::ElementType;

const ELEMENTS: [ElementType; 11] = [
    ElementType::F64,
    ElementType::F32,
    ElementType::BF16,
    ElementType::F16,
    ElementType::F8E4M3,
    ElementType::F8E5M2,
    ElementType::I64,
    ElementType::I32,
    ElementType::I8,
    ElementType::U8,
    ElementType::Bool,
];

/// The element type of a name, or what there is instead.
pub(crate) fn element(name: &str) -> Result<ElementType, String> {
    ELEMENTS.into_iter().find(|element| element.name() == name).ok_or_else(|| {
        let all: Vec<&str> = ELEMENTS.iter().map(|element| element.name()).collect();
        format!("`{name}` is not an element type; there are {}", all.join(", "))
    })
}
