//! Integer arithmetic, logic, shifts and bit operations (PTX ISA §9.7.1, §9.7.2, §9.7.8).

use crate::exec::lanes::functions;

/// The functions of an integer type, signed and unsigned.
macro_rules! integers {
    ($module:ident, $u:ty, $s:ty, $wide_u:ty, $wide_s:ty) => {
        pub(crate) mod $module {
            use super::functions;
            functions! {
                Neg(a: $u) -> $u { a.wrapping_neg() }
                Abs(a: $s) -> $s { a.wrapping_abs() }
                Not(a: $u) -> $u { !a }
                Cnot(a: $u) -> $u { <$u>::from(a == 0) }
            }
            functions! {
                Add(a: $u, b: $u) -> $u { a.wrapping_add(b) }
                Sub(a: $u, b: $u) -> $u { a.wrapping_sub(b) }
                MulLo(a: $u, b: $u) -> $u { a.wrapping_mul(b) }
                MulHiU(a: $u, b: $u) -> $u { ((<$wide_u>::from(a) * <$wide_u>::from(b)) >> <$u>::BITS) as $u }
                MulHiS(a: $s, b: $s) -> $s { ((<$wide_s>::from(a) * <$wide_s>::from(b)) >> <$u>::BITS) as $s }
                // Division by zero gives an unspecified value (PTX ISA §9.7.1.9). This is the value that the hardware
                // gives.
                DivU(a: $u, b: $u) -> $u { a.checked_div(b).unwrap_or(<$u>::MAX) }
                DivS(a: $s, b: $s) -> $s { if b == 0 { -1 } else { a.wrapping_div(b) } }
                RemU(a: $u, b: $u) -> $u { a.checked_rem(b).unwrap_or(a) }
                RemS(a: $s, b: $s) -> $s { if b == 0 { a } else { a.wrapping_rem(b) } }
                MinU(a: $u, b: $u) -> $u { a.min(b) }
                MinS(a: $s, b: $s) -> $s { a.min(b) }
                MaxU(a: $u, b: $u) -> $u { a.max(b) }
                MaxS(a: $s, b: $s) -> $s { a.max(b) }
                And(a: $u, b: $u) -> $u { a & b }
                Or(a: $u, b: $u) -> $u { a | b }
                Xor(a: $u, b: $u) -> $u { a ^ b }
                // Shift amounts above the width are clamped to the width (PTX ISA §9.7.8.7).
                Shl(a: $u, b: u32) -> $u { if b >= <$u>::BITS { 0 } else { a << b } }
                ShrU(a: $u, b: u32) -> $u { if b >= <$u>::BITS { 0 } else { a >> b } }
                ShrS(a: $s, b: u32) -> $s { a >> b.min(<$u>::BITS - 1) }
            }
            functions! {
                MadLo(a: $u, b: $u, c: $u) -> $u { a.wrapping_mul(b).wrapping_add(c) }
                MadHiU(a: $u, b: $u, c: $u) -> $u {
                    (((<$wide_u>::from(a) * <$wide_u>::from(b)) >> <$u>::BITS) as $u).wrapping_add(c)
                }
                MadHiS(a: $s, b: $s, c: $s) -> $s {
                    (((<$wide_s>::from(a) * <$wide_s>::from(b)) >> <$u>::BITS) as $s).wrapping_add(c)
                }
                SadU(a: $u, b: $u, c: $u) -> $u { a.abs_diff(b).wrapping_add(c) }
                SadS(a: $s, b: $s, c: $s) -> $u { a.abs_diff(b).wrapping_add(c as $u) }
            }
        }
    };
}

integers!(b16, u16, i16, u32, i32);
integers!(b32, u32, i32, u64, i64);
integers!(b64, u64, i64, u128, i128);

functions! {
    Popc32(a: u32) -> u32 { a.count_ones() }
    Popc64(a: u64) -> u32 { a.count_ones() }
    Clz32(a: u32) -> u32 { a.leading_zeros() }
    Clz64(a: u64) -> u32 { a.leading_zeros() }
    Brev32(a: u32) -> u32 { a.reverse_bits() }
    Brev64(a: u64) -> u64 { a.reverse_bits() }
    FindU32(a: u32) -> u32 { find(u64::from(a)) }
    FindS32(a: i32) -> u32 { find(u64::from((if a < 0 { !a } else { a }).cast_unsigned())) }
    FindU64(a: u64) -> u32 { find(a) }
    FindS64(a: i64) -> u32 { find((if a < 0 { !a } else { a }).cast_unsigned()) }
    FindShiftU32(a: u32) -> u32 { find_shift(u64::from(a), 31) }
    FindShiftS32(a: i32) -> u32 { find_shift(u64::from((if a < 0 { !a } else { a }).cast_unsigned()), 31) }
    FindShiftU64(a: u64) -> u32 { find_shift(a, 63) }
    FindShiftS64(a: i64) -> u32 { find_shift((if a < 0 { !a } else { a }).cast_unsigned(), 63) }
    Mov32(a: u32) -> u32 { a }
    Mov64(a: u64) -> u64 { a }
}

