//! A run on a GPU: its kernels, the copies before them, and their launches.

use std::borrow::Cow;

use epilogue_runtime::{DeviceTensor, Stream};
use smallvec::SmallVec;

use super::super::operation::{GivenRun, Operation};
use super::kernels::Kernels;
use crate::Argument;
use crate::evt::{InTile, MAX_ACCUMULATORS, Pass, ValidOutput};
use crate::gemm::kernel::Within;
use crate::gemm::kernel::loading::{Loading, loads};
use crate::gemm::model::choice::ChosenKernel;
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::picked::Picked;
use crate::gemm::problem::reading::TensorReading;
use crate::gemm::problem::{Error, Left, Major, OperandLayout, Problem, Right};
use crate::gemm::run::kernel_run::KernelRun;
use crate::gemm::run::later::{self, LaterKernel, SlotTensors};
use crate::gemm::run::merged::{Copied, Copies};
use crate::gemm::run::repack::CopiedOperand;
use crate::gemm::run::scales::Scales;
use crate::gemm::run::variant::Variant;

impl Kernels {
    /// The choice for a run: the plan's, or one with launches for later phases if the run's lines aren't whole in a tile.
    pub(super) fn chosen_for(&self, given: &GivenRun<'_, '_>) -> Result<Cow<'_, ChosenKernel>, Error> {
        let planned = Cow::Borrowed(&self.chosen);
        if !self.chosen.chosen.key.in_tile() {
            return Ok(planned);
        }
        Ok(self.beyond_tile(given)?.map_or(planned, Cow::Owned))
    }

    /// Whether later phases are computed by launches after the product's.
    pub(super) fn takes_launches(&self, chosen: &ChosenKernel) -> bool {
        self.operation.phases.parts.len() > 1 && !chosen.chosen.key.in_tile()
    }

    /// The choice for a run that can't compute all phases in the tile, or in a cluster's, as planned. Its lines may be longer,
    /// or no kernel with these phases takes its operands. `None` if it can.
    fn beyond_tile(&self, given: &GivenRun<'_, '_>) -> Result<Option<ChosenKernel>, Error> {
        let (chosen, phases, GivenRun { problem, .. }) = (&self.chosen, &self.operation.phases, given);
        let lines = phases.in_tile.as_ref().map(InTile::lines).unwrap_or_default();
        let (Problem { m, n, .. }, (tile_m, tile_n)) = (*problem, chosen.chosen.key.line_tile());
        let fit = lines.fit((tile_m, tile_n), (m, n));
        let taken = || self.wanted(chosen, given, self.layouts(chosen, given)?);
        let refused = match fit.then(taken) {
            Some(Ok(_)) => return Ok(None),
            Some(Err(refused)) => refused,
            None => {
                let (epilogue, lines) = (phases.tree.name(), if lines.rows && n > tile_n { "rows" } else { "columns" });
                let in_cluster = chosen.chosen.key.within() == Some(Within::Cluster);
                let within = if in_cluster { "a cluster's tiles" } else { "one tile" };
                Error::BeyondTile { epilogue, within, tile_m, tile_n, m, n, lines }
            }
        };
        let same_tile = phases.tree.outputs().iter().any(ValidOutput::is_partial);
        match chosen.of_launches(same_tile) {
            Some(launches) if chosen.finish.is_none() => Ok(Some(launches)),
            _ => Err(refused),
        }
    }

    /// Launches the product with the first part, then what else there is.
    pub(super) fn run_passes(
        &self,
        stream: &Stream,
        chosen: &ChosenKernel,
        given: &GivenRun<'_, '_>,
    ) -> Result<(), Error> {
        let GivenRun { problem, a, b, arguments } = *given;
        let Operation { device, phases, .. } = &*self.operation;
        let passes = phases.passes();
        let slots = SlotTensors::take(&self.slots, stream, &phases.slots, &problem)?;
        let fast_math = chosen.chosen.key.fast_math();
        let kernel = |(i, pass): (usize, &Pass<'_>)| {
            let (planned, of_run) = (self.later.get(i - 1), (&problem, arguments));
            LaterKernel::of_run(device, pass, (i, fast_math, planned), of_run, &self.later_variants)
        };
        let kernels = passes.iter().enumerate().skip(1).map(kernel).collect::<Result<Vec<_>, Error>>()?;
        let later = passes.iter().skip(1).zip(&kernels).zip(&self.later_workspaces);
        let prepared = later.map(|((pass, kernel), memory)| kernel.prepare(&pass.part.tree, &problem, memory, stream));
        let prepared = prepared.collect::<Result<Vec<_>, Error>>()?;
        for (i, pass) in passes.iter().enumerate() {
            let mut own = later::arguments(pass.part, arguments, &slots);
            let mut of_tail = pass.tail.map(|tail| later::arguments(tail, arguments, &slots)).unwrap_or_default();
            let (own, of_tail) = (later::borrowed(&mut own), later::borrowed(&mut of_tail));
            match i.checked_sub(1) {
                None => self.run_kernel(stream, chosen, &GivenRun { problem, a, b, arguments: &own }, &of_tail)?,
                Some(i) => {
                    let (tree, scattered, arguments) =
                        (&pass.part.tree, a.scattered(), (own.as_slice(), of_tail.as_slice()));
                    kernels[i].launch(tree, &problem, arguments, scattered, &prepared[i], stream)?;
                }
            }
        }
        prepared.into_iter().zip(&self.later_workspaces).for_each(|(launch, memory)| launch.keep(memory, stream));
        slots.keep(&self.slots, stream);
        Ok(())
    }

    /// The B that the kernel multiplies by: that of an accumulator that nothing reads is not among them.
    pub(super) fn live(&self, b: &Right<'_>) -> Result<SmallVec<[DeviceTensor; MAX_ACCUMULATORS]>, Error> {
        b.first()?;
        Ok(self.live_of(b.tensors()).into_iter().cloned().collect())
    }

    /// Keeps the entries of live accumulators; the first entry if none is live.
    pub(super) fn live_of<'a>(&self, all: &[&'a DeviceTensor]) -> SmallVec<[&'a DeviceTensor; MAX_ACCUMULATORS]> {
        let live = self.operation.phases.first().live_accumulators().filter_map(|i| all.get(i).copied());
        let mut live: SmallVec<[&DeviceTensor; MAX_ACCUMULATORS]> = live.collect();
        if live.is_empty() {
            live.extend(all.first().copied());
        }
        live
    }

    /// Launches the product's kernel, after copies of the operands that it can't load. `of_tail` are the arguments of the
    /// launch's tail.
    pub(super) fn run_kernel(
        &self,
        stream: &Stream,
        chosen: &ChosenKernel,
        given: &GivenRun<'_, '_>,
        of_tail: &[Argument<'_>],
    ) -> Result<(), Error> {
        let GivenRun { problem, a, b, arguments } = *given;
        let variant = self.variant(chosen, given, of_tail)?;
        let Operation { device, phases, .. } = &*self.operation;
        let tree = phases.in_product(variant.key.in_tile());
        let (reading, scattered) = (positioned(a, &variant)?, a.scattered());
        let mut merged = Copies::new();
        let major = b.major_of_copies();
        let mut merge =
            |copied: Copied, tensor: &DeviceTensor| self.merger.merged(stream, copied, tensor, major, &mut merged);
        let of_a = a.scales().map(|scales| merge(Copied::Scales(CopiedOperand::A), scales)).transpose()?;
        let of_b = self.live_of(b.scales()).into_iter().enumerate();
        let of_b: SmallVec<[DeviceTensor; MAX_ACCUMULATORS]> =
            of_b.map(|(i, scales)| merge(Copied::Scales(CopiedOperand::B(i)), scales)).collect::<Result<_, _>>()?;
        let of_b: SmallVec<[&DeviceTensor; MAX_ACCUMULATORS]> = of_b.iter().collect();
        let scales = of_a.as_ref().map(|a| Scales { a, b: &of_b });
        let live = self.live(b)?;
        let all_b = live.iter().enumerate().map(|(i, b)| merge(Copied::Elements(CopiedOperand::B(i)), b));
        let mut b = all_b.collect::<Result<SmallVec<[DeviceTensor; MAX_ACCUMULATORS]>, _>>()?;
        let mut a = merge(Copied::Elements(CopiedOperand::A), a.tensor())?;
        let mut copies = Vec::new();
        let loading = variant.key.of_family().loading();
        for (operand, major, picked) in
            loading.map(|loading| copied_first(loading, &problem, &reading, &a, &b)).unwrap_or_default()
        {
            let tensor = match operand {
                CopiedOperand::A => &mut a,
                CopiedOperand::B(i) => &mut b[i],
            };
            let copy = self.copy_kernels.prepare(device, tensor, operand, major, picked)?;
            let (copied, memory) = self.repacker.copy(stream, tensor, &copy, picked, reading.bounds())?;
            *tensor = copied;
            copies.push((operand, memory));
        }
        let problem = match loading {
            Some(loading) if loading.reading.patches().is_some() => {
                problem.in_k_tiles(variant.key.tile_k(), loading.majors.0)
            }
            _ => problem,
        };
        let (variant, a) = (&variant, &a);
        let run = KernelRun { tree, variant, problem, a, b: &b, arguments, of_tail, reading, scales, scattered };
        run.launch(&self.workspaces, stream)?;
        // Only now: another run on this stream may then write this memory, after this one.
        copies.into_iter().for_each(|(operand, memory)| self.repacker.keep(stream, operand, memory));
        self.merger.keep(stream, merged);
        Ok(())
    }
}

