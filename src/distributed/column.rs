//! Products whose N is divided among ranks.

use std::fmt;
use std::marker::PhantomData;

use epilogue_runtime::{Communicator, Device, DeviceTensor, Stream};

use super::agreement::Agreement;
use super::error::Error;
use super::memory::Memory;
use super::rows::{self, Owned, Rows, matrix, number_of_chunks};
use super::trees::{self, Part};
use crate::gemm::{self, Arithmetic, Gemm, Right};
use crate::{Argument, Arguments, Epilogue};

/// What can be said of a [`ColumnParallel`]; [`Default`] is what one wants at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnSettings {
    gather_rows: bool,
    chunks: Option<usize>,
    arithmetic: Arithmetic,
    always_agree: bool,
}

impl ColumnSettings {
    /// Whether each rank's A is its part of the rows, which are gathered first: what a [`RowParallel`](super::RowParallel)
    /// has left with [`Combine::ReduceScatter`](super::Combine::ReduceScatter). By default each rank has all of A, and
    /// nothing is sent.
    #[must_use]
    pub fn gather_rows(mut self, gather_rows: bool) -> Self {
        self.gather_rows = gather_rows;
        self
    }

    /// The number of chunks of each rank's rows: while one is gathered, the one before is multiplied. By default 4 from 1024
    /// rows on, if the epilogue allows it.
    #[must_use]
    pub fn chunks(mut self, chunks: usize) -> Self {
        self.chunks = Some(chunks.max(1));
        self
    }

    /// How the product is computed.
    #[must_use]
    pub fn arithmetic(mut self, arithmetic: Arithmetic) -> Self {
        self.arithmetic = arithmetic;
        self
    }

    /// With NCCL, whether ranks agree at every run and not only at the first of a shape: for looking for a mistake. It waits
    /// for the GPU.
    #[must_use]
    pub fn always_agree(mut self, always_agree: bool) -> Self {
        self.always_agree = always_agree;
        self
    }
}

/// A product whose N is divided among ranks: each has some columns of B, of the epilogue's tensors and row vectors, and gets
/// those columns of the result.
///
/// It is the first half of a tensor-parallel layer; [the module](super) has an example. Each rank's result is the A of a
/// [`RowParallel`](super::RowParallel). An epilogue that reduces rows, or asks for its column, is refused: a rank has a part
/// of each row only.
pub struct ColumnParallel<E = ()> {
    ranks: Communicator,
    settings: ColumnSettings,
    product: Gemm<()>,
    chunks: usize,
    agreement: Agreement,
    memory: Memory,
    epilogue: PhantomData<fn() -> E>,
}

impl<E> fmt::Debug for ColumnParallel<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnParallel")
            .field("ranks", &self.ranks)
            .field("settings", &self.settings)
            .field("product", &self.product)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

impl ColumnParallel {
    /// Plans the product of tensors like `a` (`[M, K]`) and this rank's `b` (`[K, N]`; one for each of several accumulators).
    /// Every rank plans for itself, and its N may be another.
    ///
    /// # Errors
    /// [`Error`].
    pub fn plan<'b, E: Epilogue>(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
    ) -> Result<ColumnParallel<E>, Error> {
        Self::plan_with(device, ranks, a, b, ColumnSettings::default())
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
        settings: ColumnSettings,
    ) -> Result<ColumnParallel<E>, Error> {
        let b = b.into();
        let (extent, k) = matrix("A", a)?;
        matrix("B", b.first()?)?;
        let planned = |chunk: Option<usize>| -> Result<Gemm<()>, Error> {
            let builder = gemm::Builder::<()>::new(device, E::tree()).arithmetic(settings.arithmetic);
            let gathered = match chunk {
                None => None,
                Some(chunks) => {
                    let range = rows::chunks(extent, chunks)[0].clone();
                    let rows = Rows { parts: ranks.ranks(), extent, range };
                    Some(device.without_memory(a.element_type(), rows.shape(k))?)
                }
            };
            Ok(builder.operands(gathered.as_ref().unwrap_or(a), b.clone())?.plan()?)
        };
        let probe = planned(settings.gather_rows.then_some(1))?;
        if let Some(what) = trees::needs_all(probe.tree(), Part::Columns) {
            let advice = "compute it where the rows are whole again, as after a `RowParallel`";
            return Err(Error::Local { epilogue: probe.tree().name(), what, part: "columns", advice });
        }
        let chunks = if settings.gather_rows { number_of_chunks(probe.tree(), settings.chunks, extent)? } else { 1 };
        let product = if chunks == 1 { probe } else { planned(Some(chunks))? };
        Ok(ColumnParallel {
            ranks: ranks.clone(),
            settings,
            product,
            chunks,
            agreement: Agreement::default(),
            memory: Memory::default(),
            epilogue: PhantomData,
        })
    }
}

