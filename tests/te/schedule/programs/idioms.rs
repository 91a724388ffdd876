//! How people write schedules: idioms with random parameters, several after each other. If a primitive is refused, the
//! idiom ends, and what it has done so far stays.

use epilogue::te::TeError;

use super::script::Script;
use crate::schedule::replay::{Inlined, Mark, Name, Primitive};

const BLOCKS: [&str; 3] = ["blockIdx.x", "blockIdx.y", "blockIdx.z"];
const THREADS: [&str; 3] = ["threadIdx.x", "threadIdx.y", "threadIdx.z"];
const VIRTUAL: [&str; 2] = ["vthread.x", "vthread.y"];

/// The frequency of each idiom, in the order of [`Script::idiom`].
const OFTEN: [u32; 22] = [3, 3, 3, 2, 2, 2, 4, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 4];

impl Script<'_, '_> {
    /// Several idioms after each other.
    pub(super) fn write(&mut self) {
        for _ in 0..self.random.u32(1..6) {
            let mut draw = self.random.u32(..OFTEN.iter().sum::<u32>());
            let taken = OFTEN.iter().position(|often| {
                let here = draw < *often;
                draw = draw.saturating_sub(*often);
                here
            });
            let _ = self.idiom(taken.unwrap_or_default());
        }
    }

    fn idiom(&mut self, place: usize) -> Result<(), TeError> {
        match place {
            0 => self.tile(),
            1 => self.cache_the_result(),
            2 => self.factor_the_reduction(),
            3 => self.reduce_over_threads(),
            4 => self.reduce_across_blocks(),
            5 => self.inline(),
            6 => self.compute_where_read(),
            7 => self.cache_an_operand(),
            8 => self.threads_over_all(),
            9 => self.threads_in_tiles(),
            10 => self.shared_tiles(),
            11 => self.roll(),
            12 => self.double(),
            13 => self.lay_out_anew(),
            14 => self.align(),
            15 => self.group(),
            16 => self.inline_by_kind(),
            17 => self.hint(),
            18 => self.reorder(),
            19 => self.vectorize(),
            20 => self.tensorize(),
            _ => self.around_a_scan(),
        }
    }

    // Idioms on one stage.

    fn tile(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let data = self.data(stage);
        let [.., x, y] = data[..] else {
            let Some(axis) = data.first().copied() else { return Ok(()) };
            let factor = self.factor();
            return self.split(stage, axis, factor).map(drop);
        };
        let factors = [self.factor(), self.factor()];
        let made = self.world.apply(Primitive::Tile { stage, axes: [x, y], factors })?;
        if self.chance(2) {
            self.mark(stage, made[3], Mark::Vectorized)?;
        }
        if self.chance(3) {
            self.mark(stage, made[2], Mark::Unrolled)?;
        }
        if self.chance(3) {
            let fused = if self.chance(2) { self.fuse(stage, vec![made[0], made[1]])? } else { made[0] };
            self.mark(stage, fused, Mark::Parallel)?;
        }
        Ok(())
    }

    /// Computes the result in a separate cache, tile by tile, and copies it.
    fn cache_the_result(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let scope = self.pick(&["local", "global", "shared"]).unwrap_or("local");
        let operation = self.world.tensor(stage)?.operation().clone();
        let all = self.stages.iter().copied();
        let own =
            |name: &Name| self.world.tensor(*name).is_ok_and(|t| std::sync::Arc::ptr_eq(t.operation(), &operation));
        let all = all.filter(own).collect();
        self.world.apply(Primitive::CacheWrite { stages: all, scope })?;
        let Some(cache) = self.insert(stage).first().copied() else { return Ok(()) };
        if self.chance(2) {
            let loops = self.data(stage);
            if let Some(axis) = self.pick(&loops) {
                let factor = self.factor();
                self.split(stage, axis, factor)?;
            }
        }
        self.anywhere(cache, stage)?;
        self.order_the_sum(cache)
    }

