//! `mbarrier` (PTX ISA §9.7.13.15). Its 64 bits in shared memory hold its phase, its pending and expected arrivals, and
//! its pending transactions.

use crate::program::flags::{AccessFlags, MbarrierFlags};
use std::fmt;

use crate::exec::context::{Context, Flow, lanes_of};
use crate::exec::lanes::Operation;
use crate::exec::memory::access::Addresses;
use crate::exec::state::poll::{Poll, PollTarget, digest};
use crate::exec::state::warp::Status;
use crate::memory::window;
use crate::program::Instruction;
use crate::race::{MbarrierArrival, MbarrierOrder, MbarrierWait, Scope, shared_address};

const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// The largest number of pending transactions in both directions (PTX ISA §9.7.13.15.1).
const TRANSACTION_LIMIT: i64 = (1 << 20) - 1;

/// The content of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) struct Mbarrier {
    phase: u64,
    pending: u32,
    expected: u32,
    transactions: i64,
}

/// `mbarrier.pending_count`: the arrivals that were pending before the arrival that gave this state.
pub(crate) fn pending_count(state: u64) -> u64 {
    Mbarrier::from_bits(state).pending.into()
}

impl Mbarrier {
    pub(in crate::exec) fn from_bits(bits: u64) -> Self {
        Self {
            phase: bits & 1,
            pending: (bits >> 1 & COUNT_MASK) as u32,
            expected: (bits >> (1 + COUNT_BITS) & COUNT_MASK) as u32,
            transactions: bits.cast_signed() >> (1 + 2 * COUNT_BITS),
        }
    }

    fn bits(self) -> u64 {
        self.phase
            | u64::from(self.pending) << 1
            | u64::from(self.expected) << (1 + COUNT_BITS)
            | (self.transactions << (1 + 2 * COUNT_BITS)).cast_unsigned()
    }

    /// Starts the next phase if this one is complete.
    fn advance(&mut self) -> bool {
        let complete = self.pending == 0 && self.transactions == 0;
        if complete {
            self.phase ^= 1;
            self.pending = self.expected;
        }
        complete
    }
}

/// The arrivals and bytes that the current phase lacks.
impl fmt::Display for Mbarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} arrivals", self.pending, self.expected)?;
        match self.transactions {
            0 => Ok(()),
            bytes if bytes > 0 => write!(f, " and {bytes} bytes of expected transactions"),
            bytes => write!(f, " and an announcement of {} bytes that have completed already", -bytes),
        }
    }
}

/// A change of an mbarrier.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::exec) struct Change {
    pub(in crate::exec) arrivals: u32,
    pub(in crate::exec) expect: i64,
    pub(in crate::exec) complete: i64,
    pub(in crate::exec) drops: bool,
}

impl Context<'_> {
    /// The addresses of an instruction's mbarrier operand.
    pub(in crate::exec) fn mbarrier_addresses(&self, i: &Instruction) -> Addresses {
        let addresses = self.addresses(i, i.a, i.has(AccessFlags::WIDE_ADDRESS), i.imm);
        if i.has(AccessFlags::GENERIC_SHARED) { addresses.map(|a| a.wrapping_sub(window::SHARED)) } else { addresses }
    }

    /// The mbarrier at a lane's address, with its place.
    fn mbarrier_at(&mut self, lane: usize, address: u64) -> Result<(usize, u32, Mbarrier), Flow> {
        let (block, offset) = self.shared_place(lane, address, 8, 8)?;
        Ok((block, offset, self.mbarrier(lane, block, offset)?))
    }

    fn mbarrier(&mut self, lane: usize, block: usize, offset: u32) -> Result<Mbarrier, Flow> {
        let shared = &mut self.cluster.blocks[block].shared;
        if !shared.is_written(offset, 8) {
            return Err(self.invalid(Some(lane), "the mbarrier was never initialised"));
        }
        Ok(Mbarrier::from_bits(self.cluster.read_u64(block, offset)))
    }

    /// Applies a change to the mbarrier at a place. Gives its old bits.
    pub(in crate::exec) fn change_mbarrier(
        &mut self,
        lane: usize,
        block: usize,
        offset: u32,
        change: Change,
    ) -> Result<u64, Flow> {
        let before = self.mbarrier(lane, block, offset)?;
        let observer_address = shared_address(block as u32, offset);
        let after = match changed(before, change) {
            Ok(after) => after,
            Err(message) => return Err(self.invalid(Some(lane), message)),
        };
        let mut after = after;
        let complete = after.advance();
        self.cluster.write_u64(block, offset, after.bits());
        self.worker.writes += 1;
        if complete {
            self.tell(|o| o.mbarrier_phase(observer_address));
        }
        Ok(before.bits())
    }
}

