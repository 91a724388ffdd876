//! NCCL: its functions, and a communicator of one GPU.
//!
//! The library is loaded here and not by cudarc: cudarc's loader never asks for `libnccl.so.2`, the only name under
//! which NCCL's packages install the library for programs. It panics if there is none, and its features for NCCL
//! (exactly one version) don't unify among libraries. Every function that is called here has the same declaration in
//! every NCCL since 2.10. A library is never unloaded, since it has threads of its own.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::sys::CUstream;

use super::context::Context;
use super::stream::CudaStream;
use crate::compile::trust::{Named, distrust};
use crate::error::Result;
use crate::error::ranks::CommunicatorError;
use crate::layout::element::ElementType;
use crate::ranks::collective::Collective;

type Handle = *mut c_void;
type Status = c_int;

/// `ncclInProgress`: not an error, the call goes on.
const IN_PROGRESS: Status = 7;
/// `ncclSum`.
const SUM: c_int = 0;
/// Versions are written so: 2.10.0 has bfloat16 sums and asynchronous errors.
const OLDEST: c_int = 21_000;

/// The bytes of `ncclUniqueId`, which all ranks of a communicator have in common.
pub(crate) const ID_BYTES: usize = 128;

/// `ncclUniqueId`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Id([u8; ID_BYTES]);

/// NCCL's functions, by their names in nccl.h.
#[allow(non_snake_case)]
struct Functions {
    ncclGetVersion: unsafe extern "C" fn(*mut c_int) -> Status,
    ncclGetErrorString: unsafe extern "C" fn(Status) -> *const c_char,
    ncclGetUniqueId: unsafe extern "C" fn(*mut Id) -> Status,
    ncclCommInitRank: unsafe extern "C" fn(*mut Handle, c_int, Id, c_int) -> Status,
    ncclCommDestroy: unsafe extern "C" fn(Handle) -> Status,
    ncclCommAbort: unsafe extern "C" fn(Handle) -> Status,
    ncclCommCount: unsafe extern "C" fn(Handle, *mut c_int) -> Status,
    ncclCommUserRank: unsafe extern "C" fn(Handle, *mut c_int) -> Status,
    ncclCommGetAsyncError: unsafe extern "C" fn(Handle, *mut Status) -> Status,
    ncclAllReduce: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, CUstream) -> Status,
    ncclReduceScatter:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, CUstream) -> Status,
    ncclAllGather: unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Handle, CUstream) -> Status,
}

macro_rules! functions {
    ($library:expr, $($name:ident),* $(,)?) => {
        Functions { $(
            // SAFETY: the field's type is the function's declaration in nccl.h.
            $name: *unsafe { $library.get(concat!(stringify!($name), "\0").as_bytes())? },
        )* }
    };
}

impl Functions {
    fn load(library: &libloading::Library) -> Result<Self, libloading::Error> {
        Ok(functions!(
            library,
            ncclGetVersion,
            ncclGetErrorString,
            ncclGetUniqueId,
            ncclCommInitRank,
            ncclCommDestroy,
            ncclCommAbort,
            ncclCommCount,
            ncclCommUserRank,
            ncclCommGetAsyncError,
            ncclAllReduce,
            ncclReduceScatter,
            ncclAllGather,
        ))
    }

    fn check(&self, call: &'static str, status: Status) -> Result<(), CommunicatorError> {
        if status == 0 || status == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: NCCL returns a static string for any status.
        let message = unsafe { CStr::from_ptr((self.ncclGetErrorString)(status)) };
        Err(CommunicatorError::Nccl { call, code: status, message: message.to_string_lossy().into_owned() })
    }
}

/// Calls a function of NCCL and checks its status. It must be used in an `unsafe` block.
macro_rules! call {
    ($nccl:expr, $function:ident($($argument:expr),* $(,)?)) => {
        $nccl.check(stringify!($function), ($nccl.$function)($($argument),*))
    };
}

