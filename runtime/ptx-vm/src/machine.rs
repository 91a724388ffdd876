//! A machine: device memory, options, and the calls of the host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use epilogue_float_mode::in_default_mode;

use crate::error::{LaunchError, LaunchFailure, MemoryError};
use crate::exec;
use crate::launch::{Argument, Launch, Report};
use crate::memory::global::{Address, Allocation, GlobalMemory};
use crate::module::Module;
use crate::options::{Detector, Options};
use crate::program::{Kernel, ModuleVariable, ProgramValue};
use crate::race::GlobalHistory;

/// A machine with its device memory. It is `Send + Sync`: share it in an `Arc` to launch from several threads.
///
/// Launches of several threads run side by side, so they must not use the same memory. But those that a race detector
/// watches take turns, since nothing would order their accesses. So do those of one module whose code uses its
/// variables.
///
/// ```
/// use ptx_vm::{Address, Argument, Launch, Machine, Module, Options};
/// let module = Module::parse(
///     ".version 8.0\n.target sm_80\n.address_size 64
///      .visible .entry store(.param .u64 out) {
///          .reg .b32 %r<2>; .reg .b64 %rd<2>;
///          ld.param.u64 %rd1, [out];
///          mov.u32 %r1, 42;
///          st.global.u32 [%rd1], %r1;
///          ret;
///      }",
/// )?;
/// let machine = Machine::new(Options::default());
/// let out = machine.allocate(4, "out")?;
/// machine.launch(&module, "store", &Launch::new([1, 1, 1], [1, 1, 1]), &[Argument::Address(out)])?;
/// let mut bytes = [0; 4];
/// machine.read(out, &mut bytes)?;
/// assert_eq!(bytes, 42u32.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Machine {
    options: Options,
    memory: GlobalMemory,
    /// The variables of all modules that were launched here, by module.
    variables: Mutex<HashMap<u64, Arc<Variables>>>,
    /// Held by a launch that the race detector watches.
    watched: Mutex<()>,
    /// The race detector's history of device memory.
    history: Arc<GlobalHistory>,
}

/// The variables of a module.
struct Variables {
    allocations: Vec<Arc<Allocation>>,
    /// Held by a launch whose code uses them.
    used: Mutex<()>,
}

