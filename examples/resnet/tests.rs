//! A tiny network on the CPU and on the emulated device, and that the comparison finds what is wrong.

use epilogue::{Arch, Device};
use epilogue_runtime::testing;

use crate::loops;
use crate::network::{Mode, Network, Size};

fn ran(device: &Device, mode: Mode) -> Network {
    let mut network = Network::new(device, &Size::tiny(2), mode, 7).expect("a network");
    network.run(|_| Ok(())).expect("a run");
    network
}

/// The probabilities of all classes.
fn results(network: &Network) -> Vec<f32> {
    network.values.last().expect("values").to_vec().expect("the probabilities")
}

#[test]
fn every_convolution_is_what_loops_give() {
    for mode in [Mode::Inference, Mode::Training] {
        let network = ran(&Device::cpu(), mode);
        let compared = loops::compare(&network).expect("the same results");
        assert!(compared.numbers > 1000, "{mode:?}: {} numbers", compared.numbers);
        for image in results(&network).chunks(10) {
            assert!((image.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{mode:?}: {image:?}");
        }
    }
}

#[test]
fn the_comparison_finds_another_result() {
    for mode in [Mode::Inference, Mode::Training] {
        let mut network = ran(&Device::cpu(), mode);
        // The values of step 3, in the place of the right ones.
        let mut values: Vec<f32> = network.values[4].to_vec().expect("values");
        values.iter_mut().for_each(|x| *x *= 1.001);
        let shape = network.values[4].shape().to_vec();
        network.values[4] = Device::cpu().tensor(&values, shape).expect("a tensor");
        assert!(loops::compare(&network).is_err(), "{mode:?}");
    }
}

#[test]
fn the_emulated_device_agrees() {
    if testing::compiler("the_emulated_device_agrees").is_none() {
        return;
    }
    for mode in [Mode::Inference, Mode::Training] {
        let emulated = ran(&Device::emulated(Arch::SM_80).expect("an emulated device"), mode);
        loops::compare(&emulated).expect("the same results");
        for (given, expected) in results(&emulated).iter().zip(results(&ran(&Device::cpu(), mode))) {
            assert!((given - expected).abs() < 1e-4, "{mode:?}: {given} and {expected}");
        }
    }
}
