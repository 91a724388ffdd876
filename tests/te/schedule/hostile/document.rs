//! A saved schedule that is written node by node, as nobody would.

use serde_json::{Value, json};

/// A document under construction: `y`, with 8 elements, is computed from `x`.
pub(super) struct Document {
    pub(super) nodes: Vec<Value>,
    pub(super) stages: Vec<Value>,
    pub(super) groups: Vec<Value>,
    /// The indices of some nodes: `x`, the size 8, the axis of `y` and its value.
    pub(super) x: usize,
    pub(super) eight: usize,
    pub(super) axis: usize,
    pub(super) i: usize,
}

impl Document {
    pub(super) fn new() -> Self {
        let mut new = Self { nodes: Vec::new(), stages: Vec::new(), groups: Vec::new(), x: 0, eight: 0, axis: 0, i: 0 };
        new.eight = new.int(8);
        new.x = new.add(json!({ "node": "placeholder", "name": "x", "type": "f32", "shape": [new.eight] }));
        new.axis = new.new_axis("data", new.eight);
        new.i = new.add(json!({ "node": "value", "of": new.axis }));
        new.stage(new.x, &[]);
        new
    }

    pub(super) fn add(&mut self, node: Value) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    pub(super) fn int(&mut self, value: i64) -> usize {
        self.add(json!({ "node": "int", "type": "i32", "value": value }))
    }

    pub(super) fn new_axis(&mut self, kind: &str, extent: usize) -> usize {
        let zero = self.int(0);
        self.add(json!({ "node": "axis", "name": "i", "kind": kind, "domain": [zero, extent] }))
    }

    pub(super) fn binary(&mut self, op: &str, a: usize, b: usize) -> usize {
        self.add(json!({ "node": "binary", "op": op, "operands": [a, b] }))
    }

    pub(super) fn read(&mut self, operation: usize, indices: &[usize]) -> usize {
        self.add(json!({ "node": "read", "operation": operation, "value": 0, "operands": indices }))
    }

    pub(super) fn compute(&mut self, axes: &[usize], body: &[usize]) -> usize {
        self.add(json!({ "node": "compute", "name": "y", "axes": axes, "body": body }))
    }

    /// Adds a stage of its own; gives its index in the list.
    pub(super) fn stage(&mut self, operation: usize, loops: &[usize]) -> usize {
        self.stages.push(json!({
            "origin": operation, "operation": operation, "relations": [], "loops": loops, "kinds": [], "threads": [],
            "place": "root", "scan": null, "group": null, "time": null, "scope": null, "store_predicate": null,
            "env_threads": [], "pragmas": [], "aligned": [], "double_buffer": false, "rolling_buffer": false,
            "prefetches": [],
        }));
        self.stages.len() - 1
    }

    /// The text: the last stage is the output.
    pub(super) fn text(&self) -> String {
        let output = &self.stages[self.stages.len() - 1]["operation"];
        json!({
            "format": "epilogue.te.schedule", "version": 1, "nodes": self.nodes,
            "schedule": { "stages": self.stages, "outputs": [output], "groups": self.groups, "scan_groups": [] },
            "record": [], "tensors": [[self.x, 0], [output, 0]],
        })
        .to_string()
    }

    /// The text with this element of `y`.
    pub(super) fn of(mut self, body: usize) -> String {
        let y = self.compute(&[self.axis], &[body]);
        self.stage(y, &[self.axis]);
        self.text()
    }
}

/// `a && x || b && x`, nested 60 times: the shared part is under a condition in both operands.
pub(super) fn chosen(document: &mut Document, tests: [usize; 2], x: usize) -> usize {
    (0..60).fold(x, |x, _| {
        let [a, b] = tests.map(|test| document.binary("and", test, x));
        document.binary("or", a, b)
    })
}

/// A node with so much sharing that its tree would have 2^60 leaves.
pub(super) fn doubled(document: &mut Document, op: &str, x: usize) -> usize {
    (0..60).fold(x, |x, _| document.binary(op, x, x))
}

/// The sum over an axis of what `source` builds from its value.
pub(super) fn reduction(d: &mut Document, axis: usize, source: impl FnOnce(&mut Document, usize) -> usize) -> usize {
    let var = |d: &mut Document, name: &str| {
        d.add(json!({ "node": "variable", "name": name, "type": "f32", "counter": false }))
    };
    let (a, b) = (var(d, "a"), var(d, "b"));
    let [x, y] = [a, b].map(|var| d.add(json!({ "node": "value", "of": var })));
    let sum = d.binary("add", x, y);
    let zero = d.add(json!({ "node": "float", "type": "f32", "value": "0.0" }));
    let k = d.add(json!({ "node": "value", "of": axis }));
    let source = source(d, k);
    let all = d.add(json!({ "node": "int", "type": "bool", "value": 1 }));
    let reduction = d.add(json!({
        "node": "reduction", "left": [a], "right": [b], "result": [sum], "identity": [zero], "commutative": true,
        "source": [source], "init": [], "axes": [axis], "condition": all,
    }));
    d.add(json!({ "node": "reduced", "reduction": reduction, "index": 0 }))
}
