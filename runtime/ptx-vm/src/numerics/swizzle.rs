//! The shared-memory swizzles of tensor copies and `wgmma` (PTX ISA 5.5.6, 9.7.15.5.1).

/// A permutation of 16-byte chunks. It uses the bits of the shared-memory address, so in a tile whose address is a
/// multiple of [`atom`](Self::atom) chunk 0 stays in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Swizzle {
    /// No permutation.
    #[default]
    None,
    /// Rows of 32 bytes: address bit 4 is XORed with bit 7.
    Bytes32,
    /// Rows of 64 bytes: address bits 4 to 5 are XORed with bits 7 to 8.
    Bytes64,
    /// Rows of 128 bytes: address bits 4 to 6 are XORed with bits 7 to 9.
    Bytes128,
}

impl Swizzle {
    /// Every pattern.
    pub const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

    /// Number of bytes in a row; 16 without a swizzle.
    pub const fn row_bytes(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// Number of bytes after which the pattern repeats: eight rows. 16 without a swizzle.
    pub const fn atom(self) -> u32 {
        match self {
            Swizzle::None => 16,
            other => 8 * other.row_bytes(),
        }
    }

    /// The address of a byte whose address in the plain layout is `address`. Applied twice, the permutation gives the
    /// original.
    #[inline(always)]
    pub const fn apply(self, address: u32) -> u32 {
        let mask = self.row_bytes() - 16;
        address ^ ((address >> 3) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_permutes_chunks_of_its_atom() {
        for swizzle in Swizzle::ALL {
            let mut seen = [false; 256];
            for chunk in 0..256u32 {
                let to = swizzle.apply(16 * chunk + 3);
                assert_eq!(swizzle.apply(to), 16 * chunk + 3);
                assert_eq!(to % 16, 3);
                assert_eq!(to / swizzle.atom(), (16 * chunk + 3) / swizzle.atom());
                seen[(to / 16) as usize] = true;
            }
            assert!(seen.iter().all(|&s| s));
        }
    }

    #[test]
    fn documented_places() {
        // 128 B: chunk c of row r lies at chunk c ^ (r mod 8).
        for r in 0..16 {
            for c in 0..8 {
                assert_eq!(Swizzle::Bytes128.apply(128 * r + 16 * c), 128 * r + 16 * (c ^ (r % 8)));
            }
            for c in 0..4 {
                assert_eq!(Swizzle::Bytes64.apply(64 * r + 16 * c), 64 * r + 16 * (c ^ (r / 2 % 4)));
            }
            for c in 0..2 {
                assert_eq!(Swizzle::Bytes32.apply(32 * r + 16 * c), 32 * r + 16 * (c ^ (r / 4 % 2)));
            }
        }
        assert_eq!(Swizzle::None.apply(0x1234), 0x1234);
    }
}
