//! `element`: an epilogue called as a function, as unit tests do; and every macro inside a function.

use epilogue::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const LIMIT: f32 = 2.5;

/// Every kind of parameter and output that has a value of its own for each element.
#[epilogue]
fn mixed(
    gate: Accum,
    up: Accum,
    total: TensorMut,
    bias: RowVector<bf16>,
    keep: Tensor<bool>,
    alpha: Scalar,
) -> (TensorMut, Tensor<bool>, Tensor) {
    total += gate.max(0.0) * up;
    let large = total > LIMIT || !keep;
    let d = if large { LIMIT } else { alpha * total + bias.exp() };
    (total, large, d)
}

#[test]
fn an_epilogue_is_called_as_a_function() {
    assert_eq!(Mixed::element(2.0, 0.5, 1.0, 0.0, true, 3.0), (2.0, false, 7.0));
    assert_eq!(Mixed::element(2.0, 0.5, 1.0, 0.0, false, 3.0), (2.0, true, LIMIT));
    assert_eq!(Mixed::element(-2.0, 0.5, 3.0, 0.0, true, 3.0), (3.0, true, LIMIT));
}

/// The function gives what a run gives, element by element.
#[test]
fn a_run_gives_the_same() -> Outcome {
    let device = Device::cpu();
    #[epilogue]
    fn activated(accum: Accum, c: Tensor, alpha: Scalar) -> Tensor {
        let d = (alpha * accum + c).gelu();
        d
    }
    let (a, b) = (device.tensor(&[1f32, -2.0, 0.5], [3, 1])?, device.tensor(&[1f32, 3.0], [1, 2])?);
    let c: Vec<f32> = vec![0.25, -1.0, 4.0, 0.0, -0.5, 1.5];
    let mut d = device.zeros::<f32>([3, 2])?;
    let given = device.tensor(&c, [3, 2])?;
    Gemm::plan::<Activated>(&device, &a, &b)?.run(&a, &b, Activated { c: &given, alpha: 0.5, d: &mut d })?;
    let product = [1.0, 3.0, -2.0, -6.0, 0.5, 1.5];
    for ((d, accum), c) in d.to_vec::<f32>()?.into_iter().zip(product).zip(c) {
        let expected = Activated::element(accum, c, 0.5);
        assert!((d - expected).abs() <= 4.0 * f32::EPSILON * expected.abs().max(1.0), "{d} {expected}");
    }
    Ok(())
}

/// Items inside a function see the function's own items.
#[test]
fn every_macro_stands_inside_a_function() -> Outcome {
    const HALF: f32 = 0.5;

    #[elementwise]
    fn halved(x: f32) -> f32 {
        HALF * x
    }

    #[epilogue(backward(name = Slope))]
    fn small(accum: Accum) -> Tensor {
        let d = halved(accum) + HALF;
        d
    }

    let value = epilogue::closure!(|accum| {
        let d = halved(accum) - HALF;
        d
    });
    let device = Device::cpu();
    let (a, b) = (device.tensor(&[2f32], [1, 1])?, device.tensor(&[3f32], [1, 1])?);
    let mut d = device.zeros::<f32>([1, 1])?;
    Gemm::plan_for(&device, &a, &b, &value)?.run(&a, &b, value.d(&mut d))?;
    assert_eq!(d.to_vec::<f32>()?, [2.5]);
    assert_eq!(Small::element(6.0), 3.5);
    Gemm::plan::<Slope>(&device, &a, &b)?.run(&a, &b, Slope { d_accum: &mut d })?;
    assert_eq!(d.to_vec::<f32>()?, [3.0]);
    Ok(())
}
