//! `published [--rows] [--set NAME=VALUE]… [--chart FILE]`: the model against what others measured.
//!
//! A row's *ratio* is the published time over the predicted one: above 1 the model promises more than anybody has
//! measured. Rows are put together by regime. In each, those that constants may be fitted to stand beside those by which
//! the model is judged. Parts and harnesses are written in the data, before anything is fitted.
//!
//! A regime has a verdict if two sources judge it. It is reached by a geometric mean within 5 % for large products and
//! within 15 % elsewhere, and by nine of ten rows within 20 %.

pub(crate) mod data;
mod price;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::fs;

use epilogue::gemm::{Machine, Parameter};
use rayon::prelude::*;

use self::data::{Part, Row, Split, Timed, Types};

/// The limits that decide a product's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Regime {
    /// The tensor cores and the power limit.
    Large,
    /// Its stores: K is at most 1024 in many tiles.
    ShortK,
    /// The memory's bandwidth: M or N is at most 256.
    FewRows,
    /// Waves and latencies: at most 2048 rows and columns.
    Small,
    /// 8-bit floating-point types.
    Fp8,
    /// K is shared among blocks.
    Split,
}

impl Regime {
    const ALL: [Self; 6] = [Self::Large, Self::ShortK, Self::FewRows, Self::Small, Self::Fp8, Self::Split];

    fn of(row: &Row) -> Self {
        let [m, n, k, _] = row.extents;
        match (&row.kernel, row.types) {
            (Timed::Sm80 { split: Split::Stream | Split::Serial(_), .. }, _) => Self::Split,
            (_, Types::FastE4m3 | Types::ScaledE4m3) => Self::Fp8,
            _ => Self::of_extents([m, n, k]),
        }
    }

    /// The regime of a library's choice for a product without FP8.
    pub(crate) fn of_extents([m, n, k]: [usize; 3]) -> Self {
        match () {
            () if m.min(n) <= 256 => Self::FewRows,
            () if m.max(n) <= 2560 && k <= 4096 => Self::Small,
            () if k <= 1024 => Self::ShortK,
            () => Self::Large,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::ShortK => "short K",
            Self::FewRows => "few rows",
            Self::Small => "small",
            Self::Fp8 => "FP8",
            Self::Split => "split",
        }
    }

    /// How far the geometric mean may be from 1.
    const fn tolerance(self) -> f64 {
        if matches!(self, Self::Large) { 0.05 } else { 0.15 }
    }
}

/// A row with the model's word on it.
struct Priced<'r> {
    row: &'r Row,
    regime: Regime,
    /// The published time over the predicted one.
    ratio: f64,
    kernel: String,
}

/// The rows that are judged or fitted, priced on machines that `changed` may change.
fn priced<'r>(rows: &'r [Row], changed: &(dyn Fn(Machine) -> Machine + Sync)) -> Result<Vec<Priced<'r>>, String> {
    let counted = |row: &&Row| row.bad.is_none() && row.is_judged() && row.is_resolved();
    let of = |row: &'r Row| {
        let price = || {
            let machine = changed(price::machine(row)?);
            let candidate = price::candidate(&machine, row)?;
            let predicted = price::measured(&machine, row, &candidate)?;
            let kernel = format!("{}; {}", candidate.key, candidate.split_k);
            Ok(Priced { row, regime: Regime::of(row), ratio: row.microseconds / predicted, kernel })
        };
        price().map_err(|why: Box<dyn Error>| format!("{}, {:?}: {why}", row.source, row.extents))
    };
    let rows: Vec<&Row> = rows.iter().filter(counted).collect();
    rows.into_par_iter().map(of).collect()
}

/// How far judged rows of a regime are from the model.
pub(crate) struct Bar {
    pub(crate) regime: Regime,
    pub(crate) rows: usize,
    pub(crate) sources: usize,
    /// The geometric mean of published over predicted times.
    pub(crate) mean: f64,
    /// Bounds between which nine of ten rows lie.
    pub(crate) between: [f64; 2],
}

