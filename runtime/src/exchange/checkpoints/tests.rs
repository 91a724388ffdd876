//! Layers of the layouts' own packages (`tests/golden/formats/checkpoints.py`), and layers that are none.

use std::collections::BTreeMap;

use half::f16;
use safetensors::SafeTensors;

use super::*;
use crate::CheckpointError;
use crate::ElementType::{F16, F32, I8, I32, I64, U8};
use crate::formats::IntegerWeights;

const FILE: &[u8] = include_bytes!("../../../../tests/golden/formats/checkpoints.safetensors");

const V1: Gptq = Gptq { bits: 4, group: Some(32), version: GptqVersion::V1, act_order: ActOrder::Refuse };
const V2: Gptq = Gptq { version: GptqVersion::V2, ..V1 };

fn values(file: &SafeTensors<'_>, layer: &str) -> Vec<f32> {
    let view = file.tensor(&format!("{layer}.values")).unwrap();
    view.data().chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
}

#[test]
fn every_layout_has_the_values_of_its_package() {
    let file = SafeTensors::deserialize(FILE).unwrap();
    let compressed = |bits, group| CompressedTensors { bits, group };
    let read = |layer: &str| match layer {
        "gptq.v1" => V1.read(&file, layer),
        "gptq.v2" => V2.read(&file, layer),
        "gptq.bytes" => Gptq { bits: 8, ..V1 }.read(&file, layer),
        "gptq.act_order" => Gptq { act_order: ActOrder::Permute, ..V2 }.read(&file, layer),
        "awq" => Awq { group: Some(32) }.read(&file, layer),
        "ct.sym" | "ct.asym" => compressed(4, Some(20)).read(&file, layer),
        "ct.channel" => compressed(4, None).read(&file, layer),
        "ct.bytes" => compressed(8, Some(20)).read(&file, layer),
        "ao.intx4" => Torchao::IntxUnpacked { bits: 4 }.read(&file, layer, Some(32)),
        "ao.intx8" => Torchao::IntxUnpacked { bits: 8 }.read(&file, layer, Some(32)),
        "ao.int4" => Torchao::Int4.read(&file, layer, Some(32)),
        other => panic!("{other}"),
    };
    let names = file.names();
    let layers: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".values")).collect();
    assert_eq!(layers.len(), 12);
    for layer in layers {
        let weights = read(layer).unwrap();
        assert_eq!(weights.shape()[0], 16);
        assert_eq!(weights.decode(), values(&file, layer), "{layer}");
        let symmetric = matches!(layer, "ct.sym" | "ct.channel" | "ao.intx4" | "ao.intx8" | "ao.int4");
        assert_eq!(weights.zeros().is_none(), symmetric, "{layer}");
        assert_eq!(weights.permutation().is_some(), layer == "gptq.act_order");
    }
}

#[test]
fn a_layer_may_be_in_any_shard() {
    let file = SafeTensors::deserialize(FILE).unwrap();
    let one = |name: &str| safetensors::serialize([(name, file.tensor(name).unwrap())], None).unwrap();
    let names = ["awq.qweight", "awq.qzeros", "awq.scales"];
    let bytes = names.map(one);
    let shards: Vec<SafeTensors<'_>> = bytes.iter().map(|bytes| SafeTensors::deserialize(bytes).unwrap()).collect();
    let weights = Awq { group: Some(32) }.read(&shards[..], "awq").unwrap();
    assert_eq!(weights.decode(), values(&file, "awq"));
    let refused = Awq { group: Some(32) }.read(&shards[..2], "awq").unwrap_err();
    assert_eq!(refused.to_string(), "the checkpoint has no tensor `awq.scales`, which AWQ weights have");
}

