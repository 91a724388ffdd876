//! The cheapest set of vertices that separates sources from sinks: Ford and Fulkerson's, along shortest paths.

use std::collections::VecDeque;

/// More than all bytes of an element together.
const UNLIMITED: u64 = 1 << 40;

struct Edge {
    to: usize,
    left: u64,
}

/// A directed graph whose vertices have weights.
pub(super) struct Graph {
    vertices: usize,
    /// Each edge is followed by its reverse. A vertex is two ends, joined by an edge of its weight.
    edges: Vec<Edge>,
    from: Vec<Vec<usize>>,
}

impl Graph {
    pub(super) fn new(vertices: usize) -> Self {
        Self { vertices, edges: Vec::new(), from: std::iter::repeat_with(Vec::new).take(2 * vertices + 2).collect() }
    }

    const fn source(&self) -> usize {
        2 * self.vertices
    }

    const fn sink(&self) -> usize {
        2 * self.vertices + 1
    }

    fn join(&mut self, from: usize, to: usize, weight: u64) {
        self.from[from].push(self.edges.len());
        self.edges.push(Edge { to, left: weight });
        self.from[to].push(self.edges.len());
        self.edges.push(Edge { to: from, left: 0 });
    }

    /// The cost of having the vertex in the cut; with `None` it can't be.
    pub(super) fn weigh(&mut self, vertex: usize, weight: Option<u64>) {
        self.join(2 * vertex, 2 * vertex + 1, weight.unwrap_or(UNLIMITED));
    }

    pub(super) fn edge(&mut self, from: usize, to: usize) {
        self.join(2 * from + 1, 2 * to, UNLIMITED);
    }

    /// The cost of having the vertex behind the cut; with `None` it can't be: paths begin there.
    pub(super) fn begins(&mut self, vertex: usize, weight: Option<u64>) {
        self.join(self.source(), 2 * vertex, weight.unwrap_or(UNLIMITED));
    }

    pub(super) fn ends(&mut self, vertex: usize) {
        self.join(2 * vertex + 1, self.sink(), UNLIMITED);
    }

    /// The cheapest vertices that every path from a beginning to an end meets; among cuts of one cost that nearest the ends.
    pub(super) fn cut(mut self) -> Vec<usize> {
        while self.augment() {}
        let reaches = self.reach_sink();
        (0..self.vertices).filter(|&v| !reaches[2 * v] && reaches[2 * v + 1]).collect()
    }

    /// Sends what fits along a shortest path that has room.
    fn augment(&mut self) -> bool {
        let mut by: Vec<Option<usize>> = vec![None; self.from.len()];
        let mut queue = VecDeque::from([self.source()]);
        while let Some(at) = queue.pop_front() {
            for &edge in &self.from[at] {
                let Edge { to, left } = self.edges[edge];
                if left > 0 && by[to].is_none() && to != self.source() {
                    by[to] = Some(edge);
                    queue.push_back(to);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = self.sink();
        while let Some(edge) = by[at] {
            path.push(edge);
            at = self.edges[edge ^ 1].to;
        }
        let room = path.iter().map(|&edge| self.edges[edge].left).min().unwrap_or(0);
        for edge in path {
            self.edges[edge].left -= room;
            self.edges[edge ^ 1].left += room;
        }
        room > 0
    }

    /// Whether there is room from each end to the sink.
    fn reach_sink(&self) -> Vec<bool> {
        let mut reaches = vec![false; self.from.len()];
        let mut rest = vec![self.sink()];
        reaches[self.sink()] = true;
        while let Some(at) = rest.pop() {
            for &edge in &self.from[at] {
                // The edge towards `at` is the reverse of the one from it.
                let from = self.edges[edge].to;
                if self.edges[edge ^ 1].left > 0 && !reaches[from] {
                    reaches[from] = true;
                    rest.push(from);
                }
            }
        }
        reaches
    }
}

#[cfg(test)]
mod tests {
    use super::Graph;

    /// A chain of four with a second way around the third; the second and the third are equally cheap.
    #[test]
    fn the_cheapest_cut_nearest_the_end() {
        let chain = |weights: [u64; 4], around: bool| {
            let mut graph = Graph::new(4);
            weights.into_iter().enumerate().for_each(|(v, weight)| graph.weigh(v, (weight > 0).then_some(weight)));
            (0..3).for_each(|v| graph.edge(v, v + 1));
            if around {
                graph.edge(1, 3);
            }
            graph.begins(0, None);
            graph.ends(3);
            graph.cut()
        };
        assert_eq!(chain([9, 4, 4, 9], false), [2]);
        assert_eq!(chain([9, 4, 4, 9], true), [1]);
        assert_eq!(chain([3, 4, 4, 0], false), [0]);
        assert_eq!(chain([0, 0, 4, 4], false), [3]);
    }

    /// Vertices behind the cut are paid for too: the dear third vertex is not computed again.
    #[test]
    fn vertices_behind_the_cut_have_their_cost() {
        let chain = |third: u64| {
            let mut graph = Graph::new(3);
            [2, 9, 8].into_iter().enumerate().for_each(|(v, weight)| graph.weigh(v, Some(weight)));
            (0..2).for_each(|v| graph.edge(v, v + 1));
            graph.begins(0, None);
            graph.begins(2, Some(third));
            graph.ends(2);
            graph.cut()
        };
        assert_eq!((chain(5), chain(7)), (vec![0], vec![2]));
    }
}
