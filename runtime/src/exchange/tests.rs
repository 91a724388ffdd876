//! Memory that is borrowed, taken and shared on the CPU.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::{Arch, Device, DeviceTensor, ElementType, Error, ExchangeError, HostAccess, LayoutError};

#[allow(clippy::needless_pass_by_value, reason = "results of calls")]
fn is_ended<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Exchange(ExchangeError::Ended)))
}

#[allow(clippy::needless_pass_by_value, reason = "results of calls")]
fn is_read_only<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Exchange(ExchangeError::ReadOnly)))
}

#[test]
fn borrowed_memory_is_read_and_written_where_it_is() {
    let input = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut output = [0.0f32; 8];
    let place = output.as_ptr() as u64;
    let cpu = Device::cpu();
    cpu.scope(|scope| {
        assert_eq!(scope.device(), &cpu);
        let x = scope.borrow(&input, [2, 3])?;
        assert_eq!(x.device_address(), input.as_ptr() as u64);
        let (whole, mut y) = {
            let whole = scope.borrow_mut(&mut output, [2, 4])?;
            (whole.clone(), whole.slice(1, 1..4)?)
        };
        assert_eq!((whole.device_address(), y.device_address()), (place, place + 4));
        y.copy_from_tensor(&x)?;
        assert_eq!(whole.to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0, 0.0, 4.0, 5.0, 6.0]);
        y.slice(0, 0..1)?.copy_from(&[9.0f32; 3])
    })
    .unwrap();
    assert_eq!(output, [0.0, 9.0, 9.0, 9.0, 0.0, 4.0, 5.0, 6.0]);
}

#[test]
fn what_leaves_a_scope_holds_nothing() {
    let cpu = Device::cpu();
    let mut values = vec![1.0f32, 2.0];
    let mut outside = cpu.zeros::<f32>([2]).unwrap();
    // A clone, a view, an output swapped for another tensor, and a tensor that is never dropped.
    let (clone, view) = cpu.scope(|scope| {
        let mut x = scope.borrow_mut(&mut values, [2]).unwrap();
        let left = (x.clone(), x.slice(0, 1..2).unwrap());
        mem::swap(&mut x, &mut outside);
        mem::forget(x);
        mem::forget(left.0.clone());
        left
    });
    drop(values);
    for mut tensor in [clone, view, outside] {
        assert!(is_ended(tensor.to_vec::<f32>()) && is_ended(tensor.to_bytes()) && is_ended(tensor.copy_to(&cpu)));
        assert!(is_ended(tensor.copy_from(&vec![0.0f32; tensor.len()])));
        assert!(is_ended(tensor.transpose().or_else(|_| tensor.reshape([1, tensor.len()])).unwrap().to_vec::<f32>()));
        assert!(is_ended(tensor.broadcast_to([3, tensor.len()]).unwrap().to_vec::<f32>()));
        assert!(is_ended(tensor.with_bytes(<[u8]>::len)) && is_ended(tensor.with_bytes_mut(|bytes| bytes.len())));
        assert!(is_ended(HostAccess::lock(&[&tensor], &[])) && is_ended(HostAccess::lock(&[], &[&tensor])));
        let mut twice = cpu.zeros::<f32>(tensor.shape()).unwrap();
        assert!(is_ended(twice.copy_from_tensor(&tensor)) && is_ended(tensor.copy_from_tensor(&twice)));
    }
}

