//! Reports of the executor to the race detector, and its statistics.

use crate::error::MemorySpace;
use crate::exec::context::{Context, lanes_of};
use crate::exec::lane::Lane;
use crate::exec::memory::access::Addresses;
use crate::memory::global::Word;
use crate::memory::window;
use crate::program::Row;
use crate::program::flags::{AccessFlags, AtomicFlags, BarrierFlags, SCOPE_SHIFT};
use crate::race::{self, Access, At, BarrierArrival, Kind, Observer, Order, Scope, Space};

/// An access before it is performed, or a strong access afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum AccessKind {
    Read,
    Write,
    Atomic,
    /// A strong read was performed. Lanes in `stale` saw only what was written without a release.
    HasRead {
        stale: u32,
    },
    /// An atomic was performed.
    WasAtomic,
}

/// The bytes of a lane's access, and of one element. One number stands for an access of one element.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Size {
    bytes: u32,
    element: u32,
}

impl Size {
    /// That of `count` elements of a type.
    pub(in crate::exec) const fn of<T>(count: usize) -> Self {
        Self { bytes: (size_of::<T>() * count) as u32, element: size_of::<T>() as u32 }
    }
}

impl From<u32> for Size {
    fn from(bytes: u32) -> Self {
        Self { bytes, element: bytes }
    }
}

/// The scope in an instruction's flags.
pub(in crate::exec) fn scope(flags: u32) -> Scope {
    match flags >> SCOPE_SHIFT & 3 {
        _ if flags & (AccessFlags::GUESS.bits() | AccessFlags::STRONG.bits()) == AccessFlags::GUESS.bits() => {
            Scope::System
        }
        0 => Scope::Block,
        1 => Scope::Cluster,
        2 => Scope::Gpu,
        _ => Scope::System,
    }
}

fn order(flags: u32) -> Order {
    if flags & (AccessFlags::GUESS.bits() | AccessFlags::STRONG.bits()) == AccessFlags::GUESS.bits() {
        return Order::Guess;
    }
    match (
        flags & AccessFlags::STRONG.bits() != 0,
        flags & AccessFlags::ACQUIRE.bits() != 0,
        flags & AccessFlags::RELEASE.bits() != 0,
    ) {
        (false, ..) => Order::Weak,
        (true, false, false) => Order::Relaxed,
        (true, true, false) => Order::Acquire,
        (true, false, true) => Order::Release,
        (true, true, true) => Order::AcquireRelease,
    }
}

