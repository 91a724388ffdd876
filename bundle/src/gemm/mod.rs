//! The speed of fused GEMMs against their peers, in one run: contenders take turns, on random normal data, on buffers
//! that rotate past the second-level cache.

mod cublaslt;
mod epilogues;
mod separate;
mod shapes;
mod workload;

use std::collections::BTreeSet;

use epilogue::gemm::{Builder, Major, OperandLayout};
use epilogue_runtime::{Arch, Compiler, Device, KernelCache, Output};
use serde_json::{Value, json};

use self::cublaslt::{Cublaslt, Fused, Product};
use self::epilogues::Named;
use self::shapes::Shape;
pub(crate) use self::workload::normal;
use self::workload::{PeerBuffers, Workload};
use crate::Outcome;
use crate::machine::Machine;
use crate::steps::Step;
use crate::timing::{Contender, Timer};

/// Bytes that buffers together have at least, so that none is found in a cache: thrice an H200's.
const ROTATED: u64 = 3 * 60 * 1024 * 1024;

pub(crate) fn steps(machine: &Machine) -> Vec<Step> {
    let shapes = if machine.is_rehearsal() { shapes::rehearsal() } else { shapes::all() };
    let mut steps = Vec::new();
    for shape in shapes {
        for named in epilogues::all() {
            let headline = shape.headline && named.headline;
            let tier = if headline { 1 } else { 2 };
            let name = format!("speed/gemm/{}/{}/{}", shape.element, shape.name(), named.name);
            steps.push(Step::new(name, tier, 5 + shape.seconds(), move |machine| speed(machine, &shape, &named)));
        }
        if shape.headline {
            let name = format!("knobs/gemm/{}/{}", shape.element, shape.name());
            steps.push(Step::new(name, 3, 40, move |machine| knobs(machine, &shape)));
        }
    }
    steps
}

/// `precompile FOLDER`: the kernels of all comparisons, as machine code, into a cache folder. No GPU is needed.
pub(crate) fn precompile(words: &[String]) -> Outcome<()> {
    let [folder] = words else { return Err("usage: epilogue-gpu precompile FOLDER".into()) };
    let compiler = Compiler::find()?.with_cache(Some(KernelCache::at(folder)));
    let device = Device::emulated(Arch::SM_90A)?;
    let (mut made, mut sources) = (0, BTreeSet::new());
    // What is not of the first tier is compiled there: all of it would not fit into the bundle.
    for shape in shapes::all().into_iter().filter(|shape| shape.headline) {
        for named in epilogues::all().into_iter().filter(|named| named.headline) {
            let builder = Builder::<()>::new(&device, (named.tree)()).elements(shape.element, shape.element);
            let layouts = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::K));
            let builder = builder.problem(shape.m, shape.n, shape.k).layouts(layouts.0, layouts.1);
            let gemm = builder.plan()?;
            let Some(source) = gemm.kernel_source() else { continue };
            if sources.insert(source.code.clone()) {
                compiler.compile(source, Arch::SM_90A, Output::Cubin)?;
                made += 1;
            }
        }
    }
    println!("{made} kernels compiled into {folder}");
    Ok(())
}

/// One shape and epilogue: the fused kernel, cuBLASLt's plain product, cuBLASLt with its own epilogue where it has this
/// one, and cuBLASLt followed by one elementwise kernel.
fn speed(machine: &Machine, shape: &Shape, named: &Named) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let timer = Timer::new(device)?;
    let tree = (named.tree)();
    let rotation = if machine.is_rehearsal() { 1 } else { ROTATED };
    let mut workload = Workload::new(device, &tree, shape, rotation)?;
    let (a, b) = workload.operands();
    let gemm = Builder::<()>::new(device, tree).operands(a, b)?.plan()?;
    workload.run(&gemm, 0)?;
    let wrong = workload.first_wrong(&gemm)?;
    if let Some(wrong) = wrong {
        return Ok(vec![json!({"kind": "wrong", "what": wrong, "choice": gemm.choice().to_string()})]);
    }

    let library = match machine.is_rehearsal() {
        true => Err("a rehearsal: cuBLASLt needs a GPU".to_owned()),
        false => Cublaslt::open(device),
    };
    let buffers = workload.peer_buffers()?;
    let separate = named.separate.map(|text| separate::Kernel::new(device, shape, text)).transpose()?;
    let products = match &library {
        Ok(library) => Some(Products::new(library, shape, named, &timer, &buffers)?),
        Err(_) => None,
    };
    let cell = std::cell::RefCell::new(&mut workload);
    let mut contenders = Vec::new();
    contenders.push(Contender { name: "epilogue".into(), run: Box::new(|i| cell.borrow_mut().run(&gemm, i)) });
    if let Some(products) = &products {
        products.contenders(&mut contenders, separate.as_ref(), &buffers);
    }
    let times = timer.race(&mut contenders)?;
    drop(contenders);
    let missing = library.as_ref().err();
    let speeds: Vec<Value> = times
        .iter()
        .map(|t| {
            let tflops = shape.operations() / (t.median * 1e9);
            match machine.is_rehearsal() {
                true => json!({"name": t.name}),
                false => json!({"name": t.name, "ms": t.median, "fastest_ms": t.fastest, "slowest_ms": t.slowest, "tflops": tflops}),
            }
        })
        .collect();
    Ok(vec![json!({
        "kind": "speed",
        "what": "gemm",
        "shape": [shape.m, shape.n, shape.k],
        "element": shape.element.to_string(),
        "epilogue": named.name,
        "bytes": workload.bytes(),
        "choice": gemm.choice().to_string(),
        "contenders": speeds,
        "missing": missing,
    })])
}

