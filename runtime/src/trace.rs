//! Spans and events of this library for the crate `tracing`; without the feature `tracing`, nothing at all.
//!
//! For this crate and `epilogue`, not for users: the guide's page of services lists what there is to see. The target is
//! always `epilogue`. Values are computed only where somebody listens.

#[cfg(feature = "tracing")]
pub use tracing;

pub use crate::{__trace_event as event, __trace_span as span};

/// A value as its `Display` text.
#[cfg(feature = "tracing")]
pub use tracing::field::display as text;

/// A value as its `Display` text.
#[cfg(not(feature = "tracing"))]
pub const fn text<T: std::fmt::Display>(value: T) -> T {
    value
}

/// A value as its `Debug` text.
#[cfg(feature = "tracing")]
pub use tracing::field::debug;

/// A value as its `Debug` text.
#[cfg(not(feature = "tracing"))]
pub const fn debug<T: std::fmt::Debug>(value: T) -> T {
    value
}

/// Stands in for a span without the feature `tracing`.
#[cfg(not(feature = "tracing"))]
#[derive(Debug)]
pub struct NoSpan;

/// An event: `event!(DEBUG, "message", name = value, …)`.
#[cfg(feature = "tracing")]
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_event {
    ($level:ident, $message:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::trace::tracing::event!(
            target: "epilogue", $crate::trace::tracing::Level::$level, { $($name = $value),* }, $message
        )
    };
}

/// An event that nobody hears: its values have types, and are never computed.
#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_event {
    ($level:ident, $message:literal $(, $name:ident = $value:expr)* $(,)?) => {
        if false {
            $( let _ = $value; )*
        }
    };
}

/// A span that lasts as long as the value given: `let _span = span!(DEBUG, "name", field = value, …);`.
#[cfg(feature = "tracing")]
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_span {
    ($level:ident, $span:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::trace::tracing::span!(
            target: "epilogue", $crate::trace::tracing::Level::$level, $span, $($name = $value),*
        ).entered()
    };
}

/// A span that nobody sees.
#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __trace_span {
    ($level:ident, $span:literal $(, $name:ident = $value:expr)* $(,)?) => {{
        if false {
            $( let _ = $value; )*
        }
        $crate::trace::NoSpan
    }};
}
