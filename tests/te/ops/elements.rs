//! Indices of several kinds, and integers of every size.

use epilogue::ElementType;
use epilogue::te::{self, Array, Expr, TeError, var};
use proptest::prelude::*;

#[test]
fn indices_of_eight_dimensions_mix_kinds() -> Result<(), TeError> {
    let a = te::placeholder((2, 1, 2, 1, 2, 1, 2, 1), "A");
    let b = te::compute([2, 2], "B", |[i, j]| a.at((i, 0, 1, 0, 1 - Expr::from(j), 0, j, 0)))?;
    let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "main")?;
    let values: Vec<f64> = (0..16).map(f64::from).collect();
    let mut arrays = [
        Array::new(ElementType::F32, &[2, 1, 2, 1, 2, 1, 2, 1], &values)?,
        Array::unwritten(ElementType::F32, &[2, 2]),
    ];
    program.interpret(&mut arrays)?;
    assert_eq!(arrays[1].values(), [6.0, 5.0, 14.0, 13.0]);
    Ok(())
}

proptest! {
    /// 64-bit integers are exact, even beyond 2^53, and so are results computed from them.
    #[test]
    fn integers_of_every_size_are_exact(values in prop::collection::vec(any::<i64>(), 1..20), by in any::<i64>()) {
        let i64 = ElementType::I64;
        let a = te::placeholder_of(i64, [var("n")], "A");
        let b = te::compute([a.shape()[0].clone()], "B", |[i]| a.at([i]) + Expr::from(by)).unwrap();
        let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "main").unwrap();
        let shape = [values.len()];
        let mut arrays = [Array::of_integers(i64, &shape, &values).unwrap(), Array::unwritten(i64, &shape)];
        prop_assert_eq!(arrays[0].integers(), Some(values.clone()));
        prop_assert_eq!(arrays[1].integers(), None);
        program.interpret(&mut arrays).unwrap();
        let wanted: Vec<i64> = values.iter().map(|x| x.wrapping_add(by)).collect();
        prop_assert_eq!(arrays[1].integers(), Some(wanted));
        let narrow = Array::of_integers(ElementType::I32, &shape, &values);
        prop_assert_eq!(narrow.is_ok(), values.iter().all(|x| i32::try_from(*x).is_ok()));
    }
}
