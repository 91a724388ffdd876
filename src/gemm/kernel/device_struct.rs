//! Structs that device headers declare and the host fills, each described once: the family's and the reading's parts of a
//! kernel's parameter.
//!
//! Sizes and offsets follow from the description, and so do the fields' names in a
//! [`LaunchDescription`](super::launch::LaunchDescription). A test compares it with the header. What belongs to the epilogue is
//! a [`ParameterLayout`](super::parameters::ParameterLayout), which is generated for each kernel.

use super::launch::Memory;
use super::parameter_bytes::ParameterBytes;

/// A struct of fields without padding.
#[derive(Debug)]
pub(crate) struct DeviceStruct(pub(crate) &'static [DeviceField]);

/// A field, or an array of them.
#[derive(Debug)]
pub(crate) struct DeviceField {
    /// Its name in descriptions of launches.
    name: &'static str,
    ty: DeviceType,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
enum DeviceType {
    /// A pointer, or an integer of 64 bits.
    Wide,
    /// An integer of 32 bits.
    Narrow,
    Struct(&'static DeviceStruct),
}

/// A pointer, or an integer of 64 bits.
pub(crate) const fn wide(name: &'static str) -> DeviceField {
    DeviceField { name, ty: DeviceType::Wide, count: 1 }
}

/// An integer of 32 bits.
pub(crate) const fn narrow(name: &'static str) -> DeviceField {
    DeviceField { name, ty: DeviceType::Narrow, count: 1 }
}

/// A struct. Without a name, its fields are named as if they were the outer one's.
pub(crate) const fn inner(name: &'static str, of: &'static DeviceStruct) -> DeviceField {
    DeviceField { name, ty: DeviceType::Struct(of), count: 1 }
}

impl DeviceField {
    /// An array of so many.
    pub(crate) const fn times(self, count: usize) -> Self {
        Self { count, ..self }
    }
}

impl DeviceType {
    const fn bytes(self) -> usize {
        match self {
            Self::Wide => 8,
            Self::Narrow => 4,
            Self::Struct(fields) => fields.bytes(),
        }
    }
}

impl DeviceStruct {
    /// Size in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        let (mut bytes, mut i) = (0, 0);
        while i < self.0.len() {
            bytes += self.0[i].ty.bytes() * self.0[i].count;
            i += 1;
        }
        bytes
    }
}

/// Bounds of groups, behind what kernels without need.
pub(crate) const GROUPS: DeviceStruct =
    DeviceStruct(&[wide("bounds"), wide("stride"), narrow("count"), narrow("form")]);

/// The index that picks the rows of A, or places those of a view.
pub(crate) const ROW_INDEX: DeviceStruct =
    DeviceStruct(&[wide("rows"), wide("stride"), narrow("limit"), narrow("site")]);

/// An operand, or the scales of its blocks: where it is, and its strides.
pub(crate) const OPERAND: DeviceStruct =
    DeviceStruct(&[wide("pointer"), wide("outer_stride"), wide("k_stride"), wide("batch_stride")]);

/// Extents, as kernels of all families count them.
pub(crate) const PROBLEM: DeviceStruct = DeviceStruct(&[
    narrow("m"),
    narrow("n"),
    narrow("k"),
    narrow("batch"),
    narrow("tiles_m"),
    narrow("tiles_n"),
    narrow("splits"),
    narrow("k_per_split"),
]);

/// Where the sums of split-K and their counters are.
pub(crate) const SUMS: DeviceStruct = DeviceStruct(&[wide("split_k_sums"), wide("split_k_counters")]);

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceValue {
    /// So many bytes behind an address.
    Address(Memory, u64, u64),
    /// A number. One beyond 32 bits becomes the largest in a field of so many.
    Number(i64),
}

impl DeviceValue {
    /// The address of a tensor's first element.
    pub(crate) const fn address(of: Memory, base: u64) -> Self {
        Self::Address(of, base, 0)
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for DeviceValue {
            fn from(number: $ty) -> Self {
                Self::Number(number as i64)
            }
        }
    )*};
}

numbers!(usize, isize, u64, i32);

/// Fills structs one behind the other.
pub(crate) struct Filler<'b> {
    pub(crate) bytes: &'b mut ParameterBytes,
    /// Where the next one begins.
    pub(crate) at: usize,
}

