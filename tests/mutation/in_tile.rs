//! Epilogues of several phases that are computed in the tile, and the products on which they are tried.

use epilogue::Error;
use epilogue::gemm::{Arithmetic, Builder, Finish, Instruction, Major, OperandLayout, SplitK, Tile, sm90};
use epilogue::prelude::*;
use epilogue_runtime::Arch;
use half::f16;

use crate::explored::rough;
use crate::trial::{Kill, Subject, Text, are_right, stopped};

/// A kernel with all phases.
pub(crate) struct InTile {
    name: &'static str,
    arch: Arch,
    split_k: SplitK,
    cluster: sm90::Cluster,
}

/// One kernel for sm_80: its rows are those of two warps, and it takes tile after tile. In the kernels for sm_90a
/// warpgroups take turns: with rows in a tile, and in the tiles of a cluster.
pub(crate) fn all() -> Vec<InTile> {
    let in_tile = InTile { name: "", arch: Arch::SM_90A, split_k: SplitK::None, cluster: sm90::Cluster::NONE };
    vec![
        // Stream-K can be configured on the other architecture.
        InTile { name: "sm_80 all phases in the tile", split_k: SplitK::Stream, ..in_tile },
        InTile { name: "sm_90a all phases in the tile, clusters of 1x1", ..in_tile },
        InTile {
            name: "sm_90a all phases in the tiles of clusters of 1x2",
            cluster: sm90::Cluster { m: 1, n: 2 },
            ..in_tile
        },
    ]
}

/// A tensor that is read in the first and in the last phase, and outputs of both.
#[epilogue]
fn centred(accum: Accum, c: Tensor, weight: RowVector) -> (Tensor, Tensor<f32>, ColumnVector) {
    let h = accum + c;
    let most = reduction_op(h, Row, Max);
    let sum = reduction_op(exp(h - most), Row, Add);
    let d = h / sum * weight + c;
    (h, d, sum)
}

impl InTile {
    /// The columns of the tiles that a row lies in.
    const fn columns(&self) -> usize {
        64 * self.cluster.n
    }

    fn plan(&self, device: &Device) -> Result<Gemm<Centred>, Error> {
        let along_k = OperandLayout::packed(Major::K);
        let builder: Builder<Centred> = Gemm::builder::<Centred>(device).elements(ElementType::F16, ElementType::F16);
        let finish = if self.cluster.n > 1 { Finish::Cluster } else { Finish::Tile };
        let builder = builder.problem(96, self.columns(), 40).layouts(along_k, along_k);
        let builder = builder.finish(finish).split_k(self.split_k);
        if self.split_k == SplitK::Stream {
            let instruction = Instruction::of(ElementType::F16, ElementType::F16, Arithmetic::Exact);
            let tiles = instruction.map_or(&[][..], Tile::all);
            let tile = tiles.iter().find(|tile| (tile.m, tile.n) == (64, 64)).or(tiles.last());
            return tile.into_iter().fold(builder, |builder, tile| builder.tile(*tile)).multiprocessors(3).plan();
        }
        let found =
            sm90::Tile::all().iter().find(|t| (t.rows, t.columns, t.schedule) == (64, 64, sm90::Schedule::PingPong));
        let request = sm90::Request {
            tile: found.copied(),
            stages: Some(3),
            cluster: Some(self.cluster),
            // A sweep has two steps: with three stages of inputs, their ring wraps around in any of them.
            staging: Some(sm90::Staging { step: 32, output_stages: 3, input_stages: 3 }),
            ..sm90::Request::default()
        };
        // All tiles are those of one cluster.
        builder.multiprocessors(self.cluster.blocks()).sm90(request).plan()
    }

    /// Whether the results of a product are right.
    fn product(&self, device: &Device, gemm: &Gemm<Centred>, [m, n, k]: [usize; 3]) -> Result<bool, Error> {
        let (a, b) = (rough(device, &[m, k], 1)?, rough(device, &[n, k], 2)?.transpose()?);
        let (c, weight) = (rough(device, &[m, n], 3)?, rough(device, &[n], 4)?);
        let (mut h, mut d) = (device.full::<f16>([m, n], f16::ONE)?, device.zeros::<f32>([m, n])?);
        let mut sum = device.zeros::<f32>([m])?;
        let of = |h, d, sum| Centred { c: &c, weight: &weight, h, d, sum };
        let expected = gemm.reference(&a, &b, of(&mut h, &mut d, &mut sum))?;
        gemm.run(&a, &b, Centred { c: &c, weight: &weight, h: &mut h, d: &mut d, sum: &mut sum })?;
        are_right(&expected, &[("h", &h), ("d", &d), ("sum", &sum)])
    }
}

impl Subject for InTile {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn arch(&self) -> Arch {
        self.arch
    }

    fn text(&self, device: &Device) -> Result<Text, String> {
        Text::of(&self.plan(device).map_err(|error| error.to_string())?)
    }

    fn run(&self, device: &Device) -> Result<(), (Kill, String)> {
        let gemm = self.plan(device).map_err(stopped)?;
        let n = self.columns();
        // Whole rows and narrower ones, of more tiles than a ring has stages; rings that wrap around, and no K.
        for extents in [[400, n, 3 * 64], [660, n - 8, 40], [70, 8, 0], [130, n, 9 * 64]] {
            if !self.product(device, &gemm, extents).map_err(stopped)? {
                return Err((Kill::Wrong, format!("{extents:?}")));
            }
        }
        Ok(())
    }
}
