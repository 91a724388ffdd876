//! Functions and names from saved schedules are kept as long as the process lives, up to limits: beyond them they are
//! refused, and those that are kept can still be read. This is a separate program, because tests in one process share
//! what is kept.

#![allow(clippy::unwrap_used, reason = "tests")]

use epilogue::te::{Schedule, ScheduleError, TeError};
use serde_json::{Value, json};

/// A document of functions that are used by nobody, and one operation.
fn document(functions: impl Iterator<Item = (String, String)>) -> String {
    let mut nodes = vec![
        json!({ "node": "int", "type": "i32", "value": 8 }),
        json!({ "node": "placeholder", "name": "x", "type": "f32", "shape": [0] }),
    ];
    nodes.extend(functions.map(|(name, number)| {
        let body = json!({ "steps": [{ "parameter": 0 }, { "literal": number }], "names": [], "root": 1 });
        json!({ "node": "function", "name": name, "parameters": ["x"], "body": body, "cuda": null })
    }));
    let stage = json!({
        "origin": 1, "operation": 1, "relations": [], "loops": [], "kinds": [], "threads": [], "place": "root",
        "scan": null, "group": null, "time": null, "scope": null, "store_predicate": null, "env_threads": [],
        "pragmas": [], "aligned": [], "double_buffer": false, "rolling_buffer": false, "prefetches": [],
    });
    json!({
        "format": "epilogue.te.schedule", "version": 1, "nodes": nodes,
        "schedule": { "stages": [stage], "outputs": [1], "groups": [], "scan_groups": [] },
        "record": [], "tensors": [[1, 0]],
    })
    .to_string()
}

fn read(text: &str) -> Result<(), TeError> {
    Schedule::from_json(text).map(|_| ())
}

#[test]
fn functions_and_names_have_limits() {
    let one = |number: &str| document(std::iter::once(("f".to_owned(), number.to_owned())));
    // NaN is one function, however often it is read, as a zero and its negative are two.
    for _ in 0..10_000 {
        read(&one("NaN")).unwrap();
    }
    let many = |from: usize| document((from..from + 1000).map(|n| ("g".to_owned(), format!("{n}.0"))));
    let refused = (0..10).map(|block| read(&many(block * 1000))).find_map(Result::err).unwrap().to_string();
    assert!(refused.contains("up to 4096 different ones"), "{refused}");
    // Kept functions are read, new ones are not.
    read(&one("NaN")).unwrap();
    read(&many(0)).unwrap();
    assert!(matches!(read(&one("-7.5")), Err(TeError::Schedule(ScheduleError::Json { .. }))));
    // 4 MiB of names: then functions are refused, and variables are called `v`.
    let long = |n: usize| document(std::iter::once((format!("{n}{}", "n".repeat(1 << 20)), "NaN".to_owned())));
    let refused = (0..8).map(|n| read(&long(n)).unwrap_err().to_string()).collect::<Vec<_>>();
    assert!(refused[7].contains("too many different names"), "{refused:?}");
    let mut named: Value = serde_json::from_str(&document(std::iter::empty())).unwrap();
    named["nodes"][0] = json!({ "node": "int", "type": "i32", "value": 4 });
    named["nodes"].as_array_mut().unwrap().push(json!({
        "node": "variable", "name": "m".repeat(1 << 20), "type": "i32", "counter": false,
    }));
    read(&named.to_string()).unwrap();
}
