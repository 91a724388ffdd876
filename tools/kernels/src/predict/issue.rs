//! How long a part of a kernel's code takes on a multiprocessor: what it issues, what each unit does, and how long one
//! warp alone takes, whose results come when they come.
//!
//! Throughputs are those of the CUDA C++ Programming Guide ("Arithmetic Instructions", compute capability 9.0), for one of
//! the four schedulers: 32 results per clock of single-precision arithmetic, 16 of integers, comparisons and narrow
//! conversions, 4 of special functions and other conversions, 8 of shuffles. Latencies are rounded from Luo and others (2025,
//! "Dissecting the NVIDIA Hopper Architecture through Microbenchmarking and Multiple Level Analysis") and Jia and others
//! (2018). The remaining ones are estimates.

use super::super::sass::{Control, Instruction, is, is_product};

/// The unit that executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Tensor cores.
    Tensor,
    /// Single-precision arithmetic.
    Float,
    /// Integers, comparisons, selections, narrow conversions.
    Integer,
    /// Special functions, other conversions.
    Special,
    /// Exchanges between lanes.
    Shuffle,
    /// Shared memory.
    Shared,
    /// Global and local memory, tensor copies.
    Memory,
    /// Values that all lanes share.
    Uniform,
    /// Branches, barriers, fences.
    Control,
}

impl Unit {
    pub(crate) const ALL: [(Self, &'static str); 9] = [
        (Self::Tensor, "tensor cores"),
        (Self::Float, "float"),
        (Self::Integer, "integer"),
        (Self::Special, "special"),
        (Self::Shuffle, "shuffle"),
        (Self::Shared, "shared memory"),
        (Self::Memory, "memory"),
        (Self::Uniform, "uniform"),
        (Self::Control, "control"),
    ];

    /// By the name of an instruction.
    pub(crate) fn of(instruction: &Instruction) -> Self {
        let opcode = instruction.opcode.as_str();
        let name = opcode.split('.').next().unwrap_or(opcode);
        match name {
            _ if is_product(instruction) => Self::Tensor,
            "HMMA" | "IMMA" | "DMMA" => Self::Tensor,
            "FADD" | "FMUL" | "FFMA" | "HFMA2" | "HADD2" | "HMUL2" | "DFMA" | "DADD" | "DMUL" => Self::Float,
            "MUFU" | "F2F" | "F2I" | "I2F" | "FRND" | "POPC" | "FLO" | "BREV" => Self::Special,
            "SHFL" | "REDUX" | "MATCH" => Self::Shuffle,
            "LDS" | "STS" | "LDSM" | "STSM" | "ATOMS" => Self::Shared,
            "LDG" | "STG" | "LDL" | "STL" | "LD" | "ST" | "LDGSTS" | "RED" | "ATOM" | "ATOMG" | "UTMALDG"
            | "UTMASTG" | "UTMACMDFLUSH" | "UTMACCTL" | "LDC" | "CCTL" => Self::Memory,
            "BRA" | "EXIT" | "BSSY" | "BSYNC" | "CALL" | "RET" | "BAR" | "SYNCS" | "WARPSYNC" | "WARPGROUP"
            | "DEPBAR" | "MEMBAR" | "FENCE" | "NOP" | "USETMAXREG" | "UCGABAR_ARV" | "UCGABAR_WAIT" | "ERRBAR"
            | "CGAERRBAR" | "NANOSLEEP" | "ELECT" | "ACQBULK" | "LDGDEPBAR" | "YIELD" => Self::Control,
            _ if name.starts_with('U') || name == "R2UR" || name == "VOTEU" => Self::Uniform,
            _ => Self::Integer,
        }
    }

    /// Clocks for which one instruction of a warp keeps a scheduler's unit busy.
    const fn clocks(self) -> f64 {
        match self {
            Self::Integer | Self::Uniform => 2.0,
            Self::Special => 8.0,
            Self::Shuffle => 4.0,
            Self::Float | Self::Control | Self::Memory => 1.0,
            // Counted by their own numbers.
            Self::Tensor | Self::Shared => 0.0,
        }
    }

    /// Clocks until a result is there that another instruction waits for.
    const fn latency(self) -> f64 {
        match self {
            Self::Shared => 29.0,
            Self::Memory => 263.0, // in the L2
            Self::Shuffle | Self::Special | Self::Control => 24.0,
            Self::Tensor => 33.0,
            Self::Float | Self::Integer | Self::Uniform => 12.0,
        }
    }
}

/// Clocks of a barrier among the warps of a block that all have come to.
const BARRIER: f64 = 24.0;
/// Clocks until operands have been read, for instructions that tell.
const READ: f64 = 10.0;

/// Extents M, N, K of the product of one instruction: the numbers in `HGMMA.64x256x16` and `HMMA.16816`.
fn extents(instruction: &Instruction) -> Option<[usize; 3]> {
    let shape = instruction.opcode.split('.').find(|part| part.starts_with(|c: char| c.is_ascii_digit()))?;
    let numbers: Vec<usize> = shape.split('x').filter_map(|number| number.parse().ok()).collect();
    match numbers[..] {
        [m, n, k] => Some([m, n, k]),
        [16816] => Some([16, 8, 16]),
        [1688] => Some([16, 8, 8]),
        [16832] => Some([16, 8, 32]),
        _ => None,
    }
}

/// Bytes that an access of shared memory moves for a warp.
fn shared_bytes(instruction: &Instruction) -> f64 {
    let opcode = &instruction.opcode;
    let of_lane = if opcode.contains(".128") || opcode.ends_with(".4") {
        16.0
    } else if opcode.contains(".64") || opcode.ends_with(".2") {
        8.0
    } else {
        4.0
    };
    32.0 * of_lane
}

/// Work of one warp in a part of the code, by unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Instructions by unit, in the order of [`Unit::ALL`].
    pub(crate) counts: [usize; Unit::ALL.len()],
    /// Clocks of a scheduler's units, likewise.
    busy: [f64; Unit::ALL.len()],
    /// Multiply-adds, and bytes that the tensor cores read of shared memory for them. For `wgmma` they are a warpgroup's.
    pub(crate) multiply_adds: f64,
    pub(crate) product_bytes: f64,
    /// Bytes of shared memory that the warp itself moves.
    pub(crate) shared_bytes: f64,
    /// Clocks that the warp takes if it is alone on its scheduler.
    pub(crate) alone: f64,
}

