//! Architectures: a table of their limits and features. Later architectures have some features that earlier ones lack,
//! and lack some that they have, so they have no order.

use std::fmt;
use std::str::FromStr;

use crate::numerics::dot::Generation;

use self::Feature::{
    BlockScales, BulkCopies, ByteMatrices, Clusters, DependentLaunch, ElectedLane, Fp8Conversions, Fp8Products,
    MixedProducts, NarrowConversions, NativeFp8Products, RegisterLimits, StoreMatrix, TensorMemory, Wgmma,
};

/// The architecture. It decides which instructions are accepted. If architectures differ, it decides whose behaviour is
/// emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Compute capability 8.0 (A100).
    Sm80,
    /// Compute capability 8.6 (A10, RTX 30).
    Sm86,
    /// Compute capability 8.7 (Jetson Orin).
    Sm87,
    /// Compute capability 8.9 (L4, L40S, RTX 40).
    Sm89,
    /// Compute capability 9.0 with its architecture-specific instructions (H100, H200).
    Sm90a,
    /// Compute capability 10.0 with its architecture-specific instructions (B200).
    Sm100a,
    /// Compute capability 12.0 with its architecture-specific instructions (RTX 50, RTX PRO 6000).
    Sm120a,
    /// Compute capability 12.1 with its architecture-specific instructions (DGX Spark).
    Sm121a,
}

/// Instructions that some architectures have and others lack (PTX ISA, "Target ISA Notes" of each instruction).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// `cvt` to and from `.e4m3` and `.e5m2`.
    Fp8Conversions,
    /// `mma.sync` of `.e4m3` and `.e5m2`.
    Fp8Products,
    /// These products are instructions of the machine. Without this, its compiler makes them of products of `.f16`.
    NativeFp8Products,
    /// `mma.sync` with `.kind::f8f6f4`: products of elements of 8, 6 and 4 bits.
    MixedProducts,
    /// `mma.sync` with `.block_scale`.
    BlockScales,
    /// `cvt` to and from elements of 6 and 4 bits, and `.ue8m0` scales.
    NarrowConversions,
    /// `ldmatrix` and `stmatrix` of `.b8`.
    ByteMatrices,
    /// `stmatrix`.
    StoreMatrix,
    /// `elect.sync`.
    ElectedLane,
    /// `griddepcontrol`.
    DependentLaunch,
    /// Clusters of blocks, whose shared memory all of them reach.
    Clusters,
    /// Bulk copies with tensor maps (TMA), and the mbarriers that count their bytes.
    BulkCopies,
    /// `setmaxnreg`.
    RegisterLimits,
    /// `wgmma`.
    Wgmma,
    /// `tcgen05` and its tensor memory.
    TensorMemory,
}

/// The table's entry for an architecture.
struct Row {
    name: &'static str,
    capability: (u32, u32),
    /// The bytes of shared memory that a block may have (CUDA C++ programming guide, table of technical
    /// specifications).
    shared_limit: u32,
    features: &'static [Feature],
}

const ADA: [Feature; 3] = [Fp8Conversions, Fp8Products, NativeFp8Products];

const HOPPER: [Feature; 9] = [
    Fp8Conversions,
    Fp8Products,
    StoreMatrix,
    ElectedLane,
    DependentLaunch,
    Clusters,
    BulkCopies,
    RegisterLimits,
    Wgmma,
];

const BLACKWELL: [Feature; 11] = [
    Fp8Conversions,
    Fp8Products,
    NarrowConversions,
    ByteMatrices,
    StoreMatrix,
    ElectedLane,
    DependentLaunch,
    Clusters,
    BulkCopies,
    RegisterLimits,
    TensorMemory,
];

const CONSUMER_BLACKWELL: [Feature; 13] = [
    Fp8Conversions,
    Fp8Products,
    NativeFp8Products,
    MixedProducts,
    BlockScales,
    NarrowConversions,
    ByteMatrices,
    StoreMatrix,
    ElectedLane,
    DependentLaunch,
    Clusters,
    BulkCopies,
    RegisterLimits,
];

impl Arch {
    /// All architectures that a machine can be.
    pub const ALL: [Arch; 8] =
        [Arch::Sm80, Arch::Sm86, Arch::Sm87, Arch::Sm89, Arch::Sm90a, Arch::Sm100a, Arch::Sm120a, Arch::Sm121a];

