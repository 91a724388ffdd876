//! Saved schedules whose stages were given other operations by primitives, with one number changed: each is refused, or
//! computes what its expression says.

use std::collections::HashSet;

use epilogue::te::{self, Array, Expr, Schedule, TeError, Tensor};
use epilogue_runtime::testing::cases;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::values::integers;

/// Extents of the inputs below.
const ROWS: usize = 6;
const COLUMNS: usize = 7;

/// A product of matrices with caches and a factored sum.
fn product() -> Result<String, TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let (a, b) = (te::placeholder([n, m], "A"), te::placeholder([n, m], "B"));
    let k = te::reduce_axis((0, m), "k");
    let c = te::compute([n, n], "C", |[i, j]| te::sum(a.at([i, k]) * b.at([j, k]), [k]))?;
    let mut s = te::create_schedule(&[&c]);
    s.cache_read(&a, "global", &[&c])?;
    let (outer, inner) = s.stage(&c)?.split(c.axis(0)?, 4)?;
    s.stage(&c)?.reorder(&[outer, c.axis(1)?, inner])?;
    let cache = s.cache_write(&c, "global")?;
    let over = s.operation(&cache)?.reduce_axis(0)?;
    let (over, _) = s.stage(&cache)?.split(over, 2)?;
    let partial = s.rfactor(&cache, over)?;
    s.cache_read(&b, "global", &[&partial])?;
    s.to_json(&[&a, &b, &c])
}

/// A gather of padded rows, whose cache has a fused dimension.
fn gather() -> Result<String, TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let (a, b) = (te::placeholder([n, m], "A"), te::placeholder([n, m], "B"));
    let c = te::compute([n, n], "C", |[i, j]| {
        let at = b.at([i.into(), Expr::from(0)]).cast(te::DType::I32).max(0).min(m - 1);
        j.less(i).select(a.at([j.into(), at]), 2.0)
    })?;
    let mut s = te::create_schedule(&[&c]);
    s.cache_read(&a, "global", &[&c])?;
    s.stage(&c)?.fuse(c.axis(0)?, c.axis(1)?)?;
    s.cache_write(&c, "global")?;
    s.to_json(&[&a, &b, &c])
}

/// Numbers of a document that name a part or are one, by their paths. Numbers of reducers are left out: another reducer
/// may give another result in another order.
fn numbers(document: &Value) -> Vec<Vec<String>> {
    let nodes = document["nodes"].as_array().expect("nodes");
    let mut reducers: HashSet<u64> = HashSet::new();
    let places = |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect::<Vec<u64>>();
    let mut pending: Vec<u64> = nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node["node"] == "reduction")
        .flat_map(|(place, node)| {
            let parts = ["left", "right", "result", "identity"].map(|part| places(&node[part]));
            parts.into_iter().flatten().chain([place as u64]).collect::<Vec<u64>>()
        })
        .collect();
    while let Some(place) = pending.pop() {
        if reducers.insert(place) && nodes[place as usize]["node"] != "reduction" {
            pending.extend(places(&nodes[place as usize]["operands"]));
        }
    }
    let mut all = Vec::new();
    collect(document, &mut Vec::new(), &mut all);
    all.retain(|path: &Vec<String>| match path[0].as_str() {
        "nodes" => !path[1].parse::<u64>().is_ok_and(|place| reducers.contains(&place)),
        other => other == "schedule",
    });
    all
}

fn collect(value: &Value, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    match value {
        Value::Number(_) => all.push(path.clone()),
        Value::Object(members) => members.iter().for_each(|(name, inner)| {
            path.push(name.clone());
            collect(inner, path, all);
            path.pop();
        }),
        Value::Array(elements) => elements.iter().enumerate().for_each(|(at, inner)| {
            path.push(at.to_string());
            collect(inner, path, all);
            path.pop();
        }),
        _ => {}
    }
}

fn at<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match value {
        Value::Array(elements) => &mut elements[step.parse::<usize>().expect("a place")],
        other => &mut other[step.as_str()],
    })
}

