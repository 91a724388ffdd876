//! A GPU's encoding of tensor maps, which nobody can ask for.

use super::Context;
use crate::error::Result;
use crate::tensor::tensor_map::{Im2colMap, TiledMap};

pub(crate) fn encode(context: &Context, _: &TiledMap<'_>) -> Result<[u8; 128]> {
    match context.none {}
}

pub(crate) fn encode_im2col(context: &Context, _: &Im2colMap<'_>, _: u32) -> Result<[u8; 128]> {
    match context.none {}
}
