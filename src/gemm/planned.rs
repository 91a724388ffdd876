//! A planned GEMM, as users have it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use epilogue_runtime::{Device, Kernel, Source, Stream, trace};

use super::devices::Choice;
use super::kernel::launch::LaunchDescription;
use super::plan::Plan;
use super::problem::{Error, Left, Packed, Problem, Right, Unpacked};
use super::run::by_name::by_name;
use super::run::check;
use crate::evt::{Form, ValidTree};
use crate::level;
use crate::{Argument, Arguments, Epilogue};

/// A matrix product with a fused epilogue, planned for a device: make it once, and run it many times.
///
/// ```
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn bias_relu(accum: Accum, bias: RowVector) -> Tensor {
///     let d = relu(accum + bias);
///     d
/// }
///
/// let device = Device::cpu();
/// let (a, b) = (device.full::<f32>([3, 4], 1.0)?, device.full::<f32>([4, 2], 0.5)?);
/// let bias = device.tensor(&[-3f32, 1.0], [2])?;
/// let gemm = Gemm::plan::<BiasRelu>(&device, &a, &b)?;
///
/// let mut d = device.zeros::<f32>([3, 2])?;
/// gemm.run(&a, &b, BiasRelu { bias: &bias, d: &mut d })?;
/// assert_eq!(d.to_vec::<f32>()?, [0.0, 3.0, 0.0, 3.0, 0.0, 3.0]);
///
/// // Another number of rows, the same plan.
/// let (a, mut d) = (device.full::<f32>([1, 4], 2.0)?, device.zeros::<f32>([1, 2])?);
/// gemm.run(&a, &b, BiasRelu { bias: &bias, d: &mut d })?;
/// assert_eq!(d.to_vec::<f32>()?, [1.0, 5.0]);
///
/// // On a GPU, the source is the CUDA C++ that runs. The CPU has none, and says what it computes.
/// assert!(gemm.source().starts_with("// The epilogue `bias_relu`"));
/// assert!(gemm.kernel_source().is_none());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// It can be run with any extents: M, N, K and strides are run-time arguments. For operands of another layout than
/// planned, the first run compiles another kernel, or each run first copies the operands to the plan's memory. The
/// model predicts which is faster.
pub struct Gemm<E = ()> {
    plan: Arc<Plan>,
    epilogue: PhantomData<fn() -> E>,
}

impl<E> fmt::Debug for Gemm<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gemm").field("plan", &self.plan).finish()
    }
}

impl<E> Clone for Gemm<E> {
    fn clone(&self) -> Self {
        Self { plan: Arc::clone(&self.plan), epilogue: PhantomData }
    }
}

impl<E> Gemm<E> {
    pub(super) fn of(plan: Plan) -> Self {
        Self { plan: Arc::new(plan), epilogue: PhantomData }
    }

    /// This plan with another type: `()` for code that is compiled once, not for each epilogue.
    pub(super) fn retyped<F>(&self) -> Gemm<F> {
        Gemm { plan: Arc::clone(&self.plan), epilogue: PhantomData }
    }

    /// Multiplies and runs the epilogue, on the device's default stream. Reading an output back waits for it.
    ///
    /// # Errors
    /// [`Error`]. Then nothing has been written.
    pub fn run<'a, 'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error>
    where
        E: Epilogue,
    {
        self.run_on(&self.device().default_stream(), a, b, arguments)
    }