/// cuBLASLt's products for a comparison, with the number of the fastest algorithm of each.
struct Products<'l> {
    plain: (Product<'l>, usize),
    /// With its own epilogue.
    fused: Option<(Product<'l>, usize)>,
}

impl<'l> Products<'l> {
    fn new(library: &'l Cublaslt, shape: &Shape, named: &Named, timer: &Timer, buffers: &PeerBuffers) -> Outcome<Self> {
        let fastest = |fused| {
            let product = Product::new(library, shape, fused, buffers)?;
            let best = product.fastest(timer, buffers)?;
            Ok::<_, crate::Failure>((product, best))
        };
        Ok(Self { plain: fastest(Fused::None)?, fused: named.cublaslt.map(fastest).transpose()? })
    }

    fn contenders<'a>(
        &'a self,
        contenders: &mut Vec<Contender<'a>>,
        separate: Option<&'a separate::Kernel>,
        buffers: &'a PeerBuffers,
    ) {
        let (plain, best) = &self.plain;
        contenders.push(plain.contender("cublaslt", *best, buffers));
        contenders.push(plain.contender("cublaslt's first choice", 0, buffers));
        if let Some((fused, best)) = &self.fused {
            contenders.push(fused.contender("cublaslt with its own epilogue", *best, buffers));
        }
        if let Some(separate) = separate {
            let mut product = plain.contender("", *best, buffers);
            contenders.push(Contender {
                name: "cublaslt, then one kernel".into(),
                run: Box::new(move |i| {
                    (product.run)(i)?;
                    separate.run(buffers, i)
                }),
            });
        }
    }
}

/// Every candidate that the model ranks for a shape, timed: what its constants are fitted to.
fn knobs(machine: &Machine, shape: &Shape) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let timer = Timer::new(device)?;
    let named = epilogues::all().into_iter().find(|named| named.name == "plain").ok_or("no plain epilogue")?;
    let tree = (named.tree)();
    let rotation = if machine.is_rehearsal() { 1 } else { ROTATED };
    let mut workload = Workload::new(device, &tree, shape, rotation)?;
    let (a, b) = workload.operands();
    let chosen = Builder::<()>::new(device, tree.clone()).operands(a, b)?.plan()?;
    let limit = if machine.is_rehearsal() { 2 } else { 12 };
    let mut gemms = Vec::new();
    for candidate in chosen.choice().candidates().iter().take(limit) {
        let builder = Builder::<()>::new(device, tree.clone()).operands(a, b)?;
        gemms.push((candidate.clone(), builder.candidate(candidate).plan()?));
    }
    let cell = std::cell::RefCell::new(&mut workload);
    let mut contenders: Vec<Contender<'_>> = gemms
        .iter()
        .map(|(candidate, gemm)| Contender {
            name: candidate.to_string(),
            run: Box::new(|i| cell.borrow_mut().run(gemm, i)),
        })
        .collect();
    let times = timer.race(&mut contenders)?;
    let rows: Vec<Value> = gemms
        .iter()
        .zip(&times)
        .map(|((candidate, _), time)| {
            let measured = (!machine.is_rehearsal()).then_some(time.median * 1e3);
            json!({"candidate": time.name, "predicted_us": candidate.microseconds, "measured_us": measured})
        })
        .collect();
    Ok(vec![json!({
        "kind": "knobs",
        "shape": [shape.m, shape.n, shape.k],
        "element": shape.element.to_string(),
        "rows": rows,
    })])
}
