//! A CUDA driver without a GPU: what `tests/devices/` loads in place of `libcuda.so` if there is none.
//!
//! It does no work until it must. Streams are queues; their operations run when something waits for them. With
//! `FAKE_DRIVER_ORDER=random` they also run at random moments, each as soon as the events that it waits for allow.
//! Freed memory is overwritten, and using it ends the process. So an order that the caller failed to ask for shows as a
//! wrong result. Kernels are not executed from their machine code: those that the test launches are written out in
//! `kernels`. A stream that is captured takes launches and copies; whatever a real driver would refuse there ends the
//! process.
//!
//! This file is the driver's state; its functions are in `api`, and NCCL's, which are in the same library, in `nccl`.
//!
//! Names and values are those of cuda.h.
#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc, clippy::print_stderr, clippy::unwrap_used)]
#![allow(unreachable_pub, reason = "the functions are exported by name")]

#[path = "fake_cuda_driver/api.rs"]
mod api;
#[path = "fake_cuda_driver/kernels.rs"]
mod kernels;
#[path = "fake_cuda_driver/nccl.rs"]
mod nccl;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard};

type Status = c_int;
type Handle = *mut c_void;
type Address = u64;

const SUCCESS: Status = 0;
const INVALID_VALUE: Status = 1;
const OUT_OF_MEMORY: Status = 2;
const INVALID_IMAGE: Status = 200;
const CAPTURE_UNSUPPORTED: Status = 900;
const NOT_FOUND: Status = 500;
const NOT_READY: Status = 600;
const INVALID_CLUSTER_SIZE: Status = 912;
const MEMORY_BYTES: usize = 1 << 30;
const CONTEXT: usize = 0x1000;

/// The work of a kernel or a copy; in a graph, it is done as often as the graph is launched.
type Work = Arc<dyn Fn(&mut Memory) + Send + Sync>;

enum Operation {
    Work(Work),
    /// Waits until a stream has done this many operations.
    Wait(usize, usize),
}

#[derive(Default)]
struct Stream {
    queue: VecDeque<Operation>,
    done: usize,
    total: usize,
    destroyed: bool,
    capture: Option<Capture>,
}

/// A capture of a stream: the work so far, with the capture's number and mode.
struct Capture {
    id: u64,
    mode: c_uint,
    work: Vec<Work>,
}

/// The modes of threads and captures.
const GLOBAL: c_uint = 0;
const RELAXED: c_uint = 2;

#[derive(Clone, Copy, Default)]
struct Event {
    recorded: Option<(usize, usize)>,
    timed: bool,
    destroyed: bool,
}

struct Function {
    name: String,
    module: usize,
    shared_bytes: u32,
    /// `NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
    large_clusters: bool,
}

/// The unit of allocation: aligned as real drivers align.
#[repr(C, align(512))]
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
struct Page([u64; 64]);

/// Allocations by address.
#[derive(Default)]
struct Memory(BTreeMap<Address, Box<[Page]>>);

impl Memory {
    /// The bytes of a range, which must lie in a living allocation.
    fn bytes(&mut self, address: Address, length: usize) -> &mut [u8] {
        let found = self.0.range_mut(..=address).next_back();
        let slice = found.and_then(|(&start, pages)| {
            let at = (address - start) as usize;
            bytemuck::cast_slice_mut::<Page, u8>(pages).get_mut(at..at + length)
        });
        slice.unwrap_or_else(|| die("memory that is freed, or was never allocated, is used"))
    }

    fn floats(&mut self, address: Address, count: usize) -> Vec<f32> {
        self.bytes(address, count * 4).chunks_exact(4).map(bytemuck::pod_read_unaligned).collect()
    }

    fn free(&mut self, address: Address) {
        let Some(mut pages) = self.0.remove(&address) else { die("freed twice") };
        pages.fill(Page([0xDDDD_DDDD_DDDD_DDDD; 64]));
    }
}

/// Streams, events and functions by handle; stream 0 is the legacy default stream.
#[derive(Default)]
struct Driver {
    streams: Vec<Stream>,
    events: Vec<Event>,
    functions: Vec<Function>,
    modules: usize,
    graphs: Vec<Option<Vec<Work>>>,
    captures: u64,
    /// Where the modules' variables are.
    variables: BTreeMap<usize, Address>,
    memory: Memory,
    random: u32,
}

