//! The readers, each with what must hold for an input that it accepts.

use epilogue::te::{self, Schedule, Tensor};
use epilogue_runtime::bundle::Bundle;
use epilogue_runtime::checkpoints::{ActOrder, Awq, CompressedTensors, Gptq, GptqVersion, Torchao};
use epilogue_runtime::gguf::Gguf;
use epilogue_syntax::report::Errors;
use epilogue_syntax::sight::Files;
use proc_macro2::TokenStream;
use ptx_vm::Module;
use safetensors::SafeTensors;

/// Whether every kernel is parsed and decoded.
pub(crate) fn ptx(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else { return false };
    Module::parse(text).is_ok_and(|module| module.refused().next().is_none())
}

pub(crate) fn schedule(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else { return false };
    let Ok((schedule, tensors)) = Schedule::from_json(text) else { return false };
    let tensors: Vec<&Tensor> = tensors.iter().collect();
    let written = schedule.to_json(&tensors).expect("what was read can be written");
    let _ = Schedule::from_json(&written).expect("what was written can be read");
    te::lower(&schedule, &tensors, "main").is_ok_and(|program| !program.script().is_empty())
}

pub(crate) fn bundle(input: &[u8]) -> bool {
    let Ok(bundle) = Bundle::from_bytes(with_right_hash(input.to_vec())) else { return false };
    bundle.kernels().all(|kernel| !kernel.name.is_empty())
}

/// The file with the correct hash of its head and index, as a forger would write it; unchanged if it is too short.
/// The page of `epilogue_runtime::bundle` draws the file.
fn with_right_hash(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(length) = bytes.get(24..32).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes) else {
        return bytes;
    };
    let end = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(72).min(bytes.len());
    if end < 72 {
        return bytes;
    }
    let hash = blake3::Hasher::new().update(&bytes[..40]).update(&bytes[72..end]).finalize();
    bytes[40..72].copy_from_slice(hash.as_bytes());
    bytes
}

/// Whether the header is right. Then every value of metadata can be shown, and every tensor has its values or is of a type
/// that isn't decoded.
pub(crate) fn gguf(input: &[u8]) -> bool {
    let Ok(file) = Gguf::from_bytes(input) else { return false };
    for (name, value) in file.all_metadata() {
        assert!(!name.is_empty() && !format!("{value:?}").is_empty());
        if let Some(array) = value.as_array() {
            assert_eq!(array.iter().count(), array.len());
        }
    }
    for tensor in file.tensors() {
        assert_eq!(&input[tensor.range()], tensor.bytes());
        if let Ok(values) = tensor.decode() {
            assert_eq!(values.len(), tensor.shape().iter().product::<usize>());
        }
    }
    true
}

/// Whether some layer has weights. The names are those of [`crate::seeds::checkpoints`].
pub(crate) fn checkpoint(input: &[u8]) -> bool {
    let Ok(file) = SafeTensors::deserialize(input) else { return false };
    let gptq = |bits, version, act_order| Gptq { bits, group: Some(32), version, act_order };
    let compressed = |bits, group| CompressedTensors { bits, group };
    let made = [
        gptq(4, GptqVersion::V1, ActOrder::Refuse).read(&file, "gptq.v1"),
        gptq(4, GptqVersion::V2, ActOrder::Refuse).read(&file, "gptq.v2"),
        gptq(8, GptqVersion::V1, ActOrder::Refuse).read(&file, "gptq.bytes"),
        gptq(4, GptqVersion::V2, ActOrder::Permute).read(&file, "gptq.act_order"),
        Awq { group: Some(32) }.read(&file, "awq"),
        compressed(4, Some(20)).read(&file, "ct.sym"),
        compressed(4, Some(20)).read(&file, "ct.asym"),
        compressed(4, None).read(&file, "ct.channel"),
        compressed(8, Some(20)).read(&file, "ct.bytes"),
        Torchao::Int4.read(&file, "ao.int4", Some(32)),
        Torchao::IntxUnpacked { bits: 4 }.read(&file, "ao.intx4", Some(32)),
        Torchao::IntxUnpacked { bits: 8 }.read(&file, "ao.intx8", Some(32)),
    ];
    made.iter().flatten().fold(false, |_, weights| {
        let [n, k] = weights.shape();
        assert_eq!(weights.decode().len(), n * k);
        true
    })
}

/// Whether one of the three macros has nothing to say about it.
pub(crate) fn macros(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else { return false };
    let Ok(tokens) = text.parse::<TokenStream>() else { return false };
    let mut accepted = false;
    let mut accepts = |read: &dyn Fn(&mut Errors) -> bool| {
        let mut errors = Errors::default();
        accepted |= read(&mut errors) && errors.is_empty();
    };
    let none = TokenStream::new;
    accepts(&|errors| epilogue_syntax::epilogue(none(), tokens.clone(), Files::default(), errors).is_some());
    accepts(&|errors| epilogue_syntax::closure(tokens.clone(), Files::default(), errors).is_some());
    accepts(&|errors| epilogue_syntax::elementwise(none(), tokens.clone(), Files::default(), errors).is_some());
    accepted
}
