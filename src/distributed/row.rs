//! Products whose K is divided among ranks: partial sums, which the ranks add up.

use epilogue_runtime::{Communicator, Device, DeviceTensor};

use super::agreement::digest;
use super::error::Error;
use super::parallel::{Divided, Parallel, Plans, Run};
use super::rows::{self, LaunchRows, Owned, matrix, number_of_chunks};
use super::settings::Settings;
use super::trees::{self, SharedPart};
use crate::evt::Tree;
use crate::gemm::{self, Gemm, Right};
use crate::{Argument, ElementType, Epilogue};

/// Ranks that get the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// Every rank gets all of it: the results have M rows on every rank.
    #[default]
    AllReduce,
    /// Rank r gets the r-th part of its rows: the results have M / ranks rows. The next layers, as a norm, are divided
    /// among the ranks (*sequence parallel*), until a [`ColumnParallel`](super::ColumnParallel) gathers the rows.
    ReduceScatter,
}

/// Whether the epilogue is applied to partial sums or to the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// After the sum over the ranks: the same as of one product. The partial sums are f32 (f64 of f64 operands), and are
    /// read from memory once more.
    #[default]
    After,
    /// Before it, in the GEMM's own kernel: the ranks' results of the epilogue are added up. This is right only if the
    /// epilogue is linear in the accumulators and has nothing else, such as `alpha * accum`; every rank would add a
    /// bias once. The sums travel in the outputs' type, so in 16 bits half as much is sent.
    Before,
}

/// A product whose K is divided among ranks. Each rank has some columns of A and the same rows of B, and the ranks add
/// up their partial sums.
///
/// It is the second half of a tensor-parallel layer: its A is the result of a [`ColumnParallel`](super::ColumnParallel)
/// on each rank. [The module](super) has an example. The ranks' K may differ.
///
/// Sums over ranks are in a fixed order between threads. On GPUs they are in NCCL's order, which is the same at
/// every run on the same computers. They are not the bits that one rank alone would get, since rounding depends on the order.
///
/// With [`Combine::ReduceScatter`], tensors and column vectors of the epilogue have this rank's rows if it is after the sum.
/// If it is before, inputs have all rows, and outputs this rank's.
pub type RowParallel<E = ()> = Parallel<ByRows, E>;

/// Settings of a [`RowParallel`]; start with [`Default`].
pub type RowSettings = Settings<ByRows>;

/// Settings that only a [`RowParallel`] has.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByRows {
    combine: Combine,
    place: Place,
}

impl RowSettings {
    /// Sets the ranks that get the sum; by default all.
    #[must_use]
    pub fn combine(mut self, combine: Combine) -> Self {
        self.divided.combine = combine;
        self
    }

    /// Where the epilogue is; by default after the sum.
    #[must_use]
    pub fn place(mut self, place: Place) -> Self {
        self.divided.place = place;
        self
    }
}

impl Divided for ByRows {
    const NAME: &'static str = "RowParallel";

    fn exchanges(self) -> bool {
        true
    }

    fn plans(
        device: &Device,
        ranks: &Communicator,
        a: &DeviceTensor,
        b: &Right<'_>,
        tree: Tree,
        settings: &RowSettings,
    ) -> Result<Plans, Error> {
        let (m, _) = matrix("A", a)?;
        let first = first(b)?;
        matrix("B", first)?;
        let ByRows { combine, place } = settings.divided;
        let extent = extent(m, ranks, combine)?;
        let whole = LaunchRows { parts: parts(ranks, combine), extent, range: 0..extent };
        let sums = sums_of(a)?;
        let of = |tree| gemm::Builder::<()>::new(device, tree).arithmetic(settings.arithmetic);
        let planned = |chunks: usize, tree| -> Result<Gemm<()>, Error> {
            let range = rows::chunks(extent, chunks)[0].clone();
            let a = LaunchRows { range, ..whole.clone() }.of(a)?;
            Ok(of(tree).operands(&a, b.clone())?.plan()?)
        };
        let (product, after, chunks) = if place == Place::Before {
            let probe = planned(1, tree.clone())?;
            trees::check_before(probe.tree())?;
            let chunks = number_of_chunks(probe.tree(), settings.chunks, extent)?;
            (if chunks == 1 { probe } else { planned(chunks, tree)? }, None, chunks)
        } else {
            let of_sums = trees::of_sums(tree.clone(), sums)?;
            let (a, b) = nothing(a, first, extent)?;
            let after = of(of_sums).operands(&a, &b)?.plan()?;
            if combine == Combine::ReduceScatter
                && let Some(what) = trees::needs_all(after.tree(), SharedPart::Rows)
            {
                let advice = "use `Combine::AllReduce`";
                return Err(Error::Local { epilogue: after.tree().name(), what, part: "rows", advice });
            }
            let chunks = number_of_chunks(after.tree(), settings.chunks, extent)?;
            (planned(chunks, trees::partial(&tree, sums))?, Some(after), chunks)
        };
        Ok(Plans { product, after, chunks })
    }