/// The content after a change, before a phase completes.
pub(in crate::exec) fn changed(mut barrier: Mbarrier, change: Change) -> Result<Mbarrier, String> {
    barrier.transactions += change.expect;
    if change.arrivals > barrier.pending {
        return Err(format!(
            "too many arrivals at the mbarrier: {} where {} are pending of {} expected",
            change.arrivals, barrier.pending, barrier.expected
        ));
    }
    barrier.pending -= change.arrivals;
    if change.drops {
        barrier.expected -= change.arrivals.min(barrier.expected);
    }
    barrier.transactions -= change.complete;
    if barrier.transactions.abs() > TRANSACTION_LIMIT {
        return Err(format!("{} transactions are pending on the mbarrier, more than it counts", barrier.transactions));
    }
    Ok(barrier)
}

impl crate::exec::state::block::Cluster {
    pub(in crate::exec) fn read_u64(&self, block: usize, offset: u32) -> u64 {
        let mut raw = [0; 8];
        let at = offset as usize;
        raw.copy_from_slice(&self.blocks[block].shared.bytes()[at..at + 8]);
        u64::from_le_bytes(raw)
    }

    pub(in crate::exec) fn write_u64(&mut self, block: usize, offset: u32, value: u64) {
        let at = offset as usize;
        self.blocks[block].shared.bytes_mut()[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// The parity of an mbarrier's phase.
    pub(in crate::exec) fn mbarrier_phase(&self, block: usize, offset: u32) -> u64 {
        Mbarrier::from_bits(self.read_u64(block, offset)).phase
    }

    /// One arrival. True if this completes the phase.
    pub(in crate::exec) fn arrive_at_mbarrier(&mut self, block: usize, offset: u32) -> Result<bool, String> {
        let before = Mbarrier::from_bits(self.read_u64(block, offset));
        let mut after = changed(before, Change { arrivals: 1, ..Change::default() })?;
        let complete = after.advance();
        self.write_u64(block, offset, after.bits());
        Ok(complete)
    }

    /// Completes transactions. True if this completes the phase.
    pub(in crate::exec) fn complete_transactions(
        &mut self,
        block: usize,
        offset: u32,
        bytes: u32,
    ) -> Result<bool, String> {
        let before = Mbarrier::from_bits(self.read_u64(block, offset));
        let mut after = changed(before, Change { complete: bytes.into(), ..Change::default() })?;
        let complete = after.advance();
        self.write_u64(block, offset, after.bits());
        Ok(complete)
    }
}

/// `mbarrier.init [a + imm], b`.
pub(crate) struct Init;

impl Operation for Init {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.mbarrier_addresses(i);
        let counts = *context.lanes::<u32>(i.b);
        for lane in lanes_of(mask) {
            let count = counts[lane];
            if count == 0 || u64::from(count) > COUNT_MASK {
                return context
                    .invalid(Some(lane), format!("an mbarrier's count must be 1 to {COUNT_MASK}, not {count}"));
            }
            let (block, offset) = match context.shared_place(lane, addresses[lane], 8, 8) {
                Ok(place) => place,
                Err(flow) => return flow,
            };
            let barrier = Mbarrier { phase: 0, pending: count, expected: count, transactions: 0 };
            context.cluster.write_u64(block, offset, barrier.bits());
            context.cluster.blocks[block].shared.mark_written(offset, 8);
            context.worker.writes += 1;
        }
        if context.is_observed() {
            let at = context.at(mask);
            let shared = addresses.map(|a| context.shared_address(a));
            context.tell(|o| o.mbarrier_init(at, &shared, &counts));
        }
        Flow::Next
    }
}

/// `mbarrier.inval [a + imm]`.
pub(crate) struct Invalidate;

impl Operation for Invalidate {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.mbarrier_addresses(i);
        for lane in lanes_of(mask) {
            if let Err(flow) = context.shared_place(lane, addresses[lane], 8, 8) {
                return flow;
            }
        }
        if context.is_observed() {
            let at = context.at(mask);
            let shared = addresses.map(|a| context.shared_address(a));
            context.tell(|o| o.mbarrier_inval(at, &shared));
        }
        Flow::Next
    }
}

