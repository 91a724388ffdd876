//! Cells of recurrent networks: one kernel each, given the products of the gates.

use epilogue::te::{self, Expr, TeError, Tensor, ops, var};
use epilogue::{Argument, Device, DeviceTensor, ElementType};

use super::{FLOATS, close, devices, download, normal, rounded, upload};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Runs an automatic map on inputs by name.
fn run(
    device: &Device,
    outputs: &[&Tensor],
    inputs: &[(&str, &DeviceTensor)],
    shape: [usize; 2],
) -> Result<Vec<Vec<f64>>, TeError> {
    let kernel = te::auto::map_all(outputs)?.build(device)?;
    let mut results = Vec::new();
    for output in outputs {
        let te::DType::Number(element) = output.dtype() else { panic!("truth values") };
        results.push(device.zeros_of(element, shape)?);
    }
    let mut arguments: Vec<Argument<'_>> = Vec::new();
    for parameter in &kernel.parameters()[..inputs.len()] {
        let (_, tensor) = inputs.iter().find(|(name, _)| *name == parameter.name()).expect("an input");
        arguments.push((*tensor).into());
    }
    arguments.extend(results.iter_mut().map(Argument::from));
    kernel.run(&arguments)?;
    results.iter().map(download).collect()
}

#[test]
fn lstm_cells_are_pytorchs() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("lstm_cells_are_pytorchs").is_none() {
        return Ok(());
    }
    for device in devices() {
        for element in FLOATS {
            for (batch, hidden) in [(1, 1), (3, 16), (5, 33)] {
                let (b, h) = (var("batch"), var("hidden"));
                let gates = te::placeholder_of(element, [Expr::from(b), 4 * Expr::from(h)], "gates");
                let cell = te::placeholder_of(element, [b, h], "cell");
                let (new_hidden, new_cell) = ops::lstm_cell(&gates, &cell)?;
                let x = rounded(element, &normal(batch * 4 * hidden, 1));
                let c = rounded(element, &normal(batch * hidden, 2));
                let inputs = [
                    upload(&device, element, &x, &[batch, 4 * hidden])?,
                    upload(&device, element, &c, &[batch, hidden])?,
                ];
                let named = [("gates", &inputs[0]), ("cell", &inputs[1])];
                let got = run(&device, &[&new_hidden, &new_cell], &named, [batch, hidden])?;
                let mut wanted = [Vec::new(), Vec::new()];
                for (at, old) in c.iter().enumerate() {
                    let (i, j) = (at / hidden, at % hidden);
                    let gate = |g: usize| x[i * 4 * hidden + g * hidden + j];
                    let cell = sigmoid(gate(1)) * old + sigmoid(gate(0)) * gate(2).tanh();
                    wanted[0].push(sigmoid(gate(3)) * cell.tanh());
                    wanted[1].push(cell);
                }
                for (place, wanted) in wanted.iter().enumerate() {
                    let what = format!("output {place} of {batch}x{hidden} {element} on {device}");
                    close(element, &got[place], wanted, 32.0, 1.0, &what);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn gru_cells_are_pytorchs() -> Result<(), TeError> {
    if epilogue_runtime::testing::compiler("gru_cells_are_pytorchs").is_none() {
        return Ok(());
    }
    for device in devices() {
        for element in FLOATS {
            for (batch, hidden) in [(1, 1), (3, 16), (5, 33)] {
                let (b, h) = (var("batch"), var("hidden"));
                let products = |name| te::placeholder_of(element, [Expr::from(b), 3 * Expr::from(h)], name);
                let (input, state) = (products("input"), products("state"));
                let hidden_state = te::placeholder_of(element, [b, h], "hidden");
                let new = ops::gru_cell(&input, &state, &hidden_state)?;
                let wide = batch * 3 * hidden;
                let (x, s) = (rounded(element, &normal(wide, 1)), rounded(element, &normal(wide, 2)));
                let old = rounded(element, &normal(batch * hidden, 3));
                let inputs = [
                    upload(&device, element, &x, &[batch, 3 * hidden])?,
                    upload(&device, element, &s, &[batch, 3 * hidden])?,
                    upload(&device, element, &old, &[batch, hidden])?,
                ];
                let named = [("input", &inputs[0]), ("state", &inputs[1]), ("hidden", &inputs[2])];
                let got = run(&device, &[&new], &named, [batch, hidden])?;
                let wanted: Vec<f64> = (0..batch * hidden)
                    .map(|at| {
                        let gate = |from: &[f64], g: usize| from[at / hidden * 3 * hidden + g * hidden + at % hidden];
                        let reset = sigmoid(gate(&x, 0) + gate(&s, 0));
                        let update = sigmoid(gate(&x, 1) + gate(&s, 1));
                        let new = (gate(&x, 2) + reset * gate(&s, 2)).tanh();
                        (1.0 - update) * new + update * old[at]
                    })
                    .collect();
                close(element, &got[0], &wanted, 32.0, 1.0, &format!("{batch}x{hidden} {element} on {device}"));
            }
        }
    }
    Ok(())
}

/// The gates are views of one product: the rows of a batch have the stride of the caller's memory.
#[test]
fn cells_take_views() -> Result<(), TeError> {
    let (b, h) = (var("batch"), var("hidden"));
    let element = ElementType::F32;
    let gates = te::placeholder([Expr::from(b), 4 * Expr::from(h)], "gates");
    let cell = te::placeholder([b, h], "cell");
    let (new_hidden, _) = ops::lstm_cell(&gates, &cell)?;
    let device = Device::cpu();
    let all = normal(6 * 40, 7);
    let memory = upload(&device, element, &all, &[6, 40])?;
    let (gate_view, cell_view) = (memory.slice(1, 3..35)?, memory.slice(1, 30..38)?);
    let named = [("gates", &gate_view), ("cell", &cell_view)];
    let got = run(&device, &[&new_hidden], &named, [6, 8])?;
    let wanted: Vec<f64> = (0..48)
        .map(|at| {
            let (i, j) = (at / 8, at % 8);
            let gate = |g: usize| all[i * 40 + 3 + g * 8 + j];
            let cell = sigmoid(gate(1)) * all[i * 40 + 30 + j] + sigmoid(gate(0)) * gate(2).tanh();
            sigmoid(gate(3)) * cell.tanh()
        })
        .collect();
    close(element, &got[0], &wanted, 64.0, 1.0, "a view");
    // Half a gate is missing.
    let short = memory.slice(1, 0..30)?;
    let mut result = device.zeros::<f32>([6, 8])?;
    let kernel = te::auto::map(&new_hidden)?.build(&device)?;
    let inputs: Vec<&DeviceTensor> =
        kernel.parameters()[..2].iter().map(|p| if p.name() == "gates" { &short } else { &cell_view }).collect();
    let mut arguments: Vec<Argument<'_>> = inputs.into_iter().map(Argument::from).collect();
    arguments.push((&mut result).into());
    let error = kernel.run(&arguments).unwrap_err().to_string();
    assert!(error.contains("argument gates: dimension 1 is"), "{error}");
    Ok(())
}
