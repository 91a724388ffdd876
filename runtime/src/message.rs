//! Errors print their message where a program prints their `Debug`, as `main` does with the error that it returns. So a
//! message reaches whoever uses `?`.
//!
//! For this crate and `epilogue`, not for users.

use std::error::Error;
use std::fmt;

pub use crate::__message_debug as debug;

/// Implements `Debug` for errors, by their messages.
#[doc(hidden)]
#[macro_export]
macro_rules! __message_debug {
    ($($error:ty),+ $(,)?) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::message::write(self, f)
            }
        })+
    };
}

/// Writes an error's message, and those of its sources that the message doesn't have in it.
///
/// # Errors
/// The formatter's errors.
pub fn write(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let text = error.to_string();
        if !said.contains(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
        source = error.source();
    }
    f.write_str(&said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(thiserror::Error)]
    #[error("it is cold")]
    struct Cold;
    debug!(Cold);

    /// Its message has that of its source.
    #[derive(thiserror::Error)]
    #[error("no start: {0}")]
    struct NoStart(#[source] Cold);
    debug!(NoStart);

    /// Its message doesn't.
    #[derive(thiserror::Error)]
    #[error("no journey")]
    struct NoJourney(#[source] NoStart);
    debug!(NoJourney);

    #[test]
    fn debug_is_the_message_with_all_reasons() {
        assert_eq!(format!("{:?}", NoStart(Cold)), "no start: it is cold");
        assert_eq!(format!("{:?}", NoJourney(NoStart(Cold))), "no journey: no start: it is cold");
        let boxed: Box<dyn Error> = Box::new(NoJourney(NoStart(Cold)));
        assert_eq!(format!("Error: {boxed:?}"), "Error: no journey: no start: it is cold");
    }
}