    /// Splits the sum into parts, with data loops between them, as in a product of tiles.
    fn order_the_sum(&mut self, stage: Name) -> Result<(), TeError> {
        let Some(k) = self.reduced(stage).first().copied() else { return Ok(()) };
        let factor = self.factor();
        let [outer, inner] = self.split(stage, k, factor)?;
        let mut order = vec![outer];
        let mut data = self.data(stage);
        if self.chance(2) {
            order.append(&mut data);
            order.push(inner);
        } else {
            order.push(inner);
            order.append(&mut data);
        }
        self.reordered(stage, order)?;
        if self.chance(3) {
            self.mark(stage, inner, Mark::Unrolled)?;
        }
        Ok(())
    }

    fn reorder(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let mut loops = self.world.loops(stage);
        self.random.shuffle(&mut loops);
        loops.truncate(self.random.usize(1..5));
        self.reordered(stage, loops)
    }

    fn vectorize(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let data = self.data(stage);
        let Some(last) = data.last().copied() else { return Ok(()) };
        let factor = self.pick(&[2, 3, 4, 8]).unwrap_or(4);
        let [outer, inner] = self.split(stage, last, factor)?;
        self.mark(stage, inner, Mark::Vectorized)?;
        if self.chance(3) { self.mark(stage, outer, Mark::Parallel) } else { Ok(()) }
    }

    fn hint(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let loops = self.world.loops(stage);
        let Some(axis) = self.pick(&loops) else { return Ok(()) };
        if self.chance(3) {
            let tensor = self.stage();
            let offset = self.random.i32(0..3);
            return self.world.apply(Primitive::Prefetch { stage, tensor, axis, offset }).map(drop);
        }
        let value = self.random.i32(0..33);
        self.world.apply(Primitive::Pragma { stage, axis, key: "auto_unroll_max_step", value })?;
        let value = self.random.i32(0..2);
        self.world.apply(Primitive::Pragma { stage, axis, key: "unroll_explicit", value }).map(drop)
    }

    // Idioms on reductions.

    /// Partial results, over the inner part of the sum or the outer one.
    fn factor_the_reduction(&mut self) -> Result<(), TeError> {
        let Some(stage) = self.reduction() else { return Ok(()) };
        let mut k = self.reduced(stage)[0];
        if self.reduced(stage).len() > 1 && self.chance(2) {
            let axes = self.reduced(stage);
            k = self.fuse(stage, axes)?;
        }
        let factor = self.factor();
        let made = if self.chance(2) { self.split(stage, k, factor)? } else { self.parts(stage, k, factor)? };
        let axis = made[self.random.usize(..2)];
        let place = self.random.isize(-1..2);
        self.world.apply(Primitive::Rfactor { stage, axis, place })?;
        let Some(partial) = self.insert(stage).first().copied() else { return Ok(()) };
        match self.random.u32(..4) {
            0 => {}
            1 => self.anywhere(partial, stage)?,
            _ => {
                let reduced = self.reduced(stage);
                self.at(partial, stage, reduced[0])?;
            }
        }
        if self.chance(3) {
            self.order_the_sum(partial)?;
        }
        if self.chance(3) {
            let data = self.data(partial);
            if let Some(axis) = self.pick(&data) {
                self.mark(partial, axis, Mark::Vectorized)?;
            }
        }
        Ok(())
    }

    /// A block's threads each sum a part; one of them stores the result.
    fn reduce_over_threads(&mut self) -> Result<(), TeError> {
        let Some(stage) = self.reduction() else { return Ok(()) };
        let index = self.random.usize(..2);
        let k = self.reduced(stage)[0];
        let factored = self.chance(2);
        let [_, inner] = self.split(stage, k, self.threads[index])?;
        let mut sum = inner;
        if factored {
            self.world.apply(Primitive::Rfactor { stage, axis: inner, place: 0 })?;
            let partial = self.insert(stage);
            sum = self.reduced(stage)[0];
            if let Some(partial) = partial.first() {
                self.at(*partial, stage, sum)?;
            }
        }
        let data = self.data(stage);
        if let Some(row) = data.first().copied() {
            if self.chance(2) {
                let [block, thread] = self.split(stage, row, self.threads[1 - index])?;
                self.bind(stage, block, BLOCKS[0])?;
                self.bind(stage, thread, THREADS[1 - index])?;
            } else {
                self.bind(stage, row, BLOCKS[0])?;
            }
        }
        self.bind(stage, sum, THREADS[index])?;
        if self.chance(2) {
            self.world.apply(Primitive::StoreAtFirst { stage, thread: THREADS[index] })?;
        }
        Ok(())
    }