impl Work {
    /// The work of instructions in the order in which a warp executes them.
    pub(crate) fn of<'a>(code: impl IntoIterator<Item = &'a Instruction>) -> Self {
        let mut work = Self::default();
        let (mut now, mut ready) = (0.0_f64, [0.0_f64; 6]);
        for instruction in code {
            let unit = Unit::of(instruction);
            let place = unit as usize;
            work.counts[place] += 1;
            work.busy[place] += unit.clocks();
            if let (Unit::Tensor, Some([m, n, k])) = (unit, extents(instruction)) {
                work.multiply_adds += (m * n * k) as f64;
                // 32 bytes of K, of 64 rows and n columns.
                work.product_bytes += if is_product(instruction) { 32.0 * (m + n) as f64 } else { 0.0 };
            }
            if unit == Unit::Shared {
                work.shared_bytes += shared_bytes(instruction);
            }
            let stall = Control { stall: 2, writes: None, reads: None, waits: 0 };
            let control = instruction.control.unwrap_or(stall);
            for (number, at) in ready.iter().enumerate() {
                if control.waits & (1 << number) != 0 {
                    now = now.max(*at);
                }
            }
            if is(&instruction.opcode, "BAR") {
                now += BARRIER;
            }
            for (scoreboard, clocks) in [(control.writes, unit.latency()), (control.reads, READ)] {
                if let Some(at) = scoreboard.and_then(|number| ready.get_mut(usize::from(number))) {
                    *at = at.max(now + clocks);
                }
            }
            now += f64::from(control.stall.max(1));
        }
        work.alone = now;
        work
    }

    /// Work that was counted before: instructions by unit; then multiply-adds, bytes that the tensor cores read, bytes that
    /// the warp moves, and its clocks alone.
    pub(crate) fn counted(counts: [usize; Unit::ALL.len()], numbers: [f64; 4]) -> Self {
        let [multiply_adds, product_bytes, shared_bytes, alone] = numbers;
        let mut busy = [0.0; Unit::ALL.len()];
        for (unit, _) in Unit::ALL {
            busy[unit as usize] = unit.clocks() * counts[unit as usize] as f64;
        }
        Self { counts, busy, multiply_adds, product_bytes, shared_bytes, alone }
    }

    /// The work on an A100, which does single-precision arithmetic at half the rate (CUDA C++ Programming Guide, compute
    /// capability 8.0: 64 results per clock of a multiprocessor).
    pub(crate) fn on_a100(mut self) -> Self {
        self.busy[Unit::Float as usize] *= 2.0;
        self
    }

    /// All instructions.
    pub(crate) fn instructions(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Clocks in which a scheduler issues all, for this many warps.
    pub(crate) fn issue(&self, warps: f64) -> f64 {
        warps * self.instructions() as f64
    }

    /// Clocks of the part without its products: what limits it of issuing, a unit, shared memory, and the waits of a
    /// single warp. Each scheduler has `warps` of them.
    pub(crate) fn clocks(&self, warps: f64) -> (f64, &'static str) {
        let units = Unit::ALL.iter().map(|(unit, name)| (warps * self.busy[*unit as usize], *name));
        let shared = (4.0 * warps * self.shared_bytes / 128.0, "shared memory");
        let all = units.chain([(self.issue(warps), "issuing"), shared, (self.alone, "one warp's waits")]);
        all.fold((0.0, "nothing"), |most, one| if one.0 > most.0 { one } else { most })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sass::Sass;
    use super::*;

    /// Counted by hand.
    #[test]
    fn instructions_are_counted_by_unit() {
        let sass = Sass::parse(
            "/*0000*/ HGMMA.64x256x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;\n/*0010*/ FFMA R0, R1, R2, R3 ;\n\
             /*0020*/ FSEL R0, R1, R2, P0 ;\n/*0030*/ MUFU.TANH R4, R0 ;\n/*0040*/ F2FP.BF16.F32.PACK_AB R4, R25, R24 ;\n\
             /*0050*/ STSM.16.M88.4 [R16], R12 ;\n/*0060*/ UTMASTG.3D [UR16], [UR4] ;\n/*0070*/ UIADD3 UR4, UR4, 0x1, URZ ;\n\
             /*0080*/ SHFL.IDX PT, R12, R13, RZ, 0x1f ;\n/*0090*/ BAR.SYNC.DEFER_BLOCKING 0x1, 0x80 ;",
        );
        let work = Work::of(sass.instructions());
        // Tensor, float, integer, special, shuffle, shared, memory, uniform, control.
        assert_eq!(work.counts, [1, 1, 2, 1, 1, 1, 1, 1, 1]);
        assert_eq!((work.multiply_adds, work.product_bytes), (64.0 * 256.0 * 16.0, 32.0 * 320.0));
        assert_eq!((work.shared_bytes, work.instructions()), (512.0, 10));
        // Ten instructions of two clocks and a barrier. Of eight warps on each scheduler, 32 store 512 bytes each.
        assert_eq!(work.alone, 20.0 + BARRIER);
        assert_eq!(work.clocks(1.0), (20.0 + BARRIER, "one warp's waits"));
        assert_eq!((work.issue(8.0), work.clocks(8.0)), (80.0, (128.0, "shared memory")));
    }

    #[test]
    fn a_warp_waits_for_its_loads() {
        // The load sets scoreboard 0 (0x000e220000000800), the addition waits for it (0x001fca0000000000).
        let sass = Sass::parse(
            "/*0000*/ LDS R4, [R0] ; /* 0x0 */\n /* 0x000e220000000800 */\n\
             /*0010*/ FADD R5, R4, R4 ; /* 0x0 */\n /* 0x001fca0000000000 */",
        );
        // Issued at 0, there at 29, and five clocks until the next.
        assert_eq!(Work::of(sass.instructions()).alone, 34.0);
    }
}
