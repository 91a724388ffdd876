//! The structs that kernels of this family read, part by part.

use smallvec::SmallVec;

use super::Sm80Key;
use crate::gemm::kernel::device_struct::{DeviceStruct, Part, inner, int, pointer, stride, with, word};
use crate::gemm::kernel::formula::Operation::{Add, Most};
use crate::gemm::kernel::formula::{Formula, ONE, Quantity, ZERO};
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::structs::{GROUP_COMMON, LINE, OPERAND, PROBLEM, ROW_INDEX, SCALED_COMMON};
use crate::gemm::kernel::{PatchKind, PatchShape, ReadingShape};

const fn given(quantity: Quantity) -> Formula {
    Formula::Given(quantity)
}

/// Arguments that every kernel takes.
const COMMON: DeviceStruct = DeviceStruct {
    name: "sm80/Common",
    fields: &[
        inner("Operand", "a", &OPERAND).of(Memory::A),
        inner("Operand", "b", &OPERAND).of(Memory::B(0)).of_each_b("Config::ACCUMULATORS", "b#"),
        inner("Problem", "problem", &PROBLEM),
        inner("Line", "line", &LINE),
        pointer("void*", "split_k_sums").of(Memory::Scratch).described("workspace.split_k_sums"),
        pointer("u32*", "split_k_counters").of(Memory::Counters).described("workspace.split_k_counters"),
    ],
};

/// A number that positions are divided by: its argument, or 1.
const DIVISOR: DeviceStruct = DeviceStruct {
    name: "sm80/Divisor",
    fields: &[
        word("magic", &[Formula::Reciprocal(&Formula::Argument(0))]),
        word("shift", &[SHIFT]),
        word("divisor", &[Formula::Of(Most, &[Formula::Argument(0), ONE])]),
        word("unused", &[ZERO]),
    ],
};
const SHIFT: Formula = Formula::Of(Add, &[Formula::Number(31), Formula::LogUp(&Formula::Argument(0))]);

/// None of the kernels divides by 0 where there is nothing.
const OUTPUTS: [Formula; 3] = [
    Formula::Of(Most, &[given(Quantity::Output(0)), ONE]),
    Formula::Of(Most, &[given(Quantity::Output(1)), ONE]),
    Formula::Of(Most, &[given(Quantity::Output(2)), ONE]),
];

/// Images and a window. The last axis is the fastest.
const PATCHES: DeviceStruct = DeviceStruct {
    name: "sm80/Patches",
    fields: &[
        stride("step", &[given(Quantity::Step(0)), given(Quantity::Step(1)), given(Quantity::Step(2))]),
        with("Divisor", "channels", &DIVISOR, &[&[given(Quantity::Channels)]]),
        with("Divisor", "taps", &DIVISOR, &[&[given(Quantity::Window(2))], &[given(Quantity::Window(1))]])
            .about("the window's elements along axes 2 and 1"),
        int("extent", &[given(Quantity::Input(0)), given(Quantity::Input(1)), given(Quantity::Input(2))]),
        int("outputs", &OUTPUTS),
        int("stride", &[given(Quantity::Move(0)), given(Quantity::Move(1)), given(Quantity::Move(2))]),
        int("before", &[given(Quantity::Before(0)), given(Quantity::Before(1)), given(Quantity::Before(2))]),
        int("dilation", &[given(Quantity::Dilation(0)), given(Quantity::Dilation(1)), given(Quantity::Dilation(2))]),
        int("unused", &[ZERO]),
    ],
};

const PATCH_COMMON: DeviceStruct =
    DeviceStruct { name: "sm80/PatchCommon", fields: &[inner("Patches", "patches", &PATCHES)] };

const TRANSPOSED_PATCHES: DeviceStruct = DeviceStruct {
    name: "sm80/TransposedPatchCommon",
    fields: &[with(
        "Divisor",
        "divisors",
        &DIVISOR,
        &[&[given(Quantity::Output(0))], &[given(Quantity::Output(1))], &[given(Quantity::Output(2))]],
    )
    .about("how many outputs there are along each axis")],
};

const GRADIENT_PATCHES: DeviceStruct = DeviceStruct {
    name: "sm80/GradientPatchCommon",
    fields: &[with(
        "Divisor",
        "divisors",
        &DIVISOR,
        &[
            &[given(Quantity::InputDilation(0))],
            &[given(Quantity::InputDilation(1))],
            &[given(Quantity::InputDilation(2))],
        ],
    )
    .about("the strides")],
};

const PICKED_COMMON: DeviceStruct =
    DeviceStruct { name: "sm80/PickedCommon", fields: &[inner("RowIndex", "picked", &ROW_INDEX).of(Memory::Index)] };

/// All of them; others contain some.
pub(crate) const STRUCTS: &[&DeviceStruct] =
    &[&COMMON, &PATCH_COMMON, &TRANSPOSED_PATCHES, &GRADIENT_PATCHES, &PICKED_COMMON];

const BASE: Part = Part { header: "sm80/gemm.cuh", ty: "sm80::Common<Config>", fields: &COMMON };
const GROUPS: Part = Part { header: "sm80/groups.cuh", ty: "sm80::GroupCommon<Config>", fields: &GROUP_COMMON };
const PATCHES_OF_ROWS: Part =
    Part { header: "sm80/patches.cuh", ty: "sm80::PatchCommon<Config>", fields: &PATCH_COMMON };
const OF_TRANSPOSED: Part = Part {
    header: "sm80/transposed_patches.cuh",
    ty: "sm80::TransposedPatchCommon<Config>",
    fields: &TRANSPOSED_PATCHES,
};
const OF_GRADIENT: Part =
    Part { header: "sm80/gradient_patches.cuh", ty: "sm80::GradientPatchCommon<Config>", fields: &GRADIENT_PATCHES };
const PICKED: Part = Part { header: "sm80/picked.cuh", ty: "sm80::PickedCommon<BASE>", fields: &PICKED_COMMON };
const SCALED: Part = Part { header: "sm80/scaled.cuh", ty: "ScaledCommon<BASE, COUNT>", fields: &SCALED_COMMON };

impl Sm80Key {
    /// The parts of the kernel's parameter in front of the epilogue's arguments.
    pub(crate) fn parts(&self) -> SmallVec<[&'static Part; 4]> {
        let mut parts = SmallVec::new();
        parts.push(&BASE);
        match self.reading {
            ReadingShape::Rows => {}
            ReadingShape::Picked => parts.push(&PICKED),
            ReadingShape::Groups(_) => parts.push(&GROUPS),
            ReadingShape::PickedGroups => parts.extend([&GROUPS, &PICKED]),
            ReadingShape::Patches(PatchShape { kind, .. }) => {
                parts.push(&PATCHES_OF_ROWS);
                match kind {
                    PatchKind::Row => {}
                    PatchKind::Transposed => parts.push(&OF_TRANSPOSED),
                    PatchKind::Dilated => parts.push(&OF_GRADIENT),
                }
            }
        }
        if self.formats.are_scaled() {
            parts.push(&SCALED);
        }
        parts
    }
}
