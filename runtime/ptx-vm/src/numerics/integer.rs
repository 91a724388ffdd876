//! Integer, logic and byte instructions that are not a single Rust operator (PTX ISA 9.7.1, 9.7.2, 9.7.8, 9.7.9.7).

/// The selection modes of `prmt` (PTX ISA 9.7.9.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permute {
    /// Four selector nibbles; bit 3 of a nibble replicates the sign of its byte.
    Index,
    /// `.f4e`: four bytes forward from the selected one.
    Forward4,
    /// `.b4e`: four bytes backward from the selected one.
    Backward4,
    /// `.rc8`: the selected byte four times.
    Replicate8,
    /// `.ecl`: clamp to the left edge.
    EdgeLeft,
    /// `.ecr`: clamp to the right edge.
    EdgeRight,
    /// `.rc16`: the selected half twice.
    Replicate16,
}

/// `prmt.b32{.mode} d, a, b, selector`.
#[inline(always)]
pub fn prmt(mode: Permute, a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(a) | u64::from(b) << 32;
    if mode == Permute::Index {
        let mut result = 0;
        for i in 0..4 {
            let nibble = selector >> (4 * i);
            let byte = (bytes >> (8 * (nibble & 7))) as u32 & 0xff;
            let sign = if byte & 0x80 != 0 { 0xff } else { 0 };
            result |= (if nibble & 8 != 0 { sign } else { byte }) << (8 * i);
        }
        return result;
    }
    let s = selector & 3;
    let mut result = 0;
    for i in 0..4u32 {
        let index = match mode {
            Permute::Index | Permute::Forward4 => s + i,
            Permute::Backward4 => s.wrapping_sub(i) & 7,
            Permute::Replicate8 => s,
            Permute::EdgeLeft => i.max(s),
            Permute::EdgeRight => i.min(s),
            Permute::Replicate16 => (s & 1) * 2 + (i & 1),
        };
        result |= ((bytes >> (8 * index)) as u32 & 0xff) << (8 * i);
    }
    result
}

/// `lop3.b32`: bit `4·a + 2·b + c` of the table.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
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

/// `lop3.b32` over 32 lanes; the table is decoded once.
#[inline(always)]
pub fn lop3_lanes(a: &[u32; 32], b: &[u32; 32], c: &[u32; 32], table: u8) -> [u32; 32] {
    let on = |row: u32| if table >> row & 1 != 0 { u32::MAX } else { 0 };
    let rows: [u32; 8] = std::array::from_fn(|row| on(row as u32));
    std::array::from_fn(|lane| {
        let (x, y, z) = (a[lane], b[lane], c[lane]);
        // Three levels of multiplexers: on c, on b, on a.
        let mux = |s: u32, one: u32, zero: u32| (s & one) | (!s & zero);
        let low = mux(y, mux(z, rows[3], rows[2]), mux(z, rows[1], rows[0]));
        let high = mux(y, mux(z, rows[7], rows[6]), mux(z, rows[5], rows[4]));
        mux(x, high, low)
    })
}

/// `bfe.{u32,s32}`: position and length are the low bytes of their operands.
#[inline(always)]
pub fn bfe32(a: u32, position: u32, length: u32, signed: bool) -> u32 {
    extract(a.into(), position & 0xff, length & 0xff, signed, 32) as u32
}

/// `bfe.{u64,s64}`.
#[inline(always)]
pub fn bfe64(a: u64, position: u32, length: u32, signed: bool) -> u64 {
    extract(a, position & 0xff, length & 0xff, signed, 64)
}

#[inline(always)]
fn extract(a: u64, position: u32, length: u32, signed: bool, width: u32) -> u64 {
    if length == 0 {
        return 0;
    }
    let top = (position + length - 1).min(width - 1);
    let negative = signed && a >> top & 1 != 0;
    let field = a.checked_shr(position).unwrap_or(0);
    let available = length.min(width.saturating_sub(position));
    let mask = if available >= 64 { u64::MAX } else { (1 << available) - 1 };
    (field & mask) | if negative { !mask } else { 0 }
}

/// `bfi.b32`: inserts the low `length` bits of `a` into `b` at `position`.
#[inline(always)]
pub fn bfi32(a: u32, b: u32, position: u32, length: u32) -> u32 {
    let (position, length) = (position & 0xff, length & 0xff);
    let mask = ((1u64 << length.min(32)) - 1).checked_shl(position).unwrap_or(0) as u32;
    (b & !mask) | (a.checked_shl(position).unwrap_or(0) & mask)
}

