//! Schedules saved as JSON and read back: they give the same program, and mistakes are typed errors.

use epilogue::ElementType;
use epilogue::te::{self, Array, Expr, Schedule, TeError, Tensor};
use epilogue_runtime::testing::cases;
use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::values::integers;

/// The text of the program of a schedule after saving and reading.
fn read_back(s: &Schedule, tensors: &[&Tensor]) -> Result<String, TeError> {
    let text = s.to_json(tensors)?;
    let (read, found) = Schedule::from_json(&text)?;
    let found: Vec<&Tensor> = found.iter().collect();
    // A schedule that was read is written with the same text.
    assert_eq!(read.to_json(&found)?, text);
    let program = te::lower(&read, &found, "main")?;
    Ok(program.script())
}

fn stays(s: &Schedule, tensors: &[&Tensor]) -> Result<(), TeError> {
    let program = te::lower(s, tensors, "main")?;
    assert_eq!(read_back(s, tensors)?, program.script());
    Ok(())
}

#[test]
fn a_scheduled_reduction() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let p = te::compute([n, m], "P", |[i, j]| Expr::call(epilogue::ops::exp::function(), vec![a.at([i, j])]) * 0.1)?;
    let b = te::compute([n], "B", |[i]| te::max_reducer().over_where(p.at([i, k]), [k], Expr::from(k).not_equal(3)))?;
    let mut s = te::create_schedule(&[&b]);
    let (_, ki) = s.stage(&b)?.split(k, 16)?;
    let bf = s.rfactor(&b, ki)?;
    let i = s.operation(&b)?.axis(0)?;
    let over = s.operation(&b)?.reduce_axis(0)?;
    let tx = te::thread_axis("threadIdx.x");
    let stage = s.stage(&b)?;
    let (block, thread) = stage.split_by(i, te::SplitBy::Factor(32.into()), true)?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.y"))?;
    stage.bind(over, tx)?;
    stage.set_store_predicate(tx.var().equal(0))?;
    s.compute_at(&bf, &b, over)?;
    s.compute_inline(&p)?;
    stays(&s, &[&a, &b])
}

#[test]
fn scans_groups_tuples_and_virtual_threads() -> Result<(), TeError> {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let init = te::compute((1, n), "init", |[_, i]| x.at((0, i)))?;
    let twice = te::compute([m, n], "twice", |[t, i]| state.at((t - 1, i)) * 2.0)?;
    let update = te::compute([m, n], "update", |[t, i]| twice.at([t, i]) + x.at([t, i]))?;
    let scan = te::scan(&init, &update, &state, std::slice::from_ref(&x))?;
    let c = te::compute([m, n], "C", |[i, j]| scan.at([i, j]) + 1.0)?;
    let d = te::compute([m, n], "D", |[i, j]| c.at([i, j]) * 2.0)?;
    let e = te::compute_all([m, n], "E", |[i, j]| vec![d.at([i, j]) + 1.0, d.at([i, j]).cast(ElementType::F16)])?;
    let mut s = te::create_schedule(&[&e[0], &e[1]]);
    let (outer, inner) = s.stage(&update)?.split(update.axis(1)?, 32)?;
    s.compute_at(&twice, &update, outer)?;
    s.stage(&update)?.vectorize(inner)?;
    let time = s.stage(&scan)?.split(scan.scan_axis()?, 4)?;
    assert_eq!(time.0.name(), "scan.idx.outer");
    let caches = s.cache_write_all(&[&e[0], &e[1]], "local")?;
    let stage = s.stage(&e[0])?;
    let fused = stage.fuse(e[0].axis(0)?, e[0].axis(1)?)?;
    let (v, t) = stage.split(fused, 8)?;
    let (block, v) = stage.split(v, 2)?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(v, te::thread_axis("vthread"))?;
    stage.bind(t, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&caches[0], &e[0], t)?;
    let group = s.create_group(&[&d], &[&c], true)?;
    s.group_compute_at(group, &e[0], t)?;
    stays(&s, &[&x, &e[0], &e[1]])
}

