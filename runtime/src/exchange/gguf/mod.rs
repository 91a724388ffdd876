//! GGUF files: llama.cpp's, with metadata and tensors by name.
//!
//! A file is read from any bytes ([`Gguf::from_bytes`]): a `Vec<u8>`, a slice, a mapped file. [`Gguf::open`] reads it into
//! memory of its own. [`Gguf::map`] maps it, which is `unsafe`: another process may change the file meanwhile.
//!
//! Versions 2 and 3 are read, in little-endian order. Everything is checked when the file is opened: lengths, counts,
//! types, names, alignment, and that tensors lie in the file without overlapping. Memory grows with the bytes of the
//! header, never with the counts and lengths that stand in it. Values of metadata are views of the file.
//!
//! ```
//! use epilogue_runtime::gguf::{Gguf, Value};
//!
//! # let mut bytes = Vec::new();
//! # let text = |bytes: &mut Vec<u8>, text: &str| {
//! #     bytes.extend((text.len() as u64).to_le_bytes());
//! #     bytes.extend(text.as_bytes());
//! # };
//! # bytes.extend(b"GGUF");
//! # bytes.extend(3u32.to_le_bytes());
//! # bytes.extend([1u64, 1].map(u64::to_le_bytes).concat());
//! # text(&mut bytes, "general.architecture");
//! # bytes.extend(8u32.to_le_bytes());
//! # text(&mut bytes, "llama");
//! # text(&mut bytes, "blk.0.attn_q.weight");
//! # bytes.extend(2u32.to_le_bytes());
//! # bytes.extend([32u64, 2].map(u64::to_le_bytes).concat());
//! # bytes.extend(8u32.to_le_bytes());
//! # bytes.extend(0u64.to_le_bytes());
//! # bytes.resize(bytes.len().next_multiple_of(32), 0);
//! # bytes.extend([0, 0x3c]); // 1 as f16
//! # bytes.extend(0..32u8);
//! # bytes.extend([0, 0x40]); // 2
//! # bytes.extend(0..32u8);
//! let file = Gguf::from_bytes(bytes)?; // or `Gguf::open("model.gguf")?`
//! assert_eq!(file.metadata("general.architecture")?.as_str(), Some("llama"));
//! for (name, value) in file.all_metadata() {
//!     if let Value::Array(array) = value {
//!         println!("{name}: {} values", array.len());
//!     }
//! }
//!
//! let weights = file.tensor("blk.0.attn_q.weight")?;
//! assert_eq!((weights.shape(), weights.type_name()), (&[2, 32][..], "Q8_0"));
//! assert_eq!(weights.decode()?[33], 2.0); // row 1, column 1
//! # Ok::<(), epilogue_runtime::GgufError>(())
//! ```

mod file;
mod metadata;
mod reader;
#[cfg(test)]
mod tests;
mod types;

pub use file::{Gguf, Mapped, Tensor};
pub use metadata::{Array, Value};