/// The model's error in each regime that something judges.
pub(crate) fn bars() -> Result<Vec<Bar>, String> {
    let rows = data::all()?;
    let all = priced(&rows, &|machine| machine)?;
    let of = |regime: Regime| {
        let judged = || all.iter().filter(move |p| p.regime == regime && p.row.part == Part::Judge);
        let mut ratios: Vec<f64> = judged().map(|p| p.ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len().checked_sub(1)?;
        let at = |share: f64| ratios[(share * last as f64).round() as usize];
        let sources: BTreeSet<&str> = judged().map(|p| p.row.source.as_str()).collect();
        let mean = Summary::of(&ratios).mean;
        Some(Bar { regime, rows: ratios.len(), sources: sources.len(), mean, between: [at(0.05), at(0.95)] })
    };
    Ok(Regime::ALL.into_iter().filter_map(of).collect())
}

/// The machine that a row was timed on, and the model's time for the row in microseconds.
pub(crate) fn predicted(row: &Row) -> Result<(Machine, f64), String> {
    let price = || {
        let machine = price::machine(row)?;
        let candidate = price::candidate(&machine, row)?;
        let predicted = price::measured(&machine, row, &candidate)?;
        Ok((machine, predicted))
    };
    price().map_err(|why: Box<dyn Error>| format!("{}, {:?}: {why}", row.source, row.extents))
}

/// Ratios in short: how many, their geometric mean, the least, the largest, and the share within 20 %.
struct Summary {
    count: usize,
    mean: f64,
    least: f64,
    largest: f64,
    near: f64,
}

impl Summary {
    fn of(ratios: &[f64]) -> Self {
        let count = ratios.len();
        let near = ratios.iter().filter(|ratio| (1.0 / 1.2..=1.2).contains(*ratio)).count();
        Self {
            count,
            mean: (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / count.max(1) as f64).exp(),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            largest: ratios.iter().copied().fold(0.0, f64::max),
            near: near as f64 / count.max(1) as f64,
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.count {
            0 => write!(f, "{:>4}{:>7}{:>14}{:>7}", 0, "", "", ""),
            _ => {
                let range = format!("{:.2} to {:.2}", self.least, self.largest);
                write!(f, "{:>4}{:>7.2}{range:>14}{:>6.0}%", self.count, self.mean, 100.0 * self.near)
            }
        }
    }
}

/// The table by regime, and by source.
fn table(rows: &[Row], all: &[Priced<'_>]) -> String {
    let mut text = String::from("published time / predicted time: rows, geometric mean, range, share within 20 %\n");
    let _ = writeln!(text, "{:<10}{:^36}{:^36}verdict", "", "fitted", "judged");
    for regime in Regime::ALL {
        let of = |part: Part| all.iter().filter(move |p| p.regime == regime && p.row.part == part);
        let ratios = |part: Part| of(part).map(|p| p.ratio).collect::<Vec<_>>();
        let (fitted, judged) = (Summary::of(&ratios(Part::Fit)), Summary::of(&ratios(Part::Judge)));
        let sources: BTreeSet<&str> = of(Part::Judge).map(|p| p.row.source.as_str()).collect();
        let reached = judged.mean.ln().abs() <= (1.0 + regime.tolerance()).ln() && judged.near >= 0.9;
        let verdict = match sources.len() {
            ..2 => "none: fewer than two sources judge it",
            _ if reached => "reached",
            _ => "not reached",
        };
        let _ = writeln!(text, "{:<10}{fitted:>36}{judged:>36}  {verdict}", regime.name());
    }
    let _ = writeln!(text);
    let mut groups: BTreeMap<(Part, &str, String, Regime), Vec<f64>> = BTreeMap::new();
    for p in all {
        groups.entry((p.row.part, &p.row.source, p.row.gpu.to_string(), p.regime)).or_default().push(p.ratio);
    }
    for ((part, source, gpu, regime), ratios) in groups {
        let part = if part == Part::Fit { "fitted" } else { "judged" };
        let _ = writeln!(text, "{part} {source:<26}{gpu:<20}{:<10}{}", regime.name(), Summary::of(&ratios));
    }
    let count = |suits: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| suits(row)).count();
    let _ = writeln!(
        text,
        "\n{} rows: {} priced, {} bad, {} shorter than their harness resolves, {} waiting for their \
         kernels, {} of boards that are not said",
        rows.len(),
        all.len(),
        count(&|row| row.bad.is_some()),
        count(&|row| row.bad.is_none() && row.is_judged() && !row.is_resolved()),
        count(&|row| row.part == Part::Waiting),
        count(&|row| row.part == Part::Unknown),
    );
    text.push_str(&choices(all));
    text
}

/// Where several kernels of a product are published by one source: the time of the one that the model ranks first, over
/// the best time.
fn choices(all: &[Priced<'_>]) -> String {
    let mut groups: BTreeMap<_, Vec<&Priced<'_>>> = BTreeMap::new();
    for p in all.iter().filter(|p| !matches!(p.row.kernel, Timed::Chosen(_))) {
        groups.entry((&p.row.source, p.row.gpu, p.row.extents, p.row.types)).or_default().push(p);
    }
    let mut text = String::new();
    let mut losses = Vec::new();
    for ((source, _, [m, n, k, _], _), group) in groups {
        let kernels: BTreeSet<&Timed> = group.iter().map(|p| &p.row.kernel).collect();
        let predicted = |p: &&&Priced<'_>| p.row.microseconds / p.ratio;
        let first = group.iter().min_by(|x, y| predicted(x).total_cmp(&predicted(y)));
        let best = group.iter().map(|p| p.row.microseconds).fold(f64::INFINITY, f64::min);
        if let Some(first) = first.filter(|_| kernels.len() > 1) {
            let loss = first.row.microseconds / best;
            losses.push(loss);
            let _ = writeln!(text, "  {source} {m}x{n}x{k}: of {} kernels {}, {loss:.2}", kernels.len(), first.kernel);
        }
    }
    let Summary { mean, largest, count, .. } = Summary::of(&losses);
    format!(
        "\nchoices: the model's first over the best published, {count} products: {mean:.3}, at worst {largest:.2}\n{text}"
    )
}

/// Every row.
fn list(all: &[Priced<'_>]) -> String {
    let mut text = String::new();
    for p in all {
        let Row { source, gpu, extents: [m, n, k, l], types, microseconds, .. } = p.row;
        let predicted = microseconds / p.ratio;
        let _ = writeln!(
            text,
            "{:<10}{source:<26}{gpu:<16}{m}x{n}x{k}x{l} {types:?}: {microseconds:.1} us, {:.0} T/s; predicted {predicted:.1}, \
             {:.2}; {}",
            p.regime.name(),
            p.row.operations() * 1e-6 / microseconds,
            p.ratio,
            p.kernel
        );
    }
    text
}

/// A machine with numbers of the model as the command line asks.
fn with(machine: Machine, changes: &[(Parameter, f64)]) -> Machine {
    changes.iter().fold(machine, |machine, (parameter, value)| parameter.with(&machine, *value))
}

/// `--set NAME=VALUE`.
fn change(text: &str) -> Result<(Parameter, f64), String> {
    let (name, value) = text.split_once('=').ok_or("--set takes NAME=VALUE")?;
    let known = Parameter::all().find(|parameter| parameter.name() == name);
    let parameter = known.ok_or_else(|| {
        let names: Vec<&str> = Parameter::all().map(|parameter| parameter.name()).collect();
        format!("`{name}` is no number of the model: there are {}", names.join(", "))
    })?;
    Ok((parameter, value.parse().map_err(|_| format!("`{value}` is no number"))?))
}

/// The table with the model's own numbers.
#[cfg(test)]
pub(crate) fn text() -> Result<String, String> {
    let rows = data::all()?;
    Ok(table(&rows, &priced(&rows, &|machine| machine)?))
}

/// Runs the command.
pub(crate) fn print(words: &[String]) -> Result<(), Box<dyn Error>> {
    let (mut changes, mut rest, mut every, mut chart) = (Vec::new(), words.iter(), false, None);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--rows" => every = true,
            "--set" => changes.push(change(rest.next().ok_or("--set takes NAME=VALUE")?)?),
            "--chart" => chart = Some(rest.next().ok_or("--chart takes a file")?),
            other => {
                return Err(
                    format!("`{other}` is not an option; there are --rows, --set NAME=VALUE and --chart FILE").into()
                );
            }
        }
    }
    let rows = data::all()?;
    let all = priced(&rows, &|machine| with(machine, &changes))?;
    if every {
        print!("{}", list(&all));
    }
    print!("{}", table(&rows, &all));
    if let Some(file) = chart {
        let lines = all.iter().map(|p| {
            let part = if p.row.part == Part::Fit { "fitted" } else { "judged" };
            format!("{},{part},{},{}\n", p.regime.name(), p.row.microseconds, p.ratio)
        });
        fs::write(file, lines.collect::<String>())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data parse, and few rows are bad.
    #[test]
    fn published_times_are_read() {
        let rows = data::all().expect("the data");
        let bad = rows.iter().filter(|row| row.bad.is_some()).count();
        assert!(rows.len() >= 300 && bad * 20 <= rows.len(), "{} rows, {bad} bad", rows.len());
        for part in [Part::Fit, Part::Judge] {
            let of = |row: &&Row| row.part == part;
            let sources: BTreeSet<&str> = rows.iter().filter(of).map(|row| row.source.as_str()).collect();
            assert!(sources.len() >= 4, "{part:?}: {sources:?}");
        }
        // A source is fitted or judged as a whole.
        let parts: BTreeSet<(&str, Part)> = rows.iter().map(|row| (row.source.as_str(), row.part)).collect();
        let sources: BTreeSet<&str> = parts.iter().map(|(source, _)| *source).collect();
        assert_eq!(parts.len(), sources.len());
    }
}
