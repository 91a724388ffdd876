//! Chooses a kernel and plans, for a [`Builder`](super::Builder) of any epilogue. It has no type parameter, so it is
//! compiled once and not for each epilogue of a program.

use std::sync::Arc;

use epilogue_runtime::{Device, trace};

use super::description::Description;
use super::devices::{self, Choice, operation::Operation};
use super::plan::Plan;
use super::problem::operand::common_layout;
use super::problem::property::Properties;
use super::problem::{
    Error, FormatError, Formats, Left, Major, OperandLayout, Problem, Right, RowsError, block_scales, weight_check,
};
use super::remembered::{Question, Remembered};
use super::run::check;
use super::support::{Feature, supports};
use crate::evt::{Phases, Tree, Types, ValidTree};

/// A plan in the making: its device, its epilogue and its settings.
#[derive(Clone, Debug)]
pub(super) struct Planner {
    pub(super) device: Device,
    tree: Tree,
    pub(super) description: Description,
    pub(super) ignore_unsupported: bool,
}

impl Planner {
    pub(super) fn new(device: &Device, tree: Tree) -> Self {
        Self { device: device.clone(), tree, description: Description::default(), ignore_unsupported: false }
    }

    /// Extents, element types and layouts are those of `a` and `b`.
    ///
    /// # Errors
    /// As [`Builder::operands`](super::Builder::operands).
    pub(super) fn take_operands(&mut self, a: Left<'_>, b: &Right<'_>) -> Result<(), Error> {
        b.check_count(self.tree.name(), self.tree.accumulators())?;
        self.description.problem = Some(Problem::of(a, b.clone())?);
        self.description.asked = Properties::default();
        let of_a = a.tensor().element_type();
        let of_b = b.element_beside(of_a)?;
        self.description.elements = Some((of_a, of_b));
        if !b.weights().is_empty() {
            self.description.settings.layouts = (a.layout()?, OperandLayout::packed(Major::K));
            return Ok(());
        }
        let matrices = a.patches()?.map(|patches| patches.matrices(b.tensors())).transpose()?;
        let views = matrices.as_ref().map_or_else(|| b.views(), |matrices| b.as_matrices(matrices).views());
        self.description.settings.layouts = (a.layout()?, a.layout_of_b(common_layout(&views), of_b));
        Ok(())
    }

    /// This planner without the knobs that the device doesn't have.
    ///
    /// # Errors
    /// [`Error::NoKnob`] unless they are to be ignored.
    fn for_its_device(mut self) -> Result<Self, Error> {
        for knob in self.description.knobs() {
            match supports(&self.device, knob) {
                Ok(()) => {}
                Err(_) if self.ignore_unsupported => self.description.reset(knob),
                Err(error) => return Err(error),
            }
        }
        if let (Some(problem), Some((a, b))) = (self.description.problem, self.description.elements) {
            let (of_a, of_b) = &mut self.description.settings.layouts;
            *of_a = of_a.of_a_in_groups(problem.reading.grouping(), a);
            *of_b = of_b.of_b_in_groups(problem.reading.grouping(), b);
        }
        Ok(self)
    }

    /// Validates the tree for the element types, without a device.
    fn validated(&self) -> Result<ValidTree, Error> {
        let (a, b) =
            self.description.elements.ok_or(Error::Incomplete { what: "the element types", method: "elements" })?;
        Ok(self.tree.validate(Types::new(a, b))?)
    }

    /// Chooses a kernel.
    pub(super) fn choose(&self) -> Result<Choice, Error> {
        Ok(self.clone().for_its_device()?.decide()?.1)
    }

    fn decide(&self) -> Result<(Operation, Choice), Error> {
        let backend = devices::list::of(&self.device);
        let phases = Phases::of(self.validated()?, backend.prices());
        let tree = phases.first();
        let problem = self.description.problem.ok_or(Error::Incomplete { what: "the extents", method: "problem" })?;
        problem.check_extents()?;
        let properties = problem.properties().and(self.description.asked);
        properties.check((phases.parts.len() > 1).then(|| tree.name()))?;
        if problem.reading.is_picked() && self.description.settings.layouts.0.major == Major::Mn {
            return Err(RowsError::Major.into());
        }
        if problem.placing.is_scattered() {
            check::scattered(&phases.tree)?;
        }
        let types = tree.types();
        weight_check::check_reading(problem.formats, problem.reading)?;
        if problem.formats.are_scaled() {
            block_scales::check_types((types.a, types.b), self.description.settings.arithmetic)?;
        }
        self.check_request(types, problem.formats)?;
        let (Description { settings, multiprocessors, tuning, request, .. }, device) =
            (self.description, self.device.clone());
        let operation = Operation { device, phases: Arc::new(phases), problem, settings, multiprocessors, tuning };
        let choice = backend.choose(&operation, &request)?;
        Ok((operation, choice))
    }

    /// Checks the operands' types and layouts, and how much of the device may be filled.
    fn check_request(&self, types: Types, formats: Formats) -> Result<(), Error> {
        let (Types { a, b, .. }, arithmetic) = (types, self.description.settings.arithmetic);
        match formats.quantization() {
            Some(_) if a != b => return Err(FormatError::Elements { a, b }.into()),
            Some(format) => supports(&self.device, Feature::Weights { a, format, arithmetic })?,
            None => supports(&self.device, (a, b, arithmetic))?,
        }
        for (operand, layout, element) in
            [("A", self.description.settings.layouts.0, types.a), ("B", self.description.settings.layouts.1, types.b)]
        {
            layout.check(operand, element)?;
        }
        match self.description.multiprocessors {
            Some(0) => {
                Err(Error::Count { what: "the number of multiprocessors", given: 0, least: 1, most: usize::MAX })
            }
            _ => Ok(()),
        }
    }

    /// Chooses a kernel, and compiles it or finds it.
    pub(super) fn plan(self) -> Result<Plan, Error> {
        let plan = self.for_its_device()?;
        let Problem { m, n, k, batch, .. } = plan.description.problem.unwrap_or(Problem::new(0, 0, 0));
        let (epilogue, device) = (plan.tree.name(), trace::text(&plan.device));
        let _span =
            trace::span!(DEBUG, "plan", epilogue = epilogue, device = device, m = m, n = n, k = k, batch = batch);
        let (remembered, question) = (plan.device.kept::<Remembered>(), plan.question());
        if let Some(made) = remembered.plan(&plan.device, &question) {
            trace::event!(DEBUG, "planned before", choice = trace::text(&made.choice));
            return Ok(made);
        }
        let (operation, choice) = plan.decide()?;
        trace::event!(DEBUG, "choice", choice = trace::text(&choice), candidates = choice.candidates().len());
        let made = Plan::new(Arc::new(operation), &choice)?;
        remembered.note(question, &made);
        Ok(made)
    }

    /// Everything that determines a plan for the device.
    pub(super) fn question(&self) -> Question {
        Question {
            description: self.description,
            bundles: self.device.bundles().len(),
            tree: self.tree.clone(),
            literals: Question::literals(&self.tree),
        }
    }
}
