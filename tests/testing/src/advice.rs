//! Refusals that say what to do: a test follows the advice.

use std::fmt::Display;

/// Holds a refusal against the advice in its message, and gives the result of following it.
///
/// # Panics
/// If nothing is refused, the message has another advice, or following it fails.
#[track_caller]
pub fn advised<T, F>(refused: Result<T, impl Display>, advice: &str, followed: Result<F, impl Display>) -> F {
    let message = refused.err().expect(advice).to_string();
    assert!(message.contains(advice), "{message}");
    followed.unwrap_or_else(|error| panic!("{advice}: {error}"))
}
