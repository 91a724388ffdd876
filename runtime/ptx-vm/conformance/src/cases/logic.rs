//! Logic, shifts, bit fields, selection and moves (PTX ISA 9.7.1, 9.7.7, 9.7.8, 9.7.9).

use crate::case::Case;
use crate::elementwise::Elementwise;
use crate::oracle::bits::{bfe, bfi, lop3, prmt, shf, signed};
use crate::values::Kind;

const WIDTHS: [(u32, Kind); 3] = [(16, Kind::B16), (32, Kind::B32), (64, Kind::B64)];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (bits, k) in WIDTHS {
        let mask = u64::MAX >> (64 - bits);
        type Function = fn(u64, u64) -> u64;
        for (name, f) in [("and", (|a, b| a & b) as Function), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)] {
            cases.push(Elementwise::new(format!("{name}.b{bits}"), &[k; 2], k, move |o| f(o[0], o[1])).case());
        }
        cases.push(Elementwise::new(format!("not.b{bits}"), &[k], k, move |o| !o[0] & mask).case());
        let zero = move |o: &[u64]| u64::from(o[0] == 0);
        cases.push(Elementwise::new(format!("cnot.b{bits}"), &[k], k, zero).case());
        shifts(&mut cases, bits, k);
        let select = |o: &[u64]| if o[2] & 0xffff_ffff != 0 { o[0] } else { o[1] };
        for prefix in ["b", "u", "s"] {
            let opcode = format!("selp.{prefix}{bits}");
            cases.push(Elementwise::new(opcode, &[k, k, Kind::Predicate], k, select).case());
            cases.push(Elementwise::new(format!("mov.{prefix}{bits}"), &[k], k, |o| o[0]).case());
        }
    }
    let select = |o: &[u64]| if o[2] & 0xffff_ffff != 0 { o[0] } else { o[1] };
    cases.push(Elementwise::new("selp.f32", &[Kind::F32, Kind::F32, Kind::Predicate], Kind::F32, select).case());
    cases.push(Elementwise::new("selp.f64", &[Kind::F64, Kind::F64, Kind::Predicate], Kind::F64, select).case());
    cases.push(Elementwise::new("mov.f32", &[Kind::F32], Kind::F32, |o| o[0]).case());
    cases.push(Elementwise::new("mov.f64", &[Kind::F64], Kind::F64, |o| o[0]).case());
    let choose = |o: &[u64]| if signed(o[2], 32) >= 0 { o[0] } else { o[1] };
    for name in ["slct.b32.s32", "slct.u32.s32", "slct.s32.s32"] {
        cases.push(Elementwise::new(name, &[Kind::B32; 3], Kind::B32, choose).case());
    }
    for (bits, k) in &WIDTHS[1..] {
        let (bits, k) = (*bits, *k);
        let reverse = move |o: &[u64]| (0..bits).fold(0, |d, i| d | (o[0] >> i & 1) << (bits - 1 - i));
        cases.push(Elementwise::new(format!("brev.b{bits}"), &[k], k, reverse).case());
        let leading = move |o: &[u64]| (0..bits).rev().take_while(|i| o[0] >> i & 1 == 0).count() as u64;
        cases.push(Elementwise::new(format!("clz.b{bits}"), &[k], Kind::B32, leading).case());
        let ones = move |o: &[u64]| (0..bits).map(|i| o[0] >> i & 1).sum();
        cases.push(Elementwise::new(format!("popc.b{bits}"), &[k], Kind::B32, ones).case());
        for (prefix, is_signed) in [("u", false), ("s", true)] {
            let oracle = move |o: &[u64]| bfe(o[0], o[1], o[2], bits.into(), is_signed);
            let operands = [k, Kind::Amount, Kind::Amount];
            cases.push(Elementwise::new(format!("bfe.{prefix}{bits}"), &operands, k, oracle).case());
        }
        let oracle = move |o: &[u64]| bfi(o[0], o[1], o[2], o[3], bits.into());
        cases.push(Elementwise::new(format!("bfi.b{bits}"), &[k, k, Kind::Amount, Kind::Amount], k, oracle).case());
    }
    cases.push(Elementwise::new("prmt.b32", &[Kind::B32; 3], Kind::B32, |o| prmt(o[0], o[1], o[2])).case());
    permute_modes(&mut cases);
    for table in (0..=255).step_by(15) {
        let case = Elementwise::new("lop3.b32", &[Kind::B32; 3], Kind::B32, move |o| lop3(o[0], o[1], o[2], table));
        cases.push(case.suffix(format!(", {table}")).case());
    }
    for (side, left) in [("l", true), ("r", false)] {
        for (mode, clamp) in [("wrap", false), ("clamp", true)] {
            let oracle = move |o: &[u64]| shf(o[0], o[1], o[2], left, clamp);
            let operands = [Kind::B32, Kind::B32, Kind::Amount];
            cases.push(Elementwise::new(format!("shf.{side}.{mode}.b32"), &operands, Kind::B32, oracle).case());
        }
    }
    predicates(&mut cases);
    cases
}

