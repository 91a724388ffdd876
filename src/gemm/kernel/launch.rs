//! A launch as data: everything that a program in another language needs to launch a kernel itself.
//!
//! The code that launches the kernel here (`run/launch.rs`) writes it, field by field under its name, as it fills the
//! parameter. So an exported C header cannot differ from what the library launches.

use epilogue_runtime::{Launch, Swizzle};

use crate::ElementType;

/// A launch of a planned kernel, for operands and arguments of given shapes and strides, with addresses and host scalars
/// left open: [`Gemm::describe_launch`](crate::Gemm::describe_launch). (A seed is left open if it is in memory.)
///
/// It follows the kernels: another version of this library may have other fields.
#[derive(Clone, Debug)]
pub struct LaunchDescription {
    /// The kernel's symbol.
    pub entry: String,
    /// Grid, block, cluster, dynamic shared memory. Clusters of more than 8 blocks must be allowed to the kernel first, by the
    /// driver's `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
    pub launch: Launch,
    /// The kernel's one parameter, in the order of its fields. Bytes between them are 0.
    pub fields: Vec<ParameterField>,
    /// Bytes of the parameter.
    pub parameter_bytes: usize,
    /// Alignment of the parameter.
    pub parameter_alignment: usize,
    /// Its tensor maps, which only kernels for sm_90a have.
    pub maps: Vec<MapDescription>,
    /// Bytes of counters, in memory that is zero before the first launch. A launch leaves it zero.
    pub counter_bytes: usize,
    /// Bytes of scratch memory, at a multiple of 256; what is in it means nothing between launches.
    pub scratch_bytes: usize,
}

/// A field of the parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterField {
    /// The field's path: `b.outer_stride`, `arguments.bias.stride`.
    pub name: String,
    /// Where it is, in bytes.
    pub offset: usize,
    /// Its number of bytes: 4 or 8, or 128 for a tensor map.
    pub bytes: usize,
    /// The field's value.
    pub value: FieldValue,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    /// This integer.
    Integer(u64),
    /// An address, and this many bytes.
    Address(Memory, u64),
    /// The host scalar with this argument's index: f32 if the field has 4 bytes, else f64.
    Scalar(usize),
    /// The tensor map of this index.
    Map(usize),
}

/// Memory that a kernel is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// A.
    A,
    /// The B of an accumulator.
    B(usize),
    /// The bounds that divide A's rows into groups.
    Bounds,
    /// The index that picks A's rows.
    Index,
    /// The block scales of A.
    ScalesOfA,
    /// The block scales of the B of an accumulator.
    ScalesOfB(usize),
    /// The index that places the rows of outputs.
    Places,
    /// The argument of an index, a tensor.
    Argument(usize),
    /// The counters.
    Counters,
    /// The scratch memory.
    Scratch,
}

/// A tensor map, innermost dimension first: the arguments of `cuTensorMapEncodeTiled`. It interleaves nothing, promotes
/// to 256 bytes in the L2, fills with zeros, and has element strides of 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapDescription {
    /// The memory that it maps, by its first element's address.
    pub of: Memory,
    /// Element type.
    pub element: ElementType,
    /// Elements along each dimension: 3 dimensions, or 5 if rows and columns have two axes each.
    pub extents: Vec<u64>,
    /// Bytes from one index to the next along each dimension but the first.
    pub strides: Vec<u64>,
    /// Elements that one copy moves along each dimension.
    pub box_extents: Vec<u32>,
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
}

impl LaunchDescription {
    /// The parameter's bytes for addresses, host scalars (by the argument's index) and encoded tensor maps.
    ///
    /// # Errors
    /// The errors of `map`.
    pub fn parameter<E>(
        &self,
        address: impl Fn(Memory) -> u64,
        scalar: impl Fn(usize) -> f64,
        mut map: impl FnMut(&MapDescription) -> Result<[u8; 128], E>,
    ) -> Result<Vec<u8>, E> {
        let mut bytes = vec![0; self.parameter_bytes];
        for field in &self.fields {
            let to = &mut bytes[field.offset..][..field.bytes];
            match field.value {
                FieldValue::Integer(value) => to.copy_from_slice(&value.to_le_bytes()[..field.bytes]),
                FieldValue::Address(of, plus) => to.copy_from_slice(&address(of).wrapping_add(plus).to_le_bytes()),
                #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest: the arithmetic type")]
                FieldValue::Scalar(argument) if field.bytes == 4 => {
                    to.copy_from_slice(&(scalar(argument) as f32).to_le_bytes());
                }
                FieldValue::Scalar(argument) => to.copy_from_slice(&scalar(argument).to_le_bytes()),
                FieldValue::Map(i) => to.copy_from_slice(&map(&self.maps[i])?),
            }
        }
        Ok(bytes)
    }
}
