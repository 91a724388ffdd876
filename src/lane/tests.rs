//! Machine code of a step gives the bits of its strip.

use super::machine::{Lowering, Typed};
use super::scalar::{Lanes, LanesMut};
use super::strip::compute;
use super::{Class, LaneStep, Operation, Register};
use crate::ElementType;
use crate::expr::Op;
use crate::jit::{Kernel, Lane};

const LANES: usize = 1003;

/// Lanes of a class, by their bits.
fn lanes(class: Class, bits: &[u32]) -> Lanes<'_> {
    if class == Class::F32 { Lanes::F32(bytemuck::cast_slice(bits)) } else { Lanes::I32(bytemuck::cast_slice(bits)) }
}

/// Whether there is code for an operation, which then has the strip's bits.
fn check(operation: Operation, to: Class, classes: &[Class]) -> bool {
    let mut random = fastrand::Rng::with_seed(5);
    // Few bits, any bits, and small integers.
    let special = [0, 1, 0x8000_0000, 0x3f80_0000, 0xbf00_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000];
    let mut bits = || match random.u32(..4) {
        0 => special[random.usize(..special.len())],
        1 => random.u32(..),
        2 => random.i32(-200..200).cast_unsigned(),
        _ => (random.f32() * 600.0 - 300.0).to_bits(),
    };
    let inputs: Vec<Vec<u32>> = classes.iter().map(|_| (0..LANES).map(|_| bits()).collect()).collect();
    let mut want = vec![0u32; LANES];
    let strips: Vec<Lanes<'_>> = classes.iter().zip(&inputs).map(|(class, bits)| lanes(*class, bits)).collect();
    let result = match to {
        Class::F32 => LanesMut::F32(bytemuck::cast_slice_mut(&mut want)),
        _ => LanesMut::I32(bytemuck::cast_slice_mut(&mut want)),
    };
    compute(operation, result, &strips).expect("no division");

    let lane = |class: Class| if class == Class::F32 { Lane::F32 } else { Lane::I32 };
    let mut lowering = Lowering::default();
    let operands: Vec<Register> =
        classes.iter().enumerate().map(|(number, class)| Register { class: *class, number }).collect();
    for register in &operands {
        let value = lowering.body.load(lane(register.class));
        lowering.set(*register, Typed::of(register.class, value));
    }
    let to = Register { class: to, number: classes.len() };
    if lowering.step(&LaneStep::new(operation, to, &operands)).is_none() {
        return false;
    }
    let value = lowering.get(to).expect("a value");
    let value = lowering.bits(to.class, value);
    lowering.body.store(lane(to.class), value);
    let Some(kernel) = Kernel::compile(&lowering.body, crate::tuning::Vectors::Longest) else { return true };
    let mut got = vec![0u32; LANES];
    let mut addresses: Vec<*mut u8> = inputs.iter().map(|bits| bits.as_ptr() as *mut u8).collect();
    addresses.push(got.as_mut_ptr().cast());
    // SAFETY: each has as many lanes, and only the last is written.
    unsafe { kernel.run(&addresses, LANES) };
    for (place, (got, want)) in got.iter().zip(&want).enumerate() {
        let is_nan = |bits: u32| to.class == Class::F32 && f32::from_bits(bits).is_nan();
        let of: Vec<u32> = inputs.iter().map(|bits| bits[place]).collect();
        assert!(got == want || (is_nan(*got) && is_nan(*want)), "{operation:?} of {of:x?}: {want:x}, not {got:x}");
    }
    true
}

#[test]
fn code_has_the_bits_of_strips() {
    use Class::{F32, I32};
    for op in Op::ALL {
        let operands = |class: Class| vec![class; op.arity()];
        let apply = Operation::Apply(op);
        let has_code = match op {
            Op::Select => {
                [check(apply, F32, &[F32; 3]), check(apply, F32, &[I32, F32, F32]), check(apply, I32, &[I32; 3])]
                    .into_iter()
                    .all(|has| has)
            }
            _ if op.is_comparison() => check(apply, F32, &[F32; 2]) && check(apply, I32, &[F32; 2]),
            _ => check(apply, F32, &operands(F32)),
        };
        assert_eq!(has_code, !matches!(op, Op::Sin | Op::Cos | Op::Pow), "{op:?}");
        if op.takes_integers() && op != Op::Select {
            assert!(check(apply, I32, &operands(I32)), "{op:?} of integers");
        }
    }
    for operation in [Operation::And, Operation::Or, Operation::Xor] {
        assert!(check(operation, I32, &[I32; 2]));
    }
    for operation in [Operation::Not, Operation::Truth, Operation::Copy] {
        assert!(check(operation, I32, &[I32]));
    }
    assert!(check(Operation::Truth, I32, &[F32]) && check(Operation::Copy, F32, &[F32]));
    for element in [ElementType::I8, ElementType::U8, ElementType::I16, ElementType::U16, ElementType::I32] {
        assert!(check(Operation::Cast(element), I32, &[F32]), "{element} of a number");
        assert!(check(Operation::Cast(element), I32, &[I32]), "{element} of an integer");
    }
    for element in [ElementType::I8, ElementType::U8, ElementType::I32] {
        assert!(check(Operation::Round(element), F32, &[F32]), "rounding to {element}");
    }
    assert!(check(Operation::Cast(ElementType::F32), F32, &[I32]));
    for element in [ElementType::F32, ElementType::F16, ElementType::BF16] {
        assert!(check(Operation::Round(element), F32, &[F32]) && check(Operation::Cast(element), F32, &[F32]));
    }
    for element in [ElementType::F8E4M3, ElementType::F8E5M2, ElementType::F64] {
        assert!(!check(Operation::Round(element), F32, &[F32]), "{element}");
    }
}
