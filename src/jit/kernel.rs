//! Machine code of a loop over lanes, and how it is called.

#[cfg(target_arch = "x86_64")]
use super::assembler::Width;
#[cfg(target_arch = "x86_64")]
use super::body::Argument;
use super::body::Body;
#[cfg(target_arch = "x86_64")]
use super::emit::emit;
#[cfg(target_arch = "x86_64")]
use super::emit_rows::emit_rows;
#[cfg(target_arch = "x86_64")]
use super::memory::Executable;
use super::rows::RowProgram;

/// A body, compiled to a loop for this CPU.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
pub(crate) struct Kernel {
    code: Executable,
    width: Width,
    arguments: Vec<Argument>,
    period: usize,
}

#[cfg(all(test, target_arch = "x86_64"))]
thread_local! {
    /// Whether this thread compiles for vectors of 256 bits, also on CPUs with longer ones.
    pub(crate) static NARROW: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The most arguments of a kernel.
pub(crate) const ARGUMENTS: usize = 32;

#[cfg(target_arch = "x86_64")]
impl Kernel {
    /// `None` on a CPU without AVX2, FMA and F16C, on a system that allows no new code, and for bodies that have too many
    /// streams or values.
    pub(crate) fn compile(body: &Body) -> Option<Self> {
        #[cfg(test)]
        if NARROW.get() {
            return Self::of_width(body, Width::Bits256);
        }
        Self::of_width(body, Width::Bits512).or_else(|| Self::of_width(body, Width::Bits256))
    }

    /// The same in vectors of this width only.
    pub(super) fn of_width(body: &Body, width: Width) -> Option<Self> {
        if !has(width) || body.arguments.len() > ARGUMENTS {
            return None;
        }
        let code = Executable::new(&emit(body, width)?)?;
        let period = body.period.map_or(width.lanes(), |period| period as usize);
        Some(Self { code, width, arguments: body.arguments.clone(), period })
    }

    /// Computes `count` lanes. `addresses` are those of the body's arguments, in their order.
    ///
    /// # Safety
    /// As many lanes as are computed, or as a period has, must be readable or writable at the addresses as the body says,
    /// and one value where it is uniform. Nobody else may write what is read, or access what is written, during the call.
    /// A stream that is written may begin where one that is read does, and overlap others in no other way.
    pub(crate) unsafe fn run(&self, addresses: &[*mut u8], count: usize) {
        assert_eq!(addresses.len(), self.arguments.len(), "an address for each argument");
        let rest = count % self.width.lanes();
        let whole = count - rest;
        if whole > 0 {
            // SAFETY: the caller's promise; the code reads and writes whole vectors up to this lane.
            unsafe { self.call(addresses.as_ptr(), whole) };
        }
        if rest > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.run_rest(addresses, whole, rest) };
        }
    }

    /// Computes the last lanes, fewer than a vector has, on copies.
    ///
    /// # Safety
    /// The conditions of [`Kernel::run`].
    unsafe fn run_rest(&self, addresses: &[*mut u8], first: usize, count: usize) {
        let mut copies = [[0u32; Width::Bits512.lanes()]; ARGUMENTS];
        let mut moved = [std::ptr::null_mut::<u8>(); ARGUMENTS];
        let part = |argument: &Argument, address: *mut u8| match argument {
            Argument::Stream { lane, .. } => (address.wrapping_add(first * lane.bytes()), count * lane.bytes()),
            Argument::Cyclic => (address.wrapping_add(first % self.period * 4), count * 4),
            Argument::Uniform | Argument::Counter => (address, 4),
            // Bodies of row programs only have these.
            Argument::Held(_) | Argument::Place(_) | Argument::State(..) => (address, 0),
        };
        for (((argument, address), copy), moved) in
            self.arguments.iter().zip(addresses).zip(&mut copies).zip(&mut moved)
        {
            let (from, bytes) = part(argument, *address);
            let to = copy.as_mut_ptr().cast::<u8>();
            if !matches!(argument, Argument::Stream { read: false, .. }) {
                // SAFETY: the caller promises that these lanes are readable; a copy has room for a vector.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            }
            if *argument == Argument::Counter {
                copy[0] = copy[0].wrapping_add(first as u32);
            }
            *moved = to;
        }
        // SAFETY: all arguments are vectors of this function's.
        unsafe { self.call(moved.as_ptr(), self.width.lanes()) };
        for ((argument, address), moved) in self.arguments.iter().zip(addresses).zip(moved) {
            if matches!(argument, Argument::Stream { written: true, .. } | Argument::Cyclic) {
                let (to, bytes) = part(argument, *address);
                // SAFETY: the caller promises that these lanes are writable.
                unsafe { std::ptr::copy_nonoverlapping(moved, to, bytes) };
            }
        }
    }

    /// # Safety
    /// The conditions of [`Kernel::run`], for a positive multiple of a vector's lanes.
    unsafe fn call(&self, addresses: *const *mut u8, count: usize) {
        // SAFETY: the code is a function of this type, and the CPU has its instructions, as `compile` has checked; the
        // caller's promise.
        unsafe {
            let function: unsafe extern "sysv64" fn(*const *mut u8, usize) = std::mem::transmute(self.code.start());
            function(addresses, count);
        }
    }
}