/// `bfi.b64`.
#[inline(always)]
pub fn bfi64(a: u64, b: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let mask = ((1u128 << length.min(64)) - 1).checked_shl(position).unwrap_or(0) as u64;
    (b & !mask) | (a.checked_shl(position).unwrap_or(0) & mask)
}

/// `bfind{.shiftamt}.{u32,s32}`: the position of the highest bit that differs from the sign, or all ones.
#[inline(always)]
pub fn bfind32(a: u32, signed: bool, shift_amount: bool) -> u32 {
    let a = if signed && (a as i32) < 0 { !a } else { a };
    if a == 0 {
        return u32::MAX;
    }
    if shift_amount { a.leading_zeros() } else { 31 - a.leading_zeros() }
}

/// `bfind{.shiftamt}.{u64,s64}`.
#[inline(always)]
pub fn bfind64(a: u64, signed: bool, shift_amount: bool) -> u32 {
    let a = if signed && (a as i64) < 0 { !a } else { a };
    if a == 0 {
        return u32::MAX;
    }
    if shift_amount { a.leading_zeros() } else { 63 - a.leading_zeros() }
}

/// `bmsk{.clamp,.wrap}.b32`: `width` ones, starting at bit `position`.
#[inline(always)]
pub fn bmsk(position: u32, width: u32, clamp: bool) -> u32 {
    let overflow = clamp && (position >= 32 || width >= 32);
    let sum = (position & 31) + (width & 31);
    let low = if clamp && position >= 32 { 0 } else { u32::MAX << (position & 31) };
    let high = if overflow || sum >= 32 { 0 } else { u32::MAX << sum };
    low & !high
}

/// `szext{.clamp,.wrap}.{u32,s32}`: the low `width` bits, sign- or zero-extended.
#[inline(always)]
pub fn szext(a: u32, width: u32, signed: bool, clamp: bool) -> u32 {
    if clamp && width >= 32 {
        return a;
    }
    let width = width & 31;
    if width == 0 {
        return 0;
    }
    let unused = 32 - width;
    if signed { ((a << unused) as i32 >> unused) as u32 } else { a << unused >> unused }
}

/// `shl.b32`: amounts above 31 give 0.
#[inline(always)]
pub fn shl32(a: u32, amount: u32) -> u32 {
    if amount > 31 { 0 } else { a << (amount & 31) }
}

/// `shr.u32`: amounts above 31 give 0.
#[inline(always)]
pub fn shr_u32(a: u32, amount: u32) -> u32 {
    if amount > 31 { 0 } else { a >> (amount & 31) }
}

/// `shr.s32`: amounts above 31 give the sign.
#[inline(always)]
pub fn shr_s32(a: i32, amount: u32) -> i32 {
    a >> amount.min(31)
}

/// `shl.b64`: amounts above 63 give 0.
#[inline(always)]
pub fn shl64(a: u64, amount: u32) -> u64 {
    if amount > 63 { 0 } else { a << (amount & 63) }
}

/// `shr.u64`: amounts above 63 give 0.
#[inline(always)]
pub fn shr_u64(a: u64, amount: u32) -> u64 {
    if amount > 63 { 0 } else { a >> (amount & 63) }
}

/// `shr.s64`: amounts above 63 give the sign.
#[inline(always)]
pub fn shr_s64(a: i64, amount: u32) -> i64 {
    a >> amount.min(63)
}

/// `shf.l{.clamp,.wrap}.b32`: the high word of `high:low` shifted left.
#[inline(always)]
pub fn shf_left(low: u32, high: u32, amount: u32, clamp: bool) -> u32 {
    let amount = if clamp { amount.min(32) } else { amount & 31 };
    (join(low, high) << amount >> 32) as u32
}

/// `shf.r{.clamp,.wrap}.b32`: the low word of `high:low` shifted right.
#[inline(always)]
pub fn shf_right(low: u32, high: u32, amount: u32, clamp: bool) -> u32 {
    let amount = if clamp { amount.min(32) } else { amount & 31 };
    (join(low, high) >> amount) as u32
}

#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// `mul.hi.u32`.
#[inline(always)]
pub fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

