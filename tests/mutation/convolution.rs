//! Convolutions' gradients by kernels for sm_90a, whose patches tensor copies load, and the products on which they are tried.

use epilogue::gemm::{
    Builder, Left, Major, OperandLayout, PatchBoxes, Window, gradient_patches, sm90, transposed_patches,
};
use epilogue::prelude::*;
use epilogue::{DeviceTensor, Error};
use epilogue_runtime::Arch;

use crate::explored::rough;
use crate::trial::{Kill, Subject, Text, stopped};

/// A kernel of patches of two axes.
pub(crate) struct Convolved {
    name: &'static str,
    transposed: bool,
    request: sm90::Request,
}

/// Patches whose boxes two blocks load for each other, of a gradient of images (which is a convolution) and transposed, and
/// transposed ones for warpgroups that take turns.
pub(crate) fn all() -> Vec<Convolved> {
    use sm90::Schedule::{Cooperative, PingPong};
    let of = |name, transposed, schedule, rows, n| {
        let found = sm90::Tile::all().iter().find(|t| (t.rows, t.columns, t.schedule) == (rows, 64, schedule));
        let request = sm90::Request {
            tile: found.copied(),
            stages: Some(3),
            cluster: Some(sm90::Cluster { m: 1, n }),
            staging: Some(sm90::Staging { step: 32, output_stages: 2, input_stages: 2 }),
            ..sm90::Request::default()
        };
        Convolved { name, transposed, request }
    };
    vec![
        of("sm_90a patches, clusters of 1x2", false, Cooperative, 128, 2),
        of("sm_90a transposed patches, clusters of 1x2", true, Cooperative, 128, 2),
        of("sm_90a transposed patches, PingPong, clusters of 1x1", true, PingPong, 64, 1),
    ]
}

#[epilogue]
fn gradient(accum: Accum, beta: Scalar, c: Tensor<f32>) -> (Tensor<f32>, ColumnVector<f32>) {
    let d = accum + beta * c;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}

/// Images, their extents, filters, and the factor of C.
type Case = (usize, [usize; 2], usize, f64);

impl Convolved {
    fn plan(&self, device: &Device) -> Result<Gemm<Gradient>, Error> {
        let blocks = 2 * self.request.cluster.map_or(1, sm90::Cluster::blocks);
        let builder: Builder<Gradient> = Gemm::builder::<Gradient>(device).elements(ElementType::F16, ElementType::F16);
        let (along_k, across) = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn));
        let boxes = PatchBoxes { axes: 2, taps: 3, channels: 64 };
        let builder = match self.transposed {
            true => builder.problem(3 * 64, 72, 300).layouts(across, across),
            false => builder.problem(300, 72, 3 * 64).layouts(along_k, across),
        };
        builder.patches(300 * 64).patch_boxes(boxes).multiprocessors(blocks).sm90(self.request).plan()
    }

    /// A product; whether its results are right.
    fn product(&self, device: &Device, gemm: &Gemm<Gradient>, case: Case) -> Result<bool, Error> {
        let (images, [h, w], filters, beta) = case;
        let window = Window::of([1, 3]).padding([0, 1]);
        let [pixels, others] = [[images, h, w, 64], [images, h, w, filters]].map(|shape| rough(device, &shape, 1));
        let (pixels, others) = (pixels?, others?);
        // Of the images 64 channels, or of the outputs' gradient 64 filters.
        let matrix = rough(device, &[3 * 64, filters], 2)?;
        let (left, right, of_d): (Left<'_>, &DeviceTensor, Vec<usize>) = match self.transposed {
            true => (transposed_patches(&pixels, window), &others, vec![filters, 1, 3, 64]),
            false => (gradient_patches(&pixels, window, [h, w]), &matrix, vec![images, h, w, filters]),
        };
        let of_rows = if self.transposed { vec![1, 3, 64] } else { vec![images, h, w] };
        let values: Vec<f32> = (0..of_d.iter().product()).map(|i: usize| (i as f32 * 0.618_034).fract()).collect();
        let c = device.tensor(&values, &of_d)?;
        let (mut d, mut sums) = (device.full::<f32>(&of_d, 1.0)?, device.zeros::<f32>(&of_rows)?);
        let expected = gemm.reference(left, right, Gradient { beta, c: &c, d: &mut d, sums: &mut sums })?;
        gemm.run(left, right, Gradient { beta, c: &c, d: &mut d, sums: &mut sums })?;
        let right = |name, tensor: &DeviceTensor| Ok::<_, Error>(expected.compare(name, tensor)?.check().is_ok());
        Ok(right("d", &d)? && right("sums", &sums)?)
    }
}

impl Subject for Convolved {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn arch(&self) -> Arch {
        Arch::SM_90A
    }

    fn text(&self, device: &Device) -> Result<Text, String> {
        Text::of(&self.plan(device).map_err(|error| error.to_string())?)
    }

    fn run(&self, device: &Device) -> Result<(), (Kill, String)> {
        let gemm = self.plan(device).map_err(stopped)?;
        // The rings of operands wrap around, within a tile and over several; one k-tile; no images.
        let cases = [(3, [9, 11], 136, 0.5), (1, [5, 7], 200, 0.0), (0, [2, 3], 72, 2.0)];
        for (number, case) in cases.into_iter().enumerate() {
            if !self.product(device, &gemm, case).map_err(stopped)? {
                return Err((Kill::Wrong, format!("product {number}: {case:?}")));
            }
        }
        Ok(())
    }
}