impl Context<'_> {
    /// Whether a detector watches.
    #[inline(always)]
    pub(in crate::exec) fn is_observed(&self) -> bool {
        self.observed
    }

    /// The executing lanes and their place.
    pub(in crate::exec) fn at(&self, lanes: u32) -> At {
        At { rank: self.block as u32, warp: self.warp.index, lanes, pc: self.pc }
    }

    /// Reports an event to the detector, if one watches.
    #[inline(always)]
    pub(in crate::exec) fn tell(&mut self, event: impl FnOnce(&mut dyn Observer)) {
        if let Some(observer) = &mut self.cluster.observer {
            event(observer.as_mut());
        }
    }

    /// The address that the detector uses for a byte of shared memory.
    pub(in crate::exec) fn shared_address(&self, address: u64) -> u64 {
        let rank = (address as u32) >> window::CLUSTER_SHIFT;
        let offset = address as u32 & ((1 << window::CLUSTER_SHIFT) - 1);
        race::shared_address(rank.checked_sub(1).unwrap_or(self.block as u32), offset)
    }

    /// The space and addresses as the detector has them; `shared` is room for addresses of shared memory.
    fn described<'d>(
        &self,
        space: MemorySpace,
        addresses: &'d Addresses,
        mask: u32,
        shared: &'d mut Addresses,
    ) -> (Space, &'d Addresses) {
        if space == MemorySpace::Global {
            return (Space::Global, addresses);
        }
        let own = race::shared_address(self.block as u32, 0);
        let is_own = addresses.iter().fold(0, |all, &address| all | address as u32) >> window::CLUSTER_SHIFT == 0;
        for (lane, shared) in shared.iter_mut().enumerate() {
            // A loop for the usual case that the compiler can make a few instructions.
            *shared = own | u64::from(addresses[lane] as u32);
        }
        if !is_own {
            lanes_of(mask).for_each(|lane| shared[lane] = self.shared_address(addresses[lane]));
        }
        (Space::Shared, shared)
    }

    /// Remembers the last access of each lane.
    fn note_access(&mut self, mask: u32) {
        let pc = self.pc;
        for (lane, last) in self.warp.last_access.iter_mut().enumerate() {
            *last = if mask >> lane & 1 != 0 { pc } else { *last };
        }
    }

    /// Reports an access.
    #[inline(never)]
    pub(in crate::exec) fn observe_access(
        &mut self,
        flags: u32,
        space: MemorySpace,
        addresses: &Addresses,
        mask: u32,
        size: impl Into<Size>,
        kind: AccessKind,
    ) {
        let at = self.at(mask);
        let mut shared = [0; 32];
        let (space, addresses) = self.described(space, addresses, mask, &mut shared);
        let access = access(flags, space, addresses, size.into(), kind);
        if matches!(kind, AccessKind::HasRead { .. } | AccessKind::WasAtomic) {
            self.tell(|o| o.observed(at, &access));
        } else {
            self.note_access(mask);
            self.tell(|o| o.access(at, &access));
        }
    }

    /// Reports a plain store of rows. `present` reads the old memory value of an element of a lane.
    #[inline(never)]
    pub(in crate::exec) fn observe_store<T: Lane + Word>(
        &mut self,
        flags: u32,
        space: MemorySpace,
        addresses: &Addresses,
        mask: u32,
        rows: &[Row],
        present: Option<&dyn Fn(usize, usize) -> T>,
    ) {
        let size = Size::of::<T>(rows.len());
        let at = self.at(mask);
        self.note_access(mask);
        // The functions below read registers meanwhile.
        let Some(mut observer) = self.cluster.observer.take() else { return };
        let mut shared = [0; 32];
        let (space, addresses) = self.described(space, addresses, mask, &mut shared);
        let same = |a: u32, b: u32| {
            let same = |column: &[T::Cell; 32]| column[a as usize] == column[b as usize];
            rows.iter().all(|&row| same(self.lanes::<T>(row)))
        };
        let kept = |lane: u32, present: &dyn Fn(usize, usize) -> T| {
            let lane = lane as usize;
            let mut elements = rows.iter().enumerate();
            elements.all(|(n, &row)| self.get::<T>(row, lane).into_bits() == present(lane, n).into_bits())
        };
        let unchanged = |lane: u32| present.is_some_and(|present| kept(lane, present));
        let mut access = access(flags, space, addresses, size, AccessKind::Write);
        access.same_value = Some(&same);
        access.unchanged = Some(&unchanged);
        observer.access(at, &access);
        self.cluster.observer = Some(observer);
    }

    /// `ldmatrix` and `stmatrix`: the lanes in `rows` give the addresses of 16-byte rows.
    #[inline(never)]
    pub(in crate::exec) fn observe_rows(&mut self, addresses: &Addresses, mask: u32, rows: u32, kind: AccessKind) {
        let at = self.at(mask);
        self.note_access(mask);
        let mut shared = [0; 32];
        let (space, addresses) = self.described(MemorySpace::Shared, addresses, rows, &mut shared);
        let mut access = access(0, space, addresses, 16.into(), kind);
        access.rows = Some(rows);
        self.tell(|o| o.access(at, &access));
    }

    pub(in crate::exec) fn observe_barrier_arrival(&mut self, at: At, id: u32, count: u32, flags: u32) {
        if self.observed {
            let living = self.cluster.blocks[self.block].living_warps * 32;
            let arrival = BarrierArrival {
                id,
                threads: if count == 0 { living } else { count },
                waits: flags & BarrierFlags::ARRIVE.bits() == 0,
                aligned: flags & BarrierFlags::UNALIGNED.bits() == 0,
            };
            self.tell(|o| o.barrier_arrive(at, arrival));
        }
    }

    /// Counts bytes that active lanes read.
    #[inline(always)]
    pub(in crate::exec) fn count_read(&mut self, space: MemorySpace, mask: u32, bytes: u32) {
        if self.counting {
            self.worker.count_read(space, mask.count_ones() * bytes);
        }
    }

    /// Counts bytes that active lanes write.
    #[inline(always)]
    pub(in crate::exec) fn count_write(&mut self, space: MemorySpace, mask: u32, bytes: u32) {
        if self.counting {
            self.worker.count_write(space, mask.count_ones() * bytes);
        }
    }

    /// Counts a shared-memory access and its bank conflicts.
    #[inline(always)]
    pub(in crate::exec) fn count_shared(&mut self, read: bool, offsets: &[u32; 32], mask: u32, bytes: u32) {
        if self.counting {
            let total = mask.count_ones() * bytes;
            if read {
                self.worker.count_read(MemorySpace::Shared, total);
            } else {
                self.worker.count_write(MemorySpace::Shared, total);
            }
            self.worker.statistics.bank_conflicts += bank_conflicts(offsets, mask, bytes);
        }
    }
}