/// A cache with more elements than the tensor starts from the identity outside of it.
#[test]
fn a_cache_over_padding_of_a_sum_from_a_value() -> Result<(), TeError> {
    let n = te::var("n");
    let (a, first) = (te::placeholder([n, n], "A"), te::placeholder([n], "first"));
    let k = te::reduce_axis((0, n), "k");
    let b = te::compute([n], "B", |[i]| te::max_reducer().over_from(a.at([i, k]), [k], first.at([i])))?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.split(b.axis(0)?, 2)?;
    let cache = s.cache_write(&b, "local")?;
    stays(&s, &[&a, &first, &b])?;
    s.stage(&cache)?.split(cache.axis(0)?, 3)?;
    s.cache_write(&cache, "global")?;
    stays(&s, &[&a, &first, &b])
}

#[test]
fn functions_and_numbers_are_kept() -> Result<(), TeError> {
    let a = te::placeholder([5], "A");
    let b = te::compute([5], "B", |[i]| {
        let x = Expr::call(epilogue::ops::gelu::function(), vec![a.at([i])]);
        x * f64::from(f32::MIN_POSITIVE) + f64::INFINITY - Expr::call(epilogue::ops::silu::function(), vec![a.at([i])])
    })?;
    let s = te::create_schedule(&[&b]);
    stays(&s, &[&a, &b])?;
    let (read, tensors) = Schedule::from_json(&s.to_json(&[&a, &b])?)?;
    let run = |s: &Schedule, tensors: &[&Tensor]| -> Result<Vec<u64>, TeError> {
        let input = Array::new(ElementType::F32, &[5], &[-1.0, 0.5, 2.0, f64::NAN, -0.0])?;
        let mut arguments = [input, Array::unwritten(ElementType::F32, &[5])];
        te::lower(s, tensors, "main")?.interpret(&mut arguments)?;
        Ok(arguments[1].values().iter().map(|x| x.to_bits()).collect())
    };
    assert_eq!(run(&read, &[&tensors[0], &tensors[1]])?, run(&s, &[&a, &b])?);
    Ok(())
}

