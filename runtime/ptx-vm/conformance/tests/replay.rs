//! Replays on the machine the results that were recorded on devices.

use std::path::{Path, PathBuf};

use ptx_vm::{Arch, Options};
use ptx_vm_conformance::device::{Device, Emulated, EmulatedError, Shape};
use ptx_vm_conformance::record::{Agreement, Record, Replay, SEEDS, record, replay};
use ptx_vm_conformance::{Case, cases};

/// Replays every record of a file; gives how many were reproduced, how many are stale, and those that differ.
fn replay_file(path: &Path, cases: &[Case]) -> (usize, usize, Vec<String>) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let records = Record::read_all(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (mut reproduced, mut stale, mut differing) = (0, 0, vec![]);
    for one in records {
        match replay(&one, cases) {
            Ok(Replay::Reproduced) => reproduced += 1,
            Ok(Replay::Stale) => stale += 1,
            Ok(Replay::Differs) => {
                differing.push(format!("{} seed {} on {} ({})", one.case, one.seed, one.device, one.driver));
            }
            Err(error) => differing.push(error.to_string()),
        }
    }
    (reproduced, stale, differing)
}

/// Every `conformance.jsonl` that the repository holds, below `benches/results/<device>/`.
#[test]
fn recorded_results_are_reproduced() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../benches/results");
    let Ok(devices) = std::fs::read_dir(&results) else { return };
    let cases = cases::all();
    for device in devices.flatten() {
        let file = device.path().join("conformance.jsonl");
        if file.is_file() {
            let (reproduced, stale, differing) = replay_file(&file, &cases);
            println!("{}: {reproduced} reproduced, {stale} stale", file.display());
            assert!(differing.is_empty(), "{}: ptx-vm differs in {}", file.display(), differing.join("\n"));
        }
    }
}

fn some_cases() -> Vec<Case> {
    let wanted = ["add.rn.f32", "ex2.approx.f32", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "bulk load"];
    let chosen: Vec<Case> = cases::all().into_iter().filter(|c| wanted.contains(&c.name.as_str())).collect();
    assert_eq!(chosen.len(), wanted.len(), "{chosen:?}");
    chosen
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ptx-vm-replay-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// A device that the machine does not model: the machine with one wrong bit in every result.
struct OneBitOff(Emulated);

impl Device for OneBitOff {
    type Module = ptx_vm::Module;
    type Buffer = ptx_vm::Address;
    type Error = EmulatedError;

    fn name(&self) -> String {
        "one bit off".into()
    }
    fn driver(&self) -> String {
        "0".into()
    }
    fn capability(&self) -> (u32, u32) {
        (9, 0)
    }
    fn load(&self, ptx: &str) -> Result<Self::Module, EmulatedError> {
        self.0.load(ptx)
    }
    fn allocate(&self, bytes: usize) -> Result<Self::Buffer, EmulatedError> {
        self.0.allocate(bytes)
    }
    fn address(&self, buffer: &Self::Buffer) -> u64 {
        self.0.address(buffer)
    }
    fn write(&self, buffer: &Self::Buffer, bytes: &[u8]) -> Result<(), EmulatedError> {
        self.0.write(buffer, bytes)
    }
    fn read(&self, buffer: &Self::Buffer, bytes: &mut [u8]) -> Result<(), EmulatedError> {
        self.0.read(buffer, bytes)?;
        // In every slot, since one that holds a NaN may hold any NaN.
        bytes.chunks_mut(8).for_each(|slot| slot[0] ^= 1);
        Ok(())
    }
    fn tensor_map(&self, tensor: &ptx_vm::numerics::tensor_map::Tiled<'_>) -> Result<[u8; 128], EmulatedError> {
        self.0.tensor_map(tensor)
    }
    fn im2col_map(&self, images: &ptx_vm::numerics::im2col::Im2col<'_>) -> Result<[u8; 128], EmulatedError> {
        self.0.im2col_map(images)
    }
    fn launch(&self, module: &Self::Module, shape: Shape, arguments: &[&[u8]]) -> Result<(), EmulatedError> {
        self.0.launch(module, shape, arguments)
    }
}

/// Records the bit-exact model of the machine, writes the records to a file and replays them. Then it does so with a
/// device that is wrong in one bit, with changed cases, and with lines that are not records.
#[test]
fn replaying_notices_what_differs() {
    let all = some_cases();
    let (mut lines, mut wrong) = (vec![], vec![]);
    for case in &all {
        for seed in SEEDS {
            // An emulated Hopper GPU whose arithmetic is its bit model.
            let arithmetic = ptx_vm::Arithmetic::Exact(ptx_vm::Generation::Hopper);
            let options = Options::default().workers(1).arithmetic(arithmetic);
            let hopper = Emulated::new(Arch::Sm90a, options.clone());
            let good = record(&hopper, case, seed).expect("the machine runs it").expect("Hopper has a bit model");
            if case.compare.is_exact() {
                assert_eq!(good.agreement, Agreement::Exact, "{}", case.name);
            } else {
                assert!(matches!(good.agreement, Agreement::Near(_)), "{good:?}");
            }
            lines.push(good.to_json());
            let bad = record(&OneBitOff(hopper), case, seed).expect("the machine runs it").expect("has a model");
            if case.compare.is_exact() {
                assert!(matches!(bad.agreement, Agreement::Differs(_)), "{}", case.name);
                wrong.push(bad.to_json());
            }
        }
    }
    let folder = folder("notices");
    let (good, bad) = (folder.join("conformance.jsonl"), folder.join("bad.jsonl"));
    std::fs::write(&good, lines.join("\n")).expect("written");
    std::fs::write(&bad, wrong.join("\n")).expect("written");
    assert_eq!(replay_file(&good, &all), (lines.len(), 0, vec![]));
    let (reproduced, stale, differing) = replay_file(&bad, &all);
    assert_eq!((reproduced, stale, differing.len()), (0, 0, wrong.len()));
    let mut changed = some_cases();
    for case in &mut changed {
        case.module.push(' ');
    }
    assert_eq!(replay_file(&good, &changed), (0, lines.len(), vec![]));
    let error = Record::read_all(&format!("{}\n\n{{\"case\": 1}}", lines[0])).expect_err("no record");
    assert_eq!(error.line, 3);
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// Two things can't be compared: a float product with an odd seed on a device without a bit-exact model, and a kernel
/// for sm_90a on an older device.
#[test]
fn only_what_can_be_compared_is_recorded() {
    let all = some_cases();
    let ampere = Emulated::new(Arch::Sm80, Options::default().workers(1));
    for case in all {
        let made = record(&ampere, &case, 3).expect("runs").is_some();
        assert_eq!(made, case.target == Arch::Sm80, "{}", case.name);
    }
}
