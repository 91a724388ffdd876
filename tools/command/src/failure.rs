//! Why a task ends without what was asked for.

use std::fmt;
use std::path::Path;

use crate::source::Mistakes;

/// Why a task ends without what was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request is refused: status 2.
    Refused(String),
    /// It went wrong: status 1.
    Wrong(String),
    /// All was done, and the verdict is bad: what is printed, and status 1.
    Judged(String),
}

impl Failure {
    pub(crate) fn refused(reason: impl fmt::Display) -> Self {
        Self::Refused(format!("error: {reason}"))
    }

    pub(crate) fn wrong(reason: impl fmt::Display) -> Self {
        Self::Wrong(format!("error: {reason}"))
    }

    /// A file that can't be read or written.
    pub(crate) fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::refused(format_args!("{}: {error}", path.display()))
    }

    pub(crate) const fn status(&self) -> u8 {
        match self {
            Self::Refused(_) => 2,
            Self::Wrong(_) | Self::Judged(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) | Self::Wrong(text) | Self::Judged(text) => f.write_str(text),
        }
    }
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Self {
        Self::Refused(mistakes.to_string())
    }
}

impl From<epilogue::Error> for Failure {
    fn from(error: epilogue::Error) -> Self {
        use epilogue::runtime::Error as Runtime;
        match &error {
            epilogue::Error::OutsideBounds(_) => Self::wrong(error),
            epilogue::Error::Runtime(Runtime::Compile(_) | Runtime::Emulation { .. } | Runtime::Races { .. }) => {
                Self::wrong(error)
            }
            _ => Self::refused(error),
        }
    }
}

impl From<epilogue::runtime::Error> for Failure {
    fn from(error: epilogue::runtime::Error) -> Self {
        epilogue::Error::from(error).into()
    }
}
