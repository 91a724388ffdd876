//! What has no CUDA code.

use crate::te::error::TeError;

pub(super) fn refuse(what: String) -> TeError {
    TeError::Target { what, target: "CUDA" }
}
