//! Reads the parts of a header from bytes, and nothing outside of them.

use crate::error::formats::GgufError;

/// A place in the bytes of a file.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where it is.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    pub(super) fn all(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next bytes.
    ///
    /// # Errors
    /// [`GgufError::Truncated`], with what `what` gives.
    pub(super) fn take(&mut self, count: u64, what: impl FnOnce() -> String) -> Result<&'a [u8], GgufError> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(GgufError::Truncated { what: what(), at: self.at, needed: count, length: self.bytes.len() }),
        }
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        let taken = self.take(N as u64, || what.to_owned())?;
        let mut bytes = [0; N];
        bytes.copy_from_slice(taken);
        Ok(bytes)
    }

    /// A length and as many bytes.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a [u8], GgufError> {
        let length = self.u64(what)?;
        self.take(length, || what.to_owned())
    }

    /// A name, which must be UTF-8 and not empty.
    pub(super) fn name(&mut self, what: &str) -> Result<&'a str, GgufError> {
        let at = self.at;
        let bytes = self.string(what)?;
        let wrong = |why: &str| GgufError::Invalid { reason: format!("{what} at byte {at} {why}") };
        match str::from_utf8(bytes) {
            Ok("") => Err(wrong("is empty")),
            Ok(name) => Ok(name),
            Err(_) => Err(wrong("is not UTF-8")),
        }
    }
}
