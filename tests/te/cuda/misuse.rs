//! Arguments that don't fit, and programs that can't run on a GPU: typed errors, and nothing is written.

use epilogue::te::{self, DType, Kernel, RunError, TeError};
use epilogue::{Argument, Device, ElementType};
use epilogue_testing::tutorial::{cross_thread, row_sums};

use crate::case::{Numbers, device, lacks_nvrtc, read};

fn kernel() -> Result<Kernel, TeError> {
    let (a, b) = row_sums()?;
    te::lower(&cross_thread(&b, 16, 4)?, &[&a, &b], "rows")?.build(device())
}

fn refused(kernel: &Kernel, arguments: &[Argument<'_>]) -> String {
    match kernel.run(arguments).expect_err("refused") {
        error @ (TeError::Run(RunError::Argument { .. }) | TeError::Run(RunError::ArgumentCount { .. })) => {
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_arguments() -> Result<(), TeError> {
    if lacks_nvrtc("misuse::of_arguments") {
        return Ok(());
    }
    let kernel = kernel()?;
    let a = Numbers::new(ElementType::F32, &[5, 7], vec![1.0; 35]).on(device());
    let mut b = device().full([5], 9.0f32)?;
    let run = |arguments: &[Argument<'_>]| refused(&kernel, arguments);
    assert_eq!(run(&[(&a).into()]), "1 argument was given; needed are 2: A, B");
    assert_eq!(
        run(&[(&a).into(), (&b).into()]),
        "argument B: it is written; pass it as an output (`(&mut tensor).into()`)"
    );
    assert_eq!(
        run(&[(&a).into(), Argument::Scalar(1.0)]),
        "argument B: a program's arguments are tensors; a number was given"
    );
    let flat = a.reshape([35])?;
    assert_eq!(run(&[(&flat).into(), (&mut b).into()]), "argument A: 2 dimensions are needed, 1 were given");
    let half = Numbers::new(ElementType::F16, &[5, 7], vec![1.0; 35]).on(device());
    assert_eq!(run(&[(&half).into(), (&mut b).into()]), "argument A: elements of type f32 are needed, f16 were given");
    let mut short = device().zeros::<f32>([4])?;
    assert_eq!(run(&[(&a).into(), (&mut short).into()]), "argument B: dimension 0 is n, which is 5 here; 4 was given");
    let mut repeated = device().zeros::<f32>([1])?.broadcast_to([5])?;
    assert_eq!(
        run(&[(&a).into(), (&mut repeated).into()]),
        "argument B: it is written, but some of its elements share memory"
    );
    let mut column = a.slice(1, 2..3)?.reshape([5])?;
    assert_eq!(run(&[(&a).into(), (&mut column).into()]), "argument B: it is written, but shares memory with A");
    let elsewhere = Device::cpu().zeros::<f32>([5, 7])?;
    assert!(run(&[(&elsewhere).into(), (&mut b).into()]).starts_with("argument A: it is on the CPU, the kernel on an"));
    assert_eq!(read(&b), [9.0; 5], "nothing was written");
    Ok(())
}

/// Any strides, repeated inputs, and empty shapes: all of them run.
#[test]
fn any_strides_and_empty_shapes() -> Result<(), TeError> {
    if lacks_nvrtc("misuse::any_strides_and_empty_shapes") {
        return Ok(());
    }
    let kernel = kernel()?;
    let a = Numbers::new(ElementType::F32, &[7, 5], (0..35).map(f64::from).collect()).on(device());
    let mut b = device().zeros::<f32>([10])?;
    let mut every_second = b.reshape([5, 2])?.slice(1, 1..2)?.reshape([5])?;
    kernel.run(&[(&a.transpose()?).into(), (&mut every_second).into()])?;
    assert_eq!(read(&b), [0.0, 105.0, 0.0, 112.0, 0.0, 119.0, 0.0, 126.0, 0.0, 133.0]);
    let repeated = device().full([1, 1], 2.5f32)?.broadcast_to([5, 40])?;
    let mut sums = device().zeros::<f32>([5])?;
    kernel.run(&[(&repeated).into(), (&mut sums).into()])?;
    assert_eq!(read(&sums), [100.0; 5]);
    let nothing = device().zeros::<f32>([5, 0])?;
    kernel.run(&[(&nothing).into(), (&mut sums).into()])?;
    assert_eq!(read(&sums), [0.0; 5], "a sum over nothing");
    let (none, mut no_sums) = (device().zeros::<f32>([0, 3])?, device().zeros::<f32>([0])?);
    kernel.run(&[(&none).into(), (&mut no_sums).into()])?;
    b = sums;
    drop(b);
    Ok(())
}

#[test]
fn of_programs() -> Result<(), TeError> {
    if lacks_nvrtc("misuse::of_programs") {
        return Ok(());
    }
    let n = te::var("n");
    let scale = te::Var::new("scale", DType::F32);
    let a = te::placeholder([n], "A");
    let scaled = te::compute([n], "B", |[i]| a.at([i]) * te::Expr::from(scale))?;
    let s = te::create_schedule(&[&scaled]);
    let error = te::lower(&s, &[&a, &scaled], "main")?.build(device()).unwrap_err();
    let text = "the size scale can't be found from the arguments: sizes are integers, and it is of type f32; read it from a \
                tensor of one element";
    assert_eq!(error.to_string(), text);
    let one = te::placeholder([1], "scale");
    let scaled = te::compute([n], "B", |[i]| a.at([i]) * one.at([0]))?;
    te::lower(&te::create_schedule(&[&scaled]), &[&a, &one, &scaled], "main")?.build(device())?;
    Ok(())
}
