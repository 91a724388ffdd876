//! The errors of tensor expressions, by the stage that finds them.

mod einsum;
mod expression;
mod lowering;
mod run;
mod scan;
mod schedule;

use std::sync::Arc;

use epilogue_runtime::DataError;

pub use self::einsum::EinsumError;
pub use self::expression::ExpressionError;
pub use self::lowering::LoweringError;
pub use self::run::RunError;
pub use self::scan::ScanError;
pub use self::schedule::ScheduleError;

/// A mistake in a tensor expression, a schedule, or a call of a built kernel. The message says what was given, what is
/// allowed and what to do.
///
/// ```
/// use epilogue::ElementType::F16;
/// use epilogue::te::{self, ExpressionError, TeError};
///
/// let (x, half) = (te::placeholder([4], "x"), te::placeholder_of(F16, [4], "half"));
/// let error = te::compute([4], "y", |[i]| x.at([i]) + half.at([i])).unwrap_err();
/// assert!(matches!(error, TeError::Expression(ExpressionError::MixedTypes { .. })));
/// assert_eq!(error.to_string(), "operands of types f32 and f16 don't mix; convert one with `.cast(…)`");
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TeError {
    /// An error of an expression, a reduction or a tensor made of them.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// An error of a scan.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// An error of a schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// An error of a schedule that can't be lowered, or of a program that the target can't run.
    #[error(transparent)]
    Lowering(#[from] LoweringError),
    /// An error of a call of something that is built.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Data that a program can't use: an index outside of its tensor, or an integer division by zero. After a GPU
    /// kernel, the next wait for the stream, or the next read of a result, fails with this error.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An error of the device, or of the compiler of its kernels.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A tensor that [must be a product](crate::fuse::Fused::require) and is none.
    #[error("{tensor} must be a product: {reason}")]
    Product {
        /// The tensor.
        tensor: String,
        /// Why it is none, and what would change that.
        reason: String,
    },
    /// An internal error: only a mistake of this library can cause it.
    #[error(
        "{what}: this is a mistake of epilogue, not of yours; please report it with the expression and its schedule"
    )]
    Internal {
        /// The mistake that was found.
        what: String,
    },
}

epilogue_runtime::message::debug!(TeError);

/// A failure of the device, shared so that errors can be cloned. Two are equal when their messages are equal.
#[derive(Clone, thiserror::Error)]
#[error(transparent)]
pub struct DeviceError(Arc<epilogue_runtime::Error>);

epilogue_runtime::message::debug!(DeviceError);

impl DeviceError {
    /// The failure itself.
    #[must_use]
    pub fn get(&self) -> &epilogue_runtime::Error {
        &self.0
    }
}

impl PartialEq for DeviceError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.to_string() == other.0.to_string()
    }
}

impl From<epilogue_runtime::Error> for TeError {
    fn from(error: epilogue_runtime::Error) -> Self {
        match error {
            epilogue_runtime::Error::Data(failure) => Self::Data(failure),
            error => Self::Device(DeviceError(Arc::new(error))),
        }
    }
}
