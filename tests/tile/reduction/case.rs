//! One reduction, executed and compared with a loop on the host.

use std::collections::HashMap;

use epilogue::ElementType;
use epilogue::ElementType::{BF16, F16, F32, F64, I32, I64};
use epilogue::tile::ExecutionScope::{self};
use epilogue::tile::MemoryScope::{Local, Shared};
use epilogue::tile::TileOp::{Max, Min, Sum};
use epilogue::tile::{Place, TileBuffer, TileOp, TileReduction, headers};
use epilogue_runtime::{Device, KernelArgument, Launch, Source};
use half::{bf16, f16};

pub(super) const OPS: [TileOp; 3] = [Sum, Max, Min];

/// A reduction with every operation, with and without the old value.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) scope: ExecutionScope,
    pub(super) source: TileBuffer,
    pub(super) destination: TileBuffer,
    pub(super) axes: Vec<isize>,
    pub(super) thread_reduce: bool,
    pub(super) block: [u32; 3],
    /// Which of the scope's groups executes it; for registers, all do.
    pub(super) who: usize,
    pub(super) variant: &'static str,
}

impl Case {
    pub(super) fn reduction(&self, op: TileOp, accumulate: bool) -> TileReduction {
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

    pub(super) fn source_text(&self) -> Source {
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
    pub(super) fn check(&self, device: &Device) {
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

    pub(super) fn run(&self, device: &Device, input: &[f64], old: &[f64]) -> Vec<f64> {
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
