//! Fills the structs of a parameter.

use smallvec::SmallVec;

use super::device_struct::{Content, Count, DeviceField, DeviceStruct};
use super::formula::{Evaluation, Scope};
use super::launch::Memory;
use super::parameter_bytes::ParameterBytes;

/// Fills structs one behind the other.
pub(crate) struct Filler<'b, 'g> {
    pub(crate) bytes: &'b mut ParameterBytes,
    /// Where the next one begins.
    pub(crate) at: usize,
    pub(crate) values: &'b Evaluation<'g>,
    pub(crate) accumulators: usize,
}

impl Filler<'_, '_> {
    /// Fills a struct whose fields' names begin with `path`.
    pub(crate) fn put(&mut self, of: &DeviceStruct, path: &dyn Fn() -> String, scope: Scope<'_>) {
        for field in of.fields {
            let of = field.of.unwrap_or(scope.of);
            for i in 0..field.count.of(self.accumulators) {
                let of = match (field.count, of) {
                    (Count::Accumulators(_), Memory::B(_)) => Memory::B(i),
                    (Count::Accumulators(_), Memory::ScalesOfB(_)) => Memory::ScalesOfB(i),
                    _ => of,
                };
                self.put_field(field, i, path, Scope { of, ..scope });
            }
        }
    }

    /// Fills an element of a field.
    fn put_field(&mut self, field: &DeviceField, i: usize, path: &dyn Fn() -> String, scope: Scope<'_>) {
        let values = self.values;
        let name = || joined(&path(), &name_of(field, i, values, scope.of));
        match field.content {
            Content::Structs(inner, arguments) => {
                let given = arguments.get(i).or(arguments.first()).copied().unwrap_or_default();
                let arguments: SmallVec<[i128; 3]> = given.iter().map(|value| values.value(value, scope)).collect();
                self.put(inner, &name, Scope { arguments: &arguments, ..scope });
            }
            Content::Address => {
                match values.given.address(scope.of) {
                    Some((memory, base, plus)) => self.bytes.put_address(self.at, (memory, base), plus, name),
                    None => self.bytes.put_integer(self.at, 8, 0, name),
                }
                self.at += 8;
            }
            Content::Integers(bytes, signed, formulas) => {
                let value = formulas.get(i).map_or(0, |formula| values.value(formula, scope));
                self.bytes.put_integer(self.at, bytes, bits(value, bytes, signed), name);
                self.at += bytes;
            }
        }
    }
}

/// The low bytes of a number. One beyond 32 bits is taken as the largest.
fn bits(value: i128, bytes: usize, signed: bool) -> u64 {
    match (bytes, signed) {
        (8, _) => value as u64,
        (_, true) => i32::try_from(value).unwrap_or(i32::MAX).cast_unsigned().into(),
        (_, false) => u32::try_from(value).unwrap_or(u32::MAX).into(),
    }
}

/// The name of an element of a field, in descriptions of launches.
fn name_of(field: &DeviceField, i: usize, values: &Evaluation<'_>, of: Memory) -> String {
    match field.count {
        Count::One => field.described.to_owned(),
        Count::Array(_) => format!("{}.{i}", field.described),
        Count::Accumulators(_) => {
            let number = match values.given.address(of) {
                // Most epilogues have one accumulator.
                Some((Memory::B(i) | Memory::ScalesOfB(i), ..)) if i > 0 => i.to_string(),
                _ => String::new(),
            };
            field.described.replace('#', &number)
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    match path.strip_suffix('-') {
        Some(path) => format!("{path}_{name}"),
        None if path.is_empty() || name.is_empty() => format!("{path}{name}"),
        None => format!("{path}.{name}"),
    }
}
