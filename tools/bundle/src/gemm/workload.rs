//! The tensors of a product, in several sets, and runs of a plan on the sets in turn.

use epilogue::evt::reference::{self, Argument as Given, Array, Extent, Multiplication, Options, Product};
use epilogue::evt::{BroadcastClass, OutputKind, ParameterClass, Tree, Types};
use epilogue::gemm::{Arithmetic, Major};
use epilogue::{Argument, Device, DeviceTensor, ElementType, Gemm};
use epilogue_runtime::{KernelArgument, Launch, Source, Stream};

use super::shapes::Shape;
use crate::Outcome;

/// One set of tensors.
struct Set {
    a: DeviceTensor,
    b: DeviceTensor,
    /// For every parameter; `None` for scalars.
    parameters: Vec<Option<DeviceTensor>>,
    /// For every output that is not a parameter's.
    outputs: Vec<DeviceTensor>,
}

/// The tensors of one epilogue on one shape.
pub(crate) struct Workload {
    sets: Vec<Set>,
    stream: Stream,
    shape: Shape,
    bytes: u64,
}

/// The value of every host scalar: neither 0 nor 1, which kernels may treat specially.
const SCALAR: f64 = 0.75;

/// The most sets; more are not needed to exceed a cache.
const MOST_SETS: u64 = 64;

impl Workload {
    /// As many sets as have `rotated` bytes together.
    pub(crate) fn new(device: &Device, tree: &Tree, shape: &Shape, rotated: u64) -> Outcome<Self> {
        let first = Set::new(device, tree, shape, 1)?;
        let bytes = first.bytes();
        let count = rotated.div_ceil(bytes.max(1)).clamp(1, MOST_SETS) as u32;
        let mut sets = vec![first];
        for i in 1..count {
            sets.push(Set::new(device, tree, shape, 1 + 16 * i)?);
        }
        Ok(Self { sets, stream: device.default_stream(), shape: *shape, bytes })
    }

    /// Bytes of one set, which a run has to read and write at least.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Queues run number `i`.
    pub(crate) fn run(&mut self, gemm: &Gemm, i: usize) -> Outcome<()> {
        let stream = self.stream.clone();
        self.run_on(&stream, gemm, i)
    }

    /// Queues it on another stream.
    pub(crate) fn run_on(&mut self, stream: &Stream, gemm: &Gemm, i: usize) -> Outcome<()> {
        let count = self.sets.len();
        let set = &mut self.sets[i % count];
        let (a, b) = (set.a.clone(), set.b.clone());
        Ok(gemm.run_arguments(stream, &a, &b, &set.arguments(gemm))?)
    }

    /// The plan that is fastest on the first set.
    pub(crate) fn autotuned(&mut self, gemm: &Gemm) -> Outcome<Gemm> {
        let set = &mut self.sets[0];
        let (a, b) = (set.a.clone(), set.b.clone());
        Ok(gemm.autotune_arguments(&a, &b, &mut set.arguments(gemm))?)
    }

    /// Overwrites the first set's outputs with a value that no kernel gives.
    pub(crate) fn poison_outputs(&self) -> Outcome<()> {
        self.sets[0].outputs.iter().try_for_each(poison)
    }

    /// The bytes of the first set's outputs after a run; they are poisoned before.
    pub(crate) fn outputs_of_a_run(&mut self, gemm: &Gemm) -> Outcome<Vec<Vec<u8>>> {
        self.poison_outputs()?;
        self.run(gemm, 0)?;
        self.output_bytes()
    }

    /// The outputs of any code that runs on the first set.
    pub(crate) fn outputs_of(&self, run: impl FnOnce() -> Outcome<()>) -> Outcome<Vec<Vec<u8>>> {
        self.poison_outputs()?;
        run()?;
        self.output_bytes()
    }

    fn output_bytes(&self) -> Outcome<Vec<Vec<u8>>> {
        self.sets[0].outputs.iter().map(|output| Ok(output.to_bytes()?)).collect()
    }
}

