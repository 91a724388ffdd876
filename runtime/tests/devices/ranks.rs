//! Ranks by NCCL: its functions are in the fake driver, and each rank has one of its GPUs.

use epilogue_runtime::{
    Communicator, Device, DeviceTensor, Error, Kernel, KernelArgument, Launch, LaunchedRank, Rendezvous, Stream,
};

use super::driver::{FakeDriver, assert_success};
use super::{ON_FAKE_DRIVER, affine, source};

const RANKS: usize = 2;
const N: usize = 64;

/// `to = scale·from + 1`, on a stream.
fn step(kernel: &Kernel, scale: f32, from: &DeviceTensor, to: &DeviceTensor, stream: &Stream) {
    let (parameters, count) = (affine(scale, 1.0), (N as i32).to_ne_bytes());
    let arguments = [
        KernelArgument::Input(from),
        KernelArgument::Output(to),
        KernelArgument::Value(&parameters),
        KernelArgument::Value(&count),
    ];
    kernel.launch(&Launch { block: [N as u32, 1, 1], ..Launch::default() }, &arguments, stream).unwrap();
}

/// Calls `work` on every rank; gives what each has returned. `None` if there is no fake driver.
fn on_gpus<R: Send>(test: &str, work: impl Fn(&Communicator, &Device) -> R + Sync) -> Option<Vec<R>> {
    std::env::var_os(ON_FAKE_DRIVER)?;
    let place = std::env::temp_dir().join(format!("epilogue-{test}-{}.id", std::process::id()));
    let meet = Rendezvous::File(place.clone());
    let results = std::thread::scope(|scope| {
        let rank = |rank| {
            let (work, meet) = (&work, &meet);
            scope.spawn(move || {
                let device = Device::cuda(rank).unwrap();
                let me = LaunchedRank { rank, ranks: RANKS, local_rank: rank };
                work(&Communicator::nccl(&device, &me, meet).unwrap(), &device)
            })
        };
        let all: Vec<_> = (0..RANKS).map(rank).collect();
        all.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    std::fs::remove_file(place).unwrap();
    Some(results)
}

/// Collectives come after what writes their tensors, on whatever stream, and before what uses them next.
#[test]
fn collectives_are_ordered_with_all_that_uses_their_tensors() {
    let all = on_gpus("ordered", |ranks, device| {
        let kernel = device.compile(&source("affine")).unwrap();
        let (mine, [on, between]) = (ranks.rank() as f32, [0; 2].map(|_| device.new_stream().unwrap()));
        let x = device.full::<f32>([N], mine).unwrap();
        let [mut y, mut sum, z] = [0; 3].map(|_| device.zeros::<f32>([N]).unwrap());
        let mut part = device.zeros::<f32>([N / RANKS]).unwrap();
        let mut every = device.zeros::<f32>([RANKS, N / RANKS]).unwrap();
        for _ in 0..3 {
            step(&kernel, 2.0, &x, &y, &on);
            ranks.all_reduce_in_place(&mut y, &between).unwrap();
            step(&kernel, 1.0, &y, &z, &on);
            ranks.all_reduce(&z, &mut sum, &between).unwrap();
            ranks.reduce_scatter(&sum, &mut part, &on).unwrap();
            ranks.all_gather(&part, &mut every, &between).unwrap();
        }
        let first = |tensor: &DeviceTensor| tensor.to_vec::<f32>().unwrap()[0];
        drop(x);
        (first(&y), first(&sum), first(&part), every.to_vec::<f32>().unwrap())
    });
    // y = (2·0 + 1) + (2·1 + 1) = 4; z = 5 on both; their sum is 10, and the sum of that 20.
    for got in all.into_iter().flatten() {
        assert_eq!(got, (4.0, 10.0, 20.0, vec![20.0; N]));
    }
}

#[test]
fn texts_are_exchanged_by_nccl() {
    let all = on_gpus("texts", |ranks, _| {
        (0..3).map(|round| ranks.exchange(&format!("{} in round {round}", ranks.rank())).unwrap()).collect::<Vec<_>>()
    });
    for got in all.into_iter().flatten() {
        assert_eq!(got[2], ["0 in round 2", "1 in round 2"]);
    }
}

#[test]
fn the_communicator_of_others_is_used_and_left_alone() {
    let Some(_) = std::env::var_os(ON_FAKE_DRIVER) else { return };
    let device = Device::cuda(0).unwrap();
    let me = LaunchedRank::default();
    let owner = Communicator::nccl(&device, &me, &Rendezvous::File("not-used-by-one.id".into())).unwrap();
    assert_eq!((owner.rank(), owner.ranks(), owner.compares()), (0, 1, false));
    // The fake's communicators are numbers: the first clique's rank 0 is 1.
    // SAFETY: a communicator of the fake library, which never goes away.
    let borrowed = unsafe { Communicator::borrow_nccl(&device, std::ptr::without_provenance_mut(1)) }.unwrap();
    assert!(borrowed.rank() < borrowed.ranks());
    drop(borrowed);
    let mut x = device.full::<f32>([4], 3.0).unwrap();
    owner.all_reduce_in_place(&mut x, &device.new_stream().unwrap()).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [3.0; 4]);
    let other = Device::cuda(1).unwrap();
    let elsewhere = owner.all_reduce_in_place(&mut other.zeros::<f32>([4]).unwrap(), &other.default_stream());
    assert!(matches!(elsewhere, Err(Error::Device { .. })));
}

/// No NCCL, one that is too old, and something else: an error that says what was tried.
#[test]
fn a_missing_nccl_is_an_error_not_a_panic() {
    const NAME: &str = "ranks::a_missing_nccl_is_an_error_not_a_panic";
    const EXPECTED: &str = "EPILOGUE_TEST_NCCL";
    if let Some(expected) = std::env::var_os(EXPECTED) {
        let (device, place) = (Device::cuda(0).unwrap(), Rendezvous::File("never-written.id".into()));
        let said = Communicator::nccl(&device, &LaunchedRank::default(), &place).unwrap_err().to_string();
        assert!(said.starts_with("NCCL was not found") && said.contains(expected.to_str().unwrap()), "{said}");
        return;
    }
    if std::env::var_os(ON_FAKE_DRIVER).is_some() || !cfg!(target_os = "linux") {
        return;
    }
    let driver = FakeDriver::new("missing-nccl");
    let child = |library: &std::path::Path, version: &str, expected: &str| {
        let mut child = driver.command(&["--exact", NAME]);
        child.env("EPILOGUE_NCCL", library).env("FAKE_NCCL_VERSION", version).env(EXPECTED, expected);
        assert_success(&mut child);
    };
    child("/nowhere/libnccl.so.2".as_ref(), "22000", "/nowhere/libnccl.so.2");
    child(&driver.library(), "2804", "it is too old: version 2804");
    let empty = driver.library().with_file_name("libnccl.so.2");
    std::fs::write(&empty, b"no library").unwrap();
    child(empty.parent().unwrap(), "22000", "libnccl.so.2");
}