#[test]
fn mistakes() -> Result<(), TeError> {
    let a = te::placeholder([8], "A");
    let b = te::compute([8], "B", |[i]| a.at([i]) * 2.0)?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.split(b.axis(0)?, 4)?;
    let text = s.to_json(&[&a, &b])?;
    let refused = |text: &str| Schedule::from_json(text).map(|_| ()).expect_err("a mistake was accepted").to_string();
    expect!["this text is not a saved schedule: it is not JSON: EOF while parsing an object at line 1 column 1"]
        .assert_eq(&refused("{"));
    expect![[r#"this text is not a saved schedule: its `format` is not "epilogue.te.schedule""#]]
        .assert_eq(&refused("{\"format\": \"something\"}"));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        change(&mut value);
        refused(&value.to_string())
    };
    expect!["this text is not a saved schedule: it is of version 2; version 1 can be read"]
        .assert_eq(&changed(&|value| value["version"] = json!(2)));
    expect!["this text is not a saved schedule: the loops of B are not those that its axes were made into"]
        .assert_eq(&changed(&|value| value["schedule"]["stages"][1]["loops"] = json!([])));
    expect!["this text is not a saved schedule: B can't be inlined"]
        .assert_eq(&changed(&|value| value["schedule"]["stages"][1]["place"] = json!("inline")));
    // The found part, and the allowed ones; then the place.
    let unread = |expected: &str, reason: &str| {
        let (reason, place) = reason.split_once(" at line 1 column ").expect("a place");
        assert_eq!(reason, format!("this text is not a saved schedule: {expected}"));
        assert!(place.parse::<usize>().is_ok(), "{place}");
    };
    let more = changed(&|value| value["nodes"][0]["more"] = json!(1));
    unread("unknown field `more`, expected `type` or `value`", &more);
    let number = changed(&|value| value["nodes"][0]["value"] = json!("8"));
    unread("invalid type: string \"8\", expected i64", &number);
    let dtype = changed(&|value| value["nodes"][0]["type"] = json!("i31"));
    assert!(dtype.contains("`i31` is none of `f64`, `f32`, `bf16`"), "{dtype}");
    let node = changed(&|value| value["nodes"][0]["node"] = json!("integer"));
    assert!(node.contains("unknown variant `integer`, expected one of `variable`, `axis`"), "{node}");
    let relation = changed(&|value| value["schedule"]["stages"][1]["relations"][0]["fuse"] = json!([]));
    assert!(relation.contains("`factor` or `parts` and with `predicated`; or `fuse` of three axes"), "{relation}");
    let place = changed(&|value| value["schedule"]["stages"][1]["place"] = json!({ "at": 1 }));
    unread("invalid type: integer `1`, expected a tuple of size 2", &place);
    unread("duplicate field `record`", &refused(&text.replacen("\"record\"", "\"record\":[],\"record\"", 1)));
    expect!["this text is not a saved schedule: node 1: node 1 is not an expression that is given before it is used"]
        .assert_eq(&changed(&|value| value["nodes"][1]["shape"] = json!([1])));
    let long = "m".repeat(1 << 20);
    assert!(changed(&|value| value[&long] = json!(1)).len() < 2000);
    let c = te::placeholder([8], "C");
    expect![
        "C is not part of this schedule; give a tensor from which its outputs are computed, or make a schedule of C"
    ]
    .assert_eq(&s.to_json(&[&c]).map(|_| ()).expect_err("not in the schedule").to_string());
    Ok(())
}

/// Every member removed, and every number changed, one at a time: the result is an error or a schedule, never a panic.
#[test]
fn damaged_text() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    let (_, ki) = s.stage(&b)?.split(k, 4)?;
    s.rfactor(&b, ki)?;
    let value: Value = serde_json::from_str(&s.to_json(&[&a, &b])?).expect("JSON");
    let mut count = 0;
    damage(&value, &mut |damaged| {
        count += 1;
        if let Ok((read, tensors)) = Schedule::from_json(&damaged.to_string()) {
            let tensors: Vec<&Tensor> = tensors.iter().collect();
            // The schedule can be lowered, or lowering refuses it.
            let _ = te::lower(&read, &tensors, "main");
        }
    });
    assert!(count > 300, "{count}");
    Ok(())
}

