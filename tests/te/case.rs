//! Runs a program on an emulated device and in the interpreter.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};

use epilogue::te::{Array, Program};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType};
use epilogue_runtime::{Compiler, testing};
use half::{bf16, f16};
use ptx_vm::{Detector, Options};

/// An emulated GPU whose race detector fails a launch.
pub(crate) fn device() -> &'static Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| {
        let options = Options::default().detector(Detector::On);
        Device::emulated_with(Arch::SM_80, options).expect("an emulated device")
    });
    &DEVICE
}

/// Whether a test must be skipped because there is no compiler; says so once.
pub(crate) fn lacks_nvrtc(test: &'static str) -> bool {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let lacks = Compiler::find().is_err();
    if lacks && SAID.lock().expect("no test panics here").insert(test) {
        let _ = testing::compiler(test);
    }
    lacks
}

/// A tensor's numbers, row-major.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

impl Numbers {
    pub(crate) fn new(element: ElementType, shape: &[usize], values: Vec<f64>) -> Self {
        Self { element, shape: shape.to_vec(), values }
    }

    fn bytes(&self) -> Vec<u8> {
        let convert = |x: &f64| match self.element {
            ElementType::F64 => x.to_ne_bytes().to_vec(),
            ElementType::F32 => (*x as f32).to_ne_bytes().to_vec(),
            ElementType::F16 => f16::from_f64(*x).to_ne_bytes().to_vec(),
            ElementType::BF16 => bf16::from_f64(*x).to_ne_bytes().to_vec(),
            ElementType::I64 => (*x as i64).to_ne_bytes().to_vec(),
            ElementType::I32 => (*x as i32).to_ne_bytes().to_vec(),
            ElementType::I16 => (*x as i16).to_ne_bytes().to_vec(),
            ElementType::I8 => (*x as i8).to_ne_bytes().to_vec(),
            ElementType::U64 => (*x as u64).to_ne_bytes().to_vec(),
            ElementType::U32 => (*x as u32).to_ne_bytes().to_vec(),
            ElementType::U16 => (*x as u16).to_ne_bytes().to_vec(),
            ElementType::U8 => vec![*x as u8],
            other => panic!("{other}"),
        };
        self.values.iter().flat_map(convert).collect()
    }

    pub(crate) fn on(&self, device: &Device) -> DeviceTensor {
        device.tensor_from_bytes(self.element, &self.bytes(), &self.shape).expect("a tensor")
    }
}

/// Elements of a tensor as f64.
pub(crate) fn read(tensor: &DeviceTensor) -> Vec<f64> {
    let bytes = tensor.to_bytes().expect("readable");
    let chunks = bytes.chunks_exact(tensor.element_type().size());
    chunks
        .map(|b| match tensor.element_type() {
            ElementType::F64 => f64::from_ne_bytes(b.try_into().expect("8 bytes")),
            ElementType::F32 => f32::from_ne_bytes(b.try_into().expect("4 bytes")).into(),
            ElementType::F16 => f16::from_ne_bytes(b.try_into().expect("2 bytes")).into(),
            ElementType::BF16 => bf16::from_ne_bytes(b.try_into().expect("2 bytes")).into(),
            ElementType::I64 => i64::from_ne_bytes(b.try_into().expect("8 bytes")) as f64,
            ElementType::I32 => i32::from_ne_bytes(b.try_into().expect("4 bytes")).into(),
            ElementType::I16 => i16::from_ne_bytes(b.try_into().expect("2 bytes")).into(),
            ElementType::I8 => i8::from_ne_bytes(b.try_into().expect("1 byte")).into(),
            ElementType::U64 => u64::from_ne_bytes(b.try_into().expect("8 bytes")) as f64,
            ElementType::U32 => u32::from_ne_bytes(b.try_into().expect("4 bytes")).into(),
            ElementType::U16 => u16::from_ne_bytes(b.try_into().expect("2 bytes")).into(),
            ElementType::U8 => b[0].into(),
            other => panic!("{other}"),
        })
        .collect()
}

/// The results of a program for its inputs, from the interpreter, the emulated device and the CPU. Outputs come after
/// inputs.
pub(crate) struct Results {
    pub(crate) interpreted: Vec<Vec<f64>>,
    pub(crate) emulated: Vec<Vec<f64>>,
    pub(crate) native: Vec<Vec<f64>>,
}

impl Results {
    /// Every bit is the same, except that all NaNs count as equal.
    pub(crate) fn assert_equal(&self) {
        for (name, results) in [("the emulated device", &self.emulated), ("the CPU", &self.native)] {
            for (a, b) in self.interpreted.iter().zip(results) {
                assert_eq!(a.len(), b.len());
                for (i, (a, b)) in a.iter().zip(b).enumerate() {
                    let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
                    assert!(same, "element {i}: {a} in the interpreter, {b} on {name}");
                }
            }
        }
    }
}

/// Runs a program on every target.
pub(crate) fn run(program: &Program, inputs: &[Numbers], outputs: &[(ElementType, Vec<usize>)]) -> Results {
    let mut arrays: Vec<Array> =
        inputs.iter().map(|x| Array::new(x.element, &x.shape, &x.values).expect("an array")).collect();
    arrays.extend(outputs.iter().map(|(element, shape)| Array::unwritten(*element, shape)));
    program.interpret(&mut arrays).expect("interpreted");
    for array in &arrays[inputs.len()..] {
        assert!(array.is_complete(), "every element of an output is written");
    }
    let interpreted = arrays[inputs.len()..].iter().map(Array::values).collect();

    let emulated = run_on(device(), program, inputs, outputs);
    let native = run_on(&Device::cpu(), program, inputs, outputs);
    Results { interpreted, emulated, native }
}

fn run_on(
    device: &Device,
    program: &Program,
    inputs: &[Numbers],
    outputs: &[(ElementType, Vec<usize>)],
) -> Vec<Vec<f64>> {
    let kernel = program.build(device).unwrap_or_else(|error| panic!("{error}\n{}", program.script()));
    let given: Vec<DeviceTensor> = inputs.iter().map(|x| x.on(device)).collect();
    let mut made: Vec<DeviceTensor> =
        outputs.iter().map(|(element, shape)| device.zeros_of(*element, shape).expect("memory")).collect();
    let mut arguments: Vec<Argument<'_>> = given.iter().map(Into::into).collect();
    arguments.extend(made.iter_mut().map(Argument::from));
    if let Err(error) = kernel.run(&arguments) {
        panic!("{error} on {device}\n{}", kernel.source());
    }
    drop(arguments);
    made.iter().map(read).collect()
}