/// The position of the highest 1, or all ones (PTX ISA §9.7.1.18).
#[inline(always)]
fn find(a: u64) -> u32 {
    if a == 0 { u32::MAX } else { 63 - a.leading_zeros() }
}

/// The left shift that moves the highest 1 to the top.
#[inline(always)]
fn find_shift(a: u64, top: u32) -> u32 {
    if a == 0 { u32::MAX } else { top - find(a) }
}

functions! {
    MulWideU16(a: u16, b: u16) -> u32 { u32::from(a) * u32::from(b) }
    MulWideS16(a: i16, b: i16) -> i32 { i32::from(a) * i32::from(b) }
    MulWideU32(a: u32, b: u32) -> u64 { u64::from(a) * u64::from(b) }
    MulWideS32(a: i32, b: i32) -> i64 { i64::from(a) * i64::from(b) }
    Mul24LoU(a: u32, b: u32) -> u32 { (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff) }
    Mul24LoS(a: i32, b: i32) -> i32 { (a << 8 >> 8).wrapping_mul(b << 8 >> 8) }
    AddSatS32(a: i32, b: i32) -> i32 { a.saturating_add(b) }
    SubSatS32(a: i32, b: i32) -> i32 { a.saturating_sub(b) }
    Max32Relu(a: i32, b: i32) -> i32 { a.max(b).max(0) }
    Min32Relu(a: i32, b: i32) -> i32 { a.min(b).max(0) }
    /// `bmsk.clamp`: b ones, starting at bit a.
    MaskClamp(a: u32, b: u32) -> u32 { mask_bits(a, b) }
    /// `bmsk.wrap`: like clamp, with both operands modulo 32.
    MaskWrap(a: u32, b: u32) -> u32 { mask_bits(a & 31, b & 31) }
}

#[inline(always)]
fn mask_bits(position: u32, length: u32) -> u32 {
    if position >= 32 {
        return 0;
    }
    let ones = if length >= 32 { u32::MAX } else { (1 << length) - 1 };
    ones << position
}

/// Both halves of a packed pair of 16-bit integers.
#[inline(always)]
fn pair(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

functions! {
    AddPair(a: u32, b: u32) -> u32 { pair(a, b, u16::wrapping_add) }
    MinPairU(a: u32, b: u32) -> u32 { pair(a, b, u16::min) }
    MaxPairU(a: u32, b: u32) -> u32 { pair(a, b, u16::max) }
    MinPairS(a: u32, b: u32) -> u32 { pair(a, b, |x, y| (x as i16).min(y as i16) as u16) }
    MaxPairS(a: u32, b: u32) -> u32 { pair(a, b, |x, y| (x as i16).max(y as i16) as u16) }
}

functions! {
    MadWideU16(a: u16, b: u16, c: u32) -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) }
    MadWideS16(a: i16, b: i16, c: i32) -> i32 { (i32::from(a) * i32::from(b)).wrapping_add(c) }
    MadWideU32(a: u32, b: u32, c: u64) -> u64 { (u64::from(a) * u64::from(b)).wrapping_add(c) }
    MadWideS32(a: i32, b: i32, c: i64) -> i64 { (i64::from(a) * i64::from(b)).wrapping_add(c) }
    MadHiSatS32(a: i32, b: i32, c: i32) -> i32 { (((i64::from(a) * i64::from(b)) >> 32) as i32).saturating_add(c) }
    Mad24LoU(a: u32, b: u32, c: u32) -> u32 { (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c) }
    Mad24LoS(a: i32, b: i32, c: i32) -> i32 { (a << 8 >> 8).wrapping_mul(b << 8 >> 8).wrapping_add(c) }
    // Funnel shifts of b:a (PTX ISA §9.7.8.8).
    ShfLClamp(a: u32, b: u32, c: u32) -> u32 { (wide(b, a) << c.min(32) >> 32) as u32 }
    ShfLWrap(a: u32, b: u32, c: u32) -> u32 { (wide(b, a) << (c & 31) >> 32) as u32 }
    ShfRClamp(a: u32, b: u32, c: u32) -> u32 { (wide(b, a) >> c.min(32)) as u32 }
    ShfRWrap(a: u32, b: u32, c: u32) -> u32 { (wide(b, a) >> (c & 31)) as u32 }
    BfeU32(a: u32, b: u32, c: u32) -> u32 { extract_u(u64::from(a), b, c, 32) as u32 }
    BfeS32(a: i32, b: u32, c: u32) -> i32 { extract_s(i64::from(a), b, c, 32) as i32 }
    BfeU64(a: u64, b: u32, c: u32) -> u64 { extract_u(a, b, c, 64) }
    BfeS64(a: i64, b: u32, c: u32) -> i64 { extract_s(a, b, c, 64) }
    Dp4aUU(a: u32, b: u32, c: u32) -> u32 { dot4(a, b, c, i32::from, i32::from) }
    Dp4aUS(a: u32, b: u32, c: u32) -> u32 { dot4(a, b, c, i32::from, |x| i32::from(x as i8)) }
    Dp4aSU(a: u32, b: u32, c: u32) -> u32 { dot4(a, b, c, |x| i32::from(x as i8), i32::from) }
    Dp4aSS(a: u32, b: u32, c: u32) -> u32 { dot4(a, b, c, |x| i32::from(x as i8), |x| i32::from(x as i8)) }
    PrmtIndex(a: u32, b: u32, c: u32) -> u32 { permute(a, b, c) }
    PrmtF4e(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x3210, 0x4321, 0x5432, 0x6543][(c & 3) as usize]) }
    PrmtB4e(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x5670, 0x6701, 0x7012, 0x0123][(c & 3) as usize]) }
    PrmtRc8(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x0000, 0x1111, 0x2222, 0x3333][(c & 3) as usize]) }
    PrmtEcl(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x3210, 0x3211, 0x3222, 0x3333][(c & 3) as usize]) }
    PrmtEcr(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x0000, 0x1110, 0x2210, 0x3210][(c & 3) as usize]) }
    PrmtRc16(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x1010, 0x3232, 0x1010, 0x3232][(c & 3) as usize]) }
}

