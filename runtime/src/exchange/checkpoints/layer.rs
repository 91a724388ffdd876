//! The tensors of one layer, checked, and what layouts share in reading them.

use half::{bf16, f16};

use super::source::{StoredTensor, TensorSource};
use crate::error::formats::CheckpointError;
use crate::formats::{IntegerWeights, Scales};
use crate::layout::element::ElementType;

/// A layer of a layout: its tensors by the rest of their names.
pub(super) struct Layer<'a, S: ?Sized> {
    source: &'a S,
    pub(super) name: &'a str,
    layout: &'static str,
}

/// A tensor whose type and number of dimensions are what the layout says.
pub(super) struct Part<'a> {
    pub(super) name: String,
    layout: &'static str,
    pub(super) element: ElementType,
    pub(super) shape: Vec<usize>,
    bytes: &'a [u8],
}

/// Types that a layout allows, with their names for errors.
pub(super) struct Types(&'static [ElementType], &'static str);

pub(super) const I32: Types = Types(&[ElementType::I32, ElementType::U32], "i32");
pub(super) const BYTES: Types = Types(&[ElementType::I8, ElementType::U8], "i8");
pub(super) const INTEGERS: Types = Types(&[ElementType::I32, ElementType::I64], "i32 or i64");
pub(super) const SCALES: Types = Types(&[ElementType::F16, ElementType::BF16, ElementType::F32], "f16, bf16 or f32");
pub(super) const ZEROS: Types =
    Types(&[ElementType::I8, ElementType::F16, ElementType::BF16, ElementType::F32], "i8 or the type of the scales");

impl<'a, S: TensorSource + ?Sized> Layer<'a, S> {
    pub(super) const fn new(source: &'a S, name: &'a str, layout: &'static str) -> Self {
        Self { source, name, layout }
    }

    /// The tensor with this ending of its name.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`], with the advice; those of [`optional`](Self::optional).
    pub(super) fn part(&self, ending: &str, types: &Types, advice: &'static str) -> Result<Part<'a>, CheckpointError> {
        self.optional(ending, types)?.ok_or_else(|| CheckpointError::Missing {
            name: format!("{}.{ending}", self.name),
            layout: self.layout,
            advice,
        })
    }

    /// The tensor with this ending of its name; `None` if there is none.
    ///
    /// # Errors
    /// [`CheckpointError::ElementType`]; [`CheckpointError::Shape`] if its bytes are not those of its shape.
    pub(super) fn optional(&self, ending: &str, types: &Types) -> Result<Option<Part<'a>>, CheckpointError> {
        let name = format!("{}.{ending}", self.name);
        let Some(StoredTensor { element, shape, bytes }) = self.source.stored(&name) else { return Ok(None) };
        let layout = self.layout;
        let Some(element) = element.filter(|element| types.0.contains(element)) else {
            let given = element.map_or("a type that this library doesn't have", ElementType::name).to_owned();
            return Err(CheckpointError::ElementType { name, layout, given, needed: types.1 });
        };
        let count = shape.iter().try_fold(element.size(), |count, extent| count.checked_mul(*extent));
        if count != Some(bytes.len()) {
            let needed = format!("a shape for the {} bytes that it has", bytes.len());
            return Err(CheckpointError::Shape { name, layout, given: shape, needed });
        }
        Ok(Some(Part { name, layout, element, shape, bytes }))
    }

    /// K divided into groups: the size of a group, and their number.
    ///
    /// # Errors
    /// [`CheckpointError::Group`].
    pub(super) fn groups(&self, k: usize, group: Option<usize>) -> Result<(usize, usize), CheckpointError> {
        let group = group.unwrap_or(k.max(1));
        if group == 0 || !k.is_multiple_of(group) {
            return Err(CheckpointError::Group { name: self.name.to_owned(), group, k });
        }
        Ok((group, k / group))
    }

