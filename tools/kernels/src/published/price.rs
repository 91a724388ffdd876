//! The model's word on a published row.
//!
//! A row whose tile is known is priced by that kernel; another one by the best candidate, since a library chooses, too.

use epilogue::ElementType;
use epilogue::evt::{BroadcastClass, TreeBuilder, Types as TreeTypes, ValidTree};
use epilogue::gemm::sm90::{self, Cluster, Request, TensorCores, Wgmma};
use epilogue::gemm::{
    Arithmetic, Candidate, Instruction, Machine, Major, OperandLayout, Problem, SplitK, Tile, Workload, estimate, rank,
};

use super::data::{Output, Pace, Row, Split, Timed, Types};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A row's product, as the model asks for it.
struct Product {
    problem: Problem,
    layouts: (OperandLayout, OperandLayout),
    arithmetic: Arithmetic,
    tree: ValidTree,
}

/// The machine that a row was timed on.
pub(super) fn machine(row: &Row) -> Outcome<Machine> {
    let mut properties = row.gpu.properties();
    properties.power_milliwatts = row.watts * 1000;
    let machine = Machine::of(&properties).ok_or("a GPU")?;
    Ok(if row.harness.pace == Pace::Burst { machine.in_bursts() } else { machine })
}

/// The latency of a memory's reads, in microseconds.
const LATENCY: f64 = 1.0;

/// The predicted time as the harness measures it. Dirty bytes that it leaves in the L2 are written to memory while the
/// kernel reads: as many as the reads displace.
pub(super) fn measured(machine: &Machine, row: &Row, candidate: &Candidate) -> Outcome<f64> {
    let product = Product::of(row)?;
    let types = product.tree.types();
    let [m, n, k, l] = row.extents.map(|extent| extent as f64);
    let read = l * k * (m * types.a.size() as f64 + n * types.b.size() as f64);
    let all = read + l * m * n * product.tree.cost().bytes_per_element() as f64;
    let rate = machine.memory_bytes_per_clock * machine.multiprocessors as f64 * machine.clock * 1e3;
    let memory = (all + read.min(row.harness.dirty)) / rate + LATENCY;
    Ok(candidate.microseconds.max(memory))
}

impl Product {
    fn of(row: &Row) -> Outcome<Self> {
        let (element, arithmetic) = match row.types {
            Types::F16 => (ElementType::F16, Arithmetic::Exact),
            Types::Bf16 => (ElementType::BF16, Arithmetic::Exact),
            Types::Tf32 => (ElementType::F32, Arithmetic::Tf32),
            Types::S8 => (ElementType::I8, Arithmetic::Exact),
            Types::FastE4m3 => (ElementType::F8E4M3, Arithmetic::FastFp8),
            Types::ScaledE4m3 => (ElementType::F8E4M3, Arithmetic::Exact),
        };
        let output = match row.output {
            Output::Same if row.types == Types::S8 => ElementType::I32,
            Output::Same => element,
            Output::Bf16 => ElementType::BF16,
            Output::F16 => ElementType::F16,
            Output::F32 => ElementType::F32,
        };
        let mut tree = TreeBuilder::new("plain", file!());
        let accum = tree.accum("accum");
        tree.output("d", accum, BroadcastClass::Tensor, Some(output));
        let tree = tree.finish().validate(TreeTypes::new(element, element))?;
        let [m, n, k, l] = row.extents;
        let problem = Problem::new(m, n, k);
        let problem = if l == 1 { problem } else { problem.batched(l) };
        let problem = if row.types == Types::ScaledE4m3 { problem.of_scaled_operands() } else { problem };
        let layout = |along_k: bool, other: usize| {
            let (major, line) = if along_k { (Major::K, k) } else { (Major::Mn, other) };
            let widest = [16, 8, 4].into_iter().find(|bytes| (line * element.size()).is_multiple_of(*bytes));
            OperandLayout { copy_bytes: widest.unwrap_or(element.size()), ..OperandLayout::packed(major) }
        };
        let layouts = (layout(row.along_k.0, m), layout(row.along_k.1, n));
        Ok(Self { problem, layouts, arithmetic, tree })
    }

    /// The fastest instruction of a GPU that the kernels for sm_80 have.
    fn mma(&self, machine: &Machine) -> Option<Instruction> {
        let types = self.tree.types();
        Instruction::on(machine.arch, types.a, types.b, self.arithmetic).first().copied()
    }

    fn sm80(&self, instruction: Instruction) -> Workload<'_> {
        let (a, b) = self.layouts;
        Workload { problem: self.problem, instruction, a, b, epilogue: self.tree.cost(), lines: None, needed: 1.0 }
    }

    /// The candidates for sm_90a or sm_100a that satisfy a request; none elsewhere.
    fn sm90(&self, machine: &Machine, request: &Request) -> Vec<Candidate> {
        let types = self.tree.types();
        let Some(cores) = TensorCores::of(machine.arch) else { return Vec::new() };
        let Some(instruction) = Wgmma::of(types.a, types.b, self.arithmetic) else { return Vec::new() };
        let ((a, b), fast_fp8, tree) = (self.layouts, self.arithmetic == Arithmetic::FastFp8, &self.tree);
        let problem = self.problem;
        let workload = sm90::Workload { problem, cores, instruction, a, b, fast_fp8, tree, lines: None, needed: 1.0 };
        sm90::candidates(machine, &workload, request, |_| true)
    }
}

/// The kernel that stands for a row; an error if the library has none such.
pub(super) fn candidate(machine: &Machine, row: &Row) -> Outcome<Candidate> {
    let product = Product::of(row)?;
    let least = |all: Vec<Candidate>| all.into_iter().min_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
    let found = match &row.kernel {
        Timed::Chosen(_) => {
            let mut all = product.sm90(machine, &Request::default());
            all.extend(product.mma(machine).and_then(|mma| rank(machine, &product.sm80(mma)).ok()).unwrap_or_default());
            least(all)
        }
        Timed::Sm90 { tile, cluster } => {
            let tiles = sm90::Tile::all().iter().filter(|own| [own.rows, own.columns] == *tile);
            let cluster = cluster.map(|[m, n]| Cluster { m, n });
            let of = |tile: &sm90::Tile| {
                let (tile, split_k) = (Some(*tile), Some(SplitK::None));
                let request = Request { tile, swap_ab: Some(false), cluster, split_k, ..Request::default() };
                product.sm90(machine, &request)
            };
            least(tiles.flat_map(of).collect())
        }
        Timed::Sm80 { tile: [m, n, k], split } => {
            let mma = product.mma(machine).ok_or("no instruction of sm_80 multiplies these types")?;
            let split = match split {
                Split::None => SplitK::None,
                Split::Stream => SplitK::Stream,
                Split::Serial(n) => SplitK::Serial(*n),
            };
            // Of tiles that are not as deep, the library's own depth.
            let tiles = Tile::all(mma).iter().filter(|own| (own.m, own.n) == (*m, *n));
            let nearest = tiles.min_by_key(|own| own.k.abs_diff(*k));
            nearest.and_then(|tile| estimate(machine, &product.sm80(mma), *tile, split).ok())
        }
    };
    Ok(found.ok_or_else(|| format!("no kernel of the library is like {:?}", row.kernel))?)
}
