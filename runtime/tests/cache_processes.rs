//! Many processes on one kernel cache at once, while somebody damages its files.
//!
//! This test is its own `main`: it starts copies of itself.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use epilogue_runtime::{CacheKey, KernelCache};

const PROCESSES: u32 = 6;
const ROUNDS: u32 = 150;
const KEYS: u32 = 5;
const CHILD: &str = "EPILOGUE_CACHE_TEST_CHILD";

fn main() -> ExitCode {
    if let Ok(seed) = env::var(CHILD) {
        let folder = env::args().nth(1).unwrap();
        return child(Path::new(&folder), seed.parse().unwrap());
    }
    // `cargo test -- --list` comes here too.
    if env::args().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let folder = env::temp_dir().join(format!("epilogue-cache-processes-{}", std::process::id()));
    let children: Vec<_> = (0..PROCESSES)
        .map(|seed| {
            let program = env::current_exe().unwrap();
            Command::new(program).arg(&folder).env(CHILD, seed.to_string()).spawn().unwrap()
        })
        .collect();
    let failed = children.into_iter().map(|mut c| c.wait().unwrap()).filter(|status| !status.success()).count();
    let leftovers = fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .filter(|e| e.path().extension().is_none_or(|extension| extension != "kernel"))
        .count();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!((failed, leftovers), (0, 0), "processes that saw wrong content, and files left behind");
    println!("{PROCESSES} processes shared a cache: ok");
    ExitCode::SUCCESS
}

/// The content that every process stores under a key: the same bytes, as one compiler would make them.
fn content(key: u32) -> Vec<u8> {
    (0..20_000 + key * 7_000).flat_map(|i| (i.wrapping_mul(2_654_435_761) ^ key).to_le_bytes()).collect()
}

fn child(folder: &Path, seed: u32) -> ExitCode {
    let cache = KernelCache::at(folder);
    let mut random = seed.wrapping_mul(747_796_405).wrapping_add(1);
    let mut loads = 0;
    for round in 0..ROUNDS {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = (random >> 16) % KEYS;
        let name = CacheKey::of(&[&key.to_le_bytes()]);
        match cache.load(name) {
            Some(found) if found == content(key) => loads += 1,
            Some(_) => return ExitCode::FAILURE,
            None => cache.store(name, &content(key)).unwrap(),
        }
        if round % 20 == 19 {
            damage(folder, random);
        }
    }
    // Most rounds must have found something, or the cache caches nothing.
    if loads * 4 > ROUNDS { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Cuts one of the files short.
fn damage(folder: &Path, random: u32) {
    let files: Vec<_> = fs::read_dir(folder).unwrap().flatten().map(|e| e.path()).collect();
    let victim = &files[random as usize % files.len()];
    if victim.extension().is_some_and(|e| e == "kernel")
        && let Ok(file) = fs::File::options().write(true).open(victim)
    {
        let _ = file.set_len(u64::from(random % 30_000));
    }
}
