//! Programs as they occur in practice — products, convolutions, pools, softmaxes, stencils, recurrent cells — with the
//! schedules that people write for them: idioms with random parameters, several after each other. The expected results
//! are computed by plain loops here, and not by any lowered program.

mod idioms;
mod maps;
mod products;
mod recurrences;
mod reductions;
mod script;
mod windows;

use epilogue::ElementType;
use epilogue::te::{self, Expr, TeError, Tensor, var};
use fastrand::Rng;

use self::script::Script;
use crate::case::{Numbers, lacks_nvrtc};
use crate::schedule::replay::World;
use crate::schedule::trial::{Case, Generator, MakeIntrinsic, check_all, element_of};

pub(crate) const GENERATOR: Generator = Generator {
    name: "programs",
    kinds: || PROGRAMS.iter().map(|program| program.0).collect(),
    case: |kind, random| {
        let (name, make) = PROGRAMS[kind];
        let symbolic = random.u32(..3);
        let mut case = make(&mut Dice { random, symbolic, inputs: Vec::new() })?;
        case.name = name;
        Ok(case)
    },
    schedule: |world: &mut World<'_>, random| Script::new(world, random).write(),
};

type Program = (&'static str, fn(&mut Dice<'_>) -> Result<Case, TeError>);

const PROGRAMS: [Program; 28] = [
    ("a map in three steps with broadcasts", maps::broadcasts),
    ("a diamond: two readers of one, and one of both", maps::diamond),
    ("flattened, turned and cut", maps::reshaped),
    ("joined, padded and taken in strides", maps::joined),
    ("looked up by index", maps::looked_up),
    ("several results of one computation", maps::several),
    ("masks", maps::masks),
    ("enlarged, and pixels shuffled", maps::enlarged),
    ("matrix product, bias and rectifier", products::dense),
    ("batched product with a factor", products::batched),
    ("product after product", products::chained),
    ("product of an intrinsic", products::tensorized),
    ("factored by an intrinsic", products::elementwise),
    ("sums of rows and of all", reductions::sums),
    ("softmax without exponentials", reductions::shifted),
    ("mean and variance together", reductions::moments),
    ("the place of the largest", reductions::place_of_largest),
    ("sums up to the diagonal", reductions::triangle),
    ("counts by class", reductions::counts),
    ("order-keeping composition of affine maps", reductions::composition),
    ("convolution over padding", windows::convolution),
    ("depthwise convolution, dilated", windows::depthwise),
    ("pools that overlap", windows::pools),
    ("stencil after stencil", windows::stencils),
    ("transposed convolution", windows::transposed),
    ("running sums", recurrences::running_sums),
    ("a cell of several stages", recurrences::cell),
    ("two states that read each other", recurrences::two_states),
];

/// An extent: in the computation, and its value in this run.
#[derive(Clone)]
struct Size {
    text: Expr,
    is: usize,
}

/// Random choices for a program.
struct Dice<'r> {
    random: &'r mut Rng,
    /// How many of two extents are variables.
    symbolic: u32,
    inputs: Vec<(Tensor, Numbers)>,
}

