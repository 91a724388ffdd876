//! Values of metadata: views of the file, checked once when it is opened.

use std::fmt;

use super::reader::Reader;
use crate::error::formats::GgufError;

/// Arrays in arrays: no file of llama.cpp has more than one.
const DEEPEST: u32 = 8;

/// A value of a GGUF file's metadata.
#[derive(Clone, Copy, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "named after the types")]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    /// Text. It should be UTF-8; single tokens of a vocabulary may not be.
    String(&'a [u8]),
    /// Values of one type.
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// An integer of any width that fits.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::U8(x) => Some(x.into()),
            Self::U16(x) => Some(x.into()),
            Self::U32(x) => Some(x.into()),
            Self::U64(x) => Some(x),
            Self::I8(x) => x.try_into().ok(),
            Self::I16(x) => x.try_into().ok(),
            Self::I32(x) => x.try_into().ok(),
            Self::I64(x) => x.try_into().ok(),
            Self::F32(_) | Self::F64(_) | Self::Bool(_) | Self::String(_) | Self::Array(_) => None,
        }
    }

    /// A floating-point number.
    #[must_use]
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Self::F32(x) => Some(x.into()),
            Self::F64(x) => Some(x),
            _ => None,
        }
    }

    /// A truth value.
    #[must_use]
    pub const fn as_bool(self) -> Option<bool> {
        if let Self::Bool(x) = self { Some(x) } else { None }
    }

    /// Text that is UTF-8.
    #[must_use]
    pub fn as_str(self) -> Option<&'a str> {
        if let Self::String(bytes) = self { str::from_utf8(bytes).ok() } else { None }
    }

    /// An array.
    #[must_use]
    pub const fn as_array(self) -> Option<Array<'a>> {
        if let Self::Array(array) = self { Some(array) } else { None }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U8(x) => x.fmt(f),
            Self::I8(x) => x.fmt(f),
            Self::U16(x) => x.fmt(f),
            Self::I16(x) => x.fmt(f),
            Self::U32(x) => x.fmt(f),
            Self::I32(x) => x.fmt(f),
            Self::U64(x) => x.fmt(f),
            Self::I64(x) => x.fmt(f),
            Self::F32(x) => x.fmt(f),
            Self::F64(x) => x.fmt(f),
            Self::Bool(x) => x.fmt(f),
            Self::String(bytes) => String::from_utf8_lossy(bytes).fmt(f),
            Self::Array(array) => array.fmt(f),
        }
    }
}

/// An array of metadata: values of one type, which lie in the file.
#[derive(Clone, Copy, PartialEq)]
pub struct Array<'a> {
    kind: Kind,
    count: usize,
    /// All values, one after the other.
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The number of its values.
    #[must_use]
    pub const fn len(self) -> usize {
        self.count
    }

    /// Whether it has no values.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Its values, in order.
    pub fn iter(self) -> impl Iterator<Item = Value<'a>> {
        let mut reader = Reader::new(self.bytes);
        // The file was checked when it was opened, so none is missing.
        (0..self.count).map_while(move |_| value(&mut reader, self.kind, 0).ok())
    }
}

impl fmt::Debug for Array<'_> {
    /// The first values, and how many there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        list.entries(self.iter().take(8));
        if self.count > 8 {
            list.entry(&format_args!("… {} values", self.count));
        }
        list.finish()
    }
}

/// The types of values, by GGUF's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Kind {
    /// In the order of GGUF's numbers.
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    fn read(reader: &mut Reader<'_>) -> Result<Self, GgufError> {
        let (at, given) = (reader.at(), reader.u32("the type of a value")?);
        let kind = usize::try_from(given).ok().and_then(|number| Self::ALL.get(number));
        kind.copied().ok_or_else(|| GgufError::Invalid {
            reason: format!(
                "the value at byte {at} is of type {given}, and types go from 0 to {}",
                Self::ALL.len() - 1
            ),
        })
    }

    /// The bytes of a value, if all have as many.
    const fn size(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }
}

/// A type and a value of it.
///
/// # Errors
/// [`GgufError::Truncated`], [`GgufError::Invalid`].
pub(super) fn typed_value<'a>(reader: &mut Reader<'a>) -> Result<Value<'a>, GgufError> {
    let kind = Kind::read(reader)?;
    value(reader, kind, 0)
}

fn value<'a>(reader: &mut Reader<'a>, kind: Kind, depth: u32) -> Result<Value<'a>, GgufError> {
    macro_rules! number {
        ($variant:ident, $type:ty) => {{
            let taken = reader.take(size_of::<$type>() as u64, || "a value of metadata".to_owned())?;
            let mut bytes = [0; size_of::<$type>()];
            bytes.copy_from_slice(taken);
            Value::$variant(<$type>::from_le_bytes(bytes))
        }};
    }
    Ok(match kind {
        Kind::U8 => number!(U8, u8),
        Kind::I8 => number!(I8, i8),
        Kind::U16 => number!(U16, u16),
        Kind::I16 => number!(I16, i16),
        Kind::U32 => number!(U32, u32),
        Kind::I32 => number!(I32, i32),
        Kind::F32 => number!(F32, f32),
        Kind::U64 => number!(U64, u64),
        Kind::I64 => number!(I64, i64),
        Kind::F64 => number!(F64, f64),
        Kind::Bool => {
            let (at, taken) = (reader.at(), reader.take(1, || "a truth value".to_owned())?);
            Value::Bool(truth(taken[0], at)?)
        }
        Kind::String => Value::String(reader.string("a text of metadata")?),
        Kind::Array => Value::Array(array(reader, depth)?),
    })
}

fn truth(byte: u8, at: usize) -> Result<bool, GgufError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => {
            Err(GgufError::Invalid { reason: format!("the truth value at byte {at} is {other}, and may be 0 or 1") })
        }
    }
}

fn array<'a>(reader: &mut Reader<'a>, depth: u32) -> Result<Array<'a>, GgufError> {
    let at = reader.at();
    if depth == DEEPEST {
        let reason = format!("arrays at byte {at} are nested in more than {DEEPEST} others");
        return Err(GgufError::Invalid { reason });
    }
    let kind = Kind::read(reader)?;
    let given = reader.u64("the length of an array")?;
    // What the file can't hold is refused before anything is read. Each string and array has at least its length.
    let least = kind.size().unwrap_or(8);
    let needed = given.saturating_mul(least);
    let begin = reader.at();
    let what = || format!("an array of {given} values");
    // A copy of the reader: it looks, and the array begins here.
    let mut ahead = *reader;
    ahead.take(needed, what)?;
    if kind.size().is_some() {
        *reader = ahead;
    } else {
        for _ in 0..given {
            value(reader, kind, depth + 1)?;
        }
    }
    let bytes = &reader.all()[begin..reader.at()];
    if kind == Kind::Bool {
        for (byte, at) in bytes.iter().zip(begin..) {
            truth(*byte, at)?;
        }
    }
    let count = usize::try_from(given).map_err(|_| GgufError::Invalid { reason: what() })?;
    Ok(Array { kind, count, bytes })
}
