//! Documents that are made to take long, to nest deeply or to contradict themselves. Each is refused with a typed
//! error, or its program runs with equal results everywhere; all on a thread of 2 MiB, within seconds.

use std::sync::mpsc::channel;
use std::time::Duration;
use std::{panic, thread};

use epilogue::te::{
    self, Array, ExpressionError, LoweringError, RunError, ScanError, Schedule, ScheduleError, TeError, Tensor,
};
use epilogue::{Device, ElementType};
use serde_json::{Value, json};

/// Much longer than a document takes on a busy machine, and much shorter than doubling at every step would take.
const MOST: Duration = Duration::from_secs(60);

/// A document under construction: `y`, with 8 elements, is computed from `x`.
struct Document {
    nodes: Vec<Value>,
    stages: Vec<Value>,
    groups: Vec<Value>,
    /// The indices of some nodes: `x`, the size 8, the axis of `y` and its value.
    x: usize,
    eight: usize,
    axis: usize,
    i: usize,
}

impl Document {
    fn new() -> Self {
        let mut new = Self { nodes: Vec::new(), stages: Vec::new(), groups: Vec::new(), x: 0, eight: 0, axis: 0, i: 0 };
        new.eight = new.int(8);
        new.x = new.add(json!({ "node": "placeholder", "name": "x", "type": "f32", "shape": [new.eight] }));
        new.axis = new.new_axis("data", new.eight);
        new.i = new.add(json!({ "node": "value", "of": new.axis }));
        new.stage(new.x, &[]);
        new
    }

    fn add(&mut self, node: Value) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn int(&mut self, value: i64) -> usize {
        self.add(json!({ "node": "int", "type": "i32", "value": value }))
    }

    fn new_axis(&mut self, kind: &str, extent: usize) -> usize {
        let zero = self.int(0);
        self.add(json!({ "node": "axis", "name": "i", "kind": kind, "domain": [zero, extent] }))
    }

    fn binary(&mut self, op: &str, a: usize, b: usize) -> usize {
        self.add(json!({ "node": "binary", "op": op, "operands": [a, b] }))
    }

    fn read(&mut self, operation: usize, indices: &[usize]) -> usize {
        self.add(json!({ "node": "read", "operation": operation, "value": 0, "operands": indices }))
    }

    fn compute(&mut self, axes: &[usize], body: &[usize]) -> usize {
        self.add(json!({ "node": "compute", "name": "y", "axes": axes, "body": body }))
    }

    /// Adds a stage of its own; gives its index in the list.
    fn stage(&mut self, operation: usize, loops: &[usize]) -> usize {
        self.stages.push(json!({
            "origin": operation, "operation": operation, "relations": [], "loops": loops, "kinds": [], "threads": [],
            "place": "root", "scan": null, "group": null, "time": null, "scope": null, "store_predicate": null,
            "env_threads": [], "pragmas": [], "aligned": [], "double_buffer": false, "rolling_buffer": false,
            "prefetches": [],
        }));
        self.stages.len() - 1
    }

    /// The text: the last stage is the output.
    fn text(&self) -> String {
        let output = &self.stages[self.stages.len() - 1]["operation"];
        json!({
            "format": "epilogue.te.schedule", "version": 1, "nodes": self.nodes,
            "schedule": { "stages": self.stages, "outputs": [output], "groups": self.groups, "scan_groups": [] },
            "record": [], "tensors": [[self.x, 0], [output, 0]],
        })
        .to_string()
    }

    /// The text with this element of `y`.
    fn of(mut self, body: usize) -> String {
        let y = self.compute(&[self.axis], &[body]);
        self.stage(y, &[self.axis]);
        self.text()
    }
}

/// The outcome for a text: the numbers that it computes from ones, which must be equal in the interpreter and in native
/// code, or the error.
fn outcome(name: &str, text: String) -> Result<Vec<f64>, TeError> {
    let (send, receive) = channel();
    let run = move || send.send(panic::catch_unwind(|| everywhere(&text)));
    thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread");
    match receive.recv_timeout(MOST) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => panic!("{name} panics"),
        Err(_) => panic!("{name} takes more than {MOST:?}"),
    }
}