impl Filler<'_> {
    /// Fills a struct whose fields' names begin with `name`, by values in their order; zeros where there are no more.
    pub(crate) fn put<V: Into<DeviceValue>>(
        &mut self,
        of: &DeviceStruct,
        name: &dyn Fn() -> String,
        values: impl IntoIterator<Item = V>,
    ) {
        self.put_fields(of, name, &mut values.into_iter().map(Into::into));
    }

    fn put_fields(
        &mut self,
        of: &DeviceStruct,
        path: &dyn Fn() -> String,
        values: &mut dyn Iterator<Item = DeviceValue>,
    ) {
        for field in of.0 {
            for i in 0..field.count {
                let name = || {
                    let parts = [path(), field.name.to_owned(), i.to_string()];
                    let named = parts.iter().take(if field.count > 1 { 3 } else { 2 });
                    named.filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(".")
                };
                if let DeviceType::Struct(inner) = field.ty {
                    self.put_fields(inner, &name, values);
                    continue;
                }
                let value = values.next().unwrap_or(DeviceValue::Number(0));
                match (value, field.ty.bytes()) {
                    (DeviceValue::Address(of, base, plus), _) => {
                        self.bytes.put_address(self.at, (of, base), plus, name);
                    }
                    (DeviceValue::Number(number), 8) => {
                        self.bytes.put_integer(self.at, 8, number.cast_unsigned(), name);
                    }
                    (DeviceValue::Number(number), bytes) => {
                        // As 32 bits, whatever the sign.
                        let int = i32::try_from(number).unwrap_or(i32::MAX).cast_unsigned();
                        self.bytes.put_integer(self.at, bytes, int.into(), name);
                    }
                }
                self.at += field.ty.bytes();
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Whether a header declares a struct of this name so: names may be shorter, as `outer` for `outer_stride`.
    pub(crate) fn check(header: &str, name: &str, of: &DeviceStruct) {
        let (_, body) = header.split_once(&format!("struct {name} ")).expect(name);
        let (_, body) = body.split_once('{').expect(name);
        let lines = body.lines().map(|line| line.split("//").next().unwrap_or_default());
        let text: String = lines.take_while(|line| !line.starts_with('}') && !line.contains('(')).collect();
        let declarations = text.split(';').map(str::trim).filter(|declaration| !declaration.is_empty());
        let mut declared = declarations.flat_map(|declaration| {
            let first = declaration.split(',').next().unwrap_or_default();
            let (ty, _) = first.rsplit_once(' ').expect(name);
            declaration[ty.len()..].split(',').map(move |name| (ty, name.trim()))
        });
        for field in of.0 {
            let (ty, declared) = declared.next().unwrap_or_else(|| panic!("{name} has no {}", field.name));
            let width = match ty {
                "int" | "u32" => Some(4),
                _ if ty == "index_t" || ty.ends_with('*') => Some(8),
                _ => None,
            };
            match field.ty {
                DeviceType::Struct(_) => assert_eq!(width, None, "{name}: {ty} {declared}"),
                scalar => assert_eq!(width, Some(scalar.bytes()), "{name}: {ty} {declared}"),
            }
            let (own, count) = declared.split_once('[').unwrap_or((declared, "1"));
            assert_eq!(count.trim_end_matches(']'), field.count.to_string(), "{name}: {declared}");
            let alike = field.name.starts_with(own) || field.name.replace("_is", "").replace("_are", "") == own;
            assert!(alike || field.name.is_empty(), "{name}: {own} is described as {}", field.name);
        }
        assert_eq!(declared.next(), None, "{name}");
    }

    #[test]
    fn structs_are_as_headers_declare_them() {
        check(include_str!("../../device/groups.cuh"), "Groups", &GROUPS);
        check(include_str!("../../device/row_index.cuh"), "RowIndex", &ROW_INDEX);
        check(include_str!("../../device/block_scales.cuh"), "OperandScales", &OPERAND);
        check(include_str!("../../device/sm80/loader.cuh"), "Operand", &OPERAND);
        check(include_str!("../../device/sm80/scheduler.cuh"), "Problem", &PROBLEM);
    }
}
