//! Writes the `Config` of a kernel for sm_90a: the key as C++ text.

use crate::cuda::Writer;
use crate::evt::Cost;
use crate::gemm::families::sm90::kernel::{Hint, Schedule, SharedMap, Sm90Key, Traffic};
use crate::gemm::kernel::SplitKind;
use crate::gemm::problem::Major;

/// The most instructions of an epilogue without a loop: 160 KB, about what the instruction caches hold. With more,
/// NVRTC 13.0 also takes long, and kernels spill.
const MOST_INSTRUCTIONS: usize = 10_000;
/// The most instructions in one round of a loop. A loop has a price: it moves the accumulators.
const IN_ROUND: usize = 6_000;

/// Estimated instructions per element. Some tensors may be accessed without tensor copies.
fn instructions(e: &Cost, traffic: &Traffic) -> usize {
    let reductions = 8 * (e.row_reductions + e.all_reductions) + 12 * e.column_reductions;
    let copied = traffic.inputs.len() + traffic.outputs.len();
    let direct = (e.loads + e.stores).saturating_sub(copied);
    8 * (1 + e.later_sweeps) + e.simple_operations + 24 * e.costly_operations + 6 * copied + 40 * direct + reductions
}

impl Sm90Key {
    /// The rounds that the epilogue's loop makes over a tile's columns. Code of at most
    /// `MOST_INSTRUCTIONS` takes one round. Longer code takes enough rounds for at most `IN_ROUND` in each, if the steps can be
    /// divided so.
    #[must_use]
    pub fn epilogue_rounds(&self, epilogue: &Cost, traffic: &Traffic) -> usize {
        let elements = self.tile.accumulator_registers() / self.accumulators;
        // In groups lanes store what boxes don't: that is code of its own.
        let by_lanes = if self.reading.divides_rows() { 30 * traffic.outputs.len() } else { 0 };
        let instructions = elements * (instructions(epilogue, traffic) + by_lanes);
        if instructions <= MOST_INSTRUCTIONS {
            return 1;
        }
        let steps = self.result_tile().1 / self.staging.step.max(1);
        let rounds = (1..=steps).filter(|rounds| steps.is_multiple_of(*rounds));
        rounds.into_iter().find(|rounds| instructions / rounds <= IN_ROUND).unwrap_or(steps.max(1))
    }

    /// The `Config` that configures the headers of `src/device/sm90/`.
    #[must_use]
    pub fn configuration(&self, map: &SharedMap, epilogue_rounds: usize) -> String {
        let (tile_m, tile_n) = self.product_tile();
        let (cluster_rows, cluster_columns) = self.mma_cluster();
        let (first, second) = self.mma_majors();
        let (first_hint, second_hint) =
            if self.swap_ab { (self.hints.b, self.hints.a) } else { (self.hints.a, self.hints.b) };
        let (producer_registers, consumer_registers) = self.registers().unwrap_or((0, 0));
        let (a_stage, b_stage) = self.stage_bytes();
        let (a_element, b_element) = self.mma_sizes();
        let numbers: [(&str, usize); 43] = [
            ("TILE_M", tile_m),
            ("TILE_N", tile_n),
            ("MMA_ROWS", self.tile.rows),
            ("MMA_COLUMNS", self.tile.columns),
            ("ACCUMULATORS", self.accumulators),
            ("TILE_K", self.instruction.tile_k()),
            ("A_ELEMENT_BYTES", a_element),
            ("B_ELEMENT_BYTES", b_element),
            ("CONSUMERS", self.tile.consumers),
            ("WG_ROWS", self.tile.warpgroup_rows()),
            ("WG_COLUMNS", self.tile.columns),
            ("STAGES", self.stages),
            ("PENDING", self.pending),
            ("CLUSTER_M", self.cluster.m),
            ("CLUSTER_N", self.cluster.n),
            ("CLUSTER_ROWS", cluster_rows),
            ("CLUSTER_COLUMNS", cluster_columns),
            ("PRODUCER_REGISTERS", producer_registers),
            ("CONSUMER_REGISTERS", consumer_registers),
            ("GROUP", self.raster.group),
            ("STEP", self.staging.step),
            ("EPILOGUE_ROUNDS", epilogue_rounds),
            ("OUTPUT_STAGES", map.output_stages),
            ("AUX_STAGES", map.input_stages),
            ("A_STAGE_BYTES", a_stage),
            ("B_STAGE_BYTES", b_stage),
            ("STAGE_TX_BYTES", a_stage + b_stage),
            ("OUTPUT_STAGE_BYTES", map.output_stage_bytes),
            ("AUX_STAGE_BYTES", map.input_stage_bytes),
            ("AUX_TX_BYTES", map.input_transfer_bytes),
            ("A_OFFSET", map.a.start),
            ("B_OFFSET", map.b.start),
            ("OUTPUT_OFFSET", map.outputs.start),
            ("AUX_OFFSET", map.inputs.start),
            ("VECTOR_OFFSET", map.vectors.start),
            ("REDUCTION_OFFSET", map.reductions.start),
            ("REDUCTION_BYTES", map.reductions.len()),
            ("EXCHANGE_OFFSET", map.exchange.start),
            ("EXCHANGE_WORDS", map.exchange_words),
            ("CONTROL_OFFSET", map.control.start),
            ("CONTROL_BYTES", map.control.len()),
            ("SHARED_BYTES", map.bytes()),
            ("THREADS", self.threads()),
        ];
        let mut code = Writer::new();
        writeln!(code, "struct Config {{\nusing Accumulator = {};", self.instruction.accumulator().name());
        let enumerators = [
            ("Schedule", "SCHEDULE", schedule_name(self.tile.schedule)),
            ("Major", "A_MAJOR", major_name(first)),
            ("Major", "B_MAJOR", major_name(second)),
            ("SplitK", "SPLIT_K", split_name(self.split_k)),
            ("Hint", "A_HINT", hint_name(first_hint)),
            ("Hint", "B_HINT", hint_name(second_hint)),
            ("Hint", "OUTPUT_HINT", hint_name(self.hints.outputs)),
        ];
        for (kind, name, value) in enumerators {
            writeln!(code, "static constexpr sm90::{kind} {name} = sm90::{kind}::{value};");
        }
        let flags = [
            ("SPLIT_COLUMNS", false),
            ("SWAP_AB", self.swap_ab),
            ("RASTER_N", self.raster.along_n),
            ("PROMOTE", self.promoted),
            ("DEPENDENT_LAUNCH", self.dependent_launch),
        ];
        for (name, value) in flags {
            writeln!(code, "static constexpr bool {name} = {value};");
        }
        for (name, value) in numbers {
            writeln!(code, "static constexpr int {name} = {value};");
        }
        writeln!(code, "}};");
        code.text()
    }
}

const fn schedule_name(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::Cooperative => "Cooperative",
        Schedule::PingPong => "PingPong",
    }
}

const fn major_name(major: Major) -> &'static str {
    match major {
        Major::K => "K",
        Major::Mn => "MN",
    }
}

const fn split_name(split_k: SplitKind) -> &'static str {
    match split_k {
        SplitKind::None => "None",
        SplitKind::Serial => "Serial",
        SplitKind::Parallel => "Parallel",
        SplitKind::Stream => "Stream",
    }
}

const fn hint_name(hint: Hint) -> &'static str {
    match hint {
        Hint::Normal => "Normal",
        Hint::First => "First",
        Hint::Last => "Last",
    }
}