fn everywhere(text: &str) -> Result<Vec<f64>, TeError> {
    let (schedule, tensors) = Schedule::from_json(text)?;
    let tensors: Vec<&Tensor> = tensors.iter().collect();
    schedule.to_json(&tensors)?;
    let program = te::lower(&schedule, &tensors, "main")?;
    let _ = (program.script(te::ScriptStyle::LATER), program.primfn());
    let f32 = ElementType::F32;
    let mut arrays = [Array::new(f32, &[8], &[1.0; 8])?, Array::unwritten(f32, &[8])];
    program.interpret(&mut arrays)?;
    let device = Device::cpu();
    let x = device.tensor(&[1f32; 8], [8])?;
    let mut y = device.full::<f32>([8], f32::NAN)?;
    program.build(&device)?.run(&[(&x).into(), (&mut y).into()])?;
    let native: Vec<f64> = y.to_vec::<f32>()?.into_iter().map(f64::from).collect();
    // Elements that were not written are NaN in both.
    let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&arrays[1].values()), bits(&native));
    Ok(native)
}

/// `a && x || b && x`, nested 60 times: the shared part is under a condition in both operands.
fn chosen(document: &mut Document, tests: [usize; 2], x: usize) -> usize {
    (0..60).fold(x, |x, _| {
        let [a, b] = tests.map(|test| document.binary("and", test, x));
        document.binary("or", a, b)
    })
}

/// A node with so much sharing that its tree would have 2^60 leaves.
fn doubled(document: &mut Document, op: &str, x: usize) -> usize {
    (0..60).fold(x, |x, _| document.binary(op, x, x))
}

#[test]
fn shared_expressions() {
    for op in ["add", "mul", "min", "sub"] {
        let mut d = Document::new();
        let x = d.read(d.x, &[d.i]);
        let body = doubled(&mut d, op, x);
        let expected = match op {
            "add" => (60f32).exp2(),
            "sub" => 0.0,
            _ => 1.0,
        };
        assert_eq!(outcome(op, d.of(body)), Ok(vec![f64::from(expected); 8]), "{op}");
    }
    for op in ["add", "mul", "min", "floor_div", "floor_mod", "sub"] {
        // An index: 0 or 8, or one outside of the tensor.
        let mut d = Document::new();
        let i = d.i;
        let index = doubled(&mut d, op, i);
        let body = d.read(d.x, &[index]);
        let _ = outcome(op, d.of(body));
    }
    for op in ["and", "or"] {
        let mut d = Document::new();
        let x = d.read(d.x, &[d.i]);
        let condition = d.binary("gt", x, x);
        let condition = doubled(&mut d, op, condition);
        let likely = (0..60).fold(condition, |c, _| {
            let c = d.add(json!({ "node": "likely", "operands": [c] }));
            d.binary(op, c, c)
        });
        let body = d.add(json!({ "node": "select", "operands": [likely, x, x] }));
        assert_eq!(outcome(op, d.of(body)), Ok(vec![1.0; 8]), "{op}");
    }
    for op in ["and", "or"] {
        let mut d = Document::new();
        let five = d.int(5);
        let small = d.binary("lt", d.i, five);
        let condition = doubled(&mut d, op, small);
        let x = d.read(d.x, &[d.i]);
        let y = d.compute(&[d.axis], &[x]);
        let stage = d.stage(y, &[d.axis]);
        d.stages[stage]["store_predicate"] = json!(condition);
        let _ = outcome("a predicate", d.text());
    }
    let mut d = Document::new();
    let x = d.read(d.x, &[d.i]);
    let [a, b, c] = [0, 3, 5].map(|n| {
        let n = d.int(n);
        d.binary("lt", n, d.i)
    });
    let greater = d.binary("gt", x, x);
    let last = d.binary("and", greater, c);
    let condition = chosen(&mut d, [a, b], last);
    let body = d.add(json!({ "node": "select", "operands": [condition, x, x] }));
    let unfolded = outcome("conditions under conditions", d.of(body));
    assert!(matches!(unfolded, Ok(_) | Err(TeError::Expression(ExpressionError::Unfolded { .. }))), "{unfolded:?}");
}

