//! Integer and logic instructions, computed bit by bit as the document defines them.

/// The low `bits` bits as a signed number.
pub fn signed(value: u64, bits: u32) -> i128 {
    let value = i128::from(value) & ((1 << bits) - 1);
    if value >> (bits - 1) & 1 != 0 { value - (1 << bits) } else { value }
}

/// The low `bits` bits as an unsigned number.
pub fn unsigned(value: u64, bits: u32) -> i128 {
    i128::from(value) & ((1 << bits) - 1)
}

/// [`signed`] or [`unsigned`], as `is_signed` tells.
pub fn number(value: u64, bits: u32, is_signed: bool) -> i128 {
    if is_signed { signed(value, bits) } else { unsigned(value, bits) }
}

/// The low `bits` bits of a number.
pub fn wrap(value: i128, bits: u32) -> u64 {
    (value & ((1 << bits) - 1)) as u64
}

/// The nearest number in the range of a type.
pub fn clamp(value: i128, bits: u32, is_signed: bool) -> i128 {
    let (low, high) = if is_signed { (-(1i128 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    value.max(low).min(high)
}

/// `bfe` (PTX ISA 9.7.1.18).
pub fn bfe(a: u64, position: u64, length: u64, width: u64, is_signed: bool) -> u64 {
    let (position, length, top) = (position & 0xff, length & 0xff, width - 1);
    let bit = |i: u64| a >> i & 1;
    let fill = if !is_signed || length == 0 { 0 } else { bit((position + length - 1).min(top)) };
    (0..width).fold(0, |d, i| d | (if i < length && position + i <= top { bit(position + i) } else { fill }) << i)
}

/// `bfi` (PTX ISA 9.7.1.19).
pub fn bfi(a: u64, b: u64, position: u64, length: u64, width: u64) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let mut f = b;
    for i in 0..length {
        if position + i < width {
            f = (f & !(1 << (position + i))) | (a >> i & 1) << (position + i);
        }
    }
    f
}

/// `prmt` in its index mode (PTX ISA 9.7.9.7).
pub fn prmt(a: u64, b: u64, selector: u64) -> u64 {
    let source: Vec<u64> =
        (0..8).map(|i| if i < 4 { a >> (8 * i) & 0xff } else { b >> (8 * (i - 4)) & 0xff }).collect();
    (0..4).fold(0, |d, i| {
        let nibble = selector >> (4 * i) & 0xf;
        let byte = source[(nibble & 7) as usize];
        let value = match (nibble & 8 != 0, byte & 0x80 != 0) {
            (false, _) => byte,
            (true, true) => 0xff,
            (true, false) => 0,
        };
        d | value << (8 * i)
    })
}

/// `lop3` (PTX ISA 9.7.8.6).
pub fn lop3(a: u64, b: u64, c: u64, table: u64) -> u64 {
    (0..32).fold(0, |d, i| {
        let row = (a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1);
        d | (table >> row & 1) << i
    })
}

/// `shf` (PTX ISA 9.7.8.7): the funnel of `high:low`.
pub fn shf(low: u64, high: u64, amount: u64, left: bool, clamp: bool) -> u64 {
    let amount = if clamp { amount.min(32) } else { amount % 32 };
    let funnel = u128::from(low) | u128::from(high) << 32;
    let shifted = if left { funnel << amount >> 32 } else { funnel >> amount };
    (shifted & 0xffff_ffff) as u64
}

/// The position of the highest one, or all ones of 32 bits.
pub fn bfind(a: u64, bits: u32, is_signed: bool, shift_amount: bool) -> u64 {
    let a = if is_signed && signed(a, bits) < 0 { !a & (u64::MAX >> (64 - bits)) } else { a };
    match (0..bits).rev().find(|i| a >> i & 1 != 0) {
        Some(i) if shift_amount => u64::from(bits - 1 - i),
        Some(i) => i.into(),
        None => 0xffff_ffff,
    }
}