impl Dice<'_> {
    /// An extent, which may be a variable: it must be that of an input.
    fn size(&mut self, name: &str, least: usize) -> Size {
        let is = match self.random.u32(..16) {
            0 => 0,
            1 | 2 => 1,
            3 => [4, 8, 16][self.random.usize(..3)],
            _ => self.random.usize(2..14),
        };
        let is = is.max(least);
        let symbolic = self.random.u32(..2) < self.symbolic;
        Size { text: if symbolic { var(name).into() } else { is.into() }, is }
    }

    /// A constant.
    fn fixed(&mut self, least: usize, most: usize) -> Size {
        let is = self.random.usize(least..=most);
        Size { text: is.into(), is }
    }

    fn number(&mut self, least: usize, most: usize) -> (i32, usize) {
        let is = self.random.usize(least..=most);
        (i32::try_from(is).expect("a small number"), is)
    }

    /// A type in which small integers are exact.
    fn element(&mut self) -> ElementType {
        [ElementType::I32, ElementType::F32, ElementType::I64, ElementType::F64][self.random.usize(..4)]
    }

    fn integer(&mut self) -> ElementType {
        [ElementType::I32, ElementType::I64][self.random.usize(..2)]
    }

    /// An input of small integers.
    fn input<const N: usize>(&mut self, name: &str, element: ElementType, sizes: [&Size; N]) -> Input {
        self.input_of(name, element, sizes, |random| f64::from(random.i32(-3..=4)))
    }

    /// An input with the given numbers.
    fn input_of<const N: usize>(
        &mut self,
        name: &str,
        element: ElementType,
        sizes: [&Size; N],
        number: impl Fn(&mut Rng) -> f64,
    ) -> Input {
        let tensor = te::placeholder_of(element, sizes.map(|size| size.text.clone()), name);
        let shape = sizes.map(|size| size.is);
        let values = (0..shape.iter().product()).map(|_| number(self.random)).collect();
        let numbers = Numbers::new(element, &shape, values);
        self.inputs.push((tensor.clone(), numbers.clone()));
        Input { tensor, grid: Grid(numbers) }
    }

    /// The program: its stages, consumers last, and the expected outputs.
    fn case(&mut self, stages: Vec<Tensor>, outputs: Vec<(Tensor, Grid)>) -> Case {
        let wanted = |(tensor, grid): (Tensor, Grid)| {
            let numbers = Numbers { element: element_of(&tensor), ..grid.0 };
            (tensor, numbers)
        };
        Case {
            name: "",
            inputs: std::mem::take(&mut self.inputs),
            stages,
            outputs: outputs.into_iter().map(wanted).collect(),
            intrinsic: None,
        }
    }

    fn case_with(&mut self, stages: Vec<Tensor>, outputs: Vec<(Tensor, Grid)>, intrinsic: Box<MakeIntrinsic>) -> Case {
        Case { intrinsic: Some(intrinsic), ..self.case(stages, outputs) }
    }
}

/// An input with its numbers.
struct Input {
    tensor: Tensor,
    grid: Grid,
}

impl Input {
    fn at(&self, indices: impl te::Indices) -> Expr {
        self.tensor.at(indices)
    }
}

/// Numbers, by their indices.
#[derive(Clone)]
struct Grid(Numbers);

impl Grid {
    /// The numbers that a function gives for every index.
    fn of<const N: usize>(shape: [usize; N], mut value: impl FnMut([usize; N]) -> f64) -> Self {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|flat| {
            let mut rest = flat;
            let mut at = [0; N];
            for d in (0..N).rev() {
                at[d] = rest % shape[d];
                rest /= shape[d];
            }
            value(at)
        });
        let values = values.collect();
        Self(Numbers::new(ElementType::F64, &shape, values))
    }

    fn at<const N: usize>(&self, at: [usize; N]) -> f64 {
        let shape = &self.0.shape;
        assert!(shape.len() == N && at.iter().zip(shape).all(|(i, n)| i < n), "{at:?} of {shape:?}");
        self.0.values[at.iter().zip(shape).fold(0, |flat, (i, n)| flat * n + i)]
    }

    /// The number at an index; 0 outside.
    fn or_zero<const N: usize>(&self, at: [i64; N]) -> f64 {
        let inside: Option<Vec<usize>> = at.iter().map(|i| usize::try_from(*i).ok()).collect();
        match inside.filter(|at| at.iter().zip(&self.0.shape).all(|(i, n)| i < n)) {
            Some(at) => self.at::<N>(at.try_into().expect("N indices")),
            None => 0.0,
        }
    }

    fn set<const N: usize>(&mut self, at: [usize; N], value: f64) {
        let flat = at.iter().zip(&self.0.shape).fold(0, |flat, (i, n)| flat * n + i);
        self.0.values[flat] = value;
    }
}

#[test]
fn of_the_field() {
    check_all(&GENERATOR, 300, 0);
}

#[test]
fn of_the_field_on_an_emulated_gpu() {
    if !lacks_nvrtc("programs::of_the_field_on_an_emulated_gpu") {
        check_all(&GENERATOR, 60, 1000);
    }
}
