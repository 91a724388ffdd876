//! The shared-memory matrix descriptors of `tcgen05.mma` and `tcgen05.cp` (PTX ISA 9.7.16.4.1).
//!
//! Bits: address / 16 in 0–13, leading byte offset / 16 in 16–29, stride byte offset / 16 in 32–45; the constant 0b001
//! in 46–48; base offset in 49–51; in 52 the mode of the leading offset; zeros in 53–60; swizzle in 61–63 (0 none, 2
//! 128 B, 4 64 B, 6 32 B, 1 128 B with atoms of 32 bytes). The layouts are those of `wgmma`: see [`descriptor`].
//!
//! [`descriptor`]: super::descriptor

use super::descriptor::Descriptor;
use super::swizzle::Swizzle;

/// A descriptor that `tcgen05` does not accept, or that this crate does not know.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TensorDescriptorError {
    /// Another constant than 0b001 in bits 46–48, as in a descriptor for `wgmma`.
    #[error(
        "the matrix descriptor {descriptor:#018x} has {found:#05b} in bits 46 to 48; tcgen05 needs the constant 0b001 \
         there: a descriptor for wgmma has 0 (PTX ISA 9.7.16.4.1)"
    )]
    Version {
        /// The descriptor's bits.
        descriptor: u64,
        /// The three bits.
        found: u64,
    },
    /// A reserved bit that is set.
    #[error("the matrix descriptor {descriptor:#018x} sets bit {bit}, which must be 0 (PTX ISA 9.7.16.4.1)")]
    Reserved {
        /// The descriptor's bits.
        descriptor: u64,
        /// The bit.
        bit: u32,
    },
    /// A base offset that is not 0.
    #[error(
        "the matrix descriptor {descriptor:#018x} has base offset {base_offset}; only 0 is supported: start the tile at \
         a multiple of the swizzle's period"
    )]
    BaseOffset {
        /// The descriptor's bits.
        descriptor: u64,
        /// Its base offset.
        base_offset: u64,
    },
    /// The leading offset is an absolute address.
    #[error(
        "the matrix descriptor {descriptor:#018x} sets bit 52: an absolute leading address needs sm_103a; give the \
         offset and clear the bit"
    )]
    AbsoluteLeading {
        /// The descriptor's bits.
        descriptor: u64,
    },
    /// A swizzle that is not supported or does not exist.
    #[error(
        "the matrix descriptor {descriptor:#018x} has swizzle {code}; supported are 0 (none), 2 (128 bytes), 4 (64 bytes) \
         and 6 (32 bytes); 1 is that of 128 bytes with 32-byte atoms, and the others don't exist"
    )]
    Swizzle {
        /// The descriptor's bits.
        descriptor: u64,
        /// The code.
        code: u64,
    },
}

crate::message::debug!(TensorDescriptorError);

/// The bits that must be 0 beside those with a message of their own.
const RESERVED: u64 = 3 << 14 | 3 << 30 | 0xff << 53;

/// Decodes a descriptor of `tcgen05`.
///
/// # Errors
/// If a reserved bit is set, the constant is missing, or a feature is not supported.
pub fn decode(descriptor: u64) -> Result<Descriptor, TensorDescriptorError> {
    let found = descriptor >> 46 & 7;
    if found != 1 {
        return Err(TensorDescriptorError::Version { descriptor, found });
    }
    if descriptor & RESERVED != 0 {
        let bit = (descriptor & RESERVED).trailing_zeros();
        return Err(TensorDescriptorError::Reserved { descriptor, bit });
    }
    let base_offset = descriptor >> 49 & 7;
    if base_offset != 0 {
        return Err(TensorDescriptorError::BaseOffset { descriptor, base_offset });
    }
    if descriptor >> 52 & 1 != 0 {
        return Err(TensorDescriptorError::AbsoluteLeading { descriptor });
    }
    let swizzle = match descriptor >> 61 {
        0 => Swizzle::None,
        2 => Swizzle::Bytes128,
        4 => Swizzle::Bytes64,
        6 => Swizzle::Bytes32,
        code => return Err(TensorDescriptorError::Swizzle { descriptor, code }),
    };
    let field = |shift: u32| ((descriptor >> shift) as u32 & 0x3fff) << 4;
    Ok(Descriptor { address: field(0), leading: field(16), stride: field(32), swizzle })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K-major, 128-byte swizzle, eight rows in 1024 bytes, at byte 0x400.
    const GOOD: u64 = 0x40 | 64 << 32 | 1 << 46 | 2 << 61;

    #[test]
    fn fields_are_where_the_table_has_them() {
        let expected = Descriptor { address: 0x400, leading: 0, stride: 1024, swizzle: Swizzle::Bytes128 };
        assert_eq!(decode(GOOD), Ok(expected));
        assert_eq!(decode(GOOD | 8 << 16).map(|d| d.leading), Ok(128));
        for (code, swizzle) in [(0, Swizzle::None), (4, Swizzle::Bytes64), (6, Swizzle::Bytes32)] {
            assert_eq!(decode(GOOD & !(7 << 61) | code << 61).map(|d| d.swizzle), Ok(swizzle));
        }
    }

    #[test]
    fn every_bit_outside_of_the_fields_is_checked() {
        for bit in [14, 15, 30, 31].into_iter().chain(46..=60) {
            let message = decode(GOOD ^ 1 << bit).unwrap_err().to_string();
            assert!(message.contains("matrix descriptor 0x"), "bit {bit}: {message}");
        }
        for code in [1, 3, 5, 7] {
            assert!(matches!(decode(GOOD & !(7 << 61) | code << 61), Err(TensorDescriptorError::Swizzle { .. })));
        }
        let of_wgmma = decode(GOOD & !(1 << 46)).unwrap_err().to_string();
        assert!(of_wgmma.contains("wgmma"), "{of_wgmma}");
    }
}
