//! Chains of reductions along rows, with the outputs that follow from them, as one loop over rows in machine code: a
//! softmax, a layer norm, or any chain of that shape.
//!
//! A row is read from memory once and stays in the nearest cache from pass to pass. Between two rows only addresses
//! change. Short rows are taken two at a time, pass by pass, since a pass waits for the total of the one before. Rows
//! that indices choose, such as the words of a table, are found one by one.
//!
//! The values are those of steps: the same operations, and the same [`Tree`](crate::te::auto::cpu::reduce_tree::Tree) of
//! lanes. Only operations that give the same bits in any order, such as a maximum, are combined in another order.

use std::ops::Range;

use smallvec::SmallVec;

use super::point_loop::{LoopBinding, LoopBuilder, Moving};
use crate::ElementType;
use crate::exhaustion::repeated;
use crate::jit::{Binary, Body, Extreme, JitPlace, ROW_ARGUMENTS, RowKernel, RowProgram};
use crate::lane::machine::{BodyLanes, Typed};
use crate::lane::scalar::Scalar as _;
use crate::lane::{Class, LaneStep, Register};
use crate::te::auto::bind::iteration_space::LoopLevel;
use crate::te::auto::cpu::elements::Elements;
use crate::te::auto::cpu::fold_memory::Combine;
use crate::te::auto::cpu::invariant::InvariantSteps;
use crate::te::auto::cpu::memory::decode;
use crate::te::auto::cpu::reduce_job::Job;
use crate::te::auto::cpu::registers::Registers;
use crate::te::error::TeError;

/// Reductions that follow each other, compiled.
#[derive(Debug)]
pub(in crate::te::auto::cpu) struct WholeRows {
    one: Rows,
    /// Two rows interleaved: the second row's arithmetic hides the latency of the first row's final fold.
    two: Option<Rows>,
    /// Whether rows are numbered by one loop at most, in all reductions.
    in_one_loop: bool,
    /// The number of elements of a row that are kept from a reduction to the outputs of points, beside the tensors.
    kept: usize,
}

/// The most elements of a row if two rows are computed at a time. The reads and writes of both then stay in the nearest
/// cache.
const MOST_OF_TWO: usize = 1024;

/// Code for some rows at a time.
#[derive(Debug)]
struct Rows {
    kernel: RowKernel,
    /// The source of each argument, the first row that it belongs to, and its distance in bytes to the next rows.
    arguments: Vec<(Source, usize)>,
    apart: Vec<isize>,
    /// The elements with rows that indices choose.
    chosen: Vec<Elsewhere>,
}

/// Elements with rows that indices choose: the numbers of the job and of its elements, and the first row that they
/// belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elsewhere {
    job: usize,
    elements: usize,
    row: usize,
}

/// A thread's memory for computing rows.
pub(in crate::te::auto::cpu) struct Memory {
    kept: Vec<f32>,
    /// The registers of each reduction, in one lane, if indices choose rows.
    registers: Vec<Registers>,
}

/// Where an argument is.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A read of a reduction: the numbers of the reduction, of its elements, and of the read.
    Read(usize, usize, usize),
    /// A read of a row that an index chooses.
    Chosen(usize, usize, usize),
    /// An output of a reduction, by their numbers.
    Written(usize, usize),
    Kept,
    /// A number, such as the first value of an axis.
    Number(i32),
}

/// The total of a value of a reduction.
#[derive(Clone, Copy)]
enum Total {
    One(Class, JitPlace),
    Extreme(Extreme),
}

impl Total {
    /// Its value.
    fn value(self, body: &mut Body) -> Option<Typed> {
        match self {
            Self::One(class, place) => {
                let value = body.held(place);
                Typed::held(class, value, BodyLanes::Equal)
            }
            Self::Extreme(extreme) => Some(Typed::Float(extreme.value(body))),
        }
    }
}

