//! The places of the values that a derivative is made of.

use crate::evt::NodeId;

/// Where an operation's operands and result are: in the forward tree, from which they are computed again if they are needed,
/// or in the backward tree already.
#[derive(Clone, Copy)]
pub(super) enum DerivedFrom<'p> {
    Forward(NodeId, &'p [NodeId]),
    Here(NodeId, &'p [NodeId]),
}
