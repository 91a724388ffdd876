//! Plans that were made before: the same plan is looked up instead of made again.
//!
//! A device keeps what its last plans consist of: the checked tree, the choice, the compiled kernel. None of it holds a
//! handle of the device, so it dies with the device. The memory that runs need belongs to each plan and is freed with
//! it. Nothing is locked while a plan is made: two threads that plan the same at once both make it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use epilogue_runtime::Device;

use super::description::Description;
use super::devices::Choice;
use super::devices::executable::Kept;
use super::devices::operation::Operation;
use super::kernel::Settings;
use super::plan::Plan;
use super::problem::Problem;
use crate::evt::{Node, NodeData, Phases, Tree};
use crate::sync::lock;

/// The most plans that a device keeps: those that were last asked for.
const MOST: usize = 64;

/// Everything that determines a plan for a device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) description: Description,
    /// How many bundles the device had.
    pub(super) bundles: usize,
    pub(super) tree: Tree,
    /// The bits of the tree's numbers, because 0.0 equals -0.0 as a number.
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

/// The parts of a plan that was made.
struct Answer {
    phases: Arc<Phases>,
    problem: Problem,
    settings: Settings,
    choice: Choice,
    compiled: Kept,
}

/// The plans that a device keeps; the last one asked for is at the end.
#[derive(Default)]
pub(super) struct Remembered(Mutex<VecDeque<(Question, Arc<Answer>)>>);

impl Remembered {
    /// The plan that was made before, if there is one.
    pub(super) fn plan(&self, device: &Device, question: &Question) -> Option<Plan> {
        let answer = {
            let mut kept = lock(&self.0);
            let place = kept.iter().rposition(|(asked, _)| asked == question)?;
            let found = kept.remove(place)?;
            let answer = Arc::clone(&found.1);
            kept.push_back(found);
            answer
        };
        let Answer { phases, problem, settings, choice, compiled } = &*answer;
        let Description { multiprocessors, tuning, .. } = question.description;
        let (device, phases, problem, settings) = (device.clone(), Arc::clone(phases), *problem, *settings);
        let operation = Operation { device, phases, problem, settings, multiprocessors, tuning };
        let operation = Arc::new(operation);
        let executable = compiled(&operation)?;
        Some(Plan { operation, choice: choice.clone(), executable })
    }

    /// Keeps a plan that was made.
    pub(super) fn note(&self, question: Question, plan: &Plan) {
        let Some(compiled) = plan.executable.kept() else { return };
        let Operation { phases, problem, settings, .. } = &*plan.operation;
        let (phases, choice) = (Arc::clone(phases), plan.choice.clone());
        let answer = Arc::new(Answer { phases, problem: *problem, settings: *settings, choice, compiled });
        let mut kept = lock(&self.0);
        let same = kept.iter().position(|(asked, _)| *asked == question).and_then(|at| kept.remove(at));
        let oldest = if kept.len() >= MOST { kept.pop_front() } else { None };
        kept.push_back((question, answer));
        // Drops them after the lock is released, because this may unload a kernel.
        drop(kept);
        drop((same, oldest));
    }

    /// Forgets all plans: something that choices depend on has changed.
    pub(super) fn clear(&self) {
        let forgotten = std::mem::take(&mut *lock(&self.0));
        drop(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;
    use crate::evt::{BroadcastClass, TreeBuilder};
    use crate::gemm::Builder;
    use crate::tuning::{MachineCode, Tuning};

    fn builder(device: &Device, m: usize) -> Builder {
        let mut tree = TreeBuilder::new("copied", "remembered.rs");
        let accum = tree.accum("accum");
        tree.output("d", accum, BroadcastClass::Tensor, None);
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
        let question = builder(&device, 64).planner.question();
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
            tree.output("d", product, BroadcastClass::Tensor, None);
            let builder = Builder::<()>::new(&Device::cpu(), tree.finish());
            builder.elements(ElementType::F32, ElementType::F32).problem(8, 8, 8).planner.question()
        };
        assert_eq!(question(0.0), question(0.0));
        assert_ne!(question(0.0), question(-0.0));
    }

    #[test]
    fn a_tuning_is_a_question_of_its_own() {
        let never = Tuning::new().machine_code(MachineCode::Never);
        let question = |tuning| builder(&Device::cpu(), 8).tuning(tuning).planner.question();
        assert_eq!(question(never), question(never));
        assert_ne!(question(never), question(Tuning::new()));
        let tuned = builder(&Device::cpu(), 8).tuning(never).plan().expect("a plan");
        assert_eq!(tuned.inner().operation.tuning, never);
    }

    /// The plans that were last asked for are kept, up to the limit.
    #[test]
    fn the_plans_asked_for_last_are_kept() {
        let (device, kept) = (Device::cpu(), Remembered::default());
        let plan = builder(&device, 1).plan().expect("a plan");
        for m in 1..2 * MOST {
            kept.note(builder(&device, m).planner.question(), plan.inner());
            assert!(
                kept.plan(&device, &builder(&device, 1).planner.question()).is_some(),
                "it was asked for in every turn"
            );
        }
        let of = |m| kept.plan(&device, &builder(&device, m).planner.question()).is_some();
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
