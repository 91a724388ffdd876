//! The effect of products, copies and commits.

use std::convert::Infallible;

use crate::exec::state::block::{BlockState, Cluster};
use crate::exec::state::tensor_memory::{Issued, Source, Work};
use crate::numerics::descriptor::Tile;
use crate::numerics::mma::Arithmetic;
use crate::numerics::tcgen05::Product;
use crate::numerics::tensor_memory::{COLUMNS, TensorAddress};
use crate::numerics::wgmma::Elements;
use crate::race::shared_address;

/// A commit that arrives once too often.
pub(in crate::exec) struct Failed {
    pub(in crate::exec) warp: u32,
    pub(in crate::exec) pc: u32,
    pub(in crate::exec) message: String,
}

/// Completes the oldest operation in a block's pipe. Tells whether it was a commit.
///
/// # Errors
/// If an arrival is one too many.
pub(in crate::exec) fn complete_oldest(
    cluster: &mut Cluster,
    block: usize,
    arithmetic: Arithmetic,
) -> Result<bool, Failed> {
    let Some(issued) = cluster.blocks[block].tensor.pipe.pop_front() else { return Ok(true) };
    if matches!(issued.work, Work::Commit { .. }) {
        return arrive(cluster, block, &issued).map(|()| true).map_err(|message| Failed {
            warp: issued.warp,
            pc: issued.pc,
            message,
        });
    }
    perform(cluster, block, arithmetic, &issued.work);
    Ok(false)
}

/// A commit arrives at its mbarriers.
pub(super) fn arrive(cluster: &mut Cluster, rank: usize, issued: &Issued) -> Result<(), String> {
    let Work::Commit { mbarriers, ticket } = &issued.work else { return Ok(()) };
    for &(block, offset) in mbarriers {
        let address = shared_address(block as u32, offset);
        if let Some(observer) = &mut cluster.observer {
            observer.tensor_commit_arrived(rank as u32, address, *ticket, issued.pc);
        }
        if cluster.arrive_at_mbarrier(block, offset)?
            && let Some(observer) = &mut cluster.observer
        {
            observer.mbarrier_phase(address);
        }
    }
    Ok(())
}

/// Performs a product or copy on the current contents of memory.
pub(super) fn perform(cluster: &mut Cluster, block: usize, arithmetic: Arithmetic, work: &Work) {
    let block = &mut cluster.blocks[block];
    match work {
        Work::Multiply { product, d, a, b, accumulate } => {
            multiply(block, arithmetic, product, (*d, *a, b), *accumulate);
        }
        Work::Copy { tile, bytes, column, parts } => copy(block, tile, *bytes, *column, parts),
        Work::Commit { .. } => {}
    }
}

fn elements(block: &BlockState, tile: &Tile) -> Elements {
    let bytes = block.shared.bytes();
    let read = |address: u32| -> Result<[u8; 16], Infallible> {
        Ok(std::array::from_fn(|i| bytes.get(address as usize + i).copied().unwrap_or_default()))
    };
    let Ok(elements) = Elements::from_shared(tile, read);
    elements
}

fn multiply(
    block: &mut BlockState,
    arithmetic: Arithmetic,
    product: &Product,
    (d, a, b): (TensorAddress, Source, &Tile),
    accumulate: bool,
) {
    let rows = || (0..product.m()).map(|row| product.lane(row) as u32);
    let mut undefined = vec![];
    let left = match a {
        Source::Shared(tile) => elements(block, &tile),
        Source::Tensor(a) => {
            let tensor = &block.tensor;
            let lanes = || rows().map(|lane| a.lane + lane);
            let has_gap = |&lane: &u32| (a.column..a.column + 8).any(|column| !tensor.is_defined(lane, column));
            undefined.extend(lanes().filter(has_gap));
            let words: Vec<u32> = lanes().flat_map(|lane| tensor.row(lane, a.column, 8).iter().copied()).collect();
            Elements::from_words(product.a(), &words)
        }
    };
    let right = elements(block, b);
    let start = |row: usize| ((d.lane + product.lane(row) as u32) * COLUMNS + d.column) as usize;
    let tensor = &mut block.tensor;
    product.multiply(arithmetic, (left, right), accumulate, tensor.cells_mut(), start);
    for lane in rows().map(|lane| d.lane + lane) {
        let is_undefined = undefined.contains(&lane);
        if is_undefined || !accumulate {
            (d.column..d.column + product.n() as u32).for_each(|column| tensor.mark(lane, column, !is_undefined));
        }
    }
}

fn copy(block: &mut BlockState, tile: &Tile, bytes: u32, column: u32, parts: &[(u32, u32, u32)]) {
    for chunk in tile.chunks().filter(|chunk| (chunk.k as u32) < bytes) {
        let at = chunk.address as usize;
        let mut words = [0u32; 4];
        for (word, bytes) in words.iter_mut().zip(block.shared.bytes()[at..at + 16].chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let row = chunk.index as u32;
        for &(first_row, first_lane, count) in parts {
            let within = row.wrapping_sub(first_row);
            if within < count {
                for (n, &word) in words.iter().enumerate() {
                    block.tensor.store(first_lane + within, column + chunk.k as u32 / 4 + n as u32, word, true);
                }
            }
        }
    }
}
