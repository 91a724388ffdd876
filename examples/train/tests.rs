//! A whole training against numpy's losses, and one step on the emulated device against the CPU.

use epilogue::{Arch, Device};
use epilogue_runtime::testing;

use super::model::Model;
use super::reference::{Reference, TOLERANCE, largest_difference};
use super::{STEPS, from_the_cpu, plot, train};

#[test]
fn losses_are_numpy_s() {
    let reference = Reference::committed().expect("the committed losses");
    let expected = reference.losses_of(2024).expect("the losses of this seed");
    let (_, losses) = train(&Device::cpu(), 2024, STEPS).expect("a training");
    assert_eq!(losses.len(), expected.len());
    let worst = largest_difference(&losses, expected);
    assert!(worst <= TOLERANCE, "the losses differ by {worst:e}");
    // The bound notices other data, masks and first weights.
    let (_, others) = train(&Device::cpu(), 2025, 2).expect("a training");
    assert!(largest_difference(&others, expected) > TOLERANCE);

    let drawing = plot::svg(&losses, Some(expected));
    let points = drawing.split("points=\"").skip(1).map(|line| line.split('"').next().unwrap_or_default());
    assert_eq!(points.map(|points| points.split(' ').count()).collect::<Vec<_>>(), [300, 300]);
}

#[test]
fn a_step_on_the_emulated_device() {
    if testing::compiler("a_step_on_the_emulated_device").is_none() {
        return;
    }
    let device = Device::emulated(Arch::SM_80).expect("an emulated device");
    let (model, _) = train(&device, 2024, 1).expect("a step");
    let worst = from_the_cpu(&model, 2024, 1).expect("what the CPU learns");
    assert!(worst <= 1e-6, "what was learned differs by {worst:e}");
    // The step did something.
    let before = Model::new(&Device::cpu(), 2024).and_then(|model| model.parameters()).expect("first weights");
    let after = model.parameters().expect("what was learned");
    assert!(before.iter().zip(&after).filter(|(x, y)| x != y).count() > before.len() / 2);
}