/// `mbarrier.arrive…`, `mbarrier.arrive_drop…`: `d` receives the state.
pub(crate) struct Arrive;

impl Operation for Arrive {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        match arrive(context, i, mask) {
            Ok(()) => Flow::Next,
            Err(flow) => flow,
        }
    }
}

fn arrive(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Result<(), Flow> {
    context.share_views();
    let addresses = context.mbarrier_addresses(i);
    for lane in lanes_of(mask) {
        let (block, offset) = context.shared_place(lane, addresses[lane], 8, 8)?;
        let arrivals = if i.has(MbarrierFlags::COUNTED) { context.get(i.b, lane) } else { 1u32 };
        let expect = if i.has(MbarrierFlags::EXPECTS) { context.get(i.c, lane) } else { 0u32 };
        if context.is_observed() {
            let arrival = MbarrierArrival {
                addresses: &[shared_address(block as u32, offset); 32],
                count: &[arrivals; 32],
                expect: &[expect; 32],
                // At block scope nothing is released to the threads of another block, which wait there.
                order: if i.has(MbarrierFlags::BLOCK_SCOPE) && block != context.block {
                    MbarrierOrder::Relaxed
                } else {
                    order(i.flags)
                },
                drop: i.has(MbarrierFlags::DROPS),
            };
            let at = context.at(1 << lane);
            context.tell(|o| o.mbarrier_arrive(at, &arrival));
        }
        let drops = i.has(MbarrierFlags::DROPS);
        let change = Change { arrivals, expect: expect.into(), complete: 0, drops };
        let state = context.change_mbarrier(lane, block, offset, change)?;
        context.lanes_mut::<u64>(i.d)[lane] = state;
    }
    Ok(())
}

fn order(flags: u32) -> MbarrierOrder {
    if flags & MbarrierFlags::RELAXED.bits() != 0 { MbarrierOrder::Relaxed } else { MbarrierOrder::Synchronises }
}

/// `mbarrier.expect_tx [a + imm], c`, or with [`MbarrierFlags::DROPS`] `mbarrier.complete_tx`.
pub(crate) struct Transactions;

impl Operation for Transactions {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.mbarrier_addresses(i);
        for lane in lanes_of(mask) {
            let (block, offset) = match context.shared_place(lane, addresses[lane], 8, 8) {
                Ok(place) => place,
                Err(flow) => return flow,
            };
            let bytes: u32 = context.get(i.c, lane);
            let address = shared_address(block as u32, offset);
            let completes = i.has(MbarrierFlags::DROPS);
            if context.is_observed() {
                let (at, pc) = (context.at(1 << lane), context.pc);
                context.tell(|o| {
                    if completes {
                        o.mbarrier_transaction(address, bytes, pc);
                    } else {
                        o.mbarrier_expect(at, &[address; 32], &[bytes; 32]);
                    }
                });
            }
            let bytes = i64::from(bytes);
            let change = if completes {
                Change { complete: bytes, ..Change::default() }
            } else {
                Change { expect: bytes, ..Change::default() }
            };
            if let Err(flow) = context.change_mbarrier(lane, block, offset, change) {
                return flow;
            }
        }
        Flow::Next
    }
}

/// `mbarrier.test_wait`, `mbarrier.try_wait`: the result is predicate `p`. Row `b` holds the state, or the parity with
/// [`MbarrierFlags::PARITY`].
pub(crate) struct TestWait;

