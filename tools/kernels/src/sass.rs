//! Machine code, as nvdisasm prints it.

use std::collections::HashMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Its name with all modifiers: `HGMMA.64x256x16.F32.BF16`.
    pub(crate) opcode: String,
    /// The text after the name.
    pub(crate) operands: String,
    /// Whether it is executed only if a predicate holds.
    pub(crate) predicated: bool,
    /// Hints of the compiler for the scheduler; `None` if the text has no encodings.
    pub(crate) control: Option<Control>,
}

/// When the next instruction of the warp may be issued, and what this one waits for: the upper bits of an encoding (Jia
/// and others, "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Clocks until the next instruction.
    pub(crate) stall: u8,
    /// The scoreboard that is set when its result is there.
    pub(crate) writes: Option<u8>,
    /// The scoreboard that is set when its operands have been read.
    pub(crate) reads: Option<u8>,
    /// The scoreboards that it waits for, as bits.
    pub(crate) waits: u8,
}

impl Control {
    /// From the upper half of an encoding.
    fn of(upper: u64) -> Self {
        let bits = |from: u32, count: u32| ((upper >> from) & ((1 << count) - 1)) as u8;
        let scoreboard = |number: u8| (number < 6).then_some(number);
        Self { stall: bits(41, 4), writes: scoreboard(bits(46, 3)), reads: scoreboard(bits(49, 3)), waits: bits(52, 6) }
    }
}

impl Instruction {
    /// The number of the first vector register, which takes the result.
    fn destination(&self) -> Option<usize> {
        register(self.operands.split([',', ' ']).next()?)
    }

    /// The vector registers after the first operand.
    fn sources(&self) -> impl Iterator<Item = usize> {
        let after = self.operands.split_once(',').map_or("", |(_, rest)| rest);
        after.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(register)
    }
}

/// `R24` is 24; `None` for memory operands.
fn register(operand: &str) -> Option<usize> {
    let digits = operand.trim_end_matches(".reuse").strip_prefix('R')?;
    digits.parse().ok()
}

/// A kernel's instructions in the order of their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sass {
    instructions: Vec<Instruction>,
    /// The index of the instruction after each label.
    labels: HashMap<String, usize>,
}

impl Sass {
    /// Disassembles a cubin.
    pub(crate) fn of(nvdisasm: &Path, cubin: &[u8]) -> Result<Self, String> {
        Self::text_of(nvdisasm, cubin).map(|text| Self::parse(&text))
    }

