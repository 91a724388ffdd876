//! Orders the arguments of a run that are given by tensor: puts them in the order of the kernel's parameters.

use epilogue_runtime::{Device, DeviceTensor};
use smallvec::SmallVec;

use crate::te::error::{RunError, TeError};
use crate::te::expr::tensor::Tensor;

/// For each of `parameters`, in order, the place of its argument in `given`.
///
/// # Errors
/// [`RunError::Argument`], which names the tensors: for a parameter without an argument, a tensor that is given twice,
/// and one that is not a parameter.
pub(crate) fn places(parameters: &[&Tensor], given: &[&Tensor]) -> Result<SmallVec<[usize; 8]>, TeError> {
    for (place, tensor) in given.iter().enumerate() {
        if !parameters.contains(tensor) {
            return Err(stranger(parameters, tensor));
        }
        if given[..place].contains(tensor) {
            let reason = "it is given twice; give every tensor once".to_owned();
            return Err(RunError::Argument { tensor: tensor.name(), reason }.into());
        }
    }
    let is_missing = |parameter: &&Tensor| !given.contains(parameter);
    if parameters.iter().any(is_missing) {
        let missing: Vec<&Tensor> = parameters.iter().copied().filter(is_missing).collect();
        let reason = format!("nothing is given for it; a run takes {}", names(parameters));
        return Err(RunError::Argument { tensor: names(&missing), reason }.into());
    }
    Ok(parameters.iter().filter_map(|parameter| given.iter().position(|tensor| tensor == parameter)).collect())
}

/// Tensors without memory that stand for a run's arguments, given by shape in any order: contiguous, and as aligned as
/// tensors with memory; in the order of the parameters.
///
/// # Errors
/// As [`places`]; shapes that no tensor can have.
pub(crate) fn stand_ins(
    device: &Device,
    parameters: &[&Tensor],
    shapes: &[(&Tensor, &[usize])],
) -> Result<Vec<DeviceTensor>, TeError> {
    let given: Vec<&Tensor> = shapes.iter().map(|(tensor, _)| *tensor).collect();
    let places = places(parameters, &given)?;
    let stand_in = |place: &usize| {
        let (tensor, shape) = shapes[*place];
        Ok(device.without_memory(tensor.dtype().in_memory(), shape)?)
    };
    places.iter().map(stand_in).collect()
}

fn stranger(parameters: &[&Tensor], tensor: &Tensor) -> TeError {
    let name = tensor.name();
    let takes = names(parameters);
    let reason = if parameters.iter().any(|parameter| parameter.name() == name) {
        format!("this is another tensor of that name than the one that the kernel was made from; a run takes {takes}")
    } else {
        format!("the kernel neither reads nor writes it; a run takes {takes}")
    };
    RunError::Argument { tensor: name, reason }.into()
}

fn names(tensors: &[&Tensor]) -> String {
    tensors.iter().map(|tensor| tensor.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::te::placeholder;

    #[test]
    fn every_tensor_is_given_once() {
        let (x, y, z) = (placeholder([4], "x"), placeholder([4], "y"), placeholder([4], "z"));
        let parameters = [&y, &x, &z];
        assert_eq!(places(&parameters, &[&x, &y, &z]), Ok(smallvec![1, 0, 2]));
        let error = |given: &[&Tensor]| places(&parameters, given).map_err(|error| error.to_string());
        let takes = "a run takes y, x, z";
        assert_eq!(error(&[&z]), Err(format!("argument y, x: nothing is given for it; {takes}")));
        assert_eq!(error(&[&x, &y, &x, &z]), Err("argument x: it is given twice; give every tensor once".to_owned()));
        let w = placeholder([4], "w");
        let unknown = format!("argument w: the kernel neither reads nor writes it; {takes}");
        assert_eq!(error(&[&x, &y, &z, &w]), Err(unknown));
        let twin = placeholder([4], "x");
        assert!(error(&[&twin, &y, &z]).is_err_and(|text| text.contains("another tensor of that name")));
    }
}
