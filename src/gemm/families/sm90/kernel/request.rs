//! Requests for a kernel: the knobs of the family for sm_90a. Each can be fixed.

use std::fmt;

use super::key::{Cluster, Hint, Hints, Raster, Staging};
use super::shared::MAX_STAGES;
use super::tile::Tile;
use crate::gemm::kernel::finish::Within;
use crate::gemm::kernel::split_k::SplitK;
use crate::gemm::problem::Error;

/// Why a tile has no kernel for a cluster.
pub(crate) const NOT_DIVIDED: &str = "the tile does not divide among the cluster, whose blocks load equal shares in atoms of 8 rows or boxes \
     of 64: ask for a smaller cluster, or a larger tile";
/// The most clusters of tiles in a group: beyond this the order is the same as without groups.
const MAX_GROUP: usize = 1024;

/// A request for a kernel. The model chooses what is `None`. For measurements: the kernel that runs is exactly what was
/// asked for, or the request is refused.
///
/// ```
/// use epilogue::gemm::{SplitK, sm90};
///
/// let request = sm90::Request {
///     tile: sm90::Tile::all().iter().copied().find(|tile| (tile.rows, tile.columns) == (128, 256)),
///     cluster: Some(sm90::Cluster { m: 2, n: 1 }),
///     stages: Some(4),
///     raster: Some(sm90::Raster { group: 8, along_n: false }),
///     pending: Some(0),
///     hints: Some(sm90::Hints { b: sm90::Hint::Last, outputs: sm90::Hint::First, ..sm90::Hints::default() }),
///     split_k: Some(SplitK::None),
///     ..sm90::Request::default()
/// };
/// assert!(request.to_string().starts_with("128x256 by 2 warpgroups, 4 stages, clusters of 2x1"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The tile, in MMA terms, and with it the schedule: cooperative or ping-pong. One of [`Tile::all`].
    pub tile: Option<Tile>,
    /// Whether the tile's rows are the product's columns.
    pub swap_ab: Option<bool>,
    /// Pipeline stages: from 2 to 16, as far as shared memory has room.
    pub stages: Option<usize>,
    /// Blocks that load operands for each other: at most 8, or 16 with [`Finish::Cluster`](crate::gemm::Finish::Cluster),
    /// which must divide the tile's rows and columns.
    pub cluster: Option<Cluster>,
    /// The order of the tiles: groups of 1 to 1024.
    pub raster: Option<Raster>,
    /// The number of stages whose products may still be running when the next stage's are started: 1, or 0 to wait for
    /// each stage's products (`wgmma.wait_group`, PTX ISA 9.7.15.7). Promoted sums of FP8 products allow only 0. Where B is
    /// converted, steps of 16 of K are meant: a stage has four.
    pub pending: Option<usize>,
    /// Hints for the L2 for A, B and the outputs; without them, none.
    pub hints: Option<Hints>,
    /// How K is shared among blocks.
    pub split_k: Option<SplitK>,
    /// How the epilogue's tensors pass through shared memory.
    pub staging: Option<Staging>,
    /// For rows that an [index picks](crate::gemm::Rows::picked): whether the kernel picks them while it multiplies, or
    /// all are copied before. A kernel can where they begin at multiples of 16 bytes.
    pub picked: Option<bool>,
}

fn refuse(knob: &'static str, given: String, allowed: &str) -> Result<(), Error> {
    Err(Error::Knob { knob, given, allowed: allowed.to_owned() })
}

