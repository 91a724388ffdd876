//! Plans that were made before: planning the same thing again looks it up.
//!
//! A device keeps what the last plans made for it have found: the checked tree, the choice, the compiled kernel. The
//! memory that runs need is every plan's own, so that what one drops is freed. Nothing is locked while a plan is made: two
//! threads that plan the same thing at once both make it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use epilogue_runtime::Device;

use super::kernel::{Settings, Switches};
use super::model::Choice;
use super::model::select::Request;
use super::problem::{Arithmetic, OperandLayout, Problem};
use super::run::later::{KeptLater, LaterKernel};
use super::run::plan::Plan;
use super::run::variant::KeptVariant;
use crate::ElementType;
use crate::evt::{Node, NodeData, Phases, Tree};
use crate::sync::lock;

/// The most plans that a device keeps; those that were asked for last.
const MOST: usize = 64;

/// All that a plan for a device follows from. What differs most often is compared first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) problem: Option<Problem>,
    pub(super) elements: Option<(ElementType, ElementType)>,
    pub(super) layouts: (OperandLayout, OperandLayout),
    pub(super) arithmetic: Arithmetic,
    pub(super) request: Request,
    pub(super) switches: Switches,
    pub(super) multiprocessors: Option<usize>,
    /// How many bundles the device had.
    pub(super) bundles: usize,
    pub(super) tree: Tree,
    /// The bits of the tree's numbers: as numbers, a zero and its negative are equal.
    pub(super) literals: Vec<u64>,
}

impl Question {
    /// The bits of a tree's numbers, in order.
    pub(super) fn literals(tree: &Tree) -> Vec<u64> {
        let literal = |node: &NodeData| match node.node {
            Node::Literal(x) => Some(x.to_bits()),
            _ => None,
        };
        tree.nodes().iter().filter_map(literal).collect()
    }
}

/// What was found.
#[derive(Debug)]
struct Answer {
    phases: Arc<Phases>,
    problem: Problem,
    settings: Settings,
    choice: Choice,
    /// None on the CPU.
    kernels: Option<(KeptVariant, Vec<KeptLater>)>,
}

/// What a device keeps, the last asked for at the end.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<VecDeque<(Question, Arc<Answer>)>>);

impl Remembered {
    /// A plan as it was made before, if it was.
    pub(super) fn plan(&self, device: &Device, question: &Question) -> Option<Plan> {
        let answer = {
            let mut kept = lock(&self.0);
            let place = kept.iter().rposition(|(asked, _)| asked == question)?;
            let found = kept.remove(place)?;
            let answer = Arc::clone(&found.1);
            kept.push_back(found);
            answer
        };
        let kernels = match &answer.kernels {
            Some((variant, later)) => {
                Some((variant.attached()?, later.iter().map(KeptLater::attached).collect::<Option<Vec<_>>>()?))
            }
            None => None,
        };
        let (phases, choice) = (Arc::clone(&answer.phases), answer.choice.clone());
        let device = device.clone();
        Some(Plan::of_kernels(
            device,
            phases,
            answer.problem,
            answer.settings,
            choice,
            question.multiprocessors,
            kernels,
        ))
    }

    /// Keeps a plan that was made.
    pub(super) fn note(&self, question: Question, plan: &Plan) {
        let later = || plan.later.iter().map(LaterKernel::kept).collect::<Option<Vec<_>>>();
        let kernels = match &plan.planned {
            Some(variant) => match variant.kept().zip(later()) {
                Some(kept) => Some(kept),
                None => return,
            },
            None => None,
        };
        let Plan { phases, problem, settings, choice, .. } = plan;
        let (phases, choice) = (Arc::clone(phases), choice.clone());
        let answer = Arc::new(Answer { phases, problem: *problem, settings: *settings, choice, kernels });
        let mut kept = lock(&self.0);
        kept.retain(|(asked, _)| *asked != question);
        let oldest = if kept.len() >= MOST { kept.pop_front() } else { None };
        kept.push_back((question, answer));
        // A kernel is unloaded without the lock.
        drop(kept);
        drop(oldest);
    }

