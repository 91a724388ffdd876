//! Keeps measured winners on disk.
//!
//! An entry is in the kernel cache's folder, and is written and verified like the cache's entries: completely or not at
//! all, with any number of processes. Its name is the hash of what a choice is made for: the product, the epilogue, the
//! GPU. The versions of this crate, the driver and the compiler are inside, because a measurement may not hold for
//! others. So an outdated entry is recognised, and the reason for ignoring it can be given.

use crate::gemm::kernel::{Settings, Switches};
use crate::gemm::model::Candidate;
use crate::gemm::problem::Problem;
use std::fmt::Write as _;

use epilogue_runtime::{CacheKey, Device, DeviceKind, KernelCache};

use crate::evt::ValidTree;
use crate::gemm::emit::origin::computed;

/// The purpose of a kernel, and the software that would compile and run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The product, the operands' types and layouts, the epilogue, the GPU.
    what: Vec<String>,
    /// The versions of this crate, the driver and the compiler.
    by: Vec<(&'static str, String)>,
}

/// The subject of a plan. `None` if the device is not a GPU, because nothing is measured there. `None` without a
/// compiler too, because the winner could not be compiled.
pub(crate) fn subject(device: &Device, tree: &ValidTree, problem: &Problem, settings: Settings) -> Option<Subject> {
    // The choice among a bundle's kernels must not depend on what is on this machine's disk.
    if !matches!(device.kind(), DeviceKind::Cuda { .. }) || !device.bundles().is_empty() {
        return None;
    }
    let properties = device.properties();
    let (major, minor) = device.compiler().ok()?.version();
    let what = vec![
        "epilogue tuning 1".to_owned(),
        properties.name.clone(),
        properties.multiprocessors.to_string(),
        format!("{problem:?} {settings:?} {:?}", tree.types()),
        computed(tree),
    ];
    let by = vec![
        ("epilogue", env!("CARGO_PKG_VERSION").to_owned()),
        ("driver", properties.driver_version.to_string()),
        ("NVRTC", format!("{major}.{minor}")),
    ];
    Some(Subject { what, by })
}

impl Subject {
    fn key(&self) -> CacheKey {
        CacheKey::of(&self.what.iter().map(String::as_bytes).collect::<Vec<_>>())
    }
}

/// The store's knowledge of a subject.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StoredChoice {
    /// There is no entry.
    Nothing,
    /// The fastest candidate, and its time in microseconds.
    Winner(Box<Candidate>, f64),
    /// An entry that can't be used, and why.
    Ignored(String),
}

/// The measured winners of this user.
#[derive(Clone, Debug)]
pub(crate) struct Store(KernelCache);

impl Store {
    /// The store beside the user's compiled kernels; `None` if those are not kept.
    pub(crate) fn of_user() -> Option<Self> {
        KernelCache::of_user().map(Self)
    }

    /// The store in the folder of a cache.
    /// Looks a subject up. The winner must be one of `candidates`, so an entry can't make anything else run.
    pub(crate) fn find(&self, subject: &Subject, candidates: &[Candidate]) -> StoredChoice {
        let Some(content) = self.0.load(subject.key()) else { return StoredChoice::Nothing };
        let Ok(text) = String::from_utf8(content) else { return StoredChoice::Ignored("it is not text".to_owned()) };
        let mut lines = text.lines();
        for (what, now) in &subject.by {
            let line = lines.next().unwrap_or_default();
            match line.split_once(' ') {
                Some((name, then)) if name == *what && then == now => {}
                Some((name, then)) if name == *what => {
                    return StoredChoice::Ignored(format!("it was made with {what} {then}, and this is {now}"));
                }
                _ => return StoredChoice::Ignored(format!("it does not say which {what} it was made with")),
            }
        }
        let (kernel, time) = (lines.next().unwrap_or_default(), lines.next().and_then(|time| time.parse().ok()));
        let Some(time) = time.filter(|time: &f64| time.is_finite() && *time > 0.0) else {
            return StoredChoice::Ignored("it holds no time".to_owned());
        };
        match candidates.iter().find(|candidate| description(candidate) == kernel) {
            Some(winner) => StoredChoice::Winner(Box::new(winner.clone()), time),
            None => StoredChoice::Ignored("its kernel is not a candidate any more".to_owned()),
        }
    }

