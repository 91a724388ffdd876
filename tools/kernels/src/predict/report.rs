//! Predictions as text: one in full, one as a line of the headline's table, and a timeline to draw.

use std::error::Error;
use std::fmt::Write;

use epilogue::gemm::SplitK;
use epilogue_runtime::Arch;

use super::issue::{Unit, Work};
use super::{Code, Prediction, Stage, Subject, predict};
use crate::families;

/// From this difference to the model's time on, in percent, the table of the headline's shapes says why.
const MUCH: f64 = 15.0;

/// Why predictions differ by much from the model's: the architecture, the beginning of the line, and the reason.
const REASONS: &[(Arch, &str, &str)] = &[
    (
        Arch::SM_90A,
        "1024x1024x1024",
        "more than half of so short a kernel is outside of products, for which the model's constants are smaller",
    ),
    (Arch::SM_80, "4096x4096x1024", OVERLAPPED),
    (Arch::SM_80, "4095x4097x1000", OVERLAPPED),
];

/// The report for kernels of several blocks on a multiprocessor.
const OVERLAPPED: &str = "with so little K the epilogue is a sixth of a block's time; the model adds it to the products, \
                          here another block multiplies meanwhile";

/// A prediction for a person to read.
pub(super) fn report(s: &Subject, code: &Code, prediction: &Prediction) -> Result<String, Box<dyn Error>> {
    let (warps, teams) = (prediction.warps, prediction.teams);
    let mut text = format!("{} on an {}\n{}; {}\n", s.name(), s.gpu, s.candidate.key, s.candidate.split_k);
    let count = |work: &Work| {
        let named = Unit::ALL.iter().zip(work.counts).filter(|(_, count)| *count > 0);
        let list: Vec<String> = named.map(|((_, name), count)| format!("{count} {name}")).collect();
        format!("{} ({})", work.instructions(), list.join(", "))
    };
    writeln!(text, "instructions of a warp")?;
    writeln!(text, "  prologue: {}", count(&code.prologue))?;
    writeln!(text, "  a k-tile: {}", count(&code.product))?;
    writeln!(text, "  a tile: {}", count(&code.tile))?;
    writeln!(text, "  after the last tile: {}", count(&code.end))?;
    if code.producer.instructions() > 0 {
        writeln!(text, "  the producer, a stage: {}", count(&code.producer))?;
    }
    if code.parts.counted_once > 0 {
        writeln!(text, "  {} loops of a tile are counted once", code.parts.counted_once)?;
    }
    let Stage { tensor, shared, issue, l2, memory, l2_bytes, memory_bytes } = prediction.stage;
    writeln!(
        text,
        "clocks of a k-tile, {warps} warps a scheduler: tensor cores {tensor:.0}, shared memory {shared:.0}, issuing \
         {issue:.0}; loads: L2 {l2:.0} ({l2_bytes:.0} bytes), memory {memory:.0} ({memory_bytes:.0} bytes)"
    )?;
    let (epilogue, limit) = prediction.epilogue;
    writeln!(
        text,
        "clocks of a tile beside its products: {epilogue:.0}, limited by {limit} (one warp alone {:.0}); {teams} team{}",
        code.tile.alone,
        if teams == 1 { "" } else { "s, one multiplies while the other's epilogue runs" }
    )?;
    let all = prediction.microseconds();
    let us = |clocks: f64| clocks / prediction.clocks_per_us;
    writeln!(text, "the slowest block")?;
    let shares = prediction.timeline.shares.iter().map(|(name, clocks)| (*name, us(*clocks)));
    for (name, us) in shares.chain([("the power limit", prediction.power)]).filter(|(_, us)| *us > 0.0) {
        writeln!(text, "  {name}: {us:.2} us, {:.1} %", 100.0 * us / all)?;
    }
    let model = s.candidate.microseconds;
    let difference = 100.0 * (all / model - 1.0);
    writeln!(
        text,
        "{all:.1} us, limited by {}; the model of the choice says {model:.1} us ({difference:+.1} %)",
        prediction.limiter
    )?;
    text.push_str("No GPU has measured this yet: its error is unknown.\n");
    Ok(text)
}

/// One block's timeline as JSON, for `cargo xtask predict` to draw: lanes with stretches of microseconds.
pub(super) fn json(s: &Subject, prediction: &Prediction) -> String {
    let us = |clocks: f64| clocks / prediction.clocks_per_us;
    let events = prediction.timeline.events.iter().filter(|event| event.end > event.begin).map(|event| {
        let (lane, phase) = (event.lane, event.phase.name());
        format!("[{lane}, \"{phase}\", {:.4}, {:.4}]", us(event.begin), us(event.end))
    });
    let events: Vec<String> = events.collect();
    format!("{{\"title\": \"{}\", \"events\": [{}]}}\n", s.name(), events.join(", "))
}

/// One line of the table of the headline's shapes.
pub(super) fn line(subject: &Subject, code: &Code) -> Result<String, std::fmt::Error> {
    let prediction = predict(subject, code);
    let (us, model) = (prediction.microseconds(), subject.candidate.microseconds);
    let us_of = |clocks: f64| clocks / prediction.clocks_per_us;
    let parts = prediction.timeline.shares.iter().map(|(name, clocks)| (*name, us_of(*clocks)));
    let parts = parts.chain([("the power limit", prediction.power)]).filter(|(_, us)| *us > 0.0);
    let parts = parts.map(|(name, us)| format!("{name} {us:.1}"));
    let tile = families::kernel(&subject.candidate.key).tile();
    let split_k = subject.candidate.split_k;
    let split = if split_k == SplitK::None { String::new() } else { format!(", {split_k}") };
    let difference = 100.0 * (us / model - 1.0);
    let mut line = format!(
        "{}: {tile}{split}: {us:.1} us, the model {model:.1} us ({difference:+.1} %); limited by {}: {}\n",
        subject.name(),
        prediction.limiter,
        parts.collect::<Vec<_>>().join(", "),
    );
    let reason = REASONS.iter().find(|(of, begin, _)| *of == subject.arch && line.starts_with(begin));
    match (reason, difference.abs() > MUCH) {
        (Some((.., reason)), true) => writeln!(line, "  the difference: {reason}")?,
        (None, true) => writeln!(line, "  the difference has no reason in REASONS yet")?,
        (Some(_), false) => writeln!(line, "  a reason in REASONS is left over")?,
        (None, false) => {}
    }
    Ok(line)
}
