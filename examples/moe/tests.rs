//! Every case against the loops, on the CPU and, of a tiny block, on an emulated device.

use epilogue::{Arch, Device, ElementType};
use epilogue_runtime::testing;

use super::block::Block;
use super::check;
use super::clock::Clock;
use super::data::{Case, Data, Sizes};
use super::sort::Order;

/// Runs a block and gives the rows of its experts.
fn run(device: &Device, sizes: Sizes, case: Case, element: ElementType) -> super::Result<Vec<usize>> {
    let data = Data::new(sizes, case, 7);
    let (mut block, mut clock) = (Block::new(device, &data, element)?, Clock::new(device));
    let counts = block.forward(&mut clock)?.counts();
    block.backward(&mut clock)?;
    for checked in check::results(&block, &data, element)? {
        assert!(checked.holds(), "{case:?}, {element}, {device}: {} differs by {:e}", checked.name, checked.error);
        // The bound notices zeros.
        assert!(checked.bound < 0.5);
    }
    Ok(counts)
}

#[test]
fn every_case_is_as_the_loops_say() -> super::Result<()> {
    let device = Device::cpu();
    for element in [ElementType::F32, ElementType::BF16] {
        for top in [1, 2, 3] {
            let sizes = Sizes { tokens: 65, columns: 24, hidden: 40, experts: 7, top };
            let counts = run(&device, sizes, Case::Even, element)?;
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
            let counts = run(&device, sizes, Case::Skewed, element)?;
            assert!(counts[0] > 4 * counts[6], "{counts:?}");
            let counts = run(&device, sizes, Case::Empty, element)?;
            assert_eq!([counts[1], counts[3], counts[5]], [0; 3], "{counts:?}");
        }
        // A token that takes every expert, and one expert.
        run(&device, Sizes { tokens: 5, columns: 8, hidden: 8, experts: 3, top: 3 }, Case::Skewed, element)?;
        run(&device, Sizes { tokens: 5, columns: 8, hidden: 8, experts: 1, top: 1 }, Case::Even, element)?;
    }
    Ok(())
}

#[test]
fn a_tiny_block_on_an_emulated_device() -> super::Result<()> {
    if testing::compiler("a_tiny_block_on_an_emulated_device").is_none() {
        return Ok(());
    }
    let sizes = Sizes { tokens: 12, columns: 16, hidden: 8, experts: 4, top: 2 };
    let counts = run(&Device::emulated(Arch::SM_80)?, sizes, Case::Empty, ElementType::BF16)?;
    assert_eq!([counts[1], counts[3]], [0; 2]);
    Ok(())
}

#[test]
fn rows_are_sorted_by_expert_and_those_of_one_by_rank_and_token() {
    let order = Order::of(&[2, 0, 2, 0, 2, 0], 4, 3);
    let expected =
        Order { offsets: vec![0, 3, 3, 6, 6], tokens: vec![1, 0, 2, 0, 2, 1], choices: vec![1, 3, 5, 0, 2, 4] };
    assert_eq!(order, expected);
    assert_eq!(order.counts(), [3, 0, 3, 0]);
}
