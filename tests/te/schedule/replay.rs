//! Primitives as data: a random schedule can be built again without some of its primitives, and so be reduced while it
//! still fails.
//!
//! Loops and stages are identified by the step that created them, not by their index, so the remaining steps keep their
//! meaning.

use epilogue::te::{
    self, AXIS_SEPARATOR, Axis, Expr, Group, LayoutIndex, Schedule, ScheduleError, SplitBy, TeError, Tensor,
    TensorIntrin, thread_axis,
};

use crate::schedule::trial::Case;

/// A tensor or a loop: the step that created it, and its index among the results of that step. Step 0 is the
/// computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(usize, usize);

/// One primitive with its arguments.
#[derive(Clone, Debug)]
pub(crate) enum Primitive {
    Split {
        stage: Name,
        axis: Name,
        factor: i32,
        parts: bool,
        predicated: bool,
    },
    Tile {
        stage: Name,
        axes: [Name; 2],
        factors: [i32; 2],
    },
    Fuse {
        stage: Name,
        axes: Vec<Name>,
    },
    Reorder {
        stage: Name,
        axes: Vec<Name>,
    },
    /// If `kept`, binds to the only thread axis of this name in the whole schedule, as TVM's scripts do.
    Bind {
        stage: Name,
        axis: Name,
        thread: &'static str,
        kept: bool,
    },
    Mark {
        stage: Name,
        axis: Name,
        kind: Mark,
    },
    Pragma {
        stage: Name,
        axis: Name,
        key: &'static str,
        value: i32,
    },
    Prefetch {
        stage: Name,
        tensor: Name,
        axis: Name,
        offset: i32,
    },
    Align {
        stage: Name,
        dimension: usize,
        factor: i64,
        offset: i64,
    },
    DoubleBuffer {
        stage: Name,
    },
    RollingBuffer {
        stage: Name,
    },
    /// Exchanges the dimensions, splits the last one by a factor, and separates the first index.
    Layout {
        stage: Name,
        turned: bool,
        factor: i32,
        apart: bool,
    },
    Scope {
        stage: Name,
        scope: &'static str,
    },
    Inline {
        stage: Name,
    },
    AutoInline {
        of: Inlined,
    },
    At {
        stage: Name,
        parent: Name,
        axis: Name,
    },
    Root {
        stage: Name,
    },
    Rfactor {
        stage: Name,
        axis: Name,
        place: isize,
    },
    CacheWrite {
        stages: Vec<Name>,
        scope: &'static str,
    },
    CacheRead {
        tensor: Name,
        scope: &'static str,
        readers: Vec<Name>,
    },
    Group {
        outputs: Vec<Name>,
        inputs: Vec<Name>,
        include: bool,
        at: Option<[Name; 2]>,
    },
    EnvThreads {
        stage: Name,
        threads: Vec<&'static str>,
    },
    /// Stores where the kept thread axis of this name is 0.
    StoreAtFirst {
        stage: Name,
        thread: &'static str,
    },
    /// Uses the computation's own intrinsic, with the given extents.
    Tensorize {
        stage: Name,
        axis: Name,
        extents: Vec<i32>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    Vectorized,
    Parallel,
    Unrolled,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Inlined {
    ElementWise,
    Broadcast,
    Injective,
}

/// A schedule of a case, with names for everything that primitives are applied to.
pub(crate) struct World<'a> {
    case: &'a Case,
    pub(crate) schedule: Schedule,
    tensors: Vec<(Name, Tensor)>,
    axes: Vec<(Name, Axis)>,
    threads: Vec<(&'static str, Axis)>,
    /// The primitives that were applied and not refused, each with its step.
    pub(crate) applied: Vec<(usize, Primitive)>,
    step: usize,
}

/// The results of a primitive.
#[derive(Default)]
struct Made {
    tensors: Vec<Tensor>,
    axes: Vec<Axis>,
}

impl Made {
    fn axes(axes: impl Into<Vec<Axis>>) -> Self {
        Self { axes: axes.into(), ..Self::default() }
    }

    fn tensors(tensors: Vec<Tensor>) -> Self {
        Self { tensors, ..Self::default() }
    }
}

impl<'a> World<'a> {
    /// The default schedule.
    pub(crate) fn new(case: &'a Case) -> Self {
        let mut world = Self {
            schedule: case.schedule(),
            case,
            tensors: Vec::new(),
            axes: Vec::new(),
            threads: Vec::new(),
            applied: Vec::new(),
            step: 0,
        };
        let all = case.inputs.iter().map(|(input, _)| input).chain(&case.stages).cloned().collect();
        world.register(Made::tensors(all));
        world
    }

    /// The schedule that the given steps make. A step that is refused, because others are missing, is left out.
    pub(crate) fn replayed(case: &'a Case, steps: &[(usize, Primitive)]) -> Self {
        let mut world = Self::new(case);
        for (step, primitive) in steps {
            world.step = step - 1;
            let _ = world.apply(primitive.clone());
        }
        world
    }

    /// Applies a primitive; gives the names of its results. A refused one leaves the schedule as it was.
    pub(crate) fn apply(&mut self, primitive: Primitive) -> Result<Vec<Name>, TeError> {
        self.step += 1;
        let made = self.run(&primitive)?;
        self.applied.push((self.step, primitive));
        Ok(self.register(made))
    }

    /// Gives names to the results of a step: the tensors and loops that it returns, and new ones in any stage.
    fn register(&mut self, made: Made) -> Vec<Name> {
        for (place, tensor) in made.tensors.into_iter().enumerate() {
            self.tensors.push((Name(self.step, place), tensor));
        }
        let mut axes = made.axes.clone();
        for (_, tensor) in &self.tensors {
            let Ok(stage) = self.schedule.stage(tensor) else { continue };
            axes.extend(stage.loops());
            axes.extend(stage.operation().as_compute().map(|compute| compute.axes.clone()).unwrap_or_default());
        }
        let mut place = 0;
        for axis in axes {
            if !self.axes.iter().any(|(_, known)| *known == axis) {
                self.axes.push((Name(self.step, place), axis));
                place += 1;
            }
        }
        made.axes.iter().filter_map(|axis| self.name_of(*axis)).collect()
    }

    fn name_of(&self, axis: Axis) -> Option<Name> {
        self.axes.iter().find(|(_, known)| *known == axis).map(|(name, _)| *name)
    }

    /// The names of the tensors that the last step created.
    pub(crate) fn made(&self) -> Vec<Name> {
        self.tensors.iter().map(|(name, _)| *name).filter(|name| name.0 == self.step).collect()
    }

    pub(crate) fn inputs(&self) -> Vec<Name> {
        (0..self.case.inputs.len()).map(|place| Name(0, place)).collect()
    }

    /// The computation's stages, consumers last.
    pub(crate) fn stages(&self) -> Vec<Name> {
        (0..self.case.stages.len()).map(|place| Name(0, self.case.inputs.len() + place)).collect()
    }

    pub(crate) fn is_output(&self, name: Name) -> bool {
        let tensor = self.tensor(name);
        tensor.is_ok_and(|tensor| self.case.outputs.iter().any(|(output, _)| *output == tensor))
    }

    pub(crate) fn tensor(&self, name: Name) -> Result<Tensor, TeError> {
        let found = self.tensors.iter().find(|(known, _)| *known == name).map(|(_, tensor)| tensor.clone());
        found.ok_or_else(|| ScheduleError::NotScheduled { tensor: format!("{name:?}") }.into())
    }

    /// The operation that currently computes a tensor.
    pub(crate) fn operation(&self, name: Name) -> Result<std::sync::Arc<te::Operation>, TeError> {
        self.schedule.operation(&self.tensor(name)?).cloned()
    }

    pub(crate) fn axis(&self, name: Name) -> Result<Axis, TeError> {
        let found = self.axes.iter().find(|(known, _)| *known == name).map(|(_, axis)| *axis);
        found.ok_or_else(|| {
            ScheduleError::NotALoop { axis: format!("{name:?}"), stage: String::new(), split: false }.into()
        })
    }

    /// The loops of a stage, outermost first.
    pub(crate) fn loops(&mut self, stage: Name) -> Vec<Name> {
        let Ok(tensor) = self.tensor(stage) else { return Vec::new() };
        let loops = self.schedule.stage(&tensor).map(|stage| stage.loops().to_vec()).unwrap_or_default();
        loops.into_iter().filter_map(|axis| self.name_of(axis)).collect()
    }

    /// The loops of a stage that are over its data, or those over which it reduces.
    pub(crate) fn loops_of(&mut self, stage: Name, kind: te::AxisKind) -> Vec<Name> {
        let mut loops = self.loops(stage);
        loops.retain(|name| self.axis(*name).is_ok_and(|axis| axis.kind() == kind));
        loops
    }

    fn all_axes(&self, names: &[Name]) -> Result<Vec<Axis>, TeError> {
        names.iter().map(|name| self.axis(*name)).collect()
    }

    fn all_tensors(&self, names: &[Name]) -> Result<Vec<Tensor>, TeError> {
        names.iter().map(|name| self.tensor(*name)).collect()
    }

    fn thread(&mut self, name: &'static str) -> Axis {
        if let Some((_, axis)) = self.threads.iter().find(|(known, _)| *known == name) {
            return *axis;
        }
        let axis = thread_axis(name);
        self.threads.push((name, axis));
        axis
    }

    fn stage(&mut self, name: Name) -> Result<&mut te::Stage, TeError> {
        let tensor = self.tensor(name)?;
        self.schedule.stage(&tensor)
    }

    fn run(&mut self, primitive: &Primitive) -> Result<Made, TeError> {
        match primitive {
            Primitive::Split { .. }
            | Primitive::Tile { .. }
            | Primitive::Fuse { .. }
            | Primitive::Reorder { .. }
            | Primitive::Bind { .. }
            | Primitive::Mark { .. }
            | Primitive::Pragma { .. }
            | Primitive::Prefetch { .. }
            | Primitive::EnvThreads { .. }
            | Primitive::StoreAtFirst { .. }
            | Primitive::Tensorize { .. } => self.on_loops(primitive),
            _ => self.on_stages(primitive),
        }
    }

    fn on_loops(&mut self, primitive: &Primitive) -> Result<Made, TeError> {
        match primitive {
            Primitive::Split { stage, axis, factor, parts, predicated } => {
                let axis = self.axis(*axis)?;
                let by = if *parts { SplitBy::Parts((*factor).into()) } else { SplitBy::Factor((*factor).into()) };
                let (outer, inner) = self.stage(*stage)?.split_by(axis, by, !predicated)?;
                return Ok(Made::axes([outer, inner]));
            }
            Primitive::Tile { stage, axes: [x, y], factors } => {
                let (x, y) = (self.axis(*x)?, self.axis(*y)?);
                let (xo, yo, xi, yi) = self.stage(*stage)?.tile(x, y, factors[0], factors[1])?;
                return Ok(Made::axes([xo, yo, xi, yi]));
            }
            Primitive::Fuse { stage, axes } => {
                let axes = self.all_axes(axes)?;
                return Ok(Made::axes([self.stage(*stage)?.fuse_all(&axes)?]));
            }
            Primitive::Reorder { stage, axes } => {
                let axes = self.all_axes(axes)?;
                self.stage(*stage)?.reorder(&axes)?;
            }
            Primitive::Bind { stage, axis, thread, kept } => {
                let thread = if *kept { self.thread(thread) } else { thread_axis(thread) };
                let axis = self.axis(*axis)?;
                self.stage(*stage)?.bind(axis, thread)?;
            }
            Primitive::Mark { stage, axis, kind } => {
                let axis = self.axis(*axis)?;
                let stage = self.stage(*stage)?;
                match kind {
                    Mark::Vectorized => stage.vectorize(axis)?,
                    Mark::Parallel => stage.parallel(axis)?,
                    Mark::Unrolled => stage.unroll(axis)?,
                }
            }
            Primitive::Pragma { stage, axis, key, value } => {
                let axis = self.axis(*axis)?;
                let stage = self.stage(*stage)?;
                if *key == "unroll_explicit" {
                    stage.pragma(axis, key, *value != 0)?;
                } else {
                    stage.pragma(axis, key, *value)?;
                }
            }
            Primitive::Prefetch { stage, tensor, axis, offset } => {
                let (tensor, axis) = (self.tensor(*tensor)?, self.axis(*axis)?);
                self.stage(*stage)?.prefetch(&tensor, axis, *offset)?;
            }
            Primitive::EnvThreads { stage, threads } => {
                let threads: Vec<Axis> = threads.iter().map(|name| self.thread(name)).collect();
                self.stage(*stage)?.env_threads(&threads)?;
            }
            Primitive::StoreAtFirst { stage, thread } => {
                let condition = self.thread(thread).equal(0);
                self.stage(*stage)?.set_store_predicate(condition)?;
            }
            Primitive::Tensorize { stage, axis, extents } => {
                let axis = self.axis(*axis)?;
                let intrinsic = self.intrinsic(extents)?;
                self.stage(*stage)?.tensorize(axis, &intrinsic)?;
            }
            _ => {}
        }
        Ok(Made::default())
    }

    fn intrinsic(&self, extents: &[i32]) -> Result<TensorIntrin, TeError> {
        let missing =
            || ScheduleError::Intrinsic { intrinsic: "none".to_owned(), reason: "the case has none".to_owned() };
        self.case.intrinsic.as_ref().ok_or_else(missing)?(extents)
    }

    fn on_stages(&mut self, primitive: &Primitive) -> Result<Made, TeError> {
        match primitive {
            Primitive::Align { stage, dimension, factor, offset } => {
                let axis = self.operation(*stage)?.axis(*dimension)?;
                self.stage(*stage)?.storage_align(axis, *factor, *offset)?;
            }
            Primitive::DoubleBuffer { stage } => self.stage(*stage)?.double_buffer()?,
            Primitive::RollingBuffer { stage } => self.stage(*stage)?.rolling_buffer()?,
            Primitive::Layout { stage, turned, factor, apart } => {
                let axes = self.stage(*stage)?.transform_layout(|at| layout(at, *turned, *factor, *apart))?;
                return Ok(Made::axes(axes));
            }
            Primitive::Scope { stage, scope } => self.schedule.set_scope(&self.tensor(*stage)?, scope)?,
            Primitive::Inline { stage } => self.schedule.compute_inline(&self.tensor(*stage)?)?,
            Primitive::AutoInline { of } => match of {
                Inlined::ElementWise => self.schedule.auto_inline_elem_wise(),
                Inlined::Broadcast => self.schedule.auto_inline_broadcast(),
                Inlined::Injective => self.schedule.auto_inline_injective(),
            },
            Primitive::At { stage, parent, axis } => {
                self.schedule.compute_at(&self.tensor(*stage)?, &self.tensor(*parent)?, self.axis(*axis)?)?;
            }
            Primitive::Root { stage } => self.schedule.compute_root(&self.tensor(*stage)?)?,
            Primitive::Rfactor { stage, axis, place } => {
                return Ok(Made::tensors(self.schedule.rfactor_at(
                    &self.tensor(*stage)?,
                    self.axis(*axis)?,
                    *place,
                )?));
            }
            Primitive::CacheWrite { stages, scope } => {
                let tensors = self.all_tensors(stages)?;
                let made = self.schedule.cache_write_all(&tensors.iter().collect::<Vec<_>>(), scope)?;
                return Ok(Made::tensors(made));
            }
            Primitive::CacheRead { tensor, scope, readers } => {
                let (tensor, readers) = (self.tensor(*tensor)?, self.all_tensors(readers)?);
                let made = self.schedule.cache_read(&tensor, scope, &readers.iter().collect::<Vec<_>>())?;
                return Ok(Made::tensors(vec![made]));
            }
            Primitive::Group { outputs, inputs, include, at } => self.group(outputs, inputs, *include, *at)?,
            _ => {}
        }
        Ok(Made::default())
    }

    fn group(
        &mut self,
        outputs: &[Name],
        inputs: &[Name],
        include: bool,
        at: Option<[Name; 2]>,
    ) -> Result<(), TeError> {
        let (outputs, inputs) = (self.all_tensors(outputs)?, self.all_tensors(inputs)?);
        let place = at.map(|[parent, axis]| Ok::<_, TeError>((self.tensor(parent)?, self.axis(axis)?))).transpose()?;
        // Both or neither, so that a refusal leaves the schedule as it was.
        let mut grouped = self.schedule.clone();
        let group: Group =
            grouped.create_group(&outputs.iter().collect::<Vec<_>>(), &inputs.iter().collect::<Vec<_>>(), include)?;
        if let Some((parent, axis)) = place {
            grouped.group_compute_at(group, &parent, axis)?;
        }
        self.schedule = grouped;
        Ok(())
    }
}

fn layout(at: &[te::Var], turned: bool, factor: i32, apart: bool) -> Vec<LayoutIndex> {
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
}