static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

thread_local! {
    static MODE: std::cell::Cell<c_uint> = const { std::cell::Cell::new(GLOBAL) };
    static CURRENT: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// The driver, for a call that needs a current context.
fn driver() -> MutexGuard<'static, Option<Driver>> {
    if CURRENT.with_borrow(|all| all.last() != Some(&CONTEXT)) {
        die("a call without a current context");
    }
    let mut guard = DRIVER.lock().unwrap();
    let driver = guard.get_or_insert_with(|| Driver { streams: vec![Stream::default()], ..Driver::default() });
    if std::env::var_os("FAKE_DRIVER_ORDER").is_some_and(|order| order == "random") {
        for _ in 0..driver.random() % 3 {
            let stream = driver.random() as usize % driver.streams.len();
            driver.step(stream, false);
        }
    }
    guard
}

/// Calls `body` with the driver.
fn with<R>(body: impl FnOnce(&mut Driver) -> R) -> R {
    body(driver().as_mut().unwrap())
}

/// Calls `body`, of a function that a real driver calls unsafe while something is captured.
fn apart_from_captures<R>(body: impl FnOnce(&mut Driver) -> R) -> R {
    with(|d| {
        let of_all = |stream: &Stream| stream.capture.as_ref().is_some_and(|capture| capture.mode == GLOBAL);
        if MODE.get() != RELAXED && d.streams.iter().any(of_all) {
            die("a call that a capture forbids");
        }
        body(d)
    })
}

/// The number in an environment variable.
fn number(variable: &str, default: c_int) -> c_int {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn die(message: &str) -> ! {
    eprintln!("the fake driver: {message}");
    std::process::abort();
}

impl Driver {
    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random >> 16
    }

    /// Does a stream's next operation. One that waits for another stream's work does that work first, if forced.
    fn step(&mut self, stream: usize, forced: bool) {
        match self.streams[stream].queue.front() {
            None => return,
            Some(&Operation::Wait(other, count)) if self.streams[other].done < count => {
                if !forced {
                    return;
                }
                self.run_to(other, count);
            }
            Some(_) => {}
        }
        if let Some(Operation::Work(work)) = self.streams[stream].queue.pop_front() {
            work(&mut self.memory);
        }
        self.streams[stream].done += 1;
    }

    fn run_to(&mut self, stream: usize, count: usize) {
        while self.streams[stream].done < count {
            self.step(stream, true);
        }
    }

    fn finish(&mut self, stream: usize) {
        self.run_to(stream, self.streams[stream].total);
    }

    fn push(&mut self, stream: Handle, operation: Operation) -> Status {
        let stream = &mut self.streams[stream as usize];
        if stream.destroyed {
            die("a destroyed stream is used");
        }
        if stream.capture.is_some() {
            die("a captured stream allocates, frees, marks or waits for what is not captured");
        }
        stream.queue.push_back(operation);
        stream.total += 1;
        SUCCESS
    }

    /// Puts what a graph can hold on a stream, or into its capture.
    fn launch(&mut self, stream: Handle, work: Work) -> Status {
        if let Some(capture) = &mut self.streams[stream as usize].capture {
            capture.work.push(work);
            return SUCCESS;
        }
        self.push(stream, Operation::Work(work))
    }

    fn is_captured(&self, stream: Handle) -> bool {
        self.streams[stream as usize].capture.is_some()
    }

    fn work(&mut self, stream: Handle, work: impl Fn(&mut Memory) + Send + Sync + 'static) -> Status {
        self.push(stream, Operation::Work(Arc::new(work)))
    }

    fn event(&mut self, event: Handle) -> &mut Event {
        let event = &mut self.events[event as usize - 1];
        if event.destroyed {
            die("a destroyed event is used");
        }
        event
    }

    fn allocate(&mut self, bytes: usize) -> Option<Address> {
        if bytes > MEMORY_BYTES {
            return None;
        }
        let pages = vec![Page([0xCDCD_CDCD_CDCD_CDCD; 64]); bytes.div_ceil(size_of::<Page>())].into_boxed_slice();
        let address = pages.as_ptr() as Address;
        self.memory.0.insert(address, pages);
        Some(address)
    }
}
