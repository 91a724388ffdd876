//! Sums over ranks on the host: in the order of the ranks, so that every run and every rank gets the same bits.

use epilogue_float_mode::in_default_mode;
use half::{bf16, f16};

use crate::error::ranks::CommunicatorError;
use crate::layout::element::ElementType;

/// Whether elements of a type can be summed over ranks.
pub(super) fn check(element: ElementType) -> Result<(), CommunicatorError> {
    use ElementType as E;
    match element {
        E::F64 | E::F32 | E::BF16 | E::F16 | E::I64 | E::I32 => Ok(()),
        E::F8E4M3 | E::F8E5M2 | E::I16 | E::I8 | E::U64 | E::U32 | E::U16 | E::U8 | E::Bool => {
            Err(CommunicatorError::Element { element })
        }
    }
}

/// The sums of packed elements, first to last. Elements of 16 bits are summed in f32 and rounded once; integers wrap.
pub(super) fn sum(element: ElementType, parts: &[&[u8]]) -> Result<Vec<u8>, CommunicatorError> {
    macro_rules! summed {
        ($element:ty, $wide:ty, $widen:expr, $add:expr, $narrow:expr) => {{
            const BYTES: usize = size_of::<$element>();
            let length = parts.first().map_or(0, |first| first.len());
            let read = |part: &[u8], at: usize| -> $wide {
                let mut bytes = [0; BYTES];
                bytes.copy_from_slice(&part[at..at + BYTES]);
                $widen(<$element>::from_ne_bytes(bytes))
            };
            let mut sums = Vec::with_capacity(length);
            for at in (0..length).step_by(BYTES) {
                let all = parts.iter().map(|part| read(part, at));
                let sum: Option<$wide> = all.reduce($add);
                sums.extend($narrow(sum.unwrap_or_default()).to_ne_bytes());
            }
            sums
        }};
    }
    check(element)?;
    Ok(in_default_mode(|| match element {
        ElementType::F64 => summed!(f64, f64, |x| x, |x, y| x + y, |x: f64| x),
        ElementType::F16 => summed!(f16, f32, f16::to_f32, |x, y| x + y, f16::from_f32),
        ElementType::BF16 => summed!(bf16, f32, bf16::to_f32, |x, y| x + y, bf16::from_f32),
        ElementType::I64 => summed!(i64, i64, |x| x, i64::wrapping_add, |x: i64| x),
        ElementType::I32 => summed!(i32, i32, |x| x, i32::wrapping_add, |x: i32| x),
        _ => summed!(f32, f32, |x| x, |x, y| x + y, |x: f32| x),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::element::Element;

    fn sums<T: Element>(parts: &[[T; 2]]) -> Vec<u8> {
        sum(T::TYPE, &parts.iter().map(|part| T::bytes(part)).collect::<Vec<_>>()).expect("summed")
    }

    #[test]
    fn sums_are_in_the_order_of_the_ranks() {
        // The order is seen where it rounds: (2^24 + 1) + 1 is 2^24, and 1 + 1 + 2^24 isn't.
        let big = (1u32 << 24) as f32;
        assert_eq!(sums(&[[big, 1.0], [1.0, 1.0], [1.0, big]]), f32::bytes(&[big, big + 2.0]));
        assert_eq!(sums(&[[0.1f64, 1.0], [0.2, 2.0]]), f64::bytes(&[0.1 + 0.2, 3.0]));
        assert_eq!(sums(&[[i32::MAX, 1], [1, 2]]), i32::bytes(&[i32::MIN, 3]));
        assert_eq!(sums(&[[i64::MAX, 1], [1, 2]]), i64::bytes(&[i64::MIN, 3]));
        // In f16, 2048 + 1 is 2048: the sum is rounded once.
        let [two_k, one] = [2048.0, 1.0].map(f16::from_f32);
        assert_eq!(
            sums(&[[two_k, one], [one, one], [one, one]]),
            f16::bytes(&[f16::from_f32(2050.0), f16::from_f32(3.0)])
        );
        let [big, one] = [256.0, 1.0].map(bf16::from_f32);
        assert_eq!(
            sums(&[[big, one], [one, one], [one, one]]),
            bf16::bytes(&[bf16::from_f32(258.0), bf16::from_f32(3.0)])
        );
        assert!(sum(ElementType::F8E4M3, &[&[0]]).is_err());
    }

    #[test]
    fn sums_are_the_same_in_every_floating_point_mode_of_the_caller() {
        use epilogue_float_mode::testing::{Strange, in_strange_mode};

        let tiny = f32::from_bits(3);
        let parts = [[tiny, 1.0], [tiny, 1e-8]];
        let right = f32::bytes(&[f32::from_bits(6), 1.0]).to_vec();
        for strange in Strange::ALL {
            assert_eq!(in_strange_mode(*strange, || sums(&parts)), right, "{strange:?}");
        }
    }
}
