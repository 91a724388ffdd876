//! Random primitives, sensible or not. Each is refused with a typed error, or the resulting program computes what the
//! default schedule does: in the interpreter, as native code and on an emulated GPU.

mod primitives;
mod works;

use epilogue::ElementType;
use epilogue::te::{Expr, TeError, var};
use fastrand::Rng;

use self::primitives::Draw;
use self::works::{Given, KINDS, Work};
use crate::case::{Numbers, lacks_nvrtc};
use crate::schedule::trial::{Case, Generator, check_all, element_of};
use crate::values::integers;

pub(crate) const GENERATOR: Generator = Generator {
    name: "primitives",
    kinds: || KINDS.iter().map(|kind| kind.0).collect(),
    case,
    schedule: |world, random| {
        let stages = world.stages();
        let count = random.usize(1..12);
        let mut draw = Draw { world, stages, random };
        for _ in 0..count {
            // A refused primitive leaves the schedule as it was.
            let _ = draw.apply();
        }
    },
};

fn case(kind: usize, random: &mut Rng) -> Result<Case, TeError> {
    let mut extent = || match random.u32(..8) {
        0 => 0,
        1 => 1,
        _ => random.usize(2..24),
    };
    let (name, least, make) = KINDS[kind];
    let sizes = [extent().max(least), extent()];
    let [n, m] = ["n", "m"].map(|name| var(name).into());
    let extents = if random.bool() { [n, m] } else { sizes.map(Expr::from) };
    let Work { inputs, stages, outputs } = make(&Given { extents, sizes })?;
    let seed = random.u64(..);
    let numbers =
        |place| Numbers::new(ElementType::I32, &sizes, integers(sizes[0] * sizes[1], seed.wrapping_add(place)));
    let unknown = |(output, shape): (_, Vec<usize>)| {
        let wanted = Numbers::new(element_of(&output), &shape, Vec::new());
        (output, wanted)
    };
    let mut case = Case {
        name,
        inputs: inputs.into_iter().zip([0, 1].map(numbers)).collect(),
        stages,
        outputs: outputs.into_iter().map(unknown).collect(),
        intrinsic: None,
    };
    let wanted = case.by_default()?;
    case.outputs.iter_mut().zip(wanted).for_each(|((_, output), values)| output.values = values);
    Ok(case)
}

#[test]
fn any_primitives() {
    check_all(&GENERATOR, 1000, 0);
}

#[test]
fn any_primitives_on_an_emulated_gpu() {
    if !lacks_nvrtc("any_primitives_on_an_emulated_gpu") {
        check_all(&GENERATOR, 60, 1000);
    }
}
