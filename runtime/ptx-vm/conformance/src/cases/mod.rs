//! The cases, by group of instructions.

mod approx;
mod asynchronous;
mod call;
mod collective;
mod compare;
mod convert;
mod float;
mod half;
mod hopper;
mod images;
mod integer;
mod logic;
mod matrix;
mod memory;
mod operand;
mod scaled;
mod synchronise;
mod tensor_memory;
mod tensor_products;
mod tensors;
mod video;
mod warpgroup;

use crate::case::Case;

/// Every case.
pub fn all() -> Vec<Case> {
    let groups = [
        integer::cases,
        logic::cases,
        video::cases,
        float::cases,
        half::cases,
        convert::cases,
        approx::cases,
        compare::cases,
        memory::cases,
        call::cases,
        collective::cases,
        matrix::cases,
        scaled::cases,
        synchronise::cases,
        hopper::cases,
        tensors::cases,
        images::cases,
        warpgroup::cases,
        tensor_memory::cases,
        tensor_products::cases,
        asynchronous::cases,
    ];
    groups.into_iter().flat_map(|group| group()).collect()
}
