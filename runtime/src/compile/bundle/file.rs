//! Writes and reads the bytes of a bundle, whose format is described on the module's page. Reading checks every length
//! against the bytes that there are.

use std::ops::Range;

use super::error::BundleError;
use super::identity::KernelId;
use super::recorder::{Kernels, Recorded};
use crate::compile::arch::Arch;
use crate::compile::cache::CacheKey;
use crate::compile::source::Output;
use crate::compile::stored;

const MAGIC: &[u8; 16] = b"epilogue bundle\n";
/// Changes with the format.
pub(super) const VERSION: u32 = 2;
const HASH: usize = blake3::OUT_LEN;
/// The offset of the index's hash.
const HASHED: usize = 40;
const HEADER: usize = HASHED + HASH;
/// Bytes of a kernel in the index, without its origins and its name.
const FIXED: usize = HASH + 4 + 8 + HASH + 2 + 2;
/// The longest text in an index.
const LONGEST_TEXT: usize = 1 << 12;

/// A kernel of a bundle, and the place of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BundleEntry {
    pub(super) id: KernelId,
    pub(super) name: String,
    /// The keys that its text was generated from, in ascending order.
    pub(super) origins: Vec<CacheKey>,
    pub(super) content: Range<usize>,
}

/// Writes a bundle.
pub(super) fn write(made_by: &str, kernels: &Kernels) -> Vec<u8> {
    let (count, mut index, mut contents) = (kernels.len() as u32, Vec::new(), Vec::<u8>::new());
    put_text(&mut index, made_by);
    for (id, Recorded { name, origins, content }) in kernels {
        let (major, minor) = id.arch.capability();
        index.extend(id.text.as_bytes());
        index.extend([form_number(id.form), major, minor, u8::from(id.arch.is_specific())]);
        index.extend((content.len() as u64).to_le_bytes());
        index.extend(blake3::hash(content).as_bytes());
        let origins = || origins.iter().take(usize::from(u16::MAX));
        index.extend((origins().count() as u16).to_le_bytes());
        index.extend(origins().flat_map(CacheKey::as_bytes));
        put_text(&mut index, name);
        contents.extend(content);
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend((index.len() as u64).to_le_bytes());
    bytes.extend(((HEADER + index.len() + contents.len()) as u64).to_le_bytes());
    bytes.extend(index_hash(&bytes, &index));
    bytes.extend(index);
    bytes.extend(contents);
    bytes
}

/// Reads and checks a whole bundle: who made it, and its kernels, in ascending order.
pub(super) fn read(bytes: &[u8]) -> Result<(String, Vec<BundleEntry>), BundleError> {
    let start = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(start) || start.is_empty() {
        return Err(BundleError::NoBundle);
    }
    let given = bytes.len() as u64;
    let short = |needed: usize| BundleError::Length { bytes: given, needed: needed as u64 };
    let header = bytes.get(..HEADER).ok_or_else(|| short(HEADER))?;
    let mut fields = Reader(&header[MAGIC.len()..]);
    let damaged_header = || BundleError::Damaged { what: "its header".to_owned() };
    let version = fields.u32().ok_or_else(damaged_header)?;
    if version != VERSION {
        return Err(BundleError::Version { found: version, known: VERSION });
    }
    let count = fields.u32().ok_or_else(damaged_header)? as usize;
    let index_bytes = fields.u64().ok_or_else(damaged_header)?;
    let needed = fields.u64().ok_or_else(damaged_header)?;
    if needed != given {
        return Err(BundleError::Length { bytes: given, needed });
    }
    let damaged_index = || BundleError::Damaged { what: "its index".to_owned() };
    let index_bytes = usize::try_from(index_bytes).map_err(|_| damaged_index())?;
    let (index, contents) = bytes[HEADER..].split_at_checked(index_bytes).ok_or_else(damaged_index)?;
    if index_hash(&header[..HASHED], index) != header[HASHED..] {
        return Err(damaged_index());
    }
    let mut reader = Reader(index);
    let made_by = reader.text().ok_or_else(damaged_index)?.to_owned();
    // The index must have room for this many kernels.
    if count > reader.0.len() / FIXED {
        return Err(damaged_index());
    }
    let (mut entries, mut next) = (Vec::<BundleEntry>::with_capacity(count), 0usize);
    for _ in 0..count {
        let (mut entry, length, hash) = reader.kernel().ok_or_else(damaged_index)?;
        let end = usize::try_from(length).ok().and_then(|length| next.checked_add(length)).ok_or_else(damaged_index)?;
        let content = contents.get(next..end).ok_or_else(damaged_index)?;
        if entries.last().is_some_and(|before| before.id >= entry.id) {
            return Err(damaged_index());
        }
        if *blake3::hash(content).as_bytes() != hash || stored::decode(content).is_none() {
            return Err(BundleError::Damaged { what: format!("the kernel `{}`", entry.name) });
        }
        let start = HEADER + index_bytes;
        entry.content = start + next..start + end;
        entries.push(entry);
        next = end;
    }
    if !reader.0.is_empty() || next != contents.len() {
        return Err(damaged_index());
    }
    Ok((made_by, entries))
}

fn index_hash(header: &[u8], index: &[u8]) -> [u8; HASH] {
    *blake3::Hasher::new().update(header).update(index).finalize().as_bytes()
}

fn put_text(into: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(LONGEST_TEXT)];
    into.extend((text.len() as u16).to_le_bytes());
    into.extend(text.as_bytes());
}

const fn form_number(form: Output) -> u8 {
    match form {
        Output::Cubin => 0,
        Output::Ptx => 1,
    }
}

/// The bytes that are still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::from(self.take().map(u16::from_le_bytes)?);
        let (text, rest) = self.0.split_at_checked(length).filter(|_| length <= LONGEST_TEXT)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// Hashes after their number, each greater than the one before.
    fn origins(&mut self) -> Option<Vec<CacheKey>> {
        let count = usize::from(self.take().map(u16::from_le_bytes)?);
        let (hashes, rest) = self.0.split_at_checked(count * HASH)?;
        self.0 = rest;
        let origins: Vec<_> = hashes.as_chunks::<HASH>().0.iter().map(|hash| CacheKey::from_bytes(*hash)).collect();
        origins.is_sorted_by(|one, next| one < next).then_some(origins)
    }

    /// A kernel, its content still without a place, and that content's length and hash.
    fn kernel(&mut self) -> Option<(BundleEntry, u64, [u8; HASH])> {
        let text = CacheKey::from_bytes(self.take()?);
        let [form, major, minor, specific] = self.take()?;
        let form = match form {
            0 => Output::Cubin,
            1 => Output::Ptx,
            _ => return None,
        };
        let arch = match specific {
            0 => Arch::new(major, minor),
            1 => Arch::new(major, minor).specific(),
            _ => return None,
        };
        let (length, hash) = (self.u64()?, self.take()?);
        let (id, origins, name) = (KernelId { text, form, arch }, self.origins()?, self.text()?.to_owned());
        Some((BundleEntry { id, name, origins, content: 0..0 }, length, hash))
    }
}
