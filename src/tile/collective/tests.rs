//! Runs plans on the host, thread by thread. In the property tests the combination is concatenation: it shows the parts
//! of a result and their order.

use epilogue_runtime::testing;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{Algorithm, Collective, CollectiveError, CollectivePlan, Guard, Slot, Step, WARP};

fn holds(plan: &CollectivePlan, guards: &[Guard], indices: &[u32]) -> bool {
    guards.iter().all(|guard| match *guard {
        Guard::Below(quantity, bound) => plan.quantity(quantity, indices) < bound,
        Guard::MultipleOf(quantity, n) => plan.quantity(quantity, indices).is_multiple_of(n),
    })
}

fn place(plan: &CollectivePlan, slot: &Slot, indices: &[u32]) -> usize {
    let sum: u32 = slot.terms.iter().map(|&(quantity, factor)| plan.quantity(quantity, indices) * factor).sum();
    (sum + slot.constant) as usize
}

/// Ranks of one group, in the order in which they were combined; `None` is a value that is undefined.
type Value = Option<Vec<u32>>;

/// The accesses to a shared place since the last barrier.
#[derive(Clone, Default)]
struct Place {
    value: Value,
    writer: Option<usize>,
    readers: Vec<usize>,
}

struct Block<'a> {
    plan: &'a CollectivePlan,
    indices: Vec<Vec<u32>>,
    x: Vec<Value>,
    slots: Vec<Place>,
}

impl<'a> Block<'a> {
    fn new(plan: &'a CollectivePlan) -> Self {
        let mut indices = vec![Vec::new()];
        for &extent in plan.extents().iter().rev() {
            indices = indices
                .into_iter()
                .flat_map(|rest: Vec<u32>| (0..extent).map(move |i| [&[i], rest.as_slice()].concat()))
                .collect();
        }
        let x = indices.iter().map(|i| Some(vec![plan.rank().at(i)])).collect();
        let block = Self { plan, indices, x, slots: vec![Place::default(); plan.slots() as usize] };
        for (thread, indices) in block.indices.iter().enumerate() {
            assert_eq!(plan.thread().at(indices) as usize, thread);
        }
        block
    }

    fn read(&mut self, thread: usize, at: usize) -> Value {
        let slot = &mut self.slots[at];
        assert!(slot.writer.is_none_or(|w| w == thread), "{thread} reads slot {at} before a barrier");
        slot.readers.push(thread);
        slot.value.clone()
    }

    fn write(&mut self, thread: usize, at: usize, value: Value) {
        let slot = &mut self.slots[at];
        let alone = slot.writer.is_none_or(|w| w == thread) && slot.readers.iter().all(|&r| r == thread);
        assert!(alone, "{thread} writes slot {at}, which others use, without a barrier");
        *slot = Place { value, writer: Some(thread), ..slot.clone() };
    }

    /// The value that a lane of its segment gives to each thread.
    fn shuffled(&self, width: u32, source: impl Fn(u32) -> u32) -> Vec<Value> {
        let threads = self.x.len() as u32;
        (0..threads)
            .map(|thread| {
                let (warp, lane) = (thread / WARP, thread % WARP);
                let there = (threads - warp * WARP).min(WARP);
                let mask = self.plan.mask().of_warp(warp);
                assert_eq!(mask.count_ones(), there, "the mask names the lanes that exist");
                assert!(mask >> lane & 1 == 1);
                let (first, within) = (lane / width * width, lane % width);
                let from = source(within);
                let from = if from < width { first + from } else { lane };
                if from < there { self.x[(warp * WARP + from) as usize].clone() } else { None }
            })
            .collect()
    }

