//! The shared-memory matrix descriptors of `wgmma` (PTX ISA 9.7.15.5.1), and the tiles that they describe.
//!
//! Bits: address / 16 in 0–13, leading byte offset / 16 in 16–29, stride byte offset / 16 in 32–45; base offset in
//! 49–51, swizzle in 62–63 (0 none, 1 128 B, 2 64 B, 3 32 B).
//!
//! A tile consists of 16-byte chunks of `T` elements, in *core matrices* of eight rows. With `R` the swizzle's row in
//! bytes (16 without), LBO and SBO the leading and stride byte offsets:
//! - K-major: element `(i, k)` lies in chunk `k / T` (0 or 1) of row `i`, at
//!   `(i mod 8)·R + (i div 8)·SBO + (k / T)·16`; without a swizzle the second chunk is LBO away instead of 16.
//! - MN-major: element `(i, k)` lies in chunk `i / T` of row `k`. With `W = R / 16` chunks in a row:
//!   `(k mod 8)·R + (k div 8)·SBO + (i / T mod W)·16 + (i / T div W)·LBO`; without a swizzle LBO and SBO change places.
//!
//! The swizzle is applied to the whole address, start included.

use super::mma::Operand;
use super::swizzle::Swizzle;

/// Which dimension of a tile is contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Major {
    /// Elements of successive `k` are contiguous (the `trans` immediate is 0).
    K,
    /// Elements of successive rows of A or columns of B are contiguous (the `trans` immediate is 1).
    Mn,
}

/// A decoded descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// The start of the tile: a multiple of 16 below 2^18.
    pub address: u32,
    /// The leading dimension byte offset.
    pub leading: u32,
    /// The stride dimension byte offset.
    pub stride: u32,
    /// The swizzle.
    pub swizzle: Swizzle,
}

/// A descriptor or tile that `wgmma` does not accept, or that this crate does not know.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// A base offset that is not 0.
    #[error(
        "the wgmma descriptor {descriptor:#018x} has base offset {base_offset}; only 0 is supported: start the tile at \
         a multiple of {atom} bytes (the swizzle's period)"
    )]
    BaseOffset {
        /// The descriptor's bits.
        descriptor: u64,
        /// Its base offset.
        base_offset: u32,
        /// The swizzle's period.
        atom: u32,
    },
    /// MN-major with a type that is not 16 bits wide.
    #[error("wgmma takes {operand:?} only K-major; MN-major tiles are for the 16-bit types")]
    MajorOfType {
        /// The type of the elements.
        operand: Operand,
    },
}

crate::message::debug!(DescriptorError);

impl Descriptor {
    /// Decodes a descriptor. Unused bits are ignored, as by the hardware.
    ///
    /// # Errors
    /// If the base offset is not 0.
    pub fn decode(bits: u64) -> Result<Self, DescriptorError> {
        let field = |shift: u32| ((bits >> shift) as u32 & 0x3fff) << 4;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        let base_offset = (bits >> 49) as u32 & 7;
        if base_offset != 0 {
            return Err(DescriptorError::BaseOffset { descriptor: bits, base_offset, atom: swizzle.atom() });
        }
        Ok(Descriptor { address: field(0), leading: field(16), stride: field(32), swizzle })
    }

    /// The descriptor's bits. Fields are truncated to their width.
    pub fn encode(self) -> u64 {
        let swizzle = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes128 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes32 => 3,
        };
        let field = |bytes: u32| (u64::from(bytes) >> 4) & 0x3fff;
        field(self.address) | field(self.leading) << 16 | field(self.stride) << 32 | swizzle << 62
    }
}

/// The tile that a `wgmma` reads through a descriptor: `extent` rows of A or columns of B, times the instruction's `k`
/// (always 32 bytes of elements).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    descriptor: Descriptor,
    operand: Operand,
    major: Major,
    extent: usize,
}

/// Sixteen bytes of a tile: successive elements along `k` (K-major) or along the other dimension (MN-major).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// The shared-memory address, swizzled.
    pub address: u32,
    /// The first element's row of A or column of B.
    pub index: usize,
    /// The first element's `k`.
    pub k: usize,
}

impl Tile {
    /// A tile of `extent` rows or columns (a multiple of 8).
    ///
    /// # Errors
    /// If the type is not 16 bits wide and the tile is MN-major.
    pub fn new(descriptor: Descriptor, operand: Operand, major: Major, extent: usize) -> Result<Self, DescriptorError> {
        if major == Major::Mn && operand.bits() != 16 {
            return Err(DescriptorError::MajorOfType { operand });
        }
        Ok(Tile { descriptor, operand, major, extent })
    }

    /// A tile of `tcgen05`, which takes MN-major tiles of 8 bits, too; its instruction descriptor tells which of 32 bits.
    pub const fn of_tcgen05(descriptor: Descriptor, operand: Operand, major: Major, extent: usize) -> Self {
        Tile { descriptor, operand, major, extent }
    }

    /// Rows of A or columns of B.
    pub const fn extent(&self) -> usize {
        self.extent
    }

    /// The instruction's `k`.
    pub const fn k(&self) -> usize {
        256 / self.operand.bits()
    }

    /// The element type.
    pub const fn operand(&self) -> Operand {
        self.operand
    }

    /// Which dimension is contiguous.
    pub const fn major(&self) -> Major {
        self.major
    }

