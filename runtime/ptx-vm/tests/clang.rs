//! Runs PTX made by clang (the texts beside this file, from `clang/kernels.cu`) against the same computations in Rust.
//!
//! Made with clang 19.1.7 in `clang/`:
//! `clang-19 -D__CUDACC__ -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -Xclang -target-feature -Xclang +ptx80
//! -nocudainc -nocudalib -O2 -S -o sm_80.ptx kernels.cu`; `sm_80_unoptimised.ptx` with `-O0`; `sm_90.ptx` with
//! `--cuda-gpu-arch=sm_90 -DHOPPER`.

#![allow(clippy::unwrap_used)]

use ptx_vm::{Address, Arch, Argument, Detector, Launch, Machine, Module, Options};

const TEXTS: [(&str, Arch, &str); 3] = [
    ("sm_80", Arch::Sm80, include_str!("clang/sm_80.ptx")),
    ("sm_80 -O0", Arch::Sm80, include_str!("clang/sm_80_unoptimised.ptx")),
    ("sm_90", Arch::Sm90a, include_str!("clang/sm_90.ptx")),
];

fn machine(arch: Arch) -> Machine {
    Machine::new(Options::default().arch(arch).workers(1).detector(Detector::On))
}

fn buffer(machine: &Machine, bytes: &[u8]) -> Address {
    let address = machine.allocate(bytes.len() as u64, "buffer").unwrap();
    machine.write(address, bytes).unwrap();
    address
}

fn read<const N: usize, T>(machine: &Machine, address: Address, count: usize, value: fn([u8; N]) -> T) -> Vec<T> {
    let mut bytes = vec![0; count * N];
    machine.read(address, &mut bytes).unwrap();
    bytes.chunks_exact(N).map(|c| value(c.try_into().unwrap())).collect()
}

fn launch(machine: &Machine, module: &Module, name: &str, grid: u32, block: u32, arguments: &[Argument<'_>]) {
    let report = machine.launch(module, name, &Launch::new([grid, 1, 1], [block, 1, 1]), arguments);
    let report = report.unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(report.races.is_empty(), "{name}: {}", report.races[0]);
}

#[test]
fn sums_of_blocks() {
    for (name, arch, text) in TEXTS {
        let (machine, module) = (machine(arch), Module::parse(text).unwrap_or_else(|e| panic!("{name}: {e}")));
        let numbers: Vec<f32> = (0..500).map(|i| (i % 37) as f32 - 5.0).collect();
        let input = buffer(&machine, &numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let out = buffer(&machine, &[0; 4]);
        let arguments = [Argument::Address(input), Argument::Address(out), Argument::I32(500)];
        launch(&machine, &module, "sum", 4, 128, &arguments);
        assert_eq!(read(&machine, out, 1, f32::from_le_bytes), [numbers.iter().sum::<f32>()], "{name}");
    }
}

#[test]
fn structures_by_value_are_copied_to_local_memory() {
    for (name, arch, text) in TEXTS {
        let (machine, module) = (machine(arch), Module::parse(text).unwrap());
        let scale = [3, -7, 11, 0, 100_000];
        let which: Vec<i32> = (0..40).map(|i| i * 7 + 2).collect();
        let mut table: Vec<u8> = scale.iter().flat_map(|x: &i32| x.to_le_bytes()).collect();
        table.extend([4, 0, 0, 0]);
        table.extend(0.5f64.to_le_bytes());
        let input = buffer(&machine, &which.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let out = buffer(&machine, &[0; 320]);
        let arguments = [Argument::Bytes(&table), Argument::Address(input), Argument::Address(out)];
        launch(&machine, &module, "table", 1, 40, &arguments);
        let expected: Vec<f64> = which.iter().map(|w| f64::from(scale[(w % 5) as usize] * 16) + 0.5).collect();
        assert_eq!(read(&machine, out, 40, f64::from_le_bytes), expected, "{name}");
    }
}

#[test]
fn wide_division_switches_local_arrays_and_shuffles_of_the_rest() {
    const CODES: [u8; 8] = [7, 1, 2, 250, 4, 5, 6, 3];
    let one = |mut x: i64| {
        let mut last = [1i64, 2, 3, 4];
        for k in 0..6 {
            match x >> k & 7 {
                0 => x += 5,
                1 => x *= 3,
                2 => x -= 11,
                3 => x ^= 0x55,
                4 => x /= 3,
                5 => x %= 1_000_003,
                6 => x = -x,
                _ => x >>= 1,
            }
            last[(x & 3) as usize] += x;
        }
        let low = last[usize::from(CODES[(x & 7) as usize]) & 3] as i32;
        (x + last[0] * 2 + last[1] * 3 + last[2] * 5 + last[3] * 7, low)
    };
    for (name, arch, text) in TEXTS {
        let (machine, module) = (machine(arch), Module::parse(text).unwrap());
        let numbers: Vec<i64> = (0..32).map(|i| (i - 9) * 1_234_567 + (i * i * i) % 101).collect();
        let input = buffer(&machine, &numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let out = buffer(&machine, &[0; 256]);
        let arguments = [Argument::Address(input), Argument::Address(out), Argument::I32(30)];
        launch(&machine, &module, "mixed", 1, 32, &arguments);
        let expected: Vec<i64> = (0..32)
            .map(|i| {
                if i >= 30 {
                    return 0;
                }
                let ((x, low), (_, other)) = (one(numbers[i]), one(numbers[i ^ 1]));
                x + i64::from(low + other)
            })
            .collect();
        assert_eq!(read(&machine, out, 32, i64::from_le_bytes), expected, "{name}");
    }
}

#[test]
fn floats_and_halves() {
    for (name, arch, text) in TEXTS {
        let (machine, module) = (machine(arch), Module::parse(text).unwrap());
        let numbers: Vec<f32> = (0..64).map(|i| (i - 31) as f32 * 0.375).collect();
        let input = buffer(&machine, &numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let (out, halves) = (buffer(&machine, &[0; 256]), buffer(&machine, &[0; 128]));
        let arguments = [Argument::Address(input), Argument::Address(out), Argument::Address(halves)];
        launch(&machine, &module, "floats", 1, 64, &arguments);
        // Every half is a multiple of 1/16 below 18: 1.5 x + 0.25 is exact.
        let h = |x: f32| x * 1.5 + 0.25;
        let expected: Vec<f32> = numbers
            .iter()
            .map(|&x| {
                let y = x.mul_add(x, h(x)).min(100.0) + x.abs().sqrt() + x.floor() + x.trunc();
                y + y / 3.0
            })
            .collect();
        assert_eq!(read(&machine, out, 64, f32::from_le_bytes), expected, "{name}");
        let bits = |x: f32| ptx_vm::numerics::convert::f32_to_f16(h(x));
        let expected: Vec<u16> = numbers.iter().map(|&x| bits(x)).collect();
        assert_eq!(read(&machine, halves, 64, u16::from_le_bytes), expected, "{name}");
    }
}

#[test]
fn bulk_copies_of_sm_90() {
    let (machine, module) = (machine(Arch::Sm90a), Module::parse(TEXTS[2].2).unwrap());
    let input = buffer(&machine, &(0..128i32).flat_map(|i| (i * i).to_le_bytes()).collect::<Vec<u8>>());
    let out = buffer(&machine, &[0; 512]);
    launch(&machine, &module, "bulk", 1, 128, &[Argument::Address(input), Argument::Address(out)]);
    let expected: Vec<i32> = (0..128).map(|i| (127 - i) * (127 - i)).collect();
    assert_eq!(read(&machine, out, 128, i32::from_le_bytes), expected);
}
