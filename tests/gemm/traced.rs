//! Events that the crate `tracing` gets.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use epilogue::bundle::{Builder, Bundle};
use epilogue::prelude::*;
use epilogue_runtime::testing;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[epilogue]
fn traced_scale(accum: Accum, alpha: Scalar) -> Tensor<f32> {
    let d = alpha * accum;
    d
}

/// Writes one line for every span and event of this thread: `level span: message name=value …`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<(Vec<&'static str>, Vec<String>)>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "epilogue"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(format!("{} {}:", span.metadata().level(), span.metadata().name()));
        span.record(&mut fields);
        let (spans, lines) = &mut *self.0.lock().expect("no panic");
        spans.push(span.metadata().name());
        lines.push(fields.0);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let (spans, lines) = &mut *self.0.lock().expect("no panic");
        let mut fields = Fields(format!("{} {}:", event.metadata().level(), spans.join(">")));
        event.record(&mut fields);
        lines.push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {
        self.0.lock().expect("no panic").0.pop();
    }
}

/// The events while `work` is done.
fn told(work: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), work);
    let (open, lines) = std::mem::take(&mut *lines.0.lock().expect("no panic"));
    assert!(open.is_empty(), "every span ends");
    lines
}

fn plan(device: &Device) -> Gemm<TracedScale> {
    let builder = Gemm::builder::<TracedScale>(device).elements(ElementType::F16, ElementType::F16);
    builder.problem(16, 24, 32).plan().expect("a plan")
}

fn run(device: &Device, gemm: &Gemm<TracedScale>, a: &DeviceTensor) {
    let b = device.full::<f16>([32, 24], f16::ONE).expect("memory");
    let mut d = device.zeros::<f32>([16, 24]).expect("memory");
    gemm.run(a, &b, TracedScale { alpha: 2.0, d: &mut d }).expect("a run");
}

/// The line that begins so, and holds so.
fn find<'a>(lines: &'a [String], begins: &str, holds: &str) -> &'a str {
    let found = lines.iter().find(|line| line.starts_with(begins) && line.contains(holds));
    found.unwrap_or_else(|| panic!("no `{begins}` with `{holds}` in:\n{}", lines.join("\n")))
}

#[test]
fn plans_choices_compilations_and_launches_are_told() {
    if testing::compiler("plans_choices_compilations_and_launches_are_told").is_none() {
        return;
    }
    let device = Device::emulated(Arch::SM_80).expect("an emulated device");
    let mut gemm = None;
    let lines = told(|| gemm = Some(plan(&device)));
    find(&lines, "DEBUG plan:", "epilogue=\"traced_scale\" device=an emulated sm_80 m=16 n=24 k=32 batch=1");
    find(&lines, "DEBUG plan: choice choice=", "candidates=");
    find(&lines, "DEBUG compile: kernel=\"traced_scale_f16_", "arch=sm_80");
    let looked_up = find(&lines, "DEBUG plan>compile: cache ", "kernel=\"traced_scale_f16_");
    if looked_up.contains("cache miss") {
        assert!(
            looked_up.contains("reason=it has not been compiled before") || looked_up.contains("there is no cache")
        );
        find(&lines, "INFO plan>compile: compiled", "milliseconds=");
    } else {
        assert!(!lines.iter().any(|line| line.contains("compiled ")));
    }
    // The second time nothing is chosen nor compiled.
    let lines = told(|| drop(plan(&device)));
    find(&lines, "DEBUG plan: planned before", "choice=");
    assert_eq!(lines.len(), 2, "{}", lines.join("\n"));

    let gemm = gemm.expect("a plan");
    let a = device.full::<f16>([16, 32], f16::ONE).expect("memory");
    let lines = told(|| run(&device, &gemm, &a));
    find(&lines, "TRACE : run", "epilogue=\"traced_scale\" m=16 n=24 k=32 batch=1");
    find(&lines, "TRACE : launch", "grid=[");
    assert_eq!(lines.len(), 2, "{}", lines.join("\n"));
}

