//! Stamps: what is remembered of an access.

use super::Scope;
use super::finding::AccessKind;

/// One access: the actor, its clock, the lanes and the instruction. Clock 0 means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub(super) struct Stamp {
    pub(super) clock: u32,
    pub(super) actor: u32,
    pub(super) lanes: u32,
    /// The instruction's index and, in the low bits, strength, scope, its part in the observation order, and the size of
    /// an element. For a weak access the bits of the scope say whether the lanes made it as one.
    pub(super) site: u32,
}

const STRONG: u32 = 1;
const SCOPE_SHIFT: u32 = 1;
const SCOPE_MASK: u32 = 3 << SCOPE_SHIFT;
/// With `STRONG` it is a scope.
const JOINT: u32 = 1 << SCOPE_SHIFT;
pub(super) const WRITES: u32 = 1 << 3;
const CURRENT: u32 = 1 << 4;
const INFORMED: u32 = 1 << 8;
const SIZE_SHIFT: u32 = 5;
/// Enough bits for a power of two up to 8, or none.
const SIZE_MASK: u32 = 7;
const SITE_SHIFT: u32 = 9;

impl Stamp {
    /// No access.
    pub(super) const NONE: Self = Self { clock: 0, actor: 0, lanes: 0, site: 0 };

    pub(super) fn new(actor: u32, clock: u32, lanes: u32, pc: u32, writes: bool, strong: Option<Scope>) -> Self {
        let strength = match strong {
            None => 0,
            Some(Scope::Block) => STRONG,
            Some(Scope::Cluster) => STRONG | 1 << SCOPE_SHIFT,
            Some(Scope::Gpu) => STRONG | 2 << SCOPE_SHIFT,
            Some(Scope::System) => STRONG | 3 << SCOPE_SHIFT,
        };
        let writes = if writes { WRITES } else { 0 };
        Self { clock, actor, lanes, site: pc << SITE_SHIFT | strength | writes }
    }

    /// Gives the access other lanes.
    #[inline]
    pub(super) fn by(self, lanes: u32) -> Self {
        Self { lanes, ..self }
    }

    /// Marks the access as made by all lanes as one, as `ldmatrix` and `stmatrix` do.
    pub(super) fn joint(self) -> Self {
        Self { site: self.site | JOINT, ..self }
    }

    #[inline]
    pub(super) fn is_joint(&self) -> bool {
        self.site & (STRONG | JOINT) == JOINT
    }

    /// Marks the strong write as [current](Self::is_current).
    pub(super) fn current(self) -> Self {
        Self { site: self.site | CURRENT, ..self }
    }

    /// Marks the strong read or atomic as [informed](Self::is_informed).
    pub(super) fn informed(self) -> Self {
        Self { site: self.site | INFORMED, ..self }
    }

    /// Whether the next read of its place observes this strong write, directly or through atomics (PTX ISA 8.8.3,
    /// observation order).
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        self.site & CURRENT != 0
    }

    /// Whether this strong read or atomic has observed all other current writes of its place.
    #[inline]
    pub(super) fn is_informed(&self) -> bool {
        self.site & INFORMED != 0
    }

    /// A later write is observed in place of this one.
    pub(super) fn fade(&mut self) {
        self.site &= !CURRENT;
    }

    /// There is a later write, which it has not observed.
    pub(super) fn outdate(&mut self) {
        self.site &= !INFORMED;
    }

    /// Adds an access that is [alike](Self::is_alike), by the same actor at the same clock.
    #[inline]
    pub(super) fn merge(&mut self, now: &Self) {
        self.lanes |= now.lanes;
        if !now.is_strong() {
            self.site = now.site;
        }
    }

    /// Whether one stamp can hold both: equal kinds and strengths.
    #[inline]
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        let sizes = if self.is_strong() { SIZE_MASK << SIZE_SHIFT } else { 0 };
        (self.site ^ other.site) & (STRONG | SCOPE_MASK | WRITES | CURRENT | INFORMED | sizes) == 0
    }

    /// Whether every strong access that may meet this one may also meet the other one. Only strength, scope and size
    /// count.
    #[inline]
    pub(super) fn is_no_stronger(&self, other: &Self) -> bool {
        !self.is_strong() || other.is_strong() && self.scope() <= other.scope() && self.is_as_wide(other)
    }

    /// Gives the access elements of a number of bytes.
    pub(super) fn in_elements(self, bytes: u32) -> Self {
        let size = if bytes.is_power_of_two() && bytes <= 8 { bytes.ilog2() + 1 } else { 0 };
        Self { site: self.site & !(SIZE_MASK << SIZE_SHIFT) | size << SIZE_SHIFT, ..self }
    }

    /// Whether both are atomics of equal elements that can meet in the whole GPU.
    #[inline]
    pub(super) fn meets_widely(&self, other: &Self) -> bool {
        const GPU_OR_WIDER: u32 = STRONG | 2 << SCOPE_SHIFT;
        self.site & other.site & GPU_OR_WIDER == GPU_OR_WIDER && self.is_as_wide(other)
    }

    /// Whether this access and another one, which overlap, access the same places: whether their elements are equally
    /// large, as far as that is known. Elements are aligned.
    #[inline]
    pub(super) fn is_as_wide(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.site >> SIZE_SHIFT & SIZE_MASK, other.site >> SIZE_SHIFT & SIZE_MASK);
        mine == 0 || theirs == 0 || mine == theirs
    }

    /// The read that belongs to a write, for example of a copy.
    pub(super) fn reading(self) -> Self {
        Self { site: self.site & !(WRITES | STRONG | SCOPE_MASK), ..self }
    }

    pub(super) fn pc(&self) -> u32 {
        self.site >> SITE_SHIFT
    }

    #[inline]
    pub(super) fn writes(&self) -> bool {
        self.site & WRITES != 0
    }

    #[inline]
    pub(super) fn is_strong(&self) -> bool {
        self.site & STRONG != 0
    }

    pub(super) fn scope(&self) -> Option<Scope> {
        self.is_strong().then_some(match self.site >> SCOPE_SHIFT & 3 {
            0 => Scope::Block,
            1 => Scope::Cluster,
            2 => Scope::Gpu,
            _ => Scope::System,
        })
    }

    pub(super) fn access(&self) -> AccessKind {
        match (self.writes(), self.scope()) {
            (false, None) => AccessKind::Read,
            (true, None) => AccessKind::Write,
            (false, Some(scope)) => AccessKind::StrongRead(scope),
            (true, Some(scope)) => AccessKind::StrongWrite(scope),
        }
    }
}
