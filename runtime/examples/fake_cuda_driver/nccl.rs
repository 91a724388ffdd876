//! NCCL's functions on this driver: ranks are threads of one process, and a collective is work that the streams of all
//! ranks wait for. Whatever real ranks would wait for forever ends the process.
//!
//! Names and values are those of nccl.h.

use std::ffi::{c_char, c_int};
use std::sync::{Condvar, Mutex};

use super::{Address, Arc, Driver, Handle, Memory, Operation, SUCCESS, Status, die, number, with};

const INVALID_ARGUMENT: Status = 4;
const U8: c_int = 1;
const F32: c_int = 7;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Id([u8; 128]);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    AllReduce,
    ReduceScatter,
    AllGather,
}

/// A rank's part of a collective.
#[derive(Clone, Copy)]
struct Part {
    kind: Kind,
    from: Address,
    into: Address,
    count: usize,
    element: c_int,
    stream: usize,
}

struct Clique {
    id: [u8; 128],
    joined: usize,
    parts: Vec<Option<Part>>,
    round: usize,
}

static CLIQUES: Mutex<Vec<Clique>> = Mutex::new(Vec::new());
static CHANGED: Condvar = Condvar::new();

/// Which clique and rank a communicator is.
fn place(communicator: Handle) -> (usize, usize) {
    let number = communicator as usize - 1;
    (number >> 16, number & 0xFFFF)
}

fn add(driver: &mut Driver, parts: &[Part]) {
    let first = parts[0];
    if parts.iter().any(|part| (part.kind, part.count, part.element) != (first.kind, first.count, first.element)) {
        die("the ranks call different things");
    }
    let push = |driver: &mut Driver, stream: usize, operation| driver.push(stream as Handle, operation);
    for part in &parts[1..] {
        let before = driver.streams[part.stream].total;
        push(driver, first.stream, Operation::Wait(part.stream, before));
    }
    let all = parts.to_vec();
    push(driver, first.stream, Operation::Work(Arc::new(move |memory: &mut Memory| work(memory, &all))));
    let done = driver.streams[first.stream].total;
    for part in &parts[1..] {
        push(driver, part.stream, Operation::Wait(first.stream, done));
    }
}

fn work(memory: &mut Memory, parts: &[Part]) {
    let Part { kind, count, element, .. } = parts[0];
    if element == U8 && kind == Kind::AllGather {
        let all: Vec<u8> = parts.iter().flat_map(|part| memory.bytes(part.from, count).to_vec()).collect();
        parts.iter().for_each(|part| memory.bytes(part.into, all.len()).copy_from_slice(&all));
        return;
    }
    if element != F32 {
        die("the fake NCCL knows f32, and gathers bytes");
    }
    let sent = if kind == Kind::ReduceScatter { count * parts.len() } else { count };
    let all: Vec<Vec<f32>> = parts.iter().map(|part| memory.floats(part.from, sent)).collect();
    let sums: Vec<f32> = (0..sent).map(|i| all.iter().map(|part| part[i]).sum()).collect();
    for (rank, part) in parts.iter().enumerate() {
        let values = match kind {
            Kind::AllReduce => sums.clone(),
            Kind::ReduceScatter => sums[rank * count..(rank + 1) * count].to_vec(),
            Kind::AllGather => all.concat(),
        };
        memory.bytes(part.into, 4 * values.len()).copy_from_slice(bytemuck::cast_slice(&values));
    }
}

fn collective(communicator: Handle, part: Part) -> Status {
    let (clique, rank) = place(communicator);
    let mut cliques = CLIQUES.lock().unwrap();
    let round = cliques[clique].round;
    if cliques[clique].parts[rank].replace(part).is_some() {
        die("a rank calls again before the others have come");
    }
    if cliques[clique].parts.iter().all(Option::is_some) {
        let parts: Vec<Part> = cliques[clique].parts.iter_mut().filter_map(Option::take).collect();
        with(|driver| add(driver, &parts));
        cliques[clique].round += 1;
        CHANGED.notify_all();
    }
    while cliques[clique].round == round {
        cliques = CHANGED.wait(cliques).unwrap();
    }
    SUCCESS
}

macro_rules! exports {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(
            // SAFETY: the test's process has no other symbols of these names.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
                // SAFETY: the caller keeps to nccl.h: pointers are valid for what the function writes.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

exports! {
    ncclGetVersion(version: *mut c_int) { *version = number("FAKE_NCCL_VERSION", 22_000); SUCCESS }
    ncclGetUniqueId(id: *mut Id) {
        let mut bytes = [7; 128];
        bytes[..8].copy_from_slice(&(CLIQUES.lock().unwrap().len() as u64).to_ne_bytes());
        *id = Id(bytes);
        SUCCESS
    }
    ncclCommInitRank(communicator: *mut Handle, ranks: c_int, id: Id, rank: c_int) {
        let mut cliques = CLIQUES.lock().unwrap();
        let known = cliques.iter().position(|clique| clique.id == id.0);
        let clique = known.unwrap_or(cliques.len());
        if known.is_none() {
            cliques.push(Clique { id: id.0, joined: 0, parts: vec![None; ranks as usize], round: 0 });
        }
        if cliques[clique].parts.len() != ranks as usize || rank >= ranks { return INVALID_ARGUMENT; }
        cliques[clique].joined += 1;
        CHANGED.notify_all();
        while cliques[clique].joined < ranks as usize {
            cliques = CHANGED.wait(cliques).unwrap();
        }
        *communicator = (1 + (clique << 16) + rank as usize) as Handle;
        SUCCESS
    }
    ncclCommDestroy(_communicator: Handle) { SUCCESS }
    ncclCommAbort(_communicator: Handle) { SUCCESS }
    ncclCommCount(communicator: Handle, count: *mut c_int) {
        *count = CLIQUES.lock().unwrap()[place(communicator).0].parts.len() as c_int;
        SUCCESS
    }
    ncclCommUserRank(communicator: Handle, rank: *mut c_int) { *rank = place(communicator).1 as c_int; SUCCESS }
    ncclCommGetAsyncError(_communicator: Handle, status: *mut Status) { *status = SUCCESS; SUCCESS }
    ncclAllReduce(
        from: Address, into: Address, count: usize, element: c_int, _sum: c_int, communicator: Handle, stream: Handle
    ) {
        let stream = stream as usize;
        collective(communicator, Part { kind: Kind::AllReduce, from, into, count, element, stream })
    }
    ncclReduceScatter(
        from: Address, into: Address, count: usize, element: c_int, _sum: c_int, communicator: Handle, stream: Handle
    ) {
        let stream = stream as usize;
        collective(communicator, Part { kind: Kind::ReduceScatter, from, into, count, element, stream })
    }
    ncclAllGather(from: Address, into: Address, count: usize, element: c_int, communicator: Handle, stream: Handle) {
        let stream = stream as usize;
        collective(communicator, Part { kind: Kind::AllGather, from, into, count, element, stream })
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(status: Status) -> *const c_char {
    if status == INVALID_ARGUMENT { c"invalid argument".as_ptr() } else { c"as asked".as_ptr() }
}
