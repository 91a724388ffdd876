//! Reductions of tiles: the emitted statements are executed and compared with a loop on the host. Values are small
//! integers, for which every element type is exact in any order.

use std::collections::HashMap;
use std::slice::from_ref;

use epilogue::ElementType;
use epilogue::ElementType::{BF16, F16, F32, F64, I32, I64};
use epilogue::tile::ExecutionScope::{self, Cta, Thread, Warp, Warpgroup};
use epilogue::tile::MemoryScope::{Local, Shared};
use epilogue::tile::TileAxis::{Lane, Memory, Warp as WarpId};
use epilogue::tile::TileOp::{Max, Min, Sum};
use epilogue::tile::{Place, TileBuffer, TileLayout, TileOp, TileReduction, headers};
use epilogue_runtime::{Device, KernelArgument, Launch, Source, testing};
use half::{bf16, f16};
use proptest::prelude::*;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

const OPS: [TileOp; 3] = [Sum, Max, Min];

/// A reduction with every operation, with and without the old value.
#[derive(Clone, Debug)]
struct Case {
    scope: ExecutionScope,
    source: TileBuffer,
    destination: TileBuffer,
    axes: Vec<isize>,
    thread_reduce: bool,
    block: [u32; 3],
    /// Which of the scope's groups executes it; for registers, all do.
    who: usize,
    variant: &'static str,
}

impl Case {
    fn reduction(&self, op: TileOp, accumulate: bool) -> TileReduction {
        let reduction = TileReduction::new(op, self.scope, &self.destination, &self.source, &self.axes).expect("valid");
        let reduction = if accumulate { reduction.accumulate() } else { reduction };
        let reduction = if self.thread_reduce { reduction.thread_reduce() } else { reduction };
        reduction.block(self.block).expect("valid")
    }

    fn threads(&self) -> usize {
        self.block.iter().map(|&n| n as usize).product()
    }

    /// The number of threads that share a tile of registers; for shared memory, all.
    fn team(&self) -> usize {
        match self.source.scope() {
            Local => self.scope.threads(self.threads()),
            Shared => self.threads(),
        }
    }

    /// The words of an array: of every thread, or of the block.
    fn words(&self, buffer: &TileBuffer) -> usize {
        buffer.layout().memory_len() * if buffer.scope() == Local { self.threads() } else { 1 }
    }

    /// The index of a team's element among all words.
    fn word(&self, buffer: &TileBuffer, team: usize, place: Place) -> usize {
        match buffer.scope() {
            Local => {
                let thread = team * self.team() + place.warp * 32 + place.lane;
                thread * buffer.layout().memory_len() + place.memory
            }
            Shared => place.memory,
        }
    }

    fn source_text(&self) -> Source {
        let ty = memory_type(self.source.element());
        let (a, b) = (self.source.name(), self.destination.name());
        let (na, nb) = (self.source.layout().memory_len(), self.destination.layout().memory_len());
        let [x, y, _] = self.block;
        let (mut functions, mut calls) = (String::new(), String::new());
        for (i, (op, accumulate)) in OPS.iter().flat_map(|op| [(*op, false), (*op, true)]).enumerate() {
            let code = self.reduction(op, accumulate).emit().unwrap_or_else(|e| panic!("{e}\n{self:?}"));
            assert_eq!(code.variant, self.variant, "{self:?}");
            functions.push_str(&code.function(&format!("reduce{i}")));
            let shared = self.source.scope() == Shared;
            let (threads, at) = (self.scope.threads(self.threads()), self.who);
            let (load, condition, store) = if shared {
                let each = "for (int i = thread; i < NB; i += THREADS)";
                (
                    format!("{each} {b}[i] = old[i]; __syncthreads();"),
                    format!("if (thread / {threads} == {at}) "),
                    format!("__syncthreads(); {each} out[{i} * NB + i] = {b}[i]; __syncthreads();"),
                )
            } else {
                let each = "for (int i = 0; i < NB; ++i)";
                (
                    format!("{each} {b}[i] = old[thread * NB + i];"),
                    String::new(),
                    format!("{each} out[({i} * THREADS + thread) * NB + i] = {b}[i];"),
                )
            };
            calls.push_str(&format!("    {load}\n    {condition}epilogue::reduce{i}({b}, {a});\n    {store}\n"));
        }
        let (space, load) = match self.source.scope() {
            Shared => (
                "__shared__ ",
                format!("for (int i = thread; i < NA; i += THREADS) {a}[i] = in[i];\n    __syncthreads();"),
            ),
            Local => ("", format!("for (int i = 0; i < NA; ++i) {a}[i] = in[thread * NA + i];")),
        };
        let code = format!(
            "{}namespace epilogue {{\n{functions}}}\nusing namespace epilogue;\nconstexpr int NA = {na}, NB = {nb}, THREADS = {};\n\
             extern \"C\" __global__ void reduce(const {ty}* in, const {ty}* old, {ty}* out) {{\n    \
             const int thread = threadIdx.x + {x} * (threadIdx.y + {y} * threadIdx.z);\n    \
             {space}{ty} {a}[NA], {b}[NB];\n    {load}\n{calls}}}\n",
            headers(),
            self.threads()
        );
        Source::new("reduction.cu", "reduce", code)
    }

