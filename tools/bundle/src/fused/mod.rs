//! Products and epilogues that other libraries have no single launch for: each beside what people run instead, and beside this
//! library's own other ways. First of all each is checked, on small problems, against the f64 reference.

mod products;
mod rows;

use epilogue::prelude::*;
use serde_json::{Value, json};

use crate::Outcome;
use crate::gemm::normal;
use crate::machine::Machine;
use crate::options::On;
use crate::step::Step;
use crate::timing::{Contender, Timer};

/// One way to compute something.
struct Way {
    name: String,
    /// The kernel that was chosen for it.
    choice: String,
    run: Box<dyn FnMut() -> Outcome<()>>,
    /// Runs it and compares all results with the reference's bounds. A peer beside ours has none.
    check: Option<Box<dyn FnOnce() -> Outcome<()>>>,
}

/// A way by a plan: its operands, what they and its arguments are called, and its results.
macro_rules! way {
    ($name:expr, $gemm:expr, ($left:expr, $right:expr), [$($held:ident),*],
     $epilogue:ident { $($input:ident),*; $($value:ident = $of:expr),*; $($output:ident),* }) => {{
        let gemm = std::rc::Rc::new($gemm);
        let choice = gemm.choice().to_string();
        let run = {
            let ($($held,)* $($input,)* $(mut $output,)*) = ($($held.clone(),)* $($input.clone(),)* $($output.clone(),)*);
            let gemm = gemm.clone();
            move || -> $crate::Outcome<()> {
                let arguments = $epilogue { $($input: &$input,)* $($value: $of,)* $($output: &mut $output,)* };
                Ok(gemm.run($left, $right, arguments)?)
            }
        };
        let check = {
            let ($($held,)* $($input,)* $(mut $output,)*) = ($($held.clone(),)* $($input.clone(),)* $($output.clone(),)*);
            move || -> $crate::Outcome<()> {
                let arguments = $epilogue { $($input: &$input,)* $($value: $of,)* $($output: &mut $output,)* };
                let expected = gemm.reference($left, $right, arguments)?;
                let arguments = $epilogue { $($input: &$input,)* $($value: $of,)* $($output: &mut $output,)* };
                gemm.run($left, $right, arguments)?;
                $(expected.compare(stringify!($output), &$output)?.check()?;)*
                Ok(())
            }
        };
        $crate::fused::Way { name: $name.into(), choice, run: Box::new(run), check: Some(Box::new(check)) }
    }};
}
use way;

/// An epilogue that is compared.
struct Subject {
    name: &'static str,
    element: ElementType,
    /// M, N and K of a small problem, and of those that are timed.
    small: [usize; 3],
    timed: &'static [[usize; 3]],
    /// All ways to compute it, ours first.
    ways: fn(&Device, [usize; 3]) -> Outcome<Vec<Way>>,
}

fn subjects() -> Vec<Subject> {
    rows::subjects().into_iter().chain(products::subjects()).collect()
}

/// The steps of all subjects. In a rehearsal all that are timed of one are the same.
pub(crate) fn steps(on: On) -> Vec<Step> {
    let mut steps = Vec::new();
    for subject in subjects() {
        let Subject { name, element, small, timed, ways } = subject;
        steps.push(Step::new(format!("correctness/fused/{name}"), 1, 3, move |machine| {
            Ok(check(name, ways(&machine.device, small)?))
        }));
        for &shape in timed.iter().take(if on == On::Cuda { timed.len() } else { 1 }) {
            let [m, n, k] = shape;
            let at = format!("fused/{element}/{m}x{n}x{k}/{name}");
            let of = move |machine: &Machine| ways(&machine.device, if machine.is_rehearsal() { small } else { shape });
            let prepare = move |machine: &Machine| of(machine).map(|_| Vec::new());
            let operations = 2.0 * m as f64 * n as f64 * k as f64;
            let seconds = 4 + (300.0 * operations / 4e14) as u64;
            steps.push(Step::new(format!("kernels/{at}"), 2, 5, prepare).preparing(format!("speed/{at}")));
            steps.push(Step::timed(format!("speed/{at}"), 2, seconds, move |machine| {
                speed(machine, (name, element, shape), of(machine)?)
            }));
        }
    }
    steps
}

/// Checks every way that can be.
fn check(name: &str, ways: Vec<Way>) -> Vec<Value> {
    let (mut right, mut records) = (0, Vec::new());
    for way in ways {
        match way.check.map(|check| check()) {
            Some(Ok(())) => right += 1,
            Some(Err(error)) => {
                let what = format!("{}: {error} ({})", way.name, way.choice);
                records.push(json!({"kind": "wrong", "family": format!("fused/{name}"), "what": what}));
            }
            None => {}
        }
    }
    records.push(json!({"kind": "correct", "family": format!("fused/{name}"), "cases": right}));
    records
}

fn speed(
    machine: &Machine,
    (name, element, shape): (&str, ElementType, [usize; 3]),
    ways: Vec<Way>,
) -> Outcome<Vec<Value>> {
    let choices: Vec<Value> = ways.iter().map(|way| json!({"name": way.name, "choice": way.choice})).collect();
    let contender = |way: Way| {
        let mut run = way.run;
        Contender { name: way.name, run: Box::new(move |_| run()) }
    };
    let mut contenders: Vec<Contender<'_>> = ways.into_iter().map(contender).collect();
    let times = Timer::new(&machine.device)?.race(&mut contenders)?;
    let operations = shape.iter().fold(2.0, |product, extent| product * *extent as f64);
    let rates = |seconds: f64| vec![("tflops", operations / seconds * 1e-12)];
    Ok(vec![json!({
        "kind": "fused", "shape": shape, "element": element.to_string(), "epilogue": name, "choices": choices,
        "contenders": times.iter().map(|times| times.record(machine, rates)).collect::<Vec<_>>(),
        "clocks": machine.clocks(),
    })])
}

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

/// The plain product.
fn product(name: &str, device: &Device, (a, b): (&DeviceTensor, &DeviceTensor), d: &DeviceTensor) -> Outcome<Way> {
    Ok(way!(name, Gemm::plan::<Plain>(device, a, b)?, (&a, &b), [a, b], Plain { ;; d }))
}

/// A and B of bf16.
fn operands(device: &Device, [m, n, k]: [usize; 3]) -> Outcome<(DeviceTensor, DeviceTensor)> {
    Ok((normal(device, ElementType::BF16, &[m, k], 1)?, weights(device, ElementType::BF16, [n, k], 2)?))
}

/// Weights, `[N, K]` in memory.
fn weights(device: &Device, element: ElementType, [n, k]: [usize; 2], seed: u32) -> Outcome<DeviceTensor> {
    Ok(normal(device, element, &[n, k], seed)?.transpose()?)
}