impl WholeRows {
    /// `None` if the jobs are no chain of this form, or if vector code cannot do them.
    pub(in crate::te::auto::cpu) fn of(jobs: &[Job]) -> Option<Self> {
        let lanes = usize::try_from(jobs.first()?.count()).ok()?;
        let mut making = Making { program: RowProgram::new(lanes), arguments: Vec::new(), kept_in: None, kept: 0 };
        for (number, job) in jobs.iter().enumerate() {
            if job.count_outputs() != jobs[0].count_outputs() || job.count() != jobs[0].count() {
                return None;
            }
            making.job(number, job)?;
        }
        let Making { program, arguments, kept, .. } = making;
        let in_one_loop = jobs.iter().all(|job| job.outer.len() <= 1);
        let one = Rows::of(jobs, &program, arguments.iter().map(|source| (*source, 0)).collect())?;
        let two = (in_one_loop && lanes <= MOST_OF_TWO && program.has_totals()).then(|| {
            let (mut both, mut rest) = (Vec::with_capacity(2 * arguments.len()), &arguments[..]);
            for count in program.arguments_of_stages() {
                let (stage, others) = rest.split_at(count);
                (0..2).for_each(|row| both.extend(stage.iter().map(|source| (*source, row))));
                rest = others;
            }
            Rows::of(jobs, &program.side_by_side(), both)
        });
        #[cfg(test)]
        {
            super::COMPILED.set(super::COMPILED.get() + 1);
            super::IN_ROWS.set(super::IN_ROWS.get() + 1);
        }
        Some(Self { one, two: two.flatten(), in_one_loop, kept })
    }

    /// Memory that a thread needs.
    pub(in crate::te::auto::cpu) fn memory(&self, jobs: &[Job]) -> Memory {
        let registers = if self.one.chosen.is_empty() { &[] } else { jobs };
        Memory {
            kept: repeated(0.0, self.kept * if self.two.is_some() { 2 } else { 1 }),
            registers: registers.iter().map(|job| Registers::with_lanes(&job.program, 1)).collect(),
        }
    }

    /// Computes some rows. It fails if an index is outside of a tensor.
    ///
    /// # Safety
    /// The jobs must be those it was made of, moved to the present tensors. During the call, nobody else may write
    /// inputs, or access outputs of these rows. The memory must come from [`memory`](Self::memory).
    pub(in crate::te::auto::cpu) unsafe fn run(
        &self,
        jobs: &[Job],
        memory: &mut Memory,
        rows: Range<i64>,
    ) -> Result<(), TeError> {
        let mut row = rows.start;
        while row < rows.end {
            let left = (rows.end - row) as usize;
            let (code, each) = self.two.as_ref().filter(|_| left > 1).map_or((&self.one, 1), |two| (two, 2));
            let times = if self.in_one_loop && code.chosen.is_empty() { left / each } else { 1 };
            // SAFETY: the caller's promise; of each row of some that are computed at a time, the memory has a part.
            unsafe { code.run(jobs, (memory, self.kept), row, times) }?;
            row += (times * each) as i64;
        }
        Ok(())
    }
}

impl Rows {
    fn of(jobs: &[Job], program: &RowProgram, arguments: Vec<(Source, usize)>) -> Option<Self> {
        let vectors = jobs.first()?.program.tuning.vectors;
        if arguments.len() > ROW_ARGUMENTS {
            return None;
        }
        let rows = arguments.iter().map(|(_, row)| *row as isize + 1).max().unwrap_or(1);
        let apart = arguments.iter().map(|(source, _)| source.bytes_apart(jobs) * rows).collect();
        let mut chosen: Vec<Elsewhere> = Vec::new();
        for (source, row) in &arguments {
            if let Source::Chosen(job, elements, _) = *source {
                let place = Elsewhere { job, elements, row: *row };
                if !chosen.contains(&place) {
                    chosen.push(place);
                }
            }
        }
        Some(Self { kernel: RowKernel::compile(program, vectors)?, arguments, apart, chosen })
    }

