//! The bytes of an epilogue's arguments, as its kernel takes them.

use epilogue_runtime::DeviceTensor;

use super::workspace::{Places, Workspace};
use crate::gemm::emit::arguments::EpilogueArguments;
use crate::gemm::emit::text::Emitted;
use crate::gemm::kernel::parameters::{FieldType, ParameterBytes};
use crate::{Argument, ElementType};

/// Fills a kernel's arguments.
pub(crate) struct Fill<'a> {
    /// The epilogue's, and those of the launch's tail.
    pub(crate) arguments: (&'a [Argument<'a>], &'a [Argument<'a>]),
    pub(crate) batch: usize,
    /// The neighbours that a lane accesses at once.
    pub(crate) neighbours: usize,
}

impl Fill<'_> {
    /// Writes the arguments from `at` on.
    pub(crate) fn put_all(
        &self,
        bytes: &mut ParameterBytes,
        at: usize,
        emitted: &Emitted,
        places: &Places,
        workspace: &Workspace,
    ) {
        let arguments = &emitted.arguments;
        self.put_given(bytes, at, arguments, self.arguments.0);
        if let Some(tail) = &emitted.tail {
            self.put_given(bytes, at + arguments.layout.size(), tail, self.arguments.1);
        }
        let (scratch, counters) = (workspace.scratch.device_address(), workspace.counters.device_address());
        let named =
            arguments.partials.iter().map(|(_, name)| name).zip(places.partials.iter().map(|p| scratch + *p as u64));
        let counted =
            arguments.counters.iter().map(|(_, name)| name).zip(places.counters.iter().map(|c| counters + *c as u64));
        for (name, address) in named.chain(counted) {
            if let Some(field) = arguments.layout.field(name) {
                bytes.put_words(at + field.offset, &[address]);
            }
        }
    }

    /// Writes what a run was given.
    fn put_given(&self, bytes: &mut ParameterBytes, at: usize, emitted: &EpilogueArguments, given: &[Argument<'_>]) {
        for (place, argument) in emitted.fields.iter().zip(given) {
            for name in [&place.input, &place.output].into_iter().flatten() {
                if let Some(field) = emitted.layout.field(name) {
                    self.put(bytes, at + field.offset, field.ty, argument);
                }
            }
        }
    }

    fn put(&self, bytes: &mut ParameterBytes, offset: usize, ty: FieldType, argument: &Argument<'_>) {
        let tensor = match argument {
            Argument::Scalar(value) => {
                match ty {
                    FieldType::Host(ElementType::F64) => bytes.put_bytes(offset, &value.to_le_bytes()),
                    #[expect(clippy::cast_possible_truncation, reason = "rounds to nearest: the arithmetic type")]
                    _ => bytes.put_bytes(offset, &(*value as f32).to_le_bytes()),
                }
                return;
            }
            Argument::Input(tensor) => *tensor,
            Argument::Output(tensor) => &**tensor,
        };
        let address = tensor.device_address();
        match ty {
            FieldType::Tensor(_) => {
                let [batch, row, column] = strides(tensor, 2);
                let vectorised = self.is_vectorised(tensor);
                bytes.put_words(offset, &[address, batch, row, column, u64::from(vectorised)]);
            }
            FieldType::Vector(_) => {
                let [batch, _, stride] = strides(tensor, 1);
                bytes.put_words(offset, &[address, batch, stride]);
            }
            FieldType::Scalar(_) => {
                let [batch, ..] = strides(tensor, 0);
                bytes.put_words(offset, &[address, batch]);
            }
            FieldType::Host(_) | FieldType::Partials(_) | FieldType::Counters => {}
        }
    }

    /// Whether rows of a tensor may be accessed in whole vectors: columns are contiguous, and every row begins at a
    /// multiple of the access width.
    fn is_vectorised(&self, tensor: &DeviceTensor) -> bool {
        let size = tensor.element_type().size();
        let width = (self.neighbours * size).min(16);
        let [batch, row, column] = strides(tensor, 2);
        let extents = &tensor.shape()[tensor.rank() - 2..];
        let aligned = |stride: u64, extent: usize| extent <= 1 || (stride as usize * size).is_multiple_of(width);
        column == 1
            && tensor.device_address().is_multiple_of(width as u64)
            && aligned(row, extents[0])
            && aligned(batch, self.batch)
    }
}

/// Strides of the batch, rows and columns of an argument of `rank` axes, the batch axis aside. Without a batch axis, or
/// with one of one element, all batches share it.
fn strides(tensor: &DeviceTensor, rank: usize) -> [u64; 3] {
    let given = tensor.strides();
    let front = given.len().saturating_sub(rank);
    let mut strides = [0; 3];
    if front > 0 && tensor.shape()[0] > 1 {
        strides[0] = given[0] as u64;
    }
    for (to, from) in strides[3 - rank..].iter_mut().zip(&given[front..]) {
        *to = *from as u64;
    }
    strides
}