#[test]
fn a_run_that_compiles_says_so() {
    if testing::compiler("a_run_that_compiles_says_so").is_none() {
        return;
    }
    // Small products run in whatever kernel there is.
    let device = Device::emulated(Arch::SM_80).expect("an emulated device");
    let builder = Gemm::builder::<TracedScale>(&device).elements(ElementType::F16, ElementType::F16);
    let gemm = builder.problem(256, 256, 512).plan().expect("a plan");
    let dry = device.dry_stream();
    let lines = told(|| {
        let transposed = device.without_memory(ElementType::F16, [512, 256]).and_then(|a| a.transpose());
        let b = device.without_memory(ElementType::F16, [512, 256]).expect("a shape");
        let mut d = device.without_memory(ElementType::F32, [256, 256]).expect("a shape");
        let arguments = TracedScale { alpha: 2.0, d: &mut d };
        gemm.run_on(&dry, &transposed.expect("a shape"), &b, arguments).expect("a dry run");
    });
    find(&lines, "INFO : a run needs another kernel than planned", "epilogue=\"traced_scale\"");
}

#[test]
fn what_a_bundle_has_and_lacks_is_told() {
    if testing::compiler("what_a_bundle_has_and_lacks_is_told").is_none() {
        return;
    }
    let told_of = Arc::new(Mutex::new(Vec::new()));
    let builder = Builder::new().on_progress({
        let told_of = Arc::clone(&told_of);
        move |progress| told_of.lock().expect("no panic").push(progress.to_string())
    });
    plan(&builder.emulated_target(Arch::SM_80).expect("a target"));
    let kernel = builder.to_bytes();
    let progress = told_of.lock().expect("no panic").join("\n");
    assert!(progress.starts_with("0: compiling traced_scale_f16_"), "{progress}");
    assert!(progress.contains("\n1: done with traced_scale_f16_"), "{progress}");

    let device = Device::emulated(Arch::SM_80).expect("an emulated device");
    let mut read = None;
    let (path, bytes) = (std::env::temp_dir().join(format!("traced-{}.bundle", std::process::id())), kernel.len());
    let lines = told(|| {
        builder.write(&path).expect("a file");
        read = Some(Bundle::from_bytes(kernel).expect("a bundle"));
    });
    std::fs::remove_file(&path).expect("the file");
    find(&lines, "DEBUG write bundle:", "kernels=1");
    find(&lines, "DEBUG read bundle:", &format!("bytes={bytes}"));
    let bundle = read.expect("a bundle");
    let lines = told(|| bundle.install(&device).expect("it is for this device"));
    find(&lines, "INFO : bundle installed", "device=an emulated sm_80 kernels=1 made_by=\"epilogue ");
    let lines = told(|| drop(plan(&device)));
    find(&lines, "DEBUG plan>compile: bundle hit", "kernel=\"traced_scale_f16_");
    let lines = told(|| {
        let builder = Gemm::builder::<TracedScale>(&device).elements(ElementType::BF16, ElementType::BF16);
        builder.problem(16, 24, 32).plan().expect_err("it is not there");
    });
    find(&lines, "DEBUG plan>compile: bundle miss", "reason=no bundle of this device holds the kernel");
}

#[test]
fn the_cpu_tells_its_choice_and_its_runs() {
    let device = Device::cpu();
    let lines = told(|| {
        let gemm = plan(&device);
        run(&device, &gemm, &device.full::<f16>([16, 32], f16::ONE).expect("memory"));
    });
    find(&lines, "DEBUG plan:", "device=the CPU");
    find(&lines, "TRACE : run", "m=16 n=24 k=32");
}

/// Work that takes long on a CPU has a span of its own: packing, and making kernels of tensor expressions.
#[test]
fn the_cpu_tells_what_takes_long() {
    use epilogue::{fuse, te};
    let device = Device::cpu();
    let gemm = plan(&device);
    let b = device.full::<f16>([32, 24], f16::ONE).expect("memory");
    let lines = told(|| drop(gemm.pack(&b).expect("packed")));
    find(&lines, "DEBUG pack:", "epilogue=\"traced_scale\" shape=[32, 24]");
    let x = te::placeholder([4, 8], "x");
    let softmax = te::ops::softmax(&x, 1).expect("an expression");
    let lines = told(|| {
        te::auto::build(&[&softmax]).expect("kernels").build(&device).expect("a kernel");
        fuse::build(&[&softmax]).expect("kernels").build(&device).expect("a kernel");
    });
    find(&lines, "DEBUG build:", "device=the CPU");
    find(&lines, "DEBUG fuse:", "device=the CPU outputs=1");
}
