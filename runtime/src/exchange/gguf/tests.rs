//! Files of pip's `gguf`, and files that nobody should have written.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{self, Command};

use super::*;
use crate::formats::BlockFormat;
use crate::{ElementType, GgufError};

const SMALL: &[u8] = include_bytes!("../../../../tests/golden/formats/small.gguf");

#[test]
fn metadata_of_every_type_is_found_by_name() {
    let file = Gguf::from_bytes(SMALL).unwrap();
    assert_eq!(file.version(), 3);
    let get = |name: &str| file.metadata(name).unwrap();
    assert_eq!(get("general.architecture").as_str(), Some("llama"));
    let unsigned = ["uint8", "uint16", "uint32", "uint64"].map(|name| get(&format!("test.{name}")).as_u64());
    assert_eq!(unsigned, [Some(1), Some(3), Some(5), Some(7)]);
    assert_eq!(get("test.int8"), Value::I8(-2));
    assert_eq!(get("test.int16"), Value::I16(-4));
    assert_eq!(get("test.int32"), Value::I32(-6));
    assert_eq!(get("test.int64"), Value::I64(-8));
    assert_eq!(get("test.int8").as_u64(), None);
    assert_eq!([get("test.float32").as_f64(), get("test.float64").as_f64()], [Some(-9.0), Some(-10.0)]);
    assert_eq!(get("test.bool").as_bool(), Some(true));
    assert_eq!(get("test.string").as_str(), Some("ein Text – mit Strich"));
    let numbers = get("test.numbers").as_array().unwrap();
    assert_eq!(numbers.iter().filter_map(Value::as_u64).collect::<Vec<_>>(), [3, 1, 4, 1, 5]);
    let words = get("test.words").as_array().unwrap();
    assert_eq!(words.iter().filter_map(Value::as_str).collect::<Vec<_>>(), ["a", "", "ccc"]);
    let truths = get("test.truths").as_array().unwrap();
    assert_eq!(truths.iter().filter_map(Value::as_bool).collect::<Vec<_>>(), [true, false, true]);
    let nested = get("test.nested").as_array().unwrap();
    assert_eq!(nested.iter().filter_map(Value::as_array).map(Array::len).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(format!("{:?}", get("test.nested")), "[[1, 2], [3]]");
    assert_eq!(file.all_metadata().count(), 17);
    let missing = file.metadata("test.none").unwrap_err();
    assert_eq!(missing.to_string(), "the GGUF file has no metadata `test.none`");
}

#[test]
fn tensors_have_the_values_of_ggml() {
    let file = Gguf::from_bytes(SMALL.to_vec()).unwrap();
    let mut compared = 0;
    for tensor in file.tensors() {
        let Some(kind) = tensor.name().strip_suffix(".weight") else { continue };
        assert_eq!(tensor.type_name(), kind);
        if kind == "Q2_K" {
            continue;
        }
        assert_eq!(tensor.shape(), [2, 256]);
        let values = file.tensor(&format!("{kind}.values")).unwrap();
        assert_eq!(values.element_type(), Some(ElementType::F32));
        assert_eq!(tensor.decode().unwrap(), values.decode().unwrap(), "{kind}");
        assert_eq!(&SMALL[tensor.range()], tensor.bytes());
        assert_eq!(
            tensor.format().map(BlockFormat::code_bytes),
            match kind {
                "F32" | "F16" | "BF16" => None,
                _ => Some(tensor.bytes().len() / (512 / tensor.format().unwrap().block_len())),
            }
        );
        compared += 1;
    }
    assert_eq!(compared, 11);
    let counts = file.tensor("counts").unwrap();
    assert_eq!(counts.shape(), [2, 3, 4]);
    assert_eq!(counts.decode().unwrap()[23], 23.0);
    let refused = file.tensor("Q2_K.weight").unwrap().decode().unwrap_err().to_string();
    assert!(
        refused.starts_with("tensor `Q2_K.weight` is of type Q2_K, and this library decodes F32, F16"),
        "{refused}"
    );
    assert!(matches!(file.tensor("none"), Err(GgufError::Missing { what: "tensor", .. })));
}

/// A file that is written piece by piece.
#[derive(Clone)]
struct Made(Vec<u8>);

impl Made {
    fn header(version: u32, tensors: u64, values: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(version).u64(tensors).u64(values)
    }

    fn u32(mut self, x: u32) -> Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    fn u64(mut self, x: u64) -> Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    fn text(self, text: &[u8]) -> Self {
        let mut all = self.u64(text.len() as u64);
        all.0.extend(text);
        all
    }

    fn tensor(self, name: &str, extents: &[u64], kind: u32, offset: u64) -> Self {
        let begun = self.text(name.as_bytes()).u32(extents.len() as u32);
        extents.iter().fold(begun, |made, extent| made.u64(*extent)).u32(kind).u64(offset)
    }

    fn data(mut self, count: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(32) + count, 0);
        self
    }

    fn read(&self) -> Result<Gguf<&[u8]>, GgufError> {
        Gguf::from_bytes(self.0.as_slice())
    }

    fn refused(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

#[test]
fn version_2_is_read_and_others_are_refused() {
    assert_eq!(Made::header(2, 0, 0).read().unwrap().version(), 2);
    assert!(Made::header(1, 0, 0).refused().starts_with("the GGUF file is of version 1, and versions 2 and 3"));
    assert!(Made::header(3u32.swap_bytes(), 0, 0).refused().contains("(in big-endian order)"));
    for bytes in [&b""[..], b"GG", b"GGML\0\0\0\0"] {
        assert!(matches!(Gguf::from_bytes(bytes), Err(GgufError::Magic { .. })));
    }
}

#[test]
fn a_file_that_ends_too_early_is_refused_at_every_byte() {
    let tensors = Gguf::from_bytes(SMALL).unwrap();
    let end = tensors.tensors().map(|tensor| tensor.range().end).max().unwrap();
    // Each byte of the header, and some of the data.
    for length in (0..tensors.data_begins()).chain((tensors.data_begins()..end).step_by(97)) {
        match Gguf::from_bytes(&SMALL[..length]) {
            Err(GgufError::Truncated { length: given, .. }) => assert_eq!(given, length),
            Err(GgufError::Magic { .. }) => assert!(length < 4),
            other => panic!("{length}: {other:?}"),
        }
    }
    assert!(Gguf::from_bytes(&SMALL[..end]).is_ok());
}

/// Nothing is allocated for them: the test would end for want of memory.
#[test]
fn counts_and_lengths_beyond_the_file_are_refused() {
    for huge in [u64::MAX, 1 << 60, 1 << 32] {
        let cases = [
            Made::header(3, huge, 0),
            Made::header(3, 0, huge),
            Made::header(3, 0, 1).u64(huge),
            Made::header(3, 0, 1).text(b"x").u32(8).u64(huge),
            Made::header(3, 0, 1).text(b"x").u32(9).u32(0).u64(huge),
            Made::header(3, 0, 1).text(b"x").u32(9).u32(8).u64(huge),
            Made::header(3, 0, 1).text(b"x").u32(9).u32(9).u64(huge),
            Made::header(3, 1, 0).u64(huge),
            Made::header(3, 1, 0).tensor("x", &[huge], 0, 0),
            Made::header(3, 1, 0).tensor("x", &[32], 0, huge & !31),
        ];
        for (number, case) in cases.iter().enumerate() {
            let refused = case.read().unwrap_err();
            let is_expected = matches!(refused, GgufError::Truncated { .. } | GgufError::Invalid { .. });
            assert!(is_expected, "{number}, {huge}: {refused}");
        }
    }
}

#[test]
fn tensors_that_cannot_be_are_refused() {
    let one = |extents: &[u64], kind, offset| Made::header(3, 1, 0).tensor("x", extents, kind, offset).data(4096);
    assert!(one(&[32], 8, 0).read().is_ok());
    assert!(one(&[], 0, 0).read().is_ok());
    assert!(one(&[1 << 60, 1 << 60], 0, 0).refused().contains("more than memory can address"));
    assert!(one(&[0, 1 << 60, 1 << 60], 0, 0).refused().contains("more than memory can address"));
    assert!(one(&[1 << 60, 0], 0, 0).read().is_ok_and(|file| file.tensor("x").unwrap().decode().unwrap().is_empty()));
    assert!(one(&[1; 5], 0, 0).refused().contains("has 5 dimensions, and at most 4"));
    assert!(one(&[33], 8, 0).refused().contains("has rows of 33 values, and Q8_0 has blocks of 32"));
    assert!(one(&[32], 8, 7).refused().contains("offset 7, which is no multiple of the alignment 32"));
    assert!(one(&[32], 4, 0).refused().contains("of type number 4, and this library decodes"));
    assert!(matches!(one(&[4096], 0, 0).read(), Err(GgufError::Truncated { .. })));
    let two = |first: &str, second: &str, offset| {
        Made::header(3, 2, 0).tensor(first, &[32], 0, 0).tensor(second, &[32], 0, offset).data(4096)
    };
    assert!(two("a", "b", 128).read().is_ok());
    assert!(two("a", "b", 96).refused().contains("tensors `a` and `b` share bytes"));
    assert!(two("a", "b", 0).refused().contains("tensors `a` and `b` share bytes"));
    assert!(two("a", "a", 128).refused().contains("tensor `a` is there twice"));
    assert!(two("a", "", 128).refused().contains("is empty"));
}

#[test]
fn metadata_that_cannot_be_is_refused() {
    let of = |kind: u32| Made::header(3, 0, 1).text(b"x").u32(kind);
    assert!(of(13).refused().contains("is of type 13, and types go from 0 to 12"));
    let truth = |byte| {
        let mut made = of(7);
        made.0.push(byte);
        made
    };
    assert!(truth(1).read().is_ok());
    assert!(truth(2).refused().contains("is 2, and may be 0 or 1"));
    let mut truths = of(9).u32(7).u64(2);
    truths.0.extend([1, 3]);
    assert!(truths.refused().contains("is 3, and may be 0 or 1"));
    let deep = |depth| (0..depth).fold(of(9), |made, _| made.u32(9).u64(1)).u32(0).u64(0);
    assert!(deep(7).read().is_ok());
    assert!(deep(8).refused().contains("nested"));
    assert!(deep(100_000).refused().contains("nested"));
    assert!(Made::header(3, 0, 1).text(b"\xff").refused().contains("is not UTF-8"));
    let twice = Made::header(3, 0, 2).text(b"x").u32(4).u32(0).text(b"x").u32(4).u32(0);
    assert!(twice.refused().contains("metadata `x` is there twice"));
    // Text may be no text.
    let token = of(8).text(b"\xff");
    let file = token.read().unwrap();
    assert_eq!(file.metadata("x").unwrap(), Value::String(b"\xff"));
    assert_eq!(file.metadata("x").unwrap().as_str(), None);
}

#[test]
fn the_file_says_how_tensors_are_aligned() {
    let made = |kind: u32, alignment: u32| {
        let header = Made::header(3, 1, 1).text(b"general.alignment").u32(kind).u32(alignment);
        let mut made = header.tensor("x", &[2], 0, u64::from(alignment));
        let begin = made.0.len().next_multiple_of(alignment.max(1) as usize) + alignment as usize;
        made.0.resize(begin, 0);
        made.0.extend([1.0f32, 2.0].map(f32::to_le_bytes).concat());
        made
    };
    for alignment in [8, 64, 1024] {
        assert_eq!(made(4, alignment).read().unwrap().tensor("x").unwrap().decode().unwrap(), [1.0, 2.0]);
    }
    for (kind, alignment) in [(4, 0), (4, 24), (5, 32)] {
        assert!(made(kind, alignment).refused().contains("must be a power of two"), "{kind} {alignment}");
    }
    let huge = Made::header(3, 1, 1).text(b"general.alignment").u32(4).u32(1 << 31).tensor("x", &[2], 0, 0);
    assert!(matches!(huge.read(), Err(GgufError::Truncated { .. })));
}

fn temporary(name: &str) -> PathBuf {
    env::temp_dir().join(format!("epilogue-gguf-{}-{name}", process::id()))
}

#[test]
fn a_file_is_read_or_mapped() {
    let path = temporary("read");
    assert!(Gguf::open(&path).unwrap_err().to_string().contains("can't be read"));
    fs::write(&path, SMALL).unwrap();
    let (read, mapped) = (Gguf::open(&path).unwrap(), unsafe_map(&path));
    // What was read stays, whatever happens to the file.
    fs::remove_file(&path).unwrap();
    for tensor in read.tensors() {
        assert_eq!(mapped.tensor(tensor.name()).unwrap().bytes(), tensor.bytes());
    }
    assert_eq!(read.into_inner(), SMALL);
}

fn unsafe_map(path: &PathBuf) -> Gguf<Mapped> {
    // SAFETY: the file has a name of this process, and only `truncate` writes to it, which expects what follows.
    unsafe { Gguf::map(path) }.unwrap()
}

/// The reason why mapping is unsafe: a process that reads behind the new end is ended by the system. The process is this
/// test again, in a child.
#[cfg(target_os = "linux")]
#[test]
fn a_truncated_file_ends_who_has_mapped_it_and_not_who_has_read_it() {
    use std::os::unix::process::ExitStatusExt;

    const CHILD: &str = "EPILOGUE_TEST_TRUNCATED";
    const NAME: &str = "a_truncated_file_ends_who_has_mapped_it_and_not_who_has_read_it";
    if let Some(path) = env::var_os(CHILD) {
        let path = PathBuf::from(path);
        let (read, mapped) = (Gguf::open(&path).unwrap(), unsafe_map(&path));
        fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert_eq!(read.tensor("counts").unwrap().decode().unwrap()[5], 5.0);
        eprintln!("what was read stays");
        let lost = mapped.tensor("counts").unwrap().decode();
        eprintln!("what was mapped stays: {lost:?}");
        return;
    }
    let path = temporary("truncated");
    fs::write(&path, SMALL).unwrap();
    let test = format!("exchange::gguf::tests::{NAME}");
    let mut child = Command::new(env::current_exe().unwrap());
    let output = child.args(["--exact", &test, "--nocapture"]).env(CHILD, &path).output().unwrap();
    fs::remove_file(&path).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("what was read stays") && !said.contains("what was mapped stays"), "{said}");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{said}");
}
