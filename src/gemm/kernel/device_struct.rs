//! Structs that the host fills and kernels read, each described once.
//!
//! A description says of each field its C++ type, its name, its comment, and its value. From it follow
//!
//! - the fields in C++. A header has the struct's name, its base and its methods, and in braces
//!   `#include "NAME.fields"`; `device::inlined` puts the fields there ([`DeviceStruct::cuda`]);
//! - the size and the offsets ([`DeviceStruct::bytes`]). Fields are ordered so that C++ has no padding; a `static_assert` in
//!   each kernel checks the sum;
//! - the bytes of a launch, and their names in a [`LaunchDescription`](super::launch::LaunchDescription)
//!   ([`Filler`](super::filler::Filler)). Values are [formulas](super::formula) or addresses.
//!
//! A kernel's parameter is a list of these structs ([`Part`]): that of every kernel of its family, one for how A is read, one
//! for scales. The epilogue's part is generated for each kernel: a
//! [`ParameterLayout`](super::parameters::ParameterLayout), whose views are described here too.

use super::formula::Formula;
use super::launch::Memory;

/// A struct of fields without padding.
#[derive(Debug)]
pub(crate) struct DeviceStruct {
    /// The name by which headers include its fields, with their folder below `src/device/`.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [DeviceField],
}

/// A field, or an array of them.
#[derive(Debug)]
pub(crate) struct DeviceField {
    ty: &'static str,
    /// Its name in C++.
    name: &'static str,
    /// Its name in descriptions of launches. Fields of a struct without a name are named as if they were the outer one's; if
    /// the name ends with a `-`, this becomes a `_` in front of their names.
    pub(crate) described: &'static str,
    comment: &'static str,
    pub(crate) content: Content,
    pub(crate) count: Count,
    /// The tensor that it is about, if it is not the outer struct's.
    pub(crate) of: Option<Memory>,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// The address of a tensor.
    Address,
    /// Integers of this many bytes, 4 or 8; whether they have a sign.
    Integers(usize, bool, &'static [Formula]),
    /// Structs, with the arguments of their formulas.
    Structs(&'static DeviceStruct, &'static [&'static [Formula]]),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    One,
    Array(usize),
    /// One for the B of each accumulator; in C++, so many.
    Accumulators(&'static str),
}

impl Count {
    pub(crate) const fn of(self, accumulators: usize) -> usize {
        match self {
            Self::One => 1,
            Self::Array(count) => count,
            Self::Accumulators(_) => accumulators,
        }
    }
}

const fn field(ty: &'static str, name: &'static str, content: Content, count: usize) -> DeviceField {
    let count = if count == 1 { Count::One } else { Count::Array(count) };
    DeviceField { ty, name, described: name, comment: "", content, count, of: None }
}

/// The address of a tensor, as this type.
pub(crate) const fn pointer(ty: &'static str, name: &'static str) -> DeviceField {
    field(ty, name, Content::Address, 1)
}

/// A stride; an array of as many as there are formulas.
pub(crate) const fn stride(name: &'static str, values: &'static [Formula]) -> DeviceField {
    field("index_t", name, Content::Integers(8, true, values), values.len())
}

/// 64 bits, likewise.
pub(crate) const fn wide(name: &'static str, values: &'static [Formula]) -> DeviceField {
    field("u64", name, Content::Integers(8, false, values), values.len())
}

/// 32 bits with a sign, likewise.
pub(crate) const fn int(name: &'static str, values: &'static [Formula]) -> DeviceField {
    field("int", name, Content::Integers(4, true, values), values.len())
}

/// 32 bits, likewise.
pub(crate) const fn word(name: &'static str, values: &'static [Formula]) -> DeviceField {
    field("u32", name, Content::Integers(4, false, values), values.len())
}

/// A struct of this type.
pub(crate) const fn inner(ty: &'static str, name: &'static str, of: &'static DeviceStruct) -> DeviceField {
    field(ty, name, Content::Structs(of, &[&[]]), 1)
}

/// A struct whose formulas have arguments; an array of as many as there are lists of them.
pub(crate) const fn with(
    ty: &'static str,
    name: &'static str,
    of: &'static DeviceStruct,
    arguments: &'static [&'static [Formula]],
) -> DeviceField {
    field(ty, name, Content::Structs(of, arguments), arguments.len())
}

impl DeviceField {
    /// This field with another name in descriptions of launches.
    pub(crate) const fn described(self, described: &'static str) -> Self {
        Self { described, ..self }
    }

    /// This field about a tensor.
    pub(crate) const fn of(self, of: Memory) -> Self {
        Self { of: Some(of), ..self }
    }

    /// An array with one for the B of each accumulator: in C++, `count` of them. In descriptions a `#` is the accumulator's
    /// number, which the first one leaves out.
    pub(crate) const fn of_each_b(self, count: &'static str, described: &'static str) -> Self {
        Self { count: Count::Accumulators(count), described, ..self }
    }

    /// This field with a comment in C++.
    pub(crate) const fn about(self, comment: &'static str) -> Self {
        Self { comment, ..self }
    }

    const fn bytes(&self, accumulators: usize) -> usize {
        let of_one = match self.content {
            Content::Address => 8,
            Content::Integers(bytes, ..) => bytes,
            Content::Structs(of, _) => of.bytes(accumulators),
        };
        of_one * self.count.of(accumulators)
    }
}

impl DeviceStruct {
    /// Size in bytes, in kernels with this many accumulators.
    pub(crate) const fn bytes(&self, accumulators: usize) -> usize {
        let (mut bytes, mut i) = (0, 0);
        while i < self.fields.len() {
            bytes += self.fields[i].bytes(accumulators);
            i += 1;
        }
        bytes
    }

    /// The lines of C++ that declare the fields.
    pub(crate) fn cuda(&self) -> String {
        let mut text = String::new();
        for DeviceField { ty, name, comment, count, .. } in self.fields {
            let count = match count {
                Count::One => String::new(),
                Count::Array(count) => format!("[{count}]"),
                Count::Accumulators(count) => format!("[{count}]"),
            };
            let before = if comment.is_empty() { "" } else { "  // " };
            text.push_str(&format!("    {ty} {name}{count};{before}{comment}\n"));
        }
        text
    }

    /// The struct of this name, among these and those that they contain.
    pub(crate) fn find(among: &[&'static Self], name: &str) -> Option<&'static Self> {
        among.iter().find_map(|of| {
            if of.name == name {
                return Some(*of);
            }
            let inner = of.fields.iter().filter_map(|field| match field.content {
                Content::Structs(inner, _) => Some(inner),
                _ => None,
            });
            inner.into_iter().find_map(|inner| Self::find(&[inner], name))
        })
    }
}

/// A part of a kernel's parameter.
#[derive(Debug)]
pub(crate) struct Part {
    /// The header that needs it.
    pub(crate) header: &'static str,
    /// The type in C++ that begins with the parts before, `BASE`, and ends with this one; `COUNT` is the number of accumulators.
    pub(crate) ty: &'static str,
    pub(crate) fields: &'static DeviceStruct,
}

impl Part {
    /// Bytes of all parts.
    pub(crate) fn bytes(parts: &[&Self], accumulators: usize) -> usize {
        parts.iter().map(|part| part.fields.bytes(accumulators)).sum()
    }

    /// The type in C++ of all parts together.
    pub(crate) fn cuda(parts: &[&Self], accumulators: usize) -> String {
        let with =
            |base: String, part: &&Self| part.ty.replace("BASE", &base).replace("COUNT", &accumulators.to_string());
        parts.iter().fold(String::new(), with)
    }
}
