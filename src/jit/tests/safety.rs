//! Code touches no memory but its lanes, and no memory is writable and executable.

use super::super::x86_64::Width;
use super::{compiled, of_widths};
use crate::jit::{Binary, Body, Lane, RowKernel, RowProgram};

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

#[cfg(target_os = "linux")]
#[test]
fn rows_touch_nothing_beyond_their_lanes() {
    let sizes = [4, 2, 1, 4, 2, 1];
    let mut pages = sizes.map(|_| page());
    for lanes in 1..70usize {
        let mut program = RowProgram::new(lanes);
        let total = program.place();
        let mut body = Body::default();
        let (a, b, c) = (body.load(Lane::F32), body.load(Lane::F16), body.load(Lane::U8));
        let (half, byte) = (body.as_f16(a), body.as_bytes(c));
        let product = body.mul(a, b);
        body.store(Lane::F32, product);
        body.store(Lane::F16, half);
        body.store(Lane::U8, byte);
        body.combine(Binary::Add, 0, a, total, Some(16));
        program.each(body);
        for width in [Width::Bits256, Width::Bits512] {
            let Some(kernel) = RowKernel::at_level(&program, width) else { continue };
            let mut addresses = Vec::new();
            for ((memory, size), bytes) in pages.iter_mut().zip(sizes) {
                memory[..*size].fill(0x5a);
                // SAFETY: it is within the page, which has room for two rows.
                addresses.push(unsafe { memory.as_mut_ptr().add(*size - 2 * bytes * lanes) });
            }
            let apart: Vec<isize> = sizes.iter().map(|bytes| (bytes * lanes) as isize).collect();
            // SAFETY: there is room for two rows up to each page's end.
            unsafe { kernel.run(&mut addresses, &apart, 2) };
            for ((memory, size), bytes) in pages.iter().zip(sizes) {
                let before = &memory[..*size - 2 * bytes * lanes];
                assert!(before.iter().all(|byte| *byte == 0x5a), "before the first of {lanes}, {width:?}");
            }
        }
    }
}
