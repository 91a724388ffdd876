//! The GEMM kernels for sm_80, sm_90a and sm_100a, and the products on which their mutants are tried.

use std::sync::OnceLock;

use epilogue::evt::random::{self, Choices};
use epilogue::evt::reference::{self, Array, Extent, Multiplication, Options, Output, Product};
use epilogue::evt::{Axis, BroadcastClass, Form, ParameterClass, ReduceOp, Reduction, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::gemm::{Arithmetic, Builder, Instruction, Major, OperandLayout, SplitK, Tile, sm90};
use epilogue::{Argument, Device, ElementType, Gemm};
use epilogue_runtime::Arch;
use epilogue_testing::placement::{Placed, Placement};

use crate::trial::{Kill, Subject, Text, stopped};

/// A kernel, and the products on which it is tried.
pub(crate) struct Multiplied {
    name: String,
    /// The type of A, and of all else but B.
    element: ElementType,
    of_b: ElementType,
    arithmetic: Arithmetic,
    split_k: SplitK,
    majors: [Major; 2],
    reduces: bool,
    /// The kernel for sm_90a or sm_100a, if it is one of those.
    hopper: Option<(sm90::TensorCores, sm90::Request)>,
    /// No extent is a multiple of the tile's; blocks end in the last and in the first stage of their pipeline.
    products: Vec<Case>,
    known: OnceLock<Result<Vec<Known>, String>>,
}

/// A product to try.
#[derive(Clone, Copy)]
struct Case {
    /// M, N, K.
    extents: [usize; 3],
    /// The factor of C, if the epilogue has one.
    beta: f64,
}

/// The kernels for sm_80: for every family one of each kind of split-K, with all layouts and with complete reductions;
/// and one with stream-K.
pub(crate) fn ampere() -> Vec<Multiplied> {
    let families = [
        (ElementType::F16, Arithmetic::Exact),
        (ElementType::BF16, Arithmetic::Exact),
        (ElementType::F32, Arithmetic::Tf32),
        (ElementType::F64, Arithmetic::Exact),
        (ElementType::F32, Arithmetic::Exact),
        (ElementType::I8, Arithmetic::Exact),
        (ElementType::F8E4M3, Arithmetic::Exact),
    ];
    let forms = [
        (SplitK::None, [Major::K, Major::Mn], true),
        (SplitK::Serial(3), [Major::Mn, Major::K], false),
        (SplitK::Parallel(2), [Major::K, Major::K], true),
    ];
    let mut subjects = Vec::new();
    for (element, arithmetic) in families {
        for (split_k, majors, reduces) in forms {
            let Some(instruction) = Instruction::of(element, element, arithmetic) else { continue };
            let tile = tile(instruction);
            let product = |(columns, steps): (usize, usize)| {
                let extents = [tile.m + 9, tile.n + columns, split_k.splits() * steps * tile.k - tile.k / 2 - 3];
                Case { extents, beta: 1.0 }
            };
            let reduction = if reduces { " with reductions" } else { "" };
            subjects.push(Multiplied {
                name: format!("sm_80 {instruction:?} {split_k:?}{reduction}"),
                element,
                of_b: element,
                arithmetic,
                split_k,
                majors,
                reduces,
                hopper: None,
                // In the last one, the last copies, of zeros, go to the first stage, which the epilogue overwrites.
                products: [(17, 2 * tile.stages), (3, tile.stages + 1), (3, tile.stages + 2)].map(product).to_vec(),
                known: OnceLock::new(),
            });
        }
    }
    subjects.push(streamed());
    subjects
}

/// A kernel for sm_80 with stream-K on three multiprocessors of an sm_90a, where this can be configured: with all tiles
/// cut, with some cut, and with one that three blocks share.
fn streamed() -> Multiplied {
    let tile = tile(Instruction::MmaF16);
    let product = |m: usize, n: usize, steps: usize| {
        let extents = [m * tile.m + 9, n * tile.n + 3, steps * tile.k - tile.k / 2 - 3];
        Case { extents, beta: 1.0 }
    };
    Multiplied {
        name: "sm_80 MmaF16 Stream".to_owned(),
        element: ElementType::F16,
        of_b: ElementType::F16,
        arithmetic: Arithmetic::Exact,
        split_k: SplitK::Stream,
        majors: [Major::K, Major::Mn],
        reduces: false,
        hopper: None,
        products: vec![product(1, 1, tile.stages + 1), product(3, 1, 3), product(0, 0, 13)],
        known: OnceLock::new(),
    }
}

/// A kernel for sm_90a or sm_100a.
struct Hopper {
    cores: sm90::TensorCores,
    schedule: sm90::Schedule,
    consumers: usize,
    cluster: (usize, usize),
    split_k: SplitK,
    reduces: bool,
    element: ElementType,
    of_b: ElementType,
    arithmetic: Arithmetic,
}

/// The kernels for sm_90a: cooperative and ping-pong, with and without clusters, with each kind of split-K and
/// stream-K. Also kernels of FP8, which sum only in the tensor cores or also in f32, and kernels with weights of 8
/// bits.
pub(crate) fn hopper() -> Vec<Multiplied> {
    use sm90::Schedule::{Cooperative, PingPong};
    let form = |schedule, consumers, cluster, split_k, reduces| Hopper {
        cores: sm90::TensorCores::Wgmma,
        schedule,
        consumers,
        cluster,
        split_k,
        reduces,
        element: ElementType::BF16,
        of_b: ElementType::BF16,
        arithmetic: Arithmetic::Exact,
    };
    let fp8 = |arithmetic, form| Hopper { element: ElementType::F8E4M3, of_b: ElementType::F8E4M3, arithmetic, ..form };
    let weights = |of_b, form| Hopper { of_b, ..form };
    let blackwell = |form| Hopper { cores: sm90::TensorCores::Tcgen05, ..form };
    let forms = [
        form(Cooperative, 2, (2, 1), SplitK::None, true),
        form(PingPong, 2, (1, 1), SplitK::None, true),
        form(Cooperative, 1, (1, 2), SplitK::Serial(2), false),
        form(PingPong, 2, (1, 2), SplitK::Parallel(2), false),
        form(Cooperative, 2, (1, 2), SplitK::Stream, true),
        form(PingPong, 2, (1, 2), SplitK::Stream, false),
        fp8(Arithmetic::FastFp8, form(Cooperative, 2, (1, 2), SplitK::None, true)),
        fp8(Arithmetic::Exact, form(PingPong, 2, (1, 1), SplitK::None, false)),
        weights(ElementType::I8, form(Cooperative, 2, (1, 2), SplitK::None, true)),
        weights(ElementType::F8E5M2, form(PingPong, 2, (2, 1), SplitK::Serial(2), false)),
        blackwell(form(Cooperative, 2, (2, 1), SplitK::None, true)),
        blackwell(form(PingPong, 2, (1, 1), SplitK::None, true)),
        blackwell(form(Cooperative, 1, (1, 2), SplitK::Serial(2), false)),
    ];
    forms.iter().filter_map(Hopper::subject).collect()
}

impl Hopper {
    /// The kernel with the smallest tile with wide enough rows, and products for it; `None` if there is no tile of this
    /// kind.
    fn subject(&self) -> Option<Multiplied> {
        let &Self { cores, schedule, consumers, cluster: (m, n), split_k, reduces, element, of_b, arithmetic } = self;
        let tiles = sm90::Tile::all();
        let of_kind =
            |t: &&sm90::Tile| t.schedule == schedule && t.consumers == consumers && t.columns >= 64 && cores.hold(t);
        let tile = *tiles.iter().filter(of_kind).min_by_key(|t| t.rows * t.columns)?;
        let stages = 3;
        // N and K are multiples of 16 bytes, or tensor copies could not reach packed tensors. The rings of operands
        // wrap around within a tile. The rings of the epilogue's tensors wrap around after many tiles. Their number is
        // odd, so that the parts of a tile's K go to different clusters and stream-K has tiles to cut. The converted
        // operand is the tile's rows.
        let swap_ab = element != of_b;
        let (atom, block) = (16 / of_b.size(), 128 / element.size());
        let left_over = if swap_ab { 3 * atom } else { 5 * atom };
        let (columns, k) = (tile.columns + 3 * atom, |steps: usize| split_k.splits() * steps * block - left_over);
        let extents = |rows: usize, k: usize| {
            if swap_ab { [columns, rows.next_multiple_of(atom), k] } else { [rows, columns, k] }
        };
        // With stream-K, the first team has one whole tile less.
        let two_teams = schedule == sm90::Schedule::PingPong && split_k != SplitK::None;
        let many = if matches!(split_k, SplitK::Stream | SplitK::Parallel(_)) || two_teams { 22 } else { 10 };
        let mut products = vec![
            Case { extents: extents(2 * tile.rows + 9, k(2 * stages)), beta: 0.5 },
            Case { extents: extents(many * tile.rows + 9, k(2)), beta: 0.5 },
            Case { extents: extents(2 * tile.rows + 24, k(stages + 1)), beta: 0.0 },
            Case { extents: extents(tile.rows + 1, 0), beta: 2.0 },
        ];
        if split_k == SplitK::Stream {
            // One tile that two clusters share: the first team of each has a part.
            products.push(Case { extents: extents(tile.rows - 7, k(8)), beta: 0.5 });
        }
        let sums = match (element, arithmetic) {
            (ElementType::F8E4M3, Arithmetic::FastFp8) => ", fast FP8".to_owned(),
            (ElementType::F8E4M3, _) => ", FP8".to_owned(),
            _ if swap_ab => format!(", weights of {of_b}"),
            _ => String::new(),
        };
        Some(Multiplied {
            name: format!("{} {schedule:?} {split_k:?}, clusters of {m}x{n}{sums}", cores.arch()),
            element,
            of_b,
            arithmetic,
            split_k,
            majors: [Major::K, Major::K],
            reduces,
            hopper: Some((
                cores,
                sm90::Request {
                    tile: Some(tile),
                    swap_ab: Some(swap_ab),
                    stages: Some(stages),
                    // A tile has two steps: with three stages of inputs, their ring wraps around in either of them.
                    staging: Some(sm90::Staging { step: 32, output_stages: 4, input_stages: 3 }),
                    cluster: Some(sm90::Cluster { m, n }),
                    ..sm90::Request::default()
                },
            )),
            products,
            known: OnceLock::new(),
        })
    }
}

/// The smallest tile: it has more edges, where most can go wrong, and more mutants run in a second. For 8-bit operands
/// it is the smallest whose warps have 32 columns: with 16, a lane may read back only what it wrote itself.
fn tile(instruction: Instruction) -> Tile {
    let wide = |tile: &&Tile| instruction.sizes().1 > 1 || tile.warp_n >= 32;
    let tiles = Tile::all(instruction);
    *tiles.iter().rfind(wide).unwrap_or(&tiles[tiles.len() - 1])
}

/// `relu(accum + c)` or `relu(accum + beta * c + bias)`, with the sums of its rows and the largest values of its
/// columns.
fn tree(linear: bool, reduces: bool) -> Tree {
    let mut b = TreeBuilder::new("mutated", file!());
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let sum = if linear {
        let beta = b.parameter("beta", ParameterClass::Scalar, None);
        let bias = b.parameter("bias", ParameterClass::RowVector, None);
        let scaled = b.apply(Op::Mul, &[beta, c]);
        let sum = b.apply(Op::Add, &[accum, scaled]);
        b.apply(Op::Add, &[sum, bias])
    } else {
        b.apply(Op::Add, &[accum, c])
    };
    let zero = b.literal(0.0);
    let d = b.apply(Op::Max, &[sum, zero]);
    b.output("d", d, BroadcastClass::Tensor, None);
    if reduces {
        for (name, axis, op) in [("sums", Axis::Row, ReduceOp::Add), ("largest", Axis::Column, ReduceOp::Max)] {
            let node = b.reduce(Reduction { axis, batch: false, op, form: Form::Complete }, d);
            b.output(name, node, axis.result_class(), Some(ElementType::F32));
        }
    }
    b.finish()
}

/// A product with its operands' values and the correct results.
struct Known {
    case: Case,
    /// The values of A, B, C and the bias.
    values: [Vec<f64>; 4],
    expected: Vec<Output>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Subject for Multiplied {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn arch(&self) -> Arch {
        match self.hopper {
            Some((cores, _)) => cores.arch(),
            None if self.split_k == SplitK::Stream => Arch::SM_90A,
            None => Arch::SM_80,
        }
    }

    fn text(&self, device: &Device) -> Result<Text, String> {
        Text::of(&self.plan(device)?)
    }

    fn run(&self, device: &Device) -> Result<(), (Kill, String)> {
        let gemm = self.plan(device).map_err(stopped)?;
        for product in self.known(&gemm).map_err(stopped)? {
            let [a, b, c, bias] = self.operands(device, product).map_err(stopped)?;
            let mut outputs = self.outputs(device, &gemm, product.case.extents).map_err(stopped)?;
            let mut arguments = vec![Argument::Input(&c.view)];
            if self.is_linear() {
                arguments.extend([Argument::Scalar(product.case.beta), Argument::Input(&bias.view)]);
            }
            arguments.extend(outputs.iter_mut().map(|placed| Argument::Output(&mut placed.view)));
            let stream = device.default_stream();
            gemm.run_arguments(&stream, &a.view, &b.view, &arguments).map_err(stopped)?;
            for (placed, expected) in outputs.iter_mut().zip(&product.expected) {
                let values = placed.values().map_err(stopped)?;
                if let Some(wrong) = expected.first_wrong(&values) {
                    return Err((Kill::Wrong, format!("{wrong:?}")));
                }
                if !placed.is_guarded().map_err(stopped)? {
                    return Err((Kill::Wrong, "wrote outside of its view".into()));
                }
            }
        }
        Ok(())
    }
}

impl Multiplied {
    /// Whether the epilogue has a factor and a bias.
    fn is_linear(&self) -> bool {
        self.hopper.is_some()
    }

    fn plan(&self, device: &Device) -> Result<Gemm, String> {
        let [m, n, k] = self.products[0].extents;
        let [a, b] = self.majors.map(|major| OperandLayout { major, copy_bytes: 16 });
        let builder = Builder::<()>::new(device, tree(self.is_linear(), self.reduces))
            .elements(self.element, self.of_b)
            .problem(m, n, k)
            .arithmetic(self.arithmetic)
            .layouts(a, b)
            .split_k(self.split_k);
        // Two clusters that each compute several tiles.
        let builder = match self.hopper {
            Some((cores, request)) => {
                let builder = builder.multiprocessors(2 * request.cluster.map_or(1, |c| c.m * c.n));
                let request = sm90::Request { split_k: Some(self.split_k), ..request };
                match cores {
                    sm90::TensorCores::Wgmma => builder.sm90(request),
                    sm90::TensorCores::Tcgen05 => builder.sm100(request),
                }
            }
            None => {
                let instruction = Instruction::of(self.element, self.element, self.arithmetic);
                let builder = builder.tile(tile(instruction.ok_or("no instruction")?));
                if self.split_k == SplitK::Stream { builder.multiprocessors(3) } else { builder }
            }
        };
        builder.plan().map_err(text)
    }

    /// The products with the correct results, computed once.
    fn known(&self, gemm: &Gemm) -> Result<&[Known], String> {
        let known = |&case: &Case| {
            let [m, n, k] = case.extents;
            let value = |seed, element, count| random::values(&mut Choices::new(&[seed, 1]), element, count);
            let value_of = |seed, count| value(seed, self.element, count);
            let values = [value_of(11, m * k), value(22, self.of_b, k * n), value_of(33, m * n), value_of(44, n)];
            let expected = self.expected(gemm, case, &values)?;
            Ok(Known { case, values, expected })
        };
        let all = || self.products.iter().map(known).collect();
        self.known.get_or_init(all).as_deref().map_err(Clone::clone)
    }

    fn expected(&self, gemm: &Gemm, case: Case, values: &[Vec<f64>; 4]) -> Result<Vec<Output>, String> {
        let (tree, [m, n, k]) = (gemm.tree(), case.extents);
        let extent = Extent { m, n, l: 1 };
        let array = |values, columns: usize| Array { values, offset: 0, strides: [0, columns as isize, 1] };
        let multiplication = match self.arithmetic {
            Arithmetic::Exact | Arithmetic::Int8Activations => Multiplication::Exact,
            Arithmetic::Tf32 => Multiplication::Tf32,
            Arithmetic::FastBf16 => Multiplication::FastBf16,
            Arithmetic::FastFp8 => Multiplication::FastFp8,
        };
        let (a, b) = (array(&values[0], k), array(&values[1], n));
        let product = Product::new(tree.types(), multiplication, extent, k, &a, &b).map_err(text)?;
        let packed = |values, class| reference::Argument::Array(Array::packed(values, class, extent, false));
        let mut given = vec![packed(&values[2], BroadcastClass::Tensor)];
        if self.is_linear() {
            given.extend([reference::Argument::Scalar(case.beta), packed(&values[3], BroadcastClass::RowVector)]);
        }
        let options = Options { tile: Some(gemm.choice().tile()), fast_math: gemm.is_fast_math() };
        reference::evaluate(tree, &[product], &given, options).map_err(text)
    }

    /// A, B, C and the bias.
    fn operands(&self, device: &Device, product: &Known) -> Result<[Placed; 4], String> {
        let ([m, n, k], values) = (product.case.extents, &product.values);
        let [a, b] = self.majors;
        let place_of = |element: ElementType, shape: &[usize], values: &[f64], transposed| {
            let multiple = (16 / element.size()).max(1);
            let placement = Placement { transposed, multiple, ..Placement::PLAIN };
            Placed::new(device, element, shape, values, placement).map_err(text)
        };
        let place = |shape: &[usize], values: &[f64], transposed| place_of(self.element, shape, values, transposed);
        // A is stored transposed if its rows in memory are along M, B if they are along K.
        Ok([
            place(&[m, k], &values[0], a == Major::Mn)?,
            place_of(self.of_b, &[k, n], &values[1], b == Major::K)?,
            place(&[m, n], &values[2], false)?,
            place(&[n], &values[3], false)?,
        ])
    }

    fn outputs(&self, device: &Device, gemm: &Gemm, [m, n, _]: [usize; 3]) -> Result<Vec<Placed>, String> {
        let outputs = gemm.tree().outputs().iter().map(|output| {
            let shape = match output.class {
                BroadcastClass::Scalar => vec![],
                BroadcastClass::RowVector => vec![n],
                BroadcastClass::ColumnVector => vec![m],
                BroadcastClass::Tensor => vec![m, n],
            };
            let before = vec![1.0; shape.iter().product()];
            let multiple = 8.max(16 / output.element.size());
            let placement = Placement { multiple, padding: 3, ..Placement::PLAIN };
            Placed::new(device, output.element, &shape, &before, placement).map_err(text)
        });
        outputs.collect()
    }
}
