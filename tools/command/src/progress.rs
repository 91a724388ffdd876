//! A line on standard error while something takes seconds, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Does `work` while the line says what it is, and for how long.
pub(crate) fn shown<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let line = ProgressBar::new_spinner().with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
        line.set_style(style);
    }
    line.enable_steady_tick(Duration::from_millis(200));
    let done = work();
    line.finish_and_clear();
    done
}
