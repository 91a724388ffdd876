//! Choices of the CPU device that a user may make: when it compiles machine code, for which vectors, and how it stores.
//!
//! A [`Tuning`] belongs to one plan or kernel: [`gemm::Builder::tuning`](crate::gemm::Builder::tuning) and
//! [`te::auto::Automatic::tuning`](crate::te::auto::Automatic::tuning) take it. It changes how results are computed and
//! never what they are: all tunings give the same bits. The defaults are right for most programs. Tests force each way
//! and compare, benchmarks measure one way at a time, and a service may want no run that compiles.
//!
//! A new choice is a type with a default here, a method of [`Tuning`], and the one place that asks it. Instruction sets
//! are not among them: the device decides, by its [`CpuLevel`](crate::CpuLevel).
//!
//! ```
//! use epilogue::tuning::{MachineCode, Tuning};
//! use epilogue::{Device, te};
//!
//! let x = te::placeholder([2, 2], "x");
//! let softmax = te::ops::softmax(&x, 1)?;
//! let device = Device::cpu();
//! let values = device.tensor(&[1f32, 1.0, 5.0, 5.0], [2, 2])?;
//! for code in [MachineCode::Never, MachineCode::Always, MachineCode::From(1 << 20)] {
//!     let tuning = Tuning::new().machine_code(code);
//!     let kernel = te::auto::build(&[&softmax])?.tuning(tuning).build(&device)?;
//!     let mut out = device.zeros::<f32>([2, 2])?;
//!     kernel.run(&[(&values).into(), (&mut out).into()])?;
//!     assert_eq!(out.to_vec::<f32>()?, [0.5; 4]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// Choices of the CPU device for a plan or kernel. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tuning {
    pub(crate) code: MachineCode,
    pub(crate) vectors: Vectors,
    pub(crate) stores: Stores,
}

impl Tuning {
    /// The default choices.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When an epilogue or kernel becomes machine code.
    #[must_use]
    pub const fn machine_code(self, code: MachineCode) -> Self {
        Self { code, ..self }
    }

    /// The vectors of machine code.
    #[must_use]
    pub const fn vectors(self, vectors: Vectors) -> Self {
        Self { vectors, ..self }
    }

    /// How results are stored.
    #[must_use]
    pub const fn stores(self, stores: Stores) -> Self {
        Self { stores, ..self }
    }
}

/// When steps become machine code. Compiling takes as long as some 10⁵ steps of elements.
///
/// Operations without vector instructions stay steps, and so does everything on CPUs for which there is no code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MachineCode {
    /// Once it pays: after enough elements, counted over all runs of one shape.
    #[default]
    WherePays,
    /// From this many elements on, counted over all runs of one shape.
    From(usize),
    /// At the first run, whatever its extents.
    Always,
    /// Never: no run compiles, and no memory is made executable.
    Never,
}

impl MachineCode {
    /// Whether it is compiled after this many elements, if it pays from `worth` on.
    pub(crate) const fn is_due(self, elements: usize, worth: usize) -> bool {
        match self {
            Self::WherePays => elements >= worth,
            Self::From(least) => elements >= least,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// The vectors of machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vectors {
    /// The longest ones that the CPU has.
    #[default]
    Longest,
    /// The shortest ones that there is code for: 256 bits on x86-64. Some CPUs lower their clock for longer ones.
    Shortest,
}

/// How results are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stores {
    /// Past the caches (by non-temporal stores) if a result is too large for them.
    #[default]
    BySize,
    /// Through the caches, whatever the size: for a result that is read again at once.
    Cached,
    /// Past the caches, whatever the size, where rows begin at cache lines.
    PastCaches,
}

impl Stores {
    /// Whether a result is stored past the caches. `is_large`: it is too large for them.
    pub(crate) const fn are_past(self, is_large: bool) -> bool {
        match self {
            Self::BySize => is_large,
            Self::Cached => false,
            Self::PastCaches => true,
        }
    }
}
