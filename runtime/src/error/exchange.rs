//! The errors of memory that comes in and goes out without a copy.

use crate::layout::element::ElementType;

/// Memory that can't come in or go out without a copy, or that may not be used in this way. Nothing was copied or
/// changed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// A tensor has left the scope that its memory was borrowed for.
    #[error(
        "the tensor's memory was borrowed for a scope, which is over: copy what must live longer (`copy_to`) inside of the \
         scope"
    )]
    Ended,
    /// A call for which a thread would wait for itself. Either it is made in a function that is called with the
    /// tensor's bytes; or another thread has the tensor locked, and waits for tensors that this thread has locked.
    #[error(
        "the tensor's memory is locked by a function that this call is made in (such as that of `with_bytes`), or by a thread that waits for this one: use the tensor when the function has returned"
    )]
    WaitsForItself,
    /// A write to a tensor in read-only memory.
    #[error(
        "the tensor lies in memory that may only be read: borrow that for writing (`borrow_mut`), or write to a copy \
         (`copy_to`)"
    )]
    ReadOnly,
    /// The bytes between the elements may not belong to the tensor.
    #[error(
        "shape {shape:?} with strides {strides:?} has gaps, which in borrowed memory may be another's: copy the view \
         (`contiguous`), or read it by `to_vec`"
    )]
    Gaps {
        /// The view's shape.
        shape: Vec<usize>,
        /// Its strides, in elements.
        strides: Vec<isize>,
    },
    /// Memory of a scope can't be given away.
    #[error(
        "the tensor's memory is borrowed for a scope, and what is given away may live longer: give a copy (`copy_to`)"
    )]
    Borrowed,
    /// There are other views of the memory.
    #[error("other tensors view the same memory: drop them first, or copy the elements out (`to_vec`)")]
    InUse,
    /// The tensor was not made from what is asked for.
    #[error("the tensor's memory did not come as {asked}: copy the elements out (`to_vec`)")]
    NotTaken {
        /// The container that was asked for.
        asked: &'static str,
    },
    /// The tensor is only a part of its memory, or has it in another order.
    #[error(
        "the tensor is a view of a part of its memory, or not in row-major order (shape {shape:?}, strides {strides:?}, \
         first element {offset}): ask the whole tensor, or copy the elements out (`to_vec`)"
    )]
    PartialView {
        /// The view's shape.
        shape: Vec<usize>,
        /// Its strides, in elements.
        strides: Vec<isize>,
        /// The index of the first element in the memory.
        offset: usize,
    },
    /// An element type that this library doesn't have.
    #[error("{given} is not an element type of this library, which has {}", element_types())]
    ElementType {
        /// The type, as its owner names it.
        given: String,
    },
    /// A safetensors file that can't be read.
    #[error("the safetensors file can't be read: {reason}")]
    Safetensors {
        /// The message of the safetensors library.
        reason: String,
    },
    /// A DLPack tensor of another version.
    #[error(
        "the DLPack tensor is of version {major}.{minor}, and this library reads version 1: ask its maker for that"
    )]
    DlpackVersion {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// A DLPack tensor whose memory is on another device.
    #[error(
        "the DLPack tensor is on device {device_id} of DLPack's type {device_type} (1: CPU, 2: CUDA), and {needed} was asked \
         to take it: copy it there first"
    )]
    DlpackDevice {
        /// DLPack's number of the type of device.
        device_type: i32,
        /// The number of the device among those of its type.
        device_id: i32,
        /// The device that was to take it.
        needed: String,
    },
    /// A DLPack tensor with contradictory fields.
    #[error("the DLPack tensor can't be: {reason}")]
    DlpackTensor {
        /// The contradiction.
        reason: String,
    },
}

crate::message::debug!(ExchangeError);

fn element_types() -> String {
    ElementType::ALL.map(ElementType::name).join(", ")
}