    /// Computes `times` times the code's rows, from this row on.
    ///
    /// # Safety
    /// The conditions of [`WholeRows::run`]; the memory must have `kept` elements for each row of the code.
    unsafe fn run(
        &self,
        jobs: &[Job],
        (memory, kept): (&mut Memory, usize),
        first: i64,
        times: usize,
    ) -> Result<(), TeError> {
        let mut chosen: SmallVec<[(Elsewhere, usize, u64); 8]> = SmallVec::new();
        for place in &self.chosen {
            let (job, registers) = (&jobs[place.job], &mut memory.registers[place.job]);
            let outer = decode(&job.outer, first + place.row as i64);
            // SAFETY: the caller's promise.
            let of_row = unsafe { job.elements[place.elements].chosen(registers, &outer, job.count() as usize) }?;
            chosen.extend(of_row.into_iter().map(|(part, address)| (*place, part, address)));
        }
        let mut numbers: SmallVec<[i32; ROW_ARGUMENTS]> = SmallVec::from_elem(0, self.arguments.len());
        let mut addresses: SmallVec<[*mut u8; ROW_ARGUMENTS]> = SmallVec::with_capacity(self.arguments.len());
        for ((source, of_time), number) in self.arguments.iter().zip(&mut numbers) {
            let row = first + *of_time as i64;
            addresses.push(match *source {
                Source::Read(job, elements, part) => {
                    let job = &jobs[job];
                    job.elements[elements].address(part, &decode(&job.outer, row), &[0]) as *mut u8
                }
                Source::Chosen(job, elements, part) => {
                    let own = Elsewhere { job, elements, row: *of_time };
                    let is_it = |(place, of, _): &&(Elsewhere, usize, u64)| *place == own && *of == part;
                    chosen.iter().find(is_it).map_or(0, |(.., address)| *address) as *mut u8
                }
                Source::Written(job, place) => {
                    let job = &jobs[job];
                    let index = decode(&job.outer, row);
                    let offset = job.outer.iter().zip(&index).map(|(level, i)| level.outputs[place] * i).sum();
                    job.outputs[place].target(offset, 1).address as *mut u8
                }
                Source::Kept => memory.kept[of_time * kept..].as_mut_ptr().cast(),
                Source::Number(value) => {
                    *number = value;
                    std::ptr::from_mut(number).cast()
                }
            });
        }
        // SAFETY: the caller's promise. The builder has checked that reads and outputs have neighbouring elements along
        // a row, or one. The space has checked that elements of points within the loops are inside their tensors. The
        // memory has a row's elements. An output that keeps values is read where it is written, and no other is read.
        unsafe { self.kernel.run(&mut addresses, &self.apart, times) };
        Ok(())
    }
}

impl Source {
    /// The distance in bytes between rows.
    fn bytes_apart(self, jobs: &[Job]) -> isize {
        match self {
            Self::Read(job, elements, part) => jobs[job].elements[elements].bytes_apart(part),
            Self::Written(job, place) => {
                let job = &jobs[job];
                let apart = job.outer.last().map_or(0, |level: &LoopLevel| level.outputs[place]);
                apart as isize * job.outputs[place].element.size() as isize
            }
            Self::Chosen(..) | Self::Kept | Self::Number(_) => 0,
        }
    }
}

/// A program that is being made.
struct Making {
    program: RowProgram,
    arguments: Vec<Source>,
    /// The output whose rows keep values, if there is one.
    kept_in: Option<usize>,
    kept: usize,
}

/// The numbers of a job's elements: see [`Job::elements`].
const OF_REDUCTION: usize = 0;
const OF_TOTALS: usize = 1;
const OF_POINTS: usize = 2;

