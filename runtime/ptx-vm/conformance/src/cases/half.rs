//! `.f16` and `.bf16` arithmetic, scalar and packed (PTX ISA 9.7.4).

use crate::case::{Case, Compare};
use crate::elementwise::Elementwise;
use crate::oracle::real::{BF16, F16, Mode, Pair, Table};
use crate::values::Kind;

/// A 16-bit format.
#[derive(Clone, Copy)]
struct Half {
    name: &'static str,
    table: fn() -> &'static Table,
    scalar: Kind,
    pair: Kind,
    compare: Compare,
    pair_compare: Compare,
}

const FORMATS: [Half; 2] = [
    Half {
        name: "f16",
        table: || &F16,
        scalar: Kind::F16,
        pair: Kind::F16x2,
        compare: Compare::Float(16),
        pair_compare: Compare::HalfPair,
    },
    Half {
        name: "bf16",
        table: || &BF16,
        scalar: Kind::Bf16,
        pair: Kind::Bf16x2,
        compare: Compare::Brain,
        pair_compare: Compare::BrainPair,
    },
];

type Operation = fn(&Table, &[u64]) -> u64;

fn sum(table: &Table, product: f64, c: f64) -> u64 {
    table.round(Pair::sum(product, c), Mode::Rn)
}

fn add(t: &Table, x: &[u64]) -> u64 {
    sum(t, t.value(x[0]), t.value(x[1]))
}

fn sub(t: &Table, x: &[u64]) -> u64 {
    sum(t, t.value(x[0]), -t.value(x[1]))
}

fn mul(t: &Table, x: &[u64]) -> u64 {
    t.round(Pair::of(t.value(x[0]) * t.value(x[1])), Mode::Rn)
}

fn fma(t: &Table, x: &[u64]) -> u64 {
    sum(t, t.value(x[0]) * t.value(x[1]), t.value(x[2]))
}

fn extremum(t: &Table, x: &[u64], greater: bool, nan: bool) -> u64 {
    let (a, b) = (t.value(x[0]), t.value(x[1]));
    match (a.is_nan(), b.is_nan()) {
        (true, true) => t.nan(),
        (false, false) => {
            if (a.total_cmp(&b).is_gt()) == greater {
                x[0]
            } else {
                x[1]
            }
        }
        _ if nan => t.nan(),
        (true, false) => x[1],
        (false, true) => x[0],
    }
}

/// The scalar and the packed case of an operation.
fn push(
    cases: &mut Vec<Case>,
    half: Half,
    opcode: &str,
    arity: usize,
    hopper: bool,
    f: impl Fn(&Table, &[u64]) -> u64 + Send + Sync + Clone + 'static,
) {
    let g = f.clone();
    let table = half.table;
    let scalar =
        Elementwise::new(format!("{opcode}.{}", half.name), &vec![half.scalar; arity], half.scalar, move |o| {
            g(table(), o)
        });
    let pair = Elementwise::new(format!("{opcode}.{}x2", half.name), &vec![half.pair; arity], half.pair, move |o| {
        let part = |shift: u32| -> Vec<u64> { o.iter().map(|x| x >> shift & 0xffff).collect() };
        f(table(), &part(0)) | f(table(), &part(16)) << 16
    });
    for (case, compare) in [(scalar, half.compare), (pair, half.pair_compare)] {
        let case = case.compare(compare);
        cases.push(if hopper { case.hopper() } else { case }.case());
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let operations: [(&str, usize, Operation); 3] = [("add", 2, add), ("sub", 2, sub), ("mul", 2, mul)];
    for half in FORMATS {
        let brain = half.name == "bf16";
        for (name, arity, f) in operations {
            // sm_80 has only fma of bf16.
            for rounding in ["", ".rn"] {
                push(&mut cases, half, &format!("{name}{rounding}"), arity, brain, f);
            }
            if !brain {
                push(&mut cases, half, &format!("{name}.ftz"), arity, false, move |t, x| flushed(t, x, f));
                push(&mut cases, half, &format!("{name}.sat"), arity, false, move |t, x| saturated(t, f(t, x)));
            }
        }
        push(&mut cases, half, "fma.rn", 3, false, fma);
        push(&mut cases, half, "fma.rn.relu", 3, false, |t, x| {
            let result = fma(t, x);
            if t.value(result) <= 0.0 { 0 } else { result }
        });
        if !brain {
            push(&mut cases, half, "fma.rn.ftz", 3, false, |t, x| flushed(t, x, fma));
            push(&mut cases, half, "fma.rn.sat", 3, false, |t, x| saturated(t, fma(t, x)));
        }
        for (name, greater) in [("min", false), ("max", true)] {
            for (modifier, nan) in [("", false), (".NaN", true)] {
                push(&mut cases, half, &format!("{name}{modifier}"), 2, false, move |t, x| {
                    extremum(t, x, greater, nan)
                });
            }
        }
        push(&mut cases, half, "neg", 1, false, |t, x| x[0] ^ t.sign());
        push(&mut cases, half, "abs", 1, false, |t, x| x[0] & !t.sign());
    }
    cases
}

fn flushed(t: &Table, x: &[u64], f: Operation) -> u64 {
    let flush = |x: u64| if t.is_subnormal(x) { x & t.sign() } else { x };
    let inputs: Vec<u64> = x.iter().map(|x| flush(*x)).collect();
    flush(f(t, &inputs))
}

fn saturated(t: &Table, code: u64) -> u64 {
    let value = t.value(code);
    if value.is_nan() { 0 } else { t.round(Pair::of(value.clamp(0.0, 1.0) + 0.0), Mode::Rn) }
}