    /// Runs it and compares.
    fn check(&self, device: &Device) {
        let mut random = fastrand::Rng::with_seed(self.words(&self.source) as u64);
        let element = self.source.element();
        let words = |n: usize, random: &mut fastrand::Rng| -> Vec<f64> {
            (0..n).map(|_| f64::from(random.i32(-4..=4))).collect()
        };
        let input = words(self.words(&self.source), &mut random);
        let old = words(self.words(&self.destination), &mut random);
        let mut shown = input.clone();
        if element != I32 && element != I64 {
            // Elements that no layout reaches must not be read.
            let mut held = vec![false; shown.len()];
            for team in 0..self.threads() / self.team() {
                for place in self.source.layout().elements().keys() {
                    held[self.word(&self.source, team, *place)] = true;
                }
            }
            shown.iter_mut().zip(held).filter(|(_, held)| !held).for_each(|(x, _)| *x = f64::NAN);
        }
        let out = self.run(device, &shown, &old);
        for (i, (op, accumulate)) in OPS.iter().flat_map(|op| [(*op, false), (*op, true)]).enumerate() {
            let results = &out[i * old.len()..][..old.len()];
            for team in 0..self.threads() / self.team() {
                self.compare((op, accumulate), team, &input, &old, results);
            }
        }
    }

    fn run(&self, device: &Device, input: &[f64], old: &[f64]) -> Vec<f64> {
        let element = self.source.element();
        let source = self.source_text();
        let kernel = device.compile(&source).unwrap_or_else(|e| panic!("{e}"));
        let tensor = |values: &[f64]| {
            let bytes: Vec<u8> = values.iter().flat_map(|x| encode(element, *x)).collect();
            device.tensor_from_bytes(element, &bytes, [values.len()]).expect("valid")
        };
        let (a, b) = (tensor(input), tensor(old));
        let out = device.zeros_of(element, [6 * old.len()]).expect("valid");
        let arguments = [KernelArgument::Input(&a), KernelArgument::Input(&b), KernelArgument::Output(&out)];
        let launch = Launch { block: self.block, ..Launch::default() };
        let launched = kernel.launch(&launch, &arguments, &device.default_stream());
        let code = || {
            source
                .code
                .split("namespace epilogue {\n__device__ __forceinline__ void reduce0")
                .last()
                .unwrap_or_default()
                .to_owned()
        };
        launched.unwrap_or_else(|e| panic!("{e}\n{self:?}\n{}", code()));
        out.to_bytes().expect("valid").chunks(element.size()).map(|bytes| decode(element, bytes)).collect()
    }