#[test]
fn shared_ranges_and_factors() {
    for op in ["min", "max", "add", "mul", "floor_div"] {
        // An extent of `y`, of a placeholder, of a reduction; a factor.
        for place in 0..4 {
            let mut d = Document::new();
            let n = d.add(json!({ "node": "variable", "name": "n", "type": "i32", "counter": false }));
            let n = d.add(json!({ "node": "value", "of": n }));
            let size = doubled(&mut d, op, n);
            let text = match place {
                0 => {
                    let axis = d.new_axis("data", size);
                    let (i, x) = (d.add(json!({ "node": "value", "of": axis })), d.x);
                    let body = d.read(x, &[i]);
                    let y = d.compute(&[axis], &[body]);
                    d.stage(y, &[axis]);
                    d.text()
                }
                1 => {
                    let z = d.add(json!({ "node": "placeholder", "name": "z", "type": "f32", "shape": [size] }));
                    d.stage(z, &[]);
                    let body = d.read(z, &[d.i]);
                    d.of(body)
                }
                2 => {
                    let axis = d.new_axis("reduce", size);
                    let body = reduction(&mut d, axis, |d, _| d.read(d.x, &[d.i]));
                    let y = d.compute(&[d.axis], &[body]);
                    d.stage(y, &[d.axis, axis]);
                    d.text()
                }
                _ => {
                    let [outer, inner] =
                        [(); 2].map(|()| d.add(json!({ "node": "axis", "name": "s", "kind": "data", "domain": null })));
                    let body = d.read(d.x, &[d.i]);
                    let y = d.compute(&[d.axis], &[body]);
                    let stage = d.stage(y, &[outer, inner]);
                    let split = json!({ "split": [d.axis, outer, inner], "factor": size, "predicated": true });
                    d.stages[stage]["relations"] = json!([split]);
                    d.text()
                }
            };
            let _ = outcome(&format!("{op} at {place}"), text);
        }
    }
}

/// What depends on a loop is no factor, though it is an integer.
#[test]
fn factors_are_sizes() {
    for by in ["factor", "parts"] {
        let mut d = Document::new();
        let [outer, inner] =
            [(); 2].map(|()| d.add(json!({ "node": "axis", "name": "s", "kind": "data", "domain": null })));
        let body = d.read(d.x, &[d.i]);
        let y = d.compute(&[d.axis], &[body]);
        let stage = d.stage(y, &[outer, inner]);
        d.stages[stage]["relations"] = json!([{ "split": [d.axis, outer, inner], by: d.i, "predicated": true }]);
        let refused = outcome(by, d.text());
        assert!(
            matches!(&refused, Err(TeError::Schedule(ScheduleError::Json { reason })) if reason == "i is no size"),
            "{refused:?}"
        );
    }
}

/// The sum over an axis of what `source` builds from its value.
fn reduction(d: &mut Document, axis: usize, source: impl FnOnce(&mut Document, usize) -> usize) -> usize {
    let var = |d: &mut Document, name: &str| {
        d.add(json!({ "node": "variable", "name": name, "type": "f32", "counter": false }))
    };
    let (a, b) = (var(d, "a"), var(d, "b"));
    let [x, y] = [a, b].map(|var| d.add(json!({ "node": "value", "of": var })));
    let sum = d.binary("add", x, y);
    let zero = d.add(json!({ "node": "float", "type": "f32", "value": "0" }));
    let k = d.add(json!({ "node": "value", "of": axis }));
    let source = source(d, k);
    let all = d.add(json!({ "node": "int", "type": "bool", "value": 1 }));
    let reduction = d.add(json!({
        "node": "reduction", "left": [a], "right": [b], "result": [sum], "identity": [zero], "commutative": true,
        "source": [source], "init": [], "axes": [axis], "condition": all,
    }));
    d.add(json!({ "node": "reduced", "reduction": reduction, "index": 0 }))
}

