//! Groups of K by kernels for sm_90a, and the products on which they are tried.

use epilogue::gemm::{Builder, Left, Major, OperandLayout, depth, sm90};
use epilogue::prelude::*;
use epilogue::{DeviceTensor, Error};
use epilogue_runtime::Arch;
use half::f16;

use crate::explored::rough;
use crate::trial::{Kill, Subject, Text, are_right, stopped};

/// A kernel with groups of K.
pub(crate) struct Deep {
    name: &'static str,
    request: sm90::Request,
}

/// Two kernels: in one, blocks fill each other's stages; in the other, warpgroups take turns.
pub(crate) fn all() -> Vec<Deep> {
    let of = |name, schedule, rows, m| {
        let found = sm90::Tile::all().iter().find(|t| (t.rows, t.columns, t.schedule) == (rows, rows, schedule));
        let request = sm90::Request {
            tile: found.copied(),
            swap_ab: Some(false),
            stages: Some(3),
            cluster: Some(sm90::Cluster { m, n: 1 }),
            staging: Some(sm90::Staging { step: 32, output_stages: 2, input_stages: 2 }),
            ..sm90::Request::default()
        };
        Deep { name, request }
    };
    vec![
        of("sm_90a groups of K, clusters of 2x1", sm90::Schedule::Cooperative, 128, 2),
        of("sm_90a groups of K, PingPong, clusters of 1x1", sm90::Schedule::PingPong, 64, 1),
    ]
}

#[epilogue]
fn gradient(accum: Accum, beta: Scalar, c: Tensor) -> (Tensor<f32>, ColumnVector) {
    let d = accum + beta * c;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}

impl Deep {
    fn plan(&self, device: &Device) -> Result<Gemm<Gradient>, Error> {
        let blocks = 2 * self.request.cluster.map_or(1, sm90::Cluster::blocks);
        let builder: Builder<Gradient> = Gemm::builder::<Gradient>(device).elements(ElementType::F16, ElementType::F16);
        let along = OperandLayout::packed(Major::Mn);
        let builder = builder.problem(200, 72, 300).depth_groups(3).layouts(along, along).multiprocessors(blocks);
        // A launch that begins before the previous one has ended waits for the bounds.
        builder.dependent_launch(true).sm90(self.request).plan()
    }

    /// A product with these ends of groups; whether its results are right.
    fn product(&self, device: &Device, gemm: &Gemm<Gradient>, product: (&[i32], usize, f64)) -> Result<bool, Error> {
        let (ends, k, beta) = product;
        // Three tiles along M: a row's tiles are in several blocks.
        let ([m, n], groups) = (if ends.len() > 4 { [40, 24] } else { [152, 136] }, ends.len());
        // The last part's neighbours are infinite: zeros don't make them nothing.
        let last = ends.iter().max().map_or(0, |end| *end as usize);
        let beyond = |tensor: DeviceTensor| {
            let mut values = tensor.to_vec::<f16>()?;
            let width = tensor.shape()[1];
            values.iter_mut().skip(last * width).for_each(|x| *x = f16::INFINITY);
            device.tensor(&values, tensor.shape())
        };
        let (a, b) = (beyond(rough(device, &[k, m], 1)?)?.transpose()?, beyond(rough(device, &[k, n], 2)?)?);
        let c = rough(device, &[groups, m, n], 3)?;
        // A previous launch counts; it may not have ended yet.
        let counted = device.tensor(&ends.iter().flat_map(|end| [*end, -1]).collect::<Vec<_>>(), [groups, 2])?;
        let known = device.tensor(ends, [groups])?;
        let (mut d, mut sums) = (device.full::<f32>([groups, m, n], 1.0)?, device.zeros::<f32>([groups, m])?);
        let left: Left<'_> = depth(&a).in_groups_to(&known);
        let expected = gemm.reference(left, &b, Gradient { beta, c: &c, d: &mut d, sums: &mut sums })?;
        let ends = counted.slice(1, 0..1)?.contiguous()?.reshape([groups])?;
        gemm.run(depth(&a).in_groups_to(&ends), &b, Gradient { beta, c: &c, d: &mut d, sums: &mut sums })?;
        are_right(&expected, &[("d", &d), ("sums", &sums)])
    }
}

impl Subject for Deep {
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
        // Cuts of every kind: each stage has some in turn, and zeros go in several copies; more groups than a warp has
        // lanes; no K.
        let many: Vec<i32> = (1..40).map(|g| g * 2).collect();
        let products =
            [(&[3, 3, 130, 200][..], 300, 0.5), (&[64, 129, 193], 240, 0.0), (&many, 90, 0.5), (&[0, 0], 0, 2.0)];
        for (ends, k, beta) in products {
            if !self.product(device, &gemm, (ends, k, beta)).map_err(stopped)? {
                return Err((Kill::Wrong, format!("parts that end at {ends:?}, K {k}, beta {beta}")));
            }
        }
        Ok(())
    }
}
