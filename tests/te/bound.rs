//! Arguments by tensor: in any order, each once, and no others.

use epilogue::te::{self, Array, RunError, TeError, Tensor};
use epilogue::{Argument, Device};

struct Case {
    x: Tensor,
    y: Tensor,
    z: Tensor,
}

/// `z[i] = x[i] - sum(y)`: `y` is used first.
fn case() -> Result<Case, TeError> {
    let (x, y) = (te::placeholder([4], "x"), te::placeholder([4], "y"));
    let k = te::reduce_axis((0, 4), "k");
    let total = te::compute((), "total", |[]| te::sum(y.at([k]), [k]))?;
    let z = te::compute([4], "z", |[i]| x.at([i]) - total.at(()))?;
    Ok(Case { x, y, z })
}

const X: [f32; 4] = [10.0, 20.0, 30.0, 40.0];
const Y: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
const Z: [f32; 4] = [0.0, 10.0, 20.0, 30.0];

/// A kernel's `run_bound`.
type Run<'a> = &'a dyn Fn(&[(&Tensor, Argument<'_>)]) -> Result<(), TeError>;

/// Runs with the arguments in every order, and with wrong ones.
fn check(case: &Case, run: Run<'_>) -> Result<(), TeError> {
    let device = Device::cpu();
    let (x, y, mut z) = (device.tensor(&X, [4])?, device.tensor(&Y, [4])?, device.zeros::<f32>([4])?);
    run(&[(&case.x, (&x).into()), (&case.y, (&y).into()), (&case.z, (&mut z).into())])?;
    assert_eq!(z.to_vec::<f32>()?, Z);
    let mut z = device.zeros::<f32>([4])?;
    run(&[(&case.z, (&mut z).into()), (&case.y, (&y).into()), (&case.x, (&x).into())])?;
    assert_eq!(z.to_vec::<f32>()?, Z);

    let mut z = device.zeros::<f32>([4])?;
    let error = run(&[(&case.z, (&mut z).into()), (&case.x, (&x).into())]).expect_err("y is missing");
    assert!(matches!(&error, TeError::Run(RunError::Argument { tensor, .. }) if tensor == "y"), "{error}");
    let given = [(&case.z, (&mut z).into()), (&case.x, (&x).into()), (&case.y, (&y).into()), (&case.y, (&y).into())];
    let error = run(&given).expect_err("y is given twice");
    assert!(error.to_string().contains("y: it is given twice"), "{error}");
    let stranger = te::placeholder([4], "w");
    let given = [(&case.z, (&mut z).into()), (&case.x, (&x).into()), (&stranger, (&y).into())];
    let error = run(&given).expect_err("w is nobody's");
    assert!(error.to_string().contains("argument w: "), "{error}");
    let error = run(&[(&case.z, (&z).into()), (&case.x, (&x).into()), (&case.y, (&y).into())]).expect_err("z is read");
    assert!(error.to_string().contains("argument z: "), "{error}");
    assert_eq!(z.to_vec::<f32>()?, [0.0; 4], "nothing is written on error");
    Ok(())
}

#[test]
fn automatic_kernels() -> Result<(), TeError> {
    let case = case()?;
    let kernel = te::auto::reduce(&case.z)?.build(&Device::cpu())?;
    check(&case, &|arguments| kernel.run_bound(arguments))?;
    let kernel = te::auto::build(&[&case.z])?.build(&Device::cpu())?;
    assert_eq!((kernel.inputs().len(), kernel.outputs()), (2, std::slice::from_ref(&case.z)));
    check(&case, &|arguments| kernel.run_bound(arguments))
}

#[test]
fn automatic_scans() -> Result<(), TeError> {
    let (x, decay) = (te::placeholder([4], "x"), te::placeholder([4], "decay"));
    let state = te::placeholder([4], "state");
    let init = te::compute([1], "init", |[t]| x.at([t]))?;
    let update = te::compute([4], "update", |[t]| decay.at([t]) * state.at([t - 1]) + x.at([t]))?;
    let y = te::scan(&init, &update, &state, &[x.clone(), decay.clone()])?;
    let device = Device::cpu();
    let kernel = te::auto::build(&[&y])?.build(&device)?;
    let (xs, decays) = (device.tensor(&[1f32; 4], [4])?, device.tensor(&[2f32; 4], [4])?);
    let mut ys = device.zeros::<f32>([4])?;
    kernel.run_bound(&[(&y, (&mut ys).into()), (&x, (&xs).into()), (&decay, (&decays).into())])?;
    assert_eq!(ys.to_vec::<f32>()?, [1.0, 3.0, 7.0, 15.0]);
    Ok(())
}

#[test]
fn scheduled_programs() -> Result<(), TeError> {
    let case = case()?;
    let program = te::lower(&te::create_schedule(&[&case.z]), &[&case.x, &case.y, &case.z], "main")?;
    let kernel = program.build(&Device::cpu())?;
    check(&case, &|arguments| kernel.run_bound(arguments))?;
    let array = |values: [f32; 4]| Array::new(te::DType::F32, &[4], &values.map(f64::from));
    let (mut x, mut y, mut z) = (array(X)?, array(Y)?, array([0.0; 4])?);
    let error = program.interpret_bound(&mut [(&case.z, &mut z), (&case.y, &mut y)]).expect_err("x is missing");
    assert!(error.to_string().starts_with("argument x: nothing is given"), "{error}");
    program.interpret_bound(&mut [(&case.z, &mut z), (&case.y, &mut y), (&case.x, &mut x)])?;
    assert_eq!((z.values(), x.values()), (Z.map(f64::from).to_vec(), X.map(f64::from).to_vec()));
    Ok(())
}

#[test]
fn native_functions() -> Result<(), TeError> {
    use epilogue::te::native::{HostTensor, compile};
    let case = case()?;
    let program = te::lower(&te::create_schedule(&[&case.z]), &[&case.x, &case.y, &case.z], "main")?;
    let kernel = compile(&program)?;
    let mut z = [0f32; 4];
    let read = |values| HostTensor::read(values, &[4]);
    let error = kernel.run_bound(vec![(&case.y, read(&Y)?), (&case.x, read(&X)?)]).expect_err("z is missing");
    assert!(error.to_string().starts_with("argument z: nothing is given"), "{error}");
    let output = HostTensor::write(&mut z, &[4])?;
    kernel.run_bound(vec![(&case.z, output), (&case.y, read(&Y)?), (&case.x, read(&X)?)])?;
    assert_eq!(z, Z);
    Ok(())
}

/// One call for whatever is asked for.
#[test]
fn kinds_are_found() -> Result<(), TeError> {
    let x = te::placeholder([4, 4], "x");
    let map = te::compute([4, 4], "map", |[i, j]| x.at([i, j]) * 2)?;
    let flat = te::compute([4], "flat", |[i]| x.at([i, i]) + 1)?;
    let (sum, scan) = (te::ops::sum(&x, [1])?, te::ops::cumsum(&x, 0)?);
    let after = te::compute([4, 4], "after", |[i, j]| scan.at([i, j]) + sum.at([i]))?;
    let device = Device::cpu();
    let xs = device.tensor(&(0..16).map(|i| i as f32).collect::<Vec<_>>(), [4, 4])?;
    let value = |tensor: &Tensor, i: usize, j: usize| -> f32 {
        let at = |i: usize, j: usize| (4 * i + j) as f32;
        let scanned: f32 = (0..=i).map(|t| at(t, j)).sum();
        let summed: f32 = (0..4).map(|k| at(i, k)).sum();
        match tensor.name().as_str() {
            "map" => at(i, j) * 2.0,
            "flat" => at(i, i) + 1.0,
            "after" => scanned + summed,
            _ if *tensor == sum => summed,
            _ => scanned,
        }
    };
    for outputs in [
        vec![&map],
        vec![&sum],
        vec![&scan],
        vec![&map, &flat],
        vec![&flat, &sum, &map],
        vec![&scan, &flat],
        vec![&after],
        vec![&map, &sum, &scan, &after, &flat],
    ] {
        let kernel = te::auto::build(&outputs)?.build(&device)?;
        let extents = |tensor: &Tensor| vec![4; tensor.rank()];
        let mut made =
            outputs.iter().map(|t| Ok(device.zeros::<f32>(extents(t))?)).collect::<Result<Vec<_>, TeError>>()?;
        let mut arguments: Vec<(&Tensor, Argument<'_>)> = vec![(&x, (&xs).into())];
        arguments.extend(outputs.iter().copied().zip(made.iter_mut().map(Argument::from)));
        kernel.run_bound(&arguments)?;
        drop(arguments);
        for (tensor, made) in outputs.iter().zip(&made) {
            let wanted: Vec<f32> = if tensor.rank() == 1 {
                (0..4).map(|i| value(tensor, i, 0)).collect()
            } else {
                (0..16).map(|i| value(tensor, i / 4, i % 4)).collect()
            };
            assert_eq!(made.to_vec::<f32>()?, wanted, "{}: {}", tensor.name(), kernel.choice());
        }
    }
    assert!(
        te::auto::build(&[]).is_err() && te::auto::build(&[&x]).is_err() && te::auto::build(&[&map, &map]).is_err()
    );
    Ok(())
}
