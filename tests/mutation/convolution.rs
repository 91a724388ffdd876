//! Gradients of filters by kernels for sm_90a, and the products on which they are tried. TMA loads their transposed
//! patches.

use epilogue::Error;
use epilogue::gemm::{Builder, Major, OperandLayout, PatchBoxes, Window, sm90, transposed_patches};
use epilogue::prelude::*;
use epilogue_runtime::Arch;

use crate::explored::rough;
use crate::trial::{Kill, Subject, Text, are_right, stopped};

/// A kernel of transposed patches of two axes.
pub(crate) struct Convolved {
    name: &'static str,
    request: sm90::Request,
}

/// Transposed patches whose boxes two blocks load for each other, and those for warpgroups that take turns.
pub(crate) fn all() -> Vec<Convolved> {
    use sm90::Schedule::{Cooperative, PingPong};
    let of = |name, schedule, rows, n| {
        let found = sm90::Tile::all().iter().find(|t| (t.rows, t.columns, t.schedule) == (rows, 64, schedule));
        let request = sm90::Request {
            tile: found.copied(),
            stages: Some(3),
            cluster: Some(sm90::Cluster { m: 1, n }),
            staging: Some(sm90::Staging { step: 32, output_stages: 2, input_stages: 2 }),
            ..sm90::Request::default()
        };
        Convolved { name, request }
    };
    vec![
        of("sm_90a transposed patches, clusters of 1x2", Cooperative, 128, 2),
        of("sm_90a transposed patches, PingPong, clusters of 1x1", PingPong, 64, 1),
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
        let across = OperandLayout::packed(Major::Mn);
        let builder = builder.problem(3 * 64, 72, 300).layouts(across, across);
        let boxes = PatchBoxes { axes: 2, taps: 3, channels: 64 };
        builder.patches(300 * 64).patch_boxes(boxes).multiprocessors(blocks).sm90(self.request).plan()
    }

    /// A product; whether its results are right.
    fn product(device: &Device, gemm: &Gemm<Gradient>, case: Case) -> Result<bool, Error> {
        let (images, [h, w], filters, beta) = case;
        let window = Window::of([1, 3]).padding([0, 1]);
        let (x, dy) = (rough(device, &[images, h, w, 64], 1)?, rough(device, &[images, h, w, filters], 2)?);
        let (left, of_d, of_rows) = (transposed_patches(&x, window), [filters, 1, 3, 64], [1, 3, 64]);
        let values: Vec<f32> = (0..3 * 64 * filters).map(|i: usize| (i as f32 * 0.618_034).fract()).collect();
        let c = device.tensor(&values, of_d)?;
        let (mut d, mut sums) = (device.full::<f32>(of_d, 1.0)?, device.zeros::<f32>(of_rows)?);
        let expected = gemm.reference(left, &dy, Gradient { beta, c: &c, d: &mut d, sums: &mut sums })?;
        gemm.run(left, &dy, Gradient { beta, c: &c, d: &mut d, sums: &mut sums })?;
        are_right(&expected, &[("d", &d), ("sums", &sums)])
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
        // The rings of operands wrap around, within a tile and over several; one k-tile of outputs; no images.
        let cases = [(5, [9, 11], 136, 0.5), (1, [5, 7], 200, 0.0), (0, [2, 3], 72, 2.0)];
        for (number, case) in cases.into_iter().enumerate() {
            if !Self::product(device, &gemm, case).map_err(stopped)? {
                return Err((Kill::Wrong, format!("product {number}: {case:?}")));
            }
        }
        Ok(())
    }
}