#[inline(always)]
fn wide(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// `bfe.u` (PTX ISA §9.7.1.19).
#[inline(always)]
fn extract_u(a: u64, position: u32, length: u32, bits: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 || position >= bits {
        return 0;
    }
    let field = a >> position;
    if length >= 64 { field } else { field & ((1 << length) - 1) }
}

/// `bfe.s`: the sign bit is the top bit of the field, or that of the operand if the field reaches beyond it.
#[inline(always)]
fn extract_s(a: i64, position: u32, length: u32, bits: u32) -> i64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    let top = (position + length - 1).min(bits - 1);
    if position > top {
        return if a < 0 { -1 } else { 0 };
    }
    a << (63 - top) >> (63 - top + position)
}

#[inline(always)]
fn dot4(a: u32, b: u32, c: u32, left: impl Fn(u8) -> i32, right: impl Fn(u8) -> i32) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    (0..4).fold(c, |sum, i| sum.wrapping_add((left(a[i]) * right(b[i])) as u32))
}

/// `prmt`: each nibble of the selector picks a byte of b:a, or, with its top bit set, the sign of that byte (PTX ISA
/// §9.7.9.7).
#[inline(always)]
pub(crate) fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = wide(b, a);
    let mut result = 0;
    for i in 0..4 {
        let nibble = selector >> (4 * i);
        let byte = (bytes >> (8 * (nibble & 7))) as u8;
        let byte = if nibble & 8 != 0 { ((byte as i8) >> 7) as u8 } else { byte };
        result |= u32::from(byte) << (8 * i);
    }
    result
}

/// `bfi`: the low `length` bits of `a` inserted in `b` at `position` (PTX ISA §9.7.1.20).
pub(crate) fn insert_bits(a: u64, b: u64, position: u32, length: u32, bits: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 || position >= bits {
        return b;
    }
    let ones = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    let mask = ones << position;
    b & !mask | a << position & mask
}

/// `lop3`: the function whose truth table is `table` (PTX ISA §9.7.8.6).
#[inline(always)]
pub(crate) fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let mut result = 0;
    for row in 0..8 {
        if table >> row & 1 != 0 {
            let x = if row & 4 != 0 { a } else { !a };
            let y = if row & 2 != 0 { b } else { !b };
            let z = if row & 1 != 0 { c } else { !c };
            result |= x & y & z;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lop3_is_its_truth_table() {
        for table in 0..=255u8 {
            for row in 0..8u32 {
                let ones = |bit: u32| if row >> bit & 1 != 0 { u32::MAX } else { 0 };
                let expected = if table >> row & 1 != 0 { u32::MAX } else { 0 };
                assert_eq!(lop3(ones(2), ones(1), ones(0), table), expected, "{table:#x} {row}");
            }
        }
    }

    #[test]
    fn fields_follow_the_definition_bit_by_bit() {
        for a in [0x8000_0001u32, 0x1234_5678, u32::MAX, 0] {
            for position in [0, 1, 7, 31, 32, 40, 255] {
                for length in [0u32, 1, 8, 31, 32, 33, 255] {
                    let bit = |i: u32| if i < 32 { a >> i & 1 } else { 0 };
                    let sign = if length == 0 { 0 } else { a >> (position + length - 1).min(31) & 1 };
                    let (mut unsigned, mut signed) = (0, 0);
                    for i in 0..32 {
                        let inside = i < length && position + i < 32;
                        unsigned |= if inside { bit(position + i) } else { 0 } << i;
                        signed |= if inside { bit(position + i) } else { sign } << i;
                    }
                    assert_eq!(extract_u(u64::from(a), position, length, 32) as u32, unsigned);
                    assert_eq!(
                        extract_s(i64::from(a as i32), position, length, 32) as u32,
                        signed,
                        "{a:x} {position} {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn prmt_picks_bytes_and_signs() {
        assert_eq!(permute(0x3322_1100, 0x7766_5544, 0x7410), 0x7744_1100);
        assert_eq!(permute(0x0000_0080, 0, 0x8888), u32::MAX);
    }
}