/// NCCL, loaded at the first call.
fn nccl() -> Result<&'static Functions, CommunicatorError> {
    static NCCL: OnceLock<Result<Functions, CommunicatorError>> = OnceLock::new();
    NCCL.get_or_init(find).as_ref().map_err(Clone::clone)
}

/// The library that `EPILOGUE_NCCL` names, and no other; else the first of the loader's path and the Python packages that
/// `VIRTUAL_ENV` and `CONDA_PREFIX` name.
fn find() -> Result<Functions, CommunicatorError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut candidates = Vec::new();
    if let Some(named) = variable("EPILOGUE_NCCL") {
        candidates.push(if named.is_dir() { named.join("libnccl.so.2") } else { named });
    } else {
        candidates.extend(["libnccl.so.2", "libnccl.so"].map(PathBuf::from));
        for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable) {
            let pythons = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
            let packages = pythons.map(|python| python.path().join("site-packages/nvidia/nccl/lib/libnccl.so.2"));
            candidates.extend(packages.filter(|library| library.is_file()));
        }
    }
    let mut tried = Vec::new();
    for path in candidates {
        match open(&path) {
            Ok(functions) => return Ok(functions),
            Err(reason) => tried.push(format!("{}: {reason}", path.display())),
        }
    }
    Err(CommunicatorError::Absent { tried })
}

fn open(path: &std::path::Path) -> Result<Functions, String> {
    if path.is_absolute()
        && let Some(reason) = distrust(path, Named::ByUser)
    {
        return Err(format!("not taken: {reason}"));
    }
    // SAFETY: loading NCCL runs its initialisers, which have no preconditions.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    let functions = Functions::load(&library).map_err(|error| error.to_string())?;
    std::mem::forget(library);
    let mut version = 0;
    // SAFETY: a valid place to write to.
    unsafe { call!(functions, ncclGetVersion(&raw mut version)) }.map_err(|error| error.to_string())?;
    if version < OLDEST {
        return Err(format!("it is too old: version {version}, and {OLDEST} (2.10) or newer is needed"));
    }
    Ok(functions)
}

/// `ncclDataType_t`.
fn data_type(element: ElementType) -> c_int {
    match element {
        ElementType::I8 => 0,
        // Bytes that are moved as they are.
        ElementType::U8 | ElementType::Bool | ElementType::F8E4M3 | ElementType::F8E5M2 => 1,
        ElementType::I32 => 2,
        ElementType::U32 => 3,
        ElementType::I64 => 4,
        ElementType::U64 => 5,
        // 16-bit integers are moved as they are, too, under the name of another type of 16 bits.
        ElementType::F16 | ElementType::I16 | ElementType::U16 => 6,
        ElementType::F32 => 7,
        ElementType::F64 => 8,
        ElementType::BF16 => 9,
    }
}

/// A new id for a communicator.
pub(crate) fn new_id() -> Result<[u8; ID_BYTES], CommunicatorError> {
    let nccl = nccl()?;
    let mut id = Id([0; ID_BYTES]);
    // SAFETY: a valid place to write to.
    unsafe { call!(nccl, ncclGetUniqueId(&raw mut id)) }?;
    Ok(id.0)
}

/// A communicator of NCCL's, of one GPU.
pub(crate) struct NcclCommunicator {
    nccl: &'static Functions,
    context: &'static Context,
    owned: bool,
    /// NCCL takes calls of one thread at a time. `None` after an abort.
    handle: Mutex<Option<Comm>>,
}

struct Comm(Handle);

// SAFETY: NCCL's functions may be called from any thread, one at a time, which the mutex around it makes sure.
unsafe impl Send for Comm {}

impl NcclCommunicator {
    /// Joins a new communicator. It waits for all ranks.
    pub(crate) fn join(context: &'static Context, id: [u8; ID_BYTES], rank: usize, ranks: usize) -> Result<Self> {
        let nccl = nccl()?;
        let number = |value| c_int::try_from(value).map_err(|_| CommunicatorError::Rank { rank, ranks });
        let (count, number) = (number(ranks)?, number(rank)?);
        let _current = context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: a valid place to write to; the GPU's context is current.
        unsafe { call!(nccl, ncclCommInitRank(&raw mut handle, count, Id(id), number)) }?;
        Ok(Self { nccl, context, owned: true, handle: Mutex::new(Some(Comm(handle))) })
    }