    fn step(&mut self, step: &Step) {
        let threads = 0..self.x.len();
        let active = |block: &Self, guards: &[Guard]| -> Vec<usize> {
            threads.clone().filter(|&t| holds(block.plan, guards, &block.indices[t])).collect()
        };
        match step {
            Step::Shuffle { offset, width, guards } => {
                let y = self.shuffled(*width, |lane| lane + offset);
                for thread in active(self, guards) {
                    self.x[thread] = concatenation(&self.x[thread], &y[thread]);
                }
            }
            Step::Broadcast { width } => self.x = self.shuffled(*width, |_| 0),
            Step::Store { slot, guards } => {
                for thread in active(self, guards) {
                    let at = place(self.plan, slot, &self.indices[thread]);
                    self.write(thread, at, self.x[thread].clone());
                }
            }
            Step::Load { slot, guards } => {
                for thread in active(self, guards) {
                    let at = place(self.plan, slot, &self.indices[thread]);
                    self.x[thread] = self.read(thread, at);
                }
            }
            Step::Combine { slot, store, guards } => {
                for thread in active(self, guards) {
                    let at = place(self.plan, slot, &self.indices[thread]);
                    let y = self.read(thread, at);
                    self.x[thread] = concatenation(&self.x[thread], &y);
                    if let Some(store) = store {
                        let at = place(self.plan, store, &self.indices[thread]);
                        self.write(thread, at, self.x[thread].clone());
                    }
                }
            }
            Step::Barrier(_) => {
                for slot in &mut self.slots {
                    *slot = Place { value: slot.value.take(), ..Place::default() };
                }
            }
        }
    }
}

fn concatenation(left: &Value, right: &Value) -> Value {
    Some([left.as_deref()?, right.as_deref()?].concat())
}

/// Runs the plan twice over the same shared memory; every thread must end with all ranks of its group.
fn run(plan: &CollectivePlan) {
    let mut block = Block::new(plan);
    let start = block.x.clone();
    for _ in 0..2 {
        block.x.clone_from(&start);
        for step in plan.steps() {
            block.step(step);
        }
        for (thread, value) in block.x.iter().enumerate() {
            let mut ranks = value.clone().unwrap_or_else(|| panic!("thread {thread} has an undefined value\n{plan}"));
            if plan.is_commutative() {
                ranks.sort_unstable();
            }
            let all: Vec<u32> = (0..plan.group_size()).collect();
            assert_eq!(ranks, all, "thread {thread}\n{plan}");
        }
    }
}

/// The ranks by definition: mixed radix over the indices in the given order, the slowest first.
fn rank_as_defined(extents: &[u32], reduced: &[usize], indices: &[u32]) -> u32 {
    reduced.iter().fold(0, |rank, &axis| rank * extents[axis] + indices[axis])
}

fn blocks() -> impl Strategy<Value = (Vec<u32>, Vec<usize>)> {
    let extent = || prop_oneof![4 => 1..40u32, 2 => prop::sample::select(vec![1, 2, 4, 8, 16, 32, 64, 128, 256])];
    let any = (1..=3usize)
        .prop_flat_map(move |n| (prop::collection::vec(extent(), n), prop::sample::subsequence(vec![0, 1, 2], 0..=3)));
    let row = (1..=1024u32).prop_map(|n| (vec![n], vec![0]));
    let shuffled = any.prop_flat_map(|(extents, reduced)| {
        let reduced: Vec<usize> = reduced.into_iter().filter(|&axis| axis < extents.len()).collect();
        (Just(extents), Just(reduced).prop_shuffle())
    });
    prop_oneof![4 => shuffled, 1 => row]
        .prop_filter("at most 1024 threads", |(extents, _)| extents.iter().product::<u32>() <= 1024)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(400), ..ProptestConfig::default() })]

    #[test]
    fn every_thread_gets_its_groups_combination((extents, reduced) in blocks(), commutative in any::<bool>()) {
        let collective = Collective::new(&extents, &reduced);
        let plan = if commutative { collective } else { collective.associative_only() }.plan().unwrap();
        let size: u32 = reduced.iter().map(|&axis| extents[axis]).product();
        prop_assert_eq!(plan.group_size(), size);
        prop_assert_eq!(plan.group_size() * plan.groups(), extents.iter().product::<u32>());
        let block = Block::new(&plan);
        for a in &block.indices {
            if !commutative {
                prop_assert_eq!(plan.rank().at(a), rank_as_defined(&extents, &reduced, a));
            }
            for b in block.indices.iter().step_by(7) {
                let same = (0..extents.len()).all(|axis| reduced.contains(&axis) || a[axis] == b[axis]);
                prop_assert_eq!(plan.group().at(a) == plan.group().at(b), same);
            }
        }
        run(&plan);
    }

    #[test]
    fn shared_arrays_are_aligned_and_apart(
        (extents, reduced) in blocks(),
        state in prop::collection::vec(prop::sample::select(vec![1usize, 2, 4, 8]), 1..5),
    ) {
        let plan = Collective::new(&extents, &reduced).state(&state).plan().unwrap();
        let mut end = 0;
        for (array, size) in plan.shared_arrays().iter().zip(&state) {
            prop_assert!(array.value_bytes == *size && array.offset.is_multiple_of(*size) && array.offset >= end);
            end = array.offset + plan.slots() as usize * size;
        }
        prop_assert_eq!(plan.shared_bytes(), end);
    }
}