    fn compare(&self, (op, accumulate): (TileOp, bool), team: usize, input: &[f64], old: &[f64], results: &[f64]) {
        let shape = self.source.shape();
        let reduced = |d: usize| self.axes.iter().any(|&axis| axis.rem_euclid(shape.len() as isize) as usize == d);
        let kept = |mut element: usize| -> usize {
            let (mut number, mut factor) = (0, 1);
            for d in (0..shape.len()).rev() {
                if !reduced(d) {
                    number += element % shape[d] * factor;
                    factor *= shape[d];
                }
                element /= shape[d];
            }
            number
        };
        let mut by_output: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
        for element in 0..shape.iter().product() {
            for place in self.source.layout().places(element) {
                let thread = place.warp * 32 + place.lane;
                let copies = by_output.entry(kept(element)).or_default();
                if self.partial() || !copies.iter().any(|(e, _)| *e == element) {
                    copies.push((element, thread));
                }
            }
        }
        let spatial: usize = (0..shape.len()).filter(|&d| !reduced(d)).map(|d| shape[d]).product();
        let per_output = self.destination.layout().len() / spatial;
        let mut written = vec![false; results.len()];
        for (place, number) in self.destination.layout().elements() {
            // Parts of reduced dimensions along lanes come after or before kept ones, so they are found by the kept
            // digits.
            let output = if per_output == 1 { number } else { self.kept_of_destination(number, &reduced) };
            let word = self.word(&self.destination, team, place);
            let thread = place.warp * 32 + place.lane;
            let elements = by_output[&output].iter().filter(|(_, t)| !self.partial() || *t == thread);
            let values = elements.map(|(element, _)| {
                let at = self.source.layout().places(*element)[0];
                input[self.word(&self.source, team, at)]
            });
            let values: Vec<f64> = values.chain(accumulate.then_some(old[word])).collect();
            let expected = match op {
                Sum => values.iter().sum(),
                Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                Min => values.iter().copied().fold(f64::INFINITY, f64::min),
            };
            assert_eq!(results[word], expected, "{op}, accumulate {accumulate}, {place:?}\n{self:?}");
            written[word] = true;
        }
        if self.source.scope() == Shared {
            for (word, _) in written.iter().enumerate().filter(|(_, written)| !**written) {
                assert_eq!(results[word], old[word], "word {word} is none of the destination's\n{self:?}");
            }
        }
    }

    /// Whether every lane has a result of its own.
    fn partial(&self) -> bool {
        self.variant == "local.view" && !self.thread_reduce
    }

    fn kept_of_destination(&self, mut number: usize, reduced: &dyn Fn(usize) -> bool) -> usize {
        let shape = self.destination.shape();
        let (mut kept, mut factor) = (0, 1);
        for d in (0..shape.len()).rev() {
            if !reduced(d) {
                kept += number % shape[d] * factor;
                factor *= shape[d];
            }
            number /= shape[d];
        }
        kept
    }
}

fn memory_type(element: ElementType) -> &'static str {
    match element {
        F64 => "double",
        F32 => "float",
        other => other.name(),
    }
}

fn encode(element: ElementType, x: f64) -> Vec<u8> {
    match element {
        F64 => x.to_le_bytes().to_vec(),
        F32 => (x as f32).to_le_bytes().to_vec(),
        F16 => f16::from_f64(x).to_le_bytes().to_vec(),
        BF16 => bf16::from_f64(x).to_le_bytes().to_vec(),
        I32 => (x as i32).to_le_bytes().to_vec(),
        I64 => (x as i64).to_le_bytes().to_vec(),
        other => panic!("{other}"),
    }
}

fn decode(element: ElementType, bytes: &[u8]) -> f64 {
    match element {
        F64 => f64::from_le_bytes(bytes.try_into().expect("its size")),
        F32 => f32::from_le_bytes(bytes.try_into().expect("its size")).into(),
        F16 => f16::from_le_bytes(bytes.try_into().expect("its size")).to_f64(),
        BF16 => bf16::from_le_bytes(bytes.try_into().expect("its size")).to_f64(),
        I32 => i32::from_le_bytes(bytes.try_into().expect("its size")).into(),
        I64 => i64::from_le_bytes(bytes.try_into().expect("its size")) as f64,
        other => panic!("{other}"),
    }
}

fn check_all(test: &str, cases: &[Case]) {
    let Some(device) = super::device(test) else { return };
    cases.par_iter().for_each(|case| case.check(&device));
}

#[test]
fn registers_of_a_thread() {
    let shapes: [(&[usize], &[isize], &[usize]); 13] = [
        (&[1], &[0], &[1]),
        (&[4], &[-1], &[1]),
        (&[7], &[0], &[1]),
        (&[16], &[0], &[]),
        (&[32], &[0], &[1]),
        (&[4, 8], &[0], &[8]),
        (&[4, 8], &[1], &[4, 1]),
        (&[3, 4, 5], &[0, 2], &[4]),
        (&[3, 4, 5], &[2, 0], &[1, 4, 1]),
        (&[2, 3, 4], &[-1], &[2, 3]),
        (&[2, 3, 4], &[0], &[3, 4]),
        (&[2, 3, 4], &[0, 1, 2], &[]),
        (&[5], &[], &[5]),
    ];
    let cases: Vec<Case> = shapes
        .iter()
        .zip([F32, F16, F64, BF16, I32, I64].into_iter().cycle())
        .map(|((shape, axes, to), element)| Case {
            scope: Thread,
            source: TileBuffer::local("A", element, shape).expect("valid"),
            destination: TileBuffer::local("B", element, to).expect("valid"),
            axes: axes.to_vec(),
            thread_reduce: false,
            block: [3, 1, 1],
            who: 0,
            variant: "local",
        })
        .collect();
    check_all("reduction::registers_of_a_thread", &cases);
}

