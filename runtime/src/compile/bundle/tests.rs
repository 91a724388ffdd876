//! Complete and damaged bundles.

use proptest::prelude::*;

use super::identity::{KernelId, text_of};
use super::opened::{lists, take};
use super::recorder::{Kernels, Recorded};
use super::{Builder, Bundle, BundleError, file};
use crate::compile::cache::CacheKey;
use crate::compile::nvrtc::CompiledKernel;
use crate::compile::stored::encode;
use crate::{Arch, Device, Error, GpuModel, Output, Source};

/// A bundle of three kernels for two architectures, made from texts without a compiler.
fn sample() -> Vec<u8> {
    let mut kernels = Kernels::new();
    for (name, arch, form, origins) in [
        ("scale", Arch::SM_80, Output::Cubin, &["one", "other"] as &[&str]),
        ("scale", Arch::SM_90A, Output::Cubin, &["one"]),
        ("add", Arch::SM_80, Output::Ptx, &[]),
    ] {
        let text = text_of(&Source::new("k.cu", name, "code"));
        let made = CompiledKernel { cubin: vec![7; 50], ptx: format!(".entry {name}()"), log: String::new() };
        let (name, origins) = (name.to_owned(), origins.iter().map(|what| origin(what)).collect());
        kernels.insert(KernelId { text, form, arch }, Recorded { name, origins, content: encode(&made) });
    }
    file::write("a test", &kernels)
}

fn origin(what: &str) -> CacheKey {
    CacheKey::of(&[what.as_bytes()])
}

/// The bytes with correct hashes again, as a forger would make them.
fn with_right_hashes(mut bytes: Vec<u8>) -> Vec<u8> {
    let index = u64::from_le_bytes(bytes[24..32].try_into().unwrap()) as usize;
    let end = bytes.len().min(72usize.saturating_add(index));
    let hash = *blake3::Hasher::new().update(&bytes[..40]).update(&bytes[72..end]).finalize().as_bytes();
    bytes[40..72].copy_from_slice(&hash);
    bytes
}

#[test]
fn what_is_written_is_read() {
    let bundle = Bundle::from_bytes(sample()).unwrap();
    let mut held: Vec<_> = bundle.kernels().map(|k| (k.name.to_owned(), k.arch, k.form)).collect();
    held.sort();
    let expected = [
        ("add", Arch::SM_80, Output::Ptx),
        ("scale", Arch::SM_80, Output::Cubin),
        ("scale", Arch::SM_90A, Output::Cubin),
    ];
    assert_eq!(held, expected.map(|(name, arch, form)| (name.to_owned(), arch, form)));
    assert_eq!(bundle.made_by(), "a test");
    let source = Source::new("elsewhere.cu", "scale", "// another comment\ncode");
    let found = take(std::slice::from_ref(&bundle), &source, Arch::SM_86, Output::Cubin).unwrap();
    assert_eq!((found.cubin.len(), found.ptx.as_str(), found.cached), (50, ".entry scale()", true));
    let empty = Bundle::from_bytes(Builder::new().to_bytes()).unwrap();
    assert_eq!(empty.kernels().len(), 0);
}

/// The messages say what there is instead.
#[test]
fn what_is_missing_is_named() {
    let bundles = [Bundle::from_bytes(sample()).unwrap()];
    let said = |source: &Source, arch, form| take(&bundles, source, arch, form).unwrap_err().to_string();
    let scale = Source::new("k.cu", "scale", "code");
    assert_eq!(
        said(&scale, Arch::new(12, 0).specific(), Output::Cubin),
        "no bundle of this device holds the kernel `scale` for sm_120a: it is there for sm_80, sm_90a only: make the \
         bundle for sm_120a, too"
    );
    let other = said(&Source::new("k.cu", "scale", "other code"), Arch::SM_80, Output::Cubin);
    assert!(other.contains("one of this name is there with another text") && other.contains("a test"), "{other}");
    let none = said(&Source::new("k.cu", "tanh", "code"), Arch::SM_80, Output::Ptx);
    assert!(none.contains("of 3 kernels there, none has this name") && none.contains("an emulated sm_80"), "{none}");
    let device = Device::emulated(Arch::SM_90A).unwrap();
    let refused = bundles[0].install(&device).unwrap_err();
    assert!(matches!(refused, BundleError::NotForDevice { .. }), "{refused}");
    assert!(refused.to_string().contains("it holds kernels for sm_80, an emulated sm_80, sm_90a"), "{refused}");
    assert!(device.bundles().is_empty());
}

