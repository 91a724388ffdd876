//! DLPack tensors of another library, which counts the calls of its deleter, and of this one.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::f16;

use super::*;
use crate::{Arch, Device, DeviceTensor, ElementType, Error, ExchangeError, f8e4m3};

/// Memory that another library's structure keeps.
struct Theirs {
    values: Vec<f32>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
}

/// # Safety
/// The deleter of a structure of [`theirs`].
unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: both were boxes.
    let theirs = unsafe {
        let managed = Box::from_raw(managed);
        Box::from_raw(managed.manager_ctx.cast::<Theirs>())
    };
    theirs.deleted.fetch_add(1, Ordering::SeqCst);
}

/// # Safety
/// As above.
unsafe extern "C" fn delete_old(managed: *mut DLManagedTensor) {
    // SAFETY: both were boxes.
    let theirs = unsafe {
        let managed = Box::from_raw(managed);
        Box::from_raw(managed.manager_ctx.cast::<Theirs>())
    };
    theirs.deleted.fetch_add(1, Ordering::SeqCst);
}

const FLOAT32: DLDataType = DLDataType { code: 2, bits: 32, lanes: 1 };

/// 0, 1, 2, …, 11 as [3, 4], with a count of its deleter's calls.
fn described() -> (DLTensor, *mut c_void, Arc<AtomicUsize>) {
    let deleted = Arc::new(AtomicUsize::new(0));
    let values = (0..12u8).map(f32::from).collect();
    let mut theirs = Box::new(Theirs { values, shape: vec![3, 4], strides: vec![4, 1], deleted: Arc::clone(&deleted) });
    let tensor = DLTensor {
        data: theirs.values.as_mut_ptr().cast(),
        device: DLDevice { device_type: DLDevice::CPU, device_id: 0 },
        ndim: 2,
        dtype: FLOAT32,
        shape: theirs.shape.as_mut_ptr(),
        strides: theirs.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    (tensor, Box::into_raw(theirs).cast(), deleted)
}

/// Another library's tensor, with a change.
fn theirs(change: impl FnOnce(&mut DLManagedTensorVersioned)) -> (Owned<DLManagedTensorVersioned>, Arc<AtomicUsize>) {
    let (dl_tensor, manager_ctx, deleted) = described();
    let mut managed = Box::new(DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 7 },
        manager_ctx,
        deleter: Some(delete),
        flags: 0,
        dl_tensor,
    });
    change(&mut managed);
    // SAFETY: a valid structure, given away.
    (unsafe { Owned::from_raw(NonNull::from(Box::leak(managed))) }, deleted)
}

fn take(managed: Owned<impl Managed>) -> Result<DeviceTensor, Error> {
    // SAFETY: `described` made it, and keeps no way to its memory.
    unsafe { Device::cpu().take_dlpack(managed) }
}

fn count(deleted: &AtomicUsize) -> usize {
    deleted.load(Ordering::SeqCst)
}

#[test]
fn their_memory_is_used_where_it_is_and_released_once() {
    let (mut place, mut first) = (ptr::null_mut(), 0);
    let (managed, deleted) = theirs(|managed| {
        place = managed.dl_tensor.data;
        // The last two columns.
        managed.dl_tensor.byte_offset = 8;
        // SAFETY: it has two.
        unsafe { *managed.dl_tensor.shape.add(1) = 2 };
        first = place as u64 + 8;
    });
    let mut x = take(managed).unwrap();
    assert_eq!((x.device_address(), x.shape(), x.strides()), (first, &[3, 2][..], &[4, 1][..]));
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 3.0, 6.0, 7.0, 10.0, 11.0]);
    x.copy_from(&[0.0f32; 6]).unwrap();
    // The memory between the rows belongs to others.
    assert!(matches!(x.with_bytes(<[u8]>::len), Err(Error::Exchange(ExchangeError::Gaps { .. }))));
    let row = x.slice(0, 2..3).unwrap();
    assert_eq!(row.with_bytes(<[u8]>::len).unwrap(), 8);
    drop(x);
    assert_eq!(count(&deleted), 0);
    // SAFETY: the memory lives until the deleter is called, and nobody writes it.
    let seen = unsafe { std::slice::from_raw_parts(place.cast::<f32>(), 12) };
    assert_eq!(seen, [0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 8.0, 9.0, 0.0, 0.0]);
    drop(row);
    assert_eq!(count(&deleted), 1);
}