/// The result; `None` if the interpreter refuses to run it.
fn computed(schedule: &Schedule, tensors: &[Tensor]) -> Result<Option<Vec<f64>>, TeError> {
    let program = te::lower(schedule, &tensors.iter().collect::<Vec<_>>(), "main")?;
    let shape = |tensor: &Tensor| if tensor.name() == "C" { [ROWS, ROWS] } else { [ROWS, COLUMNS] };
    let mut arrays = Vec::new();
    for (number, tensor) in tensors.iter().enumerate() {
        arrays.push(match tensor.name().as_str() {
            "C" => Array::unwritten(tensor.dtype(), &shape(tensor)),
            _ => Array::new(tensor.dtype(), &shape(tensor), &integers(ROWS * COLUMNS, number as u64))?,
        });
    }
    let ran = program.interpret(&mut arrays);
    let made = arrays.iter().zip(tensors).find(|(_, tensor)| tensor.name() == "C").map(|(array, _)| array);
    Ok(made.filter(|made| ran.is_ok() && made.is_complete()).map(Array::values))
}

/// Whether a document is read and run.
fn check(text: &str, what: &str) -> bool {
    let Ok((schedule, tensors)) = Schedule::from_json(text) else { return false };
    let Some(output) = tensors.iter().find(|tensor| tensor.name() == "C") else { return false };
    let wanted = computed(&te::create_schedule(&[output]), &tensors);
    let Ok(Some(wanted)) = wanted else { return false };
    match computed(&schedule, &tensors) {
        Ok(Some(made)) => assert_eq!(made, wanted, "{what}"),
        Ok(None) => panic!("{what}: it doesn't run, but its expression does"),
        // A primitive whose conditions don't hold.
        Err(_) => return false,
    }
    true
}

#[test]
fn a_stage_computes_its_origin() -> Result<(), TeError> {
    let mut random = Rng::with_seed(11);
    for (name, text) in [("the product", product()?), ("the gather", gather()?)] {
        assert!(check(&text, name), "{name} is read as it is");
        let document: Value = serde_json::from_str(&text).expect("JSON");
        let all = numbers(&document);
        let (mut read, mut refused) = (0, 0);
        for _ in 0..cases(400) {
            let path = &all[random.usize(..all.len())];
            let mut changed = document.clone();
            let value = at(&mut changed, path);
            let old = value.as_i64().expect("a number");
            let new = [old + 1, old - 1, old + 2, 0, random.i64(0..all.len() as i64)][random.usize(..5)];
            *value = json!(new);
            let is_read = check(&changed.to_string(), &format!("{name}, {} from {old} to {new}", path.join("/")));
            *(if is_read { &mut read } else { &mut refused }) += 1;
        }
        assert!(read > 0 && refused > 0, "{name}: {read} are read, {refused} refused");
    }
    Ok(())
}

/// A cache that is read at an index from data has every element that the index can name, or its tensor lacks it, too.
#[test]
fn caches_have_the_elements_that_data_ask_for() -> Result<(), TeError> {
    let mut document: Value = serde_json::from_str(&gather()?).expect("JSON");
    let place = |value: &Value| value.as_u64().expect("a place") as usize;
    let nodes = document["nodes"].as_array_mut().expect("nodes");
    let cache = nodes.iter().position(|node| node["node"] == "compute" && node["name"] == "A.global").expect("a cache");
    let [rows, columns] = [0, 1].map(|d| place(&nodes[cache]["axes"][d]));
    // As many columns as rows; the index is clamped to the columns of A.
    nodes[columns]["domain"] = nodes[rows]["domain"].clone();
    let refused = Schedule::from_json(&document.to_string()).map(|_| ()).expect_err("the cache is too small");
    assert!(refused.to_string().contains("an element that the stage it is computed from doesn't have"), "{refused}");
    // An index that may lie outside of A.
    let (n, m) = (te::var("n"), te::var("m"));
    let (a, b) = (te::placeholder([n, m], "A"), te::placeholder_of(te::DType::I32, [n], "B"));
    let c = te::compute([n, n], "C", |[i, j]| a.at([j.into(), b.at([i]) + 1]))?;
    let mut s = te::create_schedule(&[&c]);
    s.cache_read(&a, "global", &[&c])?;
    Schedule::from_json(&s.to_json(&[&a, &b, &c])?).map(|_| ())
}