    const fn row(self) -> Row {
        const fn row(name: &'static str, capability: (u32, u32), kilobytes: u32, features: &'static [Feature]) -> Row {
            Row { name, capability, shared_limit: kilobytes * 1024, features }
        }
        match self {
            Arch::Sm80 => row("sm_80", (8, 0), 163, &[]),
            Arch::Sm86 => row("sm_86", (8, 6), 99, &[]),
            Arch::Sm87 => row("sm_87", (8, 7), 163, &[]),
            Arch::Sm89 => row("sm_89", (8, 9), 99, &ADA),
            Arch::Sm90a => row("sm_90a", (9, 0), 227, &HOPPER),
            Arch::Sm100a => row("sm_100a", (10, 0), 227, &BLACKWELL),
            Arch::Sm120a => row("sm_120a", (12, 0), 99, &CONSUMER_BLACKWELL),
            Arch::Sm121a => row("sm_121a", (12, 1), 99, &CONSUMER_BLACKWELL),
        }
    }

    /// The name in a `.target` directive: `sm_90a`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The compute capability: `(9, 0)`.
    #[must_use]
    pub const fn capability(self) -> (u32, u32) {
        self.row().capability
    }

    /// The most bytes of shared memory that a block may have.
    #[must_use]
    pub const fn shared_limit(self) -> u32 {
        self.row().shared_limit
    }

    /// Its generation of tensor cores, for bit-exact arithmetic.
    #[must_use]
    pub const fn generation(self) -> Generation {
        match self {
            Arch::Sm80 | Arch::Sm86 | Arch::Sm87 => Generation::Ampere,
            Arch::Sm89 => Generation::Ada,
            Arch::Sm90a => Generation::Hopper,
            Arch::Sm100a => Generation::Blackwell,
            Arch::Sm120a | Arch::Sm121a => Generation::BlackwellRtx,
        }
    }

    /// Whether it has a feature.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.row().features.contains(&feature)
    }

    /// Whether it runs a module for this target: one for an earlier capability, for exactly this one if the name ends
    /// in `a`, or for its family if it ends in `f`.
    #[must_use]
    pub fn runs(self, target: &str) -> bool {
        let number = target.trim_start_matches(|c: char| !c.is_ascii_digit());
        let suffix = number.trim_start_matches(|c: char| c.is_ascii_digit());
        let number: u32 = number[..number.len() - suffix.len()].parse().unwrap_or(0);
        let (major, minor) = self.capability();
        let have = 10 * major + minor;
        match suffix {
            "a" => number == have,
            "f" => number / 10 == major && number <= have,
            _ => number <= have,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no architecture of the table.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no machine; there are {}", Arch::ALL.map(Arch::name).join(", "))]
pub struct UnknownArch {
    given: String,
}

crate::message::debug!(UnknownArch);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        Arch::ALL.into_iter().find(|arch| arch.name() == text).ok_or_else(|| UnknownArch { given: text.to_owned() })
    }
}

