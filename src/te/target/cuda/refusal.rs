//! Refuses what CUDA code does not support.

use crate::te::error::TeError;

pub(super) fn refuse(what: String) -> TeError {
    TeError::Target { what, target: "CUDA" }
}