/// `mul.hi.s32`.
#[inline(always)]
pub fn mul_hi_s32(a: i32, b: i32) -> i32 {
    ((i64::from(a) * i64::from(b)) >> 32) as i32
}

/// `mul.hi.u64`.
#[inline(always)]
pub fn mul_hi_u64(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// `mul.hi.s64`.
#[inline(always)]
pub fn mul_hi_s64(a: i64, b: i64) -> i64 {
    ((i128::from(a) * i128::from(b)) >> 64) as i64
}

/// `mad.hi{.sat}.s32`: the high half of the product plus `c`.
#[inline(always)]
pub fn mad_hi_s32(a: i32, b: i32, c: i32, saturate: bool) -> i32 {
    let high = mul_hi_s32(a, b);
    if saturate { high.saturating_add(c) } else { high.wrapping_add(c) }
}

/// `mul24.{lo,hi}.{u32,s32}`: the low or the high 32 bits of the 48-bit product of the low 24 bits.
#[inline(always)]
pub fn mul24(a: u32, b: u32, signed: bool, high: bool) -> u32 {
    let low24 = |x: u32| if signed { i64::from((x << 8) as i32 >> 8) } else { i64::from(x & 0xff_ffff) };
    let product = low24(a) * low24(b);
    (if high { product >> 16 } else { product }) as u32
}

/// `add{.cc}` and `addc{.cc}.u32`: the sum with carry in, and the carry out.
#[inline(always)]
pub fn add_carry32(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

/// `sub{.cc}` and `subc{.cc}.u32`: the difference with borrow in, and the borrow out.
#[inline(always)]
pub fn sub_borrow32(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let difference = i64::from(a) - i64::from(b) - i64::from(borrow);
    (difference as u32, difference < 0)
}

/// 64-bit [`add_carry32`].
#[inline(always)]
pub fn add_carry64(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let sum = u128::from(a) + u128::from(b) + u128::from(carry);
    (sum as u64, sum >> 64 != 0)
}

/// 64-bit [`sub_borrow32`].
#[inline(always)]
pub fn sub_borrow64(a: u64, b: u64, borrow: bool) -> (u64, bool) {
    let difference = i128::from(a) - i128::from(b) - i128::from(borrow);
    (difference as u64, difference < 0)
}

/// `sad.u32`: `c + |a − b|`.
#[inline(always)]
pub fn sad_u32(a: u32, b: u32, c: u32) -> u32 {
    c.wrapping_add(a.abs_diff(b))
}

/// `sad.s32`: `c + |a − b|`.
#[inline(always)]
pub fn sad_s32(a: i32, b: i32, c: i32) -> i32 {
    c.wrapping_add(a.abs_diff(b) as i32)
}

#[inline(always)]
fn byte(x: u32, index: u32, signed: bool) -> i32 {
    let byte = (x >> (8 * index)) as u8;
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

/// `dp4a`: adds four products of bytes to `c`, modulo 2^32.
#[inline(always)]
pub fn dp4a(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32) -> u32 {
    (0..4).fold(c, |sum, i| sum.wrapping_add((byte(a, i, a_signed) * byte(b, i, b_signed)) as u32))
}

/// `dp2a.{lo,hi}`: adds to `c` two products of the 16-bit halves of `a` with the low or high two bytes of `b`.
#[inline(always)]
pub fn dp2a(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32, high: bool) -> u32 {
    (0..2).fold(c, |sum, i| {
        let half = (a >> (16 * i)) as u16;
        let half = if a_signed { i32::from(half as i16) } else { i32::from(half) };
        let factor = byte(b, i + if high { 2 } else { 0 }, b_signed);
        sum.wrapping_add(half.wrapping_mul(factor) as u32)
    })
}

/// `div.u32`. Division by zero gives all ones, as does the code that the compiler emits for sm_80 (PTX leaves it open).
#[inline(always)]
pub fn div_u32(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(u32::MAX)
}

/// `div.s32`. Division by zero gives all ones, and `MIN / −1 = MIN`.
#[inline(always)]
pub fn div_s32(a: i32, b: i32) -> i32 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

/// `rem.u32`. The remainder of a division by zero is `a`.
#[inline(always)]
pub fn rem_u32(a: u32, b: u32) -> u32 {
    a.checked_rem(b).unwrap_or(a)
}

/// `rem.s32`. The remainder of a division by zero is `a`.
#[inline(always)]
pub fn rem_s32(a: i32, b: i32) -> i32 {
    if b == 0 { a } else { a.wrapping_rem(b) }
}

/// `div.u64`. Division by zero gives all ones.
#[inline(always)]
pub fn div_u64(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(u64::MAX)
}

/// `div.s64`. Division by zero gives all ones, and `MIN / −1 = MIN`.
#[inline(always)]
pub fn div_s64(a: i64, b: i64) -> i64 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

/// `rem.u64`. The remainder of a division by zero is `a`.
#[inline(always)]
pub fn rem_u64(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(a)
}

/// `rem.s64`. The remainder of a division by zero is `a`.
#[inline(always)]
pub fn rem_s64(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { a.wrapping_rem(b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The document's bit-by-bit definition of `bfe`.
    fn bfe_by_bits(a: u64, position: u32, length: u32, signed: bool, width: u32) -> u64 {
        let (position, length, top) = (position & 0xff, length & 0xff, width - 1);
        let bit = |i: u32| a >> i & 1;
        let fill = if !signed || length == 0 { 0 } else { bit((position + length - 1).min(top)) };
        (0..width).fold(0, |d, i| d | (if i < length && position + i <= top { bit(position + i) } else { fill }) << i)
    }

    fn bfi_by_bits(a: u64, b: u64, position: u32, length: u32, width: u32) -> u64 {
        let (position, length) = (position & 0xff, length & 0xff);
        (0..length)
            .filter(|i| position + i < width)
            .fold(b, |f, i| (f & !(1 << (position + i))) | (a >> i & 1) << (position + i))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn bit_fields(a in any::<u64>(), b in any::<u64>(), p in prop_oneof![0u32..70, any::<u32>()],
                      l in prop_oneof![0u32..70, any::<u32>()], signed in any::<bool>()) {
            let low = a & 0xffff_ffff;
            prop_assert_eq!(u64::from(bfe32(a as u32, p, l, signed)), bfe_by_bits(low, p, l, signed, 32));
            prop_assert_eq!(bfe64(a, p, l, signed), bfe_by_bits(a, p, l, signed, 64));
            prop_assert_eq!(u64::from(bfi32(a as u32, b as u32, p, l)), bfi_by_bits(low, b & 0xffff_ffff, p, l, 32));
            prop_assert_eq!(bfi64(a, b, p, l), bfi_by_bits(a, b, p, l, 64));
        }

        #[test]
        fn lop3_reads_its_table(a in any::<u32>(), b in any::<u32>(), c in any::<u32>(), table in any::<u8>()) {
            let expected = (0..32).fold(0, |d, i| {
                let row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
                d | u32::from(table >> row & 1) << i
            });
            prop_assert_eq!(lop3(a, b, c, table), expected);
            let lanes = lop3_lanes(&[a; 32], &[b; 32], &[c; 32], table);
            prop_assert_eq!(lanes, [expected; 32]);
        }

        #[test]
        fn wide_sums(a in any::<u64>(), b in any::<u64>(), x in any::<u32>(), y in any::<u32>(), carry in any::<bool>()) {
            let wide = u128::from(a) + u128::from(b) + u128::from(carry);
            let (low, out) = add_carry64(a, b, carry);
            prop_assert_eq!((u128::from(out) << 64) + u128::from(low), wide);
            let (low0, c0) = add_carry32(a as u32, b as u32, carry);
            let (high0, _) = add_carry32((a >> 32) as u32, (b >> 32) as u32, c0);
            prop_assert_eq!(join(low0, high0), low);
            let (low1, b1) = sub_borrow32(a as u32, b as u32, false);
            let (high1, _) = sub_borrow32((a >> 32) as u32, (b >> 32) as u32, b1);
            prop_assert_eq!(join(low1, high1), a.wrapping_sub(b));
            prop_assert_eq!(sub_borrow64(a, b, false), a.overflowing_sub(b));
            prop_assert_eq!(shf_left(x, y, 13, true), y << 13 | x >> 19);
            prop_assert_eq!(shf_right(x, y, 13, false), y << 19 | x >> 13);
            prop_assert_eq!((shf_left(x, y, 32, true), shf_right(x, y, 40, true)), (x, y));
            prop_assert_eq!((shf_left(x, y, 32, false), shf_right(x, y, 64, false)), (y, x));
        }
    }

    #[test]
    fn permutes() {
        let (a, b) = (0x8312_1110, 0x1716_1514);
        assert_eq!(prmt(Permute::Index, a, b, 0x7531), 0x1715_8311);
        assert_eq!(prmt(Permute::Index, a, b, 0x40fb), 0x1410_00ff);
        // The document's tables, as byte numbers from the most significant: one row per selector.
        let (a, b) = (0x0302_0100, 0x0706_0504);
        let table = [
            (Permute::Forward4, [0x0302_0100, 0x0403_0201, 0x0504_0302, 0x0605_0403]),
            (Permute::Backward4, [0x0506_0700, 0x0607_0001, 0x0700_0102, 0x0001_0203]),
            (Permute::Replicate8, [0x0000_0000, 0x0101_0101, 0x0202_0202, 0x0303_0303]),
            (Permute::EdgeLeft, [0x0302_0100, 0x0302_0101, 0x0302_0202, 0x0303_0303]),
            (Permute::EdgeRight, [0x0000_0000, 0x0101_0100, 0x0202_0100, 0x0302_0100]),
            (Permute::Replicate16, [0x0100_0100, 0x0302_0302, 0x0100_0100, 0x0302_0302]),
        ];
        for (mode, rows) in table {
            for (selector, row) in (0..).zip(rows) {
                assert_eq!(prmt(mode, a, b, selector), row, "{mode:?} {selector}");
            }
        }
    }

    #[test]
    fn small_cases() {
        assert_eq!([bfind32(0, false, false), bfind32(u32::MAX, true, false)], [u32::MAX; 2]);
        assert_eq!([bfind32(1, false, false), bfind32(1, false, true), bfind32(!8, true, false)], [0, 31, 3]);
        assert_eq!([bfind64(1 << 40, false, false), bfind64(1 << 40, true, true)], [40, 23]);
        assert_eq!(
            [bmsk(4, 8, true), bmsk(36, 8, true), bmsk(36, 8, false), bmsk(0, 32, true)],
            [0xff0, 0, 0xff0, u32::MAX]
        );
        assert_eq!(
            [szext(0x80, 8, true, true), szext(0x180, 8, false, false), szext(7, 33, true, true)],
            [0xffff_ff80, 0x80, 7]
        );
        assert_eq!([shl32(1, 31), shl32(1, 32), shr_u32(8, 40), shr_s32(-8, 40) as u32], [1 << 31, 0, 0, u32::MAX]);
        assert_eq!([shl64(1, 63), shl64(1, 64), shr_u64(8, 64), shr_s64(-8, 64) as u64], [1 << 63, 0, 0, u64::MAX]);
        assert_eq!([mul_hi_u32(u32::MAX, u32::MAX), mul_hi_s32(-1, 1) as u32], [u32::MAX - 1, u32::MAX]);
        assert_eq!((mul_hi_u64(u64::MAX, 2), mul_hi_s64(-1, 2)), (1, -1));
        assert_eq!(mad_hi_s32(i32::MAX, i32::MAX, i32::MAX, true), i32::MAX);
        assert_eq!(
            [mul24(0xff_ffff, 2, true, false), mul24(0x10_0000, 0x10_0000, false, true)],
            [-2i32 as u32, 0x100_0000]
        );
        assert_eq!((sad_u32(3, 5, 1), sad_s32(-3, 5, 1)), (3, 9));
        assert_eq!(dp4a(0xff02_0304, true, 0x0102_0304, false, 10), 10u32.wrapping_add(4 + 9 + 16).wrapping_sub(1));
        assert_eq!(dp2a(0xffff_0002, true, 0x0304_0506, false, 0, false), (12 - 5) as u32);
        assert_eq!(dp2a(0xffff_0002, false, 0x0304_0506, false, 0, true), 8 + 3 * 0xffff);
        assert_eq!([div_u32(7, 0), rem_u32(7, 0), div_s32(i32::MIN, -1) as u32], [u32::MAX, 7, 1 << 31]);
        assert_eq!((rem_s64(-7, 2), rem_s32(5, 0), div_u64(9, 2), rem_u64(9, 0), div_s64(1, 0)), (-1, 5, 4, 9, -1));
    }
}
