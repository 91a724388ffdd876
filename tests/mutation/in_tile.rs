//! Epilogues of several phases that are computed in the tile, and the products on which they are tried.

use epilogue::gemm::{Arithmetic, Builder, Finish, Instruction, Major, OperandLayout, SplitK, Tile, sm90};
use epilogue::prelude::*;
use epilogue::{DeviceTensor, Error};
use epilogue_runtime::Arch;
use half::f16;

use crate::explored::rough;
use crate::trial::{Kill, Subject, Text, stopped};

/// A kernel with all phases.
pub(crate) struct InTile {
    name: &'static str,
    arch: Arch,
    split_k: SplitK,
}

/// One for sm_80, whose rows are those of two warps and which takes tile after tile, and one whose warpgroups take turns.
pub(crate) fn all() -> Vec<InTile> {
    vec![
        // Stream-K can be configured on the other architecture.
        InTile { name: "sm_80 all phases in the tile", arch: Arch::SM_90A, split_k: SplitK::Stream },
        InTile { name: "sm_90a all phases in the tile", arch: Arch::SM_90A, split_k: SplitK::None },
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
    fn plan(&self, device: &Device) -> Result<Gemm<Centred>, Error> {
        let along_k = OperandLayout::packed(Major::K);
        let builder: Builder<Centred> = Gemm::builder::<Centred>(device).elements(ElementType::F16, ElementType::F16);
        let builder = builder.problem(96, 64, 40).layouts(along_k, along_k).finish(Finish::Tile).split_k(self.split_k);
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
            cluster: Some(sm90::Cluster::NONE),
            // A sweep has two steps: with three stages of inputs, their ring wraps around in any of them.
            staging: Some(sm90::Staging { step: 32, output_stages: 3, input_stages: 3 }),
            ..sm90::Request::default()
        };
        builder.multiprocessors(2).sm90(request).plan()
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
        let right = |name, tensor: &DeviceTensor| Ok::<_, Error>(expected.compare(name, tensor)?.check().is_ok());
        Ok(right("h", &h)? && right("d", &d)? && right("sum", &sum)?)
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
        // Whole rows and narrower ones; rings that wrap around, and no K.
        for extents in [[200, 64, 3 * 64], [330, 56, 40], [70, 8, 0], [130, 64, 9 * 64]] {
            if !self.product(device, &gemm, extents).map_err(stopped)? {
                return Err((Kill::Wrong, format!("{extents:?}")));
            }
        }
        Ok(())
    }
}