impl Feature {
    /// The feature in words, for the sentence "… has no …".
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Fp8Conversions => "conversions of 8-bit floating-point numbers",
            Fp8Products | NativeFp8Products => "`mma.sync` of 8-bit floating-point numbers",
            MixedProducts => "`mma.sync` with `.kind::f8f6f4`",
            BlockScales => "`mma.sync` with block scales",
            NarrowConversions => "conversions of 4-bit and 6-bit floating-point numbers",
            ByteMatrices => "matrices of bytes in `ldmatrix` and `stmatrix`",
            StoreMatrix => "`stmatrix`",
            ElectedLane => "`elect.sync`",
            DependentLaunch => "`griddepcontrol`",
            Clusters => "clusters",
            BulkCopies => "bulk copies and the mbarriers that count their bytes",
            RegisterLimits => "`setmaxnreg`",
            Wgmma => "`wgmma`",
            TensorMemory => "`tcgen05` and its tensor memory",
        }
    }

    /// The feature that an instruction needs, if not all architectures have it.
    pub(crate) fn of(opcode: &str) -> Option<Self> {
        let has = |names: &[&str]| opcode.split('.').skip(1).any(|part| names.contains(&part));
        let begins = |names: &[&str]| names.iter().any(|name| opcode.starts_with(name));
        let base = opcode.split('.').next().unwrap_or_default();
        Some(match base {
            "wgmma" => Wgmma,
            "tcgen05" => TensorMemory,
            "setmaxnreg" => RegisterLimits,
            "elect" => ElectedLane,
            "griddepcontrol" => DependentLaunch,
            "mapa" | "getctarank" => Clusters,
            "tensormap" => BulkCopies,
            "ldmatrix" | "stmatrix" if has(&["b8"]) => ByteMatrices,
            "stmatrix" => StoreMatrix,
            "mma" if has(&["block_scale"]) => BlockScales,
            "mma" if has(&["kind::f8f6f4", "e2m1", "e2m3", "e3m2"]) => MixedProducts,
            "mma" if has(&["e4m3", "e5m2"]) => Fp8Products,
            "cvt" if has(&["e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"]) => NarrowConversions,
            "cvt" if has(&["e4m3x2", "e5m2x2"]) => Fp8Conversions,
            _ if begins(&["barrier.cluster.", "st.async.", "red.async."]) => Clusters,
            _ if begins(&["cp.async.bulk", "cp.reduce.async.bulk", "mbarrier.try_wait", "mbarrier.expect_tx"])
                || begins(&["mbarrier.complete_tx", "mbarrier.arrive.expect_tx", "prefetch.tensormap"])
                || begins(&["fence.proxy.async", "fence.proxy.tensormap", "fence.mbarrier_init"]) =>
            {
                BulkCopies
            }
            "ld" | "st" | "red" | "atom" | "mbarrier" if has(&["shared::cluster"]) => Clusters,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for arch in Arch::ALL {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        let error = "sm_120".parse::<Arch>().unwrap_err().to_string();
        assert!(error.contains("`sm_120` is no machine") && error.contains("sm_120a"), "{error}");
    }

    #[test]
    fn a_machine_runs_what_was_made_for_it_or_for_an_earlier_one() {
        let runs = |target: &str| Arch::ALL.into_iter().filter(|arch| arch.runs(target)).collect::<Vec<_>>();
        assert_eq!(runs("sm_80"), Arch::ALL);
        assert_eq!(runs("sm_89"), Arch::ALL[3..]);
        assert_eq!(runs("sm_90a"), [Arch::Sm90a]);
        assert_eq!(runs("sm_90"), Arch::ALL[4..]);
        assert_eq!(runs("sm_120"), [Arch::Sm120a, Arch::Sm121a]);
        assert_eq!(runs("sm_120a"), [Arch::Sm120a]);
        assert_eq!(runs("sm_120f"), [Arch::Sm120a, Arch::Sm121a]);
        assert_eq!(runs("sm_121a"), [Arch::Sm121a]);
        assert_eq!(runs("sm_103a"), []);
    }

    #[test]
    fn instructions_need_features() {
        for (opcode, feature) in [
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", None),
            ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", Some(Fp8Products)),
            ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32", Some(MixedProducts)),
            ("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", Some(BlockScales)),
            ("cvt.rn.satfinite.e4m3x2.f32", Some(Fp8Conversions)),
            ("cvt.rn.f16x2.e2m1x2", Some(NarrowConversions)),
            ("cvt.rn.f16.f32", None),
            ("ld.shared::cluster.b32", Some(Clusters)),
            ("ld.shared.b32", None),
            ("barrier.cluster.arrive", Some(Clusters)),
            ("barrier.sync", None),
            ("cp.async.cg.shared.global", None),
            ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", Some(BulkCopies)),
            ("mbarrier.arrive.b64", None),
            ("mbarrier.arrive.shared::cluster.b64", Some(Clusters)),
            ("mbarrier.try_wait.parity.b64", Some(BulkCopies)),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", None),
            ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", Some(ByteMatrices)),
            ("stmatrix.sync.aligned.m8n8.x4.shared.b16", Some(StoreMatrix)),
            ("tcgen05.wait::ld.sync.aligned", Some(TensorMemory)),
        ] {
            assert_eq!(Feature::of(opcode), feature, "{opcode}");
        }
    }
}
