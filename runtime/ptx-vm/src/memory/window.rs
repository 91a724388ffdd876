//! The places of the state spaces in the generic address space.
//!
//! `.local`, `.param`, `.const` and `.global` addresses are their own generic addresses. A `.shared` address is a 32-bit
//! offset; its generic address adds [`SHARED`]. A block's own shared memory starts at offset 0 of the shared window; the
//! memory of the block with rank r of the cluster starts at `(r + 1) << CLUSTER_SHIFT` (PTX ISA §5.1.7: the
//! shared::cta window lies within the shared::cluster window).

/// First generic address of kernel parameters.
pub(crate) const PARAMETERS: u64 = 0x2000_0000;
/// First generic address of a thread's local memory.
pub(crate) const LOCAL: u64 = 0x4000_0000;
/// The generic address of local memory has the number of its thread above this bit.
pub(crate) const OWNER_SHIFT: u32 = 48;
/// First generic address of the shared window.
pub(crate) const SHARED: u64 = 0x1_0000_0000;
/// First generic address after the shared window.
pub(crate) const SHARED_END: u64 = 0x2_0000_0000;
/// First address of device memory.
pub(crate) const GLOBAL: u64 = 0x7000_0000_0000;
/// The shared memory of a cluster's block starts at its rank plus one, shifted left by this.
pub(crate) const CLUSTER_SHIFT: u32 = 24;