/// How A is read, if the kernel can count the positions of its patches.
pub(super) fn positioned<'a>(a: Left<'a>, variant: &Variant) -> Result<TensorReading<'a, Patches>, Error> {
    let reading = a.reading()?;
    reading.patches().map_or(Ok(()), |patches| variant.key.of_family().check_patches(&patches))?;
    Ok(reading)
}

/// An operand that is copied before the kernel, along what the copy is contiguous, and the index that picks its rows.
pub(super) type CopiedFirst<'a> = (CopiedOperand, Major, Option<Picked<'a>>);

/// The operands that a kernel can't load as they lie.
pub(super) fn copied_first<'a>(
    loading: Loading,
    problem: &Problem,
    reading: &TensorReading<'a, Patches>,
    a: &DeviceTensor,
    b: &[DeviceTensor],
) -> SmallVec<[CopiedFirst<'a>; 1 + MAX_ACCUMULATORS]> {
    if problem.is_empty() {
        return SmallVec::new();
    }
    let lies_well = |operand: CopiedOperand, major: Major, tensor: &DeviceTensor| {
        let copy_bytes = operand.view(tensor).copy_bytes(major);
        loads(operand.takes_mn_major(loading.multiplied), OperandLayout { major, copy_bytes }, major)
    };
    let (major_of_a, major_of_b) = loading.majors;
    let picked = reading.picked().filter(|_| !loading.reading.is_picked());
    // Patches are loaded as they lie, or the kernel is another.
    let copies_a =
        loading.reading.patches().is_none() && (picked.is_some() || !lies_well(CopiedOperand::A, major_of_a, a));
    // The groups of every B lie alike.
    let are_filters = reading.patches().is_some() && !loading.reading.is_transposed();
    let copies_all = are_filters && problem.batched && b.iter().any(|b| !lies_well(CopiedOperand::B(0), major_of_b, b));
    let all_b = b.iter().enumerate().map(|(i, b)| (CopiedOperand::B(i), b));
    let of_b = all_b.filter(|(operand, b)| copies_all || !lies_well(*operand, major_of_b, b));
    let of_b = of_b.map(|(operand, _)| (operand, major_of_b, None));
    copies_a.then_some((CopiedOperand::A, major_of_a, picked)).into_iter().chain(of_b).collect()
}