impl<E: Epilogue> ColumnParallel<E> {
    /// Multiplies, on the device's default stream. If rows are gathered, all ranks must call it, each on a thread of its own;
    /// else no rank waits for another.
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
        self.run_on(&self.product.device().default_stream(), a, b, arguments)
    }

    /// [`run`](Self::run) on the given stream; rows are gathered on another, which is ordered with it.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn run_on<'a, 'b>(
        &self,
        stream: &Stream,
        a: &DeviceTensor,
        b: impl Into<Right<'b>>,
        arguments: E::Arguments<'a>,
    ) -> Result<(), Error> {
        let (b, arguments) = (b.into(), arguments.arguments());
        if !self.settings.gather_rows {
            matrix("A", a)?;
            return Ok(self.product.run_arguments(stream, a, b, &arguments)?);
        }
        let put = |stream: &Stream, between: &Stream| self.put(stream, between, a, &b, &arguments);
        let description = || {
            let (rows, k, chunks) = (a.shape()[0], a.shape()[1], self.chunks);
            let element = a.element_type();
            Ok(format!(
                "call=column-parallel product;rows of each rank={rows};K={k};element type={element};chunks={chunks}"
            ))
        };
        let (device, always) = (self.product.device(), self.settings.always_agree);
        self.agreement.run(&self.ranks, device, stream, always, put, description)
    }

    fn put(
        &self,
        stream: &Stream,
        between: &Stream,
        a: &DeviceTensor,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<(), Error> {
        let (extent, k) = matrix("A", a)?;
        let (_, n) = matrix("B", b.first()?)?;
        let parts = self.ranks.ranks();
        let all: Vec<Rows> =
            rows::chunks(extent, self.chunks).into_iter().map(|range| Rows { parts, extent, range }).collect();
        let shapes = all.iter().map(|rows| (a.element_type(), rows.shape(k))).collect();
        let memory = self.memory.take(stream, shapes)?;
        // The next chunk is on its way before the product of this one waits for its own.
        let mut waiting: Option<(&Rows, &DeviceTensor)> = None;
        for (rows, gathered) in all.iter().zip(&memory.tensors) {
            self.ranks.all_gather(&a.slice(0, rows.range.clone())?, &mut gathered.clone(), between)?;
            if let Some((rows, gathered)) = waiting.replace((rows, gathered)) {
                self.multiply(stream, gathered, b, arguments, rows, n)?;
            }
        }
        if let Some((rows, gathered)) = waiting {
            self.multiply(stream, gathered, b, arguments, rows, n)?;
        }
        self.memory.put(stream, memory);
        Ok(())
    }

    fn multiply(
        &self,
        stream: &Stream,
        gathered: &DeviceTensor,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
        rows: &Rows,
        n: usize,
    ) -> Result<(), Error> {
        let mut own = if rows.range.len() == rows.extent {
            rows::whole(arguments)?
        } else {
            rows::arguments(self.product.tree(), arguments, rows, n)?
        };
        Ok(self.product.run_arguments(stream, gathered, b.clone(), &Owned::borrowed(&mut own))?)
    }
}

impl<E> ColumnParallel<E> {
    /// The number of chunks of rows that a run is cut into, at most.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// The plan of this rank's product.
    #[must_use]
    pub fn product(&self) -> &Gemm<()> {
        &self.product
    }
}
