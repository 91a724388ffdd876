//! Every reader with random edits of what it accepts, on a thread with the stack that its callers have.

use std::any::Any;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use epilogue_fuzz::Target;
use epilogue_runtime::testing::cases;
use fastrand::Rng;

/// Much longer than any of these inputs takes on a busy machine.
const MOST: Duration = Duration::from_secs(10);

/// Bytes in which formats hide their limits: numbers, brackets, signs, what is not text.
const TELLING: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"18446744073709551616",
    b"9223372036854775807",
    b"4294967295",
    b"1e400",
    b"\"",
    b"(",
    b"[[",
    b"{",
    b"/*",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\0",
    "é".as_bytes(),
];

/// A place in the bytes; or their end.
fn place(bytes: &[u8], random: &mut Rng) -> usize {
    random.usize(..=bytes.len())
}

/// A part of the bytes; mostly a short one.
fn part(bytes: &[u8], random: &mut Rng) -> std::ops::Range<usize> {
    let from = place(bytes, random);
    let longest = if random.u32(..4) == 0 { 400 } else { 12 };
    from..(from + random.usize(..longest)).min(bytes.len())
}

fn edit(bytes: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    match random.u32(..10) {
        0 if !bytes.is_empty() => {
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u32(..8);
        }
        1 => drop(bytes.drain(part(bytes, random))),
        2 => {
            let copied = bytes[part(bytes, random)].to_vec();
            let at = place(bytes, random);
            bytes.splice(at..at, copied);
        }
        3 | 4 => {
            let taken = other[part(other, random)].to_vec();
            bytes.splice(part(bytes, random), taken);
        }
        5 => bytes.truncate(place(bytes, random)),
        // Another name, or another number: most readers accept some of these.
        6 | 7 if !bytes.is_empty() => {
            let at = random.usize(..bytes.len());
            match bytes[at] {
                b'0'..=b'9' => bytes[at] = b'0' + random.u8(..10),
                b'a'..=b'z' => bytes[at] = b'a' + random.u8(..26),
                _ => {}
            }
        }
        // Deeply nested, or very long.
        8 if random.u32(..8) == 0 => {
            let repeated = bytes[part(bytes, random)].repeat(random.usize(..3000));
            let at = place(bytes, random);
            bytes.splice(at..at, repeated);
        }
        _ => {
            let telling = TELLING[random.usize(..TELLING.len())];
            let range = if random.bool() {
                part(bytes, random)
            } else {
                let at = place(bytes, random);
                at..at
            };
            bytes.splice(range, telling.iter().copied());
        }
    }
}

/// Writes the bytes over those of the file. A file that becomes empty first is written to the disk at once by ext4.
fn keep(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panics").to_owned()
}

/// Edits seeds `count` times. An input that breaks the reader is kept in a file, whose name is in the message.
fn try_edited(target: Target, count: u32) {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let mut random = Rng::with_seed(seed);
    let seeds = target.seeds();
    for (at, seed) in seeds.iter().enumerate() {
        assert!(target.accepts(seed), "seed {at} of {target:?} is refused");
    }
    let current = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.{seed}", target.name()));
    let mut kept = File::create(&current).expect("a file");
    let mut accepted = 0;
    for _ in 0..count {
        let other = &seeds[random.usize(..seeds.len())];
        let mut input = seeds[random.usize(..seeds.len())].clone();
        let edits = if random.bool() { 1 } else { random.u32(2..6) };
        for _ in 0..edits {
            edit(&mut input, other, &mut random);
        }
        // Kept first, because a stack that overflows ends the process.
        keep(&mut kept, &input).expect("written");
        let begin = Instant::now();
        match catch_unwind(|| target.accepts(&input)) {
            Ok(result) => accepted += u32::from(result),
            Err(panic) => panic!("{} breaks {target:?}: {}", current.display(), said(&*panic)),
        }
        assert!(begin.elapsed() < MOST, "{} takes {target:?} {:?}", current.display(), begin.elapsed());
    }
    fs::remove_file(&current).expect("removed");
    // Edits that are all refused at the first byte would test nothing.
    assert!(accepted > 0 && accepted < count, "{accepted} of {count} edited inputs are accepted");
}

/// The stack that Rust gives to threads.
const USUAL_STACK: usize = 2 << 20;
/// The stack on which rustc and rust-analyzer run macros.
const COMPILERS_STACK: usize = 8 << 20;

fn on_a_stack(bytes: usize, target: Target, count: u32) {
    thread::Builder::new()
        .stack_size(bytes)
        .spawn(move || try_edited(target, cases(count)))
        .expect("a thread")
        .join()
        .unwrap_or_else(|panic| panic!("{}", said(&*panic)));
}

#[test]
fn ptx() {
    on_a_stack(USUAL_STACK, Target::Ptx, 2000);
}

#[test]
fn schedules() {
    on_a_stack(USUAL_STACK, Target::Schedule, 1500);
}

#[test]
fn bundles() {
    on_a_stack(USUAL_STACK, Target::Bundle, 3000);
}

#[test]
fn gguf_files() {
    on_a_stack(USUAL_STACK, Target::Gguf, 2000);
}

#[test]
fn checkpoints() {
    on_a_stack(USUAL_STACK, Target::Checkpoint, 2000);
}

#[test]
fn macro_input() {
    on_a_stack(COMPILERS_STACK, Target::Macros, 3000);
}