fn shared_case(shape: &[usize], axes: &[isize], to: &[usize]) -> Case {
    Case {
        scope: Cta,
        source: TileBuffer::shared("A", F32, shape).expect("valid"),
        destination: TileBuffer::shared("B", F32, to).expect("valid"),
        axes: axes.to_vec(),
        thread_reduce: false,
        block: [64, 1, 1],
        who: 0,
        variant: "shared",
    }
}

#[test]
fn shared_memory() {
    let of = |element: ElementType, case: Case| {
        let again = |buffer: &TileBuffer| {
            TileBuffer::new(buffer.name(), element, Shared, buffer.shape(), buffer.layout().clone()).expect("valid")
        };
        Case { source: again(&case.source), destination: again(&case.destination), ..case }
    };
    let mut cases = vec![
        shared_case(&[32, 32], &[-1], &[32]),
        shared_case(&[32, 32], &[0], &[32]),
        of(F16, shared_case(&[8, 16, 2, 22], &[-2, -1], &[8, 16])),
        shared_case(&[4, 8, 6], &[1], &[4, 1, 6]),
        of(F16, shared_case(&[32, 7], &[-1], &[32])),
        of(I64, shared_case(&[3, 5, 7], &[0, 2], &[5])),
        of(F64, shared_case(&[100], &[0], &[1])),
        of(BF16, shared_case(&[9, 1], &[1], &[9])),
        of(I32, shared_case(&[2, 3, 4, 5], &[1, 3], &[2, 4])),
    ];
    // Parts of larger buffers.
    let (a, b) =
        (TileBuffer::shared("A", F32, &[32, 32]).expect("valid"), TileBuffer::shared("B", F32, &[32]).expect("valid"));
    let (source, destination) = (a.slice(&[1..6, 1..9]).expect("valid"), b.slice(from_ref(&(2..7))).expect("valid"));
    cases.push(Case { source, destination, ..shared_case(&[1], &[1], &[1]) });
    // Blocks of any number of threads, and of any shape.
    for block in [[1, 1, 1], [2, 1, 1], [31, 1, 1], [33, 1, 1], [100, 1, 1], [7, 3, 2], [256, 1, 1], [16, 2, 4]] {
        cases.push(Case { block, ..shared_case(&[6, 40], &[1], &[6]) });
        cases.push(Case { block, ..shared_case(&[70, 3], &[1], &[70]) });
    }
    // Parts of a block.
    for (scope, who) in [(Warp, 5), (Warpgroup, 0), (Warpgroup, 1), (Thread, 65)] {
        cases.push(Case { block: [256, 1, 1], scope, who, ..shared_case(&[4, 8], &[1], &[4]) });
        cases.push(Case { block: [32, 4, 2], scope, who, ..of(F16, shared_case(&[50, 9], &[0], &[9])) });
    }
    // The whole block for each of few outputs.
    for (block, shape, element) in [
        ([64, 1, 1], [1, 1000], F32),
        ([33, 2, 3], [3, 500], F16),
        ([256, 1, 1], [2, 600], F64),
        ([128, 1, 1], [2, 256], I32),
    ] {
        let to = [shape[0]];
        cases.push(Case { block, variant: "shared.block", ..of(element, shared_case(&shape, &[1], &to)) });
        let turned = [shape[1], shape[0]];
        cases.push(Case { block, variant: "shared.block", ..of(element, shared_case(&turned, &[0], &to)) });
    }
    check_all("reduction::shared_memory", &cases);
}

fn local(name: &str, element: ElementType, shape: &[usize], layout: TileLayout) -> TileBuffer {
    TileBuffer::new(name, element, Local, shape, layout).expect("valid")
}