fn access(flags: u32, space: Space, addresses: &Addresses, size: Size, kind: AccessKind) -> Access<'_> {
    let (kind, stale) = match kind {
        AccessKind::Read => (Kind::Read, 0),
        AccessKind::Write => (Kind::Write, 0),
        AccessKind::Atomic | AccessKind::WasAtomic if flags & AtomicFlags::RETURNS.bits() == 0 => (Kind::Reduction, 0),
        AccessKind::Atomic | AccessKind::WasAtomic => (Kind::Atomic, 0),
        AccessKind::HasRead { stale } => (Kind::Read, stale),
    };
    Access {
        space,
        addresses,
        size: size.bytes,
        element: size.element,
        kind,
        order: order(flags),
        scope: scope(flags),
        rows: None,
        same_value: None,
        unchanged: None,
        non_coherent: flags & AccessFlags::NON_COHERENT.bits() != 0,
        stale,
    }
}

/// The number of transactions beyond the fewest possible. There are 32 banks of 4 bytes; wide accesses are served for
/// half or a quarter of the warp at a time.
fn bank_conflicts(offsets: &[u32; 32], mask: u32, bytes: u32) -> u64 {
    let words = bytes.div_ceil(4);
    let lanes_at_once = (32 / words.max(1)).max(1) as usize;
    let mut conflicts = 0;
    for start in (0..32).step_by(lanes_at_once) {
        let mut banks: [Vec<u32>; 32] = std::array::from_fn(|_| vec![]);
        let together = offsets.iter().enumerate().skip(start).take(lanes_at_once);
        for (_, &offset) in together.filter(|(lane, _)| mask >> lane & 1 != 0) {
            for word in offset / 4..(offset + bytes).div_ceil(4) {
                let bank = &mut banks[word as usize % 32];
                if !bank.contains(&word) {
                    bank.push(word);
                }
            }
        }
        conflicts += banks.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(1) as u64;
    }
    conflicts
}

#[cfg(test)]
mod tests {
    use super::bank_conflicts;

    #[test]
    fn conflicts_follow_the_banks() {
        let stride = |s: u32| std::array::from_fn(|lane| lane as u32 * s);
        assert_eq!(bank_conflicts(&stride(4), u32::MAX, 4), 0);
        assert_eq!(bank_conflicts(&stride(8), u32::MAX, 4), 1);
        assert_eq!(bank_conflicts(&stride(128), u32::MAX, 4), 31);
        assert_eq!(bank_conflicts(&stride(0), u32::MAX, 4), 0);
        assert_eq!(bank_conflicts(&stride(16), u32::MAX, 16), 0);
        assert_eq!(bank_conflicts(&stride(128), 0xff, 16), 7);
    }
}
