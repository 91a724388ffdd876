//! Models of the library's own waiting. loom runs them in every order of the threads' steps, and with every value that
//! an atomic may be read as. `Variants` makes each kernel once, and ranks meet in `Meeting`. `Jobs` hands work over to
//! the threads that the library computes on. `HostLock` belongs to tensors' memory. Files are the library's; `sync` has
//! loom's locks in place of the standard library's.
//!
//! That models can fail is tested, too: each of `mutants.rs` is a copy of one of those files with one mistake, which a model
//! of that file must find. (It runs in a process of its own, since loom's threads can't be left in the middle.)
//!
//! Not modelled is `Pool`, which is one lock and no waiting.

#![allow(clippy::print_stdout, reason = "there is no harness")]

#[allow(dead_code, reason = "the build script uses the rest")]
mod mutants;
mod sync;

#[path = "../../src/variants.rs"]
#[allow(dead_code, unused_imports, clippy::map_clone, reason = "models use some of it, and its tests are left out")]
mod variants;

#[path = "../../runtime/src/ranks/meeting.rs"]
#[allow(dead_code, unused_imports, clippy::map_clone, reason = "models use some of it, and its tests are left out")]
mod meeting;

#[path = "../../src/parallel/jobs.rs"]
mod jobs;

#[path = "../../runtime/src/memory/host_lock.rs"]
#[allow(dead_code, unused_imports, reason = "its tests are left out")]
mod host_lock;

#[path = "variants.rs"]
mod models_of_variants;

#[path = "meeting.rs"]
mod models_of_meeting;

#[path = "jobs.rs"]
mod models_of_jobs;

#[path = "host_lock.rs"]
mod models_of_host_lock;

/// The modelled files with mistakes.
#[allow(warnings, clippy::all, reason = "they are wrong on purpose")]
mod wrong {
    include!(concat!(env!("OUT_DIR"), "/mutants.rs"));
}

/// The waiting that `jobs` needs: threads look once.
mod parallel {
    pub(crate) mod patience {
        pub(crate) fn look<T>(found: impl Fn() -> Option<T>) -> Option<T> {
            found()
        }
    }
}

/// The library's errors that `meeting` needs.
mod error {
    pub(crate) mod ranks {
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum CommunicatorError {
            Gone { rank: usize },
            Timeout { seconds: u64, late: Vec<usize> },
        }
    }
}

use std::process::Command;
use std::time::Instant;

use mutants::{MUTANTS, Mutant};

/// In the environment of a process that runs the models of one mutant: its number.
const MUTANT: &str = "EPILOGUE_LOCKS_MUTANT";

fn main() {
    if let Ok(number) = std::env::var(MUTANT) {
        let number: usize = number.parse().expect("a number");
        return wrong::MODELS_OF_MUTANTS[number].iter().for_each(|(_, model)| model());
    }
    let models = models_of_variants::MODELS.into_iter().chain(models_of_meeting::MODELS);
    for (name, model) in models.chain(models_of_jobs::MODELS).chain(models_of_host_lock::MODELS) {
        let begin = Instant::now();
        model();
        println!("{name}: {:.2} s", begin.elapsed().as_secs_f64());
    }
    let begin = Instant::now();
    for (number, mutant) in MUTANTS.iter().enumerate() {
        is_found(number, mutant);
    }
    println!("{} mutants found: {:.2} s", MUTANTS.len(), begin.elapsed().as_secs_f64());
}

fn is_found(number: usize, mutant: &Mutant) {
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(this).env(MUTANT, number.to_string()).output().expect("a process");
    let said = String::from_utf8_lossy(&output.stderr);
    let Mutant { name, file, found, .. } = mutant;
    assert!(!output.status.success(), "no model of `{file}` finds this mistake: {name}");
    assert!(said.contains(found), "`{name}` is found, but not by `{found}`:\n{said}");
}

/// Runs a model in every order with at most three preemptions, which find nearly all that more would.
fn in_every_order(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
