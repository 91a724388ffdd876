//! Knowledge of other clusters, as a persistent tree of clocks.
//!
//! In a chain of blocks (a look-back scan, a counter) every block passes on everything that it has learnt of the blocks
//! before it. With flat lists the cost is the square of the grid's size. Here clocks that many blocks have learnt are
//! shared. Passing them on makes one new path, and a join stops where both sides are the same node.

use super::actor_clock::ActorClock;
use std::sync::Arc;

const BITS: u32 = 3;
const FANOUT: usize = 1 << BITS;

type Children = [Option<Node>; FANOUT];

#[derive(Clone, Debug)]
enum Node {
    Branch(Arc<Children>),
    Leaf(Arc<ActorClock>),
}

/// Clocks by cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    root: Option<Node>,
    /// Number of branch levels: keys are below `FANOUT` to this power.
    height: u32,
}

/// The side of a join from which a child comes.
enum Joined {
    Same,
    Mine,
    Theirs,
    New(Node),
}

impl Node {
    fn join(mine: &Self, theirs: &Self) -> Joined {
        match (mine, theirs) {
            (Self::Leaf(a), Self::Leaf(b)) => {
                if Arc::ptr_eq(a, b) {
                    Joined::Same
                } else if a.contains(b) {
                    Joined::Mine
                } else if b.contains(a) {
                    Joined::Theirs
                } else {
                    let mut both = (**a).clone();
                    both.join(b);
                    Joined::New(Self::Leaf(Arc::new(both)))
                }
            }
            (Self::Branch(a), Self::Branch(b)) => {
                if Arc::ptr_eq(a, b) {
                    Joined::Same
                } else {
                    Self::join_children(a, b)
                }
            }
            // Trees of the same height have their leaves at the same depth.
            _ => Joined::Mine,
        }
    }

    fn join_children(mine: &Children, theirs: &Children) -> Joined {
        let joined: [Joined; FANOUT] = std::array::from_fn(|i| match (&mine[i], &theirs[i]) {
            (None, None) => Joined::Same,
            (_, None) => Joined::Mine,
            (None, _) => Joined::Theirs,
            (Some(a), Some(b)) => Self::join(a, b),
        });
        if joined.iter().all(|j| matches!(j, Joined::Same)) {
            Joined::Same
        } else if joined.iter().all(|j| matches!(j, Joined::Same | Joined::Mine)) {
            Joined::Mine
        } else if joined.iter().all(|j| matches!(j, Joined::Same | Joined::Theirs)) {
            Joined::Theirs
        } else {
            let mut sides = mine.iter().zip(theirs);
            Joined::New(Self::Branch(Arc::new(joined.map(|joined| {
                let (mine, theirs) = sides.next().unwrap_or((&None, &None));
                match joined {
                    Joined::Same | Joined::Mine => mine.clone(),
                    Joined::Theirs => theirs.clone(),
                    Joined::New(node) => Some(node),
                }
            }))))
        }
    }

    /// A tree of this height with one clock.
    fn path(height: u32, key: u32, clock: &ActorClock) -> Self {
        if height == 0 {
            return Self::Leaf(Arc::new(clock.clone()));
        }
        let mut children = Children::default();
        children[slot(key, height)] = Some(Self::path(height - 1, key, clock));
        Self::Branch(Arc::new(children))
    }

    fn raise(&mut self, height: u32, key: u32, clock: &ActorClock) {
        match self {
            Self::Leaf(known) => {
                if !known.contains(clock) {
                    Arc::make_mut(known).join(clock);
                }
            }
            Self::Branch(children) => match &mut Arc::make_mut(children)[slot(key, height)] {
                Some(child) => child.raise(height - 1, key, clock),
                empty => *empty = Some(Self::path(height - 1, key, clock)),
            },
        }
    }
}

/// The number of the child, at this height above the leaves, that leads to a key.
fn slot(key: u32, height: u32) -> usize {
    (key >> (BITS * (height - 1))) as usize % FANOUT
}

/// Whether a tree with this many levels can hold a key.
fn fits(key: u32, height: u32) -> bool {
    BITS * height >= u32::BITS || key >> (BITS * height) == 0
}

