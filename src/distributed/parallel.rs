//! A product that several ranks compute together, in chunks of rows: what a division by columns and one by rows share.

use std::fmt;
use std::marker::PhantomData;

use epilogue_runtime::{Communicator, Device, DeviceTensor, Stream};

use super::agreement::Agreement;
use super::error::Error;
use super::memory::KeptTensors;
use super::rows::{LaunchRows, chunks, matrix};
use super::settings::Settings;
use crate::evt::Tree;
use crate::gemm::{Gemm, Right};
use crate::{Argument, Arguments, ElementType, Epilogue};

/// How a product is divided among ranks.
pub trait Divided: Copy + fmt::Debug + Default {
    /// The name of the product's type.
    const NAME: &'static str;

    /// Whether ranks exchange something in a run.
    fn exchanges(self) -> bool;

    /// The plans of a rank.
    fn plans(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: &Right<'_>,
        tree: Tree,
        settings: &Settings<Self>,
    ) -> Result<Plans, Error>;

    /// Describes, as `field=value;field=value`, a run that must be equal on all ranks.
    fn description<E: Epilogue>(of: &Parallel<Self, E>, a: &DeviceTensor, b: &Right<'_>) -> Result<String, Error>;

    /// Puts a run's work on its streams.
    fn put<E>(of: &Parallel<Self, E>, run: &Run<'_, '_, '_>) -> Result<(), Error>;
}

/// The plans of a rank.
pub struct Plans {
    pub(super) product: Gemm<()>,
    /// The epilogue that is applied to what the ranks add up.
    pub(super) after: Option<Gemm<()>>,
    /// The number of chunks of rows, at most.
    pub(super) chunks: usize,
}

/// The operands and arguments of a run, and the streams of its products and of what the ranks exchange.
pub struct Run<'r, 'b, 'a> {
    pub(super) stream: &'r Stream,
    pub(super) between: &'r Stream,
    pub(super) a: &'r DeviceTensor,
    pub(super) b: &'r Right<'b>,
    pub(super) arguments: &'r [Argument<'a>],
}

/// A product that several ranks compute together: a [`ColumnParallel`](super::ColumnParallel) or a
/// [`RowParallel`](super::RowParallel).
pub struct Parallel<D: Divided, E = ()> {
    pub(super) ranks: Communicator,
    pub(super) settings: Settings<D>,
    pub(super) plans: Plans,
    agreement: Agreement,
    memory: KeptTensors,
    epilogue: PhantomData<fn() -> E>,
}

impl<D: Divided, E> fmt::Debug for Parallel<D, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(D::NAME)
            .field("ranks", &self.ranks)
            .field("settings", &self.settings)
            .field("product", &self.plans.product)
            .field("after", &self.plans.after)
            .field("chunks", &self.plans.chunks)
            .finish_non_exhaustive()
    }
}

impl<D: Divided> Parallel<D> {
    /// Plans the product of tensors like this rank's `a` (`[M, K]`) and `b` (`[K, N]`; one for each of several
    /// accumulators). Every rank plans for itself. The ranks' N may differ if columns are divided, and their K if rows are.
    ///
    /// # Errors
    /// [`Error`].
    pub fn plan<'b, E: Epilogue>(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
    ) -> Result<Parallel<D, E>, Error> {
        Self::plan_with(device, ranks, a, b, Settings::default())
    }

    /// [`plan`](Self::plan), and more is said of it.
    ///
    /// # Errors
    /// [`Error`].
    pub fn plan_with<'b, E: Epilogue>(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        settings: Settings<D>,
    ) -> Result<Parallel<D, E>, Error> {
        let plans = D::plans(device, ranks, a, &b.into(), E::tree(), &settings)?;
        let (agreement, memory) = Default::default();
        Ok(Parallel { ranks: ranks.clone(), settings, plans, agreement, memory, epilogue: PhantomData })
    }
}

impl<D: Divided, E: Epilogue> Parallel<D, E> {
    /// Multiplies, exchanges what the ranks exchange, and applies the epilogue, on the device's default stream. All ranks
    /// must call it, each on a thread of its own. (A [`ColumnParallel`](super::ColumnParallel) that gathers no rows
    /// exchanges nothing, and no rank waits for another.)
    ///
    /// # Errors
    /// [`Error`]. If it is found before anything runs (shapes, types, arguments, ranks that disagree), nothing has been
    /// written on any rank.
    pub fn run<'a, 'b>(
        &self,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error> {
        self.run_on(&self.product().device().default_stream(), a, b, arguments)
    }

    /// [`run`](Self::run) on the given stream; the ranks exchange on another, which is ordered with it.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn run_on<'a, 'b>(
        &self,
        stream: &Stream,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error> {
        let (b, arguments) = (b.into(), arguments.arguments());
        if !self.settings.divided.exchanges() {
            matrix("A", a)?;
            return Ok(self.product().run_arguments(stream, a, b, &arguments)?);
        }
        let put =
            |stream: &Stream, between: &Stream| D::put(self, &Run { stream, between, a, b: &b, arguments: &arguments });
        let (device, always) = (self.product().device(), self.settings.always_agree);
        self.agreement.run(&self.ranks, device, stream, always, put, || D::description(self, a, &b))
    }
}

impl<D: Divided, E> Parallel<D, E> {
    /// The number of chunks of rows that a run is cut into, at most.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.plans.chunks
    }

    /// The plan of this rank's product: with the epilogue, or of partial sums if the epilogue is applied to the sum.
    #[must_use]
    pub fn product(&self) -> &Gemm<()> {
        &self.plans.product
    }

    /// The rows of each chunk.
    pub(super) fn rows(&self, parts: usize, extent: usize) -> Vec<LaunchRows> {
        chunks(extent, self.plans.chunks).into_iter().map(|range| LaunchRows { parts, extent, range }).collect()
    }

    /// Does `first` and then `second` for each chunk. `first` gets as many tensors of these types and shapes for each
    /// chunk, and gives the tensors that `second` reads. It comes a chunk ahead, so that the ranks exchange one chunk
    /// while another is computed.
    pub(super) fn by_chunks(
        &self,
        stream: &Stream,
        all: &[LaunchRows],
        shapes: Vec<(ElementType, Vec<usize>)>,
        first: impl Fn(&LaunchRows, Vec<DeviceTensor>) -> Result<Vec<DeviceTensor>, Error>,
        second: impl Fn(&LaunchRows, &[DeviceTensor]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let memory = self.memory.take(stream, shapes)?;
        let per_chunk = (memory.tensors.len() / all.len()).max(1);
        let mut waiting: Option<(&LaunchRows, Vec<DeviceTensor>)> = None;
        for (rows, tensors) in all.iter().zip(memory.tensors.chunks(per_chunk)) {
            let tensors = first(rows, tensors.to_vec())?;
            if let Some((rows, tensors)) = waiting.replace((rows, tensors)) {
                second(rows, &tensors)?;
            }
        }
        if let Some((rows, tensors)) = waiting {
            second(rows, &tensors)?;
        }
        self.memory.put(stream, memory);
        Ok(())
    }
}