    fn description<E: Epilogue>(of: &RowParallel<E>, a: &DeviceTensor, b: &Right<'_>) -> Result<String, Error> {
        let (m, n, tree) = (a.shape()[0], first(b)?.shape()[1], E::tree());
        let ByRows { combine, place } = of.settings.divided;
        let summed: Vec<&str> = match of.epilogue() {
            Some(_) => vec![sums_of(a)?.name()],
            None => of.product().tree().outputs().iter().map(|output| output.element.name()).collect(),
        };
        Ok(format!(
            "call=row-parallel product;rows={m};columns={n};combination={combine:?};place of the epilogue={place:?};\
             chunks={};element types={};epilogue={} ({})",
            of.chunks(),
            summed.join(", "),
            tree.name(),
            digest(&format!("{:?}", tree.nodes())),
        ))
    }

    fn put<E>(of: &RowParallel<E>, run: &Run<'_, '_, '_>) -> Result<(), Error> {
        let ((m, _), (_, n)) = (matrix("A", run.a)?, matrix("B", first(run.b)?)?);
        let combine = of.settings.divided.combine;
        let all = of.rows(parts(&of.ranks, combine), extent(m, &of.ranks, combine)?);
        let shapes = of.shapes(&all, n);
        let Some(after) = of.epilogue() else {
            let whole = |rows: &LaunchRows, mut sent: Vec<DeviceTensor>| {
                of.before(run, rows, &mut sent)?;
                Ok(Vec::new())
            };
            return of.by_chunks(run.stream, &all, shapes, whole, |_, _| Ok(()));
        };
        let multiply = |rows: &LaunchRows, tensors| of.partial(run, rows, tensors);
        let apply = |rows: &LaunchRows, sums: &[DeviceTensor]| apply(after, run, rows, sums);
        of.by_chunks(run.stream, &all, shapes, multiply, apply)
    }
}

impl<E> RowParallel<E> {
    /// The plan of the epilogue that is applied to the sum, if it is after it: a product without terms.
    #[must_use]
    pub fn epilogue(&self) -> Option<&Gemm<()>> {
        self.plans.after.as_ref()
    }

    /// The tensors of a run: for each chunk the outputs of its product and, if an epilogue follows a reduce-scatter, this
    /// rank's parts of their sums.
    fn shapes(&self, all: &[LaunchRows], n: usize) -> Vec<(ElementType, Vec<usize>)> {
        let received = self.epilogue().is_some() && self.settings.divided.combine == Combine::ReduceScatter;
        let mut shapes = Vec::new();
        for rows in all {
            let outputs = || self.product().tree().outputs().iter();
            shapes.extend(outputs().map(|output| (output.element, rows.shape(n))));
            if received {
                shapes.extend(outputs().map(|output| (output.element, vec![rows.range.len(), n])));
            }
        }
        shapes
    }

    /// The partial sums of some rows, and their sums over the ranks.
    fn partial(
        &self,
        run: &Run<'_, '_, '_>,
        rows: &LaunchRows,
        mut sent: Vec<DeviceTensor>,
    ) -> Result<Vec<DeviceTensor>, Error> {
        let mut received = sent.split_off(self.product().tree().outputs().len());
        let outputs: Vec<Argument<'_>> = sent.iter_mut().map(Argument::Output).collect();
        self.product().run_arguments(run.stream, &rows.of(run.a)?, run.b.clone(), &outputs)?;
        if self.settings.divided.combine == Combine::AllReduce {
            for sum in &mut sent {
                self.ranks.all_reduce_in_place(sum, run.between)?;
            }
            return Ok(sent);
        }
        for (sent, received) in sent.iter().zip(&mut received) {
            self.ranks.reduce_scatter(sent, received, run.between)?;
        }
        Ok(received)
    }

