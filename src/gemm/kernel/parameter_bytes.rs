//! The bytes of a kernel's parameter while they are filled.

use super::launch::{FieldValue, Memory, ParameterField};

/// The bytes of a [`ParameterLayout`](super::parameters::ParameterLayout) while they are filled.
#[derive(Debug)]
pub(crate) struct ParameterBytes {
    bytes: Vec<u8>,
    /// The fields, if they are to be described.
    fields: Option<Vec<ParameterField>>,
}

impl ParameterBytes {
    pub(crate) fn new(size: usize) -> Self {
        Self { bytes: vec![0; size], fields: None }
    }

    /// Bytes that are described as they are filled.
    pub(crate) fn described(size: usize) -> Self {
        Self { fields: Some(Vec::new()), ..Self::new(size) }
    }

    fn note(&mut self, offset: usize, bytes: usize, value: FieldValue, name: impl FnOnce() -> String) {
        if let Some(fields) = &mut self.fields {
            fields.push(ParameterField { name: name(), offset, bytes, value });
        }
    }

    /// Writes the low bytes of an integer, 4 or 8 of them.
    pub(crate) fn put_integer(&mut self, offset: usize, bytes: usize, value: u64, name: impl FnOnce() -> String) {
        self.put_bytes(offset, &value.to_le_bytes()[..bytes]);
        self.note(offset, bytes, FieldValue::Integer(value), name);
    }

    /// Writes an address: this many bytes behind the beginning of some memory.
    pub(crate) fn put_address(
        &mut self,
        offset: usize,
        (of, base): (Memory, u64),
        plus: u64,
        name: impl FnOnce() -> String,
    ) {
        self.put_bytes(offset, &base.wrapping_add(plus).to_le_bytes());
        self.note(offset, 8, FieldValue::Address(of, plus), name);
    }

    /// Writes a host scalar, the argument of an index.
    pub(crate) fn put_scalar(&mut self, offset: usize, bytes: &[u8], argument: usize, name: impl FnOnce() -> String) {
        self.put_bytes(offset, bytes);
        self.note(offset, bytes.len(), FieldValue::Scalar(argument), name);
    }

    /// Writes tensor maps one after another.
    pub(crate) fn put_maps(&mut self, offset: usize, maps: &[u8]) {
        self.put_bytes(offset, maps);
        for i in 0..maps.len() / 128 {
            self.note(offset + 128 * i, 128, FieldValue::Map(i), || format!("maps.{i}"));
        }
    }

    /// The fields, in the order of their bytes; none unless they are described.
    pub(crate) fn into_fields(self) -> Vec<ParameterField> {
        let mut fields = self.fields.unwrap_or_default();
        fields.sort_by_key(|field| field.offset);
        fields
    }

    /// Writes raw bytes.
    fn put_bytes(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
