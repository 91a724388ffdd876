//! The document as plain data. A part refers to nodes by their places in the list. `serde` writes it, reads it, and refuses
//! members that are not listed here. An `Option` may be absent.

use serde::{Deserialize, Serialize};

use super::names::Name;
use crate::expr::Op;
use crate::te::dtype::DType;
use crate::te::expr::axis::AxisKind;
use crate::te::expr::expression::Binary;
use crate::te::loops::ir::stmt::LoopKind;

/// A value of an operation: its node, and which value.
pub(super) type TensorPlace = (usize, usize);
/// A loop of a stage: the nodes of its operation and axis.
pub(super) type LoopPlace = (usize, usize);

/// The members that tell a saved schedule from other JSON. They are read first, whatever else the text holds.
#[derive(Deserialize)]
#[serde(expecting = "an object with `format` and `version`")]
pub(super) struct Header {
    pub(super) format: Option<String>,
    pub(super) version: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) format: String,
    pub(super) version: u64,
    pub(super) nodes: Vec<JsonNode>,
    pub(super) schedule: Stages,
    pub(super) record: Vec<String>,
    pub(super) tensors: Vec<TensorPlace>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "node", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum JsonNode {
    Variable { name: String, r#type: Name<DType>, counter: bool },
    Axis { name: String, kind: Name<AxisKind>, domain: Option<(usize, usize)> },
    Function { name: String, parameters: Vec<String>, body: Body, cuda: Option<String> },
    Reduction(JsonReduction),
    Placeholder { name: String, r#type: Name<DType>, shape: Vec<usize> },
    Compute { name: String, axes: Vec<usize>, body: Vec<usize> },
    Scan(Scan),
    Int { r#type: Name<DType>, value: i64 },
    Float { r#type: Name<DType>, value: String },
    Value { of: usize },
    Binary { op: Name<Binary>, operands: [usize; 2] },
    Apply { op: Name<Op>, operands: Vec<usize> },
    Not { operands: [usize; 1] },
    Likely { operands: [usize; 1] },
    Select { operands: [usize; 3] },
    Cast { r#type: Name<DType>, operands: [usize; 1] },
    Call { function: usize, operands: Vec<usize> },
    Read { operation: usize, value: usize, operands: Vec<usize> },
    Reduced { reduction: usize, index: usize },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JsonReduction {
    pub(super) left: Vec<usize>,
    pub(super) right: Vec<usize>,
    pub(super) result: Vec<usize>,
    pub(super) identity: Vec<usize>,
    pub(super) commutative: bool,
    pub(super) source: Vec<usize>,
    pub(super) init: Vec<usize>,
    pub(super) axes: Vec<usize>,
    pub(super) condition: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scan {
    pub(super) name: String,
    pub(super) axis: usize,
    pub(super) init: Vec<TensorPlace>,
    pub(super) update: Vec<TensorPlace>,
    pub(super) state: Vec<TensorPlace>,
    pub(super) inputs: Vec<TensorPlace>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[serde(
    expecting = "the body of a function is `op`, or `steps`, `names` and `root`; a step is `parameter`, `literal`, \
                     or one of `apply`, `call` and `cast` with `operands`"
)]
pub(super) enum Body {
    Primitive { op: Name<Op> },
    Expression { steps: Vec<JsonStep>, names: Vec<Option<String>>, root: usize },
}

/// A step of a function. Its operands are earlier steps.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum JsonStep {
    Parameter { parameter: usize },
    Literal { literal: String },
    Apply { apply: Name<Op>, operands: Vec<usize> },
    Call { call: usize, operands: Vec<usize> },
    Cast { cast: Name<DType>, operands: [usize; 1] },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stages {
    pub(super) stages: Vec<Stage>,
    pub(super) outputs: Vec<usize>,
    pub(super) groups: Vec<Group>,
    pub(super) scan_groups: Vec<(usize, usize)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stage {
    pub(super) origin: usize,
    pub(super) operation: usize,
    pub(super) relations: Vec<Relation>,
    pub(super) loops: Vec<usize>,
    pub(super) kinds: Vec<(usize, Name<LoopKind>)>,
    pub(super) threads: Vec<(usize, usize)>,
    pub(super) place: JsonPlace,
    pub(super) scan: Option<usize>,
    pub(super) group: Option<usize>,
    pub(super) time: Option<usize>,
    pub(super) scope: Option<String>,
    pub(super) store_predicate: Option<usize>,
    pub(super) env_threads: Vec<usize>,
    pub(super) pragmas: Vec<(usize, String, i64)>,
    /// A dimension, and the factor and offset of its stride.
    pub(super) aligned: Vec<(usize, i64, i64)>,
    pub(super) double_buffer: bool,
    pub(super) rolling_buffer: bool,
    /// A tensor, the loop in which it is fetched, and how many iterations ahead.
    pub(super) prefetches: Vec<(TensorPlace, usize, usize)>,
}

/// A list of axes begins with those that are replaced for `fuse`, and with the one that is replaced for `split`.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[serde(
    expecting = "a relation of loops is `split` of three axes with `factor` or `parts` and with `predicated`; or `fuse` \
                     of three axes; or `singleton` of one"
)]
pub(super) enum Relation {
    Factor { split: [usize; 3], factor: usize, predicated: bool },
    Parts { split: [usize; 3], parts: usize, predicated: bool },
    Fuse { fuse: [usize; 3] },
    Singleton { singleton: usize },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JsonPlace {
    Root,
    Inline,
    At(LoopPlace),
    InitOf(usize),
    UpdateOf(usize),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) parent: Option<Parent>,
    pub(super) at: Option<LoopPlace>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Parent {
    Group(usize),
    Scan(usize),
}
