//! The file: its metadata and tensors by name.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;

use half::{bf16, f16};

use super::metadata::{Value, typed_value};
use super::reader::Reader;
use super::types::{Decoding, Type, decoded, of_number};
use crate::error::formats::GgufError;
use crate::layout::element::ElementType;

/// The bytes `GGUF`.
const MAGIC: [u8; 4] = *b"GGUF";
/// Where tensors begin if the metadata doesn't say it: at multiples of this.
const ALIGNMENT: u64 = 32;
/// The most dimensions that ggml's tensors have.
const MOST_DIMENSIONS: u32 = 4;

/// A GGUF file in bytes that `O` holds: a `Vec<u8>`, a `&[u8]`, an `Arc` of them, a mapped file.
pub struct Gguf<O> {
    owner: O,
    /// Where each value's type stands.
    metadata: BTreeMap<String, usize>,
    tensors: BTreeMap<String, Place>,
    /// Where tensors' offsets count from.
    data: usize,
    version: u32,
}

/// A tensor's description.
struct Place {
    /// Row-major: the last dimension is the one whose elements are neighbours.
    shape: Vec<usize>,
    kind: &'static Type,
    bytes: Range<usize>,
}

/// A file that the operating system maps into memory ([`Gguf::map`]).
pub struct Mapped(memmap2::Mmap);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn failed(path: &Path, error: &std::io::Error) -> GgufError {
    GgufError::File { path: path.display().to_string(), reason: error.to_string() }
}

impl Gguf<Vec<u8>> {
    /// Reads a file into memory. The file may change afterwards.
    ///
    /// # Errors
    /// [`GgufError::File`], and the errors of [`from_bytes`](Self::from_bytes).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        let path = path.as_ref();
        Self::from_bytes(fs::read(path).map_err(|error| failed(path, &error))?)
    }
}

impl Gguf<Mapped> {
    /// Maps a file into memory: pages are read when they are used.
    ///
    /// # Errors
    /// [`GgufError::File`], and the errors of [`from_bytes`](Self::from_bytes).
    ///
    /// # Safety
    /// The file must stay as it is for as long as the result lives. If another process, or this one, writes to it, bytes
    /// that are borrowed as `&[u8]` change, which is undefined behaviour: all that was checked may no longer hold. If it
    /// is truncated, the system ends this process when it reads behind the new end (`SIGBUS` on Linux). A file that others
    /// may write is read by [`open`](Gguf::open).
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| failed(path, &error))?;
        // SAFETY: the caller promises that nobody changes the file.
        let mapped = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| failed(path, &error))?;
        Self::from_bytes(Mapped(mapped))
    }
}

impl<O: AsRef<[u8]>> Gguf<O> {
    /// Reads the header and checks it. The bytes must be the same at each call of `as_ref`.
    ///
    /// # Errors
    /// [`GgufError::Magic`], [`GgufError::Version`], [`GgufError::Truncated`], [`GgufError::Invalid`];
    /// [`GgufError::Type`] for a type of tensor whose number isn't known.
    pub fn from_bytes(owner: O) -> Result<Self, GgufError> {
        let bytes = owner.as_ref();
        let mut reader = Reader::new(bytes);
        if !bytes.starts_with(&MAGIC) {
            return Err(GgufError::Magic { given: bytes[..bytes.len().min(MAGIC.len())].to_vec() });
        }
        reader.take(MAGIC.len() as u64, String::new)?;
        let version = reader.u32("the version")?;
        if version != 2 && version != 3 {
            return Err(GgufError::Version { given: version });
        }
        let tensor_count = reader.u64("the number of tensors")?;
        let value_count = reader.u64("the number of values of metadata")?;
        let (metadata, alignment) = read_metadata(&mut reader, value_count)?;
        let described = read_tensors(&mut reader, tensor_count)?;
        // Without tensors, nothing need follow the header.
        let data = usize::try_from((reader.at() as u64).next_multiple_of(alignment)).unwrap_or(usize::MAX);
        let tensors = place(described, data, alignment, bytes.len())?;
        Ok(Self { owner, metadata, tensors, data, version })
    }