#[test]
fn every_small_block_and_every_row() {
    for threads in (1..=130).chain([255, 256, 257, 990, 993, 1023, 1024]) {
        run(&Collective::new(&[threads], &[0]).plan().unwrap());
        run(&Collective::new(&[threads], &[0]).associative_only().plan().unwrap());
    }
    for x in 1..=12 {
        for y in 1..=12 {
            for reduced in [&[0][..], &[1], &[0, 1], &[1, 0], &[]] {
                run(&Collective::new(&[x, y], reduced).plan().unwrap());
                run(&Collective::new(&[x, y], reduced).associative_only().plan().unwrap());
            }
        }
    }
}

#[test]
fn the_algorithm_follows_the_shape() {
    let algorithm = |extents: &[u32], reduced: &[usize]| Collective::new(extents, reduced).plan().unwrap().algorithm();
    assert_eq!(algorithm(&[16, 32], &[0]), Algorithm::SubWarp { width: 16 });
    assert_eq!(algorithm(&[2, 8, 5], &[1, 0]), Algorithm::SubWarp { width: 16 });
    assert_eq!(algorithm(&[32, 4], &[0]), Algorithm::Warp);
    assert_eq!(algorithm(&[8, 4], &[0, 1]), Algorithm::Warp);
    assert_eq!(algorithm(&[12], &[0]), Algorithm::GuardedWarp { threads: 12 });
    assert_eq!(algorithm(&[1, 12, 1], &[1]), Algorithm::GuardedWarp { threads: 12 });
    assert_eq!(algorithm(&[64, 4], &[0]), Algorithm::TwoStage { warps: 2 });
    assert_eq!(algorithm(&[100], &[0]), Algorithm::TwoStage { warps: 4 });
    assert_eq!(algorithm(&[12, 4], &[0]), Algorithm::SharedTree);
    assert_eq!(algorithm(&[16, 32], &[1]), Algorithm::SharedTree);
    assert_eq!(algorithm(&[1, 7], &[0]), Algorithm::Single);
    // Operands that must keep an order which is not that of the threads.
    let order = Collective::new(&[8, 4], &[0, 1]).associative_only().plan().unwrap();
    assert_eq!(order.algorithm(), Algorithm::SharedTree);
    let order = Collective::new(&[8, 4], &[1, 0]).associative_only().plan().unwrap();
    assert_eq!(order.algorithm(), Algorithm::Warp);
}

fn check(collective: &Collective, expected: &Expect) {
    expected.assert_eq(&collective.plan().unwrap().to_string());
}

