//! The kernels whose mutants are run, and one run of a product on a kernel or a mutant of it.

use epilogue::evt::random::{self, Choices};
use epilogue::evt::reference::{self, Array, Extent, Multiplication, Options, Output, Product};
use epilogue::evt::{Axis, Form, ParameterClass, ReduceOp, Reduction, ShapeClass, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::gemm::{Arithmetic, Builder, Instruction, Major, OperandLayout, SplitK, Tile};
use epilogue::{Argument, Device, ElementType, Gemm};
use epilogue_runtime::Arch;
use epilogue_runtime::ptx_vm::{Completion, Detector, Module, Options as Machine};

use crate::placement::{Placed, Placement};

/// A kernel and the product that it is tried on.
pub(crate) struct Subject {
    pub(crate) name: String,
    element: ElementType,
    arithmetic: Arithmetic,
    split_k: SplitK,
    majors: [Major; 2],
    reduces: bool,
    /// M, N, K. No extent is a multiple of the tile's; blocks end in the last and in the first stage of their pipeline.
    products: [[usize; 3]; 2],
}

/// How a mutant was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kill {
    /// The text was refused before it ran.
    Refused,
    /// The race detector found something.
    Race,
    /// The launch failed: a deadlock, an uninitialised read, too many instructions.
    Stopped,
    /// The result lies outside of the reference's bounds, or outside of the outputs' memory.
    Wrong,
}

/// Ways in which asynchronous copies complete.
const COMPLETIONS: [Completion; 3] = [Completion::Eager, Completion::Lazy, Completion::Random];

/// Enough for every kernel here, many times over.
const INSTRUCTIONS: u64 = 3_000_000;

/// The kernels: of every sm_80 family one of each kind of split-K, with all layouts and with complete reductions.
pub(crate) fn all() -> Vec<Subject> {
    let families = [
        (ElementType::F16, Arithmetic::Exact),
        (ElementType::BF16, Arithmetic::Exact),
        (ElementType::F32, Arithmetic::Tf32),
        (ElementType::F64, Arithmetic::Exact),
        (ElementType::F32, Arithmetic::Exact),
    ];
    let forms = [
        (SplitK::None, [Major::K, Major::Mn], true),
        (SplitK::Serial(3), [Major::Mn, Major::K], false),
        (SplitK::Parallel(2), [Major::K, Major::K], true),
    ];
    let mut subjects = Vec::new();
    for (element, arithmetic) in families {
        for (split_k, majors, reduces) in forms {
            let Some(instruction) = Instruction::of(element, arithmetic) else { continue };
            let tile = tile(instruction);
            let product = |columns: usize, steps: usize| {
                [tile.m + 9, columns, split_k.splits() * steps * tile.k - tile.k / 2 - 3]
            };
            let reduction = if reduces { " with reductions" } else { "" };
            subjects.push(Subject {
                name: format!("{instruction:?} {split_k:?}{reduction}"),
                element,
                arithmetic,
                split_k,
                majors,
                reduces,
                products: [product(tile.n + 17, 2 * tile.stages), product(tile.n + 3, tile.stages + 1)],
            });
        }
    }
    subjects
}

/// The smallest: it has more of everything that can go wrong at a tile's edge, and more mutants run in a second.
fn tile(instruction: Instruction) -> Tile {
    let tiles = Tile::all(instruction);
    tiles[tiles.len() - 1]
}

/// `relu(accum + c)`, with the sums of its rows and the largest values of its columns.
fn tree(reduces: bool) -> Tree {
    let mut b = TreeBuilder::new("mutated", file!());
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let sum = b.apply(Op::Add, &[accum, c]);
    let zero = b.literal(0.0);
    let d = b.apply(Op::Max, &[sum, zero]);
    b.output("d", d, ShapeClass::Tensor, None);
    if reduces {
        for (name, axis, op) in [("sums", Axis::Row, ReduceOp::Add), ("largest", Axis::Column, ReduceOp::Max)] {
            let node = b.reduce(Reduction { axis, batch: false, op, form: Form::Complete }, d);
            b.output(name, node, axis.result_class(), Some(ElementType::F32));
        }
    }
    b.finish()
}