/// A stage of its own may limit the index, or nothing does: a cache that is too small is refused, too.
#[test]
fn caches_have_the_elements_that_stages_ask_for() -> Result<(), TeError> {
    for limited in [true, false] {
        let (n, m) = (te::var("n"), te::var("m"));
        let (a, b) = (te::placeholder([n, m], "A"), te::placeholder_of(te::DType::I32, [n], "B"));
        let last = if limited { Expr::from(m) - 1 } else { Expr::from(i32::MAX) };
        let index =
            te::compute([n], "index", |[i]| b.at([i]).max(if limited { 0 } else { i32::MIN }).min(last.clone()))?;
        let c = te::compute([n, n], "C", |[i, j]| a.at([j.into(), index.at([i])]))?;
        let mut s = te::create_schedule(&[&c]);
        s.cache_read(&a, "global", &[&c])?;
        let text = s.to_json(&[&a, &b, &c])?;
        Schedule::from_json(&text).map(|_| ())?;
        let mut document: Value = serde_json::from_str(&text).expect("JSON");
        let nodes = document["nodes"].as_array_mut().expect("nodes");
        let cache = nodes.iter().position(|node| node["node"] == "compute" && node["name"] == "A.global");
        let axes = nodes[cache.expect("a cache")]["axes"].clone();
        let [rows, columns] = [0, 1].map(|d| axes[d].as_u64().expect("a place") as usize);
        nodes[columns]["domain"] = nodes[rows]["domain"].clone();
        let refused = Schedule::from_json(&document.to_string()).map(|_| ()).expect_err("the cache is too small");
        let reason = "an element that the stage it is computed from doesn't have";
        assert!(refused.to_string().contains(reason), "limited: {limited}: {refused}");
    }
    Ok(())
}

/// One that is read differs from what it was in a member that nobody knows, or in how a number is written.
#[test]
fn members_and_numbers_are_as_they_are_written() -> Result<(), TeError> {
    let document: Value = serde_json::from_str(&product()?).expect("JSON");
    let mut objects = Vec::new();
    fn visit(value: &Value, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
        let inner: Vec<(String, &Value)> = match value {
            Value::Object(members) => {
                all.push(path.clone());
                members.iter().map(|(name, inner)| (name.clone(), inner)).collect()
            }
            Value::Array(elements) => elements.iter().enumerate().map(|(at, inner)| (at.to_string(), inner)).collect(),
            _ => Vec::new(),
        };
        for (step, inner) in inner {
            path.push(step);
            visit(inner, path, all);
            path.pop();
        }
    }
    visit(&document, &mut Vec::new(), &mut objects);
    for path in &objects {
        let mut changed = document.clone();
        at(&mut changed, path)["more"] = json!(0);
        let error = Schedule::from_json(&changed.to_string()).map(|_| ()).expect_err(&path.join("/"));
        let relation = path.iter().any(|step| step == "relations");
        let reason =
            if relation { "a relation of loops is `split` of three" } else { "unknown field `more`, expected" };
        assert!(error.to_string().contains(reason), "{}: {error}", path.join("/"));
    }
    let all = numbers(&document);
    for path in all.iter().step_by(5) {
        for other in [json!(0.5), json!("0"), json!(true), json!(-1), json!(u64::MAX)] {
            let mut changed = document.clone();
            *at(&mut changed, path) = other.clone();
            let is_int = path[0] == "nodes" && path[path.len() - 1] == "value" && other == json!(-1);
            let read = Schedule::from_json(&changed.to_string());
            assert!(read.is_err() || is_int, "{} as {other}", path.join("/"));
        }
    }
    // As it was written.
    Schedule::from_json(&document.to_string()).map(|_| ())?;
    let float = |text: &str| document.to_string().replace("\"value\":\"0.0\"", &format!("\"value\":\"{text}\""));
    assert_ne!(float("1.5"), document.to_string());
    for other in ["0", "+0.0", "0e0", "0x0", " 0.0", "00.0", "infinity"] {
        assert!(Schedule::from_json(&float(other)).is_err(), "{other}");
    }
    Ok(())
}
