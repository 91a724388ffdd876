//! Describes what is multiplied, and the errors of plans, runs and results.
//!
//! Extents, layouts and types only: nothing here knows a kernel or a device's speed.

pub(crate) mod arithmetic;
pub(crate) mod block_scales;
pub(crate) mod bounds;
pub(crate) mod channels;
pub(crate) mod comparison;
pub(crate) mod digits;
pub(crate) mod eight_bit;
pub(crate) mod error;
pub(crate) mod extents;
pub(crate) mod filter;
pub(crate) mod gradients;
mod grouped;
pub(crate) mod groups;
pub(crate) mod knob;
pub(crate) mod layout;
pub(crate) mod operand;
pub(crate) mod packed;
pub(crate) mod patch_boxes;
pub(crate) mod patch_error;
pub(crate) mod patches;
pub(crate) mod picked;
mod rows_error;
mod scale_error;
pub(crate) mod scaled;
mod scatter_error;
pub(crate) mod scattered;
pub(crate) mod sliding;
pub(crate) mod window;

pub use arithmetic::Arithmetic;
pub use comparison::Comparison;
pub use eight_bit::{Byte, Float16, Fp8, Int8, MixedInput, Pair};
pub use error::{Error, NameMistake};
pub use extents::{MAX_EXTENT, Problem};
pub use filter::{Filter, filter, gradient_filter, gradient_filter_in_groups};
pub use gradients::{gradient_patches, transposed_patches};
pub use grouped::{Depth, Rows, depth, rows};
pub use groups::{Divided, Grouping};
pub use knob::Knob;
pub use layout::{Major, OperandLayout, OperandView};
pub use operand::{Left, Right};
pub use packed::Packed;
pub(crate) use packed::{Purpose, WholePanels};
pub use patch_boxes::{PatchBoxes, Unboxed};
pub use patch_error::PatchError;
pub use rows_error::RowsError;
pub use scale_error::ScaleError;
pub use scaled::{Scaled, scaled};
pub use scatter_error::ScatterError;
pub use window::{Window, patches};