/// Where a subject runs, in every way in which copies complete, with what is right.
pub(crate) struct Bench<'s> {
    subject: &'s Subject,
    devices: Vec<Device>,
    products: Vec<Known>,
    kernel: String,
    /// The kernel's PTX and CUDA C++.
    pub(crate) ptx: String,
    pub(crate) source: String,
    /// The name that the PTX gives the source.
    pub(crate) file: String,
}

/// A product with its operands' values and what is right.
struct Known {
    extents: [usize; 3],
    /// Of A, B and C.
    values: [Vec<f64>; 3],
    expected: Vec<Output>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<'s> Bench<'s> {
    /// Plans the kernel and tries it.
    pub(crate) fn new(subject: &'s Subject) -> Result<Self, String> {
        let machine = Machine::default().workers(1).detector(Detector::On).instruction_limit(INSTRUCTIONS);
        let on = |completion| Device::emulated_with(Arch::SM_80, machine.clone().completion(completion));
        let devices = COMPLETIONS.into_iter().map(on).collect::<Result<Vec<_>, _>>().map_err(text)?;
        let gemm = subject.plan(&devices[0])?;
        let kernel = gemm.kernel().ok_or("no kernel")?;
        let (name, ptx) = (kernel.name().to_owned(), kernel.ptx().to_owned());
        let known = |extents: [usize; 3]| {
            let [m, n, k] = extents;
            let value = |seed, count| random::values(&mut Choices::new(&[seed, 1]), subject.element, count);
            let values = [value(11, m * k), value(22, k * n), value(33, m * n)];
            let expected = subject.expected(&gemm, extents, &values)?;
            Ok(Known { extents, values, expected })
        };
        let products = subject.products.into_iter().map(known).collect::<Result<Vec<_>, String>>()?;
        let source = gemm.kernel_source().ok_or("no source")?;
        let (source, file) = (source.code.clone(), source.name.clone());
        let bench = Self { subject, devices, products, kernel: name, ptx, source, file };
        match bench.run_all() {
            None => Ok(bench),
            Some((_, why)) => Err(format!("{}: the kernel itself: {why}", subject.name)),
        }
    }

    /// Runs a mutant. `None` if nothing shows that it is one.
    pub(crate) fn kill(&self, ptx: &str) -> Option<(Kill, String)> {
        let module = match Module::parse(ptx) {
            Ok(module) => module,
            Err(error) => return Some((Kill::Refused, error.to_string())),
        };
        for device in &self.devices {
            if let Err(error) = device.substitute(&self.kernel, Some(module.clone())) {
                return Some((Kill::Refused, error.to_string()));
            }
        }
        let killed = self.run_all();
        for device in &self.devices {
            // Only another kind of device could refuse.
            let _ = device.substitute(&self.kernel, None);
        }
        killed
    }

    fn run_all(&self) -> Option<(Kill, String)> {
        self.devices.iter().find_map(|device| self.run(device).err())
    }

    /// All products on one plan: a later one finds what an earlier one has left in the workspace.
    fn run(&self, device: &Device) -> Result<(), (Kill, String)> {
        let stopped = |error: String| {
            // As `epilogue_runtime::Error::Races` says it.
            (if error.contains("races or misused barriers") { Kill::Race } else { Kill::Stopped }, error)
        };
        let gemm = self.subject.plan(device).map_err(stopped)?;
        for product in &self.products {
            let (a, b, c) = self.subject.operands(device, product).map_err(stopped)?;
            let mut outputs = self.subject.outputs(device, &gemm, product.extents).map_err(stopped)?;
            let mut arguments = vec![Argument::Input(&c.view)];
            arguments.extend(outputs.iter_mut().map(|placed| Argument::Output(&mut placed.view)));
            let stream = device.default_stream();
            gemm.run_arguments(&stream, &a.view, &b.view, &arguments).map_err(|error| stopped(error.to_string()))?;
            for (placed, expected) in outputs.iter_mut().zip(&product.expected) {
                let values = placed.values().map_err(|error| stopped(error.to_string()))?;
                if let Some(wrong) = expected.first_wrong(&values) {
                    return Err((Kill::Wrong, format!("{wrong:?}")));
                }
                if !placed.is_guarded().map_err(|error| stopped(error.to_string()))? {
                    return Err((Kill::Wrong, "wrote outside of its view".into()));
                }
            }
        }
        Ok(())
    }
}

impl Subject {
    fn plan(&self, device: &Device) -> Result<Gemm, String> {
        let [m, n, k] = self.products[0];
        let instruction = Instruction::of(self.element, self.arithmetic).ok_or("no instruction")?;
        let [a, b] = self.majors.map(|major| OperandLayout { major, copy_bytes: 16 });
        Builder::<()>::new(device, tree(self.reduces))
            .elements(self.element, self.element)
            .problem(m, n, k)
            .arithmetic(self.arithmetic)
            .layouts(a, b)
            .tile(tile(instruction))
            .split_k(self.split_k)
            .plan()
            .map_err(text)
    }