fn warp_case(source: TileBuffer, destination: TileBuffer, axes: &[isize], variant: &'static str) -> Case {
    let axes = axes.to_vec();
    Case { scope: Warp, source, destination, axes, thread_reduce: false, block: [64, 1, 1], who: 0, variant }
}

#[test]
fn lanes_with_replicas_of_the_result() {
    let one = |extent| TileLayout::shards([(1, 1, Memory)]).replicas([(extent, 1, Lane)]);
    let mut cases = vec![
        // A whole warp, with one and four elements per lane (T10: a lane's own elements first, and the old value once).
        warp_case(
            local("A", F32, &[32], TileLayout::shards([(32, 1, Lane)])),
            local("B", F32, &[1], one(32)),
            &[0],
            "local.warp",
        ),
        warp_case(
            local("A", F16, &[32, 4], TileLayout::shards([(32, 1, Lane), (4, 1, Memory)])),
            local("B", F16, &[1], one(32)),
            &[0, 1],
            "local.warp",
        ),
        // Registers with gaps and in another order.
        warp_case(
            local(
                "A",
                F32,
                &[3, 32, 2],
                TileLayout::shards([(3, 2, Memory), (32, 1, Lane), (2, 9, Memory)]).offset(1, Memory),
            ),
            local("B", F32, &[3, 1, 1], TileLayout::shards([(3, 5, Memory)]).replicas([(32, 1, Lane)])),
            &[1, 2],
            "local.warp",
        ),
        // The rows of an accumulator.
        warp_case(
            local("A", F32, &[16, 8], TileLayout::shards([(2, 2, Memory), (8, 4, Lane), (4, 1, Lane), (2, 1, Memory)])),
            local("B", F32, &[16], TileLayout::shards([(2, 1, Memory), (8, 4, Lane)]).replicas([(4, 1, Lane)])),
            &[1],
            "local.warp",
        ),
        // Its columns.
        warp_case(
            local(
                "A",
                BF16,
                &[16, 8],
                TileLayout::shards([(2, 2, Memory), (8, 4, Lane), (4, 1, Lane), (2, 1, Memory)]),
            ),
            local("B", BF16, &[8], TileLayout::shards([(4, 1, Lane), (2, 1, Memory)]).replicas([(8, 4, Lane)])),
            &[0],
            "local.warp",
        ),
    ];
    for width in [2, 4, 8, 16] {
        let (rows, element) = (32 / width, if width == 4 { I32 } else { F64 });
        let source = TileLayout::shards([(rows, width, Lane), (width, 1, Lane)]);
        let result = TileLayout::shards([(rows, width, Lane)]).replicas([(width, 1, Lane)]);
        cases.push(warp_case(
            local("A", element, &[rows, width], source),
            local("B", element, &[rows], result),
            &[1],
            "local.warp",
        ));
    }
    check_all("reduction::lanes_with_replicas_of_the_result", &cases);
}

#[test]
fn parts_of_each_lane() {
    let rows = |n: usize| TileLayout::shards([(32, 1, Lane), (n, 1, Memory)]);
    let lanes = TileLayout::shards([(32, 1, Lane)]);
    let mut cases = vec![
        warp_case(local("A", F32, &[32, 64], rows(64)), local("B", F32, &[32], lanes.clone()), &[1], "local.view"),
        warp_case(
            local("A", F16, &[32, 64], rows(64)).slice(&[0..32, 7..40]).expect("valid"),
            local("B", F16, &[32, 1], lanes),
            &[1],
            "local.view",
        ),
    ];
    let three = TileLayout::shards([(32, 1, Lane), (4, 8, Memory), (8, 1, Memory)]);
    for (axes, to, layout) in
        [(&[1][..], &[32, 8][..], rows(8)), (&[2], &[32, 4], rows(4)), (&[1, 2], &[32, 1, 1], rows(1))]
    {
        cases.push(warp_case(
            local("A", F32, &[32, 4, 8], three.clone()),
            local("B", F32, to, layout),
            axes,
            "local.view",
        ));
    }
    // Accumulators of wgmma, 16 × 128 per warp: each lane's part of a row, or the whole row.
    let wgmma = TileLayout::shards([(2, 2, Memory), (8, 4, Lane), (16, 4, Memory), (4, 1, Lane), (2, 1, Memory)]);
    let row = TileLayout::shards([(2, 1, Memory), (8, 4, Lane), (4, 1, Lane)]);
    for element in [F32, F16] {
        for thread_reduce in [false, true] {
            let (source, destination) =
                (local("A", element, &[16, 128], wgmma.clone()), local("B", element, &[16, 4], row.clone()));
            cases.push(Case { thread_reduce, ..warp_case(source, destination, &[1], "local.view") });
        }
        let four = TileLayout::shards([
            (4, 1, WarpId),
            (2, 2, Memory),
            (8, 4, Lane),
            (16, 4, Memory),
            (4, 1, Lane),
            (2, 1, Memory),
        ]);
        let rows = TileLayout::shards([(4, 1, WarpId), (2, 1, Memory), (8, 4, Lane), (4, 1, Lane)]);
        let (source, destination) = (local("A", element, &[64, 128], four), local("B", element, &[64, 4], rows));
        let case = warp_case(source, destination, &[1], "local.view");
        cases.push(Case { scope: Warpgroup, block: [256, 1, 1], ..case });
    }
    // A warpgroup's 128 × 16: one row per thread.
    let rows = |n: usize| TileLayout::shards([(4, 1, WarpId), (32, 1, Lane), (n, 1, Memory)]);
    let case = warp_case(local("A", F32, &[128, 16], rows(16)), local("B", F32, &[128], rows(1)), &[1], "local.view");
    cases.push(Case { scope: Warpgroup, block: [128, 2, 1], ..case });
    check_all("reduction::parts_of_each_lane", &cases);
}

