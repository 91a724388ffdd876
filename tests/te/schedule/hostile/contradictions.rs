//! Documents that contradict themselves.

use epilogue::ElementType;
use epilogue::te::{self, ExpressionError, RunError, ScanError, Schedule, ScheduleError, TeError, Tensor};
use serde_json::json;

use super::document::{Document, reduction};
use super::{MOST, outcome};

/// A number that depends on a loop is not a factor, though it is an integer.
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
            matches!(&refused, Err(TeError::Schedule(ScheduleError::Json { reason })) if reason == "i is not a size"),
            "{refused:?}"
        );
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
