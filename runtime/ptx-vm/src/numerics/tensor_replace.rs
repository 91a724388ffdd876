//! Sets single fields of an encoded tensor map, as `tensormap.replace` does (PTX ISA §9.7.9.28).
//!
//! A kernel may change a map that the host encoded, or make one from 128 zero bytes. Meanwhile the fields need not be
//! consistent: [`TensorMap::decode`](super::tensor_map::TensorMap::decode) checks them when a copy uses the map.

use super::swizzle::Swizzle;
use super::tensor_field::{MAXIMUM_RANK, MapField};
use super::tensor_map::{Image, MAP_BYTES, MapElement, TensorMapError};

/// The ISA's numbers of the element types. The missing ones round or pack values, which no copy here supports.
const ELEMENT_TYPES: [(u64, MapElement); 10] = [
    (0, MapElement::U8),
    (1, MapElement::U16),
    (2, MapElement::U32),
    (3, MapElement::S32),
    (4, MapElement::U64),
    (5, MapElement::S64),
    (6, MapElement::F16),
    (7, MapElement::F32),
    (9, MapElement::F64),
    (10, MapElement::Bf16),
];

/// Sets a field of the map in `bytes`, which must be an encoded map or 128 zeros.
///
/// # Errors
/// [`TensorMapError::NotAMap`] for other bytes; [`TensorMapError::ReplacedImages`]; the limit that `value` breaks by
/// itself.
pub fn replace(bytes: &mut [u8; MAP_BYTES], field: MapField, value: u64) -> Result<(), TensorMapError> {
    let mut image = Image::read(bytes)?;
    if image.pixels.is_some() {
        return Err(TensorMapError::ReplacedImages);
    }
    let refused = |allowed| Err(TensorMapError::Field { field, value, allowed });
    match field {
        MapField::GlobalAddress if value.is_multiple_of(16) => image.address = value,
        MapField::GlobalAddress => return Err(TensorMapError::Address(value)),
        MapField::Rank if value < MAXIMUM_RANK as u64 => image.rank = value as u8 + 1,
        MapField::Rank => return Err(TensorMapError::Rank(value as usize + 1)),
        MapField::BoxDim(d) if (1..=256).contains(&value) => image.box_sizes[d] = value as u16,
        MapField::BoxDim(dimension) => return Err(TensorMapError::Box { dimension, size: value as u32 }),
        MapField::GlobalDim(d) => image.sizes[d] = value,
        MapField::GlobalStride(d) => image.strides[d] = value,
        MapField::ElementStride(d) if (1..=8).contains(&value) => image.element_strides[d] = value as u8,
        MapField::ElementStride(dimension) => {
            return Err(TensorMapError::ElementStride { dimension, stride: value as u32 });
        }
        MapField::ElementType => match ELEMENT_TYPES.iter().find(|t| t.0 == value) {
            Some((_, element)) => image.element = *element,
            None => return refused("0 to 7, 9 and 10 (not the types that flush, round to TF32 or pack)"),
        },
        MapField::SwizzleMode => match Swizzle::ALL.get(value as usize) {
            Some(swizzle) => image.swizzle = *swizzle,
            None => return refused("0 to 3"),
        },
        MapField::Interleave | MapField::SwizzleAtomicity if value != 0 => return refused("0"),
        MapField::Interleave | MapField::SwizzleAtomicity => {}
        MapField::FillMode if value < 2 => image.nan_fill = value == 1,
        MapField::FillMode => return refused("0 and 1"),
    }
    *bytes = image.to_bytes();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tensor_map::{Fill, TensorMap, Tiled};
    use super::*;

    fn tiled<'a>() -> Tiled<'a> {
        Tiled {
            element: MapElement::Bf16,
            address: 0x1000,
            sizes: &[1000, 300, 7],
            strides: &[2000, 2000 * 300],
            box_sizes: &[64, 128, 2],
            element_strides: &[1, 2, 1],
            swizzle: Swizzle::Bytes128,
            fill: Fill::Nan,
        }
    }

    #[test]
    fn a_map_made_of_zeros_is_the_one_that_the_host_encodes() {
        let fields = [
            (MapField::GlobalAddress, 0x1000),
            (MapField::Rank, 2),
            (MapField::BoxDim(0), 64),
            (MapField::BoxDim(1), 128),
            (MapField::BoxDim(2), 2),
            (MapField::GlobalDim(0), 1000),
            (MapField::GlobalDim(1), 300),
            (MapField::GlobalDim(2), 7),
            (MapField::GlobalStride(0), 2000),
            (MapField::GlobalStride(1), 2000 * 300),
            (MapField::ElementStride(0), 1),
            (MapField::ElementStride(1), 2),
            (MapField::ElementStride(2), 1),
            (MapField::ElementType, 10),
            (MapField::Interleave, 0),
            (MapField::SwizzleMode, 3),
            (MapField::SwizzleAtomicity, 0),
            (MapField::FillMode, 1),
        ];
        let mut bytes = [0; MAP_BYTES];
        for (n, (field, value)) in fields.into_iter().enumerate() {
            if n < 12 {
                assert!(TensorMap::decode(&bytes).is_err(), "complete after {n} fields");
            }
            replace(&mut bytes, field, value).unwrap();
        }
        assert_eq!(TensorMap::decode(&bytes), TensorMap::new(&tiled()));
    }

    #[test]
    fn fields_of_the_hosts_map_are_replaced() {
        let mut bytes = TensorMap::encode(&tiled()).unwrap();
        replace(&mut bytes, MapField::GlobalAddress, 0x2000).unwrap();
        replace(&mut bytes, MapField::GlobalDim(1), 299).unwrap();
        replace(&mut bytes, MapField::GlobalStride(0), 2016).unwrap();
        let expected = Tiled { address: 0x2000, sizes: &[1000, 299, 7], strides: &[2016, 2000 * 300], ..tiled() };
        assert_eq!(TensorMap::decode(&bytes), TensorMap::new(&expected));
    }

    #[test]
    fn what_does_not_fit_is_refused_at_once_or_when_used() {
        let mut bytes = TensorMap::encode(&tiled()).unwrap();
        let before = bytes;
        for (field, value) in [
            (MapField::GlobalAddress, 8),
            (MapField::Rank, 5),
            (MapField::BoxDim(1), 257),
            (MapField::ElementStride(1), 0),
            (MapField::ElementType, 11),
            (MapField::Interleave, 1),
            (MapField::SwizzleMode, 4),
            (MapField::SwizzleAtomicity, 1),
            (MapField::FillMode, 2),
        ] {
            assert!(replace(&mut bytes, field, value).is_err(), "{field:?} = {value}");
            assert_eq!(bytes, before);
        }
        replace(&mut bytes, MapField::GlobalStride(0), 8).unwrap();
        assert_eq!(TensorMap::decode(&bytes), Err(TensorMapError::Stride { dimension: 1, stride: 8 }));
        assert_eq!(replace(&mut [1; MAP_BYTES], MapField::Rank, 1), Err(TensorMapError::NotAMap));
    }
}