#[test]
fn a_panic_ends_a_scope_too() {
    let values = vec![1.0f32, 2.0];
    let mut left = None;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        Device::cpu().scope(|scope| {
            left = Some(scope.borrow(&values, [2]).unwrap());
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err() && is_ended(left.unwrap().to_vec::<f32>()));
}

#[test]
fn the_end_of_a_scope_waits_for_work_of_other_threads() {
    let mut values = vec![0u8; 64];
    let done = Arc::new(AtomicBool::new(false));
    let (told, started) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel();
    let worker = Device::cpu().scope(|scope| {
        let mut x = scope.borrow_mut(&mut values, [64]).unwrap();
        let done = Arc::clone(&done);
        let worker = thread::spawn(move || {
            let worked = x.with_bytes_mut(|bytes| {
                told.send(()).unwrap();
                thread::sleep(Duration::from_millis(30));
                bytes.fill(7);
                done.store(true, Ordering::Release);
            });
            ended.recv().unwrap();
            (worked.is_ok(), x.copy_from(&[0u8; 64]))
        });
        started.recv().unwrap();
        worker
    });
    assert!(done.load(Ordering::Acquire));
    assert_eq!(values, [7; 64]);
    end.send(()).unwrap();
    let (worked, later) = worker.join().unwrap();
    assert!(worked && is_ended(later));
}

#[test]
fn memory_that_is_borrowed_for_reading_is_not_written() {
    let values = [1.0f32, 2.0, 3.0, 4.0];
    let cpu = Device::cpu();
    cpu.scope(|scope| {
        let mut x = scope.borrow(&values, [2, 2]).unwrap();
        assert!(is_read_only(x.copy_from(&[0.0f32; 4])) && is_read_only(x.with_bytes_mut(|bytes| bytes.fill(0))));
        assert!(is_read_only(x.transpose().unwrap().copy_from(&[0.0f32; 4])));
        assert!(is_read_only(x.copy_from_tensor(&cpu.zeros::<f32>([2, 2]).unwrap())));
        assert!(is_read_only(HostAccess::lock(&[&x], &[&x])));
        // Memory may be borrowed twice for reading, even with one start and two lengths.
        let (all, row) = (scope.borrow(&values, [4]).unwrap(), scope.borrow(&values[..2], [2]).unwrap());
        let access = HostAccess::lock(&[&x, &all, &row], &[]).unwrap();
        assert_eq!(access.read_pointer(1), access.read_pointer(2));
    });
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn memory_that_does_not_fit_is_refused() {
    let cpu = Device::cpu();
    let values = [0.0f32; 6];
    let mut more = [0.0f32; 6];
    let bytes: &[u8] = bytemuck::cast_slice(&values);
    cpu.scope(|scope| {
        for shape in [vec![7], vec![5], vec![2, 2]] {
            let refused = scope.borrow(&values, &shape).unwrap_err();
            assert!(matches!(refused, Error::Layout(LayoutError::DataLength { given: 6, .. })), "{refused}");
        }
        assert!(matches!(scope.borrow(&values, [usize::MAX, 2]), Err(Error::Layout(LayoutError::TooLarge { .. }))));
        let columns = scope.borrow_strided(&values, [2, 2], [3, 1]).unwrap();
        assert_eq!(columns.strides(), [3, 1]);
        let refused = scope.borrow_strided(&values, [2, 4], [3, 1]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a view of shape [2, 4] with strides [3, 1] reaches 7 elements, and 6 were given"
        );
        assert!(matches!(
            scope.borrow_strided(&values, [2], [-1]),
            Err(Error::Layout(LayoutError::NegativeStride { .. }))
        ));
        let refused = scope.borrow_bytes(ElementType::F32, &bytes[1..21], [5]).unwrap_err();
        assert!(matches!(refused, Error::Layout(LayoutError::Misaligned { alignment: 4, .. })), "{refused}");
        let refused = scope.borrow_bytes(ElementType::F32, &bytes[..22], [5]).unwrap_err();
        assert!(matches!(refused, Error::Layout(LayoutError::DataLength { .. })), "{refused}");
        assert_eq!(scope.borrow_bytes(ElementType::I8, &bytes[1..], [23]).unwrap().len(), 23);
        // A tensor with repeated elements can't be written.
        let mut repeated = scope.borrow_strided_mut(&mut more, [3, 2], [0, 1]).unwrap();
        assert!(matches!(repeated.copy_from(&[1.0f32; 6]), Err(Error::Layout(LayoutError::WriteToRepeated { .. }))));
        assert!(scope.borrow(&[0f32; 0], [0, 3]).unwrap().to_vec::<f32>().unwrap().is_empty());
    });
    let words: Arc<[u32]> = vec![1, 2, 3].into();
    let misaligned = cpu.share_bytes(words, ElementType::I32, |all| &bytemuck::cast_slice(all)[2..6], [1]);
    assert!(matches!(misaligned, Err(Error::Layout(LayoutError::Misaligned { .. }))));
}

#[test]
fn truth_values_are_bytes_of_any_value() {
    let cpu = Device::cpu();
    let (mask, bytes, mut written) = ([true, false, true], [0u8, 1, 7, 0x80], [3u8; 3]);
    cpu.scope(|scope| {
        let x = scope.borrow(&mask, [3]).unwrap();
        assert_eq!((x.element_type(), x.to_vec::<bool>().unwrap()), (ElementType::Bool, mask.to_vec()));
        let any = scope.borrow_bytes(ElementType::Bool, &bytes, [4]).unwrap();
        assert_eq!(any.to_vec::<bool>().unwrap(), [false, true, true, true]);
        let mut y = scope.borrow_bytes_mut(ElementType::Bool, &mut written, [3]).unwrap();
        y.copy_from(&[true, true, false]).unwrap();
    });
    assert_eq!(written, [1, 1, 0]);
    let mut taken = cpu.take_vec(vec![true, false], [2]).unwrap();
    taken.copy_from_bytes(&[0, 9]).unwrap();
    assert_eq!(taken.to_vec::<bool>().unwrap(), [false, true]);
    let shared = cpu.share(Arc::new([true]), |all| &all[..], [1]).unwrap();
    assert_eq!(shared.to_vec::<bool>().unwrap(), [true]);
}

#[test]
fn a_device_with_memory_of_its_own_refuses_this_computers() {
    let emulated = Device::emulated(Arch::SM_80).unwrap();
    let (values, mut more) = ([1.0f32; 2], [1.0f32; 2]);
    let refused = emulated.scope(|scope| {
        assert!(scope.borrow_mut(&mut more, [2]).is_err());
        scope.borrow(&values, [2]).unwrap_err()
    });
    assert_eq!(
        refused.to_string(),
        "an emulated sm_80 can't work in this computer's memory: copy the values there with `Device::tensor`, and back \
         with `to_vec`"
    );
    assert!(matches!(emulated.take_vec(vec![1.0f32], [1]), Err(Error::Unsupported { .. })));
    assert!(matches!(emulated.share(Arc::new(values), |all| &all[..], [2]), Err(Error::Unsupported { .. })));
}

#[test]
fn a_vec_comes_back_with_what_was_written() {
    let cpu = Device::cpu();
    let values: Vec<i32> = (0..6).collect();
    let place = values.as_ptr();
    let mut x = cpu.take_vec(values, [2, 3]).unwrap();
    assert_eq!(x.device_address(), place as u64);
    x.copy_from(&[5i32, 4, 3, 2, 1, 0]).unwrap();
    let same = x.reshape([6]).unwrap();
    let kept = x.into_vec::<i32>().unwrap_err();
    assert!(matches!(kept.reason, Error::Exchange(ExchangeError::InUse)));
    let x = kept.tensor;
    drop(same);
    let kept = x.into_vec::<f32>().unwrap_err();
    assert!(matches!(kept.reason, Error::ElementType { held: ElementType::I32, asked: ElementType::F32 }));
    let part = kept.tensor.slice(1, 0..2).unwrap();
    drop(kept);
    let kept = part.into_vec::<i32>().unwrap_err();
    assert!(matches!(kept.reason, Error::Exchange(ExchangeError::PartialView { .. })));
    // Now only the part is left of it, and it is still a part.
    assert_eq!(kept.tensor.to_vec::<i32>().unwrap(), [5, 4, 2, 1]);
    let whole = cpu.take_vec(vec![1i32, 2], [2]).unwrap().into_vec::<i32>().unwrap();
    assert_eq!(whole, [1, 2]);

    let refused = |tensor: DeviceTensor| -> Error { tensor.into_vec::<f32>().unwrap_err().into() };
    let made = refused(cpu.zeros::<f32>([2]).unwrap());
    assert!(matches!(made, Error::Exchange(ExchangeError::NotTaken { .. })), "{made}");
    let values = [1.0f32];
    let borrowed = cpu.scope(|scope| refused(scope.borrow(&values, [1]).unwrap()));
    assert!(matches!(borrowed, Error::Exchange(ExchangeError::NotTaken { .. })), "{borrowed}");
    assert!(matches!(cpu.take_vec(vec![0.0f32; 5], [2, 3]), Err(Error::Layout(LayoutError::DataLength { .. }))));
}

/// An owner that notes when it is dropped.
struct Owner(Vec<f32>, Arc<AtomicBool>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Release);
    }
}

#[test]
fn a_share_lasts_as_long_as_the_last_view() {
    let dropped = Arc::new(AtomicBool::new(false));
    let owner = Arc::new(Owner(vec![1.0, 2.0, 3.0], Arc::clone(&dropped)));
    let tensor = Device::cpu().share(owner, |owner| &owner.0[1..], [2]).unwrap();
    let mut view = tensor.slice(0, 1..2).unwrap();
    drop(tensor);
    assert_eq!((view.to_vec::<f32>().unwrap(), dropped.load(Ordering::Acquire)), (vec![3.0], false));
    assert!(is_read_only(view.copy_from(&[0.0f32])));
    drop(view);
    assert!(dropped.load(Ordering::Acquire));
    // The owner is dropped even if it is refused.
    let again = Arc::new(AtomicBool::new(false));
    let owner = Arc::new(Owner(vec![1.0], Arc::clone(&again)));
    assert!(Device::cpu().share(owner, |owner| &owner.0[..], [2]).is_err());
    assert!(again.load(Ordering::Acquire));
}