#[test]
fn shared_reductions() {
    let mut d = Document::new();
    let axis = d.new_axis("reduce", d.eight);
    let body = reduction(&mut d, axis, |d, k| {
        let x = d.read(d.x, &[k]);
        doubled(d, "mul", x)
    });
    let y = d.compute(&[d.axis], &[body]);
    d.stage(y, &[d.axis, axis]);
    assert_eq!(outcome("a source", d.text()), Ok(vec![8.0; 8]));
    // The combination, the identity and the condition.
    for part in ["result", "identity", "condition", "init"] {
        let mut d = Document::new();
        let axis = d.new_axis("reduce", d.eight);
        let body = reduction(&mut d, axis, |d, k| d.read(d.x, &[k]));
        let mut reduced = d.nodes.pop().expect("it was added");
        let mut node = d.nodes.pop().expect("it was added");
        let old = node[part][0].as_u64().or(node[part].as_u64()).map_or(d.i, |place| place as usize);
        let shared = doubled(&mut d, if part == "condition" { "and" } else { "add" }, old);
        node[part] = if part == "condition" { json!(shared) } else { json!([shared]) };
        let place = d.add(node);
        reduced["reduction"] = json!(place);
        let body = if body > 0 { d.add(reduced) } else { body };
        let y = d.compute(&[d.axis], &[body]);
        d.stage(y, &[d.axis, axis]);
        let _ = outcome(part, d.text());
    }
}

/// Operations that each read the previous one twice, at indices that `index` makes from 0 and 1.
fn stages(count: usize, inlined: bool, index: impl Fn(&mut Document, usize) -> usize) -> String {
    let mut d = Document::new();
    let mut before = d.x;
    for step in 0..count {
        let axis = d.new_axis("data", d.eight);
        d.i = d.add(json!({ "node": "value", "of": axis }));
        let reads = [0, 1].map(|which| {
            let index = index(&mut d, which);
            d.read(before, &[index])
        });
        let half = d.add(json!({ "node": "float", "type": "f32", "value": "0.5" }));
        let sum = d.binary("add", reads[0], reads[1]);
        let body = d.binary("mul", sum, half);
        before = d.compute(&[axis], &[body]);
        let stage = d.stage(before, &[axis]);
        if inlined && step + 1 < count {
            d.stages[stage]["place"] = json!("inline");
        }
    }
    d.text()
}

#[test]
fn shared_operations() {
    let same = |d: &mut Document, _| d.i;
    assert_eq!(outcome("stages", stages(60, false, same)), Ok(vec![1.0; 8]));
    assert_eq!(outcome("inlined stages", stages(60, true, same)), Ok(vec![1.0; 8]));
    // Two indices each: there are as many in all as stages, or twice as many with every stage.
    let mixed = |d: &mut Document, which: usize| {
        let seven = d.int(7);
        let (double, which) = (d.binary("add", d.i, d.i), d.int(which as i64));
        let index = d.binary("add", double, which);
        d.binary("min", index, seven)
    };
    assert_eq!(outcome("a tree of stages", stages(60, false, mixed)), Ok(vec![1.0; 8]));
    let refused = outcome("an inlined tree of stages", stages(60, true, mixed));
    assert!(matches!(refused, Err(TeError::Schedule(ScheduleError::Inlined { .. }))), "{refused:?}");
    let refused = outcome("a long chain of stages", stages(600, false, same));
    assert!(matches!(refused, Err(TeError::Expression(ExpressionError::Chained { .. }))), "{refused:?}");
    let refused = outcome("a long chain of inlined stages", stages(490, true, same));
    assert!(matches!(refused, Err(TeError::Expression(ExpressionError::Nested { .. }))), "{refused:?}");
}