    /// The version of its format: 2 or 3.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The value of metadata with this name, such as `llama.block_count`.
    ///
    /// # Errors
    /// [`GgufError::Missing`].
    pub fn metadata(&self, name: &str) -> Result<Value<'_>, GgufError> {
        let missing = || GgufError::Missing { what: "metadata", name: name.to_owned() };
        self.value(*self.metadata.get(name).ok_or_else(missing)?).ok_or_else(missing)
    }

    /// All metadata, in the order of names.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        self.metadata.iter().filter_map(|(name, at)| Some((name.as_str(), self.value(*at)?)))
    }

    /// The value whose type stands at a place that was read before.
    fn value(&self, at: usize) -> Option<Value<'_>> {
        typed_value(&mut Reader::new(self.owner.as_ref().get(at..)?)).ok()
    }

    /// The tensor with this name, such as `blk.0.attn_q.weight`.
    ///
    /// # Errors
    /// [`GgufError::Missing`].
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>, GgufError> {
        let missing = || GgufError::Missing { what: "tensor", name: name.to_owned() };
        let (name, place) = self.tensors.get_key_value(name).ok_or_else(missing)?;
        self.of_place(name, place).ok_or_else(missing)
    }

    /// All tensors, in the order of names.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.tensors.iter().filter_map(|(name, place)| self.of_place(name, place))
    }

    fn of_place<'a>(&'a self, name: &'a str, place: &'a Place) -> Option<Tensor<'a>> {
        Some(Tensor { name, place, bytes: self.owner.as_ref().get(place.bytes.clone())? })
    }

    /// Where the tensors' bytes begin in the file.
    #[must_use]
    pub const fn data_begins(&self) -> usize {
        self.data
    }

    /// The bytes, as they were given.
    #[must_use]
    pub fn into_inner(self) -> O {
        self.owner
    }
}

impl<O> std::fmt::Debug for Gguf<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (values, tensors) = (self.metadata.len(), self.tensors.len());
        write!(f, "a GGUF file of version {} with {values} values and {tensors} tensors", self.version)
    }
}

/// The places of the values, and the alignment.
fn read_metadata(reader: &mut Reader<'_>, count: u64) -> Result<(BTreeMap<String, usize>, u64), GgufError> {
    let (mut metadata, mut alignment) = (BTreeMap::new(), ALIGNMENT);
    for _ in 0..count {
        let name = reader.name("a name of metadata")?;
        let at = reader.at();
        let value = typed_value(reader)?;
        if name == "general.alignment" {
            alignment = match value {
                Value::U32(given) if given.is_power_of_two() => u64::from(given),
                other => {
                    let reason = format!("general.alignment is {other:?}, and must be a power of two of 32 bits");
                    return Err(GgufError::Invalid { reason });
                }
            };
        }
        if metadata.insert(name.to_owned(), at).is_some() {
            return Err(GgufError::Invalid { reason: format!("metadata `{name}` is there twice") });
        }
    }
    Ok((metadata, alignment))
}

/// A tensor's description, as it stands in the file.
struct Described<'a> {
    name: &'a str,
    /// The dimension whose elements are neighbours comes first.
    extents: Vec<u64>,
    kind: &'static Type,
    offset: u64,
}

fn read_tensors<'a>(reader: &mut Reader<'a>, count: u64) -> Result<Vec<Described<'a>>, GgufError> {
    let mut described = Vec::new();
    for _ in 0..count {
        let name = reader.name("the name of a tensor")?;
        let dimensions = reader.u32("a number of dimensions")?;
        if dimensions > MOST_DIMENSIONS {
            let reason =
                format!("tensor `{name}` has {dimensions} dimensions, and at most {MOST_DIMENSIONS} are there");
            return Err(GgufError::Invalid { reason });
        }
        let extents = (0..dimensions).map(|_| reader.u64("the extent of a tensor")).collect::<Result<_, _>>()?;
        let number = reader.u32("the type of a tensor")?;
        let kind = of_number(number).ok_or_else(|| GgufError::Type {
            tensor: name.to_owned(),
            given: format!("number {number}"),
            known: decoded(),
        })?;
        let offset = reader.u64("the offset of a tensor")?;
        described.push(Described { name, extents, kind, offset });
    }
    Ok(described)
}

/// The tensors' bytes in the file. No two share any.
fn place(
    described: Vec<Described<'_>>,
    data: usize,
    alignment: u64,
    length: usize,
) -> Result<BTreeMap<String, Place>, GgufError> {
    let mut tensors = BTreeMap::new();
    for Described { name, extents, kind, offset } in described {
        let wrong = |reason: String| Err(GgufError::Invalid { reason: format!("tensor `{name}` {reason}") });
        let row = extents.first().copied().unwrap_or(1);
        if !row.is_multiple_of(kind.block) {
            return wrong(format!("has rows of {row} values, and {} has blocks of {}", kind.name, kind.block));
        }
        let Some(needed) = byte_count(&extents, kind) else {
            return wrong(format!("has the extents {extents:?}, which are more than memory can address"));
        };
        if !offset.is_multiple_of(alignment) {
            return wrong(format!("begins at offset {offset}, which is no multiple of the alignment {alignment}"));
        }
        let begin = usize::try_from(offset).ok().and_then(|offset| data.checked_add(offset));
        let range = begin.and_then(|begin| Some(begin..begin.checked_add(needed)?));
        let Some(bytes) = range.filter(|range| range.end <= length) else {
            let at = begin.unwrap_or(usize::MAX);
            return Err(GgufError::Truncated { what: format!("tensor `{name}`"), at, needed: needed as u64, length });
        };
        // Each extent fits, because their product and 1 do: an extent beside a 0 is checked by itself.
        let shape: Option<Vec<usize>> = extents.iter().rev().map(|extent| usize::try_from(*extent).ok()).collect();
        let Some(shape) = shape else {
            return wrong(format!("has the extents {extents:?}, which are more than memory can address"));
        };
        if tensors.insert(name.to_owned(), Place { shape, kind, bytes }).is_some() {
            return Err(GgufError::Invalid { reason: format!("tensor `{name}` is there twice") });
        }
    }
    refuse_overlaps(&tensors)?;
    Ok(tensors)
}

