//! Every macro with `crate = path`, of a renamed and of a re-exported library, down to the results on the CPU.

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A module with every macro, for a library at this path.
macro_rules! every_macro {
    ($module:ident, $($library:tt)+) => {
        mod $module {
            use $($library)+::prelude::*;
            use $($library)+::closure;

            #[elementwise(crate = $($library)+)]
            fn twice_positive(x: f32) -> f32 {
                2.0 * x.max(0.0)
            }

            /// The sum of the squares' roots.
            #[reducer(crate = $($library)+)]
            mod total {
                const IDENTITY: f32 = 0.0;

                fn lift(x: f32) -> f32 {
                    sqrt(x * x)
                }

                fn combine(a: f32, b: f32) -> f32 {
                    a + b
                }

                fn finish(s: f32) -> f32 {
                    s
                }
            }

            #[epilogue(crate = $($library)+, backward(gradients(c), name = Back))]
            fn forward(accum: Accum, c: Tensor, alpha: Scalar) -> Tensor {
                let d = alpha * accum + c.tanh();
                d
            }

            #[epilogue(crate = $($library)+)]
            fn others(accum: Accum, seed: Seed, labels: ColumnVector<i32>) -> (Tensor<f32>, ColumnVector, ColumnVector) {
                let kept = if random(seed) < 2.0 && column() != integer(labels) { accum } else { 0.0 };
                let d = kept.cast::<f16>() - accum.min(f32::INFINITY);
                let own = reduction_op(accum, Row, total);
                let mean = reduction_op(accum, Row, Mean);
                (d, own, mean)
            }

            #[test]
            fn every_macro_runs() -> super::Outcome {
                let device = Device::cpu();
                let a = device.tensor(&[1f32, -2.0], [2, 1])?;
                let b = device.tensor(&[1f32, 3.0], [1, 2])?;
                let c = device.zeros::<f32>([2, 2])?;
                let mut d = device.zeros::<f32>([2, 2])?;
                let gemm = Gemm::plan::<Forward>(&device, &a, &b)?;
                gemm.run(&a, &b, Forward { alpha: 0.5, c: &c, d: &mut d })?;
                assert_eq!(d.to_vec::<f32>()?, [0.5, 1.5, -1.0, -3.0]);
                assert_eq!(Forward::element(1.0, 0.0, 0.5), 0.5);

                let (mut d_accum, mut d_c) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2, 2])?);
                let gemm = Gemm::plan::<Back>(&device, &a, &b)?;
                gemm.run(&a, &b, Back { c: &c, alpha: 0.5, d_accum: &mut d_accum, d_c: &mut d_c })?;
                assert_eq!(d_accum.to_vec::<f32>()?, [0.5, 1.5, -1.0, -3.0]);
                assert_eq!(d_c.to_vec::<f32>()?, [1.0, 3.0, -2.0, -6.0]);

                let (mut d, mut own, mut mean) =
                    (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2])?, device.zeros::<f32>([2])?);
                let labels = device.tensor(&[7i32, 0], [2])?;
                let gemm = Gemm::plan::<Others>(&device, &a, &b)?;
                let (seed, labels) = (Seed::new(7), &labels);
                gemm.run(&a, &b, Others { seed, labels, d: &mut d, own: &mut own, mean: &mut mean })?;
                assert_eq!(d.to_vec::<f32>()?, [0.0, 0.0, 2.0, 0.0]);
                assert_eq!(own.to_vec::<f32>()?, [4.0, 8.0]);
                assert_eq!(mean.to_vec::<f32>()?, [2.0, -4.0]);

                let value = closure!(crate = $($library)+, |accum, bias: RowVector, alpha: Scalar| {
                    let d: Tensor<f32> = alpha * twice_positive(accum) + bias;
                    d
                });
                let bias = device.tensor(&[10f32, 20.0], [2])?;
                let gemm = Gemm::plan_for(&device, &a, &b, &value)?;
                gemm.run(&a, &b, value.alpha(1.0).bias(&bias).d(&mut d))?;
                assert_eq!(d.to_vec::<f32>()?, [12.0, 26.0, 10.0, 20.0]);
                Ok(())
            }
        }
    };
}

every_macro!(renamed, gemm_library);
every_macro!(re_exported, ::epilogue_renamed::parts::fused);
every_macro!(of_this_crate, crate::own::library);

mod own {
    pub(crate) use gemm_library as library;
}

/// A macro of the other crate names its own path to the library.
#[test]
fn a_macro_of_another_crate_makes_epilogues() -> Outcome {
    epilogue_renamed::bias_relu!(BiasRelu);
    use epilogue_renamed::parts::fused::{Device, Gemm};
    let device = Device::cpu();
    let (a, b) = (device.full::<f32>([1, 2], 1.0)?, device.full::<f32>([2, 2], 1.0)?);
    let bias = device.tensor(&[-5f32, 5.0], [2])?;
    let mut d = device.zeros::<f32>([1, 2])?;
    Gemm::plan::<BiasRelu>(&device, &a, &b)?.run(&a, &b, BiasRelu { bias: &bias, d: &mut d })?;
    assert_eq!(d.to_vec::<f32>()?, [0.0, 7.0]);
    assert_eq!(BiasRelu::element(1.0, 2.0), 3.0);
    Ok(())
}