impl Making {
    fn job(&mut self, number: usize, job: &Job) -> Option<()> {
        let (tree, code) = (&job.tree, &job.code);
        let along = !tree.across && !tree.ordered && tree.parts == 1 && job.inner.len() == 1 && job.count() > 0;
        if !along || job.extreme.is_some() || code.condition.is_some() {
            return None;
        }
        job.elements.iter().all(Elements::are_rows).then_some(())?;
        let (steps, results) = &code.source;
        let source = InvariantSteps::of_rows(steps, results, &job.program, &[], &job.elements[OF_REDUCTION]);
        let past = |place: usize| job.outputs[place].is_streamed(place, &*job.outer);
        self.kept_in = job.reuse.and_then(|_| kept_in(job)).filter(|place| !past(*place));
        let held = self.once(number, job, OF_REDUCTION, &[], &source.once, &source.spread)?;
        let is_wide = |register: &Register| register.class.is_wide();
        let steps = source.each.iter().flat_map(|step| step.operands().iter().chain([&step.to]));
        let lanes_of = if steps.chain(results).any(is_wide) { BodyLanes::Wide } else { BodyLanes::Narrow };
        let mut builder = self.builder(job, OF_REDUCTION, lanes_of);
        held.iter().try_for_each(|(register, place)| builder.held(*register, *place))?;
        builder.steps(&source.each)?;
        let lanes = u32::try_from(tree.lanes).ok()?;
        let mut totals = Vec::with_capacity(code.left.len());
        let values = code.combines.as_ref()?.iter().zip(&code.source.1).zip(&code.identity.1);
        for ((combine, point), identity) in values {
            let identity = constant(job, *identity)?;
            totals.push(builder.combine(&mut self.program, *combine, *point, identity, lanes)?);
        }
        if let Some(reuse) = job.reuse {
            builder.keep(reuse.from)?;
        }
        let (body, bindings) = builder.parts();
        self.bind(number, job, OF_REDUCTION, &bindings)?;
        self.program.each(body);

        let mut builder = self.builder(job, OF_TOTALS, BodyLanes::Equal);
        for (left, total) in code.left.iter().zip(&totals) {
            builder.total(*left, |body| total.value(body))?;
        }
        if let Some((steps, init)) = &code.init {
            builder.steps(steps)?;
            let copies = code.right.iter().zip(&code.left).chain(code.left.iter().zip(init));
            builder.copies(copies)?;
            builder.steps(&code.merge.0)?;
            builder.copies(code.left.iter().zip(&code.merge.1))?;
        }
        let left = self.leave(&mut builder, &code.left)?;
        builder.steps(&code.finish.steps)?;
        for (place, register) in &code.finish.results {
            builder.write_one(*register, *place, &job.outputs[*place])?;
        }
        let (body, bindings) = builder.parts();
        self.bind(number, job, OF_TOTALS, &bindings)?;
        self.program.once(body);

        let Some(results) = &code.apply else { return Some(()) };
        let (steps, elements) = (&results.steps, &job.elements[OF_POINTS]);
        let invariant = InvariantSteps::of_rows(steps, &results.registers(), &job.program, &code.left, elements);
        let held = self.once(number, job, OF_POINTS, &left, &invariant.once, &invariant.spread)?;
        let mut builder = self.builder(job, OF_POINTS, BodyLanes::Narrow);
        held.iter().try_for_each(|(register, place)| builder.held(*register, *place))?;
        if let Some(reuse) = &job.reuse {
            builder.kept(reuse.to);
        }
        builder.steps(&invariant.each)?;
        for (place, register) in &results.results {
            builder.write_points(*register, *place, &job.outputs[*place], past(*place))?;
        }
        let (body, bindings) = builder.parts();
        self.bind(number, job, OF_POINTS, &bindings)?;
        self.program.each(body);
        Some(())
    }

    fn builder<'a>(&self, job: &'a Job, elements: usize, lanes: BodyLanes) -> LoopBuilder<'a> {
        LoopBuilder::new(&job.program, &job.elements[elements], Moving::Inner).choosing().of_lanes(lanes)
    }

    /// Adds a stage that computes what is the same for all elements of a row. Gives the places of what these need of it.
    fn once(
        &mut self,
        number: usize,
        job: &Job,
        elements: usize,
        known: &[(Register, JitPlace)],
        steps: &[LaneStep],
        results: &[Register],
    ) -> Option<Vec<(Register, JitPlace)>> {
        // Values that are only handed on need no stage.
        if steps.is_empty() && results.iter().all(|result| known.iter().any(|(register, _)| register == result)) {
            return Some(known.iter().filter(|(register, _)| results.contains(register)).copied().collect());
        }
        let mut builder = self.builder(job, elements, BodyLanes::Equal);
        known.iter().try_for_each(|(register, place)| builder.held(*register, *place))?;
        builder.steps(steps)?;
        let left = self.leave(&mut builder, results)?;
        let (body, bindings) = builder.parts();
        self.bind(number, job, elements, &bindings)?;
        if bindings.iter().any(|binding| binding.moves(&job.elements[elements])) {
            return None;
        }
        self.program.once(body);
        Some(left)
    }

    /// Leaves registers in places.
    fn leave(&mut self, builder: &mut LoopBuilder<'_>, registers: &[Register]) -> Option<Vec<(Register, JitPlace)>> {
        let mut left = Vec::with_capacity(registers.len());
        for register in registers {
            let place = self.program.place();
            builder.leave(*register, place)?;
            left.push((*register, place));
        }
        Some(left)
    }

    /// Notes where the arguments of a stage are.
    fn bind(&mut self, number: usize, job: &Job, elements: usize, bindings: &[LoopBinding]) -> Option<()> {
        for binding in bindings {
            self.arguments.push(match *binding {
                LoopBinding::Read(part) if job.elements[elements].is_chosen(part) => {
                    Source::Chosen(number, elements, part)
                }
                LoopBinding::Read(part) => Source::Read(number, elements, part),
                LoopBinding::Written(place) => Source::Written(number, place),
                LoopBinding::Kept => match self.kept_in {
                    Some(place) => Source::Written(number, place),
                    None => {
                        self.kept = job.count() as usize;
                        Source::Kept
                    }
                },
                // An axis along rows begins with the same value in each.
                LoopBinding::Axis(axis, least) if job.outer.iter().all(|level| level.axis != Some(axis)) => {
                    Source::Number(i32::try_from(least).ok()?)
                }
                LoopBinding::Axis(..) | LoopBinding::Strip(_) | LoopBinding::Uniform(_) | LoopBinding::Cyclic(_) => {
                    return None;
                }
            });
        }
        Some(())
    }
}

