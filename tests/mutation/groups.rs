//! Groups of rows by kernels for sm_90a, also of rows that they pick by an index, and the products on which they are tried.

use epilogue::Error;
use epilogue::gemm::{Builder, Left, Major, OperandLayout, rows, sm90};
use epilogue::prelude::*;
use epilogue_runtime::Arch;
use half::f16;

use crate::explored::rough;
use crate::trial::{Kill, Subject, Text, are_right, stopped};

/// A kernel with groups of rows.
pub(crate) struct Grouped {
    name: &'static str,
    request: sm90::Request,
}

/// In one kernel, blocks share a tile's columns; in another, warpgroups take turns. Two more do so with gathered rows,
/// which are the instruction's columns in the second.
pub(crate) fn all() -> Vec<Grouped> {
    let of = |name, schedule, rows, m, picked: Option<bool>| {
        let found = sm90::Tile::all().iter().find(|t| (t.rows, t.columns, t.schedule) == (rows, 64, schedule));
        let request = sm90::Request {
            tile: found.copied(),
            swap_ab: Some(picked.is_some() && m == 1),
            picked,
            stages: Some(3),
            cluster: Some(sm90::Cluster { m, n: 1 }),
            // A tile has two steps: with three stages of inputs, their ring wraps around in either of them.
            staging: Some(sm90::Staging { step: 32, output_stages: 4, input_stages: 3 }),
            ..sm90::Request::default()
        };
        Grouped { name, request }
    };
    vec![
        of("sm_90a groups of rows, clusters of 2x1", sm90::Schedule::Cooperative, 128, 2, None),
        of("sm_90a groups of rows, PingPong, clusters of 1x1", sm90::Schedule::PingPong, 64, 1, None),
        of("sm_90a groups of rows, clusters of 2x1, picked rows", sm90::Schedule::Cooperative, 128, 2, Some(true)),
        of(
            "sm_90a groups of rows, PingPong, clusters of 1x1, picked rows",
            sm90::Schedule::PingPong,
            64,
            1,
            Some(true),
        ),
    ]
}

#[epilogue]
fn expert(accum: Accum, beta: Scalar, c: Tensor, bias: RowVector) -> (Tensor, RowVector) {
    let d = relu(accum + beta * c + bias);
    let sums = reduction_op(d, Column, Add);
    (d, sums)
}

impl Grouped {
    fn plan(&self, device: &Device) -> Result<Gemm<Expert>, Error> {
        let blocks = 2 * self.request.cluster.map_or(1, sm90::Cluster::blocks);
        let builder: Builder<Expert> = Gemm::builder::<Expert>(device).elements(ElementType::F16, ElementType::F16);
        // Blocks of a cluster share rows of B, which are those of its columns.
        let along_k = OperandLayout::packed(Major::K);
        let builder = builder.problem(300, 72, 40).groups(3).layouts(along_k, along_k).multiprocessors(blocks);
        let builder = if self.picks() { builder.picked_rows() } else { builder };
        // A launch that begins before the previous one has ended waits for the bounds.
        builder.dependent_launch(true).sm90(self.request).plan()
    }

    fn picks(&self) -> bool {
        self.request.picked == Some(true)
    }

    /// A product with these ends of groups; whether its results are right.
    fn product(&self, device: &Device, gemm: &Gemm<Expert>, product: (&[i32], usize, f64)) -> Result<bool, Error> {
        let (ends, k, beta) = product;
        let (m, n, groups) = (ends.iter().max().map_or(0, |end| *end as usize + 9), 72, ends.len());
        let limit = if self.picks() { 50 } else { m };
        let (a, b) = (rough(device, &[limit, k], 1)?, rough(device, &[groups, n, k], 2)?.permute(&[0, 2, 1])?);
        let (c, bias) = (rough(device, &[m, n], 3)?, rough(device, &[groups, n], 4)?);
        // A previous launch counts the rows of groups; it may not have ended yet.
        let counted = device.tensor(&ends.iter().flat_map(|end| [*end, -1]).collect::<Vec<_>>(), [groups, 2])?;
        let known = device.tensor(ends, [groups])?;
        let numbers: Vec<i32> = (0..m as i32).map(|row| (row * row + 3 * row) % 50).collect();
        let index = device.tensor(&numbers, [m])?;
        let taken = |index| if self.picks() { rows(&a).picked(index) } else { rows(&a) };
        let (mut d, mut sums) = (device.full::<f16>([m, n], f16::ONE)?, device.zeros::<f32>([groups, n])?);
        let left: Left<'_> = taken(&index).in_groups_to(&known);
        let expected = gemm.reference(left, &b, Expert { beta, c: &c, bias: &bias, d: &mut d, sums: &mut sums })?;
        let ends = counted.slice(1, 0..1)?.contiguous()?.reshape([groups])?;
        gemm.run(
            taken(&index).in_groups_to(&ends),
            &b,
            Expert { beta, c: &c, bias: &bias, d: &mut d, sums: &mut sums },
        )?;
        are_right(&expected, &[("d", &d), ("sums", &sums)])
    }
}

impl Subject for Grouped {
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
        // More groups than a warp has lanes; operands' rings that wrap around; no K; enough whole tiles that the
        // outputs' ring wraps around.
        let many: Vec<i32> = (1..40).map(|g| g * 2).collect();
        let products =
            [(&[5, 5, 290][..], 3 * 64, 0.5), (&many, 40, 0.0), (&[150, 300], 0, 2.0), (&[3, 1291], 72, 0.5)];
        for (ends, k, beta) in products {
            if !self.product(device, &gemm, (ends, k, beta)).map_err(stopped)? {
                return Err((Kill::Wrong, format!("groups that end at {ends:?}, K {k}, beta {beta}")));
            }
        }
        Ok(())
    }
}