impl Request {
    /// # Errors
    /// [`Error::Knob`] for a value that no kernel has, whatever its other knobs.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(stages) = self.stages.filter(|n| !(2..=MAX_STAGES).contains(n)) {
            return refuse("the number of stages", stages.to_string(), "from 2 to 16");
        }
        if let Some(raster) = self.raster.filter(|r| !(1..=MAX_GROUP).contains(&r.group)) {
            return refuse("the raster's group", raster.group.to_string(), "from 1 to 1024 clusters of tiles");
        }
        if let Some(pending) = self.pending.filter(|n| *n > 1) {
            return refuse("the number of stages whose products are pending", pending.to_string(), "0 or 1");
        }
        if let Some(Staging { step, output_stages, input_stages }) = self.staging {
            if ![8, 16, 32, 64].contains(&step) {
                return refuse("the staging's step", format!("{step} columns"), "8, 16, 32 or 64 columns");
            }
            let most = MAX_STAGES;
            if !(1..=most).contains(&output_stages) || !(1..=most).contains(&input_stages) {
                let given = format!("{output_stages} stages of outputs and {input_stages} of inputs");
                return refuse("the staging", given, "from 1 to 16 stages of each");
            }
            if let Some(tile) = self.tile.filter(|tile| !tile.columns.is_multiple_of(step)) {
                let allowed = format!("one that divides the tile's {} columns", tile.columns);
                return Err(Error::Knob { knob: "the staging's step", given: format!("{step} columns"), allowed });
            }
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::Knob`] for a cluster that no kernel has whose whole lines lie there.
    pub(crate) fn check_cluster(&self, within: Option<Within>) -> Result<(), Error> {
        let Some(Cluster { m, n }) = self.cluster else { return Ok(()) };
        let (blocks, given) = (m.saturating_mul(n), format!("{m}x{n} blocks"));
        match within {
            _ if (1..=Cluster::MOST_PORTABLE).contains(&blocks) => Ok(()),
            Some(Within::Cluster) if (1..=Cluster::MOST_OF_LINES).contains(&blocks) => Ok(()),
            Some(Within::Cluster) => refuse("the cluster", given, "from 1 to 16 blocks in all"),
            Some(Within::Tile) | None => refuse(
                "the cluster",
                given,
                "from 1 to 8 blocks in all; up to 16 are for whole lines in their tiles, with `Finish::Cluster`",
            ),
        }
    }

    /// This request without each one of its knobs, and the reason to give if only that relaxed request has a
    /// kernel.
    pub(crate) fn relaxed(&self) -> [(Self, &'static str); 5] {
        [
            (
                Self { stages: None, ..*self },
                "shared memory has no room for so many stages beside the tile and the epilogue: ask for fewer",
            ),
            (Self { cluster: None, ..*self }, NOT_DIVIDED),
            (
                Self { staging: None, ..*self },
                "the staging's step divides no such tile's columns, or shared memory has no room for its stages: ask for a \
                 smaller step, or fewer stages",
            ),
            (
                Self { stages: None, cluster: None, staging: None, ..*self },
                "stages, cluster and staging together leave no kernel of this tile: ask for less",
            ),
            (
                Self { tile: None, stages: None, cluster: None, staging: None, ..*self },
                "shared memory has no room for this tile and the epilogue: ask for a smaller one",
            ),
        ]
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::new();
        said.extend(self.tile.map(|tile| tile.to_string()));
        said.extend(self.swap_ab.map(|swap_ab| if swap_ab { "rows are N" } else { "rows are M" }.to_owned()));
        said.extend(self.stages.map(|stages| format!("{stages} stages")));
        said.extend(self.cluster.map(|cluster| format!("clusters of {cluster}")));
        said.extend(self.raster.map(|raster| raster.to_string()));
        said.extend(self.pending.map(|pending| format!("{pending} pending")));
        said.extend(self.hints.map(|hints| hints.to_string()));
        said.extend(self.split_k.map(|split_k| split_k.to_string()));
        said.extend(self.staging.map(|staging| staging.to_string()));
        said.extend(self.picked.map(|picked| if picked { "picked rows" } else { "rows copied first" }.to_owned()));
        if said.is_empty() {
            return f.write_str("any settings for sm_90a");
        }
        f.write_str(&said.join(", "))
    }
}

impl fmt::Display for Raster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "groups of {} along {}", self.group, if self.along_n { "N" } else { "M" })
    }
}

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = [("A", self.a), ("B", self.b), ("outputs", self.outputs)]
            .into_iter()
            .filter_map(|(what, hint)| match hint {
                Hint::Normal => None,
                Hint::First => Some(format!("{what} first")),
                Hint::Last => Some(format!("{what} last")),
            })
            .collect::<Vec<_>>();
        if said.is_empty() { f.write_str("no L2 hints") } else { write!(f, "the L2 evicts {}", said.join(", ")) }
    }
}

impl fmt::Display for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, output_stages, input_stages } = self;
        write!(f, "steps of {step} columns in {output_stages} stages of outputs and {input_stages} of inputs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_kernel_has_are_refused_by_name() {
        let text = |request: Request| request.check().expect_err("no kernel has it").to_string();
        let any = Request::default();
        assert_eq!(text(Request { stages: Some(1), ..any }), "the number of stages is 1; it must be from 2 to 16");
        let cluster = |m, n, within| {
            let request = Request { cluster: Some(Cluster { m, n }), ..any };
            request.check_cluster(within).map_err(|error| error.to_string())
        };
        assert_eq!(
            cluster(3, 4, None).expect_err("no kernel has it"),
            "the cluster is 3x4 blocks; it must be from 1 to 8 blocks in all; up to 16 are for whole lines in their tiles, with \
             `Finish::Cluster`"
        );
        assert!(cluster(1, 9, Some(Within::Tile)).is_err() && cluster(2, 4, None).is_ok());
        assert_eq!(
            cluster(1, 17, Some(Within::Cluster)).expect_err("no kernel has it"),
            "the cluster is 1x17 blocks; it must be from 1 to 16 blocks in all"
        );
        assert!(cluster(1, 16, Some(Within::Cluster)).is_ok() && cluster(3, 4, Some(Within::Cluster)).is_ok());
        assert!(cluster(0, 1, Some(Within::Cluster)).is_err() && cluster(1, 0, None).is_err());
        let raster = |group| Request { raster: Some(Raster { group, along_n: true }), ..any };
        assert!(text(raster(0)).ends_with("is 0; it must be from 1 to 1024 clusters of tiles"));
        assert!(raster(1024).check().is_ok());
        assert!(text(Request { pending: Some(2), ..any }).ends_with("is 2; it must be 0 or 1"));
        let staging = |step, output_stages| {
            let staging = Staging { step, output_stages, input_stages: 1 };
            Request { staging: Some(staging), ..any }
        };
        assert_eq!(text(staging(24, 1)), "the staging's step is 24 columns; it must be 8, 16, 32 or 64 columns");
        assert!(text(staging(8, 0)).contains("0 stages of outputs"));
        let tile = Tile::all().iter().copied().find(|tile| tile.columns == 24);
        assert_eq!(
            text(Request { tile, ..staging(16, 1) }),
            "the staging's step is 16 columns; it must be one that divides the tile's 24 columns"
        );
        assert!(any.check().is_ok() && any.to_string() == "any settings for sm_90a");
    }
}
