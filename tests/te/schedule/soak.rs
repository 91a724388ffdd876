//! Random schedules without end. `cargo xtask soak` runs this test for a given number of minutes; otherwise it tries a
//! few, to check that it counts and reports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{programs, random};
use crate::case::lacks_nvrtc;
use crate::schedule::trial::{Generator, Outcome};

/// The outcomes for one computation.
#[derive(Default)]
struct Counts {
    right: u64,
    refused: u64,
    promise: u64,
    wrong: u64,
    slowest: (Duration, u64),
}

/// The options of `cargo xtask soak`.
struct Asked {
    time: Option<Duration>,
    seed: u64,
    of: String,
    generator: String,
    /// Tries only one seed.
    only: Option<u64>,
    /// How many in a thousand are tried on the emulated device.
    emulate: u32,
}

impl Asked {
    fn read() -> Self {
        let word = |name: &str| std::env::var(format!("EPILOGUE_SOAK_{name}")).ok().filter(|word| !word.is_empty());
        let number = |name: &str| word(name).map(|text| text.parse().expect("a number"));
        let minutes = word("MINUTES").map(|text| text.parse::<f64>().expect("a number of minutes"));
        Self {
            time: minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes)),
            seed: number("SEED").unwrap_or(0),
            of: word("OF").unwrap_or_default(),
            generator: word("GENERATOR").unwrap_or_default(),
            only: number("ONLY"),
            emulate: number("EMULATE").map_or(20, |n| u32::try_from(n).expect("a number up to 1000")),
        }
    }

    /// The generators that can give what is asked for.
    fn generators(&self) -> Vec<&'static Generator> {
        let all = [&random::GENERATOR, &programs::GENERATOR];
        let has = |g: &&Generator| (g.kinds)().iter().any(|kind| kind.contains(&self.of));
        all.into_iter().filter(|g| g.name.contains(&self.generator)).filter(has).collect()
    }
}

fn say(text: &str) {
    // The test harness hides what a passing test writes with `println!`, but not this.
    let _ = writeln!(io::stderr(), "{text}");
}

/// The file with the seed that is being tried, for a trial that ends the process.
fn current() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak.current")
}

#[test]
fn soak() {
    let asked = Asked::read();
    let emulate = if lacks_nvrtc("soak") { 0 } else { asked.emulate };
    let generators = asked.generators();
    assert!(!generators.is_empty(), "nothing is called so");
    if asked.time.is_some() {
        // A panic is a trial's result, and is reported with it.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let (start, mut seeds) = (Instant::now(), fastrand::Rng::with_seed(asked.seed));
    let mut counts: BTreeMap<(&str, &str), Counts> = BTreeMap::new();
    let (mut tried, mut first) = (0u64, None);
    loop {
        let generator = generators[usize::try_from(tried).unwrap_or(0) % generators.len()];
        let seed = asked.only.unwrap_or_else(|| seeds.u64(..));
        if asked.time.is_some() {
            let _ = fs::write(current(), format!("{} {seed} (of `{}`)\n", generator.name, asked.of));
        }
        let done = generator.try_seed(seed, &asked.of, emulate);
        tried += 1;
        let count = counts.entry((generator.name, done.kind)).or_default();
        count.slowest = count.slowest.max((done.time, seed));
        match done.result {
            Ok(Outcome::Right) => count.right += 1,
            Ok(Outcome::Refused(_)) => count.refused += 1,
            Ok(Outcome::Promise) => count.promise += 1,
            Err(text) => {
                count.wrong += 1;
                say(&format!("=== wrong: {text}\n"));
                first.get_or_insert((generator.name, seed));
            }
        }
        let over = asked.time.map_or(tried >= 40, |time| start.elapsed() >= time);
        if over || asked.only.is_some() && tried as usize >= generators.len() {
            break;
        }
        if tried.is_multiple_of(2000) {
            say(&table(&counts, start.elapsed()));
        }
    }
    let _ = fs::remove_file(current());
    if asked.time.is_some() {
        say(&table(&counts, start.elapsed()));
    }
    assert!(first.is_none(), "the first failure: {} {}", first.map_or("", |f| f.0), first.map_or(0, |f| f.1));
    assert_eq!(counts.values().map(|c| c.right + c.refused + c.promise).sum::<u64>(), tried);
}

/// The numbers of outcomes, by computation.
fn table(counts: &BTreeMap<(&str, &str), Counts>, time: Duration) -> String {
    let mut text = "     right   refused  promise  wrong  slowest (s, its seed)\n".to_owned();
    let mut all = Counts::default();
    for ((generator, kind), c) in counts {
        let (slow, seed) = (c.slowest.0.as_secs_f64(), c.slowest.1);
        let _ = writeln!(
            text,
            "{:10} {:9} {:8} {:6}  {slow:.2} {seed:20}  {generator}: {kind}",
            c.right, c.refused, c.promise, c.wrong
        );
        (all.right, all.refused, all.promise, all.wrong) =
            (all.right + c.right, all.refused + c.refused, all.promise + c.promise, all.wrong + c.wrong);
    }
    let total = all.right + all.refused + all.promise + all.wrong;
    let rate = total as f64 / time.as_secs_f64();
    let _ = writeln!(
        text,
        "{:10} {:9} {:8} {:6}  {total} in {:.0} s, {rate:.1} a second",
        all.right,
        all.refused,
        all.promise,
        all.wrong,
        time.as_secs_f64()
    );
    text
}