/// The output of points that lies as kept values do, if there is one. Each of its elements overwrites the kept value
/// that it is computed from.
fn kept_in(job: &Job) -> Option<usize> {
    let results = &job.code.apply.as_ref()?.results;
    let is_alike = |place: usize| {
        let step = job.inner.last().map_or(0, |level| level.outputs[place]);
        job.outputs[place].element == ElementType::F32 && step == 1
    };
    results.iter().map(|(place, _)| *place).find(|place| is_alike(*place))
}

/// The bits of a register that is a constant, of 32 or 64.
fn constant(job: &Job, register: Register) -> Option<u64> {
    let (_, constant) = job.program.constants.iter().find(|(known, _)| *known == register)?;
    Some(match register.class {
        Class::F32 => f32::constant(*constant).to_bits().into(),
        Class::I32 => i32::constant(*constant).cast_unsigned().into(),
        Class::F64 => f64::constant(*constant).to_bits(),
        Class::I64 => i64::constant(*constant).cast_unsigned(),
    })
}

impl LoopBuilder<'_> {
    /// Combines a register's values of all points.
    fn combine(
        &mut self,
        program: &mut RowProgram,
        combine: Combine,
        point: Register,
        identity: u64,
        lanes: u32,
    ) -> Option<Total> {
        // A wide body holds f32s as f64s.
        if (point.class == Class::F64) != (self.lanes() == BodyLanes::Wide) {
            return None;
        }
        let value = self.bits_of(point)?;
        let body = self.body();
        if point.class == Class::F64 {
            let op = match combine {
                Combine::Add => Binary::AddF64,
                Combine::Mul => Binary::MulF64,
                Combine::Min | Combine::Max => return None,
            };
            let place = program.place();
            body.combine_wide(op, identity, value, place, Some(lanes));
            return Some(Total::One(point.class, place));
        }
        let identity = identity as u32;
        let mut all = |op: Binary, lanes: Option<u32>| {
            let place = program.place();
            body.combine(op, identity, value, place, lanes);
            place
        };
        let one = match (point.class, combine) {
            (Class::F32, Combine::Add) => all(Binary::Add, Some(lanes)),
            (Class::F32, Combine::Mul) => all(Binary::Mul, Some(lanes)),
            (Class::I32, Combine::Add) => all(Binary::AddI32, None),
            (Class::I32, Combine::Mul) => all(Binary::MulI32, None),
            (Class::I32, Combine::Min) => all(Binary::LeastI32, None),
            (Class::I32, Combine::Max) => all(Binary::GreatestI32, None),
            (Class::F32, Combine::Min | Combine::Max) => {
                if f32::from_bits(identity).is_nan() {
                    return None;
                }
                let largest = combine == Combine::Max;
                let extreme = body.extreme(program, largest, identity, value);
                return Some(Total::Extreme(extreme));
            }
            (Class::F64 | Class::I64, _) => return None,
        };
        Some(Total::One(point.class, one))
    }
}
