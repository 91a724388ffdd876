//! How far something is that takes long: what callbacks are given.

use std::fmt;

/// How far something is that takes long, such as [making a bundle](crate::compile::bundle::Builder::on_progress) or choosing a kernel
/// by measuring.
///
/// ```
/// use epilogue_runtime::{Activity, Progress};
///
/// let progress = Progress::new(Activity::Compiling, "bias_gelu_f16_128x128", 3).of(8);
/// assert_eq!(progress.to_string(), "3 of 8: compiling bias_gelu_f16_128x128");
/// assert_eq!(progress.fraction(), Some(0.375)); // what a bar shows
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The work that is done.
    pub activity: Activity,
    /// Which kernel it is done to.
    pub kernel: &'a str,
    /// How many steps are done.
    pub done: usize,
    /// The number of all steps; `None` if nobody knows beforehand.
    pub total: Option<usize>,
}

/// Work that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// A kernel is being compiled, or looked for among those that have been.
    Compiling,
    /// A kernel's time is being measured.
    Measuring,
    /// The work that was begun with this kernel is done.
    Done,
}

impl<'a> Progress<'a> {
    /// `done` steps of an unknown number are done.
    #[must_use]
    pub fn new(activity: Activity, kernel: &'a str, done: usize) -> Self {
        Self { activity, kernel, done, total: None }
    }

    /// Adds the number of all steps.
    #[must_use]
    pub fn of(self, total: usize) -> Self {
        Self { total: Some(total), ..self }
    }

    /// The part that is done, from 0 to 1, if it is known of how much.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        self.total.map(|total| self.done as f64 / total.max(1) as f64)
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compiling => "compiling",
            Self::Measuring => "measuring",
            Self::Done => "done with",
        })
    }
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.done)?;
        if let Some(total) = self.total {
            write!(f, " of {total}")?;
        }
        write!(f, ": {} {}", self.activity, self.kernel)
    }
}
