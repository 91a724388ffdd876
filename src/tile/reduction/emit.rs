//! CUDA C++ text that the variants share.

use super::TileOp;
use super::mapping::Loop;
use crate::ElementType;
use crate::cuda::Writer;

/// Whether reductions support an element type.
pub(super) const fn is_supported(element: ElementType) -> bool {
    matches!(
        element,
        ElementType::F64
            | ElementType::F32
            | ElementType::F16
            | ElementType::BF16
            | ElementType::I64
            | ElementType::I32
    )
}

/// The C++ type of an element in memory.
pub(super) const fn memory_type(element: ElementType) -> &'static str {
    match element {
        ElementType::F64 => "double",
        ElementType::F32 => "float",
        other => other.name(),
    }
}

/// The arithmetic of an element type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arithmetic {
    pub(super) op: TileOp,
    element: ElementType,
}

impl Arithmetic {
    pub(super) const fn new(op: TileOp, element: ElementType) -> Self {
        Self { op, element }
    }

    /// Whether elements are accumulated as they are stored.
    pub(super) const fn in_place(self) -> bool {
        !matches!(self.element, ElementType::F16 | ElementType::BF16)
    }

    /// The type of the accumulator.
    pub(super) const fn ty(self) -> &'static str {
        match self.element {
            ElementType::F16 | ElementType::BF16 => "float",
            other => memory_type(other),
        }
    }

    /// The name of the functor in `collective.cuh`.
    pub(super) const fn functor(self) -> &'static str {
        match self.op {
            TileOp::Sum => "ReduceAdd",
            TileOp::Max => "ReduceMax",
            TileOp::Min => "ReduceMin",
        }
    }

    /// The result of a reduction over no elements.
    pub(super) fn identity(self) -> String {
        match (self.op, self.ty()) {
            (TileOp::Sum, "double") => "0.0".to_owned(),
            (TileOp::Sum, "float") => "0.0f".to_owned(),
            (TileOp::Sum, _) => "0".to_owned(),
            (TileOp::Max, ty) => format!("Ends<{ty}>::least()"),
            (TileOp::Min, ty) => format!("Ends<{ty}>::greatest()"),
        }
    }

    pub(super) fn combine(self, x: &str, y: &str) -> String {
        match self.op {
            TileOp::Sum => format!("{x} + {y}"),
            TileOp::Max => format!("larger({x}, {y})"),
            TileOp::Min => format!("smaller({x}, {y})"),
        }
    }

    /// Text that converts an element to the type of the accumulator.
    pub(super) fn load(self, place: &str) -> String {
        if self.in_place() { place.to_owned() } else { format!("widen<float>({place})") }
    }

    /// Text that converts a result to the type in memory.
    pub(super) fn store(self, value: &str) -> String {
        if self.in_place() { value.to_owned() } else { format!("narrow<{}>({value})", self.element.name()) }
    }
}

/// Loops around statements. Loops over registers must be unrolled, since registers have no addresses.
pub(super) fn loops(names: &[String], loops: &[Loop], unroll: bool, body: Writer) -> Writer {
    let mut code = Writer::new();
    let body = body.value();
    // One statement needs no braces.
    let braces = body.lines().filter(|line| !line.starts_with('#')).count() > 1;
    let brace = if braces { " {" } else { "" };
    let deeper = |depth: usize| if braces { 0 } else { 4 * depth };
    for (depth, (name, l)) in names.iter().zip(loops).enumerate() {
        if unroll {
            code.lines("#pragma unroll");
        }
        writeln!(code, "{:1$}for (int {name} = 0; {name} < {2}; ++{name}){brace}", "", deeper(depth), l.extent);
    }
    writeln!(code, "{:1$}{body}", "", deeper(loops.len()));
    if braces {
        code.lines(&"}\n".repeat(loops.len()));
    }
    code
}

/// The names of loop counters. A single loop's counter has the bare name.
pub(super) fn counters(name: &str, loops: &[Loop]) -> Vec<String> {
    if loops.len() == 1 {
        return vec![name.to_owned()];
    }
    (0..loops.len()).map(|i| format!("{name}{i}")).collect()
}

/// `Σ counter * stride + offset`
pub(super) fn index(terms: impl IntoIterator<Item = (String, usize)>, offset: usize) -> String {
    let mut parts: Vec<String> = terms
        .into_iter()
        .filter(|(_, stride)| *stride != 0)
        .map(|(counter, stride)| if stride == 1 { counter } else { format!("{counter} * {stride}") })
        .collect();
    if offset != 0 || parts.is_empty() {
        parts.push(offset.to_string());
    }
    parts.join(" + ")
}
