//! Integer instructions that are not a single Rust operator (PTX ISA 9.7.1).

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

#[inline(always)]
fn byte(x: u32, index: u32, signed: bool) -> i32 {
    let byte = (x >> (8 * index)) as u8;
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_extended() {
        assert_eq!(
            [szext(0x80, 8, true, true), szext(0x180, 8, false, false), szext(7, 33, true, true)],
            [0xffff_ff80, 0x80, 7]
        );
        assert_eq!([szext(u32::MAX, 0, true, true), szext(0x103, 33, false, false)], [0, 1]);
    }

    #[test]
    fn halves_are_multiplied_with_bytes() {
        assert_eq!(dp2a(0xffff_0002, true, 0x0304_0506, false, 0, false), (12 - 5) as u32);
        assert_eq!(dp2a(0xffff_0002, false, 0x0304_0506, false, 0, true), 8 + 3 * 0xffff);
    }
}
