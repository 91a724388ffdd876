//! Random scales of the operands' blocks.

use epilogue::evt::random::{self, Choices};
use epilogue::evt::reference::{Array, Scales};
use epilogue::gemm::{Right, scaled};
use epilogue::{Device, DeviceTensor, ElementType, runtime};

use crate::placement::{Placed, Placement};

/// The scales of A, and of every B, with their values.
pub(crate) struct Scaling {
    pub(crate) a: (Placed, Vec<f64>),
    b: Vec<(Placed, Vec<f64>)>,
}

impl Scaling {
    /// For an A and B of these shapes.
    pub(crate) fn random(
        device: &Device,
        a: &[usize],
        b: &[&[usize]],
        choices: &mut Choices<'_>,
    ) -> Result<Self, runtime::Error> {
        let mut placed = |shape: &[usize], block: [usize; 2]| {
            let mut shape = shape.to_vec();
            let matrix = shape.len() - 2;
            shape[matrix..].iter_mut().zip(block).for_each(|(extent, block)| *extent = extent.div_ceil(block));
            let mut values = random::values(choices, ElementType::F32, shape.iter().product());
            if choices.once_in(3) {
                // Subnormal numbers, and those whose products are.
                values.iter_mut().skip(1).step_by(2).for_each(|x| *x = f64::from(*x as f32 * 1e-39));
            }
            let tensor = Placed::new(device, ElementType::F32, &shape, &values, Placement::any(choices))?;
            Ok((tensor, values))
        };
        let a = placed(a, [1, 128])?;
        let b = b.iter().map(|b| placed(b, [128, 128])).collect::<Result<_, runtime::Error>>()?;
        Ok(Self { a, b })
    }

    /// The scales of A and of a B, for the reference.
    pub(crate) fn of(&self, accumulator: usize) -> Scales<'_> {
        Scales { a: array(&self.a), b: array(&self.b[accumulator]) }
    }

    /// Every B with its scales.
    pub(crate) fn right<'a>(&'a self, b: &[&'a DeviceTensor]) -> Right<'a> {
        let all = b.iter().zip(&self.b).map(|(b, (placed, _))| scaled(b, &placed.view));
        Right::from(&all.collect::<Vec<_>>()[..])
    }
}

fn array((placed, values): &(Placed, Vec<f64>)) -> Array<'_> {
    let shape = placed.view.shape();
    let [rows, columns] = [2, 1].map(|from_end| shape[shape.len() - from_end] as isize);
    let batch = if shape.len() == 3 { rows * columns } else { 0 };
    Array { values, offset: 0, strides: [batch, columns, 1] }
}
