//! The description of a plan, step by step.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use epilogue_runtime::{Device, DeviceTensor};

use super::arithmetic::{Arithmetic, Instruction};
use super::choice::{Choice, Chosen, ChosenKernel};
use super::cost::{self, Candidate, SplitK, Workload};
use super::cpu;
use super::emit::KernelKey;
use super::error::Error;
use super::machine::Machine;
use super::plan::{Gemm, Plan, compile};
use super::problem::{Major, OperandLayout, OperandView, Problem};
use super::tile::Tile;
use crate::ElementType;
use crate::evt::{Tree, Types, ValidTree};

/// Describes a plan. What is not said is chosen.
#[derive(Clone, Debug)]
pub struct Builder<E = ()> {
    device: Device,
    tree: Tree,
    problem: Option<Problem>,
    elements: Option<(ElementType, ElementType)>,
    layouts: (OperandLayout, OperandLayout),
    arithmetic: Arithmetic,
    tile: Option<Tile>,
    stages: Option<usize>,
    split_k: Option<SplitK>,
    fast_math: bool,
    epilogue: PhantomData<fn() -> E>,
}

/// The most blocks that may share a tile's K.
const MAX_SPLITS: usize = 256;

impl<E> Builder<E> {
    /// For a tree that was built, not written; run it with [`Gemm::run_arguments`].
    #[must_use]
    pub fn new(device: &Device, tree: Tree) -> Self {
        Self {
            device: device.clone(),
            tree,
            problem: None,
            elements: None,
            layouts: (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn)),
            arithmetic: Arithmetic::default(),
            tile: None,
            stages: None,
            split_k: None,
            fast_math: false,
            epilogue: PhantomData,
        }
    }

    /// Extents, element types and layouts like those of `a` and `b`.
    ///
    /// # Errors
    /// What [`Problem::of`] fails with.
    pub fn operands(mut self, a: &DeviceTensor, b: &DeviceTensor) -> Result<Self, Error> {
        self.problem = Some(Problem::of(a, b)?);
        self.elements = Some((a.element_type(), b.element_type()));
        self.layouts = (OperandView::of_a(a).layout(), OperandView::of_b(b).layout());
        Ok(self)
    }

    /// The extents to choose a kernel for; it runs others too.
    #[must_use]
    pub fn problem(mut self, m: usize, n: usize, k: usize) -> Self {
        let (batch, batched) = self.problem.map_or((1, false), |p| (p.batch, p.batched));
        self.problem = Some(Problem { m, n, k, batch, batched });
        self
    }

    /// How many products, along a batch axis in front.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.problem = Some(self.problem.unwrap_or(Problem::new(0, 0, 0)).batched(batch));
        self
    }

    /// Element types of A and B.
    #[must_use]
    pub fn elements(mut self, a: ElementType, b: ElementType) -> Self {
        self.elements = Some((a, b));
        self
    }

    /// How A and B lie in memory; packed row-major if it is not said.
    #[must_use]
    pub fn layouts(mut self, a: OperandLayout, b: OperandLayout) -> Self {
        self.layouts = (a, b);
        self
    }

    /// How the product is computed.
    #[must_use]
    pub fn arithmetic(mut self, arithmetic: Arithmetic) -> Self {
        self.arithmetic = arithmetic;
        self
    }

    /// The tile, of those that [`Tile::all`] lists (in any number of stages).
    #[must_use]
    pub fn tile(mut self, tile: Tile) -> Self {
        self.tile = Some(tile);
        self
    }

    /// The number of pipeline stages, 2 to 8.
    #[must_use]
    pub fn stages(mut self, stages: usize) -> Self {
        self.stages = Some(stages);
        self
    }

    /// How K is shared among blocks.
    #[must_use]
    pub fn split_k(mut self, split_k: SplitK) -> Self {
        self.split_k = Some(split_k);
        self
    }

    /// Whether the epilogue may use approximate instructions whatever its outputs' types.
    #[must_use]
    pub fn fast_math(mut self, fast_math: bool) -> Self {
        self.fast_math = fast_math;
        self
    }

    /// Validates the tree for the element types, without a device.
    fn validated(&self) -> Result<ValidTree, Error> {
        let (a, b) = self.elements.ok_or(Error::Incomplete { what: "the element types", method: "elements" })?;
        Ok(self.tree.validate(Types::new(a, b))?)
    }

    /// Chooses a kernel, and compiles nothing.
    ///
    /// # Errors
    /// [`Error`], as [`plan`](Self::plan) but for the compiler's.
    pub fn choose(&self) -> Result<Choice, Error> {
        Ok(self.decide()?.2)
    }

    fn decide(&self) -> Result<(ValidTree, Problem, Choice), Error> {
        let tree = self.validated()?;
        let problem = self.problem.ok_or(Error::Incomplete { what: "the extents", method: "problem" })?;
        problem.check_extents()?;
        let kind = match Machine::of(self.device.properties()) {
            Some(machine) => self.choose_kernel(&machine, &tree, problem)?,
            None => self.choose_cpu(&tree, problem)?,
        };
        Ok((tree, problem, Choice { kind }))
    }

    fn refuse_types(&self, tree: &ValidTree, advice: &'static str) -> Error {
        let types = tree.types();
        Error::OperandTypes { a: types.a, b: types.b, device: self.device.to_string(), advice }
    }

    fn choose_cpu(&self, tree: &ValidTree, problem: Problem) -> Result<Chosen, Error> {
        let types = tree.types();
        if self.arithmetic == Arithmetic::Tf32 && types.a != ElementType::F32 {
            return Err(Error::Arithmetic { given: types.a });
        }
        if !cpu::multiplies(types.a, types.b) {
            return Err(self.refuse_types(tree, "give both a float type, or both i8 or u8"));
        }
        let tile = match self.tile {
            Some(tile) => (tile.m, tile.n),
            None => {
                let shape = cpu::choose_tile(problem.m, problem.n, problem.k, problem.batch);
                (shape.m, shape.n)
            }
        };
        Ok(Chosen::Cpu { tile })
    }

    fn choose_kernel(&self, machine: &Machine, tree: &ValidTree, problem: Problem) -> Result<Chosen, Error> {
        let types = tree.types();
        if self.arithmetic == Arithmetic::Tf32 && types.a != ElementType::F32 {
            return Err(Error::Arithmetic { given: types.a });
        }
        if types.a != types.b {
            return Err(self.refuse_types(tree, "give both the same type"));
        }
        let instruction = Instruction::of(types.a, self.arithmetic)
            .ok_or_else(|| self.refuse_types(tree, "give f16, bf16, f32 or f64, or use the CPU device"))?;
        let (a, b) = self.layouts;
        let workload = Workload { problem, instruction, a, b, epilogue: tree.cost() };
        let ranked = cost::rank(machine, &workload);
        let asked = self.tile.is_some() || self.stages.is_some() || self.split_k.is_some();
        let chosen = match &ranked {
            _ if asked => self.asked(machine, &workload, ranked.as_deref().unwrap_or_default())?,
            Ok(candidates) => candidates
                .first()
                .cloned()
                .ok_or_else(|| Error::NoTile { reason: "there is no tile at all".to_owned() })?,
            Err(why) => return Err(Error::NoTile { reason: why.to_string() }),
        };
        let candidates = ranked.unwrap_or_default();
        let key = KernelKey {
            instruction,
            tile: chosen.tile,
            split_k: chosen.split_k.into(),
            a,
            b,
            vector: chosen.vector,
            epilogue_passes: chosen.epilogue_passes,
            fast_math: self.fast_math,
        };
        Ok(Chosen::Gpu(Box::new(ChosenKernel { key, chosen, candidates, asked })))
    }

    /// The kernel that the user described, completed by the best candidate.
    fn asked(&self, machine: &Machine, workload: &Workload<'_>, candidates: &[Candidate]) -> Result<Candidate, Error> {
        let instruction = workload.instruction;
        let fits = |c: &&Candidate| self.split_k.is_none_or(|s| s == c.split_k || c.split_k == SplitK::None);
        let mut tile = match (self.tile, candidates.iter().find(fits)) {
            (Some(tile), _) => tile,
            (None, Some(candidate)) => candidate.tile,
            (None, None) => {
                return Err(Error::NoTile { reason: "the epilogue needs more than any tile leaves".into() });
            }
        };
        let known = |t: &Tile| Tile { stages: tile.stages, ..*t } == tile;
        if !Tile::all(instruction).iter().any(known) {
            let allowed: Vec<String> = Tile::all(instruction).iter().map(ToString::to_string).collect();
            let (instruction, tile) = (instruction.to_string(), tile.to_string());
            return Err(Error::Tile { instruction, tile, allowed: allowed.join("; ") });
        }
        tile.stages = self.stages.unwrap_or(tile.stages);
        if !(2..=8).contains(&tile.stages) {
            return Err(Error::Count { what: "the number of stages", given: tile.stages, least: 2, most: 8 });
        }
        let split_k = self.split_k.unwrap_or_default();
        if !(1..=MAX_SPLITS).contains(&split_k.splits()) {
            let given = split_k.splits();
            return Err(Error::Count { what: "the number of splits of K", given, least: 1, most: MAX_SPLITS });
        }
        cost::estimate(machine, workload, tile, split_k).map_err(|why| Error::NoTile { reason: why.to_string() })
    }

    /// Chooses a kernel and compiles it, or finds it in the disk cache.
    ///
    /// # Errors
    /// [`Error`]: something was not said; a tree that does not fit the types; a tile that is none; NVRTC missing.
    pub fn plan(self) -> Result<Gemm<E>, Error> {
        let (tree, problem, choice) = self.decide()?;
        let mut variants = HashMap::new();
        let mut planned = None;
        if let Chosen::Gpu(gpu) = &choice.kind {
            let key = &gpu.key;
            let variant = Arc::new(compile(&self.device, &tree, key)?);
            variants.insert((key.a, key.b), Arc::clone(&variant));
            planned = Some(variant);
        }
        Ok(Gemm::of(Plan {
            device: self.device,
            tree,
            problem,
            choice,
            variants: Mutex::new(variants),
            planned,
            workspaces: Mutex::new(HashMap::new()),
        }))
    }
}