    /// All chunks that the instruction reads, each once.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> + '_ {
        let per_chunk = 128 / self.operand.bits();
        // Rows in memory and chunks in each.
        let (rows, columns) = match self.major {
            Major::K => (self.extent, 2),
            Major::Mn => (self.k(), self.extent / per_chunk),
        };
        (0..rows).flat_map(move |row| {
            (0..columns).map(move |column| {
                let (index, k) = match self.major {
                    Major::K => (row, column * per_chunk),
                    Major::Mn => (column * per_chunk, row),
                };
                Chunk { address: self.address(row as u32, column as u32), index, k }
            })
        })
    }

    #[inline(always)]
    fn address(&self, row: u32, chunk: u32) -> u32 {
        let Descriptor { address, leading, stride, swizzle } = self.descriptor;
        let row_bytes = swizzle.row_bytes();
        let (inner, outer) = (row % 8, row / 8);
        let offset = match (self.major, swizzle) {
            (Major::K, Swizzle::None) => inner * 16 + outer * stride + chunk * leading,
            (Major::K, _) => inner * row_bytes + outer * stride + chunk * 16,
            (Major::Mn, Swizzle::None) => inner * 16 + outer * leading + chunk * stride,
            (Major::Mn, _) => {
                let width = row_bytes / 16;
                inner * row_bytes + outer * stride + chunk % width * 16 + chunk / width * leading
            }
        };
        swizzle.apply(address.wrapping_add(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn fields_round_trip() {
        for swizzle in Swizzle::ALL {
            let descriptor = Descriptor { address: 0x3_fff0, leading: 0x2_0000, stride: 1024, swizzle };
            assert_eq!(Descriptor::decode(descriptor.encode()), Ok(descriptor));
        }
        // The K-major 128-byte descriptor of the CUTLASS documentation: start 0x400, SBO 1024, swizzle 1.
        let bits = (0x400 >> 4) | 1 << 16 | (1024 >> 4) << 32 | 1 << 62;
        let expected = Descriptor { address: 0x400, leading: 16, stride: 1024, swizzle: Swizzle::Bytes128 };
        assert_eq!(Descriptor::decode(bits), Ok(expected));
        let error = Descriptor::decode(bits | 3 << 49).unwrap_err().to_string();
        assert!(error.contains("base offset 3") && error.contains("multiple of 1024"), "{error}");
    }

    /// A tile laid out as a tensor copy leaves it: rows of 128 bytes, swizzled.
    #[test]
    fn k_major_128_byte_tiles_are_rows() {
        let base = 2048;
        for step in 0..4 {
            let descriptor =
                Descriptor { address: base + 32 * step, leading: 16, stride: 1024, swizzle: Swizzle::Bytes128 };
            let tile = Tile::new(descriptor, Operand::F16, Major::K, 64).unwrap();
            for chunk in tile.chunks() {
                // Columns 16·step.. of a 64-column row-major tile.
                let plain = base + 128 * chunk.index as u32 + 32 * step + 2 * chunk.k as u32;
                assert_eq!(chunk.address, Swizzle::Bytes128.apply(plain));
            }
        }
    }

    #[test]
    fn mn_major_128_byte_tiles_are_columns() {
        // 64 k rows of 64 elements (128 bytes), then the next 64 elements.
        let (base, leading) = (4096, 64 * 128);
        for step in 0..4 {
            let address = base + 2048 * step;
            let descriptor = Descriptor { address, leading, stride: 1024, swizzle: Swizzle::Bytes128 };
            let tile = Tile::new(descriptor, Operand::Bf16, Major::Mn, 128).unwrap();
            for chunk in tile.chunks() {
                let (i, k) = (chunk.index as u32, chunk.k as u32 + 16 * step);
                let plain = base + i / 64 * leading + 128 * k + 2 * (i % 64);
                assert_eq!(chunk.address, Swizzle::Bytes128.apply(plain));
            }
        }
        let descriptor = Descriptor { address: 0, leading: 0, stride: 0, swizzle: Swizzle::None };
        assert!(Tile::new(descriptor, Operand::E4M3, Major::Mn, 8).is_err());
    }

    #[test]
    fn chunks_are_distinct_in_dense_tiles() {
        for swizzle in Swizzle::ALL {
            for (major, operand) in [
                (Major::K, Operand::F16),
                (Major::K, Operand::S8),
                (Major::K, Operand::Tf32),
                (Major::Mn, Operand::F16),
            ] {
                // Dense strides for a tile that is as wide as the swizzle's row, at least one instruction.
                let row = swizzle.row_bytes();
                let (leading, stride) = match (major, swizzle) {
                    (Major::K, Swizzle::None) => (128, 256),
                    (Major::K, _) => (16, 8 * row),
                    (Major::Mn, Swizzle::None) => (128 * 16, 128),
                    (Major::Mn, _) => (16 * row, 8 * row),
                };
                let descriptor = Descriptor { address: 1024, leading, stride, swizzle };
                let tile = Tile::new(descriptor, operand, major, 64).unwrap();
                let addresses: HashSet<_> = tile.chunks().map(|chunk| chunk.address).collect();
                assert_eq!(addresses.len(), 128, "{swizzle:?} {major:?} {operand:?}");
                assert!(addresses.iter().all(|a| a % 16 == 0 && *a >= 1024));
            }
        }
    }
}