/// A program that gives its bundle to `Device::best` runs without a GPU, too.
#[test]
fn the_cpu_takes_any_bundle_and_needs_none() {
    let empty = Builder::new().to_bytes();
    for bundle in [sample(), empty] {
        Bundle::from_bytes(bundle).unwrap().install(&Device::cpu()).unwrap();
    }
    assert!(Device::cpu().bundles().is_empty());
}

#[test]
fn every_byte_counts() {
    let good = sample();
    for length in 0..good.len() {
        assert!(Bundle::from_bytes(good[..length].to_vec()).is_err(), "cut to {length}");
    }
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        assert!(Bundle::from_bytes(bad).is_err(), "byte {at}");
    }
    let longer = [good.as_slice(), b"x"].concat();
    assert!(matches!(Bundle::from_bytes(longer), Err(BundleError::Length { .. })));
    assert_eq!(Bundle::from_bytes(b"\x7fELF, say".to_vec()).unwrap_err(), BundleError::NoBundle);
    assert_eq!(Bundle::from_bytes(Vec::new()).unwrap_err(), BundleError::NoBundle);
    let mut newer = good.clone();
    newer[16] = 9;
    assert_eq!(Bundle::from_bytes(newer).unwrap_err(), BundleError::Version { found: 9, known: 2 });
    let mut older = good;
    older[16] = 1;
    assert_eq!(Bundle::from_bytes(older).unwrap_err(), BundleError::Version { found: 1, known: 2 });
}

/// A kernel is listed under each of its origins, for the devices that run it.
#[test]
fn origins_are_looked_up() {
    let bundles = [Bundle::from_bytes(Builder::new().to_bytes()).unwrap(), Bundle::from_bytes(sample()).unwrap()];
    let is_listed = |what: &str, arch, form| lists(&bundles, origin(what), arch, form);
    assert!(is_listed("one", Arch::SM_86, Output::Cubin) && is_listed("one", Arch::SM_90A, Output::Cubin));
    assert!(is_listed("other", Arch::SM_80, Output::Cubin) && !is_listed("other", Arch::SM_90A, Output::Cubin));
    assert!(!is_listed("one", Arch::SM_80, Output::Ptx) && !is_listed("none", Arch::SM_80, Output::Cubin));
}

/// Origins that no builder writes, with correct hashes: too many for the index, or not in ascending order.
#[test]
fn forged_origins_are_refused() {
    let good = sample();
    let [one, other] = ["one", "other"].map(|what| *origin(what).as_bytes());
    let (least, most) = if one < other { (one, other) } else { (other, one) };
    let pair = [2u16.to_le_bytes().as_slice(), &least, &most].concat();
    let at = good.windows(pair.len()).position(|bytes| *bytes == pair).expect("they are listed");
    for forged in [
        [u16::MAX.to_le_bytes().as_slice(), &least, &most].concat(),
        [2u16.to_le_bytes().as_slice(), &most, &least].concat(),
        [2u16.to_le_bytes().as_slice(), &least, &least].concat(),
    ] {
        let mut bytes = good.clone();
        bytes[at..at + pair.len()].copy_from_slice(&forged);
        let refused = Bundle::from_bytes(with_right_hashes(bytes)).unwrap_err();
        assert_eq!(refused, BundleError::Damaged { what: "its index".to_owned() });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases(2000)))]

    /// Bytes changed at random, with correct hashes: they are refused or read, without a panic, and with at most as
    /// much memory as the file has.
    #[test]
    fn no_bytes_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
        right in any::<bool>(),
    ) {
        let mut bytes = sample();
        for (at, value) in changes {
            // Mostly in the header and the index, where the numbers are.
            let at = at.index(bytes.len() * 2) % bytes.len().min(500);
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(72 + cut.index(bytes.len() - 72));
            let length = bytes.len() as u64;
            bytes[32..40].copy_from_slice(&length.to_le_bytes());
        }
        if right {
            bytes = with_right_hashes(bytes);
        }
        if let Ok(bundle) = Bundle::from_bytes(bytes.clone()) {
            prop_assert!(bundle.kernels().map(|kernel| kernel.bytes).sum::<usize>() <= bytes.len());
        }
    }
}

