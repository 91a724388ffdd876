//! Printing for tasks: if nobody reads on, as with `cargo xtask prose | head`, the task ends without a panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};

/// The exit status of a program that a closed pipe ended, as shells give it.
const CLOSED: i32 = 128 + 13;

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Prints a line to the standard output.
pub(crate) fn line(text: Arguments<'_>) {
    print(format_args!("{text}\n"));
}

/// Prints text as it is.
pub(crate) fn print(text: Arguments<'_>) {
    match stdout().lock().write_fmt(text) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(CLOSED),
        Err(error) => {
            eprintln!("the standard output can't be written: {error}");
            std::process::exit(1);
        }
    }
}