/// An act-order gives the weights of the sorted input features, and says which these are.
#[test]
fn an_act_order_is_refused_or_sorted() {
    let file = SafeTensors::deserialize(FILE).unwrap();
    let refused = V2.read(&file, "gptq.act_order").unwrap_err();
    assert!(matches!(refused, CheckpointError::ActOrder { .. }), "{refused}");
    assert!(refused.to_string().contains("read it with `ActOrder::Permute`"));
    let weights = Gptq { act_order: ActOrder::Permute, ..V2 }.read(&file, "gptq.act_order").unwrap();
    let order = weights.permutation().unwrap();
    let of: Vec<i32> = file
        .tensor("gptq.act_order.g_idx")
        .unwrap()
        .data()
        .chunks_exact(4)
        .map(|x| i32::from_le_bytes(x.try_into().unwrap()))
        .collect();
    for (column, feature) in order.iter().enumerate() {
        assert_eq!(of[*feature as usize] as usize, column / 32);
    }
    assert!(order[..32].is_sorted() && order[32..].is_sorted());
}

/// The tensors of a layer, to be changed.
#[derive(Clone)]
struct Parts(BTreeMap<String, (crate::ElementType, Vec<usize>, Vec<u8>)>);

impl Parts {
    fn of(layer: &str) -> Self {
        let file = SafeTensors::deserialize(FILE).unwrap();
        let own = file.iter().filter(|(name, _)| name.starts_with(layer));
        Self(
            own.map(|(name, view)| {
                let element = crate::exchange::safetensors::element(view.dtype()).unwrap();
                (name.to_owned(), (element, view.shape().to_vec(), view.data().to_vec()))
            })
            .collect(),
        )
    }

    fn with(mut self, name: &str, change: impl FnOnce(&mut (crate::ElementType, Vec<usize>, Vec<u8>))) -> Self {
        change(self.0.get_mut(name).unwrap());
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.0.remove(name).unwrap();
        self
    }

    fn read(
        &self,
        read: impl FnOnce(&BTreeMap<&str, StoredTensor<'_>>) -> Result<IntegerWeights, CheckpointError>,
    ) -> Result<IntegerWeights, CheckpointError> {
        let stored = |(element, shape, bytes): &'_ (crate::ElementType, Vec<usize>, Vec<u8>)| {
            (*element, shape.clone(), bytes.clone())
        };
        let all: Vec<_> = self.0.iter().map(|(name, part)| (name.as_str(), stored(part))).collect();
        let map = all
            .iter()
            .map(|(name, (element, shape, bytes))| (*name, StoredTensor::new(*element, shape.clone(), bytes)));
        read(&map.collect())
    }
}

#[test]
fn gptq_layers_that_cannot_be_are_refused() {
    let v1 = |parts: &Parts| parts.read(|all| V1.read(all, "gptq.v1"));
    let good = Parts::of("gptq.v1");
    assert!(v1(&good).is_ok());
    // Without an order, input features are in order.
    assert_eq!(v1(&good.clone().without("gptq.v1.g_idx")).unwrap(), v1(&good).unwrap());
    for name in ["qweight", "qzeros", "scales"] {
        let name = format!("gptq.v1.{name}");
        assert!(matches!(v1(&good.clone().without(&name)), Err(CheckpointError::Missing { .. })));
        let mistyped = good.clone().with(&name, |part| part.0 = I64);
        assert!(matches!(v1(&mistyped), Err(CheckpointError::ElementType { .. })));
        let cut = good.clone().with(&name, |part| part.2.truncate(part.2.len() - 1));
        assert!(matches!(v1(&cut), Err(CheckpointError::Shape { .. })));
        let wide = good.clone().with(&name, |part| part.1 = vec![1, part.1.iter().product()]);
        assert!(matches!(v1(&wide), Err(CheckpointError::Shape { .. } | CheckpointError::Group { .. })), "{name}");
        let flat = good.clone().with(&name, |part| part.1 = vec![part.1.iter().product()]);
        assert!(matches!(v1(&flat), Err(CheckpointError::Shape { .. })));
    }
    let with = |gptq: Gptq| good.read(|all| gptq.read(all, "gptq.v1"));
    for bits in [0, 2, 3, 16, 64] {
        assert!(matches!(with(Gptq { bits, ..V1 }), Err(CheckpointError::Bits { .. })));
    }
    assert!(matches!(with(Gptq { bits: 8, ..V1 }), Err(CheckpointError::Shape { .. })));
    for group in [0, 48, 63, 65, usize::MAX] {
        let refused = with(Gptq { group: Some(group), ..V1 });
        assert!(matches!(refused, Err(CheckpointError::Group { k: 64, .. })), "{group}");
    }
    for group in [Some(16), Some(64), None] {
        assert!(matches!(with(Gptq { group, ..V1 }), Err(CheckpointError::Shape { .. })), "{group:?}");
    }
    // Version 2's zero points, read as version 1's: 15 has no meaning there.
    let refused = Parts::of("gptq.v2").with("gptq.v2.qzeros", |part| part.2[3] = 0xf0);
    let refused = refused.read(|all| V1.read(all, "gptq.v2")).unwrap_err();
    assert!(matches!(refused, CheckpointError::ZeroPoint { .. }), "{refused}");
    assert!(refused.to_string().contains("read it as that"));
}

