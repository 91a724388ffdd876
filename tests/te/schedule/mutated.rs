//! Saved schedules with random mistakes. A changed document is refused with a typed error, or its program gives equal
//! results in the interpreter and as native code. Nothing panics, and nothing takes long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use std::{fs, thread};

use epilogue::te::{self, Array, DType, ExpressionError, LoweringError, Program, RunError, Schedule, TeError, Tensor};
use epilogue::{Argument, Device};
use epilogue_runtime::testing::cases;
use fastrand::Rng;
use serde_json::{Value, json};

use super::{programs, random};
use crate::case::{Numbers, read};
use crate::schedule::replay::World;
use crate::schedule::trial::Generator;
use crate::values::integers;

/// Much longer than any document of a page takes on a busy machine.
const MOST: Duration = Duration::from_secs(60);

/// Stands for a number that exceeds every number type.
const TOO_LARGE: &str = "a number that is too large";

/// A saved schedule, and its arguments.
struct Document {
    text: String,
    inputs: Vec<Numbers>,
    outputs: Vec<Numbers>,
}

/// The outcome for a document.
#[derive(Clone, Copy, PartialEq)]
enum Became {
    Refused,
    /// Its loops or memory are too large to be run here.
    Large,
    Run,
}

fn document(random: &mut Rng) -> Option<Document> {
    let generators: [&Generator; 2] = [&random::GENERATOR, &programs::GENERATOR];
    let generator = generators[random.usize(..2)];
    let kind = random.usize(..(generator.kinds)().len());
    let case = (generator.case)(kind, random).ok()?;
    let mut world = World::new(&case);
    (generator.schedule)(&mut world, random);
    let text = world.schedule.to_json(&case.arguments()).ok()?;
    let numbers = |all: &[(Tensor, Numbers)]| all.iter().map(|(_, x)| x.clone()).collect();
    Some(Document { text, inputs: numbers(&case.inputs), outputs: numbers(&case.outputs) })
}

/// The path to a value: members by name, elements by index.
type Path = Vec<String>;

fn paths(value: &Value, path: &mut Path, all: &mut Vec<Path>) {
    all.push(path.clone());
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, inner)| (name.clone(), inner)).collect(),
        Value::Array(elements) => elements.iter().enumerate().map(|(at, inner)| (at.to_string(), inner)).collect(),
        _ => Vec::new(),
    };
    for (step, inner) in inner {
        path.push(step);
        paths(inner, path, all);
        path.pop();
    }
}

fn at<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match value {
        Value::Array(elements) => &mut elements[step.parse::<usize>().expect("a place")],
        other => &mut other[step.as_str()],
    })
}

