//! Documents with so much sharing that their trees would have 2^60 leaves.

use epilogue::te::{ExpressionError, ScheduleError, TeError};
use serde_json::json;

use super::document::{Document, chosen, doubled, reduction};
use super::outcome;

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

/// `count` functions that each call the previous one `times` times in a row; `y` is the last one's value.
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
