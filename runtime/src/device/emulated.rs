//! Emulated GPUs: ptx-vm behind the same interface. It runs the PTX that NVRTC makes of the generated CUDA C++, so
//! inline PTX, operand order and contraction are under test.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use ptx_vm::Module;
use ptx_vm::{Address, Argument, LaunchError, LaunchFailure, Machine, MemoryError, Options, ParseError};

use smallvec::SmallVec;

use crate::compile::arch::Arch;
use crate::compile::cache::CacheKey;
use crate::device::launch::Launch;
use crate::device::{host, not_emulated};
use crate::error::{Error, Result};

/// The most parsed modules that are kept; then all are dropped.
const MODULES_KEPT: usize = 256;

/// A ptx-vm machine for one architecture.
pub(crate) struct Emulator {
    pub(crate) machine: Machine,
    arch: Arch,
    /// Modules that run instead of kernels with these names.
    substitutes: Mutex<BTreeMap<String, Module>>,
}

impl Emulator {
    /// A machine with its own empty memory.
    pub(crate) fn new(arch: Arch, options: Options) -> Result<Self> {
        let Ok(known) = arch.to_string().parse() else { return Err(not_emulated(arch)) };
        Ok(Self { machine: Machine::new(options.arch(known)), arch, substitutes: Mutex::default() })
    }

    fn memory_error(&self, error: &MemoryError, bytes: usize) -> Error {
        let device = format!("an emulated {}", self.arch);
        match error {
            MemoryError::TooLarge { .. } | MemoryError::OutOfMemory { .. } => Error::OutOfMemory { device, bytes },
            other => Error::EmulatedMemory { device, message: other.to_string() },
        }
    }

    /// Makes `module` run instead of kernels with this name; `None` ends this.
    pub(crate) fn substitute(&self, kernel: &str, module: Option<Module>) {
        let mut substitutes = self.substitutes.lock().unwrap_or_else(PoisonError::into_inner);
        match module {
            Some(module) => substitutes.insert(kernel.to_owned(), module),
            None => substitutes.remove(kernel),
        };
    }

    /// Whether there is room for a cluster of this many blocks.
    pub(crate) fn has_room(&self, blocks: u32) -> bool {
        blocks <= self.machine.options().largest_cluster
    }

    /// Fills a variable of a module.
    pub(crate) fn write_variable(&self, module: &Module, name: &str, bytes: &[u8]) -> Result<()> {
        let address = match self.machine.variable(module, name) {
            Some((address, size)) if size == bytes.len() as u64 => address,
            found => {
                let size = found.map_or(0, |(_, size)| size);
                let reason = format!("the variable has {size} bytes, {} are needed", bytes.len());
                return Err(Error::Launch { kernel: name.to_owned(), reason });
            }
        };
        self.machine.write(address, bytes).map_err(|e| self.memory_error(&e, bytes.len()))
    }

    /// Parses a kernel's PTX.
    pub(crate) fn load(&self, ptx: &str, kernel: &str) -> Result<Module> {
        module(ptx).map_err(|e| Error::EmulatedModule {
            kernel: kernel.to_owned(),
            device: format!("an emulated {}", self.arch),
            message: e.to_string(),
        })
    }

    /// Runs a kernel to its end. With the detector on, its findings are errors. The caller has a [`Use`] of the memory.
    pub(crate) fn launch(&self, module: &Module, kernel: &str, launch: &Launch, arguments: &[&[u8]]) -> Result<()> {
        let shape = ptx_vm::Launch::new(launch.grid, launch.block)
            .cluster(launch.cluster)
            .non_portable_cluster(launch.has_large_clusters())
            .shared_bytes(launch.shared_bytes)
            .overlaps_previous(launch.programmatic_dependent_launch);
        let arguments: Vec<Argument<'_>> = arguments.iter().map(|bytes| Argument::Bytes(bytes)).collect();
        let substitute = self.substitutes.lock().unwrap_or_else(PoisonError::into_inner).get(kernel).cloned();
        let module = substitute.as_ref().unwrap_or(module);
        let ended = self.machine.launch(module, kernel, &shape, &arguments);
        // A kernel's printed text goes to the same place as on a GPU.
        let printed = ended.as_ref().map_or_else(|failure| &failure.printed, |report| &report.printed);
        if !printed.is_empty() {
            let _ = std::io::stdout().write_all(printed.as_bytes());
        }
        match ended {
            Ok(report) if report.races.is_empty() => Ok(()),
            Ok(report) => Err(Error::Races {
                kernel: kernel.to_owned(),
                device: format!("an emulated {}", self.arch),
                findings: report.races,
            }),
            Err(LaunchFailure { error: LaunchError::BadLaunch { kernel, message }, .. }) => {
                Err(Error::Launch { kernel, reason: message })
            }
            Err(fault) => Err(Error::Emulation {
                kernel: kernel.to_owned(),
                device: format!("an emulated {}", self.arch),
                message: fault.to_string(),
            }),
        }
    }
}

