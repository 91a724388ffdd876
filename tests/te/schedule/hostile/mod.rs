//! Documents that are made to take long, to nest deeply or to contradict themselves. Each is refused with a typed
//! error, or its program runs with equal results everywhere; all on a thread of 2 MiB, within seconds.

mod contradictions;
mod depth;
mod document;
mod sharing;

use std::sync::mpsc::channel;
use std::time::Duration;
use std::{panic, thread};

use epilogue::te::{self, Array, Schedule, TeError, Tensor};
use epilogue::{Device, ElementType};

/// Much longer than a document takes on a busy machine, and much shorter than doubling at every step would take.
const MOST: Duration = Duration::from_secs(60);

/// The outcome for a text: the numbers that it computes from ones, which must be equal in the interpreter and in native
/// code, or the error.
fn outcome(name: &str, text: String) -> Result<Vec<f64>, TeError> {
    let (send, receive) = channel();
    let run = move || send.send(panic::catch_unwind(|| everywhere(&text)));
    thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread");
    match receive.recv_timeout(MOST) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => panic!("{name} panics"),
        Err(_) => panic!("{name} takes more than {MOST:?}"),
    }
}

fn everywhere(text: &str) -> Result<Vec<f64>, TeError> {
    let (schedule, tensors) = Schedule::from_json(text)?;
    let tensors: Vec<&Tensor> = tensors.iter().collect();
    schedule.to_json(&tensors)?;
    let program = te::lower(&schedule, &tensors, "main")?;
    let _ = program.script();
    let f32 = ElementType::F32;
    let mut arrays = [Array::new(f32, &[8], &[1.0; 8])?, Array::unwritten(f32, &[8])];
    program.interpret(&mut arrays)?;
    let device = Device::cpu();
    let x = device.tensor(&[1f32; 8], [8])?;
    let mut y = device.full::<f32>([8], f32::NAN)?;
    program.build(&device)?.run(&[(&x).into(), (&mut y).into()])?;
    let native: Vec<f64> = y.to_vec::<f32>()?.into_iter().map(f64::from).collect();
    // Elements that were not written are NaN in both.
    let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&arrays[1].values()), bits(&native));
    Ok(native)
}
