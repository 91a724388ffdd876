//! The arguments of a kernel, and what it refuses.

use epilogue::te::native::{self, HostTensor};
use epilogue::te::{self, Program, TeError};
use epilogue::{Device, ElementType};
use expect_test::{Expect, expect};

use super::both::{agree, input, output};
use super::{numbers, row_sums};

fn sums() -> Program {
    let (a, b) = row_sums().unwrap();
    te::lower(&te::create_schedule(&[&b]), &[&a, &b], "sums").unwrap()
}

fn refused(result: Result<(), TeError>, message: &Expect) {
    message.assert_eq(&result.expect_err("a mistake was accepted").to_string());
}

#[test]
fn arguments_that_do_not_fit() -> Result<(), TeError> {
    let kernel = native::compile(&sums())?;
    let a = [1.0f32; 12];
    let mut b = [0.0f32; 4];
    let mut run = |shape: &[usize], results: usize| {
        let mut arguments = [HostTensor::read(&a, shape)?, HostTensor::write(&mut b[..results], &[results])?];
        kernel.run(&mut arguments)
    };
    run(&[3, 4], 3)?;
    run(&[4, 3], 4)?;
    refused(run(&[3, 4], 4), &expect!["argument B: dimension 0 is n, which is 3 here; 4 was given"]);
    refused(run(&[3, 5], 3), &expect!["argument array: the shape [3, 5] holds 15 elements, 12 were given"]);
    refused(run(&[12], 4), &expect!["argument A: 2 dimensions are needed, 1 were given"]);
    refused(kernel.run(&mut []), &expect!["0 arguments were given; needed are 2: A, B"]);
    let halves = [half::f16::ONE; 12];
    let mut arguments = [HostTensor::read(&halves, &[3, 4])?, HostTensor::write(&mut b[..3], &[3])?];
    refused(kernel.run(&mut arguments), &expect!["argument A: elements of type f32 are needed, f16 were given"]);
    let mut arguments = [HostTensor::read(&a, &[3, 4])?, HostTensor::read(&b[..3], &[3])?];
    refused(kernel.run(&mut arguments), &expect!["argument B: the kernel writes it; pass it as `HostTensor::write`"]);
    Ok(())
}

#[test]
fn strides() -> Result<(), TeError> {
    let kernel = native::compile(&sums())?;
    // Columns of a 4×3 matrix as rows, every other element of the result.
    let a: Vec<f32> = numbers(12, 1).into_iter().map(|x| x as f32).collect();
    let mut b = [9.0f32; 5];
    let mut arguments = [
        HostTensor::read(&a, &[12])?.with_strides(&[3, 4], &[1, 3])?,
        HostTensor::write(&mut b, &[5])?.with_strides(&[3], &[2])?,
    ];
    kernel.run(&mut arguments)?;
    let column = |j: usize| (0..4).fold(0.0, |sum, i| sum + a[i * 3 + j]);
    assert_eq!(b, [column(0), 9.0, column(1), 9.0, column(2)]);
    // A row repeated: read from the same memory again and again.
    let mut b = [0.0f32; 3];
    let mut arguments =
        [HostTensor::read(&a, &[12])?.with_strides(&[3, 4], &[0, 1])?, HostTensor::write(&mut b, &[3])?];
    kernel.run(&mut arguments)?;
    assert_eq!(b, [(0..4).fold(0.0, |sum, i| sum + a[i]); 3]);
    let beyond = HostTensor::read(&a, &[12])?.with_strides(&[3, 5], &[1, 3]).map(drop);
    refused(beyond, &expect!["argument array: the shape [3, 5] with strides [1, 3] reaches beyond 12 elements"]);
    let shared = HostTensor::write(&mut b, &[3])?.with_strides(&[3], &[0]).map(drop);
    refused(shared, &expect!["argument array: the shape [3] with strides [0] has two indices of one element"]);
    Ok(())
}