    /// Packs a B, for runs that read it again and again: weights. Runs take the result in place of the tensor, and need not
    /// pack B themselves; see [`Packed`].
    ///
    /// With several accumulators, every B is packed by itself: `gemm.run(&x, [&gate, &up], …)`. [Quantised](super::Quantized)
    /// weights are packed in the same way.
    ///
    /// # Errors
    /// [`Error::Format`](super::FormatError) for quantised weights of another format than the plan's.
    /// [`Error::NoPacking`] on a GPU, whose kernels read B as it lies; [`Error::PackedStrides`] for a B that is contiguous
    /// along neither K nor N; a tensor of another device, element type or rank; too little memory.
    pub fn pack<'b>(&self, b: impl Into<Unpacked<'b>>) -> Result<Packed, Error> {
        let b = b.into();
        let _span =
            trace::span!(DEBUG, "pack", epilogue = self.plan.operation.tree().name(), shape = trace::debug(b.shape()));
        level::on(self.device(), || self.plan.executable.pack(b))
    }

    /// [`run`](Self::run) on the given stream.
    ///
    /// # Errors
    /// [`Error`]. Then nothing has been written.
    pub fn run_on<'a, 'l, 'r>(
        &self,
        stream: &Stream,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error>
    where
        E: Epilogue,
    {
        self.run_arguments(stream, a, b, &arguments.arguments())
    }

    /// [`run_on`](Self::run_on) with the arguments by name, in any order: for epilogues that are built at run time.
    ///
    /// ```
    /// use epilogue::evt::{ParameterClass, BroadcastClass, TreeBuilder};
    /// use epilogue::expr::Op;
    /// use epilogue::gemm::Builder;
    /// use epilogue::{Argument, Device, ElementType::F32};
    ///
    /// let mut tree = TreeBuilder::new("scaled", file!());
    /// let accum = tree.accum("accum");
    /// let alpha = tree.parameter("alpha", ParameterClass::Scalar, None);
    /// let scaled = tree.apply(Op::Mul, &[alpha, accum]);
    /// tree.output("d", scaled, BroadcastClass::Tensor, None);
    ///
    /// let device = Device::cpu();
    /// let gemm = Builder::<()>::new(&device, tree.finish()).elements(F32, F32).problem(2, 2, 2).plan()?;
    /// let (a, b) = (device.full::<f32>([2, 2], 1.0)?, device.full::<f32>([2, 2], 1.0)?);
    /// let mut d = device.zeros::<f32>([2, 2])?;
    /// gemm.run_bound(&device.default_stream(), &a, &b, [("d", (&mut d).into()), ("alpha", Argument::Scalar(3.0))])?;
    /// assert_eq!(d.to_vec::<f32>()?, [6.0; 4]);
    ///
    /// let missing = gemm.run_bound(&device.default_stream(), &a, &b, [("d", (&mut d).into())]).unwrap_err();
    /// assert_eq!(missing.to_string(), "nothing is given for `alpha`; the arguments of `scaled` are alpha, d");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ArgumentNames`] for names that are missing, given twice or not the epilogue's, and the errors of
    /// [`run_on`](Self::run_on). Then nothing has been written.
    pub fn run_bound<'a, 'l, 'r>(
        &self,
        stream: &Stream,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: impl IntoIterator<Item = (impl AsRef<str>, Argument<'a>)>,
    ) -> Result<(), Error> {
        self.run_arguments(stream, a, b, &self.bind(arguments)?)
    }

    /// Arguments by name as the list that [`run_arguments`](Self::run_arguments) and
    /// [`autotune_arguments`](Self::autotune_arguments) take.
    ///
    /// # Errors
    /// [`Error::ArgumentNames`] for names that are missing, given twice or not the epilogue's.
    pub fn bind<'a>(
        &self,
        arguments: impl IntoIterator<Item = (impl AsRef<str>, Argument<'a>)>,
    ) -> Result<Vec<Argument<'a>>, Error> {
        by_name(self.tree(), arguments)
    }

    /// [`run_on`](Self::run_on) with the arguments as a list, in the order of [`Arguments::arguments`]. If two tensors
    /// have one shape, swapping them is not noticed: [`run_bound`](Self::run_bound) takes them by name.
    ///
    /// # Errors
    /// [`Error`]. Then nothing has been written.
    pub fn run_arguments<'l, 'r>(
        &self,
        stream: &Stream,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &[Argument<'_>],
    ) -> Result<(), Error> {
        let (a, b) = (a.into(), b.into());
        level::on(self.device(), || self.plan.run(stream, a, &b, arguments))
    }

    /// The launch that [`run_arguments`](Self::run_arguments) would do, as data, for a program that does it by itself:
    /// everything but addresses and the values of host scalars. Tensors give their shapes and strides, and need no memory
    /// ([`Device::without_memory`]); memory that takes their place must be as aligned as theirs, to 16 bytes at least.
    ///
    /// ```
    /// use epilogue::bundle::Builder;
    /// use epilogue::gemm::launch::Memory;
    /// use epilogue::prelude::*;
    /// use epilogue::{Argument, DeviceTensor};
    ///
    /// #[epilogue]
    /// fn scaled(accum: Accum, alpha: Scalar) -> Tensor {
    ///     let d = alpha * accum;
    ///     d
    /// }
    ///
    /// # if epilogue::runtime::Compiler::find().is_err() { return Ok(()) }
    /// let device = Builder::new().target(GpuModel::A100); // it need not be here
    /// let [a, b] = [[64, 32], [32, 128]].map(|shape| device.without_memory(ElementType::F16, shape));
    /// let (a, b, mut d) = (a?, b?, device.without_memory(ElementType::F16, [64, 128])?);
    /// let gemm = Gemm::plan::<Scaled>(&device, &a, &b)?;
    /// let arguments = gemm.bind([("alpha", Argument::Scalar(0.0)), ("d", (&mut d).into())])?;
    /// let launch = gemm.describe_launch(&a, &b, &arguments)?;
    ///
    /// let bytes = launch.parameter(|of| if of == Memory::A { 0x1000 } else { 0x2000 }, |_| 0.5, |_| Err("no maps"))?;
    /// assert_eq!(bytes.len(), launch.parameter_bytes);
    /// assert_eq!(bytes[..8], 0x1000_u64.to_le_bytes());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoLaunch`] on the CPU, if an operand would be copied first, and if the epilogue uses its own reductions
    /// in several launches; as [`run_on`](Self::run_on).
    pub fn describe_launch<'l, 'r>(
        &self,
        a: impl Into<Left<'l>>,
        b: impl Into<Right<'r>>,
        arguments: &[Argument<'_>],
    ) -> Result<LaunchDescription, Error> {
        self.plan.describe_launch(a.into(), &b.into(), arguments)
    }

    pub(super) fn inner(&self) -> &Plan {
        &self.plan
    }

    /// The device that the plan is for.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.plan.operation.device
    }

    /// The epilogue, validated and simplified.
    #[must_use]
    pub fn tree(&self) -> &ValidTree {
        self.plan.operation.tree()
    }

    /// The choice of the kernel, and its reasons, which `Display` prints.
    #[must_use]
    pub fn choice(&self) -> &Choice {
        &self.plan.choice
    }

    /// The complete CUDA C++ of the planned kernel. The CPU has no kernels: there it is a comment that describes the
    /// computation. ([`kernel_source`](Self::kernel_source) tells the two apart. Kernels that are launched after the
    /// GEMM's are in [`later_sources`](Self::later_sources).)
    #[must_use]
    pub fn source(&self) -> &str {
        self.plan.executable.source()
    }

    /// [`source`](Self::source) with its symbol and options, for compiling it by other means or for another
    /// architecture; `None` on the CPU.
    #[must_use]
    pub fn kernel_source(&self) -> Option<&Source> {
        self.plan.executable.kernels().first().map(|(source, _)| *source)
    }

    /// The sources of the launches after the GEMM's, in their order. An epilogue that uses its own reductions may need
    /// them. None on the CPU.
    pub fn later_sources(&self) -> impl Iterator<Item = &Source> {
        self.plan.executable.kernels().into_iter().skip(1).map(|(source, _)| source)
    }

    /// Whether its kernels may use approximate instructions for outputs of any type.
    #[must_use]
    pub fn is_fast_math(&self) -> bool {
        self.plan.executable.multiplication().1
    }

    /// The planned kernel: its registers, spills and shared memory; `None` on the CPU. Its name, which profilers list,
    /// has the epilogue, the operands' type and the tile: `bias_gelu_bf16_128x256`.
    #[must_use]
    pub fn kernel(&self) -> Option<&Kernel> {
        self.plan.executable.kernels().first().map(|(_, kernel)| *kernel)
    }

    /// The shape that an output of per-tile partials must have for the planned product: `[ceil(N / tile_n), M]` for
    /// rows, `[ceil(M / tile_m), N]` for columns, with a leading L if the product is batched.
    ///
    /// # Errors
    /// [`Error::NoPartials`] if `name` is not an output of partials.
    pub fn partials_shape(&self, name: &str) -> Result<Vec<usize>, Error> {
        self.partials_shape_of(name, &self.plan.operation.problem)
    }

    /// [`partials_shape`](Self::partials_shape) for a product with other extents.
    ///
    /// # Errors
    /// [`Error::NoPartials`] if `name` is not an output of partials.
    pub fn partials_shape_of(&self, name: &str, problem: &Problem) -> Result<Vec<usize>, Error> {
        let tree = self.tree();
        let output = tree
            .output(name)
            .filter(|output| output.reduction().is_some_and(|r| r.form == Form::Partial))
            .ok_or_else(|| Error::NoPartials { name: name.to_owned(), epilogue: tree.name() })?;
        let mut shape = check::partial_extents(output.class, problem, self.plan.choice.tile());
        if problem.batched && problem.reading.is_per_batch(output.class) {
            shape.insert(0, problem.batch);
        }
        Ok(shape)
    }
}
