//! The printed report.

use std::fmt::Write;

use epilogue::Device;

use crate::arguments::Arguments;
use crate::cases::CaseResult;
use crate::data::Sizes;

pub(crate) fn heading(device: &Device, arguments: &Arguments) -> String {
    let Sizes { tokens, columns, hidden, experts, top } = arguments.sizes;
    let rows = arguments.sizes.rows();
    format!(
        "device: {device}\n{tokens} tokens of {columns} columns in {}; {experts} experts of {hidden} hidden columns, of which \
         each token takes {top}: {rows} rows",
        arguments.element
    )
}

pub(crate) fn all(results: &[CaseResult], sizes: &Sizes) -> String {
    [rows(results), errors(results), times(results, sizes)].join("\n")
}

/// How many rows each expert has, as bars.
fn rows(results: &[CaseResult]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut text = String::from("\nrows of each expert\n");
    for CaseResult { case, counts, .. } in results {
        let least = counts.iter().copied().min().unwrap_or_default();
        let most = counts.iter().copied().max().unwrap_or_default().max(1);
        let bar = |count: &usize| if *count == 0 { '·' } else { HEIGHTS[(count * 7).div_ceil(most)] };
        let bars: String = counts.iter().map(bar).collect();
        let without = counts.iter().filter(|count| **count == 0).count();
        let _ = writeln!(text, "{:<16}{bars}  {least} to {most}; experts without any: {without}", case.name());
    }
    text
}

/// The largest error of each result.
fn errors(results: &[CaseResult]) -> String {
    let mut text = header("largest errors, of magnitude + root mean square", results, "allowed");
    for (i, checked) in results.first().map_or(&[][..], |result| &result.checked).iter().enumerate() {
        let _ = write!(text, "{:<48}", checked.name);
        for result in results {
            let checked = &result.checked[i];
            let mark = if checked.holds() { ' ' } else { '!' };
            let _ = write!(text, "{:>14.1e}{mark}", checked.error);
        }
        let _ = writeln!(text, "{:>14.1e}", checked.bound);
    }
    text
}

/// The time of each part.
fn times(results: &[CaseResult], sizes: &Sizes) -> String {
    let mut text = header("milliseconds", results, "");
    for (i, (part, _)) in results.first().map_or(&[][..], |result| &result.times).iter().enumerate() {
        let times = results.iter().map(|result| result.times[i].1);
        let _ = writeln!(text, "{part:<48}{}", columns(times));
    }
    let totals: Vec<f64> = results.iter().map(|result| result.times.iter().map(|(_, time)| time).sum()).collect();
    let _ = writeln!(text, "{:<48}{}", "all", columns(totals.iter().copied()));
    // A multiplication and an addition each.
    let operations = 2e-6 * sizes.multiplications() as f64;
    let _ = write!(text, "{:<48}{}", "Gflop/s of its products", columns(totals.iter().map(|ms| operations / ms)));
    text
}

fn header(first: &str, results: &[CaseResult], last: &str) -> String {
    let cases: String = results.iter().map(|result| format!("{:>14} ", result.case.name())).collect();
    format!("{}\n", format!("{first:<48}{cases}{last:>14}").trim_end())
}

fn columns(times: impl Iterator<Item = f64>) -> String {
    times.map(|time| format!("{time:>14.3} ")).collect::<String>().trim_end().to_owned()
}