/// The bytes of a tensor whose rows are whole blocks.
fn byte_count(extents: &[u64], kind: &Type) -> Option<usize> {
    // As if every extent were at least 1, so that no extent of an empty tensor is out of reach either.
    let most = extents.iter().try_fold(1u64, |count, extent| count.checked_mul((*extent).max(1)))?;
    let most = most.div_ceil(kind.block).checked_mul(kind.bytes)?;
    isize::try_from(most).ok()?;
    let count: u64 = extents.iter().product();
    usize::try_from(count / kind.block * kind.bytes).ok()
}

fn refuse_overlaps(tensors: &BTreeMap<String, Place>) -> Result<(), GgufError> {
    let filled = tensors.iter().filter(|(_, place)| !place.bytes.is_empty());
    let mut all: Vec<(&String, &Range<usize>)> = filled.map(|(name, place)| (name, &place.bytes)).collect();
    all.sort_by_key(|(_, bytes)| bytes.start);
    for pair in all.windows(2) {
        let ((first, before), (second, after)) = (pair[0], pair[1]);
        if after.start < before.end {
            return Err(GgufError::Invalid { reason: format!("tensors `{first}` and `{second}` share bytes") });
        }
    }
    Ok(())
}

/// A tensor of a GGUF file.
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    name: &'a str,
    place: &'a Place,
    bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Its extents, row-major: blocks run along the last one. (ggml names them in the other order.) Weights of a layer are
    /// `[output features, input features]`.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        &self.place.shape
    }

    /// ggml's name of its type: `Q4_K`, `F32`, …
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        self.place.kind.name
    }

    /// The format of its blocks, if it has some that this library decodes.
    #[must_use]
    pub const fn format(&self) -> Option<&'static dyn crate::formats::BlockFormat> {
        if let Decoding::Blocks(format) = self.place.kind.decoding { Some(format) } else { None }
    }

    /// The type of its elements, if it has no blocks.
    #[must_use]
    pub const fn element_type(&self) -> Option<ElementType> {
        if let Decoding::Element(element) = self.place.kind.decoding { Some(element) } else { None }
    }

    /// Its bytes, in the file's.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where its bytes are in the file.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.place.bytes.clone()
    }

    /// Its values as f32, row by row. Integers of 32 and 64 bits and f64 are rounded.
    ///
    /// # Errors
    /// [`GgufError::Type`] for types that this library doesn't decode.
    pub fn decode(&self) -> Result<Vec<f32>, GgufError> {
        let unknown = || GgufError::Type {
            tensor: self.name.to_owned(),
            given: self.place.kind.name.to_owned(),
            known: decoded(),
        };
        match self.place.kind.decoding {
            // The bytes are whole blocks: that was checked when the file was opened.
            Decoding::Blocks(format) => format.decode(self.bytes, &[]).map_err(|_| unknown()),
            Decoding::Element(element) => numbers(self.bytes, element).ok_or_else(unknown),
            Decoding::None => Err(unknown()),
        }
    }
}

impl std::fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} {:?}", self.name, self.type_name(), self.shape())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "rounded to f32, as documented")]
fn numbers(bytes: &[u8], element: ElementType) -> Option<Vec<f32>> {
    macro_rules! each {
        ($type:ty, $convert:expr) => {{
            let number = |part: &[u8]| {
                let mut bytes = [0; size_of::<$type>()];
                bytes.copy_from_slice(part);
                $convert(<$type>::from_le_bytes(bytes))
            };
            Some(bytes.chunks_exact(size_of::<$type>()).map(number).collect())
        }};
    }
    match element {
        ElementType::F32 => each!(f32, |x| x),
        ElementType::F64 => each!(f64, |x| x as f32),
        ElementType::F16 => each!(f16, f16::to_f32),
        ElementType::BF16 => each!(bf16, bf16::to_f32),
        ElementType::I8 => each!(i8, f32::from),
        ElementType::I16 => each!(i16, f32::from),
        ElementType::I32 => each!(i32, |x| x as f32),
        ElementType::I64 => each!(i64, |x| x as f32),
        _ => None,
    }
}