/// The stride of a row-major output may be a size. It is not a stride that the caller gives, so sizes of 1 count.
#[test]
fn sizes_that_are_strides_of_results() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let b = te::compute([n, m], "B", |[i, j]| a.at([i, j]) + 1.0)?;
    let c = te::compute((n * 1, m * 1), "C", |[i, j]| b.at([i, j]) * 2.0)?;
    let program = te::lower(&te::create_schedule(&[&c]), &[&c, &a], "main")?;
    let kernel = native::compile(&program)?;
    for (rows, columns) in [(3, 1), (1, 3), (1, 1), (2, 4)] {
        let given: Vec<f32> = numbers(rows * columns, 3).iter().map(|x| *x as f32).collect();
        let mut made = vec![0.0f32; rows * columns];
        let shape = [rows, columns];
        // A stride of a dimension with one index is never used.
        let strides = if rows == 1 { [50, 1] } else { [columns, 1] };
        let result = HostTensor::write(&mut made, &shape)?.with_strides(&shape, &strides)?;
        kernel.run(&mut [result, HostTensor::read(&given, &shape)?])?;
        let wanted: Vec<f32> = given.iter().map(|x| (x + 1.0) * 2.0).collect();
        assert_eq!(made, wanted, "{shape:?}");
    }
    Ok(())
}

#[test]
fn accesses_out_of_bounds() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    let b = te::compute([n], "B", |[i]| a.at([i + 1]))?;
    let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "shift")?;
    let kernel = native::compile(&program)?;
    let values = [1.0f32, 2.0, 3.0];
    let mut result = [0.0f32; 3];
    let mut arguments = [HostTensor::read(&values, &[3])?, HostTensor::write(&mut result, &[3])?];
    refused(kernel.run(&mut arguments), &expect!["A[i + 1] is element 3 of 3"]);
    Ok(())
}

#[test]
fn indices_from_memory() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let index = te::placeholder_of(ElementType::I32, [n], "I");
    let a = te::placeholder([m], "A");
    let b = te::compute([n], "B", |[i]| a.at([index.at([i])]))?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.vectorize(b.axis(0)?)?;
    let program = te::lower(&s, &[&index, &a, &b], "gather")?;
    let table = numbers(7, 2);
    let places: Vec<f64> = (0..37).map(|i| f64::from(i * 5 % 7)).collect();
    agree(
        &program,
        &[
            input(ElementType::I32, &[37], &places),
            input(ElementType::F32, &[7], &table),
            output(ElementType::F32, &[37]),
        ],
    );
    let kernel = native::compile(&program)?;
    let values = [1.0f32, 2.0];
    let mut result = [0.0f32; 3];
    for bad in [-1, 2, i32::MAX] {
        let places = [0, bad, 1];
        let mut arguments =
            [HostTensor::read(&places, &[3])?, HostTensor::read(&values, &[2])?, HostTensor::write(&mut result, &[3])?];
        let error = kernel.run(&mut arguments).expect_err("an access out of bounds was accepted");
        assert!(error.to_string().ends_with(&format!("is element {bad} of 2")), "{error}");
    }
    Ok(())
}

#[test]
fn division_by_zero() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder_of(ElementType::I32, [n], "A");
    let b = te::compute([n], "B", |[i]| a.at([i]).not_equal(3).select(te::Expr::int(60) / a.at([i]), -1))?;
    let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "divide")?;
    let values = [7.0, -7.0, 3.0, f64::from(i32::MIN), -1.0];
    agree(&program, &[input(ElementType::I32, &[5], &values), output(ElementType::I32, &[5])]);
    let mut result = [0i32; 2];
    let mut arguments = [HostTensor::read(&[1, 0], &[2])?, HostTensor::write(&mut result, &[2])?];
    let error = native::compile(&program)?.run(&mut arguments).expect_err("a division by zero was accepted");
    assert!(error.to_string().contains("divided by zero: A[i] is zero"), "{error}");
    Ok(())
}

#[test]
fn on_the_cpu_device() -> Result<(), TeError> {
    let cpu = Device::cpu();
    let kernel = sums().build(&cpu)?;
    let matrix = cpu.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    let result = cpu.zeros::<f32>([2, 2])?;
    // A column of the result: it shares memory with the other, but no element.
    let mut column = result.slice(1, 1..2)?.reshape([2])?;
    kernel.run(&[(&matrix).into(), (&mut column).into()])?;
    assert_eq!(result.to_vec::<f32>()?, [0.0, 6.0, 0.0, 15.0]);
    let transposed = matrix.transpose()?;
    let mut three = cpu.zeros::<f32>([3])?;
    kernel.run(&[(&transposed).into(), (&mut three).into()])?;
    assert_eq!(three.to_vec::<f32>()?, [5.0, 7.0, 9.0]);
    assert!(kernel.run(&[(&matrix).into(), (&three).into()]).is_err());
    Ok(())
}