#[test]
fn orders_that_do_not_fit_the_groups_are_refused() {
    let with = |order: &dyn Fn(i32) -> i32| {
        let bytes: Vec<u8> = (0..64).flat_map(|at| order(at).to_le_bytes()).collect();
        let parts = Parts::of("gptq.v2").with("gptq.v2.g_idx", |part| part.2 = bytes);
        parts.read(|all| Gptq { act_order: ActOrder::Permute, ..V2 }.read(all, "gptq.v2"))
    };
    assert!(with(&|at| at / 32).unwrap().permutation().is_none());
    assert!(with(&|at| at % 2).unwrap().permutation().is_some());
    // Sorted, and uneven; with groups that don't exist.
    let uneven = with(&|at| at / 40).unwrap_err();
    assert!(matches!(uneven, CheckpointError::Uneven { given: 40, group: 32, index: 0, .. }), "{uneven}");
    for order in [&(|at: i32| at / 16) as &dyn Fn(i32) -> i32, &|_| -1, &|_| i32::MAX, &|at| at / 32 - 1, &|at| at] {
        assert!(matches!(with(order), Err(CheckpointError::Uneven { .. })));
    }
}

#[test]
fn other_layouts_that_cannot_be_are_refused() {
    let awq = |parts: &Parts, group| parts.read(|all| Awq { group }.read(all, "awq"));
    let good = Parts::of("awq");
    assert!(matches!(awq(&good, Some(48)), Err(CheckpointError::Group { .. })));
    assert!(matches!(awq(&good, None), Err(CheckpointError::Shape { .. })));
    // GPTQ's and "gemv"'s shapes.
    let turned = good.clone().with("awq.qweight", |part| part.1 = vec![8, 16]);
    assert!(matches!(awq(&turned, Some(4)), Err(CheckpointError::Shape { .. })));
    for bits in [0x7c00u16, 0x7e00, 0xfc00] {
        let scale = good.clone().with("awq.scales", |part| part.2[10..12].copy_from_slice(&bits.to_le_bytes()));
        let refused = awq(&scale, Some(32)).unwrap_err();
        assert!(refused.to_string().contains("scales must be finite numbers"), "{refused}");
    }
    let zero = good.with("awq.scales", |part| part.2.fill(0));
    assert!(awq(&zero, Some(32)).unwrap().decode().iter().all(|x| *x == 0.0));

    let compressed =
        |parts: &Parts, bits, group| parts.read(|all| CompressedTensors { bits, group }.read(all, "ct.asym"));
    let good = Parts::of("ct.asym");
    assert!(compressed(&good, 4, Some(20)).is_ok());
    assert!(matches!(compressed(&good, 3, Some(20)), Err(CheckpointError::Bits { .. })));
    assert!(matches!(compressed(&good, 8, Some(20)), Err(CheckpointError::Shape { .. })));
    assert!(matches!(compressed(&good, 4, Some(16)), Err(CheckpointError::Group { .. })));
    for shape in [[16i64, 48], [16, -1], [-1, 40], [16, i64::MAX], [40, 16], [0, 0]] {
        let bytes: Vec<u8> = shape.iter().flat_map(|extent| extent.to_le_bytes()).collect();
        let other = good.clone().with("ct.asym.weight_shape", |part| (part.0, part.2) = (I64, bytes));
        assert!(matches!(compressed(&other, 4, Some(20)), Err(CheckpointError::Shape { .. })), "{shape:?}");
    }
    let with_order = |of: &dyn Fn(i32) -> i32| {
        let mut parts = good.clone();
        let bytes = (0..40).flat_map(|at| of(at).to_le_bytes()).collect();
        parts.0.insert("ct.asym.weight_g_idx".to_owned(), (I32, vec![40], bytes));
        compressed(&parts, 4, Some(20))
    };
    assert!(with_order(&|_| -1).is_ok() && with_order(&|at| at / 20).is_ok());
    assert!(matches!(with_order(&|at| at % 2), Err(CheckpointError::ActOrder { at: 1, given: 1, needed: 0, .. })));

    let int4 = |parts: &Parts| parts.read(|all| Torchao::Int4.read(all, "ao.int4", Some(32)));
    let float_zero = Parts::of("ao.int4").with("ao.int4._weight_zero_point", |part| part.2[4] = 1);
    assert!(matches!(int4(&float_zero), Err(CheckpointError::ZeroPoint { index: 2, .. })));
    let minus_zero = Parts::of("ao.int4").with("ao.int4._weight_zero_point", |part| part.2[5] = 0x80);
    assert!(int4(&minus_zero).is_ok());
    let unpacked = |parts: &Parts| parts.read(|all| Torchao::IntxUnpacked { bits: 4 }.read(all, "ao.intx4", Some(32)));
    for (byte, is_code) in [(7i8, true), (-8, true), (8, false), (-9, false)] {
        let code = Parts::of("ao.intx4").with("ao.intx4._weight_qdata", |part| part.2[7] = byte.cast_unsigned());
        match unpacked(&code) {
            Ok(_) => assert!(is_code),
            Err(CheckpointError::Code { index: 7, given, least: -8, most: 7, .. }) => {
                assert_eq!((given, is_code), (byte.into(), false));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Extents whose product is 0 may be as large as they like.
#[test]
fn empty_layers_take_no_time_and_no_memory() {
    for n in [0, 8, 1 << 40, 1 << 60] {
        let none: &[u8] = &[];
        let file = BTreeMap::from([
            ("x.qweight", StoredTensor::new(I32, [0, n], none)),
            ("x.qzeros", StoredTensor::new(I32, [0, n / 8], none)),
            ("x.scales", StoredTensor::new(F16, [0, n], none)),
            ("x._weight_qdata", StoredTensor::new(I8, [n, 0], none)),
            ("x._weight_scale", StoredTensor::new(F32, [n, 0], none)),
            ("x._weight_zero_point", StoredTensor::new(I8, [n, 0], none)),
        ]);
        assert_eq!(V1.read(&file, "x").unwrap().shape(), [n, 0]);
        let weights = Gptq { group: None, ..V1 }.read(&file, "x").unwrap();
        assert_eq!((weights.shape(), weights.decode().len()), ([n, 0], 0));
        assert!(Torchao::IntxUnpacked { bits: 4 }.read(&file, "x", None).unwrap().decode().is_empty());
        assert_eq!(Awq { group: None }.read(&file, "x").is_ok(), n == 0);
    }
    let huge = BTreeMap::from([("x.qweight", StoredTensor::new(I32, [usize::MAX, 0], &[]))]);
    assert!(matches!(V1.read(&huge, "x"), Err(CheckpointError::Shape { .. })));
    let bytes = BTreeMap::from([("x.qweight", StoredTensor::new(U8, [usize::MAX, 2], &[]))]);
    assert!(matches!(V1.read(&bytes, "x"), Err(CheckpointError::ElementType { .. })));
}

#[test]
fn codes_of_eight_bits_and_a_middle_zero_point_need_none() {
    let scales: Vec<u8> = [f16::ONE; 4].iter().flat_map(|half| half.to_le_bytes()).collect();
    let codes: Vec<u8> = (0..16).collect(); // four k in a word, for four output features
    let file = BTreeMap::from([
        ("x.qweight", StoredTensor::new(I32, [1, 4], &codes)),
        ("x.qzeros", StoredTensor::new(I32, [1, 1], &[127; 4])),
        ("x.scales", StoredTensor::new(F16, [1, 4], &scales)),
    ]);
    let weights = Gptq { bits: 8, group: None, ..V1 }.read(&file, "x").unwrap();
    assert_eq!((weights.codes(), weights.zeros()), (&codes[..], None));
    assert_eq!(weights.decode()[15], 15.0 - 128.0);
}