impl Machine {
    /// A machine with empty memory.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            memory: GlobalMemory::default(),
            variables: Mutex::default(),
            watched: Mutex::default(),
            history: Arc::new(GlobalHistory::new()),
        }
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Allocates device memory, aligned to 512 bytes and followed by unmapped bytes. Its bytes count as unwritten.
    /// `name` is used in error messages.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`]; [`MemoryError::OutOfMemory`].
    pub fn allocate(&self, bytes: u64, name: &str) -> Result<Address, MemoryError> {
        self.memory.allocate(bytes, name).map(|a| Address(a.base))
    }

    /// Frees an allocation. A running launch keeps alive what it uses.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] if `address` is not the start of a live allocation.
    pub fn free(&self, address: Address) -> Result<(), MemoryError> {
        if let Ok((allocation, 0)) = self.memory.range(address.0, 0) {
            self.history.forget(allocation.base..allocation.base + allocation.size);
        }
        self.memory.free(address.0)
    }

    /// Copies bytes into device memory.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`] if the range is not inside one allocation.
    pub fn write(&self, address: Address, bytes: &[u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.memory.range(address.0, bytes.len() as u64)?;
        allocation.write(offset, bytes);
        Ok(())
    }

    /// Copies bytes out of device memory. Unwritten bytes have unspecified values.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`] if the range is not inside one allocation.
    pub fn read(&self, address: Address, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.memory.range(address.0, bytes.len() as u64)?;
        allocation.read(offset, bytes);
        Ok(())
    }

    /// Fills `bytes` bytes of device memory with one value.
    ///
    /// # Errors
    /// [`MemoryError::OutOfBounds`] if the range is not inside one allocation.
    pub fn fill(&self, address: Address, bytes: u64, value: u8) -> Result<(), MemoryError> {
        let (allocation, offset) = self.memory.range(address.0, bytes)?;
        allocation.fill(offset, bytes, value);
        Ok(())
    }

    /// Runs a kernel until it ends. See [`Machine`] for launches of other threads.
    ///
    /// # Errors
    /// [`LaunchFailure`]: the launch is not valid, or the kernel made a mistake, with its place. It includes what the
    /// race detector had found before.
    pub fn launch(
        &self,
        module: &Module,
        kernel: &str,
        launch: &Launch,
        arguments: &[Argument<'_>],
    ) -> Result<Report, LaunchFailure> {
        let variables = self.variables_of(module).map_err(|error| {
            let message = format!("the module's variables: {error}");
            LaunchFailure::from(LaunchError::BadLaunch { kernel: kernel.into(), message })
        })?;
        let options = launch.options.as_ref().unwrap_or(&self.options);
        let watched = options.detector == Detector::On;
        let _watched = watched.then(|| self.watched.lock().unwrap_or_else(PoisonError::into_inner));
        // Compilers leave variables behind that no code uses: a `static constexpr` member is one.
        let names_variables = module.kernel(kernel).is_some_and(Kernel::names_variables);
        let _used = names_variables.then(|| variables.used.lock().unwrap_or_else(PoisonError::into_inner));
        let memory = exec::MachineMemory {
            living: self.memory.living(),
            variables: &variables.allocations,
            history: &self.history,
        };
        in_default_mode(|| exec::launch(module, kernel, launch, arguments, options, memory))
    }

    /// The module's variables. The first use allocates and initialises them.
    fn variables_of(&self, module: &Module) -> Result<Arc<Variables>, MemoryError> {
        let mut table = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = table.get(&module.contents.id) {
            return Ok(Arc::clone(found));
        }
        let declared = &module.contents.variables;
        let mut allocations = vec![];
        for variable in declared {
            match self.memory.allocate(variable.size.max(1), &variable.name) {
                Ok(allocation) => allocations.push(allocation),
                Err(error) => {
                    allocations.iter().for_each(|a: &Arc<Allocation>| drop(self.memory.free(a.base)));
                    return Err(error);
                }
            }
        }
        for (variable, allocation) in declared.iter().zip(&allocations) {
            let bytes: Vec<u8> = variable.bytes(|index| allocations[index].base);
            allocation.write(0, &bytes);
            // The rest is zero, as allocated.
            allocation.mark_all_written();
        }
        let variables = Arc::new(Variables { allocations, used: Mutex::default() });
        table.insert(module.contents.id, Arc::clone(&variables));
        Ok(variables)
    }

    /// The address and size of a module's variable, with which the host can read and write it.
    pub fn variable(&self, module: &Module, name: &str) -> Option<(Address, u64)> {
        let index = module.contents.variables.iter().position(|v| v.name == name)?;
        let variables = self.variables_of(module).ok()?;
        variables.allocations.get(index).map(|a| (Address(a.base), module.contents.variables[index].size))
    }
}

impl ModuleVariable {
    /// The initial bytes, as far as the text has any. `address` gives the address of the variable with an index.
    fn bytes(&self, address: impl Fn(usize) -> u64) -> Vec<u8> {
        let given = (self.values.len() as u64).saturating_mul(self.element_bytes as u64);
        let mut bytes = vec![0; given.min(self.size) as usize];
        for (i, value) in self.values.iter().enumerate() {
            let value = match *value {
                ProgramValue::Bits(bits) => bits,
                ProgramValue::Address { variable, offset } => address(variable).wrapping_add_signed(offset),
            };
            let at = i * self.element_bytes;
            if let Some(place) = bytes.get_mut(at..at + self.element_bytes) {
                place.copy_from_slice(&value.to_le_bytes()[..self.element_bytes]);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use epilogue_float_mode::testing::{Strange, in_strange_mode};

    use super::*;

    /// A kernel says itself whether it flushes and how it rounds; by default it does neither and to nearest even.
    #[test]
    fn a_kernel_computes_in_its_own_mode_whatever_the_callers_is() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64
            .visible .entry k(.param .u64 out, .param .f32 x) {
                .reg .f32 %f<5>; .reg .b64 %rd<2>;
                ld.param.u64 %rd1, [out];
                ld.param.f32 %f1, [x];
                mul.f32 %f2, %f1, 0f3F000000;
                mov.f32 %f3, 0f3F800000;
                div.rn.f32 %f4, %f3, 0f40400000;
                st.global.f32 [%rd1], %f2;
                st.global.f32 [%rd1+4], %f4;
                ret;
            }";
        let run = || {
            let module = Module::parse(text).expect("PTX");
            let machine = Machine::new(Options::default());
            let out = machine.allocate(8, "out").expect("memory");
            let (launch, x) = (Launch::new([1, 1, 1], [1, 1, 1]), f32::MIN_POSITIVE.to_le_bytes());
            machine.launch(&module, "k", &launch, &[Argument::Address(out), Argument::Bytes(&x)]).expect("a launch");
            let mut bytes = [0; 8];
            machine.read(out, &mut bytes).expect("bytes");
            [0, 4].map(|at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
        };
        for strange in Strange::ALL {
            assert_eq!(in_strange_mode(*strange, run), [1 << 22, 0x3eaa_aaab], "{strange:?}");
        }
    }
}