    /// Stores a winner.
    ///
    /// # Errors
    /// The system's error, if the entry can't be written.
    pub(crate) fn note(&self, subject: &Subject, winner: &Candidate, microseconds: f64) -> std::io::Result<()> {
        let mut text = String::new();
        for (what, now) in &subject.by {
            let _ = writeln!(text, "{what} {now}");
        }
        let _ = writeln!(text, "{}\n{microseconds}", description(winner));
        self.0.store(subject.key(), text.as_bytes())
    }
}

/// A candidate in one line: everything that its kernel is generated from, and the number of splits.
fn description(candidate: &Candidate) -> String {
    format!("{:?} {:?}", candidate.key.with(Switches::default()), candidate.split_k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::kernel::SplitK;
    use crate::gemm::problem::OperandLayout;
    use crate::gemm::{Instruction, Machine, Major, Workload, rank};

    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn store(name: &str) -> (Store, Folder) {
        let folder = std::env::temp_dir().join(format!("epilogue-tuning-{name}-{}", std::process::id()));
        (Store(KernelCache::at(&folder)), Folder(folder))
    }

    fn candidates() -> Vec<Candidate> {
        let layout = OperandLayout::packed(Major::K);
        let (problem, instruction) = (Problem::new(512, 512, 4096), Instruction::MmaF16);
        let epilogue = crate::evt::Cost::default();
        let workload =
            Workload { problem, instruction, a: layout, b: layout, epilogue: &epilogue, lines: None, needed: 1.0 };
        rank(&Machine::a100(), &workload).expect("candidates")
    }

    fn subject(gpu: &str, version: &str) -> Subject {
        Subject {
            what: vec![gpu.to_owned()],
            by: vec![("epilogue", version.to_owned()), ("driver", "13000".to_owned())],
        }
    }

    #[test]
    fn a_winner_is_found_again_and_nowhere_else() {
        let (store, _folder) = store("found");
        let all = candidates();
        let winner = all.iter().find(|c| c.split_k != SplitK::None).expect("some candidate splits");
        assert_eq!(store.find(&subject("A100", "1"), &all), StoredChoice::Nothing);
        store.note(&subject("A100", "1"), winner, 12.5).unwrap();
        assert_eq!(store.find(&subject("A100", "1"), &all), StoredChoice::Winner(Box::new(winner.clone()), 12.5));
        assert_eq!(store.find(&subject("H100", "1"), &all), StoredChoice::Nothing);
        store.note(&subject("A100", "1"), &all[0], 11.0).unwrap();
        assert_eq!(store.find(&subject("A100", "1"), &all), StoredChoice::Winner(Box::new(all[0].clone()), 11.0));
    }

    #[test]
    fn what_may_no_longer_hold_is_ignored_with_its_reason() {
        let (store, _folder) = store("stale");
        let all = candidates();
        store.note(&subject("A100", "1"), &all[1], 12.5).unwrap();
        let ignored = |found| match found {
            StoredChoice::Ignored(reason) => reason,
            other => panic!("{other:?}"),
        };
        let reason = ignored(store.find(&subject("A100", "2"), &all));
        assert_eq!(reason, "it was made with epilogue 1, and this is 2");
        assert_eq!(ignored(store.find(&subject("A100", "1"), &all[2..])), "its kernel is not a candidate any more");
        let key = subject("A100", "1").key();
        for (text, reason) in [
            ("epilogue 1\n", "does not say which driver"),
            ("epilogue 1\ndriver 13000\nx\nNaN\n", "holds no time"),
            ("", "does not say which epilogue"),
        ] {
            store.0.store(key, text.as_bytes()).unwrap();
            let found = ignored(store.find(&subject("A100", "1"), &all));
            assert!(found.contains(reason), "{found}");
        }
        // A damaged file counts as no entry.
        for file in std::fs::read_dir(store.0.folder()).unwrap() {
            std::fs::write(file.unwrap().path(), b"EPILOG").unwrap();
        }
        assert_eq!(store.find(&subject("A100", "1"), &all), StoredChoice::Nothing);
    }

    #[test]
    fn many_writers_leave_a_whole_entry() {
        let (store, _folder) = store("writers");
        let all = candidates();
        std::thread::scope(|scope| {
            for i in 0..8 {
                let (store, all) = (&store, &all);
                scope.spawn(move || {
                    for j in 0..20 {
                        store.note(&subject("A100", "1"), &all[(i + j) % 4], 1.0 + i as f64).unwrap();
                        assert!(matches!(store.find(&subject("A100", "1"), all), StoredChoice::Winner(..)));
                    }
                });
            }
        });
    }
}