impl Others {
    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The known clock of one cluster.
    pub(super) fn get(&self, cluster: u32) -> Option<&ActorClock> {
        if !fits(cluster, self.height) {
            return None;
        }
        let mut height = self.height;
        let mut node = self.root.as_ref()?;
        loop {
            match node {
                Node::Leaf(clock) => return Some(clock),
                Node::Branch(children) => {
                    node = children[slot(cluster, height)].as_ref()?;
                    height -= 1;
                }
            }
        }
    }

    /// Adds branches above the root until the tree has this height.
    fn grow(&mut self, height: u32) {
        while self.height < height {
            if let Some(root) = self.root.take() {
                let mut children = Children::default();
                children[0] = Some(root);
                self.root = Some(Node::Branch(Arc::new(children)));
            }
            self.height += 1;
        }
    }

    /// Learns what `clock` knows of a cluster.
    pub(super) fn raise(&mut self, cluster: u32, clock: &ActorClock) {
        let mut height = self.height;
        while !fits(cluster, height) {
            height += 1;
        }
        self.grow(height);
        match &mut self.root {
            Some(root) => root.raise(height, cluster, clock),
            empty => *empty = Some(Node::path(height, cluster, clock)),
        }
    }

    /// Learns what `other` knows.
    pub(super) fn join(&mut self, other: &Self) {
        let Some(theirs) = &other.root else { return };
        if self.root.is_none() {
            *self = other.clone();
            return;
        }
        self.grow(other.height);
        let mut higher;
        let theirs = if other.height < self.height {
            higher = other.clone();
            higher.grow(self.height);
            let Some(root) = &higher.root else { return };
            root
        } else {
            theirs
        };
        let Some(mine) = &self.root else { return };
        match Node::join(mine, theirs) {
            Joined::Same | Joined::Mine => {}
            Joined::Theirs => self.root = Some(theirs.clone()),
            Joined::New(node) => self.root = Some(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn clock(actor: u32, value: u32) -> ActorClock {
        let mut clock = ActorClock::default();
        clock.raise(actor, value);
        clock
    }

    type Raises = Vec<(u32, u32, u32)>;

    fn built(raises: &Raises) -> (Others, BTreeMap<(u32, u32), u32>) {
        let (mut tree, mut flat) = (Others::default(), BTreeMap::new());
        for &(cluster, actor, value) in raises {
            tree.raise(cluster, &clock(actor, value));
            let known = flat.entry((cluster, actor)).or_insert(0);
            *known = value.max(*known);
        }
        (tree, flat)
    }

    fn raises() -> impl Strategy<Value = Raises> {
        let cluster = prop_oneof![0u32..20, 0u32..5000, any::<u32>()];
        prop::collection::vec((cluster, 0u32..4, 1u32..6), 0..40)
    }

    proptest! {
        #[test]
        fn a_join_is_the_larger_of_both_for_every_cluster(a in raises(), b in raises(), c in raises()) {
            let (mut tree, mut flat) = built(&a);
            for other in [&b, &c, &b] {
                let (tree_of, flat_of) = built(other);
                tree.join(&tree_of);
                for (key, value) in flat_of {
                    let known = flat.entry(key).or_insert(0);
                    *known = value.max(*known);
                }
            }
            for (&(cluster, actor), &value) in &flat {
                let known = tree.get(cluster).expect("known");
                prop_assert!(known.covers(actor, u32::MAX, value));
                prop_assert!(!known.covers(actor, u32::MAX, value + 1));
            }
            for &(cluster, ..) in a.iter().chain(&b).chain(&c) {
                for other in [cluster ^ 1, cluster.wrapping_add(8), cluster ^ 0x8000_0000] {
                    let expected = flat.range((other, 0)..=(other, u32::MAX)).next().is_some();
                    prop_assert_eq!(tree.get(other).is_some(), expected);
                }
            }
        }
    }

    #[test]
    fn what_is_handed_on_is_shared() {
        let mut chain = Others::default();
        for block in 0..1000 {
            let mut next = Others::default();
            next.join(&chain);
            next.raise(block, &clock(0, 1));
            chain = next;
        }
        let mut again = chain.clone();
        again.raise(2000, &clock(0, 1));
        let mut joined = again.clone();
        joined.join(&chain);
        assert!(
            matches!((&joined.root, &again.root), (Some(Node::Branch(a)), Some(Node::Branch(b))) if Arc::ptr_eq(a, b))
        );
        chain.join(&again);
        assert!(
            matches!((&chain.root, &again.root), (Some(Node::Branch(a)), Some(Node::Branch(b))) if Arc::ptr_eq(a, b))
        );
    }
}
