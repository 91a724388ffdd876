//! Tells the history of weak memory what the running warp does, and takes older values from it.

use crate::exec::check::observe::scope;
use crate::exec::context::{Context, lanes_of};
use crate::exec::lane::Lane;
use crate::exec::memory::access::Addresses;
use crate::exec::state::weak::{Seen, Strength, Word};
use crate::memory::global;
use crate::program::flags::AccessFlags;
use crate::race::Scope;

impl Context<'_> {
    /// Whether strong reads may see older values.
    #[inline(always)]
    pub(in crate::exec) fn is_weak(&self) -> bool {
        self.worker.weak.is_some()
    }

    fn strength(&self, flags: u32) -> Strength {
        Strength {
            scope: scope(flags),
            acquires: flags & AccessFlags::ACQUIRE.bits() != 0,
            releases: flags & AccessFlags::RELEASE.bits() != 0,
            cluster: self.worker.cluster,
        }
    }

    /// The value that a strong read sees, where the newest is given.
    #[cold]
    pub(in crate::exec) fn weak_read(&mut self, flags: u32, word: Word, newest: u64) -> Seen {
        let strength = self.strength(flags);
        let Some(mut weak) = self.worker.weak.take() else { return Seen { value: newest, is_stale: false } };
        let worker = &mut *self.worker;
        let seen = weak.read(&mut self.warp.views, word, newest, strength, |choices, oldest| {
            let oldest = oldest && worker.has_choices();
            // Odd numbers see the newest value, as does a run without random choices.
            let random = worker.random();
            if oldest {
                choices - 1
            } else if random & 1 != 0 {
                0
            } else {
                (random >> 1) % choices
            }
        });
        self.worker.weak = Some(weak);
        seen
    }

    /// A write replaces the newest value.
    #[cold]
    pub(in crate::exec) fn weak_write(&mut self, flags: u32, word: Word, values: [u64; 2], is_atomic: bool) {
        let strength = self.strength(flags);
        let Some(weak) = &mut self.worker.weak else { return };
        if flags & AccessFlags::STRONG.bits() != 0 {
            weak.write(&mut self.warp.views, word, values, strength, is_atomic);
        } else {
            weak.write_plainly(&mut self.warp.views, word, values[1]);
        }
    }

    #[cold]
    pub(in crate::exec) fn weak_fence(&mut self, scope: Scope, sequential: bool) {
        if let Some(weak) = &mut self.worker.weak {
            weak.fence(&mut self.warp.views, &mut self.cluster.views, scope, sequential);
        }
    }

    /// The warp arrives where warps of its cluster synchronise.
    #[inline]
    pub(in crate::exec) fn share_views(&mut self) {
        if self.is_weak() {
            self.cluster.views.join(&self.warp.views);
        }
    }

    /// The warp has waited for others of its cluster.
    #[inline]
    pub(in crate::exec) fn learn_views(&mut self) {
        if self.is_weak() {
            self.warp.views.join(&self.cluster.views);
        }
    }
}

/// Replaces loaded values by older ones that the lanes may still see. Gives the lanes that see only what was written
/// without a release.
#[cold]
#[inline(never)]
pub(super) fn see_older<T: Lane + global::Word, const N: usize>(
    context: &mut Context<'_>,
    flags: u32,
    addresses: &Addresses,
    mask: u32,
    values: &mut [[T::Cell; 32]; N],
) -> u32 {
    let mut stale = mask;
    for (n, values) in values.iter_mut().enumerate() {
        // Lanes of one instruction that read the same place see the same.
        let mut seen: Vec<(u64, Seen)> = vec![];
        for lane in lanes_of(mask) {
            let address = addresses[lane] + (n * size_of::<T>()) as u64;
            let known = seen.iter().find(|(place, _)| *place == address).map(|(_, seen)| *seen);
            let result = known.unwrap_or_else(|| {
                let word = Word { address, bytes: size_of::<T>() as u32 };
                context.weak_read(flags, word, T::from_cell(values[lane]).into_bits())
            });
            if known.is_none() {
                seen.push((address, result));
            }
            values[lane] = T::from_bits(result.value).to_cell();
            stale &= !(u32::from(!result.is_stale) << lane);
        }
    }
    stale
}
