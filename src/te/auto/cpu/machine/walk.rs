//! Walks down columns: machine code for outputs that are neighbours in memory, one row of their elements after another.

use smallvec::SmallVec;

use super::point_loop::{LoopBinding, LoopBuilder, axis_value, written};
use crate::jit::{Kernel, ROW_ARGUMENTS, RowKernel, RowProgram};
use crate::lane::Register;
use crate::te::auto::cpu::elements::Elements;
use crate::te::auto::cpu::memory::Written;

/// The computation for each element of some neighbouring outputs, compiled.
#[derive(Debug)]
pub(in crate::te::auto::cpu) struct Walk {
    code: Code,
    sources: Vec<Source>,
    /// The number of outputs.
    lanes: usize,
}

#[derive(Debug)]
enum Code {
    /// All rows.
    Rows(RowKernel),
    /// One row: where vector code can't leave out lanes, of what whole vectors leave over.
    Row(Kernel),
}

/// Where an argument of the code is.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Elements of a read, by its number.
    Read(usize),
    /// Elements of an output.
    Written(usize),
    /// The outputs' lanes of a register, by its number among the registers with lanes in memory.
    Lanes(usize),
    /// The value of an axis, less that of its first index.
    Axis(usize, i64),
}

impl LoopBuilder<'_> {
    /// The walk for this many outputs. Their lanes of `registers` are in memory, and what is kept is in elements of an output.
    pub(in crate::te::auto::cpu) fn walk(
        self,
        lanes: usize,
        registers: &[Register],
        kept_in: Option<usize>,
    ) -> Option<Walk> {
        let vectors = self.vectors();
        let (body, bindings) = self.parts();
        let source = |binding: LoopBinding| {
            Some(match binding {
                LoopBinding::Read(part) => Source::Read(part),
                LoopBinding::Written(place) => Source::Written(place),
                LoopBinding::Kept => Source::Written(kept_in?),
                LoopBinding::Strip(register) => Source::Lanes(registers.iter().position(|own| *own == register)?),
                LoopBinding::Axis(axis, least) => Source::Axis(axis, least),
                LoopBinding::Uniform(_) | LoopBinding::Cyclic(_) => return None,
            })
        };
        let sources = bindings.into_iter().map(source).collect::<Option<Vec<Source>>>()?;
        let mut program = RowProgram::new(lanes);
        program.each(body.clone());
        let code = RowKernel::compile(&program, vectors).map(Code::Rows);
        let code = code.or_else(|| Kernel::compile(&body, vectors).map(Code::Row))?;
        #[cfg(test)]
        super::COMPILED.set(super::COMPILED.get() + 1);
        Some(Walk { code, sources, lanes })
    }
}

impl Walk {
    /// Takes some rows: elements that follow each other along the last of the inner loops, from the one with these indices on.
    /// `lanes` gives the address of the outputs' lanes of a register.
    ///
    /// # Safety
    /// The points must be within the loops, and there must be lanes for all outputs. Nobody else may write what is read, or
    /// access what is written, during the call.
    pub(in crate::te::auto::cpu) unsafe fn run(
        &self,
        (elements, outputs): (&Elements, &[Written]),
        lanes: impl Fn(usize) -> *mut u32,
        (outer, inner): (&[i64], &[i64]),
        rows: usize,
    ) {
        let down = elements.inner.last();
        let mut addresses: SmallVec<[*mut u8; ROW_ARGUMENTS]> = SmallVec::with_capacity(self.sources.len());
        let mut apart: SmallVec<[isize; ROW_ARGUMENTS]> = SmallVec::with_capacity(self.sources.len());
        // The values of axes that are arguments: that of all rows, or one for each.
        let mut values: SmallVec<[Vec<i32>; 2]> = SmallVec::new();
        for source in &self.sources {
            let (address, by) = match *source {
                Source::Read(part) => (elements.address(part, outer, inner) as *mut u8, elements.bytes_down(part)),
                Source::Written(place) => {
                    let step = down.map_or(0, |level| level.outputs[place]);
                    let to = written(elements, outputs, place, (outer, inner));
                    (to, step as isize * outputs[place].element.size() as isize)
                }
                Source::Lanes(number) => (lanes(number).cast(), 0),
                Source::Axis(axis, least) => {
                    let first = axis_value(elements, axis, (outer, inner)) + least;
                    let moves = down.is_some_and(|level| level.axis == Some(axis));
                    let count = if moves { rows as i64 } else { 1 };
                    let mut own: Vec<i32> = (first..first + count).map(|value| value as i32).collect();
                    let address = own.as_mut_ptr().cast();
                    values.push(own);
                    (address, if moves { size_of::<i32>() as isize } else { 0 })
                }
            };
            addresses.push(address);
            apart.push(by);
        }
        // SAFETY: the caller's promise. The builder has checked that reads and outputs have neighbouring elements along
        // the lanes, or one. The space has checked that elements of points within the loops are inside their tensors. A
        // state's lanes, and an output that keeps values, are written where they are read.
        unsafe {
            match &self.code {
                Code::Rows(kernel) => kernel.run(&mut addresses, &apart, rows),
                Code::Row(kernel) => {
                    for _ in 0..rows {
                        kernel.run(&addresses, self.lanes);
                        for (address, by) in addresses.iter_mut().zip(&apart) {
                            *address = address.wrapping_offset(*by);
                        }
                    }
                }
            }
        }
    }
}