/// Whether this CPU has the instructions.
#[cfg(target_arch = "x86_64")]
fn has(width: Width) -> bool {
    macro_rules! all {
        ($($feature:tt)*) => { true $(&& is_x86_feature_detected!($feature))* };
    }
    match width {
        Width::Bits256 => all!("avx2" "fma" "f16c"),
        Width::Bits512 => all!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"),
    }
}

/// The most arguments of all stages of a row program.
pub(crate) const ROW_ARGUMENTS: usize = 64;

/// A row program, compiled to a loop over rows for this CPU.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
pub(crate) struct RowKernel {
    code: Executable,
    arguments: usize,
}

#[cfg(target_arch = "x86_64")]
impl RowKernel {
    /// `None` where [`Kernel::compile`] gives none, for tails of rows that vector code can't leave out, and for stages with
    /// too many streams or values.
    pub(crate) fn compile(program: &RowProgram) -> Option<Self> {
        #[cfg(test)]
        if NARROW.get() {
            return Self::of_width(program, Width::Bits256);
        }
        Self::of_width(program, Width::Bits512).or_else(|| Self::of_width(program, Width::Bits256))
    }

    /// The same in vectors of this width only.
    pub(super) fn of_width(program: &RowProgram, width: Width) -> Option<Self> {
        let arguments = program.arguments();
        if !has(width) || arguments > ROW_ARGUMENTS {
            return None;
        }
        let code = Executable::new(&emit_rows(program, width)?)?;
        Some(Self { code, arguments })
    }

    /// Computes rows. `addresses` are those of the first row's arguments, of all stages in their order; `apart` are their
    /// distances between rows, in bytes.
    ///
    /// # Safety
    /// For each row, as many lanes as the program's rows have must be readable or writable at the addresses as the stages say
    /// (one in a stage that is computed once), and one value where it is uniform. Nobody else may write what is read, or
    /// access what is written, during the call. A stream that is written may begin where one that is read does, and overlap
    /// others of its stage in no other way.
    pub(crate) unsafe fn run(&self, addresses: &mut [*mut u8], apart: &[isize], rows: usize) {
        assert!(addresses.len() == self.arguments && apart.len() == self.arguments, "an address for each argument");
        if rows == 0 {
            return;
        }
        // SAFETY: the code is a function of this type, and the CPU has its instructions, as `of_width` has checked; it changes
        // the addresses, and reads the distances, of as many arguments as there are; the caller's promise.
        unsafe {
            let function: unsafe extern "sysv64" fn(*mut *mut u8, *const isize, usize) =
                std::mem::transmute(self.code.start());
            function(addresses.as_mut_ptr(), apart.as_ptr(), rows);
        }
    }
}

/// There is none.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug)]
pub(crate) enum RowKernel {}

#[cfg(not(target_arch = "x86_64"))]
impl RowKernel {
    /// There is no code for this CPU.
    pub(crate) fn compile(_program: &RowProgram) -> Option<Self> {
        None
    }

    /// # Safety
    /// None is ever compiled.
    pub(crate) unsafe fn run(&self, _addresses: &mut [*mut u8], _apart: &[isize], _rows: usize) {}
}

/// There is none.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug)]
pub(crate) enum Kernel {}

#[cfg(not(target_arch = "x86_64"))]
impl Kernel {
    /// There is no code for this CPU.
    pub(crate) fn compile(_body: &Body) -> Option<Self> {
        None
    }

    /// # Safety
    /// None is ever compiled.
    pub(crate) unsafe fn run(&self, _addresses: &[*mut u8], _count: usize) {}
}
