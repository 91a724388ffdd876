//! A plan is kept, shared and sent with its type as written: it has no lifetime, although each run borrows.

use std::sync::OnceLock;

use epilogue::prelude::*;
use epilogue::{Borrowed, Error};

/// D = gelu(alpha * A·B + C)
#[epilogue]
fn bias_gelu(accum: Accum, c: Tensor, alpha: Scalar) -> Tensor {
    let d = gelu(alpha * accum + c);
    d
}

/// A function whose struct has the name of the struct's own parameter.
#[epilogue]
fn f(accum: Accum, c: Tensor) -> Tensor {
    let d = accum + c;
    d
}

static PLAN: OnceLock<Gemm<BiasGelu>> = OnceLock::new();

struct Layer {
    weights: DeviceTensor,
    c: DeviceTensor,
    gemm: Gemm<BiasGelu>,
    sum: Option<Gemm<F>>,
}

impl Layer {
    fn new(device: &Device) -> Result<Self, Error> {
        let x = device.full::<f32>([2, 3], 1.0)?;
        let (weights, c) = (device.full::<f32>([3, 4], 2.0)?, device.full::<f32>([2, 4], 1.0)?);
        let gemm = Gemm::plan::<BiasGelu>(device, &x, &weights)?;
        let sum = Some(Gemm::plan::<F>(device, &x, &weights)?);
        Ok(Self { weights, c, gemm, sum })
    }

    fn arguments<'a>(&'a self, d: &'a mut DeviceTensor) -> BiasGelu<Borrowed<'a>> {
        BiasGelu { c: &self.c, d, alpha: 0.5 }
    }

    fn run(&self, x: &DeviceTensor, d: &mut DeviceTensor) -> Result<(), Error> {
        self.gemm.run(x, &self.weights, self.arguments(d))
    }
}

fn run(gemm: &Gemm<BiasGelu>, layer: &Layer, x: &DeviceTensor, d: &mut DeviceTensor) -> Result<(), Error> {
    gemm.run(x, &layer.weights, BiasGelu { d, alpha: 0.5, c: &layer.c })
}

#[test]
fn a_plan_is_kept_as_its_type_is_written() -> Result<(), Error> {
    let device = Device::cpu();
    let layer = Layer::new(&device)?;
    let x = device.full::<f32>([2, 3], 1.0)?;
    // 0.5 * (3 products of 1 and 2) + 1.
    let expected = vec![gelu(4.0); 8];

    let mut d = device.zeros::<f32>([2, 4])?;
    layer.run(&x, &mut d)?;
    assert_eq!(d.to_vec::<f32>()?, expected);

    let kept = PLAN.get_or_init(|| layer.gemm.clone());
    let mut d = device.zeros::<f32>([2, 4])?;
    run(kept, &layer, &x, &mut d)?;
    assert_eq!(d.to_vec::<f32>()?, expected);

    let arguments = BiasGelu { c: &layer.c, d: &mut d, alpha: 0.0 };
    assert!(format!("{arguments:?}").starts_with("BiasGelu { c: "));
    kept.run(&x, &layer.weights, arguments)?;
    assert_eq!(d.to_vec::<f32>()?, vec![gelu(1.0); 8]);

    let sent = std::thread::spawn(move || {
        let (x, mut d) = (device.full::<f32>([2, 3], 1.0)?, device.zeros::<f32>([2, 4])?);
        layer.run(&x, &mut d)?;
        assert_eq!(d.to_vec::<f32>()?, vec![gelu(4.0); 8]);
        if let Some(sum) = &layer.sum {
            sum.run(&x, &layer.weights, F { c: &layer.c, d: &mut d })?;
        }
        d.to_vec::<f32>().map_err(Error::from)
    });
    assert_eq!(sent.join().expect("no panic")?, vec![7.0; 8]);
    Ok(())
}
