//! Reads that totals choose: at their indices, under their conditions, up to their extents. On the CPU in every order, and on
//! an emulated GPU with the race detector on, compared with plain loops.

use epilogue::te::auto::Order;
use epilogue::te::{self, Expr, TeError, Tensor, placeholder_of, var};
use epilogue::{Arch, Argument, Device, ElementType};
use epilogue_runtime::testing;

use crate::auto::shared::{emulated, numbers};
use crate::values::integers_in;

const I32: ElementType = ElementType::I32;
const ORDERS: [Order; 3] = [Order::Device, Order::Shape, Order::Exact];

/// An output and its elements.
struct Wanted<'a> {
    tensor: &'a Tensor,
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// Runs a program on every device and in every order.
fn check(test: &str, inputs: &[(&Tensor, Vec<usize>, &[f32])], wanted: &[Wanted<'_>]) -> Result<(), TeError> {
    let devices = [Some(Device::cpu()), testing::compiler(test).map(|_| emulated(Arch::SM_80))];
    for device in devices.iter().flatten() {
        // Every kernel of a GPU is compiled for its shape.
        let is_few = wanted.iter().all(|output| output.values.len() < 64);
        for order in ORDERS.into_iter().filter(|order| *device == Device::cpu() || is_few || *order == Order::Device) {
            let outputs: Vec<&Tensor> = wanted.iter().map(|output| output.tensor).collect();
            let kernel = te::auto::build(&outputs)?.order(order).build(device)?;
            let given = inputs.iter().map(|(tensor, shape, values)| match tensor.dtype() {
                te::DType::I32 => {
                    let values: Vec<i32> = values.iter().map(|x| *x as i32).collect();
                    device.tensor(&values, shape.as_slice())
                }
                _ => device.tensor(values, shape.as_slice()),
            });
            let given = given.collect::<Result<Vec<_>, _>>()?;
            let of = |tensor: &Tensor| if tensor.dtype() == te::DType::I32 { I32 } else { ElementType::F32 };
            let made = wanted.iter().map(|output| device.zeros_of(of(output.tensor), output.shape.as_slice()));
            let mut made = made.collect::<Result<Vec<_>, _>>()?;
            let mut arguments: Vec<(&Tensor, Argument<'_>)> = Vec::new();
            arguments.extend(inputs.iter().zip(&given).map(|((tensor, ..), given)| (*tensor, given.into())));
            arguments.extend(wanted.iter().zip(&mut made).map(|(output, made)| (output.tensor, made.into())));
            kernel.run_bound(&arguments)?;
            drop(arguments);
            for (output, made) in wanted.iter().zip(&made) {
                let name = output.tensor.name();
                assert_eq!(numbers(made)?, output.values, "{name}, {order:?} on {device}: {}", kernel.choice());
            }
        }
    }
    Ok(())
}

fn place_of_largest(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, k| if row[k] > row[best] { k } else { best })
}

#[test]
fn a_total_is_an_index_a_condition_and_an_extent() -> Result<(), TeError> {
    let (n, m, p) = (var("n"), var("m"), var("p"));
    let (x, table) = (te::placeholder([n, m], "x"), te::placeholder([p], "table"));
    let at = te::ops::argmax(&x, 1)?;
    let best = te::compute([n], "best", |[i]| x.at([i.into(), at.at([i])]))?;
    let entry = te::compute([n], "entry", |[i]| table.at([at.at([i]) % p]))?;
    let before = te::compute([n], "before", |[i]| {
        at.at([i]).greater(0).select(x.at([i.into(), at.at([i]) - 1]), Expr::from(-100.0))
    })?;
    let k = te::reduce_axis((0, m), "k");
    let up_to = te::compute([n], "up_to", |[i]| te::sum(k.less(at.at([i])).select(x.at([i, k]), 0.0), [k]))?;
    let turned = te::compute([n], "turned", |[i]| {
        te::sum(x.at([i.into(), (at.at([i]) + k) % m]) * Expr::from(k).cast(te::DType::F32), [k])
    })?;
    let apart = te::compute([n, m], "apart", |[i, k]| x.at([i, k]) - x.at([i.into(), at.at([i])]))?;
    let after = te::compute([n, m], "after", |[i, k]| {
        let from = at.at([i]) + k;
        from.less(m).select(x.at([i.into(), from.clone()]), table.at([from % p]))
    })?;
    for (rows, columns, entries) in [(1, 1, 1), (3, 7, 4), (5, 300, 11), (130, 9, 3)] {
        let values = integers_in(rows * columns, rows as u64, -50..=50);
        let tables = integers_in(entries, 5, -9..=9);
        let row = |i: usize| &values[i * columns..(i + 1) * columns];
        let place = |i: usize| place_of_largest(row(i));
        let of_rows = |f: &dyn Fn(usize) -> f32| (0..rows).map(|i| f64::from(f(i))).collect::<Vec<f64>>();
        let of_points = |f: &dyn Fn(usize, usize) -> f32| {
            (0..rows * columns).map(|at| f64::from(f(at / columns, at % columns))).collect::<Vec<f64>>()
        };
        let one = vec![rows];
        let two = vec![rows, columns];
        let of_row = |tensor, f: &dyn Fn(usize) -> f32| Wanted { tensor, shape: one.clone(), values: of_rows(f) };
        let wanted = [
            of_row(&best, &|i| row(i)[place(i)]),
            of_row(&entry, &|i| tables[place(i) % entries]),
            of_row(&before, &|i| if place(i) > 0 { row(i)[place(i) - 1] } else { -100.0 }),
            of_row(&up_to, &|i| row(i)[..place(i)].iter().sum()),
            of_row(&turned, &|i| (0..columns).map(|k| row(i)[(place(i) + k) % columns] * k as f32).sum()),
            Wanted { tensor: &apart, shape: two.clone(), values: of_points(&|i, k| row(i)[k] - row(i)[place(i)]) },
            Wanted {
                tensor: &after,
                shape: two.clone(),
                values: of_points(&|i, k| {
                    let from = place(i) + k;
                    if from < columns { row(i)[from] } else { tables[from % entries] }
                }),
            },
        ];
        let inputs = [(&x, two.clone(), &values[..]), (&table, vec![entries], &tables[..])];
        check("a_total_is_an_index_a_condition_and_an_extent", &inputs, &wanted)?;
        check("a_total_is_an_index_a_condition_and_an_extent", &inputs[..1], &wanted[..1])?;
    }
    Ok(())
}

/// A reduction of the rows that another one chooses: machine code for whole rows looks for them before it has computed any.
#[test]
fn a_reduction_chooses_the_rows_of_another() -> Result<(), TeError> {
    let (n, m) = (var("n"), var("m"));
    let (x, table) = (placeholder_of(I32, [n, m], "x"), te::placeholder([Expr::from(5), m.into()], "table"));
    let k = te::reduce_axis((0, m), "k");
    let chosen = te::compute([n], "chosen", |[i]| te::sum(x.at([i, k]), [k]))?;
    let sum = te::compute([n], "sum", |[i]| te::sum(table.at([chosen.at([i]) % 5, k.into()]), [k]))?;
    for (rows, columns) in [(2000, 64), (3, 5)] {
        let values = integers_in(rows * columns, 3, -9..=9);
        let tables = integers_in(5 * columns, 4, -9..=9);
        let of_row = |i: usize| {
            let total: f32 = values[i * columns..(i + 1) * columns].iter().sum();
            let first = (total as i64).rem_euclid(5) as usize * columns;
            f64::from(tables[first..first + columns].iter().sum::<f32>())
        };
        let wanted = Wanted { tensor: &sum, shape: vec![rows], values: (0..rows).map(of_row).collect() };
        let inputs = [(&x, vec![rows, columns], &values[..]), (&table, vec![5, columns], &tables[..])];
        check("a_reduction_chooses_the_rows_of_another", &inputs, &[wanted])?;
    }
    Ok(())
}

/// The columns of a step are reduced to an index: at the given steps, and at the computed ones.
#[test]
fn a_scan_s_columns_choose_an_entry() -> Result<(), TeError> {
    let (steps, width) = (var("steps"), var("width"));
    let (x, table) = (te::placeholder([steps, width], "x"), te::placeholder([steps, width], "table"));
    let state = te::placeholder([steps, width], "s");
    let init = te::compute([Expr::from(2), width.into()], "init", |[t, j]| x.at([t, j]))?;
    let update = te::compute([steps, width], "update", |[t, j]| {
        state.at([t - 1, j.into()]) - state.at([t - 2, j.into()]).min(3.0) + x.at([t, j])
    })?;
    let all = te::scan(&init, &update, &state, &[])?;
    let at = te::ops::argmax(&all, 1)?;
    let entry = te::compute([steps], "entry", |[t]| table.at([t.into(), at.at([t])]))?;
    let before = te::compute([steps], "before", |[t]| {
        at.at([t]).greater(t).select(table.at([at.at([t]) - 1 - t, at.at([t])]), Expr::from(7.0))
    })?;
    for (time, columns) in [(2, 3), (9, 6), (5, 40)] {
        let values: Vec<f32> = integers_in(time * columns, 8, -5..=5);
        let tables: Vec<f32> = integers_in(time * columns, 9, -9..=9);
        let mut states = values.clone();
        for at in 2 * columns..time * columns {
            states[at] = states[at - columns] - states[at - 2 * columns].min(3.0) + values[at];
        }
        let place = |t: usize| place_of_largest(&states[t * columns..(t + 1) * columns]);
        let of_step = |t: usize| f64::from(tables[t * columns + place(t)]);
        let earlier = |t: usize| match place(t).checked_sub(1 + t) {
            Some(row) if row < time => f64::from(tables[row * columns + place(t)]),
            Some(_) => f64::NAN,
            None => 7.0,
        };
        let wanted = [
            Wanted { tensor: &entry, shape: vec![time], values: (0..time).map(of_step).collect() },
            Wanted { tensor: &before, shape: vec![time], values: (0..time).map(earlier).collect() },
        ];
        let inputs = [(&x, vec![time, columns], &values[..]), (&table, vec![time, columns], &tables[..])];
        let is_inside = wanted[1].values.iter().all(|x| !x.is_nan());
        let count = if is_inside { 2 } else { 1 };
        check("a_scan_s_columns_choose_an_entry", &inputs, &wanted[..count])?;
    }
    Ok(())
}

/// A decoder: each step reads the row of a table that the columns of the step before have chosen.
#[test]
fn a_decoder_feeds_its_choice_back() -> Result<(), TeError> {
    let (steps, width) = (var("steps"), var("width"));
    let x = te::placeholder([steps, width], "x");
    let table = te::placeholder([width, width], "table");
    let state = te::placeholder([steps, width], "s");
    let init = te::compute([Expr::from(1), width.into()], "init", |[t, j]| x.at([t, j]))?;
    let best = te::ops::argmax(&state, 1)?;
    let update = te::compute([steps, width], "update", |[t, j]| {
        table.at([best.at([t - 1]), j.into()]) + state.at([t - 1, j.into()]).min(2.0) + x.at([t, j])
    })?;
    let all = te::scan(&init, &update, &state, &[])?;
    let word = te::ops::argmax(&all, 1)?;
    let score = te::compute([steps], "score", |[t]| all.at([t.into(), word.at([t])]))?;
    for (time, columns) in [(1, 1), (7, 5), (12, 33)] {
        let values = integers_in(time * columns, 8, -5..=5);
        let tables = integers_in(columns * columns, 9, -9..=9);
        let mut states = values[..columns].to_vec();
        for t in 1..time {
            let before = states[(t - 1) * columns..].to_vec();
            let row = place_of_largest(&before) * columns;
            states.extend((0..columns).map(|j| tables[row + j] + before[j].min(2.0) + values[t * columns + j]));
        }
        let place = |t: usize| place_of_largest(&states[t * columns..(t + 1) * columns]);
        let all_states = states.iter().map(|x| f64::from(*x)).collect();
        let wanted = [
            Wanted { tensor: &all, shape: vec![time, columns], values: all_states },
            Wanted { tensor: &word, shape: vec![time], values: (0..time).map(|t| place(t) as f64).collect() },
            Wanted {
                tensor: &score,
                shape: vec![time],
                values: (0..time).map(|t| f64::from(states[t * columns + place(t)])).collect(),
            },
        ];
        let inputs = [(&x, vec![time, columns], &values[..]), (&table, vec![columns, columns], &tables[..])];
        check("a_decoder_feeds_its_choice_back", &inputs, &wanted)?;
    }
    Ok(())
}