impl Operation for TestWait {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.mbarrier_addresses(i);
        let mut complete = 0;
        let mut waiting: Vec<(PollTarget, u32)> = vec![];
        let mut waited = [0; 32];
        // Lanes mostly wait for one mbarrier.
        let mut found: Option<(u64, (usize, u32, Mbarrier))> = None;
        for lane in lanes_of(mask) {
            let (block, offset, barrier) = match found {
                Some((address, mbarrier)) if address == addresses[lane] => mbarrier,
                _ => match context.mbarrier_at(lane, addresses[lane]) {
                    Ok(mbarrier) => mbarrier,
                    Err(flow) => return flow,
                },
            };
            found = Some((addresses[lane], (block, offset, barrier)));
            let parity = if i.has(MbarrierFlags::PARITY) {
                u64::from(context.get::<u32>(i.b, lane) & 1)
            } else {
                context.get::<u64>(i.b, lane) & 1
            };
            waited[lane] = parity;
            complete |= u32::from(barrier.phase != parity) << lane;
            if barrier.phase == parity {
                let mine = PollTarget::Mbarrier { block, offset, parity };
                match waiting.iter_mut().find(|(target, _)| *target == mine) {
                    Some((_, lanes)) => *lanes |= 1 << lane,
                    None => waiting.push((mine, 1 << lane)),
                }
            }
        }
        context.put_predicate(i.p, complete, mask);
        if complete != 0 {
            context.learn_views();
        }
        if context.is_observed() && complete != 0 {
            let at = context.at(complete);
            let shared = addresses.map(|a| context.shared_address(a));
            let parity = i.has(MbarrierFlags::PARITY);
            let scope = if i.has(MbarrierFlags::BLOCK_SCOPE) { Scope::Block } else { Scope::Cluster };
            let wait = MbarrierWait { addresses: &shared, order: order(i.flags), scope, parity };
            context.tell(|o| o.mbarrier_waited(at, &wait));
        }
        let suspends = i.has(MbarrierFlags::SUSPENDS);
        let results = lanes_of(mask).fold(complete.into(), |sum, lane| digest(sum, addresses[lane]));
        let results = lanes_of(mask).fold(results, |sum, lane| digest(sum, waited[lane]));
        let repeats = context.warp.polls.repeats(context.pc, mask, results);
        if waiting.is_empty() || !suspends && !repeats {
            return Flow::Next;
        }
        let pc = context.pc;
        context.warp.polls.fail(pc, mask, waiting.iter().map(|&(target, lanes)| Poll { pc, lanes, target }));
        if suspends {
            context.warp.suspended |= mask & !complete;
        }
        context.warp.status = Status::Polling;
        Flow::Pause
    }
}

/// `cp.async.mbarrier.arrive`: arrives when the lane's earlier copies have completed. With [`MbarrierFlags::COUNTED`]
/// it is `.noinc`.
pub(crate) struct CopyArrive;

impl Operation for CopyArrive {
    fn run(context: &mut Context<'_>, i: &Instruction, mask: u32) -> Flow {
        let addresses = context.mbarrier_addresses(i);
        if context.is_observed() {
            let at = context.at(mask);
            let shared = addresses.map(|a| context.shared_address(a));
            context.tell(|o| o.copy_arrive(at, &shared));
        }
        context.share_views();
        crate::exec::memory::copies::complete_all(context);
        let arrivals = u32::from(i.has(MbarrierFlags::COUNTED));
        for lane in lanes_of(mask) {
            let (block, offset) = match context.shared_place(lane, addresses[lane], 8, 8) {
                Ok(place) => place,
                Err(flow) => return flow,
            };
            let (address, pc) = (shared_address(block as u32, offset), context.pc);
            context.tell(|o| o.mbarrier_count(address, arrivals, pc));
            let change = Change { arrivals, ..Change::default() };
            if let Err(flow) = context.change_mbarrier(lane, block, offset, change) {
                return flow;
            }
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_survive_their_64_bits() {
        for transactions in [0, 1, -1, TRANSACTION_LIMIT, -TRANSACTION_LIMIT] {
            let barrier = Mbarrier { phase: 1, pending: 5, expected: COUNT_MASK as u32, transactions };
            assert_eq!(Mbarrier::from_bits(barrier.bits()), barrier);
        }
    }

    #[test]
    fn a_phase_completes_when_arrivals_and_transactions_have_come() {
        let start = Mbarrier { phase: 0, pending: 1, expected: 1, transactions: 0 };
        let mut b = changed(start, Change { arrivals: 1, expect: 64, ..Change::default() }).expect("fits");
        assert!(!b.advance());
        let mut b = changed(b, Change { complete: 64, ..Change::default() }).expect("fits");
        assert!(b.advance());
        assert_eq!((b.phase, b.pending), (1, 1));
        assert!(changed(b, Change { arrivals: 2, ..Change::default() }).is_err());
    }
}