    /// Someone else's communicator.
    ///
    /// # Safety
    /// It is a live `ncclComm_t` of this GPU until this value is dropped, and nobody else calls NCCL with it meanwhile.
    pub(crate) unsafe fn borrow(context: &'static Context, handle: Handle) -> Result<Self> {
        Ok(Self { nccl: nccl()?, context, owned: false, handle: Mutex::new(Some(Comm(handle))) })
    }

    fn handle(&self) -> MutexGuard<'_, Option<Comm>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, call: impl FnOnce(Handle) -> Result<R, CommunicatorError>) -> Result<R> {
        let _current = self.context.bind()?;
        match &*self.handle() {
            Some(Comm(handle)) => Ok(call(*handle)?),
            None => Err(CommunicatorError::Broken { reason: "it was aborted".to_owned() }.into()),
        }
    }

    /// This GPU's rank, and how many there are.
    pub(crate) fn place(&self) -> Result<(usize, usize)> {
        self.with(|handle| {
            let (mut rank, mut ranks) = (0, 0);
            // SAFETY: a live communicator, valid places to write to.
            unsafe {
                call!(self.nccl, ncclCommUserRank(handle, &raw mut rank))?;
                call!(self.nccl, ncclCommCount(handle, &raw mut ranks))?;
            }
            Ok((usize::try_from(rank).unwrap_or(0), usize::try_from(ranks).unwrap_or(0)))
        })
    }

    /// Puts this rank's part of a collective on a stream. `count` is the number of elements of a rank's part: of an
    /// all-reduce, all elements.
    ///
    /// # Safety
    /// `from` and `into` are memory of this GPU with as many elements as the collective reads and writes, until it is done.
    pub(crate) unsafe fn launch(
        &self,
        collective: Collective,
        (from, into): (u64, u64),
        count: usize,
        element: ElementType,
        stream: &Arc<CudaStream>,
    ) -> Result<()> {
        let (from, into, on) = (from as *const c_void, into as *mut c_void, stream.handle());
        let (nccl, kind) = (self.nccl, data_type(element));
        // SAFETY: the caller's promise; a live communicator and a live stream of its GPU.
        self.with(|handle| unsafe {
            match collective {
                Collective::AllReduce => call!(nccl, ncclAllReduce(from, into, count, kind, SUM, handle, on)),
                Collective::ReduceScatter => call!(nccl, ncclReduceScatter(from, into, count, kind, SUM, handle, on)),
                Collective::AllGather => call!(nccl, ncclAllGather(from, into, count, kind, handle, on)),
            }
        })
    }

    /// An error that happened after its call had returned, such as a lost connection.
    pub(crate) fn check(&self) -> Result<()> {
        self.with(|handle| {
            let mut status = 0;
            // SAFETY: a live communicator, a valid place to write to.
            unsafe { call!(self.nccl, ncclCommGetAsyncError(handle, &raw mut status)) }?;
            self.nccl.check("a collective", status)
        })
    }

    /// Ends what is running, which waits for ranks that don't come; someone else's communicator is only left alone.
    pub(crate) fn abort(&self) {
        let Ok(_current) = self.context.bind() else { return };
        if let Some(Comm(handle)) = self.handle().take()
            && self.owned
        {
            // SAFETY: a live communicator, which is not used any more. An operation that fails here has failed before.
            let _ = unsafe { (self.nccl.ncclCommAbort)(handle) };
        }
    }
}

impl Drop for NcclCommunicator {
    fn drop(&mut self) {
        let Ok(_current) = self.context.bind() else { return };
        if self.owned
            && let Some(Comm(handle)) = self.handle().take()
        {
            // SAFETY: a live communicator, which nobody uses any more. It waits for its work.
            let _ = unsafe { (self.nccl.ncclCommDestroy)(handle) };
        }
    }
}