    /// Blocks and threads each sum a part into memory; a second kernel sums these parts.
    fn reduce_across_blocks(&mut self) -> Result<(), TeError> {
        let Some(stage) = self.reduction() else { return Ok(()) };
        let axes = self.reduced(stage);
        let k = if axes.len() > 1 { self.fuse(stage, axes)? } else { axes[0] };
        let count = self.factor();
        let [outer, _] = self.parts(stage, k, count)?;
        self.world.apply(Primitive::Rfactor { stage, axis: outer, place: 0 })?;
        let Some(partial) = self.insert(stage).first().copied() else { return Ok(()) };
        let data = self.data(partial);
        self.bind(partial, data[0], BLOCKS[0])?;
        let reduced = self.reduced(partial);
        if let Some(inner) = reduced.first().copied() {
            let [_, thread] = self.split(partial, inner, self.threads[0])?;
            self.bind(partial, thread, THREADS[0])?;
        }
        Ok(())
    }

    fn tensorize(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let data = self.data(stage);
        let Some(columns) = data.last().copied() else { return Ok(()) };
        let width = self.pick(&[1, 2, 3, 4, 8]).unwrap_or(1);
        let [outer, inner] = self.split(stage, columns, width)?;
        let mut terms = 1;
        if let Some(k) = self.reduced(stage).first().copied() {
            terms = self.pick(&[1, 2, 3, 4]).unwrap_or(1);
            let [ko, ki] = self.split(stage, k, terms)?;
            let order = if self.chance(2) { vec![outer, ko, inner, ki] } else { vec![ko, outer, inner, ki] };
            self.reordered(stage, order)?;
            return self
                .world
                .apply(Primitive::Tensorize { stage, axis: inner, extents: vec![width, terms] })
                .map(drop);
        }
        self.world.apply(Primitive::Tensorize { stage, axis: inner, extents: vec![terms, width] }).map(drop)
    }

    // Idioms that place stages.

    fn inline(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        self.world.apply(Primitive::Inline { stage }).map(drop)
    }

    fn inline_by_kind(&mut self) -> Result<(), TeError> {
        let of =
            self.pick(&[Inlined::ElementWise, Inlined::Broadcast, Inlined::Injective]).unwrap_or(Inlined::Injective);
        self.world.apply(Primitive::AutoInline { of }).map(drop)
    }

    /// Computes producers inside their readers, beginning with the last one.
    fn compute_where_read(&mut self) -> Result<(), TeError> {
        let only = self.chance(2).then(|| self.stage());
        for stage in self.stages.clone().into_iter().rev() {
            if only.is_some_and(|only| only != stage) {
                continue;
            }
            let readers = self.readers(stage);
            let Some(reader) = self.pick(&readers) else { continue };
            // Some places are refused; others are tried next.
            let _ = self.anywhere(stage, reader);
        }
        Ok(())
    }

    fn cache_an_operand(&mut self) -> Result<(), TeError> {
        let tensors = [self.world.inputs(), self.stages.clone()].concat();
        let Some(tensor) = self.pick(&tensors) else { return Ok(()) };
        let mut readers = self.readers(tensor);
        if readers.len() > 1 && !self.chance(3) {
            readers = vec![readers[self.random.usize(..readers.len())]];
        }
        let Some(reader) = self.pick(&readers) else { return Ok(()) };
        let scope = self.pick(&["shared", "local", "global", "warp"]).unwrap_or("shared");
        self.world.apply(Primitive::CacheRead { tensor, scope, readers })?;
        let Some(cache) = self.insert(reader).first().copied() else { return Ok(()) };
        self.anywhere(cache, reader)?;
        match self.random.u32(..5) {
            0 => self.fetch_together(cache, 2),
            1 => {
                let loops = self.data(cache);
                let Some(last) = loops.last().copied() else { return Ok(()) };
                self.mark(cache, last, Mark::Vectorized)
            }
            2 => self.world.apply(Primitive::DoubleBuffer { stage: cache }).map(drop),
            3 => self.align_of(cache),
            _ => Ok(()),
        }
    }

