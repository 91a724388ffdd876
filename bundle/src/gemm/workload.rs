//! A product's tensors, several sets of them, and runs of a plan on them in turn.

use epilogue::evt::reference::{self, Argument as Given, Array, Extent, Multiplication, Options, Product};
use epilogue::evt::{OutputKind, ParameterClass, ShapeClass, Tree, Types};
use epilogue::{Argument, Device, DeviceTensor, ElementType, Gemm};
use epilogue_runtime::{KernelArgument, Launch, Source, Stream};

use super::shapes::Shape;
use crate::Outcome;

/// One set of tensors.
struct Set {
    a: DeviceTensor,
    b: DeviceTensor,
    /// For every parameter; scalars have none.
    parameters: Vec<Option<DeviceTensor>>,
    /// For every output that is no parameter's.
    outputs: Vec<DeviceTensor>,
}

/// What one epilogue computes on one shape.
pub(crate) struct Workload {
    sets: Vec<Set>,
    stream: Stream,
    shape: Shape,
    bytes: u64,
}

/// The value of every host scalar: neither 0 nor 1, which kernels may treat apart.
const SCALAR: f64 = 0.75;

/// More sets than this are not needed to leave a cache behind.
const MOST_SETS: u64 = 64;

impl Workload {
    /// As many sets that they have `rotated` bytes together.
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

    /// A and B of the first set.
    pub(crate) fn operands(&self) -> (&DeviceTensor, &DeviceTensor) {
        (&self.sets[0].a, &self.sets[0].b)
    }

    /// Bytes of one set: what a run reads and writes at least.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Queues run number `i`.
    pub(crate) fn run(&mut self, gemm: &Gemm, i: usize) -> Outcome<()> {
        let count = self.sets.len();
        let set = &mut self.sets[i % count];
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
        Ok(gemm.run_arguments(&self.stream, &set.a, &set.b, &arguments)?)
    }

    /// After run number 0: a description of the first wrong element among those that are checked, two whole rows' part
    /// of every tensor output, against the f64 reference.
    pub(crate) fn first_wrong(&self, gemm: &Gemm) -> Outcome<Option<String>> {
        let set = &self.sets[0];
        let Shape { m, n, k, element, .. } = self.shape;
        let (rows, columns) = (m.min(2), n.min(48));
        let (row, column) = (fastrand::usize(..=m - rows), fastrand::usize(..=n - columns));
        let (rows, columns) = (row..row + rows, column..column + columns);
        let extent = Extent { m: rows.len(), n: columns.len(), l: 1 };
        let a = part(&set.a, Some(rows.clone()), None)?;
        // B is stored by columns: turned over, a part of its columns is one piece of memory.
        let b = part(&set.b.transpose()?, Some(columns.clone()), None)?;
        let a = Array { values: &a, offset: 0, strides: [0, k as isize, 1] };
        let b = Array { values: &b, offset: 0, strides: [0, 1, k as isize] };
        let tree = gemm.tree();
        debug_assert_eq!(tree.types().a, element);
        let product = Product::new(tree.types(), Multiplication::Exact, extent, k, &a, &b)?;
        let mut values = Vec::new();
        for (parameter, tensor) in tree.parameters().iter().zip(&set.parameters) {
            values.push(match (tensor, parameter.class.shape_class()) {
                (None, _) => vec![SCALAR],
                (Some(t), ShapeClass::Scalar) => part(t, None, None)?,
                (Some(t), ShapeClass::RowVector) => part(t, Some(columns.clone()), None)?,
                (Some(t), ShapeClass::ColumnVector) => part(t, Some(rows.clone()), None)?,
                (Some(t), ShapeClass::Tensor) => part(t, Some(rows.clone()), Some(columns.clone()))?,
            });
        }
        let given: Vec<Given<'_>> = tree
            .parameters()
            .iter()
            .zip(&values)
            .map(|(parameter, values)| match parameter.class {
                ParameterClass::Scalar => Given::Scalar(values[0]),
                class => Given::Array(Array::packed(values, class.shape_class(), extent, false)),
            })
            .collect();
        let options = Options { tile: Some(gemm.choice().tile()), fast_math: gemm.is_fast_math() };
        let expected = reference::evaluate(tree, &product, &given, options)?;
        let mut outputs = set.outputs.iter();
        for (output, expected) in tree.outputs().iter().zip(&expected) {
            let Some(tensor) = (if output.parameter.is_some() { None } else { outputs.next() }) else { continue };
            if matches!(output.kind, OutputKind::Reduce(_)) || output.class != ShapeClass::Tensor {
                continue; // a reduction of a part is not a part of the reduction; the random cases check those
            }
            let results = part(tensor, Some(rows.clone()), Some(columns.clone()))?;
            if let Some(wrong) = expected.first_wrong(&results) {
                return Ok(Some(format!("{} from row {row}, column {column}: {wrong:?}", output.name)));
            }
        }
        Ok(None)
    }

    /// Tensors for libraries: the same operands, and outputs of their own.
    pub(crate) fn peer_buffers(&self) -> Outcome<PeerBuffers> {
        let Shape { m, n, element, .. } = self.shape;
        let device = self.stream.device();
        let sets = self
            .sets
            .iter()
            .enumerate()
            .map(|(i, set)| {
                Ok(PeerSet {
                    a: set.a.clone(),
                    b: set.b.clone(),
                    d: device.zeros_of(element, [m, n])?,
                    bias: normal(device, element, &[n], 7)?,
                    other: normal(device, element, &[m, n], 9 + i as u32)?,
                })
            })
            .collect::<Outcome<Vec<_>>>()?;
        Ok(PeerBuffers { sets, stream: self.stream.clone() })
    }
}

/// What a library's product and a separate kernel work on.
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
}

impl Set {
    fn new(device: &Device, tree: &Tree, shape: &Shape, seed: u32) -> Outcome<Self> {
        let &Shape { m, n, k, element, .. } = shape;
        let a = normal(device, element, &[m, k], seed)?;
        let b = normal(device, element, &[n, k], seed + 1)?.transpose()?;
        let tree = tree.validate(Types::new(element, element))?;
        let extent = |class| match class {
            ShapeClass::Scalar => vec![],
            ShapeClass::RowVector => vec![n],
            ShapeClass::ColumnVector => vec![m],
            ShapeClass::Tensor => vec![m, n],
        };
        let mut parameters = Vec::new();
        for (parameter, seed) in tree.parameters().iter().zip(seed + 2..) {
            parameters.push(match parameter.class {
                ParameterClass::Scalar => None,
                class => Some(normal(device, parameter.element, &extent(class.shape_class()), seed)?),
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

/// A tensor of standard normal values, made on the device.
pub(crate) fn normal(device: &Device, element: ElementType, shape: &[usize], seed: u32) -> Outcome<DeviceTensor> {
    let (name, store) = match element {
        ElementType::F16 => ("unsigned short", "asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(out[i]) : \"f\"(x));"),
        ElementType::BF16 => ("unsigned short", "asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(out[i]) : \"f\"(x));"),
        ElementType::F32 => ("float", "out[i] = x;"),
        ElementType::F64 => ("double", "out[i] = x;"),
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