#[test]
fn plans_as_text() {
    check(
        &Collective::new(&[16, 32], &[0]),
        &expect![[r#"
        32 of 16 threads by sub-warp shuffles of 16 lanes
        mask 0xffffffff
          y = shuffle_down(x, 8, width 16); x = combine(x, y)
          y = shuffle_down(x, 4, width 16); x = combine(x, y)
          y = shuffle_down(x, 2, width 16); x = combine(x, y)
          y = shuffle_down(x, 1, width 16); x = combine(x, y)
          x = shuffle(x, lane 0, width 16)
    "#]],
    );
    check(
        &Collective::new(&[12], &[0]),
        &expect![[r#"
        1 of 12 threads by guarded shuffles of 12 threads
        mask 0x00000fff
          y = shuffle_down(x, 8, width 32); if rank < 4: x = combine(x, y)
          y = shuffle_down(x, 4, width 32); x = combine(x, y)
          y = shuffle_down(x, 2, width 32); x = combine(x, y)
          y = shuffle_down(x, 1, width 32); x = combine(x, y)
          x = shuffle(x, lane 0, width 32)
    "#]],
    );
    check(
        &Collective::new(&[12], &[0]).associative_only(),
        &expect![[r#"
        1 of 12 threads by guarded shuffles of 12 threads, in order
        mask 0x00000fff
          y = shuffle_down(x, 1, width 32); x = combine(x, y)
          y = shuffle_down(x, 2, width 32); x = combine(x, y)
          y = shuffle_down(x, 4, width 32); if rank < 8: x = combine(x, y)
          y = shuffle_down(x, 8, width 32); if rank < 4: x = combine(x, y)
          x = shuffle(x, lane 0, width 32)
    "#]],
    );
    check(
        &Collective::new(&[100], &[0]),
        &expect![[r#"
            1 of 100 threads by two stages: shuffles in 4 warps, then shared memory
            mask 0xffffffff, in warp 3 0x0000000f
            4 slots, 16 bytes of shared memory
              y = shuffle_down(x, 16, width 32); if rank < 84: x = combine(x, y)
              y = shuffle_down(x, 8, width 32); if rank < 92: x = combine(x, y)
              y = shuffle_down(x, 4, width 32); if rank < 96: x = combine(x, y)
              y = shuffle_down(x, 2, width 32); if rank < 98: x = combine(x, y)
              y = shuffle_down(x, 1, width 32); if rank < 99: x = combine(x, y)
              if lane == 0: slots[part] = x
              barrier: the slots are written
              if lane < 4: x = slots[lane]
              y = shuffle_down(x, 2, width 32); x = combine(x, y)
              y = shuffle_down(x, 1, width 32); x = combine(x, y)
              x = shuffle(x, lane 0, width 32)
              barrier: the slots have been read
        "#]],
    );
    check(
        &Collective::new(&[4, 6], &[1]),
        &expect![[r#"
        4 of 6 threads by a tree in shared memory
        24 slots, 96 bytes of shared memory
          slots[group + rank * 4] = x
          barrier: the slots are written
          if rank < 2: x = combine(x, slots[group + rank * 4 + 16]), slots[group + rank * 4] = x
          barrier: the slots are written
          if rank < 2: x = combine(x, slots[group + rank * 4 + 8]), slots[group + rank * 4] = x
          barrier: the slots are written
          if rank == 0: x = combine(x, slots[group + rank * 4 + 4]), slots[group + rank * 4] = x
          barrier: the slots are written
          x = slots[group]
          barrier: the slots have been read
    "#]],
    );
    check(
        &Collective::new(&[3, 5], &[0]).associative_only().state(&[8, 4]).executed_once(),
        &expect![[r#"
        5 of 3 threads by a tree in shared memory, in order
        15 slots, 180 bytes of shared memory
          slots[group * 3 + rank] = x
          barrier: the slots are written
          if rank % 2 == 0 and rank < 2: x = combine(x, slots[group * 3 + rank + 1]), slots[group * 3 + rank] = x
          barrier: the slots are written
          if rank % 4 == 0 and rank == 0: x = combine(x, slots[group * 3 + rank + 2]), slots[group * 3 + rank] = x
          barrier: the slots are written
          x = slots[group * 3]
    "#]],
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let error = |collective: Collective| collective.plan().unwrap_err();
    assert_eq!(error(Collective::new(&[], &[])), CollectiveError::Indices { given: 0 });
    assert_eq!(error(Collective::new(&[1, 1, 1, 1], &[0])), CollectiveError::Indices { given: 4 });
    let many = CollectiveError::Threads { extents: vec![32, 33], threads: 1056 };
    assert_eq!(error(Collective::new(&[32, 33], &[0])), many);
    let none = CollectiveError::Threads { extents: vec![0], threads: 0 };
    assert_eq!(error(Collective::new(&[0], &[0])), none);
    let most = CollectiveError::Threads { extents: vec![u32::MAX; 3], threads: u64::MAX };
    assert_eq!(error(Collective::new(&[u32::MAX; 3], &[0])), most);
    assert_eq!(error(Collective::new(&[8], &[1])), CollectiveError::NoSuchIndex { axis: 1, indices: 1 });
    assert_eq!(error(Collective::new(&[8, 2], &[1, 1])), CollectiveError::RepeatedIndex { axis: 1 });
    assert_eq!(error(Collective::new(&[8], &[0]).state(&[])), CollectiveError::NoState);
    assert_eq!(error(Collective::new(&[8], &[0]).state(&[4, 16])), CollectiveError::StateSize { bytes: 16 });
}
