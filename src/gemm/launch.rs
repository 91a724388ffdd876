//! A planned launch as data, for programs in other languages: [`Gemm::describe_launch`](crate::Gemm::describe_launch).

pub use super::kernel::launch::{FieldValue, LaunchDescription, MapDescription, Memory, ParameterField};