#[test]
fn the_old_structure_null_strides_and_an_unused_tensor() {
    let (mut dl_tensor, manager_ctx, deleted) = described();
    dl_tensor.strides = ptr::null_mut();
    let managed = Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete_old) });
    // SAFETY: a valid structure, given away.
    let x = take(unsafe { Owned::from_raw(NonNull::from(Box::leak(managed))) }).unwrap();
    assert!(x.is_contiguous() && x.to_vec::<f32>().unwrap()[11] == 11.0);
    assert_eq!(x.with_bytes(<[u8]>::len).unwrap(), 48);
    drop(x);
    assert_eq!(count(&deleted), 1);

    let (managed, deleted) = theirs(|_| {});
    // SAFETY: as above.
    drop(unsafe { Owned::from_raw(managed.into_raw()) });
    assert_eq!(count(&deleted), 1);
}

#[test]
fn memory_for_reading_only_is_not_written() {
    let (managed, deleted) = theirs(|managed| managed.flags = DLManagedTensorVersioned::READ_ONLY | 0xF0);
    let mut x = take(managed).unwrap();
    assert!(matches!(x.copy_from(&[0.0f32; 12]), Err(Error::Exchange(ExchangeError::ReadOnly))));
    // It also stays read-only when it is given back, which the old structure can't express.
    let again = x.to_dlpack().unwrap();
    // SAFETY: it is valid while `again` lives.
    assert_eq!(unsafe { again.0.as_ref() }.flags, DLManagedTensorVersioned::READ_ONLY);
    assert!(matches!(x.to_dlpack_unversioned(), Err(Error::Exchange(ExchangeError::ReadOnly))));
    drop(x);
    assert_eq!(count(&deleted), 0);
    drop(again);
    assert_eq!(count(&deleted), 1);
}

#[test]
fn truth_values_are_bytes_of_any_value() {
    const BOOL: DLDataType = DLDataType { code: 6, bits: 8, lanes: 1 };
    let (managed, _) = theirs(|managed| managed.dl_tensor.dtype = BOOL);
    let x = take(managed).unwrap();
    // The first bytes of 0.0, 1.0 and 2.0.
    let expected: Vec<bool> = [0f32, 1.0, 2.0].iter().flat_map(|x| x.to_ne_bytes()).map(|byte| byte != 0).collect();
    assert_eq!((x.element_type(), x.to_vec::<bool>().unwrap()), (ElementType::Bool, expected));
    let out = x.to_dlpack().unwrap();
    // SAFETY: it is valid while `out` lives.
    assert_eq!(unsafe { out.0.as_ref() }.dl_tensor.dtype, BOOL);
}

#[test]
fn what_cannot_be_is_refused_and_released() {
    fn check(change: impl FnOnce(&mut DLManagedTensorVersioned), expected: &str) {
        let (managed, deleted) = theirs(change);
        let refused = take(managed).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        assert_eq!(count(&deleted), 1, "{refused}");
    }
    fn extent(managed: &mut DLManagedTensorVersioned, extent: i64) {
        // SAFETY: it has two.
        unsafe { *managed.dl_tensor.shape = extent };
    }
    fn stride(managed: &mut DLManagedTensorVersioned, stride: i64) {
        // SAFETY: it has two.
        unsafe { *managed.dl_tensor.strides = stride };
    }
    check(|m| m.version.major = 2, "is of version 2.7, and this library reads version 1");
    check(|m| m.dl_tensor.device.device_type = DLDevice::CUDA, "on device 0 of DLPack's type 2 (1: CPU, 2: CUDA)");
    check(|m| m.dl_tensor.device.device_type = 8, "and the CPU was asked to take it");
    check(
        |m| m.dl_tensor.dtype.code = 5,
        "DLPack's complex32 is not an element type of this library, which has f64, f32",
    );
    check(|m| m.dl_tensor.dtype = DLDataType { code: 6, bits: 1, lanes: 1 }, "DLPack's bool1 is not an element type");
    check(|m| m.dl_tensor.dtype.lanes = 4, "DLPack's float32 x 4 lanes is not an element type");
    check(|m| m.dl_tensor.dtype.code = 200, "DLPack's type code 200 of 32 bits, 1 lanes");
    check(|m| stride(m, -4), "strides [-4, 1] hold a negative one");
    check(|m| stride(m, i64::MAX), "larger than memory can address");
    check(|m| extent(m, -1), "an extent of its shape [-1, 4] can't be");
    check(|m| extent(m, i64::MAX), "larger than memory can address");
    check(|m| m.dl_tensor.ndim = -3, "it has -3 axes");
    check(|m| m.dl_tensor.shape = ptr::null_mut(), "no shape (its pointer is null)");
    check(|m| m.dl_tensor.data = ptr::null_mut(), "no memory (its pointer is null)");
    check(|m| m.dl_tensor.byte_offset = 2, "is not a multiple of 4, the alignment of f32");
    check(|m| m.dl_tensor.byte_offset = u64::MAX - 3, "its byte offset");
    // Without a deleter, this library can't free the memory, so it stays.
    let (managed, deleted) = theirs(|managed| managed.deleter = None);
    let left = managed.0;
    assert!(take(managed).is_ok());
    assert_eq!(count(&deleted), 0);
    // SAFETY: nobody else has released it.
    unsafe { delete(left.as_ptr()) };

    let (managed, deleted) = theirs(|_| {});
    let emulated = Device::emulated(Arch::SM_80).unwrap();
    // SAFETY: as in `take`.
    let refused = unsafe { emulated.take_dlpack(managed) };
    assert!(matches!(refused, Err(Error::Exchange(ExchangeError::DlpackDevice { .. }))));
    assert_eq!(count(&deleted), 1);
    assert!(matches!(emulated.zeros::<f32>([1]).unwrap().to_dlpack(), Err(Error::Unsupported { .. })));
}