    fn expected(&self, gemm: &Gemm, [m, n, k]: [usize; 3], values: &[Vec<f64>; 3]) -> Result<Vec<Output>, String> {
        let tree = gemm.tree();
        let extent = Extent { m, n, l: 1 };
        let array = |values, columns: usize| Array { values, offset: 0, strides: [0, columns as isize, 1] };
        let multiplication = match self.arithmetic {
            Arithmetic::Exact => Multiplication::Exact,
            Arithmetic::Tf32 => Multiplication::Tf32,
            Arithmetic::FastFp8 => Multiplication::FastFp8,
        };
        let (a, b) = (array(&values[0], k), array(&values[1], n));
        let product = Product::new(tree.types(), multiplication, extent, k, &a, &b).map_err(text)?;
        let given = [reference::Argument::Array(Array::packed(&values[2], ShapeClass::Tensor, extent, false))];
        let options = Options { tile: Some(gemm.choice().tile()), fast_math: gemm.is_fast_math() };
        reference::evaluate(tree, &product, &given, options).map_err(text)
    }

    /// A, B and C.
    fn operands(&self, device: &Device, product: &Known) -> Result<(Placed, Placed, Placed), String> {
        let ([m, n, k], values) = (product.extents, &product.values);
        let [a, b] = self.majors;
        let place = |shape: [usize; 2], values: &[f64], transposed| {
            let multiple = (16 / self.element.size()).max(1);
            let placement = Placement { transposed, multiple, padding: 0, offset: 0, stretched: false };
            Placed::new(device, self.element, &shape, values, placement).map_err(text)
        };
        // A is stored transposed where its rows in memory run along M, B where they run along K.
        Ok((
            place([m, k], &values[0], a == Major::Mn)?,
            place([k, n], &values[1], b == Major::K)?,
            place([m, n], &values[2], false)?,
        ))
    }

    fn outputs(&self, device: &Device, gemm: &Gemm, [m, n, _]: [usize; 3]) -> Result<Vec<Placed>, String> {
        let outputs = gemm.tree().outputs().iter().map(|output| {
            let shape = match output.class {
                ShapeClass::Scalar => vec![],
                ShapeClass::RowVector => vec![n],
                ShapeClass::ColumnVector => vec![m],
                ShapeClass::Tensor => vec![m, n],
            };
            let before = vec![1.0; shape.iter().product()];
            let placement = Placement { transposed: false, multiple: 8, padding: 3, offset: 0, stretched: false };
            Placed::new(device, output.element, &shape, &before, placement).map_err(text)
        });
        outputs.collect()
    }
}
