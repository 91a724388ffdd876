//! The speed of fused GEMMs compared with their peers, in one run. Contenders take turns, on random normal data. Enough
//! buffers rotate that none is found in the second-level cache.

mod captured;
mod cublaslt;
mod epilogues;
mod knobs;
mod relaunch;
mod separate;
mod shapes;
mod workload;

use std::collections::BTreeSet;

use epilogue::evt::Tree;
use epilogue::gemm::{Arithmetic, Builder, Major, OperandLayout};
use epilogue::{ElementType, Gemm};
use epilogue_runtime::{Arch, Compiler, Device, KernelCache, Output};
use serde_json::{Value, json};

use self::cublaslt::{Cublaslt, Fused, Product};
use self::epilogues::Named;
#[cfg(test)]
pub(crate) use self::relaunch::CASES as RELAUNCHES;
use self::shapes::Shape;
use self::workload::{PeerBuffers, Workload};
pub(crate) use self::workload::{normal, poison};
use crate::Outcome;
use crate::machine::Machine;
use crate::options::On;
use crate::step::Step;
use crate::timing::{Contender, Timer};

/// Our names among contenders: the plan, and the plan whose FP8 products are summed in as few bits as the tensor cores
/// keep.
const OWN: &str = "epilogue";
const FAST_SUMS: &str = "epilogue, fast sums";

/// The least total size of the buffers in bytes, so that none is found in a cache: three times an H200's L2.
const ROTATED: u64 = 3 * 60 * 1024 * 1024;

/// The steps that check correctness.
pub(crate) fn correctness(on: On) -> Vec<Step> {
    relaunch::steps(on)
}

pub(crate) fn steps(on: On) -> Vec<Step> {
    let shapes = if on == On::Cuda { shapes::all() } else { shapes::rehearsal() };
    let mut steps = Vec::new();
    for shape in shapes {
        for named in epilogues::of(shape.element) {
            let tier = match (shape.headline, named.headline) {
                (true, true) => 1,
                (false, false) => 3,
                _ => 2,
            };
            let name = format!("gemm/{}/{}/{}", shape.element, shape.name(), named.name);
            let speed_name = format!("speed/{name}");
            let compile = move |machine: &Machine| prepare(machine, &shape, &named);
            steps.push(Step::new(format!("kernels/{name}"), tier, 5, compile).preparing(&speed_name));
            steps.push(Step::timed(speed_name, tier, shape.seconds(), move |machine| speed(machine, &shape, &named)));
        }
        if shape.headline || shape.is_unaligned() {
            steps.extend(knobs::steps(shape));
        }
    }
    steps
}

/// A plan for a shape's operands.
fn builder(device: &Device, tree: Tree, shape: &Shape) -> Builder {
    let (a, b) = layouts_of([shape.m, shape.n, shape.k], shape.element, shape.majors);
    Builder::new(device, tree)
        .elements(shape.element, shape.element)
        .arithmetic(shape.arithmetic())
        .problem(shape.m, shape.n, shape.k)
        .layouts(a, b)
}

/// The layouts of packed operands of an M×N×K product.
pub(crate) fn layouts_of(
    [m, n, k]: [usize; 3],
    element: ElementType,
    (a, b): (Major, Major),
) -> (OperandLayout, OperandLayout) {
    let of = |major, outer| {
        let along = if major == Major::K { k } else { outer } * element.size();
        let widths = [16, 8, 4, 2, 1].into_iter();
        let copy_bytes = widths.filter(|width| along.is_multiple_of(*width)).max().unwrap_or(1);
        OperandLayout { major, copy_bytes: copy_bytes.max(element.size()) }
    };
    (of(a, m), of(b, n))
}

/// The timed epilogue with this name.
pub(crate) fn epilogue_of(element: ElementType, name: &str) -> Option<Tree> {
    epilogues::of(element).into_iter().find(|named| named.name == name).map(|named| (named.tree)())
}

/// Our own contenders: their names, and the builders of their plans.
fn builders(device: &Device, shape: &Shape, named: &Named) -> Vec<(&'static str, Builder, Arithmetic)> {
    let exact = builder(device, (named.tree)(), shape);
    let mut builders = vec![(OWN, exact.clone(), shape.arithmetic())];
    if shape.element == ElementType::F8E4M3 {
        builders.push((FAST_SUMS, exact.arithmetic(Arithmetic::FastFp8), Arithmetic::FastFp8));
    }
    builders
}

/// Compiles everything that a comparison runs, beside other compilations: between timings nothing is compiled.
fn prepare(machine: &Machine, shape: &Shape, named: &Named) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    for (_, builder, _) in builders(device, shape, named) {
        builder.plan()?;
    }
    Timer::new(device)?;
    poison(&normal(device, shape.element, &[1], 1)?)?;
    if let Some(text) = named.separate.filter(|_| device.arch().is_some()) {
        separate::Kernel::new(device, shape, text)?;
    }
    Ok(Vec::new())
}

