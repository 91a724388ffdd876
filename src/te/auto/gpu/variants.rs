//! The compiled kernels of one expression, one for every key.

use std::hash::Hash;
use std::sync::Arc;

use epilogue_runtime::{Device, Kernel};

use super::emit::field::Field;
use super::emit::frame::Emitted;
use crate::te::error::TeError;
use crate::variants;

/// A compiled kernel.
#[derive(Debug)]
pub(in crate::te::auto) struct Variant {
    pub(in crate::te::auto) fields: Vec<Field>,
    pub(in crate::te::auto) code: Arc<str>,
    pub(in crate::te::auto) kernel: Kernel,
}

/// Compiled kernels by key.
pub(in crate::te::auto) struct Variants<K>(variants::Variants<K, Variant>);

impl<K> Default for Variants<K> {
    fn default() -> Self {
        Self(variants::Variants::default())
    }
}

impl<K: Clone + Eq + Hash> Variants<K> {
    /// The kernel of a key. A new one is compiled from the text that `emit` writes; meanwhile kernels of other keys can
    /// be used.
    pub(in crate::te::auto) fn of(
        &self,
        device: &Device,
        key: &K,
        emit: impl FnOnce() -> Result<Emitted, TeError>,
    ) -> Result<Arc<Variant>, TeError> {
        self.0.get_or_make(key, || {
            let emitted = emit()?;
            let kernel = device.compile(&emitted.source)?;
            Ok(Variant { fields: emitted.fields, code: emitted.source.code.into(), kernel })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::te::error::RunError;

    /// A run of new sizes doesn't wait while a kernel of another key is compiled.
    #[test]
    fn a_kernel_that_is_being_compiled_holds_no_other_up() {
        const LONG: Duration = Duration::from_secs(60);
        let variants = Variants::<&str>::default();
        let device = Device::cpu();
        let refused = || Err(RunError::Failed { reason: "this is not a kernel".to_owned() }.into());
        let ((begun, has_begun), (end, may_end)) = (channel(), channel::<()>());
        std::thread::scope(|scope| {
            let (variants, device) = (&variants, &device);
            scope.spawn(move || {
                let emit = || {
                    begun.send(()).expect("somebody listens");
                    may_end.recv_timeout(LONG).expect("it is let go, by a thread that is not held up");
                    refused()
                };
                assert!(variants.of(device, &"slow", emit).is_err());
            });
            has_begun.recv_timeout(LONG).expect("it begins");
            let (done, others) = channel();
            scope.spawn(move || done.send(variants.of(device, &"other", refused).is_err()));
            let others = others.recv_timeout(LONG);
            end.send(()).expect("somebody listens");
            assert_eq!(others, Ok(true), "it doesn't wait");
        });
    }
}
