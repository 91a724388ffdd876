//! Code touches no memory but its lanes, and no memory is writable and executable.

use super::{compiled, of_widths};
use crate::jit::{Body, Lane};

/// A page of memory that ends where none begins: a mapping goes beyond the end of its file.
#[cfg(target_os = "linux")]
fn page() -> (memmap2::MmapMut, usize) {
    let path = std::env::temp_dir().join(format!("epilogue-jit-{}-{}", std::process::id(), fastrand::u64(..)));
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).expect("a file is made");
    std::fs::remove_file(&path).expect("it is removed");
    let size = 4096;
    file.set_len(size as u64).expect("it grows");
    // SAFETY: nobody else has the file.
    let memory = unsafe { memmap2::MmapOptions::new().len(2 * size).map_mut(&file) }.expect("it is mapped");
    (memory, size)
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_read_or_written_beyond_the_lanes() {
    let mut body = Body::default();
    let (a, b, c) = (body.load(Lane::F32), body.load(Lane::F16), body.load(Lane::U8));
    let d = body.uniform();
    let _ = c;
    let (sum, both) = (body.add(a, d), body.mul(a, b));
    let (half, byte) = (body.as_f16(sum), body.as_bytes(c));
    body.store(Lane::F32, both);
    body.store(Lane::F16, half);
    body.store(Lane::U8, byte);
    let sizes = [4, 2, 1, 4, 4, 2, 1];
    let mut pages = sizes.map(|_| page());
    for (kernel, lanes) in of_widths(&body).iter().flat_map(|kernel| (0..70).map(move |lanes| (kernel, lanes))) {
        let counts = [lanes, lanes, lanes, 1, lanes, lanes, lanes];
        let mut addresses = Vec::new();
        for (((memory, size), bytes), count) in pages.iter_mut().zip(sizes).zip(counts) {
            memory[..*size].fill(0x5a);
            // SAFETY: it is within the page.
            addresses.push(unsafe { memory.as_mut_ptr().add(*size - bytes * count) });
        }
        // SAFETY: there is room for the lanes up to each page's end.
        unsafe { kernel.run(&addresses, lanes) };
        for ((memory, size), (bytes, count)) in pages.iter().zip(sizes.into_iter().zip(counts)) {
            assert!(memory[..*size - bytes * count].iter().all(|byte| *byte == 0x5a), "before the first of {lanes}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn no_memory_is_writable_and_executable() {
    let mut body = Body::default();
    let x = body.load(Lane::F32);
    body.store(Lane::F32, x);
    let Some(_kernel) = compiled(&body) else { return };
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    assert!(maps.lines().any(|line| line.contains("r-xp")));
    assert!(!maps.lines().any(|line| line.contains("rwx")), "{maps}");
}