#[test]
fn a_file_is_whole_or_not_there() {
    let folder = std::env::temp_dir().join(format!("epilogue-bundle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("kernels.bundle");
    let missing = Bundle::open(&path).unwrap_err();
    assert!(matches!(&missing, BundleError::File { path: named, .. } if *named == path), "{missing}");
    assert!(matches!(Bundle::open(&folder), Err(BundleError::File { .. })));
    Builder::new().write(&path).unwrap();
    Builder::new().write(&path).unwrap();
    assert_eq!(Bundle::open(&path).unwrap().kernels().len(), 0);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    assert!(Builder::new().write(folder.join("no/such/folder.bundle")).is_err());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(Bundle::open(&path), Err(BundleError::Untrusted { .. })));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A target compiles and runs nothing. The kernels that it compiled run elsewhere, with the same results as kernels
/// compiled there.
#[test]
fn what_a_target_compiled_runs_without_a_compiler() {
    if crate::testing::compiler("what_a_target_compiled_runs_without_a_compiler").is_none() {
        return;
    }
    let code = "extern \"C\" __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }";
    let source = Source::new("scale.cu", "scale", code);
    let builder = Builder::new();
    for target in [builder.target(GpuModel::A100), builder.emulated_target(Arch::SM_80).unwrap()] {
        let x = target.tensor(&[1f32, 2.0], [2]).unwrap();
        let kernel = target.compile(&source).unwrap();
        run(&kernel, &x, 3.0).unwrap();
        assert!(!x.has_memory() && x.to_vec::<f32>().is_err(), "nothing ran");
        assert!(run(&kernel, &Device::cpu().tensor(&[1f32], [1]).unwrap(), 3.0).is_err(), "but all is checked");
    }
    assert_eq!(builder.len(), 2);
    assert_eq!(builder.to_bytes(), builder.to_bytes());
    assert!(builder.emulated_target(Arch::new(12, 0)).is_err());
    let bundle = Bundle::from_bytes(builder.to_bytes()).unwrap();
    let machine_code = bundle.kernels().find(|kernel| kernel.form == Output::Cubin).unwrap();
    assert_eq!((machine_code.name, machine_code.arch), ("scale", Arch::SM_80));

    let device = Device::emulated(Arch::SM_80).unwrap();
    bundle.install(&device).unwrap();
    let x = device.tensor(&[1f32, 2.0], [2]).unwrap();
    run(&device.compile(&source).unwrap(), &x, 3.0).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [3.0, 6.0]);
    let other = Source::new("scale.cu", "scale", code.replace("*=", "+="));
    assert!(matches!(device.compile(&other), Err(Error::NotInBundle { .. })));
    // The bundle has no kernel for the copy, so it goes through the host.
    let matrix = device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
    assert_eq!(matrix.transpose().unwrap().contiguous().unwrap().to_vec::<f32>().unwrap(), [1.0, 3.0, 2.0, 4.0]);
}

/// Nobody writes to the pipe.
#[cfg(unix)]
#[test]
fn a_pipe_is_no_bundle_and_is_not_waited_for() {
    let path = std::env::temp_dir().join(format!("epilogue-bundle-pipe-{}", std::process::id()));
    crate::compile::trust::make_pipe(&path);
    let (done, is_done) = std::sync::mpsc::channel();
    let opened = path.clone();
    std::thread::spawn(move || done.send(Bundle::open(opened).map(drop)).unwrap());
    let refused = is_done.recv_timeout(std::time::Duration::from_secs(60)).expect("it doesn't wait").unwrap_err();
    assert_eq!(refused.to_string(), format!("the bundle {}: it is not a file", path.display()));
    std::fs::remove_file(path).unwrap();
}

/// On a dry stream everything is checked and nothing runs; on others, tensors without memory are refused.
#[test]
fn nothing_runs_on_a_dry_stream() {
    if crate::testing::compiler("nothing_runs_on_a_dry_stream").is_none() {
        return;
    }
    let device = Device::emulated(Arch::SM_80).unwrap();
    let code = "extern \"C\" __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }";
    let kernel = device.compile(&Source::new("scale.cu", "scale", code)).unwrap();
    let x = device.without_memory(crate::ElementType::F32, [2]).unwrap();
    let dry = device.dry_stream();
    launch(&kernel, &x, 2.0, &dry).unwrap();
    let refused = run(&kernel, &x, 2.0).unwrap_err();
    assert!(refused.to_string().contains("can't use a tensor without memory"), "{refused}");
    let filled = device.tensor(&[1f32, 2.0], [2]).unwrap();
    launch(&kernel, &filled, 2.0, &dry).unwrap();
    assert_eq!(filled.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

fn run(kernel: &crate::Kernel, x: &crate::DeviceTensor, by: f32) -> Result<(), Error> {
    launch(kernel, x, by, &kernel.device().default_stream())
}

fn launch(kernel: &crate::Kernel, x: &crate::DeviceTensor, by: f32, on: &crate::Stream) -> Result<(), Error> {
    let shape = crate::Launch { block: [2, 1, 1], ..crate::Launch::default() };
    let by = by.to_le_bytes();
    kernel.launch(&shape, &[crate::KernelArgument::Output(x), crate::KernelArgument::Value(&by)], on)
}
