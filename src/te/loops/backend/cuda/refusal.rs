//! Refuses what CUDA code does not support.

use crate::te::error::{LoweringError, TeError};

pub(super) fn refuse(what: String) -> TeError {
    LoweringError::Target { what, target: "CUDA" }.into()
}