    /// Each thread of a block fetches a part.
    fn fetch_together(&mut self, stage: Name, dimensions: usize) -> Result<(), TeError> {
        let loops = self.data(stage);
        if loops.is_empty() {
            return Ok(());
        }
        let mut rest = self.fuse(stage, loops)?;
        for index in (0..dimensions).rev() {
            let [outer, inner] = self.split(stage, rest, self.threads[index])?;
            self.bind(stage, inner, THREADS[index])?;
            rest = outer;
        }
        Ok(())
    }

    fn align(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        self.align_of(stage)
    }

    fn align_of(&mut self, stage: Name) -> Result<(), TeError> {
        let dimension = self.random.usize(..self.world.tensor(stage)?.rank().max(1));
        let factor = [1, 2, 4, 8, 32][self.random.usize(..5)];
        let offset = self.random.i64(0..4);
        self.world.apply(Primitive::Align { stage, dimension, factor, offset }).map(drop)
    }

    /// Keeps what the previous iteration computed.
    fn roll(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let readers = self.readers(stage);
        let Some(reader) = self.pick(&readers) else { return Ok(()) };
        if self.chance(3) {
            let loops = self.data(reader);
            if let Some(axis) = self.pick(&loops) {
                let factor = self.factor();
                self.split(reader, axis, factor)?;
            }
        }
        self.anywhere(stage, reader)?;
        self.world.apply(Primitive::RollingBuffer { stage }).map(drop)
    }

    fn double(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let readers = self.readers(stage);
        if let Some(reader) = self.pick(&readers) {
            self.anywhere(stage, reader)?;
        }
        self.world.apply(Primitive::DoubleBuffer { stage }).map(drop)
    }

    fn lay_out_anew(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        if self.world.is_output(stage) {
            return Ok(());
        }
        let (turned, factor, apart) = (self.random.bool(), self.random.i32(1..5), self.chance(3));
        let made = self.world.apply(Primitive::Layout { stage, turned, factor, apart })?;
        if self.chance(2) && made.len() > 1 {
            self.fuse(stage, made[..2].to_vec())?;
        }
        Ok(())
    }

    fn group(&mut self) -> Result<(), TeError> {
        let [a, b] = [0, 1].map(|_| self.random.usize(..self.stages.len()));
        let (from, to) = (self.stages[a.min(b)], self.stages[a.max(b)]);
        let readers = self.readers(to);
        let at = match self.pick(&readers) {
            Some(reader) => {
                let loops = self.world.loops(reader);
                self.pick(&loops).map(|axis| [reader, axis])
            }
            None => None,
        };
        let (outputs, inputs, include) = (vec![to], vec![from], self.random.bool());
        self.world.apply(Primitive::Group { outputs, inputs, include, at }).map(drop)
    }

    // Idioms for GPUs.

    /// Fuses all loops of every stage that is not inside another one, over blocks and threads.
    fn threads_over_all(&mut self) -> Result<(), TeError> {
        let only = self.chance(3).then(|| self.stage());
        for stage in self.stages.clone() {
            if self.is_scan(stage) || only.is_some_and(|only| only != stage) {
                continue;
            }
            let loops = self.data(stage);
            // A stage that has threads, or is inside others', stays as it is.
            let _ = self.threads_over(stage, loops);
        }
        Ok(())
    }

    fn threads_over(&mut self, stage: Name, loops: Vec<Name>) -> Result<(), TeError> {
        let fused = self.fuse(stage, loops)?;
        let [outer, inner] = self.split(stage, fused, self.threads[0])?;
        if self.chance(3) {
            let [blocks, rest] = self.parts(stage, outer, 3)?;
            self.bind(stage, blocks, BLOCKS[0])?;
            self.bind(stage, inner, THREADS[0])?;
            return if self.chance(2) { self.reordered(stage, vec![inner, rest]) } else { Ok(()) };
        }
        self.bind(stage, outer, BLOCKS[0])?;
        self.bind(stage, inner, THREADS[0])
    }