    /// The weights of these parts; zero points that are all the middle are left out.
    ///
    /// # Errors
    /// [`CheckpointError::Format`].
    pub(super) fn weights(
        &self,
        shape: [usize; 2],
        bits: u32,
        group: usize,
        codes: Vec<u8>,
        scales: Scales,
        zeros: Option<Vec<u8>>,
    ) -> Result<IntegerWeights, CheckpointError> {
        let zeros = zeros.filter(|zeros| zeros.iter().any(|zero| u32::from(*zero) != 1 << (bits - 1)));
        IntegerWeights::new(shape, bits, group, codes, scales, zeros)
            .map_err(|source| CheckpointError::Format { name: self.name.to_owned(), source })
    }
}

impl Part<'_> {
    /// Its two extents.
    ///
    /// # Errors
    /// [`CheckpointError::Shape`], with the needed shape in words.
    pub(super) fn matrix(&self, needed: &str) -> Result<[usize; 2], CheckpointError> {
        match self.shape[..] {
            [rows, columns] => Ok([rows, columns]),
            _ => Err(self.misshapen(needed.to_owned())),
        }
    }

    /// # Errors
    /// [`CheckpointError::Shape`] for another shape.
    pub(super) fn require(&self, shape: &[usize]) -> Result<(), CheckpointError> {
        if self.shape == shape { Ok(()) } else { Err(self.misshapen(format!("{shape:?}"))) }
    }

    pub(super) fn misshapen(&self, needed: String) -> CheckpointError {
        let (name, layout, given) = (self.name.clone(), self.layout, self.shape.clone());
        CheckpointError::Shape { name, layout, given, needed }
    }

    /// The four bytes of a word of 32 bits, the lowest first.
    pub(super) fn word(&self, index: usize) -> [u8; 4] {
        let at = index * 4;
        [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]]
    }

    /// The code of `bits` bits (4 or 8) at a place of a word, the lowest one first.
    pub(super) fn code(&self, word: usize, place: usize, bits: u32) -> u8 {
        let shift = place as u32 * bits;
        let low = u32::from_le_bytes(self.word(word)) >> shift;
        low.to_le_bytes()[0] & u8::MAX >> (8 - bits)
    }

    /// Its bytes, if its elements are bytes.
    pub(super) const fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Its integers of 32 or 64 bits.
    pub(super) fn integers(&self) -> Vec<i64> {
        let each = self.bytes.chunks_exact(self.element.size());
        if self.element == ElementType::I64 {
            each.map(|part| part.try_into().map_or(0, i64::from_le_bytes)).collect()
        } else {
            each.map(|part| part.try_into().map_or(0, |bytes| i64::from(i32::from_le_bytes(bytes)))).collect()
        }
    }

    /// Scales `[N, groups]`; `index` gives the place of each in the tensor.
    pub(super) fn scales(&self, count: usize, index: impl Fn(usize) -> usize) -> Scales {
        let half = |at: usize| [self.bytes[at * 2], self.bytes[at * 2 + 1]];
        let places = (0..count).map(index);
        match self.element {
            ElementType::F16 => Scales::F16(places.map(|at| f16::from_le_bytes(half(at))).collect()),
            ElementType::BF16 => Scales::BF16(places.map(|at| bf16::from_le_bytes(half(at))).collect()),
            _ => Scales::F32(places.map(|at| f32::from_le_bytes(self.word(at))).collect()),
        }
    }
}

/// Codes `[N, K]` of 4 or 8 bits from a function of output feature and column.
pub(super) fn pack(n: usize, k: usize, bits: u32, code: impl Fn(usize, usize) -> u8) -> Vec<u8> {
    let per_byte = (8 / bits) as usize;
    let mut codes = Vec::with_capacity(n * k.div_ceil(per_byte));
    // An empty tensor may have any number of rows.
    let rows = if k == 0 { 0 } else { n };
    for row in 0..rows {
        if per_byte == 1 {
            codes.extend((0..k).map(|column| code(row, column)));
        } else {
            let upper = |column| if column < k { code(row, column) } else { 0 };
            codes.extend((0..k).step_by(2).map(|column| code(row, column) | upper(column + 1) << 4));
        }
    }
    codes
}