/// `count` functions, each of which calls the previous one `times` times in a row; `y` is the last one's value.
fn functions(name: &str, count: usize, times: usize) -> String {
    let mut d = Document::new();
    let mut before = None;
    for step in 0..count {
        let mut steps = vec![json!({ "parameter": 0 })];
        for at in 0..times {
            steps.push(match before {
                Some(function) => json!({ "call": function, "operands": [at] }),
                None => json!({ "apply": "abs", "operands": [at] }),
            });
        }
        let body = json!({ "steps": steps, "names": [], "root": times });
        let name = format!("{name}{step}");
        let node = json!({ "node": "function", "name": name, "parameters": ["x"], "body": body, "cuda": null });
        before = Some(d.add(node));
    }
    let x = d.read(d.x, &[d.i]);
    let body = d.add(json!({ "node": "call", "function": before, "operands": [x] }));
    d.of(body)
}

#[test]
fn functions_that_call_functions() {
    assert_eq!(outcome("a few", functions("few", 8, 2)), Ok(vec![1.0; 8]));
    for _ in 0..2 {
        // Read again, they are compared with the functions that are kept.
        assert_eq!(outcome("many steps", functions("many", 1, 10_000)), Ok(vec![1.0; 8]));
        assert_eq!(outcome("a chain", functions("chain", 60, 1)), Ok(vec![1.0; 8]));
    }
    let refused = [
        outcome("doubling", functions("doubling", 60, 2)),
        outcome("a long chain", functions("long", 1000, 1)),
        outcome("too many steps", functions("steps", 1, 100_000)),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(TeError::Schedule(ScheduleError::JsonSize { .. }))), "{refused:?}");
    }
}

#[test]
fn depth() {
    for (op, count) in [("add", 20_000), ("mul", 630)] {
        let mut d = Document::new();
        let x = d.read(d.x, &[d.i]);
        let body = (0..count).fold(x, |sum, _| d.binary(op, sum, x));
        match outcome(op, d.of(body)) {
            Ok(values) => assert!(count == 630 && values == [1.0; 8]),
            Err(error) => assert!(
                count == 20_000 && matches!(error, TeError::Expression(ExpressionError::Nested { .. })),
                "{error}"
            ),
        }
    }
    // Many axes, and many values of one operation.
    for axes in [8, 100, 300, 5000] {
        let mut d = Document::new();
        let one = d.int(1);
        let mut all: Vec<usize> = (1..axes).map(|_| d.new_axis("data", one)).collect();
        all.push(d.axis);
        let body = d.read(d.x, &[d.i]);
        let inner = d.compute(&all, &[body]);
        d.stage(inner, &all);
        let mut indices = vec![d.int(0); axes - 1];
        let axis = d.new_axis("data", d.eight);
        indices.push(d.add(json!({ "node": "value", "of": axis })));
        let body = d.read(inner, &indices);
        let y = d.compute(&[axis], &[body]);
        d.stage(y, &[axis]);
        match outcome("axes", d.text()) {
            Ok(values) => assert!(axes < 256 && values == [1.0; 8]),
            Err(error) => assert!(
                axes > 256 && matches!(error, TeError::Lowering(LoweringError::NestedLoops { .. })),
                "{axes}: {error}"
            ),
        }
    }
    for values in [100, 600, 10_000] {
        let mut d = Document::new();
        let x = d.read(d.x, &[d.i]);
        let inner = d.compute(&[d.axis], &vec![x; values]);
        d.stage(inner, &[d.axis]);
        let axis = d.new_axis("data", d.eight);
        let i = d.add(json!({ "node": "value", "of": axis }));
        let body = d.read(inner, &[i]);
        let y = d.compute(&[axis], &[body]);
        d.stage(y, &[axis]);
        match outcome("values", d.text()) {
            Ok(made) => assert!(values <= 600 && made == [1.0; 8]),
            Err(error) => assert!(
                values > 600 && matches!(error, TeError::Lowering(LoweringError::NestedLoops { .. })),
                "{values}: {error}"
            ),
        }
    }
}