#[test]
fn tensors_of_no_axes_and_of_no_elements() {
    let (managed, deleted) = theirs(|m| {
        (m.dl_tensor.ndim, m.dl_tensor.shape, m.dl_tensor.strides) = (0, ptr::null_mut(), ptr::null_mut());
    });
    assert_eq!(take(managed).unwrap().to_vec::<f32>().unwrap(), [0.0]);
    assert_eq!(count(&deleted), 1);
    let (managed, deleted) = theirs(|m| {
        m.dl_tensor.data = ptr::null_mut();
        // SAFETY: it has two.
        unsafe { *m.dl_tensor.shape = 0 };
    });
    let empty = take(managed).unwrap();
    assert_eq!((empty.shape(), empty.to_vec::<f32>().unwrap().len()), (&[0, 4][..], 0));
    drop(empty);
    assert_eq!(count(&deleted), 1);
}

#[test]
fn a_tensor_goes_out_and_comes_back() {
    let cpu = Device::cpu();
    let shared: Arc<[f16]> = (0..6u8).map(|i| f16::from_f32(f32::from(i))).collect();
    let x = cpu.share(Arc::clone(&shared), |all| all, [2, 3]).unwrap();
    let given = x.transpose().unwrap().slice(0, 1..3).unwrap().to_dlpack().unwrap();
    drop(x);
    assert_eq!(Arc::strong_count(&shared), 2);
    let back = take(given).unwrap();
    assert_eq!((back.element_type(), back.device_address()), (ElementType::F16, shared[1..].as_ptr() as u64));
    assert_eq!(back.to_vec::<f16>().unwrap(), [1.0, 4.0, 2.0, 5.0].map(f16::from_f32));
    drop(back);
    assert_eq!(Arc::strong_count(&shared), 1);

    // Every element type can be expressed.
    for element in ElementType::ALL {
        let x = cpu.zeros_of(element, [2]).unwrap();
        assert_eq!(take(x.to_dlpack_unversioned().unwrap()).unwrap().element_type(), element);
    }
    // While it is given away, the `Vec` is not given back.
    let x = cpu.take_vec(vec![f8e4m3::MAX; 3], [3]).unwrap();
    let given = x.to_dlpack().unwrap();
    let kept = x.into_vec::<f8e4m3>().unwrap_err();
    assert!(matches!(kept.reason, Error::Exchange(ExchangeError::InUse)));
    drop(given);
    assert_eq!(kept.tensor.into_vec::<f8e4m3>().unwrap(), [f8e4m3::MAX; 3]);
    // Borrowed memory is not given away.
    let values = [1.0f32];
    let refused = cpu.scope(|scope| scope.borrow(&values, [1]).unwrap().to_dlpack().unwrap_err());
    assert!(matches!(refused, Error::Exchange(ExchangeError::Borrowed)));
}