    /// Tiles in blocks, virtual threads and threads, and several elements per thread.
    fn threads_in_tiles(&mut self) -> Result<(), TeError> {
        let stage = self.stage();
        let data = self.data(stage);
        let virtuals = [self.random.i32(1..4), self.random.i32(1..3)];
        let is_virtual = self.chance(2);
        let (mut blocks, mut between, mut inside, mut rest) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (place, axis) in data.iter().rev().take(2).copied().enumerate() {
            let factor = self.factor();
            let [block, tile] = self.split(stage, axis, factor)?;
            self.bind(stage, block, BLOCKS[place])?;
            blocks.push(block);
            let mut tile = tile;
            if is_virtual {
                let [outer, inner] = self.parts(stage, tile, virtuals[place])?;
                self.bind(stage, outer, VIRTUAL[place])?;
                between.push(outer);
                tile = inner;
            }
            let [thread, own] = self.parts(stage, tile, self.threads[place])?;
            self.bind(stage, thread, THREADS[place])?;
            inside.push(thread);
            rest.push(own);
        }
        self.reordered(stage, [blocks, between, inside, rest].concat())
    }

    /// A product of tiles for GPUs: the result in registers, operands fetched into shared memory step by step.
    fn shared_tiles(&mut self) -> Result<(), TeError> {
        let Some(stage) = self.reduction() else { return Ok(()) };
        self.world.apply(Primitive::CacheWrite { stages: vec![stage], scope: "local" })?;
        let Some(sum) = self.insert(stage).first().copied() else { return Ok(()) };
        let inputs = self.world.inputs();
        let mut operands = Vec::new();
        for tensor in [inputs, self.stages.clone()].concat() {
            if self.readers(tensor).contains(&sum) && tensor != stage {
                self.world.apply(Primitive::CacheRead { tensor, scope: "shared", readers: vec![sum] })?;
                operands.extend(self.insert(sum));
            }
        }
        let data = self.data(stage);
        let (mut blocks, mut inside, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for (place, axis) in data.iter().rev().take(2).copied().enumerate() {
            let factor = self.pick(&[1, 2, 3]).unwrap_or(1) * self.threads[place];
            let [block, tile] = self.split(stage, axis, factor)?;
            let [thread, own] = self.parts(stage, tile, self.threads[place])?;
            self.bind(stage, block, BLOCKS[place])?;
            self.bind(stage, thread, THREADS[place])?;
            blocks.push(block);
            inside.push(thread);
            rest.push(own);
        }
        let Some(last) = inside.last().copied() else { return Ok(()) };
        self.reordered(stage, [blocks, inside, rest].concat())?;
        self.at(sum, stage, last)?;
        let reduced = self.reduced(sum);
        let factor = self.factor();
        let [outer, inner] = self.split(sum, reduced[0], factor)?;
        let own = self.data(sum);
        self.reordered(sum, [vec![outer, inner], own].concat())?;
        for operand in operands {
            self.at(operand, sum, outer)?;
            self.fetch_together(operand, data.len().min(2))?;
            match self.random.u32(..4) {
                0 => self.align_of(operand)?,
                1 => self.world.apply(Primitive::DoubleBuffer { stage: operand }).map(drop)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Binds a scan's columns to threads, once around all steps or in each step, and places the stages of a step
    /// inside.
    fn around_a_scan(&mut self) -> Result<(), TeError> {
        let scans: Vec<Name> = self.stages.iter().copied().filter(|stage| self.is_scan(*stage)).collect();
        let Some(scan) = self.pick(&scans) else { return Ok(()) };
        let envelope = self.chance(2);
        if envelope {
            let threads = vec![BLOCKS[0], THREADS[0]];
            self.world.apply(Primitive::EnvThreads { stage: scan, threads })?;
        }
        let before = self.stages.iter().position(|stage| *stage == scan).unwrap_or(0);
        for place in 0..before {
            let stage = self.stages[place];
            let loops = self.data(stage);
            let Some(last) = loops.last().copied() else { continue };
            // A stage in the update, sometimes.
            if self.chance(3) {
                let readers = self.readers(stage);
                if let Some(reader) = self.pick(&readers) {
                    let _ = self.anywhere(stage, reader);
                }
                continue;
            }
            if let Ok([outer, inner]) = self.split(stage, last, self.threads[0]) {
                let _ = self.bind(stage, outer, BLOCKS[0]);
                let _ = self.bind(stage, inner, THREADS[0]);
            }
        }
        Ok(())
    }
}
