//! Structs that device headers declare and the host fills, each described once: the family's and the reading's parts of a
//! kernel's parameter.
//!
//! Sizes and offsets follow from the description, and so do the fields' names in a
//! [`LaunchDescription`](super::launch::LaunchDescription). A test compares it with the header. What belongs to the epilogue is
//! a [`ParameterLayout`](super::parameters::ParameterLayout), which is generated for each kernel.

use super::launch::Memory;
use super::parameters::ParameterBytes;

/// A struct of fields without padding.
#[derive(Debug)]
pub(crate) struct DeviceStruct {
    /// Its name in the header; `None` if its fields are declared one by one.
    pub(crate) name: Option<&'static str>,
    pub(crate) fields: &'static [DeviceField],
}

/// A field, or an array of them.
#[derive(Debug)]
pub(crate) struct DeviceField {
    ty: DeviceType,
    /// Its name in descriptions of launches.
    name: &'static str,
    /// Its name in the header.
    declared: &'static str,
    count: usize,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceType {
    /// This pointer.
    Pointer(&'static str),
    /// `index_t`: 64 bits.
    Index,
    /// `int`.
    Int,
    /// `u32`.
    U32,
    Struct(&'static DeviceStruct),
}

/// A field.
pub(crate) const fn one(ty: DeviceType, name: &'static str) -> DeviceField {
    array(ty, name, 1)
}

/// An array of fields.
pub(crate) const fn array(ty: DeviceType, name: &'static str, count: usize) -> DeviceField {
    DeviceField { ty, name, declared: name, count }
}

impl DeviceField {
    /// The same with another name in the header.
    pub(crate) const fn declared(self, declared: &'static str) -> Self {
        Self { declared, ..self }
    }
}

impl DeviceType {
    const fn bytes(self) -> usize {
        match self {
            Self::Pointer(_) | Self::Index => 8,
            Self::Int | Self::U32 => 4,
            Self::Struct(fields) => fields.bytes(),
        }
    }
}

impl DeviceStruct {
    /// Size in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        let (mut bytes, mut i) = (0, 0);
        while i < self.fields.len() {
            bytes += self.fields[i].ty.bytes() * self.fields[i].count;
            i += 1;
        }
        bytes
    }
}

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

impl From<usize> for DeviceValue {
    fn from(number: usize) -> Self {
        Self::Number(number as i64)
    }
}

impl From<isize> for DeviceValue {
    fn from(number: isize) -> Self {
        Self::Number(number as i64)
    }
}

impl From<i32> for DeviceValue {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

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
        for field in of.fields {
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
                    (DeviceValue::Address(of, base, plus), _) => self.bytes.put_address(self.at, (of, base), plus, name),
                    (DeviceValue::Number(number), 8) => {
                        self.bytes.put_named_words(self.at, &[number.cast_unsigned()], |_| name());
                    }
                    (DeviceValue::Number(number), _) => {
                        let int = i32::try_from(number).unwrap_or(i32::MAX);
                        self.bytes.put_named_ints(self.at, &[int], |_| name());
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

    /// The fields as declarations, one by one.
    fn declarations(of: &DeviceStruct) -> Vec<String> {
        let of_field = |field: &DeviceField| {
            let count = if field.count > 1 { format!("[{}]", field.count) } else { String::new() };
            match field.ty {
                DeviceType::Pointer(ty) => vec![format!("{ty} {}{count}", field.declared)],
                DeviceType::Index => vec![format!("index_t {}{count}", field.declared)],
                DeviceType::Int => vec![format!("int {}{count}", field.declared)],
                DeviceType::U32 => vec![format!("u32 {}{count}", field.declared)],
                DeviceType::Struct(inner) => match inner.name {
                    Some(name) => vec![format!("{name} {}{count}", field.declared)],
                    None => declarations(inner),
                },
            }
        };
        of.fields.iter().flat_map(of_field).collect()
    }

    /// Whether a header declares these fields in a struct of this name.
    pub(crate) fn check(header: &str, of: &DeviceStruct) {
        let name = of.name.expect("a name");
        let (_, body) = header.split_once(&format!("struct {name} ")).expect(name);
        let (_, body) = body.split_once('{').expect(name);
        let lines = body.lines().map(|line| line.split("//").next().unwrap_or_default());
        let lines = lines.take_while(|line| !line.starts_with('}') && !line.contains('('));
        let text: String = lines.collect();
        let declared = text.split(';').map(str::trim).filter(|declaration| !declaration.is_empty());
        let declared = declared.flat_map(|declaration| {
            let (first, more) = declaration.split_once(',').map_or((declaration, ""), |(first, more)| (first, more));
            let (ty, _) = first.rsplit_once(' ').expect(declaration);
            let others = more.split(',').filter(|name| !name.is_empty()).map(move |name| format!("{ty} {}", name.trim()));
            std::iter::once(first.to_owned()).chain(others)
        });
        assert_eq!(declared.collect::<Vec<_>>(), declarations(of), "{name}");
    }
}