/// `y` with its loop split `count` times in a row.
fn splits(count: usize, by: i64) -> String {
    let mut d = Document::new();
    let factor = d.int(by);
    let body = d.read(d.x, &[d.i]);
    let y = d.compute(&[d.axis], &[body]);
    let (mut relations, mut loops, mut last) = (Vec::new(), Vec::new(), d.axis);
    for _ in 0..count {
        let [outer, inner] =
            [(); 2].map(|()| d.add(json!({ "node": "axis", "name": "s", "kind": "data", "domain": null })));
        relations.push(json!({ "split": [last, outer, inner], "factor": factor, "predicated": true }));
        loops.push(outer);
        last = inner;
    }
    loops.push(last);
    let stage = d.stage(y, &loops);
    d.stages[stage]["relations"] = json!(relations);
    d.text()
}

#[test]
fn splits_of_splits() {
    for by in [1, 3] {
        for count in [10, 100] {
            assert_eq!(outcome("splits", splits(count, by)), Ok(vec![1.0; 8]), "{count} by {by}");
        }
        for count in [200, 10_000] {
            let refused = outcome("many splits", splits(count, by));
            assert!(matches!(refused, Err(TeError::Lowering(LoweringError::NestedLoops { .. }))), "{refused:?}");
        }
    }
}

/// Stages that are each computed in a loop of the next, in nested groups.
fn placed(count: usize, groups: usize) -> String {
    let mut d = Document::new();
    d.groups = (0..groups)
        .map(|group| json!({ "parent": (group > 0).then(|| json!({ "group": group - 1 })), "at": null }))
        .collect();
    let (mut before, mut places) = (d.x, Vec::new());
    for _ in 0..count {
        let axis = d.new_axis("data", d.eight);
        let i = d.add(json!({ "node": "value", "of": axis }));
        let body = d.read(before, &[i]);
        before = d.compute(&[axis], &[body]);
        let stage = d.stage(before, &[axis]);
        places.push((stage, before, axis));
    }
    for pair in places.windows(2) {
        let [(stage, ..), (_, operation, axis)] = pair else { continue };
        d.stages[*stage]["place"] = json!({ "at": [operation, axis] });
        if groups > 0 {
            d.stages[*stage]["group"] = json!(groups - 1);
        }
    }
    d.text()
}

#[test]
fn places_and_groups_in_each_other() {
    for groups in [0, 1, 256] {
        assert_eq!(outcome("places", placed(100, groups)), Ok(vec![1.0; 8]), "{groups} groups");
        let refused = outcome("many places", placed(400, groups));
        assert!(matches!(refused, Err(TeError::Lowering(LoweringError::NestedLoops { .. }))), "{refused:?}");
    }
    let refused = outcome("many groups", placed(2, 257));
    assert!(
        matches!(refused, Err(TeError::Schedule(ScheduleError::JsonSize { what: "groups", given: 257, most: 256 }))),
        "{refused:?}"
    );
    let mut circle: Value = serde_json::from_str(&placed(3, 3)).expect("JSON");
    circle["schedule"]["groups"][0]["parent"] = json!({ "group": 2 });
    let refused = outcome("a circle", circle.to_string()).map_err(|error| error.to_string());
    assert_eq!(refused, Err("this text is not a saved schedule: a group is inside itself".to_owned()));
}