    /// The text of a cubin's kernels.
    pub(crate) fn text_of(nvdisasm: &Path, cubin: &[u8]) -> Result<String, String> {
        /// Numbers the files of this process.
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("epilogue-sass-{}-{number}.cubin", std::process::id());
        let path = std::env::temp_dir().join(name);
        let text = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::File::create(&path).and_then(|mut file| file.write_all(cubin)).map_err(text)?;
        let output = Command::new(nvdisasm).args(["-c", "-hex"]).arg(&path).output().map_err(text);
        let removed = std::fs::remove_file(&path).map_err(text);
        let output = output?;
        removed?;
        if !output.status.success() {
            return Err(format!("nvdisasm: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Reads lines such as `/*0ae0*/  @P0 HGMMA.64x256x16.F32.BF16 R24, gdesc[UR12], R24, UP0 ;`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut sass = Self::default();
        for line in text.lines() {
            if let Some(label) = line.trim().strip_suffix(':') {
                sass.labels.insert(label.to_owned(), sass.instructions.len());
            }
            if let (Some(upper), Some(last)) = (upper_half(line), sass.instructions.last_mut()) {
                last.control = Some(Control::of(upper));
            }
            sass.instructions.extend(instruction(line));
        }
        sass
    }

    /// All instructions, in the order of their addresses.
    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The index of the instruction after a label.
    pub(crate) fn label(&self, name: &str) -> Option<usize> {
        self.labels.get(name).copied()
    }

    /// The loops, from the target of a backward branch to the branch.
    fn loops(&self) -> impl Iterator<Item = Range<usize>> {
        self.instructions.iter().enumerate().filter_map(|(place, instruction)| {
            let label = instruction.operands.split('`').nth(1)?.strip_prefix('(')?.strip_suffix(')')?;
            let start = *self.labels.get(label)?;
            (is(&instruction.opcode, "BRA") && start <= place).then_some(start..place + 1)
        })
    }

    /// The innermost loops around instructions.
    fn loops_around(&self, meant: impl Fn(&Instruction) -> bool) -> Vec<Range<usize>> {
        let places = (0..self.instructions.len()).filter(|place| meant(&self.instructions[*place]));
        let mut found: Vec<_> = places
            .filter_map(|place| self.loops().filter(|range| range.contains(&place)).min_by_key(ExactSizeIterator::len))
            .collect();
        found.dedup();
        found
    }

    /// The number of executed instructions. The innermost loops around an epilogue's matrix stores have `turns` turns,
    /// and everything else is executed once.
    pub(crate) fn executed(&self, turns: usize) -> usize {
        let stores = (0..self.instructions.len()).filter(|place| is(&self.instructions[*place].opcode, "STSM"));
        let multiplies = |range: &Range<usize>| self.instructions[range.clone()].iter().any(is_product);
        let around = |place: usize| self.loops().filter(move |range| range.contains(&place));
        let mut loops: Vec<_> = stores.filter_map(|place| around(place).min_by_key(ExactSizeIterator::len)).collect();
        loops.retain(|range| !multiplies(range));
        loops.dedup();
        let meant = |range: &[Instruction]| range.iter().filter(|i| i.opcode != "NOP").count();
        let again: usize = loops.into_iter().map(|range| meant(&self.instructions[range])).sum();
        meant(&self.instructions) + again * turns.saturating_sub(1)
    }

    /// The number of instructions with this name, with or without modifiers.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.instructions.iter().filter(|instruction| is(&instruction.opcode, name)).count()
    }

    /// The number of instructions that satisfy a condition.
    pub(crate) fn count_where(&self, condition: impl Fn(&Instruction) -> bool) -> usize {
        self.instructions.iter().filter(|instruction| condition(instruction)).count()
    }

    /// Instructions that should not be in the innermost loops around warpgroup products: accesses of local memory, and
    /// memory fences. `None` without these loops.
    pub(crate) fn stray_between_products(&self) -> Option<Vec<&Instruction>> {
        let loops = self.loops_around(is_product);
        let inside = loops.iter().flat_map(|range| &self.instructions[range.clone()]);
        let stray = |i: &&Instruction| is_local(i) || is(&i.opcode, "MEMBAR") || is(&i.opcode, "CCTL");
        (!loops.is_empty()).then(|| inside.filter(stray).collect())
    }

    /// How often local memory is accessed in the loop with the most instructions of this name, and how often elsewhere.
    /// `None` without that loop.
    pub(crate) fn local_accesses_around(&self, product: &str) -> Option<(usize, usize)> {
        let count = |range: Range<usize>, meant: &dyn Fn(&Instruction) -> bool| {
            self.instructions[range].iter().filter(|i| meant(i)).count()
        };
        let loops = self.loops_around(|i| is(&i.opcode, product));
        let most = loops.into_iter().max_by_key(|range| count(range.clone(), &|i| is(&i.opcode, product)))?;
        let inside = count(most, &is_local);
        Some((inside, count(0..self.instructions.len(), &is_local) - inside))
    }

    /// The most loads of 16 bytes that are in flight together: that follow each other, without a branch, before an
    /// instruction reads the result of one of them.
    pub(crate) fn loads_in_flight(&self) -> usize {
        let (mut most, mut pending) = (0, Vec::<usize>::new());
        for (place, instruction) in self.instructions.iter().enumerate() {
            let reads = |first: &usize| instruction.sources().any(|r| (*first..*first + 4).contains(&r));
            let begins = self.labels.values().any(|at| *at == place) || is(&instruction.opcode, "BRA");
            if begins || pending.iter().any(reads) {
                pending.clear();
            }
            if is(&instruction.opcode, "LDG") && instruction.opcode.contains(".128") {
                pending.extend(instruction.destination());
                most = most.max(pending.len());
            }
        }
        most
    }

    /// Instructions per load of 16 bytes: in the innermost loop with the most of these loads or, if they are in no loop, in
    /// everything up to the exit. `None` without loads. If the code branches, both ways are counted.
    pub(crate) fn instructions_for_a_load(&self) -> Option<usize> {
        let is_load = |i: &Instruction| is(&i.opcode, "LDG") && i.opcode.contains(".128");
        let loads = |range: &Range<usize>| self.instructions[range.clone()].iter().filter(|i| is_load(i)).count();
        let around: Vec<Range<usize>> = self.loops().filter(|range| loads(range) > 0).collect();
        let is_inner = |range: &&Range<usize>| {
            !around.iter().any(|other| other != *range && range.start <= other.start && other.end <= range.end)
        };
        let inner = around.iter().filter(is_inner).max_by_key(|range| loads(range)).cloned();
        let end = self.instructions.iter().position(|i| i.opcode == "EXIT" && !i.predicated);
        let range = inner.unwrap_or(0..end.map_or(self.instructions.len(), |end| end + 1));
        (range.len()).checked_div(loads(&range))
    }

    /// Accesses of local memory outside the producer. The producer's code comes after `USETMAXREG.DEALLOC`, the
    /// consumers' after `USETMAXREG.TRY_ALLOC`.
    pub(crate) fn local_accesses_of_consumers(&self) -> usize {
        let (mut producer, mut accesses) = (false, 0);
        for instruction in &self.instructions {
            if is(&instruction.opcode, "USETMAXREG") {
                producer = instruction.opcode.contains("DEALLOC");
            } else if !producer && is_local(instruction) {
                accesses += 1;
            }
        }
        accesses
    }

    /// Instructions that write accumulators while a batch of warpgroup products is in flight: those between
    /// `WARPGROUP.ARRIVE` and the product that ends the batch that are not products and write a register that the
    /// batch's products write.
    pub(crate) fn writes_to_open_accumulators(&self, registers: usize) -> Vec<&Instruction> {
        let mut found = Vec::new();
        let mut rest = self.instructions.as_slice();
        while let Some(start) = rest.iter().position(|i| i.opcode == "WARPGROUP.ARRIVE") {
            rest = &rest[start + 1..];
            let end = rest.iter().position(|i| is_product(i) && i.operands.contains("gsb0")).unwrap_or(0);
            let (batch, after) = rest.split_at(end);
            rest = after;
            let accumulators: Vec<usize> = batch
                .iter()
                .chain(after.first())
                .filter(|i| is_product(i))
                .filter_map(Instruction::destination)
                .collect();
            let open = |r: usize| accumulators.iter().any(|first| (*first..first + registers).contains(&r));
            found.extend(batch.iter().filter(|i| {
                !is_product(i) && !is(&i.opcode, "ST") && !is(&i.opcode, "STS") && i.destination().is_some_and(open)
            }));
        }
        found
    }
}

/// Reads a line, if it is an instruction.
fn instruction(line: &str) -> Option<Instruction> {
    let rest = line.trim_start().strip_prefix("/*")?;
    let (address, rest) = rest.split_once("*/")?;
    usize::from_str_radix(address, 16).ok()?;
    // The encoding comes after the semicolon.
    let rest = rest.split_once(';').map_or(rest, |(before, _)| before).trim();
    let predicated = rest.starts_with('@');
    let rest = if predicated { rest.split_once(' ')?.1.trim_start() } else { rest };
    let (opcode, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(Instruction { opcode: opcode.to_owned(), operands: operands.trim().to_owned(), predicated, control: None })
}

/// Reads the line after an instruction, which has the upper half of its encoding only.
fn upper_half(line: &str) -> Option<u64> {
    let word = line.trim().strip_prefix("/* 0x")?.strip_suffix("*/")?;
    u64::from_str_radix(word.trim(), 16).ok()
}

fn is_local(instruction: &Instruction) -> bool {
    is(&instruction.opcode, "LDL") || is(&instruction.opcode, "STL")
}

/// Whether it is a warpgroup product, with any operand types.
pub(crate) fn is_product(instruction: &Instruction) -> bool {
    ["HGMMA", "QGMMA", "IGMMA"].iter().any(|name| is(&instruction.opcode, name))
}

/// Whether it is a product in tensor memory, with any operand types.
pub(crate) fn is_tensor_product(instruction: &Instruction) -> bool {
    ["UTCHMMA", "UTCQMMA", "UTCIMMA"].iter().any(|name| is(&instruction.opcode, name))
}

/// Whether an opcode has this name, with or without modifiers.
pub(crate) fn is(opcode: &str, name: &str) -> bool {
    opcode.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: of the loop around the store four instructions have three turns; the loop of products has one.
    #[test]
    fn loops_of_stores_are_counted_by_their_turns() {
        let sass = Sass::parse(
            "/*0000*/ MOV R0, R1 ;\n.L_tile:\n.L_product:\n/*0010*/ HGMMA.64x64x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;\n\
             /*0020*/ @P1 BRA `(.L_product) ;\n.L_step:\n/*0030*/ FADD R2, R2, R3 ;\n/*0040*/ NOP ;\n\
             /*0050*/ STSM.16.M88.4 [R16], R12 ;\n/*0060*/ MOV R4, R5 ;\n/*0070*/ @P2 BRA `(.L_step) ;\n\
             /*0080*/ @P3 BRA `(.L_tile) ;\n/*0090*/ EXIT ;",
        );
        assert_eq!((sass.executed(1), sass.executed(3)), (9, 9 + 2 * 4));
    }

    const TEXT: &str = "
        .text.gemm:
        /*0070*/               @P0 BRA `(.L_x_1) ;
        /*09d0*/                   WARPGROUP.ARRIVE ;
        /*0ae0*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR12], R24, UP0 ;
        /*0af0*/                   MOV R30, R2 ;
        /*0b00*/              @!UP1 UMOV UR4, 0x400 ;
        /*0b50*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;
        /*0b60*/                   MOV R31, R2 ;
        /*2430*/                   STSM.16.M88.4 [R16+0x4000], R4 ;
        ";

    #[test]
    fn instructions_are_read_and_counted() {
        let sass = Sass::parse(TEXT);
        assert_eq!(sass.instructions.len(), 8);
        assert_eq!((sass.count("HGMMA"), sass.count("STSM"), sass.count("UMOV"), sass.count("STS")), (2, 1, 1, 0));
        assert_eq!(sass.instructions[0].opcode, "BRA");
    }

    /// A special register is read into scoreboard 1, for which the shift waits.
    #[test]
    fn encodings_say_what_is_waited_for() {
        let sass = Sass::parse(
            "/*0050*/   S2R R0, SR_TID.X ;      /* 0x0000000000007919 */\n   /* 0x000e620000002100 */\n\
             /*0060*/   SHF.R.S32.HI R9, RZ, 0x1f, R0 ;   /* 0x0000001fff097819 */\n   /* 0x002fe40000011400 */",
        );
        assert_eq!(sass.instructions[0].operands, "R0, SR_TID.X");
        let control: Vec<_> = sass.instructions.iter().filter_map(|i| i.control).collect();
        let none = Control { stall: 2, writes: None, reads: None, waits: 0b10 };
        assert_eq!(control, [Control { stall: 1, writes: Some(1), reads: None, waits: 0 }, none]);
    }

    /// The second loop has more of the additions.
    #[test]
    fn local_memory_is_accessed_in_the_loop_of_products_or_elsewhere() {
        let sass = Sass::parse(
            "/*0000*/ STL [R1], R2 ;\n.L_x_1:\n/*0010*/ FFMA R2, R3, R4, R2 ;\n/*0020*/ LDL R5, [R1] ;\n\
             /*0030*/ @P0 BRA `(.L_x_1) ;\n.L_x_2:\n/*0040*/ FFMA R2, R3, R4, R2 ;\n/*0050*/ STL [R1], R2 ;\n\
             /*0060*/ FFMA.FTZ R2, R3, R4, R2 ;\n/*0070*/ @P0 BRA `(.L_x_2) ;\n/*0080*/ EXIT ;",
        );
        assert_eq!(sass.local_accesses_around("FFMA"), Some((1, 2)));
        assert_eq!(sass.local_accesses_around("HMMA"), None);
    }

    #[test]
    fn local_memory_is_the_producers_or_not() {
        let text = |first: &str, second: &str| {
            Sass::parse(&format!(
                "/*0000*/ USETMAXREG.{first} UP0, 0xe8 ;\n/*0010*/ STL [R1], R2 ;\n/*0020*/ LDL.LU R2, [R1] ;\n\
                 /*0030*/ USETMAXREG.{second} 0x28 ;\n/*0040*/ STL [R1], R2 ;"
            ))
        };
        assert_eq!(text("TRY_ALLOC.CTAPOOL", "DEALLOC.CTAPOOL").local_accesses_of_consumers(), 2);
        assert_eq!(text("DEALLOC.CTAPOOL", "TRY_ALLOC.CTAPOOL").local_accesses_of_consumers(), 1);
    }

    #[test]
    fn local_memory_and_fences_are_in_the_loop_of_products_or_not() {
        let text = |before: &str, inside: &str| {
            Sass::parse(&format!(
                ".L_x_1:\n/*0000*/ {before} ;\n.L_x_2:\n/*0010*/ HGMMA.64x64x16.F32 R24, gdesc[UR12], R24, gsb0 ;\n\
                 /*0020*/ {inside} ;\n/*0030*/ @!P0 BRA `(.L_x_2) ;\n/*0040*/ @P1 BRA `(.L_x_1) ;\n/*0050*/ EXIT ;"
            ))
        };
        let stray = |sass: Sass| sass.stray_between_products().map(|found| found.len());
        assert_eq!(stray(text("LDL R2, [R1]", "NOP")), Some(0));
        assert_eq!(stray(text("NOP", "LDL R2, [R1]")), Some(1));
        assert_eq!(stray(text("NOP", "@!P0 MEMBAR.ALL.GPU")), Some(1));
        assert_eq!(stray(Sass::parse("/*0010*/ HGMMA.64x64x16.F32 R24, R24 ;")), None);
    }

    #[test]
    fn loads_are_in_flight_until_one_is_read() {
        let text = |between: &str| {
            Sass::parse(&format!(
                "/*0000*/ LDG.E.128 R4, desc[UR4][R2.64] ;\n/*0010*/ {between} ;\n\
                 /*0020*/ LDG.E.128 R8, desc[UR4][R2.64+0x10] ;\n/*0030*/ FADD R0, R4, R8 ;"
            ))
        };
        assert_eq!(text("IADD3 R12, R13, 0x1, RZ").loads_in_flight(), 2);
        assert_eq!(text("FADD R0, R0, R7").loads_in_flight(), 1);
        assert_eq!(text("@P0 BRA `(.L_x_1)").loads_in_flight(), 1);
    }

    #[test]
    fn instructions_are_counted_in_the_loop_of_loads_or_up_to_the_exit() {
        let text = |branch: &str| {
            Sass::parse(&format!(
                "/*0000*/ MOV R2, R1 ;\n.L_x_1:\n/*0010*/ LDG.E.128 R4, desc[UR4][R2.64] ;\n\
                 /*0020*/ LDG.E.128 R8, desc[UR4][R2.64+0x10] ;\n/*0030*/ FADD R0, R4, R8 ;\n/*0040*/ FADD R0, R0, R9 ;\n\
                 /*0050*/ FADD R0, R0, R10 ;\n/*0060*/ {branch} ;\n/*0070*/ @P0 EXIT ;\n/*0080*/ STG [R2], R0 ;\n\
                 /*0090*/ EXIT ;\n/*00a0*/ NOP ;\n/*00b0*/ NOP ;"
            ))
        };
        assert_eq!(text("@P0 BRA `(.L_x_1)").instructions_for_a_load(), Some(3));
        assert_eq!(text("NOP").instructions_for_a_load(), Some(5));
        assert_eq!(Sass::parse(TEXT).instructions_for_a_load(), None);
    }

    #[test]
    fn a_write_to_an_open_accumulator_is_found() {
        let sass = Sass::parse(TEXT);
        let found = sass.writes_to_open_accumulators(32);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].operands, "R30, R2");
        assert!(sass.writes_to_open_accumulators(4).is_empty());
    }
}