/// `precompile FOLDER`: the kernels of all comparisons, as machine code, into a cache folder. No GPU is needed.
pub(crate) fn precompile(words: &[String]) -> Outcome<()> {
    let [folder] = words else { return Err("usage: epilogue-gpu precompile FOLDER".into()) };
    let compiler = Compiler::find()?.with_cache(Some(KernelCache::at(folder)));
    let device = Device::emulated(Arch::SM_90A)?;
    let (mut made, mut sources) = (0, BTreeSet::new());
    // What is not in the first tier is compiled on the GPU machine: all of it would not fit in the bundle.
    for shape in shapes::all().into_iter().filter(|shape| shape.headline) {
        for named in epilogues::of(shape.element).into_iter().filter(|named| named.headline) {
            for (_, builder, _) in builders(&device, &shape, &named) {
                let gemm = builder.plan()?;
                let Some(source) = gemm.kernel_source() else { continue };
                if sources.insert(source.code.clone()) {
                    compiler.compile(source, Arch::SM_90A, Output::Cubin)?;
                    made += 1;
                }
            }
        }
    }
    println!("{made} kernels compiled into {folder}");
    Ok(())
}

/// One shape and epilogue: the fused kernel, cuBLASLt's plain product, cuBLASLt with its own epilogue if it has this
/// one, and cuBLASLt followed by one elementwise kernel.
fn speed(machine: &Machine, shape: &Shape, named: &Named) -> Outcome<Vec<Value>> {
    let device = &machine.device;
    let timer = Timer::new(device)?;
    let tree = (named.tree)();
    let rotation = if machine.is_rehearsal() { 1 } else { ROTATED };
    let mut workload = Workload::new(device, &tree, shape, rotation)?;
    let plan = |(name, builder, arithmetic): (_, Builder, _)| Ok((name, builder.plan()?, arithmetic));
    let plans = builders(device, shape, named).into_iter().map(plan).collect::<Outcome<Vec<_>>>()?;
    for (_, gemm, arithmetic) in &plans {
        workload.poison_outputs()?;
        workload.run(gemm, 0)?;
        if let Some(wrong) = workload.first_wrong(gemm, *arithmetic)? {
            return Ok(vec![json!({"kind": "wrong", "what": wrong, "choice": gemm.choice().to_string()})]);
        }
    }

    let library = match machine.is_rehearsal() {
        true => Err("a rehearsal: cuBLASLt needs a GPU".to_owned()),
        false => Cublaslt::open(device),
    };
    let buffers = workload.peer_buffers()?;
    let text = named.separate.filter(|_| device.arch().is_some());
    let separate = text.map(|text| separate::Kernel::new(device, shape, text)).transpose()?;
    let products = match &library {
        Ok(library) => Some(Products::new(library, shape, named, &timer, &buffers)?),
        Err(_) => None,
    };
    let cell = std::cell::RefCell::new(&mut workload);
    let own = |(name, gemm, _): &'_ (&str, Gemm, Arithmetic)| {
        let (name, gemm, cell) = ((*name).to_owned(), gemm.clone(), &cell);
        Contender { name, run: Box::new(move |i| cell.borrow_mut().run(&gemm, i)) }
    };
    let mut contenders: Vec<Contender<'_>> = plans.iter().map(own).collect();
    if let Some(products) = &products {
        products.contenders(&mut contenders, separate.as_ref(), &buffers);
    }
    let times = timer.race(&mut contenders)?;
    drop(contenders);
    let missing = library.as_ref().err();
    let rates = |seconds: f64| {
        let (operations, bytes) = (shape.operations(), workload.bytes() as f64);
        vec![("tflops", operations / seconds * 1e-12), ("tb_per_s", bytes / seconds * 1e-12)]
    };
    Ok(vec![json!({
        "kind": "speed",
        "what": "gemm",
        "shape": [shape.m, shape.n, shape.k],
        "layout": shape.layout(),
        "element": shape.element.to_string(),
        "epilogue": named.name,
        "bytes": workload.bytes(),
        "choice": plans[0].1.choice().to_string(),
        "contenders": times.iter().map(|times| times.record(machine, rates)).collect::<Vec<_>>(),
        "missing": missing,
        "cublaslt_version": library.as_ref().ok().map(Cublaslt::version),
        "clocks": machine.clocks(),
    })])
}

/// cuBLASLt's products for a comparison, with the number of the fastest algorithm of each.
struct Products<'l> {
    plain: (Product<'l>, usize),
    /// FP8, summed in as few bits as the tensor cores keep.
    fast: Option<(Product<'l>, usize)>,
    /// With its own epilogue.
    fused: Option<(Product<'l>, usize)>,
}

impl<'l> Products<'l> {
    fn new(library: &'l Cublaslt, shape: &Shape, named: &Named, timer: &Timer, buffers: &PeerBuffers) -> Outcome<Self> {
        let fastest = |fused, fast| {
            let product = Product::new(library, shape, fused, fast, buffers)?;
            let best = product.fastest(timer, buffers)?;
            Ok::<_, crate::Failure>((product, best))
        };
        let is_fp8 = shape.element == ElementType::F8E4M3;
        Ok(Self {
            plain: fastest(Fused::None, false)?,
            fast: is_fp8.then(|| fastest(Fused::None, true)).transpose()?,
            fused: named.cublaslt.map(|fused| fastest(fused, false)).transpose()?,
        })
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
        if let Some((fast, best)) = &self.fast {
            contenders.push(fast.contender("cublaslt, fast sums", *best, buffers));
        }
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
