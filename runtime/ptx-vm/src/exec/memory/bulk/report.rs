//! Reports bulk copies to the detector.

use std::ops::Range;

use crate::exec::context::Context;
use crate::exec::state::bulk::Pending;
use crate::program::forms::{BulkForm, Direction};
use crate::race::{Bulk, BulkWrite, Footprint, Space, shared_address};

/// Merges adjacent ranges.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|r| r.start);
    let mut result: Vec<Range<u64>> = vec![];
    for range in ranges {
        match result.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => result.push(range),
        }
    }
    result
}

/// Tells the detector what a copy reads and writes, when it is issued.
pub(in crate::exec) fn observe(
    context: &mut Context<'_>,
    form: &BulkForm,
    lane: usize,
    (block, offset, size): (usize, u32, u32),
    global: &[Range<u64>],
    map: Option<u64>,
    pending: &Pending,
) {
    if !context.is_observed() {
        return;
    }
    let at = context.at(1 << lane);
    let own = shared_address(block as u32, offset);
    let in_shared = |to: usize| {
        merged(
            pending
                .writes
                .iter()
                .filter(|w| w.0 == to)
                .map(|w| {
                    let start = shared_address(to as u32, w.1);
                    start..start + w.2.len() as u64
                })
                .collect(),
        )
    };
    if form.direction == Direction::Store {
        let range = own..own + u64::from(size);
        let writes = merged(pending.stores.iter().map(|s| s.2..s.2 + u64::from(s.3)).collect());
        let write = [BulkWrite { bytes: Footprint { space: Space::Global, ranges: &writes }, mbarrier: None }];
        let copy = Bulk {
            reads: Footprint { space: Space::Shared, ranges: std::slice::from_ref(&range) },
            writes: &write,
            reduces: pending.reduces.is_some(),
            generic: false,
            map,
        };
        context.tell(|o| o.bulk(at, &copy));
        return;
    }
    let reads = merged(global.to_vec());
    let destinations: Vec<(Vec<Range<u64>>, u64)> = pending
        .mbarriers
        .iter()
        .enumerate()
        .map(|(n, barrier)| {
            let to = if form.multicast { barrier.0 } else { pending.writes.first().map_or(n, |w| w.0) };
            (in_shared(to), shared_address(barrier.0 as u32, barrier.1))
        })
        .collect();
    let writes: Vec<BulkWrite<'_>> = destinations
        .iter()
        .map(|(ranges, mbarrier)| BulkWrite {
            bytes: Footprint { space: Space::Shared, ranges },
            mbarrier: Some(*mbarrier),
        })
        .collect();
    let space = if form.direction == Direction::Load { Space::Global } else { Space::Shared };
    // Only bulk copies use the asynchronous proxy (PTX ISA §9.7.9.25.2).
    let generic = matches!(form.direction, Direction::Put { .. });
    let copy = Bulk {
        reads: Footprint { space, ranges: &reads },
        writes: &writes,
        reduces: pending.reduces.is_some(),
        generic,
        map,
    };
    context.tell(|o| o.bulk(at, &copy));
}