impl Set {
    /// A run's arguments.
    fn arguments<'a>(&'a mut self, gemm: &Gemm) -> Vec<Argument<'a>> {
        let set = self;
        let mut arguments = Vec::with_capacity(set.parameters.len() + set.outputs.len());
        for (parameter, tensor) in gemm.tree().parameters().iter().zip(&mut set.parameters) {
            let written = parameter.class == ParameterClass::TensorMut;
            arguments.push(match tensor {
                None => Argument::Scalar(SCALAR),
                Some(tensor) => {
                    if written {
                        Argument::Output(tensor)
                    } else {
                        Argument::Input(tensor)
                    }
                }
            });
        }
        arguments.extend(set.outputs.iter_mut().map(Argument::Output));
        arguments
    }
}

impl Workload {
    /// After run number 0: describes the first wrong element, compared with the f64 reference. It checks a part of two
    /// whole rows of every tensor output.
    pub(crate) fn first_wrong(&self, gemm: &Gemm, arithmetic: Arithmetic) -> Outcome<Option<String>> {
        let set = &self.sets[0];
        let Shape { m, n, k, element, .. } = self.shape;
        let (rows, columns) = (m.min(2), n.min(48));
        let (row, column) = (fastrand::usize(..=m - rows), fastrand::usize(..=n - columns));
        let (rows, columns) = (row..row + rows, column..column + columns);
        let extent = Extent { m: rows.len(), n: columns.len(), l: 1 };
        let a = part(&set.a, Some(rows.clone()), None)?;
        let b = part(&set.b.transpose()?, Some(columns.clone()), None)?;
        let a = Array { values: &a, offset: 0, strides: [0, k as isize, 1] };
        let b = Array { values: &b, offset: 0, strides: [0, 1, k as isize] };
        let tree = gemm.tree();
        debug_assert_eq!(tree.types().a, element);
        let of_kernel = gemm.choice().kernel().map(|kernel| kernel.key.multiplication());
        let multiplication = of_kernel.unwrap_or(match arithmetic {
            Arithmetic::FastBf16 => Multiplication::FastBf16,
            Arithmetic::Exact | Arithmetic::Int8Activations | Arithmetic::Tf32 | Arithmetic::FastFp8 => {
                Multiplication::Exact
            }
        });
        let product = Product::new(tree.types(), multiplication, extent, k, &a, &b)?;
        let mut values = Vec::new();
        for (parameter, tensor) in tree.parameters().iter().zip(&set.parameters) {
            values.push(match (tensor, parameter.class.broadcast_class()) {
                (None, _) => vec![SCALAR],
                (Some(t), BroadcastClass::Scalar) => part(t, None, None)?,
                (Some(t), BroadcastClass::RowVector) => part(t, Some(columns.clone()), None)?,
                (Some(t), BroadcastClass::ColumnVector) => part(t, Some(rows.clone()), None)?,
                (Some(t), BroadcastClass::Tensor) => part(t, Some(rows.clone()), Some(columns.clone()))?,
            });
        }
        let given: Vec<Given<'_>> = tree
            .parameters()
            .iter()
            .zip(&values)
            .map(|(parameter, values)| match parameter.class {
                ParameterClass::Scalar => Given::Scalar(values[0]),
                class => Given::Array(Array::packed(values, class.broadcast_class(), extent, false)),
            })
            .collect();
        let options = Options { tile: Some(gemm.choice().tile()), fast_math: gemm.is_fast_math() };
        let expected = reference::evaluate(tree, &[product], &given, options)?;
        let mut outputs = set.outputs.iter();
        for (output, expected) in tree.outputs().iter().zip(&expected) {
            let Some(tensor) = (if output.parameter.is_some() { None } else { outputs.next() }) else { continue };
            if matches!(output.kind, OutputKind::Reduce(_)) || output.class != BroadcastClass::Tensor {
                continue; // a part's reduction is not a part of the reduction; the random cases check reductions
            }
            let results = part(tensor, Some(rows.clone()), Some(columns.clone()))?;
            if let Some(wrong) = expected.first_wrong(&results) {
                return Ok(Some(format!("{} from row {row}, column {column}: {wrong:?}", output.name)));
            }
        }
        Ok(None)
    }