/// A 16-bit sum is rounded once: accumulated in its own type, 4096 ones would give 2048.
#[test]
fn sixteen_bits_accumulate_in_thirty_two() {
    let Some(device) = super::device("reduction::sixteen_bits_accumulate_in_thirty_two") else { return };
    let case = Case {
        scope: Cta,
        source: TileBuffer::shared("A", F16, &[1, 4096]).expect("valid"),
        destination: TileBuffer::shared("B", F16, &[1]).expect("valid"),
        axes: vec![1],
        thread_reduce: false,
        block: [1, 1, 1],
        who: 0,
        variant: "shared",
    };
    assert_eq!(case.run(&device, &[1.0; 4096], &[0.0])[0], 4096.0);
}

#[test]
fn nan_and_zeros() {
    let Some(device) = super::device("reduction::nan_and_zeros") else { return };
    let source = local("A", F32, &[32], TileLayout::shards([(32, 1, Lane)]));
    let destination = local("B", F32, &[1], TileLayout::row_major(&[1]).replicas([(32, 1, Lane)]));
    let case = Case { block: [32, 1, 1], ..warp_case(source, destination, &[0], "local.warp") };
    let mut input = vec![1.0; 32];
    input[13] = f64::NAN;
    let out = case.run(&device, &input, &[0.0; 32]);
    assert!(out.iter().all(|x| x.is_nan()), "{out:?}");
    // All lanes agree on the sign: +0 is the larger, -0 the smaller.
    let input: Vec<f64> = (0..32).map(|i| if i % 3 == 0 { 0.0 } else { -0.0 }).collect();
    let out = case.run(&device, &input, &[0.0; 32]);
    assert!(out[64..96].iter().all(|x| *x == 0.0 && x.is_sign_positive()), "{out:?}");
    assert!(out[128..160].iter().all(|x| *x == 0.0 && x.is_sign_negative()), "{out:?}");
}

