//! Documents that nest deeply, or whose sizes are out of all proportion.

use epilogue::te::{ExpressionError, LoweringError, Schedule, ScheduleError, TeError};
use serde_json::{Value, json};

use super::document::Document;
use super::outcome;

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
    // In a part, where it is read whole before it is understood.
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for (depth, part) in [(100, "\"value\":8"), (100_000, "\"value\":8"), (100, "\"relations\":[]")] {
            let mut d = Document::new();
            let body = d.read(d.x, &[d.i]);
            let (name, _) = part.split_once(':').expect("a member");
            let nested = format!("{name}:{}1{}", open.repeat(depth), close.repeat(depth));
            let refused = outcome(part, d.of(body).replace(part, &nested));
            assert!(matches!(refused, Err(TeError::Schedule(ScheduleError::Json { .. }))), "{refused:?}");
        }
    }
    for number in ["1e400", "-1e400", "18446744073709551616", "1e-400", "0.5", "-9223372036854775809"] {
        let mut d = Document::new();
        let body = d.read(d.x, &[d.i]);
        let text = d.of(body).replace("\"value\":8", &format!("\"value\":{number}"));
        assert!(matches!(outcome(number, text), Err(TeError::Schedule(ScheduleError::Json { .. }))), "{number}");
    }
}