    /// Tensors for libraries: the same operands, and separate outputs.
    pub(crate) fn peer_buffers(&self) -> Outcome<PeerBuffers> {
        let Shape { m, n, .. } = self.shape;
        let output = self.shape.output();
        // The arguments of separate kernels and of a library's own epilogues, which are compared only on 16-bit types.
        let (rows, element) = match output {
            ElementType::F16 | ElementType::BF16 if self.shape.element == output => (m, output),
            _ => (0, ElementType::BF16),
        };
        let device = self.stream.device();
        let sets = self
            .sets
            .iter()
            .enumerate()
            .map(|(i, set)| {
                Ok(PeerSet {
                    a: set.a.clone(),
                    b: set.b.clone(),
                    d: device.zeros_of(output, [m, n])?,
                    bias: normal(device, element, &[n], 7)?,
                    other: normal(device, element, &[rows, n], 9 + i as u32)?,
                    scale: device.full([1], 1.0_f32)?,
                })
            })
            .collect::<Outcome<Vec<_>>>()?;
        Ok(PeerBuffers { sets, stream: self.stream.clone() })
    }
}

/// The tensors for a library's product and a separate kernel.
pub(crate) struct PeerBuffers {
    pub(crate) sets: Vec<PeerSet>,
    pub(crate) stream: Stream,
}

/// One set of them.
pub(crate) struct PeerSet {
    pub(crate) a: DeviceTensor,
    pub(crate) b: DeviceTensor,
    pub(crate) d: DeviceTensor,
    pub(crate) bias: DeviceTensor,
    pub(crate) other: DeviceTensor,
    /// 1, in f32.
    pub(crate) scale: DeviceTensor,
}

impl Set {
    fn new(device: &Device, tree: &Tree, shape: &Shape, seed: u32) -> Outcome<Self> {
        let &Shape { m, n, k, element, .. } = shape;
        let a = match shape.majors.0 {
            Major::K => normal(device, element, &[m, k], seed)?,
            Major::Mn => normal(device, element, &[k, m], seed)?.transpose()?,
        };
        let b = match shape.majors.1 {
            Major::K => normal(device, element, &[n, k], seed + 1)?.transpose()?,
            Major::Mn => normal(device, element, &[k, n], seed + 1)?,
        };
        let tree = tree.validate(Types::new(element, element))?;
        let extent = |class| match class {
            BroadcastClass::Scalar => vec![],
            BroadcastClass::RowVector => vec![n],
            BroadcastClass::ColumnVector => vec![m],
            BroadcastClass::Tensor => vec![m, n],
        };
        let mut parameters = Vec::new();
        for (parameter, seed) in tree.parameters().iter().zip(seed + 2..) {
            parameters.push(match parameter.class {
                ParameterClass::Scalar => None,
                class => Some(normal(device, parameter.element, &extent(class.broadcast_class()), seed)?),
            });
        }
        let outputs = tree
            .outputs()
            .iter()
            .filter(|output| output.parameter.is_none())
            .map(|output| device.zeros_of(output.element, extent(output.class)))
            .collect::<Result<_, _>>()?;
        Ok(Self { a, b, parameters, outputs })
    }

    fn bytes(&self) -> u64 {
        let tensors = [&self.a, &self.b].into_iter().chain(self.parameters.iter().flatten()).chain(&self.outputs);
        tensors.map(|tensor| (tensor.len() * tensor.element_type().size()) as u64).sum()
    }
}

/// A part of a tensor's rows and columns, as f64, packed.
fn part(
    tensor: &DeviceTensor,
    rows: Option<std::ops::Range<usize>>,
    columns: Option<std::ops::Range<usize>>,
) -> Outcome<Vec<f64>> {
    let rows = match rows {
        Some(rows) => tensor.slice(0, rows)?,
        None => tensor.clone(),
    };
    let width = rows.shape().get(1).copied();
    let values = reference::decode(rows.element_type(), &rows.to_bytes()?);
    let (Some(columns), Some(width)) = (columns, width) else { return Ok(values) };
    Ok(values.chunks(width).flat_map(|row| &row[columns.clone()]).copied().collect())
}