fn shifts(cases: &mut Vec<Case>, bits: u32, k: Kind) {
    let mask = u64::MAX >> (64 - bits);
    let left = move |o: &[u64]| if o[1] >= bits.into() { 0 } else { o[0] << o[1] & mask };
    cases.push(Elementwise::new(format!("shl.b{bits}"), &[k, Kind::Amount], k, left).case());
    for prefix in ["u", "b"] {
        let right = move |o: &[u64]| if o[1] >= bits.into() { 0 } else { o[0] >> o[1] };
        cases.push(Elementwise::new(format!("shr.{prefix}{bits}"), &[k, Kind::Amount], k, right).case());
    }
    let arithmetic = move |o: &[u64]| (signed(o[0], bits) >> o[1].min(100)) as u64 & mask;
    cases.push(Elementwise::new(format!("shr.s{bits}"), &[k, Kind::Amount], k, arithmetic).case());
}

fn permute_modes(cases: &mut Vec<Case>) {
    // Rows of the document's table: source byte numbers, most significant result byte first, for selectors 0 to 3.
    let table: [(&str, [u64; 4]); 6] = [
        ("f4e", [0x3210, 0x4321, 0x5432, 0x6543]),
        ("b4e", [0x5670, 0x6701, 0x7012, 0x0123]),
        ("rc8", [0x0000, 0x1111, 0x2222, 0x3333]),
        ("ecl", [0x3210, 0x3211, 0x3222, 0x3333]),
        ("ecr", [0x0000, 0x1110, 0x2210, 0x3210]),
        ("rc16", [0x1010, 0x3232, 0x1010, 0x3232]),
    ];
    for (mode, rows) in table {
        let oracle = move |o: &[u64]| prmt(o[0], o[1], rows[(o[2] & 3) as usize]);
        cases.push(Elementwise::new(format!("prmt.b32.{mode}"), &[Kind::B32; 3], Kind::B32, oracle).case());
    }
}

fn predicates(cases: &mut Vec<Case>) {
    let truth = |x: u64| x & 0xffff_ffff != 0;
    type Function = fn(bool, bool) -> bool;
    let binary: [(&str, Function); 3] = [("and", |a, b| a && b), ("or", |a, b| a || b), ("xor", |a, b| a != b)];
    for (name, f) in binary {
        let oracle = move |o: &[u64]| f(truth(o[0]), truth(o[1])).into();
        cases.push(Elementwise::new(format!("{name}.pred"), &[Kind::Predicate; 2], Kind::Predicate, oracle).case());
    }
    let not = move |o: &[u64]| (!truth(o[0])).into();
    cases.push(Elementwise::new("not.pred", &[Kind::Predicate], Kind::Predicate, not).case());
    let same = move |o: &[u64]| truth(o[0]).into();
    cases.push(Elementwise::new("mov.pred", &[Kind::Predicate], Kind::Predicate, same).case());
}