    /// The product of some rows with the epilogue, and the sums of what it gives.
    fn before(&self, run: &Run<'_, '_, '_>, rows: &LaunchRows, sent: &mut [DeviceTensor]) -> Result<(), Error> {
        let (tree, n, arguments) = (self.product().tree(), first(run.b)?.shape()[1], run.arguments);
        let (inputs, results) = arguments.split_at(tree.parameters().len().min(arguments.len()));
        if results.len() != sent.len() {
            let names = tree.argument_names().collect();
            return Err(gemm::Error::ArgumentCount { epilogue: tree.name(), given: arguments.len(), names }.into());
        }
        // Outputs of all rows stand for the results; a rank may have only a part of them.
        let mut given = rows::whole(inputs)?;
        for output in tree.outputs() {
            let all = [rows.parts * rows.extent, n];
            given.push(Owned::Output(self.product().device().without_memory(output.element, all)?));
        }
        let mut own = rows::arguments(tree, &Owned::borrowed(&mut given), rows, n)?;
        for (place, sent) in own[inputs.len()..].iter_mut().zip(&*sent) {
            *place = Owned::Output(sent.clone());
        }
        let mut parts = Vec::new();
        for (output, result) in tree.outputs().iter().zip(results) {
            let name = output.name;
            let Argument::Output(result) = result else {
                let (given, needed) = ("a tensor to read", "a tensor to write");
                return Err(gemm::Error::ArgumentKind { name, given, needed }.into());
            };
            if result.shape() != [rows.extent, n] {
                let (given, needed) = (result.shape().to_vec(), format!("{:?}", [rows.extent, n]));
                return Err(gemm::Error::ArgumentShape { name, given, needed }.into());
            }
            parts.push(result.slice(0, rows.range.clone())?);
        }
        self.product().run_arguments(run.stream, &rows.of(run.a)?, run.b.clone(), &Owned::borrowed(&mut own))?;
        for (sent, part) in sent.iter().zip(&mut parts) {
            match self.settings.divided.combine {
                Combine::AllReduce => self.ranks.all_reduce(sent, part, run.between)?,
                Combine::ReduceScatter => self.ranks.reduce_scatter(sent, part, run.between)?,
            }
        }
        Ok(())
    }
}

/// Applies the epilogue to some rows of the sums.
fn apply(after: &Gemm<()>, run: &Run<'_, '_, '_>, rows: &LaunchRows, sums: &[DeviceTensor]) -> Result<(), Error> {
    let (b, arguments) = (first(run.b)?, run.arguments);
    // The sums have one part of the rows, whatever the product had.
    let LaunchRows { extent, range, .. } = rows.clone();
    let length = range.len();
    let all = length == extent;
    let rows = LaunchRows { parts: 1, extent, range };
    let own = after.tree().parameters().len() - sums.len();
    let (names, columns) = (after.tree().argument_names().count() - sums.len(), b.shape()[1]);
    if arguments.len() != names {
        let names = after.tree().argument_names().collect();
        return Err(gemm::Error::ArgumentCount { epilogue: after.tree().name(), given: arguments.len(), names }.into());
    }
    let placed = |sums: Vec<Owned>| -> Result<Vec<Owned>, Error> {
        let mut given = rows::whole(arguments)?;
        given.splice(own..own, sums);
        Ok(given)
    };
    let mut owned = if all {
        placed(sums.iter().cloned().map(Owned::Input).collect())?
    } else {
        // The sums are of these rows already: they take the place of what stands for them here.
        let whole = sums[0].device().without_memory(sums[0].element_type(), [extent, columns])?;
        let mut stand_ins = placed(sums.iter().map(|_| Owned::Input(whole.clone())).collect())?;
        let mut part = rows::arguments(after.tree(), &Owned::borrowed(&mut stand_ins), &rows, columns)?;
        for (place, sum) in part[own..].iter_mut().zip(sums) {
            *place = Owned::Input(sum.clone());
        }
        part
    };
    let (a, b) = nothing(run.a, b, length)?;
    after.run_arguments(run.stream, &a, &b, &Owned::borrowed(&mut owned))?;
    Ok(())
}

fn first<'a>(b: &Right<'a>) -> Result<&'a DeviceTensor, Error> {
    Ok(b.first()?)
}

/// The parts that the rows of a product are divided into.
fn parts(ranks: &Communicator, combine: Combine) -> usize {
    match combine {
        Combine::AllReduce => 1,
        Combine::ReduceScatter => ranks.ranks(),
    }
}

/// The rows of a part.
fn extent(rows: usize, ranks: &Communicator, combine: Combine) -> Result<usize, Error> {
    let parts = parts(ranks, combine);
    if rows.is_multiple_of(parts) { Ok(rows / parts) } else { Err(Error::Rows { rows, ranks: parts }) }
}

/// The type of partial sums.
fn sums_of(a: &DeviceTensor) -> Result<ElementType, Error> {
    match a.element_type() {
        ElementType::F64 => Ok(ElementType::F64),
        element if element.is_float() => Ok(ElementType::F32),
        element => Err(Error::Integers { element }),
    }
}

/// Operands without terms, for an epilogue that reads no accumulator.
fn nothing(a: &DeviceTensor, b: &DeviceTensor, rows: usize) -> Result<(DeviceTensor, DeviceTensor), Error> {
    Ok((a.slice(0, 0..rows)?.slice(1, 0..0)?, b.slice(0, 0..0)?))
}
