//! Numbers on which the model's choices depend. Every number in its times is varied, one at a time. The choices that
//! change are judged by the model as it is.

use std::error::Error;
use std::fmt::Write;

use epilogue::gemm::{Candidate, Machine, Parameter};
use rayon::prelude::*;

use super::families::{self, Family};
use super::shapes::Shape;

/// By how much a number is varied, downward and upward.
const VARIED: f64 = 0.3;

/// Candidates that may become the best one. A time grows by no more than a factor of 1 / (1 - 0.3) where one number
/// changes, and shrinks by no more; so a kernel of twice the best one's time stays behind it, and three times is ample.
const NEAR: f64 = 3.0;

/// A product whose choice is made again and again: its name, and the candidates, best first.
struct Case<'a> {
    shape: &'a Shape,
    near: Vec<Candidate>,
}

impl<'a> Case<'a> {
    fn of(shape: &'a Shape, mut ranked: Vec<Candidate>) -> Self {
        let limit = NEAR * ranked.first().map_or(0.0, |best| best.microseconds);
        ranked.retain(|candidate| candidate.microseconds <= limit);
        Self { shape, near: ranked }
    }

    /// A candidate's time on a machine.
    fn time(&self, machine: &Machine, candidate: &Candidate) -> f64 {
        let estimated = self.shape.offer().estimate(machine, &candidate.key, candidate.split_k);
        estimated.map_or(f64::INFINITY, |candidate| candidate.microseconds)
    }

    /// Time that the machine's choice loses, by the times that the candidates were ranked by: 0 if it is the same. Where two
    /// are equally fast, the one that was better before is chosen.
    fn loss(&self, machine: &Machine) -> f64 {
        let times = self.near.iter().map(|candidate| (candidate, self.time(machine, candidate)));
        let chosen = times.min_by(|(_, x), (_, y)| x.total_cmp(y));
        match (chosen, self.near.first()) {
            (Some((chosen, _)), Some(best)) => chosen.microseconds / best.microseconds - 1.0,
            _ => 0.0,
        }
    }
}

/// Changes that one variation causes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Effect {
    /// The number of products with another choice.
    changed: usize,
    /// The largest loss, as a share of the time, and the index of the product that has it.
    worst: (f64, usize),
    /// The sum of all losses.
    sum: f64,
}

fn effect(cases: &[Case<'_>], machine: &Machine) -> Effect {
    let mut effect = Effect::default();
    for (place, case) in cases.iter().enumerate() {
        let loss = case.loss(machine);
        effect.changed += usize::from(loss > 0.0);
        effect.sum += loss;
        if loss > effect.worst.0 {
            effect.worst = (loss, place);
        }
    }
    effect
}

/// Measurements that tell a number's value on a family's GPU, as steps of the bundle: their names begin with these.
fn measured_by(family: &dyn Family, name: &str) -> &'static str {
    match name {
        "machine.memory" => "speed/copy",
        "machine.clock" | "machine.power_clock" | "launches.burst_clock" => "picks/gemm (the clocks seen)",
        other => family.measured_by(other).unwrap_or("picks/gemm"),
    }
}

/// A family's table: a line for each number that changes a choice, the one that costs most first; then those that don't.
fn of_family(text: &mut String, of: &dyn Family, cases: &[Case<'_>]) -> Result<(), Box<dyn Error>> {
    let (gpu, machine) = of.gpu();
    let others = families::all_predicted().filter(|other| other.arch() != of.arch());
    let others: Vec<&str> = others.map(Family::constants).collect();
    let is_other = |p: &Parameter| others.iter().any(|constants| p.name().starts_with(constants));
    let count = cases.len();
    let parameters: Vec<Parameter> = Parameter::all().filter(|p| !is_other(p)).collect();
    let mut rows: Vec<(Parameter, [Effect; 2])> = parameters
        .into_par_iter()
        .map(|parameter| {
            let value = parameter.of(&machine);
            let varied = |factor: f64| effect(cases, &parameter.with(&machine, value * factor));
            (parameter, [varied(1.0 - VARIED), varied(1.0 + VARIED)])
        })
        .collect();
    let sum = |effects: &[Effect; 2]| effects[0].sum + effects[1].sum;
    // By the loss; where there is none, in the order of the constants.
    rows.sort_by(|(_, x), (_, y)| sum(y).total_cmp(&sum(x)));
    let (moving, still): (Vec<_>, Vec<_>) = rows.iter().partition(|(_, both)| both.iter().any(|e| e.changed > 0));
    writeln!(text, "\n== kernels for {} on an {gpu}: {count} products ==", of.arch())?;
    for (parameter, both) in &moving {
        let value = parameter.of(&machine);
        write!(text, "{} = {value} {}:", parameter.name(), parameter.unit())?;
        for (sign, Effect { changed, worst, sum }) in ["-30 %", "; +30 %"].into_iter().zip(both) {
            write!(text, " {sign} changes {changed}")?;
            if *changed > 0 {
                let mean = 100.0 * sum / *changed as f64;
                let (loss, place) = (100.0 * worst.0, worst.1);
                write!(text, ", which lose {mean:.1} %, at worst {loss:.1} % ({})", cases[place].shape.name())?;
            }
        }
        writeln!(text, "; measured by {}", measured_by(of, parameter.name()))?;
    }
    let still: Vec<&str> = still.iter().map(|(parameter, _)| parameter.name()).collect();
    writeln!(text, "change nothing: {}", still.join(", "))?;
    Ok(())
}

/// The ablation as text, of all families.
pub(crate) fn table() -> Result<String, Box<dyn Error>> {
    let mut text = String::from(
        "# What the model's choices depend on. Every number of the model is varied by 30 %, one at a time; a choice that\n\
         # changes loses what the model without the variation says. The number whose variations lose most comes first,\n\
         # with the step of the GPU bundle (tools/bundle) that tells its value.\n",
    );
    let shapes = Shape::all()?;
    for family in families::all_predicted() {
        let taken = shapes.iter().filter(|shape| family.multiplies(shape));
        let cases = taken.map(|shape| Ok(Case::of(shape, shape.ranked(family)?)));
        of_family(&mut text, family, &cases.collect::<Result<Vec<_>, Box<dyn Error>>>()?)?;
    }
    Ok(text)
}