/// Calls `f` with every text that differs in one place.
fn damage(value: &Value, f: &mut dyn FnMut(Value)) {
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                let mut without = members.clone();
                without.remove(name);
                f(Value::Object(without));
                damage(inner, &mut |damaged| {
                    let mut other = members.clone();
                    other.insert(name.clone(), damaged);
                    f(Value::Object(other));
                });
            }
        }
        Value::Array(elements) => {
            for (place, inner) in elements.iter().enumerate() {
                let mut without = elements.clone();
                without.remove(place);
                f(Value::Array(without));
                damage(inner, &mut |damaged| {
                    let mut other = elements.clone();
                    other[place] = damaged;
                    f(Value::Array(other));
                });
            }
        }
        Value::Number(number) => {
            let number = number.as_i64().unwrap_or_default();
            for other in [number - 1, number + 1, 0, 1000] {
                f(json!(other));
            }
        }
        Value::Bool(truth) => f(json!(!truth)),
        Value::String(_) => f(json!("")),
        Value::Null => f(json!(0)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(40)) })]

    /// Any loops of a stencil: read back, they make the same program and the same numbers.
    #[test]
    fn any_loops(
        (rows, columns) in (1i32..6, 1i32..6), order in 0usize..5, mark in 0usize..4, place in 0usize..3, n in 1usize..9,
    ) {
        let size = te::var("n");
        let a = te::placeholder([size + 2], "A");
        let b = te::compute([size + 2], "B", |[i]| a.at([i]) * 3.0).unwrap();
        let d = te::reduce_axis((0, 3), "d");
        let c = te::compute([size], "C", |[i]| te::sum(b.at([i + d]), [d])).unwrap();
        let mut s = te::create_schedule(&[&c]);
        let stage = s.stage(&c).unwrap();
        let (io, ii) = stage.split(c.axis(0).unwrap(), rows).unwrap();
        let (outer, inner) = stage.split_parts(io, columns).unwrap();
        match order {
            0 => {}
            1 => stage.reorder(&[inner, outer]).unwrap(),
            2 => { stage.fuse(ii, d).unwrap(); }
            3 => { stage.fuse_all(&[outer, inner]).unwrap(); }
            _ => { stage.fuse_all(&[]).unwrap(); }
        }
        let first = stage.loops()[0];
        match mark {
            0 => {}
            1 => stage.parallel(first).unwrap(),
            2 => stage.unroll(first).unwrap(),
            _ => stage.bind(first, te::thread_axis("blockIdx.x")).unwrap(),
        }
        match place {
            0 => {}
            1 => s.compute_inline(&b).unwrap(),
            _ => s.compute_at(&b, &c, first).unwrap(),
        }
        stays(&s, &[&a, &c]).unwrap();
        let (read, tensors) = Schedule::from_json(&s.to_json(&[&a, &c]).unwrap()).unwrap();
        let values = integers(n + 2, 9);
        let run = |s: &Schedule, tensors: &[&Tensor]| {
            let input = Array::new(ElementType::F32, &[n + 2], &values).unwrap();
            let mut arguments = [input, Array::unwritten(ElementType::F32, &[n])];
            te::lower(s, tensors, "main").unwrap().interpret(&mut arguments).map(|()| arguments[1].values())
        };
        prop_assert_eq!(run(&read, &[&tensors[0], &tensors[1]]), run(&s, &[&a, &c]));
    }
}

/// Marks on a loop are valid until the loop is replaced: loops that start a reduction don't inherit them.
#[test]
fn what_was_said_of_loops_that_are_fused() -> Result<(), TeError> {
    let a = te::placeholder([8, 21], "A");
    let k = te::reduce_axis((0, 21), "k");
    let b = te::compute([8], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    let i = b.axis(0)?;
    let plain = |s: &Schedule| Ok::<_, TeError>(te::lower(s, &[&a, &b], "main")?.script());
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.fuse(i, k)?;
    let expected = plain(&s)?;
    type Say<'a> = &'a dyn Fn(&mut Schedule) -> Result<(), TeError>;
    let said: [Say<'_>; 3] =
        [&|s| s.stage(&b)?.vectorize(i), &|s| s.stage(&b)?.pragma(i, "auto_unroll_max_step", 19), &|s| {
            s.stage(&b)?.prefetch(&a, i, 1)
        }];
    for say in said {
        let mut s = te::create_schedule(&[&b]);
        say(&mut s)?;
        s.stage(&b)?.fuse(i, k)?;
        assert_eq!(plain(&s)?, expected);
        stays(&s, &[&a, &b])?;
    }
    // Nor does a reader of a copy prefetch the tensor.
    let mut s = te::create_schedule(&[&b]);
    s.cache_read(&a, "local", &[&b])?;
    let expected = plain(&s)?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.prefetch(&a, i, 1)?;
    s.cache_read(&a, "local", &[&b])?;
    assert_eq!(plain(&s)?, expected);
    stays(&s, &[&a, &b])?;
    // A prefetch runs ahead of a loop in order, whichever was given first.
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.prefetch(&a, i, 1)?;
    let refused = s.stage(&b)?.bind(i, te::thread_axis("threadIdx.x")).map_err(|e| e.to_string());
    expect!["`bind` can't take i: a prefetch runs ahead of it, so it has to run in order"]
        .assert_eq(&refused.unwrap_err());
    Ok(())
}
