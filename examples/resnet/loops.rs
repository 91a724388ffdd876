//! The results that a convolution must give, by plain loops in f64, with the error that sums of f32s may have in any
//! order.
//!
//! Two channels of every convolution are computed, at every place of every image, from what the convolution read.

use epilogue::DeviceTensor;

use crate::Result;
use crate::convolution::{After, Convolution, EPSILON};
use crate::network::{Mode, Network, Work};

/// Half of the distance from 1 to the next f32.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// How far results are from what loops give.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) numbers: usize,
    /// The largest part of the allowed error that one has.
    pub(crate) worst: f64,
}

impl Compared {
    fn add(&mut self, given: f32, expected: f64, allowed: f64) {
        self.numbers += 1;
        let part = (f64::from(given) - expected).abs() / allowed;
        self.worst = if part.is_nan() { f64::INFINITY } else { self.worst.max(part) };
    }
}

/// Compares everything that the last run made.
///
/// # Errors
/// A result that is further from the loops' than rounding explains.
pub(crate) fn compare(network: &Network) -> Result<Compared> {
    let mut all = Compared::default();
    for (i, step) in network.steps.iter().enumerate() {
        let Work::Convolution(convolution) = &step.work else { continue };
        let (x, y) = (&network.values[step.input], &network.values[i + 1]);
        let shortcut = step.shortcut.map(|from| network.values[from].to_vec::<f32>()).transpose()?;
        let compared = channels(convolution, x, shortcut.as_deref(), y, i)?;
        if compared.worst > 1.0 {
            let (part, worst) = (&step.part, compared.worst);
            return Err(format!("step {i} ({part}) is {worst:.2} times as far from plain loops as it may be").into());
        }
        all.numbers += compared.numbers;
        all.worst = all.worst.max(compared.worst);
    }
    Ok(all)
}

fn channels(
    convolution: &Convolution,
    x: &DeviceTensor,
    shortcut: Option<&[f32]>,
    y: &DeviceTensor,
    step: usize,
) -> Result<Compared> {
    let filters = convolution.output[3];
    let (values, results) = (x.to_vec::<f32>()?, y.to_vec::<f32>()?);
    let vectors = [&convolution.scale, &convolution.shift, &convolution.mean, &convolution.variance];
    let [scale, shift, mean, variance] = vectors.map(DeviceTensor::to_vec::<f32>);
    let [scale, shift, mean, variance] = [scale?, shift?, mean?, variance?];
    let weights = convolution.weights.to_vec::<f32>()?;
    let mut compared = Compared::default();
    for channel in [7 * step % filters, (7 * step + filters / 2) % filters] {
        let filter = &weights[channel * weights.len() / filters..][..weights.len() / filters];
        let sums = sums(convolution, x.shape(), &values, filter);
        let wide = |of: &[f32]| f64::from(of[channel]);
        // y = sum · factor + summand, and how wrong the sum may be.
        let rows = sums.len() as f64;
        let (factor, summand, spread) = match convolution.mode {
            Mode::Inference => (wide(&scale), wide(&shift), None),
            Mode::Training => {
                let average = sums.iter().map(|(sum, _)| sum).sum::<f64>() / rows;
                let square = sums.iter().map(|(sum, _)| (sum - average).powi(2)).sum::<f64>() / rows;
                let error = sums.iter().map(|(_, error)| error).fold(0.0, |most: f64, error| most.max(*error));
                let deviation = (square + EPSILON).sqrt();
                compared.add(mean[channel], average, 2.0 * error + 4.0 * UNIT * average.abs());
                let allowed = error * (4.0 * square.sqrt() + 4.0 * error) + 8.0 * UNIT * square;
                compared.add(variance[channel], square, allowed + f64::MIN_POSITIVE);
                let factor = wide(&scale) / deviation;
                (factor, wide(&shift) - average * factor, Some((average, deviation, error)))
            }
        };
        for (row, &(sum, error)) in sums.iter().enumerate() {
            let at = row * filters + channel;
            let added = shortcut.map_or(0.0, |shortcut| f64::from(shortcut[at]));
            let value = sum * factor + summand + added;
            let expected = if matches!(convolution.after, After::Nothing) { value } else { value.max(0.0) };
            // In training mean and variance have errors, too: by as much as the sums, and by that over the deviation.
            let error = spread.map_or(error, |(average, deviation, most)| {
                2.0 * (error + most) + (sum - average).abs() * 4.0 * most / deviation
            });
            let rounding = 8.0 * UNIT * ((sum * factor).abs() + summand.abs() + added.abs() + value.abs());
            compared.add(results[at], expected, error * factor.abs() + rounding + f64::MIN_POSITIVE);
        }
    }
    Ok(compared)
}

/// The sums of one filter at every place, each with the error of a sum of f32s: the number of terms times half an ulp of the
/// sum of magnitudes.
fn sums(convolution: &Convolution, shape: &[usize], x: &[f32], filter: &[f32]) -> Vec<(f64, f64)> {
    let [height, width, channels] = [shape[1], shape[2], shape[3]];
    let (size, stride, padding) = (convolution.window.size, convolution.window.stride, convolution.window.padding());
    let [images, rows, columns] = [convolution.output[0], convolution.output[1], convolution.output[2]];
    let mut sums = Vec::with_capacity(images * rows * columns);
    for image in 0..images {
        for p in 0..rows {
            for q in 0..columns {
                let (mut sum, mut magnitude) = (0.0, 0.0);
                for r in 0..size {
                    for s in 0..size {
                        let (i, j) = ((p * stride + r).wrapping_sub(padding), (q * stride + s).wrapping_sub(padding));
                        if i >= height || j >= width {
                            continue;
                        }
                        let pixel = &x[((image * height + i) * width + j) * channels..][..channels];
                        let weights = &filter[(r * size + s) * channels..][..channels];
                        for (x, w) in pixel.iter().zip(weights) {
                            let product = f64::from(*x) * f64::from(*w);
                            sum += product;
                            magnitude += product.abs();
                        }
                    }
                }
                sums.push((sum, filter.len() as f64 * UNIT * magnitude));
            }
        }
    }
    sums
}