#[test]
fn size() {
    let text = format!("\"{}\"", "x".repeat(4 << 20));
    let refused = Schedule::from_json(&text).map(|_| ()).expect_err("it is long").to_string();
    assert_eq!(refused, "a schedule of 4194306 bytes is not read; there may be up to 4194304");
    let mut d = Document::new();
    for value in 0..1 << 15 {
        d.int(value);
    }
    let refused = Schedule::from_json(&d.text()).map(|_| ()).expect_err("it has many nodes").to_string();
    assert_eq!(refused, "a schedule of 32773 nodes is not read; there may be up to 32768");
    // A few nodes that many operations share.
    let mut d = Document::new();
    let zero = d.int(0);
    let first = d.read(d.x, &[zero]);
    let large = (0..600).fold(first, |sum, _| d.binary("add", sum, first));
    for _ in 0..900 {
        let axis = d.new_axis("data", d.eight);
        let y = d.compute(&[axis], &[large]);
        d.stage(y, &[axis]);
    }
    let refused = outcome("shared by operations", d.text());
    assert!(matches!(refused, Err(TeError::Schedule(ScheduleError::JsonSize { most: 131_072, .. }))), "{refused:?}");
    // Deeply nested text.
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(matches!(outcome("brackets", text), Err(TeError::Schedule(ScheduleError::Json { .. }))));
    }
    for number in ["1e400", "-1e400", "18446744073709551616", "1e-400", "0.5", "-9223372036854775809"] {
        let mut d = Document::new();
        let body = d.read(d.x, &[d.i]);
        let text = d.of(body).replace("\"value\":8", &format!("\"value\":{number}"));
        assert!(matches!(outcome(number, text), Err(TeError::Schedule(ScheduleError::Json { .. }))), "{number}");
    }
}

#[test]
fn an_operation_that_contradicts_its_origin() {
    // The stage computes something else than `y`, with another extent, type, number of dimensions or number of values.
    for other in ["extent", "symbol", "type", "rank", "values", "kind", "nothing"] {
        let mut d = Document::new();
        let x = d.read(d.x, &[d.i]);
        let y = d.compute(&[d.axis], &[x]);
        let extent = match other {
            "extent" => d.int(9),
            "symbol" => {
                let n = d.add(json!({ "node": "variable", "name": "n", "type": "i32", "counter": false }));
                d.add(json!({ "node": "value", "of": n }))
            }
            _ => d.eight,
        };
        let axis = d.new_axis("data", extent);
        let i = d.add(json!({ "node": "value", "of": axis }));
        let read = d.read(d.x, &[i]);
        let double = d.add(json!({ "node": "cast", "type": "f64", "operands": [read] }));
        let second = d.new_axis("data", d.eight);
        let (axes, body) = match other {
            "type" => (vec![axis], vec![double]),
            "rank" => (vec![axis, second], vec![read]),
            "values" => (vec![axis], vec![read, read]),
            _ => (vec![axis], vec![read]),
        };
        let operation = d.compute(&axes, &body);
        let operation = if other == "kind" { d.x } else { operation };
        let loops = if other == "kind" { &[][..] } else { &axes };
        let stage = d.stage(operation, loops);
        d.stages[stage]["origin"] = json!(y);
        let text = d.text().replace(&format!("\"outputs\":[{operation}]"), &format!("\"outputs\":[{y}]"));
        match outcome(other, text) {
            Ok(values) => assert!(other == "nothing" && values == [1.0; 8], "{other}"),
            Err(error) => {
                assert_ne!(other, "nothing", "{error}");
                assert!(error.to_string().contains("is computed as something else"), "{error}");
            }
        }
    }
}

