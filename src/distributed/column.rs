//! Products whose N is divided among ranks.

use epilogue_runtime::{Communicator, Device, DeviceTensor};

use super::error::Error;
use super::parallel::{Divided, Parallel, Plans, Run};
use super::rows::{self, LaunchRows, Owned, matrix, number_of_chunks};
use super::settings::Settings;
use super::trees::{self, SharedPart};
use crate::Epilogue;
use crate::evt::Tree;
use crate::gemm::{self, Gemm, Right};

/// A product whose N is divided among ranks: each has some columns of B, of the epilogue's tensors and row vectors, and gets
/// those columns of the result.
///
/// It is the first half of a tensor-parallel layer; [the module](super) has an example. Each rank's result is the A of a
/// [`RowParallel`](super::RowParallel). An epilogue that reduces rows, or asks for its column, is refused: a rank has a part
/// of each row only.
pub type ColumnParallel<E = ()> = Parallel<ByColumns, E>;

/// Settings of a [`ColumnParallel`]; start with [`Default`].
pub type ColumnSettings = Settings<ByColumns>;

/// Settings that only a [`ColumnParallel`] has.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByColumns {
    gather_rows: bool,
}

impl ColumnSettings {
    /// Whether each rank's A is its part of the rows, which are gathered first: what a [`RowParallel`](super::RowParallel)
    /// has left with [`Combine::ReduceScatter`](super::Combine::ReduceScatter). By default each rank has all of A, and
    /// nothing is sent.
    #[must_use]
    pub fn gather_rows(mut self, gather_rows: bool) -> Self {
        self.divided.gather_rows = gather_rows;
        self
    }
}

impl Divided for ByColumns {
    const NAME: &'static str = "ColumnParallel";

    fn exchanges(self) -> bool {
        self.gather_rows
    }

    fn plans(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: &Right<'_>,
        tree: Tree,
        settings: &ColumnSettings,
    ) -> Result<Plans, Error> {
        let (extent, k) = matrix("A", a)?;
        matrix("B", b.first()?)?;
        let planned = |chunk: Option<usize>| -> Result<Gemm<()>, Error> {
            let builder = gemm::Builder::<()>::new(device, tree.clone()).arithmetic(settings.arithmetic);
            let gathered = match chunk {
                None => None,
                Some(chunks) => {
                    let range = rows::chunks(extent, chunks)[0].clone();
                    let rows = LaunchRows { parts: ranks.ranks(), extent, range };
                    Some(device.without_memory(a.element_type(), rows.shape(k))?)
                }
            };
            Ok(builder.operands(gathered.as_ref().unwrap_or(a), b.clone())?.plan()?)
        };
        let gathers = settings.divided.gather_rows;
        let probe = planned(gathers.then_some(1))?;
        if let Some(what) = trees::needs_all(probe.tree(), SharedPart::Columns) {
            let advice = "compute it where the rows are whole again, as after a `RowParallel`";
            return Err(Error::Local { epilogue: probe.tree().name(), what, part: "columns", advice });
        }
        let chunks = if gathers { number_of_chunks(probe.tree(), settings.chunks, extent)? } else { 1 };
        let product = if chunks == 1 { probe } else { planned(Some(chunks))? };
        Ok(Plans { product, after: None, chunks })
    }

    fn description<E: Epilogue>(of: &ColumnParallel<E>, a: &DeviceTensor, _: &Right<'_>) -> Result<String, Error> {
        let (rows, k, chunks) = (a.shape()[0], a.shape()[1], of.chunks());
        let element = a.element_type();
        Ok(format!(
            "call=column-parallel product;rows of each rank={rows};K={k};element type={element};chunks={chunks}"
        ))
    }

    fn put<E>(of: &ColumnParallel<E>, run: &Run<'_, '_, '_>) -> Result<(), Error> {
        let (extent, k) = matrix("A", run.a)?;
        let (_, n) = matrix("B", run.b.first()?)?;
        let all = of.rows(of.ranks.ranks(), extent);
        let shapes = all.iter().map(|rows| (run.a.element_type(), rows.shape(k))).collect();
        let gather = |rows: &LaunchRows, mut gathered: Vec<DeviceTensor>| {
            of.ranks.all_gather(&run.a.slice(0, rows.range.clone())?, &mut gathered[0], run.between)?;
            Ok(gathered)
        };
        let multiply = |rows: &LaunchRows, gathered: &[DeviceTensor]| {
            let mut own = if rows.range.len() == rows.extent {
                rows::whole(run.arguments)?
            } else {
                rows::arguments(of.product().tree(), run.arguments, rows, n)?
            };
            let arguments = Owned::borrowed(&mut own);
            Ok(of.product().run_arguments(run.stream, &gathered[0], run.b.clone(), &arguments)?)
        };
        of.by_chunks(run.stream, &all, shapes, gather, multiply)
    }
}
