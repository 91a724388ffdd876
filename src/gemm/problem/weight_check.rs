//! Checks a format of quantised weights, and the product that has it.

use super::arithmetic::Arithmetic;
use super::format::Formats;
use super::format_error::FormatError;
use super::groups::Divided;
use super::quantization::{Quantization, STEP, ZeroPoints};
use super::reading::Reading;
use crate::ElementType;

impl Quantization {
    /// Whether there are weights like this.
    ///
    /// # Errors
    /// [`FormatError::ScalesElement`], [`FormatError::Group`], [`FormatError::SignedZeroPoints`],
    /// [`FormatError::NoZeroPoints`], [`FormatError::ZeroPoint`].
    pub(crate) fn check(self) -> Result<(), FormatError> {
        let Self { codes, scales, zero_points, group } = self;
        if !matches!(scales, ElementType::F16 | ElementType::BF16 | ElementType::F32) {
            return Err(FormatError::ScalesElement { given: scales });
        }
        if let Some(given) = group.filter(|group| *group == 0 || !group.is_multiple_of(STEP)) {
            return Err(FormatError::Group { given });
        }
        match zero_points {
            ZeroPoints::None if codes.is_signed() => Ok(()),
            ZeroPoints::None => Err(FormatError::NoZeroPoints { codes }),
            _ if codes.is_signed() => Err(FormatError::SignedZeroPoints { codes }),
            ZeroPoints::One(given) if given > codes.most() => {
                Err(FormatError::ZeroPoint { codes, given, most: codes.most() })
            }
            ZeroPoints::One(_) | ZeroPoints::Each => Ok(()),
        }
    }
}

/// Whether a product that reads A so has quantised weights.
///
/// # Errors
/// [`FormatError::With`].
pub(crate) fn check_reading(formats: Formats, reading: Reading) -> Result<(), FormatError> {
    let what = match reading {
        _ if formats.quantization().is_none() => return Ok(()),
        Reading::Patches(_) => "patches of images",
        reading if reading.divided() == Some(Divided::Depth) => "groups of K",
        _ => return Ok(()),
    };
    Err(FormatError::With { what })
}

/// Whether weights like these are multiplied by an A of this type in this arithmetic, on some device.
///
/// # Errors
/// [`FormatError`].
pub(crate) fn check_types(a: ElementType, format: Quantization, arithmetic: Arithmetic) -> Result<(), FormatError> {
    format.check()?;
    if !matches!(a, ElementType::F32 | ElementType::BF16 | ElementType::F16) {
        return Err(FormatError::Left { given: a });
    }
    match arithmetic {
        Arithmetic::Exact | Arithmetic::Int8Activations => Ok(()),
        Arithmetic::Tf32 | Arithmetic::FastBf16 | Arithmetic::FastFp8 => {
            Err(FormatError::Arithmetic { given: arithmetic })
        }
    }
}
