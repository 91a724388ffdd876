//! The values of a kernel's parameters.

use super::emit::field::Field;
use super::emit::loops::Side;
use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::bind::iteration_space::{LoopLevel, Space, tensor_of};
use crate::te::auto::pattern::reads::Read;
use crate::te::error::TeError;
use crate::te::expr::tensor::Tensor;

/// Computes the values of parameters.
pub(in crate::te::auto) struct ParameterValues<'a> {
    pub(in crate::te::auto) bound: &'a BoundTensors<'a>,
    pub(in crate::te::auto) space: &'a Space,
    pub(in crate::te::auto) outer: &'a [LoopLevel],
    pub(in crate::te::auto) inner: &'a [LoopLevel],
    pub(in crate::te::auto) points: i64,
    pub(in crate::te::auto) vector: i64,
}

impl ParameterValues<'_> {
    pub(in crate::te::auto) fn of(
        &self,
        field: &Field,
        vector_side: Side,
        reads: &[Read],
        parameters: &[Tensor],
    ) -> Result<u64, TeError> {
        let levels = |side: Side| match side {
            Side::Outer => self.outer,
            Side::Inner => self.inner,
        };
        let tensor = |read: usize| tensor_of(parameters, self.bound, &reads[read].tensor);
        Ok(match field {
            Field::Read(read) => match &self.space.reads[*read] {
                Some(steps) => steps.address,
                None => tensor(*read)?.device_address(),
            },
            Field::ReadStep(read, side, level) => levels(*side)[*level].reads[*read] as u64,
            Field::Stride(read, d) => tensor(*read)?.strides()[*d] as u64,
            Field::Extent(read, d) => tensor(*read)?.shape()[*d] as u64,
            Field::Output(output) => self.space.outputs[*output].address,
            Field::OutputStep(output, side, level) => levels(*side)[*level].outputs[*output] as u64,
            Field::Count(side, level) => self.count(levels(*side), *level, *side == vector_side) as u64,
            Field::Divider(side, level) => divider(self.count(levels(*side), *level, *side == vector_side)),
            Field::Points => self.points as u64,
            Field::Size(var) => self.bound.sizes.require(*var)? as u64,
            Field::Minimum(axis) => self.space.minima[*axis] as u64,
            Field::Reduce(_) | Field::Scan(_) | Field::Elements => {
                return Err(TeError::Internal { what: format!("the parameter {field:?} is another kernel's") });
            }
        })
    }

    /// The number of steps of a loop; in chunks if it takes several points at once.
    fn count(&self, levels: &[LoopLevel], level: usize, has_vector: bool) -> i64 {
        let extent = levels[level].extent;
        if has_vector && level + 1 == levels.len() { (extent + self.vector - 1) / self.vector } else { extent }
    }
}

/// `te::Divider` for `d`, as its 8 bytes.
fn divider(d: i64) -> u64 {
    let d = d.clamp(1, i64::from(i32::MAX)).unsigned_abs();
    let log = u64::from(64 - (d - 1).leading_zeros());
    let multiplier = (1u64 << (31 + log)) / d + 1;
    // Little-endian: the multiplier comes first. At d = 1 it is 2^31 + 1.
    (31 + log) << 32 | multiplier
}

#[cfg(test)]
mod tests {
    use super::divider;

    #[test]
    fn quotients_are_exact_below_2_31() {
        let quotient = |n: u32, d: i64| {
            let packed = divider(d);
            ((u64::from(n) * u64::from(packed as u32)) >> (packed >> 32)) as u32
        };
        let interesting: Vec<u32> =
            (0..31).flat_map(|b| [(1u32 << b) - 1, 1 << b, (1 << b) + 1]).chain([i32::MAX as u32]).collect();
        for &d in interesting.iter().filter(|d| **d > 0) {
            for &n in &interesting {
                for n in [n, n / d * d, (n / d * d).saturating_sub(1), n / 3] {
                    assert_eq!(quotient(n, i64::from(d)), n / d, "{n} / {d}");
                }
            }
        }
    }
}
