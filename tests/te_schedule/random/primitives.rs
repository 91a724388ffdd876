//! Primitives with arguments drawn at random.

use std::sync::Arc;

use epilogue::te::{AXIS_SEPARATOR, Axis, Expr, LayoutIndex, Schedule, SplitBy, TeError, Tensor, thread_axis};

const THREADS: [&str; 7] =
    ["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread", "blockIdx.z"];
const SCOPES: [&str; 4] = ["global", "shared", "local", "warp"];

/// What primitives are drawn for.
pub(crate) struct Draw<'a> {
    pub(crate) schedule: &'a mut Schedule,
    /// What is given to the computation.
    pub(crate) inputs: &'a [Tensor],
    /// What it makes.
    pub(crate) outputs: &'a [Tensor],
    /// The stages, of which primitives make more.
    pub(crate) stages: Vec<Tensor>,
    pub(crate) random: &'a mut fastrand::Rng,
}

impl Draw<'_> {
    /// Applies one primitive, or several that belong together. A refused primitive leaves the schedule as it was.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn apply(&mut self) -> Result<(), TeError> {
        match self.random.u32(..20) {
            0..=8 => self.on_a_loop(),
            9 => self.on_memory(),
            10..=12 => self.on_a_stage(),
            13..=15 => self.place(),
            16 => self.group(),
            _ => self.on_threads(),
        }
    }

    fn any(&mut self) -> Tensor {
        self.stages[self.random.usize(..self.stages.len())].clone()
    }

    fn factor(&mut self) -> i32 {
        [1, 2, 3, 4, 8, 32, 50][self.random.usize(..7)]
    }

    fn one_of<const N: usize>(&mut self, names: [&'static str; N]) -> &'static str {
        names[self.random.usize(..N)]
    }

    /// A loop of a stage.
    fn any_loop(&mut self, tensor: &Tensor) -> Result<Option<Axis>, TeError> {
        let loops = self.schedule.stage(tensor)?.loops();
        Ok((!loops.is_empty()).then(|| loops[self.random.usize(..loops.len())]))
    }

    fn on_a_loop(&mut self) -> Result<(), TeError> {
        let (tensor, factor) = (self.any(), self.factor());
        let Some(axis) = self.any_loop(&tensor)? else { return Ok(()) };
        let (choice, switch) = (self.random.u32(..13), self.random.bool());
        let (thread, steps) = (self.one_of(THREADS), self.random.i32(0..20));
        let stage = self.schedule.stage(&tensor)?;
        let mut loops: Vec<Axis> = stage.loops().to_vec();
        let at = loops.iter().position(|known| *known == axis).unwrap_or_default();
        match choice {
            0 | 1 => stage.split(axis, factor).map(|_| ()),
            2 => stage.split_parts(axis, factor).map(|_| ()),
            3 => stage.fuse(axis, loops[(at + 1) % loops.len()]).map(|_| ()),
            4 => {
                self.random.shuffle(&mut loops);
                stage.reorder(&loops)
            }
            5 | 6 => stage.bind(axis, thread_axis(thread)),
            7 => stage.vectorize(axis),
            8 if switch => stage.parallel(axis),
            8 => stage.unroll(axis),
            9 => {
                let by = if switch { SplitBy::Factor(factor.into()) } else { SplitBy::Parts(factor.into()) };
                stage.split_by(axis, by, true).map(|_| ())
            }
            10 if switch => stage.fuse_all(&[]).map(|_| ()),
            10 => stage.tile(axis, loops[(at + 1) % loops.len()], factor, 4).map(|_| ()),
            11 => {
                stage.pragma(axis, "auto_unroll_max_step", steps)?;
                stage.pragma(axis, "unroll_explicit", switch)
            }
            _ => {
                let source = if switch { self.any() } else { self.inputs[0].clone() };
                self.schedule.stage(&tensor)?.prefetch(&source, axis, steps / 10)
            }
        }
    }

    fn on_memory(&mut self) -> Result<(), TeError> {
        let (tensor, scope, factor) = (self.any(), self.one_of(SCOPES), self.factor().into());
        let (choice, offset) = (self.random.u32(..6), self.random.i64(..4));
        match choice {
            0 => {
                let own = self.schedule.operation(&tensor)?.as_compute().map(|compute| compute.axes.clone());
                let Some(axes) = own.filter(|axes| !axes.is_empty()) else { return Ok(()) };
                let axis = axes[self.random.usize(..axes.len())];
                self.schedule.stage(&tensor)?.storage_align(axis, factor, offset)
            }
            1 => self.schedule.stage(&tensor)?.double_buffer(),
            2 => self.schedule.stage(&tensor)?.rolling_buffer(),
            3 => self.layout(&tensor),
            _ => self.schedule.set_scope(&tensor, scope),
        }
    }

    /// Another layout of what is not the caller's.
    fn layout(&mut self, tensor: &Tensor) -> Result<(), TeError> {
        // The two dimensions of a matrix change places; one is cut by what may divide it.
        if self.outputs.contains(tensor) || self.inputs.contains(tensor) {
            return Ok(());
        }
        let (turned, factor, apart) = (self.random.bool(), self.random.i32(1..5), self.random.bool());
        let made = self.schedule.stage(tensor)?.transform_layout(|at| {
            let mut indices: Vec<Expr> = at.iter().map(|at| Expr::from(*at)).collect();
            if turned {
                indices.reverse();
            }
            if let Some(last) = indices.pop() {
                indices.extend([last.floor_div(factor), last.floor_mod(factor)]);
            }
            let mut made: Vec<LayoutIndex> = indices.into_iter().map(LayoutIndex::from).collect();
            if apart && made.len() > 1 {
                made.insert(1, AXIS_SEPARATOR);
            }
            made
        });
        made.map(|_| ())
    }

    fn on_a_stage(&mut self) -> Result<(), TeError> {
        let (tensor, other, scope) = (self.any(), self.any(), self.one_of(SCOPES));
        match self.random.u32(..6) {
            0 => self.schedule.compute_inline(&tensor),
            1 | 2 => {
                let Some(axis) = self.any_loop(&tensor)? else { return Ok(()) };
                let place = self.random.isize(-1..2);
                let made = self.schedule.rfactor_at(&tensor, axis, place)?;
                self.stages.extend(made.into_iter().next());
                Ok(())
            }
            3 => {
                let all: Vec<Tensor> = self
                    .stages
                    .iter()
                    .filter(|other| Arc::ptr_eq(other.operation(), tensor.operation()))
                    .cloned()
                    .collect();
                let made = self.schedule.cache_write_all(&all.iter().collect::<Vec<_>>(), scope)?;
                self.stages.extend(made.into_iter().next());
                Ok(())
            }
            _ => {
                let input = self.random.usize(..self.inputs.len());
                let source = if self.random.bool() { self.inputs[input].clone() } else { tensor };
                let made = self.schedule.cache_read(&source, scope, &[&other])?;
                self.stages.push(made);
                Ok(())
            }
        }
    }

    fn place(&mut self) -> Result<(), TeError> {
        let mut pair: [usize; 2] = std::array::from_fn(|_| self.random.usize(..self.stages.len()));
        // Inside a loop of a consumer, mostly.
        if self.random.u32(..5) > 0 {
            pair.sort_unstable();
        }
        let [tensor, other] = pair.map(|place| self.stages[place].clone());
        if self.random.u32(..8) == 0 {
            return self.schedule.compute_root(&tensor);
        }
        match self.any_loop(&other)? {
            Some(axis) => self.schedule.compute_at(&tensor, &other, axis),
            None => Ok(()),
        }
    }

    fn group(&mut self) -> Result<(), TeError> {
        let (output, other) = (self.any(), self.any());
        let (input, include) = (self.random.usize(..self.inputs.len()), self.random.bool());
        let group = self.schedule.create_group(&[&output], &[&self.inputs[input]], include)?;
        match self.any_loop(&other)? {
            Some(axis) => self.schedule.group_compute_at(group, &other, axis),
            None => Ok(()),
        }
    }

    /// A stage's data loops in blocks of threads, and others in the blocks, on as many threads.
    fn on_threads(&mut self) -> Result<(), TeError> {
        let tensor = self.any();
        if tensor.operation().as_scan().is_some() {
            let threads = [thread_axis("blockIdx.x"), thread_axis("threadIdx.x")];
            let place = self.random.usize(..2);
            return self.schedule.stage(&tensor)?.env_threads(&threads[place..]);
        }
        let sizes: [i32; 3] = std::array::from_fn(|_| self.random.i32(1..7));
        let depth = self.random.usize(1..4);
        let mut inner = Vec::new();
        let loops: Vec<Axis> = self.schedule.stage(&tensor)?.loops().to_vec();
        let mut order = (Vec::new(), Vec::new());
        for ((axis, size), place) in loops.iter().take(depth).zip(sizes).zip(0..) {
            let stage = self.schedule.stage(&tensor)?;
            let Ok((block, thread)) = stage.split(*axis, size) else { continue };
            order.0.push((block, ["blockIdx.x", "blockIdx.y", "blockIdx.z"][place]));
            order.1.push((thread, ["threadIdx.x", "threadIdx.y", "threadIdx.z"][place]));
            inner.push(thread);
        }
        let stage = self.schedule.stage(&tensor)?;
        let all: Vec<Axis> = order.0.iter().chain(&order.1).map(|(axis, _)| *axis).collect();
        stage.reorder(&all)?;
        for (axis, name) in order.0.iter().chain(&order.1) {
            stage.bind(*axis, thread_axis(name))?;
        }
        self.inside(&tensor, &sizes)
    }

    /// Others inside a stage's loops, on threads of the given numbers.
    fn inside(&mut self, tensor: &Tensor, sizes: &[i32; 3]) -> Result<(), TeError> {
        for other in self.stages.clone() {
            if self.random.u32(..3) == 0 || other == *tensor {
                continue;
            }
            let Some(axis) = self.any_loop(tensor)? else { continue };
            if self.schedule.compute_at(&other, tensor, axis).is_err() || self.random.bool() {
                continue;
            }
            let Some(axis) = self.any_loop(&other)? else { continue };
            let place = self.random.usize(..3);
            let name = ["threadIdx.x", "threadIdx.y", "threadIdx.z"][place];
            let stage = self.schedule.stage(&other)?;
            let split = if self.random.bool() {
                stage.split(axis, sizes[place]).map(|(_, inner)| inner)
            } else {
                stage.split_parts(axis, sizes[place]).map(|(outer, _)| outer)
            };
            if let Ok(thread) = split {
                // A refusal leaves the loop on one thread.
                let _ = stage.bind(thread, thread_axis(name));
            }
            if self.random.bool() {
                let scope = self.one_of(SCOPES);
                self.schedule.set_scope(&other, scope)?;
            }
        }
        Ok(())
    }
}