/// Random shards: their extents, what they run over, how they are grouped into dimensions, and which of these are
/// reduced.
fn random_case() -> impl Strategy<Value = Case> {
    let shard = (prop::sample::select(vec![2usize, 2, 4, 3, 5]), any::<bool>(), any::<bool>(), any::<bool>());
    let shards = prop::collection::vec(shard, 1..6);
    (shards, any::<u64>(), prop::sample::select(vec![F32, F16, I32])).prop_map(|(shards, seed, element)| {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut lanes, mut registers) = (1, 1);
        // Strides are given in a random order, so that neither lanes nor registers are in the elements' order.
        let mut order: Vec<usize> = (0..shards.len()).collect();
        random.shuffle(&mut order);
        let mut iters = vec![(1, 1, Memory); shards.len()];
        for &i in &order {
            let (extent, along_lanes, ..) = shards[i];
            if along_lanes && extent.is_power_of_two() && lanes * extent <= 32 {
                iters[i] = (extent, lanes, Lane);
                lanes *= extent;
            } else {
                iters[i] = (extent, registers, Memory);
                registers *= extent + random.usize(0..2);
            }
        }
        let (mut shape, mut reduced): (Vec<usize>, Vec<bool>) = (Vec::new(), Vec::new());
        for (extent, _, joins, is_reduced) in &shards {
            match shape.last_mut() {
                Some(last) if *joins => *last *= extent,
                _ => {
                    shape.push(*extent);
                    reduced.push(*is_reduced);
                }
            }
        }
        // The destination has the shards of the dimensions that are kept, with its own registers.
        let (mut kept, mut replicas, mut own, mut dimension) = (Vec::new(), Vec::new(), 1, 0);
        let mut covered = 1;
        for iter in &iters {
            if covered == shape[dimension] {
                dimension += 1;
                covered = 1;
            }
            covered *= iter.0;
            match (reduced[dimension], iter.2) {
                (true, Lane) => replicas.push(*iter),
                (true, _) => {}
                (false, Lane) => kept.push(*iter),
                (false, _) => {
                    kept.push((iter.0, own, Memory));
                    own *= iter.0;
                }
            }
        }
        let to: Vec<usize> = shape.iter().zip(&reduced).map(|(n, reduced)| if *reduced { 1 } else { *n }).collect();
        let axes: Vec<isize> = (0..shape.len()).filter(|&d| reduced[d]).map(|d| d as isize).collect();
        let variant = if replicas.is_empty() { "local.view" } else { "local.warp" };
        let offset = random.usize(0..3);
        let source = TileLayout::shards(iters).offset(offset, Memory);
        let destination = TileLayout::shards(kept).replicas(replicas);
        warp_case(local("A", element, &shape, source), local("B", element, &to, destination), &axes, variant)
    })
}

/// Shared memory of any shape with gaps between rows, reduced over any axes by any block.
fn random_shared_case() -> impl Strategy<Value = Case> {
    let dimension = (1..12usize, any::<bool>(), 0..3usize);
    let block = prop_oneof![
        (1..200u32).prop_map(|x| [x, 1, 1]),
        [1..12u32, 1..9u32, 1..4u32],
        Just([32, 4, 1]),
        Just([64, 4, 1]),
    ];
    (prop::collection::vec(dimension, 1..5), block, prop::sample::select(vec![F32, F16, I64])).prop_map(
        |(dimensions, block, element)| {
            let layout = |shape: &[usize], gaps: &[usize]| {
                let mut stride = 1;
                let mut shards: Vec<_> = shape
                    .iter()
                    .zip(gaps)
                    .rev()
                    .map(|(&extent, gap)| {
                        let shard = (extent, stride, Memory);
                        stride *= extent + gap;
                        shard
                    })
                    .collect();
                shards.reverse();
                TileLayout::shards(shards)
            };
            let (shape, gaps): (Vec<usize>, Vec<usize>) = dimensions.iter().map(|(n, _, gap)| (*n, *gap)).unzip();
            let to: Vec<usize> = dimensions.iter().map(|(n, reduced, _)| if *reduced { 1 } else { *n }).collect();
            let buffer = |name, shape: &[usize], gaps: &[usize]| {
                TileBuffer::new(name, element, Shared, shape, layout(shape, gaps)).expect("valid")
            };
            let axes: Vec<isize> = (0..shape.len()).filter(|&d| dimensions[d].1).map(|d| d as isize).collect();
            let threads: u32 = block.iter().product();
            let elements: usize = axes.iter().map(|&d| shape[d as usize]).product();
            let outputs: usize = to.iter().product();
            let whole = 64 * outputs <= threads as usize && elements >= 2 * threads as usize;
            let (scope, who) = match threads % 128 {
                0 if threads > 128 => (Warpgroup, 1),
                0 => (Warp, 2),
                _ => (Cta, 0),
            };
            let variant = if whole && scope == Cta { "shared.block" } else { "shared" };
            let (source, destination) = (buffer("A", &shape, &gaps), buffer("B", &to, &[gaps, vec![1]].concat()[1..]));
            Case { scope, source, destination, axes, thread_reduce: false, block, who, variant }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(16), max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn random_layouts(case in random_case()) {
        if let Some(device) = super::device("reduction::random_layouts") {
            case.check(&device);
        }
    }

    #[test]
    fn random_shared_memory(case in random_shared_case()) {
        if let Some(device) = super::device("reduction::random_shared_memory") {
            case.check(&device);
        }
    }
}