/// Parsed PTX. Equal texts give one module, so that a kernel that is planned a thousand times is parsed once. But a
/// text with its own variables gives a new module each time, like loading machine code.
fn module(ptx: &str) -> Result<Module, ParseError> {
    static PARSED: Mutex<BTreeMap<CacheKey, Module>> = Mutex::new(BTreeMap::new());
    // Declarations read `.global .align 4 …`; instructions `ld.global.f32`.
    if ptx.contains(".global .") {
        return Module::parse(ptx);
    }
    let key = CacheKey::of(&[ptx.as_bytes()]);
    let found = PARSED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(module) = found {
        return Ok(module);
    }
    let module = Module::parse(ptx)?;
    let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if parsed.len() >= MODULES_KEPT {
        parsed.clear();
    }
    parsed.insert(key, module.clone());
    Ok(module)
}

/// Memory of an emulated GPU.
pub(crate) struct EmulatedMemory {
    emulator: Arc<Emulator>,
    address: Address,
    /// Held for reading by what reads the memory, else for writing: as on a GPU, launches and copies are ordered if
    /// they use the same memory, whichever threads they are of.
    used: RwLock<()>,
}

/// Use of memory by launches, for as long as this value lives. Other threads' launches and copies that need it wait.
pub(crate) struct Use<'a> {
    _locks: SmallVec<[Lock<'a>; 8]>,
}

#[allow(dead_code, reason = "held for their Drop")]
enum Lock<'a> {
    Read(RwLockReadGuard<'a, ()>),
    Write(RwLockWriteGuard<'a, ()>),
}

impl<'a> Use<'a> {
    /// Waits until all of this memory may be used: read, or written if that is given.
    pub(crate) fn of(memory: impl IntoIterator<Item = (&'a EmulatedMemory, bool)>) -> Self {
        let mut wanted: SmallVec<[_; 8]> = memory.into_iter().collect();
        // All threads take them in the same order; what is both read and written is locked once, for writing.
        wanted.sort_by_key(|&(memory, writes)| (std::ptr::from_ref(memory) as usize, !writes));
        wanted.dedup_by_key(|(memory, _)| std::ptr::from_ref(*memory));
        let lock = |(memory, writes): (&'a EmulatedMemory, bool)| {
            if writes { Lock::Write(memory.write_lock()) } else { Lock::Read(memory.read_lock()) }
        };
        Self { _locks: wanted.into_iter().map(lock).collect() }
    }
}

impl EmulatedMemory {
    /// Memory filled with zeros. `label` is its name in the machine's reports.
    pub(crate) fn zeroed(emulator: &Arc<Emulator>, bytes: usize, label: &str) -> Result<Self> {
        let memory = Self::to_be_filled(emulator, bytes, label)?;
        let filled = emulator.machine.fill(memory.address, bytes as u64, 0);
        filled.map_err(|e| emulator.memory_error(&e, bytes)).map(|()| memory)
    }

    /// Memory that holds `bytes`.
    pub(crate) fn holding(emulator: &Arc<Emulator>, bytes: &[u8], label: &str) -> Result<Self> {
        let memory = Self::to_be_filled(emulator, bytes.len(), label)?;
        memory.write(0, bytes).map(|()| memory)
    }

    /// Memory for whose bytes, and a bit for each, this computer has room.
    fn to_be_filled(emulator: &Arc<Emulator>, bytes: usize, label: &str) -> Result<Self> {
        if !host::has_room(bytes.saturating_add(bytes / 8)) {
            return Err(Error::OutOfMemory { device: format!("an emulated {}", emulator.arch), bytes });
        }
        Self::uninitialised(emulator, bytes, label)
    }

    /// Memory that its creator fills before anyone else can read it.
    pub(crate) fn uninitialised(emulator: &Arc<Emulator>, bytes: usize, label: &str) -> Result<Self> {
        let address = emulator.machine.allocate(bytes as u64, label);
        let address = address.map_err(|e| emulator.memory_error(&e, bytes))?;
        Ok(Self { emulator: Arc::clone(emulator), address, used: RwLock::default() })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address.0
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, ()> {
        self.used.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, ()> {
        self.used.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies bytes out. The caller has checked the range.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let _used = self.read_lock();
        let read = self.emulator.machine.read(Address(self.address.0 + offset as u64), into);
        read.map_err(|e| self.emulator.memory_error(&e, into.len()))
    }

    /// Copies bytes in. The caller has checked the range.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let _used = self.write_lock();
        let written = self.emulator.machine.write(Address(self.address.0 + offset as u64), from);
        written.map_err(|e| self.emulator.memory_error(&e, from.len()))
    }
}

impl Drop for EmulatedMemory {
    fn drop(&mut self) {
        // This can fail only for an address that is not an allocation.
        let _ = self.emulator.machine.free(self.address);
    }
}