    /// Forgets all: something that choices depend on has changed.
    pub(super) fn clear(&self) {
        let forgotten = std::mem::take(&mut *lock(&self.0));
        drop(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evt::{ShapeClass, TreeBuilder};
    use crate::gemm::Builder;

    fn builder(device: &Device, m: usize) -> Builder {
        let mut tree = TreeBuilder::new("copied", "remembered.rs");
        let accum = tree.accum("accum");
        tree.output("d", accum, ShapeClass::Tensor, None);
        Builder::new(device, tree.finish()).elements(ElementType::F16, ElementType::F16).problem(m, 64, 64)
    }

    #[test]
    fn the_same_plan_is_made_once_and_no_other_is_given() {
        if epilogue_runtime::testing::compiler("the_same_plan_is_made_once_and_no_other_is_given").is_none() {
            return;
        }
        let device = Device::emulated(epilogue_runtime::Arch::SM_80).expect("a device");
        let first = builder(&device, 64).plan().expect("a plan");
        let text = |gemm: &crate::Gemm| gemm.source().as_ptr();
        let again = builder(&device, 64).plan().expect("a plan");
        assert_eq!(text(&first), text(&again), "it is the very text");
        drop((first, again));
        let kept = device.kept::<Remembered>();
        let question = builder(&device, 64).question();
        assert!(kept.plan(&device, &question).is_some(), "it is kept when its plans are dropped");
        for other in [
            builder(&device, 63),
            builder(&device, 64).fast_math(true),
            builder(&device, 64).stages(2),
            builder(&device, 64).elements(ElementType::BF16, ElementType::BF16),
        ] {
            let before = lock(&kept.0).len();
            other.plan().expect("a plan");
            assert_eq!(lock(&kept.0).len(), before + 1);
        }
        kept.clear();
        assert!(kept.plan(&device, &question).is_none());
    }

    /// An epilogue that multiplies by -0.0 is not the one that multiplies by 0.0.
    #[test]
    fn zeros_of_both_signs_are_two_questions() {
        let question = |zero: f64| {
            let mut tree = TreeBuilder::new("signed", "remembered.rs");
            let accum = tree.accum("accum");
            let zero = tree.literal(zero);
            let product = tree.apply(crate::expr::Op::Mul, &[accum, zero]);
            tree.output("d", product, ShapeClass::Tensor, None);
            let builder = Builder::<()>::new(&Device::cpu(), tree.finish());
            builder.elements(ElementType::F32, ElementType::F32).problem(8, 8, 8).question()
        };
        assert_eq!(question(0.0), question(0.0));
        assert_ne!(question(0.0), question(-0.0));
    }

    /// What was asked for last stays, and no more than so many.
    #[test]
    fn the_plans_asked_for_last_are_kept() {
        let (device, kept) = (Device::cpu(), Remembered::default());
        let plan = builder(&device, 1).plan().expect("a plan");
        for m in 1..2 * MOST {
            kept.note(builder(&device, m).question(), plan.inner());
            assert!(kept.plan(&device, &builder(&device, 1).question()).is_some(), "it was asked for in every turn");
        }
        let of = |m| kept.plan(&device, &builder(&device, m).question()).is_some();
        assert!(lock(&kept.0).len() == MOST && of(1) && of(2 * MOST - 1) && !of(2));
    }

    /// A device that keeps plans is freed with its last handle.
    #[test]
    fn what_is_kept_does_not_keep_the_device() {
        if epilogue_runtime::testing::compiler("what_is_kept_does_not_keep_the_device").is_none() {
            return;
        }
        let device = Device::emulated(epilogue_runtime::Arch::SM_80).expect("a device");
        builder(&device, 64).plan().expect("a plan");
        let kept = Arc::downgrade(&device.kept::<Remembered>());
        assert!(kept.upgrade().is_some());
        drop(device);
        assert!(kept.upgrade().is_none());
    }
}