/// Standard normal values from a counter, by Box and Muller's method: the same on every device.
const NORMAL: &str = "__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
    return x;
}
extern \"C\" __global__ void normal(ELEMENT* out, unsigned long long count, unsigned seed) {
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const unsigned first = mixed((unsigned)i ^ mixed(seed ^ (unsigned)(i >> 32)));
        const unsigned second = mixed(first + 0x9e3779b9u);
        const float u = ((first >> 8) + 1) * 5.9604645e-8f, v = (second >> 8) * 5.9604645e-8f;
        const float x = sqrtf(-2.0f * __logf(u)) * __cosf(6.2831853f * v);
        STORE
    }
}
";

/// Bytes that are NaN in every floating-point type, and -1 in integers.
const POISON: &str = "extern \"C\" __global__ void poison(unsigned char* out, unsigned long long count) {
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned long long i = first; i < count / 4; i += step) ((unsigned*)out)[i] = 0xffffffffu;
    for (unsigned long long i = count / 4 * 4 + first; i < count; i += step) out[i] = 0xff;
}
";

/// Overwrites a packed tensor with a value that no kernel gives.
pub(crate) fn poison(tensor: &DeviceTensor) -> Outcome<()> {
    let count = (tensor.len() * tensor.element_type().size()) as u64;
    if count == 0 {
        return Ok(());
    }
    let device = tensor.device();
    if device.arch().is_none() {
        return Ok(tensor.clone().copy_from_bytes(&vec![0xff; tensor.len() * tensor.element_type().size()])?);
    }
    let kernel = device.compile(&Source::new("poison.cu", "poison", POISON))?;
    let launch =
        Launch { grid: [count.div_ceil(1024).min(4096) as u32, 1, 1], block: [256, 1, 1], ..Launch::default() };
    let arguments = [KernelArgument::Output(tensor), KernelArgument::Value(&count.to_ne_bytes())];
    Ok(kernel.launch(&launch, &arguments, &device.default_stream())?)
}

/// Nearly normal values, for devices where no kernel runs.
fn on_the_host(device: &Device, element: ElementType, shape: &[usize], seed: u32) -> Outcome<DeviceTensor> {
    let mut random = fastrand::Rng::with_seed(u64::from(seed));
    let count = shape.iter().product();
    let scale = if element == ElementType::I8 { 32.0 } else { 1.0 };
    let values: Vec<f64> = (0..count)
        .map(|_| scale * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0))
        .map(|x| if scale > 1.0 { x.round() } else { x })
        .collect();
    Ok(device.tensor_from_bytes(element, &reference::encode(element, &values), shape)?)
}

/// A tensor of standard normal values, made on the device.
pub(crate) fn normal(device: &Device, element: ElementType, shape: &[usize], seed: u32) -> Outcome<DeviceTensor> {
    if device.arch().is_none() {
        return on_the_host(device, element, shape, seed);
    }
    let (name, store) = match element {
        ElementType::F16 => ("unsigned short", "asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(out[i]) : \"f\"(x));"),
        ElementType::BF16 => ("unsigned short", "asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(out[i]) : \"f\"(x));"),
        ElementType::F32 => ("float", "out[i] = x;"),
        ElementType::F64 => ("double", "out[i] = x;"),
        ElementType::F8E4M3 => (
            "unsigned char",
            "unsigned short pair; asm(\"cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\" : \"=h\"(pair) : \"f\"(0.0f), \"f\"(x)); \
             out[i] = (unsigned char)pair;",
        ),
        ElementType::I8 => ("signed char", "out[i] = (signed char)(int)fminf(fmaxf(x * 32.0f, -127.0f), 127.0f);"),
        other => return Err(format!("no random tensors of {other}").into()),
    };
    let code = NORMAL.replace("ELEMENT", name).replace("STORE", store);
    let kernel = device.compile(&Source::new("normal.cu", "normal", code))?;
    let tensor = device.zeros_of(element, shape)?;
    let count = tensor.len() as u64;
    if count > 0 {
        let grid = count.div_ceil(256).min(4096) as u32;
        let launch = Launch { grid: [grid, 1, 1], block: [256, 1, 1], ..Launch::default() };
        let (count, seed) = (count.to_ne_bytes(), seed.to_ne_bytes());
        let arguments = [KernelArgument::Output(&tensor), KernelArgument::Value(&count), KernelArgument::Value(&seed)];
        kernel.launch(&launch, &arguments, &device.default_stream())?;
    }
    Ok(tensor)
}