#[test]
fn ranges_that_no_index_has() {
    for extent in [-1, 1 << 31, i64::MAX, i64::MIN] {
        let mut d = Document::new();
        let size = d.add(json!({ "node": "int", "type": "i64", "value": extent }));
        let axis = d.new_axis("data", size);
        let i = d.add(json!({ "node": "value", "of": axis }));
        let body = d.read(d.x, &[i]);
        let y = d.compute(&[axis], &[body]);
        d.stage(y, &[axis]);
        assert!(
            matches!(outcome("an extent", d.text()), Err(TeError::Expression(ExpressionError::Extent { .. }))),
            "{extent}"
        );
    }
    let mut d = Document::new();
    let one = d.int(1);
    let axis = d.add(json!({ "node": "axis", "name": "i", "kind": "data", "domain": [one, d.eight] }));
    let i = d.add(json!({ "node": "value", "of": axis }));
    let body = d.read(d.x, &[i]);
    let y = d.compute(&[axis], &[body]);
    d.stage(y, &[axis]);
    assert!(matches!(outcome("a first index", d.text()), Err(TeError::Schedule(ScheduleError::Json { .. }))));
    // Threads that don't exist.
    for name in ["threadIdx.x", "blockIdx.x", "vthread"] {
        let mut d = Document::new();
        let none = d.int(0);
        let thread = d.add(json!({ "node": "axis", "name": name, "kind": "thread", "domain": null }));
        let axis = d.new_axis("reduce", none);
        let body = reduction(&mut d, axis, |d, _| d.read(d.x, &[d.i]));
        let y = d.compute(&[d.axis], &[body]);
        let stage = d.stage(y, &[d.axis, axis]);
        d.stages[stage]["threads"] = json!([[axis, thread]]);
        match outcome(name, d.text()) {
            Ok(values) => assert_eq!(values, [0.0; 8], "{name}"),
            Err(error) => assert!(!matches!(error, TeError::Run(RunError::Failed { .. })), "{name}: {error}"),
        }
    }
}

#[test]
fn stages_of_a_scan() -> Result<(), TeError> {
    // Each reads the previous one at two steps: there are as many different steps as stages.
    let scan = |count: usize| -> Result<Tensor, TeError> {
        let state = te::placeholder([2000, 8], "state");
        let init = te::compute([1000, 8], "init", |[_, i]| te::Expr::from(i).cast(ElementType::F32))?;
        let body = (0..count).try_fold(state.clone(), |before, _| {
            te::compute([2000, 8], "u", |[t, i]| before.at((t - 1, i)) + before.at((t - 2, i)))
        })?;
        te::scan(&init, &body, &state, &[])
    };
    let scanned = scan(20)?;
    te::lower(&te::create_schedule(&[&scanned]), &[&scanned], "main")?;
    let refused = scan(400).map(|_| ());
    assert!(matches!(refused, Err(TeError::Scan(ScanError::Steps { most: 4096, .. }))), "{refused:?}");
    // In a row, at one step: lowered at once.
    let state = te::placeholder([20, 8], "state");
    let init = te::compute([1, 8], "init", |[_, i]| te::Expr::from(i).cast(ElementType::F32))?;
    let first = te::compute([20, 8], "u", |[t, i]| state.at((t - 1, i)) + 1.0)?;
    let body = (0..450).try_fold(first, |before, _| te::compute([20, 8], "u", |[t, i]| before.at([t, i]) + 1.0))?;
    let scanned = te::scan(&init, &body, &state, &[])?;
    let start = std::time::Instant::now();
    let text = te::create_schedule(&[&scanned]).to_json(&[&scanned])?;
    let (read, tensors) = Schedule::from_json(&text)?;
    te::lower(&read, &[&tensors[0]], "main")?;
    assert!(start.elapsed() < MOST);
    Ok(())
}

#[test]
fn functions_that_differ_in_a_sign() {
    let divided = |number: &str| {
        let mut d = Document::new();
        let steps = json!([{ "parameter": 0 }, { "literal": number }, { "apply": "div", "operands": [0, 1] }]);
        let body = json!({ "steps": steps, "names": [], "root": 2 });
        let function = json!({ "node": "function", "name": "by", "parameters": ["x"], "body": body, "cuda": null });
        let function = d.add(function);
        let x = d.read(d.x, &[d.i]);
        let body = d.add(json!({ "node": "call", "function": function, "operands": [x] }));
        d.of(body)
    };
    assert_eq!(outcome("a zero", divided("0.0")), Ok(vec![f64::INFINITY; 8]));
    assert_eq!(outcome("its negative", divided("-0.0")), Ok(vec![f64::NEG_INFINITY; 8]));
}