/// Makes a reference point to another node of the same kind, or changes a small number.
fn mutate_gently(document: &mut Value, random: &mut Rng) {
    let mut all = Vec::new();
    paths(document, &mut Vec::new(), &mut all);
    all.retain(|path| at(document, path).is_u64() && path[0] == "nodes");
    let Some(path) = all.get(random.usize(..all.len().max(1))) else { return };
    let old = at(document, path).as_u64().unwrap_or(0);
    let is_number = ["value", "domain", "index"].contains(&path[path.len() - 1].as_str());
    let new = if is_number && at(document, path).is_u64() {
        [0, 1, 2, 3, 5, old.wrapping_add(1), old.saturating_sub(1), old.wrapping_mul(2)][random.usize(..8)]
    } else {
        let nodes = document["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let before: usize = path[1].parse().expect("a place");
        let kind = |place: usize| nodes.get(place).map(|node| node["node"].clone());
        let wanted = kind(usize::try_from(old).unwrap_or(0));
        let alike: Vec<usize> = (0..before).filter(|place| kind(*place) == wanted).collect();
        alike.get(random.usize(..alike.len().max(1))).map_or(old, |place| *place as u64)
    };
    *at(document, path) = json!(new);
}

/// Changes one thing.
fn mutate(document: &mut Value, random: &mut Rng) {
    let mut all = Vec::new();
    paths(document, &mut Vec::new(), &mut all);
    // The record is only text.
    all.retain(|path| path.first().is_none_or(|first| first != "record"));
    let path = all[random.usize(..all.len())].clone();
    let other = at(document, &all[random.usize(..all.len())].clone()).clone();
    let alike: Vec<Path> = {
        let own = std::mem::discriminant(at(document, &path));
        all.into_iter().filter(|other| std::mem::discriminant(at(document, other)) == own).collect()
    };
    let like = at(document, &alike[random.usize(..alike.len())].clone()).clone();
    let nodes = document["nodes"].as_array().map_or(1, |nodes| nodes.len().max(1)) as u64;
    let value = at(document, &path);
    match random.u32(..8) {
        0 => return *value = other,
        1 | 2 => return *value = like,
        _ => {}
    }
    match value {
        Value::Number(number) => {
            let old = number.as_i64().unwrap_or(0);
            let small =
                [0, 1, -1, 2, 3, 7, old.wrapping_add(1), old.wrapping_sub(1), old.wrapping_neg(), old.wrapping_mul(2)];
            let large = [json!(1i64 << 31), json!((1i64 << 31) - 1), json!(1u64 << 63), json!(i64::MIN), json!(1.5)];
            *value = match random.u32(..8) {
                0..4 => json!(small[random.usize(..small.len())]),
                4 | 5 => json!(random.u64(..nodes)),
                6 => large[random.usize(..large.len())].clone(),
                _ => json!(TOO_LARGE),
            };
        }
        Value::String(text) => {
            let others =
                ["", "nan", "inf", "-0.0", "1e400", "\u{0}", "i64", "f16", "u8", "bool", "vthread", "threadIdx.x"];
            *text = others[random.usize(..others.len())].to_owned();
        }
        Value::Bool(truth) => *truth = !*truth,
        Value::Null => *value = json!(random.u64(..nodes)),
        Value::Array(elements) => {
            let (a, b) = (random.usize(..=elements.len()), random.usize(..=elements.len()));
            let (first, second) = (a.min(elements.len().max(1) - 1), b.min(elements.len().max(1) - 1));
            match random.u32(..4) {
                _ if elements.is_empty() => elements.push(other),
                0 => drop(elements.remove(first)),
                1 => elements.insert(b, elements[first].clone()),
                2 => elements.swap(first, second),
                _ => elements[first] = elements[second].clone(),
            }
        }
        Value::Object(members) => {
            let names: Vec<String> = members.keys().cloned().collect();
            if names.is_empty() {
                return;
            }
            let (a, b) = (&names[random.usize(..names.len())], &names[random.usize(..names.len())]);
            match random.u32(..3) {
                0 => drop(members.remove(a)),
                1 => drop(members.insert(a.clone(), members[b].clone())),
                _ => drop(members.insert(a.clone(), other)),
            }
        }
    }
}

/// Numbers for a tensor's elements: the original ones, if it still has its shape.
fn argument(tensor: &Tensor, known: Option<&Numbers>) -> Option<Numbers> {
    let DType::Number(element) = tensor.dtype() else { return None };
    let old = |d: usize| known.and_then(|known| known.shape.get(d)).copied().unwrap_or(3);
    let extent = |(d, extent): (usize, &te::Expr)| match format!("{extent:?}").parse::<i64>() {
        Ok(constant) => usize::try_from(constant).ok(),
        Err(_) => Some(old(d)),
    };
    let shape = tensor.shape().iter().enumerate().map(extent).collect::<Option<Vec<usize>>>()?;
    let len = shape.iter().try_fold(1usize, |len, extent| len.checked_mul(*extent)).filter(|len| *len <= 1 << 16)?;
    let same = known.filter(|known| known.element == element && known.values.len() == len);
    // Numbers of any type: small, and not negative.
    let any = || integers(len, 5).into_iter().map(f64::abs).collect();
    Some(Numbers::new(element, &shape, same.map_or_else(any, |known| known.values.clone())))
}

/// Whether a program has a loop, launch or memory that is too large to run here.
fn is_large(script: &str) -> bool {
    let counted = |line: &&str| {
        ["for ", "launch_thread", "T.alloc", "T.allocate", "decl_buffer"].iter().any(|word| line.contains(word))
    };
    let numbers = |line: &str| {
        line.split(|c: char| !c.is_ascii_digit()).any(|word| word.len() > 4 || word.parse().is_ok_and(|n: u64| n > 600))
    };
    script.lines().filter(counted).any(numbers)
}

/// The outputs' elements; `None` for an output that is not completely written.
fn interpreted(program: &Program, inputs: usize, given: &[Numbers]) -> Result<Vec<Option<Vec<f64>>>, TeError> {
    let array = |(at, x): (usize, &Numbers)| match at < inputs {
        true => Array::new(x.element, &x.shape, &x.values),
        false => Ok(Array::unwritten(x.element, &x.shape)),
    };
    let mut arrays = given.iter().enumerate().map(array).collect::<Result<Vec<_>, _>>()?;
    program.interpret(&mut arrays)?;
    let values = |array: &Array| array.is_complete().then(|| array.values());
    Ok(arrays[inputs.min(given.len())..].iter().map(values).collect())
}

fn native(program: &Program, inputs: usize, given: &[Numbers]) -> Result<Vec<Vec<f64>>, TeError> {
    let device = Device::cpu();
    let kernel = program.build(&device)?;
    let split = inputs.min(given.len());
    let mut read_only: Vec<_> = given[..split].iter().map(|x| x.on(&device)).collect();
    let mut made: Vec<_> =
        given[split..].iter().map(|x| device.zeros_of(x.element, &x.shape)).collect::<Result<_, _>>()?;
    // Tensors that were inputs may now be written.
    let mut arguments: Vec<Argument<'_>> = read_only.iter_mut().map(Argument::from).collect();
    arguments.extend(made.iter_mut().map(Argument::from));
    kernel.run(&arguments)?;
    drop(arguments);
    Ok(made.iter().map(read).collect())
}

fn try_document(document: &Document) -> Result<Became, String> {
    let Ok((schedule, tensors)) = Schedule::from_json(&document.text) else { return Ok(Became::Refused) };
    let tensors: Vec<&Tensor> = tensors.iter().collect();
    let again = schedule.to_json(&tensors).map_err(|error| format!("what was read can't be written: {error}"))?;
    Schedule::from_json(&again).map_err(|error| format!("what was written can't be read: {error}"))?;
    let Ok(program) = te::lower(&schedule, &tensors, "main") else { return Ok(Became::Refused) };
    let script = program.script();
    let known: Vec<&Numbers> = document.inputs.iter().chain(&document.outputs).collect();
    let given: Option<Vec<Numbers>> =
        tensors.iter().enumerate().map(|(at, tensor)| argument(tensor, known.get(at).copied())).collect();
    let Some(given) = given.filter(|_| !is_large(&script)) else {
        let _ = te::native::compile(&program);
        return Ok(Became::Large);
    };
    let inputs = document.inputs.len();
    match (interpreted(&program, inputs, &given), native(&program, inputs, &given)) {
        (Ok(a), Ok(b)) => {
            let equal = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let alike = |(a, b): (&Option<Vec<f64>>, &Vec<f64>)| {
                a.as_ref().is_none_or(|a| a.len() == b.len() && a.iter().zip(b).all(equal))
            };
            let same = a.len() == b.len() && a.iter().zip(&b).all(alike);
            if same { Ok(Became::Run) } else { Err(format!("{a:?}\n{b:?}\n{script}")) }
        }
        (Err(_), Err(_)) => Ok(Became::Refused),
        // Native code doesn't know which elements are not yet written.
        (Err(TeError::Run(RunError::Failed { reason })), Ok(_)) if reason.contains("not written") => Ok(Became::Run),
        (Err(error), Ok(_)) => Err(format!("only native code runs it: {error}\n{script}")),
        // Native code needs the value of every variable before it runs; the interpreter only when one is used.
        (Ok(_), Err(TeError::Run(RunError::UnknownSize { .. }))) => Ok(Became::Refused),
        (Ok(_), Err(TeError::Run(RunError::Failed { reason }))) if reason.contains("has no value here") => {
            Ok(Became::Refused)
        }
        // Unsupported programs are refused by name.
        (
            Ok(_),
            Err(
                TeError::Lowering(LoweringError::Target { .. }) | TeError::Expression(ExpressionError::Unfolded { .. }),
            ),
        ) => Ok(Became::Refused),
        (Ok(_), Err(error)) => Err(format!("only the interpreter runs it: {error}\n{script}")),
    }
}

/// Tries documents on a thread of 2 MiB, one after the other.
fn worker(documents: Receiver<Document>, results: std::sync::mpsc::Sender<Result<Became, String>>) {
    let run = move || {
        for document in documents {
            let tried = catch_unwind(AssertUnwindSafe(|| try_document(&document)));
            let result = tried.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Err(format!("it panics: {}", text.unwrap_or_default()))
            });
            if results.send(result).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread");
}

#[test]
fn any_document_is_refused_or_computed_alike() {
    let base = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0u64);
    // Kept for a document that ends the process.
    let current = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutated.{base}.json"));
    let mut random = Rng::with_seed(base);
    let (send, documents) = channel();
    let (results, receive) = channel();
    worker(documents, results);
    let mut counts = [0u32; 3];
    let mut wrong = 0;
    for _ in 0..cases(90) {
        let Some(valid) = document(&mut random) else { continue };
        for _ in 0..8 {
            let mut value: Value = serde_json::from_str(&valid.text).expect("JSON");
            let gently = random.bool();
            for _ in 0..random.u32(1..4) {
                if gently { mutate_gently(&mut value, &mut random) } else { mutate(&mut value, &mut random) }
            }
            let text = value.to_string().replace(&json!(TOO_LARGE).to_string(), "1e400");
            fs::write(&current, &text).expect("written");
            let changed = Document { text, inputs: valid.inputs.clone(), outputs: valid.outputs.clone() };
            send.send(changed).expect("the worker goes on");
            match receive.recv_timeout(MOST) {
                Ok(Ok(became)) => counts[became as usize] += 1,
                Ok(Err(error)) => {
                    wrong += 1;
                    let kept = current.with_extension(format!("{wrong}.json"));
                    fs::copy(&current, &kept).expect("copied");
                    eprintln!("=== {}: {error}", kept.display());
                }
                Err(RecvTimeoutError::Timeout) => panic!("{} takes more than {MOST:?}", current.display()),
                Err(RecvTimeoutError::Disconnected) => panic!("{} ended its thread", current.display()),
            }
        }
    }
    let _ = fs::remove_file(&current);
    assert_eq!(wrong, 0, "documents that are wrong");
    let [refused, large, run] = counts;
    assert!(run * 20 > refused && refused > run / 20, "{refused} were refused, {large} large, {run} run");
}
